"""Tools on somebody else's server: they live beside its own tools, resources and prompts."""

import asyncio

import pytest

pytest.importorskip("mcp")

import mcp_types as types
from mcp import Client
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError

from functool import Context, DefinitionError, FunctionTool, ToolSettings, Tripwire
from functool.guardrails import require_approval
from functool.integrations import mcp
from functool.integrations.mcp_untrusted import WRAPS
from functool.layers.journal import Journal
from tests.integrations.mcp_sample import tools

OURS = ["add", "city", "delete", "fail", "steps"]


def low_level():
    """Return a low-level server of the SDK's with one tool and one resource."""

    async def list_tools(context, params):
        own = types.Tool(name="own", input_schema={"type": "object"})
        hidden = types.Tool(name="add", description="Theirs.", input_schema={"type": "object"})
        return types.ListToolsResult(tools=[own, hidden])

    async def call_tool(context, params):
        return types.CallToolResult(content=[types.TextContent(text=f"host {params.name}")])

    async def list_resources(context, params):
        return types.ListResourcesResult(resources=[types.Resource(uri="a://b", name="b")])

    handlers = {"on_list_tools": list_tools, "on_call_tool": call_tool}
    return Server("host", on_list_resources=list_resources, **handlers)


def high_level():
    """Return the SDK's high-level server with the same."""
    host = MCPServer("host")

    @host.tool()
    def own() -> str:
        return "host own"

    @host.resource("a://b")
    def b() -> str:
        return "text"

    return host


def fastmcp():
    """Return a FastMCP server with the same."""
    host = pytest.importorskip("fastmcp").FastMCP("host")

    @host.tool
    def own() -> str:
        return "host own"

    @host.resource("a://b")
    def b() -> str:
        return "text"

    return host


hosts = pytest.mark.parametrize("make", [low_level, high_level, fastmcp])


def connected(host, mode, **options):
    """Return a client of the host: FastMCP's servers are reached over ASGI."""
    if isinstance(host, (Server, MCPServer)):
        return Client(host, mode=mode, cache=None, **options)
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    app = host.http_app(path="/mcp")
    transport = httpx2.ASGITransport(app=app)

    class Way:
        async def __aenter__(self):
            self.life = app.router.lifespan_context(app)
            await self.life.__aenter__()
            self.client = httpx2.AsyncClient(transport=transport, base_url="http://localhost")
            self.way = streamable_http_client("http://localhost/mcp", http_client=self.client)
            return await self.way.__aenter__()

        async def __aexit__(self, *error):
            await self.way.__aexit__(*error)
            await self.client.aclose()
            return await self.life.__aexit__(*error)

    return Client(Way(), mode=mode, cache=None, **options)


@hosts
def test_tools_live_beside_a_hosts_own(make, mode):
    """Both are listed and called; values, failures and resources are as they are elsewhere."""
    if make is fastmcp and mode == "auto":
        mode = "legacy"  # The SDK's streams over ASGI wait for each other.

    async def main():
        host = make()
        assert mcp.server([tools[name] for name in OURS], onto=host) is host
        async with connected(host, mode) as client:
            listed = {tool.name: tool for tool in (await client.list_tools()).tools}
            return (
                listed,
                await client.call_tool("add", {"a": 2}),
                await client.call_tool("city", {"name": "Berlin"}),
                await client.call_tool("own", {}),
                await client.call_tool("fail", {}),
                await client.call_tool("add", {"a": "many"}),
                (await client.list_resources()).resources,
            )

    listed, added, city, own, failed, wrong, resources = asyncio.run(asyncio.wait_for(main(), 60))

    assert sorted(listed) == sorted([*OURS, "own"])
    assert listed["add"].description == "Add two numbers."
    assert listed["add"].input_schema == tools["add"].schema.plain
    assert listed["add"].title == "Adder"
    assert listed["add"].meta[WRAPS] is True  # So `connect` unpacks the value.
    assert (added.content[0].text, added.structured_content) == ("3", {"result": 3})
    assert city.structured_content == {"name": "Berlin", "people": 3_700_000}
    assert own.content[0].text == "host own"
    assert (failed.is_error, failed.content[0].text) == (True, "the disk is full")
    assert wrong.is_error
    assert [str(resource.uri) for resource in resources] == ["a://b"]


