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
from functool.errors import close_names
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
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_pickle_with_their_data(error):
    """Errors cross processes with message and data."""
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
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


def test_an_argument_error_names_field_problem_and_choices():
    """The text is for a model: where, what is expected, and what there is to choose."""
    price = {"path": "items[2].price", "expected": "a number"}
    mode = {"path": "mode", "expected": "one of the choices", "choices": ("fast", "deep")}
    text = str(ArgumentError([price, mode]))

    assert "items[2].price: expected a number" in text
    assert "mode: expected one of the choices (choices: fast, deep)" in text


def test_an_unknown_tool_with_a_huge_name_is_answered_briefly():
    """A name of a megabyte is not repeated."""
    assert len(str(UnknownToolError("x" * 1_000_000, ["y"]))) < 200


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


def test_only_the_likeliest_names_are_compared(monkeypatch):
    """difflib takes a quarter of a second for one name and two thousand known ones."""
    compared = []
    compare = errors.get_close_matches

    def counted(name, names, n):
        compared.extend(names)
        return compare(name, names, n=n)

    monkeypatch.setattr(errors, "get_close_matches", counted)
    known = [f"delete_thing_{i:05}" for i in range(2_000)]

    assert close_names("deleet_thing_00042", known) == ["delete_thing_00042"]
    assert len(compared) <= 10
