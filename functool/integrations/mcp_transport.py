"""Connect to MCP servers: turn commands and URLs into the SDK's transports, with limits."""

from __future__ import annotations

import json
import re
import shlex
from asyncio import sleep
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from math import inf
from sys import float_info
from time import monotonic
from typing import Any

import httpx2
import mcp_types as types
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from functool.integrations import mcp_untrusted as untrusted
from functool.integrations.mcp_lines import KEPT, LINES, MAX_ANSWER_BYTES
from functool.integrations.mcp_sizes import MAX_VALUES, Values, has_long_list

HTTP_SECONDS = 30.0
"""How long connecting and writing may take over HTTP."""

STREAM_SECONDS = 300.0
"""How long a stream over HTTP may be silent."""

MAX_QUESTIONS = 100
"""How many requests of a server are taken within `QUESTION_SECONDS`; no more are answered."""

MAX_STREAMS = 100
"""How many streams a server is asked for within `QUESTION_SECONDS`. It can end each at once, and
let the client ask for the next one without a pause."""

PIECE = 8_192
"""How many bytes of a body are read before the event loop does other work. Each may be a line, and
the SDK takes ten microseconds for an empty one."""

QUESTION_SECONDS = 10.0
STREAM = "text/event-stream"
MALFORMED = (
    "The server's answer is not valid, or it was cut off, or it is larger than 16 MiB,"
    f" or it has more than {MAX_VALUES:,} JSON values, or it is compressed."
)
UNAUTHORIZED = (
    "The server answered 401, so it wants credentials, or others than it got: "
    "connect(url, headers={'Authorization': 'Bearer ...'}) or connect(url, auth=...) sends them, "
    "on the command line --header Authorization=NAME_OF_A_VARIABLE."
)
GATEWAY = "The server answered {}, as a proxy in front of it does."
MAYBE = " The call may have run or not."
ADVICE = {
    401: UNAUTHORIZED,
    403: "The server answered 403: it does not accept these credentials for this.",
    **{status: GATEWAY.format(status) for status in (502, 504)},
}
"""What to say for the HTTP status of an answer."""

_ID = r'"id"\s*:\s*(?:(\d{1,18})|"([^"\\]{1,100})")'
_VERSION = r'"jsonrpc"\s*:\s*"2\.0"'
# The id is at the end of an answer, or before its result, which may have names `id` too.
_LAST = re.compile(rf"{_ID}\s*(?:,\s*{_VERSION}\s*)?\}}\s*$")
_ANY = re.compile(_ID)


class Rate:
    """Count what a server causes, anew in every `QUESTION_SECONDS`."""

    def __init__(self) -> None:
        self._count, self._since = 0, -inf

    def is_over(self, most: int) -> bool:
        """Count one more, and return whether these are more than `most`."""
        if (now := monotonic()) - self._since > QUESTION_SECONDS:
            self._count, self._since = 0, now
        self._count += 1
        return self._count > most


