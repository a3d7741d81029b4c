"""`Toolset`: tools by name. It answers one call, or all calls of a turn."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import nullcontext, suppress
from copy import deepcopy
from dataclasses import asdict
from typing import Any

from functool.call import ToolCall, ToolFailure, ToolResult, changed, failure_of, wrong_call
from functool.context import Context
from functool.delivery import deliver_last
from functool.errors import (
    DefinitionError,
    ToolDisabledError,
    ToolError,
    Tripwire,
    UnknownToolError,
)
from functool.executors import GRACE_SECONDS, T
from functool.options import checked_limit
from functool.tool import Tool
from functool.wrapper_tool import WrapperTool

_AT_ONCE = 16
"""How many calls of a turn begin before other tasks of the event loop get their turn."""

_STOPPED = "The call was not made, because the run was stopped."


class Toolset(Mapping[str, Tool]):
    """An immutable mapping of names to tools, which also runs calls and emits their events.

    Args:
        tools: The tools, in order.
        max_concurrency: How many calls of one turn may run at the same time; None is no limit.

    Raises:
        DefinitionError: Two tools have the same name, an item is not a tool, or a tool has no
            schema.
    """

    def __init__(self, tools: Iterable[Tool] = (), *, max_concurrency: int | None = None) -> None:
        self.max_concurrency: int | None = checked_limit(max_concurrency, "max_concurrency")
        if isinstance(tools, Tool):
            raise DefinitionError(f"a Toolset takes a list of tools: Toolset([{tools.name}])")
        if not isinstance(tools, Iterable):
            raise _no_tool(tools)
        self._tools: dict[str, Tool] = {}
        for tool in tools.values() if isinstance(tools, Mapping) else tools:
            if not isinstance(tool, Tool):
                raise _no_tool(tool)
            if tool.schema.name in self._tools:
                remedy = "rename one with WrapperTool(tool, name=...)"
                raise DefinitionError(f"two tools are named {tool.name!r}: {remedy}")
            self._tools[tool.name] = tool

    def __getitem__(self, name: str) -> Tool:
        return self._tools[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def __repr__(self) -> str:
        return f"Toolset({list(self)})"

    def filtered(self, keep: Callable[[Tool], bool]) -> Toolset:
        """Return a toolset of the tools for which `keep(tool)` is true."""
        return Toolset(filter(keep, self.values()), max_concurrency=self.max_concurrency)

    def prefixed(self, prefix: str) -> Toolset:
        """Return a toolset of the same tools, with `prefix` before each name."""
        renamed = (WrapperTool(tool, name=prefix + name) for name, tool in self.items())
        return Toolset(renamed, max_concurrency=self.max_concurrency)

    def __or__(self, other: Mapping[str, Tool]) -> Toolset:
        """Return a toolset with the tools of both and the smaller concurrency limit."""
        if not isinstance(other, Toolset):
            return NotImplemented
        limits = filter(None, (self.max_concurrency, other.max_concurrency))
        return Toolset([*self.values(), *other.values()], max_concurrency=min(limits, default=None))

    def enabled(self, context: Context[Any] | None = None) -> list[Tool]:
        """Return the tools that are enabled in this context."""
        return [tool for tool in self.values() if tool.is_enabled(context)]

    def describe(self) -> list[dict[str, Any]]:
        """Return name, description, prompts and parameters of each tool, for a host's templates."""
        return [
            {
                "name": tool.name,
                "display_name": tool.settings.display_name,
                "description": tool.description,
                **asdict(tool.prompts),
                "parameters": deepcopy(tool.schema.parameters),
            }
            for tool in self.values()
        ]

    async def call(self, call: ToolCall, context: Context[Any] | None = None) -> ToolResult:
        """Answer one call. A call of an unknown or disabled tool gets an error result.

        Raises:
            Tripwire: A guardrail stopped the run.
        """
        return await self._run_call(call, self._find(call), Context.of(context), None)

    async def call_all(
        self,
        calls: Iterable[ToolCall],
        context: Context[Any] | None = None,
        *,
        begun: Mapping[int, Awaitable[ToolResult]] = {},
        gate: asyncio.Semaphore | None = None,
    ) -> list[ToolResult]:
        """Answer all calls of a turn and return the results in the same order.

        If a call fails, the others still get their results. Exclusive tools run alone, after the
        others. A tool that takes control cannot be called together with other tools: then no call
        of the turn runs, and each result says why.

        Args:
            calls: The calls.
            context: The context that the calls share.
            begun: Calls that started while the model was still writing: index to pending result.
            gate: The semaphore that the calls in `begun` use. By default `max_concurrency` makes a
                new one.

        Raises:
            Tripwire: A guardrail stopped the run. It is raised after the other calls have ended;
                `.results` holds their results. A call that still had to wait does not begin.
            TypeError: `calls` is a single call.
        """
        if isinstance(calls, ToolCall):
            raise TypeError("a turn is a list of calls: pass [call], or use call or call_sync")
        calls, context = list(calls), Context.of(context)
        tools = [self._find(call) for call in calls]
        conflict = _conflict(tools)
        results: list[ToolResult | None] = [None] * len(calls)
        stops: dict[int, Tripwire] = {}
        if gate is None and self.max_concurrency is not None:
            gate = asyncio.Semaphore(self.max_concurrency)

        alone = [tool is not None and tool.settings.is_exclusive for tool in tools]

        async def answer(index: int) -> None:
            try:
                if index in begun:
                    results[index] = await begun[index]
                    return
                # Calls that begin together all run, whoever stops the run meanwhile.
                has_to_wait = alone[index] or index >= (self.max_concurrency or len(calls))
                async with gate or nullcontext():
                    stopped = ToolError(_STOPPED) if has_to_wait and stops else None
                    work = self._run_call(calls[index], tools[index], context, stopped or conflict)
                    results[index] = await work
            except Tripwire as tripwire:
                stops[index] = tripwire

        await _run_all(answer(index) for index, waits in enumerate(alone) if not waits)
        for index in (i for i, waits in enumerate(alone) if waits):
            await _run_all([answer(index)])
        lost = ToolError("The call cancelled itself.")
        ended = [results[i] or _failed(calls[i], lost) for i in range(len(calls)) if i not in stops]
        if first := next(iter(stops.values()), None):
            first.results = ended
            raise first
        return ended

    async def refuse(
        self, call: ToolCall, error: ToolError, context: Context[Any] | None = None
    ) -> ToolResult:
        """Answer a call with this error instead of running it. The usual events are emitted."""
        return await self._run_call(call, self._find(call), Context.of(context), error)

    def call_sync(self, call: ToolCall, context: Context[Any] | None = None) -> ToolResult:
        """Answer one call from sync code, even if an event loop is already running."""
        return _run(self.call(call, context))

    def call_all_sync(
        self, calls: Iterable[ToolCall], context: Context[Any] | None = None
    ) -> list[ToolResult]:
        """Answer all calls of a turn from sync code, even if an event loop is already running."""
        return _run(self.call_all(calls, context))

    def _run_call(
        self, call: ToolCall, tool: Tool | None, context: Context[Any], refusal: ToolError | None
    ) -> Coroutine[Any, Any, ToolResult]:
        """Run one call, and emit its events if the context has listeners."""
        return (self._observed if context.listened else self._run_one)(call, tool, context, refusal)

    async def _observed(
        self, call: ToolCall, tool: Tool | None, context: Context[Any], refusal: ToolError | None
    ) -> ToolResult:
        view = context.for_call(call, tool.schema if tool is not None else None)
        try:
            await view.announce("tool:pre", input=call.arguments)
            await view.announce("tool:pre:debug", input=call.arguments, call=call)
            result = await self._run_one(call, tool, context, refusal)
        except BaseException as stopped:  # A cancelled call also needs its final event.
            # GeneratorExit means that this coroutine is being closed: it cannot await any more.
            if not isinstance(stopped, GeneratorExit):
                message = str(stopped) or "The call was stopped."
                failure = ToolFailure(type=type(stopped).__name__, message=message)
                await deliver_last(view.announce("tool:error", error=failure, result=None))
            raise
        if result.error is None:
            await view.announce("tool:post", result=result)
        else:
            await view.announce("tool:error", error=result.error, result=result)
        await view.announce("tool:post:debug", result=result, call=call)
        return result

    async def _run_one(
        self, call: ToolCall, tool: Tool | None, context: Context[Any], refusal: ToolError | None
    ) -> ToolResult:
        if tool is None:
            return _failed(call, UnknownToolError(call.name, self))
        if refusal is not None:
            return _failed(call, refusal)
        if not tool.is_enabled(context):
            return _failed(call, ToolDisabledError.of(call.name))
        return await tool.invoke(call, context)

    def _find(self, call: ToolCall) -> Tool | None:
        """Return the tool that a call names, or None if there is none."""
        try:
            return self.get(call.name) if isinstance(call.name, str) else None
        except AttributeError:
            raise wrong_call(call) from None


