"""What binds the arguments of one tool."""

from __future__ import annotations

from typing import Any, TypeAlias

from functool.binding.foreign import SchemaDoor
from functool.binding.functions import FunctionDoor
from functool.binding.json_text import Arguments


class InnerDoor:
    """The door of a wrapper: it hands on the arguments as they came, and only if somebody `looks`, looks through the inner tool's."""

    def __init__(self, inner: Door, looks: bool) -> None:
        # A wrapper between that looks at nothing would show the arguments as they came.
        self._inner: Door = inner._inner if isinstance(inner, InnerDoor) else inner
        self._looks = looks

    def check(self, arguments: Any) -> Any:
        """Return the arguments as they came."""
        return arguments

    def admit(self, arguments: Any, *, by_name: bool = False) -> tuple[Any, Any]:
        """Return the arguments as they came, and the canonical ones if somebody looks."""
        canonical = self._inner.admit(arguments, by_name=by_name)[1] if self._looks else arguments
        return self._inner.sent_form(arguments) if by_name else arguments, canonical

    def sent_form(self, arguments: Arguments) -> Arguments:
        """Return canonical arguments under the names that a model sends."""
        return self._inner.sent_form(arguments)


# Checks the arguments of one tool: `check` returns the values for the body, `admit` those and the
# canonical arguments.
Door: TypeAlias = FunctionDoor | SchemaDoor | InnerDoor
