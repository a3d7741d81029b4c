"""openai-agents, at the entry that its runner calls."""

from collections.abc import Awaitable, Callable
from typing import Any

from agents import FunctionTool, function_tool
from agents.tool import invoke_function_tool
from agents.tool_context import ToolContext

PACKAGES = ("openai-agents",)
IMPORT = "from agents import function_tool"
ENTRY = "str(await tool.on_invoke_tool(ToolContext(...), text))"
TAKES = "text"


def define(func: Callable[..., Any], **options: Any) -> FunctionTool:
    tool = function_tool(func, **options)
    assert tool.params_json_schema
    return tool


async def caller(tool: FunctionTool) -> Callable[[str], Awaitable[str]]:
    name = tool.name

    async def call(text: str) -> str:
        context: Any = ToolContext(
            context=None, tool_name=name, tool_call_id="1", tool_arguments=text
        )
        return str(await tool.on_invoke_tool(context, text))

    async def call_with_limit(text: str) -> str:
        context: Any = ToolContext(
            context=None, tool_name=name, tool_call_id="1", tool_arguments=text
        )
        return str(await invoke_function_tool(function_tool=tool, context=context, arguments=text))

    # The runner calls through `invoke_function_tool`, which holds the limit.
    return call if tool.timeout_seconds is None else call_with_limit


def limited(func: Callable[..., Any], seconds: float) -> FunctionTool:
    return define(func, timeout=seconds)