class Endpoint:
    """How to reach one server. `version` is the revision that both speak, once connected.

    `streaming` is called for each stream on which the server may announce a change.

    Raises:
        TypeError: The target is not a URL, so it takes no headers or auth.
        ValueError: The value of a header cannot be sent.
    """

    def __init__(
        self, target: Any, headers: Mapping[str, str] | None = None, auth: Any = None
    ) -> None:
        self.version: str = ""
        self.streaming: Callable[[], None] = lambda: None
        self._streams = Rate()
        self._headers, self._auth = dict(headers or {}), auth
        self._target = target
        if (headers or auth is not None) and not _is_url(target):
            raise TypeError("headers and auth go with a URL: a command gets its environment")
        rule = "it is printable ASCII, without spaces or a line end around it"
        for name, value in self._headers.items():
            is_text = isinstance(value, str) and value.isascii() and value.isprintable()
            if not is_text or value != value.strip():
                # The HTTP client would show the value, which is often a secret.
                raise ValueError(f"the value of the header {name!r} cannot be sent: {rule}")

    def open(self) -> Any:
        """Return a new transport or server for the SDK's client.

        Raises:
            TypeError: The target is not one that `connect` takes.
        """
        self.version = ""
        target = self._target
        if _is_url(target):
            return self._checked(self._over_http(target))
        command = _command(target)
        if command is not None:
            return self._checked(stdio_client(command))
        is_made = hasattr(type(target), "__aenter__")  # A class of transports makes one.
        made = target() if callable(target) and not is_made else target
        if isinstance(made, (Server, MCPServer)):
            return made
        if not hasattr(type(made), "__aenter__"):
            raise TypeError(_no_target(made))
        return self._checked(made)

    @asynccontextmanager
    async def _checked(self, transport: Any) -> AsyncIterator[Any]:
        async with transport as (read, write):
            yield _Answers(read, self), write

    @asynccontextmanager
    async def _over_http(self, url: str) -> AsyncIterator[Any]:
        # The limit counts compressed bytes, and an answer could be a thousand times as large.
        headers = {**self._headers, "Accept-Encoding": "identity"}
        client = _Client(
            self,
            headers=headers,
            auth=self._auth,
            timeout=httpx2.Timeout(HTTP_SECONDS, read=STREAM_SECONDS),
            event_hooks={"request": [self._count], "response": [self._limit]},
        )
        async with client:
            async with streamable_http_client(
                url, http_client=client, max_sse_event_size=MAX_ANSWER_BYTES
            ) as streams:
                yield streams

    async def _count(self, request: httpx2.Request) -> None:
        if request.method == "GET" and self._streams.is_over(MAX_STREAMS):
            raise httpx2.StreamError("the server ended too many streams")

    async def _limit(self, response: httpx2.Response) -> None:
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        # Of a request that asks for no events, such as one of `auth`, the whole answer is read.
        sent, got = response.request.headers.get("accept", ""), response.headers.get("content-type")
        is_stream = STREAM in sent and (got or "").strip().lower().startswith(STREAM)
        limit: float = 0 if encoding not in ("", "identity") else MAX_ANSWER_BYTES
        if limit and is_stream:  # The SDK limits each event of a stream.
            limit = inf
        if is_stream and response.request.method == "GET":
            self.streaming()
        # The protocol knows no other charset. In one of the server's, commas look like letters to
        # whoever counts them.
        response.encoding = "utf-8"
        response.stream = _Limited(response.stream, limit, is_stream)


class _Client(httpx2.AsyncClient):
    """An HTTP client that makes an error answer of what ends one request.

    For an exception the SDK would end the whole connection, and all other calls with it. While
    connecting, there are none.
    """

    def __init__(self, endpoint: Endpoint, **options: Any) -> None:
        super().__init__(**options)
        self._endpoint = endpoint

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        try:
            response = await super().send(request, **options)
        except Exception as error:
            if not self._endpoint.version:
                raise
            text = f"The request failed, and the call may have run or not ({named(error)})."
            return _answer(request, 502, types.CONNECTION_CLOSED, text)
        if (status := response.status_code) not in ADVICE:
            return response
        await response.aclose()
        # A server looks at credentials before it runs anything. While connecting there is no call.
        was_sent = self._endpoint.version and status > 500
        text = ADVICE[status] + (MAYBE if was_sent else "")
        return _answer(request, status, types.INTERNAL_ERROR, text)


def named(error: BaseException, text: str | None = None) -> str:
    """Return the type of an error, and its text or another one.

    The text of a request that cannot be sent may hold the value of a header, often a secret.
    """
    text = str(error) if text is None else text
    if not text or isinstance(error, httpx2.LocalProtocolError):
        return type(error).__name__
    return f"{type(error).__name__}: {text}"


def _answer(request: httpx2.Request, status: int, code: int, text: str) -> httpx2.Response:
    """Return the answer of a server that refuses a request with an error of the protocol."""
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": text}}
    return httpx2.Response(status, json=error, request=request)


