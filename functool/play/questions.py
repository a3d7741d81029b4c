"""What an MCP server asks a person during a call: it waits on the page, like an approval."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from functool import ApprovalRequest
from functool.layers.inbox import Inbox

QUESTION = "question"
"""What stands for the definition in a request that is a question of a server's."""


def asker(inbox: Inbox) -> Callable[[str, Mapping[str, Any]], Awaitable[dict[str, Any] | None]]:
    """Return a function that puts questions into the inbox: the `elicit` of `mcp.connect`.

    The person reads the message and the fields, and approves the answers as they stand, or edits
    them first. None is returned where the person declines.
    """
    approver = inbox.approver

    async def ask(message: str, form: Mapping[str, Any]) -> dict[str, Any] | None:
        fields = {str(name): part for name, part in dict(form.get("properties", {})).items()}
        needed = form.get("required", ())
        lines = [_line(name, part, name in needed) for name, part in fields.items()]
        alone = [part.get("type") for part in fields.values()] == ["boolean"]
        answers = {name: True if alone else _answer(part) for name, part in fields.items()}
        text = message if alone else "\n".join([message, *lines])
        decision = await approver(ApprovalRequest.of(text, QUESTION, answers, ""))
        if not decision.approved:
            return None
        given = answers if decision.arguments is None else decision.arguments
        return {name: value for name, value in given.items() if value is not None}

    return ask


def _answer(part: Mapping[str, Any]) -> Any:
    """Return an answer to begin with; None is left out."""
    return part.get("default", False if part.get("type") == "boolean" else None)


def _line(name: str, part: Mapping[str, Any], needed: bool) -> str:
    choices = [str(each) for each in part.get("enum", ())]
    kind = f"one of {', '.join(choices)}" if choices else str(part.get("type", "any value"))
    told = part.get("description") or part.get("title") or ""
    return f"- {name}: {kind}{'' if needed else ', optional'}{f' ({told})' if told else ''}"
