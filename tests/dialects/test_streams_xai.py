"""xAI's SDK streams over gRPC from a server on loopback, through a proxy that passes on one byte at a time."""

import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from functool.dialects import StreamEnded, TextDelta, xai
from tests.dialects.samples import sdk
from tests.dialects.streaming import CALLS, SAID, arguments, parts


def recorded() -> list[Any]:
    """Reasoning, a search at the provider and its output, text, and whole calls in two chunks."""
    pb2 = sdk("xai_sdk.proto").chat_pb2
    assistant, tool = pb2.MessageRole.ROLE_ASSISTANT, pb2.MessageRole.ROLE_TOOL
    server, client = pb2.TOOL_CALL_TYPE_WEB_SEARCH_TOOL, pb2.TOOL_CALL_TYPE_CLIENT_SIDE_TOOL

    def chunk(index: int = 2, reason: int = 0, role: Any = assistant, **delta: Any) -> Any:
        made = pb2.Delta(role=role, **delta)
        output = pb2.CompletionOutputChunk(index=index, delta=made, finish_reason=reason)
        return pb2.GetChatCompletionChunk(id="x1", model="m", outputs=[output])

    def call(kind: Any, name: str, id: str, text: str) -> Any:
        return pb2.ToolCall(id=id, type=kind, function=pb2.FunctionCall(name=name, arguments=text))

    calls = [call(client, name, id, arguments(i) or "{}") for i, (name, _, id) in enumerate(CALLS)]
    return [
        chunk(0, reasoning_content="hm"),
        chunk(0, reason=4, tool_calls=[call(server, "web_search", "s1", '{"query": "x"}')]),
        chunk(1, role=tool, content="found"),
        *(chunk(content=piece) for piece in parts(SAID)),
        chunk(tool_calls=calls[:1]),
        chunk(tool_calls=calls[1:]),
        chunk(reason=4),
    ]


@contextmanager
def serving() -> Any:
    """A gRPC server that streams what is recorded."""
    grpc, chat = sdk("grpc"), sdk("xai_sdk.proto").chat_pb2_grpc

    class Chat(chat.ChatServicer):
        def GetCompletionChunk(self, request: Any, context: Any) -> Any:
            yield from recorded()

    server = grpc.server(ThreadPoolExecutor(2))
    chat.add_ChatServicer_to_server(Chat(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield port
    finally:
        server.stop(0).wait()


@contextmanager
def byte_by_byte(port: int) -> Any:
    """A proxy in front of a port; what the server sends arrives in pieces of one byte."""
    listener = socket.create_server(("127.0.0.1", 0))

    def pump(source: socket.socket, target: socket.socket, size: int) -> None:
        try:
            while data := source.recv(size):
                target.sendall(data)
        except OSError:
            pass
        finally:
            target.close()

    def accept() -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            far = socket.create_connection(("127.0.0.1", port))
            for job in ((near, far, 65_536), (far, near, 1)):
                threading.Thread(target=pump, args=job, daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)


def streamed() -> list[Any]:
    """What the SDK yields."""
    client_of = sdk("xai_sdk").Client
    with serving() as port, byte_by_byte(port) as proxy:
        client = client_of(api_key="x", api_host=f"127.0.0.1:{proxy}", use_insecure_channel=True)
        chat = client.chat.create(model="m", messages=[sdk("xai_sdk.chat").user("go")])
        pairs = [*chat.stream()]
        client.close()
    return pairs


@pytest.fixture(scope="module")
def pairs() -> list[Any]:
    return streamed()


def test_the_sdk_streams_byte_by_byte(pairs):
    """Pairs of response and chunk, chunks and their protos say the same; a search at xAI is no call of ours."""
    json_format = sdk("google.protobuf.json_format")
    chunks = [chunk for _, chunk in pairs]
    protos = [chunk.proto for chunk in chunks]
    for given in (pairs, chunks, protos, [json_format.MessageToDict(one) for one in protos]):
        reader = xai.StreamReader()
        events = [event for chunk in given for event in reader.feed(chunk)]

        assert "".join(e.text for e in events if isinstance(e, TextDelta)) == SAID
        assert [(c.name, json.loads(c.arguments), c.id) for c in reader.calls()] == CALLS
        assert events[-1] == StreamEnded("TOOL_CALLS")


def test_the_final_response_holds_the_same_calls(pairs):
    """What `calls` reads from the SDK's final response is what the reader collected."""
    reader = xai.StreamReader()
    for pair in pairs:
        reader.feed(pair)

    assert xai.calls(pairs[-1][0]) == reader.calls()
