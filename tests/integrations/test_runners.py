"""What the runners and the bridges promise alike, beside the scenarios of `test_matrix`."""

import asyncio
import gc
import pickle
import time
import weakref
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("agent_framework", reason="needs tests/requirements/agents.txt")
pytest.importorskip("agents", reason="needs tests/requirements/agents.txt")
pytest.importorskip("langgraph", reason="needs tests/requirements/agents.txt")
pytest.importorskip("pydantic_ai", reason="needs tests/requirements/agents.txt")

from functool import (
    AgentTool,
    ApprovalRequest,
    Context,
    DefinitionError,
    FunctionTool,
    ToolCall,
    Toolset,
    ToolSettings,
)
from functool.approval import Grant
from functool.guardrails import budget, rate_limit, require_approval
from functool.integrations import agent_framework, langchain, openai_agents, pydantic_ai
from functool.layers.catalog import Catalog
from tests.integrations.bridges import BRIDGES, Turn
from tests.integrations.extras import check_missing_extra
from tests.integrations.odd_tools import paying
from tests.support import ask


def play(bridge: Any, *given: Any, **options: Any) -> Any:
    return asyncio.run(bridge.play(*given, **options))


def expert(bridge: Any, *turns: Turn) -> tuple[AgentTool, list[int]]:
    """An agent whose only tool has to be approved, and what that tool paid."""
    paid: list[int] = []
    agent, thread = bridge.threaded([bridge.export(paying(paid))], *turns)
    return AgentTool(agent, "clerk", "d", runner=bridge.runner, thread=lambda context: thread), paid


@pytest.mark.parametrize("listened", [False, True])
def test_pending_approvals_bubble_up_and_resume(bridge: Any, listened: bool) -> None:
    """The sub-agent stops at its tool, the outer result is pending, and after each approval the same call goes on where it was."""
    calls = [("i1", "pay", {"amount": 1}), ("i2", "pay", {"amount": 2})]
    tool, paid = expert(bridge, calls, "all paid")
    context = Context()
    if listened:
        context.subscribe(lambda event: None)

    asked: list[Any] = []
    for _ in range(2):
        pending = ask(tool, context)
        request = ApprovalRequest.from_json(pending.metadata["approval"].to_json())
        asked.append((pending.error.type, request.tool, request.arguments, request.call_id))
        assert paid == []
        context.approve(request)
    last = ask(tool, context)

    assert asked == [("ApprovalRequired", "pay", {"amount": n}, f"i{n}") for n in (1, 2)]
    assert (last.text, sorted(paid)) == ("all paid", [1, 2])
    assert last.metadata["usage"]["requests"] == 2
    assert context.state == {}


def ask_as(tool: AgentTool, context: Context, id: str) -> Any:
    call = ToolCall(name=tool.name, arguments={"input": id}, id=id)
    return asyncio.run(tool.invoke(call, context))


@pytest.mark.parametrize("waits", [False, True])
def test_another_call_uses_the_thread_while_one_waits(bridge: Any, waits: bool) -> None:
    """The first call goes on where it stopped, or says that the other one took its place: no answer belongs to another call."""
    other: Turn = [("i2", "pay", {"amount": 2})] if waits else "second"
    tool, paid = expert(bridge, [("i1", "pay", {"amount": 1})], other, "then", "at last")
    context = Context()
    first, second = ask_as(tool, context, "o1"), ask_as(tool, context, "o2")
    assert (second.text == "second") is not waits
    context.approve(first.metadata["approval"])
    again = ask_as(tool, context, "o1")

    if bridge.name == "langchain" or (bridge.name == "agent-framework" and waits):
        assert again.text.startswith("The agent's conversation has gone on") and paid == []
    else:
        assert (again.text, paid) == ("then", [1])
    if waits:
        context.approve(second.metadata["approval"])
        assert ask_as(tool, context, "o2").success and paid[-1] == 2


class Shop:
    """Dependencies that are no mapping. They can be pickled, as those of a host may."""


def test_a_paused_agent_is_pickled_with_its_context(bridge: Any) -> None:
    """Another process, which loads the context, goes on where the agent stopped, also if the call stops again there."""
    calls = [("i1", "pay", {"amount": 1}), ("i2", "pay", {"amount": 2})]
    tool, paid = expert(bridge, calls, "all paid")
    context, asked = Context(Shop()), []
    while (result := ask(tool, context)).is_error:
        asked.append(result.metadata["approval"].call_id)
        context = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(context))))
        context.approve(result.metadata["approval"])

    assert (asked, result.text, sorted(paid)) == (["i1", "i2"], "all paid", [1, 2])
    assert result.metadata["usage"]["requests"] == 2 and context.state == {}


