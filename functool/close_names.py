"""Find the known names that are most like a name that nobody knows, for error texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from heapq import nlargest, nsmallest

MAX_COMPARED = 30
"""How many known names an unknown name is compared with. One comparison takes about 5 µs."""


def close_names(name: str, known: Iterable[str], count: int = 1) -> list[str]:
    """Return at most `count` of the known names that are most like a name, the closest first.

    These are the names that `difflib.get_close_matches` finds. If there are many, those of a
    similar length with the same pairs of letters are compared. A foreign schema may have 100,000.
    """
    name, known = name[:64], [*known]
    if len(known) > MAX_COMPARED:
        # Names that a model wrote are not cached.
        size, pairs = len(name), _pairs.__wrapped__(name)
        known = nsmallest(2_000, known, key=lambda other: abs(len(other) - size))
        known.sort(key=lambda other: len(pairs & _pairs(other[:150])) / (-size - len(other) or 1))
    rated = ((likeness(other, name), other) for other in known[:MAX_COMPARED])
    alike = [each for each in rated if each[0] >= 0.6]
    return [other for _, other in nlargest(count, alike)] if alike else []


def hint_at(name: str, known: Sequence[str]) -> str:
    """Return the known name that is most like an unknown one, or all of them, as a hint."""
    close = close_names(name, known)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"


def likeness(one: str, other: str) -> float:
    """Return the ratio of two texts as `difflib.SequenceMatcher` computes it, only faster.

    Texts of lengths that make a ratio of 0.6 impossible are not compared: their ratio is 0.
    """
    total = len(one) + len(other)
    if not total:
        return 1.0
    shorter = min(len(one), len(other))
    return 2.0 * _matching(one, other, shorter) / total if 2.0 * shorter / total >= 0.6 else 0.0


def _matching(one: str, other: str, most: int) -> int:
    """Return how many letters match: those of the longest common part, and left and right of it.

    The caller knows that no common part is longer than `most`.
    """
    size = start = at = 0
    length = len(one)
    while at + size < length and size < most:
        if one[at : at + size + 1] in other:
            size, start = size + 1, at
        else:
            at += 1
    end = start + size
    found = other.find(one[start:end])
    matching = size
    if size and start and found:
        matching += _matching(one[:start], other[:found], size)
    if size and end < length and found + size < len(other):
        matching += _matching(one[end:], other[found + size :], size)
    return matching


@lru_cache(maxsize=2_048)
def _pairs(name: str) -> frozenset[str]:
    return frozenset(name[i : i + 2] for i in range(len(name) - 1))
