"""What the tests of many files do: make a call, guard it, listen to it, cancel it, wait, let time pass, find a port."""

import asyncio
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pydantic
import pytest

from functool import (
    Context,
    FunctionTool,
    GuardrailError,
    InputGuardrail,
    OutputGuardrail,
    SchemaTool,
    TextContent,
    Tool,
    ToolCall,
    ToolError,
    ToolResult,
    ToolSettings,
)
from functool.executors import abandoned
from functool.testing import EventLog

since_pydantic_2_14 = pytest.mark.skipif(
    tuple(map(int, pydantic.VERSION.split(".")[:2])) < (2, 14),
    reason="pydantic 2.13 itself describes or reads this type otherwise",
)


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


def taking(annotation: Any, **options: Any) -> FunctionTool[..., Any]:
    """A tool of one parameter `x` with this annotation, which answers with what it received."""

    def take(x):  # type: ignore[no-untyped-def]
        return x

    take.__annotations__ = {"x": annotation}
    return FunctionTool(take, **options)


def foreign(schema: Any, handler: Any = dict, **options: Any) -> SchemaTool:
    """A tool of somebody else's schema. Unless it has another handler, it answers with its arguments."""
    return SchemaTool("f", "F.", schema, handler, **options)


def sends(**arguments: Any) -> InputGuardrail[ToolCall]:
    """An input guardrail that sends these arguments in the place of those that came."""

    def sends(call: ToolCall, context: Context[Any]) -> ToolCall:
        return replace(call, arguments=arguments)

    return sends


def shows(text: str) -> OutputGuardrail[ToolResult]:
    """An output guardrail that shows this text in the place of the output."""

    def shows(result: ToolResult, context: Context[Any]) -> ToolResult:
        return replace(result, output=[TextContent(text=text)])

    return shows


def refuses(said: str = "no") -> Callable[[Any, Context[Any]], None]:
    """A guardrail, of either side, that refuses whatever comes."""

    def refuses(given: Any, context: Context[Any]) -> None:
        raise GuardrailError(said)

    return refuses


async def hangs(given: Any, context: Context[Any]) -> None:
    """A guardrail, of either side, that never ends."""
    await asyncio.Event().wait()


def did(name: str, stage: str, what: str = "replaced") -> dict[str, str]:
    """What `metadata["guardrails"]` says of one guardrail."""
    return {"name": name, "stage": stage, "did": what}


def heard(debug: bool = False) -> tuple[Context[Any], EventLog]:
    """A context, and the log of its events."""
    context, log = Context[Any](), EventLog()
    context.subscribe(log, debug=debug)
    return context, log


async def cancelled(work: Coroutine[Any, Any, Any], begun: asyncio.Event) -> None:
    """Cancel `work` when it has begun, and wait until the cancellation has left it."""
    task = asyncio.ensure_future(work)
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def until(condition: Callable[[], Any], seconds: float = 60) -> Any:
    """Wait until `condition()` is true, and return what it said; a machine may be slow."""
    async with asyncio.timeout(seconds):
        while not (said := condition()):
            await asyncio.sleep(0.005)
    return said


async def nothing_abandoned() -> None:
    """Wait for the bodies that this test, or one before it, has let go."""
    await until(lambda: not abandoned())


def python(code: str, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a piece of Python in a process of its own, and return what it said."""
    command = [sys.executable, "-c", code, *words]
    return subprocess.run(command, capture_output=True, text=True, **options)


def in_threads(count: int, work: Callable[[], Any]) -> list[Any]:
    """Do something in so many threads at once, and return what each returned, in the order of their ends."""
    done: list[Any] = []
    threads = [threading.Thread(target=lambda: done.append(work())) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return done


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


def alive(pid: int | str) -> bool:
    """Say whether a process runs: one that has ended and was not waited for yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


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
