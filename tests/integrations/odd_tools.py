"""The tools that every system is tried with: good, bad, empty, huge and refused."""

import asyncio
import base64
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from functool import (
    Context,
    DefinitionError,
    FunctionTool,
    GuardrailError,
    ImageContent,
    Tool,
    ToolCall,
    Tripwire,
)
from functool.guardrails import require_approval

# One transparent pixel: a host may look whether an image can be shown.
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
HUGE = "x" * 2_000_000


@FunctionTool
def add(a: int, b: int = 1) -> int:
    """Add two numbers.

    Args:
        a: The first.
        b: The second.
    """
    return a + b


@FunctionTool
def echo(value: str = "") -> Any:
    """Return one of the values that are easily lost."""
    return {
        "none": None,
        "zero": 0,
        "no": False,
        "list": [],
        "dict": {},
        "": "",
        "deep": {"a": ["é"]},
    }[value]


@FunctionTool
def boom(why: str = "broken") -> str:
    """Raise."""
    raise ZeroDivisionError(why)


@FunctionTool
def huge() -> str:
    """Return two million characters."""
    return HUGE


@FunctionTool
def picture() -> list[Any]:
    """Return a picture."""
    return ["A dot:", ImageContent(data=PNG, media_type="image/png")]


def _not_today(call: ToolCall, context: Context) -> None:
    raise GuardrailError("Not on a Sunday.")


def _stop(call: ToolCall, context: Context) -> None:
    raise Tripwire("Stop everything.")


ran: list[str] = []
"""The names of the guarded bodies that ran."""


@FunctionTool(input_guardrails=[_not_today])
def refused() -> str:
    """Never run."""
    ran.append("refused")
    return "ran"


@FunctionTool(input_guardrails=[_stop])
def stopped() -> str:
    """Stop the run."""
    ran.append("stopped")
    return "ran"


@FunctionTool(input_guardrails=[require_approval()])
def delete(path: str) -> str:
    """Delete a file, once somebody agrees."""
    ran.append("delete")
    return f"deleted {path}"


ODD_TOOLS = [add, echo, boom, huge, picture, refused, stopped, delete]


def paying(paid: list[int], **options: Any) -> FunctionTool:
    """Make a tool that notes what it pays, once a person agrees."""

    @FunctionTool(**{"input_guardrails": [require_approval()], **options})
    async def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return f"paid {amount}"

    return pay


def cleaned_up_when_cancelled(
    make: Callable[[FunctionTool], Callable[[], Coroutine[Any, Any, Any]]],
) -> list[str]:
    """Cancel what `make(tool)()` starts while the tool is waiting, and return what the tool did then."""
    cleaned: list[str] = []
    started = asyncio.Event()

    @FunctionTool
    async def wait() -> None:
        """Wait for ever."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append("done")

    start = make(wait)

    async def main() -> None:
        task = asyncio.create_task(start())
        begun = asyncio.create_task(started.wait())
        await asyncio.wait({task, begun}, return_when=asyncio.FIRST_COMPLETED)
        begun.cancel()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    return cleaned


def adopts_only_theirs(adopt: Callable[[Any], Tool], theirs: str) -> None:
    """Check that `adopt` refuses a tool of functool, a function and a list by name, with what to do."""
    ours = FunctionTool(len, name="size")
    said = f"adopt takes one {theirs}, not "
    with pytest.raises(DefinitionError, match=f"{said}a tool of functool: use that as it"):
        adopt(ours)
    for wrong in (len, [ours]):
        with pytest.raises(DefinitionError, match=f"{said}{type(wrong).__name__}: .* makes"):
            adopt(wrong)
