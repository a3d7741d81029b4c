"""Servers that break the protocol: one answer, definition or line is lost, and nothing else."""

import asyncio
import hashlib
import json
import os
import re
import sys
import threading
import tracemalloc
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from threading import Thread

import pytest

pytest.importorskip("mcp")

import anyio
import httpx2
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage

from functool import Context, FunctionTool, SchemaTool, ToolCall, ToolError, WrapperTool
from functool.dialects import openai
from functool.integrations import mcp, mcp_client, mcp_link, mcp_served, mcp_sizes
from functool.integrations import mcp_untrusted as untrusted
from functool.integrations.mcp_client import MAX_OPEN_QUESTIONS
from functool.integrations.mcp_served import Served
from functool.integrations.mcp_transport import (
    MAX_ANSWER_BYTES,
    MAX_QUESTIONS,
    MAX_STREAMS,
    PIECE,
    Endpoint,
)
from functool.large import LARGE
from tests.integrations import mcp_hostile
from tests.integrations.mcp_ends import ROOT, brought_in, call, serving, tool
from tests.integrations.mcp_sample import tools

HOSTILE = [sys.executable, str(Path(__file__).parent / "mcp_hostile.py")]
LIMIT = 30
"""Seconds after which a call that hangs is a ToolTimeoutError."""


@contextmanager
def hostile(wants=None, streams=False):
    """Run the hostile server over HTTP."""
    server = mcp_hostile.listen(wants=wants, streams=streams)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def listening(wants=None, streams=False):
    """Run the hostile server over HTTP and give its address."""
    with hostile(wants, streams) as server:
        yield f"http://127.0.0.1:{server.server_port}/mcp"


def during(target, work, **options):
    """Do something with the tools of a server of the older era."""
    return brought_in(target, work, **{"mode": "legacy", "timeout": LIMIT, **options})


def results(target, *names, **options):
    """Call tools one after the other over one connection."""

    async def work(toolset):
        return [await toolset.call(ToolCall(name=name)) for name in names]

    return during(target, work, **options)


@pytest.mark.parametrize(
    "name", ["surrogate", "null", "version", "digits", "long", "last", "values", "items", "wrong"]
)
def test_a_malformed_answer_ends_its_call(name):
    """Over stdio an answer that cannot be read is an error of its call at once, and the next works."""
    broken, fine = results(HOSTILE, name, "fine")

    assert broken.error.type == "MCPError"
    assert "not valid" in broken.error.message
    assert fine.text == "ok"


@pytest.mark.parametrize("streams", [False, True], ids=["body", "events"])
@pytest.mark.parametrize(
    "name", ["surrogate", "null", "digits", "long", "values", "items", "wrong", "bomb"]
)
def test_a_malformed_answer_over_http(name, streams):
    """Over HTTP too; an answer that is too large, or compressed, is among them."""
    with listening(streams=streams) as url:
        broken, fine = results(url, name, "fine")

    assert broken.error.type == "MCPError"
    said = "event exceeded" if streams and name == "long" else "larger than 16 MiB"
    assert said in broken.error.message
    assert fine.text == "ok"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gone", "may have run or not \\(RemoteProtocolError"),
        ("garbage", "may have run or not \\(RemoteProtocolError"),
        ("cut", "cut off"),
        ("gateway", "answered 502.*may have run or not"),
    ],
)
@pytest.mark.parametrize("streams", [False, True], ids=["body", "events"])
def test_a_request_that_fails_ends_its_own_call_only(streams, name, said):
    """What a proxy does to one request over HTTP ends no other call, and not the connection."""
    with hostile(streams=streams) as server:

        async def work(toolset):
            other = asyncio.create_task(toolset.call(ToolCall(name="waits")))
            await asyncio.to_thread(server.waits.wait, LIMIT)
            failed = await toolset.call(ToolCall(name=name))
            server.goes_on.set()
            return failed, await other

        failed, other = during(f"http://127.0.0.1:{server.server_port}/mcp", work)

    if streams and name == "cut":
        said = "ended without a response"
    assert re.search(said, failed.error.message)
    assert other.text == "ok"


