"""Decide who may use the playground: a token becomes a cookie, for one host and one origin."""

from __future__ import annotations

from collections.abc import Sequence
from secrets import token_urlsafe
from typing import Any
from urllib.parse import parse_qs

from functool.integrations.hosts import EVERYWHERE, is_loopback, same_secret

COOKIE = "functool_play_{port}"
"""The name has the port, because browsers send a cookie to every port of a host."""

REFUSED = b"Forbidden. Open the address that `functool play` printed; each one works once.\n"
LEAST_TOKEN = 16


class Door:
    """An ASGI app that passes on only requests of this page, with the cookie for the token.

    A browser exchanges the token for the cookie. A token that was made here works once. A token
    that the operator chose works for several browsers.

    Args:
        app: The app that gets the requests.
        host: Where the server listens.
        port: The port.
        token: The operator's own token, at least 16 characters. A host that others can reach needs
            one.
        allowed_hosts: Host headers to accept instead of this host's own.

    Raises:
        ValueError: Others can reach the host and there is no token, or the token is too short.
    """

    def __init__(
        self,
        app: Any,
        *,
        host: str = "127.0.0.1",
        port: int = 8000,
        token: str | None = None,
        allowed_hosts: Sequence[str] = (),
    ) -> None:
        if token is None and not is_loopback(host):
            raise ValueError(
                f"{host} can be reached by others, who could call every tool: choose a token "
                "(--token, or FUNCTOOL_PLAY_TOKEN), or listen on 127.0.0.1"
            )
        if token is not None and (len(token) < LEAST_TOKEN or not token.isascii()):
            raise ValueError(f"a token has at least {LEAST_TOKEN} ASCII characters")
        self.token: str = token or token_urlsafe(32)
        self._app = app
        self._cookie = COOKIE.format(port=port)
        self._once = token is None
        self._used = False
        self._secret = token_urlsafe(32)
        names = allowed_hosts or ("127.0.0.1", "localhost", "[::1]", host)
        # A server on all addresses does not know its names. Then only the cookie keeps others out.
        self._is_open = host in EVERYWHERE and not allowed_hosts
        self._hosts = {name if _has_port(name) else f"{name}:{port}" for name in names}
        if port == 80:  # Browsers leave this one out.
            self._hosts |= {*names}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer 403, or pass the request on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        headers = _headers(scope)
        asked = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if not self._is_from_here(scope, headers):
            await _refuse(send)
        elif self._has_cookie(headers):
            await self._app(scope, receive, send)
        elif scope["path"] == "/" and scope["method"] == "GET" and self._takes(asked):
            await self._app(scope, receive, self._with_cookie(send))
        else:
            await _refuse(send)

    def _is_from_here(self, scope: Any, headers: dict[str, list[str]]) -> bool:
        """Whether a request names this host, and comes from this page or from the address bar."""
        hosts, origins = headers.get("host", []), headers.get("origin", [])
        if len(hosts) != 1 or not (self._is_open or hosts[0] in self._hosts):
            return False
        if origins:
            # A proxy in front may add TLS. The page's own address begins with https then.
            return origins in ([f"http://{hosts[0]}"], [f"https://{hosts[0]}"])
        if scope["method"] not in ("GET", "HEAD"):
            return False  # Every browser sends the origin with these.
        # From another page, only a link that a person follows may lead here.
        site = headers.get("sec-fetch-site", ["none"])
        is_visit = headers.get("sec-fetch-mode") == ["navigate"] and scope["path"] == "/"
        return is_visit or site in (["none"], ["same-origin"])

    def _takes(self, token: str) -> bool:
        if (self._once and self._used) or not same_secret(token.encode(), self.token.encode()):
            return False
        self._used = True
        return True

    def _has_cookie(self, headers: dict[str, list[str]]) -> bool:
        pairs = [pair.strip() for text in headers.get("cookie", []) for pair in text.split(";")]
        given = [pair.partition("=")[2] for pair in pairs if pair.startswith(f"{self._cookie}=")]
        return len(given) == 1 and same_secret(given[0].encode(), self._secret.encode())

    def _with_cookie(self, send: Any) -> Any:
        cookie = f"{self._cookie}={self._secret}; Path=/; HttpOnly; SameSite=Strict"

        async def sending(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = [*message["headers"], (b"set-cookie", cookie.encode())]
                message = {**message, "headers": headers}
            await send(message)

        return sending


def _has_port(name: str) -> bool:
    return name.rpartition(":")[2].isdigit() and not name.endswith("]")


def _headers(scope: Any) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return found


async def _refuse(send: Any) -> None:
    headers = [(b"content-type", b"text/plain"), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": REFUSED})
