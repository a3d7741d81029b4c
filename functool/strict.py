"""The strict subset of JSON Schema: what leaves it, and a loss-free way into it.

`violations(schema)` names every place in which a schema leaves the subset that OpenAI (Azure included) takes under `strict`. `codec(schema)`
writes a schema inside the subset, `encode` brings a value into that form and `decode` brings it back. `decode` takes the plain form
too, at every depth: what is plain already stays as it is.

| plain | strict |
|---|---|
| optional property | required; null stands for "left out", unless the type itself admits null |
| `dict[str, T]` | array of `{key, value}`; beside named properties: one more property that holds it |
| tuple of unlike items | object `{item_0, item_1, ...}` |
| any value at all | anyOf of the scalar types |
| keywords, formats and patterns the subset lacks | a sentence in the description |

What no strict form can tell apart, and how it is read:

- an optional property whose type admits null: null is null, so only the plain form can leave it out;
- `dict[str, T] | list[U]`: an empty array is the empty list; the empty dict is sent as `{}`, which only the plain form can say;
- `**rest: list[...]`: an argument that is itself named `rest` and holds a list of pairs is read as the pairs;
- two pairs with one key are no dict: the array stays as it is, and validation refuses it;
- an item of a tuple that may be left out, has no default and stands before one that is given: null stays null;
- a union in which one value could be both, the strict form of one member and another thing in the other, is refused with a `SchemaError`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from functool.errors import SchemaError

_SCALARS = ("string", "number", "integer", "boolean", "null")
_FORMATS = frozenset(("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"))
_AZURE = frozenset(("minLength", "maxLength", "default"))
_NOTED = frozenset(
    [
        "not",
        "if",
        "then",
        "else",
        "dependentRequired",
        "dependentSchemas",
        "dependencies",
        "contains",
        "minContains",
        "maxContains",
        "contentEncoding",
        "contentMediaType",
        "contentSchema",
        "minProperties",
        "maxProperties",
        "propertyNames",
        "patternProperties",
        "unevaluatedItems",
        "unevaluatedProperties",
        "uniqueItems",
        "additionalItems",
    ]
)
_ANCHORS = frozenset(("$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveAnchor", "$recursiveRef"))
_FORBIDDEN = _NOTED | _ANCHORS | {"allOf", "oneOf", "prefixItems"}
_LOOKAROUND = ("(?=", "(?!", "(?<=", "(?<!")
_SHAPES = frozenset(
    [
        "type",
        "properties",
        "items",
        "prefixItems",
        "additionalProperties",
        "patternProperties",
        "enum",
        "const",
        "$ref",
        "anyOf",
        "oneOf",
        "allOf",
    ]
)
# Read by the node itself: neither kept as they stand nor moved into the description.
_READ = (
    _SHAPES
    | _ANCHORS
    | {"required", "minItems", "maxItems", "description", "default", "discriminator", "$id", "$defs", "definitions"}
)
_ABOUT = frozenset(
    ("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment", "discriminator")
)
_OF_NAMES = ("patternProperties", "propertyNames", "minProperties", "maxProperties")
_IMPLIED = {
    "array": {"items", "prefixItems"},
    "object": {"properties", "additionalProperties", "patternProperties", "required"},
}
_KINDS: dict[str, Any] = {
    **dict.fromkeys(("properties", "patternProperties", "$defs", "definitions"), dict),
    **dict.fromkeys(("required", "enum", "anyOf", "oneOf", "allOf", "prefixItems"), list),
    **dict.fromkeys(("minItems", "maxItems", "minProperties", "maxProperties"), int),
    "type": (str, list),
    "items": (dict, list, bool),
    "additionalProperties": (dict, bool),
    "$ref": str,
}
_NAMES: dict[type, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
    list: "array",
    dict: "object",
}
_SAMPLES: dict[str, Any] = {"string": "", "integer": 0, "number": 0.5, "boolean": True, "null": None}
_PAIR = {"key", "value"}
_UNSET: Any = ...  # JSON has no such value, and a copy of it is itself

_Memo = dict[tuple[int, int, bool], tuple["_Node | None", Any]]


@dataclass(frozen=True, slots=True)
class Codec:
    """A schema in strict form, and the way of a value into it and back.

    Attributes:
        schema: The strict form: `violations(schema)` is empty.
        encode: Brings a plain value into strict form.
        decode: Brings a value in strict form, in plain form or in both at different depths into plain form; a value of another shape
            stays as it is. Neither raises, nor changes its argument.
        reasons: Each place whose values change between the two forms or get narrower, with its path and the way to write it so that
            nothing has to be encoded.
        flat_nulls: The names whose null `decode` drops at the top, where that is all it does; None where it does more.
    """

    schema: dict[str, Any]
    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]
    reasons: tuple[str, ...]
    flat_nulls: tuple[str, ...] | None

    @property
    def trivial(self) -> bool:
        """Whether `decode` gives every value back as it is."""
        return self.flat_nulls == ()


def codec(schema: Mapping[str, Any], refuse: bool = False, rest: str = "") -> Codec:
    """Write a schema in strict form.

    Args:
        schema: JSON Schema 2020-12 of an object, for instance the arguments of a tool. It is not changed.
        refuse: Raise for whatever would need encoding too.
        rest: The property that holds what the root's typed `additionalProperties` admit.

    Raises:
        SchemaError: Part of the schema has no strict form, or needs encoding and `refuse` is set. `reasons` lists every place.
    """
    reader = _Reader(deepcopy(dict(schema)), rest or "extra")
    root = reader.read_root()
    reasons = [*reader.broken, *(reader.encoded if refuse else ())]
    if reasons:
        raise SchemaError("The schema has no strict form:\n" + "\n".join(f"- {reason}" for reason in reasons), reasons)
    strict = root.emit()
    if defs := {target.name: target.node.emit() for target in reader.targets.values() if target.name}:
        strict["$defs"] = defs

    def encode(value: Any) -> Any:
        return root.encode(value if type(value) is dict or not isinstance(value, Mapping) else dict(value), {})

    def decode(value: Any) -> Any:
        return root.decode(value if type(value) is dict or not isinstance(value, Mapping) else dict(value), {})

    flat = None if root.pairs or root.inner else tuple(sorted(root.droppable))
    return Codec(strict, encode, decode, tuple(reader.encoded), flat)


class _Node:
    """A place in the schema: what its form keeps, and how its values change."""

    live = changes = False

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.default, self.about = schema.get("default", _UNSET), schema.get("description")
        self.notes = [f"{key}: {_text(value)}." for key, value in schema.items() if _is_noted(key, value)]
        self.kept = {key: value for key, value in schema.items() if key not in _READ and not _is_noted(key, value)}

    def solid(self) -> _Node:
        return self

    def children(self) -> Iterable[_Node]:
        return ()

    def settle(self) -> None:
        """Work out what needs every reference to have its target."""

    def link(self) -> None:
        """Remember what decoding has to visit."""

    def fits(self, value: Any, plain: bool, memo: _Memo) -> bool:
        """Say whether a value has the plain shape or, if not `plain`, the strict one, at any depth."""
        raise NotImplementedError

    def decode(self, value: Any, memo: _Memo) -> Any:
        return value

    def encode(self, value: Any, memo: _Memo) -> Any:
        return value

    def form(self) -> dict[str, Any]:
        raise NotImplementedError

    def emit(self, optional: bool = False) -> dict[str, Any]:
        form, notes = self.form(), [self.about] if isinstance(self.about, str) and self.about else []
        notes += self.notes
        if self.default is not _UNSET:
            notes.append(f"Default: {_text(self.default)}.")
        if optional and self.fits(None, True, {}):
            notes += ["Null is a value of its own here."] if self.default is not None else []
        elif optional:
            notes.append("Null means that it is left out." if self.default is _UNSET else "Null means the default.")
            form = _or_null(form)
        outside = {**self.kept, **({"description": " ".join(notes)} if notes else {})}
        return {**outside, **({"anyOf": [form]} if outside and "$ref" in form else form)}


class _Leaf(_Node):
    """A scalar or, without types, any value at all: its plain and strict forms are one."""

    def __init__(self, schema: Mapping[str, Any], types: Iterable[str], values: list[Any] | None = None) -> None:
        super().__init__(schema)
        self.types, self.values, self.constant = tuple(types), values, "const" in schema

    def fits(self, value: Any, plain: bool, memo: _Memo) -> bool:
        if not self.types:
            return True
        return _is_type(value, self.types) and (
            self.values is None or any(_same(value, known) for known in self.values)
        )

    def form(self) -> dict[str, Any]:
        if not self.types:
            return {"anyOf": [{"type": name} for name in _SCALARS if name != "integer"]}
        form: dict[str, Any] = {"type": self.types[0] if len(self.types) == 1 else [*self.types]}
        if self.values is not None:
            form |= {"const": self.values[0]} if self.constant else {"enum": [*self.values]}
        return form


class _Box(_Node):
    """An array or object: a node for each of its keys, and one for all others. Here an array of like items.

    `twin` is the box of the strict form, where that is of another kind; `open` and `close` lead from its values and back.
    """

    kind: type = list
    twin: _Box | None = None
    bounds: Mapping[str, Any] = {}
    droppable: frozenset[Any] = frozenset()

    def __init__(
        self,
        schema: Mapping[str, Any],
        fields: Mapping[Any, _Node],
        required: Iterable[Any] = (),
        rest: _Node | None = None,
    ) -> None:
        super().__init__(schema)
        self.fields, self.required, self.rest = dict(fields), frozenset(required), rest

    def children(self) -> Iterable[_Node]:
        return [node for node in (*self.fields.values(), self.rest, self.twin) if node]

    def link(self) -> None:
        self.inner = {key: node.solid().decode for key, node in self.fields.items() if node.solid().live}
        self.other = self.rest.solid().decode if self.rest and self.rest.solid().live else None

    def open(self, value: Any) -> Any:
        return value

    def close(self, items: dict[Any, Any]) -> Any:
        return list(items.values())

    def fits(self, value: Any, plain: bool, memo: _Memo) -> bool:
        value = value if plain else self.open(value)
        if not isinstance(value, self.kind):
            return False
        items = value if isinstance(value, dict) else dict(enumerate(value))
        if not items.keys() >= self.required:
            return False
        for key, item in items.items():
            node = self.fields.get(key, self.rest)
            if node is None or not node.fits(item, plain, memo):
                return False
        return True

    def decode(self, value: Any, memo: _Memo) -> Any:
        value, inner, other = self.open(value), self.inner, self.other
        if not isinstance(value, self.kind) or not (inner or other):
            return value
        if isinstance(value, dict):
            return {
                key: decode(item, memo) if (decode := inner.get(key, other)) else item for key, item in value.items()
            }
        return [decode(item, memo) if (decode := inner.get(key, other)) else item for key, item in enumerate(value)]

    def encode(self, value: Any, memo: _Memo) -> Any:
        if not isinstance(value, self.kind):
            return value
        items = value if isinstance(value, dict) else dict(enumerate(value))
        nodes = {key: self.fields.get(key, self.rest) for key in items}
        return self.close({key: node.encode(items[key], memo) if node else items[key] for key, node in nodes.items()})

    def form(self) -> dict[str, Any]:
        return (
            self.twin.form()
            if self.twin
            else {"type": "array", "items": self.rest.emit() if self.rest else {}, **self.bounds}
        )


class _Record(_Box):
    """An object with named properties. `pairs` publishes the others, as the property `name`."""

    kind = dict
    pairs: _Pairs | None = None
    name = ""

    def children(self) -> Iterable[_Node]:
        return [*super().children(), *([self.pairs] if self.pairs else [])]

    def settle(self) -> None:
        self.droppable = frozenset(
            key for key, node in self.fields.items() if key not in self.required and not node.fits(None, True, {})
        )
        self.changes = bool(self.droppable or self.pairs)

    def open(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        droppable = self.droppable
        plain = {key: item for key, item in value.items() if item is not None or key not in droppable}
        if self.pairs and isinstance(plain.get(self.name), list):
            others = self.pairs.open(plain[self.name])
            named = {key: item for key, item in plain.items() if key != self.name}
            if isinstance(others, dict) and not others.keys() & {*named, *self.fields}:
                return {**named, **others}
        return plain

    def close(self, items: dict[Any, Any]) -> Any:
        done = {key: items.get(key) for key in self.fields if key in items or key in self.droppable}
        others = {key: item for key, item in items.items() if key not in self.fields}
        return {**done, **({self.name: self.pairs.close(others)} if self.pairs else others)}

    def form(self) -> dict[str, Any]:
        fields = {key: node.emit(key not in self.required) for key, node in self.fields.items()}
        if self.pairs:
            fields[self.name] = self.pairs.emit()
        return {"type": "object", "properties": fields, "required": [*fields], "additionalProperties": False}


class _Pairs(_Box):
    """An object with any names; in strict form an array of `{key, value}`."""

    kind = dict
    changes = True

    def __init__(self, schema: Mapping[str, Any], key: _Node, value: _Node, bounds: Mapping[str, Any]) -> None:
        super().__init__(schema, {}, (), value)
        self.twin = _Box({}, {}, (), _Record({}, {"key": key, "value": value}, _PAIR))
        self.twin.bounds = bounds

    def open(self, value: Any) -> Any:
        if not isinstance(value, list):
            return value
        plain: dict[str, Any] = {}
        for pair in value:
            if (
                not isinstance(pair, dict)
                or pair.keys() != _PAIR
                or not isinstance(pair["key"], str)
                or pair["key"] in plain
            ):
                return value
            plain[pair["key"]] = pair["value"]
        return plain

    def close(self, items: dict[Any, Any]) -> Any:
        return [{"key": key, "value": item} for key, item in items.items()]


class _Tuple(_Box):
    """An array of unlike items; in strict form an object of `item_0`, `item_1` and so on."""

    changes = True
    named: _Record

    def __init__(self, schema: Mapping[str, Any], items: list[_Node], least: int) -> None:
        super().__init__(schema, dict(enumerate(items)), range(least))
        named = {f"item_{key}": node for key, node in self.fields.items()}
        self.twin = self.named = _Record({}, named, [*named][:least])

    def open(self, value: Any) -> Any:
        if not isinstance(value, dict) or not value.keys() <= self.named.fields.keys():
            return value
        found = self.named.open(value)
        names = [*self.named.fields]
        while names and names[-1] not in found:
            names.pop()
        items = [found[name] if name in found else deepcopy(self.named.fields[name].default) for name in names]
        return value if _UNSET in items or len(items) < len(self.required) else items

    def close(self, items: dict[Any, Any]) -> Any:
        return self.named.close({f"item_{key}": item for key, item in items.items()})


class _Union(_Node):
    """One of several; a value is read as the first member whose shape it has, as plain before strict."""

    def __init__(self, schema: Mapping[str, Any], members: list[_Node]) -> None:
        super().__init__(schema)
        self.members = self.options = members

    def children(self) -> Iterable[_Node]:
        return self.members

    def link(self) -> None:
        self.options = _parts(self)
        boxes = [node for node in self.options if not isinstance(node, _Leaf)]
        self.only = boxes[0] if len(boxes) == 1 else None

    def pick(self, value: Any, plain: bool, memo: _Memo) -> _Node | None:
        # Each value is looked at once: without the memo recursive unions take exponential time. It keeps the value, and so its id.
        key = (id(self), id(value), plain)
        if key not in memo:
            memo[key] = (None, value)
            memo[key] = (next((node for node in self.options if node.fits(value, plain, memo)), None), value)
        return memo[key][0]

    def fits(self, value: Any, plain: bool, memo: _Memo) -> bool:
        return self.pick(value, plain, memo) is not None

    def decode(self, value: Any, memo: _Memo) -> Any:
        if not isinstance(value, (dict, list)) or not (self.only or not self.pick(value, True, memo)):
            return value
        node = self.only or self.pick(value, False, memo)
        return node.decode(value, memo) if node else value

    def encode(self, value: Any, memo: _Memo) -> Any:
        node = self.only or self.pick(value, True, memo)
        return node.encode(value, memo) if node else value

    def form(self) -> dict[str, Any]:
        return {"anyOf": [node.emit() for node in self.members]}


class _Ref(_Node):
    """A place that says what another one says."""

    def __init__(self, schema: Mapping[str, Any], target: _Target) -> None:
        super().__init__(schema)
        self.target = target

    def solid(self) -> _Node:
        return self.target.node.solid()

    def children(self) -> Iterable[_Node]:
        return (self.target.node,)

    def fits(self, value: Any, plain: bool, memo: _Memo) -> bool:
        return self.solid().fits(value, plain, memo)

    def encode(self, value: Any, memo: _Memo) -> Any:
        return self.solid().encode(value, memo)

    def form(self) -> dict[str, Any]:
        return {"$ref": f"#/$defs/{self.target.name}" if self.target.name else "#"}


@dataclass(slots=True)
class _Target:
    name: str
    node: _Node


def _parts(node: _Node, seen: tuple[_Node, ...] = ()) -> list[_Node]:
    """The leaves and boxes that a node may be."""
    node = node.solid()
    if not isinstance(node, _Union):
        return [node]
    return [] if node in seen else [part for member in node.members for part in _parts(member, (*seen, node))]


def _overlap(a: _Node, b: _Node, seen: dict[tuple[int, int], int]) -> int:
    """Compare the values of two nodes in both forms: 0 none in common, 1 common ones decode alike, 2 some decode differently."""
    key = (id(a.solid()), id(b.solid()))
    if key not in seen:
        seen[key] = 1
        seen[key] = max((_overlap_parts(x, y, seen) for x in _parts(a) for y in _parts(b)), default=0)
    return seen[key]


def _overlap_parts(a: _Node, b: _Node, seen: dict[tuple[int, int], int]) -> int:
    for x, y in ((a, b), (b, a)):
        if isinstance(x, _Leaf) and not x.types:
            return 2 if y.live else 1
    if isinstance(a, _Leaf) and isinstance(b, _Leaf):
        samples = [_SAMPLES[name] for name in a.types] if a.values is None else a.values
        known = [_SAMPLES[name] for name in b.types] if b.values is None else b.values
        return int(any(b.fits(value, True, {}) for value in samples) or any(a.fits(value, True, {}) for value in known))
    level = 0
    for x in (a, getattr(a, "twin", None)):
        for y in (b, getattr(b, "twin", None)):
            if isinstance(x, _Box) and isinstance(y, _Box) and x.kind is y.kind:
                level = max(level, _overlap_boxes(x, y, (x is a) == (y is b), seen))
    return level


def _overlap_boxes(a: _Box, b: _Box, alike: bool, seen: dict[tuple[int, int], int]) -> int:
    level = int(alike)
    for key in {*a.fields, *b.fields}:
        x, y = a.fields.get(key, a.rest), b.fields.get(key, b.rest)
        got = _overlap(x, y, seen) if x and y else 0
        if (
            x
            and y
            and (key in a.droppable) != (key in b.droppable)
            and (y if key in a.droppable else x).fits(None, True, {})
        ):
            got = 2
        if not got and key in a.required | b.required:
            return 0
        level = max(level, got)
    if a.rest and b.rest:
        level = max(level, _overlap(a.rest, b.rest, seen))
    mixed = not alike or any(isinstance(box, _Record) and box.pairs for box in (a, b))
    return 2 if level and mixed else level


class _Reader:
    """Makes nodes of a schema; `broken` says what has no strict form, `encoded` what needs encoding."""

    def __init__(self, root: dict[str, Any], rest: str) -> None:
        self.root, self.rest = root, rest
        self.broken: list[str] = []
        self.encoded: list[str] = []
        self.targets: dict[str, _Target] = {}
        self.unions: list[tuple[str, _Union]] = []

    def fail(self, path: str, text: str) -> _Leaf:
        self.broken.append(f"{path}: {text}")
        return _Leaf({}, ("string",))

    def read_root(self) -> _Record:
        root, steps = self.root, 0
        while (
            isinstance(root.get("$ref"), str)
            and isinstance(found := _lookup(self.root, root["$ref"]), dict)
            and steps < 9
        ):
            root, steps = {**found, **{key: value for key, value in root.items() if key != "$ref"}}, steps + 1
        target = self.targets["#"] = _Target("", _Leaf({}, ()))
        root = {**root, "type": "object"} if not root.keys() & _SHAPES else root
        target.node = node = self.read(root, "#")
        nodes = _reach(target.node for target in self.targets.values())
        for each in nodes:
            each.settle()
        live: set[int] = set()
        while (
            grown := {id(each) for each in nodes if each.changes or any(id(c) in live for c in each.children())}
        ) != live:
            live = grown
        for each in nodes:
            each.live = id(each) in live
        for each in nodes:
            each.link()
        for path, union in self.unions:
            self.compare(path, union)
        if isinstance(node, _Record):
            return node
        if not self.broken:
            self.fail("#", "root-type: the root has to be an object, and no union of objects")
        return _Record({}, {})

    def compare(self, path: str, union: _Union) -> None:
        for a, b in combinations(_parts(union), 2):
            same = _text(_bare(a.emit())) == _text(_bare(b.emit()))
            if (a.live or b.live) and (same or _overlap(a, b, {}) == 2):
                self.fail(
                    path,
                    "same-strict-form: two members cannot be told apart; give each a property with a constant of its own",
                )
                return

    def read(self, schema: Any, path: str) -> _Node:
        s = {} if schema is True else schema
        if problem := _malformed(s):
            return self.fail(path, problem)
        if len(s.get("allOf", ())) == 1 and isinstance(s["allOf"][0], dict):
            (only,), s = s["allOf"], {key: value for key, value in s.items() if key != "allOf"}
            if only.keys() & s.keys() - _ABOUT - {"type"}:
                return self.fail(path, "keyword-allOf: write the members as one schema")
            s = {**only, **s}
        if "allOf" in s:
            return self.fail(path, "keyword-allOf: write the members as one schema")
        if "$ref" in s:
            return self.reference(s, path)
        for word in ("anyOf", "oneOf"):
            if word in s:
                return self.union(s, word, path)
        if "type" not in s:
            s = {**s, **{"type": kind for kind, words in _IMPLIED.items() if s.keys() & words}}
        types = s.get("type", [])
        types = types if isinstance(types, list) else [types]
        scalars = [name for name in types if name in _SCALARS]
        if strange := [name for name in types if name not in (*_SCALARS, "array", "object")]:
            return self.fail(path, f"type-unknown: {_text(strange[0])} is no type of JSON Schema")
        if "enum" in s or "const" in s:
            return self.choice(s, types, path)
        if len(scalars) < len(types) > 1:
            inner = {key: value for key, value in s.items() if key not in _ABOUT}
            about = {key: value for key, value in s.items() if key in _ABOUT}
            return self.union({**about, "anyOf": [{**inner, "type": name} for name in types]}, "anyOf", path)
        if not types:
            self.encoded.append(f"{path}: type-missing: any value becomes a scalar; write the types it may have")
        if len(scalars) == len(types):
            return _Leaf(s, scalars)
        return self.array(s, path) if types == ["array"] else self.object(s, path)

    def reference(self, s: dict[str, Any], path: str) -> _Node:
        ref = s["$ref"]
        if s.keys() & _SHAPES - {"type", "$ref"}:
            return self.fail(path, "ref-siblings: write what stands beside $ref into its target")
        if ref not in self.targets:
            found = _lookup(self.root, ref)
            if found is _UNSET:
                return self.fail(path, "ref-target: a reference has to lead to a part of the schema itself")
            name = ref.rpartition("/")[2]
            while name in {target.name for target in self.targets.values()}:
                name += "_"
            target = self.targets[ref] = _Target(name, _Leaf({}, ()))
            target.node = node = self.read(found, ref)
            while isinstance(node, _Ref) and node.target is not target:
                node = node.target.node
            if isinstance(node, _Ref):
                target.node = self.fail(ref, "ref-target: the reference leads only to itself")
        return _Ref(s, self.targets[ref])

    def union(self, s: dict[str, Any], word: str, path: str) -> _Node:
        members = {_text(member): member for member in s[word]}
        s = {key: value for key, value in s.items() if key != word}
        if s.keys() & _SHAPES - {"type", "anyOf", "oneOf"}:
            if any(not isinstance(member, dict) or member.keys() & _SHAPES for member in members.values()):
                return self.fail(path, f"keyword-{word}: beside properties, items or values; write each member out")
            node = self.read(s, path)
            node.notes.append(f"{word}: {_text(s[word])}.")
            return node
        if not members:
            return self.fail(path, f"keyword-{word}: without members nothing is allowed here")
        inner = {key: value for key, value in s.items() if key not in _ABOUT}
        nodes = [
            self.read(
                {**inner, **member} if isinstance(member, dict) and "$ref" not in member else member,
                f"{path}/{word}/{index}",
            )
            for index, member in enumerate(members.values())
        ]
        union = _Union({key: value for key, value in s.items() if key in _ABOUT}, nodes)
        self.unions.append((path, union))
        return union

    def choice(self, s: dict[str, Any], types: list[str], path: str) -> _Node:
        values = [s["const"]] if "const" in s else s["enum"]
        types = types or [*dict.fromkeys(_NAMES.get(type(value), "object") for value in values)]
        values = [value for value in values if _is_type(value, types)]
        if not values or {"array", "object"} & {*types}:
            return self.fail(path, "enum-type: each value has to be a scalar of the type that is given beside it")
        return _Leaf(s, types, values)

    def array(self, s: dict[str, Any], path: str) -> _Node:
        items = s.get("items", True)
        prefix = s.get("prefixItems") or (items if isinstance(items, list) else [])
        bounds = {key: s[key] for key in ("minItems", "maxItems") if key in s}
        if prefix and (isinstance(items, dict) or isinstance(s.get("additionalItems"), dict)):
            return self.fail(
                path,
                "keyword-prefixItems: a tuple with an open end; use an object with two lists, or a list of one type",
            )
        least = min(s.get("minItems", 0), len(prefix))
        if len({_text(item) for item in prefix}) > 1:
            self.encoded.append(
                f"{path}: keyword-prefixItems: becomes an object; use a model with named fields, or a list"
            )
            return _Tuple(
                s, [self.read(item, f"{path}/prefixItems/{index}") for index, item in enumerate(prefix)], least
            )
        if prefix:
            bounds = {"minItems": least, "maxItems": min(s.get("maxItems", len(prefix)), len(prefix))}
        box = _Box(s, {}, (), self.read(prefix[0] if prefix else items or True, f"{path}/items"))
        box.bounds = bounds
        return box

    def object(self, s: dict[str, Any], path: str) -> _Node:
        given, required = s.get("properties", {}), s.get("required", [])
        fields = {
            name: self.read(given.get(name, {}), f"{path}/properties/{name}")
            for name in {**given, **dict.fromkeys(required)}
        }
        for name in fields.keys() - {*required}:
            self.encoded.append(
                f"{path}/properties/{name}: required-incomplete: null stands for its absence; take away the default"
            )
        extra = s.get("additionalProperties", "properties" not in s and path != "#")
        key = {"type": "string", **self.names(s)}
        if patterns := s.get("patternProperties"):
            if len(patterns) > 1 or s.get("additionalProperties"):
                return self.fail(path, "keyword-patternProperties: more than one kind of further names; write them out")
            ((key["pattern"], extra),) = patterns.items()
        if extra is False:
            return _Record(s, fields, required)
        if (fields or path == "#") and not (isinstance(extra, dict) and extra.keys() & _SHAPES):
            return self.fail(
                path, "additional-properties: further properties of any type; give them one, or name them all"
            )
        bounds = {
            to: s[word] for word, to in (("minProperties", "minItems"), ("maxProperties", "maxItems")) if word in s
        }
        s = {word: value for word, value in s.items() if word not in _OF_NAMES}
        self.encoded.append(
            f"{path}: properties-missing: becomes an array of key and value; use a model with named fields"
        )
        keys, values = self.read(key, f"{path}/propertyNames"), self.read(extra, f"{path}/additionalProperties")
        if not fields and path != "#":
            return _Pairs(s, keys, values, bounds)
        record = _Record(s, fields, required, values)
        record.pairs, record.name = _Pairs({}, keys, values, {}), self.rest
        while record.name in fields:
            record.name += "_"
        return record

    def names(self, s: dict[str, Any]) -> dict[str, Any]:
        names = s.get("propertyNames", {})
        if isinstance(names, dict) and isinstance(names.get("$ref"), str):
            names = _lookup(self.root, names["$ref"])
        return names if isinstance(names, dict) else {}


def _reach(roots: Iterable[_Node]) -> list[_Node]:
    found: dict[int, _Node] = {}
    todo = [*roots]
    while todo:
        node = todo.pop()
        if id(node) not in found:
            found[id(node)] = node
            todo.extend(node.children())
    return [*found.values()]


def _or_null(form: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(form.get("type", []), str) and "anyOf" in form:
        return {"anyOf": [*form["anyOf"], {"type": "null"}]}
    if form.get("type", "object") in ("object", "array"):
        return {"anyOf": [form, {"type": "null"}]}
    types = form["type"] if isinstance(form["type"], list) else [form["type"]]
    values = [form["const"]] if "const" in form else form.get("enum")
    return {"type": [*types, "null"], **({} if values is None else {"enum": [*values, None]})}


def _bare(form: Any) -> Any:
    if isinstance(form, list):
        return [_bare(item) for item in form]
    if not isinstance(form, dict):
        return form
    named = {key: {name: _bare(item) for name, item in form[key].items()} for key in ("properties",) if key in form}
    return {key: named.get(key, _bare(value)) for key, value in form.items() if key not in _ABOUT}


def _lookup(root: Any, ref: str) -> Any:
    if ref != "#" and not ref.startswith("#/"):
        return _UNSET
    try:
        for part in ref.split("/")[1:]:
            root = root[int(part) if isinstance(root, list) else part.replace("~1", "/").replace("~0", "~")]
    except (LookupError, TypeError, ValueError):
        return _UNSET
    return root


def _malformed(schema: Any) -> str:
    if not isinstance(schema, dict):
        return "boolean-schema: nothing is allowed here; leave it out"
    for key, kinds in _KINDS.items():
        if key in schema and not isinstance(schema[key], kinds):
            return f"malformed: {key} is not of a type that JSON Schema knows"
    return ""


def _is_type(value: Any, types: Iterable[str]) -> bool:
    name = _NAMES.get(type(value), "")
    return (
        name in types
        or (name == "integer" and "number" in types)
        or (name == "number" and "integer" in types and value % 1 == 0)
    )


def _same(a: Any, b: Any) -> bool:
    return bool(a == b) and isinstance(a, bool) == isinstance(b, bool)


def _is_noted(key: str, value: Any) -> bool:
    if key == "pattern":
        return any(mark in str(value) for mark in _LOOKAROUND)
    return key in _NOTED or key in ("minLength", "maxLength") or (key == "format" and value not in _FORMATS)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def violations(schema: Any) -> list[str]:
    """List every place in which a schema leaves the strict subset: its JSON pointer and the rule's short name, such as `#/properties/a: format`."""
    found = [*_find(schema, "#", schema)]
    if isinstance(schema, dict):
        found += ["#: root-type"] if schema.get("type") != "object" else []
        found += ["#: root-combinator"] if schema.keys() & {"anyOf", "oneOf", "allOf", "$ref"} else []
    return found


