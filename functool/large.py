"""Work that takes long: on a thread, one at a time, or with turns of other tasks in between."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from time import thread_time
from typing import Any, cast

from functool.call import ToolCall, ToolResult
from functool.errors import ArgumentError
from functool.executors import T, in_thread, limits_around, setting

LARGE = 262_144  # Characters from which on a value is large.

# The event loop that a call has just held for long. Other tasks run before the next call does.
# Mostly there is none, and a call only looks at that.
held: list[asyncio.AbstractEventLoop] = []

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
    with setting(limits_around, ()):
        return cast(T, await in_thread(in_turn_if, True, work, *args))


def in_turn_if(large: bool, work: Callable[..., T], *args: Any) -> T:
    """Return `work(*args)`. Only one thread at a time works on a large value.

    Each holds the interpreter's lock for long, so the event loop would wait for all of them.
    """
    with _turn[0] if large else nullcontext():
        return work(*args)


def noting_hold(work: Callable[..., T], *args: Any, **options: Any) -> T:
    """Return `work(*args, **options)`. Note it if that holds this thread's event loop for long.

    The calls of a turn begin together, and to check each of them may take half a second.
    """
    began = thread_time()
    try:
        return work(*args, **options)
    finally:
        if thread_time() - began > 0.02:  # Seconds. Other tasks should run before the next call.
            with suppress(RuntimeError):  # This thread has no loop.
                held[:] = [loop := asyncio.get_running_loop()]
                # Not in the next turn of the loop, but in the one after it: the next one is free.
                loop.call_soon(loop.call_soon, held.clear)


def drop_frames(result: ToolResult, call: ToolCall) -> None:
    """Remove the tracebacks of the exceptions behind a failure, if they may keep much.

    A host may keep the result of a call for long, and with it the exceptions. The frames of their
    tracebacks keep the arguments. Those of an `ArgumentError` keep nothing else. The exception that
    the caller is handling, if any, is the caller's own: it stays as it is.
    """
    error, done = getattr(result.error, "cause", None), {id(None), id(sys.exception())}
    todo: list[Any] = [error] if isinstance(error, ArgumentError) or is_large(call) else []
    for each in todo:  # It grows on the way.
        if id(each) not in done:  # A call inside may have dropped its frames, and not the others.
            # To assign `__traceback__` could fail: an exception may be frozen.
            done.add(id(each.with_traceback(None)))
            todo += each.__cause__, each.__context__
            todo += each.exceptions if isinstance(each, BaseExceptionGroup) else ()


_turn = [threading.Lock()]
if hasattr(os, "register_at_fork"):  # Threads do not survive a fork.
    os.register_at_fork(after_in_child=lambda: _turn.__setitem__(0, threading.Lock()))
