"""How the road asks guardrails: every verdict at every position, and what is listed of it."""

import asyncio
import dataclasses
import functools
import itertools

import pytest

from functool import (
    DefinitionError,
    FunctionTool,
    GuardrailError,
    InputGuardrail,
    OutputGuardrail,
    TextContent,
    ToolCall,
    ToolError,
    ToolResult,
    ToolSettings,
    Tripwire,
)
from tests.guardrails.tools import echo_tool, said
from tests.schemas import obj
from tests.support import call, did, foreign, refuses, shows


def test_the_aliases_are_generic():
    """A host can use the aliases on its own message types."""
    assert InputGuardrail[ToolCall] == InputGuardrail[ToolCall]
    assert OutputGuardrail[str] != OutputGuardrail[ToolResult]


VERDICTS = ["pass", "replace", "refuse", "crash", "trip", "nonsense"]


def guardrail(verdict, stage, is_async, log):
    def judge(value, context):
        log.append((stage, verdict))
        if verdict == "refuse":
            raise GuardrailError("refused")
        if verdict == "crash":
            raise RuntimeError("crashed")
        if verdict == "trip":
            raise Tripwire("tripped")
        if verdict == "nonsense":
            return 42
        if verdict == "replace":
            if stage == "input":
                return dataclasses.replace(value, arguments={"n": value.arguments["n"] + 1})
            return dataclasses.replace(value, output=[TextContent(text=value.text + "!")])
        return None

    async def ajudge(value, context):
        await asyncio.sleep(0)
        return judge(value, context)

    return ajudge if is_async else judge


def oracle(inputs, outputs):
    """What has to come of it: ("trip",), ("error", body ran), or ("ok", value)."""
    n, ran = 0, False
    refused = False
    for verdict in inputs:
        if verdict == "trip":
            return ("trip",), ran
        if verdict in ("refuse", "crash", "nonsense"):
            refused = True
            break
        n += verdict == "replace"
    if not refused:
        ran = True
    text = "E" if refused else str(n)
    for verdict in outputs:
        if verdict == "trip":
            return ("trip",), ran
        if verdict in ("refuse", "crash", "nonsense"):
            return ("error",), ran
        text += "!" if verdict == "replace" else ""
    return ("error",) if refused else ("ok", text), ran


@pytest.mark.parametrize("inputs", list(itertools.product(VERDICTS, repeat=2)), ids="-".join)
def test_every_verdict_at_every_position(inputs, caplog):
    """Two input and two output guardrails of every verdict, sync and async, do what the oracle says."""
    caplog.set_level(
        "CRITICAL", "functool"
    )  # The tracebacks of thousands of crashes take longer than the rest.

    async def main():
        for outputs, is_async in itertools.product(
            itertools.product(VERDICTS, repeat=2), (False, True)
        ):
            log, ran = [], []

            async def body(n: int):
                ran.append(n)
                return str(n)

            tool = FunctionTool(
                body,
                input_guardrails=[guardrail(v, "input", is_async, log) for v in inputs],
                output_guardrails=[guardrail(v, "output", is_async, log) for v in outputs],
            )
            expected, should_run = oracle(inputs, outputs)
            try:
                result = await tool.invoke(ToolCall(name="body", arguments={"n": 0}))
                actual = ("error",) if result.is_error else ("ok", result.text)
            except Tripwire:
                actual = ("trip",)

            assert (actual, bool(ran)) == (expected, should_run), (inputs, outputs)

    asyncio.run(main())


def test_the_name_of_a_partial_is_its_functions():
    """Guardrails made with `functools.partial`, and objects with an async `__call__`, are listed by a name that says something."""

    def refuse(words, value, context):
        raise GuardrailError(words)

    class Keeper:
        async def __call__(self, value, context):
            raise GuardrailError("no")

    for guardrail, name in ((functools.partial(refuse, "no"), "refuse"), (Keeper(), "Keeper")):
        tool = FunctionTool(lambda: 1, name="one", input_guardrails=[guardrail])
        assert call(tool).metadata["guardrails"] == [did(name, "input", "refused")]


def test_a_refusal_says_who_refused_where(caplog):
    """Error functions read the stage and the guardrail, the author's own words for them first; the log names one that failed."""
    seen = []

    def own(value, context):
        raise GuardrailError("no", stage="billing", guardrail="budget")

    def broken(value, context):
        raise RuntimeError("boom")

    note = lambda error, context: seen.append((error.stage, error.guardrail))  # noqa: E731
    for guardrail in (refuses(), own, broken):
        for stage in ("input", "output"):
            answer = call(echo_tool(1, on_error_func=note, **{f"{stage}_guardrails": [guardrail]}))
            assert answer.text == (
                f"The guardrail broken failed, so the {stage} was refused."
                if guardrail is broken
                else "no"
            )

    assert seen == [
        *[("input", "refuses"), ("output", "refuses")],
        *[("billing", "budget")] * 2,
        *[("input", "broken"), ("output", "broken")],
    ]
    assert ["guardrail broken" in message for message in caplog.messages] == [True, True]
    assert [str(record.exc_info[1]) for record in caplog.records] == ["boom", "boom"]


