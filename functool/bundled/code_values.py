"""Pass values between a program and the host, and keep track of their sources.

A program never gets a value that somebody else may have written. It gets an `Untrusted` object with
a number. The value and its sources stay in the host.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from reprlib import repr as brief
from typing import Any, TypeAlias

from functool import ToolError
from functool.call import to_json
from functool.pointers import argument_at, escaped

MAX_DEPTH = 100
MAX_VALUES = 100_000
"""How many labelled values a program may make."""

MAX_JOINED = 16 * 1_048_576
"""Characters of all texts that a program makes with `join`, because the host keeps them."""

MAX_SIZE = 2 * 1_048_576
"""How large a value may be that leaves a program. Each value in it counts 16, and 8 characters 1.

A list may contain the same list many times, and so a small value may grow beyond any memory.
"""

MAX_SENT = 4 * MAX_SIZE
"""How large the arguments of all calls of a program may be together. The host keeps them."""

MAX_BITS = 14_284
"""Bits of an integer that Python writes as a text. It writes at most 4,300 digits."""

_SCALARS = (str, int, float, bool)


Place: TypeAlias = tuple[Any, str]
"""The place of a value: the place of what holds it, or None, and its key or index there."""


class ValueProblem(ToolError):
    """A value cannot be used as the program wants. The message is for the program."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """A value that somebody else may have written, and the tools that it came from."""

    value: Any
    sources: tuple[str, ...]


class Labels:
    """The labelled values of one program, by number."""

    def __init__(self) -> None:
        self._values: list[Labelled] = []
        self._joined_left = MAX_JOINED
        self._crossed = Room(MAX_SENT)
        self._sent_left = MAX_SENT

    def keep(self, value: Any, sources: Iterable[str]) -> int:
        """Keep a value, and return its number.

        Raises:
            ValueProblem: There are too many values.
        """
        if len(self._values) >= MAX_VALUES:
            raise ValueProblem(f"a program may make at most {MAX_VALUES} untrusted values")
        self._values.append(Labelled(value, tuple(dict.fromkeys(sources))))
        return len(self._values) - 1

    def find(self, thing: Any) -> Labelled | None:
        """Return the labelled value of what an `Untrusted` object left as, or None for others.

        Raises:
            ValueProblem: The program made the object itself.
        """
        if getattr(thing, "name", None) != "_functool_label" or not hasattr(thing, "attributes"):
            return None
        return self._numbered(thing.attributes.get("number"))

    def _numbered(self, number: Any) -> Labelled:
        if type(number) is not int or not 0 <= number < len(self._values):
            raise ValueProblem("this Untrusted value was not made by a tool")
        return self._values[number]

    def ask(self, what: str, number: Any, arguments: tuple[Any, ...]) -> Any:
        """Answer a method of an `Untrusted` value, or `join`: a number, a list of them, or text.

        Raises:
            ValueProblem: The value has no such part, or an argument is not valid.
        """
        if what == "join":
            return self._joined(arguments)
        known = self._numbered(number)
        if what == "part":
            return self.keep(_part(known.value, arguments), known.sources)
        if not isinstance(known.value, (list, tuple, str, Mapping)):
            raise ValueProblem(f".{what}() needs an untrusted list, dict or text")
        if what == "count":
            return len(known.value)
        if isinstance(known.value, str):
            raise ValueProblem(".each() needs an untrusted list or dict")
        items = known.value.values() if isinstance(known.value, Mapping) else known.value
        return [self.keep(item, known.sources) for item in items]

    def _joined(self, parts: tuple[Any, ...]) -> Any:
        texts, sources = [], list[str]()
        labelled = False
        for part in parts:
            known = self.find(part)
            value = part if known is None else known.value
            if known is not None:
                labelled = True
                sources += known.sources
            if not isinstance(value, _SCALARS):
                raise ValueProblem(
                    "join() takes texts and numbers, and Untrusted ones: use .part()"
                )
            texts.append(value if isinstance(value, str) else to_json(_short(value)))
        self._joined_left -= sum(map(len, texts))
        if self._joined_left < 0:
            raise ValueProblem(
                f"the texts that a program joins may have {MAX_JOINED:,} characters in all"
            )
        text = "".join(texts)
        return [1, self.keep(text, sources)] if labelled else [0, text]

    def count(self, arguments: Any) -> None:
        """Count the arguments of a call as they arrive. The host keeps them until all calls ran.

        Raises:
            ValueProblem: Those of all calls together are too large.
        """
        try:
            self._crossed.take_all(arguments)
        except ValueProblem:
            raise ValueProblem(
                "The program was stopped: the arguments of its calls are too large together."
            ) from None

    def plain(self, value: Any) -> tuple[Any, dict[str, list[str]]]:
        """Return JSON data for a value of a program, and its sources by JSON pointer.

        Raises:
            ValueProblem: JSON cannot represent the value, or it is too large.
        """
        room = Room(most := min(MAX_SIZE, self._sent_left))
        form = _JsonForm(self, room, "send")
        try:
            return form.of(value), form.sources
        finally:
            self._sent_left -= most - max(0, room.left)

    def shown(self, value: Any, revealed: bool) -> tuple[Any, list[str]]:
        """Return JSON data that a model may read, and its sources.

        Untrusted values are named and not shown, unless `revealed` is True.

        Raises:
            ValueProblem: The value is nested too deeply, or is too large.
        """
        form = _JsonForm(self, Room(MAX_SIZE), "reveal" if revealed else "name")
        data = form.of(value)
        found = [name for names in form.sources.values() for name in names] if revealed else []
        return data, list(dict.fromkeys(found))


class Room:
    """Count the size of values. `left` is how much more they may have."""

    def __init__(self, left: int) -> None:
        self.left: int = left

    def take(self, value: Any) -> None:
        """Count one value, or one key.

        Raises:
            ValueProblem: All values together are too large.
        """
        self.left -= 16 + (len(value) // 8 if isinstance(value, (str, bytes)) else 0)
        if self.left < 0:
            raise ValueProblem("the value is too large: send and return less, in parts")

    def take_all(self, value: Any) -> None:
        """Count everything in a JSON value.

        Raises:
            ValueProblem: The whole value is too large.
        """
        waiting = [value]
        while waiting:
            found = waiting.pop()
            self.take(found)
            if isinstance(found, Mapping):
                for key in found:
                    self.take(key)
                waiting += found.values()
            elif isinstance(found, (list, tuple)):
                waiting += found


class _JsonForm:
    """Writes a value of a program as JSON data, and collects the sources of its untrusted parts.

    With the mode "send", the value is an argument of a call: it has to be JSON as it is. With
    "reveal" and "name" it is for a model: what is not JSON is described, and untrusted values are
    shown, or only named.
    """

    def __init__(self, labels: Labels, room: Room, mode: str) -> None:
        self.sources: dict[str, list[str]] = {}
        self._labels, self._room, self._mode = labels, room, mode

    def of(self, value: Any, at: Place | None = None, depth: int = 0) -> Any:
        """Return the JSON data of a value.

        Raises:
            ValueProblem: JSON cannot represent the value, or it is too deep or too large.
        """
        self._room.take(value)
        if value is None or isinstance(value, (str, bool, int)):
            return _short(value)
        if isinstance(value, float):
            return value if math.isfinite(value) else self._described(value, f"the number {value}")
        if depth > MAX_DEPTH:
            raise ValueProblem(f"the value is nested deeper than {MAX_DEPTH}")
        if (known := self._labels.find(value)) is not None:
            return self._untrusted(known, at)
        if isinstance(value, Mapping):
            found = {}
            for key, item in value.items():
                self._room.take(key)
                name = self._key(key)
                found[name] = self.of(item, (at, name), depth + 1)
            return found
        if isinstance(value, (list, tuple)):
            return [self.of(item, (at, str(i)), depth + 1) for i, item in enumerate(value)]
        if hasattr(value, "isoformat"):
            return value.isoformat()
        return self._described(value, f"a {getattr(value, 'name', type(value).__name__)}")

    def _untrusted(self, known: Labelled, at: Place | None) -> Any:
        pointer = _pointer(at)
        self._room.take(pointer)
        self.sources[pointer] = list(known.sources)
        shown = _named(known) if self._mode == "name" else known.value
        self._room.take_all(shown)
        return shown

    def _key(self, key: Any) -> str:
        if isinstance(key, str):
            return key
        if self._mode == "send":
            raise ValueProblem(f"keys must be texts, not {type(key).__name__}")
        return str(_short(key)) if isinstance(key, _SCALARS) else brief(key)

    def _described(self, value: Any, what: str) -> str:
        """Return a value that is not JSON as a text."""
        if self._mode == "send":
            raise ValueProblem(f"an argument holds {what}: send texts, numbers, lists and dicts")
        return brief(value)[:200]


def _pointer(place: Place | None) -> str:
    """Return a place as a JSON Pointer, which may be very long. Few places are ever needed."""
    names: list[str] = []
    while place is not None:
        place, name = place
        names.append("/" + escaped(name))
    return "".join(reversed(names))


def hidden_problems(
    problems: Iterable[Mapping[str, Any]], places: Iterable[str], given: Iterable[str]
) -> str:
    """Return what is wrong with arguments, but nothing about the values at these JSON pointers.

    A problem inside of an untrusted value may contain its keys. A problem whose first name is not
    in `given` belongs to a call inside of this one, whose arguments are a part of these.
    """
    known = set(given)
    tops = sorted({top for place in places if (top := argument_at(place)) is not None})
    lines: list[str] = []
    for problem in problems:
        path = str(problem.get("path", ""))
        name, following = re.match(r"([\w$-]*)(.?)", path).groups()  # type: ignore[union-attr]
        apart = name in known and following in "[."
        apart = apart and not any(top.startswith(name) for top in tops)
        if apart and "" not in places:
            lines.append(f"{path}: {problem.get('expected', '')}")
        else:
            lines.append(
                f"{', '.join(tops) or 'they'}: what is wrong with untrusted values is hidden"
            )
    return "Invalid arguments. " + "; ".join(dict.fromkeys(lines))


def _part(value: Any, path: tuple[Any, ...]) -> Any:
    """Return the part of a value at a path.

    Raises:
        ValueProblem: There is none. The message does not reveal what the value has instead.
    """
    for step in path:
        key: Any = step
        within = isinstance(value, (list, tuple)) and type(step) is int
        if (within and -len(value) <= key < len(value)) or (
            isinstance(step, str) and isinstance(value, Mapping) and step in value
        ):
            value = value[key]
        else:
            shown = "/".join(map(_step, path[:100]))
            raise ValueProblem(f"the untrusted value has no part {shown[:200]}")
    return value


def _step(step: Any) -> str:
    return str(_short(step)) if isinstance(step, (str, int)) else type(step).__name__


def _named(known: Labelled) -> str:
    return f"<untrusted value of {', '.join(known.sources)}: not shown>"


def _short(value: Any) -> Any:
    """Return a value that Python can write as a text.

    Raises:
        ValueProblem: It is an integer of too many digits.
    """
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise ValueProblem("an integer may have at most 4,300 digits")
    return value
