"""Toolset: one call, a whole turn of calls, the events, and sync code."""

import asyncio
import contextvars
import itertools
import re
import signal
import threading

import pytest

from functool import (
    Context,
    DefinitionError,
    FunctionTool,
    ToolCall,
    ToolError,
    ToolFailure,
    ToolPrompts,
    Toolset,
    ToolSettings,
    Tripwire,
    WrapperTool,
)
from functool.testing import EventLog, MockTool
from tests.support import cancelled, heard, in_threads, until


@FunctionTool
async def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


@FunctionTool
def fail():
    """Fail."""
    raise ToolError("failed")


@FunctionTool
async def trip():
    """Trip."""
    raise Tripwire("stop all")


CONTROL = FunctionTool(add.func, name="control", settings=ToolSettings(takes_control=True))


@FunctionTool
async def quitter() -> None:
    """Cancel oneself."""
    asyncio.current_task().cancel()
    await asyncio.sleep(1)


@FunctionTool
async def deps(context: Context) -> str:
    """Tell what the host has put into the context."""
    return context.deps


RENAME = "rename one with WrapperTool(tool, name=...)"
A_CLASS = "it is a class, make a tool with it (a ToolModel's .tool() does)"


def one(name, id="", **arguments):
    return ToolCall(name=name, arguments=arguments, id=id)


def calls(*names):
    """A turn: a call of each name, with its place as its id."""
    return [
        one(name, id=str(i), **({"a": i} if name == "add" else {})) for i, name in enumerate(names)
    ]


def run(work):
    return asyncio.run(work)


def switched(switch):
    """The tool `add` under a switch."""
    return FunctionTool(add.func, settings=ToolSettings(is_enabled=switch))


def test_it_is_a_mapping():
    """A Toolset maps names to tools, in order, and cannot be written to."""
    tools = Toolset([add, fail])

    assert (list(tools), len(tools)) == (["add", "fail"], 2)
    assert (tools["add"], "fail" in tools, tools.get("x")) == (add, True, None)
    with pytest.raises(TypeError):
        tools["new"] = add


def test_a_set_of_a_mapping():
    """The tools of a mapping, another set too, are taken under their own names."""
    for tools in ({"plus": add, "f": fail}, Toolset([add, fail])):
        assert dict(Toolset(tools)) == {"add": add, "fail": fail}


@pytest.mark.parametrize("limit", [0, -1, True, "5", 1.5, float("nan"), []])
def test_a_bad_limit_is_refused(limit):
    """`max_concurrency` is a positive int or None."""
    said = f"max_concurrency must be a positive int or None, not {limit!r}"
    with pytest.raises(DefinitionError, match=f"^{re.escape(said)}$"):
        Toolset([add], max_concurrency=limit)


def test_the_sets_of_a_set():
    """`filtered`, `prefixed` and `|` return new sets."""
    tools = Toolset([add, fail], max_concurrency=3)

    assert list(tools.filtered(lambda tool: tool.name == "add")) == ["add"]
    assert list(tools.prefixed("x_")) == ["x_add", "x_fail"]
    assert run(tools.prefixed("x_").call(one("x_add", a=1))).value == 2
    assert list(tools | Toolset([trip])) == ["add", "fail", "trip"]
    assert (tools | Toolset([trip], max_concurrency=2)).max_concurrency == 2
    with pytest.raises(DefinitionError):
        tools | Toolset([add])
    with pytest.raises(TypeError):
        tools | [trip]


def test_unknown_tools_are_answered_with_close_names():
    """A misspelt name is an error result that names the tool that was meant."""
    result = run(Toolset([add, fail]).call(one("adds", id="q")))

    assert (result.error.type, result.call_id) == ("UnknownToolError", "q")
    assert "'add'" in result.text
    assert "add, fail" in run(Toolset([add, fail]).call(one("zzzz"))).text
    assert run(Toolset().call(one("x"))).error.type == "UnknownToolError"


