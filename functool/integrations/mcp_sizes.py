"""Bound how many values one message of an MCP server has, before and after the SDK parses it.

The SDK parses a message on the event loop. A megabyte of text is harmless, but a megabyte of empty
objects takes a hundred megabytes of memory and a tenth of a second. If the values have the wrong
type, their errors take ten times as much.
"""

from __future__ import annotations

from typing import Any

from mcp_types import jsonrpc_message_adapter
from pydantic import ValidationError
from pydantic_core import from_json

from functool.json_values import paused_gc_if_long

MAX_VALUES = 500_000
"""How many values and names the JSON of one message may have. 4 MB of usual JSON have as many."""

MAX_ITEMS = 10_000
"""How many items a list of the protocol may have, such as the content of an answer. All lists of a
message together may have twice as many."""

SHORT = 64
"""How many digits a number may have that counts as one value."""

LONGEST_WAIT = 16
"""How many characters the line of an event stream may have that says when to connect again."""

MANY = 10_000
"""How many values a message may have that the SDK validates first. If it is none, the SDK's error
holds up to eleven copies of its values: half a gigabyte for a megabyte of JSON."""

MAX_EVENT = 32 * 1024 * 1024
"""How many characters an event may have with its comments, which nobody else counts."""

_MARKS = ",:[{"
_FREE = frozenset({"structuredContent", "_meta", "inputSchema", "outputSchema"})


class Values:
    """Count the values and names of a JSON message that arrives in parts.

    A line break ends a text, because a JSON text cannot contain one.

    Args:
        events: The parts are those of an event stream: a blank line begins another message.
    """

    def __init__(self, events: bool = False) -> None:
        self._events = events
        self._count = 0
        self._rest = ""
        self._in_text = False
        self._blank = False
        self._open = 0
        self._head, self._waits = "", False
        self._text: list[str] = []
        self._size = 0

    def fit(self, part: str) -> bool:
        """Count the values of a part, and return whether the message has not too many yet.

        A stream may not ask for a wait of years either. An event with many values has to be a
        message.
        """
        self._text.append(part)
        self._size += len(part)
        largest = -1  # Of the events that end in this part, or -1.
        part = self._rest + part
        # Only these two escapes decide where a text ends. `re.sub` takes three times as long. A
        # letter stands for each, because the line of an escape is not blank.
        part = part.replace("\\\\", "a").replace('\\"', "a")
        cut = len(part) - part.endswith(("\\", "\r"))  # What follows decides what these mean.
        self._rest, part = part[cut:], part[:cut]
        first, *lines = part.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self._take(first)
        for line in lines:
            self._numbers([self._open])
            if self._events and self._blank:
                largest, self._count = max(largest, self._count), 0
            self._in_text, self._blank, self._open, self._head = False, True, 0, ""
            self._take(line)
        if largest >= 0 and not self._are_messages(largest):
            return False
        is_short = not self._events or self._size <= MAX_EVENT
        return self._count <= MAX_VALUES and not self._waits and is_short

    def ends(self) -> bool:
        """Return whether what has arrived may be given to the SDK as the end of a message."""
        text = "".join(self._text)
        return self._count <= MANY or is_message(_data(_lines(text)) if self._events else text)

    def _are_messages(self, largest: int) -> bool:
        """Forget the events that have ended, and return whether they may be given to the SDK.

        The largest of them has so many values.
        """
        text = "".join(self._text)
        whole, end = text.removesuffix("\r"), text[len(text.removesuffix("\r")) :]
        *events, rest = _lines(whole).split("\n\n")
        self._text, self._size = [rest, end], len(rest) + len(end)
        return largest <= MANY or all(map(is_message, filter(_is_long, map(_data, events))))

    def _take(self, line: str) -> None:
        self._blank = self._blank and not line
        self._head = (self._head + line[: LONGEST_WAIT + 1])[: LONGEST_WAIT + 1]
        if self._events and self._head.startswith("retry:") and len(self._head) > LONGEST_WAIT:
            self._waits = True  # No float is so large, and the SDK would end the connection.
        pieces = line.split('"')
        outside = "".join(pieces[self._in_text :: 2])
        self._count += sum(map(outside.count, _MARKS))
        *numbers, last = map(len, outside.split(","))
        if numbers:
            self._numbers([self._open + numbers[0], *numbers[1:]])
        self._open = last if numbers else self._open + last
        self._in_text ^= len(pieces) % 2 == 0

    def _numbers(self, digits: list[int]) -> None:
        """Count numbers with so many digits. Python takes quadratic time for them."""
        self._count += sum(each * each for each in digits if each > SHORT) // SHORT**2


def is_message(text: str) -> bool:
    """Whether the outermost level of a JSON text is that of a message.

    A text that is no JSON counts as one: the SDK's error for it holds no values.
    """
    try:
        found = paused_gc_if_long(from_json, text)
    except ValueError:
        return True
    if isinstance(found, list):
        return False
    if isinstance(found, dict):
        error = found.get("error")
        found = {name: _emptied(value) for name, value in found.items()}
        if isinstance(error, dict):
            found["error"] = {name: _emptied(value) for name, value in error.items()}
    try:
        jsonrpc_message_adapter.validate_python(found, by_name=False)
    except ValidationError:
        return False
    return True


def _emptied(value: Any) -> Any:
    return type(value)() if isinstance(value, (dict, list)) else value


def _lines(text: str) -> str:
    """Return a text of an event stream with the same end for each line."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _data(event: str) -> str:
    """Return the data of an event."""
    lines = event.split("\n")
    return "\n".join(line.removeprefix("data:") for line in lines if line.startswith("data:"))


def _is_long(data: str) -> bool:
    return len(data) > MANY


def has_long_list(message: Any) -> bool:
    """Whether a list of the protocol in a message is too long, or all of its lists together are.

    The parts that may have any form, such as structured content, may have longer ones.
    """
    waiting = [message]
    left = 2 * MAX_ITEMS
    while waiting:
        found = waiting.pop()
        left -= len(found) if isinstance(found, list) else 0
        if isinstance(found, dict):
            found = [value for name, value in found.items() if name not in _FREE]
        if isinstance(found, list):
            if len(found) > MAX_ITEMS or left < 0:
                return True
            waiting += found
    return False
