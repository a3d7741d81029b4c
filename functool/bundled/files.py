"""File tools that stay inside the directories they are given: read, write, edit, list, search.

    from functool.bundled.files import file_tools

    toolset = file_tools(["/srv/notes"])

`docs/security.md` says what is promised and what is not.
"""

import codecs
import json
import os
import stat
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from io import TextIOWrapper
from itertools import accumulate
from typing import Annotated, Any

from pydantic import Field

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
from functool.bundled.beneath import (
    MAX_PATH,
    Boundary,
    FileNotFound,
    PathNotAllowed,
    as_tool_error,
    canonical,
)
from functool.bundled.file_reading import (
    MAX_MATCHES,
    FileTooLarge,
    LineSearch,
    line_matcher,
    longest_line,
    read_lines,
)
from functool.bundled.file_walk import Walk
from functool.bundled.file_writing import EditRefused, replace_file, replaced_once
from functool.bundled.text_encodings import text_encoding
from functool.layers.forking import no_fork

__all__ = ["EditRefused", "FileNotFound", "FileTooLarge", "NotText", "PathNotAllowed", "file_tools"]

MAX_LISTED = 1_000

ARGUMENTS = 65_536
"""Bytes of the arguments of a write beside its content."""

LONGER = 3
"""How many times longer a text may be in JSON, if it is one that a person can read."""

PathText = Annotated[
    str,
    Field(
        max_length=MAX_PATH,
        description="A path; a relative one is beneath the first allowed directory.",
    ),
]
GlobText = Annotated[
    str, Field(min_length=1, max_length=1_000, description="`*.py` here, `**/*.py` at any depth.")
]

# One lock for the process. An edit reads, changes and replaces a file, and no other write of these
# tools may happen in between.
_writing = threading.Lock()


class NotText(ToolError):
    """The file is not text in the requested encoding."""


