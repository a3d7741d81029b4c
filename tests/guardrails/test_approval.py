"""`require_approval`: what a person is asked, decides, edits and grants."""

import asyncio
import dataclasses
import json
import re
from types import SimpleNamespace
from typing import Annotated

import pytest
from pydantic import Field

from functool import (
    ApprovalRequest,
    Context,
    Decision,
    FunctionTool,
    GuardrailError,
    SchemaTool,
    ToolCall,
    ToolError,
    ToolResult,
    WrapperTool,
)
from functool.approval import Grant
from functool.guardrails import (
    budget,
    max_repeats,
    rate_limit,
    redact,
    require_approval,
    trusted_only,
)
from tests.guardrails.tools import Person, echo_tool, edit
from tests.support import call

TEXTS = ("id", "tool", "definition", "call_id", "digest", "created")
FIELDS = {**dict.fromkeys(TEXTS, "x"), "arguments": {}}


def guarded(when=None, name="pay"):
    ran = []

    async def pay(amount: int, to: str = "bob"):
        """Pay."""
        ran.append((amount, to))
        return "paid"

    return FunctionTool(pay, name=name, input_guardrails=[require_approval(when)]), ran


def asked(tool, arguments, context=None, id="c1"):
    return call(tool, arguments, context, id).metadata["approval"]


def approved(tool, sent, **edited):
    """A context in which a person has approved this call, as it is or edited."""
    context = Context()
    context.approve(asked(tool, sent, context), **edited)
    return context


def granting(grant):
    """A context in which a grant stands."""
    context = Context()
    context.grant(grant)
    return context


def test_without_an_approver_the_result_carries_the_request():
    """The error's type is `ApprovalRequired`, and the request says what is asked, in JSON too."""
    tool, ran = guarded()
    result = call(tool, {"amount": 5})
    request = result.metadata["approval"]

    assert result.error.type == "ApprovalRequired" and ran == []
    assert (request.tool, request.call_id) == ("pay", "c1")
    assert request.arguments == {"amount": 5, "to": "bob"}
    assert ApprovalRequest.from_json(request.to_json()) == request
    assert json.loads(request.to_json()).keys() == FIELDS.keys()


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
    context = approved(tool, {"amount": 5})

    assert call(tool, arguments, context, id).error.type == "ApprovalRequired"
    assert ran == []


def test_a_changed_definition_is_another_request():
    """A tool that claims to be something else runs nothing on the old grant."""
    tool, ran = guarded()
    context = approved(tool, {"amount": 5})
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
    person = Person(answer)

    async def later(request):
        return person(request)

    tool, ran = guarded()
    result = call(tool, {"amount": 5}, Context(approver=later if is_async else person))

    assert (result.success, bool(ran)) == (paid, paid)
    assert person.asked[0].arguments == {"amount": 5, "to": "bob"}


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
    assert call(tool, {"amount": 5}, Context("admin")).success
    assert call(tool, {"amount": 5}, Context("guest")).is_error


@pytest.mark.parametrize(
    ("decide", "runs"),
    [
        (lambda context, request: context.deny(request, "no"), []),
        (lambda context, request: context.approve(request, arguments={"amount": 3}), [(3, "bob")]),
        (lambda context, request: context.approve(request), [(50, "bob")]),
    ],
)
def test_a_decision_counts_after_the_condition_has_changed(decide, runs):
    """What a person decided holds for the call, also if nobody would be asked about it by then."""
    most = [10]
    tool, ran = guarded(lambda call, context: call.arguments["amount"] > most[0])
    context = Context()
    decide(context, asked(tool, {"amount": 50}, context))
    most[0] = 100
    call(tool, {"amount": 50}, context)

    assert ran == runs
    call(tool, {"amount": 50}, context)  # The decision was for one call.
    assert ran == [*runs, (50, "bob")]


def test_a_condition_without_an_answer_asks_a_person():
    """A `when` that forgets its `return` asks a person. Other empty values let the call through, as False does."""

    async def forgetful(call, context):
        call.arguments["amount"] > 10

    for when in (forgetful, lambda call, context: None):
        tool, ran = guarded(when)
        assert call(tool, {"amount": 50}).error.type == "ApprovalRequired" and ran == []
        assert call(tool, {"amount": 50}, Context(approver=lambda request: True)).success
    for when in (lambda call, context: 0, lambda call, context: ""):
        assert call(guarded(when)[0], {"amount": 50}).success


def twenty(tool, arguments, context):
    """Make one and the same call twenty times at once."""

    async def main():
        one = ToolCall(name=tool.name, arguments=arguments, id="c1")
        return await asyncio.gather(*(tool.invoke(one, context) for _ in range(20)))

    return asyncio.run(main())


def test_twenty_executions_of_one_grant_run_once():
    """A grant is used up before the body starts."""
    tool, ran = guarded()
    context = approved(tool, {"amount": 5})

    results = twenty(tool, {"amount": 5}, context)

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
        asyncio.run(require_approval()(ToolCall(name="t"), Context()))


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
    others = definition(name="refund"), definition(description="Pay twice."), definition(pay_more)
    assert len({definition(), *others}) == 4


