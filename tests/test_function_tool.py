"""FunctionTool: it stays a function, takes anything callable, and delivers what the annotations say."""

import asyncio
import copy
import dataclasses
import datetime
import decimal
import enum
import functools
import inspect
import json
import pathlib
import pickle
import sys
import threading
import typing
import uuid
from collections.abc import AsyncIterator, Iterator
from datetime import UTC
from types import MethodType
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, Optional, TypeVar, Union

import pytest
from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    RootModel,
    StrictInt,
    field_validator,
)
from typing_extensions import Doc, NotRequired, Required, TypeAliasType, TypedDict, Unpack

from functool import (
    Context,
    DefinitionError,
    FunctionTool,
    Inject,
    SchemaError,
    SchemaTool,
    ToolCall,
    ToolFailure,
    ToolModel,
    ToolResult,
    Toolset,
    WrapperTool,
    function_tool,
)
from functool.binding.functions import FunctionBinder
from functool.executors import inline
from functool.guardrails import require_approval
from tests import sample_tools
from tests.schemas import INT, STR, array
from tests.support import call, heard, taking


def received(func, arguments, **options):
    """What the function returned for these arguments."""
    result = call(FunctionTool(func, **options), arguments)
    assert result.success, result.text
    return result.value


# ---- it stays a function


@FunctionTool
def search(query: str, limit: int = 10) -> str:
    """Search the web.

    Args:
        query: What to look for.
        limit: How many to return.
    """
    return f"{query}:{limit}"


def test_the_decorated_function_is_still_the_function():
    """Called in any way but with a `ToolCall` it is the function."""
    assert search("cats", limit=3) == "cats:3"
    assert search(query="cats") == "cats:10"
    assert search.func("x") == "x:10"
    assert (search.__name__, search.__module__) == ("search", __name__)
    assert search.__wrapped__ is search.func
    assert list(inspect.signature(search).parameters) == ["query", "limit"]


def test_it_is_a_tool_only_when_called_positionally_with_a_call():
    """One or two positional arguments, a `ToolCall` and a `Context` or None: `invoke`; else the function."""

    @FunctionTool
    def show(first, second=None, third=None):
        return (first, second, third)

    tool_call = ToolCall(name="show", arguments={"first": 1})

    assert asyncio.run(show(tool_call)).value == (1, None, None)
    assert asyncio.run(show(tool_call, Context())).value == (1, None, None)
    assert asyncio.run(show(tool_call, None)).value == (1, None, None)
    assert show(tool_call, 5) == (tool_call, 5, None)
    assert show(tool_call, Context(), 3)[2] == 3
    assert show(tool_call, third=1) == (tool_call, None, 1)
    assert show(first=tool_call) == (tool_call, None, None)


def test_options_make_a_decorator():
    """`@FunctionTool(...)` and `FunctionTool(func, ...)`, by position or by name, are the same."""

    @FunctionTool(name="find", description="Find it.", timeout=5)
    def one(x: int):
        return x

    two = FunctionTool(lambda x: x, name="find", description="Find it.", timeout=5)
    three = FunctionTool(func=lambda x: x, name="find", description="Find it.", timeout=5)

    for tool in (one, two, three):
        assert (tool.name, tool.description, tool.timeout) == ("find", "Find it.", 5.0)
    assert one(3) == 3


def test_a_tool_pickles_by_its_name():
    """Pickling keeps identity; a bound tool goes with its object."""
    bound = pickle.loads(pickle.dumps(sample_tools.Counter(5).add))

    assert pickle.loads(pickle.dumps(sample_tools.plus)) is sample_tools.plus
    assert copy.deepcopy(sample_tools.plus) is sample_tools.plus
    assert call(bound, {"step": 2}).value == 7


class Shop:
    """A class whose methods are tools."""

    name = "corner"

    def __init__(self, prices):
        self.prices = prices

    @FunctionTool
    def price(self, item: str, discount: float = 0.0) -> float:
        """Look a price up.

        Args:
            item: The thing.
            discount: A share of 1.
        """
        return self.prices[item] * (1 - discount)

    @FunctionTool(name="about")
    @classmethod
    def describe(cls, loud: bool = False) -> str:
        """Describe the shop."""
        return cls.name.upper() if loud else cls.name

    @FunctionTool
    @staticmethod
    def opening(self: str) -> str:
        """Tell when; the parameter is really called self."""
        return self

    @staticmethod
    @FunctionTool
    def closing(day: str) -> str:
        """Tell when, with the decorators the other way round."""
        return f"{day}: six"

    @staticmethod
    @FunctionTool
    def greeting() -> str:
        """Greet."""
        return "hello"

    @FunctionTool
    def owner(self: "Shop", loud: bool = False) -> str:
        """Tell who owns the shop."""
        return type(self).__name__

    @FunctionTool
    async def later(self, item: str, context: Context) -> str:
        """Order a thing."""
        context.progress(item)
        return f"{item}:{context.call.id}"


def test_methods_bind():
    """In a class body a tool binds like a method, and self is hidden from the schema."""
    shop = Shop({"tea": 2.0})

    assert shop.price("tea", 0.5) == 1.0
    assert call(shop.price, {"item": "tea"}).value == 2.0
    assert list(shop.price.schema.parameters["properties"]) == ["item", "discount"]
    assert list(Shop.price.schema.parameters["properties"]) == ["item", "discount"]
    assert shop.price.schema.parameters["properties"]["item"]["description"] == "The thing."
    assert call(shop.later, {"item": "tea"}).value == "tea:c1"
    assert call(Shop({"tea": 9.0}).price, {"item": "tea"}).value == 9.0


def test_class_and_static_methods():
    """Class methods bind the class; a static method keeps even a parameter called self."""
    assert call(Shop.describe, {"loud": True}).value == "CORNER"
    assert call(Shop({}).describe).value == "corner"
    assert call(Shop({}).opening, {"self": "nine"}).value == "nine"


@pytest.mark.parametrize("of", [Shop, Shop({})], ids=["class", "object"])
def test_a_static_method_above_the_tool_keeps_its_first_parameter(of):
    """The order of `@staticmethod` and `@FunctionTool` does not matter: what has an annotation and is not called self is an argument."""
    assert list(of.closing.schema.parameters["properties"]) == ["day"]
    assert call(of.closing, {"day": "Monday"}).value == of.closing("Monday") == "Monday: six"
    assert call(of.greeting).value == of.greeting() == "hello"


def test_an_annotated_self_is_hidden():
    """A self with an annotation is still the object."""
    assert list(Shop.owner.schema.parameters["properties"]) == ["loud"]
    assert call(Shop({}).owner).value == "Shop"


