"""Copy a tool's schema for the form library. Only known keywords are copied, and texts are escaped.

The form library writes titles and descriptions as HTML, follows templates and links of a schema,
and expands references without end. Others may have written the schema, so it gets this copy only.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from itertools import islice
from typing import Any

from functool.schema.json_schema import lookup

DEPTH = 7
"""How deep a form is. The person writes deeper values as JSON beside the form."""

PARTS = 1_500
"""How many parts a form has at most."""

MOST = 10_000
"""How long a default may be, in characters, and how many choices are looked at."""

CHOICES = 500
"""How many choices a field has at most. Ten choices count as one more part."""

TEXT = 600
"""How many characters of a title or description a form shows."""

_COPIED = {
    "minimum": (int, float),
    "maximum": (int, float),
    "exclusiveMinimum": (int, float),
    "exclusiveMaximum": (int, float),
    "multipleOf": (int, float),
    "minLength": int,
    "maxLength": int,
    "minItems": int,
    "maxItems": int,
    "uniqueItems": bool,
}
_TYPES = {"string", "integer", "number", "boolean", "array", "object", "null"}
_KINDS = {
    "string": "text",
    "integer": "whole number",
    "number": "decimal number",
    "boolean": "true or false",
    "array": "list",
    "object": "group",
    "null": "nothing (null)",
}
_FORMATS = {"date": "date", "time": "time", "textarea": "textarea"}
_FILES = {"base64": "base64", "base64url": "base64url", "binary": "text"}


def form_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of a tool's form, which is safe for the form library.

    References are replaced by the schemas that they name. A part that is too deep, or recursive
    beyond that depth, is marked with `"options": {"functool": "json"}`.
    """
    return _Copy(schema).part(schema, "", DEPTH)


