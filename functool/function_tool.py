"""`FunctionTool`: a tool made of a typed function, which stays a function."""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from copy import deepcopy
from dataclasses import replace
from inspect import isawaitable
from types import AsyncGeneratorType, FrameType, FunctionType, GeneratorType, MethodType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from typing_extensions import Unpack

from functool.binding.functions import FunctionDoor
from functool.call import DATA, ToolCall, ToolResult, ToolSchema, success
from functool.context import Context
from functool.errors import DefinitionError, SchemaError, ToolError
from functool.executors import Executor, conclude, in_thread, inline
from functool.schema import docstrings
from functool.schema.hints import Unresolved
from functool.schema.parameters import Parameter
from functool.schema.signature import FunctionSchema, describe, returned_schema
from functool.schema.strict import Codec
from functool.tool import Strict, Tool, ToolOptions, publish

P = ParamSpec("P")
R = TypeVar("R")
Q = ParamSpec("Q")
S = TypeVar("S")

MAX_YIELDS = 10_000
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class FunctionOptions(ToolOptions, total=False):
    """The options of a `FunctionTool`."""

    name: str | None
    description: str | None
    strict: Strict
    executor: Executor | None


class FunctionTool(Tool, Generic[P, R]):
    """Make a tool of a function: `@FunctionTool`, `@FunctionTool(...)` or `FunctionTool(func, ...)`.

    Called with a `ToolCall` (and perhaps a `Context`), positionally, it is a tool; called in any other way it is the function.

    Args:
        func: Anything callable: function, coroutine function, method, partial, instance with `__call__`, generator function.
        name: The name for the model; by default the function's.
        description: By default the docstring without its sections.
        strict: True publishes the strict form and decodes it; `"refuse"` raises `SchemaError` instead of encoding.
        executor: Where the body runs; by default `in_thread` for sync functions, the event loop for async ones.
        **options: `timeout`, `input_guardrails`, `output_guardrails`, `on_error_func`, `settings`, `prompts`: see `ToolOptions`.

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
            raise DefinitionError(
                f"FunctionTool needs a callable, not {type(func).__name__}: options go by name"
            )
        functools.update_wrapper(self, inner)
        self.func = inner
        self._frame: FrameType | None = _outer_frame()
        self._method = kind is classmethod or (kind is None and _in_class_body(inner, self._frame))
        self._of_class = kind is classmethod
        self._bound_to: Any = None
        self._given = (name, description, strict)
        self._published: ToolSchema | None = None
        try:
            if executor is not None and not callable(executor):
                raise DefinitionError(f"an executor is a callable, not {type(executor).__name__}")
            self._equip(_inferred_name(inner) if name is None else name, **options)
            way = _way_of(inner)
            self._generates = way in ("generator", "async generator")
            self._awaits = way == "coroutine" and executor is None
            self._executor: Executor = executor or in_thread
            self._offloads = way in ("function", "generator") or executor is not None
            try:
                self._resolve()
            except Unresolved:
                pass
        except DefinitionError as error:
            raise _located(error, inner) from error.__cause__

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.run is not FunctionTool.run:
            # Whoever overrides `run` wants it called; the short way past it is FunctionTool's own.
            cls._body = Tool._body  # type: ignore[method-assign]

    def _resolve(self) -> None:
        """Compile the signature: once, at the decorator, or when a name that it needs exists."""
        parts = describe(self.func, method=self._method, frame=self._frame)
        self._parts = parts
        self._frame = None
        coder = None
        if self._given[2] is not False:
            self._published, coder = self._publish()
        # pyright: ignore[reportIncompatibleVariableOverride]
        self._door = FunctionDoor(parts, coder)
        own = _has_own_signature(self.func)
        self._fills = [
            (p.name, maker) for p in parts.parameters if (maker := _maker(p, own)) is not None
        ]
        whole = type(self)._body is FunctionTool._body
        func: Any = self.func
        self._direct = (
            func
            if self._awaits and whole and not (self._fills or parts.positional or parts.hidden)
            else None
        )
        self._watched = self._hooked or self._generates or bool(parts.hidden) or not whole

    # `__getattr__` would do for both, and make each attribute of a tool slower on each call.
    @functools.cached_property
    def _parts(self) -> FunctionSchema:
        self._resolve_late()
        return self._parts

    @functools.cached_property
    def _door(self) -> FunctionDoor:  # type: ignore[override]
        self._resolve_late()
        return self._door

    def _resolve_late(self) -> None:
        """Compile what named something that did not exist at the decorator."""
        try:
            self._resolve()
        except Unresolved as error:
            message = (
                f"an annotation cannot be resolved: {error}. Import the name at run time (not under TYPE_CHECKING), or define it "
                "before the tool is first used"
            )
            raise _located(DefinitionError(message), self.func) from error
        except DefinitionError as error:
            raise _located(error, self.func) from error.__cause__

    @property
    def schema(self) -> ToolSchema:
        """All that a model is told of the tool: made when it is first asked for."""
        if self._published is None:
            self._published = self._publish()[0]
        return self._published

    def _publish(self) -> tuple[ToolSchema, Codec | None]:
        parts = self._parts
        docs = _docs_of(self.func)
        description = docs.summary if self._given[1] is None else self._given[1]
        output = returned_schema(parts.returns)
        if output is not None and docs.returns:
            output.setdefault("description", docs.returns)
        plain = parts.json_schema(docs.params)
        return publish(self._name, description, plain, self._given[2], output, rest=parts.rest)

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
        """Run a call when it gets a `ToolCall` (and a `Context`), positionally; else be the function."""
        call, context = args[0] if args else None, args[1] if len(args) > 1 else None
        if (
            isinstance(call, ToolCall)
            and len(args) <= 2
            and not kwargs
            and (context is None or isinstance(context, Context))
        ):
            return self.invoke(call, context)
        func: Any = self.func
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
        target = owner if self._of_class else instance
        if target is None or not self._method:
            return self
        bound: Any = object.__new__(type(self))
        func = MethodType(self.func, target)
        bound.__dict__.update(
            self.__dict__, func=func, __wrapped__=func, _method=False, _bound_to=target
        )
        bound._direct = func if self._direct else None
        return bound

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickle by module and qualified name; a bound tool by its object."""
        if self._bound_to is not None:
            return getattr, (self._bound_to, self.func.__name__)
        return str(
            getattr(self, "__qualname__", self._name)
        )  # pickle refuses it when something else stands there

    async def run(self, call: ToolCall, context: Context[Any]) -> ToolResult:
        """Call the function with the call's arguments."""
        values, canonical = self._door.admit(call.arguments, by_name=True)
        call = ToolCall(name=call.name, arguments=canonical, id=call.id)
        return await FunctionTool._body(self, values, call, context.view(call=call))

    async def _body(self, values: Any, call: ToolCall, context: Context[Any] | None) -> ToolResult:
        value = (
            await self._value(values, call, context)
            if self._direct is None
            else await self._direct(**values)
        )
        return (
            success(value, call.id)
            if type(value) in DATA
            else await self._finish(value, call, context)
        )

    async def _finish(self, value: Any, call: ToolCall, context: Context[Any] | None) -> ToolResult:
        if isinstance(value, (GeneratorType, AsyncGeneratorType)):
            value = await self._last(value, call, Context() if context is None else context)
        return value if isinstance(value, ToolResult) else success(value, call.id)

    async def _value(
        self, values: dict[str, Any], call: ToolCall, context: Context[Any] | None
    ) -> Any:
        """Run what is not simply awaited: with injected values, on the executor, a generator to its end."""
        for name, maker in self._fills:
            if name not in values:
                values[name] = maker()
        if self._parts.hidden:
            await self._inject(values, call, Context() if context is None else context)
        args = self._take_positional(values) if self._parts.positional else []
        func: Any = self.func
        value = (
            await self._executor(func, *args, **values) if self._offloads else func(*args, **values)
        )
        return await value if isawaitable(value) else value

    async def _last(self, items: Any, call: ToolCall, context: Context[Any]) -> Any:
        """Run a generator to its end, in the view of its call: each item is progress."""
        view = context if context.call is call else context.for_call(call, self.schema)
        try:
            if isinstance(items, AsyncGeneratorType):
                return await _exhaust_async(items, view)
            return await self._executor(_exhaust, items, view)
        finally:
            if (
                view is not context
                # Else the road delivers, after the time limit: a slow listener is not the body's delay.
            ):
                await conclude(view.delivered())

    async def _inject(self, values: dict[str, Any], call: ToolCall, context: Context[Any]) -> None:
        for name, source in self._parts.hidden.items():
            if source is Context:
                values[name] = context
            elif source is ToolCall:
                values[name] = call
            else:
                values[name] = await inline(source, context)

    def _take_positional(self, values: dict[str, Any]) -> list[Any]:
        """Take out of `values` what has to be passed by position."""
        args: list[Any] = []
        for parameter in self._parts.positional:
            if parameter.name in values:
                value = values.pop(parameter.name)
                args.extend(value) if parameter.kind is parameter.VAR_POSITIONAL else args.append(
                    value
                )
            elif (
                parameter.default is not parameter.empty
                and parameter is not self._parts.positional[-1]
            ):
                args.append(parameter.default)
        return args


