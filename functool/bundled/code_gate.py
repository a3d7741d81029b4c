"""Let the calls of a program begin one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Literal

from functool import ToolCall, ToolResult


class Gate(asyncio.Semaphore):
    """Lets calls begin one after the other.

    To check the arguments of hundreds of calls takes seconds, so the event loop does other work in
    between.
    """

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self._turn = asyncio.Lock()

    async def acquire(self) -> Literal[True]:
        """Wait for this call's turn, and for a place."""
        async with self._turn:
            await asyncio.sleep(0)
            return await super().acquire()


class Later:
    """A call that begins when it is awaited."""

    def __init__(self, work: Callable[[ToolCall], Awaitable[ToolResult]], call: ToolCall) -> None:
        self._work = work
        self._call = call

    def __await__(self) -> Generator[Any, Any, ToolResult]:
        return self._work(self._call).__await__()
