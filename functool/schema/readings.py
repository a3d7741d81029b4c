"""Bound how often pydantic reads JSON in recursive unions, and how long other slow steps take.

pydantic tries each member of a union that it cannot tell apart. In a recursive type, each level of
the arguments multiplies this work, so a short text could take hours. Python needs milliseconds to
compile a few characters of some patterns, and long texts may hold many values that are read slowly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from copy import deepcopy
from functools import cache, partial
from re import Pattern
from time import thread_time
from types import NoneType
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import PydanticCustomError, core_schema

from functool.executors import setting
from functool.large import noting_hold
from functool.schema.parts import MAPPINGS, choices_of, fields_of, followed, holds_others, outside

NO_MEMBER = "functool.no_member"
"""The type of the error of a whole union, where its members are not described."""

LONG_PATTERN = "functool.long_pattern"
"""The type of the error of a pattern that is too long, together with those before it."""
MAX_PATTERN = 1_000
"""How many characters all patterns for `re` have in one validation: at most a second of work."""

_FEW, _MANY = 3_000, 30_000
"""How often recursive unions are read with all their problems, and without them."""

SECONDS, SECONDS_A_CHARACTER = 0.4, 0.5e-6
"""How long the validations of one call may take. Readings alone do not bound long texts."""

_TAG = "functool.member."
"""What the tags of members begin with. No path names a tag, as it is not in the arguments."""
_SCALAR = "functool.scalar"
"""The tag of all members for other values. Members for lists or objects only are the last ones."""
_PACE = 8  # Values that are read for each look at the clock.
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

work_left: ContextVar[WorkLeft] = ContextVar("functool.work_left")  # Of the current call.

_PATTERNS: Any = (Pattern, Pattern[str])


@cache
def _compiling() -> list[Any]:
    """Return the functions with which pydantic compiles a text for `re`."""
    # Built when first needed: building validators is slow, and would slow down every import.
    return [dict(TypeAdapter(kind).core_schema).get("function") for kind in _PATTERNS]


class ReadTooOften(Exception):
    """The members of recursive unions would read the arguments too often."""


def counted(union: Any, made: Any, definitions: Mapping[str, Any], brief: bool) -> Any:
    """Return the core schema of a union that counts its readings, if it may be recursive.

    It tries only the members that may take the value: a list or an object, and of classes those
    whose required names are there. Any other member would copy the value, at every level, for an
    error.

    Args:
        union: The schema as it was.
        made: The same schema, with other schemas inside.
        definitions: The definitions of the references in `union`.
        brief: Whether a value that fits no member is one problem, not one of each member.
    """
    choices = choices_of(union) if definitions else ()
    if not any(holds_others(followed(choice, definitions)) for choice in choices):
        return made
    error = {"custom_error_type": NO_MEMBER, "custom_error_message": NO_MEMBER} if brief else {}
    tags = {f"{_TAG}{i}": choice for i, choice in enumerate(choices_of(made))}
    members = {tag: _taken(choice, definitions) for tag, choice in tags.items()}

    lists = [tag for tag, taken in members.items() if list in taken]
    objects = {tag: taken[dict] for tag, taken in members.items() if dict in taken}
    # If another member may have been meant, the problems of all members are named.
    vague = {tag for tag, taken in members.items() if len(taken) > 1}
    if len(objects) > 1 and not brief:
        vague |= {tag for tag, names in objects.items() if not names}

    def tag_of(sent: Any) -> str:
        kind, now = type(sent), work_left.get()
        now.readings -= 1
        if now.readings < 0:
            raise ReadTooOften
        now.look()
        if kind in _SCALARS:
            return _SCALAR
        fitting = lists if kind is list else []
        if kind is dict:
            fitting = [tag for tag, names in objects.items() if names <= sent.keys()]
        return fitting[0] if len(fitting) == 1 and fitting[0] not in vague else _TAG

    def sorted_out(bare: Any) -> Any:
        last = [tags[tag] for tag in sorted(tags, key=lambda tag: len(members[tag]) == 1)]
        tags[_TAG] = whole = {**bare, **error}
        tags[_SCALAR] = {**whole, "choices": last}
        return core_schema.tagged_union_schema(tags, tag_of)

    return outside(made, sorted_out)


def is_slow(core: Any, definitions: Mapping[str, Any]) -> bool:
    """Whether reading many values of a type takes long, beside those that `counted` counts.

    Python makes fractions of texts, calls functions that validate alone, and copies defaults such
    as lists. pydantic tries the classes of a union one by one.
    """
    if core["type"] == "union" and not definitions:
        return any(map(holds_others, choices_of(core)))
    return core["type"] in ("fraction", "function-plain") or _is_copied(core)


def timed(made: Any) -> Any:
    """Return a core schema that looks at the clock before it reads a value or copies a default."""
    if _is_copied(made):
        rest = {key: part for key, part in made.items() if key != "default"}
        return {**rest, "default_factory": partial(_copied, made["default"])}
    return outside(made, lambda bare: core_schema.tagged_union_schema({_TAG: bare}, _look))


def _look(sent: Any) -> str:
    work_left.get().look()
    return _TAG


def _is_copied(core: Any) -> bool:
    """Whether pydantic copies the default of a core schema: it copies what has no hash."""
    return core.get("default", 0).__hash__ is None


def _copied(default: Any) -> Any:
    work_left.get().look()
    return deepcopy(default)


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
    if "function" not in made or made["function"] not in _compiling():
        return made
    return core_schema.no_info_before_validator_function(_count_characters, made)


def _count_characters(sent: Any) -> Any:
    now = work_left.get()
    now.characters -= len(str(sent))
    if now.characters < 0:
        raise PydanticCustomError(LONG_PATTERN, LONG_PATTERN)
    return sent


class WorkLeft:
    """What the validations of one call have left.

    These are readings of recursive unions and the characters of patterns, for each validation; and
    for all of them the time until which values may be read that are read slowly.
    """

    readings: int
    characters: int

    def __init__(self, text: str) -> None:
        self.until: float = thread_time() + SECONDS + SECONDS_A_CHARACTER * len(text)
        self._looks = 0

    def look(self) -> None:
        """Raise `ReadTooOften` if the time is over."""
        self._looks += 1
        if self._looks % _PACE == 0 and thread_time() > self.until:
            raise ReadTooOften


def bounded(validate: Callable[..., Any], brief: bool = False) -> Callable[..., Any]:
    """Return a function of a text with limited work. It raises `ReadTooOften` for recursive unions.

    Another one inside shares its time.
    """

    def validated(text: str, **options: Any) -> Any:
        now = work_left.get(None) or WorkLeft(text)
        now.readings = _MANY + len(text) // 2 if brief else _FEW
        now.characters = MAX_PATTERN
        with setting(work_left, now):
            return noting_hold(validate, text, **options)

    return validated
