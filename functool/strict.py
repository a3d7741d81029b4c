"""The strict subset of JSON Schema: what leaves it, and a way into it that loses nothing.

`violations(schema)` names every place in which a schema leaves the subset that OpenAI takes under `strict`, Azure included.
`codec(schema)` writes a schema inside the subset; `encode` brings a value into that form and `decode` brings it back. `decode`
takes the plain form too, at every depth: a plain value stays as it is.

| plain | strict |
|---|---|
| optional property | required; null stands for its absence, unless its type admits null |
| `dict[str, T]` | array of `{key, value}`; of names beside declared ones: one more property, which holds that array |
| tuple of unlike items | object of `item_0`, `item_1` and so on |
| any value at all | anyOf of the scalar types |
| keyword, format or pattern outside of the subset | a sentence in the description |

What no strict form can tell apart, and how it is read:

- an optional property whose type admits null: null is null, and only the plain form can leave it out;
- in `dict[str, T] | list[U]` an empty array is the empty list, and only the plain form can say the empty dict;
- further names that are themselves published as `rest`: a list of pairs under that name is read as the pairs;
- an item of a tuple that may be left out, has no default, and stands before one that is given: the object stays as it is.

An array that names a key twice is no dict and stays as it is too. A union is refused if two of its members have the same strict
form and one of them needs decoding, or if a strict value of one is a plain value of another.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from functool.errors import SchemaError

_words = str.split
_SCALARS = {"string": "", "number": 0.5, "integer": 0, "boolean": True, "null": None}  # each with a sample
_NAMES = {
    str: "string",
    float: "number",
    int: "integer",
    bool: "boolean",
    type(None): "null",
    list: "array",
    dict: "object",
}
_FORMATS = _words("date-time time date duration email hostname ipv4 ipv6 uuid")
_AZURE = _words("minLength maxLength default")
_NOTED = _words(
    "not if then else dependentRequired dependentSchemas dependencies contains minContains maxContains contentEncoding contentMediaType"
    " contentSchema minProperties maxProperties unevaluatedItems unevaluatedProperties uniqueItems additionalItems"
)
_FORBIDDEN = _words(
    "allOf oneOf prefixItems patternProperties propertyNames $anchor $dynamicAnchor $dynamicRef $recursiveAnchor $recursiveRef"
)
_SHAPE = {
    *_words(
        "type enum const properties required additionalProperties patternProperties propertyNames items prefixItems minItems"
    ),
    *_words("maxItems $ref anyOf oneOf allOf"),
}
_UNSAID = _words(
    "discriminator $id $defs definitions $anchor $dynamicAnchor $dynamicRef $recursiveAnchor $recursiveRef"
)
_IMPLIED = {
    "array": {"items", "prefixItems"},
    "object": {"properties", "additionalProperties", "patternProperties", "required"},
}
_KINDS: dict[Any, list[str]] = {
    dict: _words("properties patternProperties $defs definitions"),
    list: _words("required enum anyOf oneOf allOf prefixItems"),
    (str, list): ["type"],
    (dict, bool): _words("items additionalProperties"),
    int: _words("minItems maxItems"),
    str: ["$ref"],
}
_REMEDIES = {
    "additional-properties": "further properties of any type have no strict form; give them a type, or name them all",
    "boolean-schema": "nothing is allowed here; leave it out",
    "enum-type": "each value has to be a scalar, and one of the type beside it",
    "keyword-allOf": "write its members as one schema",
    "keyword-anyOf": "it needs members, and cannot stand beside other structure; write each member out",
    "keyword-oneOf": "it needs members, and cannot stand beside other structure; write each member out",
    "keyword-patternProperties": "only one pattern, and no other further properties; write the names out",
    "keyword-prefixItems": "a tuple becomes an object; use a model with named fields, or a list of one type",
    "malformed": "a keyword has a value that JSON Schema does not know",
    "open-tuple": "a tuple with more items of another type; use a model with named fields",
    "properties-missing": "names that are not declared become an array of key and value; use a model with named fields",
    "ref-siblings": "move what stands beside $ref into its target",
    "ref-target": "a reference has to lead to another part of this schema",
    "required-incomplete": "null stands for its absence; make it required, and let its type admit None where nothing is meant",
    "root-type": "the root has to be one object",
    "same-strict-form": "two members of the union cannot be told apart; give each a property with a constant of its own",
    "type-missing": "any value becomes a scalar; write out the types it may have",
    "type-unknown": "JSON Schema has no such type",
}
_UNSET: Any = ...  # no JSON value, and a copy of it is itself

_Memo = dict[tuple[int, int], tuple[Any, Any]]
_Step = Callable[[Any, _Memo], Any]


class _Form(NamedTuple):
    """A strict schema, and the steps into plain form and back; without them the two forms are one."""

    strict: dict[str, Any]
    decode: _Step | None = None
    encode: _Step | None = None


@dataclass(frozen=True, slots=True)
class Codec:
    """A schema in strict form, and the way of a value into it and back.

    Attributes:
        schema: The strict form; `violations(schema)` is empty.
        encode: Brings a plain value into strict form.
        decode: Brings a value into plain form, whether it is in strict form, plain, or each in places. What has another shape stays
            as it is. Neither raises or changes what it is given.
        reasons: Every place whose values change between the forms or lose a part of their range: path, rule, and how to write it so
            that nothing has to be encoded.
        flat_nulls: The names whose null `decode` drops, if dropping nulls at the top is all that it does, else None.
    """

    schema: dict[str, Any]
    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]
    reasons: tuple[str, ...]
    flat_nulls: tuple[str, ...] | None

    @property
    def trivial(self) -> bool:
        """Whether `decode` returns every value as it is."""
        return self.flat_nulls == ()


def codec(schema: Mapping[str, Any], refuse: bool = False, rest: str = "") -> Codec:
    """Write a schema in strict form.

    Args:
        schema: JSON Schema 2020-12 of an object, such as a tool's arguments. It is not changed.
        refuse: Whether to raise for what would need encoding, too.
        rest: The property that publishes what the root's `additionalProperties` admit.

    Raises:
        SchemaError: Something has no strict form, or needs encoding and `refuse` is set. `reasons` names every place.
    """
    plain, live = deepcopy(dict(schema)), set[str]()
    if isinstance(target := _lookup(plain, plain.get("$ref")), dict):
        plain = {**target, **{key: value for key, value in plain.items() if key != "$ref"}}
    plain = plain if plain.keys() & _SHAPE else {**plain, "type": "object"}
    while True:
        reader = _Reader(plain, rest or "extra", live)
        form = reader.build(plain, "#")
        # Whether a recursive type needs decoding is known once it has been read: read again until the guess was right.
        found = {ref for ref in reader.recursive if reader.forms[ref].decode}
        if found == live:
            break
        live = found
    problems = reader.judge(form.strict) + (reader.encoded if refuse else [])
    if problems:
        raise SchemaError("There is no strict form:\n" + "\n".join(f"- {problem}" for problem in problems), problems)
    defs = {reader.names[ref]: form.strict for ref, form in reader.forms.items() if ref != "#"}
    strict = {**form.strict, **({"$defs": defs} if defs else {})}

    def run(step: _Step | None, value: Any) -> Any:
        value = dict(value) if isinstance(value, Mapping) and not isinstance(value, dict) else value
        return step(value, {}) if step else value

    return Codec(strict, partial(run, form.encode), partial(run, form.decode), tuple(reader.encoded), reader.nulls)


class _Reader:
    """Writes the parts of one schema; collects what has no strict form (`broken`) and what needs encoding (`encoded`)."""

    def __init__(self, root: dict[str, Any], rest: str, live: set[str]) -> None:
        self.root, self.rest, self.live = root, rest, live
        self.broken: list[str] = []
        self.encoded: list[str] = []
        self.forms: dict[str, _Form] = {}
        self.names: dict[str, str] = {}
        self.recursive: set[str] = set()
        self.unions: list[tuple[str, list[_Form], _Step]] = []
        self.nulls: tuple[str, ...] | None = ()

    def fail(self, path: str, rule: str) -> _Form:
        self.broken.append(f"{path}: {rule}: {_REMEDIES[rule]}")
        return _Form({"type": "string"})

    def note(self, path: str, rule: str) -> None:
        self.encoded.append(f"{path}: {rule}: {_REMEDIES[rule]}")

    def judge(self, strict: dict[str, Any]) -> list[str]:
        """Refuse a root that is no object, and unions whose members decoding cannot tell apart."""
        defs = {self.link(ref): form.strict for ref, form in self.forms.items()}
        if strict.get("type") != "object" and not self.broken:
            self.fail("#", "root-type")
        for path, forms, decode in self.unions:
            bare = [_bare(defs.get(form.strict.get("$ref", ""), form.strict)) for form in forms]
            for form in forms:
                if (step := form.decode) and (
                    bare.count(bare[forms.index(form)]) > 1
                    or any(decode(sample, {}) != step(sample, {}) for sample in _samples(form.strict, defs))
                ):
                    self.fail(path, "same-strict-form")
                    break
        return self.broken

    def build(self, s: Any, path: str) -> _Form:
        """Write one place: its structure, and what the subset has no keyword for as a sentence of its description."""
        s = {} if s is True else s
        if rule := _malformed(s):
            return self.fail(path, rule)
        if len(s.get("allOf", ())) == 1 and isinstance(s["allOf"][0], dict):
            return self.build({**s["allOf"][0], **{key: value for key, value in s.items() if key != "allOf"}}, path)
        form = self.shape(s, path)
        said = [s["description"]] if isinstance(s.get("description"), str) else []
        said += [
            f"{'Default' if key == 'default' else key}: {_text(value)}."
            for key, value in s.items()
            if _is_noted(key, value)
        ]
        kept = {
            key: value
            for key, value in s.items()
            if key not in _SHAPE | {"description", *_UNSAID} and not _is_noted(key, value)
        }
        return form._replace(strict=_with(form.strict, kept, said))

    def shape(self, s: dict[str, Any], path: str) -> _Form:
        if "allOf" in s:
            return self.fail(path, "keyword-allOf")
        if "$ref" in s:
            return self.reference(s, path)
        for word in ("anyOf", "oneOf"):
            if word in s:
                return self.union(s, word, path)
        types, values = _types(s), _values(s)
        boxes = [name for name in types if name not in _SCALARS]
        if {*boxes} - {"array", "object"}:
            return self.fail(path, "type-unknown")
        if values is not None:
            types = types or [*dict.fromkeys(_NAMES.get(type(value), "object") for value in values)]
            values = [value for value in values if _is_type(value, types) and not isinstance(value, (dict, list))]
            choice = {"const": values[0]} if "const" in s and values else {"enum": values}
            scalars = [name for name in types if name in _SCALARS]
            return _Form({**_typed(scalars), **choice}) if values else self.fail(path, "enum-type")
        if boxes and len(types) > 1:
            inner = {key: value for key, value in s.items() if key in _SHAPE}
            return self.union({"anyOf": [{**inner, "type": name} for name in types]}, "anyOf", path)
        if not types:
            self.note(path, "type-missing")
            return _Form({"anyOf": [{"type": name} for name in _SCALARS if name != "integer"]})
        return (self.array if boxes == ["array"] else self.object)(s, path) if boxes else _Form(_typed(types))

    def link(self, ref: str) -> str:
        return "#" if ref == "#" else f"#/$defs/{self.names[ref]}"

    def reference(self, s: dict[str, Any], path: str) -> _Form:
        ref, target = s["$ref"], _lookup(self.root, s["$ref"])
        if s.keys() & _SHAPE - {"type", "$ref"}:
            return self.fail(path, "ref-siblings")
        if target is _UNSET or isinstance(target, dict) and target.get("$ref") == ref:
            return self.fail(path, "ref-target")
        if ref not in self.names:
            name = ref.rpartition("/")[2]
            while name in self.names.values():
                name += "_"
            self.names[ref] = name
            self.forms[ref] = self.build(target, ref)
        strict, forms = {"$ref": self.link(ref)}, self.forms
        if ref not in forms:
            self.recursive.add(ref)
        if not (forms[ref].decode if ref in forms else ref in self.live):
            return _Form(strict)
        return _Form(
            strict,
            lambda value, memo: forms[ref].decode(value, memo),
            lambda value, memo: forms[ref].encode(value, memo),
        )

    def union(self, s: dict[str, Any], word: str, path: str) -> _Form:
        outer = {key: value for key, value in s.items() if key in _SHAPE and key != word}
        if outer.keys() - {"type"} or not s[word]:
            return self.fail(path, f"keyword-{word}")
        members = {_text(member): member for member in s[word]}.values()
        members = [{**outer, **each} if isinstance(each, dict) and "$ref" not in each else each for each in members]
        forms = [self.build(member, f"{path}/{word}/{index}") for index, member in enumerate(members)]
        strict = {"anyOf": [form.strict for form in forms]}
        live = [(member, form) for member, form in zip(members, forms, strict=True) if form.decode]
        boxes = [form for form in forms if form.strict.get("type", "object") in ("object", "array")]
        if not live or len(boxes) == 1:
            return _Form(strict, *(live[0][1][1:] if live else ()))
        root = self.root

        def decode(value: Any, memo: _Memo) -> Any:
            if not isinstance(value, (dict, list)):
                return value
            key = (id(live), id(value))
            if key not in memo:
                memo[key] = (value, value)
                if not any(_fits(member, value, root, memo) for member in members):
                    for member, form in live:
                        plain = form.decode(value, memo)
                        if _fits(member, plain, root, memo):
                            memo[key] = (plain, value)
                            break
            return memo[key][0]

        def encode(value: Any, memo: _Memo) -> Any:
            for member, form in zip(members, forms, strict=True):
                if _fits(member, value, root, memo):
                    strict = form.encode(value, memo) if form.encode else value
                    return strict if decode(strict, {}) == value else value
            return value

        self.unions.append((path, forms, decode))
        return _Form(strict, decode, encode)

    def array(self, s: dict[str, Any], path: str) -> _Form:
        prefix, items = s.get("prefixItems", []), s.get("items", True)
        least = min(s.get("minItems", 0), len(prefix))
        if prefix and isinstance(items, dict):
            return self.fail(path, "open-tuple")
        if len({_text(item) for item in prefix}) > 1:
            return self.tuple(prefix, least, path)
        bounds = {key: s[key] for key in ("minItems", "maxItems") if key in s}
        if prefix:
            bounds = {"minItems": least, "maxItems": min(s.get("maxItems", len(prefix)), len(prefix))}
        item = self.build(prefix[0] if prefix else items, f"{path}/items")
        return _Form({"type": "array", "items": item.strict, **bounds}, _each(item.decode), _each(item.encode))

    def tuple(self, prefix: list[Any], least: int, path: str) -> _Form:
        self.note(path, "keyword-prefixItems")
        items = {f"item_{index}": item for index, item in enumerate(prefix)}
        names = [*items]
        form = self.object({"properties": items, "required": names[:least]}, path)

        def decode(value: Any, memo: _Memo) -> Any:
            found = dict(zip(names, value, strict=False)) if isinstance(value, list) else value
            if not isinstance(found, dict) or not found.keys() <= items.keys() or len(found) < len(value):
                return value
            found = form.decode(found, memo) if form.decode else found
            given = names[: max((names.index(name) + 1 for name in found), default=0)]
            plain = [found[name] if name in found else deepcopy(_default(items[name])) for name in given]
            return value if _UNSET in plain or len(plain) < least else plain

        def encode(value: Any, memo: _Memo) -> Any:
            if not isinstance(value, list) or len(value) > len(names):
                return value
            found = dict(zip(names, value, strict=False))
            return form.encode(found, memo) if form.encode else found

        return _Form(form.strict, decode, encode)

    def object(self, s: dict[str, Any], path: str) -> _Form:
        required, top = s.get("required", []), path == "#"
        fields = {**s.get("properties", {}), **{name: True for name in required if name not in s.get("properties", {})}}
        forms = {name: self.build(field, f"{path}/properties/{name}") for name, field in fields.items()}
        drop = {name for name in fields if name not in required and not _fits(fields[name], None, self.root, {})}
        for name in [name for name in fields if name not in required]:
            self.note(f"{path}/properties/{name}", "required-incomplete")
        properties = {
            name: form.strict if name in required else _optional(form.strict, _default(fields[name]), name in drop)
            for name, form in forms.items()
        }
        extra, pair = _extra(s, not top), _Form({})
        if extra is _UNSET:
            return self.fail(path, "keyword-patternProperties")
        name = ""
        if extra is not False:
            if (fields or top) and not (isinstance(extra, dict) and extra.keys() & _SHAPE):
                return self.fail(path, "additional-properties")
            self.note(path, "properties-missing")
            pair, pairs = self.pair(s, extra, path)
            if fields or top:
                name = self.rest
                while name in fields:
                    name += "_"
                properties[name] = pairs
        closed = {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}
        strict = closed if fields or top or extra is False else pairs
        live = extra is not False or any(form.decode for form in forms.values())
        if top:
            self.nulls = None if live else tuple(drop)
        if not live and not drop:
            return _Form(strict)
        return _Form(strict, *_steps(forms, drop, pair, name, extra is not False))

    def pair(self, s: dict[str, Any], extra: Any, path: str) -> tuple[_Form, dict[str, Any]]:
        names = s.get("propertyNames", {})
        names = _lookup(self.root, names["$ref"]) if isinstance(names, dict) and "$ref" in names else names
        names = {**(names if isinstance(names, dict) else {}), "type": "string"}
        names |= {"pattern": pattern for pattern in s.get("patternProperties", {})}
        key, value = self.build(names, f"{path}/propertyNames"), self.build(extra, f"{path}/additionalProperties")
        fields = {"key": key.strict, "value": value.strict}
        item = {"type": "object", "properties": fields, "required": [*fields], "additionalProperties": False}
        return value, {"type": "array", "items": item}


def _steps(forms: dict[str, _Form], drop: set[str], other: _Form, rest: str, wide: bool) -> tuple[_Step, _Step]:
    """Make the steps of an object: `other` is the form of names that are not declared, `rest` where they are published."""
    inner = {name: form.decode for name, form in forms.items()}

    def decode(value: Any, memo: _Memo) -> Any:
        if wide:
            value = _spread(value, rest, forms) if rest else _unpair(value)
        if not isinstance(value, dict):
            return value
        return {
            name: step(item, memo) if (step := inner.get(name, other.decode)) else item
            for name, item in value.items()
            if item is not None or name not in drop
        }

    def encode(value: Any, memo: _Memo) -> Any:
        if not isinstance(value, dict):
            return value
        done = {
            name: step(item, memo) if (step := forms.get(name, other).encode) else item for name, item in value.items()
        }
        fixed = {name: done.pop(name, None) for name in forms if name in done or name in drop}
        if not wide:
            return {**fixed, **done}
        pairs = [{"key": name, "value": item} for name, item in done.items()]
        return {**fixed, rest: pairs} if rest else pairs

    return decode, encode


def _each(step: _Step | None) -> _Step | None:
    if step is None:
        return None
    return lambda value, memo: [step(item, memo) for item in value] if isinstance(value, list) else value


def _unpair(value: Any) -> Any:
    """Make the object that an array of pairs stands for; give back anything else."""
    if not isinstance(value, list):
        return value
    if not all(
        isinstance(pair, dict) and pair.keys() == {"key", "value"} and isinstance(pair["key"], str) for pair in value
    ):
        return value
    plain = {pair["key"]: pair["value"] for pair in value}
    return plain if len(plain) == len(value) else value


def _spread(value: Any, rest: str, forms: dict[str, _Form]) -> Any:
    others = _unpair(value.get(rest)) if isinstance(value, dict) and isinstance(value.get(rest), list) else None
    if not isinstance(others, dict) or others.keys() & {*value, *forms} - {rest}:
        return value
    return {**{name: item for name, item in value.items() if name != rest}, **others}


def _fits(s: Any, value: Any, root: Any, memo: _Memo) -> bool:
    """Say whether a value has a schema's plain shape: its types, names and constants."""
    if not isinstance(s, dict):
        return s is True
    key = (id(s), id(value))
    if key not in memo:
        memo[key] = (False, value)  # so that a reference to itself ends; the value is kept, and with it its id
        memo[key] = (_has_shape(s, value, root, memo), value)
    return bool(memo[key][0])


