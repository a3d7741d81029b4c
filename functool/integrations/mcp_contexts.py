"""Give each call over MCP a context: one for each principal and conversation."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

from mcp.server.request_state import authenticated_principal
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from functool import Context
from functool.integrations.mcp_approval import Request
from functool.layers.passing import passing

MakeContext: TypeAlias = Callable[[Request], Context[Any]]


class Stream:
    """The one client at the other end of a stream, such as standard input and output."""


_stream: ContextVar[Stream | None] = ContextVar("functool_mcp_stream", default=None)


@contextmanager
def one_client() -> Iterator[None]:
    """Treat all requests handled inside as those of one client, as on stdio the parent process."""
    token = _stream.set(Stream())
    try:
        yield
    finally:
        _stream.reset(token)


class Contexts:
    """The contexts of a server's conversations.

    In a conversation, the transport proves that all requests come from one client. It is a session
    of the revisions until 2025-11-25, or the parent process on stdio. Over HTTP the revision
    2026-07-28 has no sessions, so each call has its own context there. Two principals never share a
    context.

    Args:
        make: `make(request)` makes the Context of a conversation from its first request.
    """

    def __init__(self, make: MakeContext | None = None) -> None:
        self._make = make or (lambda request: Context())
        # By the identity of an object that lives as long as the conversation, then by principal.
        self._kept: dict[int, tuple[weakref.ref[Any], dict[str | None, Context[Any]]]] = {}

    def __call__(self, request: Request) -> Context[Any]:
        """Return the context of the request's conversation."""
        owner = _owner(request)
        if owner is None:
            return passing(self._make(request))
        by_principal = self._of(owner)
        principal = authenticated_principal(request)
        if principal not in by_principal:
            by_principal[principal] = self._make(request)
        return by_principal[principal]

    def _of(self, owner: Any) -> dict[str | None, Context[Any]]:
        """Return the contexts of a conversation by principal. They end with the conversation."""
        key = id(owner)
        if key not in self._kept:
            kept = self._kept
            self._kept[key] = weakref.ref(owner, lambda _: kept.pop(key, None)), {}
        return self._kept[key][1]


def _owner(request: Request) -> Any:
    """Return an object that lives as long as the conversation, or None without a conversation."""
    if request.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return _stream.get()
    # The handshake makes this object, and the connection keeps it until its end.
    return request.session.client_params