@pytest.mark.parametrize("in_place", [False, True])
def test_an_agent_in_an_agent_goes_on_where_it_stopped(bridge: Any, in_place: bool) -> None:
    """Nothing that the inner agent has done is done again after an approval, also in another process."""
    if bridge.name in ("openai-agents", "agent-framework"):
        pytest.skip("it cannot pause inside of a tool")
    paid: list[int] = []
    calls = [("i1", "pay", {"amount": 1})], [("i2", "pay", {"amount": 2})]
    clerk = bridge.threaded([bridge.export(paying(paid))], *calls, "all paid")[0]
    inner = AgentTool(clerk, "clerk", "d", runner=bridge.runner)
    boss = bridge.threaded([bridge.export(inner)], [("o1", "clerk", {"input": "go"})], "done")[0]
    outer = AgentTool(boss, "boss", "d", runner=bridge.runner)
    asked: list[str] = []

    def approver(request: ApprovalRequest) -> bool:
        asked.append(request.call_id)
        return True

    context = Context(Shop(), approver=approver if in_place else None)
    while (result := ask(outer, context)).is_error:
        context = pickle.loads(pickle.dumps(context))
        context.deps = Shop()  # The host may make its dependencies anew.
        approver(result.metadata["approval"])
        context.approve(result.metadata["approval"])

    assert (asked, result.text, paid) == (["i1", "i2"], "done", [1, 2])
    assert context.state == {}


def test_a_denial_runs_nothing(bridge: Any) -> None:
    """After a refusal the sub-agent goes on without the call, and its model reads the reason where the framework has a place for it."""
    tool, paid = expert(bridge, [("i1", "pay", {"amount": 1})], "well")
    context = Context()

    context.deny(ask(tool, context).metadata["approval"], "not today")

    assert (ask(tool, context).text, paid) == ("well", [])
    (read,) = bridge.read(tool.agent)
    assert ("not today" in read.text) is (bridge.name != "agent-framework")


def test_approver_of_the_host_is_asked_in_place(bridge: Any) -> None:
    """With an approver the sub-agent does not stop the outer call."""
    tool, paid = expert(bridge, [("i1", "pay", {"amount": 1})], "all paid")
    agreeing = Context(approver=lambda request: request.arguments == {"amount": 1})

    assert ask(tool, agreeing).text == "all paid"
    assert paid == [1]


def test_labels_from_before_an_approval_are_on_the_answer(bridge: Any) -> None:
    """What a sub-agent read before it waited for a person labels the answer that it gives afterwards."""

    @FunctionTool(settings=ToolSettings(untrusted=True))
    async def page() -> str:
        """Return what somebody else wrote."""
        return "x"

    turns = [("i1", "page", {})], [("i2", "pay", {"amount": 1})], "x"
    agent, thread = bridge.threaded([bridge.export(page), bridge.export(paying([]))], *turns)
    tool = AgentTool(agent, "clerk", "d", runner=bridge.runner, thread=lambda context: thread)
    context = Context()
    pending = ask(tool, context)
    context.approve(pending.metadata["approval"])
    last = ask(tool, context)

    assert (last.text, pending.metadata["sources"], last.metadata["sources"]) == (
        "x",
        ["page"],
        ["page"],
    )
    assert {*context.state} == {"functool.agents"}


def test_a_call_that_ends_while_a_person_is_asked_goes_on_later(bridge: Any) -> None:
    """If the outer call is cancelled while an approver decides, the same call goes on there, and nothing runs twice."""
    looked: list[int] = []
    paid: list[int] = []

    @FunctionTool
    async def look() -> str:
        """Look."""
        looked.append(1)
        return "seen"

    turns = [("i1", "look", {})], [("i2", "pay", {"amount": 1})], "done"
    agent, thread = bridge.threaded([bridge.export(look), bridge.export(paying(paid))], *turns)
    tool = AgentTool(agent, "clerk", "d", runner=bridge.runner, thread=lambda context: thread)

    async def main() -> Any:
        asked = asyncio.Event()

        async def think(request: ApprovalRequest) -> bool:
            asked.set()
            await asyncio.Event().wait()
            return False

        context = Context(approver=think)
        call = ToolCall(name="clerk", arguments={"input": "go"}, id="c1")
        task = asyncio.ensure_future(tool.invoke(call, context))
        await asked.wait()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        context.approver = lambda request: True
        return await tool.invoke(call, context)

    assert asyncio.run(main()).text == "done"
    assert (looked, paid) == ([1], [1])


