"""The dialect of OpenAI's Responses API."""

import json

import pytest

from functool import FileContent, FunctionTool, SchemaTool, ToolCall, ToolResult
from functool.dialects import openai
from tests.dialects import samples
from tests.dialects.samples import answers, scores, sdk, search, toolset

ITEM = {
    "type": "function_call",
    "call_id": "c1",
    "id": "fc_1",
    "name": "search",
    "arguments": '{"query": "cats"}',
}


def test_a_plain_tool_says_that_it_is_not_strict():
    """A tool that is not strict goes out in its plain form, its optional arguments left optional, and says strict false."""
    made = openai.definition(FunctionTool(search))

    assert made["strict"] is False
    assert made["parameters"]["required"] == ["query"]
    assert made["parameters"]["properties"]["limit"]["default"] == 10
    assert (made["type"], made["name"]) == ("function", "search")
    assert made["description"] == "Search the library."


def test_a_strict_tool_goes_out_in_its_strict_form():
    """A strict tool is published as its own strict schema, and the losses name what had to be rewritten for it."""
    tool = FunctionTool(scores, strict=True)
    made = openai.definition(tool)

    assert made["strict"] is True
    assert made["parameters"] == tool.schema.parameters
    assert made["parameters"]["required"] == ["points", "start"]
    assert any("points" in loss and "rewritten" in loss for loss in openai.losses(tool))


def test_an_array_gets_its_items_and_the_root_no_union():
    """Without strict every array has items, and a union at the root moves into the description."""
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "array"},
            "t": {"type": "array", "prefixItems": [{"type": "integer"}]},
        },
        "oneOf": [
            {"required": ["a"]},
            {"properties": {"b": {"type": "string"}}, "required": ["b"]},
        ],
    }
    tool = SchemaTool("made", "", schema, dict)
    made = openai.definition(tool)["parameters"]

    assert made["properties"]["a"] == {"type": "array", "items": {}}
    assert made["properties"]["t"]["items"] == {"type": "integer"}
    assert made["properties"]["b"] == {"type": "string"}
    assert "oneOf" not in made
    assert made["description"].startswith("oneOf: [")
    assert openai.losses(tool)[1:] == [
        "made: #/properties/a: items is added: an array needs it here",
        "made: #/properties/t: items is added beside prefixItems: an array needs it here",
    ]


def test_the_losses_name_a_wrong_name_with_its_remedy():
    """A dialect keeps a name that the provider refuses, and says how to give another one."""
    tool = SchemaTool("math.sum", "", {"type": "object", "properties": {}}, dict)

    assert openai.definition(tool)["name"] == "math.sum"
    assert openai.losses(tool) == [
        "math.sum: name 'math.sum' does not fit [a-zA-Z0-9_-]{1,64}: WrapperTool(tool, name='math_sum') renames the tool"
    ]


def of(**properties):
    return {"type": "object", "properties": properties}


def deep(levels):
    node = {"type": "string"}
    for _ in range(levels):
        node = {**of(a=node), "required": ["a"], "additionalProperties": False}
    return node


@pytest.mark.parametrize(
    ("schema", "limit"),
    [
        (deep(11), "made: #: levels of nesting: 11, and the limit is 10"),
        (
            of(**{f"p{n}": {"type": "null"} for n in range(5_001)}),
            "made: #: properties: 5,001, and the limit is 5,000",
        ),
        (
            of(**{"x" * 120_001: {"type": "integer"}}),
            "made: #: characters of names, enum and const values: 120,001, and the limit is 120,000",
        ),
        (
            of(a={"enum": [f"{n}" for n in range(1_001)], "type": "string"}),
            "made: #: enum values: 1,001, and the limit is 1,000",
        ),
        (
            of(a={"enum": [f"{n:0100}" for n in range(251)], "type": "string"}),
            "made: #: characters of an enum of more than 250 values: 25,100, and the limit is 15,000",
        ),
    ],
    ids=["depth", "properties", "characters", "enum", "long-enum"],
)
def test_the_losses_name_each_limit_that_is_broken(schema, limit):
    """Each of the limits of a strict schema is named, with the count and the limit."""
    schema = {**schema, "required": list(schema["properties"]), "additionalProperties": False}

    assert limit in openai.losses(SchemaTool("made", "", schema, dict, strict=True))
    assert limit not in openai.losses(SchemaTool("made", "", schema, dict))


def test_a_schema_within_the_limits_loses_nothing():
    """What is exactly at a limit is no loss."""
    assert openai.losses(SchemaTool("made", "", deep(10), dict, strict=True)) == []


def test_the_losses_are_those_of_a_whole_request():
    """Two tools of one name, and more tools than a request takes, are losses of the request."""
    tools = [FunctionTool(search, name=f"s{n}") for n in range(128)]

    assert openai.losses(*tools) == []
    assert openai.losses(*tools, tools[0]) == [
        "request: 2 tools are named 's0'",
        "request: tools: 129, and the limit is 128",
    ]


