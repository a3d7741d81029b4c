"""Run agents of openai-agents behind `AgentTool`."""

from __future__ import annotations

import json
from typing import Any

from functool import Context, ToolCall, ToolResult
from functool.integrations._agents import (
    USAGE,
    as_it_was,
    decide,
    key_of,
    missing,
    put_back,
    taken_up,
)

try:
    from agents import Agent, Runner, RunState
    from agents.run_context import RunContextWrapper
except ImportError as _error:
    raise missing("openai-agents", "openai-agents") from _error


async def runner(agent: Agent[Any], text: str, context: Context[Any], **options: Any) -> ToolResult:
    """Run an agent of openai-agents. Pass this as the runner of an `AgentTool`.

    `context.deps` is the run's context object, `context.thread` is its session, and `options` go to
    `Runner.run`. If the context has listeners, the run's stream events are sent as `tool:progress`.
    If a tool of the agent waits for approval, this call waits as well. The same call, made again,
    goes on where the agent stopped.

    Raises:
        ApprovalRequired: A person has to approve a call that the agent made.
    """
    key = key_of(__name__, context, text)
    paused: _Paused | None = taken_up(context, key)
    while True:
        start: Any = text
        if paused is not None:
            with put_back(context, key, paused):
                start = await paused.settled(agent, context)
        run = await _run(agent, start, context, options)
        if not run.interruptions:
            break
        paused = _Paused(run.to_state(), set())
    used = run.context_wrapper.usage
    return ToolResult.of(
        run.final_output,
        metadata={"usage": {name: getattr(used, name) for name in USAGE}, "run": run},
    )


async def _run(
    agent: Agent[Any], start: Any, context: Context[Any], options: dict[str, Any]
) -> Any:
    given = {"context": context.deps, "session": context.thread, **options}
    if isinstance(start, RunState):
        del given["context"]  # A state brings the context it was made with.
    if not context.listened:
        return await Runner.run(agent, start, **given)
    run = Runner.run_streamed(agent, start, **given)
    async for event in run.stream_events():
        context.emit("tool:progress", value=event)
    return run


class _Paused:
    """A run that waits for a person, and the ids of the calls that were decided about.

    Its pickle holds the state as JSON, because an agent cannot be pickled.
    """

    def __init__(self, state: RunState[Any] | str, decided_ids: set[str]) -> None:
        self._state = state
        self._decided_ids = decided_ids

    def __reduce__(self) -> tuple[Any, ...]:
        state = self._state
        text = state if isinstance(state, str) else state.to_string(context_serializer=_no_context)
        return type(self), (text, self._decided_ids)

    async def settled(self, agent: Agent[Any], context: Context[Any]) -> RunState[Any]:
        """Approve or reject the calls that wait, by the decisions of this context."""
        if isinstance(self._state, str):
            own: Any = RunContextWrapper(context.deps)
            self._state = await RunState.from_string(agent, self._state, context_override=own)
        for item in self._state.get_interruptions():
            if item.call_id in self._decided_ids:
                continue
            call = ToolCall(
                name=item.name or "", arguments=_object(item.arguments), id=item.call_id or ""
            )
            answer = as_it_was(await decide(call, context))
            if answer is True:
                self._state.approve(item)
            else:
                self._state.reject(item, rejection_message=str(answer))
            self._decided_ids.add(call.id)
        return self._state


def _no_context(context: Any) -> dict[str, Any]:
    """Store nothing of the run's context object: the runner has it in `context.deps`."""
    return {}


def _object(arguments: str | None) -> dict[str, Any]:
    """Return the unvalidated arguments as an object that a person can be shown."""
    try:
        shown = json.loads(arguments or "{}")
    except ValueError:
        shown = arguments
    return shown if isinstance(shown, dict) else {"arguments": shown}
