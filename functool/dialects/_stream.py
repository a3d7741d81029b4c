"""The base of every provider's `StreamReader`: turn chunks into events, and run the calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Iterable
from contextlib import aclosing
from typing import Any, Protocol

from functool import Context, ToolCall, ToolResult, Toolset
from functool.dialects._events import StreamEvent
from functool.dialects._reply import Reply
from functool.dialects._turn import Turn
from functool.dialects._wire import Mismatch, Tools, mismatch, some
from functool.executors import in_thread

_END: Any = object()


class Parser(Protocol):
    """Reads the chunks of one provider into a `Reply`.

    Attributes:
        expected: What a chunk is, for an error.
    """

    expected: str

    def read(self, chunk: Any, reply: Reply, /) -> None:
        """Read one chunk.

        Raises:
            TypeError: This is not a chunk of this provider.
            ValueError: The chunk does not belong to this stream.
        """
        ...


class Reader:
    """Reads one streamed reply of a provider.

    Args:
        tools: A tool, several, or a `Toolset`. `run` needs them. With tools, a call that can no
            longer become valid is refused while it is still being written. After ten refused calls
            of a reply, the others are checked when they run.
    """

    def __init__(self, parser: Parser, tools: Tools | None) -> None:
        self._parser = parser
        self._tools = None if tools is None else _as_toolset(tools)
        self._reply = Reply(self._tools)
        self._turn: Turn | None = None
        self._closed = False
        self._broken: BaseException | None = None

    def feed(self, chunk: Any) -> list[StreamEvent]:
        """Read a chunk, an object of the provider's SDK or its dict. Return its events.

        Raises:
            TypeError: This is not a chunk of this provider.
            ValueError: The chunk does not belong to this stream, or comes after its end.
        """
        if self._closed:
            raise ValueError("the stream was closed, and here is more of it")
        try:
            self._parser.read(chunk, self._reply)
        except Mismatch:
            raise
        except (TypeError, LookupError, AttributeError) as error:
            # A part of the chunk has another shape than this provider's.
            raise mismatch(self._parser.expected, chunk) from error
        # There may be thousands of calls and of chunks, so look only at the calls that changed.
        settled = self._reply.settled()
        if self._turn is not None and (settled or self._reply.ended is not None):
            self._turn.look(settled)
        return self._reply.take()

    def calls(self) -> list[ToolCall]:
        """Return the calls so far, in order, each with its text so far. Include refused calls."""
        return [call.call for call in self._reply.calls]

    def close(self, error: BaseException | None = None) -> None:
        """Declare that no more chunks come.

        Before the end of the model's turn this breaks the stream. The calls that began early are
        cancelled, and `run` raises `StreamBroken`, caused by `error` if it is given. After the end
        of the turn this changes nothing.
        """
        self._closed = True
        if self._broken is None:
            self._broken = error
        if self._turn is not None:
            self._turn.changed.set()

    async def run(
        self,
        context: Context[Any] | None = None,
        chunks: AsyncIterable[Any] | Iterable[Any] | None = None,
    ) -> list[ToolResult]:
        """Run the calls, and return their results in order.

        A call of a read-only tool begins as soon as its arguments are complete, while others are
        still being written. The other calls wait for the end of the turn, and then follow the rules
        of `Toolset.call_all`. The result of a refused call is its error.

        Args:
            context: The context that the calls share. By default a new one.
            chunks: The rest of the stream. Without it, somebody else has to `feed` the chunks until
                the turn ends or the reader is closed.

        Raises:
            StreamBroken: The stream broke off. `results` shows which calls ran.
            Tripwire: A guardrail stopped the run.
            TypeError: The reader has no tools, or something is not a chunk of this provider.
            ValueError: A chunk does not belong to this stream, or the calls have been run already.
        """
        if self._tools is None:
            raise TypeError("to run calls the reader needs tools: StreamReader(tools)")
        context = Context.of(context)
        if chunks is not None and not isinstance(chunks, (AsyncIterable, Iterable)):
            raise TypeError(f"chunks must be an iterable, not {type(chunks).__name__}")
        if self._turn is not None:
            raise ValueError("the calls of this stream have been run already")
        turn = self._turn = Turn(self._tools, context)
        turn.look(self._reply.calls)
        reading = None if chunks is None else asyncio.ensure_future(self._read(chunks))
        try:
            await self._wait(turn, reading)
            broken = self._reply.failure or self._broken
            if turn.tripped or (self._reply.ended is not None and self._reply.failure is None):
                return await turn.conclude(self._reply.calls)
            raise await turn.broken(self._reply.calls, broken) from broken
        finally:
            if reading is not None:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
            await turn.cancel()

    async def _wait(self, turn: Turn, reading: asyncio.Task[None] | None) -> None:
        """Wait until the turn has ended, the stream broke off, or a guardrail stopped the run."""
        if reading is not None:
            reading.add_done_callback(lambda _: turn.changed.set())
        while not (self._closed or turn.tripped):
            done = self._reply.ended is not None if reading is None else reading.done()
            if done:
                break
            turn.changed.clear()
            await turn.changed.wait()
        if reading is not None and reading.done():
            reading.result()

    async def _read(self, chunks: AsyncIterable[Any] | Iterable[Any]) -> None:
        async with aclosing(each(chunks)) as source:
            while True:
                try:
                    chunk = await anext(source)
                except StopAsyncIteration:
                    self.close()
                    return
                except Exception as error:
                    self.close(error)
                    return
                if self._closed:  # By somebody else, who waits for `StreamBroken`.
                    return
                self.feed(chunk)


async def each(chunks: AsyncIterable[Any] | Iterable[Any]) -> AsyncGenerator[Any, None]:
    """Yield the chunks of an async or a sync iterable. A sync one is read in a thread."""
    if isinstance(chunks, AsyncIterable):
        async for chunk in chunks:
            yield chunk
        return
    source = iter(chunks)
    while (chunk := await in_thread(next, source, _END)) is not _END:
        yield chunk


def _as_toolset(tools: Tools) -> Toolset:
    return tools if isinstance(tools, Toolset) else Toolset(some(tools))
