"""Context: views, events from anywhere, listeners that raise or block."""

import asyncio
import logging
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from functool import (
    Context,
    Decision,
    FunctionTool,
    ToolCall,
    ToolError,
    ToolEvent,
    ToolResult,
    Toolset,
    WrapperTool,
)
from functool.approval import Grant
from functool.guardrails import require_approval
from functool.testing import EventLog, MockTool
from tests.support import call, cancelled, heard


def paying():
    """A tool that needs a person's approval."""
    return FunctionTool(lambda n=0: n, name="pay", input_guardrails=[require_approval()])


def test_a_context_holds_what_it_was_given():
    """Dependencies, thread, metadata and approver are attributes; state is a dict of its own."""
    deps, approver = object(), lambda request: True
    context, empty = Context(deps, thread="t", approver=approver, metadata={"k": 1}), Context()

    assert (context.deps, context.thread, context.approver) == (deps, "t", approver)
    assert (context.metadata, context.state) == ({"k": 1}, {})
    assert (context.call, context.schema, empty.deps, empty.metadata) == (None, None, None, {})


def test_an_approver_is_a_function():
    """True is no approver: a context that would fail at each approval is not made."""
    with pytest.raises(TypeError, match="^approver must be a callable, not bool$"):
        Context(approver=True)


def test_inside_a_call_the_context_knows_it():
    """`call` is the canonical one being run and `schema` its tool's; outside they stay None."""

    @FunctionTool
    async def look(ctx: Context, x: int = 3):
        return (ctx.call, ctx.schema.name)

    context = Context()
    result = call(look, {}, context)

    assert result.value == (ToolCall(name="look", arguments={"x": 3}, id="c1"), "look")
    assert context.call is None and context.schema is None


def test_parallel_calls_share_state_but_not_their_call():
    """What belongs to one call is a view; state is shared."""

    @FunctionTool
    async def look(n: int, ctx: Context):
        await asyncio.sleep(0.001 * (5 - n))
        ctx.state.setdefault("seen", []).append(n)
        return ctx.call.id

    context = Context()
    calls = [ToolCall(name="look", arguments={"n": n}, id=f"id{n}") for n in range(5)]
    results = asyncio.run(Toolset([look]).call_all(calls, context))

    assert [result.value for result in results] == [f"id{n}" for n in range(5)]
    assert sorted(context.state["seen"]) == [0, 1, 2, 3, 4]


def test_a_subclass_stays_one_inside_a_call():
    """A host's own context class reaches the body."""

    class Mine(Context):
        extra = "extra"

    @FunctionTool
    async def look(ctx: Mine):
        return (type(ctx), ctx.extra)

    assert call(look, {}, Mine()).value == (Mine, "extra")


def test_events_from_a_thread_arrive_in_order_before_the_result():
    """A sync body emits from its thread; every listener has seen every event before the answer."""

    @FunctionTool
    def work(ctx: Context):
        for i in range(50):
            ctx.emit("step", i=i)
        ctx.progress("end", done=50, total=50)

    context, log = heard()
    call(work, {}, context)

    assert [event.data.get("i") for event in log.events] == [*range(50), None]
    assert log.events[-1] == ToolEvent(
        kind="tool:progress",
        tool_name="work",
        call_id="c1",
        data={"message": "end", "done": 50, "total": 50},
        at=log.events[-1].at,
    )


def test_emit_never_waits_for_a_listener():
    """A listener that blocks holds up the result, not the emitting body."""
    release, emitted, order = threading.Event(), threading.Event(), []

    @FunctionTool
    def work(ctx: Context):
        ctx.emit("one")
        ctx.emit("two")
        emitted.set()

    async def listener(event):
        await asyncio.to_thread(emitted.wait)
        release.set()
        order.append(event.kind)

    context = Context()
    context.subscribe(listener)
    call(work, {}, context)

    assert release.is_set() and order == ["one", "two"]


