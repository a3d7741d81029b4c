"""Read an OpenAPI document, which is data that somebody else wrote.

Nothing is fetched and no file is opened. Invisible characters are removed. Size and depth are
limited before other code walks through the document.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, TypeAlias
from urllib.parse import unquote

from functool import DefinitionError
from functool.bundled.openapi_yaml import read_yaml
from functool.integrations.visible import visible
from functool.pointers import escaped, unescaped

Spec: TypeAlias = Mapping[str, Any] | str | bytes

MAX_BYTES = 64 * 1024 * 1024
MAX_NODES = 2_000_000
MAX_DEPTH = 200
MAX_DIGITS = 4_300
"""Digits of an integer. Python reads and writes no more."""

MAX_HOPS = 32
"""How often one reference may lead to another."""

MAX_REFERENCE = 10_000
"""Characters of one reference."""

_TOO_LONG = 10**MAX_DIGITS
METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")


@dataclass(frozen=True, slots=True)
class Document:
    """An OpenAPI document of version 3, as a cleaned copy of limited size."""

    root: dict[str, Any]
    legacy: bool
    """Whether this is version 3.0, whose schemas are not JSON Schema yet."""

    size: int = 0
    """How many values the document has."""

    def paths(self) -> Iterator[tuple[str, Any]]:
        """Yield each path with its path item, which may be a reference."""
        yield from mapping(self.root.get("paths")).items()

    def resolve(self, node: Any) -> Any:
        """Follow references inside of the document until the node is not one.

        Raises:
            DefinitionError: A reference leads out of the document or to nothing, or the references
                lead in a circle or through too many others.
        """
        first = node
        for _ in range(MAX_HOPS):
            if not (isinstance(node, dict) and isinstance(node.get("$ref"), str)):
                return node
            node = self.at(node["$ref"])
        raise DefinitionError(
            f"the reference {first['$ref'][:200]!r} leads in a circle, or through more than"
            f" {MAX_HOPS} others"
        )

    def at(self, reference: str) -> Any:
        """Return what a reference points to.

        Raises:
            DefinitionError: It leads out of the document, or to nothing.
        """
        if len(reference) > MAX_REFERENCE:
            raise DefinitionError(
                f"the reference {reference[:200]!r}… has more than {MAX_REFERENCE:,} characters"
            )
        if not reference.startswith("#"):
            raise DefinitionError(
                f"the reference {reference[:200]!r} leads out of the document, and is not fetched"
            )
        node: Any = self.root
        for part in reference[1:].split("/")[1:]:
            key = unescaped(unquote(part))
            if isinstance(node, dict) and key in node:
                node = node[key]
            elif (
                isinstance(node, list)
                and key.isascii()
                and key.isdigit()
                and len(key) < 10
                and int(key) < len(node)
            ):
                node = node[int(key)]
            else:
                raise DefinitionError(f"the reference {reference[:200]!r} points to nothing")
        return node


def read(spec: Spec) -> Document:
    """Read a document: a mapping, or its text in JSON or YAML.

    Raises:
        DefinitionError: It is not an OpenAPI document of version 3, or is too large or too deep.
    """
    raw = _parsed(spec) if isinstance(spec, (str, bytes)) else spec
    if not isinstance(raw, Mapping):
        raise DefinitionError(
            "no OpenAPI document: give the document or its text, not a file name or URL"
        )
    cleaner = _Cleaner()
    root = cleaner.clean(raw, (), 0)
    version = root.get("openapi")
    if not isinstance(version, str) or not version.startswith("3."):
        found = f"version {str(root['swagger'])[:100]}" if "swagger" in root else "no version"
        raise DefinitionError(f"an OpenAPI document of version 3 is needed; this one says {found}")
    size = MAX_NODES - cleaner.left
    return Document(root=root, legacy=version.startswith("3.0"), size=size)


def security_schemes(document: Document) -> dict[str, dict[str, Any]]:
    """Return the security schemes of a document by name.

    A scheme whose reference leads nowhere is empty, so no secret can be given for it.
    """
    schemes = mapping(mapping(document.root.get("components")).get("securitySchemes"))
    return {name: _scheme(document, node) for name, node in schemes.items()}


def _scheme(document: Document, node: Any) -> dict[str, Any]:
    try:
        return mapping(document.resolve(node))
    except DefinitionError:
        return {}


def mapping(node: Any) -> dict[str, Any]:
    """Return a node if it is an object, else an empty one. Any place may have a wrong type."""
    return node if isinstance(node, dict) else {}


def sequence(node: Any) -> list[Any]:
    """Return a node if it is an array, else an empty one."""
    return node if isinstance(node, list) else []


class _Cleaner:
    """Copy a tree of plain data.

    The values of a YAML alias count each time it is used. So no short
    text becomes a huge tree.
    """

    def __init__(self) -> None:
        self.left = MAX_NODES

    def clean(self, node: Any, place: tuple[Any, ...], depth: int) -> Any:
        """Return a copy of a node.

        Args:
            node: The node.
            place: A pair of the parent's place and the key of the node.
            depth: How many nodes are above it.
        """
        self.left -= 1
        if self.left < 0:
            raise DefinitionError(f"the OpenAPI document has more than {MAX_NODES:,} values")
        if depth > MAX_DEPTH:
            raise DefinitionError(
                f"the OpenAPI document is nested more than {MAX_DEPTH} deep, at {_pointer(place)}"
            )
        if isinstance(node, str):
            return visible(node)
        if node is None or isinstance(node, (bool, int, float)):
            return _number(node)
        if isinstance(node, Mapping):
            made = {}
            for key, value in node.items():
                name = visible(str(_number(key)))
                made[name] = self.clean(value, (place, name), depth + 1)
            return made
        if isinstance(node, (list, tuple)):
            return [self.clean(value, (place, str(at)), depth + 1) for at, value in enumerate(node)]
        return visible(str(node)[:1_000])


def _number(value: Any) -> Any:
    """Return a value, or None for a number that JSON cannot write: NaN, infinity, too many digits.

    The JSON and YAML readers accept such numbers.
    """
    if isinstance(value, float) and not isfinite(value):
        return None
    if isinstance(value, int) and abs(value) >= _TOO_LONG:
        return None
    return value


def _pointer(place: tuple[Any, ...]) -> str:
    """Return a place as a JSON Pointer, which is cut if it is long."""
    names: list[str] = []
    while place:
        place, name = place
        names.append(escaped(name))
    pointer = "".join(f"/{name}" for name in reversed(names))
    return pointer if len(pointer) <= 200 else f"{pointer[:200]}…"


def _parsed(spec: str | bytes) -> Any:
    if len(spec) > MAX_BYTES:
        raise DefinitionError(f"the OpenAPI document is longer than {MAX_BYTES:,} bytes")
    try:
        text = spec.decode("utf-8-sig") if isinstance(spec, bytes) else spec.removeprefix("\ufeff")
        if text.lstrip()[:1] == "{":
            return json.loads(text)
        return read_yaml(text, MAX_NODES, MAX_DEPTH)
    except RecursionError as error:
        raise DefinitionError(
            f"the OpenAPI document is nested more than {MAX_DEPTH} deep"
        ) from error
    except ValueError as error:
        raise DefinitionError(f"the OpenAPI document cannot be read: {str(error)[:200]}") from error
