"""`FunctionTool`: turns a typed Python function into a tool, which stays a function."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from copy import deepcopy
from inspect import isawaitable, isclass
from types import AsyncGeneratorType, FrameType, GeneratorType, MethodType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    NamedTuple,
    ParamSpec,
    Self,
    TypeVar,
    overload,
)

from typing_extensions import Unpack

from functool.binding.door import Binder, LateBinder
from functool.binding.functions import FunctionBinder
from functool.binding.watch import Watch, watching
from functool.binding.watched_shapes import CoreShapes
from functool.call import ToolCall, ToolResult, ToolSchema, success
from functool.context import Context
from functool.errors import DefinitionError
from functool.executors import Executor, checked_executor, deliver_last, in_thread, inline
from functool.generators import exhaust, exhaust_async
from functool.options import ToolOptions
from functool.schema.callables import (
    docs_of,
    has_own_signature,
    in_class_body,
    inferred_name,
    located,
    made_here,
    outer_frame,
    way_of,
)
from functool.schema.hints import Unresolved
from functool.schema.parameters import Parameter
from functool.schema.publish import Strict, publish
from functool.schema.signature import FunctionSchema, describe, returned_schema
from functool.schema.strict import Codec
from functool.tool import Tool
from functool.trip import Trip

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
    """Make a tool of a function: `@FunctionTool`, `@FunctionTool(...)`, `FunctionTool(func, ...)`.

    Called with a `ToolCall` (and perhaps a `Context`), positionally, it is a tool. Called in any
    other way it is the function.

    Args:
        func: Anything callable: function, coroutine function, method, partial, generator function,
            instance with `__call__`.
        name: The name for the model; by default the function's.
        description: By default the docstring without its sections.
        strict: True publishes the strict form and decodes it; `"refuse"` raises `SchemaError`
            instead of encoding.
        executor: Where the body runs; by default `in_thread` for sync functions, the event loop for
            async ones.
        **options: Those of every tool: see `ToolOptions`.

    Raises:
        DefinitionError: The function cannot be a tool; the message names it, its file and line.
    """

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
            """Return the tool, or without a function a decorator that makes one."""
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
            text = f"it needs a callable, not {type(func).__name__}: options go by name"
            raise made_here(DefinitionError(text), "FunctionTool")
        if isclass(inner):
            raise located(
                DefinitionError(
                    "it is a class. Decorate a method, pass an instance that has __call__, or make"
                    " the class a ToolModel"
                ),
                inner,
            )
        self._look_like(inner)
        frame = outer_frame()
        of_class = kind is classmethod
        method = of_class or (kind is None and in_class_body(inner, frame))
        self._written = _Written(method, of_class, None, frame, description, strict)
        self._published: ToolSchema | None = None
        try:
            self._equip(inferred_name(inner) if name is None else name, options)
            sync = way_of(inner) in ("function", "generator")
            own = checked_executor(executor)
            self._executor: Executor | None = own or (in_thread if sync else None)
            self._parts: FunctionSchema | None = None
            self._fills: list[tuple[str, Callable[[], Any]]] = []
            self._direct: Any = None
            # Whoever overrides `run` wants it called.
            self._overridden = type(self).run is not FunctionTool.run
            try:
                self._resolve()
            except Unresolved:
                self._binder = LateBinder(self._resolve_late)
        except DefinitionError as error:
            raise located(error, inner) from error.__cause__

    def _look_like(self, func: Any) -> None:
        """Take over what `functools.wraps` does, but no name that a tool has itself."""
        # `update_wrapper` would copy the function's `__dict__` into the tool's: a tool whose
        # `__dict__` was asked for pays five times as much for each attribute.
        for key, value in getattr(func, "__dict__", {}).items():
            if not hasattr(type(self), key):
                setattr(self, key, value)
        functools.update_wrapper(self, func, updated=())
        self.func = func

    def _resolve(self) -> Binder:
        """Compile the signature: at the decorator, or when a name that it needs exists."""
        written = self._written
        parts = describe(self.func, method=written.method, frame=written.frame)
        codec = None
        if written.strict is not False:
            self._published, codec = self._publish(parts)
        self._parts, self._written = parts, written._replace(frame=None)
        self._binder = FunctionBinder(parts, codec, self.max_argument_bytes)
        own = has_own_signature(self.func)
        self._fills = [
            (p.name, maker) for p in parts.parameters if (maker := _maker(p, own)) is not None
        ]
        # An async function that takes what binding returns, and nothing else, is simply awaited.
        plain = not (self._overridden or self._fills or parts.positional or parts.hidden)
        if plain and self._executor is None and way_of(self.func) == "coroutine":
            self._direct = self.func
        return self._binder

    def _resolve_late(self) -> Binder:
        """Compile what named something that did not exist at the decorator."""
        if self._parts is not None:
            return self._binder
        try:
            return self._resolve()
        except Unresolved as error:
            message = (
                f"an annotation cannot be resolved: {error}. Import the name at run time (not"
                " under TYPE_CHECKING), or define it before the tool is first used"
            )
            raise located(DefinitionError(message), self.func) from error
        except DefinitionError as error:
            raise located(error, self.func) from error.__cause__

    @property
    def _signature(self) -> FunctionSchema:
        if self._parts is None:
            self._resolve_late()
        assert self._parts is not None
        return self._parts

    @property
    def schema(self) -> ToolSchema:
        """All that a model is told of the tool: made when it is first asked for."""
        if self._published is None:
            self._published = self._publish(self._signature)[0]
        return self._published

    def _publish(self, parts: FunctionSchema) -> tuple[ToolSchema, Codec | None]:
        docs = docs_of(self.func)
        given, strict = self._written.description, self._written.strict
        description = docs.summary if given is None else given
        output = returned_schema(parts.returns)
        if output is not None and docs.returns:
            output.setdefault("description", docs.returns)
        plain = parts.json_schema(docs.params)
        return publish(self._name, description, plain, strict, output, rest=parts.rest)

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
        """Run a call when it gets a `ToolCall` (and a `Context`); else be the function."""
        if args and not kwargs and isinstance(args[0], ToolCall):
            if len(args) == 1:
                return self.invoke(args[0])
            if len(args) == 2 and (args[1] is None or isinstance(args[1], Context)):
                return self.invoke(args[0], args[1])
        func: Any = self.func
        if self._written.method and len(args) > 1 and isinstance(args[1], ToolCall):
            # As of Python 3.13 a `@classmethod` above calls what it holds with the class.
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
        """Bind like a method; guardrails and error functions stay those of the class."""
        target = owner if self._written.of_class else instance
        if target is None or not self._written.method:
            return self
        bound: Any = object.__new__(type(self))
        func = MethodType(self.func, target)
        for key, value in vars(self).items():
            setattr(bound, key, value)
        bound.func, bound.__wrapped__ = func, func
        bound._written = self._written._replace(method=False, bound_to=target)
        bound._direct = func if self._direct else None
        if self._parts is None:
            bound._binder = LateBinder(bound._resolve_late)
        return bound

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickle by module and qualified name; a bound tool by its object."""
        target, name = self._written.bound_to, getattr(self.func, "__name__", "")
        # What stands around this copy alone is not found there: then pickle refuses it.
        if getattr(getattr(target, name, None), "_arounds", None) == self._arounds:
            return getattr, (target, name)
        return str(
            getattr(self, "__qualname__", self._name)
        )  # pickle refuses it when something else stands there

    def watch(self) -> Watch:
        """Return what judges a call's arguments while their text is written."""
        parts, strict = self._signature, self.strict
        return watching(self._binder, lambda: CoreShapes(parts, strict), self.max_argument_bytes)

    async def run(self, call: ToolCall, context: Context[Any]) -> ToolResult:
        """Call the function with the call's arguments: for a subclass's `super().run(...)`."""
        trip = Trip(self, self._binder, call, context)
        trip.bind_canonical()
        try:
            return await self._result_of(await self._value(trip), trip)
        finally:
            if trip.made is not None:
                await deliver_last(trip.made.delivered())

    def _start_body(self, trip: Trip) -> Any:
        if self._direct is not None:
            return self._direct(**trip.values)
        return super()._start_body(trip) if self._overridden else self._value(trip)

    async def _result_of(self, value: Any, trip: Trip) -> ToolResult:
        if isinstance(value, (GeneratorType, AsyncGeneratorType)):
            value = await self._last(value, trip)
        return value if isinstance(value, ToolResult) else success(value, trip.id)

    async def _value(self, trip: Trip) -> Any:
        """Call the function with defaults, injected values and an executor."""
        values, parts = dict(trip.values), self._signature
        for name, maker in self._fills:
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
        if self._executor is not None:
            value = await self._executor(func, *args, **values)
        else:
            value = func(*args, **values)
        return await value if isawaitable(value) else value

    async def _last(self, items: Any, trip: Trip) -> Any:
        """Run a generator to its end: each item is progress, and the last one is the value."""
        if isinstance(items, AsyncGeneratorType):
            return await exhaust_async(items, trip.view)
        return await (self._executor or in_thread)(exhaust, items, trip.view)


