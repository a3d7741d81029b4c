"""Ask the person at an MCP client whether a call may run, in old and new protocol revisions."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeAlias

import mcp_types as types
from mcp.server.context import ServerRequestContext

from functool import ApprovalRequest, Decision
from functool.integrations.values import unreadable
from functool.integrations.visible import arguments_text, sources_text

Request: TypeAlias = ServerRequestContext[Any, Any]

Approved: TypeAlias = tuple[ApprovalRequest, float]
"""A request that a person has approved, and until when: seconds since the epoch."""

APPROVAL = "approval"
"""The name of the question in a request for input."""

STATE_PREFIX = "functool-approval:"
"""How the state of an approval begins. Another state is one of the body's own."""

MAX_QUESTION = 10_000
"""How many characters the arguments may have that a person is shown."""


def can_ask(request: Request) -> bool:
    """Whether the client can show a form to a person."""
    capabilities = request.session.client_capabilities
    asks = None if capabilities is None else capabilities.elicitation
    return asks is not None and (asks.form is not None or asks.url is None)


def approver(request: Request) -> Callable[[ApprovalRequest], Awaitable[Decision]]:
    """Return an approver that asks the client's person while the call waits (until 2025-11-25)."""

    async def ask(asked: ApprovalRequest) -> Decision:
        if reason := too_long(asked):
            return Decision(approved=False, reason=reason)
        form = _question(asked)
        answer = await request.session.elicit_form(
            form.message, form.requested_schema, related_request_id=request.request_id
        )
        return Decision(approved=approves(answer), reason=refusal(answer))

    return ask


def input_required(
    asked: ApprovalRequest, call_id: str, unused: Iterable[Approved] = ()
) -> types.InputRequiredResult:
    """Return the answer that makes the client ask its person and call again (since 2026-07-28).

    The state also has the id of the outer call, because the request may be of a call inside of it,
    and what the person has approved in earlier rounds and no call has used yet.
    """
    question: types.InputRequest = types.ElicitRequest(params=_question(asked))
    kept = [(request.to_json(), until) for request, until in unused]
    state = STATE_PREFIX + json.dumps([call_id, asked.to_json(), kept])
    return types.InputRequiredResult(input_requests={APPROVAL: question}, request_state=state)


def asked_before(
    params: types.CallToolRequestParams,
) -> tuple[ApprovalRequest, str, list[Approved]] | None:
    """Return the request, the call's id and what was approved before from a client's state.

    None if the client has sent no such state.
    """
    state = params.request_state or ""
    if not state.startswith(STATE_PREFIX):
        return None
    call_id, asked, kept = json.loads(state.removeprefix(STATE_PREFIX))
    before = [(ApprovalRequest.from_json(text), until) for text, until in kept]
    return ApprovalRequest.from_json(asked), call_id, before


def too_long(asked: ApprovalRequest) -> str:
    """Return why a person cannot be asked, or an empty text if all arguments can be shown."""
    why = unreadable(_shown(asked), MAX_QUESTION)
    return f"Nobody was asked for approval: {why}, all of them." if why else ""


def approves(answer: types.ElicitResult) -> bool:
    """Whether a person's answer lets the call run.

    A form without `approve` does not: some clients leave out a box that was not ticked.
    """
    return answer.action == "accept" and (answer.content or {}).get("approve") is True


def refusal(answer: types.ElicitResult) -> str:
    """Return a sentence for the model: the person did not approve."""
    if answer.action != "accept":
        reply: str = answer.action
    else:
        reply = "no" if "approve" in (answer.content or {}) else "the form has no `approve`"
    return f"The person asked did not approve ({reply})."


def _question(asked: ApprovalRequest) -> types.ElicitRequestFormParams:
    message = f"Allow the tool {asked.tool} to run with these arguments?\n{_shown(asked)}"
    # Some clients show nothing for a form without fields.
    field = {"type": "boolean", "title": "Approve", "description": "Let the tool run this once."}
    form = {"type": "object", "properties": {"approve": field}, "required": ["approve"]}
    return types.ElicitRequestFormParams(message=message, requested_schema=form)


def _shown(asked: ApprovalRequest) -> str:
    """Return all arguments, the shortest first, so that no long one hides another.

    After them come the sources of untrusted values.
    """
    pairs = sorted(asked.arguments.items(), key=lambda pair: len(json.dumps(pair[1])))
    return arguments_text(dict(pairs), MAX_QUESTION) + sources_text(asked.sources)
