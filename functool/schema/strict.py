"""The strict subset of JSON Schema: what leaves it, and a way into it that loses nothing.

`violations(schema)` names every place in which a schema leaves the subset OpenAI, Azure included,
takes as strict. `codec(schema)` writes a schema inside the subset; `encode` brings a value into
that form, and `decode` brings it back. `decode` takes the plain form too, at every depth: a plain
value stays as it is.

| plain | strict |
|---|---|
| optional property | required; null stands for its absence, unless its type admits null |
| `dict[str, T]` | array of `{key, value}`; beside declared names: one more property, the array |
| tuple of unlike items | object of `item_0`, `item_1` and so on |
| any value at all | anyOf of the scalar types |
| keyword, format or pattern outside of the subset | a sentence in the description |

What no strict form can tell apart, and how it is read:

- an optional property whose type admits null: null is null, and only the plain form can leave it
out;
- in `dict[str, T] | list[U]` an empty array is the empty list, and only the plain form can say the
empty dict;
- further names are published as `rest`: a list of pairs under it is the pairs, even if one of the
names is `rest`;
- a tuple's item that may be left out, has no default, and stands before a given one: the object
stays as it is.

An array that names a key twice is no dict and stays as it is, too. A union is refused if two
members have the same strict form and one of them needs decoding, or if a strict value of one is a
plain value of another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import functool.schema.shapes as shapes
from functool.errors import SchemaError
from functool.schema.shapes import UNSET, Form, Step, text

_words = str.split
_TYPES = {*shapes.SAMPLES, "array", "object"}
_FORMATS = _words("date-time time date duration email hostname ipv4 ipv6 uuid")
_AZURE = _words("minLength maxLength default")
# What the subset lacks and a sentence can say; the others that it lacks are structure or names.
_NOTED = _words(
    "not if then else dependentRequired dependentSchemas dependencies contains minContains maxContains contentEncoding"
    " contentMediaType contentSchema minProperties maxProperties unevaluatedItems unevaluatedProperties uniqueItems"
    " additionalItems"
)
_ANCHORS = _words("$anchor $dynamicAnchor $dynamicRef $recursiveAnchor $recursiveRef")
_FORBIDDEN = {
    *_NOTED,
    *_ANCHORS,
    *_words("allOf oneOf prefixItems patternProperties propertyNames"),
}
_UNSAID = {*shapes.STRUCTURE, *_ANCHORS, *_words("description discriminator $id $defs definitions")}
_KINDS: dict[str, Any] = {
    **dict.fromkeys(_words("properties patternProperties $defs definitions"), dict),
    **dict.fromkeys(_words("required enum anyOf oneOf allOf prefixItems"), list),
    **dict.fromkeys(_words("minItems maxItems"), int),
    **dict.fromkeys(_words("items additionalProperties"), (dict, bool)),
    "type": (str, list),
    "$ref": str,
}


@dataclass(frozen=True, slots=True)
class Codec:
    """A schema in strict form, and the way of a value into it and back.

    Attributes:
        schema: The strict form; `violations(schema)` is empty.
        encode: Brings a plain value into strict form.
        decode: Brings a value into plain form, whether it is strict, plain, or each in places. What
            has another shape stays as it is. Neither raises or changes what it is given.
        reasons: Every place whose values change between the forms or lose a part of their range:
            path, rule, and how to write it so that nothing has to be encoded.
        flat_nulls: The names whose null `decode` drops, if dropping nulls at the top is all that it
            does, else None.
    """

    schema: dict[str, Any]
    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]
    reasons: tuple[str, ...]
    flat_nulls: tuple[str, ...] | None


def codec(schema: Mapping[str, Any], refuse: bool = False, rest: str = "") -> Codec:
    """Write a schema in strict form.

    Args:
        schema: JSON Schema 2020-12 of an object, such as a tool's arguments. It is not changed.
        refuse: Whether to raise for what would need encoding, too.
        rest: The property that publishes what the root's `additionalProperties` admit.

    Raises:
        SchemaError: Something has no strict form, or needs encoding and `refuse` is set. `reasons`
            names every place.
    """
    plain = deepcopy(dict(schema))
    if isinstance(target := shapes.lookup(plain, plain.get("$ref")), dict):
        plain = {**target, **shapes.without(plain, ["$ref"])}
    plain = plain if plain.keys() & shapes.STRUCTURE else {**plain, "type": "object"}
    live: set[str] = set()
    while True:
        reader = _Reader(plain, rest or "extra", live)
        form = reader.build(plain, "#")
        # Whether a recursive type needs decoding is known once it has been read: read again until
        # the guess was right.
        if live == (live := {ref for ref in reader.recursive if reader.forms[ref].decode}):
            break
    strict = reader.finish(form.strict)
    if problems := reader.broken + (reader.encoded if refuse else []):
        raise SchemaError(
            "There is no strict form:\n" + "\n".join(f"- {problem}" for problem in problems),
            problems,
        )
    return Codec(
        strict, _run(form.encode), _run(form.decode), tuple(reader.encoded), reader.flat_nulls
    )


def _run(step: Step | None) -> Callable[[Any], Any]:
    def run(value: Any) -> Any:
        if type(value) is not dict and isinstance(value, Mapping):
            value = dict(value)
        return step(value, {}) if step else value

    return run


class _Reader:
    """Writes a schema, place by place; `broken` collects what has no strict form, `encoded` what needs encoding."""

    def __init__(self, root: dict[str, Any], rest: str, live: set[str]) -> None:
        self.root, self.rest, self.live = root, rest, live
        self.broken: list[str] = []
        self.encoded: list[str] = []
        self.flat_nulls: tuple[str, ...] | None = ()
        self.names: dict[str, str] = {}
        self.forms: dict[str, Form] = {}
        self.recursive: set[str] = set()
        self.unions: list[tuple[str, list[Form], Step]] = []

    def fail(self, path: str, reason: str) -> Form:
        self.broken.append(f"{path}: {reason}")
        return Form({"type": "string"})

    def finish(self, strict: dict[str, Any]) -> dict[str, Any]:
        """Add the definitions, and refuse unions whose members decoding cannot tell apart."""
        if strict.get("type") != "object" and not self.broken:
            self.fail("#", "root-type: the root has to be one object")
        defs = {link: self.forms[ref].strict for ref, link in self.names.items()}
        for path, forms, decode in self.unions:
            if shapes.confused(forms, decode, defs):
                self.fail(
                    path,
                    "same-strict-form: decoding cannot tell members apart; give each a constant of its own",
                )
        defs.pop("#", None)
        return {
            **strict,
            **({"$defs": {link[8:]: form for link, form in defs.items()}} if defs else {}),
        }

    def build(self, s: Any, path: str) -> Form:
        """Write one place: its structure, and beside it what describes it."""
        s = {} if s is True else s
        if reason := _malformed(s):
            return self.fail(path, reason)
        if len(s.get("allOf", ())) == 1 and isinstance(s["allOf"][0], dict):
            return self.build({**s["allOf"][0], **shapes.without(s, ["allOf"])}, path)
        form = self.shape(s, path)
        noted = [key for key, value in s.items() if _is_noted(key, value)]
        said = [s["description"]] if isinstance(s.get("description"), str) else []
        said += [f"{'Default' if key == 'default' else key}: {text(s[key])}." for key in noted]
        return form._replace(
            strict=shapes.beside(form.strict, shapes.without(s, {*_UNSAID, *noted}), said)
        )

    def shape(self, s: dict[str, Any], path: str) -> Form:
        if "allOf" in s:
            return self.fail(path, "keyword-allOf: write its members as one schema")
        if "$ref" in s:
            return self.reference(s, path)
        for word in ("anyOf", "oneOf"):
            if word in s:
                return self.union(s, word, path)
        types = [*dict.fromkeys(shapes.types_of(s))]
        if not {*types} <= _TYPES:
            return self.fail(path, "type-unknown: JSON Schema has no such type")
        if "enum" in s or "const" in s:
            return self.choice(s, types, path)
        if len(types) > 1 and {"array", "object"} & {*types}:
            inner = shapes.without(s, s.keys() - shapes.STRUCTURE)
            return self.union({"anyOf": [{**inner, "type": name} for name in types]}, "anyOf", path)
        if not types:
            self.encoded.append(
                f"{path}: type-missing: any value becomes a scalar; write out the types it may have"
            )
            return Form({"anyOf": [{"type": name} for name in shapes.SAMPLES if name != "integer"]})
        if types == ["array"]:
            return self.array(s, path)
        return self.object(s, path) if types == ["object"] else Form(shapes.typed(types))

    def choice(self, s: dict[str, Any], types: list[str], path: str) -> Form:
        values = shapes.values_of(s) or []
        types = types or [*dict.fromkeys(shapes.NAMES.get(type(value), "") for value in values)]
        types = [name for name in types if name in shapes.SAMPLES]
        values = [value for value in values if shapes.is_type(value, types)]
        if not values:
            return self.fail(
                path, "enum-type: each value has to be a scalar, and one of the type beside it"
            )
        return Form(
            {**shapes.typed(types), **({"const": values[0]} if "const" in s else {"enum": values})}
        )

    def reference(self, s: dict[str, Any], path: str) -> Form:
        ref, forms, target = s["$ref"], self.forms, shapes.target_of(self.root, s["$ref"])
        if s.keys() & shapes.STRUCTURE - {"type", "$ref"}:
            return self.fail(path, "ref-siblings: move what stands beside $ref into its target")
        if target is UNSET:
            return self.fail(
                path, "ref-target: a reference has to lead to another part of this schema"
            )
        if ref not in self.names:
            link = f"#/$defs/{ref.rpartition('/')[2].replace('~', '_')}" if ref != "#" else ref
            while link in self.names.values():
                link += "_"
            self.names[ref] = link
            forms[ref] = self.build(target, ref)
        if ref not in forms:
            self.recursive.add(ref)
        form, strict = forms.get(ref), {"$ref": self.names[ref]}
        if (form and form.decode) or (not form and ref in self.live):
            return Form(strict, *shapes.reference_steps(forms, ref))
        return Form(strict)

    def union(self, s: dict[str, Any], word: str, path: str) -> Form:
        outer = shapes.without(s, {word, *s.keys() - shapes.STRUCTURE})
        if outer.keys() - {"type"} or not s[word]:
            return self.fail(
                path,
                f"keyword-{word}: needs members, and no structure beside it; write each member out",
            )
        members = [*{text(member): member for member in s[word]}.values()]
        members = [{**outer, **each} if isinstance(each, dict) else each for each in members]
        forms = [
            self.build(member, f"{path}/{word}/{index}") for index, member in enumerate(members)
        ]
        strict, live = (
            {"anyOf": [form.strict for form in forms]},
            [form for form in forms if form.decode],
        )
        boxes = [form for form in forms if form.strict.get("type", "object") in ("object", "array")]
        if not live or len(boxes) == 1:
            return Form(strict, *(live[0][1:] if live else ()))
        decode, encode = shapes.union_steps(members, forms, self.root)
        self.unions.append((path, forms, decode))
        return Form(strict, decode, encode)

    def array(self, s: dict[str, Any], path: str) -> Form:
        prefix, items = s.get("prefixItems", []), s.get("items", True)
        least = min(s.get("minItems", 0), len(prefix))
        if prefix and isinstance(items, dict):
            return self.fail(
                path, "keyword-prefixItems: a tuple with an open end; use a model with named fields"
            )
        if len({text(item) for item in prefix}) > 1:
            self.encoded.append(
                f"{path}: keyword-prefixItems: becomes an object; use a model with named fields"
            )
            named = {f"item_{index}": item for index, item in enumerate(prefix)}
            form = self.object({"properties": named, "required": [*named][:least]}, path)
            return Form(form.strict, *shapes.tuple_steps(form, named, least))
        bounds: dict[str, Any] = {key: s[key] for key in ("minItems", "maxItems") if key in s}
        if prefix:
            bounds = {
                "minItems": least,
                "maxItems": min(s.get("maxItems", len(prefix)), len(prefix)),
            }
        item = self.build(prefix[0] if prefix else items, f"{path}/items")
        return Form(
            {"type": "array", "items": item.strict, **bounds}, *map(shapes.items_step, item[1:])
        )

    def object(self, s: dict[str, Any], path: str) -> Form:
        required, others = s.get("required", []), shapes.others_of(s, self.root)
        fields = {
            **s.get("properties", {}),
            **{name: True for name in required if name not in s.get("properties", {})},
        }
        named = bool(fields) or path == "#"
        forms = {
            name: self.build(field, f"{path}/properties/{name}") for name, field in fields.items()
        }
        optional = [name for name in fields if name not in required]
        absent = tuple(
            name for name in optional if not shapes.fits(fields[name], None, self.root, {})
        )
        strict = {name: form.strict for name, form in forms.items()}
        for name in optional:
            strict[name] = shapes.optional(
                strict[name], shapes.default_of(fields[name]), name in absent
            )
            reason = "null stands for its absence; require it, and let its type admit null if nothing can be meant"
            self.encoded.append(f"{path}/properties/{name}: required-incomplete: {reason}")
        if others is UNSET:
            return self.fail(
                path, "keyword-patternProperties: several kinds of further names; name them all"
            )
        if (
            others is not False
            and named
            and not (isinstance(others, dict) and others.keys() & shapes.STRUCTURE)
        ):
            return self.fail(
                path,
                "additional-properties: open to anything; give further names a type, or name them all",
            )
        deep = any(form.decode for form in forms.values())
        steps = shapes.object_steps(forms, absent) if absent or deep else (None, None)
        if path == "#":
            self.flat_nulls = None if deep or others is not False else absent
        if others is False:
            return Form(shapes.closed(strict), *steps)
        self.encoded.append(
            f"{path}: properties-missing: becomes an array of pairs; use a model with named fields"
        )
        value = self.build(others, f"{path}/additionalProperties")
        item = shapes.closed({"key": self.key(s, path).strict, "value": value.strict})
        pairs, rest = shapes.pairs_steps(value.decode, value.encode), self.rest
        if not named:
            return Form({"type": "array", "items": item}, *pairs)
        while rest in fields:
            rest += "_"
        strict[rest] = {"type": "array", "items": item}
        return Form(shapes.closed(strict), *shapes.rest_steps(steps, pairs, [*fields], rest))

    def key(self, s: dict[str, Any], path: str) -> Form:
        names = s.get("propertyNames")
        names = (
            shapes.lookup(self.root, names["$ref"])
            if isinstance(names, dict) and "$ref" in names
            else names
        )
        names = {**(names if isinstance(names, dict) else {}), "type": "string"}
        for pattern in s.get("patternProperties", ()):
            names["pattern"] = pattern
        return self.build(names, f"{path}/propertyNames")


def _is_noted(key: str, value: Any) -> bool:
    if key == "pattern":
        return any(mark in str(value) for mark in ("(?=", "(?!", "(?<=", "(?<!"))
    return key in _NOTED or key in _AZURE or (key == "format" and value not in _FORMATS)


def _malformed(s: Any) -> str:
    if not isinstance(s, dict):
        return "boolean-schema: nothing is allowed here; leave it out"
    if isinstance(s.get("items"), list):
        return "items-shape: a tuple of an older draft; write prefixItems"
    wrong = [key for key, kind in _KINDS.items() if key in s and not isinstance(s[key], kind)]
    wrong += (
        []
        if wrong or {*map(type, [*s.get("required", ()), *shapes.types_of(s)])} <= {str}
        else ["type or required"]
    )
    return f"malformed: the value of {wrong[0]} is none that JSON Schema knows" if wrong else ""


def violations(schema: Any) -> list[str]:
    """List every place in which a schema leaves the strict subset as `JSON pointer: rule`: `#/properties/a: format`."""
    top = schema if isinstance(schema, dict) else {}
    found = ["#: root-type"] if top.get("type") != "object" else []
    found += ["#: root-combinator"] if top.keys() & {"anyOf", "oneOf", "allOf", "$ref"} else []
    return [*found, *_find(schema, "#", top)]


def _find(s: Any, path: str, root: dict[str, Any]) -> Iterator[str]:
    if reason := _malformed(s):
        yield f"{path}: {reason.partition(':')[0]}"
        return
    for key in s:
        if key in _AZURE:
            yield f"{path}: azure-{key}"
        elif key in _FORBIDDEN or (key == "$id" and path != "#"):
            yield f"{path}: keyword-{key}"
        elif _is_noted(key, s[key]):
            yield f"{path}: {'pattern-lookaround' if key == 'pattern' else key}"
    types, values = shapes.types_of({"type": s.get("type")}), shapes.values_of(s)
    missing = [name for name in s.get("properties", {}) if name not in s.get("required", ())]
    rules: dict[str, Any] = {
        "ref-siblings": "$ref" in s and s.keys() - {"$ref", "$defs", "definitions"},
        "ref-target": "$ref" in s and shapes.lookup(root, s["$ref"]) is UNSET,
        "type-missing": not s.keys() & {"type", "$ref", "anyOf", "oneOf", "allOf"},
        "type-unknown": {*types} - _TYPES,
        "enum-type": types and values and not all(shapes.is_type(value, types) for value in values),
        "properties-missing": "object" in types and "properties" not in s,
        "additional-properties": "object" in types and s.get("additionalProperties") is not False,
        f"required-incomplete ({', '.join(missing)})": "object" in types and missing,
        "items-missing": "array" in types and "items" not in s,
        "boolean-schema": isinstance(s.get("items"), bool),
    }
    yield from (f"{path}: {rule}" for rule, broken in rules.items() if broken)
    inner = {
        f"{key}/{name}": child
        for key in ("properties", "$defs", "definitions")
        for name, child in s.get(key, {}).items()
    }
    inner |= {
        f"{key}/{index}": child
        for key in ("anyOf", "oneOf", "allOf", "prefixItems")
        for index, child in enumerate(s.get(key, ()))
    }
    inner |= {
        key: s[key] for key in ("items", "additionalProperties") if isinstance(s.get(key), dict)
    }
    for step, child in inner.items():
        yield from _find(child, f"{path}/{step}", root)