@pytest.mark.parametrize("shared", [False, True])
def test_a_budget_holds_in_a_sub_agent_that_has_the_context(bridge: Any, shared: bool) -> None:
    """With `context.deps = context` a sub-agent's calls come out of the budget of the call around it, as the guide says."""
    ran: list[int] = []
    limit = budget(calls=3)

    @FunctionTool(input_guardrails=[limit])
    async def look() -> str:
        """Look."""
        ran.append(1)
        return "seen"

    turns = [[(f"i{number}", "look", {})] for number in range(6)]
    agent = bridge.agent([bridge.export(look)], *turns, "done")
    tool = AgentTool(agent, "clerk", "d", runner=bridge.runner, input_guardrails=[limit])
    context = Context()
    context.deps = context if shared else None

    assert ask(tool, context).text == "done"
    # Otherwise a run has a context of its own, and in agent-framework each call.
    alone = 6 if bridge.name == "agent-framework" else 3
    assert len(ran) == (2 if shared else alone)


def test_what_another_guardrail_made_of_a_call_runs_only_if_a_person_saw_it(bridge: Any) -> None:
    """A person agrees to the arguments that were shown. Where a framework shows those of the model, changed ones do not run."""
    paid: list[int] = []
    shown: list[int] = []

    def add_fee(call: ToolCall, context: Context) -> ToolCall:
        return replace(call, arguments={"amount": call.arguments["amount"] + 1})

    pay = paying(paid, input_guardrails=[add_fee, require_approval()])
    agent, thread = bridge.threaded([bridge.export(pay)], [("i1", "pay", {"amount": 7})], "well")
    tool = AgentTool(agent, "clerk", "d", runner=bridge.runner, thread=lambda context: thread)

    def agree(request: ApprovalRequest) -> bool:
        shown.append(request.arguments["amount"])
        return True

    assert ask(tool, Context(approver=agree)).text == "well"
    sees_all = bridge.name in ("pydantic-ai", "langchain")
    assert (shown, paid) == (([8], [8]) if sees_all else ([7], []))


@pytest.mark.parametrize("agreed", [True, False])
def test_a_tool_behind_call_tool_can_be_approved(bridge: Any, agreed: bool) -> None:
    """A person is asked once about a call of `call_tool` whose tool has to be approved, and about no other."""
    paid: list[int] = []

    @FunctionTool
    def look() -> str:
        """Look."""
        return "seen"

    fixed = Catalog([paying(paid), look]).fixed()
    first = ("i1", "call_tool", {"name": "look", "arguments": {}})
    second = ("i2", "call_tool", {"name": "pay", "arguments": {"amount": 7}})
    outcome = play(
        bridge, [fixed["call_tool"]], [first], [second], "well", decide=lambda *_: agreed
    )

    # agent-framework asks about every call of a tool that may ask.
    asked = 2 if bridge.name == "agent-framework" else 1
    assert (len(outcome.paused), paid) == (asked, [7] if agreed else [])


@pytest.mark.parametrize("listened", [False, True])
def test_labels_of_the_sub_agents_calls_reach_the_answer(bridge: Any, listened: bool) -> None:
    """What a sub-agent read from an untrusted tool labels its answer, whatever contexts the framework passes."""

    @FunctionTool(settings=ToolSettings(untrusted=True))
    async def page() -> str:
        """Return what somebody else wrote."""
        return "x"

    @FunctionTool
    async def look() -> str:
        """Look."""
        return "x"

    def answer(exported: FunctionTool) -> Any:
        agent = bridge.agent([bridge.export(exported)], [("i1", exported.name, {})], "x")
        context = Context()
        if listened:
            context.subscribe(lambda event: None)
        return ask(AgentTool(agent, "clerk", "d", runner=bridge.runner), context)

    assert answer(page).metadata["sources"] == ["page"]
    assert "sources" not in answer(look).metadata


def test_dependencies_reach_the_tools_of_the_sub_agent(bridge: Any) -> None:
    """The deps of the outer call are those of the sub-agent's run."""

    @FunctionTool
    async def who(context: Context) -> str:
        """Tell."""
        return context.deps

    agent = bridge.agent([bridge.export(who)], [("i1", "who", {})], "done")
    tool = AgentTool(agent, "clerk", "d", runner=bridge.runner)

    assert ask(tool, Context("ada")).text == "done"
    assert [read.text for read in bridge.read(agent)] == ["ada"]


EVENTS = {
    "openai-agents": {"tool_called", "tool_output", "message_output_created"},
    "pydantic-ai": {"function_tool_call", "function_tool_result"},
    "langchain": {"model", "tools"},
    "agent-framework": {"function_call", "function_result", "text"},
}


