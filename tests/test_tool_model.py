"""ToolModel: a model whose fields are the arguments, and which runs itself."""

import asyncio
import gc
import inspect
from dataclasses import dataclass
from datetime import date
from enum import IntEnum
from typing import Any, ClassVar, Generic, Literal, TypeVar

import pytest
from pydantic import ConfigDict, Field, SecretStr, field_validator, model_validator

from functool import (
    Context,
    DefinitionError,
    FunctionTool,
    ToolError,
    ToolModel,
    ToolResult,
    Tripwire,
)
from functool.tool_model import Err, Ok
from tests.schemas import NUM
from tests.support import call as call_of
from tests.support import heard, since_pydantic_2_14

T = TypeVar("T")


class Calculator(ToolModel):
    """Do one sum.

    Args:
        a: The first number.
    """

    operation: Literal["add", "divide"]
    a: float
    b: float = Field(1.0, description="The second number.")

    def run(self):
        if self.operation == "divide" and self.b == 0:
            return Err("Division by zero")
        return Ok(self.a + self.b if self.operation == "add" else self.a / self.b)


class HTTPFetch(ToolModel):
    """Fetch."""

    name: str
    context: int = 0

    async def run(self, ctx: Context):
        ctx.progress(self.name)
        if self.name == "bad":
            raise ToolError("cannot")
        return (self.name, self.context, ctx.call.id if ctx.call else None)


class Named(ToolModel):
    name: ClassVar[str] = "given"

    def run(self):
        raise ValueError("broken")


class NamedPlainly(ToolModel):
    name = "plainly"

    def run(self):
        return ToolResult.failed("no")


class Range(ToolModel):
    """A range."""

    low: int
    high: int = 10

    @field_validator("low")
    @classmethod
    def double(cls, value):
        return value * 2

    @model_validator(mode="after")
    def ordered(self):
        if self.low > self.high:
            raise ValueError("low must not be above high")
        return self

    def run(self):
        return (self.low, self.high)


def call(model, arguments, context=None):
    return call_of(model.tool(), arguments, context)


def test_what_needs_no_instance():
    """Name, description and schema come from the class."""
    schema = Calculator.input_schema()

    assert (Calculator.tool_name(), Calculator.tool_description()) == ("calculator", "Do one sum.")
    names = [model.tool_name() for model in (HTTPFetch, Named, NamedPlainly)]
    assert names == ["http_fetch", "given", "plainly"]
    assert schema["required"] == ["operation", "a"]
    assert schema["properties"]["a"] == {**NUM, "description": "The first number."}
    b = {**NUM, "description": "The second number.", "default": 1.0}
    assert schema["properties"]["b"] == b


def test_the_section_on_attributes_describes_the_fields():
    """A class says there what its fields are. Under the parameters, a text on the same field goes first."""

    class Send(ToolModel):
        """Send a letter.

        Attributes:
            to (str): Who gets it.
            text: In the section on attributes.

        Args:
            text: What it says.
        """

        to: str
        text: str

        def run(self):
            return self.to

    tool = Send.tool()
    texts = {name: part["description"] for name, part in tool.schema.plain["properties"].items()}
    assert texts == {"to": "Who gets it.", "text": "What it says."}
    assert tool.description == Send.tool_description() == "Send a letter."


def test_a_class_whose_name_no_provider_takes_needs_a_name():
    """The class `Box[int]` is called that, so the tool gets a name from its author."""

    class Box(ToolModel, Generic[T]):
        """Keep a thing."""

        thing: T

        def run(self):
            return self.thing

    with pytest.raises(DefinitionError, match=r"test_tool_model.py:\d+\): the name 'box\[int\]'"):
        Box[int].tool()
    assert Box[int].tool(name="box").name == "box"


def test_an_instance_runs_directly():
    """Called, an instance gives `Ok` or `Err`, which `match` takes apart."""
    assert Calculator(operation="add", a=5, b=3)() == Ok(8)
    match Calculator(operation="divide", a=5, b=0)():
        case Err(reason):
            assert reason == "Division by zero"
        case _:
            pytest.fail("not an Err")
    assert Named()() == Err("ValueError: broken")
    assert NamedPlainly()() == Err("no")
    assert asyncio.run(HTTPFetch(name="x")()) == Ok(("x", 0, None))
    assert asyncio.run(HTTPFetch(name="bad")()) == Err("cannot")


def test_as_a_tool():
    """`tool()` answers calls; an `Err` is a failure with its reason, an `Ok` its value."""
    context, log = heard()

    assert call(Calculator, '{"operation": "add", "a": 5}').value == 6.0
    divided = call(Calculator, {"operation": "divide", "a": 1, "b": 0})
    assert divided.error.message == "Division by zero"
    assert call(Calculator, {"operation": "pow", "a": 1}).error.type == "ArgumentError"
    assert call(Calculator, {"operation": "add", "a": 1, "c": 2}).error.type == "ArgumentError"
    assert call(HTTPFetch, {"name": "x", "context": 4}, context).value == ("x", 4, "c1")
    assert call(Named, {}).text == "ValueError: broken"
    assert call(NamedPlainly, {}).text == "no"
    assert log.kinds == ["tool:progress"]


