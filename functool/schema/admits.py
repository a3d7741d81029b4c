"""Find out what a JSON Schema allows: null, only containers, which types, which names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

from functool.schema.json_schema import UNSET, children, resolved

_NUMBERS = {"integer", "number"}
_MEANT: dict[type, set[str]] = {
    bool: {"boolean"} | _NUMBERS,
    int: _NUMBERS,
    str: {"string"} | _NUMBERS,
    list: {"array"},
    dict: {"object"},
}


def admits_null(schema: Any, root: Any, known: dict[int, bool] | None = None) -> bool:
    """Whether a JSON Schema allows null. Its references point into `root`.

    `known` keeps the answers for parts of `root`. A union may use the same part many times.
    """
    return _remembered(_admits_null, schema, root, {} if known is None else known, True)


def takes_only_containers(schema: Any, root: Any, known: dict[int, bool] | None = None) -> bool:
    """Whether a JSON Schema allows a list or an object, maybe null, and nothing else.

    `known` is as in `admits_null`.
    """
    return _remembered(_takes_containers, schema, root, {} if known is None else known, False)


def _remembered(
    ask: Callable[[Any, Any, dict[int, bool]], bool],
    schema: Any,
    root: Any,
    known: dict[int, bool],
    of_itself: bool,
) -> bool:
    """Return an answer, which is computed once. A union that contains itself is `of_itself`."""
    key = id(schema)
    if key not in known:
        known[key] = of_itself
        known[key] = ask(resolved(root, schema), root, known)
    return known[key]


def _admits_null(schema: Any, root: Any, known: dict[int, bool]) -> bool:
    if schema is True or schema is UNSET:
        return True
    if not isinstance(schema, Mapping):
        return False
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            return any(admits_null(member, root, known) for member in schema[keyword])
    if not all(admits_null(member, root, known) for member in schema.get("allOf", ())):
        return False
    if "const" in schema:
        return schema["const"] is None
    if "enum" in schema and None not in schema["enum"]:
        return False
    kinds = schema.get("type", "null")
    return kinds == "null" or (isinstance(kinds, list) and "null" in kinds)


def _takes_containers(schema: Any, root: Any, known: dict[int, bool]) -> bool:
    if not isinstance(schema, Mapping):
        return False
    if members := _members(schema):
        rest = [member for member in members if member != {"type": "null"}]
        return bool(rest) and all(takes_only_containers(m, root, known) for m in rest)
    kinds = schema.get("type")
    kinds = set(kinds if isinstance(kinds, list) else [kinds]) - {"null"}
    return bool(kinds) and kinds <= {"array", "object"}


def kinds_of(schemas: Iterable[Any]) -> set[str]:
    """Return the types in JSON Schemas at any depth.

    The set also holds `any` if a schema allows anything, the keywords `$ref`, `enum` and `const` if
    a schema has them, and `listed number` if an `enum` or `const` lists a number.
    """
    kinds: set[str] = set()
    todo = [*schemas]
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
    value: Any,
    schema: Any,
    root: Any,
    path: tuple[Any, ...] = (),
    known: dict[tuple[int, int], Any] | None = None,
) -> tuple[tuple[Any, ...], str] | None:
    """Find a bool, or a text that pydantic reads as NaN or infinity, where a number is expected.

    `known` keeps the answers for lists and objects: members of a recursive union look at the same
    ones.

    Returns:
        The path of that value and what is expected there, or None.
    """
    if not isinstance(value, (dict, list)):
        return _bool_for_number(value, schema, root, path, {})
    known, key = {} if known is None else known, (id(value), id(schema))
    if key not in known:
        known[key] = None
        known[key] = _bool_for_number(value, schema, root, path, known)
    found: tuple[tuple[Any, ...], str] | None = known[key]
    return found


def _bool_for_number(
    value: Any, schema: Any, root: Any, path: tuple[Any, ...], known: dict[tuple[int, int], Any]
) -> tuple[tuple[Any, ...], str] | None:
    schema = resolved(root, schema)
    if not isinstance(schema, Mapping):
        return None
    if members := _members(schema):
        likely = [member for member in members if _may_match(value, resolved(root, member))]
        found = [find_bool_for_number(value, member, root, path, known) for member in likely]
        return found[0] if found and all(found) else None
    kind = schema.get("type")
    if isinstance(value, bool):
        if kind in ("integer", "number"):
            return path, f"{'an' if kind == 'integer' else 'a'} {kind}, not a boolean"
        if kind == "string" and "format" in schema:  # pydantic reads `true` as the address 0.0.0.1.
            return path, f"a valid {schema['format']}, not a boolean"
        choices = schema.get("enum", [schema["const"]] if "const" in schema else [value])
        if all(choice is not value for choice in choices):
            return path, "one of the choices, not a boolean"
    if kind == "number" and not _is_finite(value):
        return path, "a finite number"
    parts = ((k, item, part) for k, item in _items(value) if (part := _part_at(schema, k)))
    hits = (find_bool_for_number(item, part, root, (*path, k), known) for k, item, part in parts)
    return next(filter(None, hits), None)


def names_at(schema: Any, steps: Sequence[Any], root: Any) -> list[str]:
    """Return the property names at the path `steps`. In a union, those of all members."""
    here = _with_members([schema], root)
    for step in steps:
        here = _with_members([_part_at(part, step) for part in here], root)
    return [name for part in here for name in part.get("properties", ())]


def _with_members(schemas: list[Any], root: Any) -> list[Mapping[str, Any]]:
    """Return schemas and the members of their unions, without references, each once."""
    found: dict[int, Mapping[str, Any]] = {}
    todo, seen = [*reversed(schemas)], set[int]()
    while todo:
        schema = todo.pop()
        if id(schema) in seen:
            continue
        seen.add(id(schema))
        part = resolved(root, schema)
        if isinstance(part, Mapping) and id(part) not in found:
            found[id(part)] = part
            todo += reversed(_members(part))
    return [*found.values()]


def _members(schema: Mapping[str, Any]) -> Any:
    return schema.get("anyOf") or schema.get("oneOf") or ()


def _items(value: Any) -> Any:
    if isinstance(value, dict):
        return value.items()
    return enumerate(value) if isinstance(value, list) else ()


def _part_at(schema: Mapping[str, Any], key: Any) -> Any:
    """Return the schema of the item or property `key`."""
    if isinstance(key, int):
        first = schema.get("prefixItems", ())
        return first[key] if key < len(first) else schema.get("items")
    return schema.get("properties", {}).get(key, schema.get("additionalProperties"))


def _may_match(value: Any, schema: Any) -> bool:
    """Whether a value may belong to a member of a union, by type. A bool never belongs to a str."""
    kinds = _MEANT.get(type(value))
    named = schema.get("type") if isinstance(schema, Mapping) else None
    return not (kinds and isinstance(named, str)) or named in kinds


def _is_finite(value: Any) -> bool:
    try:
        return not isinstance(value, (str, int)) or isfinite(float(value))
    except OverflowError:
        return False
    except ValueError:
        return True
