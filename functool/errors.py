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
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from heapq import nlargest, nsmallest
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functool.approval import ApprovalRequest

MAX_PROBLEMS = 6
MAX_MESSAGE = 4_000
MAX_COMPARED = 30
"""How many known names an unknown name is compared with. One comparison takes about 5 µs."""
_NOUNS = ("a ", "an ", "one of ", "true or ", "null")


def close_names(name: str, known: Iterable[str], count: int = 1) -> list[str]:
    """Return at most `count` of the known names that are most like a name, the closest first.

    These are the names that `difflib.get_close_matches` finds. If there are many, those of a
    similar length with the same pairs of letters are compared. A foreign schema may have 100,000.
    """
    name, known = name[:64], [*known]
    if len(known) > MAX_COMPARED:
        # Names that a model wrote are not cached.
        size, pairs = len(name), _pairs.__wrapped__(name)
        known = nsmallest(2_000, known, key=lambda other: abs(len(other) - size))
        known.sort(key=lambda other: len(pairs & _pairs(other[:150])) / (-size - len(other) or 1))
    rated = ((likeness(other, name), other) for other in known[:MAX_COMPARED])
    alike = [each for each in rated if each[0] >= 0.6]
    return [other for _, other in nlargest(count, alike)] if alike else []


def hint_at(name: str, known: Sequence[str]) -> str:
    """Return the known name that is most like an unknown one, or all of them, as a hint."""
    close = close_names(name, known)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"


def likeness(one: str, other: str) -> float:
    """Return the ratio of two texts as `difflib.SequenceMatcher` computes it, only faster.

    Texts of lengths that make a ratio of 0.6 impossible are not compared: their ratio is 0.
    """
    total = len(one) + len(other)
    if not total:
        return 1.0
    shorter = min(len(one), len(other))
    return 2.0 * _matching(one, other, shorter) / total if 2.0 * shorter / total >= 0.6 else 0.0


def _matching(one: str, other: str, most: int) -> int:
    """Return how many letters match: those of the longest common part, and left and right of it.

    The caller knows that no common part is longer than `most`.
    """
    size = start = at = 0
    length = len(one)
    while at + size < length and size < most:
        if one[at : at + size + 1] in other:
            size, start = size + 1, at
        else:
            at += 1
    end = start + size
    found = other.find(one[start:end])
    matching = size
    if size and start and found:
        matching += _matching(one[:start], other[:found], size)
    if size and end < length and found + size < len(other):
        matching += _matching(one[end:], other[found + size :], size)
    return matching


@lru_cache(maxsize=2_048)
def _pairs(name: str) -> frozenset[str]:
    return frozenset(name[i : i + 2] for i in range(len(name) - 1))


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

    details: Mapping[str, Any] | None = None
    """A class attribute too, for a subclass whose `__init__` does not call this one."""

    def __init__(self, message: str = "", *, details: Mapping[str, Any] | None = None) -> None:
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
        if path and str(expected).startswith(_NOUNS) and not problem.get("own_words"):
            expected = f"expected {expected}"
        lines.append(f"{path}: {expected}{choices}" if path else f"{expected}{choices}")
    if len(problems) > MAX_PROBLEMS:
        lines.append(f"and {len(problems) - MAX_PROBLEMS} more")
    text = "Invalid arguments. " + "; ".join(lines)
    return text if len(text) <= MAX_MESSAGE else text[: MAX_MESSAGE - 1] + "…"
