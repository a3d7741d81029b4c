"""A FastMCP server on standard input and output."""

from dataclasses import dataclass

from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.utilities.types import Image

server = FastMCP("interop")


@dataclass
class Point:
    x: int
    y: int


@server.tool
def multiply(a: int, b: int = 2) -> int:
    """Multiply two numbers."""
    return a * b


@server.tool
def point(x: int) -> Point:
    """Return a point."""
    return Point(x, 2)


@server.tool
def draw() -> Image:
    """Draw."""
    return Image(data=b"\x89PNG", format="png")


@server.tool
def broken() -> str:
    """Fail."""
    raise ToolError("out of paper")


@server.tool
async def steps(context: Context) -> str:
    """Report progress."""
    for done in range(1, 4):
        await context.report_progress(done, 3, f"step {done}")
    return "done"


@server.tool
async def confirm(context: Context) -> str:
    """Ask a person."""
    answer = await context.elicit("Your name?", response_type=str)
    return f"{answer.action} {answer.data}"


if __name__ == "__main__":
    server.run(show_banner=False)
