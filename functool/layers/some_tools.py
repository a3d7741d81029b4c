"""Some tools: a Tool, an iterable of tools, or a Toolset. What comes back is of the same kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, TypeVar, overload

from functool import DefinitionError, Tool, Toolset

SomeTools: TypeAlias = Tool | Iterable[Tool] | Toolset
T = TypeVar("T", bound=Tool)


@overload
def each(tools: T, change: Callable[[Tool], Tool]) -> T: ...
@overload
def each(tools: Toolset, change: Callable[[Tool], Tool]) -> Toolset: ...
@overload
def each(tools: SomeTools, change: Callable[[Tool], Tool]) -> Any: ...


def each(tools: object, change: Callable[[Tool], Tool]) -> object:
    """Return the tools, each changed: a Tool, a Toolset, a tuple, or a list for any other iterable.

    Raises:
        DefinitionError: Something is no tool.
    """
    if isinstance(tools, Tool):
        return change(tools)
    if isinstance(tools, Toolset):
        changed = [change(tool) for tool in tools.values()]
        return Toolset(changed, max_concurrency=tools.max_concurrency)
    if not isinstance(tools, Iterable):
        raise DefinitionError(f"expected a tool, tools or a Toolset, not {type(tools).__name__}")
    given = [*tools]
    for tool in given:
        if not isinstance(tool, Tool):
            raise DefinitionError(f"expected a tool, not {type(tool).__name__}")
    found = [change(tool) for tool in given]
    return tuple(found) if isinstance(tools, tuple) else found
