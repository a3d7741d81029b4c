"""A search tool, and an index that needs no server: SQLite's FTS5.

    from functool.bundled.search import SearchIndex, search_tool

    index = SearchIndex("notes.db")
    index.add("n1", "Der Zürichsee ist warm.", title="Seen", metadata={"year": 2026})
    tool = search_tool(index)

The tool accepts any object with a `query` like that of `SearchIndex`, sync or async.
"""

from __future__ import annotations

import json
import re
import sqlite3
import threading
import unicodedata
import weakref
from collections.abc import Awaitable, Iterable, Mapping
from contextlib import closing
from inspect import iscoroutinefunction
from os import PathLike
from typing import Annotated, Any, NotRequired, Protocol, TypeAlias

from pydantic import Field
from typing_extensions import TypedDict

from functool import DefinitionError, FunctionTool, Tool, ToolError, ToolSettings
from functool.executors import in_thread
from functool.layers.forking import no_fork
from functool.layers.words import UNSPACED, pairs

__all__ = ["Document", "Filters", "Index", "SearchHit", "SearchIndex", "SearchPage", "search_tool"]

MAX_LIMIT = 50
MAX_OFFSET = 10_000
MAX_FILTERS = 100
MAX_TERMS = 64
"""How many words of one query are looked up. The others are ignored."""

SNIPPET_WORDS = 40
MAX_SNIPPET = 500
"""How many characters of a snippet are shown, because a word may have any length."""

TITLE_WEIGHT = 3.0

# The tokenizer reads a run of letters as one word, and these scripts put no spaces between words.
# So a break is added around each letter. Each letter is then a word of the index, and a word of the
# query becomes a phrase. The break is invisible, and it is removed from every answer.
_UNSPACED = re.compile(f"[{UNSPACED}]")
_RUNS = re.compile(f"[{UNSPACED}]+|[^{UNSPACED}]+")
_BREAK = "\u200b"
_TERM = re.compile(r'"([^"]+)"|(\S+)')

TABLES = (
    """CREATE TABLE IF NOT EXISTS documents
       (key INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, metadata TEXT NOT NULL)""",
    """CREATE VIRTUAL TABLE IF NOT EXISTS words
       USING fts5(title, text, tokenize="unicode61 remove_diacritics 2")""",
)
_FILTER = (
    " AND EXISTS (SELECT 1 FROM json_each(metadata) WHERE key = ? AND value = ? AND type IN ({}))"
)
_RANK = f"bm25(words, {TITLE_WEIGHT}, 1.0)"
_SHOWN = f"id, title, snippet(words, 1, '', '', '…', {SNIPPET_WORDS}), -{_RANK}, metadata"

Scalar: TypeAlias = str | int | float | bool
Filters: TypeAlias = Mapping[str, Scalar]


class Document(TypedDict):
    """A document of an index."""

    id: str
    text: str
    title: NotRequired[str]
    metadata: NotRequired[Mapping[str, Any]]


class SearchHit(TypedDict):
    """A document that was found.

    `snippet` is the part that fits the query; a higher `score` fits better.
    """

    id: str
    title: str
    snippet: str
    score: float
    metadata: dict[str, Any]


class SearchPage(TypedDict):
    """A page of hits, the best first. `total` counts all hits of the query.

    `next_offset` is where the next page begins. It is None on the last page.
    """

    hits: list[SearchHit]
    total: int
    next_offset: int | None


class Index(Protocol):
    """What `search_tool` searches. `SearchIndex.query` describes the method."""

    def query(
        self, text: str, *, limit: int, offset: int, filters: Filters | None
    ) -> SearchPage | Awaitable[SearchPage]:
        """Find documents."""
        ...