def _find(node: Any, path: str, root: Any) -> Iterator[str]:
    if problem := _malformed(node):
        yield f"{path}: {problem.partition(':')[0]}"
        return
    for key, value in node.items():
        if key in _FORBIDDEN or (key == "$id" and path != "#"):
            yield f"{path}: keyword-{key}"
        elif key in _AZURE:
            yield f"{path}: azure-{key}"
        elif _is_noted(key, value):
            yield f"{path}: {'format' if key == 'format' else 'pattern-lookaround'}"
    types = node.get("type", [])
    types = types if isinstance(types, list) else [types]
    if "$ref" in node:
        yield from [f"{path}: ref-siblings"] if node.keys() - {"$ref", "$defs", "definitions"} else []
        yield from [f"{path}: ref-target"] if _lookup(root, node["$ref"]) is _UNSET else []
    elif not types and not node.keys() & {"anyOf", "oneOf", "allOf"}:
        yield f"{path}: type-missing"
    yield from (f"{path}: type-unknown" for name in types if name not in (*_SCALARS, "array", "object"))
    if types and any(
        not _is_type(value, types) for value in [*node.get("enum", []), *([node["const"]] if "const" in node else [])]
    ):
        yield f"{path}: enum-type"
    if "object" in types:
        yield from [f"{path}: properties-missing"] if "properties" not in node else []
        yield from [f"{path}: additional-properties"] if node.get("additionalProperties") is not False else []
        missing = [name for name in node.get("properties", {}) if name not in node.get("required", [])]
        yield from [f"{path}: required-incomplete ({', '.join(missing)})"] if missing else []
    if "array" in types and not isinstance(node.get("items"), dict):
        yield f"{path}: {'items-shape' if isinstance(node.get('items'), list) else 'items-missing'}"
    for key in ("properties", "$defs", "definitions"):
        for name, child in node.get(key, {}).items():
            yield from _find(child, f"{path}/{key}/{name}", root)
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for index, child in enumerate(node.get(key, [])):
            yield from _find(child, f"{path}/{key}/{index}", root)
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            yield from _find(node[key], f"{path}/{key}", root)
