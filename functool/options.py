"""The options of a tool: its settings, its prompts, and the options that every tool takes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any, TypeAlias, TypedDict, TypeVar

from functool.call import ToolResult
from functool.close_names import hint_at
from functool.context import Context
from functool.errors import DefinitionError
from functool.guardrails.asking import InputGuardrail, OutputGuardrail

T = TypeVar("T")
ErrorAnswer: TypeAlias = ToolResult | str | None
ErrorFunc: TypeAlias = Callable[[Exception, Context[Any]], ErrorAnswer | Awaitable[ErrorAnswer]]


@dataclass(slots=True, kw_only=True)
class ToolSettings:
    """Facts about a tool for its host.

    An exclusive tool runs after the other calls of a turn, alone. A tool that takes control must be
    the only call of its turn. `is_enabled` may be a sync function of the context. `read_only`,
    `destructive` and `idempotent` are None if the author does not set them. `untrusted` means that
    results may hold text that somebody else wrote, such as mail, web pages or documents.
    """

    display_name: str = ""
    icon: str = ""
    is_exclusive: bool = False
    is_enabled: bool | Callable[[Context[Any]], bool] = True
    takes_control: bool = False
    tags: Sequence[str] = ()
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    untrusted: bool = False


@dataclass(slots=True, kw_only=True)
class ToolPrompts:
    """Texts about the tool that a host adds to its own prompts."""

    system: str = ""
    system_format: str = ""
    user: str = ""
    user_format: str = ""
    user_reminder: str = ""


class ToolOptions(TypedDict, total=False):
    """The options that every kind of tool takes.

    `timeout` limits a whole call, guardrails included, in seconds. Input guardrails check calls
    before the body runs; output guardrails check results before the caller gets them.
    `on_error_func(error, context)` may answer any exception of a call. These callables may be sync
    or async. `max_argument_bytes` limits the text of the arguments, in bytes of UTF-8; None is no
    limit.
    """

    timeout: float | None
    input_guardrails: Iterable[InputGuardrail]
    output_guardrails: Iterable[OutputGuardrail]
    on_error_func: ErrorFunc | None
    settings: ToolSettings
    prompts: ToolPrompts
    max_argument_bytes: int | None


def refuse_unknown(given: Iterable[str], kind: type, fixed: Iterable[str] = ()) -> None:
    """Refuse an option that tools of this class do not have.

    `fixed` are the options of its base classes that the class sets itself.

    Raises:
        DefinitionError: There is such an option. The message names the closest known option.
    """
    for name in (name for name in given if name not in ToolOptions.__annotations__):
        # Also suggest the parameters of each `__init__`, from the class up to the first one whose
        # `**options` are those of every tool: it passes nothing else on to its base classes.
        made = [signature(i) for base in kind.__mro__[:-1] if (i := vars(base).get("__init__"))]
        last = next(at for at, own in enumerate(made) if "Unpack[ToolOptions]" in str(own))
        taken = {n for own in made[: last + 1] for n in own.parameters}
        known = sorted({*ToolOptions.__annotations__, *taken} - {"self", "options", name, *fixed})
        raise DefinitionError(f"there is no option {name!r}; {hint_at(name, known)}")


def checked_settings(settings: Any, name: str) -> ToolSettings:
    """Return the settings. If they have no display name, use the name of the tool.

    Raises:
        DefinitionError: `settings` is not a `ToolSettings`, its `is_enabled` is no bool and cannot
            be called, or its tags are no list. The text "false" would switch the tool on.
    """
    found = checked(settings, ToolSettings, "settings")
    if not (isinstance(found.is_enabled, bool) or callable(found.is_enabled)):
        raise DefinitionError(f"settings: is_enabled is no bool or function: {found.is_enabled!r}")
    if isinstance(found.tags, str) or not isinstance(found.tags, Iterable):
        raise DefinitionError(f"settings: tags must be a list of texts, not {found.tags!r}")
    return found if found.display_name else replace(found, display_name=name)


def checked(given: Any, kind: type[T], option: str) -> T:
    """Return the value of an option: for None, a `kind` without anything set.

    Raises:
        DefinitionError: The value is not a `kind`.
    """
    given = kind() if given is None else given
    if not isinstance(given, kind):
        raise DefinitionError(f"{option} must be {kind.__name__}(...), not {type(given).__name__}")
    return given


def checked_limit(limit: Any, option: str) -> int | None:
    """Return a limit unchanged.

    Raises:
        DefinitionError: The limit is neither None nor a positive int.
    """
    if limit is not None and (type(limit) is not int or limit < 1):
        raise DefinitionError(f"{option} must be a positive int or None, not {limit!r}")
    return limit
