"""Durable calls on Temporal: a call survives the death of its host and of every worker.

On a worker, next to the tools:

    worker = Worker(client, task_queue="tools", activities=activities(tools))

On a host, in the place of the tools:

    tools = durable(tools, client, run="order-17", task_queue="tools")

A call becomes an activity whose name is the tool's and whose id is the key of the journal: run,
tool and call id. Temporal starts an id once, so that the same call joins the one that is running,
and a finished one answers with its stored result for as long as the namespace keeps it (its
retention period). After that, the same call runs again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, overload

from functool import DefinitionError, Tool, Toolset
from functool.executors import checked_timeout
from functool.layers.some_tools import OneTool, each

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
"""How many calls of a turn are with the server at the same time, where a toolset sets no limit."""


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
def durable(
    tools: Toolset,
    client: Client | None,
    *,
    run: str,
    task_queue: str,
    heartbeat: float = ...,
    limit: float = ...,
) -> Toolset: ...
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
    """Return the same kind of tools, whose bodies run as activities of the workers of a task queue.

    Validation, guardrails and approvals take place here first, and again on the worker. An approval
    that was given here counts there. A call whose worker was lost inside the body answers
    `OutcomeUnknown`; that of a read-only or idempotent tool runs again. Cancelling the call, or its
    time limit, cancels the activity; the body learns of it with the next heartbeat.

    Args:
        tools: A tool, several, or a toolset, as they are defined on the workers.
        client: A client of the server; None inside a workflow, where its history is the record.
        run: The name of the work that the calls belong to. The work has it again after a restart.
        task_queue: The task queue of the workers.
        heartbeat: Seconds without a sign of life after which a worker counts as lost.
        limit: Seconds that a call may take with all its attempts and waiting.

    Raises:
        DefinitionError: The run or the task queue is empty, a number of seconds is not positive, or
            something is no tool.
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
    durables = each(tools, lambda tool: tool.around(Host(tool, engine, run).around))
    if isinstance(durables, Toolset) and durables.max_concurrency is None:
        durables = Toolset(durables.values(), max_concurrency=IN_FLIGHT)
    return durables


def _seconds(number: float) -> float:
    seconds = checked_timeout(number)
    if seconds is None:
        raise DefinitionError("heartbeat and limit must be numbers of seconds, not None")
    return seconds
