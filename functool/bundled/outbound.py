"""Send HTTP requests to checked addresses, without the host's cookies, proxies or credentials."""

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
"""How long to wait for one address before the next one is tried."""

HEADERS = {"User-Agent": "functool", "Accept": "*/*", "Accept-Encoding": "gzip"}
REDIRECTS = frozenset({301, 302, 303, 307, 308})


class Outbound:
    """Send requests, each on a connection of its own, without cookies, proxies or credentials.

    This does not use an `AsyncClient`, because that logs every URL, and a query may hold a key.

    Args:
        reach: The hosts and addresses that are allowed.
        resolve: Returns the addresses of `(host, port)`. It is called once for each request.
        tls: The certificates to trust. None means the system's.
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
        """Send a request. Read the body of the response with `read_body`.

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
    """Parse and check the URL of a request.

    Args:
        text: The URL. With a `base`, it is the location of a redirect, and may be relative.
        base: The URL that the redirect came from.

    Raises:
        UrlNotAllowed: It is not a plain http or https URL.
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

    The Host header has the name, and the certificate has to be valid for the name.
    """
    name = url.raw_host.decode("ascii").removesuffix(".")
    failure: Exception | None = None
    sent = httpx2.Headers(HEADERS)
    sent.update(headers)  # Not a dict: `user-agent` takes the place of `User-Agent`.
    sent["Host"] = url.netloc.decode("ascii")
    for address in addresses:
        request = httpx2.Request(
            method,
            url.copy_with(host=address),
            headers=sent,
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
