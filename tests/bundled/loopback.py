"""A web server on this machine that answers as it is told, and remembers what it was asked."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Seen:
    """A request that came in."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    server_name: str | None = None


@dataclass
class Loopback:
    """The server: `routes` maps a path without its query to `(status, headers, body)` or to a function of the handler."""

    routes: dict[str, Any] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    connections: int = 0
    port: int = 0
    host: str = "127.0.0.1"
    scheme: str = "http"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"

    def reply(
        self,
        path: str,
        body: bytes | str = b"",
        kind: str = "text/plain",
        status: int = 200,
        **headers: str,
    ) -> None:
        """Answer a path with a body."""
        told = {
            "Content-Type": kind,
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        self.routes[path] = (status, told, body.encode() if isinstance(body, str) else body)

    def redirect(self, path: str, to: str, status: int = 302, **headers: str) -> None:
        """Answer a path with a redirect."""
        self.routes[path] = (status, {"Location": to, **headers}, b"")

    def call(self, path: str, func: Callable[[BaseHTTPRequestHandler], None]) -> None:
        """Answer a path with whatever a function writes."""
        self.routes[path] = func


@contextlib.contextmanager
def serve(
    host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> Iterator[Loopback]:
    """Run a server as long as the block runs."""
    loopback = Loopback(host=host, scheme="https" if tls else "http")
    names: dict[int, str | None] = {}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            loopback.connections += 1
            super().setup()

        def answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length)
            loopback.seen.append(
                Seen(
                    self.command,
                    self.path,
                    dict(self.headers),
                    body,
                    names.get(id(self.connection)),
                )
            )
            route = loopback.routes.get(
                self.path.partition("?")[0], (404, {"Content-Type": "text/plain"}, b"nothing here")
            )
            if callable(route):
                self.close_connection = True
                with contextlib.suppress(OSError):
                    route(self)
                return
            status, headers, content = route
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = answer  # noqa: N815

        def log_message(self, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

        def get_request(self) -> Any:
            connection, address = super().get_request()
            if tls is not None:
                connection = tls.wrap_socket(
                    connection, server_side=True, do_handshake_on_connect=False
                )
            return connection, address

        def handle_error(self, *args: Any) -> None:
            pass

    if tls is not None:
        tls.sni_callback = lambda connection, name, context: names.__setitem__(id(connection), name)
    server = Server((host, port), Handler)
    loopback.port = server.server_address[1]
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    )
    thread.start()
    try:
        yield loopback
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
