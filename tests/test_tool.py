"""The road of one call: hooks, guardrails, errors, time limits, wrappers."""

import asyncio
import contextvars
import dataclasses
import json
import logging
import sys
import threading
import typing

import pydantic
import pytest

from functool import (
    ArgumentError,
    Context,
    DefinitionError,
    FunctionTool,
    GuardrailError,
    SchemaTool,
    TextContent,
    Tool,
    ToolCall,
    ToolError,
    ToolFailure,
    ToolPrompts,
    ToolResult,
    ToolSettings,
    Tripwire,
    WrapperTool,
    hide_errors,
)
from functool.executors import abandoned
from tests.schemas import INT, STR, obj
from tests.support import (
    call,
    cancelled,
    did,
    foreign,
    hangs,
    heard,
    refuses,
    sends,
    shows,
    time_passes,
)

SCHEMA = obj({"x": INT, "y": {**INT, "default": 7}}, required=["x"])


class Echo(Tool):
    """A tool written by hand: notes what it was asked, and answers with it."""

    def __init__(self, **options):
        super().__init__(name="echo", description="Echo.", parameters=SCHEMA, **options)
        self.seen = []

    async def run(self, call, context):
        self.seen.append(call.arguments)
        return ToolResult.of(call.arguments)


def test_the_road_answers_with_one_result():
    """A call becomes a result with the value, the text and the call's id."""
    result = call(Echo(), '{"x": 1}')

    assert result.value == {"x": 1, "y": 7}
    assert result.text == '{"x":1,"y":7}'
    assert result.call_id == "c1"
    assert result.success and not result.is_error


def test_call_is_invoke():
    """`tool(call, context)` is `tool.invoke(call, context)`."""

    class Deps(Echo):
        async def run(self, call, context):
            return ToolResult.of([call.arguments["x"], context and context.deps])

    made = ToolCall(name="echo", arguments={"x": 2}, id="c1")

    assert asyncio.run(Deps()(made, Context("mine"))).value == [2, "mine"]
    assert asyncio.run(Deps()(made)) == asyncio.run(Deps().invoke(made))


class Noisy(Echo):
    """Notes the order of hooks and guardrails."""

    def __init__(self, order, **options):
        super().__init__(**options)
        self.order = order

    async def on_invoke(self, call, context):
        self.order.append("on_invoke")

    async def run(self, call, context):
        self.order.append("run")
        return ToolResult.of("done")

    async def on_output(self, result, context):
        self.order.append("on_output")


def test_the_order_of_the_road():
    """on_invoke, input guardrails, run, on_output, output guardrails: guardrails stand outermost."""
    order = []
    tool = Noisy(
        order,
        input_guardrails=[lambda c, x: order.append("in1"), lambda c, x: order.append("in2")],
        output_guardrails=[lambda r, x: order.append("out")],
    )
    call(tool, {"x": 1})

    assert order == ["on_invoke", "in1", "in2", "run", "on_output", "out"]


def test_hooks_that_forget_super_lose_no_safety():
    """A subclass that overrides every hook keeps validation and guardrails."""
    order = []
    tool = Noisy(order, input_guardrails=[refuses("no")])

    assert call(tool, '{"x": "a"}').error.type == "ArgumentError"
    assert call(tool, '{"x": 1}').text == "no"
    assert "run" not in order


def test_every_step_of_the_road_knows_the_call_and_the_schema():
    """Hooks, guardrails and error functions get the context of the call: which call it is, and the schema of its tool."""
    seen = []

    def note(step, answer=None):
        def look(*given):
            context = given[-1]
            seen.append((step, context.call.id, context.schema.name, context.deps))
            return answer

        return look

    class Noting(Echo):
        async def on_invoke(self, call, context):
            note("on_invoke")(context)

        async def on_output(self, result, context):
            note(f"on_output {result.value}")(context)

        async def on_error(self, error, context):
            note("on_error")(context)
            return ToolResult.failed("no")

    options = {
        "input_guardrails": [note("input")],
        "output_guardrails": [note("output")],
        "on_error_func": note("error function"),
    }
    call(Noting(**options), {"x": 1}, Context("mine"))
    call(Noting(**options), {"x": "no number"}, Context("mine"))

    steps = [
        "on_invoke",
        "input",
        "on_output {'x': 1, 'y': 7}",
        "output",
        "error function",
        "on_error",
        "output",
    ]
    assert seen == [(step, "c1", "echo", "mine") for step in steps]


def test_hooks_and_guardrails_that_replace_nothing_leave_the_values():
    """Where None, or the call itself, comes back, the body gets the values of the one validation."""
    checked = []

    def check(value):
        checked.append(value)
        return value

    class Own(FunctionTool):
        async def on_invoke(self, call, context):
            return None

    async def nothing(call, context):
        return None

    async def itself(call, context):
        return call

    async def double(n: typing.Annotated[int, pydantic.AfterValidator(check)]) -> int:
        return n * 2

    assert call(Own(double, input_guardrails=[nothing, itself]), {"n": 2}).value == 4
    assert checked == [2]


def test_on_invoke_may_replace_the_call():
    """A replaced call is validated again, defaults are filled in again, and guardrails see the new one."""

    class Doubling(Echo):
        async def on_invoke(self, call, context):
            return dataclasses.replace(call, arguments={"x": call.arguments["x"] * 2})

    seen = []
    tool = Doubling(input_guardrails=[lambda c, x: seen.append(dict(c.arguments))])

    assert call(tool, {"x": 4}).value == {"x": 8, "y": 7}
    assert seen == [{"x": 8, "y": 7}]


def test_a_guardrail_replacement_is_validated_again():
    """A guardrail that writes nonsense gets an `ArgumentError`, not a body."""
    tool = Echo(input_guardrails=[sends(x="nonsense")])

    assert call(tool, {"x": 1}).error.type == "ArgumentError"
    assert tool.seen == []


