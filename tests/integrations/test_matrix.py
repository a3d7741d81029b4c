"""Twelve scenarios, the same over every bridge, each inside the framework's own agent loop.

`python -m tests.integrations.test_matrix` prints which hold. A cell of `LIMITS` is one that a framework cannot do: it carries the reason
and the version, and its test shows the limit.
"""

import asyncio
import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

pytest.importorskip("agent_framework", reason="needs tests/requirements/agents.txt")
pytest.importorskip("agents", reason="needs tests/requirements/agents.txt")
pytest.importorskip("langgraph", reason="needs tests/requirements/agents.txt")
pytest.importorskip("pydantic_ai", reason="needs tests/requirements/agents.txt")

from functool import (
    AgentTool,
    ApprovalRequired,
    Context,
    FunctionTool,
    GuardrailError,
    ImageContent,
    ToolCall,
    ToolError,
    ToolResult,
    Toolset,
    Tripwire,
)
from functool.dialects._subset import violations
from functool.guardrails import redact, require_approval
from tests.integrations.bridges import BRIDGES, Outcome
from tests.integrations.odd_tools import PNG, stopped
from tests.support import ask


class Unit(str, Enum):
    C = "celsius"
    F = "fahrenheit"


class Place(BaseModel):
    city: str
    country: str = "CH"


@dataclass
class Deps:
    user: str


async def schema(bridge: Any) -> None:
    """The model is shown the tool's own name, description and schema."""

    @FunctionTool
    async def weather(city: Annotated[str, "Name of the city."], days: int = 1) -> str:
        """Forecast the weather."""
        return city

    outcome: Outcome = await bridge.play([weather], "done")

    shown = outcome.declared["weather"]
    assert shown["description"] == "Forecast the weather."
    assert shown["parameters"] == weather.schema.parameters
    assert shown["parameters"]["required"] == ["city"]


async def strict(bridge: Any) -> None:
    """A strict tool is shown in its strict form, and what strict mode encoded is decoded before the body."""
    seen: list[Any] = []

    @FunctionTool(strict=True)
    async def tag(labels: dict[str, int], limit: int = 5) -> str:
        """Tag things."""
        seen.append((labels, limit))
        return "ok"

    arguments = {"labels": [{"key": "a", "value": 1}], "limit": None}
    outcome = await bridge.play([tag], [("c1", "tag", arguments)], "done")

    shown = outcome.declared["tag"]
    assert shown["parameters"]["required"] == ["labels", "limit"]
    assert violations(shown["parameters"]) == []
    assert shown["strict"] is True
    assert seen == [({"a": 1}, 5)]
    assert outcome.of("c1").text == "ok"


async def typed(bridge: Any) -> None:
    """The body receives what its annotations say: a date, a member of an enum, a model."""
    seen: list[Any] = []

    @FunctionTool
    async def plan(day: date, unit: Unit, place: Place, config: str = "c") -> dict[str, Any]:
        """Plan a day."""
        seen.append((day, unit, place, config))
        return {"day": day}

    arguments = {"day": "2026-11-21", "unit": "celsius", "place": {"city": "Bern"}, "config": "x"}
    outcome = await bridge.play([plan], [("c1", "plan", arguments)], "done")

    assert seen == [(date(2026, 11, 21), Unit.C, Place(city="Bern"), "x")]
    assert json.loads(outcome.of("c1").text) == {"day": "2026-11-21"}
    assert outcome.final == "done"


async def invalid(bridge: Any) -> None:
    """Arguments that do not fit run no body; the model reads what is wrong, and its second try runs."""
    seen: list[int] = []

    @FunctionTool
    async def double(number: int) -> int:
        """Double a number."""
        seen.append(number)
        return number * 2

    turns = [("c1", "double", {"numbr": 4})], [("c2", "double", {"number": 4})], "done"
    outcome = await bridge.play([double], *turns)

    assert seen == [4]
    assert "Invalid arguments" in outcome.of("c1").text and "number" in outcome.of("c1").text
    assert outcome.of("c2").text == "8"
    assert outcome.final == "done"


