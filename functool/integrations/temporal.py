"""Run durable calls on Temporal: a call survives the end of its host and of every worker.

On a worker, next to the tools:

    worker = Worker(client, task_queue="tools", activities=activities(tools))

On a host, instead of the tools:

    tools = durable(tools, client, run="order-17", task_queue="tools")

A call becomes an activity. The activity has the tool's name, and its id is made of run, tool and
call id, as the key of a journal is. Temporal starts an id once. If the same call comes again, it
joins the running activity, or gets the stored result of the finished one. Temporal stores a result
for the retention period of the namespace. After that, the same call runs again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, overload

from functool import DefinitionError, Tool, Toolset
from functool.layers.some_tools import OneTool, SameKind, around_each
from functool.time_limit import checked_timeout

try:
    from temporalio.client import Client

    from functool.integrations.temporal_engines import Limits, Standalone, WithinWorkflow
    from functool.integrations.temporal_worker import activities
except ImportError as _error:
    raise ImportError("Temporal needs: pip install 'functool[temporal]'") from _error

from functool.integrations.temporal_host import Host
from functool.integrations.temporal_outcome import OutcomeUnknown

__all__ = ["OutcomeUnknown", "activities", "durable"]

IN_FLIGHT = 100
"""How many calls of a turn are at the server at the same time, if a toolset sets no limit."""


@overload
def durable(
    tools: OneTool,
    client: Client | None,
    *,
    run: str,
    task_queue: str,
    heartbeat: float = ...,
    limit: float = ...,
) -> OneTool: ...
@overload
def durable(  # type: ignore[overload-overlap]
    tools: SameKind,
    client: Client | None,
    *,
    run: str,
    task_queue: str,
    heartbeat: float = ...,
    limit: float = ...,
) -> SameKind: ...
@overload
def durable(
    tools: Iterable[Tool],
    client: Client | None,
    *,
    run: str,
    task_queue: str,
    heartbeat: float = ...,
    limit: float = ...,
) -> list[Tool]: ...


def durable(
    tools: Any,
    client: Client | None,
    *,
    run: str,
    task_queue: str,
    heartbeat: float = 10.0,
    limit: float = 86_400.0,
) -> Any:
    """Return the tools, changed so that their bodies run as activities on Temporal workers.

    A toolset gives a toolset. Validation, guardrails and approvals run here first, and again on the
    worker. An approval given here is valid there. If a worker is lost inside the body, the call
    fails with `OutcomeUnknown`; a read-only or idempotent tool runs again instead. Cancelling a
    call cancels its activity, and so does its time limit. The body learns of it at the next
    heartbeat.

    Args:
        tools: A tool, several, or a toolset, as they are defined on the workers.
        client: A client of the server. None inside a workflow, whose history is the record then.
        run: The name of the work that the calls belong to. Use the same name when the work resumes
            after a restart.
        task_queue: The task queue of the workers.
        heartbeat: Seconds without a heartbeat after which a worker counts as lost.
        limit: Seconds that a call may take with all its attempts and waiting.

    Raises:
        DefinitionError: The run or the task queue is empty, a number of seconds is not positive, or
            something is not a tool.
    """
    for name, text in (("run", run), ("task_queue", task_queue)):
        if not isinstance(text, str) or not text:
            raise DefinitionError(f"{name} must be a text that is not empty, not {text!r}")
    limits = Limits(_seconds(heartbeat), _seconds(limit))
    engine: Any = (
        WithinWorkflow(task_queue, limits)
        if client is None
        else Standalone(client, task_queue, limits)
    )
    durables = around_each(tools, lambda tool: Host(tool, engine, run).around)
    if isinstance(durables, Toolset) and durables.max_concurrency is None:
        durables = Toolset(durables.values(), max_concurrency=IN_FLIGHT)
    return durables


def _seconds(number: float) -> float:
    seconds = checked_timeout(number)
    if seconds is None:
        raise DefinitionError("heartbeat and limit must be numbers of seconds, not None")
    return seconds
