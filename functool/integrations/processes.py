"""Run bodies in worker processes, with pebble, and kill them at the time limit.

    processes = ProcessExecutor(max_workers=2)

    @FunctionTool(executor=processes, timeout=5)
    def render(text: str) -> bytes: ...

A worker imports the module of the function and finds the function by its qualified name. If a body
is killed, crashes its interpreter or uses up its memory, the call fails, and the next call gets a
new worker.

Arguments and results are pickled. Unpickling can run any code, so a worker has to be as trusted as
this process. Use workers against time limits and crashes. Run code that you do not trust in a
sandbox (`functool.bundled.shell`).
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import hashlib
import importlib
import inspect
import multiprocessing
import os
import pickle
import secrets
import signal
import tempfile
import threading
import time
import traceback
import weakref
from collections.abc import Awaitable, Callable, Mapping
from multiprocessing.context import BaseContext
from pathlib import Path
from types import MethodType
from typing import Any, Self

from functool import Context, DefinitionError, FunctionTool, ToolError
from functool.executors import in_thread
from functool.layers.forking import begins_anew
from functool.layers.journal_errors import Interrupted

try:
    from pebble import ProcessExpired, ProcessPool
except ImportError as _error:
    raise ImportError("the process executor needs: pip install 'functool[processes]'") from _error

POLL_SECONDS = 0.005
"""How often to look whether a worker that is killed has died, in seconds."""

IN_PIPE = 2_048
"""The most bytes of an outcome that a worker sends through the pipe. The system sends them at once.
"""

SECRET = 16
"""How many random bytes a job begins with."""


class WorkerDied(Interrupted):
    """The worker process died while it had the call. The call may have taken effect."""


class ProcessExecutor:
    """Runs bodies in a pool of worker processes.

    If a call is cancelled, also by its time limit, its worker is killed.

    The workers start with the first call, and end with `close` or with the program. A body does not
    see context variables. Functions with a parameter annotated `Context` are refused, because a
    context cannot leave its process. Generator functions are refused as well. If a body ends its
    interpreter with `os._exit(0)`, the call fails only at its time limit.

    Args:
        max_workers: How many bodies run at the same time. By default the number of processors.
        context: The multiprocessing context that starts the workers. By default `"spawn"`, which is
            safe in a program with threads.

    Raises:
        DefinitionError: `max_workers` is not a positive int.
    """

    def __init__(
        self, max_workers: int | None = None, *, context: BaseContext | None = None
    ) -> None:
        workers: Any = (os.cpu_count() or 1) if max_workers is None else max_workers
        if type(workers) is not int or workers < 1:
            raise DefinitionError(f"max_workers must be a positive int or None, not {workers!r}")
        self._max_workers = workers
        self._context = context or multiprocessing.get_context("spawn")
        self._closings = 0
        self._end: weakref.finalize[..., Any] = weakref.finalize(self, bool)  # Nothing to end yet.
        self.begin_anew()
        begins_anew(self)

    def begin_anew(self) -> None:
        """Leave the workers of a parent alone: a forked child starts workers of its own."""
        self._lock = threading.Lock()
        self._pool: Any = None
        self._end.detach()

    async def __call__(self, func: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run `func(*args, **kwargs)` in a worker and return its value.

        Raises:
            TypeError: A worker cannot find the function by its name, or something cannot be sent
                to another process.
            WorkerDied: The worker died while it had the call.
            ToolError: The workers died before the call began, twice, or the executor was closed.
        """
        job, closings = _packed(func, args, kwargs), self._closings
        attempts = 0
        while True:
            attempts += 1
            ticket = _new_ticket(job)
            result = _result_of(ticket, job)
            try:
                outcome = await self._outcome(ticket)
            except (ProcessExpired, concurrent.futures.BrokenExecutor) as error:
                died = _words_of(error)
                if not _take(ticket):
                    unknown = "It is unknown whether this call took effect."
                    raise WorkerDied(f"{died} {unknown}") from error
                # A worker that dies at once can break its pool, with the calls of others in it.
                if attempts == 2 or self._closings != closings:
                    raise ToolError(f"{died} The call was not run.") from error
            else:
                return _unpacked(outcome or await in_thread(Path(result).read_bytes))
            finally:
                _take(ticket)
                _take(result)

    def close(self) -> None:
        """Kill the workers. Calls that wait for them fail. A later call starts new workers."""
        with self._lock:
            self._closings += 1
            self._end()
            self._pool = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _schedule(self, ticket: str, scheduled: list[tuple[Any, Any]]) -> None:
        """Append the pool and the future of a call.

        Raises:
            BrokenExecutor: The pool broke in the meantime.
        """
        with self._lock:
            pool = self._running_pool()
            try:
                scheduled.append((pool, pool.schedule(_work, (ticket,))))
            except RuntimeError as error:
                raise concurrent.futures.BrokenExecutor(str(error)) from error

    def _running_pool(self) -> Any:
        """Return the pool. Make a new one if there is none, or if a dead worker broke the last."""
        self._end_inactive()
        if self._pool is None:
            self._pool = ProcessPool(
                max_workers=self._max_workers, initializer=_initialize, context=self._context
            )
            # This also stops the pool at the end of the program, before pebble would replace its
            # workers.
            self._end = weakref.finalize(self, _stop, self._pool)
        return self._pool

    def _end_inactive(self) -> None:
        """Kill the workers of a pool that a dead worker broke."""
        if self._pool is not None and not self._pool.active:
            self._end()
            self._pool = None

    async def _outcome(self, ticket: str) -> bytes:
        """Let a worker run a call. If that is cancelled, withdraw the call, or kill its worker.

        Raises:
            BrokenExecutor: The pool ended without an answer to the call.
        """
        scheduled: list[tuple[Any, concurrent.futures.Future[bytes]]] = []
        active = True
        try:
            await in_thread(self._schedule, ticket, scheduled)
            [(pool, future)] = scheduled
            waiting = asyncio.wrap_future(future)
            waiting.add_done_callback(_retrieve)
            # `wait` does not cancel the future when it is cancelled itself. The ticket decides then
            # what to do.
            while not (await asyncio.wait({waiting}, timeout=1))[0]:
                if not active:
                    raise concurrent.futures.BrokenExecutor("the pool ended before the call did")
                # A pool that has just broken may still answer calls within the next second.
                active = pool.active
        except asyncio.CancelledError:
            if not _take(ticket):
                await in_thread(self._kill, scheduled)
            raise
        return waiting.result()

    def _kill(self, scheduled: list[tuple[Any, Any]]) -> None:
        """Kill the worker of a call that has begun, and return when it is dead."""
        with self._lock:  # The thread of `_schedule` holds the lock until it has appended them.
            [(pool, future)] = scheduled
        # pebble learns a moment late that a worker has taken the call. Until then it kills none.
        while pool.active and not (future.running() or future.done()):
            time.sleep(POLL_SECONDS)
        future.cancel()
        while pool.active and concurrent.futures.wait([future], timeout=POLL_SECONDS).not_done:
            pass
        if not pool.active:  # It answers no more.
            with self._lock:  # Whoever ends it holds the lock until its workers are dead.
                self._end_inactive()


