"""Render a JSON Schema by the rules of one provider, and say what was rewritten, and where."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from functool.dialects import Lost, placed
from functool.dialects._cycles import cycles
from functool.dialects._rules import Node, Rules, brief_json, describe, rewrite
from functool.pointers import escaped
from functool.schema.json_schema import Names, children, resolved

MAX_NODES = 20_000
"""How many nodes writing definitions out may make: a reference that is met later is kept or cut."""

MAX_COPIED = 10_000_000
"""How many characters of definitions may be written out."""

_WORDLESS = frozenset(("$schema", "$id", "$comment", "$anchor", "discriminator", "title"))
_SAID = ("title", "description", "default", "examples")
_AT_ROOT = ("anyOf", "oneOf", "allOf", "not", "if", "then", "else", "enum", "const")


def render(schema: Mapping[str, Any], rules: Rules, rest: str = "") -> tuple[Node, list[str]]:
    """Return the schema of an object as `rules` have it, and every loss, with its JSON pointer.

    Args:
        schema: The neutral schema. It is not changed.
        rules: What the provider understands.
        rest: Where the provider wants every object closed: the property that holds the arguments
            that an open root admits beyond its own.
    """
    walk = _Walk(schema, rules, rest)
    return walk.root(), walk.losses


class _Walk:
    """One rendering under way."""

    def __init__(self, schema: Mapping[str, Any], rules: Rules, rest: str) -> None:
        self.schema, self.rules, self.rest = schema, rules, rest
        self.names = Names(schema)
        self.losses: list[str] = []
        self.defs: dict[str, Any] = {}
        # How many optional properties lie between the root and the current node.
        self.optional = 0
        # The definitions that the walk is inside of, with the value of `optional` at their start.
        self.open = {"#": 0}
        # By definition: the definitions it refers to without an optional property in between.
        self.needs: dict[str, set[str]] = {}
        self.nodes = 0
        self.copied = 0
        self.sizes: dict[str, int] = {}

    @cached_property
    def recursive(self) -> frozenset[str]:
        """The names of the recursive definitions."""
        return frozenset(cycles(self.names))

    def root(self) -> Node:
        node = {
            key: value for key, value in self.schema.items() if key not in ("$defs", "definitions")
        }
        if "$ref" in node:
            reason = "is replaced by what it points at: the arguments are an object"
            self.lose("#", f"$ref {brief_json(node['$ref'])} {reason}")
            node = self.resolved(node)
        self.flatten(node)
        if node.get("type", "object") != "object":
            self.lose("#", f"type {brief_json(node['type'])} is written as object")
        node = {**node, "type": "object", "properties": dict(node.get("properties") or {})}
        out = self.node(node, "#", self.rest or "extra")
        return {**out, "$defs": self.defs} if self.defs else out

    def resolved(self, node: Any) -> Node:
        """Return a schema without its reference; an empty one if that leads nowhere."""
        found = resolved(self.schema, node)
        return found if isinstance(found, dict) else {}

    def lose(self, path: str, *losses: str) -> None:
        self.losses += [placed(path, loss) for loss in losses]

    def node(self, schema: Any, path: str, rest: str = "") -> Node:
        self.nodes += 1
        node = (
            dict(schema) if isinstance(schema, dict) else {} if schema is not False else {"not": {}}
        )
        if "$ref" not in node:
            self.all_of(node, path)
        if isinstance(node.get("$ref"), str):
            return self.reference(node, path)
        self.lose(path, *rewrite(self.rules, node, rest))
        if isinstance(node.get("$ref"), str):
            return self.reference(node, path)
        notes = [note for keyword in list(node) if (note := self.drop(node, keyword, path))]
        below = list(children(node))
        for keyword in {str(where[0]) for where, _ in below if len(where) == 2}:
            # The schema is not changed, and a copy for each child would take too long.
            held: Any = node[keyword]
            own: Any = dict(held) if isinstance(held, Mapping) else list(held)
            node[keyword] = own
        required = frozenset(map(str, node.get("required") or ()))
        for where, child in below:
            self.child(node, where, child, path, required)
        if notes:
            describe(node, "; ".join(notes))
        return node

    def drop(self, node: Node, keyword: str, path: str) -> str:
        """Take out a keyword that the provider does not understand.

        Returns:
            What the description has to say of it, if anything.
        """
        value = node[keyword]
        if self.rules.takes(keyword, value):
            return ""
        del node[keyword]
        if keyword in _WORDLESS or (keyword == "additionalProperties" and isinstance(value, bool)):
            self.lose(path, f"{keyword} is dropped")
            return ""
        self.lose(path, f"{keyword} {brief_json(value)} is moved into the description")
        return f"{keyword}: {value if isinstance(value, str) else brief_json(value)}"

    def child(
        self,
        node: Node,
        where: tuple[str | int, ...],
        child: Any,
        path: str,
        required: frozenset[str],
    ) -> None:
        keyword, key = str(where[0]), where[-1]
        if isinstance(child, bool) and (self.rules.booleans or keyword == "additionalProperties"):
            return
        below = "/".join((path, *(escaped(str(step)) for step in where)))
        if child is False and keyword == "properties":
            del node[keyword][key]
            self.lose(below, "a property that no value fits is left out")
            return
        optional = keyword == "properties" and key not in required
        self.optional += optional
        rendered = self.node(child, below)
        self.optional -= optional
        if len(where) == 1:
            node[keyword] = rendered
        else:
            node[keyword][key] = rendered

    def flatten(self, node: Node) -> None:
        """Take out of the root what only nodes below it may hold.

        The properties of its alternatives become its own.
        """
        if merged := self.merged(node):
            node.clear()
            node.update(merged)
            self.lose("#", "allOf is merged into the root")
        for keyword in _AT_ROOT:
            if keyword not in node:
                continue
            value = node.pop(keyword)
            properties = dict(node.get("properties") or {})
            for member in map(
                self.resolved, value if keyword.endswith("Of") and isinstance(value, list) else ()
            ):
                for name, child in (member.get("properties") or {}).items():
                    known = properties.setdefault(name, child)
                    if known != child:
                        properties[name] = {"anyOf": [known, child]}
            node["properties"] = properties
            describe(node, f"{keyword}: {brief_json(value)}")
            reason = "is moved into the description: the root holds none here"
            self.lose("#", f"{keyword} {brief_json(value)} {reason}")

    def all_of(self, node: Node, path: str, whole: bool = False) -> None:
        """Merge allOf into the node where the provider does not take it, or describe it.

        Args:
            node: Where it stands.
            path: The place of the node.
            whole: Merge it in any case.
        """
        members, rule = node.get("allOf"), self.rules.all_of
        if not isinstance(members, list) or (
            not whole and (rule == "keep" or (rule == "one" and len(members) == 1))
        ):
            return
        if not whole and rule == "no-ref" and not _refers(members):
            return
        if merged := self.merged(node):
            node.clear()
            node.update(merged)
            self.lose(path, "allOf is merged into the node")
            self.all_of(node, path, whole=True)
        else:
            describe(node, f"allOf: {brief_json(node.pop('allOf'))}")
            self.lose(path, f"allOf {brief_json(members)} is moved into the description")

    def merged(self, node: Node) -> Node | None:
        members = node.get("allOf")
        if not isinstance(members, list):
            return None
        refs = [
            member["$ref"]
            for member in members
            if isinstance(member, dict) and isinstance(member.get("$ref"), str)
        ]
        names = {self.names.of(ref) for ref in refs}
        if names & self.recursive or (names and not self.may_copy(*names)):
            return None  # Merging a recursive schema would never end, and others may be too large.
        rest = {key: value for key, value in node.items() if key != "allOf"}
        lone = (
            members[0]
            if len(members) == 1 and not rest.keys() - {"title", "description", "default"}
            else None
        )
        parts = [lone] if isinstance(lone, dict) else [self.resolved(member) for member in members]
        return _together([rest, *parts])

    def reference(self, node: Node, path: str) -> Node:
        ref, rules = node.pop("$ref"), self.rules
        name = self.names.of(ref)
        if not name:
            reason = "leads nowhere that a model can follow, and is moved into the description"
            self.lose(path, Lost(f"$ref {ref} {reason}"))
            describe(node, f"as {ref} describes")
            return self.node(node, path)
        target, back = self.names.target(name), name in self.open
        cut = (
            back
            if rules.recursion == "cut"
            else rules.recursion == "optional" and self.closes(name)
        )
        if cut or (rules.refs == "inline" and not self.may_copy()):
            why = "the provider takes no recursive schema here"
            why = why if cut else "written out, the schema would be too large"
            self.lose(path, f"$ref {ref} is cut: {why}")
            describe(node, f"the same shape as {'the whole' if name == '#' else name}")
            return self.node({"type": target.get("type", "object"), **node}, path)
        if rules.refs == "inline" or (rules.refs == "unions" and self.writes_out(name, path)):
            return self.inlined(node, ref, path)
        new = "#" if name == "#" else f"#/$defs/{name}"
        if not back and name not in self.defs:
            self.defs[name] = {}
            self.defs[name] = self.enter(name, target, new)
        if new != ref:
            self.lose(path, f"$ref {ref} is written as {new}")
        return self.beside(node, new, path) if node else {"$ref": new}

    def inlined(self, node: Node, ref: str, path: str) -> Node:
        """Replace a reference by the schema it points at."""
        self.lose(path, f"$ref {ref} is replaced by what it points at")
        name = self.names.of(ref)
        self.may_copy(name)
        target = self.names.target(name)
        clash = any(
            target.get(key, value) != value for key, value in node.items() if key not in _SAID
        )
        both = {**node, "allOf": [*node.get("allOf", ()), target]}
        return self.enter(name, both if clash else {**target, **node}, path)

    def may_copy(self, *names: str) -> bool:
        """Whether definitions may still be written out. Count the size of those with `names`."""
        for name in names:
            if name not in self.sizes:
                self.sizes[name] = len(json.dumps(self.names.target(name), default=str))
            self.copied += self.sizes[name]
        return self.nodes <= MAX_NODES and self.copied <= MAX_COPIED

    def writes_out(self, name: str, path: str) -> bool:
        """Whether a reference is a member of a union, and can be replaced by its definition."""
        *_, keyword, place = path.split("/")
        if keyword not in ("anyOf", "oneOf") or not place.isdigit():
            return False
        why = "it is recursive" if name in self.recursive else ""
        if why or not self.may_copy():
            why = why or "written out, the schema would be too large"
            self.lose(path, Lost(f"$ref {name} stays in a union: {why}"))
            return False
        return True

    def beside(self, node: Node, new: str, path: str) -> Node:
        """Write what stands beside a reference."""
        if self.rules.refs == "wrap" and "anyOf" in node:
            self.lose(path, f"anyOf {brief_json(node['anyOf'])} is moved into the description")
            describe(node, f"anyOf: {brief_json(node.pop('anyOf'))}")
        # With an `anyOf` the rules do not ask for a type.
        beside = self.node({"anyOf": (), **node}, path)
        if self.rules.refs == "wrap":
            self.lose(path, f"$ref beside {', '.join(node)} is wrapped in anyOf")
            return {**beside, "anyOf": [{"$ref": new}]}
        if "anyOf" not in node:
            del beside["anyOf"]
        return {**beside, "$ref": new}

    def closes(self, name: str) -> bool:
        """Whether a reference to a definition closes a cycle without any optional property."""
        here = next(reversed(self.open))
        if self.optional > self.open[here]:
            return False
        needed = self.needs.setdefault(here, set())
        if name in needed:  # The needs never form a cycle, so this one closes none.
            return False
        if name == here or here in _reachable(self.needs, name):
            return True
        needed.add(name)
        return False

    def enter(self, name: str, target: Node, path: str) -> Node:
        self.open[name] = self.optional
        node = self.node(target, path)
        del self.open[name]
        return node


def _reachable(edges: Mapping[str, set[str]], start: str) -> set[str]:
    """Return the names that can be reached from `start` over the edges."""
    seen: set[str] = set()
    todo = [*edges.get(start, ())]
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += edges.get(name, ())
    return seen


def _refers(members: Any) -> bool:
    """Whether a member of allOf is a reference, or holds one in an allOf of its own."""
    parts = (
        [member for member in members if isinstance(member, dict)]
        if isinstance(members, list)
        else []
    )
    return any("$ref" in part or _refers(part.get("allOf")) for part in parts)


def _together(parts: Iterable[Node]) -> Node | None:
    """Merge schemas into one that says the same; None where they contradict each other."""
    out: Node = {}
    # These two are filled in place, because a stranger's schema may have thousands of parts.
    properties: Node = {}
    required: Node = {}
    for part in parts:
        for key, value in part.items():
            if key == "properties" and isinstance(value, dict):
                if any(properties.get(name, child) != child for name, child in value.items()):
                    return None
                properties.update(value)
                out[key] = properties
            elif key == "required":
                required |= {str(name): name for name in value}
                out[key] = required
            elif out.setdefault(key, value) != value and key not in ("title", "description"):
                return None
    if "required" in out:
        out["required"] = [*required.values()]
    owners = sum(bool(part.get("properties")) for part in parts)
    return None if out.get("additionalProperties") is False and owners > 1 else out
