"""strands-agents, at the entry that its executor calls."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from strands import tool

PACKAGES = ("strands-agents",)
IMPORT = "from strands import tool"
ENTRY = 'the last event of tool.stream({"toolUseId", "name", "input"}, {})'
TAKES = "dict"


def define(func: Callable[..., Any]) -> Any:
    made: Any = tool(func)
    assert made.tool_spec
    return made


async def caller(tool: Any) -> Callable[[str], Awaitable[str]]:
    name = tool.tool_name

    async def call(text: str) -> str:
        use = {"toolUseId": "1", "name": name, "input": json.loads(text)}
        events: Any = [event async for event in tool.stream(use, {})]
        return events[-1]["tool_result"]["content"][0]["text"]

    return call
