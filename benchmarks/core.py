"""The road of a call, definition, import and memory, each against a floor of bare pydantic."""

import asyncio
import contextlib
import gc
import json
import statistics
import subprocess
import sys
import time
import tracemalloc
from typing import Any, Literal

from pydantic import BaseModel, TypeAdapter
from pydantic_core import to_json
from typing_extensions import TypedDict

from benchmarks._measure import heading, ratio, ratio_async, row, timed
from functool import FunctionTool, ToolCall
from functool.executors import in_thread


class Item(BaseModel):
    sku: str
    name: str
    quantity: int
    price: float


class Order(BaseModel):
    id: int
    customer: str
    items: list[Item]


class AddArguments(TypedDict):
    a: int
    b: int


class SearchArguments(TypedDict, total=False):
    query: str
    limit: int
    tags: list[str] | None
    mode: Literal["fast", "deep"]


class OrderArguments(TypedDict):
    order: Order


async def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return a + b


async def search(
    query: str,
    limit: int = 10,
    tags: list[str] | None = None,
    mode: Literal["fast", "deep"] = "fast",
) -> str:
    """Search the documents.

    Args:
        query: What to look for.
        limit: How many to return.
        tags: Only documents with these tags.
        mode: How to search.
    """
    return query


async def total(order: Order) -> float:
    """Add up an order.

    Args:
        order: The order.
    """
    return sum(item.quantity * item.price for item in order.items)


def add_sync(a: int, b: int) -> int:
    return a + b


ORDER = {
    "id": 7,
    "customer": "Ada",
    "items": [
        {"sku": f"S-{i}", "name": f"Part number {i}", "quantity": i % 9, "price": i * 1.25}
        for i in range(50)
    ],
}
CASES: list[tuple[Any, Any, str, float, float, float, int]] = [
    (add, AddArguments, '{"a": 1, "b": 2}', 4.2, 3.0, 2.2, 150),
    (
        search,
        SearchArguments,
        '{"query": "cats", "limit": 5, "tags": ["a", "b"]}',
        2.6,
        2.2,
        1.6,
        150,
    ),
    (total, OrderArguments, json.dumps({"order": ORDER}), 1.2, 1.1, 1.5, 40),
]


def bench_road() -> None:
    for func, arguments, text, most, aim, _, times in CASES:
        validate = TypeAdapter(arguments).validator.validate_json
        tool = FunctionTool(func)

        async def floor(func: Any = func, validate: Any = validate, text: str = text) -> bytes:
            return to_json(await func(**validate(text)))

        async def road(tool: Any = tool, text: str = text) -> str:
            return (await tool.invoke(ToolCall(name="x", arguments=text, id="1"))).output[0].text

        row(f"call {func.__name__}", ratio_async(road, floor, times), most, aim)


async def weigh(
    name: str, weights: dict[str, int], spot: tuple[int, str] = (0, "z"), limit: int = 3
) -> int:
    """Weigh."""
    return len(weights)


def bench_strict() -> None:
    for func, plain, strict, most, aim in (
        (
            search,
            '{"query": "cats", "limit": 5, "tags": null, "mode": "fast"}',
            '{"query": "cats", "limit": 5, "tags": null, "mode": null}',
            1.5,
            1.1,
        ),
        (
            weigh,
            '{"name": "a", "weights": {"x": 1, "y": 2}, "spot": [1, "b"]}',
            '{"name": "a", "weights": [{"key": "x", "value": 1}, {"key": "y", "value": 2}], "spot": {"item_0": 1, "item_1": "b"}, "limit": null}',
            2.5,
            2.0,
        ),
    ):
        one, two = FunctionTool(func), FunctionTool(func, strict=True)
        calls = ToolCall(name="x", arguments=plain), ToolCall(name="x", arguments=strict)
        ours = ratio_async(
            lambda two=two, calls=calls: two.invoke(calls[1]),
            lambda one=one, calls=calls: one.invoke(calls[0]),
            100,
        )
        row(f"strict call of {func.__name__} / plain call", ours, most, aim)
        made = ratio(
            lambda func=func: (
                timed(lambda: FunctionTool(func, strict=True).schema, 2),
                timed(lambda: FunctionTool(func).schema, 2),
            )
        )
        row(f"strict definition of {func.__name__} / plain definition", made, 2.0, 1.8)


def bench_thread() -> None:
    tool: Any = FunctionTool(add_sync)
    call = ToolCall(name="add_sync", arguments='{"a": 1, "b": 2}')
    row(
        "sync function in a thread / asyncio.to_thread",
        ratio_async(lambda: tool.invoke(call), lambda: asyncio.to_thread(add_sync, 1, 2), 30),
        1.15,
        0.9,
    )
    row(
        "bare in_thread / asyncio.to_thread",
        ratio_async(
            lambda: in_thread(add_sync, 1, 2), lambda: asyncio.to_thread(add_sync, 1, 2), 30
        ),
        1,
        0.9,
    )


def bench_definition() -> None:
    for func, arguments, _, _, _, most, _ in CASES:

        def bare(arguments: Any = arguments) -> object:
            return TypeAdapter(arguments).json_schema()

        def ours(func: Any = func) -> object:
            return FunctionTool(func).schema

        row(
            f"define {func.__name__}",
            ratio(lambda ours=ours, bare=bare: (timed(ours, 3), timed(bare, 3))),
            most,
            1.3,
        )


def bench_import() -> None:
    def seconds(code: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - start

    floor = "import asyncio, inspect, pydantic\nclass M(pydantic.BaseModel):\n    x: int"
    values = [seconds("import functool") / seconds(floor) for _ in range(9)]
    row("import functool", statistics.median(values), 1.4, 1.2)
    loaded = "import functool, sys; print([m for m in ('jsonschema',) if m in sys.modules])"
    print(
        "  loaded by the import:",
        subprocess.run(
            [sys.executable, "-c", loaded], check=True, capture_output=True, text=True
        ).stdout.strip(),
    )


def bench_memory() -> None:
    functions = []
    for number in range(1000):
        space: dict[str, Any] = {}
        exec(
            f"async def tool_{number}(query: str, limit: int = 10, deep: bool = False) -> str:\n    'Search a thing.'\n    return query",
            space,
        )
        functions.append(space[f"tool_{number}"])
    gc.collect()
    tracemalloc.start()
    before = _resident()
    tools = [FunctionTool(function) for function in functions]
    for tool in tools:
        assert tool.schema.name
    gc.collect()
    traced = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    row("1,000 tools, Python objects", traced / 1e6, 16, 9, "MB")
    print(f"  resident memory grew by {(_resident() - before) / 1e6:.1f} MB, tracing included")


def _resident() -> int:
    with contextlib.suppress(OSError), open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
    return 0


def main() -> None:
    print(heading())
    bench_road()
    bench_strict()
    bench_thread()
    bench_definition()
    bench_import()
    bench_memory()
