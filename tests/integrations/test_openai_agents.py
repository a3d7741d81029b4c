"""What is particular to the bridge to openai-agents; what it shares with the others is in `test_matrix`."""

import asyncio
import gc
import inspect
import json
import re
import weakref
from dataclasses import dataclass
from functools import partial
from importlib.metadata import requires
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

pytest.importorskip("agents", reason="needs tests/requirements/agents.txt")

import agents
from agents import (
    Agent,
    RunContextWrapper,
    Runner,
    ToolGuardrailFunctionOutput,
    ToolOutputFileContent,
    ToolOutputImage,
    ToolOutputText,
    function_tool,
    tool_input_guardrail,
    tool_output_guardrail,
)
from agents.testing import ModelStep, ScriptedModel, assistant_message
from agents.usage import Usage
from pydantic import BaseModel, Field

from functool import (
    AgentTool,
    AudioContent,
    Context,
    Decision,
    FileContent,
    FunctionTool,
    ImageContent,
    TextContent,
    ToolCall,
    Toolset,
    Tripwire,
    WrapperTool,
)
from functool.approval import Grant
from functool.guardrails import require_approval
from functool.integrations import openai_agents
from tests.integrations import odd_tools
from tests.integrations.bridges import OpenAIAgents
from tests.integrations.odd_tools import adopts_only_theirs
from tests.support import ask, call


def agent_with(tools: list[Any], *turns: Any) -> Agent:
    return OpenAIAgents().agent(tools, *turns)


def run(agent: Agent, start: Any = "go", **options: Any) -> Any:
    return asyncio.run(Runner.run(agent, start, **options))


def approved(paused: Any, **options: Any) -> Any:
    """The state of a run after a person agreed to the first call that waits."""
    state = paused.to_state()
    state.approve(paused.interruptions[0], **options)
    return state


def expert(agent: Agent, **options: Any) -> AgentTool:
    return AgentTool(agent, "expert", "d", **{"runner": openai_agents.runner, **options})


def outputs(agent: Agent) -> list[str]:
    """What the model read in its last turn."""
    return [
        item["output"]
        for item in agent.model.calls[-1].input
        if item.get("type") == "function_call_output"
    ]


class Leaf(BaseModel):
    kind: Literal["leaf"] = "leaf"
    size: Annotated[int, Field(ge=1, le=9)] = 3


class Branch(BaseModel):
    kind: Literal["branch"] = "branch"
    children: list["Branch | Leaf"]
    labels: dict[str, float]


@pytest.mark.parametrize("strict", [True, False])
def test_schema_is_taken_as_it_is(strict: bool) -> None:
    """The framework's own strict pass changes nothing in a strict schema, and a plain one is not made strict."""

    @FunctionTool(strict=strict)
    def grow(root: Branch | Leaf, times: int = 1) -> str:
        """Grow."""
        return ""

    exported = openai_agents.export(grow)

    assert exported.params_json_schema == grow.schema.parameters
    assert exported.strict_json_schema is strict


def _big(call: ToolCall, context: Context) -> bool:
    return call.arguments["amount"] > 5 and call.arguments["currency"] == "CHF"


async def _big_async(call: ToolCall, context: Context) -> bool:
    return _big(call, context)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("when", [_big, _big_async])
def test_only_the_calls_that_need_approval_pause(strict: bool, wrapped: bool, when: Any) -> None:
    """A condition of the approval pauses the calls that it names, defaults counted in, and the others run."""
    paid: list[int] = []

    @FunctionTool(strict=strict, input_guardrails=[require_approval(when)])
    async def pay(amount: int, currency: str = "CHF") -> str:
        """Pay."""
        paid.append(amount)
        return f"paid {amount}"

    none = {"currency": None} if strict else {}
    calls = [(f"c{n}", "pay", json.dumps({"amount": n, **none})) for n in (3, 7)]
    agent = agent_with([openai_agents.export(WrapperTool(pay) if wrapped else pay)], calls, "done")
    paused = run(agent)
    assert ([item.call_id for item in paused.interruptions], paid) == (["c7"], [3])
    assert (run(agent, approved(paused)).final_output, paid) == ("done", [3, 7])


