"""What the runners and the bridges promise alike, beside the scenarios of `test_matrix`."""

import asyncio
import gc
import time
import weakref
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
    ToolResult,
    Toolset,
)
from functool.guardrails import require_approval
from functool.integrations import agent_framework, langchain, openai_agents, pydantic_ai
from tests.integrations.bridges import BRIDGES, Turn
from tests.integrations.extras import check_missing_extra

each_bridge = pytest.mark.parametrize("bridge", BRIDGES, ids=lambda bridge: bridge.name)


def expert(bridge: Any, *turns: Turn) -> tuple[AgentTool, list[int]]:
    """An agent whose only tool has to be approved, and what that tool paid."""
    paid: list[int] = []

    @FunctionTool(input_guardrails=[require_approval()])
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return f"paid {amount}"

    agent, thread = bridge.threaded([bridge.export(pay)], *turns)
    return AgentTool(agent, "clerk", "d", runner=bridge.runner, thread=lambda context: thread), paid


def ask(tool: AgentTool, context: Context) -> ToolResult:
    return asyncio.run(
        tool.invoke(ToolCall(name="clerk", arguments={"input": "hi"}, id="c1"), context)
    )


@each_bridge
@pytest.mark.parametrize("listened", [False, True])
def test_pending_approvals_bubble_up_and_resume(bridge: Any, listened: bool) -> None:
    """The sub-agent stops at its tool, the outer result is pending, and after each approval the same call goes on where it was."""
    tool, paid = expert(
        bridge, [("i1", "pay", {"amount": 1}), ("i2", "pay", {"amount": 2})], "all paid"
    )
    context = Context()
    if listened:
        context.subscribe(lambda event: None)

    asked: list[Any] = []
    for _ in range(2):
        pending = ask(tool, context)
        request = ApprovalRequest.from_json(pending.metadata["approval"].to_json())
        asked.append(
            (pending.error.type, request.tool, request.arguments, request.call_id, list(paid))
        )
        context.approve(request)
    last = ask(tool, context)

    assert asked == [("ApprovalRequired", "pay", {"amount": n}, f"i{n}", []) for n in (1, 2)]
    assert (last.text, sorted(paid)) == ("all paid", [1, 2])
    assert last.metadata["usage"]["requests"] == 2
    assert context.state == {}


@each_bridge
def test_a_denial_runs_nothing(bridge: Any) -> None:
    """After a refusal the sub-agent goes on without the call."""
    tool, paid = expert(bridge, [("i1", "pay", {"amount": 1})], "well")
    context = Context()

    context.deny(ask(tool, context).metadata["approval"], "not today")

    assert (ask(tool, context).text, paid) == ("well", [])


@each_bridge
def test_approver_of_the_host_is_asked_in_place(bridge: Any) -> None:
    """With an approver the sub-agent does not stop the outer call."""
    tool, paid = expert(bridge, [("i1", "pay", {"amount": 1})], "all paid")

    assert (
        ask(tool, Context(approver=lambda request: request.arguments == {"amount": 1})).text
        == "all paid"
    )
    assert paid == [1]


@each_bridge
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

    agent, thread = bridge.threaded(
        [bridge.export(look)], [("i1", "look", {"n": 1})], "one", [("i2", "look", {"n": 2})], "two"
    )
    tool = AgentTool(agent, "clerk", "d", runner=bridge.runner, thread=lambda context: thread)
    calls = [
        ToolCall(name="clerk", arguments={"input": f"question {n}"}, id=f"c{n}") for n in (1, 2)
    ]
    results = asyncio.run(Toolset([tool]).call_all(calls))

    assert [result.text for result in results] == ["one", "two"]
    assert [result.metadata["usage"]["requests"] for result in results] == [2, 2]
    assert order == ["1 begins", "1 ends", "2 begins", "2 ends"]
    assert bridge.asked(agent, thread) == ["question 1", "question 2"]


@each_bridge
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
    asyncio.run(bridge.play([noop], [("c1", "noop", {})], "done", deps=deps))
    del deps
    # A thread of the framework's may still be ending, and hold what it ran last.
    for _ in range(200):
        gc.collect()
        if gone() is None:
            break
        time.sleep(0.05)

    assert gone() is None


@each_bridge
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
    outcome = asyncio.run(bridge.play([note], [("c1", "note", {"text": "x"})], "done", deps=host))

    assert (outcome.of("c1").text, host.state) == ("ada", {"note": "x"})
    assert [
        (event.kind, event.tool_name, event.call_id, event.data["message"]) for event in heard
    ] == [("tool:progress", "note", "c1", "noted")]


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
        ("langchain", "langgraph", "langchain"),
        ("langchain_runner", "langgraph", "langchain"),
        ("agent_framework", "agent_framework", "agent-framework"),
        ("agent_framework_runner", "agent_framework", "agent-framework"),
    ],
)
def test_a_missing_package_names_the_extra(
    module: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its package an integration raises ImportError with the command that installs it."""
    check_missing_extra(module, package, extra, monkeypatch)
