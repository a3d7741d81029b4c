"""Code mode with a journal: programs that go on in another process, and calls that are never made twice."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from functool import Context, FunctionTool, GuardrailError, ToolCall, ToolResult, ToolSettings
from functool.bundled.code_mode import code_mode
from functool.guardrails import budget, max_repeats, rate_limit, require_approval
from functool.layers.journal import Journal
from tests.bundled.programs import outcomes, run, value_of
from tests.support import alive, until


class Bank:
    """Tools over one journal, each a host of its own, and what they paid."""

    def __init__(self, path):
        self.path = path
        self.paid = []
        self.fail = {}

    @property
    def journal(self):
        return Journal(self.path)

    def pay_tool(self):
        def pay(to: str, amount: float) -> str:
            self.paid.append(to)
            if to in self.fail:
                raise self.fail.pop(to)
            return f"paid {to}"

        guard = require_approval(lambda call, context: call.arguments["amount"] > 50)
        return FunctionTool(pay, input_guardrails=[guard])

    def host(self, run="r"):
        return code_mode([self.pay_tool()], journal=self.journal, run=run)


@pytest.fixture
def bank(tmp_path):
    return Bank(tmp_path / "j")


@pytest.fixture
def tool(bank):
    return bank.host()


CODE = "a = await pay(to='a', amount=1)\nb = await pay(to='b', amount=99)\n[a, b]"


def test_a_program_goes_on_in_another_process(bank, tool):
    """Another journal of the same file, context and tool go on where the program stood."""
    first = run(tool, CODE)
    context = Context()
    context.approve(first.metadata["approval"])
    again = bank.host(run=lambda context: "r")
    last = run(again, CODE, context)

    assert last.value["value"] == ["paid a", "paid b"], last.text
    assert bank.paid == ["a", "b"]
    assert run(again, CODE).value == last.value
    assert run(again, CODE).metadata["calls"] == last.metadata["calls"]
    assert bank.paid == ["a", "b"]


def test_run_may_be_async(bank):
    """An async `run` names the work as a sync one does."""

    async def named(context):
        return context.deps

    answer = run(bank.host(run=named), "await pay(to='a', amount=1)", Context("r"))

    assert answer.value["value"] == "paid a", answer.text
    assert {entry.run for entry in bank.journal.calls()} == {"r"}


def test_the_keys_of_a_result_keep_their_order(bank):
    """A table has its columns in the tool's order, with a journal as without, and when it is stored."""
    rows = FunctionTool(lambda: [{"name": "a", "cost": 1, "day": "x"}], name="rows")
    code = "found = await rows()\n[list(found[0]), found[0]]"

    for _ in range(2):
        keys, row = value_of(code_mode([rows], journal=bank.journal, run="r"), code)
        assert keys == [*row] == ["name", "cost", "day"]


def test_the_journal_refuses_what_is_another_program(bank, tool):
    """Another program under the same id, and a call without an id, run nothing."""
    run(tool, CODE)

    assert run(tool, CODE + "\n").error.type == "AnotherProgram"
    assert run(tool, CODE, id="").error.type == "AnotherProgram"
    assert bank.paid == ["a"]
    assert run(bank.host(run="another"), "await pay(to='a', amount=1)").success
    assert bank.paid == ["a", "a"]


def test_an_interrupted_call_ends_the_program(bank, tool):
    """A call interrupted inside its body ends the outer call; settled, the program goes on."""
    bank.fail["a"] = KeyboardInterrupt()
    code = "try:\n    a = await pay(to='a', amount=1)\nexcept BaseException:\n    a = 'caught'\na"
    with pytest.raises(KeyboardInterrupt):
        run(tool, code)
    unknown = run(tool, code)

    assert unknown.error.type == "OutcomeUnknown"
    assert unknown.metadata["calls"] == [{"id": "c1/1", "name": "pay", "outcome": "unknown"}]
    bank.journal.settle(unknown.error.details["key"], ToolResult.of("settled"))
    assert value_of(tool, code) == "settled"
    assert bank.paid == ["a"]