def test_a_listener_that_raises_is_logged_and_skipped(caplog):
    """The other listeners and the call go on."""
    log = EventLog()

    @FunctionTool
    async def work(ctx: Context):
        ctx.emit("one")
        return "fine"

    async def abroken(event):
        raise RuntimeError

    context = Context()
    context.subscribe(lambda event: 1 / 0)
    context.subscribe(abroken)
    context.subscribe(log)
    with caplog.at_level(logging.WARNING, "functool"):
        result = call(work, {}, context)

    assert (result.value, log.kinds) == ("fine", ["one"])
    assert caplog.messages == ["a listener raised on one and was skipped"] * 2
    for record in caplog.records:
        assert record.levelno == logging.WARNING and record.exc_info


def test_a_subscription_can_be_undone():
    """`subscribe` returns its undo, which may be called twice."""
    context, log = Context(), EventLog()
    undo = context.subscribe(log)
    context.emit("one")
    undo()
    undo()
    context.emit("two")

    assert log.kinds == ["one"]


def test_a_listener_added_during_a_call_hears_the_rest():
    """Subscribing while a call runs works."""
    log = EventLog()

    @FunctionTool
    async def work(ctx: Context):
        ctx.emit("before")
        ctx.subscribe(log)
        ctx.emit("after")
        await asyncio.sleep(0.01)

    call(work, {}, Context())

    assert log.kinds == ["after"]


def test_emit_outside_of_a_call():
    """Outside of any call events are delivered at once, or by the running loop; async listeners too."""
    told, reported = [], []

    async def listener(event):
        told.append(event.kind)

    async def main():
        asyncio.get_running_loop().set_exception_handler(
            lambda loop, trouble: reported.append(trouble)
        )
        context.emit("in a loop")
        await asyncio.sleep(0.01)

    context, log = heard()
    context.subscribe(listener)
    context.emit("no loop", x=1)
    asyncio.run(main())

    assert (log.kinds, reported) == (["no loop", "in a loop"], []) and told == log.kinds
    first = log.events[0]
    assert (first.data, first.tool_name, first.call_id) == ({"x": 1}, "", "")


def test_data_may_have_any_name():
    """What an event is called stands first, or under `kind`; no name of a parameter is lost to the data."""
    context, log = heard()
    context.emit("found", kind="file", self=1, tool_name="x", call_id="y", at=0)
    context.emit(kind="named", size=2)

    found, named = log.events
    assert (found.kind, found.data) == (
        "found",
        {"kind": "file", "self": 1, "tool_name": "x", "call_id": "y", "at": 0},
    )
    assert (named.kind, named.data) == ("named", {"size": 2})


def test_debug_events_reach_only_those_who_asked():
    """Kinds that end in `:debug` are for debug listeners."""
    plain, full, context = EventLog(), EventLog(), Context()
    context.subscribe(plain)
    context.subscribe(full, debug=True)
    context.emit("my:debug")
    context.emit("my")

    assert (plain.kinds, full.kinds) == (["my"], ["my:debug", "my"])


def test_events_after_the_result_are_dropped():
    """A body that was let go after its time limit cannot speak after its result."""
    late = threading.Event()

    # What a guardrail says comes before the time limit on a slow machine too; a thread may start after it.
    @FunctionTool(timeout=0.02, input_guardrails=[lambda call, ctx: ctx.emit("early")])
    def work(ctx: Context):
        release.wait(5)
        ctx.emit("late")
        late.set()

    release, (context, log) = threading.Event(), heard()

    async def main():
        await work.invoke(ToolCall(name="work"), context)
        release.set()
        while not late.is_set():
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.01)

    asyncio.run(main())

    assert "late" not in log.kinds


def test_error_functions_and_guardrails_see_the_view():
    """The context that they get knows the call, on the short road too."""
    seen = []

    @FunctionTool(on_error_func=lambda error, ctx: seen.append((ctx.call.id, ctx.schema.name)))
    async def work():
        raise ToolError("x")

    call(work, {}, Context())
    call(work, {}, None)

    assert seen == [("c1", "work")] * 2


