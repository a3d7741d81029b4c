"""Shapes: what a schema allows at each place of a call's arguments. `watch.py` uses them.

A shape maps each kind of JSON that is allowed to its limits. The limits are a JSON Schema too, of
which only a few keywords count; `{}` is no limit. The schemas inside them are parts of the tool's
schema, whose shapes are computed when a value stands there.

For a function, `LaxJsonSchema` writes a JSON Schema of what pydantic's lax mode may accept. That
mode converts values, such as texts to numbers. Where it is not certain, the schema is empty and the
shape is open: for types that accept several kinds of JSON, and for anything that an author's
validator may convert.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import reduce
from typing import Any, TypeAlias, cast

from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

from functool.binding.engine import matches
from functool.schema.json_schema import UNSET, lookup, property_names, walk
from functool.schema.parts import fields_of
from functool.schema.plain import PlainJsonSchema
from functool.schema.shapes import NAMES, TooMuchWork, values_of

Limits: TypeAlias = Mapping[str, Any]
Shape: TypeAlias = Mapping[str, Limits]
KINDS = ("object", "array", "string", "number", "boolean", "null")
_KIND = {"integer": "number"}
OPEN: Shape = {kind: {} for kind in KINDS}

LONGEST = 200
"""Up to how many characters of an incomplete text are compared."""
_NUMERIC = "a number"
"""The format of a text that is read as a number."""
_NO_NUMBER = re.compile(r"[^0-9+\-_.eEinfatyINFATY\s]")


def fits_text(limits: Limits, text: str, complete: bool) -> bool:
    """Whether a text, or one that begins so, is within the limits."""
    longest, choices = limits.get("maxLength"), values_of(limits)
    if isinstance(longest, int) and len(text) > longest:
        return False
    if not complete and len(text) > LONGEST:
        return True
    if limits.get("format") == _NUMERIC and _NO_NUMBER.search(text):
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


class Shapes:
    """The shapes of one tool, computed when they are first needed.

    `root` is the shape of the arguments, and `required` holds the names without a default. `known`
    holds the names of properties at every depth. The shapes of a `strict` tool allow both the plain
    form and the strict form at every place.

    Args:
        allowed: A JSON Schema of what the tool may accept.
        schema: The plain schema of the tool.
        strict: Whether the tool has a strict form.
    """

    def __init__(self, allowed: Mapping[str, Any], schema: Mapping[str, Any], strict: bool) -> None:
        # With an identifier inside, a reference may lead to another place than its text says.
        self._target = UNSET if any("$id" in node for node in walk(allowed)) else allowed
        self._strict = strict
        self._cache: dict[int, tuple[Any, Shape]] = {}
        self.known: frozenset[str] = frozenset(property_names(schema))
        self.required: frozenset[str] = frozenset(schema.get("required") or ())
        self.root: Shape = {"object": self.of(allowed).get("object", {})}

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

    def _read(self, source: Any) -> Shape:
        if "$ref" in source:  # Other keywords beside it only add conditions.
            return self.of(lookup(self._target, source["$ref"]))
        named, values = source.get("type", KINDS), values_of(source)
        kinds = {_KIND.get(name, name) for name in ([named] if isinstance(named, str) else named)}
        members = source.get("anyOf") or source.get("oneOf")
        if isinstance(members, list):
            shape: Shape = reduce(either, map(self.of, members))
        else:
            shape = dict.fromkeys(KINDS, source)
            if isinstance(values, list):
                kinds &= {_KIND.get(name := NAMES.get(type(value), ""), name) for value in values}
        return {kind: limits for kind, limits in shape.items() if kind in kinds}

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


_NUMBER_AS_TEXT = {"type": "string", "format": _NUMERIC}
_DESCRIBED = {
    *("int", "float", "bool", "none", "list", "tuple", "set", "frozenset", "dict", "union"),
    *("nullable", "definitions", "definition-ref", "function-after", "custom-error"),
    *("lax-or-strict", "json-or-python", "typed-dict-field", "model-field", "dataclass-field"),
    *("model-fields", "dataclass-args"),
}
"""The kinds of core schemas that are described by their parts, or below."""
# Options of a class that do not change which JSON fits.
_HARMLESS = {"title", "extra_fields_behavior", "allow_inf_nan"}
_HARMLESS |= {"validate_by_name", "validate_by_alias"}
_TEXT = {"type", "metadata", "min_length", "max_length", "pattern", "strict"}


class LaxJsonSchema(PlainJsonSchema):
    """Writes what pydantic's lax mode may accept, which is anything where that is not certain."""

    def generate_inner(self, schema: Any) -> dict[str, Any]:
        """Describe a core schema, or another one that accepts at least the same."""
        # An author may have described the type in another way than it is checked.
        kept = {"ref": schema["ref"]} if "ref" in schema else {}
        described: Any = {**_described_as(schema), **kept, "metadata": {}}
        return GenerateJsonSchema.generate_inner(self, described)

    def int_schema(self, schema: Any) -> dict[str, Any]:
        """Allow texts, too."""
        return {"anyOf": [{"type": "integer"}, _NUMBER_AS_TEXT]}

    def float_schema(self, schema: Any) -> dict[str, Any]:
        """Allow texts, too."""
        return {"anyOf": [{"type": "number"}, _NUMBER_AS_TEXT]}

    def bool_schema(self, schema: Any) -> dict[str, Any]:
        """Allow numbers and texts, too."""
        return {"type": ["boolean", "number", "string"]}

    def tuple_schema(self, schema: Any) -> dict[str, Any]:
        """Allow any items."""
        return {"type": "array"}

    def model_schema(self, schema: Any) -> dict[str, Any]:
        """Describe the fields alone, because the class may describe itself in another way."""
        made = self.generate_inner(schema["schema"])
        forbids = schema.get("config", {}).get("extra_fields_behavior") == "forbid"
        return {"additionalProperties": False, **made} if forbids and "properties" in made else made

    dataclass_schema = model_schema

    def typed_dict_schema(self, schema: Any) -> dict[str, Any]:
        """Describe the keys alone, for the same reason."""
        return GenerateJsonSchema.typed_dict_schema(self, cast(Any, {**schema, "cls": None}))


def _described_as(core: Any) -> Any:
    """Return a core schema if it is certain what it accepts, and otherwise a wider one."""
    match core["type"]:
        case "str":
            known = not core.keys() - _TEXT
        case "literal":
            known = _are_texts(core["expected"])
        case "enum":
            values = [member.value for member in core["members"]]
            known = core.get("missing") is None and _are_texts(values)
        case "default":
            known = core.get("on_error", "raise") == "raise"
        case "tagged-union" if not callable(core["discriminator"]):
            return core_schema.dict_schema()
        case "typed-dict" | "model" | "dataclass":
            config = core.get("config", {})
            known = not (core.get("custom_init") or config.keys() - _HARMLESS)
            if known and _has_other_names(core, config):
                return core_schema.dict_schema()
        case kind:
            known = kind in _DESCRIBED
    return core if known else core_schema.any_schema()


def _has_other_names(core: Any, config: Any) -> bool:
    """Whether a class takes more names than its schema shows."""
    inner = core.get("schema", core)
    fields = fields_of(inner) if "fields" in inner else []
    aliases = [field["validation_alias"] for _, field in fields if "validation_alias" in field]
    return any(config.get("validate_by_name") or type(alias) is not str for alias in aliases)


def _are_texts(choices: Iterable[Any]) -> bool:
    """Whether all choices are texts or null. Others may be converted."""
    return all(choice is None or type(choice) is str for choice in choices)
