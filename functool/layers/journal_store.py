"""Read and write a journal's file: one SQL statement for each change of a call's state.

The process may be killed, or the machine may lose power, between any two statements. Then:

    fetch                It writes nothing, so nothing is lost.
    start, take_over     They are on disk (`synchronous=FULL`) before the body runs. Killed before:
                         the call has not begun. Killed after: the row is `started` and its owner
                         is dead, so the call is `unknown`.
    note                 A kill loses nothing. A power loss loses it, unless a call began after it.
    finish               A kill loses nothing. A power loss may lose it: the call is `unknown`.
    interrupt            If it is lost, the lease runs out, and the call is `unknown`.
    forget               If it is lost, the call is `unknown`, although it only paused.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from functool.layers.forking import no_fork
from functool.layers.journal_connection import Connection
from functool.layers.journal_file import OPEN_SECONDS, Busy, refuse_mount

P = ParamSpec("P")
T = TypeVar("T")


class Row(NamedTuple):
    """One call as a row of the file. Times are seconds since the epoch."""

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
_HOLES = ", ".join("?" * len(Row._fields))
_INSERT = f"INSERT INTO calls ({_COLUMNS}) VALUES ({_HOLES}) ON CONFLICT DO NOTHING"


def _locked(method: Callable[Concatenate[Store, P], T]) -> Callable[Concatenate[Store, P], T]:
    """Run a method with the connection of the calls. It is another one after a fork."""

    @wraps(method)
    def locked(self: Store, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self.calls.use() as self._connection:
            return method(self, *args, **kwargs)

    return locked


def _reading(
    method: Callable[Concatenate[Store, sqlite3.Connection, P], T],
) -> Callable[Concatenate[Store, P], T]:
    """Give a method that may take long another connection, so that no call waits for the method."""

    @wraps(method)
    def reading(self: Store, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self.reading() as connection:
            return method(self, connection, *args, **kwargs)

    return reading


class Store:
    """A journal's file.

    Its methods are sync, and may be called from any thread. None waits for another process: it
    raises `Busy` instead.

    Args:
        path: The path of the file. A missing file is made.

    Raises:
        JournalError: The file cannot be used.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: str = os.path.realpath(os.fspath(path))
        refuse_mount(self.path)
        self._known: set[str] = set()
        self.calls: Connection = Connection(self.path)
        with self.calls.use() as self._connection:
            self._reader = Connection(self.path, self.calls.inode)

    def close(self) -> None:
        """Close the file."""
        self.calls.close()
        self._reader.close()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection that no call waits for."""
        with no_fork():  # A fork closes the file, and takes its log away.
            self.calls.refuse_removed()
        with self._reader.use() as connection:
            yield connection

    @_locked
    def fetch(self, key: str) -> Row | None:
        """Return the row of a call, or None."""
        return _fetch(self._connection, key)

    @_locked
    def start(self, row: Row) -> bool:
        """Insert a call that begins. Return False if its key is already there."""
        self.calls.refuse_removed()
        return self._changed(_INSERT, row)

    @_locked
    def note(self, row: Row) -> str:
        """Insert a row that is done, unless its key is there. Return the arguments in the file.

        This does not wait for the disk. The next call that begins waits for this row as well.
        """
        self.calls.refuse_removed()
        with self._undurable():
            self._connection.execute(_INSERT, row)
        found = self._connection.execute("SELECT arguments FROM calls WHERE key = ?", (row.key,))
        return str(found.fetchone()[0])

    @_locked
    def take_over(self, row: Row, attempt: str) -> bool:
        """Let an interrupted call begin again as `row`.

        Return False if `attempt` was not its last attempt.
        """
        self.calls.refuse_removed()
        return self._changed(
            "UPDATE calls SET state = 'started', attempt = ?, owner = ?, lease = ?, started = ?,"
            " definition = ?, arguments = ?, repeatable = 1"
            " WHERE key = ? AND attempt = ? AND state != 'done'",
            (row.attempt, row.owner, row.lease, row.started, row.definition, row.arguments)
            + (row.key, attempt),
        )

    @_locked
    def finish(self, key: str, attempt: str, result: str) -> bool:
        """Store the result of a call. Return False if `attempt` was not its last attempt."""
        with self._undurable():
            return self._changed(
                "UPDATE calls SET state = 'done', result = ?, ended = ?, lease = 0"
                " WHERE key = ? AND attempt = ? AND state != 'done'",
                (result, time.time(), key, attempt),
            )

    @_locked
    def interrupt(self, key: str, attempt: str) -> None:
        """Record that a call was interrupted: nobody runs it, and its outcome is not known."""
        with self._undurable():
            self._changed(
                "UPDATE calls SET lease = 0,"
                " state = CASE repeatable WHEN 1 THEN 'started' ELSE 'unknown' END"
                " WHERE key = ? AND attempt = ? AND state = 'started'",
                (key, attempt),
            )

    @_locked
    def forget(self, key: str, attempt: str) -> bool:
        """Remove a call that has no result, so that it can run as if it had not begun."""
        return self._changed(
            "DELETE FROM calls WHERE key = ? AND attempt = ? AND state != 'done'", (key, attempt)
        )

    @_locked
    def settle(self, key: str, attempt: str, result: str, mine: str) -> bool:
        """Store the result that an operator gives. A late `finish` can no longer change it."""
        return self._changed(
            "UPDATE calls SET state = 'done', result = ?, ended = ?, lease = 0, attempt = ?"
            " WHERE key = ? AND attempt = ? AND state != 'done'",
            (result, time.time(), mine, key, attempt),
        )

    @_locked
    def renew(self, attempts: Iterable[tuple[str, str]], lease: float) -> None:
        """Extend the leases of these calls, given as pairs of key and attempt."""
        with self._undurable(), self._transaction():
            self._connection.executemany(
                "UPDATE calls SET lease = ? WHERE key = ? AND attempt = ? AND state = 'started'",
                [(lease, key, attempt) for key, attempt in attempts],
            )

    @_locked
    def define(self, digest: str, form: Callable[[], str]) -> None:
        """Store the definition of a tool, unless it is stored already."""
        if digest not in self._known:
            self._connection.execute(
                "INSERT INTO definitions VALUES (?, ?) ON CONFLICT DO NOTHING", (digest, form())
            )
            self._known.add(digest)

    @_locked
    def form(self, digest: str) -> str:
        """Return the stored definition of a tool, or an empty text if there is none."""
        query = "SELECT form FROM definitions WHERE digest = ?"
        found = self._connection.execute(query, (digest,)).fetchone()
        return str(found[0]) if found else ""

    @_reading
    def definitions(self, connection: sqlite3.Connection, run: str) -> dict[str, str]:
        """Return the last definition of each tool that a run called."""
        found = connection.execute(
            "SELECT tool, form FROM calls JOIN definitions ON definition = digest WHERE run = ?"
            " ORDER BY calls.rowid",
            (run,),
        )
        return dict(found.fetchall())

    def rows(self, run: str | None = None, call_id: str | None = None) -> Iterator[Row]:
        """Yield the calls of a run, or all calls, in the order in which they first began.

        With `call_id` yield only the call with this id and the calls inside of it. Each row is read
        when it is asked for, because all together may take much memory.
        """
        where, given = ("", ()) if run is None else (" WHERE run = ?", (run,))
        if call_id is not None:
            within = f"{call_id}/"
            where += " AND (call_id = ? OR substr(call_id, 1, ?) = ?)"
            given = (*given, call_id, len(within), within)
        with self.reading() as connection:
            query = f"SELECT key FROM calls{where} ORDER BY rowid"
            found = connection.execute(query, given).fetchall()
        for (key,) in found:
            with self._reader.use() as connection:
                row = _fetch(connection, key)
            if row is not None:  # It may have been removed.
                yield row

    @_reading
    def keys(self, connection: sqlite3.Connection) -> list[str]:
        """Return the keys of all calls."""
        return [key for (key,) in connection.execute("SELECT key FROM calls").fetchall()]

    @_reading
    def runs(self, connection: sqlite3.Connection) -> list[str]:
        """Return the names of the runs."""
        found = connection.execute("SELECT DISTINCT run FROM calls ORDER BY run")
        return [run for (run,) in found.fetchall()]

    @_reading
    def purge(self, connection: sqlite3.Connection, before: float) -> int:
        """Remove the calls that were done before a time, and return how many.

        A call about which there are notes goes with them and with the calls inside of it: when all
        of them were done before that time. The id of each begins with the id of that call and a
        slash.
        """
        around = "run || char(0) || substr(call_id || '/', 1, instr(call_id || '/', '/'))"
        is_note = "definition = '' AND instr(call_id, '/')"
        return connection.execute(
            f"DELETE FROM calls WHERE state = 'done' AND ended < ? AND {around} NOT IN"
            f" (SELECT {around} FROM calls GROUP BY {around} HAVING"
            f" max({is_note}) AND max(state != 'done' OR ended >= ?))",
            (before, before),
        ).rowcount

    def _changed(self, statement: str, given: Iterable[Any]) -> bool:
        return self._connection.execute(statement, tuple(given)).rowcount == 1

    @contextmanager
    def _undurable(self) -> Iterator[None]:
        """Commit without waiting for the disk. Losing such a commit only makes a call unknown."""
        self._connection.execute("PRAGMA synchronous=NORMAL")
        try:
            yield
        finally:
            self._connection.execute("PRAGMA synchronous=FULL")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:  # Otherwise the transaction would stay open.
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            raise


def retry_while_busy(act: Callable[[], T]) -> T:
    """Return `act()`. While another process is writing, block this thread and retry.

    Raises:
        Busy: Other processes kept writing for `OPEN_SECONDS`.
    """
    end = time.monotonic() + OPEN_SECONDS
    while True:
        try:
            return act()
        except Busy:
            if time.monotonic() > end:
                raise
        time.sleep(0.005)


def _fetch(connection: sqlite3.Connection, key: str) -> Row | None:
    row = connection.execute(f"SELECT {_COLUMNS} FROM calls WHERE key = ?", (key,)).fetchone()
    return None if row is None else Row._make(row)
