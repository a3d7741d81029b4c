"""`block`, `rate_limit`, `budget` and `max_repeats`: which calls get through, and how many."""

import asyncio
import gc
import re
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from functool import (
    AgentTool,
    Context,
    DefinitionError,
    FunctionTool,
    GuardrailError,
    SchemaTool,
    ToolCall,
    Toolset,
)
from functool.guardrails import block, budget, max_repeats, rate_limit, trusted_only
from tests.guardrails.tools import echo_tool
from tests.support import call


def run_command(**options):
    ran = []

    def shell(command: str, note: str = "", extra: dict[str, list[str]] | None = None):
        """Run a command."""
        ran.append(command)
        return "ran"

    return FunctionTool(shell, **options), ran


def test_block_looks_at_decoded_arguments():
    """An escaped spelling in the JSON does not get past."""
    tool, ran = run_command(input_guardrails=[block([r"rm\s+-rf"], argument="command")])

    assert call(tool, '{"command": "r\\u006d -rf /"}').error.type == "GuardrailError"
    assert call(tool, {"command": "ls", "note": "rm -rf"}).text == "ran"
    assert ran == ["ls"]


def test_block_without_argument_looks_everywhere():
    """Keys and values at every depth are looked at."""
    tool, ran = run_command(input_guardrails=[block(["secret"])])

    for arguments in (
        {"command": "secret"},
        {"command": "x", "extra": {"k": ["a", "secret"]}},
        {"command": "x", "extra": {"secret": []}},
    ):
        assert call(tool, arguments).is_error
    assert ran == []


def test_block_reads_what_is_no_text_as_json_spells_it():
    """true and false are found by their names in JSON, numbers by their digits; null has no text."""
    guard = block(["^(?:true|666|null|None)$"])
    for arguments in ({"a": True}, {"a": [666]}):
        with pytest.raises(GuardrailError):
            guard(ToolCall(name="t", arguments=arguments), Context())

    assert guard(ToolCall(name="t", arguments={"a": [None, False, 66.6]}), Context()) is None


def test_block_with_a_wrong_argument_name_fails_closed():
    """A misspelt argument name in the guardrail refuses every call: it never lets through what it cannot see."""
    tool, ran = run_command(input_guardrails=[block(["rm"], argument="comand")])

    assert call(tool, {"command": "ls"}).is_error and ran == []


def test_block_with_the_name_that_a_model_sends_fails_closed():
    """An argument goes by its parameter's name; by its alias nothing could be seen of it, so every call is refused."""
    ran = []

    def shell(cmd: Annotated[str, Field(alias="command")], note: str = "") -> str:
        ran.append(cmd)
        return "ran"

    by_alias, by_name = (
        FunctionTool(shell, input_guardrails=[block(["rm"], argument=name)])
        for name in ("command", "cmd")
    )

    for command in ("rm", "ls"):
        assert call(by_alias, {"command": command}).is_error
    assert call(by_name, {"command": "rm"}).is_error
    assert call(by_name, {"command": "ls"}).success
    assert ran == ["ls"]


def test_block_looks_at_what_the_schema_does_not_name():
    """An open schema lets the argument come under another name, so all unknown names are looked at."""
    schema = {"properties": {"command": {}, "note": {}}}
    guards = [block(["rm"], argument="command")]
    tool = SchemaTool("shell", "Run.", schema, lambda given: "ran", input_guardrails=guards)

    assert call(tool, {"cmd": "ls", "note": "rm"}).text == "ran"
    assert call(tool, {"cmd": ["rm"]}).text == (
        "Blocked: the argument 'command' matches a blocked pattern."
    )
    assert call(tool, {"command": "ls", "cmd": "rm"}).text == "ran"


def test_block_lets_an_argument_be_left_out():
    """What the call does not hold cannot match."""

    def shell(command: Annotated[str, Field(default_factory=lambda: "ls")], note: str = "") -> str:
        return command

    tool = FunctionTool(shell, input_guardrails=[block(["rm"], argument="command")])

    assert call(tool, {"note": "rm"}).text == "ls"


