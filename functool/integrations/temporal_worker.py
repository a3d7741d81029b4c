"""Make the activities that run tools on a worker of Temporal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError

from functool import (
    Context,
    Tool,
    ToolCall,
    ToolEvent,
    ToolResult,
    Toolset,
    Tripwire,
)
from functool.call import cut_str
from functool.executors import inline
from functool.integrations.far_approval import for_next_attempt, with_approval
from functool.integrations.temporal_outcome import (
    Outcome,
    Request,
    outcome_for,
    unknown_outcome,
)
from functool.integrations.values import outgoing
from functool.layers.journal import Journal
from functool.layers.journal_errors import Interrupted, OutcomeUnknown
from functool.layers.journal_once import key_of
from functool.layers.journal_replay import is_interrupted, pauses
from functool.layers.passing import passing

MakeContext = Callable[[ToolCall], "Context[Any] | Awaitable[Context[Any]]"]
_BEATS = 3  # Heartbeats within the time after which a worker counts as lost.


def activities(
    tools: Tool | Toolset | Iterable[Tool],
    *,
    context: MakeContext | None = None,
    journal: Journal | None = None,
) -> list[Callable[..., Awaitable[Any]]]:
    """Return an activity for each tool, under its name, for `Worker(..., activities=...)`.

    An activity runs validation, guardrails, approvals and the body of its tool. Refusals, requests
    for approval and errors of the body are results, so Temporal does not retry them. After a lost
    worker, a further attempt runs the body again only if the tool is read-only or idempotent. The
    retry policy of the activity does not change that.

    Args:
        tools: A tool, several, or a toolset.
        context: `context(call)`, sync or async, makes the context of a call. By default it is an
            empty one. If the function raises, the call is not run.
        journal: A journal on this machine. If a body ended and its worker was lost before it could
            tell the server, the journal still has the result.

    Raises:
        DefinitionError: Something is not a tool, or two tools have the same name.
    """
    if not isinstance(tools, Toolset):
        tools = Toolset([tools] if isinstance(tools, Tool) else tools)
    return [_activity(tool, context, journal) for tool in tools.values()]


def _activity(
    tool: Tool, make_context: MakeContext | None, journal: Journal | None
) -> Callable[..., Awaitable[Any]]:
    """Return the activity of one tool."""

    @activity.defn(name=tool.name)
    async def run(request: dict[str, Any]) -> dict[str, Any]:
        asked: Any = request
        if (earlier := _interrupted(tool, asked, journal)) is not None:
            done: Any = earlier
        else:
            done = await _run(tool, asked, make_context, journal)
        return dict(done)

    return run


def _interrupted(tool: Tool, request: Request, journal: Journal | None) -> Outcome | None:
    """Return the outcome `unknown` if an earlier attempt may have begun the body, otherwise None.

    Nobody can know whether the lost worker had reached the body.
    """
    info = activity.info()
    if info.attempt == 1 or tool.settings.read_only or tool.settings.idempotent:
        return None
    if journal is not None and any(
        (entry.tool, entry.call_id) == (tool.name, request["id"])
        for entry in journal.calls_of(request["run"], request["id"])
    ):
        return None
    return unknown_outcome(request, info.scheduled_time.isoformat(timespec="seconds"))


class _Body:
    """Records whether the body of a call has begun and ended."""

    def __init__(self) -> None:
        self.began = self.ended = False

    async def around(
        self, call: ToolCall, context: Context[Any], proceed: Callable[[], Awaitable[ToolResult]]
    ) -> ToolResult:
        self.began = True
        try:
            result = await proceed()
        except Interrupted as error:  # What a journal under it answers is the outcome.
            self.ended = isinstance(error, OutcomeUnknown)
            raise
        except Exception:
            self.ended = True
            raise
        self.ended = not is_interrupted(result)  # As the journal asks, of a call inside of it.
        return result


async def _run(
    tool: Tool, request: Request, make_context: MakeContext | None, journal: Journal | None
) -> Outcome:
    """Run a call with its guardrails and approvals, and send heartbeats meanwhile."""
    call = ToolCall(
        name=tool.name,
        arguments=request["arguments"],
        id=request["id"],
        # Another attempt of this call, on another worker, has the same key.
        metadata={
            "journal": {"key": key_of(request["run"], tool.name, request["id"])},
            **({"sources": request["sources"]} if request["sources"] else {}),
        },
    )
    try:
        context = Context() if make_context is None else await inline(make_context, call)
        if not isinstance(context, Context):
            raise TypeError(f"context(call) must return a Context, not {type(context).__name__}")
        passing(context)
    except Exception as error:
        return outcome_for(request, "refused", error)
    body = _Body()
    recorded = tool if journal is None else journal.once(tool, request["run"])
    is_first, digests = activity.info().attempt == 1, request["approved"]
    digests = digests if is_first else for_next_attempt(digests)
    recorded, context = with_approval(recorded, context, digests)
    result: ToolResult | Tripwire
    async with _alive(context, tool, call):
        try:
            result = await recorded.around(body.around).invoke(call, context)
        except Tripwire as wire:
            result = wire
        except asyncio.CancelledError:
            _raise_unless_asked()
            raise
    if isinstance(result, ToolResult) and pauses(result):
        return outcome_for(request, "refused", result)
    if not body.began:
        return outcome_for(request, "refused", result)
    return outcome_for(request, "done" if body.ended else "unknown", result)


def _raise_unless_asked() -> None:
    """Raise if nobody cancelled the call, so its worker shuts down or an operator paused it.

    The server then starts another attempt. That attempt answers as after a lost worker.
    """
    details = activity.cancellation_details()
    if details is None or not details.cancel_requested:
        raise ApplicationError("The worker stopped inside the call.", type="WorkerStopped")


@asynccontextmanager
async def _alive(context: Context[Any], tool: Tool, call: ToolCall) -> AsyncIterator[None]:
    """Send heartbeats while a call runs, with the last progress that it reported."""
    progress: list[Any] = []
    data_of = outgoing(tool)

    def listen(event: ToolEvent) -> None:
        mine = (event.tool_name, event.call_id) == (call.name, call.id)
        if event.kind == "tool:progress" and mine:  # Calls may share a context.
            progress[:] = [_plain(data_of(event))]
            activity.heartbeat(*progress)

    async def beat(seconds: float) -> None:
        while True:
            activity.heartbeat(*progress)
            await asyncio.sleep(seconds)

    limit = activity.info().heartbeat_timeout
    beating = asyncio.create_task(beat(limit.total_seconds() / _BEATS)) if limit else None
    undo = context.subscribe(listen)
    try:
        yield
    finally:
        undo()
        if beating is not None:
            beating.cancel()


def _plain(data: Any) -> Any:
    """Return the data of a progress event as short values that JSON can express.

    The server drops a heartbeat of more than 2 MiB, and the worker would count as lost.
    """
    return {key: _short(value) for key, value in data.items() if value is not None}


def _short(value: Any) -> Any:
    is_number = isinstance(value, float) or (isinstance(value, int) and value.bit_length() < 64)
    return value if is_number else cut_str(value)
