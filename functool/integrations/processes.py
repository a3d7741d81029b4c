"""Run bodies in processes of their own, on pebble, and really kill them at the time limit.

    processes = ProcessExecutor(max_workers=2)

    @FunctionTool(executor=processes, timeout=5)
    def render(text: str) -> bytes: ...

A worker imports the module of the function and looks it up by its qualified name. A body that is
killed, that crashes its interpreter or that eats its memory is a failed call, and the next call
finds a new worker.

Arguments and results are pickled, so a worker is trusted as this process is: what it sends back can
make this process run anything. Workers are for time limits and crashes, not for code that nobody
trusts: that belongs into a sandbox (`functool.bundled.shell`).
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import importlib
import inspect
import multiprocessing
import os
import pickle
import signal
import tempfile
import threading
import time
import traceback
import weakref
from collections.abc import Awaitable, Callable, Mapping
from multiprocessing.context import BaseContext
from types import MethodType
from typing import Any, Self

from functool import Context, FunctionTool, ToolError
from functool.executors import in_thread

try:
    from pebble import ProcessExpired, ProcessPool
except ImportError as _error:
    raise ImportError("the process executor needs: pip install 'functool[processes]'") from _error


class ProcessExecutor:
    """Runs bodies in a pool of worker processes.

    Cancelling the wait, as a time limit does, kills the worker.

    The workers start with the first call and end with `close`, or with the program. Nothing that
    belongs to this process can go along: a parameter annotated `Context` is refused, and context
    variables are not seen. A generator function is refused too. A body that ends its own
    interpreter with `os._exit(0)` is noticed at the time limit only.

    Args:
        max_workers: How many bodies run at the same time; by default as many as there are
            processors.
        context: The multiprocessing context that starts the workers; by default the one of
            `"spawn"`, which is safe beside threads.
    """

    def __init__(
        self, max_workers: int | None = None, *, context: BaseContext | None = None
    ) -> None:
        self._max_workers = max_workers or os.cpu_count() or 1
        self._context = context or multiprocessing.get_context("spawn")
        self._lock = threading.Lock()
        self._pool: Any = None
        self._end: Callable[[], object] = bool  # Nothing to end yet.

    async def __call__(self, func: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run `func(*args, **kwargs)` in a worker and return what it returned.

        Raises:
            TypeError: The function cannot be found again by its name, or something cannot cross
                between processes.
            ToolError: The worker died.
        """
        job = _packed(func, args, kwargs)
        pool = await in_thread(self._running_pool)
        ticket = _new_ticket()
        try:
            return _unpacked(await _outcome(pool, pool.schedule(_work, (ticket, job)), ticket))
        except ProcessExpired as expired:
            raise ToolError(
                f"The worker process of the tool died (exit code {expired.exitcode})."
            ) from expired
        except concurrent.futures.BrokenExecutor as broken:
            raise ToolError("The worker processes of the tool died.") from broken
        finally:
            _take(ticket)

    def close(self) -> None:
        """Kill the workers; calls that wait for them fail. A later call starts new ones."""
        with self._lock:
            self._end()
            self._pool = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _running_pool(self) -> Any:
        """Return the pool, a new one if there is none or if a dead worker broke the last."""
        with self._lock:
            if self._pool is not None and not self._pool.active:
                self._end()
                self._pool = None
            if self._pool is None:
                self._pool = ProcessPool(
                    max_workers=self._max_workers, initializer=_initialize, context=self._context
                )
                # Also at the end of the program, before pebble replaces workers that nobody needs
                # any more.
                self._end = weakref.finalize(self, _stop, self._pool)
            return self._pool


def _stop(pool: Any) -> None:
    pool.stop()
    pool.join()


async def _outcome(pool: Any, future: concurrent.futures.Future[bytes], ticket: str) -> bytes:
    """Wait for a call. Cancelled, withdraw it, or kill the worker that has begun it.

    Raises:
        BrokenExecutor: The pool ended, and never answered the call.
    """
    waiting = asyncio.wrap_future(future)
    waiting.add_done_callback(_retrieve)
    active = True
    try:
        # `wait` leaves the future alone when it is cancelled: what has to be done then depends on
        # the ticket.
        while not (await asyncio.wait({waiting}, timeout=1))[0]:
            if not active:
                raise concurrent.futures.BrokenExecutor("the pool ended before the call did")
            # A pool that has just broken answers within the next second what it can.
            active = pool.active
    except asyncio.CancelledError:
        if not _take(ticket):
            await in_thread(_kill, future)
        raise
    return waiting.result()


def _kill(future: concurrent.futures.Future[Any]) -> None:
    """Kill the worker of a call that has begun, and return when it is dead."""
    # pebble learns only a moment after the worker took the call that it did, and kills none of
    # which it does not know that.
    while not (future.running() or future.done()):
        time.sleep(0.005)
    future.cancel()
    concurrent.futures.wait([future])


def _retrieve(waiting: asyncio.Future[Any]) -> None:
    """Look at the exception, so that asyncio does not report one that nobody waits for any more."""
    if not waiting.cancelled():
        waiting.exception()


# A ticket is a file that exists until somebody takes it, and only one can: the worker that begins
# the body, or the caller that no longer wants it. So a call that was cancelled while it waited for
# a worker never begins.


def _new_ticket() -> str:
    descriptor, path = tempfile.mkstemp(prefix="functool-call-")
    os.close(descriptor)
    return path


def _take(ticket: str) -> bool:
    try:
        os.unlink(ticket)  # noqa: PTH108
    except FileNotFoundError:
        return False
    return True


def _packed(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
    """Return a job for a worker: the name of the function and its arguments.

    Raises:
        TypeError: Something of it cannot cross.
    """
    while not hasattr(func, "__qualname__") or isinstance(func, MethodType):
        if isinstance(func, functools.partial):
            func, args, kwargs = func.func, (*func.args, *args), {**func.keywords, **kwargs}
        elif isinstance(func, MethodType):
            func, args = func.__func__, (func.__self__, *args)
        else:  # An instance with `__call__` crosses as the first argument of its class's.
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
        return pickle.dumps((func.__module__, func.__qualname__, args, kwargs))
    except Exception as error:
        raise TypeError(f"an argument of {name} cannot go to another process: {error}") from error


def _unpacked(outcome: bytes) -> Any:
    succeeded, value = pickle.loads(outcome)
    if succeeded:
        return value
    raise value


def _find(module: str, qualname: str) -> Any:
    """Return the function of that name; under the name of a tool, the tool's."""
    found: Any = functools.reduce(getattr, qualname.split("."), importlib.import_module(module))
    if isinstance(found, FunctionTool):
        found = found.func
    return getattr(found, "__func__", found)


# What follows runs in the worker.


def _initialize() -> None:
    """Let SIGTERM kill at once: pebble's handler waits for a body that is busy in C code."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _work(ticket: str, job: bytes) -> bytes:
    if not _take(ticket):
        return pickle.dumps((True, None))  # Nobody waits for it any more.
    try:
        module, qualname, args, kwargs = pickle.loads(job)
        value = _find(module, qualname)(*args, **kwargs)
        if inspect.isawaitable(value):
            value = asyncio.run(_awaited(value))
    except BaseException as error:  # It belongs to whoever waits in the other process.
        return _packed_error(error)
    try:
        return pickle.dumps((True, value))
    except Exception as error:
        return _packed_error(TypeError(f"the result cannot leave its process: {error}"))


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value


def _packed_error(error: BaseException) -> bytes:
    """Pickle an exception; one that pickle cannot give back goes as its text."""
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
