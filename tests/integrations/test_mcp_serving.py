"""Serving: tokens, pages of the list, icons, whole questions, and servers that are served again."""

import asyncio
import json
import sys
from pathlib import Path

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
from functool.guardrails import redact, require_approval
from functool.integrations import mcp
from tests.integrations.mcp_sample import tools
from tests.support import free_port

SAMPLE = [sys.executable, str(Path(__file__).parent / "mcp_sample.py")]
both_eras = pytest.mark.parametrize("mode", ["auto", "legacy"])
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
ACCEPT = {"Accept": "application/json, text/event-stream"}


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


@pytest.mark.parametrize("token", ["", " ", "two words", "naïve", "line\n"])
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
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"port {port} of 127.0.0.1 is in use"):
            mcp.serve(tools, "http", port=port)


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


# The list


@both_eras
def test_pages(mode):
    """A list in pages holds every tool once, in order; a cursor that is none is an error."""
    names = [f"t{number}" for number in range(7)]
    server = mcp.server([FunctionTool(lambda: 1, name=name) for name in names], page_size=3)

    async def main():
        async with Client(server, mode=mode, cache=None) as client:
            pages, cursor = [], None
            while True:
                page = await client.list_tools(cursor=cursor)
                pages.append([tool.name for tool in page.tools])
                cursor = page.next_cursor
                if cursor is None:
                    break
            with pytest.raises(MCPError) as caught:
                await client.list_tools(cursor="nothing")
        async with mcp.connect(server, mode=mode) as toolset:
            return pages, caught.value.code, list(toolset)

    assert asyncio.run(main()) == ([names[:3], names[3:6], names[6:]], types.INVALID_PARAMS, names)


@pytest.mark.parametrize("size", [0, -1, True, 1.5])
def test_what_is_no_page_size(size):
    """A page holds one tool at least."""
    with pytest.raises(DefinitionError, match="page_size"):
        mcp.server(tools, page_size=size)


@both_eras
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
    from functool.dialects import mcp as dialect

    tool = FunctionTool(lambda: 1, name="drawn", settings=ToolSettings(icon=icon))

    async def main():
        async with Client(mcp.server([tool]), mode=mode) as client:
            [told] = (await client.list_tools()).tools
        async with mcp.connect(mcp.server([tool]), mode=mode, trusted=True) as trusted:
            async with mcp.connect(mcp.server([tool]), mode=mode) as untrusted:
                return told.icons, trusted["drawn"].settings.icon, untrusted["drawn"].settings.icon

    icons, trusted, untrusted = asyncio.run(main())

    assert [each.src for each in icons or []] == ([icon] if sent else [])
    assert (trusted, untrusted) == (icon if sent else "", "")
    assert [loss for loss in dialect.losses(tool) if "icon" in loss] == (
        [] if sent else ["drawn: icon: it is no https: or data: address"]
    )


@both_eras
def test_a_wrapped_guard_promises_no_schema(mode):
    """What a guardrail inside of a wrapper may change is promised no more than outside."""

    def pin() -> int:
        return 1234

    tool = WrapperTool(FunctionTool(pin, output_guardrails=[redact([r"\d{4}"])]), name="other")

    async def main():
        async with Client(mcp.server([tool]), mode=mode) as client:
            [told] = (await client.list_tools()).tools
            return told.output_schema, await client.call_tool("other")

    schema, answer = asyncio.run(main())

    assert schema is None
    assert answer.is_error is False
    assert answer.structured_content is None


# Approval


@both_eras
def test_padding_hides_nothing(mode):
    """An argument behind a long one is seen by the person who approves, above the long one."""
    asked = []

    def pay(note: str, amount: int) -> str:
        return f"paid {amount}"

    def elicit(message, form):
        asked.append(message)
        return {"approve": True}

    async def main():
        server = mcp.server([FunctionTool(pay, input_guardrails=[require_approval()])])
        async with mcp.connect(server, mode=mode, elicit=elicit) as toolset:
            arguments = {"note": " " * 5_000, "amount": 1_000_000}
            return await toolset.call(ToolCall(name="pay", arguments=arguments))

    assert asyncio.run(main()).text == "paid 1000000"
    shown = json.loads(asked[0].partition("\n")[2])
    assert shown == {"note": " " * 5_000, "amount": 1_000_000}
    assert asked[0].index("amount") < asked[0].index("note")


