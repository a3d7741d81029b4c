"""`trusted_only`: values from untrusted tools are refused, or asked about."""

import asyncio
import pickle
import threading
from dataclasses import replace
from datetime import date
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, Field, HttpUrl, StringConstraints

from functool import (
    Context,
    Decision,
    DefinitionError,
    FunctionTool,
    GuardrailError,
    SchemaTool,
    ToolCall,
    ToolResult,
    Toolset,
    ToolSettings,
    WrapperTool,
)
from functool.guardrails import redact, require_approval, trusted_only
from functool.guardrails.labels import SHOWS_OTHERS
from functool.guardrails.trusted import wanted_results
from tests.guardrails.tools import Person, edit
from tests.schemas import STR
from tests.support import call, taking


def pay_tool(*guardrails):
    paid = []

    def pay(to: str, amount: float, parts: list[str] | None = None) -> str:
        paid.append((to, amount))
        return "paid"

    return FunctionTool(pay, input_guardrails=guardrails), paid


def run(tool, arguments, context=None, sources=None, id="c1"):
    metadata = {} if sources is None else {"sources": sources}
    call = ToolCall(name="pay", arguments=arguments, id=id, metadata=metadata)
    return asyncio.run(tool.invoke(call, context))


def test_an_argument_goes_by_its_parameters_name():
    """By an alias nothing could be seen of an argument, so every call is refused."""

    def pay(to: Annotated[str, Field(alias="payee")], note: str = "") -> str:
        return "paid"

    def texts(name):
        tool = FunctionTool(pay, input_guardrails=[trusted_only(name)])
        return [run(tool, {"payee": "a"}, sources=s).text for s in ({}, {"/to": ["mail"]})]

    failed = "The guardrail trusted_only failed, so the input was refused."
    assert texts("payee") == [failed, failed]
    assert texts("to")[0] == "paid" and "/to is from mail" in texts("to")[1]


def open_tool(guardrail, form="schema"):
    """A tool that also takes arguments that its schema does not name."""
    if form == "schema":
        schema = {"properties": {"to": STR, "note": STR}}
        return SchemaTool("pay", "Pay.", schema, lambda given: "paid", input_guardrails=[guardrail])

    def pay(to: Annotated[str, Field(default_factory=lambda: "bob")], **rest: str) -> str:
        return "paid"

    return FunctionTool(pay, input_guardrails=[guardrail])


@pytest.mark.parametrize("form", ["schema", "rest"])
def test_an_argument_that_the_schema_does_not_name_is_judged(form):
    """An open schema lets an argument come under another name, so all unknown names are looked at."""
    tool = open_tool(trusted_only("to"), form)

    assert run(tool, {"payee": "a"}).text == "paid"
    for place in ("/payee", ""):
        refused = run(tool, {"payee": "a", "other": "b"}, sources={place: ["mail"]}).text
        assert f"{place or 'all of it'} is from mail" in refused
    assert run(tool, {"to": "a", "payee": "b"}, sources={"/payee": ["mail"]}).text == "paid"
    failed = "The guardrail trusted_only failed, so the input was refused."
    assert run(open_tool(trusted_only("payee"), form), {"other": "a"}).text == failed


@pytest.mark.parametrize("form", ["schema", "rest"])
def test_a_name_that_the_schema_does_not_know_is_a_value(form):
    """A model chose the name, at the top as at every depth."""
    tool = open_tool(trusted_only(wrote=lambda context: "pay bob a tip"), form)

    assert run(tool, {"to": "bob", "tip": "a"}).text == "paid"
    assert "/eve is from the model" in run(tool, {"to": "bob", "eve": "a"}).text
    named = open_tool(trusted_only("eve", wrote=lambda context: "pay bob a tip"), form)
    assert run(named, {"eve": "bob"}).text == "paid"
    assert "/eve is from the model" in run(named, {"eve": "ann"}).text


def test_a_parameters_name_is_no_value_where_the_model_writes_an_alias():
    """The author chose it, although the schema does not show it."""

    def pay(to: Annotated[str, Field(alias="payee")]) -> str:
        return "paid"

    guard = trusted_only(wrote=lambda context: "pay bob")
    tool = FunctionTool(pay, input_guardrails=[guard])
    assert run(tool, {"payee": "bob"}).text == "paid"
    assert "/to is from the model" in run(tool, {"payee": "eve"}).text


def test_an_alias_beside_arguments_that_the_schema_does_not_name():
    """The parameter's name and its default are the author's, and every other name the model's."""

    def pay(to: Annotated[str, Field(alias="payee")] = "the bank", **rest: str) -> str:
        return "paid"

    guard = trusted_only(wrote=lambda context: "pay bob")
    tool = FunctionTool(pay, input_guardrails=[guard])
    assert run(tool, {}).text == run(tool, {"payee": "bob"}).text == "paid"
    assert run(tool, {"payee": "the bank"}).text == "paid"
    assert "/to is from the model" in run(tool, {"payee": "eve"}).text
    assert "/eve is from the model" in run(tool, {"payee": "bob", "eve": "bob"}).text
    assert run(tool, {"to": "eve"}).error.type == "ArgumentError"


