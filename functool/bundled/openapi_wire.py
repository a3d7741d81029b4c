"""Send the requests of an API. Its credentials go to one origin only."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from functool import DefinitionError, ToolError
from functool.bundled.addresses import Reach, UrlNotAllowed
from functool.bundled.http_body import RequestFailed, read_body
from functool.bundled.openapi_auth import Credentials
from functool.bundled.openapi_logs import hidden_in_logs
from functool.bundled.openapi_names import spellings
from functool.bundled.openapi_request import Prepared, UnsafeValue
from functool.bundled.outbound import HEADERS, REDIRECTS, Outbound, target
from functool.bundled.retry_after import retry_seconds, waited

if TYPE_CHECKING:
    import httpx2

MAX_RESPONSE_BYTES = 5_000_000
MAX_REDIRECTS = 5

OWN_HEADERS = {"Accept-Encoding": HEADERS["Accept-Encoding"]}
"""Headers for the host's client. They ask only for encodings that `read_body` can decompress."""

# Only these methods are repeated or redirected to another origin. A request that changes something
# goes to its own server only.
SAFE = frozenset({"GET", "HEAD"})
Origin: TypeAlias = tuple[str, str, int]
Sent: TypeAlias = tuple[Prepared, Credentials]

REPLACED = frozenset({"content_type", "user_agent"})
"""The headers of the host's client that are replaced, in the form of `spellings`. The body decides
the first one, and a client that says nothing of the second one sends its library's."""


class Client(Protocol):
    """An `AsyncClient` of httpx2 or httpx."""

    def build_request(self, method: str, url: Any, **options: Any) -> Any:
        """Make a request with the client's own headers and cookies."""

    async def send(self, request: Any, **options: Any) -> Any:
        """Send a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer of a server, after all redirects."""

    status: int
    content_type: str
    body: bytes
    retry_after: float | None = None


class Wire:
    """Send requests to one server.

    Args:
        server: The URL that the paths of the API are appended to.
        chosen: Whether the host chose that server, and not the document.
        client: The host's own client. Its transport then resolves names.

    Raises:
        DefinitionError: The server is not an absolute http or https URL, or the client is not
            async.
    """

    def __init__(self, server: str, *, chosen: bool, client: Client | None = None) -> None:
        try:
            url = target(server)
        except UrlNotAllowed as error:
            raise DefinitionError(
                f"{server[:200]!r} cannot be the server of an API: {error} Pass base_url."
            ) from error
        if url.query:
            raise DefinitionError(f"the server of an API has no query: {server[:200]!r}")
        if client is not None and not iscoroutinefunction(getattr(client, "send", None)):
            raise DefinitionError("client must be an AsyncClient of httpx2 or httpx")
        host = url.raw_host.decode("ascii")
        self._base = str(url).rstrip("/")
        self._origin = _origin(url)
        self._reach = Reach(trusted=[host] if chosen or _open_literal(host) else [])
        self._outbound = Outbound(self._reach)
        self._client = client

    async def send(self, request: Prepared, credentials: Credentials) -> Answer:
        """Send a request, follow its redirects, and read the answer.

        Credentials, arguments and what the client adds go only to the origin of the server. After a
        redirect to another origin, none of them is sent any more, also if the next redirect leads
        back.

        Raises:
            UnsafeValue: A server could read an argument as a credential.
            UrlNotAllowed: A redirect leads to a URL that is not allowed.
            RequestFailed: There was no answer, or there were too many redirects.
            ResponseTooLarge: The body is too long.
        """
        named = _names((*re.split("[&;]", request.query), *request.cookies))
        if named & _names((*credentials.query, *credentials.cookies)):
            raise UnsafeValue("An argument must not have the name of a credential in it.")
        url = target(_with_query(self._base + request.path, [request.query, *credentials.query]))
        if _origin(url) != self._origin:
            raise UrlNotAllowed("The request would leave the server of the API.")
        with hidden_in_logs(credentials.query):
            return await self._follow(url, request, credentials)

    async def _follow(self, url: httpx2.URL, request: Prepared, credentials: Credentials) -> Answer:
        method, content, home, tries = request.method, request.content, True, 0
        for _ in range(MAX_REDIRECTS + 1):
            sent = (request, credentials) if home else None
            async with self._open(method, url, content, sent) as response:
                seconds = retry_seconds(response)
                # A request that changes something is never sent twice.
                if method in SAFE and await waited(seconds, tries):
                    tries += 1
                    continue
                location = response.headers.get("location")
                if response.status_code not in REDIRECTS or not location:
                    return Answer(
                        status=response.status_code,
                        content_type=response.headers.get("content-type", ""),
                        body=await read_body(response, MAX_RESPONSE_BYTES),
                        retry_after=seconds,
                    )
                status = response.status_code
            url = target(location, url)
            home = home and _origin(url) == self._origin
            if status == 303 or (status in (301, 302) and method == "POST"):
                method, content = "GET" if method != "HEAD" else method, None
            if home:
                url = _with_missing(url, credentials.query)
            elif method in SAFE:
                content = None  # Some APIs take a GET with a body.
            else:
                raise UrlNotAllowed(
                    "The server redirected a request that changes something to another origin."
                )
        raise RequestFailed(f"The server redirected more than {MAX_REDIRECTS} times.")

    def _open(
        self, method: str, url: httpx2.URL, content: bytes | None, sent: Sent | None
    ) -> AbstractAsyncContextManager[Any]:
        if self._client is None:
            # `Outbound` adds its own headers, where the request has none of the same name.
            headers = {} if sent is None else _headers(*sent, {})
            return self._outbound.open(method, url, headers, content)
        self._reach.check_host(url.raw_host.decode("ascii"))
        return _open_with(self._client, method, str(url), content, sent)