@both_eras
def test_what_cannot_be_shown_is_not_asked(mode):
    """Arguments that are too long to be seen in whole are refused, and nobody is asked."""
    asked, ran = [], []

    def pay(note: str, amount: int) -> str:
        ran.append(amount)
        return "paid"

    async def main():
        server = mcp.server([FunctionTool(pay, input_guardrails=[require_approval()])])
        elicit = lambda message, form: asked.append(message) or {"approve": True}  # noqa: E731
        async with mcp.connect(server, mode=mode, elicit=elicit) as toolset:
            arguments = {"note": " " * 20_000, "amount": 1}
            return await toolset.call(ToolCall(name="pay", arguments=arguments))

    result = asyncio.run(main())

    assert "Nobody was asked" in result.error.message
    assert (asked, ran) == ([], [])


@both_eras
def test_a_question_holds_no_marks(mode):
    """Escapes and marks of direction in arguments are shown as what they are."""
    asked = []

    def pay(name: str) -> str:
        return name

    async def main():
        server = mcp.server([FunctionTool(pay, input_guardrails=[require_approval()])])
        elicit = lambda message, form: asked.append(message)  # noqa: E731
        async with mcp.connect(server, mode=mode, elicit=elicit) as toolset:
            await toolset.call(ToolCall(name="pay", arguments={"name": "\x1b[8m\u202e\x7f"}))

    asyncio.run(main())

    assert r"\u001b[8m\u202e\u007f" in asked[0]


# Served again


@both_eras
def test_a_proxy_keeps_what_a_tool_promises(mode):
    """A tool that comes in keeps its output schema and its value, over two servers too."""

    async def main():
        async with mcp.connect(mcp.server(tools), mode=mode) as first:
            async with mcp.connect(mcp.server(first), mode=mode) as second:
                schemas = [second[name].schema.output for name in ("add", "city", "maybe")]
                calls = [
                    ToolCall(name="add", arguments={"a": 2}),
                    ToolCall(name="city", arguments={"name": "Berlin"}),
                    ToolCall(name="maybe", arguments={"found": False}),
                    ToolCall(name="maybe", arguments={"found": True}),
                ]
                return schemas, [await second.call(call) for call in calls]

    schemas, results = asyncio.run(main())

    assert schemas == [tools[name].schema.output for name in ("add", "city", "maybe")]
    assert [result.value for result in results] == [
        3,
        {"name": "Berlin", "people": 3_700_000},
        None,
        ["found"],
    ]


def test_a_proxy_of_fastmcp():
    """FastMCP's proxy passes on every value of ours: scalars, lists and null."""
    fastmcp = pytest.importorskip("fastmcp")
    from fastmcp.client.transports import StdioTransport
    from fastmcp.server import create_proxy

    async def main():
        proxy = create_proxy(fastmcp.Client(StdioTransport(SAMPLE[0], SAMPLE[1:])))
        async with fastmcp.Client(proxy) as client:
            return [
                (await client.call_tool(name, arguments)).data
                for name, arguments in [
                    ("add", {"a": 2}),
                    ("maybe", {"found": True}),
                    ("maybe", {"found": False}),
                ]
            ]

    assert asyncio.run(asyncio.wait_for(main(), 120)) == [3, ["found"], None]


def test_a_schema_of_a_strangers_that_breaks():
    """A promise that cannot be checked is an error of the call, not of the server."""
    tool = SchemaTool(
        "odd", "", {"type": "object"}, lambda arguments: {"a": 1}, output={"$ref": "#/nowhere"}
    )

    async def main():
        async with Client(mcp.server([tool])) as client:
            return await client.call_tool("odd")

    assert asyncio.run(main()).is_error


@both_eras
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
                calls = [
                    ToolCall(name="up_delete", arguments={"path": "x"}),
                    ToolCall(name="up_add", arguments={"a": 1}),
                ]
                return [await second.call(call) for call in calls]

    refused, added = asyncio.run(main())

    assert refused.error.message == "nothing is deleted here"
    assert added.value == 2


def test_a_grown_toolset_is_served():
    """A toolset that grows while it is served is listed and called as it is now."""

    async def main():
        upstream = mcp.server([tools["add"]])
        async with mcp.connect(upstream) as first:
            async with Client(mcp.server(first), cache=None) as client:
                await upstream.replace([tools["add"], tools["city"]])
                while "city" not in first:
                    await asyncio.sleep(0.01)
                names = [tool.name for tool in (await client.list_tools()).tools]
                return names, await client.call_tool("city", {"name": "Berlin"})

    names, city = asyncio.run(asyncio.wait_for(main(), 60))

    assert names == ["add", "city"]
    assert city.structured_content == {"name": "Berlin", "people": 3_700_000}
