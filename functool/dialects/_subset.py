"""Where a schema leaves the strict subset of JSON Schema, the one that OpenAI and Azure take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from functool.schema.json_schema import DEFINITIONS, UNSET, children, lookup
from functool.schema.shapes import TYPES, is_type, types_of, values_of
from functool.schema.subset import KEPT, STRUCTURE, malformed, moves_to_text

_NOT_AZURE = ("minLength", "maxLength", "default")  # OpenAI accepts these keywords, Azure does not.
_UNREAD = ("patternProperties", "propertyNames")  # They leave the subset whatever they hold.
_WORDS = {
    "root-type": "the root is not an object",
    "root-combinator": "the root is a union or a reference",
    "malformed": "not valid JSON Schema",
    "boolean-schema": "true or false in place of a schema",
    "items-shape": "a tuple as older drafts write it",
    "pattern-lookaround": "a pattern with a lookaround",
    "ref-siblings": "keywords beside $ref",
    "ref-target": "a $ref to nothing",
    "type-missing": "no type",
    "type-unknown": "an unknown type",
    "enum-type": "a choice of another type",
    "properties-missing": "an object without named properties",
    "additional-properties": "an object that takes further names",
    "required-incomplete": "optional properties",
    "items-missing": "a list without a schema of its items",
}
"""What a host reads of each rule. Every other rule ends with the name of a keyword."""


def violations(schema: Any) -> list[str]:
    """List every place in which a schema leaves the strict subset.

    Returns:
        `JSON pointer: rule`, such as `#/properties/a: format`.
    """
    return [f"{path}: {rule}" for path, rule in _violations(schema)]


def in_words(schema: Any) -> list[str]:
    """List what `violations` finds, such as `#/properties/a: the keyword format`."""
    return [f"{path}: {_worded(rule)}" for path, rule in _violations(schema)]


def _worded(rule: str) -> str:
    name, space, names = rule.partition(" ")
    keyword = name.removeprefix("azure-").removeprefix("keyword-")
    return _WORDS.get(name, f"the keyword {keyword}") + space + names


def _violations(schema: Any) -> Iterator[tuple[str, str]]:
    top = schema if isinstance(schema, dict) else {}
    if top.get("type") != "object":
        yield "#", "root-type"
    if top.keys() & {"anyOf", "oneOf", "allOf", "$ref"}:
        yield "#", "root-combinator"
    yield from _find(schema, "#", top)


def _find(s: Any, path: str, root: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if reason := malformed(s):
        yield path, reason.partition(":")[0]
        return
    for key in s:
        if key in _NOT_AZURE:
            yield path, f"azure-{key}"
        elif key not in KEPT and (path != "#" or key not in ("$id", "$schema")):
            yield path, f"keyword-{key}"
        elif moves_to_text(key, s[key]):
            yield path, "pattern-lookaround" if key == "pattern" else key
    yield from ((path, rule) for rule, broken in _rules(s, root).items() if broken)
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
