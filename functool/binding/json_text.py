"""Parse arguments from JSON text, and write mappings as JSON text.

This file refuses what pydantic's JSON parser accepts, but a call must not contain: repeated names,
NaN, and more than 100 levels of nesting.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import accumulate
from typing import Any, TypeAlias

from pydantic_core import SchemaValidator, core_schema, from_json, to_jsonable_python

from functool.errors import ArgumentError
from functool.schema.rewrite import is_finite

Arguments: TypeAlias = str | Mapping[str, Any]
MAX_DEPTH = 100
"""The maximum depth of nested objects and lists. The object of the arguments is level one."""

# On pydantic's regex engine these searches take a hundredth of the time that validation takes.
# With `re` they would take a tenth.
_SUSPICIOUS, _DIGITS, _ESCAPED_NAME = (
    SchemaValidator(core_schema.str_schema(pattern=pattern)).isinstance_python
    for pattern in (
        r"[0-9][eE][+0-9][0-9]|NaN|Infinity",
        r"[0-9]{4}",
        r'\\.[^"\\]*(?:\\.[^"\\]*)*"[ \n\r\t]*:',
    )
)
_second = lru_cache(maxsize=512)(lambda name: r",[ \n\r\t]*" + re.escape(name))
_LEVELS = {"[": 1, "{": 1, "]": -1, "}": -1}
_NAME = re.compile(r"[\w$-]{1,64}")


def as_text(arguments: Any, limit: int | None = None) -> str:
    """Return a mapping as JSON text, and text unchanged.

    Raises:
        ArgumentError: The arguments are neither a mapping nor text, hold a value that JSON cannot
            express, or have more than `limit` bytes.
    """
    if isinstance(arguments, str):
        # A subclass such as a str Enum may override `__str__`.
        text = str.__str__(arguments)
    elif isinstance(arguments, Mapping):
        try:
            text = _encoder.encode(arguments)
        except Exception:  # A mapping class of the caller may raise any exception.
            raise ArgumentError("the arguments hold a value that JSON cannot express") from None
    else:
        raise ArgumentError("the arguments must be a JSON object")
    # A character has at most four bytes, so short text need not be encoded.
    if limit is not None and len(text) * 4 > limit < len(text.encode("utf-8", "surrogatepass")):
        most = f"{limit:,} bytes, the most that this tool takes"
        raise ArgumentError(f"the arguments have more than {most}")
    return text


def decoded(text: str, quoted: Iterable[str] | None = None) -> dict[str, Any]:
    """Return the JSON object in `text`.

    `quoted` are the names to check for repetition, in quotes; by default all names.

    Raises:
        ArgumentError: The text is not JSON or not an object, holds NaN or a repeated name, or is
            nested too deeply.
    """
    if not text or text.isspace():
        return {}
    refuse_depth(text)
    try:
        value = from_json(text, allow_inf_nan=False)
    except (ValueError, TypeError) as error:
        # For text that cannot be encoded as UTF-8, `from_json` raises a TypeError.
        reason = "it holds lone surrogates" if isinstance(error, TypeError) else error
        raise ArgumentError(f"the arguments are not valid JSON: {reason}") from None
    if not isinstance(value, dict):
        raise ArgumentError("the arguments must be a JSON object")
    # With many names, reading the text again is faster than searching for each name.
    if text.count(":") != len(value) and (
        len(value) > 50 or may_repeat(text, quoted or [f'"{name}"' for name in value])
    ):
        _refuse_repeats(text)
    return value


def may_repeat(text: str, quoted: Iterable[str]) -> bool:
    """Whether one of the quoted names may occur twice as a name in JSON text.

    A name with an escape in it may be any name. An escape in a value does not count.
    """
    if "\\" in text and _ESCAPED_NAME(text):
        return True
    long = len(text) > 1000
    for name in quoted:
        # A second occurrence follows a comma. For long text, searching for that with the engine is
        # ten times as fast as counting. The engine refuses very long patterns.
        search = linear_pattern(_second(name)) if long and len(name) < 100 else None
        if (search is None or search(text)) and text.count(name) > 1:
            return True
    return False


def has_colons(text: str, count: int) -> bool:
    """Whether the text of an object with `count` names has no other colons.

    In a long text, finding them is faster than counting them.
    """
    place = -1
    for _ in range(count):
        place = text.find(":", place + 1)
    return text.find(":", place + 1) < 0


@lru_cache(maxsize=512)
def linear_pattern(pattern: str) -> Callable[[str], bool] | None:
    """Return a search in linear time, or None if the engine does not support the pattern."""
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern)).isinstance_python
    except Exception:
        return None


def not_finite(text: str) -> bool:
    """Whether JSON text may hold NaN, infinity, or a number that overflows.

    A number that overflows has a long exponent or hundreds of digits.
    """
    return _SUSPICIOUS(text) or bool(len(text) > 300 and _DIGITS(text[::75]))


def refuse_infinite(value: Any) -> None:
    """Refuse numbers that are not finite, at any depth.

    Raises:
        ArgumentError: There is such a number.
    """
    if not is_finite(value):
        raise ArgumentError("a number is too large: every number must be finite")


def _plain(value: Any) -> Any:
    """Convert a Python value in arguments to a JSON value, but never consume an iterator."""
    if hasattr(value, "__next__"):
        raise TypeError
    return dict(value) if isinstance(value, Mapping) else to_jsonable_python(value)


_encoder = json.JSONEncoder(default=_plain, separators=(",", ":"), ensure_ascii=False)


def parsed(text: str) -> Any:
    """Parse a string that holds a JSON list or object. Return any other string unchanged."""
    if text.lstrip()[:1] not in ("[", "{"):
        return text
    wrapper = decoded('{"":' + text + "}")
    # A string such as `[1], "a": 2` is not JSON. Inside the wrapper it adds a second name.
    return wrapper[""] if len(wrapper) == 1 else text


def refuse_depth(text: str) -> None:
    """Refuse JSON text that is nested more than `MAX_DEPTH` levels deep.

    Raises:
        ArgumentError: It is.
    """
    if len(text) <= 2 * MAX_DEPTH or text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    marks = re.findall(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[\]{}]', text)
    if max(accumulate(_LEVELS.get(mark, 0) for mark in marks)) > MAX_DEPTH:
        raise ArgumentError(f"the arguments are nested more than {MAX_DEPTH} levels deep")


def _refuse_repeats(text: str) -> None:
    """Refuse a repeated name at the top level of the arguments."""
    objects: list[list[tuple[str, Any]]] = []
    json.loads(text, object_pairs_hook=objects.append)
    times = Counter(name for name, _ in objects[-1])
    if repeated := sorted(shown_name(name) for name in times if times[name] > 1):
        raise ArgumentError([{"path": name, "expected": "sent only once"} for name in repeated])


def shown_name(name: str) -> str:
    """Return a name that was sent, for an error message.

    A name that does not look like one may hold a secret, so it is shown as `[key]`.
    """
    return name if _NAME.fullmatch(name) else "[key]"


def drop_nulls(values: dict[str, Any], names: Iterable[str]) -> None:
    """Remove nulls from these names. There null means the default."""
    for name in names:
        if values.get(name, 0) is None:
            del values[name]
