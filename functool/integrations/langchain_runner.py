"""LangChain and LangGraph: their agents behind `AgentTool`."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from functool import ApprovalRequired, Context, Decision, ToolCall, ToolError, ToolResult
from functool.integrations._agents import as_it_was, decide, key_of

try:
    from langchain_core.messages import AIMessage, HumanMessage
    from langchain_core.runnables import Runnable, RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.errors import GraphInterrupt
    from langgraph.pregel import Pregel
    from langgraph.types import Command, Interrupt
except ImportError as _error:
    raise ImportError(
        "the LangChain integration needs: pip install 'functool[langchain]'"
    ) from _error


async def runner(
    agent: Runnable[Any, Any], text: str, context: Context[Any], **options: Any
) -> ToolResult:
    """Run a graph of LangGraph, or any runnable of LangChain: the runner for `AgentTool`.

    A graph gets the text as a user's message, `context.deps` as its context, and `context.thread`
    as its `thread_id` (one with a checkpointer a new one, where there is none); another runnable
    gets the text. `options` go to `astream` or `ainvoke`. While somebody listens, a graph's updates
    and custom events are sent as `tool:progress`. An interrupt of a graph with a checkpointer makes
    this call wait for approval, and the same call goes on where the graph stopped. The interrupts
    of an exported tool and of LangChain's `HumanInTheLoopMiddleware` take an edited call.

    Raises:
        ApprovalRequired: A person has to agree to what interrupted the graph.
        ToolError: A graph without a checkpointer was interrupted.
    """
    if not isinstance(agent, Pregel):
        answer = await agent.ainvoke(text, **options)
        return ToolResult.of(
            getattr(answer, "text", answer), metadata={"usage": _usage([answer]), "run": answer}
        )
    key = key_of(__name__, context, text)
    pause: _Pause | None = context.state.pop(key, None)
    pausing = isinstance(agent.checkpointer, BaseCheckpointSaver)
    thread = context.thread
    # Without a thread, a checkpointer keeps nothing.
    if thread is None and pausing:
        thread = pause.thread if pause else uuid.uuid4().hex
    if thread is not None:
        options["config"] = _configured(options.get("config", {}), thread)
    before = pause.before if pause else await _count(agent, options.get("config"))
    given: Any = {"messages": [HumanMessage(text)]}
    while True:
        if pause is not None:
            try:
                given = Command(resume=await _settle(pause, context))
            except ApprovalRequired:
                context.state[key] = pause
                raise
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
    """Return a configuration with the thread, where it names none itself."""
    configurable = {"thread_id": thread, **config.get("configurable", {})}
    return {**config, "configurable": configurable}


@dataclass
class _Pause:
    """Where a graph was interrupted, and what was decided about it so far.

    `before` is how many messages of earlier runs the thread has; a decision stands under its
    interrupt and the place of its call in that.
    """

    pending: list[Interrupt]
    before: int
    thread: Any
    decisions: dict[tuple[str, int], Decision] = field(default_factory=dict)


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
    except GraphInterrupt as stop:  # A graph without a checkpointer, inside of another one.
        pending.update((interrupt.id, interrupt) for interrupt in stop.args[0])
    return state, list(pending.values())


async def _settle(pause: _Pause, context: Context[Any]) -> dict[str, Any]:
    """Return the answers to what interrupted the graph, by the decisions of this context."""
    answers = {}
    for item in pause.pending:
        told = item.value if isinstance(item.value, dict) else {"value": item.value}
        calls = _calls(item.id, told)
        for place, call in enumerate(calls):
            if (item.id, place) not in pause.decisions:
                pause.decisions[item.id, place] = await decide(call, context)
        made = [pause.decisions[item.id, place] for place in range(len(calls))]
        answers[item.id] = _answer(told, calls, made)
    return answers


def _calls(interrupt_id: str, told: dict[str, Any]) -> list[ToolCall]:
    """Return the calls that an interrupt asks about.

    An interrupt that is no approval stands for a call of itself.
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
    """Return what resumes a graph: what was decided about its calls, as the interrupt wants it."""
    if "action_requests" in told:
        pairs = zip(calls, made, strict=True)
        return {"decisions": [_in_words(call, decision) for call, decision in pairs]}
    if told.get("type") == "tool_approval":
        return _in_words(calls[0], made[0])
    if "digest" not in told or not made[0].approved:
        return as_it_was(made[0])
    return {**_in_words(calls[0], made[0]), "digest": told["digest"]}


def _in_words(call: ToolCall, decision: Decision) -> dict[str, Any]:
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
