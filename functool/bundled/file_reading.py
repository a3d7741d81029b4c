"""Read lines of a text, and search the lines of many files, within limits."""

import os
import time
from collections.abc import Callable
from io import TextIOBase
from typing import Any

from functool import ToolError
from functool.binding.engine import pattern_length
from functool.layers.spill_reading import matcher

MAX_SCANNED = 256 * 1024 * 1024
"""How much one call looks at: characters when it reads lines, bytes when it searches."""

MAX_SECONDS = 10.0
"""How long one call reads or searches."""

MAX_MATCHES = 200
MAX_LINE = 10_000
"""How many characters of a line are compared with an expression, if it is short."""

MAX_STEPS = 2_000_000
"""The most characters of a line times those of the expression, its repetitions expanded. The engine
takes a quarter of a second for as many, and nothing else runs meanwhile."""

MAX_SHOWN = 500
PIECE = 8_192


class FileTooLarge(ToolError):
    """The call would read or write more than the limit in bytes."""


def read_lines(stream: TextIOBase, offset: int, limit: int | None, max_bytes: int) -> str:
    """Return `limit` lines of a text after the first `offset`, with unchanged line ends.

    Raises:
        FileTooLarge: The lines are longer than `max_bytes`, or are too far into the text. The error
            has no message yet, because only the caller knows the name of the file.
    """
    line = scanned = size = 0
    kept: list[str] = []
    end = None if limit is None else offset + limit
    deadline = time.monotonic() + MAX_SECONDS
    while end is None or line < end:
        piece = stream.read(PIECE)
        if not piece:
            break
        count, scanned = piece.count("\n"), scanned + len(piece)
        if line + count >= offset:
            start = _after(piece, max(0, offset - line))
            stop = len(piece) if end is None or line + count < end else _after(piece, end - line)
            kept.append(piece[start:stop])
            size += len(kept[-1].encode("utf-8", "replace"))
        line += count
        if size > max_bytes or scanned > MAX_SCANNED or time.monotonic() > deadline:
            raise FileTooLarge("")
    return "".join(kept)


def _after(text: str, lines: int) -> int:
    """Return the position in the text after this number of lines."""
    return len(text) - len(text.split("\n", lines)[-1]) if lines else 0


class LineSearch:
    """Collect the matching lines of many files, within limits for all files together.

    `max_line` is how many characters of a line are looked at. None means all of them.
    """

    def __init__(
        self, matches: Callable[[str], bool], max_bytes: int, max_line: int | None = None
    ) -> None:
        self.found: list[dict[str, Any]] = []
        self._matches = matches
        self._max_bytes = max_bytes
        self._max_line = max_line
        self._scanned = self._skipped = self._cut = 0
        self._deadline = time.monotonic() + MAX_SECONDS

    @property
    def ended(self) -> bool:
        """Whether a limit was reached."""
        return (
            len(self.found) > MAX_MATCHES
            or self._scanned > MAX_SCANNED
            or time.monotonic() > self._deadline
        )

    def look_into(self, path: str, descriptor: int, status: os.stat_result) -> None:
        """Add the matching lines of one file, and close it."""
        with os.fdopen(descriptor, "rb") as file:
            if status.st_size > self._max_bytes:
                self._skipped += 1
                return
            data = file.read(self._max_bytes)
        self._scanned += len(data)
        if b"\0" in data[:PIECE]:
            return
        for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), 1):
            if self.ended:
                return
            whole = line if self._max_line is None else line.rstrip("\r")
            looked_at = whole[: self._max_line]
            if not self._matches(looked_at):
                self._cut += len(looked_at) < len(whole)
            else:
                self.found.append({"path": path, "line": number, "text": line.strip()[:MAX_SHOWN]})

    def notes(self, shown: int) -> list[str]:
        """Return notes for the model on what was not searched or not shown."""
        notes = [f"{self._skipped} larger files were not searched."] if self._skipped else []
        if self._cut:
            notes.append(
                f"Of {self._cut} longer lines only the first {self._max_line:,} characters were"
                " searched."
            )
        return (
            [*notes, "The search reached its limits: there may be more."]
            if self.ended or shown < len(self.found)
            else notes
        )


def longest_line(expression: str) -> int:
    """Return how many characters of a line may be compared with an expression.

    Raises:
        ToolError: The expression is too long for even one character.
    """
    longest = min(MAX_LINE, MAX_STEPS // max(1, pattern_length(expression)))
    if longest == 0:
        raise ToolError("The expression repeats too much, or is written with spaces (`(?x)`).")
    return longest


def line_matcher(text: str, regex: bool) -> Callable[[str], bool]:
    """Return a function that says whether a line contains a text or matches an expression.

    Raises:
        ToolError: The expression takes more than linear time, or is none.
    """
    # Rust's engine takes linear time for every expression. `LineSearch` limits the length.
    return matcher(text) if regex else lambda line: text in line