def _no_tool(given: Any) -> DefinitionError:
    """Return the error for an item of a toolset that is not a tool."""
    if isinstance(given, type):
        remedy = "it is a class, make a tool with it (a ToolModel's .tool() does)"
    elif isinstance(getattr(given, "__func__", None), Tool):  # Since Python 3.13.
        remedy = "write @FunctionTool above @classmethod"
    elif isinstance(given, Toolset):
        remedy = "join toolsets with |, as in Toolset([...]) | other"
    elif callable(given) or isinstance(given, str):
        remedy = "decorate it with @FunctionTool"
    else:
        remedy = "pass a list of tools"
    name = getattr(given, "__name__", type(given).__name__)
    return DefinitionError(f"a Toolset holds tools, not {name}: {remedy}")


def _conflict(tools: list[Tool | None]) -> ToolError | None:
    """Return the error if one of these tools takes control and is not called alone."""
    names = [tool.name for tool in tools if tool is not None and tool.settings.takes_control]
    if not names or len(tools) == 1:
        return None
    why = "takes control and cannot be called together with other tools"
    return ToolError(f"Nothing was run: {names[0]!r} {why}. Call it alone.")


def _failed(call: ToolCall, error: ToolError) -> ToolResult:
    return changed(failure_of(error), call_id=call.id)


