"""Visit the names beneath a directory that match a pattern, within limits."""

import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from fnmatch import translate
from itertools import islice
from typing import TypeAlias

from functool.bundled.beneath import Boundary, FileNotFound, PathNotAllowed

MAX_VISITED = 100_000
MAX_SECONDS = 10.0

Parts: TypeAlias = Sequence[Callable[[str], object] | None]
"""The parts of a pattern: None for `**`, else a function that says whether a name matches."""


class Walk:
    """One walk through the directories beneath a path. It does not follow links.

    After the walk, `notes` says what was left out.
    """

    def __init__(self, boundary: Boundary, path: str, pattern: str) -> None:
        self.notes: list[str] = []
        self._boundary = boundary
        self._path = path
        self._wanted: Parts = [
            None if part == "**" else re.compile(translate(part)).match
            for part in pattern.split("/")
            if part not in ("", ".")
        ]

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """Yield the path and the mode of each name that matches.

        Raises:
            PathNotAllowed: The directory may not be entered.
            FileNotFound: There is no such directory.
        """
        # A pending directory is a pair: the path above it, which its siblings share, and its own
        # name. A hundred thousand full paths would take hundreds of megabytes.
        pending = [("", self._path, _skipping(self._wanted, 1))]
        visited = closed = 0
        deadline, late = time.monotonic() + MAX_SECONDS, False
        passed_all = 1 << len(self._wanted)
        while pending and visited < MAX_VISITED and not late:
            parent, own, states = pending.pop()
            here = _joined(parent, own)
            try:
                entries = self._entries(here, MAX_VISITED - visited)
            except (PathNotAllowed, FileNotFound):
                if not parent:
                    raise
                closed += 1
                continue
            for name, mode in entries:
                if late := time.monotonic() > deadline:
                    break
                visited += 1
                after = _advance(self._wanted, states, name)
                if after & passed_all:
                    yield _joined(here, name), mode
                if stat.S_ISDIR(mode) and after & (passed_all - 1):
                    pending.append((here, name, after))
        self.notes += [f"{closed} directories could not be entered."] if closed else []
        if late or visited >= MAX_VISITED:
            self.notes.append(f"Only {visited} names were looked at.")

    def _entries(self, path: str, limit: int) -> list[tuple[str, int]]:
        found = []
        descriptor = self._boundary.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with os.scandir(descriptor) as entries:
                for entry in islice(entries, limit):
                    with suppress(FileNotFoundError):
                        found.append((entry.name, _mode(entry)))
        finally:
            os.close(descriptor)
        return sorted(found)


def _joined(above: str, name: str) -> str:
    return name if above in ("", ".") else f"{above.rstrip('/')}/{name}"


# The states of a match are bits. Bit n says that a path may have passed n parts of the pattern. So
# many `**` cost no more time and memory than one.


def _advance(wanted: Parts, states: int, name: str) -> int:
    """Return the states after one more name."""
    after = 0
    for state, matches in enumerate(wanted):
        if states >> state & 1:
            if matches is None:
                after |= 1 << state
            elif matches(name):
                after |= 2 << state
    return _skipping(wanted, after)


def _skipping(wanted: Parts, states: int) -> int:
    """Add the states that skip a `**`, which may match no name at all."""
    for state, matches in enumerate(wanted):
        if states >> state & 1 and matches is None:
            states |= 2 << state
    return states


def _mode(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_mode
    except PermissionError:
        return 0  # The directory allows to list its names, but not to read their status.
