"""The clients of OpenAI and Anthropic over HTTP: tools out, calls in, results out, against a server that checks them."""

import asyncio
from contextlib import contextmanager

import pytest

from functool import FunctionTool, ImageContent, SchemaTool, Toolset
from functool.dialects import anthropic, openai, openai_chat
from tests.dialects.loopback import serving
from tests.dialects.samples import PNG, sdk, toolset


def picture(title: str) -> ImageContent:
    """Show a picture."""
    return ImageContent(data=PNG)


def broken() -> str:
    """Fail."""
    raise RuntimeError("out of order")


IDS = ["c1", "c2", "c3", "c4", "c5"]
GO = {"role": "user", "content": "go"}
CALLS = [
    ("c1", "search", {"query": "cats", "limit": 1}),
    ("c2", "ping", {}),
    ("c3", "picture", {"title": "a cat"}),
    ("c4", "broken", {}),
    ("c5", "search", {"limit": "many"}),
]


def tools(strict: bool) -> Toolset:
    functions = [FunctionTool(function, strict=strict) for function in (picture, broken)]
    return toolset(strict) | Toolset(functions)


@contextmanager
def connected(client_of, path="", calls=CALLS):
    """A server that makes these calls, and a provider's own client of it."""
    with serving(calls) as server:
        url = f"{server.url}{path}"
        with client_of(base_url=url, api_key="x", max_retries=0) as client:
            yield server, client


def answered(box, calls):
    """The results of the five calls."""
    assert [call.id for call in calls] == IDS
    return asyncio.run(box.call_all(calls))


@pytest.fixture(params=[False, True], ids=["whole", "stream"])
def stream(request):
    return request.param


def check_texts(texts: list[str]) -> None:
    """The five answers, as a model reads them."""
    assert texts[:2] == ['["cats 0"]', "pong"]
    assert texts[3] == "RuntimeError: out of order"
    assert texts[4].startswith("Invalid arguments. ")
    assert "query" in texts[4]


def test_a_turn_over_the_responses_api(strict, stream):
    """The Responses client sends the tools, the calls that come back run, and the server takes their results."""
    box = tools(strict)
    asked = {"model": "m", "tools": openai.definitions(box.values())}
    with connected(sdk("openai").OpenAI, "/v1") as (server, client):
        if stream:
            with client.responses.stream(input=[GO], **asked) as events:
                response = events.get_final_response()
        else:
            response = client.responses.create(input=[GO], **asked)
        results = answered(box, openai.calls(response))
        items = [
            item.model_dump(exclude_unset=True, exclude={"parsed_arguments"})
            for item in response.output
        ]
        outputs = [openai.result(result) for result in results]
        final = client.responses.create(input=[GO, *items, *outputs], **asked)

    assert final.output_text == "done"
    assert outputs[2]["output"][0]["type"] == "input_image"
    check_texts([output["output"] for output in outputs])
    assert server.requests[0]["tools"] == asked["tools"]


def test_a_turn_over_chat_completions(strict, stream):
    """The chat client sends the tools, the calls that come back run, and the server takes their results."""
    box = tools(strict)
    asked = {"model": "m", "tools": openai_chat.definitions(box.values())}
    with connected(sdk("openai").OpenAI, "/v1") as (_, client):
        chat = client.chat.completions
        if stream:
            states = sdk("openai.lib.streaming.chat")
            state = states.ChatCompletionStreamState(input_tools=asked["tools"])
            for chunk in chat.create(messages=[GO], stream=True, **asked):
                state.handle_chunk(chunk)
            completion = state.get_final_completion()
        else:
            completion = chat.create(messages=[GO], **asked)
        results = answered(box, openai_chat.calls(completion))
        entries = [
            {
                "id": call.id,
                "type": call.type,
                "function": {"name": call.function.name, "arguments": call.function.arguments},
            }
            for call in completion.choices[0].message.tool_calls
        ]
        message = {"role": "assistant", "content": None, "tool_calls": entries}
        outputs = [openai_chat.result(result) for result in results]
        final = chat.create(messages=[GO, message, *outputs], **asked)

    assert final.choices[0].message.content == "done"
    assert outputs[2]["content"] == "[image/png: 8 bytes]"
    check_texts([output["content"] for output in outputs])


def test_a_turn_over_the_messages_api(strict, stream):
    """The Anthropic client sends the tools, the calls that come back run, and the server takes their results."""
    box = tools(strict)
    asked = {"model": "m", "max_tokens": 10, "tools": anthropic.definitions(box.values())}
    with connected(sdk("anthropic").Anthropic) as (server, client):
        if stream:
            with client.messages.stream(messages=[GO], **asked) as events:
                message = events.get_final_message()
        else:
            message = client.messages.create(messages=[GO], **asked)
        results = answered(box, anthropic.calls(message))
        outputs = [anthropic.result(result) for result in results]
        blocks = [block.model_dump(exclude_unset=True) for block in message.content]
        talk = [
            GO,
            {"role": "assistant", "content": blocks},
            {"role": "user", "content": outputs},
        ]
        final = client.messages.create(messages=talk, **asked)

    assert final.content[0].text == "done"
    assert outputs[2]["content"][0]["source"]["media_type"] == "image/png"
    assert [output["is_error"] for output in outputs] == [False, False, False, True, True]
    check_texts([output["content"] for output in outputs])
    stricts = [tool["strict"] for tool in server.requests[0]["tools"]]
    assert stricts.count(True) == (5 if strict else 0)


def test_the_server_refuses_what_the_providers_would():
    """What a dialect would not send is answered with 400, so the tests above can fail."""
    library = sdk("openai")
    schema = {
        "type": "object",
        "properties": {"a": {"type": "array"}},
        "additionalProperties": False,
        "required": ["a"],
    }
    tool = openai.definition(SchemaTool("made", "", schema, dict))
    with connected(library.OpenAI, "/v1", []) as (_, client):
        client.responses.create(model="m", input="hi", tools=[tool])
        for wrong, said in [
            ({**tool, "name": "a.b"}, "name a.b"),
            ({**tool, "parameters": schema}, "array schema missing items"),
            (
                {**tool, "strict": True, "parameters": {**tool["parameters"], "required": []}},
                "every property must be required",
            ),
        ]:
            with pytest.raises(library.BadRequestError, match=said):
                client.responses.create(model="m", input="hi", tools=[wrong])
        results = [{"type": "function_call_output", "call_id": "c9", "output": "x"}]
        with pytest.raises(library.BadRequestError, match="have the results"):
            client.responses.create(model="m", input=results)


def test_the_server_refuses_what_anthropic_would():
    """A keyword that the strict grammar lacks, and an image in a failure, are answered with 400."""
    library = sdk("anthropic")
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer", "minimum": 1}},
        "additionalProperties": False,
    }
    tool = {"name": "made", "description": "x", "input_schema": schema}
    use = {"type": "tool_use", "id": "c1", "name": "picture", "input": {"title": "x"}}
    image = anthropic.result(asyncio.run(tools(False).call(anthropic.calls([use])[0])))
    with connected(library.Anthropic, calls=[]) as (_, client):
        asked = {"model": "m", "max_tokens": 10}
        client.messages.create(messages=[GO], tools=[tool], **asked)
        with pytest.raises(library.BadRequestError, match="minimum is not supported"):
            client.messages.create(messages=[GO], tools=[{**tool, "strict": True}], **asked)
        failed = {"role": "user", "content": [{**image, "is_error": True}]}
        with pytest.raises(library.BadRequestError, match="all content must be"):
            client.messages.create(messages=[failed], **asked)
