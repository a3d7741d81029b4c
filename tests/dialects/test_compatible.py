"""The dialects of servers that speak OpenAI's Chat Completions."""

import asyncio
import inspect
import json
from typing import Annotated

import pytest
from pydantic import Field

from functool import FunctionTool, ToolCall
from functool.dialects import Lost, cohere, deepseek, groq, openai_chat
from tests.dialects.samples import Filters, Tree, ping, scores, sdk, search, toolset

DIALECTS = [cohere, deepseek, groq]
ids = {"ids": lambda dialect: dialect.__name__.rpartition(".")[2]}


def schema_of(dialect, tool):
    return dialect.definition(tool)["function"]["parameters"]


@pytest.mark.parametrize("dialect", DIALECTS, **ids)
def test_references_in_unions_are_written_out(dialect, strict):
    """No member of an anyOf is a reference; the losses say what was written out."""
    tool = FunctionTool(search, strict=strict)
    made = schema_of(dialect, tool)
    member = made["properties"]["filters"]["anyOf"][0]

    assert "$ref" not in json.dumps(made)
    assert list(member["properties"]) == ["kind", "tags", "price"]
    assert any("$ref #/$defs/Filters is replaced" in loss for loss in dialect.losses(tool))
    assert [loss for loss in dialect.losses(tool) if isinstance(loss, Lost)] == []


@pytest.mark.parametrize("dialect", DIALECTS, **ids)
def test_a_type_that_holds_itself_stays_a_reference(dialect):
    """What cannot be written out stays a reference, and is lost."""

    def plant(tree: Tree | None) -> None:
        """Plant."""

    tool = FunctionTool(plant)
    lost = [loss for loss in dialect.losses(tool) if isinstance(loss, Lost)]

    assert {"$ref": "#/$defs/Tree"} in schema_of(dialect, tool)["properties"]["tree"]["anyOf"]
    assert lost == ["plant: #/properties/tree/anyOf/0: $ref Tree stays in a union: it is recursive"]


@pytest.mark.parametrize("dialect", DIALECTS, **ids)
def test_what_a_server_lacks_moves_into_words(dialect):
    """A bound that a server does not take stands in the description, and in the losses."""

    def go(
        n: Annotated[int, Field(ge=3)], names: Annotated[list[str], Field(max_length=2)]
    ) -> None:
        """Go."""

    tool = FunctionTool(go, strict=True)
    made, losses = schema_of(dialect, tool)["properties"], "\n".join(dialect.losses(tool))

    if dialect is groq:
        assert made["n"] == {"type": "integer", "minimum": 3} and made["names"]["maxItems"] == 2
    else:
        assert made["n"] == {"type": "integer", "description": "minimum: 3"}
        assert made["names"]["description"] == "maxItems: 2"
        assert "minimum 3 is moved into the description" in losses


@pytest.mark.parametrize("dialect", DIALECTS, **ids)
def test_a_call_in_the_published_form_is_taken(dialect):
    """A strict tool takes what its rendering asks for."""
    tool = FunctionTool(scores, strict=True)
    made = schema_of(dialect, tool)
    assert made["properties"]["points"]["items"]["required"] == ["key", "value"]

    call = {"points": [{"key": "a", "value": 2}], "start": None}
    message = {
        "tool_calls": [
            {
                "id": "c",
                "type": "function",
                "function": {"name": "scores", "arguments": json.dumps(call)},
            }
        ]
    }
    [found] = dialect.calls(message)

    assert found == ToolCall(name="scores", arguments=json.dumps(call), id="c")
    assert asyncio.run(tool(found)).text == "2a"
    assert dialect.result(asyncio.run(tool(found)))["content"] == "2a"


def test_only_cohere_says_strict_for_the_whole_request():
    """DeepSeek and Groq are told for each function whether it is strict."""
    tool = FunctionTool(ping, strict=True)

    assert deepseek.definition(tool)["function"]["strict"] is True
    assert groq.definition(FunctionTool(ping))["function"]["strict"] is False
    assert "strict" not in cohere.definition(tool)["function"]


def test_cohere_has_limits_for_a_whole_request():
    """Two hundred properties in all, and a required one in each tool."""
    word = inspect.Parameter.KEYWORD_ONLY

    def wide(**numbers: int) -> None:
        """Take many."""

    wide.__signature__ = inspect.Signature(
        [inspect.Parameter(f"p{n}", word, annotation=int) for n in range(100)]
    )
    tools = [FunctionTool(wide, name=name) for name in ("a", "b", "c")]

    assert cohere.losses(*tools[:2]) == []
    assert cohere.losses(*tools) == ["request: properties of all tools: 300, and the limit is 200"]
    assert groq.losses(*tools) == [] and deepseek.losses(*tools) == []
    [lost] = cohere.losses(FunctionTool(ping))
    assert lost == "ping: #: no argument is required, and the provider wants one at least"
    assert isinstance(lost, Lost)


@pytest.mark.parametrize("dialect", DIALECTS, **ids)
def test_the_sdk_takes_the_definitions(dialect):
    """OpenAI's SDK, which these servers are called with, takes every definition."""
    types = sdk("openai.types.chat")
    for made in dialect.definitions(toolset(True).values()):
        types.ChatCompletionFunctionToolParam(**made)
        assert made.keys() == openai_chat.definition(FunctionTool(ping)).keys()


def test_filters_are_the_same_by_hand():
    """What is written out is the definition itself, as the strict form has it."""
    tool = FunctionTool(search, strict=True)

    assert schema_of(groq, tool)["properties"]["filters"]["anyOf"][0] == {
        key: value
        for key, value in tool.schema.parameters["$defs"]["Filters"].items()
        if key != "examples"
    }
    assert Filters.__doc__ == tool.schema.parameters["$defs"]["Filters"]["description"]