def test_calls_come_from_a_dict_or_its_items():
    """Each function call of a response becomes a call, in order, its arguments as they came; other items are passed over."""
    other = {"type": "message", "role": "assistant", "content": []}
    empty = {**ITEM, "call_id": "c2", "name": "ping", "arguments": ""}

    found = openai.calls({"output": [other, ITEM, empty]})

    assert found == [
        ToolCall(name="search", arguments='{"query": "cats"}', id="c1"),
        ToolCall(name="ping", arguments="", id="c2"),
    ]
    assert openai.calls([ITEM, empty]) == found
    assert openai.calls({"output": []}) == []
    assert [result.text for result in answers(found)] == ['["cats 0","cats 1"]', "pong"]


def test_results_hold_text_images_and_files():
    """Text alone is one string; an image goes along as an image, a file as a file, and a sound as a placeholder."""
    image = {
        "type": "input_image",
        "image_url": f"data:image/png;base64,{samples.PNG_TEXT}",
        "detail": "auto",
    }
    linked = {"type": "input_image", "image_url": "https://example.com/cat.png", "detail": "auto"}
    file = {
        "type": "input_file",
        "file_data": "data:application/pdf;base64,JVBERg==",
        "filename": "notes (1).pdf",
    }

    assert openai.result(samples.PLAIN) == {
        "type": "function_call_output",
        "call_id": "c1",
        "output": "two titles",
    }
    assert openai.result(samples.SHOWN)["output"] == [
        {"type": "input_text", "text": "a cat"},
        image,
    ]
    assert openai.result(samples.LINKED)["output"] == [linked]
    assert openai.result(samples.PDF)["output"] == [file]
    assert openai.result(samples.SOUND)["output"] == "[audio/wav: 4 bytes]"
    assert openai.result(samples.FAILED)["output"] == [
        {"type": "input_text", "text": "no such title"},
        image,
    ]


def test_a_file_goes_out_with_a_name_or_by_its_place():
    """A file without a name gets one that fits its type; one that is somewhere else is named by its URL."""
    unnamed = ToolResult(output=[FileContent(data=b"a,b", media_type="text/csv")])
    placed = ToolResult(
        output=[FileContent(uri="https://example.com/a.pdf", media_type="application/pdf")]
    )

    assert openai.result(unnamed)["output"][0]["filename"] == "file.csv"
    assert openai.result(placed)["output"] == [
        {"type": "input_file", "file_url": "https://example.com/a.pdf"}
    ]


@pytest.mark.parametrize(
    ("kind", "is_read"),
    [
        ("text/x-anything", True),
        ("Text/Plain; charset=utf-8", True),
        ("application/json", True),
        ("message/rfc822", True),
        ("application/octet-stream", False),
        ("application/zip", False),
        ("image/png", False),
        ("message/partial", False),
        ("json", False),
    ],
)
def test_a_file_that_the_api_does_not_read_is_named(kind, is_read):
    """The API refuses a request with a file of another type, and so every later one of the conversation."""
    file = FileContent(data=b"x", media_type=kind)
    output = openai.result(ToolResult(output=[file]))["output"]

    assert (output == f"[{kind}: 1 bytes]") is not is_read


def test_the_sdk_takes_every_definition(strict):
    """Each definition is one of the SDK's own function tools, and nothing of it is unknown there."""
    types = sdk("openai.types.responses")

    for made in openai.definitions(toolset(strict).values()):
        tool = types.FunctionTool.model_validate(made)
        assert tool.model_dump(exclude_unset=True) == made
        assert made.keys() <= types.FunctionToolParam.__annotations__.keys()


def test_the_sdk_takes_every_result(given):
    """Each result is one of the SDK's own input items, and nothing of it is unknown there."""
    types = sdk("openai.types.responses")
    from openai.types.responses.response_input_item import FunctionCallOutput

    made = openai.result(given)

    assert FunctionCallOutput.model_validate(made).model_dump(exclude_unset=True) == made
    for part in made["output"] if isinstance(made["output"], list) else []:
        kind = {"input_text": "Text", "input_image": "Image", "input_file": "File"}[part["type"]]
        theirs = getattr(types, f"ResponseInput{kind}ContentParam")
        assert part.keys() <= theirs.__annotations__.keys()


def test_calls_come_from_the_sdks_response():
    """The SDK's own response, with reasoning and text between its calls, gives its calls."""
    types = sdk("openai.types.responses")
    response = types.Response.model_validate(
        {
            "id": "resp_1",
            "created_at": 0,
            "model": "m",
            "object": "response",
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "output": [
                {"type": "reasoning", "id": "rs_1", "summary": []},
                ITEM,
                {**ITEM, "call_id": "c2", "arguments": '{"query": "dogs", "limit": 1}'},
            ],
        }
    )
    found = openai.calls(response)

    assert found == openai.calls(response.model_dump())
    assert [(call.id, json.loads(call.arguments)) for call in found] == [
        ("c1", {"query": "cats"}),
        ("c2", {"query": "dogs", "limit": 1}),
    ]
    assert [result.value for result in answers(found)] == [["cats 0", "cats 1"], ["dogs 0"]]
