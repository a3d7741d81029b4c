"""A journal: each call takes effect at most once. Its result can be looked up and replayed.

    journal = Journal("orders.journal")
    tools = journal.once(tools, run="order-17")

The journal is one SQLite file on a local disk. Any number of processes may share it. The journal
wraps the body of a tool, so input guardrails and approvals run first. Then it looks the call up:

    not recorded        ─> record `started` on disk ─> run the body ─> record `done`
    done                ─> return the stored result; the body does not run
    running elsewhere   ─> wait until that process is done
    interrupted         ─> raise OutcomeUnknown, or run a read-only or idempotent body again
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from functools import partial
from typing import Any, Literal, overload
from uuid import uuid4

from functool import DefinitionError, Tool, ToolResult, Toolset
from functool.layers.journal_errors import (
    Interrupted,
    JournalConflict,
    JournalError,
    NotRecorded,
    OutcomeUnknown,
)
from functool.layers.journal_lines import Recording
from functool.layers.journal_once import Keep, Once, entry_of, idempotency_key, is_utf8
from functool.layers.journal_record import outcome_of, text_of
from functool.layers.journal_replay import Around, Replay, tool_from
from functool.layers.journal_store import Row, Store, retry_while_busy
from functool.layers.journal_times import iso, when
from functool.layers.some_tools import OneTool, SameKind, around_each

__all__ = [
    "Interrupted",
    "Journal",
    "JournalConflict",
    "JournalEntry",
    "JournalError",
    "NotRecorded",
    "OutcomeUnknown",
    "idempotency_key",
]

State = Literal["started", "done", "unknown"]


@dataclass(slots=True, kw_only=True)
class JournalEntry:
    """One recorded call.

    `started` and `ended` are times in UTC. `result` is None unless the state is `done`.
    """

    key: str
    run: str
    tool: str
    call_id: str
    arguments: dict[str, Any]
    state: State
    result: ToolResult | None
    started: datetime
    ended: datetime | None


class Journal:
    """A record of calls in one file. With it each call takes effect at most once.

    Args:
        path: The file, on a local disk. A new file is readable by its owner only.
        keep: `keep(result)`, sync or async, returns the part of a result to store. By default the
            whole result is stored. A later answer from the journal holds only the stored part.
            Notes, such as the record of a program in code mode, are stored whole.

    Raises:
        JournalError: The file is corrupt, cannot be written, is not a journal, has a newer format,
            is on a network file system, or is mounted without its directory.
        DefinitionError: `keep` cannot be called.
    """

    def __init__(self, path: str | os.PathLike[str], *, keep: Keep | None = None) -> None:
        if keep is not None and not callable(keep):
            raise DefinitionError(f"keep must be callable, not {type(keep).__name__}")
        self._store = Store(path)
        self._once = Once(self._store, keep)

    def __repr__(self) -> str:
        return f"Journal({self._store.path!r})"

    def close(self) -> None:
        """Close the file. Later calls through this journal fail."""
        self._store.close()

    @overload
    def once(self, tools: OneTool, run: str) -> OneTool: ...
    @overload
    def once(self, tools: SameKind, run: str) -> SameKind: ...  # type: ignore[overload-overlap]
    @overload
    def once(self, tools: Iterable[Tool], run: str) -> list[Tool]: ...

    def once(self, tools: Any, run: str) -> Any:
        """Return the tools, changed so that each call takes effect at most once in a run.

        A tool gives a tool, a toolset gives a toolset. A call is identified by the run, its tool
        and its id. Each call needs an id, and two calls with different arguments need two ids. What
        `call_tool` of a catalogue calls is recorded under the name of the tool that it calls.

        Args:
            tools: A tool, several, or a toolset.
            run: The name of the work that the calls belong to, such as an order or a session. Use
                the same name when the work resumes after a restart.

        Raises:
            DefinitionError: The run is empty or not a string, or something is not a tool.
        """
        _check_run(run)
        return around_each(
            tools,
            lambda tool: self._once.around(tool, run),
            lambda tool, inner: self._once.around(inner, run, through=tool.name),
        )

    async def note(
        self, run: str, name: str, note_id: str, data: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Store JSON data with the calls of a run, and return what is stored under this id.

        The first data stored under an id stays. A note survives the end of the process at once. It
        survives a loss of power once another call has begun. `calls` lists a note as a `done` call
        of a tool called `name`.

        Args:
            run: The run.
            name: The name of a group of notes.
            note_id: The id of the note in its group.
            data: The data; JSON.

        Raises:
            JournalError: It could not be written.
        """
        _check_run(run)
        kept: dict[str, Any] = await self._once.note(run, name, note_id, data)
        return kept

    def replay(self, run: str, tools: Toolset | None = None, *, strict: bool = True) -> Toolset:
        """Return tools that answer from the record of a run, and run no body.

        A call is matched by tool, id and arguments, then by tool and arguments in recorded order.
        Each recorded call answers one call. If that call comes again with the same id, it gets the
        same answer.

        Args:
            run: The run.
            tools: The tools, with their present definitions and guardrails. By default the tools
                are made from the recorded definitions and have no guardrails.
            strict: Whether a call that was not recorded fails. With False it runs for real, and
                is appended to the run.

        Raises:
            JournalError: Nothing was recorded in this run.
            DefinitionError: `strict` is False and there are no `tools` to run.
        """
        _check_run(run)
        if tools is None and not strict:
            raise DefinitionError("strict=False runs calls for real: it needs tools")
        replay = Replay(map(entry_of, self._store.rows(run)))
        if not replay.entries and strict:
            known = self._store.runs()
            close = get_close_matches(run, known, n=3) or known[:10]
            raise JournalError(
                f"nothing is recorded of the run {run!r}; runs: {', '.join(close) or 'none'}"
            )
        if tools is None:
            tools = Toolset(map(tool_from, self._store.definitions(run).values()))

        def replayed(tool: Tool, through: str = "") -> Around:
            again = partial(self._once.around, appending=True, through=through)
            return replay.around(tool, None if strict else again(tool, run))

        replaying: Toolset = around_each(
            tools, replayed, lambda tool, inner: replayed(inner, tool.name)
        )
        return replaying

    def calls(self, *, run: str | None = None, state: State | None = None) -> list[JournalEntry]:
        """Return the recorded calls of one run or of all runs, in order.

        All of them are in memory together, with their results. `each` reads them one at a time.

        Args:
            run: Only calls of this run.
            state: Only calls in this state: `done`, `unknown` (interrupted) or `started`. A started
                call is running, or it was interrupted and may safely run again.

        Raises:
            JournalError: The file cannot be read, or a record in it is damaged.
            ValueError: There is no such state.
        """
        return list(self.each(run=run, state=state))

    def each(self, *, run: str | None = None, state: State | None = None) -> Iterator[JournalEntry]:
        """Yield what `calls` returns. Each call is read when it is asked for.

        A call that is removed meanwhile is left out.

        Raises:
            JournalError: The file cannot be read, or a record in it is damaged.
            ValueError: There is no such state.
        """
        if state not in (None, "started", "done", "unknown"):
            raise ValueError(f"state must be started, done or unknown, not {state!r}")
        for row in self._store.rows(run):
            if state in (None, self._state(row)):
                yield self._shown(row)

    def calls_of(self, run: str, call_id: str) -> list[JournalEntry]:
        """Return the recorded calls with one id, and those inside of them, in order.

        The id of a call inside of another begins with the other's id and a slash. This reads only
        these calls of the run.
        """
        return [self._shown(row) for row in self._store.rows(run, call_id)]

    def settle(self, key: str, result: ToolResult) -> None:
        """Record the result of an unknown call, after somebody has found it out.

        Raises:
            JournalError: There is no such call, or it is running or done.
            TypeError: `result` is not a `ToolResult`.
        """
        if not isinstance(result, ToolResult):
            raise TypeError(f"result must be a ToolResult, not {type(result).__name__}")
        text, mine = text_of(result), uuid4().hex
        self._change(key, lambda attempt: self._store.settle(key, attempt, text, mine))

    def reopen(self, key: str) -> None:
        """Let an unknown call run again. Use it for a call that is known to have had no effect.

        Raises:
            JournalError: There is no such call, or it is running or done.
        """
        self._change(key, lambda attempt: self._store.forget(key, attempt))

    def purge(self, before: datetime) -> int:
        """Remove the calls that ended before a time, and return how many.

        If a removed call comes again, its body runs again. A program in code mode is removed as a
        whole, when nothing has been recorded of it since and none of its calls runs or was
        interrupted. A time without a zone is local time.

        Raises:
            TypeError: `before` is not a datetime.
        """
        if not isinstance(before, datetime):
            raise TypeError(f"before must be a datetime, not {type(before).__name__}")
        return retry_while_busy(lambda: self._store.purge(before.timestamp()))

    def recordings(self, run: str | None = None) -> dict[str, Recording]:
        """Return the recorded calls and definitions by run, as `functool journal export` does."""
        runs = self._store.runs() if run is None else [run]
        return {
            name: Recording(
                self._store.definitions(name), [entry_of(row) for row in self._store.rows(name)]
            )
            for name in runs
        }

    def _state(self, row: Row) -> State:
        """Return the state of a call. An interrupted call is unknown unless it may run again."""
        if row.state == "started" and not row.repeatable and not self._once.is_running(row):
            return "unknown"
        state: Any = row.state
        return state  # type: ignore[no-any-return]

    def _shown(self, row: Row) -> JournalEntry:
        try:
            return JournalEntry(
                key=row.key,
                run=row.run,
                tool=row.tool,
                call_id=row.call_id,
                arguments=json.loads(row.arguments),
                state=self._state(row),
                result=None if row.result is None else outcome_of(row.result).result,
                started=when(row.started),
                ended=None if row.ended is None else when(row.ended),
            )
        except (JournalError, ArithmeticError, OSError, TypeError, ValueError) as error:
            raise JournalError(f"the record of the call {row.key!r} is damaged") from error

    def _change(self, key: str, change: Callable[[str], bool]) -> None:
        """Call `change(attempt)` for the last attempt of an interrupted call."""
        attempt = self._interrupted(key).attempt
        if not retry_while_busy(lambda: change(attempt)):
            raise JournalError(f"the call {key!r} has just changed: look at it again")

    def _interrupted(self, key: str) -> Row:
        """Return an interrupted call.

        Raises:
            JournalError: There is no such call, or it is running or done.
        """
        row = self._store.fetch(key)
        if row is None:
            close = get_close_matches(str(key), self._store.keys(), n=3)
            hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
            raise JournalError(f"there is no call {key!r}{hint}")
        if row.state == "done":
            raise JournalError(f"the call {key!r} is done since {iso(row.ended or 0)}")
        if self._once.is_running(row):
            raise JournalError(f"the call {key!r} is running since {iso(row.started)}")
        return row


def _check_run(run: Any) -> None:
    if not isinstance(run, str) or not run or not is_utf8(run):
        raise DefinitionError(f"run must be a text that names the work, not {run!r}")
