"""Make a program that starts a worker of the interpreter, as `code_launch.py` does."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

_CLOSE_ON_EXEC = 1
"""`MFD_CLOEXEC` of Linux."""


def launcher(host: int) -> str | None:
    """Return a program that starts a worker which dies with this process, whose id is `host`.

    Return None if this system has no such means.
    """
    found = Path(sys.executable).with_name("monty")
    worker = str(found) if found.exists() else shutil.which("monty")
    if sys.platform != "linux" or worker is None or "'" in f"{sys.executable}{worker}":
        return None
    script = Path(__file__).with_name("code_launch.py")
    command = f"exec '{sys.executable}' -IS '{script}' {host} '{worker}' \"$@\""
    # A file in memory, because many systems run nothing in directories for temporary files. Some
    # systems forbid these files, and builds of Python for old systems lack `os.memfd_create`.
    with suppress(OSError, AttributeError):
        written = ctypes.CDLL(None).memfd_create(b"monty", _CLOSE_ON_EXEC)
        os.write(written, f"#!/bin/sh\n{command}\n".encode())
        # The system runs no file that is open for writing.
        kept = os.open(f"/proc/self/fd/{written}", os.O_RDONLY)
        os.close(written)
        if os.access(path := f"/proc/self/fd/{kept}", os.X_OK):
            os.set_inheritable(kept, True)  # The path is one of the worker's own open files.
            return path
    return None
