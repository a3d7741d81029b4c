"""Which engine promises what and costs how much: writes the table of docs/durable.md. Run with `python -m benchmarks durable`.

The costs are measured here and now, each beside the plain call. A row whose extra is not installed
keeps the cost that stands in the page.
"""

import asyncio
import importlib.util
import platform
import re
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks.journal import milliseconds
from functool import FunctionTool, ToolCall

PAGE = Path(__file__).parents[1] / "docs" / "durable.md"
BEGIN, END = "<!-- made by `python -m benchmarks durable` -->", "<!-- end -->"
UNMEASURED = "not measured here"
HEAD = (
    "You need",
    "Use",
    "A call adds",
    "The body's process dies",
    "The machine dies",
    "The same call again",
)


class Engine(NamedTuple):
    """One row of the table; `cost` measures, in milliseconds, what a call adds."""

    need: str
    use: str
    process_dies: str
    machine_dies: str
    again: str
    cost: Callable[[], Awaitable[str]] | None
    extra: str = ""


def add(a: int, b: int) -> int:
    return a + b


async def nothing() -> str:
    return "nothing"


async def journal() -> str:
    with tempfile.TemporaryDirectory() as directory:
        found = await milliseconds(Path(directory), 300)
    return f"{found['bare'] + found['new']:.2g} ms, of it {found['bare']:.2g} ms for the disk"


async def processes() -> str:
    from functool.integrations.processes import ProcessExecutor

    async def median(tool: FunctionTool[[int, int], int]) -> float:
        taken = []
        for _ in range(200):
            start = time.perf_counter()
            assert (await tool(ToolCall(name="add", arguments={"a": 1, "b": 2}))).value == 3
            taken.append((time.perf_counter() - start) * 1_000)
        return statistics.median(taken)

    executor = ProcessExecutor(max_workers=1)
    try:
        away, here = FunctionTool(add, executor=executor), FunctionTool(add)
        return f"{await median(away) - await median(here):.2g} ms"
    finally:
        executor.close()


async def ray() -> str:
    return "0.1 to 0.2 ms in chunks"  # `make bench-engines` measures it.


async def temporal() -> str:
    return "50 ms"  # `make bench-engines` measures it.


ENGINES = [
    Engine(
        "nothing of this",
        "the tool as it is",
        "the call is lost, nobody knows whether it took effect",
        "the same",
        "runs again",
        nothing,
    ),
    Engine(
        "that no call takes effect twice, also after a crash",
        "`Journal.once`",
        "`OutcomeUnknown`, at once; it runs again where that is harmless",
        "the same after a restart, if the disk is there",
        "is answered with the stored result",
        journal,
    ),
    Engine(
        "a time limit that really ends a sync body, or a body that may crash",
        "`ProcessExecutor`",
        "an error result; other calls go on",
        "the call is lost",
        "runs again",
        processes,
        "pebble",
    ),
    Engine(
        "many machines",
        "[Ray](ray.md)",
        "an error result, never a silent retry of what is not idempotent",
        "of a worker's machine: the same",
        "runs again, unless there is a journal under it",
        ray,
    ),
    Engine(
        "runs that survive the loss of every process and machine of yours",
        "[Temporal](temporal.md)",
        "`OutcomeUnknown` with a journal under it; harmless tools run again",
        "the run goes on elsewhere",
        "is answered with the stored result, within the retention",
        temporal,
    ),
]


def table(costs: dict[str, str]) -> str:
    """Return the table in Markdown."""
    rows = [HEAD, ["---"] * len(HEAD)]
    rows += [
        [e.need, e.use, costs[e.use], e.process_dies, e.machine_dies, e.again] for e in ENGINES
    ]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def costs_in(page: str) -> dict[str, str]:
    """Return the costs that stand in the page, by what is used."""
    known = re.findall(r"^\| [^|]+ \| ([^|]+) \| ([^|]+) \|", page, re.MULTILINE)
    return {**{e.use: UNMEASURED for e in ENGINES}, **dict(known)}


def main() -> None:
    page = PAGE.read_text(encoding="utf-8")
    costs = costs_in(page)
    for engine in ENGINES:
        there = not engine.extra or importlib.util.find_spec(engine.extra) is not None
        if engine.cost is not None and there:
            costs[engine.use] = asyncio.run(engine.cost())
        else:
            print(f"{engine.use}: not measured here, the page keeps {costs[engine.use]!r}")
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    machine = f"Medians on {platform.machine()}, Python {platform.python_version()}."
    made = f"{before}{BEGIN}\n\n{table(costs)}\n\n{machine}\n\n{END}{after}"
    PAGE.write_text(made, encoding="utf-8")
    print(table(costs))
