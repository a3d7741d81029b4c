"""Run an MCP server on standard input and output, or over HTTP, with a token if it needs one."""

from __future__ import annotations

import asyncio
import errno
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from functools import partial
from typing import Any, Literal

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from sse_starlette.sse import AppStatus

from functool.executors import in_thread
from functool.integrations._signals import handled
from functool.integrations.hosts import EVERYWHERE, is_loopback, same_secret
from functool.integrations.mcp_bodies import bound_requests
from functool.integrations.mcp_contexts import one_client
from functool.integrations.mcp_handlers import Tools
from functool.integrations.mcp_server import ToolServer

LOCAL = ("127.0.0.1", "localhost", "[::1]")
LISTENING: dict[str, Any] = {"access_log": False, "timeout_graceful_shutdown": 5}
"""Options of uvicorn. A client may keep a request open for ever, so a server that is stopped waits
only these seconds for its clients."""

STOPPING = (signal.SIGINT, signal.SIGTERM)

_before: list[tuple[bool, dict[int, Any]]] = []
"""For each server that runs: whether streams ended at once before it, and who handled signals.
What the first one found is restored."""

NO_TOKEN = b"This server wants a bearer token: send the header 'Authorization: Bearer TOKEN'.\n"


def serve(
    tools: Tools | ToolServer,
    transport: Literal["stdio", "http"] = "stdio",
    host: str = "127.0.0.1",
    port: int = 8000,
    *,
    token: str | None = None,
    allowed_hosts: Sequence[str] = (),
    **options: Any,
) -> None:
    """Serve tools until the client leaves (stdio) or the process is stopped (HTTP, at `/mcp`).

    Over HTTP, only requests whose `Host` is this `host` or a local one are answered. So no web page
    reaches the tools by DNS rebinding.

    On standard input, Ctrl-C ends the process at once: no `finally` of the program runs.

    Args:
        tools: A tool, an iterable of tools, a Toolset, or a `ToolServer`.
        transport: `"stdio"` or `"http"`.
        host: Where HTTP listens. One that others can reach needs a `token`.
        port: The port of HTTP.
        token: Every request over HTTP has to send it, as `Authorization: Bearer TOKEN`.
        allowed_hosts: The `Host` headers to accept instead, such as `"tools.example.com"` or
            `"10.0.0.7:*"`. Without them, a server with a token that listens on all addresses
            accepts every name.
        options: The options of `ToolServer`.

    Raises:
        DefinitionError: A tool cannot be served, or two have one name.
        OSError: The port is in use, or the address is not this machine's.
        ValueError: There is no such transport, or others could reach the server without a token.
    """
    if transport != "http":
        # A thread waits for a line of standard input, and Python would wait for the thread. So let
        # Ctrl-C end the process at once.
        with handled(signal.SIGINT, signal.SIG_DFL):
            anyio.run(partial(serve_async, tools, transport, token=token, **options))
        return
    import uvicorn

    served = tools if isinstance(tools, ToolServer) else ToolServer(tools, **options)
    app = http_app(served, host=host, token=token, allowed_hosts=allowed_hosts)
    _check_port(host, port)
    with _one_more_server():
        uvicorn.run(app, host=host, port=port, **LISTENING)


async def serve_async(
    tools: Tools | ToolServer,
    transport: Literal["stdio", "http"] = "stdio",
    host: str = "127.0.0.1",
    port: int = 8000,
    *,
    token: str | None = None,
    allowed_hosts: Sequence[str] = (),
    **options: Any,
) -> None:
    """Serve tools like `serve`, but on this event loop, for instance inside of a `connect` block.

    Raises:
        DefinitionError: A tool cannot be served, or two have one name.
        OSError: The port is in use, or the address is not this machine's.
        ValueError: There is no such transport, or others could reach the server without a token.
    """
    if transport not in ("stdio", "http"):
        raise ValueError(f"no transport {transport!r}: it is 'stdio' or 'http'")
    if transport == "stdio" and token is not None:
        raise ValueError("a token is for the transport 'http': stdio has one client, its parent")
    # In a thread, because to describe thousands of tools takes seconds.
    make = partial(ToolServer, **options)
    served = tools if isinstance(tools, ToolServer) else await in_thread(make, tools)
    if transport == "stdio":
        with one_client():
            await _serve_stdio(served)
        return
    import uvicorn

    app = http_app(served, host=host, token=token, allowed_hosts=allowed_hosts)
    _check_port(host, port)
    listener = uvicorn.Server(uvicorn.Config(app, host=host, port=port, **LISTENING))
    with _one_more_server():
        serving = asyncio.create_task(listener.serve())
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            # If uvicorn were cancelled, its sockets would stay open.
            listener.should_exit = True
            await serving
            raise