def test_guardrails_added_through_an_instance_hold_for_the_class():
    """A bound tool is a view: what is added to it is not lost."""

    class Box:
        @FunctionTool
        def open(self, x: int):
            return x

    seen = []
    Box().open.add_input_guardrails([lambda c, x: seen.append(c.arguments["x"])])
    call(Box().open, {"x": 3})

    assert seen == [3]


# ---- anything callable


class Caller:
    """An object that can be called."""

    def __call__(self, x: int, y: int = 2) -> int:
        """Multiply.

        Args:
            x: The first.
        """
        return x * y


class AsyncCaller:
    async def __call__(self, x: int) -> int:
        return x + 1


def three(a: int, b: int, c: int = 3) -> tuple[int, int, int]:
    return (a, b, c)


def test_callable_objects_and_builtins():
    """Instances with `__call__`, sync and async, are tools with a name from their class."""
    tool = FunctionTool(Caller())

    assert (tool.name, tool.description) == ("caller", "Multiply.")
    assert tool.schema.parameters["properties"]["x"]["description"] == "The first."
    assert call(tool, {"x": 4}).value == 8
    assert FunctionTool(AsyncCaller()).name == "async_caller"
    assert call(FunctionTool(AsyncCaller()), {"x": 4}).value == 5
    assert call(FunctionTool(Caller().__call__, name="bound"), {"x": 5}).value == 10


def test_partials():
    """What a partial fixed, by position or by keyword, is neither in the schema nor settable."""
    by_position = FunctionTool(functools.partial(three, 1))
    by_keyword = FunctionTool(functools.partial(three, c=9))

    assert by_position.name == "three"
    assert call(by_position, {"b": 2}).value == (1, 2, 3)
    assert call(by_keyword, {"a": 1, "b": 2}).value == (1, 2, 9)
    assert list(by_keyword.schema.parameters["properties"]) == ["a", "b"]
    assert call(by_keyword, {"a": 1, "b": 2, "c": 4}).is_error


def test_a_decorated_function_has_the_wrapped_signature():
    """`functools.wraps` and a signature that lies: the signature is what is published and delivered."""

    def twice(func):
        @functools.wraps(func)
        def wrapper(*args, **kwargs):
            return [func(*args, **kwargs)] * 2

        return wrapper

    @FunctionTool
    @twice
    def hello(name: str, mark: str = "!") -> str:
        """Greet."""
        return name + mark

    def liar(**values):
        return values

    liar.__signature__ = inspect.Signature(
        [inspect.Parameter("x", inspect.Parameter.KEYWORD_ONLY, annotation=int, default=4)]
    )

    assert list(hello.schema.parameters["properties"]) == ["name", "mark"]
    assert call(hello, {"name": "Al"}).value == ["Al!", "Al!"]
    assert received(liar, "{}") == {"x": 4}


def test_a_decorator_that_is_a_class_keeps_the_docstring():
    """An instance that wraps a function has that function's name, docstring and arguments."""

    class Logged:
        """What no model should read."""

        def __init__(self, func):
            functools.update_wrapper(self, func)
            self.func = func

        def __call__(self, *args, **kwargs):
            return self.func(*args, **kwargs)

    @FunctionTool
    @Logged
    def add(a: int, b: int = 2) -> int:
        """Add up.

        Args:
            a: The first.
        """
        return a + b

    assert (add.name, add.description) == ("add", "Add up.")
    assert add.schema.parameters["properties"]["a"] == {**INT, "description": "The first."}
    assert call(add, {"a": 1}).value == 3


def test_a_sync_function_that_returns_an_awaitable_is_awaited():
    """A lambda over a coroutine function works as one."""

    async def inner(x):
        return x + 1

    assert received(lambda x: inner(x), {"x": 1}, name="outer") == 2


def test_an_executor_runs_the_body():
    """The body runs where the executor runs it."""
    used = []

    async def spy(func, *args, **kwargs):
        used.append(func.__name__)
        return await inline(func, *args, **kwargs)

    assert call(FunctionTool(three, executor=spy), {"a": 1, "b": 2}).value == (1, 2, 3)
    assert used == ["three"]


@pytest.mark.parametrize("executor", ["threads", 0, object()])
def test_what_is_no_executor_is_refused_at_definition(executor):
    """Something that cannot be called is no executor; the error names the function, its file and line."""
    said = rf"three.*test_function_tool\.py:\d+.*executor.*{type(executor).__name__}"
    with pytest.raises(DefinitionError, match=said):
        FunctionTool(three, executor=executor)


def test_the_class_of_an_executor_is_no_executor():
    """It failed in each call; now the definition says to make one."""

    class Pool:
        async def __call__(self, func, *args, **kwargs):
            return func(*args, **kwargs)

    said = r"three.*: an executor is an object, not a class: Pool\(\.\.\.\)"
    with pytest.raises(DefinitionError, match=said):
        FunctionTool(three, executor=Pool)
    assert call(FunctionTool(three, executor=Pool()), {"a": 1, "b": 2}).success


# ---- generators


def test_each_yield_is_progress_and_the_last_the_value():
    """Sync and async generators, written or returned: each yield is one `tool:progress` of the call; what the generator returns beats the last yield."""

    def counting(n: int) -> Iterator[int]:
        yield from range(n)

    def returning(n: int):
        yield from range(n)
        return "done"

    async def acounting(n: int) -> AsyncIterator[int]:
        for i in range(n):
            yield i

    def handed(n: int):
        return (i for i in range(n))

    async def handed_by_a_coroutine(n: int):
        return returning(n)

    async def async_handed_by_a_coroutine(n: int):
        return acounting(n)

    for func, value in (
        *((counting, 2), (returning, "done"), (acounting, 2), (handed, 2)),
        *((handed_by_a_coroutine, "done"), (async_handed_by_a_coroutine, 2)),
    ):
        context, log = heard()
        result = call(FunctionTool(func), {"n": 3}, context)

        assert result.value == value
        assert [(e.kind, e.call_id, e.data) for e in log.events] == [
            ("tool:progress", "c1", {"value": i}) for i in range(3)
        ]
    assert received(counting, {"n": 0}) is None


def test_a_result_that_a_generator_ends_with_is_the_result():
    """The last yield, and what a generator returns, is taken as it is when it is a `ToolResult`."""

    def yielding():
        yield 1
        yield ToolResult.failed("no", type="nope")

    def returning():
        yield 1
        return ToolResult.failed("no", type="nope")

    async def ayielding():
        yield ToolResult.failed("no", type="nope")

    for func in (yielding, returning, ayielding):
        assert call(FunctionTool(func)).error == ToolFailure(type="nope", message="no")


