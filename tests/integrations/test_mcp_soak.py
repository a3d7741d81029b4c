"""Twenty thousand calls and more through one connection: nothing may be left behind on either side."""

import asyncio
import statistics
import sys

import pytest

pytest.importorskip("mcp")

from functool import Context, ToolCall
from functool.integrations import mcp
from tests.integrations.mcp_ends import SAMPLE, sample_over_http
from tests.integrations.mcp_sample import count

CALLS = 20_000
WARM_UP = 5_000
AT_ONCE = 20
# What is held swings by thousands of objects: idle connections, timers cancelled but not yet dropped by the loop, caches. The
# swing takes thousands of calls to set in. A leak is a trend: at least an object for each call of one kind, and each kind is a
# fifth of the calls.
STAGES = 20
LEAK = CALLS // STAGES // 5


async def soak(target, mode):
    """Return what both processes held after the warm-up and after each stage of the calls."""
    async with mcp.connect(target, mode=mode) as toolset:
        heard = []
        kinds = [
            ToolCall(name="add", arguments={"a": 1}, id="1"),
            ToolCall(name="fail"),
            ToolCall(name="steps"),
        ]
        turn = [*kinds, ToolCall(name="add", arguments={"a": "x"}), ToolCall(name="nothing")] * (
            AT_ONCE // 5
        )

        async def run(calls):
            for _ in range(calls // AT_ONCE):
                context = Context()
                context.subscribe(heard.append)
                results = await toolset.call_all(turn, context)
                assert [result.is_error for result in results] == [
                    False,
                    True,
                    False,
                    True,
                    True,
                ] * (AT_ONCE // 5)
                heard.clear()

        async def census():
            return count(), (await toolset.call(ToolCall(name="census"))).value

        await run(WARM_UP)
        held = [await census()]
        # A swing may look like a trend for a while; over a longer time only a leak does.
        for stages in (STAGES, 2 * STAGES):
            for _ in range(stages):
                await run(CALLS // STAGES)
                held.append(await census())
            if max(map(trend, zip(*held, strict=True))) < LEAK / 2:
                break
        # What ends, a task of the transport say, may take a moment: only what stays is a leak.
        for _ in range(100):
            if not grown(held[0], held[-1]):
                break
            await asyncio.sleep(0.1)
            held[-1] = await census()
        return held


def trend(counts):
    """Return how many objects a stage adds, from what one side held after each."""
    objects = [each["objects"] for each in counts]
    return statistics.linear_regression(range(len(objects)), objects).slope


def grown(before, after):
    """Return what either side holds more of than before."""
    return [
        (side, what)
        for side in (0, 1)
        for what in ("tasks", "files")
        if after[side][what] > before[side][what]
    ]


# Both transports and both eras are in every run; how they cross, `make soak-mcp` sees.
WAYS = [
    ("stdio", "auto"),
    ("http", "legacy"),
    *(
        pytest.param(*way, marks=pytest.mark.slow)
        for way in [("stdio", "legacy"), ("http", "auto")]
    ),
]


@pytest.mark.parametrize(("transport", "mode"), WAYS)
def test_nothing_leaks(transport, mode):
    """After 20,000 calls client and server hold as many tasks and files as before, and no object for each call."""
    if transport == "stdio":
        held = asyncio.run(soak([sys.executable, SAMPLE], mode))
    else:
        with sample_over_http() as (url, _):
            held = asyncio.run(soak(url, mode))

    assert grown(held[0], held[-1]) == [], held
    for side in zip(*held, strict=True):
        assert trend(side) < LEAK / 2, [each["objects"] for each in side]
