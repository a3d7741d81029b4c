"""Keep the outcomes of a program's calls in the context or in a journal, so that it can go on.

A program goes on by running again. Each call whose outcome is known is answered from the record.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol
from uuid import uuid4

from functool import (
    ApprovalRequest,
    Context,
    Decision,
    Tool,
    ToolCall,
    ToolError,
    Toolset,
)
from functool.approval import definition_of
from functool.executors import in_thread
from functool.json_values import same_json

Outcome = dict[str, Any]
"""The outcome of one inner call, as JSON. See `code_outcome.outcome_of`."""

_STATE = "functool.code_mode"


class AnotherProgram(ToolError):
    """A record belongs to another program or to other definitions of the tools, or has no id.

    Nothing was run.
    """


class JournalLike(Protocol):
    """The part of `functool.layers.journal.Journal` that code mode uses."""

    def once(self, tools: Any, run: str) -> Any:
        """Return tools whose calls take effect at most once."""

    def calls_of(self, run: str, call_id: str) -> Sequence[Any]:
        """Return the recorded calls with this id, and those inside of them."""
        ...

    async def note(
        self, run: str, name: str, note_id: str, data: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Keep data beside the calls of a run, and return what is kept under this id."""
        ...


class Record(Protocol):
    """The outcomes of the calls of one program.

    `survives` says whether the record is kept when the context ends, and `waited` whether the
    program has waited before.
    """

    survives: bool
    waited: bool
    tools: Toolset
    outcomes: dict[str, Outcome]
    started: float
    answer: Outcome | None

    async def keep(self, found: Iterable[Outcome]) -> None:
        """Add outcomes. An outcome that another process has added stays."""

    def grouped(
        self, calls: Sequence[ToolCall], context: Context[Any]
    ) -> list[tuple[list[ToolCall], Context[Any]]]:
        """Return calls without an outcome in groups, each with the context for its calls."""
        ...

    def before(self, call: ToolCall) -> Any:
        """Return the journal's entry of a call that is done or was interrupted, or None."""
        ...

    def of_others(self) -> Iterable[Outcome]:
        """Return what other programs keep in the same context, for a program that begins.

        These are the outcomes of programs that wait. There are none for a program that goes on.
        """
        ...

    async def end(self, answer: Outcome) -> Outcome:
        """Keep the final answer. Return the one that was kept first."""
        ...

    def release(self, goes_on: bool) -> None:
        """Mark the program as not running. `goes_on` says whether its call may come again."""


def digest_of(name: str, code: str, tools: Iterable[Tool], stubs: str) -> str:
    """Return the SHA-256 (hex) of a program, its stubs and the definitions of its tools."""
    definitions = [definition_of(tool.schema) for tool in tools]
    text = json.dumps([name, code, stubs, definitions])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def digest_of_arguments(arguments: Any) -> str:
    """Return the SHA-256 (hex) of the JSON of arguments, which may themselves be very large."""
    return hashlib.sha256(json.dumps(arguments, sort_keys=True).encode()).hexdigest()


def is_same(outcome: Outcome, name: str, arguments: Mapping[str, Any]) -> bool:
    """Whether an outcome is that of a call of this tool with these arguments."""
    known = outcome["arguments"]  # An older record has the arguments themselves.
    same = known == digest_of_arguments(arguments) or same_json(known, arguments)
    return bool(outcome["name"] == name) and same


class ContextRecord:
    """A record in the state of a context, which lives as long as the context."""

    answer: Outcome | None = None
    survives: bool = False
    waited: bool = False

    def __init__(self, tools: Toolset, digest: str) -> None:
        self.tools: Toolset = tools
        self.digest = digest
        self.outcomes: dict[str, Outcome] = {}
        self.started: float = time.time()
        self._place: tuple[dict[str, ContextRecord], str] | None = None
        self._running = False

    @classmethod
    def of(
        cls, context: Context[Any], name: str, call_id: str, tools: Toolset, digest: str
    ) -> ContextRecord:
        """Return the record of a call, or a new one.

        Raises:
            AnotherProgram: The call began with another program, or is running already.
        """
        kept = context.state.setdefault(_STATE, {})
        key = f"{name}:{call_id}" if call_id else f"{name}:{digest}"
        record = kept.get(key)
        if record is None:
            record = kept[key] = cls(tools, digest)
        elif record.digest != digest:
            raise AnotherProgram(
                "Nothing was run: a program with this call id waits in this context, and this is"
                " another program, or its tools have changed. Give each call an id of its own."
            )
        elif record._running:
            raise AnotherProgram("Nothing was run: the program of this call is running already.")
        record.tools = tools
        record._place, record._running = (kept, key), True
        return record

    async def keep(self, found: Iterable[Outcome]) -> None:
        """Add outcomes."""
        self.outcomes |= {outcome["id"]: outcome for outcome in found}

    def grouped(
        self, calls: Sequence[ToolCall], context: Context[Any]
    ) -> list[tuple[list[ToolCall], Context[Any]]]:
        """Return all calls as one group."""
        return [([*calls], context)]

    def before(self, call: ToolCall) -> Any:
        """Return None, because a context has no entries of a journal."""

    def of_others(self) -> Iterable[Outcome]:
        """Return the outcomes of the programs that wait in this context, if this one begins."""
        kept = () if self.waited or self._place is None else self._place[0].values()
        waiting = [record for record in kept if not record._running]
        return [outcome for record in waiting for outcome in record.outcomes.values()]

    async def end(self, answer: Outcome) -> Outcome:
        """Return the answer. It is not kept, because the record ends with the program."""
        return answer

    def release(self, goes_on: bool) -> None:
        """Keep the record if the program goes on later. Otherwise remove it.

        The host may pickle a context in which a program waits, and tools cannot always be pickled.
        """
        self._running, self.waited, self.tools = False, goes_on, Toolset()
        if self._place is not None:
            kept, key = self._place
            if goes_on:
                kept[key] = self
            elif kept.get(key) is self:
                del kept[key]