def test_nothing_is_built_when_nobody_listens(monkeypatch):
    """Without listeners no event is made."""
    monkeypatch.setattr("functool.context.ToolEvent", None)

    @FunctionTool
    def work(ctx: Context):
        ctx.emit("one")
        ctx.progress("two")
        return "done"

    assert call(work, {}, Context()).value == "done"


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), "5", None, True])
def test_approve_wants_a_positive_time(seconds):
    """`expires_in` is a positive number of seconds."""
    with pytest.raises(ValueError, match="expires_in"):
        Context().approve(None, expires_in=seconds)


def test_an_undo_undoes_its_own_subscription():
    """A listener that subscribed twice is called once after one of the two was undone, however often."""
    seen = []
    context = Context()
    undo = context.subscribe(seen.append)
    context.subscribe(seen.append)
    undo()
    undo()

    context.emit("mine")

    assert len(seen) == 1


def test_a_listener_that_raises_a_stray_cancellation_is_skipped():
    """Nobody asked for that cancellation: the call goes on."""

    def stray(event):
        raise asyncio.CancelledError

    context = Context()
    context.subscribe(stray)

    @FunctionTool
    async def work(context: Context) -> int:
        context.progress("working")
        return 1

    assert asyncio.run(Toolset([work]).call(ToolCall(name="work"), context)).value == 1


def test_announcing_to_nobody_is_nothing():
    """Without a listener there is nothing to wait for."""
    assert asyncio.run(Context().announce("mine")) is None


def test_a_cancelled_announcement_is_cancelled():
    """Cancelling whoever waits for a listener is no mistake of the listener."""

    async def main():
        reached = asyncio.Event()

        async def listener(event):
            reached.set()
            await asyncio.Event().wait()

        context = Context()
        context.subscribe(listener)
        await cancelled(context.announce("mine"), reached)

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["async", "sync"])
def test_a_slow_listener_is_not_the_delay_of_a_generator(kind):
    """The items of a generator are delivered beside its road, not on it: a time limit does not count the listeners."""
    passed = threading.Event()

    async def later():
        yield 1

    def now():
        yield 1

    async def listener(event):
        await asyncio.to_thread(passed.wait)
        values.append(event.data["value"])

    values, context = [], Context()
    context.subscribe(listener)
    tool = FunctionTool(
        later if kind == "async" else now,
        name="items",
        timeout=30,
        output_guardrails=[lambda result, context: passed.set()],
    )

    assert (call(tool, {}, context).value, values) == (1, [1])


def test_a_denial_counts_once_and_needs_no_reason():
    """Denied without a reason, the call is refused once, for as long as it takes; after that it is asked about again."""
    tool = paying()
    context = Context()
    request = call(tool, {}, context).metadata["approval"]
    context.deny(request)
    refused, again = call(tool, {}, context), call(tool, {}, context)

    assert (refused.error.type, refused.text) == ("GuardrailError", "A person refused this call.")
    assert again.error.type == "ApprovalRequired"


def test_a_guardrail_of_a_hosts_own_reads_the_decision():
    """It gets what was decided, however often it asks in this call; where nothing was, and in the next call, it gets nothing."""
    read = []

    def look(call, context):
        read.append([context.use_decision(request.digest) for _ in range(2)])

    tool = paying()
    context = Context()
    request = call(tool, {}, context).metadata["approval"]
    looking = FunctionTool(lambda: 1, name="look", input_guardrails=[look])
    call(looking, {}, context)
    context.approve(request)
    call(looking, {}, context)
    context.deny(request, "too dear")
    call(looking, {}, context)
    call(looking, {}, context)

    approved, denied = Decision(approved=True), Decision(approved=False, reason="too dear")
    assert read == [[None] * 2, [approved] * 2, [denied] * 2, [None] * 2]


def test_an_announcement_has_its_data_and_the_name_on_the_call():
    """Where no tool has the name, the event carries what was called."""
    context, log = heard()

    async def main():
        await context.for_call(ToolCall(name="nope", id="c1"), None).announce("mine", x=1)

    asyncio.run(main())

    (event,) = log.events
    assert (event.kind, event.tool_name, event.call_id) == ("mine", "nope", "c1")
    assert event.data == {"x": 1}


