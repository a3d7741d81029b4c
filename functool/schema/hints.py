"""Read the signature of a callable, and resolve its annotations."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import FrameType, FunctionType, SimpleNamespace, UnionType
from typing import Any, LiteralString, Union, get_args, get_origin

from typing_extensions import get_type_hints

from functool.errors import DefinitionError
from functool.introspection import body_of, without_partials

_BOUND = (FunctionType, staticmethod, classmethod, property)


class Unresolved(Exception):
    """An annotation names a class that does not exist yet."""


def signature_of(func: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a callable.

    Raises:
        DefinitionError: The callable has no readable signature, like some builtins.
    """
    try:
        return inspect.signature(func)
    except (ValueError, TypeError) as error:
        wrong = f"it has no signature to read ({error})"
        raise DefinitionError(f"{wrong}: wrap it in a function of your own") from error


def fixed_keywords(func: Any) -> tuple[str, ...]:
    """Return the keywords that a partial has set. A model neither sees nor sets them."""
    is_partial = isinstance(func, functools.partial)
    return (*func.keywords, *fixed_keywords(func.func)) if is_partial else ()


def unreadable(annotation: Any, name: str, error: Exception) -> DefinitionError:
    """Return the error for an annotation of the parameter `name` that cannot be read."""
    wrong = f"the annotation {annotation!r} cannot be read: {error}"
    return DefinitionError(f"parameter {name!r}: {wrong}")


class Hints:
    """Resolves the annotations of one function, one at a time.

    Args:
        func: The function, or any other callable.
        frame: The frame that defines the function. String annotations may use its local names.
    """

    def __init__(self, func: Any, frame: FrameType | None) -> None:
        owner, body = _owner(without_partials(func)), body_of(func)
        func = inspect.unwrap(body.__init__ if inspect.isclass(body) else body)
        self.globals: dict[str, Any] = getattr(func, "__globals__", {})
        self.locals: dict[str, Any] = {**_local_names(frame, self.globals), **_class_names(owner)}
        self.locals |= {each.__name__: each for each in getattr(func, "__type_params__", ())}

    def __call__(self, annotation: Any, name: str = "return") -> Any:
        """Return the resolved annotation of the parameter `name`.

        Raises:
            Unresolved: The annotation names a class that does not exist yet.
            DefinitionError: The annotation cannot be read.
        """
        if isinstance(annotation, type) and not get_args(annotation):
            return annotation
        try:
            return _as_text(self.of(SimpleNamespace(__annotations__={"x": annotation}))["x"])
        except NameError as error:
            raise Unresolved(f"parameter {name!r}: {error}") from error
        except Exception as error:
            raise unreadable(annotation, name, error) from error

    def of(self, holder: Any) -> dict[str, Any]:
        """Return all annotations of a class or an object, resolved with the function's names."""
        return get_type_hints(holder, self.globals, self.locals, include_extras=True)


def _owner(func: Any) -> Any:
    """Return the class of a method, or of an instance with `__call__`; None for a function."""
    if inspect.ismethod(func):
        return func.__self__ if inspect.isclass(func.__self__) else type(func.__self__)
    return None if inspect.isroutine(func) or inspect.isclass(func) else type(func)


def _class_names(owner: Any) -> dict[str, Any]:
    """Return the names that a class and its bases define, without their methods."""
    names: dict[str, Any] = {}
    for base in reversed(inspect.getmro(owner)[:-1] if owner else ()):
        names |= {k: v for k, v in vars(base).items() if not isinstance(v, _BOUND)}
    return names


def _local_names(frame: FrameType | None, module: dict[str, Any]) -> dict[str, Any]:
    """Return the local names of a frame and of the frames around it in the same module."""
    names: dict[str, Any] = {}
    # Skip the frames of other modules, such as those of an author's decorator.
    while frame is not None and frame.f_globals is not module:
        frame = frame.f_back
    while frame is not None and frame.f_globals is module and frame.f_locals is not module:
        names = {**frame.f_locals, **names}
        frame = frame.f_back
    return names


def _as_text(annotation: Any) -> Any:
    """Replace `LiteralString` by `str` at every depth. A model's text is never a literal."""
    if annotation is LiteralString:
        return str
    origin, inner = get_origin(annotation), get_args(annotation)
    made = tuple(map(_as_text, inner))
    return annotation if made == inner else (Union if origin is UnionType else origin)[made]
