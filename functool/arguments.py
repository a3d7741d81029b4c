"""The front door: JSON text or a mapping becomes checked arguments, or an `ArgumentError`.

pydantic checks the arguments of functions, jsonschema those of schemas that somebody else wrote;
both doors keep the same promises.

Text is validated once, in Rust, and first in strict mode: what passes there holds no `true` for a
number and no `"NaN"` for a float. Only what does not pass is decoded, looked at and tried again in
lax mode. What strict mode lets through (names sent twice, deep nesting, numbers that overflow)
leaves a trace in the text that is cheap to look for, and only then an exact pass runs.
"""

from __future__ import annotations

import json
import logging
import re
from ast import literal_eval
from collections.abc import Callable, Iterable, Mapping, Set
from copy import deepcopy
from difflib import get_close_matches
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

from pydantic_core import SchemaValidator, ValidationError, core_schema, from_json, to_json

from functool.errors import ArgumentError
from functool.json_schema import (
    admits_null,
    is_recursive,
    kinds_of,
    misfit,
    names_at,
    property_names,
    takes_only_containers,
)
from functool.json_text import (
    as_text,
    decoded,
    is_deep,
    linear_pattern,
    may_repeat,
    not_finite,
    parsed,
    refuse_infinite,
    shown_name,
)
from functool.schema import FunctionSchema

if TYPE_CHECKING:
    from functool.strict import Codec

Arguments: TypeAlias = str | Mapping[str, Any]
_FLAT = {
    "string",
    "number",
    "integer",
    "boolean",
    "null",
    "enum",
    "const",
    "listed number",
    "array",
}
_CHOICE = re.compile(
    r"""(?:^|, | or )(?:<[\w.]+: )?('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s,>]+)"""
)
_MOST = 1000  # problems to look at: there may be millions
_KNOWN_ERRORS = set(get_args(core_schema.ErrorType)) - {"value_error", "assertion_error"}
# Of the last three pydantic's own words repeat a character that was sent, or hold a URL.
_EXPECTED = {
    "missing": "required, but missing",
    "uuid_parsing": "a valid UUID",
    "complex_type": "a complex number, such as '1+2j'",
    "complex_str_parsing": "a complex number, such as '1+2j'",
}

logger = logging.getLogger("functool")


