"""agent-framework-core, at the entry of a tool."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from agent_framework import FunctionTool, tool

PACKAGES = ("agent-framework-core",)
IMPORT = "from agent_framework import tool"
ENTRY = "(await tool.invoke(arguments=dict))[0].text"
TAKES = "dict"


def define(func: Callable[..., Any]) -> FunctionTool:
    made: Any = tool(func, approval_mode="never_require")
    assert made.to_json_schema_spec()
    return made


async def caller(tool: FunctionTool) -> Callable[[str], Awaitable[str]]:
    async def call(text: str) -> str:
        contents: Any = await tool.invoke(arguments=json.loads(text), tool_call_id="1")
        return contents[0].text

    return call
