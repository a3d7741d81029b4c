"""What binds the arguments of one tool: the shape of a binder, that of a wrapper, a late one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from functool.binding.json_text import Arguments, as_text


class Bound(NamedTuple):
    """Arguments that were checked.

    `values` are for the body, by parameter name; `arguments` are the canonical ones.
    """

    values: dict[str, Any]
    arguments: dict[str, Any]


class Binder(Protocol):
    """Checks the arguments of one tool."""

    def values(self, arguments: Arguments) -> Any:
        """Return the values for the body, or raise an `ArgumentError`."""
        ...

    def canonical(self, arguments: Arguments, values: Any) -> Any:
        """Return the canonical form of arguments that `values` has checked."""
        ...

    def sent_form(self, arguments: Arguments) -> Arguments:
        """Return canonical arguments under the names that a model sends."""
        ...


class PassingBinder:
    """The binder of a wrapper: it hands arguments on as they came.

    Only when somebody looks are they checked, by the inner tool's binder.
    """

    def __init__(self, inner: Binder, limit: int | None = None) -> None:
        self._inner, self._limit = inner, limit

    def values(self, arguments: Arguments) -> Any:
        """Return the arguments as they came.

        Raises:
            ArgumentError: Their text has more bytes than the wrapper's own limit.
        """
        if self._limit is not None:
            as_text(arguments, self._limit)
        return arguments

    def canonical(self, arguments: Arguments, values: Any) -> Any:
        """Return the canonical arguments of the inner tool."""
        return self._inner.canonical(arguments, self._inner.values(arguments))

    def sent_form(self, arguments: Arguments) -> Arguments:
        """Return canonical arguments under the names that a model sends."""
        return self._inner.sent_form(arguments)


class LateBinder:
    """Stands for the binder of a tool whose signature names something that does not exist yet."""

    def __init__(self, resolve: Callable[[], Binder]) -> None:
        self._resolve = resolve

    def values(self, arguments: Arguments) -> Any:
        """Return the values for the body, now that the names exist."""
        return self._resolve().values(arguments)

    def canonical(self, arguments: Arguments, values: Any) -> Any:
        """Return the canonical form of arguments that `values` has checked."""
        return self._resolve().canonical(arguments, values)

    def sent_form(self, arguments: Arguments) -> Arguments:
        """Return canonical arguments under the names that a model sends."""
        return self._resolve().sent_form(arguments)
