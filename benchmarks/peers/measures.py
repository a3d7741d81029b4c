"""What is measured, and in which order: rounds in which every subject takes its turn."""

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.peers.processes import FLOOR_IMPORT, Process, WorkFailed, process, seconds_of
from benchmarks.peers.worker import SIZES
from benchmarks.peers.workload import WORKS

Advance = Callable[[str], object]
Times = dict[tuple[str, str, int], list[float]]  # (subject, kind of growth, number) -> samples
LARGE = 1_000  # More tools than that take so long to define that once is enough.


@dataclass(frozen=True)
class Plan:
    """How much is measured.

    Attributes:
        rounds: Rounds of each kind of call.
        imports: Rounds of imports.
        repeats: Rounds of memory and of growth.
        seconds: About how long one sample takes.
        counts: Numbers of tools, for growth.
        sizes: Characters of an argument, for growth.
        tools: How many tools are weighed.
        calls: How many calls are made to look for leaks.
    """

    rounds: int = 31
    imports: int = 7
    repeats: int = 3
    seconds: float = 0.01
    counts: tuple[int, ...] = (1, 10, 100, 1_000, 10_000)
    sizes: tuple[int, ...] = SIZES
    tools: int = 1_000
    calls: int = 100_000


QUICK = Plan(5, 2, 1, 0.003, (1, 10, 100), SIZES[:4], 100, 2_000)


