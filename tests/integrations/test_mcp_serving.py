"""Serving: tokens, pages of the list, icons, whole questions, and servers that are served again."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("mcp")

import httpx2
import mcp_types as types
from mcp import Client
from mcp.shared.exceptions import MCPError

from functool import (
    DefinitionError,
    FunctionTool,
    GuardrailError,
    SchemaTool,
    ToolCall,
    Toolset,
    ToolSettings,
    WrapperTool,
)
from functool.dialects import mcp as dialect
from functool.guardrails import redact, require_approval
from functool.integrations import mcp, mcp_serving
from tests.integrations.mcp_ends import (
    SAMPLE,
    brought_in,
    call,
    served,
    served_call,
)
from tests.integrations.mcp_sample import tools
from tests.support import free_port

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
ACCEPT = {"Accept": "application/json, text/event-stream"}
BERLIN = {"name": "Berlin", "people": 3_700_000}


def statuses(app, *headers, host="127.0.0.1:8000"):
    """Send a ping with each of these headers and return the answers."""

    async def main():
        async with app.router.lifespan_context(app):
            transport = httpx2.ASGITransport(app=app)
            async with httpx2.AsyncClient(transport=transport, base_url=f"http://{host}") as client:
                return [
                    await client.post("/mcp", json=PING, headers=[*ACCEPT.items(), *sent])
                    for sent in headers
                ]

    return asyncio.run(main())


def bearer(token):
    return ("Authorization", f"Bearer {token}")


# Keys


def test_a_token_is_wanted():
    """Only requests that bring the token, once and whole, are answered; others are told how."""
    app = mcp.http_app(mcp.server(tools), token="s3cret")
    sent = [
        [bearer("s3cret")],
        [("authorization", "bearer s3cret")],
        [],
        [bearer("s3cre")],
        [bearer("s3cret2")],
        [bearer("")],
        [("Authorization", "s3cret")],
        [("Authorization", "Basic s3cret")],
        [bearer("wrong"), bearer("s3cret")],
    ]
    answers = statuses(app, *sent)

    assert [answer.status_code == 401 for answer in answers] == [False] * 2 + [True] * 7
    assert answers[2].headers["www-authenticate"] == "Bearer"
    assert "Authorization: Bearer TOKEN" in answers[2].text
    assert not any("s3cret" in answer.text for answer in answers)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "tools.example.com", ""])
def test_others_need_a_token(host):
    """A server that others can reach is refused without a token, before it listens."""
    with pytest.raises(ValueError, match="token") as caught:
        mcp.serve(tools, "http", host=host, port=1)

    assert "--token-env" in str(caught.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.7", "localhost", "::1"])
def test_a_local_server_needs_none(host):
    """Whoever listens on this machine alone needs no token."""
    mcp.http_app(mcp.server(tools), host=host)


@pytest.mark.parametrize("token", ["", " ", "two words", "naïve", "line\n", 5])
def test_what_is_no_token(token):
    """A token that a header cannot carry is refused, and so is one for a transport without headers."""
    with pytest.raises(ValueError, match="printable ASCII"):
        mcp.http_app(mcp.server(tools), token=token)
    with pytest.raises(ValueError, match="transport 'http'"):
        mcp.serve(tools, token="t")


def test_names_of_a_server_on_all_addresses():
    """A server on all addresses answers to every name that comes with the token, or to those given."""

    def is_answered(name, **options):
        app = mcp.http_app(mcp.server(tools), host="0.0.0.0", token="t", **options)
        return statuses(app, [bearer("t")], host=name)[0].status_code != 421

    assert is_answered("b.example")
    assert is_answered("a.example", allowed_hosts=["a.example"])
    assert not is_answered("b.example", allowed_hosts=["a.example"])


def test_a_port_in_use_is_said():
    """A port that is taken is an OSError that names it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"port {port} of 127.0.0.1 is in use"):
            mcp.serve(tools, "http", port=port)


