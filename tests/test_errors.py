"""The exception tree."""

import copy
import pickle
import re

import pytest

from functool import (
    ApprovalRequest,
    ApprovalRequired,
    ArgumentError,
    DefinitionError,
    FunctionTool,
    FunctoolError,
    GuardrailError,
    SchemaError,
    ToolDisabledError,
    ToolError,
    ToolTimeoutError,
    Tripwire,
    UnknownToolError,
    errors,
)
from tests.support import call

REQUEST = ApprovalRequest.of("t", "d", {"x": 1}, "c")


def test_the_tree_is_the_module_docstring():
    """The drawing in the docstring is the inheritance of the classes."""
    stack: list[str] = []
    drawn = {}
    for line in errors.__doc__.splitlines():
        match = re.match(r"([│├└─ ]*)(\w+)( {2,}|$)", line)
        if match and match.group(2)[0].isupper():
            depth = len(match.group(1)) // 4
            del stack[depth:]
            drawn[match.group(2)] = stack[-1] if stack else "Exception"
            stack.append(match.group(2))
    real = {
        name: value.__bases__[0].__name__
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, FunctoolError)
    }

    assert drawn == real


class NoSeat(ToolError):
    """An error of an author's own, which needs other arguments than a message."""

    def __init__(self, *, row: int, seat: str):
        super().__init__(f"{row}{seat} is taken", details={"row": row})
        self.seat = seat


class Mute(ToolError):
    """An error whose `__init__` does not call its base's."""

    def __init__(self, code):
        self.code = code


@pytest.mark.parametrize(
    "error",
    [
        ArgumentError([{"path": "a", "expected": "an int", "choices": ("1",)}]),
        ArgumentError("not JSON"),
        UnknownToolError("x", ["y"]),
        ApprovalRequired("ask", REQUEST),
        GuardrailError("no", stage="input", guardrail="g"),
        ToolTimeoutError("late", still_running=True),
        ToolError("x", details={"k": 1}),
        ToolDisabledError("off"),
        SchemaError("no form", ["a", "b"]),
        DefinitionError("bad"),
        Tripwire("stop"),
        NoSeat(row=7, seat="B"),
        Mute(9),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_pickle_with_their_data(error):
    """Errors cross processes with message and data, also an author's own."""
    pickles = [pickle.loads(pickle.dumps(error, protocol)) for protocol in (2, 5)]
    for twin in (*pickles, copy.copy(error)):
        assert type(twin) is type(error)
        assert (str(twin), vars(twin)) == (str(error), vars(error))


def test_errors_carry_their_data():
    """Each error has what code may want to know."""
    assert SchemaError("m").reasons == ("m",)
    assert SchemaError("m", ["a", "b"]).reasons == ("a", "b")
    assert ArgumentError("whole").problems == ({"path": "", "expected": "whole"},)
    assert ApprovalRequired("m", REQUEST).request is REQUEST
    unknown = UnknownToolError("x", ["y"])
    assert (unknown.name, unknown.choices) == ("x", ("y",))
    assert ToolTimeoutError("m").still_running is False
    assert Tripwire().results == []
    assert [str(kind()) for kind in (ToolError, GuardrailError, Tripwire)] == ["", "", ""]
    asked = ApprovalRequired.of(REQUEST)
    assert (asked.stage, asked.guardrail) == ("input", "require_approval")
    assert str(asked) == "The call of t needs a person's approval first."


def test_an_argument_error_names_field_problem_and_choices():
    """The text is for a model: where, what is expected, and what there is to choose."""
    price = {"path": "items[2].price", "expected": "a number"}
    mode = {"path": "mode", "expected": "one of the choices", "choices": ("fast", "deep")}
    text = str(ArgumentError([price, mode]))

    assert "items[2].price: expected a number" in text
    assert "mode: expected one of the choices (choices: fast, deep)" in text


def test_only_problems_beyond_the_most_are_counted():
    """Every problem is named as long as they are few. Of more, the rest is a number."""
    problems = [{"path": f"p{n}", "expected": "x"} for n in range(errors.MAX_PROBLEMS + 1)]

    assert str(ArgumentError(problems[:-1])).endswith(f"; p{errors.MAX_PROBLEMS - 1}: x")
    assert str(ArgumentError(problems)).endswith("; and 1 more")


def test_the_close_names_of_an_unknown_tool_are_offered():
    """The nearest names take the place of the list of all names."""
    error = UnknownToolError("serch", ["search", "searches", "pay"])

    assert str(error) == "There is no tool named 'serch'. Did you mean 'search' or 'searches'?"


@pytest.mark.parametrize(
    ("count", "end"), [(20, ", t19."), (21, ", t19 and 1 more."), (1_021, ", t19 and 1,001 more.")]
)
def test_the_list_of_all_names_says_what_it_leaves_out(count, end):
    """A model that reads twenty names knows whether there are others."""
    known = str(UnknownToolError("?", (f"t{number}" for number in range(count))))

    assert known.startswith("There is no tool named '?'. Known tools: t0, t1, ")
    assert known.endswith(end)


def test_an_unknown_tool_with_a_huge_name_is_answered_briefly():
    """A name of a megabyte is not repeated."""
    error = UnknownToolError("x" * 1_000_000, ["y"])

    assert str(error) == f"There is no tool named {'x' * 64!r}. Known tools: y."


@pytest.mark.parametrize(
    ("problems", "text"),
    [
        ([{"expected": "x"}, {"path": "a"}], "x; a: "),
        ("x" * (errors.MAX_MESSAGE - 19), "x" * (errors.MAX_MESSAGE - 19)),
        ("x" * errors.MAX_MESSAGE, "x" * (errors.MAX_MESSAGE - 20) + "…"),
    ],
    ids=["parts", "just short enough", "long"],
)
def test_the_text_of_problems(problems, text):
    """A problem may lack a part. The text has at most `MAX_MESSAGE` characters."""
    assert str(ArgumentError(problems)) == f"Invalid arguments. {text}"


class Missing(ToolError):
    def __init__(self, number):
        self.number = number


class Refused(GuardrailError):
    def __init__(self):
        pass


def test_a_subclass_may_forget_the_init_of_its_base():
    """The call still has a result, and its guardrail refuses with its own name."""

    def fail() -> None:
        raise Missing(7)

    def refuse(call, context):
        raise Refused

    assert call(FunctionTool(fail)).error.type == "Missing"
    refused = call(FunctionTool(fail, input_guardrails=[refuse]))
    assert refused.error.type == "Refused"
    assert refused.metadata["guardrails"] == [
        {"name": "refuse", "stage": "input", "did": "refused"}
    ]
