"""In LangGraph, a person's answer reaches the call that was shown, whatever asks when the graph resumes."""

import asyncio
import gc
import threading
import weakref
from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("langgraph", reason="needs tests/requirements/agents.txt")
pytest.importorskip("agents", reason="needs tests/requirements/agents.txt")

from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphInterrupt
from langgraph.graph import MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command

from functool import ApprovalRequest, Context, FunctionTool, ToolCall, ToolResult, Toolset
from functool.guardrails import require_approval
from functool.integrations import langchain, langchain_asking
from functool.layers.journal import Journal
from tests.integrations.bridges import LangChain
from tests.integrations.odd_tools import paying

bridge = LangChain()
CONFIG: Any = {"configurable": {"thread_id": "1"}}
GO: Any = {"messages": [("user", "go")]}


def node_of(*tools: Any) -> Any:
    """A graph whose `ToolNode` runs all calls of a turn in one task, as hand-made graphs do."""
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([langchain.export(tool) for tool in tools]))
    graph.set_entry_point("tools")
    return graph.compile(checkpointer=InMemorySaver())


def turn(*amounts: int) -> Any:
    """A message that calls `pay` once for each amount."""
    calls = [{"id": f"c{n}", "name": "pay", "args": {"amount": n}} for n in amounts]
    return {"messages": [AIMessage("", tool_calls=calls)]}


def asked(graph: Any) -> list[Any]:
    """The amounts about which a graph asks a person."""
    return [item.value["arguments"]["amount"] for item in graph.get_state(CONFIG).interrupts]


def read(graph: Any) -> dict[str, str]:
    """What the model reads of each call."""
    messages = graph.get_state(CONFIG).values["messages"]
    return {m.tool_call_id: m.content for m in messages if isinstance(m, ToolMessage)}


@pytest.mark.parametrize("by_digest", [False, True])
def test_an_answer_goes_to_the_call_that_was_shown(by_digest: bool) -> None:
    """Calls of one task may ask in another order after a resume: the answer is for the one that was shown, and the other is asked about."""
    paid: list[int] = []
    execution = 0
    gates: Any = defaultdict(asyncio.Event)

    async def in_turn(call: ToolCall, context: Context) -> None:
        await gates[execution, call.arguments["amount"]].wait()

    graph = node_of(paying(paid, input_guardrails=[in_turn, require_approval()]))

    async def go(given: Any, *first: int) -> tuple[list[Any], list[int]]:
        nonlocal execution
        execution += 1
        for amount in first:
            gates[execution, amount].set()
        await graph.ainvoke(given, CONFIG)
        return asked(graph), [*paid]

    async def main() -> None:
        assert await go(turn(7, 7000), 7) == ([7], [])
        shown = graph.get_state(CONFIG).interrupts[0].value["digest"]
        agreed = Command(resume=shown if by_digest else True)
        assert await go(agreed, 7000) == ([7000], [])
        # The first execution's call is still there. It must not disturb the later ones.
        gates[1, 7000].set()
        await asyncio.sleep(0)
        assert await go(Command(resume="not that much"), 7, 7000) == ([], [7])

    asyncio.run(main())
    assert read(graph) == {"c7": "paid 7", "c7000": "A person refused this call: not that much"}


@pytest.mark.parametrize("changed", [False, True])
def test_a_refusal_in_a_task_of_several_calls_counts_without_a_question(changed: bool) -> None:
    """The condition asks no more when the graph resumes: each answer still decides about the call that was shown."""
    paid: list[int] = []
    asking = [True]

    def double(call: ToolCall, context: Context) -> ToolCall | None:
        more = {"amount": call.arguments["amount"] * 2}
        return replace(call, arguments=more) if changed else None

    ask = require_approval(lambda call, context: asking[0])
    graph = node_of(paying(paid, input_guardrails=[double, ask]))
    graph.invoke(turn(1, 2), CONFIG)
    first = asked(graph)
    graph.invoke(Command(resume=False), CONFIG)
    second = asked(graph)
    asking[:] = [False]
    graph.invoke(Command(resume="not that"), CONFIG)

    assert sorted(first + second) == ([2, 4] if changed else [1, 2])
    assert (asked(graph), paid) == ([], [])
    told = sorted(read(graph).values())
    assert told == ["A person refused this call.", "A person refused this call: not that"]