def test_a_block_refusal_does_not_repeat_the_argument():
    """The refusal names the argument, not its value."""
    tool, _ = run_command(input_guardrails=[block(["tok"], argument="command")])

    assert "tok-123" not in call(tool, {"command": "tok-123"}).text


@pytest.mark.parametrize("per", ["tool", "context"])
def test_rate_limit_counts_per_tool_or_context(monkeypatch, per):
    """So many calls of each tool per time, by a clock that nobody sets; in the process, or in each context."""
    clock = [1000.0]
    monkeypatch.setattr("functool.guardrails.calls.time.monotonic", lambda: clock[0])
    monkeypatch.setattr("functool.guardrails.calls.time.time", lambda: 0.0)
    limit = rate_limit(2, 10, per=per)
    one, two = (echo_tool(1, name=name, input_guardrails=[limit]) for name in ("one", "two"))
    context, other = Context(), Context()

    assert [call(one, context=context).success for _ in range(3)] == [True, True, False]
    assert call(two, context=context).success
    assert call(one, context=other).success == (per == "context")
    clock[0] += 10
    assert [call(one, context=context).success for _ in range(3)] == [True, True, False]
    assert "2 in 10 seconds" in call(one, context=context).text


def test_rate_limit_counts_where_nobody_shares_a_context():
    """Hosts that make a context for each call, or none, are limited by default; `per="context"` does not see them."""
    tools = [
        echo_tool(1, name="echo", input_guardrails=[limit])
        for limit in (rate_limit(1, 3600), rate_limit(1, 3600, "context"))
    ]
    for contexts in ([None] * 5, [Context() for _ in range(5)]):
        counts = [sum(call(tool, context=c).success for c in contexts) for tool in tools]
        assert counts == [contexts == [None] * 5, 5]


def test_rate_limit_holds_under_parallel_calls():
    """A hundred calls at once: two run."""
    tool, context = echo_tool(1, input_guardrails=[rate_limit(2, 60)]), Context()
    results = asyncio.run(
        Toolset([tool]).call_all([ToolCall(name="echo", id=str(i)) for i in range(100)], context)
    )

    assert sum(result.success for result in results) == 2


@pytest.mark.parametrize(
    ("calls", "seconds"),
    [
        *[(0, 1), (True, 1), ("1", 1), (1.5, 1)],
        *[(1, 0), (1, -1), (1, float("nan")), (1, "5"), (1, None), (1, True)],
    ],
)
def test_rate_limit_refuses_nonsense(calls, seconds):
    """Bad numbers are refused at definition."""
    with pytest.raises(DefinitionError):
        rate_limit(calls, seconds)
    if seconds is not None:
        with pytest.raises(DefinitionError):
            budget(calls, seconds)


@pytest.mark.parametrize("per", ["process", None, "", ["tool"], True])
def test_what_counts_together_is_checked_at_definition(per):
    """`per` is `"tool"` or `"context"`, and the error says so."""
    for make in (lambda: rate_limit(1, 1, per=per), lambda: budget(1, per=per)):
        said = f'per must be "tool" or "context", not {per!r}'
        with pytest.raises(DefinitionError, match=f"^{re.escape(said)}$"):
            make()


# ---- budget


def counted_tool(name, *guardrails):
    ran = []

    async def body(n: int = 0):
        await asyncio.sleep(0)
        ran.append(n)
        return n

    return FunctionTool(body, name=name, input_guardrails=guardrails), ran


def test_a_budget_counts_all_its_tools_in_a_context():
    """One object counts every tool that it is attached to; another context has its own, and another object counts for itself."""
    shared = budget(3)
    one, ran_one = counted_tool("one", shared)
    two, ran_two = counted_tool("two", shared, budget(2))
    context = Context()
    answers = [call(tool, {}, context) for tool in (one, two, one, two, one)]

    assert [answer.success for answer in answers] == [True, True, True, False, False]
    assert answers[-1].error.type == "GuardrailError"
    assert answers[-1].text == (
        "The budget is used up: 0 of 3 calls are left. Make no such call again: answer with what"
        " you have, and say what is missing."
    )
    assert (len(ran_one), len(ran_two)) == (2, 1)
    assert call(one, {}, Context()).success


