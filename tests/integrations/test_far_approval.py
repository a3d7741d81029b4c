"""Approvals of calls that run on a worker: what a guardrail there asks the host's approver."""

import asyncio

import pytest

from functool import (
    ApprovalRequest,
    Context,
    Decision,
    FunctionTool,
    GuardrailError,
    ToolCall,
    ToolError,
    ToolResult,
    WrapperTool,
)
from functool.guardrails import require_approval, trusted_only
from functool.integrations.far_approval import (
    Agreements,
    agreed,
    for_next_attempt,
    with_approval,
)
from tests.support import call


def agrees(answer):
    """Whether the host agrees to a request of the worker, if its approver gives this answer."""
    request = ApprovalRequest.of("pay", "d", {"amount": 500}, "c1")
    return asyncio.run(agreed(request, Context(approver=answer)))


def test_the_host_agrees_if_a_person_does():
    """An approver answers with a bool or a decision, as it does for a guardrail of the host."""
    assert agrees(lambda request: True)
    assert agrees(lambda request: Decision(True, "fine"))
    assert not asyncio.run(agreed(ApprovalRequest.of("pay", "d", {}, "c1"), Context()))
    with pytest.raises(GuardrailError, match="^A person refused this call: too much$"):
        agrees(lambda request: Decision(False, "too much"))


@pytest.mark.parametrize(
    "answer", [Decision({"amount": 5}), Decision(1), (True, {"amount": 5}), 1, None]
)
def test_an_answer_that_is_no_decision_is_no_approval(answer):
    """Arguments in the wrong place are not dropped, and the call does not run as it was sent."""
    with pytest.raises(TypeError, match="expected bool or Decision"):
        agrees(lambda request: answer)


def test_an_edit_in_the_request_itself_is_no_approval():
    """An approver that changes the request would approve what the worker does not run."""

    def change(request):
        request.arguments["amount"] = 5
        return True

    with pytest.raises(GuardrailError, match="changed the request in place"):
        agrees(change)


def test_an_edit_is_said_to_be_impossible():
    """The arguments of a call that is on a worker stay as they were sent."""
    with pytest.raises(GuardrailError, match="only a guardrail of the host"):
        agrees(lambda request: Decision(True, arguments={"amount": 5}))


def guarded(name, ran):
    """A tool that asks for approval, and notes that it ran."""
    body = lambda to: ran.append(name) or name  # noqa: E731
    return FunctionTool(body, name=name, input_guardrails=[require_approval()])


def on_a_worker(tool, context, worker_tool=None):
    """Run a call on a host, and its body on a worker, as the bridges do it."""

    async def far(call, view, proceed):
        agreements = Agreements(call, view)
        for _ in range(9):
            there = with_approval(worker_tool or tool, Context(), agreements.digests)
            sent = ToolCall(name=tool.name, arguments=call.arguments, id=call.id)
            result = await there[0].invoke(sent, there[1])
            asked = result.metadata.get("approval")
            if asked is None or not await agreements.add(asked):
                return result
        raise AssertionError("it is sent again and again")

    return call(tool.around(far), {"to": "Ada"}, context)


def agreeing():
    """A context whose person agrees to everything, and what the person was asked."""
    asked = []
    return Context(approver=lambda request: asked.append(request.tool) or True), asked


def two_tools(ran):
    """A wrapper that asks, around a tool that asks."""
    inner = guarded("pay", ran)
    return WrapperTool(inner, name="bank_pay", input_guardrails=[require_approval()])


def two_guardrails(ran):
    """A tool whose two guardrails ask, one of them with the sources of the arguments."""
    tool = guarded("pay", ran)
    tool.add_input_guardrails([trusted_only("to", ask=True, wrote=lambda context: "hello")])
    return tool


@pytest.mark.parametrize("make", [two_tools, two_guardrails])
def test_several_approvals_of_one_call_are_all_given_on_the_worker(make):
    """A person is asked once for each approval, and the body runs once."""
    ran = []
    context, asked = agreeing()

    assert on_a_worker(make(ran), context).text == "pay"
    assert (len(asked), ran) == (2, ["pay"])


def test_several_approvals_may_be_asked_by_the_worker_alone():
    """The host's person answers each once, and the body runs once."""
    ran = []
    context, asked = agreeing()
    host = FunctionTool(lambda to: None, name="bank_pay")

    assert on_a_worker(host, context, two_tools(ran)).text == "pay"
    assert (asked, ran) == (["bank_pay", "pay"], ["pay"])