def test_an_argument_with_an_alias_is_not_another_one_that_was_left_out():
    """A call that leaves out an optional argument is checked, and not refused."""

    def pay(
        to: Annotated[str, Field(alias="payee")],
        note: Annotated[str, Field(default_factory=lambda: "none")],
    ) -> str:
        return "paid"

    tool = FunctionTool(pay, input_guardrails=[trusted_only("note")])
    assert run(tool, {"payee": "eve"}, sources={"/payee": ["mail"]}).text == "paid"
    labelled = {"/note": ["mail"]}
    assert "/note is from" in run(tool, {"payee": "a", "note": "b"}, sources=labelled).text


MALFORMED = [
    ["web"],
    "web",
    5,
    {"/to": "web"},
    {"/to": None},
    {"/to": [5]},
    {"/to": [["web"]]},
    {"/to": {"web"}},
    {5: ["web"]},
]


@pytest.mark.parametrize("sources", MALFORMED, ids=str)
@pytest.mark.parametrize("guardrail", [trusted_only(), trusted_only("to"), require_approval()])
def test_labels_that_cannot_be_read_refuse_the_call(guardrail, sources):
    """Some counted as no labels, so an untrusted value got through; others ended in a TypeError."""
    told = []
    tool, paid = pay_tool(guardrail)
    tool.add_on_error_func(lambda error, context: told.append(type(error)))
    call = ToolCall(name="pay", arguments={"to": "a", "amount": 1}, metadata={"sources": sources})
    result = asyncio.run(tool.invoke(call))

    assert result.error.type == "GuardrailError" and told == [GuardrailError] and paid == []
    assert result.text == (
        "The call was refused: the host's labels cannot be read: `sources` maps JSON pointers to"
        " lists of names."
    )


@pytest.mark.parametrize("sources", [None, {}], ids=str)
def test_no_labels_are_no_malformed_ones(sources):
    """A host may write that there are none."""
    tool, paid = pay_tool(trusted_only())

    call = ToolCall(name="pay", arguments={"to": "a", "amount": 1}, metadata={"sources": sources})
    assert asyncio.run(tool.invoke(call)).success and paid == [("a", 1)]


def test_a_labelled_value_is_refused():
    """A label on the argument, inside of it, or on all arguments refuses the call."""
    tool, paid = pay_tool(trusted_only("to", "parts"))
    good = {"to": "a", "amount": 1, "parts": ["x"]}

    for place in ("/to", "/parts/0", "/parts", ""):
        result = run(tool, good, sources={place: ["web"]})
        assert result.error.type == "GuardrailError"
        assert result.text == (
            "The call was refused: its values have to come from the user or from a trusted tool, "
            f"and {place or 'all of it'} is from web."
        )
    assert paid == []
    assert run(tool, good, sources={"/amount": ["web"]}).success
    assert run(tool, good).success
    assert run(pay_tool(trusted_only())[0], good, sources={"/amount": ["web"]}).is_error


def test_without_a_label_the_users_words_count():
    """With `wrote` a value stands in the user's text as whole words, or is refused."""
    tool, paid = pay_tool(trusted_only("to", "amount", wrote=lambda context: "Pay bob 50 euros"))

    assert run(tool, {"to": "bob", "amount": 50}).success
    assert "/to is from the model" in run(tool, {"to": "ob", "amount": 50}).text
    assert "/amount is from the model" in run(tool, {"to": "bob", "amount": 5}).text
    assert paid == [("bob", 50)]
    tool, _ = pay_tool(trusted_only("to", wrote=lambda context: ["no", "to eve"]))
    assert run(tool, {"to": "eve", "amount": 5}).success
    assert run(tool, {"to": "mallory", "amount": 5}).is_error


def test_whole_short_values_of_trusted_tools_count():
    """What a trusted tool returned in this context is trusted, what an untrusted one did is not."""

    @FunctionTool
    def address(name: str) -> dict[str, str]:
        return {"iban": "DE12", "note": "long " * 100}

    @FunctionTool(settings=ToolSettings(untrusted=True))
    def mail() -> str:
        return "US99"

    tool, _ = pay_tool(trusted_only("to", wrote=lambda context: "pay her"))
    tools, context = Toolset([tool, address, mail]), Context()

    def call(name, id, /, **arguments):
        return tools.call_sync(ToolCall(name=name, arguments=arguments, id=id), context)

    call("address", "1", name="x")
    assert call("mail", "2").metadata["sources"] == ["mail"]
    assert call("pay", "3", to="DE12", amount=1).success
    assert call("pay", "4", to="DE1", amount=1).is_error
    assert call("pay", "5", to="US99", amount=1).is_error
    elsewhere = ToolCall(name="pay", arguments={"to": "DE12", "amount": 1}, id="6")
    assert tools.call_sync(elsewhere, Context()).is_error


def test_a_value_inside_of_a_labelled_one_has_its_source():
    """What a label covers is not blamed on the model as well."""
    tool, _ = pay_tool(trusted_only("parts", wrote=lambda context: ""))

    refused = run(tool, {"to": "a", "amount": 1, "parts": ["x"]}, sources={"/parts": ["web"]})
    assert refused.error.details == {"sources": {"/parts": ["web"]}}


