"""What the bridges to agent frameworks share: approvals that pass through a framework, and a native validator's complaints."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pydantic import ValidationError

from functool import (
    ApprovalRequest,
    ApprovalRequired,
    ArgumentError,
    Context,
    GuardrailError,
    Tool,
    ToolCall,
    ToolSchema,
    WrapperTool,
)
from functool.guardrails import require_approval
from functool.schema.strict import codec

USAGE = ("requests", "input_tokens", "output_tokens", "total_tokens")
"""The names under which `AgentTool` shows what an agent used."""


def relayed(
    tool: Tool, call: ToolCall, context: Context[Any], shown: ApprovalRequest | None = None
) -> Context[Any]:
    """Return a view of the context for a call to which a person agreed in the framework.

    The agreement is to this call and to no other: what the tool itself asks for further down, as an
    agent does, is the context's own approver's to answer, or stays open. `shown` is the request
    that the person saw, where the framework brought it back.
    """
    names = {tool.name}
    while isinstance(tool, WrapperTool):
        tool = tool.tool
        names.add(tool.name)
    others: Callable[[ApprovalRequest], Any] | None = context.approver

    def answer(request: ApprovalRequest) -> Any:
        same = shown is not None and shown.digest == request.digest
        own = request.call_id == call.id and request.tool in names
        if same or (own and (shown is None or shown.call_id != call.id)):
            return True
        if others is not None:
            return others(request)
        raise ApprovalRequired(
            f"The call of {request.tool} needs a person's approval first.", request
        )

    return context.view(approver=answer)


def asker(tool: Tool) -> Callable[[Mapping[str, Any], str, Context[Any]], Awaitable[bool]]:
    """Return a function that tells whether a person has to be asked about a call, before anybody has checked its arguments.

    When in doubt one has: what is let through here meets the guardrail itself, which the framework can no longer pause for.
    """
    conditions: list[Any] = []
    inner = tool
    while True:
        conditions += [
            when
            for guardrail in inner.input_guardrails
            if (when := getattr(guardrail, "asks_approval", None))
        ]
        if not isinstance(inner, WrapperTool):
            break
        inner = inner.tool
    schema = tool.schema
    decode = codec(schema.plain).decode if schema.strict else dict
    defaults = {
        name: part["default"]
        for name, part in schema.plain.get("properties", {}).items()
        if "default" in part
    }

    async def asks(arguments: Mapping[str, Any], call_id: str, context: Context[Any]) -> bool:
        try:
            call = ToolCall(name=tool.name, arguments={**defaults, **decode(arguments)}, id=call_id)
            view = context.view(call=call, schema=schema)
            for condition in conditions:
                answer = condition is True or condition(call, view)
                if await answer if inspect.isawaitable(answer) else answer:
                    return True
        except Exception:
            return True
        return False

    return asks


async def decided(call: ToolCall, context: Context[Any]) -> bool | str:
    """Return True when a person agreed to a call that waits in an agent, or why not.

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
        return str(refusal)
    return True if edited is None else edit_refusal(edited)


def edit_refusal(edited: ToolCall) -> str:
    """Return what a model is told where a person edited a call that can only run as it is."""
    wanted = json.dumps(edited.arguments)
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
