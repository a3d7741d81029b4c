"""Check the arguments of a call while a model is still writing their text.

A reader for JSON takes the text piece by piece: each of its methods reads one part of the grammar,
and waits where the text ends. It compares each name and each value with a `Shape`: what the schema
allows at that place. A shape is never stricter than the tool's binder. If the binder may convert a
value, or if an author's validator may accept it, the shape is open.

A mismatch is only a suspicion. The watch then completes the text in the shortest way and asks the
binder, once. Only if the binder finds a problem at the same place, the call is refused, with the
binder's error.

In a nested object a name may be repeated, and the last value counts. A suspicion inside such an
object therefore waits until the object is closed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator
from typing import Any, NoReturn, TypeAlias, TypeVar

from pydantic_core import from_json

from functool.binding.engine import bounded_work
from functool.binding.json_text import MAX_DEPTH, shown_name
from functool.binding.problems import path_text
from functool.binding.watched_shapes import Limits, Shape, Shapes, fits_text, fits_value
from functool.errors import ArgumentError
from functool.schema.shapes import values_of

T = TypeVar("T")
_Reading: TypeAlias = Generator[None, str, T]
"""A part of the text is being read: it takes pieces until the part is complete."""

_KINDS = {"{": "object", "[": "array", '"': "string", "t": "boolean", "f": "boolean", "n": "null"}
_KINDS |= dict.fromkeys("-0123456789", "number")
_REST = {"{": "}", "[": "]", '"': '"', "t": "rue", "f": "alse", "n": "ull", "-": "0"}
"""What completes a value after its first character. A digit is complete."""
_MARK = re.compile(r"[ \t\r\n]*([^ \t\r\n])")
# The first half of a character that is written as two escapes waits for the second one.
_CHARACTERS = re.compile(
    r'(?:[^"\\\x00-\x1f]+|\\["\\/bfnrt]'
    r"|\\u(?![dD][89abAB]..(?:\\(?:u.{0,3})?)?\Z)[0-9a-fA-F]{4})*"
)
_HALF_CHARACTER = re.compile(r"(?:\\u[dD][89abAB][0-9a-fA-F]{2})?(?:\\(?:u[0-9a-fA-F]{0,3})?)?")
_BARE = re.compile(r"[^ \t\r\n,\]}]*")

_AT_ONCE = 50_000
"""How many values are read at one `feed`. The rest of the text waits for the next one."""


class _FalseAlarm(Exception):
    """The binder accepts what a shape does not allow."""


class Watch:
    """Checks the arguments of one call. `feed` takes the next piece of their text.

    `shapes` describe what fits at each place; without them nothing is checked. `ask` validates
    complete arguments. `limit` is the maximum number of bytes.
    """

    def __init__(self, shapes: Shapes | None, ask: Callable[[str], Any], limit: int | None) -> None:
        self._error: ArgumentError | None = None
        nothing: Any = (None for _ in ())
        self._reading = nothing if shapes is None else _Reader(shapes, ask, limit).read()
        next(self._reading, None)

    def feed(self, text: str) -> ArgumentError | None:
        """Read the next piece. Return an error if the arguments can no longer become valid.

        At most 50,000 values are read at once, so that a long piece cannot hold the event loop. The
        rest of it is read with the next pieces.
        """
        try:
            with bounded_work():
                self._reading.send(text)
        except ArgumentError as error:
            self._error = error.with_traceback(None)
        except Exception:
            # Nothing is checked any more: after a false alarm, an error, or a malformed schema.
            pass
        return self._error


class _Reader:
    """Reads the text of arguments, and compares each name and value with its shape."""

    def __init__(self, shapes: Shapes, ask: Callable[[str], Any], limit: int | None) -> None:
        self._shapes, self._validate, self._limit = shapes, ask, limit
        self._pieces: list[str] = []
        self._bytes = 0
        self._text, self._at = "", 0  # The end of the text so far, and how much of it was read.
        self._before = 0  # How many characters stand before that end.
        # The brackets that close the open objects and lists, and the current name or index in each.
        self._closers: list[str] = []
        self._steps: list[Any] = []
        self._held: list[Any] = []  # The place of a suspicion that waits.

    def read(self) -> _Reading[None]:
        """Read the whole text. Nothing may follow the arguments."""
        mark = yield from self._mark()
        if mark.isspace():  # White space alone, even if it is not JSON, means no arguments.
            while mark.isspace():
                mark = yield from self._mark()
        else:
            yield from self._value(mark, self._shapes.root)
            yield from self._mark()
        self._refuse()

    def _more(self) -> _Reading[None]:
        """Wait for the next piece."""
        piece = yield
        self._pieces.append(piece)
        self._before, self._left = self._before + self._at, _AT_ONCE
        self._text, self._at = self._text[self._at :] + piece, 0
        self._bytes += len(piece.encode(errors="surrogatepass"))
        if self._limit is not None and self._bytes > self._limit:
            self._refuse()

    def _mark(self) -> _Reading[str]:
        """Read the next character that is not white space."""
        while (found := _MARK.match(self._text, self._at)) is None:
            self._at = len(self._text)
            yield from self._more()
        self._at = found.end()
        return found[1]

    def _take(self, pattern: re.Pattern[str]) -> str:
        """Read what a pattern matches here, if anything."""
        found = pattern.match(self._text, self._at)
        text = found[0] if found else ""
        self._at += len(text)
        return text

    def _value(self, mark: str, shape: Shape) -> _Reading[None]:
        """Read a value that begins with `mark`."""
        kind = _KINDS.get(mark) or self._refuse()
        if kind not in shape:
            self._suspect(_REST.get(mark, ""), self._closers)
        limits = shape.get(kind, {})
        self._left -= 1 + len(values_of(limits) or ()) // 200  # A text is compared with each.
        if self._left < 0:
            yield from self._more()
        if kind == "string":
            yield from self._string(limits)
        elif mark in "{[":
            if len(self._steps) == MAX_DEPTH:
                self._ask([], self._completed(_REST[mark]))
            self._closers.append(_REST[mark])
            self._steps.append(0)
            yield from self._object(limits) if mark == "{" else self._list(limits)
            self._closers.pop()
            self._steps.pop()
        else:
            yield from self._bare(mark, limits)
        if self._held and "}" not in self._closers[1:]:  # The object inside is closed.
            self._ask(self._held, self._completed())

    def _object(self, fields: Limits) -> _Reading[None]:
        names: set[str] = set()
        mark = yield from self._mark()
        while mark != "}":
            if mark != '"':
                self._refuse()
            name = self._steps[-1] = yield from self._string({})
            shape = self._named(name, fields, name in names)
            names.add(name)
            if (yield from self._mark()) != ":":
                self._refuse()
            yield from self._value((yield from self._mark()), shape)
            mark = yield from self._after("}")

    def _list(self, limits: Limits) -> _Reading[None]:
        shape = self._shapes.item(limits)
        mark = yield from self._mark()
        while mark != "]":
            yield from self._value(mark, shape)
            mark = yield from self._after("]")
            self._steps[-1] += 1

    def _after(self, closer: str) -> _Reading[str]:
        """Read what follows a value: the start of the next one, or the closing bracket."""
        mark = yield from self._mark()
        if mark == ",":
            mark = yield from self._mark()
            if mark != closer:
                return mark
        elif mark == closer:
            return mark
        self._refuse()

    def _named(self, name: str, fields: Limits, again: bool) -> Shape:
        """Check a name, and return the shape of its value."""
        is_argument = len(self._steps) == 1
        if again and is_argument:
            self._ask([name], self._completed(":null"))
        if again:
            self._held = []  # The new value may replace the one under suspicion.
        if not self._shapes.knows(fields, name):
            self._suspect(":null", self._closers[:-1])
        return self._shapes.value(fields, name, is_argument)

    def _string(self, limits: Limits) -> _Reading[str]:
        """Read the rest of a text, and compare it with its limits while it grows."""
        text, is_complete = "", False
        while not is_complete:
            raw = self._take(_CHARACTERS)
            text += json.loads(f'"{raw}"') if "\\" in raw else raw
            is_complete = self._text[self._at : self._at + 1] == '"'
            self._at += is_complete
            if not fits_text(limits, text, is_complete):
                self._suspect("" if is_complete else '"', self._closers)
            if not is_complete:
                if not _HALF_CHARACTER.fullmatch(self._text, self._at):
                    self._refuse()
                yield from self._more()
        return text

    def _bare(self, word: str, limits: Limits) -> _Reading[None]:
        """Read the rest of a number, true, false or null."""
        word += self._take(_BARE)
        while self._at == len(self._text):
            yield from self._more()
            word += self._take(_BARE)
        try:
            value = from_json(word, allow_inf_nan=False)
        except (ValueError, TypeError):
            self._refuse()
        if not fits_value(limits, value):
            self._suspect("", self._closers)

    def _suspect(self, rest: str, closers: list[str]) -> None:
        """Ask the binder about this place, or wait while a nested object may replace the value.

        `rest` completes the value or name, and `closers` are of the objects and lists around it.
        """
        if "}" in closers[1:]:  # This place is in an object inside the arguments.
            self._held = self._held or [*self._steps]
        else:
            self._ask(self._steps, self._completed(rest))

    def _completed(self, rest: str = "") -> str:
        """Return what has been read, completed with `rest` and all closing brackets."""
        read = "".join(self._pieces)[: self._before + self._at]
        return read + rest + "".join(reversed(self._closers))

    def _refuse(self) -> NoReturn:
        """Validate the text so far, which can no longer become JSON or has too many bytes."""
        self._ask([], "".join(self._pieces))

    def _ask(self, steps: list[Any], text: str) -> NoReturn:
        """Validate a completed text, and raise the binder's problem if it is at this place."""
        *above, last = steps or [""]
        known = self._shapes.known
        place = path_text(steps, known)
        unknown = f"{path_text(above, known)}.{shown_name(str(last))}".removeprefix(".")
        try:
            self._validate(text)
        except ArgumentError as error:
            for problem in error.problems:
                if problem.get("path", "") in (place, unknown):
                    raise ArgumentError([problem]) from error.with_traceback(None)
        raise _FalseAlarm
