"""The dialect of Mistral's chat API."""

from functool import FunctionTool, ImageContent, SchemaTool, ToolCall, ToolResult
from functool.dialects import mistral
from tests.dialects import samples
from tests.dialects.loopback import server_sent, serving
from tests.dialects.samples import answers, plant, scores, sdk, search, toolset

CALL = {
    "id": "D681PevKs",
    "type": "function",
    "function": {"name": "search", "arguments": '{"query": "cats"}'},
}


def test_an_ordinary_tool_goes_out_as_it_is():
    """Without strict the schema goes out in its plain form, and nothing is lost."""
    tool = FunctionTool(plant)

    assert mistral.definition(tool) == {
        "type": "function",
        "function": {
            "name": "plant",
            "description": "Plant a tree.",
            "parameters": tool.schema.plain,
            "strict": False,
        },
    }
    assert mistral.losses(tool) == []


def test_a_strict_tool_goes_out_in_its_strict_form():
    """A strict tool is published as its own strict schema, and the losses name what had to be rewritten for it."""
    tool = FunctionTool(scores, strict=True)
    function = mistral.definition(tool)["function"]

    assert function["parameters"] == tool.schema.parameters
    assert function["strict"] is True
    assert any("points" in loss and "rewritten" in loss for loss in mistral.losses(tool))


def test_the_losses_name_names():
    """A name that is refused, and one that two tools share, are named."""
    tool = SchemaTool("math.sum", "", {"type": "object", "properties": {}}, dict)

    first, *_, last = mistral.losses(tool, tool)
    assert first.endswith("WrapperTool(tool, name='math_sum') renames the tool")
    assert last == "request: 2 tools are named 'math.sum'"


def test_calls_come_from_messages_and_conversations():
    """Arguments come as text or as an object; the SDK's spelling of a missing id is an empty one."""
    message = {"tool_calls": [CALL, {"id": "null", "function": {"name": "ping", "arguments": {}}}]}
    entry = {
        "type": "function.call",
        "tool_call_id": "c1",
        "name": "search",
        "arguments": {"query": "cats"},
    }
    found = mistral.calls({"choices": [{"message": message}]})

    assert found == [
        ToolCall(name="search", arguments='{"query": "cats"}', id="D681PevKs"),
        ToolCall(name="ping", arguments={}, id=""),
    ]
    assert mistral.calls(message) == found
    assert mistral.calls({"outputs": [{"type": "message.output"}, entry]}) == [
        ToolCall(name="search", arguments={"query": "cats"}, id="c1")
    ]
    assert [result.text for result in answers(found)] == ['["cats 0","cats 1"]', "pong"]


def test_results_hold_text_and_images():
    """Text alone is one string; images are parts; files, sounds and drawings become placeholders."""
    image = {"type": "image_url", "image_url": f"data:image/png;base64,{samples.PNG_TEXT}"}

    plain = {"role": "tool", "tool_call_id": "c1", "content": "two titles"}
    assert mistral.result(samples.PLAIN) == plain
    assert mistral.result(samples.SHOWN)["content"] == [{"type": "text", "text": "a cat"}, image]
    assert mistral.result(samples.LINKED)["content"] == [
        {"type": "image_url", "image_url": "https://example.com/cat.png"}
    ]
    assert mistral.result(samples.PDF)["content"] == "[application/pdf: 4 bytes]"
    assert mistral.result(samples.SOUND)["content"] == "[audio/wav: 4 bytes]"
    drawing = ToolResult.of(ImageContent(data=b"<svg/>", media_type="image/svg+xml"))
    assert mistral.result(drawing)["content"] == "[image/svg+xml: 6 bytes]"


