"""Labels: the names of the untrusted tools behind the values of a call, or behind a result.

`call.metadata["sources"]` maps JSON pointers into the arguments to lists of names. The pointer ""
is the whole call. `result.metadata["sources"]` is a list of names. So the key of the labels is
`sources`, in calls, results and requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from typing import Any

from functool.call import ToolCall, ToolResult, ToolSchema, changed, cut_str, metadata_of
from functool.errors import GuardrailError
from functool.json_values import is_texts
from functool.pointers import escaped, unescaped

SHOWS_OTHERS = "functool.trusted_only:shows others"
"""A key in the notes of a call whose result may show what others, or a model, wrote."""

# For each agent that runs around this code, the labels of its call. An agent's framework calls
# tools without the context of the agent's own call.
agents: ContextVar[tuple[list[str], ...]] = ContextVar("functool_agents", default=())


def result_labels(result: ToolResult) -> tuple[str, ...]:
    """Return the untrusted tools that a result says it came from.

    An author may have set its metadata to anything: `sources` may be a number of documents.
    """
    names = metadata_of(result).get("sources", ())
    return tuple(map(cut_str, names)) if isinstance(names, (list, tuple)) else ()


def with_labels_of(result: ToolResult, new: ToolResult) -> ToolResult:
    """Return the result that replaces another one, with the labels of both."""
    if new is result:
        return new
    names = [*dict.fromkeys((*result_labels(result), *result_labels(new)))]
    return changed(new, metadata={**metadata_of(new), "sources": names}) if names else new


def call_labels(call: ToolCall) -> list[Any]:
    """Return the untrusted tools that the arguments of a call came from.

    Labels that cannot be read are left out: the call has been refused for them, or will be.
    """
    labels = metadata_of(call).get("sources")
    groups = labels.values() if isinstance(labels, Mapping) else ()
    return [name for group in groups if isinstance(group, (list, tuple)) for name in group]


def has_labels(call: ToolCall) -> bool:
    """Whether a call has labels. A host may have set its metadata to anything.

    Raises:
        GuardrailError: The labels cannot be read, so nobody knows which values are trusted.
    """
    sources = metadata_of(call).get("sources")
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
        name = unescaped(head)
        at = {names.get(name, name), name} & own if place else ()
        there = {f"/{escaped(each)}{place[1 + len(head) :]}" for each in at}
        for each in there or [place if name in known else ""]:
            found[each] = [*dict.fromkeys((*found.get(each, ()), *labels))]
    return {**call.metadata, "sources": found}


def by_place(call: ToolCall) -> dict[str, list[str]]:
    """Return a copy of the labels of a call.

    Raises:
        GuardrailError: The labels cannot be read.
    """
    labels = call.metadata["sources"] if has_labels(call) else {}
    return {place: [*names] for place, names in labels.items()}
