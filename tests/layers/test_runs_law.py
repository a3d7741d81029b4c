"""A law over whole runs: journals, replays, approvals, grants, budgets and caches, in any order.

A machine makes calls of a few tools through several hosts. A host is one `Journal`, with contexts
of its own, on the one file that all hosts share. Calls take any path: they return, fail, pause,
hang, are cancelled at any await point, come again with the same or with other arguments, or lose
their host. A host that dies writes nothing more, as a process that is killed.

Each body writes down that it began. After each step these sentences have to hold:

- A body runs at most once for a run, a tool and an id, unless the call was reopened or only paused.
- A call that is told as done has run. A call that is told as refused has not run. `OutcomeUnknown`
  is told only of a call that was interrupted.
- A stored answer is the first answer, in its JSON form, with its labels.
- An id with other arguments is refused before anything runs.
- A call that needs approval runs with exactly the approved arguments, once for each approval or
  use of a grant. A denied call does not run.
- A replay answers what was recorded, and runs nothing.
- A context makes no more calls than its budget has.
"""

import asyncio
import json
import logging
import os
import sqlite3
import tempfile
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from functool import (
    AgentTool,
    Context,
    FunctionTool,
    ToolCall,
    ToolError,
    ToolResult,
    Toolset,
    ToolSettings,
    Tripwire,
)
from functool.approval import Grant
from functool.guardrails import budget, require_approval
from functool.layers import inbox as inbox_module
from functool.layers import journal_owner
from functool.layers.cache import cached
from functool.layers.catalog import Catalog
from functool.layers.inbox import Inbox, InboxError
from functool.layers.journal import Journal
from functool.layers.journal_store import Store
from tests.support import in_threads

RUNS, IDS, AMOUNTS = ("r", "s"), ("1", "2", "1/1"), (1, 2)
ONCE = ("pay", "ask", "spend", "mail", "agent")
HARMLESS = ("get", "put")
NAMES = (*ONCE, *HARMLESS)
BUDGET = 3
MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None  # Many files, for moments.
EXAMPLES = int(os.environ.get("FUNCTOOL_LAW_EXAMPLES", "1_000"))
WRITES = ("define", "start", "take_over", "finish", "interrupt", "forget", "note")
PLANS = ("value", "value", "value", "error", "crash", "odd", "pause", "tripwire", "hang", "stray")


class Died(BaseException):
    """The host was killed."""


@dataclass(eq=False)
class Attempt:
    """One call that a host makes."""

    host: "Host"
    run: str
    tool: str
    call: ToolCall
    plan: str
    amount: int = 0
    bodies: list = field(default_factory=list)  # Which bodies of this call began: tool and id.
    task: asyncio.Task | None = None
    pending: list = field(default_factory=list)


@dataclass
class Known:
    """What happened to one key: a run, a tool and an id."""

    began: int = 0  # Bodies that began, and that did not only pause.
    reopened: int = 0
    interrupted: bool = False
    running: int = 0
    amount: int | None = None  # Of the first body.
    returned: list = field(default_factory=list)  # What bodies returned or raised.
    settled: object = None
    answer: object = None  # The first answer, in its JSON form.


def tool(name, **options):
    """A tool whose body does what its call has planned."""

    async def body(amount: int, context: Context) -> object:
        attempt = context.metadata["attempt"]
        return await attempt.host.machine.body(attempt, name, amount, context)

    return FunctionTool(body, name=name, description="Do it.", **options)


async def runner(agent, text, context):
    """An agent that makes one call of its own, through the journal of its host."""
    attempt, amount = context.metadata["attempt"], int(text)
    found = await attempt.host.machine.body(attempt, "agent", amount, context)
    if isinstance(found, ToolResult):
        return found
    inner = ToolCall(name="pay", arguments={"amount": amount}, id=f"{context.call.id}/1")
    result = await attempt.host.tools[attempt.run].call(inner, context)
    return ToolResult.of({"own": found, "inner": result.text})


SINGLE = [
    tool("pay"),
    tool("ask", input_guardrails=[require_approval()]),
    tool("spend", input_guardrails=[budget(calls=BUDGET)]),
    tool("mail", settings=ToolSettings(untrusted=True)),
    AgentTool(object(), "agent", "Ask it.", arg_name="text", runner=runner),
    cached(tool("get", settings=ToolSettings(read_only=True, untrusted=True)), 60),
    tool("put", settings=ToolSettings(idempotent=True)),
]
TOOLS = Toolset([*SINGLE, *Catalog([SINGLE[0], SINGLE[3]]).fixed().values()])


