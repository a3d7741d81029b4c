"""Work on large results beside the event loop, one at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from functool import TextContent, ToolResult

LARGE = 262_144
"""From how many characters on a result is written, read and copied in a thread, one at a time."""

MANY = 10_000
"""From how many values on a result is copied in a thread."""


def is_large(result: ToolResult) -> bool:
    """Whether a result has so many characters or values that a copy of it takes a moment.

    It also counts as large if it cannot be read: the author's value may raise anything.
    """
    try:
        return _is_large(result)
    except Exception:
        return True


def _is_large(result: ToolResult) -> bool:
    waiting: list[Any] = [result.value, *result.output]
    characters = values = 0
    while waiting:
        found = waiting.pop()
        values += 1
        if isinstance(found, TextContent):
            found = found.text
        if isinstance(found, (str, bytes)):
            characters += len(found)
        elif isinstance(found, Mapping):
            waiting += found.values()
        elif isinstance(found, (list, tuple, set, frozenset)):
            waiting += found
        if characters >= LARGE or values + len(waiting) >= MANY:
            return True
    return False