def test_a_budget_of_seconds(monkeypatch):
    """Time runs from the first call on, and a refusal says what is left of both."""
    clock = [1000.0]
    monkeypatch.setattr("functool.guardrails.calls.time.monotonic", lambda: clock[0])
    tool, _ = counted_tool("one", budget(3, 10))
    timed, _ = counted_tool("one", budget(seconds=10))
    context, told = Context(), []
    for passed in (0, 4.5, 0, 0):
        clock[0] += passed
        told.append(call(tool, {}, context).text.partition(". Make")[0])
        call(timed, {}, context)
    clock[0] += 5.5

    left = "The budget is used up: 0 of 3 calls and {} of 10 seconds are left"
    assert told == ["0", "0", "0", left.format(5.5)]
    assert call(tool, {}, context).text.startswith(left.format(0))
    assert call(timed, {}, context).text.startswith("The budget is used up: 0 of 10 seconds are")


def test_a_budget_per_tool_counts_in_the_process():
    """Each tool has its own, whoever calls it and in whichever context."""
    shared = budget(2, per="tool")
    one, two = counted_tool("one", shared)[0], counted_tool("two", shared)[0]

    assert [call(one, {}, Context()).success for _ in range(3)] == [True, True, False]
    assert [call(two).success for _ in range(3)] == [True, True, False]


def test_a_budget_counts_what_passes_it():
    """A call that is refused before it, or whose arguments are wrong, costs nothing; one that it refuses, neither."""
    tool, ran = counted_tool("one", block(["666"]), budget(2))
    context = Context()
    for arguments in ({"n": 666}, {"n": "x"}, {"m": 1}, {"n": 1}, {"n": 2}, {"n": 3}):
        call(tool, arguments, context)

    assert ran == [1, 2]


@pytest.mark.parametrize(
    ("limit", "most"), [(budget, [1]), (max_repeats, [1]), (rate_limit, [1, 60])]
)
def test_a_call_that_a_layer_answers_again_is_not_counted(limit, most):
    """A layer marks such a call, which counted when it ran; every other mark counts."""
    tool, ran = counted_tool("one", limit(*most))
    context = Context()
    marks = ({}, {"again": True}, {"again": "yes"})
    calls = [ToolCall(name="one", arguments={"n": 1}, metadata=mark) for mark in marks]

    assert [asyncio.run(tool(each, context)).success for each in calls] == [True, True, False]
    assert ran == [1, 1]


@pytest.mark.parametrize("per", ["tool", "context"])
def test_a_budget_is_exact_under_parallel_calls(per):
    """Of a hundred calls at once, to two tools of a turn, as many run as there are in the budget."""
    shared = budget(7, per=per)
    tools, ran = zip(*(counted_tool(name, shared) for name in ("one", "two")), strict=True)
    calls = [ToolCall(name=("one", "two")[i % 2], id=str(i)) for i in range(100)]
    results = asyncio.run(Toolset(tools).call_all(calls, Context()))

    assert sum(result.success for result in results) == (7 if per == "context" else 14)
    assert sum(map(len, ran)) == (7 if per == "context" else 14)


@given(st.integers(1, 5), st.lists(st.sampled_from(["one", "two"]), max_size=12))
def test_budget_law(calls, names):
    """Law: the first calls run and no other, whichever tools they are for."""
    shared = budget(calls)
    tools = {name: counted_tool(name, shared)[0] for name in ("one", "two")}
    context = Context()
    ran = [call(tools[name], {}, context).success for name in names]

    assert ran == [i < calls for i in range(len(names))]


