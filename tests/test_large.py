"""Work on large values: on threads, one at a time."""

import asyncio
import gc
import os
import runpy
import signal
import threading
import time
from itertools import count
from typing import Any

import pytest
from pydantic import BaseModel

import functool.large
from functool import Context, FileContent, FunctionTool, SchemaTool, ToolCall, ToolResult, Toolset
from functool.guardrails import approval, block, calls, require_approval, trusted, trusted_only
from functool.json_values import LONG, paused_gc
from functool.large import LARGE, held, in_thread_if, in_turn_if, is_large
from tests.schemas import obj

MANY = [[]] * (LARGE // 26 + 1)
"""Just enough items for a large value."""


def threads_of(monkeypatch, module, name):
    """Note on which thread a function of a module runs."""
    seen, func = [], getattr(module, name)

    def noting(*args, **kwargs):
        seen.append(threading.current_thread().name)
        return func(*args, **kwargs)

    monkeypatch.setattr(module, name, noting)
    return seen


@pytest.mark.parametrize("large", [False, True])
def test_only_a_large_value_is_worked_on_elsewhere(large):
    """A small one is worked on at once, on the event loop."""

    async def main():
        return await in_thread_if(large, lambda *args: (threading.current_thread(), args), 1, 2)

    thread, args = asyncio.run(main())

    assert (thread is threading.main_thread(), args) == (not large, (1, 2))


def test_nobody_waits_with_a_small_value():
    """Work on a large value holds up no work on a small one."""
    begun, ended = threading.Event(), threading.Event()
    thread = threading.Thread(target=in_turn_if, args=(True, lambda: begun.set() or ended.wait()))
    thread.start()
    begun.wait()

    assert in_turn_if(False, int, "7") == 7
    ended.set()
    thread.join()


def test_a_system_without_fork(monkeypatch):
    """Where processes cannot be forked, large values have their turn all the same."""
    monkeypatch.delattr(os, "register_at_fork", raising=False)

    assert runpy.run_path(functool.large.__file__)["in_turn_if"](True, int, "7") == 7


@pytest.mark.parametrize(
    ("result", "large"),
    [
        (ToolResult.of("a" * 300_000), True),
        (ToolResult.of(b"a" * 300_000), True),
        (ToolResult.failed("a" * 300_000), True),
        (ToolResult.failed("no", details={"rows": ["a"] * 10_000}), True),
        (ToolResult.of(FileContent(data=b"a" * 300_000, media_type="application/x")), True),
        (ToolResult.of(["a"] * 100), False),
        (ToolResult.failed("no", details={"rows": ["a"]}), False),
    ],
    ids=["text", "bytes", "error", "details", "file", "list", "small error"],
)
def test_what_a_thread_looks_at(result, large):
    """A long text, file or error, or many items, make a result large."""
    assert is_large(result) is large


def test_a_value_that_cannot_be_looked_at():
    """A mapping that raises counts as large, and no property of an author's object is asked."""

    class Closed(dict):
        def values(self):
            raise OSError

    class Page:
        @property
        def text(self):
            raise OSError

    assert is_large(ToolResult(value=Closed(a=1))) is True
    assert is_large(ToolResult(value=[Page()])) is False


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_may_work_on_a_large_value():
    """A child that was forked while a thread worked on one does not wait for that thread."""
    begun, ended = threading.Event(), threading.Event()
    thread = threading.Thread(target=in_turn_if, args=(True, lambda: begun.set() or ended.wait()))
    thread.start()
    begun.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        os._exit(in_turn_if(True, int, "7"))
    ended.set()
    thread.join()

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_one_thread_at_a_time_works_on_a_large_value():
    """Others wait, as all of them would hold the interpreter's lock."""
    working, most = [], []

    def work():
        working.append(1)
        most.append(len(working))
        time.sleep(0.01)
        working.pop()

    async def main():
        await asyncio.gather(*(in_thread_if(True, work) for _ in range(5)))

    asyncio.run(main())

    assert most == [1] * 5


@pytest.mark.parametrize(
    ("guardrail", "module", "name"),
    [
        (block(["no"]), calls, "leaves"),
        (trusted_only(wrote=lambda context: "hello"), trusted, "leaves"),
        (require_approval(), approval, "request_for"),
    ],
    ids=["block", "trusted_only", "require_approval"],
)
def test_guardrails_look_at_large_arguments_in_a_thread(monkeypatch, guardrail, module, name):
    """The built-in guardrails that look at each value look at large arguments in a thread."""
    seen = threads_of(monkeypatch, module, name)

    @FunctionTool(input_guardrails=[guardrail])
    async def take(items: list[Any]) -> None: ...

    async def turn(items):
        sent = ToolCall(name="take", arguments={"items": items})
        return await take(sent, Context(approver=lambda request: True))

    assert asyncio.run(turn(MANY)).success
    first = len(seen)
    assert asyncio.run(turn([[]])).success
    assert (seen[0] == "functool", seen[first] == "functool") == (True, False)


def test_the_collector_stays_paused_until_the_last_one_has_read():
    """While two threads read long JSON, the end of the first one starts no garbage collection."""
    begun, over = threading.Event(), threading.Event()
    enabled = []

    def first():
        begun.set()
        over.wait()

    thread = threading.Thread(target=paused_gc, args=(first,))
    thread.start()
    begun.wait()

    def second():
        over.set()
        thread.join()
        enabled.append(gc.isenabled())

    paused_gc(second)

    assert (enabled, gc.isenabled()) == ([False], True)


@pytest.mark.parametrize(("items", "beside"), [([[]], False), (MANY, True)])
def test_what_is_remembered_of_a_large_call_is_read_in_a_thread(monkeypatch, items, beside):
    """`trusted_only` skips what a result repeats of its arguments, which takes long if they are large."""
    trusted_only(wrote=lambda context: "hello")  # From now on, results are remembered.
    seen = threads_of(monkeypatch, trusted, "remember")

    @FunctionTool
    async def take(items: list[Any]) -> int:
        return len(items)

    asyncio.run(take(ToolCall(name="take", arguments={"items": items}), Context()))

    assert [name == "functool" for name in seen] == [beside]


class Node(BaseModel):
    """A type that pydantic reads in exponential time."""

    next: "Node | list[Node] | None" = None


@FunctionTool
async def of_node(node: Node) -> None: ...


@FunctionTool
async def of_numbers(items: list[int]) -> None: ...


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (SchemaTool("a", "A.", obj({}), lambda arguments: None), "{}"),
        (of_node, '{"node": {"next": [{}]}}'),
        (of_numbers, '{"items": []' + " " * LONG + "}"),
    ],
    ids=["schema", "recursive", "long"],
)
def test_other_tasks_run_between_calls_that_are_slow_to_check(monkeypatch, tool, arguments):
    """The calls of a turn begin together. If one holds the loop for long, the next one lets others run."""
    monkeypatch.setattr(functool.large, "thread_time", count().__next__)  # Each check takes long.
    turns, begun = [], []

    async def main():
        loop = asyncio.get_running_loop()

        def turn():
            turns.append(loop.call_soon(turn))

        @tool.around
        async def noting(call, context, proceed):
            begun.append(len(turns))
            return await proceed()

        turn()
        sent = [ToolCall(name=noting.name, arguments=arguments, id=each) for each in "abc"]
        results = await Toolset([noting]).call_all(sent)
        turns[-1].cancel()
        return results

    assert [result.success for result in asyncio.run(main())] == [True] * 3
    assert begun[0] < begun[1] < begun[2]