def test_what_approval_says(caplog):
    """The model reads that a person is needed, or that one refused, and why if there is a reason; the log tells of an approver's mistake."""
    tool, _ = guarded()

    def said(answer):
        return call(tool, {"amount": 5}, Context(approver=lambda request: answer)).text

    assert call(tool, {"amount": 5}).text == "The call of pay needs a person's approval first."
    assert said(False) == "A person refused this call."
    assert said(Decision(approved=False, reason="no")) == "A person refused this call: no"
    assert said(Decision(False, "no")) == "A person refused this call: no"
    said("yes")
    wrong = caplog.records[0].exc_info[1]
    assert str(wrong) == "the approver returned str, expected bool or Decision"


@pytest.mark.parametrize("edited", [{"amount": 5}, SimpleNamespace(amount=5), [("amount", 5)]])
def test_an_edit_in_the_place_of_a_reason_is_no_approval(edited):
    """Arguments that stand where a reason belongs would be lost, and the call would run unedited."""
    tool, ran = guarded()
    context = Context(approver=lambda asked: Decision(True, edited))
    result = call(tool, {"amount": 5_000}, context)

    assert result.error.type == "GuardrailError" and ran == []
    with pytest.raises(TypeError, match="arguments go by name"):
        Decision(False, {"amount": 5})
    assert Decision(True, None).reason is None
    assert Decision(False, 7).refusal == "A person refused this call: 7"


# ---- edited arguments


def noted(request, result, **decision):
    """What stands in `metadata["decision"]`: the request, asked for anew when it was answered later, and the answer."""
    told = {"approved": True, "reason": "", "arguments": None, "grant": None, **decision}
    anew = {name: result.metadata["decision"]["request"][name] for name in ("id", "created")}
    return {"request": {**json.loads(request.to_json()), **anew}, **told}


def decide_by(way, tool, arguments, decision, request=None):
    """Run a call whose approval is edited: by an approver, sync or async, or by `context.approve`."""
    if way == "approve":
        context = Context()
        request = asked(tool, arguments, context)
        context.approve(request, arguments=decision)
        return request, call(tool, arguments, context)
    person = Person(Decision(approved=True, reason="cheaper", arguments=decision))

    async def later(request):
        return person(request)

    result = call(tool, arguments, Context(approver=later if way == "async" else person))
    [request] = person.asked
    return request, result


@pytest.mark.parametrize("way", ["approve", "sync", "async"])
def test_an_edited_call_runs_as_it_was_edited(way):
    """The body gets what the person wrote; result and metadata say what was asked, edited and decided."""
    tool, ran = guarded()
    request, result = decide_by(way, tool, {"amount": 500, "to": "eve"}, {"amount": 5, "to": "eve"})
    reason = "" if way == "approve" else "cheaper"

    assert ran == [(5, "eve")] and result.value == "paid"
    assert result.text == "A person changed the arguments of this call: `amount` to 5.\npaid"
    assert result.metadata["decision"] == noted(
        request, result, reason=reason, arguments={"amount": 5, "to": "eve"}
    )
    assert json.loads(json.dumps(result.metadata["decision"])) == result.metadata["decision"]
    assert request.arguments == {"amount": 500, "to": "eve"}


@pytest.mark.parametrize("way", ["approve", "sync"])
def test_edited_arguments_are_all_of_them(way):
    """What the person leaves out has its default, also where it was sent; null means the default, too."""
    for edited in ({"amount": 500}, {"amount": 500, "to": None}):
        tool, ran = guarded()
        _, result = decide_by(way, tool, {"amount": 500, "to": "eve"}, edited)

        assert ran == [(500, "bob")] and result.success
        told = "`to` to null" if "to" in edited else "`to` left out"
        assert result.text.startswith(f"A person changed the arguments of this call: {told}.")


@pytest.mark.parametrize("way", ["approve", "sync"])
def test_an_edit_may_leave_out_the_default_of_an_alias(way):
    """The default goes by the parameter's name, and the schema knows only the alias."""

    def pay(to: str, limit: Annotated[int, Field(alias="max")] = 5) -> str:
        return f"{to} {limit}"

    tool = FunctionTool(pay, input_guardrails=[require_approval()])
    _, result = decide_by(way, tool, {"to": "eve", "max": 7}, {"to": "bob"})

    assert result.value == "bob 5"


@pytest.mark.parametrize(
    "edited", [{"amount": "x"}, {}, {"amount": 5, "of": 1}, {"amount": 5, "to": ["eve"]}], ids=str
)
@pytest.mark.parametrize("way", ["approve", "sync"])
def test_edited_arguments_are_validated_again(way, edited):
    """A person's mistake is an argument error, and nothing runs."""
    tool, ran = guarded()
    _, result = decide_by(way, tool, {"amount": 500}, edited)

    assert (result.error.type, ran) == ("ArgumentError", [])
    assert result.metadata["decision"]["arguments"] == edited
    told = result.text.partition("\n")[2]
    assert told.startswith("A person changed the arguments of this call: ")


