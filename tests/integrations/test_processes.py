"""Processes: bodies that are really killed, and a pool that goes on."""

import asyncio
import contextlib
import functools
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("pebble", reason="needs tests/requirements/agents.txt")

from functool import (
    Context,
    DefinitionError,
    FunctionTool,
    ToolCall,
    ToolError,
    Toolset,
    ToolSettings,
)
from functool.executors import abandoned
from functool.integrations.processes import ProcessExecutor, WorkerDied
from functool.layers.journal import Journal
from tests import support
from tests.integrations import process_bodies as bodies
from tests.support import alive, python, until

UNKNOWN = "It is unknown whether this call took effect."

pytestmark = pytest.mark.skipif(os.name == "nt", reason="looks at processes as POSIX has them")


@pytest.fixture(scope="module", autouse=True)
def workers():
    with bodies.processes:
        yield bodies.processes


def call(tool, **arguments):
    return support.call(tool, arguments, Context(3))


def ran(func, *args, executor=bodies.processes, **kwargs):
    """What a function returns when an executor runs it."""
    return asyncio.run(executor(func, *args, **kwargs))


def asleep(pid):
    """Whether a process waits for something."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def written(path):
    return path.exists() and path.read_text() != ""


@contextlib.asynccontextmanager
async def full(executor, tmp_path):
    """An executor of one worker, which hangs, and a call that waits for it."""
    hung = asyncio.ensure_future(executor(bodies.hang, str(tmp_path / "pid")))
    await until(lambda: written(tmp_path / "pid"))
    queued = asyncio.ensure_future(executor(bodies.note, str(tmp_path / "trace")))
    await asyncio.sleep(0.2)
    yield hung, queued


def test_missing_extra_says_what_to_install(monkeypatch):
    """Without the package the import says how to get it."""
    monkeypatch.setitem(sys.modules, "pebble", None)
    monkeypatch.delitem(sys.modules, "functool.integrations.processes")

    with pytest.raises(ImportError, match=r"pip install 'functool\[processes\]'"):
        import functool.integrations.processes  # noqa: F401


@pytest.mark.parametrize("workers", [0, -1, "2", True])
def test_a_number_of_workers_that_cannot_be(workers):
    """It is refused at once: calls waited for ever for a pool of minus one workers."""
    with pytest.raises(DefinitionError, match="max_workers must be a positive int or None"):
        ProcessExecutor(max_workers=workers)


def test_a_tool_runs_in_another_process():
    """The body runs in a worker, which serves many calls, and the checked arguments and the result cross."""
    pids = {call(bodies.worker).value for _ in range(6)}

    assert os.getpid() not in pids and 1 <= len(pids) <= 2
    assert call(bodies.divide, a=7, b="2").value == 3.5
    assert call(bodies.later, a=1).value == 2


def test_what_a_body_raises_is_raised():
    """An exception keeps its class and text, and its traceback as a note; an `ArgumentError` never reaches a worker."""
    assert call(bodies.divide, a=1, b=0).error.type == "ZeroDivisionError"
    assert call(bodies.divide, a=1, b="x").error.type == "ArgumentError"
    failed = call(bodies.refuse, how="tool")
    assert (failed.error.type, failed.text) == ("ToolError", "no")
    assert failed.error.details == {"why": "so"}
    with pytest.raises(ZeroDivisionError) as caught:
        ran(bodies.divide.func, 1, 0)
    assert "return a / b" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("picky", "RuntimeError: Picky: 1 and 2"),
        ("exit", "RuntimeError: SystemExit: 3"),
        (
            "lock",
            "TypeError: the result cannot leave its process: cannot pickle '_thread.lock' object",
        ),
        ("SIGKILL", f"The worker process of the tool died (exit code -9). {UNKNOWN}"),
        ("SIGTERM", f"The worker process of the tool died (exit code -15). {UNKNOWN}"),
        ("SIGSEGV", f"The worker process of the tool died (exit code -11). {UNKNOWN}"),
    ],
)
def test_a_worker_that_fails_is_an_error_result(how, text):
    """What cannot be pickled, and a worker that exits or dies, is a failed call; the pool goes on."""
    result = call(bodies.refuse, how=how)

    assert result.is_error and result.text == text
    assert call(bodies.divide, a=6, b=3).value == 2


@pytest.mark.parametrize(
    ("settings", "again", "state"),
    [
        (ToolSettings(), "OutcomeUnknown", "unknown"),
        (ToolSettings(idempotent=True), "WorkerDied", "started"),
    ],
)
def test_a_call_whose_worker_died_is_unknown_to_a_journal(tmp_path, settings, again, state):
    """The worker may have died after the effect; a tool for which that is harmless runs again."""
    journal = Journal(tmp_path / "calls.journal")
    refuse = FunctionTool(bodies.refuse.func, executor=bodies.processes, settings=settings)
    one = ToolCall(name="refuse", arguments={"how": "SIGKILL"}, id="1")

    results = [asyncio.run(journal.once(refuse, run="r")(one)) for _ in range(2)]

    assert [result.error.type for result in results] == ["WorkerDied", again]
    assert [entry.state for entry in journal.calls()] == [state]


def test_a_dead_worker_loses_no_sibling():
    """Of calls that run side by side, only the one whose worker dies fails."""
    tools = Toolset([bodies.divide, bodies.refuse])
    turn = [ToolCall(name="divide", arguments={"a": i, "b": 2}, id=str(i)) for i in range(8)]
    turn.insert(4, ToolCall(name="refuse", arguments={"how": "SIGKILL"}, id="dead"))

    results = tools.call_all_sync(turn)

    assert [result.call_id for result in results if result.is_error] == ["dead"]
    assert [result.value for result in results if not result.is_error] == [i / 2 for i in range(8)]


def test_the_pool_survives_the_death_of_idle_workers():
    """A call that meets a pool whose worker was killed is run by a new worker."""
    with ProcessExecutor(max_workers=1) as executor:
        for _ in range(5):
            pid = ran(bodies.worker.func, executor=executor)
            # Asleep: with the answer on its way it may still hold a lock of the pool, which would take minutes to notice.
            asyncio.run(until(lambda pid=pid: asleep(pid)))
            os.kill(pid, signal.SIGKILL)

            assert ran(bodies.worker.func, executor=executor) != pid


@pytest.mark.parametrize("how", ["sleep", "busy"])
def test_the_time_limit_kills(how, tmp_path):
    """At the time limit the worker is dead before the answer, busy or not, and the answer says that the work was stopped."""
    call(bodies.worker)
    before = abandoned()
    result = call(bodies.hang_tool, path=str(tmp_path / "pid"), how=how)

    assert result.error.type == "ToolTimeoutError" and result.text.endswith("and was stopped.")
    assert not alive(int((tmp_path / "pid").read_text()))
    assert abandoned() == before
    assert call(bodies.divide, a=6, b=3).value == 2


def test_cancelling_kills(tmp_path):
    """Cancelled from outside, the call ends cancelled, and its worker is dead by then, even one that catches everything."""
    path = tmp_path / "pid"

    async def main():
        task = asyncio.ensure_future(bodies.processes(bodies.hang, str(path), "stubborn"))
        await until(lambda: written(path))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return alive(int(path.read_text()))

    assert asyncio.run(main()) is False


def test_cancelling_kills_before_the_loop_knows_of_the_worker(tmp_path, monkeypatch):
    """A call that begins while the event loop is busy, and is cancelled then, is killed as well, and leaves no file."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "files"))
    (tmp_path / "files").mkdir()
    path = tmp_path / "pid"

    async def main(executor):
        await executor(abs, 1)
        task = asyncio.ensure_future(executor(bodies.hang, str(path)))
        await asyncio.sleep(0)  # It begins, and waits for the thread that sends it to the pool.
        while not written(path):
            time.sleep(0.01)  # noqa: ASYNC251
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return alive(int(path.read_text()))

    with ProcessExecutor(max_workers=1) as executor:
        assert asyncio.run(main(executor)) is False
    assert list((tmp_path / "files").iterdir()) == []