class _Copy:
    """Make one copy. Keep the root for its references, and count its parts."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._left = PARTS
        # Many parts may refer to one schema, and have one default. The root keeps them, so an id
        # stays unique.
        self._targets: dict[str, Mapping[str, Any] | None] = {}
        self._fitting: dict[int, bool] = {}

    def part(self, given: Any, name: str, depth: int) -> dict[str, Any]:
        self._left -= 1
        schema = self._resolved(given) if depth > 0 and self._left >= 0 else None
        if schema is None:
            advice = {"description": "Write this value as JSON beside the form."}
            mark = {"type": "string", "readOnly": True, "options": {"functool": "json"}}
            return {**_texts(advice, name), **mark}
        made: dict[str, Any] = _texts(schema, name)
        kinds = schema.get("type")
        kinds = kinds if isinstance(kinds, list) else [kinds]
        known = [kind for kind in kinds if isinstance(kind, str) and kind in _TYPES]
        if known:
            made["type"] = known[0] if len(known) == 1 else known
        for key, kind in _COPIED.items():
            if isinstance(schema.get(key), kind) and _is_json(schema[key]):  # type: ignore[arg-type]
                made[key] = schema[key]
        self._values(schema, made)
        self._children(schema, made, depth - 1)
        return made

    def _values(self, schema: Mapping[str, Any], made: dict[str, Any]) -> None:
        """Copy the choices, the default and the format."""
        choices = schema["enum"] if isinstance(schema.get("enum"), list) else []
        if "const" in schema:
            choices = [schema["const"]]
        scalars = (each for each in choices[:MOST] if isinstance(each, (str, int, float, bool)))
        if plain := [*islice(filter(_is_json, scalars), CHOICES)]:
            self._left -= len(plain) // 10
            made["enum"] = plain
            made["options"] = {"enum_titles": [_text(str(each), 80) for each in made["enum"]]}
        if "default" in schema and self._fits(schema["default"]):
            made["default"] = schema["default"]
        says = schema.get("contentEncoding") or schema.get("format")
        if isinstance(says, str) and says in _FORMATS:
            made["format"] = _FORMATS[says]
        elif isinstance(says, str) and says in _FILES:
            made["options"] = {"functool": _FILES[says]}
        if made.get("type") == "string" and not {"enum", "format"} & made.keys():
            made["format"] = "textarea"  # An input of one line would remove line breaks.

    def _fits(self, default: Any) -> bool:
        """Whether a form can hold a default. Many parts may share one, so it is read once."""
        if id(default) not in self._fitting:
            self._fitting[id(default)] = _is_json(default)
        return self._fitting[id(default)]

    def _children(self, schema: Mapping[str, Any], made: dict[str, Any], depth: int) -> None:
        properties = schema.get("properties")
        if isinstance(properties, Mapping):
            made["type"] = "object"
            made["properties"] = {
                str(name): self.part(each, str(name), depth) for name, each in properties.items()
            }
            needed = schema.get("required")
            needed = {*map(str, needed)} if isinstance(needed, list) else set()
            # A property with one possible value names the member of a union, so it is always sent.
            made["required"] = [
                name
                for name, each in properties.items()
                if name in needed or (isinstance(each, Mapping) and "const" in each)
            ]
        extra = schema.get("additionalProperties")
        if isinstance(extra, Mapping):
            made["additionalProperties"] = self.part(extra, "value", depth)
        elif made.get("type") == "object":
            made["additionalProperties"] = "properties" not in made and extra is not False
        if isinstance(schema.get("items"), Mapping):
            made["items"] = self.part(schema["items"], "item", depth)
        elif isinstance(schema.get("prefixItems"), list):
            made["items"] = [self.part(each, "item", depth) for each in schema["prefixItems"][:20]]
        for key in ("anyOf", "oneOf"):
            if isinstance(schema.get(key), list):
                self._union(schema[key][:30], made, depth)

    def _union(self, members: list[Any], made: dict[str, Any], depth: int) -> None:
        """Copy the members of a union, and give each a title."""
        copied = [self.part(each, "", depth) for each in members]
        for each, given in zip(copied, members, strict=True):
            resolved = self._resolved(given) or {}
            kind = each.get("type")
            named = resolved.get("title") or (_KINDS.get(kind) if isinstance(kind, str) else None)
            each["title"] = _text(str(named or "any value"), 80)
        made["oneOf"] = copied

    def _resolved(self, given: Any, seen: int = 0) -> Mapping[str, Any] | None:
        """Return the schema that a part refers to, or None if there is none or a circle.

        `seen` is how many references have led here.
        """
        if given is True:
            return {}
        if not isinstance(given, Mapping):
            return None
        if isinstance(given.get("$ref"), str):
            target = self._target(given["$ref"], seen + 1)
            beside = {key: given[key] for key in ("description", "default") if key in given}
            return {**target, **beside} if target is not None and beside else target
        if isinstance(given.get("allOf"), list) and len(given["allOf"]) == 1:
            rest = {key: value for key, value in given.items() if key != "allOf"}
            inner = self._resolved(given["allOf"][0], seen)
            return None if inner is None else {**inner, **rest}
        return given

    def _target(self, reference: str, seen: int) -> Mapping[str, Any] | None:
        """Return what a reference means. It is looked up once."""
        if reference not in self._targets:
            self._targets[reference] = None  # While it is looked up: a circle has no meaning.
            target = lookup(self._root, reference) if seen <= 20 else None
            self._targets[reference] = self._resolved(target, seen)
        return self._targets[reference]


def _is_json(value: Any) -> bool:
    """Whether a value is JSON of at most 10,000 characters, without NaN and infinite numbers."""
    try:
        return len(json.dumps(value, ensure_ascii=False, allow_nan=False)) <= 10_000
    except (TypeError, ValueError, RecursionError):
        return False


def _texts(schema: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the escaped title and description. Without a title the library writes the name raw."""
    made = {"title": _text(name, 200)}
    description = schema.get("description")
    if isinstance(description, str) and description:
        made["description"] = _text(description, TEXT)
    return made


def _text(text: str, most: int) -> str:
    """Return a text that has no HTML and no template. The page unescapes it."""
    cut = text if len(text) <= most else f"{text[: most - 1]}…"
    return html.escape(cut).replace("{", "&#123;").replace("}", "&#125;")
