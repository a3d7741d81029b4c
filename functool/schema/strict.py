"""The strict form of a JSON Schema, and the conversion of strict values to plain form.

`codec(schema)` writes a schema inside the subset that OpenAI, including Azure, accepts as strict
(`functool.schema.subset`). `decode` converts a value of that schema to plain form. No information
is lost. `decode` also accepts the plain form at every depth, and does not change it.

| plain | strict |
|---|---|
| optional property | required; null means that it is absent, unless its type allows null |
| `dict[str, T]` | array of `{key, value}`; beside declared names, it is one more property |
| tuple of different items | object of `item_0`, `item_1` and so on |
| any value | anyOf of the scalar types |
| annotation, keyword, format or pattern outside the subset | a sentence in the description |

Some strict values could mean two things. They are read like this:

- An optional property whose type allows null: null is the value null. Only the plain form can leave
the property out.
- `dict[str, T] | list[U]`: an empty array is the empty list. Only the plain form can express the
empty dict.
- Further names are published as the property `rest`: a list of pairs there is always read as these
names, even if one of the names is `rest`.
- A tuple whose items may be left out: if an item without a default is missing before a given one,
the object is not changed.

An array with a repeated key is not a dict, and is not changed either. A union is refused if two
members have the same strict form and one of them needs decoding, or if a strict value of one member
is a plain value of another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import partial
from typing import Any, NamedTuple

from functool.errors import ArgumentError, SchemaError
from functool.schema import shapes, steps, subset
from functool.schema.json_schema import MAX_CHAIN, UNSET, Names, lookup, resolved
from functool.schema.steps import Form, Step
from functool.schema.subset import STRUCTURE, text, without

# OpenAI's assistant events, the largest unions that were measured, take 129,000.
MAX_STEPS = 150_000
"""How many steps it may take to tell members of unions apart: about half a second of work."""

_BESIDE = {"type", "$ref"}
"""The structure that may stand in a reference, and in its target as well."""

DECODE_STEPS = 100_000
"""How many steps unions may take in one value that is decoded: at most half a second of work."""


class Codec(NamedTuple):
    """A schema in strict form, and the function that converts its values to plain form.

    Attributes:
        schema: The strict form, inside the subset.
        decode: Converts a value to plain form. The value may be strict, plain or a mixture. A value
            of another shape is returned unchanged. It never modifies its input. It raises only an
            `ArgumentError`, if unions take more than `DECODE_STEPS`.
        reasons: Each place whose values differ between the forms, or lose a part of their range:
            the path, the rule, and how to avoid the encoding.
        flat_nulls: If all that `decode` does is to drop nulls at the top level, the names whose
            null it drops; otherwise None.
    """

    schema: dict[str, Any]
    decode: Callable[[Any], Any]
    reasons: tuple[str, ...]
    flat_nulls: tuple[str, ...] | None


def codec(schema: Mapping[str, Any], refuse: bool = False, rest: str = "") -> Codec:
    """Write a schema in strict form.

    Args:
        schema: JSON Schema 2020-12 of an object, such as a tool's arguments. It is not changed.
        refuse: Whether to raise also if a part of the schema would need an encoding.
        rest: The name of the property that holds the root's `additionalProperties`.

    Raises:
        SchemaError: A part of the schema has no strict form, or `refuse` is set and it needs an
            encoding. `reasons` names every such part.
    """
    root = plain = deepcopy(dict(schema))
    # The root may be a reference. If both say the same keyword, `reference` refuses it below.
    for _ in range(MAX_CHAIN):
        target = lookup(root, plain.get("$ref"))
        if not isinstance(target, dict) or (target.keys() & plain.keys() & STRUCTURE) - _BESIDE:
            break
        plain = {**target, **without(plain, ["$ref"])}
    plain = plain if plain.keys() & STRUCTURE else {**plain, "type": "object"}
    assumed, passes = dict[str, bool](), 0
    while True:
        passes += 1
        writer = _Writer(plain, rest or "extra", assumed)
        form = writer.build(plain, "#")
        # Whether a recursive type needs decoding is only known after writing it. So write the
        # schema again until what was assumed is right. A hostile schema may need a pass for each of
        # its types, so from the fourth on all are decoded: decoding keeps what is not encoded.
        if assumed == (assumed := {r: passes > 3 or bool(writer.forms[r].decode) for r in assumed}):
            break
    strict = writer.finish(form.strict)
    if problems := writer.broken + (writer.encoded if refuse else []):
        raise SchemaError("\n- ".join(["There is no strict form:", *problems]), problems)

    def decode(value: Any) -> Any:
        try:
            return form.decode(value, shapes.CountingMemo(DECODE_STEPS)) if form.decode else value
        except shapes.TooMuchWork as error:
            raise ArgumentError(str(error)) from None

    return Codec(strict, decode, tuple(writer.encoded), writer.flat_nulls)


class _Writer:
    """Writes a schema in strict form, part by part.

    `broken` lists the parts that have no strict form, and `encoded` those that need an encoding.
    `assumed` says of each recursive reference whether it needs decoding. New ones are added to it.
    """

    def __init__(self, root: dict[str, Any], rest: str, assumed: dict[str, bool]) -> None:
        self.root, self.rest, self.assumed = root, rest, assumed
        self.broken: list[str] = []
        self.encoded: list[str] = []
        self.flat_nulls: tuple[str, ...] | None = ()
        self.names = Names(root)
        self.seen: set[str] = set()
        self.forms: dict[str, Form] = {}
        self.unions: list[tuple[str, list[Form], Step]] = []

    def fail(self, path: str, reason: str) -> Form:
        self.broken.append(f"{path}: {reason}")
        return Form({"type": "string"})

    def link(self, ref: str) -> str:
        """Return a reference as the strict form writes it."""
        return "#" if ref == "#" else f"#/$defs/{self.names.of(ref)}"

    def finish(self, strict: dict[str, Any]) -> dict[str, Any]:
        """Add the definitions. Refuse unions if decoding cannot tell their members apart."""
        if strict.get("type") != "object" and not self.broken:
            self.fail("#", "root-type: the root has to be one object")
        links = {self.link(ref): form.strict for ref, form in self.forms.items()}
        memo = shapes.CountingMemo(MAX_STEPS)
        try:
            for path, forms, decode in self.unions:
                if steps.is_ambiguous(forms, decode, links, memo):
                    reason = "decoding cannot tell members apart; give each a constant of its own"
                    self.fail(path, f"same-strict-form: {reason}")
        except shapes.TooMuchWork:
            reason = "telling members apart takes too much work; write fewer or smaller ones"
            self.fail("#", f"union-size: {reason}")
        defs = {link.removeprefix("#/$defs/"): form for link, form in links.items() if link != "#"}
        return {**strict, **({"$defs": defs} if defs else {})}

    def build(self, s: Any, path: str) -> Form:
        """Write one part: its structure, and its annotations and descriptions."""
        s = {} if s is True else s
        if reason := subset.malformed(s):
            return self.fail(path, reason)
        if len(s.get("allOf", ())) == 1 and isinstance(s["allOf"][0], dict):
            return self.build({**s["allOf"][0], **without(s, ["allOf"])}, path)
        form = self.shape(s, path)
        moved = [key for key, value in s.items() if subset.moves_to_text(key, value)]
        texts = [s["description"]] if isinstance(s.get("description"), str) else []
        texts += [f"{'Default' if key == 'default' else key}: {text(s[key])}." for key in moved]
        kept = {key: s[key] for key in s if key in subset.COPIED and key not in moved}
        return form._replace(strict=subset.describe(form.strict, kept, texts))

    def shape(self, s: dict[str, Any], path: str) -> Form:
        if "allOf" in s:
            return self.fail(path, "keyword-allOf: write its members as one schema")
        if "$ref" in s:
            return self.reference(s, path)
        for word in ("anyOf", "oneOf"):
            if word in s:
                return self.union(s, word, path)
        types = [*dict.fromkeys(shapes.types_of(s))]
        if not {*types} <= shapes.TYPES:
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
        values = [value for value in values if shapes.is_type(value, types)]
        if not values or any(isinstance(value, (list, dict)) for value in values):
            reason = "each value has to be a scalar, and of the type that is given"
            return self.fail(path, f"enum-type: {reason}")
        types = [name for name in types if name in shapes.SAMPLES]
        choice = {"const": values[0]} if "const" in s else {"enum": values}
        return Form({**subset.typed(types), **choice})

    def reference(self, s: dict[str, Any], path: str) -> Form:
        ref, forms = s["$ref"], self.forms
        if s.keys() & STRUCTURE - _BESIDE:
            return self.fail(path, "ref-siblings: move the keywords beside $ref into its target")
        if resolved(self.root, {"$ref": ref}) is UNSET:
            reason = "a reference has to lead to another part of this schema"
            return self.fail(path, f"ref-target: {reason}")
        if ref not in self.seen:
            self.seen.add(ref)
            forms[ref] = self.build(lookup(self.root, ref), ref)
        form, strict = forms.get(ref), {"$ref": self.link(ref)}
        is_decoded = form.decode if form else self.assumed.setdefault(ref, False)
        return Form(strict, partial(steps.decode_reference, forms, ref) if is_decoded else None)

    def union(self, s: dict[str, Any], word: str, path: str) -> Form:
        outer = without(s, {word, *s.keys() - STRUCTURE})
        if outer.keys() - {"type"} or not s[word]:
            reason = "needs members, and no structure beside it; write each member out"
            return self.fail(path, f"keyword-{word}: {reason}")
        members = [*{text(member): member for member in s[word]}.values()]
        members = [{**outer, **each} if isinstance(each, dict) else each for each in members]
        forms = [self.build(each, f"{path}/{word}/{i}") for i, each in enumerate(members)]
        strict = {"anyOf": [form.strict for form in forms]}
        decode = next((form.decode for form in forms if form.decode), None)
        nested = sum(f.strict.get("type", "object") in ("object", "array") for f in forms)
        if decode and nested > 1:
            plain = [resolved(self.root, member) for member in members]
            decoding = [form.decode for form in forms]
            union = [*zip(plain, decoding, map(shapes.tags_of, plain), strict=True)]
            decode = partial(steps.decode_union, union, self.root)
            self.unions.append((path, forms, decode))
        return Form(strict, decode)

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
            return Form(form.strict, partial(steps.decode_tuple, form.decode, named, least))
        bounds: dict[str, Any] = {key: s[key] for key in ("minItems", "maxItems") if key in s}
        if prefix:
            most = min(s.get("maxItems", len(prefix)), len(prefix))
            bounds = {"minItems": least, "maxItems": most}
        item = self.build(prefix[0] if prefix else items, f"{path}/items")
        strict = {"type": "array", "items": item.strict, **bounds}
        return Form(strict, partial(steps.decode_items, item.decode) if item.decode else None)

    def object(self, s: dict[str, Any], path: str) -> Form:
        required, others = dict.fromkeys(s.get("required", [])), shapes.others_of(s, self.root)
        fields = {**s.get("properties", {})}
        fields |= {name: True for name in required if name not in fields}
        forms = {n: self.build(field, f"{path}/properties/{n}") for n, field in fields.items()}
        optional = [name for name in fields if name not in required]
        bare = (n for n in optional if not shapes.fits(fields[n], None, self.root, {}))
        absent = dict.fromkeys(bare)  # There may be thousands, and each is looked up.
        inner = {name: form.decode for name, form in forms.items()}
        deep = any(inner.values())
        strict = {name: form.strict for name, form in forms.items()}
        for name in optional:
            default = shapes.default_of(fields[name])
            strict[name] = subset.optional(strict[name], default, name in absent)
            remedy = "require it, and let its type allow null if it may have no value"
            reason = f"required-incomplete: null means that it is absent; {remedy}"
            self.encoded.append(f"{path}/properties/{name}: {reason}")
        if others is UNSET:
            reason = "several kinds of further names; name them all"
            return self.fail(path, f"keyword-patternProperties: {reason}")
        if path == "#":
            self.flat_nulls = None if deep or others is not False else tuple(absent)
        if others is False:
            step = partial(steps.decode_object, inner, absent, None, None)
            return Form(subset.closed(strict), step if absent or deep else None)
        named = bool(fields) or path == "#"
        if named and not (isinstance(others, dict) and others.keys() & STRUCTURE):
            reason = "open to anything; give further names a type, or name them all"
            return self.fail(path, f"additional-properties: {reason}")
        remedy = "becomes an array of pairs; use a model with named fields"
        self.encoded.append(f"{path}: properties-missing: {remedy}")
        value = self.build(others, f"{path}/additionalProperties")
        item = subset.closed({"key": self.key(s, path).strict, "value": value.strict})
        pairs, rest = {"type": "array", "items": item}, self.rest
        if not named:
            return Form(pairs, partial(steps.decode_pairs, value.decode))
        while rest in fields:
            rest += "_"
        step = partial(steps.decode_object, inner, absent, value.decode, rest)
        return Form(subset.closed({**strict, rest: pairs}), step)

    def key(self, s: dict[str, Any], path: str) -> Form:
        names = resolved(self.root, s.get("propertyNames"))
        names = {**(names if isinstance(names, dict) else {}), "type": "string"}
        for pattern in s.get("patternProperties", ()):
            names["pattern"] = pattern
        return self.build(names, f"{path}/propertyNames")
