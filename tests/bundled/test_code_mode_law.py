"""A law over programs: in any order of pauses, cancellations, deaths and resumptions, each call once.

A machine runs one program again and again, as hosts do: with the same or another context, in the
same or in another process (new objects over the journal's file), cancelled or killed at any body
or at any write of the journal, while a person approves, edits and denies. After each step:

- The body of each inner call ran at most once, unless an operator reopened the call.
- An inner id is the same call in each resumption.
- A call ran with the approved arguments only, and never after a denial alone.
- `metadata["calls"]` is true: what is `done` or `failed` has run, what is `refused` or `waiting`
  has not, and only an interrupted call is `unknown`.
- A program that has ended answers the same again, and runs nothing (with a journal).
- A budget holds across resumptions in one context.
"""

import asyncio
import logging
import os
import sqlite3
import tempfile
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from functool import Context, FunctionTool, ToolCall, ToolError, ToolResult, ToolSettings
from functool.bundled.code_mode import CodeLimits, code_mode
from functool.guardrails import budget, max_repeats, require_approval
from functool.layers import journal_owner
from functool.layers.catalog import Catalog
from functool.layers.journal import Journal
from functool.layers.journal_store import Store

BUDGET = 2
SPENDING, IN_A_ROW = budget(calls=BUDGET), max_repeats(1)
CALLS = 8
ONCE = ("pay", "spend", "mail", "row")
WRITES = ("start", "finish", "note", "interrupt")
CALL = st.tuples(st.sampled_from((*ONCE, "get", "look")), st.integers(0, 5))
STEPS = st.lists(st.lists(CALL, min_size=1, max_size=3), min_size=1, max_size=4)
MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None  # Many files, for moments.
EXAMPLES = int(os.environ.get("FUNCTOOL_LAW_EXAMPLES", "300"))


class Died(BaseException):
    """The host was killed."""


def program_of(steps):
    """Return a program that makes the calls of each step together, and goes on after failures."""
    lines, names = ["import asyncio", "r = []"], 0
    for step in steps:
        together = []
        for tool, n in step:
            call = f"{tool}(n={n})"
            if tool == "look":
                call = f"call_tool(name='look', arguments={{'n': {n}}})"
            lines += [
                f"async def c{names}():",
                "    try:",
                f"        return await {call}",
                "    except RuntimeError as error:",
                "        return 'failed'",
            ]
            together.append(f"c{names}()")
            names += 1
        lines.append(f"r += await asyncio.gather({', '.join(together)})")
    return "\n".join([*lines, "r"])


