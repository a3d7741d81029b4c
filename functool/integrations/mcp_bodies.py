"""Refuse a request of an MCP client over HTTP that has too many values, before the SDK checks it.

The SDK checks a request on the event loop, also the parts that no tool reads. Four megabytes of
wrong icons of the client take ten seconds there and 0.7 GB of memory.
"""

from __future__ import annotations

import json
from collections import deque
from typing import Any

from mcp.server.lowlevel import Server

from functool.integrations.mcp_sizes import MAX_ITEMS
from functool.json_values import paused_gc_if_long

SMALL = 32_768
"""How many bytes a request may have that is not looked at: they hold few values."""

MAX_ARGUMENTS = 524_288
"""How many values the arguments of a tool may have: as many as fit into 1 MiB, its usual limit."""

TOO_MANY = (
    f"A request may have {MAX_ARGUMENTS:,} JSON values in the arguments of a tool, and"
    f" {MAX_ITEMS:,} beside them.\n"
)


def bound_requests(server: Server[Any]) -> None:
    """Let a server that has made its ASGI app refuse requests with too many values.

    The check is inside of the app's authentication, so that a stranger makes no work.
    """
    manager: Any = server.session_manager
    if not isinstance(manager.asgi_app, _Bounded):
        manager.asgi_app = _Bounded(manager.asgi_app, manager.max_request_body_size)


class _Bounded:
    """An ASGI app that answers a request with too many values with 413, and passes others on.

    Args:
        app: The app that gets the other requests. It refuses a body of more than `most` bytes.
        most: How many bytes are looked at.
    """

    def __init__(self, app: Any, most: int) -> None:
        self._app, self._most = app, most

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        messages, refused = await self._read(receive)
        if refused:
            headers = [(b"content-type", b"text/plain")]
            await send({"type": "http.response.start", "status": 413, "headers": headers})
            await send({"type": "http.response.body", "body": TOO_MANY.encode()})
            return

        async def again() -> Any:
            return messages.popleft() if messages else await receive()

        await self._app(scope, again, send)

    async def _read(self, receive: Any) -> tuple[deque[Any], bool]:
        """Return the messages of a request, and whether its body has too many values.

        The body is one message, as a client may send each of its bytes alone.
        """
        body = bytearray()
        message: dict[str, Any] = {"more_body": True}
        while message.get("more_body") and len(body) <= self._most:
            message = await receive()
            body += message.get("body", b"")
        if message["type"] != "http.request":  # The client has gone.
            return deque([message]), False
        whole = {**message, "body": bytes(body)}
        refused = SMALL < len(body) <= self._most and has_too_many(whole["body"])
        return deque([whole]), refused


def has_too_many(body: bytes) -> bool:
    """Whether the JSON of a request has too many values, in the arguments of a tool or outside."""
    try:
        message = paused_gc_if_long(json.loads, body)
    except (ValueError, RecursionError):  # The SDK refuses it, too.
        return False
    arguments = None
    if isinstance(message, dict) and message.get("method") == "tools/call":
        params = message.get("params")
        if isinstance(params, dict):
            arguments = params.pop("arguments", None)
    return _has_more(message, MAX_ITEMS) or _has_more(arguments, MAX_ARGUMENTS)


def _has_more(value: Any, left: int) -> bool:
    """Whether a JSON value has more than `left` values in it."""
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, (dict, list)):
            left -= len(found)
            if left < 0:
                return True
            waiting += found.values() if isinstance(found, dict) else found
    return False
