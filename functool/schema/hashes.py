"""Bound how many items of a set, or keys of a dict, Python compares because of the same hash.

Python compares each such item with all others, so the time grows with the square of their number. A
model can write numbers with one hash, such as -1 and -2 or multiples of 2**61 - 1.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from itertools import count
from operator import attrgetter
from typing import Any

from pydantic_core import PydanticCustomError, SchemaValidator, core_schema

from functool.schema.parts import MAPPINGS, outside
from functool.schema.readings import work_left

FEW_ITEMS = 2_048
"""A shorter text has so few items that comparing all of them with each other takes no time."""

MOST_ALIKE = 32
"""How many different items may have the same hash: -1 and -2 have, so 32 tuples of five of them."""

_ANY = core_schema.any_schema()
_after: Any = core_schema.no_info_after_validator_function


def compared(made: Any) -> Any:
    """Return the core schema of a set or dict that is made in three steps.

    1. pydantic reads the items into a collection that does not compare them. It reads the input
       itself: a function before it would hand over Python values instead of JSON.
    2. `_refuse_alike` checks their hashes.
    3. pydantic makes the set or dict of them.
    """
    read = {key: part for key, part in made.items() if key not in _LENGTHS}
    # Lengths count equal items as one. So they are checked, like `fail_fast`, on what is made.
    whole: Any = {key: made[key] for key in ("type", "fail_fast", *_LENGTHS) if key in made}
    make = partial(_made, SchemaValidator(whole).validate_python)
    key = "keys_schema" if "keys_schema" in made else "items_schema"
    read[key] = _after(_Item, made.get(key, _ANY))
    return outside(read, partial(_after, make))


_LENGTHS = ("min_length", "max_length")


def is_hashed(core: Any) -> bool:
    """Whether a core schema is that of a set or dict whose items may all have one hash."""
    if core["type"] in MAPPINGS:  # JSON's keys are texts, whose hashes nobody can choose.
        return core.get("keys_schema", _ANY)["type"] not in ("str", "any")
    return core["type"] in ("set", "frozenset") and core.get("items_schema", _ANY)["type"] != "str"


class _Item:
    """An item of a set, or a key, that keeps its place, with a hash that nobody can choose."""

    __slots__ = ("place", "value")

    def __init__(self, value: Any) -> None:
        self.value, self.place = value, next(_places)


_places = count()


def _made(make: Callable[[Any], Any], read: Collection[_Item]) -> Any:
    work_left.get().look()
    items = sorted(read, key=attrgetter("place"))
    values = [item.value for item in items]
    _refuse_alike([value for value in values if _has_hash(value)])
    if isinstance(read, Mapping):
        return make({item.value: read[item] for item in items})
    return make(values)  # An item without a hash is an error of pydantic, which names its place.


def _has_hash(item: Any) -> bool:
    """Whether an item has a hash. A tuple may hold a list."""
    with suppress(TypeError):
        hash(item)
        return True
    return False


def _refuse_alike(items: Collection[Any]) -> None:
    """Raise an error if too many different items have the same hash."""
    if len(items) - len({*map(hash, items)}) < MOST_ALIKE:
        return
    groups: dict[int, list[Any]] = {}
    for item in items:
        group = groups.setdefault(hash(item), [])
        if item not in group:
            group.append(item)
        if len(group) > MOST_ALIKE:
            raise PydanticCustomError("same_hashes", "a list in which few items are hashed alike")
