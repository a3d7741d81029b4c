"""The public seams of the core: what layers, bridges and hosts stand on."""

import asyncio
import copy
import dataclasses
import gc
import json
import logging
import pickle
import re
import weakref
from dataclasses import dataclass, replace
from typing import Annotated

import pytest
from pydantic import BaseModel, BeforeValidator, TypeAdapter

from functool import (
    AgentTool,
    ApprovalRequired,
    ArgumentError,
    Context,
    DefinitionError,
    FunctionTool,
    GuardrailError,
    ImageContent,
    SchemaTool,
    TextContent,
    Tool,
    ToolCall,
    ToolError,
    ToolFailure,
    ToolModel,
    ToolResult,
    Toolset,
    ToolSettings,
    Tripwire,
    WrapperTool,
    hide_errors,
)
from functool.guardrails import budget, redact, require_approval, truncate, trusted_only
from functool.large import LARGE
from tests.schemas import INT, obj
from tests.support import call, did, refuses

PRICE = {"price": {"amount": 1}}


class Price(BaseModel):
    amount: int


@FunctionTool
def buy(price: Price, times: int = 1, **flags: int) -> int:
    return price.amount * times


def test_bind_gives_values_and_canonical_arguments():
    """`values` are what the body gets and hold what was sent; the arguments hold the defaults too."""
    bound = buy.bind('{"price": {"amount": 3}}')

    assert bound.values == {"price": Price(amount=3)}
    assert bound.arguments == {"price": {"amount": 3}, "times": 1}


def test_bind_decodes_the_strict_form_and_a_wrapper_asks_its_tool():
    """What a strict schema publishes is decoded, `**flags` too, whatever layers stand between."""

    @FunctionTool(strict=True)
    def take(a: int = 2, **flags: int) -> int:
        return a

    sent = {"a": None, "flags": [{"key": "x", "value": 1}]}

    for tool in (take, WrapperTool(WrapperTool(take), name="other")):
        assert tool.bind(sent).arguments == {"a": 2, "x": 1}
    with pytest.raises(ArgumentError, match="expected an integer"):
        WrapperTool(take).bind({"a": "no", "flags": []})


def test_is_enabled_is_what_a_toolset_asks():
    """A switch is a bool or a function of the context; a broken one is off."""

    def on_for_ada(context):
        return context.deps == "ada"

    tool = FunctionTool(lambda: 1, name="f", settings=ToolSettings(is_enabled=on_for_ada))
    broken = FunctionTool(lambda: 1, name="g", settings=ToolSettings(is_enabled=lambda c: 1 / 0))

    assert tool.is_enabled(Context("ada")) and not tool.is_enabled()
    assert WrapperTool(tool).is_enabled(Context("ada")) and not broken.is_enabled()
    assert Toolset([tool, broken]).enabled(Context("ada")) == [tool]


def noting(seen, name):
    async def note(call, context, proceed):
        seen.append((f"{name} before", dict(call.arguments), context.call is call))
        result = await proceed()
        seen.append((f"{name} after", result.value))
        return result

    return note


def test_around_stands_between_the_guardrails_and_the_body():
    """Input guardrails come before, `on_output` and output guardrails after; the last one is outermost."""
    seen = []

    def before(call, context):
        seen.append("guardrail")
        return replace(call, arguments={"a": call.arguments["a"] + 1})

    def after(result, context):
        seen.append("output guardrail")

    @FunctionTool(input_guardrails=[before], output_guardrails=[after])
    def double(a: int, b: int = 5) -> int:
        seen.append("body")
        return 2 * a

    twin = double.around(noting(seen, "inner")).around(noting(seen, "outer"))

    assert call(twin, {"a": 1}).value == 4
    assert seen == [
        "guardrail",
        ("outer before", {"a": 2, "b": 5}, True),
        ("inner before", {"a": 2, "b": 5}, True),
        "body",
        ("inner after", 4),
        ("outer after", 4),
        "output guardrail",
    ]


def test_around_is_a_copy_that_is_still_the_same_kind():
    """The tool itself is left alone, the copy stays a function, and guardrails added later are its own."""
    seen = []
    twin = buy.around(noting(seen, "x"))
    twin.add_input_guardrails([lambda call, context: None])

    assert isinstance(twin, FunctionTool) and twin.func is buy.func
    assert buy.input_guardrails == [] and call(buy, {"price": {"amount": 2}}).value == 2
    assert seen == [] and call(twin, {"price": {"amount": 2}}).value == 2 and len(seen) == 2


