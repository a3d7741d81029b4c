"""Deferred loading: a model is told of some tools once it has searched, where the provider can do that."""

import importlib

import pytest

from functool import FunctionTool, Toolset
from functool.dialects import anthropic, openai

OTHERS = "bedrock cohere deepseek gemini groq mistral openai_chat xai mcp".split()


@FunctionTool
def near(x: int) -> int:
    """Always loaded."""
    return x


@FunctionTool
def far(x: int) -> int:
    """Loaded late."""
    return x


def test_anthropic_types():
    """What is written has the names and types of Anthropic's SDK."""
    types = pytest.importorskip("anthropic.types")
    search, first, second = anthropic.definitions([near, far], deferred=["far"])
    kinds = types.ToolSearchToolBm25_20251119Param.__annotations__

    assert search == {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
    assert search["type"] in str(kinds["type"]) and search["name"] in str(kinds["name"])
    assert "defer_loading" in types.ToolParam.__annotations__
    assert (first["name"], "defer_loading" in first) == ("near", False)
    assert (second["name"], second["defer_loading"]) == ("far", True)


def test_openai_types():
    """What is written has the names and types of OpenAI's SDK."""
    types = pytest.importorskip("openai.types.responses")
    search, first, second = openai.definitions([near, far], deferred=["far"])

    assert search == {"type": "tool_search"}
    assert "tool_search" in str(types.ToolSearchToolParam.__annotations__["type"])
    assert "defer_loading" in types.FunctionToolParam.__annotations__
    assert (first["name"], "defer_loading" in first) == ("near", False)
    assert (second["name"], second["defer_loading"]) == ("far", True)


@pytest.mark.parametrize("dialect", [anthropic, openai])
@pytest.mark.parametrize("deferred", [["far"], [far], Toolset([far]), (far,), {"far"}])
def test_deferred_tools_are_named_or_given(dialect, deferred):
    """A deferred tool is a name among the tools, or a tool, among them or not."""
    tools = [near, far] if "far" in deferred and not isinstance(deferred, Toolset) else [near]
    found = dialect.definitions(tools, deferred=deferred)

    assert [entry.get("name") for entry in found][1:] == ["near", "far"]
    assert "defer_loading" not in dialect.definition(far)
    assert len(dialect.definitions([near, far])) == 2
    assert dialect.definitions([near], deferred=[]) == [dialect.definition(near)]


@pytest.mark.parametrize("dialect", [anthropic, openai])
def test_an_unknown_name_is_refused(dialect):
    """A name that is not among the tools is an error, not something that is ignored."""
    with pytest.raises(ValueError, match="deferred names tools that are not there: fra"):
        dialect.definitions([near], deferred=["fra"])


def test_limits_count_what_is_loaded():
    """OpenAI's limit of tools is one of tools that are loaded; Anthropic's of deferred ones is its own."""
    many = [FunctionTool(near.func, name=f"t{n}") for n in range(200)]

    assert any("request: tools" in loss for loss in openai.losses(*many))
    assert not any("request: tools" in loss for loss in openai.losses(*many[:9], deferred=many[9:]))
    assert anthropic.losses(near, deferred=many) == []


@pytest.mark.parametrize("name", OTHERS)
def test_other_providers_lose_it(name):
    """Where there is no deferred loading the tools are sent whole, and the losses say so."""
    dialect = importlib.import_module(f"functool.dialects.{name}")
    whole = dialect.definitions([near, far])
    lost = "request: no deferred loading here, so 1 deferred tools are sent whole"

    assert dialect.definitions([near], deferred=[far]) == whole
    assert lost in dialect.losses(near, far, deferred=["far"])
    assert lost not in dialect.losses(near, far)
