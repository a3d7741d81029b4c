"""jsonschema as functool runs it: it fetches nothing, and nobody can make it work for long.

Patterns run on pydantic's linear engine. Each keyword that is evaluated counts as one step, since
unions of references that double, or a long list, would otherwise hold the event loop for minutes.
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
"""How many keywords one check may evaluate: about half a second's work."""

_LOOPS = {
    **dict.fromkeys(("enum", "type"), 8),
    **dict.fromkeys(("$ref", "$dynamicRef"), 4),
    **dict.fromkeys(("required", "properties", "dependentRequired", "dependentSchemas"), 160),
}
"""Keywords that look at each of their own members, and how many of those make one step."""

_IDENTIFIERS = ("$id", "$anchor", "$dynamicAnchor")

_TOKEN = re.compile(r"\\.|\[(?:\\.|[^]\\])*]?|\{(\d{1,9})(?:,(\d{0,9}))?\}|.", re.DOTALL)

_left: ContextVar[list[int]] = ContextVar("functool.schema_steps")


class TooMuchWork(Exception):
    """A check took more steps than it may."""


@contextmanager
def bounded_work() -> Iterator[None]:
    """Bound the work of the checks that are run inside.

    Raises:
        TooMuchWork: They took more than `MAX_STEPS`.
    """
    token = _left.set([MAX_STEPS])
    try:
        yield
    finally:
        _left.reset(token)


def _counted(word: str, check: Callable[..., Any]) -> Callable[..., Any]:
    steps = 5 if word.endswith("ef") else 1  # To follow a reference takes five times as long.
    members = _LOOPS.get(word)

    def step(validator: Any, wanted: Any, instance: Any, schema: Any) -> Any:
        more = len(wanted) // members if members and isinstance(wanted, (list, dict, str)) else 0
        _spend(steps + more)
        return check(validator, wanted, instance, schema)

    return step


def _spend(steps: int) -> None:
    left = _left.get()
    left[0] -= steps
    if left[0] < 0:
        what = "the arguments take too much work to check against the tool's schema"
        raise TooMuchWork(f"{what}: send less at once")


def _hashable(value: Any) -> Any:
    """Return what is equal for values that JSON Schema calls equal: 1 is 1.0, and not true."""
    _spend(1)
    if isinstance(value, bool) or value is None:
        return (value, "")
    if isinstance(value, dict):
        return frozenset((name, _hashable(item)) for name, item in value.items())
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


def _found(pattern: str, text: str) -> bool | None:
    """Whether a pattern matches in a text; None for one that the linear engine cannot read."""
    # The time is linear in the text, and in the pattern once its repetitions are written out.
    _spend(_length(pattern) * (100 + len(text)) // 500)
    search = linear_pattern(pattern)
    return None if search is None else bool(search(text))


@lru_cache(maxsize=512)
def _length(pattern: str) -> int:
    """Return how long a pattern is, roughly, when each `{n}` is written out."""
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
    """Return jsonschema's validator of a schema. Use it inside of `bounded_work`.

    Raises:
        ValueError: The schema combines keywords that jsonschema checks in another way.
    """
    if all(_holds(schema, word) for word in ("patternProperties", "unevaluatedProperties")):
        raise ValueError(
            "jsonschema would run the patterns on an engine that a hostile one can hang"
        )
    from referencing import Registry
    from referencing.jsonschema import DRAFT202012

    if not any(_holds(schema, word) for word in _IDENTIFIERS):
        return _validator_class()(schema, registry=Registry())
    # Identifiers are collected once: else each reference to one walks through the whole schema.
    resource = DRAFT202012.create_resource(dict(schema))
    place = resource.id() or "urn:functool:schema"
    known: Any = Registry().with_resource(place, resource).crawl()
    return _validator_class()({"$ref": place}, registry=known)


def _holds(schema: Any, word: str) -> bool:
    return f'"{word}"' in json.dumps(schema)


@lru_cache(maxsize=1)
def _validator_class() -> Any:
    """Return jsonschema's validator for 2020-12: patterns run on the linear engine."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError as SchemaMismatch
    from jsonschema.validators import extend

    def pattern(validator: Any, wanted: Any, instance: Any, schema: Any) -> Any:
        if isinstance(instance, str) and _found(wanted, instance) is False:
            yield SchemaMismatch("the pattern does not match")

    def pattern_properties(validator: Any, wanted: Any, instance: Any, schema: Any) -> Any:
        for source, part in wanted.items() if isinstance(instance, dict) else ():
            for name, value in instance.items():
                if _found(source, name):
                    yield from validator.descend(value, part, path=name, schema_path=source)

    def additional(validator: Any, wanted: Any, instance: Any, schema: Any) -> Any:
        patterns = schema.get("patternProperties") or ()
        known = schema.get("properties") or ()
        for name, value in instance.items() if isinstance(instance, dict) else ():
            if name in known or any(_found(source, name) for source in patterns):
                continue
            if wanted is False:
                yield SchemaMismatch("", path=[name])
            else:
                yield from validator.descend(value, wanted, path=name)

    def unique(validator: Any, wanted: Any, instance: Any, schema: Any) -> Any:
        items = instance if wanted and isinstance(instance, list) else []
        if len(set(map(_hashable, items))) < len(items):
            yield SchemaMismatch("an item stands twice")

    checks = {**Draft202012Validator.VALIDATORS, "pattern": pattern, "uniqueItems": unique}
    checks |= {"patternProperties": pattern_properties, "additionalProperties": additional}
    counted = {name: _counted(name, check) for name, check in checks.items()}
    return extend(Draft202012Validator, counted)
