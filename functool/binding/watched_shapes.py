"""Shapes: what a schema allows at each place of a call's arguments. `watch.py` uses them.

`JsonShapes` reads a JSON Schema that somebody else wrote. `CoreShapes` reads the core schema with
which pydantic validates a function. Where they are not certain, the shape is open and allows
everything: keywords that add conditions, types that accept several kinds of JSON, and anything that
an author's validator may convert.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any, NamedTuple

from functool.schema.json_schema import UNSET, lookup, property_names, walk
from functool.schema.signature import FunctionSchema

_ALL = "oasnbz"  # object, array, string, number, boolean, null
_TYPES = {"object": "o", "array": "a", "string": "s", "number": "n", "integer": "n"}
_TYPES |= {"boolean": "b", "null": "z"}
_OF: dict[type, str] = {dict: "o", list: "a", str: "s", int: "n", float: "n", bool: "b"}
# Options of a class that do not change which JSON fits.
_HARMLESS = {"title", "extra_fields_behavior", "allow_inf_nan", "frozen"}
_HARMLESS |= {"validate_by_name", "validate_by_alias", "populate_by_name"}


class Shape(NamedTuple):
    """What is allowed at one place.

    `kinds` are letters for kinds of JSON. `names`, `rest` and `items` hold the parts of the schema
    for the values inside. If `rest` is None, no other names are allowed. If `numeric` is set, texts
    are read as numbers.
    """

    kinds: str = _ALL
    names: Mapping[str, Any] = {}
    rest: Any = UNSET
    items: Any = UNSET
    choices: frozenset[str] | None = None
    longest: int | None = None
    pattern: str | None = None
    numeric: bool = False
    integer: bool = False
    numbers: frozenset[float] | None = None


OPEN = Shape()


def either(one: Shape, other: Shape) -> Shape:
    """Return a shape that allows both. Where the two shapes differ, the new one is open."""
    agreed: dict[str, Any] = {}
    for kind, names in _FIELDS.items():
        parts = [tuple(getattr(s, n) for n in names) for s in (one, other) if kind in s.kinds]
        if parts and parts[0] == parts[-1]:
            agreed.update(zip(names, parts[0], strict=True))
    return Shape("".join({*one.kinds, *other.kinds}), **agreed)


_FIELDS = {
    "o": ("names", "rest"),
    "a": ("items",),
    "s": ("choices", "longest", "pattern", "numeric"),
    "n": ("integer", "numbers"),
}


class Shapes(ABC):
    """The shapes of one tool, computed when they are first needed.

    `root` is the shape of the arguments, and `required` holds the names without a default. The
    shapes of a `strict` tool allow both the plain form and the strict form at every place.
    """

    def __init__(self, root: Any, strict: bool) -> None:
        self.strict = strict
        self.known: frozenset[str] = frozenset()
        self.required: frozenset[str] = frozenset()
        self._cache: dict[int, tuple[Any, Shape]] = {}
        self._root = root
        self.root: Shape = OPEN

    def of(self, source: Any) -> Shape:
        """Return the cached shape of a part of the schema."""
        if source is UNSET or source is None:
            return OPEN
        found = self._cache.get(id(source))
        if found is None:
            self._cache[id(source)] = (source, OPEN)  # A recursive reference in a union is open.
            found = self._cache[id(source)] = (source, self._with_strict_form(self._read(source)))
        return found[1]

    @abstractmethod
    def _read(self, source: Any) -> Shape:
        """Compute the shape of a part of the schema."""

    def _union(self, members: Iterable[Any]) -> Shape:
        return reduce(either, map(self.of, members))

    def _with_strict_form(self, shape: Shape) -> Shape:
        """Also allow the strict form: a list of pairs for an open object, an object for a tuple."""
        if not self.strict or shape == OPEN:
            return shape
        kinds = shape.kinds
        if "o" in kinds and shape.rest is not None:
            return shape._replace(kinds=f"{kinds}a", rest=UNSET, items=UNSET)
        is_tuple = "a" in kinds and "o" not in kinds and shape.items is UNSET
        return shape._replace(kinds=f"{kinds}o") if is_tuple else shape


class JsonShapes(Shapes):
    """Shapes of a JSON Schema that jsonschema validates. It never converts a value."""

    def __init__(self, schema: Mapping[str, Any], strict: bool) -> None:
        super().__init__(schema, strict)
        self._follows = not any("$id" in node for node in walk(schema))
        self.required: frozenset[str] = frozenset(schema.get("required") or ())
        self.known: frozenset[str] = frozenset(property_names(schema))
        self.root: Shape = self.of(schema)._replace(kinds="o")

    def _read(self, source: Any) -> Shape:
        if not isinstance(source, Mapping):
            return OPEN
        if "$ref" in source:  # Other keywords beside it only add conditions.
            return self.of(lookup(self._root, source["$ref"]) if self._follows else UNSET)
        named = source.get("type", list(_TYPES))
        kinds = {_TYPES.get(name, "") for name in ([named] if isinstance(named, str) else named)}
        for word in ("anyOf", "oneOf"):
            if isinstance(source.get(word), list) and source[word]:
                inner = self._union(source[word])
                return inner._replace(kinds="".join(kinds.intersection(inner.kinds)))
        values = [source["const"]] if "const" in source else source.get("enum")
        shape = Shape(**self._object(source), **self._limits(source), integer=named == "integer")
        if isinstance(values, list):
            kinds &= {_OF.get(type(value), "z") for value in values}
            texts = frozenset(value for value in values if isinstance(value, str))
            numbers = frozenset(float(v) for v in values if type(v) in (int, float))
            shape = shape._replace(choices=texts, numbers=numbers)
        return shape._replace(kinds="".join(sorted(kinds)))

    def _object(self, source: Mapping[str, Any]) -> dict[str, Any]:
        rest = source.get("additionalProperties", UNSET)
        if source.get("patternProperties") or rest is True:
            rest = UNSET
        return {"names": source.get("properties") or {}, "rest": None if rest is False else rest}

    def _limits(self, source: Mapping[str, Any]) -> dict[str, Any]:
        items, longest = source.get("items", UNSET), source.get("maxLength")
        return {
            "items": UNSET if "prefixItems" in source else items,
            "longest": longest if isinstance(longest, int) else None,
            "pattern": source.get("pattern"),
        }


_FIXED = {
    "int": Shape(kinds="ns", integer=True, numeric=True),
    "float": Shape(kinds="ns", numeric=True),
    "bool": Shape(kinds="bns"),
    "none": Shape(kinds="z"),
    "tuple": Shape(kinds="a"),
    "tagged-union": Shape(kinds="o"),
}
_INNER = {
    **dict.fromkeys(("definitions", "function-after", "custom-error"), "schema"),
    "lax-or-strict": "lax_schema",
    "json-or-python": "json_schema",
}


class CoreShapes(Shapes):
    """Shapes of a core schema. pydantic's lax mode converts values, such as texts to numbers."""

    def __init__(self, parts: FunctionSchema, strict: bool) -> None:
        core = parts.core
        super().__init__(core, strict)
        self.known: frozenset[str] = frozenset(property_names(parts.root))
        self._definitions = {part.get("ref"): part for part in core.get("definitions", ())}
        self.required: frozenset[str] = frozenset(parts.root.get("required", ()))
        self.root: Shape = self.of(core)._replace(kinds="o")

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
                return Shape(kinds="a", items=source.get("items_schema", UNSET))
            case "dict":
                return Shape(kinds="o", rest=source.get("values_schema", UNSET))
            case "union":
                members = (m[0] if isinstance(m, tuple) else m for m in source["choices"])
                return self._union(members)
            case "nullable":
                return either(self.of(source["schema"]), Shape(kinds="z"))
            case "typed-dict":
                return self._fields(source, source.get("config", {}))
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
        if inner["type"] not in ("model-fields", "dataclass-args"):
            return OPEN
        return self._fields(inner, config)

    def _fields(self, source: Any, config: Any) -> Shape:
        """Return the shape of an object with fields: a model, a dataclass or a TypedDict."""
        fields, names = source["fields"], {}
        if config.keys() - _HARMLESS:
            return OPEN
        named = fields.items() if isinstance(fields, dict) else ((f["name"], f) for f in fields)
        for name, field in named:
            alias = field.get("validation_alias", name)
            if not isinstance(alias, str):
                return Shape(kinds="o")
            names.update({name: field["schema"], alias: field["schema"]})
        extra = source.get("extra_behavior") or config.get("extra_fields_behavior")
        return Shape(kinds="o", names=names, rest=None if extra == "forbid" else UNSET)


def _text(source: Any) -> Shape:
    if source.keys() - {"type", "metadata", "min_length", "max_length", "pattern", "strict"}:
        return OPEN
    pattern = source.get("pattern")
    known = pattern if isinstance(pattern, str) else None
    return Shape(kinds="s", longest=source.get("max_length"), pattern=known)


def _choices(values: Iterable[Any]) -> Shape:
    """Return the shape of choices, open unless all are texts or null. Others may be converted."""
    values = list(values)
    if not all(type(value) is str or value is None for value in values):
        return OPEN
    texts = frozenset(value for value in values if value is not None)
    return Shape(kinds="sz" if None in values else "s", choices=texts)
