"""Rewrite pydantic's core schema, so that a call is checked as the published schema says."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, get_origin

from pydantic_core import core_schema

# The keys of a core schema that hold other ones. A field holds its own under "schema".
_INNER = frozenset(
    (
        *("schema", "fields", "choices", "definitions", "steps", "arguments_schema"),
        *("items_schema", "keys_schema", "values_schema", "extras_schema", "extras_keys_schema"),
        *("lax_schema", "strict_schema", "json_schema", "python_schema"),
        *("var_args_schema", "var_kwargs_schema"),
    )
)
_CLASSES = ("model", "dataclass", "typed-dict")
_LISTS = ("list", "tuple", "set", "frozenset")


def rewritten(core: Any) -> Any:
    """Return a core schema that differs from pydantic's in three ways, at every depth.

    - A dataclass, TypedDict or model refuses unknown names, unless it sets its own `extra`.
    - A `Literal` of Enum members takes their values, and not the members themselves only.
    - A number that is a choice of keys takes its text, since the keys of JSON are texts.

    A model with an `__init__` of its own checks its arguments itself: it stays as it is.
    """
    if core.get("custom_init"):
        return core
    made = _inside(core, rewritten)
    if core.get("type") in _CLASSES and not _sets_extra(core.get("cls")):
        made["config"] = {**core.get("config", {}), "extra_fields_behavior": "forbid"}
        # pydantic writes "ignore" for a TypedDict that says nothing.
        if core["type"] == "typed-dict" and "extras_schema" not in core:
            made["extra_behavior"] = "forbid"
    if texts := choices_by_key(core.get("keys_schema", {})):
        made["keys_schema"] = core_schema.no_info_before_validator_function(
            lambda sent: texts.get(sent, sent), made["keys_schema"]
        )
    expected = core.get("expected", ()) if core.get("type") == "literal" else ()
    members = {json.dumps(item.value): item for item in expected if isinstance(item, Enum)}
    if not members:
        return made
    return core_schema.no_info_before_validator_function(
        lambda sent: members.get(json.dumps(sent), sent), made
    )


def failing_fast(core: Any) -> Any:
    """Return a core schema whose lists stop at their first wrong item, at every depth."""
    made = _inside(core, failing_fast)
    return {**made, "fail_fast": True} if core.get("type") in _LISTS else made


def _inside(core: Any, change: Callable[[Any], Any]) -> Any:
    """Return a core schema with every one that it holds directly changed."""
    return {key: _inner(part, change) if key in _INNER else part for key, part in core.items()}


def _inner(part: Any, change: Callable[[Any], Any]) -> Any:
    """Change what stands under a key: a core schema, some in a list, or some by name."""
    if isinstance(part, (list, tuple)):
        return type(part)(_inner(item, change) for item in part)
    if not isinstance(part, dict):
        return part
    if isinstance(part.get("type"), str):
        return change(part)
    return {name: _inner(inner, change) for name, inner in part.items()}


def _sets_extra(cls: Any) -> bool:
    """Whether a class says itself, or a base of it, what happens to unknown names."""
    return any(config.get("extra") is not None for config in _configs(cls))


def _configs(cls: Any) -> Iterator[Any]:
    yield getattr(cls, "model_config", None) or getattr(cls, "__pydantic_config__", None) or {}
    # A TypedDict inherits from `dict` only; what it was written with stands here.
    for base in getattr(cls, "__orig_bases__", ()):
        yield from _configs(get_origin(base) or base)


def choices_by_key(core: Any) -> dict[str, Any]:
    """Map the texts that stand for the choices of a core schema to these choices.

    The keys of a dict are always texts in JSON.
    """
    choices = [*core.get("expected", ()), *(member.value for member in core.get("members", ()))]
    return {str(choice): choice for choice in choices if not isinstance(choice, (str, Enum))}
