"""The exceptions of functool.

FunctoolError
├── DefinitionError            the author's, at definition
│   └── SchemaError            what has no schema, or no strict one
├── ToolError                  during a call; its message is for the model
│   ├── ArgumentError          the arguments do not fit
│   ├── GuardrailError         a guardrail refused
│   │   └── ApprovalRequired   a person has to agree first
│   ├── ToolTimeoutError       the time limit passed
│   ├── UnknownToolError       no tool has that name
│   └── ToolDisabledError      the tool is switched off here
└── Tripwire                   stops the run: never turned into a result
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functool.approval import ApprovalRequest

MAX_PROBLEMS = 6
MAX_MESSAGE = 4_000
_NOUNS = ("a ", "an ", "one of ", "true or ", "null")


class FunctoolError(Exception):
    """The root of every exception that functool raises of its own."""


class DefinitionError(FunctoolError):
    """A tool was declared wrongly: the author's mistake, raised before any call."""


class SchemaError(DefinitionError):
    """A type has no schema, or no strict one.

    `reasons` holds every reason, each with its remedy.
    """

    def __init__(self, message: str, reasons: Sequence[str] = ()) -> None:
        self.reasons: tuple[str, ...] = tuple(reasons) or (message,)
        super().__init__(message, self.reasons)

    def __str__(self) -> str:
        return str(self.args[0])


class ToolError(FunctoolError):
    """A call failed. The message is for the model; raise it in a body to say what went wrong."""

    def __init__(self, message: str = "", *, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.details = details


class ArgumentError(ToolError):
    """The arguments of a call do not fit the tool.

    `problems` is a tuple of mappings with `path` (`items[2].price`, empty for the whole),
    `expected`, and `choices` where there are some. Neither they nor the message hold a value that
    was sent.
    """

    def __init__(self, problems: Iterable[Mapping[str, Any]] | str) -> None:
        if isinstance(problems, str):
            problems = [{"path": "", "expected": problems}]
        self.problems: tuple[Mapping[str, Any], ...] = tuple(problems)
        super().__init__(_problem_text(self.problems))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.problems,)


class GuardrailError(ToolError):
    """A guardrail refused; the model reads the message.

    `stage` is `"input"` or `"output"`, `guardrail` its name.
    """

    def __init__(
        self,
        message: str = "",
        *,
        stage: str = "",
        guardrail: str = "",
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message, details=details)
        self.stage = stage
        self.guardrail = guardrail


class ApprovalRequired(GuardrailError):
    """A person has to agree before the call may run. `request` is what to show and to approve."""

    def __init__(self, message: str, request: ApprovalRequest) -> None:
        super().__init__(message, stage="input", guardrail="require_approval")
        self.request = request

    @classmethod
    def of(cls, request: ApprovalRequest) -> ApprovalRequired:
        """Return the error for a call that nobody has decided about yet."""
        return cls(f"The call of {request.tool} needs a person's approval first.", request)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.request)


class ToolTimeoutError(ToolError):
    """The time limit of a tool passed. `still_running` says whether the work may go on."""

    def __init__(self, message: str, *, still_running: bool = False) -> None:
        super().__init__(message)
        self.still_running = still_running


class UnknownToolError(ToolError):
    """No tool has the name that was called. `name` is that name, `choices` the known ones."""

    def __init__(self, name: str, choices: Iterable[str] = ()) -> None:
        self.name = name
        self.choices: tuple[str, ...] = tuple(choices)
        name = str(name)
        known = f" Known tools: {', '.join(self.choices[:20])}." if self.choices else ""
        if close := get_close_matches(name[:64], self.choices, n=3):
            known = f" Did you mean {' or '.join(map(repr, close))}?"
        super().__init__(f"There is no tool named {name[:64]!r}.{known}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, self.choices)


class ToolDisabledError(ToolError):
    """The tool exists, but is switched off in this context."""

    @classmethod
    def of(cls, name: str) -> ToolDisabledError:
        """Return the error for the tool of this name."""
        return cls(f"The tool {name!r} is disabled.")


class Tripwire(FunctoolError):
    """Stop the run: raised by a guardrail, and never turned into a result.

    When a `Toolset` raises it, `results` holds the results of the calls of the same turn that have
    one, in order.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.results: list[Any] = []


def _problem_text(problems: Sequence[Mapping[str, Any]]) -> str:
    lines = []
    for problem in problems[:MAX_PROBLEMS]:
        path, expected = problem.get("path", ""), problem.get("expected", "")
        known = problem.get("choices")
        choices = f" (choices: {', '.join(map(str, known))})" if known else ""
        if path and str(expected).startswith(_NOUNS) and not problem.get("own_words"):
            expected = f"expected {expected}"
        lines.append(f"{path}: {expected}{choices}" if path else f"{expected}{choices}")
    if len(problems) > MAX_PROBLEMS:
        lines.append(f"and {len(problems) - MAX_PROBLEMS} more")
    text = "Invalid arguments. " + "; ".join(lines)
    return text if len(text) <= MAX_MESSAGE else text[: MAX_MESSAGE - 1] + "…"
