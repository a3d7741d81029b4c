"""`trusted_only`: the guardrail that checks where the values of arguments come from."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import Any

from functool.approval import MODEL, asked, defaults_of, escaped, is_texts, same_json
from functool.call import ToolCall, ToolResult, ToolSchema, changed, cut_str, metadata_of, to_json
from functool.context import Context
from functool.errors import DefinitionError, GuardrailError
from functool.executors import inline
from functool.guardrails.approval import require_approval
from functool.guardrails.asking import InputGuardrail, arguments_of
from functool.schema.json_schema import property_names

Wrote = Callable[[Context[Any]], "str | Iterable[str]"]

# The key in `context.state` of the texts that trusted tools have returned.
_RETURNED = "functool.trusted_only:returned"
_SHORT = 200  # Characters of a text that is remembered.
_MOST = 10_000  # Texts that are remembered in one context.
_NAMED = 50  # Places in one argument that a refusal or a request names.

SHOWS_OTHERS = "functool.trusted_only:shows others"
"""A key in the notes of a call whose result may show what others, or a model, wrote."""

# For each agent that runs around this code, the labels of its call. An agent's framework calls
# tools without the context of the agent's own call.
agents: ContextVar[tuple[list[str], ...]] = ContextVar("functool_agents", default=())

wanted_results: set[str] = set()
"""Not empty once a guardrail needs the results of trusted tools. Then the road calls `remember`."""


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
        DefinitionError: An argument is not a name, or `wrote` is not callable.
    """
    _check(arguments, wrote)
    if wrote is not None:
        wanted_results.add(_RETURNED)
    approval: Any = require_approval()

    async def untrusted(call: ToolCall, context: Context[Any]) -> dict[str, list[str]]:
        """Return the sources of each untrusted value, by its JSON pointer."""
        given = arguments_of(call, context, arguments)
        labels = _labels(call)
        places = {f"/{escaped(name)}" for name in given}
        suspect = {
            place: sources
            for place, sources in labels.items()
            if given and (not place or f"/{place[1:].partition('/')[0]}" in places)
        }
        if wrote is None:
            return suspect
        answer = await inline(wrote, context)
        texts = [answer] if isinstance(answer, str) else [str(text) for text in answer]
        known = context.state.get(_RETURNED, ())
        is_known = cache(lambda text: _is_known(text, texts, known))
        plain = context.schema.plain if context.schema else {}
        is_open = plain.get("additionalProperties") is not False
        own = context.schema.arguments if context.schema else ()
        named = {*property_names(plain), *own, *(arguments if is_open else given)}
        defaults = defaults_of(context.schema) if context.schema else {}
        for name, value in given.items():
            if name in defaults and same_json(value, defaults[name]):
                continue
            unknown = _unknown_places((name, value), named, labels, is_known)
            suspect |= {place: [MODEL] for place in unknown}
        return suspect

    async def trusted_only(call: ToolCall, context: Context[Any]) -> ToolCall | None:
        suspect = await untrusted(call, context)
        labels = _labels(call) | suspect
        # Somebody may have decided about this call when more of it was suspect.
        decided = _decided(call, context, labels) if ask else {}
        if not (suspect or decided) or (ask and _is_decided(context.decision or {}, call)):
            return None
        if ask:
            marked = replace(call, metadata={**call.metadata, "sources": decided or labels})
            answer: ToolCall | None = await approval(marked, context)
            return answer
        raise _refusal(suspect)

    if ask:

        async def asks(call: ToolCall, context: Context[Any]) -> bool:
            return bool(await untrusted(call, context))

        trusted_only.asks_approval = asks  # type: ignore[attr-defined]
    return trusted_only


def _check(arguments: tuple[str, ...], wrote: Any) -> None:
    if not all(isinstance(name, str) and name for name in arguments):
        raise DefinitionError("trusted_only takes names of arguments: trusted_only('to', 'amount')")
    if wrote is not None and not callable(wrote):
        raise DefinitionError(f"wrote must be a callable, not {type(wrote).__name__}")