def test_a_person_is_shown_the_source():
    """With `ask=True` a person sees where each value is from; the answer counts for this call."""
    tool, paid = pay_tool(trusted_only("to", ask=True, wrote=lambda context: "hello"))
    context = Context()
    arguments = {"to": "a", "amount": 1}
    request = run(tool, arguments, context, {"/amount": ["web"]}).metadata["approval"]

    assert request.sources == {"/amount": ["web"], "/to": ["the model"]}
    context.approve(request)
    assert run(tool, arguments, context, {"/amount": ["web"]}).success
    assert paid == [("a", 1)]
    assert run(tool, arguments, context).error.type == "ApprovalRequired"
    assert tool.requires_approval
    assert not pay_tool(trusted_only("to"))[0].requires_approval


def test_an_edited_call_has_the_labels_of_its_tools_only():
    """The marks that a person was shown label neither the result nor the call of the tool inside."""
    tool, paid = pay_tool(trusted_only("to"))
    ask = trusted_only("to", ask=True, wrote=lambda context: "hello")
    outer = WrapperTool(tool, input_guardrails=[ask])
    person = Context(approver=Person(edit(to="b", amount=2)))

    done = run(outer, {"to": "a", "amount": 1}, person)
    assert (done.success, done.metadata.get("sources")) == (True, None)
    assert done.metadata["decision"]["request"]["sources"] == {"/to": ["the model"]}
    labelled = run(outer, {"to": "a", "amount": 1}, person, {"/amount": ["web"]})
    assert (labelled.success, labelled.metadata["sources"]) == (True, ["web"])
    assert paid == [("b", 2), ("b", 2)]


@pytest.mark.parametrize("edit", [None, {"to": "b", "amount": 2}])
def test_a_decision_counts_where_the_value_has_become_trusted(edit):
    """The words that refuse a value hold it, but do not make the refused call run, nor an edited one as it was."""
    said = ["hello"]
    tool, paid = pay_tool(trusted_only("to", ask=True, wrote=lambda context: said))
    context = Context()
    arguments = {"to": "a@x", "amount": 1}
    request = run(tool, arguments, context).metadata["approval"]
    if edit:
        context.approve(request, arguments=edit)
    else:
        context.deny(request)
    said.append("No, not to a@x.")
    context = pickle.loads(pickle.dumps(context))

    assert run(tool, arguments, context).success is bool(edit)
    assert paid == ([("b", 2)] if edit else [])
    assert run(tool, arguments, context).success  # A decision counts once.
    assert paid[-1] == ("a@x", 1)


@pytest.mark.parametrize("edit", [None, {"to": "b", "amount": 2}])
def test_a_decision_counts_where_a_part_of_the_call_has_become_trusted(edit):
    """A person who saw two suspect values is not asked again when one of them is left."""
    said = ["hello"]
    tool, paid = pay_tool(trusted_only(ask=True, wrote=lambda context: said))
    context = Context()
    arguments = {"to": "a@x", "amount": 1}
    context.approve(run(tool, arguments, context).metadata["approval"], arguments=edit)
    said.append("Yes, pay a@x.")

    assert run(tool, arguments, context).success
    assert paid == [("b", 2) if edit else ("a@x", 1)]
    assert run(tool, arguments, context).error.type == "ApprovalRequired"


@pytest.mark.parametrize("edit", [None, {"to": "b", "amount": 2}])
def test_a_decision_does_not_count_for_labels_that_the_person_has_not_seen(edit):
    """What was approved as the text of one tool is asked about as that of another, whose label stays."""
    tool, paid = pay_tool(trusted_only("amount", ask=True), require_approval())
    context = Context()
    arguments = {"to": "a", "amount": 1}
    request = run(tool, arguments, context, {"/to": ["mail"]}).metadata["approval"]
    context.approve(request, arguments=edit)

    waiting = run(tool, arguments, context, {"/to": ["web"]})
    assert waiting.metadata["approval"].sources == {"/to": ["web"]}
    assert waiting.metadata["sources"] == ["web"]
    assert run(tool, arguments, context, {"/to": ["mail"]}).success
    assert paid == [("b", 2) if edit else ("a", 1)]


def test_a_refusal_counts_before_an_approval():
    """Of two decisions about a call whose value has become trusted, the refusal counts."""
    tool, paid = pay_tool(trusted_only("to", ask=True))
    context = Context()
    arguments = {"to": "a", "amount": 1}
    for name in ("web", "mail"):
        request = run(tool, arguments, context, {"/to": [name]}).metadata["approval"]
        context.deny(request, "no mail") if name == "mail" else context.approve(request)

    assert "no mail" in run(tool, arguments, context).text
    assert run(tool, arguments, context, {"/to": ["web"]}).success
    assert paid == [("a", 1)]


def test_a_context_keeps_nothing_of_a_used_decision():
    """A context in which a person decides about calls with labels does not grow."""
    tool, paid = pay_tool(trusted_only("to", ask=True))
    context = Context()
    for amount in range(20):
        arguments = {"to": "a", "amount": amount}
        context.approve(run(tool, arguments, context, {"/to": ["web"]}).metadata["approval"])
        assert run(tool, arguments, context, {"/to": ["web"]}).success

    assert len(paid) == 20
    assert len(pickle.dumps(context)) == len(pickle.dumps(Context()))


