"""What a program's calls came to: kept in the context, or in a journal, so that it can go on.

A program goes on by running again: each call whose outcome is known is answered from the record.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from functool import (
    ApprovalRequest,
    ArgumentError,
    Context,
    SchemaTool,
    Tool,
    ToolCall,
    ToolError,
    ToolResult,
    Toolset,
    ToolSettings,
)
from functool.approval import definition_of, same_json

Outcome = dict[str, Any]
"""What came of one inner call, as JSON: see `code_run.outcome_of`."""

_STATE = "functool.code_mode"


class AnotherProgram(ToolError):
    """A record belongs to another program, or to other definitions of the tools.

    Nothing was run.
    """


class JournalLike(Protocol):
    """The part of `functool.layers.journal.Journal` that code mode uses."""

    def once(self, tools: Any, run: str) -> Any:
        """Return tools whose calls take effect at most once."""

    def calls(self, *, run: str | None = None) -> Sequence[Any]:
        """Return the recorded calls of a run."""
        ...


class Record(Protocol):
    """What is known of the calls of one program."""

    tools: Toolset
    outcomes: dict[str, Outcome]
    started: float
    answer: Outcome | None

    async def keep(self, found: Iterable[Outcome]) -> None:
        """Add outcomes; one that somebody else has added stays."""

    async def before(self, calls: Sequence[ToolCall], context: Context[Any]) -> None:
        """Prepare calls that have no outcome yet."""

    async def end(self, answer: Outcome) -> Outcome:
        """Keep the last answer, and return the one that counts."""
        ...

    def release(self, paused: bool) -> None:
        """Say that nobody runs the program now."""


def digest_of(name: str, code: str, tools: Iterable[Tool], stubs: str) -> str:
    """Return the SHA-256 (hex) of a program, its stubs and the definitions of its tools."""
    definitions = [definition_of(tool.schema) for tool in tools]
    text = json.dumps([name, code, stubs, definitions])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def is_same(outcome: Outcome, name: str, arguments: Mapping[str, Any]) -> bool:
    """Whether an outcome is that of a call of this tool with these arguments."""
    return bool(outcome["name"] == name) and same_json(outcome["arguments"], arguments)


class ContextRecord:
    """A record in the state of a context: it lives as long as that."""

    answer: Outcome | None = None

    def __init__(self, tools: Toolset, digest: str) -> None:
        self.tools = tools
        self.digest = digest
        self.outcomes: dict[str, Outcome] = {}
        self.started: float = time.time()
        self._place: tuple[dict[str, ContextRecord], str] | None = None
        self._running = False

    @classmethod
    def of(
        cls, context: Context[Any], name: str, call_id: str, tools: Toolset, digest: str
    ) -> ContextRecord:
        """Return the record of a call, a new one where there is none.

        Raises:
            AnotherProgram: The call began with another program, or is running.
        """
        kept = context.state.setdefault(_STATE, {})
        key = f"{name}:{call_id}" if call_id else f"{name}:{digest}"
        record = kept.get(key)
        if record is None:
            record = cls(tools, digest)
            if call_id:
                kept[key] = record
        elif record.digest != digest:
            raise AnotherProgram(
                "Nothing was run: a program with this call id waits in this context, and this is"
                " another program, or its tools have changed. Give each call an id of its own."
            )
        elif record._running:
            raise AnotherProgram("Nothing was run: the program of this call id is running already.")
        record.tools = tools
        record._place, record._running = (kept, key), True
        return record

    async def keep(self, found: Iterable[Outcome]) -> None:
        """Add outcomes."""
        self.outcomes |= {outcome["id"]: outcome for outcome in found}

    async def before(self, calls: Sequence[ToolCall], context: Context[Any]) -> None:
        """Prepare nothing."""

    async def end(self, answer: Outcome) -> Outcome:
        """Return the answer: the record is forgotten when the program has ended."""
        return answer

    def release(self, paused: bool) -> None:
        """Keep the record of a program that waits, and forget that of another one."""
        self._running = False
        if self._place is not None:
            kept, key = self._place
            if paused:
                kept[key] = self
            elif kept.get(key) is self:
                del kept[key]


class JournalRecord:
    """A record in a journal: it survives the process, and processes share it."""

    def __init__(
        self, journal: JournalLike, run: str, name: str, call_id: str, tools: Toolset, digest: str
    ) -> None:
        self.tools: Toolset = journal.once(tools, run)
        self.outcomes: dict[str, Outcome] = {}
        self.started: float = time.time()
        self.answer: Outcome | None = None
        self._plain = tools
        self._journal = journal
        self._run = run
        self._call_id = call_id
        self._digest = digest
        self._name = f"{name}.record"
        keeper = SchemaTool(
            self._name,
            "Keep what a program has reached.",
            {"type": "object", "properties": {"kept": {"type": "string"}}, "required": ["kept"]},
            lambda arguments: None,
            settings=ToolSettings(idempotent=True),
            max_argument_bytes=None,
        )
        self._keeper: Tool = journal.once(keeper, run)
        self._done: dict[tuple[str, str], dict[str, Any]] = {}

    async def opened(self) -> JournalRecord:
        """Read what is known, and bind the record to the program.

        Raises:
            AnotherProgram: The call began with another program, or has no id.
            ToolError: The journal cannot be used.
        """
        if not self._call_id:
            raise AnotherProgram("Nothing was run: with a journal, a program's call needs an id.")
        head = await self._put(f"{self._call_id}/0", {"program": self._digest})
        if head["program"] != self._digest:
            raise AnotherProgram(
                "Nothing was run: the journal has another program under this call id, or its tools"
                " have changed since. Give each call an id of its own."
            )
        self._read()
        return self

    def _read(self) -> None:
        mine = f"{self._call_id}/"
        for entry in self._journal.calls(run=self._run):
            if not entry.call_id.startswith(mine):
                continue
            if entry.tool != self._name:
                if entry.state == "done":
                    self._done[entry.tool, entry.call_id] = entry.arguments
                continue
            kept = json.loads(entry.arguments["kept"])
            if "program" in kept:
                self.started = entry.started.timestamp()
            elif "answer" in kept:
                self.answer = kept["answer"]
            else:
                self.outcomes[kept["id"]] = kept

    async def keep(self, found: Iterable[Outcome]) -> None:
        """Add outcomes; where another process was first, its outcome counts."""
        for outcome in found:
            self.outcomes[outcome["id"]] = await self._put(outcome["id"], outcome)

    async def before(self, calls: Sequence[ToolCall], context: Context[Any]) -> None:
        """Approve what a person has approved: a call that is in the journal as done.

        The process ended between the call and the record of its outcome.
        """
        for call in calls:
            done = self._done.get((call.name, call.id))
            tool = self._plain.get(call.name)
            if done is None or tool is None or not tool.requires_approval:
                continue
            try:
                asked = tool.bind(call.arguments).arguments
            except ArgumentError:
                continue
            sources = call.metadata.get("sources")
            definition = definition_of(tool.schema)
            request = ApprovalRequest.of(tool.name, definition, asked, call.id, sources)
            context.approve(request, arguments=None if same_json(asked, done) else done)

    async def end(self, answer: Outcome) -> Outcome:
        """Keep the last answer; where another process was first, return that one's."""
        kept = await self._put(f"{self._call_id}/end", {"answer": answer})
        return dict(kept["answer"])

    def release(self, paused: bool) -> None:
        """Do nothing: all is in the journal."""

    async def _put(self, call_id: str, kept: Mapping[str, Any]) -> dict[str, Any]:
        """Keep something under an id, and return what is there.

        Raises:
            ToolError: The journal cannot be written.
        """
        arguments = {"kept": json.dumps(kept, sort_keys=True)}
        call = ToolCall(name=self._name, arguments=arguments, id=call_id)
        result: ToolResult = await self._keeper.invoke(call)
        if result.error is None:
            return dict(kept)
        if result.error.type == "JournalConflict":
            for entry in self._journal.calls(run=self._run):
                if (entry.tool, entry.call_id) == (self._name, call_id):
                    return dict(json.loads(entry.arguments["kept"]))
        failure = result.error
        raise ToolError(failure.message, details=failure.details) from failure.cause