def test_guardrails_later_in_the_list_see_the_new_call():
    """A replacement is what the next guardrail sees."""
    seen = []
    call(Echo(input_guardrails=[sends(x=9), lambda c, x: seen.append(c.arguments["x"])]), {"x": 1})

    assert seen == [9]


def test_on_output_may_replace_the_result():
    """What `on_output` returns is what output guardrails see."""

    class Loud(Echo):
        async def on_output(self, result, context):
            return ToolResult.of("LOUD")

    seen = []
    result = call(Loud(output_guardrails=[lambda r, x: seen.append(r.text)]), {"x": 1})

    assert (result.text, seen) == ("LOUD", ["LOUD"])


class Broken(Tool):
    def __init__(self, error, **options):
        super().__init__(
            name="broken", description="Break.", parameters={"type": "object"}, **options
        )
        self.error = error

    async def run(self, call, context):
        raise self.error


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (ToolError("the disk is full"), "ToolError", "the disk is full"),
        (ToolError(), "ToolError", "ToolError"),
        (ValueError("bad thing"), "ValueError", "ValueError: bad thing"),
        (ValueError(), "ValueError", "ValueError"),
        (KeyError("k"), "KeyError", "KeyError: 'k'"),
        (Unprintable(), "Unprintable", "Unprintable"),
        (RecursionError("deep"), "RecursionError", "RecursionError: deep"),
        (
            ExceptionGroup("several", [ValueError("a")]),
            "ExceptionGroup",
            "ExceptionGroup: several (1 sub-exception)",
        ),
        (OSError("lone \ud800"), "OSError", "OSError: lone �"),
    ],
    ids=lambda v: v if isinstance(v, str) else type(v).__name__,
)
def test_every_exception_becomes_a_result(error, kind, text):
    """A `ToolError` shows its message, any other exception its name and message, and nothing leaves."""
    result = call(Broken(error))

    assert result.is_error
    assert (result.error.type, result.text) == (kind, text)


def test_a_long_error_is_cut():
    """An exception's message reaches the model with at most 4,000 characters."""
    assert len(call(Broken(ValueError("x" * 100_000))).text) == 4_000


def test_details_of_a_tool_error_travel():
    """`ToolError(details=...)` becomes the failure's details."""
    assert call(Broken(ToolError("no", details={"code": 3}))).error == ToolFailure(
        type="ToolError", message="no", details={"code": 3}
    )


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_stops_the_process_leaves(error):
    """KeyboardInterrupt and SystemExit pass through."""
    with pytest.raises(error):
        call(Broken(error()))


def test_an_exit_within_a_time_limit_leaves_the_call():
    """A body with a time limit that ends the program does so where the call is awaited, and not in a task of its own."""

    async def main():
        with pytest.raises(SystemExit, match="bye"):
            await Broken(SystemExit("bye"), timeout=5).invoke(ToolCall(name="broken"))
        return "the loop still runs"

    assert asyncio.run(main()) == "the loop still runs"


def test_a_tripwire_leaves():
    """A `Tripwire` leaves as an exception from bodies and from guardrails."""

    def trip(value, context):
        raise Tripwire("stop")

    with pytest.raises(Tripwire, match="stop"):
        call(Broken(Tripwire("stop")))
    with pytest.raises(Tripwire):
        call(Echo(input_guardrails=[trip]), {"x": 1})
    with pytest.raises(Tripwire):
        call(Echo(output_guardrails=[trip]), {"x": 1})


def test_a_tripwire_in_a_group_leaves():
    """A `TaskGroup` packs what its tasks raise into groups. The run stops all the same."""

    async def trip(value, context):
        async with asyncio.TaskGroup() as outer:
            outer.create_task(nested())

    async def nested():
        raise ExceptionGroup("several", [ValueError("odd"), Tripwire("stop")])

    async def body(x: int) -> None:
        await trip(None, None)

    for tool in (
        FunctionTool(body),
        Echo(input_guardrails=[trip]),
        Echo(output_guardrails=[trip]),
        Broken(ExceptionGroup("one", [Tripwire("stop")])),
    ):
        with pytest.raises(Tripwire, match="stop"):
            call(tool, {"x": 1})
    assert call(Broken(ExceptionGroup("one", [ValueError("odd")]))).error.type == "ExceptionGroup"


@pytest.mark.parametrize("timeout", [None, 30])
def test_cancellation_from_outside_leaves(timeout):
    """Who cancels the call gets the cancellation, and the body's `finally` has run."""
    cleaned, begun = [], asyncio.Event()

    @FunctionTool(timeout=timeout)
    async def slow():
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(True)

    asyncio.run(cancelled(slow(ToolCall(name="slow")), begun))

    assert cleaned == [True]


def test_a_stray_cancellation_is_a_failure():
    """A CancelledError that nobody asked for is a failure of the tool."""
    causes = []

    def note(error, context):
        causes.append(type(error.__cause__))

    async def stray():
        raise asyncio.CancelledError

    for tool in (
        Broken(asyncio.CancelledError(), on_error_func=note),
        FunctionTool(stray, on_error_func=note),
    ):
        said = ToolFailure(type="ToolError", message="The tool cancelled itself.")
        assert call(tool).error == said
    assert causes == [asyncio.CancelledError] * 2


# ---- error functions


def test_error_functions_are_asked_in_order():
    """The first that answers wins; None passes on."""
    asked = []

    def first(error, context):
        asked.append(("first", type(error).__name__))

    async def second(error, context):
        asked.append(("second", str(error)))
        return "try another file"

    tool = Broken(ValueError("x"), on_error_func=first)
    tool.add_on_error_func(second)
    tool.add_on_error_func(lambda e, c: asked.append("never"))
    result = call(tool)

    assert asked == [("first", "ValueError"), ("second", "x")]
    assert result.error == ToolFailure(type="ValueError", message="try another file")


