"""Start the interpreter's processes in one thread, keep some ready, and end them after use."""

from __future__ import annotations

import atexit
import os
import signal
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from time import monotonic
from typing import Any

from functool import DefinitionError, ToolError
from functool.bundled.code_launcher import launcher

try:
    import pydantic_monty as monty
except ImportError as _missing:
    raise ImportError("code mode needs: pip install 'functool[code-mode]'") from _missing

__all__ = ["MontyError", "Session", "Sessions", "Setup", "Turn", "WorkerDied", "checked_version"]

MAX_SESSIONS = 32
"""How many programs run at the same time in this process. Others wait for their turn."""

OF_ONE_CONTEXT = MAX_SESSIONS // 4
"""How many of them one context may have, so that one conversation cannot keep out all others."""

WAIT_SECONDS = 300.0
"""How long a program waits for its turn. A person may let other programs wait for hours."""

HOST_TOO = 2
"""How often the seconds of a program may pass while it runs and the host answers its questions."""

KEPT_BYTES = 50 * 1_048_576
"""A larger process is ended after its program. It does not give memory back to the system."""

READY = 2
"""How many warmed sessions a code tool keeps ready."""

ANSWERED = frozenset({"datetime.now", "date.today", "time.time", "os.urandom"})
"""The functions of the system that the host answers. The interpreter checks their arguments."""

_WARMING = (
    "import asyncio, json, re, math, datetime\n"
    "async def _warm(x: int) -> list[str]:\n"
    "    a, b = await asyncio.gather(_warm(x=1), _warm(x=2))\n"
    "    data = {'a': [len(str(i)) for i in range(x)]}\n"
    "    for key, value in sorted(data.items()):\n"
    "        print(f'{key}: {json.dumps(value)}', sum(value))\n"
    "    return a + b\n"
)
MontyError: Any = monty.MontyError
"""The base class of the interpreter's exceptions."""

_places = threading.BoundedSemaphore(MAX_SESSIONS)


class Share:
    """The places that the programs of one context have. It holds no lock: contexts are pickled."""


_shares: weakref.WeakKeyDictionary[Share, threading.BoundedSemaphore]
_shares = weakref.WeakKeyDictionary()


class WorkerDied(ToolError):
    """The interpreter's process ended in the middle of a program."""


class TooBusy(ToolError):
    """A program was not run, because too many others run or wait."""


class Forked(ToolError):
    """A program was not run, because the interpreter does not work in this process."""


class TooSlow(ToolError):
    """A program, with the host's work for it, took too long."""


@contextmanager
def _without_panic() -> Iterator[None]:
    """Turn a panic of the interpreter's library into an error.

    It would end the host, which may only lack a descriptor.

    Raises:
        WorkerDied: The library panicked.
    """
    try:
        yield
    except Exception:
        raise
    except BaseException as panic:  # A panic is no `Exception`.
        raise WorkerDied(
            "The program was stopped: the interpreter failed, and may not run again before the host"
            f" is started anew ({panic})."
        ) from panic


@dataclass(frozen=True, slots=True)
class Setup:
    """The same start of every session of one code tool."""

    stubs: str
    prelude: str
    seconds: float
    memory_mb: int


@dataclass(slots=True)
class Turn:
    """The state of a program: it waits for `calls`, or it has ended."""

    calls: dict[int, tuple[str, dict[str, Any]]] = field(default_factory=dict)
    ended: bool = False
    value: Any = None


