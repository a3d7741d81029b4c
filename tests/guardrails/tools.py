"""What the tests of guardrails share: a tool that says something, and a call of it."""

import asyncio

from functool import (
    FunctionTool,
    ToolCall,
)


def echo_tool(value, **options):
    async def echo():
        """Say it."""
        if isinstance(value, Exception):
            raise value
        return value

    return FunctionTool(echo, **options)


def call(tool, arguments="{}", context=None, id="c1"):
    return asyncio.run(tool.invoke(ToolCall(name=tool.name, arguments=arguments, id=id), context))
