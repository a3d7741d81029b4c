"""Signature and docstring to schema: `describe(func) -> FunctionSchema`.

The arguments of a function are one pydantic-core `typed_dict_schema` whose fields are the core
schemas of `TypeAdapter(annotation)`, cached for each annotation. Of the public ways to validate
JSON text this one measured fastest (an `arguments_schema` costs a quarter more a call, a model per
function twice as much to define), and no parameter name is reserved in it. Defaults stay out: an
argument that was not sent is left to the function's own default.
"""

from __future__ import annotations

import functools
import inspect
import json
import sys
import typing
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from enum import Enum
from types import FrameType, SimpleNamespace, UnionType
from typing import Annotated, Any, ClassVar, NotRequired, Required, Union, get_args, get_origin

from pydantic import Field, PydanticUserError, TypeAdapter
from pydantic.fields import FieldInfo
from pydantic_core import core_schema, to_jsonable_python
from typing_extensions import Doc, ReadOnly, Unpack, get_type_hints, is_typeddict

from functool.call import ToolCall, ToolResult
from functool.content import CONTENT_TYPES
from functool.context import Context, Inject
from functool.errors import DefinitionError
from functool.schema.json_schema import admits_null
from functool.schema.plain import PlainJsonSchema, choices_by_key

_EMPTY = inspect.Parameter.empty
_QUALIFIERS: Any = (Required, NotRequired, ReadOnly)
_ITERATORS = (Iterator, Iterable, Generator, AsyncIterator, AsyncIterable, AsyncGenerator)


class Unresolved(Exception):
    """An annotation names something that does not exist yet."""


@dataclass(slots=True)
class Parameter:
    """One argument of the tool.

    `name` is the function's, `wire` the one that the model sends (its alias).

    `by_field` says that the default stands in a pydantic `Field`, and not in the signature.
    """

    empty: ClassVar[Any] = _EMPTY

    name: str
    wire: str
    core: Any
    required: bool
    kind: Any
    default: Any = _EMPTY
    factory: Callable[[], Any] | None = None
    description: str = ""
    nullable: bool = False
    by_field: bool = False


@dataclass(slots=True)
class FunctionSchema:
    """What a function takes, compiled from its signature.

    `parameters` are in the signature's order. `rest` is the name of `**kwargs` ("" without), and
    `rest_core` the core schema of its values. `hidden` maps injected parameters to `Context`,
    `ToolCall` or a provider; `positional` are those, hidden or not, that have to be passed by
    position. `core` is the whole as one core schema, and `properties`, `required`, `definitions`
    and `rest_schema` the same as JSON Schema (2020-12), without the docstring's texts. `returns` is
    the return annotation, empty where there is none or it cannot be resolved.
    """

    parameters: list[Parameter] = field(default_factory=list)
    rest: str = ""
    rest_core: Any = None
    hidden: dict[str, Any] = field(default_factory=dict)
    positional: list[inspect.Parameter] = field(default_factory=list)
    core: Any = None
    properties: dict[str, Any] = field(default_factory=dict)
    required: list[str] = field(default_factory=list)
    definitions: dict[str, Any] = field(default_factory=dict)
    rest_schema: Any = False
    returns: Any = _EMPTY

    def json_schema(self, texts: Mapping[str, str]) -> dict[str, Any]:
        """Return the plain JSON Schema of the arguments, described with the docstring's `texts` where the annotation says nothing."""
        properties = deepcopy(self.properties)
        for parameter in self.parameters:
            found = properties[parameter.wire]
            text = (
                parameter.description or found.get("description") or texts.get(parameter.name, "")
            )
            if text:
                found["description"] = text
        schema: dict[str, Any] = {
            "type": "object",
            "properties": properties,
            **({"required": [*self.required]} if self.required else {}),
        }
        schema["additionalProperties"] = deepcopy(self.rest_schema)
        if isinstance(self.rest_schema, dict) and texts.get(self.rest):
            schema["additionalProperties"].setdefault("description", texts[self.rest])
        if self.definitions:
            schema["$defs"] = deepcopy(self.definitions)
        return schema


