"""What code mode costs beside the calls themselves. Run with `.venv-bundled/bin/python -m benchmarks code_mode`.

A program of ten inner calls, with a session that is ready, is compared with the same ten calls made
directly. Each number is a median. What a loaded machine does to it is inside of it: compare the
rows, not two machines.
"""

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks._measure import heading
from functool import Context, FunctionTool, ToolCall, Toolset
from functool.bundled.code_mode import code_mode
from functool.layers.journal import Journal

ROUNDS = 20
COLD = (
    "import asyncio, time\n"
    "from functool import FunctionTool, ToolCall\n"
    "start = time.perf_counter()\n"
    "from functool.bundled.code_mode import code_mode\n"
    "tool = code_mode([FunctionTool(lambda n: n, name='f', description='')])\n"
    "call = ToolCall(name='run_code', arguments={'code': 'await f(n=1)'})\n"
    "asyncio.run(tool.invoke(call))\n"
    "print((time.perf_counter() - start) * 1000)\n"
)


@FunctionTool
async def step(n: int) -> int:
    """Do a step."""
    return n


def program(calls: int) -> str:
    return "\n".join(["total = 0", *(f"total += await step(n={n})" for n in range(calls)), "total"])


async def timed(tool, code: str, context: Context, number: int) -> float:
    call = ToolCall(name="run_code", arguments={"code": code}, id=f"{hash(code)}-{number}")
    start = time.perf_counter()
    result = await tool.invoke(call, context)
    assert result.success, result.text
    return (time.perf_counter() - start) * 1_000


async def median(tool, calls: int) -> float:
    """Return how long a program takes, in milliseconds; a session is ready each time."""
    found, context, code = [], Context(), program(calls)
    for number in range(ROUNDS):
        found.append(await timed(tool, code, context, number))
        await asyncio.sleep(0.15)  # In an agent's loop the model writes the next program now.
    return statistics.median(found[3:])


async def direct(calls: int) -> float:
    """Return how long the same calls take directly, in milliseconds."""
    tools, context, found = Toolset([step]), Context(), []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for n in range(calls):
            await tools.call(ToolCall(name="step", arguments={"n": n}, id=str(n)), context)
        found.append((time.perf_counter() - start) * 1_000)
    return statistics.median(found)


async def measure() -> None:
    plain = code_mode([step])
    base, ten, fifty = await direct(10), await median(plain, 10), await median(plain, 50)
    print(f"ten direct calls                      {base:8.2f} ms")
    print(
        f"a program of ten calls                {ten:8.2f} ms   {ten - base:6.2f} above, budget 15"
    )
    inner = (fifty - ten) / 40 - base / 10
    print(f"an inner call above a direct one      {inner:8.2f} ms                 budget 0.6")
    with tempfile.TemporaryDirectory() as directory:
        kept = code_mode([step], journal=Journal(Path(directory, "j")), run="r")
        ten, fifty = await median(kept, 10), await median(kept, 50)
    inner = (fifty - ten) / 40 - base / 10
    print(f"a journalled program of ten calls     {ten:8.2f} ms")
    print(f"a journalled inner call               {inner:8.2f} ms                 budget 1")
    start = time.perf_counter()
    await asyncio.gather(*[timed(plain, program(10), Context(), n) for n in range(100)])
    print(f"a hundred programs at once            {(time.perf_counter() - start) * 1_000:8.0f} ms")


def main() -> None:
    print(heading())
    words = [sys.executable, "-c", COLD]
    cold = [float(subprocess.run(words, check=True, capture_output=True).stdout) for _ in range(5)]
    print(f"the first program of a process        {statistics.median(cold):8.0f} ms    budget 1000")
    asyncio.run(measure())
