"""Begin anew in a forked child, which has none of its parent's threads, workers and connections."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forkable(Protocol):
    """Something that holds what belongs to one process."""

    def begin_anew(self) -> None:
        """Forget what belongs to the parent. No other thread of the child runs yet."""


_forkables: weakref.WeakSet[Forkable] = weakref.WeakSet()


def begins_anew(thing: Forkable) -> None:
    """Call `thing.begin_anew()` in every forked child, before the child can use `thing`."""
    _forkables.add(thing)


def _begin_anew() -> None:
    for thing in [*_forkables]:
        thing.begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