def _has_shape(s: dict[str, Any], value: Any, root: Any, memo: _Memo) -> bool:
    if "$ref" in s and not _fits(_lookup(root, s["$ref"]), value, root, memo):
        return False
    for word in ("anyOf", "oneOf"):
        if word in s and not any(_fits(member, value, root, memo) for member in s[word]):
            return False
    types, values, prefix, extra = _types(s), _values(s), s.get("prefixItems"), _extra(s, s is not root)
    if (types and not _is_type(value, types)) or not all(
        _fits(member, value, root, memo) for member in s.get("allOf", ())
    ):
        return False
    if values is not None and not any(
        value == known and isinstance(value, bool) == isinstance(known, bool) for known in values
    ):
        return False
    if isinstance(value, dict) and types:
        fields = s.get("properties", {})
        return value.keys() >= {*s.get("required", ())} and all(
            _fits(fields.get(name, extra), item, root, memo) for name, item in value.items()
        )
    if isinstance(value, list) and prefix:
        return min(s.get("minItems", 0), len(prefix)) <= len(value) <= len(prefix) and all(
            _fits(item, value[index], root, memo) for index, item in enumerate(prefix[: len(value)])
        )
    return not isinstance(value, list) or all(_fits(s.get("items", True), item, root, memo) for item in value)


