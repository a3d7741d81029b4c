"""The dialect of the Model Context Protocol."""

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field

from functool import (
    FileContent,
    FunctionTool,
    ImageContent,
    SchemaTool,
    ToolCall,
    ToolResult,
    ToolSettings,
    WrapperTool,
)
from functool.dialects import mcp
from tests.dialects import samples
from tests.dialects.samples import answers, ping, plant, sdk, search, toolset

OLD = "2025-11-25"


def test_a_tool_goes_out_as_it_is():
    """The plain schema goes out as it is, also of a strict tool, with the schema of the answer."""
    tool = FunctionTool(plant, strict=True)

    assert mcp.definition(tool) == {
        "name": "plant",
        "description": "Plant a tree.",
        "inputSchema": tool.schema.plain,
        "outputSchema": {"type": "integer"},
    }
    assert mcp.losses(tool) == []


def test_settings_become_hints():
    """What the author says of a tool becomes its annotations; what he leaves out is left out."""
    settings = ToolSettings(display_name="Search!", read_only=True, idempotent=False)
    tool = FunctionTool(search, settings=settings)

    assert mcp.definition(tool)["title"] == "Search!"
    assert mcp.definition(tool)["annotations"] == {"readOnlyHint": True, "idempotentHint": False}
    assert mcp.definition(FunctionTool(search)).keys() == {
        "name",
        "description",
        "inputSchema",
        "outputSchema",
    }


def test_older_clients_get_an_object():
    """Before 2026-07-28 an answer that is no object is wrapped, in the schema and in the value, and the losses say so."""
    tool = FunctionTool(search)
    result = ToolResult.of(["a"])

    assert mcp.definition(tool, OLD)["outputSchema"]["properties"] == {"result": tool.schema.output}
    assert mcp.losses(tool, protocol=OLD) == [
        "search: the output schema is wrapped as {result}: this revision takes an object only"
    ]
    assert mcp.result(result)["structuredContent"] == ["a"]
    assert mcp.result(result, tool=tool, protocol=OLD)["structuredContent"] == {"result": ["a"]}
    assert mcp.result(result, protocol=OLD)["structuredContent"] == {"result": ["a"]}
    assert mcp.result(ToolResult.of({"a": 1}), protocol=OLD)["structuredContent"] == {"a": 1}


def test_an_object_that_may_be_another_thing_is_wrapped_as_its_schema_is():
    """For older clients a dict of a union is wrapped too, as the definition says."""

    def either(flag: bool) -> dict[str, int] | str:
        """Either."""
        return {"a": 1} if flag else "b"

    tool = FunctionTool(either)

    older = mcp.result(ToolResult.of({"a": 1}), tool=tool, protocol=OLD)
    assert older["structuredContent"] == {"result": {"a": 1}}
    assert mcp.result(ToolResult.of({"a": 1}), tool=tool)["structuredContent"] == {"a": 1}


def test_the_losses_name_what_clients_do_not_take():
    """A wrong name, a reference that no client follows, and for older clients a union at the root are named."""
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "https://example.com/a.json"}},
        "anyOf": [{"required": ["a"]}, {}],
    }
    tool = SchemaTool("math sum", "", schema, dict)

    assert mcp.losses(tool) == [
        "math sum: name 'math sum' does not fit [A-Za-z0-9_.-]{1,128}: WrapperTool(tool, name='math_sum') renames the tool",
        "math sum: #/properties/a: $ref https://example.com/a.json is none that a client follows",
    ]
    said = "math sum: #: anyOf stands at the root: this revision does not say that it may"
    assert said in mcp.losses(tool, protocol=OLD)


def test_calls_come_from_a_request_or_its_params():
    """A JSON-RPC request gives its call under its own id, its params give it without."""
    params = {"name": "search", "arguments": {"query": "cats", "limit": 1}}
    request = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}

    assert mcp.calls(request) == [
        ToolCall(name="search", arguments={"query": "cats", "limit": 1}, id="7")
    ]
    assert mcp.calls(params) == [ToolCall(name="search", arguments={"query": "cats", "limit": 1})]
    assert mcp.calls({"name": "ping"}) == [ToolCall(name="ping", arguments={})]
    assert answers(mcp.calls(request))[0].value == ["cats 0"]


def test_results_hold_every_kind_of_content():
    """Text, images and sounds are blocks; files are embedded, and what lies elsewhere is linked."""
    image = {"type": "image", "data": samples.PNG_TEXT, "mimeType": "image/png"}

    assert mcp.result(samples.PLAIN) == {
        "content": [{"type": "text", "text": "two titles"}],
        "isError": False,
    }
    assert mcp.result(samples.SHOWN)["content"] == [{"type": "text", "text": "a cat"}, image]
    assert mcp.result(samples.LINKED)["content"] == [
        {
            "type": "resource_link",
            "uri": "https://example.com/cat.png",
            "name": "cat.png",
            "mimeType": "image/png",
        }
    ]
    assert mcp.result(samples.PDF)["content"] == [
        {
            "type": "resource",
            "resource": {
                "uri": "attachment:notes%20%281%29.pdf",
                "mimeType": "application/pdf",
                "blob": "JVBERg==",
            },
        }
    ]
    assert mcp.result(samples.SOUND)["content"] == [
        {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}
    ]
    assert mcp.result(samples.EMPTY)["content"] == []
    assert mcp.result(samples.FAILED) == {
        "content": [{"type": "text", "text": "no such title"}, image],
        "isError": True,
    }


