"""Send HTTP requests to addresses that were judged, with nothing of the host's own in them."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from functools import lru_cache

from functool.bundled.addresses import Reach, Resolve, UrlNotAllowed, system_addresses
from functool.bundled.http_body import RequestFailed

try:
    import httpx2
except ImportError as _missing:
    raise ImportError(
        "this tool needs httpx2: pip install 'functool[fetch]' or 'functool[openapi]'"
    ) from _missing

CONNECT_SECONDS = 10.0
"""How long one address may take to answer; the next one is tried after that."""

HEADERS = {"User-Agent": "functool", "Accept": "*/*", "Accept-Encoding": "gzip"}
REDIRECTS = frozenset({301, 302, 303, 307, 308})


class Outbound:
    """Opens requests, each on a connection of its own, without cookies, proxies or credentials.

    No URL is logged: a query may hold a key. That is why no `AsyncClient` stands in between.

    Args:
        reach: What may be connected to.
        resolve: Answers `(host, port)` with addresses; asked once for each request.
        tls: The certificates to trust; None is the system's.
    """

    def __init__(
        self,
        reach: Reach,
        *,
        resolve: Resolve = system_addresses,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._reach = reach
        self._resolve = resolve
        self._tls = tls

    @asynccontextmanager
    async def open(
        self,
        method: str,
        url: httpx2.URL,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
    ) -> AsyncIterator[httpx2.Response]:
        """Send a request; the response's body is still to be read, with `read_body`.

        Raises:
            UrlNotAllowed: The URL may not be used.
            RequestFailed: There is no answer.
        """
        host, port = (
            url.raw_host.decode("ascii"),
            url.port or (443 if url.scheme == "https" else 80),
        )
        try:
            addresses = await self._reach.addresses(host, port, self._resolve)
        except (OSError, UnicodeError) as error:
            raise RequestFailed(f"The host {host!r} could not be found.") from error
        transport = httpx2.AsyncHTTPTransport(verify=self._tls or _system_tls(), trust_env=False)
        async with transport:
            response = await _first_answer(
                transport, method, url, headers or {}, content, addresses
            )
            async with aclosing(response):
                try:
                    yield response
                except httpx2.HTTPError as error:
                    raise RequestFailed(f"The answer of {host!r} ended early.") from error


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


@lru_cache(1)
def _system_tls() -> ssl.SSLContext:
    return httpx2.create_ssl_context(trust_env=False)


async def _first_answer(
    transport: httpx2.AsyncHTTPTransport,
    method: str,
    url: httpx2.URL,
    headers: Mapping[str, str],
    content: bytes | None,
    addresses: list[str],
) -> httpx2.Response:
    """Try one address after the other.

    The name stays in the Host header, and is what a certificate has to be for.
    """
    name = url.raw_host.decode("ascii").removesuffix(".")
    failure: Exception | None = None
    for address in addresses:
        request = httpx2.Request(
            method,
            url.copy_with(host=address),
            headers={**HEADERS, **headers, "Host": url.netloc.decode("ascii")},
            content=content,
            extensions={"sni_hostname": name, "timeout": {"connect": CONNECT_SECONDS}},
        )
        try:
            response = await transport.handle_async_request(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            failure = error
        except httpx2.HTTPError as error:
            raise RequestFailed(
                f"The host {name!r} did not answer as a web server does."
            ) from error
        else:
            response.request = request
            return response
    raise RequestFailed(f"The host {name!r} could not be reached: {failure}") from failure
