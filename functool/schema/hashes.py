"""Bound how long Python compares items of sets, or keys of dicts, that have the same hash.

Python compares each such item with all others, so the time grows with the square of their number. A
model can write numbers with one hash, such as -1 and -2 or multiples of 2**61 - 1, and classes may
have slow comparisons.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextvars import ContextVar
from functools import cache, partial
from itertools import count, repeat
from operator import attrgetter
from time import thread_time
from types import SimpleNamespace
from typing import Any

from pydantic_core import PydanticCustomError, SchemaValidator, core_schema

from functool.schema.rewrite import MAPPINGS, inside

SECONDS, SECONDS_A_CHARACTER = 0.2, 2e-7
"""How long one validation may compare items with those that are different and have their hash."""

SHORT = 4_000
"""A shorter text is validated by pydantic alone: its few items are compared quickly."""

_ANY = core_schema.any_schema()
_after: Any = core_schema.no_info_after_validator_function

_left: ContextVar[SimpleNamespace | None] = ContextVar("left", default=None)
"""The seconds that one validation has left."""


def timed(core: Any, compile: Callable[[Any], Callable[..., Any]]) -> Callable[..., Any]:
    """Compile a core schema, so that items with one hash are compared for a limited time."""
    validate = compile(core)
    if not _holds(core, _is_hashed):
        return validate
    compared = cache(lambda: compile(_compared(core, _holds(core, _makes_values))))

    def validated(text: str, **options: Any) -> Any:
        if len(text) < SHORT:
            return validate(text, **options)
        seconds = SECONDS + SECONDS_A_CHARACTER * len(text)
        token = _left.set(SimpleNamespace(seconds=seconds))
        try:
            return compared()(text, **options)
        finally:
            _left.reset(token)

    return validated


def _holds(core: Any, is_meant: Callable[[Any], bool]) -> bool:
    """Whether a core schema, or one inside it, is one that is meant."""
    found: list[Any] = []
    inside(core, found.append)
    return is_meant(core) or any(_holds(part, is_meant) for part in found)


def _is_hashed(core: Any) -> bool:
    if core["type"] in MAPPINGS:  # JSON's keys are texts, whose hashes nobody can choose.
        return core.get("keys_schema", _ANY)["type"] not in ("str", "any")
    return core["type"] in ("set", "frozenset") and core.get("items_schema", _ANY)["type"] != "str"


def _makes_values(core: Any) -> bool:
    """Whether this schema may give a Python value, such as a set, to the schemas inside it."""
    makes = core["type"] in ("function-before", "function-wrap", "chain")
    return makes or any(part.get("validate_default") for part in (core, core.get("config", {})))


def _compared(core: Any, exact: bool) -> Any:
    """Return a core schema in which each set or dict is made in three steps.

    1. pydantic reads the items from JSON into a collection that does not compare them.
    2. `_refuse_alike` checks their hashes.
    3. pydantic makes the set or dict of them.

    `exact` is slower, and is for schemas that may also read Python values.
    """
    inner = {**inside(core, partial(_compared, exact=exact))}
    if not _is_hashed(core):
        return inner
    ref, lengths = _taken(inner, "ref"), _taken(inner, "min_length", "max_length")
    # Lengths count equal items as one. So they are checked, like `fail_fast`, on what is made.
    whole: Any = {"type": inner["type"], "fail_fast": inner.get("fail_fast", False), **lengths}
    read, made_of = _uncompared(inner, exact)
    make = partial(made_of, SchemaValidator(whole).validate_python)
    return {**_after(make, read), **ref}


def _taken(schema: Any, *keys: str) -> dict[str, Any]:
    """Remove keys from a schema, and return those that it had."""
    return {key: schema.pop(key) for key in keys if key in schema}


def _uncompared(whole: Any, exact: bool) -> tuple[Any, Callable[..., Any]]:
    """Return a schema that reads a set or dict without comparing its items, and what makes it.

    The schema reads the input itself. A function before it would hand over Python values instead of
    JSON, and pydantic accepts other types there.

    Args:
        whole: The schema of the set or dict.
        exact: Whether Python values are read as pydantic reads them for the set itself.
    """
    if "keys_schema" in whole:  # A dict of `repeat(key)`, which holds the key and hides its hash.
        return {**whole, "keys_schema": _after(repeat, whole["keys_schema"])}, _dict_of
    items = whole.get("items_schema", _ANY)
    if not exact:
        a_tuple = {"type": "tuple", "items_schema": [items], "variadic_item_index": 0}
        return {**whole, **a_tuple}, _set_of
    # A set of `_Item`, which is slower. A tuple would not do for Python values: in strict mode it
    # refuses a Python set, and a union takes another member.
    return {**whole, "items_schema": _after(_Item, items)}, _in_order


def _dict_of(make: Any, read: Any) -> Any:
    keys = [*map(next, read)]
    _refuse_alike(keys)
    return make(dict(zip(keys, read.values(), strict=True)))


class _Item:
    """An item of a set that keeps its place, with a hash that nobody can choose."""

    __slots__ = ("place", "value")

    def __init__(self, value: Any) -> None:
        self.value, self.place = value, next(_places)


_places = count()


def _in_order(make: Any, read: Any) -> Any:
    return _set_of(make, [item.value for item in sorted(read, key=attrgetter("place"))])


def _set_of(make: Any, items: Collection[Any]) -> Any:
    try:
        _refuse_alike(items)
    except TypeError:  # Some items have no hash. pydantic's error names their places.
        make([*map(_without_hash, items)])
        raise
    return make(items)


def _without_hash(item: Any) -> Any:
    """Return an item if it has no hash, and otherwise None."""
    try:
        hash(item)
    except TypeError:
        return item
    return None


def _refuse_alike(items: Collection[Any]) -> None:
    """Raise an error if it takes long to compare the different items that have the same hash."""
    if len(items) - len({*map(hash, items)}) < 2:
        return
    # A body reads an iterator after the validation has ended. Then each set has a time of its own.
    left = _left.get() or SimpleNamespace(seconds=SECONDS)
    groups: dict[int, list[Any]] = {}
    for item in items:
        group = groups.setdefault(hash(item), [])
        if not (_is_among(item, group, left) if len(group) > 1 else item in group):
            group.append(item)


def _is_among(item: Any, others: list[Any], left: SimpleNamespace) -> bool:
    start = thread_time()
    found = item in others
    left.seconds -= thread_time() - start
    if left.seconds < 0:
        raise PydanticCustomError("same_hashes", "a list in which few items are hashed alike")
    return found
