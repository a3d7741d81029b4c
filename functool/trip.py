"""`Trip`: the state of one call that the steps of `Tool.invoke` share.

The canonical arguments and the view of the context are computed when a step first needs them. A
tool without hooks and guardrails often needs neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

from functool.approval import json_copy, same_json
from functool.call import (
    ToolCall,
    ToolResult,
    changed,
    fingerprint,
    metadata_of,
    with_arguments,
)
from functool.context import Context
from functool.errors import ArgumentError, DefinitionError
from functool.guardrails import labels, sources
from functool.guardrails.asking import (
    AFTER_APPROVAL,
    ask,
    await_answer,
    refuse_changed,
    shown_in,
    with_matching_value,
)

_UNBOUND: Any = object()


@dataclass(slots=True, eq=False)
class Trip:
    """The state of one call.

    `sent` is the call as the model wrote it, and `values` are the validated Python values for the
    body. `record` lists what guardrails did. `labels` are the untrusted tools behind the result.
    `inner` is the decision on a call inside this one. `made_view` is the view, once a step has
    needed it.
    """

    tool: Any  # A `Tool`: its file imports this one.
    sent: ToolCall
    id: str
    _context: Context[Any] | None
    record: list[dict[str, str]]  # Empty at first. A factory of the default would take longer.
    values: Any = _UNBOUND
    labels: Any = ()  # A wrapper has a list, to which the call of its inner tool adds.
    inner: dict[str, Any] | None = None
    made_view: Context[Any] | None = None
    _call: ToolCall | None = None

    @property
    def call(self) -> ToolCall:
        """The call with canonical arguments, which hooks and guardrails get."""
        if self._call is None:
            canonical = self.tool.binding.canonical(self.sent.arguments, self.values)
            self._call = with_arguments(self.sent, canonical)
            if self.sent.metadata and labels.has_sources(self.sent):
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
            if self._context is None:  # No context was passed, so no view is needed.
                view = self.made_view = Context()
                view.call, view.schema, view.inner_sources = call, schema, []
            else:
                self.made_view = self._context.for_call(call, schema)
        return self.made_view

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
            self.replace(new)
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
        at, edits, seen = 0, 0, fingerprint(call.arguments)
        decision, approved, changer = None, {}, None
        while at < len(guardrails):
            guardrail = guardrails[at]
            at += 1
            answer = ask(guardrail, call, view, "input", record)
            if answer is not None:
                answer = await await_answer(answer, guardrail, call, "input", record)
            if answer is not None and answer is not call:
                self.replace(answer)
                decided, call = call.metadata.get("decision"), self.call
                before, seen = seen, fingerprint(call.arguments)
                changer = changer if seen == before else guardrail
                if call.metadata.get("decision") != decided and edits < len(guardrails):
                    at, edits = 0, edits + 1
                    # With defaults. Copies, because a guardrail may change the arguments of the
                    # old call in place and return a new call.
                    view.notes["edited"] = json_copy(cast(Any, call.arguments))
            elif fingerprint(call.arguments) != seen:
                refuse_changed(guardrail, record)
            if view.notes and view.decision is not decision:
                decision, approved = view.decision, json_copy(cast(Any, call.arguments))
        if decision is not None and not same_json(call.arguments, approved):
            refuse_changed(changer, record, AFTER_APPROVAL)

    async def ask_output(self, guardrails: Sequence[Any], result: ToolResult) -> ToolResult:
        """Ask the output guardrails in order, and return the final result."""
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
            self.inner = decision
        self.label(result)

    def label(self, result: ToolResult) -> None:
        """Record the untrusted tools behind a result, in case it is replaced."""
        self.labels += labels.labels_on(result)

    def labelled(self, result: ToolResult) -> ToolResult:
        """Add the labels to the result of a body or a layer.

        A layer around it may store it, replace it, or raise with its text.
        """
        metadata, view = result.metadata, self.view
        if type(metadata) is not dict or metadata:  # An author's own mapping may refuse `bool`.
            view.add_sources(labels.labels_on(result))
        if not view.inner_sources:
            return result
        names = [*dict.fromkeys(map(str, view.inner_sources))]
        return changed(result, metadata={**metadata_of(result), "sources": names})

    def conclude(self, result: ToolResult, untrusted: bool) -> ToolResult:
        """Add the call's id and metadata to a result: guardrail actions, labels, a decision."""
        notes: dict[str, Any] = {}
        if type(result.metadata) is not dict or result.metadata:  # A mapping may refuse `bool`.
            self.label(result)
        if self.made_view is not None:
            notes = self.made_view.notes
            self.labels += tuple(self.made_view.inner_sources or ())
        known = notes or self.record or self.labels or self.inner or self.sent.metadata
        if known or untrusted or sources.wanted_results:
            result = self._with_metadata(result, notes, untrusted)
        return result if result.call_id == self.id else changed(result, call_id=self.id)

    def _with_metadata(
        self, result: ToolResult, notes: dict[str, Any], untrusted: bool
    ) -> ToolResult:
        """Add what is known about this call to the metadata of its result.

        Its labels are also added to those of the calls and agents around it. The values of a
        trusted tool are remembered, if a guardrail needs them.
        """
        if sources.wanted_results and self._context is not None and not (untrusted or self.labels):
            with suppress(Exception):  # The author's value may raise anything.
                sources.remember(self.context, result, self.sent, self.tool.bind)
        if labels.SHOWS_OTHERS in notes and self._context is not None and self._context.call:
            # The call around this one may show it, too.
            self._context.notes[labels.SHOWS_OTHERS] = True
        metadata: dict[str, Any] = {**notes.get("metadata", {})}
        if self.record:
            metadata["guardrails"] = [*self.record]
        own = (self.tool.name,) if untrusted else ()
        if names := dict.fromkeys(map(str, (*own, *labels.labels_of(self.sent), *self.labels))):
            metadata["sources"] = [*names]
            # This call may have been made inside another call, or by an agent.
            for outer in (getattr(self._context, "inner_sources", None), *labels.agents.get()):
                if outer is not None:
                    outer.extend(names)
        if decision := notes.get("decision") or metadata_of(self.sent).get("decision"):
            metadata["decision"] = decision
        inner = {} if self.inner is None else {"decision": self.inner}
        if not (metadata or inner):
            return result
        return changed(result, metadata={**inner, **metadata_of(result), **metadata})