def test_progress_may_say_nothing():
    """What an author leaves out is an empty message and two unknowns."""
    context, log = heard()
    context.progress()

    assert [(event.kind, event.data) for event in log.events] == [
        ("tool:progress", {"message": "", "done": None, "total": None})
    ]


def test_an_approval_is_for_its_own_call_only():
    """A tool that a person agreed to may call others, and each of those that needs approval is asked about."""
    ran = []

    @FunctionTool(input_guardrails=[require_approval()])
    async def inner() -> None:
        ran.append("inner")

    @FunctionTool(input_guardrails=[require_approval()])
    async def outer(ctx: Context) -> str:
        ran.append("outer")
        return (await inner(ToolCall(name="inner", id="c1"), ctx)).error.type

    context = Context()
    context.approve(call(outer, {}, context).metadata["approval"])

    assert (call(outer, {}, context).value, ran) == ("ApprovalRequired", ["outer"])
    assert call(outer, {}, context).error.type == "ApprovalRequired"


def test_a_grant_counts_for_five_minutes(monkeypatch):
    """Unless another time is given, which may be shorter than a second; on a clock that has just started, too."""
    clock = [0.25]
    monkeypatch.setattr("functool.context.time.time", lambda: clock[0])
    tool = paying()

    def agreed(after, **options):
        context = Context()
        context.approve(call(tool, {}, context).metadata["approval"], **options)
        clock[0] += after
        return call(tool, {}, context).success

    assert [agreed(299.9), agreed(300.1)] == [True, False]
    assert [agreed(0.4, expires_in=0.5), agreed(0.6, expires_in=0.5)] == [True, False]


def test_events_carry_the_tools_own_name():
    """Whatever name the call has, an event names the tool that is running."""
    context, log = heard()

    @FunctionTool
    async def work(ctx: Context) -> None:
        ctx.emit("mine")

    asyncio.run(work.invoke(ToolCall(name="other", id="c1"), context))

    assert [(event.tool_name, event.call_id) for event in log.events] == [("work", "c1")]


@pytest.mark.skipif(
    not hasattr(asyncio, "eager_task_factory"), reason="eager tasks came with Python 3.12"
)
def test_events_arrive_where_tasks_start_eagerly():
    """On a loop whose tasks run before they are handed over, a call with progress ends, and every event came before its result."""

    @FunctionTool
    async def count(n: int):
        for step in range(n):
            yield step

    async def turn():
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
        context, log = heard()
        calls = [ToolCall(name="count", arguments={"n": n}, id=f"c{n}") for n in (1, 2)]
        return await Toolset([count]).call_all(calls, context), list(log.events)

    results, events = asyncio.run(turn())

    assert [result.value for result in results] == [0, 1]
    for n in (1, 2):
        own = [event for event in events if event.call_id == f"c{n}"]
        assert [event.kind for event in own] == ["tool:pre", *["tool:progress"] * n, "tool:post"]
        assert [event.data["value"] for event in own[1:-1]] == [*range(n)]


# ---- grants


def granted(uses=2, **options):
    tool = paying()
    return tool, Grant.of(tool, {}, free=("n",), uses=uses, **options)


def test_grants_are_listed_with_what_is_left():
    """The list holds those that still cover a call, each with the uses it has left, and is a copy."""
    tool, grant = granted(uses=2)
    context = Context()
    context.grant(grant)
    assert context.grants() == [grant]

    context.grants()[0].arguments["other"] = 5
    grant.arguments["other"] = 5
    left = []
    for _ in range(3):
        left.append([item.uses for item in context.grants()])
        call(tool, {}, context)

    assert left == [[2], [1], []] and context.grants() == []
    assert call(tool, {}, context).error.type == "ApprovalRequired"


