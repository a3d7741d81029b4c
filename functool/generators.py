"""Run a generator to its end: the body of a tool whose function yields."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from typing import Any

from functool.context import Context
from functool.errors import ToolError

MAX_YIELDS = 10_000
"""After how many items a generator is closed."""


def exhaust(items: Generator[Any, Any, Any], context: Context[Any]) -> Any:
    """Run a generator to its end, and return its value.

    Each item is progress. The last one is the value, unless the function returns one.

    Raises:
        ToolError: It has yielded 10,000 times, and was closed.
    """
    last = None
    for _ in range(MAX_YIELDS):
        try:
            last = next(items)
        except StopIteration as stop:
            return last if stop.value is None else stop.value
        context.emit("tool:progress", value=last)
    items.close()
    raise ToolError(f"The tool yielded {MAX_YIELDS} times and was closed.")


async def exhaust_async(items: AsyncGenerator[Any, Any], context: Context[Any]) -> Any:
    """Run an async generator to its end, and return its last item; each is progress.

    Raises:
        ToolError: It has yielded 10,000 times, and was closed.
    """
    last, count = None, 0
    try:
        async for last in items:
            context.emit("tool:progress", value=last)
            count += 1
            if count >= MAX_YIELDS:
                raise ToolError(f"The tool yielded {MAX_YIELDS} times and was closed.")
    finally:
        await items.aclose()
    return last