def _samples(form: dict[str, Any], defs: dict[str, Any], depth: int = 0) -> list[Any]:
    """Make values of a strict schema: each type and constant in each place, the others being the first or the last ones."""
    if "$ref" in form:
        return _samples(defs[form["$ref"]], defs, depth + 1) if depth < 3 else []
    if "anyOf" in form:
        return [value for member in form["anyOf"] for value in _samples(member, defs, depth)][:50]
    if form["type"] == "array":
        items = _samples(form["items"], defs, depth)
        return [[item] * min(max(1, form.get("minItems", 1)), 99) for item in items] or [[]]
    if form["type"] != "object":
        values = _values(form)
        return [_SCALARS[name] for name in _types(form)] if values is None else values[:50]
    fields = {name: _samples(field, defs, depth) for name, field in form["properties"].items()}
    if not all(fields.values()):
        return []
    first = {name: values[0] for name, values in fields.items()}
    last = {name: values[-1] for name, values in fields.items()}
    return [first, last, *({**first, name: value} for name, values in fields.items() for value in values[1:])][:50]


def _typed(types: list[str]) -> dict[str, Any]:
    return {"type": types[0] if len(types) == 1 else types}


def _with(form: dict[str, Any], kept: dict[str, Any], said: list[str]) -> dict[str, Any]:
    """Write annotations and sentences beside a form; nothing may stand beside a reference."""
    said = [text for text in (kept.get("description", ""), form.get("description", ""), *said) if text]
    beside = {**kept, **({"description": " ".join(said)} if said else {})}
    return {**({"anyOf": [form]} if beside and "$ref" in form else form), **beside}


