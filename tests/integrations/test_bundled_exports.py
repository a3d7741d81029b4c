"""Every tool that ships goes through every bridge: what a model is told of it, and a real call.

The file runs in each suite that has a bridge's packages; the bridges of the other suites are skipped there by name.
"""

import asyncio
import json
import re
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from functool import Tool, Toolset
from functool.bundled.files import file_tools
from functool.bundled.search import SearchIndex, search_tool
from functool.bundled.shell import shell_tool
from tests.bundled.loopback import Loopback, serve

PAGE = Path(__file__).parents[2] / "docs" / "bundled.md"
ID = {"name": "id", "in": "path", "schema": {"type": "string"}}
DOCUMENT = {
    "openapi": "3.1.0",
    "paths": {"/tasks/{id}": {"get": {"operationId": "getTask", "parameters": [ID]}}},
}
FOUND = {
    "@odata.count": 1,
    "value": [{"id": "a", "title": "Lake", "content": "A warm lake.", "@search.score": 1.0}],
}

Read = tuple[dict[str, Any], str]
"""The schema of the arguments as the bridge's model is told it, and what it reads of the call."""

WITHOUT_PACKAGES: dict[str, tuple[dict[str, Any], str]] = {
    "read_file": ({"path": "a.txt"}, "a needle"),
    "write_file": ({"path": "b.txt", "content": "four"}, "Wrote 4 bytes to b.txt."),
    "edit_file": ({"path": "a.txt", "old": "needle", "new": "thread"}, "Edited a.txt."),
    "list_files": ({"pattern": "*.txt"}, "a.txt"),
    "search_files": ({"text": "needle"}, "a needle"),
    "shell": ({"command": "cat a.txt"}, "a needle"),
    "search": ({"query": "lake"}, "The lake is warm."),
}


def shipped(name: str, work: Any) -> Tool:
    """Make a tool that needs no package, over a directory with one file."""
    (work / "a.txt").write_text("a needle\n")
    index = SearchIndex()
    index.add("n1", "The lake is warm.")
    tools = file_tools([work]) | Toolset([shell_tool(work, sandbox="none"), search_tool(index)])
    return tools[name]


def fetching(server: Loopback) -> tuple[Tool, dict[str, Any], str]:
    """Make the fetch tool, and a call of it."""
    need("html_to_markdown")
    from functool.bundled.fetch import fetch_tool

    server.reply("/page", "<p>It <b>rains</b>.</p>", "text/html")
    return fetch_tool(allow=[server.host]), {"url": f"{server.url}/page"}, "It **rains**."


def operating(server: Loopback) -> tuple[Tool, dict[str, Any], str]:
    """Make a tool of an OpenAPI document, and a call of it."""
    need("httpx2")
    from functool.bundled.openapi import openapi_tools

    server.reply("/tasks/a%2Fb", '{"title": "call Ada"}', "application/json")
    return openapi_tools(DOCUMENT, base_url=server.url)["getTask"], {"id": "a/b"}, "call Ada"


def searching(server: Loopback) -> tuple[Tool, dict[str, Any], str]:
    """Make the tool of Azure AI Search, and a call of it."""
    need("azure.search.documents")
    from functool.bundled.azure_search import AzureAISearchTool

    server.reply("/indexes('docs')/docs/search.post.search", json.dumps(FOUND), "application/json")
    return AzureAISearchTool(server.url, "docs", key="k"), {"query": "lake"}, "A warm lake."


def need(package: str) -> None:
    """Skip a test whose package is not here."""
    pytest.importorskip(package, reason=f"{package} is installed for another suite")


def framework(name: str) -> Callable[[Tool, dict[str, Any]], Read]:
    """Return a call through an agent framework's own loop."""

    def run(tool: Tool, arguments: dict[str, Any]) -> Read:
        for package in ("agent_framework", "agents", "langgraph", "pydantic_ai"):
            need(package)
        from tests.integrations.bridges import BRIDGES as LOOPS

        (loop,) = [each for each in LOOPS if each.name == name]
        outcome = asyncio.run(loop.play([tool], [("c1", tool.name, arguments)], "done"))
        return outcome.declared[tool.name]["parameters"], outcome.of("c1").text

    return run


def amplifier(tool: Tool, arguments: dict[str, Any]) -> Read:
    """Call through Amplifier's tool protocol."""
    need("amplifier_core")
    from functool.integrations.amplifier import export

    exported = export(tool)
    result = asyncio.run(exported.execute(arguments))
    return exported.input_schema, result.get_serialized_output()


