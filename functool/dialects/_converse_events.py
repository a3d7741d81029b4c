"""The events of the Converse API of AWS Bedrock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from functool.dialects._reply import Reply, Written, mixed_streams, no_such_call
from functool.dialects._wire import get, mismatch

COMPLETE = ("tool_use", "end_turn", "stop_sequence")
"""Why a message may end so that its last call is whole. At any other end it was cut off."""

_KINDS = (
    "messageStart",
    "contentBlockStart",
    "contentBlockDelta",
    "contentBlockStop",
    "messageStop",
    "metadata",
)


class ConverseEvents:
    """Reads the events of `converse_stream(...)["stream"]`."""

    expected = 'an event of converse_stream(...)["stream"]'

    def __init__(self) -> None:
        self._begun = False
        self._open: Written | None = None
        self._others: set[Any] = set()

    def read(self, event: Any, reply: Reply) -> None:
        """Read one event."""
        kind, body = next(iter(event.items())) if _is_event(event) else ("", None)
        if kind.endswith("Exception"):
            reply.fail(f"{kind}: {get(body, 'message') or 'no message'}")
            return
        if kind not in _KINDS:
            raise mismatch(self.expected, event)
        if kind != "metadata":
            getattr(self, f"_{kind}")(body, reply)

    def _messageStart(self, body: Any, reply: Reply) -> None:
        if self._begun:
            raise mixed_streams("a second message starts in this stream")
        self._begun = True

    def _contentBlockStart(self, body: Any, reply: Reply) -> None:
        self._finish_open(reply)
        index, use = get(body, "contentBlockIndex"), get(get(body, "start"), "toolUse")
        if reply.find(index) is not None:
            raise mixed_streams("a content block starts twice")
        if use is not None and get(use, "type") != "server_tool_use":
            reply.start(index, get(use, "name"), get(use, "toolUseId"))
        else:
            self._others.add(index)

    def _contentBlockDelta(self, body: Any, reply: Reply) -> None:
        index, delta = get(body, "contentBlockIndex"), get(body, "delta")
        reply.say(get(delta, "text"))
        use = get(delta, "toolUse")
        if use is None or index in self._others:
            return
        found = reply.find(index)
        if found is None:
            raise no_such_call()
        reply.add(found, get(use, "input"))

    def _contentBlockStop(self, body: Any, reply: Reply) -> None:
        found = reply.find(get(body, "contentBlockIndex"))
        if found is not None and found.text:
            reply.finish(found)
        else:  # A call without arguments may have lost them at the limit of tokens.
            self._open = found

    def _messageStop(self, body: Any, reply: Reply) -> None:
        reason = get(body, "stopReason")
        reply.end(reason or "end_turn", complete=reason in COMPLETE)

    def _finish_open(self, reply: Reply) -> None:
        if self._open is not None:
            reply.finish(self._open)
            self._open = None


def _is_event(event: Any) -> bool:
    return isinstance(event, Mapping) and len(event) == 1 and isinstance(next(iter(event)), str)
