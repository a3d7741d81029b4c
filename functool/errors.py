"""The exceptions of functool.

FunctoolError
├── DefinitionError            the author's mistake, raised at definition
│   └── SchemaError            a type has no schema, or no strict schema
├── ToolError                  a call failed; the message is for the model
│   ├── ArgumentError          the arguments do not fit the schema
│   ├── GuardrailError         a guardrail refused the call or the result
│   │   └── ApprovalRequired   a person has to approve the call first
│   ├── ToolTimeoutError       the call took longer than its time limit
│   ├── UnknownToolError       no tool has that name
│   └── ToolDisabledError      the tool is disabled in this context
└── Tripwire                   stops the run; it never becomes a result
"""

from __future__ import annotations

import copyreg
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from functool.approval import ApprovalRequest
from functool.close_names import close_names

logger: logging.Logger = logging.getLogger("functool")
Details: TypeAlias = Mapping[str, Any] | None
MAX_PROBLEMS = 6
MAX_MESSAGE = 4_000
# What the text of an expected value begins with if it reads well after the word "expected".
NOUNS = ("a ", "an ", "one of ", "true or ", "null")


class FunctoolError(Exception):
    """The base class of every exception that functool defines."""

    def __reduce__(self) -> tuple[Any, ...]:
        # By default, pickle passes the message to `__init__`, which may take other arguments.
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


class DefinitionError(FunctoolError):
    """A tool was defined wrongly. This is the author's mistake, and is raised before any call."""


class SchemaError(DefinitionError):
    """A type has no schema, or no strict schema.

    `reasons` lists every reason, each with its remedy.
    """

    def __init__(self, message: str, reasons: Sequence[str] = ()) -> None:
        self.reasons: tuple[str, ...] = tuple(reasons) or (message,)
        super().__init__(message)


class ToolError(FunctoolError):
    """A call failed. The model reads the message. A body may raise it to report a failure."""

    details: Details = None
    """A class attribute too, for a subclass whose `__init__` does not call this one."""

    def __init__(self, message: str = "", *, details: Details = None) -> None:
        super().__init__(message)
        self.details = details


class ArgumentError(ToolError):
    """The arguments of a call do not fit the tool.

    `problems` is a tuple of mappings. Each has a `path` (such as `items[2].price`, or empty for the
    arguments as a whole), what was `expected`, and `choices` if the schema lists them. Neither the
    problems nor the message repeat a value that was sent.
    """

    def __init__(self, problems: Iterable[Mapping[str, Any]] | str) -> None:
        if isinstance(problems, str):
            problems = [{"path": "", "expected": problems}]
        self.problems: tuple[Mapping[str, Any], ...] = tuple(problems)
        super().__init__(_problem_text(self.problems))


class GuardrailError(ToolError):
    """A guardrail refused a call or a result. The model reads the message.

    `stage` is `"input"` or `"output"`. `guardrail` is the name of the guardrail.
    """

    stage: str = ""
    guardrail: str = ""

    def __init__(
        self, message: str = "", *, stage: str = "", guardrail: str = "", details: Details = None
    ) -> None:
        super().__init__(message, details=details)
        self.stage = stage
        self.guardrail = guardrail


class ApprovalRequired(GuardrailError):
    """A person has to approve the call before it may run. `request` is the approval request."""

    def __init__(self, message: str, request: ApprovalRequest) -> None:
        super().__init__(message, stage="input", guardrail="require_approval")
        self.request = request

    @classmethod
    def of(cls, request: ApprovalRequest) -> ApprovalRequired:
        """Return the error for a call that nobody has approved or refused yet."""
        return cls(f"The call of {request.tool} needs a person's approval first.", request)


class ToolTimeoutError(ToolError):
    """A call took longer than its time limit. `still_running`: its body may still be running."""

    def __init__(self, message: str, *, still_running: bool = False) -> None:
        super().__init__(message)
        self.still_running = still_running


class UnknownToolError(ToolError):
    """No tool has the name that was called. `choices` are the names of the known tools."""

    def __init__(self, name: str, choices: Iterable[str] = ()) -> None:
        self.name = name
        self.choices: tuple[str, ...] = tuple(choices)
        more = len(self.choices) - 20
        listed = ", ".join(self.choices[:20]) + (f" and {more:,} more" if more > 0 else "")
        known = f" Known tools: {listed}." if self.choices else ""
        if close := close_names(str(name), self.choices, 3):
            known = f" Did you mean {' or '.join(map(repr, close))}?"
        super().__init__(f"There is no tool named {str(name)[:64]!r}.{known}")


class ToolDisabledError(ToolError):
    """The tool exists, but is disabled in this context."""

    @classmethod
    def of(cls, name: str) -> ToolDisabledError:
        """Return the error for the tool with this name."""
        return cls(f"The tool {name!r} is disabled.")


class Tripwire(FunctoolError):
    """Stops the run. A guardrail raises it, and it never becomes a result.

    When a `Toolset` raises it, `results` holds the results of the other calls of the turn, in
    order. Calls that have no result are left out.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.results: list[Any] = []

    @classmethod
    def inside(cls, error: BaseException) -> Tripwire | None:
        """Return an exception that is a tripwire, or the first one in a group; None without one."""
        found = error.subgroup(cls) if isinstance(error, BaseExceptionGroup) else error
        while isinstance(found, BaseExceptionGroup):
            found = found.exceptions[0]
        return found if isinstance(found, cls) else None


def _problem_text(problems: Sequence[Mapping[str, Any]]) -> str:
    lines = []
    for problem in problems[:MAX_PROBLEMS]:
        path, expected = problem.get("path", ""), problem.get("expected", "")
        known = problem.get("choices")
        choices = f" (choices: {', '.join(map(str, known))})" if known else ""
        if path and str(expected).startswith(NOUNS) and not problem.get("own_words"):
            expected = f"expected {expected}"
        lines.append(f"{path}: {expected}{choices}" if path else f"{expected}{choices}")
    if len(problems) > MAX_PROBLEMS:
        lines.append(f"and {len(problems) - MAX_PROBLEMS} more")
    text = "Invalid arguments. " + "; ".join(lines)
    return text if len(text) <= MAX_MESSAGE else text[: MAX_MESSAGE - 1] + "…"
