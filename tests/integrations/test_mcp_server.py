"""Serving over MCP: what the SDK's own client sees, over each transport and in both eras of the protocol."""

import asyncio
import base64
import math
import subprocess
import sys
from contextlib import AsyncExitStack
from threading import current_thread, main_thread
from typing import Any

import pytest

pytest.importorskip("mcp")

import httpx2
import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, Field

from functool import (
    ApprovalRequired,
    Context,
    DefinitionError,
    FunctionTool,
    ToolCall,
    ToolResult,
    Toolset,
    ToolSettings,
    Tripwire,
    WrapperTool,
)
from functool.guardrails import redact, require_approval
from functool.integrations import mcp, mcp_handlers
from functool.integrations.mcp_served import Served
from functool.layers.catalog import Catalog
from functool.layers.journal import Journal
from tests.integrations.mcp_ends import (
    ROOT,
    SAMPLE,
    accepting,
    sample_over_http,
    served,
    served_call,
    texts,
)
from tests.integrations.mcp_sample import PNG, tools

LATEST, OLDER = "2026-07-28", "2025-11-25"
WAYS = [
    (transport, mode) for transport in ("memory", "stdio", "http") for mode in ("auto", "legacy")
]


@pytest.fixture(params=WAYS, ids=lambda way: f"{way[0]}-{way[1]}")
def way(request):
    """Each transport, in each era."""
    return request.param


ACCEPT = {"Accept": "application/json, text/event-stream"}

ODD = """
from functool import Context, FileContent, FunctionTool, Tripwire
from functool.integrations import mcp

@FunctionTool
def odd(context: Context):
    context.progress("half\\ud800", float("nan"))
    return [FileContent(data=b"hi", name="\\ud800.txt", media_type="text/plain"), FileContent(uri="\\ud800", name="\\ud800")]

def refuse(call, context):
    raise Tripwire("stop\\ud800")

mcp.serve([odd, FunctionTool(lambda: 1, name="stop", input_guardrails=[refuse])])
"""


class City(BaseModel):
    name: str = Field(alias="theName")


@pytest.fixture(scope="module")
def url():
    """The address of the sample server over HTTP."""
    with sample_over_http() as (address, _):
        yield address


@pytest.fixture
def during(way, url):
    """A function that connects the SDK's client in the way that is tested, and does something with it."""
    transport, mode = way
    command = StdioServerParameters(command=sys.executable, args=[SAMPLE], cwd=ROOT)
    target = {"memory": mcp.server(tools), "stdio": command, "http": url}[transport]
    return lambda work, **options: served(target, work, mode=mode, **options)


async def told(client):
    """What the bodies of the sample server have noted."""
    return texts(await client.call_tool("told"))[0]


async def names(client):
    return [tool.name for tool in (await client.list_tools(cache_mode="refresh")).tools]


def test_lists_what_is_enabled_in_order(during):
    """The list holds the enabled tools in the order of the toolset, each time."""

    async def twice(client):
        return [await names(client) for _ in range(2)]

    first, second = during(twice)

    assert first == second == [name for name in tools if name != "hidden"]


def test_tells_what_a_tool_is(during):
    """A definition holds description, schemas, title and hints."""
    told = during(lambda client: client.list_tools()).tools[0]
    hints = told.annotations

    assert (told.name, told.title) == ("add", "Adder")
    assert told.description == "Add two numbers."
    assert told.input_schema == tools["add"].schema.plain
    assert told.output_schema == {
        "type": "object",
        "properties": {"result": {"type": "integer"}},
        "required": ["result"],
    }
    assert (hints.read_only_hint, hints.destructive_hint) == (True, False)
    assert hints.idempotent_hint is True


def test_structured_content_beside_text(during):
    """A value goes out as text and as content that fits the output schema, in an object."""

    async def calls(client):
        made = [("add", {"a": 2}), ("city", {"name": "Berlin"}), ("maybe", {"found": False})]
        return [await client.call_tool(name, arguments) for name, arguments in made]

    added, city, nothing = during(calls)

    assert texts(added) == ["3"]
    assert added.structured_content == {"result": 3}
    assert texts(city) == ['{"name":"Berlin","people":3700000}']
    assert city.structured_content == {"name": "Berlin", "people": 3_700_000}
    assert nothing.structured_content == {"result": None}
    assert nothing.content == []


