"""Mistral's chat API.

There is no published strict subset: a strict tool is published in its strict form, any other in its
plain one.
"""

from __future__ import annotations

from typing import Any

from functool import Content, ImageContent, Tool, ToolCall, ToolResult
from functool.dialects._mistral_events import MistralEvents
from functool.dialects._rules import Rules
from functool.dialects._stream import Reader
from functool.dialects._walk import render
from functool.dialects._wire import (
    IMAGES,
    Deferred,
    Tools,
    call,
    data_url,
    fresh,
    function_calls,
    function_entry,
    get,
    is_chat,
    listed,
    mismatch,
    name_losses,
    request_losses,
    sendable,
    text_of,
    with_deferred,
)
from functool.dialects.openai import rewritten

PLAIN = Rules()
"""Anything that JSON Schema has; the root holds no combinators."""


def definition(tool: Tool) -> dict[str, Any]:
    """Return the tool as an entry of a request's `tools`."""
    return fresh(tool, _build)


def definitions(tools: Tools, *, deferred: Deferred = ()) -> list[dict[str, Any]]:
    """Return the tools as a request's `tools`."""
    return [definition(tool) for tool in with_deferred(tools, deferred)]


def losses(*tools: Tool, deferred: Deferred = ()) -> list[str]:
    """Return every keyword rewritten, and every limit broken, of a request with these tools."""
    return request_losses(tools, deferred, _build)


def calls(message: Any) -> list[ToolCall]:
    """Return the calls of a chat completion, its message, a conversation, or their dicts.

    Of a completion, the first choice is read.

    Raises:
        TypeError: It is something else.
    """
    outputs = get(message, "outputs")
    if not listed(outputs) and not is_chat(message):
        raise mismatch("a ChatCompletionResponse, its message, a conversation or a dict", message)
    entries = [entry for entry in outputs or () if get(entry, "type") == "function.call"]
    found = [
        call(get(entry, "name"), get(entry, "arguments"), get(entry, "tool_call_id"))
        for entry in entries
    ]
    # "null" is how the SDK spells an id that was not sent.
    return found or [
        call(c.name, c.arguments, "" if c.id == "null" else c.id) for c in function_calls(message)
    ]


def result(result: ToolResult) -> dict[str, Any]:
    """Return the result as a tool message.

    PNG, JPEG, GIF and WebP images are parts of it; anything else becomes a placeholder.
    """
    parts = [_part(part) for part in sendable(result, "https", "http", "data")]
    content = result.text if all(part["type"] == "text" for part in parts) else parts
    return {"role": "tool", "tool_call_id": result.call_id, "content": content}


class StreamReader(Reader):
    """Reads the events of `chat.stream`, or of a streamed conversation.

    Args:
        tools: A tool, some tools or a `Toolset`. With them a call that can no longer become valid
            is refused while it is still being written. `run` needs them.
    """

    def __init__(self, tools: Tools | None = None) -> None:
        super().__init__(MistralEvents(), tools)


def _build(tool: Tool) -> tuple[dict[str, Any], list[str]]:
    schema = tool.schema
    if schema.strict:
        parameters, lost = schema.parameters, rewritten(schema)
    else:
        parameters, lost = render(schema.plain, PLAIN)
    entry = function_entry(tool, parameters, strict=schema.strict)
    return entry, [*name_losses(tool.name), *lost]


def _part(part: Content) -> dict[str, Any]:
    if isinstance(part, ImageContent) and (part.data is None or part.media_type in IMAGES):
        return {"type": "image_url", "image_url": data_url(part)}
    return {"type": "text", "text": text_of(part)}