def test_a_call_that_was_cancelled_in_the_queue_never_begins(tmp_path):
    """A call that is cancelled while it waits for a worker leaves no trace, and kills nobody."""

    async def main(executor):
        async with full(executor, tmp_path) as (hung, queued):
            queued.cancel()
            with pytest.raises(asyncio.CancelledError):
                await queued
            lives = alive(int((tmp_path / "pid").read_text()))
            hung.cancel()
            await asyncio.wait({hung})
            return lives, await executor(bodies.note, str(tmp_path / "other"))

    with ProcessExecutor(max_workers=1) as executor:
        assert asyncio.run(main(executor)) == (True, "done")

    assert (tmp_path / "other").exists() and not (tmp_path / "trace").exists()


def test_no_job_of_another_user_runs(tmp_path, monkeypatch):
    """Somebody who puts a job, or a pipe, where that of a cancelled call was, gets nothing done."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    async def main(executor):
        async with full(executor, tmp_path) as (hung, queued):
            before = {*tmp_path.glob("functool-call-*")}
            queued.cancel()
            await asyncio.wait({queued})
            [ticket] = before - {*tmp_path.glob("functool-call-*")}
            forged = bodies.__name__, "note", (str(tmp_path / "forged"),), {}
            if os.path.lexists(tmp_path / "as_pipe"):
                os.mkfifo(ticket)
            else:
                ticket.write_bytes(pickle.dumps(forged))
            hung.cancel()
            await asyncio.wait({hung})
            return await executor(bodies.note, str(tmp_path / "other"))

    for _ in range(2):
        with ProcessExecutor(max_workers=1) as executor:
            assert asyncio.run(asyncio.wait_for(main(executor), 60)) == "done"
        assert not (tmp_path / "forged").exists()
        (tmp_path / "pid").unlink()
        (tmp_path / "as_pipe").touch()


def test_a_call_whose_file_was_removed_is_an_error(tmp_path, monkeypatch):
    """A call that cannot begin, because a program that cleans up removed its file, says that it did not run."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    async def main(executor):
        async with full(executor, tmp_path) as (hung, queued):
            for ticket in tmp_path.glob("functool-call-*"):
                ticket.unlink()
            hung.cancel()
            await queued

    with ProcessExecutor(max_workers=1) as executor:
        with pytest.raises(ToolError, match="The call was not run: .*No such file or directory"):
            asyncio.run(asyncio.wait_for(main(executor), 60))

    assert not (tmp_path / "trace").exists()


