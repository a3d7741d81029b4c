"""Write and read the JSON objects that travel between a host and a worker of Temporal.

A request is `{"name", "arguments", "id", "run", "digest", "approved", "sources"}`. An outcome has
the request's `digest` and a `state`:

    done      The body ended. `result` is the result of the call.
    refused   The body did not begin. `result` says why. The same call may run later.
    unknown   The body began at `started` and was interrupted. The worker may have had a `result`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Literal, TypedDict

from functool import ApprovalRequest, Tool, ToolCall, ToolError, ToolResult
from functool.approval import defaults_of
from functool.call import changed
from functool.layers.journal_errors import OutcomeUnknown as JournalOutcomeUnknown
from functool.layers.journal_errors import interrupted_text
from functool.layers.journal_record import failure_from, outcome_of, text_of
from functool.layers.journal_replay import said

MAX_PAYLOAD = 1_900_000
"""The most bytes of a request or an outcome. By default a server refuses more than 2 MiB."""

_EFFECTS = {
    "done": "The call took effect",
    "refused": "The call was not run",
    "unknown": "It is unknown whether the call took effect",
}


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
    """The outcome of a request."""

    state: Literal["done", "refused", "unknown"]
    digest: str
    result: str | None
    started: str


class OutcomeUnknown(JournalOutcomeUnknown):
    """A worker was lost or stopped inside the body of the call. It may have taken effect.

    `details` has `key`, the id of the activity, and `started`, an ISO 8601 time.
    """

    def __init__(self, key: str, started: str) -> None:
        ToolError.__init__(
            self,
            f"{interrupted_text(started)} Its activity in Temporal is {key!r}.",
            details={"key": key, "started": started},
        )


def request_of(tool: Tool, call: ToolCall, run: str) -> Request:
    """Return the request of a call with canonical arguments.

    Raises:
        ToolError: The arguments are too large.
    """
    sources = call.metadata.get("sources") or {}
    arguments: Any = call.arguments
    request = Request(
        name=tool.name,
        arguments=tool.sent_form(arguments),
        id=call.id,
        run=run,
        digest=sha256(said(arguments, defaults_of(tool.schema)).encode()).hexdigest(),
        approved="",
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
    """Return the outcome of a request, made from its result or from the exception of its call."""
    text = text_of(*failure_from(result)) if isinstance(result, Exception) else text_of(result)
    outcome = Outcome(
        state=state, digest=request["digest"], result=text, started=started or now_text()
    )
    if (size := len(_json(outcome).encode())) > MAX_PAYLOAD:
        large = ToolResult.failed(
            f"{_EFFECTS[state]}, but its result has {size:,} bytes, and Temporal carries"
            f" {MAX_PAYLOAD:,}. Store large data elsewhere and pass where it is.",
            type="ResultTooLarge",
        )
        outcome["result"] = text_of(large)
    return outcome


def unknown_outcome(request: Request, started: str) -> Outcome:
    """Return the outcome of a call that an earlier attempt had begun."""
    return Outcome(state="unknown", digest=request["digest"], result=None, started=started)


def result_of(text: str, activity: str, stored: bool) -> ToolResult:
    """Return the result in an outcome. Its metadata names the activity.

    Raises:
        Exception: The call raised on the worker, for example a `Tripwire`.
    """
    outcome = outcome_of(text)
    if outcome.error is not None:
        raise outcome.error
    mark: dict[str, Any] = {"activity": activity, "stored": stored}
    if outcome.is_text:
        mark["value_is_text"] = True
    metadata = {**outcome.result.metadata, "temporal": mark}
    if outcome.result.is_error and isinstance(asked := metadata.get("approval"), Mapping):
        with suppress(ValueError):  # The author's own metadata may hold something else there.
            metadata["approval"] = ApprovalRequest.from_json(json.dumps(asked))
    return changed(outcome.result, metadata=metadata)


def now_text() -> str:
    """Return the time as ISO 8601 in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