def test_images(during):
    """An image arrives with its bytes and its type."""
    [image] = during(lambda client: client.call_tool("picture")).content

    assert (image.type, image.mime_type) == ("image", "image/png")
    assert image.data == base64.b64encode(PNG).decode()


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("fail", {}, "the disk is full"),
        ("add", {"a": "many"}, "a: "),
        ("add", {"a": 1, "c": 2}, "c"),
        ("add", {}, "a"),
        ("ad", {"a": 1}, "add"),
        ("hidden", {}, "hidden"),
        ("limited", {}, "0.05"),
    ],
)
def test_what_goes_wrong_is_a_result(during, name, arguments, said):
    """A failure, bad arguments, an unknown or disabled tool and a time limit are results that a model can read."""
    answer = during(lambda client: client.call_tool(name, arguments))

    assert answer.is_error
    assert answer.structured_content is None
    assert said in texts(answer)[0]


@pytest.mark.parametrize(
    ("name", "reports"),
    [
        ("steps", [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]),
        ("counting", [(1, None, "one"), (2, None, "two"), (3, None, "three")]),
    ],
)
def test_progress(during, name, reports):
    """Progress arrives in order, all of it before the answer, from `context.progress` and from a generator's yields."""
    seen, note = noted()
    during(lambda client: client.call_tool(name, progress_callback=note))

    assert seen == reports


def test_a_yield_that_no_guardrail_has_seen_is_only_counted(mode):
    """What a generator yields may be its result: with output guardrails, or inside of another tool, no text is told."""

    async def secret():
        """Yield a secret."""
        yield "key: sk-abc"

    hidden = redact([r"sk-\w+"])
    own = FunctionTool(secret, name="own", output_guardrails=[hidden])
    plain = FunctionTool(secret, name="plain")
    wrapped = WrapperTool(plain, name="wrapped", output_guardrails=[hidden])

    @FunctionTool
    async def around(context: Context) -> str:
        """Call a tool inside."""
        context.progress("asking")
        return (await own(ToolCall(name="own", id=context.call.id), context)).text

    @FunctionTool(settings=ToolSettings(untrusted=True))
    async def foreign(context: Context) -> None:
        """Pass on what a server says of its progress."""
        context.progress("key: sk-abc")

    proxied = WrapperTool(foreign, name="proxied", output_guardrails=[hidden])
    all_tools = [own, wrapped, around, WrapperTool(plain, name="renamed"), foreign, proxied]
    server = mcp.server(all_tools)
    told = {}
    for name in (tool.name for tool in all_tools):
        seen, note = noted()
        served(
            server, lambda client, n=name: client.call_tool(n, progress_callback=note), mode=mode
        )
        told[name] = {message for _, _, message in seen}

    assert told == {
        "own": {None},
        "wrapped": {None},
        "around": {"asking", None},
        "renamed": {"key: sk-abc"},
        "foreign": {"key: sk-abc"},
        "proxied": {None},
    }


def test_a_report_of_an_untrusted_tool_behind_call_tool_has_no_text(mode):
    """A catalogue's `call_tool` has the output guardrails of its tools, and tells no text of a tool inside."""

    @FunctionTool(settings=ToolSettings(untrusted=True), output_guardrails=[redact([r"sk-\w+"])])
    async def foreign(context: Context) -> None:
        """Pass on what a server says of its progress."""
        context.progress("key: sk-abc")

    seen, note = noted()
    served(
        mcp.server(Catalog([foreign]).fixed()),
        lambda client: client.call_tool("call_tool", {"name": "foreign"}, progress_callback=note),
        mode=mode,
    )

    assert [message for _, _, message in seen] == [None]


def noted():
    """What was told of progress, and what notes it."""
    seen: list[Any] = []

    async def note(done, total, message):
        seen.append((done, total, message))

    return seen, note


def test_progress_rises(mode):
    """Whatever a body reports, each notification says more than the one before, as the protocol has it, and a number."""
    said = [(0, 3), (1, math.nan), (1, math.inf), (0.5, None), (-2, None), (math.nan, None), (5, 6)]

    @FunctionTool
    def wavering(context: Context):
        """Report back and forth."""
        for place, (done, total) in enumerate(said):
            context.progress(f"report {place}", done, total)

    seen, note = noted()
    server = mcp.server([wavering])
    served(server, lambda client: client.call_tool("wavering", progress_callback=note), mode=mode)
    reported = [done for done, _, _ in seen]

    assert [message for _, _, message in seen] == [f"report {place}" for place in range(len(said))]
    assert [total for _, total, _ in seen] == [3, None, None, None, None, None, 6]
    assert reported == sorted(set(reported))
    assert (reported[0], reported[1], reported[-1]) == (0, 1, 5)


def test_cancellation(during):
    """A call that the client gives up is cancelled in the body."""

    async def gives_up(client):
        before = await told(client)
        call = asyncio.create_task(client.call_tool("slow", {"seconds": 300}))
        while (await told(client)).count("slow began") == before.count("slow began"):
            await asyncio.sleep(0.02)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        while (await told(client)).count("slow was cancelled") == before.count(
            "slow was cancelled"
        ):
            await asyncio.sleep(0.02)
        return True

    assert during(gives_up)


