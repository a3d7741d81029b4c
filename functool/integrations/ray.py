"""Run tools on the machines of a Ray cluster.

    ray.init(address="auto")
    tools = on_ray(tools, actors=16, resources={"render": {"num_gpus": 1}})

Guardrails and approvals of a call run here, and then again in an actor on some machine, which runs
the body. Calls that are made together are sent in chunks. If a worker or a machine is lost, its
calls fail. Only a tool that is read-only or idempotent runs again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, overload

from functool import Context, DefinitionError, Tool, ToolCall, ToolResult, Toolset, Tripwire
from functool.integrations.far_approval import Agreements
from functool.layers.journal import idempotency_key
from functool.layers.journal_replay import as_interrupted, pauses
from functool.layers.some_tools import OneTool, SameKind, each

try:
    from functool.integrations.ray_pool import Pool, WorkerLost
except ImportError as _error:
    raise ImportError("Ray needs: pip install 'functool[ray]'") from _error

__all__ = ["WorkerLost", "on_ray"]

ATTEMPTS = 3
"""How often a call of a read-only or idempotent tool is sent to a worker."""

_SENT = ("sources", "journal")
"""The metadata of a call that its worker gets."""

Resources = Mapping[str, Mapping[str, float]]


@overload
def on_ray(
    tools: OneTool,
    *,
    actors: int = ...,
    resources: Resources | None = ...,
    chunk: int = ...,
    deps: str | None = ...,
) -> OneTool: ...
@overload
def on_ray(  # type: ignore[overload-overlap]
    tools: SameKind,
    *,
    actors: int = ...,
    resources: Resources | None = ...,
    chunk: int = ...,
    deps: str | None = ...,
) -> SameKind: ...
@overload
def on_ray(
    tools: Iterable[Tool],
    *,
    actors: int = ...,
    resources: Resources | None = ...,
    chunk: int = ...,
    deps: str | None = ...,
) -> list[Tool]: ...


def on_ray(
    tools: Any,
    *,
    actors: int = 1,
    resources: Resources | None = None,
    chunk: int = 50,
    deps: str | None = None,
) -> Any:
    """Return the tools, changed so that their bodies run in actors of the connected Ray cluster.

    A toolset gives a toolset. Workers find the tools by module and name, so they need the same
    code. The actors end when the returned tools are dropped. Cancelling a call cancels its body,
    and so does its time limit.

    Args:
        tools: A tool, several, or a toolset.
        actors: How many actors run the tools. Tools with the same resources share their actors.
            Each other set of resources has as many actors again.
        resources: By the name of a tool, the resources of one actor for it: `num_cpus`, `num_gpus`,
            `memory` (bytes), or a resource of the cluster. Without an entry it is one processor.
        chunk: The most calls that are sent together. An actor has at most twice as many at a time.
        deps: `"package.module:function"`. The function, sync or async, makes the `deps` of every
            context, once in each actor.

    Raises:
        DefinitionError: Ray is not connected, a tool cannot be found by its name, resources are
            given for an unknown tool, or a number is not positive.
    """
    for name, number in (("actors", actors), ("chunk", chunk)):
        if type(number) is not int or number < 1:
            raise DefinitionError(f"{name} must be a positive int, not {number!r}")
    if deps is not None and not (isinstance(deps, str) and all(deps.partition(":")[::2])):
        raise DefinitionError(f'deps must be "package.module:function", not {deps!r}')
    if not isinstance(tools, (Tool, Toolset, tuple)):  # An iterator can be read only once.
        tools = list(tools.values() if isinstance(tools, Mapping) else tools)
    known = (
        tools
        if isinstance(tools, Toolset)
        else Toolset([tools] if isinstance(tools, Tool) else tools)
    )
    if strays := sorted((resources or {}).keys() - known.keys()):
        raise DefinitionError(f"resources are for no tool: {', '.join(strays)}")
    pool = Pool(known, resources or {}, actors=actors, chunk=chunk, deps=deps)
    return each(tools, lambda tool: tool.around(_OnRay(tool, pool).around))


class _OnRay:
    """Runs the calls of one tool in the actors of a pool."""

    def __init__(self, tool: Tool, pool: Pool) -> None:
        self._tool = tool
        self._pool = pool
        self._repeatable = bool(tool.settings.read_only or tool.settings.idempotent)

    async def around(self, call: ToolCall, context: Context[Any], proceed: Any) -> ToolResult:
        """Run a call on a worker, and return its result.

        Raises:
            WorkerLost: The worker was lost, and the tool must not run twice.
            Tripwire: The worker raised one.
        """
        arguments: Any = call.arguments
        sent = ToolCall(
            name=self._tool.name,
            arguments=self._tool.sent_form(arguments),
            id=call.id,
            metadata={name: call.metadata[name] for name in _SENT if name in call.metadata},
        )
        if self._repeatable:  # Each attempt has the same key.
            sent.metadata = {**sent.metadata, "journal": {"key": idempotency_key(context)}}
        agreements = Agreements(call, context)
        while True:
            result = await self._sent(sent, agreements)
            asked: Any = result.metadata.get("approval")
            if not pauses(result) or not await agreements.add(asked):
                return result

    async def _sent(self, call: ToolCall, agreements: Agreements) -> ToolResult:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                result = await self._pool.answer(call, agreements.digests)
            except WorkerLost:
                if not self._repeatable or attempt == ATTEMPTS:
                    raise
                agreements.start_over()
                continue
            if isinstance(result, Tripwire):
                raise result
            mark: Any = result.metadata.get("ray")
            is_lost = result.is_error and isinstance(mark, dict) and mark.get("interrupted")
            return as_interrupted(result) if is_lost else result
        raise AssertionError  # The last attempt returns or raises.