def test_an_endless_generator_is_closed():
    """After 10,000 yields a generator, written or returned, is closed with a `ToolError`."""
    closed = []

    def endless():
        try:
            while True:
                yield 1
        finally:
            closed.append("sync")

    async def aendless():
        try:
            while True:
                yield 1
        finally:
            closed.append("async")

    def handing():
        return endless()

    async def handing_async():
        return aendless()

    for func in (endless, aendless, handing, handing_async):
        context, log = heard()
        said = "The tool yielded 10000 times and was closed."
        assert call(FunctionTool(func), {}, context).error == ToolFailure(
            type="ToolError", message=said
        )
        assert len(log.events) == 10_000
    assert closed == ["sync", "async", "sync", "async"]


# ---- every kind of parameter


def test_positional_only_and_star_arguments():
    """Positional-only parameters, defaults before `*args`, and `*args` itself arrive by position."""

    def everything(a: int, b: int = 2, /, c: int = 3, *args: int, d: int, e: int = 5, **rest: str):
        return (a, b, c, args, d, e, rest)

    assert received(everything, {"a": 1, "d": 4}) == (1, 2, 3, (), 4, 5, {})
    all_sent = {"a": 1, "d": 4, "c": 9, "args": [7, 8], "z": "q"}
    assert received(everything, all_sent) == (1, 2, 9, (7, 8), 4, 5, {"z": "q"})
    assert received(everything, {"a": 1, "d": 4, "args": [7]}) == (1, 2, 3, (7,), 4, 5, {})
    plain = FunctionTool(everything).schema.parameters
    assert plain["properties"]["args"] == array(INT)
    assert plain["additionalProperties"] == STR
    assert plain["required"] == ["a", "d"]


class Options(TypedDict, total=False):
    depth: Required[int]
    label: str


class MoreOptions(Options):
    note: NotRequired[Annotated[str, "A note."]]


def test_unpacked_typed_dicts():
    """`**kwargs: Unpack[TypedDict]` stands beside named parameters, inherited keys included."""

    def go(x: int, **options: Unpack[MoreOptions]):
        return (x, options)

    assert received(go, {"x": 1, "depth": 2, "note": "n"}) == (1, {"depth": 2, "note": "n"})
    assert call(FunctionTool(go), {"x": 1}).is_error
    assert call(FunctionTool(go), {"x": 1, "depth": 1, "other": 1}).is_error
    note = FunctionTool(go).schema.parameters["properties"]["note"]
    assert note == {**STR, "description": "A note."}
    assert received(go, {"x": 1, "depth": 2, "note": None}) == (1, {"depth": 2})


def test_any_parameter_name():
    """No name is reserved."""

    # fmt: off
    def odd(schema, json, model_config, _x, copy, self, args, kwargs, call, context, values, func, from_, config):
        return [*locals().values()]
    # fmt: on

    names = [*inspect.signature(odd).parameters]
    odd.__annotations__ = dict.fromkeys(names, int)

    assert received(odd, {name: i for i, name in enumerate(names)}) == [*range(14)]


def test_defaults():
    """Sentinels and infinities stay what they are, factories are asked, a mutable default is copied for each call."""
    sentinel = object()

    def keep(
        x: Any = sentinel,
        y: float = float("inf"),
        z: list[int] = [],
        f: Annotated[list, Field(default_factory=lambda: [5])] = ...,
        g: int = Field(7, description="G."),
    ):
        z.append(1)
        return (x is sentinel, y, z, f, g)

    def field_only(
        f: Annotated[list[int], Field(default_factory=lambda: [5])],
        g: int = Field(7, description="G.", ge=1),
    ):
        f.append(6)
        return (f, g)

    tool = FunctionTool(keep)

    assert call(tool).value[:3] == (True, float("inf"), [1])
    assert call(tool).value[2] == [1]
    assert received(field_only, "{}") == ([5, 6], 7)
    assert received(field_only, "{}") == ([5, 6], 7)
    assert call(FunctionTool(field_only), {"g": 0}).is_error
    assert tool.schema.parameters["properties"]["x"].get("default", "none") == "none"
    assert tool.schema.parameters["properties"]["y"].get("default", "none") == "none"
    published = FunctionTool(field_only).schema.parameters["properties"]["g"]
    assert published == {**INT, "minimum": 1, "default": 7, "description": "G."}


def test_a_default_that_json_does_not_give_back():
    """Where a guardrail replaces another argument, the body has the same default as without it."""

    def keep(a: int, size=(1, 2), since: str | datetime.date = datetime.date(2027, 1, 2)):
        return (a, size, since)

    def other(call, context):
        return dataclasses.replace(call, arguments={**call.arguments, "a": 2})

    tool = FunctionTool(keep, input_guardrails=[other])
    assert call(tool, {"a": 1}).value == (2, (1, 2), datetime.date(2027, 1, 2))
    assert call(tool, {"a": 1, "size": 3, "since": "x"}).value == (2, 3, "x")


def test_a_factory_that_takes_the_other_arguments():
    """Only a model has such defaults, so a parameter's is refused before any call."""

    def double(a: int, b: int = Field(default_factory=lambda data: data["a"] * 2)): ...

    with pytest.raises(DefinitionError, match="'b': its default factory takes other arguments"):
        FunctionTool(double)


def test_a_default_that_holds_something_mutable_is_copied_for_each_call():
    """What one call does to a list inside of a tuple, another one must not see."""

    def keep(pair: tuple[list[int], int] = ([], 0)):
        pair[0].append(1)
        return pair

    tool = FunctionTool(keep)
    assert [call(tool).value for _ in range(2)] == [([1], 0), ([1], 0)]


def test_a_default_whose_hash_raises_anything_is_copied():
    """A class may refuse to be hashed in its own way. Its error left the decorator."""

    class Matrix:
        def __hash__(self):
            raise ValueError("too large")

    def keep(x: Any = Matrix()):  # noqa: B008
        return x

    first, second = (call(FunctionTool(keep)).value for _ in range(2))
    assert type(first) is type(second) is Matrix and first is not second


# ---- every type

T = TypeVar("T")
UserId = NewType("UserId", int)
Names = TypeAliasType("Names", list[str])
Tree = TypeAliasType("Tree", "dict[str, Tree] | int")


class Suit(enum.Enum):
    HEARTS = "h"


class Pair(NamedTuple):
    left: int
    right: str = "r"


class Node(BaseModel):
    value: int
    children: "list[Node]" = []


class Box(BaseModel, Generic[T]):
    content: T


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]
    barks: int = 1


