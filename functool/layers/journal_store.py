"""The file of a journal: SQLite, its checks, and one statement for each change of a call's state.

A process may die between any two of them:

    fetch                nothing is written: the call was not begun, or somebody else's stands
    start, take_over     durable (`synchronous=FULL`) before the body. Killed before: not begun.
                         Killed after: `started` without a living owner, which is `unknown`
    note                 lost with the power, and only if no call began after it
    finish               lost with the power, but not with the process: then the call is `unknown`
    interrupt            lost: the lease runs out, and the call is `unknown`
    forget               lost: the call is `unknown`, although it only paused
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from functool.layers.journal_errors import JournalError
from functool.layers.journal_file import (
    OPEN_SECONDS,
    Busy,
    journal_error,
    open_database,
    refuse_network,
)

P = ParamSpec("P")
T = TypeVar("T")


class Row(NamedTuple):
    """One call as the file has it. Times are seconds since the epoch."""

    key: str
    run: str
    tool: str
    call_id: str
    arguments: str
    definition: str
    repeatable: int
    state: str
    attempt: str
    owner: str
    lease: float
    started: float
    ended: float | None = None
    result: str | None = None


_COLUMNS = ", ".join(Row._fields)
_MARKS = ", ".join("?" * len(Row._fields))


def _told(method: Callable[Concatenate[Store, P], T]) -> Callable[Concatenate[Store, P], T]:
    """Let a method raise `JournalError` where SQLite raises its own."""

    @wraps(method)
    def told(self: Store, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            with self.lock():
                return method(self, *args, **kwargs)
        except sqlite3.Error as error:
            raise journal_error(error, self.path) from error

    return told


def _apart(
    method: Callable[Concatenate[Store, sqlite3.Connection, P], T],
) -> Callable[Concatenate[Store, P], T]:
    """Let a method that may take long have a connection of its own: no call waits for it."""

    @wraps(method)
    def apart(self: Store, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            self.refuse_removed()
            with closing(open_database(self.path)) as connection:
                return method(self, connection, *args, **kwargs)
        except sqlite3.Error as error:
            raise journal_error(error, self.path) from error

    return apart


class Store:
    """A journal's file.

    Its methods are sync, never wait for another process, and may be called from any thread.

    Args:
        path: Where the file is, or shall be.

    Raises:
        JournalError: The file cannot be used.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: str = os.path.realpath(os.fspath(path))
        refuse_network(self.path)
        self._open()

    def _open(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._known: set[str] = set()
        self._connection = open_database(self.path)
        self._inode = Path(self.path).stat().st_ino
        self._close = weakref.finalize(self, _close, self._connection, self._pid)

    def close(self) -> None:
        """Close the file."""
        self._close()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other threads out.

        After a fork, open the file anew: a connection belongs to its process.
        """
        if self._pid != os.getpid():
            self._open()
        with self._lock:
            yield

    @_told
    def fetch(self, key: str) -> Row | None:
        """Return a call."""
        found = self._connection.execute(f"SELECT {_COLUMNS} FROM calls WHERE key = ?", (key,))
        row = found.fetchone()
        return None if row is None else Row._make(row)

    @_told
    def start(self, row: Row) -> bool:
        """Write a call that begins, and return whether it was not there before."""
        self.refuse_removed()
        return self._changed(
            f"INSERT INTO calls ({_COLUMNS}) VALUES ({_MARKS}) ON CONFLICT DO NOTHING", row
        )

    @_told
    def note(self, row: Row) -> str:
        """Write a row that is done, unless its key is there; return the arguments that are there.

        The disk is not waited for: whatever begins next waits for this, too.
        """
        self.refuse_removed()
        with self._undurable():
            self._connection.execute(
                f"INSERT INTO calls ({_COLUMNS}) VALUES ({_MARKS}) ON CONFLICT DO NOTHING", row
            )
        found = self._connection.execute("SELECT arguments FROM calls WHERE key = ?", (row.key,))
        return str(found.fetchone()[0])

    @_told
    def take_over(self, row: Row, attempt: str) -> bool:
        """Let a call that was interrupted begin again as `row`.

        Return whether `attempt` was its last one.
        """
        self.refuse_removed()
        return self._changed(
            "UPDATE calls SET state = 'started', attempt = ?, owner = ?, lease = ?, started = ?,"
            " definition = ?, repeatable = 1 WHERE key = ? AND attempt = ? AND state != 'done'",
            (row.attempt, row.owner, row.lease, row.started, row.definition, row.key, attempt),
        )

    @_told
    def finish(self, key: str, attempt: str, result: str) -> bool:
        """Write what came of a call; return whether `attempt` was still its last one."""
        with self._undurable():
            return self._changed(
                "UPDATE calls SET state = 'done', result = ?, ended = ?, lease = 0"
                " WHERE key = ? AND attempt = ? AND state != 'done'",
                (result, time.time(), key, attempt),
            )

    @_told
    def interrupt(self, key: str, attempt: str) -> None:
        """Write that nobody runs a call any more, whose end is not known."""
        with self._undurable():
            self._changed(
                "UPDATE calls SET lease = 0,"
                " state = CASE repeatable WHEN 1 THEN 'started' ELSE 'unknown' END"
                " WHERE key = ? AND attempt = ? AND state = 'started'",
                (key, attempt),
            )

    @_told
    def forget(self, key: str, attempt: str) -> bool:
        """Remove a call that has no result, and shall run as if it had not begun."""
        return self._changed(
            "DELETE FROM calls WHERE key = ? AND attempt = ? AND state != 'done'", (key, attempt)
        )

    @_told
    def settle(self, key: str, attempt: str, result: str, mine: str) -> bool:
        """Write what an operator says of a call; a late `finish` changes nothing any more."""
        return self._changed(
            "UPDATE calls SET state = 'done', result = ?, ended = ?, lease = 0, attempt = ?"
            " WHERE key = ? AND attempt = ? AND state != 'done'",
            (result, time.time(), mine, key, attempt),
        )

    @_told
    def renew(self, attempts: Iterable[tuple[str, str]], lease: float) -> None:
        """Extend the leases of these calls: pairs of key and attempt."""
        with self._undurable(), self._together():
            self._connection.executemany(
                "UPDATE calls SET lease = ? WHERE key = ? AND attempt = ? AND state = 'started'",
                [(lease, key, attempt) for key, attempt in attempts],
            )

    @_told
    def define(self, digest: str, form: Callable[[], str]) -> None:
        """Keep the definition of a tool, once."""
        if digest not in self._known:
            self._connection.execute(
                "INSERT INTO definitions VALUES (?, ?) ON CONFLICT DO NOTHING", (digest, form())
            )
            self._known.add(digest)

    @_apart
    def definitions(self, connection: sqlite3.Connection, run: str) -> dict[str, str]:
        """Return the last definition of each tool that a run called, as `define` got it."""
        found = connection.execute(
            "SELECT tool, form FROM calls JOIN definitions ON definition = digest WHERE run = ?"
            " ORDER BY calls.rowid",
            (run,),
        )
        return dict(found.fetchall())

    @_apart
    def rows(self, connection: sqlite3.Connection, run: str | None = None) -> list[Row]:
        """Return the calls of a run, or all, in the order in which they began first."""
        where, given = ("", ()) if run is None else (" WHERE run = ?", (run,))
        found = connection.execute(f"SELECT {_COLUMNS} FROM calls{where} ORDER BY rowid", given)
        return [Row._make(row) for row in found.fetchall()]

    @_apart
    def runs(self, connection: sqlite3.Connection) -> list[str]:
        """Return the names of the runs."""
        found = connection.execute("SELECT DISTINCT run FROM calls ORDER BY run")
        return [run for (run,) in found.fetchall()]

    @_apart
    def purge(self, connection: sqlite3.Connection, before: float) -> int:
        """Remove the calls that were done before a time, and return how many."""
        return connection.execute(
            "DELETE FROM calls WHERE state = 'done' AND ended < ?", (before,)
        ).rowcount

    def _changed(self, statement: str, given: Iterable[Any]) -> bool:
        return self._connection.execute(statement, tuple(given)).rowcount == 1

    def refuse_removed(self) -> None:
        """Raise where the file is no longer the one that other processes would open."""
        try:
            same = Path(self.path).stat().st_ino == self._inode
        except OSError:
            same = False
        if not same:
            raise JournalError(
                f"the journal {self.path} was removed or replaced while it was in use"
            )

    @contextmanager
    def _undurable(self) -> Iterator[None]:
        """Commit without waiting for the disk: losing it only makes a call unknown."""
        self._connection.execute("PRAGMA synchronous=NORMAL")
        try:
            yield
        finally:
            self._connection.execute("PRAGMA synchronous=FULL")

    @contextmanager
    def _together(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            raise


def waiting(act: Callable[[], T]) -> T:
    """Return `act()`, as soon as no other process is writing: for whoever may block.

    Raises:
        Busy: Others kept writing.
    """
    end = time.monotonic() + OPEN_SECONDS
    while True:
        try:
            return act()
        except Busy:
            if time.monotonic() > end:
                raise
        time.sleep(0.005)


def _close(connection: sqlite3.Connection, pid: int) -> None:
    if os.getpid() == pid:
        connection.close()
    else:
        _of_parents.append(connection)


_of_parents: list[sqlite3.Connection] = []
"""Connections that a fork copied: closing one in the child would disturb the parent's locks."""
