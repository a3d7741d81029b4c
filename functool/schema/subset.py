"""The strict subset of JSON Schema: its keywords, and helpers that write schemas in it."""

from __future__ import annotations

import json
from collections.abc import Container, Mapping
from typing import Any

from functool.schema.json_schema import UNSET
from functool.schema.shapes import types_of, values_of

_words = str.split
STRUCTURE = {
    *_words("type enum const $ref anyOf oneOf allOf items prefixItems minItems maxItems"),
    *_words("properties required additionalProperties patternProperties propertyNames"),
}
_FORMATS = _words("date-time time date duration email hostname ipv4 ipv6 uuid")
COPIED = _words("title pattern format multipleOf minimum maximum exclusiveMinimum exclusiveMaximum")
"""The keywords that the strict form takes over unchanged."""
KEPT = {
    *COPIED,
    *_words("type enum const $ref anyOf items minItems maxItems properties required"),
    *_words("additionalProperties description $defs definitions"),
}
"""The keywords that the subset allows."""
# Keywords outside the subset become sentences in the description. These are just dropped, because
# they say nothing about values.
_DROPPED = {
    *_words("$anchor $dynamicAnchor $dynamicRef $recursiveAnchor $recursiveRef"),
    *_words("$schema $id $comment discriminator"),
}
_KINDS: dict[str, Any] = {
    **dict.fromkeys(_words("properties patternProperties $defs definitions"), dict),
    **dict.fromkeys(_words("required enum anyOf oneOf allOf prefixItems"), list),
    **dict.fromkeys(_words("minItems maxItems"), int),
    **dict.fromkeys(_words("items additionalProperties"), (dict, bool)),
    "type": (str, list),
    "$ref": str,
}


def moves_to_text(key: str, value: Any) -> bool:
    """Whether a keyword becomes a sentence in the description."""
    if key == "pattern":
        return any(mark in str(value) for mark in ("(?=", "(?!", "(?<=", "(?<!"))
    if key == "format":
        return value not in _FORMATS
    return key not in KEPT | STRUCTURE | _DROPPED


def malformed(s: Any) -> str:
    """Return the rule that a malformed schema breaks, or "" for a well-formed one."""
    if not isinstance(s, dict):
        return "boolean-schema: nothing is allowed here; leave it out"
    if isinstance(s.get("items"), list):
        return "items-shape: a tuple of an older draft; write prefixItems"
    wrong = [key for key, kind in _KINDS.items() if key in s and not isinstance(s[key], kind)]
    if not wrong and not {*map(type, [*s.get("required", ()), *types_of(s)])} <= {str}:
        wrong = ["type or required"]
    return f"malformed: the value of {wrong[0]} is not valid in JSON Schema" if wrong else ""


def text(value: Any) -> str:
    """Write a value as JSON."""
    return json.dumps(value, ensure_ascii=False, default=str)


def without(s: Mapping[str, Any], keys: Container[str]) -> dict[str, Any]:
    """Copy a schema without some keywords."""
    return {key: value for key, value in s.items() if key not in keys}


def closed(own: dict[str, Any]) -> dict[str, Any]:
    """Write the schema of an object with exactly these properties, all of them required."""
    return {"type": "object", "properties": own, "required": [*own], "additionalProperties": False}


def typed(types: list[str]) -> dict[str, Any]:
    """Write a `type` keyword with one type or several."""
    return {"type": types if len(types) > 1 else types[0]}


def describe(form: dict[str, Any], kept: dict[str, Any], texts: list[str]) -> dict[str, Any]:
    """Add annotations and sentences to a form. A reference is wrapped, as it must stand alone."""
    texts = [form["description"], *texts] if "description" in form else texts
    about = {**kept, **({"description": " ".join(texts)} if texts else {})}
    return {**({"anyOf": [form]} if about and "$ref" in form else form), **about}


def optional(form: dict[str, Any], default: Any, absent: bool) -> dict[str, Any]:
    """Let a form also be null if its property may be absent, and describe what null means."""
    if not absent:
        return form if default is None else describe(form, {}, ["Null is a value of its own here."])
    if "anyOf" in form:
        form = {**form, "anyOf": [*form["anyOf"], {"type": "null"}]}
    elif form.get("type", "object") in ("object", "array"):
        about = without(form, STRUCTURE)
        form = {**about, "anyOf": [without(form, about), {"type": "null"}]}
    else:
        values = values_of(form)
        choice = {} if values is None else {"enum": [*values, None]}
        types = [*dict.fromkeys([*types_of(form), "null"])]
        form = {**without(form, ["const"]), **typed(types), **choice}
    meaning = "that it is left out" if default is UNSET else "the default"
    return describe(form, {}, [f"Null means {meaning}."])
