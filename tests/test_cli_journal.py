"""`functool journal`, as an operator types it."""

import asyncio
import json

import pytest

pytest.importorskip("click")

from click.testing import CliRunner

from functool import FunctionTool, ToolCall, Toolset
from functool.cli import main
from functool.layers.journal import Journal
from functool.layers.journal_lines import recordings_in

KEY = "order-17/pay/2"


@pytest.fixture
def journal(tmp_path):
    """A journal of a done, a failed and an unknown call, and its tools."""

    @FunctionTool(timeout=0.3)
    async def pay(amount: int) -> dict:
        """Pay."""
        if amount == 2 and not paid:
            paid.append(1)
            await asyncio.sleep(60)
        if amount == 3:
            raise ValueError("broke")
        return {"paid": amount}

    paid = []
    journal = Journal(tmp_path / "j")
    tools = journal.once(Toolset([pay]), run="order-17")
    for amount in (1, 2, 3):
        tools.call_sync(ToolCall(name="pay", arguments={"amount": amount}, id=str(amount)))
    journal.tools, journal.path = tools, str(tmp_path / "j")
    return journal


def run(journal, *words):
    return CliRunner().invoke(main, ["journal", journal.path, *words])


def pay_again(journal):
    return journal.tools.call_sync(ToolCall(name="pay", arguments={"amount": 2}, id="2"))


def test_list_shows_state_start_and_key(journal):
    """A line for each call, by run and state; JSON on request."""
    lines = [line.split("\t") for line in run(journal, "list").stdout.splitlines()]
    unknown = run(journal, "list", "--state", "unknown", "--json").stdout
    [form] = map(json.loads, unknown.splitlines())

    assert [(state, key) for state, _, key in lines] == [
        ("done", "order-17/pay/1"),
        ("unknown", KEY),
        ("done", "order-17/pay/3"),
    ]
    assert (form["key"], form["arguments"], form["result"]) == (KEY, {"amount": 2}, None)
    assert run(journal, "list", "--run", "other").stdout == ""
    assert "'lost' is not one of" in run(journal, "list", "--state", "lost").output


def test_show_prints_all_of_a_call(journal):
    """Arguments, times and result of one call, as JSON."""
    done = json.loads(run(journal, "show", "order-17/pay/1").stdout)
    failed = json.loads(run(journal, "show", "order-17/pay/3").stdout)

    assert done["result"] == {"text": '{"paid":1}', "value": {"paid": 1}, "error": None}
    assert failed["result"]["error"] == "ValueError"
    assert done["state"] == "done" and done["ended"] >= done["started"]


@pytest.mark.parametrize("command", [["show"], ["reopen"], ["settle", "--text", "x"]])
def test_a_key_that_is_not_there_names_close_ones(journal, command):
    """An unknown key is one line that names the nearest, and the exit code is 1."""
    result = run(journal, command[0], "order-17/pay/9", *command[1:])

    assert result.exit_code == 1 and "did you mean" in result.output
    assert "order-17/pay/1" in result.output and "Traceback" not in result.output


@pytest.mark.parametrize(
    ("options", "text", "error"),
    [
        (["--text", "It was paid."], "It was paid.", None),
        (["--json", '{"paid": 2}'], '{"paid":2}', None),
        (["--failed", "The bank refused."], "The bank refused.", "ToolError"),
    ],
)
def test_settle_says_what_came_of_a_call(journal, options, text, error):
    """What the operator says is the call's result from then on."""
    assert run(journal, "settle", KEY, *options).exit_code == 0

    result = pay_again(journal)
    assert result.text == text and (result.error and result.error.type) == error
    assert "is done since" in run(journal, "settle", KEY, *options).output


@pytest.mark.parametrize("options", [[], ["--text", "a", "--failed", "b"]])
def test_settle_takes_one_answer(journal, options):
    """No answer, or two, is an error of usage, and nothing changes."""
    result = run(journal, "settle", KEY, *options)

    assert result.exit_code == 2 and "one of --text, --json and --failed" in result.output
    assert journal.calls(state="unknown")[0].key == KEY


@pytest.mark.parametrize("text", ["{paid", "NaN", "1e999", "[" * 100_000])
def test_settle_takes_json(journal, text):
    """What is no JSON is an error of usage, and nothing changes."""
    result = run(journal, "settle", KEY, "--json", text)

    assert result.exit_code == 2 and "Error: --json: not JSON (" in result.output
    assert journal.calls(state="unknown")[0].key == KEY


def test_reopen_lets_a_call_run_again(journal):
    """A reopened call runs when it comes again."""
    assert pay_again(journal).error.type == "OutcomeUnknown"

    assert run(journal, "reopen", KEY).exit_code == 0
    assert pay_again(journal).value == {"paid": 2}


def test_export_prints_what_recorded_reads(journal):
    """Definitions and calls, as lines of JSON."""
    recordings = recordings_in(run(journal, "export").stdout.splitlines(), "export")

    assert list(recordings) == ["order-17"]
    assert [entry.key for entry in recordings["order-17"].entries][1] == KEY
    assert json.loads(recordings["order-17"].definitions["pay"])["description"] == "Pay."
    assert run(journal, "export", "--run", "order-17").stdout == run(journal, "export").stdout
    assert len(run(journal, "export", "--run", "other").stdout.splitlines()) == 1


def test_a_file_that_is_no_journal_is_one_line(tmp_path):
    """A file that is not there is never made; one of another kind is an error."""
    absent = CliRunner().invoke(main, ["journal", str(tmp_path / "absent"), "list"])
    (tmp_path / "text").write_text("text " * 500)
    other = CliRunner().invoke(main, ["journal", str(tmp_path / "text"), "list"])

    assert absent.exit_code == 2 and not (tmp_path / "absent").exists()
    assert other.exit_code == 1 and "not a database" in other.output


def test_names_cannot_write_to_the_terminal(tmp_path):
    """Control characters in a run's name are shown, not sent."""
    journal = Journal(tmp_path / "j")
    journal.path = str(tmp_path / "j")
    tool = journal.once(FunctionTool(print, name="p\x1b[31m"), run="r\x1b[2J")
    asyncio.run(tool(ToolCall(name="p", id="\x1b[1m")))

    assert "\x1b" not in run(journal, "list").output