@pytest.mark.parametrize("way", ["approve", "sync"])
def test_edited_arguments_meet_all_input_guardrails_again(way):
    """They are asked from the first on, wherever they stand, and a refusal holds."""
    log = []

    def look(name):
        def look(call, context):
            log.append((name, call.arguments["amount"]))
            if call.arguments["amount"] == 13:
                raise GuardrailError(f"{name}: never 13")

        return look

    for amount, expected in ((5, "paid"), (13, "first: never 13")):
        log.clear()
        tool, ran = guarded()
        tool.input_guardrails[:] = [look("first"), *tool.input_guardrails, look("last")]
        _, result = decide_by(way, tool, {"amount": 500}, {"amount": amount, "to": "bob"})
        before = [("first", 500)] * (2 if way == "approve" else 1)

        assert log == before + [("first", amount)] + [("last", amount)] * (amount == 5)
        assert result.text.endswith(expected) or expected in result.text
        assert ran == ([(5, "bob")] if amount == 5 else [])


def test_an_edit_counts_once():
    """An edited call meets the guardrails that count a second time, and costs one call all the same."""
    limits = [rate_limit(1, 3600), budget(1), max_repeats(1)]
    tool, ran = guarded()
    tool.input_guardrails[:] = [*limits, *tool.input_guardrails]
    context = Context(approver=Person(edit(amount=1)))

    assert call(tool, {"amount": 500}, context).success and ran == [(1, "bob")]
    assert call(tool, {"amount": 500}, context).text.startswith("Too many calls")


def test_an_edited_approval_runs_once():
    """It is used up before the body starts: of twenty equal calls one runs, as edited, and nothing else does."""
    tool, ran = guarded()
    context = approved(tool, {"amount": 500}, arguments={"amount": 5})

    types = [
        result.error and result.error.type for result in twenty(tool, {"amount": 500}, context)
    ]

    assert sorted(map(str, types)) == ["ApprovalRequired"] * 19 + ["None"]
    assert ran == [(5, "bob")]
    assert call(tool, {"amount": 5}, context).error.type == "ApprovalRequired"


@pytest.mark.parametrize("edited", [{"to": "bob", "amount": 5}, {"amount": 5}], ids=str)
def test_an_edit_that_changes_nothing_is_an_approval(edited):
    """The same arguments, with or without their defaults, are no edit: nothing is said, and no guardrail is asked twice."""
    tool, ran = guarded()
    request, result = decide_by("sync", tool, {"amount": 5}, edited)

    assert (result.text, ran) == ("paid", [(5, "bob")])
    assert result.metadata == {"decision": noted(request, result, reason="cheaper")}


@pytest.mark.parametrize(
    ("sent", "edited", "runs"),
    [
        ({"to": None}, {}, "bob"),
        ({}, {"to": None}, None),
        ({"to": "eve"}, {"to": None}, None),
        ({"to": None}, {"to": None}, None),
    ],
    ids=str,
)
@pytest.mark.parametrize("way", ["approve", "sync"])
def test_null_is_null_where_it_can_be_meant(way, sent, edited, runs):
    """Of an argument that admits null, null and the default are two values: what the person wrote runs."""
    ran = []

    def pay(to: str | None = "bob") -> None:
        ran.append(to)

    tool = FunctionTool(pay, input_guardrails=[require_approval()])
    _, result = decide_by(way, tool, sent, edited)

    assert result.success and ran == [runs]


def test_what_a_guardrail_made_of_an_edit_is_asked_about():
    """Where another guardrail changes what the person wrote, the person is asked about what would run."""
    tool, ran = guarded()

    def shout(call, context):
        if call.arguments["to"].islower():
            return dataclasses.replace(call, arguments={**call.arguments, "to": "EVE"})
        return None

    tool.input_guardrails.insert(0, shout)
    person = Person(edit(amount=5, to="ada"), True)
    result = call(tool, {"amount": 500, "to": "bob"}, Context(approver=person))

    assert [request.arguments["to"] for request in person.asked] == ["EVE", "EVE"]
    assert [request.arguments["amount"] for request in person.asked] == [500, 5]
    assert ran == [(5, "EVE")]
    decision = result.metadata["decision"]
    assert decision["arguments"] == {"amount": 5, "to": "EVE"}
    assert decision["request"]["arguments"] == {"amount": 500, "to": "EVE"}

    stubborn = Context(approver=Person(edit(amount=5, to="ada")))
    assert "twice" in call(tool, {"amount": 500, "to": "bob"}, stubborn).text
    assert len(ran) == 1


def test_what_became_of_an_edit_is_asked_about_whatever_when_says():
    """A person who has edited a call is asked again about what is not their edit, an empty one, too."""

    def pay(amount: int = 500) -> None:
        ran.append(amount)

    def add(call, context):
        sent = call.arguments
        return dataclasses.replace(call, arguments={"amount": 7}) if sent["amount"] == 5 else None

    ran, when = [], lambda call, context: call.arguments["amount"] > 100
    tool = FunctionTool(pay, input_guardrails=[add, require_approval(when)])
    person = Person(edit(amount=5), False)
    result = call(tool, {"amount": 1000}, Context(approver=person))

    assert [request.arguments["amount"] for request in person.asked] == [1000, 7]
    assert result.is_error and ran == []
    assert result.metadata["decision"]["arguments"] is None

    person = Person(edit(), False)
    call(tool, {"amount": 1000}, Context(approver=person))
    assert len(person.asked) == 1 and ran == [500]