async def refused(bridge: Any) -> None:
    """The model reads the refusal of an input guardrail, the body does not run, and the run goes on."""
    seen: list[str] = []

    async def no_etc(call: ToolCall, context: Context) -> None:
        if str(call.arguments["path"]).startswith("/etc"):
            raise GuardrailError("Paths below /etc are off limits.")

    @FunctionTool(input_guardrails=[no_etc])
    async def read(path: str) -> str:
        """Read a file."""
        seen.append(path)
        return "text"

    calls = [("c1", "read", {"path": "/etc/passwd"}), ("c2", "read", {"path": "/tmp/a"})]
    outcome = await bridge.play([read], calls, "done")

    assert seen == ["/tmp/a"]
    assert outcome.of("c1").text == "Paths below /etc are off limits."
    assert outcome.of("c2").text == "text"
    assert outcome.final == "done"


async def failed(bridge: Any) -> None:
    """The model reads why a body failed, and an output guardrail has seen it first; siblings and the run go on."""

    @FunctionTool(output_guardrails=[redact([r"sk-\w+"])])
    async def charge(amount: int) -> str:
        """Charge a card."""
        if amount > 10:
            raise ToolError("The key sk-123 has no such limit.")
        return "charged with sk-456"

    calls = [("c1", "charge", {"amount": 11}), ("c2", "charge", {"amount": 1})]
    outcome = await bridge.play([charge], calls, "done")

    assert "sk-" not in outcome.of("c1").text and "has no such limit." in outcome.of("c1").text
    assert "sk-" not in outcome.of("c2").text and outcome.of("c2").text.startswith("charged with ")
    assert outcome.final == "done"


def _payment(seen: list[int]) -> FunctionTool:
    @FunctionTool(input_guardrails=[require_approval()])
    async def pay(amount: int, currency: str = "CHF") -> str:
        """Pay somebody."""
        seen.append(amount)
        return f"paid {amount} {currency}"

    return pay


PAYING: Any = ([("c1", "pay", {"amount": 7})], "done")


async def approved(bridge: Any) -> None:
    """A call that needs a person pauses the run before the body; after the approval the body runs once, and the run goes on."""
    seen: list[int] = []
    asked: list[Any] = []

    def decide(name: str, arguments: dict[str, Any]) -> bool:
        asked.append((name, arguments["amount"], list(seen)))
        return True

    outcome = await bridge.play([_payment(seen)], *PAYING, decide=decide)

    assert asked == [("pay", 7, [])]
    assert seen == [7]
    assert outcome.of("c1").text == "paid 7 CHF"
    assert outcome.final == "done"


async def denied(bridge: Any) -> None:
    """After a refusal the body does not run, the model reads the person's reason, and the run goes on."""
    seen: list[int] = []
    outcome = await bridge.play([_payment(seen)], *PAYING, decide=lambda *_: "Too much, says Ada.")

    assert seen == []
    assert "Too much, says Ada." in outcome.of("c1").text
    assert outcome.final == "done"


async def parallel(bridge: Any) -> None:
    """The calls of one turn run at the same time, and each answer goes to its own call."""
    together = asyncio.Barrier(3)

    @FunctionTool
    async def meet(name: str) -> str:
        """Wait for the others."""
        async with asyncio.timeout(20):
            await together.wait()
        return f"met {name}"

    calls = [(f"c{n}", "meet", {"name": name}) for n, name in enumerate("abc")]
    outcome = await bridge.play([meet], calls, "done")

    read = {read.call_id: read.text for read in outcome.read}
    assert read == {"c0": "met a", "c1": "met b", "c2": "met c"}


async def streamed(bridge: Any) -> None:
    """In a streamed run the tool answers as ever, and what it says of its progress reaches the framework's own stream."""

    @FunctionTool
    def slow(context: Context) -> str:
        """Take a while."""
        context.progress("half way", done=1, total=2)
        return "there"

    outcome = await bridge.play([slow], [("c1", "slow", {})], "done", stream=True)

    assert outcome.of("c1").text == "there"
    assert outcome.final == "done"
    assert any("half way" in str(item) and "c1" in str(item) for item in outcome.streamed)


