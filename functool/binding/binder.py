"""`Binder`, which decodes and validates the arguments of one tool, and two small binders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from functool.binding.json_text import Arguments, as_text


class Bound(NamedTuple):
    """Validated arguments.

    `values` are the Python values for the body, by parameter name. `arguments` are the canonical
    arguments as JSON values.
    """

    values: dict[str, Any]
    arguments: dict[str, Any]


class Binder(Protocol):
    """Decodes and validates the arguments of one tool."""

    @property
    def shapes(self) -> Any:
        """What fits at each place, for a `Watch`: `Shapes`, or None if nothing is known."""

    def values(self, arguments: Arguments) -> Any:
        """Return the values for the body.

        Raises:
            ArgumentError: The arguments do not fit the schema.
        """

    def canonical(self, arguments: Arguments, values: Any) -> Any:
        """Return the canonical form of arguments that `values` has validated.

        A binder may use either: what was sent, or the `values` that it returned for it.
        """

    def sent_form(self, arguments: Arguments, before: Arguments = "") -> Arguments:
        """Return canonical arguments as a model would send them: under aliases.

        Defaults that `before`, what was sent for this call, does not hold are left out.
        """
        ...


class PassingBinder:
    """The binder of a wrapper. It checks nothing but the size of the arguments.

    The inner tool's binder validates them when a hook or a guardrail of the wrapper needs them.
    """

    shapes = None

    def __init__(self, inner: Binder, limit: int | None = None) -> None:
        self._inner, self._limit = inner, limit

    def values(self, arguments: Arguments) -> None:
        """Check the size of the arguments.

        Raises:
            ArgumentError: Their text has more bytes than the wrapper's limit.
        """
        if self._limit is not None:
            as_text(arguments, self._limit)

    def canonical(self, arguments: Arguments, values: Any) -> Any:
        """Validate the arguments and return their canonical form, as the inner tool does."""
        return self._inner.canonical(arguments, self._inner.values(arguments))

    def sent_form(self, arguments: Arguments, before: Arguments = "") -> Arguments:
        """Rename canonical arguments to the names that a model sends, such as aliases."""
        return self._inner.sent_form(arguments, before)


class LateBinder:
    """A binder that is built later, because an annotation names a class that does not exist yet."""

    def __init__(self, resolve: Callable[[], Binder]) -> None:
        self._resolve = resolve

    def __getattr__(self, name: str) -> Any:
        """Build the binder, and return one of its methods."""
        return getattr(self._resolve(), name)
