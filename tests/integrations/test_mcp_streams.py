"""Resumed streams: a client that lost an answer gets it, and no other client does."""

import asyncio
import json

import pytest

pytest.importorskip("mcp")

from mcp.server.streamable_http import EventMessage, EventStore

from functool import FunctionTool
from functool.integrations import mcp

VERSION = "2025-11-25"
START = {
    "protocolVersion": VERSION,
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


class Memory(EventStore):
    """A store like the one of the SDK's examples: all events of a stream's name, in order."""

    def __init__(self):
        self.events = []

    async def store_event(self, stream_id, message):
        self.events.append((stream_id, message))
        return str(len(self.events) - 1)

    async def replay_events_after(self, last_event_id, send_callback):
        last = int(last_event_id)
        stream = self.events[last][0]
        for number, (name, message) in enumerate(self.events):
            if number > last and name == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


class Client:
    """A client that speaks to an app, and reads the answer event by event."""

    def __init__(self, app):
        self.app = app
        self.session = {}

    async def events(self, method, message=None, **headers):
        """Yield the id and the data of each event."""
        body = b"" if message is None else json.dumps({"jsonrpc": "2.0", **message}).encode()
        given = {"accept": "application/json, text/event-stream", "host": "127.0.0.1:80"}
        given |= {"content-type": "application/json", "mcp-protocol-version": VERSION}
        scope = {"type": "http", "method": method, "path": "/mcp", "query_string": b""}
        sent = {**given, **self.session, **headers}
        scope["headers"] = [(name.encode(), value.encode()) for name, value in sent.items()]
        parts = asyncio.Queue()
        asked = asyncio.Queue()
        asked.put_nowait({"type": "http.request", "body": body})
        running = asyncio.create_task(self.app(scope, asked.get, parts.put))
        running.add_done_callback(lambda done: parts.put_nowait(None))
        try:
            while part := await parts.get():
                for name, value in part.get("headers", ()):
                    if name == b"mcp-session-id":
                        self.session["mcp-session-id"] = value.decode()
                lines = part.get("body", b"").decode().splitlines()
                fields = dict(line.split(": ", 1) for line in lines if ": " in line)
                if "data" in fields:
                    yield fields.get("id"), fields["data"]
        finally:
            running.cancel()
            await asyncio.wait([running])

    async def ask(self, number, method, **params):
        """Make a request, and return the events of its answer."""
        message = {"id": number, "method": method, "params": params}
        return [event async for event in self.events("POST", message)]

    async def resumed(self, last):
        """Return the first event of a stream that is resumed, or None if it has none."""
        async for event in self.events("GET", **{"last-event-id": last}):
            return event
        return None


async def two_clients(work):
    def secret(of: str) -> str:
        return f"the secret of {of}"

    app = mcp.server([FunctionTool(secret)]).streamable_http_app(event_store=Memory())
    async with app.router.lifespan_context(app):
        clients = {}
        for name in ("max", "ada"):
            client = clients[name] = Client(app)
            await client.ask(1, "initialize", **START)
            call = {"name": "secret", "arguments": {"of": name}}
            client.answer = await client.ask(2, "tools/call", **call)
        return await work(clients["max"], clients["ada"])


def test_a_client_gets_the_answer_that_it_lost():
    """After the event that came before its answer, a client gets the answer again."""

    async def work(other, own):
        (first, _), (id, answer) = own.answer
        return await own.resumed(first) == (id, answer), answer

    same, answer = asyncio.run(two_clients(work))

    assert same
    assert "the secret of ada" in answer


def test_a_client_does_not_get_the_answer_of_another():
    """A request of the same number of another session has another stream, in one store for all."""

    async def work(other, own):
        return await other.resumed(other.answer[-1][0])

    assert "secret" not in asyncio.run(two_clients(work))[1]


def test_a_client_cannot_resume_the_stream_of_another():
    """A client that guesses the number of another's event gets nothing."""

    async def work(other, own):
        return await other.resumed(own.answer[0][0])

    assert asyncio.run(two_clients(work)) is None
