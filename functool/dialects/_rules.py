"""The rules of a provider as data, and the rewrites that its schemas may need.

A rewrite changes one node in place and yields what it did. A keyword that the provider does not
understand, and that has no rewrite, moves into the description, where the model can still read it.
The tool still enforces it: arguments are checked against the tool's own schema.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from functool.schema.json_schema import without_older
from functool.schema.shapes import NAMES
from functool.schema.subset import closed

SCALARS = ("string", "number", "boolean", "null")
"""What an untyped node becomes where every node needs a type, as in the strict form of a tool."""

_NUMERIC = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_BELONGS = {
    "string": ("minLength", "maxLength", "pattern", "format"),
    "array": ("items", "prefixItems", "minItems", "maxItems", "uniqueItems"),
    "object": ("properties", "required", "additionalProperties", "minProperties", "maxProperties"),
    "number": _NUMERIC,
    "integer": _NUMERIC,
}

Node = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Which part of JSON Schema one provider understands.

    `keywords` and `formats` list what it understands, `enums` the Python types that enum values
    may have. None means everything. `refuses` matches patterns that the provider's regular
    expressions cannot read. `at_most` is the largest allowed value of a keyword. `refs` says where
    a reference may stand: anywhere ("keep"), without siblings ("wrap"), not as a member of a union
    ("unions"), or nowhere ("inline").
    """

    keywords: frozenset[str] | None = None
    formats: frozenset[str] | None = None
    enums: tuple[type, ...] | None = None
    refuses: re.Pattern[str] | None = None
    at_most: Mapping[str, int] = field(default_factory=dict)
    refs: Literal["keep", "wrap", "unions", "inline"] = "keep"
    recursion: Literal["keep", "optional", "cut"] = "keep"
    all_of: Literal["keep", "no-ref", "one", "none"] = "keep"
    anchored: bool = False  # a pattern matches the whole text
    closed: bool = False  # every object says additionalProperties: false
    explicit: bool = False  # every object says additionalProperties
    typed: bool = False  # every node has a type
    items: bool = False  # every array has items
    nullable: bool = False  # OpenAPI 3.0: one type, and `nullable`
    booleans: bool = True  # true and false are schemas

    def allows(self, keyword: str) -> bool:
        """Whether the provider understands `keyword`."""
        return self.keywords is None or keyword in self.keywords

    def takes(self, keyword: str, value: Any) -> bool:
        """Whether the provider understands `keyword` with this value."""
        if not self.allows(keyword) or (isinstance(value, float) and not math.isfinite(value)):
            return False
        if keyword == "format":
            return self.formats is None or value in self.formats
        limit = self.at_most.get(keyword)
        return limit is None or not isinstance(value, (int, float)) or value <= limit


def split(text: str) -> frozenset[str]:
    """Return the words of `text`."""
    return frozenset(text.split())