class Aliased(BaseModel):
    model_config = ConfigDict(extra="ignore")
    from_: str = Field(alias="from")

    @field_validator("from_")
    @classmethod
    def upper(cls, value):
        return value.upper()


class StrictModel(BaseModel):
    model_config = ConfigDict(strict=True)
    n: int
    day: datetime.date


@dataclasses.dataclass
class Record:
    a: int
    b: list[int] = dataclasses.field(default_factory=list)
    c: int = dataclasses.field(init=False, default=9)


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


Numbers = RootModel[list[int]]
ID = uuid.UUID("12345678-1234-5678-1234-567812345678")


@pytest.mark.parametrize(
    ("annotation", "sent", "expected"),
    [
        (Suit, "h", Suit.HEARTS),
        (Movie, {"title": "M"}, {"title": "M"}),
        (Record, {"a": 1}, Record(a=1)),
        (Node, {"value": 1, "children": [{"value": 2}]}, Node(value=1, children=[Node(value=2)])),
        (Optional[Box[Node]], {"content": {"value": 3}}, Box[Node](content=Node(value=3))),
        (Box[int], {"content": 3}, Box[int](content=3)),
        (Annotated[Union[Cat, Dog], Field(discriminator="kind")], {"kind": "dog"}, Dog(kind="dog")),
        (Union[Cat, Dog, None], {"kind": "cat"}, Cat(kind="cat")),
        (datetime.date, "2026-01-02", datetime.date(2026, 1, 2)),
        (datetime.datetime, "2026-01-02T03:04:05Z", datetime.datetime(2026, 1, 2, 3, 4, 5, 0, UTC)),
        (uuid.UUID, str(ID), ID),
        (decimal.Decimal, "1.50", decimal.Decimal("1.50")),
        (pathlib.Path, "a/b", pathlib.Path("a/b")),
        (bytes, "ab", b"ab"),
        (set[int], [1, 1], {1}),
        (frozenset[str], ["a"], frozenset({"a"})),
        (tuple[int, str], [1, "a"], (1, "a")),
        (tuple[int, ...], [1, 2], (1, 2)),
        (Pair, [1, "x"], Pair(1, "x")),
        (UserId, 5, 5),
        (Names, ["a"], ["a"]),
        (Tree, {"a": {"b": 1}}, {"a": {"b": 1}}),
        (T, "anything", "anything"),
        (Aliased, {"from": "x", "other": 1}, Aliased(**{"from": "x"})),
        (
            StrictModel,
            {"n": 1, "day": "2026-01-02"},
            StrictModel(n=1, day=datetime.date(2026, 1, 2)),
        ),
        (Numbers, [1, 2], Numbers([1, 2])),
        (Literal[Suit.HEARTS, "x"], "h", Suit.HEARTS),
        (list[Literal[Suit.HEARTS] | None], ["h", None], [Suit.HEARTS, None]),
        (Annotated[int, Field(ge=1), Doc("Doc.")], 3, 3),
        pytest.param(
            Annotated[
                list[int], BeforeValidator(lambda v: v.split(",") if isinstance(v, str) else v)
            ],
            "1,2",
            [1, 2],
            id="a check",
        ),
        (dict[str, list[Record]], {"k": [{"a": 1, "b": [2]}]}, {"k": [Record(1, [2])]}),
        (typing.Hashable, "h", "h"),
    ],
    ids=str,
)
def test_the_value_is_what_the_annotation_says(annotation, sent, expected):
    """Every type that pydantic knows arrives as its own kind of value, as text and as a Mapping."""
    for arguments in (json.dumps({"x": sent}), {"x": sent}):
        value = call(taking(annotation), arguments).value
        assert value == expected and type(value) is type(expected)


def test_guardrails_see_a_text_that_a_validator_of_the_author_takes():
    """The body gets what the validator makes of the text, so guardrails see the text and not a list that is in it."""

    def split(sent):
        return sent.split(",") if isinstance(sent, str) else sent

    def take(x: Annotated[list[str], BeforeValidator(split)], y: list[str]):
        return x

    seen = []
    tool = FunctionTool(take, input_guardrails=[lambda call, context: seen.append(call.arguments)])

    assert call(tool, {"x": '["a,b,a"]', "y": []}).value == ['["a', "b", 'a"]']
    assert call(tool, {"x": "[a,b", "y": []}).value == ["[a", "b"]
    assert [arguments["x"] for arguments in seen] == ['["a,b,a"]', "[a,b"]
    assert call(tool, {"x": '["a,b"]', "y": '["c"]'}).value == ["a,b"]
    assert seen[2] == {"x": ["a,b"], "y": ["c"]}


@pytest.mark.parametrize(
    ("annotation", "sent"),
    [
        (StrictInt, "1"),
        (StrictModel, {"n": "1", "day": "2026-01-02"}),
        (list[StrictModel], [{"n": "1", "day": "2026-01-02"}]),
    ],
    ids=str,
)
def test_a_type_that_is_strict_itself_stays_strict(annotation, sent):
    """What reads a text as a number reads none for a type whose author wants no such reading."""

    @FunctionTool
    def take(x: annotation, lax: int): ...

    answer = call(take, {"x": sent, "lax": "2"})

    assert answer.error.type == "ArgumentError"
    assert "an integer" in answer.text and "lax" not in answer.text


@pytest.mark.parametrize("sent", ["HEARTS", ["h"], 1, None], ids=str)
def test_a_member_of_an_enum_in_a_literal_is_named_by_its_value(sent):
    """The choices in a problem are what may be sent, and nothing else is a choice."""
    said = "Invalid arguments. x: expected one of the choices (choices: h, x)"

    assert call(taking(Literal[Suit.HEARTS, "x"]), {"x": sent}).text == said


@pytest.mark.skipif(sys.version_info < (3, 12), reason="PEP 695 needs Python 3.12")
def test_pep_695():
    """Type parameters and `type` aliases resolve, with string annotations too."""
    space: dict[str, Any] = {"FunctionTool": FunctionTool}
    exec(
        "type Ids = list[int]\ndef first[T: int](x: T, y: 'T', ids: Ids) -> T:\n    return (x, y, ids)",
        space,
    )

    assert received(space["first"], {"x": "1", "y": 2, "ids": ["3"]}) == (1, 2, [3])


