"""Recorded calls: once with the real tools, afterwards from a file."""

import asyncio
import contextlib
import io
import itertools
import json
import sys
import threading
import time

import pytest

from functool import (
    Context,
    DefinitionError,
    FunctionTool,
    ToolCall,
    ToolError,
    ToolFailure,
    ToolResult,
    Toolset,
)
from functool.guardrails import require_approval
from functool.layers import recorded as module
from functool.layers.journal import Interrupted, Journal, JournalError
from functool.layers.journal_lines import lines_of
from functool.layers.recorded import recorded, recording
from tests.support import in_threads, mail_readers

pytest_plugins = ["pytester"]


def ask(tools, name, id="", **arguments):
    return tools.call_sync(ToolCall(name=name, arguments=arguments, id=id))


def tools(**changes):
    """The real tools, and what they did."""
    numbers = itertools.count(1)
    done = []

    @FunctionTool(name="roll", **changes)
    def roll(sides: int = 6, now: str = "") -> int:
        """Roll a die."""
        done.append(now)
        if sides == 0:
            raise ToolError("no sides")
        return next(numbers)

    return Toolset([roll]), done


def rolls(tmp_path, **arguments):
    """A file in which one call is recorded."""
    path = tmp_path / "rolls.jsonl"
    with recording(path) as use:
        ask(use(tools()[0]), "roll", **arguments)
    return path


def test_calls_are_recorded_once_and_replayed(tmp_path):
    """The first time the real tools are called; then the file answers, and stays as it was."""
    path = tmp_path / "deep" / "rolls.jsonl"
    real, done = tools()
    with recording(path) as use:
        used = use(real)
        first = [ask(used, "roll").value, ask(used, "roll").value, ask(used, "roll", sides=0).text]
    written = path.read_bytes()
    again, untouched = tools()
    with recording(path) as use:
        used = use(again)
        second = [ask(used, "roll").value, ask(used, "roll").value, ask(used, "roll", sides=0).text]
        surplus = ask(used, "roll")

    assert first == second == [1, 2, "no sides"] and len(done) == 3
    assert surplus.error.type == "NotRecorded"
    assert untouched == [] and path.read_bytes() == written
    assert isinstance(used, Toolset)


def test_an_id_that_comes_again_is_replayed_as_it_was_recorded(tmp_path):
    """A scripted model may give all its calls one id: each gets its own answer in the replay, too."""
    path = tmp_path / "rolls.jsonl"
    answers = []
    for _ in range(2):
        with recording(path) as use:
            used = use(tools()[0])
            answers.append([ask(used, "roll", "1").value for _ in range(3)])

    assert answers == [[1, 2, 3], [1, 2, 3]]


def test_a_replayed_answer_keeps_the_labels_of_inner_calls(tmp_path):
    """A recorded text or error of an untrusted tool is untrusted when the file answers."""
    for _ in range(2):
        with recording(tmp_path / "mail.jsonl") as use:
            used = use(Toolset(mail_readers()))
            results = [ask(used, name) for name in ("digest", "fail")]
        assert [result.metadata["sources"] for result in results] == [["mail"]] * 2


def test_volatile_arguments_may_be_ignored(tmp_path):
    """An ignored argument may differ from the recorded one; without `ignore` it may not."""
    path = rolls(tmp_path, now="10:00")

    with recording(path, ignore=["now"]) as use:
        assert ask(use(tools()[0]), "roll", now="11:00").value == 1
    with recording(path) as use:
        assert ask(use(tools()[0]), "roll", now="11:00").error.type == "NotRecorded"


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"description": "Roll two dice."}, "description"), ({"strict": True}, "parameters, strict")],
)
def test_a_changed_definition_fails(tmp_path, changes, said):
    """A tool that is not defined as it was recorded is an error that names what changed."""
    path = rolls(tmp_path)

    changed = rf"\({said}\)(?s:.*)delete rolls.jsonl"
    with recording(path) as use, pytest.raises(DefinitionError, match=changed):
        use(tools(**changes)[0])


def test_a_tool_that_was_not_recorded_fails(tmp_path):
    """A new tool among recorded ones has no answers: that is an error at once."""
    path = rolls(tmp_path)

    with recording(path) as use, pytest.raises(DefinitionError, match="had no part"):
        use(FunctionTool(print, name="new"))


