"""A fetch tool that reaches the public Internet and nothing else.

    from functool.bundled.fetch import fetch_tool

    tool = fetch_tool(allow=["*.python.org"])

`docs/security.md` says what is promised and what is not.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated
from weakref import WeakKeyDictionary

from pydantic import Field

from functool import Content, DefinitionError, FunctionTool, Tool, ToolResult, ToolSettings
from functool.bundled.addresses import Reach, UrlNotAllowed
from functool.bundled.http_body import (
    HTML,
    RequestFailed,
    ResponseTooLarge,
    content_of,
    http_error,
    media_type,
    read_body,
    text_of,
)
from functool.bundled.outbound import REDIRECTS, Outbound, target
from functool.bundled.retry_after import retry_seconds, waited
from functool.executors import in_thread

# Only the converting process imports the converter, from the directory where it is installed now.
CONVERTER = find_spec("html_to_markdown")
if CONVERTER is None or CONVERTER.origin is None:
    _why = ModuleNotFoundError("No module named 'html_to_markdown'", name="html_to_markdown")
    raise ImportError("fetch_tool needs html-to-markdown: pip install 'functool[fetch]'") from _why

__all__ = ["RequestFailed", "ResponseTooLarge", "UrlNotAllowed", "fetch_tool"]

MAX_REDIRECTS = 10
CONVERT_SECONDS = 10.0
"""How long the conversion of a page may take. Every converter takes minutes for some pages."""

CONVERTERS = max(2, min(8, os.cpu_count() or 1))
"""How many large pages are converted at the same time."""

LARGE = 500_000
"""A page with more characters is large. One of five million took 0.7 GB."""

START = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")
"""The environment variables that the converting process gets: some Pythons need them to start."""

CHILD = str(Path(__file__).resolve().with_name("html_child.py"))
PACKAGES = str(Path(CONVERTER.origin).resolve().parent.parent)

_gates: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
"""By the event loop, as each semaphore belongs to one."""

UrlText = Annotated[str, Field(description="An http or https URL.", min_length=1, max_length=8_000)]


@dataclass(slots=True, kw_only=True)
class Page:
    """An answer of a server, with the URL after all redirects and the decompressed body."""

    url: str
    status: int
    content_type: str
    body: bytes
    retry_after: float | None = None


def fetch_tool(
    *,
    timeout: float = 20.0,
    allow: Iterable[str] | None = None,
    max_bytes: int = 5_000_000,
    untrusted: bool = True,
) -> Tool:
    """Return a tool `fetch(url)` that reads one page.

    HTML is returned as Markdown, other text unchanged, images and files as such content.

    Args:
        timeout: Seconds for everything together: names, redirects, the body and its conversion.
        allow: Host patterns (`example.com`, `*.example.com`). None allows every public address. An
            address that is not public is allowed only if it, or its network, is an entry
            (`10.1.2.3`, `10.0.0.0/8`). The pattern of a name is not enough.
        max_bytes: How long a body may be after decompression, in bytes. A longer one is an error.
        untrusted: Whether somebody else may have written the pages. See `ToolSettings`.

    Raises:
        DefinitionError: `allow` has an entry that is not a host pattern, or `max_bytes` is not
            positive.
    """
    if isinstance(max_bytes, bool) or not isinstance(max_bytes, int) or max_bytes <= 0:
        raise DefinitionError(f"max_bytes must be a positive number of bytes, not {max_bytes!r}")
    outbound = Outbound(Reach(allow))
    return tool_over(outbound, timeout=timeout, max_bytes=max_bytes, untrusted=untrusted)


def tool_over(
    outbound: Outbound, *, timeout: float, max_bytes: int, untrusted: bool = True
) -> Tool:
    """Return the fetch tool, which sends its requests with `outbound`."""

    async def fetch(url: UrlText) -> ToolResult:
        """Read a web page or file. HTML is returned as Markdown."""
        page = await load(outbound, url, max_bytes)
        shown = await _content(page, max_bytes)
        metadata = {
            "url": page.url,
            "status": page.status,
            "media_type": media_type(page.content_type),
            "size": len(page.body),
        }
        if page.status >= 400:
            return http_error(page.status, shown, metadata, page.retry_after)
        return ToolResult.of(shown, metadata=metadata)

    settings = ToolSettings(read_only=True, tags=("web",), untrusted=untrusted)
    return FunctionTool(fetch, name="fetch", timeout=timeout, settings=settings)


async def load(outbound: Outbound, text: str, max_bytes: int) -> Page:
    """Read a URL. Follow its redirects, and check each of them like the first URL.

    If a server is too busy and asks for a short wait, the request is repeated once.

    Raises:
        UrlNotAllowed: The URL, or one that it redirects to, may not be used.
        RequestFailed: There was no answer, or there were too many redirects.
        ResponseTooLarge: The body is longer than `max_bytes`.
    """
    url, tries = target(text), 0
    for _ in range(MAX_REDIRECTS + 1):
        async with outbound.open("GET", url) as response:
            seconds = retry_seconds(response)
            if await waited(seconds, tries):
                tries += 1
                continue
            location = response.headers.get("location")
            if response.status_code in REDIRECTS and location:
                url = target(location, url)
                continue
            body = await read_body(response, max_bytes)
            kind = response.headers.get("content-type", "application/octet-stream")
            return Page(
                url=str(url),
                status=response.status_code,
                content_type=kind,
                body=body,
                retry_after=seconds,
            )
    raise RequestFailed(f"The server redirected more than {MAX_REDIRECTS} times.")


async def _content(page: Page, limit: int) -> Content | str:
    # In a thread, because some charsets take seconds.
    if media_type(page.content_type) in HTML:
        return await _markdown(await in_thread(text_of, page.body, page.content_type), limit)
    name = page.url.partition("?")[0].rsplit("/", 1)[-1]
    return await in_thread(content_of, page.body, page.content_type, name)


async def _markdown(html: str, limit: int) -> str:
    """Convert HTML. A large page waits until it is its turn."""
    if len(html) <= LARGE:
        return await _converted(html, limit)
    gate = _gates.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(CONVERTERS))
    async with gate:
        return await _converted(html, limit)


async def _converted(html: str, limit: int) -> str:
    """Convert HTML in a process of its own, which is dead when this returns."""
    # Isolated: the host's `sys.path` may name directories that a shell or file tool can write.
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        CHILD,
        PACKAGES,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={name: os.environ[name] for name in START if name in os.environ},
        # Read all of the output at once. If reading paused, and then nobody read on, asyncio would
        # wait for the end of the dead process for ever.
        limit=sys.maxsize,
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
    try:
        found = json.loads(answer)
    except ValueError as error:  # It died. How it ended is not known if the host ignores SIGCHLD.
        raise RequestFailed("The page could not be turned into text.") from error
    text: str = found["text"].strip() or "(The page has no readable text.)"
    return f"{text}\n\n(Parts of the page are left out.)" if found["cut"] else text
