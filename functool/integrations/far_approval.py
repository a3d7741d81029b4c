"""Approve a call once, although its guardrails run twice: on a host, and again on a worker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from functool import (
    ApprovalRequest,
    ApprovalRequired,
    Context,
    GuardrailError,
    Tool,
    ToolCall,
    ToolError,
    ToolResult,
)
from functool.approval import definition_of
from functool.executors import inline
from functool.guardrails.approval import answer_of
from functool.integrations._agents import MOST_ASKED
from functool.json_values import same_json


class Agreements:
    """What a person has agreed to, while one call is sent to a worker again and again.

    `digests` is what to send: the digests of the requests, with spaces between them. Make this in a
    function around the body, where `call` and `context` are those of the tool.
    """

    def __init__(self, call: ToolCall, context: Context[Any]) -> None:
        self._call = call
        self._context = context
        self._own = _approved_digest(call, context)
        self.digests: str = self._own
        self._given: set[str] = set()

    def start_over(self) -> None:
        """Approve no call inside of the body any more, because its worker was lost."""
        self.digests = for_next_attempt(self._own)

    async def add(self, asked: ApprovalRequest) -> bool:
        """Whether to send the call again, because a person agrees to what the worker asks.

        The guardrails of the call ask again each time it is sent, so their requests are all sent.
        A request with another id, or other arguments, comes from a call inside the body. The body
        starts over, so such an approval is sent once. Otherwise what it approved would run again.
        A call inside may also have the id and the arguments of the call: see `with_approval`.

        Raises:
            GuardrailError: The person refused, or changed the arguments.
            ToolError: The body has come again to a call that may have run.
            TypeError: The approver returned no decision.
        """
        # A body whose calls have a new id each time would wait, and start over, without end.
        if asked.digest in self._given or len(self._given) >= MOST_ASKED:
            raise ToolError(
                "The call was stopped. It has started over, because it had to wait for a person,"
                f" and would make its call {asked.call_id!r} of {asked.tool} again, which may have"
                " run already."
            )
        if asked.digest in self.digests or not await agreed(asked, self._context):
            return False
        self._given.add(asked.digest)
        self.digests = f"{self._own} {asked.digest}".strip()
        is_own = bool(self._call.id) and asked.call_id == self._call.id
        if is_own and same_json(asked.arguments, self._call.arguments):
            self._own = self.digests
        return True


def _approved_digest(call: ToolCall, context: Context[Any]) -> str:
    """Return the digest of the request that a person approved on the host, or "" for none."""
    decision, schema, arguments = context.decision, context.schema, call.arguments
    if not decision or not decision["approved"] or schema is None:
        return ""
    assert isinstance(arguments, Mapping)  # They are canonical here.
    sources = call.metadata.get("sources")
    definition = definition_of(schema)
    return ApprovalRequest.of(schema.name, definition, arguments, call.id, sources).digest


def for_next_attempt(digests: str) -> str:
    """Return the digests for another attempt of a call whose worker was lost.

    What they approve inside of the body may have run, so the last one approves nothing.
    """
    return f"{digests} lost" if digests else ""


def with_approval(tool: Tool, context: Context[Any], digests: str) -> tuple[Tool, Context[Any]]:
    """Return a worker's tool and context, which approve what was approved on the host.

    Each digest approves one request. The body has started over, and what it calls may have run. So
    inside of it only one call is approved, by the last of the digests: nothing has run with that
    one.
    """
    if not digests:
        return tool, context
    otherwise, approved, is_inside = context.approver, digests.split(), False
    last = approved[-1:]

    async def around(call: ToolCall, view: Context[Any], proceed: Any) -> ToolResult:
        nonlocal is_inside
        is_inside = True
        try:
            result: ToolResult = await proceed()
            return result
        finally:
            is_inside = False

    async def approver(request: ApprovalRequest) -> Any:
        known = last if is_inside else approved
        if request.digest in known:
            known.remove(request.digest)
            return True
        if otherwise is None:
            raise ApprovalRequired.of(request)
        return await inline(otherwise, request)

    return tool.around(around), context.view(approver=approver)


async def agreed(asked: ApprovalRequest, context: Context[Any]) -> bool:
    """Whether a person approves the request of a guardrail on the worker.

    False if nobody has decided.

    Raises:
        GuardrailError: The person refused, or changed the arguments.
        TypeError: The approver returned no decision.
    """
    decision = context.use_decision(asked.digest)
    if decision is None and context.approver is not None:
        decision = await answer_of(context.approver, asked)
    if decision is None:
        return False
    if not decision.approved:
        raise GuardrailError(decision.refusal)
    if decision.arguments is not None:
        raise GuardrailError(
            "A person changed the arguments of this call, which only a guardrail of the host can"
            " take up. Call the tool with the arguments that the person wants."
        )
    return True