def test_an_error_function_can_rescue_a_call():
    """A `ToolResult` is taken as it is."""
    result = call(Broken(ValueError("x"), on_error_func=lambda e, c: ToolResult.of("saved")))

    assert result.success and result.text == "saved"


def test_error_functions_see_argument_errors_and_refusals():
    """Every exception on the road is asked about; its type tells which."""
    kinds = []
    tool = Echo(on_error_func=lambda e, c: kinds.append(type(e)), input_guardrails=[refuses()])
    call(tool, "not json")
    call(tool, {"x": 1})

    assert kinds == [ArgumentError, GuardrailError]


@pytest.mark.parametrize(
    ("crash", "why"),
    [
        (lambda e, c: 1 / 0, "division by zero"),
        (lambda e, c: 42, "an error function returned int, expected ToolResult, str or None"),
    ],
    ids=["raises", "returns a number"],
)
def test_an_error_function_that_crashes_gets_the_default(crash, why, caplog):
    """The default answer is given, and the crash is logged with its traceback."""
    with caplog.at_level(logging.ERROR, "functool"):
        result = call(Broken(ValueError("x"), on_error_func=crash))

    assert result.text == "ValueError: x"
    assert caplog.messages == ["an error function of broken failed"]
    assert str(caplog.records[0].exc_info[1]) == why


def test_hide_errors_hides_and_logs(caplog):
    """The model reads a fixed sentence, the log the rest; a message meant for the model passes."""
    with caplog.at_level(logging.ERROR, "functool"):
        hidden = call(Broken(ValueError("password=hunter2"), on_error_func=hide_errors))

    assert (hidden.text, hidden.error.type) == ("The tool failed unexpectedly.", "ValueError")
    assert "hunter2" in caplog.text and "the tool broken failed" in caplog.messages
    assert call(Broken(ToolError("disk full"), on_error_func=hide_errors)).text == "disk full"


def test_on_error_of_a_subclass_answers_last():
    """`on_error` is asked when no error function answered; when it crashes the default is given."""

    class Own(Broken):
        async def on_error(self, error, context):
            return ToolResult.failed("own words")

    class Bad(Broken):
        async def on_error(self, error, context):
            raise RuntimeError

    assert call(Own(ValueError("x"))).text == "own words"
    assert call(Own(ValueError("x"), on_error_func=lambda e, c: "first")).text == "first"
    assert call(Bad(ValueError("x"))).text == "ValueError: x"


# ---- output guardrails


def test_error_results_meet_output_guardrails():
    """The answer of `on_error` is seen by output guardrails."""
    seen = []
    call(Broken(ValueError("x"), output_guardrails=[lambda r, c: seen.append(r.text)]))

    assert seen == ["ValueError: x"]


def test_a_refused_output_is_answered_once():
    """A refusal by an output guardrail goes to `on_error` once, and that answer meets none again."""
    seen = []
    note = lambda result, context: seen.append(result.text)  # noqa: E731
    result = call(Echo(output_guardrails=[note, refuses("not that")]), {"x": 1})

    assert (result.text, result.error.type, result.value) == ("not that", "GuardrailError", None)
    assert seen == ['{"x":1,"y":7}']


def test_a_changed_output_changes_the_value():
    """When output changes and value stays the same object, value becomes the new text."""
    assert call(Echo(output_guardrails=[shows("safe")]), {"x": 1}).value == "safe"


def test_a_guardrail_may_set_the_value_itself():
    """A value that the guardrail replaced is kept."""

    def count(result, context):
        return dataclasses.replace(shows("safe")(result, context), value=5)

    assert call(Echo(output_guardrails=[count]), {"x": 1}).value == 5


def test_a_replaced_error_keeps_its_error_only_if_the_guardrail_keeps_it():
    """A guardrail decides whether an error result stays one."""
    keep = Broken(ValueError("x"), output_guardrails=[shows("more")])
    drop = Broken(ValueError("x"), output_guardrails=[lambda r, c: ToolResult.of("fine")])

    assert call(keep).error.message == "ValueError: x"
    assert call(drop).success


@pytest.mark.parametrize("bad", [lambda v, c: 1 / 0, lambda v, c: "text", lambda v, c: True])
def test_guardrails_fail_closed(bad, caplog):
    """A guardrail that crashes or returns something else refuses: no body runs, no output is shown."""
    tool = Echo(input_guardrails=[bad])
    shown = Echo(output_guardrails=[bad])

    with caplog.at_level(logging.ERROR, "functool"):
        assert call(tool, {"x": 1}).error.type == "GuardrailError"
        result = call(shown, {"x": 1})

    assert tool.seen == []
    assert result.is_error and result.value is None and '"x"' not in result.text
    assert all(record.exc_info for record in caplog.records)


def test_metadata_says_what_guardrails_did():
    """`result.metadata["guardrails"]` lists each that replaced or refused, with its stage."""

    def quiet(result, context):
        return None

    guards = {"input_guardrails": [sends(x=2)], "output_guardrails": [quiet, shows("short")]}
    replaced = call(Echo(**guards), {"x": 1})
    refused = call(Echo(input_guardrails=[refuses()]), {"x": 1})

    assert replaced.metadata["guardrails"] == [did("sends", "input"), did("shows", "output")]
    assert refused.metadata["guardrails"] == [did("refuses", "input", "refused")]


def test_a_guardrail_that_returns_what_it_got_replaced_nothing():
    """The same call and the same result pass like None, and are not listed."""

    async def same(value, context):
        return value

    result = call(Echo(input_guardrails=[same], output_guardrails=[same]), {"x": 1})

    assert (result.value, result.metadata) == ({"x": 1, "y": 7}, {})


@pytest.mark.parametrize("options", [{}, {"timeout": 30}], ids=["bare", "limited"])
def test_metadata_lists_guardrails_before_listeners_too(options):
    """Who listens changes nothing of what is listed, and a time limit neither."""
    result = call(Echo(input_guardrails=[sends(x=2)], **options), {"x": 1}, heard()[0])

    assert result.value == {"x": 2, "y": 7}
    assert result.metadata == {"guardrails": [did("sends", "input")]}


