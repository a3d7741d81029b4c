"""What code mode costs beside the calls themselves. Run with `.venv-bundled/bin/python -m benchmarks code_mode`.

A program of ten inner calls, with a session that is ready, is compared with the same ten calls made
directly. Wall times are medians, and on a machine with other work they measure that work, too: the
time of this process' own processor (cpu) stands beside them. Compare the rows, not two machines.
FastMCP's and Pydantic AI harness's code modes have rows where they are installed.
"""

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

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


class Cost(NamedTuple):
    """What something takes, in milliseconds: of the clock, and of this process."""

    wall: float
    cpu: float


async def cost(work: Callable[[int], Awaitable[object]], pause: float = 0.15) -> Cost:
    """Return medians of what `work(number)` takes, with pauses between, in which a session gets ready."""
    found = []
    for number in range(ROUNDS):
        wall, cpu = time.perf_counter(), time.process_time()
        await work(number)
        spent = time.perf_counter() - wall, time.process_time() - cpu
        found.append([part * 1_000 for part in spent])
        await asyncio.sleep(pause)  # In an agent's loop the model writes the next program now.
    return Cost(*(statistics.median(part) for part in zip(*found[3:], strict=True)))


def programs(tool, calls: int) -> Callable[[int], Awaitable[object]]:
    context, code = Context(), program(calls)

    async def run(number: int) -> None:
        call = ToolCall(name="run_code", arguments={"code": code}, id=f"{calls}-{number}")
        result = await tool.invoke(call, context)
        assert result.success, result.text

    return run


def direct(tool, calls: int) -> Callable[[int], Awaitable[object]]:
    tools, context = Toolset([tool]), Context()

    async def run(number: int) -> None:
        for n in range(calls):
            call = ToolCall(name="step", arguments={"n": n}, id=f"{number}/{n}")
            await tools.call(call, context)

    return run


async def compared(what: str, tool, plain, budgets: tuple[float, float]) -> None:
    """Print a program of ten calls, and one of its calls, beside the same calls made directly."""
    base, ten = await cost(direct(plain, 10), 0), await cost(programs(tool, 10))
    fifty = await cost(programs(tool, 50))
    for part in Cost._fields:
        one, ten_, fifty_ = (getattr(found, part) for found in (base, ten, fifty))
        inner = (fifty_ - ten_) / 40 - one / 10
        print(
            f"{what:<11}{part:<5} ten calls: direct {one:7.2f} ms, in a program {ten_:7.2f} ms ="
            f" {ten_ - one:6.2f} above (aim {budgets[0]:g}); one call {inner:6.2f} ms above (aim {budgets[1]:g})"
        )


async def at_once(programs_at_once: int) -> None:
    """Print what many programs at once take, and the memory of their interpreters."""
    tool, most = code_mode([step]), 0

    async def watch() -> None:
        nonlocal most
        while True:
            most = max(most, memory_of_workers())
            await asyncio.sleep(0.02)

    watching, start = asyncio.create_task(watch()), time.perf_counter()
    # Each in a context of its own, because one context has only a part of the places.
    await asyncio.gather(*[programs(tool, 10)(1_000 + n) for n in range(programs_at_once)])
    took = (time.perf_counter() - start) * 1_000
    watching.cancel()
    print(
        f"{programs_at_once} programs at once: {took:.0f} ms, {most / 2**20:.0f} MiB in interpreters"
    )


def memory_of_workers() -> int:
    """Return the resident memory, in bytes, of this process' children; 0 where there is no /proc."""
    total = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[1]) == os.getpid():
                total += int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
    return total


async def fastmcp_row() -> None:
    """Print FastMCP's code mode: the same ten calls in its sandbox, without a check of types."""
    from fastmcp import Client, FastMCP
    from fastmcp.experimental.transforms.code_mode import CodeMode

    server = FastMCP("bench", transforms=[CodeMode()])
    server.tool(step.func, name="step")
    lines = [f"total += (await call_tool('step', {{'n': {n}}}))['result']" for n in range(10)]
    code = "\n".join(["total = 0", *lines, "return total"])

    async with Client(server) as client:

        async def run(number: int) -> None:
            result = await client.call_tool("execute", {"code": code})
            assert "45" in str(result.content), result

        found = await cost(run)
    print(
        f"FastMCP {version('fastmcp')}: ten calls in a program {found.wall:7.2f} ms, cpu {found.cpu:.2f} ms"
    )


async def harness_row() -> None:
    """Print Pydantic AI harness's code mode: the same ten calls, in its own toolset."""
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai_harness.code_mode import CodeMode

    lines = [f"total += await step(n={n})" for n in range(10)]
    code = "\n".join(["total = 0", *lines, "total"])

    def answer(messages, info):
        if len(messages) == 1:
            return ModelResponse(parts=[ToolCallPart("run_code", {"code": code})])
        assert "45" in str(messages[-1]), messages[-1]
        return ModelResponse(parts=[TextPart("done")])

    agent = Agent(FunctionModel(answer), tools=[step.func], capabilities=[CodeMode()])

    async def run(number: int) -> None:
        await agent.run("go")

    found = await cost(run)
    print(
        f"pydantic-ai-harness {version('pydantic-ai-harness')}: a run of an agent with the program"
        f" {found.wall:7.2f} ms, cpu {found.cpu:.2f} ms"
    )


async def measure() -> None:
    await compared("plain", code_mode([step]), step, (15, 0.6))
    with tempfile.TemporaryDirectory() as directory:
        journal = Journal(Path(directory, "j"))
        kept = code_mode([step], journal=journal, run="r")
        await compared("journalled", kept, journal.once(step, "direct"), (15, 1))
    await at_once(100)
    for row in (fastmcp_row, harness_row):
        try:
            await row()
        except ImportError as missing:
            print(f"{row.__name__.removesuffix('_row')}: not installed ({missing})")


def main() -> None:
    print(heading())
    words = [sys.executable, "-c", COLD]
    cold = [float(subprocess.run(words, check=True, capture_output=True).stdout) for _ in range(5)]
    print(f"the first program of a process        {statistics.median(cold):8.0f} ms    budget 1000")
    asyncio.run(measure())
