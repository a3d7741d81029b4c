"""What every layer takes and gives back: a tool, several tools, or a toolset."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, overload

from functool import Tool, Toolset

OneTool = TypeVar("OneTool", bound=Tool)


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
    known = Toolset(tools.values() if isinstance(tools, Mapping) else tools)
    changed = [change(tool) for tool in known.values()]
    return tuple(changed) if type(tools) is tuple else changed