@pytest.mark.skipif(sys.version_info < (3, 12), reason="PEP 695 needs Python 3.12")
def test_a_type_alias_of_a_class_that_is_defined_later():
    """Python evaluates a `type` alias late, so the tool does, too."""
    space: dict[str, Any] = {"FunctionTool": FunctionTool, "BaseModel": BaseModel}
    exec(
        """
type Names = list[Later]
type Lost = Nowhere
@FunctionTool
def show(names: Names): return [each.name for each in names]
@FunctionTool
def lose(**lost: Lost): return lost
class Later(BaseModel): name: str
""",
        space,
    )

    assert call(space["show"], {"names": [{"name": "Ada"}]}).value == ["Ada"]
    with pytest.raises(DefinitionError, match=r"lose .* parameter 'lost': name 'Nowhere'"):
        Toolset([space["lose"]])


class LateAlias:
    """An alias that is evaluated late, as those of Python 3.12 are. Older versions have none."""

    @property
    def __value__(self):
        raise NameError("name 'Nowhere' is not defined")


def test_a_type_alias_of_a_class_that_is_never_defined():
    """The tool says so when it is first needed, with its line."""

    def lose(lost: LateAlias()): ...

    tool = FunctionTool(lose)
    with pytest.raises(DefinitionError, match=r"lose .*:\d+\): .*parameter 'lost': name 'Nowhere'"):
        Toolset([tool])


City = TypeAliasType("City", Annotated[str, "The name of a city."])


def test_the_text_of_a_type_alias():
    """The text in a type alias describes each parameter of it that has none of its own."""

    def go(
        a: City,
        b: Annotated[City, "Where to."],
        c: Annotated[City, Field(min_length=2)],
        d: Annotated[City, Field(description="Home.")],
    ): ...

    properties = FunctionTool(go).schema.parameters["properties"]
    texts = [part["description"] for part in properties.values()]
    assert texts == ["The name of a city.", "Where to.", "The name of a city.", "Home."]


def test_two_classes_of_one_name():
    """Two different classes with the same name are two definitions."""

    def make(kind):
        class Thing(BaseModel):
            value: kind

        return Thing

    first, second = make(int), make(str)

    def take(a: first, b: second):  # type: ignore[valid-type]
        return (a.value, b.value)

    assert received(take, {"a": {"value": 1}, "b": {"value": "x"}}) == (1, "x")
    assert len(FunctionTool(take).schema.parameters["$defs"]) == 2


# ---- names that exist later


def test_two_threads_may_be_the_first_to_use_a_tool(monkeypatch):
    """While one of them compiles a late annotation, the other finds the tool as it was, and compiles it, too."""
    seen = []

    def other_first(*options):
        if not seen:
            seen.append({})
            seen[:] = [tool.bind({"a": 1}).values]
        return FunctionBinder(*options)

    def f(a: "Late", b: Annotated[int, Field(default=3)]) -> str:
        return f"{a} {b}"

    tool = FunctionTool(f)
    Late = int  # noqa: N806, F841
    monkeypatch.setattr(function_tool, "FunctionBinder", other_first)
    assert (call(tool, {"a": 2}).text, seen) == ("2 3", [{"a": 1}])


def test_forward_references_resolve_when_the_schema_is_needed():
    """A name defined further down the module is found when the tool is first used."""
    assert call(sample_tools.area, {"shape": {"width": 2, "height": 3}}).value == 6.0


def test_local_annotations_resolve():
    """String annotations of a function inside a function see its local names, before and after."""

    class Before(BaseModel):
        x: int

    @FunctionTool
    def one(a: "Before"):
        return a

    @FunctionTool
    def two(a: "list[After]"):
        return a

    class After(BaseModel):
        y: int

    assert call(one, {"a": {"x": 1}}).value == Before(x=1)
    assert call(two, {"a": [{"y": 1}]}).value == [After(y=1)]


@pytest.mark.parametrize("kind", ["dataclass", "tuple", "model", "rest", "list"])
def test_local_classes_may_use_local_names(kind):
    """Postponed annotations of a class inside a function see its local names, also later, at any place."""

    @dataclasses.dataclass
    class Row:
        cells: "list[Cell]"

    class Pair(NamedTuple):
        cell: "Cell"

    class Page(BaseModel):
        cell: "Cell"

    def rows(x: Row):
        return x.cells[0]

    def pairs(x: Pair):
        return x.cell

    def pages(x: Page | None = None):
        return x.cell

    def rest(**x: Row):
        return x["x"].cells[0]

    def lists(*x: Row):
        return x[0].cells[0]

    funcs = {"dataclass": rows, "tuple": pairs, "model": pages, "rest": rest, "list": lists}
    tool = FunctionTool(funcs[kind])

    class Cell(BaseModel):
        n: int

    cell = {"n": 1}
    sent = {"dataclass": {"cells": [cell]}, "tuple": [cell], "model": {"cell": cell}}
    sent |= {"rest": sent["dataclass"], "list": [sent["dataclass"]]}
    assert call(tool, {"x": sent[kind]}).value == Cell(n=1)
    assert "Cell" in tool.schema.plain["$defs"]


def test_a_tool_that_waits_for_a_name_takes_the_whole_road_at_its_first_call():
    """Its first call meets guardrails, which may replace it, and a method that waits binds its object."""

    def one_more(call, context):
        return dataclasses.replace(call, arguments={"a": {"z": call.arguments["a"]["z"] + 1}})

    class Shop:
        @FunctionTool(input_guardrails=[one_more])
        def sell(self, a: "Late") -> int:
            return a.z

    class Late(BaseModel):
        z: int

    tool = Shop().sell

    assert [call(tool, {"a": {"z": 1}}).value for _ in range(2)] == [2, 2]


def test_run_delivers_what_the_function_emits():
    """`run` itself takes canonical arguments, injects the context, and every listener has heard by its end."""

    @FunctionTool
    def find(name: str, context: Context) -> str:
        context.progress("looking")
        return name

    context, log = heard()
    sent = ToolCall(name="find", arguments={"name": "x"})

    assert asyncio.run(find.run(sent, context)).value == "x"
    assert log.kinds == ["tool:progress"]
    assert asyncio.run(find.run(sent, Context())).value == "x"


def test_run_waits_for_slow_listeners():
    """The events of an async function are delivered on the loop, before `run` returns."""

    async def find(context: Context) -> str:
        context.progress("looking")
        return "found"

    async def listener(event):
        await asyncio.sleep(0)
        told.append(event.kind)

    async def run():
        await FunctionTool(find).run(ToolCall(name="find"), context)
        return [*told]

    told = []
    context = Context()
    context.subscribe(listener)
    assert asyncio.run(run()) == ["tool:progress"]


if typing.TYPE_CHECKING:
    from somewhere import OnlyForTypes