def _optional(form: dict[str, Any], default: Any, drop: bool) -> dict[str, Any]:
    """Let a form be null, and say what null means."""
    if not drop:
        return form if default is None else _with(form, {}, ["Null is a value of its own here."])
    said = "Null means that it is left out." if default is _UNSET else "Null means the default."
    if "anyOf" in form:
        return _with({**form, "anyOf": [*form["anyOf"], {"type": "null"}]}, {}, [said])
    if form.get("type", "object") in ("object", "array"):
        about = {key: value for key, value in form.items() if key not in _SHAPE}
        return _with(
            {"anyOf": [{key: value for key, value in form.items() if key in _SHAPE}, {"type": "null"}]}, about, [said]
        )
    values = _values(form)
    bare = {key: value for key, value in form.items() if key != "const"}
    return _with(
        {**bare, **_typed([*_types(form), "null"]), **({} if values is None else {"enum": [*values, None]})}, {}, [said]
    )


def _bare(form: Any) -> Any:
    """Take away what only describes."""
    return json.loads(
        _text(form),
        object_hook=lambda part: {
            k: v for k, v in part.items() if k not in ("title", "description") or not isinstance(v, str)
        },
    )


def _types(s: dict[str, Any]) -> list[str]:
    named = s.get("type") or [name for name, words in _IMPLIED.items() if s.keys() & words][:1]
    return named if isinstance(named, list) else [named]


