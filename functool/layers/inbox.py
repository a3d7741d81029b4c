"""An inbox: it holds calls that wait for a person, who answers from another process.

    inbox = Inbox("approvals.db")
    context = Context(approver=inbox.approver)      # where the calls run
    inbox.approve(inbox.pending()[0].id)            # where the person is

The inbox is one SQLite file on a local disk. It holds a request as long as its call waits:

    filed       The call waits, and updates a time in the file every second.
    answered    The person has decided. The call takes the answer and removes the request.
    withdrawn   The call was cancelled or ran out of time, and has removed the request.
    left        The process died. Ten seconds after its last update the request is not pending.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary

from functool import ApprovalRequest, Decision, FunctoolError
from functool.approval import Grant
from functool.executors import in_thread
from functool.json_values import json_copy
from functool.layers.forking import no_fork
from functool.layers.mounts import mount_of

POLL = 0.1
"""Seconds between two checks for an answer."""

SILENCE = 10.0
"""Seconds without an update after which a request is no longer pending."""

READ_TOGETHER = 20
"""How many requests are read together. Each may have a megabyte of arguments."""

_TABLES = """
CREATE TABLE IF NOT EXISTS requests (
    id TEXT PRIMARY KEY, conversation TEXT NOT NULL, request TEXT NOT NULL, seen REAL NOT NULL,
    approved INTEGER, reason TEXT, arguments TEXT, digest TEXT
);
CREATE TABLE IF NOT EXISTS grants (
    id TEXT PRIMARY KEY, conversation TEXT NOT NULL, granted TEXT NOT NULL
);
"""

logger: logging.Logger = logging.getLogger("functool")

_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
"""By event loop, the lock of the call that files a request."""


class InboxError(FunctoolError):
    """The inbox's file cannot be used, or it holds no such request."""