class _Starter:
    """The one thread that starts processes, with the interpreter's pool.

    The kernel kills a worker when the thread that started it ends. So this thread lives as long as
    the process.
    """

    def __init__(self) -> None:
        self.pid: int = os.getpid()
        # `SimpleQueue.put` may be called by a finalizer, even in the middle of another `put`.
        self._jobs: SimpleQueue[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]] | None]
        self._jobs = SimpleQueue()
        self._program = launcher(self.pid)  # Once, because it is an open file.
        self._pool: Any = None
        self.used: bool = False
        self._thread = threading.Thread(target=self._work, name="functool-code", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, work, arguments = job
            try:
                with _without_panic():
                    future.set_result(work(*arguments))
            except Exception as error:  # Raised again where the future is read.
                future.set_exception(error)
            del job, future, work, arguments

    def submit(self, work: Callable[..., Any], *args: Any) -> Future[Any]:
        """Run a function in the thread that starts processes."""
        future: Future[Any] = Future()
        self.used = True
        self._jobs.put((future, work, args))
        return future

    def pool(self) -> Any:
        """Return the pool. It has to be made in this thread."""
        if self._pool is None:
            pool = monty.Monty(
                binary_path=self._program,
                min_processes=0,
                max_processes=1024,
                max_checkouts_per_worker=20,
            )
            self._pool = pool.__enter__()
        return self._pool

    def close(self) -> None:
        """End all workers."""
        if os.getpid() == self.pid:
            if self._pool is not None:
                self.submit(self._pool.__exit__, None, None, None)
            self._jobs.put(None)
            self._thread.join(5)


_starters: list[_Starter] = []
_starting = threading.Lock()


def _starter() -> _Starter:
    """Return the starter of this process. A forked child needs its own."""
    with _starting:
        if not _starters or _starters[-1].pid != os.getpid():
            _starters.append(_Starter())
        return _starters[-1]


def _refuse_forked() -> None:
    """Refuse to run a program in a forked child of a process that has used the interpreter.

    The interpreter's own threads do not survive a fork, and the child would wait for them for ever.

    Raises:
        Forked: This is such a child.
    """
    if any(starter.used and starter.pid != os.getpid() for starter in _starters):
        raise Forked(
            "The program was not run: this process was forked from one that had run programs, and"
            ' the interpreter does not survive that. Start such processes with "spawn" or'
            ' "forkserver", or before the first program.'
        )


class Session:
    """One session of the interpreter, for one program. All methods but `kill` block."""

    def __init__(self, setup: Setup) -> None:
        """Start the session, in the starter's thread."""
        limits = {
            "max_feed_duration_secs": setup.seconds,
            "max_memory": setup.memory_mb * 1_048_576,
            "max_suspensions": 1_000_000,
        }
        self.starter: _Starter = _starter()
        self._session = self.starter.pool().checkout(
            script_name="program.py",
            limits=limits,
            type_check=True,
            type_check_stubs=setup.stubs,
            type_check_format="concise",
            os_policy={"datetime": "call_host", "random_start": "call_host", "sleep": "zero"},
        )
        self._session.__enter__()
        self._pid = self._session.worker_pid
        self.share: Share = Share()  # Of the context whose program takes the session.
        self._seconds = self._left = HOST_TOO * setup.seconds
        try:
            # If the stubs are not valid Python, the check of each program says so.
            with suppress(monty.MontyTypingError):
                self._session.feed_start(_WARMING)
            self._session.feed_run(setup.prelude, skip_type_check=True)
        except BaseException:  # Otherwise the interpreter would run on.
            self.close()
            raise

    @_without_panic()
    def check(self, code: str) -> str | None:
        """Return the report of the type checker on a program, or None if there is none.

        The program does not run.
        """
        try:
            gate = self._session.feed_start(f"functool_gate()\n{code}")
        except (monty.MontyTypingError, monty.MontySyntaxError) as error:
            return str(error)
        except monty.MontyRuntimeError as error:  # The interpreter lacks this part of Python.
            line = max((frame.line for frame in error.traceback()), default=0)
            return f"program.py:{line}:1: error[not-there] {error}"
        with suppress(monty.MontyRuntimeError):
            gate.resume({"exc_type": "RuntimeError", "message": ""})
        return None

    def start(self, code: str, host: Any, write: Callable[[str, str], None]) -> Any:
        """Begin a program, and return its state when it waits or has ended."""
        return self._drive(
            lambda: self._session.feed_start(code, skip_type_check=True, print_callback=write), host
        )

    def go_on(self, snapshot: Any, answers: Mapping[int, Any], host: Any) -> Any:
        """Give a program the answers to its calls, and return its next state."""
        returned = {number: {"return_value": answer} for number, answer in answers.items()}
        return self._drive(lambda: snapshot.resume(returned), host)

    @_without_panic()
    def _drive(self, step: Callable[[], Any], host: Any) -> tuple[Any, Turn]:
        """Run until the program ends, or waits for calls.

        Raises:
            TooSlow: It asks the host without end, whose time the interpreter does not count.
            WorkerDied: Its process ended.
        """
        turn, begun = Turn(), monotonic()
        try:
            snapshot = step()
            while True:
                if monotonic() - begun > self._left:
                    raise TooSlow(
                        "The program was stopped: with its questions to the host, as .count() is"
                        f" one, it computed for more than {self._seconds:g} seconds."
                    )
                if isinstance(snapshot, monty.MontyComplete):
                    return None, Turn(ended=True, value=snapshot.output)
                if isinstance(snapshot, monty.FutureSnapshot):
                    return snapshot, turn
                snapshot = _answered(snapshot, turn, host)
        except monty.MontyCrashedError as error:
            raise WorkerDied(f"The interpreter of the program ended: {error}") from error
        finally:
            self._left -= monotonic() - begun

    def kill(self) -> None:
        """End the process at once, from any thread."""
        if self._pid is not None:
            with suppress(OSError):
                os.kill(self._pid, signal.SIGKILL)

    def close(self) -> None:
        """Give the process back to the pool, without the state of the program."""
        if _resident(self._pid) > KEPT_BYTES:
            self.kill()
        with suppress(Exception):
            self._session.__exit__(None, None, None)


class Sessions:
    """The sessions of one code tool. A few are started before they are needed."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._ready: list[Session] = []
        self._lock = threading.Lock()
        self._coming = 0
        _starter()  # First, because what is registered last runs first at the end of the process.
        weakref.finalize(self, _close_all, self._ready)

    def take(self, share: Share) -> Session:
        """Return a session for one program, and start another one for later.

        This blocks while all are in use, or as many as one context may have.

        Raises:
            TooBusy: They were in use for too long.
            Forked: The interpreter was used in the parent of this process.
        """
        _refuse_forked()
        end = monotonic() + WAIT_SECONDS
        own = _places_of(share)
        if not own.acquire(timeout=WAIT_SECONDS):
            raise _too_busy(f"{OF_ONE_CONTEXT} others of this conversation")
        if not _places.acquire(timeout=max(0.0, end - monotonic())):
            own.release()
            raise _too_busy(f"{MAX_SESSIONS} others")
        try:
            with self._lock:
                session = self._ready.pop() if self._ready else None
            if session is None:
                session = _starter().submit(Session, self._setup).result()
            session.share = share
            self._replenish()
        except BaseException as error:  # Otherwise the place would stay taken.
            _release(share)
            if isinstance(error, monty.MontyError):
                raise WorkerDied(f"The interpreter could not be started: {error}") from error
            raise
        return session

    def give_back(self, session: Session) -> None:
        """End a session that `take` returned."""
        _starter().submit(session.close)  # Before the release: the next session starts after this.
        _release(session.share)

    def _replenish(self) -> None:
        with self._lock:
            wanted = READY - len(self._ready) - self._coming
            self._coming += max(0, wanted)
        for _ in range(wanted):
            _starter().submit(_warm, weakref.ref(self))


def _answered(snapshot: Any, turn: Turn, host: Any) -> Any:
    """Answer what a program asks the host, and return its next state. A call waits in `turn`."""
    if isinstance(snapshot, monty.NameLookupSnapshot):
        return snapshot.resume()
    name = snapshot.function_name
    if snapshot.is_os_function:
        # Arguments become Python's when they are read, and may take for ever to hash.
        answer = host.ask_system(name, snapshot.args) if name in ANSWERED else None
        if answer is None:
            return snapshot.resume_not_handled()
        return snapshot.resume({"return_value": answer})
    if name == "_functool_call":
        host.count_call(snapshot.args[1])
        turn.calls[snapshot.call_id] = (snapshot.args[0], snapshot.args[1])
        return snapshot.resume({"future": ...})
    if name == "_functool_value":
        return snapshot.resume({"return_value": host.ask_value(*snapshot.args)})
    return snapshot.resume({"exc_type": "NameError", "message": f"name {name!r} is not defined"})


def _places_of(share: Share) -> threading.BoundedSemaphore:
    return _shares.setdefault(share, threading.BoundedSemaphore(OF_ONE_CONTEXT))


def _release(share: Share) -> None:
    _places.release()
    _places_of(share).release()


def _too_busy(others: str) -> TooBusy:
    return TooBusy(
        f"The program was not run: {others} run or wait in this process, and none ended within"
        f" {WAIT_SECONDS:g} seconds. Run it again later."
    )


def _warm(owner: weakref.ref[Sessions]) -> None:
    """Start a session and add it to the ready ones, if the tool still exists."""
    sessions = owner()
    if sessions is None:
        return
    session = None
    with suppress(Exception):
        session = Session(sessions._setup)
    with sessions._lock:
        sessions._coming -= 1
        if session is not None:
            sessions._ready.append(session)


def _resident(pid: int | None) -> int:
    """Return how many bytes of memory a process takes, or 0 if the system does not say."""
    with suppress(OSError, ValueError, IndexError):
        pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _close_all(ready: list[Session]) -> None:
    """Close the ready sessions of a tool that is gone.

    The garbage collector calls this, so it must not take a lock.
    """
    while ready:
        session = ready.pop()
        # A process may have been forked after the tool was made, and before the session was.
        session.starter.submit(session.close)


def checked_version() -> None:
    """Refuse a version of the interpreter that was not tested.

    Raises:
        DefinitionError: The installed version is another one.
    """
    if not monty.__version__.startswith("1.4."):
        raise DefinitionError(
            f"code mode is tested with pydantic-monty 1.4, not {monty.__version__}:"
            " pip install 'functool[code-mode]'"
        )
