"""The strict form of a JSON Schema, and the way of values into it and back; nothing is lost.

`codec(schema)` writes a schema inside the subset that OpenAI, Azure included, takes as strict
(`functool.schema.subset`). `encode` brings a value into that form, and `decode` brings it back.
`decode` takes the plain form too, at every depth: a plain value stays as it is.

| plain | strict |
|---|---|
| optional property | required; null stands for its absence, unless its type admits null |
| `dict[str, T]` | array of `{key, value}`; beside declared names: one more property, the array |
| tuple of unlike items | object of `item_0`, `item_1` and so on |
| any value at all | anyOf of the scalar types |
| annotation, keyword, format or pattern outside of the subset | a sentence in the description |

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

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from functool.errors import SchemaError
from functool.schema import shapes, steps, subset
from functool.schema.json_schema import UNSET, Names, lookup, resolved
from functool.schema.steps import Form, Step
from functool.schema.subset import STRUCTURE, text, without


@dataclass(frozen=True, slots=True)
class Codec:
    """A schema in strict form, and the way of a value into it and back.

    Attributes:
        schema: The strict form, inside of the subset.
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
    if isinstance(whole := resolved(plain, plain), dict):
        plain = whole
    plain = plain if plain.keys() & STRUCTURE else {**plain, "type": "object"}
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
        lines = "\n".join(f"- {problem}" for problem in problems)
        raise SchemaError(f"There is no strict form:\n{lines}", problems)
    reasons = tuple(reader.encoded)
    return Codec(strict, _run(form.encode), _run(form.decode), reasons, reader.flat_nulls)


def _run(step: Step | None) -> Callable[[Any], Any]:
    def run(value: Any) -> Any:
        if type(value) is not dict and isinstance(value, Mapping):
            value = dict(value)
        return step(value, {}) if step else value

    return run