def test_a_grant_is_counted_by_its_id():
    """Granting one again, or what its JSON became, neither refills nor revives it; a new context counts anew."""
    tool, grant = granted(uses=2)
    context = Context()
    context.grant(grant)
    call(tool, {}, context)
    context.grant(Grant.from_json(grant.to_json()))
    assert [item.uses for item in context.grants()] == [1]
    (kept,) = context.grants()
    call(tool, {}, context)
    context.grant(grant)
    context.grant(kept)
    assert context.grants() == []

    other = Context()
    other.grant(Grant.from_json(kept.to_json()))
    assert [call(tool, {}, other).success for _ in range(2)] == [True, False]


def test_a_revoked_grant_covers_nothing():
    """It stays revoked; others, and other contexts, keep theirs. Revoking what was never granted is allowed."""
    tool, grant = granted(uses=9)
    _, spare = granted(uses=1)
    context, other = Context(), Context()
    for item in (context, other):
        item.grant(grant)
    context.revoke(grant)
    context.grant(grant)

    assert call(tool, {}, context).is_error and context.grants() == []
    assert call(tool, {}, other).success
    context.revoke(spare)
    context.grant(spare)
    assert context.grants() == []


def test_a_grant_expires(monkeypatch):
    """Its time is a time of the clock on the wall, so that it can be stored."""
    clock = [1_000_000.0]
    monkeypatch.setattr("functool.approval.time.time", lambda: clock[0])
    tool, grant = granted(uses=9, expires_at=1_000_060)
    context = Context()
    context.grant(grant)

    assert call(tool, {}, context).success and len(context.grants()) == 1
    clock[0] += 60
    assert call(tool, {}, context).error.type == "ApprovalRequired" and context.grants() == []


def test_views_share_grants():
    """What is granted in a view, or in a call, holds in the whole context, before and after."""
    tool, grant = granted(uses=2)
    context = Context()
    view = context.view(thread="t")
    view.grant(grant)

    assert call(tool, {}, context).success and [g.uses for g in view.grants()] == [1]
    context.revoke(grant)
    assert view.grants() == []


@pytest.mark.parametrize("change", [Context.grant, Context.revoke])
def test_only_a_grant_can_be_granted_or_revoked(change):
    """Its JSON is read first."""
    with pytest.raises(TypeError, match="^expected a Grant, not str$"):
        change(Context(), granted()[1].to_json())


@pytest.mark.parametrize("answer", ["approve", "deny"])
def test_only_a_request_can_be_answered(answer):
    """The result that holds the request is no request; the message says where it is."""
    wanted = r'^expected an ApprovalRequest, as in result.metadata\["approval"\], not ToolResult$'
    with pytest.raises(TypeError, match=wanted):
        getattr(Context(), answer)(ToolResult())


def test_threads_share_the_uses_of_a_grant():
    """Calls on many event loops at once use it as often as it has uses, and no more."""
    tool, grant = granted(uses=50)
    context = Context()
    context.grant(grant)

    def work(_):
        return sum(call(tool, {}, context).success for _ in range(20))

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(work, range(8))) == 50


# ---- what belongs to one call


def test_notes_belong_to_one_call():
    """Views of one call share them; a call inside of it, and the next one, has its own."""
    seen = []

    def note(call, context):
        context.notes[call.name] = 1

    @FunctionTool(input_guardrails=[note])
    async def inner(ctx: Context) -> None:
        seen.append(dict(ctx.notes))

    @FunctionTool(input_guardrails=[note])
    async def outer(ctx: Context) -> None:
        await inner(ToolCall(name="inner"), ctx)
        seen.append(dict(ctx.view(thread="t").notes))

    context = Context()
    call(outer, {}, context)
    call(inner, {}, context)

    assert seen == [{"inner": 1}, {"outer": 1}, {"inner": 1}] and context.notes == {}


