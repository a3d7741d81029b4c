"""What the tests of many files do: make a call, wait for something, let time pass, find a port."""

import asyncio
import secrets
import socket
import subprocess
import time
from collections.abc import Callable
from typing import Any

from functool import Context, FunctionTool, Tool, ToolCall, ToolError, ToolResult, ToolSettings


def call(
    tool: Tool,
    arguments: Any = None,
    context: Context[Any] | None = None,
    id: str = "c1",
    **fields: Any,
) -> ToolResult:
    """Make one call of a tool in an event loop of its own."""
    made = ToolCall(
        name=tool.name, arguments={} if arguments is None else arguments, id=id, **fields
    )
    return asyncio.run(tool.invoke(made, context))


def ask(
    agent: Tool, context: Context[Any] | None = None, text: str = "hi", *, id: str = "c1"
) -> ToolResult:
    """Ask an agent that is a tool."""
    return call(agent, {"input": text}, context, id=id)


async def until(condition: Callable[[], Any], seconds: float = 60) -> Any:
    """Wait until `condition()` is true, and return what it said; a machine may be slow."""
    async with asyncio.timeout(seconds):
        while not (said := condition()):
            await asyncio.sleep(0.005)
    return said


def time_passes(seconds: float) -> None:
    """Set the clock of the running loop forward: what had to wait for so long is due now.

    A body that calls this under a long time limit is out of time after it began, on any machine.
    """
    loop = asyncio.get_running_loop()
    before = loop.time
    loop.time = lambda: before() + seconds  # type: ignore[method-assign]


def free_port() -> int:
    """Return a port that is free now, below those that the system gives to connections meanwhile."""
    while True:
        with socket.socket() as found:
            port = 20_000 + secrets.randbelow(12_000)
            if found.connect_ex(("127.0.0.1", port)):
                return port


def listening(port: int, process: subprocess.Popen[Any]) -> None:
    """Wait until something listens at the port."""
    while process.poll() is None:
        with socket.socket() as found:
            if found.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError(f"the server ended with exit code {process.returncode}")


def mail_readers(**settings: Any) -> tuple[Tool, Tool]:
    """Return two trusted tools that call an untrusted one: one shows its text, one fails with it."""

    @FunctionTool(settings=ToolSettings(untrusted=True))
    async def mail() -> str:
        return "from a stranger"

    async def digest(context: Context[Any]) -> str:
        return (await mail.invoke(ToolCall(name="mail"), context)).text

    async def fail(context: Context[Any]) -> str:
        await asyncio.sleep(0.01)
        raise ToolError(await digest(context))

    kinds = ToolSettings(**settings)
    return FunctionTool(digest, settings=kinds), FunctionTool(fail, settings=kinds)
