"""Rewrite a core schema so that pydantic validates hostile JSON in linear time.

The new schema accepts the same values, except for thousands of different numbers with one hash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from itertools import groupby
from re import Pattern
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import SchemaValidator, core_schema, to_json

from functool.schema.readings import count_pattern, counted
from functool.schema.rewrite import MAPPINGS, choices_of, fields_of, inside

_FEW = 1_000
"""A set of so many items is quick, whatever their hashes are."""

_SAME = 100
"""How many different items of a larger set may have the same hash."""

_UNLIKE = "functool.hashed"
"""The tag of what may be hashed. `problems_of` leaves it out, as it is no name of an argument."""

_PATTERNS: Any = (Pattern, Pattern[str])
_COMPILING = [dict(TypeAdapter(kind).core_schema).get("function") for kind in _PATTERNS]
"""The functions with which pydantic compiles a text for `re`."""

_HASHED = ("set", "frozenset", *MAPPINGS)
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
    hashed = hashed or core_schema.any_schema()
    texts = ("str", "any") if kind in MAPPINGS else ("str",)  # JSON's keys are texts.
    if hashed["type"] in texts:
        return made
    named = {key: made.pop(key) for key in ("ref",) if key in made}
    # A validator before this one would turn JSON into Python values, and then strict members and
    # unions accept others. Choosing a tag leaves the JSON alone.
    guarded = core_schema.tagged_union_schema(
        {_UNLIKE: made},
        _hash_guard(hashed, definitions),
        custom_error_type="same_hashes",
        custom_error_message="a list in which few items are hashed alike",
    )
    return {**guarded, **named}


def _with_tags(union: Any, definitions: Mapping[str, Any]) -> Any:
    """Replace the choices of a union that have a constant of their own by tagged unions.

    The order stays, because the first of several choices that fit equally well wins.
    """
    choices = choices_of(union)
    found = [dict(_tags_of(definitions.get(c.get("schema_ref"), c))) for c in choices]
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


def _hash_guard(hashed: Any, definitions: Mapping[str, Any]) -> Callable[[Any], str | None]:
    """Return a function that gives a tag, but not to many items or keys that are hashed alike."""

    @cache
    def validator() -> SchemaValidator:
        items = core_schema.list_schema(hashed)
        return SchemaValidator(core_schema.definitions_schema(items, [*definitions.values()]))

    def guard(sent: Any) -> str | None:
        equal = False
        if isinstance(sent, (list, dict)) and len(sent) > _FEW:
            with suppress(ValueError, TypeError):  # The validation itself refuses such items.
                equal = _has_equal_hashes(validator().validate_json(to_json([*sent])))
        return None if equal else _UNLIKE

    return guard


def _has_equal_hashes(items: Iterable[Any]) -> bool:
    groups: dict[int, list[Any]] = {}
    for item in items:
        group = groups.setdefault(hash(item), [])
        if item not in group:
            group.append(item)
        if len(group) > _SAME:
            return True
    return False