def brief_json(value: Any) -> str:
    """Return `value` as JSON of at most 500 characters."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 500 else text[:499] + "…"


def describe(node: Node, note: str) -> None:
    """Put `note` at the end of the description."""
    text = node.get("description")
    node["description"] = f"{text} ({note})" if text else note


def types_in(types: Any) -> list[Any]:
    """Return the value of `type` as a list."""
    return list(types) if isinstance(types, list) else [] if types is None else [types]


def rewrite(rules: Rules, node: Node, rest: str) -> Iterator[str]:
    """Make every rewrite on `node`, and yield what was done.

    For the root, `rest` names the property that holds the arguments beyond its own properties.
    """
    for step in (
        _older,
        _named,
        _tuple,
        _const,
        _one_of,
        _exclusive,
        _enum,
        _typed,
        _null,
        _pattern,
        _explicit,
    ):
        yield from step(rules, node)
    yield from _closed(rules, node, rest)
    if rules.items and "array" in types_in(node.get("type")) and "items" not in node:
        node["items"] = {}
        yield "items is added: an array needs it here"


def _older(rules: Rules, node: Node) -> Iterator[str]:
    """Write what older drafts of JSON Schema said otherwise as 2020-12 does."""
    if isinstance(node.get("type"), list) and len(node["type"]) == 1:
        node["type"] = node["type"][0]
        yield f"type [{node['type']}] is written as {node['type']}"
    yield from without_older(node)


def _named(rules: Rules, node: Node) -> Iterator[str]:
    """Give a name that is required a schema, where a provider knows only names that have one."""
    own, needed = node.get("properties") or {}, node.get("required")
    if not rules.typed or not isinstance(needed, list) or not isinstance(own, Mapping):
        return
    if bare := [name for name in needed if isinstance(name, str) and name not in own]:
        node["properties"] = {**own, **{name: {} for name in bare}}
        yield f"{', '.join(bare)}: required without a schema, and written as a property of any type"


def _tuple(rules: Rules, node: Node) -> Iterator[str]:
    prefix = node.get("prefixItems")
    if not isinstance(prefix, list):
        return
    if node.get("items") is False:
        del node["items"]
        node["maxItems"] = min(node.get("maxItems", len(prefix)), len(prefix))
        yield f"items false is written as maxItems {len(prefix)}"
    kept = rules.allows("prefixItems")
    if kept and (not rules.items or "items" in node):
        return
    members = [*prefix, *([node["items"]] if isinstance(node.get("items"), dict) else [])]
    # A list of these may be long, so compare texts instead of each member with each other one.
    kinds = [*{json.dumps(m, default=str, sort_keys=True): m for m in members}.values()]
    if rules.closed and len(kinds) > 1 and "items" not in node:
        del node["prefixItems"]
        fields = {f"item_{i}": member for i, member in enumerate(prefix)}
        needed = [*fields][: node.pop("minItems", 0)]
        node.pop("maxItems", None)
        node.update(
            {
                "type": "object",
                "properties": fields,
                "required": needed,
                "additionalProperties": False,
            }
        )
        yield "prefixItems is written as an object of item_0, item_1, ..."
        return
    node["items"] = kinds[0] if len(kinds) == 1 else {"anyOf": kinds} if kinds else {}
    if kept:
        yield "items is added beside prefixItems: an array needs it here"
    elif len(kinds) == 1:
        del node["prefixItems"]
        yield "prefixItems is written as items: all of them are alike"
    else:
        yield "items is widened to any of prefixItems"


def _const(rules: Rules, node: Node) -> Iterator[str]:
    if "const" in node and not rules.allows("const"):
        node["enum"] = [node.pop("const")]
        yield "const is written as enum"


def _one_of(rules: Rules, node: Node) -> Iterator[str]:
    for keyword in ("anyOf", "oneOf"):
        if node.get(keyword) == []:  # refused everywhere
            del node[keyword]
            describe(node, f"{keyword}: []")
            yield f"{keyword} [] is moved into the description"
    if "oneOf" in node and "anyOf" not in node and not rules.allows("oneOf"):
        node["anyOf"] = node.pop("oneOf")
        yield "oneOf is written as anyOf"


def _exclusive(rules: Rules, node: Node) -> Iterator[str]:
    for keyword, bound, step, nearer in (
        ("exclusiveMinimum", "minimum", 1, max),
        ("exclusiveMaximum", "maximum", -1, min),
    ):
        value: Any = node.get(keyword)
        whole = type(value) in (int, float) and math.isfinite(value) and value == int(value)
        if (
            whole
            and node.get("type") == "integer"
            and rules.allows(bound)
            and not rules.allows(keyword)
        ):
            new = int(node.pop(keyword)) + step
            node[bound] = nearer(new, node.get(bound, new))
            yield f"{keyword} is written as {bound} {node[bound]}"


def _enum(rules: Rules, node: Node) -> Iterator[str]:
    kinds, values = rules.enums, node.get("enum")
    if kinds is None or not isinstance(values, list):
        return
    rest = [value for value in values if value is not None]
    types = sorted({NAMES.get(type(value), "string") for value in rest})
    if len(rest) < len(values) and type(None) not in kinds and rest:
        del node["enum"]
        node.pop("type", None)
        node["anyOf"] = [
            {"type": types[0] if len(types) == 1 else types, "enum": rest},
            {"type": "null"},
        ]
        yield "null in enum is written as a union with null"
    elif not values or not all(type(value) in kinds for value in values):
        note = f"one of {brief_json(node.pop('enum'))}"
        describe(node, note)
        if types or values:
            node.setdefault("type", types[0] if len(types) == 1 else types or "null")
        yield f"enum is moved into the description: {note}"
    elif "type" not in node and type(None) not in kinds:
        node["type"] = types[0] if len(types) == 1 else types
        yield f"type {brief_json(node['type'])} is added beside enum"


def _typed(rules: Rules, node: Node) -> Iterator[str]:
    if not rules.typed or any(
        key in node for key in ("type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref")
    ):
        return
    kind = next((name for name, keys in _BELONGS.items() if any(key in node for key in keys)), None)
    if kind is not None:
        node["type"] = kind
        yield f"type {kind} is added"
    else:
        node["anyOf"] = [{"type": scalar} for scalar in SCALARS]
        yield "a node of any type is written as a union of the scalar types"


def _null(rules: Rules, node: Node) -> Iterator[str]:
    if not rules.nullable:
        return
    types = types_in(node.get("type"))
    if len(types) > 1 and "null" in types:
        types.remove("null")
        node["type"], node["nullable"] = types[0], True
        yield "type null is written as nullable"
    if len(types) > 1:
        del node["type"]
        parts = {
            kind: {key: node[key] for key in _BELONGS.get(kind, ()) if key in node}
            for kind in types
        }
        for key in {key for part in parts.values() for key in part}:
            del node[key]
        node["anyOf"] = [{"type": kind, **part} for kind, part in parts.items()]
        yield f"type {brief_json(types)} is written as anyOf"
    members = node.get("anyOf")
    if not isinstance(members, list) or {"type": "null"} not in members:
        return
    rest = [member for member in members if member != {"type": "null"}]
    node["anyOf"], node["nullable"] = rest, True
    yield "null in a union is written as nullable"
    if len(rest) == 1 and isinstance(rest[0], dict):
        del node["anyOf"]
        inner = {**rest[0], **node}
        node.clear()
        node.update(inner)
        yield from rewrite(rules, node, "")


def _pattern(rules: Rules, node: Node) -> Iterator[str]:
    pattern = node.get("pattern")
    if not isinstance(pattern, str) or not rules.allows("pattern"):
        return
    begins, ends = pattern.startswith("^"), pattern.endswith("$") and not pattern.endswith("\\$")
    body = pattern[1 if begins else 0 : -1 if ends else None]
    unclear = rules.anchored and (
        ("|" in body and (begins or ends)) or "^" in body.replace("[^", "") or "$" in body
    )
    if unclear or (rules.refuses is not None and rules.refuses.search(pattern)):
        describe(node, f"pattern: {node.pop('pattern')}")
        yield f"pattern {pattern} is moved into the description"
    elif rules.anchored and not (begins and ends):
        node["pattern"] = f"^{'' if begins else '.*'}(?:{body}){'' if ends else '.*'}$"
        yield f"pattern {pattern} is written as {node['pattern']}: one matches the whole text here"


def _explicit(rules: Rules, node: Node) -> Iterator[str]:
    if (
        rules.explicit
        and "object" in types_in(node.get("type"))
        and "additionalProperties" not in node
    ):
        node["additionalProperties"] = True
        yield "additionalProperties true is added, which JSON Schema implies"


def _closed(rules: Rules, node: Node, rest: str) -> Iterator[str]:
    extra = node.get("additionalProperties")
    if not rules.closed or "object" not in types_in(node.get("type")) or extra is False:
        return
    value = extra if isinstance(extra, dict) else {}
    pairs = closed({"key": {"type": "string"}, "value": value})
    if rest or node.get("properties"):
        node["additionalProperties"] = False
        if extra is None:
            yield "additionalProperties false is added"
            return
        name = rest or "extra"
        while name in node["properties"]:
            name += "_"
        node["properties"] = {**node["properties"], name: {"type": "array", "items": pairs}}
        yield f"additionalProperties is written as {name}, a list of {{key, value}}"
        return
    for keyword in ("properties", "required", "additionalProperties"):
        node.pop(keyword, None)
    kinds = ["array" if kind == "object" else kind for kind in types_in(node["type"])]
    node["type"], node["items"] = kinds if len(kinds) > 1 else kinds[0], pairs
    yield "an open object is written as a list of {key, value}"
