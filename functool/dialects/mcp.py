"""The Model Context Protocol, revision 2026-07-28, and 2025-11-25 for older clients.

The plain schema is sent as it is: the protocol has no strict mode, and takes all of JSON Schema
2020-12.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import quote

from pydantic_core import from_json, to_json

from functool import (
    Content,
    FileContent,
    ImageContent,
    TextContent,
    Tool,
    ToolCall,
    ToolResult,
    WrapperTool,
)
from functool.dialects._wire import (
    Build,
    Deferred,
    Tools,
    base64_of,
    call,
    contents,
    fresh,
    get,
    mismatch,
    name_losses,
    text_in,
    text_of,
    told,
    twice,
    undeferred,
    with_deferred,
)
from functool.schema.json_schema import MANY, children

LATEST = "2026-07-28"
NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_ICON = re.compile(r"https?://|data:image/", re.IGNORECASE)


def definition(tool: Tool, protocol: str = LATEST) -> dict[str, Any]:
    """Return the tool as an entry of the answer to `tools/list`.

    Before 2026-07-28 an output schema that is no object's is wrapped as `{"result": ...}`. The
    server in `functool.integrations.mcp` wraps it in every revision, because many clients of the
    latest one refuse a structured answer that is no object. No output schema is written if an
    output guardrail has `shows = True`: results may have no structured content then.
    """
    return fresh(tool, _build(tool, protocol))


def definitions(
    tools: Tools, protocol: str = LATEST, *, deferred: Deferred = ()
) -> list[dict[str, Any]]:
    """Return the tools as the answer to `tools/list`."""
    return [definition(tool, protocol) for tool in with_deferred(tools, deferred)]


def losses(*tools: Tool, protocol: str = LATEST, deferred: Deferred = ()) -> list[str]:
    """Return what some clients refuse of these tools."""
    tools = (*with_deferred(tools, deferred),)
    lost = [loss for tool in tools for loss in told([tool], _build(tool, protocol))]
    return [*undeferred(deferred), *lost, *twice(tools)]


def calls(message: Any) -> list[ToolCall]:
    """Return the call of a `CallToolRequest`, its params, or their dicts.

    The id is that of the JSON-RPC message.

    Raises:
        TypeError: It is something else.
    """
    params = get(message, "params") or message
    name, id = get(params, "name"), get(message, "id") if params is not message else None
    if not isinstance(name, str) or get(message, "method") not in (None, "tools/call"):
        raise mismatch("a CallToolRequest, its params or their dict", message)
    return [call(name, get(params, "arguments"), "" if id is None else str(id))]


def result(
    result: ToolResult, *, tool: Tool | None = None, protocol: str = LATEST
) -> dict[str, Any]:
    """Return the result as the answer to `tools/call`.

    The value is sent as structured content, except for a failure, and where the output holds more
    than text. A value of None is sent only for a tool with an output schema, which may allow null.

    Args:
        result: The result of a call.
        tool: The tool that was called. Older clients need it, to wrap the value as the definition
            wraps its schema.
        protocol: The revision that the client speaks.
    """
    answer: dict[str, Any] = {
        "content": [_block(part) for part in contents(result)],
        "isError": result.is_error,
    }
    output = None if tool is None or shows_another(tool) else tool.schema.output
    found = {} if result.structured is None and output is None else _structured(result)
    if not found:
        return answer
    value = found["result"]
    if protocol < LATEST:
        wrapped = output is not None and output.get("type") != "object"
        value = found if wrapped or not isinstance(value, dict) else value
    return {**answer, "structuredContent": value}


def shows_another(tool: Tool) -> bool:
    """Whether an output guardrail, of the tool or one that it wraps, shows the model another text.

    Such a guardrail has `shows = True`. What is sent may not fit the tool's output schema then.
    """
    if any(getattr(guardrail, "shows", False) for guardrail in tool.output_guardrails):
        return True
    return isinstance(tool, WrapperTool) and shows_another(tool.tool)


def plain(value: Any) -> Any:
    """Return a value in JSON's own types. Fields have the names of the schema, their aliases.

    Raises:
        ValueError: JSON cannot say it.
    """
    if isinstance(value, str):
        return ToolResult.of(value).text
    # Raises for a value that JSON cannot say, without reading an iterator, which may be endless.
    from_json(ToolResult.of({"result": value}).text)
    return from_json(
        to_json(value, inf_nan_mode="strings", bytes_mode="base64", fallback=str),
        allow_inf_nan=False,
    )


def _structured(result: ToolResult) -> dict[str, Any]:
    """Return `{"result": value}` in JSON's own types; empty where JSON cannot say it."""
    if result.is_error or any(not isinstance(part, TextContent) for part in result.output):
        return {}
    try:
        return {"result": plain(result.structured)}
    except ValueError:
        return {}


