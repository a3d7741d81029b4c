"""Kill processes that make journalled calls, at random points, and count what came of the calls.

    python -m tests.layers.journal_kills --kills 10000 [--seed 1] [--directory /some/disk]

Each process works through the calls of one run, as an agent does. It is killed with SIGKILL, by its
parent after a random time, or by itself at a chosen point: before, inside and after each write of
the journal, and before and after the effect inside of the body. A new process begins the run
again. Often a second process works on the same run at the same time.

Every body writes a line when it takes effect. At the end, no call of a tool that is not idempotent
may have two such lines, no answer may be a success without one, and every call that was begun is
`done`, or `unknown` and was answered so.
"""

import argparse
import asyncio
import json
import logging
import os
import random
import signal
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path

from functool import FunctionTool, ToolCall, Toolset, ToolSettings
from functool.executors import inline
from functool.layers.journal import Journal
from functool.layers.journal_store import Store

CALLS = 4
WRITES = ("start", "take_over", "finish")
POINTS = [f"{when} {write}" for write in WRITES for when in ("before", "inside", "after")]
POINTS += ["body begins", "body ends", "timer"]


def die():
    os.kill(os.getpid(), signal.SIGKILL)


class Child:
    """One process that works through a run and perhaps dies at a point."""

    def __init__(self, directory, run, point, chance, seed, bare):
        self.log = os.open(directory / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self.journal_path, self.run, self.point, self.chance = (
            directory / "calls.journal",
            run,
            point,
            chance,
        )
        self.random = random.Random(seed)
        self.bare = bare

    def note(self, *said):
        os.write(self.log, f"{json.dumps(said)}\n".encode())

    def reached(self, point):
        if point == self.point and self.random.random() < self.chance:
            self.note("dies", point)
            die()

    def tools(self):
        def pay(number: int) -> int:
            self.note("begins", self.run, "pay", number)
            self.reached("body begins")
            self.note("effect", self.run, "pay", number)
            self.reached("body ends")
            return number

        async def get(number: int) -> int:
            await asyncio.sleep(0)
            self.reached("body begins")
            self.note("effect", self.run, "get", number)
            self.reached("body ends")
            return number

        harmless = ToolSettings(idempotent=True)
        in_thread = FunctionTool(pay, name="pay_in_thread")
        return Toolset(
            [FunctionTool(pay, executor=inline), FunctionTool(get, settings=harmless), in_thread]
        )

    def arm(self):
        """Put the points around the writes of the journal."""
        for name in WRITES:
            setattr(Store, name, self.armed(name, getattr(Store, name)))

    def armed(self, name, write):
        def armed(store, *args):
            self.reached(f"before {name}")
            if self.point == f"inside {name}" and self.random.random() < self.chance:
                # SQLite asks after so many steps of its virtual machine, in the middle of a write.
                self.note("dies", self.point)
                store._connection.set_progress_handler(die, self.random.randint(1, 40))
            answer = write(store, *args)
            self.reached(f"after {name}")
            return answer

        return armed

    async def work(self):
        self.arm()
        tools = self.tools()
        if not self.bare:
            tools = Journal(self.journal_path).once(tools, run=self.run)
        for number in range(CALLS):
            name = ("pay", "get", "pay_in_thread", "pay")[number]
            call = ToolCall(name=name, arguments={"number": number}, id=str(number))
            result = await tools.call(call)
            self.note("answer", self.run, number, result.error.type if result.error else "ok")
        self.note("ends", self.run)


def fork(work):
    child = os.fork()
    if child:
        return child
    try:
        asyncio.run(work())
    finally:
        os._exit(0)


def harness(directory, kills, seed, bare=False):
    """Kill until there were so many kills, then let every run end; return what came of the calls."""
    chooser = random.Random(seed)
    killed, runs, finished = 0, 0, True
    while killed < kills or not finished:
        if finished:
            runs, finished = runs + 1, False
        run = f"run-{runs}"
        calm = killed >= kills or chooser.random() < 0.1
        children = []
        for _ in range(chooser.choice([1, 1, 2])):
            chance = chooser.choice([0.3, 1.0])
            point = "" if calm else chooser.choice(POINTS)
            child = Child(directory, run, point, chance, chooser.random(), bare)
            children.append(fork(child.work))
        if not calm and chooser.random() < 0.5:
            time.sleep(chooser.uniform(0, 0.02))
            os.kill(chooser.choice(children), signal.SIGKILL)
        ends = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        killed += ends.count(-signal.SIGKILL)
        assert set(ends) <= {0, -signal.SIGKILL}, ends
        finished = 0 in ends
    return {"kills": killed, "runs": runs, **judge(directory)}


def judge(directory):
    """Compare what the bodies wrote with what the callers were told and with the journal."""
    effects, begun, last, answers, points = Counter(), set(), {}, defaultdict(set), Counter()
    for line in (directory / "log").read_text().splitlines():
        kind, *said = json.loads(line)
        if kind == "effect":
            effects[said[0], said[2], said[1]] += 1
        elif kind == "begins":
            begun.add((said[0], said[2]))
        elif kind == "answer":
            last[said[0], said[1]] = said[2]
            answers[said[0], said[1]].add(said[2])
        elif kind == "dies":
            points[said[0]] += 1
    happened = {(run, number) for run, number, _ in effects}
    states = {
        (entry.run, int(entry.call_id)): entry.state
        for entry in Journal(directory / "calls.journal").calls()
    }
    told_done = {call for call, said in answers.items() if "ok" in said}
    return {
        "calls": len(last),
        "duplicates": sum(n > 1 for (_, _, name), n in effects.items() if name == "pay"),
        "successes_without_effect": len(told_done - happened),
        "effects_without_record": len(happened - states.keys()),
        "begun_and_neither_done_nor_unknown": sum(
            states.get(call) not in ("done", "unknown") for call in begun
        ),
        "unknown_and_not_told": sum(
            last.get(call) != "OutcomeUnknown" for call, s in states.items() if s == "unknown"
        ),
        "other_answers": sorted({*last.values()} - {"ok", "OutcomeUnknown"}),
        "unknown": sum(state == "unknown" for state in states.values()),
        "unknown_that_took_effect": sum(
            state == "unknown" and call in happened for call, state in states.items()
        ),
        "points": dict(sorted(points.items())),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", type=Path, help="where the files are; by default /tmp")
    parser.add_argument("--bare", action="store_true", help="without a journal, to compare")
    options = parser.parse_args()
    logging.getLogger("functool").setLevel("CRITICAL")
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        print(json.dumps(harness(Path(directory), options.kills, options.seed, options.bare)))


if __name__ == "__main__":
    main()
