"""Work on large values: on threads, one at a time."""

import asyncio
import os
import runpy
import signal
import threading
import time

import pytest

import functool.large
from functool import FileContent, ToolResult
from functool.large import in_thread_if, in_turn_if, is_large


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
