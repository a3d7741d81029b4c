"""Bind the arguments of a function: pydantic checks them.

Text is validated once, in Rust, and first in strict mode: what passes there holds no `true` for a
number and no `"NaN"` for a float. Only what does not pass is decoded, looked at and tried again in
lax mode. What strict mode lets through (names sent twice, deep nesting, numbers that overflow)
leaves a trace in the text that is cheap to look for, and only then an exact pass runs.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from copy import deepcopy
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pydantic_core import ValidationError, core_schema, from_json, to_json

from functool.binding.json_text import (
    Arguments,
    as_text,
    decoded,
    drop_nulls,
    has_escaped_name,
    is_deep,
    may_repeat,
    not_finite,
    parsed,
    refuse_infinite,
)
from functool.binding.problems import path_text, problems_of, unknown_name
from functool.errors import ArgumentError
from functool.schema.admits import find_bool_for_number, kinds_of, takes_only_containers
from functool.schema.core import compiled
from functool.schema.json_schema import Names, property_names
from functool.schema.rewrite import failing_fast
from functool.schema.signature import FunctionSchema

if TYPE_CHECKING:
    from functool.schema.strict import Codec

_NESTING = {"object", "any", "$ref"}
_LARGE = 65_536
"""From how many characters on the text of arguments is long."""

_quoted = json.JSONEncoder(ensure_ascii=False).encode

logger: logging.Logger = logging.getLogger("functool")


class FunctionBinder:
    """Binds the arguments of a Python function: pydantic checks them.

    `codec` decodes the strict form, where there is one. `limit` bounds the bytes of the text.
    """

    def __init__(
        self, parts: FunctionSchema, codec: Codec | None = None, limit: int | None = None
    ) -> None:
        self._parts = parts
        self._limit = limit
        self._decode = codec.decode if codec is not None and codec.flat_nulls is None else None
        # Text of fewer characters than this is validated as it came: it needs no decoding, has no
        # more bytes than the limit, and is not long.
        self._short = 0 if self._decode else min(_LARGE if limit is None else limit // 4, _LARGE)
        self._droppable = [p.wire for p in parts.parameters if not p.required and not p.nullable]
        self._renamed = {p.wire: p.name for p in parts.parameters if p.wire != p.name}
        self._reserved = {*parts.hidden, *self._renamed.values()} if parts.rest else set()
        names = [] if parts.rest else [p.wire for p in parts.parameters]
        self._quoted = [_quoted(name) for name in names]
        inner = (*parts.properties.values(), *parts.definitions.values(), parts.rest_schema)
        kinds = kinds_of(inner)
        self._names_differ = bool(self._renamed or self._reserved)
        recursive = bool(parts.definitions and Names(parts.root).cycles())
        self._nests = "any" in kinds or recursive
        # Strict mode takes `true` for 1 where the numbers are listed: in a Literal, in an Enum.
        self._lists_numbers = "listed number" in kinds
        self._open = self._nests or "number" in kinds
        # In a flat call every colon outside of a text belongs to an argument: counting them finds
        # unknown ones, and costs less than to have pydantic forbid them.
        self._flat = not (kinds & _NESTING or parts.rest)
        counts = self._flat and self._decode is None
        self._validate = self._validator("ignore") if counts else self._validate_closed

    def values(self, arguments: Arguments) -> dict[str, Any]:
        """Return the values for the body by parameter name; defaults stay out."""
        if type(arguments) is str and len(arguments) < self._short:
            text, validate = arguments, self._validate
        else:
            text = as_text(arguments, self._limit)
            if self._decode is not None:  # It was JSON: nothing in it that could not be said.
                text = to_json(self._decode(decoded(text, self._quoted))).decode()
            validate = self._validate if len(text) < _LARGE else self._validate_large
        try:
            values: dict[str, Any] = validate(text, strict=True)
        except ValidationError:
            values = self._second_look(text)
        except Exception as error:
            raise validator_failed(error) from error
        else:
            # What was decoded was looked at then, and written anew: no name stands twice in it.
            counted = self._decode or (self._flat and text.count(":") == len(values))
            if not (counted or self._are_all(text)):
                values = self._second_look(text)
            if self._open or self._lists_numbers:
                self._refuse_misfits(text)
        if self._droppable and "null" in text:
            drop_nulls(values, self._droppable)
        return self._named(values) if self._names_differ else values

    def canonical(self, arguments: Arguments, values: Any) -> dict[str, Any]:
        """Return the canonical form of arguments that were checked."""
        text = arguments if type(arguments) is str else as_text(arguments)
        sent: dict[str, Any]
        if self._decode is not None:
            sent = self._decode(decoded(text))
        else:  # Text that was checked is only read here.
            sent = from_json(text) if text and not text.isspace() else {}
        if self._as_sent:
            return sent
        drop_nulls(sent := self._unpacked(sent), self._droppable)
        canonical = {self._renamed.get(w, w): v for w, v in sent.items()}
        for name, default in self._defaults:
            if name not in canonical:
                canonical[name] = deepcopy(default)
        return canonical

    def sent_form(self, arguments: Arguments) -> Arguments:
        """Return canonical arguments under the names that a model sends."""
        if not self._renamed:
            return arguments
        wires = {name: wire for wire, name in self._renamed.items()}
        return {wires.get(name, name): value for name, value in decoded(as_text(arguments)).items()}

    def _second_look(self, text: str) -> dict[str, Any]:
        """Check exactly what strict mode refused, and then in lax mode.

        Types that are strict themselves stay strict.
        """
        sent = self._unpacked(decoded(text))
        text = to_json(sent).decode()
        odd = self._open or "true" in text or "false" in text or not_finite(text)
        problems = misfits(sent, self._root, self._known) if odd else []
        values: dict[str, Any] = {}
        try:
            # A type of its own strictness keeps it.
            validate = self._validate_closed if len(text) < _LARGE else self._validate_large
            values = validate(text)
        except ValidationError as error:
            named = {problem["path"] for problem in problems}
            others = problems_of(error, sent, self._root, self._known)
            problems += [problem for problem in others if problem["path"] not in named]
        except Exception as error:
            raise validator_failed(error) from error
        if problems:
            raise ArgumentError(problems)
        return values

    def _refuse_misfits(self, text: str) -> None:
        """Refuse what strict mode lets through: listed numbers, infinite ones, deep nesting."""
        bools = self._lists_numbers and ("true" in text or "false" in text)
        odd = bools or (self._open and ((self._nests and is_deep(text)) or not_finite(text)))
        if odd and (problems := misfits(decoded(text), self._root, self._known)):
            raise ArgumentError(problems)

    def _are_all(self, text: str) -> bool:
        """Whether no argument is unknown; one that stands twice is refused."""
        if has_escaped_name(text) or not self._quoted or may_repeat(text, self._quoted):
            decoded(text)
        if self._flat:
            try:
                self._validate_closed(text, strict=True)
            except ValidationError:
                return False
        return True

    def _unpacked(self, sent: dict[str, Any]) -> dict[str, Any]:
        """Parse, once, JSON that was sent as a string for a list or an object.

        It may be in strict form, too.
        """
        texts = [wire for wire in self._containers if isinstance(sent.get(wire), str)]
        for wire in texts:
            sent[wire] = parsed(sent[wire])
        return self._decode(sent) if texts and self._decode is not None else sent

    def _named(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the values under the function's names.

        What `**kwargs` collected may not take the name of another parameter.
        """
        if not self._reserved.isdisjoint(values):
            name = sorted(self._reserved.intersection(values))[0]
            raise ArgumentError([unknown_name(name, list(self._parts.properties))])
        return {self._renamed.get(wire, wire): value for wire, value in values.items()}

    @cached_property
    def _validate_closed(self) -> Any:
        return self._validator("allow" if self._parts.rest else "forbid")

    @cached_property
    def _validate_large(self) -> Any:
        """For long text: it looks for the first problem of each list only."""
        return self._validator("allow" if self._parts.rest else "forbid", first_only=True)

    def _validator(self, extra: str, *, first_only: bool = False) -> Any:
        """Compile the core schema; null may be sent for what has a default."""
        core = failing_fast(self._parts.core) if first_only else self._parts.core
        root = core["schema"] if core["type"] == "definitions" else core
        fields = {**root["fields"]}
        for wire in self._droppable:
            inner = core_schema.nullable_schema(fields[wire]["schema"])
            fields[wire] = {**fields[wire], "schema": inner}
        root = {**root, "fields": fields, "extra_behavior": extra}
        whole: Any = {**core, "schema": root} if core["type"] == "definitions" else root
        return compiled(whole, {"allow_inf_nan": False}).validate_json

    @cached_property
    def _containers(self) -> list[str]:
        """The parameters that take a list or an object, and no string."""
        properties = self._parts.properties.items()
        return [wire for wire, part in properties if takes_only_containers(part, self._root)]

    @cached_property
    def _defaults(self) -> list[tuple[str, Any]]:
        """The plain defaults, under the names of their parameters."""
        properties = self._parts.properties
        found = [(p.name, properties[p.wire]) for p in self._parts.parameters if p.factory is None]
        return [(name, schema["default"]) for name, schema in found if "default" in schema]

    @cached_property
    def _as_sent(self) -> bool:
        """Whether all that was sent is canonical."""
        return not (self._containers or self._droppable or self._renamed or self._defaults)

    @cached_property
    def _known(self) -> set[str]:
        return set(property_names(self._root))

    @cached_property
    def _root(self) -> dict[str, Any]:
        return self._parts.root


def validator_failed(error: Exception) -> ArgumentError:
    """Log an exception of an author's validator, and return what the model is told."""
    logger.error("a validator of a tool failed", exc_info=error)
    return ArgumentError("the arguments could not be checked: a validator of the tool failed")


def misfits(sent: Mapping[str, Any], schema: Any, known: set[str]) -> list[dict[str, Any]]:
    """Return the problem of a bool where a number is wanted, and of a text that is no finite one.

    Raises:
        ArgumentError: A number is not finite.
    """
    refuse_infinite(sent)
    found = find_bool_for_number(sent, schema, schema)
    return [{"path": path_text(found[0], known), "expected": found[1]}] if found else []
