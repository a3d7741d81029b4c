"""Compile the signature of a function into schemas: `describe(func) -> FunctionSchema`.

All arguments together are one `typed_dict_schema` of pydantic-core. Its fields are the core schemas
of `TypeAdapter(annotation)`, which are cached. Of pydantic's public ways to validate JSON text,
this one measured fastest: with an `arguments_schema`, a call costs a quarter more, and a model for
each function costs twice as much to define. It also reserves no parameter names. The core schema
holds no defaults, because Python fills in the function's own defaults.
"""

from __future__ import annotations

import inspect
from collections import abc
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from types import FrameType
from typing import Annotated, Any, NotRequired, Required, cast, get_args, get_origin

from pydantic import TypeAdapter
from pydantic_core import core_schema
from typing_extensions import ReadOnly, Unpack, is_typeddict

from functool.call import ToolCall, ToolResult
from functool.content import CONTENT_TYPES
from functool.context import Context
from functool.errors import DefinitionError
from functool.schema.admits import types_allowed
from functool.schema.core import cached, core_of, hoist
from functool.schema.hints import Hints, Unresolved, fixed_keywords, signature_of
from functool.schema.parameters import (
    EMPTY,
    Parameter,
    hidden_source,
    read_annotation,
    read_parameter,
    text_of,
)
from functool.schema.plain import PlainJsonSchema, require_tags

_QUALIFIERS: Any = (Required, NotRequired, ReadOnly)
_ITERATORS = (
    *(abc.Iterator, abc.Iterable, abc.Generator),
    *(abc.AsyncIterator, abc.AsyncIterable, abc.AsyncGenerator),
)


@dataclass(slots=True)
class FunctionSchema:
    """The compiled signature of a function.

    `parameters` are in the signature's order. `rest` is the name of `**kwargs`, or "" without it,
    `rest_core` the core schema of its values, and `rest_text` the text in its annotation. `hidden`
    maps injected parameters to `Context`, `ToolCall` or a provider. `fixed` are the keywords that a
    partial has set. `positional` lists the parameters, hidden ones included, that have to be passed
    by position. `core` is the core schema of all arguments, and `root` their plain JSON Schema
    (2020-12), without texts from the docstring. `returns` is the return annotation, or `EMPTY` if
    there is none or if it cannot be resolved.
    """

    parameters: list[Parameter] = field(default_factory=list)
    rest: str = ""
    rest_core: Any = None
    rest_text: str = ""
    hidden: dict[str, Any] = field(default_factory=dict)
    fixed: tuple[str, ...] = ()
    positional: list[inspect.Parameter] = field(default_factory=list)
    core: Any = None
    root: dict[str, Any] = field(default_factory=dict)
    returns: Any = EMPTY

    def json_schema(self, texts: Mapping[str, str]) -> dict[str, Any]:
        """Return the plain JSON Schema of the arguments.

        Args:
            texts: The docstring's text on each parameter, used if its annotation has none.
        """

        def described(part: Any, name: str, own: str) -> Any:
            if not isinstance(part, dict):  # Further arguments are not allowed.
                return part
            text = own or part.get("description") or texts.get(name)
            return {**part, "description": text} if text else part

        fields, others = self.root["properties"], self.root["additionalProperties"]
        own = {p.wire: described(fields[p.wire], p.name, p.description) for p in self.parameters}
        others = described(others, self.rest, self.rest_text)
        return {**self.root, "properties": own, "additionalProperties": others}


def describe(
    func: Callable[..., Any], *, method: bool = False, frame: FrameType | None = None
) -> FunctionSchema:
    """Return the schema of a callable's arguments.

    Args:
        func: Any callable that has a signature.
        method: Leave out the first parameter, `self` or `cls`, which is bound later.
        frame: The frame that defines the function. String annotations may use its local names.

    Raises:
        Unresolved: An annotation names a class that does not exist yet.
        DefinitionError: A parameter has no schema.
    """
    signature = signature_of(func)
    hint = Hints(func, frame)
    parts = FunctionSchema(fixed=fixed_keywords(func))
    named = list(signature.parameters.values())[1 if method else 0 :]
    parameters = [parameter for parameter in named if parameter.name not in parts.fixed]
    for parameter in parameters:
        try:
            _add(parts, parameter, hint)
        except NameError as error:  # A `type` alias is evaluated when its value is asked for.
            raise Unresolved(f"parameter {parameter.name!r}: {error}") from error
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)
    last = max((i for i, p in enumerate(parameters) if p.kind in by_place), default=-1)
    parts.positional = parameters[: last + 1]
    wires = [parameter.wire for parameter in parts.parameters]
    if len(set(wires)) != len(wires):
        names = ", ".join(sorted(wires))
        raise DefinitionError(f"two parameters have the same name for the model: {names}")
    # A return annotation that cannot be read does not matter: the tool has no output schema then.
    with suppress(Unresolved, DefinitionError):
        parts.returns = hint(signature.return_annotation)
    _compile(parts)
    return parts