def test_a_call_waits_for_no_other_loop():
    """A loop that was held, and closed before its next turn, holds up no call on another loop."""
    loop = asyncio.new_event_loop()
    loop.close()
    held.append(loop)

    assert asyncio.run(of_numbers(ToolCall(name="of_numbers", arguments={"items": []}))).success
    held.clear()


def test_a_time_limit_while_a_guardrail_looks_leaves_no_body_behind():
    """The answer says that the tool was stopped, as a thread that only looks has no effect."""
    over = threading.Event()

    def looks(call, context):
        over.wait(30)

    looks.takes_long = True

    @FunctionTool(input_guardrails=[looks], timeout=0.05)
    async def take(items: list[Any]) -> None: ...

    try:
        result = asyncio.run(take(ToolCall(name="take", arguments={"items": MANY})))
    finally:
        over.set()

    assert result.text.endswith("within 0.05 seconds and was stopped.")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_child_that_is_forked_during_a_pause_keeps_its_collector():
    """It runs again, and also after the child has paused it once more."""
    begun, over = threading.Event(), threading.Event()
    thread = threading.Thread(target=paused_gc, args=(lambda: begun.set() or over.wait(),))
    thread.start()
    begun.wait()
    if (pid := os.fork()) == 0:
        first = gc.isenabled()
        paused_gc(int)
        os._exit(0 if first and gc.isenabled() else 1)
    over.set()
    thread.join()

    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