def describe(
    func: Callable[..., Any], *, method: bool = False, frame: FrameType | None = None
) -> FunctionSchema:
    """Return the schema of a callable's arguments.

    Args:
        func: Any callable that has a signature.
        method: Leave out the first parameter: it is bound later.
        frame: Where the function was defined; its local names resolve string annotations.

    Raises:
        Unresolved: An annotation names something that does not exist yet.
        DefinitionError: A parameter has no schema.
    """
    signature = _signature(func)
    hint = _Hints(func, frame)
    parts = FunctionSchema()
    parameters = list(signature.parameters.values())[1 if method else 0 :]
    fixed = _fixed_keywords(func)
    for parameter in parameters:
        if parameter.name in fixed:
            continue
        annotation = (
            Any if parameter.annotation is _EMPTY else hint(parameter.annotation, parameter.name)
        )
        if (hidden := _hidden(annotation, parameter.name)) is not None:
            twice = hidden in (Context, ToolCall) and hidden in parts.hidden.values()
            if twice or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise DefinitionError(
                    f"parameter {parameter.name!r}: only one {getattr(hidden, '__name__', 'value')} can be injected"
                )
            parts.hidden[parameter.name] = hidden
        elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
            _add_rest(parts, parameter, annotation, hint)
        else:
            parts.parameters.append(_parameter(parameter, annotation))
    last = max(
        (i for i, p in enumerate(parameters) if p.kind in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL)),
        default=-1,
    )
    parts.positional = [
        parameter for parameter in parameters[: last + 1] if parameter.name not in fixed
    ]
    wires = [parameter.wire for parameter in parts.parameters]
    if len(set(wires)) != len(wires):
        raise DefinitionError(
            f"two parameters have the same name for the model: {', '.join(sorted(wires))}"
        )
    with suppress(
        Unresolved, DefinitionError
    ):  # What a function returns never keeps it from being a tool.
        parts.returns = hint(signature.return_annotation)
    _compile(parts)
    return parts


def returned_schema(annotation: Any) -> dict[str, Any] | None:
    """Return the JSON Schema of a return annotation, or None where it gives none. Never raises."""
    origin = get_origin(annotation) or annotation
    members = [origin, *get_args(annotation)]
    if (
        annotation in (_EMPTY, None, type(None), Any)
        or not _hashable(origin)
        or origin in _ITERATORS
    ):
        return None
    if any(
        isinstance(member, type) and issubclass(member, (ToolResult, *CONTENT_TYPES))
        for member in members
    ):
        return None
    try:
        return deepcopy(
            _output_schema(annotation)
            if _hashable(annotation)
            else _output_schema.__wrapped__(annotation)
        )
    except Exception:
        return None


def named_parameters(func: Callable[..., Any]) -> list[str]:
    """Return every name of the signature, hidden ones too."""
    return list(_signature(func).parameters)


@functools.lru_cache(maxsize=256)
def _output_schema(annotation: Any) -> dict[str, Any]:
    return TypeAdapter(annotation).json_schema(
        mode="serialization", schema_generator=PlainJsonSchema
    )


