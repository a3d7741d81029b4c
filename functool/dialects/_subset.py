"""Where a schema leaves the strict subset of JSON Schema, the one that OpenAI and Azure take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from functool.schema.json_schema import DEFINITIONS, UNSET, children, lookup
from functool.schema.shapes import is_type, types_of, values_of
from functool.schema.subset import AZURE, KEPT, STRUCTURE, TYPES, malformed, moves_to_text

_UNREAD = ("patternProperties", "propertyNames")  # They leave the subset whatever they hold.

_SENTENCES = {
    "root-type": "the root has to be of type object",
    "root-combinator": "the root has to be one object, not a union or a reference",
    "ref-siblings": "no other keyword may stand beside $ref",
    "ref-target": "this $ref leads to no part of the schema",
    "type-missing": "each part needs a type",
    "type-unknown": "JSON Schema has no such type",
    "enum-type": "a choice is not of the type that is named",
    "properties-missing": "an object has to name its properties",
    "additional-properties": "an object may not take further properties",
    "required-incomplete": "every property has to be required, also",
    "items-missing": "an array has to say what its items are",
    "items-shape": "items may not be a list; that is the form of older drafts",
    "boolean-schema": "true and false are not taken as schemas",
    "malformed": "a keyword has a value that JSON Schema does not allow",
    "format": "this format is not taken",
    "pattern-lookaround": "the pattern may not look ahead or behind",
    **{f"azure-{word}": f"Azure does not take the keyword {word}" for word in AZURE},
}


def explained(violation: str) -> str:
    """Return a violation with its rule as a sentence. A keyword speaks for itself."""
    place, _, rule = violation.partition(": ")
    word, space, names = rule.partition(" ")
    return f"{place}: {_SENTENCES.get(word, word)}{space}{names}"


def violations(schema: Any) -> list[str]:
    """List every place in which a schema leaves the strict subset.

    Returns:
        `JSON pointer: rule`, such as `#/properties/a: format`.
    """
    top = schema if isinstance(schema, dict) else {}
    found = ["#: root-type"] if top.get("type") != "object" else []
    found += ["#: root-combinator"] if top.keys() & {"anyOf", "oneOf", "allOf", "$ref"} else []
    return [*found, *_find(schema, "#", top)]


def _find(s: Any, path: str, root: dict[str, Any]) -> Iterator[str]:
    if reason := malformed(s):
        yield f"{path}: {reason.partition(':')[0]}"
        return
    for key in s:
        if key in AZURE:
            yield f"{path}: azure-{key}"
        elif key not in KEPT and (path != "#" or key not in ("$id", "$schema")):
            yield f"{path}: keyword-{key}"
        elif moves_to_text(key, s[key]):
            yield f"{path}: {'pattern-lookaround' if key == 'pattern' else key}"
    yield from (f"{path}: {rule}" for rule, broken in _rules(s, root).items() if broken)
    inner = [(where, child) for where, child in children(s) if where[0] in STRUCTURE]
    inner += [((word, name), s[word][name]) for word in DEFINITIONS for name in s.get(word, ())]
    for where, child in inner:
        # `items` and `additionalProperties` as booleans are judged by the rules of this schema.
        if where[0] not in _UNREAD and not (isinstance(child, bool) and len(where) == 1):
            yield from _find(child, "/".join((path, *map(str, where))), root)


def _rules(s: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """Map the rules on the structure of a schema to whether it breaks them."""
    types, values = types_of({"type": s.get("type")}), values_of(s)
    required = {*s.get("required", ())}
    missing = [name for name in s.get("properties", {}) if name not in required]
    return {
        "ref-siblings": "$ref" in s and s.keys() - {"$ref", "$defs", "definitions"},
        "ref-target": "$ref" in s and lookup(root, s["$ref"]) is UNSET,
        "type-missing": not s.keys() & {"type", "$ref", "anyOf", "oneOf", "allOf"},
        "type-unknown": {*types} - TYPES,
        "enum-type": types and values and not all(is_type(value, types) for value in values),
        "properties-missing": "object" in types and "properties" not in s,
        "additional-properties": "object" in types and s.get("additionalProperties") is not False,
        f"required-incomplete ({', '.join(missing)})": "object" in types and missing,
        "items-missing": "array" in types and "items" not in s,
        "boolean-schema": isinstance(s.get("items"), bool),
    }
