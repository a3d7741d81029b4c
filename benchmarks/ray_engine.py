"""Tools on Ray beside bare actors that validate the same arguments: `python -m benchmarks ray_engine`.

The bare actors get the same chunks, and answer each with one list. Needs `make .venv-engines/.filled`.
"""

import asyncio
import os
import statistics
import time

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import ray
from pydantic import TypeAdapter
from typing_extensions import TypedDict

from benchmarks._measure import heading, row
from functool import FunctionTool, ToolCall, Toolset
from functool.integrations.ray import on_ray

CHUNK = 50
ROUNDS = 7
LIMIT = 1.3


class Numbers(TypedDict):
    a: int
    b: int


@FunctionTool
async def add(a: int, b: int) -> int:
    return a + b


class Bare:
    """What one writes without functool: validate each call, run it, answer."""

    def __init__(self) -> None:
        self.numbers = TypeAdapter(Numbers)

    async def one(self, arguments: dict) -> int:
        numbers = self.numbers.validate_python(arguments)
        return numbers["a"] + numbers["b"]

    async def chunk(self, many: list) -> list:
        return list(await asyncio.gather(*map(self.one, many)))


async def bare_turn(actors: list, count: int) -> float:
    start = time.perf_counter()
    sent = [{"a": i, "b": 1} for i in range(count)]
    chunks = [sent[i : i + CHUNK] for i in range(0, count, CHUNK)]
    found = await asyncio.gather(
        *(actors[i % len(actors)].chunk.remote(chunk) for i, chunk in enumerate(chunks))
    )
    took = time.perf_counter() - start
    assert sum(map(len, found)) == count
    return took


async def turn(tools: Toolset, count: int) -> float:
    calls = [ToolCall(name="add", arguments={"a": i, "b": 1}, id=str(i)) for i in range(count)]
    start = time.perf_counter()
    results = await tools.call_all(calls)
    took = time.perf_counter() - start
    assert [result.value for result in results] == [i + 1 for i in range(count)]
    return took


async def single(tools: Toolset, actors: list, count: int) -> float:
    """Return the median of pairs of single calls: ours / a bare actor's."""
    pairs = []
    for i in range(count):
        start = time.perf_counter()
        await actors[0].one.remote({"a": i, "b": 1})
        middle = time.perf_counter()
        await tools.call(ToolCall(name="add", arguments={"a": i, "b": 1}, id=str(i)))
        pairs.append((time.perf_counter() - middle) / (middle - start))
    return statistics.median(pairs)


async def measure(workers: int) -> None:
    tools = on_ray(Toolset([add]), actors=workers, chunk=CHUNK)
    actors = [
        ray.remote(Bare).options(num_cpus=1, max_concurrency=1000).remote() for _ in range(workers)
    ]
    await bare_turn(actors, 1_000)
    await turn(tools, 1_000)
    row(
        f"{workers} worker(s): a single call / a bare actor's",
        await single(tools, actors, 300),
        LIMIT,
        1.2,
    )
    for count in (1_000, 10_000, 100_000):
        rounds = ROUNDS if count < 100_000 else 1
        pairs = [(await turn(tools, count), await bare_turn(actors, count)) for _ in range(rounds)]
        row(
            f"{workers} worker(s): {count:,} calls in chunks / bare actors",
            statistics.median(ours / bare for ours, bare in pairs),
            LIMIT,
            1.2,
        )
        each = statistics.median(ours for ours, _ in pairs) / count * 1e6
        print(f"    {each:.0f} microseconds a call")


def main() -> None:
    print(heading())
    ray.init(
        num_cpus=8, object_store_memory=200_000_000, include_dashboard=False, log_to_driver=False
    )
    for workers in (1, 2):
        asyncio.run(measure(workers))
    ray.shutdown()