def test_an_agents_inner_calls_count_in_the_same_budget():
    """An agent gets what is left: its own call and those of its tools come out of one budget."""
    shared = budget(4)
    tool, ran = counted_tool("look", shared)

    async def runner(agent, text, context):
        calls = [ToolCall(name="look", arguments={"n": n}, id=f"i{n}") for n in range(5)]
        results = await Toolset([tool]).call_all(calls, context)
        return sum(result.success for result in results)

    agent = AgentTool("agent", "agent", "Ask.", runner=runner, input_guardrails=[shared])
    context = Context()

    assert call(tool, {"n": 9}, context).success
    assert call(agent, {"input": "x"}, context).value == 2
    assert call(agent, {"input": "x"}, context).error.type == "GuardrailError"
    assert ran == [9, 0, 1]


@pytest.mark.parametrize("given", [(), (None, None), (0,), (None, 0), ("3",), (1.0,), (1, "x")])
def test_budget_refuses_nonsense(given):
    """A budget without a limit, or with one that is no positive number, is refused at definition."""
    with pytest.raises(DefinitionError, match="^budget needs a positive int of calls, a positive"):
        budget(*given)


# ---- max_repeats


def test_max_repeats_refuses_the_same_call_in_a_row():
    """The call after the nth is refused with advice, however its JSON is spelt, until another one comes."""
    tool, ran = counted_tool("one", max_repeats(2))
    context = Context()
    same = ['{"n": 1}', {"n": 1}, ' {"n":1} ', {"n": 1}]
    answers = [call(tool, arguments, context, f"c{i}") for i, arguments in enumerate(same)]

    assert [answer.success for answer in answers] == [True, True, False, False]
    assert answers[2].text == (
        "The same call came 3 times in a row; at most 2 are answered. Use the answer that you"
        " have, change the arguments, or try another way."
    )
    assert [call(tool, {"n": n}, context).success for n in (2, 1, 1, 1)] == [True] * 3 + [False]
    assert call(tool, {"n": 1}, Context()).success
    assert ran == [1, 1, 2, 1, 1, 1]


def test_max_repeats_of_several_tools():
    """Of tools with the same object a call of one begins a new row; the same arguments for another tool are another call."""
    shared = max_repeats(1)
    one, two = counted_tool("one", shared)[0], counted_tool("two", shared)[0]
    alone, context = counted_tool("alone", max_repeats(1))[0], Context()
    tools = [one, two, one, alone, one, alone]

    assert [call(tool, {}, context).success for tool in tools] == [True] * 4 + [False, False]


def test_max_repeats_tells_values_apart():
    """1, 1.0, true and "1" are different arguments."""
    guard, context = max_repeats(1), Context()
    for value in (1, True, 1.0, "1", [1], None):
        assert guard(ToolCall(name="t", arguments={"n": value}), context) is None
    assert guard(ToolCall(name="t", arguments='{"n": 1}'), context) is None
    with pytest.raises(GuardrailError):
        guard(ToolCall(name="t", arguments='{"n": 1}'), context)


def test_max_repeats_is_exact_under_parallel_calls():
    """Of fifty equal calls at once as many run as may."""
    tool, ran = counted_tool("one", max_repeats(3))
    calls = [ToolCall(name="one", id=str(i)) for i in range(50)]
    asyncio.run(Toolset([tool]).call_all(calls, Context()))

    assert len(ran) == 3


@pytest.mark.parametrize("n", [0, -1, True, 1.5, "3", None])
def test_max_repeats_refuses_nonsense(n):
    """`n` is a positive int."""
    with pytest.raises(DefinitionError, match=f"^max_repeats needs a positive int, not {n!r}$"):
        max_repeats(n)


def test_what_counts_is_kept_apart():
    """Two objects of one kind, and the three kinds, never share a count in a context."""
    guards = [rate_limit(1, 60, "context") for _ in range(2)] + [budget(1), max_repeats(1)]
    context = Context()
    for guard in guards:
        assert guard(ToolCall(name="t"), context) is None
    for guard in guards:
        with pytest.raises(GuardrailError):
            guard(ToolCall(name="t"), context)


