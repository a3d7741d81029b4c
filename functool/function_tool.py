"""`FunctionTool`: turns a typed Python function into a tool that still works as a function."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from contextlib import suppress
from copy import deepcopy
from inspect import isawaitable, isclass
from types import AsyncGeneratorType, FrameType, GeneratorType, MethodType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, NamedTuple, ParamSpec, Self, overload

from typing_extensions import TypeVar, Unpack

from functool.binding.binder import Binder, LateBinder
from functool.binding.functions import FunctionBinder
from functool.call import ToolCall, ToolResult, ToolSchema, success_of, with_arguments
from functool.context import Context
from functool.delivery import deliver_last
from functool.errors import DefinitionError
from functool.executors import Executor, checked_executor, in_thread, inline
from functool.generators import exhaust, exhaust_async
from functool.introspection import (
    at_caller,
    docs_of,
    has_own_signature,
    in_class_body,
    inferred_name,
    located,
    outer_frame,
    run_kind,
    without_partials,
)
from functool.options import ToolOptions
from functool.schema.hints import Unresolved
from functool.schema.parameters import EMPTY, Parameter
from functool.schema.publish import Strict, publish
from functool.schema.signature import FunctionSchema, describe, returned_schema
from functool.schema.strict import Codec
from functool.tool import Tool
from functool.trip import Trip, started

P = ParamSpec("P")
R = TypeVar("R")
Q = ParamSpec("Q")
S = TypeVar("S")


class FunctionOptions(ToolOptions, total=False):
    """The options of a `FunctionTool`."""

    name: str | None
    description: str | None
    strict: Strict
    executor: Executor | None


class FunctionTool(Tool, Generic[P, R]):
    """Turn a function into a tool.

    Use it as `@FunctionTool`, as `@FunctionTool(...)` or as `FunctionTool(func, ...)`. Called
    positionally with a `ToolCall`, or with a `ToolCall` and a `Context`, it runs as a tool. Called
    with anything else, it runs as the plain function.

    Args:
        func: Any callable except a class: a function, coroutine function, method, partial,
            generator function or an instance with `__call__`.
        name: The name for the model; by default the function's name.
        description: By default the docstring without its sections.
        strict: True publishes the schema in its strict form and decodes strict arguments.
            `"refuse"` raises `SchemaError` where the strict form would need an encoding.
        executor: Runs the body; by default `in_thread` for sync functions, and the event loop for
            async ones.
        **options: The options of every tool: see `ToolOptions`.

    Raises:
        DefinitionError: The function cannot be a tool. The message names the function, its file and
            its line.
    """

    binding: Binder
    func: Callable[P, R]
    """The function itself."""

    if TYPE_CHECKING:

        @overload
        def __init__(self, func: Callable[P, R], **options: Unpack[FunctionOptions]) -> None: ...
        @overload
        def __init__(
            self: FunctionTool[[], _Decorator], /, **options: Unpack[FunctionOptions]
        ) -> None: ...

    else:

        def __new__(cls, func=None, **options):
            """Return a tool, or a decorator if no function was given."""
            return super().__new__(cls) if func is not None else functools.partial(cls, **options)

    def __init__(
        self: Any,
        func: Any = None,
        *,
        name: str | None = None,
        description: str | None = None,
        strict: Strict = False,
        executor: Executor | None = None,
        **options: Unpack[ToolOptions],
    ) -> None:
        kind = type(func) if isinstance(func, (staticmethod, classmethod)) else None
        inner = func.__func__ if kind else func
        if not callable(inner):
            text = f"it needs a callable, not {type(func).__name__}: pass options by keyword"
            raise at_caller(DefinitionError(text), "FunctionTool")
        if isinstance(without_partials(inner), Tool):
            text = "it is a tool: use WrapperTool(tool, ...), or tool.func without its guardrails"
            raise at_caller(DefinitionError(text), name or without_partials(inner).name)
        if isclass(inner):
            way = "Decorate a method, pass an instance that has __call__, or make"
            raise located(DefinitionError(f"it is a class. {way} the class a ToolModel"), inner)
        self._copy_metadata(inner)
        frame = outer_frame()
        of_class = kind is classmethod
        method = of_class or (kind is None and in_class_body(inner, frame))
        self._definition = _Definition(method, of_class, None, frame, description, strict)
        self._published: ToolSchema | None = None
        try:
            self._set_options(inferred_name(inner) if name is None else name, description, options)
            sync = run_kind(inner) == "function"
            own = checked_executor(executor)
            self._executor: Executor | None = own or (in_thread if sync else None)
            self._parts: Any = None  # A `FunctionSchema`, once every annotation is resolved.
            self._makers: list[tuple[str, Callable[[], Any]]] = []
            self._direct_body: Any = None
            # If a subclass overrides `run`, `_start_body` has to call it.
            self._overridden = type(self).run is not FunctionTool.run
            try:
                self._resolve()
            except Unresolved:
                self.binding = LateBinder(self._resolve_late)
        except DefinitionError as error:
            raise located(error, inner) from error.__cause__

    def _copy_metadata(self, func: Any) -> None:
        """Copy the function's metadata as `functools.wraps` does, but keep the tool's own names."""
        # `update_wrapper` would copy the function's `__dict__` into the tool's: a tool whose
        # `__dict__` was asked for pays five times as much for each attribute.
        for key, value in getattr(func, "__dict__", {}).items():
            if not hasattr(type(self), key):
                setattr(self, key, value)
        functools.update_wrapper(self, func, updated=())
        self.func = func

    def _resolve(self) -> Binder:
        """Compile the signature: at the decorator, or later when every annotation resolves."""
        definition = self._definition
        parts = describe(self.func, method=definition.method, frame=definition.frame)
        codec = None
        if definition.strict is not False:
            self._published, codec = self._publish(parts)
        self.binding = FunctionBinder(parts, codec, self.max_argument_bytes)
        own = has_own_signature(self.func)
        self._makers = [(p.name, m) for p in parts.parameters if (m := _maker(p, own)) is not None]
        # The fast path: such an async function is called directly with the bound values.
        plain = not (self._overridden or self._makers or parts.positional or parts.hidden)
        if plain and self._executor is None and run_kind(self.func) == "coroutine":
            self._direct_body = self.func
        # Last: another thread that finds the parts uses everything above.
        self._parts, self._definition = parts, definition._replace(frame=None)
        return self.binding

    def _resolve_late(self) -> Binder:
        """Compile a signature that could not be resolved at the decorator."""
        if self._parts is not None:
            return self.binding
        try:
            return self._resolve()
        except Unresolved as error:
            way = "Import the name at run time (not under TYPE_CHECKING), or define it before"
            wrong = f"an annotation cannot be resolved: {error}. {way} the tool is first used"
            raise located(DefinitionError(wrong), self.func) from error
        except DefinitionError as error:
            raise located(error, self.func) from error.__cause__

    @property
    def schema(self) -> ToolSchema:
        """Everything that a model learns about the tool; built on first use."""
        if self._published is None:
            self._resolve_late()
            self._published = self._publish(self._parts)[0]
        return self._published

    def _publish(self, parts: FunctionSchema) -> tuple[ToolSchema, Codec | None]:
        docs = docs_of(self.func)
        given, strict = self._definition.description, self._definition.strict
        description = docs.summary if given is None else given
        output = returned_schema(parts.returns)
        if output is not None and docs.returns:
            output.setdefault("description", docs.returns)
        plain = parts.json_schema({**docs.attributes, **docs.params})
        schema, codec = publish(self._name, description, plain, strict, output, rest=parts.rest)
        schema.names = {p.wire: p.name for p in parts.parameters if p.wire != p.name}
        return schema, codec

    if TYPE_CHECKING:

        @overload
        def __call__(
            self: FunctionTool[[], _Decorator], func: Callable[Q, S], /
        ) -> FunctionTool[Q, S]: ...
        @overload
        def __call__(
            self, call: ToolCall, context: Context[Any] | None = None, /
        ) -> Coroutine[Any, Any, ToolResult]: ...
        @overload
        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run a call if the arguments are a `ToolCall` and maybe a `Context`; else call `func`."""
        if args and not kwargs and isinstance(args[0], ToolCall):
            if len(args) == 1:
                return self.invoke(args[0])
            if len(args) == 2 and (args[1] is None or isinstance(args[1], Context)):
                return self.invoke(args[0], args[1])
        func: Any = self.func
        if self._definition.method and len(args) > 1 and isinstance(args[1], ToolCall):
            # Since Python 3.13 an outer `@classmethod` passes the class as first argument.
            raise TypeError("the tool is not bound: write @FunctionTool above @classmethod")
        return func(*args, **kwargs)

    if TYPE_CHECKING:

        @overload
        def __get__(self, instance: None, owner: type | None = None) -> Self: ...
        @overload
        def __get__(
            self: FunctionTool[Concatenate[Any, Q], S], instance: object, owner: type | None = None
        ) -> FunctionTool[Q, S]: ...

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """Bind like a method. The bound tool shares guardrails and error functions."""
        target = owner if self._definition.of_class else instance
        if target is None or not self._definition.method:
            return self
        bound: Any = object.__new__(type(self))
        func = MethodType(self.func, target)
        for key, value in vars(self).items():
            setattr(bound, key, value)
        bound.func, bound.__wrapped__ = func, func
        bound._definition = self._definition._replace(method=False, bound_to=target)
        bound._direct_body = func if self._direct_body else None
        if self._parts is None:
            bound.binding = LateBinder(bound._resolve_late)
        return bound

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickle by module and qualified name, or, if the tool is bound, by its object."""
        target, name = self._definition.bound_to, getattr(self.func, "__name__", "")
        # A copy from `around` differs from the tool under that name, so pickle refuses it.
        if getattr(getattr(target, name, None), "_arounds", None) == self._arounds:
            return getattr, (target, name)
        # pickle refuses the tool if another object has this name.
        return str(getattr(self, "__qualname__", self._name))

    async def run(self, call: ToolCall, context: Context[Any]) -> ToolResult:
        """Call the function with the call's arguments.

        `invoke` does not need this method. It serves a subclass that calls `super().run(...)`.
        """
        sent: Any = self.sent_form(call.arguments)
        trip = started(self, with_arguments(call, sent), context)
        trip.values = self.binding.values(sent)
        try:
            return await self._result_of(await self._call_function(trip), trip)
        finally:
            context.add_labels(trip.labels)
            await deliver_last(trip.view.delivered())

    def _start_body(self, trip: Trip) -> Any:
        if self._direct_body is not None:
            return self._direct_body(**trip.values)
        return super()._start_body(trip) if self._overridden else self._call_function(trip)

    async def _result_of(self, value: Any, trip: Trip) -> ToolResult:
        if isinstance(value, AsyncGeneratorType):
            value = await exhaust_async(value, trip.view)
        elif isinstance(value, GeneratorType):
            value = await (self._executor or in_thread)(exhaust, value, trip.view)
        return value if isinstance(value, ToolResult) else success_of(value, trip.id)

    async def _call_function(self, trip: Trip) -> Any:
        """Call the function with defaults, injected values and an executor."""
        values, parts = dict(trip.values), self._parts
        for name, maker in self._makers:
            if name not in values:
                values[name] = maker()
        for name, source in parts.hidden.items():
            if source is Context:
                values[name] = trip.view
            elif source is ToolCall:
                values[name] = trip.call
            else:
                values[name] = await inline(source, trip.view)
        args = _take_positional(values, parts) if parts.positional else []
        func: Any = self.func
        executor = self._executor
        value = func(*args, **values) if executor is None else await executor(func, *args, **values)
        return await value if isawaitable(value) else value


class _Definition(NamedTuple):
    """How the author defined the tool.

    It is one attribute, because objects with more than 30 attributes are slower.
    """

    method: bool
    of_class: bool
    bound_to: Any
    frame: FrameType | None
    description: str | None
    strict: Strict


class _Decorator:
    """A mark for type checkers: a `FunctionTool(...)` that still waits for its function."""


def _take_positional(values: dict[str, Any], parts: FunctionSchema) -> list[Any]:
    """Remove the positional arguments from `values` and return them in order."""
    args: list[Any] = []
    for parameter in parts.positional:
        if parameter.name in values:
            value = values.pop(parameter.name)
            args += value if parameter.kind is parameter.VAR_POSITIONAL else [value]
        elif parameter.default is not parameter.empty and parameter is not parts.positional[-1]:
            args.append(parameter.default)
    return args


def _maker(parameter: Parameter, own: bool) -> Callable[[], Any] | None:
    """Return a function that makes a default, or None if Python fills it in by itself.

    Such a default comes from a factory or a `Field`, or it is mutable and has to be copied. If the
    signature is not the function's `own`, Python does not know its defaults.
    """
    if parameter.factory is not None:
        return parameter.factory
    default = parameter.default
    if default is EMPTY or parameter.kind is parameter.kind.VAR_POSITIONAL:
        return None
    with suppress(Exception):  # An author's own `__hash__` may raise anything.
        hash(default)
        return (lambda: default) if parameter.by_field or not own else None
    return functools.partial(deepcopy, default)  # It is mutable, or holds what is.