def test_an_edit_that_a_guardrail_changes_in_place_is_asked_about():
    """A new call with the arguments that a guardrail has changed in place is not what the person wrote."""

    def add(call, context):
        if call.arguments["amount"] == 5:
            call.arguments["amount"] = 6
        return dataclasses.replace(call)

    tool, ran = guarded()
    tool.input_guardrails.insert(0, add)
    person = Person(edit(amount=5), True)
    result = call(tool, {"amount": 500}, Context(approver=person))

    assert [request.arguments["amount"] for request in person.asked] == [500, 6]
    assert result.metadata["decision"]["arguments"] == {"amount": 6, "to": "bob"}
    assert ran == [(6, "bob")]


@pytest.mark.parametrize("way", ["approver", "approved", "edited", "granted"])
def test_what_is_approved_is_what_runs(way, caplog):
    """A guardrail that changes the arguments after their approval gets the call refused."""

    def double(call, context):
        return dataclasses.replace(call, arguments={"amount": 2 * call.arguments["amount"]})

    tool, ran = guarded()
    context = {
        "approver": lambda: Context(approver=Person(True)),
        "approved": lambda: approved(tool, {"amount": 5}),
        "edited": lambda: Context(approver=Person(edit(amount=4), True)),
        "granted": lambda: granting(Grant.of(tool, {"amount": 5})),
    }[way]()
    tool.add_input_guardrails([double])
    result = call(tool, {"amount": 5}, context)

    said = "double changed the arguments of the call after a person had approved them"
    assert result.error.message == f"The call was refused: {said}; put require_approval behind it."
    assert result.error.type == "GuardrailError" and ran == []
    assert [record.levelname for record in caplog.records] == ["ERROR"]


@pytest.mark.parametrize("arguments", ["same", "copied"])
def test_approved_arguments_that_change_in_place_get_the_call_refused(arguments):
    """A new call does not hide that its guardrail changed the old one; the refusal names this guardrail."""

    def change(call, context):
        call.arguments["amount"] = 500
        new = call.arguments if arguments == "same" else dict(call.arguments)
        return dataclasses.replace(call, arguments=new)

    def note(call, context):
        return dataclasses.replace(call, metadata={"by": "note"})

    tool, ran = guarded()
    tool.add_input_guardrails([change, note])
    result = call(tool, {"amount": 5}, Context(approver=Person(True)))

    assert "change changed the arguments of the call after" in result.text and ran == []


def test_a_change_after_an_approval_may_be_approved_itself_or_be_none():
    """The last approval counts. Metadata, the order of names and a call that needs none may change."""

    def named(call, context):
        arguments = dict(reversed(call.arguments.items()))
        return dataclasses.replace(call, arguments=arguments, metadata={"by": "named"})

    def double(call, context):
        return dataclasses.replace(call, arguments={"amount": 2 * call.arguments["amount"]})

    tool, ran = guarded()
    tool.add_input_guardrails([double, require_approval()])
    person = Person(True)
    assert call(tool, {"amount": 5}, Context(approver=person)).success and ran == [(10, "bob")]
    assert [request.arguments["amount"] for request in person.asked] == [5, 10]

    tool, ran = guarded()
    tool.add_input_guardrails([named])
    assert call(tool, {"amount": 5}, Context(approver=person)).success and ran == [(5, "bob")]

    tool, ran = guarded(lambda call, context: call.arguments["amount"] > 100)
    tool.add_input_guardrails([double])
    assert call(tool, {"amount": 5}).success and ran == [(10, "bob")]


def test_an_edit_is_enough_for_all_who_ask():
    """Guardrails of one call, and those of a wrapper, share an edited approval, whatever `when` says of the new arguments."""
    tool, ran = guarded(lambda call, context: call.arguments["amount"] > 100)
    tool.add_input_guardrails([require_approval()])
    outer = WrapperTool(tool, input_guardrails=[require_approval()])
    person = Person(edit(amount=5))
    result = call(outer, {"amount": 500}, Context(approver=person))

    assert (len(person.asked), ran, result.value) == (1, [(5, "bob")], "paid")
    assert result.metadata["decision"]["arguments"] == {"amount": 5}


def test_an_edit_of_a_call_inside_stays_there():
    """The decision on an agent's inner call stands in the inner result only."""
    tool, ran = guarded()
    inner = []

    @FunctionTool
    async def outer(ctx: Context) -> str:
        one = ToolCall(name="pay", arguments={"amount": 500}, id="i1")
        inner.append(await tool.invoke(one, ctx))
        return "done"

    result = call(outer, {}, Context(approver=Person(edit(amount=5))))

    assert (result.text, result.metadata, ran) == ("done", {}, [(5, "bob")])
    assert inner[0].metadata["decision"]["arguments"] == {"amount": 5}


@pytest.mark.parametrize("way", ["refuses", "crashes", "new", "own"])
def test_an_output_guardrail_around_a_call_keeps_its_decision(way):
    """The host reads what a person decided, also if a wrapper replaces the result. One that sets it wins."""
    tool, ran = guarded()

    def replace(result, context):
        if way == "refuses":
            raise ToolError("no")
        if way == "own":
            return ToolResult(metadata={"decision": {"own": True}})
        return ToolResult.of("new") if way == "new" else 1 / 0

    wrapper = WrapperTool(tool, output_guardrails=[replace])
    result = call(wrapper, {"amount": 500}, Context(approver=Person(True)))

    assert ran == [(500, "bob")]
    decision = result.metadata["decision"]
    if way == "own":
        assert decision == {"own": True}
    else:
        assert decision["approved"] and decision["request"]["arguments"]["amount"] == 500