async def image(bridge: Any) -> None:
    """The model sees an image that a tool returns, beside its text."""

    @FunctionTool
    async def draw() -> list[Any]:
        """Draw something."""
        return ["a dot", ImageContent(data=PNG)]

    outcome = await bridge.play([draw], [("c1", "draw", {})], "done")

    assert outcome.of("c1").images == [PNG]
    assert outcome.of("c1").text == "a dot"


async def context(bridge: Any) -> None:
    """The body finds the run's dependencies and the id of its call in the `Context`, which the model does not see."""
    seen: list[Any] = []

    @FunctionTool
    async def whoami(context: Context[Deps]) -> str:
        """Tell who asks."""
        assert context.call is not None
        seen.append((context.deps.user, context.call.id))
        return context.deps.user

    calls = [("c1", "whoami", {}), ("c2", "whoami", {})]
    outcome = await bridge.play([whoami], calls, "done", deps=Deps("ada"))

    assert sorted(seen) == [("ada", "c1"), ("ada", "c2")]
    assert outcome.declared["whoami"]["parameters"]["properties"] == {}


SCENARIOS: list[Callable[[Any], Any]] = [
    schema, strict, typed, invalid, refused, failed, approved, denied, parallel, streamed, image, context,
]  # fmt: skip


async def no_strict_flag(bridge: Any) -> None:
    """The framework's tools have no place for strictness: the schema is the strict one, the flag is somebody else's."""

    @FunctionTool(strict=True)
    async def tag(limit: int = 5) -> str:
        """Tag things."""
        return str(limit)

    outcome = await bridge.play([tag], [("c1", "tag", {"limit": None})], "done")

    assert outcome.declared["tag"]["strict"] is None
    assert violations(outcome.declared["tag"]["parameters"]) == []
    assert outcome.of("c1").text == "5"


async def no_custom_stream_event(bridge: Any) -> None:
    """The framework's stream takes no event of a tool's own: progress reaches listeners of the run's `Context` only."""
    heard: list[Any] = []
    deps = Context()
    deps.subscribe(heard.append)

    @FunctionTool
    def slow(context: Context) -> str:
        """Take a while."""
        context.progress("half way")
        return "there"

    outcome = await bridge.play([slow], [("c1", "slow", {})], "done", stream=True, deps=deps)

    assert outcome.of("c1").text == "there"
    shown = [
        f"{item} {[content.to_dict() for content in getattr(item, 'contents', ())]}"
        for item in outcome.streamed
    ]
    assert any("there" in item for item in shown)
    assert not any("half way" in item for item in shown)
    assert [(event.kind, event.call_id, event.data["message"]) for event in heard] == [
        ("tool:progress", "c1", "half way")
    ]


async def no_reason_of_a_refusal(bridge: Any) -> None:
    """The framework has its own words for a refusal: the body does not run, and the person's reason is not read."""
    seen: list[int] = []
    outcome = await bridge.play([_payment(seen)], *PAYING, decide=lambda *_: "Too much, says Ada.")

    assert seen == []
    assert "rejected by user" in outcome.of("c1").text and "Ada" not in outcome.of("c1").text
    assert outcome.final == "done"


# (bridge, scenario): the reason, what the limit was seen with, and the test that shows it.
LIMITS: dict[tuple[str, str], tuple[str, str, Callable[[Any], Any]]] = {
    ("openai-agents", "streamed"): (
        "its stream has no event of a tool's own",
        "openai-agents 0.24.0",
        no_custom_stream_event,
    ),
    ("langchain", "strict"): (
        "its tools have no strict flag: bind_tools has",
        "langchain-core 1.7.2",
        no_strict_flag,
    ),
    ("agent-framework", "denied"): (
        "a refusal has fixed words",
        "agent-framework-core 1.23.0",
        no_reason_of_a_refusal,
    ),
    ("agent-framework", "streamed"): (
        "its stream has no event of a tool's own",
        "agent-framework-core 1.23.0",
        no_custom_stream_event,
    ),
}

