"""Convert the schemas of an OpenAPI document to JSON Schema 2020-12, with `$defs` for references.

Only known keywords with values of the right type are kept. Somebody else wrote the document.
"""

from __future__ import annotations

import json
import re
import warnings
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import SchemaError, SchemaValidator, core_schema

from functool import DefinitionError
from functool.binding.engine import pattern_length
from functool.bundled.openapi_document import Document, mapping, sequence
from functool.bundled.openapi_names import UniqueNames

MAX_DEPTH = 60
MAX_DESCRIPTION = 2_000
MAX_NODES = 20_000
"""Values that the schema of one tool may have. Definitions beyond that accept anything."""

MAX_PATTERN = 10_000
"""Characters of a pattern that is checked here. The server checks a longer one."""

MAX_PATTERNS = 2_000_000
"""Characters of all different patterns, their repetitions expanded, that are compiled. It takes ten
seconds. The server checks the others."""

CLASS = 40
"""How many characters a class such as `\\w` counts in a pattern."""

TEXT = 100
"""How many characters count as one more value."""

TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
_FLAGS = re.compile(r"\(\?[A-Za-z-]")
"""How a flag in a pattern begins, which JavaScript lacks. With `(?i)`, the engine takes seconds to
compile a thousand classes."""

_NAME = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Definition:
    schema: dict[str, Any] = field(default_factory=dict)
    size: int = 0
    references: tuple[str, ...] = ()


