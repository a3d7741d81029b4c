"""The events of OpenAI's Responses API."""

from __future__ import annotations

from typing import Any

from functool.dialects._reply import Reply, Written, mixed_streams, no_such_call
from functool.dialects._wire import get, mismatch

_OTHERS = ("error", "keepalive")


class ResponseEvents:
    """Reads the events of a response. Those of tools that run at the provider say nothing here."""

    expected = "an event of a Responses stream or its dict"

    def __init__(self) -> None:
        self._id: str | None = None
        self._number: int | None = None
        self._items: dict[Any, Any] = {}

    def read(self, event: Any, reply: Reply) -> None:
        """Read one event."""
        kind = get(event, "type")
        if not (isinstance(kind, str) and (kind.startswith("response.") or kind in _OTHERS)):
            raise mismatch(self.expected, event)
        self._check(kind, event)
        word = kind.removeprefix("response.")
        if word == "output_text.delta":
            reply.say(get(event, "delta"))
        elif word == "refusal.delta":
            reply.say(get(event, "delta"), refusal=True)
        elif word in ("output_item.added", "output_item.done"):
            self._item(get(event, "output_index"), get(event, "item"), reply, word)
        elif word == "function_call_arguments.delta":
            reply.add(self._call(event, reply), get(event, "delta"))
        elif word == "function_call_arguments.done":
            # Without any text, the item says whether it was cut off.
            if get(event, "arguments"):
                reply.finish(self._call(event, reply), get(event, "arguments"))
        elif word in ("completed", "incomplete"):
            self._end(get(event, "response"), reply, word)
        elif word in ("failed", "error"):
            about = get(get(event, "response"), "error") or get(event, "error") or event
            reply.fail(get(about, "message") or "the response failed")

    def _check(self, kind: str, event: Any) -> None:
        """Refuse an event of another stream."""
        number, id = get(event, "sequence_number"), get(get(event, "response"), "id")
        again = kind == "response.created" and self._id is not None
        other = bool(id and self._id and id != self._id)
        early = number is not None and self._number is not None and number <= self._number
        if again or other or early:
            raise mixed_streams("the event belongs to another response")
        self._id, self._number = self._id or id, number if number is not None else self._number

    def _item(self, key: Any, item: Any, reply: Reply, word: str) -> None:
        if get(item, "type") != "function_call":
            return
        found = reply.find(key)
        if found is None:
            found = reply.start(key, get(item, "name"), get(item, "call_id"))
            self._items[key] = get(item, "id")
        if word == "output_item.added":
            reply.add(found, get(item, "arguments"))
        elif get(item, "status") != "incomplete":
            reply.finish(found, get(item, "arguments"))

    def _call(self, event: Any, reply: Reply) -> Written:
        key = get(event, "output_index")
        found = reply.find(key)
        # Some servers rename their items on the way. Numbered events need no such check.
        numbered = self._number is not None
        if found is None or not (numbered or self._items[key] == get(event, "item_id")):
            raise no_such_call()
        return found

    def _end(self, response: Any, reply: Reply, word: str) -> None:
        known = {call.id: key for key in self._items if (call := reply.find(key)) is not None}
        for place, item in enumerate(get(response, "output") or ()):
            # Some servers leave items out here, such as reasoning, so a call has another place than
            # it had in the stream. It is the same call, and must not run twice.
            id, at = str(get(item, "call_id") or ""), reply.find(place)
            same = not id or (at is not None and at.id == id)
            key = place if same else known.get(id, place)
            self._item(key, item, reply, "output_item.done")
        about = get(response, "incomplete_details")
        reply.end(get(about, "reason") or word, complete=word == "completed")
