"""Ten thousand calls through one connection: nothing may be left behind on either side."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mcp")

from functool import Context, ToolCall
from functool.integrations import mcp
from tests.integrations.mcp_sample import count
from tests.integrations.mcp_sockets import free_port, listening

SAMPLE = str(Path(__file__).parent / "mcp_sample.py")
CALLS = 10_000
WARM_UP = 1_000
AT_ONCE = 20
# A leak is at least one object a call; caches and garbage of the interpreter stay far below.
SLACK = CALLS // 20


async def soak(target, mode):
    """Return what both processes held after the warm-up, and what after all calls."""
    async with mcp.connect(target, mode=mode) as toolset:
        heard = []
        turn = [ToolCall(name="add", arguments={"a": 1}, id="1"), ToolCall(name="fail"), ToolCall(name="steps")]
        turn += [ToolCall(name="add", arguments={"a": "x"}), ToolCall(name="nothing")] + turn * 5

        async def run(calls):
            for _ in range(calls // len(turn[:AT_ONCE])):
                context = Context()
                context.subscribe(heard.append)
                results = await toolset.call_all(turn[:AT_ONCE], context)
                assert [result.is_error for result in results[:5]] == [False, True, False, True, True]
                heard.clear()

        async def census():
            return count(), (await toolset.call(ToolCall(name="census"))).value

        await run(WARM_UP)
        before = await census()
        await run(CALLS)
        # What ends, a task of the transport say, may take a moment: only what stays is a leak.
        for _ in range(100):
            after = await census()
            if not grown(before, after):
                break
            await asyncio.sleep(0.1)
        return before, after


def grown(before, after):
    """Return what either side holds more of than before."""
    return [(side, what) for side in (0, 1) for what in ("tasks", "files") if after[side][what] > before[side][what]]


# Both transports and both eras are in every run; how they cross, `make soak-mcp` sees.
WAYS = [
    ("stdio", "auto"),
    ("http", "legacy"),
    *(pytest.param(*way, marks=pytest.mark.slow) for way in [("stdio", "legacy"), ("http", "auto")]),
]


@pytest.mark.parametrize(("transport", "mode"), WAYS)
def test_nothing_leaks(transport, mode):
    """After 10,000 calls client and server hold as many tasks and files as before, and no object for each call."""
    if transport == "stdio":
        before, after = asyncio.run(soak([sys.executable, SAMPLE], mode))
    else:
        port = free_port()
        with subprocess.Popen([sys.executable, SAMPLE, "http", str(port)], stderr=subprocess.DEVNULL) as process:
            try:
                listening(port, process)
                before, after = asyncio.run(soak(f"http://127.0.0.1:{port}/mcp", mode))
            finally:
                process.terminate()

    assert grown(before, after) == [], (before, after)
    assert all(after[side]["objects"] - before[side]["objects"] < SLACK for side in (0, 1)), (before, after)
