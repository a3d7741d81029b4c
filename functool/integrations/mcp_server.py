"""Serve tools over the Model Context Protocol, through the official SDK's low-level server."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ServerEvent,
    ToolsListChanged,
)

from functool import Toolset
from functool.integrations.mcp_approval import Request
from functool.integrations.mcp_bodies import bound_requests
from functool.integrations.mcp_contexts import MakeContext
from functool.integrations.mcp_handlers import STATE_SECONDS, Handlers, Tools
from functool.integrations.mcp_onto import mount
from functool.integrations.mcp_streams import SessionStreams


class ToolServer(Server[Any]):
    """An MCP server of a toolset. It is a server of the SDK, and can be used wherever one can.

    A body may ask the client for more input. It returns the SDK's `InputRequiredResult`, which is
    sent unchanged.

    Args:
        tools: A tool, an iterable of tools, or a Toolset.
        name: The name of the server.
        instructions: The server's instructions for a model.
        context: `context(request)`, sync or async, makes the Context of a conversation from its
            first SDK request. A conversation is an MCP session, or the parent process on stdio.
            Where the protocol has no sessions (2026-07-28 over HTTP) it makes one for each call.
        keys: Secrets of 32 bytes or more that seal the state of a client between the rounds of an
            approval. The first one seals. Processes behind one load balancer need the same keys. By
            default, this process makes a key of its own.
        page_size: How many tools one page of the list has. None means all of them.

    Raises:
        DefinitionError: A tool cannot be served, two have one name, or an option is not valid.
    """

    def __init__(
        self,
        tools: Tools,
        *,
        name: str = "functool",
        instructions: str | None = None,
        context: MakeContext | None = None,
        keys: Sequence[bytes] | None = None,
        page_size: int | None = None,
    ) -> None:
        self._bus = InMemorySubscriptionBus()
        self._handlers = Handlers(tools, context, page_size)
        self._told: set[str | int] = set()
        super().__init__(
            name,
            version=version("functool"),
            instructions=instructions,
            on_list_tools=self._handlers.list_tools,
            on_call_tool=self._handlers.call_tool,
            on_subscriptions_listen=ListenHandler(self._bus),
            get_tool_input_schema=self._handlers.input_schema,
        )
        self.add_notification_handler(
            "notifications/initialized", types.NotificationParams, self._announce_changes
        )
        seal = RequestStateSecurity(keys=keys or [os.urandom(32)], ttl=STATE_SECONDS)
        self.middleware.append(RequestStateBoundary(seal, default_audience=name))

    @property
    def toolset(self) -> Toolset:
        """The tools that are served now."""
        return self._handlers.toolset

    async def replace(self, tools: Tools) -> None:
        """Serve these tools from now on, and tell every client that the list changed.

        Raises:
            DefinitionError: A tool cannot be served, or two have one name. The old tools stay.
        """
        await self._handlers.replace(tools)
        await self._bus.publish(ToolsListChanged())

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """Return the SDK's options, which announce that the tool list may change."""
        options = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(options, experimental_capabilities, extensions)

    def streamable_http_app(self, **options: Any) -> Any:
        """Return the SDK's ASGI app, which refuses requests with too many values.

        In an `event_store` each session finds its own streams only.
        """
        store = options.get("event_store")
        streams = None if store is None else SessionStreams(store)
        app = super().streamable_http_app(**{**options, "event_store": streams})
        if streams is not None:
            manager: Any = self.session_manager
            manager.asgi_app = streams.around(manager.asgi_app)
        bound_requests(self)
        return app

    async def _announce_changes(self, request: Request, params: types.NotificationParams) -> None:
        """Tell a client of the older revisions about changes.

        The end of its connection cancels this. A client may say many times that it is initialized.
        """
        http = request.request
        session = None if http is None else http.headers.get(MCP_SESSION_ID_HEADER)
        handshake = request.session.client_params
        # While the handshake is held here, no other object gets its id.
        client = session or id(handshake)
        if client in self._told:
            return
        self._told.add(client)
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
            self._told.discard(client)


def server(tools: Tools, *, onto: Any = None, **options: Any) -> Any:
    """Return an MCP server of these tools, or add them to an existing server.

    Args:
        tools: A tool, an iterable of tools, or a Toolset.
        onto: An SDK `Server` or `MCPServer`, or a FastMCP server, with tools, resources and prompts
            of its own. It is returned. A tool of `tools` hides one of the server of the same name.
        options: The options of `ToolServer`. With `onto` they are only `context`, and `keys` for a
            `Server` that does not seal state yet.

    Raises:
        DefinitionError: A tool cannot be served, or two have one name.
        TypeError: `onto` is not such a server, or there is no such option.
    """
    return ToolServer(tools, **options) if onto is None else mount(tools, onto, **options)
