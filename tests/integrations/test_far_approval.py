"""Approvals of calls that run on a worker: what a guardrail there asks the host's approver."""

import asyncio

import pytest

from functool import ApprovalRequest, Context, Decision, GuardrailError
from functool.integrations.far_approval import agreed


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
