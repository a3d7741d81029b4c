"""Cut the answer of a program to the characters that a model may read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from functool.call import to_json


def _beginning(value: Any, room: int) -> tuple[Any, int]:
    """Return the beginning of a JSON value, and how many of `room` characters it leaves.

    Every value counts at least 1. If it is cut, its JSON text has at least `room` characters that
    are those of the whole value, and what is left is negative.
    """
    if isinstance(value, str):
        return value[: max(0, room) + 1], room - 1 - len(value)
    room -= 1
    if isinstance(value, Mapping):
        found: dict[str, Any] = {}
        for key, item in value.items():
            if room < 0:
                break
            name, room = _beginning(key, room)
            found[name], room = _beginning(item, room)
        return found, room
    if isinstance(value, (list, tuple)):
        items: list[Any] = []
        for item in value:
            if room < 0:
                break
            kept, room = _beginning(item, room)
            items.append(kept)
        return items, room
    return value, room


def within(shown: dict[str, Any], unprinted: int, limit: int) -> str:
    """Return the answer for the model, as JSON of at most `limit` characters."""
    printed = shown["printed"]
    value, left = _beginning(shown["value"], limit)
    if unprinted:
        printed += f"… [{unprinted} more characters were printed]"
    text = json.dumps({"printed": printed, "value": value}, ensure_ascii=False)
    if len(text) <= limit and left >= 0:
        return text
    note = "The answer was cut: print and return less."
    inner = to_json(value)
    room = limit
    while len(text) > limit and room > 1:
        room = room * 3 // 4
        cut = {"printed": printed[:room], "value": inner[:room], "note": note}
        text = json.dumps(cut, ensure_ascii=False)
    return text[:limit]