@hosts
def test_a_tripwire_on_a_host(make):
    """A tripwire is an error of the protocol on every host, and no result that a model reads."""

    def stop(call, context):
        raise Tripwire("stop")

    async def main():
        tool = FunctionTool(lambda: 1, name="one", description="d", input_guardrails=[stop])
        host = mcp.server([tool], onto=make())
        async with connected(host, "legacy") as client:
            with pytest.raises(MCPError, match="^stop$"):
                await client.call_tool("one", {})

    asyncio.run(asyncio.wait_for(main(), 60))


@hosts
def test_a_disabled_tool_is_not_listed_on_a_host(make):
    """A host lists the tools that are enabled for its client."""

    async def main():
        settings = ToolSettings(is_enabled=lambda context: context.deps == "admin")
        hidden = FunctionTool(lambda: 1, name="hidden", description="d", settings=settings)
        host = mcp.server([tools["add"], hidden], onto=make(), context=lambda request: Context())
        async with connected(host, "legacy") as client:
            return {tool.name for tool in (await client.list_tools()).tools}

    assert asyncio.run(asyncio.wait_for(main(), 60)) == {"add", "own"}


@pytest.mark.parametrize("make", [low_level, high_level])
@pytest.mark.parametrize(("action", "ran"), [("accept", ["x"]), ("decline", [])])
def test_approval_on_a_host(make, mode, action, ran):
    """A tool that needs approval asks the host's client, in both eras."""
    done = []

    def delete(path: str) -> str:
        done.append(path)
        return "deleted"

    async def elicit(context, params):
        return types.ElicitResult(action=action, content={"approve": True})

    async def main():
        tool = FunctionTool(delete, input_guardrails=[require_approval()])
        host = mcp.server([tool], onto=make())
        async with connected(host, mode, elicitation_callback=elicit) as client:
            return await client.call_tool("delete", {"path": "x"})

    assert asyncio.run(asyncio.wait_for(main(), 60)).is_error is (ran == [])
    assert done == ran


@pytest.mark.parametrize("make", [low_level, high_level])
def test_a_state_that_the_host_did_not_seal(make):
    """A client cannot write an approval itself: the host's state is sealed."""
    done = []

    def delete(path: str) -> str:
        done.append(path)
        return "deleted"

    async def unused(context, params):
        raise AssertionError("the rounds are driven by hand")

    async def main():
        tool = FunctionTool(delete, input_guardrails=[require_approval()])
        host = mcp.server([tool], onto=make())
        async with Client(host, elicitation_callback=unused) as client:
            call = {"name": "delete", "arguments": {"path": "x"}}
            asked = await client.session.call_tool(**call, allow_input_required=True)
            assert "functool-approval" not in asked.request_state
            forged = 'functool-approval:{"id": "1"}'
            answers = {"approval": types.ElicitResult(action="accept", content={"approve": True})}
            with pytest.raises(Exception, match="requestState"):
                await client.session.call_tool(
                    **call, input_responses=answers, request_state=forged
                )

    asyncio.run(asyncio.wait_for(main(), 60))

    assert done == []


def test_an_empty_host_announces_tools():
    """A host without tools of its own says that it has some now."""

    async def main():
        host = mcp.server(tools["add"], onto=Server("empty"))
        async with Client(host, mode="legacy") as client:
            return client.server_capabilities.tools, await client.call_tool("add", {"a": 1})

    capability, added = asyncio.run(main())

    assert capability is not None
    assert added.structured_content == {"result": 2}


def test_what_is_no_host():
    """Anything else is refused, with what would do; so are a bad name and another's keys."""
    with pytest.raises(TypeError, match="onto must be an SDK Server"):
        mcp.server([], onto=object())
    with pytest.raises(TypeError, match="seals state itself"):
        mcp.server([], onto=MCPServer("x"), keys=[b"k" * 32])
    with pytest.raises(DefinitionError, match="cannot be served"):
        mcp.server([FunctionTool(lambda: 1, name="two words")], onto=Server("x"))


def test_calls_in_one_request_have_ids_of_their_own(tmp_path):
    """A tool of the host that calls a journalled tool twice has it run twice, and gets no stored answer."""
    paid: list[int] = []

    def pay(euros: int) -> int:
        paid.append(euros)
        return len(paid)

    async def main():
        host = mcp.server(
            Journal(tmp_path / "j.db").once([FunctionTool(pay)], "run"), onto=fastmcp()
        )

        @host.tool
        async def twice() -> None:
            for _ in range(2):
                await host.call_tool("pay", {"euros": 1})

        async with connected(host, "legacy") as client:
            return await client.call_tool("twice", {})

    assert not asyncio.run(asyncio.wait_for(main(), 60)).is_error
    assert paid == [1, 1]
