"""Add tools to an MCP server that somebody else made."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError
from mcp_types import methods

from functool import Tripwire
from functool.integrations.mcp_approval import Request
from functool.integrations.mcp_contexts import MakeContext
from functool.integrations.mcp_handlers import STATE_SECONDS, Handlers, Tools


def mount(
    tools: Tools,
    host: Any,
    *,
    context: MakeContext | None = None,
    keys: Sequence[bytes] | None = None,
) -> Any:
    """Put tools on the SDK's `Server` or `MCPServer`, or on a FastMCP server, and return it.

    Raises:
        DefinitionError: A tool cannot be served, or two have one name.
        TypeError: It is not such a server, or it has keys of its own.
    """
    handlers = Handlers(tools, context)
    if isinstance(host, Server):
        _onto_server(host, handlers, keys)
        return host
    fastmcp = sys.modules.get("fastmcp")
    is_fastmcp = fastmcp is not None and isinstance(host, fastmcp.FastMCP)
    if not is_fastmcp and not isinstance(host, MCPServer):
        kinds = "an SDK Server or MCPServer, or a FastMCP server"
        raise TypeError(f"onto must be {kinds}, not {type(host).__name__}")
    if keys:
        raise TypeError("this server seals state itself: pass it its own request_state_security")
    if is_fastmcp:
        _onto_fastmcp(host, handlers)
    else:
        host.middleware.append(_middleware(handlers))
    return host


def _onto_server(host: Server[Any], handlers: Handlers, keys: Sequence[bytes] | None) -> None:
    """Wrap the handlers of the SDK's low-level server."""
    seals = any(isinstance(each, RequestStateBoundary) for each in host.middleware)
    if seals and keys:
        raise TypeError("this server seals state itself, with keys of its own")
    if not seals:
        # The server trusts the state that a client sends back, so the state has to be sealed.
        security = RequestStateSecurity(keys=keys or [os.urandom(32)], ttl=STATE_SECONDS)
        host.middleware.append(RequestStateBoundary(security, default_audience=host.name))
    listed = host.get_request_handler("tools/list")
    called = host.get_request_handler("tools/call")
    schema_of = host.get_tool_input_schema

    async def list_tools(request: Request, params: types.PaginatedRequestParams) -> Any:
        theirs = {} if listed is None else _dumped(await listed.handler(request, params))
        return await _both(handlers, request, params.cursor, theirs)

    async def call_tool(request: Request, params: types.CallToolRequestParams) -> Any:
        if called is None or handlers.find(params.name) is not None:
            return await handlers.call_tool(request, params)
        return await called.handler(request, params)

    def input_schema(name: str) -> Mapping[str, Any] | None:
        return handlers.input_schema(name) or (schema_of(name) if schema_of else None)

    host.add_request_handler("tools/list", types.PaginatedRequestParams, list_tools)
    host.add_request_handler("tools/call", types.CallToolRequestParams, call_tool)
    if schema_of is not None or listed is None:
        host.get_tool_input_schema = input_schema


def _middleware(handlers: Handlers) -> Any:
    """Return a middleware that answers for these tools, for servers whose handlers are private."""

    async def middleware(request: Request, call_next: CallNext) -> HandlerResult:
        params = request.params or {}
        if request.method == "tools/list":
            theirs = _dumped(await call_next(request))
            return await _both(handlers, request, params.get("cursor"), theirs)
        if request.method != "tools/call" or handlers.find(str(params.get("name"))) is None:
            return await call_next(request)
        methods.validate_client_request("tools/call", request.protocol_version, params)
        call = types.CallToolRequestParams.model_validate(params, by_name=False)
        answer = _dumped(await handlers.call_tool(request, call))
        return methods.serialize_server_result("tools/call", request.protocol_version, answer)

    return middleware


async def _both(
    handlers: Handlers, request: Request, cursor: str | None, theirs: dict[str, Any]
) -> dict[str, Any]:
    """Return the host's page of the tool list. The first page begins with these tools."""
    page = [tool for tool in theirs.get("tools", ()) if handlers.find(tool["name"]) is None]
    if cursor is not None:
        return {**theirs, "tools": page}
    own = _dumped(await handlers.list_tools(request, None))
    version = request.protocol_version
    own = methods.serialize_server_result("tools/list", version, own)
    return {**own, **theirs, "tools": [*own["tools"], *page]}


def _dumped(result: Any) -> dict[str, Any]:
    if isinstance(result, Mapping):
        return dict(result)
    return dict(result.model_dump(by_alias=True, mode="json", exclude_none=True))


def _onto_fastmcp(host: Any, handlers: Handlers) -> None:
    """Add each tool as a FastMCP tool, so that FastMCP's middleware and mounts see it."""
    mounted = _mounted(handlers)
    host.add_middleware(_around(handlers, mounted))
    for name in handlers.toolset:
        served = handlers.find(name)
        assert served is not None
        definition = served.definition
        host.add_tool(
            mounted(
                name=name,
                title=definition.title,
                description=definition.description,
                parameters=definition.input_schema,
                output_schema=definition.output_schema,
                annotations=definition.annotations,
                icons=definition.icons,
                meta=definition.meta,
            )
        )


def _mounted(handlers: Handlers) -> Any:
    """Return the class of the tools that a FastMCP server gets."""
    from fastmcp.exceptions import ToolError as FastMCPError
    from fastmcp.server.dependencies import get_context
    from fastmcp.tools import Tool as FastMCPTool
    from fastmcp.tools import ToolResult as FastMCPResult
    from fastmcp.tools.base import InputRequiredToolResult

    class Mounted(FastMCPTool):
        async def run(self, arguments: dict[str, Any]) -> Any:
            context = get_context()
            request: Any = context.request_context
            if request is None:
                raise FastMCPError(f"{self.name} can be called by a client only")
            params = types.CallToolRequestParams(
                name=self.name,
                arguments=arguments,
                input_responses=context.input_responses,
                request_state=context.request_state,
            )
            answer = await handlers.call_tool(request, params)
            if isinstance(answer, types.InputRequiredResult):
                return InputRequiredToolResult(answer)
            result = types.CallToolResult.model_validate(answer, by_name=False)
            return FastMCPResult.from_mcp_result(result)

    return Mounted


def _around(handlers: Handlers, mounted: Any) -> Any:
    """Return a middleware for what FastMCP does differently with these tools."""
    from fastmcp.exceptions import ToolError as FastMCPError
    from fastmcp.server.dependencies import get_context
    from fastmcp.server.middleware import Middleware

    class Around(Middleware):
        async def on_list_tools(self, context: Any, call_next: Any) -> list[Any]:
            """List only what is enabled for the client."""
            request: Any = get_context().request_context
            enabled = handlers.toolset if request is None else await handlers.enabled(request)
            found = await call_next(context)
            return [x for x in found if not isinstance(x, mounted) or x.name in enabled]

        async def on_call_tool(self, context: Any, call_next: Any) -> Any:
            """Let a tripwire out, of which FastMCP has made a result that a model would read."""
            try:
                return await call_next(context)
            except FastMCPError as error:
                stop = error.__cause__
                if isinstance(stop, MCPError) and isinstance(stop.__cause__, Tripwire):
                    raise stop from stop.__cause__
                raise

    return Around()
