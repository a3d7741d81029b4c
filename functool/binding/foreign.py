"""Validate arguments against a JSON Schema that somebody else wrote, with jsonschema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from functool.binding.engine import bounded_work, validator_of
from functool.binding.json_text import as_text, decoded, drop_nulls, parsed, refuse_infinite
from functool.binding.problems import PAIRS, path_text, repeated_key, unknown_name
from functool.binding.watched_shapes import Shapes
from functool.errors import ArgumentError
from functool.json_values import paused_gc_if_long, same_json
from functool.large import noting_hold
from functool.schema.admits import Known, only_containers, types_allowed
from functool.schema.json_schema import UNSET, property_names
from functool.schema.shapes import TooMuchWork, default_of

if TYPE_CHECKING:
    from functool.binding.json_text import Arguments
    from functool.schema.strict import Codec


_CHOICES = 50
"""How many choices, or missing names, one problem lists."""

_PARTS = 200
"""How many members of unions the problems of one check describe."""

_FORBIDDEN = "no argument that the schema forbids"
_KINDS = {
    "object": "an object",
    "array": "a list",
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
}


class SchemaBinder:
    """The binder for a JSON Schema that somebody else wrote. It validates with jsonschema.

    References are never fetched, and a `pattern` runs on pydantic's linear engine. Unknown
    arguments are refused only if the schema says so, because its author may want to allow them.
    """

    def __init__(
        self, schema: Mapping[str, Any], codec: Codec | None = None, limit: int | None = None
    ) -> None:
        self._schema = dict(schema)
        self._limit = limit
        self._decode: Any = codec.decode if codec else dict
        self._strict = codec is not None
        needed, parts = {*(schema.get("required") or ())}, (schema.get("properties") or {}).items()
        known: Known = {}
        types = {name: types_allowed(part, schema, known) for name, part in parts}
        self._droppable = [n for n, k in types.items() if n not in needed and "null" not in k]
        self._lists = [name for name, kinds in types.items() if only_containers(kinds)]
        self._defaults = {n: default_of(p) for n, p in parts if default_of(p) not in (UNSET, None)}

    def values(self, arguments: Arguments) -> dict[str, Any]:
        """Return the validated arguments, with defaults filled in."""
        return noting_hold(paused_gc_if_long, self._checked, as_text(arguments, self._limit))

    def _checked(self, text: str) -> dict[str, Any]:
        sent: dict[str, Any] = self._decode(decoded(text))
        drop_nulls(sent, self._droppable)
        if lists := [name for name in self._lists if isinstance(sent.get(name), str)]:
            sent = self._decode({**sent, **{name: parsed(sent[name]) for name in lists}})
        refuse_infinite(sent)
        if problems := self.problems(sent):
            raise ArgumentError(problems)
        return {**sent, **deepcopy({n: d for n, d in self._defaults.items() if n not in sent})}

    def problems(self, sent: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the first problems of JSON values, without repetitions. There may be millions.

        Raises:
            ArgumentError: They take too much work to check.
        """
        try:
            with bounded_work():
                errors = islice(self._validator.iter_errors(sent), 100)
                left = iter(range(1, _PARTS))
                problems = [self._problem(error, i, left) for i, error in enumerate(errors)]
        except TooMuchWork as error:
            raise ArgumentError(str(error)) from None
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # At the end of the stack, Rust code raises no Exception.
            wrong = "the arguments could not be checked against the tool's schema"
            raise ArgumentError(wrong) from error
        return list({str(problem): problem for problem in problems}.values())

    def canonical(self, arguments: Arguments, values: dict[str, Any]) -> dict[str, Any]:
        """Return the values. They are JSON values already."""
        return values

    def sent_form(self, arguments: Arguments, before: Arguments = "") -> Arguments:
        """Return the arguments. A JSON Schema has no aliases, but may refuse its own defaults."""
        known, sent = self._defaults, decoded(as_text(arguments))
        bare = {n: v for n, v in sent.items() if n not in known or not same_json(v, known[n])}
        unfit = len(bare) < len(sent) and self.problems(sent) and not self.problems(bare)
        return bare if unfit else arguments

    @cached_property
    def shapes(self) -> Shapes | None:
        """What fits at each place; None for a stranger's schema that cannot be read so."""
        with suppress(RecursionError, AttributeError, TypeError):
            return Shapes(self._schema, self._schema, self._strict)
        return None

    _known = cached_property(lambda self: set(property_names(self._schema)))

    _validator = cached_property(lambda self: validator_of(self._schema))

    def _problem(self, error: Any, number: int, left: Iterator[int]) -> dict[str, Any]:
        path = path_text(error.absolute_path, self._known)
        word, wanted = error.validator, error.validator_value
        if error.context:  # A union: list what each member expects.
            some = [part for part in error.context[:20] if next(left, 0)]
            parts = [self._problem(part, number + i, left) for i, part in enumerate(some)]
            texts = dict.fromkeys(
                part["expected"] if part["path"] == path else f"{part['path']}: {part['expected']}"
                for part in parts
            )
            choices = sum((part.get("choices", ()) for part in parts), ())[:_CHOICES]
            return {"path": path, "expected": ", or ".join(texts), "choices": choices}
        if word == "required":
            missing = islice((name for name in wanted if name not in error.instance), _CHOICES)
            return {"path": path, "expected": f"missing: {', '.join(missing)}"}
        if word in ("enum", "const"):
            known = (wanted if word == "enum" else [wanted])[:_CHOICES]
            choices = tuple(c if isinstance(c, str) else json.dumps(c) for c in known)
            return {"path": path, "expected": "one of the choices", "choices": choices}
        if word == "type":
            kinds = [wanted] if isinstance(wanted, str) else wanted
            expected = " or ".join(_KINDS.get(kind, kind) for kind in kinds)
            shape = error.schema
            closed = shape.get("properties") or shape.get("additionalProperties") is False
            if self._strict and "object" in kinds and not closed:
                expected += PAIRS
            return {"path": path, "expected": expected + repeated_key(error.instance)}
        if word in ("additionalProperties", "unevaluatedProperties") and wanted is False:
            steps = list(error.absolute_path)
            names = list(error.schema.get("properties") or {})
            return unknown_name(steps[-1], names, path_text(steps[:-1], self._known), number)
        if isinstance(wanted, (str, int, float)):
            return {"path": path, "expected": f"a value with {word} {str(wanted)[:200]}"}
        expected = f"a value that satisfies {word!r}" if word else _FORBIDDEN
        return {"path": path, "expected": expected}
