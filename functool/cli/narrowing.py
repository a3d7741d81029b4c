"""Find the places where one JSON Schema refuses values that another accepts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from functool.schema.json_schema import UNSET, lookup, resolved

_TYPES = frozenset(("array", "boolean", "integer", "null", "number", "object", "string"))
_LOWER = ("minLength", "minItems", "minProperties", "minContains")
_UPPER = ("maxLength", "maxItems", "maxProperties", "maxContains")
ANNOTATIONS = frozenset(
    ("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly")
)
_KNOWN = ANNOTATIONS | {
    *("type", "enum", "const", "properties", "required", "additionalProperties", "items"),
    *("prefixItems", "anyOf", "oneOf", "allOf", "$defs", "definitions", "minimum", "maximum"),
    *("exclusiveMinimum", "exclusiveMaximum", "multipleOf", "discriminator", "$schema", "$id"),
    *_LOWER,
    *_UPPER,
}


class Step(NamedTuple):
    """A place where a schema accepts less than another: the path, the rule, and what it refuses."""

    path: str
    rule: str
    what: str = ""


def narrowed(old: Any, new: Any) -> Iterator[Step]:
    """Yield the places where the schema `new` refuses values that `old` accepts."""
    yield from _Comparison(old, new).steps(old, new, "")


class _Comparison:
    """Compares two schemas. Holds their roots, for references.

    Unions of unions, and recursive types, lead to the same pairs of schemas again and again. So it
    also holds the pairs that fit, or are being compared, and those that do not fit. What does not
    fit behind a reference is told at the first path to it. At another one, a step refers to that
    path.
    """

    def __init__(self, old_root: Any, new_root: Any) -> None:
        self._roots = (old_root, new_root)
        # In order: a pair may fit only because an earlier one is assumed to fit.
        self._fitting: dict[str, None] = {}
        self._failed: set[str] = set()
        self._told: dict[str, str] = {}

    def steps(self, old: Any, new: Any, path: str) -> Iterator[Step]:
        pair = json.dumps([old, new])
        if pair in self._fitting:
            return
        if pair in self._told:
            yield Step(path, "again", self._told[pair] or "the whole")
            return
        before, fits = len(self._fitting), True
        self._fitting[pair] = None
        try:
            one, other = resolved_in(old, self._roots[0]), resolved_in(new, self._roots[1])
            for step in self._compare(one, other, path):
                fits = False
                yield step
            if not fits and (_is_reference(old) or _is_reference(new)):
                self._told[pair] = path
        finally:
            while not fits and len(self._fitting) > before:
                self._fitting.popitem()

    def _fits(self, old: Any, new: Any) -> bool:
        """Whether `new` accepts all that `old` accepts."""
        pair = json.dumps([old, new])
        if pair not in self._failed:
            told, self._told = self._told, {}  # Nobody is told of what is found here.
            if any(self.steps(old, new, "")):
                self._failed.add(pair)
            self._told = told
        return pair not in self._failed

    def _compare(self, old: dict[str, Any], new: dict[str, Any], path: str) -> Iterator[Step]:
        if {"anyOf", "oneOf"} & (old.keys() | new.keys()):
            yield from self._unions(old, new, path)
            return
        had, has = _types(old), _types(new)
        if gone := had - has - ({"integer"} if "number" in has else set()):
            yield Step(path, "type", " or ".join(sorted(gone)))
            return
        yield from _values(old, new, path)
        yield from _bounds(old, new, path)
        for key in (old.keys() | new.keys()) - _KNOWN:
            if not self._keeps(key, old, new):
                yield Step(path, "rule", key)
        yield from self._intersections(old, new, path)
        if "object" in had:
            yield from self._objects(old, new, path)
        if "array" in had:
            yield from self._arrays(old, new, path)

    def _unions(self, old: dict[str, Any], new: dict[str, Any], path: str) -> Iterator[Step]:
        """Yield a step for each member of the old union that fits no member of the new one.

        A value that fits two members of a `oneOf` is refused, so there it must fit one only.
        """
        choices = _alternatives(new)
        is_exclusive = "oneOf" in new and new["oneOf"] != old.get("oneOf")
        for one in _alternatives(old):
            fits = (self._fits(one, other) for other in choices)
            if len(choices) == 1:
                yield from self.steps(one, choices[0], path)
            elif not any(fits) or (is_exclusive and any(fits)):  # The second looks at the rest.
                yield _whole(one, path)

    def _intersections(self, old: dict[str, Any], new: dict[str, Any], path: str) -> Iterator[Step]:
        """Compare the members of `allOf` at the same places."""
        had, has = old.get("allOf", []), new.get("allOf", [])
        if has and len(had) != len(has):
            yield Step(path, "rule", "allOf")
            return
        for one, other in zip(had, has, strict=False):
            yield from self.steps(one, other, path)

    def _keeps(self, key: str, old: dict[str, Any], new: dict[str, Any]) -> bool:
        """Whether a rule that is not compared says the same, also behind its references."""
        if key not in new:
            # Names that fitted a pattern are additional ones now.
            return key != "patternProperties" or new.get("additionalProperties", True) is True
        had, has = old.get(key, UNSET), new[key]
        return bool(had == has and _behind(had, self._roots[0]) == _behind(has, self._roots[1]))

    def _objects(self, old: dict[str, Any], new: dict[str, Any], path: str) -> Iterator[Step]:
        had, has = old.get("properties", {}), new.get("properties", {})
        rest_old = old.get("additionalProperties", True)
        rest_new = new.get("additionalProperties", True)
        for name in new.get("required", ()):
            if name not in old.get("required", ()):
                rule = "required" if name in had else "added"
                yield Step(joined(path, name), rule, name)
        # The tag of a union's member first: it tells at once that two members differ.
        for name, part in sorted(had.items(), key=_is_no_constant):
            inner = has.get(name, rest_new)
            if inner is False and part is not False:
                yield Step(joined(path, name), "removed", name)
            else:
                yield from self.steps(part, inner, joined(path, name))
        if "additionalProperties" in old and rest_old is not False:
            # A name that is new was one of the additional properties before.
            for name in has.keys() - had.keys():
                yield from self.steps(rest_old, has[name], joined(path, name))
        if rest_old is not False:
            if rest_new is False:
                yield Step(path, "closed")
            else:
                yield from self.steps(rest_old, rest_new, joined(path, "*"))

    def _arrays(self, old: dict[str, Any], new: dict[str, Any], path: str) -> Iterator[Step]:
        had, has = old.get("prefixItems", []), new.get("prefixItems", [])
        rest_old, rest_new = old.get("items", True), new.get("items", True)
        for place in range(max(len(had), len(has))):
            one = had[place] if place < len(had) else rest_old
            other = has[place] if place < len(has) else rest_new
            yield from self._item(one, other, f"{path}[{place}]")
        yield from self._item(rest_old, rest_new, f"{path}[]")

    def _item(self, old: Any, new: Any, path: str) -> Iterator[Step]:
        if old is not False:
            yield from [Step(path, "closed")] if new is False else self.steps(old, new, path)


def resolved_in(schema: Any, root: Any) -> dict[str, Any]:
    """Return a schema as a dict, after following its reference."""
    known = resolved(root, schema)
    if known is UNSET:
        return {"$ref": schema["$ref"]}
    return dict(known) if isinstance(known, Mapping) else {} if known else {"enum": []}


def _is_reference(schema: Any) -> bool:
    """Whether a schema refers to another one."""
    return isinstance(schema, Mapping) and "$ref" in schema


def _behind(rule: Any, root: Any) -> dict[str, Any]:
    """Return the targets of all references that a rule leads to, by reference."""
    found: dict[str, Any] = {}
    waiting = [rule]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, Mapping):
            ref = part.get("$ref")
            if isinstance(ref, str) and ref not in found:
                found[ref] = lookup(root, ref)
                waiting.append(found[ref])
            waiting += part.values()
    return found


def _alternatives(schema: dict[str, Any]) -> list[Any]:
    """Return the members of a union, each combined with the keywords beside the union."""
    parts = [part for key in ("anyOf", "oneOf") for part in schema.get(key, ())]
    beside = {
        k: v for k, v in schema.items() if k not in ("anyOf", "oneOf") and k not in ANNOTATIONS
    }
    return [_both(beside, part) for part in parts] if parts else [schema]


def _both(beside: dict[str, Any], part: Any) -> Any:
    """Return a schema that accepts only what both of these accept."""
    if isinstance(part, bool):
        return beside if part else False
    if all(part.get(key, rule) == rule for key, rule in beside.items()):
        return {**beside, **part}
    return {**part, "allOf": [*part.get("allOf", ()), beside]}


def _whole(schema: Any, path: str) -> Step:
    """Return the step for a member of a union that fits no member of the new union."""
    known = schema if isinstance(schema, dict) else {}
    name = known.get("$ref", "").rpartition("/")[2]
    return Step(path, "type", name or known.get("title") or " or ".join(sorted(_types(known))))


def _types(schema: Mapping[str, Any]) -> frozenset[str]:
    given = schema.get("type")
    if given is None:
        return _TYPES
    return frozenset([given] if isinstance(given, str) else given)


def _is_no_constant(named: tuple[str, Any]) -> bool:
    return not (isinstance(named[1], Mapping) and "const" in named[1])


def _values(old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> Iterator[Step]:
    had, has = _choices(old), _choices(new)
    if has is None:
        return
    if had is None:
        yield Step(path, "values", "anything but " + ", ".join(sorted(has)))
    elif gone := [value for value in had if value not in has]:
        yield Step(path, "values", ", ".join(gone))


def _choices(schema: Mapping[str, Any]) -> list[str] | None:
    """Return the values that a schema lists, as JSON, or None if it lists none."""
    if "const" in schema:
        return [json.dumps(schema["const"], sort_keys=True)]
    if "enum" in schema:
        return [json.dumps(value, sort_keys=True) for value in schema["enum"]]
    return ["null", "true", "false"] if _types(schema) <= {"null", "boolean"} else None


def _bounds(old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> Iterator[Step]:
    """Yield limits that are tighter than before.

    An exclusive limit is tighter than an inclusive one.
    """
    infinity = float("inf")
    for sign, inclusive, exclusive in (
        (1, "minimum", "exclusiveMinimum"),
        (-1, "maximum", "exclusiveMaximum"),
    ):
        limits = [
            max(
                (sign * schema.get(inclusive, -sign * infinity), 0),
                (sign * schema.get(exclusive, -sign * infinity), 1),
            )
            for schema in (old, new)
        ]
        if limits[1] > limits[0]:
            yield Step(path, "bound", inclusive)
    for key in _LOWER:
        if new.get(key, 0) > old.get(key, 0):
            yield Step(path, "bound", key)
    for key in _UPPER:
        if new.get(key, infinity) < old.get(key, infinity):
            yield Step(path, "bound", key)
    factor = new.get("multipleOf")
    if factor and ("multipleOf" not in old or old["multipleOf"] % factor):
        yield Step(path, "bound", "multipleOf")


def joined(path: str, name: str) -> str:
    """Return the path of a property."""
    return f"{path}.{name}" if path else name
