"""Serve functool tools to an Elixir process over a Port, one JSON object a line.

Elixir starts this program and writes requests to its standard input:

    {"id": 1, "op": "schemas"} {"id": 2, "op": "run", "name": "calculator", "input": {"operation":
    "add", "a": 5, "b": 3}, "timeout": 30000}

and reads answers, in whatever order they are ready:

    {"id": 1, "ok": [{"name": "calculator", "description": "...", "input_schema": {...}}, ...]}
    {"id": 2, "ok": 8}          or          {"id": 2, "error": "Division by zero"}

`normandy_port.exs` beside this file is the other end. Run it with `elixir
examples/normandy_port.exs python3`.
"""

import asyncio
import json
import sys
from typing import Any, Literal, TextIO

from functool import FunctionTool, ToolModel, ToolResult
from functool.integrations.normandy import Registry, execute
from functool.tool_model import Err, Ok


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
    try:
        request = json.loads(line)
        if request["op"] == "schemas":
            return {"id": request["id"], "ok": registry.to_tool_schemas()}
        limit = request.get("timeout")
        result = await execute(registry, request["name"], request.get("input"), timeout=limit)
    except (ValueError, KeyError, TypeError) as error:
        return {"id": None, "error": f"bad request: {type(error).__name__}: {error}"}
    if isinstance(result, Err):
        return {"id": request["id"], "error": result.reason}
    return {"id": request["id"], "ok": result.value}


async def serve(registry: Registry, lines: TextIO, wire: TextIO) -> None:
    """Answer every line until the other end closes; requests run side by side."""

    async def one(line: str) -> None:
        found = await answer(registry, line)
        # `ToolResult.of` writes as JSON what plain JSON does not know, dates and sets for example.
        wire.write(ToolResult.of(found).text + "\n")
        wire.flush()

    async with asyncio.TaskGroup() as running:
        while line := await asyncio.to_thread(lines.readline):
            running.create_task(one(line))


def main() -> None:
    wire, sys.stdout = sys.stdout, sys.stderr
    asyncio.run(serve(Registry([Calculator, greet, wait, crash]), sys.stdin, wire))


if __name__ == "__main__":
    main()