def test_validators_of_the_model_count_once():
    """Field validators run on what was sent, once; model validators refuse in words."""
    assert call(Range, {"low": 3}).value == (6, 10)
    assert "low must not be above high" in call(Range, {"low": 30}).text
    assert call(Range, {"low": 30}).error.type == "ArgumentError"
    assert call(Range, {"low": 1, "high": None}).value == (2, 10)


def test_options_are_those_of_a_function_tool():
    """Guardrails, strict and names may be given to `tool()`."""
    seen = []
    note = lambda call, context: seen.append(call.arguments["b"])  # noqa: E731
    tool = Calculator.tool(name="sums", strict=True, input_guardrails=[note])
    result = call_of(tool, {"operation": "add", "a": 1, "b": None})

    assert (tool.name, tool.strict, result.value, seen) == ("sums", True, 2.0, [1.0])


def test_a_tripwire_leaves():
    """A tripwire is no `Err`."""

    class Trip(ToolModel):
        def run(self):
            raise Tripwire("stop")

    class ATrip(ToolModel):
        async def run(self):
            raise Tripwire("stop")

    with pytest.raises(Tripwire):
        Trip()()
    with pytest.raises(Tripwire):
        asyncio.run(ATrip()())
    with pytest.raises(Tripwire):
        call(Trip, {})


def test_a_model_without_run_says_so():
    """The author is told what is missing."""

    class Empty(ToolModel):
        pass

    assert Empty()() == Err("NotImplementedError: Empty must implement run")
    assert Empty.tool_description() == ""


@pytest.mark.parametrize(
    ("outcome", "direct", "text"),
    [
        (Ok(3), Ok(3), "3"),
        (Err("late"), Err("late"), "late"),
        (ToolResult.of(3), Ok(3), "3"),
        (ToolResult.failed("late"), Err("late"), "late"),
    ],
)
@pytest.mark.parametrize("is_async", [False, True])
def test_every_outcome_of_run(outcome, direct, text, is_async):
    """`Ok`, `Err` and a result mean the same from a sync and an async `run`, as a tool and directly."""

    class Sync(ToolModel):
        def run(self):
            return outcome

    class Async(ToolModel):
        async def run(self):
            return outcome

    made = asyncio.run(Async()()) if is_async else Sync()()

    result = call(Async if is_async else Sync, {})
    assert made == direct
    assert (result.text, result.is_error) == (text, isinstance(direct, Err))


class Asked(ToolModel):
    """Answer by what the host holds."""

    async def run(self, *, context: Context):
        return context.deps


def test_the_context_may_be_keyword_only():
    """`run(self, *, context)` gets it by its name, as a tool and directly."""
    assert call(Asked, {}, Context("deps")).value == "deps"
    assert asyncio.run(Asked()(Context("mine"))) == Ok("mine")


def test_run_may_be_a_method_of_any_kind():
    """The context is passed to the first parameter after `self`, however `run` is written."""

    class Static(ToolModel):
        @staticmethod
        def run(context: Context):
            return context.deps

    class OfClass(ToolModel):
        @classmethod
        def run(cls, context: Context):
            return cls.__name__, context.deps

    def decorated(func):
        return lambda *args: func(*args)

    class Decorated(ToolModel):
        @decorated
        def run(self, context: Context):
            return context.deps

    assert call(Decorated, {}, Context("deps")).value == "deps"
    assert call(Static, {}, Context("deps")).value == "deps"
    assert call(OfClass, {}, Context("deps")).value == ("OfClass", "deps")


def test_the_signature_of_run_is_read_once(monkeypatch):
    """A call does not read the signature again, which took a third of its time."""
    tool = Asked.tool()
    call_of(tool, {}, Context())
    monkeypatch.setattr(inspect, "signature", None)

    assert call_of(tool, {}, Context("deps")).value == "deps"


def test_a_models_own_check_is_told_under_the_name_that_was_sent():
    """A field with an alias is named by it, as in the schema, also where the model's validator refuses."""

    class Order(ToolModel):
        count: int = Field(alias="howMany")

        @field_validator("count")
        @classmethod
        def few(cls, count):
            if count > 5:
                raise ValueError("at most a handful")
            return count

        def run(self):
            return self.count

    refused = "Invalid arguments. howMany: at most a handful"
    assert call(Order, {"howMany": 9}).text == refused
    assert call(Order, {"howMany": 2}).text == "2"


def test_a_default_is_not_validated_as_in_pydantic():
    """A call that leaves the field out runs, as an instance without it does."""

    class Find(ToolModel):
        """Find."""

        limit: int = Field(0, ge=1)
        page: int = None
        kind: Literal["a"] = Field("", alias="type")

        def run(self) -> str:
            return repr((self.limit, self.page, self.kind))

    assert call(Find, {}).value == repr((0, None, "")) == Find()().value
    assert call(Find, {"limit": 2, "type": "a"}).value == repr((2, None, "a"))
    assert call(Find, {"limit": 0}).error.type == "ArgumentError"