def test_a_login_that_fails_says_why():
    """Where `auth` raises in the middle of a session, its call says so, and the next one works."""

    class Login(httpx2.Auth):
        wrong = False

        def auth_flow(self, request):
            if self.wrong:
                raise ValueError("the issuer is another one")
            yield request

    login = Login()

    async def work(toolset):
        login.wrong = True
        failed = await toolset.call(ToolCall(name="fine"))
        login.wrong = False
        return failed, await toolset.call(ToolCall(name="fine"))

    with listening() as url:
        failed, fine = during(url, work, auth=login)

    assert "ValueError: the issuer is another one" in failed.error.message
    assert fine.text == "ok"


@pytest.mark.parametrize("at_once", [False, True])
def test_a_token_that_cannot_be_sent_is_not_shown(at_once):
    """Neither at the beginning nor in the middle of a session does an error show the token of `auth`."""

    class Login(httpx2.Auth):
        token = "s3cret\n" if at_once else "s3cret"

        def auth_flow(self, request):
            request.headers["Authorization"] = f"Bearer {self.token}"
            yield request

    login = Login()

    async def work(toolset):
        login.token = "s3cret\n"
        return await toolset.call(ToolCall(name="fine"))

    with listening() as url:
        try:
            said = during(url, work, auth=login).text
        except ConnectionError as error:
            said = str(error)

    assert "LocalProtocolError" in said
    assert "s3cret" not in said


@pytest.mark.parametrize("streams", [False, True], ids=["body", "events"])
def test_an_answer_lets_the_event_loop_work(streams, monkeypatch):
    """An answer over HTTP is read in small pieces, with other work between them: each byte may be a line of its own."""
    pauses = []

    async def pause(seconds):
        pauses.append(seconds)
        await asyncio.sleep(seconds)

    monkeypatch.setattr("functool.integrations.mcp_transport.sleep", pause)
    with listening(streams=streams) as url:
        results(url, "long")

    assert len(pauses) > MAX_ANSWER_BYTES // PIECE // 2


@pytest.mark.parametrize("streams", [None, False, True], ids=["stdio", "body", "events"])
def test_the_sdk_reads_no_text_of_many_values_that_is_no_message(streams, monkeypatch, caplog):
    """Many values that are no message end their call before the SDK makes an error with copies of them."""
    monkeypatch.setattr(mcp_sizes, "MANY", 100)

    if streams is None:
        bad, fine = results(HOSTILE, "no_message", "fine")
    else:
        with hostile(streams=streams) as server:
            target = f"http://127.0.0.1:{server.server_port}/mcp"
            bad, fine = results(target, "no_message", "fine")

    assert bad.error.type == "MCPError"
    assert fine.text == "ok"
    assert set(re.findall(r"(\d+) validation error", caplog.text)) <= {"1"}


def naming(kind):
    """Return a handler that names another type for each stream of events."""

    class Naming(mcp_hostile.Handler):
        def send_header(self, name, value):
            super().send_header(name, kind if "event" in value else value)

    return Naming


def test_a_stream_is_a_stream_however_its_type_is_spelled(monkeypatch, caplog):
    """The events of a type in capitals are looked at before the SDK reads them, too."""
    monkeypatch.setattr(mcp_sizes, "MANY", 100)
    with hostile(streams=True) as server:
        server.RequestHandlerClass = naming("Text/Event-Stream")
        bad, fine = results(f"http://127.0.0.1:{server.server_port}/mcp", "no_message", "fine")

    assert bad.error.type == "MCPError"
    assert fine.text == "ok"
    assert "validation error" not in caplog.text


@pytest.mark.parametrize("charset", ["cp037", "utf-16", "utf-7"])
def test_the_charset_of_an_answer_is_not_the_servers_choice(charset):
    """A stream is UTF-8, as its values are counted, and no charset of the server hides them."""

    async def work(toolset):
        return await toolset.call(ToolCall(name="fine"))

    with hostile(streams=True) as server:
        server.RequestHandlerClass = naming(f"text/event-stream; charset={charset}")
        result = during(f"http://127.0.0.1:{server.server_port}/mcp", work)

    assert result.text == "ok"


@pytest.mark.parametrize("name", ["long", "bomb"])
def test_an_answer_takes_bounded_memory(name, monkeypatch):
    """What a server sends beyond the limit is never held in memory."""
    monkeypatch.setattr("functool.integrations.mcp_transport.MAX_ANSWER_BYTES", 1_000_000)
    with listening() as url:

        async def work(toolset):
            tracemalloc.start()
            try:
                # What the server itself builds is counted too: it lives in this process.
                own = len(mcp_hostile.called(1, name))
                tracemalloc.reset_peak()
                before = tracemalloc.get_traced_memory()[0]
                result = await toolset.call(ToolCall(name=name))
                return result, tracemalloc.get_traced_memory()[1] - before - 3 * own
            finally:
                tracemalloc.stop()

        result, peak = during(url, work)

    assert result.is_error
    assert peak < 130_000_000 if name == "bomb" else peak < 10_000_000


