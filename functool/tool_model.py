"""`ToolModel`: a pydantic model that is a tool. Its fields are the arguments, `run` is the body."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Annotated, Any, Generic, Protocol, overload

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined, to_json
from typing_extensions import TypeVar, Unpack

from functool.binding.problems import problems_of
from functool.call import ToolCall, ToolResult, failure_of
from functool.context import Context
from functool.errors import ArgumentError
from functool.function_tool import FunctionOptions, FunctionTool
from functool.introspection import snake_case
from functool.json_values import paused_gc
from functool.schema.core import compiled, core_of
from functool.schema.docstrings import parse
from functool.time_limit import failure_or_raise
from functool.tool import Tool

T = TypeVar("T", default=Any)
R = TypeVar("R", covariant=True)


@dataclass(frozen=True, slots=True)
class Ok(Generic[T]):
    """The outcome of a run that succeeded."""

    value: T


@dataclass(frozen=True, slots=True)
class Err:
    """The outcome of a run that failed. `reason` is written for the model."""

    reason: str


class _Runs(Protocol[R]):
    """For type checkers: a model whose `run` returns R."""

    @property
    def run(self) -> Callable[..., R]: ...


class _Untyped:
    """For type checkers: only a `run` without a return annotation returns this."""


class ToolModel(BaseModel, extra="forbid", ignored_types=(str,)):
    """A tool as a pydantic model: its fields are the parameters, and `run` does the work.

    `run(self)` or `run(self, context)`, sync or async, returns an `Ok`, an `Err` or a plain value.
    A class attribute `name: ClassVar[str]` sets the name of the tool. By default it is the class
    name in snake_case.
    """

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Do the work."""
        raise NotImplementedError(f"{type(self).__name__} must implement run")

    @overload
    def __call__(self: _Runs[_Untyped], context: Context[Any] | None = None) -> Any: ...
    @overload
    def __call__(
        self: _Runs[Awaitable[object]], context: Context[Any] | None = None
    ) -> Coroutine[Any, Any, Ok[Any] | Err]: ...
    @overload
    def __call__(self, context: Context[Any] | None = None) -> Ok[Any] | Err: ...
    def __call__(self, context: Context[Any] | None = None) -> Any:
        """Run, and return an `Ok` or an `Err`. If `run` is async, return an awaitable of it."""
        try:
            value = self._call_run(context or Context())
        except Exception as error:
            return Err(failure_of(failure_or_raise(error)).text)
        return _await_outcome(value) if inspect.isawaitable(value) else _outcome(value)

    @classmethod
    def tool(cls, **options: Unpack[FunctionOptions]) -> Tool:
        """Return the tool of this model. The options are those of `FunctionTool`."""
        kind, word = inspect.Parameter, inspect.Parameter.KEYWORD_ONLY
        fields = cls.model_fields.items()
        types: Any = {n: Annotated[field.annotation, _as_argument(field)] for n, field in fields}
        types |= {"_call": ToolCall, "_context": Context}
        body = _body_of(cls)
        made = [kind(name, word, annotation=annotation) for name, annotation in types.items()]
        body.__signature__ = inspect.Signature(made)
        body.__wrapped__ = cls.run  # Definition errors name its file and line.
        body.__doc__, body.__module__ = cls.__doc__, cls.__module__
        body.__name__, body.__qualname__ = cls.tool_name(), f"{cls.__qualname__}.run"
        if body.__name__ != snake_case(cls.__name__):  # The author has chosen it.
            options.setdefault("name", body.__name__)
        return FunctionTool(body, **options)

    @classmethod
    def tool_name(cls) -> str:
        """Return the name of the tool."""
        own = getattr(cls, "name", None)
        return own if isinstance(own, str) else snake_case(cls.__name__)

    @classmethod
    def tool_description(cls) -> str:
        """Return the description of the tool: the docstring of the class, without its sections."""
        return parse(cls.__doc__ or "").summary

    @classmethod
    def input_schema(cls) -> dict[str, Any]:
        """Return the JSON Schema of the arguments."""
        return cls.tool().schema.plain

    def _call_run(self, context: Context[Any]) -> Any:
        func = getattr(self.run, "__func__", self.run)
        taken = _first_parameter(func, int(func is not self.run))
        if taken and taken[0].kind is taken[0].KEYWORD_ONLY:
            return self.run(**{taken[0].name: context})
        return self.run(context) if taken else self.run()


@lru_cache(maxsize=256)
def _first_parameter(func: Any, place: int) -> list[inspect.Parameter]:
    """Return the parameter at `place`, which is the first one after `self` for a method."""
    return list(inspect.signature(partial(func, *[None] * place)).parameters.values())[:1]


def _as_argument(field: FieldInfo) -> FieldInfo:
    """Return a field whose default is only published: the model itself makes it."""
    if not field.is_required():
        field = copy(field)
        field.default_factory = lambda: PydanticUndefined
    return field


def _body_of(model: type[ToolModel]) -> Any:
    async def later(*, _call: ToolCall, _context: Context[Any], **values: Any) -> Any:
        made = paused_gc(_instance_of, model, _call, values)
        return _to_return_value(await made._call_run(_context))

    def at_once(*, _call: ToolCall, _context: Context[Any], **values: Any) -> Any:
        return _to_return_value(paused_gc(_instance_of, model, _call, values)._call_run(_context))

    return later if inspect.iscoroutinefunction(model.run) else at_once


def _instance_of(model: type[ToolModel], call: ToolCall, values: dict[str, Any]) -> ToolModel:
    """Make an instance from a call. The validators of the model see what was sent, no defaults."""
    assert isinstance(call.arguments, Mapping)
    # Use the names that were sent, the aliases, so that errors name what the model has sent.
    names, given = _sent_names(model), call.arguments.items()
    sent = {names[n]: value for n, value in given if values[n] is not PydanticUndefined}
    with suppress(ValidationError):  # As the call was validated: in a union, true is no number.
        return _validator(model)(to_json(sent), strict=True)
    try:
        return _validator(model)(to_json(sent))
    except ValidationError as error:
        raise ArgumentError(problems_of(error, sent, model.input_schema())) from None


@lru_cache(maxsize=256)
def _sent_names(model: type[ToolModel]) -> dict[str, str]:
    """Return the names that a model sends, by field. Both are in the same order."""
    return dict(zip(model.model_fields, model.input_schema()["properties"], strict=True))


@lru_cache(maxsize=256)
def _validator(model: type[ToolModel]) -> Callable[..., ToolModel]:
    """Return a function that validates JSON as the published schema of a model says."""
    names = _sent_names(model)
    # An alias that is the name of another field would fill both. Classes inside may need names.
    is_shared = any(wire != name and wire in names for name, wire in names.items())
    validate = compiled(core_of(model, model.__name__), brief=True)
    return partial(validate, by_alias=True, by_name=not is_shared)


def _to_return_value(outcome: Any) -> Any:
    if isinstance(outcome, Err):
        return ToolResult.failed(str(outcome.reason))
    return outcome.value if isinstance(outcome, Ok) else outcome


def _outcome(value: Any) -> Ok[Any] | Err:
    if isinstance(value, ToolResult):
        return Ok(value.value) if value.success else Err(value.text)
    return value if isinstance(value, (Ok, Err)) else Ok(value)


async def _await_outcome(work: Awaitable[Any]) -> Ok[Any] | Err:
    try:
        return _outcome(await work)
    except Exception as error:
        return Err(failure_of(failure_or_raise(error)).text)
