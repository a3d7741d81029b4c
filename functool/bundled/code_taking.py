"""Take something in a thread that has to be given back, also if the call ends meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from functool.executors import in_thread

T = TypeVar("T")


async def taken(take: Callable[[], T], give_back: Callable[[T], None]) -> T:
    """Return `take()`, which runs in a thread. The caller has to give it back.

    If this is cancelled, the thread goes on, even after the event loop has ended. Then it gives
    back what it takes.
    """
    found: Future[T] = Future()

    def work() -> None:
        try:
            found.set_result(take())
        except BaseException as error:  # Raised again where the future is read.
            found.set_exception(error)

    def give_back_late(found: Future[T]) -> None:
        if found.exception() is None:
            give_back(found.result())

    try:
        # Shielded, so that a cancelled wait for a place does not count as a body that still runs.
        await asyncio.shield(asyncio.ensure_future(in_thread(work)))
    except BaseException:  # Nobody waits for it any more.
        found.add_done_callback(give_back_late)
        raise
    return found.result()