def test_around_a_wrapper_stands_inside_of_the_inner_tool():
    """A refused call never gets there, whichever tool of the stack refused it."""
    seen = []

    @FunctionTool(input_guardrails=[require_approval()])
    def pay(amount: int) -> int:
        return amount

    twin = WrapperTool(WrapperTool(pay), name="other").around(noting(seen, "journal"))

    assert call(twin, {"amount": 1}).error.type == "ApprovalRequired" and seen == []
    assert call(twin, {"amount": "x"}).error.type == "ArgumentError" and seen == []
    approved = call(twin, {"amount": 1}, Context(approver=lambda request: True))
    assert approved.value == 1 and len(seen) == 2


@pytest.mark.parametrize(
    "tool",
    [
        FunctionTool(lambda a: a, name="sync"),
        SchemaTool("foreign", "F.", {"type": "object"}, lambda arguments: arguments["a"]),
    ],
    ids=lambda tool: tool.name,
)
def test_around_may_answer_instead_of_the_body_or_run_it_again(tool):
    """Whether and how often the body runs is for the layer to say; what the body raises, it sees."""
    ran = []

    async def instead(call, context, proceed):
        return ToolResult.of("stored")

    async def twice(call, context, proceed):
        ran.append((await proceed()).value)
        return await proceed()

    assert call(tool.around(instead), {"a": 1}).value == "stored"
    assert call(tool.around(twice), {"a": [1]}).value == [1] and ran == [[1]]


def test_what_a_body_raises_passes_through_what_stands_around_it():
    """The layer may see the exception; the error functions answer it as ever."""
    seen = []

    @FunctionTool
    def fail() -> None:
        raise KeyError("k")

    async def watch(call, context, proceed):
        try:
            return await proceed()
        except KeyError as error:
            seen.append(error)
            raise

    result = call(fail.around(watch))

    assert result.error.type == "KeyError" and result.error.cause is seen[0]


@pytest.mark.parametrize("func", [None, "x", lambda call: None, lambda a, b, c, d: None, len])
def test_around_takes_a_function_of_three(func):
    """Anything else is refused at once, and not at the first call."""
    with pytest.raises(DefinitionError, match="around"):
        buy.around(func)


def test_what_stands_around_must_return_a_result():
    """It may be sync, and hand on what `proceed` returns; a layer that forgets its result is a failure of the tool, and is told by name."""
    tool = FunctionTool(lambda: 1, name="f")

    async def forget(call, context, proceed):
        await proceed()

    assert call(tool.around(lambda call, context, proceed: proceed())).value == 1
    said = "the function around the body of f must return a ToolResult, not NoneType"
    assert said in call(tool.around(forget)).text


def test_shown_as_keeps_the_value_for_code():
    """The model reads the short text, code the whole value, and no structured output is sent."""
    rows = [{"n": i} for i in range(50)]

    @FunctionTool(output_guardrails=[lambda result, context: result.shown_as("50 rows")])
    def look() -> list[dict[str, int]]:
        return rows

    result = call(look)

    assert (result.text, result.value, result.structured) == ("50 rows", rows, None)
    assert ToolResult.of(rows).structured == rows


def test_shown_as_spares_the_value_from_its_own_guardrail_only():
    """A guardrail later in the list that changes the output replaces the value, too."""
    show = lambda result, context: result.shown_as("a secret and more")  # noqa: E731
    tool = FunctionTool(
        lambda: {"secret": 1}, name="f", output_guardrails=[show, redact(["secret"])]
    )

    result = call(tool)

    assert result.text == "a [redacted] and more"
    assert "secret" not in json.dumps(result.value) and result.structured != {"secret": 1}


def test_a_guardrail_that_changes_the_output_in_place_changes_the_value_too():
    """Code, and what hosts send as structured output, never holds what the model may not read."""

    def new_parts(result, context):
        result.output[:] = [TextContent(text="clean")]

    def new_texts(result, context):
        for part in result.output:
            part.text = "clean"
        return result

    def new_bytes(result, context):
        for part in result.output:
            part.data = b"clean"

    picture = ImageContent(data=b"a secret")
    assert call(FunctionTool(lambda: picture, name="t", output_guardrails=[new_bytes])).value == (
        "[image/png: 5 bytes]"
    )
    for change in (new_parts, new_texts):
        for before in ([], [lambda result, context: result.shown_as("a secret")]):
            tool = FunctionTool(lambda: "a secret", name="t", output_guardrails=[*before, change])
            result = call(tool)
            assert (result.text, result.value, result.structured) == ("clean", "clean", "clean")
    tool = FunctionTool(
        lambda: {"a": 1}, name="t", output_guardrails=[lambda result, context: None]
    )
    assert call(tool).value == {"a": 1}


