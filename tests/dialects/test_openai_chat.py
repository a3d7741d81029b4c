"""The dialect of OpenAI's Chat Completions API."""

from functool import FunctionTool, ToolCall
from functool.dialects import openai, openai_chat
from tests.dialects.samples import PLAIN, SHOWN, answers, sdk, search, toolset

CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "search", "arguments": '{"query": "cats"}'},
}
PING = {"id": "c2", "type": "function", "function": {"name": "ping", "arguments": ""}}


def test_a_definition_holds_the_same_function_as_the_other_api(strict):
    """The function is that of the Responses API, one level deeper, and says whether it is strict."""
    for tool in toolset(strict).values():
        made, other = openai_chat.definition(tool), openai.definition(tool)

        assert made == {"type": other.pop("type"), "function": other}
        assert made["function"]["strict"] is strict
        assert openai_chat.losses(tool) == openai.losses(tool)


def test_the_losses_are_those_of_a_whole_request():
    """Two tools of one name are a loss of the request."""
    tool = FunctionTool(search)

    assert "request: 2 tools are named 'search'" in openai_chat.losses(tool, tool)


def test_calls_come_from_a_completion_a_message_or_their_dicts():
    """The calls of the first choice become calls; custom tools are passed over."""
    custom = {"id": "c3", "type": "custom", "custom": {"name": "search", "input": "x"}}
    message = {"role": "assistant", "content": None, "tool_calls": [CALL, custom, PING]}
    found = openai_chat.calls(message)

    assert found == [
        ToolCall(name="search", arguments='{"query": "cats"}', id="c1"),
        ToolCall(name="ping", arguments="", id="c2"),
    ]
    choices = [{"message": message}, {"message": {"tool_calls": [PING]}}]
    assert openai_chat.calls({"choices": choices}) == found
    assert openai_chat.calls({"role": "assistant", "content": "hi"}) == []
    assert [result.text for result in answers(found)] == ['["cats 0","cats 1"]', "pong"]


def test_a_result_is_text():
    """A tool message holds text only: an image becomes a placeholder."""
    assert openai_chat.result(PLAIN) == {
        "role": "tool",
        "tool_call_id": "c1",
        "content": "two titles",
    }
    assert openai_chat.result(SHOWN)["content"] == "a cat\n[image/png: 8 bytes]\n"


def test_the_sdk_takes_every_definition(strict):
    """Each definition is one of the SDK's own tools, and nothing of it is unknown there."""
    chat = sdk("openai.types.chat")
    from openai.types.shared_params import FunctionDefinition

    for made in openai_chat.definitions(toolset(strict).values()):
        assert made.keys() == chat.ChatCompletionFunctionToolParam.__annotations__.keys()
        assert made["function"].keys() <= FunctionDefinition.__annotations__.keys()
        tool = chat.ChatCompletionFunctionTool.model_validate(made)
        assert tool.model_dump(exclude_unset=True) == made


def test_the_sdk_takes_every_result(given):
    """Each result is one of the SDK's own tool messages."""
    chat = sdk("openai.types.chat")
    from pydantic import TypeAdapter

    made = openai_chat.result(given)

    assert TypeAdapter(chat.ChatCompletionToolMessageParam).validate_python(made) == made
    assert made.keys() == chat.ChatCompletionToolMessageParam.__annotations__.keys()


def test_calls_come_from_the_sdks_completion():
    """The SDK's own completion, and its message, give their calls."""
    chat = sdk("openai.types.chat")
    message = {"role": "assistant", "content": None, "tool_calls": [CALL, PING]}
    choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
    about = {"id": "x", "created": 0, "model": "m", "object": "chat.completion"}
    completion = chat.ChatCompletion.model_validate({**about, "choices": [choice]})
    found = openai_chat.calls(completion)

    assert [(call.name, call.arguments, call.id) for call in found] == [
        ("search", '{"query": "cats"}', "c1"),
        ("ping", "", "c2"),
    ]
    assert openai_chat.calls(completion.choices[0].message) == found
    assert openai_chat.calls(completion.model_dump()) == found
