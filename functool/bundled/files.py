"""File tools that stay inside the directories they are given: read, write, edit, list, search.

    from functool.bundled.files import file_tools

    toolset = file_tools(["/srv/notes"])

`docs/security.md` says what is promised and what is not.
"""

import codecs
import json
import os
import secrets
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from io import TextIOWrapper
from itertools import accumulate, islice
from typing import Annotated, Any

from pydantic import Field
from pydantic_core import SchemaError, SchemaValidator, core_schema

from functool import (
    DefinitionError,
    FunctionTool,
    TextContent,
    Tool,
    ToolError,
    ToolResult,
    Toolset,
    ToolSettings,
)
from functool.bundled.beneath import Boundary, FileNotFound, PathNotAllowed, require_regular, told

__all__ = ["EditRefused", "FileNotFound", "FileTooLarge", "NotText", "PathNotAllowed", "file_tools"]

MAX_SCANNED = 256 * 1024 * 1024
"""What one call looks at, at most, to find the lines (in characters) or the matches (in bytes) it wants."""

MAX_SEARCH_SECONDS = 10.0
MAX_VISITED = 100_000
MAX_LISTED = 1_000
MAX_MATCHES = 200
MAX_LINE = 10_000
MAX_SHOWN = 500
PIECE = 8_192

TEXT_ENCODINGS = (
    "ascii",
    "big5",
    "cp",
    "euc",
    "gb",
    "iso",
    "johab",
    "koi",
    "mac",
    "shift_jis",
    "tis",
    "utf",
)
"""How the names of plain character encodings begin: Python's other codecs can take time out of all proportion."""

PathText = Annotated[
    str, Field(description="A path; a relative one is beneath the first allowed directory.")
]
GlobText = Annotated[
    str, Field(min_length=1, max_length=1_000, description="`*.py` here, `**/*.py` at any depth.")
]

# One for the process: an edit reads, changes and replaces, and no other write of ours may come
# between.
_writing = threading.Lock()


class FileTooLarge(ToolError):
    """More was asked for, or given, than the limit in bytes."""


class NotText(ToolError):
    """The file is not text in the encoding that was asked for."""


class EditRefused(ToolError):
    """The old text is not there, or not exactly once; `details` holds the `count`."""


def file_tools(
    roots: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    max_bytes: int = 1_048_576,
    read_only: bool = False,
) -> Toolset:
    """Return `read_file`, `list_files`, `search_files`, `write_file` and `edit_file` for some directories.

    Args:
        roots: The directories; relative paths are beneath the first.
        max_bytes: The most that one call reads into its answer, or writes, in bytes.
        read_only: Whether to leave out the tools that write.

    Raises:
        DefinitionError: A directory cannot be opened, `max_bytes` is not positive, or the system lacks what the boundary
            is made of.
    """
    if isinstance(max_bytes, bool) or not isinstance(max_bytes, int) or max_bytes <= 0:
        raise DefinitionError(f"max_bytes must be a positive number of bytes, not {max_bytes!r}")
    files = _Files(Boundary([roots] if isinstance(roots, (str, os.PathLike)) else roots), max_bytes)
    looks = ToolSettings(read_only=True, destructive=False, idempotent=True)
    writes = ToolSettings(read_only=False, destructive=True, idempotent=True)
    tools: list[Tool] = [
        FunctionTool(files.read_file, settings=looks),
        FunctionTool(files.list_files, settings=looks),
        FunctionTool(files.search_files, settings=looks),
    ]
    if not read_only:
        tools.append(FunctionTool(files.write_file, settings=writes))
        tools.append(FunctionTool(files.edit_file, settings=replace(writes, idempotent=False)))
    return Toolset(tools)