def test_a_context_keeps_nothing_of_an_expired_decision():
    """Approvals of calls that nobody makes in time are gone when the next decision comes."""
    tool, _ = pay_tool(trusted_only("to", ask=True))
    context, other = Context(), Context()
    for amount in range(20):
        arguments = {"to": "a", "amount": amount}
        request = run(tool, arguments, context, {"/to": ["web"]}).metadata["approval"]
        context.approve(request, expires_in=1e-9)
    context.deny(request)
    other.deny(request)

    assert len(pickle.dumps(context)) == len(pickle.dumps(other))


@pytest.mark.parametrize("wrote", [None, lambda context: "Pay a."])
def test_a_persons_edit_is_trusted(wrote):
    """What a person wrote in place of the arguments runs."""
    tool, paid = pay_tool(trusted_only("to", ask=True, wrote=wrote))
    asked = []

    def approver(request):
        asked.append(request.sources)
        return Decision(approved=True, arguments={"to": "b", "amount": 2})

    assert run(tool, {"to": "a", "amount": 1}, Context(approver=approver), {"/to": ["web"]}).success
    assert paid == [("b", 2)]
    assert asked == [{"/to": ["web"]}]


def test_bad_definitions_and_names():
    """A name that is none is refused at definition; one that the tool lacks fails closed."""
    for wrong in ("", 3):
        with pytest.raises(
            DefinitionError, match="^trusted_only takes names of arguments: trusted"
        ):
            trusted_only(wrong)
    with pytest.raises(DefinitionError, match="^wrote takes callables, not str$"):
        trusted_only("to", wrote="text")
    with pytest.raises(DefinitionError, match="^wrote: .* it has to take context$"):
        trusted_only("to", wrote=lambda: "text")
    tool, paid = pay_tool(trusted_only("too"))

    assert run(tool, {"to": "a", "amount": 1}).is_error
    assert paid == []


def test_a_host_can_ask_whether_a_call_will_be_asked_about():
    """`asks_approval` says of each call whether a person will be asked."""
    guardrail = trusted_only("to", ask=True)
    tool, _ = pay_tool(guardrail)
    arguments = tool.bind({"to": "a", "amount": 1}).arguments
    context = Context()

    async def asked(sources):
        call = ToolCall(name="pay", arguments=arguments, id="c", metadata={"sources": sources})
        return await guardrail.asks_approval(call, context.for_call(call, tool.schema))

    assert asyncio.run(asked({})) is False
    assert asyncio.run(asked({"/to": ["web"]})) is True


def test_every_value_of_a_list_is_looked_at():
    """Each item of a list has to stand in the user's words; null and booleans say nothing."""
    tool, _ = pay_tool(
        trusted_only("parts", "amount", wrote=lambda context: "bread and milk for 5")
    )

    assert run(tool, {"to": "x", "amount": 5, "parts": ["bread", "milk", "bread"]}).success
    assert run(tool, {"to": "x", "amount": 5, "parts": None}).success
    assert run(tool, {"to": "x", "amount": 5.0}).success
    refused = run(tool, {"to": "x", "amount": 5, "parts": ["bread", "wine"]})
    assert "/parts/1 is from the model" in refused.text
    assert "/parts/0" not in refused.text


def test_fields_of_models_that_trusted_tools_return_count():
    """Values inside of a model count one by one, and what JSON cannot say counts as its text."""

    class Contact(BaseModel):
        name: str
        mail: str

    @FunctionTool
    def find(name: str) -> object:
        return [Contact(name=name, mail="ada@example.com")] if name == "ada" else {1, object}

    context = Context()
    tool, paid = pay_tool(trusted_only("to", wrote=lambda context: "pay ada"))
    call = ToolCall(name="find", arguments={"name": "ada"}, id="f1")
    assert run(tool, {"to": "ada@example.com", "amount": 1}, context).is_error
    asyncio.run(find.invoke(call, context))
    asyncio.run(find.invoke(replace(call, arguments={"name": "x"}), context))

    assert run(tool, {"to": "ada@example.com", "amount": 1}, context).success
    assert len(paid) == 1


def written(*texts):
    """A guardrail for a conversation in which the user wrote these texts."""
    return trusted_only("to", wrote=lambda context: texts)


def ask(tool, arguments, context=None):
    call = ToolCall(name=tool.name, arguments=arguments, id="c1")
    return asyncio.run(tool.invoke(call, context))


def test_a_key_that_the_schema_does_not_name_is_a_value():
    """An address may be a key. The names of fields are the author's own."""

    class Person(BaseModel):
        mail: str

    def invite(to: dict[str, Person]) -> str:
        return "invited"

    tool = FunctionTool(invite, input_guardrails=[written("ask ann, her mail is a@b.example")])

    assert ask(tool, {"to": {"ann": {"mail": "a@b.example"}}}, Context()).success
    refused = ask(tool, {"to": {"eve": {"mail": "a@b.example"}}}, Context())
    assert refused.error.details == {"sources": {"/to/eve": ["the model"]}}


