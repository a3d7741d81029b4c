"""Serve tools over the Model Context Protocol, through the official SDK's low-level server."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from importlib.metadata import version
from math import inf, isfinite, nextafter
from time import monotonic
from typing import Any, Literal, TypeAlias

import anyio
import mcp_types as types
from jsonschema.validators import Draft202012Validator
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ServerEvent,
    ToolsListChanged,
)
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from referencing import Registry

from functool import (
    ApprovalRequest,
    Context,
    Decision,
    DefinitionError,
    Tool,
    ToolCall,
    ToolError,
    ToolEvent,
    ToolResult,
    Toolset,
    Tripwire,
)
from functool.dialects import mcp as dialect

Request: TypeAlias = ServerRequestContext[Any, Any]
Tools: TypeAlias = Tool | Iterable[Tool] | Toolset

LAST_OLDER = "2025-11-25"
APPROVAL = "approval"
STATE_PREFIX = "functool-approval:"
STATE_SECONDS = 600.0
MAX_QUESTION = 2_000
BROKEN_PROMISE = "The tool's answer does not fit its own output schema."


class _Served:
    """A tool as clients see it.

    Raises:
        DefinitionError: The protocol has no such name.
    """

    def __init__(self, tool: Tool) -> None:
        if not dialect.NAME.fullmatch(tool.name):
            rule = f"MCP names are {dialect.NAME.pattern}: WrapperTool(tool, name=...) gives it another"
            raise DefinitionError(f"tool {tool.name!r} cannot be served: {rule}")
        self.tool, self._alone = tool, Toolset([tool])
        output = None if tool.output_guardrails else tool.schema.output
        self.validator = (
            None if output is None else Draft202012Validator(output, registry=Registry())
        )
        older, latest = dialect.definition(tool, LAST_OLDER), dialect.definition(tool)
        self._older_wraps = output is not None and output.get("type") != "object"
        # A null that stands alone is lost on the wire: what may be null travels wrapped in every
        # revision.
        self._latest_wraps = (
            self._older_wraps and self.validator is not None and self.validator.is_valid(None)
        )
        if self._latest_wraps:
            latest["outputSchema"] = older["outputSchema"]
        if output is None:
            # What an output guardrail may replace is not promised.
            older.pop("outputSchema", None)
            latest.pop("outputSchema", None)
        self._older, self._latest = (
            types.Tool.model_validate(older),
            types.Tool.model_validate(latest),
        )

    def is_enabled(self, context: Context[Any]) -> bool:
        """Whether the tool is switched on in this context."""
        return bool(self._alone.enabled(context))

    def definition(self, latest: bool) -> types.Tool:
        """Return what a client of the latest revision, or of an older one, is told."""
        return self._latest if latest else self._older

    def structured(self, value: Any, latest: bool) -> Any:
        """Return the structured content of an answer.

        Raises:
            ToolError: The value is none that the definition promises.
        """
        try:
            plain = dialect.plain(value)
            if self.validator is not None and not self.validator.is_valid(plain):
                raise ToolError(BROKEN_PROMISE)
        except (ValueError, RecursionError) as error:
            raise ToolError(BROKEN_PROMISE) from error
        return {"result": plain} if (self._latest_wraps if latest else self._older_wraps) else plain


class ToolServer(Server[Any]):
    """An MCP server of a toolset: the SDK's own server, to be embedded wherever that fits.

    `context(request)` makes a new Context for each call from the SDK's request context. `keys` are
    secrets of 32 bytes or more that seal what a client carries between the rounds of an approval:
    processes that share a load share them, and the first one seals. Without them a key of this
    process is made.

    A body may ask for more itself: it returns the SDK's `InputRequiredResult`, which leaves as it
    is.
    """

    def __init__(
        self,
        tools: Tools,
        *,
        name: str = "functool",
        instructions: str | None = None,
        context: Callable[[Request], Context[Any]] | None = None,
        keys: Sequence[bytes] | None = None,
    ) -> None:
        self._bus = InMemorySubscriptionBus()
        self._make_context = context or (lambda request: Context())
        self._used_approvals: dict[str, float] = {}
        self._set(tools)
        super().__init__(
            name,
            version=version("functool"),
            instructions=instructions,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_subscriptions_listen=ListenHandler(self._bus),
            get_tool_input_schema=self._input_schema,
        )
        self.add_notification_handler(
            "notifications/initialized", types.NotificationParams, self._announce_changes
        )
        seal = RequestStateSecurity(keys=keys or [os.urandom(32)], ttl=STATE_SECONDS)
        self.middleware.append(RequestStateBoundary(seal, default_audience=name))

    @property
    def toolset(self) -> Toolset:
        """The tools that are served now."""
        return self._toolset

    async def replace(self, tools: Tools) -> None:
        """Serve these tools from now on, and tell every client that the list changed.

        Raises:
            DefinitionError: A tool cannot be served, or two have one name; the old ones stay.
        """
        self._set(tools)
        await self._bus.publish(ToolsListChanged())

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """Return the SDK's options, announcing that the tool list may change."""
        options = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(options, experimental_capabilities, extensions)

    def _set(self, tools: Tools) -> None:
        toolset = (
            tools
            if isinstance(tools, Toolset)
            else Toolset([tools] if isinstance(tools, Tool) else tools)
        )
        served = {name: _Served(tool) for name, tool in toolset.items()}
        self._toolset, self._served = toolset, served

    def _input_schema(self, name: str) -> Mapping[str, Any] | None:
        served = self._served.get(name)
        return None if served is None else served.definition(latest=True).input_schema

    async def _list_tools(
        self, request: Request, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        served = [
            self._served[tool.name] for tool in self._toolset.enabled(self._make_context(request))
        ]
        return types.ListToolsResult(
            tools=[each.definition(_is_latest(request)) for each in served]
        )

    async def _call_tool(self, request: Request, params: types.CallToolRequestParams) -> Any:
        served, context, asked = (
            self._served.get(params.name),
            self._make_context(request),
            self._asked(params),
        )
        call_id = asked.call_id if asked else str(request.request_id)
        call = ToolCall(name=params.name, arguments=params.arguments or {}, id=call_id)
        elicits, latest = _elicits(request), _is_latest(request)
        if elicits and not latest and context.approver is None:
            context = context.view(approver=_ask(request))
        if asked:
            self._decide(context, asked, params.input_responses or {})
        unsubscribe = context.subscribe(_progress_to(request))
        try:
            # The orchestrator of the calls is at the client; what may not run is for the toolset to
            # say.
            runs = served is not None and served.is_enabled(context)
            result = await (served.tool.invoke if served and runs else self._toolset.call)(
                call, context
            )
        except Tripwire as stop:
            # To stop a run is the host's to do: an error of the protocol reaches it and never the
            # model.
            raise MCPError(
                types.INTERNAL_ERROR, ToolResult.of(str(stop)).text, {"type": type(stop).__name__}
            ) from stop
        except SystemExit:
            # Whoever calls one tool may not end the others: a body that parses a command line exits
            # on a wrong word.
            result = ToolResult.failed("The tool tried to end the program.", type="SystemExit")
        finally:
            unsubscribe()
        if isinstance(result.value, types.InputRequiredResult):
            return result.value
        question = result.metadata.get("approval")
        if elicits and latest and result.is_error and isinstance(question, ApprovalRequest):
            return _input_required(question)
        return _answer(result, served, latest)

    def _asked(self, params: types.CallToolRequestParams) -> ApprovalRequest | None:
        state = params.request_state or ""
        return (
            ApprovalRequest.from_json(state.removeprefix(STATE_PREFIX))
            if state.startswith(STATE_PREFIX)
            else None
        )

    def _decide(
        self, context: Context[Any], asked: ApprovalRequest, answers: Mapping[str, Any]
    ) -> None:
        answer = answers.get(APPROVAL)
        if not isinstance(answer, types.ElicitResult):
            return
        now = monotonic()
        self._used_approvals = {
            id: until for id, until in self._used_approvals.items() if until > now
        }
        if asked.id in self._used_approvals:
            raise MCPError(
                types.INVALID_PARAMS,
                "Invalid or expired requestState",
                {"reason": "invalid_request_state"},
            )
        self._used_approvals[asked.id] = now + STATE_SECONDS
        if _approves(answer):
            context.approve(asked)
        else:
            context.deny(asked, _refusal(answer))

    async def _announce_changes(self, request: Request, params: types.NotificationParams) -> None:
        """Tell a client of the older revisions about changes, until its connection ends and cancels this."""
        changed = asyncio.Event()

        def note(event: ServerEvent) -> None:
            changed.set()

        unsubscribe = self._bus.subscribe(note)
        try:
            while True:
                await changed.wait()
                changed.clear()
                await request.session.send_notification(types.ToolListChangedNotification())
        finally:
            unsubscribe()


def server(tools: Tools, **options: Any) -> ToolServer:
    """Return an MCP server of these tools, or of one, to be embedded: `ToolServer` says what `options` there are.

    Raises:
        DefinitionError: A tool cannot be served, or two have one name.
    """
    return ToolServer(tools, **options)


def serve(
    tools: Tools,
    transport: Literal["stdio", "http"] = "stdio",
    host: str = "127.0.0.1",
    port: int = 8000,
    *,
    allowed_hosts: Sequence[str] = (),
    **options: Any,
) -> None:
    """Serve these tools, or one, until the client leaves (stdio) or the process is stopped (HTTP, at `/mcp`).

    Only requests that name this `host`, or a local one, are answered, so that no web page reaches the tools by DNS
    rebinding; `allowed_hosts` replaces these with the `Host` headers to answer, such as `"tools.example.com"` or
    `"10.0.0.7:*"`.

    Raises:
        DefinitionError: A tool cannot be served, or two have one name.
        ValueError: There is no such transport.
    """
    served = server(tools, **options)
    if transport == "stdio":
        anyio.run(_serve_stdio, served)
    elif transport == "http":
        _serve_http(served, host, port, allowed_hosts)
    else:
        raise ValueError(f"no transport {transport!r}: it is 'stdio' or 'http'")


async def _serve_stdio(served: ToolServer) -> None:
    try:
        async with stdio_server() as (read_stream, write_stream):
            # The SDK keeps the wire on a descriptor of its own; what a body prints is shown at once
            # instead of at exit.
            with redirect_stdout(sys.stderr):
                await served.run(read_stream, write_stream, served.create_initialization_options())
    except* BrokenPipeError:
        pass  # A client that does not wait for its answers has left as well.


def _serve_http(served: ToolServer, host: str, port: int, allowed_hosts: Sequence[str]) -> None:
    import uvicorn

    hosts = (f"[{host}]" if ":" in host else host, "127.0.0.1", "localhost", "[::1]")
    names = allowed_hosts or [name for each in hosts for name in (each, f"{each}:*")]
    origins = [f"{scheme}://{name}" for name in names for scheme in ("http", "https")]
    guard = TransportSecuritySettings(allowed_hosts=list(names), allowed_origins=origins)
    uvicorn.run(
        served.streamable_http_app(transport_security=guard), host=host, port=port, access_log=False
    )


def _is_latest(request: Request) -> bool:
    return request.protocol_version in MODERN_PROTOCOL_VERSIONS


def _elicits(request: Request) -> bool:
    capabilities = request.session.client_capabilities
    asks = None if capabilities is None else capabilities.elicitation
    return asks is not None and (asks.form is not None or asks.url is None)


def _answer(result: ToolResult, served: _Served | None, latest: bool) -> dict[str, Any]:
    structured = {}
    if served is not None and served.validator is not None and not result.is_error:
        try:
            structured = {"structuredContent": served.structured(result.value, latest)}
        except ToolError as error:
            # Content that breaks its schema makes clients raise: the model gets to read why there
            # is none.
            result = ToolResult.failed(str(error), output=result.output)
    said = dialect.result(replace(result, value=None))
    return {
        "content": said["content"],
        "isError": said["isError"],
        "resultType": "complete",
        **structured,
    }


def _progress_to(request: Request) -> Callable[[ToolEvent], Awaitable[None]]:
    last = nextafter(
        0.0, -inf
    )  # Below the 0 that a first report may say, and one more is exactly 1.

    async def forward(event: ToolEvent) -> None:
        nonlocal last
        if event.kind != "tool:progress":
            return
        done, total = event.data.get("done"), event.data.get("total")
        # The protocol has it rise with each report, whatever a body says.
        last = (
            last + 1
            if done is None or not isfinite(done)
            else max(float(done), nextafter(last, inf))
        )
        text = ToolResult.of(event.data.get("message") or event.data.get("value")).text
        await request.session.report_progress(
            last, total if total is not None and isfinite(total) else None, text or None
        )

    return forward


def _ask(request: Request) -> Callable[[ApprovalRequest], Awaitable[Decision]]:
    """Return an approver that asks the client's person while the call waits (until 2025-11-25)."""

    async def approver(asked: ApprovalRequest) -> Decision:
        form = _question(asked)
        answer = await request.session.elicit_form(
            form.message, form.requested_schema, related_request_id=request.request_id
        )
        return Decision(approved=_approves(answer), reason=_refusal(answer))

    return approver


def _input_required(asked: ApprovalRequest) -> types.InputRequiredResult:
    """Return the answer that has the client ask its person and call again (since 2026-07-28)."""
    question: types.InputRequest = types.ElicitRequest(params=_question(asked))
    return types.InputRequiredResult(
        input_requests={APPROVAL: question}, request_state=STATE_PREFIX + asked.to_json()
    )


def _question(asked: ApprovalRequest) -> types.ElicitRequestFormParams:
    arguments = json.dumps(asked.arguments, indent=2)
    shown = (
        arguments
        if len(arguments) <= MAX_QUESTION
        else f"{arguments[:MAX_QUESTION]}… ({len(arguments)} characters)"
    )
    message = f"Allow the tool {asked.tool} to run with these arguments?\n{shown}"
    # A form without fields is shown by some clients as nothing at all.
    field = {"type": "boolean", "title": "Approve", "description": "Let the tool run this once."}
    form = {"type": "object", "properties": {"approve": field}, "required": ["approve"]}
    return types.ElicitRequestFormParams(message=message, requested_schema=form)


def _approves(answer: types.ElicitResult) -> bool:
    return answer.action == "accept" and (answer.content or {}).get("approve", True) is True


def _refusal(answer: types.ElicitResult) -> str:
    said = "no" if answer.action == "accept" else answer.action
    return f"The person asked did not approve ({said})."
