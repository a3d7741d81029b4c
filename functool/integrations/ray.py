"""Run tools on the machines of a Ray cluster.

    ray.init(address="auto")
    tools = on_ray(tools, actors=16, resources={"render": {"num_gpus": 1}})

A call takes its road here, with guardrails and approvals, and then again in an actor on some
machine, which runs the body. Calls that are made together travel in chunks. A worker or a machine
that is lost is an error result: only a tool that is read-only or idempotent runs again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, overload

from functool import Context, DefinitionError, Tool, ToolCall, ToolResult, Toolset, Tripwire
from functool.integrations.far_approval import agreed, approved_digest
from functool.layers.some_tools import OneTool, each

try:
    from functool.integrations.ray_pool import Pool, WorkerLost
except ImportError as _error:
    raise ImportError("Ray needs: pip install 'functool[ray]'") from _error

__all__ = ["WorkerLost", "on_ray"]

ATTEMPTS = 3
"""How often a call of a read-only or idempotent tool is sent to a worker."""

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
def on_ray(
    tools: Toolset,
    *,
    actors: int = ...,
    resources: Resources | None = ...,
    chunk: int = ...,
    deps: str | None = ...,
) -> Toolset: ...
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
    """Return the same kind of tools.

    Whose bodies run in actors of the cluster that Ray is connected to.

    Tools are found again by module and name, so the workers need the same code. Actors end when the
    tools returned here are dropped. Cancelling a call, and its time limit, reach the body.

    Args:
        tools: A tool, several, or a toolset.
        actors: How many actors run the tools. Those with resources of their own have as many again.
        resources: By the name of a tool, what one actor for it takes: `num_cpus`, `num_gpus`,
            `memory` (bytes), or a resource of the cluster. The others take one processor.
        chunk: How many calls travel together at most. An actor has twice as many at a time.
        deps: `"package.module:function"`. The function, sync or async, makes the `deps` of every
            context, once in each actor.

    Raises:
        DefinitionError: Ray is not connected, a tool cannot be found by its name, a resource is for
            no tool, or a number is not positive.
    """
    for name, number in (("actors", actors), ("chunk", chunk)):
        if type(number) is not int or number < 1:
            raise DefinitionError(f"{name} must be a positive int, not {number!r}")
    if deps is not None and not (isinstance(deps, str) and all(deps.partition(":")[::2])):
        raise DefinitionError(f'deps must be "package.module:function", not {deps!r}')
    if not isinstance(tools, (Tool, Toolset)):
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
        """Answer a call from a worker.

        Raises:
            WorkerLost: The worker was lost, and the tool must not run twice.
            Tripwire: The worker raised one.
        """
        arguments: Any = call.arguments
        sent = ToolCall(
            name=self._tool.name,
            arguments=self._tool.sent_form(arguments),
            id=call.id,
            metadata={"sources": call.metadata["sources"]} if "sources" in call.metadata else {},
        )
        approved = approved_digest(call, context)
        result = await self._sent(sent, approved)
        asked = result.metadata.get("approval")
        if asked is not None and asked.digest != approved and await agreed(asked, context):
            result = await self._sent(sent, asked.digest)
        return result

    async def _sent(self, call: ToolCall, approved: str) -> ToolResult:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                result = await self._pool.answer(call, approved)
            except WorkerLost:
                if not self._repeatable or attempt == ATTEMPTS:
                    raise
                continue
            if isinstance(result, Tripwire):
                raise result
            return result
        raise AssertionError  # The last attempt returns or raises.
