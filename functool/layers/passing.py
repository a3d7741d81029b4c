"""Mark contexts that end with one call or one run, because the host keeps none itself.

A call that waits for a person's approval loses what it left in such a context: the host calls again
with a new one.
"""

from __future__ import annotations

from typing import Any

from functool import Context

_PASSING = "functool.passing"


def passing(context: Context[Any]) -> Context[Any]:
    """Mark a context as one that the host does not keep. Return the context."""
    context.state[_PASSING] = True
    return context


def is_passing(context: Context[Any]) -> bool:
    """Whether the host forgets this context after the call or the run."""
    return bool(context.state.get(_PASSING))
