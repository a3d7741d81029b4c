"""Shapes: what a schema allows at each place of a call's arguments. `watch.py` uses them.

`JsonShapes` reads a JSON Schema that somebody else wrote. `CoreShapes` reads the core schema with
which pydantic validates a function. Where they are not certain, the shape is open and allows
everything: keywords that add conditions, types that accept several kinds of JSON, and anything that
an author's validator may convert.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any, NamedTuple, TypeAlias

from functool.binding.json_text import linear_pattern
from functool.schema.json_schema import UNSET, lookup, property_names, walk
from functool.schema.shapes import NAMES, values_of
from functool.schema.signature import FunctionSchema

LONGEST = 200
"""Up to how many characters of an incomplete text or number are compared."""
_NO_NUMBER = re.compile(r"[^0-9+\-_.eEinfatyINFATY\s]")
# Options of a class that do not change which JSON fits.
_HARMLESS = {"title", "extra_fields_behavior", "allow_inf_nan", "frozen"}
_HARMLESS |= {"validate_by_name", "validate_by_alias", "populate_by_name"}


class Fields(NamedTuple):
    """The parts of the schema for the values of an object. With `rest=False`, it has no others."""

    names: Mapping[str, Any] = {}
    rest: Any = UNSET


class Text(NamedTuple):
    """The limits of a text. `numeric` is a text that is read as a number."""

    choices: frozenset[str] | None = None
    longest: int | None = None
    pattern: str | None = None
    numeric: bool = False

    def allows(self, text: str, complete: bool) -> bool:
        """Whether a text, or one that begins so, is allowed."""
        if self.longest is not None and len(text) > self.longest:
            return False
        if not complete and len(text) > LONGEST:
            return True
        if self.numeric and _NO_NUMBER.search(text):
            return False
        if not complete:
            return not self.choices or any(choice.startswith(text) for choice in self.choices)
        search = None if self.pattern is None else linear_pattern(self.pattern)
        listed = self.choices is None or text in self.choices
        return listed and (search is None or search(text))


class Number(NamedTuple):
    """The limits of a number."""

    choices: frozenset[float] | None = None
    integer: bool = False

    def allows(self, number: float) -> bool:
        """Whether a number is among the choices, and whole if it has to be."""
        listed = self.choices is None or number in self.choices
        return listed and not (self.integer and number % 1 > 0)


Shape: TypeAlias = Mapping[str, Any]
"""What is allowed at one place: kinds of JSON, each with its limits.

