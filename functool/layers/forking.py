"""Prepare what belongs to one process for a fork, and begin anew in the forked child.

A child has none of its parent's threads and workers. It must not have an open connection of SQLite
either: SQLite in the child would rely on locks that only the parent holds. So a fork waits until no
thread is at work in SQLite, and connections are closed before it.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

WAIT_SECONDS = 10.0
"""How long a fork and the `no_fork` blocks of other threads wait for each other."""


class Forkable(Protocol):
    """Something that holds what belongs to one process."""

    def begin_anew(self) -> None:
        """Forget what belongs to the parent. No other thread of the child runs yet."""


class Closable(Protocol):
    """Something that holds what no child may have."""

    def let_go(self) -> None:
        """Close it before a fork. No thread is in a `no_fork` block now."""


class _Gate:
    """Keeps forks and `no_fork` blocks apart."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.inside = self.forks = 0


_forkables: weakref.WeakSet[Forkable] = weakref.WeakSet()
_closables: weakref.WeakSet[Closable] = weakref.WeakSet()
_gate = _Gate()


def begins_anew(thing: Forkable) -> None:
    """Call `thing.begin_anew()` in every forked child, before the child can use `thing`."""
    _forkables.add(thing)


def lets_go(thing: Closable) -> None:
    """Call `thing.let_go()` before every fork."""
    with _gate.changed:  # No fork looks for the things meanwhile.
        _closables.add(thing)


@contextmanager
def no_fork() -> Iterator[None]:
    """Let a fork wait until this block has ended. A block that comes later waits for the fork."""
    gate = _gate
    with gate.changed:
        gate.changed.wait_for(lambda: gate.forks < 1, WAIT_SECONDS)
        gate.inside += 1
    try:
        yield
    finally:
        with gate.changed:
            gate.inside -= 1
            gate.changed.notify_all()


def _before() -> None:
    _gate.changed.acquire()
    _gate.forks += 1
    if _gate.changed.wait_for(lambda: not _gate.inside, WAIT_SECONDS):
        for thing in [*_closables]:
            thing.let_go()


def _after_in_parent() -> None:
    _gate.forks -= 1
    _gate.changed.notify_all()
    _gate.changed.release()


def _begin_anew() -> None:
    global _gate
    _gate = _Gate()
    for thing in [*_forkables]:
        thing.begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before, after_in_parent=_after_in_parent, after_in_child=_begin_anew
    )
