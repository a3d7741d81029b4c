"""Find the fields of a multipart body that are files, in schemas that somebody else wrote."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from functool import DefinitionError
from functool.bundled.openapi_document import Document, mapping, sequence

MAX_COMBINED, MAX_IN_FIELD = 100, 8
"""How many of the schemas that a body or one of its fields combines are looked at for files."""

MAX_LOOKS = 200_000
"""How many fields and schemas of a document are looked at for files. Operations can share them."""


class Files:
    """Find the files in the bodies of a document, which may share schemas.

    Args:
        document: The document, which resolves references.
    """

    def __init__(self, document: Document) -> None:
        self._document = document
        self._known: dict[str, bool] = {}
        self._targets: dict[str, dict[str, Any]] = {}
        self._looks = MAX_LOOKS

    def of(self, schema: Any) -> frozenset[str]:
        """Return the names of the fields of a body that are files, or lists of files.

        Raises:
            DefinitionError: The bodies of the document take too long.
        """
        return frozenset(
            name
            for part in self._combined(schema, MAX_COMBINED)
            for name, field in mapping(part.get("properties")).items()
            if self._is_file(field)
        )

    def _is_file(self, schema: Any) -> bool:
        self._look()
        reference = mapping(schema).get("$ref")
        if not isinstance(reference, str):
            return self._has_only_files(schema)
        if reference not in self._known:  # Many fields may refer to one schema.
            self._known[reference] = self._has_only_files(schema)
        return self._known[reference]

    def _has_only_files(self, schema: Any) -> bool:
        """Whether every text that a field may be, alone or in a list, is a file."""
        parts = list(self._combined(schema, MAX_IN_FIELD, "items"))
        texts = [_is_binary(part) for part in parts if _is_binary(part) or _is_text(part)]
        return bool(texts) and all(texts)

    def _combined(self, schema: Any, limit: int, *words: str) -> Iterator[dict[str, Any]]:
        """Yield a schema and those in it, such as the null of an optional field."""
        waiting = deque([schema])
        for _ in range(limit):
            if not waiting:
                return
            self._look()
            part = self._target(waiting.popleft())
            yield part
            for word in ("allOf", "anyOf", "oneOf"):
                waiting.extend(sequence(part.get(word))[:limit])
            waiting.extend(part[word] for word in words if word in part)

    def _look(self) -> None:
        self._looks -= 1
        if self._looks < 0:
            raise DefinitionError("the bodies of the document take too long to look at for files")

    def _target(self, schema: Any) -> dict[str, Any]:
        reference = mapping(schema).get("$ref")
        if not isinstance(reference, str):
            return mapping(schema)
        if reference not in self._targets:  # It may lead through long references.
            self._targets[reference] = {}
            with suppress(DefinitionError):  # A reference that leads nowhere means anything.
                self._targets[reference] = mapping(self._document.resolve(schema))
        return self._targets[reference]


def _is_binary(part: dict[str, Any]) -> bool:
    return part.get("format") == "binary" or (
        "contentMediaType" in part and "contentEncoding" not in part
    )


def _is_text(part: dict[str, Any]) -> bool:
    return "string" in (part.get("type"), *sequence(part.get("type")))
