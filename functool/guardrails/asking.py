"""Guardrails: plain callables that let a call or a result pass, replace it, or refuse it.

A guardrail is called with the value and the context, and may be sync or async. None lets the value
pass; a value of the same type replaces it; `GuardrailError` refuses, and the model reads its
message; `Tripwire` stops the run. Anything else that happens in it fails
closed: the body does not run, the output is not shown.
"""

from __future__ import annotations

import inspect
import logging
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn, TypeAlias

from typing_extensions import TypeVar

from functool.call import ToolCall, ToolResult
from functool.context import Context
from functool.errors import DefinitionError, GuardrailError
from functool.executors import answerable

_In = TypeVar("_In", default=ToolCall)
_Out = TypeVar("_Out", default=ToolResult)

InputGuardrail: TypeAlias = Callable[[_In, Context[Any]], _In | Awaitable[_In | None] | None]
"""Sees what will run. Generic, so that a host can use one guardrail on message types of its own."""

OutputGuardrail: TypeAlias = Callable[[_Out, Context[Any]], _Out | Awaitable[_Out | None] | None]
"""Sees what will leave.

Generic, so that a host can use one guardrail on message types of its own.
"""

logger = logging.getLogger("functool")


def name_of(guardrail: Any) -> str:
    """Return the name of a guardrail, as it stands in `result.metadata["guardrails"]`."""
    while isinstance(guardrail, partial):
        guardrail = guardrail.func
    return str(getattr(guardrail, "__name__", None) or type(guardrail).__name__)


def ask(
    guardrail: Any, value: Any, context: Context[Any], stage: str, record: list[dict[str, str]]
) -> Any:
    """Return what a guardrail answers: None lets `value` pass, and anything else is for `answered` to look at.

    Raises:
        GuardrailError: It refused, or failed.
        Tripwire: It stopped the run.
    """
    try:
        return guardrail(value, context)
    except (Exception, CancelledError) as error:
        _refuse(answerable(error), guardrail, stage, record)


async def answered(
    answer: Any, guardrail: Any, value: Any, stage: str, record: list[dict[str, str]]
) -> Any:
    """Return what a guardrail made of `value`; what it did besides letting it pass is added to `record`.

    Raises:
        GuardrailError: It refused, or failed.
        Tripwire: It stopped the run.
    """
    try:
        if inspect.isawaitable(answer):
            answer = await answer
        kind = ToolCall if stage == "input" else ToolResult
        if answer is not None and not isinstance(answer, kind):
            raise TypeError(
                f"the guardrail returned {type(answer).__name__}, expected {kind.__name__} or None"
            )
    except (Exception, CancelledError) as error:
        _refuse(answerable(error), guardrail, stage, record)
    if answer is None or answer is value:
        return value
    record.append({"name": name_of(guardrail), "stage": stage, "did": "replaced"})
    return answer


def _refuse(error: Exception, guardrail: Any, stage: str, record: list[dict[str, str]]) -> NoReturn:
    """Raise what a guardrail raised if that is a refusal; anything else is a guardrail that failed, and refuses too."""
    name = name_of(guardrail)
    record.append({"name": name, "stage": stage, "did": "refused"})
    if isinstance(error, GuardrailError):
        error.stage, error.guardrail = error.stage or stage, error.guardrail or name
        raise error
    logger.error("the guardrail %s failed, so the %s was refused", name, stage, exc_info=error)
    raise GuardrailError(
        f"The guardrail {name} failed, so the {stage} was refused.", stage=stage, guardrail=name
    ) from error


def callables(items: Any, what: str) -> list[Any]:
    """Return a list of callables, or raise a `DefinitionError`."""
    if callable(items) or isinstance(items, str) or not isinstance(items, Iterable):
        raise DefinitionError(f"{what} must be a list of callables, not {type(items).__name__}")
    found = list(items)
    for item in found:
        if not callable(item):
            raise DefinitionError(f"{what} must hold callables, not {type(item).__name__}")
    return found


def settled(result: ToolResult, new: ToolResult) -> ToolResult:
    """Return a guardrail's replacement with its `value` in step: code must not read what the model may not."""
    if (
        new.value is result.value
        and new.output != result.output
        and (new.error is None or new.value is not None)
    ):
        return replace(new, value=new.text)
    return new
