"""What judging a call costs while it is written, how much text of wrong calls it saves, and what starting early saves.

Run with `python -m benchmarks streams`. The calls are real ones, in `tests/data/bfcl`; the wrong ones are made of them in
nine ways, named in `tests/mutations.py`.
"""

import asyncio
import json
import random
import statistics
import time
from collections import Counter
from typing import Any

from benchmarks._measure import heading, row
from functool import ArgumentError, Context, FunctionTool, SchemaTool, Tool, ToolSettings
from functool.dialects import openai_chat
from tests import mutations, signatures
from tests.bfcl import lines

DELTA = 4  # characters, about a token
SIGNATURES = 10_000
BODIES = (1.2, 0.9, 0.6, 0.3)  # seconds
TOKENS_PER_SECOND = 50


def pieces(text: str) -> list[str]:
    return [text[at : at + DELTA] for at in range(0, len(text), DELTA)]


def judged(tool: Tool, text: str) -> int | None:
    """How much of a text had come when it was refused, or None."""
    watch = tool.watch()
    for count, piece in enumerate(pieces(text), 1):
        if watch.feed(piece) is not None:
            return min(count * DELTA, len(text))
    return None


def bench_valid_calls() -> None:
    """Every piece of every call is judged; of five rounds the median counts, in seconds of this process."""
    functions = {line["uid"]: line for line in lines("functions")}
    tools: dict[str, SchemaTool] = {}
    jobs = []
    for line in lines("calls_valid"):
        of = functions[uid := line["function"]]
        if uid not in tools:
            about = of["name"], of["description"], of["parameters"]
            tools[uid] = SchemaTool(*about, lambda arguments: arguments)
        jobs.append((tools[uid], pieces(json.dumps(line["arguments"]))))
    alarms, rounds = 0, []
    for _ in range(5):
        spent = 0
        for tool, cut in jobs:
            feed = tool.watch().feed
            start = time.process_time_ns()
            said = [feed(piece) for piece in cut]
            spent += time.process_time_ns() - start
            alarms += said[-1] is not None
        rounds.append(spent / sum(len(cut) for _, cut in jobs) / 1_000)
    row("judging, microseconds a delta of four characters", statistics.median(rounds), 5, 4, " us")
    row(f"false alarms in {len(jobs):,} valid calls", alarms, 0, 0, "")


def bench_signatures() -> None:
    draw = random.Random(0)
    alarms = valid = early = made = 0
    while made < SIGNATURES:
        tool = signatures.tool(draw)
        if tool is None:
            continue
        made += 1
        text = signatures.arguments(draw, tool)
        refused = judged(tool, text) is not None
        try:
            tool.bind(text)
        except ArgumentError:
            early += refused
        else:
            valid, alarms = valid + 1, alarms + refused
    row(f"false alarms in {made:,} generated signatures", alarms, 0, 0, "")
    print(f"  {valid:,} of their calls are valid, {early:,} of the others were refused early")


def bench_wrong_calls() -> None:
    whole: Counter[str] = Counter()
    written: Counter[str] = Counter()
    for kind, tool, text in mutations.mutated():
        if kind != "unknown_tool":
            try:
                tool.bind(text)
                continue  # The mutation left it valid.
            except ArgumentError:
                pass
        at = 0 if kind == "unknown_tool" else judged(tool, text)
        whole[kind] += len(text)
        written[kind] += len(text) if at is None else at
    for kind in whole:
        print(f"  {kind:<14} {100 - 100 * written[kind] / whole[kind]:5.1f} % never generated")
    share = 100 * written.total() / whole.total()
    row("text of wrong calls that has to be generated", share, 60, 55, " %")


def bench_early() -> None:
    """A turn of four calls at 50 tokens a second: when its results are there, with and without starting early."""

    async def look(seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    tool = FunctionTool(look, settings=ToolSettings(read_only=True))

    async def chunks() -> Any:
        for index, seconds in enumerate(BODIES):
            text = json.dumps({"seconds": seconds})
            about = {"index": index, "id": f"c{index}"}
            function = {"name": "look", "arguments": ""}
            yield {
                "choices": [
                    {"index": 0, "delta": {"tool_calls": [{**about, "function": function}]}}
                ]
            }
            for piece in pieces(text):
                await asyncio.sleep(1 / TOKENS_PER_SECOND)
                entry = {"index": index, "function": {"arguments": piece}}
                yield {"choices": [{"index": 0, "delta": {"tool_calls": [entry]}}]}
            for _ in range(8):  # The tokens of a name, and what stands around a call.
                await asyncio.sleep(1 / TOKENS_PER_SECOND)
        end = {"index": 0, "delta": {}, "finish_reason": "tool_calls"}
        yield {"choices": [end]}

    async def early() -> float:
        start = time.perf_counter()
        await openai_chat.StreamReader(tool).run(Context(), chunks())
        return time.perf_counter() - start

    async def late() -> float:
        start = time.perf_counter()
        reader = openai_chat.StreamReader(tool)
        async for chunk in chunks():
            reader.feed(chunk)
        await reader.run(Context())
        return time.perf_counter() - start

    ours, floor = asyncio.run(early()), asyncio.run(late())
    row(f"a turn of four calls, {floor:.2f} s without starting early", ours, floor, 1.6, " s")


def main() -> None:
    print(heading())
    bench_valid_calls()
    bench_signatures()
    bench_wrong_calls()
    bench_early()
