"""Which engine promises what and costs how much: `python -m benchmarks durable`.

Runs the benchmark of each engine whose package is there, which writes its entry of DURABLE.json,
and then makes the tables of docs/durable.md, docs/ray.md and docs/temporal.md from all entries.
`make bench-engines` runs it where all packages are.
"""

import asyncio
import importlib
import importlib.util
import math
import re
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import _record
from benchmarks.journal import milliseconds
from functool import FunctionTool, ToolCall

DOCS = Path(__file__).parents[1] / "docs"
BEGIN, END = "<!-- made by `python -m benchmarks durable` -->", "<!-- end -->"
HEAD = (
    "You need",
    "Use",
    "A call adds",
    "The body's process dies",
    "The machine dies",
    "The same call again",
)
Record = dict[str, Any]


class Engine(NamedTuple):
    """One row of the table; `cost` says what a call adds, from the record."""

    need: str
    use: str
    process_dies: str
    machine_dies: str
    again: str
    cost: Callable[[Record], str]


def add(a: int, b: int) -> int:
    return a + b


def measure_journal() -> None:
    with tempfile.TemporaryDirectory() as directory:
        found = asyncio.run(milliseconds(Path(directory), 500))
    _record.write("journal", {f"{name}_ms": value for name, value in found.items()})


def measure_processes() -> None:
    from functool.integrations.processes import ProcessExecutor

    executor = ProcessExecutor(max_workers=1)
    try:
        away, here = FunctionTool(add, executor=executor), FunctionTool(add)
        found = asyncio.run(difference(away, here))
    finally:
        executor.close()
    _record.write("processes", {"adds_ms": found}, ["pebble"])


async def difference(ours: FunctionTool[..., int], plain: FunctionTool[..., int]) -> float:
    """Return the median of what a call of `ours` takes longer, in milliseconds."""
    taken = []
    for _ in range(300):
        times = []
        for tool in (ours, plain):
            start = time.perf_counter()
            assert (await tool(ToolCall(name="add", arguments={"a": 1, "b": 2}))).value == 3
            times.append((time.perf_counter() - start) * 1_000)
        taken.append(times[0] - times[1])
    return statistics.median(taken)


def measure_elsewhere(benchmark: str) -> Callable[[], None]:
    """Return what runs a benchmark that needs a package of its own."""
    return lambda: importlib.import_module(f"benchmarks.{benchmark}").main()


MEASURES = {
    "journal": ("", measure_journal),
    "processes": ("pebble", measure_processes),
    "temporal": ("temporalio", measure_elsewhere("temporal_engine")),
    "ray": ("ray", measure_elsewhere("ray_engine")),
}


def journal_cost(record: Record) -> str:
    disk, new = record["journal"]["bare_ms"], record["journal"]["new_ms"]
    return f"{disk + new:.2g} ms, of it {disk:.2g} ms for the disk"


def ray_cost(record: Record) -> str:
    found = record["ray"]["workers"]["1"]
    return f"{found['single']['adds_ms']:.2g} ms, {found['1000']['us'] / 1_000:.2g} ms in chunks"


ENGINES = [
    Engine(
        "nothing of this",
        "the tool as it is",
        "the call is lost, nobody knows whether it took effect",
        "the same",
        "runs again",
        lambda record: "nothing",
    ),
    Engine(
        "that no call takes effect twice, also after a crash",
        "`Journal.once`",
        "`OutcomeUnknown`, at once; it runs again where that is harmless",
        "the same after a restart, if the disk is there",
        "is answered with the stored result",
        journal_cost,
    ),
    Engine(
        "a time limit that really ends a sync body, or a body that may crash",
        "[`ProcessExecutor`](reliability.md#processes)",
        "an error result; other calls go on",
        "the call is lost",
        "runs again",
        lambda record: f"{record['processes']['adds_ms']:.2g} ms",
    ),
    Engine(
        "many machines",
        "[Ray](ray.md)",
        "an error result, never a silent retry of what is not idempotent",
        "of a worker's machine: the same",
        "runs again, unless there is a journal under it",
        ray_cost,
    ),
    Engine(
        "runs that survive the loss of every process and machine of yours",
        "[Temporal](temporal.md)",
        "`OutcomeUnknown` with a journal under it; harmless tools run again",
        "the run goes on elsewhere",
        "is answered with the stored result, within the retention",
        lambda record: f"{record['temporal']['adds_ms']:.2g} ms",
    ),
]


