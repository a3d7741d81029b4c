"""What safety costs: guardrails, whole turns, time limits and hung tools. Run with `python -m benchmarks execution`."""

import asyncio
import math
import statistics
import threading
import time

from benchmarks._measure import heading, ratio_async, row
from functool import Context, FunctionTool, ToolCall, ToolResult, Toolset

CALLS = 10_000
TURNS = 7
LIMIT = 0.05
OVERRUNS = 200
HUNG = 64
QUICK = 500


async def add(a: int, b: int) -> int:
    return a + b


def allowed(call: ToolCall, context: Context) -> ToolCall | None:
    return None


def shown(result: ToolResult, context: Context) -> ToolResult | None:
    return None


def bench_guardrails() -> None:
    bare, guarded = FunctionTool(add), FunctionTool(add, input_guardrails=[allowed], output_guardrails=[shown])
    text = ToolCall(name="add", arguments='{"a": 1, "b": 2}', id="1")
    mapping = ToolCall(name="add", arguments={"a": 1, "b": 2}, id="1")
    for kind, call in (("text", text), ("a mapping", mapping)):
        measured = ratio_async(lambda call=call: guarded.invoke(call), lambda call=call: bare.invoke(call), 500)  # type: ignore[misc]
        row(f"a guardrail on each side / none, arguments as {kind}", measured, 2.0, 1.7)


def bench_turn() -> None:
    tool = FunctionTool(add)
    tools = Toolset([tool])
    calls = [ToolCall(name="add", arguments=f'{{"a": {i}, "b": 1}}', id=str(i)) for i in range(CALLS)]

    async def turn() -> float:
        start = time.perf_counter()
        results = await tools.call_all(calls)
        took = time.perf_counter() - start
        assert [result.call_id for result in results] == [call.id for call in calls]
        return took

    async def gathered() -> float:
        start = time.perf_counter()
        results = await asyncio.gather(*(tool.invoke(call) for call in calls))
        took = time.perf_counter() - start
        assert len(results) == CALLS
        return took

    with asyncio.Runner() as runner:
        found = [runner.run(turn()) / runner.run(gathered()) for _ in range(TURNS)]
    row(f"{CALLS:,} parallel calls: call_all / asyncio.gather", statistics.median(found), 1.5, 1.2)


def bench_overrun() -> None:
    @FunctionTool(timeout=LIMIT)
    async def sleepy() -> None:
        await asyncio.sleep(60)

    async def overruns() -> list[float]:
        found = []
        for _ in range(OVERRUNS):
            start = time.perf_counter()
            result = await sleepy.invoke(ToolCall(name="sleepy"))
            found.append((time.perf_counter() - start - LIMIT) * 1_000)
            assert result.error is not None and result.error.type == "ToolTimeoutError"
        return found

    found = sorted(asyncio.run(overruns()))
    row("overrun past a deadline, median", statistics.median(found), 5, 2, " ms")
    row("overrun past a deadline, p99", found[math.ceil(0.99 * len(found)) - 1], 25, 10, " ms")


def bench_hung() -> None:
    release = threading.Event()

    @FunctionTool
    def hang() -> None:
        release.wait()

    @FunctionTool
    def quick() -> str:
        return "quick"

    tools = Toolset([hang, quick])

    async def latencies() -> list[float]:
        found = []
        for _ in range(QUICK):
            start = time.perf_counter()
            result = await tools.call(ToolCall(name="quick"))
            found.append((time.perf_counter() - start) * 1_000)
            assert result.value == "quick"
        return sorted(found)

    async def main() -> tuple[list[float], list[float]]:
        alone = await latencies()
        hung = asyncio.create_task(tools.call_all([ToolCall(name="hang") for _ in range(HUNG)]))
        await asyncio.sleep(0.1)
        beside = await latencies()
        release.set()
        await hung
        return alone, beside

    alone, beside = asyncio.run(main())
    row(f"a quick sync tool beside {HUNG} hung ones, median", statistics.median(beside), 1.0, 0.2, " ms")
    row(f"a quick sync tool beside {HUNG} hung ones, p99", beside[math.ceil(0.99 * QUICK) - 1], 10, 2, " ms")
    row(f"the same median / without the {HUNG} hung ones", statistics.median(beside) / statistics.median(alone), 2.0, 1.2)


def main() -> None:
    print(heading())
    bench_guardrails()
    bench_turn()
    bench_overrun()
    bench_hung()