def test_definitions_are_counted_before_they_are_judged():
    """Of a list that is too long one definition more is judged than may be there."""
    tools = [{"name": f"t{number}", "inputSchema": {}} for number in range(50_000)]

    judged = untrusted.listing({"tools": tools}, "2025-11-25")

    assert len(judged["tools"]) == untrusted.MAX_TOOLS + 1


def test_a_definition_with_a_long_list_loses_itself_alone():
    """A definition with thousands of icons is not judged one by one, and is a tool that says so."""
    schema = {"type": "object"}
    icons = [{"src": "https://x.example/a.png"}] * 20_000
    tools = [{"name": "a", "inputSchema": schema}, {"name": "b", "inputSchema": schema}]
    tools[1]["icons"] = icons

    first, second = untrusted.listing({"tools": tools}, "2025-11-25")["tools"]

    assert first == tools[0]
    assert second == {"name": "b", "inputSchema": schema, "_meta": {untrusted.UNUSABLE: True}}


def test_a_flood_of_questions_is_not_asked():
    """Of a thousand questions at once ten wait for a person; the call ends, and the next works."""
    waiting, most = 0, 0

    async def elicit(message, form):
        nonlocal waiting, most
        waiting += 1
        most = max(most, waiting)
        await asyncio.Event().wait()

    flooded, fine = results(HOSTILE, "flood", "fine", elicit=elicit)

    assert flooded.text == fine.text == "ok"
    assert most == MAX_OPEN_QUESTIONS


def test_reports_of_progress_beyond_the_limit_are_dropped():
    """A server's flood of progress reaches the listeners up to a number of short reports, because they hold up the call."""
    seen = []

    async def work(toolset):
        context = Context()
        context.subscribe(lambda event: seen.append(event.data))
        return await toolset["reports"].invoke(ToolCall(name="reports"), context)

    assert during(HOSTILE, work).text == "ok"
    assert len(seen) == mcp_link.MAX_REPORTS
    assert {len(data["message"]) for data in seen} == {mcp_link.MAX_ERROR}


def test_progress_beyond_all_floats_ends_nothing():
    """A server may report an integer that is larger than any float: it is dropped, and the call goes on."""
    assert [result.text for result in results(HOSTILE, "beyond_floats", "fine")] == ["ok", "ok"]


def test_requests_beyond_the_limit_are_dropped(monkeypatch):
    """A server's requests are taken up to a number in a time, and its answers always."""
    monkeypatch.setattr("functool.integrations.mcp_client.MAX_OPEN_QUESTIONS", 10_000)
    asked = []
    flooded, fine = results(HOSTILE, "flood", "fine", elicit=lambda *question: asked.append(1))

    assert flooded.text == fine.text == "ok"
    assert len(asked) <= MAX_QUESTIONS


def test_requests_are_counted_anew_after_some_time(monkeypatch):
    """The limit is one of requests in a time: over a long connection a server may make more."""
    monkeypatch.setattr("functool.integrations.mcp_client.MAX_OPEN_QUESTIONS", 10_000)
    monkeypatch.setattr("functool.integrations.mcp_transport.QUESTION_SECONDS", -1)
    asked, enough = 0, asyncio.Event()

    def elicit(*question):
        nonlocal asked
        asked += 1
        if asked > MAX_QUESTIONS:
            enough.set()

    async def work(toolset):
        await toolset.call(ToolCall(name="flood"))
        async with asyncio.timeout(LIMIT):
            await enough.wait()

    during(HOSTILE, work, elicit=elicit)