def test_a_call_that_its_worker_cannot_read_is_an_error(tmp_path):
    """A call says that it did not run where an earlier body has used up the descriptors of the worker."""
    with ProcessExecutor(max_workers=1) as executor:
        ran(bodies.use_up_descriptors, executor=executor)
        with pytest.raises(ToolError, match="The call was not run: .*Too many open files"):
            ran(bodies.note, str(tmp_path / "trace"), executor=executor)

    assert not (tmp_path / "trace").exists()


def test_nobody_knows_the_file_of_a_result_beforehand(tmp_path, monkeypatch):
    """Somebody who makes files with the names that a waiting call shows costs it nothing."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    async def main(executor):
        async with full(executor, tmp_path) as (hung, queued):
            large = asyncio.ensure_future(executor(bytes, 100_000))
            queued.cancel()
            await asyncio.sleep(0.2)
            for ticket in tmp_path.glob("functool-call-*"):
                ticket.with_name(f"{ticket.name}.result").touch()
                ticket.with_name(ticket.name.replace("call", "result")).touch()
            hung.cancel()
            return len(await large)

    with ProcessExecutor(max_workers=1) as executor:
        assert asyncio.run(asyncio.wait_for(main(executor), 60)) == 100_000


def test_no_ticket_is_left(tmp_path, monkeypatch):
    """Calls that ended, failed, died or were cancelled leave no file behind."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tickets"))
    (tmp_path / "tickets").mkdir()

    call(bodies.divide, a=1, b=0)
    call(bodies.refuse, how="SIGKILL")
    call(bodies.hang_tool, path=str(tmp_path / "pid"))

    assert list((tmp_path / "tickets").iterdir()) == []