def test_output_guardrails_see_what_the_model_is_told():
    """What a person wrote leaves through the same guardrails as everything else."""
    tool, _ = guarded()
    tool.add_output_guardrails([redact(["secret"])])
    _, result = decide_by("sync", tool, {"amount": 5}, {"amount": 5, "to": "secret"})

    assert result.text == 'A person changed the arguments of this call: `to` to "[redacted]".\npaid'


def test_a_long_edit_is_shown_in_short():
    """The model reads the beginning of a long text; the metadata hold it whole."""
    tool, _ = guarded()
    _, result = decide_by("sync", tool, {"amount": 5}, {"amount": 5, "to": "x" * 5000})

    told = f'A person changed the arguments of this call: `to` to "{"x" * 199}….'
    assert result.text == f"{told}\npaid"
    assert result.metadata["decision"]["arguments"]["to"] == "x" * 5000


@pytest.mark.parametrize(
    "arguments", [5, "x", [("amount", 5)], {"amount": object()}, {"amount": float("nan")}], ids=str
)
def test_nonsense_for_arguments(arguments):
    """`approve` refuses at once what is no JSON object; an approver that answers with it fails closed."""
    tool, ran = guarded()
    context = Context()
    with pytest.raises((TypeError, ValueError), match="^arguments must "):
        context.approve(asked(tool, {"amount": 5}, context), arguments=arguments)
    _, result = decide_by("sync", tool, {"amount": 5}, arguments)

    assert (result.error.type, ran) == ("GuardrailError", [])


def test_the_arguments_of_a_refusal_are_nothing():
    """A person who refuses runs nothing, whatever else they wrote."""
    tool, ran = guarded()
    decision = Decision(approved=False, reason="no", arguments={"amount": 1})
    result = call(tool, {"amount": 500}, Context(approver=lambda request: decision))

    assert (result.text, ran) == ("A person refused this call: no", [])
    assert result.metadata["decision"]["arguments"] is None


# ---- what is asked is what runs


@pytest.mark.parametrize("honest", [True, False])
def test_an_approver_that_changes_the_request_in_place_is_refused(honest):
    """Also at depth, and also where it computes the digest anew; the message says what to return."""

    async def pay(order: dict[str, int]) -> str:
        ran.append(order)
        return "paid"

    ran = []

    def approver(request):
        request.arguments["order"]["amount"] = 1
        if not honest:
            names = request.tool, request.definition, request.arguments, request.call_id
            request.digest = ApprovalRequest.of(*names).digest
        return True

    tool = FunctionTool(pay, input_guardrails=[require_approval()])
    result = call(tool, {"order": {"amount": 1000}}, Context(approver=approver))

    assert (result.error.type, ran) == ("GuardrailError", [])
    assert result.text == (
        "The approver changed the request in place, so the call was refused. To change the"
        " arguments, it returns a new Decision(approved=True, arguments={...})."
    )


def test_a_kept_decision_cannot_be_changed():
    """What a host does with its own objects after `approve` changes neither the approval nor the body's arguments."""

    async def pay(order: dict[str, int]) -> str:
        ran.append(order)
        return "paid"

    ran = []
    tool = FunctionTool(pay, input_guardrails=[require_approval()])
    context, edited = Context(), {"order": {"amount": 5}}
    request = asked(tool, {"order": {"amount": 500}}, context)
    context.approve(request, arguments=edited)
    edited["order"]["amount"] = 9999
    request.arguments["order"]["amount"] = 9999

    assert call(tool, {"order": {"amount": 500}}, context).success
    assert ran == [{"amount": 5}]


def test_sources_are_shown_and_bound():
    """A request says where values came from, and an approval holds for those sources only."""
    tool, ran = guarded()
    sources = {"/to": ["read_mail"]}
    context = Context()

    def run(metadata):
        one = ToolCall(name="pay", arguments={"amount": 5}, id="c1", metadata=metadata)
        return asyncio.run(tool.invoke(one, context))

    request = run({"sources": sources}).metadata["approval"]
    assert request.sources == sources
    context.approve(request)

    assert run({}).error.type == "ApprovalRequired"
    assert run({"sources": {"/to": ["search"]}}).error.type == "ApprovalRequired"
    assert run({"sources": sources}).success and ran == [(5, "bob")]


def test_a_decision_stands_in_the_metadata():
    """An approval and a refusal, whoever gave them, can be read from the result; where nobody was asked there is none."""
    tool, _ = guarded(lambda call, context: call.arguments["amount"] > 1)
    person = Person(*(Decision(approved=paid, reason="as agreed") for paid in (True, False)))
    context = Context(approver=person)
    small, fine, dear = (call(tool, {"amount": amount}, context) for amount in (1, 10, 1000))
    first, second = person.asked

    assert small.metadata == {}
    assert fine.metadata == {"decision": noted(first, fine, reason="as agreed")}
    assert dear.metadata["decision"] == noted(second, dear, approved=False, reason="as agreed")
    assert "decision" not in call(tool, {"amount": 5}).metadata
    denied = Context()
    denied.deny(asked(tool, {"amount": 5}, denied), "no")
    assert call(tool, {"amount": 5}, denied).metadata["decision"]["approved"] is False


# ---- standing grants


