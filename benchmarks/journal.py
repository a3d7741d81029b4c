"""What a journal adds to a call, beside bare SQLite commits of the same rows. Run with `python -m benchmarks journal`.

Two disks: the one of the temporary directory, where a commit waits for the disk, and `/dev/shm`,
which waits for nothing, so that what functool adds is not lost in the noise of a disk.
"""

import asyncio
import gc
import itertools
import json
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks._measure import heading, row
from functool import FunctionTool, ToolCall
from functool.layers.journal import Journal

ROUNDS = 1_500
PROCESSES = 8
SHARED_CALLS = 100

INSERT = "INSERT INTO calls VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
UPDATE = "UPDATE calls SET state = 'done', result = ?, ended = ?, lease = 0 WHERE key = ? AND attempt = ?"


async def add(a: int, b: int) -> int:
    return a + b


def bare(path: Path) -> Callable[[int], None]:
    """Return what writes the two rows of a call as a journal does, with nothing around it."""
    Journal(path).close()  # The same table.
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous=FULL")

    def write(number: int) -> None:
        key, attempt = f"run/add/{number}", f"{number:032x}"
        row = (key, "run", "add", str(number), '{"a": 1, "b": 2}', "0" * 64, 0, "started")
        connection.execute(INSERT, (*row, attempt, "o" * 100, 1.0, time.time(), None, None))
        connection.execute("PRAGMA synchronous=NORMAL")
        result = json.dumps({"value": 3, "raised": "", "output": [{"kind": "TextContent"}]})
        connection.execute(UPDATE, (result, time.time(), key, attempt))
        connection.execute("PRAGMA synchronous=FULL")

    return write


async def milliseconds(directory: Path, rounds: int = ROUNDS) -> dict[str, float]:
    """Return medians: a bare pair of commits, and what a new and a stored call add."""
    plain = FunctionTool(add)
    kept = Journal(directory / "ours").once(plain, run="run")
    write = bare(directory / "bare")
    found: dict[str, list[float]] = {"bare": [], "new": [], "stored": []}

    async def timed(work: Any) -> float:
        start = time.perf_counter()
        await work
        return (time.perf_counter() - start) * 1_000

    gc.collect()
    gc.disable()
    for number in range(rounds):
        call = ToolCall(name="add", arguments='{"a": 1, "b": 2}', id=str(number))
        alone = await timed(plain(call))
        if number % 2:
            new = await timed(kept(call))
        start = time.perf_counter()
        write(number)
        commits = (time.perf_counter() - start) * 1_000
        if not number % 2:
            new = await timed(kept(call))
        found["bare"].append(commits)
        found["new"].append(new - commits - alone)
        # A disk that was waited for leaves the processor's caches cold for whoever comes first.
        if number % 4 < 2:
            alone, stored = await timed(plain(call)), await timed(kept(call))
        else:
            stored, alone = await timed(kept(call)), await timed(plain(call))
        found["stored"].append(stored - alone)
    gc.enable()
    return {name: statistics.median(values) for name, values in found.items()}


WORKER = """
import asyncio, sys
from functool import FunctionTool, ToolCall
from functool.layers.journal import Journal

async def pay(number: int) -> int:
    with open(sys.argv[2], "a") as log:
        log.write(f"{number}\\n")
    return number

async def main():
    tool = Journal(sys.argv[1]).once(FunctionTool(pay), run="run")
    for number in range(int(sys.argv[3])):
        result = await tool(ToolCall(name="pay", arguments={"number": number}, id=str(number)))
        assert result.value == number

asyncio.run(main())
"""


def shared(directory: Path) -> tuple[int, int]:
    """Let processes make the same calls on one file; return how many effects are missing and how many too many."""
    log = directory / "log"
    command = [sys.executable, "-c", WORKER, str(directory / "shared"), str(log), str(SHARED_CALLS)]
    workers = [subprocess.Popen(command) for _ in range(PROCESSES)]
    assert [worker.wait() for worker in workers] == [0] * PROCESSES
    effects = sorted(map(int, log.read_text().split()))
    doubled = len(effects) - len(set(effects))
    return SHARED_CALLS - len(set(effects)), doubled


def main() -> None:
    print(heading(), f"SQLite {sqlite3.sqlite_version}")
    for name, place in (("disk", None), ("/dev/shm", Path("/dev/shm"))):
        if place is not None and not place.is_dir():
            continue
        with tempfile.TemporaryDirectory(dir=place) as directory:
            found = asyncio.run(milliseconds(Path(directory)))
        print(f"{name}: the bare commits of a call take {found['bare']:.3f} ms")
        row(f"{name}: a call beyond its bare commits", found["new"], 0.2, 0.1, " ms")
        row(f"{name}: a stored answer beyond a plain call", found["stored"], 0.1, 0.05, " ms")
    with tempfile.TemporaryDirectory() as directory:
        lost, doubled = shared(Path(directory))
    calls = itertools.repeat(SHARED_CALLS, PROCESSES)
    print(f"{PROCESSES} processes, {sum(calls)} calls on one file: {lost} lost, {doubled} doubled")
