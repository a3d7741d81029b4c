"""Tools that the actors of a Ray cluster find by their names."""

import asyncio
import os
import threading
import time
from pathlib import Path
from typing import Annotated

from pydantic import Field

from functool import (
    Context,
    FunctionTool,
    GuardrailError,
    ImageContent,
    Inject,
    ToolCall,
    ToolError,
    ToolResult,
    ToolSettings,
    Tripwire,
)
from functool.guardrails import require_approval, trusted_only
from functool.layers.journal import Interrupted, idempotency_key

THIS = os.getpid()


def make_deps():
    """The dependencies of the contexts of one actor."""
    return {"made in": os.getpid()}


def fail_to_make_deps():
    raise ConnectionError("no database")


@FunctionTool
async def add(a: int, b: int = 2) -> int:
    return a + b


@FunctionTool(name="before" if os.environ.get("RAY_TOOLS_HOST") else "after")
async def renamed() -> None:
    """Have another name on workers with a newer version of the code."""


@FunctionTool
async def joined(x: Annotated[int, Field(alias="from")], *more: int, **named: str) -> str:
    return f"{x} {more} {named}"


@FunctionTool
async def where() -> int:
    return os.getpid()


@FunctionTool
async def made_in(deps: Annotated[dict, Inject(lambda context: context.deps)]) -> list[int]:
    return [deps["made in"], os.getpid()]


@FunctionTool
async def fail() -> None:
    raise KeyError("secret")


@FunctionTool
async def unpicklable() -> object:
    return threading.Lock()


@FunctionTool
async def leave() -> None:
    raise SystemExit(3)


@FunctionTool(timeout=60)
async def leave_in_time() -> None:
    raise SystemExit(3)


@FunctionTool
async def fail_with_a_lock() -> None:
    raise ToolError("busy", details={"lock": threading.Lock(), "tries": 2})


@FunctionTool
async def unpicklable_page(context: Context) -> object:
    context.add_labels(["page"])  # As a call of an untrusted tool inside of this body does.
    return threading.Lock()


@FunctionTool(input_guardrails=[require_approval()])
async def pay(amount: int) -> str:
    return f"paid {amount}"


def wrote(context):
    return "hello"


@FunctionTool(
    input_guardrails=[require_approval(), trusted_only("to", ask=True, wrote=wrote)],
)
async def send(to: str) -> str:
    return f"sent to {to}"


@FunctionTool
async def order() -> ToolResult:
    return ToolResult.of("ordered", metadata={"approval": {"by": "Bo"}})


def only_on_a_worker(call, context):
    """Trip, and refuse, where this is no process of the test's own."""
    if os.environ.get("RAY_TOOLS_HOST"):
        return
    if call.arguments["how"] == "trip":
        raise Tripwire("stop")
    raise GuardrailError("not here")


@FunctionTool(input_guardrails=[only_on_a_worker])
async def guarded(how: str) -> str:
    return how


async def wait_beside(folder: str, seconds: float) -> str:
    """Wait, and tell in a file what happens meanwhile."""
    told = Path(folder) / "told"

    def tell(word):
        with told.open("a") as file:
            file.write(f"{word} {os.getpid()}\n")

    tell("begun")
    try:
        await asyncio.sleep(seconds if told.read_text().count("begun") == 1 else 0)
    except asyncio.CancelledError:
        tell("cancelled")
        raise
    return "done"


@FunctionTool
async def slow(folder: str, seconds: float) -> str:
    return await wait_beside(folder, seconds)


@FunctionTool(timeout=1)
async def limited(folder: str, seconds: float) -> str:
    return await wait_beside(folder, seconds)


@FunctionTool(input_guardrails=[require_approval()])
async def approved(folder: str, seconds: float) -> str:
    return await wait_beside(folder, seconds)


@FunctionTool(settings=ToolSettings(idempotent=True))
async def around_approved(folder: str, seconds: float, context: Context) -> ToolResult:
    arguments = {"folder": folder, "seconds": seconds}
    inner = ToolCall(name="approved", arguments=arguments, id="inner")
    return await approved.invoke(inner, context)


@FunctionTool(settings=ToolSettings(idempotent=True))
async def repeatable(folder: str, seconds: float) -> str:
    return await wait_beside(folder, seconds)


@FunctionTool(settings=ToolSettings(idempotent=True))
async def keyed(folder: str, seconds: float, key: Annotated[str, Inject(idempotency_key)]) -> str:
    with (Path(folder) / "keys").open("a") as keys:
        keys.write(f"{key}\n")
    return await wait_beside(folder, seconds)


@FunctionTool
def blocking(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


@FunctionTool
async def shown(words: str) -> ToolResult:
    return ToolResult.of(words, metadata={"cost": 3}).shown_as("short")


@FunctionTool
async def pictures() -> list[ImageContent]:
    return [ImageContent(data=b"1", media_type="image/png")] * 2


@FunctionTool
async def resources(context: Context) -> dict:
    import ray

    return ray.get_runtime_context().get_assigned_resources()


@FunctionTool
async def interrupted() -> None:
    raise Interrupted("The process died.", details={"at": object})