@pytest.mark.parametrize("reads", ["receive", "__anext__"])
def test_each_way_to_read_drops_requests_beyond_the_limit(reads):
    """Of a flood of requests, and of requests that are too long, the answer behind them comes in time."""

    def request(number, params=None):
        return types.JSONRPCRequest(jsonrpc="2.0", id=number, method="ping", params=params)

    answer = types.JSONRPCResponse(jsonrpc="2.0", id=1, result={})
    long = {"messages": [0] * 20_000}
    note = types.JSONRPCNotification(jsonrpc="2.0", method="notifications/x", params=long)
    sent = [request(0, long), note, *map(request, range(MAX_QUESTIONS + 50)), answer]

    async def main():
        inward, outward = anyio.create_memory_object_stream(1_000)

        @asynccontextmanager
        async def transport():
            with inward, outward:
                yield outward, None

        async with Endpoint(transport).open() as (read, _):
            for message in sent:
                inward.send_nowait(SessionMessage(message))
            return [(await getattr(read, reads)()).message for _ in range(MAX_QUESTIONS + 1)]

    *requests, last = asyncio.run(main())

    assert requests == [*map(request, range(MAX_QUESTIONS))]
    assert last == answer


def test_a_stream_that_always_ends_is_not_asked_for_without_end():
    """A server that ends each stream at once gets a number of requests in a time, and its call fails."""
    asked = []

    class Ending(mcp_hostile.Handler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            self.wfile.write(b"id: 1\nretry: 0\ndata:\n\n")

        def do_POST(self):
            called = b"tools/call" in self.rfile.peek()
            (self.do_GET if called else super().do_POST)()

    async def work(toolset):
        return await toolset.call(ToolCall(name="fine"))

    with hostile() as server:
        server.RequestHandlerClass = Ending
        result = during(f"http://127.0.0.1:{server.server_port}/mcp", work)

    assert result.error.type == "MCPError"
    assert MAX_STREAMS <= len(asked) <= MAX_STREAMS + 1  # And the first, which was a call.


def test_streams_of_changes_that_are_cut_are_asked_for_again():
    """However often a proxy cuts the stream of changes, it is asked for again, and the tools are listed."""
    said = []

    class Cut(mcp_hostile.Handler):
        def do_GET(self):
            said.append("stream")
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"id: 1\nretry: 0\ndata:\n\n")

        def do_POST(self):
            if b"tools/list" in self.rfile.peek():
                said.append("list")
            super().do_POST()

        def end_headers(self):
            self.send_header("Mcp-Session-Id", "s1")
            super().end_headers()

    async def work(toolset):
        while said.count("stream") < 5:
            await asyncio.sleep(0.01)
        del said[:]
        while "list" not in said:
            await asyncio.sleep(0.01)

    with hostile() as server:
        server.RequestHandlerClass = Cut
        during(f"http://127.0.0.1:{server.server_port}/mcp", work)


@pytest.mark.parametrize("name", ["bytes", "noise"])
def test_a_bad_line_loses_itself_alone(name):
    """Bytes that are no UTF-8, and logs on standard output, lose no call and no server."""
    odd, fine = results(HOSTILE, name, "fine")

    assert odd.success
    assert odd.text == {"bytes": "\ufffd!", "noise": "ok"}[name]
    assert fine.text == "ok"


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_bad_definition_loses_itself_alone(transport):
    """A definition that breaks the protocol, or JSON, is a tool that says so, and the others work."""

    async def work(toolset):
        bad = [await toolset.call(ToolCall(name=name)) for name in ("schemaless", "nan")]
        json.dumps(openai.definitions(toolset), allow_nan=False)
        return list(toolset), bad, await toolset.call(ToolCall(name="fine"))

    with listening() as url:
        names, bad, fine = during(url if transport == "http" else HOSTILE, work)

    assert names == ["schemaless", "odd_hints", "nan", *mcp_hostile.NAMES]
    assert "does not follow the protocol" in bad[0].error.message
    assert "has a number such as NaN" in bad[1].error.message
    assert fine.text == "ok"


def test_an_error_shows_no_escapes():
    """The words of a server's failure hold nothing that a terminal obeys; a result is left alone."""
    [failed, told] = results(HOSTILE, "escaping_error", "escapes")

    assert failed.error.message == "]0;owned[31mredgnp.exe"
    assert told.text == mcp_hostile.ESCAPES


def test_a_question_shows_no_escapes():
    """What a server asks a person, and the titles of its form, hold nothing that is not seen."""
    asked = []

    def elicit(message, form):
        asked.append((message, form["properties"]["name"]["title"]))
        return {"name": "Ada"}

    [answered] = results(HOSTILE, "form", elicit=elicit)

    assert answered.text == "form accept"
    assert asked == [("Proceed? ]0;owned[31mredgnp.exe", "Name ]0;owned[31mredgnp.exe")]


