"""Wrap the body of a durable tool on a host: have Temporal run the call instead of the body.

A call has a chain of activities. Their ids are the call's key, then the key with `~2`, `~3` and so
on. The next activity is started only after the one before has ended and certainly ran no body. That
is so if a guardrail of the worker refused, a person had to be asked, or no worker took the call. So
only one activity of the chain runs a body.
"""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any, Protocol

from functool import (
    ApprovalRequest,
    Context,
    Tool,
    ToolCall,
    ToolError,
    ToolResult,
)
from functool.integrations.far_approval import Agreements
from functool.integrations.temporal_engines import Failed, Unreachable
from functool.integrations.temporal_outcome import (
    OutcomeUnknown,
    Request,
    request_of,
    result_of,
)
from functool.layers.journal_errors import conflict_of_arguments, conflict_without_id
from functool.layers.journal_once import key_of
from functool.layers.journal_replay import as_interrupted


class Engine(Protocol):
    """Starts activities and waits for them."""

    async def outcome(self, tool: Tool, activity: str, request: Any) -> tuple[Any, bool]:
        """Return the outcome of an activity, and whether it had been started before."""
        ...

    async def cancel(self, activity: str) -> None:
        """Ask Temporal to cancel an activity, if it exists."""


class Host:
    """Runs the calls of one tool as activities."""

    def __init__(self, tool: Tool, engine: Engine, run: str) -> None:
        self._tool = tool
        self._engine = engine
        self._run = run
        self._repeatable = bool(tool.settings.read_only or tool.settings.idempotent)

    async def around(self, call: ToolCall, context: Context[Any], proceed: Any) -> ToolResult:
        """Answer a call from the activity that ran it, or start one.

        Raises:
            JournalConflict: The call has no id, or the id was used before with other arguments.
            OutcomeUnknown: The body was interrupted.
            Tripwire: The worker raised one.
            ToolError: The call was not run, or the server cannot be reached.
        """
        if not isinstance(call.id, str) or not call.id:
            raise conflict_without_id()
        # No key ends like the id of a later activity of another call.
        key = key_of(self._run, self._tool.name, call.id).replace("~", "%7E")
        request = request_of(self._tool, call, self._run)
        agreements = Agreements(call, context)
        for link in count(1):
            activity = key if link == 1 else f"{key}~{link}"
            answer = await self._link(activity, request, agreements)
            if answer is not None:
                return answer
        raise AssertionError  # Never reached: `count` has no end.

    async def _link(
        self, activity: str, request: Request, agreements: Agreements
    ) -> ToolResult | None:
        """Return the answer of one activity of the chain, or None to try the next one."""
        request["approved"] = agreements.digests
        try:
            outcome, known = await self._engine.outcome(self._tool, activity, request)
        except asyncio.CancelledError:
            await self._engine.cancel(activity)
            raise
        except Unreachable as error:
            raise ToolError(
                f"Temporal could not be reached ({error}), so it is unknown whether this call was"
                " run. The same call with the same id finds out, and runs nothing twice."
            ) from error
        except Failed as failed:
            self._go_on_after(failed, activity)
            return None
        text, state = outcome["result"], outcome["state"]
        if state == "refused":
            if known:
                return None
            result = result_of(text, activity, known)
            asked = result.metadata.get("approval")
            if not isinstance(asked, ApprovalRequest) or not await agreements.add(asked):
                return result
            return None
        if outcome["digest"] != request["digest"]:
            raise conflict_of_arguments(self._tool.name)
        if state == "unknown" and (known or text is None):
            if self._repeatable:
                return None
            raise OutcomeUnknown(activity, outcome["started"])
        result = result_of(text, activity, known)
        return as_interrupted(result) if state == "unknown" and result.is_error else result

    def _go_on_after(self, failed: Failed, activity: str) -> None:
        """Go on after an activity without an outcome, if that is harmless. Raise otherwise.

        Raises:
            OutcomeUnknown: It may have taken effect.
            ToolError: It was not run, or failed as often as it may.
        """
        harmless = failed.clean or self._repeatable
        if not harmless:
            raise OutcomeUnknown(activity, failed.started) from failed
        if failed.known:
            return  # The activity failed for an earlier call. This call may start another one.
        end = "The call was not run" if failed.clean else "The call was interrupted each time"
        raise ToolError(f"{end} ({failed}). It may be called again.") from failed
