"""The parts of pydantic's core schemas: find them, and replace them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import is_
from typing import Any

# The types of the core schemas of what has keys and values, and of all that has items.
MAPPINGS = ("dict", "ordered-dict", "frozendict", "counter")
MANY = ("list", "tuple", "set", "frozenset", "deque", *MAPPINGS)
# The keys of a core schema that hold other core schemas. A field has its schema under "schema".
_INNER = {
    *("schema", "fields", "choices", "definitions", "steps", "arguments_schema"),
    *("items_schema", "keys_schema", "values_schema", "extras_schema", "extras_keys_schema"),
    *("lax_schema", "strict_schema", "json_schema", "python_schema"),
    *("var_args_schema", "var_kwargs_schema"),
}


def inside(core: Any, change: Callable[[Any], Any]) -> Any:
    """Return a core schema with `change` applied to each core schema inside it.

    If nothing changes, the same object is returned. Every tool keeps its schema twice, so a copy
    would take memory.
    """
    made = {key: _inner(part, change) for key, part in core.items() if key in _INNER}
    return core if all(made[key] is core[key] for key in made) else {**core, **made}


def _inner(part: Any, change: Callable[[Any], Any]) -> Any:
    """Change the value of a key: a core schema, or a list or a mapping of core schemas."""
    if isinstance(part, dict):
        if isinstance(part.get("type"), str):
            return change(part)
        named = {name: _inner(inner, change) for name, inner in part.items()}
        return part if all(map(is_, named.values(), part.values())) else named
    if isinstance(part, (list, tuple)):
        items = [_inner(item, change) for item in part]
        return part if all(map(is_, items, part)) else type(part)(items)
    return part


def outside(core: Any, wrap: Callable[[Any], Any]) -> Any:
    """Return `wrap(bare)` with the name of a core schema, which `bare` no longer has."""
    made = wrap({key: part for key, part in core.items() if key != "ref"})
    return {**made, "ref": core["ref"]} if "ref" in core else made


def holds_others(core: Any) -> bool:
    """Whether a core schema holds other core schemas."""
    return not _INNER.isdisjoint(core)


def choices_of(union: Any) -> list[Any]:
    """Return the core schemas of the members of a union, without their labels."""
    return [choice[0] if isinstance(choice, tuple) else choice for choice in union["choices"]]


def followed(core: Any, definitions: Mapping[str, Any]) -> Any:
    """Replace a reference by its definition. A type alias may be a reference to another one."""
    while (target := definitions.get(core.get("schema_ref"))) is not None:
        core = target
    return core


def fields_of(core: Any) -> list[tuple[str, Any]]:
    """Return the names and the fields of a model, a TypedDict or a dataclass, which has a list."""
    fields = core["fields"]
    return [*fields.items()] if isinstance(fields, dict) else [(f["name"], f) for f in fields]


def tuple_fields(core: Any) -> dict[int, list[str]]:
    """Return the names of the fields of all named tuples in a core schema, by their number."""
    found: dict[int, list[str]] = {}

    def visit(part: Any) -> Any:
        if part.get("type") in ("named-tuple", "arguments"):  # The latter until pydantic 2.13.
            names = [f["name"] for f in part.get("fields") or part["arguments_schema"]]
            found.setdefault(len(names), []).extend(names)
        return inside(part, visit)

    visit(core)
    return found