def _refusal(suspect: Mapping[str, list[str]]) -> GuardrailError:
    blame = [f"{at or 'all of it'} is from {', '.join(names)}" for at, names in suspect.items()]
    rule = "its values have to come from the user or from a trusted tool"
    text = f"The call was refused: {rule}, and {'; '.join(blame)[:1000]}."
    return GuardrailError(text, details={"sources": suspect})


def _unknown_places(
    argument: tuple[str, Any],
    named: Collection[str],
    labels: Collection[str],
    is_known: Callable[[str], bool],
) -> list[str]:
    """Return the places without a label of the values that are not known: at most 50 and the top.

    The name of an argument is such a value as well, unless it is `named`.
    """
    leaves = _leaves(dict([argument]), "", named)
    bare = (part for part in leaves if not _is_labelled(part[0], labels))
    found = (place for place, item in bare if not is_known(_text(item)))
    places = [*islice(found, _NAMED + 1)]
    # A person cannot read more places than that, so the whole argument is named beside them.
    return [*places[:_NAMED], f"/{escaped(argument[0])}"] if len(places) > _NAMED else places


def remember(
    context: Context[Any], result: ToolResult, call: ToolCall, bind: Callable[..., Any]
) -> None:
    """Remember the short values of a trusted tool's result. A result with a label is skipped.

    A tool may repeat its arguments, which a model has written. So values that are also in the
    arguments are skipped, in the form that was sent and in the form that the body got. `bind` reads
    `call` again, because the body may have changed the values that it got.
    """
    if result.error is not None or metadata_of(result).get("sources") or _labels(call):
        return
    if SHOWS_OTHERS in context.notes:
        return
    known: set[Any] = context.state.setdefault(_RETURNED, set())
    data = result.text if result.value is None else result.value
    with suppress(ValueError):  # As JSON, each field of a model is a value.
        data = json.loads(to_json(data))
    texts = (_text(value) for _, value in _leaves(data, ""))
    new = [t for t in texts if len(t) <= _SHORT and t not in known]
    if new and len(known) < _MOST:  # To read the arguments again takes as long as the call.
        values, arguments = bind(call.arguments)
        forms = (arguments, json.loads(to_json(values)))
        sent = {_text(value) for form in forms for _, value in _leaves(form, "")}
        known.update(islice((t for t in new if t not in sent), _MOST - len(known)))


def labels_on(result: ToolResult) -> tuple[str, ...]:
    """Return the untrusted tools that a result says it came from.

    An author may have set its metadata to anything: `sources` may be a number of documents.
    """
    names = metadata_of(result).get("sources", ())
    return tuple(map(cut_str, names)) if isinstance(names, (list, tuple)) else ()


def with_labels_of(result: ToolResult, new: ToolResult) -> ToolResult:
    """Return the result that replaces another one, with the labels of both."""
    if new is result:
        return new
    names = [*dict.fromkeys((*labels_on(result), *labels_on(new)))]
    return changed(new, metadata={**metadata_of(new), "sources": names}) if names else new


def labels_of(call: ToolCall) -> list[Any]:
    """Return the untrusted tools that the arguments of a call came from.

    Labels that cannot be read are left out: the call has been refused for them, or will be.
    """
    metadata: Any = call.metadata
    labels = metadata.get("sources") if isinstance(metadata, Mapping) else None
    groups = labels.values() if isinstance(labels, Mapping) else ()
    return [name for group in groups if isinstance(group, (list, tuple)) for name in group]


def has_sources(call: ToolCall) -> bool:
    """Whether a call has labels. A host may have set its metadata to anything.

    Raises:
        GuardrailError: The labels cannot be read, so nobody knows which values are trusted.
    """
    metadata: Any = call.metadata
    sources = metadata.get("sources") if isinstance(metadata, Mapping) else None
    if sources is None:
        return False
    if not (isinstance(sources, Mapping) and all(map(is_texts, [[*sources], *sources.values()]))):
        wrong = "the host's labels cannot be read: `sources` maps JSON pointers to lists of names"
        raise GuardrailError(f"The call was refused: {wrong}.")
    return True


