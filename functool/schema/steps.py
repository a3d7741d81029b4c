"""The steps of a codec: functions that convert a value between plain form and strict form.

`functool.schema.strict` writes the strict schemas that belong to these steps. A step accepts any
value and never raises. It returns a value that has neither form unchanged. It never modifies the
value that it gets.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

from functool.schema.json_schema import UNSET
from functool.schema.shapes import Memo, default_of, fits, has_tags, samples
from functool.schema.subset import text, without

_PAIR = {"key", "value"}
Step = Callable[[Any, Memo], Any]
Steps = tuple[Step | None, Step | None]


class Form(NamedTuple):
    """A strict schema, and the steps that convert its values to plain form and back.

    If a step is None, values are the same in both forms.
    """

    strict: dict[str, Any]
    decode: Step | None = None
    encode: Step | None = None


def items_step(step: Step | None) -> Step | None:
    """Make the step of an array from the step of its items."""
    if step is None:
        return None

    def each(value: Any, memo: Memo) -> Any:
        return [step(item, memo) for item in value] if isinstance(value, list) else value

    return each


def pairs_steps(step: Step | None, back: Step | None) -> tuple[Step, Step]:
    """Make the steps of an object with arbitrary names from the steps of its values.

    In strict form such an object is an array of `{key, value}`.
    """

    def decode(value: Any, memo: Memo) -> Any:
        value = _unpaired(value)
        if step is None or not isinstance(value, dict):
            return value
        return {name: step(item, memo) for name, item in value.items()}

    def encode(value: Any, memo: Memo) -> Any:
        if not isinstance(value, dict):
            return value
        items = value if back is None else {name: back(v, memo) for name, v in value.items()}
        return [{"key": name, "value": item} for name, item in items.items()]

    return decode, encode


def repeats_key(value: Any) -> bool:
    """Whether a value is an array of `{key, value}` with a repeated key, so that it is no dict."""
    pairs = _pairs(value) or []
    return len(dict(pairs)) < len(pairs)


def _unpaired(value: Any) -> Any:
    pairs = _pairs(value)
    return value if pairs is None or repeats_key(value) else dict(pairs)


def _pairs(value: Any) -> list[tuple[str, Any]] | None:
    """Return an array of `{key, value}` as pairs, or None for any other value."""
    is_pairs = isinstance(value, list) and all(
        type(pair) is dict and pair.keys() == _PAIR and type(pair["key"]) is str for pair in value
    )
    return [(pair["key"], pair["value"]) for pair in value] if is_pairs else None


def object_steps(forms: Mapping[str, Form], absent: Collection[str]) -> tuple[Step, Step]:
    """Make the steps of an object. For the names in `absent`, null means that they are absent."""
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
        # The order is that of the schema. Absent properties are null.
        strict = {**{name: None for name in forms if name in absent or name in value}, **value}
        for name, form in forms.items():
            if form.encode and name in value:
                strict[name] = form.encode(value[name], memo)
        return strict

    return decode, encode


def rest_steps(
    inner: Steps, pairs: tuple[Step, Step], names: Collection[str], rest: str
) -> tuple[Step, Step]:
    """Make the steps of an object with further names, which are pairs in the property `rest`."""
    (step, back), (unpack, pack) = inner, pairs

    def split(value: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        known = {name: item for name, item in value.items() if name in names}
        return known, {name: item for name, item in value.items() if name not in names}

    def decode(value: Any, memo: Memo) -> Any:
        if not isinstance(value, dict):
            return value
        known, others = split(value)
        listed = _unpaired(others[rest]) if isinstance(others.get(rest), list) else None
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
    """Make the steps of a tuple, which is an object with named items in strict form."""
    names = [*items]

    def decode(value: Any, memo: Memo) -> Any:
        if isinstance(value, dict) and not form.decode and value.keys() == items.keys():
            return [value[name] for name in names]
        found = dict(zip(names, value, strict=False)) if isinstance(value, list) else value
        known = isinstance(found, dict) and found.keys() <= items.keys()
        if not known or len(found) != len(value):
            return value
        found = form.decode(found, memo) if form.decode else found
        given = names[: max((names.index(name) + 1 for name in found), default=0)]
        defaults = {name: default_of(items[name]) for name in given if name not in found}
        plain = [found[name] if name in found else deepcopy(defaults[name]) for name in given]
        return value if UNSET in plain or len(plain) < least else plain

    def encode(value: Any, memo: Memo) -> Any:
        if not isinstance(value, list) or len(value) > len(names):
            return value
        found = dict(zip(names, value, strict=False))
        return form.encode(found, memo) if form.encode else found

    return decode, encode


def reference_steps(forms: Mapping[str, Form], ref: str) -> tuple[Step, Step]:
    """Make the steps of a reference.

    They look up the steps of the target when they run, because a recursive target is not complete
    yet.
    """

    def decode(value: Any, memo: Memo) -> Any:
        step = forms[ref].decode
        return step(value, memo) if step else value

    def encode(value: Any, memo: Memo) -> Any:
        step = forms[ref].encode
        return step(value, memo) if step else value

    return decode, encode


def union_steps(members: Sequence[Any], forms: Sequence[Form], root: Any) -> tuple[Step, Step]:
    """Make the steps of a union.

    If a value fits a member in plain form, it is not changed. Otherwise the first member decodes it
    whose schema fits the decoded value.
    """
    pairs = [*zip(members, forms, strict=True)]

    def read_as(value: Any, memo: Memo) -> Any:
        for member, form in pairs:
            plain = form.decode(value, memo) if form.decode else value
            if fits(member, plain, root, memo):
                return plain
        # No member fits. Decode by the tag, so that validation finds only the actual mistake.
        for member, form in pairs:
            if form.decode and has_tags(member, value, root):
                return form.decode(value, memo)
        return value

    def decode(value: Any, memo: Memo) -> Any:
        key = (id(pairs), id(value))
        if key not in memo:
            memo[key] = (value, value)
            is_scalar = not isinstance(value, (dict, list))
            if not (is_scalar or any(fits(member, value, root, memo) for member in members)):
                memo[key] = (read_as(value, memo), value)
        return memo[key][0]

    def encode(value: Any, memo: Memo) -> Any:
        for member, form in pairs:
            if fits(member, value, root, memo):
                strict = form.encode(value, memo) if form.encode else value
                return strict if decode(strict, {}) == value else value
        return value

    return decode, encode


def is_ambiguous(forms: Sequence[Form], decode: Step, defs: Mapping[str, Any]) -> bool:
    """Whether a union may decode a strict value of a member in another way than that member."""
    bare = [_without_texts(defs.get(form.strict.get("$ref", ""), form.strict)) for form in forms]
    for form, own in zip(forms, bare, strict=True):
        if (step := form.decode) is None:
            continue
        values = samples(form.strict, defs)
        if bare.count(own) > 1 or any(decode(value, {}) != step(value, {}) for value in values):
            return True
    return False


def _without_texts(form: dict[str, Any]) -> Any:
    """Remove titles and descriptions. A property of such a name is a schema, and is kept."""

    def hook(part: dict[str, Any]) -> dict[str, Any]:
        texts = [word for word in ("title", "description") if not isinstance(part.get(word), dict)]
        return without(part, texts)

    return json.loads(text(form), object_hook=hook)
