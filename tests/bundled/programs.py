"""Programs of code mode: how a test runs one, and what it looks at."""

import asyncio

from functool import FunctionTool, ToolCall


def run(tool, code, context=None, id="c1", **more):
    """Run a program, in an event loop of its own."""
    call = ToolCall(name="run_code", arguments={"code": code}, id=id, **more)
    return asyncio.run(tool.invoke(call, context))


def value_of(tool, code, context=None):
    """Run a program, and return its last value."""
    return run(tool, code, context).unwrap()["value"]


def outcomes(result):
    """Return the names of a program's calls, each with what came of it."""
    return [(made["name"], made["outcome"]) for made in result.metadata["calls"]]


class Crowd:
    """A tool that counts how many calls of it run at once."""

    def __init__(self):
        self.running = self.most = 0

        async def slow(n: int) -> int:
            """Wait a moment."""
            self.running += 1
            self.most = max(self.most, self.running)
            await asyncio.sleep(0.01)
            self.running -= 1
            return n

        self.tool = FunctionTool(slow)
