"""`ToolModel`: a model whose fields are the arguments, and which runs itself to `Ok` or `Err`."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Generic, Protocol, cast, overload

from pydantic import BaseModel, ValidationError
from typing_extensions import TypeVar, Unpack

from functool.binding.problems import problems_of
from functool.call import ToolCall, ToolResult, failure_of
from functool.context import Context
from functool.errors import ArgumentError
from functool.executors import failure_or_raise
from functool.function_tool import FunctionOptions, FunctionTool
from functool.schema.callables import snake_case
from functool.schema.core import compiled, core_of
from functool.schema.docstrings import parse
from functool.tool import Tool

T = TypeVar("T", default=Any)
R = TypeVar("R", covariant=True)


@dataclass(frozen=True, slots=True)
class Ok(Generic[T]):
    """The outcome of a run that succeeded."""

    value: T


@dataclass(frozen=True, slots=True)
class Err:
    """The outcome of a run that failed; `reason` is fit for a model."""

    reason: str


class _Runs(Protocol[R]):
    """To type checkers, a model by what its `run` returns."""

    @property
    def run(self) -> Callable[..., R]: ...


class _Anything:
    """What, to type checkers, only a `run` that says nothing of its result returns."""


class ToolModel(BaseModel, extra="forbid", ignored_types=(str,)):
    """A tool that is its own arguments: fields are parameters, `run` does the work.

    `run(self)` or `run(self, context)`, sync or async, returns an `Ok`, an `Err` or a plain value.
    A class attribute `name: ClassVar[str]` names the tool; else it is the class name in snake_case.
    """

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Do the work."""
        raise NotImplementedError(f"{type(self).__name__} must implement run")

    @overload
    def __call__(self: _Runs[_Anything], context: Context[Any] | None = None) -> Any: ...
    @overload
    def __call__(
        self: _Runs[Awaitable[object]], context: Context[Any] | None = None
    ) -> Coroutine[Any, Any, Ok[Any] | Err]: ...
    @overload
    def __call__(self, context: Context[Any] | None = None) -> Ok[Any] | Err: ...
    def __call__(self, context: Context[Any] | None = None) -> Any:
        """Run, and return `Ok` or `Err`; of an async `run`, something to await for that."""
        try:
            value = self._started(context or Context())
        except Exception as error:
            return Err(failure_of(failure_or_raise(error)).text)
        return _awaited(value) if inspect.isawaitable(value) else _outcome(value)

    @classmethod
    def tool(cls, **options: Unpack[FunctionOptions]) -> Tool:
        """Return the tool. The options are those of `FunctionTool`."""
        kind, word = inspect.Parameter, inspect.Parameter.KEYWORD_ONLY
        fields = [
            kind(name, word, annotation=Annotated[field.annotation, field])
            for name, field in cls.model_fields.items()
        ]
        injected = {"_call": ToolCall, "_context": Context}
        hidden = [kind(name, word, annotation=given) for name, given in injected.items()]
        body = _body_of(cls)
        body.__signature__ = inspect.Signature([*fields, *hidden])
        body.__wrapped__ = cls.run  # What is wrong with the tool is said of that.
        body.__doc__, body.__module__ = cls.__doc__, cls.__module__
        body.__qualname__ = f"{cls.__qualname__}.run"
        options.setdefault("name", cls.tool_name())
        return FunctionTool(body, **options)

    @classmethod
    def tool_name(cls) -> str:
        """Return the name of the tool."""
        own = getattr(cls, "name", None)
        return own if isinstance(own, str) else snake_case(cls.__name__)

    @classmethod
    def tool_description(cls) -> str:
        """Return what the tool does: the docstring of the class, without its sections."""
        return parse(cls.__doc__ or "").summary

    @classmethod
    def input_schema(cls) -> dict[str, Any]:
        """Return the JSON Schema of the arguments."""
        return cls.tool().schema.plain

    def _started(self, context: Context[Any]) -> Any:
        taken = list(inspect.signature(self.run).parameters.values())[:1]
        if taken and taken[0].kind is taken[0].KEYWORD_ONLY:
            return self.run(**{taken[0].name: context})
        return self.run(context) if taken else self.run()


def _body_of(model: type[ToolModel]) -> Any:
    async def later(*, _call: ToolCall, _context: Context[Any], **values: Any) -> Any:
        return _returned(await _made(model, _call)._started(_context))

    def at_once(*, _call: ToolCall, _context: Context[Any], **values: Any) -> Any:
        return _returned(_made(model, _call)._started(_context))

    return later if inspect.iscoroutinefunction(model.run) else at_once


def _made(model: type[ToolModel], call: ToolCall) -> ToolModel:
    """Make the model from the call: its own validators see what was sent."""
    assert isinstance(call.arguments, Mapping)
    wires = {name: field.validation_alias for name, field in model.model_fields.items()}
    # Under the names that were sent, which are the ones that the model is told of a mistake.
    sent = {w if isinstance(w := wires[n], str) else n: v for n, v in call.arguments.items()}
    try:
        made = _validator(model).validate_json(json.dumps(sent), by_alias=True, by_name=True)
        return cast(ToolModel, made)
    except ValidationError as error:
        raise ArgumentError(problems_of(error, sent, model.input_schema())) from None


@lru_cache(maxsize=256)
def _validator(model: type[ToolModel]) -> Any:
    """Return what checks a model as its published schema says."""
    return compiled(core_of(model, model.__name__))


def _returned(outcome: Any) -> Any:
    if isinstance(outcome, Err):
        return ToolResult.failed(str(outcome.reason))
    return outcome.value if isinstance(outcome, Ok) else outcome


def _outcome(value: Any) -> Ok[Any] | Err:
    if isinstance(value, ToolResult):
        return Ok(value.value) if value.success else Err(value.text)
    return value if isinstance(value, (Ok, Err)) else Ok(value)


async def _awaited(work: Awaitable[Any]) -> Ok[Any] | Err:
    try:
        return _outcome(await work)
    except Exception as error:
        return Err(failure_of(failure_or_raise(error)).text)