def test_block_lets_through_what_matches_nowhere():
    """Every depth is looked at, an absent value included, and the body runs."""
    tool, ran = run_command(input_guardrails=[block(["secret"])])

    assert call(tool, {"command": "x", "extra": {"k": ["a", "b"], "l": []}}).text == "ran"
    assert call(tool, {"command": "y", "extra": None}).text == "ran"
    assert ran == ["x", "y"]


def test_what_block_says():
    """The refusal names the argument, or the call; a name that cannot be looked at is said in the log's error."""

    def refusal(value, argument=None):
        tool, _ = run_command(input_guardrails=[block(["rm"], argument=argument)])
        return call(tool, {"command": value}).text

    assert refusal("rm", "command") == "Blocked: the argument 'command' matches a blocked pattern."
    assert refusal("rm") == "Blocked: the call matches a blocked pattern."
    with pytest.raises(LookupError, match="^the tool has no argument 'other' to look at$"):
        block(["rm"], argument="other")(
            ToolCall(name="shell", arguments={"command": "ls"}), Context()
        )


def test_block_outside_of_a_tool():
    """A host may ask it about a call of its own, whose arguments are still text: all of that is looked at."""
    guard = block(["rm"])

    assert guard(ToolCall(name="shell", arguments='{"command": "ls"}'), Context()) is None
    with pytest.raises(GuardrailError, match="Blocked"):
        guard(ToolCall(name="shell", arguments='{"command": "rm"}'), Context())


def test_block_passes_a_call_that_leaves_all_out():
    """A named argument that is known, and was not sent, leaves nothing to look at."""

    def shell(command: Annotated[str, Field(default_factory=lambda: "ls")]) -> str:
        return command

    tool = FunctionTool(shell, input_guardrails=[block(["rm"], argument="command")])
    assert call(tool).text == "ls"


def test_each_rate_limit_counts_for_itself(monkeypatch):
    """Two limits on one tool have a window each, the smallest are one call and parts of a second, and the wait is said."""
    clock = [100.0]
    monkeypatch.setattr("functool.guardrails.calls.time.monotonic", lambda: clock[0])
    tool = echo_tool(1, name="one", input_guardrails=[rate_limit(1, 0.5), rate_limit(3, 60)])
    context, told = Context(), []
    for _ in range(4):
        told.append(call(tool, context=context).text)
        told.append(call(tool, context=context).text)
        clock[0] += 0.5

    second = "Too many calls: at most 1 in 0.5 seconds. Try again in 0.5 seconds."
    late = "Too many calls: at most 3 in 60 seconds. Try again in "
    assert told == ["1", second, "1", second, "1", second, f"{late}58.5 seconds.", second]
    said = "^rate_limit needs a positive int and a positive number of seconds, not 0 and 'x'$"
    with pytest.raises(DefinitionError, match=said):
        rate_limit(0, "x")


def test_a_rate_limit_counts_by_the_tools_own_name():
    """The name on the call may be anything: what counts is the tool; outside of one there is only the call."""
    limit, context = rate_limit(1, 60), Context()
    tool = echo_tool(1, name="one", input_guardrails=[limit])
    results = [call(tool, {}, context) for name in ("a", "b")]

    assert [result.success for result in results] == [True, False]
    assert limit(ToolCall(name="a"), context) is None
    with pytest.raises(GuardrailError):
        limit(ToolCall(name="a"), context)


@pytest.mark.parametrize("guardrail", [block(["secret"]), trusted_only("x", wrote=lambda c: "")])
def test_many_lists_are_looked_through_without_the_collector(guardrail):
    """A guardrail that looks at half a million lists does not let the collector look at them."""
    looked: list[int] = []

    @FunctionTool(input_guardrails=[guardrail])
    async def note(x: Any) -> str:
        return "noted"

    text = '{"x": [' + ",".join(["[" * 40 + "]" * 40] * 1_000) + "]}"
    call(note, text)

    def counting(phase, about):
        looked.append(about["generation"])

    gc.callbacks.append(counting)
    try:
        result = call(note, text)
    finally:
        gc.callbacks.remove(counting)

    assert result.text == "noted"
    assert len(looked) < 30, len(looked)
