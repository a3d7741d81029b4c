"""The two ends of MCP: the SDK's client at a server of ours, and our own connection to a server."""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp import Client
from mcp.server.lowlevel import Server

from functool import Context, ToolCall, ToolResult
from functool.integrations import mcp
from tests.support import free_port, listening

ROOT = Path(__file__).parents[2]
SAMPLE = str(Path(__file__).parent / "mcp_sample.py")


def served(target: Any, work: Callable[[Client], Any], **options: Any) -> Any:
    """Connect the SDK's client, and return what a coroutine function does with it."""

    async def main() -> Any:
        async with Client(target, **options) as client:
            return await work(client)

    return asyncio.run(asyncio.wait_for(main(), 300))


def served_call(target: Any, name: str, arguments: Any = None, **options: Any) -> Any:
    """Make one call with the SDK's client."""
    return served(target, lambda client: client.call_tool(name, arguments or {}), **options)


def texts(answer: types.CallToolResult) -> list[str]:
    return [block.text for block in answer.content if isinstance(block, types.TextContent)]


def brought_in(target: Any, work: Callable[[Any], Any], **options: Any) -> Any:
    """Connect to a server, and return what a coroutine function does with its toolset."""

    async def main() -> Any:
        async with mcp.connect(target, **options) as toolset:
            return await work(toolset)

    return asyncio.run(asyncio.wait_for(main(), 300))


def call(
    target: Any, name: str, arguments: Any = None, *, context: Context | None = None, **options: Any
) -> ToolResult:
    """Make one call of a server's tool."""
    made = ToolCall(name=name, arguments=arguments or {}, id="1")
    return brought_in(target, lambda toolset: toolset.call(made, context), **options)


def tool(
    name: str = "echo", description: str = "Echo.", schema: Any = None, **more: Any
) -> types.Tool:
    return types.Tool(
        name=name, description=description, input_schema=schema or {"type": "object"}, **more
    )


def serving(
    definitions: Callable[[], list[types.Tool]], answer: Callable[[Any], Any] | None = None
) -> Server[Any]:
    """Return a server of the SDK's that says whatever a test wants."""

    async def list_tools(context: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=definitions())

    async def call_tool(context: Any, params: Any) -> Any:
        if answer is not None:
            return answer(params)
        text = f"{params.name} {params.arguments}"
        return types.CallToolResult(content=[types.TextContent(text=text)])

    return Server("hostile", on_list_tools=list_tools, on_call_tool=call_tool)


def accepting(content: Any, asked: list[Any] | None = None) -> Any:
    """Return the answer of a client's person who accepts, and notes what was asked."""

    async def elicit(context: Any, params: Any) -> types.ElicitResult:
        if asked is not None:
            asked.append(params)
        return types.ElicitResult(action="accept", content=content)

    return elicit


@contextmanager
def sample_over_http(port: int | None = None) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run the sample server over HTTP, and give its address and its process."""
    port = port or free_port()
    words = [sys.executable, SAMPLE, "http", str(port)]
    with subprocess.Popen(words, cwd=ROOT, stderr=subprocess.DEVNULL) as process:
        try:
            listening(port, process)
            yield f"http://127.0.0.1:{port}/mcp", process
        finally:
            process.kill()