@pytest.mark.parametrize(
    "switch", [False, lambda context: context.deps == "admin", lambda context: 1 / 0]
)
def test_disabled_tools(switch):
    """A tool that is switched off, or whose switch crashes, is a `ToolDisabledError`, and not listed."""
    tools = Toolset([switched(switch), fail])

    assert run(tools.call(calls("add")[0], Context("guest"))).error.type == "ToolDisabledError"
    assert [tool.name for tool in tools.enabled(Context("guest"))] == ["fail"]
    if callable(switch) and switch.__code__.co_consts[1:] == ("admin",):
        assert [tool.name for tool in tools.enabled(Context("admin"))] == ["add", "fail"]
        assert run(tools.call(calls("add")[0], Context("admin"))).value == 1


def test_a_turn_keeps_order_and_siblings():
    """Results come in the order of the calls, and a failure loses no sibling."""
    results = run(Toolset([add, fail]).call_all(calls("add", "fail", "nope", "add")))

    assert [result.call_id for result in results] == ["0", "1", "2", "3"]
    ends = [result.error.type if result.error else result.value for result in results]
    assert ends == [1, "ToolError", "UnknownToolError", 4]
    assert run(Toolset([add]).call_all([])) == []


def test_two_calls_with_one_id_get_their_own_results():
    """An id is the caller's business."""
    pair = [one("add", id="same", a=a) for a in (1, 5)]

    assert [result.value for result in run(Toolset([add]).call_all(pair))] == [2, 6]


def counting_tool(name="work", **settings):
    state = {"now": 0, "most": 0, "order": []}

    async def work(n: int = 0):
        state["now"] += 1
        state["most"] = max(state["most"], state["now"])
        state["order"].append((name, n, state["now"]))
        await asyncio.sleep(0.005)
        state["now"] -= 1

    return FunctionTool(work, name=name, settings=ToolSettings(**settings)), state


def test_max_concurrency_is_honoured():
    """No more calls of a turn run at once than allowed; without a limit all do."""
    tool, state = counting_tool()
    many = [one("work", n=i) for i in range(20)]
    run(Toolset([tool], max_concurrency=3).call_all(many))
    limited = state["most"]
    run(Toolset([tool]).call_all(many))

    assert (limited, state["most"]) == (3, 20)


def test_a_turn_may_run_one_call_after_the_other():
    """With a limit of one they run in their order, and a tool that takes control is no less refused."""
    tool, state = counting_tool()
    tools = Toolset([tool, CONTROL], max_concurrency=1)
    run(tools.call_all([one("work", n=n) for n in range(5)]))

    assert state["order"] == [("work", n, 1) for n in range(5)]
    assert all(result.is_error for result in run(tools.call_all(calls("control", "work"))))
    assert len(state["order"]) == 5


def test_an_exclusive_tool_runs_alone():
    """While an exclusive tool runs nothing else of the turn does."""
    running, overlaps = set(), []

    def watched(name, **settings):
        async def work():
            overlaps.extend((name, other) for other in running)
            running.add(name)
            await asyncio.sleep(0.005)
            running.discard(name)
            return name

        return FunctionTool(work, name=name, settings=ToolSettings(**settings))

    tools = Toolset([watched("alone", is_exclusive=True), watched("a"), watched("b")])
    results = run(tools.call_all([ToolCall(name=name) for name in ("a", "alone", "b", "alone")]))

    assert [result.value for result in results] == ["a", "alone", "b", "alone"]
    assert not any("alone" in pair for pair in overlaps) and overlaps != []


def test_a_tool_that_takes_control_is_not_run_beside_others():
    """None of such a turn runs, and each answer says why; alone it runs."""
    tool, state = counting_tool("control", takes_control=True)
    tools = Toolset([tool, add])
    results = run(tools.call_all([one("control", id="1"), one("add", id="2", a=1)]))

    assert [result.is_error for result in results] == [True, True]
    assert {result.text for result in results} == {
        "Nothing was run: 'control' takes control and cannot be called together with other tools. Call it alone."
    }
    assert state["order"] == []
    assert run(tools.call_all([one("control")]))[0].success


