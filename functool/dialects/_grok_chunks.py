"""The chunks of xAI: those of its own SDK, and those that it streams to OpenAI's."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from functool.dialects._chat_chunks import ChatChunks
from functool.dialects._reply import Reply
from functool.dialects._response_events import ResponseEvents
from functool.dialects._wire import get, listed, mismatch

# The messages of the SDK number them.
_REASONS = ("INVALID", "MAX_LEN", "MAX_CONTEXT", "STOP", "TOOL_CALLS", "TIME_LIMIT")
_COMPLETE = ("STOP", "TOOL_CALLS")


class GrokChunks:
    """Reads what the first chunk shows the stream to be.

    `kinds` are the calls that the host runs.
    """

    expected = "a chunk of xai_sdk's chat.stream(), a ChatCompletionChunk, an event or a dict"

    def __init__(self, kinds: Collection[Any]) -> None:
        self._kinds = kinds
        self._count = 0
        self._chat = ChatChunks(self.expected, kinds)
        self._events = ResponseEvents()

    def read(self, chunk: Any, reply: Reply) -> None:
        """Read one chunk, or the pair of response and chunk that the SDK yields."""
        if isinstance(chunk, tuple) and len(chunk) == 2:
            chunk = chunk[1]
        proto = get(chunk, "proto") or chunk
        outputs = get(proto, "outputs")
        if not listed(outputs) and not hasattr(outputs, "__getitem__"):
            is_event = isinstance(get(chunk, "type"), str)
            (self._events if is_event else self._chat).read(chunk, reply)
            return
        if isinstance(chunk, str) or any(get(output, "delta") is None for output in outputs):
            raise mismatch(self.expected, chunk)
        reply.check_id(get(proto, "id"))
        for output in outputs:
            self._output(output, reply)

    def _output(self, output: Any, reply: Reply) -> None:
        delta = get(output, "delta")
        if get(delta, "role") in (None, 0, 2, "ROLE_ASSISTANT"):
            reply.say(get(delta, "content"))
        for entry in get(delta, "tool_calls", "toolCalls") or ():
            if get(entry, "type") in self._kinds:
                function = get(entry, "function")
                call = reply.start(self._count, get(function, "name"), get(entry, "id"))
                reply.finish(call, get(function, "arguments"))
                self._count += 1
        reason = get(output, "finish_reason", "finishReason") or 0
        known = isinstance(reason, int) and 0 <= reason < len(_REASONS)
        word = _REASONS[reason] if known else str(reason).removeprefix("REASON_")
        # After calls of tools that run at the provider, the model goes on in another output.
        if word != "INVALID" and (word != "TOOL_CALLS" or reply.calls):
            reply.end(word, complete=word in _COMPLETE)