_ENDED_LOOP = (
    ": the host's client may keep connections of an event loop that has ended, as each `call_sync`"
    " starts one; limit it with max_keepalive_connections=0"
)


@asynccontextmanager
async def _open_with(
    client: Client, method: str, url: str, content: bytes | None, sent: Sent | None
) -> AsyncIterator[Any]:
    """Send a request with the host's client. What the client adds goes to the API's origin only."""
    request = client.build_request(method, url, headers={})
    if sent is None:
        request = type(request)(method, url, headers=HEADERS)
    else:
        headers = {**OWN_HEADERS, **_headers(*sent, request.headers)}
        # A client may sign here what it sees, so it sees the whole URL.
        request = client.build_request(method, url, headers=headers, content=content)
        own, query = request.url.query, _query(request.url.query.decode(), url.partition("?")[2])
        if query != own:
            request.url = request.url.copy_with(query=query)
    try:
        response = await client.send(
            request,
            stream=True,
            follow_redirects=False,
            **({"auth": None} if sent is None else {}),
        )
    except Exception as error:
        # The client may raise any exception. Its text may hold the URL, and a key in it.
        why = _ENDED_LOOP if isinstance(error, RuntimeError) else ""
        wrong = f"The API could not be reached ({type(error).__name__}{why})."
        raise RequestFailed(wrong) from error
    try:
        yield response
    except ToolError:
        raise
    except Exception as error:  # The client raises it while the body is read.
        kind = type(error).__name__
        raise RequestFailed(f"The answer of the API ended early ({kind}).") from error
    finally:
        await response.aclose()


def _origin(url: httpx2.URL) -> Origin:
    return (
        url.scheme,
        url.raw_host.decode("ascii").lower(),
        url.port or (443 if url.scheme == "https" else 80),
    )


def _with_query(url: str, pairs: list[str]) -> str:
    query = "&".join(filter(None, pairs))
    return f"{url}{'&' if '?' in url else '?'}{query}" if query else url


def _with_missing(url: httpx2.URL, pairs: Iterable[str]) -> httpx2.URL:
    """Add the pairs that the query of a URL lacks."""
    there = url.query.decode("ascii").split("&")
    return target(_with_query(str(url), [pair for pair in pairs if pair not in there]))


def _query(own: str, query: str) -> bytes:
    """Add a query to the client's own `params`. httpx would drop the query for them.

    The client's own ones stay, also if an argument has the same name: they may hold a key.
    """
    return "&".join(_beside(own.split("&"), query.split("&"))).encode()


def _beside(first: Iterable[str], others: Iterable[str]) -> list[str]:
    """Return the first pairs, and those of the others that have other names."""
    kept = list(filter(None, first))
    taken = _names(kept)
    return [*kept, *(pair for pair in filter(None, others) if taken.isdisjoint(_names([pair])))]


def _names(pairs: Iterable[str]) -> set[str]:
    """Return every name that a server may see in encoded `name=value` pairs."""
    return {form for pair in pairs for form in spellings(pair.partition("=")[0])}


def _headers(request: Prepared, credentials: Credentials, own: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of a request. `own` are those that the host's client sends by itself.

    They stay, also if an argument has the same name: they may hold a key, or say who is asking.
    """
    taken = {form for name in own for form in spellings(name)} - REPLACED
    given = {
        name: value for name, value in request.headers.items() if spellings(name).isdisjoint(taken)
    }
    cookies = [pair.strip() for pair in own.get("Cookie", "").split(";")]
    cookies = _beside(_beside(credentials.cookies, cookies), request.cookies)
    joined = {"Cookie": "; ".join(cookies)} if cookies else {}
    return {**given, **joined, **credentials.headers}


def _open_literal(host: str) -> bool:
    """Whether a host is `localhost`, or an address of this machine or of a private network.

    A document may name such a server, because whoever reads the document can see it there. Nobody
    can see where a name leads. The metadata address of a cloud is not one of these.
    """
    if host == "localhost":
        return True
    return any(Reach([network]).admits_address(host) for network in PRIVATE)


PRIVATE = ("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "::1/128")