def test_each_run_has_its_part_of_the_file(tmp_path):
    """Runs are recorded one after another into one file, and do not mix."""
    path = tmp_path / "rolls.jsonl"
    real, _ = tools()
    for run in ("one", "two"):
        with recording(path, run) as use:
            ask(use(real), "roll")

    for run, value in (("two", 2), ("one", 1)):
        with recording(path, run) as use:
            assert ask(use(real), "roll").value == value


@pytest.mark.skipif(sys.platform == "win32", reason="its files have no such locks")
def test_tests_that_are_recorded_at_the_same_time_all_stay(tmp_path, monkeypatch):
    """Several processes that record the tests of one file lose none of them."""
    path, names, read = tmp_path / "rolls.jsonl", iter("abcdefgh"), module._read
    together = threading.Barrier(8)

    def slowly(path):
        found = read(path)
        time.sleep(0.02)
        return found

    def record():
        name = next(names)
        with recording(path, name) as use:
            ask(use(tools()[0]), "roll")
            together.wait()
        return name

    monkeypatch.setattr(module, "_read", slowly)
    recorded = in_threads(8, record)

    assert sorted(read(path)) == sorted(recorded) == [*"abcdefgh"]


def test_a_test_that_fails_records_nothing(tmp_path):
    """An exception inside leaves no file, and no temporary one."""
    with pytest.raises(KeyError), recording(tmp_path / "rolls.jsonl") as use:
        ask(use(tools()[0]), "roll")
        raise KeyError

    assert list(tmp_path.iterdir()) == []


def test_interrupted_and_waiting_calls_are_not_recorded(tmp_path):
    """A call that was cancelled, refused or waits for a person has no answer to replay."""
    path = tmp_path / "rolls.jsonl"

    @FunctionTool
    async def hang() -> None:
        raise asyncio.CancelledError

    @FunctionTool
    async def pause(ctx: Context):
        inner = FunctionTool(print, name="inner", input_guardrails=[require_approval()])
        return await inner(ToolCall(name="inner"), ctx)

    @FunctionTool
    def lose() -> ToolResult:
        error = ToolFailure(type="Interrupted", message="lost", cause=Interrupted("lost"))
        return ToolResult(error=error)

    with recording(path) as use:
        used = use(Toolset([hang, pause, lose, *tools()[0].values()]))
        ask(used, "hang"), ask(used, "pause"), ask(used, "lose"), ask(used, "roll")
    calls = [json.loads(line) for line in path.read_text().splitlines()]

    assert [line["tool"] for line in calls if "arguments" in line] == ["roll"]


def test_recorded_results_keep_the_labels_of_their_arguments(tmp_path):
    """A replayed answer comes from where the arguments of the recorded call came from."""
    path = tmp_path / "rolls.jsonl"
    sent = ToolCall(name="roll", arguments={"now": "x"}, metadata={"sources": {"/now": ["mail"]}})
    with recording(path) as use:
        use(tools()[0]).call_sync(sent)
    with recording(path) as use:
        again = ask(use(tools()[0]), "roll", now="x")

    assert again.success and again.metadata["sources"] == ["mail"]


def test_parallel_calls_are_recorded_in_the_order_of_their_beginning(tmp_path):
    """What begins first is first in the file, however long it takes."""

    second_ended = asyncio.Event()

    @FunctionTool
    async def wait(first: bool) -> bool:
        if first:
            await second_ended.wait()
        second_ended.set()
        return first

    path = tmp_path / "waits.jsonl"
    with recording(path) as use:
        used = use(Toolset([wait]))
        used.call_all_sync(
            ToolCall(name="wait", arguments={"first": first}, id="same") for first in (True, False)
        )
    lines = [json.loads(line) for line in path.read_text().splitlines()]

    assert [line["result"]["value"] for line in lines if "arguments" in line] == [True, False]


