"""Bound how many values one message of an MCP server has, before and after the SDK parses it.

The SDK parses a message on the event loop. A megabyte of text is harmless, but a megabyte of empty
objects takes a hundred megabytes of memory and a tenth of a second. If the values have the wrong
type, their errors take ten times as much.
"""

from __future__ import annotations

from typing import Any

MAX_VALUES = 500_000
"""How many values and names the JSON of one message may have. 4 MB of usual JSON have as many."""

MAX_ITEMS = 10_000
"""How many items a list of the protocol may have, such as the content of an answer. All lists of a
message together may have twice as many."""

SHORT = 64
"""How many digits a number may have that counts as one value."""

LONGEST_WAIT = 16
"""How many characters the line of an event stream may have that says when to connect again."""

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

    def fit(self, part: str) -> bool:
        """Count the values of a part, and return whether the message has not too many yet.

        A stream may not ask for a wait of years either.
        """
        part = self._rest + part
        # Only these two escapes decide where a text ends. `re.sub` takes three times as long.
        part = part.replace("\\\\", "").replace('\\"', "")
        cut = len(part) - part.endswith(("\\", "\r"))  # What follows decides what these mean.
        self._rest, part = part[cut:], part[:cut]
        first, *lines = part.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self._take(first)
        for line in lines:
            self._numbers([self._open])
            if self._events and self._blank:
                self._count = 0
            self._in_text, self._blank, self._open, self._head = False, True, 0, ""
            self._take(line)
        return self._count <= MAX_VALUES and not self._waits

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
