"""Offer Normandy's registry and executor, for Python users who know them from Elixir.

Results are `Ok(value)` and `Err(text)`. Only a `Tripwire` is raised. One thing differs on purpose:
Normandy drops keys that a tool does not know. Here they are refused. If a misspelt argument were
dropped, the tool would run with a default that nobody asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any

from functool import (
    Context,
    Tool,
    ToolCall,
    ToolDisabledError,
    ToolModel,
    Toolset,
    Tripwire,
    WrapperTool,
)
from functool.time_limit import checked_timeout
from functool.tool_model import Err, Ok

DEFAULT_TIMEOUT = 30_000
"""Normandy's time limit, in milliseconds."""

# The message of these errors is the text of `Err`, like the reason in Normandy's
# `{:error, reason}`. Other errors were raised by the body.
_REASONS = ("ToolError", "ArgumentError", "GuardrailError", "ApprovalRequired", "ToolDisabledError")

OneTool = Tool | type[ToolModel]
Call = tuple[str, Mapping[str, Any] | None]
"""The name of a tool and its input."""


class Registry:
    """Tools by name. Registering a name again replaces its tool, as in Normandy."""

    def __init__(self, tools: OneTool | Iterable[OneTool] | Toolset = ()) -> None:
        self._tools: dict[str, Tool] = {}
        given = [tools] if isinstance(tools, Tool | type) else tools
        for tool in given.values() if isinstance(given, Toolset) else given:
            self.register(tool)

    def register(self, tool: OneTool) -> Registry:
        """Add a tool, or the tool of a `ToolModel` class. Return this registry."""
        made = tool if isinstance(tool, Tool) else tool.tool()
        self._tools[made.name] = made
        return self

    def get(self, name: str) -> Ok[Tool] | Err:
        """Return the tool, or an `Err` if there is none of this name."""
        return (
            Ok(self._tools[name])
            if name in self._tools
            else Err(f"Tool '{name}' not found in registry")
        )

    def names(self) -> list[str]:
        """Return the names, in the order in which they were registered."""
        return [*self._tools]

    def count(self) -> int:
        """Return the number of tools."""
        return len(self._tools)

    def to_tool_schemas(self) -> list[dict[str, Any]]:
        """Return the definitions for a model: `name`, `description` and `input_schema` of each."""
        return [
            {
                "name": tool.name,
                "description": tool.description,
                "input_schema": deepcopy(tool.schema.parameters),
            }
            for tool in self._tools.values()
        ]

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def list(self) -> list[Tool]:
        """Return the tools, in the order in which they were registered."""
        return [*self._tools.values()]


async def execute(
    registry: Registry,
    name: str,
    input: Mapping[str, Any] | None = None,
    *,
    timeout: float | None = None,
    context: Context[Any] | None = None,
) -> Ok[Any] | Err:
    """Run one tool.

    Args:
        registry: The registry of the tool.
        name: The tool's name.
        input: The arguments. None stands for no arguments.
        timeout: The time limit in milliseconds. By default the tool's own limit, or 30,000.
        context: The context of the call.
    """
    match registry.get(name):
        case Err() as missing:
            return missing
        case Ok(tool):
            pass
    if not tool.is_enabled(context):
        return Err(str(ToolDisabledError.of(tool.name)))
    own = None if tool.timeout is None else tool.timeout * 1_000
    limit = timeout if timeout is not None else own if own is not None else DEFAULT_TIMEOUT
    limited = WrapperTool(tool, timeout=checked_timeout(limit / 1_000))
    result = await limited.invoke(
        ToolCall(name=name, arguments={} if input is None else input), context
    )
    if result.error is None:
        # After `shown_as` a model may read only the output. A body may also give nothing else.
        is_shown = result.structured is None and bool(result.output)
        return Ok(result.text if is_shown else result.structured)
    if result.error.type == "ToolTimeoutError":
        return Err(f"Tool execution timeout after {limit if own is None else min(limit, own):g}ms")
    if result.error.type in _REASONS:
        return Err(result.error.message)
    return Err(
        f"Tool execution failed: {result.error.message.removeprefix(f'{result.error.type}: ')}"
    )


async def execute_parallel(
    registry: Registry,
    calls: Iterable[Call],
    *,
    timeout: float | None = None,
    context: Context[Any] | None = None,
) -> list[Ok[Any] | Err]:
    """Run several tools at the same time. Return their results in the order of the calls.

    Raises:
        Tripwire: A call stopped the run. The others have ended, and `.results` holds their results.
    """
    runs = (
        execute(registry, name, input, timeout=timeout, context=context) for name, input in calls
    )
    ended = await asyncio.gather(*runs, return_exceptions=True)
    results = [one for one in ended if not isinstance(one, BaseException)]
    for raised in ended:
        if isinstance(raised, Tripwire):
            raised.results = results
        if isinstance(raised, BaseException):
            raise raised
    return results


async def execute_sequential(
    registry: Registry,
    calls: Iterable[Call],
    *,
    timeout: float | None = None,
    context: Context[Any] | None = None,
) -> list[Ok[Any] | Err]:
    """Run tools one after the other. Stop at the first error, which is then the last result."""
    results: list[Ok[Any] | Err] = []
    for name, input in calls:
        results.append(await execute(registry, name, input, timeout=timeout, context=context))
        if isinstance(results[-1], Err):
            break
    return results
