"""Executors: threads of our own that nobody else waits for."""

import asyncio
import contextvars
import gc
import os
import runpy
import socket
import threading
from collections import deque
from queue import Empty, SimpleQueue

import pytest

import functool.executors
import functool.json_values
from functool import (
    Context,
    DefinitionError,
    FunctionTool,
    ToolCall,
    Toolset,
    Tripwire,
)
from functool.executors import (
    abandoned,
    in_thread,
    inline,
    retrying,
)
from functool.guardrails import require_approval
from tests.support import call, nothing_abandoned, python, time_passes, until


def test_inline_calls_and_awaits():
    """`inline` runs on the loop's thread and awaits what can be awaited."""

    async def later(x):
        return (x, threading.current_thread())

    assert asyncio.run(inline(later, 1)) == (1, threading.main_thread())
    assert asyncio.run(inline(lambda x: x, x=2)) == 2


def test_in_thread_passes_arguments_results_and_errors():
    """A thread other than the loop's runs the function; what it raises is raised."""

    def work(a, *, b):
        return (a, b, threading.current_thread() is threading.main_thread())

    assert asyncio.run(in_thread(work, 1, b=2)) == (1, 2, False)
    with pytest.raises(ZeroDivisionError):
        asyncio.run(in_thread(lambda: 1 / 0))
    with pytest.raises(RuntimeError, match="^the function raised StopIteration$") as caught:
        asyncio.run(in_thread(lambda: next(iter(()))))
    assert isinstance(caught.value.__cause__, StopIteration)
    with pytest.raises(SystemExit):
        asyncio.run(in_thread(exit_now))


def exit_now():
    raise SystemExit(3)


def test_context_variables_are_carried_in_and_not_out():
    """The thread sees the caller's context variables; what it sets stays there."""
    variable = contextvars.ContextVar("v", default=0)

    def work():
        seen = variable.get()
        variable.set(9)
        return seen

    async def main():
        variable.set(5)
        return (await in_thread(work), variable.get())

    assert asyncio.run(main()) == (5, 5)


def test_an_idle_thread_is_used_again():
    """One call after the other needs one thread."""

    async def main():
        await nothing_abandoned()
        return {await in_thread(threading.get_ident) for _ in range(20)}

    assert len(asyncio.run(main())) == 1


def test_the_threads_are_daemons_of_their_own():
    """They are not the default executor's, and do not keep the process alive."""
    thread = asyncio.run(in_thread(threading.current_thread))

    assert thread.daemon and thread.name == "functool"


def test_an_idle_thread_retires(monkeypatch):
    """A thread without work ends after its idle time."""
    monkeypatch.setattr("functool.executors.IDLE_SECONDS", 0.02)

    async def main():
        return await asyncio.gather(*(in_thread(threading.current_thread) for _ in range(3)))

    for thread in asyncio.run(main()):
        thread.join()
    assert asyncio.run(in_thread(lambda: 5)) == 5


def test_cancelling_says_that_the_body_works_on():
    """Cancelled while the function runs, the wait ends at once, and the function is counted until it ends."""
    release, started = threading.Event(), threading.Event()

    def work():
        started.set()
        release.wait(30)

    async def main():
        await nothing_abandoned()
        task = asyncio.ensure_future(in_thread(work))
        await until(started.is_set)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        counted = abandoned()
        release.set()
        await nothing_abandoned()
        return counted

    assert asyncio.run(main()) == 1


def test_a_sync_tool_can_be_left_like_any_await():
    """`asyncio.timeout` and a `TaskGroup` whose other task fails see a plain cancellation, also of a body that works on."""
    release = threading.Event()

    @FunctionTool
    def hang():
        release.wait(30)

    @FunctionTool(timeout=30)
    async def outer():
        async with asyncio.timeout(0.01):
            await hang(ToolCall(name="hang"))

    async def fail():
        await asyncio.sleep(0.01)
        raise LookupError

    async def main():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await Toolset([hang]).call_all([ToolCall(name="hang")])
        with pytest.raises(ExceptionGroup) as caught:
            async with asyncio.TaskGroup() as group:
                group.create_task(fail())
                await hang(ToolCall(name="hang"))
        result = await outer(ToolCall(name="outer"))
        return [type(error) for error in caught.value.exceptions], result.text

    try:
        assert asyncio.run(main()) == ([LookupError], "TimeoutError")
    finally:
        release.set()