def test_a_tripwire_loses_no_sibling_that_cancels_itself():
    """What a call that cancels its own task would have answered without the tripwire stands on that, too."""

    with pytest.raises(Tripwire) as caught:
        run(Toolset([quitter, trip]).call_all(calls("quitter", "trip", "quitter")))

    assert [(result.call_id, result.text) for result in caught.value.results] == [
        (id, "The call cancelled itself.") for id in ("0", "2")
    ]


def test_a_tripwire_is_raised_after_the_others_have_ended():
    """Siblings end first, and their results are on the exception."""
    tool, state = counting_tool()

    with pytest.raises(Tripwire, match="stop all") as caught:
        run(Toolset([tool, trip, add]).call_all(calls("trip", "work", "add")))

    assert state["now"] == 0 and len(state["order"]) == 1
    others = [(result.call_id, result.success) for result in caught.value.results]
    assert others == [("1", True), ("2", True)]


@pytest.mark.parametrize(("most", "settings"), [(None, {"is_exclusive": True}), (1, {})])
def test_no_call_begins_after_a_tripwire(most, settings):
    """An exclusive call, or one that waits for its turn, does not run once the run was stopped."""
    tool, state = counting_tool(**settings)

    with pytest.raises(Tripwire) as caught:
        run(Toolset([tool, trip], max_concurrency=most).call_all(calls("trip", "work")))

    assert state["order"] == []
    [other] = caught.value.results
    assert other.text == "The call was not made, because the run was stopped."


def test_cancelling_the_caller_cancels_what_runs():
    """Cancelled, a turn cancels its calls and waits for their clean-up."""
    cleaned, begun = [], asyncio.Event()

    @FunctionTool
    async def slow(n: int):
        if n == 2:
            begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append(n)

    run(cancelled(Toolset([slow]).call_all([one("slow", n=n) for n in range(3)]), begun))

    assert sorted(cleaned) == [0, 1, 2]


def test_ten_thousand_parallel_calls():
    """Each of 10,000 parallel calls gets its own result."""
    many = [one("add", id=str(i), a=i) for i in range(10_000)]
    results = run(Toolset([add]).call_all(many))

    assert [(result.call_id, result.value) for result in results] == [
        (str(i), i + 1) for i in range(10_000)
    ]


def test_a_turn_of_many_calls_lets_other_tasks_run():
    """The event loop serves other tasks while the calls of a turn begin, also calls that never wait."""
    turns = 0

    async def count():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def turn():
        counter = asyncio.ensure_future(count())
        results = await Toolset([add]).call_all(calls(*["ad"] * 1_600))
        counter.cancel()
        return results

    assert {result.text for result in run(turn())} == {
        "There is no tool named 'ad'. Did you mean 'add'?"
    }
    assert turns >= 100


# ---- sync code


def test_call_sync_in_a_script():
    """`call_sync` drives the one async road."""
    assert Toolset([add]).call_sync(calls("add")[0]).value == 1
    assert [r.value for r in Toolset([add]).call_all_sync(calls("add", "add"))] == [1, 2]


def test_call_sync_chains_an_error_to_nothing_of_its_own():
    """A traceback that leaves `call_sync` begins in the tool: how the loop was found is no part of it."""

    with pytest.raises(Tripwire) as stopped:
        Toolset([trip]).call_sync(one("trip"))

    assert stopped.value.__context__ is None


