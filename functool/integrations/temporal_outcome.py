"""What travels between a host and a worker of Temporal: JSON objects, and what they mean.

A request is `{"name", "arguments", "id", "run", "digest", "approved", "sources"}`. An outcome has
the request's `digest` and a `state`:

    done      the body ended; `result` is what came of the call
    refused   no body was begun; `result` says why. The same call may run later
    unknown   a body was begun and interrupted at `started`; `result` where the worker had one
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Literal, TypedDict

from functool import ApprovalRequest, Context, Tool, ToolCall, ToolError, ToolResult
from functool.call import changed
from functool.integrations.far_approval import approved_digest
from functool.layers.journal_errors import OutcomeUnknown as JournalOutcomeUnknown
from functool.layers.journal_record import failure_from, outcome_of, text_of

MAX_PAYLOAD = 1_900_000
"""Bytes of a request or an outcome.

A server refuses more than 2 MiB unless it is told otherwise.
"""


class Request(TypedDict):
    """One call on its way to a worker."""

    name: str
    arguments: Any
    id: str
    run: str
    digest: str
    approved: str
    sources: dict[str, list[str]]


class Outcome(TypedDict):
    """What came of a request."""

    state: Literal["done", "refused", "unknown"]
    digest: str
    result: str | None
    started: str


class OutcomeUnknown(JournalOutcomeUnknown):
    """A worker was lost, or stopped, inside the body of the call: it may have taken effect.

    `details` has `key`, the id of the activity, and `started`, an ISO 8601 time.
    """

    def __init__(self, key: str, started: str) -> None:
        ToolError.__init__(
            self,
            f"It is unknown whether this call took effect. It was started at {started} and"
            " interrupted before its result was recorded. It was not run again. Find out what came"
            f" of it before you rely on it or repeat it. Its activity in Temporal is {key!r}.",
            details={"key": key, "started": started},
        )


def request_of(tool: Tool, call: ToolCall, context: Context[Any], run: str) -> Request:
    """Return the request of a call with canonical arguments.

    Raises:
        ToolError: The arguments cannot travel.
    """
    sources = call.metadata.get("sources") or {}
    arguments: Any = call.arguments
    request = Request(
        name=tool.name,
        arguments=tool.sent_form(arguments),
        id=call.id,
        run=run,
        digest=sha256(_json(arguments).encode()).hexdigest(),
        approved=approved_digest(call, context),
        sources={str(place): [str(name) for name in names] for place, names in sources.items()},
    )
    if (size := len(_json(request).encode())) > MAX_PAYLOAD:
        raise ToolError(
            f"The call was not run: its arguments have {size:,} bytes, and Temporal carries"
            f" {MAX_PAYLOAD:,}. Store the data elsewhere and pass where it is."
        )
    return request


def outcome_for(
    request: Request, state: Literal["done", "refused", "unknown"], result: Any, started: str = ""
) -> Outcome:
    """Return the outcome of a request: its result, or the exception that left its road."""
    text = text_of(*failure_from(result)) if isinstance(result, Exception) else text_of(result)
    outcome = Outcome(
        state=state, digest=request["digest"], result=text, started=started or now_text()
    )
    if (size := len(_json(outcome).encode())) > MAX_PAYLOAD:
        large = ToolResult.failed(
            f"The call took effect, but its result has {size:,} bytes, and Temporal carries"
            f" {MAX_PAYLOAD:,}. Let the tool store it elsewhere and return where it is.",
            type="ResultTooLarge",
        )
        outcome["result"] = text_of(large)
    return outcome


def unknown_outcome(request: Request, started: str) -> Outcome:
    """Return the outcome of a call that an earlier attempt had begun."""
    return Outcome(state="unknown", digest=request["digest"], result=None, started=started)


def result_of(text: str, activity: str, stored: bool) -> ToolResult:
    """Return the result in an outcome, marked with its activity.

    Raises:
        Tripwire: The worker raised one.
    """
    outcome = outcome_of(text)
    if outcome.error is not None:
        raise outcome.error
    metadata = {**outcome.result.metadata, "temporal": {"activity": activity, "stored": stored}}
    if isinstance(asked := metadata.get("approval"), Mapping):
        metadata["approval"] = ApprovalRequest.from_json(json.dumps(asked))
    return changed(outcome.result, metadata=metadata)


def now_text() -> str:
    """Return the time as ISO 8601 in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