class _Reader:
    """Writes a schema in strict form, place by place.

    `broken` collects what has no strict form, `encoded` what needs encoding.
    """

    def __init__(self, root: dict[str, Any], rest: str, live: set[str]) -> None:
        self.root, self.rest, self.live = root, rest, live
        self.broken: list[str] = []
        self.encoded: list[str] = []
        self.flat_nulls: tuple[str, ...] | None = ()
        self.names = Names(root)
        self.seen: set[str] = set()
        self.forms: dict[str, Form] = {}
        self.recursive: set[str] = set()
        self.unions: list[tuple[str, list[Form], Step]] = []

    def fail(self, path: str, reason: str) -> Form:
        self.broken.append(f"{path}: {reason}")
        return Form({"type": "string"})

    def link(self, ref: str) -> str:
        """Return how the strict form writes a reference."""
        return "#" if ref == "#" else f"#/$defs/{self.names.of(ref)}"

    def finish(self, strict: dict[str, Any]) -> dict[str, Any]:
        """Add the definitions, and refuse unions whose members decoding cannot tell apart."""
        if strict.get("type") != "object" and not self.broken:
            self.fail("#", "root-type: the root has to be one object")
        links = {self.link(ref): form.strict for ref, form in self.forms.items()}
        for path, forms, decode in self.unions:
            if steps.confused(forms, decode, links):
                reason = "decoding cannot tell members apart; give each a constant of its own"
                self.fail(path, f"same-strict-form: {reason}")
        defs = {link.removeprefix("#/$defs/"): form for link, form in links.items() if link != "#"}
        return {**strict, **({"$defs": defs} if defs else {})}

    def build(self, s: Any, path: str) -> Form:
        """Write one place: its structure, and beside it what describes it."""
        s = {} if s is True else s
        if reason := subset.malformed(s):
            return self.fail(path, reason)
        if len(s.get("allOf", ())) == 1 and isinstance(s["allOf"][0], dict):
            return self.build({**s["allOf"][0], **without(s, ["allOf"])}, path)
        form = self.shape(s, path)
        noted = [key for key, value in s.items() if subset.is_noted(key, value)]
        said = [s["description"]] if isinstance(s.get("description"), str) else []
        said += [f"{'Default' if key == 'default' else key}: {text(s[key])}." for key in noted]
        kept = without(s, {*subset.UNSAID, *noted})
        return form._replace(strict=subset.beside(form.strict, kept, said))

    def shape(self, s: dict[str, Any], path: str) -> Form:
        if "allOf" in s:
            return self.fail(path, "keyword-allOf: write its members as one schema")
        if "$ref" in s:
            return self.reference(s, path)
        for word in ("anyOf", "oneOf"):
            if word in s:
                return self.union(s, word, path)
        types = [*dict.fromkeys(shapes.types_of(s))]
        if not {*types} <= subset.TYPES:
            return self.fail(path, "type-unknown: JSON Schema has no such type")
        if "enum" in s or "const" in s:
            return self.choice(s, types, path)
        if len(types) > 1 and {"array", "object"} & {*types}:
            inner = without(s, s.keys() - STRUCTURE)
            return self.union({"anyOf": [{**inner, "type": name} for name in types]}, "anyOf", path)
        if not types:
            remedy = "any value becomes a scalar; write out the types it may have"
            self.encoded.append(f"{path}: type-missing: {remedy}")
            return Form({"anyOf": [{"type": name} for name in shapes.SAMPLES if name != "integer"]})
        if types == ["array"]:
            return self.array(s, path)
        return self.object(s, path) if types == ["object"] else Form(subset.typed(types))

    def choice(self, s: dict[str, Any], types: list[str], path: str) -> Form:
        values = shapes.values_of(s) or []
        types = types or [*dict.fromkeys(shapes.NAMES.get(type(value), "") for value in values)]
        types = [name for name in types if name in shapes.SAMPLES]
        values = [value for value in values if shapes.is_type(value, types)]
        if not values:
            reason = "each value has to be a scalar, and one of the type beside it"
            return self.fail(path, f"enum-type: {reason}")
        choice = {"const": values[0]} if "const" in s else {"enum": values}
        return Form({**subset.typed(types), **choice})

    def reference(self, s: dict[str, Any], path: str) -> Form:
        ref, forms = s["$ref"], self.forms
        if s.keys() & STRUCTURE - {"type", "$ref"}:
            return self.fail(path, "ref-siblings: move what stands beside $ref into its target")
        if resolved(self.root, {"$ref": ref}) is UNSET:
            reason = "a reference has to lead to another part of this schema"
            return self.fail(path, f"ref-target: {reason}")
        if ref not in self.seen:
            self.seen.add(ref)
            forms[ref] = self.build(lookup(self.root, ref), ref)
        if ref not in forms:
            self.recursive.add(ref)
        form, strict = forms.get(ref), {"$ref": self.link(ref)}
        if (form and form.decode) or (not form and ref in self.live):
            return Form(strict, *steps.reference_steps(forms, ref))
        return Form(strict)

    def union(self, s: dict[str, Any], word: str, path: str) -> Form:
        outer = without(s, {word, *s.keys() - STRUCTURE})
        if outer.keys() - {"type"} or not s[word]:
            reason = "needs members, and no structure beside it; write each member out"
            return self.fail(path, f"keyword-{word}: {reason}")
        members = [*{text(member): member for member in s[word]}.values()]
        members = [{**outer, **each} if isinstance(each, dict) else each for each in members]
        forms = [self.build(each, f"{path}/{word}/{i}") for i, each in enumerate(members)]
        strict = {"anyOf": [form.strict for form in forms]}
        live = [form for form in forms if form.decode]
        boxes = [form for form in forms if form.strict.get("type", "object") in ("object", "array")]
        if not live or len(boxes) == 1:
            return Form(strict, *(live[0][1:] if live else ()))
        decode, encode = steps.union_steps(members, forms, self.root)
        self.unions.append((path, forms, decode))
        return Form(strict, decode, encode)

    def array(self, s: dict[str, Any], path: str) -> Form:
        prefix, items = s.get("prefixItems", []), s.get("items", True)
        least = min(s.get("minItems", 0), len(prefix))
        if prefix and isinstance(items, dict):
            reason = "a tuple with an open end; use a model with named fields"
            return self.fail(path, f"keyword-prefixItems: {reason}")
        if len({text(item) for item in prefix}) > 1:
            remedy = "becomes an object; use a model with named fields"
            self.encoded.append(f"{path}: keyword-prefixItems: {remedy}")
            named = {f"item_{index}": item for index, item in enumerate(prefix)}
            form = self.object({"properties": named, "required": [*named][:least]}, path)
            return Form(form.strict, *steps.tuple_steps(form, named, least))
        bounds: dict[str, Any] = {key: s[key] for key in ("minItems", "maxItems") if key in s}
        if prefix:
            most = min(s.get("maxItems", len(prefix)), len(prefix))
            bounds = {"minItems": least, "maxItems": most}
        item = self.build(prefix[0] if prefix else items, f"{path}/items")
        strict = {"type": "array", "items": item.strict, **bounds}
        return Form(strict, *map(steps.items_step, item[1:]))

    def object(self, s: dict[str, Any], path: str) -> Form:
        required, others = s.get("required", []), shapes.others_of(s, self.root)
        fields = {**s.get("properties", {})}
        fields |= {name: True for name in required if name not in fields}
        forms = {
            name: self.build(field, f"{path}/properties/{name}") for name, field in fields.items()
        }
        optional = [name for name in fields if name not in required]
        absent = tuple(n for n in optional if not shapes.fits(fields[n], None, self.root, {}))
        deep = any(form.decode for form in forms.values())
        inner = steps.object_steps(forms, absent) if absent or deep else (None, None)
        strict = {name: form.strict for name, form in forms.items()}
        for name in optional:
            default = shapes.default_of(fields[name])
            strict[name] = subset.optional(strict[name], default, name in absent)
            remedy = "require it, and let its type admit null if nothing can be meant"
            reason = f"required-incomplete: null stands for its absence; {remedy}"
            self.encoded.append(f"{path}/properties/{name}: {reason}")
        if others is UNSET:
            reason = "several kinds of further names; name them all"
            return self.fail(path, f"keyword-patternProperties: {reason}")
        if path == "#":
            self.flat_nulls = None if deep or others is not False else absent
        if others is False:
            return Form(subset.closed(strict), *inner)
        return self.open_object(s, path, strict, inner)

    def open_object(
        self, s: dict[str, Any], path: str, fields: dict[str, Any], inner: steps.Steps
    ) -> Form:
        """Write an object that takes further names, beside its `fields` or without any."""
        others = shapes.others_of(s, self.root)
        named = bool(fields) or path == "#"
        if named and not (isinstance(others, dict) and others.keys() & STRUCTURE):
            reason = "open to anything; give further names a type, or name them all"
            return self.fail(path, f"additional-properties: {reason}")
        remedy = "becomes an array of pairs; use a model with named fields"
        self.encoded.append(f"{path}: properties-missing: {remedy}")
        value = self.build(others, f"{path}/additionalProperties")
        item = subset.closed({"key": self.key(s, path).strict, "value": value.strict})
        pairs, rest = steps.pairs_steps(value.decode, value.encode), self.rest
        if not named:
            return Form({"type": "array", "items": item}, *pairs)
        while rest in fields:
            rest += "_"
        strict = subset.closed({**fields, rest: {"type": "array", "items": item}})
        return Form(strict, *steps.rest_steps(inner, pairs, [*fields], rest))

    def key(self, s: dict[str, Any], path: str) -> Form:
        names = resolved(self.root, s.get("propertyNames"))
        names = {**(names if isinstance(names, dict) else {}), "type": "string"}
        for pattern in s.get("patternProperties", ()):
            names["pattern"] = pattern
        return self.build(names, f"{path}/propertyNames")