def test_a_tool_that_repeats_an_argument_makes_it_no_trusted_value():
    """Otherwise a model could launder any value through a trusted tool."""
    sent = []

    def send(to: str) -> None:
        sent.append(to)

    def draft(to: list[str], note: str = "n-1") -> dict[str, object]:
        return {"to": to, "number": "d-7", "note": note}

    context, guarded = Context(), FunctionTool(send, input_guardrails=[written("write to ann")])
    ask(FunctionTool(draft), {"to": '["eve"]'}, context)

    assert ask(guarded, {"to": "eve"}, context).error.type == "GuardrailError"
    assert ask(guarded, {"to": "d-7"}, context).success
    assert sent == ["d-7"]


class Odd:
    """Nothing can be done with it."""

    def __bool__(self):
        raise ValueError

    __eq__ = __str__ = __repr__ = __bool__
    __hash__ = None


@pytest.mark.parametrize(
    "value",
    [
        10**10_000,
        Odd(),
        ToolResult(value=Odd()),
        ToolResult(metadata=Odd()),
        ToolResult(output=["no content"]),
        ToolResult(metadata={"sources": [Odd()]}),
    ],
    ids=["int", "object", "value", "metadata", "output", "sources"],
)
def test_a_result_that_cannot_be_remembered_is_still_a_result(value):
    """Any tool of the process is asked for its results once a guardrail wants them."""
    written()

    async def odd() -> object:
        return value

    result = ask(FunctionTool(odd), {}, Context())
    assert result.success
    assert result.call_id == "c1"


def test_of_more_than_fifty_untrusted_values_fifty_are_named():
    """The whole argument is blamed then, so that nothing stays without a source."""

    def send(to: list[str]) -> None:
        raise AssertionError

    tool = FunctionTool(send, input_guardrails=[written("ann")])
    fifty, more = (
        ask(tool, {"to": [f"x{i}" for i in range(n)]}, Context()).error.details["sources"]
        for n in (50, 500)
    )

    assert len(more) == 51
    assert more["/to"] == more["/to/49"] == ["the model"]
    assert [*fifty] == [f"/to/{i}" for i in range(50)]


def test_what_an_untrusted_tool_returned_inside_of_a_trusted_one_is_no_trusted_value():
    """A trusted tool's result that an untrusted tool may have written is not remembered."""
    stranger = FunctionTool(lambda: "IBAN-9", name="mail", settings=ToolSettings(untrusted=True))

    @FunctionTool
    async def helper(context: Context) -> str:
        """Pass on what the untrusted tool returned."""
        return (await stranger.invoke(ToolCall(name="mail"), context)).text

    tool, paid = pay_tool(trusted_only("to", wrote=lambda context: "pay them"))
    context = Context()
    result = asyncio.run(helper.invoke(ToolCall(name="helper"), context))
    assert (result.text, result.metadata["sources"]) == ("IBAN-9", ["mail"])
    assert run(tool, {"to": "IBAN-9", "amount": 1}, context).is_error
    assert paid == []


@pytest.mark.parametrize(
    ("arguments", "place"),
    [({"payee": "eve"}, "/payee"), ({"a/b": ["x", "eve"]}, "/a~1b/1"), ({"to": "eve"}, "/to")],
    ids=["alias", "inside of an alias", "another argument's parameter"],
)
def test_a_label_under_an_alias_is_a_label_of_the_parameter(arguments, place):
    """A program writes labels under the names that it sends, and guardrails use the parameters'."""

    def pay(
        to: Annotated[str, Field(alias="payee")] = "",
        parts: Annotated[list[str], Field(alias="a/b")] = [],  # noqa: B006
        note: Annotated[str, Field(alias="to")] = "",
    ) -> str:
        return "paid"

    names = {"/payee": "to", "/a~1b/1": "parts", "/to": "note"}
    for name in ("to", "parts", "note"):
        tool = FunctionTool(pay, input_guardrails=[trusted_only(name)])
        wrapped = WrapperTool(FunctionTool(pay), input_guardrails=[trusted_only(name)])
        for each in (tool, wrapped, WrapperTool(tool)):
            refused = run(each, arguments, sources={place: ["mail"]}).is_error
            # The name `to` is that of a parameter, and an alias of another: both are labelled.
            assert refused == (names[place] == name or place == f"/{name}")


def test_a_label_whose_place_is_gone_counts_for_the_whole_call():
    """The place may be one of the strict form. Nothing that it labels gets through."""

    def pay(to: str = "", note: int | str = 5, **more: str) -> str:
        return "paid"

    tool = FunctionTool(pay, strict=True, input_guardrails=[trusted_only("to")])
    pairs = {"to": "ann", "note": None, "more": [{"key": "cc", "value": "eve"}]}

    assert run(tool, pairs, sources={"/more/0/value": ["mail"]}).is_error
    hiding = {**pairs, "more": [*pairs["more"], {"key": "more", "value": "x"}]}
    assert run(tool, hiding, sources={"/more/0/value": ["mail"]}).is_error
    assert run(tool, pairs, sources={"no pointer": ["mail"]}).is_error
    assert run(tool, pairs, sources={"/cc": ["mail"]}).success
    assert run(tool, pairs, sources={"/note": ["mail"]}).success


def test_a_label_of_the_whole_call_is_none_of_the_argument_without_a_name():
    """The pointer of all arguments is empty, and that of an argument called "" is a slash."""
    parts = {"": STR, "to": STR}
    tool = SchemaTool("pay", "Pay.", {"properties": parts}, lambda arguments: "paid")
    tool.add_input_guardrails([trusted_only("to")])

    assert run(tool, {"": "a", "to": "b"}, sources={"": ["mail"]}).is_error
    assert run(tool, {"": "a", "to": "b"}, sources={"/": ["mail"]}).success