def test_what_a_wrapper_notes_belongs_to_its_own_call():
    """It stands neither in the context of the host nor in the notes of the call around it."""
    seen = []

    class Noting(WrapperTool):
        async def run(self, call, context):
            seen.append(dict(context.notes))
            context.notes["metadata"] = {"of": call.id}
            return await self.tool.invoke(call, context)

    tool, context = Noting(MockTool("inner")), Context()

    async def body(ctx: Context) -> bool:
        ctx.notes["mine"] = 1
        await tool.invoke(ToolCall(name="inner", id="b"), ctx)
        return ctx.notes == {"mine": 1}

    call(tool, {}, context)
    outer = call(FunctionTool(body), {}, context)

    assert (outer.value, outer.metadata) == (True, {})
    assert seen == [{}, {}] and context.notes == {}


def test_a_decision_is_seen_inside_of_its_call():
    """The body may read who agreed to what; outside of the call, and in calls inside of it, there is none."""
    seen = []

    @FunctionTool
    async def inner(ctx: Context) -> None:
        seen.append(ctx.decision)

    @FunctionTool(input_guardrails=[require_approval()])
    async def outer(ctx: Context) -> None:
        seen.append(ctx.decision["approved"])
        await inner(ToolCall(name="inner"), ctx)

    context = Context(approver=lambda request: True)
    call(outer, {}, context)

    assert seen == [True, None] and context.decision is None


@pytest.mark.anyio
async def test_a_fresh_context():
    """Another conversation has the same dependencies and listeners, and no state, approval or grant."""
    told = []
    base = Context("deps", thread="t", approver=lambda request: True, metadata={"a": 1})
    base.subscribe(lambda event: told.append(event.kind))
    base.state["n"] = 1
    base.grant(Grant.of(MockTool("t", "d"), {}))
    other = base.fresh()
    other.state["n"] = 2
    other.grant(Grant.of(MockTool("u", "d"), {}))
    await other.announce("said")

    assert (other.deps, other.thread, other.metadata) == ("deps", "t", {"a": 1})
    assert other.approver is base.approver
    assert base.state == {"n": 1}
    assert [grant.tool for grant in other.grants()] == ["u"]
    assert [grant.tool for grant in base.grants()] == ["t"]
    assert told == ["said"]


def test_an_approver_of_one_conversation():
    """An approver that remembers for a conversation is asked for that of another one."""

    class Approver:
        def __call__(self, request):
            return True

        def fresh(self):
            return Approver()

    base = Context(approver=Approver())

    assert isinstance(base.fresh().approver, Approver)
    assert base.fresh().approver is not base.approver
    assert base.view().approver is base.approver
    assert Context().fresh().approver is None


@pytest.mark.anyio
async def test_a_view_with_a_listener_of_its_own():
    """A listener of one view hears that view, and no other; the context's own hear both."""
    base, everything = heard()
    mine = EventLog()
    view = base.heard_by(mine)
    await view.announce("mine")
    await base.announce("other")
    view.state["n"] = 1

    assert mine.kinds == ["mine"]
    assert everything.kinds == ["mine", "other"]
    assert base.state == {"n": 1}


def test_a_view_replaces_only_what_a_context_has():
    """A misspelt name would leave the attribute as it was, such as an approver that agrees to everything."""

    class Mine(Context):
        user = "nobody"

    misspelt = "^Context has no attribute 'aprover' to replace; did you mean 'approver'\\?$"
    with pytest.raises(TypeError, match=misspelt):
        Context().view(deps=1, aprover=None)
    with pytest.raises(
        TypeError, match="no attribute 'decision' to replace; known: deps, thread, "
    ):
        Context().view(decision={"approved": True})
    assert Mine().view(user="ada", deps=1).user == "ada"


def test_a_layer_notes_metadata_whoever_answers():
    """What a layer notes as metadata stands in the result, also when an error function wrote it."""

    async def layer(call, context, proceed):
        context.notes["metadata"] = {"layer": call.id}
        return await proceed()

    def add(a: int) -> int:
        return 1 // a

    def answer(error, context):
        return ToolResult.failed("no", metadata={"mine": 1})

    tool = FunctionTool(add, on_error_func=answer).around(layer)
    run = lambda a: call(tool, {"a": a}, id="7")  # noqa: E731

    assert run(1).metadata == {"layer": "7"}
    assert run(0).metadata == {"mine": 1, "layer": "7"}


