"""Read the body of an HTTP response up to a limit, and turn it into content for a model."""

from __future__ import annotations

import asyncio
import codecs
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from functool import Content, FileContent, ImageContent, ToolError, ToolFailure, ToolResult
from functool.bundled.retry_after import retry_advice
from functool.bundled.text_encodings import text_encoding

CHUNK = 65_536
GZIP_MAGIC = b"\x1f\x8b"

BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
WIDER = {
    "ascii": "cp1252",
    "euc_kr": "cp949",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "iso8859_9": "cp1254",
    "iso8859_11": "cp874",
    "latin_1": "cp1252",
    "shift_jis": "cp932",
    "tis_620": "cp874",
}
"""What servers mean by the name of an encoding, by the Encoding Standard that browsers follow."""

IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
HTML = frozenset({"text/html", "application/xhtml+xml"})
_TEXT = re.compile(
    r"text/.*|application/(.*\+)?(json|xml|yaml|x-yaml|toml|javascript|ecmascript|x-ndjson|sql|rtf)|image/svg\+xml"
)
_NAMED_CHARSET = re.compile(r"charset\s{0,10}=\s{0,10}[\"']?([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_META_CHARSET = re.compile(
    rb"<meta[^>]{0,200}?charset\s{0,10}=\s{0,10}[\"']?([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE
)


class RequestFailed(ToolError):
    """The server could not be reached, or did not answer in HTTP."""


class ResponseTooLarge(ToolError):
    """The body is longer than the limit, in bytes after decompression."""


async def read_body(response: Any, limit: int) -> bytes:
    """Read and decompress the body of an httpx2 or httpx response, at most `limit` bytes of it.

    Raises:
        ResponseTooLarge: The body is longer.
        RequestFailed: It is broken, or compressed with something else than gzip or deflate.
    """
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
        raise RequestFailed("The server compressed its answer in a way that was not asked for.")
    if response.is_stream_consumed:  # A hook of the host's client has read the body already.
        body = bytearray(response.content)
        _check(body, limit)
        return bytes(body)
    body, inflate = bytearray(), None if encoding in ("", "identity") else _Inflate()
    async for raw in response.aiter_raw():
        await asyncio.sleep(0)  # Ten thousand chunks of one byte may arrive at once.
        for piece in (raw,) if inflate is None else inflate.pieces(raw):
            body += piece
            _check(body, limit)
    if inflate is not None and not inflate.complete:
        raise RequestFailed("The compressed answer ended early.")
    return bytes(body)


def http_error(
    status: int, shown: Any, metadata: Mapping[str, Any], retry_after: float | None = None
) -> ToolResult:
    """Return the failed result for a status of 400 or more, with what the server said.

    `retry_after` is the number of seconds after which the server allows another try.
    """
    message = f"The server answered with status {status}.{retry_advice(retry_after)}"
    details = {"status": status} | ({} if retry_after is None else {"retry_after": retry_after})
    failure = ToolFailure(type="HttpError", message=message, details=details)
    return replace(ToolResult.of(shown, metadata=metadata), value=None, error=failure)


class _Inflate:
    """Decompress in small pieces, so that the caller can count them and stop a bomb early."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=47)
        self._fed = False

    @property
    def complete(self) -> bool:
        return self._stream.eof or not self._fed

    def pieces(self, data: bytes) -> Iterator[bytes]:
        while data or self._fed:
            if self._stream.eof:
                if not data.startswith(GZIP_MAGIC):
                    return
                self._stream = zlib.decompressobj(wbits=47)
            self._fed = True
            try:
                piece = self._stream.decompress(data, CHUNK)
            except zlib.error as error:
                raise RequestFailed("The compressed answer is broken.") from error
            data = self._stream.unused_data if self._stream.eof else self._stream.unconsumed_tail
            yield piece
            if not data and len(piece) < CHUNK:
                return


def _check(body: bytearray, limit: int) -> None:
    if len(body) > limit:
        raise ResponseTooLarge(f"The answer is longer than {limit:,} bytes.")


def media_type(content_type: str) -> str:
    """Return a content type without its parameters."""
    return content_type.partition(";")[0].strip().lower()


def content_of(body: bytes, content_type: str, name: str = "") -> Content | str:
    """Return a body as text, an image or a file, according to its content type."""
    kind = media_type(content_type)
    if _TEXT.fullmatch(kind) or (kind == "" and b"\0" not in body):
        return text_of(body, content_type)
    if kind in IMAGES:
        return ImageContent(data=body, media_type=kind)
    return FileContent(data=body, media_type=kind or "application/octet-stream", name=name or None)


def text_of(body: bytes, content_type: str) -> str:
    """Decode a body with its byte order mark, else its charset, else as UTF-8 or cp1252."""
    for mark, encoding in BYTE_ORDER_MARKS:
        if body.startswith(mark):
            return _decoded(body[len(mark) :], encoding)
    named = _NAMED_CHARSET.search(content_type)
    meta = _META_CHARSET.search(body, 0, 4_096) if media_type(content_type) in HTML else None
    charset = text_encoding(named[1] if named else meta[1].decode("ascii") if meta else "")
    # Where this declaration was found as ASCII, there is no UTF-16. XSLT writes it all the same.
    wide = named is None and charset is not None and charset.startswith(("utf_16", "utf_32"))
    if charset is not None and not wide:
        return _decoded(body, WIDER.get(charset, charset))
    try:
        return body.decode()
    except UnicodeDecodeError:
        return _decoded(body, "cp1252")


def _decoded(body: bytes, encoding: str) -> str:
    """Decode a body in pieces.

    Python decodes each piece without a break. Five megabytes that a charset does not have take more
    than a second, and other threads would wait, such as that of the event loop.
    """
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    try:
        pieces = [decoder.decode(body[at : at + CHUNK]) for at in range(0, len(body), CHUNK)]
        return "".join(pieces) + decoder.decode(b"", True)
    except UnicodeError:  # UTF-16 and UTF-32 need a byte order mark to be decoded in pieces.
        return body.decode(encoding, "replace")
