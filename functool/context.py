"""`Context`: what a call may use besides its arguments: dependencies, state, events, approvals."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, Generic, NamedTuple

from typing_extensions import TypeVar

from functool.approval import ApprovalRequest, Decision, Grant
from functool.call import ToolCall, ToolSchema
from functool.close_names import hint_at
from functool.delivery import Listeners, Mailbox, deliver, deliver_alone
from functool.errors import DefinitionError
from functool.json_values import json_copy

Deps = TypeVar("Deps", default=Any)
Approver = Callable[[ApprovalRequest], "bool | Decision | Awaitable[bool | Decision]"]
Listener = Callable[["ToolEvent"], object]
DECISION, EDITED = "functool.decision", "functool.edited"
"""The keys in the notes of a call that a person, or a grant, has decided about or edited."""
_counting = threading.Lock()  # Global, because a context that holds a lock cannot be pickled.


@dataclass(slots=True, kw_only=True)
class ToolEvent:
    """An event of a call, for listeners. `at` is in seconds since the epoch."""

    kind: str
    tool_name: str = ""
    call_id: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    at: float = field(default_factory=time.time)


class _Stored(NamedTuple):
    """A decision, or a grant that a call has used.

    `until` says how long it may be used, in seconds since the epoch, so that a pickled context can
    be used on another machine; 0.0 is for one call only. `request` is what the host has decided
    about.
    """

    until: float
    made: Any
    request: Any = None


@dataclass(slots=True)
class Inject:
    """Mark a parameter whose value is computed: `Annotated[T, Inject(lambda ctx: ...)]`.

    `provider(context)` may be sync or async, and is called once per call. The model neither sees
    nor sets the parameter.
    """

    provider: Callable[[Context[Any]], Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Refuse a place where nothing would be injected, and a model would set the value.

        Raises:
            DefinitionError: pydantic has found the mark inside of a type.
        """
        raise DefinitionError("Inject marks a whole parameter: nothing inside of one is injected")