def interrupted(bank, tool):
    """Interrupt a program in its second call. Return its code, and the result when it comes again."""
    bank.fail["b"] = KeyboardInterrupt()
    code = CODE.replace("99", "2")
    with pytest.raises(KeyboardInterrupt):
        run(tool, code)
    return code, run(tool, code)


def test_a_call_that_had_no_effect_is_reopened(bank, tool):
    """Reopened by an operator, the interrupted call runs, and the program goes on from there."""
    code, unknown = interrupted(bank, tool)

    assert "c1/1 pay: done; c1/2 pay: unknown" in unknown.text
    bank.journal.reopen(unknown.error.details["key"])
    assert value_of(tool, code) == ["paid a", "paid b"]
    assert bank.paid == ["a", "b", "b"]


NESTED = """
try:
    found = await inner(code=CODE)
except RuntimeError:
    found = "caught"
found
"""


def test_an_interrupted_call_ends_the_program_around_its_program(bank):
    """A call interrupted in a program inside of a program ends both; settled, both go on."""
    inner = code_mode([bank.pay_tool()], name="inner", journal=bank.journal, run="r")
    tool = code_mode([inner], journal=bank.journal, run="r")
    code = NESTED.replace("CODE", repr(CODE.replace("99", "2")))
    bank.fail["b"] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        run(tool, code)
    around = run(tool, code)
    bank.journal.reopen(around.error.details["key"])
    inside = run(tool, code)

    assert around.error.type == inside.error.type == "OutcomeUnknown"
    assert around.error.details["key"] == "r/inner/c1%2F1"
    assert inside.error.details["key"] == "r/pay/c1%2F1%2F2"
    bank.journal.settle(inside.error.details["key"], ToolResult.of("settled"))
    bank.journal.reopen(around.error.details["key"])
    assert value_of(tool, code)["value"] == ["paid a", "settled"]
    assert bank.paid == ["a", "b"]


@pytest.mark.parametrize("around", ["program", "once"])
def test_a_program_inside_of_a_journalled_call_does_not_wait_without_a_journal(bank, around):
    """Another process would make its calls again, so it waits only before its first effect."""

    def host():
        inner = code_mode([bank.pay_tool()], name="inner")
        if around == "once":
            return bank.journal.once(inner, run="r")
        return code_mode([inner], journal=bank.journal, run="r")

    def call(code, id, context=None):
        if around == "program":
            code = f"await inner(code={code!r})"
        made = ToolCall(name=host().name, arguments={"code": code}, id=id)
        return asyncio.run(host().invoke(made, context))

    result = call(CODE, "c1")
    assert "this host would forget" in result.error.message
    assert (bank.paid, call(CODE, "c1").text) == (["a"], result.text)

    first = call("await pay(to='c', amount=99)", "c2")
    context = Context()
    context.approve(first.metadata["approval"])
    assert call("await pay(to='c', amount=99)", "c2", context).success
    assert bank.paid == ["a", "c"]


def test_a_program_is_purged_as_a_whole(bank):
    """A program of which something was recorded since goes on: its first calls are not made again."""
    inner = code_mode([bank.pay_tool()], name="inner", journal=bank.journal, run="r")
    tool = code_mode([inner, bank.pay_tool()], journal=bank.journal, run="r")
    code = f"await pay(to='x', amount=1)\nawait inner(code={CODE.replace('1)', '60)')!r})"
    context = Context()
    first = run(tool, code, context)
    moment = datetime.now(UTC)
    context.approve(first.metadata["approval"])
    second = run(tool, code, context)
    removed = bank.journal.purge(moment)
    context.approve(second.metadata["approval"])

    assert removed == 0
    assert value_of(tool, code, context)["value"] == ["paid a", "paid b"]
    assert bank.paid == ["x", "a", "b"]
    assert bank.journal.purge(datetime.now(UTC) + timedelta(seconds=1)) > 10
    assert bank.journal.calls() == []