def _values(s: dict[str, Any]) -> list[Any] | None:
    return [s["const"]] if "const" in s else s.get("enum")


def _default(s: Any) -> Any:
    return s.get("default", _UNSET) if isinstance(s, dict) else _UNSET


def _extra(s: dict[str, Any], open_: bool) -> Any:
    """The schema of names that are not declared, False, or unset where there is more than one."""
    patterns, extra = [*s.get("patternProperties", {}).values()], s.get("additionalProperties")
    if patterns:
        return patterns[0] if len(patterns) == 1 and not extra else _UNSET
    return ("properties" not in s and open_) if extra is None else extra


def _lookup(root: Any, ref: Any) -> Any:
    if not isinstance(ref, str) or not f"{ref}/".startswith("#/"):
        return _UNSET
    try:
        for part in ref.split("/")[1:]:
            root = root[int(part) if isinstance(root, list) else part.replace("~1", "/").replace("~0", "~")]
    except (LookupError, TypeError, ValueError):
        return _UNSET
    return root


def _is_type(value: Any, types: list[str]) -> bool:
    name = _NAMES.get(type(value))
    return (
        name in types
        or (name == "integer" and "number" in types)
        or (name == "number" and "integer" in types and value % 1 == 0)
    )


def _is_noted(key: str, value: Any) -> bool:
    if key == "pattern":
        return any(mark in str(value) for mark in ("(?=", "(?!", "(?<=", "(?<!"))
    return key in _NOTED or key in _AZURE or (key == "format" and value not in _FORMATS)


