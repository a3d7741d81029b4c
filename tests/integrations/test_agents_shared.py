"""What the bridges to agent frameworks share."""

import asyncio
from dataclasses import replace

import pytest

from functool import (
    ApprovalRequest,
    Context,
    Decision,
    FunctionTool,
    ToolCall,
    ToolResult,
    WrapperTool,
)
from functool.approval import Grant, definition_of
from functool.guardrails import require_approval, trusted_only
from functool.integrations._agents import as_it_was, asker, decide, relayed
from functool.layers.catalog import Catalog
from tests.integrations.odd_tools import paying


@pytest.mark.parametrize("edited", [None, {"amount": 500}, {"amount": 5}])
def test_a_call_that_a_person_edited_does_not_run_as_it_was(edited):
    """Where a framework runs its own call, an edit is a refusal that tells the model the new arguments."""
    context = Context(approver=lambda request: Decision(approved=True, arguments=edited))
    call = ToolCall(name="pay", arguments={"amount": 500}, id="c1")
    decision = asyncio.run(decide(call, context))

    changed = edited == {"amount": 5}
    assert decision == Decision(approved=True, arguments=edited if changed else None)
    assert as_it_was(decision) == (
        'A person changed this call, so it did not run. Make it with these arguments: {"amount":5}'
        if changed
        else True
    )


def test_a_refusal_is_what_the_model_reads():
    """The person's reason stands in the decision, in words for the model."""
    context = Context(approver=lambda request: Decision(approved=False, reason="Too much."))
    decision = asyncio.run(decide(ToolCall(name="pay", id="c1"), context))

    assert as_it_was(decision) == "A person refused this call: Too much."


def asked(tool, arguments, context=None):
    return asyncio.run(asker(tool)(arguments, "c1", Context() if context is None else context))


def test_a_condition_without_an_answer_asks():
    """None says that a person has to be asked, as in the guardrail itself."""

    def pay(amount: int) -> str:
        """Pay."""
        return ""

    def asks(when):
        tool = FunctionTool(pay, input_guardrails=[require_approval(when)])
        return asked(tool, {"amount": 5})

    assert [asks(lambda call, context, it=it: it) for it in (False, None, 0, True)] == [
        False,
        True,
        False,
        True,
    ]


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_condition_sees_the_canonical_arguments(wrapped):
    """A condition reads what the road would show it: decoded, checked, and with the defaults."""
    seen = []

    def when(call, context):
        seen.append((call.name, call.arguments, call.id, context.schema.name))
        return call.arguments["fee"] > 5

    @FunctionTool(strict=True, input_guardrails=[require_approval(when)])
    def pay(amount: int, fee: int = 1, **flags: int) -> str:
        """Pay."""
        return ""

    tool = WrapperTool(pay, name="spend") if wrapped else pay
    flags = {"flags": [{"key": "fast", "value": 1}]}
    answers = [asked(tool, {"amount": 3, "fee": fee, **flags}) for fee in (None, 9)]

    assert answers == [False, True]
    name = tool.name
    assert seen == [
        (name, {"amount": 3, "fee": 1, "fast": 1}, "c1", "pay"),
        (name, {"amount": 3, "fee": 9, "fast": 1}, "c1", "pay"),
    ]


def test_when_in_doubt_a_person_is_asked():
    """Arguments that do not fit, and a condition that fails, ask a person."""

    pay = paying([], input_guardrails=[require_approval(lambda call, context: 1 / 0)])

    assert asked(pay, {"amount": "lots"})
    assert asked(pay, {"amount": 1})


def test_a_grant_that_covers_the_call_asks_nobody():
    """A standing grant is seen before the call and is not used up by looking; another call asks."""

    @FunctionTool(input_guardrails=[require_approval()])
    def pay(amount: int, to: str = "ada") -> str:
        """Pay."""
        return ""

    context = Context()
    context.grant(Grant.of(pay, {"amount": 3}))

    assert [asked(pay, {"amount": amount}, context) for amount in (3, 4)] == [False, True]
    assert asked(pay, {"amount": 3, "to": "bob"}, context)
    assert [grant.uses for grant in context.grants()] == [1]


def request_of(tool, call, **changes):
    definition = changes.pop("definition", definition_of(tool.schema))
    given = {"arguments": call.arguments, "call_id": call.id, **changes}
    return ApprovalRequest.of(tool.name, definition, given["arguments"], given["call_id"])


@pytest.mark.parametrize(
    ("shown", "agreed"),
    [
        (None, True),
        ({}, True),
        ({"arguments": {"amount": 1}}, False),
        ({"definition": "of another tool"}, False),
        ({"call_id": "inner"}, False),
    ],
)
def test_what_a_person_saw_is_what_runs(shown, agreed):
    """An agreement counts for the request that was shown, where the framework brought it back."""

    pay = paying([])
    call = ToolCall(name="pay", arguments={"amount": 7}, id="c1")
    seen = None if shown is None else request_of(pay, call, **shown)

    def runs(made):
        view = relayed(pay, call, Context(), [(seen, None)] if seen else ())
        result = asyncio.run(pay.invoke(made, view))
        assert result.success or result.error.type == "ApprovalRequired"
        return result.success

    assert [runs(call), runs(replace(call, id="another"))] == [agreed, False]


