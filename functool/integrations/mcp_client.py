"""Call the tools of any MCP server as ordinary tools."""

from __future__ import annotations

import asyncio
import inspect
import logging
import shlex
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    MutableMapping,
    Sequence,
)
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import anyio
import mcp_types as types
from mcp.client.client import Client
from mcp.client.session import ClientRequestContext, IncomingMessage
from mcp.client.stdio import StdioServerParameters
from mcp.client.subscriptions import SubscriptionLost
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter

from functool import Context, SchemaTool, Tool, ToolError, ToolResult, Toolset, ToolSettings
from functool.integrations import mcp_untrusted as untrusted

Answer: TypeAlias = Mapping[str, Any] | None
Elicit: TypeAlias = Callable[[str, dict[str, Any]], Answer | Awaitable[Answer]]

MAX_PAGES = 100
MAX_ROUNDS = 10
CONNECT_SECONDS = 30.0
CLOSE_SECONDS = 10.0
ELSEWHERE = "This tool works only inside of `async with connect(...)`, and on its event loop."

logger = logging.getLogger("functool")
_call_answer: TypeAdapter[Any] = TypeAdapter(types.CallToolResult | types.InputRequiredResult)


@asynccontextmanager
async def connect(
    target: Any,
    *,
    prefix: str = "",
    pins: MutableMapping[str, str] | None = None,
    trusted: bool = False,
    elicit: Elicit | None = None,
    mode: str = "auto",
    **options: Any,
) -> AsyncIterator[Toolset]:
    """Connect to an MCP server and yield its tools.

    A server that is lost gives error results, and is connected to again by the next call. The tools
    belong to the event loop and to the block of this connection: elsewhere, in `Toolset.call_sync`
    too, a call is an error result.

    Args:
        target: A URL, a command (`"npx some-server"` or its words), the SDK's
            `StdioServerParameters` or server, or a function returning a new transport of the SDK's.
        prefix: Put before every name. Names that not every model accepts are made valid; a hash
            tells equal ones apart.
        pins: The SHA-256 of each definition that was accepted, by the server's own name. A tool
            seen for the first time is added; one that changed is refused until `pins` holds the
            hash that the refusal's `details["offered"]` gives.
        trusted: Believe the server's hints: title, read-only, destructive, idempotent.
        elicit: `elicit(message, schema)` answers what the server asks a person with an object, or
            None to decline; sync or async; one that raises cancels, and is logged. Without it the
            server is told that there is nobody to ask.
        mode: The SDK's: `"auto"`, `"legacy"`, or a protocol revision.
        options: For every tool: `timeout` (seconds), `input_guardrails`, `output_guardrails`,
            `on_error_func`.

    Raises:
        ConnectionError: The server cannot be reached.
        DefinitionError: An option's value is none that a tool takes.
        TypeError: There is no such option.
    """
    _refused(
        "options", ToolResult, **options
    )  # What is wrong with these is wrong with none of the server's definitions.
    link = _Link(lambda heard: _client(target, mode, elicit, heard), {} if pins is None else pins)
    definitions = await link.open()
    try:
        tools: dict[str, Tool] = {}
        for definition in definitions:
            name = untrusted.local_name(prefix + definition.name, tools)
            tools[name] = _tool(definition, name, link, trusted, options)
        yield Toolset(tools.values())
    finally:
        await link.end()