HIDDEN = {"type": "object", "properties": {"a\u202e": {"type": "string"}}}
WRONG = {"type": "object", "properties": {"a": {"type": "string", "enum": 7}}}
LONG = {"type": "object", "properties": {"a": {"type": "string", "description": "x" * 100_000}}}


@pytest.mark.parametrize(
    ("message", "form"),
    [
        ("Name?", HIDDEN),
        ("Name?", WRONG),
        ("Name?", LONG),
        ("x" * 100_000, {"type": "object", "properties": {}}),
    ],
    ids=["hidden", "wrong", "long form", "long message"],
)
def test_a_question_that_nobody_can_read_is_declined(message, form):
    """A form whose names hold what nobody sees, or that is wrong, and a question as long as a book, is shown to nobody."""
    form = types.ElicitRequestFormParams(message=message, requested_schema=form)
    asked = []

    def answer(params):
        if params.input_responses:
            text = params.input_responses["x"].action
            return types.CallToolResult(content=[types.TextContent(text=text)])
        return types.InputRequiredResult(input_requests={"x": types.ElicitRequest(params=form)})

    server = serving(lambda: [tool("ask")], answer)
    result = call(server, "ask", elicit=lambda message, form: asked.append(form))

    assert result.text == "decline"
    assert asked == []


# At a terminal


@pytest.fixture
def terminal(tmp_path):
    """A function that runs the program in a pseudo-terminal and returns what it shows."""
    pexpect = pytest.importorskip("pexpect")
    pytest.importorskip("rich")

    def run(*words, answers=()):
        code = "from functool.cli import main; main(prog_name='functool')"
        child = pexpect.spawn(
            sys.executable,
            ["-c", code, *words],
            cwd=str(ROOT),
            encoding="utf-8",
            timeout=60,
            env={**os.environ, "TERM": "xterm"},
        )
        shown = ""
        for expected, answer in answers:
            child.expect(expected)
            shown += child.before + child.after
            child.sendline(answer)
        shown += child.read()
        child.wait()
        return shown, child.exitstatus

    return run


@pytest.mark.parametrize("name", ["escapes", "escaping_error"])
def test_a_terminal_gets_no_escapes(terminal, name):
    """Neither a result nor an error of a server reaches the terminal's own commands."""
    shown, _ = terminal("call", " ".join(HOSTILE), name)

    assert "]0;owned[31mredgnp.exe" in shown
    assert not set("\x1b\x07\u202e\u2069") & set(shown.split("]0;owned")[1])
    assert "\x1b]0;owned" not in shown


def test_a_form_at_a_terminal_gets_no_escapes(terminal):
    """Neither does a form: its question, which is called that of a server, and the titles of its fields."""
    answers = [(r"\[y/N\]: ", "y"), ("Name [^:]*: ", "Ada")]
    shown, code = terminal("call", " ".join(HOSTILE), "form", answers=answers)

    assert "form accept" in shown
    assert code == 0
    assert "\x1b]0;owned" not in shown
    assert "\u202e" not in shown
    assert "The server asks you: Proceed?" in shown


def test_progress_with_brackets_at_a_terminal(terminal):
    """A progress text that looks like rich's markup is shown as it is, and the call ends well."""
    shown, code = terminal("call", " ".join(HOSTILE), "progress")

    assert "[/nope] [red" in shown
    assert "ok" in shown
    assert code == 0


# What changes while it is watched


def test_a_new_tool_appears(mode):
    """A tool that the server announces is there without a call and without connecting again."""
    told = []

    server = mcp.server([tools["add"]])

    async def work(toolset):
        before = list(toolset)
        await server.replace([tools["add"], FunctionTool(lambda: "new", name="fresh")])
        while "x_fresh" not in toolset:
            await asyncio.sleep(0.01)
            if mode == "legacy":  # Nobody listens before the handshake has been heard.
                await server.replace(server.toolset)
        result = await toolset.call(ToolCall(name="x_fresh"))
        return before, result, list(toolset), [tool.name for tool in toolset.enabled()], toolset

    given = {"mode": mode, "prefix": "x_", "changed": told.append}
    before, result, after, enabled, toolset = brought_in(server, work, **given)

    assert before == ["x_add"]
    assert result.text == "new"
    assert after == enabled == ["x_add", "x_fresh"]
    assert told[0] is toolset


