r"""The Converse API of AWS Bedrock.

Its strict grammar is Claude's, with one difference that was measured on the wire: text lengths are
accepted, although the guide says they are not. `strict` is sent for strict tools only, because
older models do not know it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from functool import Content, FileContent, ImageContent, Tool, ToolCall, ToolResult
from functool.dialects import anthropic
from functool.dialects._converse_events import COMPLETE, ConverseEvents
from functool.dialects._stream import Reader
from functool.dialects._wire import (
    Deferred,
    Tools,
    argument_losses,
    call,
    cut_off,
    fresh,
    get,
    listed,
    mismatch,
    name_losses,
    request_losses,
    sendable,
    size,
    text_of,
    with_deferred,
)

STRICT = replace(
    anthropic.STRICT,
    keywords=(anthropic.STRICT.keywords or frozenset()) | {"minLength", "maxLength"},
)
"""The grammar of `strict: true`."""

_IMAGES = {"image/png": "png", "image/jpeg": "jpeg", "image/gif": "gif", "image/webp": "webp"}
_DOCUMENTS = {
    "application/pdf": "pdf",
    "text/csv": "csv",
    "text/html": "html",
    "text/plain": "txt",
    "text/markdown": "md",
    "application/msword": "doc",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
}


def definition(tool: Tool) -> dict[str, Any]:
    """Return the tool as an entry of `toolConfig.tools`."""
    return fresh(tool, _build)


def definitions(tools: Tools, *, deferred: Deferred = ()) -> list[dict[str, Any]]:
    """Return the tools as `toolConfig.tools`."""
    return [definition(tool) for tool in with_deferred(tools, deferred)]


def losses(*tools: Tool, deferred: Deferred = ()) -> list[str]:
    """Return every keyword rewritten, and every limit broken, of a request with these tools."""
    specs = [entry["toolSpec"] for entry in definitions(tools, deferred=deferred)]
    strict = [size(spec["inputSchema"]["json"]) for spec in specs if spec.get("strict")]
    return [*request_losses(tools, deferred, _build), *anthropic.budget(strict)]


def calls(message: Any) -> list[ToolCall]:
    """Return the calls of a response of `converse`, or of its message.

    Those of tools that run at the provider are left out. If the response was cut off in a call
    (`max_tokens`, or a guardrail's stop), the arguments of that call are text that a tool refuses.

    Raises:
        TypeError: It is something else.
    """
    content = get(get(get(message, "output"), "message") or message, "content")
    if not listed(content) or any(get(part, "type") is not None for part in content):
        raise mismatch("a response of converse or its message", message)
    found = [block for part in content if (block := get(part, "toolUse")) is not None]
    found = [block for block in found if get(block, "type") != "server_tool_use"]
    made = [call(get(one, "name"), get(one, "input"), get(one, "toolUseId")) for one in found]
    is_last = made and get(content[-1], "toolUse") is found[-1]
    if is_last and get(message, "stopReason") not in (None, *COMPLETE):
        made[-1] = cut_off(made[-1])
    return made


def result(result: ToolResult) -> dict[str, Any]:
    """Return the result as a block of the next user message, its bytes as bytes.

    Sounds become placeholders. The name of a document holds the id of the call, because the API
    refuses two documents of the same name in one request.
    """
    blocks = [
        _block(part, f"{result.call_id} {number}".strip())
        for number, part in enumerate(sendable(result, "s3"), 1)
    ]
    return {
        "toolResult": {
            "toolUseId": result.call_id,
            "content": blocks,
            "status": "error" if result.is_error else "success",
        }
    }


class StreamReader(Reader):
    """Reads the events of `converse_stream(...)["stream"]`.

    Args:
        tools: A tool, some tools or a `Toolset`. With them a call that can no longer become valid
            is refused while it is still being written. `run` needs them.
    """

    def __init__(self, tools: Tools | None = None) -> None:
        super().__init__(ConverseEvents(), tools)


def _build(tool: Tool) -> tuple[dict[str, Any], list[str]]:
    schema, lost, strict = anthropic.strict_schema(tool, STRICT)
    description = tool.schema.description
    reason = "the description is empty, which is refused: it is left out"
    empty = [] if description.strip() else [reason]
    spec: dict[str, Any] = {
        "name": tool.name,
        **({} if empty else {"description": description}),
        "inputSchema": {"json": schema},
    }
    names = [*name_losses(tool.name), *argument_losses(schema, anthropic.ARGUMENT), *empty]
    if tool.schema.strict:
        spec["strict"] = strict
    # As in Anthropic's dialect: the reason why `strict` is false stays first.
    return {"toolSpec": spec}, [*lost[:1], *names, *lost[1:]]


def _block(part: Content, place: str) -> dict[str, Any]:
    if isinstance(part, ImageContent) and part.media_type in _IMAGES:
        return {"image": {"format": _IMAGES[part.media_type], "source": _source(part)}}
    if isinstance(part, FileContent) and part.media_type in _DOCUMENTS:
        # The API takes letters, digits, single spaces, hyphens, parentheses and brackets.
        name = f"{(part.name or 'file')[:100]} ({place})"
        name = " ".join(re.sub(r"[^a-zA-Z0-9()\[\]-]", " ", name).split())[:200]
        kind, source = _DOCUMENTS[part.media_type], _source(part)
        return {"document": {"format": kind, "name": name, "source": source}}
    return {"text": text_of(part)}


def _source(part: ImageContent | FileContent) -> dict[str, Any]:
    if part.data is not None:
        return {"bytes": part.data}
    return {"s3Location": {"uri": part.uri}}
