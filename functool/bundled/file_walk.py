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
"""The parts of a pattern: None for `**`, else what tells whether a name matches."""


class Walk:
    """One walk through the directories beneath a path; links are not followed.

    `notes` says in the end what was left out.
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
            PathNotAllowed: The directory must not be entered.
            FileNotFound: There is none.
        """
        wanted = self._wanted
        pending, visited, closed = [(self._path, _skipping(wanted, {0}))], 0, 0
        deadline, late = time.monotonic() + MAX_SECONDS, False
        while pending and visited < MAX_VISITED and not late:
            above, states = pending.pop()
            try:
                entries = self._entries(above, MAX_VISITED - visited)
            except (PathNotAllowed, FileNotFound):
                if above == self._path:
                    raise
                closed += 1
                continue
            for name, mode in entries:
                if late := time.monotonic() > deadline:
                    break
                visited += 1
                full = name if above == "." else f"{above.rstrip('/')}/{name}"
                after = _advance(wanted, states, name)
                if len(wanted) in after:
                    yield full, mode
                if stat.S_ISDIR(mode) and min(after, default=len(wanted)) < len(wanted):
                    pending.append((full, after))
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


# The states say how many parts of the pattern a path may have passed: many `**` cost no more than
# one.


def _advance(wanted: Parts, states: set[int], name: str) -> set[int]:
    """Return how far into the pattern one more name leads."""
    after = set()
    for state in states:
        if state < len(wanted):
            matches = wanted[state]
            if matches is None:
                after.add(state)
            elif matches(name):
                after.add(state + 1)
    return _skipping(wanted, after)


def _skipping(wanted: Parts, states: set[int]) -> set[int]:
    reached = set(states)
    for state, matches in enumerate(wanted):
        if state in reached and matches is None:
            reached.add(state + 1)
    return reached


def _mode(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_mode
    except PermissionError:
        return 0  # a directory may show its names and nothing else
