"""Answers of read-only tools, kept for a time.

    search = cached(search, 60)

The cache stands around the body: guardrails and approvals run for a stored answer, too.
"""

from __future__ import annotations

import asyncio
import copy
import json
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from concurrent.futures import Future
from math import copysign
from typing import Any, Literal, TypeAlias, overload
from uuid import uuid4

from functool import Context, DefinitionError, Tool, ToolCall, ToolResult, Toolset, Tripwire
from functool.layers.some_tools import OneTool, each

try:
    from cachetools import TTLCache
except ImportError as _error:
    raise ImportError("the cache needs cachetools: pip install 'functool[cache]'") from _error

Per: TypeAlias = Literal["context", "process"]
Key: TypeAlias = tuple[str, str]

Outcome: TypeAlias = ToolResult | Exception | None
"""What the calls that wait for an equal one get; None: run the body yourself."""

_EXACT = 2**53
"""Up to this size a float says every whole number."""


@overload
def cached(
    tools: OneTool, seconds: float, maxsize: int = 1024, *, per: Per = "context"
) -> OneTool: ...
@overload
def cached(
    tools: Toolset, seconds: float, maxsize: int = 1024, *, per: Per = "context"
) -> Toolset: ...
@overload
def cached(
    tools: Iterable[Tool], seconds: float, maxsize: int = 1024, *, per: Per = "context"
) -> list[Tool]: ...


def cached(tools: Any, seconds: float, maxsize: int = 1024, *, per: Per = "context") -> Any:
    """Return the tools with a cache around their bodies; the kind that came in.

    Calls are the same whose canonical arguments are. Of equal calls at one time one runs, and all
    get its answer, a failure, too. Failures are not kept. A stored answer has `metadata["cached"]`
    true.

    Args:
        tools: Tools whose settings say `read_only`.
        seconds: How long an answer is good.
        maxsize: How many answers are kept: of all these tools together, in each context or in the
            process.
        per: `"context"` shares answers within a context only; `"process"` with everybody, and is
            for tools whose answers are the same for everybody.

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
    """What was answered, and what is being answered."""

    def __init__(self, seconds: float, maxsize: int, per: Per) -> None:
        self._seconds = seconds
        self._maxsize = maxsize
        self._state = f"functool.cache:{uuid4().hex}"
        self._process = self._new() if per == "process" else None
        self._lock = threading.Lock()

    def _new(self) -> tuple[MutableMapping[Key, ToolResult], dict[Key, Future[Outcome]]]:
        return TTLCache(self._maxsize, self._seconds, timer=time.monotonic), {}

    def around(self, tool: str) -> Any:
        """Return what stands around the body of a tool."""

        async def cache(
            call: ToolCall, context: Context[Any], proceed: Callable[[], Awaitable[ToolResult]]
        ) -> ToolResult:
            # One function may stand around several tools, which a wrapper has renamed.
            names = [tool, call.name, context.schema.name if context.schema else ""]
            key = (json.dumps(names), _canonical(call.arguments))
            return await self._answer(key, context, proceed)

        return cache

    async def _answer(
        self, key: Key, context: Context[Any], proceed: Callable[[], Awaitable[ToolResult]]
    ) -> ToolResult:
        kept, running = self._process or context.state.setdefault(self._state, self._new())
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
            if isinstance(stored, Exception):
                raise stored
            if stored is not None:
                return _told(stored)
        outcome: Outcome = None
        try:
            result = await proceed()
            outcome = _copied(result)
            return result
        except Tripwire:
            raise
        except Exception as error:
            outcome = error
            raise
        finally:
            with self._lock:
                if isinstance(outcome, ToolResult) and outcome.success:
                    kept[key] = outcome
                del running[key]
            own.set_result(outcome)


def _copied(result: ToolResult) -> ToolResult | None:
    """Return a copy that nobody else can change, or None where the value cannot be copied."""
    try:
        return copy.deepcopy(result)
    except Exception:
        return None


def _told(stored: ToolResult) -> ToolResult:
    """Return a copy of a result that says that it did not run for this call."""
    twin = copy.deepcopy(stored)
    twin.metadata = {**twin.metadata, "cached": True}
    return twin


def _canonical(arguments: Mapping[str, Any] | str) -> str:
    """Return the one text of arguments that are the same."""
    return json.dumps(_plain(arguments), sort_keys=True, default=str)


def _plain(value: Any) -> Any:
    """Return a JSON value where 1.0 is 1."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        return int(value) if copysign(1, value) > 0 else value
    return value


def _is_positive(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0