def test_anything_that_has_a_name_is_found():
    """Methods with their object, static methods, partials, callable instances and other decorators' functions run too."""
    warm = bodies.Celsius(20.0)

    assert ran(warm.fahrenheit, 5.0) == 77.0
    assert ran(functools.partial(warm.fahrenheit, add=5.0)) == 77.0
    assert ran(functools.partial(bodies.divide.func, 6), b=4) == 1.5
    assert ran(bodies.Celsius.zero) == -273.15
    assert ran(warm, 1.0) == 21.0
    assert ran(bodies.cached, 4) == 8
    assert call(warm.kelvin).value == 293.15


def test_injected_values_cross_and_a_context_does_not():
    """What a provider returns is pickled; a `Context` parameter is refused by name, before any worker sees it."""
    assert call(bodies.measured, text="four").value == 12

    error = call(bodies.curious, text="x").error
    assert error.type == "TypeError"
    told = (
        "process_bodies.curious cannot run in another process: its parameter context is a Context"
    )
    assert told in error.message


@pytest.mark.parametrize(
    ("func", "argument", "text"),
    [
        (lambda: 1, (), "a worker finds no such function"),
        (bodies.count.func, (3,), "it is a generator function"),
        (bodies.note, (threading.Lock(),), "an argument of tests.integrations.process_bodies.note"),
    ],
    ids=["local", "generator", "argument"],
)
def test_what_cannot_be_found_or_sent_is_said(func, argument, text):
    """A local function, a generator and an argument that pickle refuses are errors that name the function."""
    with pytest.raises(TypeError, match=text):
        ran(func, *argument)


def test_a_tool_that_cannot_be_sent_is_a_failed_call():
    """A generator tool with such an executor answers the model, and raises nothing."""
    assert call(bodies.count, to=3).error.type == "TypeError"


def test_it_starts_with_the_first_call_and_again_after_close():
    """Making an executor starts nothing; `close` kills the workers, and a later call starts new ones."""
    executor = ProcessExecutor(max_workers=1)
    executor.close()
    first = ran(bodies.worker.func, executor=executor)
    executor.close()
    assert not alive(first)
    second = ran(bodies.worker.func, executor=executor)
    executor.close()

    assert second != first and not alive(second)


FORK = """
import asyncio, os, signal
from functool.integrations.processes import ProcessExecutor

executor = ProcessExecutor(max_workers=1)
worker = asyncio.run(executor(os.getpid))
child = os.fork()
if child == 0:
    signal.alarm(60)
    own = asyncio.run(executor(os.getpid))
    executor.close()
    print(own not in (worker, os.getpid()), flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(asyncio.run(executor(os.getpid)) == worker, flush=True)
executor.close()
"""


def test_a_fork_has_workers_of_its_own():
    """A forked child starts workers for its calls, and leaves those of its parent alone."""
    done = python(FORK)

    assert done.stdout == "True\nTrue\n", done.stderr


def test_closing_ends_the_calls_that_wait(tmp_path):
    """A call that runs when the executor is closed fails, and so does one that waits for a worker; neither waits for ever."""

    async def main(executor):
        async with full(executor, tmp_path) as calls:
            await asyncio.to_thread(executor.close)
            return await asyncio.gather(*calls, return_exceptions=True)

    with ProcessExecutor(max_workers=1) as executor:
        errors = [(type(error), str(error)) for error in asyncio.run(main(executor))]
    died = "The worker processes of the tool died."
    assert errors == [
        (WorkerDied, f"{died} {UNKNOWN}"),
        (ToolError, f"{died} The call was not run."),
    ]
    assert not alive(int((tmp_path / "pid").read_text())) and not (tmp_path / "trace").exists()


