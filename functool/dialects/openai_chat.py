"""OpenAI's Chat Completions API, and the servers that speak it."""

from __future__ import annotations

from typing import Any

from functool import Tool, ToolCall, ToolResult
from functool.dialects._chat_chunks import ChatChunks
from functool.dialects._stream import Reader
from functool.dialects._wire import (
    Deferred,
    Tools,
    fresh,
    function_calls,
    function_entry,
    is_chat,
    mismatch,
    name_losses,
    request_losses,
    with_deferred,
)
from functool.dialects.openai import MAX_TOOLS, parameters


def definition(tool: Tool) -> dict[str, Any]:
    """Return the tool as an entry of a request's `tools`."""
    return fresh(tool, _build)


def definitions(tools: Tools, *, deferred: Deferred = ()) -> list[dict[str, Any]]:
    """Return the tools as a request's `tools`."""
    return [definition(tool) for tool in with_deferred(tools, deferred)]


def losses(*tools: Tool, deferred: Deferred = ()) -> list[str]:
    """Return every keyword rewritten, and every limit broken, of a request with these tools."""
    return request_losses(tools, deferred, _build, MAX_TOOLS)


def calls(message: Any) -> list[ToolCall]:
    """Return the calls of a `ChatCompletion`, of a `ChatCompletionMessage`, or of their dicts.

    Of a completion, the first choice is read.

    Raises:
        TypeError: It is something else.
    """
    if not is_chat(message):
        raise mismatch("a ChatCompletion, its message or their dict", message)
    return function_calls(message)


def result(result: ToolResult) -> dict[str, Any]:
    """Return the result as a tool message.

    Such a message holds text only: an image becomes a placeholder.
    """
    return {"role": "tool", "tool_call_id": result.call_id, "content": result.text}


class StreamReader(Reader):
    """Reads a stream of `ChatCompletionChunk`s. Of several choices the first is read.

    Args:
        tools: A tool, some tools or a `Toolset`. With them a call that can no longer become valid
            is refused while it is still being written. `run` needs them.
    """

    def __init__(self, tools: Tools | None = None) -> None:
        super().__init__(ChatChunks(), tools)


def _build(tool: Tool) -> tuple[dict[str, Any], list[str]]:
    schema, lost = parameters(tool)
    entry = function_entry(tool, schema, strict=tool.schema.strict)
    return entry, [*name_losses(tool.name), *lost]
