"""Work on large results beside the event loop, one at a time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

from functool import TextContent, ToolResult

LARGE = 262_144
"""From how many characters on a result is written, read and copied in a thread, one at a time."""

MANY = 10_000
"""From how many values on a result is copied in a thread."""


def one_large(work: Callable[..., Any], *args: Any) -> Any:
    """Return `work(*args)`. Only one thread at a time works on a large result.

    Reading and writing JSON holds the interpreter's lock. The event loop would wait for all of the
    threads that do it at the same time.
    """
    with _one_large[0]:
        return work(*args)


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


def _new_lock() -> None:
    _one_large[:] = [threading.Lock()]


_one_large: list[threading.Lock] = []
_new_lock()
if hasattr(os, "register_at_fork"):  # In a child nobody would release a lock that was held.
    os.register_at_fork(after_in_child=_new_lock)
