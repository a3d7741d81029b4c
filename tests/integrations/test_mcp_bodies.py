"""Requests over HTTP that would take the SDK seconds to check."""

import asyncio
import gc
import json

import httpx2
import pytest

pytest.importorskip("mcp")

from mcp.server.lowlevel import Server

from functool import FunctionTool
from functool.integrations import mcp
from functool.integrations.mcp_bodies import SMALL, bound_requests, has_too_many

LATEST = "2026-07-28"
MANY = 20_000
NAMED = {f"{number:x}": {} for number in range(MANY)}
ACCEPT = {
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
    "Host": "127.0.0.1:8000",
}
CLIENT = "io.modelcontextprotocol/clientInfo"


@FunctionTool
def total(numbers: list[int]) -> int:
    """Add numbers."""
    return sum(numbers)


def sent(arguments=None, client=None, **more):
    """Return the params of a call in the latest revision."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": LATEST,
        CLIENT: {"name": "test", "version": "1", **(client or {})},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    return {"name": "total", "arguments": arguments or {"numbers": [1]}, "_meta": meta, **more}


def posted(app, *bodies):
    """Post bodies to an app, and return the answers."""

    async def main():
        transport = httpx2.ASGITransport(app=app)
        headers = {
            **ACCEPT,
            "MCP-Protocol-Version": LATEST,
            "Mcp-Method": "tools/call",
            "Mcp-Name": "total",
        }
        async with (
            app.router.lifespan_context(app),
            httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client,
        ):
            return [await client.post("/mcp", content=body, headers=headers) for body in bodies]

    return asyncio.run(main())


def called(**params):
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": sent(**params)}
    return json.dumps(message).encode()


BODIES = {
    "responses": called(inputResponses=NAMED),
    "icons": called(client={"icons": [0] * MANY}),
    "surrogate": called(inputResponses=NAMED, more="\ud800"),
    "list": json.dumps([{}] * MANY).encode(),
    "arguments": called(arguments={"numbers": [[]] * 600_000}),
    "params": json.dumps({"method": "notifications/progress", "params": [0] * MANY}).encode(),
    "prompt": json.dumps({"method": "prompts/get", "params": {"arguments": NAMED}}).encode(),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_request_with_too_many_values_is_refused(name):
    """Wherever the values are, the SDK does not get to check them, and the server goes on."""
    refused, answered = posted(mcp.http_app(mcp.server(total)), BODIES[name], called())

    assert refused.status_code == 413
    assert "524,288 JSON values in the arguments of a tool, and 10,000 beside" in refused.text
    assert answered.json()["result"]["content"][0]["text"] == "1"


@pytest.mark.parametrize("made", ["http_app", "own", "sdk"])
def test_every_app_of_a_server_refuses_it(made):
    """Also the app that the server makes itself, and that of an SDK server with tools added."""
    server = mcp.server(total, **({"onto": Server("host")} if made == "sdk" else {}))
    app = server.streamable_http_app() if made == "own" else mcp.http_app(server)
    (refused,) = posted(app, BODIES["responses"])

    assert refused.status_code == 413


def test_the_arguments_of_a_tool_may_have_many_values():
    """The tool limits its arguments itself, so a long list is summed."""
    (answered,) = posted(
        mcp.http_app(mcp.server(total)), called(arguments={"numbers": [1] * 4 * MANY})
    )

    assert answered.json()["result"]["content"][0]["text"] == str(4 * MANY)


def test_a_stranger_makes_no_work(monkeypatch):
    """Without its token a request is refused before its values are counted."""
    counted = []
    monkeypatch.setattr(
        "functool.integrations.mcp_bodies.has_too_many", lambda body: counted.append(body)
    )
    (refused,) = posted(mcp.http_app(mcp.server(total), token="secret"), BODIES["responses"])

    assert refused.status_code == 401
    assert counted == []


def test_a_body_arrives_whole():
    """A body in pieces, one that is no JSON and one that is too long reach the SDK as they are."""
    long = called(arguments={"numbers": [1], "text": "x" * 5_000_000})

    async def pieces():
        for piece in (b"{" + b" " * SMALL, b'"jsonrpc": ', b'"2.0"'):
            yield piece

    broken, refused = posted(mcp.http_app(mcp.server(total)), pieces(), long)

    assert broken.status_code == 400
    assert broken.json()["error"]["message"] == "Parse error"
    assert refused.status_code == 413
    assert refused.text == "Request body too large"


def test_a_client_that_leaves_is_noticed():
    """A request that ends in the middle reaches the app as the end that it is."""
    heard = []

    async def inner(scope, receive, send):
        heard.append(await receive())

    async def main():
        server = Server("host")
        server.streamable_http_app()
        server.session_manager.asgi_app = inner
        bound_requests(server)
        messages = [
            {"type": "http.request", "body": b"{", "more_body": True},
            {"type": "http.disconnect"},
        ]

        async def receive():
            return messages.pop(0)

        await server.session_manager.asgi_app({"type": "http", "method": "POST"}, receive, None)

    asyncio.run(main())

    assert heard == [{"type": "http.disconnect"}]


def test_values_are_counted_once():
    """A request may have exactly the number, in lists and objects together."""
    fits = {"a": [0] * 5_000, "b": {str(number): 0 for number in range(4_998)}}

    assert not has_too_many(json.dumps(fits).encode())
    assert has_too_many(json.dumps({**fits, "c": 0}).encode())


def test_the_collector_rests_while_a_large_request_is_looked_at(monkeypatch):
    """Otherwise it would look through the objects of the whole process again and again."""
    load, paused = json.loads, []

    def loads(text):
        paused.append(not gc.isenabled())
        return load(text)

    monkeypatch.setattr(json, "loads", loads)

    assert not has_too_many(called(arguments={"numbers": [[]] * MANY}))
    assert paused == [True]


def test_arguments_have_as_many_values_as_a_tool_takes():
    """No arguments that a tool takes by default are refused for their number of values."""
    deep = "[" * 90 + "]" * 90
    most = json.loads("[" + ",".join([deep] * (1_048_576 // len(deep) - 33)) + "]")

    assert not has_too_many(called(arguments={"numbers": most}))
