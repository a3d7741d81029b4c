"""`require_approval`: what a person is asked, decides, edits and grants."""

import asyncio
import dataclasses
import json
import re

import pytest

from functool import (
    ApprovalRequest,
    Context,
    Decision,
    FunctionTool,
    ToolCall,
    WrapperTool,
)
from functool.guardrails import require_approval
from tests.guardrails.tools import call, echo_tool


def guarded(when=None, name="pay"):
    ran = []

    async def pay(amount: int, to: str = "bob"):
        """Pay."""
        ran.append((amount, to))
        return "paid"

    return FunctionTool(pay, name=name, input_guardrails=[require_approval(when)]), ran


def asked(tool, arguments, context=None, id="c1"):
    return call(tool, arguments, context, id).metadata["approval"]


def test_without_an_approver_the_result_carries_the_request():
    """The error's type is `ApprovalRequired`, and the request says what is asked, in JSON too."""
    tool, ran = guarded()
    result = call(tool, {"amount": 5})
    request = result.metadata["approval"]

    assert result.error.type == "ApprovalRequired" and ran == []
    assert (request.tool, request.arguments, request.call_id) == (
        "pay",
        {"amount": 5, "to": "bob"},
        "c1",
    )
    assert ApprovalRequest.from_json(request.to_json()) == request
    assert set(json.loads(request.to_json())) == {
        "id",
        "tool",
        "definition",
        "arguments",
        "call_id",
        "digest",
        "created",
    }


def test_an_approved_call_runs_once():
    """After `approve` the same call runs once; a replay asks again."""
    tool, ran = guarded()
    context = Context()
    context.approve(ApprovalRequest.from_json(asked(tool, {"amount": 5}, context).to_json()))

    assert call(tool, '{"amount": 5, "to": "bob"}', context).value == "paid"
    assert call(tool, {"amount": 5}, context).error.type == "ApprovalRequired"
    assert ran == [(5, "bob")]


def test_one_approval_is_enough_for_all_who_ask():
    """Guardrails of one call, a wrapper's too, share a decision; the next call asks again."""
    tool, ran = guarded()
    tool.add_input_guardrails([require_approval()])
    outer = WrapperTool(tool, input_guardrails=[require_approval()])
    context = Context()
    context.approve(asked(outer, {"amount": 5}, context))

    assert call(outer, {"amount": 5}, context).value == "paid"
    assert call(outer, {"amount": 5}, context).error.type == "ApprovalRequired"
    assert ran == [(5, "bob")]


@pytest.mark.parametrize(
    ("arguments", "id"),
    [({"amount": 6}, "c1"), ({"amount": 5, "to": "eve"}, "c1"), ({"amount": 5}, "c2")],
)
def test_another_call_is_another_request(arguments, id):
    """Edited arguments or another call id run nothing."""
    tool, ran = guarded()
    context = Context()
    context.approve(asked(tool, {"amount": 5}, context))

    assert call(tool, arguments, context, id).error.type == "ApprovalRequired"
    assert ran == []


def test_a_changed_definition_is_another_request():
    """A tool that claims to be something else runs nothing on the old grant."""
    tool, ran = guarded()
    context = Context()
    context.approve(asked(tool, {"amount": 5}, context))
    changed = FunctionTool(
        tool.func, name="pay", description="Pay twice.", input_guardrails=[require_approval()]
    )

    assert call(changed, {"amount": 5}, context).error.type == "ApprovalRequired"
    assert ran == []


@pytest.mark.parametrize(
    "change",
    [
        {"arguments": {"amount": 500, "to": "bob"}},
        {"call_id": "c9"},
        {"definition": "0" * 64},
        {"digest": "0" * 64},
        {"tool": "look"},
    ],
)
def test_a_request_that_does_not_match_itself_is_refused(change):
    """`approve` recomputes the digest."""
    tool, ran = guarded()
    context = Context()
    request = dataclasses.replace(asked(tool, {"amount": 5}, context), **change)

    with pytest.raises(ValueError, match="digest"):
        context.approve(request)
    with pytest.raises(ValueError, match="digest"):
        context.deny(request)
    assert call(tool, {"amount": 500}, context).is_error and ran == []


FIELDS = dict.fromkeys(["id", "tool", "definition", "call_id", "digest", "created"], "x") | {
    "arguments": {}
}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"id": 1}',
        "null",
        json.dumps({**FIELDS, "arguments": []}),
        json.dumps({**FIELDS, "id": 1}),
    ],
)
def test_a_broken_request_is_a_value_error(text):
    """`from_json` says what it wants."""
    with pytest.raises(ValueError):
        ApprovalRequest.from_json(text)


def test_grants_expire(monkeypatch):
    """A grant counts for `expires_in` seconds, on a clock that nobody sets."""
    clock = [50.0]
    monkeypatch.setattr("functool.context.time.monotonic", lambda: clock[0])
    tool, ran = guarded()
    context = Context()
    context.approve(asked(tool, {"amount": 5}, context), expires_in=10)
    clock[0] += 10.1

    assert call(tool, {"amount": 5}, context).error.type == "ApprovalRequired" and ran == []
    with pytest.raises(ValueError):
        context.approve(asked(tool, {"amount": 5}, context), expires_in=0)


