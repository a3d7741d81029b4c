"""Inspect a callable: how it runs, its name, its docstring, and where it was defined."""

from __future__ import annotations

import functools
import inspect
import re
import sys
from dataclasses import replace
from types import FrameType, FunctionType
from typing import Any

from functool.errors import DefinitionError
from functool.schema import docstrings

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def without_partials(func: Any) -> Any:
    """Return the function inside nested partials."""
    while isinstance(func, functools.partial):
        func = func.func
    return func


def body_of(func: Any) -> Any:
    """Return what runs: the function inside partials, or the `__call__` of an instance."""
    func = without_partials(func)
    return func if inspect.isroutine(func) or inspect.isclass(func) else type(func).__call__


def run_kind(func: Any) -> str:
    """Return how a callable runs: `coroutine`, `async generator`, or `function` for all others."""
    func = body_of(func)
    if inspect.isasyncgenfunction(func):
        return "async generator"
    return "coroutine" if inspect.iscoroutinefunction(func) else "function"


def takes(func: Any, count: int) -> bool:
    """Whether a callable takes `count` positional arguments: without a signature, one."""
    try:
        inspect.signature(func).bind(*[None] * count)
    except ValueError:
        return count == 1
    except TypeError:
        return False
    return True


def has_own_signature(func: Any) -> bool:
    """Whether the defaults in the signature are really those of this callable."""
    func = getattr(func, "__func__", func)
    looks_like_another = hasattr(func, "__wrapped__") or hasattr(func, "__signature__")
    return isinstance(func, FunctionType) and not looks_like_another


def docs_of(func: Any) -> docstrings.Docstring:
    """Return the parsed docstring of a callable.

    For an instance with `__call__`, the docstrings of the class and of `__call__` are combined.
    """
    func = without_partials(func)
    body = func if hasattr(func, "__wrapped__") else body_of(func)
    own = docstrings.parse(body.__doc__)
    if body is func:
        return own
    about = docstrings.parse(type(func).__doc__)
    return replace(own, summary=own.summary or about.summary, params={**about.params, **own.params})


def inferred_name(func: Any) -> str:
    """Return the name for a tool from its callable.

    Raises:
        DefinitionError: Some provider would not accept the callable's name.
    """
    func = without_partials(func)
    name = getattr(func, "__name__", None) or snake_case(type(func).__name__)
    if not _NAME.fullmatch(name):
        raise DefinitionError(f"the name {name!r} does not match {_NAME.pattern}: pass name=...")
    return str(name)


def snake_case(name: str) -> str:
    """Return the name of a class in snake_case: `HTTPFetch` becomes `http_fetch`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def located(error: DefinitionError, func: Any) -> DefinitionError:
    """Return the error with the function's name, file and line before its message."""
    inner = inspect.unwrap(without_partials(func))
    code: Any = getattr(body_of(inner), "__code__", None)
    name = getattr(inner, "__qualname__", type(inner).__qualname__)
    if code is None:  # A class, or a function that is not written in Python.
        return at_caller(error, name)
    error.args = (f"{name} ({code.co_filename}:{code.co_firstlineno}): {error}",)
    return error


def at_caller(error: DefinitionError, name: object) -> DefinitionError:
    """Return the error with the tool's name, and the file and line that create it, before it."""
    frame = outer_frame()
    where = f" ({frame.f_code.co_filename}:{frame.f_lineno})" if frame else ""
    error.args = (f"{name or 'a tool'}{where}: {error}",)
    return error


def outer_frame() -> FrameType | None:
    """Return the innermost frame outside functool: where the author creates the tool."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "functool":
        frame = frame.f_back
    return frame


def in_class_body(func: Any, frame: FrameType | None) -> bool:
    """Whether the function is a method.

    It is one if a class body that contains it is being executed, and if its first parameter looks
    like `self`.
    """
    owner = getattr(func, "__qualname__", "").rpartition(".")[0]
    while owner and not owner.endswith("<locals>") and frame is not None:
        # A comprehension has a frame too. It is a function's, and a class body's is not.
        if frame.f_code.co_qualname == owner and not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            # An outer `@staticmethod` cannot be seen from here. Then the first parameter is an
            # argument, which usually has an annotation.
            arg = next(iter(inspect.signature(func).parameters.values()), None)
            return arg is not None and (arg.annotation is arg.empty or arg.name in ("self", "cls"))
        frame = frame.f_back
    return False
