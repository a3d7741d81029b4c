"""The errors of a journal. All but `Interrupted` are raised before a body runs.

ToolError
├── Interrupted         what ran the body was lost, so nobody knows whether the call took effect
│   └── OutcomeUnknown  an earlier attempt of the call was interrupted inside its body
├── JournalConflict     the call's id is empty, or was used before with other arguments
├── JournalError        the journal cannot be read or written
└── NotRecorded         a replay has no record of the call
"""

from __future__ import annotations

from functool import ToolError


class Interrupted(ToolError):
    """What ran the body was lost, such as its process or machine. The call may have taken effect.

    An executor raises this. A journal then records that the call is `unknown`.
    """


class OutcomeUnknown(Interrupted):
    """An earlier attempt of the call was interrupted inside its body. It may have taken effect.

    `details` has `key`, with which an operator finds the call, and `started`, an ISO 8601 time.
    """

    def __init__(self, key: str, started: str) -> None:
        super().__init__(
            f"{interrupted_text(started)} An operator can settle or reopen it under its key"
            f" {key!r}.",
            details={"key": key, "started": started},
        )


class JournalConflict(ToolError):
    """A call's id is empty, is not valid text, or was used before with other arguments."""


class JournalError(ToolError):
    """A journal cannot be read or written. The body did not run."""


class NotRecorded(ToolError):
    """A replay has no record of the call. The message shows the nearest one."""


def interrupted_text(started: str) -> str:
    """Return what a model reads of a call that was interrupted inside its body."""
    return (
        f"It is unknown whether this call took effect. It was started at {started} and interrupted"
        " before its result was recorded. It was not run again. Find out what came of it before you"
        " rely on it or repeat it."
    )


def conflict_without_id() -> JournalConflict:
    """Return the error for a call without an id."""
    return JournalConflict(
        "The call was not run: it has no id, and without one it cannot be told from another call."
        " The host has to give each call an id of its own."
    )


def conflict_of_arguments(tool: str) -> JournalConflict:
    """Return the error for a call whose id was used before with other arguments."""
    return JournalConflict(
        f"The call was not run: its id was used in this run for another call of {tool!r} with other"
        " arguments. Each call needs an id of its own."
    )


def conflict_of_versions(through: str) -> JournalConflict:
    """Return the error for a call that an older functool recorded without the name of its tool."""
    return JournalConflict(
        f"The call was not run: an older functool recorded a call with this id of {through!r} in"
        " this run, and not which tool it called. So it may have taken effect. Look up what is"
        " recorded, and go on with a new run."
    )


def newer_format(name: str, version: int, known: int) -> JournalError:
    """Return the error for a record that a newer functool wrote, in a format of its own."""
    return JournalError(
        f"{name} has version {version} of the format, and this functool knows version {known}:"
        " use the newer functool that wrote it"
    )
