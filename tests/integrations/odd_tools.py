"""The tools that every system is tried with: good, bad, empty, huge and refused."""

from typing import Any

from functool import Context, FunctionTool, GuardrailError, ImageContent, ToolCall, Tripwire
from functool.guardrails import require_approval

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(32))
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
    return {"none": None, "zero": 0, "no": False, "list": [], "dict": {}, "": "", "deep": {"a": ["é"]}}[value]


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
