"""The front door: JSON text or a mapping becomes checked arguments, or an `ArgumentError`.

pydantic checks the arguments of functions, jsonschema those of schemas that somebody else wrote; both doors keep the same promises.

Text is validated once, in Rust, and first in strict mode: what passes there holds no `true` for a number and no `"NaN"` for a float.
Only what does not pass is decoded, looked at and tried again in lax mode. What strict mode lets through (names sent twice, deep
nesting, numbers that overflow) leaves a trace in the text that is cheap to look for, and only then an exact pass runs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from difflib import get_close_matches
from functools import cached_property, lru_cache
from math import isfinite
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, get_args

from pydantic_core import SchemaValidator, ValidationError, core_schema, from_json, to_jsonable_python

from functool.errors import ArgumentError
from functool.schema import FunctionSchema, admits_null

if TYPE_CHECKING:
    from functool.strict import Codec

Arguments: TypeAlias = str | Mapping[str, Any]
MAX_DEPTH = 100
MAX_NAME = 64
_AUTHORS_ERRORS = {"value_error", "assertion_error"}
_KNOWN_ERRORS = set(get_args(core_schema.ErrorType)) - _AUTHORS_ERRORS
_OVERFLOW = (re.compile(r"e\+?\d{3}"), re.compile(r"E\+?\d{3}"))
_LONG_DIGITS = re.compile(r"\d{4}")
_SCALARS = {"string", "number", "integer", "boolean", "null"}


class Door(Protocol):
    """Checks the arguments of one tool."""

    def check(self, arguments: Arguments) -> dict[str, Any]:
        """Return the values for the body, or raise an `ArgumentError`."""

    def admit(self, arguments: Arguments, *, by_name: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the values for the body and the canonical arguments; `by_name` reads what a hook or guardrail wrote."""

    def sent_form(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return canonical arguments under the names that a model sends."""


class FunctionDoor:
    """The door of a Python function: pydantic.

    `plain` returns the plain JSON Schema of the arguments; `codec` decodes the strict form, where there is one.
    """

    def __init__(self, parts: FunctionSchema, codec: Codec | None = None) -> None:
        self._parts = parts
        self._decode = codec.decode if codec is not None and codec.flat_nulls is None else None
        self._droppable = [p.wire for p in parts.parameters if not p.required and not p.nullable]
        self._renamed = {p.wire: p.name for p in parts.parameters if p.wire != p.name}
        self._reserved = {*parts.hidden, *self._renamed.values()} if parts.rest else set()
        self._quoted = [json.dumps(p.wire, ensure_ascii=False) for p in parts.parameters]
        kinds = kinds_of([*parts.properties.values(), *parts.definitions.values(), parts.rest_schema])
        self._open = "any" in kinds or "$ref" in kinds or bool(parts.rest)
        self._may_overflow = self._open and ("any" in kinds or "number" in kinds)
        self._validate = SchemaValidator(self._nullable_core()).validate_json

    def check(self, arguments: Arguments) -> dict[str, Any]:
        """Return the values for the body by parameter name; defaults that were not sent stay out."""
        return self._settle(arguments if type(arguments) is str else as_text(arguments))[0]

    def admit(self, arguments: Arguments, *, by_name: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the values for the body and the canonical arguments."""
        if by_name and isinstance(arguments, Mapping):
            arguments = self.sent_form(arguments)
        values, text = self._settle(arguments if type(arguments) is str else as_text(arguments))
        sent = from_json(text)
        for wire in self._droppable:
            if sent.get(wire, 0) is None:
                del sent[wire]
        canonical = {self._renamed.get(wire, wire): value for wire, value in sent.items()}
        for parameter in self._parts.parameters:
            if parameter.wire not in sent and "default" in self._parts.properties[parameter.wire] and parameter.factory is None:
                canonical[parameter.name] = deepcopy(self._parts.properties[parameter.wire]["default"])
        return values, canonical

    def sent_form(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return canonical arguments under the names that a model sends."""
        wires = {name: wire for wire, name in self._renamed.items()}
        return {wires.get(name, name): value for name, value in arguments.items()}

    def _settle(self, text: str) -> tuple[dict[str, Any], str]:
        """Return the values and the text that they were read from."""
        if self._decode is not None:
            text = _to_text(self._decode(decoded(text)))
        try:
            values: dict[str, Any] = self._validate(text, strict=True)
        except ValidationError:
            values, text = self._second_look(text)
        except Exception as error:
            raise ArgumentError("the arguments could not be checked: a validator of the tool failed") from error
        else:
            if text.count(":") != len(values) and ("\\" in text or any(text.count(name) > 1 for name in self._quoted)):
                decoded(text)
            if self._open and (_deep(text) or self._suspicious(text)):
                refuse_misfits(decoded(text), self._root)
        if self._droppable and "null" in text:
            for wire in self._droppable:
                if values.get(wire, 0) is None:
                    del values[wire]
        if self._reserved and not self._reserved.isdisjoint(values):
            raise ArgumentError([_unknown(sorted(self._reserved.intersection(values))[0], list(self._parts.properties))])
        if self._renamed:
            values = {self._renamed.get(wire, wire): value for wire, value in values.items()}
        return values, text

    def _second_look(self, text: str) -> tuple[dict[str, Any], str]:
        """Check what strict mode refused: exactly, and then in lax mode."""
        sent = decoded(text)
        for wire, schema in self._parts.properties.items():
            if isinstance(sent.get(wire), str) and takes_only_containers(schema, self._parts.definitions):
                sent[wire] = _parsed(sent[wire])
        refuse_misfits(sent, self._root)
        text = _to_text(sent)
        try:
            values: dict[str, Any] = self._validate(text, strict=False)
        except ValidationError as error:
            raise ArgumentError(problems_of(error, sent, self._root)) from None
        except Exception as error:
            raise ArgumentError("the arguments could not be checked: a validator of the tool failed") from error
        return values, text

    def _suspicious(self, text: str) -> bool:
        if "NaN" in text or "Infinity" in text:
            return True
        return self._may_overflow and (
            any(exponent.search(text) for exponent in _OVERFLOW) or (len(text) > 300 and bool(_LONG_DIGITS.search(text[::75])))
        )

    def _nullable_core(self) -> Any:
        """The core schema, in which null may be sent for what has a default: it then means that default."""
        core = self._parts.core
        root = core["schema"] if core["type"] == "definitions" else core
        fields = {
            wire: {**field, "schema": core_schema.nullable_schema(field["schema"])} if wire in self._droppable else field
            for wire, field in root["fields"].items()
        }
        root = {**root, "fields": fields}
        return {**core, "schema": root} if core["type"] == "definitions" else root

    @cached_property
    def _root(self) -> dict[str, Any]:
        return self._parts.json_schema({})


class SchemaDoor:
    """The door of a JSON Schema that somebody else wrote: jsonschema.

    References are never fetched, and a `pattern` runs on pydantic's linear engine. Unknown arguments are refused, unless the schema
    says something of additional ones.
    """

    def __init__(self, schema: Mapping[str, Any], codec: Codec | None = None) -> None:
        self._schema = dict(schema)
        self._decode = codec.decode if codec is not None else None
        self._properties: Mapping[str, Any] = schema.get("properties") or {}
        self._definitions = schema.get("$defs") or schema.get("definitions") or {}
        open_words = {"additionalProperties", "patternProperties", "allOf", "anyOf", "oneOf", "$ref", "if", "unevaluatedProperties"}
        self._closed = "properties" in schema and open_words.isdisjoint(schema)
        required = schema.get("required") or ()
        self._droppable = [
            name for name, part in self._properties.items() if name not in required and not admits_null(part, self._definitions)
        ]

    def check(self, arguments: Arguments) -> dict[str, Any]:
        """Return the arguments, defaults filled in."""
        return self.admit(arguments)[0]

    def admit(self, arguments: Arguments, *, by_name: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the arguments, defaults filled in, twice: for the body and as the canonical ones."""
        sent = decoded(arguments if type(arguments) is str else as_text(arguments))
        if self._decode is not None:
            sent = self._decode(sent)
        for name in self._droppable:
            if sent.get(name, 0) is None:
                del sent[name]
        for name, part in self._properties.items():
            if isinstance(sent.get(name), str) and takes_only_containers(part, self._definitions):
                sent[name] = _parsed(sent[name])
        refuse_infinite(sent)
        if self._closed:
            unknown = [_unknown(name, list(self._properties)) for name in sent if name not in self._properties]
            if unknown:
                raise ArgumentError(unknown)
        try:
            problems = list(map(self._problem, self._validator.iter_errors(sent)))
        except Exception as error:
            raise ArgumentError("the arguments could not be checked against the tool's schema") from error
        if problems:
            raise ArgumentError(problems)
        for name, part in self._properties.items():
            if name not in sent and isinstance(part, Mapping) and part.get("default") is not None:
                sent[name] = deepcopy(part["default"])
        return sent, deepcopy(sent)

    def sent_form(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments: their names are the ones that a model sends."""
        return arguments

    @cached_property
    def _validator(self) -> Any:
        return _validator_class()(self._schema, registry=_empty_registry())

    def _problem(self, error: Any) -> dict[str, Any]:
        path, word, wanted = _path(error.absolute_path, self._schema), error.validator, error.validator_value
        if word == "required":
            missing = [name for name in wanted if name not in error.instance]
            return {"path": path, "expected": f"missing: {', '.join(missing)}"}
        if word in ("enum", "const"):
            choices = tuple(json.dumps(choice)[:100] for choice in (wanted if word == "enum" else [wanted])[:50])
            return {"path": path, "expected": "one of the choices", "choices": choices}
        if word == "type":
            return {"path": path, "expected": f"a value of type {' or '.join([wanted] if isinstance(wanted, str) else wanted)}"}
        if word in ("additionalProperties", "unevaluatedProperties") and wanted is False:
            extra = next((name for name in error.instance if name not in (error.schema.get("properties") or {})), "")
            return _unknown(extra, list(error.schema.get("properties") or {}), path)
        if isinstance(wanted, (str, int, float)):
            return {"path": path, "expected": f"a value with {word} {str(wanted)[:200]}"}
        return {"path": path, "expected": f"a value that satisfies {word!r}"}


def linear_pattern(pattern: str) -> Callable[[str], bool] | None:
    """Return a search for `pattern` on an engine that runs in linear time, or None where that engine cannot read it."""
    return _compiled(pattern)


def as_text(arguments: Any) -> str:
    """Return a mapping as JSON text.

    Raises:
        ArgumentError: It is no mapping, or holds what JSON cannot say.
    """
    if isinstance(arguments, str):
        return str(arguments)
    if not isinstance(arguments, Mapping):
        raise ArgumentError("the arguments must be a JSON object")
    return _to_text(arguments)


def decoded(text: str) -> dict[str, Any]:
    """Return the JSON object in `text`.

    Raises:
        ArgumentError: It is not JSON, not an object, holds NaN or a name twice, or is nested too deeply.
    """
    if not text or text.isspace():
        return {}
    if _deep(text):
        _refuse_depth(text)
    try:
        value = from_json(text, allow_inf_nan=False)
    except ValueError as error:
        reason = "lone surrogates" if isinstance(error, UnicodeError) else error
        raise ArgumentError(f"the arguments are not valid JSON: {reason}") from None
    if not isinstance(value, dict):
        raise ArgumentError("the arguments must be a JSON object")
    if text.count(":") != len(value):
        _refuse_repeats(text)
    return value


def refuse_misfits(sent: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    """Raise an `ArgumentError` for a bool where a number is wanted, and for a number that is not finite."""
    refuse_infinite(sent)
    found = _misfit(sent, schema, schema.get("$defs", {}), ())
    if found is not None:
        path, expected = found
        raise ArgumentError([{"path": _path(path, schema), "expected": expected}])


def refuse_infinite(value: Any, path: tuple[Any, ...] = ()) -> None:
    """Raise an `ArgumentError` for a number that is not finite, at any depth."""
    if isinstance(value, float) and not isfinite(value):
        raise ArgumentError("a number is too large: every number must be finite")
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        refuse_infinite(item)


def takes_only_containers(schema: Any, definitions: Mapping[str, Any], depth: int = 0) -> bool:
    """Whether a JSON Schema takes a list or an object, perhaps null, and no string."""
    if not isinstance(schema, Mapping) or depth > 8:
        return False
    if "$ref" in schema:
        return takes_only_containers(definitions.get(str(schema["$ref"]).rpartition("/")[2]), definitions, depth + 1)
    members = schema.get("anyOf") or schema.get("oneOf")
    if members:
        rest = [member for member in members if member != {"type": "null"}]
        return bool(rest) and all(takes_only_containers(member, definitions, depth + 1) for member in rest)
    kinds = schema.get("type")
    kinds = set(kinds if isinstance(kinds, list) else [kinds]) - {"null"}
    return bool(kinds) and kinds <= {"array", "object"}


def kinds_of(schemas: list[Any]) -> set[str]:
    """Return the types that JSON Schemas name at any depth; `any` for a part that says nothing, `$ref` for a reference."""
    kinds: set[str] = set()
    todo = list(schemas)
    while todo:
        schema = todo.pop()
        if schema is False:
            continue
        if schema is True or not isinstance(schema, dict):
            kinds.add("any")
            continue
        named = schema.get("type")
        kinds.update(named if isinstance(named, list) else [named] if named else [])
        if "$ref" in schema:
            kinds.add("$ref")
        parts = [*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ()), *schema.get("prefixItems", ())]
        parts += [*schema.get("properties", {}).values(), *schema.get("patternProperties", {}).values()]
        parts += [schema[word] for word in ("items", "additionalProperties") if word in schema]
        todo += parts
        bare = named == "array" and not parts or named == "object" and not parts
        if bare or not (named or parts or "$ref" in schema or "enum" in schema or "const" in schema):
            kinds.add("any")
    return kinds


def _to_text(value: Any) -> str:
    try:
        return json.dumps(value, default=_plain, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError):
        raise ArgumentError("the arguments hold something that JSON cannot say") from None


def _plain(value: Any) -> Any:
    """Say a value that stands in a mapping of arguments as JSON, but never run an iterator."""
    if hasattr(value, "__next__"):
        raise TypeError("an iterator is no argument")
    if isinstance(value, Mapping):
        return dict(value)
    return to_jsonable_python(value)


def _parsed(text: str) -> Any:
    """Return the list or object in JSON text that was sent as a string, or the string."""
    if text.lstrip()[:1] not in ("[", "{"):
        return text
    return decoded('{"":' + text + "}")[""]


def _deep(text: str) -> bool:
    return text.count("[") + text.count("{") > MAX_DEPTH


def _refuse_depth(text: str) -> None:
    depth = 0
    for mark in re.findall(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', text, re.DOTALL):
        depth += mark in "[{"
        depth -= mark in "]}"
        if depth > MAX_DEPTH:
            raise ArgumentError(f"the arguments are nested more than {MAX_DEPTH} levels deep")


def _refuse_repeats(text: str) -> None:
    """Refuse a name that stands twice in the arguments object itself."""
    objects: list[list[tuple[str, Any]]] = []

    def keep(pairs: list[tuple[str, Any]]) -> None:
        objects.append(pairs)

    json.loads(text, object_pairs_hook=keep)
    names = [name for name, _ in objects[-1]]
    repeated = {name for name in names if names.count(name) > 1} if len(set(names)) != len(names) else set()
    if repeated:
        raise ArgumentError([{"path": _shown(name), "expected": "sent only once"} for name in sorted(repeated)])


def _misfit(value: Any, schema: Any, definitions: Mapping[str, Any], path: tuple[Any, ...]) -> tuple[tuple[Any, ...], str] | None:
    """Return where a bool, or a text that pydantic reads as NaN or infinity, stands for a number."""
    if not isinstance(schema, Mapping):
        return None
    if "$ref" in schema:
        return _misfit(value, definitions.get(str(schema["$ref"]).rpartition("/")[2]), definitions, path)
    members = schema.get("anyOf") or schema.get("oneOf")
    if members:
        found = [_misfit(value, member, definitions, path) for member in members if _may_be(value, member, definitions)]
        return found[0] if found and all(found) else None
    if isinstance(value, bool) and schema.get("type") in ("integer", "number"):
        return path, f"a valid {schema['type']}, not a boolean"
    if isinstance(value, str) and schema.get("type") == "number" and not _finite_text(value):
        return path, "a finite number"
    parts: list[tuple[Any, Any, Any]] = []
    if isinstance(value, dict):
        named, rest = schema.get("properties", {}), schema.get("additionalProperties")
        parts = [(name, item, named.get(name, rest)) for name, item in value.items()]
    elif isinstance(value, list):
        first = schema.get("prefixItems", ())
        parts = [(i, item, first[i] if i < len(first) else schema.get("items")) for i, item in enumerate(value)]
    return next((found for key, item, part in parts if (found := _misfit(item, part, definitions, (*path, key)))), None)


def _may_be(value: Any, schema: Any, definitions: Mapping[str, Any]) -> bool:
    """Whether a union's member is meant at all: the one for null, say, is not what a bool misses."""
    if isinstance(value, (dict, list)):
        return takes_only_containers(schema, definitions)
    return schema.get("type") != "null" and not takes_only_containers(schema, definitions)


def _finite_text(text: str) -> bool:
    try:
        return isfinite(float(text))
    except ValueError:
        return True


def problems_of(error: ValidationError, sent: Any, schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what is wrong, a problem a path, without any value that was sent. `schema` is that of the arguments."""
    found: dict[str, dict[str, Any]] = {}
    for detail in error.errors(include_url=False):
        steps = _followed(detail["loc"], sent)
        if detail["type"] == "extra_forbidden" and len(steps) == 1:
            problem = _unknown(str(steps[0]), list(schema.get("properties", ())))
        else:
            problem = {"path": _path(steps, schema), **_expected(detail)}
        earlier = found.setdefault(problem["path"], problem)
        if earlier is not problem and problem["expected"] not in earlier["expected"]:
            earlier["expected"] += f", or {problem['expected']}"
            earlier["choices"] = (*earlier.get("choices", ()), *problem.get("choices", ()))
    return list(found.values())


def _followed(loc: tuple[int | str, ...], sent: Any) -> list[Any]:
    """Return the steps of a location that lead through what was sent: the rest are pydantic's names of a union's members."""
    steps: list[Any] = []
    for i, step in enumerate(loc):
        if isinstance(sent, dict) and (step in sent or i == len(loc) - 1):
            steps.append(step)
            sent = sent.get(str(step))
        elif isinstance(sent, list) and isinstance(step, int):
            steps.append(step)
            sent = sent[step] if step < len(sent) else None
    return steps


def _expected(detail: Any) -> dict[str, Any]:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "missing":
        return {"expected": "required, but missing"}
    if kind == "extra_forbidden":
        return {"expected": "no argument of this name"}
    if kind in ("literal_error", "enum"):
        choices = tuple(choice.strip() for choice in re.split(r", | or ", str(context["expected"])[:1000]))
        return {"expected": "one of the choices", "choices": choices}
    if kind == "union_tag_invalid":
        return {"expected": f"a {context['discriminator']} out of {str(context['expected_tags'])[:1000]}"}
    message = str(detail["msg"])
    if kind not in _KNOWN_ERRORS:
        message = message.removeprefix("Value error, ").removeprefix("Assertion failed, ")
        if _echoes(message, detail.get("input")):
            return {"expected": "a value that the tool's own check accepts"}
        return {"expected": message[:500]}
    return {"expected": message.removeprefix("Input should be ").removeprefix("Input ")[:500]}


def _echoes(message: str, sent: Any) -> bool:
    """Whether an author's message may repeat what was sent: any four characters in a row, or a short value whole."""
    if isinstance(sent, (dict, list)):
        return any(_echoes(message, item) for item in (sent.values() if isinstance(sent, dict) else sent))
    text, message = str(sent).casefold(), message.casefold()
    return text in message if len(text) < 4 else any(text[i : i + 4] in message for i in range(min(len(text), 10_000) - 3))


def _unknown(name: str, names: list[str], path: str = "") -> dict[str, Any]:
    close = get_close_matches(name[:MAX_NAME], names, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names[:20])}" if names else "the tool takes none"
    return {"path": f"{path}.{_shown(name)}" if path else _shown(name), "expected": f"unknown argument; {hint}"}


def _shown(name: str) -> str:
    return name if len(name) <= MAX_NAME and name.isprintable() else ascii(name[:MAX_NAME])[1:-1] + "…"


def _path(steps: Any, schema: Mapping[str, Any]) -> str:
    """Return `items[2].price`. A key that the schema does not name was sent, and may be a secret: it shows as `[key]`."""
    known, text = set(_property_names(schema)), ""
    for step in steps:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if step in known else ".[key]"
    return text.removeprefix(".")


def _property_names(schema: Any) -> Iterator[str]:
    if isinstance(schema, Mapping) and isinstance(schema.get("properties"), Mapping):
        yield from schema["properties"]
    for part in schema.values() if isinstance(schema, Mapping) else schema if isinstance(schema, list) else ():
        yield from _property_names(part)


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> Callable[[str], bool] | None:
    try:
        validator = SchemaValidator(core_schema.str_schema(pattern=pattern))
    except Exception:
        return None
    return validator.isinstance_python


@lru_cache(maxsize=1)
def _validator_class() -> Any:
    """jsonschema's validator for 2020-12, its two pattern keywords on the linear engine."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError as SchemaMismatch
    from jsonschema.validators import extend

    def pattern(validator: Any, wanted: Any, instance: Any, schema: Any) -> Any:
        search = _compiled(wanted) if isinstance(wanted, str) else None
        if isinstance(instance, str) and search is not None and not search(instance):
            yield SchemaMismatch("the pattern does not match")

    def pattern_properties(validator: Any, wanted: Any, instance: Any, schema: Any) -> Any:
        for source, part in wanted.items() if isinstance(instance, dict) else ():
            search = _compiled(source)
            for name, value in instance.items():
                if search is not None and search(name):
                    yield from validator.descend(value, part, path=name, schema_path=source)

    return extend(Draft202012Validator, {"pattern": pattern, "patternProperties": pattern_properties})


@lru_cache(maxsize=1)
def _empty_registry() -> Any:
    from referencing import Registry

    return Registry()
