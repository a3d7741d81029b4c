"""What every dialect does alike: kept renderings, names, sizes."""

import gc
import weakref
from dataclasses import dataclass
from typing import Annotated, Literal

import pytest
from pydantic import Field

from functool import (
    Content,
    DefinitionError,
    FileContent,
    FunctionTool,
    ImageContent,
    SchemaTool,
    TextContent,
    Tool,
    ToolCall,
    ToolResult,
    Toolset,
    ToolSettings,
    WrapperTool,
)
from functool.dialects import (
    Lost,
    _wire,
    anthropic,
    bedrock,
    deepseek,
    gemini,
    groq,
    mcp,
    mistral,
    openai,
    openai_chat,
    xai,
)
from functool.dialects._wire import name_losses, size
from tests.dialects.samples import ping, plant, search


def test_a_tool_is_rendered_once(dialect, monkeypatch):
    """A second definition is read from the text of the first: the walker does not run again."""
    tool = FunctionTool(search)
    first = dialect.definition(tool)
    before = dialect.losses(tool)
    monkeypatch.setattr("functool.dialects._walk._Walk.root", None)
    monkeypatch.setattr("functool.dialects._walk.Names", None)

    assert dialect.definition(tool) == first
    assert dialect.definition(tool) is not first
    assert dialect.losses(tool) == before


def test_a_definition_can_be_changed_freely(dialect):
    """What a caller does to a definition reaches neither the tool nor the next definition."""
    tool = FunctionTool(search, strict=True)
    schema = repr(tool.schema)

    def spoil(node):
        for key, value in list(node.items()):
            if isinstance(value, dict):
                spoil(value)
            node[key] = None

    before = dialect.definition(tool)
    spoil(dialect.definition(tool))

    assert dialect.definition(tool) == before
    assert repr(tool.schema) == schema


def test_a_renamed_tool_goes_out_under_its_new_name(dialect):
    """`WrapperTool(tool, name=...)`, the remedy that the losses name, is what a dialect publishes."""
    tool = WrapperTool(FunctionTool(ping, name="a.b/c"), name="a_b_c", description="Ping it.")
    made = dialect.definition(tool)
    made = made.get("function") or made.get("toolSpec") or made

    assert (made["name"], made["description"]) == ("a_b_c", "Ping it.")
    assert not any("renames" in loss for loss in dialect.losses(tool))


def test_an_image_without_bytes_is_named(dialect):
    """Providers refuse an empty image, which would end the run."""
    words = TextContent(text="here")
    empty = ToolResult(output=[words, ImageContent(data=b"")])
    named = ToolResult(output=[words, TextContent(text="[image/png: 0 bytes]")])

    assert dialect.result(empty) == dialect.result(named)


@pytest.mark.parametrize("kind", ["application/pdf", "text/plain", "image/png"])
@pytest.mark.parametrize("link", [None, "file:///home/a", "memo://1", "a", ""])
def test_a_file_that_a_provider_cannot_read_is_named(dialect, kind, link):
    """An MCP server may link to what only it can read. A provider would refuse the request, and every later one."""
    if dialect is mcp:
        pytest.skip("an MCP client may read it")
    words = TextContent(text="here")
    empty = b"" if link is None else None
    part = FileContent(data=empty, uri=link, media_type=kind)
    images = [ImageContent(data=empty, uri=link)] * (kind == "image/png")
    name = TextContent(text=f"[{kind}: {'0 bytes' if link is None else link}]")
    given = ToolResult(output=[words, part, *images])
    named = ToolResult(output=[words, name, *([name] * len(images))])

    assert dialect.result(given) == dialect.result(named)


def anthropic_answer(arguments, whole):
    block = {"type": "tool_use", "id": "c1", "name": "forget", "input": arguments}
    reason = "tool_use" if whole else "max_tokens"
    return {"role": "assistant", "stop_reason": reason, "content": [block]}


def bedrock_answer(arguments, whole):
    block = {"toolUse": {"toolUseId": "c1", "name": "forget", "input": arguments}}
    message = {"role": "assistant", "content": [block]}
    reason = "tool_use" if whole else "model_context_window_exceeded"
    return {"output": {"message": message}, "stopReason": reason}


