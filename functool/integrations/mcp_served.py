"""Describe a tool to MCP clients, and write its results in the form of the protocol."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import mcp_types as types
from jsonschema.validators import Draft202012Validator
from referencing import Registry

from functool import (
    ArgumentError,
    DefinitionError,
    FunctionTool,
    Tool,
    ToolError,
    ToolResult,
)
from functool.dialects import mcp as dialect
from functool.executors import in_thread
from functool.integrations.mcp_untrusted import WRAPS, answer_problems
from functool.integrations.values import levels
from functool.large import in_turn_if, is_large

LAST_OLDER = "2025-11-25"
BROKEN_PROMISE = "The tool's answer does not fit its own output schema."
UNWRAP = {"fastmcp": {"wrap_result": True}}
"""In the `_meta` of a result. It tells FastMCP's clients to unwrap the value."""


class Served:
    """A tool as clients see it.

    A value that is not an object is sent as `{"result": value}` in every revision. Since 2026-07-28
    it may be sent bare, but FastMCP's proxy and others refuse that.

    Raises:
        DefinitionError: The name of the tool is not valid in the protocol.
    """

    def __init__(self, tool: Tool) -> None:
        if not dialect.NAME.fullmatch(tool.name):
            rule = f"MCP names are {dialect.NAME.pattern}"
            remedy = "WrapperTool(tool, name=...) gives it another"
            raise DefinitionError(f"tool {tool.name!r} cannot be served: {rule}: {remedy}")
        self.tool = tool
        # An output guardrail may replace the value, so its schema is not published.
        is_guarded = any(level.output_guardrails for level in levels(tool))
        output = None if is_guarded else tool.schema.output
        self._promised = output
        self.wraps = output is not None and output.get("type") != "object"
        # The older revisions need the output schema wrapped, so it is wrapped for the latest, too.
        definition = dialect.definition(tool, LAST_OLDER)
        if output is None:
            definition.pop("outputSchema", None)
        if self.wraps:
            definition["_meta"] = {WRAPS: True}
        self.definition: types.Tool = types.Tool.model_validate(definition)

    @cached_property
    def _fits(self) -> Callable[[Any], bool]:
        """Return a function that says whether a value fits the promised schema.

        Others may have written the schema, unless the tool is a function. It may come from a server
        that is served again, or from a document. `answer_problems` checks such a schema safely.
        """
        schema = self._promised or {}
        if any(isinstance(level, FunctionTool) for level in levels(self.tool)):
            return partial(Draft202012Validator(schema, registry=Registry()).is_valid)
        problems = answer_problems(schema)

        def fits(value: Any) -> bool:
            try:
                return not problems(value)
            except ArgumentError:
                return False

        return fits

    def _checked(self, value: Any) -> tuple[Any, bool]:
        """Return the JSON form of a value, and whether it fits the promised schema."""
        plain = dialect.plain(value)
        return plain, self._fits(plain)

    async def structured(self, value: Any) -> dict[str, Any]:
        """Return the fields of an answer with its structured content, or an empty dict.

        Raises:
            ToolError: The value does not fit the schema of the definition.
        """
        if self._promised is None:
            return {}
        try:
            # In a thread, because a long list takes seconds. Only large ones wait for each other.
            large = is_large(ToolResult(value=value))
            plain, fits = await in_thread(in_turn_if, large, self._checked, value)
        except Exception as error:  # Also if a bad schema of others breaks the check.
            raise ToolError(BROKEN_PROMISE) from error
        if not fits:
            raise ToolError(BROKEN_PROMISE)
        if not self.wraps:
            return {"structuredContent": plain}
        return {"structuredContent": {"result": plain}, "_meta": UNWRAP}


async def answer(result: ToolResult, served: Served | None) -> dict[str, Any]:
    """Return a result as the answer to `tools/call`."""
    structured: dict[str, Any] = {}
    if served is not None and not result.is_error:
        try:
            structured = await served.structured(result.structured)
        except ToolError as error:
            # Clients raise for content that does not fit its schema. An error result tells the
            # model why there is none.
            result = ToolResult.failed(str(error), output=result.output)
    written = dialect.result(replace(result, value=None))
    return {
        "content": written["content"],
        "isError": written["isError"],
        "resultType": "complete",
        **structured,
    }
