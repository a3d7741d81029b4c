"""Who runs a call, and whether that process still lives.

A lease that its owner renews answers this for any process that shares the file. Where owner and
asker see the same process table, the answer comes at once: the owner is its process id and the time
at which that process began.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from uuid import uuid4

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = "/proc/self/ns/pid"


def new_owner() -> str:
    """Return a name for whoever runs calls in this process: `boot namespace pid began unique`."""
    pid = os.getpid()
    return f"{_table()} {pid} {_began(pid)} {uuid4().hex}"


def is_dead(owner: str) -> bool:
    """Whether the process of `owner` has certainly ended. False where that cannot be known."""
    boot, namespace, pid, began, _ = owner.split(" ")
    here = _table().split(" ")
    if "?" in (boot, began) or here[0] == "?":
        return False
    if boot != here[0]:
        return True
    return namespace == here[1] and began != _began(int(pid))


@lru_cache(maxsize=1)
def _table() -> str:
    """Return what names the process table: the boot, and the namespace of process ids."""
    try:
        boot = _BOOT.read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink(_NAMESPACE).replace(' ', '')}"
    except OSError:  # Not Linux: leases alone decide.
        return "? ?"


def _began(pid: int) -> str:
    """Return when a process began, in clock ticks since the boot; `?` where there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "?"
    state, *fields = stat.rpartition(")")[2].split()
    return "?" if state in "ZX" else fields[18]  # A zombie runs nothing any more.
