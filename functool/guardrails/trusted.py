"""`trusted_only`: the guardrail that checks where the values of arguments come from."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import chain, islice
from typing import Any

from functool.approval import MODEL, defaults_of, request_for
from functool.call import ToolCall, ToolResult, metadata_of, to_json
from functool.context import Context
from functool.errors import ArgumentError, DefinitionError, GuardrailError
from functool.executors import inline
from functool.guardrails.approval import require_approval
from functool.guardrails.asking import InputGuardrail, arguments_of, callables, leaves
from functool.guardrails.labels import SHOWS_OTHERS, by_place
from functool.json_values import paused_gc, same_json
from functool.large import in_thread_if, is_large
from functool.pointers import argument_at, escaped
from functool.schema.json_schema import property_names

Wrote = Callable[[Context[Any]], "str | Iterable[str]"]
Texts = Collection[str]
Sent = Iterable[tuple[Any, Callable[[Any], Iterable[Any]]]]

# The key in `context.state` of the texts that trusted tools have returned.
_RETURNED = "functool.trusted_only:returned"
SENT = "functool.trusted_only:sent"
"""The key in the notes of a wrapper's call of what the tools inside of it got: see `remember`."""
_SHORT = 200  # Characters of a text that is remembered.
_MOST = 10_000  # Texts that are remembered in one context.
_NAMED = 50  # Places in one argument that a refusal or a request names.
_NAMES = 65_536  # Characters of all these names.

wanted_results: set[str] = set()
"""Not empty once a guardrail needs the results of trusted tools. Then the road calls `remember`.

It is a set, because a file that imports a bool gets a copy that never changes.
"""


def trusted_only(*arguments: str, ask: bool = False, wrote: Wrote | None = None) -> InputGuardrail:
    """Return a guardrail that allows only trusted values in these arguments.

    A value with a label in `call.metadata["sources"]` comes from an untrusted tool. A value without
    a label is trusted. With `wrote`, it is trusted only if it occurs in what the user wrote, if it
    is the default, or if it is a complete short value that a trusted tool returned in this context.
    What the tool got as an argument itself does not count. A key that the schema does not name is a
    value as well.

    Args:
        *arguments: Names of arguments; by default all arguments.
        ask: True asks a person, as `require_approval` does, and shows the source of each value;
            False refuses the call.
        wrote: `wrote(context)`, sync or async, returns what the user wrote: one text or several.

    Raises:
        DefinitionError: An argument is not a name, or `wrote` cannot be called with a context.
    """
    if not all(isinstance(name, str) and name for name in arguments):
        raise DefinitionError("trusted_only takes names of arguments: trusted_only('to', 'amount')")
    callables([] if wrote is None else [wrote], "wrote", ("context",))
    if wrote is not None:
        wanted_results.add(_RETURNED)
    approval: Any = require_approval()

    async def untrusted(call: ToolCall, context: Context[Any]) -> dict[str, list[str]]:
        """Return the sources of each untrusted value, by its JSON pointer."""
        given = arguments_of(call, context, arguments)
        labels = by_place(call)
        seen = {None, *given} if given else set()
        suspect = {place: names for place, names in labels.items() if argument_at(place) in seen}
        if wrote is not None:
            answer = await inline(wrote, context)
            texts = [answer] if isinstance(answer, str) else [str(text) for text in answer]
            unknown = _unknown_places(given, arguments, labels, texts, context)
            places = await in_thread_if(is_large(call), paused_gc, tuple[str], unknown)
            suspect |= {place: [MODEL] for place in places}
        return suspect

    async def trusted_only(call: ToolCall, context: Context[Any]) -> ToolCall | None:
        suspect = await untrusted(call, context)
        labels = by_place(call) | suspect
        # Somebody may have decided about this call when more of it was suspect.
        decided = _decided(call, context, labels) if ask else {}
        if not (suspect or decided) or (ask and _approved_exactly(context.decision or {}, call)):
            return None
        if ask:
            marked = replace(call, metadata={**call.metadata, "sources": decided or labels})
            new: ToolCall | None = await approval(marked, context)
            # The marks are for the person. An edited call keeps the labels of its tools only.
            return new and replace(new, metadata={**call.metadata, "decision": context.decision})
        raise _refusal(suspect)

    if ask:

        async def asks(call: ToolCall, context: Context[Any]) -> bool:
            return bool(await untrusted(call, context))

        trusted_only.asks_approval = asks  # type: ignore[attr-defined]
    return trusted_only


def _refusal(suspect: Mapping[str, list[str]]) -> GuardrailError:
    blame = [f"{at or 'all of it'} is from {', '.join(names)}" for at, names in suspect.items()]
    rule = "its values have to come from the user or from a trusted tool"
    text = f"The call was refused: {rule}, and {'; '.join(blame)[:1000]}."
    return GuardrailError(text, details={"sources": suspect})