def test_a_worker_that_dies_while_its_result_is_sent_holds_up_no_other(tmp_path, monkeypatch):
    """The pool goes on, and no part of the result is left. The workers share one pipe."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    with ProcessExecutor(max_workers=2) as executor:
        with pytest.raises(WorkerDied):
            ran(bodies.die_on_the_way, str(tmp_path), executor=executor)
        assert asyncio.run(asyncio.wait_for(executor(abs, -1), 60)) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("moment", [0.0, 0.03, 0.06, 0.09])
def test_a_call_that_is_cancelled_when_the_pool_closes_ends(moment, tmp_path):
    """It ends at any moment of the pool's own rounds of a tenth of a second, and its worker is dead then."""
    executor, path = ProcessExecutor(max_workers=1), tmp_path / "pid"

    async def main():
        await executor(abs, 1)
        hung = asyncio.ensure_future(executor(bodies.hang, str(path)))
        await until(lambda: written(path))
        await asyncio.sleep(moment)
        executor.close()
        hung.cancel()
        async with asyncio.timeout(60):
            await asyncio.wait([hung])
        return hung.cancelled()

    assert asyncio.run(main())
    assert not alive(int(path.read_text()))


@pytest.mark.parametrize(
    ("end", "code"), [("return", 0), ("os.kill(os.getpid(), 9)", -9)], ids=["ends", "killed"]
)
@pytest.mark.parametrize("how", ["sleep", "busy", "stubborn"])
def test_a_program_ends_although_a_body_hangs(how, end, code, tmp_path):
    """A program whose executor was never closed ends, and its workers with it, also if it is killed."""
    program = f"""
import asyncio, os
from pathlib import Path
from tests.integrations import process_bodies as bodies

async def main():
    asyncio.ensure_future(bodies.processes(bodies.hang, {str(tmp_path / "pid")!r}, {how!r}))
    while not Path({str(tmp_path / "pid")!r}).exists():
        await asyncio.sleep(0.02)
    {end}

if __name__ == "__main__":
    asyncio.run(main())
"""
    (tmp_path / "program.py").write_text(program)
    root = Path(__file__).parent.parent.parent
    done = subprocess.run(
        [sys.executable, tmp_path / "program.py"],
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.returncode == code, done.stderr
    assert code or not done.stderr
    asyncio.run(until(lambda: not alive(int((tmp_path / "pid").read_text())), 120))


def test_two_loops_share_a_pool():
    """Calls from the loops of several threads run in the same workers."""
    tools = Toolset([bodies.divide])
    calls = [ToolCall(name="divide", arguments={"a": i, "b": 1}) for i in range(6)]
    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(tools.call_sync, calls))

    assert [result.value for result in results] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


SCRIPT = """
import asyncio
from functool import FunctionTool, ToolCall
from functool.integrations.processes import ProcessExecutor

processes = ProcessExecutor(max_workers=1)

class Odd(Exception):
    pass

@FunctionTool(executor=processes)
def twice(a: int) -> int:
    if a % 2:
        raise Odd(a)
    return 2 * a

if __name__ == "__main__":
    for a in (4, 5):
        print(asyncio.run(twice.invoke(ToolCall(name="twice", arguments={"a": a}))).text)
"""


def test_a_function_of_the_main_module_is_found(tmp_path):
    """A tool of the script itself runs in a worker, and so does an exception class of the script come back."""
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True)

    assert (done.returncode, done.stdout) == (0, "8\nOdd: 5\n")
    assert done.stderr.startswith("the tool twice failed\nTraceback")  # What nobody answered.
