"""Turn the result of a program's call into its outcome, and bound what the host keeps of all calls.

The host keeps the outcomes of a program until it ends, because a program goes on by running again.
A list or an object takes about ten times as much memory as its JSON text. So the host keeps large
ones as text, except those that a program only holds as `Untrusted` values.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from sys import getsizeof
from typing import Any

from functool import (
    ArgumentError,
    Content,
    GuardrailError,
    TextContent,
    Tool,
    ToolCall,
    ToolDisabledError,
    ToolError,
    ToolResult,
    UnknownToolError,
)
from functool.bundled.code_record import Outcome, digest_of_arguments
from functool.bundled.code_values import ValueProblem, hidden_problems
from functool.call import to_json, valid_text
from functool.guardrails.labels import result_labels
from functool.integrations.values import reached
from functool.json_values import paused_gc_if_long

ONE_OF = 8
"""The JSON text of one list or object may take this part of the memory for all results."""

SMALL = 16_384
"""Up to how many characters of JSON text a list or an object is kept as such."""

_MAX_MESSAGE = 4_000
_REMEDY = "It was not kept: ask for less, or for parts."


class Memory:
    """Count what the host keeps of the results of one program.

    Args:
        most: How many bytes all results may take.
        known: The outcomes that the host keeps already.
    """

    def __init__(self, most: int, known: Iterable[Outcome] = ()) -> None:
        self.most = most
        self._left = most - sum(map(kept_size, known))

    def keep(self, result: ToolResult, as_text: bool) -> dict[str, Any]:
        """Return the value of a successful call, as a part of its outcome.

        `size` is how many bytes the value takes. A large list or object is in `json`, as text, if
        `as_text` is True. Every other value is in `value`.

        Raises:
            ValueProblem: The value is too large, or no JSON.
        """
        value, text = result.value, ""
        if value is None:
            value = result.text or None
        if isinstance(value, str):
            value = valid_text(str.__str__(value))  # A subclass too, as JSON writes it.
        else:
            text = to_json(value)
            if len(text) > self.most // ONE_OF:
                raise ValueProblem(
                    f"its result is more than {mib(self.most // ONE_OF)} of JSON. {_REMEDY}"
                )
            try:
                value = paused_gc_if_long(json.loads, text)
            except ValueError as problem:  # An integer of thousands of digits.
                raise ValueProblem(f"its value is no JSON: {problem}") from None
        found = {"value": value, "size": self._size(value)}
        if as_text and len(text) > SMALL:
            found |= {"value": None, "json": text}
        if (kept := kept_size(found)) > self._left:
            raise ValueProblem(
                f"the results of the program's calls take more than {mib(self.most)}. {_REMEDY}"
            )
        self._left -= kept
        return found

    def _size(self, value: Any) -> int:
        """Return how many bytes a JSON value takes.

        Raises:
            ValueProblem: It takes more than all results may take.
        """
        size, waiting = 0, [value]
        while waiting:
            found = waiting.pop()
            size += getsizeof(found)
            if isinstance(found, dict):
                size += sum(map(getsizeof, found))
                waiting += found.values()
            elif isinstance(found, list):
                waiting += found
            if size > self.most:
                raise ValueProblem(f"its result takes more than {mib(self.most)}. {_REMEDY}")
        return size


def mib(size: int) -> str:
    """Return a number of bytes as a text for people."""
    return f"{size / 1_048_576:g} MiB"


def lightened(result: ToolResult, outcome: Outcome) -> ToolResult:
    """Return a result without a large value, which its outcome has, or which is not kept."""
    if outcome["error"] is not None:
        failure = ToolResult.failed(outcome["error"]).error
        return result if result.error else replace(result, value=None, output=[], error=failure)
    if "json" not in outcome:
        return result
    # If the model reads the same text that the outcome holds, one object serves both.
    same = result.text == outcome["json"]
    output: list[Content] = [TextContent(text=outcome["json"])] if same else result.output
    return replace(result, value=None, output=output)


def kept_size(outcome: Mapping[str, Any]) -> int:
    """Return how many bytes the host keeps of an outcome, which has a value or an error."""
    if outcome.get("error"):
        return getsizeof(outcome["error"])
    return getsizeof(outcome["json"]) if "json" in outcome else int(outcome.get("size", 0))


def value_of(outcome: Outcome) -> Any:
    """Return the value of a call."""
    return paused_gc_if_long(json.loads, outcome["json"]) if "json" in outcome else outcome["value"]


def did_not_run(call: ToolCall, result: ToolResult, tool: Tool | None) -> bool:
    """Whether a call was refused before its body, by validation, a guardrail or a person.

    A body may raise the same errors, but then it may have had an effect.
    """
    cause = None if result.error is None else result.error.cause
    if isinstance(cause, ArgumentError) and tool is not None:
        try:
            for one, made in reached(tool, call):  # `call_tool` leads to another tool.
                one.bind(made.arguments)
        except ToolError as error:
            return isinstance(error, ArgumentError)
    if isinstance(cause, GuardrailError):
        return cause.stage == "input"
    return isinstance(cause, (ToolDisabledError, UnknownToolError))


def outcome_of(call: ToolCall, result: ToolResult, refused: bool, memory: Memory) -> Outcome:
    """Return the outcome of a call, as JSON.

    `outcome` is `done`, `refused` (it did not run) or `failed`.
    """
    sources = [*result_labels(result)]
    outcome: Outcome = {
        "id": call.id,
        "name": call.name,
        "arguments": digest_of_arguments(call.arguments),
        "outcome": "done",
        "error": None,
        "value": None,
        "sources": sources,
    }
    if result.error is not None:
        error = _error_for_program(call, result, sources)[:_MAX_MESSAGE]
        return outcome | {"outcome": "refused" if refused else "failed", "error": error}
    try:
        return outcome | memory.keep(result, as_text=not sources)
    except ValueProblem as problem:
        return outcome | {"outcome": "failed", "error": f"The call took effect, but {problem}"}


def _error_for_program(call: ToolCall, result: ToolResult, sources: list[str]) -> str:
    """Return the error of a failed call as the program reads it.

    If the call has untrusted sources, the message is hidden, because it may repeat what somebody
    else wrote. A person's reason is shown. So is the message of `trusted_only`, which only names
    places and tools.
    """
    assert result.error is not None
    cause, message = result.error.cause, f"{result.error.type}: {result.error.message}"
    decision = result.metadata.get("decision")
    by_person = isinstance(decision, Mapping) and decision.get("approved") is False
    named = isinstance(cause, GuardrailError) and "sources" in (cause.details or {})
    if not sources or by_person or named:
        return message
    if isinstance(cause, ArgumentError):
        places = set(call.metadata.get("sources", {}))
        return f"ArgumentError: {hidden_problems(cause.problems, places, call.arguments)}"
    return f"{call.name} failed. What it said is hidden, for it comes from {', '.join(sources)}."
