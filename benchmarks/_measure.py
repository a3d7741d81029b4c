"""How the benchmarks measure: rivals take turns in one run, and what is printed are medians of ratios."""

import asyncio
import gc
import platform
import statistics
import time
from collections.abc import Awaitable, Callable
from importlib.metadata import version

ROUNDS = 301


def timed(work: Callable[[], object], times: int) -> float:
    """Return the seconds that `times` calls of `work` take."""
    start = time.perf_counter()
    for _ in range(times):
        work()
    return time.perf_counter() - start


async def timed_async(work: Callable[[], Awaitable[object]], times: int) -> float:
    """Return the seconds that `times` awaited calls of `work` take."""
    start = time.perf_counter()
    for _ in range(times):
        await work()
    return time.perf_counter() - start


def ratio(measure: Callable[[], tuple[float, float]]) -> float:
    """Return the median of ours / floor over rounds in which both are measured after one another."""
    measure()
    gc.collect()
    gc.disable()
    try:
        return statistics.median(ours / floor for ours, floor in (measure() for _ in range(ROUNDS)))
    finally:
        gc.enable()


def ratio_async(
    ours: Callable[[], Awaitable[object]], floor: Callable[[], Awaitable[object]], times: int
) -> float:
    """Return how many times as long `ours` takes as `floor`, both awaited on one loop."""

    async def both() -> tuple[float, float]:
        return await timed_async(ours, times), await timed_async(floor, times)

    with asyncio.Runner() as runner:
        return ratio(lambda: runner.run(both()))


def heading() -> str:
    """Return the machine and the versions, in one line."""
    packages = " ".join(f"{name} {version(name)}" for name in ("pydantic", "pydantic_core"))
    return f"{platform.machine()}, Python {platform.python_version()}, {packages}"


def row(work: str, value: float, most: float, aim: float, unit: str = "x") -> None:
    """Print a line of the table."""
    verdict = "aim met" if value <= aim else "ok" if value <= most else "OVER"
    print(f"{work:<58} {value:7.2f}{unit:<3} at most {most:g}, aim {aim:g}: {verdict}")