def _signature(func: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(func)
    except (ValueError, TypeError) as error:
        raise DefinitionError(
            f"it has no signature to read ({error}): wrap it in a function of your own"
        ) from error


def _fixed_keywords(func: Any) -> set[str]:
    """The keywords that a partial has fixed: the author's values, which a model neither sees nor sets."""
    fixed: set[str] = set()
    while isinstance(func, functools.partial):
        fixed |= set(func.keywords)
        func = func.func
    return fixed


class _Hints:
    """Resolves the annotations of one function, one at a time."""

    def __init__(self, func: Any, frame: FrameType | None) -> None:
        while isinstance(func, functools.partial):
            func = func.func
        if not inspect.isroutine(func):
            func = func.__init__ if inspect.isclass(func) else type(func).__call__
        func = inspect.unwrap(getattr(func, "__func__", func))
        self.globals = getattr(func, "__globals__", None) or vars(
            sys.modules.get(getattr(func, "__module__", ""), SimpleNamespace())
        )
        self.locals: dict[str, Any] = {}
        while (
            frame is not None and frame.f_globals is not self.globals
        ):  # A decorator of the author's own, in another module.
            frame = frame.f_back
        while (
            frame is not None
            and frame.f_globals is self.globals
            and frame.f_locals is not frame.f_globals
        ):
            self.locals = {**frame.f_locals, **self.locals}
            frame = frame.f_back
        self.locals |= {
            parameter.__name__: parameter for parameter in getattr(func, "__type_params__", ())
        }

    def __call__(self, annotation: Any, name: str = "return") -> Any:
        if isinstance(annotation, type) and not get_args(annotation):
            return annotation
        try:
            holder = SimpleNamespace(__annotations__={"x": annotation})
            return get_type_hints(holder, self.globals, self.locals, include_extras=True)["x"]
        except NameError as error:
            raise Unresolved(f"parameter {name!r}: {error}") from error
        except Exception as error:
            raise DefinitionError(
                f"parameter {name!r}: the annotation {annotation!r} cannot be read: {error}"
            ) from error


def _hidden(annotation: Any, name: str) -> Any:
    """Return `Context`, `ToolCall` or an `Inject` provider for a parameter that is injected, else None."""
    if get_origin(annotation) is Annotated:
        for extra in get_args(annotation)[1:]:
            if extra is Inject or (isinstance(extra, Inject) and not callable(extra.provider)):
                raise DefinitionError(
                    f"parameter {name!r}: Inject needs a function of the context: Annotated[T, Inject(lambda ctx: ...)]"
                )
            if isinstance(extra, Inject):
                return extra.provider
        return _hidden(get_args(annotation)[0], name)
    members = (
        get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    )
    for member in members:
        kind = get_origin(member) or member
        if isinstance(kind, type) and issubclass(kind, (Context, ToolCall)):
            return Context if issubclass(kind, Context) else ToolCall
    return None


def _parameter(parameter: inspect.Parameter, annotation: Any) -> Parameter:
    default = parameter.default
    if isinstance(default, FieldInfo):
        annotation, default = Annotated[annotation, default], _EMPTY
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        items: Any = list[annotation]
        return Parameter(
            parameter.name, parameter.name, _core(items, parameter.name), False, parameter.kind
        )
    found = Parameter(
        parameter.name, parameter.name, None, default is _EMPTY, parameter.kind, default
    )
    found.core = _core(_read_metadata(found, annotation), parameter.name)
    return found


def _read_metadata(found: Parameter, annotation: Any) -> Any:
    """Take over what the metadata says of the parameter, and return the annotation with what it says of the type."""
    if get_origin(annotation) is not Annotated:
        return annotation
    kind, *extras = get_args(annotation)
    for place, extra in enumerate(extras):
        if isinstance(extra, str):
            found.description = extra
        elif isinstance(extra, Doc):
            found.description = extra.documentation
        elif isinstance(extra, FieldInfo):
            alias = extra.validation_alias or extra.alias
            if alias is not None:
                found.wire = alias if isinstance(alias, str) else _first_alias(alias)
            if found.default is _EMPTY and not extra.is_required():
                found.default, found.required, found.by_field = extra.default, False, True
                found.factory = typing.cast(Any, extra.default_factory)
            extras[place] = _type_part(extra)
    found.description = inspect.cleandoc(found.description)
    return Annotated[(kind, *extras)]


def _type_part(info: FieldInfo) -> FieldInfo:
    """Return a `Field` without alias and default: pydantic warns of them where there is no model."""
    words = ("title", "description", "examples", "discriminator", "deprecated", "json_schema_extra")
    part: FieldInfo = Field(
        **{word: value for word in words if (value := getattr(info, word)) is not None}
    )
    part.metadata = [*info.metadata]
    return part


def _first_alias(alias: Any) -> str:
    names = [choice for choice in getattr(alias, "choices", ()) if isinstance(choice, str)]
    if not names:
        raise DefinitionError(f"the alias {alias!r} is a path: a parameter needs one name")
    return names[0]


def _add_rest(
    parts: FunctionSchema, parameter: inspect.Parameter, annotation: Any, hint: _Hints
) -> None:
    outer: Any = get_origin(annotation)
    if outer != Unpack:
        parts.rest, parts.rest_core = parameter.name, _core(annotation, parameter.name)
        return
    kind = get_args(annotation)[0]
    base = get_origin(kind) or kind
    if not is_typeddict(base):
        raise DefinitionError(f"parameter {parameter.name!r}: Unpack needs a TypedDict")
    given = dict(zip(getattr(base, "__parameters__", ()), get_args(kind), strict=False))
    for name, value in get_type_hints(base, hint.globals, hint.locals, include_extras=True).items():
        required = name in base.__required_keys__
        while (outer := get_origin(value)) in _QUALIFIERS:
            # Python does not see these words in a postponed annotation.
            required = outer is Required or (required and outer is not NotRequired)
            value = get_args(value)[0]
        value = typing.cast(
            Any, Annotated[value, None]
        )  # So that a type variable is given its type like any other annotation.
        if free := value.__parameters__:
            value = value[tuple(given.get(variable, variable) for variable in free)]
        found = Parameter(name, name, None, required, inspect.Parameter.KEYWORD_ONLY)
        found.core = _core(_read_metadata(found, value), name)
        parts.parameters.append(found)


def _core(annotation: Any, name: str) -> Any:
    """Return the core schema of an annotation."""
    try:
        return (
            _cached_core(annotation)
            if _hashable(annotation)
            else _cached_core.__wrapped__(annotation)
        )
    except PydanticUserError as error:
        reason = str(error).split("\n")[0].split(". ")[0].rstrip(".")
        if error.code == "class-not-fully-defined":
            raise Unresolved(f"parameter {name!r}: {reason}") from error
        raise DefinitionError(
            f"parameter {name!r}: the type {annotation!r} has no schema: {reason}. Use a type that JSON can say, "
            "or hide the parameter with Annotated[T, Inject(...)]"
        ) from error
    except Exception as error:
        raise DefinitionError(
            f"parameter {name!r}: the annotation {annotation!r} cannot be read: {error}"
        ) from error


@functools.lru_cache(maxsize=512, typed=True)
def _cached_core(annotation: Any) -> Any:
    return _with_members(
        dict(TypeAdapter(annotation).core_schema)
    )  # A class that is not complete yet gives a stand-in, which raises here.


def _with_members(core: Any) -> Any:
    """Let a `Literal` of Enum members take the values that its JSON Schema shows; pydantic takes the members themselves only."""
    if isinstance(core, list):
        return [*map(_with_members, core)]
    if not isinstance(core, dict) or core.get("type") == "model":  # A model validates itself.
        return core
    core = {key: _with_members(part) for key, part in core.items()}
    if core.get("type") == "dict" and (texts := choices_by_key(core.get("keys_schema", {}))):
        core["keys_schema"] = core_schema.no_info_before_validator_function(
            lambda sent: texts.get(sent, sent), core["keys_schema"]
        )
    found = (
        [item for item in core.get("expected", ()) if isinstance(item, Enum)]
        if core.get("type") == "literal"
        else []
    )
    members = {json.dumps(item.value): item for item in found}
    return (
        core_schema.no_info_before_validator_function(
            lambda sent: members.get(json.dumps(sent), sent), core
        )
        if members
        else core
    )


def _hashable(annotation: Any) -> bool:
    try:
        hash(annotation)
    except TypeError:
        return False
    # Equal is not the same: Annotated[int, Ge(1)] == Annotated[int, Ge(True)], and a class may be
    # defined again under its name.
    return get_origin(annotation) is not Annotated


def _compile(parts: FunctionSchema) -> None:
    """Put the fields together into one core schema and one JSON Schema."""
    definitions: dict[str, Any] = {}
    fields = {
        p.wire: core_schema.typed_dict_field(_hoist(p.core, definitions), required=p.required)
        for p in parts.parameters
    }
    rest = None if parts.rest_core is None else _hoist(parts.rest_core, definitions)
    root: Any = core_schema.typed_dict_schema(
        fields,
        extra_behavior="forbid" if rest is None else "allow",
        extras_schema=rest,
        config={"allow_inf_nan": False},
    )
    parts.core = (
        core_schema.definitions_schema(root, list(definitions.values())) if definitions else root
    )
    try:
        schema = PlainJsonSchema().generate(parts.core)
        if rest is not None:
            inner = (
                core_schema.definitions_schema(rest, list(definitions.values()))
                if definitions
                else rest
            )
            parts.rest_schema = PlainJsonSchema().generate(inner) or True
            parts.definitions |= (
                parts.rest_schema.pop("$defs", {}) if isinstance(parts.rest_schema, dict) else {}
            )
    except Exception as error:
        raise DefinitionError(
            f"parameter {_culprit(parts, definitions)!r} has no JSON Schema: {str(error).splitlines()[0]}"
        ) from error
    parts.properties, parts.required = schema.get("properties", {}), schema.get("required", [])
    parts.definitions |= schema.get("$defs", {})
    for parameter in parts.parameters:
        found = parts.properties[parameter.wire]
        parameter.nullable = admits_null(found, parts.definitions)
        default = _plain_default(parameter)
        if default is not _EMPTY:
            found["default"] = default


def _culprit(parts: FunctionSchema, definitions: dict[str, Any]) -> str:
    """Return the name of the first parameter that JSON Schema cannot say."""
    for parameter in parts.parameters:
        try:
            PlainJsonSchema().generate(
                core_schema.definitions_schema(
                    _hoist(parameter.core, {}), list(definitions.values())
                )
            )
        except Exception:
            return parameter.name
    return parts.rest


def _hoist(core: Any, definitions: dict[str, Any]) -> Any:
    if core["type"] != "definitions":
        return core
    for definition in core["definitions"]:
        definitions.setdefault(definition["ref"], definition)
    return core["schema"]


def _plain_default(parameter: Parameter) -> Any:
    """Return the default as JSON, or empty where there is none, a factory makes it, or JSON cannot say it."""
    with suppress(Exception):
        if parameter.default is not _EMPTY and parameter.factory is None:
            return json.loads(json.dumps(to_jsonable_python(parameter.default), allow_nan=False))
    return _EMPTY