@pytest.mark.parametrize("timeout", [None, 60])
def test_a_listener_that_leaves_while_it_listens_is_waited_for(timeout):
    """An event that was sent has been seen when the result comes, with a time limit and without."""
    seen, reached = [], asyncio.Event()

    async def tell(text: str, context: Context) -> str:
        """Tell."""
        context.progress(text)
        await reached.wait()
        return text

    async def main():
        context = Context()

        async def listen(event):
            undo()
            reached.set()
            for _ in range(20):
                await asyncio.sleep(0)
            seen.append(event.data["message"])

        undo = context.subscribe(listen)
        made = ToolCall(name="tell", arguments={"text": "x"})
        await FunctionTool(tell, timeout=timeout).invoke(made, context)
        return [*seen]

    assert asyncio.run(main()) == ["x"]


@pytest.mark.parametrize(
    ("later", "holds"),
    [(299, True), (301, False)],
)
def test_an_approval_in_a_pickled_context_expires_on_another_machine(later, holds, monkeypatch):
    """An approval keeps its time limit if its context goes to a machine that was started later."""
    tool, context = paying(), Context()
    context.approve(call(tool, {}, context).metadata["approval"], expires_in=300)
    sent, today = pickle.dumps(context), time.time()

    restored = pickle.loads(sent)
    monkeypatch.setattr("functool.context.time.time", lambda: today + later)

    assert call(tool, {}, restored).success == holds


def test_a_denial_in_a_pickled_context_does_not_expire():
    """What a person refused stays refused, also in a context that was pickled twice."""
    tool, context = paying(), Context()
    context.deny(call(tool, {}, context).metadata["approval"], "no")
    restored = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(context))))

    assert call(tool, {}, restored).error.message == "A person refused this call: no"


@pytest.mark.parametrize("notes", [{"decision": "buy"}, {"decision": {}}, {"metadata": "x"}])
def test_notes_of_an_author_end_no_call(notes):
    """A body may write what it likes into its notes: the call still answers with its result."""

    @FunctionTool
    async def note(ctx: Context) -> str:
        ctx.notes.update(notes)
        return "noted"

    result = call(note, {}, Context())

    assert (result.text, result.metadata) == ("noted", {})


def test_a_layer_that_runs_its_tool_itself_knows_its_own_call():
    """In the `run` of a wrapper, `context.call` is the wrapper's call, and its events have its name."""
    seen = []

    class Layer(WrapperTool):
        async def run(self, call, context):
            seen.append((context.call.name, context.call.arguments, context.schema.name))
            context.progress("here")
            return await super().run(call, context)

    layer = Layer(FunctionTool(lambda n: n, name="inner"), name="layer")

    @FunctionTool
    async def outer(ctx: Context):
        return (await layer(ToolCall(name="layer", arguments='{"n": 1}', id="c2"), ctx)).value

    context, log = Context(), EventLog()
    context.subscribe(log)

    assert call(outer, {}, context).value == 1
    assert seen == [("layer", {"n": 1}, "layer")]
    assert [(e.tool_name, e.call_id) for e in log.events if e.kind == "tool:progress"] == [
        ("layer", "c2")
    ]


def test_a_decision_that_a_layer_hands_over_is_not_for_another_conversation():
    """A layer that runs its tool in a fresh context takes no approval of this one along."""

    class Approver:
        def __call__(self, request):
            return True

        def fresh(self):
            return lambda request: False

    class Elsewhere(WrapperTool):
        async def run(self, call, context):
            return await self.tool.invoke(call, context.fresh())

    layer = Elsewhere(paying(), input_guardrails=[require_approval()])
    result = call(layer, {}, Context(approver=Approver()))

    assert result.error.type == "GuardrailError"


def test_a_decision_is_used_in_a_call_only():
    """Outside of a call, `use_decision` gives nothing and leaves the approval for the call."""
    context, tool = Context(), paying()
    request = call(tool, {}, context).metadata["approval"]
    context.approve(request)

    assert context.use_decision(request.digest) is None
    assert call(tool, {}, context).success