def test_shown_as_takes_text_content_and_lists_of_them():
    """What is shown is rendered by the rule of `ToolResult.of`."""
    part = TextContent(text="t")
    result = ToolResult.of(3)

    assert result.shown_as(part).output == result.shown_as([part]).output == [part]
    assert result.shown_as("t").output == [part] and result.text == "3"
    assert replace(result.shown_as("t"), call_id="c").structured is None


def test_a_failure_keeps_its_cause_for_code_and_logs_only():
    """It is in no repr, no comparison, no dict and no pickle, and `unwrap` raises from it."""
    cause = KeyError("secret")
    failure = ToolFailure(type="KeyError", message="m", cause=cause)

    assert failure.cause is cause and replace(failure, message="n").cause is cause
    assert failure == ToolFailure(type="KeyError", message="m")
    assert "secret" not in repr(failure) and "cause" not in dataclasses.asdict(failure)
    assert pickle.loads(pickle.dumps(failure)).cause is None
    assert ToolFailure(type="T", message="m").cause is None
    with pytest.raises(ToolError, match="^m$") as raised:
        ToolResult(error=failure).unwrap()
    assert raised.value.__cause__ is cause


def frames_of(error):
    """The tracebacks of an exception, and of all exceptions behind it."""
    inner = getattr(error, "exceptions", ())
    others = {each for each in (error.__cause__, error.__context__, *inner) if each is not None}
    return [error.__traceback__] * bool(error.__traceback__) + sum(map(frames_of, others), [])


def broken_validator(value):
    raise KeyError("k")


@pytest.mark.parametrize(
    "tool",
    [
        FunctionTool(lambda items: 1, name="t"),
        SchemaTool("t", "T.", obj({"items": {"type": "array"}}), lambda arguments: 1),
    ],
    ids=["function", "schema"],
)
@pytest.mark.parametrize(
    "text", ["[", "[[]", '{"items": [], "items": []}', '{"items": 1' + "0" * 5000 + "}"]
)
def test_a_refused_call_keeps_nothing_of_what_was_sent(tool, text):
    """An `ArgumentError` has no traceback, whose frames would keep the text and what was read of it."""
    cause = call(tool, text).error.cause

    assert type(cause) is ArgumentError and frames_of(cause) == []


def test_a_watch_keeps_nothing_of_what_was_sent():
    """Nor has the error of a call that is refused while a model still writes it."""
    tool = SchemaTool("t", "T.", obj({"x": INT}), lambda arguments: 1)

    error = tool.watch().feed('{"x": "a')

    assert error is not None and frames_of(error) == []


def test_a_validator_that_failed_keeps_nothing_of_what_was_sent():
    """Nor has the exception behind an `ArgumentError` a traceback. The log had it before."""

    @FunctionTool
    def take(x: Annotated[int, BeforeValidator(broken_validator)]) -> None: ...

    cause = call(take, {"x": 1}).error.cause

    assert type(cause.__cause__) is KeyError and frames_of(cause) == []


@pytest.mark.parametrize("size", [1, LARGE + 1])
def test_a_failure_of_a_large_call_keeps_nothing_of_it(size, caplog):
    """After a large call failed, its exceptions have no traceback. The log has it, and so has a small call."""

    async def part():
        try:
            raise KeyError("k")
        except KeyError as error:
            raise OSError("o") from error

    @FunctionTool
    async def fail(text: str) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(part())

    result = call(fail, {"text": "x" * size})

    assert len(frames_of(result.error.cause)) == (3 if size == 1 else 0)
    assert "in fail" in caplog.text
    with pytest.raises(ToolError, match="TaskGroup") as raised:
        result.unwrap()
    assert raised.value.__cause__ is result.error.cause


@pytest.mark.parametrize("arguments", [{}, {"text": "x" * (LARGE + 1)}], ids=["refused", "large"])
def test_an_exception_that_the_caller_handles_keeps_its_traceback(arguments):
    """A host, a body or an error function may make a call while it handles an exception of its own."""

    @FunctionTool
    async def fail(text: str) -> None:
        raise OSError("o")

    async def main():
        try:
            raise KeyError("k")
        except KeyError as error:
            before = error.__traceback__
            result = await fail(ToolCall(name="fail", arguments=arguments))
            return result.error.cause, error.__traceback__ is before

    cause, is_kept = asyncio.run(main())

    assert is_kept and type(cause.__context__) is KeyError and cause.__traceback__ is None


