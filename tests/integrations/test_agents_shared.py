"""What the bridges to agent frameworks share."""

import asyncio

import pytest

from functool import Context, Decision, ToolCall
from functool.integrations._agents import decided


@pytest.mark.parametrize("edited", [None, {"amount": 500}, {"amount": 5}])
def test_a_call_that_a_person_edited_does_not_run_as_it_was(edited):
    """Where a framework runs its own call, an edit is a refusal that tells the model the new arguments."""
    context = Context(approver=lambda request: Decision(approved=True, arguments=edited))
    call = ToolCall(name="pay", arguments={"amount": 500}, id="c1")
    answer = asyncio.run(decided(call, context))

    assert answer == (
        'A person changed this call, so it did not run. Make it with these arguments: {"amount": 5}'
        if edited == {"amount": 5}
        else True
    )
