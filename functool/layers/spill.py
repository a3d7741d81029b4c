"""Keep long results in files. The model reads both ends and a handle; code keeps the value.

    spill = Spill(limit=20_000)
    report = FunctionTool(report, output_guardrails=[redact([...]), spill.guardrail])
    tools = Toolset([report]) | spill.tools  # read_result, search_result

Put the guardrail last. It keeps the output as the guardrails before it have left it.
"""

from __future__ import annotations

import errno
import os
import secrets
import threading
import time
import weakref
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import Field

from functool import (
    AudioContent,
    Context,
    DefinitionError,
    FileContent,
    FunctionTool,
    GuardrailError,
    ImageContent,
    OutputGuardrail,
    TextContent,
    ToolError,
    ToolResult,
    Toolset,
    ToolSettings,
)
from functool.executors import in_thread, inline
from functool.guardrails.labels import SHOWS_OTHERS, result_labels
from functool.layers.own_directory import own_directory, remove_directory
from functool.layers.spill_reading import OneByOne, shape, span, stored, text_of

Owner: TypeAlias = Callable[[Context[Any]], "Any | Awaitable[Any]"]

LEAST_LIMIT = 100
"""The least `limit`, in characters. A handle and how to use it have to fit."""

FOREVER = 1_000_000_000.0
"""Seconds. Not every file system can note a later time."""

WRITING = 60.0
"""How long a file may stay before its time is set, in seconds."""

_OWNER = "functool.spill.owner"
_SUFFIX = ".spilled"


@dataclass(slots=True, kw_only=True)
class _Part:
    """One part of a result, in its own file. `content` is None for text and plain bytes."""

    path: Path
    size: int
    is_text: bool
    content: ImageContent | AudioContent | FileContent | None = None

    def __str__(self) -> str:
        if self.content is None:
            return f"{self.size:,} {'characters' if self.is_text else 'bytes'}"
        return f"{self.content.media_type} of {self.size:,} bytes"


@dataclass(slots=True, kw_only=True)
class _Kept:
    owner: Any
    expires: float
    bytes: int
    parts: list[_Part]
    sources: list[str]


class _Reading(FunctionTool[..., Any]):
    """A tool that shows a part of a result, which makes no value trusted.

    The model chooses the part, and the result may repeat what a model wrote. The values of a
    trusted tool were remembered when that tool ran.
    """

    async def on_output(self, result: ToolResult, context: Context[Any]) -> None:
        """Mark what is shown. A journal or a cache may have answered without the body."""
        context.notes[SHOWS_OTHERS] = True