@pytest.mark.parametrize("is_wrapper", [False, True], ids=["error function", "wrapper"])
def test_a_failure_of_a_tool_that_stands_in_keeps_nothing_of_a_large_call(is_wrapper):
    """The exception of the second tool has that of the first one behind it, which keeps the call."""

    @FunctionTool
    async def fail(text: str) -> None:
        raise OSError("o")

    async def instead(error, context):
        return await fail(ToolCall(name="fail", arguments=context.call.arguments))

    class Instead(WrapperTool):
        async def run(self, call, context):
            try:
                (await super().run(call, context)).unwrap()
            except ToolError as error:
                return await instead(error, context)

    first = FunctionTool(fail.func, name="first", on_error_func=None if is_wrapper else instead)
    result = call(Instead(first) if is_wrapper else first, {"text": "x" * (LARGE + 1)})

    assert type(result.error.cause.__context__) is (ToolError if is_wrapper else OSError)
    assert frames_of(result.error.cause) == []


def test_the_exception_of_a_large_call_may_be_frozen():
    """Whatever exception a body raises becomes the call's failure."""

    @dataclass(frozen=True)
    class Frozen(Exception):
        code: int

    @FunctionTool
    async def fail(text: str) -> None:
        raise Frozen(3)

    cause = call(fail, {"text": "x" * (LARGE + 1)}).error.cause

    assert cause == Frozen(3) and cause.__traceback__ is None


def test_pydantic_writes_a_result_without_its_cause():
    """A result may stand in a model of the host: pydantic could not describe the exception's type."""
    failure = ToolFailure(type="KeyError", message="m", cause=KeyError("secret"))
    results = TypeAdapter(ToolResult)

    for result in (ToolResult(error=failure), ToolResult.of({"n": 1})):
        written = results.dump_json(result)
        assert b"secret" not in written and results.validate_json(written) == result


def test_an_exception_that_nobody_answered_is_logged_with_its_traceback(caplog):
    """The operator finds the line; an expected ToolError is no error of the program."""

    @FunctionTool
    def fail(expected: bool) -> None:
        raise ToolError("expected") if expected else KeyError("k")

    call(fail, {"expected": True})
    assert caplog.records == []
    result = call(fail, {"expected": False})

    [record] = caplog.records
    assert record.levelno == logging.ERROR and record.getMessage() == "the tool fail failed"
    assert record.exc_info[1] is result.error.cause
    assert record.exc_info[1].__traceback__.tb_next is not None


def test_an_answered_exception_is_not_logged_twice(caplog):
    """An error function has answered; `hide_errors` logs what it hides."""

    def fail() -> None:
        raise KeyError("k")

    call(FunctionTool(fail, on_error_func=lambda error, context: "sorry"))
    assert caplog.records == []
    result = call(FunctionTool(fail, on_error_func=hide_errors))

    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert isinstance(result.error.cause, KeyError)


def test_metadata_of_a_call_reaches_body_and_guardrails_and_no_digest():
    """A replacement's metadata is merged over it; an approval's digest does not know it."""
    seen = []

    def label(call, context):
        return replace(call, arguments={"a": 2}, metadata={"repaired": True})

    @FunctionTool(input_guardrails=[label, require_approval()])
    def take(a: int, call: ToolCall) -> int:
        seen.append(call.metadata)
        return a

    digests = set()

    def approver(request):
        digests.add(request.digest)
        return True

    for trace in ("1", "2"):
        call(take, {"a": 1}, Context(approver=approver), metadata={"trace": trace}, id="c")

    assert seen == [{"trace": t, "repaired": True} for t in ("1", "2")] and len(digests) == 1


MAIL = ToolSettings(untrusted=True)


@pytest.mark.parametrize("fails", [False, True])
def test_a_result_names_the_untrusted_tools_it_comes_from(fails):
    """Its own tool, those of its arguments and those of inner results, each once, in failures too."""

    @FunctionTool(settings=MAIL)
    def read_mail(about: str) -> str:
        if fails:
            raise ToolError("no mail")
        return "hi"

    sources = {"/about": ["fetch", "read_mail"], "/x": ["search"]}
    result = call(read_mail, {"about": "x"}, metadata={"sources": sources})

    assert result.is_error is fails
    assert result.metadata["sources"] == ["read_mail", "fetch", "search"]
    assert "sources" not in call(buy, PRICE).metadata