def _stop(pool: Any) -> None:
    pool.stop()
    pool.join()


def _retrieve(waiting: asyncio.Future[Any]) -> None:
    """Retrieve the exception, so that asyncio does not report it if nobody waits any more."""
    if not waiting.cancelled():
        waiting.exception()


# A ticket is a file with a job. Either the worker that begins the body removes it, or the caller
# that cancels the call. Only one of them can, so a call that was cancelled before it began never
# begins. Its name ends with the hash of the job. Otherwise another user could make a file of the
# same name in the shared directory then, and the worker would run the job of that one.
#
# A large outcome is a file as well: all workers share one pipe, and one that is killed in the
# middle of a message, as for want of memory, would leave the pipe unusable.


def _new_ticket(job: bytes) -> str:
    descriptor, path = tempfile.mkstemp(prefix="functool-call-", suffix=f"-{_hash(job)}")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(job)
    except OSError:  # Such as a full disk.
        _take(path)
        raise
    return path


def _hash(job: bytes) -> str:
    return hashlib.sha256(job).hexdigest()


def _result_of(ticket: str, job: bytes) -> str:
    """Return the path of a large outcome. Nobody who cannot read the job knows it beforehand."""
    return str(Path(ticket).with_name(f"functool-result-{_hash(job[:SECRET])}"))


def _take(ticket: str) -> bool:
    try:
        os.unlink(ticket)  # noqa: PTH108
    except (FileNotFoundError, PermissionError):  # It is gone, and another user may have one there.
        return False
    return True


def _words_of(error: Exception) -> str:
    code = getattr(error, "exitcode", None)  # Only a `ProcessExpired` has one.
    if code is not None:
        return f"The worker process of the tool died (exit code {code})."
    return "The worker processes of the tool died."


