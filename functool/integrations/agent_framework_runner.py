"""Run agents of agent-framework behind `AgentTool`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any
from weakref import WeakKeyDictionary

from functool import Context, DefinitionError, ToolCall, ToolError, ToolResult
from functool.integrations._agents import (
    as_it_was,
    decide,
    key_of,
    missing,
    put_back,
    taken_up,
    went_on,
)

try:
    import agent_framework as af
except ImportError as _error:
    raise missing("agent-framework", "agent-framework") from _error

DEPS = "deps"
"""The kwarg of a run that holds `Context.deps`, if those are not a mapping."""

_OWNER = "functool.agent_framework.owner"

_owners: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
"""The context that each workflow has run for. A workflow keeps the messages of its runs."""

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
    `thread`. It keeps the messages of its runs, so one workflow serves one context. In place of an
    agent, `AgentTool` may have a function that makes one for each call.

    Raises:
        ApprovalRequired: A person has to approve a call that the agent made.
        DefinitionError: The workflow has run for another context.
        ToolError: The agent waits for something that is not an approval, or another call that
            waits has taken its place in the session.
    """
    key = key_of(__name__, context, text)
    paused: _Paused | None = taken_up(context, key)
    if paused is None:
        made = None if hasattr(agent, "run") else agent()
        _claim(made or agent, context)
        paused = _Paused(_session(made or agent, context), made)
    while True:
        with put_back(context, key, paused):
            message = await _decide(paused, context) if paused.requests else text
        response = await _run(paused.made or agent, message, paused.session, context, options)
        paused.hear(response)
        # The framework counts only tokens. Each reply of the model stands for one request.
        paused.usage["requests"] += sum(
            message.role == "assistant" for message in response.messages
        )
        for name, count in (response.usage_details or {}).items():
            if name in _USAGE:
                paused.usage[_USAGE[name]] = paused.usage.get(_USAGE[name], 0) + (count or 0)
        if not response.user_input_requests:
            if paused.unheard:
                raise went_on()
            return ToolResult.of(response.text, metadata={"usage": paused.usage, "run": response})
        paused.requests, paused.answers = list(response.user_input_requests), []


def _claim(agent: Any, context: Context[Any]) -> None:
    """Refuse a workflow that has run for another context. It would show its messages."""
    if isinstance(agent, af.WorkflowAgent):
        owner: str = context.state.setdefault(_OWNER, token_hex(16))
        if _owners.setdefault(agent.workflow, owner) != owner:
            raise DefinitionError(
                "this workflow has run for another context, and keeps its messages: give AgentTool"
                " a function that makes a new one, such as lambda: build().as_agent()"
            )


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
    """An agent's run that may be paused: its requests, and the answers so far.

    `made` is the agent if a function has made it for this call.
    """

    session: Any
    made: Any = None
    requests: list[Any] = field(default_factory=list)
    answers: list[Any] = field(default_factory=list)
    usage: dict[str, int] = field(default_factory=lambda: {"requests": 0})

    # For each round of answers, the ids of its calls, until one of them has a result.
    unheard: list[set[str]] = field(default_factory=list)

    def hear(self, response: Any) -> None:
        """Note which answers the run has taken.

        It may hold them back until there are others, and ignores them if a later run of the session
        has paused. A workflow keeps its requests itself, and tells no results.
        """
        calls = [request.function_call for request in self.requests if self.session is not None]
        asked = {call.call_id for call in calls if not call.hosted}
        told = (content for message in response.messages for content in message.contents)
        results = {content.call_id for content in told if content.type == "function_result"}
        rounds = [*self.unheard, asked] if asked else self.unheard
        self.unheard = [ids for ids in rounds if ids.isdisjoint(results)]


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