def test_call_sync_inside_a_running_loop():
    """Where a loop is running, as in a notebook, it works too, with the caller's context variables; tripwires and exits leave."""
    variable = contextvars.ContextVar("variable", default="unset")

    @FunctionTool
    def read():
        return variable.get()

    @FunctionTool
    async def leave():
        raise SystemExit(3)

    async def main():
        variable.set("set")
        with pytest.raises(Tripwire):
            Toolset([trip]).call_sync(calls("trip")[0])
        with pytest.raises(SystemExit):
            Toolset([leave]).call_sync(calls("leave")[0])
        return Toolset([read]).call_sync(calls("read")[0])

    assert run(main()).value == "set"


def test_an_interrupt_of_call_sync_inside_a_running_loop_cancels_the_call():
    """Ctrl-C, as a notebook gets it, leaves as KeyboardInterrupt; the body has cleaned up and the call's thread has ended."""
    ended = []

    @FunctionTool
    async def hang():
        try:
            while True:  # A signal that comes just before Python begins to wait is not seen.
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
                await asyncio.sleep(5)
        finally:
            ended.append("hang")

    async def main():
        Toolset([hang]).call_sync(calls("hang")[0])

    # Where the tests run in the background, a shell has them ignore the signal.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    loop = asyncio.new_event_loop()  # `asyncio.run` would take the first interrupt for itself.
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(main())
    loop.close()
    signal.signal(signal.SIGINT, handler)
    for thread in threading.enumerate():
        if thread.name.startswith("functool-call-sync"):
            thread.join(30)

    assert ended == ["hang"]


def test_call_sync_from_another_thread():
    """Threads of the host's own may call."""
    numbers = itertools.count()
    results = in_threads(8, lambda: Toolset([add]).call_sync(one("add", a=next(numbers))).value)

    assert sorted(results) == list(range(1, 9))


def test_a_tool_may_call_tools():
    """A sync tool that drives a toolset of its own does not lock anything up."""

    @FunctionTool
    def outer(depth: int) -> int:
        return 0 if depth == 0 else tools.call_sync(one("outer", depth=depth - 1)).value + 1

    tools = Toolset([outer])

    assert tools.call_sync(one("outer", depth=20)).value == 20


# ---- events


def events_of(tools, turn, debug=False):
    context, log = heard(debug)
    results = run(tools.call_all(turn, context))
    return log.events, results


def test_the_events_of_a_call():
    """`tool:pre`, then exactly one of `tool:post` and `tool:error`, with their data."""
    events, results = events_of(Toolset([add, fail]), calls("add", "fail", "nope"))

    for i, (name, kind) in enumerate(
        [("add", "tool:post"), ("fail", "tool:error"), ("nope", "tool:error")]
    ):
        own = [event for event in events if event.call_id == str(i)]
        assert [event.kind for event in own] == ["tool:pre", kind]
        assert {event.tool_name for event in own} == {name}
        assert own[1].data["result"] == results[i]
    assert events[0].data == {"input": {"a": 0}}
    failures = {event.data["error"].type for event in events if event.kind == "tool:error"}
    assert failures == {"ToolError", "UnknownToolError"}


def test_disabled_and_controlling_tools_have_error_events():
    """Whatever is not a success is a `tool:error`."""
    off = FunctionTool(add.func, name="off", settings=ToolSettings(is_enabled=False))
    events, _ = events_of(Toolset([off]), calls("off"))
    more, _ = events_of(Toolset([CONTROL, add]), calls("control", "add"))

    assert [event.kind for event in events] == ["tool:pre", "tool:error"]
    assert sorted(event.kind for event in more) == ["tool:error"] * 2 + ["tool:pre"] * 2


def test_a_tool_called_directly_emits_no_orchestration():
    """Without a Toolset the host is the orchestrator: only progress and the author's own events."""

    @FunctionTool
    async def work(ctx: Context):
        ctx.progress("half", 1, 2)
        ctx.emit("work:note", text="hi")

    context, log = heard()
    run(work.invoke(one("work", id="7"), context))

    assert [(e.kind, e.tool_name, e.call_id, e.data) for e in log.events] == [
        ("tool:progress", "work", "7", {"message": "half", "done": 1, "total": 2}),
        ("work:note", "work", "7", {"text": "hi"}),
    ]


