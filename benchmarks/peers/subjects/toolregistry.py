"""toolregistry, at the entry of its registry."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from toolregistry import Tool, ToolMetadata, ToolRegistry
from toolregistry.llm.tool_calls import ErrorResult

PACKAGES = ("toolregistry",)
IMPORT = "from toolregistry import ToolRegistry"
ENTRY = "(await ToolRegistry.ainvoke(name, dict)).result"
TAKES = "dict"
_REGISTRY = ToolRegistry()


def define(func: Callable[..., Any]) -> tuple[ToolRegistry, str]:
    _REGISTRY.register(func, allow_replace=True)
    return _REGISTRY, func.__name__


async def caller(tool: tuple[ToolRegistry, str]) -> Callable[[str], Awaitable[str]]:
    registry, name = tool

    async def call(text: str) -> str:
        answer: Any = await registry.ainvoke(name, json.loads(text))
        return str(answer.message if isinstance(answer, ErrorResult) else answer.result)

    return call


def limited(func: Callable[..., Any], seconds: float) -> tuple[ToolRegistry, str]:
    tool = Tool.from_function(func, metadata=ToolMetadata(timeout=seconds))
    _REGISTRY.register(tool, allow_replace=True)
    return _REGISTRY, tool.name