class SearchIndex:
    """Documents in a SQLite database, ranked by BM25. A word in the title counts three times.

    A search ignores case and the accents of Latin letters. Chinese, Japanese, Korean, Thai, Lao,
    Khmer and Burmese need no spaces. All methods may be called from any thread.

    Args:
        path: The database file, which is made if it is missing. By default the index is in memory.
    """

    def __init__(self, path: str | PathLike[str] = ":memory:") -> None:
        self._lock = threading.Lock()
        self._db = sqlite3.connect(path, check_same_thread=False)
        self._close = weakref.finalize(self, self._db.close)
        with no_fork(), self._lock, self._db:
            for table in TABLES:
                self._db.execute(table)

    def __len__(self) -> int:
        with no_fork(), self._lock:
            return int(self._db.execute("SELECT count(*) FROM documents").fetchone()[0])

    def add(
        self, id: str, text: str, *, title: str = "", metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Add a document.

        Raises:
            ValueError: There is a document with this id already.
        """
        self.add_all([Document(id=id, text=text, title=title, metadata=metadata or {})])

    def add_all(self, documents: Iterable[Document]) -> None:
        """Add documents, all of them or none. They are collected before the first is added.

        Raises:
            ValueError: An id is in use already, or occurs twice.
        """
        documents = [*documents]  # Making them may take long, use this index or fork.
        with no_fork(), self._lock, self._db:
            for document in documents:
                try:
                    row = self._db.execute(
                        "INSERT INTO documents (id, metadata) VALUES (?, ?)",
                        (document["id"], _json(document.get("metadata"))),
                    )
                except sqlite3.IntegrityError as error:
                    raise ValueError(f"there is a document {document['id']!r} already") from error
                self._write(row.lastrowid, document.get("title", ""), document["text"])

    def update(
        self, id: str, text: str, *, title: str = "", metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Replace the document with this id.

        Raises:
            KeyError: There is no document with this id.
        """
        with no_fork(), self._lock, self._db:
            key = self._key(id)
            self._db.execute(
                "UPDATE documents SET metadata = ? WHERE key = ?", (_json(metadata), key)
            )
            self._db.execute("DELETE FROM words WHERE rowid = ?", (key,))
            self._write(key, title, text)

    def delete(self, id: str) -> None:
        """Remove a document.

        Raises:
            KeyError: There is no document with this id.
        """
        with no_fork(), self._lock, self._db:
            key = self._key(id)
            self._db.execute("DELETE FROM documents WHERE key = ?", (key,))
            self._db.execute("DELETE FROM words WHERE rowid = ?", (key,))

    def query(
        self, text: str, *, limit: int = 10, offset: int = 0, filters: Filters | None = None
    ) -> SearchPage:
        """Find the documents that have any of the words. More and rarer words rank higher.

        Args:
            text: Words, and "phrases in double quotes". There is no other syntax.
            limit: How many hits to return at most.
            offset: How many hits to skip.
            filters: Values that a document's metadata must have.
        """
        match = _match(text)
        if not match:
            return SearchPage(hits=[], total=0, next_offset=None)
        where = "words MATCH ?"
        values: list[Scalar] = [match]
        for name, value in (filters or {}).items():
            where += _FILTER.format(_types(value))
            values += [name, _bounded(value)]
        source = f"FROM words JOIN documents ON words.rowid = documents.key WHERE {where}"
        with no_fork(), self._lock, closing(self._db.cursor()) as cursor:
            total = int(cursor.execute(f"SELECT count(*) {source}", values).fetchone()[0])
            rows = cursor.execute(
                f"SELECT {_SHOWN} {source} ORDER BY {_RANK}, documents.key LIMIT ? OFFSET ?",
                [*values, limit, offset],
            ).fetchall()
        hits = [
            SearchHit(
                id=id,
                title=_joined(title),
                snippet=shortened(_joined(snippet)),
                score=score,
                metadata=json.loads(metadata),
            )
            for id, title, snippet, score, metadata in rows
        ]
        end = offset + len(hits)
        return SearchPage(hits=hits, total=total, next_offset=end if hits and end < total else None)

    def close(self) -> None:
        """Close the database. This also happens when the index is garbage-collected."""
        with no_fork(), self._lock:
            self._close()

    def _key(self, id: str) -> int:
        row = self._db.execute("SELECT key FROM documents WHERE id = ?", (id,)).fetchone()
        if row is None:
            raise KeyError(id)
        return int(row[0])

    def _write(self, key: int | None, title: str, text: str) -> None:
        row = (key, _spaced(title), _spaced(text))
        self._db.execute("INSERT INTO words (rowid, title, text) VALUES (?, ?, ?)", row)


def search_tool(index: Index, *, untrusted: bool = True) -> Tool:
    """Return a tool `search(query, limit=10, offset=0, filters=None)` over an index.

    Args:
        index: A `SearchIndex`, or an object with such a `query`. A sync `query` runs in a thread.
        untrusted: Whether somebody else may have written documents. See `ToolSettings`.

    Raises:
        DefinitionError: The index has no `query`.
    """
    if not callable(getattr(index, "query", None)):
        wanted = "a SearchIndex, or an object with the same method `query`"
        raise DefinitionError(f"search_tool takes {wanted}, not {type(index).__name__}")

    async def search(
        query: Annotated[str, Field(min_length=1, max_length=2_000)],
        limit: Annotated[int, Field(ge=1, le=MAX_LIMIT)] = 10,
        offset: Annotated[int, Field(ge=0, le=MAX_OFFSET)] = 0,
        filters: dict[str, Scalar] | None = None,
    ) -> SearchPage:
        """Search the documents. The best hits come first.

        Args:
            query: Words to look for; "a phrase" in double quotes is looked for as it stands.
            limit: How many hits to return.
            offset: How many hits to skip: the `next_offset` of the page before.
            filters: Metadata fields and the values that they must have.
        """
        if filters is not None and len(filters) > MAX_FILTERS:
            raise ToolError(f"A search takes at most {MAX_FILTERS} filters.")
        given: dict[str, Any] = {"limit": limit, "offset": offset, "filters": filters}
        if iscoroutinefunction(index.query):
            return await index.query(query, **given)
        page: SearchPage = await in_thread(index.query, query, **given)
        return page

    return FunctionTool(
        search,
        name="search",
        settings=ToolSettings(
            read_only=True, idempotent=True, tags=("search",), untrusted=untrusted
        ),
    )


def _match(text: str) -> str:
    """Return a query for FTS5. Every word and phrase is quoted, so none is an operator."""
    terms: list[str] = []
    for phrase, word in _TERM.findall(text):
        for term in [phrase] if phrase else _words(word):
            plain = _spaced(term).replace('"', " ").replace("\0", " ")
            if any(unicodedata.category(character)[0] in "LN" for character in plain):
                terms.append(f'"{plain}"')
    return " OR ".join(dict.fromkeys(terms[:MAX_TERMS]))


def _words(text: str) -> list[str]:
    """Split a text into terms. In scripts without spaces, a term is two neighbouring letters."""
    words: list[str] = []
    for run in _RUNS.findall(unicodedata.normalize("NFC", text)):
        unspaced = len(run) > 2 and _UNSPACED.match(run)
        words += pairs(run) if unspaced else [run]
    return words


def _spaced(text: str) -> str:
    plain = (
        unicodedata.normalize("NFC", text).encode("utf-8", "replace").decode().replace(_BREAK, "")
    )
    return _UNSPACED.sub(rf"{_BREAK}\g<0>{_BREAK}", plain)


def _joined(text: str) -> str:
    return text.replace(_BREAK, "")


def shortened(text: str) -> str:
    """Return a snippet of bounded length."""
    return text if len(text) <= MAX_SNIPPET else text[: MAX_SNIPPET - 1] + "…"


def _bounded(value: Scalar) -> Scalar:
    """Return a larger integer than 64 bits as a float, as SQLite reads it in a document."""
    return float(str(value)) if isinstance(value, int) and not -(2**63) <= value < 2**63 else value


def _types(value: Scalar) -> str:
    """Return the JSON types that a filter's value matches. SQLite would read a JSON true as 1."""
    if isinstance(value, bool):
        return "'true'" if value else "'false'"
    return "'text'" if isinstance(value, str) else "'integer', 'real'"


def _json(metadata: Mapping[str, Any] | None) -> str:
    return json.dumps(dict(metadata or {}), allow_nan=False)
