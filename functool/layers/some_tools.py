"""Accept what layers and bridges take: a tool, several tools, or a toolset."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeAlias, TypeVar, overload

from functool import DefinitionError, Tool, Toolset

Tools: TypeAlias = Tool | Iterable[Tool] | Toolset
"""Some tools: one, several, or a toolset."""

OneTool = TypeVar("OneTool", bound=Tool)
SameKind = TypeVar("SameKind", Toolset, tuple[Tool, ...])


def one_tool(tool: Tool) -> Tool:
    """Return the tool, after a check that it is one.

    Raises:
        TypeError: It is not a tool.
    """
    if not isinstance(tool, Tool):
        remedy = ": decorate it with @FunctionTool" if callable(tool) else ""
        remedy = ": export each of them" if isinstance(tool, (list, tuple, Toolset)) else remedy
        raise TypeError(f"export takes one tool, not {type(tool).__name__}{remedy}")
    return tool


def one_native(native: Any, kind: type, remedy: str) -> None:
    """Check that what `adopt` was given is one tool of a framework.

    Raises:
        DefinitionError: It is something else. The message ends with `remedy`.
    """
    if isinstance(native, kind):
        return
    given = type(native).__name__
    if isinstance(native, Tool):
        given, remedy = "a tool of functool", "use that as it is"
    wanted = f"{kind.__module__.partition('.')[0]}.{kind.__name__}"
    raise DefinitionError(f"adopt takes one {wanted}, not {given}: {remedy}")


def as_list(tools: Tools) -> list[Tool]:
    """Return some tools as a list.

    Raises:
        DefinitionError: Something is not a tool, or two tools have the same name.
    """
    given: Any = [tools] if isinstance(tools, Tool) else tools
    return list(Toolset(given).values())


@overload
def each(tools: OneTool, change: Callable[[Any], Any]) -> OneTool: ...
@overload
def each(tools: SameKind, change: Callable[[Any], Any]) -> SameKind: ...  # type: ignore[overload-overlap]
@overload
def each(tools: Iterable[Tool], change: Callable[[Any], Any]) -> list[Tool]: ...


def each(tools: Any, change: Callable[[Any], Any]) -> Any:
    """Return the tools, each replaced by `change(tool)`.

    A tool gives a tool, a toolset a toolset, a tuple a tuple. Another iterable gives a list.

    Raises:
        DefinitionError: Something is not a tool, or two tools have the same name.
    """
    if isinstance(tools, Tool):
        return change(tools)
    if isinstance(tools, Toolset):
        return Toolset(map(change, tools.values()), max_concurrency=tools.max_concurrency)
    changed = [change(tool) for tool in as_list(tools)]
    return tuple(changed) if type(tools) is tuple else changed


def around_each(
    tools: Any, make: Callable[[Tool], Any], inner: Callable[[Tool, Tool], Any] | None = None
) -> Any:
    """Return the tools, each with `make(tool)` around its body. The kind of `tools` stays the same.

    A tool that runs the bodies of others, such as `call_tool`, gets `make(other)` around each, or
    `inner(tool, other)`.

    Raises:
        DefinitionError: Something is not a tool, or two tools have the same name.
    """

    def change(tool: Tool) -> Tool:
        return tool.around(_made_for(partial(inner, tool) if inner else make, tool, make))

    return each(tools, change)


def for_tool(func: Any, tool: Tool) -> Any:
    """Return the function around a body for a tool that another tool calls."""
    make = getattr(func, "for_tool", None)
    return func if make is None else make(tool)


def _made_for(make: Callable[[Tool], Any], tool: Tool, own: Any = None) -> Any:
    """Return `own(tool)`, by default `make(tool)`, which says what to put around inner tools."""
    made: Any = partial((own or make)(tool))
    made.for_tool = partial(_made_for, make)
    return made