def test_progress_stands_between_pre_and_post():
    """Every event of a body has been seen before the outcome."""

    @FunctionTool
    def work(ctx: Context):
        for i in range(100):
            ctx.progress(str(i))

    context, seen = Context(), []

    async def slow_listener(event):
        await asyncio.sleep(0)
        seen.append(event)

    context.subscribe(slow_listener)
    run(Toolset([work]).call(one("work"), context))

    assert [e.kind for e in seen] == ["tool:pre"] + ["tool:progress"] * 100 + ["tool:post"]
    assert [e.data["message"] for e in seen[1:-1]] == [str(i) for i in range(100)]


# ---- for hosts


def test_describe():
    """What a host's templates need, in order."""
    tool = MockTool(
        "m",
        "Mock.",
        prompts=ToolPrompts(system="S", user_reminder="R"),
        settings=ToolSettings(display_name="M"),
    )

    assert Toolset([tool]).describe() == [
        {
            "name": "m",
            "display_name": "M",
            "description": "Mock.",
            "system": "S",
            "system_format": "",
            "user": "",
            "user_format": "",
            "user_reminder": "R",
            "parameters": {"type": "object", "additionalProperties": True},
        }
    ]


def test_describe_hands_out_copies():
    """What a host changes in a description changes no tool."""
    tools = Toolset([add])
    tools.describe()[0]["parameters"]["properties"].clear()

    assert list(tools.describe()[0]["parameters"]["properties"]) == ["a", "b"]
    assert list(add.schema.parameters["properties"]) == ["a", "b"]


def test_a_tripwire_is_an_error_event():
    """After `tool:pre` exactly one outcome is told, also when the run stops: there is no result then."""
    context, log = heard()

    with pytest.raises(Tripwire):
        run(Toolset([trip]).call(one("trip"), context))

    failure = ToolFailure(type="Tripwire", message="stop all")
    assert log.kinds == ["tool:pre", "tool:error"]
    assert log.events[1].data == {"error": failure, "result": None}


@pytest.mark.parametrize(
    "leaving",
    [SystemExit("bye"), KeyboardInterrupt("bye"), BaseExceptionGroup("bye", [SystemExit()])],
)
def test_what_leaves_a_call_is_an_error_event(leaving):
    """Also what is no `Exception`, and so passes through, ends the call for those who listen."""
    context, log = heard()

    @FunctionTool
    async def leave():
        raise leaving

    with pytest.raises(type(leaving)):
        run(Toolset([leave]).call_all(calls("leave"), context))

    failure = ToolFailure(type=type(leaving).__name__, message=str(leaving))
    assert log.kinds == ["tool:pre", "tool:error"]
    assert log.events[1].data == {"error": failure, "result": None}


def test_a_call_that_is_thrown_away_is_closed_in_silence(recwarn):
    """A coroutine that is being closed can await no listener."""

    async def listener(event):
        await asyncio.sleep(0)

    async def main():
        context = Context()
        context.subscribe(listener)
        call = Toolset([add]).call(one("add", a=1), context)
        call.send(None)
        call.close()

    run(main())

    assert list(recwarn) == []


def test_a_context_without_a_truth_is_a_context():
    """A host's own context class may have a length of zero."""

    class Empty(Context):
        def __len__(self):
            return 0

    tools, made = Toolset([deps]), one("deps")

    assert run(tools.call(made, Empty("mine"))).value == "mine"
    assert run(tools.call_all([made], Empty("mine")))[0].value == "mine"
    assert run(deps(made, Empty("mine"))).value == "mine"


