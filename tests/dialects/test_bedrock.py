"""The dialect of AWS Bedrock's Converse API."""

import json
import re
import struct
import zlib
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from functool import FileContent, FunctionTool, ImageContent, SchemaTool, ToolCall, ToolResult
from functool.dialects import anthropic, bedrock
from tests.dialects import provider_rules, samples
from tests.dialects.loopback import serving
from tests.dialects.samples import answers, plant, sdk, search, toolset

USE = {"toolUse": {"toolUseId": "c1", "name": "search", "input": {"query": "cats", "limit": 1}}}


def test_an_ordinary_tool_does_not_speak_of_strict():
    """Without strict the schema goes out as it is, and older models hear nothing of strict."""
    tool = FunctionTool(search)

    assert bedrock.definition(tool) == {
        "toolSpec": {
            "name": "search",
            "description": "Search the library.",
            "inputSchema": {"json": tool.schema.plain},
        }
    }
    assert bedrock.losses(tool) == []


def test_a_strict_tool_keeps_its_text_lengths():
    """Under strict the lengths of a text stay, which Anthropic's own API refuses; exclusive bounds move."""

    def code(
        word: Annotated[str, Field(max_length=4)], size: Annotated[float, Field(gt=0)]
    ) -> None:
        """Code."""

    tool = FunctionTool(code, strict=True)
    spec = bedrock.definition(tool)["toolSpec"]

    assert spec["strict"] is True
    assert spec["inputSchema"]["json"]["properties"] == {
        "word": {"type": "string", "maxLength": 4},
        "size": {"type": "number", "description": "exclusiveMinimum: 0"},
    }
    assert "maxLength" not in anthropic.definition(tool)["input_schema"]["properties"]["word"]
    assert provider_rules.bedrock(spec) == []
    assert bedrock.losses(tool) == [
        "code: #/properties/size: exclusiveMinimum 0 is moved into the description"
    ]


def test_a_recursive_tool_is_not_strict_and_says_so_first():
    """Recursion has no strict grammar: strict is false, and the losses begin with the reason."""
    tool = FunctionTool(plant, strict=True)

    assert bedrock.definition(tool)["toolSpec"]["strict"] is False
    assert (
        bedrock.losses(tool)[0]
        == "plant: strict is false: Tree is recursive, and a strict schema may not be"
    )


def test_an_empty_description_is_left_out():
    """An empty description is refused: the tool goes out without one, and the losses say so."""
    tool = SchemaTool("bare", "", {"type": "object", "properties": {}}, dict)

    assert "description" not in bedrock.definition(tool)["toolSpec"]
    assert bedrock.losses(tool) == [
        "bare: the description is empty, which is refused: it is left out"
    ]


def test_the_budgets_of_a_whole_request_are_counted():
    """Strict tools are counted over the whole request."""
    tools = [FunctionTool(search, name=f"s{n}", strict=True) for n in range(21)]

    assert "request: strict tools: 21, and the limit is 20" in bedrock.losses(*tools)
    assert not any("request: strict tools" in loss for loss in bedrock.losses(*tools[1:]))


def test_calls_come_from_a_response_or_its_message():
    """Each tool use becomes a call; text is passed over."""
    message = {"role": "assistant", "content": [{"text": "hm"}, USE]}
    found = bedrock.calls({"output": {"message": message}, "stopReason": "tool_use"})

    assert found == [ToolCall(name="search", arguments={"query": "cats", "limit": 1}, id="c1")]
    assert bedrock.calls(message) == found
    assert answers(found)[0].value == ["cats 0"]


def content(result):
    return bedrock.result(result)["toolResult"]["content"]


def test_results_hold_text_images_and_documents():
    """Images and documents go along as bytes, in the API's own formats; the rest becomes a placeholder."""
    image = {"image": {"format": "png", "source": {"bytes": samples.PNG}}}
    pdf = {
        "document": {"format": "pdf", "name": "notes (1) pdf (c1 1)", "source": {"bytes": b"%PDF"}}
    }

    assert bedrock.result(samples.PLAIN) == {
        "toolResult": {"toolUseId": "c1", "content": [{"text": "two titles"}], "status": "success"}
    }
    assert content(samples.SHOWN) == [{"text": "a cat"}, image]
    assert content(samples.PDF) == [pdf]
    assert content(samples.LINKED) == [{"text": "[image/png: https://example.com/cat.png]"}]
    assert content(samples.SOUND) == [{"text": "[audio/wav: 4 bytes]"}]
    assert content(samples.EMPTY) == []
    assert content(samples.FAILED) == [{"text": "no such title"}, image]
    assert bedrock.result(samples.FAILED)["toolResult"]["status"] == "error"


def test_what_lies_in_s3_stays_there():
    """An image in S3 is named by its place, and a file without a name gets one."""
    stored = ToolResult(
        output=[
            ImageContent(uri="s3://bucket/cat.png"),
            FileContent(uri="s3://bucket/a.csv", media_type="text/csv"),
        ]
    )
    blocks = content(stored)

    assert blocks[0]["image"]["source"] == {"s3Location": {"uri": "s3://bucket/cat.png"}}
    assert (blocks[1]["document"]["name"], blocks[1]["document"]["format"]) == ("file (2)", "csv")


