"""Tools at module level, for tests of pickling and of forward references."""

from __future__ import annotations

from functool import FunctionTool


@FunctionTool
async def plus(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


@FunctionTool
async def area(shape: Shape) -> float:
    """Measure a shape that is defined further down."""
    return shape.width * shape.height


from dataclasses import dataclass  # noqa: E402


@dataclass
class Shape:
    width: float
    height: float = 1.0


class Counter:
    """Counts."""

    def __init__(self, start: int) -> None:
        self.start = start

    @FunctionTool
    async def add(self, step: int) -> int:
        """Add a step."""
        return self.start + step

    def __reduce__(self):
        return Counter, (self.start,)