class JournalRecord:
    """A record in a journal, which survives the process and is shared by processes."""

    survives: bool = True
    waited: bool = False

    def __init__(
        self, journal: JournalLike, run: str, name: str, call_id: str, tools: Toolset, digest: str
    ) -> None:
        self.tools: Toolset = journal.once(tools, run)
        self.outcomes: dict[str, Outcome] = {}
        self.started: float = time.time()
        self.answer: Outcome | None = None
        self._journal = journal
        self._run = run
        self._call_id = call_id
        self._digest = digest
        self._name = f"{name}.record"
        self._done: dict[tuple[str, str], dict[str, Any]] = {}

    async def opened(self) -> JournalRecord:
        """Read the record of the program, or begin one.

        Raises:
            AnotherProgram: The call began with another program, or has no id.
            ToolError: The journal cannot be used.
        """
        if not self._call_id:
            raise AnotherProgram("Nothing was run: with a journal, a program's call needs an id.")
        mine = {"program": self._digest, "started": self.started, "opened": uuid4().hex}
        head = await self._put("0", mine)
        if head["program"] != self._digest:
            raise AnotherProgram(
                "Nothing was run: the journal has another program under this call id, or its tools"
                " have changed since. Give each call an id of its own."
            )
        if head["opened"] != mine["opened"]:  # The record was begun before.
            self.started = head["started"]
            await in_thread(self._read)  # Large results take seconds to read.
        return self

    def _read(self) -> None:
        mine = f"{self._call_id}/"
        for entry in self._journal.calls_of(self._run, self._call_id):
            if not entry.call_id.startswith(mine) or entry.state != "done":
                continue
            # The ids of other calls may also begin with this id.
            place = entry.call_id.removeprefix(mine)
            if entry.tool != self._name:
                self._done[entry.tool, entry.call_id] = entry.arguments
            elif place == "end":
                self.answer = entry.arguments["answer"]
            elif place.isdigit() and place != "0":
                self.outcomes[entry.call_id] = entry.arguments

    async def keep(self, found: Iterable[Outcome]) -> None:
        """Add outcomes. If another process was first, its outcome counts."""
        for outcome in found:
            number = outcome["id"].removeprefix(f"{self._call_id}/")
            self.outcomes[outcome["id"]] = await self._put(number, outcome)

    def grouped(
        self, calls: Sequence[ToolCall], context: Context[Any]
    ) -> list[tuple[list[ToolCall], Context[Any]]]:
        """Return two groups: the calls that the journal answers, and the others.

        A process ran the calls of the first group, and ended before it kept their outcomes. So
        their approvals were given, and the context of this group approves them.
        """
        kept = {call.id: was for call in calls if (was := self._recorded(call)) is not None}
        done = [call for call in calls if call.id in kept]
        rest = [call for call in calls if call.id not in kept]

        def approver(request: ApprovalRequest) -> Decision:
            # Use the arguments of the journal. Then the journal answers, and nothing runs.
            was = kept[request.call_id]
            same = same_json(request.arguments, was)
            return Decision(approved=True, arguments=None if same else was)

        done = [replace(call, metadata={**call.metadata, "again": True}) for call in done]
        groups = [(done, context.view(approver=approver)), (rest, context)]
        return [(group, within) for group, within in groups if group]

    def before(self, call: ToolCall) -> Any:
        """Return the entry of a call that is done or was interrupted, or None."""
        ended = ("done", "unknown")
        for entry in self._journal.calls_of(self._run, call.id):
            if entry.call_id == call.id and entry.tool in _names(call) and entry.state in ended:
                return entry
        return None

    def of_others(self) -> Iterable[Outcome]:
        """Return nothing, because a program that waits keeps its outcomes on disk."""
        return ()

    def _recorded(self, call: ToolCall) -> dict[str, Any] | None:
        """Return the arguments with which the journal has a call as done, or None."""
        done = (self._done.get((name, call.id)) for name in _names(call))
        return next((arguments for arguments in done if arguments is not None), None)

    async def end(self, answer: Outcome) -> Outcome:
        """Keep the final answer. If another process was first, return its answer."""
        kept = await self._put("end", {"answer": answer})
        return dict(kept["answer"])

    def release(self, goes_on: bool) -> None:
        """Do nothing, because the journal has everything."""

    async def _put(self, place: str, kept: Mapping[str, Any]) -> dict[str, Any]:
        return await self._journal.note(self._run, self._name, f"{self._call_id}/{place}", kept)


def _names(call: ToolCall) -> list[str]:
    """Return the names of the tools under which the journal may have a call."""
    arguments: Any = call.arguments
    # What `call_tool` of a catalogue calls is recorded under the tool that it calls.
    return [call.name, *([str(arguments.get("name"))] if call.name == "call_tool" else [])]