def test_a_condition_reads_the_keywords_of_a_strict_tool() -> None:
    """A strict tool sends `**flags` as a list of pairs; its condition reads them by name, and the approved call runs."""
    ran: list[dict[str, int]] = []

    @FunctionTool(
        strict=True,
        input_guardrails=[require_approval(lambda call, context: call.arguments["force"] == 1)],
    )
    async def wipe(**flags: int) -> str:
        """Wipe."""
        ran.append(flags)
        return "wiped"

    pairs = json.dumps({"flags": [{"key": "force", "value": 1}]})
    agent = agent_with([openai_agents.export(wipe)], [("c1", "wipe", pairs)], "done")
    paused = run(agent)
    assert ([item.call_id for item in paused.interruptions], ran) == (["c1"], [])
    run(agent, approved(paused))
    assert (outputs(agent), ran) == (["wiped"], [{"force": 1}])


def paying(*turns: Any) -> tuple[Agent, list[int]]:
    paid: list[int] = []
    return agent_with([openai_agents.export(odd_tools.paying(paid))], *turns), paid


def test_always_approve_holds_for_later_calls() -> None:
    """A person's standing word, `approve(item, always_approve=True)`, lets the tool's later calls run."""
    calls = [[(f"c{n}", "pay", json.dumps({"amount": n}))] for n in (1, 2)]
    agent, paid = paying(*calls, "done")
    state = approved(run(agent), always_approve=True)

    assert run(agent, state).final_output == "done"
    assert paid == [1, 2]


def test_a_grant_covers_no_more_calls_of_a_turn_than_it_has_uses() -> None:
    """Of three calls that a grant of one use covers, one runs unasked, and a person is asked about the others."""
    odd_tools.ran.clear()
    delete = odd_tools.delete
    given = {"path": "/tmp"}
    turn = [(id, "delete", given) for id in ("a", "b", "c")]
    agent = agent_with([openai_agents.export(delete)], turn, [("d", "delete", given)], "done")
    context = Context()
    context.grant(Grant.of(delete, given))
    paused = run(agent, context=context)
    assert [item.call_id for item in paused.interruptions] == ["b", "c"]
    later = run(agent, approved(paused))
    assert [item.call_id for item in later.interruptions] == ["c"]
    context.grant(Grant.of(delete, given))
    state = later.to_state()
    state.reject(later.interruptions[0], rejection_message="no")
    # The calls that have run are no longer counted: the new grant covers the next one.
    assert run(agent, state).final_output == "done" and context.grants() == []
    assert len(odd_tools.ran) == 3


def test_an_approval_counts_for_a_tool_in_a_namespace() -> None:
    """The framework keeps a person's answer under the qualified name of such a tool, and the tool finds it."""
    paid: list[int] = []
    native = openai_agents.export(odd_tools.paying(paid))
    [pay] = agents.tool_namespace(name="bank", description="Money.", tools=[native])
    made = agents.testing.function_call("pay", '{"amount": 5}', call_id="c1", namespace="bank")
    agent = Agent(name="a", model=ScriptedModel([[made], [assistant_message("done")]]), tools=[pay])
    paused = run(agent)
    assert (len(paused.interruptions), paid) == (1, [])

    assert run(agent, approved(paused)).final_output == "done"
    assert paid == [5]


def test_the_readme_names_the_extra_that_excludes_this_one() -> None:
    """The package needs a version of openai that unique-toolkit refuses, and the README says so."""
    needed = [line for line in requires("openai-agents") or () if re.match("openai[<>=]", line)]
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")

    assert needed == ["openai<4,>=3.0.0"]
    words = "`openai-agents` needs version 3 of the `openai` package, `unique` an older one"
    assert words in readme


def test_an_edit_needs_an_approver() -> None:
    """The framework's own answer has no place for edited arguments; a `Decision` of the context's approver has."""
    assert {"arguments", "args", "override_args"}.isdisjoint(
        inspect.signature(agents.RunState.approve).parameters
    )
    agent, paid = paying([("c1", "pay", '{"amount": 7}')], "done")
    context = Context(approver=lambda request: Decision(approved=True, arguments={"amount": 3}))
    run(agent, context=context)

    told = "A person changed the arguments of this call: `amount` to 3.\npaid 3"
    assert (outputs(agent), paid) == ([told], [3])


