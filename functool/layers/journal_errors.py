"""The failures of a journal, each before a body runs.

ToolError
├── OutcomeUnknown      an earlier attempt of the call was interrupted inside its body
├── JournalConflict     the call's id is empty, or came before with other arguments
├── JournalError        the journal cannot be read or written
└── NotRecorded         a replay has no record of the call
"""

from __future__ import annotations

from functool import ToolError


class OutcomeUnknown(ToolError):
    """An earlier attempt of the call was interrupted inside its body: it may have taken effect.

    `details` has `key`, by which an operator finds the call, and `started`, an ISO 8601 time.
    """

    def __init__(self, key: str, started: str) -> None:
        super().__init__(
            f"It is unknown whether this call took effect. It was started at {started} and"
            " interrupted before its result was recorded. It was not run again. Find out what came"
            " of it before you rely on it or repeat it. An operator can settle or reopen it under"
            f" its key {key!r}.",
            details={"key": key, "started": started},
        )

    def __reduce__(self) -> tuple[type[OutcomeUnknown], tuple[str, str]]:
        assert self.details is not None
        return type(self), (self.details["key"], self.details["started"])


class JournalConflict(ToolError):
    """The id of a call is empty or no valid text, or stands for other arguments already."""


class JournalError(ToolError):
    """A journal cannot be read or written, so nothing was run."""


class NotRecorded(ToolError):
    """A replay has no record of the call. The message shows the nearest one."""
