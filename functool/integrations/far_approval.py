"""Approve a call once, although its guardrails run twice: on a host, and again on a worker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from functool import (
    ApprovalRequest,
    ApprovalRequired,
    Context,
    GuardrailError,
    ToolCall,
)
from functool.approval import definition_of
from functool.executors import inline
from functool.guardrails.approval import answer_of


def approved_digest(call: ToolCall, context: Context[Any]) -> str:
    """Return the digest of the request that a person approved on the host, or "" for none.

    Call this in a function around the body, where `call` and `context` are those of the tool.
    """
    decision, schema, arguments = context.decision, context.schema, call.arguments
    if not decision or not decision["approved"] or schema is None:
        return ""
    assert isinstance(arguments, Mapping)  # They are canonical here.
    sources = call.metadata.get("sources")
    definition = definition_of(schema)
    return ApprovalRequest.of(schema.name, definition, arguments, call.id, sources).digest


def with_approval(context: Context[Any], digest: str) -> Context[Any]:
    """Return a worker's context that approves the request which was approved on the host."""
    if not digest:
        return context
    otherwise = context.approver

    async def approver(request: ApprovalRequest) -> Any:
        if request.digest == digest:
            return True
        if otherwise is None:
            raise ApprovalRequired.of(request)
        return await inline(otherwise, request)

    return context.view(approver=approver)


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
