"""FastMCP, at the entry of a tool."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from fastmcp.tools import FunctionTool

PACKAGES = ("fastmcp",)
IMPORT = "from fastmcp import FastMCP"
ENTRY = "(await FunctionTool.run(dict)).content[0].text"
TAKES = "dict"


def define(func: Callable[..., Any], **options: Any) -> FunctionTool:
    tool = FunctionTool.from_function(func, **options)
    assert tool.parameters
    return tool


async def caller(tool: FunctionTool) -> Callable[[str], Awaitable[str]]:
    async def call(text: str) -> str:
        result: Any = await tool.run(json.loads(text))
        return result.content[0].text

    return call


def limited(func: Callable[..., Any], seconds: float) -> FunctionTool:
    return define(func, timeout=seconds)
