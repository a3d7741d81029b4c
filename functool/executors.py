"""Executors, which run the body of a tool.

`inline` runs a body on the event loop, and `in_thread` on a thread. `retrying` runs a body again
if it raises an exception that its author named. An executor is a callable:
`await executor(func, *args, **kwargs)`.

functool has its own threads. It never uses the loop's default executor, where a hung tool would
block DNS look-ups and other libraries. A call uses an idle thread if there is one, and a new thread
otherwise. The threads are daemons, so a hung tool does not keep the process alive.

A body that does not end when it is cancelled is abandoned: nobody waits for it any more. A thread,
for example, cannot be stopped. Such bodies are counted until they end.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias, TypeVar

from functool.errors import DefinitionError, Tripwire, logger
from functool.introspection import takes

GRACE_SECONDS = 1.0
"""How long a cancelled body may take to clean up, in seconds."""

IDLE_SECONDS = 30.0
"""How long an idle thread is kept, in seconds."""


T = TypeVar("T")
# `await executor(func, *args, **kwargs)` runs `func` and returns what it returned.
Executor: TypeAlias = Callable[..., Coroutine[Any, Any, Any]]


@contextmanager
def setting(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Give a context variable this value in a `with` block."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


async def inline(func: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call `func` on the event loop, and await its return value if it is awaitable."""
    value = func(*args, **kwargs)
    return await value if inspect.isawaitable(value) else value


