"""What safety costs: guardrails, whole turns, time limits and hung tools. Run with `python -m benchmarks execution`."""

import asyncio
import logging
import math
import statistics
import threading
import time
from collections.abc import Iterator
from itertools import product
from typing import Any

from benchmarks._measure import heading, ratio_async, row
from functool import Context, FunctionTool, GuardrailError, ToolCall, ToolResult, Toolset

CALLS = 10_000
TURNS = 7
LIMIT = 0.05
OVERRUNS = 200
HUNG = 64
QUICK = 500


async def add(a: int, b: int) -> int:
    return a + b


def allowed(value: Any, context: Context) -> None:
    return None


def bench_guardrails() -> None:
    bare, guarded = (
        FunctionTool(add),
        FunctionTool(add, input_guardrails=[allowed], output_guardrails=[allowed]),
    )
    text = ToolCall(name="add", arguments='{"a": 1, "b": 2}', id="1")
    mapping = ToolCall(name="add", arguments={"a": 1, "b": 2}, id="1")
    for kind, call in (("text", text), ("a mapping", mapping)):
        measured = ratio_async(
            lambda call=call: guarded.invoke(call), lambda call=call: bare.invoke(call), 500
        )  # type: ignore[misc]
        row(f"a guardrail on each side / none, arguments as {kind}", measured, 2.0, 1.7)


def bench_turn() -> None:
    tool = FunctionTool(add)
    tools = Toolset([tool])
    calls = [
        ToolCall(name="add", arguments=f'{{"a": {i}, "b": 1}}', id=str(i)) for i in range(CALLS)
    ]

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
    row(
        f"a quick sync tool beside {HUNG} hung ones, median",
        statistics.median(beside),
        1.0,
        0.2,
        " ms",
    )
    row(
        f"a quick sync tool beside {HUNG} hung ones, p99",
        beside[math.ceil(0.99 * QUICK) - 1],
        10,
        2,
        " ms",
    )
    row(
        f"the same median / without the {HUNG} hung ones",
        statistics.median(beside) / statistics.median(alone),
        2.0,
        1.2,
    )


SECRET = "what the body says"


def breaking(fault: str, stage: str, is_async: bool) -> Any:
    """Return a guardrail that does what no guardrail should."""

    def broken(value: Any, context: Context) -> Any:
        if fault == "wrong type":
            return "fine"
        if fault == "bool":
            return True
        if fault == "other stage's":
            return ToolResult.of(SECRET) if stage == "input" else ToolCall(name="x")
        raise {
            "refuses": GuardrailError,
            "cancels": asyncio.CancelledError,
            "KeyError": KeyError,
            "recursion": RecursionError,
        }[fault]("no")

    async def broken_later(value: Any, context: Context) -> Any:
        await asyncio.sleep(0)
        return broken(value, context)

    return broken_later if is_async else broken


def bodies(ran: list[int]) -> list[Any]:
    """Return functions of each kind; all of them note that they ran, and say the secret."""

    async def coroutine() -> str:
        ran.append(1)
        return SECRET

    def in_a_thread() -> str:
        ran.append(1)
        return SECRET

    def generator() -> Iterator[str]:
        ran.append(1)
        yield SECRET

    async def failing() -> None:
        ran.append(1)
        raise ValueError(SECRET)

    return [coroutine, in_a_thread, generator, failing]


async def faults() -> tuple[int, int, int]:
    """Try every fault of a guardrail in every place; return how many, how many results were lost, and how many failed open."""
    ran: list[int] = []
    tried = lost = opened = 0
    names = ["refuses", "KeyError", "recursion", "cancels", "wrong type", "bool", "other stage's"]
    for name, stage, place, is_async, body, timeout in product(
        names, ("input", "output"), range(3), (False, True), range(4), (None, 5.0)
    ):
        guardrails: list[Any] = [allowed, allowed]
        guardrails.insert(place, breaking(name, stage, is_async))
        tool: Any = FunctionTool(bodies(ran)[body], timeout=timeout)
        (tool.add_input_guardrails if stage == "input" else tool.add_output_guardrails)(guardrails)
        ran.clear()
        tried += 1
        try:
            result = await tool.invoke(ToolCall(name=tool.name, id="1"))
        except BaseException:
            lost += 1
            continue
        lost += result.call_id != "1"
        opened += (
            result.success
            or SECRET in result.text
            or result.value == SECRET
            or (stage == "input" and bool(ran))
        )
    return tried, lost, opened


def bench_faults() -> None:
    logging.getLogger("functool").setLevel("CRITICAL")
    tried, lost, opened = asyncio.run(faults())
    print(f"faults of guardrails tried: {tried}; results lost: {lost}; failed open: {opened}")


def main() -> None:
    print(heading())
    bench_faults()
    bench_guardrails()
    bench_turn()
    bench_overrun()
    bench_hung()