@dataclass
class Findings:
    """What came of one subject. `failed` is work -> why there is no number."""

    about: dict[str, Any] = field(default_factory=dict)
    marks: dict[str, Any] = field(default_factory=dict)
    ratios: dict[str, dict[str, float]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    memory: float | None = None
    leaks: dict[str, float] | None = None
    growth: dict[str, dict[str, float]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


def spread(values: Iterable[float]) -> dict[str, float]:
    """Return the median and the quartiles."""
    numbers = list(values)
    if len(numbers) == 1:
        numbers *= 2
    low, middle, high = statistics.quantiles(numbers, n=4, method="inclusive")
    return {"q1": low, "median": middle, "q3": high}


def turns(names: list[str], number: int) -> list[str]:
    """Return the order of round `number`: everybody is first in turn, and every other round goes backwards."""
    shift = number % len(names)
    order = names[shift:] + names[:shift]
    return order[::-1] if number % 2 else order


def measure(pythons: Mapping[str, Path], plan: Plan, advance: Advance) -> dict[str, Findings]:
    """Measure all subjects.

    Args:
        pythons: Subject -> the interpreter of its environment.
        plan: How much.
        advance: Called with a word on what comes next, once for each of `steps(pythons, plan)`.
    """
    found = {name: Findings() for name in pythons}
    opened = {name: Process(python, name, plan.seconds) for name, python in pythons.items()}
    try:
        for name, worker in opened.items():
            advance(f"{name}: marks")
            try:
                found[name].about = worker.ask("about")
                found[name].marks = worker.ask("marks")
            except WorkFailed as error:
                found[name].failed["start"] = str(error)
        for work in WORKS:
            _calls(work, opened, found, plan, advance)
        _defining(opened, found, plan, advance)
    finally:
        for worker in opened.values():
            worker.close()
    _imports(pythons, found, plan, advance)
    _fresh(pythons, found, plan, advance)
    return found


def steps(subjects: int, plan: Plan) -> int:
    """Return how often `measure` calls `advance`."""
    calls = (len(WORKS) + 1) * plan.rounds
    fresh = plan.repeats * (1 + len(plan.counts) + len(plan.sizes)) + 1
    return subjects * (1 + calls + plan.imports + fresh)


def _calls(
    work: str, opened: dict[str, Process], found: dict[str, Findings], plan: Plan, advance: Advance
) -> None:
    """Time one kind of call."""
    for name, worker in opened.items():
        try:
            worker.ask("prepare", work=work)
        except WorkFailed as error:
            found[name].failed[work] = str(error)
    _rounds(
        work,
        opened,
        found,
        plan.rounds,
        advance,
        lambda worker, number: worker.ask("time", work=work, floor_first=number % 2 == 1),
    )


def _defining(
    opened: dict[str, Process], found: dict[str, Findings], plan: Plan, advance: Advance
) -> None:
    """Time definitions. Each round defines functions that nobody has seen."""
    count = max(2, int(plan.seconds / 0.001))
    _rounds(
        "define",
        opened,
        found,
        plan.rounds,
        advance,
        lambda worker, number: worker.ask("define", count=count, floor_first=number % 2 == 1),
    )


def _rounds(
    work: str,
    opened: dict[str, Process],
    found: dict[str, Findings],
    rounds: int,
    advance: Advance,
    sample: Callable[[Process, int], dict[str, float]],
) -> None:
    """Take samples in turn, and keep the spread of the ratios and the median of the seconds."""
    samples: dict[str, list[dict[str, float]]] = defaultdict(list)
    for number in range(rounds):
        for name in turns(list(opened), number):
            advance(f"{name}: {work}")
            if work in found[name].failed:
                continue
            try:
                samples[name].append(sample(opened[name], number))
            except WorkFailed as error:
                found[name].failed[work] = str(error)
    for name, taken in samples.items():
        if work not in found[name].failed:
            found[name].ratios[work] = spread(each["ours"] / each["floor"] for each in taken)
            found[name].seconds[work] = statistics.median(each["ours"] for each in taken)


def _imports(
    pythons: Mapping[str, Path], found: dict[str, Findings], plan: Plan, advance: Advance
) -> None:
    """Time the import that somebody who defines a tool writes, in fresh interpreters."""
    samples: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for number in range(-1, plan.imports):  # The first round fills the caches of the disk.
        for name in turns(list(pythons), number):
            if number >= 0:
                advance(f"{name}: import")
            if "import" not in found[name].about:
                continue
            floor = seconds_of(pythons[name], FLOOR_IMPORT)
            ours = seconds_of(pythons[name], found[name].about["import"])
            if number >= 0:
                samples[name].append((ours, floor))
    for name, taken in samples.items():
        found[name].ratios["import"] = spread(ours / floor for ours, floor in taken)
        found[name].seconds["import"] = statistics.median(ours for ours, _ in taken)


def _fresh(
    pythons: Mapping[str, Path], found: dict[str, Findings], plan: Plan, advance: Advance
) -> None:
    """Measure memory, leaks and growth, each in a process that did nothing before."""
    weights: dict[str, list[float]] = defaultdict(list)
    times: Times = defaultdict(list)
    for number in range(plan.repeats):
        for name in turns(list(pythons), number):
            advance(f"{name}: memory")
            weights[name] += _once(pythons[name], name, plan, found, "memory", count=plan.tools)
            # The floor is the same for all: the first subject's process measures it.
            first = name == next(iter(pythons))
            for count in plan.counts:
                advance(f"{name}: {count:,} tools")
                if number and count > LARGE:
                    continue
                asked = {"count": count, "with_floor": first}
                for taken in _once(pythons[name], name, plan, found, "define", **asked):
                    _note(times, name, "define", count, taken)
            _sizes(pythons[name], name, plan, found, advance, times)
    for name, python in pythons.items():
        found[name].memory = statistics.median(weights[name]) if weights[name] else None
        advance(f"{name}: {plan.calls:,} calls")
        leaks = _once(python, name, plan, found, "leaks", calls=plan.calls)
        found[name].leaks = leaks[0] if leaks else None
    for (name, kind, each), values in times.items():
        for owner in found.values() if name == "floor" else [found[name]]:
            key = f"{kind} floor" if name == "floor" else kind
            owner.growth.setdefault(key, {})[str(each)] = statistics.median(values)


def _sizes(
    python: Path,
    name: str,
    plan: Plan,
    found: dict[str, Findings],
    advance: Advance,
    times: Times,
) -> None:
    """Time calls with arguments of growing size, in one process."""
    with process(python, name, plan.seconds) as worker:
        for size in plan.sizes:
            advance(f"{name}: {size:,} characters")
            try:
                _note(times, name, "size", size, worker.ask("size", size=size))
            except WorkFailed as error:
                found[name].failed.setdefault("size", str(error))


def _note(times: Times, name: str, kind: str, number: int, taken: dict[str, float]) -> None:
    """Keep a sample of growth."""
    times[name, kind, number].append(taken["ours"])
    if "floor" in taken:
        times["floor", kind, number].append(taken["floor"])


def _once(
    python: Path, name: str, plan: Plan, found: dict[str, Findings], do: str, **arguments: Any
) -> list[Any]:
    """Return a list of the answer of a fresh worker, empty when it failed."""
    with process(python, name, plan.seconds) as worker:
        try:
            return [worker.ask(do, **arguments)]
        except WorkFailed as error:
            found[name].failed.setdefault(do, str(error))
            return []
