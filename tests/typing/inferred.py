"""What mypy and pyright infer of tools: checked, never run."""

from collections.abc import Callable
from typing import Any, assert_type

from functool import Context, FunctionTool, ToolCall, ToolResult


@FunctionTool
def search(query: str, limit: int = 10) -> list[str]:
    return [query] * limit


@FunctionTool(name="count", strict=True, timeout=5.0)
def count(text: str, *, words: bool = False) -> int:
    return len(text)


@FunctionTool(name="store")
def store(data: dict[str, Any], context: Context) -> int:
    return len(data)


@FunctionTool
async def fetch(url: str) -> bytes:
    return url.encode()


@FunctionTool
def apply(func: Callable[[int], int], value: int) -> int:
    return func(value)


class Shop:
    @FunctionTool
    def price(self, item: str) -> float:
        return len(item)

    @FunctionTool(name="stock")
    async def stock(self, item: str, *, exact: bool = False) -> int:
        return len(item)

    @FunctionTool(timeout=1.0)
    async def order(self, item: str, context: Context) -> int:
        return len(item)


def double(value: int) -> int:
    return value * 2


direct = FunctionTool(double)
by_name = FunctionTool(func=double)


async def main(call: ToolCall, context: Context[Any]) -> None:
    assert_type(search("x"), list[str])
    assert_type(search("x", limit=3), list[str])
    assert_type(count("x", words=True), int)
    assert_type(await fetch("u"), bytes)
    assert_type(apply(double, 2), int)
    assert_type(direct(3), int)
    assert_type(by_name(3), int)
    assert_type(await search(call), ToolResult)
    assert_type(await search(call, context), ToolResult)
    assert_type(await count(call, None), ToolResult)
    assert_type(await search.invoke(call), ToolResult)
    shop = Shop()
    assert_type(shop.price("tea"), float)
    assert_type(await shop.stock("tea", exact=True), int)
    assert_type(await shop.price(call), ToolResult)
    assert_type(store({}, context), int)
    assert_type(await store(call), ToolResult)
    assert_type(await shop.order("tea", context), int)
    assert_type(search.func("x"), list[str])
    search(5)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    count("x", word=True)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    shop.price(5)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