def test_a_client_that_loses_patience(during):
    """The client's own time limit ends the call in the body too."""

    async def loses_patience(client):
        before = await told(client)
        # On a loaded machine the body may not have begun when the client gives up.
        for patience in (0.3, 3.0, 30.0):
            with pytest.raises(MCPError) as caught:
                await client.call_tool("slow", {"seconds": 300}, read_timeout_seconds=patience)
            if (await told(client)).count("slow began") > before.count("slow began"):
                break
        while (await told(client)).count("slow was cancelled") == before.count(
            "slow was cancelled"
        ):
            await asyncio.sleep(0.02)
        return caught.value.code

    assert during(loses_patience) == types.REQUEST_TIMEOUT


def test_a_print_does_not_break_the_wire(during):
    """What a body prints is not on the wire: the next call is answered."""

    async def calls(client):
        said = await client.call_tool("chatty", {"text": '{"jsonrpc": "2.0"}\nnot json'})
        return texts(said), (await client.call_tool("add", {"a": 1})).is_error

    assert during(calls) == (["said"], False)


ANSWERS = [
    ("accept", {"approve": True}, "deleted"),
    ("accept", {}, "did not approve (the form has no `approve`)"),
    ("accept", None, "did not approve (the form has no `approve`)"),
    ("accept", {"approve": False}, "did not approve (no)"),
    ("decline", None, "did not approve (decline)"),
    ("cancel", None, "did not approve (cancel)"),
]


@pytest.mark.parametrize(("action", "content", "said"), ANSWERS)
def test_approval(during, way, action, content, said):
    """`require_approval` asks the client's person, who sees tool and arguments; without consent nothing runs."""
    path = "-".join([*way, action, str(content)])
    questions: list[Any] = []

    async def elicit(context, params):
        questions.append(params)
        return types.ElicitResult(action=action, content=content)

    answer, noted = during(deleting(path), elicitation_callback=elicit)

    assert answer.is_error is (said != "deleted")
    assert said in texts(answer)[0]
    assert (path in noted) is (said == "deleted")
    assert [question.requested_schema["required"] for question in questions] == [["approve"]]
    assert "delete" in questions[0].message
    assert path in questions[0].message


def test_nobody_to_ask(during, way):
    """A client that cannot ask a person gets an error that a model can read, and nothing runs."""
    path = f"/tmp/{way[0]}-{way[1]}-unasked"
    answer, noted = during(deleting(path))

    assert answer.is_error
    assert "approv" in texts(answer)[0]
    assert path not in noted


def test_nobody_to_ask_in_the_middle_of_a_call(caplog):
    """Where answers are single bodies, no question reaches a client during a call, and the error is the same."""
    start = {"protocolVersion": OLDER, "capabilities": {"elicitation": {}}}
    start["clientInfo"] = {"name": "test", "version": "1"}
    ran: list[str] = []
    app = mcp.server([guarded(ran)]).streamable_http_app(json_response=True)

    async def main():
        transport = httpx2.ASGITransport(app=app)
        async with (
            app.router.lifespan_context(app),
            httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client,
        ):

            async def ask(number, method, params, session=None):
                body = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
                headers = {**ACCEPT, **({"mcp-session-id": session} if session else {})}
                return await client.post("/mcp", json=body, headers=headers)

            session = (await ask(1, "initialize", start)).headers["mcp-session-id"]
            call = {"name": "delete", "arguments": {"path": "a"}}
            return (await ask(2, "tools/call", call, session)).json()["result"]

    answer = asyncio.run(main())

    assert answer["content"][0]["text"] == "The call of delete needs a person's approval first."
    assert ran == []
    assert "failed" not in caplog.text


def deleting(path):
    """Let a client delete something, and return the answer and what was noted."""

    async def work(client):
        return await client.call_tool("delete", {"path": path}), await told(client)

    return work


def test_a_guarded_value_promises_no_schema(during):
    """A tool with output guardrails publishes no output schema, and its value does not leave beside the text."""

    async def listed(client):
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        return tools["secret"].output_schema, await client.call_tool("secret")

    schema, answer = during(listed)

    assert schema is None
    assert "1234" not in texts(answer)[0]
    assert answer.structured_content is None


# Approvals of 2026-07-28, round by round


def rounds(server, arguments, second=None, *, change=lambda state: state):
    """Return what a client gets that approves one call and sends the state with another."""

    async def unused(context, params):
        raise AssertionError("the rounds are driven by hand")

    async def work(client):
        asked = await client.session.call_tool(*arguments, allow_input_required=True)
        assert isinstance(asked, types.InputRequiredResult)
        yes = types.ElicitResult(action="accept", content={"approve": True})
        answers = dict.fromkeys(asked.input_requests, yes)
        given = {"input_responses": answers, "request_state": change(asked.request_state)}
        replies = []
        for _ in range(2):
            try:
                replies.append(await client.session.call_tool(*(second or arguments), **given))
            except MCPError as error:
                replies.append(error)
        return replies

    return served(server, work, mode=LATEST, elicitation_callback=unused)


