"""Find the classes of a union by their constants, so that pydantic tries only the right one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from pydantic_core import core_schema

from functool.schema.parts import choices_of, fields_of, followed

_FIELDS = ("model-fields", "dataclass-args", "typed-dict")


def with_tags(union: Any, made: Any, definitions: Mapping[str, Any]) -> Any:
    """Replace the choices of a smart union that have a constant of their own by tagged unions.

    pydantic tries all choices, so a recursive union would double the work at each level. The order
    stays, because the first of several choices that fit equally well wins.

    Args:
        union: The core schema as it was. Its classes tell their constants.
        made: The same schema, with other schemas inside.
        definitions: The definitions of the references in `union`.
    """
    if union.get("mode", "smart") != "smart":
        return made
    choices = choices_of(made)
    found = [dict(_tags_of(followed(choice, definitions))) for choice in choices_of(union)]
    for name in dict.fromkeys(name for tags in found for name in tags):
        texts = [tag for tags in found for tag in tags.get(name, ())]
        has_tag = [name in tags for tags in found]
        if sum(has_tag) > 1 and len({*texts}) == len(texts):
            mixed: list[Any] = []
            for are_tagged, places in groupby(range(len(found)), has_tag.__getitem__):
                if are_tagged:
                    tagged = {tag: choices[i] for i in places for tag in found[i][name]}
                    mixed.append(core_schema.tagged_union_schema(tagged, name))
                else:
                    mixed += [made["choices"][i] for i in places]
            return {**made, "choices": mixed}
    return made


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