def test_a_denied_call_is_refused_with_the_reason():
    """The model reads why."""
    tool, ran = guarded()
    context = Context()
    context.deny(asked(tool, {"amount": 5}, context), reason="too much")

    assert "too much" in call(tool, {"amount": 5}, context).text and ran == []


@pytest.mark.parametrize(
    ("answer", "paid"),
    [
        (True, True),
        (False, False),
        (Decision(approved=True), True),
        (Decision(approved=False, reason="no"), False),
        (Decision(approved="no"), False),
        (None, False),
        ("yes", False),
        (1, False),
    ],
    ids=str,
)
@pytest.mark.parametrize("is_async", [False, True])
def test_the_approver_decides(answer, paid, is_async):
    """A bool or a Decision, sync or async; anything else fails closed."""
    requests = []

    async def aask(request):
        requests.append(request)
        return answer

    def ask(request):
        requests.append(request)
        return answer

    tool, ran = guarded()
    result = call(tool, {"amount": 5}, Context(approver=aask if is_async else ask))

    assert (result.success, bool(ran)) == (paid, paid)
    assert requests[0].arguments == {"amount": 5, "to": "bob"}


def test_an_approver_that_crashes_fails_closed():
    """An exception of the approver refuses the call."""
    tool, ran = guarded()

    assert call(tool, {"amount": 5}, Context(approver=lambda request: 1 / 0)).is_error and ran == []


def test_when_says_which_calls_need_approval():
    """`when(call, context)`, sync or async, sees canonical arguments."""

    async def big(call, context):
        return call.arguments["amount"] > 10

    for when in (big, lambda call, context: call.arguments["amount"] > 10):
        tool, _ = guarded(when)
        assert call(tool, {"amount": 5}).success
        assert call(tool, {"amount": 50}).error.type == "ApprovalRequired"
    tool, _ = guarded(lambda call, context: context.deps == "guest")
    assert [call(tool, {"amount": 5}, Context(who)).success for who in ("admin", "guest")] == [
        True,
        False,
    ]


def test_twenty_executions_of_one_grant_run_once():
    """A grant is used up before the body starts."""
    tool, ran = guarded()
    context = Context()
    context.approve(asked(tool, {"amount": 5}, context))

    async def main():
        return await asyncio.gather(
            *(
                tool.invoke(ToolCall(name="pay", arguments={"amount": 5}, id="c1"), context)
                for _ in range(20)
            )
        )

    results = asyncio.run(main())

    assert ran == [(5, "bob")]
    assert sum(result.success for result in results) == 1


def test_requires_approval_is_seen_from_outside():
    """`tool.requires_approval` is what integrations read; a wrapper answers for its inner tool."""
    tool, _ = guarded()
    plain = echo_tool(1)

    assert tool.requires_approval and WrapperTool(tool).requires_approval
    assert not plain.requires_approval
    plain.add_input_guardrails([require_approval()])
    assert plain.requires_approval


def test_an_error_function_does_not_lose_the_request():
    """Whatever words an error function finds, the request stays in the metadata."""
    tool, _ = guarded()
    tool.add_on_error_func(lambda error, context: "please wait")
    result = call(tool, {"amount": 5})

    assert result.text == "please wait" and result.metadata["approval"].tool == "pay"


def test_approval_without_a_schema_fails_closed():
    """Outside of a call nobody knows what would be approved."""
    with pytest.raises(TypeError, match="needs the schema"):
        asyncio.run(require_approval()(ToolCall(name="pay"), Context()))


def test_the_definition_is_name_description_and_parameters():
    """A change of any of the three is another definition; the same three are the same one, whatever the call."""

    def pay(amount: int, to: str = "bob") -> str:
        return "paid"

    def pay_more(amount: int, to: str = "bob", tip: int = 0) -> str:
        return "paid"

    def definition(func=pay, **options):
        tool = FunctionTool(
            func,
            **{"name": "pay", "description": "Pay.", **options},
            input_guardrails=[require_approval()],
        )
        return asked(tool, {"amount": 5}).definition

    assert definition() == definition() and re.fullmatch("[0-9a-f]{64}", definition())
    assert (
        len(
            {
                definition(),
                definition(name="refund"),
                definition(description="Pay twice."),
                definition(pay_more),
            }
        )
        == 4
    )


def test_what_approval_says(caplog):
    """The model reads that a person is needed, or that one refused, and why if there is a reason; the log tells of an approver's mistake."""
    tool, _ = guarded()

    def said(answer):
        return call(tool, {"amount": 5}, Context(approver=lambda request: answer)).text

    assert call(tool, {"amount": 5}).text == "The call of pay needs a person's approval first."
    assert (said(False), said(Decision(approved=False, reason="no"))) == (
        "A person refused this call.",
        "A person refused this call: no",
    )
    said("yes")
    assert (
        str(caplog.records[0].exc_info[1]) == "the approver returned str, expected bool or Decision"
    )
