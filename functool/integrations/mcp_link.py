"""Keep a connection to one MCP server, connect again after a loss, and watch its tool list."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, TypeAlias

import anyio
import mcp_types as types
from mcp.client.client import Client
from mcp.client.session import ClientRequestContext, IncomingMessage
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter

from functool import Context, ToolError, ToolResult
from functool.integrations import mcp_untrusted as untrusted
from functool.integrations.mcp_transport import MALFORMED, Endpoint, Rate, named
from functool.integrations.visible import visible

Listed: TypeAlias = Callable[[list[types.Tool]], Awaitable[None]]
Listing: TypeAlias = dict[str, tuple[types.Tool, str]]
"""By name, the definition of each tool that a server lists, and its hash."""

MAX_PAGES = 100
"""How many pages a list of tools may have."""

MAX_TOOLS = untrusted.MAX_TOOLS
MAX_LISTED = 16 * 1024 * 1024
"""Characters of all definitions of one list. Each page has at most 16 MiB."""

MAX_ROUNDS = 10
"""How often a server may ask for more input during a call, and how many questions at once."""

CLOSE_SECONDS = 10.0
"""How long a connection may take to close, before its task is cancelled and after it."""

LISTEN_SECONDS, MOST_LISTEN_SECONDS = 10.0, 600.0
"""How long to wait before a server is asked again for a stream of changes, which a proxy may cut.
Each time that it gives none, the wait doubles: the request may begin a login of a person."""

MAX_ERROR = 1_000
"""How many characters are shown of a server's error, or of a message of its progress."""

MAX_REPORTS = 100
"""How many reports of progress one call passes on in ten seconds. Listeners take time for each."""

ELSEWHERE = "This tool works only inside of `async with connect(...)`, and on its event loop."
COMMAND = (
    "A URL begins with http:// or https://, and any other text is the command that starts a server,"
    " such as 'python server.py'."
)
LOST = "The server was lost during the call: it may have run or not. The next call connects again."

logger: logging.Logger = logging.getLogger("functool")
_call_answer: TypeAdapter[Any] = TypeAdapter(types.CallToolResult | types.InputRequiredResult)


