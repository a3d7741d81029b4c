"""Compare values with a JSON Schema by types, names and constants, but not by bounds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

from functool.schema.json_schema import UNSET, resolved

SAMPLES: dict[str, Any] = {"string": "", "number": 0.5, "integer": 0, "boolean": True, "null": None}
NAMES: dict[type, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
    list: "array",
    dict: "object",
}
TYPES = {*NAMES.values()}
_NUMBERS = {"integer", "number"}
_IMPLIED = {
    "array": {"items", "prefixItems"},
    "object": {"properties", "additionalProperties", "patternProperties", "required"},
}
_MOST = 50

# Results of one run by the ids of (schema or step, value), and the targets of references by the ids
# of (schema, nothing). It also keeps these objects alive, so that no id is used again for another.
Memo = dict[Any, Any]


class TooMuchWork(Exception):
    """A check against a schema, or a conversion to its plain form, takes too many steps."""

    def __init__(self) -> None:
        what = "the arguments take too much work to check against the tool's schema"
        super().__init__(f"{what}: send less at once")


class CountingMemo(Memo):
    """A `Memo` that counts what is stored in it, and raises `TooMuchWork` beyond `most` steps."""

    __slots__ = ("_left",)

    def __init__(self, most: int) -> None:
        self._left = most

    def spend(self, steps: int) -> None:
        """Count some steps."""
        self._left -= steps
        if self._left < 0:
            raise TooMuchWork

    def __setitem__(self, key: Any, value: Any) -> None:
        self.spend(1)
        super().__setitem__(key, value)


def types_of(schema: Mapping[str, Any]) -> list[str]:
    """List the types that a schema names, or that its keywords imply."""
    types = schema.get("type") or [n for n, words in _IMPLIED.items() if schema.keys() & words][:1]
    return types if isinstance(types, list) else [types]


def values_of(schema: Mapping[str, Any]) -> list[Any] | None:
    """List the values of a schema's `const` or `enum`, or None if it has neither."""
    return [schema["const"]] if "const" in schema else schema.get("enum")


def default_of(schema: Any) -> Any:
    """Return the default of a schema, or `UNSET`."""
    return schema.get("default", UNSET) if isinstance(schema, dict) else UNSET


def others_of(schema: Mapping[str, Any], root: Any) -> Any:
    """Return the schema for names that are not declared.

    It is False if such names are not allowed, and `UNSET` if they may have several schemas.
    """
    patterns = [*schema.get("patternProperties", {}).values()]
    others = schema.get("additionalProperties")
    if patterns:
        return patterns[0] if len(patterns) == 1 and not others else UNSET
    return others if others is not None else "properties" not in schema and schema is not root


def part_at(schema: Mapping[str, Any], key: Any, root: Any) -> Any:
    """Return the schema of the property `key`, or of the item at this position."""
    if isinstance(key, int):
        first = schema.get("prefixItems", ())
        return first[key] if key < len(first) else schema.get("items", True)
    fields = schema.get("properties", {})
    return fields[key] if key in fields else others_of(schema, root)


def is_type(value: Any, types: Sequence[str]) -> bool:
    """Whether a value has one of these types. 1.0 is an integer, too."""
    name = NAMES.get(type(value))
    return name in types or (name in _NUMBERS and bool(_NUMBERS & {*types}) and value % 1 == 0)


def fits(schema: Any, value: Any, root: Any, memo: Memo) -> bool:
    """Whether a value agrees with a schema in plain form: in types, names and constants."""
    if isinstance(schema, dict) and "$ref" in schema:
        if (link := (id(schema), 0)) not in memo:
            memo[link] = (resolved(root, schema), schema)
        schema = memo[link][0]
    key = (id(schema), id(value))
    if key in memo:
        return bool(memo[key][0])
    # A reference that leads back to itself gets this answer, until the real one is known.
    memo[key] = (schema is True, value)
    if not isinstance(schema, dict) or not _is_alike(schema, value):
        return schema is True
    # Loops, because `any` and `all` would double the depth of the stack.
    for word in ("anyOf", "oneOf"):
        for member in schema.get(word, ()):
            if fits(member, value, root, memo):
                break
        else:
            if word in schema:
                return False
    for part, item in _parts(schema, value, root):
        if not fits(part, item, root, memo):
            return False
    memo[key] = (True, value)
    return True


def _is_alike(schema: Mapping[str, Any], value: Any) -> bool:
    """Whether a value agrees with a schema itself, without its parts."""
    types, values = types_of(schema), values_of(schema)
    if types and not is_type(value, types):
        return False
    if values is not None and not any(
        value == known and isinstance(value, bool) == isinstance(known, bool) for known in values
    ):
        return False
    if isinstance(value, dict) and types:
        return value.keys() >= {*schema.get("required", ())}
    if isinstance(value, list) and (prefix := schema.get("prefixItems")):
        least: int = min(schema.get("minItems", 0), len(prefix))
        return least <= len(value) <= len(prefix)
    return True


def _parts(schema: Mapping[str, Any], value: Any, root: Any) -> Iterator[tuple[Any, Any]]:
    """Yield what a value has to agree with, too: the parts of a schema and the values for them."""
    yield from ((member, value) for member in schema.get("allOf", ()))
    inner: Iterable[tuple[Any, Any]] = enumerate(value) if isinstance(value, list) else ()
    if isinstance(value, dict) and types_of(schema):
        inner = value.items()
    yield from ((part_at(schema, key, root), item) for key, item in inner)


def tags_of(schema: Any) -> dict[str, Any]:
    """Return the constants of a schema's properties, such as the tag of a union member."""
    fields = schema.get("properties", {}).items() if isinstance(schema, dict) else ()
    return {name: f["const"] for name, f in fields if isinstance(f, dict) and "const" in f}


def samples(form: Any, defs: Mapping[str, Any], memo: CountingMemo, depth: int = 0) -> list[Any]:
    """Make sample values of a strict schema. Each type and constant occurs in one of them.

    Raises:
        TooMuchWork: The schema leads to too many parts.
    """
    memo.spend(1)
    if "$ref" in form:
        return samples(defs[form["$ref"]], defs, memo, depth + 1) if depth < 3 else []
    if "anyOf" in form:
        members = (samples(member, defs, memo, depth) for member in form["anyOf"])
        return [*chain.from_iterable(members)][:_MOST]
    if form["type"] == "array":
        count = min(max(form.get("minItems", 1), 1), _MOST)
        return [[item] * count for item in samples(form["items"], defs, memo, depth)] or [[]]
    if form["type"] != "object":
        return (values_of(form) or [SAMPLES[name] for name in types_of(form)])[:_MOST]
    fields = {name: samples(f, defs, memo, depth) for name, f in form["properties"].items()}
    if not all(fields.values()):
        return []
    first, last = ({name: values[end] for name, values in fields.items()} for end in (0, -1))
    others = ({**first, name: value} for name, own in fields.items() for value in own[1:])
    return [last, first, *islice(others, _MOST - 2)]
