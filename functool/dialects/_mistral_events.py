"""The events of Mistral's chat completions and conversations."""

from __future__ import annotations

from typing import Any

from functool.dialects._chat_chunks import ChatChunks, texts_of
from functool.dialects._reply import Reply, mixed_streams
from functool.dialects._wire import get, mismatch

_CONVERSATION = ("conversation.", "message.output.", "function.call.", "tool.", "agent.")


class MistralEvents:
    """Reads the events of a completion, or of a conversation with the provider's own tools."""

    expected = "an event of chat.stream or of a streamed conversation, or its dict"

    def __init__(self) -> None:
        # "null" is how the SDK spells an id that was not sent.
        self._chunks = ChatChunks(self.expected, no_id="null")
        self._begun = False

    def read(self, event: Any, reply: Reply) -> None:
        """Read one event."""
        body = get(event, "data") or event
        kind = get(body, "type")
        if kind is None:
            self._chunks.read(body, reply)
            return
        if not isinstance(kind, str) or not kind.startswith((*_CONVERSATION, "UNKNOWN")):
            raise mismatch(self.expected, body)
        if kind == "conversation.response.started":
            if self._begun:
                raise mixed_streams("a second response starts in this stream")
            self._begun = True
        elif kind == "message.output.delta":
            content = get(body, "content")
            for text in texts_of(content if isinstance(content, str) else [content]):
                reply.say(text)
        elif kind == "function.call.delta":
            key = get(body, "tool_call_id", "id")
            found = reply.find(key) or reply.start(key, get(body, "name"), key)
            reply.add(found, get(body, "arguments"))
        elif kind == "conversation.response.done":
            reply.end("done")
        elif kind == "conversation.response.error":
            reply.fail(get(body, "message") or "the conversation failed")
