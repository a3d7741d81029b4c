"""langchain-core, at the entry that an agent's tool node calls."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from langchain_core.tools import BaseTool, tool
from langchain_core.utils.function_calling import convert_to_openai_tool

PACKAGES = ("langchain-core",)
IMPORT = "from langchain_core.tools import tool"
ENTRY = '(await tool.ainvoke({"type": "tool_call", ...})).content'
TAKES = "dict"


def define(func: Callable[..., Any]) -> BaseTool:
    made: BaseTool = tool(func)
    assert convert_to_openai_tool(made)
    return made


async def caller(tool: BaseTool) -> Callable[[str], Awaitable[str]]:
    name = tool.name

    async def call(text: str) -> str:
        message: Any = await tool.ainvoke(
            {"type": "tool_call", "name": name, "args": json.loads(text), "id": "1"}
        )
        return message.content

    return call