def test_a_body_beside_a_guardrail_may_return_whatever_it_may_alone():
    """A value stays the same object, a result is taken as it is, and each yield of a generator is progress of this call."""

    def pieces():
        yield "one"
        yield "two"

    made = {
        "data": {"a": [1]},
        "other": dataclasses.make_dataclass("Point", ["x"])(3),
        "result": ToolResult.failed("no", type="Own"),
        "generator": pieces(),
    }

    @FunctionTool(output_guardrails=[lambda result, context: None])
    async def body(kind: str):
        return made[kind]

    context, log = heard()
    results = {kind: call(body, {"kind": kind}, context) for kind in made}

    assert results["data"].value is made["data"] and results["data"].text == '{"a":[1]}'
    assert results["other"].value is made["other"] and results["other"].text == '{"x":3}'
    assert results["result"] == dataclasses.replace(made["result"], call_id="c1")
    assert (results["generator"].value, results["generator"].success) == ("two", True)
    assert [(event.kind, event.tool_name, event.call_id, event.data) for event in log.events] == [
        ("tool:progress", "body", "c1", {"value": value}) for value in ("one", "two")
    ]


def test_add_guardrails_append():
    """Guardrails may be added later, on both sides."""
    order = []
    tool = Echo(input_guardrails=[lambda c, x: order.append(1)])
    tool.add_input_guardrails([lambda c, x: order.append(2)])
    tool.add_output_guardrails([lambda r, x: order.append(3)])
    call(tool, {"x": 1})

    assert order == [1, 2, 3]


def test_what_is_added_has_to_be_callable():
    """What is added later is looked at like what is given at definition, and the message says which list it was."""
    tool = Echo()
    with pytest.raises(DefinitionError, match="^input_guardrails takes callables, not int"):
        tool.add_input_guardrails([3])
    with pytest.raises(DefinitionError, match="^output_guardrails must be a list of callables"):
        tool.add_output_guardrails(print)
    with pytest.raises(DefinitionError, match="^on_error_func takes callables, not str"):
        tool.add_on_error_func("x")


# ---- definition


def test_a_tool_shows_its_name():
    """The repr is the kind and the name."""
    assert repr(Echo()) == "<Echo echo>"
    assert repr(WrapperTool(Echo(), name="loud")) == "<WrapperTool loud>"


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), True, "5", 10**400])
def test_a_bad_timeout_is_refused_at_definition(timeout):
    """Zero, negative, NaN, infinity, True and text are no time limits."""
    with pytest.raises(DefinitionError, match="timeout"):
        Echo(timeout=timeout)


@pytest.mark.parametrize("timeout", [5e-324, 0.5, 7, sys.float_info.max])
def test_every_positive_finite_number_is_a_time_limit(timeout):
    """It is kept in seconds, as a float."""
    limit = Echo(timeout=timeout).timeout

    assert limit == timeout and type(limit) is float


@pytest.mark.parametrize(
    "options",
    [
        {"input_guardrails": [3]},
        {"output_guardrails": print},
        *({"on_error_func": wrong} for wrong in ("x", "", 0, [])),
        {"input_guardrails": "ab"},
        {"strict": "maybe"},
        *({"settings": wrong} for wrong in ({"display_name": "E"}, {}, 0, "")),
        *({"settings": ToolSettings(is_enabled=wrong)} for wrong in ("false", 0, None)),
        *({"prompts": wrong} for wrong in ("Search first.", {}, 0, "")),
    ],
    ids=str,
)
def test_bad_options_are_refused_at_definition(options):
    """What is not callable, what strict is not, and settings or prompts of another type, falsy ones too, are refused at once, by name."""
    with pytest.raises(DefinitionError, match=next(iter(options))):
        Echo(**options)


def test_what_a_tool_is_made_of():
    """Name, description, parameters and output stand in the schema as they were given; strict is off unless it is asked for."""
    plain, empty = Echo(), SchemaTool("f", "F.", {}, print)

    assert (plain.strict, plain.timeout, plain.schema.output) == (False, None, None)
    assert plain.description == "Echo."
    assert plain.schema.parameters == plain.schema.plain == SCHEMA
    assert empty.schema.parameters == obj({}, additionalProperties=False)

    class Typed(Tool):
        run = Echo.run

    assert Typed(
        name="t", description="T.", parameters={"properties": {}}, output={"type": "null"}
    ).schema.output == {"type": "null"}
    with pytest.raises(
        DefinitionError, match='parameters must be a JSON Schema whose root has "type": "object"$'
    ):
        Typed(name="t", description="T.", parameters={"type": "array"})


@pytest.mark.parametrize("name", ["", None, 5])
def test_a_tool_needs_a_name(name):
    """An empty name is refused."""
    with pytest.raises(DefinitionError, match=r"\(.*test_tool.py:\d+\): a tool needs a name$"):
        SchemaTool(name, "d", {"type": "object"}, lambda a: a)


def test_a_description_that_is_no_text_is_refused():
    """A comma behind a text makes it a tuple, which each kind of tool refuses at its line."""
    words = r"\(.*test_tool.py:\d+\): the description must be a text, not tuple$"
    for make in (
        lambda: SchemaTool("x", ("d",), {"type": "object"}, lambda a: a),
        lambda: FunctionTool(tagged, description=("d",)),
        lambda: WrapperTool(Echo(), description=("d",)),
    ):
        with pytest.raises(DefinitionError, match=words):
            make()


@pytest.mark.parametrize("tags", ["web", 5])
def test_tags_that_are_no_list_are_refused(tags):
    """A single text would count as one tag for each letter."""
    with pytest.raises(DefinitionError, match=f"tags must be a list of texts, not {tags!r}$"):
        Echo(settings=ToolSettings(tags=tags))


