"""Read a JSON Schema: follow its references, list what is inside of it, name its definitions.

Everything that reads a schema stands on this file: the strict form, the dialects, the tests of
tools, OpenAPI and MCP. Nothing here fetches a reference that leads out of the schema, and nothing
here changes a schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any
from urllib.parse import unquote

from functool.errors import DefinitionError

UNSET: Any = ...  # It is no JSON value, and a copy of it is itself.

# The keywords that hold a list of schemas, schemas by name, and one schema.
MANY = ("anyOf", "oneOf", "allOf", "prefixItems")
NAMED = ("properties", "patternProperties", "dependentSchemas")
ONE = (
    *("items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else"),
    *("unevaluatedItems", "unevaluatedProperties", "contentSchema"),
)
DEFINITIONS = ("$defs", "definitions")


def lookup(root: Any, ref: Any) -> Any:
    """Find what a reference inside of a schema leads to, or `UNSET`."""
    if not isinstance(ref, str) or not f"{ref}/".startswith("#/"):
        return UNSET
    node = root
    for part in ref.split("/")[1:]:
        # Some authors write a name into a reference as it stands, others percent-encode it.
        names = [name.replace("~1", "/").replace("~0", "~") for name in (part, unquote(part))]
        if isinstance(node, list):
            place = int(part[:9]) if part.isascii() and part.isdigit() else len(node)
            node = node[place] if place < len(node) else UNSET
        else:
            known = [name for name in names if isinstance(node, Mapping) and name in node]
            node = node[known[0]] if known else UNSET
    return node


def resolved(root: Any, node: Any) -> Any:
    """Return a schema without a reference of its own, or `UNSET` if that leads to no schema.

    What stands beside the reference is added to what it leads to.
    """
    seen: set[str] = set()
    while isinstance(node, Mapping) and isinstance(ref := node.get("$ref"), str):
        found = lookup(root, ref)
        if ref in seen or not isinstance(found, (Mapping, bool)):
            return UNSET
        seen.add(ref)
        beside = {key: value for key, value in node.items() if key != "$ref"}
        node = {**found, **beside} if beside and isinstance(found, Mapping) else found
    return node


def children(node: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield the schemas inside of `node`, but for its definitions, each with the way to it."""
    for keyword, value in node.items():
        if keyword in MANY and isinstance(value, list):
            yield from (((keyword, i), child) for i, child in enumerate(value))
        elif keyword in NAMED and isinstance(value, Mapping):
            yield from (((keyword, name), child) for name, child in value.items())
        elif keyword in ONE and isinstance(value, (Mapping, bool)):
            yield (keyword,), value


def walk(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Yield a schema and every one inside of it, those of its definitions too."""
    todo = [schema]
    while todo:
        node = todo.pop()
        if isinstance(node, Mapping):
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
    """Gives every definition of a schema one name under `$defs`, wherever it stands."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.schema = schema
        self._names = {"#": "#"}  # by reference
        self._refs = {"#": "#"}  # by name

    def of(self, ref: str) -> str:
        """Return the name of what `ref` leads to: `#` for the whole, "" if it leads nowhere."""
        if ref not in self._names:
            known = isinstance(lookup(self.schema, ref), (Mapping, bool))
            self._names[ref] = name = self._free_name(ref) if known else ""
            self._refs[name] = ref
        return self._names[ref]

    def target(self, name: str) -> dict[str, Any]:
        """Return what a name stands for; an empty schema for an unknown one."""
        found = lookup(self.schema, self._refs.get(name))
        return found if isinstance(found, dict) else {}

    def cycles(self) -> list[str]:
        """Return the names of the definitions that the schema uses and that hold themselves."""
        edges: dict[str, set[str]] = {}
        todo = ["#"]
        while todo:
            name = todo.pop()
            if name not in edges:
                edges[name] = {self.of(ref) for ref in _references(self.target(name))}
                todo += edges[name]
        return [name for name in edges if name in reachable(edges, name)]

    def _free_name(self, ref: str) -> str:
        last = unquote(ref.rpartition("/")[2]).replace("~1", "/").replace("~0", "~")
        stem = name = re.sub(r"[^A-Za-z0-9_.-]", "_", last) or "_"
        number = 1
        while name in self._refs:
            number += 1
            name = f"{stem}_{number}"
        return name


def _references(node: Any) -> Iterator[str]:
    todo = [node]
    while todo:
        if isinstance(node := todo.pop(), Mapping):
            if isinstance(node.get("$ref"), str):
                yield node["$ref"]
            todo += [child for _, child in children(node)]


def reachable(edges: Mapping[str, set[str]], start: str) -> set[str]:
    """Return the names to which the edges lead from `start`."""
    seen: set[str] = set()
    todo = [*edges.get(start, ())]
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += edges.get(name, ())
    return seen


def checked_parameters(parameters: Any) -> dict[str, Any]:
    """Return a JSON Schema of arguments with its root type said.

    Raises:
        DefinitionError: It is no mapping, or its root is not an object.
    """
    if not isinstance(parameters, Mapping) or parameters.get("type", "object") != "object":
        raise DefinitionError('parameters must be a JSON Schema whose root has "type": "object"')
    return {
        "type": "object",
        **({} if parameters else {"properties": {}, "additionalProperties": False}),
        **deepcopy(dict(parameters)),
    }
