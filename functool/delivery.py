"""Deliver the events of a context to its listeners."""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from functool.errors import logger

Listeners: TypeAlias = list[tuple[Callable[[Any], object], bool]]
"""Listeners, each with whether it gets the debug events."""


async def deliver(event: Any, listeners: Listeners) -> None:
    """Call each listener with the event, and wait for it. One that raises is logged and skipped.

    If the call is cancelled meanwhile, the other listeners still learn how it has ended. They get
    one second.
    """
    told = [entry for entry in listeners if entry[1] or not event.kind.endswith(":debug")]
    for place, (listen, _) in enumerate(told, start=1):
        try:
            answer = listen(event)
            if inspect.isawaitable(answer):
                await answer
        except (Exception, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task and task.cancelling():
                if event.kind in ("tool:post", "tool:error"):
                    await deliver_last(deliver(event, told[place:]))
                raise
            logger.warning("a listener raised on %s and was skipped", event.kind, exc_info=True)


async def deliver_last(work: Coroutine[Any, Any, None]) -> None:
    """Deliver the final events of a call.

    If the call's task is being cancelled, the listeners get one second. They get it also if the
    task is cancelled again meanwhile, as anyio does: then nobody waits for them.
    """
    if (task := asyncio.current_task()) is None or not task.cancelling():
        await work
    else:
        last = asyncio.ensure_future(work)
        last.get_loop().call_later(1.0, last.cancel)
        await asyncio.wait([last], timeout=1.0)


def deliver_alone(event: Any, listeners: Listeners) -> None:
    """Deliver an event that belongs to no call, so that no call waits for its delivery."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(deliver(event, listeners))
    else:
        task = loop.create_task(deliver(event, listeners))
        _deliveries.add(task)
        task.add_done_callback(_deliveries.discard)


# Deliveries of events that belong to no call. A loop holds only weak references to its tasks, so
# without this set they could be garbage collected.
_deliveries: set[asyncio.Task[None]] = set()


class Mailbox:
    """The queue of one call's events. A task delivers them to the listeners in order."""

    def __init__(self, listeners: Listeners) -> None:
        self._loop = asyncio.get_running_loop()
        self._listeners = listeners
        self._events: deque[Any] = deque()
        self._delivery: asyncio.Task[None] | None = None
        self._closed = False

    def post(self, event: Any) -> None:
        """Queue an event, from any thread. After `close` it is dropped."""
        if not self._closed:
            self._events.append(event)
            self._loop.call_soon_threadsafe(self._send)

    async def close(self) -> None:
        """Wait until every event has been delivered, and take no more."""
        self._send()
        while self._delivery is not None and not self._delivery.done():
            await asyncio.shield(self._delivery)
            self._send()
        self._closed = True

    def _send(self) -> None:
        # With eager tasks, `_delivery` may be done as soon as it is created.
        if self._events and (self._delivery is None or self._delivery.done()):
            self._delivery = self._loop.create_task(self._deliver_all())

    async def _deliver_all(self) -> None:
        while self._events:
            await deliver(self._events.popleft(), self._listeners)