class _Written(NamedTuple):
    """How a tool was written: one attribute, since over 30 of them make each slower."""

    method: bool
    of_class: bool
    bound_to: Any
    frame: FrameType | None
    description: str | None
    strict: Strict


class _Decorator:
    """What `FunctionTool(...)` without a function is to a type checker: waiting for one."""


def _take_positional(values: dict[str, Any], parts: FunctionSchema) -> list[Any]:
    """Take out of `values` what has to be passed by position."""
    args: list[Any] = []
    for parameter in parts.positional:
        if parameter.name in values:
            value = values.pop(parameter.name)
            if parameter.kind is parameter.VAR_POSITIONAL:
                args.extend(value)
            else:
                args.append(value)
        elif parameter.default is not parameter.empty and parameter is not parts.positional[-1]:
            args.append(parameter.default)
    return args


def _maker(parameter: Parameter, own: bool) -> Callable[[], Any] | None:
    """Return what makes a default that Python itself would not give.

    It is a factory's, a `Field`'s, or a fresh copy of a mutable one.
    """
    if parameter.factory is not None:
        return parameter.factory
    default = parameter.default
    if default is Parameter.empty or parameter.kind is parameter.kind.VAR_POSITIONAL:
        return None
    if type(default).__hash__ is None:
        return functools.partial(deepcopy, default)
    return (lambda: default) if parameter.by_field or not own else None
