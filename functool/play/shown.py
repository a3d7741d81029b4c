"""Describe tools and results for the page, as plain JSON of limited size."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from functool import (
    ApprovalRequest,
    FunctionTool,
    SchemaTool,
    TextContent,
    Tool,
    ToolResult,
    dialects,
)
from functool.content import base64_of
from functool.guardrails.asking import name_of
from functool.integrations.visible import arguments_text, indented
from functool.play.forms import form_schema
from functool.play.questions import QUESTION

_FILES = [file.name for file in iter_modules(dialects.__path__)]
DIALECTS = tuple(sorted(name for name in _FILES if not name.startswith("_")))
"""The public modules of `functool.dialects`."""

TEXT = 200_000
"""How many characters of one text the page gets."""

BINARY = 8_000_000
"""How many bytes of one image or sound the page gets."""

PARTS = 100
"""How many parts of one result the page gets."""


def cut(text: str, most: int) -> str:
    """Return at most so many characters, in valid UTF-8."""
    text = text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"
    return text.encode("utf-8", "replace").decode()


def shown_tool(tool: Tool) -> dict[str, Any]:
    """Return a tool for the list: its names, description, tags and badges."""
    settings = tool.settings
    display_name = settings.display_name or tool.name
    return {
        "name": tool.name,
        "display_name": cut(str(display_name), 200),
        "description": cut(tool.description, 4_000),
        "tags": [cut(str(tag), 60) for tag in list(settings.tags)[:20]],
        "badges": _badges(tool),
    }


def _badges(tool: Tool) -> list[str]:
    settings = tool.settings
    properties = {
        "read-only": settings.read_only,
        "destructive": settings.destructive,
        "idempotent": settings.idempotent,
        "asks": tool.requires_approval,
        "exclusive": settings.is_exclusive,
        "takes control": settings.takes_control,
        "untrusted": settings.untrusted,
        "strict": tool.strict,
    }
    badges = [name for name, value in properties.items() if value is True]
    return badges + ([] if tool.timeout is None else [f"{tool.timeout:g} s"])


def tool_with_form(tool: Tool) -> dict[str, Any]:
    """Return a tool with its form and its schema."""
    return {
        **shown_tool(tool),
        "form": form_schema(tool.schema.plain),
        "schema": cut(indented(tool.schema.plain, TEXT), TEXT),
        "guardrails": {
            "input": [cut(name_of(each), 200) for each in tool.input_guardrails],
            "output": [cut(name_of(each), 200) for each in tool.output_guardrails],
        },
    }


def definition(tool: Tool, dialect: str, strict: bool) -> dict[str, Any]:
    """Return a tool's definition for a provider and what is lost, or why there is none.

    Raises:
        ValueError: There is no such dialect.
    """
    if dialect not in DIALECTS:
        raise ValueError(f"no dialect {dialect[:50]!r}")
    rendered = import_module(f"functool.dialects.{dialect}")
    try:
        if strict:
            plain = tool.schema.plain
            tool = SchemaTool(tool.name, tool.description, plain, lambda given: None, strict=True)
        text = indented(rendered.definition(tool), TEXT)
        return {
            "definition": cut(text, TEXT),
            "losses": [cut(x, 500) for x in _losses(rendered, tool)],
        }
    except Exception as error:  # A tool of others may have no definition in this dialect.
        return {"definition": "", "losses": [], "error": cut(str(error), 4_000)}


def _losses(rendered: Any, tool: Tool) -> list[str]:
    return [str(loss) for loss in rendered.losses(tool)[:200]]


def spelling(target: str, tool: Tool, arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the same call in Python and as a command."""
    given = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    python = f"await tools.call(ToolCall(name={tool.name!r}, arguments={dict(arguments)!r}))"
    if isinstance(tool, FunctionTool) and all(name.isidentifier() for name in arguments):
        python = f"{tool.name}({given})\n# or\n{python}"
    words = ["functool", "call", target, tool.name, "--json", json.dumps(dict(arguments))]
    return {"python": cut(python, TEXT), "cli": cut(shlex.join(words), TEXT)}


def shown_result(result: ToolResult) -> dict[str, Any]:
    """Return a result for the page. Large parts are cut."""
    parts = [_part(part) for part in result.output[:PARTS]]
    if (more := len(result.output) - PARTS) > 0:
        parts.append({"type": "text", "text": f"and {more:,} more parts", "size": 0})
    error = None
    if result.error is not None:
        error = {"type": cut(result.error.type, 200), "message": cut(result.error.message, TEXT)}
    return {"is_error": result.is_error, "error": error, "parts": parts, **_metadata(result)}


def _part(part: Any) -> dict[str, Any]:
    if isinstance(part, TextContent):
        return {"type": "text", "text": cut(part.text, TEXT), "size": len(part.text)}
    size = len(part.data or b"")
    kind = type(part).__name__.removesuffix("Content").lower()
    # An address is shown but never loaded. Loading it would tell its server who looks.
    shown = {"type": kind, "media_type": cut(part.media_type, 100), "size": size}
    shown["uri"] = cut(part.uri or "", 2_000)
    shown["name"] = cut(getattr(part, "name", None) or "", 200)
    shown["base64"] = base64_of(part) if size <= BINARY else ""
    return shown


def _metadata(result: ToolResult) -> dict[str, Any]:
    """Return the metadata for the page: guardrails, sources, a decision, inner calls and so on."""
    found: dict[str, Any] = {}
    for name in ("guardrails", "sources", "decision", "journal", "calls", "usage"):
        if name in result.metadata:
            found[name] = result.metadata[name]
    text = ToolResult.of(found).text
    return {"metadata": json.loads(text) if len(text) <= TEXT else {"cut": cut(text, 10_000)}}


def shown_request(request: ApprovalRequest) -> dict[str, Any]:
    """Return a request with all of its arguments, as a hidden part could be the one that matters.

    A request that is too long for the page has `"whole": False`, and can only be refused.
    """
    text = arguments_text(request.arguments, TEXT)
    long = max(len(text), len(request.tool), sum(map(len, request.sources)))
    complete = long <= TEXT
    return {
        "id": request.id,
        "tool": request.tool if request.definition != QUESTION else "",
        "question": cut(request.tool, TEXT) if request.definition == QUESTION else "",
        "call_id": cut(request.call_id, 200),
        "created": request.created,
        "arguments": text if complete else "",
        "names": list(request.arguments)[:200],
        "sources": request.sources if complete else {},
        "size": len(text),
        "whole": complete,
    }
