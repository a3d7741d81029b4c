"""Guardrails: plain callables that let a call or a result pass, replace it, or refuse it.

A guardrail is called with the value and the context, and may be sync or async. None lets the value pass; a value of the same type
replaces it; `GuardrailError` refuses, and the model reads its message; `Tripwire` stops the run. Anything else that happens in it fails
closed: the body does not run, the output is not shown.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Any, TypeAlias

from typing_extensions import TypeAliasType, TypeVar

from functool.call import ToolCall, ToolResult
from functool.context import Context
from functool.errors import GuardrailError, Tripwire

_In = TypeVar("_In", default=ToolCall)
_Out = TypeVar("_Out", default=ToolResult)

InputGuardrail: TypeAlias = Callable[[_In, Context[Any]], _In | Awaitable[_In | None] | None]
"""Sees what will run. Generic, so that a host can use one guardrail on message types of its own."""

OutputGuardrail: TypeAlias = Callable[[_Out, Context[Any]], _Out | Awaitable[_Out | None] | None]
"""Sees what will leave. Generic, so that a host can use one guardrail on message types of its own."""

logger = logging.getLogger("functool")


def name_of(guardrail: Any) -> str:
    """Return the name of a guardrail, as it stands in `result.metadata["guardrails"]`."""
    return str(getattr(guardrail, "__name__", None) or type(guardrail).__name__)


async def apply(guardrail: Any, value: Any, context: Context[Any], stage: str, record: list[dict[str, str]]) -> Any:
    """Return what a guardrail made of `value`; what it did besides letting it pass is added to `record`.

    Raises:
        GuardrailError: It refused, or failed.
        Tripwire: It stopped the run.
    """
    name = name_of(guardrail)
    try:
        answer = guardrail(value, context)
        if inspect.isawaitable(answer):
            answer = await answer
        if answer is not None and not isinstance(answer, type(value)):
            raise TypeError(f"the guardrail {name} returned {type(answer).__name__}, expected {type(value).__name__} or None")
    except Tripwire:
        raise
    except GuardrailError as error:
        record.append({"name": name, "stage": stage, "did": "refused"})
        error.stage, error.guardrail = error.stage or stage, error.guardrail or name
        raise
    except Exception as error:
        logger.error("the guardrail %s failed, so the %s was refused", name, stage, exc_info=True)
        record.append({"name": name, "stage": stage, "did": "refused"})
        raise GuardrailError(f"The guardrail {name} failed, so the {stage} was refused.", stage=stage, guardrail=name) from error
    if answer is None or answer is value:
        return value
    record.append({"name": name, "stage": stage, "did": "replaced"})
    return answer


def settled(result: ToolResult, new: ToolResult) -> ToolResult:
    """Return a guardrail's replacement with its `value` in step: code must not read what the model may not."""
    if new.error is None and new.value is result.value and new.output != result.output:
        return replace(new, value=new.text)
    return new
