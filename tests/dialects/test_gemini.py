"""The dialect of Google's Gemini API, with both of its fields."""

import asyncio
from typing import Literal

import pytest

from functool import (
    FileContent,
    FunctionTool,
    SchemaTool,
    ToolCall,
    ToolResult,
    Toolset,
    ToolSettings,
)
from functool.dialects import gemini
from tests.dialects import samples
from tests.dialects.loopback import server_sent, serving
from tests.dialects.samples import answers, ping, plant, sdk, toolset

CALL = {"name": "search", "args": {"query": "cats", "limit": 1}, "id": "c1"}


def made_of(schema, field="parameters_json_schema"):
    """What a schema becomes, and its losses without the tool's name."""
    tool = SchemaTool("made", "", {"type": "object", "properties": {"a": schema}}, dict)
    made = gemini.definition(tool, field)[field]["properties"]["a"]
    return made, [
        loss.removeprefix("made: #/properties/a: ") for loss in gemini.losses(tool, field=field)
    ]


@pytest.mark.parametrize(
    ("schema", "made", "loss"),
    [
        ({"const": "x", "type": "string"}, {"enum": ["x"], "type": "string"}, "const is written as enum"),
        ({"type": "string", "enum": ["a", None]}, {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]}, "null in enum is written as a union with null"),
        ({"enum": [1, "a"]}, {"enum": [1, "a"], "type": ["integer", "string"]}, 'type ["integer", "string"] is added beside enum'),
        ({"enum": [True]}, {"type": "boolean", "description": "one of [true]"}, "enum is moved into the description: one of [true]"),
        ({"type": "integer", "exclusiveMinimum": 0}, {"type": "integer", "minimum": 1}, "exclusiveMinimum is written as minimum 1"),
        ({"type": "integer", "exclusiveMaximum": 5, "maximum": 9}, {"type": "integer", "maximum": 4}, "exclusiveMaximum is written as maximum 4"),
        (
            {"type": "number", "exclusiveMinimum": 0, "description": "How far."},
            {"type": "number", "description": "How far. (exclusiveMinimum: 0)"},
            "exclusiveMinimum 0 is moved into the description",
        ),
        ({"type": "string", "pattern": "^a$"}, {"type": "string", "description": "pattern: ^a$"}, 'pattern "^a$" is moved into the description'),
        ({"type": "string", "minLength": 2}, {"type": "string", "description": "minLength: 2"}, "minLength 2 is moved into the description"),
        ({"type": "integer", "default": 3}, {"type": "integer", "description": "default: 3"}, "default 3 is moved into the description"),
        ({"allOf": [{"type": "integer"}, {"minimum": 1}]}, {"type": "integer", "minimum": 1}, "allOf is merged into the node"),
        (
            {"allOf": [{"type": "integer"}, {"type": "string"}]},
            {"description": 'allOf: [{"type": "integer"}, {"type": "string"}]'},
            'allOf [{"type": "integer"}, {"type": "string"}] is moved into the description',
        ),
    ],
)  # fmt: skip
def test_what_json_schema_loses_is_said_otherwise(schema, made, loss):
    """What `parameters_json_schema` would ignore is rewritten, or told in the description, and named by the losses."""
    assert made_of(schema) == (made, [loss])