def test_a_tool_does_not_take_the_name_of_another():
    """A server that foresees the hashes in local names gets more names, and replaces no tool."""
    third = "a b3"  # Its hash begins with a letter, so it is a valid name itself.
    taken = hashlib.sha256(third.encode()).hexdigest()
    names = [taken, f"a_b3_{taken[:8]}", third]

    async def work(toolset):
        return [(name, (await toolset.call(ToolCall(name=name))).text) for name in toolset]

    found = brought_in(serving(lambda: [tool(name=name) for name in names]), work)

    assert found[:2] == [(name, f"{name} {{}}") for name in names[:2]]
    assert re.fullmatch("a_b3_[0-9a-f]{8}", found[2][0])
    assert found[2][1] == "a b3 {}"


def test_a_changed_function_that_fails(caplog):
    """A crash of the host's own function is logged, and the new tool is there."""

    def changed(toolset):
        raise KeyError("typo")

    server = mcp.server([tools["add"]])

    async def work(toolset):
        await server.replace([tools["add"], tools["city"]])
        while "city" not in toolset:
            await asyncio.sleep(0.01)
        return await toolset.call(ToolCall(name="city", arguments={"name": "Berlin"}))

    assert brought_in(server, work, changed=changed).success
    assert "changed function" in caplog.text


def test_a_changed_function_that_calls_the_new_tool(mode):
    """The host's own function may call the tools, also the new one, and waits for its answer."""
    answers = asyncio.Queue()

    async def changed(toolset):
        call = ToolCall(name="city", arguments={"name": "Berlin"})
        answers.put_nowait(await toolset.call(call))

    server = mcp.server([tools["add"]])

    async def work(toolset):
        async with asyncio.timeout(LIMIT):
            while answers.empty():
                await server.replace([tools["add"], tools["city"]])
                await asyncio.sleep(0.01)
        return answers.get_nowait()

    assert brought_in(server, work, changed=changed, mode=mode).success


# Keys


def test_a_401_says_what_to_do():
    """A server that wants credentials is told apart from one that is down, with the remedy."""
    with listening(wants="Bearer s3cret") as url:
        with pytest.raises(ConnectionError, match="401.*headers=.*--header") as caught:
            results(url, "fine", headers={"Authorization": "Bearer wr0ng"})
        [fine] = results(url, "fine", headers={"Authorization": "Bearer s3cret"})

    assert "wr0ng" not in str(caught.value)
    assert fine.text == "ok"


@pytest.mark.parametrize(
    ("status", "said"), [(401, "or others than it got: "), (403, "does not accept")]
)
def test_a_key_that_expires_while_connected(status, said):
    """A 401 or 403 in the middle of a session is an error of the call that says what to do."""
    with hostile() as server:

        async def work(toolset):
            server.wants, server.refusal = "Bearer new", status
            return await toolset.call(ToolCall(name="fine"))

        result = during(f"http://127.0.0.1:{server.server_port}/mcp", work)

    assert f"answered {status}" in result.error.message
    assert said in result.error.message


def test_a_call_that_cannot_connect_again_has_not_run():
    """Behind a proxy without a server, a call may have run only if it was sent; connecting sends none."""
    with hostile() as server:

        async def work(toolset):
            server.wants, server.refusal = "Bearer new", 502
            return [await toolset.call(ToolCall(name="fine")) for _ in range(2)]

        sent, not_sent = during(f"http://127.0.0.1:{server.server_port}/mcp", work)

    assert re.search("answered 502.*may have run or not", sent.error.message)
    assert not_sent.error.type == "ConnectionError"
    assert "answered 502" in not_sent.error.message
    assert "may have run" not in not_sent.error.message


def test_an_auth_object_is_asked():
    """`auth` is an object of the HTTP client's, as the SDK's OAuth provider is."""

    class Key(httpx2.Auth):
        def auth_flow(self, request):
            request.headers["Authorization"] = "Bearer s3cret"
            yield request

    with listening(wants="Bearer s3cret") as url:
        [fine] = results(url, "fine", auth=Key())

    assert fine.text == "ok"