def test_an_edited_call_of_a_sub_agent_is_told_to_its_model() -> None:
    """openai-agents runs its own call or none: of an edited one the sub-agent's model reads the new arguments."""
    agent, paid = paying([("i1", "pay", '{"amount": 7}')], "done")
    edit = Decision(approved=True, arguments={"amount": 3})
    ask(expert(agent), Context(approver=lambda request: edit))

    assert paid == []
    assert outputs(agent) == [
        'A person changed this call, so it did not run. Make it with these arguments: {"amount":3}'
    ]


def test_a_condition_that_cannot_be_told_asks() -> None:
    """Where the condition fails on arguments that nobody has checked, a person is asked, and the body does not run."""
    paid: list[int] = []
    big = require_approval(lambda call, context: call.arguments["amount"] > 5)
    pay = openai_agents.export(odd_tools.paying(paid, input_guardrails=[big]))
    paused = run(agent_with([pay], [("c1", "pay", '{"amount": "lots"}')], "done"))

    assert ([item.call_id for item in paused.interruptions], paid) == (["c1"], [])


@pytest.mark.parametrize(
    ("content", "sent"),
    [
        (
            ImageContent(uri="https://x/y.png"),
            {"type": "input_image", "image_url": "https://x/y.png", "detail": "auto"},
        ),
        (
            ImageContent(data=b"<svg/>", media_type="image/svg+xml"),
            "[image/svg+xml: 6 bytes]",
        ),
        (
            FileContent(uri="https://x/y.pdf", name="y"),
            {"type": "input_file", "file_url": "https://x/y.pdf"},
        ),
        (
            FileContent(data=b"a", media_type="text/plain"),
            {
                "type": "input_file",
                "file_data": "data:text/plain;base64,YQ==",
                "filename": "file.txt",
            },
        ),
        (AudioContent(data=b"ab"), "[audio/wav: 2 bytes]"),
    ],
)
def test_content_on_the_wire(content: Any, sent: Any) -> None:
    """Images and files go as the Responses API takes them. What it does not take, a sound or an SVG, is named."""

    @FunctionTool
    async def give() -> Any:
        """Give."""
        return [TextContent(text="here"), content]

    agent = agent_with([openai_agents.export(give)], [("c1", "give", "{}")], "done")
    run(agent)

    here = {"type": "input_text", "text": "here"}
    assert outputs(agent) == [f"here\n{sent}" if isinstance(sent, str) else [here, sent]]


# --- adopt


@function_tool
async def add(a: int, b: int = 2) -> int:
    """Add two numbers.

    Args:
        a: The first.
    """
    if a < 0:
        raise ValueError("too small")
    return a + b


def test_adopt_takes_one_tool_of_theirs() -> None:
    """A tool of functool, a function and a list are refused by name, with what to do."""
    adopts_only_theirs(openai_agents.adopt, "agents.FunctionTool")


def test_adopted_tool_runs_through_the_pipeline() -> None:
    """An adopted tool has its native schema, checks arguments, keeps the value, and its failure is a failure."""
    tool = openai_agents.adopt(add)

    assert (tool.name, tool.description) == ("add", "Add two numbers.")
    assert tool.schema.parameters["required"] == add.params_json_schema["required"] == ["a", "b"]
    assert tool.schema.parameters["properties"]["a"] == add.params_json_schema["properties"]["a"]
    assert tool.strict is True
    assert call(tool, {"a": 1, "b": 4}).value == 5
    assert call(tool, {"a": "x", "b": 4}).error.type == "ArgumentError"
    assert call(tool, {"a": 1, "c": 4}).error.type == "ArgumentError"
    assert call(tool, {"a": -1, "b": 1}).text == "ValueError: too small"


def test_adopting_changes_nothing_in_the_native_tool() -> None:
    """The native tool answers its own framework as before."""
    openai_agents.adopt(add)
    agent = agent_with([add], [("c1", "add", '{"a": -1, "b": 1}')], "done")
    run(agent)

    assert "An error occurred while running the tool" in outputs(agent)[0]


