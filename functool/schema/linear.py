"""Rewrite a core schema so that pydantic validates hostile JSON in linear time.

The new schema accepts the same values, except for thousands of different numbers with one hash.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import partial
from itertools import count, groupby, islice, repeat
from operator import attrgetter
from re import Pattern
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import PydanticCustomError, SchemaValidator, ValidationError, core_schema

from functool.schema.readings import count_pattern, counted
from functool.schema.rewrite import MAPPINGS, choices_of, fields_of, followed, inside

_FEW = 1_000
"""A set of so many items is quick, whatever their hashes are."""

_SAME = 100
"""How many different items of a larger set may have the same hash."""

_FEW_TAG, _MANY_TAG = "functool.few", "functool.many"
"""The tags of sets by size. `problems_of` leaves them out, as they are no names of arguments."""

_PATTERNS: Any = (Pattern, Pattern[str])
_COMPILING = [dict(TypeAdapter(kind).core_schema).get("function") for kind in _PATTERNS]
"""The functions with which pydantic compiles a text for `re`."""

_SETS = {"set": set, "frozenset": frozenset}
_HASHED = (*_SETS, *MAPPINGS)
_LENGTHS = ("min_length", "max_length")
_FIELDS = ("model-fields", "dataclass-args", "typed-dict")


def linear(core: Any, brief: bool, definitions: Mapping[str, Any] | None = None) -> Any:
    """Return a copy of a core schema that differs from pydantic's in four ways, at every depth.

    - Of a union's classes that are told apart by a constant of their own, only the right one is
      tried. pydantic tries all, so a recursive union would double the work at each level.
    - A large set, or a dict whose keys are not texts, is refused if many items have the same hash.
      A model can write such numbers, and Python would take the square of their number.
    - What stays a recursive union without tags counts how often it is read; `brief` is for
      `counted`.
    - What becomes an `re.Pattern` is counted, because some patterns take long to compile.
    """
    kind = core.get("type")
    if len(core) == 1 and kind not in _HASHED:
        return core
    if definitions is None:
        definitions = {part["ref"]: part for part in core.get("definitions", ())}
    known = definitions
    made = inside(core, lambda part: linear(part, brief, known))
    if kind == "function-plain" and core["function"] in _COMPILING:
        return core_schema.no_info_before_validator_function(count_pattern, made)
    if kind == "union":
        is_smart = core.get("mode", "smart") == "smart"
        return counted(_with_tags(made, known) if is_smart else made, known, brief)
    if kind not in _HASHED:
        return made
    hashed = core.get("keys_schema" if kind in MAPPINGS else "items_schema")
    texts = ("str", "any") if kind in MAPPINGS else ("str",)  # JSON's keys are texts.
    if (hashed or core_schema.any_schema())["type"] in texts:
        return made
    named = {key: made.pop(key) for key in ("ref",) if key in made}
    return {**_compared(made), **named}


def _with_tags(union: Any, definitions: Mapping[str, Any]) -> Any:
    """Replace the choices of a union that have a constant of their own by tagged unions.

    The order stays, because the first of several choices that fit equally well wins.
    """
    choices = choices_of(union)
    found = [dict(_tags_of(followed(choice, definitions))) for choice in choices]
    for name in dict.fromkeys(name for tags in found for name in tags):
        pairs = [(tag, choices[i]) for i, tags in enumerate(found) for tag in tags.get(name, ())]
        has_tag = [name in tags for tags in found]
        if sum(has_tag) > 1 and len(dict(pairs)) == len(pairs):
            made: list[Any] = []
            for are_tagged, places in groupby(range(len(found)), has_tag.__getitem__):
                members = {i: choices[i] for i in places}
                if are_tagged:
                    tagged = {tag: part for i, part in members.items() for tag in found[i][name]}
                    made.append(core_schema.tagged_union_schema(tagged, name))
                else:
                    made += [union["choices"][i] for i in members]
            return {**union, "choices": made}
    return union


def _tags_of(core: Any) -> Iterator[tuple[str, list[str]]]:
    """Yield the required fields of a class that allow constant texts only, with these texts."""
    inner = core["schema"] if core["type"] in ("model", "dataclass") else core
    if core.get("custom_init") or inner["type"] not in _FIELDS:
        return
    for name, field in fields_of(inner):
        part, is_fixed = field["schema"], "validation_alias" not in field
        if part["type"] == "literal" and is_fixed and field.get("required", True):
            texts = part["expected"]
            if all(type(text) is str for text in texts):
                yield name, texts


def _compared(made: Any) -> Any:
    """Let the items of a set or the keys of a dict be compared by hash, before it is made of them.

    The schema inside reads JSON as pydantic does for the set or dict. A validator before it would
    turn JSON into Python values, and then strict members and unions accept others. Choosing a tag
    leaves the JSON alone.
    """
    kind, parts = made["type"], _parts(made)
    is_flat = all(map(_is_flat, parts))
    read: Any = {key: part for key, part in made.items() if key not in _LENGTHS}
    to_whole: Any = _dict_of
    if kind in MAPPINGS:  # `repeat(key)` holds a key, and nobody can choose its hash.
        read["keys_schema"] = _after(repeat, made["keys_schema"])
    elif is_flat:
        read.pop("items_schema", None)
        items = parts or [core_schema.any_schema()]
        read = {**read, "type": "tuple", "items_schema": items, "variadic_item_index": 0}
        to_whole = partial(_set_of, _SETS[kind])
    else:
        read["items_schema"], to_whole = _after(_Item, made["items_schema"]), _in_order
    whole = _after(to_whole, read)
    # Only now equal items are one. A schema for the length in a chain would make the whole less
    # exact for a union around it, since it accepts any items.
    if lengths := {key: made[key] for key in _LENGTHS if key in made}:
        measured: Any = {"type": kind, **lengths}
        whole = _after(SchemaValidator(measured).validate_python, whole)
    # The tag is chosen by a copy of the JSON, which would be copied again at each level inside.
    tagged = {_FEW_TAG: made, _MANY_TAG: whole}
    return core_schema.tagged_union_schema(tagged, _tag_of) if is_flat else whole


def _after(function: Any, core: Any) -> Any:
    return core_schema.no_info_after_validator_function(function, core)


def _parts(core: Any) -> list[Any]:
    """Return the core schemas inside another one."""
    found: list[Any] = []
    inside(core, found.append)
    return found


def _is_flat(core: Any) -> bool:
    """Whether there is no set or dict in a core schema, and nothing recursive."""
    is_other = core["type"] in (*_HASHED, "definition-ref")
    return not is_other and all(map(_is_flat, _parts(core)))


def _tag_of(sent: Any) -> str:
    return _MANY_TAG if isinstance(sent, (list, dict)) and len(sent) > _FEW else _FEW_TAG


class _Item:
    """An item of a set that keeps its place, with a hash that nobody can choose."""

    __slots__ = ("place", "value")

    def __init__(self, value: Any) -> None:
        self.value, self.place = value, next(_places)


_places = count()
_place_of = attrgetter("place")


def _in_order(items: Any) -> Any:
    return _set_of(type(items), [item.value for item in sorted(items, key=_place_of)])


def _set_of(kind: Any, items: Collection[Any]) -> Any:
    """Return a set of the items, or raise pydantic's errors of those that have no hash."""
    try:
        _refuse_alike(items)
        return kind(items)
    except TypeError:
        if wrong := [*islice(_without_hash(items), _FEW)]:
            raise ValidationError.from_exception_data("", wrong) from None
        raise


def _without_hash(items: Collection[Any]) -> Iterator[Any]:
    for place, item in enumerate(items):
        try:
            hash(item)
        except TypeError:
            yield {"type": "set_item_not_hashable", "loc": (place,), "input": item}


def _dict_of(read: Any) -> Any:
    keys = [*map(next, read)]
    _refuse_alike(keys)
    made = dict(zip(keys, read.values(), strict=True))
    return made if type(read) is dict else type(read)(made)


def _refuse_alike(items: Collection[Any]) -> None:
    """Raise an error if many items are different, but have the same hash."""
    if len(items) <= _FEW or len(items) - len({*map(hash, items)}) < _SAME:
        return
    groups: dict[int, list[Any]] = {}
    for item in items:
        group = groups.setdefault(hash(item), [])
        if item not in group:
            group.append(item)
        if len(group) > _SAME:
            text = "a list in which few items are hashed alike"
            raise PydanticCustomError("same_hashes", text)
