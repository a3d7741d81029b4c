"""Programs of code mode that wait for a person in the middle, in the agent frameworks."""

import asyncio
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from functool import AgentTool, Context, Tool, ToolCall
from functool.integrations import langchain
from functool.layers.journal import Journal
from tests.integrations.bridges import (
    AgentFramework,
    LangChain,
    OpenAIAgents,
    PydanticAI,
)
from tests.integrations.office import Office
from tests.support import ask, call

CODE = "a = await note(text='a')\nb = await pay(amount=7)\nc = await note(text='b')\n[a, b, c]"
TURNS = ([("c1", "run_code", {"code": CODE})], "done")
ANSWER = '"value": ["noted a", "paid 7", "noted b"]'


def yes(name: str, arguments: dict[str, Any]) -> bool:
    """Agree."""
    return True


def in_graph(tool: Tool, context: Any, answer: Any, code: str = CODE) -> tuple[Any, Any]:
    """Run a program in a graph, resume it with `answer(interrupt)`, and return the interrupts and what was read."""
    turns = ([("c1", "run_code", {"code": code})], "done")
    graph = LangChain().agent([langchain.export(tool)], *turns, checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    last = graph.invoke({"messages": [("user", "go")]}, config, context=context)
    asked: list[Any] = []
    while pending := graph.get_state(config).interrupts:
        asked += pending
        resume = Command(resume=answer(pending[0].value))
        last = graph.invoke(resume, config, context=context)
    (read,) = [m.content for m in last["messages"] if isinstance(m, ToolMessage)]
    return asked, read


def by_digest(asked: Any) -> Any:
    """Agree to the very call that was shown."""
    return asked["digest"]


def test_a_program_goes_on_after_an_interrupt() -> None:
    """A graph with a `Context` pauses in mid-program; the digest that was shown lets it go on."""
    office = Office()
    (asked,), read = in_graph(office.tool, Context(), by_digest)

    assert (asked.value["tool"], asked.value["call_id"]) == ("pay", "c1/2")
    assert ANSWER in read
    assert office.done == ["a", 7, "b"]

    office = Office()
    _, read = in_graph(office.tool, Context(), lambda asked: True)
    assert "A person refused" in read
    assert office.done == ["a"]


def test_a_program_goes_on_after_each_interrupt() -> None:
    """A graph pauses for one call of a program after the other, and each answer lets its own call run."""
    office = Office()
    code = "a = await pay(amount=7)\nb = await pay(amount=9)\n[a, b]"
    asked, read = in_graph(office.tool, Context(), by_digest, code)

    assert [each.value["call_id"] for each in asked] == ["c1/1", "c1/2"]
    assert '"value": ["paid 7", "paid 9"]' in read and office.done == [7, 9]


@pytest.mark.parametrize("stream", [False, True])
def test_a_program_goes_on_after_a_deferred_call(stream: bool) -> None:
    """pydantic-ai defers in mid-program; the metadata of the approval lets it go on."""
    office, asked = Office(), []

    def decide(name: str, arguments: dict[str, Any]) -> bool:
        asked.append([*office.done])
        return True

    given = {"deps": Context(), "decide": decide, "stream": stream}
    outcome = asyncio.run(PydanticAI().play([office.tool], *TURNS, **given))

    assert asked == [["a"]]
    assert ANSWER in outcome.of("c1").text
    assert office.done == ["a", 7, "b"]


@pytest.mark.parametrize(
    "bridge",
    [LangChain(), PydanticAI(), OpenAIAgents(), AgentFramework()],
    ids=lambda bridge: bridge.name,
)
def test_a_program_does_not_wait_where_it_would_be_forgotten(bridge: Any) -> None:
    """Without a `Context` the program ends instead of waiting: going on would repeat its effects."""
    office = Office()
    outcome = asyncio.run(bridge.play([office.tool], *TURNS, decide=yes))

    assert outcome.paused == []
    assert "would forget what the program has done" in outcome.of("c1").text
    assert "c1/1 note: done" in outcome.of("c1").text
    assert office.done == ["a"]


def test_a_journal_needs_no_context(tmp_path: Any) -> None:
    """With a journal the program goes on in another context, and each effect comes once."""
    office = Office(journal=Journal(tmp_path / "j"), run="r")
    outcome = asyncio.run(PydanticAI().play([office.tool], *TURNS, decide=yes))
    assert ANSWER in outcome.of("c1").text
    assert office.done == ["a", 7, "b"]

    office = Office(journal=Journal(tmp_path / "k"), run="r")
    _, read = in_graph(office.tool, "ada", by_digest)
    assert ANSWER in read
    assert office.done == ["a", 7, "b"]


@pytest.mark.parametrize(
    "bridge",
    [LangChain(), PydanticAI(), OpenAIAgents(), AgentFramework()],
    ids=lambda bridge: bridge.name,
)
def test_an_approver_is_asked_in_every_framework(bridge: Any) -> None:
    """With an approver in the context nothing pauses, also where a framework asks only before a body."""
    office = Office()
    context = Context(approver=lambda request: request.arguments == {"amount": 7})
    outcome = asyncio.run(bridge.play([office.tool], *TURNS, deps=context))

    assert ANSWER in outcome.of("c1").text
    assert office.done == ["a", 7, "b"]


@pytest.mark.parametrize("bridge", [LangChain(), PydanticAI()], ids=lambda bridge: bridge.name)
@pytest.mark.parametrize("agreed", [True, False])
def test_a_program_of_an_agent_inside_a_tool_goes_on(bridge: Any, agreed: bool) -> None:
    """The pause leaves the agent that stands in a tool; once it is decided, the outer call goes on."""
    office = Office()
    more = {"checkpointer": InMemorySaver()} if bridge.name == "langchain" else {}
    agent = bridge.agent([bridge.export(office.tool)], *TURNS, **more)
    clerk = AgentTool(agent, "clerk", "Ask the clerk.", runner=bridge.runner)
    context = Context(deps=Context())
    waiting = ask(clerk, context)

    assert waiting.error is not None and waiting.error.type == "ApprovalRequired", waiting.text
    request = waiting.metadata["approval"]
    assert (request.tool, request.arguments) == ("pay", {"amount": 7})
    assert office.done == ["a"]
    if agreed:
        context.approve(request)
    else:
        context.deny(request, "not today")
    result = ask(clerk, context)
    assert result.text == "done"
    assert office.done == (["a", 7, "b"] if agreed else ["a"])


def test_a_runner_of_ones_own_passes_the_pause_on() -> None:
    """A runner that hands its context on pauses in mid-program, too, and goes on where it stood."""
    office = Office()

    async def runner(agent: Any, text: str, context: Context) -> Any:
        return await office.tool.invoke(
            ToolCall(name="run_code", arguments={"code": text}, id="i"), context
        )

    clerk = AgentTool("an agent", "clerk", "Ask the clerk.", runner=runner)
    context = Context()
    context.approve(call(clerk, {"input": CODE}, context).metadata["approval"])

    assert ANSWER in call(clerk, {"input": CODE}, context).text
    assert office.done == ["a", 7, "b"]
