"""Tools on Ray beside bare actors that validate the same arguments: `python -m benchmarks ray_engine`.

The bare actors get one call each, as one writes it first, and then the same chunks, which they
answer with one list. Writes its entry of DURABLE.json. Needs `make .venv-engines/.filled`.
"""

import asyncio
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import ray
from pydantic import TypeAdapter
from typing_extensions import TypedDict

from benchmarks import _record
from benchmarks._measure import heading, row
from functool import FunctionTool, ToolCall, Toolset
from functool.integrations.ray import on_ray

CHUNK = 50
COUNTS = (1_000, 10_000, 100_000)
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


async def single(tools: Toolset, actors: list, count: int) -> dict[str, float]:
    """Return medians of single calls: ours / a bare actor's, and what ours adds to a plain call, in ms."""
    pairs, added = [], []
    for i in range(count):
        call = ToolCall(name="add", arguments={"a": i, "b": 1}, id=str(i))
        start = time.perf_counter()
        await actors[0].one.remote({"a": i, "b": 1})
        middle = time.perf_counter()
        await tools.call(call)
        end = time.perf_counter()
        await add.invoke(call)
        pairs.append((end - middle) / (middle - start))
        added.append(end - middle - (time.perf_counter() - end))
    return {"ratio": statistics.median(pairs), "adds_ms": statistics.median(added) * 1_000}


async def one_by_one(actors: list, count: int) -> float:
    """Return the seconds of as many calls of bare actors, each sent by itself."""
    start = time.perf_counter()
    await asyncio.gather(
        *(actors[i % len(actors)].one.remote({"a": i, "b": 1}) for i in range(count))
    )
    return time.perf_counter() - start


async def together(
    tools: Toolset, actors: list, count: int, floor: Callable[[list, int], Awaitable[float]]
) -> dict[str, float]:
    """Return medians of whole turns: ours / bare, and microseconds a call."""
    rounds = ROUNDS if count < 100_000 else 1
    pairs = [(await turn(tools, count), await floor(actors, count)) for _ in range(rounds)]
    return {
        "ratio": statistics.median(ours / bare for ours, bare in pairs),
        "us": statistics.median(ours for ours, _ in pairs) / count * 1e6,
    }


async def measure(workers: int) -> dict[str, Any]:
    tools = on_ray(Toolset([add]), actors=workers, chunk=CHUNK)
    limited = on_ray(Toolset([add], max_concurrency=4 * CHUNK), actors=workers, chunk=CHUNK)
    actors = [
        ray.remote(Bare).options(num_cpus=1, max_concurrency=1000).remote() for _ in range(workers)
    ]
    for one in (tools, limited):
        await turn(one, 1_000)
    await bare_turn(actors, 1_000)
    await one_by_one(actors, 1_000)
    found = {
        "single": await single(tools, actors, 500),
        "one by one": await together(tools, actors, 1_000, one_by_one),
        "limited": await together(limited, actors, 10_000, bare_turn),
    }
    for count in COUNTS:
        found[str(count)] = await together(tools, actors, count, bare_turn)
    show(f"{workers} worker(s)", found)
    return found


def show(who: str, found: dict[str, Any]) -> None:
    row(f"{who}: a single call / a bare actor's", found["single"]["ratio"], LIMIT, 1.2)
    row(f"{who}: 1,000 calls / 1,000 of bare actors", found["one by one"]["ratio"], LIMIT, 1.2)
    for count in COUNTS:
        ratio, each = found[str(count)]["ratio"], found[str(count)]["us"]
        print(
            f"{who}: {count:,} calls / bare chunks of {CHUNK}: {ratio:.1f}x, {each:.0f} us a call"
        )
    ratio, each = found["limited"]["ratio"], found["limited"]["us"]
    print(f"{who}: 10,000 calls, {4 * CHUNK} at a time: {ratio:.1f}x, {each:.0f} us a call")


def main() -> None:
    print(heading())
    ray.init(
        num_cpus=8, object_store_memory=200_000_000, include_dashboard=False, log_to_driver=False
    )
    found = {str(workers): asyncio.run(measure(workers)) for workers in (1, 2)}
    ray.shutdown()
    _record.write("ray", {"workers": found}, ["ray"])
