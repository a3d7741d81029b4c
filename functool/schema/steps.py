"""The steps of a codec: functions that convert a value from strict form to plain form.

`functool.schema.strict` writes the strict schemas that belong to these steps. A step is one of the
functions `decode_...` with all arguments but the last two. It accepts any value and never raises.
It returns a value that has neither form unchanged. It never modifies the value that it gets.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

from functool.schema.json_schema import UNSET
from functool.schema.shapes import CountingMemo, default_of, fits, samples
from functool.schema.subset import text, without

Step = Callable[[Any, CountingMemo], Any]
Member = tuple[Any, Step | None, Mapping[str, Any]]
"""A member of a union: its plain schema, the step of its values, and its constants."""


class Form(NamedTuple):
    """A strict schema, and the step that converts its values to plain form.

    If the step is None, values are the same in both forms.
    """

    strict: dict[str, Any]
    decode: Step | None = None


def decode_items(step: Step, value: Any, memo: CountingMemo) -> Any:
    """Decode an array, whose items `step` decodes."""
    return [step(item, memo) for item in value] if isinstance(value, list) else value


def decode_object(
    steps: Mapping[str, Step | None],
    absent: Collection[str],
    others: Step | None,
    rest: str | None,
    value: Any,
    memo: CountingMemo,
) -> Any:
    """Decode an object.

    Args:
        steps: The steps of the declared names.
        absent: The names for which null means that they are absent.
        others: The step of the values of further names.
        rest: The property that holds further names as pairs, if there is one.
        value: The object.
        memo: The results of this run.
    """
    if not isinstance(value, dict):
        return value
    plain = {}
    for name, item in (value if rest is None else _spread(value, rest, steps)).items():
        if item is not None or name not in absent:
            step = steps.get(name, others)
            plain[name] = step(item, memo) if step else item
    return plain


def decode_pairs(step: Step | None, value: Any, memo: CountingMemo) -> Any:
    """Decode an object with any names, whose values `step` decodes, from an array of pairs."""
    found = _dict_of(value)
    plain = value if found is None else found
    return decode_object({}, (), step, None, plain, memo) if step else plain


def _spread(value: dict[str, Any], rest: str, names: Collection[str]) -> dict[str, Any]:
    """Replace the property `rest` by its pairs, unless one of them has a name that is taken."""
    others = {name: item for name, item in value.items() if name != rest}
    found = _dict_of(value.get(rest))
    return value if found is None or found.keys() & {*others, *names} else {**others, **found}


def _dict_of(value: Any) -> dict[str, Any] | None:
    """Return the dict that an array of pairs stands for, or None for any other value."""
    if not _are_pairs(value):
        return None
    made = {pair["key"]: pair["value"] for pair in value}
    return made if len(made) == len(value) else None


def repeats_key(value: Any) -> bool:
    """Whether a value is an array of `{key, value}` with a repeated key, so that it is no dict."""
    return _are_pairs(value) and _dict_of(value) is None


def _are_pairs(value: Any) -> bool:
    if not isinstance(value, list):
        return False
    for pair in value:  # For a few pairs, `all` would take longer.
        if type(pair) is not dict or len(pair) != 2 or "value" not in pair:
            return False
        if type(pair.get("key")) is not str:
            return False
    return True


def decode_tuple(
    step: Step | None, items: Mapping[str, Any], least: int, value: Any, memo: CountingMemo
) -> Any:
    """Decode a tuple of at least `least` items from an object, which `step` decodes."""
    names = [*items]
    found = dict(zip(names, value, strict=False)) if isinstance(value, list) else value
    known = isinstance(found, dict) and found.keys() <= items.keys()
    if not known or len(found) != len(value):
        return value
    found = step(found, memo) if step else found
    given = names[: max((i + 1 for i, name in enumerate(names) if name in found), default=0)]
    plain = [found[name] if name in found else deepcopy(default_of(items[name])) for name in given]
    return value if UNSET in plain or len(plain) < least else plain


def decode_reference(forms: Mapping[str, Form], ref: str, value: Any, memo: CountingMemo) -> Any:
    """Decode a reference. Look up its step only now: a recursive target is complete by then."""
    step = forms[ref].decode
    return step(value, memo) if step else value


def decode_union(members: Sequence[Member], root: Any, value: Any, memo: CountingMemo) -> Any:
    """Decode a union.

    If a value fits a member in plain form, it is not changed. Otherwise the first member decodes it
    whose schema fits the decoded value.
    """
    key = (id(members), id(value))
    if key in memo:
        return memo[key][0]
    memo[key] = (value, value)
    memo.spend(len(members) // 4)
    if not isinstance(value, (dict, list)):
        return value
    likely = [member for member in members if not _contradicts(member[2], value)]
    if any(fits(schema, value, root, memo) for schema, _, _ in likely):
        return value
    for schema, step, _ in likely:
        plain = step(value, memo) if step else value
        if fits(schema, plain, root, memo):
            memo[key] = (plain, value)
            return plain
    # No member fits. Decode by the tag, so that validation finds only the actual mistake.
    for _, step, tags in likely:
        if step and tags and isinstance(value, dict) and tags.items() <= value.items():
            memo[key] = (step(value, memo), value)
            break
    return memo[key][0]


def _contradicts(tags: Mapping[str, Any], value: Any) -> bool:
    """Whether a value has another tag than a member. Null may stand for a tag that is left out."""
    given = value if isinstance(value, dict) else {}
    return any(given.get(name) not in (None, tag) for name, tag in tags.items())


def is_ambiguous(forms: Sequence[Form], decode: Step, defs: Any, memo: CountingMemo) -> bool:
    """Whether a union may decode a strict value of a member in another way than that member.

    Raises:
        TooMuchWork: The union takes more work than `memo` has left.
    """
    memo.spend(len(forms) ** 2 // 10)
    bare = [_without_texts(defs.get(form.strict.get("$ref", ""), form.strict)) for form in forms]
    for form, own in zip(forms, bare, strict=True):
        if (step := form.decode) is None:
            continue
        if bare.count(own) > 1:
            return True
        for value in samples(form.strict, defs, memo):
            memo.clear()
            if decode(value, memo) != step(value, memo):
                return True
    return False


def _without_texts(form: dict[str, Any]) -> Any:
    """Remove titles and descriptions. A property of such a name is a schema, and is kept."""

    def hook(part: dict[str, Any]) -> dict[str, Any]:
        texts = [word for word in ("title", "description") if not isinstance(part.get(word), dict)]
        return without(part, texts)

    return json.loads(text(form), object_hook=hook)