def _packed(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
    """Return a job for a worker: the name of the function and its arguments, pickled.

    Raises:
        TypeError: Something cannot be sent to another process.
    """
    while not hasattr(func, "__qualname__") or isinstance(func, MethodType):
        if isinstance(func, functools.partial):
            func, args, kwargs = func.func, (*func.args, *args), {**func.keywords, **kwargs}
        elif isinstance(func, MethodType):
            func, args = func.__func__, (func.__self__, *args)
        else:  # Send an instance with `__call__` as the first argument of its class's method.
            func, args = type(func).__call__, (func, *args)
    name = f"{func.__module__}.{func.__qualname__}"
    for parameter, value in [*enumerate(args, 1), *kwargs.items()]:
        if isinstance(value, Context):
            raise TypeError(
                f"{name} cannot run in another process: its parameter {parameter} is a Context. "
                "Take what it needs with Inject instead"
            )
    if inspect.isgeneratorfunction(func) or inspect.isasyncgenfunction(func):
        raise TypeError(f"{name} cannot run in another process: it is a generator function")
    try:
        found = _find(func.__module__, func.__qualname__)
    except (ImportError, AttributeError, ValueError):
        found = None
    if found is not func:
        raise TypeError(
            f"{name} cannot run in another process: a worker finds no such function. Define it in "
            "a module, on its top level"
        )
    try:
        job = pickle.dumps((func.__module__, func.__qualname__, args, kwargs))
        return secrets.token_bytes(SECRET) + job
    except Exception as error:
        raise TypeError(f"an argument of {name} cannot go to another process: {error}") from error


def _unpacked(outcome: bytes) -> Any:
    succeeded, value = pickle.loads(outcome)
    if succeeded:
        return value
    raise value


def _find(module: str, qualname: str) -> Any:
    """Return the function of that name. For the name of a tool, return the tool's function."""
    found: Any = functools.reduce(getattr, qualname.split("."), importlib.import_module(module))
    if isinstance(found, FunctionTool):
        found = found.func
    return getattr(found, "__func__", found)


# What follows runs in the worker.


def _initialize() -> None:
    """Let SIGTERM kill at once: pebble's handler waits for a body that is busy in C code."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_host, daemon=True).start()


def _end_with_host() -> None:
    """End this worker when its host is dead. Nobody enforces the time limit of its body then."""
    if (host := multiprocessing.parent_process()) is not None:
        host.join()
        os._exit(1)


def _work(ticket: str) -> bytes:
    """Run the job of a ticket, and return its outcome. Nothing means that it is in a file."""
    job, why = b"", "it is gone, or is another one"
    try:
        with open(ticket, "rb", opener=_at_once) as file:
            job = file.read()
    except OSError as error:
        why = str(error.strerror)
    if not ticket.endswith(f"-{_hash(job)}") or not _take(ticket):
        # If the caller has cancelled the call, nobody reads this.
        refused = f"The call was not run: its worker could not read the file of the call ({why})."
        return _packed_error(ToolError(refused))
    outcome = _outcome_of(job)
    if len(outcome) <= IN_PIPE:
        return outcome
    try:
        with open(_result_of(ticket, job), "xb", opener=_private) as file:
            file.write(outcome)
    except OSError as error:
        return _packed_error(OSError(f"the result cannot leave its process: {error}"))
    return b""


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # It may be a pipe of another user.


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _outcome_of(job: bytes) -> bytes:
    """Run a job, and return its pickled outcome: whether it succeeded, and its value or error."""
    try:
        module, qualname, args, kwargs = pickle.loads(memoryview(job)[SECRET:])
        value = _find(module, qualname)(*args, **kwargs)
        if inspect.isawaitable(value):
            value = asyncio.run(_awaited(value))
    except BaseException as error:  # Send every exception to the caller's process.
        return _packed_error(error)
    try:
        return pickle.dumps((True, value))
    except Exception as error:
        return _packed_error(TypeError(f"the result cannot leave its process: {error}"))


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value


def _packed_error(error: BaseException) -> bytes:
    """Pickle an exception. If it cannot be unpickled, send its text instead."""
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, Exception):
        try:
            error.add_note("".join(traceback.format_exception(error)))
            packed = pickle.dumps((False, error))
            if type(pickle.loads(packed)[1]) is type(error):
                return packed
        except Exception:
            pass
    return pickle.dumps((False, RuntimeError(text)))
