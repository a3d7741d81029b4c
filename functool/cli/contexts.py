"""`--context FILE:NAME`: open the context of the calls before they run, and close it afterwards."""

from __future__ import annotations

import inspect
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import (
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
    redirect_stdout,
    suppress,
)
from typing import TYPE_CHECKING, Any

import click

from functool.cli.targets import object_of
from functool.cli.telling import Stopped
from functool.integrations._signals import handled

if TYPE_CHECKING:
    from functool import Context

context_option: Callable[[Any], Any] = click.option(
    "--context",
    "context",
    metavar="FILE:NAME",
    help="The function or (async) context manager that makes the Context of the calls.",
)


@asynccontextmanager
async def opened_context(name: str | None) -> AsyncIterator[Context[Any] | None]:
    """Yield the Context that `FILE:NAME` makes, and close it at the end. Yield None without a name.

    The name is that of a Context, of an (async) context manager that yields one, or of a callable
    without arguments, sync or async, that returns either.

    Raises:
        UsageError: The name is that of something else.
    """
    if name is None:
        yield None
        return
    to_stderr = redirect_stdout(sys.stderr)  # Standard output is for the results of the calls.
    async with AsyncExitStack() as stack:
        stack.enter_context(to_stderr)
        context = await stack.enter_async_context(_opened(name))
        to_stderr.__exit__(None, None, None)
        stack.callback(to_stderr.__enter__)
        yield context


@asynccontextmanager
async def _opened(name: str) -> AsyncIterator[Context[Any]]:
    made: Any = object_of(name)
    if callable(made):
        try:
            made = made()
        except TypeError:
            _refuse_arguments(made, name)
            raise
    if hasattr(made, "__aenter__"):
        async with made as context:
            yield _context(context, name)
    elif hasattr(made, "__enter__"):
        with made as context:
            yield _context(context, name)
    else:
        yield _context(await made if inspect.isawaitable(made) else made, name)


def _refuse_arguments(make: Callable[..., Any], name: str) -> None:
    """Refuse a callable that has failed and wants arguments.

    A decorator may give it its arguments, so this is not known before.

    Raises:
        UsageError: It wants arguments.
    """
    with suppress(ValueError):  # It has no readable signature.
        try:
            inspect.signature(make).bind()
        except TypeError as error:
            wrong = f"--context {name} is called without arguments: {error}"
            raise click.UsageError(wrong) from None


def _context(found: Any, name: str) -> Context[Any]:
    from functool import Context

    if isinstance(found, Context):
        return found
    remedy = ""
    if inspect.isgenerator(found):
        remedy = ": decorate it with @contextlib.contextmanager"
    elif inspect.isasyncgen(found):
        remedy = ": decorate it with @contextlib.asynccontextmanager"
    kind = type(found).__name__
    raise click.UsageError(f"--context {name} gave a {kind}, no functool.Context{remedy}")


@contextmanager
def closed_on_sigterm() -> Iterator[None]:
    """End the program on SIGTERM only after what is open in the block has been closed."""

    def end(*ignored: Any) -> None:
        raise Stopped(128 + signal.SIGTERM)

    with handled(signal.SIGTERM, end):
        yield


def run_until_stopped(
    name: str | None,
    serve: Callable[[Context[Any] | None], Awaitable[None]],
    last: Callable[[], None] = lambda: None,
    patience: float = 1.0,
) -> None:
    """Run `serve(context)` until it ends or a signal arrives. Close the context in both cases.

    After a signal, the server and its calls may take `patience` seconds to end before the context
    is closed. `last()` is called at the end, before a signal ends the process.
    """
    import asyncio

    stopped_by = asyncio.run(_serve(name, serve, patience))
    last()
    if stopped_by is not None:
        # Python would wait for a thread that may still be reading a line of standard input.
        os._exit(128 + stopped_by)


async def _serve(
    name: str | None, serve: Callable[[Context[Any] | None], Awaitable[None]], patience: float
) -> int | None:
    import asyncio

    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    signals: list[int] = []

    def stop(number: int) -> None:
        signals.append(number)
        stopped.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, int(number))
    async with opened_context(name) as context:
        serving: asyncio.Future[None] = asyncio.ensure_future(serve(context))
        waiting = asyncio.create_task(stopped.wait())
        both: set[asyncio.Future[Any]] = {serving, waiting}
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if not serving.done():
            serving.cancel()
            await asyncio.wait({serving}, timeout=patience)
        elif not serving.cancelled():
            serving.result()
    return signals[0] if signals else None