def _unknown_places(
    given: Mapping[str, Any], chosen: Texts, labels: Texts, texts: Texts, context: Context[Any]
) -> Iterator[str]:
    """Yield the places of the values without a label that neither the user nor a tool wrote.

    `texts` are what the user wrote. The name of an argument is such a value as well, unless it is
    in the schema or among the names that the guardrail's author has `chosen`. A person cannot read
    many places. So at most 50 of an argument are named, and if there are more, the whole argument
    as well. If the names of the places are too long together, the whole call is named.
    """
    left = _NAMES
    known = context.state.get(_RETURNED, ())
    is_known = cache(lambda text: _is_known(text, texts, known))
    plain = context.schema.plain if context.schema else {}
    is_open = plain.get("additionalProperties") is not False
    own = context.schema.arguments if context.schema else ()
    named = {*property_names(plain), *own, *(chosen if is_open else given)}
    defaults, labelled = defaults_of(context.schema) if context.schema else {}, _as_tree(labels)
    for name, value in given.items():
        if name in defaults and same_json(value, defaults[name]):
            continue
        parts = leaves({name: value}, named, labelled)
        found = (_pointer(place) for place, item in parts if not is_known(_text(item)))
        rest = (f"/{escaped(name)}" for _ in islice(found, 1))
        for place in chain(islice(found, _NAMED), rest):
            left -= len(place)
            if left < 0:
                yield ""
                return
            yield place


def remember(context: Context[Any], result: ToolResult, call: ToolCall, sent: Sent) -> None:
    """Remember the short values of a trusted tool's result. A result with a label is skipped.

    A tool may repeat its arguments, which a model has written. So values that are also in the
    arguments are skipped, in the form that was sent and in the form that the body got. `sent` holds
    the arguments of the call, and what wrappers and guardrails have made of them, each with the
    function that reads them again: the body may have changed the values that it got.
    """
    labelled = metadata_of(result).get("sources") or by_place(call)
    if labelled or result.error is not None or SHOWS_OTHERS in context.notes:
        return
    known: set[Any] = context.state.setdefault(_RETURNED, set())
    data: Any = to_json(result.text if result.value is None else result.value)
    with suppress(ValueError):  # As JSON, each field of a model is a value.
        data = json.loads(data)
    texts = (_text(value) for _, value in leaves([data]))
    new = [t for t in texts if len(t) <= _SHORT and t.strip() and t not in known]
    if new and len(known) < _MOST:  # To read the arguments again takes as long as the call.
        forms: list[Any] = []
        for given, bind in sent:
            with suppress(ArgumentError):  # A wrapper has made valid arguments of them.
                forms += bind(given)
        repeated = {_text(value) for _, value in leaves(json.loads(to_json(forms)))}
        if forms:
            known.update(islice((t for t in new if t not in repeated), _MOST - len(known)))


def _decided(call: ToolCall, context: Context[Any], labels: Any) -> dict[str, list[str]]:
    """Return the labels with which somebody has decided about a call that has these labels."""
    if not context.has_decision() or context.schema is None:
        return {}
    return context.decided_labels(request_for(context.schema, call.arguments, call.id, labels))


def _approved_exactly(decision: Mapping[str, Any], call: ToolCall) -> bool:
    """Whether a person wrote exactly these arguments, or has just approved them."""
    wanted = decision.get("arguments") if decision.get("approved") else None
    return wanted is not None and same_json(wanted, call.arguments)


def _as_tree(pointers: Iterable[str]) -> dict[Any, Any]:
    """Return JSON pointers as nested dicts by step. A key None marks the end of a pointer."""
    tree: dict[Any, Any] = {}
    for each in pointers:
        node = tree
        for step in (*each.split("/")[1:], None):
            node = node.setdefault(step, {})
    return tree


def _pointer(place: Any) -> str:
    """Return a place of `leaves` as a JSON pointer."""
    return f"{_pointer(place[0])}/{escaped(str(place[1]))}" if place else ""


def _is_known(text: str, texts: Iterable[str], known: Any) -> bool:
    """Whether the user wrote a value, or a trusted tool returned it."""
    return not text.strip() or text in known or any(_contains(written, text) for written in texts)


def _contains(written: str, text: str) -> bool:
    """Whether a text occurs in another one as whole words."""
    start = -1
    while (start := written.find(text, start + 1)) >= 0:
        end = start + len(text)
        within_left = written[start - 1 : start].isalnum() and text[0].isalnum()
        within_right = written[end : end + 1].isalnum() and text[-1].isalnum()
        if not (within_left or within_right):
            return True
    return False


def _text(value: Any) -> str:
    """Return a value as text to compare. 5 and 5.0 give the same text, and a bool gives none."""
    is_whole = isinstance(value, float) and value.is_integer()
    return "" if isinstance(value, bool) else str(int(value) if is_whole else value)
