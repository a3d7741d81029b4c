"""Run tools and their calls in an actor of Ray."""

from __future__ import annotations

import asyncio
import importlib
import pickle
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from functool import Content, Context, TextContent, ToolCall, ToolResult, Toolset, Tripwire
from functool.call import DATA, changed, failure_of
from functool.executors import inline
from functool.integrations.far_approval import with_approval
from functool.integrations.values import json_items
from functool.layers.journal_replay import is_interrupted
from functool.layers.passing import passing
from functool.layers.some_tools import each

GATHER_SECONDS = 0.01
"""How long results wait for others of their chunk, so that they are sent together."""

Prepared = tuple[Toolset, Any]
INTERRUPTED = {"ray": {"interrupted": True}}
"""The metadata of a result that only says that a call was interrupted inside of the worker."""

_KEPT = ("guardrails", "sources")
"""The metadata that stays on a result that cannot be pickled as it is."""


def packed_request(call: ToolCall, approved: str) -> bytes:
    """Return a call, and the digest of the request that a person approved, as bytes.

    Pickling a tuple takes a third of the time of a dataclass.
    """
    return pickle.dumps((call.name, call.arguments, call.id, call.metadata, approved))


def packed_chunk(chunk: str, requests: Sequence[bytes]) -> bytes:
    """Return a chunk of calls as bytes, which Ray sends without pickling them again."""
    return pickle.dumps((chunk, requests))


def unpacked_answers(packed: bytes) -> list[tuple[int, bytes]]:
    """Return pairs of an answer's place in its chunk and the answer."""
    answers: list[tuple[int, bytes]] = pickle.loads(packed)
    return answers


def unpacked_answer(packed: bytes, call_id: str) -> ToolResult | Tripwire:
    """Return the answer to a call."""
    answer: Any = pickle.loads(packed)
    if type(answer) is not tuple:
        return answer  # type: ignore[no-any-return]
    text, value, metadata = answer
    output: list[Content] = [TextContent(text=text)]
    return ToolResult(output=output, value=value, metadata=metadata, call_id=call_id)


class Worker:
    """Runs chunks of calls.

    Answers of a chunk are returned as they arrive: the first ones by `run`, the others by `more`.

    Args:
        packed: The pickled tools.
        deps: `"package.module:function"`. The function makes the `deps` of contexts. None for none.
    """

    def __init__(self, packed: bytes, deps: str | None) -> None:
        self._packed = packed
        self._deps = deps
        self._ready: asyncio.Task[Prepared] | None = None
        self._made: Prepared | None = None
        self._chunks: dict[str, dict[asyncio.Task[bytes], int]] = {}

    async def run(self, packed: bytes) -> bytes:
        """Begin the calls of a chunk, and return the first answers with their places in it."""
        chunk, requests = pickle.loads(packed)
        tasks = {asyncio.create_task(self._answer(one)): i for i, one in enumerate(requests)}
        self._chunks[chunk] = tasks
        return await self.more(chunk)

    async def more(self, chunk: str) -> bytes:
        """Wait for further answers of a chunk, and return them."""
        tasks = self._chunks[chunk]
        done, _ = await asyncio.wait(tasks, timeout=GATHER_SECONDS)
        if not done:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        answers = [(tasks.pop(task), task.result()) for task in done]
        if not tasks:
            del self._chunks[chunk]
        return pickle.dumps(answers)

    async def cancel(self, chunk: str, place: int) -> None:
        """Cancel a call, and wait until it has ended."""
        tasks = self._chunks.get(chunk, {})
        found = [task for task, known in tasks.items() if known == place]
        for task in found:
            task.cancel()
        if found:
            await asyncio.wait(found)

    async def ping(self) -> None:
        """Return, so that the host knows that this worker lives."""

    async def _answer(self, request: bytes) -> bytes:
        """Run a call with its guardrails and approvals, and return its result as bytes."""
        name, arguments, call_id, metadata, approved = pickle.loads(request)
        call = ToolCall(name=name, arguments=arguments, id=call_id, metadata=metadata)
        try:
            tools, deps = self._made or await self._prepared()
            tool = tools[name]
        except Exception as error:
            return pickle.dumps(failure_of(error, _unprepared(error)))
        result: ToolResult | Tripwire
        try:
            tool, context = with_approval(tool, passing(Context(deps)), approved)
            result = await tool.invoke(call, context)
        except asyncio.CancelledError:
            result = ToolResult.failed("The call was cancelled.", type="CancelledError")
        except Tripwire as wire:
            result = Tripwire(str(wire))
        if isinstance(result, ToolResult) and is_interrupted(result):
            result = changed(result, metadata={**result.metadata, **INTERRUPTED})
        return _pickled(result)

    async def _prepared(self) -> Prepared:
        """Return the tools and the dependencies. If that fails, the next call tries again."""
        if self._ready is None or (self._ready.done() and self._ready.exception()):
            self._ready = asyncio.create_task(self._prepare())
        made = await asyncio.shield(self._ready)
        self._made = made
        return made

    async def _prepare(self) -> Prepared:
        tools = each(pickle.loads(self._packed), lambda tool: tool.around(_stay))
        if self._deps is None:
            return tools, None
        module, _, name = self._deps.partition(":")
        made: Any = reduce(getattr, name.split("."), importlib.import_module(module))
        return tools, await inline(made)


async def _stay(call: ToolCall, context: Context[Any], proceed: Any) -> ToolResult:
    """Turn a body's exit into a failure. It would end the event loop, but not the process.

    Then all calls of this worker would wait for ever.
    """
    try:
        result: ToolResult = await proceed()
    except (SystemExit, KeyboardInterrupt) as error:
        raise RuntimeError(f"The tool tried to end its worker: {type(error).__name__}.") from error
    return result


def _unprepared(error: Exception) -> str:
    return (
        f"The call was not run: the worker could not load the tools or make their dependencies"
        f" ({type(error).__name__}: {error})."
    )


def _pickled(result: ToolResult | Tripwire) -> bytes:
    """Return a result as bytes.

    A value that cannot be pickled is replaced by the text that a model reads, and the details of a
    failure by JSON data.
    """
    try:
        packed = pickle.dumps(_parts(result) or result)
        if isinstance(result, ToolResult) and type(result.value) not in DATA:
            pickle.loads(packed)  # An instance may be pickled and yet fail to unpickle.
    except Exception:
        assert isinstance(result, ToolResult)
        kept = {key: result.metadata[key] for key in _KEPT if key in result.metadata}
        interrupted = INTERRUPTED["ray"] if is_interrupted(result) else {}
        metadata = {**kept, "ray": {**interrupted, "value_is_text": True}}
        error = result.error
        if error is not None and error.details is not None:
            error = replace(error, details=json_items(error.details))
        value = None if result.value is None else result.text
        return pickle.dumps(changed(result, value=value, metadata=metadata, error=error))
    return packed


def _parts(result: ToolResult | Tripwire) -> tuple[str, Any, Any] | None:
    """Return the parts of the most common kind of result, which are three times faster to send."""
    if type(result) is not ToolResult or result.error is not None or len(result.output) != 1:
        return None
    [content] = result.output
    if type(content) is not TextContent or result.structured is not result.value:
        return None
    return content.text, result.value, result.metadata