def test_a_grant_covers_calls_without_asking():
    """As many as it has uses; what it covers is seen by the arguments that run, and the result names the grant."""
    tool, ran = guarded()
    person = Person(False)
    context, grant = (
        Context(approver=person),
        Grant.of(tool, {"to": "ada"}, free=("amount",), uses=2),
    )
    context.grant(grant)
    call(tool, {"amount": 1, "to": "eve"}, context)
    covered = call(tool, {"amount": 2, "to": "ada"}, context)
    call(tool, {"amount": 3}, context)
    call(tool, '{"to": "ada", "amount": 4}', context)
    call(tool, {"amount": 5, "to": "ada"}, context)

    assert ran == [(2, "ada"), (4, "ada")]
    assert [request.arguments["amount"] for request in person.asked] == [1, 3, 5]
    decision = covered.metadata["decision"]
    assert decision["grant"] == grant.id and decision["approved"] is True
    assert decision["request"]["arguments"] == {"amount": 2, "to": "ada"}


def test_arguments_that_a_grant_does_not_name_are_at_their_defaults():
    """A default may be left out or sent; anything else is asked about."""
    tool, ran = guarded()
    context = granting(Grant.of(tool, {"amount": 5}, uses=10))
    for arguments in ({"amount": 5}, {"amount": 5, "to": "bob"}, {"amount": 5, "to": "eve"}):
        call(tool, arguments, context)

    assert ran == [(5, "bob"), (5, "bob")]


def test_a_grant_compares_as_json():
    """True is not 1, and 1 is not "1"."""
    ran = []
    tool = FunctionTool(lambda x: ran.append(x), name="put", input_guardrails=[require_approval()])
    context = granting(Grant.of(tool, {"x": 1}, uses=9))
    for value in (True, "1", 1.0, [1], None, 1):
        call(tool, {"x": value}, context)

    assert ran == [1]


def test_a_changed_tool_needs_a_new_grant():
    """A grant names a definition; another description, parameter or name is another one."""
    tool, ran = guarded()
    context = granting(Grant.of(tool, {}, free=("amount", "to"), uses=9))
    changed = FunctionTool(
        tool.func, name="pay", description="Pay twice.", input_guardrails=[require_approval()]
    )

    assert call(changed, {"amount": 5}, context).error.type == "ApprovalRequired"
    assert call(guarded(name="buy")[0], {"amount": 5}, context).error.type == "ApprovalRequired"
    assert call(tool, {"amount": 5}, context).success


def test_a_grant_is_used_up_before_the_body():
    """Of twenty calls at once as many run as it has uses; a body that fails has used one, too."""
    tool, ran = guarded()
    context = granting(Grant.of(tool, {}, free=("amount",), uses=3))

    results = twenty(tool, {"amount": 5}, context)
    assert len(ran) == 3 == sum(result.success for result in results)

    broken = FunctionTool(lambda: 1 / 0, name="broken", input_guardrails=[require_approval()])
    context.grant(Grant.of(broken, {}))
    types = [call(broken, {}, context).error.type for _ in range(2)]
    assert types == ["ZeroDivisionError", "ApprovalRequired"]


def test_one_use_of_a_grant_is_enough_for_all_who_ask():
    """Guardrails of one call and of a wrapper share it; a call that nobody asks about costs none."""
    tool, ran = guarded(lambda call, context: call.arguments["amount"] > 1)
    tool.add_input_guardrails(tool.input_guardrails)
    outer = WrapperTool(tool, input_guardrails=[require_approval()])
    context = granting(Grant.of(tool, {}, free=("amount",), uses=2))

    assert call(tool, {"amount": 1}, context).success
    assert call(outer, {"amount": 5}, context).success
    assert [grant.uses for grant in context.grants()] == [1]


@pytest.mark.parametrize("begun", [False, True])
def test_a_call_that_waits_gives_its_grant_back(begun):
    """A person is asked about the tool inside, so nothing has run, unless the wrapper has begun its own work."""

    class Telling(WrapperTool):
        async def run(self, call, context):
            return await super().run(call, context)

    tool, ran = guarded()
    outer = (Telling if begun else WrapperTool)(tool, name="outer")
    outer.add_input_guardrails([require_approval()])
    context = granting(Grant.of(outer, {"amount": 5}))

    request = asked(outer, {"amount": 5}, context)
    assert request.tool == "pay" and len(context.grants()) == (0 if begun else 1)
    if not begun:
        context.approve(request)
        result = call(outer, {"amount": 5}, context)
        assert result.success and ran == [(5, "bob")] and context.grants() == []
        assert result.metadata["decision"]["grant"] is not None


@pytest.mark.parametrize("is_granted", [True, False])
def test_a_body_that_calls_a_wrapper_keeps_what_its_own_call_has_used(monkeypatch, is_granted):
    """A call inside that waits gives back no approval and no grant of the body around it, which has run."""
    monkeypatch.setattr("functool.wrapper_tool.wanted_results", set())  # Then it has no view.
    tool, _ = guarded()
    wrapper, ran = WrapperTool(tool), []

    async def order(context: Context) -> str:
        ran.append("order")
        inner = ToolCall(name="pay", arguments={"amount": 5}, id="inner")
        return (await wrapper.invoke(inner, context)).error.type

    outer = FunctionTool(order, input_guardrails=[require_approval()])
    context = granting(Grant.of(outer, {})) if is_granted else Context()
    if not is_granted:
        context.approve(asked(outer, {}, context))

    assert call(outer, {}, context).value == "ApprovalRequired"
    assert asked(outer, {}, context).tool == "order" and ran == ["order"]