class Schemas:
    """Convert schemas, and remember the schemas that they refer to.

    Args:
        document: The document, which resolves references.
        unsent: The keyword of the properties to leave out: `readOnly` in requests, `writeOnly` in
            responses.
    """

    def __init__(self, document: Document, unsent: str) -> None:
        self._document = document
        self._unsent = unsent
        self._names: dict[tuple[str, bool], str | None] = {}
        self._hidden: dict[str, bool] = {}
        self._unique = UniqueNames()
        self._made: dict[str, _Definition] = {}
        self._waiting: deque[tuple[str, Any, bool]] = deque()
        self._runs: dict[str, bool] = {}
        self._patterns_left = MAX_PATTERNS

    def convert(self, schema: Any) -> dict[str, Any]:
        """Return a schema whose references point to `$defs`. `with_definitions` adds these."""
        converted = self._converted(schema, 0)
        # A loop, not recursion: a chain of references can be longer than Python's stack is deep.
        while self._waiting:
            name, part, opened = self._waiting[0]
            made = self._converted(part, 0, opened=opened)
            self._made[name] = _Definition(
                schema=made, size=weight(made), references=tuple(_references(made))
            )
            self._waiting.popleft()
        return converted

    def _converted(self, schema: Any, depth: int, *, opened: bool = False) -> dict[str, Any]:
        """Convert a schema. One that is `opened` takes further properties, also if it says no."""
        if not isinstance(schema, dict) or depth > MAX_DEPTH:
            return {"not": {}} if schema is False else {}
        made = self._keywords(schema, depth)
        if opened and made.get("additionalProperties") is False:
            del made["additionalProperties"]
        if isinstance(schema.get("$ref"), str):
            if self._document.legacy:
                made = {key: made[key] for key in ("description",) if key in made}
            name = self._definition(schema["$ref"], opened)
            if name is not None:
                made["$ref"] = f"#/$defs/{name}"
        return _nullable(made) if schema.get("nullable") is True and self._document.legacy else made

    def with_definitions(
        self, schema: dict[str, Any], limit: int = MAX_NODES
    ) -> tuple[dict[str, Any], bool]:
        """Return a schema with its definitions, and whether it is complete.

        The nearest definitions come first. Those after `limit` values accept anything.
        """
        found: dict[str, Any] = {}
        left = limit - weight(schema)
        queue = deque(_references(schema))
        while queue:
            name = queue.popleft()
            if name not in found:
                made = self._made[name]
                left -= made.size
                found[name] = made.schema if left > 0 else {}
                queue += made.references if left > 0 else ()
        return ({**schema, "$defs": found} if found else schema), left > 0

    def _definition(self, reference: str, opened: bool) -> str | None:
        """Return the name of the definition for a reference, or None if it leads nowhere."""
        passed: list[tuple[str, bool]] = []
        while (key := (reference, opened)) not in self._names:
            passed.append(key)
            # This stays None if the reference leads nowhere or in a circle.
            self._names[key] = None
            try:
                schema = self._document.at(reference)
            except DefinitionError:
                break
            if isinstance(schema, dict) and len(schema) == 1 and "$ref" in schema:
                reference = str(schema["$ref"])
                continue
            if opened and mapping(schema).get("additionalProperties") is not False:
                opened = False  # It is open anyway, so it needs no definition of its own.
                continue
            stem = _NAME.sub("_", reference.rsplit("/", 1)[-1]) or "schema"
            name = self._names[key] = self._unique.take(stem)
            self._waiting.append((name, schema, opened))
        found = self._names[reference, opened]
        self._names.update(dict.fromkeys(passed, found))
        return found

    def _keywords(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        made = _without_parts(schema)
        if "pattern" in made and not self._pattern_runs(made["pattern"]):
            del made["pattern"]
        self._inner(made, schema, depth)
        self._unions(made, schema, depth)
        self._properties(made, schema, depth)
        return made

    def _pattern_runs(self, pattern: str) -> bool:
        """Whether a pattern is checked here. It is compiled once, as long as there is room."""
        if pattern not in self._runs:
            fits = len(pattern) <= MAX_PATTERN and not _FLAGS.search(pattern)
            if fits and self._patterns_left > 0:
                self._patterns_left -= pattern_length(pattern, CLASS)
            self._runs[pattern] = fits and self._patterns_left > 0 and _compiles(pattern)
        return self._runs[pattern]

    def _inner(self, made: dict[str, Any], schema: dict[str, Any], depth: int) -> None:
        """Add the keywords that hold one schema."""
        for word in _ONE:
            if isinstance(schema.get(word), (dict, bool)):
                part = schema[word]
                made[word] = part if isinstance(part, bool) else self._converted(part, depth + 1)
        # What is not kept is left to the server. It must not make the rest stricter.
        if made.get("not") != schema.get("not"):
            made.pop("not", None)
        if "patternProperties" in schema or sequence(schema.get("allOf")):
            made.pop("additionalProperties", None)
        if "minContains" in schema:
            made.pop("contains", None)

    def _unions(self, made: dict[str, Any], schema: dict[str, Any], depth: int) -> None:
        """Add the keywords that hold a list of schemas."""
        # `oneOf` becomes `anyOf`: several may match, and the server decides which one is meant.
        for word, target in (
            ("allOf", "allOf"),
            ("anyOf", "anyOf"),
            ("oneOf", "anyOf"),
            ("prefixItems", "prefixItems"),
        ):
            listed = sequence(schema.get(word))
            # .NET writes derived classes as closed parts. Each would refuse what the others have.
            opened = word == "allOf" and (len(listed) > 1 or "properties" in schema)
            parts = [self._converted(part, depth + 1, opened=opened) for part in listed]
            if parts and target in made:
                made.setdefault("allOf", []).append({"anyOf": parts})
            elif parts:
                made[target] = parts

    def _properties(self, made: dict[str, Any], schema: dict[str, Any], depth: int) -> None:
        properties = mapping(schema.get("properties"))
        unsent = {name for name, part in properties.items() if self._is_unsent(part)}
        if properties:
            kept = {name: part for name, part in properties.items() if name not in unsent}
            made["properties"] = {
                name: self._converted(part, depth + 1) for name, part in kept.items()
            }
        names = [
            name
            for name in sequence(schema.get("required"))
            if isinstance(name, str) and name not in unsent
        ]
        if names:
            made["required"] = list(dict.fromkeys(names))

    def _is_unsent(self, schema: Any) -> bool:
        part = mapping(schema)
        reference = part.get("$ref")
        if not isinstance(reference, str) or part.get(self._unsent) is True:
            return part.get(self._unsent) is True
        if reference not in self._hidden:  # A document may use it many times.
            self._hidden[reference] = False
            with suppress(DefinitionError):  # A reference that leads nowhere means anything.
                found = mapping(self._document.resolve(part))
                self._hidden[reference] = found.get(self._unsent) is True
        return self._hidden[reference]


def _without_parts(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the keywords of a schema that hold no other schema, as they are kept."""
    made = {
        word: schema[word]
        for word, check in _PLAIN.items()
        if word in schema and check(schema[word])
    }
    for word in ("title", "description"):
        if isinstance(schema.get(word), str):
            made[word] = shortened(schema[word])
    for word in ("maximum", "minimum"):
        _bound(made, schema, word)
    types = [t for t in _listed(schema.get("type")) if t in TYPES]
    if schema.get("type") == "file":
        types = ["string"]
    if types:
        made["type"] = types[0] if len(types) == 1 else list(dict.fromkeys(types))
    return made


def shortened(text: str) -> str:
    """Return a description, cut if it is too long for a model."""
    text = text.strip()
    return text if len(text) <= MAX_DESCRIPTION else text[: MAX_DESCRIPTION - 1] + "…"


def weight(schema: Any) -> int:
    """Return how many values a converted schema has, without its definitions.

    A long text counts as several values.
    """
    total = 0
    for part in _parts(schema):
        names = sum(map(len, mapping(part.get("properties"))))
        texts = {
            word: value
            for word, value in part.items()
            if word in _PLAIN or word in ("description", "title", "required")
        }
        total += len(part) + len(part.get("enum", ())) + (names + len(json.dumps(texts))) // TEXT
    return total


def _nullable(made: dict[str, Any]) -> dict[str, Any]:
    if "type" not in made and set(made) - {"description", "title", "default"}:
        outer: dict[str, Any] = {
            key: made.pop(key) for key in ("description", "title", "default") if key in made
        }
        return {**outer, "anyOf": [made, {"type": "null"}]}
    if "type" in made:
        made["type"] = list(dict.fromkeys([*_listed(made["type"]), "null"]))
    if "enum" in made and None not in made["enum"]:
        made["enum"] = [*made["enum"], None]
    return made


def _bound(made: dict[str, Any], schema: dict[str, Any], word: str) -> None:
    """Add a limit. In version 3.0 a boolean says that it is exclusive."""
    exclusive = f"exclusive{word.capitalize()}"
    if _number(schema.get(word)):
        made[exclusive if schema.get(exclusive) is True else word] = schema[word]
    if _number(schema.get(exclusive)):
        made[exclusive] = schema[exclusive]


def _listed(value: Any) -> list[Any]:
    return (
        [value]
        if isinstance(value, str)
        else [item for item in sequence(value) if isinstance(item, str)]
    )


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _compiles(pattern: str) -> bool:
    """Whether a pattern can be checked in linear time, and means the same in Python.

    The server checks all other patterns.
    """
    try:
        SchemaValidator(core_schema.str_schema(pattern=pattern))
        # Nested sets have a meaning in Rust, but not in JavaScript.
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)
            re.compile(pattern)
    except (SchemaError, re.error, ValueError, RecursionError, OverflowError, FutureWarning):
        return False
    return True


_PLAIN: dict[str, Callable[[Any], bool]] = {
    "format": _text,
    "contentEncoding": _text,
    "contentMediaType": _text,
    "pattern": _text,
    "default": lambda value: True,
    "const": lambda value: True,
    "enum": lambda value: isinstance(value, list) and bool(value),
    "multipleOf": lambda value: _number(value) and value > 0,
    "maxLength": _count,
    "minLength": _count,
    "maxItems": _count,
    "minItems": _count,
    "maxProperties": _count,
    "minProperties": _count,
    "uniqueItems": lambda value: isinstance(value, bool),
    "deprecated": lambda value: isinstance(value, bool),
}


_ONE = ("items", "contains", "not", "additionalProperties", "propertyNames")
"""The keywords that hold one schema."""


def _references(schema: Any) -> Iterable[str]:
    """Yield the names in `$defs` that a converted schema refers to."""
    for part in _parts(schema):
        reference = part.get("$ref")
        if isinstance(reference, str):
            yield reference.removeprefix("#/$defs/")


def _parts(schema: Any) -> Iterable[dict[str, Any]]:
    """Yield a converted schema and every schema in it."""
    if not isinstance(schema, dict):
        return
    yield schema
    for word in _ONE:
        yield from _parts(schema.get(word))
    for word in ("allOf", "anyOf", "prefixItems"):
        for part in schema.get(word, ()):
            yield from _parts(part)
    for part in mapping(schema.get("properties")).values():
        yield from _parts(part)
