"""What a call may use beside its arguments: dependencies, state, listeners, approvals."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, Generic

from typing_extensions import TypeVar

from functool.approval import ApprovalRequest, Decision, Grant, json_copy
from functool.call import ToolCall, ToolSchema

Deps = TypeVar("Deps", default=Any)
Approver = Callable[[ApprovalRequest], "bool | Decision | Awaitable[bool | Decision]"]
Listener = Callable[["ToolEvent"], object]

logger: logging.Logger = logging.getLogger("functool")
_counting = threading.Lock()  # Of the module, not of a context, so that a context can be pickled.


@dataclass(slots=True, kw_only=True)
class ToolEvent:
    """Something that happened during a call. `at` is seconds since the epoch."""

    kind: str
    tool_name: str = ""
    call_id: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    at: float = field(default_factory=time.time)


@dataclass(slots=True)
class Inject:
    """Mark a parameter whose value is computed: `Annotated[T, Inject(lambda ctx: ...)]`.

    `provider(context)` may be sync or async, and is asked once a call. The model neither sees nor
    sets the parameter.
    """

    provider: Callable[[Context[Any]], Any]


class Context(Generic[Deps]):
    """The surroundings of a run, shared by any number of parallel calls.

    `deps` are the host's own objects, `thread` the conversation, `metadata` whatever the host wants
    to pass along; `state` is a dict that lives as long as the context. Inside a call, `call` is the
    one being run and `schema` that of its tool.
    """

    # What belongs to one call: only its view sets these.
    call: ToolCall | None = None
    schema: ToolSchema | None = None
    inner_sources: list[str] | None = None  # Untrusted tools that were called inside of this call.
    _mailbox: _Mailbox | None = None
    _decided: tuple[str, Decision | None] = ("", None)
    _notes: dict[str, Any] | None = None

    def __init__(
        self,
        deps: Deps | None = None,
        *,
        thread: Any = None,
        approver: Approver | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self.deps: Deps = deps  # type: ignore[assignment]
        self.thread = thread
        self.approver = approver
        self.metadata: Mapping[str, Any] = {} if metadata is None else metadata
        self.state: dict[str, Any] = {}
        # The views of a context share these.
        self._listeners: list[tuple[Listener, bool]] = []
        self._answers: dict[str, tuple[float, Decision]] = {}
        self._grants: dict[str, Grant] = {}

    @staticmethod
    def of(given: Any) -> Context[Any]:
        """Return the context that was passed, a new one where none was.

        Raises:
            TypeError: It is no `Context`.
        """
        if given is not None and not isinstance(given, Context):
            raise wrong_context(given)
        return Context() if given is None else given

    def view(self, **changes: Any) -> Context[Deps]:
        """Return this context with some attributes replaced; the rest stays shared.

        State, listeners, approvals and grants are the same objects in every view.
        """
        if "call" in changes:  # Another call has notes of its own.
            changes["_notes"] = None
        view = object.__new__(type(self))
        view.__dict__.update(self.__dict__, **changes)
        return view

    def fresh(self) -> Context[Deps]:
        """Return a context for another conversation: the same dependencies, and nothing remembered.

        It has the same deps, thread, approver, metadata and listeners. State, approvals and grants
        are its own, so that no conversation or principal uses those of another. An approver that
        remembers for a conversation has a method `fresh`, which returns that of another one.
        """
        again = getattr(self.approver, "fresh", lambda: self.approver)
        own: dict[str, Any] = {"state": {}, "_answers": {}, "_grants": {}, "approver": again()}
        return self.view(call=None, schema=None, _mailbox=None, _decided=("", None), **own)

    def heard_by(self, listener: Listener, *, debug: bool = False) -> Context[Deps]:
        """Return a view whose events `listener` hears too; those of other views it does not hear.

        Listeners that subscribe to this context later do not hear the view.
        """
        return self.view(_listeners=[*self._listeners, (listener, debug)])

    def for_call(self, call: ToolCall, schema: ToolSchema | None) -> Context[Deps]:
        """Return the view of one call. Its events are delivered by `delivered`."""
        mailbox = _Mailbox(asyncio.get_running_loop(), self._deliver) if self._listeners else None
        view = object.__new__(type(self))
        own = view.__dict__ = self.__dict__.copy()
        own["call"], own["schema"] = call, schema
        own["_mailbox"], own["_notes"], own["inner_sources"] = mailbox, None, []
        return view

    @property
    def notes(self) -> dict[str, Any]:
        """What guardrails remember until this call ends; an inner call has its own notes.

        A layer that raises has no result to write into, and an error function may write its own:
        what stands in `notes["metadata"]` comes into `result.metadata`, whoever answers the call.
        """
        if self._notes is None:
            self._notes = {}
        return self._notes

    @property
    def noted(self) -> dict[str, Any] | None:
        """What `notes` holds so far, None where nobody has asked for them."""
        return self._notes

    @property
    def decision(self) -> Mapping[str, Any] | None:
        """Inside a call, what a person or a grant decided about it, as JSON; else None.

        `request` is what was asked, `approved` and `reason` are the answer, `arguments` the edited
        ones or None, `grant` the id of the grant that answered or None.
        """
        return None if self._notes is None else self._notes.get("decision")

    def subscribe(self, listener: Listener, *, debug: bool = False) -> Callable[[], None]:
        """Call `listener(event)`, sync or async, for every event.

        With `debug` it gets the events with full details, too.

        Returns:
            A function that undoes the subscription.
        """
        entry = (listener, debug)
        self._listeners.append(entry)

        def undo() -> None:
            self._listeners[:] = [other for other in self._listeners if other is not entry]

        return undo

    @property
    def delivers(self) -> bool:
        """Whether this is the view of a call whose events are delivered by `delivered`."""
        return self._mailbox is not None

    @property
    def listened(self) -> bool:
        """Whether anybody listens."""
        return bool(self._listeners)

    def emit(self, kind: str = "", /, **data: Any) -> None:
        """Send an event of the author's own. Callable from any thread; never waits for a listener.

        `emit("found", kind="file")` sends `kind` as data; without the first, `kind=` names the
        event.
        """
        if not self._listeners:
            return
        kind = kind or data.pop("kind")
        event = self._event(kind, data)
        if self._mailbox is not None:
            self._mailbox.post(event)
        else:
            self._deliver_now(event)

    def progress(
        self, message: str = "", done: float | None = None, total: float | None = None
    ) -> None:
        """Send a `tool:progress` event: a message, and how much of how much is done."""
        self.emit("tool:progress", message=message, done=done, total=total)

    async def announce(self, kind: str, **data: Any) -> None:
        """Deliver an event and wait until every listener has seen it: what an orchestrator uses."""
        await self._deliver(self._event(kind, data))

    async def delivered(self) -> None:
        """Wait until every listener has seen what was emitted in this call.

        What is emitted later is dropped.
        """
        if self._mailbox is not None:
            await self._mailbox.close()

    def approve(
        self,
        request: ApprovalRequest,
        *,
        arguments: Mapping[str, Any] | None = None,
        expires_in: float = 300.0,
    ) -> None:
        """Let the call of `request` run once, within `expires_in` seconds.

        Args:
            request: What was asked.
            arguments: All arguments of the edited call that shall run instead; see `Decision`.
            expires_in: Seconds from now.

        Raises:
            TypeError: `arguments` is no mapping.
            ValueError: The request does not match itself (it was edited), the arguments are no
                JSON, or `expires_in` is not a positive number.
        """
        if expires_in is True or not isinstance(expires_in, (int, float)) or not expires_in > 0:
            raise ValueError(f"expires_in must be a positive number of seconds, not {expires_in!r}")
        edited = None if arguments is None else json_copy(arguments)
        decision = Decision(approved=True, arguments=edited)
        self._answer(request, time.monotonic() + expires_in, decision)

    def deny(self, request: ApprovalRequest, reason: str = "") -> None:
        """Refuse the call of `request` once; the model reads `reason`.

        Raises:
            ValueError: The request does not match itself (it was edited).
        """
        self._answer(request, float("inf"), Decision(approved=False, reason=reason))

    def use_decision(self, digest: str) -> Decision | None:
        """Return the decision on the request with this digest, and forget it.

        A decision counts for one call, and for all guardrails of that call.
        """
        expires, decision = self._answers.pop(digest, (0.0, None))
        if expires > time.monotonic():
            self._decided = digest, decision
        return self._decided[1] if self._decided[0] == digest and self.call is not None else None

    def share_decision(self, digest: str, decision: Decision) -> None:
        """Let all guardrails of this call find a decision that was made during it."""
        self._decided = digest, decision

    def grant(self, grant: Grant) -> None:
        """Let the calls that `grant` covers run without asking.

        Calls are counted by the grant's id. Granting one again neither refills nor revives it.

        Raises:
            TypeError: It is no `Grant`.
        """
        if not isinstance(grant, Grant):
            raise TypeError(f"expected a Grant, not {type(grant).__name__}")
        with _counting:
            known = self._grants.get(grant.id, grant)
            self._grants[grant.id] = deepcopy(replace(grant, uses=min(grant.uses, known.uses)))

    def grants(self) -> list[Grant]:
        """Return the grants that still cover a call; `uses` is how many more."""
        with _counting:
            return [deepcopy(grant) for grant in self._grants.values() if grant.is_open]

    def revoke(self, grant: Grant) -> None:
        """Let `grant` cover no further call in this context."""
        with _counting:
            self._grants[grant.id] = replace(grant, uses=0)

    def use_grant(self, request: ApprovalRequest, defaults: Mapping[str, Any]) -> Grant | None:
        """Return a grant that covers the call of `request`, after counting the call."""
        with _counting:
            for grant in self._grants.values():
                if grant.covers(request, defaults):
                    grant.uses -= 1
                    return deepcopy(grant)
        return None

    def _answer(self, request: ApprovalRequest, expires: float, decision: Decision) -> None:
        if not request.matches_itself:
            wrong = "it was changed after it was made"
            raise ValueError(f"the request does not match its own digest: {wrong}")
        self._answers[request.digest] = (expires, decision)

    def _event(self, kind: str, data: Mapping[str, Any]) -> ToolEvent:
        name = self.schema.name if self.schema else self.call.name if self.call else ""
        call_id = self.call.id if self.call else ""
        return ToolEvent(kind=kind, tool_name=name, call_id=call_id, data=data)

    async def _deliver(self, event: ToolEvent) -> None:
        details = event.kind.endswith(":debug")
        for tell in [listener for listener, debug in self._listeners if debug or not details]:
            try:
                answer = tell(event)
                if inspect.isawaitable(answer):
                    await answer
            except (Exception, asyncio.CancelledError) as error:
                if (
                    isinstance(error, asyncio.CancelledError)
                    and (task := asyncio.current_task())
                    and task.cancelling()
                ):
                    raise
                logger.warning("a listener raised on %s and was skipped", event.kind, exc_info=True)

    def _deliver_now(self, event: ToolEvent) -> None:
        """Deliver an event that belongs to no call: there is nothing to wait for it."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            asyncio.run(self._deliver(event))
        else:
            task = loop.create_task(self._deliver(event))
            _strays.add(task)
            task.add_done_callback(_strays.discard)


def wrong_context(given: Any) -> TypeError:
    """Return the error for what was passed as a context and is none."""
    return TypeError(f"the context must be a Context or None, not {type(given).__name__}")


_strays: set[asyncio.Task[None]] = set()
"""Deliveries of events that belong to no call: kept here, because a loop holds its tasks weakly."""


class _Mailbox:
    """The events of one call on their way to the listeners, in order."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        deliver: Callable[[ToolEvent], Coroutine[Any, Any, None]],
    ) -> None:
        self._loop = loop
        self._deliver = deliver
        self._events: deque[ToolEvent] = deque()
        self._courier: asyncio.Task[None] | None = None
        self._closed = False

    def post(self, event: ToolEvent) -> None:
        if not self._closed:
            self._events.append(event)
            self._loop.call_soon_threadsafe(self._send)

    async def close(self) -> None:
        self._send()
        while self._courier is not None and not self._courier.done():
            await asyncio.shield(self._courier)
            self._send()
        self._closed = True

    def _send(self) -> None:
        # An eager task may be done as soon as it is made.
        if self._events and (self._courier is None or self._courier.done()):
            self._courier = self._loop.create_task(self._empty())

    async def _empty(self) -> None:
        while self._events:
            await self._deliver(self._events.popleft())