class Host:
    """A process: a journal, and contexts of its own."""

    def __init__(self, machine):
        self.machine, self.dead, self.fuse = machine, False, None
        self.journal = Journal(machine.path)
        for name in WRITES:
            setattr(self.journal._store, name, self._watched(name))
        self.journal._store.renew = lambda *given: None
        asks_inbox = Inbox(machine.inbox_path).approver
        self.contexts = [Context(), Context(), Context(approver=asks_inbox)]
        self.tools = {run: self.journal.once(TOOLS, run) for run in RUNS}

    def _watched(self, name):
        inner = getattr(Store, name)

        def write(*given):
            if self.dead:
                raise Died
            when, place = self.fuse or ("", "")
            if place == name and when == "before":
                self.die()
                raise Died
            found = inner(self.journal._store, *given)
            if place == name and when == "after":
                self.die()
                raise Died
            return found

        return write

    def die(self):
        """Be killed: nobody renews the leases, and nothing is written any more."""
        self.dead = True
        with sqlite3.connect(self.machine.path) as database:
            mine = self.journal._once._leases.owner
            database.execute("UPDATE calls SET lease = 0 WHERE owner = ?", (mine,))
        database.close()
        for attempt in self.machine.flying:
            if attempt.host is self and attempt.task is not None:
                attempt.task.cancel()


def in_json(value):
    return json.loads(json.dumps(value, default=str))