def tagged() -> str:
    """Return nothing."""
    return ""


def test_settings_and_prompts_have_their_defaults():
    """The display name is the name unless it is given; None stands for the default."""
    for tool in (Echo(), Echo(settings=None, prompts=None)):
        assert tool.settings == ToolSettings(display_name="echo")
        assert tool.prompts == ToolPrompts()
    assert Echo(settings=ToolSettings(display_name="E", tags=("a",))).settings.display_name == "E"


# ---- time limits


def test_an_async_body_is_cancelled_and_cleaned_up():
    """After the time limit the body's `finally` has run before the answer."""
    cleaned = []

    @FunctionTool(timeout=60)
    async def slow():
        time_passes(61)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append(True)

    result = call(slow)

    assert result.error.type == "ToolTimeoutError"
    assert result.text == "The tool slow did not answer within 60 seconds and was stopped."
    assert cleaned == [True]


def test_a_sync_body_is_answered_in_time_and_told_of():
    """A sync body cannot be killed: the error says that the work may go on."""
    kinds, end = [], threading.Event()

    @FunctionTool(
        timeout=0.02, on_error_func=lambda e, c: kinds.append((type(e).__name__, e.still_running))
    )
    def slow():
        end.wait(30)

    result = call(slow)
    end.set()

    assert kinds == [("ToolTimeoutError", True)]
    assert result.text == (
        "The tool slow did not answer within 0.02 seconds; its work may still be going on."
    )


def test_a_tripwire_at_the_time_limit_leaves():
    """A guardrail that stops the run while it is being cancelled still stops it."""

    async def guard(call, context):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise Tripwire("too late") from None

    with pytest.raises(Tripwire, match="too late"):
        call(foreign({}, timeout=0.01, input_guardrails=[guard]))


def test_a_body_that_ignores_cancellation_is_abandoned_and_counted(caplog, monkeypatch):
    """After the grace the answer is given, a warning is logged, and the body is counted while it runs."""
    monkeypatch.setattr("functool.executors.GRACE_SECONDS", 0.02)

    async def main():
        while abandoned():  # Threads that tests before this one let go.
            await asyncio.sleep(0.01)
        release = asyncio.Event()

        @FunctionTool(timeout=60, on_error_func=lambda e, c: kinds.append(e.still_running))
        async def stubborn():
            time_passes(61)
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    pass

        kinds = []
        result = await stubborn.invoke(ToolCall(name="stubborn"))
        counted = abandoned()
        release.set()
        while abandoned():
            await asyncio.sleep(0)
        return result, kinds, counted

    with caplog.at_level(logging.WARNING, "functool"):
        result, kinds, counted = asyncio.run(main())

    assert result.error.type == "ToolTimeoutError"
    assert (kinds, counted) == ([True], 1)
    said = "the body of stubborn was abandoned: it did not end when it was cancelled"
    assert said in caplog.messages


def test_the_time_limit_bounds_guardrails_too():
    """A guardrail that hangs is cut off, and the body does not run."""
    tool = Echo(timeout=0.02, input_guardrails=[hangs])

    assert call(tool, {"x": 1}).error.type == "ToolTimeoutError"
    assert tool.seen == []


def test_after_the_deadline_error_functions_and_guardrails_are_bounded(monkeypatch):
    """An error function that hangs after the deadline gets the default answer."""
    monkeypatch.setattr("functool.executors.GRACE_SECONDS", 0.02)

    async def late(error, context):
        await asyncio.sleep(60)
        return "too late"

    result = call(Echo(timeout=0.02, input_guardrails=[hangs], on_error_func=late), {"x": 1})

    assert result.error.type == "ToolTimeoutError" and "0.02 seconds" in result.text


def test_the_answer_after_a_deadline_meets_the_output_guardrails():
    """Output guardrails see the time-out too."""
    seen = []
    note = lambda result, context: seen.append(result.error.type)  # noqa: E731
    call(Echo(timeout=0.02, input_guardrails=[hangs], output_guardrails=[note]), {"x": 1})

    assert seen == ["ToolTimeoutError"]


def test_what_is_answered_after_a_deadline_knows_the_call():
    """Error functions get the context of the call, and the metadata list what guardrails did before the deadline and after it."""

    class Slow(Echo):
        async def run(self, call, context):
            time_passes(61)
            await asyncio.Event().wait()

    tool = Slow(
        timeout=60,
        input_guardrails=[sends(x=2)],
        output_guardrails=[shows("Try later.")],
        on_error_func=lambda e, c: f"{c.call.id} is late",
    )
    result = call(tool, {"x": 1})

    assert result.text == "c1 is late\nTry later."
    assert result.metadata["guardrails"] == [did("sends", "input"), did("shows", "output")]


def test_a_quick_body_is_not_touched_by_its_limit():
    """Within the limit nothing changes."""
    assert call(Echo(timeout=30), {"x": 1}).value == {"x": 1, "y": 7}
    refused = call(Echo(timeout=30, input_guardrails=[refuses()]), {"x": 1})
    assert refused.metadata["guardrails"] == [did("refuses", "input", "refused")]


# ---- wrappers


def test_a_wrapper_renames_and_describes():
    """A wrapper has its own name and description, and the inner tool's schema."""
    inner = Echo()
    tool = WrapperTool(inner, name="parrot", description="Repeat.")

    assert (tool.name, tool.description) == ("parrot", "Repeat.")
    assert tool.schema.parameters == inner.schema.parameters
    assert tool.schema is tool.schema and inner.schema.name == "echo"
    assert call(tool, {"x": 1}).value == {"x": 1, "y": 7}


def test_a_wrapper_hands_on_the_call_as_it_came():
    """Without guardrails of its own a wrapper validates nothing."""
    seen = []

    class Spy(Echo):
        async def invoke(self, call, context=None):
            seen.append(call.arguments)
            return await super().invoke(call, context)

    call(WrapperTool(Spy()), '{"x": 1}')
    call(WrapperTool(Spy(), input_guardrails=[lambda c, x: None]), '{"x": 1}')

    assert seen == ['{"x": 1}', '{"x": 1}']


