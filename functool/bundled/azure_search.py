"""Search an index of Azure AI Search. Arguments and results are those of `search_tool`.

from functool.bundled.azure_search import AzureAISearchTool

tool = AzureAISearchTool("https://NAME.search.windows.net", "manuals", key="...")
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from inspect import iscoroutinefunction
from typing import Any, Literal

from functool import DefinitionError, ToolError, WrapperTool
from functool.bundled.search import Filters, SearchHit, SearchPage, search_tool, shortened
from functool.executors import in_thread

try:
    from azure.core.credentials import AzureKeyCredential
    from azure.core.exceptions import AzureError, HttpResponseError
    from azure.search.documents.aio import SearchClient
    from azure.search.documents.models import VectorizableTextQuery, VectorizedQuery
except ImportError as _missing:
    raise ImportError(
        "AzureAISearchTool needs azure-search-documents: pip install 'functool[azure-search]'"
    ) from _missing

__all__ = ["AzureAISearchTool", "AzureIndex", "Embed", "SearchFailed"]

NEIGHBOURS = 50
"""The least number of documents that a vector query ranks. Fewer spoil a hybrid ranking."""

Embed = Callable[[str], "Sequence[float] | Awaitable[Sequence[float]]"]


class SearchFailed(ToolError):
    """The service refused the query, or could not be reached."""


class AzureAISearchTool(WrapperTool):
    """A tool that searches one index of Azure AI Search.

    Args:
        endpoint: The URL of the service.
        index_name: The index.
        timeout: Seconds for one search with its retries.
        untrusted: Whether somebody else may have written documents. See `ToolSettings`.
        **options: The other arguments of `AzureIndex`: the key or credential, the mode, the fields.

    Raises:
        DefinitionError: The options contradict each other.
    """

    def __init__(
        self,
        endpoint: str,
        index_name: str,
        *,
        timeout: float = 30.0,
        untrusted: bool = True,
        **options: Any,
    ) -> None:
        index = AzureIndex(endpoint, index_name, **options)
        super().__init__(search_tool(index, untrusted=untrusted), timeout=timeout)


class AzureIndex:
    """An index for `search_tool`.

    Each query opens and closes a connection of its own, so it works in any event loop.

    Args:
        endpoint: The URL of the service.
        index_name: The index.
        key: An API key of the service; a query key is enough.
        credential: A token credential for `azure.core` (async), in place of a key.
        mode: `text` ranks by words, `vector` by meaning, `hybrid` by both.
        vector_field: The field of the vectors, for `vector` and `hybrid`.
        embed: Makes the vector of a text. Without it the service makes the vector, with the
            vectorizer of the index.
        id_field: The key field of the index.
        title_field: The field to show as title; None if the index has none.
        text_field: The field to make snippets of.
        metadata_fields: More fields to return.
        filter_fields: The fields that a model may filter by.
        filter: An OData filter that always applies, for instance to hide documents from users.
        semantic_configuration: The name of a semantic configuration, which ranks the best hits
            again by their meaning.
        client_options: Other arguments for the SDK's `SearchClient`: `api_version`, `audience`,
            `connection_verify`.
    """

    def __init__(
        self,
        endpoint: str,
        index_name: str,
        *,
        key: str | None = None,
        credential: Any = None,
        mode: Literal["text", "vector", "hybrid"] = "text",
        vector_field: str | None = None,
        embed: Embed | None = None,
        id_field: str = "id",
        title_field: str | None = "title",
        text_field: str = "content",
        metadata_fields: Sequence[str] = (),
        filter_fields: Sequence[str] = (),
        filter: str | None = None,
        semantic_configuration: str | None = None,
        client_options: Mapping[str, Any] | None = None,
    ) -> None:
        if (key is None) == (credential is None):
            raise DefinitionError("Azure AI Search needs a key or a credential, and not both")
        if mode not in ("text", "vector", "hybrid"):
            raise DefinitionError(f"mode is 'text', 'vector' or 'hybrid', not {mode!r}")
        if (mode == "text") != (vector_field is None):
            raise DefinitionError(
                "the modes 'vector' and 'hybrid' need a vector_field, and 'text' has none"
            )
        self._where = (endpoint, index_name)
        self._credential = AzureKeyCredential(key) if key is not None else credential
        self._mode = mode
        self._vector_field = vector_field
        self._embed = embed
        self._fields = (id_field, title_field, text_field)
        self._metadata_fields = tuple(metadata_fields)
        self._filter_fields = tuple(filter_fields)
        self._filter = filter
        self._semantic = semantic_configuration
        self._options = dict(client_options or {})

    async def query(
        self, text: str, *, limit: int = 10, offset: int = 0, filters: Filters | None = None
    ) -> SearchPage:
        """Ask the service for one page of hits, as `SearchIndex.query` does.

        Raises:
            SearchFailed: The service refused, or could not be reached.
            ToolError: A filter names a field that is not in `filter_fields`.
        """
        asked = self._words(text) | {
            "filter": self._where_clause(filters or {}),
            "include_total_count": True,
            "select": [field for field in (*self._fields, *self._metadata_fields) if field],
            "skip": offset,
            "top": limit,
        }
        if self._mode != "text":
            asked["vector_queries"] = [await self._vector(text, max(NEIGHBOURS, offset + limit))]
        try:
            async with SearchClient(*self._where, self._credential, **self._options) as client:
                found = await client.search(**asked)
                rows: list[Mapping[str, Any]] = []
                # The SDK goes on to further pages if the service says that there are any.
                async for row in found:
                    rows.append(row)
                    if len(rows) == limit:
                        break
                # Before the rows were read, this would cost a request of its own.
                total = await found.get_count()
        except HttpResponseError as error:
            raise SearchFailed(
                f"The search service answered with status {error.status_code}: {error.reason}."
            ) from error
        except AzureError as error:
            raise SearchFailed("The search service could not be reached.") from error
        end = offset + len(rows)
        more = bool(rows) and (end < total if total is not None else len(rows) == limit)
        return SearchPage(
            hits=[self._hit(row) for row in rows],
            total=end if total is None else total,
            next_offset=end if more else None,
        )

    def _words(self, text: str) -> dict[str, Any]:
        """Return the part of the request about words; it is empty if only the meaning counts."""
        if self._mode == "vector" and self._semantic is None:
            return {"search_text": None}
        asked: dict[str, Any] = {"search_text": None if self._mode == "vector" else text}
        if self._semantic is not None:
            asked |= {
                "query_type": "semantic",
                "semantic_configuration_name": self._semantic,
                "semantic_query": text,
            }
            return asked | {"query_caption": "extractive"}
        return asked | {
            "highlight_fields": self._fields[2],
            "highlight_pre_tag": "",
            "highlight_post_tag": "",
        }

    async def _vector(self, text: str, neighbours: int) -> VectorizedQuery | VectorizableTextQuery:
        shape: dict[str, Any] = {"k_nearest_neighbors": neighbours, "fields": self._vector_field}
        if self._embed is None:
            return VectorizableTextQuery(text=text, **shape)
        vector = await (
            self._embed(text) if iscoroutinefunction(self._embed) else in_thread(self._embed, text)
        )
        return VectorizedQuery(vector=[float(number) for number in vector], **shape)

    def _where_clause(self, filters: Filters) -> str | None:
        clauses = [f"({self._filter})"] if self._filter else []
        for field, value in filters.items():
            if field not in self._filter_fields:
                open_ones = ", ".join(self._filter_fields) or "none"
                raise ToolError(
                    f"Documents cannot be filtered by {field[:100]!r}. "
                    f"Fields for filters: {open_ones}."
                )
            clauses.append(f"{field} eq {_literal(value)}")
        return " and ".join(clauses) or None

    def _hit(self, row: Mapping[str, Any]) -> SearchHit:
        id_field, title_field, text_field = self._fields
        score = row.get("@search.reranker_score")
        return SearchHit(
            id=str(row.get(id_field, "")),
            title=str(row.get(title_field) or "") if title_field else "",
            snippet=_snippet(row, text_field),
            score=float(row.get("@search.score") or 0.0) if score is None else float(score),
            metadata={field: row.get(field) for field in self._metadata_fields},
        )


def _literal(value: Any) -> str:
    """Write a value as an OData literal. Quotes are doubled, so that no text ends the filter."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)


def _snippet(row: Mapping[str, Any], text_field: str) -> str:
    captions = row.get("@search.captions") or ()
    highlights = (row.get("@search.highlights") or {}).get(text_field) or ()
    text = " … ".join([caption.text for caption in captions if caption.text] or highlights) or str(
        row.get(text_field) or ""
    )
    return shortened(text)
