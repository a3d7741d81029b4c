"""Read parts of a long text: its shape, a value in its JSON, some lines, or matching lines."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import Any

from pydantic_core import SchemaError, SchemaValidator, core_schema

from functool import ToolError
from functool.json_values import paused_gc_if_long
from functool.large import LARGE, in_turn_if
from functool.layers.forking import begins_anew

PIECE, OVERLAP = 400, 100
"""How a search cuts long lines, in characters. A match of up to 100 is never cut in two."""


_STEP = 65_536
"""How many characters are looked at together to count lines."""

SECONDS = 10.0
"""How long a search may take: a fat pattern takes a second for each megabyte."""


def shape(text: str, most: int) -> str:
    """Describe a text: the columns of a list of objects, the keys of an object, or its lines."""
    # In turn, because the values in a JSON text may take twenty times its memory.
    return in_turn_if(len(text) >= LARGE, _shape, text, most)


def _shape(text: str, most: int) -> str:
    value = _json(text)
    if isinstance(value, list):
        columns = dict.fromkeys(key for item in value if isinstance(item, dict) for key in item)
        names = f" with the columns {', '.join(columns)}" if columns else ""
        summary = f"A list of {len(value):,}{names}"
    elif isinstance(value, dict):
        summary = f"An object with the keys {', '.join(value)}"
    else:
        summary = f"A text of {text.count(chr(10)) + 1:,} lines"
    return summary if len(summary) <= most else summary[: max(0, most - 1)] + "…"


def stored(path: Path) -> bytes:
    """Return a file that was kept.

    Raises:
        ToolError: It is gone.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise ToolError(f"The result can no longer be read: {error.strerror}.") from error


def _json(text: str) -> Any:
    """Return the list or object that a text holds as JSON, or the text if it holds neither."""
    if text.lstrip()[:1] not in ("[", "{"):
        return text
    try:
        return paused_gc_if_long(json.loads, text)
    except (ValueError, RecursionError):
        return text


def text_of(file: Path, is_text: bool, size: int, path: str) -> str:
    """Return the text of a file, the base64 of its bytes, or the JSON text of the value at `path`.

    Raises:
        ToolError: The file is gone, or the path leads nowhere.
    """
    return in_turn_if(size >= LARGE, _text_of, file, is_text, path)


def _text_of(file: Path, is_text: bool, path: str) -> str:
    data = stored(file)
    text = data.decode() if is_text else base64.b64encode(data).decode()
    return within(text, path) if path else text


def within(text: str, path: str) -> str:
    """Return the JSON text of the value at a path. After a range, the path goes on in each item.

    Raises:
        ToolError: The path leads nowhere.
    """

    def step(value: Any, steps: list[str], done: str) -> Any:
        if not steps:
            return value
        name, *rest = steps
        here = f"{done}/{name}"
        if isinstance(value, dict) and name in value:
            return step(value[name], rest, here)
        if isinstance(value, list):
            first, colon, last = name.partition(":")
            if colon and all(not end or _is_place(end) for end in (first, last)):
                chosen = value[int(first or 0) : int(last) if last else None]
                return [step(item, rest, here) for item in chosen]
            if _is_place(name) and int(name) < len(value):
                return step(value[int(name)], rest, here)
        raise ToolError(f"The path leads nowhere at {here}. {_shape(json.dumps(value), 500)}.")

    names = [part.replace("~1", "/").replace("~0", "~") for part in path.strip("/").split("/")]
    value = _json(text)
    if isinstance(value, str):
        raise ToolError("The result is no JSON: read it by offset or by lines.")
    try:
        found = step(value, [name for name in names if name], "")
        return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
    except RecursionError:
        raise ToolError("The path or what is there has too many levels: read by offset.") from None


def _is_place(name: str) -> bool:
    """Whether a step counts items. Python reads no number of thousands of digits."""
    return name.isdecimal() and len(name) <= 18


def span(text: str, lines: str) -> tuple[int, int]:
    """Return the start and the end of the lines `first-last` in a text. Lines count from 1."""
    first, _, last = lines.partition("-")
    begin = max(1, int(first))
    end = max(begin, int(last or first))
    offset = _start_of(text, begin)
    if offset is None:
        raise ToolError(f"The text has {text.count(chr(10)) + 1} lines.")
    following = _start_of(text, end + 1)
    return offset, (len(text) + 1 if following is None else following) - 1


def _start_of(text: str, line: int) -> int | None:
    """Return the place of the first character of a line, or None if there is no such line.

    The text may have millions of lines, so this makes no list of them.
    """
    at, left = 0, line - 1
    while (ends := text.count("\n", at, at + _STEP)) < left:
        at, left = at + _STEP, left - ends
        if at >= len(text):
            return None
    for _ in range(left):
        at = text.index("\n", at) + 1
    return at


def matcher(pattern: str) -> Callable[[str], bool]:
    """Return a search function for a pattern. Its engine takes linear time for any pattern.

    Raises:
        ToolError: The engine cannot read the pattern.
    """
    try:
        schema = core_schema.str_schema(pattern=pattern, regex_engine="rust-regex")
        return SchemaValidator(schema).isinstance_python
    except SchemaError:
        raise ToolError(
            "The pattern is no regular expression that takes linear time:"
            " no look-around, no references."
        ) from None


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text with their offsets. Long lines come in pieces that overlap."""
    offset = 0
    while offset <= len(text):
        found = text.find("\n", offset)
        end = len(text) if found < 0 else found
        for start in range(offset, max(offset + 1, end - OVERLAP), PIECE - OVERLAP):
            yield start, text[start : min(start + PIECE, end)]
        offset = end + 1


def searched(
    text: str, matches: Callable[[str], bool], limit: int, seconds: float = SECONDS
) -> str:
    """Return the lines that match, with their offsets, within the limit.

    Raises:
        ToolError: It takes longer than `seconds`.
    """
    deadline, count, room = monotonic() + seconds, 0, limit
    found: list[str] = []  # As many as may fit, because millions may match.
    for offset, piece in _pieces(text):
        if monotonic() >= deadline:
            raise ToolError("The search took too long: use a shorter pattern.")
        if matches(piece):
            count += 1
            if room >= 0:
                found.append(f"{offset}: {piece}")
                room -= len(found[-1]) + 1
    if not found:
        return "Nothing matches."
    room = limit - len(f"[{count} of {count} matches are shown]")
    shown: list[str] = []
    for line in found:
        room -= len(line) + 1
        if room < 0:
            shown = shown or [line[: room + len(line)]]
            return "\n".join([*shown, f"[{len(shown)} of {count} matches are shown]"])
        shown.append(line)
    return "\n".join(shown)


class OneByOne:
    """Lets one thread at a time search.

    A search holds the interpreter's lock for each piece of the text. The event loop would wait for
    all of the threads that search at the same time.
    """

    def __init__(self) -> None:
        self.begin_anew()
        begins_anew(self)

    def begin_anew(self) -> None:
        """Wait for no search of a parent: its thread does not run in a forked child."""
        self._turn = threading.Lock()

    def search(self, text: str, pattern: str, limit: int) -> str:
        """Return the lines that match, with their offsets, within the limit.

        Raises:
            ToolError: The pattern is refused, or this or another search takes too long.
        """
        if not self._turn.acquire(timeout=SECONDS):
            raise ToolError("Other searches take too long: search again later.")
        try:
            return searched(text, matcher(pattern), limit)
        finally:
            self._turn.release()
