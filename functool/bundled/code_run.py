"""One run of a program: its calls take the road, and what came of them goes back to it."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from functool import (
    ApprovalRequest,
    ArgumentError,
    Context,
    GuardrailError,
    ToolCall,
    ToolDisabledError,
    ToolError,
    ToolResult,
    UnknownToolError,
)
from functool.bundled.code_record import Outcome, Record, is_same
from functool.bundled.code_stubs import Function
from functool.bundled.code_values import Labels, ValueProblem, value_of
from functool.bundled.code_worker import Session, Turn
from functool.executors import in_thread

_HOSTS_OWN = (ArgumentError, GuardrailError, ToolDisabledError, UnknownToolError)
_ENDING = ("OutcomeUnknown", "JournalConflict", "JournalError")
_MAX_MESSAGE = 4_000
_CLOCKS = ("datetime.now", "date.today")
_NAME = re.compile(r"[.\[]")
"""What ends the first name in the path of a problem."""


class TooMuch(ToolError):
    """A program made more calls than it may."""


class AnotherWay(ToolError):
    """A program that goes on made another call than before."""


@dataclass(slots=True)
class Stopped(Exception):
    """A program cannot go on now: `result` says why."""

    result: ToolResult
    paused: bool = True


@dataclass(slots=True)
class Run:
    """What one run of a program needs, and what it has done so far."""

    functions: Mapping[str, Function]
    record: Record
    context: Context[Any]
    call: ToolCall
    max_calls: int
    max_output: int
    labels: Labels = field(default_factory=Labels)
    made: list[dict[str, str]] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    printed: list[str] = field(default_factory=list)
    unprinted: int = 0
    _asked: int = 0
    _room: int = 0
    _random: random.Random | None = None

    async def drive(self, session: Session, code: str) -> Any:
        """Run a program to its end, and return its last value.

        Raises:
            Stopped: It waits, or has handed over control.
            ToolError: It made too many calls, took another way, or its process died.
        """
        self._room = self.max_output
        snapshot, turn = await in_thread(session.start, code, self, self._write)
        while not turn.ended:
            answers = await self._answers(turn)
            snapshot, turn = await in_thread(session.go_on, snapshot, answers, self)
        return turn.value

    # What the thread of the interpreter asks.

    def _write(self, stream: str, text: str) -> None:
        kept = text[: max(0, self._room)]
        self._room -= len(kept)
        self.unprinted += len(text) - len(kept)
        if kept:
            self.printed.append(kept)

    def count_call(self) -> None:
        """Count a call.

        Raises:
            TooMuch: It is one too many.
        """
        self._asked += 1
        if self._asked > self.max_calls:
            raise TooMuch(f"The program was stopped: it made more than {self.max_calls} calls.")

    def ask_value(self, what: str, number: Any, arguments: tuple[Any, ...]) -> list[Any]:
        """Answer a method of an `Untrusted` value, or `join`."""
        try:
            return [0, self.labels.ask(what, number, tuple(arguments))]
        except ValueProblem as problem:
            return [2, str(problem)]

    def ask_system(self, name: str, arguments: tuple[Any, ...]) -> Any:
        """Answer the clock and the source of random numbers, the same in each run.

        None is a refusal.
        """
        if name in _CLOCKS:
            return datetime.fromtimestamp(self.record.started, UTC)
        if name == "time.time":
            return self.record.started
        if (
            name == "os.urandom"
            and arguments
            and type(arguments[0]) is int
            and arguments[0] < 65536
        ):
            self._random = self._random or random.Random(f"{self.record.started}:{self.call.id}")
            return self._random.randbytes(arguments[0])
        return None

    # The calls of one turn.

    async def _answers(self, turn: Turn) -> dict[int, Any]:
        """Answer calls that a program waits for together, from the record or by running them."""
        answers: dict[int, Any] = {}
        waiting: dict[str, int] = {}
        calls: list[ToolCall] = []
        for number, (name, given) in sorted(turn.calls.items()):
            try:
                call = self._call(name, given)
            except ValueProblem as problem:
                answers[number] = [2, str(problem)]
                continue
            known = self.record.outcomes.get(call.id)
            if known is not None and not is_same(known, call.name, dict(call.arguments)):  # type: ignore[arg-type]
                raise AnotherWay(
                    f"The program was stopped: call {call.id} is not the one that it made before"
                    " it waited."
                )
            waiting[call.id] = number
            if known is None:
                calls.append(call)
        stopped = await self._run(calls) if calls else None
        for call_id, number in waiting.items():
            if (outcome := self.record.outcomes.get(call_id)) is not None:
                answers[number] = self._answer(outcome)
        if stopped is not None:
            raise stopped
        return answers

    def _call(self, name: str, given: Mapping[str, Any]) -> ToolCall:
        self.made.append(
            {"id": f"{self.call.id}/{len(self.made) + 1}", "name": name, "outcome": "refused"}
        )
        function = self.functions.get(name)
        if function is None:
            raise ValueProblem(f"there is no tool {name!r}")
        self.made[-1]["name"] = function.tool.name
        arguments, sources = self.labels.plain(function.arguments(given))
        above = [
            name for names in (self.call.metadata.get("sources") or {}).values() for name in names
        ]
        if above:  # The program itself came from somewhere.
            sources = {"": list(dict.fromkeys(above)), **sources}
        return ToolCall(
            name=function.tool.name,
            arguments=arguments,
            id=self.made[-1]["id"],
            metadata={"sources": sources} if sources else {},
        )

    async def _run(self, calls: list[ToolCall]) -> Stopped | None:
        """Run calls together, keep what came of them, and return why the program has to stop."""
        await self.record.before(calls, self.context)
        results = await self.record.tools.call_all(calls, self.context)
        stopped: Stopped | None = None
        outcomes: list[Outcome] = []
        for call, result in zip(calls, results, strict=True):
            request = result.metadata.get("approval")
            failed = None if result.error is None else result.error.type
            if isinstance(request, ApprovalRequest) and failed == "ApprovalRequired":
                self._note(call.id, "waiting")
                stopped = stopped or Stopped(self._waits(request))
            elif failed in _ENDING and result.error is not None and self._is_journals(result):
                self._note(call.id, "unknown" if failed == "OutcomeUnknown" else "refused")
                stopped = Stopped(self._ended(result))
            else:
                outcomes.append(outcome_of(call, result))
        await self.record.keep(outcomes)
        for outcome in outcomes:
            tool = self.record.tools.get(outcome["name"])
            if tool is not None and tool.settings.takes_control and outcome["outcome"] == "done":
                self._answer(outcome)
                stopped = stopped or Stopped(self._handed(outcome), paused=False)
        return stopped

    def _is_journals(self, result: ToolResult) -> bool:
        """Whether a failure was raised by the journal, and not named so by a tool."""
        cause = None if result.error is None else result.error.cause
        return type(cause).__module__.startswith("functool.layers.")

    def _note(self, call_id: str, outcome: str) -> None:
        for made in self.made:
            if made["id"] == call_id:
                made["outcome"] = outcome

    def _answer(self, outcome: Outcome) -> list[Any]:
        """Return what a program gets: 0 and data, 1 and a label's number, or 2 and a text."""
        self._note(outcome["id"], outcome["outcome"])
        sources = outcome["sources"]
        self.sources += [name for name in sources if name not in self.sources]
        if outcome["error"] is not None:
            return [2, outcome["error"]]
        if sources:
            return [1, self.labels.keep(outcome["value"], sources)]
        return [0, outcome["value"]]

    def _waits(self, request: ApprovalRequest) -> ToolResult:
        message = (
            f"The program waits: its call {request.call_id} of {request.tool} needs a person's"
            " approval first. After that, the same call of the program goes on where it stood."
        )
        return ToolResult.failed(message, type="ApprovalRequired", metadata={"approval": request})

    def _ended(self, result: ToolResult) -> ToolResult:
        assert result.error is not None
        failure = result.error
        return ToolResult.failed(failure.message, type=failure.type, details=failure.details)

    def _handed(self, outcome: Outcome) -> ToolResult:
        hidden = bool(outcome["sources"])
        shown = {"printed": "".join(self.printed), "value": None if hidden else outcome["value"]}
        return ToolResult.of(shown)