@pytest.mark.parametrize(
    ("schema", "made", "losses"),
    [
        (
            {"type": ["string", "null"]},
            {"type": "STRING", "nullable": True},
            ["type null is written as nullable"],
        ),
        (
            {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            {"type": "INTEGER", "nullable": True},
            ["null in a union is written as nullable"],
        ),
        (
            {"type": ["integer", "string"], "minimum": 1, "maxLength": 3},
            {"anyOf": [{"type": "INTEGER", "minimum": 1}, {"type": "STRING", "maxLength": 3}]},
            ['type ["integer", "string"] is written as anyOf'],
        ),
        (
            {"type": "string", "format": "uri"},
            {"type": "STRING", "description": "format: uri"},
            ['format "uri" is moved into the description'],
        ),
        ({"type": "string", "format": "date-time"}, {"type": "STRING", "format": "date-time"}, []),
        (
            {"enum": ["a", "b"]},
            {"enum": ["a", "b"], "type": "STRING"},
            ['type "string" is added beside enum'],
        ),
        (
            {"type": "integer", "enum": [1, 2]},
            {"type": "INTEGER", "description": "one of [1, 2]"},
            ["enum is moved into the description: one of [1, 2]"],
        ),
        (
            {
                "type": "array",
                "prefixItems": [{"type": "integer"}, {"type": "string"}],
                "items": False,
            },
            {
                "type": "ARRAY",
                "maxItems": 2,
                "items": {"anyOf": [{"type": "INTEGER"}, {"type": "STRING"}]},
                "description": 'prefixItems: [{"type": "integer"}, {"type": "string"}]',
            },
            [
                "items false is written as maxItems 2",
                "items is widened to any of prefixItems",
                'prefixItems [{"type": "integer"}, {"type": "string"}] is moved into the description',
            ],
        ),
        (
            {
                "type": "object",
                "properties": {"b": {"type": "null"}},
                "additionalProperties": False,
            },
            {"type": "OBJECT", "properties": {"b": {"type": "NULL"}}},
            ["additionalProperties is dropped"],
        ),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}},
            {"type": "OBJECT", "description": 'additionalProperties: {"type": "integer"}'},
            ['additionalProperties {"type": "integer"} is moved into the description'],
        ),
    ],
)
def test_what_openapi_loses_is_said_otherwise(schema, made, losses):
    """What `parameters` would refuse is rewritten, or told in the description, and named by the losses."""
    assert made_of(schema, "parameters") == (made, losses)


def test_a_required_name_without_a_schema_gets_one():
    """`parameters` refuses a required name that is no property: it becomes one of any type."""
    inner = {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["a", "b"]}
    made, losses = made_of(inner, "parameters")

    assert list(made["properties"]) == ["b", "a"]
    assert made["properties"]["a"]["nullable"] is True
    assert losses[0] == "a: required without a schema, and written as a property of any type"


def test_a_reference_beside_a_description_is_wrapped():
    """A reference keeps its description in `parameters_json_schema`, though no sibling may stand beside it there."""
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A", "description": "which"}},
        "$defs": {"A": {"type": "object", "properties": {"b": {"type": "integer"}}}},
    }
    tool = SchemaTool("made", "", schema, dict)
    made = gemini.definition(tool)["parameters_json_schema"]
    inlined = gemini.definition(tool, "parameters")["parameters"]

    assert made["properties"]["a"] == {"anyOf": [{"$ref": "#/$defs/A"}], "description": "which"}
    assert inlined["properties"]["a"] == {
        "type": "OBJECT",
        "properties": {"b": {"type": "INTEGER"}},
        "description": "which",
    }
    assert gemini.losses(tool) == [
        "made: #/properties/a: $ref beside description is wrapped in anyOf"
    ]


def test_recursion_stays_where_it_is_optional():
    """A type that holds itself in an optional property is kept; through a required one it is cut, as it is in `parameters`."""
    tool = FunctionTool(plant)
    schema = tool.schema.plain
    tree = {**schema["$defs"]["Tree"], "required": ["name", "children"]}
    strict = SchemaTool("made", "", {**schema, "$defs": {"Tree": tree}}, dict)

    def child(tool):
        tree = gemini.definition(tool)["parameters_json_schema"]["$defs"]["Tree"]
        return tree["properties"]["children"]["items"]

    assert child(tool) == {"$ref": "#/$defs/Tree"}
    assert child(strict) == {"type": "object", "description": "the same shape as Tree"}
    assert any("Tree is cut" in loss for loss in gemini.losses(strict))
    assert any("Tree is cut" in loss for loss in gemini.losses(tool, field="parameters"))
    assert "$ref" not in str(gemini.definition(tool, "parameters"))


