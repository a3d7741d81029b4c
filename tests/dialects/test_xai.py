"""The dialect of xAI's API."""

import json

import pytest

from functool import FunctionTool, SchemaTool, ToolCall
from functool.dialects import xai
from tests.dialects import samples
from tests.dialects.samples import answers, plant, scores, sdk, search, toolset

CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "search", "arguments": '{"query": "cats"}'},
}


def made_of(schema):
    """What a schema becomes, and its losses without the tool's name."""
    whole = {"type": "object", "properties": {"a": schema}, "additionalProperties": False}
    tool = SchemaTool("made", "", whole, dict)
    made = xai.definition(tool)["function"]["parameters"]["properties"]["a"]
    return made, [loss.removeprefix("made: #/properties/a: ") for loss in xai.losses(tool)]


@pytest.mark.parametrize(
    ("schema", "made", "losses"),
    [
        ({"type": "string", "pattern": "^a+$"}, {"type": "string", "pattern": "^a+$"}, []),
        (
            {"type": "string", "pattern": "abc"},
            {"type": "string", "pattern": "^.*(?:abc).*$"},
            ["pattern abc is written as ^.*(?:abc).*$: one matches the whole text here"],
        ),
        (
            {"type": "string", "pattern": "^ab"},
            {"type": "string", "pattern": "^(?:ab).*$"},
            ["pattern ^ab is written as ^(?:ab).*$: one matches the whole text here"],
        ),
        (
            {"type": "string", "pattern": "a|b"},
            {"type": "string", "pattern": "^.*(?:a|b).*$"},
            ["pattern a|b is written as ^.*(?:a|b).*$: one matches the whole text here"],
        ),
        (
            {"type": "string", "pattern": "^a|b$"},
            {"type": "string", "description": "pattern: ^a|b$"},
            ["pattern ^a|b$ is moved into the description"],
        ),
        (
            {"type": "string", "pattern": "\\bx"},
            {"type": "string", "description": "pattern: \\bx"},
            ["pattern \\bx is moved into the description"],
        ),
        (
            {"type": "string", "maxLength": 5000},
            {"type": "string", "description": "maxLength: 5000"},
            ["maxLength 5000 is moved into the description"],
        ),
        ({"type": "string", "format": "uri"}, {"type": "string", "format": "uri"}, []),
        ({"anyOf": []}, {"description": "anyOf: []"}, ["anyOf [] is moved into the description"]),
        ({"oneOf": []}, {"description": "oneOf: []"}, ["oneOf [] is moved into the description"]),
        (
            {"type": "string", "format": "binary"},
            {"type": "string", "description": "format: binary"},
            ['format "binary" is moved into the description'],
        ),
        ({"enum": ["a", 1, None]}, {"enum": ["a", 1, None]}, []),
        (
            {"type": "integer", "not": {"const": 3}},
            {"type": "integer", "description": 'not: {"const": 3}'},
            ['not {"const": 3} is moved into the description'],
        ),
        ({"allOf": [{"type": "integer"}]}, {"allOf": [{"type": "integer"}]}, []),
        (
            {"allOf": [{"type": "integer"}, {"minimum": 1}]},
            {"type": "integer", "minimum": 1},
            ["allOf is merged into the node"],
        ),
    ],
)
def test_what_this_api_takes_otherwise_is_said_so(schema, made, losses):
    """What is always enforced there goes out so that it means the same; what is not understood moves into the description."""
    assert made_of(schema) == (made, losses)


def test_every_object_says_whether_it_is_open():
    """An object that says nothing is closed there, and only {} could come: each says what it means."""
    schema = xai.definition(FunctionTool(scores))["function"]["parameters"]
    made, losses = made_of({"type": "object"})

    assert schema["properties"]["points"]["additionalProperties"] == {"type": "integer"}
    assert schema["additionalProperties"] is False
    assert made == {"type": "object", "additionalProperties": True}
    assert losses == ["additionalProperties true is added, which JSON Schema implies"]