def test_an_approver_sees_each_label_once():
    """A label may have come under the alias and under the parameter's name."""

    def pay(to: Annotated[str, Field(alias="payee")]) -> str:
        return "paid"

    tool = FunctionTool(pay, input_guardrails=[trusted_only("to", ask=True)])
    sources = {"/payee": ["mail", "web"], "/to": ["web"]}
    request = run(tool, {"payee": "a"}, Context(), sources).metadata["approval"]
    assert request.sources == {"/to": ["mail", "web"]}


def test_labels_of_every_value_are_found_without_comparing_all_of_them():
    """There may be as many labels as values, so the square of their number is too much."""

    def send(to: list[str]) -> str:
        return "sent"

    items = [f"x{i}" for i in range(20_000)]
    sources = {f"/to/{i}": ["web"] for i in range(20_000)}
    call = ToolCall(name="send", arguments={"to": items}, metadata={"sources": sources})
    tool = FunctionTool(send, input_guardrails=[written("ann")])

    assert asyncio.run(tool.invoke(call, Context())).error.type == "GuardrailError"


@pytest.mark.parametrize("labelled", [False, True])
def test_the_places_of_many_values_below_a_long_key_are_not_written_out(labelled):
    """Each would be as long as the key, so the places of one call would be gigabytes."""
    key = "k" * 400_000
    tool = taking(Any, input_guardrails=[trusted_only(wrote=lambda context: f"{key} is 1")])
    sources = {f"/x/{key}/{i}": ["web"] for i in range(labelled)}
    call = ToolCall(
        name="take", arguments={"x": {key: [1] * 200_000}}, metadata={"sources": sources}
    )
    result = asyncio.run(tool.invoke(call, Context()))

    assert result.is_error is labelled
    assert (result.error.details["sources"] if labelled else sources) == sources


def test_the_default_of_the_author_is_trusted():
    """The model did not write it, or might as well have left it out. A label still counts."""
    paid = []

    def pay(to: str, amount: float = 5, note: str = "thanks") -> str:
        paid.append((to, amount, note))
        return "paid"

    tool = FunctionTool(pay, input_guardrails=[trusted_only(wrote=lambda context: "pay ann")])
    assert run(tool, {"to": "ann"}).success
    assert run(tool, {"to": "ann", "note": "thanks"}).success
    assert "/note is from mail" in run(tool, {"to": "ann"}, sources={"/note": ["mail"]}).text
    assert "/amount is from the model" in run(tool, {"to": "ann", "amount": 6}).text
    assert paid == [("ann", 5, "thanks")] * 2


def test_a_labelled_value_is_not_searched_for_in_what_the_user_wrote():
    """Its label already names its source. A list may hold a hundred thousand such values."""
    searched = []

    class Written(str):
        def find(self, text, *place):
            searched.append(text)
            return super().find(text, *place)

    def send(to: list[str]) -> str:
        return "sent"

    guardrail = trusted_only("to", wrote=lambda context: Written("send it to ann"))
    tool = FunctionTool(send, input_guardrails=[guardrail])
    refused = run(tool, {"to": ["eve", "bob"]}, sources={"/to": ["mail"]})
    assert "/to is from mail." in refused.text and searched == []
    assert run(tool, {"to": ["ann"]}).text == "sent" and searched == ["ann"]


@pytest.mark.parametrize("around", ["bare", "wrapper", "body"])
def test_a_result_that_shows_the_words_of_others_is_no_trusted_value(around):
    """A tool of the host, such as a search of tools, may show what strangers wrote."""

    @FunctionTool
    def shows(context: Context) -> str:
        context.notes[SHOWS_OTHERS] = True
        return "IBAN-9"

    @FunctionTool
    async def helper(context: Context) -> str:
        return (await shows.invoke(ToolCall(name="shows"), context)).text

    tool, paid = pay_tool(trusted_only("to", wrote=lambda context: "pay them"))
    context = Context()
    reader = {"bare": shows, "wrapper": WrapperTool(shows), "body": helper}[around]
    assert asyncio.run(reader.invoke(ToolCall(name="x"), context)).text == "IBAN-9"
    assert "the model" in run(tool, {"to": "IBAN-9", "amount": 1}, context).text
    assert paid == []


