"""A hundred thousand calls of every kind: nothing may be left behind, and none may be lost."""

import asyncio
import gc
import os
import threading
import tracemalloc

import pytest

from functool import Context, FunctionTool, GuardrailError, ToolCall, ToolError, ToolResult, Toolset
from functool.executors import abandoned
from functool.guardrails import redact, truncate
from tests.support import python

CALLS = int(os.environ.get("FUNCTOOL_SOAK_CALLS", "100_000"))
AT_ONCE = 100
WARM_UP = 2_000
# One object a call that stays is at least 50 bytes; what caches and the allocator keep stays far below that.
SLACK_BYTES = 20 * CALLS
SLACK_OBJECTS = CALLS // 50


@FunctionTool
async def add(a: int, b: int = 1) -> int:
    return a + b


@FunctionTool
def in_a_thread(text: str) -> str:
    return text.upper()


@FunctionTool
async def fail(how: str = "ValueError"):
    raise {"ValueError": ValueError, "ToolError": ToolError, "KeyError": KeyError}[how]("no")


@FunctionTool(timeout=0.001)
async def late():
    await asyncio.sleep(60)


@FunctionTool
async def cancelled_from_within():
    raise asyncio.CancelledError


@FunctionTool
async def progress(count: int):
    for number in range(count):
        yield number


def refuse_odd(call: ToolCall, context: Context) -> None:
    if call.arguments["a"] % 2:
        raise GuardrailError("odd")


async def one_more(call: ToolCall, context: Context) -> ToolCall:
    return ToolCall(name=call.name, arguments={**call.arguments, "b": 1}, id=call.id)


def crash(result: ToolResult, context: Context) -> None:
    if "13" in result.text:
        raise RuntimeError("the guardrail is broken")


guarded = FunctionTool(
    add.func,
    name="guarded",
    input_guardrails=[refuse_odd, one_more],
    output_guardrails=[redact(["secret"]), truncate(50), crash],
)
TOOLS = Toolset(
    [add, in_a_thread, fail, late, cancelled_from_within, progress, guarded],
    max_concurrency=AT_ONCE // 2,
)

# Name, arguments, and the type of the error.
KINDS = [
    ("add", '{"a": 1, "b": 2}', None),
    ("add", {"a": 5}, None),
    ("add", '{"a": "x"}', "ArgumentError"),
    ("add", '{"a": 1, "unknown": 2}', "ArgumentError"),
    ("add", "{", "ArgumentError"),
    ("in_a_thread", {"text": "abc"}, None),
    ("fail", "", "ValueError"),
    ("fail", '{"how": "ToolError"}', "ToolError"),
    ("fail", '{"how": "other"}', "KeyError"),
    ("cancelled_from_within", "", "ToolError"),
    ("progress", '{"count": 3}', None),
    ("guarded", '{"a": 2}', None),
    ("guarded", '{"a": 3}', "GuardrailError"),
    ("guarded", '{"a": 12}', "GuardrailError"),
    ("nothing", "{}", "UnknownToolError"),
    ("late", "", "ToolTimeoutError"),
]


def census():
    """Count what a process holds; a full collection first, so that only what is really kept counts."""
    for _ in range(3):
        gc.collect()
    return {
        "tasks": len(asyncio.all_tasks()),
        "threads": sum(thread.name != "functool" for thread in threading.enumerate()),
        "workers": sum(thread.name == "functool" for thread in threading.enumerate()),
        "files": len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0,
        "abandoned": abandoned(),
        "objects": len(gc.get_objects()),
        "bytes": tracemalloc.get_traced_memory()[0] if tracemalloc.is_tracing() else 0,
    }


async def soak(calls):
    """Make so many calls; return how many answers were lost, or were other than they should be."""
    context, heard, lost, wrong, made = Context(), [], 0, 0, 0
    context.subscribe(heard.append)
    while made < calls:
        count = min(AT_ONCE, calls - made)
        turn = [KINDS[(made + i) % len(KINDS)] for i in range(count)]
        asked = [
            ToolCall(name=name, arguments=arguments, id=str(made + i))
            for i, (name, arguments, _) in enumerate(turn)
        ]
        # Half of the turns have listeners.
        results = await TOOLS.call_all(asked, context if made // AT_ONCE % 2 else None)
        lost += count - len(results)
        for call, result, (*_, error) in zip(asked, results, turn, strict=False):
            wrong += result.call_id != call.id or (result.error and result.error.type) != error
        if heard:
            ends = [event.call_id for event in heard if event.kind in ("tool:post", "tool:error")]
            wrong += sorted(ends) != sorted(call.id for call in asked)
            heard.clear()
        made += count
    return lost, wrong


@pytest.mark.slow
def test_nothing_leaks(caplog, capsys):
    """Every call has its one right answer, and memory, threads, tasks and descriptors stay what they were."""
    caplog.set_level("CRITICAL", "functool")  # What is logged is kept by pytest.

    async def main():
        await soak(WARM_UP)
        tracemalloc.start()
        await soak(WARM_UP)
        before = census()
        missing = await soak(CALLS)
        return before, missing, census()

    try:
        before, missing, after = asyncio.run(main())
    finally:
        tracemalloc.stop()
    grown = {name: after[name] - before[name] for name in before}
    with capsys.disabled():
        print(f"\n{CALLS:,} calls: lost {missing[0]}, wrong {missing[1]}, grown by {grown}")

    assert missing == (0, 0)
    for name in ("tasks", "files", "threads", "abandoned"):
        assert grown[name] <= 0
    assert after["workers"] <= AT_ONCE
    assert grown["objects"] < SLACK_OBJECTS
    assert grown["bytes"] < SLACK_BYTES


def test_the_soak_can_fail():
    """The census sees a task, a file, a thread and an object that stay."""
    # In a process of its own, because threads of earlier tests end at any time.
    code = "import asyncio; from tests import test_soak as soak; asyncio.run(soak.keep_things())"

    assert python(code).stderr == ""


async def keep_things() -> None:
    """Keep one of each thing that the census counts, and check that it counts it."""
    before = census()
    release = threading.Event()
    task = asyncio.ensure_future(asyncio.sleep(60))
    thread = threading.Thread(target=release.wait)
    thread.start()
    kept = [[] for _ in range(1_000)]
    with open(os.devnull):
        after = census()
    release.set()
    thread.join()
    task.cancel()

    assert (after["tasks"], after["threads"]) == (before["tasks"] + 1, before["threads"] + 1)
    assert after["objects"] >= before["objects"] + len(kept)
    if os.path.isdir("/proc/self/fd"):
        assert after["files"] == before["files"] + 1


def test_every_kind_of_call_answers_as_it_should():
    """A few rounds of the soak: each kind of call has the outcome that the long run counts on."""
    assert asyncio.run(soak(3 * len(KINDS))) == (0, 0)