@pytest.mark.parametrize("name", [None, 5, ["add"], {"add": 1}], ids=repr)
@pytest.mark.parametrize("listened", [False, True])
def test_a_name_that_is_no_text_is_unknown(name, listened):
    """Whatever a caller sends as a name, what cannot be hashed too, is answered, alone and among others."""
    context, log = heard()
    tools, odd = Toolset([add]), one(name, id="odd")
    heard_by = context if listened else None

    assert run(tools.call(odd, heard_by)).error.type == "UnknownToolError"
    results = run(tools.call_all([odd, one("add", id="fine", a=1)], heard_by))
    assert [(result.call_id, result.success) for result in results] == [
        *[("odd", False), ("fine", True)]
    ]
    assert log.kinds.count("tool:error") == (2 if listened else 0)


def test_a_toolset_shows_its_names():
    """The repr is the names, in order."""
    assert repr(Toolset([add, MockTool("m", "Mock.")])) == "Toolset(['add', 'm'])"


@pytest.mark.parametrize("exclusive", [False, True])
def test_a_call_alone_that_cancels_itself_is_answered(exclusive):
    """Also a call that runs alone, being the only one or exclusive, is answered and takes nobody along."""

    settings = ToolSettings(is_exclusive=exclusive)
    tools = Toolset([FunctionTool(quitter.func, settings=settings), add])
    [alone] = run(tools.call_all([one("quitter", id="1")]))
    turn = run(tools.call_all(calls("add", "quitter", "quitter", "add")))

    assert (alone.error.type, alone.call_id) == ("ToolError", "1")
    assert alone.text == "The call cancelled itself."
    assert [result.success for result in turn] == [True, False, False, True]


@pytest.mark.parametrize("cancelled_at", ["tool:pre", "tool:progress"])
def test_a_cancelled_call_has_one_outcome(cancelled_at):
    """After `tool:pre` a cancellation, too, is told once, and leaves; there is no result then."""
    context, seen = Context(), []

    @FunctionTool
    async def slow(ctx: Context) -> None:
        ctx.progress("here")
        await asyncio.sleep(60)

    async def main():
        reached = asyncio.Event()

        async def listener(event):
            seen.append(event)
            if event.kind == cancelled_at:
                reached.set()
                await asyncio.sleep(0)

        context.subscribe(listener)
        await cancelled(Toolset([slow]).call(one("slow", id="1"), context), reached)

    run(main())
    pre, error = [event for event in seen if event.kind != "tool:progress"]
    assert (pre.kind, error.kind, error.call_id) == ("tool:pre", "tool:error", "1")
    assert (error.data["error"].type, error.data["result"]) == ("CancelledError", None)
    assert error.data["error"].message


@pytest.mark.parametrize("fails", [False, True])
def test_every_listener_learns_of_the_outcome_when_a_call_is_cancelled(fails):
    """Whoever cancels a call while one listener is told how it ended does not keep it from the others.

    Another one that hangs does not hold up the cancellation.
    """
    context, log = Context(), EventLog()

    @FunctionTool
    async def quick() -> None:
        if fails:
            raise ToolError("no")

    async def main():
        reached = asyncio.Event()

        async def hang(event):
            if event.kind != "tool:pre":
                reached.set()
                await asyncio.Event().wait()

        for listener in (hang, log, hang):
            context.subscribe(listener)
        await cancelled(Toolset([quick]).call(one("quick"), context), reached)
        await until(lambda: len(asyncio.all_tasks()) == 1)  # Nobody waits for the one that hangs.

    run(main())

    assert log.kinds == ["tool:pre", "tool:error" if fails else "tool:post"]


def test_no_listener_stays_behind_when_a_call_is_cancelled_twice():
    """The second cancellation does not wait for the listeners, and they still get no more than a second."""
    context = Context()

    async def main():
        reached = [asyncio.Event(), asyncio.Event()]
        untold = iter(reached)

        async def hang(event):
            if event.kind == "tool:post":
                next(untold).set()
                await asyncio.Event().wait()

        context.subscribe(hang)
        context.subscribe(hang)
        task = asyncio.create_task(Toolset([MockTool("t", "")]).call(one("t"), context))
        for each in reached:
            await each.wait()
            task.cancel()
        await asyncio.wait([task])
        await until(lambda: len(asyncio.all_tasks()) == 1)
        return task.cancelled()

    assert run(main())