def test_a_loop_that_closes_first_is_no_problem():
    """A body that ends after its loop was closed ends quietly."""
    release, done = threading.Event(), threading.Event()

    def work():
        release.wait(30)
        done.set()

    async def main():
        task = asyncio.ensure_future(in_thread(work))
        await asyncio.sleep(0.01)
        task.cancel()

    asyncio.run(main())
    release.set()

    assert done.wait(30)
    asyncio.run(nothing_abandoned())
    assert asyncio.run(in_thread(lambda: 7)) == 7
    gc.collect()


def test_a_body_that_ends_when_its_loop_has_stopped_is_not_counted():
    """A loop that is closed before it runs again does not hear that an abandoned body has ended."""
    release = threading.Event()
    loop = asyncio.new_event_loop()

    async def main():
        await nothing_abandoned()
        task = asyncio.ensure_future(in_thread(release.wait, 30))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.sleep(0.01)
        return abandoned()

    assert loop.run_until_complete(main()) == 1
    release.set()
    asyncio.run(nothing_abandoned())
    loop.close()

    assert abandoned() == 0


def test_a_body_that_ends_just_before_it_is_cancelled_is_not_counted():
    """A body that has ended is not abandoned, also where the loop has not heard of its end."""
    inbox_is_back = threading.Event()

    class Told(deque):
        def append(self, inbox):
            super().append(inbox)
            inbox_is_back.set()

    async def main():
        await nothing_abandoned()
        task = asyncio.ensure_future(in_thread(lambda: None))
        await asyncio.sleep(0)  # The task starts, and waits for its thread.
        assert inbox_is_back.wait(30)  # The loop is held here, so it cannot hear of the end.
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return abandoned()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(functool.executors, "_idle", Told())
        assert asyncio.run(main()) == 0


def test_hung_tools_delay_nothing_else():
    """While 64 tools hang, a quick tool answers, a name is looked up and `asyncio.to_thread` works, before any of them ends."""
    release, started = threading.Event(), threading.Semaphore(0)
    ended = []

    @FunctionTool
    def hang():
        started.release()
        release.wait(60)
        ended.append(1)

    @FunctionTool
    def quick():
        return "quick"

    tools = Toolset([hang, quick])

    async def main():
        hung = asyncio.ensure_future(tools.call_all([ToolCall(name="hang") for _ in range(64)]))
        for _ in range(64):
            while not started.acquire(blocking=False):
                await asyncio.sleep(0.001)
        answer = await tools.call(ToolCall(name="quick"))
        await asyncio.get_running_loop().getaddrinfo("127.0.0.1", 80, type=socket.SOCK_STREAM)
        other = await asyncio.to_thread(lambda: "other")
        before = list(ended)
        release.set()
        await hung
        return answer.value, other, before, len(ended)

    assert asyncio.run(main()) == ("quick", "other", [], 64)