class Programs(RuleBasedStateMachine):
    """Hosts that run one program, a person, an operator, and the law."""

    total: Counter = Counter()

    def __init__(self):
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory(dir=MEMORY)
        self.path = str(Path(self.folder.name, "j"))
        self.ran: Counter = Counter()  # Bodies, by tool and id.
        self.reopened: Counter = Counter()
        self.interrupted: set = set()
        self.ended: set = set()
        self.args: dict = {}
        self.approved: dict = defaultdict(list)
        self.spent: Counter = Counter()
        self.waiting = None  # A request, and its context.
        self.answer = None
        self.wrong: list[str] = []
        self.task = None
        self.stop_at = None
        self.events = 0
        self.dead = False
        self.contexts: list[Context] = []
        self.journals: list[Journal] = []

    @initialize(steps=STEPS, journalled=st.booleans())
    def begin(self, steps, journalled):
        """Choose a program, and whether there is a journal."""
        self.steps, self.journalled = steps, journalled
        self.planned = [call for step in steps for call in step]
        self.code = program_of(steps)
        self.new_host()
        self.new_context()

    def new_context(self):
        self.context = Context()
        self.contexts.append(self.context)
        if not self.journalled:
            self.forget()

    def forget(self):
        """Without a journal, the record ends with the program, and with its context."""
        self.ran.clear()
        self.interrupted.clear()
        self.ended.clear()
        self.args.clear()
        self.waiting = None

    def new_host(self):
        self.dead, self.host = False, object()
        self.journal = Journal(self.path)
        self.journals.append(self.journal)
        self.journal._store.renew = lambda *given: None
        for name in WRITES:
            setattr(self.journal._store, name, self.watched(self.journal._store, name))
        self.tool = self.make_tool()

    def watched(self, store, name):
        inner, host = getattr(Store, name), self.host

        def write(*given):
            if self.dead or self.host is not host:
                raise Died
            self.happens(f"before {name}")
            if self.dead:
                raise Died
            found = inner(store, *given)
            self.happens(f"after {name}")
            if self.dead:
                raise Died
            return found

        return write

    def make_tool(self):
        def tool(name, **options):
            async def body(n: int, context: Context) -> str:
                return await self.body(name, n, context)

            return FunctionTool(body, name=name, description="Do it.", **options)

        asks = require_approval(lambda call, context: call.arguments["n"] >= 3)
        look = tool("look", settings=ToolSettings(untrusted=True))
        tools = [
            tool("pay", input_guardrails=[asks]),
            tool("spend", input_guardrails=[SPENDING]),
            tool("mail", settings=ToolSettings(untrusted=True)),
            tool("row", input_guardrails=[IN_A_ROW]),
            tool("get", settings=ToolSettings(read_only=True)),
            *Catalog([look]).fixed().values(),
        ]
        return code_mode(
            tools,
            limits=CodeLimits(calls=CALLS),
            **({"journal": self.journal, "run": "r"} if self.journalled else {}),
        )

    # What bodies do.

    def happens(self, what):
        """Count the events of one run, and cancel or kill it at the chosen one."""
        self.events += 1
        if self.stop_at is not None and self.events == self.stop_at[1]:
            how = self.stop_at[0]
            self.stop_at = None
            if how == "kill" and self.journalled:
                self.die()
            else:
                self.task.cancel()

    def die(self):
        self.dead = True
        with sqlite3.connect(self.path) as database:
            database.execute("UPDATE calls SET lease = 0")
        database.close()
        self.task.cancel()

    async def body(self, name, n, context):
        key = (name, context.call.id)
        if self.dead:
            self.wrong.append(f"{key} runs in a dead host")
        known = self.args.setdefault(key, n)
        if name == "pay" and n >= 3:
            if n in self.approved[key]:
                self.approved[key].remove(n)
            else:
                self.wrong.append(f"{key} ran with {n}, which nobody approved")
        elif name != "pay" and known != n:
            self.wrong.append(f"{key} ran with {n} after {known}")
        self.ran[key] += 1
        if name not in ("get",) and self.ran[key] > 1 + self.reopened[key]:
            self.wrong.append(f"{key} ran twice")
        if name == "spend":
            self.spent[id(context.state)] += 1
            if self.spent[id(context.state)] > BUDGET:
                self.wrong.append(f"{key} ran beyond the budget")
        done = False
        try:
            self.happens("begin")
            for _ in range(n):
                await asyncio.sleep(0)
            self.happens("middle")
            await asyncio.sleep(0)
            self.happens("end")
            done = True
            if n == 2:
                raise ToolError("no")
            return f"{name} {n}"
        finally:
            if done and not self.dead:
                self.ended.add(key)
            else:
                self.interrupted.add(key)

    # Rules.

    @rule(
        how=st.sampled_from(("", "", "cancel", "kill")),
        at=st.integers(1, 30),
        fresh=st.booleans(),
    )
    def run(self, how, at, fresh):
        """The host makes the outer call, which ends, is cancelled or killed."""
        if fresh and self.journalled and self.waiting is None:
            self.new_context()
        self.events, self.stop_at = 0, (how, at) if how else None
        before = +self.ran
        call = ToolCall(name="run_code", arguments={"code": self.code}, id="c1")

        async def main():
            self.task = asyncio.ensure_future(self.tool.invoke(call, self.context))
            with suppress(asyncio.CancelledError, Died):
                return await self.task

        result = self.runner.run(main())
        self.total["runs"] += 1
        self.total["events"] += self.events
        if self.dead:
            self.new_host()
            self.new_context()
            # A body may have ended just before the host died, and before its end was written.
            self.ended &= {(e.tool, e.call_id) for e in self.journal.calls(state="done")}
            self.waiting = None
            self.lost = True
        elif result is None:
            self.waiting = None
            self.lost = True
            if not self.journalled:
                self.forget()
        else:
            self.judge(result, before)

    lost = False

    def judge(self, result, before):
        made = result.metadata.get("calls", [])
        failed = result.error.type if result.error else None
        for place, call in enumerate(made):
            key = ("look" if call["name"] == "call_tool" else call["name"], call["id"])
            planned = self.planned[place] if place < len(self.planned) else None
            if planned is None or planned[0] != key[0] or call["id"] != f"c1/{place + 1}":
                self.wrong.append(f"{call} is not the planned call {planned}")
            ran = self.ran[key] > self.reopened[key]
            said = call["outcome"]
            if said in ("done", "failed") and not ran and key[0] != "get":
                self.wrong.append(f"{call} did not run")
            if said in ("refused", "waiting") and ran:
                self.wrong.append(f"{call} ran")
            if said == "unknown" and key in self.ended:
                self.wrong.append(f"{call} has ended")
        self.waiting = None
        if failed == "ApprovalRequired":
            request = result.metadata["approval"]
            self.waiting = (request, self.context)
        elif failed == "OutcomeUnknown":
            if not self.lost:
                self.wrong.append(f"unknown, but nothing was interrupted: {result}")
        elif (
            failed not in (None, "ProgramError")
            or "another" in result.text
            or "not the one" in result.text
        ):
            self.wrong.append(f"{failed}: {result.text}")
        else:
            told = (result.text, failed, result.value, made)
            if not self.journalled:
                self.forget()
            elif self.answer is None:
                self.answer = told
            elif told != self.answer or self.ran != before:
                self.wrong.append(f"{told} after {self.answer}")

    @precondition(lambda self: self.waiting is not None)
    @rule(how=st.sampled_from(("approve", "approve", "edit", "deny", "twice")))
    def decide(self, how):
        """A person answers the request of a call that waits."""
        request, context = self.waiting
        key = (request.tool, request.call_id)
        if how == "deny":
            context.deny(request, "no")
            self.approved[key] = []
            return
        n = 4 if how == "edit" else request.arguments["n"]
        context.approve(request, arguments={"n": n} if how == "edit" else None)
        if how == "twice":
            context.approve(request)
        self.approved[key] = [n]

    @precondition(lambda self: self.journalled)
    @rule(settle=st.booleans())
    def operate(self, settle):
        """An operator settles or reopens an interrupted call."""
        for entry in self.journal.calls(state="unknown")[:1]:
            key = (entry.tool, entry.call_id)
            if settle:
                self.journal.settle(entry.key, ToolResult.of("settled"))
                self.ran[key] = max(self.ran[key], 1 + self.reopened[key])
            else:
                self.journal.reopen(entry.key)
                self.reopened[key] = self.ran[key]
                self.args.pop(key, None)

    @precondition(lambda self: self.journalled)
    @rule()
    def restart(self):
        """Another process takes over, with the person's answers in its context."""
        self.new_host()

    @invariant()
    def the_law(self):
        """Nothing has gone wrong so far."""
        wrong, self.wrong = self.wrong, []
        assert not wrong, "\n".join(wrong)

    def teardown(self):
        self.total["examples"] += 1
        self.runner.close()
        for journal in self.journals:
            journal.close()
        self.folder.cleanup()


@pytest.fixture
def quiet(monkeypatch):
    """No call counts as interrupted because the machine is busy, and nothing is logged."""
    monkeypatch.setattr(journal_owner, "LEASE_SECONDS", 1_000.0)
    monkeypatch.setattr(logging.getLogger("functool"), "disabled", True)


def check(examples, steps):
    """Let the machine take so many steps in so many examples."""
    run_state_machine_as_test(
        Programs,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=[*HealthCheck],
        ),
    )


def test_the_law(quiet):
    """No order of events makes a program's call run twice, or tells something false of it."""
    check(8, 8)


@pytest.mark.slow
def test_the_law_at_length(quiet):
    """The same, for many more programs."""
    check(EXAMPLES, 14)