def guarded(ran: list[str], name: str = "delete") -> FunctionTool:
    def delete(path: str) -> str:
        ran.append(path)
        return "deleted"

    return FunctionTool(delete, name=name, input_guardrails=[require_approval()])


DELETE_A = ("delete", {"path": "a"})


def test_an_approval_counts_once():
    """The state of an approval runs one call; sent again it is refused by the protocol."""
    ran: list[str] = []
    first, again = rounds(mcp.server([guarded(ran)]), DELETE_A)

    assert texts(first) == ["deleted"]
    assert isinstance(again, MCPError)
    assert again.code == types.INVALID_PARAMS
    assert ran == ["a"]


@pytest.mark.parametrize(
    "second",
    [("delete", {"path": "b"}), ("erase", {"path": "a"})],
    ids=["other arguments", "other tool"],
)
def test_a_stolen_state_is_refused(second):
    """The state of an approval is bound to its tool and its arguments."""
    ran: list[str] = []
    server = mcp.server([guarded(ran), guarded(ran, "erase")])
    replies = rounds(server, DELETE_A, second)

    assert [type(reply) for reply in replies] == [MCPError, MCPError]
    assert ran == []


def other_state(state: str) -> str:
    """A state that differs in one character. The last ones may stand for no whole byte."""
    middle = len(state) // 2
    return state[:middle] + ("B" if state[middle] == "A" else "A") + state[middle + 1 :]


@pytest.mark.parametrize(
    "change", [lambda state: state + "A", other_state], ids=["longer", "other"]
)
def test_a_forged_state_is_refused(change):
    """A state that the server did not seal is refused."""
    ran: list[str] = []
    replies = rounds(mcp.server([guarded(ran)]), DELETE_A, change=change)

    assert [reply.code for reply in replies] == [types.INVALID_PARAMS] * 2
    assert ran == []


def test_the_state_of_another_server():
    """A state that another server sealed is refused, unless the two share a key. It counts once for both."""
    ran: list[str] = []
    outcomes: list[Any] = []

    async def unused(context, params):
        raise AssertionError("the rounds are driven by hand")

    async def main():
        keys = {"keys": [b"k" * 32]}
        servers = [mcp.server([guarded(ran)], **options) for options in (keys, {}, keys)]
        options = {"mode": LATEST, "elicitation_callback": unused}
        async with AsyncExitStack() as stack:
            own, *others = [
                (await stack.enter_async_context(Client(server, **options))).session
                for server in servers
            ]
            asked = await own.call_tool(*DELETE_A, allow_input_required=True)
            yes = types.ElicitResult(action="accept", content={"approve": True})
            answers = dict.fromkeys(asked.input_requests, yes)
            given = {"input_responses": answers, "request_state": asked.request_state}
            for session in (*others, own):
                try:
                    outcomes.append(texts(await session.call_tool(*DELETE_A, **given)))
                except MCPError as error:
                    outcomes.append(error.code)

    asyncio.run(main())

    assert outcomes == [types.INVALID_PARAMS, ["deleted"], types.INVALID_PARAMS]
    assert ran == ["a"]


# What the server itself does


def test_a_changed_list_is_announced(mode):
    """`replace` serves other tools at once and tells the clients."""

    server = mcp.server([tools["add"]])
    heard = asyncio.Event()

    async def handle(message):
        if isinstance(message, types.ToolListChangedNotification):
            heard.set()

    async def work(client):
        before = await names(client)
        if mode == "legacy":
            assert client.server_capabilities.tools.list_changed
            while not heard.is_set():
                await server.replace([tools["city"]])
                await asyncio.sleep(0.01)
        else:
            async with client.listen(tools_list_changed=True) as changes:
                await server.replace([tools["city"]])
                await anext(changes)
        return before, await names(client)

    changed = served(server, work, mode=mode, message_handler=handle, cache=None)
    assert changed == (["add"], ["city"])


def test_a_client_that_is_initialized_again_and_again_is_told_once():
    """However often a client over HTTP says that it is initialized, its session has one task that tells it."""
    start = {"protocolVersion": OLDER, "capabilities": {}}
    start["clientInfo"] = {"name": "test", "version": "1"}
    server = mcp.server(tools["add"])
    app = mcp.http_app(server)

    async def main():
        transport = httpx2.ASGITransport(app=app)
        async with (
            app.router.lifespan_context(app),
            httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client,
        ):

            async def post(headers, **message):
                sent = {"jsonrpc": "2.0", **message}
                return await client.post("/mcp", json=sent, headers={**ACCEPT, **headers})

            answer = await post({}, id=1, method="initialize", params=start)
            session = {"mcp-session-id": answer.headers["mcp-session-id"]}
            for number in range(2):
                for _ in range(10):
                    await post(session, method="notifications/initialized")
                await post(session, id=2 + number, method="ping")
                yield len(asyncio.all_tasks())

    async def counts():
        return [count async for count in main()]

    first, second = asyncio.run(counts())

    assert first == second


