"""Keep the streams of MCP sessions apart in an event store, from which clients resume them.

The SDK names a stream by the number of its request, and every client counts from 1. In a store of
all sessions one client would get the answers of another.
"""

from __future__ import annotations

from contextvars import ContextVar
from secrets import token_hex
from typing import Any
from weakref import WeakValueDictionary

from mcp.server.streamable_http import (
    MCP_SESSION_ID_HEADER,
    EventCallback,
    EventMessage,
    EventStore,
)

HEADER = MCP_SESSION_ID_HEADER.encode()


class Session:
    """A session. The SDK's task of the session keeps it in its context, so it lives as long."""

    def __init__(self) -> None:
        self.name: str = f"{token_hex(16)}:"


_session: ContextVar[Session] = ContextVar("functool_mcp_session")


class SessionStreams(EventStore):
    """An event store in which each session finds its own streams only.

    Args:
        store: The store of the host, which all sessions share.
    """

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._sessions: WeakValueDictionary[bytes, Session] = WeakValueDictionary()

    async def store_event(self, stream_id: str, message: Any) -> str:
        """Store a message under the name of its session and stream, and return its id."""
        return await self._store.store_event(_session.get().name + stream_id, message)

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> Any:
        """Send what followed an event, and return its stream. None for that of another session."""
        events: list[EventMessage] = []

        async def keep(event: EventMessage) -> None:
            events.append(event)

        found = await self._store.replay_events_after(last_event_id, keep)
        name = _session.get().name
        if found is None or not found.startswith(name):
            return None
        for event in events:
            await send_callback(event)
        return found.removeprefix(name)

    def around(self, app: Any) -> Any:
        """Return an ASGI app that says which session a request is of."""

        async def known(scope: Any, receive: Any, send: Any) -> None:
            given = next((value for name, value in scope["headers"] if name == HEADER), b"")
            session = self._sessions.get(given) or Session()

            async def sending(message: Any) -> None:
                for name, value in message.get("headers", ()):
                    if name == HEADER:
                        self._sessions[value] = session
                await send(message)

            token = _session.set(session)
            try:
                await app(scope, receive, sending)
            finally:
                _session.reset(token)

        return known