def test_no_two_documents_of_a_request_have_one_name():
    """The API refuses a conversation in which two documents have the same name, also those of earlier turns."""
    pdf = FileContent(data=b"%PDF", media_type="application/pdf")
    sent = [pdf, pdf, replace(pdf, name="a" * 300), replace(pdf, name="\u5206.pdf")]
    results = [ToolResult(output=sent, call_id=f"tooluse_{n}") for n in (1, 2)]
    names = [block["document"]["name"] for result in results for block in content(result)]

    assert len({*names}) == len(names) == 8
    assert all(re.fullmatch(r"(?!.*  )[a-zA-Z0-9 ()\[\]-]{1,200}", name) for name in names)


def converse():
    """What botocore knows of the API, and its own validator, which knows every field and every bound."""
    session = sdk("botocore.session").get_session()
    from botocore.validate import ParamValidator

    model = session.get_service_model("bedrock-runtime").operation_model("Converse")
    validator = ParamValidator()
    return lambda params: validator.validate(
        {"modelId": "m", **params}, model.input_shape
    ).generate_report()


def test_the_sdk_takes_every_definition(strict):
    """botocore's own model of the API has nothing against the definitions."""
    tools = bedrock.definitions(toolset(strict).values())
    assert converse()({"toolConfig": {"tools": tools}}) == ""
    assert converse()({"toolConfig": {"tools": [{"toolSpec": {"name": "x", "unknown": 1}}]}}) != ""


def test_the_sdk_takes_every_result(given):
    """botocore's own model of the API has nothing against the results."""
    made = bedrock.result(given)

    assert converse()({"messages": [{"role": "user", "content": [made]}]}) == ""


def test_calls_come_back_through_the_sdks_own_parser():
    """What the SDK parses from a response over the wire gives its calls."""
    session = sdk("botocore.session")
    from botocore.parsers import create_parser

    model = session.get_session().get_service_model("bedrock-runtime")
    body = {
        "output": {"message": {"role": "assistant", "content": [{"text": "hm"}, USE]}},
        "stopReason": "tool_use",
        "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2},
        "metrics": {"latencyMs": 1},
    }
    answer = {"status_code": 200, "headers": {}, "body": json.dumps(body).encode()}
    shape = model.operation_model("Converse").output_shape
    [call] = bedrock.calls(create_parser("rest-json").parse(answer, shape))

    assert call == ToolCall(name="search", arguments={"query": "cats", "limit": 1}, id="c1")


def event_stream(events):
    """Events in AWS's own framing: a prelude, headers and a body, each with its checksum."""

    def header(name, value):
        sizes = struct.pack("B", len(name)), struct.pack(">BH", 7, len(value))
        return sizes[0] + name.encode() + sizes[1] + value.encode()

    for kind, payload in events:
        told = {":message-type": "event", ":event-type": kind, ":content-type": "application/json"}
        headers = b"".join(header(*each) for each in told.items())
        body = json.dumps(payload).encode()
        prelude = struct.pack(">II", len(headers) + len(body) + 16, len(headers))
        frame = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + body
        yield frame + struct.pack(">I", zlib.crc32(frame))


def test_calls_come_from_the_sdks_stream():
    """A stream over HTTP, in pieces as the SDK parses them, gives the calls once the pieces of each block are joined."""
    session = sdk("botocore.session").get_session()
    from botocore.config import Config

    start = {"toolUse": {"toolUseId": "c1", "name": "search"}}
    deltas = [
        {"text": "hm"},
        {"toolUse": {"input": '{"que'}},
        {"toolUse": {"input": 'ry": "cats"}'}},
    ]
    events = [
        ("messageStart", {"role": "assistant"}),
        ("contentBlockDelta", {"contentBlockIndex": 0, "delta": deltas[0]}),
        ("contentBlockStart", {"contentBlockIndex": 1, "start": start}),
        *(("contentBlockDelta", {"contentBlockIndex": 1, "delta": delta}) for delta in deltas[1:]),
        ("messageStop", {"stopReason": "tool_use"}),
    ]
    made = bedrock.definitions(toolset().values())
    recorded = ("application/vnd.amazon.eventstream", b"".join(event_stream(events)))
    with serving([], recorded=recorded) as server:
        client = session.create_client(
            "bedrock-runtime", region_name="us-east-1", endpoint_url=server.url, aws_access_key_id="x", aws_secret_access_key="x",
            config=Config(retries={"max_attempts": 0}),
        )  # fmt: skip
        answer = client.converse_stream(
            modelId="m",
            messages=[{"role": "user", "content": [{"text": "go"}]}],
            toolConfig={"tools": made},
        )
        blocks: dict = {}
        for event in answer["stream"]:
            if start := event.get("contentBlockStart"):
                blocks[start["contentBlockIndex"]] = {**start["start"]["toolUse"], "input": ""}
            if (part := event.get("contentBlockDelta")) and "toolUse" in part["delta"]:
                piece = part["delta"]["toolUse"]["input"]
                blocks[part["contentBlockIndex"]]["input"] += piece
        client.close()
    found = bedrock.calls({"content": [{"toolUse": block} for block in blocks.values()]})

    assert server.requests[0]["toolConfig"]["tools"] == made
    assert found == [ToolCall(name="search", arguments='{"query": "cats"}', id="c1")]
    assert answers(found)[0].value == ["cats 0", "cats 1"]
