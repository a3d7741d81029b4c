"""What a person has approved of a call of pydantic-ai, which may stop several times to ask."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from functool import ApprovalRequest, ArgumentError, Context, Tool, ToolCall
from functool.integrations._agents import Agreement, arguments_led_to, asker, missing
from functool.json_values import same_json

try:
    from pydantic_ai import RunContext
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.messages import ModelResponse
except ImportError as _error:
    raise missing("pydantic-ai", "pydantic-ai") from _error

_AGREED = "functool_agreed"
_SENT = "functool_sent"
_HELD = 8
"""How many agreements to one call are held. A call that asks more often asks again."""


def as_agreed(tool: Tool, call: ToolCall, run: RunContext[Any]) -> tuple[ToolCall, list[Agreement]]:
    """Return an approved call as the model made it, and all that the person approved of it."""
    agreements, shown = _earlier(run), _shown(run)
    call, edited = _as_asked(tool, call, run, shown)
    return call, [*agreements, (shown, edited)]


async def as_edited(
    tool: Tool, call: ToolCall, context: Context[Any], agreements: list[Agreement]
) -> ToolCall:
    """Return the call that has to run: with a person's edit, unless a guardrail puts it in.

    A guardrail does so only if it asks about the call as the model made it. pydantic-ai may have
    asked for a reason of its own, such as `toolset.approval_required()`. Then, when in doubt, the
    edit runs, and no guardrail tells the model of it.
    """
    own = _own(tool, call, agreements)
    edits = [arguments for _, arguments in own if arguments is not None]
    asks = asker(tool, surely=all(shown is None for shown, _ in own))
    asked = not edits or await asks(call.arguments, call.id, context)
    return call if asked else replace(call, arguments=tool.sent_form(edits[-1]))


def with_agreements(tool: Tool, call: ToolCall, agreements: list[Agreement]) -> dict[str, Any]:
    """Return the metadata that holds these agreements: the host passes it back with the next.

    It holds those about the call itself only. The body may begin again, and what it did once with
    an agreement to a call inside of it may not be done twice.
    """
    held = [
        {"request": shown and shown.to_json(), "arguments": edited}
        for shown, edited in _own(tool, call, agreements)
    ]
    return {_AGREED: held[-_HELD:]} if held else {}


def with_sent(run: RunContext[Any], sent: Any) -> dict[str, Any]:
    """Return the metadata that holds a call's arguments, as JSON text, until the call is approved.

    The message of the model holds them too, but a durable run has no messages.
    """
    if run.tool_call_approved:
        sent = _metadata_of(run).get(_SENT)
    return {_SENT: sent} if isinstance(sent, str) else {}


def _own(tool: Tool, call: ToolCall, agreements: list[Agreement]) -> list[Agreement]:
    """Return the agreements about the call itself, without those about calls inside of it."""
    own = arguments_led_to(tool, call)
    return [
        (shown, edited)
        for shown, edited in agreements
        if shown is None or (shown.call_id == call.id and shown.tool in own)
    ]


def _earlier(run: RunContext[Any]) -> list[Agreement]:
    """Return what a person had approved of this call when the call stopped once more.

    A host may pass back only the latest request. If that is about a call inside of this one, the
    person has approved this one before, as the model wrote it.
    """
    found: list[Agreement] = []
    for one in _metadata_of(run).get(_AGREED, ()):
        asked = one["request"]
        found.append((asked and ApprovalRequest.from_json(asked), one["arguments"]))
    shown = _shown(run)
    if not found and shown is not None and shown.call_id != (run.tool_call_id or ""):
        found.append((None, None))
    return found


def _as_asked(
    tool: Tool, call: ToolCall, run: RunContext[Any], shown: ApprovalRequest | None
) -> tuple[ToolCall, dict[str, Any] | None]:
    """Return an approved call as the model made it, and the arguments if a person edited them.

    pydantic-ai passes only the edited call (`override_args`), but functool needs both. It validates
    the edited arguments, runs the guardrails again, and tells the model what was changed.
    """
    sent = _as_made(call, run)
    if sent is None:  # There is nothing to compare with.
        return call, None
    try:
        asked, given = tool.bind(sent).arguments, _bound(tool, call.arguments)
    except ArgumentError:  # The tool will refuse the call.
        return call, None
    seen = [asked] if shown is None else [asked, shown.arguments]
    if any(same_json(given, one) for one in seen):
        return call, None
    return replace(call, arguments=sent), given


def _as_made(call: ToolCall, run: RunContext[Any]) -> dict[str, Any] | None:
    """Return the arguments that the model sent, or None if nothing holds them."""
    try:
        messages = run.messages
    except UserError:  # A call of a durable run, as in an activity, has no messages.
        sent = _metadata_of(run).get(_SENT)
        return None if sent is None else dict(json.loads(sent))
    # Within a turn pydantic-ai refuses two calls with the same id. So the last turn with this id
    # holds the call.
    turns = [message for message in reversed(messages) if isinstance(message, ModelResponse)]
    calls = (part for turn in turns for part in turn.tool_calls if part.tool_call_id == call.id)
    made = next(calls, None)
    return None if made is None else made.args_as_dict()


def _bound(tool: Tool, arguments: Any) -> dict[str, Any]:
    """Return canonical arguments. A person may write aliases, or the names that were shown."""
    try:
        return tool.bind(arguments).arguments
    except ArgumentError:
        return tool.bind(tool.sent_form(arguments)).arguments


def _shown(run: RunContext[Any]) -> ApprovalRequest | None:
    """Return the request that a person saw, if the approval's metadata holds it."""
    sent = _metadata_of(run).get("approval")
    return None if sent is None else ApprovalRequest.from_json(sent)


def _metadata_of(run: RunContext[Any]) -> dict[str, Any]:
    return run.tool_call_metadata if isinstance(run.tool_call_metadata, dict) else {}