def openai_answer(arguments, whole):
    status = "completed" if whole else "incomplete"
    item = {"type": "function_call", "call_id": "c1", "name": "forget", "arguments": arguments}
    return {"output": [{**item, "status": status}]}


def chat_answer(arguments, whole):
    entry = {"id": "c1", "function": {"name": "forget", "arguments": arguments}}
    message = {"role": "assistant", "tool_calls": [entry]}
    reason = "tool_calls" if whole else "length"
    return {"choices": [{"message": message, "finish_reason": reason}]}


@pytest.mark.parametrize(
    ("dialect", "answer", "arguments"),
    [
        *[(anthropic, anthropic_answer, given) for given in ({}, {"what": "cats"})],
        *[(bedrock, bedrock_answer, given) for given in ({}, {"what": "cats"})],
        *[(mistral, chat_answer, given) for given in ({}, {"what": "cats"}, "")],
        *[(dialect, openai_answer, "") for dialect in (openai, xai)],
        (openai_chat, chat_answer, ""),
    ],
)
def test_a_call_in_which_the_answer_was_cut_off_does_not_run(dialect, answer, arguments):
    """An SDK's object holds what came of the arguments. That looks whole, and would run without the rest."""

    @FunctionTool
    def forget(what: str = "everything", but: str = "") -> None:
        """Forget."""

    def ran(whole):
        [call] = dialect.calls(answer(arguments, whole))
        return Toolset([forget]).call_sync(call).success

    assert (ran(whole=True), ran(whole=False)) == (True, False)


@pytest.mark.parametrize(
    ("dialect", "answer", "name", "end"),
    [
        *[(anthropic, anthropic_answer, "stop_reason", end) for end in ("refusal", "new")],
        *[(bedrock, bedrock_answer, "stopReason", end) for end in ("guardrail_intervened", "new")],
        *[(mistral, chat_answer, "finish_reason", end) for end in ("error", "new")],
    ],
)
def test_a_call_runs_only_if_the_answer_has_a_full_end(dialect, answer, name, end):
    """A classifier, a guardrail or an error may also cut off an answer in the middle of a call."""
    given = answer({"what": "cats"}, whole=True)
    where = given if name in given else given["choices"][0]
    whole = dialect.calls(given)[0].arguments
    where[name] = end

    assert whole == {"what": "cats"}
    assert dialect.calls(given)[0].arguments == '{"what": "cats", "'


@pytest.mark.parametrize("end", ["incomplete", "in_progress", "failed"])
def test_a_call_without_a_status_has_that_of_its_response(end):
    """Some servers give their items no status."""
    item = {"type": "function_call", "call_id": "c1", "name": "forget", "arguments": ""}
    answers = [{"status": status, "output": [item]} for status in (None, "completed", end)]

    assert [openai.calls(answer)[0].arguments for answer in answers] == ["", "", '{"']


def test_a_call_that_was_cut_off_needs_no_id():
    """A server may leave the id out."""
    answer = bedrock_answer({"what": "cats"}, whole=False)
    del answer["output"]["message"]["content"][0]["toolUse"]["toolUseId"]

    assert bedrock.calls(answer)[0].arguments == '{"what": "cats", "'


@pytest.mark.parametrize(
    ("kind", "start"),
    [
        ("image/png", b"\x89PNG\r\n\x1a\n"),
        ("image/jpeg", b"\xff\xd8\xff\xe0"),
        ("image/gif", b"GIF89a"),
        ("image/webp", b"RIFF\n\x00\n\x00WEBPVP8 "),
    ],
)
def test_an_image_has_the_type_that_its_bytes_show(kind, start):
    """`ImageContent(data=...)` says PNG if nobody says otherwise, and so do many servers. Providers refuse another type."""
    given = [ImageContent(data=start, media_type=said) for said in ("image/png", "image/jpeg", "x")]
    right = ImageContent(data=start, media_type=kind)

    for dialect in (openai, anthropic, gemini, bedrock, mistral, mcp):
        sent = [dialect.result(ToolResult(output=[image])) for image in (*given, right)]
        assert sent == [sent[-1]] * 4


