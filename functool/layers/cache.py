"""Cache the results of read-only tools for a time.

    search = cached(search, 60)

The cache wraps the body. Guardrails and approvals run for a cached result as well.
"""

from __future__ import annotations

import asyncio
import copy
import json
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import Future
from functools import partial
from math import copysign
from typing import Any, Literal, NamedTuple, TypeAlias, overload
from uuid import uuid4

from functool import Context, DefinitionError, Tool, ToolCall, ToolResult, Tripwire
from functool.json_values import paused_gc
from functool.large import in_thread_if, is_large
from functool.layers.some_tools import OneTool, SameKind, each

try:
    from cachetools import TTLCache
except ImportError as _error:
    raise ImportError("the cache needs cachetools: pip install 'functool[cache]'") from _error

Per: TypeAlias = Literal["context", "process"]
Key: TypeAlias = tuple[str, str]


class Raised(NamedTuple):
    """What a body raised, and the untrusted tools that its message may come from."""

    error: Exception
    sources: list[str]


Outcome: TypeAlias = ToolResult | Raised | None
"""What a running call passes to equal calls that wait for it. None: they run the body."""

Flights: TypeAlias = dict[Key, Future[Outcome]]
"""The calls that are running now."""

_EXACT = 2**53
"""Below this size a float can represent every whole number."""


class _Kept(NamedTuple):
    """The results of a context or of the process, and its running calls by process.

    A context is pickled without them: a call may be running, and a result may hold anything.
    """

    results: TTLCache[Key, ToolResult]
    flights: dict[int, Flights]

    def __reduce__(self) -> tuple[Callable[..., _Kept], tuple[float, float]]:
        return _nothing_kept, (self.results.maxsize, self.results.ttl)


def _nothing_kept(maxsize: float, seconds: float) -> _Kept:
    return _Kept(TTLCache(maxsize, seconds, timer=time.monotonic), {})


@overload
def cached(
    tools: OneTool, seconds: float, maxsize: int = 1024, *, per: Per = "context"
) -> OneTool: ...
@overload
def cached(  # type: ignore[overload-overlap]
    tools: SameKind, seconds: float, maxsize: int = 1024, *, per: Per = "context"
) -> SameKind: ...
@overload
def cached(
    tools: Iterable[Tool], seconds: float, maxsize: int = 1024, *, per: Per = "context"
) -> list[Tool]: ...


def cached(tools: Any, seconds: float, maxsize: int = 1024, *, per: Per = "context") -> Any:
    """Return the tools with a cache around their bodies. A toolset gives a toolset.

    Two calls of a tool are equal if their canonical arguments are equal. If equal calls come at the
    same time, one runs and all get its result or its error. Errors are not cached. A cached result
    has `metadata["cached"]` true.

    Args:
        tools: Tools whose settings have `read_only=True`.
        seconds: How long a result stays in the cache.
        maxsize: The most results that the cache holds for all these tools together, in each context
            or in the process.
        per: `"context"` shares results within a context only. `"process"` shares them with every
            context; use it for tools whose results are the same for everybody.

    Raises:
        DefinitionError: A tool is not read-only, a number is not positive, or `per` is neither of
            the two.
    """
    if not _is_positive(seconds) or type(maxsize) is not int or maxsize < 1:
        raise DefinitionError(
            "cached needs a positive number of seconds and a positive int of entries,"
            f" not {seconds!r} and {maxsize!r}"
        )
    if per not in ("context", "process"):
        raise DefinitionError(f'per must be "context" or "process", not {per!r}')
    cache = _Cache(float(seconds), maxsize, per)

    def wrapped(tool: Tool) -> Tool:
        if tool.settings.read_only is not True:
            raise DefinitionError(
                f"{tool.name!r} cannot be cached: its settings do not say read_only=True"
            )
        return tool.around(cache.around(uuid4().hex))

    return each(tools, wrapped)


class _Cache:
    """The cached results, and the calls that are running now."""

    def __init__(self, seconds: float, maxsize: int, per: Per) -> None:
        self._nothing = partial(_nothing_kept, maxsize, seconds)
        self._state = f"functool.cache:{uuid4().hex}"
        self._process = self._nothing() if per == "process" else None
        self._lock = threading.Lock()

    def around(self, tool: str) -> Any:
        """Return the function that wraps the body of a tool."""

        async def cache(
            call: ToolCall, context: Context[Any], proceed: Callable[[], Awaitable[ToolResult]]
        ) -> ToolResult:
            # One tool may be called under several names that wrappers have given it.
            names = [tool, call.name, context.schema.name if context.schema else ""]
            arguments = await in_thread_if(is_large(call), paused_gc, _canonical, call.arguments)
            key = (json.dumps(names), arguments)
            return await self._answer(key, context, proceed)

        return cache

    async def _answer(
        self, key: Key, context: Context[Any], proceed: Callable[[], Awaitable[ToolResult]]
    ) -> ToolResult:
        kept, flights = self._process or context.state.setdefault(self._state, self._nothing())
        # A forked child does not run the calls that its parent is running.
        running = flights.setdefault(os.getpid(), {})
        while True:
            with self._lock:
                stored = kept.get(key)
                flight = running.get(key)
                if stored is None and flight is None:
                    running[key] = own = Future[Outcome]()
                    break
            if flight is not None and stored is None:
                # A waiting call that is cancelled must not cancel the running one.
                stored = await asyncio.shield(asyncio.wrap_future(flight))
            if isinstance(stored, Raised):
                context.add_labels(stored.sources)
                raise stored.error
            if stored is not None:
                # A large result is copied in a thread: that may take seconds.
                return await in_thread_if(is_large(stored), _marked_as_cached, stored)
        outcome: Outcome = None
        try:
            result = await proceed()
            outcome = await in_thread_if(is_large(result), _copied, result)
            return result
        except Tripwire:
            raise
        except Exception as error:
            outcome = Raised(error, [*(context.inner_labels or ())])
            raise
        finally:
            with self._lock:
                if isinstance(outcome, ToolResult) and outcome.success:
                    kept[key] = outcome
                del running[key]
            own.set_result(outcome)


def _copied(result: ToolResult) -> ToolResult | None:
    """Return a deep copy, or None if the value cannot be copied."""
    try:
        return copy.deepcopy(result)
    except Exception:
        return None


def _marked_as_cached(stored: ToolResult) -> ToolResult:
    """Return a copy of a cached result, marked in its metadata."""
    twin = copy.deepcopy(stored)
    twin.metadata = {**twin.metadata, "cached": True}
    return twin


def _canonical(arguments: Mapping[str, Any] | str) -> str:
    """Return the arguments as JSON text. Equal arguments give equal text."""
    return json.dumps(_plain(arguments), sort_keys=True, default=str)


def _plain(value: Any) -> Any:
    """Return a JSON value in which a whole number such as 1.0 is the int 1."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        return int(value) if copysign(1, value) > 0 else value
    return value


def _is_positive(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0
