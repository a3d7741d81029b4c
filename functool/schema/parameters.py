"""Read one parameter of a function: its annotation, default, alias and description."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Union, cast, get_args, get_origin

from pydantic import Field
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python
from typing_extensions import Doc

from functool.call import ToolCall
from functool.context import Context, Inject
from functool.errors import DefinitionError
from functool.schema.core import core_of
from functool.schema.plain import default_form

EMPTY = inspect.Parameter.empty


@dataclass(slots=True)
class Parameter:
    """One argument of a tool.

    `name` is the parameter's name in the function. `wire` is the name that the model sends: the
    alias, or else `name`. `null_is_default` means that null stands for the default, because the
    type does not admit null. `by_field` means that the default comes from a pydantic `Field` and
    not from the signature.
    """

    name: str
    wire: str
    core: Any
    required: bool
    kind: Any
    default: Any = EMPTY
    factory: Callable[[], Any] | None = None
    description: str = ""
    null_is_default: bool = False
    by_field: bool = False

    def plain_default(self) -> Any:
        """Return the default as a JSON value, or `EMPTY`.

        It is `EMPTY` if there is no default, if only a factory makes it, or if JSON cannot express
        it.
        """
        with suppress(Exception):
            if self.default is not EMPTY:
                return default_form(self.default, to_jsonable_python(self.default))
        return EMPTY


def hidden_source(annotation: Any, name: str) -> Any:
    """Return the source of an injected parameter's value.

    Returns:
        `Context`, `ToolCall` or an `Inject` provider; None for a parameter that a model sends.

    Raises:
        DefinitionError: `Inject` has no provider function.
    """
    annotation = getattr(annotation, "__value__", annotation)  # Of a type alias.
    if get_origin(annotation) is Annotated:
        annotation, *extras = get_args(annotation)
        marks = [extra for extra in extras if extra is Inject or isinstance(extra, Inject)]
        if marks:
            provider: Any = getattr(marks[0], "provider", None)
            if callable(provider):
                return provider
            wrong = "Inject needs a function of the context: Annotated[T, Inject(lambda ctx: ...)]"
            raise DefinitionError(f"parameter {name!r}: {wrong}")
        return hidden_source(annotation, name)
    union = get_origin(annotation) in (Union, UnionType)
    for member in get_args(annotation) if union else (annotation,):
        kind = get_origin(member) or member
        if isinstance(kind, type) and issubclass(kind, (Context, ToolCall)):
            return Context if issubclass(kind, Context) else ToolCall
    return None


def read_parameter(parameter: inspect.Parameter, annotation: Any, known: Any) -> Parameter:
    """Read a parameter of a signature. Classes in the annotation may use the `known` names."""
    name, kind, default = parameter.name, parameter.kind, parameter.default
    if kind is inspect.Parameter.VAR_POSITIONAL:
        core, text = core_of(cast(Any, list[annotation]), name, known), text_of(annotation)
        return Parameter(name, name, core, False, kind, description=text)
    if isinstance(default, FieldInfo):
        annotation, default = Annotated[annotation, default], EMPTY
    found = Parameter(name, name, None, default is EMPTY, kind, default)
    return read_annotation(found, annotation, known)


def read_annotation(found: Parameter, annotation: Any, known: Any) -> Parameter:
    """Fill in a parameter from its annotation: type, description, alias and default."""
    found.description = text_of(annotation)
    if get_origin(annotation) is Annotated:
        kind, *extras = get_args(annotation)
        for place, extra in enumerate(extras):
            if isinstance(extra, FieldInfo):
                _read_field(found, extra)
                extras[place] = _type_part(extra)
        annotation = Annotated[(kind, *extras)]
    # It would not be injected, and a model could set it.
    if found.default is Inject or isinstance(found.default, Inject):
        wrong = "Inject belongs in the annotation: Annotated[T, Inject(...)]"
        raise DefinitionError(f"parameter {found.name!r}: {wrong}")
    found.core = core_of(annotation, found.name, known)
    return found


def text_of(annotation: Any) -> str:
    """Return the text in an annotation, which may be a str or a `Doc`; "" without one."""
    annotation = getattr(annotation, "__value__", annotation)  # Of a type alias.
    if get_origin(annotation) is not Annotated:
        return ""
    kind, *extras = get_args(annotation)
    described = any(isinstance(extra, FieldInfo) and extra.description for extra in extras)
    text = "" if described else text_of(kind)
    for extra in extras:
        if isinstance(extra, str):
            text = extra
        elif isinstance(extra, Doc):
            text = extra.documentation
    return inspect.cleandoc(text)


def _read_field(found: Parameter, info: FieldInfo) -> None:
    alias = info.validation_alias or info.alias
    if alias is not None:
        names = [name for name in getattr(alias, "choices", [alias]) if isinstance(name, str)]
        if not names:
            raise DefinitionError(f"the alias {alias!r} is a path: a parameter needs one name")
        found.wire = names[0]
    if found.default is EMPTY and not info.is_required():
        found.default, found.required, found.by_field = info.default, False, True
        found.factory = cast(Any, info.default_factory)
        if info.default_factory_takes_validated_data:
            wrong = "its default factory takes other arguments: compute such a value in the body"
            raise DefinitionError(f"parameter {found.name!r}: {wrong}")


def _type_part(info: FieldInfo) -> FieldInfo:
    """Return a copy of a `Field` without alias and default, on which pydantic would warn here."""
    words = ("title", "description", "examples", "discriminator", "deprecated", "json_schema_extra")
    kept = {word: value for word in words if (value := getattr(info, word)) is not None}
    part: FieldInfo = Field(**kept)
    part.metadata = [*info.metadata]
    return part