def test_results_are_remembered_only_where_a_guardrail_needs_them():
    """A process without `trusted_only(wrote=)` keeps nothing of what its tools return."""
    lookup = FunctionTool(lambda: "IBAN-7", name="lookup")
    before = {*wanted_results}
    wanted_results.clear()
    try:
        for tool in (lookup, WrapperTool(lookup)):
            context = Context()
            assert asyncio.run(tool.invoke(ToolCall(name="lookup"), context)).text == "IBAN-7"
            assert context.state == {}
        trusted_only(wrote=lambda context: "")
        asyncio.run(WrapperTool(lookup).invoke(ToolCall(name="lookup"), context))
        assert context.state != {}
    finally:
        wanted_results.update(before)


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    ("annotation", "sent", "got"),
    [
        (
            Annotated[str, StringConstraints(strip_whitespace=True, to_lower=True)],
            " EVE@x",
            "eve@x",
        ),
        (int, "007", 7),
        (date, "2020-01-01T00:00:00", "2020-01-01"),
        (list[date], '["2020-01-01T00:00:00"]', "2020-01-01"),
        (HttpUrl, "http://EVE", "http://eve/"),
    ],
)
def test_a_value_that_validation_spells_in_another_way(annotation, sent, got, strict, wrapped):
    """A tool that repeats an argument makes it trusted neither as the model wrote it nor as the body got it."""
    echo = taking(annotation, strict=strict)
    tool = WrapperTool(echo, name="w") if wrapped else echo
    guard = trusted_only(wrote=lambda context: "Pay bob.")
    pay = FunctionTool(lambda to: "paid", name="pay", input_guardrails=[guard])
    context = Context()

    assert call(tool, {"x": sent}, context).success
    assert "/to is from the model" in run(pay, {"to": got}, context).text
    assert "/to is from the model" in run(pay, {"to": sent}, context).text


def test_a_repeated_argument_is_found_at_every_depth():
    """The deepest value that arguments may hold is still what the model wrote."""

    def deepest(x: Any) -> str:
        while isinstance(x, list):
            [x] = x
        return str(x)

    sent: Any = "EVE"
    for _ in range(99):
        sent = [sent]
    guard = trusted_only(wrote=lambda context: "Pay bob.")
    pay = FunctionTool(lambda to: "paid", name="pay", input_guardrails=[guard])
    context = Context()

    assert call(FunctionTool(deepest), {"x": sent}, context).value == "EVE"
    assert "/to is from the model" in run(pay, {"to": "EVE"}, context).text


def test_arguments_are_read_again_only_for_new_values():
    """The validators of an author run a second time only if a result has a value that is not known yet."""
    read: list[Any] = []

    def find(x: Annotated[str, AfterValidator(lambda x: read.append(x) or x)]) -> str:
        return "bob@x"

    trusted_only(wrote=lambda context: "Pay bob.")
    tool, context = FunctionTool(find), Context()
    for wanted in (2, 3, 4):
        assert call(tool, {"x": "Bob"}, context).value == "bob@x"
        assert len(read) == wanted


def test_a_result_without_words_is_not_remembered():
    """Its arguments would be read again to no end, and they may be long."""
    read: list[Any] = []

    def store(x: Annotated[str, AfterValidator(lambda x: read.append(x) or x)]) -> None:
        return None

    trusted_only(wrote=lambda context: "Pay bob.")
    assert call(FunctionTool(store), {"x": "Bob"}, Context()).text == ""
    assert read == ["Bob"]


def test_what_an_output_guardrail_removed_is_not_remembered():
    """A value of a trusted tool that `redact` has hidden from the model is not trusted later."""

    @FunctionTool(output_guardrails=[redact(["ann-[0-9]+"])])
    def find() -> list[str]:
        return ["bob", "ann-7"]

    pay, paid = pay_tool(trusted_only("to", wrote=lambda context: ""))
    context = Context()
    assert call(find, {}, context).value == ["bob", "[redacted]"]

    assert run(pay, {"to": "bob", "amount": 1}, context).success
    assert run(pay, {"to": "ann-7", "amount": 1}, context).is_error
    assert paid == [("bob", 1)]


@pytest.mark.parametrize("depth", [1, 2])
def test_what_a_wrapper_labels_or_removes_is_not_remembered(depth):
    """A wrapper is the tool that a model calls: what it marks as untrusted, or redacts, is no trusted value, whoever is inside."""
    inner = FunctionTool(lambda: ["bob", "ann-7", "eve"], name="find")
    untrusted = WrapperTool(inner, settings=ToolSettings(untrusted=True))
    redacting = WrapperTool(inner, output_guardrails=[redact(["ann-[0-9]+"])])
    pay, paid = pay_tool(trusted_only("to", wrote=lambda context: ""))

    def passed(found: WrapperTool) -> list[str]:
        context = Context()
        for _ in range(depth - 1):
            found = WrapperTool(found)
        assert call(found, {}, context).success
        names = ["bob", "ann-7", "[redacted]"]
        return [to for to in names if run(pay, {"to": to, "amount": 1}, context).success]

    assert passed(untrusted) == []
    assert passed(redacting) == ["bob", "[redacted]"]
    assert passed(WrapperTool(inner)) == ["bob", "ann-7"]
    assert len(paid) == 4


def test_what_a_wrapper_or_the_body_inside_calls_is_remembered():
    """Only the call that a wrapper passes on to its tool is its own: other calls are calls of other tools."""
    find = FunctionTool(lambda: "bob", name="find")

    @FunctionTool
    async def helper(context: Context) -> str:
        await find.invoke(ToolCall(name="find"), context)
        return "done"

    class Asking(WrapperTool):
        async def run(self, call: ToolCall, context: Context) -> ToolResult:
            await find.invoke(ToolCall(name="find"), context)
            return await super().run(call, context)

    pay, paid = pay_tool(trusted_only("to", wrote=lambda context: ""))
    for tool in (WrapperTool(helper), Asking(FunctionTool(lambda: "done", name="idle"))):
        context = Context()
        assert call(tool, {}, context).text == "done"
        assert run(pay, {"to": "bob", "amount": 1}, context).success

    assert paid == [("bob", 1)] * 2