async def run_with(executor: Executor, func: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Run `func` with an executor. On a thread, it may have returned something to await here."""
    value = await executor(func, *args, **kwargs)
    return await value if inspect.isawaitable(value) else value


def checked_executor(executor: Executor | None) -> Executor | None:
    """Return the executor unchanged.

    Raises:
        DefinitionError: The executor is neither None nor callable, or it is a class.
    """
    if isinstance(executor, type):
        raise DefinitionError(f"an executor is an object, not a class: {executor.__name__}(...)")
    if executor is not None and not callable(executor):
        raise DefinitionError(f"an executor is a callable, not {type(executor).__name__}")
    return executor


def retrying(
    attempts: int = 3,
    *,
    on: type[Exception] | tuple[type[Exception], ...],
    wait: float | Callable[..., float | Awaitable[float]] | None = None,
    executor: Executor | None = None,
) -> Executor:
    """Return an executor that runs a body again if it raises one of the exceptions in `on`.

    Guardrails, approvals and layers see a single call. A call that has been cancelled, for example
    by its time limit, is not retried. A generator that has started is not restarted. Every attempt
    gets the same objects, so a body that changes an argument in place has to copy it first.

    Args:
        attempts: How often the body runs at most.
        on: The exceptions that are retried. After each of them the body may have had its effect, so
            name those after which it may run again. `Exception` stands for all, also for the loss
            of a worker in the middle of a body (`Interrupted`).
        wait: Seconds between two attempts, or `wait(attempt)` or `wait(attempt, error)`, which gets
            the number of the failed attempt, from 1, and may be async. None is no wait.
        executor: Runs the body; by default the same executor as without `retrying`.

    Raises:
        DefinitionError: `attempts` is not a positive int, `on` names no exceptions or a `Tripwire`,
            `wait` is neither a number of seconds nor a function, or the executor is not callable.
    """
    if type(attempts) is not int or attempts < 1:
        raise DefinitionError(f"attempts must be a positive int, not {attempts!r}")
    kinds, seconds_after = _kinds_in(on), _waiting(wait)
    checked_executor(executor)

    async def retry(func: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        run = executor or (inline if inspect.iscoroutinefunction(func) else in_thread)
        once = any(inspect.isgenerator(item) for item in args)
        attempt = 0
        while True:
            attempt += 1
            try:
                return await run_with(run, func, *args, **kwargs)
            except kinds as error:
                task = asyncio.current_task()
                stopped = once or Tripwire.inside(error) or (task and task.cancelling())
                if stopped or attempt == attempts:
                    raise
                seconds = max(0.0, float(await inline(seconds_after, attempt, error)))
                failed = "attempt %d of %d failed with %s; the next one comes in %g seconds"
                logger.debug(failed, attempt, attempts, type(error).__name__, seconds)
            await asyncio.sleep(seconds)

    return retry


def _kinds_in(on: Any) -> tuple[type[Exception], ...]:
    """Return the exceptions that are retried, as a tuple."""
    kinds = on if isinstance(on, tuple) else (on,)
    known = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Exception)]
    if not kinds or len(known) < len(kinds) or any(issubclass(kind, Tripwire) for kind in known):
        wanted = "a class of exceptions other than Tripwire, or a tuple of them"
        raise DefinitionError(f"on must be {wanted}, not {on!r}")
    return kinds


def _waiting(wait: Any) -> Callable[[int, Exception], Any]:
    """Return a function that gives the seconds to wait after a failed attempt. It may be async."""
    if callable(wait):
        count = 2 if takes(wait, 2) else 1
        return lambda *asked: wait(*asked[:count])
    seconds = 0.0 if wait is None else wait
    if not is_seconds(seconds):
        raise DefinitionError(f"wait must be a number of seconds or a function, not {wait!r}")
    return lambda attempt, error: seconds


async def in_thread(func: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call `func` on a thread, with the caller's context variables.

    Raises:
        RuntimeError: `func` raised StopIteration, which cannot be set on a future.
    """
    loop = asyncio.get_running_loop()
    if type(loop).call_soon_threadsafe is asyncio.AbstractEventLoop.call_soon_threadsafe:
        return func(*args, **kwargs)  # No thread can wake this loop, such as that of a workflow.
    future: asyncio.Future[Any] = loop.create_future()
    ended: list[bool] = []  # The thread appends to it. The loop may close before it hears of that.
    try:
        inbox = _idle.pop()
    except IndexError:
        inbox = SimpleQueue()
        threading.Thread(target=_work, args=(inbox,), name="functool", daemon=True).start()
    inbox.put((loop, future, ended, copy_context(), func, args, kwargs))
    try:
        return await future
    except asyncio.CancelledError:
        if future.cancelled():
            abandon(future)
            if ended:
                _abandoned.discard(future)
        raise
    finally:  # An exception's traceback refers to this frame. Without `del` that is a cycle.
        del future


_idle: deque[SimpleQueue[Any]] = deque()
if hasattr(os, "register_at_fork"):  # Threads do not survive a fork.
    os.register_at_fork(after_in_child=_idle.clear)


def _work(inbox: SimpleQueue[Any]) -> None:
    while True:
        try:
            loop, future, ended, context, func, args, kwargs = inbox.get(timeout=IDLE_SECONDS)
        except Empty:
            try:
                _idle.remove(inbox)
            except ValueError:  # A call has just taken this thread: its job will arrive soon.
                continue
            return
        value: Any = None
        error: BaseException | None = None
        try:
            value = context.run(func, *args, **kwargs)
        except StopIteration as end:
            error = RuntimeError("the function raised StopIteration")
            error.__cause__ = end
        except BaseException as raised:  # Raised again where the future is awaited.
            error = raised
        ended.append(True)  # First, because `in_thread` looks after it has counted the future.
        _abandoned.discard(future)
        # The thread is idle before its result is sent, so that the caller's next call can use it.
        _idle.append(inbox)
        with suppress(RuntimeError):  # The loop was closed meanwhile, so nobody waits any more.
            loop.call_soon_threadsafe(_set_outcome, future, value, error)
        del loop, future, ended, context, func, args, kwargs, value, error


def _set_outcome(future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)


_abandoned: set[Any] = set()
limits_around: ContextVar[tuple[list[Any], ...]] = ContextVar("functool.limits", default=())
"""One list for each time limit around a body. If the body is abandoned, it is appended to each."""
if hasattr(os, "register_at_fork"):  # What runs does not survive a fork.
    os.register_at_fork(after_in_child=_abandoned.clear)


def abandon(body: asyncio.Future[Any]) -> None:
    """Count a body that did not end when it was cancelled, until it ends.

    Also append it to every list in `limits_around`.
    """
    _abandoned.add(body)
    for unfinished in limits_around.get():
        unfinished.append(body)
    if isinstance(body, asyncio.Task):
        body.add_done_callback(_forget)


def abandoned() -> int:
    """Return how many bodies still run although nobody waits for them any more."""
    return len(_abandoned)


def still_run(bodies: Iterable[Any]) -> bool:
    """Whether one of these bodies was abandoned and has not ended yet."""
    return not _abandoned.isdisjoint(bodies)


def _forget(task: asyncio.Task[Any]) -> None:
    _abandoned.discard(task)
    if not task.cancelled():
        task.exception()  # Otherwise asyncio logs that the exception was never retrieved.


def is_seconds(value: Any) -> bool:
    """Whether a value is a finite number of seconds, which may be 0."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and 0 <= value <= sys.float_info.max
