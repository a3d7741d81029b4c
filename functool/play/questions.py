"""Let the questions that an MCP server asks a person wait on the page, like approvals."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from functool import ApprovalRequest
from functool.integrations.visible import visible_line
from functool.layers.inbox import Inbox

QUESTION = "question"
"""The `definition` of a request that is a question of a server."""

WORDLESS = "(The question has no words.)"


def asker(inbox: Inbox) -> Callable[[str, Mapping[str, Any]], Awaitable[dict[str, Any] | None]]:
    """Return a function that puts questions into the inbox, for the `elicit` of `mcp.connect`.

    The person reads the message and the fields, and may edit the answers before approving them.
    If the person declines, the function returns None.
    """
    approver = inbox.approver

    async def ask(message: str, form: Mapping[str, Any]) -> dict[str, Any] | None:
        properties = dict(form.get("properties", {})).items()
        # A schema may be a boolean.
        fields = {str(key): part if isinstance(part, dict) else {} for key, part in properties}
        needed = form.get("required", ())
        lines = [_line(name, part, name in needed) for name, part in fields.items()]
        alone = [part.get("type") for part in fields.values()] == ["boolean"]
        answers = {name: True if alone else _answer(part) for name, part in fields.items()}
        words = message if message.strip() else WORDLESS
        text = words if alone else "\n".join([words, *lines])
        decision = await approver(ApprovalRequest.of(text, QUESTION, answers, ""))
        if not decision.approved:
            return None
        given = answers if decision.arguments is None else decision.arguments
        return {name: value for name, value in given.items() if value is not None}

    return ask


def _answer(part: Mapping[str, Any]) -> Any:
    """Return the initial answer of a field. None leaves the field out."""
    return part.get("default", False if part.get("type") == "boolean" else None)


def _line(name: str, part: Mapping[str, Any], needed: bool) -> str:
    choices = [str(each) for each in part.get("enum", ())]
    kind = f"one of {', '.join(choices)}" if choices else str(part.get("type", "any value"))
    text = part.get("description") or part.get("title") or ""
    line = f"- {name}: {kind}{'' if needed else ', optional'}{f' ({text})' if text else ''}"
    return visible_line(line)