def _build(tool: Tool, protocol: str) -> Build:
    """Return the function that makes the definition of a tool for a revision."""
    shown = isinstance(tool, Tool) and shows_another(tool)
    return _builder(protocol >= LATEST, shown)


@cache  # Definitions are cached by this function, so it has to be the same one each time.
def _builder(is_latest: bool, without_output: bool) -> Build:
    define = _definition if is_latest else _older_definition
    return lambda tool: define(tool, None if without_output else tool.schema.output)


def _older_definition(
    tool: Tool, output: Mapping[str, Any] | None
) -> tuple[dict[str, Any], list[str]]:
    lost = []
    if output is not None and output.get("type") != "object":
        rest = {key: value for key, value in output.items() if key != "$defs"}
        defs = {"$defs": output["$defs"]} if "$defs" in output else {}
        output = {"type": "object", "properties": {"result": rest}, "required": ["result"], **defs}
        lost = ["the output schema is wrapped as {result}: this revision takes an object only"]
    made, more = _definition(tool, output)
    unions = [
        f"#: {keyword} stands at the root: this revision does not say that it may"
        for keyword in MANY[:3]
        if keyword in tool.schema.plain
    ]
    return made, [*more, *unions, *lost]


def _definition(tool: Tool, output: Mapping[str, Any] | None) -> tuple[dict[str, Any], list[str]]:
    schema, settings = tool.schema.plain, tool.settings
    title = settings.display_name if settings.display_name != tool.name else ""
    hints = {
        "readOnlyHint": settings.read_only,
        "destructiveHint": settings.destructive,
        "idempotentHint": settings.idempotent,
    }
    said = {key: value for key, value in hints.items() if value is not None}
    is_address = _ICON.match(settings.icon) is not None
    made: dict[str, Any] = {
        "name": tool.name,
        **({"title": title} if title else {}),
        **({"description": tool.schema.description} if tool.schema.description else {}),
        "inputSchema": {**schema, "type": "object"},
        **({"outputSchema": output} if output is not None else {}),
        **({"annotations": said} if said else {}),
        **({"icons": [{"src": settings.icon}]} if is_address else {}),
    }
    root = (
        []
        if schema.get("type") == "object"
        else [f"#: type {schema.get('type')!r} is written as object"]
    )
    icon = [] if is_address or not settings.icon else ["icon: it is no https: or data: address"]
    return made, [*name_losses(tool.name, NAME), *root, *_remote(schema, "#"), *icon]


def _remote(node: Any, path: str) -> list[str]:
    if not isinstance(node, Mapping):
        return []
    ref = node.get("$ref")
    found = (
        [f"{path}: $ref {ref} is none that a client follows"]
        if isinstance(ref, str) and not ref.startswith("#")
        else []
    )
    below = [(name, child) for name, child in node.get("$defs", {}).items()] if path == "#" else []
    inner = [
        *(("/".join(map(str, where)), child) for where, child in children(node)),
        *((f"$defs/{n}", child) for n, child in below),
    ]
    return [*found, *(loss for where, child in inner for loss in _remote(child, f"{path}/{where}"))]


def _block(part: Content) -> dict[str, Any]:
    if isinstance(part, TextContent):
        return {"type": "text", "text": text_of(part)}
    kind, uri = _valid(part.media_type), _valid(part.uri or "")
    name = _valid(part.name or "") if isinstance(part, FileContent) else ""
    if part.data is None:
        return {
            "type": "resource_link",
            "uri": uri,
            "name": name or uri.rpartition("/")[2] or "file",
            "mimeType": kind,
        }
    if isinstance(part, FileContent):
        held = {"uri": uri or f"attachment:{quote(name or 'file')}", "mimeType": kind}
        text = text_in(part)
        content = {"blob": base64_of(part)} if text is None else {"text": text}
        return {"type": "resource", "resource": {**held, **content}}
    return {
        "type": "image" if isinstance(part, ImageContent) else "audio",
        "data": base64_of(part),
        "mimeType": kind,
    }


def _valid(text: str) -> str:
    """Return `text` as valid UTF-8: the name of a file may hold other bytes."""
    return ToolResult.of(text).text