def test_each_client_is_told_of_a_change_once():
    """Without sessions, too, a client is told once, however often it says that it is initialized."""
    told: list[str] = []

    async def main():
        server = mcp.server(tools["add"])

        def client(name):
            async def handle(message):
                told.append(name)

            return Client(server, mode="legacy", message_handler=handle, cache=None)

        async with client("a") as first, client("b") as second:
            for _ in range(10):
                await first.session.send_notification(types.InitializedNotification())
            for each in (first, second):
                await each.list_tools()
            await server.replace(tools["city"])
            for each in (first, second):
                await each.list_tools()

    asyncio.run(main())

    assert sorted(told) == ["a", "b"]


class Growing(Toolset):
    """A toolset that gets more tools while it is served, as one of `mcp.connect` does."""

    def __init__(self, *known):
        super().__init__()
        self.known = {tool.name: tool for tool in known}

    def __getitem__(self, name):
        return self.known[name]

    def __iter__(self):
        return iter(list(self.known))

    def __len__(self):
        return len(self.known)


def test_tools_are_described_once_and_beside_the_loop(monkeypatch):
    """The definitions of other servers may take seconds, so neither a change nor a list holds the event loop."""
    described = []

    class Noted(Served):
        def __init__(self, tool):
            described.append((tool.name, current_thread() is main_thread()))
            super().__init__(tool)

    monkeypatch.setattr(mcp_handlers, "Served", Noted)
    toolset = Growing(tools["add"])
    server = mcp.server(toolset)

    async def work(client):
        toolset.known["city"] = tools["city"]
        grown = await asyncio.gather(names(client), names(client))
        await server.replace([tools["add"], tools["city"], tools["told"]])
        return *grown, await names(client)

    found = served(server, work, cache=None)

    assert found == (["add", "city"], ["add", "city"], ["add", "city", "told"])
    assert described == [("add", True), ("city", False), ("told", False)]


def test_a_refused_replacement_changes_nothing():
    """When a tool cannot be served the old ones stay."""
    server = mcp.server([tools["add"]])
    with pytest.raises(DefinitionError):
        asyncio.run(server.replace([WrapperTool(tools["add"], name="no spaces")]))

    assert list(server.toolset) == ["add"]


@pytest.mark.parametrize("name", ["two words", "x" * 129, "naïve"])
def test_a_name_that_the_protocol_lacks(name):
    """A name outside the protocol's is refused when the server is made, with the remedy."""
    with pytest.raises(DefinitionError, match="WrapperTool"):
        mcp.server([WrapperTool(tools["add"], name=name)])


def test_a_tripwire_reaches_the_host_alone(mode):
    """A tripwire is an error of the protocol: it stops the run, and no model reads it."""

    def stop(call, context):
        raise Tripwire("budget spent")

    tool = FunctionTool(lambda: "never", name="spend", input_guardrails=[stop])

    async def work(client):
        with pytest.raises(MCPError, match="budget spent") as caught:
            await client.call_tool("spend")
        return caught.value.data

    assert served(mcp.server([tool]), work, mode=mode) == {"type": "Tripwire"}


def test_content_that_breaks_its_schema(mode):
    """A value that is not what its annotation promises is an error that a model can read, and no client raises."""

    def count() -> int:
        return "many"  # type: ignore[return-value]

    answer = served_call(mcp.server([FunctionTool(count)]), "count", mode=mode)

    assert answer.is_error
    assert "output schema" in texts(answer)[0]
    assert texts(answer)[1:] == ["many"]


def test_a_value_that_json_cannot_say(mode):
    """A value that refers to itself is an error that a model can read, not one of the protocol."""

    def knot() -> dict[str, Any]:
        tied: dict[str, Any] = {}
        tied["self"] = tied
        return tied

    assert served_call(mcp.server([FunctionTool(knot)]), "knot", mode=mode).is_error