def test_a_tool_inside_of_a_tool_keeps_its_label():
    """A body that returns what an untrusted tool answered hands the label on."""

    @FunctionTool(settings=MAIL)
    def read_mail() -> str:
        return "hi"

    @FunctionTool
    async def assistant(context: Context) -> ToolResult:
        return await read_mail.invoke(ToolCall(name="read_mail"), context)

    for tool in (assistant, WrapperTool(read_mail)):
        assert call(tool).metadata["sources"] == ["read_mail"]


@pytest.mark.parametrize("metadata", [None, 3, {"sources": 3}, {"sources": {"/a": 3}}])
def test_metadata_that_is_none_of_ours_leaves_no_exception(metadata):
    """A host may pass on anything; the call is answered."""
    tool = FunctionTool(lambda: 1, name="f", settings=MAIL)

    assert call(tool, metadata=metadata).metadata["sources"] == ["f"]


def change(call, context):
    call.arguments["price"]["amount"] = 1_000


def test_arguments_changed_in_place_are_refused_at_any_depth(caplog):
    """What a person approves is what runs: a change that the body would not see is a mistake."""
    tool = FunctionTool(buy.func, name="buy", input_guardrails=[change])

    result = call(tool, PRICE)

    assert result.error.type == "GuardrailError" and "in place" in result.text
    assert "return a new call" in result.text
    assert result.metadata["guardrails"] == [did("change", "input", "refused")]


def test_a_call_that_came_with_a_dict_is_left_as_it_was():
    """Guardrails see a copy: the host's own arguments are never touched."""
    sent = {"price": {"amount": 1}}
    tool = FunctionTool(buy.func, name="buy", input_guardrails=[change])

    call(tool, sent)

    assert sent == {"price": {"amount": 1}}


@pytest.mark.parametrize("context", [{}, "x", 3])
def test_a_context_that_is_none_is_a_type_error(context):
    """A host's mistake is told at once, by a tool and by a toolset."""
    with pytest.raises(TypeError, match="must be a Context or None"):
        call(buy, PRICE, context)
    with pytest.raises(TypeError, match="must be a Context or None"):
        asyncio.run(Toolset([buy]).call(ToolCall(name="buy", arguments=PRICE), context))


def test_a_call_is_made_by_name():
    """Positional fields would be mixed up one day."""
    with pytest.raises(TypeError, match="ToolCall\\(name=..., arguments=..., id=...\\)"):
        ToolCall("buy", {})


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: FunctionTool(buy.func, input_guardrails=[require_approval]), r"call it: require_"),
        (
            lambda: FunctionTool(buy.func, input_guardrails=[lambda call: None]),
            "call, context",
        ),
        (lambda: FunctionTool(buy.func, output_guardrails=[truncate]), r"call it: truncate"),
        # These could be called with a call and a context, and would then fail at each call.
        (lambda: FunctionTool(buy.func, input_guardrails=[budget]), r"call it: budget"),
        (lambda: FunctionTool(buy.func, input_guardrails=[trusted_only]), r"call it: trusted_only"),
        (
            lambda: FunctionTool(buy.func, input_guardrails=[truncate(9)]),
            "^buy .*: input_guardrails: truncate cannot .* put it into output_guardrails$",
        ),
        (
            lambda: FunctionTool(buy.func, output_guardrails=[require_approval()]),
            "^buy .*: output_guardrails: require_approval .* put it into input_guardrails$",
        ),
        (
            lambda: FunctionTool(buy.func).around(require_approval()),
            "it has to take call, context, proceed",
        ),
        (lambda: require_approval(True), "when takes callables, not bool"),
        (lambda: require_approval(lambda call: True), "when: .* call, context$"),
        (lambda: FunctionTool(Price), "it is a class"),
        (lambda: Toolset(buy), r"Toolset\(\[buy\]\)"),
    ],
)
def test_a_mistake_at_the_desk_is_told_at_the_desk(make, words):
    """Unusable guardrails, classes and single tools are definition errors."""
    with pytest.raises(DefinitionError, match=words):
        make()


def test_a_guardrail_may_come_from_a_text():
    """A function that `exec` has made has no module, and is a guardrail like any other."""
    made = {}
    exec("def free(call, context): return None", made)

    assert call(FunctionTool(buy.func, name="buy", input_guardrails=[made["free"]]), PRICE).success


