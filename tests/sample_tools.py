"""Tools at module level, for tests of pickling and of forward references."""

from __future__ import annotations

from typing import Annotated, Generic, TypeVar

from pydantic import BaseModel
from typing_extensions import NotRequired, Required, TypedDict, Unpack

from functool import FunctionTool

T = TypeVar("T")


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


def postponed():
    """Two tools of TypedDicts that are local, generic and postponed, and a model that they name."""

    class Options(TypedDict, Generic[T]):
        one: T
        many: NotRequired[list[T]]
        day: NotRequired[Day]
        plain: Annotated[T, "Said."]

    class Later(Options[int], total=False):
        size: int
        must: Required[Day]

    class Day(BaseModel):
        n: int

    def go(**options: Unpack[Options[int]]):
        return options

    def on(**options: Unpack[Later]):
        return options

    return FunctionTool(go), FunctionTool(on), Day


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
