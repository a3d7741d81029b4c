"""Run generators to their end, for tools whose function yields."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing
from typing import Any

from functool.context import Context
from functool.errors import ToolError

MAX_YIELDS = 10_000
"""The number of items after which a generator is closed."""


def exhaust(items: Generator[Any, Any, Any], context: Context[Any]) -> Any:
    """Run a generator to its end, and return its value.

    Each item is sent as progress. The value is what the function returns, or else the last item.

    Raises:
        ToolError: The generator has yielded 10,000 times, and was closed.
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


async def exhaust_async(
    items: AsyncGenerator[Any, Any], context: Context[Any], most: float = MAX_YIELDS
) -> Any:
    """Run an async generator to its end, and return its last item. Send each item as progress.

    Raises:
        ToolError: The generator has yielded `most` times, and was closed.
    """
    last, count = None, 0
    async with aclosing(items):
        async for last in items:
            context.emit("tool:progress", value=last)
            count += 1
            if count >= most:
                raise ToolError(f"The tool yielded {most} times and was closed.")
    return last
