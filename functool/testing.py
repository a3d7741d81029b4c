"""Fakes and checks for testing tools, and for testing hosts that call tools."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from typing_extensions import Unpack

from functool.binding.json_text import linear_pattern
from functool.call import ToolCall, ToolResult, ToolSchema, to_json
from functool.context import Context, ToolEvent
from functool.errors import SchemaError, ToolError
from functool.function_tool import FunctionTool
from functool.schema import docstrings
from functool.schema.hints import signature_of
from functool.schema.json_schema import walk
from functool.schema.strict import codec
from functool.schema_tool import SchemaOptions
from functool.tool import Tool

MAX_DESCRIPTION = 1_024
"""The shortest limit that a provider sets on a tool's description, in characters."""

_PORTABLE = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")
_SNAKE = re.compile(r"_?[a-z][a-z0-9]*(_[a-z0-9]+)*")


class MockTool(Tool):
    """A tool that accepts any arguments and gives every call the same answer.

    Args:
        name: The name for the model.
        description: Tells the model what the tool does.
        return_value: The value of every call; a `ToolResult` is returned unchanged.
        error: Makes every call fail: an exception to raise, or the message of a `ToolError`.
    """

    def __init__(
        self,
        name: str = "mock_tool",
        description: str = "A mock tool.",
        return_value: Any = None,
        error: Exception | str | None = None,
        **options: Unpack[SchemaOptions],
    ) -> None:
        parameters = {"type": "object", "additionalProperties": True}
        super().__init__(name=name, description=description, parameters=parameters, **options)
        self.return_value = return_value
        self.error = error
        self.calls: list[ToolCall] = []

    @property
    def call_count(self) -> int:
        """How many calls reached the body."""
        return len(self.calls)

    @property
    def last_input(self) -> Mapping[str, Any] | None:
        """The arguments of the last call, or None before the first call."""
        arguments = self.calls[-1].arguments if self.calls else None
        return arguments if isinstance(arguments, Mapping) else None

    async def run(self, call: ToolCall, context: Context[Any]) -> ToolResult:
        """Record the call and answer it."""
        self.calls.append(call)
        if self.error is not None:
            raise self.error if isinstance(self.error, Exception) else ToolError(self.error)
        value = self.return_value
        return value if isinstance(value, ToolResult) else ToolResult.of(value)


class EventLog:
    """A listener that keeps every event: `context.subscribe(log)`."""

    def __init__(self) -> None:
        self.events: list[ToolEvent] = []

    def __call__(self, event: ToolEvent) -> None:
        """Keep the event."""
        self.events.append(event)

    @property
    def kinds(self) -> list[str]:
        """The kinds of the events, in order."""
        return [event.kind for event in self.events]


def check_tool(tool: Tool, result: ToolResult | None = None) -> list[str]:
    """Return a list of everything that is wrong with a tool for a model; empty if all is well.

    Args:
        tool: The tool.
        result: A real result of the tool, to compare with its output schema.

    Raises:
        DefinitionError: The tool has no schema, for example because an annotation cannot be
            resolved.
        TypeError: It is not one tool.
    """
    if not isinstance(tool, Tool):
        raise TypeError(f"check_tool takes one tool, not {type(tool).__name__}")
    schema = tool.schema
    found = [*_text_faults(schema.name, schema.description), *_schema_faults(schema)]
    if isinstance(tool, FunctionTool):
        found += _signature_faults(tool.func, schema.plain["properties"])
    if schema.strict:
        found += [f"strict mode encodes {reason}" for reason in _encoded(schema.plain)]
    if result is not None and result.success and schema.output is not None:
        found += _output_faults(schema.output, result.value)
    return found


def _text_faults(name: str, description: str) -> Iterator[str]:
    if not _PORTABLE.fullmatch(name):
        yield f"the name {name!r} is not portable: providers agree on {_PORTABLE.pattern}"
    elif not _SNAKE.fullmatch(name):
        yield f"the name {name!r} is not snake_case"
    if not description.strip():
        yield "the tool has no description: write a docstring"
    elif len(description) > MAX_DESCRIPTION:
        yield f"the description has {len(description)} characters: providers take {MAX_DESCRIPTION}"


def _schema_faults(schema: ToolSchema) -> Iterator[str]:
    from jsonschema import Draft202012Validator as Validator

    try:
        for error in Validator(Validator.META_SCHEMA).iter_errors(schema.parameters):
            where = f"at {error.json_path}: {error.message[:200]}"
            yield f"the schema is not valid JSON Schema 2020-12 {where}"
    except RecursionError:
        yield "the schema is nested too deeply to be compared with JSON Schema 2020-12"
    for name, part in (schema.plain.get("properties") or {}).items():
        if not isinstance(part, Mapping) or not part.get("description"):
            remedy = "describe it in the docstring or the annotation"
            yield f"the parameter {name!r} has no description: {remedy}"
    for pattern in _patterns(schema.plain):
        if linear_pattern(pattern) is None:
            yield f"the pattern {pattern!r} cannot be enforced: the linear engine cannot read it"


def _signature_faults(func: Any, shown: Mapping[str, Any]) -> Iterator[str]:
    parameters = signature_of(func).parameters
    for name, parameter in parameters.items():
        is_shown = name in shown or parameter.kind is parameter.VAR_KEYWORD
        if is_shown and parameter.annotation is parameter.empty:
            yield f"the parameter {name!r} has no annotation: a model may send anything for it"
    for name in docstrings.parse(func.__doc__).params:
        if name not in parameters:
            yield f"the docstring documents {name!r}, which is no parameter"


def _output_faults(schema: Mapping[str, Any], value: Any) -> Iterator[str]:
    from jsonschema import Draft202012Validator
    from referencing import Registry

    with suppress(ValueError):  # A value with an iterator has no JSON form: it is compared itself.
        [value] = json.loads(to_json([value]))
    for error in Draft202012Validator(schema, registry=Registry()).iter_errors(value):
        yield f"the result does not fit the output schema at {error.json_path}: {error.validator}"


def _encoded(plain: Mapping[str, Any]) -> tuple[str, ...]:
    try:
        return tuple(codec(plain).reasons)
    except SchemaError as error:
        return error.reasons


def _patterns(schema: Any) -> Iterator[str]:
    for node in walk(schema):
        if isinstance(node.get("pattern"), str):
            yield node["pattern"]
        if isinstance(node.get("patternProperties"), Mapping):
            yield from node["patternProperties"]