class Inbox:
    """The requests for approval that wait in one file, and their answers.

    Anybody who can write the file can approve. A new file is readable and writable by its owner
    only.

    Args:
        path: The file, on a local disk. Any number of processes may share it.

    Raises:
        InboxError: The file cannot be used, or is mounted without its directory.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path).absolute()
        made = os.path.realpath(self._path)  # Where a link leads to.
        if mount_of(made)[0] == made:
            raise InboxError(
                f"the inbox {self._path} is mounted without its directory, so what SQLite writes"
                " beside it is not shared, and processes would destroy it. Mount the directory."
            )
        try:
            # SQLite gives the files that it makes beside this one the same permissions. Do not open
            # a file that exists: closing it drops the locks that this process holds on it.
            with suppress(FileExistsError):
                os.close(os.open(made, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except OSError as error:
            raise InboxError(f"the inbox {self._path} cannot be opened: {error.strerror}") from None
        with self._database() as database:
            (tables,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
            columns = {row[1] for row in database.execute("PRAGMA table_info(requests)")}
            if tables and not {"conversation", "request", "seen"} <= columns:
                raise InboxError(f"{self._path} is a database, but no inbox of functool")
            database.execute("PRAGMA journal_mode = WAL")
            database.executescript(_TABLES)
        # By request the process that waits for it, because a forked child copies this.
        self._waiting: dict[str, int] = {}
        self._answers: dict[str, Any] = {}
        self._leaving: list[str] = []
        self._gone: set[str] = set()
        self._next_look = self._next_renewal = 0.0

    def __repr__(self) -> str:
        return f"Inbox({str(self._path)!r})"

    @property
    def approver(self) -> InboxApprover:
        """A new approver for one `Context`. Each use of this property begins a new conversation."""
        return InboxApprover(self)

    async def ask(self, request: ApprovalRequest, conversation: str) -> Decision:
        """File a request of a conversation and wait for the answer.

        It waits as long as the call may take. A call without a time limit waits until somebody
        answers.
        """
        asked, digest = request.to_json(), request.digest
        if (grant := await in_thread(self._use_grant, request, conversation)) is not None:
            return Decision(approved=True, reason=f"allowed beforehand by the grant {grant}")
        async with _turns.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
            await asyncio.sleep(0)  # To file many requests takes seconds. Other work runs between.
            # File it on this thread: if the call is cancelled, no other thread may file it later.
            self._file(request.id, conversation, asked)
        self._waiting[request.id] = os.getpid()
        try:
            while True:
                await asyncio.sleep(POLL)
                await self._look()
                if (row := self._answers.get(request.id)) is not None:
                    return _decision(row, digest)
                if request.id in self._gone:
                    self._gone.discard(request.id)
                    self._file(request.id, conversation, asked)
        finally:
            self._waiting.pop(request.id, None)
            self._leave(request.id)

    def _leave(self, id: str) -> None:
        """Remove a request, together with those of all calls that end in this round of the loop.

        A thousand calls may be cancelled at once. To remove each on its own takes seconds.
        """
        self._leaving.append(id)
        try:
            asyncio.get_running_loop().call_soon(self._remove_leaving)
        except RuntimeError:  # The loop has ended, and the call is garbage.
            self._remove_leaving()

    def _remove_leaving(self) -> None:
        ids: list[str] = []
        while self._leaving:  # Another thread may do the same.
            with suppress(IndexError):
                ids.append(self._leaving.pop())
        try:
            self._remove(*ids)
        except InboxError:
            logger.warning("requests whose calls have ended stay in the inbox", exc_info=True)

    async def _look(self) -> None:
        """Look for the answers of all calls that wait, unless another call has just done so."""
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + POLL
        if now >= self._next_renewal:
            self._next_renewal = now + 1.0
            self._gone = await in_thread(self._renew)
        self._answers = await in_thread(self._read_answers)

    def pending(self) -> list[ApprovalRequest]:
        """Return the requests whose calls wait now, oldest first.

        All of them are in memory together. `each` reads a few at a time.
        """
        return list(self.each())

    def each(self) -> Iterator[ApprovalRequest]:
        """Yield the requests whose calls wait, oldest first. A few are read at a time."""
        query = (
            "SELECT rowid, request FROM requests WHERE approved IS NULL AND seen > ? AND rowid > ?"
            f" ORDER BY rowid LIMIT {READ_TOGETHER}"
        )
        last = 0
        while rows := self._rows(query, time.time() - SILENCE, last):
            last = rows[-1][0]
            yield from (ApprovalRequest.from_json(text) for _, text in rows)

    def approve(
        self,
        id: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        grant: Grant | None = None,
    ) -> None:
        """Let the call of a request run.

        Args:
            id: The id of the request.
            arguments: The edited arguments, to run instead of the call's own: all of them, also
                the unchanged ones. They are validated and checked by every input guardrail.
            grant: A grant for similar calls, which then run without asking a person. It holds only
                for the conversation of this request. The grant must name each argument of a call
                or leave it free, because an inbox does not know the tool's defaults.

        Raises:
            InboxError: No such request waits any more.
            TypeError: `arguments` is not a mapping, or `grant` is not a `Grant`.
            ValueError: JSON cannot express the arguments, the grant does not cover the call, or
                the request in the file does not match its digest.
        """
        if grant is not None:
            Grant.check(grant)
        edited = None if arguments is None else json.dumps(json_copy(arguments))
        self._decide(id, True, "", edited, grant)

    def deny(self, id: str, reason: str = "") -> None:
        """Refuse the call of a request; the model reads `reason`.

        Raises:
            InboxError: No such request waits any more.
        """
        self._decide(id, False, reason, None, None)

    def grants(self) -> list[Grant]:
        """Return the grants that still cover a call; `uses` is how many more."""
        rows = self._rows("SELECT granted FROM grants ORDER BY rowid")
        return [grant for row in rows if (grant := Grant.from_json(row[0])).is_open]

    def conversations(self) -> dict[str, str]:
        """Return the conversation of each request and grant in the file, by its id."""
        both = "SELECT id, conversation FROM requests UNION SELECT id, conversation FROM grants"
        return dict(self._rows(both))

    def revoke(self, grant: Grant) -> None:
        """Let `grant` cover no further call."""
        with self._database() as database:
            database.execute("DELETE FROM grants WHERE id = ?", (grant.id,))

    def _use_grant(self, request: ApprovalRequest, conversation: str) -> str | None:
        """Use a grant that covers the call, and return the grant's id. None if no grant does."""
        any_grant = "SELECT 1 FROM grants WHERE conversation = ? LIMIT 1"
        if not self._rows(any_grant, conversation):  # Reading does not wait for those who write.
            return None
        with self._database() as database:
            database.execute("BEGIN IMMEDIATE")  # Two calls must not take the same last use.
            rows = database.execute(
                "SELECT granted FROM grants WHERE conversation = ? ORDER BY rowid", (conversation,)
            )
            for row in rows.fetchall():
                grant = Grant.from_json(row[0])
                if not grant.covers(request, {}):
                    continue
                grant.uses -= 1
                database.execute(
                    "UPDATE grants SET granted = ? WHERE id = ?", (grant.to_json(), grant.id)
                )
                return grant.id
        return None

    def _file(self, id: str, conversation: str, request: str) -> None:
        with self._database() as database:
            database.execute(
                "INSERT INTO requests (id, conversation, request, seen) VALUES (?, ?, ?, ?)",
                (id, conversation, request, time.time()),
            )

    def _renew(self) -> set[str]:
        """Record that the calls of this process still wait.

        Return the requests that are gone: while this machine slept for a day, others took this
        process for dead.
        """
        mine = [id for id, process in list(self._waiting.items()) if process == os.getpid()]
        update = "UPDATE requests SET seen = ? WHERE id = ?"
        with self._database() as database:
            return {id for id in mine if not database.execute(update, (time.time(), id)).rowcount}

    def _read_answers(self) -> dict[str, Any]:
        """Return the rows of all answers that no call has taken yet, by id."""
        rows = self._rows(
            "SELECT id, approved, reason, arguments, digest FROM requests "
            "WHERE approved IS NOT NULL"
        )
        return {row[0]: row[1:] for row in rows}

    def _decide(
        self, id: str, approved: bool, reason: str, arguments: str | None, grant: Grant | None
    ) -> None:
        rows = self._rows(
            "SELECT request FROM requests WHERE id = ? AND approved IS NULL AND seen > ?",
            id,
            time.time() - SILENCE,
        )
        asked = ApprovalRequest.from_json(rows[0][0]) if rows else None
        if asked is None or asked.id != id:
            raise InboxError(f"no request {id!r} waits: it was answered, withdrawn or never made")
        if approved and not asked.matches_itself:
            raise ValueError("the request does not match its own digest: it was changed")
        if grant is not None and not grant.covers(asked, {}):
            raise ValueError("the grant does not cover the call that asks")
        with self._database() as database:
            done = database.execute(
                "UPDATE requests SET approved = ?, reason = ?, arguments = ?, digest = ? "
                "WHERE id = ? AND approved IS NULL",
                (approved, reason, arguments, asked.digest, id),
            )
            if grant is not None and done.rowcount == 1:
                database.execute(
                    "INSERT INTO grants SELECT ?, conversation, ? FROM requests WHERE id = ? "
                    "ON CONFLICT DO NOTHING",
                    (grant.id, grant.to_json(), id),
                )
        if done.rowcount != 1:
            raise InboxError(f"the request {id!r} has just been answered by somebody else")

    def _remove(self, *ids: str) -> None:
        if not ids:
            return
        with self._database() as database:
            database.executemany("DELETE FROM requests WHERE id = ?", [(id,) for id in ids])
            # Also remove requests of processes that died more than a day ago.
            database.execute("DELETE FROM requests WHERE seen < ?", (time.time() - 86_400,))

    def _rows(self, query: str, *values: Any) -> list[Any]:
        with self._database() as database:
            return database.execute(query, values).fetchall()

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        """Open the file for one transaction, so that no connection crosses a fork or a thread.

        Raises:
            InboxError: The file cannot be used.
        """
        # If the file was removed, SQLite must not make one that others can read.
        there = f"{self._path.as_uri()}?mode=rw"
        try:
            with (
                no_fork(),
                closing(sqlite3.connect(there, timeout=5.0, uri=True)) as database,
                database,
            ):
                yield database
        except sqlite3.Error as error:
            raise InboxError(f"the inbox {self._path} cannot be used: {error}") from error


class InboxApprover:
    """The approver of a `Context`: it files the requests of one conversation in an inbox.

    A grant holds for one conversation only, so each conversation has its own approver.
    `context.fresh()` calls `fresh()` for a new one.
    """

    def __init__(self, inbox: Inbox) -> None:
        self.inbox = inbox
        self.conversation: str = uuid4().hex

    async def __call__(self, request: ApprovalRequest) -> Decision:
        """File the request, and wait for the answer or the end of the call."""
        return await self.inbox.ask(request, self.conversation)

    def fresh(self) -> InboxApprover:
        """Return an approver for another conversation."""
        return InboxApprover(self.inbox)


def _decision(row: Any, digest: str) -> Decision:
    """Return the answer in a row. Refuse if the person saw a request with another digest."""
    approved, reason, arguments, seen = row
    if approved and seen != digest:
        return Decision(approved=False, reason="What the person was shown was not this call.")
    edited = None if arguments is None else json.loads(arguments)
    return Decision(approved=bool(approved), reason=reason, arguments=edited)
