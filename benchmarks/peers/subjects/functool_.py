"""functool itself, from the checkout."""

from collections.abc import Awaitable, Callable
from typing import Any

from functool import Context, FunctionTool, Tool, ToolCall, ToolResult

PACKAGES = ()
IMPORT = "from functool import FunctionTool, ToolCall"
ENTRY = "(await tool.invoke(ToolCall(...))).text"
TAKES = "text"


def define(func: Callable[..., Any], **options: Any) -> Tool:
    # 10 MB of arguments are measured, and the default limit is 1 MiB.
    tool: Tool = FunctionTool(func, max_argument_bytes=None, **options)
    assert tool.schema.parameters
    return tool


async def caller(tool: Tool) -> Callable[[str], Awaitable[str]]:
    async def call(text: str) -> str:
        return (await tool.invoke(ToolCall(name=tool.name, arguments=text, id="1"))).text

    return call


def _before(call: ToolCall, context: Context) -> None:
    return None


def _after(result: ToolResult, context: Context) -> None:
    return None


def guarded(func: Callable[..., Any]) -> Tool:
    return define(func, input_guardrails=[_before], output_guardrails=[_after])


def limited(func: Callable[..., Any], seconds: float) -> Tool:
    return define(func, timeout=seconds)
