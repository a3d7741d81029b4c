"""Questions to a JSON Schema: what it admits, names and holds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from math import isfinite
from typing import Any

from functool.errors import DefinitionError

_NUMBERS = {"integer", "number"}
_MEANT: dict[type, set[str]] = {
    bool: {"boolean"} | _NUMBERS,
    int: _NUMBERS,
    str: {"string"} | _NUMBERS,
    list: {"array"},
    dict: {"object"},
}


def admits_null(schema: Any, definitions: Mapping[str, Any], depth: int = 0) -> bool:
    """Whether a JSON Schema accepts null."""
    if schema is True or depth > 8:
        return True
    if not isinstance(schema, dict):
        return False
    if "$ref" in schema:
        target = definitions.get(str(schema["$ref"]).rpartition("/")[2])
        return target is None or admits_null(target, definitions, depth + 1)
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            return any(admits_null(member, definitions, depth + 1) for member in schema[keyword])
    if "allOf" in schema and not all(
        admits_null(member, definitions, depth + 1) for member in schema["allOf"]
    ):
        return False
    if "const" in schema:
        return schema["const"] is None
    if "enum" in schema and None not in schema["enum"]:
        return False
    kinds = schema.get("type", "null")
    return kinds == "null" or (isinstance(kinds, list) and "null" in kinds)


def takes_only_containers(schema: Any, definitions: Mapping[str, Any], depth: int = 0) -> bool:
    """Whether a JSON Schema takes a list or an object, perhaps null, and no string."""
    if not isinstance(schema, Mapping) or depth > 8:
        return False
    if "$ref" in schema:
        return takes_only_containers(
            definitions.get(str(schema["$ref"]).rpartition("/")[2]), definitions, depth + 1
        )
    members = schema.get("anyOf") or schema.get("oneOf")
    if members:
        rest = [member for member in members if member != {"type": "null"}]
        return bool(rest) and all(
            takes_only_containers(member, definitions, depth + 1) for member in rest
        )
    kinds = schema.get("type")
    kinds = set(kinds if isinstance(kinds, list) else [kinds]) - {"null"}
    return bool(kinds) and kinds <= {"array", "object"}


def kinds_of(schemas: list[Any]) -> set[str]:
    """Return the types that JSON Schemas name at any depth, `any` for what says nothing, and `$ref`, `enum`, `const` where they stand.

    Where an `enum` or `const` lists a number, there is `listed number`.
    """
    kinds: set[str] = set()
    todo = list(schemas)
    while todo:
        schema = todo.pop()
        if schema is False:
            continue
        if schema is True or not isinstance(schema, dict):
            kinds.add("any")
            continue
        named = schema.get("type")
        kinds.update(named if isinstance(named, list) else [named] if named else [])
        kinds.update(word for word in ("$ref", "enum", "const") if word in schema)
        if any(
            type(choice) in (int, float)
            for choice in (*schema.get("enum", ()), schema.get("const"))
        ):
            kinds.add("listed number")
        parts = [
            *schema.get("anyOf", ()),
            *schema.get("oneOf", ()),
            *schema.get("allOf", ()),
            *schema.get("prefixItems", ()),
        ]
        parts += [
            *schema.get("properties", {}).values(),
            *schema.get("patternProperties", {}).values(),
        ]
        parts += [schema[word] for word in ("items", "additionalProperties") if word in schema]
        todo += parts
        bare = (named == "array" and not parts) or (named == "object" and not parts)
        if bare or not (
            named or parts or "$ref" in schema or "enum" in schema or "const" in schema
        ):
            kinds.add("any")
    return kinds


def is_recursive(definitions: Mapping[str, Any]) -> bool:
    """Whether a definition leads back to itself."""
    uses = {
        name: {other for other in definitions if f'/{other}"' in json.dumps(part)}
        for name, part in definitions.items()
    }
    for _ in uses:
        uses = {name: used.union(*(uses[other] for other in used)) for name, used in uses.items()}
    return any(name in used for name, used in uses.items())


def misfit(
    value: Any, schema: Any, definitions: Mapping[str, Any], path: tuple[Any, ...]
) -> tuple[tuple[Any, ...], str] | None:
    """Return where a bool, or a text that pydantic reads as NaN or infinity, stands for a number."""
    if not isinstance(schema, Mapping):
        return None
    if "$ref" in schema:
        return misfit(
            value, definitions.get(str(schema["$ref"]).rpartition("/")[2]), definitions, path
        )
    members = schema.get("anyOf") or schema.get("oneOf")
    if members:
        found = [
            misfit(value, member, definitions, path)
            for member in members
            if _may_be(value, member, definitions)
        ]
        return found[0] if found and all(found) else None
    if isinstance(value, bool) and schema.get("type") in ("integer", "number"):
        return path, f"a valid {schema['type']}, not a boolean"
    choices = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if (
        isinstance(value, bool)
        and choices is not None
        and all(choice is not value for choice in choices)
    ):
        return path, "one of the choices, not a boolean"
    if schema.get("type") == "number" and not _is_finite(value):
        return path, "a finite number"
    parts: list[tuple[Any, Any, Any]] = []
    if isinstance(value, dict):
        named, rest = schema.get("properties", {}), schema.get("additionalProperties")
        parts = [(name, item, named.get(name, rest)) for name, item in value.items()]
    elif isinstance(value, list):
        first = schema.get("prefixItems", ())
        parts = [
            (i, item, first[i] if i < len(first) else schema.get("items"))
            for i, item in enumerate(value)
        ]
    return next(
        (
            hit
            for key, item, part in parts
            if (hit := misfit(item, part, definitions, (*path, key)))
        ),
        None,
    )


def _may_be(value: Any, schema: Any, definitions: Mapping[str, Any]) -> bool:
    """Whether a member of a union may be meant by a value: the one for text, say, is not what a bool misses."""
    if "$ref" in schema:
        return _may_be(
            value, definitions.get(str(schema["$ref"]).rpartition("/")[2], {}), definitions
        )
    kinds = _MEANT.get(type(value), set())
    return "type" not in schema or not kinds or schema["type"] in kinds


def _is_finite(value: Any) -> bool:
    try:
        return not isinstance(value, (str, int)) or isfinite(float(value))
    except OverflowError:
        return False
    except ValueError:
        return True


def names_at(schema: Any, steps: Sequence[Any], definitions: Mapping[str, Any]) -> list[str]:
    """Return the names of the properties at the place to which `steps` lead, those of every member of a union."""
    if not isinstance(schema, Mapping):
        return []
    if "$ref" in schema:
        return names_at(definitions.get(str(schema["$ref"]).rpartition("/")[2]), steps, definitions)
    found = [
        name
        for member in schema.get("anyOf") or schema.get("oneOf") or ()
        for name in names_at(member, steps, definitions)
    ]
    named = schema.get("properties", {})
    if not steps:
        return [*found, *named]
    part = (
        schema.get("items")
        if isinstance(steps[0], int)
        else named.get(steps[0], schema.get("additionalProperties"))
    )
    return [*found, *names_at(part, steps[1:], definitions)]


def property_names(schema: Any) -> Iterator[str]:
    """Return the names of properties at every depth."""
    if isinstance(schema, Mapping) and isinstance(schema.get("properties"), Mapping):
        yield from schema["properties"]
    for part in (
        schema.values()
        if isinstance(schema, Mapping)
        else schema
        if isinstance(schema, list)
        else ()
    ):
        yield from property_names(part)


def checked_parameters(parameters: Any) -> dict[str, Any]:
    """Return a JSON Schema of arguments with its root type said.

    Raises:
        DefinitionError: It is no mapping, or its root is not an object.
    """
    if not isinstance(parameters, Mapping) or parameters.get("type", "object") != "object":
        raise DefinitionError('parameters must be a JSON Schema whose root has "type": "object"')
    return {
        "type": "object",
        **({} if parameters else {"properties": {}, "additionalProperties": False}),
        **deepcopy(dict(parameters)),
    }
