"""Search texts by their words, with BM25F over the stems that SQLite's FTS5 makes.

FTS5 folds case and accents, and removes English endings. The index is in memory and computes all
weights when it is built, so a search only adds up a few lists of numbers.
"""

from __future__ import annotations

import heapq
import math
import re
import sqlite3
import threading
import weakref
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from functool import DefinitionError
from functool.layers.forking import no_fork

FIELDS = {
    "name": (5.0, 0.4),
    "description": (3.0, 0.9),
    "arguments": (0.3, 0.6),
    "texts of arguments": (0.7, 1.0),
    "choices": (2.0, 0.3),
    "examples and tags": (3.0, 0.9),
}
"""By field: the weight of a word in it, and how strongly the length of the field reduces it."""

SATURATION = 0.5
"""BM25's k1: the smaller it is, the less a repeated word adds to the score of a document."""

NAME_SHARE = 0.3
"""The bonus for a query that has the whole name, in words of average weight."""

LONG_QUESTION = 16
"""From this many different words on, a query may ask for several tools."""

ANSWERED = 0.3
"""The part of a word's score that is lost in a long query once a better match has the word."""

CANDIDATES = 60
MAX_TERMS = 100
MAX_QUERY = 20_000
MAX_WORD = 64
MIN_DIGITS = 3
"""Shorter numbers are no words: questions are full of them, and they tell few tools apart."""

STOP_WORDS = set(
    re.findall(
        r"\w+",
        """
        a about also am an and any are as at be been but by can could did do does for from had has
        have he how i if in into is it its me my of on or our please she so some than that the their
        them then there these they this to us was we were what when where which who whom why will
        with would you your
        """,
    )
)

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
"""The letters, for a regular expression, of scripts without spaces between words, or with endings
that FTS5 does not know."""

_WORD = re.compile(rf"[{UNSPACED}]+|[^\W_{UNSPACED}]+")
_NUMBER = re.compile(r"(?<![^\W_])\d+(?![^\W_])")
_IS_UNSPACED = re.compile(rf"[{UNSPACED}]")


def words(text: str) -> list[str]:
    """Return the words of a text, split at case and underscores, without short numbers.

    Scripts without spaces give pairs of characters instead of words.
    """
    found: list[str] = []
    for word in _WORD.findall(_HUMP.sub(" ", text)):
        if word.isnumeric() and len(word) < MIN_DIGITS:
            continue
        if len(word) > 2 and _IS_UNSPACED.match(word):
            found += pairs(word[: MAX_WORD + 1])
        else:
            found.append(word[:MAX_WORD].lower())
    return found


def without_numbers(text: str) -> str:
    """Return a text without its numbers, which tell tools apart in names, but seldom elsewhere."""
    return _NUMBER.sub(" ", text)


def pairs(word: str) -> list[str]:
    """Return each pair of neighbouring characters. In a script without spaces they act as words."""
    return [word[at : at + 2] for at in range(len(word) - 1)]


class Stems:
    """The stems of words, as FTS5 makes them."""

    def __init__(self) -> None:
        # The lock lets one thread at a time use the connection.
        self._database = sqlite3.connect(":memory:", check_same_thread=False)
        weakref.finalize(self, self._database.close)
        self._lock = threading.Lock()
        try:
            self._database.executescript(
                "create virtual table words using fts5(word, tokenize='porter unicode61');"
                "create virtual table stems using fts5vocab(words, instance)"
            )
        except sqlite3.OperationalError as error:
            raise DefinitionError(
                f"a Catalog needs SQLite with FTS5, and this Python's has none ({error})"
            ) from error

    def of(self, found: Iterable[str]) -> dict[str, list[str]]:
        """Return the stems of each word: almost always one."""
        rows = list(dict.fromkeys(found))
        stems: dict[str, list[str]] = {word: [] for word in rows}
        with no_fork(), self._lock:
            self._database.executemany(
                "insert into words (rowid, word) values (?, ?)", enumerate(rows)
            )
            for stem, row in self._database.execute("select term, doc from stems"):
                stems[rows[row]].append(stem)
            self._database.execute("delete from words")
        return stems


