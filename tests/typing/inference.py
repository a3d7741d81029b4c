"""What mypy and pyright infer of tools. This file is checked by both (`make types`), never run."""

import functools
from collections.abc import AsyncIterator, Callable, Iterator

from typing_extensions import assert_type

from functool import (
    AgentTool,
    Context,
    FunctionTool,
    GuardrailError,
    InputGuardrail,
    OutputGuardrail,
    Tool,
    ToolCall,
    ToolModel,
    ToolResult,
    Toolset,
)


@FunctionTool
def search(query: str, limit: int = 10) -> list[str]:
    """Search."""
    return [query] * limit


@FunctionTool(name="fetch", strict=True, timeout=3)
async def fetch(url: str) -> bytes:
    """Fetch."""
    return url.encode()


@FunctionTool
def apply(function: Callable[[int], str], value: int) -> str:
    """Apply a function: its first parameter is a callable, as a decorator's is."""
    return function(value)


@FunctionTool
def count(to: int) -> Iterator[int]:
    """Count."""
    yield from range(to)


@FunctionTool
async def tick(to: int) -> AsyncIterator[int]:
    """Count."""
    for number in range(to):
        yield number


class Shop:
    @FunctionTool
    def price(self, item: int) -> float:
        """Tell a price."""
        return item * 1.5

    @FunctionTool(timeout=1)
    async def order(self, item: int, context: Context[str]) -> str:
        """Order an item."""
        return context.deps


class Add(ToolModel):
    a: int

    def run(self) -> int:
        return self.a


def no_secrets(call: ToolCall, context: Context) -> None:
    raise GuardrailError("no")


async def polite(result: ToolResult, context: Context) -> ToolResult | None:
    return None


def other_values(value: int, context: Context) -> int:
    return value


guards: list[InputGuardrail] = [no_secrets]
output_guards: list[OutputGuardrail] = [polite]
of_ints: InputGuardrail[int] = other_values


async def check() -> None:
    call = ToolCall(name="search", arguments={"query": "x"})
    assert_type(search("x"), list[str])
    assert_type(search(query="x", limit=3), list[str])
    assert_type(await search(call), ToolResult)
    assert_type(await search(call, None), ToolResult)
    assert_type(await search(call, Context()), ToolResult)
    assert_type(await search.invoke(call), ToolResult)

    assert_type(await fetch("x"), bytes)
    assert_type(await fetch(call, Context("deps")), ToolResult)

    assert_type(apply(str, 1), str)
    assert_type(await apply(call), ToolResult)

    assert_type(count(3), Iterator[int])
    assert_type(tick(3), AsyncIterator[int])

    shop = Shop()
    assert_type(shop.price(1), float)
    assert_type(await shop.price(call), ToolResult)
    assert_type(await shop.order(1, Context("x")), str)
    assert_type(await shop.order(call, None), ToolResult)

    partial = FunctionTool(functools.partial(sum, start=1), name="total")
    assert_type(await partial(call), ToolResult)

    assert_type(Context("deps").deps, str)
    assert_type(await Toolset([search, fetch, shop.price]).call(call), ToolResult)
    assert_type(await Toolset([search]).call_all([call]), list[ToolResult])
    assert_type(Toolset([search])["search"], Tool)
    assert_type(Add.tool(), Tool)
    agent: Tool = AgentTool(object(), "agent", "An agent.")
    assert_type(await agent(call), ToolResult)


def wrong() -> None:
    search(1)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    search("x", wrong=1)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    Shop().price("x")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