def _malformed(s: Any) -> str:
    if not isinstance(s, dict):
        return "boolean-schema"
    return (
        "malformed"
        if any(key in s and not isinstance(s[key], kind) for kind, keys in _KINDS.items() for key in keys)
        else ""
    )


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def violations(schema: Any) -> list[str]:
    """List every place in which a schema leaves the strict subset, as `JSON pointer: rule`: `#/properties/a: format`."""
    top = schema if isinstance(schema, dict) else {}
    found = [*_find(schema, "#", schema)] + (["#: root-type"] if top.get("type") != "object" else [])
    return found + (["#: root-combinator"] if top.keys() & {"anyOf", "oneOf", "allOf", "$ref"} else [])


def _find(s: Any, path: str, root: Any) -> Iterator[str]:
    if rule := _malformed(s):
        yield f"{path}: {rule}"
        return
    for key, value in s.items():
        if key in _AZURE:
            yield f"{path}: azure-{key}"
        elif key in _NOTED or key in _FORBIDDEN or (key == "$id" and path != "#"):
            yield f"{path}: keyword-{key}"
        elif _is_noted(key, value):
            yield f"{path}: {'format' if key == 'format' else 'pattern-lookaround'}"
    types, values, rules = _types({"type": s.get("type")}), _values(s), []
    missing = [name for name in s.get("properties", {}) if name not in s.get("required", [])]
    rules = {
        "ref-siblings": "$ref" in s and s.keys() - {"$ref", "$defs", "definitions"},
        "ref-target": "$ref" in s and _lookup(root, s["$ref"]) is _UNSET,
        "type-missing": not s.keys() & {"type", "$ref", "anyOf", "oneOf", "allOf"},
        "type-unknown": {*types} - {*_SCALARS, "array", "object"},
        "enum-type": types and values and any(not _is_type(value, types) for value in values),
        "properties-missing": "object" in types and "properties" not in s,
        "additional-properties": "object" in types and s.get("additionalProperties") is not False,
        f"required-incomplete ({', '.join(missing)})": "object" in types and missing,
        "items-missing": "array" in types and "items" not in s,
        "boolean-schema": isinstance(s.get("items"), bool),
    }
    yield from (f"{path}: {rule}" for rule, broken in rules.items() if broken)
    for key in ("properties", "$defs", "definitions"):
        for name, child in s.get(key, {}).items():
            yield from _find(child, f"{path}/{key}/{name}", root)
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for index, child in enumerate(s.get(key, [])):
            yield from _find(child, f"{path}/{key}/{index}", root)
    for key in ("items", "additionalProperties"):
        if isinstance(s.get(key), dict):
            yield from _find(s[key], f"{path}/{key}", root)
