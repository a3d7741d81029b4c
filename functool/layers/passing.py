"""Contexts that end with one call or one run, since the host gave none that it keeps.

What a call leaves in such a context is gone when a person has answered and the host calls again.
"""

from __future__ import annotations

from typing import Any

from functool import Context

_PASSING = "functool.passing"


def passing(context: Context[Any]) -> Context[Any]:
    """Mark a context as one that the host does not keep, and return it."""
    context.state[_PASSING] = True
    return context


def is_passing(context: Context[Any]) -> bool:
    """Whether the host forgets this context after the call, or the run."""
    return bool(context.state.get(_PASSING))