@pytest.mark.parametrize("hangs_at", ["tool:pre", "tool:progress", "tool:error"])
def test_a_listener_that_hangs_does_not_hold_up_a_cancellation(hangs_at, monkeypatch):
    """Whoever cancels a call gets away from a listener that never ends."""
    monkeypatch.setattr("functool.executors.GRACE_SECONDS", 0.01)

    @FunctionTool
    async def slow(ctx: Context):
        yield 1
        await asyncio.sleep(60)

    async def main():
        context, reached = Context(), asyncio.Event()

        async def listener(event):
            reached.set() if event.kind in (hangs_at, "tool:progress") else None
            if event.kind == hangs_at:
                await asyncio.Event().wait()

        context.subscribe(listener)
        await cancelled(Toolset([slow]).call(one("slow"), context), reached)

    run(main())


def test_sync_code_hands_on_its_context():
    """A tool called from sync code sees the caller's context, alone and in a turn."""

    tools, context = Toolset([deps]), Context("mine")
    results = tools.call_all_sync([one("deps", id="7"), one("deps", id="8")], context)

    assert tools.call_sync(one("deps"), context).value == "mine"
    assert [(result.value, result.call_id) for result in results] == [("mine", "7"), ("mine", "8")]


def test_a_switch_always_gets_a_context():
    """Where the caller has none, `is_enabled` is asked with an empty one."""
    seen = []
    tools = Toolset([switched(lambda context: seen.append(context) or True)])

    assert [tool.name for tool in tools.enabled()] == ["add"]
    assert run(tools.call(calls("add")[0])).success and run(tools.call_all(calls("add")))[0].success
    assert [type(context) for context in seen] == [Context] * 3


def test_the_sets_of_a_set_keep_its_limit():
    """What is filtered or renamed runs no more calls at once than before; of two limits the smaller holds."""
    tools = Toolset([add, fail], max_concurrency=3)

    for limited in (
        *(tools.filtered(lambda tool: True), tools.prefixed("x_")),
        *(tools | Toolset([trip]), Toolset([trip], max_concurrency=5) | tools),
    ):
        assert limited.max_concurrency == 3
    assert Toolset([add, fail]).filtered(lambda tool: True).max_concurrency is None
    assert (Toolset([add]) | Toolset([trip])).max_concurrency is None


@pytest.mark.parametrize(
    ("tools", "said"),
    [
        ([add, add], f"two tools are named 'add': {RENAME}"),
        ([add, WrapperTool(fail, name="add")], f"two tools are named 'add': {RENAME}"),
        ([len], "a Toolset holds tools, not len: decorate it with @FunctionTool"),
        ([add.func], "a Toolset holds tools, not add: decorate it with @FunctionTool"),
        (["add"], "a Toolset holds tools, not str: decorate it with @FunctionTool"),
        ([FunctionTool], f"a Toolset holds tools, not FunctionTool: {A_CLASS}"),
        (add.func, "a Toolset holds tools, not add: decorate it with @FunctionTool"),
        (None, "a Toolset holds tools, not NoneType: pass a list of tools"),
        ([7], "a Toolset holds tools, not int: pass a list of tools"),
        (
            [add, Toolset([fail])],
            "a Toolset holds tools, not Toolset: join toolsets with |, as in Toolset([...]) | other",
        ),
    ],
    ids=[
        *("twice", "two of a name", "a builtin", "a function", "a name", "a class"),
        *("no list", "nothing", "a number", "a toolset"),
    ],
)
def test_what_is_wrong_with_a_set_is_said(tools, said):
    """The errors name the tool, what stands there instead, and the remedy."""
    with pytest.raises(DefinitionError, match=f"^{re.escape(said)}$"):
        Toolset(tools)