@dataclass
class _Files:
    boundary: Boundary
    max_bytes: int

    def read_file(
        self,
        path: PathText,
        offset: Annotated[int, Field(ge=0, description="How many lines to skip.")] = 0,
        limit: Annotated[
            int | None, Field(ge=1, description="How many lines to read, at most.")
        ] = None,
        encoding: str = "utf-8",
    ) -> ToolResult:
        """Read a text file, or some of its lines."""
        encoding = _text_encoding(encoding)
        descriptor, status = self.boundary.open_file(path)
        with os.fdopen(descriptor, "rb") as file:
            if offset == 0 and limit is None and status.st_size > self.max_bytes:
                raise self._too_large(path, status.st_size)
            try:
                with TextIOWrapper(file, encoding=encoding, newline="\n") as stream:
                    text = "".join(self._lines(path, stream, offset, limit))
            except UnicodeError as error:
                raise NotText(
                    f"{path!r} is not {encoding} text. Name another encoding; 'latin-1' fits all."
                ) from error
            except OSError as error:
                raise ToolError(f"{path!r} cannot be read: {error.strerror}.") from error
        return ToolResult.of(text, metadata={"path": path, "size": status.st_size})

    def list_files(self, path: PathText = ".", pattern: GlobText = "*") -> ToolResult:
        """List the files and directories that match; directories end in a slash."""
        if not stat.S_ISDIR(self.boundary.status(path).st_mode):
            raise PathNotAllowed(f"{path!r} is not a directory.")
        found: list[str] = []
        notes: list[str] = []
        for name, mode in self._visit(
            path, tuple(part for part in pattern.split("/") if part not in ("", ".")), notes
        ):
            found.append(_shown(name) + ("/" if stat.S_ISDIR(mode) else ""))
            if len(found) > MAX_LISTED:
                break
        shown = self._fitting(sorted(found[:MAX_LISTED]))
        if len(found) > len(shown):
            notes.append(f"There are more: only {len(shown)} are listed.")
        return _with_notes(shown, notes, {"path": path})

    def search_files(
        self,
        text: Annotated[str, Field(min_length=1, max_length=1_000)],
        path: PathText = ".",
        regex: Annotated[
            bool, Field(description="Whether `text` is a regular expression.")
        ] = False,
    ) -> ToolResult:
        """Find the lines that hold a text, in one file or in all files of a directory."""
        search = _Search(_matcher(text, regex), self.max_bytes)
        notes: list[str] = []
        if stat.S_ISDIR(self.boundary.status(path).st_mode):
            for name, mode in self._visit(path, ("**",), notes):
                if search.ended:
                    break
                if stat.S_ISREG(mode):
                    with suppress(PathNotAllowed, FileNotFound):  # changed or taken away meanwhile
                        search.look_into(_shown(name), *self.boundary.open_file(name))
        else:
            search.look_into(path, *self.boundary.open_file(path))
        shown = self._fitting(search.found[:MAX_MATCHES])
        return _with_notes(shown, [*search.notes(len(shown)), *notes], {"path": path})

    def write_file(self, path: PathText, content: str) -> ToolResult:
        """Write a text file, replacing what it held; directories that are missing are made."""
        data = content.encode()
        if len(data) > self.max_bytes:
            raise self._too_large(path, len(data))
        directory, name = self.boundary.open_parent(path, make=True)
        try:
            with _writing, told(path):
                _replace(path, directory, name, data)
        finally:
            os.close(directory)
        return ToolResult.of(
            f"Wrote {len(data)} bytes to {path}.", metadata={"path": path, "size": len(data)}
        )

    def edit_file(
        self,
        path: PathText,
        old: Annotated[
            str,
            Field(min_length=1, description="The text to replace, exactly; it must occur once."),
        ],
        new: str,
    ) -> ToolResult:
        """Replace a text that occurs exactly once in a file."""
        with _writing, told(path):
            descriptor, status = self.boundary.open_file(path)
            with os.fdopen(descriptor, "rb") as file:
                before = file.read(self.max_bytes + 1)
            if len(before) > self.max_bytes:
                raise self._too_large(path, status.st_size)
            # Bytes, so that what is not UTF-8 elsewhere in the file stays as it is.
            data = _replaced_once(path, before, old.encode(), new.encode())
            if len(data) > self.max_bytes:
                raise self._too_large(path, len(data))
            directory, name = self.boundary.open_parent(path)
            try:
                _replace(path, directory, name, data, status)
            finally:
                os.close(directory)
        return ToolResult.of(f"Edited {path}.", metadata={"path": path, "size": len(data)})

    def _lines(
        self, path: str, stream: TextIOWrapper, offset: int, limit: int | None
    ) -> Iterator[str]:
        line, scanned, kept = 0, 0, 0
        while limit is None or line < offset + limit:
            piece = stream.readline(PIECE)
            if not piece:
                return
            scanned += len(piece)
            if line >= offset:
                kept += len(piece.encode("utf-8", "replace"))
                yield piece
            if kept > self.max_bytes or scanned > MAX_SCANNED:
                raise self._too_large(path, None)
            line += piece.endswith("\n")

    def _visit(
        self, path: str, wanted: tuple[str, ...], notes: list[str]
    ) -> Iterator[tuple[str, int]]:
        """Yield the path and the mode of what is beneath a directory and matches; links are not followed.

        What is left out is told in `notes`.
        """
        pending, visited, closed = [(path, _skipping(wanted, {0}))], 0, 0
        while pending and visited < MAX_VISITED:
            above, states = pending.pop()
            try:
                entries = self._entries(above, MAX_VISITED - visited)
            except (PathNotAllowed, FileNotFound):
                if above == path:
                    raise
                closed += 1
                continue
            for name, mode in entries:
                visited += 1
                full = name if above == "." else f"{above.rstrip('/')}/{name}"
                after = _advance(wanted, states, name)
                if len(wanted) in after:
                    yield full, mode
                if stat.S_ISDIR(mode) and min(after, default=len(wanted)) < len(wanted):
                    pending.append((full, after))
        notes += [f"{closed} directories could not be entered."] if closed else []
        notes += [f"Only {MAX_VISITED} names were looked at."] if visited >= MAX_VISITED else []

    def _entries(self, path: str, limit: int) -> list[tuple[str, int]]:
        found = []
        descriptor = self.boundary.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with os.scandir(descriptor) as entries:
                for entry in islice(entries, limit):
                    with suppress(FileNotFoundError):
                        found.append((entry.name, _mode(entry)))
        finally:
            os.close(descriptor)
        return sorted(found)

    def _fitting(self, entries: list[Any]) -> list[Any]:
        """Return those of the entries, from the first on, that an answer may hold."""
        sizes = accumulate(len(json.dumps(entry)) + 1 for entry in entries)
        return [entry for entry, size in zip(entries, sizes, strict=True) if size < self.max_bytes]

    def _too_large(self, path: str, size: int | None) -> FileTooLarge:
        has = "asks for more than that" if size is None else f"has {size}"
        advice = "To read a part of a file, give `offset` and `limit`."
        return FileTooLarge(f"The limit is {self.max_bytes} bytes, and {path!r} {has}. {advice}")


