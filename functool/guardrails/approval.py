"""The guardrail that asks a person: `require_approval`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from functool.approval import ApprovalRequest, Decision, definition_of
from functool.call import ToolCall
from functool.context import Context
from functool.errors import ApprovalRequired, GuardrailError
from functool.executors import inline
from functool.guardrails.asking import InputGuardrail


def require_approval(when: Callable[[ToolCall, Context[Any]], Any] | None = None) -> InputGuardrail:
    """Return a guardrail that lets a call through only once a person has agreed to it.

    The approver of the context is asked where there is one; else the result is an error of type
    `ApprovalRequired` that carries the request. Put it last: it is asked about the arguments that
    it sees.

    Args:
        when: `when(call, context) -> bool`, sync or async: which calls need approval; by default
            every call.
    """

    async def require_approval(call: ToolCall, context: Context[Any]) -> None:
        if when is not None and not await inline(when, call, context):
            return
        if context.schema is None or not isinstance(call.arguments, Mapping):
            raise TypeError("approval needs the schema of the tool and checked arguments")
        schema = context.schema
        definition = definition_of(schema.name, schema.description, schema.parameters)
        request = ApprovalRequest.of(schema.name, definition, dict(call.arguments), call.id)
        decision: Any = context.use_decision(request.digest)
        if decision is None and context.approver is not None:
            decision = await inline(context.approver, request)
            if isinstance(decision, bool):
                decision = Decision(approved=decision)
            if not isinstance(decision, Decision) or not isinstance(decision.approved, bool):
                raise TypeError(
                    f"the approver returned {type(decision).__name__}, expected bool or Decision"
                )
        if decision is None:
            raise ApprovalRequired(
                f"The call of {schema.name} needs a person's approval first.", request
            )
        if not decision.approved:
            raise GuardrailError(
                f"A person refused this call{': ' + decision.reason if decision.reason else '.'}"
            )

    # A host that has to know before the call reads here which calls need approval: all, or those
    # that `when` names.
    require_approval.asks_approval = when or True  # type: ignore[attr-defined]
    return require_approval