def test_events_of_the_sub_agent_are_progress(bridge: Any) -> None:
    """While somebody listens, what the framework streams of the inner run is `tool:progress` of the outer call."""

    @FunctionTool
    async def look() -> str:
        """Look."""
        return "x"

    heard: list[Any] = []
    context = Context()
    context.subscribe(heard.append)
    agent = bridge.agent([bridge.export(look)], [("i1", "look", {})], "three")

    assert ask(AgentTool(agent, "clerk", "d", runner=bridge.runner), context).text == "three"
    told = {(event.kind, event.tool_name, event.call_id) for event in heard}
    assert told == {("tool:progress", "clerk", "c1")}
    assert EVENTS[bridge.name] <= {bridge.event(event.data["value"]) for event in heard}


def test_parallel_calls_on_one_thread_take_turns(bridge: Any) -> None:
    """Two calls of one turn on the framework's own thread run one after the other, and the second finds the first."""
    order: list[str] = []

    @FunctionTool
    async def look(n: int) -> str:
        """Look."""
        order.append(f"{n} begins")
        await asyncio.sleep(0)
        order.append(f"{n} ends")
        return str(n)

    turns = [("i1", "look", {"n": 1})], "one", [("i2", "look", {"n": 2})], "two"
    agent, thread = bridge.threaded([bridge.export(look)], *turns)
    tool = AgentTool(agent, "clerk", "d", runner=bridge.runner, thread=lambda context: thread)
    calls = [
        ToolCall(name="clerk", arguments={"input": f"question {n}"}, id=f"c{n}") for n in (1, 2)
    ]
    results = asyncio.run(Toolset([tool]).call_all(calls))

    assert [result.text for result in results] == ["one", "two"]
    assert [result.metadata["usage"]["requests"] for result in results] == [2, 2]
    assert order == ["1 begins", "1 ends", "2 begins", "2 ends"]
    assert bridge.asked(agent, thread) == ["question 1", "question 2"]


def test_contexts_are_forgotten_with_their_run(bridge: Any) -> None:
    """The bridge keeps no context, and so no dependencies, of a run that is over."""

    class Deps:
        pass

    @FunctionTool
    async def noop() -> str:
        """Do nothing."""
        return "x"

    deps = Deps()
    gone = weakref.ref(deps)
    play(bridge, [noop], [("c1", "noop", {})], "done", deps=deps)
    del deps
    # A thread of the framework's may still be ending, and hold what it ran last.
    for _ in range(200):
        gc.collect()
        if gone() is None:
            break
        time.sleep(0.05)

    assert gone() is None


def test_host_context_is_used_as_it_is(bridge: Any) -> None:
    """A functool `Context` as the run's dependencies reaches the body with its state, its deps and its events."""

    @FunctionTool
    async def note(text: str, context: Context) -> str:
        """Note."""
        context.state["note"] = text
        context.progress("noted")
        return str(context.deps)

    heard: list[Any] = []
    host = Context("ada")
    host.subscribe(heard.append)
    outcome = play(bridge, [note], [("c1", "note", {"text": "x"})], "done", deps=host)

    assert (outcome.of("c1").text, host.state) == ("ada", {"note": "x"})
    (event,) = heard
    assert (event.kind, event.tool_name, event.call_id) == ("tool:progress", "note", "c1")
    assert event.data["message"] == "noted"


# In LangChain and agent-framework a context is one call's, unless the host gives one: docs/contexts.md.
@pytest.mark.parametrize("bridge", BRIDGES[:2], ids=lambda bridge: bridge.name)
def test_the_calls_of_a_run_share_one_context(bridge: Any) -> None:
    """State lives as long as a run, and so does a rate limit; another run begins anew."""

    @FunctionTool(input_guardrails=[rate_limit(1, 60, per="context")])
    async def count(context: Context) -> int:
        """Count."""
        context.state["n"] = context.state.get("n", 0) + 1
        return context.state["n"]

    turns = [("c1", "count", {})], [("c2", "count", {})], "done"
    for _ in range(2):
        outcome = play(bridge, [count], *turns, deps={"unhashable": True})

        assert outcome.of("c1").text == "1"
        assert outcome.of("c2").text.startswith("Too many calls: at most 1 in 60 seconds.")


def test_a_time_limit_is_what_the_model_reads(bridge: Any) -> None:
    """A tool whose time is up answers the model, and the run goes on."""

    @FunctionTool(timeout=0.05)
    async def slow() -> str:
        """Wait for ever."""
        await asyncio.Event().wait()
        return "never"

    outcome = play(bridge, [slow], [("c1", "slow", {})], "done")

    assert "0.05" in outcome.of("c1").text and outcome.final == "done"