def test_what_an_approved_call_returned_is_a_trusted_value():
    """No wrapper is around the call, so `trusted_only` takes what it returned, as that of any other call."""
    pay, context = paying([]), Context()
    guard = trusted_only("note", wrote=lambda context: "")
    keep = FunctionTool(lambda note: note, name="keep", input_guardrails=[guard])
    call = ToolCall(name="pay", arguments={"amount": 7}, id="c1")
    paid = asyncio.run(pay.invoke(call, relayed(pay, call, context)))
    noted = asyncio.run(keep.invoke(ToolCall(name="keep", arguments={"note": paid.text}), context))

    assert (paid.success, noted.text) == (True, paid.text)


def test_without_a_request_a_person_saw_what_the_model_wrote():
    """An agreement without the request that was shown counts for the arguments of the call, not for changed ones."""
    pay = paying([])
    call = ToolCall(name="pay", arguments='{"amount": 7}', id="c1")

    def runs(arguments):
        made = replace(call, arguments=arguments)
        return asyncio.run(pay.invoke(made, relayed(pay, call, Context()))).success

    assert [runs({"amount": 7}), runs({"amount": 8})] == [True, False]


@pytest.mark.parametrize("bound", [True, False])
def test_an_edit_of_a_call_of_call_tool(bound):
    """The edited arguments are those of the tool behind it; an edit that names another tool agrees to nothing."""
    paid = []
    call_tool = WrapperTool(Catalog([paying(paid), paying([], name="waste")]).fixed()["call_tool"])
    arguments = {"name": "pay", "arguments": {"amount": 7}}
    call = ToolCall(name="call_tool", arguments=arguments, id="c1")
    shown = asyncio.run(call_tool.invoke(call)).metadata["approval"] if bound else None

    def answer(edited):
        return asyncio.run(
            call_tool.invoke(call, relayed(call_tool, call, Context(), [(shown, edited)]))
        )

    other = {"name": "waste", "arguments": {"amount": 7}}
    assert [answer(edit).is_error for edit in (other, {"name": "x"}, {})] == [True] * 3
    assert paid == []
    assert answer({"name": "pay", "arguments": {"amount": 3}}).text.endswith("paid 3")
    assert answer(None).text == "paid 7"
    assert paid == [3, 7]


def test_both_levels_of_a_wrapped_tool_take_one_agreement():
    """A wrapper and the tool inside of it may both ask: the person agreed to the call, and to it only."""

    tool = WrapperTool(paying([]), name="spend", input_guardrails=[require_approval()])
    call = ToolCall(name="spend", arguments={"amount": 7}, id="c1")
    pending = asyncio.run(tool.invoke(call)).metadata["approval"]
    results = [
        asyncio.run(tool.invoke(made, relayed(tool, made, Context(), [(pending, None)])))
        for made in (call, replace(call, arguments={"amount": 8}))
    ]

    assert results[0].text == "paid 7"
    assert results[1].error.type == "ApprovalRequired"


@pytest.mark.parametrize("id", ["", "inner", "c1"])
def test_one_approval_is_for_one_call_inside_of_a_body(id):
    """A body that makes a call, and the same call once more, waits for a person again."""
    paid = []
    pay = paying(paid)

    async def twice(context: Context):
        for _ in range(2):
            inner = ToolCall(name="pay", arguments={"amount": 7}, id=id)
            result = await pay.invoke(inner, context)
            if result.is_error:
                return result
        return result

    tool, call = FunctionTool(twice), ToolCall(name="twice", id="c1")
    pending = asyncio.run(tool.invoke(call)).metadata["approval"]
    context = relayed(tool, call, Context(), [(pending, None)])
    result = asyncio.run(tool.invoke(call, context))

    assert (result.error.type, paid) == ("ApprovalRequired", [7])


@pytest.mark.parametrize("changed", [False, True])
@pytest.mark.parametrize("name", ["pay", "retried"])
def test_one_approval_is_for_one_call_of_a_wrapper(name, changed):
    """A wrapper that makes its call again, because the first one failed, waits for a person again."""
    paid = []
    tool = paying(paid)
    if changed:
        tool.input_guardrails.insert(0, lambda call, _: replace(call, arguments={"amount": 8}))

    class Retried(WrapperTool):
        async def run(self, call: ToolCall, context: Context) -> ToolResult:
            first = await self.tool.invoke(call, context)
            return first if first.is_error else await self.tool.invoke(call, context)

    tool, call = Retried(tool, name=name), ToolCall(name=name, arguments={"amount": 7}, id="c1")
    pending = asyncio.run(tool.invoke(call)).metadata["approval"]
    result = asyncio.run(tool.invoke(call, relayed(tool, call, Context(), [(pending, None)])))

    assert (result.error.type, paid) == ("ApprovalRequired", [8 if changed else 7])


def test_an_edit_is_checked_and_told():
    """The edited arguments run, pass the guardrails again, and the model reads what was changed."""
    seen = []

    def look(call, context):
        seen.append(call.arguments["amount"])

    pay = paying([], input_guardrails=[look, require_approval()])

    call = ToolCall(name="pay", arguments={"amount": 7}, id="c1")
    pending = asyncio.run(pay.invoke(call)).metadata["approval"]
    seen.clear()
    good, bad = (
        asyncio.run(pay.invoke(call, relayed(pay, call, Context(), [(pending, edited)])))
        for edited in ({"amount": 3}, {"amount": "lots"})
    )

    assert good.text == "A person changed the arguments of this call: `amount` to 3.\npaid 3"
    assert good.metadata["decision"]["arguments"] == {"amount": 3}
    assert bad.error.type == "ArgumentError"
    assert seen == [7, 3, 7]