class _Limited(httpx2.AsyncByteStream):
    """A body that raises if it has more bytes or values than its limit, or is cut off.

    A stream of events that is cut off just ends.
    """

    def __init__(self, stream: Any, limit: float, is_stream: bool) -> None:
        self._stream, self._limit, self._is_stream = stream, limit, is_stream
        self._values = Values(events=is_stream)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        seen = 0
        # After any other error, the SDK would ask for the rest of a stream again.
        kind = httpx2.SSEError if self._is_stream else httpx2.StreamError
        async for chunk in self._whole():
            seen += len(chunk)
            for at in range(0, len(chunk), PIECE):
                piece = chunk[at : at + PIECE]
                if seen > self._limit or not self._values.fit(piece.decode("latin-1")):
                    raise kind(MALFORMED)
                yield piece
                await sleep(0)
        if not self._values.ends():
            raise kind(MALFORMED)

    async def _whole(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._stream:
                yield chunk
        except httpx2.TransportError as error:
            # The SDK would end the connection for it, and after two streams ask for no more.
            if not self._is_stream:
                raise httpx2.StreamError("the answer was cut off") from error

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Answers:
    """The messages of a server. A malformed answer becomes the failure of its call."""

    def __init__(self, stream: Any, endpoint: Endpoint) -> None:
        self._stream, self._endpoint = stream, endpoint
        self._asked = Rate()

    @property
    def last_context(self) -> Any:
        """The context of the sender, if the transport keeps it."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Any:
        return await self._next(self._stream.receive)

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> _Answers:
        return self

    async def __anext__(self) -> Any:
        return await self._next(self._stream.__anext__)

    async def _next(self, read: Callable[[], Awaitable[Any]]) -> Any:
        while self._is_too_much(item := await read()):
            pass
        return self._checked_message(item)

    async def __aenter__(self) -> _Answers:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._stream.__aexit__(*error)

    def _is_too_much(self, item: Any) -> bool:
        """Whether an item is a request too many, or is too long, or its numbers are too large.

        Each request starts a task, and is answered in turn.
        """
        if not isinstance(item, SessionMessage):
            return False
        message = item.message
        if not isinstance(message, (types.JSONRPCRequest, types.JSONRPCNotification)):
            return False
        if has_long_list(message.params):
            return True
        if isinstance(message, types.JSONRPCNotification):
            return _is_beyond_floats(message.params or {})
        return self._asked.is_over(MAX_QUESTIONS)

    def _checked_message(self, item: Any) -> Any:
        if isinstance(item, ValidationError):
            return _failure_of_call(item) or item
        if not isinstance(item, SessionMessage):
            return item
        message = item.message
        if isinstance(message, types.JSONRPCResponse):
            message.result = untrusted.listing(message.result, self._endpoint.version)
            if has_long_list(message.result):
                return _failed_call(message.id)
        return item


def _is_beyond_floats(params: Mapping[str, Any]) -> bool:
    """Whether progress has an integer that is larger than any float.

    The SDK would fail to convert it, and would end the connection.
    """
    numbers = (params.get("progress"), params.get("total"))
    return any(isinstance(each, int) and abs(each) > float_info.max for each in numbers)


def _failure_of_call(error: ValidationError) -> SessionMessage | None:
    """Return a malformed answer as the failure of its call, or None if the call is not known."""
    inputs = [each["input"] for each in error.errors(include_url=False)]
    # The first one is a part of the answer if that part is wrong.
    id = _call_id(next((each for each in inputs if isinstance(each, dict)), inputs[0]))
    return None if id is None else _failed_call(id)


def _failed_call(id: str | int) -> SessionMessage:
    failure = types.ErrorData(code=types.PARSE_ERROR, message=MALFORMED)
    return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=id, error=failure))


def _call_id(answer: Any) -> str | int | None:
    """Return the id of the call that a malformed answer belongs to, or None if it is not known."""
    if isinstance(answer, str):
        try:
            # Cut long integers, because Python refuses to read them.
            answer = json.loads(answer, parse_int=lambda digits: int(digits[:18]))
        except (ValueError, RecursionError):
            if '"jsonrpc"' not in answer:
                return None
            found = _LAST.search(answer[-KEPT:]) or _ANY.search(answer)
            return None if found is None else int(found[1]) if found[1] else found[2]
    if not isinstance(answer, dict) or "jsonrpc" not in answer or "method" in answer:
        return None
    id = answer.get("id")
    return id if isinstance(id, (str, int)) and not isinstance(id, bool) else None


def _command(target: Any) -> StdioServerParameters | None:
    """Return the command that a target is, or None. Its output is decoded with the limits.

    If it names an encoding, it keeps that one.

    Raises:
        TypeError: The target is a list of words, but they are no command.
    """
    if isinstance(target, str):
        target = shlex.split(target)
    if isinstance(target, Sequence):
        if not target or not all(isinstance(word, str) for word in target):
            raise TypeError(_no_target(target))
        target = StdioServerParameters(command=target[0], args=list(target[1:]))
    if not isinstance(target, StdioServerParameters):
        return None
    is_plain = not {"encoding", "encoding_error_handler"} & target.model_fields_set
    return target.model_copy(update={"encoding": LINES}) if is_plain else target


def _is_url(target: Any) -> bool:
    return isinstance(target, str) and target.startswith(("http://", "https://"))


def _no_target(target: Any) -> str:
    kinds = "URL, command, StdioServerParameters, server, or function that makes a transport"
    return f"{target!r} is no {kinds}"
