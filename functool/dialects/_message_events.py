"""The events of Anthropic's Messages API."""

from __future__ import annotations

from typing import Any

from functool.dialects._reply import Reply, Written, mixed_streams
from functool.dialects._wire import get, mismatch

COMPLETE = ("tool_use", "end_turn", "stop_sequence", "pause_turn", None)
"""Why a message may end so that its last call is whole. At any other end it was cut off."""

_OURS = ("message_", "content_block_", "ping", "error")


class MessageEvents:
    """Reads the events of a message. Thinking, and tools that run at the provider, say nothing."""

    expected = "an event of a Messages stream or its dict"

    def __init__(self) -> None:
        self._begun = False
        self._reason: Any = None
        self._blocks: dict[Any, Any] = {}
        self._open: Written | None = None

    def read(self, event: Any, reply: Reply) -> None:
        """Read one event."""
        kind = get(event, "type")
        if not isinstance(kind, str) or not (self._begun or kind.startswith(_OURS)):
            raise mismatch(self.expected, event)
        if kind.startswith("response.") or get(event, "choices") is not None:
            raise mismatch(self.expected, event)
        if kind == "message_start":
            if self._begun:
                raise mixed_streams("a second message starts in this stream")
            self._begun = True
        elif kind == "content_block_start":
            self._start(get(event, "index"), get(event, "content_block"), reply)
        elif kind == "content_block_delta":
            self._delta(get(event, "index"), get(event, "delta"), reply)
        elif kind == "content_block_stop":
            self._stop(get(event, "index"), reply)
        elif kind == "message_delta":
            self._reason = get(get(event, "delta"), "stop_reason") or self._reason
        elif kind == "message_stop":
            reply.end(self._reason or "end_turn", complete=self._reason in COMPLETE)
        elif kind == "error":
            reply.fail(get(get(event, "error"), "message") or "the message failed")

    def _start(self, index: Any, block: Any, reply: Reply) -> None:
        if index in self._blocks:
            raise mixed_streams("a content block starts twice")
        self._finish_open(reply)
        self._blocks[index] = block
        if get(block, "type") == "text":
            reply.say(get(block, "text"))
        elif get(block, "type") == "tool_use":
            reply.start(index, get(block, "name"), get(block, "id"))

    def _delta(self, index: Any, delta: Any, reply: Reply) -> None:
        if index not in self._blocks:
            raise ValueError("a delta came for a block that did not start in this stream")
        found = reply.find(index)
        if get(delta, "type") == "text_delta":
            reply.say(get(delta, "text"))
        elif get(delta, "type") == "input_json_delta" and found is not None:
            reply.add(found, get(delta, "partial_json"))

    def _stop(self, index: Any, reply: Reply) -> None:
        if index not in self._blocks:
            raise ValueError("a block stops that did not start in this stream")
        found = reply.find(index)
        if found is None:
            return
        # The SDK's helper fills in the block, so only without deltas is it what the server sent.
        whole = get(self._blocks[index], "input")
        if found.text:
            reply.finish(found)
        elif whole:
            reply.finish(found, whole)
        else:  # Now it shows whether it has no arguments, or lost them at the limit of tokens.
            self._open = found

    def _finish_open(self, reply: Reply) -> None:
        """Finish a call without arguments: the model has gone on to something else."""
        if self._open is not None:
            reply.finish(self._open)
            self._open = None
