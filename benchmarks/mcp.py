"""What a call over MCP costs on functool's server, beside the SDK's own `MCPServer` with the same function.

Both servers are connected at once and called in turns; what is printed is the median of the rounds' ratios. Run with
`python -m benchmarks mcp`, in the environment of `tests/requirements/mcp.txt`. The client is the SDK's in every case.
"""

import asyncio
import gc
import socket
import statistics
import subprocess
import sys
from contextlib import AsyncExitStack
from importlib.metadata import version

from mcp import Client, StdioServerParameters
from mcp.server.mcpserver import MCPServer

from benchmarks._measure import heading, row, timed_async
from functool import FunctionTool
from functool.integrations import mcp

ARGUMENTS = {"city": "Bern", "days": 3, "metric": True}
# At most, and the aim, of ours / the SDK's.
BUDGETS = {"memory": 1.2, "stdio": 1.1, "http": 1.1}
CALLS = {"memory": 40, "stdio": 20, "http": 20}
ROUNDS = 101


async def forecast(city: str, days: int, metric: bool = True, note: str = "") -> dict[str, int]:
    """Forecast the weather.

    Args:
        city: Name of the city.
        days: How many days.
        metric: Whether to use metric units.
        note: Anything else.
    """
    return {city: days}


def ours():
    return mcp.server([FunctionTool(forecast)])


def theirs():
    # Its log of every request would be measured too.
    server = MCPServer("sdk", log_level="ERROR")
    server.add_tool(forecast)
    return server


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


async def client_of(stack: AsyncExitStack, whose: str, transport: str, mode: str) -> Client:
    """Return a client of one of the servers, started and connected."""
    command = [sys.executable, "-m", "benchmarks.mcp", whose, transport]
    if transport == "memory":
        target = {"ours": ours, "theirs": theirs}[whose]()
    elif transport == "stdio":
        target = StdioServerParameters(command=command[0], args=command[1:])
    else:
        port = free_port()
        process = stack.enter_context(
            subprocess.Popen(
                [*command, str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
        )
        stack.callback(process.terminate)
        while socket.socket().connect_ex(("127.0.0.1", port)):
            await asyncio.sleep(0.05)
        target = f"http://127.0.0.1:{port}/mcp"
    client = await stack.enter_async_context(Client(target, mode=mode))
    await client.list_tools()
    answer = await client.call_tool("forecast", ARGUMENTS)
    assert not answer.is_error
    return client


async def compare(transport: str, mode: str) -> float:
    """Return how many times as long a call takes on functool's server."""
    async with AsyncExitStack() as stack:
        mine, sdk = [await client_of(stack, whose, transport, mode) for whose in ("ours", "theirs")]
        ratios = []
        gc.collect()
        gc.disable()
        for _ in range(ROUNDS):
            ours_took = await timed_async(
                lambda: mine.call_tool("forecast", ARGUMENTS), CALLS[transport]
            )
            ratios.append(
                ours_took
                / await timed_async(lambda: sdk.call_tool("forecast", ARGUMENTS), CALLS[transport])
            )
        gc.enable()
        return statistics.median(ratios)


def main() -> None:
    print(heading(), f"mcp {version('mcp')}")
    for transport, most in BUDGETS.items():
        for mode in ("auto", "legacy"):
            era = "2026-07-28" if mode == "auto" else "2025-11-25"
            row(
                f"a call over {transport}, {era}: functool / SDK",
                asyncio.run(compare(transport, mode)),
                most,
                1.0,
            )


def run_server(whose: str, transport: str, port: str = "8000") -> None:
    if whose == "ours":
        mcp.serve(
            [FunctionTool(forecast)], "stdio" if transport == "stdio" else "http", port=int(port)
        )
    elif transport == "stdio":
        theirs().run("stdio")
    else:
        theirs().run("streamable-http", port=int(port))


if __name__ == "__main__":
    run_server(*sys.argv[1:])
