"""HTTP that reaches no further than it may: judged addresses, bounded bodies, and nothing of the host's own in it."""

from __future__ import annotations

import ssl
import zlib
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any

from functool import ToolError, ToolFailure, ToolResult
from functool.bundled.addresses import Reach, Resolve, UrlNotAllowed, system_addresses

try:
    import httpx2
except ImportError as missing:
    raise ImportError("this tool needs httpx2: pip install 'functool[fetch]' or 'functool[openapi]'") from missing

CONNECT_SECONDS = 10.0
"""How long one address may take to answer; the next one is tried after that."""

HEADERS = {"User-Agent": "functool", "Accept": "*/*", "Accept-Encoding": "gzip"}
CHUNK = 65_536
GZIP_MAGIC = b"\x1f\x8b"
REDIRECTS = frozenset({301, 302, 303, 307, 308})


class RequestFailed(ToolError):
    """The other side could not be reached, or did not speak HTTP."""


class ResponseTooLarge(ToolError):
    """The body is longer than the limit, in bytes after decompression."""


class Outbound:
    """Opens one request after the other, each on a connection of its own, without cookies, proxies or credentials.

    Args:
        reach: What may be connected to.
        resolve: Answers `(host, port)` with addresses; asked once for each request.
        tls: The certificates to trust; None is the system's.
    """

    def __init__(self, reach: Reach, *, resolve: Resolve = system_addresses, tls: ssl.SSLContext | None = None) -> None:
        self._reach = reach
        self._resolve = resolve
        self._tls = tls

    @asynccontextmanager
    async def open(
        self, method: str, url: httpx2.URL, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[httpx2.Response]:
        """Send a request without a body; the response's own body is still to be read, with `read_body`.

        Raises:
            UrlNotAllowed: The URL may not be used.
            RequestFailed: There is no answer.
        """
        host, port = url.raw_host.decode("ascii"), url.port or (443 if url.scheme == "https" else 80)
        try:
            addresses = await self._reach.addresses(host, port, self._resolve)
        except (OSError, UnicodeError) as error:
            raise RequestFailed(f"The host {host!r} could not be found.") from error
        transport = httpx2.AsyncHTTPTransport(verify=self._tls or _system_tls(), trust_env=False)
        async with httpx2.AsyncClient(transport=transport, trust_env=False, timeout=None) as client:
            response = await _first_answer(client, method, url, headers or {}, addresses)
            async with aclosing(response):
                yield response


def target(text: str, base: httpx2.URL | None = None) -> httpx2.URL:
    """Read the URL that a request may go to.

    Args:
        text: The URL, or with a `base` what a redirect from there says.
        base: Where the redirect came from.

    Raises:
        UrlNotAllowed: It is no plain http or https URL.
    """
    try:
        url = httpx2.URL(text) if base is None else base.join(text)
        port = url.port
    except (httpx2.InvalidURL, ValueError, TypeError) as error:
        raise UrlNotAllowed("That is not a valid URL.") from error
    if url.scheme not in ("http", "https"):
        raise UrlNotAllowed("Only http and https URLs are allowed.")
    if url.userinfo:
        raise UrlNotAllowed("A URL with a user name or password is not allowed.")
    if not url.raw_host or not (port is None or 0 < port < 65_536):
        raise UrlNotAllowed("The URL has no valid host and port.")
    return url.copy_with(fragment=None)


async def read_body(response: Any, limit: int) -> bytes:
    """Read and decompress the body of an httpx2 or httpx response, as far as `limit` bytes and no further.

    Raises:
        ResponseTooLarge: The body is longer.
        RequestFailed: It is compressed in another way than gzip or deflate, or broken.
    """
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
        raise RequestFailed("The server compressed its answer in a way that was not asked for.")
    if response.is_stream_consumed:  # A hook of the host's client has read it.
        body = bytearray(response.content)
        _check(body, limit)
        return bytes(body)
    body, inflate = bytearray(), None if encoding in ("", "identity") else _Inflate()
    async for raw in response.aiter_raw():
        for piece in (raw,) if inflate is None else inflate.pieces(raw):
            body += piece
            _check(body, limit)
    if inflate is not None and not inflate.whole:
        raise RequestFailed("The compressed answer ended early.")
    return bytes(body)


def http_error(status: int, shown: Any, metadata: Mapping[str, Any]) -> ToolResult:
    """Return the failure that a status of 400 or more is, with what the server said."""
    message = f"The server answered with status {status}."
    failure = ToolFailure(type="HttpError", message=message, details={"status": status})
    return replace(ToolResult.of(shown, metadata=metadata), value=None, error=failure)


class _Inflate:
    """Decompression in small pieces: whoever counts them stops a bomb before it has gone off."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=47)
        self._fed = False

    @property
    def whole(self) -> bool:
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


@lru_cache(1)
def _system_tls() -> ssl.SSLContext:
    return httpx2.create_ssl_context(trust_env=False)


async def _first_answer(
    client: httpx2.AsyncClient, method: str, url: httpx2.URL, headers: Mapping[str, str], addresses: list[str]
) -> httpx2.Response:
    """Try one address after the other. The name stays in the Host header, and is what a certificate has to be for."""
    name = url.raw_host.decode("ascii").removesuffix(".")
    for address in addresses:
        request = httpx2.Request(
            method,
            url.copy_with(host=address),
            headers={**HEADERS, **headers, "Host": url.netloc.decode("ascii")},
            extensions={"sni_hostname": name, "timeout": {"connect": CONNECT_SECONDS}},
        )
        try:
            return await client.send(request, stream=True, auth=None, follow_redirects=False)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            failure: Exception = error
        except httpx2.HTTPError as error:
            raise RequestFailed(f"The host {name!r} did not answer as a web server does.") from error
    raise RequestFailed(f"The host {name!r} could not be reached: {failure}") from failure