def test_a_tool_without_arguments_has_no_parameters():
    """An OBJECT without properties is refused in `parameters`: the field is left out."""
    tool = FunctionTool(ping)

    def tally(**rest: int) -> None:
        """Count."""

    assert gemini.definition(tool, "parameters") == {"name": "ping", "description": "Say hello."}
    assert gemini.definition(FunctionTool(tally), "parameters") == {
        "name": "tally",
        "description": 'Count.\n\nadditionalProperties: {"type": "integer"}',
    }
    assert gemini.definition(tool)["parameters_json_schema"]["properties"] == {}


def test_names_are_judged_by_this_api():
    """Dots may stand in the name of a function here; an argument's name holds letters, digits and underscores only."""
    schema = {"type": "object", "properties": {"a-b": {"type": "string"}}}

    assert gemini.losses(SchemaTool("math.sum", "", schema, dict)) == [
        "math.sum: #/properties/a-b: the name of the argument does not fit [A-Za-z_][A-Za-z0-9_]{0,63}"
    ]
    [loss] = gemini.losses(SchemaTool("1sum", "", {"type": "object"}, dict))
    assert "WrapperTool(tool, name='sum')" in loss


def test_calls_come_from_dicts_in_either_case():
    """A response, a content, and their dicts in snake or camel case give the calls; without an id it is empty."""
    content = {"role": "model", "parts": [{"text": "hm"}, {"functionCall": CALL}]}
    bare = {"parts": [{"function_call": {"name": "ping"}}]}
    found = gemini.calls({"candidates": [{"content": content}]})

    assert found == [ToolCall(name="search", arguments={"query": "cats", "limit": 1}, id="c1")]
    assert gemini.calls(content) == found
    assert gemini.calls(bare) == [ToolCall(name="ping", arguments={}, id="")]
    assert answers(found)[0].value == ["cats 0"]


def response(result):
    return gemini.result(result)["function_response"]


def test_results_hold_text_images_and_files():
    """Text is the output, a failure's message the error; images and files go along as parts, sounds as placeholders."""
    image = {"inline_data": {"data": samples.PNG, "mime_type": "image/png"}}

    assert gemini.result(samples.PLAIN, name="search") == {
        "function_response": {"id": "c1", "name": "search", "response": {"output": "two titles"}}
    }
    assert response(samples.SHOWN) == {
        "id": "c1",
        "response": {"output": "a cat"},
        "parts": [image],
    }
    assert response(samples.LINKED)["parts"] == [
        {"file_data": {"file_uri": "https://example.com/cat.png", "mime_type": "image/png"}}
    ]
    assert response(samples.PDF)["parts"][0]["inline_data"]["data"] == b"%PDF"
    assert response(samples.SOUND)["response"] == {"output": "[audio/wav: 4 bytes]"}
    assert response(samples.FAILED)["response"] == {"error": "no such title"}
    assert response(ToolResult()) == {"response": {"output": ""}}


def test_a_file_that_no_model_reads_is_a_placeholder():
    """A part of another type is told as text."""
    zipped = ToolResult(output=[FileContent(data=b"PK", media_type="application/zip")])

    assert response(zipped) == {"response": {"output": "[application/zip: 2 bytes]"}}


def paint(
    colour: Literal["red", "blue"], layers: list[Literal[1, 2]], note: str | None = None
) -> None:
    """Paint."""


@pytest.mark.parametrize("field", ["parameters_json_schema", "parameters"])
def test_the_sdk_takes_every_definition(field):
    """Each definition is one of the SDK's own declarations, which forbid what they do not know."""
    types = sdk("google.genai.types")

    for tool in [*toolset().values(), FunctionTool(paint)]:
        made = gemini.definition(tool, field)
        declaration = types.FunctionDeclaration.model_validate(made)
        assert declaration.name == tool.name
        if field == "parameters" and "parameters" in made:
            sent = declaration.parameters.model_dump(exclude_unset=True, by_alias=True, mode="json")
            assert sent == made["parameters"]
        [taken] = types.Tool(function_declarations=[declaration]).function_declarations
        assert taken == declaration