def unique(tool: Tool, arguments: dict[str, Any]) -> Read:
    """Call through a tool that Unique's own factory built."""
    need("unique_toolkit")
    from unique_toolkit.agentic.tools.factory import ToolFactory
    from unique_toolkit.language_model.schemas import LanguageModelFunction

    from functool.integrations.unique import export

    exported = export(tool)
    native = ToolFactory.build_tool(tool.name, ToolFactory.build_tool_config(tool.name))
    assert isinstance(native, exported)
    call = LanguageModelFunction(id="c1", name=tool.name, arguments=arguments)
    response = asyncio.run(native.run(call))
    return native.tool_description().parameters, response.content


def normandy(tool: Tool, arguments: dict[str, Any]) -> Read:
    """Call through Normandy's registry and executor."""
    from functool.integrations.normandy import Registry, execute

    registry = Registry([tool])
    (declared,) = registry.to_tool_schemas()
    return declared["input_schema"], str(asyncio.run(execute(registry, tool.name, arguments)).value)


def mcp(tool: Tool, arguments: dict[str, Any]) -> Read:
    """Call through a server of the Model Context Protocol, with the SDK's own client."""
    need("mcp_types")
    from functool.integrations.mcp import server
    from tests.integrations.mcp_ends import served, texts

    async def main(client: Any) -> Read:
        (declared,) = (await client.list_tools()).tools
        answer = await client.call_tool(tool.name, arguments)
        assert not answer.is_error
        return declared.input_schema, "\n".join(texts(answer))

    return served(server([tool]), main)


BRIDGES: dict[str, Callable[[Tool, dict[str, Any]], Read]] = {
    "amplifier": amplifier,
    "unique": unique,
    "normandy": normandy,
    "mcp": mcp,
    **{
        name: framework(name)
        for name in ("agent-framework", "langchain", "openai-agents", "pydantic-ai")
    },
}
every_bridge = pytest.mark.parametrize("bridge", BRIDGES)


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test has a registry of its own: Unique's is global."""
    if find_spec("unique_toolkit") is not None:
        monkeypatch.setattr("unique_toolkit.agentic.tools.factory.ToolFactory.tool_map", {})
        monkeypatch.setattr("unique_toolkit.agentic.tools.factory.ToolFactory.tool_config_map", {})


def check(bridge: str, tool: Tool, arguments: dict[str, Any], expected: str) -> None:
    declared, text = BRIDGES[bridge](tool, arguments)

    assert list(declared["properties"]) == list(tool.schema.parameters["properties"])
    assert expected in text


@every_bridge
@pytest.mark.parametrize("name", WITHOUT_PACKAGES)
def test_a_tool_without_packages_is_exported(bridge: str, name: str, tmp_path: Any) -> None:
    """The files, shell and search tools are declared with their arguments and answer through every bridge."""
    check(bridge, shipped(name, tmp_path), *WITHOUT_PACKAGES[name])


@every_bridge
@pytest.mark.parametrize("make", [fetching, operating, searching])
def test_a_tool_with_packages_is_exported(
    bridge: str, make: Callable[[Loopback], tuple[Tool, dict[str, Any], str]]
) -> None:
    """The fetch, OpenAPI and Azure tools are declared with their arguments and answer through every bridge, from a real server."""
    with serve() as server:
        check(bridge, *make(server))
        assert len(server.seen) == 1


def test_no_tool_is_left_out() -> None:
    """What docs/bundled.md lists goes through the bridges above; code mode has tests of its own."""
    made = {
        "file_tools",
        "shell_tool",
        "search_tool",
        "fetch_tool",
        "openapi_tools",
        "AzureAISearchTool",
        "code_mode",
    }

    named = re.findall(r"`functool\.bundled\.\w+\.(\w+)\(", PAGE.read_text(encoding="utf-8"))
    assert set(named) == made


NOT_A_TOOL = {
    "a function": (len, "export takes one tool, not builtin_function_or_method: decorate it"),
    "a list": ([], "export takes one tool, not list: export each of them"),
    "a toolset": (Toolset(), "export takes one tool, not Toolset: export each of them"),
}


@pytest.mark.parametrize("given", NOT_A_TOOL)
@pytest.mark.parametrize(
    ("bridge", "package"),
    [
        ("agent_framework", "agent_framework"),
        ("amplifier", "amplifier_core"),
        ("langchain", "langchain_core"),
        ("openai_agents", "agents"),
        ("pydantic_ai", "pydantic_ai"),
        ("unique", "unique_toolkit"),
    ],
)
def test_what_is_no_tool_is_refused(bridge: str, package: str, given: str) -> None:
    """`export` of a plain function, a list or a toolset is a TypeError that says what to do."""
    if find_spec(package) is None:
        pytest.skip(f"{package} belongs to another suite")
    value, words = NOT_A_TOOL[given]

    with pytest.raises(TypeError, match=words):
        import_module(f"functool.integrations.{bridge}").export(value)
