"""What an author or a host may say about a tool: settings, prompts, options of every kind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from inspect import signature
from typing import Any, TypeAlias, TypedDict

from functool.call import ToolResult
from functool.context import Context
from functool.errors import DefinitionError
from functool.guardrails.asking import InputGuardrail, OutputGuardrail

ErrorAnswer: TypeAlias = ToolResult | str | None
ErrorFunc: TypeAlias = Callable[[Exception, Context[Any]], ErrorAnswer | Awaitable[ErrorAnswer]]


@dataclass(slots=True, kw_only=True)
class ToolSettings:
    """What a host may want to know of a tool. `is_enabled(context)` is sync.

    An exclusive tool runs alone; one that takes control is not run beside others in a turn.
    `read_only`, `destructive` and `idempotent` are None where the author says nothing. `untrusted`
    says that results may hold text that somebody else wrote: mail, web pages, documents.
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
    """Texts that a host weaves into its own prompts."""

    system: str = ""
    system_format: str = ""
    user: str = ""
    user_format: str = ""
    user_reminder: str = ""


class ToolOptions(TypedDict, total=False):
    """The options that every kind of tool takes.

    `timeout` is in seconds and bounds the whole road of a call. Input guardrails see what will run,
    output guardrails what will leave; `on_error_func(error, context)` is asked for every exception
    on the road. Callables may be sync or async. `max_argument_bytes` bounds the text of the
    arguments, in bytes of UTF-8; None is no bound.
    """

    timeout: float | None
    input_guardrails: Iterable[InputGuardrail]
    output_guardrails: Iterable[OutputGuardrail]
    on_error_func: ErrorFunc | None
    settings: ToolSettings
    prompts: ToolPrompts
    max_argument_bytes: int | None


def refuse_unknown(given: Iterable[str], kind: type) -> None:
    """Raise a `DefinitionError` for the first option that tools of this kind do not have.

    It names the nearest one that they have.
    """
    for name in given:
        if name in ToolOptions.__annotations__:
            continue
        # What an `__init__` takes, it has taken before it passes on the others.
        passed = [vars(base).get("__init__") for base in kind.__mro__[:-1]]
        taken = {n for init in passed if init for n in signature(init).parameters}
        known = sorted({*ToolOptions.__annotations__, *taken} - {"self", "options", name})
        close = get_close_matches(name, known, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
        raise DefinitionError(f"there is no option {name!r}; {hint}")


def checked_settings(settings: Any, name: str) -> ToolSettings:
    """Return settings whose display name is said.

    Raises:
        DefinitionError: They are no `ToolSettings`.
    """
    settings = ToolSettings() if settings is None else settings
    if not isinstance(settings, ToolSettings):
        raise DefinitionError(f"settings must be ToolSettings(...), not {type(settings).__name__}")
    return settings if settings.display_name else replace(settings, display_name=name)


def checked_prompts(prompts: Any) -> ToolPrompts:
    """Return prompts.

    Raises:
        DefinitionError: They are no `ToolPrompts`.
    """
    prompts = ToolPrompts() if prompts is None else prompts
    if not isinstance(prompts, ToolPrompts):
        raise DefinitionError(f"prompts must be ToolPrompts(...), not {type(prompts).__name__}")
    return prompts


def checked_bytes(limit: Any) -> int | None:
    """Return a limit of bytes.

    Raises:
        DefinitionError: It is neither None nor a positive int.
    """
    if limit is not None and (type(limit) is not int or limit < 1):
        raise DefinitionError(f"max_argument_bytes must be a positive int or None, not {limit!r}")
    return limit