class _Search:
    """The matching lines of many files, within limits for the whole."""

    def __init__(self, matches: Callable[[str], bool], max_bytes: int) -> None:
        self.found: list[dict[str, Any]] = []
        self._matches = matches
        self._max_bytes = max_bytes
        self._scanned = self._skipped = 0
        self._deadline = time.monotonic() + MAX_SEARCH_SECONDS

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
            if self._matches(line):
                self.found.append({"path": path, "line": number, "text": line.strip()[:MAX_SHOWN]})

    def notes(self, shown: int) -> list[str]:
        """Return what the model should know of what was left out, `shown` being the number of lines that were not."""
        notes = [f"{self._skipped} larger files were not searched."] if self._skipped else []
        return (
            [*notes, "The search reached its limits: there may be more."]
            if self.ended or shown < len(self.found)
            else notes
        )


def _matcher(text: str, regex: bool) -> Callable[[str], bool]:
    if not regex:
        return lambda line: text in line
    try:
        # Rust's engine: linear in the line, whatever the expression. The cut bounds the factor.
        expression = SchemaValidator(
            core_schema.str_schema(pattern=text, regex_engine="rust-regex")
        )
    except SchemaError as error:
        raise ToolError(
            "Not a regular expression that is understood here: RE2's syntax, no look-around."
        ) from error
    return lambda line: expression.isinstance_python(line.rstrip("\r")[:MAX_LINE])