def test_the_value_goes_along_where_json_can_say_it():
    """The value is structured content; a failure, an image or what JSON cannot say has none."""
    assert mcp.result(ToolResult.of(3))["structuredContent"] == 3
    assert mcp.result(ToolResult.of("hi"))["structuredContent"] == "hi"
    assert "structuredContent" not in mcp.result(ToolResult.of(None))
    assert "structuredContent" not in mcp.result(ToolResult.of(ImageContent(data=b"x")))
    assert "structuredContent" not in mcp.result(ToolResult.of(iter([1])))
    assert "structuredContent" not in mcp.result(samples.FAILED)


def test_a_tool_that_promises_a_value_or_null_answers_null():
    """Without a value, a tool with an output schema says null, as its definition promises; a failure says nothing."""

    @FunctionTool
    def find(title: str) -> int | None:
        """Find a title."""

    found = ToolResult.of(None)

    for protocol, said in ((mcp.LATEST, None), (OLD, {"result": None})):
        answer = mcp.result(found, tool=find, protocol=protocol)
        assert answer == {"content": [], "isError": False, "structuredContent": said}
        Draft202012Validator(mcp.definition(find, protocol)["outputSchema"]).validate(said)
    assert "structuredContent" not in mcp.result(ToolResult.failed("no"), tool=find)


def taken(model, made):
    """What the SDK makes of something, as it would send it."""
    return model.model_validate(made).model_dump(by_alias=True, exclude_unset=True, mode="json")


@pytest.mark.parametrize("protocol", [OLD, mcp.LATEST])
def test_what_shows_another_text_promises_no_value(protocol):
    """A client that checks the promise would refuse the answer: it has no structured content."""

    def short(result, context):
        return result.shown_as("short") if result.value > 1 else None

    short.shows = True
    tool = FunctionTool(plant)
    assert "outputSchema" in mcp.definition(tool, protocol)
    tool.add_output_guardrails([short])

    for shown in (
        tool,
        WrapperTool(tool),
        WrapperTool(FunctionTool(plant), output_guardrails=[short]),
    ):
        assert "outputSchema" not in mcp.definition(shown, protocol)
        assert mcp.losses(shown, protocol=protocol) == []
        answer = mcp.result(ToolResult.of(5).shown_as("short"), tool=shown, protocol=protocol)
        assert answer == {"content": [{"type": "text", "text": "short"}], "isError": False}


def test_the_sdk_takes_every_definition():
    """Each definition is one of the SDK's own tools, in the newest revision of the protocol and the one before."""
    types = sdk("mcp.types")

    for tool in toolset().values():
        for protocol in (mcp.LATEST, OLD):
            made = mcp.definition(tool, protocol)
            assert taken(types.Tool, made) == made


def test_the_sdk_takes_every_result(given):
    """Each result is the SDK's own."""
    types = sdk("mcp.types")
    made = mcp.result(given)

    assert taken(types.CallToolResult, made) == made


def test_calls_come_from_the_sdks_request():
    """The SDK's own request, its params and its JSON-RPC message give their call."""
    types = sdk("mcp.types")
    params = types.CallToolRequestParams(name="ping", arguments=None)
    request = types.CallToolRequest(params=params)

    assert mcp.calls(request) == mcp.calls(params) == [ToolCall(name="ping", arguments={})]
    rpc = types.JSONRPCRequest(jsonrpc="2.0", id=3, method="tools/call", params={"name": "ping"})
    assert mcp.calls(rpc) == [ToolCall(name="ping", arguments={}, id="3")]


def test_a_linked_file_keeps_its_name():
    """A file that lies elsewhere is linked under its own name."""
    there = FileContent(uri="https://example.com/x", name="a.pdf", media_type="application/pdf")

    assert mcp.result(ToolResult(output=[there]))["content"][0]["name"] == "a.pdf"
    assert mcp.definition(FunctionTool(ping))["outputSchema"] == {"type": "string"}


@pytest.mark.parametrize(
    ("media_type", "data", "held"),
    [
        ("text/plain", "ü".encode(), {"text": "ü"}),
        ("text/html; charset=UTF-8", b"<p>", {"text": "<p>"}),
        ("application/json", b"{}", {"text": "{}"}),
        ("text/plain", b"\xff", {"blob": "/w=="}),
        ("text/plain; charset=utf-16", "a".encode("utf-16-le"), {"blob": "YQA="}),
        ("application/pdf", b"%PDF", {"blob": "JVBERg=="}),
    ],
)
def test_files_of_text_are_text(media_type, data, held):
    """A file that holds text is embedded as text, which a model can read, and any other as base64."""
    file = FileContent(data=data, media_type=media_type, name="a")
    [block] = mcp.result(ToolResult.of(file))["content"]

    assert block == {
        "type": "resource",
        "resource": {"uri": "attachment:a", "mimeType": media_type, **held},
    }
    assert sdk("mcp_types").EmbeddedResource.model_validate(block).resource.uri == "attachment:a"


def test_the_value_has_the_names_of_its_schema():
    """Structured content is under aliases, as the output schema is."""

    class City(BaseModel):
        name: str = Field(alias="theName")

    def city() -> City:
        return City(theName="Rome")

    tool = FunctionTool(city)

    assert list(mcp.definition(tool)["outputSchema"]["properties"]) == ["theName"]
    assert mcp.result(ToolResult.of(city()))["structuredContent"] == {"theName": "Rome"}


def test_a_model_that_writes_no_json_gives_no_structured_content():
    """A model configured to write NaN as JavaScript does has no structured content: no client could read it."""

    class Reading(BaseModel):
        model_config = {"ser_json_inf_nan": "constants"}
        value: float

    assert "structuredContent" not in mcp.result(ToolResult.of(Reading(value=float("nan"))))
    assert mcp.result(ToolResult.of(Reading(value=1.5)))["structuredContent"] == {"value": 1.5}
