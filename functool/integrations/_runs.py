"""Find the context that the exported tools of one run share.

A framework makes no context of ours. So each run has one here, and so has each agent that a runner
runs behind `AgentTool`.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar

from functool import Context, ToolResult
from functool.integrations._agents import key_of
from functool.layers.passing import is_passing, passing

Runner = TypeVar("Runner", bound=Callable[..., Awaitable[ToolResult]])


class _Run(NamedTuple):
    context: Context[Any]
    ends: list[weakref.finalize[..., Any]]
    held: list[Any]  # Objects that allow no weak references. Another object could get their ids.


class Runs:
    """The contexts of runs. Each is found by objects that live as long as its run.

    It is forgotten with the first of them. It must not refer to them: nothing would free them then.
    So it has no `deps`. Each call gets a view with its own.
    """

    def __init__(self) -> None:
        self._runs: dict[tuple[int, ...], _Run] = {}

    def __len__(self) -> int:
        return len(self._runs)

    def context_of(self, *owners: Any) -> Context[Any]:
        """Return the context of the run that these objects belong to, a new one the first time."""
        key = tuple(map(id, owners))
        run = self._runs.get(key)
        if run is None:
            run = self._runs[key] = _Run(passing(Context()), [], [])
            for owner in owners:
                try:
                    end = weakref.finalize(owner, self._forget, key)
                except TypeError:
                    run.held.append(owner)
                else:
                    end.atexit = False
                    run.ends.append(end)
        return run.context

    def _forget(self, key: tuple[int, ...]) -> None:
        with suppress(KeyError):
            for end in self._runs.pop(key).ends:
                end.detach()


class _Home:
    """The context of the tools of a running agent, or None once its run has ended.

    Tasks that the agent has started may run on, for somebody else.
    """

    def __init__(self, context: Context[Any]) -> None:
        self.context: Context[Any] | None = context


_home: ContextVar[_Home | None] = ContextVar("functool_agent_home", default=None)


def own_context(deps: Any, *, converts: tuple[type, ...] = ()) -> Context[Any] | None:
    """Return the context that a run brings along, or None if it has none.

    This is its dependency object, or that of the runner that runs the agent for `AgentTool`.

    Args:
        deps: The dependencies of the run.
        converts: The types of dependencies from which the framework may make an object.
    """
    if isinstance(deps, Context):
        return deps
    home = _home.get()
    inner = None if home is None else home.context
    if inner is None:
        return None
    is_other = deps is None or isinstance(deps, converts)  # Nothing was made of these.
    is_made = isinstance(inner.deps, converts) and not is_other
    return inner.view(deps=deps) if inner.deps is deps or is_made else None


def keeping_context(run: Runner) -> Runner:
    """Return a runner whose agent's tools share one context.

    It is kept while the call waits for a person. So an agent among these tools goes on where it
    stopped, and nothing that it has done is done again.
    """

    @functools.wraps(run)
    async def keeping(agent: Any, text: str, context: Context[Any], **options: Any) -> ToolResult:
        paused = key_of(run.__module__, context, text)
        place = f"{paused} tools"
        # What is kept has no deps: the host may have new ones when the call is made again.
        kept: Context[Any] = context.state.pop(place, None) or Context()
        if is_passing(context):
            passing(kept)
        home = _Home(kept.view(deps=context.deps))
        token = _home.set(home)
        try:
            return await run(agent, text, context, **options)
        finally:
            _home.reset(token)
            home.context = None
            if paused in context.state:
                context.state[place] = kept

    return keeping  # type: ignore[return-value]
