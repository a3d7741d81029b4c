"""Start activities: with a client of the server, or in the workflow that this code runs in."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from temporalio import workflow
from temporalio.client import ActivityFailureError, Client
from temporalio.common import ActivityIDReusePolicy, RetryPolicy
from temporalio.exceptions import (
    ActivityAlreadyStartedError,
    ActivityError,
    ApplicationError,
    TimeoutError,
    TimeoutType,
    is_cancelled_exception,
)
from temporalio.service import RPCError

from functool import Tool

ATTEMPTS = 5
"""How often a call is given to a worker. A body runs again only if that is harmless."""

SLACK = 5.0
"""Seconds beyond its own time limit that a call may take on a worker."""


class Limits(NamedTuple):
    """Limits in seconds: until a worker counts as lost, and for a call with all its attempts."""

    heartbeat: float
    total: float


class Failed(Exception):
    """An activity ended without an outcome.

    `clean` means that no worker began it. `known` means that it had been started before. `started`
    is the ISO 8601 time at which a worker began it.
    """

    def __init__(self, reason: str, *, clean: bool, known: bool, started: str) -> None:
        super().__init__(reason)
        self.clean = clean
        self.known = known
        self.started = started


class Unreachable(Exception):
    """The server could not be asked."""


class Standalone:
    """Starts activities with a client, outside any workflow. Each id is started once."""

    def __init__(self, client: Client, task_queue: str, limits: Limits) -> None:
        self._client = client
        self._task_queue = task_queue
        self._limits = limits

    async def outcome(
        self, tool: Tool, activity: str, request: Mapping[str, Any]
    ) -> tuple[Mapping[str, Any], bool]:
        """Return the outcome of an activity, and whether it had been started before.

        Raises:
            Failed: The activity ended without an outcome.
            Unreachable: The server could not be asked.
        """
        known = False
        try:
            await self._client.start_activity(
                tool.name,
                dict(request),
                id=activity,
                id_reuse_policy=ActivityIDReusePolicy.REJECT_DUPLICATE,
                **_options(tool, self._task_queue, self._limits),
            )
        except ActivityAlreadyStartedError:
            known = True
        except RPCError as error:
            raise Unreachable(f"{error.status.name}: {error.message}") from error
        except RuntimeError as error:  # A lazy client that could not connect.
            raise Unreachable(str(error)) from error
        handle: Any = self._client.get_activity_handle(activity)
        try:
            return await handle.result(), known
        except ActivityFailureError as error:
            raise await self._failed(handle, error.cause, known) from error
        except RPCError as error:
            raise Unreachable(f"{error.status.name}: {error.message}") from error

    async def cancel(self, activity: str) -> None:
        """Ask Temporal to cancel an activity, if it exists."""
        # A task of its own, because anyio cancels again and again, which would end the request.
        await asyncio.shield(asyncio.create_task(self._request_cancel(activity)))

    async def _request_cancel(self, activity: str) -> None:
        handle: Any = self._client.get_activity_handle(activity)
        with suppress(RPCError):  # The activity has ended, or never began.
            await handle.cancel(rpc_timeout=timedelta(seconds=0.8))

    async def _failed(self, handle: Any, cause: BaseException, known: bool) -> Failed:
        try:
            started = (await handle.describe()).last_started_time
        except RPCError as error:
            raise Unreachable(f"{error.status.name}: {error.message}") from error
        clean = started is None or _never_began(cause)
        return Failed(_reason(cause), clean=clean, known=known, started=_iso(started))


class WithinWorkflow:
    """Starts activities of the workflow that this code runs in. Each id is started once."""

    def __init__(self, task_queue: str, limits: Limits) -> None:
        self._task_queue = task_queue
        self._limits = limits
        self._started: dict[str, Any] = {}

    async def outcome(
        self, tool: Tool, activity: str, request: Mapping[str, Any]
    ) -> tuple[Mapping[str, Any], bool]:
        """Return the outcome of an activity, and whether this workflow had started it before.

        Raises:
            CancelledError: The call is being cancelled.
            Failed: The activity ended without an outcome.
        """
        known = activity in self._started
        if not known:
            self._started[activity] = workflow.start_activity(
                tool.name,
                dict(request),
                activity_id=activity,
                **_options(tool, self._task_queue, self._limits),
            )
        try:
            return await self._started[activity], known
        except ActivityError as error:
            # The activity of a cancelled call ends with this error, and not with a CancelledError.
            if is_cancelled_exception(error) and _is_being_cancelled():
                raise asyncio.CancelledError from error
            cause = error.cause or error
            started = _iso(workflow.now())
            clean = _never_began(cause)
            raise Failed(_reason(cause), clean=clean, known=known, started=started) from error

    async def cancel(self, activity: str) -> None:
        """Ask Temporal to cancel an activity, if it exists."""
        if activity in self._started:
            self._started[activity].cancel()


def _options(tool: Tool, task_queue: str, limits: Limits) -> dict[str, Any]:
    longest = limits.total if tool.timeout is None else min(tool.timeout + SLACK, limits.total)
    return {
        "task_queue": task_queue,
        "start_to_close_timeout": timedelta(seconds=longest),
        "schedule_to_close_timeout": timedelta(seconds=limits.total),
        "heartbeat_timeout": timedelta(seconds=limits.heartbeat),
        "retry_policy": RetryPolicy(
            maximum_attempts=ATTEMPTS, non_retryable_error_types=["NotFoundError"]
        ),
    }


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _never_began(cause: Any) -> bool:
    """Whether a failure shows that no body began: no worker took the call, or knows the tool."""
    if isinstance(cause, ApplicationError):
        return bool(cause.type == "NotFoundError")
    return isinstance(cause, TimeoutError) and cause.type is TimeoutType.SCHEDULE_TO_START


def _reason(cause: Any) -> str:
    if isinstance(cause, TimeoutError) and cause.type is not None:
        return f"time limit {cause.type.name.lower()}"
    return f"{getattr(cause, 'type', None) or type(cause).__name__}: {cause}"


def _iso(moment: datetime | None) -> str:
    return "an unknown time" if moment is None else moment.isoformat(timespec="seconds")