def test_a_name_for_type_checkers_only_is_refused_by_name():
    """A type imported under TYPE_CHECKING is refused, with its name and the remedy, where the schema is needed."""

    @FunctionTool
    def take(x: "OnlyForTypes"):
        return x

    said = (
        r"take \(.*test_function_tool.py:\d+\): an annotation cannot be resolved: .*OnlyForTypes.*\."
        r" Import the name at run time \(not under TYPE_CHECKING\), or define it before the tool is"
        " first used$"
    )
    with pytest.raises(DefinitionError, match=said):
        Toolset([take])


def test_an_unresolvable_return_annotation_breaks_nothing():
    """What a function returns never keeps it from being a tool."""

    @FunctionTool
    def take(x: int) -> "Nowhere":  # noqa: F821
        return x

    def strange(x: int) -> lambda: 0:  # type: ignore[valid-type]
        return x

    assert call(take, {"x": 1}).value == 1
    assert take.schema.output is None
    assert received(strange, {"x": 2}) == 2


# ---- hidden parameters


def test_hidden_parameters_are_injected():
    """`Context`, `ToolCall` and `Inject` are absent from the schema and filled in."""

    async def find(ctx):
        return ctx.deps["user"]

    @FunctionTool
    def go(
        x: int,
        ctx: Optional[Context] = None,
        *,
        this: ToolCall,
        user: Annotated[str, Inject(find)],
        upper: Annotated[str, Inject(lambda ctx: ctx.deps["user"].upper())],
    ):
        return (x, ctx.deps is deps, ctx.call.id, this.id, dict(this.arguments), user, upper)

    deps = {"user": "ada"}

    assert list(go.schema.parameters["properties"]) == ["x"]
    assert call(go, {"x": 1}, Context(deps)).value == (1, True, "c1", "c1", {"x": 1}, "ada", "ADA")


@pytest.mark.parametrize("name", ["ctx", "this", "user"])
def test_hidden_parameters_cannot_be_set_by_the_model(name):
    """A call that names one is refused."""

    @FunctionTool
    def go(ctx: Context, this: ToolCall, user: Annotated[str, Inject(lambda ctx: "ada")]):
        return "ran"

    assert call(go, {name: "mallory"}).error.type == "ArgumentError"
    assert call(go).value == "ran"


@pytest.mark.parametrize(
    "wrap",
    [
        lambda tool: FunctionTool(tool, name="pay_now"),
        lambda tool: FunctionTool(functools.partial(tool, amount=1)),
        lambda tool: FunctionTool(WrapperTool(tool)),
        lambda tool: SchemaTool("pay_now", "Pay.", {}, tool),
    ],
    ids=["tool", "partial", "wrapper", "handler"],
)
def test_a_tool_is_no_function_for_another_tool(wrap):
    """It would be called as a function, so its guardrails and approvals would be lost in silence."""

    def pay(amount: int) -> str:
        return "paid"

    tool = FunctionTool(pay, input_guardrails=[require_approval()])
    with pytest.raises(DefinitionError, match=r"(pay|pay_now) \(.*is a tool.*guardrails"):
        wrap(tool)
    assert call(FunctionTool(tool.func), {"amount": 1}).text == "paid"


User = TypeAliasType("User", Annotated[str, Inject(lambda context: "ada")])
Own = TypeAliasType("Own", Context)


def test_a_type_alias_of_what_is_injected():
    """The mark may stand behind a name, and behind more marks."""

    def go(x: int, user: User, again: Annotated[User, "About it."], own: Own) -> str:
        return f"{x} {user} {again} {own.deps}"

    tool = FunctionTool(go)
    assert call(tool, {"x": 1}, Context("deps")).value == "1 ada ada deps"
    assert list(tool.schema.parameters["properties"]) == ["x"]
    assert call(tool, {"x": 1, "user": "eve"}).error.type == "ArgumentError"


def test_a_mark_inside_of_a_type_is_refused():
    """Nothing is injected there, so a model would set the value that the author wanted to hide."""

    @dataclasses.dataclass
    class Order:
        user: Annotated[str, Inject(lambda context: "ada")] = ""

    class Keys(TypedDict):
        user: Annotated[str, Inject(lambda context: "ada")]

    def inside(order: Order): ...
    def listed(users: list[Annotated[str, Inject(lambda context: "ada")]]): ...
    def unpacked(**keys: Unpack[Keys]): ...

    for func in (inside, listed, unpacked):
        with pytest.raises(DefinitionError, match="nothing inside of one is injected"):
            FunctionTool(func)
    with pytest.raises(DefinitionError, match="nothing inside of one is injected"):

        class Send(ToolModel):
            user: Annotated[str, Inject(lambda context: "ada")]


def test_a_mark_as_a_default_is_refused():
    """Nothing is injected there either, and a model could set the value."""

    def default(user: str = Inject(lambda context: "ada")): ...  # type: ignore[assignment]

    def bare(user: str = Inject): ...  # type: ignore[assignment]

    class Send(ToolModel):
        user: str = Inject(lambda context: "ada")  # type: ignore[assignment]

    for make in (lambda: FunctionTool(default), lambda: FunctionTool(bare), Send.tool):
        with pytest.raises(DefinitionError, match="'user': Inject belongs in the annotation"):
            make()


def test_a_provider_is_asked_once_a_call():
    """An `Inject` provider runs once for each call, and not when the arguments are refused."""
    asked = []

    @FunctionTool
    async def go(x: int, a: Annotated[int, Inject(lambda ctx: asked.append(1) or len(asked))]):
        return a

    call(go, {"x": "no"})
    values = [call(go, {"x": 1}).value for _ in range(2)]

    assert values == [1, 2]


# ---- descriptions and names


def test_an_explicit_annotation_beats_the_docstring():
    """Text in `Annotated`, `Field` or `Doc` wins; the rest comes from the docstring, which is not repeated."""

    @FunctionTool
    def go(
        a: Annotated[int, "From text."],
        b: Annotated[int, Field(description="From field.")],
        c: Annotated[int, Doc("From doc.")],
        d: int,
    ):
        """Go somewhere.

        Args:
            a: no
            b: no
            c: no
            d: From docstring.
        """

    parts = go.schema.parameters["properties"].values()
    said = ["From text.", "From field.", "From doc.", "From docstring."]

    assert [part["description"] for part in parts] == said
    assert go.description == "Go somewhere."


@pytest.mark.parametrize(("many", "rest"), [("Many.", Doc("Rest.")), (Doc("Many."), "Rest.")])
def test_an_explicit_annotation_of_many_arguments_beats_the_docstring(many, rest):
    """The text stands at the list of `*args`, and at the values of `**kwargs`."""

    @FunctionTool
    def go(*many: Annotated[int, many], **rest: Annotated[int, rest]):
        """Go somewhere.

        Args:
            *many: no
            **rest: no
        """

    schema = go.schema.parameters
    found = [schema["properties"]["many"], schema["additionalProperties"]]
    assert [part["description"] for part in found] == ["Many.", "Rest."]