def test_a_grant_that_was_revoked_while_its_call_waits_stays_revoked():
    """The person who asks for the tool inside may have ended it."""
    tool, ran = guarded()
    outer = WrapperTool(tool, name="outer", input_guardrails=[require_approval()])
    grant = Grant.of(outer, {"amount": 5}, uses=2)
    context = granting(grant)
    tool.input_guardrails.insert(0, lambda call, context: context.revoke(grant))

    assert asked(outer, {"amount": 5}, context).tool == "pay" and context.grants() == []
    assert asked(outer, {"amount": 5}, context).tool == "outer" and ran == []


def test_a_denial_of_a_call_that_waits_meanwhile_counts():
    """The approval that the waiting call has used does not come back over it."""
    tool, ran = guarded()
    outer = WrapperTool(tool, name="outer", input_guardrails=[require_approval()])
    context = Context()
    request = asked(outer, {"amount": 5}, context)
    context.approve(request)
    tool.input_guardrails.insert(0, lambda call, context: context.deny(request, "stop"))
    context.approve(asked(outer, {"amount": 5}, context))

    assert call(outer, {"amount": 5}, context).text == "A person refused this call: stop"
    assert ran == []


def test_a_decision_on_the_call_itself_comes_first():
    """Who denied a call is not overruled by a grant, and an approval leaves the grant as it is."""
    tool, ran = guarded()
    context = Context()
    request = asked(tool, {"amount": 5}, context)
    context.grant(Grant.of(tool, {"amount": 5}))
    context.deny(request, "not this one")

    assert call(tool, {"amount": 5}, context).text == "A person refused this call: not this one"
    context.approve(request)
    assert call(tool, {"amount": 5}, context).success and len(context.grants()) == 1


def test_a_grant_names_parameters():
    """The names are those of the request: a parameter's own, whatever name a model uses."""
    ran = []

    def pay(amount: Annotated[int, Field(alias="Amount")], to: str = "bob") -> None:
        ran.append(amount)

    tool = FunctionTool(pay, input_guardrails=[require_approval()])
    context = granting(Grant.of(tool, {"amount": 5}, uses=9))
    for amount in (5, 6):
        call(tool, {"Amount": amount}, context)

    assert ran == [5]


@pytest.mark.parametrize("wrap", [lambda tool: tool, lambda tool: WrapperTool(tool, name="p")])
def test_a_grant_knows_the_defaults_of_parameters_that_swap_their_aliases(wrap):
    """What a grant leaves out has its default, under the name of the parameter and not of the alias."""
    ran = []

    def pay(
        a: Annotated[int, Field(alias="b")] = 1, b: Annotated[int, Field(alias="a")] = 2
    ) -> None:
        ran.append((a, b))

    tool = wrap(FunctionTool(pay))
    tool.add_input_guardrails([require_approval()])
    context = granting(Grant.of(tool, {}, uses=9))
    for sent in ({}, {"b": 1}, {"a": 1, "b": 2}, {"a": 1}):
        call(tool, sent, context)

    assert ran == [(1, 2), (1, 2)]
    context = granting(Grant.of(tool, {"a": 5}, uses=9))
    for sent in ({"b": 5}, {"a": 5}):
        call(tool, sent, context)
    assert ran[2:] == [(5, 2)]


def test_the_note_about_an_edit_knows_the_defaults_of_aliases():
    """A default that the person left out is no change."""

    def pay(
        a: Annotated[int, Field(alias="b")] = 1, b: Annotated[int, Field(alias="a")] = 2
    ) -> str:
        return f"{a} {b}"

    tool = FunctionTool(pay, input_guardrails=[require_approval()])
    _, same = decide_by("sync", tool, {}, {})
    _, other = decide_by("sync", tool, {"b": 5}, {})

    assert same.text == "1 2"
    assert other.text == "A person changed the arguments of this call: `a` left out.\n1 2"


def test_an_approval_is_for_one_of_several_equal_calls_inside_of_each_other(monkeypatch):
    """A body that calls its own tool again, or a wrapper that runs it twice, has to ask again."""
    monkeypatch.setattr("functool.wrapper_tool.wanted_results", set())
    asked, runs = [], []

    def approver(request):
        asked.append(request.id)
        return len(asked) < 3

    async def pay(amount: int, again: ToolCall, context: Context) -> str:
        runs.append(amount)
        return (await tool.invoke(again, context)).text

    tool = FunctionTool(pay, input_guardrails=[require_approval()])
    assert "refused" in call(tool, {"amount": 1}, Context(approver=approver)).text
    assert (len(asked), len(runs)) == (3, 2)

    class Twice(WrapperTool):
        async def run(self, call, context):
            await self.tool.invoke(call, context)
            return await self.tool.invoke(call, context)

    def send(amount: int) -> str:
        runs.append(amount)
        return "sent"

    inner = FunctionTool(send, input_guardrails=[require_approval()])

    def twice_around_another(tool):
        return Twice(WrapperTool(tool))

    for wrapper, times in ((WrapperTool, 1), (Twice, 2), (twice_around_another, 2)):
        asked.clear()
        runs.clear()
        guarded = WrapperTool(wrapper(inner), input_guardrails=[require_approval()])
        assert call(guarded, {"amount": 1}, Context(approver=approver)).value == "sent"
        assert len(asked) == len(runs) == times


