"""Rewrite a core schema so that pydantic validates unions and patterns in linear time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from re import Pattern
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import core_schema

from functool.schema.readings import count_pattern, counted
from functool.schema.rewrite import choices_of, fields_of, followed, inside

_PATTERNS: Any = (Pattern, Pattern[str])
_COMPILING = [dict(TypeAdapter(kind).core_schema).get("function") for kind in _PATTERNS]
"""The functions with which pydantic compiles a text for `re`."""

_FIELDS = ("model-fields", "dataclass-args", "typed-dict")


def linear(core: Any, brief: bool, definitions: Mapping[str, Any] | None = None) -> Any:
    """Return a copy of a core schema that differs from pydantic's in three ways, at every depth.

    - Of a union's classes that are told apart by a constant of their own, only the right one is
      tried. pydantic tries all, so a recursive union would double the work at each level.
    - What stays a recursive union without tags counts how often it is read; `brief` is for
      `counted`.
    - What becomes an `re.Pattern` is counted, because some patterns take long to compile.
    """
    kind = core.get("type")
    if len(core) == 1:
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
    return made


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