def _advance(wanted: tuple[str, ...], states: set[int], name: str) -> set[int]:
    """Return how far into the pattern one more name leads: an automaton, so that many `**` cost no more than one."""
    after = set()
    for state in states:
        if state < len(wanted) and wanted[state] == "**":
            after.add(state)
        elif state < len(wanted) and fnmatchcase(name, wanted[state]):
            after.add(state + 1)
    return _skipping(wanted, after)


def _skipping(wanted: tuple[str, ...], states: set[int]) -> set[int]:
    reached = set(states)
    for state in range(len(wanted)):
        if state in reached and wanted[state] == "**":
            reached.add(state + 1)
    return reached


def _text_encoding(name: str) -> str:
    try:
        canonical = codecs.lookup(name).name
    except (LookupError, ValueError):
        canonical = ""
    if not canonical.startswith(TEXT_ENCODINGS):
        raise ToolError(f"{name[:40]!r} is not a text encoding that is known here.")
    return canonical


def _replaced_once(path: str, data: bytes, old: bytes, new: bytes) -> bytes:
    first = data.find(old)
    # The second may overlap the first: then `count` sees one, and the edit would still be
    # ambiguous.
    count = 0 if first < 0 else 1 if data.find(old, first + 1) < 0 else max(2, data.count(old))
    if count != 1:
        advice = "Read the file again." if count == 0 else "Give more of the text around it."
        message = f"The old text occurs {count} times in {path!r}, and must occur once. {advice}"
        raise EditRefused(message, details={"count": count})
    return data[:first] + new + data[first + len(old) :]


def _status(path: str, directory: int, name: str) -> os.stat_result | None:
    """Return the status of the file to be replaced, None if there is none."""
    try:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
    require_regular(path, status)
    if not status.st_mode & 0o222:
        raise PathNotAllowed(f"{path!r} is read-only.")
    return status


def _replace(
    path: str, directory: int, name: str, data: bytes, read: os.stat_result | None = None
) -> None:
    """Put a new file in the place of `name`, all of it or nothing; `read` is the one that the data was made from."""
    old = _status(path, directory, name)
    temporary = f".{secrets.token_hex(8)}.tmp"
    # Nobody may open what takes the place of a private file, not even while it is written.
    mode = 0o666 if old is None else 0o600
    descriptor = os.open(
        temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode, dir_fd=directory
    )
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            if old is not None:
                with suppress(PermissionError):
                    os.fchown(descriptor, old.st_uid, old.st_gid)
                os.fchmod(descriptor, stat.S_IMODE(old.st_mode) & 0o777)
            file.flush()
            os.fsync(descriptor)
        if read is not None and _version(_status(path, directory, name)) != _version(read):
            raise EditRefused(f"{path!r} was changed meanwhile. Read it again.")
        os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=directory)
        raise


def _version(status: os.stat_result | None) -> tuple[int, ...] | None:
    return (
        None
        if status is None
        else (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    )


def _mode(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_mode
    except PermissionError:
        return 0  # a directory may show its names and nothing else


def _shown(name: str) -> str:
    """Return a name as valid text: bytes that are not UTF-8 are shown, and cannot be asked for."""
    return os.fsencode(name).decode("utf-8", "replace")


def _with_notes(value: list[Any], notes: list[str], metadata: dict[str, Any]) -> ToolResult:
    result = ToolResult.of(value, metadata=metadata)
    return replace(result, output=[*result.output, *(TextContent(text=note) for note in notes)])
