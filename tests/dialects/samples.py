"""The tools and results that every dialect's tests share."""

import asyncio
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from functool import (
    AudioContent,
    FileContent,
    FunctionTool,
    ImageContent,
    TextContent,
    ToolResult,
    Toolset,
)

PNG = bytes.fromhex("89504e470d0a1a0a")
PNG_TEXT = "iVBORw0KGgo="


class Filters(BaseModel):
    """What to leave out."""

    kind: Literal["book", "film"]
    tags: list[str] = []
    price: float | None = Field(default=None, ge=0)


class Tree(BaseModel):
    name: str
    children: list["Tree"] = []


def search(
    query: str, limit: Annotated[int, Field(ge=1, le=50)] = 10, filters: Filters | None = None
) -> list[str]:
    """Search the library.

    Args:
        query: What to look for.
        limit: How many titles.
        filters: What to leave out.
    """
    return [f"{query} {n}" for n in range(limit)][: 2 if filters is None else 1]


def scores(points: dict[str, int], start: tuple[int, str] = (0, "a")) -> str:
    """Add up scores."""
    return f"{sum(points.values()) + start[0]}{start[1]}"


def plant(tree: Tree) -> int:
    """Plant a tree."""
    return 1 + sum(
        plant.func(child) if isinstance(plant, FunctionTool) else plant(child)
        for child in tree.children
    )


def ping() -> str:
    """Say hello."""
    return "pong"


def toolset(strict: bool = False) -> Toolset:
    """The four tools."""
    return Toolset(
        [FunctionTool(function, strict=strict) for function in (search, scores, plant, ping)]
    )


def answers(calls: list[Any], strict: bool = False) -> list[ToolResult]:
    """What the four tools answer."""
    return asyncio.run(toolset(strict).call_all(calls))


IMAGE = ImageContent(data=PNG)
SHOWN = ToolResult(output=[TextContent(text="a cat"), IMAGE, TextContent(text="")], call_id="c1")
LINKED = ToolResult(output=[ImageContent(uri="https://example.com/cat.png")], call_id="c1")
PDF = ToolResult(
    output=[FileContent(data=b"%PDF", media_type="application/pdf", name="notes (1).pdf")],
    call_id="c1",
)
SOUND = ToolResult(output=[AudioContent(data=b"RIFF")], call_id="c1")
FAILED = ToolResult(output=[IMAGE], error=ToolResult.failed("no such title").error, call_id="c1")
PLAIN = ToolResult(output=[TextContent(text="two titles")], call_id="c1")
EMPTY = ToolResult(call_id="c1")
EVERY_RESULT = {
    "shown": SHOWN,
    "linked": LINKED,
    "pdf": PDF,
    "sound": SOUND,
    "failed": FAILED,
    "plain": PLAIN,
    "empty": EMPTY,
}


def sdk(name: str) -> Any:
    """A provider's own SDK, or a skipped test where it is not installed."""
    return pytest.importorskip(
        name, reason=f"{name} is not installed: pip install -r tests/requirements/dialects.txt"
    )
