"""Values under a JSON Schema: which shape one has, and the steps between its plain and its strict form.

`functool.schema.strict` writes the strict schemas that belong to these steps. A step takes any value and never raises: what
has neither form stays as it is. Nothing here changes a value that it is given.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Container, Generator, Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

UNSET: Any = ...  # no JSON value, and a copy of it is itself
SAMPLES: dict[str, Any] = {"string": "", "number": 0.5, "integer": 0, "boolean": True, "null": None}
NAMES = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
    list: "array",
    dict: "object",
}
_IMPLIED = {
    "array": {"items", "prefixItems"},
    "object": {"properties", "additionalProperties", "patternProperties", "required"},
}
STRUCTURE = {
    *str.split("type enum const $ref anyOf oneOf allOf items prefixItems minItems maxItems"),
    *str.split("properties required additionalProperties patternProperties propertyNames"),
}
_NUMBERS = {"integer", "number"}
_PAIR = {"key", "value"}
_MOST = 50

# What was found out about (schema or step, value) in one run. It holds the values, so that no id is
# given twice.
Memo = dict[tuple[int, int], tuple[Any, Any]]
Step = Callable[[Any, Memo], Any]
Steps = tuple[Step | None, Step | None]
_Judge = Generator[tuple[Any, Any], Any, bool]


class Form(NamedTuple):
    """A strict schema, and the steps into plain form and back; without them the two forms are one."""

    strict: dict[str, Any]
    decode: Step | None = None
    encode: Step | None = None


def lookup(root: Any, ref: Any) -> Any:
    """Find what a reference inside of a schema leads to, or `UNSET`."""
    if not isinstance(ref, str) or not f"{ref}/".startswith("#/"):
        return UNSET
    try:
        for part in ref.split("/")[1:]:
            root = root[
                int(part) if isinstance(root, list) else part.replace("~1", "/").replace("~0", "~")
            ]
    except (LookupError, TypeError, ValueError):
        return UNSET
    return root


def target_of(root: Any, ref: str) -> Any:
    """Find what a reference leads to, `UNSET` if to nothing or only to itself."""
    target = end = lookup(root, ref)
    seen = {ref}
    while isinstance(end, dict) and isinstance(inner := end.get("$ref"), str):
        if inner in seen:
            return UNSET
        seen.add(inner)
        end = lookup(root, inner)
    return target


def types_of(schema: Mapping[str, Any]) -> list[str]:
    """List the types a schema names or its structure implies."""
    types = (
        schema.get("type")
        or [name for name, words in _IMPLIED.items() if schema.keys() & words][:1]
    )
    return types if isinstance(types, list) else [types]


def values_of(schema: Mapping[str, Any]) -> list[Any] | None:
    """List the only values a schema admits, or None if it names none."""
    return [schema["const"]] if "const" in schema else schema.get("enum")


def default_of(schema: Any) -> Any:
    """The default a schema names, or `UNSET`."""
    return schema.get("default", UNSET) if isinstance(schema, dict) else UNSET


def others_of(schema: Mapping[str, Any], root: Any) -> Any:
    """Find the schema of the names that are not declared: False for none, `UNSET` if there are several schemas."""
    patterns, others = (
        [*schema.get("patternProperties", {}).values()],
        schema.get("additionalProperties"),
    )
    if patterns:
        return patterns[0] if len(patterns) == 1 and not others else UNSET
    return others if others is not None else "properties" not in schema and schema is not root


def is_type(value: Any, types: Sequence[str]) -> bool:
    """Say whether a value is of one of these types; 1.0 is an integer too."""
    name = NAMES.get(type(value))
    return name in types or (name in _NUMBERS and bool(_NUMBERS & {*types}) and value % 1 == 0)


def without(s: Mapping[str, Any], keys: Container[str]) -> dict[str, Any]:
    """Copy a schema but for some keywords."""
    return {key: value for key, value in s.items() if key not in keys}


def closed(fields: dict[str, Any]) -> dict[str, Any]:
    """Write an object of these properties, all of them required."""
    return {
        "type": "object",
        "properties": fields,
        "required": [*fields],
        "additionalProperties": False,
    }


def typed(types: list[str]) -> dict[str, Any]:
    """Write one type or several."""
    return {"type": types if len(types) > 1 else types[0]}


def beside(form: dict[str, Any], kept: dict[str, Any], said: list[str]) -> dict[str, Any]:
    """Write annotations and sentences beside a form; nothing may stand beside a reference."""
    said = [form["description"], *said] if "description" in form else said
    about = {**kept, **({"description": " ".join(said)} if said else {})}
    return {**({"anyOf": [form]} if about and "$ref" in form else form), **about}


def optional(form: dict[str, Any], default: Any, absent: bool) -> dict[str, Any]:
    """Let a form be null if its property may be absent, and say what null means."""
    if not absent:
        return form if default is None else beside(form, {}, ["Null is a value of its own here."])
    if "anyOf" in form:
        form = {**form, "anyOf": [*form["anyOf"], {"type": "null"}]}
    elif form.get("type", "object") in ("object", "array"):
        about = without(form, STRUCTURE)
        form = {**about, "anyOf": [without(form, about), {"type": "null"}]}
    else:
        values = values_of(form)
        choice = {} if values is None else {"enum": [*values, None]}
        form = {
            **without(form, ["const"]),
            **typed([*dict.fromkeys([*types_of(form), "null"])]),
            **choice,
        }
    return beside(
        form,
        {},
        ["Null means that it is left out." if default is UNSET else "Null means the default."],
    )


def confused(forms: Sequence[Form], decode: Step, defs: Mapping[str, Any]) -> bool:
    """Say whether decoding a union reads the strict values of a member in another way than that member does."""
    bare = [_bare(defs.get(form.strict.get("$ref", ""), form.strict)) for form in forms]
    for form, own in zip(forms, bare, strict=True):
        if (step := form.decode) and bare.count(own) > 1:
            return True
        if step and any(
            decode(value, {}) != step(value, {}) for value in samples(form.strict, defs)
        ):
            return True
    return False


def _bare(form: dict[str, Any]) -> Any:
    """Take away what only describes; a property of such a name has a schema, not a text."""
    return json.loads(
        text(form),
        object_hook=lambda part: {
            k: v
            for k, v in part.items()
            if k not in ("title", "description") or isinstance(v, dict)
        },
    )


def text(value: Any) -> str:
    """Write a value as JSON."""
    return json.dumps(value, ensure_ascii=False, default=str)


def fits(schema: Any, value: Any, root: Any, memo: Memo) -> bool:
    """Say whether a value has the plain shape of a schema: its types, names and constants."""
    # With a stack of its own, since a hundred levels of unions ask for more frames than Python has.
    stack: list[tuple[tuple[int, int], Any, _Judge]] = []
    while True:
        key = (id(schema), id(value))
        answer: Any = schema is True
        if isinstance(schema, dict) and key in memo:
            answer = memo[key][0]
        elif isinstance(schema, dict):
            memo[key] = (False, value)  # where a reference leads back to itself
            stack.append((key, value, _judge(schema, value, root)))
            answer = None
        while stack:
            try:
                schema, value = stack[-1][2].send(answer)
                break
            except StopIteration as end:
                key, value, _ = stack.pop()
                answer = end.value
                memo[key] = (answer, value)
        else:
            return bool(answer)


def _judge(schema: dict[str, Any], value: Any, root: Any) -> _Judge:
    """Ask for the (schema, value) on which the answer depends, one by one, and return it."""
    types, values = types_of(schema), values_of(schema)
    if types and not is_type(value, types):
        return False
    if values is not None and not any(
        value == known and isinstance(value, bool) == isinstance(known, bool) for known in values
    ):
        return False
    for word in ("anyOf", "oneOf"):
        fitting = word not in schema
        for member in schema.get(word, ()):
            fitting = fitting or (yield member, value)
        if not fitting:
            return False
    parts = [(member, value) for member in schema.get("allOf", ())]
    parts += [(lookup(root, schema["$ref"]), value)] if "$ref" in schema else []
    if isinstance(value, dict) and types:
        if not value.keys() >= {*schema.get("required", ())}:
            return False
        fields, others = schema.get("properties", {}), others_of(schema, root)
        parts += [(fields.get(name, others), item) for name, item in value.items()]
    elif isinstance(value, list) and (prefix := schema.get("prefixItems")):
        if not min(schema.get("minItems", 0), len(prefix)) <= len(value) <= len(prefix):
            return False
        parts += zip(prefix, value, strict=False)
    elif isinstance(value, list):
        parts += [(schema.get("items", True), item) for item in value]
    for part, item in parts:
        if not (yield part, item):
            return False
    return True


def _has_tags(schema: Any, value: Any, root: Any) -> bool:
    """Say whether a value names an object by the constants that it has."""
    while isinstance(schema, dict) and "$ref" in schema:
        schema = lookup(root, schema["$ref"])
    if not isinstance(schema, dict) or not isinstance(value, dict):
        return False
    fields = {
        name: field
        for name, field in schema.get("properties", {}).items()
        if isinstance(field, dict) and "const" in field
    }
    return bool(fields) and all(
        value.get(name, UNSET) == field["const"] for name, field in fields.items()
    )


def samples(form: dict[str, Any], defs: Mapping[str, Any], depth: int = 0) -> list[Any]:
    """Make values of a strict schema: each type and constant in its place, the rest being the first."""
    if "$ref" in form:
        return samples(defs[form["$ref"]], defs, depth + 1) if depth < 3 else []
    if "anyOf" in form:
        return [value for member in form["anyOf"] for value in samples(member, defs, depth)][:_MOST]
    if form["type"] == "array":
        count = min(max(form.get("minItems", 1), 1), _MOST)
        return [[item] * count for item in samples(form["items"], defs, depth)] or [[]]
    if form["type"] != "object":
        return (values_of(form) or [SAMPLES[name] for name in types_of(form)])[:_MOST]
    fields = {name: samples(field, defs, depth) for name, field in form["properties"].items()}
    if not all(fields.values()):
        return []
    first, last = ({name: values[end] for name, values in fields.items()} for end in (0, -1))
    return [
        last,
        first,
        *({**first, name: value} for name, values in fields.items() for value in values[1:]),
    ][:_MOST]


def items_step(step: Step | None) -> Step | None:
    """Make the step of an array from that of its items."""
    return step and (
        lambda value, memo: (
            [step(item, memo) for item in value] if isinstance(value, list) else value
        )
    )


def pairs_steps(step: Step | None, back: Step | None) -> tuple[Step, Step]:
    """Make the steps of an object with any names, in strict form an array of pairs, from those of its values."""

    def decode(value: Any, memo: Memo) -> Any:
        value = _unpair(value)
        return (
            {name: step(item, memo) for name, item in value.items()}
            if step and isinstance(value, dict)
            else value
        )

    def encode(value: Any, memo: Memo) -> Any:
        if not isinstance(value, dict):
            return value
        return [
            {"key": name, "value": back(item, memo) if back else item}
            for name, item in value.items()
        ]

    return decode, encode


def _unpair(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    plain = {}
    for pair in value:
        if (
            type(pair) is not dict
            or len(pair) != 2
            or "value" not in pair
            or type(key := pair.get("key")) is not str
        ):
            return value
        plain[key] = pair["value"]
    return plain if len(plain) == len(value) else value


def object_steps(forms: Mapping[str, Form], absent: Collection[str]) -> tuple[Step, Step]:
    """Make the steps of an object: null stands for the absence of the names in `absent`."""
    steps = [(name, form.decode) for name, form in forms.items() if form.decode]

    def decode(value: Any, memo: Memo) -> Any:
        if not isinstance(value, dict):
            return value
        plain = dict(value)
        for name in absent:
            if plain.get(name, 0) is None:
                del plain[name]
        for name, step in steps:
            if name in plain:
                plain[name] = step(plain[name], memo)
        return plain

    def encode(value: Any, memo: Memo) -> Any:
        if not isinstance(value, dict):
            return value
        done = {
            name: form.encode(value[name], memo)
            for name, form in forms.items()
            if form.encode and name in value
        }
        return {
            **{name: None for name in forms if name in absent or name in value},
            **value,
            **done,
        }

    return decode, encode


def rest_steps(
    inner: Steps, pairs: tuple[Step, Step], names: Collection[str], rest: str
) -> tuple[Step, Step]:
    """Make the steps of an object with further names, which the property `rest` publishes as pairs."""
    (step, back), (unpack, pack) = inner, pairs

    def split(value: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        known = {name: item for name, item in value.items() if name in names}
        return known, {name: item for name, item in value.items() if name not in names}

    def decode(value: Any, memo: Memo) -> Any:
        if not isinstance(value, dict):
            return value
        known, others = split(value)
        listed = _unpair(others[rest]) if isinstance(others.get(rest), list) else None
        if isinstance(listed, dict) and not listed.keys() & {*value, *names} - {rest}:
            del others[rest]
            others |= listed
        return {**(step(known, memo) if step else known), **unpack(others, memo)}

    def encode(value: Any, memo: Memo) -> Any:
        if not isinstance(value, dict):
            return value
        known, others = split(value)
        return {**(back(known, memo) if back else known), rest: pack(others, memo)}

    return decode, encode


def tuple_steps(form: Form, items: Mapping[str, Any], least: int) -> tuple[Step, Step]:
    """Make the steps of a tuple from the form of the object that names its items."""
    names = [*items]

    def decode(value: Any, memo: Memo) -> Any:
        if isinstance(value, dict) and not form.decode and value.keys() == items.keys():
            return [value[name] for name in names]
        found = dict(zip(names, value, strict=False)) if isinstance(value, list) else value
        if (
            not isinstance(found, dict)
            or not found.keys() <= items.keys()
            or len(found) != len(value)
        ):
            return value
        found = form.decode(found, memo) if form.decode else found
        given = names[: max((names.index(name) + 1 for name in found), default=0)]
        plain = [
            found[name] if name in found else deepcopy(default_of(items[name])) for name in given
        ]
        return value if UNSET in plain or len(plain) < least else plain

    def encode(value: Any, memo: Memo) -> Any:
        if not isinstance(value, list) or len(value) > len(names):
            return value
        found = dict(zip(names, value, strict=False))
        return form.encode(found, memo) if form.encode else found

    return decode, encode


def reference_steps(forms: Mapping[str, Form], ref: str) -> tuple[Step, Step]:
    """Make the steps of a reference; a recursive type has none of its own yet, so they are found when they run."""

    def decode(value: Any, memo: Memo) -> Any:
        step = forms[ref].decode
        return step(value, memo) if step else value

    def encode(value: Any, memo: Memo) -> Any:
        step = forms[ref].encode
        return step(value, memo) if step else value

    return decode, encode


def union_steps(members: Sequence[Any], forms: Sequence[Form], root: Any) -> tuple[Step, Step]:
    """Make the steps of a union: what a member takes as plain stays, else the first that takes its decoding wins."""
    pairs = [*zip(members, forms, strict=True)]

    def read_as(value: Any, memo: Memo) -> Any:
        for member, form in pairs:
            plain = form.decode(value, memo) if form.decode else value
            if fits(member, plain, root, memo):
                return plain
        # A mistake inside of a member should be the only one that validation finds.
        named = next(
            (form for member, form in pairs if form.decode and _has_tags(member, value, root)), None
        )
        return named.decode(value, memo) if named and named.decode else value

    def decode(value: Any, memo: Memo) -> Any:
        key = (id(pairs), id(value))
        if key not in memo:
            memo[key] = (value, value)
            if isinstance(value, (dict, list)) and not any(
                fits(member, value, root, memo) for member in members
            ):
                memo[key] = (read_as(value, memo), value)
        return memo[key][0]

    def encode(value: Any, memo: Memo) -> Any:
        for member, form in pairs:
            if fits(member, value, root, memo):
                strict = form.encode(value, memo) if form.encode else value
                return strict if decode(strict, {}) == value else value
        return value

    return decode, encode
