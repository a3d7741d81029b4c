"""Make temporary directories that do not outlive their process, even if it is killed.

They are inside of one directory of the process, which the process locks. If the process is killed,
the kernel ends the lock, and the next process of the same user that needs such a directory removes
what was left.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import stat
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

if sys.platform != "win32":
    import fcntl

_PREFIX = "functool-process-"
_NAME = re.compile(rf"{_PREFIX}[a-z0-9_]{{8}}")


def own_directory(prefix: str) -> Path:
    """Return a new directory of mode 0700, whose name begins with `prefix`.

    It is removed at the end of the process. The caller may remove it earlier.

    Raises:
        OSError: It cannot be made.
    """
    home = _home(os.getpid(), tempfile.gettempdir())
    if not home.is_dir():  # A program that removes old files may have removed it.
        _home.cache_clear()
        home = _home(os.getpid(), tempfile.gettempdir())
    return Path(tempfile.mkdtemp(prefix=prefix, dir=home))


def remove_directory(path: Path, process: int) -> None:
    """Remove a directory of `process`, but not in a forked child of it."""
    if os.getpid() == process:
        shutil.rmtree(path, ignore_errors=True)


@cache
def _home(process: int, parent: str) -> Path:
    """Return the directory of this process. A forked child has another one."""
    if sys.platform == "win32":  # It has no such locks. What a killed process leaves stays there.
        home = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    else:
        with suppress(OSError):
            _remove_leftovers(parent)
        home = _locked_directory(parent)
    atexit.register(remove_directory, home, process)
    return home


def _locked_directory(parent: str) -> Path:
    """Return a new directory, and hold its lock as long as this process lives."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        try:
            descriptor = _opened(path)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return path  # The descriptor stays open, and with it the lock.
            os.close(descriptor)
        except (BlockingIOError, FileNotFoundError):
            continue  # Another process has just taken it for a leftover.
        except OSError:  # This file system has no locks, so nobody will take it for a leftover.
            return path


def _remove_leftovers(parent: str) -> None:
    """Remove the directories of this user's processes that are dead."""
    for path in Path(parent).iterdir():
        if _NAME.fullmatch(path.name):
            with suppress(OSError):
                _remove_leftover(path)


def _remove_leftover(path: Path) -> None:
    """Remove the directory of a dead process.

    Raises:
        OSError: The process lives, or this is no directory.
    """
    descriptor = _opened(path)
    try:
        found = os.fstat(descriptor)
        if found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) == 0o700:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Through the descriptor nobody can put another directory in its place.
            shutil.rmtree(".", ignore_errors=True, dir_fd=descriptor)
            path.rmdir()
    finally:
        os.close(descriptor)


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