FORK = """
import asyncio, os
from functool.executors import abandoned, in_thread

async def main():
    try:
        await asyncio.wait_for(in_thread(hang), 0.01)
    except TimeoutError:
        return await in_thread(lambda: 41 + 1)

def hang():
    reader, _ = os.pipe()
    os.read(reader, 1)

asyncio.run(main())
child = os.fork()
if child == 0:
    print(abandoned(), asyncio.run(main()), abandoned(), flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(abandoned(), asyncio.run(main()), abandoned())
os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_threads_after_a_fork():
    """A forked child starts threads of its own instead of waiting for its parent's, and counts none of its parent's bodies."""
    done = python(FORK)

    assert done.stdout == "0 42 1\n1 42 2\n", done.stderr


def test_a_cancellation_raised_by_the_body_is_its_own():
    """Nobody cancelled the call: it is not abandoned."""

    def stray():
        raise asyncio.CancelledError("mine")

    async def main():
        try:
            await in_thread(stray)
        except asyncio.CancelledError as error:
            return type(error), error.args

    assert asyncio.run(main()) == (asyncio.CancelledError, ("mine",))


def test_a_thread_that_is_taken_while_it_retires_does_the_job(monkeypatch):
    """A job that arrives just when the wait ends is done, by the same thread."""

    class Late(SimpleQueue):
        given, taken = 0, 0

        def put(self, item):
            super().put(item)
            self.given += 1
            again.set() if self.given == 2 else None

        def get(self, timeout):
            self.taken += 1
            if self.taken != 2:
                return super().get(timeout=timeout)
            again.wait(30)
            raise Empty

    again = threading.Event()
    in_thread = runpy.run_path(functool.executors.__file__)["in_thread"]  # It has no thread yet.
    monkeypatch.setitem(in_thread.__globals__, "SimpleQueue", Late)
    first = asyncio.run(in_thread(threading.get_ident))

    assert asyncio.run(in_thread(threading.get_ident)) == first and again.is_set()


def test_a_system_without_fork(monkeypatch):
    """Where processes cannot be forked, threads and the pause of the collector work all the same."""
    monkeypatch.delattr(os, "register_at_fork", raising=False)
    module = runpy.run_path(functool.executors.__file__)
    paused_gc = runpy.run_path(functool.json_values.__file__)["paused_gc"]

    assert asyncio.run(module["in_thread"](lambda: 41 + 1)) == 42
    assert (paused_gc(gc.isenabled), gc.isenabled()) == (False, True)


def failing(*errors, value="done"):
    """A function that raises each of the errors, then returns, and the list of its runs."""
    runs = []

    def work(*args, **kwargs):
        runs.append((args, kwargs))
        if len(runs) <= len(errors):
            raise errors[len(runs) - 1]
        return value

    return work, runs


def test_retrying_runs_a_body_again():
    """A failure that the author named runs the body again with the same arguments, until it succeeds."""
    work, runs = failing(ConnectionError("a"), TimeoutError("b"))
    executor = retrying(3, on=(ConnectionError, TimeoutError))

    assert asyncio.run(executor(work, 1, b=2)) == "done"
    assert runs == [((1,), {"b": 2})] * 3


def test_retrying_gives_up():
    """The last failure leaves after so many attempts, and any other failure at once."""
    work, runs = failing(*[ConnectionError(str(n)) for n in range(9)])
    other, other_runs = failing(ValueError("bad"))

    with pytest.raises(ConnectionError, match="^2$"):
        asyncio.run(retrying(on=ConnectionError)(work))
    with pytest.raises(ValueError, match="^bad$"):
        asyncio.run(retrying(on=ConnectionError)(other))
    assert (len(runs), len(other_runs)) == (3, 1)


def test_retrying_asks_once():
    """Guardrails, approvals and the listeners see one call, sync and async; the attempts are logged."""

    async def main(is_async):
        work, runs = failing(ConnectionError("down"))

        def sync() -> str:
            return work()

        async def later() -> str:
            return work()

        asked, events = [], []
        tool = FunctionTool(
            later if is_async else sync,
            name="work",
            executor=retrying(on=ConnectionError),
            input_guardrails=[require_approval()],
        )
        context = Context(approver=lambda request: asked.append(request) or True)
        context.subscribe(lambda event: events.append(event.kind))
        result = await Toolset([tool]).call(ToolCall(name="work"), context)
        return result.value, len(asked), events, len(runs)

    for is_async in (True, False):
        assert asyncio.run(main(is_async)) == ("done", 1, ["tool:pre", "tool:post"], 2)


def test_retrying_logs_each_attempt(caplog):
    """Each failed attempt is logged without the error's text."""
    work, _ = failing(ConnectionError("secret"))
    with caplog.at_level("DEBUG", "functool"):
        asyncio.run(retrying(2, on=ConnectionError, wait=0)(work))

    said = "attempt 1 of 2 failed with ConnectionError; the next one comes in 0 seconds"
    assert caplog.messages == [said]


async def twice(attempt):
    return attempt * 2


