"""The time limit of a call, and how a call ends that is cancelled.

A body that does not end when it is cancelled is abandoned: nobody waits for it any more. A thread,
for example, cannot be stopped. Such bodies are counted until they end.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any, TypeAlias, TypeVar

from functool.call import ToolResult, failure_of
from functool.errors import DefinitionError, ToolError, ToolTimeoutError, Tripwire

GRACE_SECONDS = 1.0
"""How long a cancelled body may take to clean up, in seconds."""

T = TypeVar("T")
Road: TypeAlias = Callable[[Exception | None], Coroutine[Any, Any, ToolResult]]
logger: logging.Logger = logging.getLogger("functool")


async def within(limit: float, name: str, road: Road) -> ToolResult:
    """Run the road of a call for at most `limit` seconds, and always return a result.

    After the deadline the road runs again with the timeout as its failure, so that error functions
    and output guardrails see it. They share one more second.

    Raises:
        SystemExit: The body ends the program, as it would without a limit.
    """
    unfinished: list[Any] = []
    task = await run_for(_held(road, None), limit, name, unfinished)
    try:
        if task.done():
            return _outcome(task)
        still_running = await stop(task, unfinished)
        end = "; its work may still be going on." if still_running else " and was stopped."
        text = f"The tool {name} did not answer within {limit:g} seconds{end}"
        error: Exception = ToolTimeoutError(text, still_running=still_running)
    except asyncio.CancelledError as stray:  # A body has cancelled its own task.
        error = failure_or_raise(stray)
    closing = await run_for(_held(road, error), GRACE_SECONDS, name, unfinished)
    if closing.done() and not closing.cancelled():
        return _outcome(closing)
    closing.cancel()
    abandon(closing)
    return failure_of(error)


async def _held(road: Road, failed: Exception | None) -> ToolResult | SystemExit:
    try:
        return await road(failed)
    except SystemExit as leaving:  # A task that raised it would end the event loop.
        return leaving


def _outcome(task: asyncio.Task[T | SystemExit]) -> T:
    found = task.result()
    if isinstance(found, SystemExit):
        raise found
    return found


async def run_for(
    work: Coroutine[Any, Any, T], seconds: float, name: str, unfinished: list[Any]
) -> asyncio.Task[T]:
    """Run `work` as a task for at most `seconds`, and return the task, done or not.

    If this is cancelled, cancel the task and let it clean up first. Bodies that `work` started and
    that do not end when they are cancelled are appended to `unfinished`.
    """
    token = _unfinished.set((*_unfinished.get(), unfinished))
    task = asyncio.get_running_loop().create_task(work, name=name)
    _unfinished.reset(token)
    try:
        await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        await stop(task, unfinished)
        raise
    return task


async def stop(task: asyncio.Task[Any], unfinished: list[Any]) -> bool:
    """Cancel the task of a call and give it time to clean up.

    Returns:
        Whether a body of the call may still be running.
    """
    task.cancel()
    await asyncio.wait({task}, timeout=GRACE_SECONDS)
    if not task.done():
        why = "it did not end when it was cancelled"
        logger.warning("the body of %s was abandoned: %s", task.get_name(), why)
        abandon(task)
        return True
    if not task.cancelled():
        _outcome(task)
    if _abandoned.isdisjoint(unfinished):
        return False
    why = "after its time limit: a thread cannot be stopped"
    logger.warning("the body of %s was abandoned %s", task.get_name(), why)
    return True


async def deliver_last(work: Coroutine[Any, Any, None]) -> None:
    """Deliver the final events of a call.

    If the call's task is being cancelled, the listeners get one second.
    """
    task = asyncio.current_task()
    if task is None or not task.cancelling():
        await work
    else:
        (await run_for(work, GRACE_SECONDS, "final events", [])).cancel()


def failure_or_raise(error: Exception | asyncio.CancelledError) -> Exception:
    """Return the exception if it may become a failed result, else raise it again.

    Raises:
        BaseException: It must leave the call: a tripwire, or a cancellation from outside.
    """
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise error
        stray = ToolError("The tool cancelled itself.")
        stray.__cause__ = error
        return stray
    if tripwire := Tripwire.inside(error):  # A `TaskGroup` raises a group of exceptions.
        raise tripwire
    return error


_abandoned: set[Any] = set()
_unfinished: ContextVar[tuple[list[Any], ...]] = ContextVar("functool.unfinished", default=())
if hasattr(os, "register_at_fork"):  # What runs does not survive a fork.
    os.register_at_fork(after_in_child=_abandoned.clear)


def abandon(body: asyncio.Future[Any]) -> None:
    """Count a body that did not end when it was cancelled, until it ends.

    Also append it to the `unfinished` list of every `run_for` around it.
    """
    _abandoned.add(body)
    for unfinished in _unfinished.get():
        unfinished.append(body)
    if isinstance(body, asyncio.Task):
        body.add_done_callback(_forget)


def has_ended(body: asyncio.Future[Any]) -> None:
    """Count an abandoned body no longer: it has ended. It may be called from any thread."""
    _abandoned.discard(body)


def abandoned() -> int:
    """Return how many bodies still run although nobody waits for them any more."""
    return len(_abandoned)


def _forget(task: asyncio.Task[Any]) -> None:
    has_ended(task)
    if not task.cancelled():
        task.exception()  # Otherwise asyncio logs that the exception was never retrieved.


def checked_timeout(timeout: Any) -> float | None:
    """Return a time limit in seconds, as a float.

    Raises:
        DefinitionError: The limit is zero, negative, NaN, infinite, a bool or not a number.
    """
    if timeout is None:
        return None
    if not is_seconds(timeout) or timeout == 0:
        wanted = "a positive, finite number of seconds"
        raise DefinitionError(f"timeout must be {wanted}, not {timeout!r}")
    return float(timeout)


def is_seconds(value: Any) -> bool:
    """Whether a value is a finite number of seconds, which may be 0."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and 0 <= value <= sys.float_info.max