def engines_page(record: Record) -> str:
    """Return the table of docs/durable.md."""
    rows = [HEAD, ["---"] * len(HEAD)]
    rows += [
        [e.need, e.use, e.cost(record), e.process_dies, e.machine_dies, e.again] for e in ENGINES
    ]
    measured = (f"- {name}: {_record.measured_on(record[name])}" for name in MEASURES)
    return "\n".join(
        [*lines(rows), "", "Medians, each measured beside a plain call:", "", *measured]
    )


def ray_page(record: Record) -> str:
    """Return the figures of docs/ray.md, and the estimate that they give."""
    workers = record["ray"]["workers"]

    def ratios(name: str) -> list[str]:
        return [f"{workers[count][name]['ratio']:.2g}" for count in ("1", "2")]

    def each(name: str) -> str:
        return f"{workers['1'][name]['us']:.0f} µs, {workers['2'][name]['us']:.0f} µs"

    counts = [name for name in workers["1"] if name.isdigit()]
    rows = [
        ("", "1 actor", "2 actors"),
        ("---", "---", "---"),
        ("a single call / a bare actor's", *ratios("single")),
        ("1,000 calls / 1,000 calls of bare actors", *ratios("one by one")),
        *(
            (f"{int(n):,} calls / bare actors that get whole chunks", *ratios(n))
            for n in sorted(counts, key=int)
        ),
        ("10,000 calls, `max_concurrency=200` / the same", *ratios("limited")),
    ]
    growth = "; ".join(f"of {int(n):,} together {each(n)}" for n in sorted(counts, key=int))
    seconds = workers["1"]["limited"]["us"] / 1e6
    return "\n".join(
        [
            *lines(rows),
            "",
            f"A call takes, with 1 and 2 actors: {growth}; of 10,000 with `max_concurrency=200` {each('limited')}.",
            f"Measured {_record.measured_on(record['ray'])}.",
            "",
            estimate(seconds),
        ]
    )


def estimate(seconds: float) -> str:
    """Return what a million rollouts take, where the host spends so long on a call."""
    host = 2e7 * seconds  # Of 20 calls each.
    processors = 2e6 / host  # For bodies of 0.1 s.
    return (
        "**An estimate, not a measurement:** a million rollouts of 20 calls each are 2 × 10⁷ calls."
        f" At {seconds * 1e6:.0f} µs a call one host sends\nthem in about {host / 60:.0f} minutes, if"
        " the actors keep up. Bodies of 100 ms are 2 × 10⁶ seconds of work in all. In the same"
        f" time\nabout {processors:,.0f} processors do it for bodies that compute, and about"
        f" {math.ceil(processors / 100)} actors for bodies that wait, with 100 calls at a time\nin each."
        f" For more than {1 / seconds:,.0f} calls a second, use several hosts."
    )


def temporal_page(record: Record) -> str:
    """Return the figures of docs/temporal.md."""
    found = record["temporal"]
    return (
        f"A durable call takes {found['ratio']:.2f} times as long as a bare activity that validates the same arguments, which takes"
        f" {found['bare_ms']:.0f} ms\non a development server: medians of pairs ({_record.measured_on(found)})."
    )


def lines(rows: list[Any]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in rows]


PAGES = {"durable.md": engines_page, "ray.md": ray_page, "temporal.md": temporal_page}


def made(page: str, text: str) -> str:
    """Return a page with another text between its marks."""
    marks = re.compile(f"({re.escape(BEGIN)}\n\n).*?(\n\n{re.escape(END)})", re.DOTALL)
    return marks.sub(lambda found: f"{found[1]}{text}{found[2]}", page)


def main() -> None:
    for name, (package, measure) in MEASURES.items():
        if package and importlib.util.find_spec(package) is None:
            print(f"{name}: {package} is not installed, its recorded figures stay")
        else:
            measure()
    write_pages()


def write_pages() -> None:
    """Make the pages from the record."""
    record = _record.read()
    for name, text in PAGES.items():
        path = DOCS / name
        path.write_text(made(path.read_text(encoding="utf-8"), text(record)), encoding="utf-8")
    print(engines_page(record))
