"""`Trip`: the state of one call that the steps of `Tool.invoke` share.

The canonical arguments and the view of the context are computed when a step first needs them. A
tool without hooks and guardrails often needs neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

from functool.call import ToolCall, ToolResult, changed, fingerprint, metadata_of, with_arguments
from functool.context import DECISION, EDITED, Context
from functool.errors import ArgumentError, DefinitionError
from functool.guardrails import labels, trusted
from functool.guardrails.asking import (
    ask,
    await_answer,
    refuse_changed,
    shown_in,
    with_matching_value,
)
from functool.json_values import canonical_json, json_copy, paused_gc
from functool.large import in_thread_if, is_large

_UNBOUND: Any = object()
_AFTER_APPROVAL = "after a person had approved them; put require_approval behind it"


@dataclass(slots=True, eq=False, init=False)
class Trip:
    """The state of one call. `started` makes it.

    `sent` is the call as the model wrote it, and `values` are the validated Python values for the
    body. `id` is that of the call that came in: a hook may replace the call. `record` lists what
    guardrails did. `inner_decision` is the one on a call inside this one. `made_view` is the view,
    once a step has needed it.
    """

    tool: Any  # A `Tool`: its file imports this one.
    sent: ToolCall
    id: str
    values: Any
    record: list[dict[str, str]]
    inner_decision: dict[str, Any] | None
    made_view: Context[Any] | None
    _context: Context[Any] | None
    _call: ToolCall | None

    @property
    def call(self) -> ToolCall:
        """The call with canonical arguments, which hooks and guardrails get."""
        if self._call is None:
            canonical = self.tool.binding.canonical(self.sent.arguments, self.values)
            self._call = with_arguments(self.sent, canonical)
            if self.sent.metadata and labels.has_labels(self.sent):
                self._call.metadata = labels.placed(self.sent, canonical, self.tool.schema)
        return self._call

    @property
    def view(self) -> Context[Any]:
        """The view of the context that belongs to this call."""
        if self.made_view is None:
            try:
                call = self.sent if self.values is _UNBOUND else self.call
            except ArgumentError:  # A wrapper's inner tool has refused them and reports it.
                call = self.sent
            try:
                schema = self.tool.schema
            except DefinitionError:  # Validation failed for the same reason and reports it.
                schema = None
            if self._context is None:  # A new context is nobody else's, so it is the view.
                self.made_view = Context()
                self.made_view.call, self.made_view.schema = call, schema
                self.made_view.inner_labels = []
            else:
                self.made_view = self._context.for_call(call, schema)
        return self.made_view

    @property
    def labels(self) -> list[str]:
        """The untrusted tools behind the result. The view has this list."""
        return [] if self.made_view is None else self.made_view.inner_labels or []

    @property
    def context(self) -> Context[Any]:
        """The view if a step has created it, else the context that was passed."""
        return self.made_view or self._context or Context()

    def replace(self, new: ToolCall) -> None:
        """Validate another call and continue with it."""
        arguments = self.tool.binding.sent_form(new.arguments, self.sent.arguments)
        metadata = {**self.sent.metadata, **new.metadata}
        values = self.tool.binding.values(arguments)
        self.sent = ToolCall(name=new.name, arguments=arguments, id=new.id, metadata=metadata)
        self.values, self._call = values, None
        self.view.call = self.call

    async def ask_hook(self, on_invoke: Any) -> None:
        """Call the tool's `on_invoke`, which may replace the call."""
        call = self.call
        seen = fingerprint(call.arguments)
        new = await on_invoke(call, self.view)
        if new is not None and new is not call:
            self.replace(verified(new, "on_invoke", self.tool.name, ToolCall))
        elif fingerprint(call.arguments) != seen:
            refuse_changed(on_invoke, self.record)

    async def ask_input(self, guardrails: Sequence[Any]) -> None:
        """Ask the input guardrails in order.

        If a person edits the arguments during an approval, the guardrails before it have not seen
        the new arguments. So all of them are asked again.

        Raises:
            GuardrailError: A guardrail refused, or changed the arguments after their approval.
        """
        view, record, call = self.view, self.record, self.call
        at, restarts, seen = 0, 0, fingerprint(call.arguments)
        decision, approved, last_changer = None, "", None
        while at < len(guardrails):
            guardrail = guardrails[at]
            at += 1
            answer = ask(guardrail, call, view, "input", record)
            if answer is not None:
                answer = await await_answer(answer, guardrail, call, "input", record)
            if answer is not None and answer is not call:
                before = call.metadata.get("decision")
                self.replace(answer)
                call = self.call
                if (now := fingerprint(call.arguments)) != seen:
                    seen, last_changer = now, guardrail
                # The limit is for a guardrail that writes a new decision each time.
                if call.metadata.get("decision") != before and restarts < len(guardrails):
                    at, restarts = 0, restarts + 1
                    # With defaults. Copies, because a guardrail may change the arguments of the
                    # old call in place and return a new call.
                    view.notes[EDITED] = json_copy(cast(Any, call.arguments))
            elif fingerprint(call.arguments) != seen:
                refuse_changed(guardrail, record)
            if view.notes and view.decision is not decision:
                decision = view.decision
                approved = canonical_json(call.arguments)
        if decision is not None and canonical_json(call.arguments) != approved:
            refuse_changed(last_changer, record, _AFTER_APPROVAL)

    async def ask_output(self, guardrails: Sequence[Any], result: ToolResult) -> ToolResult:
        """Ask the output guardrails in order, and return the final result.

        A guardrail may also change the result in place. That is not recorded.
        """
        view, record, shown = self.view, self.record, shown_in(result)
        for guardrail in guardrails:
            value, new = result.value, result
            answer = ask(guardrail, result, view, "output", record)
            if answer is not None:
                new = await await_answer(answer, guardrail, result, "output", record)
            elif shown_in(result) == shown:
                continue
            new = with_matching_value(result, new, value, shown)
            result = labels.with_labels_of(result, new)  # The next guardrail may store it.
            shown = shown_in(result)
        return result

    def note(self, result: ToolResult) -> None:
        """Record what a result says about its call, in case it is replaced.

        That is the guardrail actions, a person's decision, and the labels.
        """
        metadata = metadata_of(result)
        if isinstance(noted := metadata.get("guardrails"), list):
            self.record += noted
        if isinstance(decision := metadata.get("decision"), dict):
            self.inner_decision = decision
        self.label(result)

    def label(self, result: ToolResult) -> None:
        """Record the untrusted tools behind a result, in case it is replaced."""
        if names := labels.result_labels(result):
            self.view.add_labels(names)

    def with_labels(self, result: ToolResult) -> ToolResult:
        """Add the labels to the result of a body or a layer.

        A layer around it may store it, replace it, or raise with its text.
        """
        self.label(result)
        if names := [*dict.fromkeys(map(str, self.labels))]:
            return changed(result, metadata={**metadata_of(result), "sources": names})
        return result

    def with_metadata(self, result: ToolResult) -> ToolResult:
        """Return a result with the call's id, and with what is known about the call as metadata.

        That is the guardrail actions, the labels, a decision, and what the notes of the call hold.
        """
        if type(result.metadata) is not dict or result.metadata:  # A mapping may refuse `bool`.
            self.label(result)
        view = self.made_view
        known = self.sent.metadata or self.tool.settings.untrusted or self.inner_decision
        if known or (view is not None and (view.notes or self.record or view.inner_labels)):
            own = {"decision": self.inner_decision} if self.inner_decision else {}
            notes = {} if view is None else view.notes
            metadata = {**own, **metadata_of(result), **self._metadata(notes)}
            return changed(result, call_id=self.id, metadata=metadata)
        return result if result.call_id == self.id else changed(result, call_id=self.id)

    def _metadata(self, notes: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is known about this call, for the metadata of its result.

        Its labels are also added to those of the calls and agents around it.
        """
        given = notes.get("metadata")
        metadata: dict[str, Any] = {**given} if isinstance(given, dict) else {}
        if self.record:
            metadata["guardrails"] = [*self.record]
        own = (self.tool.name,) if self.tool.settings.untrusted else ()
        if names := dict.fromkeys(map(str, (*own, *labels.call_labels(self.sent), *self.labels))):
            metadata["sources"] = [*names]
            # This call may have been made inside another call, or by an agent.
            for outer in (getattr(self._context, "inner_labels", None), *labels.agents.get()):
                if outer is not None:
                    outer.extend(name for name in names if name not in outer)
        if decision := notes.get(DECISION) or metadata_of(self.sent).get("decision"):
            metadata["decision"] = decision
        return metadata

    async def remember(self, result: ToolResult, outer: Context[Any]) -> None:
        """Remember the values of a trusted tool, for the guardrails that need them.

        `outer` is the context that was passed.
        """
        notes = self.made_view.notes if self.made_view is not None else {}
        given = self.sent.arguments
        if labels.SHOWS_OTHERS in notes and outer.call:
            # The call around this one may show it, too.
            outer.notes[labels.SHOWS_OTHERS] = True
        sent = {id(given): (given, self.tool.bind), **notes.get(trusted.SENT, {})}
        if outer.handed_to is self.tool:  # A wrapper may still label the result, or change it.
            outer.notes.setdefault(trusted.SENT, {}).update(sent)
            return
        with suppress(Exception):  # The author's value may raise anything.
            what = trusted.remember, self.context, result, self.sent, sent.values()
            await in_thread_if(is_large(result) or is_large(self.sent), paused_gc, *what)


def started(tool: Any, call: ToolCall, context: Context[Any] | None) -> Trip:
    """Return the trip of a call, without the cost of `__init__`.

    Raises:
        AttributeError: The call is not a `ToolCall`.
    """
    trip = Trip()
    trip.tool, trip.sent, trip.id, trip._context = tool, call, call.id, context
    trip.values, trip.record = _UNBOUND, []
    trip.inner_decision = trip.made_view = trip._call = None
    return trip


def verified(answer: Any, hook: str, name: str, kind: type[Any] = ToolResult) -> Any:
    """Return the answer of a hook of the tool `name`.

    Raises:
        TypeError: It is not of the kind that the hook must return.
    """
    if not isinstance(answer, kind):
        wanted = kind.__name__
        raise TypeError(f"{hook} of {name} must return a {wanted}, not {type(answer).__name__}")
    return answer