class WordIndex:
    """An index of documents. A document is a list with one text for each of `FIELDS`."""

    def __init__(self, documents: Iterable[Sequence[str]]) -> None:
        one: dict[str, str] = {}  # Keeps one copy of each word in memory.
        fields = [
            [[one.setdefault(word, word) for word in words(text)] for text in document]
            for document in documents
        ]
        self._known = Stems().of(one)
        # A table of its own, because FTS5 reads past all the words that a table had before.
        self._stems = Stems()
        self._rarity: dict[str, float] = {}
        self._postings: dict[str, tuple[array[int], array[float]]] = {}
        self._weigh([[self._stemmed(text) for text in texts] for texts in fields])

    def _stemmed(self, found: Iterable[str]) -> list[str]:
        return [stem for word in found for stem in self._known[word]]

    def _weigh(self, documents: list[list[list[str]]]) -> None:
        """Compute the score of each stem in each document."""
        count = max(1, len(documents))
        average = [
            max(1.0, sum(len(texts[i]) for texts in documents) / count) for i in range(len(FIELDS))
        ]
        holding = Counter(stem for texts in documents for stem in {s for t in texts for s in t})
        rare = {s: math.log(1 + (count - n + 0.5) / (n + 0.5)) for s, n in holding.items()}
        share = NAME_SHARE * sum(rare.values()) / max(1, len(rare))
        for number, texts in enumerate(documents):
            name = set(texts[0])
            bonus = share / (sum(rare[stem] for stem in name) or 1.0)
            for stem, worth in _worth_of_stems(texts, average).items():
                score = rare[stem] * (worth / (SATURATION + worth) + bonus * (stem in name))
                numbers, scores = self._postings.setdefault(stem, (array("I"), array("f")))
                numbers.append(number)
                scores.append(score)
        self._rarity = rare

    def terms(self, query: str) -> dict[str, str]:
        """Return the stems of a query that the index knows, each with its word.

        If there are more than `MAX_TERMS`, return the rarest.
        """
        asked = dict.fromkeys(words(query[:MAX_QUERY]))
        telling = [word for word in asked if word not in STOP_WORDS] or asked
        new = [word for word in telling if word not in self._known]
        stems = self._stems.of(new) if new else {}
        found = {
            stem: word
            for word in telling
            for stem in self._known.get(word) or stems[word]
            if stem in self._postings
        }
        if len(found) > MAX_TERMS:
            rarest = sorted(found, key=lambda stem: -self._rarity[stem])[:MAX_TERMS]
            found = {stem: found[stem] for stem in rarest}
        return found

    def stems(self, text: str) -> set[str]:
        """Return the stems of a text that is in the index, of a long one those at its beginning."""
        return {stem for word in words(text[:MAX_QUERY]) for stem in self._known.get(word, ())}

    def search(
        self, query: str, limit: int, keep: Callable[[int], bool]
    ) -> list[tuple[int, float]]:
        """Return number and score of the best documents that `keep` accepts, best first."""
        terms = self.terms(query)
        scores: dict[int, float] = {}
        for stem in terms:
            for number, score in zip(*self._postings[stem], strict=True):
                scores[number] = scores.get(number, 0.0) + score
        most = max(limit, CANDIDATES)
        best = [found for found, _ in zip(_best_first(scores, keep), range(most), strict=False)]
        if len(terms) < LONG_QUESTION:
            return best[:limit]
        parts: dict[int, dict[str, float]] = {number: {} for number, _ in best}
        for stem in terms:
            for number, score in zip(*self._postings[stem], strict=True):
                if number in parts:
                    parts[number][stem] = score
        return _spread(parts, limit)


def _worth_of_stems(texts: list[list[str]], average: list[float]) -> dict[str, float]:
    """Return how much each stem of a document counts: by its fields, and how short these are."""
    found: dict[str, float] = {}
    for text, mean, (weight, shortness) in zip(texts, average, FIELDS.values(), strict=True):
        # `or 1` avoids a division by zero for an empty text.
        worth = weight / (1 - shortness + shortness * (len(text) or 1) / mean)
        for stem in text:
            found[stem] = found.get(stem, 0.0) + worth
    return found


def _best_first(
    scores: dict[int, float], keep: Callable[[int], bool]
) -> Iterator[tuple[int, float]]:
    """Yield the documents that `keep` accepts, best first. Equal scores keep their order."""
    heap = [(-score, number) for number, score in scores.items()]
    heapq.heapify(heap)
    while heap:
        score, number = heapq.heappop(heap)
        if keep(number):
            yield number, -score


def _spread(parts: dict[int, dict[str, float]], limit: int) -> list[tuple[int, float]]:
    """Return the best documents. A word counts less once a document before it has the word."""
    chosen: list[tuple[int, float]] = []
    answered: dict[str, float] = {}

    def worth(number: int) -> float:
        return sum(
            score - ANSWERED * min(score, answered.get(stem, 0.0))
            for stem, score in parts[number].items()
        )

    while parts and len(chosen) < limit:
        best = max(parts, key=worth)
        chosen.append((best, worth(best)))
        for stem, score in parts.pop(best).items():
            answered[stem] = max(score, answered.get(stem, 0.0))
    return chosen