def test_a_wrapper_may_mend_what_json_cannot_say():
    """A wrapper without a limit of its own asks nothing of the arguments, so its `run` gets any value."""

    class Mending(WrapperTool):
        async def run(self, call, context):
            return ToolResult.of(type(call.arguments["x"]).__name__)

    assert call(Mending(Echo()), {"x": object()}).value == "object"


@FunctionTool
def greet(name_: typing.Annotated[str, pydantic.Field(alias="name")], times: int = 1) -> str:
    return name_ * times


@pytest.mark.parametrize("wrappers", [1, 3])
def test_guardrails_of_a_wrapper_see_canonical_arguments(wrappers):
    """A guardrail of a wrapper sees, and replaces, decoded arguments under parameter names, however many wrappers stand between."""
    seen, inner = [], greet
    for _ in range(wrappers - 1):
        inner = WrapperTool(inner)

    def look(call, context):
        seen.append(dict(call.arguments))
        return dataclasses.replace(call, arguments={**call.arguments, "times": 2})

    result = call(WrapperTool(inner, input_guardrails=[look]), '{"name": "Al"}')

    assert seen == [{"name_": "Al", "times": 1}]
    assert result.value == "AlAl"


def test_text_that_replaces_arguments_is_read_by_parameter_names():
    """A guardrail may write the replaced arguments as JSON text: it says what the guardrail saw, aliases or not."""

    def louder(call, context):
        return dataclasses.replace(call, arguments=json.dumps({**call.arguments, "times": 2}))

    for kind, inner in ((FunctionTool, greet.func), (WrapperTool, greet)):
        assert call(kind(inner, input_guardrails=[louder]), {"name": "Al"}).value == "AlAl"


def test_a_wrapper_hands_on_name_id_and_context():
    """The inner tool gets the call with its id, and the context with what the host put there; without one, a fresh one."""
    seen = []

    class Inner(Echo):
        async def run(self, call, context):
            seen.append((call.name, call.id, context.deps))
            return ToolResult.of(None)

    class Layer(WrapperTool):
        async def run(self, call, context):
            seen.append(type(context))
            return await super().run(call, context)

    call(WrapperTool(Inner()), {"x": 1}, Context("mine"), id="c7")
    call(WrapperTool(Inner(), timeout=30), {"x": 1}, Context("mine"), id="c8")
    call(Layer(Inner()), {"x": 1}, id="c9")

    assert seen == [("echo", "c7", "mine"), ("echo", "c8", "mine"), Context, ("echo", "c9", None)]


def test_the_hooks_of_a_layer_are_called():
    """A subclass of `WrapperTool` may override `on_invoke` and `on_output`, without a guardrail beside them."""

    class Layer(WrapperTool):
        async def on_invoke(self, call, context):
            return dataclasses.replace(call, arguments={"x": call.arguments["x"] + 1})

        async def on_output(self, result, context):
            return ToolResult.of([result.value])

    assert call(Layer(Echo()), '{"x": 1}').value == [{"x": 2, "y": 7}]


def test_a_layer_may_run_its_tool_again():
    """A subclass of `WrapperTool` overrides `run`: here, to try again."""

    class Retry(WrapperTool):
        async def run(self, call, context):
            result = await super().run(call, context)
            return result if result.success else await super().run(call, context)

    attempts = []

    @FunctionTool
    async def flaky(x: int):
        attempts.append(x)
        if len(attempts) < 2:
            raise ToolError("again")
        return "ok"

    assert call(Retry(flaky), '{"x": 5}').text == "ok"
    assert attempts == [5, 5]


def test_a_wrapper_has_its_own_limit_and_errors():
    """Time limits and error functions of a wrapper are its own."""

    @FunctionTool
    async def slow():
        await asyncio.sleep(60)

    tool = WrapperTool(slow, timeout=0.02, on_error_func=lambda e, c: "too slow")

    assert call(tool).error == ToolFailure(type="ToolTimeoutError", message="too slow")


@pytest.mark.parametrize("given", [{"x": 1}, ToolResult.of("early")], ids=["dict", "result"])
def test_on_invoke_must_return_a_call(given):
    """An `on_invoke` that returns something else runs no body, and the answer says what is wrong."""
    ran = []

    class Wrong(Echo):
        async def on_invoke(self, call, context):
            return given

        async def run(self, call, context):
            ran.append(call)

    said = f"TypeError: on_invoke of echo must return a ToolCall, not {type(given).__name__}"
    assert call(Wrong(), {"x": 1}).text == said
    assert ran == []


def test_run_must_return_a_result():
    """A `run` that returns something else is the author's mistake, and a result."""

    class Wrong(Echo):
        async def run(self, call, context):
            return "text"

    class WrongLayer(WrapperTool):
        async def run(self, call, context):
            return "text"

    said = "TypeError: run of echo must return a ToolResult, not str"
    assert call(Wrong(), {"x": 1}).text == said
    assert call(WrongLayer(Echo()), {"x": 1}).text == said


def test_a_log_at_debug_survives_an_odd_error(caplog):
    """An author may set a text as `error`: the call still has its result."""

    @FunctionTool
    def odd() -> ToolResult:
        return ToolResult(error="no failure")

    with caplog.at_level(logging.DEBUG, "functool"):
        assert call(odd).error == "no failure"


def test_debug_logging_says_outcomes_without_values(caplog):
    """DEBUG notes a call and its outcome, never the arguments or the output."""
    with caplog.at_level(logging.DEBUG, "functool"):
        call(Echo(), {"x": 41234})
        call(Echo(), {"x": "41234!"}, id="c2")

    assert caplog.messages == [
        "call 'c1' of echo",
        "call 'c1' of echo: success",
        "call 'c2' of echo",
        "call 'c2' of echo: ArgumentError",
    ]