def test_an_image_of_an_unknown_kind_keeps_its_type():
    """Only its author may know what it is."""
    odd = ImageContent(data=b"\xff\xd8", media_type="image/gif")

    assert (
        anthropic.result(ToolResult(output=[odd]))["content"][0]["source"]["media_type"]
        == "image/gif"
    )


def test_a_link_of_an_untrusted_tool_is_named(dialect):
    """Where it leads is not known. If it leads nowhere, a provider refuses the request, and every later one."""
    if dialect is mcp:
        pytest.skip("an MCP client decides itself")

    def look(uri: str) -> list[Content]:
        """Look."""
        return [FileContent(uri=uri, media_type="application/pdf"), ImageContent(uri=uri)]

    tool = FunctionTool(look, settings=ToolSettings(untrusted=True))
    for uri in ("https://example.com/a", "s3://bucket/a"):
        call = ToolCall(name="look", arguments={"uri": uri})
        result = Toolset([tool]).call_sync(call)
        names = [f"[application/pdf: {uri}]", f"[image/png: {uri}]"]
        named = ToolResult(output=[TextContent(text=name) for name in names])
        assert dialect.result(result) == dialect.result(named)


@pytest.mark.parametrize("dialect", [openai_chat, mistral])
def test_a_call_whose_text_came_whole_runs(dialect):
    """The limit may be reached right behind a call."""
    assert dialect.calls(chat_answer('{"a": 1}', whole=False))[0].arguments == '{"a": 1}'


def test_a_call_that_was_cut_off_may_hold_any_text():
    """Half of a character is no reason to lose the whole answer."""
    [call] = anthropic.calls(anthropic_answer({"what": "\ud800"}, whole=False))

    assert call.arguments == '{"what": "\\ud800", "'


@pytest.mark.parametrize("dialect", [anthropic, mistral])
def test_a_call_that_was_cut_off_may_hold_no_object(dialect):
    """A model may write anything, and the answer can still be read."""
    answer = anthropic_answer if dialect is anthropic else chat_answer
    [call] = dialect.calls(answer([1], whole=False))

    assert call.arguments == '{"'


def test_a_call_before_the_last_block_came_whole():
    """Only in the last block of a message can the reply be cut off."""
    answer = anthropic_answer({}, whole=False)
    answer["content"].append({"type": "text", "text": "And th"})

    assert anthropic.calls(answer)[0].arguments == {}


def test_a_scheme_has_no_case(dialect):
    """`HTTPS:` is `https:`."""
    far = ToolResult(output=[ImageContent(uri="HTTPS://example.com/a.png")])
    near = ToolResult(output=[ImageContent(uri="https://example.com/a.png")])

    assert repr(dialect.result(far)).replace("HTTPS", "https") == repr(dialect.result(near))


def test_definitions_are_those_of_each_tool_in_order(dialect):
    """`definitions` takes any iterable and keeps its order."""
    tools = [FunctionTool(search), FunctionTool(ping)]

    assert dialect.definitions(iter(tools)) == [dialect.definition(tool) for tool in tools]
    assert dialect.definitions([]) == []
    assert dialect.losses() == []


def test_renderings_go_with_their_tool():
    """A tool that nobody holds is not kept alive by its renderings."""
    tool = FunctionTool(ping)
    openai.definition(tool)
    gone = weakref.ref(tool)

    del tool
    gc.collect()

    assert gone() is None


def test_a_tool_that_cannot_be_hashed_is_rendered_too():
    """A tool that is a dataclass, and so has no hash, goes out like any other."""

    @dataclass
    class Adder(Tool):
        step: int = 1

        def __post_init__(self):
            super().__init__(
                name="adder", description="Add.", parameters={"type": "object", "properties": {}}
            )

        async def run(self, call, context):
            return ToolResult.of(self.step)

    assert openai.definition(Adder())["name"] == "adder"
    assert openai.losses(Adder()) == []


