"""pydantic-ai, at the entry of its tool manager."""

from collections.abc import Awaitable, Callable
from typing import Any

from pydantic_ai import FunctionToolset, RunContext, RunUsage, Tool
from pydantic_ai.capabilities import Hooks
from pydantic_ai.exceptions import ToolRetryError
from pydantic_ai.messages import ToolCallPart, ToolReturnPart
from pydantic_ai.models.test import TestModel
from pydantic_ai.tool_manager import ToolManager

PACKAGES = ("pydantic-ai-slim",)
IMPORT = "from pydantic_ai import Tool"
ENTRY = "await ToolManager.handle_call(ToolCallPart(...)), ToolReturnPart(...).model_response_str()"
TAKES = "text"


def define(func: Callable[..., Any], **options: Any) -> Tool[Any]:
    tool = Tool(func, **options)
    assert tool.tool_def.parameters_json_schema
    return tool


async def caller(tool: Any) -> Callable[[str], Awaitable[str]]:
    tool, hooks = tool if isinstance(tool, tuple) else (tool, None)
    context: Any = RunContext(deps=None, model=TestModel(), usage=RunUsage(), run_step=1)
    # An agent gives each tool one retry unless it is told otherwise.
    manager: Any = ToolManager(FunctionToolset([tool], max_retries=1), root_capability=hooks)
    manager = await manager.for_run_step(context)
    name = tool.name

    async def call(text: str) -> str:
        part = ToolCallPart(tool_name=name, args=text, tool_call_id="1")
        try:
            value = await manager.handle_call(part)
        except ToolRetryError as error:
            retry: Any = error.tool_retry
            return retry.model_response_str()
        return ToolReturnPart(tool_name=name, content=value, tool_call_id="1").model_response_str()

    return call


async def _before(ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
    return args


async def _after(ctx: Any, *, call: Any, tool_def: Any, args: Any, result: Any) -> Any:
    return result


def guarded(func: Callable[..., Any]) -> tuple[Tool[Any], Hooks]:
    return define(func), Hooks(before_tool_execute=_before, after_tool_execute=_after)


def limited(func: Callable[..., Any], seconds: float) -> Tool[Any]:
    return define(func, timeout=seconds)