def test_recursion_is_cut():
    """A type that holds itself is said once; inside it an object of the same shape is open."""
    tool = FunctionTool(plant)
    tree = xai.definition(tool)["function"]["parameters"]["$defs"]["Tree"]

    assert tree["properties"]["children"]["items"] == {
        "type": "object",
        "description": "the same shape as Tree",
        "additionalProperties": True,
    }
    assert any("Tree is cut" in loss for loss in xai.losses(tool))


def test_the_losses_are_those_of_a_whole_request():
    """More tools than a request takes are a loss."""
    tools = [FunctionTool(search, name=f"s{n}") for n in range(129)]

    assert "request: tools: 129, and the limit is 128" in xai.losses(*tools)
    assert not any(loss.startswith("request") for loss in xai.losses(*tools[1:]))


def test_calls_come_from_both_apis():
    """Chat completions and Responses give their calls; those of tools that run at xAI are left out."""
    item = {
        "type": "function_call",
        "call_id": "c1",
        "name": "search",
        "arguments": '{"query": "cats"}',
    }
    theirs = {**CALL, "type": "TOOL_CALL_TYPE_WEB_SEARCH_TOOL"}
    found = xai.calls({"choices": [{"message": {"tool_calls": [theirs, CALL]}}]})

    assert found == [ToolCall(name="search", arguments='{"query": "cats"}', id="c1")]
    assert xai.calls({"output": [{"type": "web_search_call"}, item]}) == found
    assert answers(found)[0].value == ["cats 0", "cats 1"]


def test_a_result_is_text():
    """A tool message holds text only: an image becomes a placeholder."""
    assert xai.result(samples.PLAIN) == {
        "role": "tool",
        "tool_call_id": "c1",
        "content": "two titles",
    }
    assert xai.result(samples.SHOWN)["content"] == "a cat\n[image/png: 8 bytes]\n"


def test_the_sdk_takes_every_definition():
    """The SDK's own `tool` takes the function of each definition as it is."""
    chat = sdk("xai_sdk.chat")

    for made in xai.definitions(toolset().values()):
        function, ours = chat.tool(**made["function"]).function, made["function"]
        assert (function.name, function.description) == (ours["name"], ours["description"])
        assert json.loads(function.parameters) == ours["parameters"]


def test_the_sdk_takes_every_result(given):
    """The SDK's own tool message is made of each result."""
    chat = sdk("xai_sdk.chat")
    made = xai.result(given)

    message = chat.tool_result(made["content"], tool_call_id=made["tool_call_id"])

    assert (message.content[0].text, message.tool_call_id) == (made["content"], "c1")


def test_calls_come_from_the_sdks_response():
    """The SDK's own response, also one put together from a stream's chunks, gives its calls."""
    chat = sdk("xai_sdk.chat")
    from google.protobuf.json_format import MessageToDict
    from xai_sdk.proto import chat_pb2

    role = chat_pb2.MessageRole.ROLE_ASSISTANT
    ours = chat_pb2.ToolCall(
        id="c1", type=1, function={"name": "search", "arguments": '{"query": "cats"}'}
    )
    theirs = chat_pb2.ToolCall(id="c2", type=2, function={"name": "web_search", "arguments": "{}"})
    message = chat_pb2.CompletionMessage(role=role, tool_calls=[ours, theirs])
    whole = chat_pb2.CompletionOutput(message=message)
    response = chat.Response(chat_pb2.GetChatCompletionResponse(outputs=[whole]), 0)
    streamed = chat.Response(chat_pb2.GetChatCompletionResponse(), 0)
    for call in (ours, theirs):
        delta = chat_pb2.Delta(role=role, tool_calls=[call])
        output = chat_pb2.CompletionOutputChunk(delta=delta)
        streamed.process_chunk(chat_pb2.GetChatCompletionChunk(outputs=[output]))
    found = xai.calls(response)

    assert found == [ToolCall(name="search", arguments='{"query": "cats"}', id="c1")]
    assert xai.calls(streamed) == found
    for names_kept in (True, False):
        told = MessageToDict(response.proto, preserving_proto_field_name=names_kept)
        assert xai.calls(told) == found