def resumed(tool, metadata=None, edits=()):
    """The requests that a call made until it ran, each approved when it came, and the last result."""
    context, requests, edits = Context(), [], dict(edits)
    sent = ToolCall(name=tool.name, arguments={"amount": 5}, id="c1", metadata=metadata or {})
    while (result := asyncio.run(tool.invoke(sent, context))).metadata.get("approval"):
        requests.append(result.metadata["approval"])
        assert len(requests) < 20
        context.approve(requests[-1], arguments=edits.get(len(requests)))
    return requests, result


@pytest.mark.parametrize("edits", [{}, {1: {"amount": 7}}], ids=["as it was", "edited"])
def test_wrappers_in_one_another_ask_once_each(edits):
    """An approval of a wrapper waits for those of the tools inside; each further wrapper doubled the questions."""
    tool, ran = guarded()
    for name in ("inner", "middle", "outer"):
        tool = WrapperTool(tool, name=name, input_guardrails=[require_approval()])
    requests, result = resumed(tool, edits=edits)

    assert [request.tool for request in requests] == ["outer", "middle", "inner", "pay"]
    assert result.success and ran == [(7 if edits else 5, "bob")]


def test_the_guardrails_of_one_tool_ask_once_each():
    """A question about untrusted values waits for no second answer to the first question."""
    tool, ran = guarded()
    tool.add_input_guardrails([trusted_only("to", ask=True), require_approval()])
    requests, result = resumed(tool, {"sources": {"/amount": ["mail"], "/to": ["mail"]}})
    assert [request.tool for request in requests] == ["pay"]
    tool.add_input_guardrails([require_approval()])
    tool.input_guardrails.insert(1, lambda call, context: dataclasses.replace(call, id="c2"))
    requests, result = resumed(tool, {"sources": {"/to": ["mail"]}})

    assert [request.call_id for request in requests] == ["c1", "c2"]
    assert result.success and ran == [(5, "bob")] * 2


def test_a_wrapper_that_has_begun_its_work_asks_again():
    """Its approval covers one run, and its own `run` may have done something before the tool inside."""
    done = []

    class Telling(WrapperTool):
        async def run(self, call, context):
            done.append("told")
            return await super().run(call, context)

    tool, ran = guarded()
    outer = Telling(tool, name="outer", input_guardrails=[require_approval()])
    requests, result = resumed(outer)

    assert [request.tool for request in requests] == ["outer", "pay", "outer"]
    assert result.success and done == ["told"] * 2 and ran == [(5, "bob")]


def test_an_approval_that_waits_for_another_expires_in_its_own_time(monkeypatch):
    """A call that pauses again makes no approval last longer."""
    clock = [1_000.0]
    monkeypatch.setattr("functool.context.time.time", lambda: clock[0])
    tool, ran = guarded()
    outer = WrapperTool(tool, name="outer", input_guardrails=[require_approval()])
    context = Context()
    context.approve(asked(outer, {"amount": 5}, context), expires_in=5)
    inner = asked(outer, {"amount": 5}, context)
    assert inner.tool == "pay"
    context.approve(inner)
    clock[0] += 6

    assert asked(outer, {"amount": 5}, context).tool == "outer" and ran == []


def test_a_context_says_which_decisions_wait(monkeypatch):
    """A host asks whether a decision was used, to keep those that were not."""
    clock = [1_000.0]
    monkeypatch.setattr("functool.context.time.time", lambda: clock[0])
    tool, ran = guarded()
    context = Context()
    request = asked(tool, {"amount": 5}, context)
    seen = [context.has_decision(request)]
    assert not context.has_decision()
    context.approve(request, expires_in=5)
    assert context.has_decision()
    seen.append(context.has_decision(request))
    clock[0] += 6
    seen.append(context.has_decision(request))
    context.approve(request)
    seen.append(context.has_decision(request))
    call(tool, {"amount": 5}, context)
    seen.append(context.has_decision(request))

    assert seen == [False, True, False, True, False] and len(ran) == 1


@pytest.mark.parametrize(
    "guardrail",
    [require_approval(), trusted_only(wrote=lambda context: "5")],
    ids=["require_approval", "trusted_only"],
)
def test_guardrails_take_an_argument_of_any_type(guardrail):
    """A schema may say `true` for an argument that may be anything."""
    parameters = {"type": "object", "properties": {"x": True, "y": {"default": 1}}}
    tool = SchemaTool("any", "d", parameters, lambda a: a["x"], input_guardrails=[guardrail])
    context = Context(approver=lambda request: True)

    assert call(tool, {"x": 5}, context).value == 5


def test_a_grant_takes_an_argument_of_any_type():
    """A grant covers calls of a tool whose schema says `true` for an argument."""
    parameters = {"type": "object", "properties": {"x": True, "y": {"default": 1}}}
    tool = SchemaTool("any", "d", parameters, lambda a: a, input_guardrails=[require_approval()])
    context = Context()
    context.grant(Grant.of(tool, {"x": 5}))

    assert call(tool, {"x": 5}, context).value == {"x": 5, "y": 1}