class Context(Generic[Deps]):
    """What the calls of a run share. Any number of parallel calls may use it.

    `deps` holds the host's own objects, `thread` the conversation, and `metadata` anything else
    that the host wants to pass along. `state` is a dict that lives as long as the context. Inside a
    call, `call` is the call that is being run, and `schema` is the schema of its tool.

    `notes` is a dict for guardrails and layers, which lives until the call ends. A call inside this
    call has its own. The entries of `notes["metadata"]` are copied into `result.metadata`, whoever
    creates the result. A layer that raises needs this, because it has no result to write into.
    """

    # These belong to one call. They are set only in the view of that call.
    call: ToolCall | None = None
    schema: ToolSchema | None = None
    inner_labels: list[str] | None = None  # Untrusted tools that the body of this call has called.
    _mailbox: Mailbox | None = None
    # By digest, or by the id of a grant: what this call has used. Replaced, never modified.
    _used: Mapping[str, _Stored] = {}
    # The decisions that a wrapper's call hands to the call of its inner tool, which takes them out.
    _handed: list[Mapping[str, _Stored]] | None = None
    handed_to: Any = None  # The inner tool of the wrapper whose call this is.

    def __init__(
        self,
        deps: Deps | None = None,
        *,
        thread: Any = None,
        approver: Approver | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        if approver is not None and not callable(approver):
            raise TypeError(f"approver must be a callable, not {type(approver).__name__}")
        self.deps: Deps = deps  # type: ignore[assignment]
        self.thread = thread
        self.approver = approver
        self.metadata: Mapping[str, Any] = {} if metadata is None else metadata
        self.state: dict[str, Any] = {}
        self.notes: dict[str, Any] = {}
        # All views of a context share these objects.
        self._listeners: Listeners = []
        self._stored: dict[str, _Stored] = {}
        self._grants: dict[str, Grant] = {}

    @staticmethod
    def of(given: Any) -> Context[Any]:
        """Return the context that was passed, or a new one for None.

        Raises:
            TypeError: The object is neither a `Context` nor None.
        """
        if given is not None and not isinstance(given, Context):
            raise wrong_context(given)
        return Context() if given is None else given

    # Views, which are copies that share what belongs to the whole run.

    def view(self, **changes: Any) -> Context[Deps]:
        """Return a view: a copy of this context with some attributes replaced.

        All views share state, listeners, approvals and grants.

        Raises:
            TypeError: The context has no attribute of a name, or computes it.
        """
        kind = type(self)
        for name in changes:
            if isinstance(getattr(kind, name, None), property) or not hasattr(self, name):
                hint = hint_at(name, [known for known in vars(self) if known[0] != "_"])
                raise TypeError(f"{kind.__name__} has no attribute {name!r} to replace; {hint}")
        if "call" in changes:  # Each call has its own notes.
            changes["notes"] = {}
        view = object.__new__(kind)
        view.__dict__.update(self.__dict__, **changes)
        return view

    def fresh(self) -> Context[Deps]:
        """Return a context for another conversation, with empty state and without approvals.

        It has the same deps, thread, approver, metadata and listeners. It has its own state,
        approvals and grants, so that no conversation or principal uses those of another. If the
        approver has a method `fresh`, the new context gets what `approver.fresh()` returns. An
        approver that remembers answers needs this method.
        """
        approver = getattr(self.approver, "fresh", lambda: self.approver)()
        own: Any = {"_stored": {}, "_grants": {}, "_used": {}, "_handed": None, "_mailbox": None}
        own |= {"approver": approver, "state": {}, "handed_to": None}
        return self.view(call=None, schema=None, **own)

    def for_call(self, call: ToolCall, schema: ToolSchema | None) -> Context[Deps]:
        """Return the view of one call. Await `delivered` at its end to deliver all events."""
        mailbox = Mailbox(self._listeners) if self._listeners else None
        view = object.__new__(type(self))
        own = view.__dict__ = self.__dict__.copy()
        own["call"], own["schema"] = call, schema
        own["_mailbox"], own["notes"], own["inner_labels"] = mailbox, {}, []
        own["_used"] = self._handed.pop() if self._handed else {}
        own["_handed"] = own["handed_to"] = None
        return view

    def handing_over(self, tool: Any = None, *, at_once: bool) -> Context[Deps]:
        """Return a view for a wrapper: the next call is this same call, and has its decisions.

        `tool` is the wrapper's inner tool: what it returns is the wrapper's to remember.
        `at_once` means that the wrapper has done nothing before that call. Then its approval is
        kept if the call has to wait for a person.
        """
        once = {key: answer._replace(until=0.0) for key, answer in self._used.items()}
        handed = [self._used if at_once else once] if once else None
        return self.view(_handed=handed, handed_to=tool)

    def add_labels(self, names: Iterable[str]) -> None:
        """Label the result of this call with untrusted tools, whoever creates the result.

        A layer that answers with a stored text needs this, because the text may become an error.
        """
        if self.inner_labels is not None:
            self.inner_labels += names

    # Events.

    def subscribe(self, listener: Listener, *, debug: bool = False) -> Callable[[], None]:
        """Call `listener(event)`, sync or async, for every event.

        With `debug`, the listener also gets the debug events, which hold full details.

        Returns:
            A function that undoes the subscription.
        """
        entry = (listener, debug)
        self._listeners.append(entry)

        def undo() -> None:
            self._listeners[:] = [other for other in self._listeners if other is not entry]

        return undo

    def heard_by(self, listener: Listener, *, debug: bool = False) -> Context[Deps]:
        """Return a view with one more listener, which gets only the events of this view.

        Listeners that subscribe to this context later do not get the events of the view.
        """
        return self.view(_listeners=[*self._listeners, (listener, debug)])

    @property
    def listened(self) -> bool:
        """Whether the context has any listener."""
        return bool(self._listeners)

    @property
    def delivers(self) -> bool:
        """Whether this is the view of a call that has to await `delivered` at its end."""
        return self._mailbox is not None

    def emit(self, kind: str = "", /, **data: Any) -> None:
        """Send a custom event. It may be called from any thread, and never waits for a listener.

        `emit("found", kind="file")` sends an event "found" with `kind` in its data. Without a
        positional argument, `kind=` names the event.
        """
        if not self._listeners:
            return
        event = self._event(kind or data.pop("kind"), data)
        if self._mailbox is not None:
            self._mailbox.post(event)
        else:
            deliver_alone(event, self._listeners)

    def progress(
        self, message: str = "", done: float | None = None, total: float | None = None
    ) -> None:
        """Send a `tool:progress` event: a message, the amount `done` and the `total` amount."""
        self.emit("tool:progress", message=message, done=done, total=total)

    async def announce(self, kind: str, **data: Any) -> None:
        """Send an event and wait until every listener has handled it. For orchestrators."""
        await deliver(self._event(kind, data), self._listeners)

    async def delivered(self) -> None:
        """Wait until every listener has handled the events of this call.

        Events that are emitted after that are dropped.
        """
        if self._mailbox is not None:
            await self._mailbox.close()

    def _event(self, kind: str, data: Mapping[str, Any]) -> ToolEvent:
        name = self.schema.name if self.schema else self.call.name if self.call else ""
        call_id = self.call.id if self.call else ""
        return ToolEvent(kind=kind, tool_name=name, call_id=call_id, data=data)

    # Decisions of a person about calls.

    @property
    def decision(self) -> Mapping[str, Any] | None:
        """The decision of a person or a grant about this call, as JSON; None without one.

        `request` is the approval request. `approved` and `reason` are the answer. `arguments` holds
        the edited arguments, or None if they were not edited. `grant` is the id of the grant that
        answered, or None.
        """
        return self.notes.get(DECISION)

    def approve(
        self,
        request: ApprovalRequest,
        *,
        arguments: Mapping[str, Any] | None = None,
        expires_in: float = 300.0,
    ) -> None:
        """Let the call of `request` run once, within `expires_in` seconds.

        Args:
            request: The approval request.
            arguments: All arguments of an edited call that runs instead; see `Decision`.
            expires_in: Seconds from now.

        Raises:
            TypeError: `request` is no `ApprovalRequest`, or `arguments` is not a mapping.
            ValueError: The request does not match its digest because it was changed, the arguments
                are not JSON, or `expires_in` is not a positive number.
        """
        if expires_in is True or not isinstance(expires_in, (int, float)) or not expires_in > 0:
            raise ValueError(f"expires_in must be a positive number of seconds, not {expires_in!r}")
        edited = None if arguments is None else json_copy(arguments)
        self._store(request, time.time() + expires_in, Decision(approved=True, arguments=edited))

    def deny(self, request: ApprovalRequest, reason: str = "") -> None:
        """Refuse the call of `request` once; the model reads `reason`.

        Raises:
            TypeError: `request` is no `ApprovalRequest`.
            ValueError: The request does not match its digest because it was changed.
        """
        self._store(request, math.inf, Decision(approved=False, reason=reason))

    def _store(self, request: ApprovalRequest, expires: float, decision: Decision) -> None:
        if not isinstance(request, ApprovalRequest):
            given, where = type(request).__name__, 'result.metadata["approval"]'
            raise TypeError(f"expected an ApprovalRequest, as in {where}, not {given}")
        if not request.matches_itself:
            wrong = "it was changed after it was made"
            raise ValueError(f"the request does not match its own digest: {wrong}")
        now = time.time()
        for digest in [key for key, made in [*self._stored.items()] if made.until <= now]:
            self._stored.pop(digest, None)  # Nobody made that call in time.
        self._stored[request.digest] = _Stored(expires, decision, request)

    def has_decision(self, request: ApprovalRequest | None = None) -> bool:
        """Whether there is a decision about a request, or about any, that no call has used yet."""
        if request is None:
            return bool(self._stored)
        found = self._stored.get(request.digest)
        return found is not None and found.until > time.time()

    def decided_labels(self, request: ApprovalRequest) -> dict[str, list[str]]:
        """Return the labels that somebody saw who has decided about the call of a request.

        The call may have fewer labels by now, but none that the person has not seen. A refusal
        counts before an approval.
        """
        answers = [each for each in [*self._stored.values()] if self.has_decision(each.request)]
        seen = [each for each in answers if each.request.shows(request)]
        first = min(seen, key=lambda each: each.made.approved, default=None)
        return {} if first is None else first.request.sources

    def use_decision(self, digest: str) -> Decision | None:
        """Return the decision on the request with this digest, and remove it.

        A decision holds for one call only, and for all guardrails of that call.
        """
        if self.call is None:
            return None
        found = self._stored.pop(digest, None)
        if found is not None and found.until > time.time():
            self._used = {**self._used, digest: found}
        known = self._used.get(digest)
        return None if known is None else known.made

    def share_decision(self, digest: str, decision: Decision) -> None:
        """Store a decision that was made during this call, for the other guardrails of this call.

        It is not kept for another attempt.
        """
        self._used = {digest: _Stored(0.0, decision), **self._used}

    def give_back(self) -> None:
        """Keep this call's decisions and grants for its next attempt.

        The call waits, and its body has not run. A decision that was made meanwhile counts instead.
        """
        kept = {key: answer for key, answer in self._used.items() if answer.until}
        with _counting:
            for key, answer in kept.items():
                if not isinstance(answer.made, Grant):
                    self._stored.setdefault(key, answer)
                elif self._grants.get(key) is answer.made:  # It was not revoked in the meantime.
                    answer.made.uses += 1

    # Grants, which decide about many calls.

    def grant(self, grant: Grant) -> None:
        """Let the calls that `grant` covers run without asking a person.

        Calls are counted by the grant's id. Adding the same grant again does not restore its uses.

        Raises:
            TypeError: The object is not a `Grant`.
        """
        Grant.check(grant)
        with _counting:
            known = self._grants.get(grant.id, grant)
            self._grants[grant.id] = deepcopy(replace(grant, uses=min(grant.uses, known.uses)))

    def grants(self) -> list[Grant]:
        """Return the grants that still cover calls. `uses` is the number of calls left."""
        with _counting:
            return [deepcopy(grant) for grant in self._grants.values() if grant.is_open]

    def revoke(self, grant: Grant) -> None:
        """Withdraw `grant`: it covers no further call in this context.

        Raises:
            TypeError: The object is not a `Grant`.
        """
        Grant.check(grant)
        with _counting:
            self._grants[grant.id] = replace(grant, uses=0)

    def use_grant(self, request: ApprovalRequest, defaults: Mapping[str, Any]) -> Grant | None:
        """Return a grant that covers the call of `request`, and use it up by one call."""
        with _counting:
            for grant in self._grants.values():
                if grant.covers(request, defaults):
                    grant.uses -= 1
                    self._used = {**self._used, grant.id: _Stored(math.inf, grant)}
                    return deepcopy(grant)
        return None


def wrong_context(given: Any) -> TypeError:
    """Return the error for an object that was passed as a context but is not a `Context`."""
    return TypeError(f"the context must be a Context or None, not {type(given).__name__}")