def test_a_program_with_an_interrupted_call_is_not_purged(bank, tool):
    """Its first calls stay recorded, so settled, it goes on and makes them no second time."""
    code, unknown = interrupted(bank, tool)
    later = datetime.now(UTC) + timedelta(seconds=1)
    removed = bank.journal.purge(later)
    bank.journal.settle(unknown.error.details["key"], ToolResult.of("settled"))

    assert removed == 0
    assert value_of(tool, code) == ["paid a", "settled"]
    assert bank.paid == ["a", "b"]
    assert bank.journal.purge(later + timedelta(days=1)) > 3


def test_what_was_done_and_not_recorded_is_not_asked_again(bank, tool):
    """A process that ended between an approved call and its record asks nobody twice."""
    code = "await pay(to='b', amount=99)"
    run(tool, code)
    call = ToolCall(name="pay", arguments={"to": "b", "amount": 99}, id="c1/1")
    context = Context(approver=lambda request: True)
    asyncio.run(bank.journal.once(bank.pay_tool(), "r").invoke(call, context))

    assert value_of(tool, code) == "paid b"
    assert bank.paid == ["b"]


def test_two_that_resume_one_program_get_one_answer(bank, tool):
    """Two hosts of one file run each call once, and both read the same answer."""
    call = ToolCall(name="run_code", arguments={"code": CODE.replace("99", "9")}, id="c1")

    async def both():
        return await asyncio.gather(tool.invoke(call), bank.host().invoke(call))

    first, second = asyncio.run(both())

    assert first.value == second.value == {"printed": "", "value": ["paid a", "paid b"]}
    assert sorted(bank.paid) == ["a", "b"]


def test_ids_that_begin_alike_are_other_calls(bank, tool):
    """The record of a call is not taken for that of one whose id begins with the same text."""
    first = run(tool, CODE, id="c1")
    assert run(tool, "await pay(to='x', amount=1)", id="c1/9").value["value"] == "paid x"
    context = Context()
    context.approve(first.metadata["approval"])

    assert value_of(tool, CODE, context) == ["paid a", "paid b"]
    assert bank.paid == ["a", "x", "b"]


def test_a_run_with_programs_is_exported_and_replayed(bank, tool):
    """The notes of programs disturb neither the lines of a run nor its replay."""
    run(tool, "await pay(to='a', amount=1)")
    recording = bank.journal.recordings("r")["r"]
    replayed = bank.journal.replay("r")["pay"]
    call = ToolCall(name="pay", arguments={"to": "a", "amount": 1}, id="c1/1")

    assert [*recording.definitions] == ["pay"]
    assert asyncio.run(replayed.invoke(call)).value == "paid a"
    assert bank.paid == ["a"]