async def _run_all(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run all coroutines as tasks until they end.

    If this is cancelled, or if one of them raises, cancel the others and wait for them.
    """
    # Each coroutine gets a task of its own, even a single one: a body may cancel its own task.
    # `asyncio.gather` would then cancel the other calls too.
    tasks: list[asyncio.Task[None]] = []
    try:
        for item in work:
            tasks.append(asyncio.ensure_future(item))
            if len(tasks) % _AT_ONCE == 0:
                await asyncio.sleep(0)
        if tasks:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in tasks:
            if task.done() and not task.cancelled():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine from sync code. If this thread has a running loop, use another thread."""
    run: Callable[[Coroutine[Any, Any, T]], T] = _run_on_thread
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        run = asyncio.run
    return run(work)  # Outside the `except`: an error of `work` must not be chained to that one.


def _run_on_thread(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a new thread and wait for it.

    If the wait is interrupted, cancel the coroutine and give it time to clean up.
    """
    started: Future[asyncio.Task[T]] = Future()
    outcome: Future[T] = Future()

    async def cancellable() -> T:
        started.set_result(asyncio.ensure_future(work))
        return await started.result()

    def drive() -> None:
        try:
            outcome.set_result(asyncio.run(cancellable()))
        except BaseException as error:  # Raised again in the thread that waits.
            outcome.set_exception(error)

    # A daemon thread does not keep the process alive if the call hangs. No executor has daemons.
    run = contextvars.copy_context().run
    thread = threading.Thread(target=run, args=(drive,), name="functool-call-sync", daemon=True)
    try:
        thread.start()
        return outcome.result()
    finally:
        if not outcome.done():
            with suppress(RuntimeError, TimeoutError):  # The work has just ended or never began.
                task = started.result(GRACE_SECONDS)
                task.get_loop().call_soon_threadsafe(task.cancel)
            wait([outcome], GRACE_SECONDS)
