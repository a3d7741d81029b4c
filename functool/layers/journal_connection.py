"""Hold the file of a journal open, for one thread at a time, and close it before a fork."""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from functool.layers.forking import begins_anew, lets_go, no_fork
from functool.layers.journal_errors import JournalError
from functool.layers.journal_file import journal_error, open_database


class Connection:
    """A connection to the file of a journal. It is opened when it is used.

    Args:
        path: The path of the file.
        inode: The number of the file, if it has been opened before.
    """

    def __init__(self, path: str, inode: int | None = None) -> None:
        self.path = path
        self.inode = inode
        self._is_closed = False
        self._found: sqlite3.Connection | None = None
        self._end: weakref.finalize[..., object] = weakref.finalize(self, bool)
        self._lock = threading.Lock()
        begins_anew(self)
        lets_go(self)

    @contextmanager
    def use(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection. Other threads, and forks, wait meanwhile.

        Raises:
            JournalError: The file cannot be used.
        """
        try:
            with no_fork(), self._lock:
                yield self._opened()
        except sqlite3.Error as error:
            raise journal_error(error, self.path) from error

    def close(self) -> None:
        """Close the file for good."""
        with no_fork(), self._lock:
            self._is_closed = True
            self.let_go()

    def refuse_removed(self) -> None:
        """Raise if the file was removed or replaced: other processes would see no new record."""
        try:
            same = Path(self.path).stat().st_ino == self.inode
            # The newest records are there, as long as a connection is open.
            same = same and (self._found is None or Path(f"{self.path}-wal").exists())
        except OSError:
            same = False
        if not same:
            raise JournalError(
                f"the journal {self.path}, or its file -wal, was removed or replaced while it was"
                " in use"
            )

    def let_go(self) -> None:
        """Close the file before a fork. Parent and child open it again when they use it."""
        self._end()
        self._found = None

    def begin_anew(self) -> None:
        """Use no connection of the parent, because a connection belongs to its process."""
        self._lock = threading.Lock()
        if self._found is not None:
            _inherited.add(self.inode)

    def _opened(self) -> sqlite3.Connection:
        if self._is_closed:
            raise sqlite3.ProgrammingError("it was closed")
        if self._found is None and self.inode not in _inherited:
            if self.inode is not None:
                self.refuse_removed()
            self._found = open_database(self.path)
            self._end = weakref.finalize(self, _close, self._found, os.getpid())
            self.inode = self.inode or Path(self.path).stat().st_ino
        if self._found is None or self.inode in _inherited:
            raise JournalError(
                f"the journal {self.path} cannot be used: this process was forked while its parent"
                ' was using the journal. Start such processes with "spawn".'
            )
        return self._found


def _close(connection: sqlite3.Connection, process: int) -> None:
    if os.getpid() == process:
        connection.close()
    else:
        _left_open.append(connection)


_inherited: set[int | None] = set()
"""The numbers of files of which a fork copied a connection, because it did not wait any longer.

SQLite believes that this process has the locks of its parent. It has none, so another process could
remove what this one writes.
"""

_left_open: list[sqlite3.Connection] = []
"""Connections that a fork copied. Closing one in the child would disturb the parent's locks."""