@pytest.mark.parametrize("mark", ["!", ""])
@pytest.mark.parametrize("ids", [("inner_0", "inner_1"), ("c1", "c1")])
def test_a_body_that_starts_over_runs_nothing_twice_with_one_approval(ids, mark):
    """A body that pays, and then waits for a person to ship, does not pay again, even if it hands on its own call."""
    ran = []
    pay, ship = guarded("pay", ran), guarded("ship", ran)

    async def order(to: str, context: Context):
        for tool, id in zip([pay, ship], ids, strict=True):
            inner = ToolCall(name=tool.name, arguments={"to": f"{to}{mark}"}, id=id)
            result = await tool.invoke(inner, context)
            if result.is_error:
                return result
        return result

    context, asked = agreeing()
    result = on_a_worker(FunctionTool(order), context)

    assert (asked, ran) == (["pay", "ship"], ["pay"])
    assert result.error.type == "ToolError"
    assert f"its call '{ids[0]}' of pay again, which may have run" in result.text


@pytest.mark.parametrize("id", ["inner", "c1"])
@pytest.mark.parametrize("is_told", [True, False])
def test_an_approval_inside_of_a_body_is_not_used_again_after_a_lost_worker(is_told, id):
    """The host that sends the call again, or the worker that gets it as its next attempt, knows what may have run."""
    ran = []
    pay = guarded("pay", ran)

    async def order(to: str, context: Context):
        inner = ToolCall(name="pay", arguments={"to": to}, id=id)
        return await pay.invoke(inner, context)

    async def far(call, view, proceed):
        agreements, lost = Agreements(call, view), []
        while True:
            sent = agreements.digests
            sent = for_next_attempt(sent) if lost and not is_told else sent
            tool, context = with_approval(worker, Context(), sent)
            result = await tool.invoke(call, context)
            if result.success and not lost:
                lost.append(result)
                if is_told:
                    agreements.start_over()
            elif not await agreements.add(result.metadata["approval"]):
                return result

    context, asked = agreeing()
    worker = FunctionTool(order, input_guardrails=[require_approval()])
    host = worker.around(far)
    result = call(host, {"to": "Ada"}, context)

    assert (asked, ran) == (["order", "pay"], ["pay"])
    assert f"its call '{id}' of pay again, which may have run" in result.text


@pytest.mark.parametrize("id", ["", "inner_0", "c1"])
def test_one_approval_is_for_one_call_inside_of_a_body(id):
    """A second call with the same id and arguments does not run with the approval of the first one."""
    ran = []
    pay = guarded("pay", ran)

    async def twice(to: str, context: Context):
        for _ in range(2):
            result = await pay.invoke(ToolCall(name="pay", arguments={"to": to}, id=id), context)
            if result.is_error:
                return result
        return result

    context, asked = agreeing()
    result = on_a_worker(FunctionTool(twice), context)

    assert (asked, ran) == (["pay"], ["pay"])
    assert "may have run already" in result.text


@pytest.mark.parametrize("id", ["", "inner_0", "c1"])
def test_one_approval_is_for_one_call_of_a_wrapper(id):
    """A wrapper on the worker may make calls of its own, outside of the body. They are approved once, too."""
    ran = []
    pay = guarded("pay", ran)

    class Paying(WrapperTool):
        async def run(self, call: ToolCall, context: Context) -> ToolResult:
            for _ in range(2):
                inner = ToolCall(name="pay", arguments={"to": "Ada"}, id=id)
                result = await pay.invoke(inner, context)
                if result.is_error:
                    return result
            return await super().run(call, context)

    order = FunctionTool(lambda to: to, name="order")
    context, asked = agreeing()
    result = on_a_worker(order, context, Paying(order))

    assert (asked, ran) == (["pay"], ["pay"])
    assert "may have run already" in result.text


def test_a_body_that_asks_for_a_new_call_each_time_is_stopped():
    """A person who agrees to everything is asked a hundred times at most."""
    context, asked = agreeing()
    agreements = Agreements(ToolCall(name="pay", id="c1"), context)

    async def all_new():
        for number in range(101):
            await agreements.add(ApprovalRequest.of("pay", "d", {}, f"c1/{number}"))

    with pytest.raises(ToolError, match="was stopped"):
        asyncio.run(all_new())
    assert len(asked) == 100
