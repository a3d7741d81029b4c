"""Run agents of agent-framework behind `AgentTool`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from functool import Context, ToolCall, ToolError, ToolResult
from functool.integrations._agents import as_it_was, decide, key_of, missing, put_aside, taken_up

try:
    import agent_framework as af
except ImportError as _error:
    raise missing("agent-framework", "agent-framework") from _error

DEPS = "deps"
"""The kwarg of a run that holds `Context.deps`, if those are not a mapping."""

_USAGE = {
    "input_token_count": "input_tokens",
    "output_token_count": "output_tokens",
    "total_token_count": "total_tokens",
}


def kwargs_of(deps: Any) -> dict[str, Any]:
    """Return dependencies as the framework's kwargs of a run. A mapping stays as it is."""
    return {} if deps is None else dict(deps) if isinstance(deps, Mapping) else {DEPS: deps}


async def runner(agent: Any, text: str, context: Context[Any], **options: Any) -> ToolResult:
    """Run an agent of agent-framework. Pass this as the runner of an `AgentTool`.

    `context.thread` is the session. `context.deps` are the `function_invocation_kwargs`: a mapping
    as it is, any other value under the name `deps`. `options` go to `Agent.run`. If the context has
    listeners, the updates of the run are sent as `tool:progress`. If a tool of the agent waits for
    approval, this call waits as well. The same call, made again, goes on where the agent stopped. A
    workflow (`workflow.as_agent()`) goes on only without a session, so give its `AgentTool` no
    `thread`.

    Raises:
        ApprovalRequired: A person has to approve a call that the agent made.
        ToolError: The agent waits for something that is not an approval.
    """
    key = key_of(__name__, context, text)
    paused: _Paused = taken_up(context, key) or _Paused(_session(agent, context))
    while True:
        try:
            message = await _decide(paused, context) if paused.requests else text
        except BaseException:  # Nothing has run: the same call may go on here later.
            put_aside(context, key, paused)
            raise
        response = await _run(agent, message, paused.session, context, options)
        # The framework counts only tokens. Each reply of the model stands for one request.
        paused.usage["requests"] += sum(
            message.role == "assistant" for message in response.messages
        )
        for name, count in (response.usage_details or {}).items():
            if name in _USAGE:
                paused.usage[_USAGE[name]] = paused.usage.get(_USAGE[name], 0) + (count or 0)
        if not response.user_input_requests:
            return ToolResult.of(response.text, metadata={"usage": paused.usage, "run": response})
        paused.requests, paused.answers = list(response.user_input_requests), []


def _session(agent: Any, context: Context[Any]) -> Any:
    """Return the session of a run: the context's thread, or a new one. A workflow gets no new one.

    A workflow stores its own pending requests. With a session, its agent would see the messages of
    the session together with the answers, and refuse them.
    """
    if context.thread or isinstance(agent, af.WorkflowAgent):
        return context.thread
    return agent.create_session()


@dataclass
class _Paused:
    """An agent's run that may be paused: its requests, and the answers so far."""

    session: Any
    requests: list[Any] = field(default_factory=list)
    answers: list[Any] = field(default_factory=list)
    usage: dict[str, int] = field(default_factory=lambda: {"requests": 0})


async def _decide(paused: _Paused, context: Context[Any]) -> Any:
    """Return the message that answers the agent's requests, by the decisions of this context."""
    for request in paused.requests[len(paused.answers) :]:
        if request.type != "function_approval_request":
            raise ToolError(
                "The agent stopped to ask for something that cannot be given from here."
            )
        wanted = request.function_call
        try:
            arguments = wanted.parse_arguments() or {}
        except (ValueError, RecursionError):  # The tool would refuse them as well.
            arguments = None
        agreed = False
        if arguments is not None:
            call = ToolCall(name=wanted.name, arguments=arguments, id=wanted.call_id or "")
            # The framework cannot run an edited call, so an edit counts as a refusal.
            agreed = as_it_was(await decide(call, context)) is True
        paused.answers.append(request.to_function_approval_response(agreed))
    return af.Message("user", paused.answers)


async def _run(
    agent: Any, message: Any, session: Any, context: Context[Any], options: dict[str, Any]
) -> Any:
    kwargs = None if context.deps is None else kwargs_of(context.deps)
    given = {"session": session, "function_invocation_kwargs": kwargs, **options}
    if not context.listened:
        return await agent.run(message, **given)
    stream = agent.run(message, stream=True, **given)
    async for update in stream:
        context.emit("tool:progress", value=update)
    return await stream.get_final_response()
