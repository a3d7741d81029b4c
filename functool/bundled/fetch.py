"""A fetch tool that reaches the public Internet and nothing else.

    from functool.bundled.fetch import fetch_tool

    tool = fetch_tool(allow=["*.python.org"])

`docs/security.md` says what is promised and what is not.
"""

from __future__ import annotations

import asyncio
import codecs
import json
import os
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from pydantic import Field

from functool import Content, FileContent, FunctionTool, ImageContent, Tool, ToolResult, ToolSettings
from functool.bundled.addresses import Reach, UrlNotAllowed
from functool.bundled.outbound import (
    REDIRECTS,
    Outbound,
    RequestFailed,
    ResponseTooLarge,
    read_body,
    target,
)

if find_spec("html_to_markdown") is None:  # Only a process of its own imports it.
    raise ImportError("fetch_tool needs html-to-markdown: pip install 'functool[fetch]'")

__all__ = ["RequestFailed", "ResponseTooLarge", "UrlNotAllowed", "fetch_tool"]

MAX_REDIRECTS = 10
CONVERT_SECONDS = 10.0
"""How long a page may take to become text; every converter has pages that keep it busy for minutes."""

IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
HTML = frozenset({"text/html", "application/xhtml+xml"})
_TEXT = re.compile(
    r"text/.*|application/(.*\+)?(json|xml|yaml|x-yaml|toml|javascript|ecmascript|x-ndjson|sql|rtf)|image/svg\+xml"
)
_META_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s{0,10}=\s{0,10}["']?([A-Za-z0-9_.:-]{1,40})""", re.IGNORECASE)
# Python's other codecs are no character encodings, and some take time out of all proportion.
_CHARSET = re.compile(
    r"(utf|ascii|us-ascii|iso|latin|windows|cp|big5|gb|euc|shift|sjis|koi|mac|tis|johab|hz)[a-z0-9_:-]*"
)

UrlText = Annotated[str, Field(description="An http or https URL.", min_length=1, max_length=8_000)]


@dataclass(slots=True, kw_only=True)
class Page:
    """What came back: where it was found in the end, and its decompressed bytes."""

    url: str
    status: int
    content_type: str
    body: bytes

    @property
    def media_type(self) -> str:
        """The content type without its parameters."""
        return self.content_type.partition(";")[0].strip().lower()


def fetch_tool(*, timeout: float = 20.0, allow: Iterable[str] | None = None, max_bytes: int = 5_000_000) -> Tool:
    """Return a tool `fetch(url)` that reads one page: HTML as Markdown, other text as it is, images and files as such.

    Args:
        timeout: Seconds for everything together: names, redirects, the body and its conversion.
        allow: Host patterns (`example.com`, `*.example.com`); None is any public address. An address that is not
            public is reached only if it, or its network, is written here itself (`10.1.2.3`, `10.0.0.0/8`): no name
            ever leads there.
        max_bytes: How long a body may be after decompression, in bytes; a longer one is an error.

    Raises:
        DefinitionError: `allow` holds something that is no host pattern.
    """
    return tool_over(Outbound(Reach(allow)), timeout=timeout, max_bytes=max_bytes)


def tool_over(outbound: Outbound, *, timeout: float, max_bytes: int) -> Tool:
    """Return the fetch tool over a given way out."""

    async def fetch(url: UrlText) -> ToolResult:
        """Read a web page or file. HTML is returned as Markdown."""
        page = await load(outbound, url, max_bytes)
        shown = await _content(page, max_bytes)
        metadata = {"url": page.url, "status": page.status, "media_type": page.media_type, "size": len(page.body)}
        if page.status >= 400:
            return http_error(page.status, shown, metadata)
        return ToolResult.of(shown, metadata=metadata)

    settings = ToolSettings(read_only=True, tags=("web",))
    return FunctionTool(fetch, name="fetch", timeout=timeout, settings=settings)


async def load(outbound: Outbound, text: str, max_bytes: int) -> Page:
    """Follow a URL and its redirects, each judged anew, and read what is at the end.

    Raises:
        UrlNotAllowed: The URL, or one that it redirects to, may not be used.
        RequestFailed: There was no answer, or no end of redirects.
        ResponseTooLarge: The body is longer than `max_bytes`.
    """
    url = target(text)
    for _ in range(MAX_REDIRECTS + 1):
        async with outbound.open("GET", url) as response:
            location = response.headers.get("location")
            if response.status_code in REDIRECTS and location:
                url = target(location, url)
                continue
            body = await read_body(response, max_bytes)
            kind = response.headers.get("content-type", "application/octet-stream")
            return Page(url=str(url), status=response.status_code, content_type=kind, body=body)
    raise RequestFailed(f"The server redirected more than {MAX_REDIRECTS} times.")


async def _content(page: Page, limit: int) -> Content | str:
    if page.media_type in HTML:
        return await _markdown(_decoded(page), limit)
    if _TEXT.fullmatch(page.media_type) or (page.media_type == "" and b"\0" not in page.body):
        return _decoded(page)
    if page.media_type in IMAGES:
        return ImageContent(data=page.body, media_type=page.media_type)
    name = page.url.partition("?")[0].rsplit("/", 1)[-1] or None
    return FileContent(data=page.body, media_type=page.media_type, name=name)


def _decoded(page: Page) -> str:
    """The body as text: by its byte order mark, what the server or the page says, as UTF-8, or as the old default."""
    for mark, encoding in (
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
    ):
        if page.body.startswith(mark):
            return page.body[len(mark) :].decode(encoding, "replace")
    named = re.search(r"charset\s*=\s*[\"']?([^\s\"';]+)", page.content_type, re.IGNORECASE)
    meta = _META_CHARSET.search(page.body, 0, 4_096) if page.media_type in HTML else None
    charset = named[1] if named else meta[1].decode("ascii") if meta else ""
    if _CHARSET.fullmatch(charset.lower()):
        try:
            return page.body.decode(charset, "replace")
        except LookupError:
            pass
    try:
        return page.body.decode()
    except UnicodeDecodeError:
        return page.body.decode("cp1252", "replace")


async def _markdown(html: str, limit: int) -> str:
    """Convert in a process of its own, which is dead when this returns."""
    child = str(Path(__file__).with_name("html_child.py"))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        child,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    request = json.dumps({"limit": limit}).encode() + b"\n" + html.encode("utf-8", "replace")
    try:
        async with asyncio.timeout(CONVERT_SECONDS):
            answer, _ = await process.communicate(request)
    except TimeoutError as error:
        raise RequestFailed("The page could not be turned into text in time.") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise RequestFailed("The page could not be turned into text.")
    found = json.loads(answer)
    text: str = found["text"].strip() or "(The page has no readable text.)"
    return f"{text}\n\n(Parts of the page are left out.)" if found["cut"] else text
