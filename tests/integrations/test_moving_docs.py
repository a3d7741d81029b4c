"""The pairs of docs/moving.md: what the model is shown, and what the function does, is the same on both sides."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("agents", reason="needs tests/requirements/agents.txt")
pytest.importorskip("fastmcp", reason="needs tests/requirements/agents.txt")
pytest.importorskip("langgraph", reason="needs tests/requirements/agents.txt")
pytest.importorskip("pydantic_ai", reason="needs tests/requirements/agents.txt")

from functool import Context
from functool.integrations import langchain, openai_agents
from functool.integrations import pydantic_ai as bridge_pydantic_ai
from tests.support import call

TEXT = (Path(__file__).parents[2] / "docs" / "moving.md").read_text(encoding="utf-8")
SECTIONS = {
    title: re.findall(r"```python\n(.*?)```", body, re.DOTALL)
    for title, body in re.findall(
        r"^## From ([\w-]+)'s? .*?$(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL
    )
}


def pair(title: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run both blocks of a section; return their names."""
    spaces: list[dict[str, Any]] = []
    for code in SECTIONS[title]:
        space: dict[str, Any] = {"__name__": f"moving_{len(spaces)}"}
        exec(compile(code, "docs/moving.md", "exec", dont_inherit=True), space)
        spaces.append(space)
    old, new = spaces
    return old, new


def told(schema: dict[str, Any]) -> dict[str, Any]:
    """What a schema tells a model of each argument: its type and its description."""
    return {
        name: (p.get("type"), p.get("description", "").partition(" Default")[0])
        for name, p in schema["properties"].items()
    }


def both(old: Any, new: Any, arguments: dict[str, Any], deps: Any) -> list[str]:
    """Call two functool tools with the same arguments, approving what asks; return what a model reads."""
    context = Context(deps, approver=lambda request: True)
    return [call(tool, arguments, context).text for tool in (old, new)]


def test_every_section_has_its_pair() -> None:
    """Each of the four libraries has two blocks."""
    assert {title: len(blocks) for title, blocks in SECTIONS.items()} == {
        "openai-agents": 2,
        "pydantic-ai": 2,
        "LangChain": 2,
        "FastMCP": 2,
    }


def test_from_openai_agents() -> None:
    """The exported tool is declared as the native one was, and both do the same."""
    old, new = pair("openai-agents")
    native, tool = old["pay_somebody"], new["tool"]

    assert (tool.name, tool.description) == (native.name, native.description)
    assert tool.strict_json_schema == native.strict_json_schema
    for schema in (native.params_json_schema, tool.params_json_schema):
        assert told(schema)["amount"] == ("integer", "How much, in whole units.")
        assert schema["required"] == ["amount", "currency"]
    assert bool(tool.needs_approval) is bool(native.needs_approval) is True
    arguments = {"amount": 7, "currency": "EUR"}
    answers = both(openai_agents.adopt(native), new["pay_somebody"], arguments, {"user": "ada"})
    assert answers == ["ada paid 7 EUR"] * 2


@pytest.mark.parametrize(("name", "answer"), [("Ada", "7"), ("Bob", "Nobody is called Bob.")])
def test_from_pydantic_ai(name: str, answer: str) -> None:
    """The exported tool is declared as the native one was, and both do the same."""
    old, new = pair("pydantic-ai")
    native, tool = old["tool"].tool_def, new["tool"].tool_def

    assert (tool.name, tool.description) == (native.name, native.description)
    assert (tool.sequential, tool.kind) == (native.sequential, native.kind)
    for definition in (native, tool):
        assert told(definition.parameters_json_schema) == {"name": ("string", "Full name.")}
    adopted = bridge_pydantic_ai.adopt(old["tool"])
    assert both(adopted, new["find_user"], {"name": name}, {"Ada": 7}) == [answer] * 2


@pytest.mark.parametrize("divisor", [4, 0])
def test_from_langchain(divisor: int) -> None:
    """The exported tool is declared as the native one was, and both answer a call alike."""
    old, new = pair("LangChain")
    call = {"type": "tool_call", "name": "divide", "args": {"a": 6, "b": divisor}, "id": "c1"}
    native, tool = old["divide"].invoke(call), new["tool"].invoke(call)

    adopted = langchain.adopt(old["divide"])
    assert told(adopted.schema.parameters) == told(new["divide"].schema.parameters)
    assert new["tool"].description == old["divide"].description
    assert (tool.content, tool.status) == (native.content, native.status)
    assert new["divide"](6, 3) == 2


def test_from_fastmcp() -> None:
    """The tool is declared as on the server, and both answer a call alike."""
    from fastmcp import Client

    old, new = pair("FastMCP")
    tool, heard = new["search_products"], []

    async def served() -> tuple[Any, Any]:
        async with Client(old["mcp"]) as client:
            (listed,) = await client.list_tools()
            return listed, await client.call_tool("search", {"query": "tea", "limit": 2})

    listed, answer = asyncio.run(served())
    context = Context()
    context.subscribe(lambda event: heard.append((event.data["done"], event.data["total"])))
    result = call(tool, {"query": "tea", "limit": 2}, context)

    shown = getattr(listed, "input_schema", None) or listed.inputSchema
    assert (listed.name, listed.description) == (tool.name, tool.description)
    assert told(shown) == told(tool.schema.parameters)
    assert shown["required"] == tool.schema.parameters["required"] == ["query"]
    assert result.value == answer.data == ["tea 0", "tea 1"]
    assert heard == [(1, 2)]