@pytest.mark.parametrize(("host", "port"), [("x" * 64, 8000), ("127.0.0.1", 70_000)])
def test_what_is_no_address_is_said(host, port):
    """A name with too long a part, and a number that is no port, are an OSError that names them."""
    with pytest.raises(OSError, match=f"cannot listen on {host}, port {port}"):
        mcp.serve(tools, "http", host=host, port=port, token="t")


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_a_name_that_has_an_address_of_ipv6_only(monkeypatch):
    """The server listens there. A name without any address is an OSError."""
    port = free_port()
    address = (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", port, 0, 0))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **options: [address])

    async def main():
        serving = asyncio.create_task(
            mcp.serve_async(tools, "http", host="six.test", port=port, token="t")
        )
        while not serving.done():
            try:
                socket.create_connection(("::1", port)).close()
                break
            except ConnectionError:
                await asyncio.sleep(0.05)
        serving.cancel()
        return (await asyncio.gather(serving, return_exceptions=True))[0]

    assert not isinstance(asyncio.run(main()), OSError)
    monkeypatch.undo()
    with pytest.raises(OSError, match="cannot listen on nobody.invalid, port"):
        mcp.serve(tools, "http", host="nobody.invalid", port=port, token="t")


def test_a_server_inside_of_a_connection():
    """`serve_async` serves on the loop of the connections whose tools it serves."""

    async def main():
        port = free_port()
        async with mcp.connect(mcp.server([tools["add"]]), prefix="up_") as upstream:
            serving = asyncio.create_task(mcp.serve_async(upstream, "http", port=port, token="t"))
            while not serving.done():
                try:
                    url, headers = f"http://127.0.0.1:{port}/mcp", dict([bearer("t")])
                    async with mcp.connect(url, headers=headers) as toolset:
                        result = await toolset.call(ToolCall(name="up_add", arguments={"a": 1}))
                        break
                except ConnectionError:
                    await asyncio.sleep(0.05)
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            return result

    assert asyncio.run(asyncio.wait_for(main(), 60)).value == 2


def test_a_client_that_stays_does_not_keep_a_server_from_ending(monkeypatch):
    """A server that is stopped waits a moment for a request that never ends, and no longer."""
    monkeypatch.setitem(mcp_serving.LISTENING, "timeout_graceful_shutdown", 1)
    begun = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n{"

    async def main():
        port = free_port()
        serving = asyncio.create_task(mcp.serve_async(tools, "http", port=port))
        writer = None
        while writer is None and not serving.done():
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionError:
                await asyncio.sleep(0.05)
        writer.write(begun.replace(b"127.0.0.1", b"127.0.0.1:%d" % port))
        await writer.drain()
        await asyncio.sleep(0.2)
        serving.cancel()
        await asyncio.wait({serving})
        writer.close()
        return serving.cancelled()

    assert asyncio.run(asyncio.wait_for(main(), 60))


def test_a_call_of_a_stopped_server_ends(mode):
    """A call that runs when its server is stopped may run to its end, and is answered."""

    async def main():
        begun = asyncio.Event()

        @FunctionTool
        async def work() -> str:
            begun.set()
            await asyncio.sleep(1.5)
            return "done"

        port = free_port()
        serving = asyncio.create_task(mcp.serve_async(work, "http", port=port))
        while not serving.done():
            try:
                url = f"http://127.0.0.1:{port}/mcp"
                async with mcp.connect(url, mode=mode) as toolset:
                    calling = asyncio.create_task(toolset.call(ToolCall(name="work")))
                    await begun.wait()
                    serving.cancel()
                    result = await calling
                    break
            except ConnectionError:
                await asyncio.sleep(0.05)
        await asyncio.wait({serving})
        return result

    assert asyncio.run(asyncio.wait_for(main(), 60)).text == "done"


def test_servers_that_end_leave_what_they_found():
    """In whichever order two servers end, the process keeps its streams and its signals after it."""
    status = mcp_serving.AppStatus
    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]

    async def main(order):
        running, seen = [], []
        for port in (free_port(), free_port()):
            running.append(asyncio.create_task(mcp.serve_async([], "http", port=port)))
            while True:
                try:
                    (await asyncio.open_connection("127.0.0.1", port))[1].close()
                    break
                except ConnectionError:
                    await asyncio.sleep(0.05)
        for each in order:
            seen.append(status.enable_automatic_graceful_drain)
            running[each].cancel()
            await asyncio.wait({running[each]})
        return [*seen, status.enable_automatic_graceful_drain]

    for order in ((0, 1), (1, 0)):
        assert asyncio.run(asyncio.wait_for(main(order), 60)) == [False, False, True]
        assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == handlers


def test_a_server_runs_with_an_older_sse_starlette(monkeypatch):
    """The first versions that the SDK takes cannot let streams stay, and serve all the same."""
    monkeypatch.delattr(mcp_serving.AppStatus, "enable_automatic_graceful_drain")

    async def main():
        serving = asyncio.create_task(mcp.serve_async([], "http", port=(port := free_port())))
        while not serving.done():
            try:
                (await asyncio.open_connection("127.0.0.1", port))[1].close()
                serving.cancel()
                await asyncio.wait({serving})
            except ConnectionError:
                await asyncio.sleep(0.05)
        return serving.cancelled()

    assert asyncio.run(asyncio.wait_for(main(), 60))


def test_ctrl_c_ends_a_server_on_standard_input(tmp_path):
    """A program that serves is ended by one SIGINT, although a thread of it waits for a line."""
    program = tmp_path / "kit.py"
    program.write_text("from functool.integrations import mcp\nmcp.serve([])\n")
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}
    hello["clientInfo"] = {"name": "test", "version": "1"}
    first = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, str(program)], **pipes) as server:
        server.stdin.write(json.dumps(first).encode() + b"\n")
        server.stdin.flush()
        server.stdout.readline()
        server.send_signal(signal.SIGINT)
        try:
            assert server.wait(60) == -signal.SIGINT
        finally:
            server.kill()