@pytest.mark.parametrize(
    ("annotation", "value", "said"),
    [
        (float, float("nan"), None),
        (float, float("inf"), None),
        (list[int], iter(int, 1), None),
        (str, "a\ud800b", "a\ufffdb"),
        (City, City(theName="x"), {"theName": "x"}),
    ],
    ids=["nan", "infinity", "an endless iterator", "a lone surrogate", "an alias"],
)
def test_values_on_the_edge_of_json(annotation, value, said, mode):
    """What JSON lacks is an error that a model can read, text is made valid, and names are those of the schema."""

    def edge():
        return value

    edge.__annotations__["return"] = annotation

    answer = served_call(mcp.server([FunctionTool(edge)]), "edge", mode=mode)

    wrapped = isinstance(said, str)
    assert answer.is_error is (said is None)
    assert answer.structured_content == ({"result": said} if wrapped else said)


def test_odd_texts_do_not_end_a_server(tmp_path):
    """Over stdio, where one message that cannot be written would end it, lone surrogates leave a server alive."""
    file = tmp_path / "odd.py"
    file.write_text(ODD)

    seen, note = noted()
    command = StdioServerParameters(command=sys.executable, args=[str(file)], cwd=ROOT)

    async def work(client):
        answer = await client.call_tool("odd", progress_callback=note)
        with pytest.raises(MCPError, match="stop\ufffd"):
            await client.call_tool("stop")
        return answer.content, (await client.call_tool("odd")).is_error

    content, is_error = served(command, work)

    assert [message for _, _, message in seen] == ["half\ufffd"]
    assert content[0].resource.uri == "attachment:%EF%BF%BD.txt"
    assert content[0].resource.text == "hi"
    assert content[1].name == content[1].uri == "\ufffd"
    assert is_error is False


def test_two_who_ask_for_approval(mode):
    """A tool whose guardrails ask twice runs once its person agreed, and no client is asked without an end."""
    ran: list[str] = []
    tool = guarded(ran)
    tool.add_input_guardrails([require_approval()])

    given = {"mode": mode, "elicitation_callback": accepting({"approve": True})}
    answer = served_call(mcp.server([tool]), *DELETE_A, **given)

    assert texts(answer) == ["deleted"]
    assert ran == ["a"]


def asks_inside(ran: list[str]) -> FunctionTool:
    """A guarded tool whose body calls a guarded one."""
    inner = guarded(ran, "inner")

    async def delete(path: str, call: ToolCall, context: Context) -> ToolResult:
        again = ToolCall(name="inner", arguments={"path": path}, id=f"{call.id}/1")
        result = await inner.invoke(again, context)
        if "approval" in result.metadata:
            raise ApprovalRequired.of(result.metadata["approval"])
        return result

    return FunctionTool(delete, input_guardrails=[require_approval()])


def asks_around(ran: list[str]) -> WrapperTool:
    """A guarded wrapper around a guarded tool."""
    return WrapperTool(guarded(ran, "inner"), name="delete", input_guardrails=[require_approval()])


def who_asked(asked: list[Any]) -> list[str]:
    return [params.message.split()[3] for params in asked]


@pytest.mark.parametrize("make", [asks_around, asks_inside])
def test_a_call_that_asks_about_two_calls_runs(mode, make):
    """What the person approved first is not forgotten while the call inside asks, and no client is asked without an end."""
    ran: list[str] = []
    asked: list[Any] = []

    given = {"mode": mode, "elicitation_callback": accepting({"approve": True}, asked)}
    answer = served_call(mcp.server([make(ran)]), *DELETE_A, **given)

    assert texts(answer) == ["deleted"]
    assert ran == ["a"]
    # A body that has begun may have had an effect, so the client's next call asks about it again.
    begun_again = ["delete"] if (mode, make) == ("auto", asks_inside) else []
    assert who_asked(asked) == ["delete", "inner", *begun_again]


def test_an_approval_that_waits_for_another_expires(monkeypatch):
    """Without sessions, too, an approval holds for five minutes, whatever the call asks next."""
    ran: list[str] = []
    asked: list[Any] = []
    today = [1_000_000.0]
    monkeypatch.setattr(mcp_handlers, "time", lambda: today[0])

    async def elicit(context, params):
        asked.append(params)
        if who_asked(asked) == ["delete", "inner"]:
            today[0] += 301
        return types.ElicitResult(action="accept", content={"approve": True})

    answer = served_call(
        mcp.server([asks_around(ran)]), *DELETE_A, mode="auto", elicitation_callback=elicit
    )

    assert texts(answer) == ["deleted"]
    assert who_asked(asked) == ["delete", "inner", "delete"]
    assert ran == ["a"]


def test_a_switch_is_asked_for_each_call(mode):
    """A tool whose `is_enabled` says no is neither listed nor run."""
    on = True
    tool = FunctionTool(
        lambda: "ran", name="switched", settings=ToolSettings(is_enabled=lambda context: on)
    )

    async def work(client):
        nonlocal on
        first = await names(client), await client.call_tool("switched")
        on = False
        return first, (await names(client), await client.call_tool("switched"))

    (shown, ran), (hidden, refused) = served(mcp.server([tool]), work, mode=mode, cache=None)

    assert [shown, texts(ran)] == [["switched"], ["ran"]]
    assert [hidden, refused.is_error] == [[], True]


