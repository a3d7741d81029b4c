"""The Model Context Protocol's own SDK, at the entry of its server class."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from mcp.server import MCPServer

PACKAGES = ("mcp",)
IMPORT = "from mcp.server import MCPServer"
ENTRY = "(await MCPServer.call_tool(name, dict)).content[0].text"
TAKES = "dict"
_SERVER = MCPServer("bench", warn_on_duplicate_tools=False)


def define(func: Callable[..., Any]) -> tuple[MCPServer, str]:
    try:
        _SERVER.remove_tool(func.__name__)
    except Exception:  # It was not there.
        pass
    _SERVER.add_tool(func)
    return _SERVER, func.__name__


async def caller(tool: tuple[MCPServer, str]) -> Callable[[str], Awaitable[str]]:
    server, name = tool

    async def call(text: str) -> str:
        result: Any = await server.call_tool(name, json.loads(text))
        return result.content[0].text

    return call
