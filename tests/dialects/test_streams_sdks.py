"""Each provider's own SDK streams from a server on loopback, in pieces cut at every byte, into the dialect's reader."""

import json
import os
import warnings
from typing import Any

import pytest

from functool.dialects import (
    ArgumentsDelta,
    CallReady,
    CallStarted,
    StreamEnded,
    TextDelta,
    anthropic,
    bedrock,
    gemini,
    mistral,
    openai,
    openai_chat,
    xai,
)
from tests.dialects import streaming
from tests.dialects.samples import sdk, toolset
from tests.dialects.streaming import CALLS, SAID

EVENTS = "text/event-stream"
ASKED: list[Any] = [{"role": "user", "content": "go"}]


def openai_client(url: str) -> Any:
    return sdk("openai").OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0)


def anthropic_client(url: str) -> Any:
    return sdk("anthropic").Anthropic(base_url=url, api_key="x", max_retries=0)


def chat_chunks(url: str) -> list[Any]:
    with openai_client(url) as client:
        return [*client.chat.completions.create(model="m", messages=ASKED, stream=True)]


def chat_helper_chunks(url: str) -> list[Any]:
    with (
        openai_client(url) as client,
        client.chat.completions.stream(model="m", messages=ASKED) as stream,
    ):
        return [event.chunk for event in stream if event.type == "chunk"]


def response_events(url: str) -> list[Any]:
    with openai_client(url) as client:
        return [*client.responses.create(model="m", input=ASKED, stream=True)]


def response_helper_events(url: str) -> list[Any]:
    with (
        openai_client(url) as client,
        client.responses.stream(model="m", input=ASKED) as stream,
    ):
        return [*stream]


def message_events(url: str) -> list[Any]:
    with anthropic_client(url) as client:
        return [*client.messages.create(model="m", max_tokens=9, messages=ASKED, stream=True)]


def message_helper_events(url: str) -> list[Any]:
    with (
        anthropic_client(url) as client,
        client.messages.stream(model="m", max_tokens=9, messages=ASKED) as stream,
    ):
        return [*stream]


def generated_chunks(url: str) -> list[Any]:
    genai = sdk("google.genai")
    client = genai.Client(api_key="x", http_options={"base_url": url})
    return [*client.models.generate_content_stream(model="m", contents="go")]


def converse_events(url: str) -> list[Any]:
    config = sdk("botocore.config").Config(retries={"max_attempts": 1})
    client = sdk("boto3").client(
        "bedrock-runtime",
        region_name="us-east-1",
        endpoint_url=url,
        aws_access_key_id="x",
        aws_secret_access_key="x",
        config=config,
    )
    asked = [{"role": "user", "content": [{"text": "go"}]}]
    try:
        return [*client.converse_stream(modelId="m", messages=asked)["stream"]]
    finally:
        client.close()


def mistral_events(url: str) -> list[Any]:
    with sdk("mistralai.client").Mistral(api_key="x", server_url=url) as client:
        return [*client.chat.stream(model="m", messages=ASKED)]


def conversation_events(url: str) -> list[Any]:
    with sdk("mistralai.client").Mistral(api_key="x", server_url=url) as client:
        with warnings.catch_warnings(action="ignore"):  # Its import uses what Python deprecates.
            beta = client.beta
        return [*beta.conversations.start_stream(model="m", inputs="go")]


CHAT = streaming.sse(streaming.chat(), done=True)
RESPONSES = streaming.sse(streaming.responses(), named=True)
MESSAGES = streaming.sse(streaming.messages(), named=True)
SDKS = {
    "openai_chat": (openai_chat, chat_chunks, EVENTS, CHAT, "tool_calls"),
    "openai_chat helper": (openai_chat, chat_helper_chunks, EVENTS, CHAT, "tool_calls"),
    "openai": (openai, response_events, EVENTS, RESPONSES, "completed"),
    "openai helper": (openai, response_helper_events, EVENTS, RESPONSES, "completed"),
    "anthropic": (anthropic, message_events, EVENTS, MESSAGES, "tool_use"),
    "anthropic helper": (anthropic, message_helper_events, EVENTS, MESSAGES, "tool_use"),
    "gemini": (gemini, generated_chunks, EVENTS, streaming.sse(streaming.generated()), "STOP"),
    "bedrock": (
        bedrock,
        converse_events,
        "application/vnd.amazon.eventstream",
        streaming.event_stream(streaming.converse()),
        "tool_use",
    ),
    "mistral": (
        mistral,
        mistral_events,
        EVENTS,
        streaming.sse(streaming.mistral(), done=True),
        "tool_calls",
    ),
    "mistral conversation": (
        mistral,
        conversation_events,
        EVENTS,
        streaming.sse(streaming.conversation(), named=True),
        "done",
    ),
    "xai over openai": (xai, chat_chunks, EVENTS, CHAT, "tool_calls"),
    "xai responses over openai": (xai, response_events, EVENTS, RESPONSES, "completed"),
}


def check(dialect: Any, chunks: list[Any], reason: str, tools: Any = None) -> None:
    """The chunks say what was recorded: nothing is lost, and no call is invented."""
    reader = dialect.StreamReader(tools)
    events = [event for chunk in chunks for event in reader.feed(chunk)]
    calls = reader.calls()
    told = [
        (e.call.name, json.loads(e.call.arguments or "{}"))
        for e in events
        if isinstance(e, CallReady)
    ]

    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == SAID
    assert [(c.name, json.loads(c.arguments or "{}"), c.id) for c in calls] == CALLS
    assert sorted(told, key=str) == sorted(((n, a) for n, a, _ in CALLS), key=str)
    assert [e for e in events if isinstance(e, CallStarted)] == [
        CallStarted(index, name, id) for index, (name, _, id) in enumerate(CALLS)
    ]
    for index, call in enumerate(calls):
        written = [e.text for e in events if isinstance(e, ArgumentsDelta) and e.index == index]
        assert "".join(written) == call.arguments
    assert events[-1] == StreamEnded(reason)


@pytest.mark.parametrize("name", SDKS)
def test_an_sdk_streams_byte_by_byte(name):
    """Every byte is a piece of its own; the SDK's objects, and their dicts, say what was recorded."""
    dialect, read, kind, body, reason = SDKS[name]
    with streaming.streaming(kind, body) as server:
        chunks = read(server.url)
    check(dialect, chunks, reason)
    check(dialect, chunks, reason, toolset())
    if "helper" not in name:  # The helper's own events have no other form.
        dicts = [c if isinstance(c, dict) else c.model_dump(mode="json") for c in chunks]
        check(dialect, dicts, reason)


def test_a_stream_cut_in_two_at_every_byte():
    """One stream in two pieces, cut at each of its bytes, says the same each time."""
    events = [event for event in streaming.chat() if event["choices"]]
    body = streaming.sse(events, done=True)
    step = int(os.environ.get("FUNCTOOL_CUTS_EVERY", "1"))
    with streaming.streaming(EVENTS, body, 0) as server, openai_client(server.url) as client:
        short = streaming.sse([e for e in events if "content" not in e["choices"][0]["delta"]][:4])
        expected = None
        for cut in range(0, len(short), step):
            server.recorded = (EVENTS, short, cut)
            reader = openai_chat.StreamReader()
            stream = client.chat.completions.create(model="m", messages=ASKED, stream=True)
            said = [event for chunk in stream for event in reader.feed(chunk)]
            expected = expected or said
            assert said == expected
    assert expected
