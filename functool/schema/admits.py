"""Find out what a JSON Schema allows: null, only containers, which types, which names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from math import isfinite
from typing import Any

from functool.schema.json_schema import UNSET, children, resolved
from functool.schema.shapes import NAMES, TYPES, entries, is_type, part_at, types_of, values_of

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
    """Return the types in a JSON Schema of arguments, at any depth below its root.

    The set also holds `any` if a part allows anything, `$ref` if a part is a reference, `regex` if
    it is a pattern, and `listed number` if an `enum` or `const` lists a number.
    """
    kinds: set[str] = set()
    todo = [*root.get("$defs", {}).values(), *(part for _, part in children(root))]
    while todo:
        schema = todo.pop()
        if not isinstance(schema, (dict, Mapping)):
            kinds |= {"any"} if schema is not False else set()
            continue
        named, choices = schema.get("type", ()), values_of(schema)
        types = {named} if isinstance(named, str) else {*named}
        types |= {"$ref"} if "$ref" in schema else set()
        parts = [part for _, part in children(schema) if part is not False]
        if not parts and choices is None and types <= {"array", "object"}:
            types.add("any")
        if choices and any(type(choice) in (int, float) for choice in choices):
            types.add("listed number")
        types |= {"regex"} if schema.get("format") == "regex" else set()
        kinds |= types
        todo += parts
    return kinds


def find_bool_for_number(
    value: Any,
    schemas: Sequence[Any],
    root: Any,
    path: tuple[Any, ...] = (),
    memo: dict[tuple[Any, ...], Any] | None = None,
) -> tuple[tuple[Any, ...], str] | None:
    """Find a bool, or a text that pydantic reads as NaN or infinity, where a number is expected.

    Args:
        value: The value at one place of the arguments.
        schemas: The schemas of this place. In a union there are several.
        root: The schema that references point into.
        path: The place.
        memo: The members of the schemas of each place, for each type of value. Many places have the
            same schemas.

    Returns:
        The path of that value and what is expected there, or None.
    """
    if not isinstance(value, (bool, dict, list)) and _is_finite(value):
        return None
    memo, kind = {} if memo is None else memo, NAMES[type(value)]
    if (ids := (kind, *map(id, schemas))) not in memo:
        here = [part for part in _with_members(schemas, root) if not _members(part)]
        if isinstance(value, (dict, list)):  # Only the schemas of such a value have parts of it.
            here = [part for part in here if kind in types_allowed(part, root, {})]
        memo[ids] = ([] if {} in here else here, schemas)  # An id is unique while its object lives.
    if not (here := memo[ids][0]):
        return None
    if isinstance(value, (dict, list)):
        for key, item in entries(value):
            inner = [part_at(part, key, root) for part in here]
            if found := find_bool_for_number(item, inner, root, (*path, key), memo):
                return found
        return None
    refusals = [_refusal(value, part) for part in here]
    if None in refusals or not any(refusals):
        return None
    return path, next(filter(None, refusals))


def _refusal(value: Any, schema: Mapping[str, Any]) -> str | None:
    """Return what a schema expects instead of a bool, or of a number that is not finite.

    It is None if the schema allows the value, and "" if pydantic itself refuses it.
    """
    kind, choices = schema.get("type"), values_of(schema)
    if isinstance(value, bool):
        if kind in ("integer", "number"):
            return f"{'an' if kind == 'integer' else 'a'} {kind}, not a boolean"
        if kind == "string" and "format" in schema:  # pydantic reads `true` as the address 0.0.0.1.
            return f"a valid {schema['format']}, not a boolean"
        if choices is not None and all(choice is not value for choice in choices):
            return "one of the choices, not a boolean"
    elif kind == "number":
        return "a finite number"
    return "" if isinstance(kind, str) and kind != NAMES[type(value)] else None


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
    """Return schemas and the members of their unions, without references, each once.

    A schema that allows everything is an empty one.
    """
    found: dict[int, Mapping[str, Any]] = {}
    todo, seen = [*reversed(schemas)], set[int]()
    while todo:
        schema = todo.pop()
        if id(schema) in seen:
            continue
        seen.add(id(schema))
        part = resolved(root, schema)
        part = {} if part is True or part is UNSET else part
        if isinstance(part, Mapping) and id(part) not in found:
            found[id(part)] = part
            todo += reversed(_members(part))
    return [*found.values()]


def _members(schema: Mapping[str, Any]) -> Any:
    return schema.get("anyOf") or schema.get("oneOf") or ()


def _is_finite(value: Any) -> bool:
    try:
        return not isinstance(value, (str, int)) or isfinite(float(value))
    except OverflowError:
        return False
    except ValueError:
        return True