@contextmanager
def _one_more_server() -> Iterator[None]:
    """Let the streams of a stopped server go on for as long as `LISTENING` says.

    sse_starlette would end them at once, and with them the calls that they answer. After the last
    server of the process, its streams end and its signals are handled as before the first one.
    """
    # Older versions of sse_starlette have no such switch, and end streams all the same.
    ends = getattr(AppStatus, "enable_automatic_graceful_drain", True)
    _before.append((ends, {each: signal.getsignal(each) for each in STOPPING}))
    AppStatus.enable_automatic_graceful_drain = False
    try:
        yield
    finally:
        ends, handlers = _before.pop()
        if not _before:
            AppStatus.enable_automatic_graceful_drain = ends
            # uvicorn restores what each server found. If the first one ends first, the handler of
            # that one stays, which ignores signals and ends every later stream of the process.
            if threading.current_thread() is threading.main_thread():
                for number, handler in handlers.items():
                    if handler is not None:  # None is one that Python did not set.
                        signal.signal(number, handler)


def http_app(
    served: Server[Any],
    *,
    host: str = "127.0.0.1",
    token: str | None = None,
    allowed_hosts: Sequence[str] = (),
) -> Any:
    """Return the ASGI app of `serve`.

    Raises:
        ValueError: Others could reach the server without a token, or the token is not valid.
    """
    if token is None and not is_loopback(host):
        raise ValueError(
            f"{host} can be reached by others, who could call every tool: give a token "
            "(serve(..., token=...), on the command line --token-env NAME), or listen on 127.0.0.1"
        )
    named = (f"[{host}]" if ":" in host else host, *LOCAL)
    names = list(allowed_hosts) or [name for each in named for name in (each, f"{each}:*")]
    origins = [f"{scheme}://{name}" for name in names for scheme in ("http", "https")]
    # A server on all addresses does not know its names. Then only the token keeps web pages out.
    is_open = token is not None and not allowed_hosts and host in EVERYWHERE
    guard = TransportSecuritySettings(
        enable_dns_rebinding_protection=not is_open, allowed_hosts=names, allowed_origins=origins
    )
    app = served.streamable_http_app(transport_security=guard)
    bound_requests(served)
    if token is not None:
        is_text = isinstance(token, str) and token.isascii() and token.isprintable()
        if not is_text or not token or " " in token:
            raise ValueError("a token is printable ASCII without spaces, and not empty")
        app.add_middleware(_Bearer, token=token)
    return app


class _Bearer:
    """An ASGI app that passes on only requests with the token."""

    def __init__(self, app: Any, token: str) -> None:
        self._app, self._token = app, token.encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan" or self._is_let_in(scope):
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        headers = [(b"content-type", b"text/plain"), (b"www-authenticate", b"Bearer")]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": NO_TOKEN})

    def _is_let_in(self, scope: Mapping[str, Any]) -> bool:
        given = [value for name, value in scope["headers"] if name.lower() == b"authorization"]
        scheme, _, token = (given[0] if len(given) == 1 else b"").partition(b" ")
        return same_secret(token.strip(), self._token) and scheme.lower() == b"bearer"


async def _serve_stdio(served: Server[Any]) -> None:
    try:
        async with stdio_server() as (read_stream, write_stream):
            # The SDK writes the protocol to a descriptor of its own. Send what a body prints to
            # standard error, where it appears at once.
            with redirect_stdout(sys.stderr):
                await served.run(read_stream, write_stream, served.create_initialization_options())
    except* BrokenPipeError:
        pass  # The client left without waiting for its answers.


def _check_port(host: str, port: int) -> None:
    """Raise an OSError if nobody can listen there. uvicorn would log that and end the program."""
    if not 0 <= port <= 65_535:  # The system would take the rest of a division.
        raise OSError(f"cannot listen on {host}, port {port}: ports end at 65535")
    try:
        found = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        # A name may have addresses of IPv6 only.
        family, *_, address = min(found, key=lambda each: each[0] != socket.AF_INET)
        socket.create_server(address, family=family).close()
    except UnicodeError as error:  # A part of the name is too long.
        raise OSError(f"cannot listen on {host}, port {port}: {error}") from error
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise OSError(f"port {port} of {host} is in use: choose another one") from error
        raise OSError(f"cannot listen on {host}, port {port}: {error.strerror}") from error
