"""Run agents of pydantic-ai behind `AgentTool`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any

from functool import ApprovalRequest, Context, ToolCall, ToolError, ToolResult
from functool.integrations._agents import (
    USAGE,
    as_it_was,
    decide,
    key_of,
    missing,
    put_back,
    taken_up,
)
from functool.integrations._runs import keeping_context

try:
    import pydantic_ai
    from pydantic_ai import DeferredToolRequests, DeferredToolResults, ToolApproved, ToolDenied
    from pydantic_ai.conversation import Conversation
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.usage import RunUsage
except ImportError as _error:
    raise missing("pydantic-ai", "pydantic-ai") from _error


@keeping_context
async def runner(agent: Any, text: str, context: Context[Any], **options: Any) -> ToolResult:
    """Run an agent of pydantic-ai. Pass this as the runner of an `AgentTool`.

    `context.deps` are the run's deps. `context.thread` is a `Conversation` or a list of messages;
    the run adds its messages to it. `options` go to `Agent.iter`. If the context has listeners, the
    events of the agent's own tool calls are sent as `tool:progress`. If a tool of the agent waits
    for approval, this call waits as well. The same call, made again, goes on where the agent
    stopped.

    Raises:
        ApprovalRequired: A person has to approve a call that the agent made.
    """
    key = key_of(__name__, context, text)
    paused: _Paused | None = taken_up(context, key)
    while True:
        prompt: str | None = text
        history = _history(context.thread)
        if paused is not None:
            with put_back(context, key, paused):
                await _settle(paused.run.output, paused.results, context)
        used = paused.used if paused else RunUsage()
        usage = options.get("usage") or getattr(context.thread, "usage", RunUsage()) + used
        spent = usage - used  # By other calls, also while this one waited.
        if paused is not None:
            thread = options.get("message_history") if context.thread is None else context.thread
            prompt, history = None, paused.history(thread, usage)
        run = await _run(agent, context, prompt, **{**options, **history})
        if not isinstance(run.output, DeferredToolRequests):
            break
        if run.output.calls:
            raise ToolError(
                "The agent called a tool that runs outside of it, which nobody here can answer."
            )
        added = [*(paused.added if paused else ()), *run.new_messages()]
        paused = _Paused(run, DeferredToolResults(), added, run.usage - spent)
    _remember(context.thread, run)
    used = run.usage - spent
    counts = {name: getattr(used, name) for name in USAGE}
    return ToolResult.of(run.output, metadata={"usage": counts, "run": run})


@dataclass
class _Paused:
    """A run that waits for a person, and the answers so far.

    `added` are the messages of the run, and `used` is what they have used.
    """

    run: Any
    results: DeferredToolResults
    added: list[Any]
    used: RunUsage

    def history(self, thread: Any, usage: RunUsage) -> dict[str, Any]:
        """Return how to go on. Another call may have used the thread in the meantime."""
        known = thread.messages if isinstance(thread, Conversation) else thread or ()
        messages = [*known, *self.added]
        going_on: dict[str, Any] = {"message_history": messages, "usage": usage}
        if isinstance(thread, Conversation):  # It also knows which messages are stored.
            going_on = {"conversation": replace(thread, messages=messages, usage=usage)}
        return {**going_on, "deferred_tool_results": self.results}


async def _run(agent: Any, context: Context[Any], prompt: str | None, **options: Any) -> Any:
    given = {"deps": context.deps, **options}
    outputs = agent.output_type if isinstance(agent.output_type, Sequence) else [agent.output_type]
    async with AsyncExitStack() as stack:
        try:
            pausing = (
                {"output_type": [*outputs, DeferredToolRequests]}
                if DeferredToolRequests not in outputs
                else {}
            )
            run = await stack.enter_async_context(agent.iter(prompt, **{**pausing, **given}))
        except UserError:
            # An agent with output validators accepts no other output type. It can pause only if
            # its own type has `DeferredToolRequests`.
            run = await stack.enter_async_context(agent.iter(prompt, **given))
        async for node in run:
            if context.listened and pydantic_ai.Agent.is_call_tools_node(node):
                async with node.stream(run.ctx) as events:
                    async for event in events:
                        context.emit("tool:progress", value=event)
        return run.result


async def _settle(
    requests: DeferredToolRequests, results: DeferredToolResults, context: Context[Any]
) -> None:
    """Answer the requests that the agent waits for, by the decisions of this context."""
    for part in requests.approvals:
        number = part.tool_call_id
        if number in results.approvals:
            continue
        call = ToolCall(name=part.tool_name, arguments=part.args_as_dict(), id=number)
        shown = requests.metadata.get(number, {}).get("approval")
        asked = ApprovalRequest.from_json(shown) if isinstance(shown, str) else None
        inside = asked is not None and asked.call_id != number  # It is a call inside the tool.
        if asked is not None:  # Show what will run, and approve nothing else.
            call = ToolCall(name=asked.tool, arguments=asked.arguments, id=asked.call_id)
            results.metadata[number] = requests.metadata[number]
        decision = await decide(call, context)
        answer = as_it_was(decision) if inside else decision.approved
        edited = None if decision.arguments is None else dict(decision.arguments)
        results.approvals[number] = (
            ToolApproved(override_args=None if inside else edited)
            if answer is True
            else ToolDenied(decision.reason if answer is False else str(answer))
        )


def _history(thread: Any) -> dict[str, Any]:
    if thread is None:
        return {}
    return (
        {"conversation": thread}
        if isinstance(thread, Conversation)
        else {"message_history": thread}
    )


def _remember(thread: Any, run: Any) -> None:
    if isinstance(thread, Conversation):
        vars(thread).update(vars(run.conversation))
    elif thread is not None:
        thread[:] = run.all_messages()