def test_an_edit_counts_without_a_question() -> None:
    """What a person wrote runs, although the condition would not ask about the call any more."""
    paid: list[int] = []
    asking = [True]
    ask = require_approval(lambda call, context: asking[0])
    graph = node_of(paying(paid, input_guardrails=[ask]))
    graph.invoke(turn(1), CONFIG)
    asking[:] = [False]
    edited = {"name": "pay", "args": {"amount": 5}}
    graph.invoke(Command(resume={"type": "edit", "edited_action": edited}), CONFIG)

    assert paid == [5]


def test_a_refusal_counts_beside_a_call_that_asks_again() -> None:
    """One call of a task was changed before it asked, so it asks again. The refusal of the other one, whose condition asks no more, still stands."""
    paid: list[int] = []
    asking = [True]

    def double(call: ToolCall, context: Context) -> ToolCall | None:
        amount = call.arguments["amount"]
        return replace(call, arguments={"amount": 8}) if amount == 4 else None

    ask = require_approval(lambda call, context: asking[0] or call.arguments["amount"] == 8)
    graph = node_of(paying(paid, input_guardrails=[double, ask]))

    async def main() -> None:
        given: Any = turn(4, 5)
        for _ in range(2):
            await graph.ainvoke(given, CONFIG)
            given = Command(resume=asked(graph) == [8])
        asking[:] = [False]
        await graph.ainvoke(given, CONFIG)

    asyncio.run(main())
    assert asked(graph) == [] and {*paid} == {8}


def test_threads_of_one_task_show_the_call_that_is_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of calls on several threads LangGraph shows the first of the turn, although another one asked first: both show the same."""
    paid: list[int] = []
    has_asked = threading.Event()

    def second(call: ToolCall, context: Context) -> None:
        if call.arguments["amount"] == 7:
            assert has_asked.wait(20)

    def interrupt(question: Any) -> Any:
        try:
            return real(question)
        finally:
            has_asked.set()

    real = langchain_asking.interrupt
    monkeypatch.setattr(langchain_asking, "interrupt", interrupt)
    graph = node_of(paying(paid, input_guardrails=[second, require_approval()]))
    steps = []
    for given in (turn(7, 7000), Command(resume=True), Command(resume=False)):
        graph.invoke(given, CONFIG)
        steps.append(asked(graph))

    assert steps == [[7000], [7], []]
    assert set(paid) == {7000}
    assert read(graph) == {"c7": "A person refused this call.", "c7000": "paid 7000"}


def drifting(paid: list[int], drift: list[int]) -> FunctionTool:
    """A tool with a guardrail that is not deterministic: it adds the next number of `drift`, or the last."""

    def add(call: ToolCall, context: Context) -> ToolCall:
        number = drift.pop(0) if len(drift) > 1 else drift[0]
        return replace(call, arguments={"amount": call.arguments["amount"] + number})

    return paying(paid, input_guardrails=[add, require_approval()])


def played(tool: FunctionTool, *answers: Any) -> tuple[Any, list[Any]]:
    """Answer the interrupts of an agent that pays 7. Return the agent's graph and what was asked."""
    graph = bridge.agent(
        [langchain.export(tool)],
        [("c1", "pay", {"amount": 7})],
        "done",
        checkpointer=InMemorySaver(),
    )

    async def main() -> list[Any]:
        await graph.ainvoke(GO, CONFIG)
        questions = []
        for answer in answers:
            [question] = graph.get_state(CONFIG).interrupts
            questions.append(question.value["arguments"]["amount"])
            digest = question.value["digest"]
            given = answer(digest) if callable(answer) else answer
            await graph.ainvoke(Command(resume=given), CONFIG)
        return [*questions, *asked(graph)]

    return graph, asyncio.run(main())


AGREE = [
    True,
    {"type": "approve"},
    lambda digest: digest,
    lambda digest: {"type": "approve", "digest": digest},
]


@pytest.mark.parametrize("answer", AGREE)
def test_a_call_that_changed_since_it_was_shown_is_asked_about_again(answer: Any) -> None:
    """A person agrees to what was shown; what a guardrail has made of the call since runs once it was shown too."""
    paid: list[int] = []
    graph, questions = played(drifting(paid, [1, 2, 3]), answer, answer)

    assert (questions, paid) == ([8, 9, 10], [])
    graph, questions = played(drifting(paid, [1, 2]), answer, answer)
    assert (questions, paid, read(graph)) == ([8, 9], [9], {"c1": "paid 9"})


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (False, "."),
        ("no", ": no"),
        (lambda digest: {"type": "reject", "message": "no", "digest": digest}, ": no"),
    ],
)
def test_a_refusal_is_about_the_call_whatever_it_has_become(answer: Any, reason: str) -> None:
    """Whoever refuses a call is not asked again, although a guardrail changes it each time."""
    paid: list[int] = []
    graph, questions = played(drifting(paid, [1, 2, 3, 4, 5]), answer)

    assert (questions, paid) == ([8], [])
    assert read(graph) == {"c1": f"A person refused this call{reason}"}


