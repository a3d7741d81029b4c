"""The playground's server: the page, its files, and the requests of the page."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from pathlib import Path
from secrets import token_urlsafe
from typing import Any

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
    from starlette.routing import Route
except ModuleNotFoundError as _error:
    raise ImportError(
        "the playground needs starlette and uvicorn: pip install 'functool[play]'"
    ) from _error

from functool import FunctoolError
from functool.executors import in_thread
from functool.integrations.hosts import EVERYWHERE
from functool.play.desk import Desk
from functool.play.doors import Door
from functool.play.shown import DIALECTS, cut, definition

HERE = Path(__file__).parent
MOST_BYTES = 16_000_000
"""How many bytes a request of the page may have. It may hold a file as base64."""

FILES = {path.name: path for path in [*HERE.glob("page/*.*"), *HERE.glob("vendor/*.js")]}
HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
POLICY = (
    "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'self' 'unsafe-inline'; "
    "img-src data:; media-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
"""Only scripts with the page's nonce run. The form library needs inline styles."""


def app(desk: Desk) -> Starlette:
    """Return the ASGI app of a desk. Put it behind a `Door`, which decides who may use it."""

    async def page(request: Request) -> Response:
        nonce = token_urlsafe(16)
        text = (HERE / "page" / "index.html").read_text("utf-8").replace("NONCE", nonce)
        policy = {"Content-Security-Policy": POLICY.format(nonce=nonce)}
        return Response(text, media_type="text/html", headers={**HEADERS, **policy})

    async def file(request: Request) -> Response:
        path = FILES.get(request.path_params["name"])
        if path is None or path.suffix == ".html":
            return Response(status_code=404, headers=HEADERS)
        return FileResponse(path, headers=HEADERS)

    async def call(request: Request) -> Response:
        sent = await _sent(request)
        lines = desk.call(desk.tool(sent.get("name")).name, str(sent.get("text", "")))
        stream = _until_gone(request, lines)
        return StreamingResponse(stream, media_type="application/x-ndjson", headers=HEADERS)

    async def live(request: Request) -> Response:
        async def events() -> AsyncGenerator[str, None]:
            async for message in desk.live():
                yield f"data: {message}\n\n"

        stream = _until_gone(request, events())
        return StreamingResponse(stream, media_type="text/event-stream", headers=HEADERS)

    def defined(sent: Mapping[str, Any]) -> Any:
        tool, dialect = desk.tool(sent.get("name")), str(sent.get("dialect", ""))
        return definition(tool, dialect, sent.get("strict") is True)

    return Starlette(
        routes=[
            Route("/", page),
            Route("/files/{name}", file),
            Route("/api/call", call, methods=["POST"]),
            Route("/api/live", live),
            _answering("/api/tools", lambda sent: {**desk.listed(), "dialects": DIALECTS}),
            _answering("/api/tool", lambda sent: desk.tool_with_form(sent.get("name"))),
            _answering("/api/definition", defined),
            _answering("/api/answer", desk.answer),
            _answering("/api/replayed", desk.replayed),
            _answering("/api/settle", desk.settle),
            _answering("/api/fresh", lambda sent: desk.begin_again()),
        ],
        exception_handlers={ValueError: _error_answer, FunctoolError: _error_answer},
    )


async def serve(
    desk: Desk,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    ready: Callable[[str], None],
) -> None:
    """Serve the page until this is cancelled or the process is stopped.

    Args:
        desk: The playground to serve.
        host: Where to listen. A host that others can reach needs a token.
        port: The port. 0 chooses a free one.
        token: The operator's own token. Without it, one is made that works once.
        ready: Called with the one address that opens the page.

    Raises:
        OSError: The port is in use.
        ValueError: Others could reach the page without a token.
    """
    Door(None, host=host, token=token)  # Refuse bad arguments before the port is opened.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise OSError(f"port {port} of {host} cannot be used: {reason}") from error
    with listening:
        port = listening.getsockname()[1]
        door = Door(app(desk), host=host, port=port, token=token)
        # No access log, because it would hold the token.
        config = uvicorn.Config(
            door,
            access_log=False,
            log_level="warning",
            lifespan="off",
            server_header=False,
            ws="none",
        )
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        shown = "127.0.0.1" if host in EVERYWHERE else f"[{host}]" if ":" in host else host
        ready(f"http://{shown}:{port}/?token={door.token}")
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            # An open page listens without end. Do not wait for it, and do not log that as an error.
            logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL + 1)
            server.should_exit = server.force_exit = True
            # The calls of the page have to end before their context is closed.
            requests = [*server.server_state.tasks]
            for request in requests:
                request.cancel()
            await asyncio.gather(*requests, return_exceptions=True)
            await serving
            raise


def _answering(path: str, answer: Callable[[Mapping[str, Any]], Any]) -> Route:
    """Return a route that answers JSON with JSON. It calls `answer` in a thread."""

    async def respond(request: Request) -> Response:
        sent = await _sent(request)
        # With escapes, because a name in a schema may have a lone surrogate, which UTF-8 has not.
        text = json.dumps(await in_thread(answer, sent), allow_nan=False)
        return Response(text, media_type="application/json", headers=HEADERS)

    return Route(path, respond, methods=["POST"])


async def _sent(request: Request) -> Mapping[str, Any]:
    """Return the JSON object that the page sent.

    Raises:
        ValueError: The request is not a JSON object, or is too large.
    """
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BYTES:
            raise ValueError(f"a request has at most {MOST_BYTES:,} bytes")
    try:
        sent = json.loads(bytes(body))
    except (ValueError, RecursionError):
        raise ValueError("a request is one JSON object") from None
    if not isinstance(sent, dict):
        raise ValueError("a request is one JSON object")
    return sent


async def _until_gone(request: Request, lines: AsyncGenerator[str, None]) -> AsyncIterator[str]:
    """Yield the lines until the page has gone. Then close their generator."""
    there = asyncio.ensure_future(_gone(request))
    following: asyncio.Future[str] | None = None
    try:
        while True:
            following = asyncio.ensure_future(lines.__anext__())
            await asyncio.wait({following, there}, return_when=asyncio.FIRST_COMPLETED)
            if not following.done():
                return
            try:
                line = following.result()
            except StopAsyncIteration:
                return
            yield line
    finally:
        there.cancel()
        if following is not None and not following.done():
            following.cancel()
            await asyncio.wait({following})
        await lines.aclose()


async def _gone(request: Request) -> None:
    while not await request.is_disconnected():
        await asyncio.sleep(0.2)


async def _error_answer(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": cut(str(error), 2_000)}, status_code=400, headers=HEADERS)