def test_a_call_that_a_tool_inside_of_a_wrapper_makes_of_itself_is_remembered():
    """A wrapper stands for one call of its tool, and not for those that this call makes."""

    @FunctionTool
    async def find(context: Context, name: str = "") -> str:
        if not name:
            return "bob"
        await find.invoke(ToolCall(name="find"), context)
        return "done"

    pay, paid = pay_tool(trusted_only("to", wrote=lambda context: ""))
    context = Context()
    assert call(WrapperTool(find), {"name": "eve"}, context).text == "done"

    assert run(pay, {"to": "bob", "amount": 1}, context).success
    assert run(pay, {"to": "eve", "amount": 1}, context).is_error
    assert paid == [("bob", 1)]


@pytest.mark.parametrize("wrap", [lambda tool: tool, WrapperTool], ids=["alone", "wrapped"])
def test_what_an_error_function_repeats_is_not_remembered(wrap):
    """It may answer a call whose arguments nobody could read, and repeat what the model wrote."""

    def find(name: str) -> str:
        return name

    def rescued(error, context):
        return ToolResult.of([context.call.arguments["name"]])

    tool = wrap(FunctionTool(find, on_error_func=rescued))
    pay, paid = pay_tool(trusted_only("to", wrote=lambda context: ""))
    context = Context()
    assert call(tool, {"name": "eve", "other": 1}, context).value == ["eve"]

    assert run(pay, {"to": "eve", "amount": 1}, context).is_error
    assert paid == []


def stripped(call, context):
    return replace(call, arguments={"name": call.arguments["name"].strip()})


class Stripping(WrapperTool):
    async def run(self, call: ToolCall, context: Context) -> ToolResult:
        return await self.tool.invoke(stripped(call, context), context)


class Renaming(WrapperTool):
    async def run(self, call: ToolCall, context: Context) -> ToolResult:
        arguments = {"name": call.arguments["who"].strip()}
        return await self.tool.invoke(replace(call, arguments=arguments), context)


@pytest.mark.parametrize(
    ("wrap", "argument"),
    [
        (lambda find: WrapperTool(find(input_guardrails=[stripped])), "name"),
        (lambda find: WrapperTool(WrapperTool(find(input_guardrails=[stripped]))), "name"),
        (lambda find: Stripping(find()), "name"),
        (lambda find: Renaming(find()), "who"),
    ],
    ids=["by a guardrail", "at two levels", "by a wrapper", "under another name"],
)
def test_what_a_wrapped_tool_repeats_is_not_remembered(wrap, argument):
    """What the tool inside of a wrapper gets is an argument, too, whoever has changed its form; its other values are trusted."""

    def find(name: str) -> list[str]:
        return [name, "bob"]

    tool = wrap(lambda **options: FunctionTool(find, **options))
    pay, paid = pay_tool(trusted_only("to", wrote=lambda context: ""))
    context = Context()
    assert call(tool, {argument: " eve "}, context).value == ["eve", "bob"]

    assert run(pay, {"to": "eve", "amount": 1}, context).is_error
    assert run(pay, {"to": "bob", "amount": 1}, context).success
    assert paid == [("bob", 1)]


def test_a_call_around_learns_each_label_once():
    """The labels of an inner call with output guardrails stand once in the context around it."""

    @FunctionTool(
        settings=ToolSettings(untrusted=True), output_guardrails=[lambda result, context: None]
    )
    def web() -> str:
        return "text"

    @FunctionTool
    async def outer(ctx: Context) -> list[str]:
        await web(ToolCall(name="web", id="c2"), ctx)
        return [*ctx.inner_labels]

    assert call(outer, {}, Context()).value == ["web"]


@pytest.mark.parametrize(("count", "elsewhere"), [(10, False), (5_000, True)])
def test_a_large_result_is_remembered_on_a_thread(count, elsewhere):
    """The values of a large result, such as the answer of a web API, do not hold the event loop."""
    threads = []

    def seen(number: int) -> int:
        threads.append(threading.get_ident())
        return number

    @FunctionTool
    async def load(number: Annotated[int, AfterValidator(seen)]) -> list[list[str]]:
        return [[f"row {i}"] for i in range(count)]

    pay, _ = pay_tool(trusted_only("to", wrote=lambda context: ""))
    context = Context()

    assert call(load, {"number": 1}, context).success
    assert (threads[-1] != threads[0]) is elsewhere and len(threads) == 2
    assert run(pay, {"to": f"row {count - 1}", "amount": 1}, context).success


def test_the_names_of_unknown_values_are_short_together():
    """Fifty values below a key of 100,000 characters name the whole call, and not the key each time."""
    tool = taking(Any, input_guardrails=[trusted_only(wrote=lambda context: "")])
    named = [
        call(tool, {"x": {"k" * size: [f"v{n}" for n in range(50)]}}).error.details["sources"]
        for size in (100_000, 1_000)
    ]

    assert named[0] == {"": ["the model"]}
    assert [len(name) for name in named[1]][:2] == [1_003, 1_005] and len(named[1]) == 51