def test_the_sdk_takes_every_result(given):
    """Each result is one of the SDK's own parts, which forbid what they do not know."""
    types = sdk("google.genai.types")
    made = gemini.result(given, name="search")

    part = types.Part.model_validate(made)

    assert part.model_dump(exclude_unset=True, exclude_none=True) == made
    assert types.Content(role="user", parts=[part]).parts[0].function_response.name == "search"


def test_calls_come_from_the_sdks_stream():
    """A stream over HTTP gives the calls of each chunk, and so does the history that the SDK's chat makes of them."""
    types = sdk("google.genai.types")
    from google import genai

    parts = [
        {"text": "hm"},
        {"functionCall": {"name": "search", "args": {"query": "cats"}, "id": "c1"}},
        {"functionCall": {"name": "ping"}},
    ]
    events = [
        {"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]}
        for part in parts
    ]
    events[-1]["candidates"][0]["finishReason"] = "STOP"
    made = gemini.definitions(toolset().values())
    config = types.GenerateContentConfig(
        tools=[types.Tool(function_declarations=made)],
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )
    with serving([], recorded=server_sent(events)) as server:
        there = types.HttpOptions(base_url=server.url)
        with genai.Client(api_key="x", http_options=there) as client:
            chat = client.chats.create(model="m", config=config)
            chunks = list(chat.send_message_stream("go"))
    found = [call for chunk in chunks for call in gemini.calls(chunk)]

    assert [tool["name"] for tool in server.requests[0]["tools"][0]["functionDeclarations"]] == [
        tool["name"] for tool in made
    ]
    assert found == [
        ToolCall(name="search", arguments={"query": "cats"}, id="c1"),
        ToolCall(name="ping"),
    ]
    assert [call for content in chat.get_history() for call in gemini.calls(content)] == found
    assert (
        gemini.calls(chunks[1].model_dump(by_alias=True, exclude_none=True))
        == gemini.calls(chunks[1].model_dump())
        == found[:1]
    )
    assert [result.text for result in answers(found)] == ['["cats 0","cats 1"]', "pong"]


@pytest.mark.parametrize(
    ("reason", "runs"), [("MAX_TOKENS", False), ("SAFETY", False), ("STOP", True)]
)
@pytest.mark.parametrize(
    ("behind", "after"),
    [([], None), ([{"text": ""}], None), ([], []), ([], [{"text": ""}])],
    ids=["at once", "before an empty text", "in a chunk of its own", "with an empty text"],
)
def test_a_call_in_which_the_answer_was_cut_off_does_not_run(behind, after, reason, runs):
    """The last part of an answer may lack arguments, also if it looks whole; the calls before it run."""
    parts = [{"functionCall": {"name": "wipe", "args": {}, "id": each}} for each in "ab"]
    ended = {"finishReason": reason}
    message = {"candidates": [{"content": {"parts": [*parts, *behind]}, **ended}]}
    chunks = [message]
    if after is not None:
        chunks = [{"candidates": [{"content": {"parts": parts}}]}]
        chunks += [{"candidates": [{"content": {"parts": after}, **ended}]}]
    wiped = []

    @FunctionTool
    async def wipe(what: str = "all") -> None:
        wiped.append(what)

    async def main():
        called = await Toolset([wipe]).call_all(gemini.calls(message))
        return called, await gemini.StreamReader(Toolset([wipe])).run(None, chunks)

    for results in asyncio.run(main()):
        assert [result.success for result in results] == [True, runs]
    assert len(wiped) == 2 + 2 * runs


def test_early_calls_of_one_chunk_begin_one_after_the_other():
    """Each begins in an iteration of the event loop of its own, as each check takes time."""
    parts = [{"functionCall": {"name": "look", "args": {}}} for _ in range(5)]
    chunk = {"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]}
    seen, now = [], [0]

    @FunctionTool(settings=ToolSettings(read_only=True))
    async def look() -> None:
        seen.append(now[0])

    async def tick():
        while True:
            now[0] += 1
            await asyncio.sleep(0)

    async def main():
        ticking = asyncio.create_task(tick())
        await gemini.StreamReader(Toolset([look])).run(None, [chunk])
        ticking.cancel()

    asyncio.run(main())

    assert len(seen) == len({*seen}) == 5