def placed(call: ToolCall, canonical: Iterable[str], schema: ToolSchema) -> dict[str, Any]:
    """Return the metadata of a call with its labels at the places of the canonical arguments.

    A label of an alias moves to the parameter. A label whose place nobody knows, such as a place in
    the strict form, moves to the whole call. `canonical` are the names of the canonical arguments.
    An argument that was sent as null may be missing among them.
    """
    found: dict[str, Any] = {}
    known, names = schema.plain.get("properties", ()), schema.names
    # A name that only the strict form has is not that of an argument.
    own = {*canonical} - (schema.parameters.get("properties", {}).keys() - known)
    for place, labels in call.metadata["sources"].items():
        head = place[1:].partition("/")[0]
        name = head.replace("~1", "/").replace("~0", "~")
        at = {names.get(name, name), name} & own if place else ()
        there = {f"/{escaped(each)}{place[1 + len(head) :]}" for each in at}
        for each in there or [place if name in known else ""]:
            found[each] = [*dict.fromkeys((*found.get(each, ()), *labels))]
    return {**call.metadata, "sources": found}


def _labels(call: ToolCall) -> dict[str, list[str]]:
    labels = call.metadata["sources"] if has_sources(call) else {}
    return {place: [*names] for place, names in labels.items()}


def _decided(call: ToolCall, context: Context[Any], labels: Any) -> dict[str, list[str]]:
    """Return the labels with which somebody has decided about a call that has these labels."""
    if not context.has_decision() or context.schema is None:
        return {}
    arguments: Any = call.arguments
    return context.decided_labels(asked(context.schema, arguments, call.id, labels))


def _is_decided(decision: Mapping[str, Any], call: ToolCall) -> bool:
    """Whether a person wrote exactly these arguments, or has just approved them."""
    wanted = decision.get("arguments") if decision.get("approved") else None
    return wanted is not None and same_json(wanted, call.arguments)


def _is_labelled(place: str, labels: Collection[str]) -> bool:
    """Whether a place, or one above it, has a label. There may be as many labels as values."""
    while place and place not in labels:
        place = place.rpartition("/")[0]
    return place in labels


def _leaves(value: Any, at: str, named: Collection[str] = (), depth: int = 0) -> Iterator[Any]:
    """Yield each text and number in a value, with its JSON pointer.

    The keys of objects are texts as well, except those that the schema has `named`.
    """
    if isinstance(value, Mapping) and depth < 100:
        for key, item in value.items():
            place = f"{at}/{escaped(str(key))}"
            if key not in named:
                yield place, key
            yield from _leaves(item, place, named, depth + 1)
    elif isinstance(value, (list, tuple, set, frozenset)) and depth < 100:
        for index, item in enumerate(value):
            yield from _leaves(item, f"{at}/{index}", named, depth + 1)
    elif value is not None and not isinstance(value, bool):
        yield at, value


def _is_known(text: str, texts: Iterable[str], known: Any) -> bool:
    """Whether the user wrote a value, or a trusted tool returned it."""
    return not text.strip() or text in known or any(_contains(written, text) for written in texts)


def _contains(written: str, text: str) -> bool:
    """Whether a text occurs in another one as whole words."""
    start = written.find(text)
    while start >= 0:
        end = start + len(text)
        within_left = written[start - 1 : start].isalnum() and text[0].isalnum()
        within_right = written[end : end + 1].isalnum() and text[-1].isalnum()
        if not (within_left or within_right):
            return True
        start = written.find(text, start + 1)
    return False


def _text(value: Any) -> str:
    """Return a value as text for comparison. 5 and 5.0 give the same text."""
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)
