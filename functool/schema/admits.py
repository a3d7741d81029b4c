"""Find out what a JSON Schema allows: null, only containers, which types, which names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from functool.schema.json_schema import children, resolved
from functool.schema.shapes import TYPES, is_type, part_at, types_of, values_of

_DEEPEST = 8  # Unions may be recursive. No type that people write is nested more deeply.

Known = dict[tuple[str, int], set[str]]
"""The types that the lists in schemas allow, by the keyword and the id of each list."""


def types_allowed(schema: Any, root: Any, known: Known, depth: int = 0) -> set[str]:
    """Return the types that a JSON Schema allows. Its references point into `root`.

    A reference that leads nowhere, or back to itself, allows all. `known` keeps the answers for
    parts of `root` between calls.
    """
    node = resolved(root, schema)
    if not isinstance(node, Mapping) or depth > _DEEPEST:
        return set() if node is False else TYPES
    kinds = {*types_of(node)} if "type" in node else TYPES
    if "const" in node:
        kinds = kinds & _of_value(node["const"])
    for word in (w for w in ("enum", "anyOf", "oneOf", "allOf") if node.get(w) is not None):
        parts, joined = node[word], TYPES.intersection if word == "allOf" else set[str]().union
        if (key := (word, id(parts))) not in known:  # Many references may lead to the same list.
            known[key] = TYPES
            inner = (types_allowed(part, root, known, depth + 1) for part in parts)
            known[key] = joined(*(map(_of_value, parts) if word == "enum" else inner))
        kinds = kinds & known[key]
    return kinds


def only_containers(kinds: set[str]) -> bool:
    """Whether these types are lists or objects, maybe null, and nothing else."""
    return bool(kinds - {"null"}) and kinds <= {"null", "array", "object"}


def _of_value(value: Any) -> set[str]:
    return {kind for kind in TYPES if is_type(value, [kind])}


def kinds_of(root: Mapping[str, Any]) -> set[str]:
    """Return the types in a function's JSON Schema of arguments, at any depth below its root.

    The set also holds `any` if a part allows values, items or names of which it says nothing.
    """
    kinds: set[str] = set()
    todo = [*(part for _, part in children(root)), *root.get("$defs", {}).values()]
    for part in todo:  # It grows on the way.
        schema = {} if part is True else part
        if schema is not False:
            types, inner = {*types_of(schema)}, [child for _, child in children(schema)]
            is_told = inner or "$ref" in schema or values_of(schema) is not None
            kinds |= types if is_told or types - {"array", "object"} else {*types, "any"}
            todo += inner
    return kinds


def names_at(root: Any, steps: Sequence[Any], tuples: Any) -> list[str]:
    """Return the property names at the path `steps` of a schema. In a union, those of all members.

    `tuples` are the fields of named tuples, by their number: the schema shows a tuple as a list.
    """
    here = _with_members([root], root)
    for step in steps:
        here = _with_members([part_at(part, step, root) for part in here], root)
    fields = (tuples.get(len(part.get("prefixItems", ())), ()) for part in here)
    return [name for part in here for name in part.get("properties", ())] + [*chain(*fields)]


def _with_members(schemas: Sequence[Any], root: Any) -> list[Mapping[str, Any]]:
    """Return schemas and the members of their unions, without references."""
    found: list[Mapping[str, Any]] = []
    todo, seen = [*reversed(schemas)], set[int]()
    while todo:
        schema = todo.pop()
        part = resolved(root, schema)
        if isinstance(part, Mapping) and id(schema) not in seen:
            seen.add(id(schema))
            found.append(part)
            todo += reversed(part.get("anyOf") or part.get("oneOf") or ())
    return found
