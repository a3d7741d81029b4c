"""Find the known names that are most like a name that nobody knows, for error texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import nlargest, nsmallest
from itertools import pairwise

MAX_COMPARED = 2_000
"""How many known names an unknown name is compared with. One comparison takes about 5 µs."""


def close_names(name: str, known: Iterable[str], count: int = 1) -> list[str]:
    """Return at most `count` of the known names that are most like a name, the closest first.

    If there are very many, those of a similar length are compared. A foreign schema may have
    100,000.
    """
    name, known = name[:64], [*known]
    if len(known) > MAX_COMPARED:
        known = nsmallest(MAX_COMPARED, known, key=lambda other: abs(len(other) - len(name)))
    parts = _parts(name)
    rated = ((likeness(parts, other), other) for other in known)
    return [other for _, other in nlargest(count, (each for each in rated if each[0] >= 0.54))]


def hint_at(name: str, known: Sequence[str]) -> str:
    """Return the known name that is most like an unknown one, or the first of them, as a hint."""
    close = close_names(name, known)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known[:20])}"


def _parts(name: str) -> set[str]:
    """Return the letters of a name, and each two that stand side by side, also with its ends."""
    return {*name, *map("".join, pairwise(name and f" {name} "))}


def likeness(parts: set[str], name: str) -> float:
    """Return how many of these parts a name shares, from 0 to 1 (the Dice coefficient)."""
    own = _parts(name[:150])
    return 2 * len(parts & own) / (len(parts) + len(own) or 1)