def test_each_call_gets_its_context(mode):
    """`context(request)` makes the context of each call from the SDK's request."""

    def who(context: Context) -> str:
        return context.deps

    server = mcp.server(
        [FunctionTool(who)], context=lambda request: Context(deps=request.protocol_version)
    )

    answer = served_call(server, "who", mode=mode)

    assert texts(answer) == [LATEST if mode == "auto" else OLDER]


def test_a_context_is_made_by_an_async_function():
    """An async `context` makes one context for a conversation, also if its first calls are together."""
    made = []

    async def make(request):
        await asyncio.sleep(0.01)
        made.append(Context(deps=len(made)))
        return made[-1]

    def who(context: Context) -> int:
        return context.deps

    async def work(client):
        return await asyncio.gather(*(client.call_tool("who", {}) for _ in range(3)))

    answers = served(mcp.server([FunctionTool(who)], context=make), work, mode="legacy")

    assert [texts(each) for each in answers] == [["0"]] * 3
    assert len(made) == 1


@pytest.mark.parametrize(
    ("context", "said"),
    [
        (Context(), "^context takes callables, not Context$"),
        (lambda: Context(), "^context: .*; it has to take request$"),
    ],
)
def test_a_context_is_made_by_a_function(context, said):
    """What cannot make contexts is refused with the server, and not at each request."""
    with pytest.raises(DefinitionError, match=said):
        mcp.server([tools["add"]], context=context)


def test_a_function_that_makes_no_context(caplog):
    """The log says what the host's function returned; the client hears of an internal error."""
    server = mcp.server([tools["add"]], context=lambda request: {"deps": 1})
    with pytest.raises(ConnectionError, match="Internal server error"):
        asyncio.run(enter(mcp.connect(server)))

    said = "context returned dict, expected a Context"
    assert said in [str(each.exc_info[1]) for each in caplog.records if each.exc_info]


async def enter(connection):
    async with connection:
        pass


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_journal_tells_clients_apart(mode, tmp_path):
    """Every client counts its requests from 1, and none gets the stored answer of another."""
    paid: list[int] = []

    @FunctionTool
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return f"payment {len(paid)}"

    async def once(server):
        async with Client(server, mode=mode) as client:
            return texts(await client.call_tool("pay", {"amount": 5}))

    async def main():
        server = mcp.server(Journal(tmp_path / "shop.journal").once([pay], run="shop"))
        return [await once(server), await once(server)]

    assert asyncio.run(main()) == [["payment 1"], ["payment 2"]]


def test_a_context_with_an_approver_asks_it():
    """An approver that the host gave is asked instead of the client."""
    ran: list[str] = []
    server = mcp.server(
        [guarded(ran)], context=lambda request: Context(approver=lambda asked: True)
    )

    assert texts(served_call(server, *DELETE_A, mode="legacy")) == ["deleted"]


def test_a_body_may_ask_for_more():
    """The SDK's `InputRequiredResult` from a body leaves as it is, and the next round finds the answers."""

    def greet(context: Context) -> Any:
        given = (context.deps.params or {}).get("inputResponses")
        if given:
            return f"Hello {given['name']['content']['name']}"
        form = types.ElicitRequestFormParams(
            message="Your name?", requested_schema={"type": "object", "properties": {}}
        )
        return types.InputRequiredResult(input_requests={"name": types.ElicitRequest(params=form)})

    server = mcp.server([FunctionTool(greet)], context=lambda request: Context(deps=request))
    answer = served_call(server, "greet", elicitation_callback=accepting({"name": "Ada"}))

    assert texts(answer) == ["Hello Ada"]


def test_an_error_function_can_rescue():
    """An answer that an error function gives is served like any other."""
    tool = FunctionTool(
        lambda: 1 / 0, name="risky", on_error_func=lambda error, context: ToolResult.of("rescued")
    )
    answer = served_call(mcp.server([tool]), "risky")

    assert (texts(answer), answer.is_error) == (["rescued"], False)


@pytest.mark.parametrize("headers", [{"Host": "evil.example"}, {"Origin": "http://evil.example"}])
def test_dns_rebinding_is_refused(url, headers):
    """A request that names another host, or comes from another's page, reaches no tool."""
    params = {"name": "told", "arguments": {}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}

    assert httpx2.post(url, json=body, headers={**ACCEPT, **headers}).status_code in (403, 421)


