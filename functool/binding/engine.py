"""A safe jsonschema validator: it fetches no references, and the work of a check is limited.

Patterns run on pydantic's regex engine, which takes linear time. The steps of each check are
counted. Without that limit, a hostile schema or a long list could block the event loop for minutes:
for example, unions of references can double the work at each level.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

from functool.binding.json_text import linear_pattern

MAX_STEPS = 100_000
"""How many steps one check may take, roughly one for each keyword: about half a second of work."""

_LOOPS = {
    **dict.fromkeys(("enum", "type"), 8),
    **dict.fromkeys(("$ref", "$dynamicRef"), 4),
    **dict.fromkeys(("required", "properties", "dependentRequired", "dependentSchemas"), 160),
}
"""Keywords that loop over their members, and how many members count as one more step."""

_IDENTIFIERS = ("$id", "$anchor", "$dynamicAnchor")

_TOKEN = re.compile(r"\\.|\[(?:\\.|[^]\\])*]?|\{(\d{1,9})(?:,(\d{0,9}))?\}|.", re.DOTALL)

_steps_left: ContextVar[list[int]] = ContextVar("functool.schema_steps")


class TooMuchWork(Exception):
    """A check took more than `MAX_STEPS`."""


@contextmanager
def bounded_work() -> Iterator[None]:
    """Limit the work of the checks that run in this `with` block.

    Raises:
        TooMuchWork: The checks took more than `MAX_STEPS` together.
    """
    token = _steps_left.set([MAX_STEPS])
    try:
        yield
    finally:
        _steps_left.reset(token)


def _counting(word: str, check: Callable[..., Any]) -> Callable[..., Any]:
    steps = 5 if word.endswith("ef") else 1  # Following a `$ref` takes five times as long.
    members = _LOOPS.get(word)

    def step(validator: Any, wanted: Any, instance: Any, schema: Any) -> Any:
        more = len(wanted) // members if members and isinstance(wanted, (list, dict, str)) else 0
        _spend(steps + more)
        return check(validator, wanted, instance, schema)

    return step


def _spend(steps: int) -> None:
    left = _steps_left.get()
    left[0] -= steps
    if left[0] < 0:
        what = "the arguments take too much work to check against the tool's schema"
        raise TooMuchWork(f"{what}: send less at once")


def _hashable(value: Any) -> Any:
    """Return a hashable key that is equal for equal JSON values: 1 equals 1.0, but not true."""
    _spend(1)
    if isinstance(value, bool) or value is None:
        return (value, "")
    if isinstance(value, dict):
        return frozenset((name, _hashable(item)) for name, item in value.items())
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


def _matches(pattern: str, text: str) -> bool | None:
    """Whether a pattern matches somewhere in a text; None if the engine does not support it."""
    # The time grows with the length of the text times that of the pattern, repetitions expanded.
    _spend(_length(pattern) * (100 + len(text)) // 500)
    search = linear_pattern(pattern)
    return None if search is None else bool(search(text))


@lru_cache(maxsize=512)
def _length(pattern: str) -> int:
    """Return the approximate length of a pattern after expanding each `{n}`."""
    sums, last = [0], 0
    for token in _TOKEN.finditer(pattern):
        if token[0] == "(":
            sums.append(0)
        elif token[0] == ")" and len(sums) > 1:
            last = sums.pop()
            sums[-1] += last
        elif token[1]:
            times = max(int(token[1]), int(token[2] or 0), 1)
            sums[-1] += last * (times - 1)
            last *= times
        else:
            last = 1
            sums[-1] += 1
    return sum(sums)


def validator_of(schema: Mapping[str, Any]) -> Any:
    """Return a jsonschema validator for a schema. Use it inside `bounded_work`.

    Raises:
        ValueError: The schema has both `patternProperties` and `unevaluatedProperties`, for which
            jsonschema would use the `re` module.
    """
    if all(_holds(schema, word) for word in ("patternProperties", "unevaluatedProperties")):
        raise ValueError(
            "jsonschema would run the patterns on an engine that a hostile one can hang"
        )
    from referencing import Registry
    from referencing.jsonschema import DRAFT202012

    if not any(_holds(schema, word) for word in _IDENTIFIERS):
        return _validator_class()(schema, registry=Registry())
    # Collect the identifiers once. Otherwise jsonschema walks the schema for each reference.
    resource = DRAFT202012.create_resource(dict(schema))
    place = resource.id() or "urn:functool:schema"
    known: Any = Registry().with_resource(place, resource).crawl()
    return _validator_class()({"$ref": place}, registry=known)


def _holds(schema: Any, word: str) -> bool:
    return f'"{word}"' in json.dumps(schema)


@lru_cache(maxsize=1)
def _validator_class() -> Any:
    """Return a validator class for 2020-12 that counts steps and uses the linear engine."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError as SchemaMismatch
    from jsonschema.validators import extend

    def pattern(validator: Any, wanted: Any, instance: Any, schema: Any) -> Any:
        if isinstance(instance, str) and _matches(wanted, instance) is False:
            yield SchemaMismatch("the pattern does not match")

    def pattern_properties(validator: Any, wanted: Any, instance: Any, schema: Any) -> Any:
        for source, part in wanted.items() if isinstance(instance, dict) else ():
            for name, value in instance.items():
                if _matches(source, name):
                    yield from validator.descend(value, part, path=name, schema_path=source)

    def additional(validator: Any, wanted: Any, instance: Any, schema: Any) -> Any:
        patterns = schema.get("patternProperties") or ()
        known = schema.get("properties") or ()
        for name, value in instance.items() if isinstance(instance, dict) else ():
            if name in known or any(_matches(source, name) for source in patterns):
                continue
            if wanted is False:
                yield SchemaMismatch("", path=[name])
            else:
                yield from validator.descend(value, wanted, path=name)

    def unique(validator: Any, wanted: Any, instance: Any, schema: Any) -> Any:
        items = instance if wanted and isinstance(instance, list) else []
        if len(set(map(_hashable, items))) < len(items):
            yield SchemaMismatch("an item is repeated")

    checks = {**Draft202012Validator.VALIDATORS, "pattern": pattern, "uniqueItems": unique}
    checks |= {"patternProperties": pattern_properties, "additionalProperties": additional}
    counted = {name: _counting(name, check) for name, check in checks.items()}
    return extend(Draft202012Validator, counted)
