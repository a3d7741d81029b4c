"""Work on large values: on a thread, so that it does not hold the event loop, and one at a time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from typing import Any, TypeVar

from functool.call import ToolCall, ToolResult
from functool.executors import in_thread, limits_around

LARGE = 262_144
"""From how many characters on a value is large."""

T = TypeVar("T")
_ITEM = 26  # Characters that an item of a list or an object counts as.


def is_large(value: ToolCall | ToolResult) -> bool:
    """Whether a call or a result holds so much that a thread should look at it, not the event loop.

    It also counts as large if it cannot be read: the author's value may raise anything.
    """
    if isinstance(value, ToolCall):
        todo: list[Any] = [value.arguments]
    else:
        error = value.error and [value.error.message, value.error.details]
        shown = (getattr(part, "text", getattr(part, "data", None)) for part in value.output)
        todo = [value.value, error, *shown]
    size = 0
    with suppress(Exception):
        for part in todo:  # It grows on the way.
            if isinstance(part, (str, bytes, bytearray)):
                size += len(part)
            elif isinstance(part, (list, tuple, set, frozenset, Mapping)):
                size += _ITEM * len(part)
                if size <= LARGE:
                    todo += part.values() if isinstance(part, Mapping) else part
            if size > LARGE:
                return True
        return False
    return True


async def in_thread_if(large: bool, work: Callable[..., T], *args: Any) -> T:
    """Return `work(*args)`. If it works on a large value, call it on a thread, and in its turn."""
    if not large:
        return work(*args)
    # If the call is cancelled meanwhile, no body goes on: this has no effect.
    token = limits_around.set(())
    try:
        made: T = await in_thread(in_turn_if, True, work, *args)
        return made
    finally:
        limits_around.reset(token)


def in_turn_if(large: bool, work: Callable[..., T], *args: Any) -> T:
    """Return `work(*args)`. Only one thread at a time works on a large value.

    Each holds the interpreter's lock for long, so the event loop would wait for all of them.
    """
    with _turn[0] if large else nullcontext():
        return work(*args)


_turn = [threading.Lock()]
if hasattr(os, "register_at_fork"):  # Threads do not survive a fork.
    os.register_at_fork(after_in_child=lambda: _turn.__setitem__(0, threading.Lock()))