# The list


def test_pages(mode):
    """A list in pages holds every tool once, in order; a cursor that is none is an error."""
    names = [f"t{number}" for number in range(7)]
    server = mcp.server([FunctionTool(lambda: 1, name=name) for name in names], page_size=3)

    async def pages(client):
        found, cursor = [], None
        while True:
            page = await client.list_tools(cursor=cursor)
            found.append([tool.name for tool in page.tools])
            cursor = page.next_cursor
            if cursor is None:
                break
        with pytest.raises(MCPError) as caught:
            await client.list_tools(cursor="nothing")
        return found, caught.value.code

    async def all_of_them(toolset):
        return list(toolset)

    paged = served(server, pages, mode=mode, cache=None)
    assert paged == ([names[:3], names[3:6], names[6:]], types.INVALID_PARAMS)
    assert brought_in(server, all_of_them, mode=mode) == names


@pytest.mark.parametrize("size", [0, -1, True, 1.5])
def test_what_is_no_page_size(size):
    """A page holds one tool at least."""
    with pytest.raises(DefinitionError, match="page_size"):
        mcp.server(tools, page_size=size)


@pytest.mark.parametrize(
    ("icon", "sent"),
    [
        ("https://a.example/i.png", True),
        ("data:image/png;base64,AA==", True),
        ("🔧", False),
        ("javascript:alert(1)", False),
    ],
)
def test_icons(icon, sent, mode):
    """An icon that is an address is sent, and a trusted server's comes in; others are a loss."""
    tool = FunctionTool(lambda: 1, name="drawn", settings=ToolSettings(icon=icon))
    server = mcp.server([tool])

    async def icon_of(toolset):
        return toolset["drawn"].settings.icon

    [told] = served(server, lambda client: client.list_tools(), mode=mode).tools
    icons = told.icons
    trusted = brought_in(server, icon_of, mode=mode, trusted=True)
    untrusted = brought_in(server, icon_of, mode=mode)

    assert [each.src for each in icons or []] == ([icon] if sent else [])
    assert (trusted, untrusted) == (icon if sent else "", "")
    assert [loss for loss in dialect.losses(tool) if "icon" in loss] == (
        [] if sent else ["drawn: icon: it is no https: or data: address"]
    )


def test_a_wrapped_guard_promises_no_schema(mode):
    """What a guardrail inside of a wrapper may change is promised no more than outside."""

    def pin() -> int:
        return 1234

    tool = WrapperTool(FunctionTool(pin, output_guardrails=[redact([r"\d{4}"])]), name="other")

    async def work(client):
        [told] = (await client.list_tools()).tools
        return told.output_schema, await client.call_tool("other")

    schema, answer = served(mcp.server([tool]), work, mode=mode)

    assert schema is None
    assert answer.is_error is False
    assert answer.structured_content is None


# Approval


class Till:
    """A server of one tool that asks before it pays, and what was asked and paid."""

    def __init__(self):
        self.asked, self.paid = [], []

        def pay(note: Any, amount: int) -> str:
            self.paid.append(amount)
            return f"paid {amount}"

        self.server = mcp.server([FunctionTool(pay, input_guardrails=[require_approval()])])

    def call(self, mode, note, amount):
        def elicit(message, form):
            self.asked.append(message)
            return {"approve": True}

        arguments = {"note": note, "amount": amount}
        return call(self.server, "pay", arguments, mode=mode, elicit=elicit)


def test_padding_hides_nothing(mode):
    """An argument behind a long one is seen by the person who approves, above the long one."""
    till = Till()

    assert till.call(mode, " " * 5_000, 1_000_000).text == "paid 1000000"
    [asked] = till.asked
    shown = json.loads(asked.partition("\n")[2])
    assert shown == {"note": " " * 5_000, "amount": 1_000_000}
    assert asked.index("amount") < asked.index("note")


