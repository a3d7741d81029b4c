"""Check the arguments of a call while a model is still writing their text.

A small state machine reads the text piece by piece. It compares each name and each value with a
`Shape`: what the schema allows at that place. A shape is never stricter than the tool's binder. If
the binder may convert a value, or if an author's validator may accept it, the shape is open.

A mismatch is only a suspicion. The watch then completes the text in the shortest way and asks the
binder, once. Only if the binder finds a problem at the same place, the call is refused, with the
binder's error.

In a nested object a name may be repeated, and the last value counts. A suspicion inside such an
object therefore waits until the object is closed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

from functool.binding.engine import TooMuchWork, bounded_work, matches
from functool.binding.json_text import MAX_DEPTH, shown_name
from functool.binding.problems import path_text
from functool.binding.watched_shapes import OPEN, Shape, Shapes
from functool.errors import ArgumentError

_START, _VALUE, _ITEM, _NAME, _FIRST_NAME, _COLON, _AFTER, _END, _TEXT, _BARE = range(10)
_KINDS = {"{": "o", "[": "a", '"': "s", "t": "b", "f": "b", "n": "z"}
_KINDS |= dict.fromkeys("-0123456789", "n")
_SHORTEST = {"o": "{}", "a": "[]", "s": '""', "n": "0", "b": "true", "z": "null"}
_LONGEST = 200
"""Up to how many characters an incomplete choice or number is compared with the shape."""
_WORDS = ("true", "false", "null")
_SPACE = re.compile(r"[ \t\r\n]*")
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
_BARE_END = re.compile(r"[^ \t\r\n,\]}]*")
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_PART = re.compile(r"-?((0|[1-9]\d*)((\.\d*)?|(\.\d+)?[eE][+-]?\d*))?", re.ASCII)
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_ESCAPE_PART = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?")
_NO_NUMBER = re.compile(r"[^0-9+\-_.eEinfatyINFATY\s]")
_shapes_of: WeakKeyDictionary[Any, Shapes] = WeakKeyDictionary()


class _Frame:
    """An object or a list that is not closed yet."""

    __slots__ = ("closer", "ends", "is_object", "key", "names", "shape")

    def __init__(self, is_object: bool, shape: Shape) -> None:
        self.is_object, self.shape = is_object, shape
        self.closer = "}" if is_object else "]"
        self.ends = (_FIRST_NAME if is_object else _ITEM, _AFTER)  # It may be closed in these.
        self.key: Any = 0  # The index of the current item, or the current name.
        self.names: set[str] = set()


class Watch:
    """Checks the arguments of one call. `feed` takes the next piece of their text.

    `shapes` describe what fits at each place; without them nothing is checked. `ask` validates
    complete arguments. `limit` is the maximum number of bytes.
    """

    def __init__(
        self, shapes: Shapes | None, ask: Callable[[str], Any], limit: int | None = None
    ) -> None:
        self._shapes, self._check, self._limit = shapes, ask, limit
        self._silent = shapes is None
        self._error: ArgumentError | None = None
        self._parts: list[str] = []
        self._base = self._bytes = 0
        self._frames: list[_Frame] = []
        self._state = _START
        self._shape = OPEN
        self._is_name = False
        self._begun = 0  # Where the current value or name began.
        self._pieces: list[str] = []  # The characters of a name, a choice or a number so far.
        self._keeps = False
        self._escape = ""
        self._count = 0
        self._held: tuple[int, list[Any]] | None = None

    def feed(self, text: str) -> ArgumentError | None:
        """Read the next piece. Return an error if the arguments can no longer become valid."""
        if self._silent or self._error is not None:
            return self._error
        self._parts.append(text)
        try:
            if self._limit is not None:
                self._bytes += len(text if text.isascii() else text.encode(errors="replace"))
                if self._bytes > self._limit:
                    self._refuse()
            self._scan(text)
        except ArgumentError as error:
            self._error = error
        except Exception:  # A stranger's schema may be malformed. The binder will refuse the call.
            self._silent = True
        self._base += len(text)
        return self._error

    def _scan(self, text: str) -> None:
        at, end = 0, len(text)
        while at < end and not self._silent:
            if self._state == _TEXT:
                at = self._read_text(text, at)
            elif self._state == _BARE:
                at = self._read_bare(text, at)
            elif (at := _SPACE.match(text, at).end()) < end:  # type: ignore[union-attr]
                self._mark(text[at], at)
                at += 1

    def _mark(self, mark: str, at: int) -> None:
        """Read a character that is not part of a text, number or word."""
        state, frame = self._state, self._frames[-1] if self._frames else None
        if state in (_VALUE, _START) or (state == _ITEM and mark != "]"):
            # Text of white space only, even non-JSON white space, means no arguments.
            if state != _START or not mark.isspace():
                self._begin(mark, at)
        elif state == _COLON and mark == ":":
            self._state = _VALUE
        elif state in (_NAME, _FIRST_NAME) and mark == '"':
            self._state, self._is_name, self._begun = _TEXT, True, self._base + at
            self._pieces, self._keeps, self._shape = [], True, OPEN
        elif frame is not None and state == _AFTER and mark == ",":
            self._state = _NAME if frame.is_object else _VALUE
            frame.key = frame.key if frame.is_object else frame.key + 1
        elif frame is not None and state in frame.ends and mark == frame.closer:
            self._frames.pop()
            self._end_value(at)
        else:
            self._refuse()

    def _begin(self, mark: str, at: int) -> None:
        """Read the first character of a value."""
        kind = _KINDS.get(mark, "")
        if not kind or (self._state == _START and not self._is_json_space(at)):
            self._refuse()
        shape = self._shape = self._expected(kind)
        self._begun = self._base + at
        if kind not in shape.kinds:
            self._suspect(_SHORTEST[kind], self._begun)
        if kind in "oa":
            if len(self._frames) == MAX_DEPTH:
                self._ask_binder([], self._text(self._begun, _SHORTEST[kind]))
            self._frames.append(_Frame(kind == "o", shape))
            self._state = _FIRST_NAME if kind == "o" else _ITEM
        elif kind == "s":
            self._state, self._is_name, self._pieces, self._count = _TEXT, False, [], 0
            self._keeps = shape.choices is not None or shape.pattern is not None
        else:
            self._state, self._pieces, self._count = _BARE, [mark], 1

    def _expected(self, kind: str) -> Shape:
        """Return the shape for the value that begins here."""
        assert self._shapes is not None
        if not self._frames:
            return self._shapes.root
        frame = self._frames[-1]
        if not frame.is_object:
            return self._shapes.of(frame.shape.items)
        shape = self._shapes.of(frame.shape.names.get(frame.key, frame.shape.rest))
        if kind in shape.kinds:
            return shape
        first = len(self._frames) == 1
        # A list or an object may be sent as JSON in a text, and null may be sent for a default.
        if first and kind == "s" and not {"o", "a"}.isdisjoint(shape.kinds):
            return OPEN
        absent = frame.key not in self._shapes.required if first else self._shapes.strict
        return OPEN if kind == "z" and absent else shape

    def _read_text(self, text: str, at: int) -> int:
        """Read the rest of a text, up to its end or the end of the piece."""
        if self._escape:
            return self._read_escape(text, at)
        end = _PLAIN.match(text, at).end()  # type: ignore[union-attr]
        if self._keeps:
            self._pieces.append(text[at:end])
        self._compare_text(text[at:end], self._base + end)
        if end == len(text):
            return end
        if text[end] == "\\":
            return self._read_escape(text, end)
        if text[end] != '"':
            self._refuse()
        elif self._is_name:
            self._end_name(end)
        else:
            self._compare_whole(end)
            self._end_value(end)
        return end + 1

    def _read_escape(self, text: str, at: int) -> int:
        before = len(self._escape)
        self._escape += text[at : at + 6]
        found = _ESCAPE.match(self._escape)
        if found is None:
            if not _ESCAPE_PART.fullmatch(self._escape):
                self._refuse()
            return len(text)
        end = at + found.end() - before
        if self._keeps:
            self._pieces.append(found[0])
        self._count += not re.match(r"\\u[dD][c-fC-F]", found[0])
        self._escape = ""
        return end

    def _compare_text(self, piece: str, end: int) -> None:
        """Compare an incomplete text with the shape. If it has an escape, wait for its end."""
        shape, self._count = self._shape, self._count + len(piece)
        no_choice = False
        if shape.choices and self._count <= _LONGEST:  # Longer texts are compared at their end.
            so_far = "".join(self._pieces)
            known = (choice.startswith(so_far) for choice in shape.choices)
            no_choice = "\\" not in so_far and not any(known)
        too_long = shape.longest is not None and self._count > shape.longest
        if no_choice or too_long or (shape.numeric and _NO_NUMBER.search(piece)):
            self._suspect('"', end)

    def _compare_whole(self, end: int) -> None:
        shape = self._shape
        if not self._keeps:
            return
        whole = self._unescaped()
        wrong = shape.choices is not None and whole not in shape.choices
        with suppress(TooMuchWork), bounded_work():
            wrong = wrong or (shape.pattern is not None and matches(shape.pattern, whole) is False)
        if wrong:
            self._suspect('"', self._base + end)

    def _end_name(self, end: int) -> None:
        """Read the end of a name, which may be unknown or repeated."""
        frame, name = self._frames[-1], self._unescaped()
        self._state = _COLON
        twice, frame.key = name in frame.names, name
        frame.names.add(name)
        if twice and len(self._frames) == 1:
            self._ask_binder([name], self._text(self._base + end, '":null'))
        elif twice and self._held is not None:
            self._silent = True  # The new value may replace the one under suspicion.
        elif frame.shape.rest is None and name not in frame.shape.names:
            self._suspect('":null', self._base + end, through=len(self._frames) - 1)

    def _read_bare(self, text: str, at: int) -> int:
        """Read the rest of a number, true, false or null."""
        end = _BARE_END.match(text, at).end()  # type: ignore[union-attr]
        self._pieces.append(text[at:end])
        self._count += end - at
        done = end < len(text)
        if not done and self._count > _LONGEST:
            return end  # Long numbers are checked when they are complete.
        word = "".join(self._pieces)
        is_number = word[0] not in "tfn"
        if is_number:
            fits = (_NUMBER if done else _PART).fullmatch(word) is not None
        else:
            fits = word in _WORDS if done else any(known.startswith(word) for known in _WORDS)
        if not fits:
            self._refuse()
        elif done:
            if is_number:
                self._compare_number(float(word), end)
            self._end_value(end - 1)
        return end

    def _compare_number(self, number: float, end: int) -> None:
        shape = self._shape
        no_choice = shape.numbers is not None and number not in shape.numbers
        no_integer = shape.integer and not number.is_integer()
        if abs(number) < 2**53 and (no_choice or no_integer):  # Larger floats are not exact.
            self._suspect("", self._base + end)

    def _end_value(self, at: int) -> None:
        """Continue after a value. If a suspicion waited for its end, ask the binder now."""
        self._state = _AFTER if self._frames else _END
        if self._held is not None and len(self._frames) <= self._held[0]:
            self._ask_binder(self._held[1], self._text(self._base + at + 1, ""))

    def _unescaped(self) -> str:
        """Return the current name or text without quotes and escapes."""
        raw = "".join(self._pieces)
        return str(json.loads(f'"{raw}"')) if "\\" in raw else raw

    def _suspect(self, tail: str, cut: int, through: int | None = None) -> None:
        """Ask the binder about this place, or wait while a nested object may replace the value.

        `through` is the number of open objects and lists that contain the place, by default all.
        """
        if self._held is not None:
            return
        frames = self._frames[:through]
        steps = [frame.key for frame in self._frames]
        nested = [place for place, frame in enumerate(frames) if place and frame.is_object]
        if nested:
            self._held = (nested[0], steps)
        else:
            self._ask_binder(steps, self._text(cut, tail))

    def _text(self, cut: int, tail: str) -> str:
        """Return the text up to `cut`, completed with `tail` and all closing brackets."""
        closers = [frame.closer for frame in reversed(self._frames)]
        return "".join(self._parts)[:cut] + tail + "".join(closers)

    def _ask_binder(self, steps: list[Any], text: str) -> None:
        """Validate a completed text, and raise the binder's problem if it is at this place."""
        *above, last = steps or [""]
        known = self._shapes.known if self._shapes is not None else set[str]()
        place = path_text(steps, known)
        unknown = f"{path_text(above, known)}.{shown_name(str(last))}".removeprefix(".")
        try:
            self._check(text)
        except ArgumentError as error:
            for problem in error.problems:
                if problem.get("path", "") in (place, unknown):
                    raise ArgumentError([problem]) from None
        self._silent = True  # The binder found no such problem, so the suspicion was wrong.

    def _refuse(self) -> None:
        """Validate the text so far, which can no longer become JSON or has too many bytes."""
        self._ask_binder([], "".join(self._parts))

    def _is_json_space(self, at: int) -> bool:
        return not "".join(self._parts)[: self._base + at].strip(" \t\r\n")


def watching(binder: Any, make: Callable[[], Shapes], limit: int | None) -> Watch:
    """Return a new watch. The shapes of a binder are computed once."""
    shapes = _shapes_of.get(binder)
    if shapes is None:
        with suppress(RecursionError, AttributeError, TypeError):  # A stranger's schema.
            shapes = _shapes_of[binder] = make()
    return Watch(shapes, binder.values, limit)
