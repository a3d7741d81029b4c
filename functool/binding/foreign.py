"""Bind the arguments of a JSON Schema that somebody else wrote: jsonschema checks them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any

from functool.binding.json_text import (
    Arguments,
    as_text,
    decoded,
    drop_nulls,
    linear_pattern,
    parsed,
    refuse_infinite,
)
from functool.binding.problems import path_text, repeated_key, unknown_name
from functool.errors import ArgumentError
from functool.schema.admits import admits_null, takes_only_containers
from functool.schema.json_schema import property_names

if TYPE_CHECKING:
    from functool.schema.strict import Codec


class SchemaBinder:
    """Binds the arguments of a JSON Schema that somebody else wrote: jsonschema.

    References are never fetched, and a `pattern` runs on pydantic's linear engine. Unknown
    arguments are refused where the schema says
    so: what it leaves open was left open by somebody.
    """

    def __init__(
        self, schema: Mapping[str, Any], codec: Codec | None = None, limit: int | None = None
    ) -> None:
        self._schema = dict(schema)
        self._limit = limit
        self._decode: Callable[[dict[str, Any]], dict[str, Any]] = (
            (lambda sent: sent) if codec is None else codec.decode
        )
        self._properties: Mapping[str, Any] = schema.get("properties") or {}
        required = schema.get("required") or ()
        self._droppable = [
            name
            for name, part in self._properties.items()
            if name not in required and not admits_null(part, schema)
        ]

    def values(self, arguments: Arguments) -> dict[str, Any]:
        """Return the arguments, defaults filled in."""
        sent = self._decode(decoded(as_text(arguments, self._limit)))
        drop_nulls(sent, self._droppable)
        texts = [name for name in self._properties if isinstance(sent.get(name), str)]
        if texts := [
            name for name in texts if takes_only_containers(self._properties[name], self._schema)
        ]:
            sent = self._decode({**sent, **{name: parsed(sent[name]) for name in texts}})
        refuse_infinite(sent)
        try:
            some = zip(
                range(100), self._validator.iter_errors(sent), strict=False
            )  # There may be millions.
            problems = list(
                {
                    str(problem): problem for problem in (self._problem(error) for _, error in some)
                }.values()
            )
        except Exception as error:
            raise ArgumentError(
                "the arguments could not be checked against the tool's schema"
            ) from error
        if problems:
            raise ArgumentError(problems)
        for name, part in self._properties.items():
            if name not in sent and isinstance(part, Mapping) and part.get("default") is not None:
                sent[name] = deepcopy(part["default"])
        return sent

    def canonical(self, arguments: Arguments, values: dict[str, Any]) -> dict[str, Any]:
        """Return a copy of the values: a guardrail that changes it changes nothing of the body's."""
        return deepcopy(values)

    def sent_form(self, arguments: Arguments) -> Arguments:
        """Return the arguments: their names are the ones that a model sends."""
        return arguments

    _known = cached_property(lambda self: set(property_names(self._schema)))

    @cached_property
    def _validator(self) -> Any:
        if all(
            f'"{word}"' in json.dumps(self._schema)
            for word in ("patternProperties", "unevaluatedProperties")
        ):
            raise ValueError(
                "jsonschema would run the patterns on an engine that a hostile one can hang"
            )
        return _validator_class()(self._schema)

    def _problem(self, error: Any) -> dict[str, Any]:
        path, word, wanted = (
            path_text(error.absolute_path, self._known),
            error.validator,
            error.validator_value,
        )
        if error.context:  # Of a union: what each of its members expects.
            parts = [self._problem(part) for part in error.context[:20]]
            said = dict.fromkeys(
                part["expected"] if part["path"] == path else f"{part['path']}: {part['expected']}"
                for part in parts
            )
            return {
                "path": path,
                "expected": ", or ".join(said),
                "choices": sum((part.get("choices", ()) for part in parts), ()),
            }
        if word == "required":
            missing = [name for name in wanted if name not in error.instance]
            return {"path": path, "expected": f"missing: {', '.join(missing)}"}
        if word in ("enum", "const"):
            choices = [
                c if isinstance(c, str) else json.dumps(c)
                for c in (wanted if word == "enum" else [wanted])[:50]
            ]
            return {"path": path, "expected": "one of the choices", "choices": tuple(choices)}
        if word == "type":
            types = " or ".join([wanted] if isinstance(wanted, str) else wanted)
            twice = repeated_key(error.instance)
            return {"path": path, "expected": f"a value of type {types}{twice}"}
        if word in ("additionalProperties", "unevaluatedProperties") and wanted is False:
            unsaid = (
                []
                if word == "additionalProperties"
                else sorted(set(error.instance).difference(property_names(error.schema))) or [""]
            )
            *above, name = list(error.absolute_path) + unsaid[:1]
            return unknown_name(
                name, list(error.schema.get("properties") or {}), path_text(above, self._known)
            )
        if isinstance(wanted, (str, int, float)):
            return {"path": path, "expected": f"a value with {word} {str(wanted)[:200]}"}
        return {
            "path": path,
            "expected": f"a value that satisfies {word!r}"
            if word
            else "no argument that the schema forbids",
        }


@lru_cache(maxsize=1)
def _validator_class() -> Any:
    """Jsonschema's validator for 2020-12, what reads patterns on the linear engine; it fetches nothing."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError as SchemaMismatch
    from jsonschema.validators import extend
    from referencing import Registry

    def pattern(validator: Any, wanted: Any, instance: Any, schema: Any) -> Any:
        if (
            isinstance(instance, str)
            and (search := linear_pattern(wanted))
            and not search(instance)
        ):
            yield SchemaMismatch("the pattern does not match")

    def pattern_properties(validator: Any, wanted: Any, instance: Any, schema: Any) -> Any:
        for source, part in wanted.items() if isinstance(instance, dict) else ():
            search = linear_pattern(source)
            for name, value in instance.items():
                if search is not None and search(name):
                    yield from validator.descend(value, part, path=name, schema_path=source)

    def additional(validator: Any, wanted: Any, instance: Any, schema: Any) -> Any:
        searches = [
            search
            for search in map(linear_pattern, schema.get("patternProperties") or ())
            if search is not None
        ]
        for name, value in instance.items() if isinstance(instance, dict) else ():
            if name not in (schema.get("properties") or ()) and not any(
                search(name) for search in searches
            ):
                yield from (
                    [SchemaMismatch("", path=[name])]
                    if wanted is False
                    else validator.descend(value, wanted, path=name)
                )

    own = {
        "pattern": pattern,
        "patternProperties": pattern_properties,
        "additionalProperties": additional,
    }
    return partial(extend(Draft202012Validator, own), registry=Registry())