class _Link:
    """The connection to one server: kept by a task of its own, and made anew when it was lost."""

    def __init__(self, make: Callable[[Any], Client], pins: MutableMapping[str, str]) -> None:
        self._make = make
        self._pins = pins
        self._loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        self._lock = asyncio.Lock()
        self._stop = asyncio.Event()
        self._client: Client | None = None
        self._task: asyncio.Task[None] | None = None
        self._offered: dict[str, str] = {}
        self._doubtful = False

    async def open(self) -> list[types.Tool]:
        """Connect and return what the server offers; pin what is new.

        Raises:
            ConnectionError: The server cannot be reached.
        """
        self._stop, self._doubtful = asyncio.Event(), False
        ready: asyncio.Future[tuple[Client, list[types.Tool]]] = (
            asyncio.get_running_loop().create_future()
        )
        self._task = asyncio.create_task(self._keep(ready, self._stop))
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                self._client, definitions = await ready
        except BaseException as error:
            self._task.cancel()
            await self.close()
            if isinstance(error, Exception):
                raise ConnectionError(
                    f"the MCP server cannot be reached: {_reason(error)}"
                ) from error
            raise
        self._note(definitions)
        return definitions

    async def close(self) -> None:
        """Leave the server, also when it does not want to let go."""
        task, self._task, self._client = self._task, None, None
        if task is not None:
            self._stop.set()
            if (await asyncio.wait([task], timeout=CLOSE_SECONDS))[1]:
                task.cancel()
                await asyncio.wait([task], timeout=CLOSE_SECONDS)

    async def end(self) -> None:
        """Leave the server for good."""
        self._loop = None
        await self.close()

    def refusal(self, name: str) -> ToolResult | None:
        """Return why the tool that the server calls `name` may not be called, if it may not."""
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
        self, name: str, arguments: Mapping[str, Any], context: Context[Any], check: Tool | None
    ) -> ToolResult:
        """Call the tool that the server calls `name`; what goes wrong on the way is an error result."""

        async def progress(done: float, total: float | None, message: str | None) -> None:
            context.progress(message or "", done, total)

        if asyncio.get_running_loop() is not self._loop:
            return ToolResult.failed(ELSEWHERE, type="ConnectionError")
        try:
            client = await self._connected()
        except ConnectionError as error:
            return ToolResult.failed(f"{error}"[:1_000], type="ConnectionError")
        if refused := self.refusal(name):
            return refused
        try:
            return await untrusted.result(
                await _exchange(client, name, dict(arguments), progress), check
            )
        except MCPError as error:
            self._doubtful = True
            # Servers give this code to errors of their own, and clients to an answer that is too
            # large.
            if error.code == types.CONNECTION_CLOSED and not await self._answers(client):
                text = "The server was lost during the call: it may have run or not. The next call connects again."
                return ToolResult.failed(text, type="ConnectionError")
            return ToolResult.failed(
                untrusted.visible(error.message), type="MCPError", details={"code": error.code}
            )
        except Exception as error:
            self._doubtful = True
            logger.debug("an MCP server's answer is not valid", exc_info=True)
            return ToolResult.failed(
                f"The server's answer is not valid ({type(error).__name__}).", type="MCPError"
            )

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
                await self.open()
            assert self._client is not None
            return self._client

    async def _answers(self, client: Client) -> bool:
        """Note what the server offers now; False where it does not say."""
        self._doubtful = (
            False  # Before the question: a change that is heard meanwhile counts again.
        )
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                self._note(await _list(client))
        except BaseException as error:
            self._doubtful = True
            if isinstance(error, Exception):
                return False
            raise
        return True

    def _note(self, definitions: Iterable[types.Tool]) -> None:
        self._offered = {definition.name: untrusted.pin(definition) for definition in definitions}
        for name, offered in self._offered.items():
            self._pins.setdefault(name, offered)

    async def _keep(
        self, ready: asyncio.Future[tuple[Client, list[types.Tool]]], stop: asyncio.Event
    ) -> None:
        """Hold a client open until told to stop: one task has to enter and leave it."""
        try:
            async with self._make(self._heard) as client:
                ready.set_result((client, await _list(client)))
                async with anyio.create_task_group() as group:
                    group.start_soon(self._watch, client)
                    await stop.wait()
                    group.cancel_scope.cancel()
        except Exception as error:
            self._doubtful = True
            if ready.done():
                logger.debug("an MCP connection ended", exc_info=True)
            else:
                ready.set_exception(error)

    async def _heard(self, message: IncomingMessage) -> None:
        self._doubtful |= isinstance(message, (types.ToolListChangedNotification, Exception))

    async def _watch(self, client: Client) -> None:
        """Note changes of the tool list, which since 2026-07-28 a client has to ask for."""
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return
        try:
            async with client.listen(tools_list_changed=True) as changes:
                self._doubtful = (
                    True  # A change between the first listing and this was told to nobody.
                )
                async for _ in changes:
                    self._doubtful = True
        except (MCPError, SubscriptionLost):
            self._doubtful = True


