"""Bound how often pydantic reads JSON in recursive unions, and what it compiles for `re.Pattern`.

pydantic tries each member of a union that it cannot tell apart. In a recursive type, each level of
the arguments multiplies this work, so a short text could take hours. Python needs milliseconds to
compile a few characters of some patterns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from time import thread_time
from types import SimpleNamespace
from typing import Any

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
SECONDS, SECONDS_A_CHARACTER = 0.5, 2e-6
"""How long one validation of recursive unions may take. A count alone does not bound long texts."""

_left: ContextVar[SimpleNamespace | None] = ContextVar("left", default=None)
"""What one validation has left: readings, the time until which it may run, pattern characters."""


class ReadTooOften(Exception):
    """The members of recursive unions would read the arguments too often."""


def counted(union: Any, definitions: Mapping[str, Any], brief: bool) -> Any:
    """Return a union that counts how often it is read, if it may be recursive.

    With `brief`, such a union that fits no member is one problem, not one of each member.
    """
    found = [followed(choice, definitions) for choice in choices_of(union)]
    kinds = sorted(choice["type"] for choice in found if holds_others(choice))
    # With one such member, or with a dict and a list, no value is read by two members.
    if not definitions or len(kinds) < 2 or kinds == ["dict", "list"]:
        return union
    brevity = {"custom_error_type": NO_MEMBER, "custom_error_message": READ} if brief else {}
    return {**union, "choices": [_counter(), *union["choices"]], **brevity}


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
    if (left := _left.get()) is not None:
        left.readings -= 1
        if left.readings < 0 or (left.readings % 16 == 0 and thread_time() > left.until):
            raise ReadTooOften


def count_pattern(sent: Any) -> Any:
    """Count the characters of what becomes an `re.Pattern`, and return it."""
    left = _left.get() or SimpleNamespace(characters=MAX_PATTERN)
    left.characters -= len(str(sent))
    if left.characters < 0:
        raise PydanticCustomError(LONG_PATTERN, LONG_PATTERN)
    return sent


def bounded(validate: Callable[..., Any], most: Callable[[str], int]) -> Callable[..., Any]:
    """Return a validation that raises `ReadTooOften` beyond its time, or the number from `most`.

    It refuses long patterns, too.
    """

    def validated(text: str, strict: bool | None = None) -> Any:
        until = thread_time() + SECONDS + SECONDS_A_CHARACTER * len(text)
        token = _left.set(SimpleNamespace(readings=most(text), until=until, characters=MAX_PATTERN))
        try:
            return validate(text, strict=strict)
        finally:
            _left.reset(token)

    return validated
