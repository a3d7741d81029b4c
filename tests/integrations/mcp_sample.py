"""Tools that the MCP tests serve; run as a script, a server of them: `mcp_sample.py [stdio | http PORT]`."""

import asyncio
import gc
import os
import sys
import time
from dataclasses import dataclass

from functool import Context, FunctionTool, ImageContent, ToolError, Toolset, ToolSettings
from functool.guardrails import redact, require_approval
from functool.integrations import mcp

PNG = b"\x89PNG\r\n\x1a\n"
ran: list[str] = []


@dataclass
class City:
    """A place."""

    name: str
    people: int


@FunctionTool(
    settings=ToolSettings(display_name="Adder", read_only=True, idempotent=True, destructive=False)
)
def add(a: int, b: int = 1) -> int:
    """Add two numbers.

    Args:
        a: The first.
        b: The second.
    """
    return a + b


@FunctionTool
def city(name: str) -> City:
    """Describe a city."""
    return City(name=name, people=3_700_000)


@FunctionTool
def maybe(found: bool) -> list[str] | None:
    """Return a list, or nothing."""
    return ["found"] if found else None


@FunctionTool
def picture() -> ImageContent:
    """Draw."""
    return ImageContent(data=PNG, media_type="image/png")


@FunctionTool
def fail():
    """Fail."""
    raise ToolError("the disk is full")


@FunctionTool
def chatty(text: str):
    """Print to standard output, which on stdio is the wire."""
    print(text)
    sys.stdout.flush()
    return "said"


@FunctionTool
async def steps(context: Context):
    """Report progress."""
    for done in range(1, 4):
        context.progress(f"step {done}", done, 3)
    return "done"


@FunctionTool
def counting():
    """Yield, which reports progress."""
    yield from ("one", "two", "three")


@FunctionTool
async def slow(seconds: float):
    """Sleep, and tell when cancelled."""
    ran.append("slow began")
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        ran.append("slow was cancelled")
        raise
    return "slept"


@FunctionTool(timeout=0.05)
async def limited():
    """Sleep longer than allowed."""
    await asyncio.sleep(30)


@FunctionTool(input_guardrails=[require_approval()])
def delete(path: str) -> str:
    """Delete a file."""
    ran.append(path)
    return f"deleted {path}"


@FunctionTool(output_guardrails=[redact([r"\d{4}"])])
def secret() -> str:
    """Tell a PIN."""
    return "the PIN is 1234"


@FunctionTool(settings=ToolSettings(is_enabled=False))
def hidden():
    """Never shown."""


@FunctionTool
def told() -> list[str]:
    """Tell what ran in this process."""
    return list(ran)


@FunctionTool
def blocking(seconds: float) -> str:
    """Sleep in a thread."""
    time.sleep(seconds)
    return "slept"


def count() -> dict[str, int]:
    """Count what a leak would make grow in this process."""
    gc.collect()
    return {
        "tasks": len(asyncio.all_tasks()),
        "files": len(os.listdir("/proc/self/fd")),
        "objects": len(gc.get_objects()),
    }


@FunctionTool
async def census() -> dict[str, int]:
    """Count tasks, open files and objects of the server's process."""
    return count()


tools = Toolset(
    [
        add,
        city,
        maybe,
        picture,
        fail,
        chatty,
        steps,
        counting,
        slow,
        limited,
        delete,
        secret,
        hidden,
        told,
        blocking,
        census,
    ]
)

if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        mcp.serve(tools, "http", port=int(sys.argv[2]))
    else:
        mcp.serve(tools)