@pytest.mark.parametrize(
    ("wait", "slept"),
    [
        (None, [0, 0]),
        (1.5, [1.5, 1.5]),
        (lambda attempt: attempt * 2, [2, 4]),
        (twice, [2, 4]),
        (lambda attempt, error: float(str(error)), [7, 0]),
        (lambda *given: len(given), [2, 2]),
    ],
)
def test_retrying_waits(wait, slept, monkeypatch):
    """The wait is seconds, or a function of the attempt and the error, sync or async; less than nothing is nothing."""
    seen = []

    async def sleep(seconds):
        seen.append(seconds)

    monkeypatch.setattr(functool.executors.asyncio, "sleep", sleep)
    work, _ = failing(ConnectionError("7"), ConnectionError("-1"))
    asyncio.run(retrying(3, on=ConnectionError, wait=wait)(work))

    assert seen == slept


def test_retrying_stops_at_a_time_limit():
    """After the road's time limit nothing runs again, also where the body turns it into a failure."""
    runs = []

    async def stubborn() -> None:
        runs.append(1)
        time_passes(61)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ConnectionError("cut off") from None

    tool = FunctionTool(stubborn, timeout=60, executor=retrying(5, on=ConnectionError))
    result = call(tool)

    assert result.error.type == "ToolTimeoutError"
    assert runs == [1]


def test_retrying_stops_at_a_time_limit_while_it_waits():
    """A wait ends with the call's time limit."""
    work, runs = failing(ConnectionError("down"))

    def wait(attempt):
        asyncio.get_running_loop().call_soon(time_passes, 61)
        return 3_600

    tool = FunctionTool(
        lambda: work(), name="w", timeout=60, executor=retrying(on=ConnectionError, wait=wait)
    )

    assert call(tool).error.type == "ToolTimeoutError"
    assert len(runs) == 1


def test_retrying_passes_a_tripwire():
    """What stops the run is not tried again, whatever the author named."""
    for error in (Tripwire("stop"), ExceptionGroup("of a task group", [Tripwire("stop")])):
        work, runs = failing(error)

        with pytest.raises(type(error)):
            asyncio.run(retrying(on=Exception)(work))
        assert len(runs) == 1


def test_retrying_runs_where_it_is_told():
    """Another executor may run the attempts."""
    work, _ = failing(ConnectionError("down"))
    where = []

    async def here(func, *args, **kwargs):
        where.append("here")
        return func(*args, **kwargs)

    assert asyncio.run(retrying(on=ConnectionError, executor=here)(work)) == "done"
    assert where == ["here", "here"]


def test_retrying_begins_no_generator_anew():
    """A generator that has failed is not run on: its failure is the answer."""

    def items():
        yield 1
        raise ConnectionError("down")

    tool = FunctionTool(items, executor=retrying(on=ConnectionError))

    assert call(tool).text == "ConnectionError: down"


@pytest.mark.parametrize(
    "options",
    [
        {"attempts": 0}, {"attempts": 2.5}, {"attempts": True}, {"on": ()}, {"on": "ValueError"},
        {"on": (ValueError, 3)}, {"on": asyncio.CancelledError}, {"on": [ValueError]},
        {"on": Tripwire}, {"on": (ValueError, Tripwire)},
        {"wait": -1}, {"wait": "1"}, {"wait": True}, {"wait": float("nan")}, {"executor": 3},
    ],
)  # fmt: skip
def test_retrying_refuses_mistakes(options):
    """Attempts, exceptions, waits and executors that are none are the author's errors."""
    with pytest.raises(DefinitionError):
        retrying(**{"on": ValueError, **options})


def test_a_loop_that_no_thread_can_wake_runs_the_function_itself():
    """The loop of a workflow has no `call_soon_threadsafe`: nobody could send it the result."""

    class Alone(asyncio.SelectorEventLoop):
        call_soon_threadsafe = asyncio.AbstractEventLoop.call_soon_threadsafe

    loop = Alone()
    try:
        ran = loop.run_until_complete(asyncio.wait_for(in_thread(threading.get_ident), 5))
    finally:
        loop.close()

    assert ran == threading.get_ident()
