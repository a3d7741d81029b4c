"""What is particular to the bridge to pydantic-ai; what it shares with the others is in `test_matrix`."""

import ast
import asyncio
import gc
import weakref
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

pytest.importorskip("pydantic_ai", reason="needs tests/requirements/agents.txt")

import pydantic_ai
from pydantic import AfterValidator, BaseModel, Field, TypeAdapter
from pydantic_ai import (
    Agent,
    AudioUrl,
    BinaryContent,
    DeferredToolRequests,
    DeferredToolResults,
    DocumentUrl,
    FunctionToolset,
    ImageUrl,
    ModelRetry,
    RunContext,
    ToolApproved,
    ToolDefinition,
    ToolFailed,
    ToolReturn,
    UnexpectedModelBehavior,
)
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.conversation import Conversation
from pydantic_ai.durable_exec import DurableRunContext
from pydantic_ai.exceptions import ApprovalRequired as Paused
from pydantic_ai.exceptions import CallDeferred, UserError
from pydantic_ai.messages import ModelRequest, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RunUsage

from functool import (
    AgentTool,
    ApprovalRequest,
    ApprovalRequired,
    AudioContent,
    Context,
    FileContent,
    FunctionTool,
    ImageContent,
    TextContent,
    ToolCall,
    ToolResult,
    Toolset,
    ToolSettings,
)
from functool.approval import Grant
from functool.guardrails import require_approval, truncate
from functool.integrations import pydantic_ai as bridge
from functool.integrations import pydantic_ai_runner
from tests.integrations.bridges import PydanticAI
from tests.integrations.odd_tools import adopts_only_theirs, paying, refused
from tests.support import ask, call

TestModel.__test__ = False


def scripted(*turns: Any) -> FunctionModel:
    """A model that plays a script; `seen` is what it was shown."""
    return PydanticAI().agent([], *turns).model


def returns(messages: list[Any]) -> list[Any]:
    return [
        part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)
    ]


def agent_of(tools: list[Any], *turns: Any, **options: Any) -> Agent:
    """An agent with exported tools, which plays a script."""
    return Agent(scripted(*turns), tools=[bridge.export(tool) for tool in tools], **options)


def run(tools: list[Any], *turns: Any, **options: Any) -> list[Any]:
    """Run an agent with exported tools; return the parts that answered its calls."""
    made = asyncio.run(agent_of(tools, *turns).run("go", **options))
    return returns(made.all_messages())


def adopted(func: Any, **options: Any) -> Any:
    return bridge.adopt(pydantic_ai.Tool(func, **options))


def expert(agent: Any, **options: Any) -> AgentTool:
    return AgentTool(agent, "expert", "d", **{"runner": bridge.runner, **options})


@FunctionTool
async def double(number: int) -> int:
    """Double."""
    if number < 0:
        raise ValueError("no")
    return number * 2


def test_definition() -> None:
    """An exclusive tool is sequential, and a tool whose type is known has a return schema."""

    @FunctionTool(settings=ToolSettings(is_exclusive=True))
    async def total(values: list[int]) -> int:
        """Add up."""
        return sum(values)

    definition = bridge.export(total).tool_def

    assert definition.sequential is True
    assert definition.return_schema == total.schema.output
    assert definition.strict is None
    assert definition.kind == "function"


@pytest.mark.parametrize("arguments", ["[1]", "{", '"x"', "null"])
def test_arguments_that_are_no_object_ask_for_another_try(arguments: str) -> None:
    """Text that is no JSON object is the model's to repair; the run goes on."""
    wrong, right = [("c1", "double", arguments)], [("c2", "double", {"number": 2})]

    assert run([double], wrong, right, "done")[-1].content == "4"


class Meddle(AbstractCapability[Any]):
    """A capability that sets the number of each call."""

    def __init__(self, number: Any) -> None:
        self.number = number

    async def before_tool_execute(
        self, ctx: Any, *, call: Any, tool_def: Any, args: dict[str, Any]
    ) -> dict[str, Any]:
        assert args == {"number": 1}
        args["number"] = self.number
        return args


@pytest.mark.parametrize(
    ("number", "read"),
    [
        (21, "42"),
        (object(), "Invalid arguments. the arguments hold a value that JSON cannot express"),
    ],
)
def test_what_a_hook_of_the_host_makes_of_the_arguments_is_checked(number: Any, read: str) -> None:
    """A capability sees the arguments as sent, may change them, and what it makes of them is checked like any others."""

    model = scripted([("c1", "double", {"number": 1})], "done")
    agent = Agent(model, tools=[bridge.export(double)], capabilities=[Meddle(number)])
    asyncio.run(agent.run("go"))

    assert read in str(model.seen[-1][0][-1].parts[0].content)


def test_the_function_of_an_exported_tool_takes_keywords() -> None:
    """Who calls the function itself, past pydantic-ai's loop, gets the same answer."""
    run_context = RunContext(deps=None, model=TestModel(), usage=RunUsage(), tool_call_id="c1")

    assert asyncio.run(bridge.export(double).function(run_context, number=21)) == "42"


