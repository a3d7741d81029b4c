"""Read a JSON Schema: follow its references, walk through its parts, name its definitions.

Everything that reads a schema uses this file: the strict form, the dialects, `check_tool`, OpenAPI
and MCP. No function here fetches a reference from outside the schema, or changes a schema that
somebody else holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any
from urllib.parse import unquote

from functool.errors import DefinitionError
from functool.pointers import unescaped

UNSET: Any = ...  # Not a JSON value, and the same object after a deep copy.

# The keywords that hold a list of schemas, a mapping of names to schemas, and a single schema.
MANY = ("anyOf", "oneOf", "allOf", "prefixItems")
NAMED = {"properties", "patternProperties", "dependentSchemas"}
ONE = {
    *("items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else"),
    *("unevaluatedItems", "unevaluatedProperties", "contentSchema"),
}
DEFINITIONS = ("$defs", "definitions")


MAX_CHAIN = 16
"""How many references may follow one another. A stranger's schema may have 10,000 such chains."""


def lookup(root: Any, ref: Any) -> Any:
    """Return the target of a reference inside a schema, or `UNSET` if there is none."""
    if not isinstance(ref, str) or not f"{ref}/".startswith("#/"):
        return UNSET
    node = root
    for part in ref.split("/")[1:]:
        # Some authors percent-encode names in a reference, others do not.
        names = [unescaped(part), unescaped(unquote(part))]
        if isinstance(node, list):
            place = int(part[:9]) if part.isascii() and part.isdigit() else len(node)
            node = node[place] if place < len(node) else UNSET
        else:
            known = [name for name in names if isinstance(node, Mapping) and name in node]
            node = node[known[0]] if known else UNSET
    return node


def resolved(root: Any, node: Any) -> Any:
    """Replace a schema that is a reference by its target; `UNSET` if the target is no schema.

    Keywords beside the reference are added to the target.
    """
    seen: set[str] = set()
    while isinstance(node, Mapping) and isinstance(ref := node.get("$ref"), str):
        found = lookup(root, ref)
        if ref in seen or len(seen) == MAX_CHAIN or not isinstance(found, (Mapping, bool)):
            return UNSET
        seen.add(ref)
        beside = {key: value for key, value in node.items() if key != "$ref"}
        node = {**found, **beside} if beside and isinstance(found, Mapping) else found
    return node


def children(node: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield the path and the schema of each direct child of `node`, except its definitions."""
    for keyword, value in node.items():
        if keyword in ONE and isinstance(value, (dict, bool, Mapping)):
            yield (keyword,), value
        elif keyword in NAMED and isinstance(value, Mapping):
            yield from (((keyword, name), child) for name, child in value.items())
        elif keyword in MANY and isinstance(value, list):
            yield from (((keyword, i), child) for i, child in enumerate(value))


def walk(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Yield a schema and every schema inside it, including its definitions, each object once."""
    todo, seen = [schema], set[int]()
    while todo:
        node = todo.pop()
        if isinstance(node, (dict, Mapping)) and id(node) not in seen:
            seen.add(id(node))
            yield node
            todo += [child for _, child in children(node)]
            for keyword in DEFINITIONS:
                if isinstance(node.get(keyword), Mapping):
                    todo += node[keyword].values()


def property_names(schema: Any) -> Iterator[str]:
    """Yield the names of the properties at every depth."""
    for node in walk(schema):
        if isinstance(node.get("properties"), Mapping):
            yield from node["properties"]


class Names:
    """Assigns every target of a reference a name of its own under `$defs`."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.schema = schema
        self._names = {"#": "#"}  # Reference to name.
        self._targets = {"#": dict(schema), "": {}}  # Name to schema.
        self._numbers: dict[str, int] = {}  # Of each name that is shared: the last one in use.

    def of(self, ref: str) -> str:
        """Return the name of a reference's target: `#` for the root, "" if there is no target."""
        if ref not in self._names:
            found = lookup(self.schema, ref)
            known = isinstance(found, (Mapping, bool))
            self._names[ref] = name = self._free_name(ref) if known else ""
            self._targets[name] = found if isinstance(found, dict) else {}
        return self._names[ref]

    def target(self, name: str) -> dict[str, Any]:
        """Return the schema with this name, or an empty schema if the name is unknown."""
        return self._targets.get(name, {})

    def _free_name(self, ref: str) -> str:
        last = unescaped(unquote(ref.rpartition("/")[2]))
        stem = name = re.sub(r"[^A-Za-z0-9_.-]", "_", last) or "_"
        while name in self._targets:
            self._numbers[stem] = number = self._numbers.get(stem, 1) + 1
            name = f"{stem}_{number}"
        return name


def checked_parameters(parameters: Any) -> dict[str, Any]:
    """Return a copy of a JSON Schema of arguments, with the type of its root filled in.

    Raises:
        DefinitionError: The schema is not a mapping, or its root is not an object.
    """
    if not isinstance(parameters, Mapping) or parameters.get("type", "object") != "object":
        raise DefinitionError('parameters must be a JSON Schema whose root has "type": "object"')
    return {
        "type": "object",
        **({} if parameters else {"properties": {}, "additionalProperties": False}),
        **_as_2020(deepcopy(dict(parameters))),
    }


def without_older(node: dict[str, Any]) -> Iterator[str]:
    """Write one schema in place as 2020-12 does, and yield in words what older drafts said.

    Those are a tuple as a list of `items`, and an exclusive limit as a boolean beside the limit.
    """
    if isinstance(node.get("items"), list):
        node["prefixItems"] = node.pop("items")
        if "additionalItems" in node:
            node["items"] = node.pop("additionalItems")
        yield "items as a list is written as prefixItems"
    for keyword, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(node.get(keyword), bool):
            if node.pop(keyword) and bound in node:
                node[keyword] = node.pop(bound)
            yield f"{keyword} as a boolean is written together with {bound} as one number"


def _as_2020(schema: dict[str, Any]) -> dict[str, Any]:
    """Write a schema and those inside it in place as 2020-12 does, with the references to them."""
    if not [words for node in _dicts_in(schema) for words in without_older(node)]:
        return schema
    schema.pop("$schema", None)  # It named a draft that the schema no longer follows.
    for node in _dicts_in(schema):
        ref = node.get("$ref")
        if isinstance(ref, str) and ref.startswith("#/") and lookup(schema, ref) is UNSET:
            ref = re.sub(r"/items(?=/\d)", "/prefixItems", ref)
            node["$ref"] = re.sub(r"/additionalItems(?=/|$)", "/items", ref)
    return schema


def _dicts_in(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a schema and the schemas inside it that can be changed in place."""
    return (node for node in walk(schema) if isinstance(node, dict))
