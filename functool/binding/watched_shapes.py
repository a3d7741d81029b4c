"""Shapes: what a schema allows at each place of a call's arguments. `watch.py` uses them.

A shape maps each kind of JSON that is allowed to its limits. The limits are a JSON Schema too, of
which only a few keywords count; `{}` is no limit. The schemas inside them are parts of the tool's
schema, whose shapes are computed when a value stands there.

`JsonShapes` reads a JSON Schema that somebody else wrote. `CoreShapes` reads the core schema with
which pydantic validates a function. Where they are not certain, the shape is open and allows
everything: keywords that add conditions, types that accept several kinds of JSON, and anything that
an author's validator may convert.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import reduce
from typing import Any, TypeAlias

from functool.binding.engine import matches
from functool.schema.json_schema import UNSET, lookup, property_names, walk
from functool.schema.rewrite import choices_of, fields_of
from functool.schema.shapes import NAMES, TooMuchWork, values_of
from functool.schema.signature import FunctionSchema

Limits: TypeAlias = Mapping[str, Any]
Shape: TypeAlias = Mapping[str, Limits]
KINDS = ("object", "array", "string", "number", "boolean", "null")
_KIND = {"integer": "number"}
OPEN: Shape = {kind: {} for kind in KINDS}

LONGEST = 200
"""Up to how many characters of an incomplete text or number are compared."""
_NUMERIC: Limits = {"format": "a number"}
"""The limits of a text that is read as a number. They are recognised by identity."""
_NO_NUMBER = re.compile(r"[^0-9+\-_.eEinfatyINFATY\s]")
# Options of a class that do not change which JSON fits.
_HARMLESS = {"title", "extra_fields_behavior", "allow_inf_nan"}
_HARMLESS |= {"validate_by_name", "validate_by_alias"}


def fits_text(limits: Limits, text: str, complete: bool) -> bool:
    """Whether a text, or one that begins so, is within the limits."""
    longest, choices = limits.get("maxLength"), values_of(limits)
    if isinstance(longest, int) and len(text) > longest:
        return False
    if not complete and len(text) > LONGEST:
        return True
    if limits is _NUMERIC and _NO_NUMBER.search(text):
        return False
    texts = choices if isinstance(choices, list) else [text]
    if not complete:
        return any(isinstance(known, str) and known.startswith(text) for known in texts)
    pattern = limits.get("pattern")
    with suppress(TooMuchWork):
        return text in texts and not (isinstance(pattern, str) and matches(pattern, text) is False)
    return True


def fits_value(limits: Limits, value: Any) -> bool:
    """Whether a number, a boolean or null is within the limits."""
    choices = values_of(limits)
    listed = not isinstance(choices, list) or value in choices
    return listed and not (limits.get("type") == "integer" and value % 1 > 0)


def _items(limits: Limits) -> Any:
    return UNSET if "prefixItems" in limits else limits.get("items", UNSET)


def _others(limits: Limits) -> Any:
    # Patterns make it unsure.
    return UNSET if limits.get("patternProperties") else limits.get("additionalProperties", UNSET)


def either(one: Shape, other: Shape) -> Shape:
    """Return a shape that allows both. A kind that has different limits in both has none."""
    differing = [kind for kind in one.keys() & other.keys() if one[kind] != other[kind]]
    return {**one, **other, **{kind: {} for kind in differing}}


class Shapes(ABC):
    """The shapes of one tool, computed when they are first needed.

    `root` is the shape of the arguments, and `required` holds the names without a default. `known`
    holds the names of properties at every depth. The shapes of a `strict` tool allow both the plain
    form and the strict form at every place.
    """

    def __init__(self, root: Any, schema: Mapping[str, Any], strict: bool) -> None:
        self._strict = strict
        self._cache: dict[int, tuple[Any, Shape]] = {}
        self.known: frozenset[str] = frozenset(property_names(schema))
        self.required: frozenset[str] = frozenset(schema.get("required") or ())
        self.root: Shape = {"object": self.of(root).get("object", {})}

    def of(self, source: Any) -> Shape:
        """Return the cached shape of a part of the schema."""
        if not isinstance(source, Mapping):
            return OPEN
        found = self._cache.get(id(source))
        if found is None:
            self._cache[id(source)] = (source, OPEN)  # A recursive reference in a union is open.
            found = self._cache[id(source)] = (source, self._with_strict_form(self._read(source)))
        return found[1]

    def knows(self, limits: Limits, name: str) -> bool:
        """Whether an object may have this name."""
        return _others(limits) is not False or name in (limits.get("properties") or ())

    def item(self, limits: Limits) -> Shape:
        """Return the shape of the items of a list."""
        return self.of(_items(limits))

    def value(self, limits: Limits, name: str, is_argument: bool) -> Shape:
        """Return the shape of a value in an object, which may be the object of the arguments."""
        shape = self.of((limits.get("properties") or {}).get(name, _others(limits)))
        if is_argument and not shape.keys().isdisjoint(("array", "object")):
            shape = {"string": {}, **shape}  # A list or an object may be sent as JSON in a text.
        absent = name not in self.required if is_argument else self._strict
        return {"null": {}, **shape} if absent else shape  # Null may be sent for a default.

    @abstractmethod
    def _read(self, source: Any) -> Shape:
        """Compute the shape of a part of the schema."""

    def _union(self, members: Iterable[Any]) -> Shape:
        return reduce(either, map(self.of, members))

    def _with_strict_form(self, shape: Shape) -> Shape:
        """Also allow the strict form: a list of pairs for an open object, an object for a tuple."""
        if not self._strict or shape == OPEN:
            return shape
        if "object" in shape:
            fields: Limits = {"properties": shape["object"].get("properties")}
            is_closed = _others(shape["object"]) is False
            return shape if is_closed else {**shape, "array": {}, "object": fields}
        is_tuple = "array" in shape and _items(shape["array"]) is UNSET
        return {**shape, "object": {}} if is_tuple else shape


class JsonShapes(Shapes):
    """Shapes of a JSON Schema that jsonschema validates. It never converts a value."""

    def __init__(self, schema: Mapping[str, Any], strict: bool) -> None:
        # With an identifier inside, a reference may lead to another place than its text says.
        self._target = UNSET if any("$id" in node for node in walk(schema)) else schema
        super().__init__(schema, schema, strict)

    def _read(self, source: Any) -> Shape:
        if "$ref" in source:  # Other keywords beside it only add conditions.
            return self.of(lookup(self._target, source["$ref"]))
        named, values = source.get("type", KINDS), values_of(source)
        kinds = {_KIND.get(name, name) for name in ([named] if isinstance(named, str) else named)}
        members = source.get("anyOf") or source.get("oneOf")
        if isinstance(members, list):
            shape: Shape = self._union(members)
        else:
            shape = dict.fromkeys(KINDS, source)
            if isinstance(values, list):
                kinds &= {_KIND.get(name := NAMES.get(type(value), ""), name) for value in values}
        return {kind: limits for kind, limits in shape.items() if kind in kinds}


_FIXED: dict[str, Shape] = {
    "int": {"number": {"type": "integer"}, "string": _NUMERIC},
    "float": {"number": {}, "string": _NUMERIC},
    "bool": {"boolean": {}, "number": {}, "string": {}},
    "none": {"null": {}},
    "tuple": {"array": {}},
}
_INNER = {
    **dict.fromkeys(("definitions", "function-after", "custom-error"), "schema"),
    "lax-or-strict": "lax_schema",
    "json-or-python": "json_schema",
}


class CoreShapes(Shapes):
    """Shapes of a core schema. pydantic's lax mode converts values, such as texts to numbers."""

    def __init__(self, parts: FunctionSchema, strict: bool) -> None:
        self._definitions = {part.get("ref"): part for part in parts.core.get("definitions", ())}
        super().__init__(parts.core, parts.root, strict)

    def _read(self, source: Any) -> Shape:
        kind = source["type"]
        if kind in _INNER:
            return self.of(source[_INNER[kind]])
        match kind:
            case "str":
                return _text(source)
            case "literal":
                return _choices(source["expected"])
            case "enum" if source.get("missing") is None:
                return _choices([member.value for member in source["members"]])
            case "list" | "set" | "frozenset":
                return {"array": {"items": source.get("items_schema", UNSET)}}
            case "dict":
                return {"object": {"additionalProperties": source.get("values_schema", UNSET)}}
            case "union":
                return self._union(choices_of(source))
            case "tagged-union" if not callable(source["discriminator"]):
                return {"object": {}}
            case "nullable":
                return {**self.of(source["schema"]), "null": {}}
            case "typed-dict":
                return _object(source, source.get("config", {}))
            case "model" | "dataclass" if not source.get("custom_init"):
                return self._class(source)
            case "definition-ref":
                return self.of(self._definitions.get(source["schema_ref"]))
            case "default" if source.get("on_error", "raise") == "raise":
                return self.of(source["schema"])
        return _FIXED.get(kind, OPEN)

    def _class(self, source: Any) -> Shape:
        """Return the shape of a model or a dataclass."""
        inner, config = source["schema"], source.get("config", {})
        if source.get("root_model"):
            return OPEN if config.keys() - _HARMLESS else self.of(inner)
        fields = inner["type"] in ("model-fields", "dataclass-args")
        return _object(inner, config) if fields else OPEN


def _object(source: Any, config: Any) -> Shape:
    """Return the shape of an object with fields: a model, a dataclass or a TypedDict."""
    names = {}
    if config.keys() - _HARMLESS:
        return OPEN
    for name, field in fields_of(source):
        alias = field.get("validation_alias", name)
        if not isinstance(alias, str):
            return {"object": {}}
        names.update({name: field["schema"], alias: field["schema"]})
    extra = source.get("extra_behavior") or config.get("extra_fields_behavior")
    others = False if extra == "forbid" else UNSET
    return {"object": {"properties": names, "additionalProperties": others}}


def _text(source: Any) -> Shape:
    if source.keys() - {"type", "metadata", "min_length", "max_length", "pattern", "strict"}:
        return OPEN
    return {"string": {"maxLength": source.get("max_length"), "pattern": source.get("pattern")}}


def _choices(values: Iterable[Any]) -> Shape:
    """Return the shape of choices, open unless all are texts or null. Others may be converted."""
    texts = [value for value in values if value is not None]
    if not all(type(value) is str for value in texts):
        return OPEN
    shape: Shape = {"string": {"enum": texts}}
    return {**shape, "null": {}} if None in values else shape
