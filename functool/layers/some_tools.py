"""What layers and bridges take: a tool, several tools, or a toolset."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, TypeVar, overload

from functool import Tool, Toolset

Tools: TypeAlias = Tool | Iterable[Tool] | Toolset
"""Some tools: one, several, or a toolset."""

OneTool = TypeVar("OneTool", bound=Tool)


def one_tool(tool: Tool) -> Tool:
    """Return a tool as it is.

    Raises:
        TypeError: It is no tool.
    """
    if not isinstance(tool, Tool):
        remedy = ": decorate it with @FunctionTool" if callable(tool) else ""
        raise TypeError(f"export takes one tool, not {type(tool).__name__}{remedy}")
    return tool


def as_list(tools: Tools) -> list[Tool]:
    """Return some tools as a list.

    Raises:
        DefinitionError: Something is no tool, or two tools have one name.
    """
    given: Any = [tools] if isinstance(tools, Tool) else tools  # A Toolset takes another one too.
    return list(Toolset(given).values())


@overload
def each(tools: OneTool, change: Callable[[Any], Any]) -> OneTool: ...
@overload
def each(tools: Toolset, change: Callable[[Any], Any]) -> Toolset: ...
@overload
def each(tools: Iterable[Tool], change: Callable[[Any], Any]) -> list[Tool]: ...


def each(tools: Any, change: Callable[[Any], Any]) -> Any:
    """Return the same kind of tools, each as `change(tool)` returns it.

    Of another iterable, a list.

    Raises:
        DefinitionError: Something is no tool, or two tools have one name.
    """
    if isinstance(tools, Tool):
        return change(tools)
    if isinstance(tools, Toolset):
        return Toolset(map(change, tools.values()), max_concurrency=tools.max_concurrency)
    changed = [change(tool) for tool in as_list(tools)]
    return tuple(changed) if type(tools) is tuple else changed
