"""`AgentTool`: an agent as a tool, which gets one text and returns the agent's answer."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from math import inf
from typing import Any
from weakref import WeakValueDictionary

from functool.call import ToolCall, ToolResult, changed
from functool.context import Context
from functool.errors import DefinitionError, ToolError
from functool.executors import in_thread, inline, run_with, setting
from functool.generators import exhaust_async
from functool.guardrails.asking import callables
from functool.guardrails.labels import agents, call_labels
from functool.introspection import at_caller, run_kind, without_partials
from functool.options import refuse_unknown
from functool.schema.subset import closed
from functool.tool import Tool

MAX_DEPTH = 8
"""How deeply agents may call one another before a call is refused."""

_METHODS = ("run", "ainvoke", "invoke")
_USAGE = ("requests", "input_tokens", "output_tokens", "total_tokens")

_held: ContextVar[frozenset[Any]] = ContextVar("functool_agent_threads", default=frozenset())
_locks: WeakValueDictionary[Any, asyncio.Lock] = WeakValueDictionary()
_waits: list[Any] = []  # For each call that waits: the conversations that it has, and the next one.


class AgentTool(Tool):
    """A tool whose body is an agent of any framework.

    `runner(agent, text, context)` runs the agent. It may be sync, async or an async generator. A
    generator's items are sent as `tool:progress`, and its last item is the result of the run. If a
    runner returns a `ToolResult`, this is the answer. Its `metadata["run"]`, if set, is passed to
    `output_extractor`, and its `metadata["usage"]` is kept.

    Without a runner, the agent's `run`, `ainvoke` or `invoke`, or else the agent itself, is called
    with the text. Then the answer is the `output`, `final_output` or `text` of its return value.

    `thread(context)` chooses the conversation, which the runner gets as `context.thread`. Without
    it, `context.thread` is None, and every call starts a new conversation. Calls on one thread (the
    same object, or equal strings and the same agent) run one after another, in order.

    Raises:
        DefinitionError: A given function is not callable, or there is no runner and the agent
            cannot be called.
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
            if not isinstance(arg_name, str) or not arg_name:
                raise DefinitionError(f"arg_name must be a name, not {arg_name!r}")
            given = {"runner": runner, "thread": thread, "output_extractor": output_extractor}
            for option, func in given.items():
                callables([] if func is None else [func], option)
            if runner is None and isinstance(without_partials(agent), Tool):
                remedy = "use WrapperTool(tool, ...), or give a runner"
                raise DefinitionError(f"the agent is a tool: {remedy}")
            if runner is None and not (callable(agent) or _method_of(agent)):
                wrong = "has no run, ainvoke or invoke and cannot be called: give a runner"
                raise DefinitionError(f"{type(agent).__name__} {wrong}")
            refuse_unknown(options.keys() - {"strict", "output"}, type(self), ["parameters"])
        except DefinitionError as error:
            raise at_caller(error, name) from None
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
            ToolError: Agents call one another too deeply, or the agent waits for its own thread.
        """
        if len(agents.get()) >= MAX_DEPTH:
            wrong = f"Agents have called one another {MAX_DEPTH} deep"
            raise ToolError(f"{wrong}. Answer without calling another agent.")
        assert isinstance(call.arguments, Mapping) and context.inner_labels is not None
        text = call.arguments[self._arg_name]
        thread = None if self._thread is None else await inline(self._thread, context)
        context.add_labels(call_labels(call))
        # An agent with a thread remembers what it has read, so its later answers have those labels,
        # and so have those of other agents on this thread. A host may recreate the thread's object.
        names = () if thread is None else (self.name, _key_of(self.agent, thread))
        remembered = "functool.agents"
        try:
            async with _take_turn(self.agent, thread):
                for name in names:
                    context.add_labels(context.state.get(remembered, {}).get(name, ()))
                with setting(agents, (*agents.get(), context.inner_labels)):
                    outcome = await self._run_agent(text, context.view(thread=thread))
        finally:
            for name in names if context.inner_labels else ():
                # Other calls of this agent may have ended meanwhile.
                labels = context.state.setdefault(remembered, {}).setdefault(name, [])
                labels += [n for n in dict.fromkeys(context.inner_labels) if n not in labels]
        return await self._result_of_run(outcome)

    async def _run_agent(self, text: str, context: Context[Any]) -> Any:
        if self._runner is not None:
            outcome = await _call_runner(self._runner, self.agent, text, context)
        else:
            outcome = await _call_runner(_method_of(self.agent) or self.agent, text)
        is_stream = hasattr(outcome, "__anext__")
        return await exhaust_async(outcome, context, most=inf) if is_stream else outcome

    async def _result_of_run(self, outcome: Any) -> ToolResult:
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
            answers = (getattr(run, name, None) for name in ("output", "final_output", "text"))
            result = ToolResult.of(next((answer for answer in answers if answer is not None), run))
        merged = {**metadata, **result.metadata}
        merged.pop("run", None)
        return changed(result, metadata=merged)


def _method_of(agent: Any) -> Any:
    """Return the method that runs an agent, or None if it has no method with a usual name."""
    return next(filter(callable, (getattr(agent, name, None) for name in _METHODS)), None)


async def _call_runner(func: Callable[..., Any], *args: Any) -> Any:
    """Call a function that runs an agent. A sync one runs on a thread, as it may take minutes."""
    is_async = run_kind(func) in ("coroutine", "async generator")
    return await run_with(inline if is_async else in_thread, func, *args)


def _key_of(agent: Any, thread: Any) -> Any:
    """Return what tells a conversation from others. A string names a conversation of one agent."""
    return (id(agent), thread) if isinstance(thread, str) else id(thread)


@asynccontextmanager
async def _take_turn(agent: Any, thread: Any) -> AsyncIterator[None]:
    """Wait until no other call uses this conversation."""
    if thread is None:
        yield
        return
    # A lock can be used on one event loop only.
    name = _key_of(agent, thread)
    key = (id(asyncio.get_running_loop()), name)
    held = _held.get()
    wait = held, key
    if wait not in _waits and _waits_for_one_of(held, {key, name}):
        raise ToolError("The agent cannot be asked: its own conversation waits for this answer.")
    lock = _locks.setdefault(key, asyncio.Lock())
    _waits.append(wait)
    try:
        await lock.acquire()
    finally:
        _waits.remove(wait)
    try:
        with setting(_held, held | {key, name}):
            yield
    finally:
        lock.release()


def _waits_for_one_of(held: frozenset[Any], reached: set[Any]) -> bool:
    """Whether the call that has a conversation waits for one that is held, maybe through others."""
    found = reached if held else set()
    while found:
        reached |= found
        found = {wanted for has, wanted in [*_waits] if not reached.isdisjoint(has)} - reached
    return not reached.isdisjoint(held)


def _usage_of(run: Any) -> dict[str, int]:
    usage: Any = getattr(run, "usage", None)
    if inspect.isroutine(usage):
        usage = usage()
    if not isinstance(usage, Mapping):
        usage = {name: getattr(usage, name, None) for name in _USAGE}
    return {name: count for name in _USAGE if isinstance(count := usage.get(name), int)}
