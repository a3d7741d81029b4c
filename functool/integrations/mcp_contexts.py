"""Choose the context of a call over MCP: one for each principal and conversation."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any, TypeAlias

from mcp.server.request_state import authenticated_principal
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from functool import Context
from functool.executors import inline
from functool.guardrails.asking import callables
from functool.integrations.mcp_approval import Request
from functool.layers.passing import passing

MakeContext: TypeAlias = Callable[[Request], Context[Any] | Awaitable[Context[Any]]]


class Stream:
    """The one client at the other end of a stream, such as standard input and output."""


_stream: ContextVar[Stream | None] = ContextVar("functool_mcp_stream", default=None)


@contextmanager
def one_client() -> Iterator[None]:
    """Treat all requests in the block as those of one client, the parent process on stdio."""
    token = _stream.set(Stream())
    try:
        yield
    finally:
        _stream.reset(token)


@dataclass(slots=True)
class Conversation:
    """One conversation: a context for each principal.

    `making` is held while a context is made, so that two first requests share one.
    """

    contexts: dict[str | None, Context[Any]] = field(default_factory=dict)
    making: asyncio.Lock = field(default_factory=asyncio.Lock)


def call_id(request: Request) -> str:
    """Return the id of a call, which no other call has.

    Every client counts its requests from 1, and a tool of the host may make several calls in one
    request. A journal would take one call for another, and would answer it instead of running it.
    """
    return f"{token_hex(8)}-{request.request_id}"


class Contexts:
    """The contexts of a server's conversations.

    A conversation is what the transport proves to be one client. That is a session of the revisions
    until 2025-11-25, or the parent process on stdio. Over HTTP the revision 2026-07-28 has no
    sessions, so there each call gets a context of its own. Two principals never share a context.

    Args:
        make: `make(request)`, sync or async, returns the Context of a conversation, from its first
            request.

    Raises:
        DefinitionError: `make` cannot be called with a request.
    """

    def __init__(self, make: MakeContext | None = None) -> None:
        callables([] if make is None else [make], "context", ("request",))
        self._make = make or (lambda request: Context())
        # The key is the id of the conversation's owner.
        self._kept: dict[int, Conversation] = {}

    async def __call__(self, request: Request) -> Context[Any]:
        """Return the context of the request's conversation."""
        owner = _owner(request)
        if owner is None:
            return passing(await self._made(request))
        conversation, principal = self._of(owner), authenticated_principal(request)
        async with conversation.making:
            if principal not in conversation.contexts:
                conversation.contexts[principal] = await self._made(request)
        return conversation.contexts[principal]

    async def _made(self, request: Request) -> Context[Any]:
        """Return a new context.

        Raises:
            TypeError: The host's function returned something else.
        """
        made: Any = await inline(self._make, request)
        if not isinstance(made, Context):
            raise TypeError(f"context returned {type(made).__name__}, expected a Context")
        return made

    def _of(self, owner: Any) -> Conversation:
        """Return the conversation of an owner. It is removed when it ends."""
        key = id(owner)
        if key not in self._kept:
            self._kept[key] = Conversation()
            weakref.finalize(owner, self._kept.pop, key)
        return self._kept[key]


def _owner(request: Request) -> Any:
    """Return an object that lives as long as the conversation, or None if there is none."""
    if request.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return _stream.get()
    # The handshake makes this object, and the connection keeps it until its end.
    return request.session.client_params
