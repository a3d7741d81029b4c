"""Validate the arguments of a function with pydantic.

The text of the arguments is validated in Rust, first in pydantic's strict mode. Strict mode refuses
`true` for a number and `"NaN"` for a float. If it refuses the text, the text is decoded
and validated again in lax mode, by a validator that takes no bool for a number.

Strict mode accepts some arguments that must be refused or changed. They leave traces in the text
that are cheap to find. Only if there is such a trace, the text is decoded and checked exactly.

    What strict mode accepts                Its trace in the text               What checks it
    a repeated name                         more colons than names              `decoded`
    an unknown name, if no value            more colons than names              `_lax_values`
        can hold an object
    too many levels                         many brackets                       `refuse_depth`
    a number that overflows                 a long exponent, or many digits     `refuse_infinite`
    null where null means the default       `null`                              `drop_nulls`
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from pydantic_core import ValidationError, from_json, to_json

from functool.binding.json_text import (
    Arguments,
    as_text,
    decoded,
    drop_nulls,
    has_colons,
    may_repeat,
    not_finite,
    parsed,
    refuse_depth,
    refuse_infinite,
)
from functool.binding.problems import problems_of, unknown_name
from functool.binding.watched_shapes import LaxJsonSchema, Shapes
from functool.errors import ArgumentError, logger
from functool.json_values import LONG, paused_gc_if_long, same_json
from functool.schema.admits import kinds_of, only_containers, types_allowed
from functool.schema.core import compiled
from functool.schema.json_schema import property_names
from functool.schema.parameters import EMPTY
from functool.schema.parts import tuple_fields
from functool.schema.readings import ReadTooOften, bounded
from functool.schema.signature import FunctionSchema
from functool.time_limit import failure_or_raise

if TYPE_CHECKING:
    from functool.schema.strict import Codec

T = TypeVar("T")

_quoted = json.JSONEncoder(ensure_ascii=False).encode


class _computed_once(Generic[T]):
    """A `functools.cached_property` that never asks for the object's `__dict__`.

    On Python 3.11 and 3.12, an object whose `__dict__` was asked for reads each attribute four
    times as slowly. A binder reads ten of them in each call.
    """

    def __init__(self, func: Callable[[Any], T]) -> None:
        self._func = func

    def __get__(self, binder: Any, owner: type) -> T:
        value = self._func(binder)
        setattr(binder, self._func.__name__, value)
        return value


class FunctionBinder:
    """The binder for a Python function. It validates with pydantic.

    `codec` decodes the strict form, if the tool has one. `limit` is the maximum size of the text,
    in bytes.
    """

    def __init__(
        self, parts: FunctionSchema, codec: Codec | None = None, limit: int | None = None
    ) -> None:
        self._parts, self._root = parts, parts.root
        self._limit, self._strict = limit, codec is not None
        self._decode = codec.decode if codec is not None and codec.flat_nulls is None else None
        self._droppable = [p.wire for p in parts.parameters if p.null_is_default]
        self._renamed = {p.wire: p.name for p in parts.parameters if p.wire != p.name}
        taken = {*parts.hidden, *parts.fixed, *self._renamed.values()}
        self._reserved = tuple(taken if parts.rest else ())
        # Text with fewer characters takes the fast path: it cannot exceed the limit of bytes (a
        # character has at most four), and it needs no decoding.
        most = 0 if self._decode else LONG
        self._fast_length = most if limit is None else min(limit // 4, most)
        kinds = kinds_of(self._root)
        has_definitions = parts.core["type"] == "definitions"
        self._may_nest = has_definitions or "any" in kinds
        self._may_overflow = self._may_nest or "number" in kinds
        # Arguments are flat if no value holds an object. Then each has one colon, and counting
        # colons finds unknown arguments faster than pydantic's "forbid".
        self._flat = not (parts.rest or has_definitions) and kinds.isdisjoint(("any", "object"))
        core = {**parts.core, "extra_behavior": "ignore"} if self._flat else parts.core
        self._validate_strictly = compiled(core, brief=True, strict_only=True)

    def values(self, arguments: Arguments) -> dict[str, Any]:
        """Return the values for the body by parameter name, without defaults."""
        if type(arguments) is str and len(arguments) < self._fast_length:
            return self._validated(arguments)
        return paused_gc_if_long(self._read, as_text(arguments, self._limit))

    def _read(self, text: str) -> dict[str, Any]:
        if self._decode is not None:
            text = to_json(self._decode(decoded(text, self._quoted_names))).decode()
        return cast(dict[str, Any], bounded(self._validated)(text, is_long=True))

    def _validated(self, text: str, is_long: bool = False) -> dict[str, Any]:
        try:
            values: dict[str, Any] | None = self._validate_strictly(text, strict=True)
        except ValidationError:
            values = None  # Raised in here, an ArgumentError would have this error as its context.
        except Exception as error:
            raise validator_failed(error) from error
        if values is None:
            values = self._lax_values(text)
        elif not self._flat or not (
            has_colons(text, len(values)) if is_long else text.count(":") == len(values)
        ):
            values = self._checked_closely(text, values)
        if self._may_overflow and not_finite(text):
            refuse_infinite(decoded(text))
        if self._droppable and "null" in text:
            nulls = [wire for wire in self._droppable if values.get(wire, 0) is None]
            if nulls:
                sent = from_json(text)  # A validator of the author may return None for a value.
                drop_nulls(values, [wire for wire in nulls if sent.get(wire) is None])
        return self._by_parameter(values) if self._renamed or self._reserved else values

    def canonical(self, arguments: Arguments, values: Any) -> dict[str, Any]:
        """Return the canonical form of arguments that `values` has validated."""
        if type(arguments) is str and len(arguments) < self._fast_length:
            given = self._given(arguments)
        else:
            given = paused_gc_if_long(self._given, as_text(arguments))
        for name, default in self._defaults.items():
            if name not in given:
                given[name] = deepcopy(default)
        return given

    def _given(self, text: str) -> dict[str, Any]:
        """Return what was sent by parameter name, without nulls that stand for defaults."""
        if self._decode is not None:
            sent: dict[str, Any] = self._decode(decoded(text))
        else:  # `values` has validated the text, so it is only parsed here.
            sent = from_json(text) if text and not text.isspace() else {}
        if self._is_canonical:
            return sent
        drop_nulls(sent := self._parse_texts(sent), self._droppable)
        return {self._renamed.get(w, w): v for w, v in sent.items()}

    def sent_form(self, arguments: Arguments, before: Arguments = "") -> Arguments:
        """Rename canonical arguments to the names that a model sends, such as aliases.

        A value that equals its default is left out, unless it stands in `before`, which was sent
        for this call. The function has it anyway, and its own parameter may refuse it, such as 0
        for a positive number, or read it as another value.
        """
        if not (self._renamed or self._defaults):
            return arguments
        wires = {name: wire for wire, name in self._renamed.items()}
        sent, given = decoded(as_text(arguments)), self._given(as_text(before))
        plain = self._defaults.items()
        known = {n: d for n, d in plain if n not in given or not same_json(given[n], d)}
        kept = {n: v for n, v in sent.items() if n not in known or not same_json(v, known[n])}
        return {wires.get(name, name): value for name, value in kept.items()}

    def _lax_values(self, text: str) -> dict[str, Any]:
        """Validate in lax mode what strict mode has refused.

        Types that are strict themselves stay strict.
        """
        sent = self._parse_texts(decoded(text))
        text = to_json(sent).decode()
        if not_finite(text):
            refuse_infinite(sent)
        try:
            return cast(dict[str, Any], bounded(self._validate_lax)(text))
        except ValidationError as error:
            coded = self._decode is not None
            problems = problems_of(error, sent, self._root, self._known, self._tuples, coded)
        except Exception as error:
            raise validator_failed(error) from error
        raise ArgumentError(problems)

    def _checked_closely(self, text: str, values: dict[str, Any]) -> dict[str, Any]:
        """Return values that strict mode has accepted, if the call may contain what it ignores."""
        self._refuse_repeats(text)
        if self._flat and len(from_json(text)) != len(values):
            return self._lax_values(text)
        if self._may_nest:
            refuse_depth(text)
        return values

    def _refuse_repeats(self, text: str) -> None:
        """Raise an `ArgumentError` if a name is repeated in the text."""
        # Text in the strict form was decoded and written again, so it repeats none.
        names = self._quoted_names
        if self._decode is None and (not names or may_repeat(text, names)):
            decoded(text)

    def _validate_lax(self, text: str) -> dict[str, Any]:
        """Validate in lax mode; name every problem, unless that takes too much work."""
        if len(text) < LONG:
            with suppress(ReadTooOften):
                return cast(dict[str, Any], self._validate_naming(text))
        return cast(dict[str, Any], self._validate_briefly(text))

    def _parse_texts(self, sent: dict[str, Any]) -> dict[str, Any]:
        """Parse strings that were sent where only a list or an object fits.

        Some models send JSON as a string there. The parsed value may be in strict form.
        """
        texts = [wire for wire in self._containers if isinstance(sent.get(wire), str)]
        if not texts:
            return sent
        with suppress(ValidationError):  # A validator of the author may take the texts themselves.
            self._validate_briefly(to_json(sent).decode(), strict=True)
            return sent
        for wire in texts:
            sent[wire] = parsed(sent[wire])
        return sent if self._decode is None else self._decode(sent)

    def _by_parameter(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the values under the function's parameter names.

        Raises:
            ArgumentError: An argument for `**kwargs` has the name of another parameter.
        """
        if taken := sorted(values.keys() & self._reserved):
            raise ArgumentError([unknown_name(taken[0], list(self._root["properties"]))])
        return {self._renamed.get(wire, wire): value for wire, value in values.items()}

    @_computed_once
    def shapes(self) -> Shapes:
        """What fits at each place."""
        return Shapes(LaxJsonSchema().generate(self._parts.core), self._root, self._strict)

    @_computed_once
    def _validate_briefly(self) -> Any:
        """The validation that names the first problem of each list and dict."""
        return compiled(self._parts.core, brief=True)

    @_computed_once
    def _validate_naming(self) -> Any:
        """The validation that names every problem."""
        return compiled(self._parts.core, brief=False)

    @_computed_once
    def _quoted_names(self) -> list[str]:
        """All names that a model may send, in quotes; none if there are further arguments."""
        return [] if self._parts.rest else [_quoted(p.wire) for p in self._parts.parameters]

    @_computed_once
    def _containers(self) -> list[str]:
        """The parameters that accept a list or an object, but no string."""
        properties = self._root["properties"].items()
        types = ((wire, types_allowed(part, self._root, {})) for wire, part in properties)
        return [wire for wire, kinds in types if only_containers(kinds)]

    @_computed_once
    def _defaults(self) -> dict[str, Any]:
        """The defaults that JSON can express, by parameter name."""
        found = {p.name: p.plain_default() for p in self._parts.parameters}
        return {name: default for name, default in found.items() if default is not EMPTY}

    @_computed_once
    def _is_canonical(self) -> bool:
        """Whether arguments as sent are already in canonical form."""
        return not (self._containers or self._droppable or self._renamed or self._defaults)

    @_computed_once
    def _known(self) -> set[str]:
        return {*property_names(self._root), *chain(*self._tuples.values())}

    @_computed_once
    def _tuples(self) -> dict[int, list[str]]:
        return tuple_fields(self._parts.core)


def validator_failed(error: Exception) -> ArgumentError:
    """Log an exception of an author's validator, and return the error for the model.

    Raises:
        Tripwire: The validator stopped the run.
    """
    failure_or_raise(error)
    if isinstance(error, ReadTooOften):
        return ArgumentError("reading the arguments takes too long: send less at once")
    logger.error("a validator of a tool failed", exc_info=error)
    return ArgumentError("the arguments could not be checked: a validator of the tool failed")