@pytest.mark.parametrize("stale", ["0" * 64, "a page that is old"])
def test_an_approval_with_another_digest_approves_nothing(stale: str) -> None:
    """A page that still shows an earlier question sends the digest of that call."""
    paid: list[int] = []
    graph, questions = played(
        paying(paid, input_guardrails=[require_approval()]), {"type": "approve", "digest": stale}
    )

    assert (questions, paid, read(graph)) == ([7], [], {"c1": "A person refused this call."})


def test_an_edit_is_about_the_call_whatever_it_has_become() -> None:
    """The arguments that a person wrote run, although a guardrail has changed the call since it was shown."""
    paid: list[int] = []
    numbers = [1, 2]

    def add(call: ToolCall, context: Context) -> ToolCall | None:
        if context.decision is not None:  # What a person wrote stays.
            return None
        number = numbers.pop(0) if len(numbers) > 1 else numbers[0]
        return replace(call, arguments={"amount": call.arguments["amount"] + number})

    tool = paying(paid, input_guardrails=[add, require_approval()])
    edit = {"type": "edit", "edited_action": {"args": {"amount": 3}}}
    graph, questions = played(tool, edit)

    assert (questions, paid) == ([8], [3])
    assert read(graph)["c1"].endswith("`amount` to 3.\npaid 3")