def _add(parts: FunctionSchema, parameter: inspect.Parameter, hint: Hints) -> None:
    """Add one parameter, which is injected, an argument, or `**kwargs`."""
    name, kind = parameter.name, parameter.kind
    annotation = Any if parameter.annotation is EMPTY else hint(parameter.annotation, name)
    if (source := hidden_source(annotation, name)) is not None:
        twice = source in (Context, ToolCall) and source in parts.hidden.values()
        if twice or kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            what = getattr(source, "__name__", "value")
            raise DefinitionError(f"parameter {name!r}: only one {what} can be injected")
        parts.hidden[name] = source
    elif kind is not parameter.VAR_KEYWORD:
        parts.parameters.append(read_parameter(parameter, annotation, hint.locals))
    elif get_origin(annotation) != cast(Any, Unpack):
        parts.rest, parts.rest_core = name, core_of(annotation, name, hint.locals)
        parts.rest_text = text_of(annotation)
    else:
        _add_unpacked(parts, name, get_args(annotation)[0], hint)


def _add_unpacked(parts: FunctionSchema, rest: str, kind: Any, hint: Hints) -> None:
    """Add the keys of a TypedDict that `**kwargs` unpacks."""
    base = get_origin(kind) or kind
    if not is_typeddict(base):
        raise DefinitionError(f"parameter {rest!r}: Unpack needs a TypedDict")
    given = dict(zip(getattr(base, "__parameters__", ()), get_args(kind), strict=False))
    for name, value in hint.of(base).items():
        required = name in base.__required_keys__
        outer: Any
        while (outer := get_origin(value)) in _QUALIFIERS:
            # `__required_keys__` ignores these qualifiers in postponed annotations.
            required = outer is Required or (required and outer is not NotRequired)
            value = get_args(value)[0]
        # As an Annotated type, a bare type variable also has `__parameters__` to substitute.
        value = cast(Any, Annotated[value, None])
        if free := value.__parameters__:
            value = value[tuple(given.get(variable, variable) for variable in free)]
        found = Parameter(name, name, None, required, inspect.Parameter.KEYWORD_ONLY)
        parts.parameters.append(read_annotation(found, value, hint.locals))


def returned_schema(annotation: Any) -> dict[str, Any] | None:
    """Return the JSON Schema of a return annotation, or None if it has none. Never raise."""
    origin = get_origin(annotation) or annotation
    shown = (ToolResult, *CONTENT_TYPES)
    if any(isinstance(each, type) and issubclass(each, shown) for each in _within(annotation)):
        return None
    if annotation in (EMPTY, None, type(None), Any) or origin in _ITERATORS:
        return None
    with suppress(Exception):
        return deepcopy(_output_schema(annotation))
    return None


def _within(annotation: Any) -> Iterator[Any]:
    yield get_origin(annotation) or annotation
    for each in get_args(annotation):
        yield from _within(each)


@cached
def _output_schema(annotation: Any) -> dict[str, Any]:
    adapter: TypeAdapter[Any] = TypeAdapter(annotation)
    return adapter.json_schema(mode="serialization", schema_generator=PlainJsonSchema)


def _compile(parts: FunctionSchema) -> None:
    """Combine the parameters into one core schema and one JSON Schema.

    The core schema also accepts null for each default that null means. The JSON Schema does not.
    """
    definitions: dict[str, Any] = {}
    fields = {
        p.wire: core_schema.typed_dict_field(hoist(p.core, definitions), required=p.required)
        for p in parts.parameters
    }
    rest = None if parts.rest_core is None else hoist(parts.rest_core, definitions)
    extra: Any = "forbid" if rest is None else "allow"
    root: Any = core_schema.typed_dict_schema(fields, extra_behavior=extra, extras_schema=rest)
    shared = list(definitions.values())
    parts.core = core_schema.definitions_schema(root, shared) if shared else root
    try:
        made = PlainJsonSchema().generate(parts.core)
        require_tags(made)
        parts.root = {"type": "object", "properties": {}, **made}
    except Exception as error:
        wrong = f"has no JSON Schema: {str(error).splitlines()[0]}"
        raise DefinitionError(f"parameter {_culprit(parts)!r} {wrong}") from error
    for parameter in parts.parameters:
        found = parts.root["properties"][parameter.wire]
        if not parameter.required and "null" not in types_allowed(found, parts.root, {}):
            parameter.null_is_default, part = True, fields[parameter.wire]
            part["schema"] = core_schema.nullable_schema(part["schema"])
        default = parameter.plain_default()
        if default is not EMPTY:
            found["default"] = default


def _culprit(parts: FunctionSchema) -> str:
    """Return the name of the first parameter whose type has no JSON Schema."""
    for parameter in parts.parameters:
        try:
            PlainJsonSchema().generate(parameter.core)
        except Exception:
            return parameter.name
    return parts.rest
