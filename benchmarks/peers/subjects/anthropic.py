"""The Anthropic SDK's tool helper, at the entry that its tool runner calls."""

import inspect
import json
from collections.abc import Awaitable, Callable
from typing import Any

from anthropic import beta_async_tool, beta_tool

PACKAGES = ("anthropic",)
IMPORT = "from anthropic import beta_async_tool"
ENTRY = "str(await tool.call(dict)); a sync body runs on the loop's own thread"
TAKES = "dict"


def define(func: Callable[..., Any]) -> Any:
    made: Any = (beta_async_tool if inspect.iscoroutinefunction(func) else beta_tool)(func)
    assert made.to_dict()
    return made


async def caller(tool: Any) -> Callable[[str], Awaitable[str]]:
    is_async = inspect.iscoroutinefunction(tool.call)

    async def call(text: str) -> str:
        arguments = json.loads(text)
        return str(await tool.call(arguments) if is_async else tool.call(arguments))

    return call
