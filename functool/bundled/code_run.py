"""Run a program: make its calls, and give it their outcomes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from typing import Any

from functool import ApprovalRequest, Context, ToolCall, ToolError, ToolResult
from functool.bundled.code_answer import within
from functool.bundled.code_gate import Gate, Later
from functool.bundled.code_outcome import Memory, did_not_run, lightened, mib, outcome_of, value_of
from functool.bundled.code_record import Outcome, Record, is_same
from functool.bundled.code_stubs import Function
from functool.bundled.code_values import Labels, ValueProblem
from functool.bundled.code_worker import Session, Turn
from functool.call import failure_of
from functool.executors import in_thread
from functool.guardrails.labels import call_labels
from functool.large import in_turn_if, is_large
from functool.layers.journal_errors import OutcomeUnknown
from functool.layers.journal_once import is_inside
from functool.layers.passing import is_passing

_ENDING = ("OutcomeUnknown", "JournalConflict", "JournalError")
"""The failures of a call after which its program cannot go on."""


class TooMuch(ToolError):
    """A program made more calls than it may, or awaits more than it can hold."""


class CannotWait(ToolError):
    """A program would have to wait, and the host would forget its calls meanwhile."""


class AnotherWay(ToolError):
    """A program that continues made another call than the first time."""


@dataclass(slots=True)
class Stopped(Exception):
    """A program cannot go on now. `result` says why."""

    result: ToolResult
    paused: bool = True


@dataclass(slots=True)
class Run:
    """The state of one run of a program.

    `made` lists its calls so far, each as `{"id", "name", "outcome"}`. `sources` are the untrusted
    tools behind their results. `printed` holds the texts that it has printed, up to `max_output`
    characters in all; `unprinted` is how many more there were.
    """

    functions: Mapping[str, Function]
    record: Record
    context: Context[Any]
    call: ToolCall
    max_calls: int
    max_output: int
    memory: Memory
    labels: Labels = field(default_factory=Labels)
    made: list[dict[str, str]] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    printed: list[str] = field(default_factory=list)
    unprinted: int = 0
    _asked: int = 0
    _room: int = 0
    _random: random.Random | None = None
    _returned: dict[str, tuple[ToolCall, ToolResult, bool]] = field(default_factory=dict)
    _one_by_one: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def drive(self, session: Session, code: str) -> Any:
        """Run a program to its end, and return its last value.

        Raises:
            Stopped: The program waits, or a tool took control.
            ToolError: It made too many calls or other calls than before, or its process died.
        """
        self._room = self.max_output
        snapshot, turn = await in_thread(session.start, code, self, self._write)
        while not turn.ended:
            answers = await self._answers(turn)
            snapshot, turn = await in_thread(session.go_on, snapshot, answers, self)
        return turn.value

    # The thread of the interpreter calls these.

    def _write(self, stream: str, text: str) -> None:
        kept = text[: max(0, self._room)]
        self._room -= len(kept)
        self.unprinted += len(text) - len(kept)
        if kept:
            self.printed.append(kept)

    def count_call(self, arguments: Any) -> None:
        """Count a call, and the size of its arguments.

        Raises:
            TooMuch: The program made too many calls.
            ValueProblem: The arguments of its calls are too large together.
        """
        self._asked += 1
        if self._asked > self.max_calls:
            raise TooMuch(f"The program was stopped: it made more than {self.max_calls} calls.")
        self.labels.count(arguments)

    def ask_value(self, what: str, number: Any, arguments: tuple[Any, ...]) -> list[Any]:
        """Answer a method of an `Untrusted` value, or `join`."""
        try:
            return [0, self.labels.ask(what, number, tuple(arguments))]
        except ValueProblem as problem:
            return [2, str(problem)]

    def ask_system(self, name: str, arguments: tuple[Any, ...]) -> Any:
        """Answer the clock and the source of random numbers, with the same answers in each run.

        None refuses the function.
        """
        if name == "datetime.now":  # As Python does, but its own zone is UTC.
            zone: tzinfo | None = arguments[0]
            now = datetime.fromtimestamp(self.record.started, zone or UTC)
            return now if zone else now.replace(tzinfo=None)
        if name == "date.today":
            return datetime.fromtimestamp(self.record.started, UTC).date()
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
        """Answer the calls that a program awaits together, from the record or by running them."""
        answers: dict[int, Any] = {}
        waiting: dict[str, int] = {}
        # In a thread, because the arguments of many calls may take seconds.
        calls = await in_thread(self._new_calls, turn, answers, waiting)
        stopped = await self._run(calls) if calls else None
        # In a thread, because the values of many calls may take seconds.
        answers |= await in_thread(self._known, waiting)
        if stopped is not None:
            raise stopped
        return answers

    def _known(self, waiting: Mapping[str, int]) -> dict[int, Any]:
        """Return the answers to the calls whose outcome is known.

        Raises:
            TooMuch: They take more memory than the program has.
        """
        outcomes = [self.record.outcomes[name] for name in waiting if name in self.record.outcomes]
        if (
            sum(found.get("size", 0) for found in outcomes if not found["sources"])
            > self.memory.most
        ):
            raise TooMuch(
                "The program was stopped: the results of the calls that it awaits together take"
                f" more than {mib(self.memory.most)}. Await fewer at a time."
            )
        return {waiting[found["id"]]: self._answer(found) for found in outcomes}

    def _new_calls(
        self, turn: Turn, answers: dict[int, Any], waiting: dict[str, int]
    ) -> list[ToolCall]:
        """Return the calls without a known outcome.

        Add the number of each valid call to `waiting`, and the error of each other to `answers`.

        Raises:
            AnotherWay: A call is not the one that the record has.
        """
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
            # The run may be cancelled before a new call ends, and before a known one is answered.
            self.made[-1]["outcome"] = "unknown" if known is None else known["outcome"]
            if known is None:
                calls.append(call)
        return calls

    def _call(self, name: str, given: Mapping[str, Any]) -> ToolCall:
        self.made.append(
            {"id": f"{self.call.id}/{len(self.made) + 1}", "name": name, "outcome": "refused"}
        )
        function = self.functions.get(name)
        if function is None:
            raise ValueProblem(f"there is no tool {name!r}")
        self.made[-1]["name"] = function.tool.name
        arguments, sources = self.labels.plain(function.arguments(given))
        if above := call_labels(self.call):  # The program itself came from an untrusted tool.
            sources = {"": list(dict.fromkeys(above)), **sources}
        return ToolCall(
            name=function.tool.name,
            arguments=arguments,
            id=self.made[-1]["id"],
            metadata={"sources": sources} if sources else {},
        )

    async def _run(self, calls: list[ToolCall]) -> Stopped | None:
        """Run calls together, keep their outcomes, and return why the program has to stop."""
        ended: dict[str, Outcome | Stopped] = {}
        try:
            for group, context in self.record.grouped(calls, self.context):
                await self._run_group(group, context, ended)
        except (Exception, asyncio.CancelledError):  # Calls that have ended are not made again.
            if not self.record.survives:  # A journal has them already.
                try:
                    await in_thread(self._end_late, ended)
                except asyncio.CancelledError:  # anyio cancels again and again, so wait no more.
                    self._end_late(ended)
                await self.record.keep(self._sorted(ended.values())[1])
            raise
        stopped, outcomes = self._sorted(ended[call.id] for call in calls)
        await self.record.keep(outcomes)
        for outcome in outcomes:
            self._note(outcome["id"], outcome["outcome"])
        if stopped is not None and stopped.paused:
            self._refuse_to_forget(stopped)
        for outcome in outcomes:
            tool = self.record.tools.get(outcome["name"])
            if tool is not None and tool.settings.takes_control and outcome["outcome"] == "done":
                self._answer(outcome)
                stopped = stopped or Stopped(self._handed(outcome), paused=False)
        return stopped

    def _end_late(self, ended: dict[str, Outcome | Stopped]) -> None:
        """Add what came of the calls whose results nobody has looked at."""
        for call, result, ran in [*self._returned.values()]:
            if call.id not in ended:
                ended[call.id] = self._outcome(call, result, ran)

    async def _run_group(
        self, group: list[ToolCall], context: Context[Any], ended: dict[str, Outcome | Stopped]
    ) -> None:
        """Run calls together, and add to `ended` what came of each, by its id."""
        tools = self.record.tools
        gate = Gate(tools.max_concurrency or 1)

        async def answer(call: ToolCall) -> ToolResult:
            # Take what is needed of a large result at once. Otherwise the results of all calls
            # would be in memory together.
            async with gate:
                result = await tools.call(call, context)
                self._returned[call.id] = call, result, True
                async with self._one_by_one:
                    work = in_turn_if, is_large(result), self._outcome
                    found = await in_thread(*work, call, result)
            ended[call.id] = found
            del self._returned[call.id]
            return result if isinstance(found, Stopped) else lightened(result, found)

        controls = any(
            call.name in tools and tools[call.name].settings.takes_control for call in group
        )
        begun = {} if controls else {i: Later(answer, call) for i, call in enumerate(group)}
        results = await tools.call_all(group, context, begun=begun, gate=gate)
        ran = not controls or len(group) == 1  # Beside others, such a tool refuses all of them.
        for call, result in zip(group, results, strict=True):
            if call.id not in ended:
                self._returned[call.id] = call, result, ran
        await in_thread(self._end_late, ended)
        self._returned.clear()

    def _outcome(self, call: ToolCall, result: ToolResult, ran: bool = True) -> Outcome | Stopped:
        """Return the outcome of a finished call, or why the program has to stop."""
        request = result.metadata.get("approval")
        failed = None if result.error is None else result.error.type
        asks = request if isinstance(request, ApprovalRequest) else None
        waits = asks is not None and failed == "ApprovalRequired"
        refused = not ran or did_not_run(call, result, self.record.tools.get(call.name))
        # Guardrails are asked before the journal is. So a refused call may have run before.
        before = self.record.before(call) if waits or refused else None
        if before is not None and before.state == "unknown":
            self._note(call.id, "unknown")
            unknown = OutcomeUnknown(before.key, before.started.isoformat(timespec="milliseconds"))
            return Stopped(failure_of(unknown))
        if waits and asks is not None:
            self._note(call.id, "waiting")
            return Stopped(self._waits(asks))
        if failed in _ENDING and result.error is not None and self._is_journals(result):
            self._note(call.id, "unknown" if failed == "OutcomeUnknown" else "refused")
            return Stopped(ToolResult(error=result.error))  # With its cause, for a journal.
        outcome = outcome_of(call, result, refused and before is None, self.memory)
        if before is not None:
            outcome["error"] = f"The call took effect before, but now: {outcome['error']}"
        return outcome

    def _sorted(self, ended: Iterable[Outcome | Stopped]) -> tuple[Stopped | None, list[Outcome]]:
        """Return why the program has to stop, if it has to, and the outcomes of finished calls."""
        stopped: Stopped | None = None
        outcomes: list[Outcome] = []
        for found in ended:
            if not isinstance(found, Stopped):
                outcomes.append(found)
            elif stopped is None or "approval" not in found.result.metadata:
                stopped = found
        return stopped, outcomes

    def _refuse_to_forget(self, stopped: Stopped) -> None:
        """Refuse to wait for a person if the calls so far would be made again.

        Raises:
            CannotWait: The host keeps neither the context nor a journal.
        """
        request = stopped.result.metadata.get("approval")
        forgets = is_passing(self.context) or is_inside()
        if request is None or self.record.survives or not forgets:
            return
        tools = self.record.tools
        harmless = {t.name for t in tools.values() if t.settings.read_only or t.settings.idempotent}
        known = self.record.outcomes.values()
        if any(o["outcome"] != "refused" and o["name"] not in harmless for o in known):
            self._note(request.call_id, "refused")
            raise CannotWait(
                f"The program was stopped: its call {request.call_id} of {request.tool} needs a"
                " person's approval, and this host would forget what the program has done until"
                " then. Make that call first, or alone. The host can give a Context of its own, or"
                " code_mode a journal."
            )

    def _is_journals(self, result: ToolResult) -> bool:
        """Whether a failure was raised by the journal, and not named so by a tool."""
        cause = None if result.error is None else result.error.cause
        return type(cause).__module__.startswith("functool.layers.")

    def all_made(self) -> list[dict[str, str]]:
        """Return the calls of this run, and those of earlier runs that it has not come to yet."""
        again = {made["id"] for made in self.made}
        known = [found for found in self.record.outcomes.values() if found["id"] not in again]
        names = ("id", "name", "outcome")
        return [*self.made, *({name: found[name] for name in names} for found in known)]

    def calls_text(self) -> str:
        """Return which calls were made, so that the model does not repeat them."""
        done = [f"{made['id']} {made['name']}: {made['outcome']}" for made in self.all_made()]
        if not done:
            return "It had made no calls."
        more = [f"and {len(done) - 40} more"] if len(done) > 40 else []
        shown = "; ".join([*done[:40], *more])
        return f"Calls that it had made, not to be repeated where done: {shown}"

    def metadata(self, sources: Iterable[str] = ()) -> dict[str, Any]:
        """Return the calls, and the sources of the calls and of an answer, for the host."""
        found = list(dict.fromkeys([*self.sources, *sources]))
        return {"calls": self.all_made(), **({"sources": found} if found else {})}

    def with_calls(self, result: ToolResult) -> ToolResult:
        """Return a result that names the calls: for the host, and in an error for the model."""
        error = result.error
        if error is not None:
            message = f"{error.message}\n{self.calls_text()}"
            error = replace(error, message=message, cause=error.cause)
        return replace(result, error=error, metadata={**result.metadata, **self.metadata()})

    def _note(self, call_id: str, outcome: str) -> None:
        for made in self.made:
            if made["id"] == call_id:
                made["outcome"] = outcome

    def _answer(self, outcome: Outcome) -> list[Any]:
        """Return what the program gets: 0 and data, 1 and a value's number, or 2 and an error."""
        self._note(outcome["id"], outcome["outcome"])
        sources = outcome["sources"]
        self.sources += [name for name in sources if name not in self.sources]
        if outcome["error"] is not None:
            return [2, outcome["error"]]
        if sources:
            return [1, self.labels.keep(value_of(outcome), sources)]
        return [0, value_of(outcome)]

    def _waits(self, request: ApprovalRequest) -> ToolResult:
        message = (
            f"The program waits: its call {request.call_id} of {request.tool} needs a person's"
            " approval first. After that, the same call of the program goes on where it stood."
        )
        return ToolResult.failed(message, type="ApprovalRequired", metadata={"approval": request})

    def _handed(self, outcome: Outcome) -> ToolResult:
        hidden = bool(outcome["sources"])
        shown = {"printed": "".join(self.printed), "value": None if hidden else value_of(outcome)}
        text = within(shown, self.unprinted, self.max_output)
        return replace(ToolResult.of(text), value=shown)
