"""The time limit of a call, and how a call ends that is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias, TypeVar

import functool.executors as executors
from functool.call import ToolResult, failure_of
from functool.errors import DefinitionError, ToolError, ToolTimeoutError, Tripwire, logger

T = TypeVar("T")
Road: TypeAlias = Callable[[Exception | None], Coroutine[Any, Any, ToolResult]]


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
    closing = await run_for(_held(road, error), executors.GRACE_SECONDS, name, unfinished)
    if closing.done() and not closing.cancelled():
        return _outcome(closing)
    closing.cancel()
    executors.abandon(closing)
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
    with executors.setting(executors.limits_around, (*executors.limits_around.get(), unfinished)):
        task = asyncio.get_running_loop().create_task(work, name=name)
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
    await asyncio.wait({task}, timeout=executors.GRACE_SECONDS)
    if not task.done():
        why = "it did not end when it was cancelled"
        logger.warning("the body of %s was abandoned: %s", task.get_name(), why)
        executors.abandon(task)
        return True
    if not task.cancelled():
        _outcome(task)
    if not executors.still_run(unfinished):
        return False
    why = "after its time limit: a thread cannot be stopped"
    logger.warning("the body of %s was abandoned %s", task.get_name(), why)
    return True


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


def checked_timeout(timeout: Any) -> float | None:
    """Return a time limit in seconds, as a float.

    Raises:
        DefinitionError: The limit is zero, negative, NaN, infinite, a bool or not a number.
    """
    if timeout is None:
        return None
    if not executors.is_seconds(timeout) or timeout == 0:
        wanted = "a positive, finite number of seconds"
        raise DefinitionError(f"timeout must be {wanted}, not {timeout!r}")
    return float(timeout)