def test_what_cannot_be_shown_is_not_asked(mode):
    """Arguments that are too long to be seen in whole are refused, and nobody is asked."""
    till = Till()
    result = till.call(mode, " " * 20_000, 1)

    assert "Nobody was asked" in result.error.message
    assert (till.asked, till.paid) == ([], [])


def test_nested_arguments_are_not_made_long(mode):
    """Indentation multiplies neither the work on a question that is too long, nor a short question."""
    till = Till()
    refused = till.call(mode, json.loads("[" + ",".join(["[" * 90 + "]" * 90] * 500) + "]"), 1)
    till.call(mode, json.loads("[" * 90 + "]" * 90), 1)

    assert "the arguments are 91,0" in refused.error.message
    [asked] = till.asked
    assert len(asked) < 10_100 and till.paid == [1]


def test_a_question_holds_no_marks(mode):
    """Escapes and marks of direction in arguments are shown as what they are."""
    till = Till()
    till.call(mode, "\x1b[8m\u202e\x7f", 1)

    assert r"\u001b[8m\u202e\u007f" in till.asked[0]


# Served again


def test_a_proxy_keeps_what_a_tool_promises(mode):
    """A tool that comes in keeps its output schema and its value, over two servers too."""

    names = ("add", "city", "maybe")

    async def main():
        async with mcp.connect(mcp.server(tools), mode=mode) as first:
            async with mcp.connect(mcp.server(first), mode=mode) as second:
                schemas = [second[name].schema.output for name in names]
                calls = [
                    ToolCall(name="add", arguments={"a": 2}),
                    ToolCall(name="city", arguments={"name": "Berlin"}),
                    ToolCall(name="maybe", arguments={"found": False}),
                    ToolCall(name="maybe", arguments={"found": True}),
                ]
                return schemas, [await second.call(call) for call in calls]

    schemas, results = asyncio.run(main())

    assert schemas == [tools[name].schema.output for name in names]
    assert [result.value for result in results] == [3, BERLIN, None, ["found"]]


def test_a_proxy_of_fastmcp():
    """FastMCP's proxy passes on every value of ours: scalars, lists and null."""
    fastmcp = pytest.importorskip("fastmcp")
    from fastmcp.client.transports import StdioTransport
    from fastmcp.server import create_proxy

    async def main():
        proxy = create_proxy(fastmcp.Client(StdioTransport(sys.executable, [SAMPLE])))
        async with fastmcp.Client(proxy) as client:
            calls = [("add", {"a": 2}), ("maybe", {"found": True}), ("maybe", {"found": False})]
            return [(await client.call_tool(*call)).data for call in calls]

    assert asyncio.run(asyncio.wait_for(main(), 120)) == [3, ["found"], None]


def test_a_schema_of_a_strangers_that_breaks():
    """A promise that cannot be checked is an error of the call, not of the server."""
    tool = SchemaTool(
        "odd", "", {"type": "object"}, lambda arguments: {"a": 1}, output={"$ref": "#/nowhere"}
    )

    assert served_call(mcp.server([tool]), "odd").is_error


def test_a_proxy_can_refuse(mode):
    """Guardrails of one's own stand before a server that is served again; new tools appear in it."""

    def only_reads(call, context):
        if call.name.endswith("delete"):
            raise GuardrailError("nothing is deleted here")

    async def main():
        upstream = mcp.server([tools["add"], tools["delete"]])
        options = {"prefix": "up_", "mode": mode, "input_guardrails": [only_reads]}
        async with mcp.connect(upstream, **options) as first:
            server = mcp.server(Toolset(first.values()))
            async with mcp.connect(server, mode=mode) as second:
                delete = ToolCall(name="up_delete", arguments={"path": "x"})
                add = ToolCall(name="up_add", arguments={"a": 1})
                return await second.call(delete), await second.call(add)

    refused, added = asyncio.run(main())

    assert refused.error.message == "nothing is deleted here"
    assert added.value == 2


def test_a_grown_toolset_is_served():
    """A toolset that grows while it is served is listed and called as it is now."""

    upstream = mcp.server([tools["add"]])

    async def proxied(first):
        async with Client(mcp.server(first), cache=None) as client:
            await upstream.replace([tools["add"], tools["city"]])
            while "city" not in first:
                await asyncio.sleep(0.01)
            names = [tool.name for tool in (await client.list_tools()).tools]
            return names, await client.call_tool("city", {"name": "Berlin"})

    names, city = brought_in(upstream, proxied)

    assert names == ["add", "city"]
    assert city.structured_content == BERLIN
