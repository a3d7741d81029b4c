"""Start Ray actors that run tools, and send calls to them: in chunks, to the least busy actor."""

from __future__ import annotations

import asyncio
import logging
import pickle
import threading
from collections import Counter, deque
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary

import ray
from ray.exceptions import RayError

from functool import DefinitionError, ToolCall, ToolError, ToolResult, Toolset, Tripwire
from functool.integrations.ray_worker import (
    Worker,
    packed_chunk,
    packed_request,
    unpacked_answer,
    unpacked_answers,
)
from functool.layers.journal_errors import Interrupted

logger: logging.Logger = logging.getLogger("functool")

CANCEL_SECONDS = 0.8
"""How long a cancelled call waits for its body to clean up."""

PING_SECONDS = 0.5
"""How long to wait before asking a lost actor again whether it is back."""


class WorkerLost(Interrupted):
    """The worker or its machine was lost while it had the call. The call may have taken effect."""

    def __init__(self, tool: str, reason: str) -> None:
        super().__init__(
            f"The worker that ran {tool} was lost ({reason}). It is unknown whether this call took"
            " effect. It was not run again. Find out what came of it before you rely on it or"
            " repeat it.",
            details={"reason": reason},
        )
        self._given = (tool, reason)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._given


class Pool:
    """All actors of a toolset, in groups with the same resources."""

    def __init__(
        self,
        tools: Toolset,
        resources: Mapping[str, Mapping[str, float]],
        *,
        actors: int,
        chunk: int,
        deps: str | None,
    ) -> None:
        if not ray.is_initialized():
            raise DefinitionError("Ray is not connected: call ray.init(...) first")
        packed = _packed(tools)  # Not in the object store: a restart may not find it there.
        groups: dict[tuple[tuple[str, float], ...], _Group] = {}
        self._groups: dict[str, _Group] = {}
        for name in tools:
            wanted = {"num_cpus": 1, **resources[name]} if name in resources else {"num_cpus": 1}
            key = tuple(sorted(wanted.items()))
            if key not in groups:
                groups[key] = _Group(wanted, packed, actors, chunk, deps)
            self._groups[name] = groups[key]

    def answer(self, call: ToolCall, approved: str) -> Coroutine[Any, Any, ToolResult | Tripwire]:
        """Return a coroutine that runs a call on a worker and returns its result.

        Raises:
            WorkerLost: The worker was lost.
        """
        return self._groups[call.name].sender().answer(call, approved)


class _Actor:
    """One actor, as this process sees it.

    `load` is the number of calls it has, of all event loops. `lost` is true from its loss until it
    answers again.
    """

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.load = 0
        self.lost = False
        self._counting = threading.Lock()  # Event loops run on threads of their own.

    def add(self, calls: int) -> None:
        """Count further calls, or with a negative number those that have ended."""
        with self._counting:
            self.load += calls


class _Job:
    """One call that waits for its answer. `chunk` and `place` identify it on the worker."""

    __slots__ = ("actor", "answer", "chunk", "place", "request", "tool")

    def __init__(self, tool: str, request: bytes, answer: asyncio.Future[bytes]) -> None:
        self.tool = tool
        self.request = request
        self.answer = answer
        self.actor: _Actor | None = None
        self.chunk = ""
        self.place = 0


class _Group:
    """Actors with the same resources."""

    def __init__(
        self,
        resources: Mapping[str, float],
        packed: bytes,
        actors: int,
        chunk: int,
        deps: str | None,
    ) -> None:
        self._chunk = chunk
        kind = ray.remote(Worker).options(
            max_concurrency=10_000,
            max_restarts=-1,
            max_task_retries=0,
            scheduling_strategy="SPREAD",
            **_options(resources),
        )
        self._actors = [_Actor(kind.remote(packed, deps)) for _ in range(actors)]
        # Futures and tasks belong to an event loop, and sync code has a new loop for each call.
        self._senders: WeakKeyDictionary[Any, _Sender] = WeakKeyDictionary()

    def sender(self) -> _Sender:
        """Return the sender that sends the calls of the running event loop."""
        loop = asyncio.get_running_loop()
        sender = self._senders.get(loop)
        if sender is None:
            sender = self._senders[loop] = _Sender(self._actors, self._chunk)
        return sender


