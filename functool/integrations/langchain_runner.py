"""Run agents of LangChain and LangGraph behind `AgentTool`."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from functool import Context, Decision, ToolCall, ToolError, ToolResult
from functool.integrations._agents import (
    as_it_was,
    decide,
    key_of,
    missing,
    put_back,
    taken_up,
    went_on,
)
from functool.integrations._runs import keeping_context

try:
    from langchain_core.messages import AIMessage, HumanMessage
    from langchain_core.runnables import Runnable, RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.errors import GraphInterrupt
    from langgraph.pregel import Pregel
    from langgraph.types import Command, Interrupt
except ImportError as _error:
    raise missing("LangChain", "langchain") from _error


@keeping_context
async def runner(
    agent: Runnable[Any, Any], text: str, context: Context[Any], **options: Any
) -> ToolResult:
    """Run a graph of LangGraph or a runnable of LangChain. Pass this as the runner of `AgentTool`.

    A graph gets the text as a user's message, `context.deps` as its context, and `context.thread`
    as its `thread_id`. Without a thread, a graph with a checkpointer gets a new `thread_id`.
    Another runnable gets only the text. `options` go to `astream` or `ainvoke`. If the context has
    listeners, a graph's updates and custom events are sent as `tool:progress`.

    If a graph with a checkpointer is interrupted, this call waits for approval. The same call, made
    again, goes on where the graph stopped. A person may edit the call if the interrupt comes from
    an exported tool or from LangChain's `HumanInTheLoopMiddleware`.

    Raises:
        ApprovalRequired: A person has to answer the interrupt of the graph.
        ToolError: A graph without a checkpointer was interrupted, or the thread of the graph has
            gone on since this call stopped.
    """
    if not isinstance(agent, Pregel):
        answer = await agent.ainvoke(text, **options)
        return ToolResult.of(
            getattr(answer, "text", answer), metadata={"usage": _usage([answer]), "run": answer}
        )
    key = key_of(__name__, context, text)
    pause: _Pause | None = taken_up(context, key)
    pausing = isinstance(agent.checkpointer, BaseCheckpointSaver)
    thread = context.thread
    # A checkpointer keeps nothing without a thread.
    if thread is None and pausing:
        thread = pause.thread if pause else uuid.uuid4().hex
    if thread is not None:
        options["config"] = _configured(options.get("config", {}), thread)
    before = pause.before if pause else await _count(agent, options.get("config"))
    given: Any = {"messages": [HumanMessage(text)]}
    while True:
        if pause is not None:
            with put_back(context, key, pause):
                is_gone = await _is_gone(pause, agent, options["config"])
                given = None if is_gone else Command(resume=await _settle(pause, context))
            if given is None:
                raise went_on()
        state, pending = await _run(agent, given, context, options)
        if not pending:
            break
        if not pausing:
            raise ToolError(
                "The agent waits for a person, and cannot go on afterwards:"
                " its graph has no checkpointer."
            )
        pause = _Pause(pending, before, thread)
    messages = state.get("messages", [])
    answer = messages[-1].text if messages else state
    return ToolResult.of(answer, metadata={"usage": _usage(messages[before:]), "run": state})


def _configured(config: RunnableConfig, thread: Any) -> RunnableConfig:
    """Return a configuration with the thread, unless it names one itself."""
    configurable = {"thread_id": thread, **config.get("configurable", {})}
    return {**config, "configurable": configurable}


@dataclass
class _Pause:
    """The interrupts of a graph that is paused, and the decisions about them so far.

    `before` is the number of messages that earlier runs left in the thread. The key of a decision
    is the id of its interrupt and the place of its call in the interrupt.
    """

    pending: list[Interrupt]
    before: int
    thread: Any
    decisions: dict[tuple[str, int], Decision] = field(default_factory=dict)


async def _is_gone(pause: _Pause, agent: Any, config: RunnableConfig) -> bool:
    """Whether the thread of a graph went on. It would give the answers to another call."""
    waiting = {item.id for item in (await agent.aget_state(config)).interrupts}
    return not waiting.issuperset(item.id for item in pause.pending)


async def _count(agent: Pregel[Any, Any, Any, Any], config: RunnableConfig | None) -> int:
    if config is None or agent.checkpointer is None:
        return 0
    return len((await agent.aget_state(config)).values.get("messages", ()))


async def _run(
    agent: Pregel[Any, Any, Any, Any], given: Any, context: Context[Any], options: dict[str, Any]
) -> tuple[dict[str, Any], list[Interrupt]]:
    state: dict[str, Any] = {}
    pending: dict[str, Interrupt] = {}
    try:
        async for mode, item in agent.astream(
            given, context=context.deps, stream_mode=["values", "updates", "custom"], **options
        ):
            if mode == "values":
                state = item if isinstance(item, dict) else {"output": item}
            else:
                context.emit("tool:progress", value=item)
                if mode == "updates" and isinstance(item, dict):
                    pending.update(
                        (interrupt.id, interrupt) for interrupt in item.get("__interrupt__", ())
                    )
    except GraphInterrupt as stop:  # A graph without a checkpointer, inside another graph.
        pending.update((interrupt.id, interrupt) for interrupt in stop.args[0])
    return state, list(pending.values())


async def _settle(pause: _Pause, context: Context[Any]) -> dict[str, Any]:
    """Return the answers to the interrupts of the graph, from the decisions of this context."""
    answers = {}
    for item in pause.pending:
        asked = item.value if isinstance(item.value, dict) else {"value": item.value}
        calls = _calls(item.id, asked)
        for place, call in enumerate(calls):
            if (item.id, place) not in pause.decisions:
                pause.decisions[item.id, place] = await decide(call, context)
        made = [pause.decisions[item.id, place] for place in range(len(calls))]
        answers[item.id] = _answer(asked, calls, made)
    return answers


def _calls(interrupt_id: str, told: dict[str, Any]) -> list[ToolCall]:
    """Return the calls that an interrupt asks about.

    An interrupt that does not ask about a call is treated as a call itself.
    """
    if "action_requests" in told:  # `HumanInTheLoopMiddleware`, for all calls of a turn.
        actions = enumerate(told["action_requests"])
        return [
            ToolCall(name=action["name"], arguments=action["args"], id=f"{interrupt_id}/{place}")
            for place, action in actions
        ]
    if told.get("type") == "tool_approval":  # The same, for one call.
        return [ToolCall(name=told["name"], arguments=told["args"], id=told["tool_call_id"])]
    return [
        ToolCall(
            name=str(told.get("tool", "interrupt")),
            arguments=told.get("arguments", told),
            id=str(told.get("call_id", interrupt_id)),
        )
    ]


def _answer(told: dict[str, Any], calls: list[ToolCall], made: list[Decision]) -> Any:
    """Return the value to resume a graph with: the decisions in the form of the interrupt."""
    if "action_requests" in told:
        pairs = zip(calls, made, strict=True)
        return {"decisions": [_native_decision(call, decision) for call, decision in pairs]}
    if told.get("type") == "tool_approval":
        return _native_decision(calls[0], made[0])
    if "digest" not in told or not made[0].approved:
        return as_it_was(made[0])
    return {**_native_decision(calls[0], made[0]), "digest": told["digest"]}


def _native_decision(call: ToolCall, decision: Decision) -> dict[str, Any]:
    """Return a decision as LangChain writes it."""
    if not decision.approved:
        return {"type": "reject", "message": decision.reason}
    if decision.arguments is None:
        return {"type": "approve"}
    edited = {"name": call.name, "args": dict(decision.arguments)}
    return {"type": "edit", "edited_action": edited}


def _usage(messages: Any) -> dict[str, int]:
    replies = [m for m in messages if isinstance(m, AIMessage)]
    used: list[Mapping[str, Any]] = [m.usage_metadata or {} for m in replies]
    names = ("input_tokens", "output_tokens", "total_tokens")
    return {"requests": len(replies), **{name: sum(u.get(name, 0) for u in used) for name in names}}