CELLS = [(bridge, scenario) for bridge in BRIDGES for scenario in SCENARIOS]


def play(bridge: Any, scenario: Callable[[Any], Any]) -> str:
    """Play a cell: "holds", or the reason why the framework cannot."""
    reason, version, show = LIMITS.get((bridge.name, scenario.__name__), ("", "", scenario))
    asyncio.run(show(bridge))
    return f"{reason} ({version})" if reason else "holds"


@pytest.mark.parametrize(
    ("bridge", "scenario"), CELLS, ids=[f"{b.name}-{s.__name__}" for b, s in CELLS]
)
def test_scenario(bridge: Any, scenario: Callable[[Any], Any]) -> None:
    """The scenario holds over the bridge, or its limit is as it is said to be."""
    play(bridge, scenario)


@pytest.mark.parametrize("stream", [False, True])
def test_tripwire_leaves_the_run(bridge: Any, stream: bool) -> None:
    """A `Tripwire` leaves every framework's run as a functool `Tripwire`, streamed or not. The calls beside it are cancelled, or end first in LangGraph."""
    notes: list[str] = []
    ends_first = bridge.name == "langchain"

    @FunctionTool
    async def good() -> str:
        """Wait."""
        try:
            await asyncio.sleep(0.1 if ends_first else 30)
            notes.append("ended")
        except asyncio.CancelledError:
            notes.append("cancelled")
            raise
        return "never"

    calls = [("c1", "good", {}), ("c2", "stopped", {})]
    with pytest.raises(Tripwire, match="Stop everything"):
        asyncio.run(bridge.play([stopped, good], calls, "done", stream=stream))
    assert notes == ["ended" if ends_first else "cancelled"]


class Alarm(Tripwire):
    """A tripwire of the host's own."""

    def __init__(self, level: int) -> None:
        super().__init__(f"Stop everything: {level}")
        self.level = level

    def __str__(self) -> str:
        return f"level {self.level}"


@pytest.mark.parametrize("stream", [False, True])
def test_a_tripwire_of_the_hosts_own_is_caught_by_its_class(bridge: Any, stream: bool) -> None:
    """What leaves a run of any framework, and of an agent in it, is the host's own exception, with all it holds."""

    @FunctionTool
    async def alarm() -> str:
        """Ring."""
        raise Alarm(3)

    @FunctionTool
    async def square(n: int) -> int:
        """Square."""
        return n * n

    @FunctionTool
    async def turn() -> None:
        """Make a turn of calls."""
        calls = [ToolCall(name="square", arguments={"n": 3}), ToolCall(name="alarm")]
        await Toolset([alarm, square]).call_all(calls)

    agent = bridge.agent([bridge.export(turn)], [("i1", "turn", {})], "done")
    expert = AgentTool(agent, "expert", "d", runner=bridge.runner)
    for tool, given in ((turn, {}), (expert, {"input": "go"})):
        with pytest.raises(Alarm) as caught:
            asyncio.run(bridge.play([tool], [("c1", tool.name, given)], "done", stream=stream))

        stop = caught.value
        assert (stop.level, str(stop), [one.text for one in stop.results]) == (3, "level 3", ["9"])
        copied = pickle.loads(pickle.dumps(stop))
        assert (type(copied), copied.level, copied.args) == (Alarm, 3, ("Stop everything: 3",))


class Sealed(Alarm):
    """A tripwire that allows no subclass."""

    def __init_subclass__(cls) -> None:
        raise TypeError("no subclass")


class Made(Tripwire):
    """A tripwire that is made in a way of its own."""

    def __new__(cls, *, level: int) -> "Made":
        return super().__new__(cls)

    def __init__(self, *, level: int) -> None:
        super().__init__(f"Stop everything: {level}")
        self.level = level


class Slotted(Tripwire):
    """A tripwire that holds its attribute in a slot."""

    __slots__ = ("level",)

    def __init__(self, level: int) -> None:
        super().__init__(f"Stop everything: {level}")
        self.level = level