class Link:
    """The connection to one server. A task of its own keeps it, and it is made again after a loss.

    Args:
        endpoint: How the server is reached.
        options: The options of the SDK's client.
        pins: The hash of each accepted definition, by the server's own name.
        changed: Called and awaited with the definitions after they were listed again.
        patience: How long connecting and listing may take, in seconds.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        options: Mapping[str, Any],
        pins: MutableMapping[str, str],
        changed: Listed,
        patience: float,
    ) -> None:
        self._endpoint, self._options, self._pins, self._changed = endpoint, options, pins, changed
        self._patience = patience
        self._loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        self._lock = asyncio.Lock()
        self._stop = asyncio.Event()
        self._announced = asyncio.Event()
        self._client: Client | None = None
        self._task: asyncio.Task[None] | None = None
        self._offered: dict[str, str] = {}
        self._doubtful = False
        endpoint.streaming = self._doubt  # What changed before such a stream was not announced.

    async def open(self) -> list[types.Tool]:
        """Connect, return the definitions of the server, and pin new ones.

        Raises:
            ConnectionError: The server cannot be reached.
        """
        self._stop, self._announced, self._doubtful = asyncio.Event(), asyncio.Event(), False
        ready: asyncio.Future[tuple[Client, Listing]] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._keep(ready, self._stop))
        try:
            async with asyncio.timeout(self._patience):
                self._client, listing = await ready
        except BaseException as error:  # Also if the caller is cancelled.
            self._task.cancel()
            await self.close()
            if isinstance(error, Exception):
                reason = _reason(error, self._patience)
                raise ConnectionError(f"the MCP server cannot be reached: {reason}") from error
            raise
        return self._noted(listing)

    async def close(self) -> None:
        """Close the connection, also if the server does not react."""
        task, self._task, self._client = self._task, None, None
        if task is not None:
            self._stop.set()
            if (await asyncio.wait([task], timeout=CLOSE_SECONDS))[1]:
                task.cancel()
                await asyncio.wait([task], timeout=CLOSE_SECONDS)

    async def end(self) -> None:
        """Close the connection, and do not connect again."""
        self._loop = None
        await self.close()

    def refusal(self, name: str) -> ToolResult | None:
        """Return why the server's tool `name` may not be called, or None if it may."""
        offered, pinned = self._offered.get(name), self._pins.get(name)
        if offered is not None and offered == pinned:
            return None
        change = (
            "is no longer offered by its server"
            if offered is None
            else "was changed by its server since it was accepted"
        )
        text = f"The tool {change}; it is refused until a person accepts that."
        details = {"tool": name, "pinned": pinned, "offered": offered}
        return ToolResult.failed(text, type="DefinitionChanged", details=details)

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        context: Context[Any],
        check: untrusted.Check | None,
    ) -> ToolResult:
        """Call the server's tool `name`. Every failure is an error result."""
        reports = Rate()

        async def progress(done: float, total: float | None, message: str | None) -> None:
            if not reports.is_over(MAX_REPORTS):
                context.progress(_beginning(message or ""), done, total)

        if asyncio.get_running_loop() is not self._loop:
            return ToolResult.failed(ELSEWHERE, type="ConnectionError")
        try:
            client = await self._connected()
        except ConnectionError as error:
            return ToolResult.failed(f"{error}"[:MAX_ERROR], type="ConnectionError")
        if refused := self.refusal(name):
            return refused
        try:
            answer = await _exchange(client, name, dict(arguments), progress)
            return await untrusted.result(answer, check)
        except MCPError as error:
            self._doubtful = True
            return await self._failure(client, error)
        except Exception as error:
            self._doubtful = True
            logger.debug("an MCP server's answer is not valid", exc_info=True)
            text = f"The server's answer is not valid ({type(error).__name__})."
            return ToolResult.failed(text, type="MCPError")

    async def _failure(self, client: Client, error: MCPError) -> ToolResult:
        """Return the result of a call that ended with an error of the protocol."""
        # For an invalid answer, the SDK's message would show a part of it.
        reason = MALFORMED if error.code == types.PARSE_ERROR else _beginning(error.message)
        reason = reason or "The server gave no reason."
        # Servers also use this code for their own errors, and the SDK for too large an answer.
        if error.code == types.CONNECTION_CLOSED and not await self._answers(client):
            return ToolResult.failed(f"{LOST} Reason: {reason}", type="ConnectionError")
        return ToolResult.failed(reason, type="MCPError", details={"code": error.code})

    async def _connected(self) -> Client:
        async with self._lock:
            if (
                self._client is not None
                and self._doubtful
                and not await self._answers(self._client)
            ):
                await self.close()
            if self._loop is None:
                raise ConnectionError(ELSEWHERE)
            if self._client is None:
                await self._changed(await self.open())
            assert self._client is not None
            return self._client

    async def _answers(self, client: Client) -> bool:
        """List the tools again, and return whether the server answered."""
        # Reset this first, so that a change that is announced meanwhile counts.
        self._doubtful = False
        try:
            async with asyncio.timeout(self._patience):
                listing = await _list(client)
        except BaseException as error:  # A cancelled question has no answer.
            self._doubtful = True
            if isinstance(error, Exception):
                return False
            raise
        await self._changed(self._noted(listing))
        return True

    def _noted(self, listing: Listing) -> list[types.Tool]:
        """Note what the server offers now, and return the definitions."""
        self._offered = {name: offered for name, (_, offered) in listing.items()}
        for name, offered in self._offered.items():
            if len(self._pins) < MAX_TOOLS:  # A server may list other names each time.
                self._pins.setdefault(name, offered)
        return [definition for definition, _ in listing.values()]

    async def _keep(
        self, ready: asyncio.Future[tuple[Client, Listing]], stop: asyncio.Event
    ) -> None:
        """Keep a client open until `stop` is set. The same task has to enter and leave it."""
        try:
            # No cache: a pinned definition is compared with the server's current one.
            made = Client(
                self._endpoint.open(), message_handler=self._heard, cache=None, **self._options
            )
            async with made as client:
                self._endpoint.version = client.protocol_version
                ready.set_result((client, await _list(client)))
                async with anyio.create_task_group() as group:
                    group.start_soon(self._watch, client)
                    group.start_soon(self._list_again)
                    await stop.wait()
                    group.cancel_scope.cancel()
        except Exception as error:
            self._doubt()
            if ready.done():
                logger.debug("an MCP connection ended", exc_info=True)
            else:
                ready.set_exception(error)

    async def _heard(self, message: IncomingMessage) -> None:
        if isinstance(message, (types.ToolListChangedNotification, Exception)):
            self._doubt()

    def _doubt(self) -> None:
        self._doubtful = True
        self._announced.set()

    async def _list_again(self) -> None:
        """List the tools after each announcement, so that a new one appears without a call."""
        while True:
            await self._announced.wait()
            self._announced.clear()
            async with self._lock:
                if self._client is not None and self._doubtful:
                    await self._answers(self._client)

    async def _watch(self, client: Client) -> None:
        """Note changes of the tool list. Since 2026-07-28 a client has to subscribe to them."""
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return
        seconds = LISTEN_SECONDS
        while True:
            try:
                async with client.listen(tools_list_changed=True) as changes:
                    seconds = LISTEN_SECONDS
                    self._doubt()  # Nobody heard of a change between the last listing and this.
                    async for _ in changes:
                        self._doubt()
                    if not changes.honored.tools_list_changed:
                        return
            except MCPError as error:
                self._doubtful = True
                if error.code in (types.METHOD_NOT_FOUND, types.INVALID_PARAMS):
                    return
            except SubscriptionLost:
                self._doubtful = True
            await asyncio.sleep(seconds)
            seconds = min(2 * seconds, MOST_LISTEN_SECONDS)