def test_an_exported_run_can_be_replayed(tmp_path):
    """What a journal exports is what `recording` reads."""
    journal = Journal(tmp_path / "j")
    real, _ = tools()
    ask(journal.once(real, run="recorded"), "roll", "1")
    path = tmp_path / "rolls.jsonl"
    path.write_text("\n".join(lines_of(journal.recordings(), times=True)))

    with recording(path) as use:
        assert ask(use(tools()[0]), "roll").value == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("not json", "line 1: this is no recorded call"),
        ('{"format": "other"}', "holds no recorded calls"),
        ('{"format": "functool calls", "version": 2}', "version 2 of the format"),
        ('{"format": "functool calls", "version": 1}\n{"run": "r"}', "line 2"),
        ("[]", "line 1"),
    ],
)
def test_a_file_of_another_kind_is_refused(tmp_path, text, said):
    """The error names the file and the line, and nothing is overwritten."""
    path = tmp_path / "rolls.jsonl"
    path.write_text(text)

    with pytest.raises(JournalError, match=said), recording(path):
        pass
    assert path.read_text() == text


@pytest.mark.parametrize("ignore", ["now", [3]])
def test_ignore_takes_names(tmp_path, ignore):
    """A text instead of a list of names is the author's mistake."""
    with pytest.raises(DefinitionError, match="list of argument names"):
        recorded(tmp_path / "x", ignore=ignore)
    with (
        pytest.raises(DefinitionError, match="list of argument names"),
        recording("x", ignore=ignore),
    ):
        pass


TEST_FILE = '''
import os
from functool import FunctionTool, ToolCall, Toolset
from functool.layers.recorded import recorded

calls = recorded("data/rolls.jsonl", ignore=["now"])

@FunctionTool
def roll(now: str) -> int:
    """{says}"""
    assert "REPLAY" not in os.environ
    return 4

def ask(calls):
    tools = calls(Toolset([roll]))
    return tools.call_sync(ToolCall(name="roll", arguments={{"now": os.urandom(4).hex()}})).value

def test_one(calls):
    assert ask(calls) == 4

class TestMore:
    def test_two(self, calls):
        assert ask(calls) == 4
'''


def test_it_is_a_pytest_fixture(pytester, monkeypatch):
    """In a test file it records once beside the file, replays, and fails when a definition changes."""
    pytester.makepyfile(test_rolls=TEST_FILE.format(says="Roll."))
    plain = ["-p", "no:cacheprovider", "-p", "no:amplifier_module"]
    pytester.runpytest(*plain).assert_outcomes(passed=2)
    lines = (pytester.path / "data/rolls.jsonl").read_text().splitlines()
    runs = [json.loads(line).get("run") for line in lines]
    monkeypatch.setenv("REPLAY", "1")
    pytester.runpytest(*plain).assert_outcomes(passed=2)
    sys.modules.pop("test_rolls", None)
    pytester.makepyfile(test_rolls=TEST_FILE.format(says="Roll a die."))

    changed = pytester.runpytest(*plain)

    changed.assert_outcomes(failed=2)
    changed.stdout.fnmatch_lines(["*the definition of 'roll' has changed*"])
    assert set(runs) == {None, "test_one", "TestMore::test_two"}


def test_without_pytest_the_error_says_what_to_install(monkeypatch):
    """Only the fixture needs pytest, and says so."""
    monkeypatch.setitem(sys.modules, "pytest", None)

    with pytest.raises(ImportError, match="pip install pytest"):
        recorded("x")


def test_the_demo_replays_to_the_byte(tmp_path):
    """A replayed run of the demo calls no tool and prints the same bytes."""
    from examples.agent_loop import agent_loop, person
    from examples.demo_tools import new_project
    from examples.models import Scripted

    def printed(tools, project):
        context = Context(project, approver=person(asks=False))
        with contextlib.redirect_stdout(io.StringIO()) as shown:
            print(asyncio.run(agent_loop(Scripted("", tools), tools, context)))
        return shown.getvalue()

    path, project, gone = tmp_path / "demo.jsonl", tmp_path / "project", tmp_path / "gone"
    for directory in (project, gone):
        directory.mkdir()
    tools, others = new_project(project), new_project(gone)
    for file in gone.iterdir():
        file.unlink()
    with recording(path) as use:
        real = printed(use(tools), project)

    assert "result  " in real and "refused  " in real and "approval  " in real
    # Neither project nor files: a body that ran would fail.
    with recording(path) as use:
        assert printed(use(others), None) == real
