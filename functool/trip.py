"""The trip of one call along the road of its tool: what the steps of `Tool.invoke` share.

The canonical arguments and the view of the context are made when a step first asks for them. A step
that is not taken costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from functool.binding.door import Binder
from functool.call import (
    ToolCall,
    ToolResult,
    ToolSchema,
    changed,
    fingerprint,
    metadata_of,
    noted_guardrails,
    with_arguments,
)
from functool.context import Context
from functool.errors import ArgumentError, DefinitionError
from functool.guardrails.asking import answered, ask, refuse_changed, with_matching_value
from functool.guardrails.sources import remember, watched

_UNBOUND: Any = object()


class Travelled(Protocol):
    """What a trip has to know of its tool."""

    @property
    def name(self) -> str:
        """The name that a model calls."""
        ...

    @property
    def schema(self) -> ToolSchema:
        """All that a model is told of the tool."""
        ...


class Trip:
    """One call on its way. `sent` holds the names that a model sends, `values` are the body's."""

    __slots__ = (
        "_call",
        "_context",
        "binder",
        "id",
        "labels",
        "made",
        "record",
        "sent",
        "tool",
        "values",
    )

    def __init__(
        self, tool: Travelled, binder: Binder, call: ToolCall, context: Context[Any] | None
    ) -> None:
        self.tool: Travelled = tool
        self.binder: Binder = binder
        self.sent: ToolCall = call
        self.id: str = call.id
        self.values: Any = _UNBOUND
        self.record: list[dict[str, str]] = []
        self.labels: tuple[Any, ...] = ()
        self._context = context
        self._call: ToolCall | None = None
        self.made: Context[Any] | None = None

    @property
    def call(self) -> ToolCall:
        """The call with canonical arguments: what hooks and guardrails see."""
        if self._call is None:
            canonical = self.binder.canonical(self.sent.arguments, self.values)
            self._call = with_arguments(self.sent, canonical)
        return self._call

    @property
    def view(self) -> Context[Any]:
        """The view of the context that belongs to this call."""
        if self.made is None:
            try:
                call = self.sent if self.values is _UNBOUND else self.call
            except ArgumentError:  # Of a wrapper: the inner tool has refused them, and says so.
                call = self.sent
            try:
                schema = self.tool.schema
            except DefinitionError:  # Binding has failed for the same reason, and says so.
                schema = None
            if self._context is None:  # No context was passed, so no view is needed.
                self.made = Context()
                self.made.call, self.made.schema, self.made.inner_sources = call, schema, []
            else:
                self.made = self._context.for_call(call, schema)
        return self.made

    @property
    def context(self) -> Context[Any]:
        """The view if a step has asked for it, else the context as it was passed."""
        return self.made or self._context or Context()

    def bind_canonical(self) -> None:
        """Validate a call that holds canonical arguments already."""
        arguments: Any = self.binder.sent_form(self.sent.arguments)
        self.sent = with_arguments(self.sent, arguments)
        self.values = self.binder.values(self.sent.arguments)

    def replace(self, new: ToolCall) -> None:
        """Go on with another call, validated again."""
        arguments = self.binder.sent_form(new.arguments)
        metadata = {**self.sent.metadata, **new.metadata}
        values = self.binder.values(arguments)
        self.sent = ToolCall(name=new.name, arguments=arguments, id=new.id, metadata=metadata)
        self.values, self._call = values, None
        self.view.call = self.call

    async def ask_hook(self, on_invoke: Any) -> None:
        """Let the tool's own hook see the call, or replace it."""
        call = self.call
        seen = fingerprint(call.arguments)
        new = await on_invoke(call, self.view)
        if new is not None and new is not call:
            self.replace(new)
        elif fingerprint(call.arguments) != seen:
            refuse_changed(on_invoke, self.record)

    async def ask_input(self, guardrails: Sequence[Any]) -> None:
        """Ask the input guardrails in order.

        A person who edited the arguments of a call did so after some guardrails had looked: all of
        them look again.
        """
        view, record, call = self.view, self.record, self.call
        at, edits, seen = 0, 0, fingerprint(call.arguments)
        while at < len(guardrails):
            guardrail = guardrails[at]
            at += 1
            answer = ask(guardrail, call, view, "input", record)
            if answer is not None:
                answer = await answered(answer, guardrail, call, "input", record)
            if answer is not None and answer is not call:
                self.replace(answer)
                decided, call = call.metadata.get("decision"), self.call
                seen = fingerprint(call.arguments)
                if call.metadata.get("decision") != decided and edits < len(guardrails):
                    at, edits = 0, edits + 1
            elif fingerprint(call.arguments) != seen:
                refuse_changed(guardrail, record)

    async def ask_output(self, guardrails: Sequence[Any], result: ToolResult) -> ToolResult:
        """Ask the output guardrails in order, and return what leaves."""
        view, record = self.view, self.record
        for guardrail in guardrails:
            answer = ask(guardrail, result, view, "output", record)
            if answer is not None:
                new = await answered(answer, guardrail, result, "output", record)
                result = with_matching_value(result, new)
        return result

    def note(self, result: ToolResult) -> None:
        """Keep what inner guardrails did, and labels, whatever becomes of a result."""
        self.record += noted_guardrails(result)
        self.label(result)

    def label(self, result: ToolResult) -> None:
        """Keep from which untrusted tools a result came, whatever takes its place."""
        names = metadata_of(result).get("sources", ())
        self.labels += tuple(names) if isinstance(names, (list, tuple)) else ()

    def conclude(self, result: ToolResult, untrusted: bool) -> ToolResult:
        """Write into the result what the road knows: guardrails, labels, a decision, the id."""
        if watched and self._context is not None:
            self._remember(result, untrusted)
        if result.metadata:
            self.label(result)
        if self.made is not None and self.made.inner_sources:
            self.labels += tuple(self.made.inner_sources)
        noted = self.made is not None and self.made.noted
        heard = untrusted or noted or self.record or self.labels or self.sent.metadata
        if heard and (told := self._told(untrusted)):
            return changed(result, call_id=self.id, metadata={**metadata_of(result), **told})
        return result if result.call_id == self.id else changed(result, call_id=self.id)

    def _told(self, untrusted: bool) -> dict[str, Any]:
        """Return what the road knows of the call, for the metadata of its result."""
        notes = (self.made and self.made.noted) or {}
        given = self.sent.metadata if isinstance(self.sent.metadata, Mapping) else {}
        told: dict[str, Any] = {**notes.get("metadata", {})}
        if self.record:
            told["guardrails"] = [*self.record]
        own = (self.tool.name,) if untrusted else ()
        if names := dict.fromkeys(map(str, (*own, *_labels_of(given), *self.labels))):
            told["sources"] = [*names]
            outer = None if self._context is None else self._context.inner_sources
            if outer is not None:  # This call is made inside of another one.
                outer += names
        if decision := notes.get("decision") or given.get("decision"):
            told["decision"] = decision
        return told

    def _remember(self, result: ToolResult, untrusted: bool) -> None:
        """Tell the guardrail on sources what a trusted tool returned."""
        metadata = self.sent.metadata if isinstance(self.sent.metadata, Mapping) else {}
        if not untrusted and not metadata.get("sources"):
            remember(self.context, result)


def _labels_of(metadata: Mapping[str, Any]) -> list[Any]:
    """Return the untrusted tools from which the arguments of a call came."""
    sources = metadata.get("sources")
    groups = sources.values() if isinstance(sources, Mapping) else ()
    return [name for group in groups if isinstance(group, (list, tuple)) for name in group]
