"""Send the messages of a call to the page, and limit how many there are."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from threading import Lock
from typing import Any

MOST = 500
"""How many events of one call reach the page."""

TICK = 0.05
"""Seconds between two deliveries. The page gets only the last progress in between."""

SILENCE = 1.0
"""Seconds of silence after which an empty line is sent, to see whether the page is there."""


class Feed:
    """The messages of one call. Of several progress messages in a row, only the last is kept."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: deque[dict[str, Any]] = deque()
        self._events = 0
        self._woken = asyncio.Event()
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def send(self, message: dict[str, Any]) -> None:
        """Add a message, from any thread. A sync tool runs in one."""
        with self._lock:
            if message["kind"] == "progress":
                if self._waiting and self._waiting[-1]["kind"] == "progress":
                    self._waiting.pop()
            elif message["kind"] in ("event", "step") and not self._counts():
                return
            self._waiting.append(message)
        self._wake()

    def close(self) -> None:
        """End the feed after the messages that are left."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._woken.set)

    async def lines(self, run: Callable[[], Awaitable[None]]) -> AsyncIterator[str]:
        """Run the call, and yield its messages as lines of JSON.

        Cancel it when the reader leaves.
        """
        self._loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(run())
        try:
            while self._waiting or not self._closed:
                if not self._waiting:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._woken.wait(), SILENCE)
                self._woken.clear()
                with self._lock:
                    messages = list(self._waiting)
                    self._waiting.clear()
                lines = [json.dumps(message) for message in messages]
                yield "\n".join(lines) + "\n"
                if not self._closed:
                    await asyncio.sleep(TICK)
            await task
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task

    def _counts(self) -> bool:
        self._events += 1
        if self._events == MOST + 1:
            text = f"after {MOST} events, further ones are not shown"
            self._waiting.append({"kind": "event", "event": text, "tool": "", "data": ""})
        return self._events <= MOST