def test_what_auth_reads_is_limited_whatever_its_type(monkeypatch):
    """The limit of an answer holds for the requests of `auth`, also if the server calls the answer events."""
    monkeypatch.setattr("functool.integrations.mcp_transport.MAX_ANSWER_BYTES", 1_000_000)

    class Paged(mcp_hostile.Handler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(b"data: x\n\n" * 300_000)

    class Reading(httpx2.Auth):
        async def async_auth_flow(self, request):
            page = yield httpx2.Request("GET", request.url)
            await page.aread()
            yield request

    with hostile() as server, pytest.raises(ConnectionError, match="larger than 16 MiB"):
        server.RequestHandlerClass = Paged
        results(f"http://127.0.0.1:{server.server_port}/mcp", "fine", auth=Reading())


def test_a_person_has_time_to_log_in(monkeypatch):
    """With `auth`, connecting may take longer than a server without it: a person may log in."""
    monkeypatch.setattr("functool.integrations.mcp_client.CONNECT_SECONDS", 0.01)

    class Login(httpx2.Auth):
        async def async_auth_flow(self, request):
            await asyncio.sleep(0.1)
            yield request

    with listening() as url:
        [fine] = results(url, "fine", auth=Login())

    assert fine.text == "ok"


def test_headers_go_with_a_url():
    """A command or a server of the SDK's takes no headers, and says so."""
    with pytest.raises(TypeError, match="URL"):
        results(HOSTILE, "fine", headers={"Authorization": "Bearer x"})


VALUES = ["Bearer s3cret\n", " Bearer s3cret", "Bearer s3cret\u00fc", b"Bearer s3cret", None]


@pytest.mark.parametrize("value", VALUES)
def test_a_header_that_cannot_be_sent_is_not_shown(value):
    """The error for a header's value that HTTP does not take names the header, and not the value."""
    with pytest.raises(ValueError, match="Authorization") as caught:
        results("http://127.0.0.1:9/mcp", "fine", headers={"Authorization": value})

    assert "s3cret" not in str(caught.value)


LISTING = [sys.executable, str(Path(__file__).parent / "mcp_listing.py")]


@pytest.mark.parametrize("kind", ["pages", "many"])
def test_a_list_of_tools_that_is_too_much_is_refused(kind):
    """Pages without an end, and tools without number, end in an error before they fill the memory."""

    async def nothing(toolset): ...

    with pytest.raises(ConnectionError, match="more than 5,000 tools, or 16 MiB"):
        brought_in([*LISTING, kind], nothing, mode="legacy")


def test_a_long_list_of_tools_leaves_room_for_other_work():
    """The definitions are hashed, and the tools made, one after the other in many rounds of the event loop."""

    def rounds_of(number):
        rounds = [0]

        async def count():
            while True:
                rounds[0] += 1
                await asyncio.sleep(0)

        async def main():
            server = serving(lambda: [tool(name=f"t{n}") for n in range(number)])
            counting = asyncio.create_task(count())
            async with mcp.connect(server, mode="legacy") as toolset:
                counting.cancel()
                return len(toolset)

        assert asyncio.run(main()) == number
        return rounds[0]

    assert rounds_of(1_000) - rounds_of(1) > 1_900


def test_a_large_definition_is_read_beside_the_loop(monkeypatch):
    """To read a schema of a megabyte takes a second, which other work would wait."""
    made = []

    class Noted(SchemaTool):
        def __init__(self, name, *more, **options):
            made.append((name, threading.current_thread() is threading.main_thread()))
            super().__init__(name, *more, **options)

    monkeypatch.setattr(mcp_client, "SchemaTool", Noted)
    large = {"type": "object", "properties": {f"p{n}": {} for n in range(10_000)}}
    server = serving(lambda: [tool(name="small"), tool(name="large", schema=large)])

    async def work(toolset):
        return [(await toolset.call(ToolCall(name=name))).text for name in toolset]

    assert brought_in(server, work) == ["small {}", "large {}"]
    assert [entry for entry in made if entry[0] in ("small", "large")] == [
        ("small", True),
        ("large", False),
    ]


def test_a_definition_that_is_too_large_is_refused_alone():
    """The other tools of the server can be called."""

    async def work(toolset):
        return list(toolset), await toolset.call(ToolCall(name="large"))

    names, refused = brought_in([*LISTING, "large"], work, mode="legacy")

    assert names == ["large", "small"]
    assert "larger than 1 MiB" in refused.text


def test_tools_that_change_their_names_for_ever_do_not_pile_up():
    """A server that announces other names each time fills neither the toolset nor the pins."""
    pins = {}

    full = asyncio.Event()

    def changed(toolset):
        if len(toolset) >= 5_000:
            full.set()

    async def work(toolset):
        await full.wait()
        for _ in range(3):
            await toolset.call(ToolCall(name="t1_0"))
        return len(toolset)

    given = {"mode": "legacy", "pins": pins, "changed": changed}
    assert brought_in([*LISTING, "grows"], work, **given) == 5_000
    assert len(pins) <= 5_000


def test_tools_that_change_their_names_for_ever_take_bounded_memory(monkeypatch):
    """The definitions of all listings together have the size that one listing may have."""
    monkeypatch.setattr(mcp_client, "MAX_LISTED", 150_000)
    defined = '{"name":"t1_0","inputSchema":{"type":"object"}}'

    async def main():
        async with mcp.connect([*LISTING, "grows"], mode="legacy") as toolset:
            for _ in range(4):
                await toolset.call(ToolCall(name="t1_0"))
            return len(toolset)

    assert 2_000 < asyncio.run(main()) <= 150_000 / len(defined)


def test_only_the_beginning_of_an_error_is_cleaned(monkeypatch):
    """Of the millions of characters of an error, those are cleaned that a model may be shown."""
    cleaned = []
    monkeypatch.setattr(mcp_link, "visible", lambda text: cleaned.append(len(text)) or text)

    async def list_tools(context, params):
        return types.ListToolsResult(
            tools=[types.Tool(name="fails", input_schema={"type": "object"})]
        )

    async def call_tool(context, params):
        raise MCPError(types.INTERNAL_ERROR, "é" * 1_000_000)

    async def main():
        server = Server("fails", on_list_tools=list_tools, on_call_tool=call_tool)
        async with mcp.connect(server) as toolset:
            return await toolset.call(ToolCall(name="fails"))

    assert asyncio.run(main()).error.message == "é" * mcp_link.MAX_ERROR
    assert cleaned == [10 * mcp_link.MAX_ERROR]


def test_a_strangers_pattern_is_linear_where_its_tool_is_served_again():
    """The output schema of a tool that is no function of ours never meets a backtracking engine."""
    output = {"type": "string", "pattern": "^(?:(a+)+b|a+)$"}
    strange = SchemaTool("x", "", {"type": "object"}, lambda given: None, output=output)
    served = Served(WrapperTool(strange, name="again"))

    fitting = asyncio.run(served.structured("a" * 60))
    assert fitting["structuredContent"] == {"result": "a" * 60}
    with pytest.raises(ToolError, match="does not fit its own output schema"):
        asyncio.run(served.structured("c"))


def test_a_text_that_holds_a_list_is_no_list_where_a_tool_is_served():
    """A value is compared with the output schema as it is. Only arguments may be JSON in a text."""
    strange = SchemaTool("x", "", {"type": "object"}, lambda given: None, output={"type": "array"})

    with pytest.raises(ToolError, match="does not fit its own output schema"):
        asyncio.run(Served(strange).structured("[1]"))


def test_a_long_result_is_checked_beside_the_loop():
    """Other calls are served while a long list is compared with the schema that the server promised."""

    @FunctionTool
    def numbers() -> list[int]:
        """Count."""
        return []

    turns = 0

    async def other_work():
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async def main():
        other = asyncio.create_task(other_work())
        await asyncio.sleep(0)
        found = await Served(numbers).structured(list(range(20_000)))
        other.cancel()
        return found

    assert len(asyncio.run(main())["structuredContent"]["result"]) == 20_000
    assert turns > 5


def test_the_text_of_an_error_is_cleaned_on_a_thread(monkeypatch):
    """A failed answer of megabytes of hidden characters does not hold the event loop."""
    threads, clean = [], untrusted.visible

    def seen(text):
        threads.append(threading.get_ident())
        return clean(text)

    monkeypatch.setattr(untrusted, "visible", seen)
    content = [types.TextContent(type="text", text="no" + "\u202e" * LARGE)]
    answer = types.CallToolResult(content=content, is_error=True)
    result = asyncio.run(untrusted.result(answer, None))

    assert (result.error.message, len(threads)) == ("no", 1)
    assert threading.get_ident() not in threads


def test_structured_content_is_written_on_a_thread(monkeypatch):
    """A large value that a server answers with does not hold its event loop."""
    threads, plain = [], mcp_served.dialect.plain

    def seen(value):
        threads.append(threading.get_ident())
        return plain(value)

    monkeypatch.setattr(mcp_served.dialect, "plain", seen)

    def rows() -> list[int]:
        return [1]

    fields = asyncio.run(Served(FunctionTool(rows)).structured([1]))

    assert fields["structuredContent"] == {"result": [1]}
    assert len(threads) == 1 and threading.get_ident() not in threads