class FunctionDoor:
    """The door of a Python function: pydantic.

    `plain` returns the plain JSON Schema of the arguments; `codec` decodes the strict form, where
    there is one.
    """

    def __init__(self, parts: FunctionSchema, codec: Codec | None = None) -> None:
        self._parts = parts
        self._decode = codec.decode if codec is not None and codec.flat_nulls is None else None
        self._droppable = [p.wire for p in parts.parameters if not p.required and not p.nullable]
        self._renamed: dict[Any, str] = {
            p.wire: p.name for p in parts.parameters if p.wire != p.name
        }
        self._reserved = {*parts.hidden, *self._renamed.values()} if parts.rest else set()
        self._quoted = (
            [] if parts.rest else [json.dumps(p.wire, ensure_ascii=False) for p in parts.parameters]
        )
        kinds = kinds_of(
            [*parts.properties.values(), *parts.definitions.values(), parts.rest_schema]
        )
        self._names_differ = bool(self._renamed or self._reserved)
        self._nests = "any" in kinds or is_recursive(parts.definitions)
        # Strict mode takes `true` for 1 where the numbers are listed: in a Literal, in an Enum.
        self._lists_numbers = "listed number" in kinds
        self._open = self._nests or "number" in kinds
        # In a flat call every colon outside of a text belongs to an argument: counting them finds
        # unknown ones, and costs less than to have pydantic forbid them.
        self._flat = kinds <= _FLAT and not parts.rest
        self._plain = self._flat and not (self._names_differ or self._lists_numbers or self._open)
        self._validate = (
            self._validator("ignore")
            if self._flat and self._decode is None
            else self._validate_closed
        )

    def check(self, arguments: Arguments) -> dict[str, Any]:
        """Return the values for the body by parameter name; defaults that were not sent stay out."""
        text = arguments if type(arguments) is str else as_text(arguments)
        if self._decode is not None:
            text = to_json(
                self._decode(decoded(text, self._quoted))
            ).decode()  # Of JSON: nothing in it that could not be said.
        try:
            values: dict[str, Any] = self._validate(text, strict=True)
        except ValidationError:
            values = self._second_look(text)
        except Exception as error:
            raise _crashed(error) from error
        else:
            if self._plain and text.count(":") == len(values) and "null" not in text:
                return values
            # What was decoded has been looked at already, and written anew: no name stands twice in
            # it.
            if (
                self._decode is None
                and not (self._flat and text.count(":") == len(values))
                and not self._are_all(text)
            ):
                values = self._second_look(text)
            bools = self._lists_numbers and ("true" in text or "false" in text)
            if bools or (self._open and ((self._nests and is_deep(text)) or not_finite(text))):
                refuse_misfits(decoded(text), self._root)
        if self._droppable and "null" in text:
            _drop_nulls(values, self._droppable)
        return self._named(values) if self._names_differ else values

    def admit(
        self, arguments: Arguments, *, by_name: bool = False
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the values for the body and the canonical arguments."""
        arguments = self.sent_form(arguments) if by_name else arguments
        text = arguments if type(arguments) is str else as_text(arguments)
        values = self.check(text)
        # Text that was checked is only read here.
        sent = (
            (from_json(text) if text and not text.isspace() else {})
            if self._decode is None
            else self._decode(decoded(text))
        )
        if self._as_sent:
            return values, sent
        _drop_nulls(sent := self._unpacked(sent), self._droppable)
        canonical: Any = (
            {self._renamed.get(wire, wire): value for wire, value in sent.items()}
            if self._renamed
            else sent
        )
        for name, default in self._defaults:
            if name not in canonical:
                canonical[name] = deepcopy(default)
        return values, canonical

    def sent_form(self, arguments: Arguments) -> Arguments:
        """Return canonical arguments under the names that a model sends."""
        if not self._renamed:
            return arguments
        wires = {name: wire for wire, name in self._renamed.items()}
        return {wires.get(name, name): value for name, value in decoded(as_text(arguments)).items()}

    def _second_look(self, text: str) -> dict[str, Any]:
        """Check what strict mode refused: exactly, and then in lax mode, but for types that are strict themselves."""
        sent = self._unpacked(decoded(text))
        refuse_misfits(sent, self._root)
        try:
            values: dict[str, Any] = self._validate_closed(
                as_text(sent)
            )  # A type of its own strictness keeps it.
        except ValidationError as error:
            raise ArgumentError(problems_of(error, sent, self._root)) from None
        except Exception as error:
            raise _crashed(error) from error
        return values

    def _are_all(self, text: str) -> bool:
        """Whether no argument is unknown; one that stands twice is refused."""
        if "\\" in text or not self._quoted or may_repeat(text, self._quoted):
            decoded(text)
        if self._flat:
            try:
                self._validate_closed(text, strict=True)
            except ValidationError:
                return False
        return True

    def _unpacked(self, sent: dict[str, Any]) -> dict[str, Any]:
        """Parse, once, JSON that was sent as a string for what takes no string; it may be in strict form too."""
        texts = [wire for wire in self._containers if isinstance(sent.get(wire), str)]
        for wire in texts:
            sent[wire] = parsed(sent[wire])
        return self._decode(sent) if texts and self._decode is not None else sent

    def _named(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the values under the function's names; what `**kwargs` collected may not take the name of another parameter."""
        if not self._reserved.isdisjoint(values):
            raise ArgumentError(
                [
                    _unknown(
                        sorted(self._reserved.intersection(values))[0], list(self._parts.properties)
                    )
                ]
            )
        return {self._renamed.get(wire, wire): value for wire, value in values.items()}

    @cached_property
    def _validate_closed(self) -> Any:
        return self._validator("allow" if self._parts.rest else "forbid")

    def _validator(self, extra: str) -> Any:
        """Compile the core schema, in which null may be sent for what has a default: it then means that default."""
        core = self._parts.core
        root = core["schema"] if core["type"] == "definitions" else core
        fields = {
            wire: {**field, "schema": core_schema.nullable_schema(field["schema"])}
            if wire in self._droppable
            else field
            for wire, field in root["fields"].items()
        }
        root = {**root, "fields": fields, "extra_behavior": extra}
        whole: Any = {**core, "schema": root} if core["type"] == "definitions" else root
        return SchemaValidator(whole, {"allow_inf_nan": False}).validate_json

    @cached_property
    def _containers(self) -> list[str]:
        """The parameters that take a list or an object, and no string."""
        return [
            wire
            for wire, schema in self._parts.properties.items()
            if takes_only_containers(schema, self._parts.definitions)
        ]

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
    def _root(self) -> dict[str, Any]:
        return self._parts.json_schema({})


class SchemaDoor:
    """The door of a JSON Schema that somebody else wrote: jsonschema.

    References are never fetched, and a `pattern` runs on pydantic's linear engine. Unknown
    arguments are refused where the schema says
    so: what it leaves open was left open by somebody.
    """

    def __init__(self, schema: Mapping[str, Any], codec: Codec | None = None) -> None:
        self._schema = dict(schema)
        self._decode: Callable[[dict[str, Any]], dict[str, Any]] = (
            (lambda sent: sent) if codec is None else codec.decode
        )
        self._properties: Mapping[str, Any] = schema.get("properties") or {}
        self._definitions = schema.get("$defs") or schema.get("definitions") or {}
        required = schema.get("required") or ()
        self._droppable = [
            name
            for name, part in self._properties.items()
            if name not in required and not admits_null(part, self._definitions)
        ]

    def check(self, arguments: Arguments) -> dict[str, Any]:
        """Return the arguments, defaults filled in."""
        return self.admit(arguments)[0]

    def admit(
        self, arguments: Arguments, *, by_name: bool = False
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the arguments, defaults filled in, twice: for the body and as the canonical ones."""
        sent = self._decode(decoded(as_text(arguments)))
        _drop_nulls(sent, self._droppable)
        texts = [name for name in self._properties if isinstance(sent.get(name), str)]
        if texts := [
            name
            for name in texts
            if takes_only_containers(self._properties[name], self._definitions)
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
        return sent, deepcopy(sent)

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
            _path(error.absolute_path, self._known),
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
            return {
                "path": path,
                "expected": f"a value of type {' or '.join([wanted] if isinstance(wanted, str) else wanted)}",
            }
        if word in ("additionalProperties", "unevaluatedProperties") and wanted is False:
            unsaid = (
                []
                if word == "additionalProperties"
                else sorted(set(error.instance).difference(property_names(error.schema))) or [""]
            )
            *above, name = list(error.absolute_path) + unsaid[:1]
            return _unknown(
                name, list(error.schema.get("properties") or {}), _path(above, self._known)
            )
        if isinstance(wanted, (str, int, float)):
            return {"path": path, "expected": f"a value with {word} {str(wanted)[:200]}"}
        return {
            "path": path,
            "expected": f"a value that satisfies {word!r}"
            if word
            else "no argument that the schema forbids",
        }


class InnerDoor:
    """The door of a wrapper: it hands on the arguments as they came, and only if somebody `looks`, looks through the inner tool's."""

    def __init__(self, inner: Door, looks: bool) -> None:
        # A wrapper between that looks at nothing would show the arguments as they came.
        self._inner: Door = inner._inner if isinstance(inner, InnerDoor) else inner
        self._looks = looks

    def check(self, arguments: Any) -> Any:
        """Return the arguments as they came."""
        return arguments

    def admit(self, arguments: Any, *, by_name: bool = False) -> tuple[Any, Any]:
        """Return the arguments as they came, and the canonical ones if somebody looks."""
        canonical = self._inner.admit(arguments, by_name=by_name)[1] if self._looks else arguments
        return self._inner.sent_form(arguments) if by_name else arguments, canonical

    def sent_form(self, arguments: Arguments) -> Arguments:
        """Return canonical arguments under the names that a model sends."""
        return self._inner.sent_form(arguments)


# Checks the arguments of one tool: `check` returns the values for the body, `admit` those and the
# canonical arguments.
Door: TypeAlias = FunctionDoor | SchemaDoor | InnerDoor


def _crashed(error: Exception) -> ArgumentError:
    logger.error("a validator of a tool failed", exc_info=error)
    return ArgumentError("the arguments could not be checked: a validator of the tool failed")


def _drop_nulls(values: dict[str, Any], names: Iterable[str]) -> None:
    """Take out the nulls that mean a default."""
    for name in names:
        if values.get(name, 0) is None:
            del values[name]


def refuse_misfits(sent: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    """Raise an `ArgumentError` for a bool where a number is wanted, and for a number that is not finite."""
    refuse_infinite(sent)
    if found := misfit(sent, schema, schema.get("$defs", {}), ()):
        raise ArgumentError(
            [{"path": _path(found[0], set(property_names(schema))), "expected": found[1]}]
        )


def problems_of(
    error: ValidationError, sent: Any, schema: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return what is wrong, a problem a path, without any value that was sent.

    `schema` is that of the arguments.
    """
    found: dict[str, dict[str, Any]] = {}
    known = set(property_names(schema))
    for detail in error.errors(include_url=False)[:_MOST]:
        steps = _followed(detail["loc"], sent, known)
        if detail["type"] == "extra_forbidden" and steps[-1:] == [detail["loc"][-1]]:
            *above, name = steps
            problem = _unknown(
                str(name), names_at(schema, above, schema.get("$defs", {})), _path(above, known)
            )
        else:
            problem = {"path": _path(steps, known), **_expected(detail, known)}
        earlier = found.setdefault(problem["path"], problem)
        if earlier is not problem and problem["expected"] not in earlier["expected"]:
            earlier["expected"] += f", or {problem['expected']}"
            earlier["choices"] = (*earlier.get("choices", ()), *problem.get("choices", ()))
    return list(found.values())


def _followed(loc: tuple[int | str, ...], sent: Any, known: Set[str]) -> list[Any]:
    """Return the steps of a location that lead through what was sent, or to what is missing: the rest name a union's members."""
    steps: list[Any] = []
    for i, step in enumerate(loc):
        if isinstance(sent, dict) and (step in sent or (i == len(loc) - 1 and step in known)):
            steps.append(step)
            sent = sent.get(str(step))
        elif isinstance(sent, list) and isinstance(step, int):
            steps.append(step)
            sent = sent[step] if step < len(sent) else None
    return steps


def _expected(detail: Any, known: Set[str]) -> dict[str, Any]:
    kind, context = detail["type"], detail.get("ctx")
    if kind in _EXPECTED:
        return {"expected": _EXPECTED[kind]}
    if kind in ("literal_error", "enum"):
        found = _CHOICE.findall(context["expected"])[:50]
        return {
            "expected": "one of the choices",
            "choices": tuple(literal_eval(c) if c[0] in "'\"" else c for c in found),
        }
    if kind == "union_tag_invalid":
        return {
            "expected": f"a {context['discriminator']} out of {str(context['expected_tags'])[:1000]}"
        }
    message = str(detail["msg"])
    if kind not in _KNOWN_ERRORS:
        message = message.removeprefix("Value error, ").removeprefix("Assertion failed, ")
        if _echoes(message, detail.get("input"), known):
            return {"expected": "a value that the tool's own check accepts"}
        return {"expected": message[:500]}
    return {"expected": message.removeprefix("Input should be ").removeprefix("Input ")[:500]}


def _echoes(message: str, sent: Any, known: Set[str]) -> bool:
    """Whether an author's message may repeat what was sent: any four characters in a row, or a short value whole."""
    if isinstance(sent, (dict, list)):
        items = [*sent.values(), *(sent.keys() - known)] if isinstance(sent, dict) else sent
        return any(_echoes(message, item, known) for item in items)
    text, message = str(sent).casefold(), message.casefold()
    size = min(len(text), 4)
    return size > 0 and any(
        text[i : i + size] in message for i in range(min(len(text), 10_000) - size + 1)
    )


def _unknown(name: str, names: list[str], path: str = "") -> dict[str, Any]:
    close = get_close_matches(name[:64], names, n=1)
    hint = (
        f"did you mean {close[0]!r}?"
        if close
        else f"known: {', '.join(names[:20])}"
        if names
        else "the tool takes none"
    )
    return {
        "path": f"{path}.{shown_name(name)}" if path else shown_name(name),
        "expected": f"unknown argument; {hint}",
    }


def _path(steps: Any, known: Set[str]) -> str:
    """Return `items[2].price`.

    A key that the schema does not name was sent, and may be a secret: it shows as `[key]`.
    """
    text = ""
    for step in steps:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if step in known else ".[key]"
    return text.removeprefix(".")


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
