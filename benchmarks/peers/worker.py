"""One subject in a process of its own: reads a request a line, answers a line. `python -m benchmarks.peers.worker NAME`.

Only one worker is ever at work. A time is seconds of CPU for one call, all threads of the process together, so that what else runs on
the machine matters little. Subject and floor are timed one after the other, in turn first.
"""

import asyncio
import contextlib
import gc
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pydantic import TypeAdapter

from benchmarks.peers import subjects, workload
from benchmarks.peers.marks import ask

Call = Callable[[str], Awaitable[object]]
SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)


async def several(call: Call, text: str, times: int, parallel: int) -> float:
    """Return the seconds of one call, on average over `times` rounds of `parallel` calls at once."""
    start = time.process_time()
    for _ in range(times):
        if parallel == 1:
            await call(text)
        else:
            await asyncio.gather(*(call(text) for _ in range(parallel)))
    return (time.process_time() - start) / times / parallel


class Worker:
    """Holds the tools of a subject between requests."""

    def __init__(self, name: str, seconds: float) -> None:
        self.subject = subjects.load(name)
        self.seconds = seconds  # how long one sample takes, about
        self.ready: dict[str, tuple[Call, Call, int, int]] = {}
        self.runner = asyncio.Runner()
        self.made = 0

    def do(self, request: dict[str, Any]) -> Any:
        """Answer a request: `{"do": method, ...}`."""
        arguments = {key: value for key, value in request.items() if key != "do"}
        answer = getattr(self, "do_" + request["do"])(**arguments)
        return self.runner.run(answer) if asyncio.iscoroutine(answer) else answer

    def do_about(self) -> dict[str, Any]:
        versions = {}
        for package in (*self.subject.PACKAGES, "pydantic", "pydantic_core"):
            with contextlib.suppress(PackageNotFoundError):
                versions[package] = version(package)
        names = ("ENTRY", "TAKES", "IMPORT")
        about = {name.lower(): getattr(self.subject, name) for name in names}
        return {**about, "versions": versions}

    async def do_marks(self) -> dict[str, Any]:
        return await ask(self.subject)

    async def do_prepare(self, work: str) -> None:
        """Make the tool, see that its answer is right, and find how many calls make a sample."""
        kind = workload.WORKS[work]
        define = self.subject.define
        if kind.kind == "guarded":
            if not hasattr(self.subject, "guarded"):
                raise NotImplementedError("nothing of the kind at this entry")
            define = self.subject.guarded
        bare = await self.subject.caller(define(kind.func))

        async def refused(text: str) -> object:
            try:
                return await bare(text)
            except Exception as error:  # A host would make a text of it.
                return str(error)

        call: Call = refused if kind.kind == "refused" else bare
        floor = workload.floor_of(kind)
        answer = await call(kind.text)
        if kind.answer not in str(answer):
            raise ValueError(f"wrong answer: {str(answer)[:200]!r}")
        times = [await self._calibrated(each, kind) for each in (call, floor)]
        self.ready[work] = (call, floor, *times)  # type: ignore[assignment]

    async def _calibrated(self, call: Call, work: workload.Work) -> int:
        once = await several(call, work.text, 1, work.parallel)
        once = await several(call, work.text, 2, work.parallel) or once
        return max(1, min(2_000, int(self.seconds / (once * work.parallel))))

    async def do_time(self, work: str, floor_first: bool) -> dict[str, float]:
        call, floor, times, floor_times = self.ready[work]
        kind = workload.WORKS[work]
        order = [("ours", call, times), ("floor", floor, floor_times)]
        gc.collect()
        taken = {}
        for name, each, count in reversed(order) if floor_first else order:
            taken[name] = await several(each, kind.text, count, kind.parallel)
        return taken

    def do_define(
        self, count: int, floor_first: bool = False, with_floor: bool = True
    ) -> dict[str, float]:
        """Define functions that nobody has seen before, and make their definitions for the model."""
        functions, types = workload.fresh_functions(self.made, count)
        self.made += count
        define = self.subject.define
        works: list[tuple[str, Callable[[Any], Any], list[Any]]] = [
            ("ours", define, functions),
            ("floor", lambda each: TypeAdapter(each).json_schema(), types),
        ][: 2 if with_floor else 1]
        gc.collect()
        taken = {}
        for name, make, things in reversed(works) if floor_first else works:
            start = time.process_time()
            made = [make(thing) for thing in things]
            taken[name] = (time.process_time() - start) / count
            del made
        return taken

    async def do_size(self, size: int) -> dict[str, float]:
        """Time a call with a text argument of `size` characters."""
        call = await self.subject.caller(self.subject.define(workload.measure))
        text = json.dumps({"text": "x" * size})
        if str(size) not in (answer := await call(text)):
            raise ValueError(f"wrong answer: {answer[:200]!r}")
        work = workload.Work("size", workload.measure, workload.Measuring, text, "")
        floor = workload.floor_of(work)
        taken = {}
        for name, each in (("ours", call), ("floor", floor)):
            taken[name] = await several(each, text, await self._calibrated(each, work), 1)
        return taken

    def do_memory(self, count: int) -> float:
        """Return the megabytes that `count` tools keep, resident; for a fresh process."""
        functions, _ = workload.fresh_functions(0, count + 10)
        kept = [self.subject.define(function) for function in functions[:10]]
        gc.collect()
        before = resident()
        kept += [self.subject.define(function) for function in functions[10:]]
        gc.collect()
        return (resident() - before) / 1e6

    async def do_leaks(self, calls: int) -> dict[str, float]:
        """Return what `calls` calls left behind: megabytes, and objects for each 1,000 calls; for a fresh process."""
        work = workload.WORKS["search"]
        call = await self.subject.caller(self.subject.define(work.func))
        await several(call, work.text, max(100, calls // 20), 1)
        gc.collect()
        memory, objects = resident(), len(gc.get_objects())
        await several(call, work.text, calls, 1)
        gc.collect()
        return {
            "megabytes": (resident() - memory) / 1e6,
            "objects": (len(gc.get_objects()) - objects) * 1000 / calls,
        }


def resident() -> int:
    """Return the bytes of memory that this process holds."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    """Answer requests until standard input ends. Standard output belongs to the answers alone."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        worker = Worker(sys.argv[1], float(sys.argv[2]))
        problem = ""
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
    for line in sys.stdin:
        try:
            answer = {"error": problem} if problem else {"answer": worker.do(json.loads(line))}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {str(error)[:300]}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
