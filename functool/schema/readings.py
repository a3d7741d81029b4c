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
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import PydanticCustomError, core_schema

from functool.schema.rewrite import choices_of, followed, holds_others

READ = "functool.read"
"""The type of the error of a member that only counts. It is no problem of the arguments."""
NO_MEMBER = "functool.no_member"
"""The type of the error of a whole union, where its members are not described."""

LONG_PATTERN = "functool.long_pattern"
"""The type of the error of a pattern that is too long, together with those before it."""
MAX_PATTERN = 1_000
"""How many characters all patterns for `re` have in one validation: at most a second of work."""

_NEVER = object()
_FEW, _MANY = 3_000, 30_000
"""How often recursive unions are read with all their problems, and without them."""

SECONDS, SECONDS_A_CHARACTER = 0.5, 1e-6
"""How long one validation may take. A count of readings alone does not bound long texts.

A fifth of it may go into comparing items that have the same hash.
"""

_left: ContextVar[Left | None] = ContextVar("left", default=None)

_PATTERNS: Any = (Pattern, Pattern[str])
_COMPILING = [dict(TypeAdapter(kind).core_schema).get("function") for kind in _PATTERNS]
"""The functions with which pydantic compiles a text for `re`."""


class ReadTooOften(Exception):
    """The members of recursive unions would read the arguments too often."""


def counted(union: Any, made: Any, definitions: Mapping[str, Any], brief: bool) -> Any:
    """Return a core schema that counts its readings, if it is a union that may be recursive.

    Args:
        union: The schema as it was. Its members tell whether it may be recursive.
        made: The same schema, with other schemas inside.
        definitions: The definitions of the references in `union`.
        brief: Whether a value that fits no member is one problem, not one of each member.
    """
    if not definitions or union["type"] != "union":
        return made
    found = [followed(choice, definitions) for choice in choices_of(union)]
    kinds = sorted(choice["type"] for choice in found if holds_others(choice))
    if brief and kinds:  # Each error of a member keeps a copy of the value, at every level.
        made = {**made, "custom_error_type": NO_MEMBER, "custom_error_message": READ}
    # With one such member, or with a dict and a list, no value is read by two members.
    if len(kinds) < 2 or kinds == ["dict", "list"]:
        return made
    return {**made, "choices": [_counter(), *made["choices"]]}


def _counter() -> Any:
    """Return a core schema that fits no value, and counts every value that is not a text.

    It counts in the factory of a default, because a validator function would get a Python copy of
    the value.
    """
    string = core_schema.str_schema()
    text = core_schema.with_default_schema(string, default_factory=_count, on_error="default")
    never = core_schema.literal_schema([_NEVER])
    error = core_schema.custom_error_schema(never, READ, custom_error_message=READ)
    return core_schema.chain_schema([text, error])


def _count() -> None:
    now = left()
    now.readings -= 1
    if now.readings < 0 or (now.readings % 16 == 0 and thread_time() > now.until):
        raise ReadTooOften


def counted_pattern(made: Any) -> Any:
    """Return a core schema that counts the characters of what it compiles for `re`."""
    if made.get("function") not in _COMPILING:
        return made
    return core_schema.no_info_before_validator_function(_count_characters, made)


def _count_characters(sent: Any) -> Any:
    now = left()
    now.characters -= len(str(sent))
    if now.characters < 0:
        raise PydanticCustomError(LONG_PATTERN, LONG_PATTERN)
    return sent


class Left:
    """What the validation of a text has left.

    These are readings of recursive unions, the seconds to compare items in, the characters of
    patterns, and the time until which it may run. That time begins when unions are read.
    """

    def __init__(self, text: str = "", brief: bool = False) -> None:
        self._seconds = SECONDS + SECONDS_A_CHARACTER * len(text)
        self.readings: int = _MANY + len(text) // 2 if brief else _FEW
        self.comparing: float = self._seconds / 5
        self.characters: int = MAX_PATTERN

    until: cached_property[float] = cached_property(lambda self: thread_time() + self._seconds)


def left() -> Left:
    """Return what the current validation has left.

    A body reads an iterator after the validation has ended. Then each step has a budget of its own.
    """
    return _left.get() or Left()


def bounded(validate: Callable[..., Any], brief: bool) -> Callable[..., Any]:
    """Return a validation with limited work. It raises `ReadTooOften` for recursive unions."""

    def validated(text: str, **options: Any) -> Any:
        token = _left.set(Left(text, brief))
        try:
            return validate(text, **options)
        finally:
            _left.reset(token)

    return validated
