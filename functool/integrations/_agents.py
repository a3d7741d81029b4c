"""What the bridges to agent frameworks share: approvals that pass through a framework."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pydantic import ValidationError

from functool import (
    ApprovalRequest,
    ApprovalRequired,
    ArgumentError,
    Context,
    Decision,
    GuardrailError,
    Tool,
    ToolCall,
    ToolSchema,
)
from functool.approval import defaults_of, definition_of, same_json
from functool.call import to_json
from functool.executors import inline
from functool.guardrails import require_approval
from functool.integrations.values import levels

USAGE = ("requests", "input_tokens", "output_tokens", "total_tokens")
"""The names under which `AgentTool` shows what an agent used."""


def relayed(
    tool: Tool,
    call: ToolCall,
    context: Context[Any],
    shown: ApprovalRequest | None = None,
    arguments: Mapping[str, Any] | None = None,
) -> Context[Any]:
    """Return a view of the context for a call to which a person agreed in the framework.

    The agreement is to this call and to no other. What the tool itself asks for further down, as an
    agent does, is for the context's own approver to answer, or stays open.

    Args:
        tool: The tool that is called.
        call: The call, with the arguments that the person was asked about.
        context: The context of the run.
        shown: The request that the person saw, where the framework brought it back.
        arguments: The arguments of the call as the person edited it.
    """
    schemas = [level.schema for level in levels(tool)]
    names = {schema.name for schema in schemas}
    definitions = {definition_of(schema) for schema in schemas}
    about_this = shown is not None and shown.call_id == call.id and shown.definition in definitions
    others: Callable[[ApprovalRequest], Any] | None = context.approver

    def is_shown(request: ApprovalRequest) -> bool:
        """Whether the person saw this request, or the same one of another level of the tool."""
        if shown is None or request.digest == shown.digest:
            return shown is not None
        seen = [shown.arguments] if arguments is None else [shown.arguments, arguments]
        known = any(same_json(request.arguments, one) for one in seen)
        return about_this and known and request.sources == shown.sources

    def answer(request: ApprovalRequest) -> Any:
        own = request.call_id == call.id and request.tool in names
        if own and (shown is None or shown.call_id != call.id or is_shown(request)):
            return Decision(approved=True, arguments=arguments)
        if shown is not None and request.digest == shown.digest:
            return True
        if others is not None:
            return others(request)
        raise ApprovalRequired.of(request)

    return context.view(approver=answer)


def asker(tool: Tool) -> Callable[[Mapping[str, Any], str, Context[Any]], Awaitable[bool]]:
    """Return a function that tells whether a person has to be asked about a call before it runs.

    When in doubt one has to be: what is let through here meets the guardrail itself, and then the
    framework can no longer pause.
    """
    asking = [
        (level.schema, when)
        for level in levels(tool)
        for guardrail in level.input_guardrails
        if (when := getattr(guardrail, "asks_approval", None))
    ]

    async def asks(arguments: Mapping[str, Any], call_id: str, context: Context[Any]) -> bool:
        try:
            bound = tool.bind(arguments)
            call = ToolCall(name=tool.name, arguments=bound.arguments, id=call_id)
            for schema, when in asking:
                view = context.view(call=call, schema=schema)
                needed = when is True or await inline(when, call, view)
                if needed and not _granted(call, view):
                    return True
        except Exception:
            return True
        return False

    return asks


async def decide(call: ToolCall, context: Context[Any]) -> Decision:
    """Return what a person decided about a call that waits in an agent.

    The decision has `arguments` only where they are not the call's own; the reason of a refusal is
    what the model reads.

    Raises:
        ApprovalRequired: Nobody has decided yet.
    """
    schema = ToolSchema(name=call.name, description="", parameters={}, plain={})
    ask: Any = require_approval()
    try:
        edited = await ask(call, context.view(call=call, schema=schema))
    except ApprovalRequired:
        raise
    except GuardrailError as refusal:
        return Decision(approved=False, reason=str(refusal))
    return Decision(approved=True, arguments=None if edited is None else edited.arguments)


def as_it_was(decision: Decision) -> bool | str:
    """Return True where the call may run as it was, or what the model is told instead.

    This is for a framework that runs its own call: an edit is a refusal that names the arguments.
    """
    if not decision.approved:
        return decision.reason
    if decision.arguments is None:
        return True
    wanted = to_json(dict(decision.arguments))
    return f"A person changed this call, so it did not run. Make it with these arguments: {wanted}"


def key_of(bridge: str, context: Context[Any], text: str) -> str:
    """Return where a paused run is kept in the state: the same call finds it again."""
    tool = context.schema.name if context.schema else ""
    return json.dumps([bridge, tool, context.call.id if context.call else "", text])


def argument_error(invalid: ValidationError) -> ArgumentError:
    """Return a native validator's complaint without the values that were sent."""
    errors = invalid.errors(include_url=False, include_context=False, include_input=False)
    return ArgumentError(
        {"path": ".".join(map(str, e["loc"])), "expected": e["msg"]} for e in errors
    )


def _granted(call: ToolCall, view: Context[Any]) -> bool:
    """Whether a standing grant covers the call. The guardrail itself counts its use."""
    schema = view.schema
    assert schema is not None and isinstance(call.arguments, Mapping)
    request = ApprovalRequest.of(schema.name, definition_of(schema), call.arguments, call.id)
    return any(grant.covers(request, defaults_of(schema)) for grant in view.grants())