def test_wrong_arguments_count_against_the_retries_of_the_agent() -> None:
    """The agent's own limit for wrong arguments holds; failures of a body do not count."""
    wrong = [[(f"c{n}", "double", {})] for n in range(3)]
    failing = [[(f"c{n}", "double", {"number": -1})] for n in range(3)]

    with pytest.raises(UnexpectedModelBehavior):
        run([double], *wrong, "done")
    answers = [part.content for part in run([double], *failing, "done")]
    assert answers == ["ValueError: no"] * 3


def test_refusal_is_a_failed_return() -> None:
    """What a guardrail refuses is a tool return whose outcome is failed."""
    (part,) = run([refused], [("c1", "refused", {})], "done")

    assert (part.content, part.outcome) == ("Not on a Sunday.", "failed")


def test_metadata_is_the_applications() -> None:
    """The metadata of a result is that of the tool return, which the model does not see."""

    @FunctionTool
    async def find() -> ToolResult:
        """Find."""
        return ToolResult.of("found", metadata={"source": "x"})

    (part,) = run([find], [("c1", "find", {})], "done")

    assert (part.content, part.metadata) == ("found", {"source": "x"})


def test_agents_that_share_their_usage_do_not_share_deps() -> None:
    """An agent that runs inside another one with its usage finds its own deps, and the outer one still its own."""
    seen: list[Any] = []

    @FunctionTool
    async def who(context: Context) -> str:
        """Tell."""
        seen.append(context.deps)
        return "x"

    inner = agent_of([who], [("i1", "who", {})], "done", deps_type=str)

    async def delegate(ctx: RunContext[str]) -> str:
        """Delegate."""
        return (await inner.run("go", deps="inner", usage=ctx.usage)).output

    model = scripted([("o1", "who", {})], [("o2", "delegate", {})], [("o3", "who", {})], "done")
    outer = Agent(model, tools=[bridge.export(who), delegate], deps_type=str)
    asyncio.run(outer.run("go", deps="outer"))

    assert seen == ["outer", "inner", "outer"]


@pytest.mark.parametrize("changed", [False, True])
def test_approval_is_bound_to_its_request(changed: bool) -> None:
    """The request travels in the metadata; passed back, it lets exactly that call run."""
    paid: list[int] = []
    big = require_approval(lambda call, context: call.arguments["amount"] > 5)
    calls = [("c1", "pay", {"amount": 7}), ("c2", "pay", {"amount": 3})]
    tools = [paying(paid, input_guardrails=[big])]
    agent = agent_of(tools, calls, "done", output_type=[str, DeferredToolRequests])
    pending = asyncio.run(agent.run("go"))
    request = ApprovalRequest.from_json(pending.output.metadata["c1"]["approval"])
    assert ([part.tool_call_id for part in pending.output.approvals], paid) == (["c1"], [3])
    assert (request.tool, request.arguments, request.call_id) == ("pay", {"amount": 7}, "c1")

    if changed:
        request = ApprovalRequest.of("pay", request.definition, {"amount": 1}, "c1")
    given = {"c1": {"approval": request.to_json()}}
    results = DeferredToolResults(approvals={"c1": True}, metadata=given)
    history = pending.all_messages()
    last = asyncio.run(agent.run(message_history=history, deferred_tool_results=results))

    assert paid == ([3] if changed else [3, 7])
    assert (last.output == "done") is not changed
    if changed:  # The person is asked again, about the call that it is.
        again = ApprovalRequest.from_json(last.output.metadata["c1"]["approval"])
        assert again.arguments == {"amount": 7}


PAY = [("c1", "pay", {"amount": 7})]


class Till:
    """A run that waits for a person to agree to a payment, and notes what its guardrail and its body see."""

    def __init__(self, *turns: Any) -> None:
        self.seen: list[int] = []
        self.paid: list[int] = []

        def look(call: ToolCall, context: Context) -> None:
            self.seen.append(call.arguments["amount"])

        @FunctionTool(input_guardrails=[look, require_approval()])
        def pay(amount: int, currency: str = "CHF") -> str:
            """Pay."""
            self.paid.append(amount)
            return f"paid {amount} {currency}"

        outputs = [str, DeferredToolRequests]
        self.agent = agent_of([pay], PAY, *turns, output_type=outputs)
        self.pending = asyncio.run(self.agent.run("go"))

    def resume(self, edit: dict[str, Any], *, bound: bool = True) -> Any:
        """Go on with an edit of the call "c1"; `bound` passes the metadata back."""
        results = DeferredToolResults(approvals={"c1": ToolApproved(override_args=edit)})
        if bound:
            results.metadata = self.pending.output.metadata
        history = self.pending.all_messages()
        return asyncio.run(self.agent.run(message_history=history, deferred_tool_results=results))


@pytest.mark.parametrize("bound", [False, True])
def test_an_edited_call_runs_as_it_was_edited(bound: bool) -> None:
    """`override_args` are checked, meet the guardrails again, and run; the model reads what was changed."""
    till = Till("done")
    assert till.seen == [7]
    till.seen.clear()
    last = till.resume({"amount": 3}, bound=bound)

    (part,) = returns(last.all_messages())
    told = "A person changed the arguments of this call: `amount` to 3."
    assert part.content == f"{told}\npaid 3 CHF"
    assert part.metadata["decision"]["request"]["arguments"] == {"amount": 7, "currency": "CHF"}
    assert part.metadata["decision"]["arguments"] == {"amount": 3, "currency": "CHF"}
    assert (till.seen, till.paid) == ([7, 3], [3])