def test_a_shared_result_is_not_written_to():
    """A result object that a body returns twice stays as it was: each call has its own id."""
    shared = ToolResult.of("same")

    @FunctionTool
    async def constant() -> ToolResult:
        return shared

    first, second = call(constant, id="a"), call(constant, id="b")

    assert (first.call_id, second.call_id, shared.call_id) == ("a", "b", "")


def test_context_variables_reach_the_body():
    """Context variables of the caller are seen in async and sync bodies, also under a time limit."""
    variable = contextvars.ContextVar("variable", default="unset")

    @FunctionTool(timeout=30)
    def sync_body():
        return variable.get()

    @FunctionTool(timeout=30)
    async def async_body():
        return variable.get()

    variable.set("set")

    assert [call(sync_body).value, call(async_body).value] == ["set", "set"]


def test_an_unresolvable_tool_answers_with_a_result():
    """A call of a tool whose schema cannot be made is an error result too."""

    @FunctionTool
    def late(x: "NotYetDefined"):  # noqa: F821
        return x

    result = call(late, '{"x": 1}', Context())

    assert result.error.type == "DefinitionError"
    assert "NotYetDefined" in result.text


def test_a_wrapper_with_a_time_limit_validates_nothing():
    """Only guardrails make a wrapper look: arguments that do not fit are refused, and answered, by the inner tool."""
    inner, outer = [], []
    echo = Echo(on_error_func=lambda error, context: inner.append(type(error)))
    note = lambda error, context: outer.append(type(error))  # noqa: E731

    result = call(WrapperTool(echo, timeout=5, on_error_func=note), '{"x": "?"}')

    assert (result.error.type, inner, outer) == ("ArgumentError", [ArgumentError], [])


def test_metadata_lists_the_guardrails_of_a_wrapper_and_of_its_inner_tool():
    """Every guardrail that replaced or refused is listed, in the order in which they stood on the road."""

    def raised(given, context):
        return dataclasses.replace(given, arguments={"x": given.arguments["x"] + 1})

    def outer(result, context):
        return shows("outer")(result, context)

    tool = WrapperTool(
        Echo(input_guardrails=[raised], output_guardrails=[shows("inner")]),
        input_guardrails=[raised],
        output_guardrails=[outer],
    )
    result = call(tool, '{"x": 1}')

    assert tool.tool.seen == [{"x": 3, "y": 7}]
    assert result.metadata["guardrails"] == [
        *[did("raised", "input")] * 2,
        *[did("shows", "output"), did("outer", "output")],
    ]


def test_an_outer_time_limit_knows_of_a_thread_that_goes_on():
    """A sync body under a time limit of its own is still running when the wrapper's passes first, and the error says so."""
    end, errors = threading.Event(), []

    @FunctionTool(timeout=60)
    def wait() -> None:
        end.wait(30)

    result = call(
        WrapperTool(wait, timeout=0.05, on_error_func=lambda error, context: errors.append(error))
    )
    end.set()

    assert errors[0].still_running and "may still be going on" in result.text


class Rescued(ToolResult):
    """A result of an author's own, with a constructor of its own."""

    __slots__ = ()

    def __init__(self, text):
        super().__init__(output=[TextContent(text=text)], value=text)


def test_a_result_class_of_the_authors_own_travels():
    """A subclass keeps its class, and a guardrail may replace it by a plain `ToolResult`."""

    @FunctionTool
    async def rescue() -> Rescued:
        return Rescued("saved")

    result = call(rescue)
    assert (type(result), result.text, result.call_id) == (Rescued, "saved", "c1")

    rescue.add_output_guardrails([lambda result, context: ToolResult.of("changed")])
    assert call(rescue).value == "changed"


def test_metadata_that_is_none_leaves_no_exception():
    """An author's result without metadata gets those of the guardrails."""

    @FunctionTool(output_guardrails=[lambda result, context: dataclasses.replace(result, value=2)])
    async def odd() -> ToolResult:
        return ToolResult(metadata=None)

    assert call(odd).metadata["guardrails"][0]["did"] == "replaced"


@pytest.mark.parametrize("hook", ["on_error", "on_output"])
def test_a_hook_that_returns_no_result_is_a_failure(hook, caplog):
    """`on_error` and `on_output` return a `ToolResult`; anything else never reaches the caller."""

    class Odd(Echo):
        async def run(self, call, context):
            if hook == "on_error":
                raise ValueError("boom")
            return ToolResult.of("secret")

    async def nothing(self, value, context):
        return None if hook == "on_error" else "text"

    setattr(Odd, hook, nothing)
    result = call(Odd(), '{"x": 1}')

    assert result.is_error and "secret" not in repr(result)
    assert result.error.type == ("ValueError" if hook == "on_error" else "TypeError")
    said = f"{hook} of echo must return a ToolResult, not {'NoneType' if hook == 'on_error' else 'str'}"
    assert said in (str(caplog.records[0].exc_info[1]) if hook == "on_error" else result.text)


def test_events_of_an_error_function_come_before_the_result():
    """On the short road too every listener has seen them when the result is returned."""
    context, log = heard()

    @FunctionTool(on_error_func=lambda error, context: context.progress("failing"))
    async def fail() -> None:
        raise ValueError

    async def main():
        await fail(ToolCall(name="fail", id="c1"), context)
        return list(log.events)

    [event] = asyncio.run(main())
    assert (event.kind, event.tool_name, event.call_id) == ("tool:progress", "fail", "c1")


@FunctionTool(timeout=30)
async def quitter() -> None:
    asyncio.current_task().cancel()
    await asyncio.sleep(1)


