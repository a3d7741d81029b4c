"""jsonschema as functool runs it: it fetches nothing, and nobody can make it work for long.

Patterns run on pydantic's linear engine. Each keyword that is evaluated counts as one step, since
unions of references that double, or a long list, would otherwise hold the event loop for minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, partial
from typing import Any

from functool.binding.json_text import linear_pattern

MAX_STEPS = 100_000
"""How many keywords one check may evaluate: about half a second's work."""

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

    def step(validator: Any, wanted: Any, instance: Any, schema: Any) -> Any:
        _spend(steps)
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


@lru_cache(maxsize=1)
def validator_class() -> Any:
    """Return jsonschema's validator for 2020-12: patterns run on the linear engine."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError as SchemaMismatch
    from jsonschema.validators import extend
    from referencing import Registry

    def pattern(validator: Any, wanted: Any, instance: Any, schema: Any) -> Any:
        search = linear_pattern(wanted)
        if isinstance(instance, str) and search is not None and not search(instance):
            yield SchemaMismatch("the pattern does not match")

    def pattern_properties(validator: Any, wanted: Any, instance: Any, schema: Any) -> Any:
        for source, part in wanted.items() if isinstance(instance, dict) else ():
            search = linear_pattern(source)
            for name, value in instance.items():
                if search is not None and search(name):
                    yield from validator.descend(value, part, path=name, schema_path=source)

    def additional(validator: Any, wanted: Any, instance: Any, schema: Any) -> Any:
        patterns = schema.get("patternProperties") or ()
        searches = [search for search in map(linear_pattern, patterns) if search is not None]
        known = schema.get("properties") or ()
        for name, value in instance.items() if isinstance(instance, dict) else ():
            if name in known or any(search(name) for search in searches):
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
    return partial(extend(Draft202012Validator, counted), registry=Registry())
