"""`require_approval`: the guardrail that asks a person before a call runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from functool.approval import ApprovalRequest, Decision, defaults_of, request_for
from functool.call import ToolCall, ToolResult, changed, metadata_of, to_json
from functool.content import TextContent
from functool.context import DECISION, EDITED, Approver, Context
from functool.errors import ApprovalRequired, GuardrailError
from functool.executors import inline
from functool.guardrails.asking import InputGuardrail, callables
from functool.json_values import json_copy, same_json
from functool.large import in_thread_if, is_large

_SHOWN = 200
"""How many characters of an edited argument the model gets to read."""


def require_approval(when: Callable[[ToolCall, Context[Any]], Any] | None = None) -> InputGuardrail:
    """Return a guardrail that lets a call through only if a person has approved it.

    It looks for a decision about exactly this call, then for a grant that covers it, and then asks
    the approver of the context. If there is none of them, the result is an error of type
    `ApprovalRequired`, which holds the request. If the person edits the arguments, the edited call
    is validated and passes all input guardrails before it runs. Put this guardrail
    after those that change arguments: the request shows the arguments as these have left them. If a
    guardrail behind it changes them, the call is refused, as nobody has approved what would run.

    Args:
        when: `when(call, context) -> bool`, sync or async, returns whether a call needs approval;
            by default every call does. None counts as True, because a function that forgets its
            `return` returns None.

    Raises:
        DefinitionError: `when` cannot be called with a call and a context.
    """
    callables([] if when is None else [when], "when", ("call", "context"))

    async def asks(call: ToolCall, context: Context[Any]) -> bool:
        answer = None if when is None else await inline(when, call, context)
        return answer is None or bool(answer)

    async def require_approval(call: ToolCall, context: Context[Any]) -> ToolCall | None:
        # After a person's edit, all guardrails are asked again. Then there is a decision already.
        before = context.decision or {}
        edited = before.get("arguments")
        # Somebody may have been asked before, and decided. The condition may have changed since.
        if edited is None and not (await asks(call, context) or _is_decided(call, context)):
            return None
        request = await in_thread_if(is_large(call), _request, call, context)
        if edited is not None and same_json(request.arguments, context.notes.get(EDITED, edited)):
            context.share_decision(request.digest, Decision(approved=True))
            return None
        decision, grant = await _decision(request, context)
        edit = _edit_of(decision, request, defaults_of(context.schema))
        if edited is not None and edit is not None:
            raise GuardrailError("A person changed the arguments of this call twice. Call again.")
        # Another guardrail may have changed the edited arguments. Record those that will run.
        runs = edit if edited is None or not decision.approved else request.arguments
        record = context.notes[DECISION] = {
            "request": request.to_dict() if edited is None else before["request"],
            "approved": decision.approved,
            "reason": decision.reason,
            "arguments": runs,
            "grant": grant,
        }
        if not decision.approved:
            raise GuardrailError(decision.refusal)
        if edit is None:
            context.share_decision(request.digest, decision)
            return None
        return replace(call, arguments=edit, metadata={**call.metadata, "decision": record})

    # Hosts read this before a call to know whether it needs approval: True, or a function.
    require_approval.asks_approval = asks if when else True  # type: ignore[attr-defined]
    return require_approval


async def answer_of(approver: Approver, request: ApprovalRequest) -> Decision:
    """Return the decision of an approver about a request.

    Raises:
        GuardrailError: The approver changed the request in place.
        TypeError: The approver returned no decision.
    """
    digest = request.digest
    answer: Any = await inline(approver, request)
    if request.digest != digest or not request.matches_itself:
        raise GuardrailError(
            "The approver changed the request in place, so the call was refused. To change the"
            " arguments, it returns a new Decision(approved=True, arguments={...})."
        )
    decision = Decision(approved=answer) if isinstance(answer, bool) else answer
    if not isinstance(decision, Decision) or not isinstance(decision.approved, bool):
        raise TypeError(f"the approver returned {type(answer).__name__}, expected bool or Decision")
    return decision


def with_request(result: ToolResult, request: ApprovalRequest) -> ToolResult:
    """Add the request to the result that says that a person has to approve the call first."""
    return changed(result, metadata={"approval": request, **metadata_of(result)})


def with_edit_note(result: ToolResult, context: Context[Any]) -> ToolResult:
    """Add a note about a person's edit to a result, so that the model knows what has run."""
    decision = context.decision
    if decision is None or decision["arguments"] is None:
        return result
    sent, edited = decision["request"]["arguments"], decision["arguments"]
    defaults = defaults_of(context.schema)
    new = [name for name in edited if not _has(sent, name, edited[name])]
    removed = [n for n in sent if n not in edited and not _has(defaults, n, sent[n])]
    changes = [f"`{name}` to {_short(edited[name])}" for name in new]
    changes += [f"`{name}` left out" for name in removed]
    note = f"A person changed the arguments of this call: {', '.join(changes)}."
    return changed(result, output=[TextContent(text=note), *result.output])


def _has(arguments: Mapping[str, Any], name: str, value: Any) -> bool:
    return name in arguments and same_json(arguments[name], value)


def _request(call: ToolCall, context: Context[Any]) -> ApprovalRequest:
    schema = context.schema
    if schema is None or not isinstance(call.arguments, Mapping):
        raise TypeError("approval needs the schema of the tool and checked arguments")
    return request_for(schema, call.arguments, call.id, call.metadata.get("sources"))


def _is_decided(call: ToolCall, context: Context[Any]) -> bool:
    return context.has_decision() and context.has_decision(_request(call, context))


async def _decision(request: ApprovalRequest, context: Context[Any]) -> tuple[Decision, str | None]:
    """Return the decision about a request, and the id of the grant if a grant decided.

    Raises:
        ApprovalRequired: Nobody has decided yet.
    """
    decision = context.use_decision(request.digest)
    if decision is None and (grant := context.use_grant(request, defaults_of(context.schema))):
        return Decision(approved=True), grant.id
    if decision is None and context.approver is not None:
        decision = await answer_of(context.approver, request)
    if decision is None:
        context.give_back()
        raise ApprovalRequired.of(request)
    return decision, None


def _edit_of(
    decision: Decision, request: ApprovalRequest, defaults: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return the arguments that a person edited, or None if they are the same as in the request."""
    if decision.arguments is None or not decision.approved:
        return None
    edit = json_copy(decision.arguments)
    known = {name: value for name, value in defaults.items() if name in request.arguments}
    return None if same_json(request.arguments, {**known, **edit}) else edit


def _short(value: Any) -> str:
    text = to_json(value) if not isinstance(value, str) else f'"{value}"'
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