def test_a_guardrail_sees_the_tripwire_leave_with_what_stands_around():
    """A tripwire and a refusal inside of a layer keep their meaning."""

    async def trip(call, context, proceed):
        raise Tripwire("stop")

    async def refuse(call, context, proceed):
        raise GuardrailError("no")

    with pytest.raises(Tripwire):
        call(buy.around(trip), PRICE)
    assert call(buy.around(refuse), PRICE).error.type == "GuardrailError"


def test_a_copy_of_a_result_is_shown_alike():
    """A result that travels keeps what was said of its output."""
    shown = ToolResult.of([1, 2]).shown_as("two")

    for twin in (copy.copy(shown), copy.deepcopy(shown), pickle.loads(pickle.dumps(shown))):
        assert twin.structured is None and twin.value == [1, 2] and twin == shown


def test_a_pause_inside_of_a_layer_is_a_pause():
    """What stands around a body may ask for approval itself; the request is in the metadata."""
    inner = FunctionTool(lambda a: a, name="inner", input_guardrails=[require_approval()])

    async def ask(call, context, proceed):
        result = await inner.invoke(ToolCall(name="inner", arguments={"a": 1}, id="i"), context)
        raise ApprovalRequired(result.text, result.metadata["approval"])

    result = call(buy.around(ask), PRICE)

    assert result.error.type == "ApprovalRequired" and result.metadata["approval"].tool == "inner"


def test_a_tool_with_all_its_options_is_still_a_tool():
    """A base class that a subclass overrides keeps the road."""

    class Echo(Tool):
        async def run(self, call, context):
            return ToolResult.of(call.arguments)

    echo = Echo(name="echo", description="E.", parameters={"type": "object"})

    assert call(echo.around(noting([], "x")), {"a": 1}).value == {"a": 1}


async def bracketed(call, context, proceed):
    result = await proceed()
    return ToolResult.of(f"<{result.text}>")


class Shelf:
    @FunctionTool
    async def take(self, amount: int) -> int:
        return amount


def test_what_stands_around_a_bound_tool_is_never_lost_by_a_pickle():
    """A bound tool pickles by its object, unless something stands around it that is not found there."""
    shelf = Shelf()
    around = shelf.take.around(bracketed)

    assert call(around, {"amount": 2}).text == "<2>"
    assert call(pickle.loads(pickle.dumps(SHELF.take)), {"amount": 2}).text == "2"
    with pytest.raises(pickle.PicklingError):
        pickle.dumps(around)
    assert copy.copy(around) is around


SHELF = Shelf()


def test_a_hook_that_changes_the_call_in_place_is_refused():
    """What guardrails and approvers see is what runs: `on_invoke` returns a new call, too."""

    class Hooked(FunctionTool):
        async def on_invoke(self, call, context):
            call.arguments["x"] = 1000

    seen = []
    tool = Hooked(lambda x: x, name="f", input_guardrails=[lambda call, c: seen.append(call)])

    assert "on_invoke changed the arguments of the call in place" in call(tool, {"x": 1}).text
    assert seen == []


def test_a_wrapper_switches_no_tool_on():
    """A tool that is switched off stays off under a wrapper that has settings of its own."""

    class Closed(FunctionTool):
        def is_enabled(self, context=None):
            return False

    asked = []
    off = ToolSettings(is_enabled=lambda context: bool(asked.append(context)))
    tool = FunctionTool(lambda: 1, name="f", settings=off)

    assert not WrapperTool(tool).is_enabled() and len(asked) == 1
    on = ToolSettings(is_enabled=lambda context: asked.append(context) or context.deps == "ada")
    shared = WrapperTool(FunctionTool(lambda: 1, name="f", settings=on))
    assert shared.is_enabled(Context("ada")) and len(asked) == 2
    own = WrapperTool(buy, settings=on)
    assert own.is_enabled(Context("ada")) and not own.is_enabled(Context("bob"))
    assert not WrapperTool(tool, settings=ToolSettings(tags=["x"])).is_enabled()
    assert not WrapperTool(Closed(lambda: 1, name="g")).is_enabled()
    assert not WrapperTool(buy, settings=ToolSettings(is_enabled=False)).is_enabled()
    assert WrapperTool(buy, settings=ToolSettings(tags=["x"])).is_enabled()