def test_words_of_the_author_for_a_failure() -> None:
    """A failure function of the native tool words the failure, which stays one."""

    @function_tool(failure_error_function=lambda ctx, error: f"Sorry: {error}")
    def fail() -> str:
        """Fail."""
        raise ValueError("broken")

    result = call(openai_agents.adopt(fail))

    assert (result.text, result.error.type) == ("Sorry: broken", "ValueError")


@dataclass
class Deps:
    user: str


def test_adopted_tool_finds_deps_and_call_id() -> None:
    """The native tool finds the deps as its context, and its call id."""
    seen = []

    @function_tool
    def who(ctx: RunContextWrapper[Deps]) -> str:
        """Tell."""
        seen.append(ctx.tool_call_id)
        return ctx.context.user

    assert call(openai_agents.adopt(who), context=Context(Deps("ada"))).text == "ada"
    assert seen == ["c1"]


@pytest.mark.parametrize(
    "needs",
    [
        True,
        lambda ctx, arguments, call_id: asyncio.sleep(0, arguments["amount"] > 5),
        lambda ctx, arguments, call_id: arguments["amount"] > 5,
    ],
)
def test_native_approval_is_functools_approval(needs: Any) -> None:
    """A native tool that needs approval asks through the `Context`, for the calls that its own function, async or not, names."""

    @function_tool(needs_approval=needs)
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    tool, context = openai_agents.adopt(pay), Context()
    pending = call(tool, {"amount": 7}, context)

    assert tool.requires_approval
    assert pending.error.type == "ApprovalRequired"
    context.approve(pending.metadata["approval"])
    assert call(tool, {"amount": 7}, context).text == "paid 7"
    assert call(tool, {"amount": 3}, Context()).is_error is (needs is True)


def test_native_guardrails_come_along() -> None:
    """What a native guardrail refuses is refused, and what it trips on is a `Tripwire`."""

    @tool_input_guardrail
    def guard(data: Any) -> ToolGuardrailFunctionOutput:
        sent = data.context.tool_arguments
        if "bad" in sent:
            return ToolGuardrailFunctionOutput.reject_content("Not that word.")
        if "worse" in sent:
            return ToolGuardrailFunctionOutput.raise_exception()
        return ToolGuardrailFunctionOutput.allow()

    @tool_output_guardrail
    def after(data: Any) -> ToolGuardrailFunctionOutput:
        if data.output == "secret":
            return ToolGuardrailFunctionOutput.reject_content("Not for you.")
        return ToolGuardrailFunctionOutput.allow()

    @function_tool(tool_input_guardrails=[guard], tool_output_guardrails=[after])
    def say(word: str) -> str:
        """Say."""
        return word

    tool = openai_agents.adopt(say)

    assert call(tool, {"word": "fine"}).text == "fine"
    assert call(tool, {"word": "bad"}).text == "Not that word."
    assert call(tool, {"word": "secret"}).text == "Not for you."
    with pytest.raises(Tripwire):
        call(tool, {"word": "worse"})


def test_a_tripwire_in_an_agent_behind_their_own_tool() -> None:
    """`agent.as_tool()` answers with words of its own, unless it has no function for failures."""

    def play(**options: Any) -> Any:
        inner = agent_with(
            [openai_agents.export(odd_tools.stopped)], [("i1", "stopped", {})], "done"
        )
        outer = agent_with([], [("c1", "clerk", {"input": "go"})], "went on")
        outer.tools = [inner.as_tool("clerk", "d", **options)]
        return run(outer).final_output

    assert play() == "went on"
    with pytest.raises(Tripwire, match="Stop everything"):
        play(failure_error_function=None)


def test_an_adopted_agent_that_waits_for_a_person_fails() -> None:
    """Outside of the framework's loop nobody can answer, so what such an agent says is no empty success."""
    paid: list[int] = []
    inner = agent_with(
        [openai_agents.export(odd_tools.paying(paid))], [("c1", "pay", {"amount": 5})], "done"
    )
    result = ask(openai_agents.adopt(inner.as_tool("clerk", "d")))

    assert (result.error.type, paid) == ("ToolError", [])
    assert result.text == "The agent waits for a person, and cannot go on as an adopted tool."