def test_a_default_that_json_does_not_give_back():
    """A field that the call leaves out has its own default, not what its JSON form would be read as."""

    class Find(ToolModel):
        since: str | date = date(2027, 1, 2)
        size: Any = (1, 2)
        key: SecretStr = SecretStr("k3y")
        ratio: float = 2

        def run(self):
            return repr((self.since, self.size, self.key.get_secret_value(), self.ratio == 2))

    assert call(Find, {}).value == Find()().value == repr((date(2027, 1, 2), (1, 2), "k3y", True))
    assert call(Find, {"since": "x", "size": [1]}).value == repr(("x", [1], "k3y", True))


def test_a_model_that_takes_no_aliases_itself_takes_them_as_a_tool():
    """The schema names the alias, so the call does too, whatever the model's own constructor takes."""

    class Named(ToolModel):
        model_config = ConfigDict(validate_by_name=True, validate_by_alias=False)

        count: int = Field(alias="howMany")

        def run(self):
            return self.count

    assert call(Named, {"howMany": 3}).value == 3


def test_a_union_of_a_field_is_read_as_that_of_a_parameter():
    """The member that needs no conversion wins, so true does not become a number."""

    class Size(IntEnum):
        SMALL = 1

    class Mark(ToolModel):
        x: set[float] | tuple[bool, Size, float]
        n: int = 0

        def run(self):
            return self.x

    def mark(x: set[float] | tuple[bool, Size, float]):
        return x

    expected = FunctionTool(mark).bind({"x": [True, 1, 2.5]}).values["x"]
    assert call(Mark, {"x": [True, 1, 2.5]}).value == expected == (True, Size.SMALL, 2.5)
    assert call(Mark, {"x": [1.5], "n": "3"}).value == {1.5}


def test_an_alias_may_be_the_name_of_another_field():
    """What was sent fills the one field that guardrails see, and not also the other one."""

    class Send(ToolModel):
        text: str = Field(alias="to")
        to: str = Field(alias="payee", default_factory=lambda: "nobody")

        def run(self):
            return [self.text, self.to]

    assert call(Send, {"to": "x"}).value == ["x", "nobody"]
    assert call(Send, {"to": "x", "payee": "ann"}).value == ["x", "ann"]


@since_pydantic_2_14  # Before, pydantic gives such a factory a tuple when it reads JSON.
@pytest.mark.parametrize("strict", [False, True])
def test_the_model_itself_makes_its_defaults(strict):
    """A default factory gets the other fields, as in pydantic, and is called once."""
    made = []

    class Book(ToolModel):
        nights: int = 2
        price: int = Field(default_factory=lambda data: data["nights"] * 50)
        number: int = Field(default_factory=lambda: made.append(1) or len(made))

        def run(self):
            return [self.nights, self.price, self.number]

    tool = Book.tool(strict=strict)
    assert call_of(tool, {"nights": 3}).value == [3, 150, 1]
    assert call_of(tool, {"price": 7, "number": None}).value == [2, 7, 2]


def test_a_dataclass_inside_of_a_model_that_makes_up_aliases():
    """Its fields are sent as the schema names them. pydantic gives it the aliases of the model."""

    @dataclass
    class Size:
        width: int

    class Shouted(ToolModel, alias_generator=str.upper):
        size: Size

        def run(self):
            return self.size.width

    assert call(Shouted, {"SIZE": {"width": 3}}).value == 3


@pytest.mark.parametrize("strict", [False, True])
def test_a_model_tells_what_was_sent_from_its_defaults(strict):
    """As in pydantic, validators do not see a field that was left out, and it does not count as set."""

    class Update(ToolModel):
        id: int
        name: str | None = None
        email: str | None = None

        @field_validator("email")
        @classmethod
        def lower(cls, email):
            return email.lower()

        @model_validator(mode="before")
        @classmethod
        def one(cls, data):
            assert {"name", "email"} - set(data), "one change at a time"
            return data

        def run(self):
            return self.model_dump(exclude_unset=True)

    seen = []
    tool = Update.tool(strict=strict)
    tool.add_input_guardrails([lambda call, context: seen.append(dict(call.arguments))])
    assert call_of(tool, {"id": 1, "name": "Ann"}).value == {"id": 1, "name": "Ann"}
    assert call_of(tool, {"id": 1, "email": "A@X"}).value == {"id": 1, "email": "a@x"}
    assert call_of(tool, {"id": 1, "name": None}).value == {"id": 1, "name": None}
    assert seen[0] == {"id": 1, "name": "Ann", "email": None}


def test_no_garbage_is_collected_while_a_model_is_made():
    """Half a million lists in its fields would make the collector look through the process many times."""
    seen = []

    class Taking(ToolModel):
        items: list[Any]

        @model_validator(mode="after")
        def note(self):
            seen.append(gc.isenabled())
            return self

        async def run(self) -> int:
            return len(self.items)

    class TakingAtOnce(Taking):
        def run(self) -> int:
            return len(self.items)

    assert [call_of(kind.tool(), {"items": [[]]}).value for kind in (Taking, TakingAtOnce)] == [
        1,
        1,
    ]
    assert seen == [False, False]