def test_a_body_that_cancels_itself_under_a_time_limit_is_a_failure():
    """The task it cancels is the one of the road, and nobody outside asked for it."""
    assert call(quitter).error.type == "ToolError"
    answered = FunctionTool(
        quitter.func,
        timeout=30,
        on_error_func=lambda error, context: f"{context.call.id} cancelled itself",
        output_guardrails=[refuses()],
    )
    result = call(answered)
    assert result.text == "c1 cancelled itself"
    assert result.metadata["guardrails"] == [did("refuses", "output", "refused")]


def test_what_answers_a_body_that_cancelled_itself_is_bounded_too(monkeypatch):
    """A guardrail that hangs then is cut off like any other part of the road."""
    monkeypatch.setattr("functool.executors.GRACE_SECONDS", 0.01)
    tool = FunctionTool(quitter.func, timeout=30, output_guardrails=[hangs])

    assert call(tool).error.type == "ToolError"


def test_an_error_function_that_cancels_itself_after_a_deadline_gets_the_default_answer():
    """A cancellation that nobody outside asked for leaves no call without its result."""

    async def quits(error, context):
        await quitter.func()

    result = call(Echo(timeout=0.02, input_guardrails=[hangs], on_error_func=quits), {"x": 1})

    assert (result.error.type, result.call_id) == ("ToolTimeoutError", "c1")


@pytest.mark.parametrize("stage", ["input", "output"])
def test_a_guardrail_that_raises_a_stray_cancellation_refuses(stage):
    """Nobody asked for it, so the guardrail failed: its refusal is listed, and the output is not shown."""

    async def stray(value, context):
        raise asyncio.CancelledError

    echo = Echo(**{f"{stage}_guardrails": [stray]})
    result = call(echo, '{"x": 1}')

    assert result.error.type == "GuardrailError" and not result.output
    assert result.metadata["guardrails"] == [did("stray", stage, "refused")]
    assert len(echo.seen) == (stage == "output")


def test_an_error_result_that_is_redacted_keeps_no_old_value():
    """A guardrail that changes the output of an error changes its value too."""
    failure, pin = ToolFailure(type="x", message="bad"), [TextContent(text="pin")]

    @FunctionTool(output_guardrails=[shows("clean")])
    async def odd() -> ToolResult:
        return ToolResult(output=pin, value="pin", error=failure)

    assert "pin" not in repr(call(odd))


@pytest.mark.parametrize("rescued", [False, True])
def test_what_inner_guardrails_did_stays_when_the_wrapper_refuses(rescued):
    """The list of what guardrails did keeps the inner tool's entries when its output is refused, and those of a rescuing tool."""
    inner = FunctionTool(lambda x=1: x, name="inner", input_guardrails=[sends(x=2)])

    async def rescue(error, context):
        return await inner.invoke(ToolCall(name="inner")) if rescued else None

    result = call(WrapperTool(inner, output_guardrails=[refuses()], on_error_func=rescue))

    assert result.metadata["guardrails"] == [
        did("sends", "input"),
        did("refuses", "output", "refused"),
        *[did("sends", "input")] * rescued,
    ]
    assert result.is_error is not rescued


@FunctionTool
def pickled_by_name() -> str:
    """Answer."""
    return "body"


@pytest.mark.parametrize("kind", ["function", "method"])
def test_around_leaves_the_tool_as_it_was(kind):
    """`around` returns a copy, also of a tool that pickles by its name."""

    class Desk:
        @FunctionTool
        def tidy(self) -> str:
            return "body"

    async def shout(call, context, proceed):
        return ToolResult.of((await proceed()).text.upper())

    tool = pickled_by_name if kind == "function" else Desk().tidy
    around = tool.around(shout)

    assert around is not tool
    assert call(around).text == "BODY"
    assert call(tool).text == "body"


def test_sent_form_is_what_another_road_takes():
    """Canonical arguments under the names that a model sends bind to the same values, of a wrapper too."""

    @FunctionTool
    def join(
        start: typing.Annotated[int, pydantic.Field(alias="from")], *more: int, **named: str
    ) -> None: ...

    sent = {"from": 1, "more": [2], "key": "v"}
    for tool in (join, WrapperTool(join, name="other")):
        bound = tool.bind(sent)

        assert bound.arguments == {"start": 1, "more": [2], "key": "v"}
        assert tool.bind(tool.sent_form(bound.arguments)) == bound


@pytest.mark.parametrize(
    ("option", "add", "takes"),
    [
        ("input_guardrails", Tool.add_input_guardrails, "call, context"),
        ("output_guardrails", Tool.add_output_guardrails, "result, context"),
        ("on_error_func", Tool.add_on_error_func, "error, context"),
        ("around", Tool.around, "call, context, proceed"),
    ],
)
def test_what_is_added_later_is_checked_like_what_is_given_at_first(option, add, takes):
    """A guardrail, an error function or an `around` that cannot be called so is a DefinitionError that names the option and its arguments."""
    wrong = f"^{option}: .* cannot be used as it is .*; it has to take {takes}$"
    with pytest.raises(DefinitionError, match=wrong):
        add(Echo(), [len] if option.endswith("guardrails") else len)
    if option != "around":
        with pytest.raises(DefinitionError, match=wrong.replace("^", "")):
            Echo(**{option: [len] if option.endswith("guardrails") else len})


def test_a_foreign_schema_has_the_limit_of_bytes_while_it_is_written():
    """The watch of a SchemaTool refuses text of more bytes than the tool takes."""
    watch = foreign(obj({"text": STR}), max_argument_bytes=20).watch()

    assert watch.feed('{"text": "0123456789') is None
    assert "more than 20 bytes" in str(watch.feed("0"))


def test_a_tool_that_forgets_the_init_of_its_base_says_so():
    """The author of a subclass reads what is missing, and not that the call is wrong."""

    class Forgetful(Echo):
        def __init__(self) -> None:
            self.count = 0

    with pytest.raises(TypeError, match=r"^Forgetful must call super\(\)\.__init__\(\.\.\.\)$"):
        asyncio.run(Forgetful().invoke(ToolCall(name="echo")))
