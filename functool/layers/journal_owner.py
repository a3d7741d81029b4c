"""Find out which process runs a call, and whether that process still lives.

An owner is the process that runs a call. It renews a lease in the file, so that every process that
shares the file can see that the call still runs. On the same machine a dead owner is found at once:
the owner's name holds its process id and the time at which the process began.
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
from functool.layers.forking import begins_anew

logger: logging.Logger = logging.getLogger("functool")

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = Path("/proc/self/ns/pid")


def new_owner() -> str:
    """Return the owner's name for this process: `boot namespace pid began unique`."""
    pid = os.getpid()
    return f"{_process_table()} {pid} {_start_of(pid)} {uuid4().hex}"


def is_dead(owner: str) -> bool:
    """Whether the process of `owner` has certainly ended. False if that cannot be known."""
    boot, namespace, pid, began, _ = owner.split(" ")
    here = _process_table().split(" ")
    if "?" in (boot, began) or here[0] == "?":
        return False
    if boot != here[0]:
        return True
    return namespace == here[1] and began != _start_of(int(pid))


@lru_cache(maxsize=1)
def _process_table() -> str:
    """Return the identity of the process table: the boot id and the namespace of process ids."""
    try:
        boot = _BOOT.read_text(encoding="ascii").strip()
        return f"{boot} {str(_NAMESPACE.readlink()).replace(' ', '')}"
    except OSError:  # Not Linux: leases alone decide.
        return "? ?"


def _start_of(pid: int) -> str:
    """Return when a process began, in clock ticks since the boot; `?` if there is no process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "?"
    state, *fields = stat.rpartition(")")[2].split()
    return "?" if state in "ZX" else fields[18]  # A zombie runs nothing any more.


LEASE_SECONDS = 10.0
"""How long a call counts as running after its owner last renewed the lease."""


def new_lease() -> float:
    """Return the end of a lease that begins now, in seconds since the epoch."""
    return time.time() + LEASE_SECONDS


class Leases:
    """The calls that run in this process. While there are any, a thread renews their leases.

    Args:
        renew: `renew(pairs)` writes a new lease for pairs of key and attempt.
    """

    def __init__(self, renew: Callable[[Iterable[tuple[str, str]]], None]) -> None:
        self._renew = renew
        self.begin_anew()
        begins_anew(self)

    def begin_anew(self) -> None:
        """Take a name of this process. No call of a parent runs here."""
        self.owner: str = new_owner()
        self._held: dict[str, str] = {}
        self._guard = threading.Lock()
        self._beating = False

    def hold(self, key: str, attempt: str) -> None:
        """Count a call as running from now on."""
        with self._guard:
            if not self._beating:
                beat = threading.Thread(
                    target=_beat, args=(weakref.ref(self),), name="functool-journal", daemon=True
                )
                beat.start()  # The system may have no further thread. Then the call does not begin.
                self._beating = True
            self._held[attempt] = key

    def drop(self, attempt: str) -> None:
        """Stop counting a call as running."""
        self._held.pop(attempt, None)

    def is_running(self, attempt: str, owner: str, lease: float) -> bool:
        """Whether an attempt still runs, judged by its owner and its lease."""
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
                self._renew(held)
            except ToolError:
                logger.warning("the leases of running calls could not be renewed", exc_info=True)
        return bool(held)


def _beat(leases: weakref.ref[Leases]) -> None:
    """Renew the leases every quarter of a lease, as long as `leases` exists and calls run."""
    while True:
        time.sleep(LEASE_SECONDS / 4)
        held = leases()
        if held is None or not held.beat():
            return
        del held