@pytest.mark.parametrize("capped", [False, True])
@pytest.mark.parametrize("amount", [7, 3])
def test_an_approved_call_runs_where_the_run_is_durable(
    amount: int, capped: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A durable run has neither messages nor a stream for a call, but the metadata says what was asked."""

    def cap(call: ToolCall, context: Context) -> ToolCall | None:
        return replace(call, arguments={"amount": 5}) if call.arguments["amount"] > 5 else None

    @FunctionTool(input_guardrails=[*([cap] if capped else []), require_approval()])
    def pay(amount: int, context: Context) -> str:
        """Pay."""
        context.progress("half")
        return f"paid {amount}"

    class Activity(DurableRunContext):
        async def emit(self, event: Any, /) -> Any:
            raise UserError("out of reach")

    outputs = [str, DeferredToolRequests]
    asked = asyncio.run(agent_of([pay], PAY, output_type=outputs).run("go")).output
    given = {"tool_call_approved": True, "tool_call_metadata": asked.metadata["c1"]}
    run_context = Activity(None, usage=RunUsage(), tool_call_id="c1", **given)
    answer = asyncio.run(bridge.export(pay).function(run_context, amount=amount))

    told = "A person changed the arguments of this call: `amount` to 3.\n" if amount == 3 else ""
    paid = 5 if capped and amount == 7 else amount
    assert answer.return_value == f"{told}paid {paid}"
    assert caplog.text == ""


def test_the_metadata_of_a_durable_call_can_be_stored() -> None:
    """What JSON cannot say becomes text in a durable run, which would try the call again if it could not store the answer."""
    handle = object()
    metadata = {"handle": handle, "name": "\ud800", "sizes": [1]}

    @FunctionTool
    def open_door() -> ToolResult:
        """Open."""
        return ToolResult.of("open", metadata=metadata)

    (here,) = run([open_door], [("c1", "open_door", {})], "done")
    given = {"usage": RunUsage(), "tool_call_id": "c1", "tool_call_approved": False}
    context = DurableRunContext(None, **given)
    there = asyncio.run(bridge.export(open_door).function(context))

    assert here.metadata == metadata
    stored = TypeAdapter(Any).dump_python(there, mode="json")
    assert stored["metadata"] == {"handle": str(handle), "name": "\ufffd", "sizes": [1]}


@pytest.mark.parametrize("edit", [3, 900])
@pytest.mark.parametrize("needs", ["nothing", "a condition", "a cap", "a grant", "a granted cap"])
def test_an_edit_runs_where_only_the_framework_asked(needs: str, edit: int) -> None:
    """What a person makes of a call runs, also if the tool itself would not have asked about the call."""
    paid: list[int] = []
    context = Context()

    def cap(call: ToolCall, _: Any) -> ToolCall | None:
        return replace(call, arguments={"amount": 6}) if call.arguments["amount"] == 7 else None

    asks = {
        "nothing": [],
        "a condition": [require_approval(lambda call, _: call.arguments["amount"] > 100)],
        "a cap": [cap, require_approval(lambda call, _: call.arguments["amount"] > 6)],
        "a grant": [require_approval()],
        "a granted cap": [cap, require_approval()],
    }
    tool = paying(paid, input_guardrails=asks[needs])
    if "grant" in needs:
        context.grant(Grant.of(tool, {"amount": 6 if "cap" in needs else 7}))
    asking = FunctionToolset([bridge.export(tool)]).approval_required()
    outputs = [str, DeferredToolRequests]
    agent = Agent(scripted(PAY, "done"), toolsets=[asking], output_type=outputs, deps_type=Context)
    pending = asyncio.run(agent.run("go", deps=context))
    answers = {"c1": ToolApproved(override_args={"amount": edit})}
    results = DeferredToolResults(approvals=answers, metadata=pending.output.metadata)
    history = pending.all_messages()
    asyncio.run(agent.run(message_history=history, deferred_tool_results=results, deps=context))

    assert paid == [edit]
    assert len(context.grants()) == ("grant" in needs)  # The grant covers the call as it was.


def test_such_an_edit_holds_while_the_call_asks_once_more() -> None:
    """A person's edit stays when an agent inside of the call asks, and the edit is not sent again."""
    paid: list[int] = []
    texts: list[str] = []
    tool = clerk(paid, texts, asks=False)
    asking = FunctionToolset([bridge.export(tool)]).approval_required()
    outputs = [str, DeferredToolRequests]
    turns = [("c1", "clerk", {"input": "500"})], "done"
    agent = Agent(scripted(*turns), toolsets=[asking], output_type=outputs)
    made = asyncio.run(agent.run("go"))
    for answer in (ToolApproved(override_args={"input": "5"}), True):
        results = DeferredToolResults(approvals={"c1": answer}, metadata=made.output.metadata)
        history = made.all_messages()
        made = asyncio.run(agent.run(message_history=history, deferred_tool_results=results))

    assert (made.output, paid, texts) == ("done", [5], ["5", "5"])


@pytest.mark.parametrize("asks", [False, True])
def test_an_edit_goes_by_the_names_that_a_model_sends(asks: bool) -> None:
    """A person writes aliases, as the model does, also where one is the name of another parameter."""
    moved: list[tuple[str, str]] = []

    @FunctionTool(input_guardrails=[require_approval()] if asks else [])
    def move(a: Annotated[str, Field(alias="b")], b: Annotated[str, Field(alias="a")]) -> str:
        """Move."""
        moved.append((a, b))
        return "moved"

    asking = FunctionToolset([bridge.export(move)]).approval_required()
    turns = [("c1", "move", {"a": "x", "b": "y"})], "done"
    agent = Agent(scripted(*turns), toolsets=[asking], output_type=[str, DeferredToolRequests])
    pending = asyncio.run(agent.run("go"))
    answers = {"c1": ToolApproved(override_args={"a": "X", "b": "y"})}
    results = DeferredToolResults(approvals=answers)
    history = pending.all_messages()
    asyncio.run(agent.run(message_history=history, deferred_tool_results=results))

    assert moved == [("y", "X")]


@pytest.mark.parametrize("name", ["from", "from_"])
def test_an_edit_may_go_by_the_names_that_were_shown(name: str) -> None:
    """The request shows the names of the parameters, and the model's message the aliases: either is an edit."""
    moved: list[str] = []

    @FunctionTool(input_guardrails=[require_approval()])
    def move(from_: Annotated[str, Field(alias="from")]) -> str:
        """Move."""
        moved.append(from_)
        return "moved"

    turns = [("c1", "move", {"from": "x"})], "done"
    agent = agent_of([move], *turns, output_type=[str, DeferredToolRequests])
    pending = asyncio.run(agent.run("go"))
    answers = {"c1": ToolApproved(override_args={name: "y"})}
    results = DeferredToolResults(approvals=answers, metadata=pending.output.metadata)
    history = pending.all_messages()
    asyncio.run(agent.run(message_history=history, deferred_tool_results=results))

    assert moved == ["y"]


def test_an_edit_that_says_the_same_is_no_edit() -> None:
    """Arguments that a person wrote out as they were, defaults too, are not told as a change."""
    last = Till("done").resume({"amount": 7, "currency": "CHF"})

    assert [part.content for part in returns(last.all_messages())] == ["paid 7 CHF"]


def test_an_edit_that_does_not_fit_runs_nothing() -> None:
    """What a person wrote is checked like what a model wrote."""
    till = Till("done", "done")
    till.resume({"amount": "lots"})

    assert till.paid == []


def clerk(paid: list[int], texts: list[str], *guardrails: Any, asks: bool = True) -> AgentTool:
    """An agent that has to be approved, and pays the amount that it reads once that is approved too."""
    inner = Toolset([paying(paid)])

    async def runner(agent: Any, text: str, context: Context) -> str:
        texts.append(text)
        made = ToolCall(name="pay", arguments={"amount": int(text)}, id="inner")
        result = await inner.call(made, context)
        if (request := result.metadata.get("approval")) is not None:
            raise ApprovalRequired(result.text, request)
        return result.text

    asking = [*guardrails, *([require_approval()] if asks else ())]
    return AgentTool("clerk", "clerk", "d", runner=runner, input_guardrails=asking)


def agreed_to(tool: AgentTool, *answers: Any, whole: bool = True) -> tuple[list[Any], Any]:
    """Answer what the call of an agent asks, one after the other; return what was asked, and the output."""
    calls = [("c1", "clerk", {"input": "500"})]
    agent = agent_of([tool], calls, "done", output_type=[str, DeferredToolRequests])
    asked: list[Any] = []

    async def main() -> Any:
        last = await agent.run("go")
        for answer in answers:
            metadata = last.output.metadata
            if not whole:
                metadata = {"c1": {"approval": metadata["c1"]["approval"]}}
            asked.append(ApprovalRequest.from_json(metadata["c1"]["approval"]).arguments)
            given = DeferredToolResults(approvals={"c1": answer}, metadata=metadata)
            history = last.all_messages()
            last = await agent.run(message_history=history, deferred_tool_results=given)
        return last.output

    return asked, asyncio.run(main())


def test_an_edit_holds_while_an_agent_inside_the_call_asks() -> None:
    """A person who edits an agent's call, and then agrees to a call of that agent, is not given the call as it was."""
    paid: list[int] = []
    texts: list[str] = []
    edit = ToolApproved(override_args={"input": "5"})
    asked, output = agreed_to(clerk(paid, texts), edit, True)

    assert asked == [{"input": "500"}, {"amount": 5}]
    assert (output, texts, paid) == ("done", ["5", "5"], [5])


def test_an_agents_call_that_changed_while_it_asked_is_asked_about_again() -> None:
    """An agreement to a call inside of an agent's is none to the agent's call, if a guardrail has changed that."""
    paid: list[int] = []
    texts: list[str] = []
    changes = iter("115")

    def change(call: ToolCall, context: Context) -> ToolCall:
        return replace(call, arguments={"input": next(changes)})

    asked, output = agreed_to(clerk(paid, texts, change), True, True)

    assert asked == [{"input": "1"}, {"amount": 1}]
    assert ApprovalRequest.from_json(output.metadata["c1"]["approval"]).arguments == {"input": "5"}
    assert (texts, paid) == (["1"], [])


def test_an_agent_that_begins_again_asks_again() -> None:
    """Without a context of the host's an agent inside the call begins again after each answer: no agreement pays twice."""
    paid: list[int] = []
    inner = Toolset([paying(paid)])

    async def runner(agent: Any, text: str, context: Context) -> str:
        for amount in (1, 2):
            made = ToolCall(name="pay", arguments={"amount": amount}, id=f"inner{amount}")
            result = await inner.call(made, context)
            if (request := result.metadata.get("approval")) is not None:
                raise ApprovalRequired(result.text, request)
        return "both"

    tool = AgentTool("clerk", "clerk", "d", runner=runner, input_guardrails=[require_approval()])
    asked, output = agreed_to(tool, True, True, True)

    assert asked == [{"input": "500"}, {"amount": 1}, {"amount": 2}]
    again = ApprovalRequest.from_json(output.metadata["c1"]["approval"])
    assert (again.arguments, paid) == ({"amount": 1}, [1])


@pytest.mark.parametrize("changed", [False, True])
def test_a_host_that_passes_the_request_alone(changed: bool) -> None:
    """Where only `approval` comes back, the agent's call was approved as the model wrote it, and as nothing else."""
    paid: list[int] = []
    texts: list[str] = []

    def change(call: ToolCall, context: Context) -> ToolCall | None:
        return replace(call, arguments={"input": "5"}) if changed else None

    asked, output = agreed_to(clerk(paid, texts, change), True, True, whole=False)

    assert asked == (
        [{"input": "5"}, {"amount": 5}] if changed else [{"input": "500"}, {"amount": 500}]
    )
    assert (output == "done", paid) == ((False, []) if changed else (True, [500]))


def test_an_edited_call_of_a_sub_agent_runs_edited() -> None:
    """What a person makes of a sub-agent's call goes to pydantic-ai as `override_args`."""

    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return f"paid {amount}"

    paid: list[int] = []
    native = pydantic_ai.Tool(pay, requires_approval=True)
    tool, context = expert(Agent(scripted(PAY, "done"), tools=[native])), Context()
    pending = ask(tool, context).metadata["approval"]
    context.approve(pending, arguments={"amount": 3})

    assert (pending.arguments, ask(tool, context).text, paid) == ({"amount": 7}, "done", [3])


class Item(BaseModel):
    name: str
    tags: list[str] = []
    parent: "Item | None" = None
    parts: list["Item"] = []


def _all_kinds(
    item: Item,
    unit: Literal["C", "F"] | None = None,
    number: int | str = 3,
    pair: tuple[int, str] = (1, "a"),
    code: str = "123",
    when: date | None = None,
    sizes: dict[str, int] = {"a": 1},  # noqa: B006
    **flags: int,
) -> str:
    """Take all kinds."""
    return "ok"


@pytest.mark.parametrize("strict", [False, True])
def test_a_test_model_plays_the_tool(strict: bool) -> None:
    """pydantic-ai's `TestModel` makes a call that fits, strict or not, and of types that hold themselves."""
    tool = FunctionTool(_all_kinds, name="all_kinds", strict=strict)
    run = asyncio.run(Agent(TestModel(), tools=[bridge.export(tool)]).run("go"))

    assert run.output == '{"all_kinds":"ok"}'


def test_null_comes_first_in_a_strict_schema() -> None:
    """A type that admits null is a choice whose first member is null; the rules of the type stay with it."""

    @FunctionTool(strict=True)
    def count(limit: int = 5, unit: Literal["C", "F"] = "C") -> str:
        """Count."""
        return ""

    before = count.schema.parameters["properties"]
    shown = bridge.export(count).tool_def.parameters_json_schema["properties"]
    assert before["limit"]["type"] == ["integer", "null"]
    assert shown["limit"] == {
        "description": before["limit"]["description"],
        "anyOf": [{"type": "null"}, {"type": "integer"}],
    }
    assert shown["unit"] == before["unit"]


def test_no_output_schema_where_a_guardrail_shows_something_else() -> None:
    """A guardrail with `shows = True` sends the model something else than the value: no return schema is published."""

    def short(result: ToolResult, context: Context) -> ToolResult:
        return result.shown_as("short")

    short.shows = True
    kept, cut = (
        FunctionTool(lambda: [1, 2], name="count", description="d", output_guardrails=[guardrail])
        for guardrail in (truncate(9), short)
    )
    for tool in (kept, cut):
        tool.schema.output = {"type": "array"}

    assert bridge.export(kept).tool_def.return_schema == {"type": "array"}
    assert bridge.export(cut).tool_def.return_schema == {}


def test_only_public_names_of_pydantic_ai_are_used() -> None:
    """The bridge imports no private module of the framework."""
    for module in (bridge, pydantic_ai_runner):
        tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
        names = [
            node.module
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module.startswith("pydantic_ai")
        ]
        assert names and not [name for name in names if "._" in name]


@pytest.mark.parametrize(
    ("content", "native"),
    [
        (ImageContent(uri="https://x/y.png"), ImageUrl("https://x/y.png", media_type="image/png")),
        (AudioContent(data=b"ab"), BinaryContent(b"ab", media_type="audio/wav")),
        (AudioContent(uri="https://x/y.wav"), AudioUrl("https://x/y.wav", media_type="audio/wav")),
        (
            FileContent(uri="https://x/y.pdf", media_type="application/pdf"),
            DocumentUrl("https://x/y.pdf", media_type="application/pdf"),
        ),
        (
            FileContent(data=b"ab", media_type="text/plain"),
            BinaryContent(b"ab", media_type="text/plain"),
        ),
    ],
)
def test_content_there_and_back(content: Any, native: Any) -> None:
    """Images, sounds and files go as the framework's own, and come back as content."""

    @FunctionTool
    async def give() -> Any:
        """Give."""
        return ["here", content]

    (part,) = run([give], [("c1", "give", {})], "done")

    def back() -> Any:
        """Give."""
        return native

    assert part.content == ["here", native]
    assert call(adopted(back)).output == [content]


# --- adopt


@dataclass
class Deps:
    user: str


def add(a: int, b: int = 2) -> int:
    """Add two numbers.

    Args:
        a: The first.
        b: The second.
    """
    if a < 0:
        raise ModelRetry("a is too small")
    if a > 99:
        raise ToolFailed("a is too big")
    return a + b


def test_adopt_takes_one_tool_of_theirs() -> None:
    """A tool of functool, a function and a list are refused by name, with what to do."""
    adopts_only_theirs(bridge.adopt, "pydantic_ai.Tool")


def test_adopted_tool_runs_through_the_pipeline() -> None:
    """An adopted tool has its native schema, checks arguments, keeps the value, and its failures are failures."""
    tool = adopted(add)

    assert (tool.name, tool.description) == ("add", "Add two numbers.")
    assert tool.schema.parameters["properties"]["a"]["description"] == "The first."
    assert call(tool, {"a": 1}).value == 3
    assert call(tool, {"a": "x"}).error.type == "ArgumentError"
    assert call(tool, {"a": -1}).text == "a is too small"
    assert call(tool, {"a": 100}).text == "a is too big"


def test_what_only_the_native_validator_knows_is_an_argument_error() -> None:
    """A check that no JSON Schema says is an `ArgumentError` that quotes no value."""

    def even(number: int) -> int:
        if number % 2:
            raise ValueError("must be even")
        return number

    def half(number: Annotated[int, AfterValidator(even)]) -> int:
        """Halve."""
        return number // 2

    result = call(adopted(half), {"number": 777})

    assert result.error.type == "ArgumentError"
    assert "must be even" in result.text and "777" not in result.text


def test_adopted_tool_finds_deps_and_call_id() -> None:
    """The native tool finds the deps and its call id in its `RunContext`."""

    def who(ctx: RunContext[Deps]) -> str:
        """Tell."""
        return f"{ctx.deps.user} {ctx.tool_call_id}"

    assert call(adopted(who), context=Context(Deps("ada"))).text == "ada c1"


def test_native_approval_is_functools_approval() -> None:
    """A native tool that needs approval, by its definition or as it runs, asks through the `Context`."""
    ran: list[str] = []

    def always(amount: int) -> str:
        """Pay."""
        ran.append("always")
        return "paid"

    def big(ctx: RunContext[None], amount: int) -> str:
        """Pay."""
        if amount > 5 and not ctx.tool_call_approved:
            raise Paused
        ran.append("big")
        return "paid"

    for tool, amount in ((adopted(always, requires_approval=True), 1), (adopted(big), 7)):
        context = Context()
        pending = call(tool, {"amount": amount}, context)
        assert pending.error.type == "ApprovalRequired"
        context.approve(pending.metadata["approval"])
        assert call(tool, {"amount": amount}, context).text == "paid"

    assert ran == ["always", "big"]


def test_a_condition_of_the_host_approves_nothing_for_the_native_tool() -> None:
    """A guardrail that does not ask about a call leaves the native tool's own question open."""
    ran: list[int] = []

    def pay(ctx: RunContext[None], amount: int) -> str:
        """Pay."""
        if amount > 5 and not ctx.tool_call_approved:
            raise Paused
        ran.append(amount)
        return "paid"

    tool, context = bridge.adopt(pydantic_ai.Tool(pay)), Context()
    tool.add_input_guardrails([require_approval(lambda call, _: call.arguments["amount"] > 100)])
    waiting = [call(tool, {"amount": amount}, context) for amount in (7, 700)]

    assert [result.error.type for result in waiting] == ["ApprovalRequired"] * 2
    assert ran == []
    for result in waiting:
        context.approve(result.metadata["approval"])
    assert [call(tool, {"amount": amount}, context).text for amount in (7, 700)] == ["paid"] * 2


def test_what_a_native_prepare_says_holds() -> None:
    """A native tool that its `prepare` takes away is disabled, and one that it puts under approval waits for a person."""

    def prepare(ctx: RunContext[str], definition: ToolDefinition) -> ToolDefinition | None:
        ask = replace(definition, kind="unapproved")
        return {"out": None, "ask": ask, "in": definition}[ctx.deps]

    tool, asked = adopted(add, prepare=prepare), Context("ask")
    away, pending = call(tool, {"a": 1}, Context("out")), call(tool, {"a": 1}, asked)

    assert (away.error.type, away.text) == ("ToolDisabledError", "The tool 'add' is disabled.")
    assert pending.error.type == "ApprovalRequired"
    asked.approve(pending.metadata["approval"])
    assert [call(tool, {"a": 1}, context).value for context in (asked, Context("in"))] == [3, 3]


def test_native_time_limit_and_args_validator_come_along() -> None:
    """The native tool's own time limit and its validator hold."""

    async def slow() -> str:
        """Sleep."""
        await asyncio.sleep(30)
        return "never"

    def check(ctx: RunContext[None], a: int, b: int = 2) -> None:
        if a == b:
            raise ModelRetry("a and b must differ")

    checked = adopted(add, args_validator=check)

    assert "Timed out" in call(adopted(slow, timeout=0.05)).text
    assert call(checked, {"a": 2}).text == "a and b must differ"


def test_images_in_a_tool_return_with_content() -> None:
    """The images of its value are content, as those beside it are."""
    image = BinaryContent(b"ab", media_type="image/png")

    def give() -> ToolReturn:
        """Give."""
        return ToolReturn([image, "one"], content=["more", image])

    def count() -> ToolReturn:
        """Count."""
        return ToolReturn([1, 2], content=["more", image])

    shown = ImageContent(data=b"ab")
    assert call(adopted(give)).output == [
        shown, TextContent(text="one"), TextContent(text="more"), shown,
    ]  # fmt: skip
    assert call(adopted(count)).output[0] == TextContent(text="[1,2]")


def test_tool_return_of_a_native_tool() -> None:
    """A `ToolReturn` gives its value, its content and its metadata."""

    def give() -> ToolReturn:
        """Give."""
        more = ["more", BinaryContent(b"ab", media_type="image/png")]
        return ToolReturn("value", content=more, metadata={"k": 1})

    result = call(adopted(give))

    assert result.output == [
        TextContent(text="value"),
        TextContent(text="more"),
        ImageContent(data=b"ab"),
    ]
    assert result.metadata == {"tool_return": {"k": 1}}


# --- runner


@pytest.mark.parametrize("runner", [bridge.runner, None])
def test_runner_answers_with_usage(runner: Any) -> None:
    """The output is the answer and the run's usage is in the metadata, with the runner or without."""
    result = ask(expert(Agent(scripted("42")), runner=runner))

    assert result.text == "42"
    assert result.metadata["usage"]["requests"] == 1
    assert result.metadata["usage"]["input_tokens"] > 0 and set(result.metadata) == {"usage"}


def test_structured_output() -> None:
    """A typed output keeps its value."""
    agent = Agent(TestModel(custom_output_args={"user": "ada"}), output_type=Deps)

    assert ask(expert(agent)).value == Deps("ada")


def test_runner_works_with_output_validators() -> None:
    """An agent with output validators, which takes no other output type, runs too."""
    agent = Agent(scripted("42"))
    agent.output_validator(lambda text: text + "!")

    assert ask(expert(agent)).text == "42!"


@pytest.mark.parametrize("thread", [[], Conversation()])
def test_thread_remembers(thread: Any) -> None:
    """A list of messages, or a `Conversation`, grows by each run."""
    model = scripted("first", "second")
    tool = expert(Agent(model), thread=lambda context: thread)

    ask(tool, text="one", id="c1")
    second = ask(tool, text="two", id="c2")

    assert second.metadata["usage"]["requests"] == 1  # Of this call alone.
    read = [part.content for message in model.seen[1][0] for part in message.parts]
    assert read == ["one", "first", "two"]
    assert len(thread.messages if isinstance(thread, Conversation) else thread) == 4


def test_a_call_that_waited_keeps_what_a_store_knows() -> None:
    """After a pause the `Conversation` has the revision of its stored copy still, and knows what is new."""
    thread = Conversation(revision="7", new_message_index=0)
    model = scripted([("i1", "pay", {"amount": 1})], "paid")
    agent = Agent(model, tools=[bridge.export(paying([]))])
    tool, context = expert(agent, thread=lambda context: thread), Context()
    context.approve(ask(tool, context).metadata["approval"])
    assert ask(tool, context).text == "paid"
    assert (thread.revision, thread.new_message_index, len(thread.messages)) == ("7", 0, 4)
    assert thread.deferred_tool_requests is None


@pytest.mark.parametrize("thread", [[], Conversation()])
def test_a_call_that_waited_keeps_what_was_said_meanwhile(thread: Any) -> None:
    """Its messages come after those of the calls that used the thread while a person decided."""
    model = scripted([("i1", "pay", {"amount": 1})], "meanwhile", "paid")
    agent = Agent(model, tools=[bridge.export(paying([]))])
    tool, context = expert(agent, thread=lambda context: thread), Context()
    waiting = ask(tool, context, text="one", id="c1")
    ask(tool, context, text="two", id="c2")
    context.approve(waiting.metadata["approval"])
    assert ask(tool, context, text="one", id="c1").text == "paid"

    messages = thread.messages if isinstance(thread, Conversation) else thread
    said = [part for message in messages for part in message.parts]
    asked = [part.content for part in said if part.part_kind == "user-prompt"]
    assert asked == ["two", "one"] and len(messages) == 6


@pytest.mark.parametrize("shared", [False, True])
def test_a_call_that_waited_adds_its_usage_to_that_of_the_others(shared: bool) -> None:
    """What other calls used while a person decided stays counted, and not as that of this call."""
    thread, usage = Conversation(), RunUsage()
    model = scripted([("i1", "pay", {"amount": 1})], "meanwhile", "paid")
    agent = Agent(model, tools=[bridge.export(paying([]))])
    options: Any = {"runner": partial(bridge.runner, usage=usage)}
    tool = expert(agent, **(options if shared else {"thread": lambda context: thread}))
    context = Context()
    waiting = ask(tool, context, text="one", id="c1")
    assert ask(tool, context, text="two", id="c2").metadata["usage"]["requests"] == 1
    context.approve(waiting.metadata["approval"])

    assert ask(tool, context, text="one", id="c1").metadata["usage"]["requests"] == 2
    assert (usage if shared else thread.usage).requests == 3


def test_a_call_that_waited_keeps_the_history_it_was_given() -> None:
    """After a pause the model reads the `message_history` of the runner's options again."""
    before = [ModelRequest(parts=[UserPromptPart("zero")])]
    model = scripted([("i1", "pay", {"amount": 1})], "paid")
    agent = Agent(model, tools=[bridge.export(paying([]))])
    runner = partial(bridge.runner, message_history=before)
    tool, context = expert(agent, runner=runner), Context()
    context.approve(ask(tool, context, text="one").metadata["approval"])
    assert ask(tool, context, text="one").text == "paid"

    read = [part for message in model.seen[-1][0] for part in message.parts]
    assert [part.content for part in read if part.part_kind == "user-prompt"] == ["zero", "one"]
    assert len(before) == 1


def test_a_runner_may_share_a_usage() -> None:
    """A usage that is given to the runner counts all calls, and each result has its own, also after a pause."""
    usage = RunUsage()
    model = scripted("first", [("i1", "pay", {"amount": 1})], "paid")
    agent = Agent(model, tools=[bridge.export(paying([]))])
    tool, context = expert(agent, runner=partial(bridge.runner, usage=usage)), Context()
    assert ask(tool, context, id="c1").metadata["usage"]["requests"] == 1
    context.approve(ask(tool, context, id="c2").metadata["approval"])
    assert ask(tool, context, id="c2").metadata["usage"]["requests"] == 2
    assert usage.requests == 3


def test_an_agent_inside_of_a_call_may_use_the_id_of_that_call() -> None:
    """An agent that shares usage and deps with the agent around it, and whose model chooses the same id, ends no run."""

    @FunctionTool
    async def leaf() -> str:
        """Leaf."""
        return "leaf"

    inner = agent_of([leaf], [("call_0", "leaf", {})], "leaf has run")
    usage, told = RunUsage(), list[str]()

    @FunctionTool
    async def expert(context: Context) -> str:
        """Ask the inner agent."""
        answer = (await inner.run("go", usage=usage)).output
        context.emit("expert:asked", answer=answer)
        return answer

    async def listen(run: RunContext[Any], events: Any) -> None:
        told.extend(
            [event.what async for event in events if isinstance(event, bridge.ToolProgressEvent)]
        )

    outer = agent_of([expert], [("call_0", "expert", {})], "expert has run")
    result = asyncio.run(outer.run("go", usage=usage, event_stream_handler=listen))
    assert result.output == "expert has run"
    assert [part.content for part in returns(result.all_messages())] == ["leaf has run"]
    assert told == ["expert:asked"]


def test_external_call_of_an_agent_is_an_error() -> None:
    """A tool that runs outside of the agent cannot be answered here, and the error says so."""

    def outside() -> str:
        """Leave it to somebody."""
        raise CallDeferred

    agent = Agent(scripted([("i1", "outside", {})], "x"), tools=[outside])
    result = ask(expert(agent))

    assert result.is_error and "outside" in result.text
    assert call(adopted(outside)).is_error


@dataclass
class Tenant:
    """Dependencies that refer to what the run has used, as a host's may."""

    usage: RunUsage | None = None


def test_a_run_is_forgotten_whose_dependencies_refer_to_its_usage() -> None:
    """No run keeps its dependencies alive: not one that shares its usage with them, nor one of a usage that lives on."""
    total, gone = RunUsage(), []
    agent = agent_of([FunctionTool(lambda: "x", name="noop")], [("c1", "noop", {})], "done")
    for usage in (None, total):
        with agent.override(model=scripted([("c1", "noop", {})], "done")):
            deps = Tenant(usage or RunUsage())
            asyncio.run(agent.run("go", deps=deps, usage=deps.usage))
            gone.append(weakref.ref(deps))
            del deps
    gc.collect()

    assert [one() for one in gone] == [None, None]


def test_a_context_that_lives_on_keeps_no_listener_of_a_run() -> None:
    """A host may keep the results of many runs, and their usage with them."""
    context = Context()
    agent = agent_of([FunctionTool(lambda: "x", name="noop")], [("c1", "noop", {})], "done")
    kept = asyncio.run(agent.run("go", deps=context))

    assert kept.output == "done" and not context.listened