def test_an_explicit_annotation_beats_the_text_of_a_class():
    """A parameter, `*args` and `**kwargs` have the text of their annotation, not the docstring of its class."""

    class Place(BaseModel):
        """No."""

        name: str

    @FunctionTool
    def go(
        to: Annotated[Place, "To."],
        *many: Annotated[Place, "Many."],
        **rest: Annotated[Place, "Rest."],
    ):
        """Go somewhere."""

    schema = go.schema.parameters
    found = [*schema["properties"].values(), schema["additionalProperties"]]
    assert [part["description"] for part in found] == ["To.", "Many.", "Rest."]


@pytest.mark.parametrize("name", ["", "x" * 65])
def test_names(name):
    """An inferred name outside the portable characters and an empty explicit one are refused; any other is the author's choice."""
    with pytest.raises(DefinitionError):
        FunctionTool(lambda: 0)
    with pytest.raises(DefinitionError):
        FunctionTool(three, name="")
    assert FunctionTool(three, name="math.sum ünd " + "x" * 65).name.startswith("math.sum")


def test_a_definition_error_names_function_file_and_line():
    """A bad annotation is refused at the decorator, with the function, its file and line, and the parameter."""
    with pytest.raises(DefinitionError, match=r"broken.*test_function_tool\.py:\d+.*'handle'"):

        @FunctionTool
        def broken(x: int, handle: typing.IO): ...

    with pytest.raises(DefinitionError, match=r"slow.*timeout"):

        @FunctionTool(timeout=0)
        def slow(): ...

    with pytest.raises(DefinitionError):
        FunctionTool(42)
    with pytest.raises(DefinitionError, match="Inject|wrap|signature|schema"):
        FunctionTool(lambda f: f, name="f").func and FunctionTool(_takes_module, name="g")


def _takes_module(m: type(sys)): ...


# ---- results


def test_stop_iteration_of_a_sync_function_is_a_failure():
    """A StopIteration neither hangs nor leaves."""

    @FunctionTool
    def stop():
        return next(iter(()))

    assert call(stop).error.type == "RuntimeError"


def test_output_schema():
    """The return annotation gives the schema of the value; its text is the docstring's."""

    @FunctionTool
    def go() -> list[int]:
        """Go.

        Returns:
            The numbers.
        """

    def nothing() -> None: ...

    def content() -> ToolResult: ...

    def lazy() -> Iterator[int]:
        yield 1

    assert go.schema.output == array(INT, description="The numbers.")
    assert [FunctionTool(f).schema.output for f in (nothing, content, lazy)] == [None, None, None]


# ---- strict


class Deep(BaseModel):
    label: str = "d"
    weights: dict[str, int] = {}
    pair: tuple[int, str] = (1, "a")


def strict_one(
    query: str,
    limit: int = 10,
    maybe: int | None = 5,
    deep: Deep = Deep(),
    tags: dict[str, int] = {},
    spot: tuple[int, str] = (0, "z"),
    what: Any = None,
    **rest: int,
):
    return (query, limit, maybe, deep, tags, spot, what, rest)


def test_strict_loses_nothing():
    """Every optional argument is published as required, and what the model then sends arrives as if it had been left out or said plainly."""
    from functool.dialects._subset import violations

    tool = FunctionTool(strict_one, strict=True)
    published = tool.schema.parameters
    sent = {
        "query": "q",
        "limit": None,
        "maybe": None,
        "deep": {
            "label": None,
            "weights": [{"key": "a", "value": 1}],
            "pair": {"item_0": 4, "item_1": "b"},
        },
        "tags": [{"key": "t", "value": 2}],
        "spot": {"item_0": 1, "item_1": "y"},
        "what": "w",
        "rest": [{"key": "r", "value": 3}],
    }

    assert tool.strict is True
    assert sorted(published["required"]) == sorted(published["properties"])
    assert violations(published) == []
    deep = Deep(weights={"a": 1}, pair=(4, "b"))
    assert call(tool, sent).value == ("q", 10, None, deep, {"t": 2}, (1, "y"), "w", {"r": 3})
    plain = call(tool, {"query": "q", "tags": {"t": 2}, "r": 3}).value
    assert plain == ("q", 10, 5, Deep(), {"t": 2}, (0, "z"), None, {"r": 3})


def test_strict_still_validates():
    """Keywords that the subset lacks stay enforced."""

    @FunctionTool(strict=True)
    def go(name: Annotated[str, Field(min_length=3)], unique: set[int] = set()):
        return (name, unique)

    assert call(go, {"name": "ab", "unique": None}).error.type == "ArgumentError"
    assert call(go, {"name": "abc", "unique": [1, 1]}).value == ("abc", {1})
    assert "minLength" in go.schema.parameters["properties"]["name"]["description"]


def test_strict_refuse_names_every_reason():
    """`"refuse"` raises at definition, with every reason and its remedy."""
    with pytest.raises(SchemaError, match=r"strict_one .*test_function_tool") as caught:
        FunctionTool(strict_one, strict="refuse")

    assert len(caught.value.reasons) >= 5
    assert FunctionTool(_needs_all, strict="refuse").strict is True


def _needs_all(query: str, limit: int): ...


def test_what_has_no_strict_form_is_refused():
    """Untyped `**kwargs` and unions whose members get one strict form raise in both modes."""

    def loose(**kwargs): ...

    def double(x: dict[str, int] | list[dict[str, Any]]): ...

    for strict in (True, "refuse"):
        with pytest.raises(SchemaError):
            FunctionTool(loose, strict=strict)


def test_the_plain_schema_stays_beside_the_strict_one():
    """`schema.plain` is neutral: defaults stay optional there."""
    tool = FunctionTool(search.func, strict=True)

    assert tool.schema.plain["required"] == ["query"]
    assert tool.schema.plain["properties"]["limit"]["default"] == 10
    assert search.schema.parameters == search.schema.plain
    assert search.strict is False


def test_a_subclass_that_overrides_run_is_heard():
    """Overriding `run` of a FunctionTool works, `super().run` included."""

    class Twice(FunctionTool):
        async def run(self, call, context):
            first = await super().run(call, context)
            return ToolResult.of([first.value, call.arguments["limit"]])

    @Twice
    def go(limit: int = 3):
        return limit * 2

    assert call(go).value == [6, 3]