@pytest.mark.parametrize("build", ["", "import os\nvars(os).pop('memfd_create', None)\n"])
def test_no_worker_survives_a_killed_host(tmp_path, build):
    """A spinning interpreter dies with a host that gets SIGKILL, and no file of it stays.

    So it is with a build of Python for old systems, as uv's and conda's were.
    """
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    host = tmp_path / "host.py"
    host.write_text(
        f"{build}import asyncio\n"
        "from functool import FunctionTool, ToolCall\n"
        "from functool.bundled.code_mode import code_mode, CodeLimits\n"
        "@FunctionTool\n"
        "def mark() -> None:\n    print('spinning', flush=True)\n"
        "tool = code_mode([mark], limits=CodeLimits(seconds=600))\n"
        "call = ToolCall(name='run_code', arguments={'code': 'await mark()\\nwhile True: pass'})\n"
        "asyncio.run(tool.invoke(call))\n"
    )
    child = subprocess.Popen(
        [sys.executable, str(host)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    assert child.stdout.readline() == "spinning\n"
    tasks = Path(f"/proc/{child.pid}/task")
    workers = [w for t in tasks.iterdir() for w in (t / "children").read_text().split()]
    assert workers
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    end = time.monotonic() + 120
    while left := [w for w in workers if alive(w)]:
        assert time.monotonic() < end, left
        time.sleep(0.05)
    assert [*temporary.iterdir()] == []


def test_a_program_goes_on_without_the_other_calls_of_its_run(bank):
    """A run may hold thousands of large results of other programs, which are not read."""
    read = []

    class Watched(Journal):
        def calls(self, **given):
            raise AssertionError("the whole run was read")

        def calls_of(self, run, call_id):
            found = super().calls_of(run, call_id)
            read.extend(entry.call_id for entry in found)
            return found

    for id in ("c", "c1", "c11"):
        run(bank.host(), CODE, Context(), id=id)
    tool = code_mode([bank.pay_tool()], journal=Watched(bank.path), run="r")
    run(tool, CODE, Context(approver=lambda request: True), id="c1")

    assert read
    assert {id.partition("/")[0] for id in read} == {"c1"}
    assert bank.paid == ["a", "a", "a", "b"]


def stopped_program(bank, guard, at, **options):
    """Run a program of two calls that is cancelled `at` a moment of the second. Return what goes on.

    The guard stands before the first one, which is `done` by then, or `unknown` if it waits too.
    """
    began = []

    async def first(n: int) -> str:
        began.append("first")
        if at == "in the first":
            await asyncio.sleep(60)
        return "did it"

    async def second(n: int) -> str:
        began.append("second")
        if began.count("second") == 1:
            await asyncio.sleep(60)
        return "and this"

    first = FunctionTool(first, input_guardrails=[guard])
    second = FunctionTool(second, settings=ToolSettings(read_only=True))
    context = Context()
    code = (
        "import asyncio\n"
        "async def one():\n    try:\n        return await first(n=1)\n"
        "    except RuntimeError as error:\n        return str(error)\n"
        "await asyncio.gather(one(), second(n=2))"
    )
    call = ToolCall(name="run_code", arguments={"code": code}, id="c1")
    done = [("first", "done")]

    async def main():
        tool = code_mode([first, second], journal=bank.journal, run="r")
        running = asyncio.create_task(tool.invoke(call, context))

        def stands():
            calls = [(entry.tool, entry.state) for entry in bank.journal.calls(run="r")]
            return len(began) == 2 and (at == "in the first" or set(done) <= set(calls))

        await until(stands)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        again = code_mode([first, second], journal=bank.journal, run="r")
        return await again.invoke(call, context)

    return asyncio.run(main()), began


@pytest.mark.parametrize("guard", [budget(calls=1), max_repeats(1), rate_limit(1, 3600)])
def test_limits_count_a_call_once_when_a_program_goes_on(bank, guard):
    """A call that the journal answers uses up no limit, so its program gets the same outcome."""
    result, began = stopped_program(bank, guard, "after the first")

    assert result.value["value"] == ["did it", "and this"]
    assert began.count("first") == 1


def closing(call, context):
    """Let the first call of a context through only."""
    if context.state.setdefault("closed", False):
        raise GuardrailError("closed now")
    context.state["closed"] = True


def test_a_call_that_took_effect_is_not_told_as_refused(bank):
    """A guardrail that refuses a call only when the program goes on does not undo it."""
    result, _ = stopped_program(bank, closing, "after the first")

    assert outcomes(result) == [("first", "failed"), ("second", "done")]
    error = "The call took effect before, but now: GuardrailError: closed now"
    assert result.value["value"] == [error, "and this"]


@pytest.mark.parametrize("guard", [closing, require_approval(lambda call, ctx: closed(call, ctx))])
def test_an_interrupted_call_is_not_told_as_refused_or_waiting(bank, guard):
    """A guardrail that refuses or asks does not hide that the call may have run."""
    result, began = stopped_program(bank, guard, "in the first")

    assert result.error.type == "OutcomeUnknown"
    assert outcomes(result)[0] == ("first", "unknown")
    assert began.count("first") == 1
    assert result.error.details["key"] == "r/first/c1%2F1"


def closed(call, context):
    """Ask for every call but the first one of a context."""
    was, context.state["closed"] = context.state.get("closed", False), True
    return was