def test_a_client_that_leaves_before_its_answer():
    """A stdio server whose client has gone ends by itself, without a traceback."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, SAMPLE], cwd=ROOT, **pipes) as server:
        server.stdout.close()
        server.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        server.stdin.close()
        told = server.stderr.read().decode()

        assert server.wait(120) == 0
    assert told == ""


@pytest.mark.parametrize(
    ("options", "named", "strange"),
    [
        (
            {},
            ["127.0.0.1", "127.0.0.1:8000", "localhost:1", "[::1]", "[::1]:8000"],
            ["fe80::1", "evil.example", "127.0.0.1.evil.example"],
        ),
        (
            {"host": "fe80::1", "token": "t"},
            ["[fe80::1]", "[fe80::1]:8000", "localhost"],
            ["[fe80::2]", "evil.example:8000"],
        ),
        ({"host": "10.0.0.7", "token": "t"}, ["10.0.0.7", "10.0.0.7:8000"], ["10.0.0.8"]),
        (
            {"allowed_hosts": ["a.example", "b.example:*"]},
            ["a.example", "b.example:1"],
            ["a.example:1", "b.example", "localhost"],
        ),
    ],
)
def test_the_hosts_that_are_answered(options, named, strange):
    """Requests that name the host that is listened on, a local one or one that is allowed are answered, and no other."""
    app = mcp.http_app(mcp.server([tools["add"]]), **options)
    headers = {**ACCEPT, "Authorization": "Bearer t"}
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}

    async def main():
        transport = httpx2.ASGITransport(app=app)
        async with (
            app.router.lifespan_context(app),
            httpx2.AsyncClient(transport=transport, base_url="http://x") as client,
        ):
            return [
                await client.post("/mcp", json=ping, headers={**headers, "Host": host})
                for host in [*named, *strange]
            ]

    refused = [answer.status_code == 421 for answer in asyncio.run(main())]

    assert refused == [False] * len(named) + [True] * len(strange)


@pytest.mark.parametrize("timeout", [None, 20])
def test_a_body_that_exits(mode, timeout):
    """A body that raises SystemExit fails alone: the server lives, and the model reads what happened."""

    def leave():
        sys.exit(3)

    async def work(client):
        return await client.call_tool("leave"), await client.call_tool("leave")

    tool = FunctionTool(leave, timeout=timeout)
    for answer in served(mcp.server([tool]), work, mode=mode):
        assert answer.is_error
        assert "end the program" in texts(answer)[0]


def test_one_tool_is_served_as_it_is():
    """A single tool needs no list around it."""
    assert list(mcp.server(tools["add"]).toolset) == ["add"]


def test_there_are_two_transports():
    """Any other transport is refused."""
    with pytest.raises(ValueError, match="'stdio' or 'http'"):
        mcp.serve(Toolset(), "carrier pigeon")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "missing", [["mcp", "mcp_types"], ["mcp", "mcp_types", "anyio", "httpx2", "uvicorn"]]
)
def test_a_missing_sdk_says_what_to_install(missing):
    """Without the SDK, and what comes with it, the import names the extra."""
    code = f"import sys; sys.modules.update(dict.fromkeys({missing}))\nimport functool.integrations.mcp"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)

    assert "ImportError: MCP needs the official SDK: pip install 'functool[mcp]'" in done.stderr


def test_a_state_belongs_to_who_was_asked():
    """Over HTTP with authentication the state of one person's approval is refused to another."""
    ran: list[str] = []

    class Verifier:
        async def verify_token(self, token):
            return AccessToken(token=token, client_id="app", scopes=[], subject=token)

    origin = "http://127.0.0.1:8000"
    auth = AuthSettings(issuer_url=origin, resource_server_url=None)
    app = mcp.server([guarded(ran)]).streamable_http_app(
        auth=auth, token_verifier=Verifier(), json_response=True
    )
    meta = {
        "io.modelcontextprotocol/protocolVersion": LATEST,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    }

    async def call(client, who, **more):
        params = {"name": "delete", "arguments": {"path": "a"}, "_meta": meta, **more}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {
            **ACCEPT,
            "Authorization": f"Bearer {who}",
            "MCP-Protocol-Version": LATEST,
            "Mcp-Method": "tools/call",
            "Mcp-Name": "delete",
        }
        return (await client.post("/mcp", json=body, headers=headers)).json()

    async def main():
        transport = httpx2.ASGITransport(app=app)
        async with (
            app.router.lifespan_context(app),
            httpx2.AsyncClient(transport=transport, base_url=origin) as client,
        ):
            asked = (await call(client, "alice"))["result"]
            answer = {"approval": {"action": "accept", "content": {"approve": True}}}
            round_two = {"inputResponses": answer, "requestState": asked["requestState"]}
            return await call(client, "mallory", **round_two), await call(
                client, "alice", **round_two
            )

    stolen, own = asyncio.run(main())

    assert stolen["error"]["code"] == types.INVALID_PARAMS
    assert own["result"]["content"] == [{"type": "text", "text": "deleted"}]
    assert ran == ["a"]
