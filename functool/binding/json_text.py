"""JSON text of arguments: read exactly, and written from mappings.

pydantic's parser keeps the last of two equal names, reads NaN, and nests to 200 levels; what a call
may not hold is refused here.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from math import isfinite
from typing import Any, TypeAlias

from pydantic_core import SchemaValidator, core_schema, from_json, to_jsonable_python

from functool.errors import ArgumentError

Arguments: TypeAlias = str | Mapping[str, Any]
MAX_DEPTH = 100
"""How many levels of objects and lists arguments may have, their own object counted."""

# On pydantic's engine these searches cost a hundredth of the validation of the same text; on `re`
# they would cost a tenth.
_SUSPICIOUS, _DIGITS, _ESCAPED_NAME = (
    SchemaValidator(core_schema.str_schema(pattern=pattern)).isinstance_python
    for pattern in (r"[0-9][eE][+0-9][0-9]|NaN|Infinity", r"[0-9]{4}", r'\\[^"]*"[ \n\r\t]*:')
)
_second = lru_cache(maxsize=512)(lambda name: r",[ \n\r\t]*" + re.escape(name))
_NAME = re.compile(r"[\w$-]{1,64}")


def as_text(arguments: Any, limit: int | None = None) -> str:
    """Return a mapping as JSON text, and text as it is.

    Raises:
        ArgumentError: It is no mapping, holds what JSON cannot say, or has more than `limit` bytes.
    """
    if isinstance(arguments, str):
        # A subclass, an Enum say, may call itself something else.
        text = str.__str__(arguments)
    elif isinstance(arguments, Mapping):
        text = to_text(arguments)
    else:
        raise ArgumentError("the arguments must be a JSON object")
    # No character has more than four bytes: short text need not be encoded.
    if limit is not None and len(text) * 4 > limit < len(text.encode("utf-8", "surrogatepass")):
        most = f"{limit:,} bytes, the most that this tool takes"
        raise ArgumentError(f"the arguments have more than {most}")
    return text


def decoded(text: str, quoted: Iterable[str] | None = None) -> dict[str, Any]:
    """Return the JSON object in `text`.

    `quoted` are the names, in quotes, that must not stand twice in it; without them all.

    Raises:
        ArgumentError: It is not JSON, not an object, holds NaN or a name twice, or is nested too
            deeply.
    """
    if not text or text.isspace():
        return {}
    if is_deep(text):
        _refuse_depth(text)
    try:
        value = from_json(text, allow_inf_nan=False)
    except (ValueError, TypeError) as error:
        # Text that is no UTF-8 is refused by its type.
        reason = "it holds lone surrogates" if isinstance(error, TypeError) else error
        raise ArgumentError(f"the arguments are not valid JSON: {reason}") from None
    if not isinstance(value, dict):
        raise ArgumentError("the arguments must be a JSON object")
    # To look for each of many names takes longer than to read the text again.
    if text.count(":") != len(value) and (
        has_escaped_name(text)
        or len(value) > 50
        or may_repeat(text, quoted or [f'"{name}"' for name in value])
    ):
        _refuse_repeats(text)
    return value


def has_escaped_name(text: str) -> bool:
    """Whether a name in JSON text may hold an escape: then it cannot be looked for as it stands.

    A backslash in a value is no reason to read the text again.
    """
    return "\\" in text and _ESCAPED_NAME(text)


def may_repeat(text: str, quoted: Iterable[str]) -> bool:
    """Whether one of the quoted names may stand twice in JSON text as a name."""
    long = len(text) > 1000
    for name in quoted:
        # The second time a name stands behind a comma. The engine sees that ten times as fast as
        # Python counts, but not for any length.
        search = linear_pattern(_second(name)) if long and len(name) < 100 else None
        if (search is None or search(text)) and text.count(name) > 1:
            return True
    return False


@lru_cache(maxsize=512)
def linear_pattern(pattern: str) -> Callable[[str], bool] | None:
    """Return a search that takes linear time, or None where that engine cannot read the pattern."""
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern)).isinstance_python
    except Exception:
        return None


def not_finite(text: str) -> bool:
    """Whether JSON text may hold NaN, infinity, or a number that overflows.

    Such a number has a long exponent, or hundreds of digits.
    """
    return _SUSPICIOUS(text) or bool(len(text) > 300 and _DIGITS(text[::75]))


def refuse_infinite(value: Any) -> None:
    """Raise an `ArgumentError` for a number that is not finite, at any depth."""
    if isinstance(value, float) and not isfinite(value):
        raise ArgumentError("a number is too large: every number must be finite")
    items = [*value.values()] if isinstance(value, dict) else value
    if isinstance(items, list):
        for item in items:
            refuse_infinite(item)


def to_text(value: Any) -> str:
    """Return a value as JSON text, or raise an `ArgumentError` where JSON cannot say it."""
    try:
        return _encoder.encode(value)
    except Exception:  # A mapping of the caller's own may raise anything.
        raise ArgumentError("the arguments hold something that JSON cannot say") from None


def _plain(value: Any) -> Any:
    """Say a value that stands in a mapping of arguments as JSON, but never run an iterator."""
    if hasattr(value, "__next__"):
        raise TypeError("an iterator is no argument")
    if isinstance(value, Mapping):
        return dict(value)
    return to_jsonable_python(value)


_encoder = json.JSONEncoder(default=_plain, separators=(",", ":"), ensure_ascii=False)


def parsed(text: str) -> Any:
    """Return the list or object in JSON text that was sent as a string, or the string."""
    if text.lstrip()[:1] not in ("[", "{"):
        return text
    whole = decoded('{"":' + text + "}")
    # `[1], "a": 2` is no JSON, but would end this object and go on in it.
    return whole[""] if len(whole) == 1 else text


def is_deep(text: str) -> bool:
    """Whether JSON text may be nested more deeply than arguments may be."""
    return len(text) > 2 * MAX_DEPTH and text.count("[") + text.count("{") > MAX_DEPTH


def _refuse_depth(text: str) -> None:
    depth = 0
    for mark in re.findall(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[\]{}]', text):
        depth += mark in "[{"
        depth -= mark in "]}"
        if depth > MAX_DEPTH:
            raise ArgumentError(f"the arguments are nested more than {MAX_DEPTH} levels deep")


def _refuse_repeats(text: str) -> None:
    """Refuse a name that stands twice in the arguments object itself."""
    objects: list[list[tuple[str, Any]]] = []
    json.loads(text, object_pairs_hook=objects.append)
    times = Counter(name for name, _ in objects[-1])
    if repeated := sorted(shown_name(name) for name in times if times[name] > 1):
        raise ArgumentError([{"path": name, "expected": "sent only once"} for name in repeated])


def shown_name(name: str) -> str:
    """Return a name that was sent if it looks like one.

    What does not may be anything, a secret too: it shows as `[key]`.
    """
    return name if _NAME.fullmatch(name) else "[key]"


def drop_nulls(values: dict[str, Any], names: Iterable[str]) -> None:
    """Take out the nulls that mean a default."""
    for name in names:
        if values.get(name, 0) is None:
            del values[name]