The limit of a list is the part of the schema for its items."""

OPEN: Shape = {
    "object": Fields(),
    "array": UNSET,
    "string": Text(),
    "number": Number(),
    "boolean": None,
    "null": None,
}


def either(one: Shape, other: Shape) -> Shape:
    """Return a shape that allows both. A kind that has different limits in both is open."""
    differing = [kind for kind in one.keys() & other.keys() if one[kind] != other[kind]]
    return {**one, **other, **{kind: OPEN[kind] for kind in differing}}


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
        self.root: Shape = {"object": self.of(root).get("object", Fields())}

    def of(self, source: Any) -> Shape:
        """Return the cached shape of a part of the schema."""
        if not isinstance(source, Mapping):
            return OPEN
        found = self._cache.get(id(source))
        if found is None:
            self._cache[id(source)] = (source, OPEN)  # A recursive reference in a union is open.
            found = self._cache[id(source)] = (source, self._with_strict_form(self._read(source)))
        return found[1]

    def value(self, fields: Fields, name: str, is_argument: bool) -> Shape:
        """Return the shape of a value in an object, which may be the object of the arguments."""
        shape = self.of(fields.names.get(name, fields.rest))
        if is_argument and not shape.keys().isdisjoint(("array", "object")):
            shape = {
                "string": Text(),
                **shape,
            }  # A list or an object may be sent as JSON in a text.
        absent = name not in self.required if is_argument else self._strict
        return {"null": None, **shape} if absent else shape  # Null may be sent for a default.

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
            fields = shape["object"]
            open_form = {"array": UNSET, "object": fields._replace(rest=UNSET)}
            return shape if fields.rest is False else {**shape, **open_form}
        return {**shape, "object": Fields()} if shape.get("array") is UNSET else shape


class JsonShapes(Shapes):
    """Shapes of a JSON Schema that jsonschema validates. It never converts a value."""

    def __init__(self, schema: Mapping[str, Any], strict: bool) -> None:
        # With an identifier inside, a reference may lead to another place than its text says.
        self._target = UNSET if any("$id" in node for node in walk(schema)) else schema
        super().__init__(schema, schema, strict)

    def _read(self, source: Any) -> Shape:
        if "$ref" in source:  # Other keywords beside it only add conditions.
            return self.of(lookup(self._target, source["$ref"]))
        named = source.get("type", [*OPEN])
        kinds = {_kind(name) for name in ([named] if isinstance(named, str) else named)}
        members = source.get("anyOf") or source.get("oneOf")
        if isinstance(members, list):
            shape = self._union(members)
        else:
            values = values_of(source)
            if isinstance(values, list):
                kinds &= {_kind(NAMES.get(type(value), "")) for value in values}
            shape = _limits(source, values if isinstance(values, list) else None)
        return {kind: limits for kind, limits in shape.items() if kind in kinds}


def _kind(name: str) -> str:
    return "number" if name == "integer" else name


def _limits(source: Mapping[str, Any], values: list[Any] | None) -> Shape:
    """Return the limits that a schema without unions and references sets for each kind."""
    rest = UNSET if source.get("patternProperties") else source.get("additionalProperties", UNSET)
    longest = source.get("maxLength")
    most = longest if isinstance(longest, int) else None
    return {
        **OPEN,
        "object": Fields(source.get("properties") or {}, rest),
        "array": UNSET if "prefixItems" in source else source.get("items", UNSET),
        "string": Text(_of_type(values, str), most, source.get("pattern")),
        "number": Number(_of_type(values, int, float), source.get("type") == "integer"),
    }


def _of_type(values: Iterable[Any] | None, *types: type) -> frozenset[Any] | None:
    """Return the values of these types; None if there are no values to choose from."""
    return None if values is None else frozenset(v for v in values if type(v) in types)


_FIXED: dict[str, Shape] = {
    "int": {"number": Number(integer=True), "string": Text(numeric=True)},
    "float": {"number": Number(), "string": Text(numeric=True)},
    "bool": {"boolean": None, "number": Number(), "string": Text()},
    "none": {"null": None},
    "tuple": {"array": UNSET},
    "tagged-union": {"object": Fields()},
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
                return {"array": source.get("items_schema", UNSET)}
            case "dict":
                return {"object": Fields(rest=source.get("values_schema", UNSET))}
            case "union":
                members = (m[0] if isinstance(m, tuple) else m for m in source["choices"])
                return self._union(members)
            case "nullable":
                return {**self.of(source["schema"]), "null": None}
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
    fields, names = source["fields"], {}
    if config.keys() - _HARMLESS:
        return OPEN
    named = fields.items() if isinstance(fields, dict) else ((f["name"], f) for f in fields)
    for name, field in named:
        alias = field.get("validation_alias", name)
        if not isinstance(alias, str):
            return {"object": Fields()}
        names.update({name: field["schema"], alias: field["schema"]})
    extra = source.get("extra_behavior") or config.get("extra_fields_behavior")
    return {"object": Fields(names, False if extra == "forbid" else UNSET)}


def _text(source: Any) -> Shape:
    if source.keys() - {"type", "metadata", "min_length", "max_length", "pattern", "strict"}:
        return OPEN
    pattern = source.get("pattern")
    known = pattern if isinstance(pattern, str) else None
    return {"string": Text(longest=source.get("max_length"), pattern=known)}


def _choices(values: Iterable[Any]) -> Shape:
    """Return the shape of choices, open unless all are texts or null. Others may be converted."""
    values = list(values)
    if not all(type(value) is str or value is None for value in values):
        return OPEN
    shape: Shape = {"string": Text(choices=_of_type(values, str))}
    return {**shape, "null": None} if None in values else shape
