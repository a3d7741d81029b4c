"""Who runs a call, and whether that process still lives.

A lease that its owner renews answers this for any process that shares the file. Where owner and
asker see the same process table, the answer comes at once: the owner is its process id and the time
at which that process began.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from uuid import uuid4

from functool import ToolError

logger: logging.Logger = logging.getLogger("functool")

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = Path("/proc/self/ns/pid")


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
        return f"{boot} {str(_NAMESPACE.readlink()).replace(' ', '')}"
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


LEASE_SECONDS = 10.0
"""How long a call counts as running after its owner last said so."""


def new_lease() -> float:
    """Return until when a call counts as running that runs now, in seconds since the epoch."""
    return time.time() + LEASE_SECONDS


class Leases:
    """The calls that run in this process. A thread renews their leases while there are any.

    Args:
        renew: `renew(pairs, lease)` writes a new lease, in seconds since the epoch, for pairs of
            key and attempt.
    """

    def __init__(self, renew: Callable[[Iterable[tuple[str, str]], float], None]) -> None:
        self._renew = renew
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._owner = new_owner()
        self._held: dict[str, str] = {}
        self._guard = threading.Lock()
        self._beating = False

    @property
    def owner(self) -> str:
        """The name under which this process runs calls; a fork has a name of its own."""
        if self._pid != os.getpid():
            self._begin()
        return self._owner

    def hold(self, key: str, attempt: str) -> None:
        """Count a call as running from now on."""
        with self._guard:
            self._held[attempt] = key
            if not self._beating:
                beat = threading.Thread(
                    target=_beat, args=(weakref.ref(self),), name="functool-journal", daemon=True
                )
                beat.start()
                self._beating = True

    def drop(self, attempt: str) -> None:
        """Count a call as running no more."""
        self._held.pop(attempt, None)

    def is_running(self, attempt: str, owner: str, lease: float) -> bool:
        """Whether somebody still runs an attempt, by its owner and lease."""
        if owner == self.owner:
            return attempt in self._held
        return lease > time.time() and not is_dead(owner)

    def beat(self) -> bool:
        """Renew the leases, and return whether there are any."""
        with self._guard:
            held = [(key, attempt) for attempt, key in self._held.items()]
            self._beating = bool(held)
        if held:
            try:
                self._renew(held, new_lease())
            except ToolError:
                logger.warning("the leases of running calls could not be renewed", exc_info=True)
        return bool(held)


def _beat(leases: weakref.ref[Leases]) -> None:
    """Renew while somebody holds the leases and there are calls; a quarter of a lease apart."""
    while True:
        time.sleep(LEASE_SECONDS / 4)
        held = leases()
        if held is None or not held.beat():
            return
        del held
