"""Long results kept aside: the model reads the ends and a handle, code keeps the value.

    spill = Spill(limit=20_000)
    report = FunctionTool(report, output_guardrails=[redact([...]), spill.guardrail])
    tools = Toolset([report]) | spill.tools  # read_result, search_result

What is kept is what the guardrails before have left of the output. So the guardrail stands last.
"""

from __future__ import annotations

import base64
import errno
import os
import secrets
import shutil
import tempfile
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
from functool.layers.spill_reading import matcher, searched, shape, span, stored, within

Owner: TypeAlias = Callable[[Context[Any]], "Any | Awaitable[Any]"]

LEAST_LIMIT = 100
"""The least `limit`, in characters: a handle and what to do with it have to fit."""

_OWNER = "functool.spill.owner"
_SUFFIX = ".spilled"


@dataclass(slots=True, kw_only=True)
class _Part:
    """One part of a result in a file of its own; `content` is None for text and plain bytes."""

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


class Spill:
    """Keeps long results in files, each for one owner and for a time.

    Args:
        directory: Where; by default a private one that is removed with this object or the process.
        limit: How many characters of a result a model is shown; bytes of images count, too.
        owner: `owner(context)`, sync or async: whose results these are. Only the same owner reads
            them again. By default the context.
        expires_in: For how many seconds a result is kept.
        max_bytes: How many bytes all results may take together. Where a new one does not fit, the
            oldest are forgotten first, whoever owns them.

    Raises:
        DefinitionError: `limit` is less than 100, `expires_in` no positive number, `max_bytes` no
            positive int, `owner` not callable, or the directory cannot be made.
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
        self._bytes = 0  # With what is being written.
        self._lock = threading.Lock()
        self._directory = self._prepared(directory)
        self.guardrail: OutputGuardrail = self._make_guardrail()
        self.tools: Toolset = Toolset([self._reader(), self._searcher()])

    def _prepared(self, directory: str | os.PathLike[str] | None) -> Path:
        """Return the directory, without what an earlier process has left in it too long ago."""
        try:
            if directory is None:
                path = Path(tempfile.mkdtemp(prefix="functool-spill-"))
                weakref.finalize(self, shutil.rmtree, path, ignore_errors=True)
                return path
            path = Path(directory)
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            for left in path.glob(f"*{_SUFFIX}"):
                with suppress(OSError):  # What somebody else put there stops nobody.
                    if left.lstat().st_mtime < time.time() - self.expires_in:
                        left.unlink()
            return path.resolve()
        except OSError as error:
            raise DefinitionError(
                f"results cannot be kept in {str(directory)!r}: {error.strerror}"
            ) from error

    def close(self) -> None:
        """Forget all results, and remove their files."""
        with self._lock:
            gone = self._forgotten([*self._kept])
        _remove(gone)

    def _make_guardrail(self) -> OutputGuardrail:
        async def spill(result: ToolResult, context: Context[Any]) -> ToolResult | None:
            parts = _parts_of(result)
            if sum(len(data) for data, _ in parts) <= self.limit:
                return None
            owner = await self._owner_of(context)
            sources = result.metadata.get("sources") or []
            try:
                handle, kept = await in_thread(self._keep, parts, owner, [*sources])
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
        """Write the parts into files, all or none."""
        self._purge()
        written = [part.encode() if isinstance(part, str) else part for part, _ in parts]
        size = sum(map(len, written))
        self._make_room(size)
        handle = secrets.token_urlsafe(16)
        kept = _Kept(
            owner=owner,
            expires=time.monotonic() + self.expires_in,
            bytes=size,
            parts=[],
            sources=sources,
        )
        try:
            for number, (data, content) in enumerate(parts):
                path = self._directory / f"{secrets.token_hex(16)}-{number}{_SUFFIX}"
                is_text = isinstance(data, str)
                part = _Part(path=path, size=len(data), is_text=is_text, content=content)
                kept.parts.append(part)
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
                with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
                    file.write(written[number])
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
            gone = self._forgotten(late)
        _remove(gone)

    def _forgotten(self, handles: list[str]) -> list[_Kept]:
        """Forget results, with the lock held, and return what is to be removed."""
        gone = [self._kept.pop(handle) for handle in handles]
        self._bytes -= sum(kept.bytes for kept in gone)
        return gone

    def _make_room(self, size: int) -> None:
        """Take so many of the bytes that there may be; forget the oldest results for them.

        Raises:
            OSError: There may never be so many, or others are being written. Nothing is forgotten.
        """
        late: list[str] = []
        with self._lock:
            room = self.max_bytes - self._bytes - size
            for handle, kept in self._kept.items():  # The oldest come first.
                if room >= 0:
                    break
                late.append(handle)
                room += kept.bytes
            if room < 0:
                most = f"all kept results may take {self.max_bytes:,} bytes together"
                raise OSError(errno.EDQUOT, most)
            gone = self._forgotten(late)
            self._bytes += size
        _remove(gone)

    def _shown(self, handle: str, kept: _Kept, first: str | bytes) -> str:
        """Return what a model reads: handle, sizes, shape, and both ends of a text."""
        sizes = "; ".join(map(str, kept.parts))
        frame = f"[kept as {handle}: {sizes}; read_result shows more]"
        if len(frame) > self.limit:
            frame = f"[kept as {handle}: {len(kept.parts)} parts; read_result shows more]"
        if not isinstance(first, str):
            return frame
        told = shape(first, (self.limit - len(frame)) // 4)
        gap = "\n[…]\n"
        left = self.limit - len(frame) - len(told) - len(gap) - 2
        if left < 20:
            return frame
        tail = left // 3
        return f"{frame}\n{told}\n{first[: left - tail]}{gap}{first[-tail:]}"

    async def _part(self, handle: str, number: int, context: Context[Any]) -> tuple[_Kept, _Part]:
        """Return a part of a result that this context's owner has.

        Raises:
            ToolError: There is none.
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
        return kept, kept.parts[number]

    async def _text(self, part: _Part, path: str = "") -> str:
        """Return the text of a part; of bytes their base64; of JSON what `path` leads to."""
        data = await in_thread(stored, part.path)
        text = data.decode() if part.is_text else base64.b64encode(data).decode()
        return await in_thread(within, text, path) if path else text

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
            kept, found = await self._part(handle, part, context)
            metadata = {"sources": kept.sources} if kept.sources else {}
            if found.content is not None:
                data = await in_thread(stored, found.path)
                return ToolResult.of(replace(found.content, data=data), metadata=metadata)
            text = await self._text(found, path)
            if lines:
                offset, end = span(text, lines)
            else:
                end = len(text) if length is None else offset + length
            return ToolResult.of(self._slice(text, offset, end), metadata=metadata)

        return FunctionTool(read_result, settings=_settings("Read a result"))

    def _slice(self, text: str, start: int, end: int) -> str:
        """Return a part of a text within the limit, with a word on what is left."""
        end = min(end, len(text))
        if start >= len(text) and start:
            raise ToolError(f"The text ends at character {len(text)}.")
        if start == 0 and end == len(text) <= self.limit:
            return text

        def told(end: int) -> str:
            more = f"; go on with offset={end}" if end < len(text) else ""
            return f"\n[characters {start} to {end} of {len(text)}{more}]"

        end = min(end, start + self.limit - len(told(len(text) - 1)))
        return text[start:end] + told(end)

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
            matches = matcher(pattern)
            kept, found = await self._part(handle, part, context)
            if not found.is_text:
                raise ToolError(f"Part {part} is no text: {found}.")
            text = await self._text(found)
            answer = await in_thread(searched, text, matches, self.limit)
            metadata = {"sources": kept.sources} if kept.sources else {}
            return ToolResult.of(answer, metadata=metadata)

        return FunctionTool(search_result, settings=_settings("Search a result"))


def _settings(name: str) -> ToolSettings:
    return ToolSettings(display_name=name, read_only=True, idempotent=True)


def _owner_in_state(context: Context[Any]) -> str:
    """Return the mark of this context and its views."""
    mark: str = context.state.setdefault(_OWNER, secrets.token_hex(16))
    return mark


def _parts_of(result: ToolResult) -> list[tuple[str | bytes, Any]]:
    """Return what a model would read: first all texts as one, then each content that has data."""
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
            part.path.unlink(missing_ok=True)
