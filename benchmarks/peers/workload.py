"""The functions that every subject makes tools of, the calls they get, and the floor under each.

The floor is what no tool layer can do without: one compiled pydantic validator over the JSON text, one await of the body, one `to_json`.
This file imports no tool library.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, NotRequired

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic_core import to_json
from typing_extensions import TypedDict

PARALLEL = 1_000
MEGABYTE = "x" * 1_000_000


class Item(BaseModel):
    sku: str
    name: str
    quantity: int
    price: float


class Order(BaseModel):
    id: int
    customer: str
    items: list[Item]


async def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return a + b


def add_sync(a: int, b: int) -> int:
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


async def place(order: Order) -> str:
    """Place an order.

    Args:
        order: The order.
    """
    # Some peers hand over a dict where an Order is annotated. They are timed, too; the marks say so.
    return order.customer if isinstance(order, Order) else order["customer"]


async def measure(text: str) -> int:
    """Count the characters of a text.

    Args:
        text: The text.
    """
    return len(text)


async def download(page: int) -> str:
    """Return a page of one megabyte.

    Args:
        page: Which page.
    """
    return MEGABYTE


class _Closed(TypedDict):
    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]


class Adding(_Closed):
    a: int
    b: int


class Searching(_Closed):
    query: str
    limit: NotRequired[int]
    tags: NotRequired[list[str] | None]
    mode: NotRequired[Literal["fast", "deep"]]


class Placing(_Closed):
    order: Order


class Measuring(_Closed):
    text: str


class Downloading(_Closed):
    page: int


@dataclass(frozen=True)
class Work:
    """One kind of call.

    Attributes:
        title: What a reader of the table sees.
        func: The body.
        arguments: The TypedDict whose validator is the floor.
        text: The arguments as a model writes them.
        answer: What the text for the model has to hold, so that no wrong answer is timed.
        parallel: How many calls are made at once.
        kind: "call", "sync" (the floor runs the body in a thread), "refused" or "guarded".
    """

    title: str
    func: Callable[..., Any]
    arguments: Any
    text: str
    answer: str
    parallel: int = 1
    kind: str = "call"


ORDER = {
    "id": 7,
    "customer": "Ada",
    "items": [
        {"sku": f"S-{i}", "name": f"Part number {i}", "quantity": i % 9, "price": i * 1.25}
        for i in range(50)
    ],
}
_ADD = '{"a": 1, "b": 2}'
_SEARCH = '{"query": "cats", "limit": 5, "tags": ["a", "b"]}'

WORKS = {
    "add": Work("2 scalars", add, Adding, _ADD, "3"),
    "search": Work("4 mixed", search, Searching, _SEARCH, "cats"),
    "place": Work("model of 50 items", place, Placing, json.dumps({"order": ORDER}), "Ada"),
    "argument": Work(
        "1 MB argument", measure, Measuring, json.dumps({"text": MEGABYTE}), "1000000"
    ),
    "result": Work("1 MB result", download, Downloading, '{"page": 1}', "xxx"),
    "sync": Work("sync body", add_sync, Adding, _ADD, "3", kind="sync"),
    "refused": Work("refused call", add, Adding, '{"a": 1, "b": "many"}', "", kind="refused"),
    "guarded": Work("a guardrail a side", add, Adding, _ADD, "3", kind="guarded"),
    "parallel": Work("1,000 at once", add, Adding, _ADD, "3", parallel=PARALLEL),
}


def floor_of(work: Work) -> Callable[[str], Awaitable[object]]:
    """Return the least that answers such a call."""
    validate: Any = TypeAdapter(work.arguments).validator.validate_json
    func = work.func

    async def call(text: str) -> object:
        return to_json(await func(**validate(text)))

    async def in_thread(text: str) -> object:
        return to_json(await asyncio.to_thread(func, **validate(text)))

    async def refuse(text: str) -> object:
        try:
            return to_json(await func(**validate(text)))
        except ValidationError as error:
            return str(error)

    return {"sync": in_thread, "refused": refuse}.get(work.kind, call)


_TOOL = '''
async def tool_{n}(
    query_{n}: str, limit: int = {n}, tags: list[str] | None = None,
    mode: Literal["fast", "deep_{n}"] = "fast",
) -> str:
    """Search the documents of shelf {n}.

    Args:
        query_{n}: What to look for.
        limit: How many to return.
        tags: Only documents with these tags.
        mode: How to search.
    """
    return query_{n}

class Tool{n}(TypedDict):
    query_{n}: str
    limit: NotRequired[int]
    tags: NotRequired[list[str] | None]
    mode: NotRequired[Literal["fast", "deep_{n}"]]
'''


def fresh_functions(first: int, count: int) -> tuple[list[Callable[..., Any]], list[Any]]:
    """Return functions, and TypedDicts of their arguments, that nobody has seen, so that no cache of annotations helps.

    Args:
        first: The number of the first one. A number that was used before makes the same function again.
        count: How many.
    """
    space: dict[str, Any] = {
        "Literal": Literal,
        "NotRequired": NotRequired,
        "TypedDict": TypedDict,
        "__name__": __name__,
    }
    numbers = range(first, first + count)
    for n in numbers:
        exec(_TOOL.format(n=n), space)
    return [space[f"tool_{n}"] for n in numbers], [space[f"Tool{n}"] for n in numbers]
