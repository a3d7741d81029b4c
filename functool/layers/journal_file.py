"""Open a journal's SQLite file: check its place and its format, and make its tables."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress
from typing import Any

from functool.layers.journal_errors import JournalError, newer_format
from functool.layers.mounts import mount_of

APPLICATION_ID = 0x66746A6E
SCHEMA_VERSION = 1
OPEN_SECONDS = 10.0
"""How long opening waits for another process that has locked the file."""

_NETWORK = {
    *("9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "glusterfs", "gpfs", "lustre"),
    *("ncpfs", "nfs", "nfs4", "orangefs", "panfs", "smb3", "smbfs", "vboxsf"),
    *("fuse.blobfuse2", "fuse.ceph-fuse", "fuse.gcsfuse", "fuse.glusterfs", "fuse.juicefs"),
    *("fuse.mountpoint-s3", "fuse.rclone", "fuse.s3fs", "fuse.sshfs"),
}

_SCHEMA = (
    """CREATE TABLE calls (
        key TEXT NOT NULL PRIMARY KEY,
        run TEXT NOT NULL,
        tool TEXT NOT NULL,
        call_id TEXT NOT NULL,
        arguments TEXT NOT NULL,
        definition TEXT NOT NULL,
        repeatable INTEGER NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('started', 'done', 'unknown')),
        attempt TEXT NOT NULL,
        owner TEXT NOT NULL,
        lease REAL NOT NULL,
        started REAL NOT NULL,
        ended REAL,
        result TEXT
    )""",
    "CREATE INDEX calls_of_run ON calls (run)",
    "CREATE TABLE definitions (digest TEXT NOT NULL PRIMARY KEY, form TEXT NOT NULL)",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)


class Busy(JournalError):
    """Another process is writing. The same statement can succeed a moment later."""


def open_database(path: str) -> sqlite3.Connection:
    """Open the file of a journal. Make the file if it does not exist.

    Raises:
        JournalError: The file cannot be used.
    """
    try:
        _create(path)
        return _connected(path)
    except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
        raise journal_error(error, path) from error


def journal_error(error: Exception, path: str) -> JournalError:
    """Return the `JournalError` for an error of SQLite or of the operating system."""
    kind = Busy if isinstance(error, sqlite3.Error) and _is_busy(error) else JournalError
    return kind(f"the journal {path} cannot be used: {error}")


def refuse_mount(path: str) -> None:
    """Raise if a path is on a network file system, or is mounted without its directory.

    SQLite cannot rely on the locks of the first. In the second case the log beside the file, with
    the newest records, is not the one that other processes use.

    Raises:
        JournalError: The path is one of these.
    """
    place, kind = mount_of(path)
    if kind in _NETWORK:
        raise JournalError(
            f"the journal {path} is on a network file system ({kind}), where SQLite's locks do not"
            " hold: two processes could run one call. Put it on a local disk."
        )
    if place == path:
        raise JournalError(
            f"the journal {path} is mounted without its directory, so its newest records, in the"
            " file -wal beside it, are not shared: two processes could run one call. Mount the"
            " directory."
        )


def _create(path: str) -> None:
    """Make the file, readable by its owner only. Do not open a file that exists.

    Closing a file would drop the locks that SQLite holds on it in the same process.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def _connected(path: str) -> sqlite3.Connection:
    """Open the file. Wait while other processes open it."""
    connection = sqlite3.connect(
        path, timeout=OPEN_SECONDS, isolation_level=None, check_same_thread=False
    )
    try:
        _prepare(connection, path)
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA busy_timeout=0")
    except BaseException:  # Otherwise the connection would stay open.
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, path: str) -> None:
    """Check the format of the file, and make the tables of a new one."""

    def ask(pragma: str) -> Any:
        return connection.execute(f"PRAGMA {pragma}").fetchone()[0]

    _check(connection, path)
    end = time.monotonic() + OPEN_SECONDS
    while True:
        try:
            mode = ask("journal_mode=WAL")
            break
        except sqlite3.OperationalError as error:  # This pragma ignores the connection's timeout.
            if not _is_busy(error) or time.monotonic() > end:
                raise
            time.sleep(0.01)
    if mode != "wal":
        raise JournalError(
            f"the journal {path} cannot have a write-ahead log (its mode is {mode!r})"
        )
    if ask("user_version") == 0:
        connection.execute("BEGIN IMMEDIATE")
        if ask("user_version") == 0:  # No other process has made the tables meanwhile.
            for statement in _SCHEMA:
                connection.execute(statement)
        connection.execute("COMMIT")


def _check(connection: sqlite3.Connection, path: str) -> None:
    """Refuse another program's database, and a format version that this functool does not know."""
    connection.execute("BEGIN")  # Another process may be making the tables: see all or none.
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    connection.execute("COMMIT")
    if (application or tables or version) and application != APPLICATION_ID:
        raise JournalError(f"{path} is a database, but no journal of functool")
    if version > SCHEMA_VERSION:
        raise newer_format(f"the journal {path}", version, SCHEMA_VERSION)
    if application and version < 1:
        raise JournalError(
            f"the journal {path} has version {version} of the format, which functool never wrote:"
            " something else changed the file"
        )


def _is_busy(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
    )
