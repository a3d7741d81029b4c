"""An agent as a tool: one text goes in, the agent's answer comes out."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from contextvars import ContextVar
from typing import Any
from weakref import WeakValueDictionary

from functool.call import ToolCall, ToolResult, changed
from functool.context import Context
from functool.errors import DefinitionError, ToolError
from functool.executors import in_thread, inline
from functool.guardrails.asking import callables
from functool.schema.callables import made_here, way_of
from functool.schema.subset import closed
from functool.tool import Tool

MAX_DEPTH = 8
"""How many agents may stand in one another before a call is refused."""

_METHODS = ("run", "ainvoke", "invoke")
_ANSWERS = ("output", "final_output", "text")
_USAGE = ("requests", "input_tokens", "output_tokens", "total_tokens")

_depth: ContextVar[int] = ContextVar("functool_agent_depth", default=0)
_held: ContextVar[frozenset[Any]] = ContextVar("functool_agent_threads", default=frozenset())
_turns: WeakValueDictionary[Any, asyncio.Lock] = WeakValueDictionary()


class AgentTool(Tool):
    """A tool whose body is an agent of any framework.

    `runner(agent, text, context)` runs it, sync, async or as an async generator: what that yields
    is sent as `tool:progress`, and the last is the result of the run. A runner may return a
    `ToolResult`, which is the answer; its `metadata["run"]`, where there is one, is what
    `output_extractor` gets instead, and `metadata["usage"]` is kept. Without a runner the agent's
    own `run`, `ainvoke` or `invoke`, or the agent itself, is called with the text, and the
    `output`, `final_output` or `text` of what it returns is the answer.

    `thread(context)` chooses the conversation that the runner finds as `context.thread`; without it
    that is None, and every call starts fresh. Calls on one thread (the same object, or equal
    strings with one agent) take turns in the order in which they came.

    Raises:
        DefinitionError: What should be called cannot be, or there is neither a runner nor an agent
            that runs.
    """

    def __init__(
        self,
        agent: Any,
        name: str,
        description: str,
        *,
        arg_name: str = "input",
        runner: Callable[[Any, str, Context[Any]], Any] | None = None,
        thread: Callable[[Context[Any]], Any] | None = None,
        output_extractor: Callable[[Any], Any] | None = None,
        on_error_func: Callable[[Exception, Context[Any]], Any] | None = None,
        **options: Any,
    ) -> None:
        try:
            given = [func for func in (runner, thread, output_extractor) if func is not None]
            callables(given, "runner, thread and output_extractor")
            if runner is None and not (callable(agent) or _method_of(agent)):
                raise DefinitionError(
                    f"{type(agent).__name__} has no run, ainvoke or invoke and cannot be called:"
                    " give a runner"
                )
        except DefinitionError as error:
            raise made_here(error, name) from None
        argument = {"type": "string", "description": "What the agent is asked, complete in itself."}
        parameters = closed({arg_name: argument})
        options["on_error_func"] = on_error_func
        super().__init__(name=name, description=description, parameters=parameters, **options)
        self.agent = agent
        self._arg_name = arg_name
        self._runner = runner
        self._thread = thread
        self._extract = output_extractor

    async def run(self, call: ToolCall, context: Context[Any]) -> ToolResult:
        """Run the agent on the text and return its answer.

        Raises:
            ToolError: Agents stand in one another too deep, or the agent waits for its own thread.
        """
        if _depth.get() >= MAX_DEPTH:
            raise ToolError(
                f"Agents have called one another {MAX_DEPTH} deep."
                " Answer without calling another agent."
            )
        assert isinstance(call.arguments, Mapping)
        text = call.arguments[self._arg_name]
        thread = None if self._thread is None else await inline(self._thread, context)
        depth = _depth.set(_depth.get() + 1)
        try:
            async with _turn(self.agent, thread):
                outcome = await self._start(text, context.view(thread=thread))
        finally:
            _depth.reset(depth)
        return await self._concluded(outcome)

    async def _start(self, text: str, context: Context[Any]) -> Any:
        if self._runner is not None:
            outcome = await _begin(self._runner, self.agent, text, context)
        else:
            outcome = await _begin(_method_of(self.agent) or self.agent, text)
        if not hasattr(outcome, "__anext__"):
            return outcome
        last = None
        async with aclosing(outcome) as steps:
            async for last in steps:
                context.emit("tool:progress", value=last)
        return last

    async def _concluded(self, outcome: Any) -> ToolResult:
        given = outcome if isinstance(outcome, ToolResult) else None
        metadata = {} if given is None else dict(given.metadata)
        if given is None and (usage := _usage_of(outcome)):
            metadata["usage"] = usage
        run = metadata.pop("run", outcome)
        if self._extract is not None and (given is None or given.success):
            value = await inline(self._extract, run)
            result = value if isinstance(value, ToolResult) else ToolResult.of(value)
        elif given is not None:
            result = given
        else:
            answers = (getattr(run, name, None) for name in _ANSWERS)
            result = ToolResult.of(next((answer for answer in answers if answer is not None), run))
        merged = {**metadata, **result.metadata}
        merged.pop("run", None)
        return changed(result, metadata=merged)


def _method_of(agent: Any) -> Any:
    """Return what runs an agent, if it has a method of a usual name for that."""
    return next(filter(callable, (getattr(agent, name, None) for name in _METHODS)), None)


async def _begin(func: Callable[..., Any], *args: Any) -> Any:
    """Call what runs an agent: a sync one on a thread, for it may take minutes."""
    is_async = way_of(func) in ("coroutine", "async generator")
    value = await (inline if is_async else in_thread)(func, *args)
    return await value if inspect.isawaitable(value) else value


@asynccontextmanager
async def _turn(agent: Any, thread: Any) -> AsyncIterator[None]:
    """Wait until no other call is on this thread."""
    if thread is None:
        yield
        return
    # A lock belongs to one event loop, a thread's name to one agent.
    name = (id(agent), thread) if isinstance(thread, str) else id(thread)
    key = (id(asyncio.get_running_loop()), name)
    if key in _held.get():
        raise ToolError(
            "The agent is being asked from within its own conversation,"
            " which is waiting for this answer."
        )
    lock = _turns.setdefault(key, asyncio.Lock())
    held = _held.set(_held.get() | {key})
    try:
        async with lock:
            yield
    finally:
        _held.reset(held)


def _usage_of(run: Any) -> dict[str, int]:
    usage: Any = getattr(run, "usage", None)
    if inspect.isroutine(usage):
        usage = usage()
    if not isinstance(usage, Mapping):
        usage = {name: getattr(usage, name, None) for name in _USAGE}
    return {name: count for name in _USAGE if isinstance(count := usage.get(name), int)}