class Both(list):
    """A list that can be called."""

    def __call__(self, value, context):
        return None


@pytest.mark.parametrize(
    ("given", "kind"),
    [("", "str"), (Both(), "Both"), (print, "builtin_function_or_method"), (5, "int")],
    ids=["text", "both", "function", "number"],
)
def test_one_guardrail_is_no_list_of_them(given, kind):
    """What can be called is never taken for a list, even if it could be read as one, nor is a text, even an empty one."""
    said = f" input_guardrails must be a list of callables, not {kind}$"
    with pytest.raises(DefinitionError, match=said):
        echo_tool(1, input_guardrails=given)


def test_a_replacement_is_listed_and_its_value_kept_in_step(caplog):
    """Where there was nothing the value becomes the text that a guardrail wrote, too; an error without a value gets none."""

    nothing, failed = (said(value, shows("written")) for value in (None, ToolError("x")))

    assert (nothing.text, nothing.value) == ("written", "written")
    assert (failed.text, failed.value) == ("x\nwritten", None)
    assert nothing.metadata == failed.metadata == {"guardrails": [did("shows", "output")]}
    call(echo_tool(1, input_guardrails=[lambda value, context: 42]))
    wrong = caplog.records[0].exc_info[1]
    assert str(wrong) == "the guardrail returned int, expected ToolCall or None"


def test_output_guardrails_see_the_labels():
    """An output guardrail that keeps a result knows the untrusted tools that it came from."""
    seen = []
    tool = FunctionTool(
        lambda: 1,
        name="mail",
        output_guardrails=[lambda result, context: seen.append(dict(result.metadata))],
        settings=ToolSettings(untrusted=True),
    )
    call(tool)

    assert seen == [{"sources": ["mail"]}]


def test_labels_stay_for_the_guardrail_after_one_that_makes_a_new_result():
    """A guardrail that stores a result knows its labels also if one before it has made a new result."""
    seen = []
    tool = FunctionTool(
        lambda: "mail",
        name="mail",
        output_guardrails=[
            lambda result, context: ToolResult.of(result.text.upper(), metadata={"n": 1}),
            lambda result, context: seen.append(dict(result.metadata)),
            lambda result, context: ToolResult.of("x", metadata={"sources": ["web"]}),
            lambda result, context: seen.append(dict(result.metadata)),
        ],
        settings=ToolSettings(untrusted=True),
    )
    result = call(tool)

    assert seen == [{"n": 1, "sources": ["mail"]}, {"sources": ["mail", "web"]}]
    assert result.metadata["sources"] == ["mail", "web"]


def test_a_guardrail_without_a_readable_signature_is_taken():
    """A builtin that has no signature is taken as it is; what it raises refuses the call."""
    result = call(echo_tool("x", input_guardrails=[max]))

    assert result.error.type == "GuardrailError"
    assert "max failed" in result.text


def test_a_guardrail_that_stands_last_stands_last():
    """Behind an output guardrail that has to stand last, only one of its kind may stand."""

    def keep(result, context):
        return None

    def other(result, context):
        return None

    keep.stands_last = True

    guardrails = [other, keep, keep]
    assert echo_tool("x", output_guardrails=guardrails).output_guardrails == guardrails
    with pytest.raises(DefinitionError, match="keep has to be the last one: put other before it"):
        echo_tool("x", output_guardrails=[keep, other])


def test_what_json_cannot_say_may_not_be_put_into_arguments():
    """An object that a guardrail puts into the arguments in place refuses the call."""

    def smuggle(call, context):
        call.arguments["n"] = object()

    result = call(echo_tool("x", input_guardrails=[smuggle]))

    assert "smuggle changed the arguments of the call in place" in result.text


@pytest.mark.parametrize(("before", "after"), [(1, True), (1, 1.0), ([1], (1,)), ("1", 1)])
def test_a_change_in_place_is_seen_where_the_values_are_equal(before, after):
    """A guardrail that changes only the type of an argument in place is refused."""

    def alter(call, context):
        call.arguments["x"] = after

    tool = foreign(obj({"x": {"default": before}}), input_guardrails=[alter])

    assert "alter changed the arguments of the call in place" in call(tool).text