def test_two_pending_approvals_have_their_own_answers(bridge: Any) -> None:
    """Two calls of one turn that wait for approval are answered each by its own."""
    paid: list[int] = []
    calls = [("c1", "pay", {"amount": 1}), ("c2", "pay", {"amount": 2})]
    outcome = play(
        bridge, [paying(paid)], calls, "done", decide=lambda name, given: given["amount"] == 2
    )

    assert paid == [2]
    assert outcome.of("c2").text == "paid 2" and "paid" not in outcome.of("c1").text
    assert outcome.final == "done"


# agent-framework asks by itself, before functool sees the call: `approval_rule` tells it of grants.
asks_the_tool = pytest.mark.parametrize(
    "bridge",
    [bridge for bridge in BRIDGES if bridge.name != "agent-framework"],
    ids=lambda bridge: bridge.name,
)


@asks_the_tool
def test_the_approver_of_a_hosts_context_is_asked_in_place(bridge: Any) -> None:
    """With a functool `Context` that has an approver the run does not pause."""
    paid: list[int] = []
    asked: list[Any] = []
    host = Context(approver=lambda request: asked.append(request.arguments) is None)
    outcome = play(bridge, [paying(paid)], [("c1", "pay", {"amount": 1})], "done", deps=host)

    assert (outcome.final, outcome.paused) == ("done", [])
    assert paid == [1] and asked == [{"amount": 1}]


@asks_the_tool
def test_a_grant_of_the_context_lets_its_calls_run(bridge: Any) -> None:
    """A call that a grant covers does not pause the run, and uses the grant up; another call does, and the same one again."""
    paid: list[int] = []
    pay, context = paying(paid), Context()
    context.grant(Grant.of(pay, {"amount": 1}))
    turns = (
        [("c1", "pay", {"amount": 1}), ("c2", "pay", {"amount": 2})],
        [("c3", "pay", {"amount": 1})],
    )
    outcome = play(bridge, [pay], *turns, "done", deps=context, decide=lambda *_: False)

    assert outcome.paused == [("pay", {"amount": 2}), ("pay", {"amount": 1})]
    assert (paid, context.grants()) == ([1], [])


@FunctionTool(settings=ToolSettings(is_enabled=lambda context: context.deps == "ada"))
async def secret() -> str:
    """Tell."""
    return "x"


def test_a_disabled_tool_does_not_run(bridge: Any) -> None:
    """A tool that is switched off in the run's context is not shown to the model, or says so where the framework shows it always."""
    if bridge.name in ("openai-agents", "pydantic-ai"):
        shown = [play(bridge, [secret], "done", deps=user) for user in ("ada", "bob")]
        assert [list(outcome.declared) for outcome in shown] == [["secret"], []]
    else:
        turns = [("c1", "secret", {})], "done"
        ada, bob = (play(bridge, [secret], *turns, deps=user).of("c1") for user in ("ada", "bob"))
        assert (ada.text, bob.text) == ("x", "The tool 'secret' is disabled.")


@pytest.mark.parametrize(
    "module",
    [openai_agents, pydantic_ai, langchain, agent_framework],
    ids=lambda module: module.__name__,
)
def test_export_all_keeps_order(module: Any) -> None:
    """Each of some tools is exported, in its order: of a toolset, an iterable, or one tool alone."""
    tools = [FunctionTool(lambda x: x, name=name, description="d") for name in ("b", "a")]

    for some in (Toolset(tools), tools, iter(tools)):
        assert [tool.name for tool in module.export_all(some)] == ["b", "a"]
    assert [tool.name for tool in module.export_all(tools[0])] == ["b"]
    with pytest.raises(DefinitionError, match="two tools are named 'b'"):
        module.export_all([tools[0], tools[0]])


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [
        ("openai_agents", "agents", "openai-agents"),
        ("pydantic_ai", "pydantic_ai", "pydantic-ai"),
        ("pydantic_ai_runner", "pydantic_ai", "pydantic-ai"),
        ("pydantic_ai_agreed", "pydantic_ai", "pydantic-ai"),
        ("langchain", "langgraph", "langchain"),
        ("langchain_runner", "langgraph", "langchain"),
        ("langchain_asking", "langgraph", "langchain"),
        ("langchain_artifact", "langgraph", "langchain"),
        ("agent_framework", "agent_framework", "agent-framework"),
        ("agent_framework_runner", "agent_framework", "agent-framework"),
    ],
)
def test_a_missing_package_names_the_extra(
    module: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its package an integration raises ImportError with the command that installs it."""
    check_missing_extra(module, package, extra, monkeypatch)
