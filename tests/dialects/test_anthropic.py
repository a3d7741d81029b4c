"""The dialect of Anthropic's Messages API."""

import re
from typing import Annotated, Any

import pytest
from pydantic import Field

from functool import FileContent, FunctionTool, ImageContent, SchemaTool, ToolCall, ToolResult
from functool.dialects import anthropic
from tests.dialects import provider_rules, samples
from tests.dialects.samples import answers, plant, scores, sdk, search, toolset

USE = {"type": "tool_use", "id": "c1", "name": "search", "input": {"query": "cats", "limit": 1}}


def optional(count: int, strict: bool = True, **types: Any) -> SchemaTool:
    """A tool with `count` optional arguments."""
    properties = {f"p{n}": {"type": "integer"} for n in range(count)}
    schema = {"type": "object", "properties": properties, **types, "additionalProperties": False}
    return SchemaTool(f"t{count}", "", schema, dict, strict=strict)


def test_an_ordinary_tool_goes_out_as_it_is():
    """Without strict any schema is fine: nothing is lost."""
    tool = FunctionTool(search)

    assert anthropic.definition(tool) == {
        "name": "search",
        "description": "Search the library.",
        "input_schema": tool.schema.plain,
        "strict": False,
    }
    assert anthropic.losses(tool) == []


def test_a_strict_tool_keeps_its_optional_arguments():
    """Under strict an optional argument stays optional; bounds and defaults move into the description."""
    tool = FunctionTool(search, strict=True)
    schema = anthropic.definition(tool)["input_schema"]

    assert anthropic.definition(tool)["strict"] is True
    assert schema["required"] == ["query"]
    assert schema["properties"]["limit"] == {
        "type": "integer",
        "description": "How many titles. (maximum: 50; minimum: 1; default: 10)",
    }
    said = "search: #/properties/limit: maximum 50 is moved into the description"
    assert said in anthropic.losses(tool)
    assert provider_rules.anthropic([anthropic.definition(tool)]) == []


def test_an_open_object_and_a_mixed_tuple_are_said_as_the_tool_decodes_them():
    """What a closed grammar cannot say goes out as in the strict form, and calls in that form arrive as the right values."""
    tool = FunctionTool(scores, strict=True)
    schema = anthropic.definition(tool)["input_schema"]

    assert schema["properties"]["points"]["items"]["required"] == ["key", "value"]
    assert list(schema["properties"]["start"]["properties"]) == ["item_0", "item_1"]
    assert provider_rules.anthropic([anthropic.definition(tool)]) == []
    sent = {
        "points": [{"key": "x", "value": 3}, {"key": "y", "value": 4}],
        "start": {"item_0": 1, "item_1": "b"},
    }
    plain = {"points": {"x": 3, "y": 4}}
    found = anthropic.calls(
        [{**USE, "name": "scores", "input": sent}, {**USE, "name": "scores", "input": plain}]
    )
    assert [result.text for result in answers(found, strict=True)] == ["8b", "7a"]


def test_open_keyword_arguments_keep_their_name():
    """`**rest` is a list of pairs under its own name, as in the strict form of the tool."""

    def tally(title: str, **rest: int) -> str:
        """Count."""
        return f"{title} {sum(rest.values())}"

    tool = FunctionTool(tally, strict=True)
    schema = anthropic.definition(tool)["input_schema"]

    assert schema["required"] == ["title"]
    assert schema["properties"]["rest"]["items"]["properties"]["value"] == {"type": "integer"}
    assert provider_rules.anthropic([anthropic.definition(tool)]) == []


def test_a_recursive_tool_is_not_strict_and_says_so_first():
    """Recursion has no strict grammar: strict is false, the schema is the plain one, and the losses begin with the reason."""
    tool = FunctionTool(plant, strict=True)
    made = anthropic.definition(tool)

    assert made["strict"] is False
    assert made["input_schema"] == tool.schema.plain
    said = "plant: strict is false: Tree is recursive, and a strict schema may not be"
    assert anthropic.losses(tool)[0] == said


def test_the_reason_comes_before_a_wrong_name():
    """Of a recursive tool with a wrong name the reason why it is not strict is named first."""
    said = anthropic.losses(FunctionTool(plant, name="my.tree", strict=True))

    assert said[0].startswith("my.tree: strict is false")
    assert "WrapperTool(tool, name='my_tree')" in said[1]


def test_patterns_that_the_grammar_lacks_move_into_the_description():
    """A simple pattern stays; a word boundary does not."""

    def code(
        plain: Annotated[str, Field(pattern="^[a-z]+$")],
        word: Annotated[str, Field(pattern=r"\bx")],
    ) -> None:
        """Code."""

    properties = anthropic.definition(FunctionTool(code, strict=True))["input_schema"]["properties"]

    assert properties["plain"] == {"type": "string", "pattern": "^[a-z]+$"}
    assert properties["word"] == {"type": "string", "description": r"pattern: \bx"}


def test_the_names_of_arguments_are_judged():
    """An argument whose name the API refuses is named by the losses."""
    schema = {"type": "object", "properties": {"filter[id]": {"type": "string"}}}

    assert anthropic.losses(SchemaTool("made", "", schema, dict)) == [
        "made: #/properties/filter[id]: the name of the argument does not fit [a-zA-Z0-9_.-]{1,64}"
    ]


