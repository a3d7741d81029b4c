"""Rewrite pydantic's core schema, so that validation agrees with the published JSON Schema."""

from __future__ import annotations

from cmath import isfinite
from collections.abc import Iterator
from contextlib import suppress
from enum import Enum
from functools import partial
from types import NoneType
from typing import Any, get_origin

from pydantic_core import PydanticKnownError, core_schema, from_json, to_json

from functool.schema.parts import inside, outside
from functool.schema.plain import key_text

_CLASSES = ("model", "dataclass", "typed-dict")
_NUMBERS = {"int": "an integer", "complex": "a complex number", "timedelta": "a valid duration"}
_NUMBERS |= dict.fromkeys(("float", "decimal", "fraction"), "a number")
_SCALARS = (str, int, float, NoneType)  # pydantic itself finds the members with such values.
_before = core_schema.no_info_before_validator_function
_tagged = core_schema.tagged_union_schema
_as_json = partial(to_json, fallback=repr)

BOOL = "functool.bool"
"""The type of the error of a bool in the place of a number."""

_TAG = "functool.number"
"""The tag of every value but a bool. No path names it, because it is not in the arguments."""


def rewritten(core: Any) -> Any:
    """Return a copy of a core schema that differs from pydantic's in some ways, at every depth.

    - No float, no complex number and no number in a `Json` may be NaN or infinite.
    - A dataclass, TypedDict or model refuses unknown names, unless its class sets `extra`.
    - A `Literal` of Enum members also accepts the values of these members, one of bytes accepts
      texts, and an Enum accepts values that JSON writes in another way, such as tuples and dates.
    - A number that is allowed as a dict key is also accepted as a text, since JSON keys are texts.
    - An `Iterable` is a list. pydantic would check its items only when the body asks for them.

    A model with its own `__init__` checks its arguments itself, so it is not changed.
    """
    if core.get("custom_init"):
        return core
    made: Any = {**inside(core, rewritten)}
    kind = core.get("type")
    if kind == "generator":
        made["type"] = "list"
    if kind == "float":
        made["allow_inf_nan"] = False
    if kind == "complex":
        return core_schema.no_info_after_validator_function(_finite, made)
    if kind == "json":
        return _before(_finite, made)
    if kind in _CLASSES and all(c.get("extra") is None for c in _configs(core.get("cls"))):
        made["config"] = {**core.get("config", {}), "extra_fields_behavior": "forbid"}
        # For a TypedDict that does not set `extra`, pydantic writes "ignore".
        if kind == "typed-dict" and "extras_schema" not in core:
            made["extra_behavior"] = "forbid"
    keys = _listed(core.get("keys_schema", {}))
    if texts := {key_text(key): key for key in keys if not isinstance(key, str)}:
        made["keys_schema"] = _before(lambda sent: texts.get(sent, sent), made["keys_schema"])
    listed = core.get("expected", ())
    if kind == "enum":
        listed = [member for member in core["members"] if not isinstance(member.value, _SCALARS)]
    given = [item for item in listed if isinstance(item, (Enum, bytes))]
    if members := {_as_json(getattr(item, "value", item)): item for item in given}:
        return outside(made, partial(_before, lambda sent: members.get(_as_json(sent), sent)))
    return made


def without_bools(core: Any, made: Any) -> Any:
    """Return a core schema that refuses true and false as its numbers.

    pydantic accepts them in lax mode, and for a listed number in strict mode too. The check is a
    tagged union with one member, because that changes neither the value nor the member that a union
    around it chooses.

    Args:
        core: The schema as it was.
        made: The same schema, changed in other ways.
    """
    kind = core["type"]
    wanted = _NUMBERS.get(kind)
    if kind in ("literal", "enum"):
        listed = {*map(type, _listed(core))}
        wanted = "one of the choices" if bool not in listed and listed & {int, float} else None
    elif kind == "function-plain":  # That of pydantic reads `true` as the address 0.0.0.1.
        home = f"{core['function']['function'].__module__}"
        wanted = "a string" if home.startswith("pydantic.") else None
    if wanted is None:
        return made
    error: Any = {"custom_error_type": BOOL, "custom_error_message": f"{wanted}, not a boolean"}
    return outside(made, lambda bare: _tagged({_TAG: bare}, _tag_of, **error))


def _tag_of(sent: Any) -> str | None:
    return None if isinstance(sent, bool) else _TAG


def _finite(value: Any) -> Any:
    """Return a complex number or a JSON text, after a check that no number in it is infinite."""
    numbers = value
    with suppress(ValueError, TypeError):  # The validation itself refuses what is no JSON.
        numbers = value if isinstance(value, complex) else from_json(value)
    if not is_finite(numbers):
        raise PydanticKnownError("finite_number")
    return value


def is_finite(value: Any) -> bool:
    """Whether no number in a JSON value is NaN or infinite, at any depth."""
    if isinstance(value, (float, complex)):
        return isfinite(value)
    items = value.values() if isinstance(value, dict) else value
    return not isinstance(value, (dict, list)) or all(map(is_finite, items))


def _configs(cls: Any) -> Iterator[Any]:
    """Yield the configurations of a class and, for a TypedDict, of its bases."""
    yield getattr(cls, "model_config", None) or getattr(cls, "__pydantic_config__", None) or {}
    # At run time a TypedDict inherits from `dict` only. Its real bases are stored here.
    for base in getattr(cls, "__orig_bases__", ()):
        yield from _configs(get_origin(base) or base)


def _listed(core: Any) -> list[Any]:
    """Return the values that a core schema lists: of a `Literal`, or of the members of an Enum."""
    found = (*core.get("expected", ()), *core.get("members", ()))
    return [item.value if isinstance(item, Enum) else item for item in found]