def test_after_a_restart_the_digest_is_what_binds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is remembered, True approves the call as it is now, and a digest only what was shown, as the guide says."""
    monkeypatch.setattr(langchain_asking, "REMEMBERED", 0)
    paid: list[int] = []
    _, questions = played(drifting(paid, [1, 2]), True)

    assert (questions, paid) == ([8], [9])
    _, questions = played(drifting(paid, [1, 2]), lambda digest: digest, lambda digest: digest)
    assert (questions, paid) == ([8, 9], [9, 9])


def test_an_inner_agent_with_the_id_of_the_outer_call_is_no_call_of_the_graph(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """True does not answer for a call inside the tool, whichever id the inner agent chooses for it."""
    paid: list[int] = []
    inner = Toolset([paying(paid)])

    @FunctionTool
    async def expert(context: Context) -> Any:
        """Ask an expert."""
        return await inner.call(ToolCall(name="pay", arguments={"amount": 7}, id="c1"), context)

    graph = bridge.agent(
        [langchain.export(expert)], [("c1", "expert", {})], "done", checkpointer=InMemorySaver()
    )
    asyncio.run(graph.ainvoke(GO, CONFIG))
    asyncio.run(graph.ainvoke(Command(resume=True), CONFIG))

    assert paid == []


@pytest.mark.parametrize(
    ("answer", "read"),
    [
        (True, "."),
        (False, "."),
        ("no", ": no"),
        (lambda digest: digest, "."),
        (lambda digest: {"type": "approve", "digest": digest}, "."),
        (lambda digest: {"type": "reject", "message": "no", "digest": digest}, ": no"),
        ({"type": "edit", "edited_action": {"args": {"amount": 1}}}, "."),
    ],
)
def test_an_inner_agent_that_asks_anew_is_answered_once(answer: Any, read: str) -> None:
    """An agent in a tool begins again, and its model chooses another id: the answer refuses its new call, and nobody is asked forever."""
    paid: list[int] = []
    ids = iter(range(9))
    inner = Toolset([paying(paid)])

    @FunctionTool
    async def expert(context: Context) -> Any:
        """Ask an expert."""
        number = context.state.setdefault("id", next(ids))  # As long as the agent is not new.
        call = ToolCall(name="pay", arguments={"amount": 7}, id=f"i{number}")
        return await inner.call(call, context)

    graph = node_of(expert)
    calls = [{"id": "c1", "name": "expert", "args": {}}]
    graph.invoke({"messages": [AIMessage("", tool_calls=calls)]}, CONFIG)
    [question] = graph.get_state(CONFIG).interrupts
    given = answer(question.value["digest"]) if callable(answer) else answer
    graph.invoke(Command(resume=given), CONFIG)

    assert (asked(graph), paid) == ([], [])
    assert graph.get_state(CONFIG).values["messages"][-1].content == (
        f"A person refused this call{read}"
    )


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("first", [True, False])
def test_each_call_of_an_inner_agent_gets_its_own_answer(beside: bool, first: bool) -> None:
    """An agent in a tool asks about one call after the other: no answer is taken for that of another call."""
    paid: list[int] = []
    inner = Toolset([paying(paid)])

    @FunctionTool
    async def expert(context: Context) -> Any:
        """Ask an expert."""
        done = context.state.setdefault("done", [])
        for amount in [7, 9][len(done) :]:
            call = ToolCall(name="pay", arguments={"amount": amount}, id=f"i{amount}")
            result = await inner.call(call, context)
            if "approval" in result.metadata:
                return result
            done.append(amount)
        return "done"

    graph, context = node_of(paying([]), expert), Context()
    calls = turn(*[1] * beside)["messages"][0].tool_calls
    calls += [{"id": "c", "name": "expert", "args": {}, "type": "tool_call"}]
    given: Any = {"messages": [AIMessage("", tool_calls=calls)]}
    questions: list[int] = []
    while len(questions) < 9:
        graph.invoke(given, CONFIG, context=context)
        if not (waiting := graph.get_state(CONFIG).interrupts):
            break
        questions += asked(graph)
        refused = asked(graph) == [7] and not first
        given = Command(resume="no" if refused else waiting[0].value["digest"])

    assert read(graph)["c"] == "done"
    assert {*paid} == ({7, 9} if first else {9})
    assert sorted(questions) == [*[1] * beside, 7, 9]


def test_only_a_call_that_waits_interrupts() -> None:
    """A result may have anything under `approval` in its metadata. Its call ran, and runs once."""
    ran: list[str] = []

    @FunctionTool
    async def look() -> ToolResult:
        """Look at what waits elsewhere."""
        ran.append("look")
        return ToolResult.of("x", metadata={"approval": ApprovalRequest.of("t", "d", {}, "c9")})

    outcome = asyncio.run(bridge.play([look], [("c1", "look", {})], "done"))

    assert (outcome.paused, ran, outcome.of("c1").text) == ([], ["look"], "x")


def test_a_journal_runs_a_call_of_an_interrupted_task_once(tmp_path: Any) -> None:
    """LangGraph runs all calls of an interrupted task again; with a journal a call that has ended gives its answer."""
    paid: list[int] = []
    journal = Journal(tmp_path / "journal.db")
    graph = node_of(*journal.once([paying(paid)], run="r1"))
    graph.invoke(turn(1, 2), CONFIG)
    while asked(graph):
        graph.invoke(Command(resume=True), CONFIG)

    assert sorted(paid) == [1, 2]
    assert read(graph) == {"c1": "paid 1", "c2": "paid 2"}


def test_nothing_of_an_interrupted_run_is_kept() -> None:
    """What is remembered for the answer holds neither the run's dependencies nor the arguments."""

    class Deps:
        pass

    deps = Deps()
    gone = weakref.ref(deps)
    graph = node_of(paying([]))
    graph.invoke(turn(1), CONFIG, context=deps)
    assert asked(graph) == [1]
    del deps, graph
    gc.collect()

    assert gone() is None


def test_the_oldest_task_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only so many tasks are remembered; the latest ones bind their answers."""
    monkeypatch.setattr(langchain_asking, "REMEMBERED", 1)
    paid: list[int] = []
    tools = [drifting(paid, [1, 2]) for _ in range(2)]
    graphs = [node_of(tool) for tool in tools]
    for graph in graphs:
        graph.invoke(turn(7), CONFIG)
    for graph in reversed(graphs):
        graph.invoke(Command(resume=True), CONFIG)

    assert [asked(graph) for graph in graphs] == [[], [9]]
    assert paid == [9]


def test_outside_of_a_graph_nobody_is_interrupted() -> None:
    """Without a graph there is no runtime, and LangGraph's own error says so."""
    request = ApprovalRequest.of("t", "d", {}, "c1")

    assert langchain_asking.runtime_of_graph() is None
    with pytest.raises((RuntimeError, GraphInterrupt)):
        langchain_asking.ask_person(request, ToolCall(name="t", id="c1"), own=True)
