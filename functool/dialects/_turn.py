"""Run the calls of one reply, some of them while the reply is still being written."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import Any

from functool import Context, ToolCall, ToolError, ToolResult, Toolset, Tripwire
from functool.dialects._events import StreamBroken
from functool.dialects._reply import Written


class Turn:
    """Runs the calls of one reply, with one context and one limit of concurrency.

    A call of a read-only tool begins as soon as its arguments are complete, unless the tool may ask
    for approval. No call begins early if any enabled tool is exclusive or takes control.
    """

    def __init__(self, tools: Toolset, context: Context[Any]) -> None:
        self._tools = tools
        self._context = context
        self._begun: dict[int, asyncio.Task[ToolResult]] = {}
        limit = tools.max_concurrency
        self._gate = None if limit is None else asyncio.Semaphore(limit)
        self._pace = asyncio.Lock()
        kinds = [tool.settings for tool in tools.enabled(context)]
        self._early = not any(kind.is_exclusive or kind.takes_control for kind in kinds)
        self.changed = asyncio.Event()
        self.tripped = False  # Whether a guardrail of an early call stopped the run.

    def look(self, calls: list[Written]) -> None:
        """Begin the calls that may begin now, and cancel those that have been refused since."""
        for call in calls:
            task = self._begun.get(call.index)
            if task is not None and call.error is not None:
                task.cancel()
            elif task is None and self._early and call.ready and self._may_begin(call.name):
                task = asyncio.ensure_future(self._answer(call.call))
                task.add_done_callback(lambda _: self.changed.set())
                self._begun[call.index] = task
        self.changed.set()

    def _may_begin(self, name: str) -> bool:
        tool = self._tools.get(name)
        return (
            tool is not None
            and bool(tool.settings.read_only)
            and not tool.requires_approval
            and tool.is_enabled(self._context)
            and not self.tripped
        )

    async def _answer(self, call: ToolCall) -> ToolResult:
        try:
            await self._take_turn()
            async with self._gate or nullcontext():
                return await self._tools.call(call, self._context)
        except Tripwire:
            self.tripped = True
            raise

    async def _take_turn(self) -> None:
        """Let the event loop serve other tasks before each call that begins or is refused.

        One chunk may begin a thousand calls. It takes time to check one, or to find the tools that
        are close to an unknown name.
        """
        async with self._pace:
            await asyncio.sleep(0)

    async def conclude(self, calls: list[Written]) -> list[ToolResult]:
        """Run the remaining calls as `call_all` does, and return every result in order.

        Raises:
            Tripwire: A guardrail stopped the run.
        """
        if self.tripped:
            await self._stop_at_tripwire()
        for call in calls:
            if call.error is not None:
                began = self._begun.get(call.index)
                answer = self._refuse(call.call, call.error, began)
                self._begun[call.index] = asyncio.ensure_future(answer)
        sent = [call.call for call in calls]
        return await self._tools.call_all(sent, self._context, begun=self._begun, gate=self._gate)

    async def _refuse(
        self, call: ToolCall, error: ToolError, began: asyncio.Task[ToolResult] | None
    ) -> ToolResult:
        """Return the result of a refused call. If it had begun, wait for its end first."""
        if began is None:
            await self._take_turn()
            return await self._tools.refuse(call, error, self._context)
        await asyncio.wait({began})
        # The call has sent its events already, so do not let the toolset refuse it again.
        return _result(call, ToolResult.failed(str(error), type=type(error).__name__))

    async def _stop_at_tripwire(self) -> None:
        await asyncio.wait(self._begun.values())
        ended = sorted(self._begun.items())
        failures = [_failure(task) for _, task in ended]
        first = next(wire for wire in failures if isinstance(wire, Tripwire))
        first.results = [task.result() for _, task in ended if _ran(task)]
        raise first

    async def broken(self, calls: list[Written], error: BaseException | None) -> StreamBroken:
        """Cancel the calls that have begun, and return an error that says which calls ran."""
        await self.cancel()
        results = [self._at_break(call) for call in calls]
        ran = sum(_ran(task) for task in self._begun.values())
        cancelled = len(self._begun) - ran
        why = (
            "it ended before the turn did" if error is None else f"{type(error).__name__}: {error}"
        )
        counts = (
            f"of {len(calls)} calls {ran} ran, {cancelled} were cancelled, the rest never began"
        )
        return StreamBroken(f"the stream broke off ({why}); {counts}", results)

    def _at_break(self, call: Written) -> ToolResult:
        task = self._begun.get(call.index)
        if task is not None and _ran(task):
            return task.result()
        what = "never ran" if task is None else "was cancelled while it ran"
        message = f"The call {what}: the model's reply broke off."
        return _result(call.call, ToolResult.failed(message, type="StreamBroken"))

    async def cancel(self) -> None:
        """Cancel the calls that still run, and wait for them to end."""
        for task in self._begun.values():
            task.cancel()
        await asyncio.gather(*self._begun.values(), return_exceptions=True)


def _ran(task: asyncio.Task[ToolResult]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


def _failure(task: asyncio.Task[ToolResult]) -> BaseException | None:
    return task.exception() if task.done() and not task.cancelled() else None


def _result(call: ToolCall, result: ToolResult) -> ToolResult:
    result.call_id = call.id
    return result