def test_the_sdk_and_its_validator_take_every_definition(strict):
    """Each definition is one of the SDK's own tools, and mistral-common's validator has nothing against it."""
    models = sdk("mistralai.client.models")
    common = sdk("mistral_common.protocol.instruct.tool_calls")
    from mistral_common.protocol.instruct.messages import UserMessage
    from mistral_common.protocol.instruct.request import ChatCompletionRequest
    from mistral_common.protocol.instruct.validator import MistralRequestValidator

    made = mistral.definitions(toolset(strict).values())
    tools = [common.Tool.model_validate(tool) for tool in made]
    request = ChatCompletionRequest(messages=[UserMessage(content="hi")], tools=tools, model="m")

    assert [models.Tool.model_validate(tool).model_dump() for tool in made] == made
    assert MistralRequestValidator().validate_request(request).tools == tools
    assert [tool.model_dump() for tool in tools] == made


def test_the_sdk_takes_every_result(given):
    """Each result is one of the SDK's own tool messages, none of its parts unknown there."""
    models = sdk("mistralai.client.models")
    made = mistral.result(given)

    message = models.ToolMessage.model_validate(made)

    assert message.tool_call_id == "c1"
    if isinstance(made["content"], list):
        kinds = {"text": models.TextChunk, "image_url": models.ImageURLChunk}
        expected = [kinds[part["type"]] for part in made["content"]]
        assert [type(part) for part in message.content] == expected


def test_calls_come_from_the_sdks_response():
    """The SDK's own completion, its message and its conversation entries give their calls."""
    models = sdk("mistralai.client.models")
    said = {"role": "assistant", "content": "", "tool_calls": [CALL]}
    message = models.AssistantMessage.model_validate(said)
    choice = {"index": 0, "finish_reason": "tool_calls", "message": message.model_dump()}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    about = {"id": "x", "object": "chat.completion", "model": "m", "created": 0, "usage": usage}
    response = models.ChatCompletionResponse.model_validate({**about, "choices": [choice]})
    entry = models.FunctionCallEntry(tool_call_id="c1", name="ping", arguments="{}")
    found = mistral.calls(response)

    assert found == [ToolCall(name="search", arguments='{"query": "cats"}', id="D681PevKs")]
    assert mistral.calls(message) == mistral.calls(response.model_dump()) == found
    assert mistral.calls({"outputs": [entry]}) == [ToolCall(name="ping", arguments="{}", id="c1")]


def test_calls_come_from_the_sdks_stream():
    """A stream over HTTP that brings a call in pieces, put together by the SDK itself, gives the calls."""
    client_of = sdk("mistralai.client").Mistral
    from mistralai.extra.observability.streaming import accumulate_chunks_to_response_dict

    pieces = [
        [{"index": 0, "id": "D681PevKs", "function": {"name": "search", "arguments": '{"query": '}}],
        [{"index": 0, "function": {"name": "", "arguments": '"cats"}'}}, {"index": 1, "id": "D681PevKt", "function": {"name": "ping", "arguments": "{}"}}],
    ]  # fmt: skip
    about = {"id": "x", "object": "chat.completion.chunk", "model": "m", "created": 0}
    events = [
        {**about, "choices": [{"index": 0, "delta": {"tool_calls": piece}, "finish_reason": None}]}
        for piece in pieces
    ]
    made = mistral.definitions(toolset(strict=True).values())
    with (
        serving([], recorded=server_sent(events)) as server,
        client_of(api_key="x", server_url=server.url) as client,
    ):
        talk = [{"role": "user", "content": "go"}]
        with client.chat.stream(model="m", messages=talk, tools=made) as stream:
            chunks = [event.data for event in stream]
    found = mistral.calls(accumulate_chunks_to_response_dict(chunks))

    sent = [tool["function"] for tool in server.requests[0]["tools"]]
    assert sent == [tool["function"] for tool in made]
    assert found == [
        ToolCall(name="search", arguments='{"query": "cats"}', id="D681PevKs"),
        ToolCall(name="ping", arguments="{}", id="D681PevKt"),
    ]
    assert [result.text for result in answers(found)] == ['["cats 0","cats 1"]', "pong"]


def test_a_losses_free_name_is_kept():
    """A name that fits is no loss."""
    assert mistral.losses(FunctionTool(search)) == []