@pytest.mark.parametrize(
    ("name", "better"),
    [("a b", "a_b"), ("1x", "x"), ("é", "_"), ("---", "tool"), ("x" * 65, "x" * 64)],
)
def test_the_remedy_is_a_name_that_all_take(name, better):
    """The name that the losses propose is one that every provider takes."""
    said = name_losses(name)

    if name != "1x" and name != "---":
        assert f"name={better!r}" in said[0]
    else:
        assert said == []


def test_sizes_are_counted_over_definitions_once():
    """Each definition counts once; depth follows references until they repeat."""
    leaf = {"type": "string", "enum": ["ab", "c"]}
    tree = {
        "type": "object",
        "properties": {"leaf": leaf, "kids": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
        "required": ["leaf"],
    }
    found = size(
        {
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/Tree"}, "b": {"type": ["null", "string"]}},
            "$defs": {"Tree": tree},
        }
    )

    assert (found.properties, found.optional, found.unions, found.depth) == (4, 3, 1, 3)
    assert found.characters == len("a" + "b" + "leaf" + "kids" + "Tree" + "ab" + "c")
    assert (found.enum_values, found.longest_enum) == (2, 0)


def test_measuring_a_schema_ends(monkeypatch):
    """Definitions that hold one another many times have very many ways down: some are enough."""
    defs = {
        f"D{n}": {
            "type": "object",
            "properties": dict.fromkeys("abc", {"$ref": f"#/$defs/D{n + 1}"}),
        }
        for n in range(40)
    }
    steps = []
    children = _wire.children
    monkeypatch.setattr(_wire, "children", lambda node: steps.append(1) or children(node))
    found = size({"$ref": "#/$defs/D0", "$defs": {**defs, "D40": {"type": "array", "items": {}}}})

    assert (found.properties, found.depth) == (120, 41)
    assert len(steps) < 2 * _wire.MAX_STEPS


def chain(length):
    """Definitions that each hold the next one."""
    defs = {
        f"D{n}": {"type": "object", "properties": {"a": {"$ref": f"#/$defs/D{n + 1}"}}}
        for n in range(length)
    }
    return {"properties": {"a": {"$ref": "#/$defs/D0"}}, "$defs": {**defs, f"D{length}": {}}}


def nested(depth):
    """Objects inside each other."""
    schema = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


BROKEN = {
    "chain": chain(2_000),
    "nested": nested(120),
    "properties": {"properties": {"a": {"properties": [1]}}},
    "name": {"properties": {5: {"type": "string"}}},
    "surrogate": {"properties": {"a": {"description": "\ud800"}}},
    "required": {
        "properties": {"a": {"type": "object", "properties": {"b": {}}, "required": [[]]}}
    },
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_schema_that_cannot_be_rendered_is_a_definition_error(dialect, name):
    """Another's schema may be too deep or broken: the error names the tool, and nothing else is raised."""
    tool = SchemaTool("broken_one", "d", BROKEN[name], dict)
    told = []
    for render in (dialect.definition, dialect.losses):
        try:
            render(tool)
        except DefinitionError as error:
            told.append(str(error))

    assert len(told) in (0, 2)
    assert all(text.startswith("broken_one cannot be written for a provider: ") for text in told)
    if name == "chain" and dialect is not mcp:
        assert "too deeply" in told[0]
    if name == "surrogate":
        assert "no valid JSON Schema" in told[0]


def test_a_tool_is_rendered_again_once_it_can_be(monkeypatch):
    """A rendering that failed is not remembered."""
    tool = SchemaTool("late", "d", BROKEN["surrogate"], dict)
    with pytest.raises(DefinitionError, match="^late "):
        openai.definition(tool)
    tool.schema.plain["properties"]["a"]["description"] = "x"

    assert openai.definition(tool)["parameters"]["properties"] == {"a": {"description": "x"}}


def test_what_is_lost_is_told_apart_from_what_is_moved():
    """A gate can fail for a broken name or limit, and pass what stands in the description."""

    def go(n: Annotated[int, Field(ge=3, multiple_of=2)] = 4, kind: Literal["a"] = "a") -> None:
        """Go."""

    tool, dotted = FunctionTool(go), FunctionTool(go, name="a b")
    moved = gemini.losses(tool)

    assert any("multipleOf 2 is moved into the description" in loss for loss in moved)
    assert [loss for loss in moved if isinstance(loss, Lost)] == []
    for dialect in (openai, gemini, anthropic, mistral, xai, bedrock):
        lost = [loss for loss in dialect.losses(dotted, dotted) if isinstance(loss, Lost)]
        assert {loss.split(" does not fit")[0] for loss in lost} == {
            "a b: name 'a b'",
            "request: 2 tools are named 'a b'",
        }
    recursive = FunctionTool(plant, strict=True)
    lost = [loss for loss in anthropic.losses(recursive) if isinstance(loss, Lost)]
    assert lost == ["plant: strict is false: Tree is recursive, and a strict schema may not be"]


def test_a_strict_form_without_annotations_of_others():
    """OpenAI's and Mistral's strict forms say examples, deprecations and `x-` words in sentences."""
    part = {"type": "integer", "examples": [3], "deprecated": True, "readOnly": True}
    part |= {"writeOnly": False, "x-unit": {"name": "cm"}, "$comment": "ours"}
    schema = {"type": "object", "properties": {"n": part}, "required": ["n"]}
    tool = SchemaTool("go", "", schema, dict, strict=True)
    said = (
        'examples: [3]. deprecated: true. readOnly: true. writeOnly: false. x-unit: {"name": "cm"}.'
    )

    for dialect in (openai, openai_chat, mistral, groq, deepseek):
        made = dialect.definition(tool)
        made = made.get("function", made)["parameters"]["properties"]["n"]
        losses = dialect.losses(tool)

        assert made == {"type": "integer", "description": said}
        assert [loss for loss in losses if isinstance(loss, Lost)] == []
        for word in ("examples", "deprecated", "readOnly", "writeOnly", "x-unit", "$comment"):
            assert (
                f"go: #/properties/n: the keyword {word} (rewritten in the strict form)" in losses
            )


def test_what_is_no_tool_has_no_definition(dialect):
    """A function that nobody decorated is a TypeError, which says what was expected."""
    with pytest.raises(TypeError, match="expected a tool, not builtin_function_or_method"):
        dialect.definition(len)


def levels(**last):
    """A schema in which each of thirty objects refers to the next one twice."""
    objects = {
        f"a{i}": {
            "type": "object",
            "properties": dict.fromkeys("xy", {"$ref": f"#/$defs/a{i + 1}"}),
        }
        for i in range(30)
    }
    root = {"type": "object", "properties": {"p": {"$ref": "#/$defs/a0"}}}
    return {**root, "$defs": {**objects, "a30": last}}


def test_each_definition_is_measured_once():
    """The depth of thirty definitions, each with two references, never ended."""
    assert size(levels(type="object", properties={"z": {}})).depth == 32
    assert size({"properties": {"x": {"$ref": "#"}}}).depth == 2


def test_a_definition_that_many_refer_to_ends(dialect):
    """Each reference in a union looked for cycles anew, and each name for a free number."""
    union = {"anyOf": [{"$ref": "#/$defs/a0"}, {"type": "null"}]}
    many = {f"p{i}": {"$ref": f"#/$defs/d{i}/x"} for i in range(2_000)}
    schema = levels(type="string")
    schema["properties"] = {"u": union, **many}
    schema["$defs"] |= {f"d{i}": {"x": {"type": "string"}} for i in range(2_000)}
    tool = SchemaTool("t", "T.", schema, print)

    assert len(str(dialect.definition(tool))) > 1_000
    assert isinstance(dialect.losses(tool), list)


def test_what_no_provider_can_be_sent_is_a_definition_error(dialect):
    """A half of a character, as a stranger's JSON may hold it, names the tool."""
    tool = SchemaTool("t", "T.", {"properties": {"x": {"description": "\ud800"}}}, print)

    with pytest.raises(DefinitionError, match="^t cannot be written"):
        dialect.definition(tool)