def outcome_of(call: ToolCall, result: ToolResult) -> Outcome:
    """Return what came of a call, as JSON.

    `outcome` is `done`, `refused` (it did not run) or `failed`. The words of a failure are hidden
    where a label is: somebody else may have written them.
    """
    sources = [str(name) for name in result.metadata.get("sources", ())]
    error, outcome, value = None, "done", None
    if result.error is not None:
        own = isinstance(result.error.cause, _HOSTS_OWN)
        outcome = "refused" if own else "failed"
        if not sources or (own and not _may_quote(call, result.error.cause)):
            error = f"{result.error.type}: {result.error.message}"[:_MAX_MESSAGE]
        elif own:
            labelled = ", ".join(pointer[1:] for pointer in call.metadata["sources"])[:200]
            error = (
                f"{result.error.type}: {call.name} refused its arguments. Why is hidden: it may"
                f" repeat what is untrusted in them, at {labelled or 'any place'}."
            )
        else:
            error = (
                f"{call.name} failed. What it said is hidden, for it comes from {_names(sources)}."
            )
    else:
        value = value_of(result)
    return {
        "id": call.id,
        "name": call.name,
        "arguments": json.loads(json.dumps(call.arguments)),
        "outcome": outcome,
        "error": error,
        "value": value,
        "sources": sources,
    }


def _may_quote(call: ToolCall, error: BaseException | None) -> bool:
    """Whether an error of the host's may name what is untrusted in a call: a key, or a tool."""
    labelled = [pointer.split("/")[1:2] for pointer in call.metadata.get("sources") or {}]
    if not isinstance(error, ArgumentError):
        return bool(labelled) and isinstance(error, UnknownToolError)
    tops = [_NAME.split(problem.get("path", ""), maxsplit=1)[0] for problem in error.problems]
    trusted = [top for top in tops if top in call.arguments and [top] not in labelled]
    return bool(labelled) and ([] in labelled or len(trusted) < len(tops))


def _names(names: Iterable[str]) -> str:
    return ", ".join(names)