def test_alias_choices():
    """Of several aliases the first is the one that is published."""

    @FunctionTool
    def go(x: Annotated[int, Field(validation_alias=AliasChoices("ex", "eks"))]):
        return x

    assert list(go.schema.parameters["properties"]) == ["ex"]
    assert call(go, {"ex": 1}).value == 1


@pytest.mark.parametrize("arguments", [{"xs": [2, 3]}, '{"xs": [2, 3]}'], ids=["mapping", "text"])
def test_injected_parameters_may_stand_before_positional_ones(arguments):
    """An injected parameter is passed by position where the signature wants it there."""

    @FunctionTool
    def before(context: Context, *xs: int) -> list:
        return [context.call.id, *xs]

    @FunctionTool
    async def only(context: Context, xs: list[int], call: ToolCall, /) -> list:
        return [call.id, *xs]

    @FunctionTool
    def between(context: Context, factor: int = 5, *xs: int, call: ToolCall) -> list:
        return [call.id, *(factor * x for x in xs)]

    assert call(before, arguments).value == call(only, arguments).value == ["c1", 2, 3]
    assert call(between, arguments).value == ["c1", 10, 15]


def renamed(a: int) -> int:
    """A function that stays at its name; the tool made of it stands elsewhere."""
    return a


renamed_tool = FunctionTool(renamed, name="other")


def test_a_tool_that_does_not_stand_at_its_name_is_not_pickled():
    """A pickle never turns a tool into the bare function that stands at its qualified name."""
    with pytest.raises(pickle.PicklingError):
        pickle.dumps(renamed_tool)
    assert copy.copy(renamed_tool) is renamed_tool


def my_own(func):
    """Decorate as a team's own decorator would."""
    return FunctionTool(func)


def test_a_decorator_around_ours_binds_too():
    """In a class body the tool binds like a method, whoever calls `FunctionTool` there."""

    class Desk:
        @my_own
        def number(self, a: int) -> list:
            return [type(self).__name__, a]

    assert list(Desk().number.schema.parameters["properties"]) == ["a"]
    assert call(Desk().number, {"a": 4}).value == ["Desk", 4]


def test_a_function_made_in_a_comprehension_keeps_its_first_parameter():
    """Only a class body makes methods: a comprehension or a generator expression does not."""
    made = [FunctionTool(lambda word: word, name=f"say{n}") for n in range(2)]
    made += (FunctionTool(lambda word: word, name=f"write{n}") for n in range(2))

    assert [list(tool.schema.parameters["properties"]) for tool in made] == [["word"]] * 4
    assert call(made[3], {"word": "hello"}).value == "hello"


def test_a_subclass_may_override_only_a_hook():
    """Without a `run` of its own the body is the function's."""

    class Loud(FunctionTool):
        async def on_output(self, result, context):
            return ToolResult.of(result.text.upper())

    def shout(word: str) -> str:
        return word + "!"

    assert call(Loud(shout), {"word": "hey"}).text == "HEY!"


def test_a_wrapper_calls_a_tool_whose_names_exist_by_now():
    """A layer that looks at nothing is enough to compile late what it wraps."""

    @FunctionTool
    async def take(x: "Known") -> str:
        return f"{type(x).__name__} {x.size}"

    class Known(BaseModel):
        size: int

    assert call(WrapperTool(take), {"x": {"size": 3}}).text == "Known 3"


def test_a_late_name_without_a_schema_is_a_definition_error():
    """What cannot be said in JSON is refused with the place of the function, when its name exists."""

    @FunctionTool
    def take(x: "Opaque"):
        return x

    class Opaque:
        pass

    with pytest.raises(DefinitionError, match=r"(?s)test_function_tool\.py:\d+.*'x'"):
        take.schema


def test_a_name_given_by_position_is_told_to_go_by_name():
    """`@FunctionTool("search")` is refused, and the message says how options are given."""
    said = r"^FunctionTool \(.*:\d+\): it needs a callable, not str: pass options by keyword$"
    with pytest.raises(DefinitionError, match=said):
        FunctionTool("search")


def test_a_bound_tool_has_the_signature_of_the_bound_method():
    """What reads signatures sees no `self` or `cls` where nobody passes one."""
    shop = Shop({})

    assert list(inspect.signature(shop.price).parameters) == ["item", "discount"]
    assert list(inspect.signature(Shop.price).parameters) == ["self", "item", "discount"]
    assert list(inspect.signature(Shop.describe).parameters) == ["loud"]


class Counter:
    """A callable whose attributes are called like those of a tool."""

    name, schema, timeout = "counter", 1, 99

    def __init__(self):
        self.name, self.schema, self.bind, self.timeout, self.unit = "x", 1, 2, 99, "kg"

    def __call__(self, amount: int) -> int:
        return amount


def test_what_a_tool_has_itself_is_not_taken_from_its_function():
    """Attributes of the callable become attributes of the tool, but for those that a tool has."""
    tool = FunctionTool(Counter())

    assert (tool.name, tool.timeout, tool.unit) == ("counter", None, "kg")
    assert tool.bind({"amount": 2}).values == {"amount": 2}


def test_a_classmethod_above_the_tool_is_told_what_to_do():
    """Since Python 3.13 `@classmethod` gives a method of the tool: the order is said, to whoever uses it."""

    class Shop:
        @FunctionTool
        def sell(cls, amount: int) -> int:
            return amount

        sell = MethodType(sell, 0)  # What 3.13 makes of `@classmethod` above.

    tool = Shop.sell.__func__

    with pytest.raises(DefinitionError, match="write @FunctionTool above @classmethod"):
        Toolset([Shop.sell])
    with pytest.raises(TypeError, match="write @FunctionTool above @classmethod"):
        tool(Shop, ToolCall(name="sell", arguments={"amount": 1}))
    assert tool(Shop, 3) == 3


def test_which_kinds_of_functions_run_on_a_thread():
    """A sync function or generator must not hold the event loop, and an async one belongs to it."""

    def plain():
        return threading.current_thread()

    def steps():
        yield threading.current_thread()

    async def later():
        return threading.current_thread()

    async def later_steps():
        yield threading.current_thread()

    ran = [call(FunctionTool(f)).value for f in (plain, steps, later, later_steps)]
    assert [thread is threading.main_thread() for thread in ran] == [False, False, True, True]


@pytest.mark.parametrize(
    "value",
    [0, -7, 2**63, -(2**70), 10**5000, True],
    ids=lambda value: f"{value.bit_length()} bits",
)
def test_a_tool_shows_an_int_as_a_result_does(value):
    """An integer of any length is written whole, also one that Python itself refuses to write."""

    @FunctionTool
    async def count() -> Any:
        return value

    result = call(count)

    assert (result.text, result.value) == (ToolResult.of(value).text, value)
