"""Serve functool tools to an Elixir process over a Port, one JSON object a line.

Elixir starts this program; `normandy_port.exs` beside this file shows how. To see both at work:

    elixir examples/normandy_port.exs .venv/bin/python

Elixir writes one request a line to the standard input of this program:

    {"id": 1, "op": "schemas"}
    {"id": 2, "op": "run", "name": "greet", "input": {"name": "Bo"}, "timeout": 30000}

`input` and `timeout` (milliseconds) may be left out. Elixir reads one answer a line, in whatever
order they are ready:

    {"id": 1, "ok": [{"name": "calculator", "description": "...", "input_schema": {...}}, ...]}
    {"id": 2, "ok": {"text": "Hello, Bo!", "length": 3}}
    {"id": 3, "error": "Division by zero"}

A bad request is an error under its own id, and under `null` if it has none. Write the id first:
then a line that cannot be read, for example because it is nested too deeply, is answered under it
as well. A shell can play Elixir's part:

    echo '{"id": 1, "op": "run", "name": "greet", "input": {"name": "Bo"}}' |
        python examples/normandy_port.py
"""

import asyncio
import io
import json
import os
import re
import select
import sys
from typing import Any, Literal, TextIO

from functool import FunctionTool, FunctoolError, ToolModel, ToolResult
from functool.executors import in_thread
from functool.integrations.normandy import Registry, execute
from functool.tool_model import Err, Ok

LOOK_SECONDS = 0.2
"""How often to look whether Elixir still reads, once it writes no more."""

ID_AT_HEAD = re.compile(r'\s*{\s*"id"\s*:\s*(\d{1,18})\b')
"""Finds the id of a line that `json` cannot read as a whole."""


class Calculator(ToolModel):
    """Calculate with two numbers."""

    operation: Literal["add", "subtract", "multiply", "divide"]
    a: int
    b: int

    def run(self) -> Ok[float] | Err:
        if self.operation == "divide" and self.b == 0:
            return Err("Division by zero")
        results = {"add": self.a + self.b, "subtract": self.a - self.b, "multiply": self.a * self.b}
        return Ok(results[self.operation] if self.operation in results else self.a / self.b)


@FunctionTool
def greet(name: str, greeting: str = "Hello") -> dict[str, Any]:
    """Greet somebody.

    Args:
        name: Who to greet.
        greeting: How.
    """
    print("What a tool prints goes to standard error: standard output is the wire.")
    return {"text": f"{greeting}, {name}!", "length": len(name)}


@FunctionTool
async def wait(seconds: float) -> str:
    """Wait.

    Args:
        seconds: How long.
    """
    await asyncio.sleep(seconds)
    return "waited"


@FunctionTool
def crash() -> str:
    """Crash."""
    raise RuntimeError("out of cheese")


async def answer(registry: Registry, line: str) -> dict[str, Any]:
    """Return the answer to one line."""
    head = ID_AT_HEAD.match(line)
    request_id = int(head[1]) if head else None
    try:
        request = json.loads(line)
        if not isinstance(request, dict):
            raise TypeError("expected a JSON object")
        request_id = request.get("id")
        return {"id": request_id, **await answer_to(registry, request)}
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        return {"id": request_id, "error": f"bad request: {type(error).__name__}: {error}"}
    except FunctoolError as error:  # A bad time limit, or a tripwire.
        return {"id": request_id, "error": str(error)}


async def answer_to(registry: Registry, request: dict[str, Any]) -> dict[str, Any]:
    """Return `ok` or `error` of one request."""
    match request:
        case {"op": "schemas"}:
            return {"ok": registry.to_tool_schemas()}
        case {"op": "run", "name": str(name)}:
            limit = request.get("timeout")
            if isinstance(limit, bool) or not isinstance(limit, int | float | None):
                raise TypeError("expected a number as timeout: milliseconds")
            result = await execute(registry, name, request.get("input"), timeout=limit)
            return {"error": result.reason} if isinstance(result, Err) else {"ok": result.value}
    raise ValueError('expected "op": "schemas", or "op": "run" and a "name"')


async def serve(registry: Registry, lines: TextIO, wire: TextIO) -> None:
    """Answer every line until the other end closes; requests run side by side.

    Raises:
        BrokenPipeError: Nobody reads the answers any more; in an exception group. What still ran
            is cancelled.
    """
    tasks: set[asyncio.Task[None]] = set()

    async def one(line: str) -> None:
        wire.write(line_of(await answer(registry, line)) + "\n")
        wire.flush()

    async with asyncio.TaskGroup() as running:
        while line := await in_thread(lines.readline):
            task = running.create_task(one(line))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        # Elixir has closed the Port, or a shell has sent all it had and still reads.
        while tasks:
            if has_left(wire):
                raise BrokenPipeError("Elixir has left in the middle of a call")
            await asyncio.wait(tasks, timeout=LOOK_SECONDS)


def line_of(found: dict[str, Any]) -> str:
    """Return an answer as JSON text. A value that JSON cannot say is sent as its text."""
    # `ToolResult.of` writes as JSON what plain JSON does not know, dates and sets for example.
    text = ToolResult.of(found).text
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return json.dumps(found | {"ok": ToolResult.of(found["ok"]).text})
    return text


def has_left(wire: TextIO) -> bool:
    """Whether nobody is at the other end of a pipe any more."""
    try:
        look = select.poll()
        look.register(wire.fileno(), 0)
    except (AttributeError, io.UnsupportedOperation):  # On Windows; no pipe but a text in memory.
        return False
    return bool(look.poll(0))


def moved(descriptor: int, mode: str) -> TextIO:
    """Return a standard stream at another place, where no program that a tool starts finds it."""
    return os.fdopen(os.dup(descriptor), mode, encoding="utf-8", errors="replace")


def main() -> None:
    if sys.stdin.isatty():
        print(f"This is one end of a Port. Run: elixir examples/normandy_port.exs {sys.executable}")
        return
    lines, wire = moved(0, "r"), moved(1, "w")
    # A program that a tool starts reads and writes these two, and must not meet the wire there.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    try:
        asyncio.run(serve(Registry([Calculator, greet, wait, crash]), lines, wire))
    except* BrokenPipeError:
        # What was not read stays unsaid, and Python's exit has nothing left to write.
        os.dup2(os.open(os.devnull, os.O_WRONLY), wire.fileno())


if __name__ == "__main__":
    main()
