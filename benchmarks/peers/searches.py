"""Search tools with a peer's own search: reads tools and questions on stdin, and writes what was found.

Run by `python -m benchmarks catalog` in the peer's environment, as a file: functool is not there.
"""

import asyncio
import json
import sys
import time
from typing import Any


def fastmcp(tools: list[dict[str, Any]], limit: int) -> Any:
    """FastMCP's BM25 search, as its transform runs it for each call."""
    from fastmcp.server.transforms.search.bm25 import BM25SearchTransform
    from fastmcp.tools.base import Tool

    listed = [
        Tool(name=t["name"], description=t["description"], parameters=t["parameters"])
        for t in tools
    ]
    transform = BM25SearchTransform(max_results=limit)

    def search(query: str) -> list[str]:
        return [tool.name for tool in asyncio.run(transform._search(listed, query))]

    return search


def pydantic_ai(tools: list[dict[str, Any]], limit: int) -> Any:
    """pydantic-ai's default: the keywords of names and descriptions."""
    from pydantic_ai.tools import ToolDefinition
    from pydantic_ai.toolsets._tool_search import keywords_search_fn

    listed = [
        ToolDefinition(
            name=t["name"],
            description=t["description"],
            parameters_json_schema=t["parameters"],
            defer_loading=True,
        )
        for t in tools
    ]
    context: Any = None
    return lambda query: list(keywords_search_fn(context, [query], listed))[:limit]


def toolregistry(tools: list[dict[str, Any]], limit: int) -> Any:
    """toolregistry's discovery of deferred tools."""
    from toolregistry import Tool, ToolRegistry
    from toolregistry.llm.discovery import ToolDiscoveryTool

    registry = ToolRegistry()
    for t in tools:
        registry.register(
            Tool(
                name=t["name"],
                description=t["description"],
                parameters=t["parameters"],
                callable=print,
            )
        )
    discovery = ToolDiscoveryTool(registry)

    def search(query: str) -> list[str]:
        found = discovery.discover(query, top_k=limit)
        return [each["name"] for each in (found if isinstance(found, list) else found["tools"])]

    return search


def main() -> None:
    given = json.load(sys.stdin)
    begun = time.process_time()
    search = globals()[sys.argv[1]](given["tools"], given["limit"])
    search("warm up")
    built = time.process_time() - begun
    begun = time.process_time()
    found = [search(question) for question in given["questions"]]
    each = (time.process_time() - begun) / len(found)
    json.dump({"found": found, "built": built, "query": each}, sys.stdout)


if __name__ == "__main__":
    main()
