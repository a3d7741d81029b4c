"""The references of a JSON Schema: where they lead, and which definitions hold themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

MANY = ("anyOf", "oneOf", "allOf", "prefixItems")
NAMED = ("properties", "patternProperties", "dependentSchemas")
ONE = (
    *("items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else"),
    *("unevaluatedItems", "unevaluatedProperties", "contentSchema"),
)


def children(node: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield the sub-schemas of `node`, definitions excepted, each with the way to it."""
    for keyword, value in node.items():
        if keyword in MANY and isinstance(value, list):
            yield from (((keyword, i), child) for i, child in enumerate(value))
        elif keyword in NAMED and isinstance(value, dict):
            yield from (((keyword, name), child) for name, child in value.items())
        elif keyword in ONE and isinstance(value, (dict, bool)):
            yield (keyword,), value


class Names:
    """The definitions of a schema, by the references to them."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.schema = schema
        self._refs: dict[str, str] = {"#": "#"}
        self._targets: dict[str, Any] = {"#": schema}

    def of(self, ref: str) -> str:
        """Return the name that `ref` has under `$defs`, `#` for the whole, or "" where it leads nowhere."""
        if ref not in self._refs:
            self._refs[ref] = self._name(ref)
        return self._refs[ref]

    def target(self, name: str) -> dict[str, Any]:
        """Return what a name stands for; a schema without meaning for an unknown one."""
        found = self._targets.get(name, {})
        return found if isinstance(found, dict) else {}

    def resolved(self, node: Any) -> dict[str, Any]:
        """Return `node`, its own reference replaced by what that points at."""
        for _ in range(100):
            if not isinstance(node, dict) or not isinstance(ref := node.get("$ref"), str):
                break
            node = {
                **self.target(self.of(ref)),
                **{key: value for key, value in node.items() if key != "$ref"},
            }
        return node if isinstance(node, dict) and "$ref" not in node else {}

    def cycles(self) -> list[str]:
        """Return the names that hold themselves."""
        edges: dict[str, set[str]] = {}
        todo = ["#"]
        while todo:
            name = todo.pop()
            if name not in edges:
                edges[name] = {self.of(ref) for ref in _refs(self.target(name))}
                todo += edges[name]
        return [name for name in edges if name in reachable(edges, name)]

    def _name(self, ref: str) -> str:
        node: Any = self.schema
        parts = [
            unquote(part).replace("~1", "/").replace("~0", "~")
            for part in ref.removeprefix("#/").split("/")
        ]
        for part in parts:
            if isinstance(node, list) and part.isdecimal() and int(part) < len(node):
                node = node[int(part)]
            elif isinstance(node, dict) and part in node:
                node = node[part]
            else:
                return ""
        if not ref.startswith("#/") or not isinstance(node, (dict, bool)):
            return ""
        stem = name = re.sub(r"[^A-Za-z0-9_.-]", "_", parts[-1]) or "_"
        number = 1
        while name in self._targets:
            number += 1
            name = f"{stem}_{number}"
        self._targets[name] = node
        return name


def _refs(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(ref := node.get("$ref"), str):
            yield ref
        for _, child in children(node):
            yield from _refs(child)


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