class _Decorator:
    """What `FunctionTool(...)` without a function is to a type checker: waiting for one."""


def _exhaust(items: Generator[Any, Any, Any], context: Context[Any]) -> Any:
    """Run a generator to its end; each item is progress, the last one the value unless the function returns one."""
    last = None
    for _ in range(MAX_YIELDS):
        try:
            last = next(items)
        except StopIteration as stop:
            return last if stop.value is None else stop.value
        context.emit("tool:progress", value=last)
    items.close()
    raise ToolError(f"The tool yielded {MAX_YIELDS} times and was closed.")


async def _exhaust_async(items: AsyncGenerator[Any, Any], context: Context[Any]) -> Any:
    last, count = None, 0
    try:
        async for last in items:
            context.emit("tool:progress", value=last)
            count += 1
            if count >= MAX_YIELDS:
                raise ToolError(f"The tool yielded {MAX_YIELDS} times and was closed.")
    finally:
        await items.aclose()
    return last


def _unpartialled(func: Any) -> Any:
    """Return what partials are made of."""
    while isinstance(func, functools.partial):
        func = func.func
    return func


def _way_of(func: Any) -> str:
    """Return how a callable runs: `coroutine`, `generator`, `async generator` or `function`."""
    func = _unpartialled(func)
    if not inspect.isroutine(func) and not inspect.isclass(func):
        func = type(func).__call__
    if inspect.isasyncgenfunction(func):
        return "async generator"
    if inspect.iscoroutinefunction(func):
        return "coroutine"
    return "generator" if inspect.isgeneratorfunction(func) else "function"