def test_the_limit_of_a_wrapper_holds_for_text_mappings_and_bind():
    """`max_argument_bytes` of a wrapper bounds whatever is sent, and `bind` as the road does."""
    tool = WrapperTool(FunctionTool(lambda s: len(s), name="f"), max_argument_bytes=20)
    long = {"s": "x" * 50}

    for sent in (long, json.dumps(long)):
        assert "more than 20 bytes" in call(tool, sent).text
        with pytest.raises(ArgumentError, match="more than 20 bytes"):
            tool.bind(sent)
    assert call(tool, {"s": "x"}).value == 1
    assert tool.bind({"s": "x"}).values == {"s": "x"}
    assert WrapperTool(tool).max_argument_bytes == 20


def test_labels_outlive_whatever_takes_the_place_of_a_result():
    """A result that came from an untrusted tool stays labelled: replaced, refused or wrapped."""

    def read() -> ToolResult:
        return ToolResult.of("x", metadata={"sources": ["mail"]})

    replaced = FunctionTool(read, output_guardrails=[lambda r, c: ToolResult.of("clean")])
    refused = FunctionTool(read, output_guardrails=[refuses()])
    around = FunctionTool(read).around(bracketed)
    untrusted = WrapperTool(replaced, name="w", settings=MAIL)

    for tool in (replaced, refused, around):
        assert call(tool).metadata["sources"] == ["mail"]
    assert call(untrusted).metadata["sources"] == ["w", "mail"]


@pytest.mark.parametrize("raises", [False, True])
def test_labels_reach_each_function_around_a_body(raises):
    """A label stays whichever function around the body stores, replaces or raises the text of another."""
    stored, raised = [], []

    async def store(call, context, proceed):
        if stored:
            return stored[0]
        try:
            stored.append(await proceed())
        except ToolError:
            raised.append([*context.inner_labels])
            raise
        return stored[0]

    async def other_words(call, context, proceed):
        text = (await proceed()).text
        if raises:
            raise ToolError(text)
        return ToolResult.of(text)

    async def told(call, context, proceed):
        return ToolResult.of("x", metadata={"sources": ["mail"]})

    tool = FunctionTool(lambda: "x", name="f").around(told)

    inside = tool.around(store).around(other_words)
    for _ in range(2):
        assert call(inside).metadata["sources"] == ["mail"]
    stored.clear()
    outside = tool.around(other_words).around(store)
    for _ in range(2):
        assert call(outside).metadata["sources"] == ["mail"]
    assert raised == ([["mail"]] * 2 if raises else [])


def test_what_stands_around_an_untrusted_tool_may_answer_in_its_place():
    """A layer's own answer is labelled like the body's; outside of a call there is nothing to label."""
    stored = FunctionTool(lambda: "mail", name="mail", settings=MAIL).around(
        lambda call, context, proceed: ToolResult.of("stored")
    )

    assert call(stored).metadata["sources"] == ["mail"]
    assert Context().add_labels(["mail"]) is None


def test_a_failed_call_frees_its_context_at_once():
    """The cause of a failure holds no circle: no collector has to come for what it refers to."""

    class Deps:
        pass

    async def fail():
        raise KeyError("k")

    async def failed(tool):
        context = Context(Deps())
        kept = weakref.ref(context.deps)
        assert (await tool(ToolCall(name=tool.name), context)).is_error
        del context
        return kept

    gc.collect()
    gc.disable()
    logging.disable()  # What is logged is kept by pytest.
    try:
        for options in ({}, {"timeout": 5}):
            assert asyncio.run(failed(FunctionTool(fail, **options)))() is None
    finally:
        gc.enable()
        logging.disable(logging.NOTSET)


def test_what_is_no_call_is_told():
    """A dict is no call, and the message says what is."""
    with pytest.raises(TypeError, match="a call must be a ToolCall.*, not dict"):
        asyncio.run(WrapperTool(buy).invoke({"name": "buy"}))


def test_shown_as_may_show_nothing():
    """An empty list of content is no content, and not the text of an empty list."""
    shown = ToolResult.of({"a": 1}).shown_as([])

    assert (shown.output, shown.text, shown.value, shown.structured) == ([], "", {"a": 1}, None)