class _Sender:
    """Sends the calls of one event loop."""

    def __init__(self, actors: list[_Actor], chunk: int) -> None:
        self._actors = actors
        self._chunk = chunk
        self._waiting: deque[_Job] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._asked: set[_Actor] = set()
        self._scheduled = False
        # The calls of this loop alone. A sender that waited for another loop's answers would not
        # hear of them.
        self._own: Counter[_Actor] = Counter()

    async def answer(self, call: ToolCall, approved: str) -> ToolResult | Tripwire:
        """Send a call, and return its answer. If this is cancelled, cancel the call as well."""
        loop = asyncio.get_running_loop()
        job = _Job(call.name, packed_request(call, approved), loop.create_future())
        self._waiting.append(job)
        self._schedule(loop)
        try:
            packed = await job.answer
        except asyncio.CancelledError:
            await self._cancel(job)
            raise
        return unpacked_answer(packed, call.id)

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        """Send soon, so that calls made in the same turn of the event loop are sent together.

        If there are enough calls for a full chunk to each actor, send them at once.
        """
        if len(self._waiting) == self._chunk * len(self._actors):
            self._send()
        elif not self._scheduled:
            self._scheduled = True
            loop.call_soon(self._send_soon)

    def _send_soon(self) -> None:
        self._scheduled = False
        self._send()

    def _send(self) -> None:
        for actor in self._actors:
            if actor.lost and actor not in self._asked:  # The loop that lost it may have ended.
                self._asked.add(actor)
                self._begin(self._await_return(actor))
        while self._waiting:
            present = [actor for actor in self._actors if not actor.lost]
            if not present:
                return  # An actor that comes back sends the waiting calls.
            actor = min(present, key=lambda one: one.load)
            room = min(self._chunk, 2 * self._chunk - self._own[actor], self._share(len(present)))
            if room < 1:
                return  # The next answer sends the waiting calls.
            jobs = [self._waiting.popleft() for _ in range(min(room, len(self._waiting)))]
            jobs = [job for job in jobs if not job.answer.done()]
            if jobs:
                chunk = uuid4().hex
                self._count(actor, len(jobs))
                for place, job in enumerate(jobs):
                    job.actor, job.chunk, job.place = actor, chunk, place
                packed = packed_chunk(chunk, [job.request for job in jobs])
                try:
                    # Send here, not in a task: a task would begin only after all other ready ones.
                    sent = _call(actor.handle.run, packed)
                except Exception as error:
                    self._count(actor, -len(jobs))
                    self._give_up(jobs, error)
                else:
                    self._begin(self._exchange(actor, chunk, jobs, sent))

    def _share(self, actors: int) -> int:
        """Return how many of the waiting calls one actor gets, so that all get equal parts."""
        return -(-len(self._waiting) // actors)

    def _count(self, actor: _Actor, calls: int) -> None:
        self._own[actor] += calls
        actor.add(calls)

    def _begin(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _exchange(self, actor: _Actor, chunk: str, jobs: list[_Job], sent: Any) -> None:
        """Pass on the answers of a chunk that was sent, as they arrive."""
        missing = dict(enumerate(jobs))
        try:
            while True:
                for place, packed in unpacked_answers(await sent):
                    job = missing.pop(place)
                    self._count(actor, -1)
                    if not job.answer.done():
                        job.answer.set_result(packed)
                self._send()
                if not missing:
                    return
                sent = _call(actor.handle.more, chunk)
        except Exception as error:  # Ray raises more than its own errors.
            self._lose(actor, missing, type(error).__name__)
        finally:
            self._count(actor, -len(missing))

    def _give_up_waiting(self, error: Exception) -> None:
        """Fail the calls that wait, unless another actor can still get them."""
        if all(actor.lost for actor in self._actors):
            jobs = [job for job in self._waiting if not job.answer.done()]
            self._waiting.clear()
            if jobs:
                self._give_up(jobs, error)

    def _give_up(self, jobs: list[_Job], error: Exception) -> None:
        """Fail the calls that could not be sent."""
        logger.error("Ray takes no calls: connect it and make the tools anew", exc_info=error)
        for job in jobs:
            job.actor = None
            refused = ToolError(f"The call of {job.tool} was not run: no worker can be reached.")
            refused.__cause__ = error
            job.answer.set_exception(refused)

    def _lose(self, actor: _Actor, missing: dict[int, _Job], reason: str) -> None:
        """Fail the calls that a lost actor had. It gets no calls until it is back."""
        actor.lost = True
        self._schedule(asyncio.get_running_loop())
        for job in missing.values():
            if not job.answer.done():
                job.answer.set_exception(WorkerLost(job.tool, reason))

    async def _await_return(self, actor: _Actor) -> None:
        """Ping a lost actor until it answers. Then send it calls again.

        If Ray cannot even ask it, as after the end of the cluster, the calls that wait fail.
        """
        while actor.lost:
            try:
                pinged = _call(actor.handle.ping)
            except Exception as error:
                self._asked.discard(actor)
                self._give_up_waiting(error)
                return
            try:
                await pinged
                actor.lost = False
            except RayError:
                await asyncio.sleep(PING_SECONDS)
        self._asked.discard(actor)
        self._send()

    async def _cancel(self, job: _Job) -> None:
        """Withdraw a waiting call, or cancel it on its worker and wait for its body to clean up."""
        if job.actor is None or not ray.is_initialized():
            return  # A call that waits here is not sent once its future is cancelled.
        with suppress(Exception):  # An error of Ray must not stop the cancellation here.
            cancelled = job.actor.handle.cancel.remote(job.chunk, job.place).future()
            await asyncio.wait([asyncio.wrap_future(cancelled)], timeout=CANCEL_SECONDS)


def _call(method: Any, *arguments: Any) -> Any:
    """Call a method of an actor, and return what to await.

    Raises:
        RuntimeError: Ray is not connected. It would start a new cluster for the call.
    """
    if not ray.is_initialized():
        raise RuntimeError("Ray is not connected")
    return method.remote(*arguments)


def _packed(tools: Toolset) -> bytes:
    """Return the tools pickled.

    Raises:
        DefinitionError: A worker could not find one of them.
    """
    for tool in tools.values():
        try:
            pickle.loads(pickle.dumps(tool))
        except Exception as error:
            raise DefinitionError(
                f"the tool {tool.name!r} cannot go to another machine: {error}. Define it in a"
                " module, on its top level, and put wrappers around what on_ray returns"
            ) from error
    return pickle.dumps(tools)


def _options(resources: Mapping[str, float]) -> dict[str, Any]:
    """Return resources as the options of an actor. Ray has options of its own for three of them."""
    known = {"num_cpus", "num_gpus", "memory"}
    options: dict[str, Any] = {name: resources[name] for name in resources if name in known}
    if others := {name: resources[name] for name in resources if name not in known}:
        options["resources"] = others
    return options