async def _list(client: Client) -> Listing:
    # Keep only the first tool of a name. Otherwise the pin of one would be valid for the other.
    tools: Listing = {}
    cursor: str | None = None
    seen: set[str | None] = set()
    left = MAX_LISTED
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        left -= sum(untrusted.size_of(tool) for tool in page.tools)
        if left < 0 or len(tools) + len(page.tools) > MAX_TOOLS:
            raise ToolError(f"the server lists more than {MAX_TOOLS:,} tools, or 16 MiB of them")
        for tool in page.tools:
            if tool.name not in tools:
                tools[tool.name] = tool, untrusted.pin(tool)
                await asyncio.sleep(0)  # All the hashes take seconds.
        seen.add(cursor)
        cursor = page.next_cursor
        # Some servers end with an empty cursor, with which they begin again.
        if cursor is None or cursor in seen:
            return tools
    raise ToolError(f"the server's list of tools does not end after {MAX_PAGES} pages")


async def _exchange(
    client: Client, name: str, arguments: dict[str, Any], progress: Any
) -> types.CallToolResult:
    """Call a tool, and answer the questions of the server in between.

    The SDK's `call_tool` would check the patterns of the server's output schema with Python's `re`,
    which backtracks.
    """
    session = client.session
    params = types.CallToolRequestParams(name=name, arguments=arguments)
    for _ in range(MAX_ROUNDS):
        request = types.CallToolRequest(params=params)
        answer = await session.send_request(request, _call_answer, progress_callback=progress)
        if isinstance(answer, types.CallToolResult):
            return answer
        given: dict[str, Any] = {}
        if len(answer.input_requests or {}) > MAX_ROUNDS:
            text = f"The server asks more than {MAX_ROUNDS} questions at once."
            raise MCPError(types.INTERNAL_ERROR, text)
        for key, question in (answer.input_requests or {}).items():
            asked = ClientRequestContext(session=session, request_id=key)
            given[key] = await session.dispatch_input_request(asked, question)
            if isinstance(given[key], types.ErrorData):
                raise MCPError.from_error_data(given[key])
        params = params.model_copy(
            update={"input_responses": given or None, "request_state": answer.request_state}
        )
    text = f"The server still asks for more after {MAX_ROUNDS} rounds."
    raise MCPError(types.INTERNAL_ERROR, text)


def _reason(error: BaseException, patience: float) -> str:
    """Return why a connection failed. It may take `patience` seconds."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    text = _beginning(str(error))
    if isinstance(error, (FileNotFoundError, PermissionError)):
        text = f"{text}. {COMMAND}"
    elif isinstance(error, TimeoutError) and not text:
        text = f"there was no answer within {patience:g} seconds"
    if isinstance(error, MCPError) and text:
        return text
    return named(error, text)


def _beginning(text: str) -> str:
    """Return the beginning of an error's text, without what a person cannot see."""
    return visible(text[: 10 * MAX_ERROR])[:MAX_ERROR]
