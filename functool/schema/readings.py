"""Bound how often pydantic reads JSON in recursive unions, and how long other slow steps take.

pydantic tries each member of a union that it cannot tell apart. In a recursive type, each level of
the arguments multiplies this work, so a short text could take hours. Python needs milliseconds to
compile a few characters of some patterns, and compares the items of a set that have the same hash.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import cached_property
from re import Pattern
from time import thread_time
from types import NoneType
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import PydanticCustomError, core_schema

from functool.schema.rewrite import MAPPINGS, choices_of, fields_of, followed, holds_others

NO_MEMBER = "functool.no_member"
"""The type of the error of a whole union, where its members are not described."""

LONG_PATTERN = "functool.long_pattern"
"""The type of the error of a pattern that is too long, together with those before it."""
MAX_PATTERN = 1_000
"""How many characters all patterns for `re` have in one validation: at most a second of work."""

_FEW, _MANY = 3_000, 30_000
"""How often recursive unions are read with all their problems, and without them."""

SECONDS, SECONDS_A_CHARACTER = 0.4, 0.5e-6
"""How long the validations of one call may take. Readings alone do not bound long texts.

A fifth of it may go into comparing items that have the same hash.
"""

_TAG = "functool.member."
"""What the tags of members begin with. No path names a tag, as it is not in the arguments."""
_SCALAR = "functool.scalar"
"""The tag of all members for other values. Members for lists or objects only are the last ones."""
_PACE, _PACE_OF_CONTAINERS = 16, 4
"""How many readings there are for each look at the clock. Lists and objects may be large."""
_SCALARS = {str, int, float, bool, NoneType}
_TAKEN: dict[str, dict[type, set[str]]] = {
    **{kind: {dict: set()} for kind in MAPPINGS},
    **{kind: {list: set()} for kind in ("list", "tuple", "set", "frozenset", "deque")},
    **{kind: {} for kind in ("str", "int", "float", "bool", "none", "bytes", "uuid", "date")},
    **{kind: {} for kind in ("literal", "time", "datetime", "timedelta")},
}
"""Which of dict and list core schemas take, by their types. Any other may take both."""
_CLASSES = ("model-fields", "dataclass-args", "typed-dict")
_AROUND = dict.fromkeys(("model", "dataclass", "default", "nullable", "function-after"), "schema")
_AROUND |= {"lax-or-strict": "lax_schema", "json-or-python": "json_schema"}
_DEEPEST = 8  # A type alias may lead back to itself.

left: ContextVar[Left] = ContextVar("left")  # Of the current call.

_PATTERNS: Any = (Pattern, Pattern[str])
_COMPILING = [dict(TypeAdapter(kind).core_schema).get("function") for kind in _PATTERNS]
"""The functions with which pydantic compiles a text for `re`."""


class ReadTooOften(Exception):
    """The members of recursive unions would read the arguments too often."""


def counted(union: Any, made: Any, definitions: Mapping[str, Any], brief: bool) -> Any:
    """Return a core schema that counts its readings, if it is a union that may be recursive.

    It tries only the members that may take the value: a list or an object, and of classes those
    whose required names are there. Any other member would copy the value, at every level, for an
    error.

    Args:
        union: The schema as it was.
        made: The same schema, with other schemas inside.
        definitions: The definitions of the references in `union`.
        brief: Whether a value that fits no member is one problem, not one of each member.
    """
    choices = choices_of(union) if definitions and union["type"] == "union" else []
    if not any(holds_others(followed(choice, definitions)) for choice in choices):
        return made
    whole: Any = {key: part for key, part in made.items() if key != "ref"}
    if brief:
        whole |= {"custom_error_type": NO_MEMBER, "custom_error_message": NO_MEMBER}
    tags = {f"{_TAG}{i}": choice for i, choice in enumerate(choices_of(made))}
    members = {tag: _taken(choice, definitions) for tag, choice in tags.items()}

    lists = [tag for tag, taken in members.items() if list in taken]
    objects = {tag: taken[dict] for tag, taken in members.items() if dict in taken}
    # If another member may have been meant, the problems of all members are named.
    vague = {tag for tag, taken in members.items() if len(taken) > 1}
    if len(objects) > 1 and not brief:
        vague |= {tag for tag, names in objects.items() if not names}

    def tag_of(sent: Any) -> str:
        kind, now = type(sent), left.get()
        now.readings -= 1
        pace = _PACE if kind in _SCALARS else _PACE_OF_CONTAINERS
        if now.readings < 0 or (now.readings % pace == 0 and thread_time() > now.until):
            raise ReadTooOften
        if kind in _SCALARS:
            return _SCALAR
        fitting = lists if kind is list else []
        if kind is dict:
            fitting = [tag for tag, names in objects.items() if names <= sent.keys()]
        return fitting[0] if len(fitting) == 1 and fitting[0] not in vague else _TAG

    last = sorted(tags, key=lambda tag: len(members[tag]) == 1)
    tags[_SCALAR] = {**whole, "choices": [tags[tag] for tag in last]}
    tags[_TAG] = whole
    ref = {"ref": made["ref"]} if "ref" in made else {}
    return {**core_schema.tagged_union_schema(tags, tag_of), **ref}


def _taken(core: Any, definitions: Mapping[str, Any]) -> dict[type, set[str]]:
    """Return which of dict and list a core schema may take, and the names that a dict must have."""
    for _ in range(_DEEPEST):
        core = followed(core, definitions)
        if core["type"] == "tagged-union" and len(core["choices"]) == 1:  # Of `without_bools`.
            core = followed(next(iter(core["choices"].values())), definitions)
        if core["type"] in _CLASSES:
            return {dict: {n for n, field in fields_of(core) if _is_required(field, definitions)}}
        if core["type"] in _TAKEN:
            return _TAKEN[core["type"]]
        if core["type"] not in _AROUND or core.get("custom_init") or "on_error" in core:
            break
        core = core[_AROUND[core["type"]]]
    return {dict: set(), list: set()}


def _is_required(field: Any, definitions: Mapping[str, Any]) -> bool:
    """Whether a field has to be there, under its own name. A function may have a default inside."""
    kind = followed(field["schema"], definitions)["type"]
    is_plain = "validation_alias" not in field and not kind.startswith(("default", "function"))
    return bool(is_plain and field.get("required", True) and field.get("init", True))


def counted_pattern(made: Any) -> Any:
    """Return a core schema that counts the characters of what it compiles for `re`."""
    if made.get("function") not in _COMPILING:
        return made
    return core_schema.no_info_before_validator_function(_count_characters, made)


def _count_characters(sent: Any) -> Any:
    now = left.get()
    now.characters -= len(str(sent))
    if now.characters < 0:
        raise PydanticCustomError(LONG_PATTERN, LONG_PATTERN)
    return sent


class Left:
    """What the validations of one call have left.

    These are readings of recursive unions and the characters of patterns, for each validation; and
    for all of them the seconds to compare items in, and the time until which unions may be read.
    That time begins when a union is read.
    """

    readings: int
    characters: int

    def __init__(self, text: str) -> None:
        self._seconds = SECONDS + SECONDS_A_CHARACTER * len(text)
        self.comparing: float = self._seconds / 5

    until: cached_property[float] = cached_property(lambda self: thread_time() + self._seconds)


def bounded(validate: Callable[..., Any], brief: bool = False) -> Callable[..., Any]:
    """Return a function of a text with limited work. It raises `ReadTooOften` for recursive unions.

    Another one inside shares its time.
    """

    def validated(text: str, **options: Any) -> Any:
        now = left.get(None) or Left(text)
        now.readings = _MANY + len(text) // 2 if brief else _FEW
        now.characters = MAX_PATTERN
        token = left.set(now)
        try:
            return validate(text, **options)
        finally:
            left.reset(token)

    return validated