def _has_own_signature(func: Any) -> bool:
    """Whether the defaults that the signature names are really the callable's own."""
    func = getattr(func, "__func__", func)
    return (
        isinstance(func, FunctionType)
        and not hasattr(func, "__wrapped__")
        and not hasattr(func, "__signature__")
    )


def _maker(parameter: Parameter, own: bool) -> Callable[[], Any] | None:
    """Return what makes a default that Python itself would not give: a factory's, a `Field`'s, a fresh copy of a mutable one."""
    if parameter.factory is not None:
        return parameter.factory
    default = parameter.default
    if default is Parameter.empty or parameter.kind is parameter.kind.VAR_POSITIONAL:
        return None
    if type(default).__hash__ is None:
        return functools.partial(deepcopy, default)
    return (lambda: default) if parameter.by_field or not own else None


def _docs_of(func: Any) -> docstrings.Docstring:
    """Return what the docstring says: of the function, or of the class and `__call__` of an instance that wraps none."""
    func = _unpartialled(func)
    if inspect.isroutine(func) or inspect.isclass(func) or hasattr(func, "__wrapped__"):
        return docstrings.parse(func.__doc__ or "")
    own = docstrings.parse(type(func).__call__.__doc__ or "")
    about = docstrings.parse(type(func).__doc__ or "")
    return replace(own, summary=own.summary or about.summary, params={**about.params, **own.params})


def _inferred_name(func: Any) -> str:
    func = _unpartialled(func)
    name = getattr(func, "__name__", None)
    if name is None:
        name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(func).__name__).lower()
    if not _NAME.fullmatch(name):
        raise DefinitionError(f"the name {name!r} does not match {_NAME.pattern}: pass name=...")
    return str(name)


def _located(error: DefinitionError, func: Any) -> DefinitionError:
    """Return the error with the function's name, file and line in front."""
    func = _unpartialled(func)
    inner = inspect.unwrap(getattr(func, "__func__", func))
    code: Any = getattr(
        inner if inspect.isroutine(inner) or inspect.isclass(inner) else type(inner).__call__,
        "__code__",
        None,
    )
    where = (
        f"{code.co_filename}:{code.co_firstlineno}" if code else getattr(inner, "__module__", "?")
    )
    message = f"{getattr(inner, '__qualname__', type(inner).__qualname__)} ({where}): {error}"
    return (
        SchemaError(message, error.reasons)
        if isinstance(error, SchemaError)
        else DefinitionError(message)
    )


def _outer_frame() -> FrameType | None:
    """Return the innermost frame outside this package: where the tool is being made."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "functool":
        frame = frame.f_back
    return frame


def _in_class_body(func: Any, frame: FrameType | None) -> bool:
    """Whether the function is a method: defined in a class body that is being run, its first parameter for the object."""
    owner = getattr(func, "__qualname__", "").rpartition(".")[0]
    while owner and not owner.endswith("<locals>") and frame is not None:
        if frame.f_code.co_qualname == owner:
            # Under a `@staticmethod` that stands above, which cannot be seen from here, the first
            # parameter is an argument.
            first = next(iter(inspect.signature(func).parameters.values()), None)
            return first is not None and (
                first.annotation is first.empty or first.name in ("self", "cls")
            )
        frame = frame.f_back
    return False
