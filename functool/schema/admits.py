"""Find out what a JSON Schema allows: null, only containers, which types, which names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from functool.schema.json_schema import children, resolved
from functool.schema.shapes import NAMES, entries, is_type, part_at, types_of, values_of

_DEEPEST = 8  # Unions may be recursive. No type that people write is nested more deeply.
TYPES = {*NAMES.values()}
_NUMBERS = ("integer", "number")


def admits_null(schema: Any, root: Any) -> bool:
    """Whether a JSON Schema allows null. Its references point into `root`."""
    return "null" in _admitted(schema, root, {})


def takes_only_containers(schema: Any, root: Any) -> bool:
    """Whether a JSON Schema allows a list or an object, maybe null, and nothing else."""
    kinds = _admitted(schema, root, {}) - {"null"}
    return bool(kinds) and kinds <= {"array", "object"}


def _admitted(schema: Any, root: Any, known: dict[int, set[str]], depth: int = 0) -> set[str]:
    """Return the types that a JSON Schema allows.

    A reference that leads nowhere, or back to itself, allows all. `known` holds the types by the id
    of each schema: many references may lead to the same one.
    """
    if id(schema) in known:
        return known[id(schema)]
    known[id(schema)] = TYPES
    node = resolved(root, schema)
    if not isinstance(node, Mapping) or depth > _DEEPEST:
        return set() if node is False else TYPES
    kinds = {*types_of(node)} if "type" in node else TYPES
    if (values := values_of(node)) is not None:
        kinds = {kind for kind in kinds if any(is_type(value, [kind]) for value in values)}
    for word in ("anyOf", "oneOf"):
        if word in node:
            inner = [_admitted(part, root, known, depth + 1) for part in node[word]]
            kinds = kinds & set().union(*inner)
    for part in node.get("allOf", ()):
        kinds = kinds & _admitted(part, root, known, depth + 1)
    known[id(schema)] = kinds
    return kinds


def kinds_of(root: Mapping[str, Any]) -> set[str]:
    """Return the types in a JSON Schema of arguments, at any depth below its root.

    The set also holds `any` if a part allows anything, the keywords `$ref`, `enum` and `const` if
    a part has them, and `listed number` if an `enum` or `const` lists a number.
    """
    kinds: set[str] = set()
    todo = [*root.get("$defs", {}).values(), *(part for _, part in children(root))]
    while todo:
        schema = todo.pop()
        if not isinstance(schema, Mapping):
            kinds |= {"any"} if schema is not False else set()
            continue
        named = schema.get("type", [])
        found = {*(named if isinstance(named, list) else [named])}
        found |= schema.keys() & {"$ref", "enum", "const"}
        parts = [part for _, part in children(schema) if part is not False]
        if not parts and found <= {"array", "object"}:
            found.add("any")
        choices = (*schema.get("enum", ()), schema.get("const"))
        if any(type(choice) in (int, float) for choice in choices):
            found.add("listed number")
        kinds |= found
        todo += parts
    return kinds


def find_bool_for_number(
    value: Any, schema: Any, root: Any, path: tuple[Any, ...] = ()
) -> tuple[tuple[Any, ...], str] | None:
    """Find a bool, or a text that pydantic reads as NaN or infinity, where a number is expected.

    Returns:
        The path of that value and what is expected there, or None.
    """
    schema = resolved(root, schema)
    if not isinstance(schema, Mapping):
        return None
    if members := _members(schema):
        likely = [member for member in members if _may_match(value, resolved(root, member))]
        found = [find_bool_for_number(value, member, root, path) for member in likely]
        return found[0] if found and all(found) else None
    kind = schema.get("type")
    if isinstance(value, bool):
        if kind in _NUMBERS:
            return path, f"{'an' if kind == 'integer' else 'a'} {kind}, not a boolean"
        if kind == "string" and "format" in schema:  # pydantic reads `true` as the address 0.0.0.1.
            return path, f"a valid {schema['format']}, not a boolean"
        choices = schema.get("enum", [schema["const"]] if "const" in schema else [value])
        if all(choice is not value for choice in choices):
            return path, "one of the choices, not a boolean"
    if kind == "number" and not _is_finite(value):
        return path, "a finite number"
    parts = ((key, item, part_at(schema, key, root)) for key, item in entries(value))
    hits = (find_bool_for_number(item, part, root, (*path, key)) for key, item, part in parts)
    return next(filter(None, hits), None)


def names_at(schema: Any, steps: Sequence[Any], root: Any) -> list[str]:
    """Return the property names at the path `steps`. In a union, those of all members."""
    schema = resolved(root, schema)
    if not isinstance(schema, Mapping):
        return []
    found = [name for member in _members(schema) for name in names_at(member, steps, root)]
    if not steps:
        return [*found, *schema.get("properties", ())]
    return [*found, *names_at(part_at(schema, steps[0], root), steps[1:], root)]


def _members(schema: Mapping[str, Any]) -> Any:
    return schema.get("anyOf") or schema.get("oneOf") or ()


def _may_match(value: Any, schema: Any) -> bool:
    """Whether a value may belong to a member of a union, by type. Any scalar may be a number."""
    named = schema.get("type") if isinstance(schema, Mapping) else None
    if named in _NUMBERS:
        return not isinstance(value, (list, dict))
    return not isinstance(named, str) or named == NAMES[type(value)]


def _is_finite(value: Any) -> bool:
    try:
        return not isinstance(value, (str, int)) or isfinite(float(value))
    except OverflowError:
        return False
    except ValueError:
        return True