@pytest.mark.parametrize(
    "ask", [Toolset.call, lambda tools, call: tools.call_all([call])], ids=["call", "call_all"]
)
def test_what_is_no_call_is_said(ask):
    """A dict in the place of a call is the host's mistake: the error says what a call is, and no body runs."""
    said = "a call must be a ToolCall(name=..., arguments=..., id=...), not dict"
    with pytest.raises(TypeError, match=f"^{re.escape(said)}$"):
        run(ask(Toolset([add]), {"name": "add", "arguments": {"a": 1, "b": 2}}))


def test_one_call_is_no_turn():
    """A call in the place of a list of calls is an error that says how to pass it."""
    said = "a turn is a list of calls: pass [call], or use call or call_sync"
    with pytest.raises(TypeError, match=f"^{re.escape(said)}$"):
        Toolset([add]).call_all_sync(calls("add")[0])


async def later(context):
    return True


@pytest.mark.parametrize(
    ("switch", "why"),
    [
        (lambda context: 1 / 0, "division by zero"),
        (lambda context: later(context), "is_enabled has to be sync"),
    ],
    ids=["raises", "async"],
)
def test_a_broken_switch_is_logged(switch, why, caplog):
    """A switch that raises, or a coroutine, which is always true, switches no tool on; the log names the tool, with the traceback."""
    tools = Toolset([switched(switch)])

    assert tools.enabled() == []
    caplog.clear()
    assert run(tools.call(calls("add")[0])).text == "The tool 'add' is disabled."
    (record,) = caplog.records
    assert record.getMessage() == "is_enabled of add failed, so the tool is disabled"
    assert str(record.exc_info[1]) == why


def test_the_full_details_of_debug_events():
    """Before a call they are the input and the call, after it the result and the call; they belong to the tool and the call."""
    call = calls("add")[0]
    events, [result] = events_of(Toolset([add]), [call], debug=True)

    assert [event.kind for event in events[::2]] == ["tool:pre", "tool:post"]
    assert [(event.kind, event.data) for event in events[1::2]] == [
        ("tool:pre:debug", {"input": {"a": 0}, "call": call}),
        ("tool:post:debug", {"result": result, "call": call}),
    ]
    assert {(event.tool_name, event.call_id) for event in events} == {("add", "0")}


def test_calls_that_began_before_keep_their_place():
    """`begun` answers by place, and what is left passes through the same gate."""
    order = []

    async def note(what: str) -> str:
        order.append(f"begin {what}")
        await asyncio.sleep(0)
        order.append(f"end {what}")
        return what

    async def go():
        tools = Toolset([FunctionTool(note)], max_concurrency=1)
        gate = asyncio.Semaphore(1)
        calls = [one("note", id=what, what=what) for what in "abc"]

        async def early():
            async with gate:
                return await tools.call(calls[1])

        begun = {1: asyncio.ensure_future(early())}
        await asyncio.sleep(0)
        return await tools.call_all(calls, begun=begun, gate=gate)

    results = asyncio.run(go())

    assert [result.value for result in results] == ["a", "b", "c"]
    assert order == ["begin b", "end b", "begin a", "end a", "begin c", "end c"]


def test_a_call_that_must_not_run_is_answered_between_its_events():
    """`refuse` runs nothing, answers with the error, and emits what any call emits."""
    ran = []
    tool = FunctionTool(lambda: ran.append(1), name="go")
    context, log = heard()

    result = run(Toolset([tool]).refuse(one("go", id="c1"), ToolError("not today"), context))

    assert (result.text, result.error.type, result.call_id) == ("not today", "ToolError", "c1")
    assert ran == []
    assert log.kinds == ["tool:pre", "tool:error"]