class Spill:
    """Keeps long results in files, each for one owner and for a limited time.

    Args:
        directory: The directory of the files. By default a private one, which is removed with this
            object or at the end of the process. What a killed process left is removed by the next.
        limit: The most characters of a result that a model is shown. Bytes of images count as
            characters.
        owner: `owner(context)`, sync or async, returns the owner of a result. Only the same owner
            can read it again. By default the owner is the context.
        expires_in: How many seconds a result is kept.
        max_bytes: The most bytes of all results together. If a new result does not fit, the oldest
            ones are removed first, whoever owns them.

    Raises:
        DefinitionError: `limit` is less than 100, `expires_in` is not a positive number,
            `max_bytes` is not a positive int, `owner` is not callable, or the directory cannot be
            made.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str] | None = None,
        *,
        limit: int = 20_000,
        owner: Owner | None = None,
        expires_in: float = 3_600.0,
        max_bytes: int = 1_000_000_000,
    ) -> None:
        if type(limit) is not int or limit < LEAST_LIMIT:
            raise DefinitionError(f"limit must be an int of at least {LEAST_LIMIT}, not {limit!r}")
        if isinstance(expires_in, bool) or not isinstance(expires_in, (int, float)):
            raise DefinitionError(f"expires_in must be a number of seconds, not {expires_in!r}")
        if not expires_in > 0:
            raise DefinitionError(f"expires_in must be positive, not {expires_in!r}")
        if type(max_bytes) is not int or max_bytes < 1:
            raise DefinitionError(f"max_bytes must be a positive int, not {max_bytes!r}")
        if owner is not None and not callable(owner):
            raise DefinitionError(f"owner must be callable, not {type(owner).__name__}")
        self.limit = limit
        self.expires_in = expires_in
        self.max_bytes = max_bytes
        self._owner: Owner = owner or _owner_in_state
        self._kept: dict[str, _Kept] = {}
        self._bytes = 0  # Counts results that are still being written as well.
        self._lock = threading.Lock()
        self._searches = OneByOne()
        self._directory = self._prepared(directory)
        self.guardrail: OutputGuardrail = self._make_guardrail()
        self.tools: Toolset = Toolset([self._reader(), self._searcher()])

    def _prepared(self, directory: str | os.PathLike[str] | None) -> Path:
        """Return the directory, after removing expired files of earlier processes."""
        try:
            if directory is None:
                path = own_directory("spill-")
                weakref.finalize(self, remove_directory, path, os.getpid())
                return path
            path = Path(directory)
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            for left in path.glob(f"*{_SUFFIX}"):
                with suppress(OSError):  # A file of another owner, for example.
                    if left.lstat().st_mtime < time.time() - WRITING:
                        left.unlink()
            return path.resolve()
        except OSError as error:
            raise DefinitionError(
                f"results cannot be kept in {str(directory)!r}: {error.strerror}"
            ) from error

    def close(self) -> None:
        """Remove all results and their files."""
        with self._lock:
            gone = self._pop([*self._kept])
        _remove(gone)

    def _make_guardrail(self) -> OutputGuardrail:
        async def spill(result: ToolResult, context: Context[Any]) -> ToolResult | None:
            parts = _parts_of(result)
            if sum(len(data) for data, _ in parts) <= self.limit:
                return None
            owner = await self._owner_of(context)
            try:
                handle, kept = await in_thread(self._keep, parts, owner, [*result_labels(result)])
            except OSError as error:
                size = sum(len(data) for data, _ in parts)
                raise GuardrailError(
                    f"The tool has run, but its result of {size:,} characters is too long to show,"
                    f" and could not be kept aside: {error.strerror}. Ask it for less."
                ) from error
            shown = await in_thread(self._shown, handle, kept, parts[0][0])
            if result.error is not None:
                return replace(result, output=[], error=replace(result.error, message=shown))
            links = [c for c in result.output if not isinstance(c, TextContent) and c.data is None]
            return result.shown_as([TextContent(text=shown), *links])

        spill.shows = True  # type: ignore[attr-defined]
        spill.stands_last = True  # type: ignore[attr-defined]
        return spill

    async def _owner_of(self, context: Context[Any]) -> Any:
        owner = await inline(self._owner, context)
        if owner is None:
            raise ValueError("owner(context) returned None: results without an owner are not kept")
        return owner

    def _keep(
        self, parts: list[tuple[str | bytes, Any]], owner: Any, sources: list[str]
    ) -> tuple[str, _Kept]:
        """Write all parts into files. If one cannot be written, remove them all."""
        self._purge()
        written = [part.encode() if isinstance(part, str) else part for part, _ in parts]
        size = sum(map(len, written))
        self._make_room(size)
        handle = secrets.token_urlsafe(16)
        expires = time.time() + min(self.expires_in, FOREVER)
        until = time.monotonic() + self.expires_in
        kept = _Kept(owner=owner, expires=until, bytes=size, parts=[], sources=sources)
        try:
            for number, (data, content) in enumerate(parts):
                path = self._directory / f"{secrets.token_hex(16)}-{number}{_SUFFIX}"
                is_text = isinstance(data, str)
                part = _Part(path=path, size=len(data), is_text=is_text, content=content)
                kept.parts.append(part)
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
                with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
                    file.write(written[number])
                # Others that use the directory see by its time when it expires.
                os.utime(path, (expires, expires))
        except OSError:
            with self._lock:
                self._bytes -= size
            _remove([kept])
            raise
        with self._lock:
            self._kept[handle] = kept
        return handle, kept

    def _purge(self) -> None:
        now = time.monotonic()
        with self._lock:
            late = [handle for handle, kept in self._kept.items() if kept.expires <= now]
            gone = self._pop(late)
        _remove(gone)

    def _pop(self, handles: list[str]) -> list[_Kept]:
        """Forget results, and return them so that their files can be removed. Hold the lock."""
        gone = [self._kept.pop(handle) for handle in handles]
        self._bytes -= sum(kept.bytes for kept in gone)
        return gone

    def _make_room(self, size: int) -> None:
        """Reserve `size` bytes. Remove the oldest results to make room.

        Raises:
            OSError: `size` exceeds `max_bytes`, or other results are being written and leave too
                little room. No result is removed then.
        """
        late: list[str] = []
        with self._lock:
            room = self.max_bytes - self._bytes - size
            for handle, kept in self._kept.items():  # Oldest first.
                if room >= 0:
                    break
                late.append(handle)
                room += kept.bytes
            if room < 0:
                most = f"all kept results may take {self.max_bytes:,} bytes together"
                raise OSError(errno.EDQUOT, most)
            gone = self._pop(late)
            self._bytes += size
        _remove(gone)

    def _shown(self, handle: str, kept: _Kept, first: str | bytes) -> str:
        """Return the text for the model: handle, sizes, shape, and both ends of the first part."""
        sizes = "; ".join(map(str, kept.parts))
        frame = f"[kept as {handle}: {sizes}; read_result shows more]"
        if len(frame) > self.limit:
            frame = f"[kept as {handle}: {len(kept.parts)} parts; read_result shows more]"
        if not isinstance(first, str):
            return frame
        summary = shape(first, (self.limit - len(frame)) // 4)
        gap = "\n[…]\n"
        left = self.limit - len(frame) - len(summary) - len(gap) - 2
        if left < 20:
            return frame
        tail = left // 3
        return f"{frame}\n{summary}\n{first[: left - tail]}{gap}{first[-tail:]}"

    async def _part(self, handle: str, number: int, context: Context[Any]) -> _Part:
        """Return a part of a result of this context's owner, and label the answer as the result.

        Raises:
            ToolError: There is no such result or part.
        """
        self._purge()
        owner = await self._owner_of(context)
        kept = self._kept.get(handle)
        if kept is None or kept.owner != owner:
            raise ToolError(
                "No result is kept under this handle for you. It may have expired:"
                " call the tool again."
            )
        if number >= len(kept.parts):
            raise ToolError(f"The result has no part {number}: the last is {len(kept.parts) - 1}.")
        context.add_labels(kept.sources)
        return kept.parts[number]

    async def _text(self, part: _Part, path: str = "") -> str:
        """Return the text of a part, the base64 of bytes, or the JSON value at `path`."""
        return await in_thread(text_of, part.path, part.is_text, part.size, path)

    def _reader(self) -> FunctionTool[..., Any]:
        async def read_result(
            handle: Annotated[str, "The handle that the result is kept under."],
            context: Context[Any],
            offset: Annotated[int, Field(ge=0), "The first character to read."] = 0,
            length: Annotated[int | None, Field(ge=1), "How many characters to read."] = None,
            lines: Annotated[
                str,
                Field(pattern=r"^([0-9]{1,18}(-[0-9]{1,18})?)?$"),
                "Lines to read instead, such as 10-25.",
            ] = "",
            path: Annotated[
                str, "Where in JSON: keys, places and ranges of a list, such as /rows/0:20/name."
            ] = "",
            part: Annotated[int, Field(ge=0), "Which part of a result that has several."] = 0,
        ) -> ToolResult:
            """Read a part of a long result that was kept aside."""
            found = await self._part(handle, part, context)
            if found.content is not None:
                data = await in_thread(stored, found.path)
                return ToolResult.of(replace(found.content, data=data))
            text = await self._text(found, path)
            if lines:
                offset, end = span(text, lines)
            else:
                end = len(text) if length is None else offset + length
            return ToolResult.of(self._slice(text, offset, end))

        return _Reading(read_result, settings=_settings("Read a result"))

    def _slice(self, text: str, start: int, end: int) -> str:
        """Return a part of a text within the limit, and a line on where to go on."""
        end = min(end, len(text))
        if start >= len(text) and start:
            raise ToolError(f"The text ends at character {len(text)}.")
        if start == 0 and end == len(text) <= self.limit:
            return text

        def footer(end: int) -> str:
            more = f"; go on with offset={end}" if end < len(text) else ""
            return f"\n[characters {start} to {end} of {len(text)}{more}]"

        end = min(end, start + self.limit - len(footer(len(text) - 1)))
        return text[start:end] + footer(end)

    def _searcher(self) -> FunctionTool[..., Any]:
        async def search_result(
            handle: Annotated[str, "The handle that the result is kept under."],
            pattern: Annotated[str, Field(max_length=1_000), "A regular expression."],
            context: Context[Any],
            part: Annotated[int, Field(ge=0), "Which part of a result that has several."] = 0,
        ) -> ToolResult:
            """Find the lines of a long result that match a pattern.

            Each line begins with its offset, for `read_result`. Long lines are searched in pieces.
            """
            found = await self._part(handle, part, context)
            if not found.is_text:
                raise ToolError(f"Part {part} is no text: {found}.")
            text = await self._text(found)
            return ToolResult.of(await in_thread(self._searches.search, text, pattern, self.limit))

        return _Reading(search_result, settings=_settings("Search a result"))


def _settings(name: str) -> ToolSettings:
    return ToolSettings(display_name=name, read_only=True, idempotent=True)


def _owner_in_state(context: Context[Any]) -> str:
    """Return a random owner's name, which is the same in a context and its views."""
    mark: str = context.state.setdefault(_OWNER, secrets.token_hex(16))
    return mark


def _parts_of(result: ToolResult) -> list[tuple[str | bytes, Any]]:
    """Return what a model would read: first all texts as one, then each content with data."""
    value = result.value
    if type(value) in (bytes, bytearray) and result.output == ToolResult.of(value).output:
        return [(bytes(value), None)]
    texts = [part.text for part in result.output if isinstance(part, TextContent)]
    if result.error is not None:
        texts.insert(0, result.error.message)
    parts: list[tuple[str | bytes, Any]] = []
    if texts:
        parts.append((ToolResult.of("\n".join(texts)).text, None))
    for part in result.output:
        if not isinstance(part, TextContent) and part.data is not None:
            parts.append((part.data, replace(part, data=b"")))
    return parts


def _remove(gone: list[_Kept]) -> None:
    for kept in gone:
        for part in kept.parts:
            with suppress(OSError):  # The next process that uses the directory removes it.
                part.path.unlink()
