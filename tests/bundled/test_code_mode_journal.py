"""Code mode with a journal: programs that go on in another process, and calls that are never made twice."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from functool import Context, FunctionTool, ToolCall, ToolResult
from functool.bundled.code_mode import code_mode
from functool.guardrails import require_approval
from functool.layers.journal import Journal


def pay_tool(paid, fail=None):
    def pay(to: str, amount: float) -> str:
        paid.append(to)
        if fail and to in fail:
            raise fail.pop(to)
        return f"paid {to}"

    guard = require_approval(lambda call, context: call.arguments["amount"] > 50)
    return FunctionTool(pay, input_guardrails=[guard])


def run(tool, code, context=None, id="c1"):
    call = ToolCall(name="run_code", arguments={"code": code}, id=id)
    return asyncio.run(tool.invoke(call, context))


CODE = "a = await pay(to='a', amount=1)\nb = await pay(to='b', amount=99)\n[a, b]"


def test_a_program_goes_on_in_another_process(tmp_path):
    """Another journal of the same file, context and tool go on where the program stood."""
    paid = []
    first = run(code_mode([pay_tool(paid)], journal=Journal(tmp_path / "j"), run="r"), CODE)
    context = Context()
    context.approve(first.metadata["approval"])
    again = code_mode([pay_tool(paid)], journal=Journal(tmp_path / "j"), run=lambda context: "r")
    last = run(again, CODE, context)

    assert last.value["value"] == ["paid a", "paid b"], last.text
    assert paid == ["a", "b"]
    assert run(again, CODE).value == last.value
    assert run(again, CODE).metadata["calls"] == last.metadata["calls"]
    assert paid == ["a", "b"]


def test_the_journal_refuses_what_is_another_program(tmp_path):
    """Another program under the same id, and a call without an id, run nothing."""
    paid = []
    tool = code_mode([pay_tool(paid)], journal=Journal(tmp_path / "j"), run="r")
    run(tool, CODE)

    assert run(tool, CODE + "\n").error.type == "AnotherProgram"
    assert run(tool, CODE, id="").error.type == "AnotherProgram"
    assert paid == ["a"]
    other = code_mode([pay_tool(paid)], journal=Journal(tmp_path / "j"), run="another")
    assert run(other, "await pay(to='a', amount=1)").success
    assert paid == ["a", "a"]


def test_an_interrupted_call_ends_the_program(tmp_path):
    """A call interrupted inside its body ends the outer call; settled, the program goes on."""
    paid, journal = [], Journal(tmp_path / "j")
    tool = code_mode([pay_tool(paid, {"a": KeyboardInterrupt()})], journal=journal, run="r")
    code = "try:\n    a = await pay(to='a', amount=1)\nexcept BaseException:\n    a = 'caught'\na"
    with pytest.raises(KeyboardInterrupt):
        run(tool, code)
    unknown = run(tool, code)

    assert unknown.error.type == "OutcomeUnknown"
    assert unknown.metadata["calls"] == [{"id": "c1/1", "name": "pay", "outcome": "unknown"}]
    journal.settle(unknown.error.details["key"], ToolResult.of("settled"))
    assert run(tool, code).value["value"] == "settled"
    assert paid == ["a"]


def test_what_was_done_and_not_recorded_is_not_asked_again(tmp_path):
    """A process that ended between an approved call and its record asks nobody twice."""
    paid, path = [], tmp_path / "j"
    tool = code_mode([pay_tool(paid)], journal=Journal(path), run="r")
    code = "await pay(to='b', amount=99)"
    run(tool, code)
    context = Context(approver=lambda request: True)
    asyncio.run(
        Journal(path)
        .once(pay_tool(paid), "r")
        .invoke(ToolCall(name="pay", arguments={"to": "b", "amount": 99}, id="c1/1"), context)
    )

    assert run(tool, code).value["value"] == "paid b"
    assert paid == ["b"]


def test_two_that_resume_one_program_get_one_answer(tmp_path):
    """Two hosts of one file run each call once, and both read the same answer."""
    paid = []
    tools = [
        code_mode([pay_tool(paid)], journal=Journal(tmp_path / "j"), run="r") for _ in range(2)
    ]
    call = ToolCall(name="run_code", arguments={"code": CODE.replace("99", "9")}, id="c1")

    async def both():
        return await asyncio.gather(*[tool.invoke(call) for tool in tools])

    first, second = asyncio.run(both())

    assert first.value == second.value == {"printed": "", "value": ["paid a", "paid b"]}
    assert sorted(paid) == ["a", "b"]


def test_a_call_that_had_no_effect_is_reopened(tmp_path):
    """Reopened by an operator, the interrupted call runs, and the program goes on from there."""
    paid, journal = [], Journal(tmp_path / "j")
    tool = code_mode([pay_tool(paid, {"b": KeyboardInterrupt()})], journal=journal, run="r")
    code = "a = await pay(to='a', amount=1)\nb = await pay(to='b', amount=2)\n[a, b]"
    with pytest.raises(KeyboardInterrupt):
        run(tool, code)
    unknown = run(tool, code)
    assert unknown.error.type == "OutcomeUnknown"
    assert "c1/1 pay: done; c1/2 pay: unknown" in unknown.text
    journal.reopen(unknown.error.details["key"])

    assert run(tool, code).value["value"] == ["paid a", "paid b"]
    assert paid == ["a", "b", "b"]


def test_ids_that_begin_alike_are_other_calls(tmp_path):
    """The record of a call is not taken for that of one whose id begins with the same text."""
    paid = []
    tool = code_mode([pay_tool(paid)], journal=Journal(tmp_path / "j"), run="r")
    first = run(tool, CODE, id="c1")
    assert run(tool, "await pay(to='x', amount=1)", id="c1/9").value["value"] == "paid x"
    context = Context()
    context.approve(first.metadata["approval"])

    assert run(tool, CODE, context, id="c1").value["value"] == ["paid a", "paid b"]
    assert paid == ["a", "x", "b"]


def test_a_run_with_programs_is_exported_and_replayed(tmp_path):
    """The notes of programs disturb neither the lines of a run nor its replay."""
    paid, journal = [], Journal(tmp_path / "j")
    tool = code_mode([pay_tool(paid)], journal=journal, run="r")
    run(tool, "await pay(to='a', amount=1)")
    recording = journal.recordings("r")["r"]
    replayed = journal.replay("r")["pay"]
    call = ToolCall(name="pay", arguments={"to": "a", "amount": 1}, id="c1/1")

    assert [*recording.definitions] == ["pay"]
    assert asyncio.run(replayed.invoke(call)).value == "paid a"
    assert paid == ["a"]


def test_no_worker_survives_a_killed_host(tmp_path):
    """A spinning interpreter dies with a host that gets SIGKILL."""
    host = tmp_path / "host.py"
    host.write_text(
        "import asyncio\n"
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
    )
    assert child.stdout.readline() == "spinning\n"
    tasks = Path(f"/proc/{child.pid}/task")
    workers = [w for t in tasks.iterdir() for w in (t / "children").read_text().split()]
    assert workers
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    end = time.monotonic() + 120
    while alive := [w for w in workers if _runs(w)]:
        assert time.monotonic() < end, alive
        time.sleep(0.05)


def _runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