def file_tools(
    roots: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    max_bytes: int = 1_048_576,
    read_only: bool = False,
) -> Toolset:
    """Return tools that read, list, search, write and edit the files in some directories.

    Args:
        roots: The directories. Relative paths are beneath the first.
        max_bytes: How much one call may return or write, in bytes.
        read_only: Whether to leave out the tools that write.

    Raises:
        DefinitionError: A directory cannot be opened, `max_bytes` is not positive, or the system
            lacks what the boundary needs.
    """
    if isinstance(max_bytes, bool) or not isinstance(max_bytes, int) or max_bytes <= 0:
        raise DefinitionError(f"max_bytes must be a positive number of bytes, not {max_bytes!r}")
    files = _Files(Boundary([roots] if isinstance(roots, (str, os.PathLike)) else roots), max_bytes)
    reads = ToolSettings(read_only=True, destructive=False, idempotent=True)
    writes = ToolSettings(read_only=False, destructive=True, idempotent=True)
    tools: list[Tool] = [
        FunctionTool(files.read_file, settings=reads),
        FunctionTool(files.list_files, settings=reads),
        FunctionTool(files.search_files, settings=reads),
    ]
    if not read_only:
        # Some models write `é` as `\u00e9`, and an edit has two texts.
        room = ARGUMENTS + 2 * LONGER * max_bytes
        edits = replace(writes, idempotent=False)
        tools.append(FunctionTool(files.write_file, settings=writes, max_argument_bytes=room))
        tools.append(FunctionTool(files.edit_file, settings=edits, max_argument_bytes=room))
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
        path, encoding = canonical(path), _text_encoding(encoding)
        descriptor, status = self.boundary.open_file(path)
        with os.fdopen(descriptor, "rb") as file:
            if offset == 0 and limit is None and status.st_size > self.max_bytes:
                raise self._too_large(path, status.st_size)
            try:
                with TextIOWrapper(file, encoding=encoding, newline="\n") as stream:
                    text = read_lines(stream, offset, limit, self.max_bytes)
            except FileTooLarge as error:
                raise self._too_large(path, None) from error
            except UnicodeError as error:
                raise NotText(
                    f"{path!r} is not {encoding} text. Name another encoding; 'latin-1' fits all."
                ) from error
            except OSError as error:
                raise ToolError(f"{path!r} cannot be read: {error.strerror}.") from error
        return ToolResult.of(text, metadata={"path": path, "size": status.st_size})

    def list_files(self, path: PathText = ".", pattern: GlobText = "*") -> ToolResult:
        """List the files and directories that match; directories end in a slash."""
        path = canonical(path)
        if not stat.S_ISDIR(self.boundary.status(path).st_mode):
            raise PathNotAllowed(f"{path!r} is not a directory.")
        found: list[str] = []
        walk = Walk(self.boundary, path, pattern)
        for name, mode in walk:
            found.append(_shown(name) + ("/" if stat.S_ISDIR(mode) else ""))
            if len(found) > MAX_LISTED:
                break
        shown = self._fitting(sorted(found[:MAX_LISTED]))
        more = [f"There are more: only {len(shown)} are listed."] if len(found) > len(shown) else []
        return _with_notes(shown, [*walk.notes, *more], {"path": path})

    def search_files(
        self,
        text: Annotated[str, Field(min_length=1, max_length=1_000)],
        path: PathText = ".",
        regex: Annotated[
            bool, Field(description="Whether `text` is a regular expression.")
        ] = False,
    ) -> ToolResult:
        """Find the lines that hold a text, in one file or in all files of a directory."""
        path = canonical(path)
        longest = longest_line(text) if regex else None
        search, walk = LineSearch(line_matcher(text, regex), self.max_bytes, longest), None
        if stat.S_ISDIR(self.boundary.status(path).st_mode):
            walk = Walk(self.boundary, path, "**")
            for name, mode in walk:
                if search.ended:
                    break
                if stat.S_ISREG(mode):
                    with suppress(PathNotAllowed, FileNotFound):  # The file was changed or removed.
                        search.look_into(_shown(name), *self.boundary.open_file(name))
        else:
            search.look_into(path, *self.boundary.open_file(path))
        shown = self._fitting(search.found[:MAX_MATCHES])
        notes = [*search.notes(len(shown)), *(walk.notes if walk else [])]
        return _with_notes(shown, notes, {"path": path})

    def write_file(self, path: PathText, content: str) -> ToolResult:
        """Write a text file, replacing what it held; directories that are missing are made."""
        path, data = canonical(path), content.encode()
        if len(data) > self.max_bytes:
            raise self._too_large(path, len(data))
        directory, name = self.boundary.open_parent(path, make=True)
        try:
            with no_fork(), _writing, as_tool_error(path):
                replace_file(path, directory, name, data)
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
        path = canonical(path)
        with no_fork(), _writing, as_tool_error(path):
            descriptor, status = self.boundary.open_file(path)
            with os.fdopen(descriptor, "rb") as file:
                before = file.read(self.max_bytes + 1)
            if len(before) > self.max_bytes:
                raise self._too_large(path, status.st_size)
            if before.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                raise NotText(f"{path!r} is UTF-16 text, and only UTF-8 text can be edited.")
            # Edit bytes, so that other parts of the file that are not UTF-8 stay unchanged.
            data = replaced_once(path, before, old.encode(), new.encode())
            if len(data) > self.max_bytes:
                raise self._too_large(path, len(data))
            directory, name = self.boundary.open_parent(path)
            try:
                replace_file(path, directory, name, data, status)
            finally:
                os.close(directory)
        return ToolResult.of(f"Edited {path}.", metadata={"path": path, "size": len(data)})

    def _fitting(self, entries: list[Any]) -> list[Any]:
        """Return the first entries, as many as fit into an answer."""
        sizes = accumulate(len(json.dumps(entry)) + 1 for entry in entries)
        return [entry for entry, size in zip(entries, sizes, strict=True) if size < self.max_bytes]

    def _too_large(self, path: str, size: int | None) -> FileTooLarge:
        has = "asks for more than that" if size is None else f"has {size}"
        advice = "To read a part of a file, give `offset` and `limit`."
        return FileTooLarge(f"The limit is {self.max_bytes} bytes, and {path!r} {has}. {advice}")


def _text_encoding(name: str) -> str:
    known = text_encoding(name)
    if known is None:
        raise ToolError(f"{name[:40]!r} is not a text encoding that is known here.")
    return codecs.lookup(known).name


def _shown(name: str) -> str:
    """Return a name as valid text. Bytes that are not UTF-8 are replaced."""
    return os.fsencode(name).decode("utf-8", "replace")


def _with_notes(value: list[Any], notes: list[str], metadata: dict[str, Any]) -> ToolResult:
    result = ToolResult.of(value, metadata=metadata)
    return replace(result, output=[*result.output, *(TextContent(text=note) for note in notes)])