def _client(target: Any, mode: str, elicit: Elicit | None, heard: Any) -> Client:
    if isinstance(target, str) and not target.startswith(("http://", "https://")):
        target = shlex.split(target)
    if (
        isinstance(target, Sequence)
        and not isinstance(target, str)
        and target
        and all(isinstance(word, str) for word in target)
    ):
        target = StdioServerParameters(command=target[0], args=list(target[1:]))
    elif callable(target) and not isinstance(target, (Server, MCPServer)):
        target = target()
    if not isinstance(target, (str, StdioServerParameters, Server, MCPServer)) and not hasattr(
        target, "__aenter__"
    ):
        raise TypeError(
            f"{target!r} is no URL, command, StdioServerParameters, server, or function that makes a transport"
        )
    answer = None if elicit is None else _elicitation(elicit)
    # Nothing is cached: a pinned definition is compared with what the server says now.
    return Client(target, mode=mode, elicitation_callback=answer, message_handler=heard, cache=None)


def _elicitation(elicit: Elicit) -> Any:
    async def answer(
        context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        if not isinstance(params, types.ElicitRequestFormParams):
            return types.ElicitResult(action="decline")
        try:
            given = elicit(untrusted.visible(params.message), dict(params.requested_schema))
            said = await given if inspect.isawaitable(given) else given
            if said is None:
                return types.ElicitResult(action="decline")
            return types.ElicitResult(action="accept", content=dict(said))
        except Exception:
            logger.exception(
                "the elicit function failed, so the server is told that nobody answered"
            )
            return types.ElicitResult(action="cancel")

    return answer


async def _list(client: Client) -> list[types.Tool]:
    # Of a name that stands twice only the first is there: the pin of one would vouch for the other.
    tools: dict[str, types.Tool] = {}
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            tools.setdefault(tool.name, tool)
        cursor = page.next_cursor
        if cursor is None:
            return list(tools.values())
    raise ToolError(f"the server's list of tools does not end after {MAX_PAGES} pages")


async def _exchange(
    client: Client, name: str, arguments: dict[str, Any], progress: Any
) -> types.CallToolResult:
    """Call a tool, answering what the server asks in between.

    The SDK's `call_tool` would run the output schema's patterns, which are the server's, on
    Python's backtracking `re`.
    """
    session = client.session
    params = types.CallToolRequestParams(name=name, arguments=arguments)
    for _ in range(MAX_ROUNDS):
        request = types.CallToolRequest(params=params)
        answer = await session.send_request(request, _call_answer, progress_callback=progress)
        if isinstance(answer, types.CallToolResult):
            return answer
        given: dict[str, Any] = {}
        for key, question in (answer.input_requests or {}).items():
            asked = ClientRequestContext(session=session, request_id=key)
            given[key] = await session.dispatch_input_request(asked, question)
            if isinstance(given[key], types.ErrorData):
                raise MCPError.from_error_data(given[key])
        params = params.model_copy(
            update={"input_responses": given or None, "request_state": answer.request_state}
        )
    raise MCPError(
        types.INTERNAL_ERROR, f"The server still asks for more after {MAX_ROUNDS} rounds."
    )


def _tool(
    definition: types.Tool, name: str, link: _Link, trusted: bool, options: Mapping[str, Any]
) -> Tool:
    if link.refusal(definition.name):
        again = ToolResult.failed("The change was accepted; connect again to use the tool.")
        return _refused(name, lambda: link.refusal(definition.name) or again)

    async def handler(arguments: Mapping[str, Any], context: Context[Any]) -> ToolResult:
        return await link.call(definition.name, arguments, context, check)

    described = untrusted.visible(definition.description or "")
    settings = untrusted.hints(definition) if trusted else ToolSettings()
    try:
        parameters = untrusted.cleaned(definition.input_schema)
        if untrusted.has_hidden(parameters):
            return _refused(
                name,
                lambda: ToolResult.failed(
                    "The tool's schema holds invisible characters; it is refused."
                ),
            )
        check = untrusted.answer_check(definition.output_schema)
        return SchemaTool(name, described, parameters, handler, settings=settings, **options)
    except Exception as error:
        # Whatever a stranger's schema breaks, the other tools work.
        reason = f"The tool's definition cannot be used: {error}"
        return _refused(name, lambda: ToolResult.failed(reason))


def _refused(name: str, answer: Callable[[], ToolResult], **options: Any) -> Tool:
    async def handler(arguments: Mapping[str, Any]) -> ToolResult:
        return answer()

    return SchemaTool(
        name, "This tool is refused; calling it says why.", {"type": "object"}, handler, **options
    )


def _reason(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