class Runs(RuleBasedStateMachine):
    """Hosts that make calls, persons who answer, and the law."""

    calls = 0

    def __init__(self):
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory(dir=MEMORY)
        self.path = str(Path(self.folder.name, "calls.journal"))
        self.inbox_path = str(Path(self.folder.name, "inbox.db"))
        self.inbox = Inbox(self.inbox_path)
        self.known: dict[tuple, Known] = defaultdict(Known)
        self.flying: list[Attempt] = []
        self.asked: list = []  # Requests that wait, with their contexts.
        self.given: dict[tuple, list] = defaultdict(list)  # Approved amounts, by context and id.
        self.grants: dict[tuple, int] = Counter()
        self.spent: dict[int, int] = Counter()
        self.numbers = 0
        self.wrong: list[str] = []
        self.hosts = [Host(self), Host(self)]
        self.past: list[
            Host
        ] = []  # Kept, because a new context must not have the id of an old one.

    def teardown(self):
        for attempt in self.flying:
            attempt.task.cancel()
        self.loop.run_until_complete(self.ended())
        self.look()
        for host in (*self.past, *self.hosts):
            host.journal.close()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()
        self.folder.cleanup()
        assert not self.wrong, self.wrong

    # What bodies do.

    async def body(self, attempt, name, amount, context):
        """What each body does: write down that it runs, then follow the plan of its call."""
        host, key = attempt.host, (attempt.run, name, context.call.id)
        known, plan = self.known[key], attempt.plan
        if name != attempt.tool and plan in ("hang", "pause", "stray"):
            plan = "value"
        if host.dead:
            self.wrong.append(f"{key} runs in a dead host")
        attempt.bodies.append(key)
        if name in ONCE and known.running:
            self.wrong.append(f"{key} runs twice at the same time")
        if known.amount not in (None, amount) and known.began > known.reopened:
            self.wrong.append(f"{key} runs with {amount} after {known.amount}")
        if name == "ask":
            self.use_approval(context, amount)
        if name == "spend":
            self.spent[place_of(context)] += 1
            if self.spent[place_of(context)] > BUDGET:
                self.wrong.append(f"{key} runs beyond the budget")
        known.began += 1
        known.running += 1
        if name in ONCE and known.began > 1 + known.reopened:
            self.wrong.append(f"{key} ran twice")
        known.amount = amount
        ended = False
        try:
            await asyncio.sleep(0)
            if plan == "hang":
                await asyncio.get_running_loop().create_future()
            if plan == "pause":
                return await self.pausing(context)
            value = await self.end(plan, amount)
            known.returned.append(in_json(value))
            ended = True
            return value
        except Exception as error:
            known.returned.append(str(error))
            ended = True
            raise
        finally:
            known.running -= 1
            if plan == "pause" and not host.dead:
                known.began -= 1
                known.amount = None if known.began <= known.reopened else known.amount
            elif not ended or host.dead:
                known.interrupted = True

    async def end(self, plan, amount):
        await asyncio.sleep(0)
        self.numbers += 1
        if plan == "error":
            raise ToolError(f"error {self.numbers}")
        if plan == "crash":
            raise ValueError(f"crash {self.numbers}")
        if plan == "tripwire":
            raise Tripwire(f"tripwire {self.numbers}")
        if plan == "stray":
            raise asyncio.CancelledError
        if plan == "odd":
            return {"amount": amount, "n": self.numbers, "at": {1: (2, 3)}}
        return {"amount": amount, "n": self.numbers}

    async def pausing(self, context):
        inner = FunctionTool(lambda: 1, name="inner", input_guardrails=[require_approval()])
        return await inner.invoke(ToolCall(name="inner", id="x"))

    def use_approval(self, context, amount):
        given = self.given[place_of(context), context.call.id]
        if amount in given:
            given.remove(amount)
        elif self.grants[place_of(context), amount] > 0:
            self.grants[place_of(context), amount] -= 1
        else:
            self.wrong.append(f"ask ran with {amount}, which nobody approved")

    # Calls.

    def living(self):
        return [host for host in self.hosts if not host.dead]

    def attempt(self, host, run, tool, id, amount, plan, through=False):
        arguments = {"text": str(amount)} if tool == "agent" else {"amount": amount}
        call = ToolCall(name=tool, arguments=arguments, id=id)
        if through and tool in ("pay", "mail"):
            call = ToolCall(
                name="call_tool", arguments={"name": tool, "arguments": arguments}, id=id
            )
        self.known[run, tool, id], self.known[run, "pay", f"{id}/1"]  # They are known from now on.
        return Attempt(host, run, tool, call, plan, amount)

    async def make(self, attempt, context):
        tools = attempt.host.tools[attempt.run]
        view = context.view(metadata={"attempt": attempt})
        try:
            result = await tools.call(attempt.call, view)
        except Tripwire as error:
            return error
        except (Died, asyncio.CancelledError):
            return None
        self.judge(attempt, result, context)
        return result

    def judge(self, attempt, result, context):
        """Compare what a call was told with what has happened."""
        if attempt.host.dead:
            return  # Nobody has heard it.
        key = (attempt.run, attempt.tool, attempt.call.id)
        known, ran = self.known[key], attempt.bodies.count(key)
        mark = result.metadata.get("journal") or {}
        failed = result.error.type if result.error else None
        if mark.get("stored") and ran:
            self.wrong.append(f"{key} ran, and its answer is told as stored")
        if failed in ("JournalConflict", "OutcomeUnknown", "GuardrailError") and ran:
            self.wrong.append(f"{key} ran, and is told as {failed}")
        mine = {attempt.amount, attempt.call.arguments.get("amount", attempt.amount)}
        if failed == "JournalConflict" and mine == {known.amount}:
            own = [each for each in self.flying if each is not attempt and each.tool == "agent"]
            if not own and attempt.tool != "agent":
                self.wrong.append(f"{key} is refused without a conflict")
        if failed == "OutcomeUnknown" and not known.interrupted and attempt.tool != "agent":
            self.wrong.append(f"{key} is told as unknown, but was not interrupted")
        if failed == "ApprovalRequired":
            if ran and attempt.plan != "pause":
                self.wrong.append(f"{key} ran, and waits for approval")
            if attempt.tool == "ask" and not ran:
                self.asked.append((result.metadata["approval"], context, attempt))
        elif failed is None and attempt.tool not in HARMLESS:
            if not mark.get("stored") and ran != 1:
                self.wrong.append(f"{key} succeeded without a body: {result}")
            self.same(key, known, result)
        elif failed not in (None, "JournalConflict", "OutcomeUnknown", "GuardrailError"):
            if not ran and not mark.get("stored"):
                self.wrong.append(f"{key} failed as {failed}: {result.text}, and did not run")
        if failed is None and attempt.tool in ("mail", "get"):
            if list(result.metadata.get("sources", ())) != [attempt.tool]:
                self.wrong.append(f"{key} lost its label: {result.metadata}")

    def same(self, key, known, result):
        value = in_json(result.value)
        if known.answer is None:
            known.answer = value
        if known.answer != value:
            self.wrong.append(f"{key} answers {value} after {known.answer}")
        if known.settled is None and key[1] != "agent" and value not in known.returned:
            self.wrong.append(f"{key} answers {value}, which no body returned: {known.returned}")

    def start(self, attempt, context):
        attempt.task = self.loop.create_task(self.make(attempt, context))
        self.flying.append(attempt)
        Runs.calls += 1

    async def ended(self, *attempts):
        for attempt in attempts or [*self.flying]:
            with suppress(asyncio.CancelledError, Died):
                await asyncio.wait_for(asyncio.shield(attempt.task), 60)
            self.flying = [each for each in self.flying if each is not attempt]

    async def rounds(self, count):
        for _ in range(count):
            await asyncio.sleep(0)

    # Rules.

    @rule(
        host=st.integers(0, 9), context=st.integers(0, 1), run=st.sampled_from(RUNS),
        tool=st.sampled_from(NAMES), id=st.sampled_from(IDS), amount=st.sampled_from(AMOUNTS),
        plan=st.sampled_from(PLANS), after=st.integers(0, 60), through=st.booleans(),
    )  # fmt: skip
    def call(self, host, context, run, tool, id, amount, plan, after, through):
        """A call that ends, or is cancelled at some await point."""
        host = self.living()[host % len(self.living())]
        attempt = self.attempt(host, run, tool, id, amount, plan, through)
        self.start(attempt, host.contexts[context])
        if after > 40 and plan != "hang":
            after = 400
        self.loop.run_until_complete(self.rounds(after))
        if not attempt.task.done():
            attempt.task.cancel()
        self.loop.run_until_complete(self.ended(attempt))

    @rule(
        host=st.integers(0, 9), run=st.sampled_from(RUNS), tool=st.sampled_from(NAMES),
        id=st.sampled_from(IDS), amounts=st.lists(st.sampled_from(AMOUNTS), min_size=2, max_size=3),
        plan=st.sampled_from(PLANS[:7]), hosts=st.booleans(),
    )  # fmt: skip
    def together(self, host, run, tool, id, amounts, plan, hosts):
        """Calls with one id at the same time, of one host or of several."""
        living, began = self.living(), []
        for place, amount in enumerate(amounts):
            mine = living[(host + hosts * place) % len(living)]
            attempt = self.attempt(mine, run, tool, id, amount, plan)
            self.start(attempt, mine.contexts[0])
            began.append(attempt)
        self.loop.run_until_complete(self.ended(*began))

    @rule(
        run=st.sampled_from(RUNS), tool=st.sampled_from(("pay", "mail", "put")),
        id=st.sampled_from(IDS), amount=st.sampled_from(AMOUNTS),
    )  # fmt: skip
    def threads(self, run, tool, id, amount):
        """Calls with one id on several threads."""
        host = self.living()[0]
        attempts = [self.attempt(host, run, tool, id, amount, "value") for _ in range(3)]
        waiting = [*attempts]
        Runs.calls += 3

        def one():
            attempt = waiting.pop()
            return asyncio.run(self.make(attempt, host.contexts[0]))

        in_threads(3, one)

    @rule(
        host=st.integers(0, 9), tool=st.sampled_from(NAMES), id=st.sampled_from(IDS),
        amount=st.sampled_from(AMOUNTS), plan=st.sampled_from(PLANS[:8]),
        write=st.sampled_from(WRITES), when=st.sampled_from(("before", "after")),
    )  # fmt: skip
    def killed(self, host, tool, id, amount, plan, write, when):
        """A host that dies at a write of its journal, or not at all. Another begins."""
        host = self.living()[host % len(self.living())]
        host.fuse = (when, write)
        attempt = self.attempt(host, "r", tool, id, amount, plan)
        self.start(attempt, host.contexts[0])
        self.loop.run_until_complete(self.ended(attempt))
        host.fuse = None
        self.replace_dead()

    @rule(host=st.integers(0, 9))
    def restart(self, host):
        """A host dies, whatever it is doing. Another begins."""
        self.living()[host % len(self.living())].die()
        self.loop.run_until_complete(self.rounds(5))
        self.replace_dead()

    def replace_dead(self):
        for host in self.hosts:
            if host.dead:
                mine = [each for each in self.flying if each.host is host]
                self.loop.run_until_complete(self.ended(*mine)) if mine else None
                for known in self.known.values():
                    # Nobody can know what came of the calls of a dead host.
                    known.interrupted = True
        self.past += [host for host in self.hosts if host.dead]
        self.hosts = [Host(self) if host.dead else host for host in self.hosts]

    @precondition(lambda self: self.asked)
    @rule(
        which=st.integers(0, 9), edit=st.sampled_from((None, 1, 2)), deny=st.booleans(),
        again=st.booleans(), plan=st.sampled_from(PLANS[:7]),
    )  # fmt: skip
    def decide(self, which, edit, deny, again, plan):
        """A person answers a call that waits. Then it comes again, perhaps twice."""
        request, context, attempt = self.asked.pop(which % len(self.asked))
        if attempt.host.dead:
            return
        if deny:
            context.deny(request, "no")
        else:
            edited = None if edit is None else {"amount": edit}
            context.approve(request, arguments=edited)
            self.given[place_of(context), attempt.call.id] = [edit or attempt.amount]
        began = [
            self.attempt(attempt.host, attempt.run, "ask", attempt.call.id, attempt.amount, plan)
            for _ in range(1 + again)
        ]
        for each in began:
            if not deny and edit is not None:
                each.amount = edit
            self.start(each, context)
        self.loop.run_until_complete(self.ended(*began))
        self.given[place_of(context), attempt.call.id] = []

    @rule(host=st.integers(0, 9), context=st.integers(0, 1), amount=st.sampled_from(AMOUNTS))
    def grant(self, host, context, amount):
        """A person allows the next call with some arguments beforehand."""
        host = self.living()[host % len(self.living())]
        context = host.contexts[context]
        grant = Grant.of(host.tools["r"]["ask"], {"amount": amount}, uses=2)
        context.grant(grant)
        context.grant(grant)  # The same grant again gives no more uses.
        self.grants[place_of(context), amount] += 2

    @rule(
        host=st.integers(0, 9), run=st.sampled_from(RUNS), id=st.sampled_from(IDS),
        amount=st.sampled_from(AMOUNTS),
        how=st.sampled_from(("approve", "edit", "deny", "cancel", "die", "grant")),
    )  # fmt: skip
    def inboxed(self, host, run, id, amount, how):
        """A call waits in the inbox, and a person answers in another process, or it ends before."""
        host = self.living()[host % len(self.living())]
        attempt = self.attempt(host, run, "ask", id, amount, "value")
        context = host.contexts[2]
        self.start(attempt, context)
        person = Inbox(self.inbox_path)

        async def waits():
            while not attempt.task.done():
                if found := [each for each in person.pending() if each.call_id == id]:
                    return found[0]
                await asyncio.sleep(0.001)
            return None

        request = self.loop.run_until_complete(waits())
        place = (place_of(context), id)
        if request is not None:
            if how == "approve":
                self.given[place] = [amount]
                person.approve(request.id)
            elif how == "edit":
                self.given[place] = [3 - amount]
                attempt.amount = 3 - amount
                person.approve(request.id, {"amount": 3 - amount})
            elif how == "deny":
                person.deny(request.id, "no")
            elif how == "grant":
                grant = Grant.of(host.tools["r"]["ask"], {"amount": amount}, uses=1)
                self.grants[place_of(context), amount] += 1
                self.given[place] = [amount]
                person.approve(request.id, grant=grant)
            elif how == "cancel":
                attempt.task.cancel()
            else:
                host.die()
            if how in ("approve", "edit", "deny", "grant"):
                with suppress(InboxError):
                    person.approve(request.id)
                    self.wrong.append("a request was answered twice")
        self.loop.run_until_complete(self.ended(attempt))
        self.given[place] = []
        self.replace_dead()

    @rule(which=st.integers(0, 99), settle=st.booleans())
    def operator(self, which, settle):
        """An operator looks up an unknown call, and settles or reopens it."""
        journal = Journal(self.path)
        unknown = journal.calls(state="unknown")
        if unknown:
            entry = unknown[which % len(unknown)]
            known = self.known[entry.run, entry.tool, entry.call_id]
            if settle:
                known.settled = {"settled": entry.key}
                journal.settle(entry.key, ToolResult.of(known.settled))
                known.answer = known.settled
            else:
                journal.reopen(entry.key)
                known.reopened = known.began
                known.answer = known.amount = None
        journal.close()

    @rule(
        run=st.sampled_from(RUNS), which=st.integers(0, 99), given=st.booleans(),
        strict=st.booleans(), twice=st.booleans(),
    )  # fmt: skip
    def replay(self, run, which, given, strict, twice):
        """A replay answers each recorded call, and runs no body."""
        journal = Journal(self.path)
        entries = journal.calls(run=run)
        if entries:
            entry = entries[which % len(entries)]
            host, tools = self.living()[0], TOOLS if given or not strict else None
            replayed = journal.replay(run, tools, strict=strict)
            attempt = Attempt(host, run, entry.tool, None, "value")
            context = Context(metadata={"attempt": attempt}, approver=lambda request: True)
            call = ToolCall(name=entry.tool, arguments=entry.arguments, id=entry.call_id)
            for _ in range(1 + twice):
                self.loop.run_until_complete(self.answers(replayed, call, context, entry))
            if attempt.bodies:
                self.wrong.append(f"a replay ran {attempt.bodies}")
        journal.close()

    async def answers(self, replayed, call, context, entry):
        try:
            result = await replayed.call(call, context)
        except Tripwire as error:
            if entry.result is None or entry.result.error.type != "Tripwire":
                self.wrong.append(f"{entry.key} is replayed as {error!r}")
            return
        if entry.result is None:
            if result.error is None or result.error.type != "OutcomeUnknown":
                self.wrong.append(f"{entry.key} is unknown, and replayed as {result}")
            return
        one, other = result, entry.result
        told = (one.value, one.text, one.error and one.error.type)
        # What a body raises is worded again.
        kept = (other.value, other.text, other.error and other.error.type)
        if told != kept and other.error is None:
            self.wrong.append(f"{entry.key} is replayed as {told}, not as {kept}")
        if (one.error is None) != (other.error is None):
            self.wrong.append(f"{entry.key} is replayed as {one}, not as {other}")

    @invariant()
    def the_law(self):
        """Nothing has gone wrong so far."""
        wrong, self.wrong = self.wrong, []
        assert not wrong, "\n".join(wrong)

    @rule()
    def look(self):
        """The journal knows each call that has run, and says of none what is not so."""
        journal = Journal(self.path)
        entries = {(each.run, each.tool, each.call_id): each for each in journal.calls()}
        journal.close()
        for key, known in self.known.items():
            entry = entries.get(key)
            if known.running or key[1] in HARMLESS:
                continue
            if entry is None:
                if known.began > known.reopened:
                    self.wrong.append(f"{key} has run, and the journal does not know it")
            elif entry.state == "unknown" and not known.interrupted and key[1] != "agent":
                self.wrong.append(f"{key} is unknown, but was not interrupted")
            elif entry.state == "done" and not known.began and known.settled is None:
                self.wrong.append(f"{key} is done, and did not run")
            elif entry.state == "done" and entry.result.success and known.answer is not None:
                if in_json(entry.result.value) != known.answer:
                    self.wrong.append(f"{key} is stored as {entry.result.value}")


def place_of(context):
    """Which state a context has: all its views share it."""
    return id(context.state)


@pytest.fixture
def quiet(monkeypatch):
    """No answer is late because the machine is busy, and nothing is logged."""
    monkeypatch.setattr(inbox_module, "POLL", 0.001)
    monkeypatch.setattr(inbox_module, "SILENCE", 1_000.0)
    monkeypatch.setattr(journal_owner, "LEASE_SECONDS", 1_000.0)
    monkeypatch.setattr(logging.getLogger("functool"), "disabled", True)


def check(examples, steps):
    """Let the machine take so many steps in so many examples."""
    run_state_machine_as_test(
        Runs,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=[*HealthCheck],
        ),
    )


def test_the_law(quiet):
    """No order of calls, answers and deaths runs a body twice, or tells something false of it."""
    check(12, 20)


@pytest.mark.slow
def test_the_law_at_length(quiet):
    """The same, for many more calls."""
    check(EXAMPLES, 30)
    print(f"{Runs.calls:,} calls")