KNOWN = (
    "description, input_guardrails, max_argument_bytes, name, on_error_func, output_guardrails,"
    " prompts, settings, timeout, tool"
)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: FunctionTool(lambda: None, name="f", timeot=3), "lambda.* did you mean 'timeout'"),
        (lambda: SchemaTool("f", "d", {}, print, timout=1), "f .* did you mean 'timeout'"),
        (lambda: SchemaTool("f", "d", {}, print, stric=True), "f .* did you mean 'strict'"),
        (lambda: SchemaTool("f", "d", {}, 5), "f .* the handler must be callable, not int"),
        (lambda: WrapperTool(buy, nam="x"), "buy .* did you mean 'name'"),
        (lambda: WrapperTool(buy, zzz=1), f"buy .* there is no option 'zzz'; known: {KNOWN}$"),
        (
            lambda: WrapperTool(buy, settings=3),
            r"settings must be ToolSettings\(\.\.\.\), not int$",
        ),
        (lambda: WrapperTool(5), "a WrapperTool .* it wraps a tool, not int"),
        (lambda: FunctionTool(bracketed, descripton="x"), "bracketed .* you mean 'description'"),
        (lambda: AgentTool(print, "f", "d", runer=1), "f .* did you mean 'runner'"),
        (lambda: Sum.tool(timeout=-1), "Sum.run .* positive, finite number"),
    ],
)
def test_a_mistake_in_any_kind_of_tool_names_file_and_line(make, said):
    """The author reads where the tool is made, and which option was meant."""
    with pytest.raises(DefinitionError, match=said) as refused:
        make()

    assert re.search(r" \(\S+test_seams\.py:\d+\): ", str(refused.value))


class Sum(ToolModel):
    a: int

    def run(self):
        return self.a


def test_a_call_is_noted_once_also_when_its_time_is_over(caplog):
    """The debug log of a call that timed out has one beginning and one outcome."""

    async def hang():
        await asyncio.sleep(60)

    with caplog.at_level(logging.DEBUG, "functool"):
        call(FunctionTool(hang, timeout=0.01), id="1")

    said = [record.getMessage() for record in caplog.records]
    assert said == ["call '1' of hang", "call '1' of hang: ToolTimeoutError"]


def test_a_body_that_calls_untrusted_tools_is_labelled():
    """Whatever a body makes of the results of inner calls, its own result carries their labels."""
    mail = FunctionTool(lambda: "hostile", name="mail", settings=ToolSettings(untrusted=True))

    async def ask(context: Context) -> str:
        inner = await mail(ToolCall(name="mail"), context)
        return f"They say {inner.text}"

    async def fail(context: Context) -> str:
        raise ToolError((await mail(ToolCall(name="mail"), context)).text)

    agent = AgentTool(ask, "agent", "d", runner=lambda agent, text, context: agent(context))
    asked = FunctionTool(ask)

    assert call(asked).metadata["sources"] == ["mail"]
    assert call(asked, context=Context()).metadata["sources"] == ["mail"]
    assert call(WrapperTool(asked, timeout=5)).metadata["sources"] == ["mail"]
    assert call(FunctionTool(fail)).metadata["sources"] == ["mail"]
    assert call(agent, {"input": "x"}, Context()).metadata["sources"] == ["mail"]
    assert "sources" not in call(FunctionTool(lambda: 1, name="f"), context=Context()).metadata


def test_a_wrapper_answers_arguments_that_its_tool_refuses():
    """An output guardrail of the wrapper sees the refusal, and the context has the call as it came."""
    seen = []

    def look(result, context):
        seen.append((result.error.type, context.call.arguments))

    result = call(WrapperTool(buy, output_guardrails=[look]), {"price": 1})

    assert result.error.type == "ArgumentError"
    assert seen == [("ArgumentError", {"price": 1})]


def test_labels_outlive_a_layers_own_run():
    """The road keeps the labels of the calls inside, whatever `run` of a subclass returns or raises."""
    mail = FunctionTool(lambda: "text", name="mail", settings=MAIL)

    async def read(context: Context) -> str:
        return (await mail.invoke(ToolCall(name="mail"), context)).text

    class Louder(WrapperTool):
        async def run(self, call, context):
            return ToolResult.of((await self.tool.invoke(call, context)).text.upper())

    class Broken(WrapperTool):
        async def run(self, call, context):
            raise ValueError((await self.tool.invoke(call, context)).text)

    class Own(FunctionTool):
        async def run(self, call, context):
            return ToolResult.of((await super().run(call, context)).text)

    inner = FunctionTool(read)
    louder = Louder(inner)
    for tool in (louder, Broken(inner), WrapperTool(louder), Louder(louder), Own(read)):
        for context in (Context(), None):
            result = asyncio.run(tool.invoke(ToolCall(name="read"), context))
            assert result.metadata["sources"] == ["mail"], tool
    assert call(Louder(mail, settings=ToolSettings())).metadata["sources"] == ["mail"]