def test_native_switch_comes_along() -> None:
    """A native tool that is switched off, by a value or by a function, does not run."""

    @function_tool(is_enabled=lambda ctx, agent: ctx.context == "ada")
    def secret() -> str:
        """Tell."""
        return "x"

    @function_tool(is_enabled=False)
    def never() -> str:
        """Tell."""
        return "x"

    tool = openai_agents.adopt(secret)

    assert call(tool, context=Context("ada")).text == "x"
    assert "not available" in call(tool, context=Context("bob")).text
    assert Toolset([openai_agents.adopt(never)]).enabled() == []


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"timeout_behavior": "raise_exception"}, "Tool 'slow' timed out after 0.05 seconds."),
        ({}, "Tool 'slow' timed out after 0.05 seconds."),
        (
            {"timeout_error_function": lambda ctx, late: f"Not in {late.timeout_seconds}"},
            "Not in 0.05",
        ),
    ],
    ids=["raised", "as a result", "in the author's words"],
)
def test_native_time_limit_comes_along(options: Any, text: str) -> None:
    """The native tool's own time limit holds, and the end of the time is a failure."""

    @function_tool(timeout=0.05, **options)
    async def slow() -> str:
        """Sleep."""
        await asyncio.sleep(30)
        return "never"

    result = call(openai_agents.adopt(slow))

    assert (result.error.type, result.text) == ("ToolTimeoutError", text)
    assert slow.timeout_behavior == options.get("timeout_behavior", "error_as_result")


def test_native_content() -> None:
    """Images and files of a native tool are content."""

    @function_tool
    def give() -> Any:
        """Give."""
        return [
            ToolOutputText(text="a"),
            ToolOutputImage(image_url="data:image/jpeg;base64,AAEC"),
            ToolOutputFileContent(file_url="https://x/y.pdf", filename="y"),
            {"type": "image", "image_url": "https://x/z.png"},  # The framework reads it as one.
            {"type": "unknown"},
        ]

    assert call(openai_agents.adopt(give)).output == [
        TextContent(text="a"),
        ImageContent(data=b"\0\1\2", media_type="image/jpeg"),
        FileContent(uri="https://x/y.pdf", name="y"),
        ImageContent(uri="https://x/z.png"),
        TextContent(text='{"type":"unknown"}'),
    ]


# --- runner


def test_runner_answers_with_usage() -> None:
    """The final output is the answer, the run's usage is in the metadata, and the extractor gets the framework's own result."""
    usage = Usage(requests=1, input_tokens=10, output_tokens=4, total_tokens=14)

    def agent() -> Agent:
        step = ModelStep(output=[assistant_message("42")], usage=usage)
        return Agent(name="a", model=ScriptedModel([step]))

    def extract(run: Any) -> str:
        return f"{type(run).__name__} {run.final_output}"

    plain, extracted = ask(expert(agent())), ask(expert(agent(), output_extractor=extract))

    counts = {"requests": 1, "input_tokens": 10, "output_tokens": 4, "total_tokens": 14}
    assert (plain.text, plain.metadata) == ("42", {"usage": counts})
    assert (extracted.text, extracted.metadata) == ("RunResult 42", {"usage": counts})


def test_runner_options() -> None:
    """What `Runner.run` takes beside can be bound to the runner."""
    agent = agent_with([add], [("i1", "add", '{"a": 1, "b": 2}')], "three")
    result = ask(expert(agent, runner=partial(openai_agents.runner, max_turns=1)))

    assert result.error.type == "MaxTurnsExceeded"


class Tenant:
    """A host's own object, which refers to what the run has used."""

    usage: Usage | None = None


def test_a_run_is_forgotten_whose_context_object_refers_to_its_usage() -> None:
    """A hook may keep the usage in the run's own context object, and no run keeps that alive."""
    tenants: list[weakref.ref[Any]] = []

    class Keeping(agents.RunHooks[Any]):
        async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
            context.context.usage = context.usage
            tenants.append(weakref.ref(context.context))

    noop = openai_agents.export(FunctionTool(lambda: "x", name="noop"))
    for _ in range(3):
        turns = [("c1", "noop", {})], "done"
        run(agent_with([noop], *turns), context=Tenant(), hooks=Keeping())
        gc.collect()

    # The framework may still hold the last run.
    assert [tenant() for tenant in tenants[:2]] == [None, None]