@pytest.mark.parametrize(
    "stop",
    [Sealed(3), Made(level=3), Slotted(3)],
    ids=lambda stop: type(stop).__name__,
)
def test_a_tripwire_of_any_class_leaves_the_run(bridge: Any, stop: Tripwire) -> None:
    """With what it holds. Where no class can be both the host's and the framework's, it is the framework's."""

    @FunctionTool
    async def alarm() -> str:
        """Ring."""
        raise stop

    with pytest.raises(Tripwire) as caught:
        asyncio.run(bridge.play([alarm], [("c1", "alarm", {})], "done"))
    stopped_with: Any = caught.value
    assert (stopped_with.level, stopped_with.args) == (3, ("Stop everything: 3",))


def test_tripwire_of_a_sub_agent_stops_the_outer_run(bridge: Any) -> None:
    """A `Tripwire` in a sub-agent of any framework leaves the outer call, and is not an answer."""

    def expert() -> AgentTool:
        agent = bridge.agent([bridge.export(stopped)], [("c1", "stopped", {})], "done")
        return AgentTool(agent, "expert", "d", runner=bridge.runner)

    with pytest.raises(Tripwire, match="Stop everything"):
        ask(expert())
    with pytest.raises(Tripwire, match="Stop everything"):
        asyncio.run(bridge.play([expert()], [("c1", "expert", {"input": "go"})], "done"))


@pytest.mark.parametrize("outer", BRIDGES, ids=lambda bridge: bridge.name)
@pytest.mark.parametrize("inner", BRIDGES, ids=lambda bridge: bridge.name)
def test_agent_of_one_framework_in_another(outer: Any, inner: Any) -> None:
    """An agent of every framework is a tool of an agent of every framework: answer and guardrails arrive, usage is counted."""
    usages: list[Any] = []

    async def keep(result: ToolResult, context: Context) -> None:
        usages.append(result.metadata["usage"]["requests"])

    @FunctionTool(output_guardrails=[redact(["secret"])])
    async def look() -> str:
        """Look."""
        return "a secret place"

    agent = inner.agent([inner.export(look)], [("i1", "look", {})], "found it")
    tool = AgentTool(
        agent, "expert", "Asks an expert.", runner=inner.runner, output_guardrails=[keep]
    )
    outcome = asyncio.run(outer.play([tool], [("o1", "expert", {"input": "where?"})], "done"))

    assert outcome.of("o1").text == "found it"
    assert outcome.final == "done"
    assert usages == [2]


def _clerk(paid: list[int]) -> AgentTool:
    """An agent that has to be approved itself, and whose only tool has to be, too."""
    pay = _payment(paid)

    async def runner(agent: Any, text: str, context: Context) -> str:
        result = await Toolset([pay]).call(
            ToolCall(name="pay", arguments={"amount": 7}, id="inner"), context
        )
        if (request := result.metadata.get("approval")) is not None:
            raise ApprovalRequired(result.text, request)
        return result.text

    return AgentTool("clerk", "clerk", "d", runner=runner, input_guardrails=[require_approval()])


def test_agreeing_to_an_agent_agrees_to_nothing_inside_it(bridge: Any) -> None:
    """A person's word for the outer call lets the agent run; what the agent's own tools ask for stays open."""
    paid: list[int] = []
    answers = iter([True, "not that", "not that"])

    turns = [("c1", "clerk", {"input": "pay"})], "done"
    outcome = asyncio.run(bridge.play([_clerk(paid)], *turns, decide=lambda *_: next(answers)))

    assert (paid, outcome.final) == ([], "done")
    read = outcome.of("c1").text
    assert "approval" in read or "refused" in read or "not that" in read


def test_limits_name_cells() -> None:
    """Every limit belongs to a cell of the matrix."""
    assert set(LIMITS) <= {(bridge.name, scenario.__name__) for bridge, scenario in CELLS}


if __name__ == "__main__":
    for scenario in SCENARIOS:
        print(f"{scenario.__name__:10} {scenario.__doc__}")
        for bridge in BRIDGES:
            print(f"    {bridge.name:14} {bridge.version:8} {play(bridge, scenario)}")