@pytest.mark.parametrize(
    ("tools", "limit"),
    [
        ([optional(1) for _ in range(21)], "request: strict tools: 21, and the limit is 20"),
        (
            [optional(12), optional(13)],
            "request: optional arguments of strict tools: 25, and the limit is 24",
        ),
        (
            [optional(17, properties={f"p{n}": {"type": ["integer", "null"]} for n in range(17)})],
            "request: arguments of strict tools with a union type: 17, and the limit is 16",
        ),
    ],
    ids=["tools", "optional", "unions"],
)
def test_the_budgets_of_a_whole_request_are_counted(tools, limit):
    """Strict tools, their optional arguments and their unions are counted over the whole request."""
    assert limit in anthropic.losses(*tools)
    assert limit not in anthropic.losses(*tools[:-1])
    assert not any("limit is" in loss for loss in anthropic.losses(optional(30, strict=False)))


def test_calls_come_from_a_dict_or_its_blocks():
    """Each tool use becomes a call with its arguments as an object; text is passed over."""
    found = anthropic.calls({"role": "assistant", "content": [{"type": "text", "text": "hm"}, USE]})

    assert found == [ToolCall(name="search", arguments={"query": "cats", "limit": 1}, id="c1")]
    assert anthropic.calls([USE]) == found
    assert anthropic.calls({"content": "only text"}) == []
    assert answers(found)[0].value == ["cats 0"]


def test_results_hold_text_images_and_documents():
    """Text alone is one string; images and documents go along; a failure is text only, and said to be one."""
    png = {"type": "base64", "media_type": "image/png", "data": samples.PNG_TEXT}
    image = {"type": "image", "source": png}
    pdf = {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="}

    assert anthropic.result(samples.PLAIN) == {
        "type": "tool_result",
        "tool_use_id": "c1",
        "content": "two titles",
        "is_error": False,
    }
    assert anthropic.result(samples.SHOWN)["content"] == [{"type": "text", "text": "a cat"}, image]
    assert anthropic.result(samples.LINKED)["content"][0]["source"] == {
        "type": "url",
        "url": "https://example.com/cat.png",
    }
    assert anthropic.result(samples.PDF)["content"] == [
        {"type": "document", "source": pdf, "title": "notes (1).pdf"}
    ]
    assert anthropic.result(samples.SOUND)["content"] == "[audio/wav: 4 bytes]"
    assert anthropic.result(samples.EMPTY)["content"] == ""
    assert anthropic.result(samples.FAILED)["content"] == "no such title\n[image/png: 8 bytes]"
    assert anthropic.result(samples.FAILED)["is_error"] is True


def test_of_links_to_files_pdf_is_read():
    """Its documents by URL are PDF, and its URLs are `https`."""
    kinds = ("application/pdf", "text/plain")
    files = [FileContent(uri="https://example.com/a", media_type=kind) for kind in kinds]
    pdf, text = anthropic.result(ToolResult(output=files))["content"]

    assert pdf["source"] == {"type": "url", "url": "https://example.com/a"}
    assert text == {"type": "text", "text": "[text/plain: https://example.com/a]"}
    near = ToolResult(output=[ImageContent(uri="http://example.com/a.png")])
    assert anthropic.result(near)["content"] == "[image/png: http://example.com/a.png]"


def test_a_text_file_goes_out_as_text():
    """A plain text file is a document of text, and one that is somewhere else a document by its URL."""
    here = ToolResult(output=[FileContent(data=b"caf\xc3\xa9", media_type="text/plain")])
    there = ToolResult(
        output=[FileContent(uri="https://example.com/a.pdf", media_type="application/pdf")]
    )

    assert anthropic.result(here)["content"][0]["source"] == {
        "type": "text",
        "media_type": "text/plain",
        "data": "café",
    }
    assert anthropic.result(there)["content"][0]["source"] == {
        "type": "url",
        "url": "https://example.com/a.pdf",
    }


def test_the_sdk_takes_every_definition(strict):
    """Each definition is one of the SDK's own tools, and nothing of it is unknown there."""
    types = sdk("anthropic.types")
    from pydantic import TypeAdapter

    for made in anthropic.definitions(toolset(strict).values()):
        assert TypeAdapter(types.ToolParam).validate_python(made) == made
        assert made.keys() <= types.ToolParam.__annotations__.keys()


def test_the_sdks_own_grammar_has_nothing_left_to_change():
    """What the SDK does to a schema for strict mode leaves the types, enums and required names of a rendering as they are."""
    sdk("anthropic")
    from anthropic import transform_schema

    for made in anthropic.definitions(toolset(strict=True).values()):
        if made["strict"]:
            theirs, ours = transform_schema(made["input_schema"]), made["input_schema"]
            assert theirs["properties"].keys() == ours["properties"].keys()
            assert theirs.get("required") == ours.get("required")
            limit = theirs["properties"].get("limit", {}).get("description", "")
            assert not re.search(r"\{\w+:", str(limit))


def test_the_sdk_takes_every_result(given):
    """Each result is one of the SDK's own blocks."""
    types = sdk("anthropic.types")
    from pydantic import TypeAdapter

    made = anthropic.result(given)
    adapter = TypeAdapter(types.ToolResultBlockParam)  # kept: its parts are read lazily
    taken = adapter.validate_python(made)

    content = taken["content"] if isinstance(taken["content"], str) else [*taken["content"]]
    assert {**taken, "content": content} == made
    assert made.keys() <= types.ToolResultBlockParam.__annotations__.keys()


def test_calls_come_from_the_sdks_message():
    """The SDK's own message gives its calls, those of tools that the provider runs left out."""
    types = sdk("anthropic.types")
    message = types.Message.model_validate(
        {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "stop_reason": "tool_use",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
            "content": [
                {"type": "text", "text": "hm", "citations": None},
                {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
                USE,
            ],
        }
    )
    found = anthropic.calls(message)

    assert found == [ToolCall(name="search", arguments={"query": "cats", "limit": 1}, id="c1")]
    assert anthropic.calls(message.model_dump()) == found
