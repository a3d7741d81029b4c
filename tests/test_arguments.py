"""The front door: what comes in, what is refused, and in which words."""

import collections
import dataclasses
import datetime
import enum
import functools
import gc
import json
import math
import os
import random
import re
import threading
import uuid
from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar, Union

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasPath,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Json,
    WrapValidator,
    field_validator,
)
from pydantic_core import core_schema
from typing_extensions import TypeAliasType, TypedDict

from functool import (
    ApprovalRequest,
    ArgumentError,
    Context,
    DefinitionError,
    FunctionTool,
    SchemaTool,
    ToolModel,
    Tripwire,
    WrapperTool,
)
from functool.binding import functions
from functool.binding.binder import PassingBinder
from functool.binding.foreign import SchemaBinder
from functool.binding.json_text import linear_pattern
from functool.close_names import MAX_COMPARED
from functool.errors import MAX_PROBLEMS
from functool.schema import json_schema, readings, shapes
from tests import signatures
from tests.schemas import (
    BOOL,
    INT,
    MAYBE_INT,
    MAYBE_STR,
    NULL,
    STR,
    any_of,
    array,
    dict_of,
    obj,
    ref,
)
from tests.strategies import SINGLE, nested
from tests.support import call, foreign, since_pydantic_2_14, taking

SECRET = "s3cr3t-v4lue"


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1


class Point(BaseModel):
    x: float
    n: int = 0
    tag: Literal["a"] = "a"


@dataclasses.dataclass
class Size:
    width: float
    height: float = 1.0


def tool_of(annotation, default=..., **options):
    """A tool of one parameter `x`, and the list of what it received."""
    got = []

    async def body(x):
        got.append(x)

    body.__annotations__ = {"x": annotation}
    if default is not ...:
        body.__defaults__ = (default,)
    return FunctionTool(body, **options), got


def send(annotation, arguments, default=...):
    """Send arguments to a tool of one parameter: what the body received, or the error."""
    tool, got = tool_of(annotation, default)
    result = call(tool, arguments)
    if result.is_error:
        assert got == [], "a body ran although the arguments were refused"
        return result.error
    return got[0] if got else "nothing"


def refusal(annotation, sent):
    """The error that refuses a value of the one parameter `x`."""
    with pytest.raises(ArgumentError) as caught:
        tool_of(annotation)[0].bind({"x": sent})
    return caught.value


BOTH = [json.dumps, lambda value: value]


@pytest.mark.parametrize("form", BOTH, ids=["text", "mapping"])
@pytest.mark.parametrize(
    ("annotation", "sent", "received"),
    [
        (int, 5, 5),
        (int, "5", 5),
        (int, 5.0, 5),
        (float, 5, 5.0),
        (float, "2.5", 2.5),
        (bool, True, True),
        (bool, "yes", True),
        (str, "x", "x"),
        (datetime.timedelta, "PT5S", datetime.timedelta(seconds=5)),
        (Level, 1, Level.LOW),
        (Point, {"x": 1.5, "n": "3"}, Point(x=1.5, n=3)),
        (Size, {"width": 2}, Size(2.0)),
        (list[Point], [{"x": 1}], [Point(x=1)]),
        (int | str, "5", "5"),
        (int | bool, True, True),
        (float | None, None, None),
        (Any, {"a": [1, None]}, {"a": [1, None]}),
        (Literal[1, "a"], 1, 1),
        (dict[str, int], {"a": "1"}, {"a": 1}),
    ],
    ids=str,
)
def test_values_arrive_as_the_annotation_says(form, annotation, sent, received):
    """Text and Mapping give the same Python value, by pydantic's lax JSON rules."""
    value = send(annotation, form({"x": sent}))

    assert value == received
    assert type(value) is type(received)


@pytest.mark.parametrize("form", BOTH, ids=["text", "mapping"])
@pytest.mark.parametrize(
    ("annotation", "sent"),
    [
        (int, True),
        (int, False),
        (float, False),
        (int | None, True),
        (list[int], [1, True]),
        (dict[str, float], {"a": True}),
        (Point, {"x": True}),
        (Point, {"x": 1, "n": False}),
        (list[Point], [{"x": 1}, {"x": True}]),
        (Size, {"width": True}),
        (Level, True),
        (Literal[1], True),
        (tuple[int, str], [True, "a"]),
        (int | str, True),
        (Annotated[int, Field(ge=0)], True),
    ],
    ids=str,
)
def test_a_bool_is_no_number(form, annotation, sent):
    """`true` and `false` are refused where an int or a float is wanted, at every depth."""
    assert send(annotation, form({"x": sent})).type == "ArgumentError"


@pytest.mark.parametrize(
    "text",
    [
        "1e999",
        "-1e999",
        '"NaN"',
        '"inf"',
        '" -Infinity "',
        '"1e999"',
        "NaN",
        "Infinity",
        "1" + "0" * 400,
        "1E+999",
    ],
)
@pytest.mark.parametrize(
    "annotation",
    [
        float,
        list[float],
        Point,
        Size,
        float | None,
        dict[str, float],
        Annotated[float, Field(allow_inf_nan=True)],
    ],
    ids=str,
)
def test_no_float_is_nan_or_infinite(annotation, text):
    """Neither `1e999` nor the text "NaN" becomes a float, at any depth."""
    shapes = {
        float: text,
        list[float]: f"[{text}]",
        Point: f'{{"x": {text}}}',
        Size: f'{{"width": {text}}}',
        dict[str, float]: f'{{"k": {text}}}',
    }

    assert send(annotation, f'{{"x": {shapes.get(annotation, text)}}}').type == "ArgumentError"


@pytest.mark.parametrize("number", ["1e999", "-1E400", f"1{'0' * 309}.5", f"-{'9' * 400}.0"])
def test_no_number_of_any_type_is_infinite(number):
    """Where any value fits, a number is too large with an exponent or with hundreds of digits."""
    for annotation, text in (
        (Any, number),
        (list[Any], f"[{number}]"),
        (dict[str, Any], f'{{"a": {number}}}'),
    ):
        error = send(annotation, f'{{"x": {text}}}')

        assert (
            error.message == "Invalid arguments. a number is too large: every number must be finite"
        )


@pytest.mark.parametrize("depth", [0, 100])
def test_untyped_further_arguments_have_the_limits_of_any_value(depth):
    """Neither an infinite number nor a hundred levels get into `**kwargs` without an annotation."""
    ran = []

    @FunctionTool
    def take(**more):
        ran.append(more)

    sent = f'{{"a": {"[" * depth}{"1" if depth else "1e999"}{"]" * depth}}}'

    assert call(take, sent).error.type == "ArgumentError" and ran == []
    assert call(take, '{"a": [1e9]}').success


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("annotation", [float, Any, Point])
def test_a_mapping_with_nan_is_refused(annotation, value):
    """NaN and infinity are no JSON, in a Mapping either."""
    sent = {"x": value} if annotation is Point else value

    assert send(annotation, {"x": sent}).type == "ArgumentError"


def test_a_text_that_looks_like_a_number_stays_text():
    """For a str, "NaN" and "1e999" are text."""
    assert send(str, '{"x": "NaN"}') == "NaN"
    assert send(str | float, '{"x": "NaN"}') == "NaN"
    assert send(Any, '{"x": "NaN 1e999"}') == "NaN 1e999"


def test_a_default_of_infinity_is_the_authors():
    """Only what was sent has to be finite."""
    assert send(float, "{}", default=math.inf) == math.inf


@pytest.mark.parametrize(
    "text",
    [
        "not json",
        "{",
        '{"x": 1}}',
        '{"x": 1,}',
        "[1]",
        '"x"',
        "5",
        "null",
        "true",
        '{"x": NaN}',
        '{"x": 1, "x": 2}',
        '{"x": 1, "\\u0078": 2}',
        '{"x": "\\ud800"}',
        '{"x": "\ud800"}',
        '{"x": ' + "9" * 4301 + "}",
        "\x00",
        "{'x': 1}",
        '{"x": 1} trailing',
        '{"y": 1}',
        "\ufeff{}x",
    ],
    ids=lambda text: text[:20].encode(errors="replace").decode(),
)
def test_what_is_no_arguments_object_is_refused(text):
    """Not JSON, no object, NaN, a name twice, lone surrogates, absurd integers, unknown names: an `ArgumentError`."""
    for annotation in (int, Any, str):
        assert send(annotation, text).type == "ArgumentError"


@pytest.mark.parametrize("text", ["", "  ", "{}", "\n{ }\n"])
def test_empty_text_means_no_arguments(text):
    """A call without arguments may arrive as empty text."""
    assert send(int, text, default=3) == 3
    seen = []

    @FunctionTool(input_guardrails=[lambda call, context: seen.append(call.arguments)])
    async def body(x: int = 3):
        return x

    assert call(body, text).value == 3 and seen == [{"x": 3}]


def test_a_mapping_may_be_any_mapping():
    """A read-only mapping, also a nested one, is an object too."""
    assert send(dict[str, int], MappingProxyType({"x": MappingProxyType({"a": 1})})) == {"a": 1}


def test_what_json_cannot_say_is_refused():
    """Objects, iterators and circular lists in a Mapping are an `ArgumentError`, and no iterator is run."""
    circle: list = []
    circle.append(circle)
    endless = iter(int, 1)

    for value in (object(), circle, endless, {1: {2, object()}}):
        assert send(Any, {"x": value}).type == "ArgumentError"
    assert send(Any, {("a", "b"): 1}).type == "ArgumentError"


def brackets(levels, inner=""):
    return '{"x": ' + "[" * (levels - 1) + inner + "]" * (levels - 1) + "}"


def test_nesting_is_limited():
    """A hundred levels of objects and lists pass, the arguments object counted; one more is refused; brackets in a text do not count."""
    text = '"\n' + "[{" * 500 + '"["'

    deep = brackets(100, json.dumps(text))
    assert send(Any, deep) == json.loads(deep)["x"]
    assert send(Any, json.dumps({"x": text})) == text
    for levels in (101, 100_000):
        error = send(Any, brackets(levels))
        assert (
            error.message == "Invalid arguments. the arguments are nested more than 100 levels deep"
        )


@pytest.mark.parametrize("start", ["", '{"x": "'])
def test_levels_are_counted_in_one_pass(start):
    """Quotes that nothing closes begin one text, not one at each escape: brackets in it do not count, and reading it takes no time."""
    text = start + '"' * (not start) + '\\"' * 100_000 + "[" * 200

    assert "not valid JSON" in send(Any, text).message


@pytest.mark.parametrize(
    ("annotation", "text", "received"),
    [
        (list[int], "[1, 2]", [1, 2]),
        (dict[str, int], ' {"a": 1}', {"a": 1}),
        (Point, '{"x": 2}', Point(x=2)),
        (list[int] | None, "[3]", [3]),
        (tuple[int, int], "[1, 2]", (1, 2)),
    ],
    ids=str,
)
def test_json_sent_as_a_string_is_parsed_once(annotation, text, received):
    """Where a list or object is wanted and no string admitted, JSON text in a string is parsed, by the same rules."""
    assert send(annotation, json.dumps({"x": text})) == received
    assert send(annotation, {"x": json.dumps(text)}).type == "ArgumentError"


def test_json_sent_as_a_string_may_be_in_strict_form():
    """A strict tool reads the text of a list or object in either form, and a guardrail sees what it means."""
    seen = []

    def look(call, context):
        seen.append(call.arguments)

    @FunctionTool(strict=True, input_guardrails=[look])
    def take(scores: dict[str, int], pair: tuple[int, str]):
        """Take both."""
        return scores, pair

    theirs = SchemaTool("take", "", take.schema.plain, lambda arguments: arguments, strict=True)
    meant = {"scores": {"a": 1}, "pair": [2, "b"]}
    for sent in (
        {"scores": '[{"key": "a", "value": 1}]', "pair": '{"item_0": 2, "item_1": "b"}'},
        {"scores": '{"a": 1}', "pair": '[2, "b"]'},
    ):
        assert call(take, sent).value == ({"a": 1}, (2, "b"))
        assert call(theirs, sent).value == meant
    assert seen == [meant, meant]


def test_a_string_stays_a_string_where_one_is_admitted():
    """`list[int] | str` keeps the text."""
    assert send(list[int] | str, {"x": "[1]"}) == "[1]"
    assert send(Any, {"x": "[1]"}) == "[1]"


def test_parsed_strings_keep_the_rules():
    """Inside such a string, too, a bool is no number and NaN is refused."""
    assert send(list[int], {"x": "[true]"}).type == "ArgumentError"
    assert send(list[float], {"x": "[NaN]"}).type == "ArgumentError"


@pytest.mark.parametrize(
    "text", ['[1], "a": [2]', '[1], "": [2]', "[1]} {", '[1]}, "a": {', "[1] [2]"]
)
def test_a_string_that_goes_on_behind_its_json_is_refused(text):
    """One list or object, and nothing behind it."""
    assert send(list[int], {"x": text}).type == "ArgumentError"


@pytest.mark.parametrize("form", BOTH, ids=["text", "mapping"])
def test_null_means_the_default(form):
    """null for a parameter that has a default and admits no null means the default; else null is null."""
    assert send(int, form({"x": None}), default=5) == 5
    assert send(list[int], form({"x": None}), default=[1]) == [1]
    assert send(Untagged, form({"x": None}), default=5) == 5
    assert send(int | None, form({"x": None}), default=5) is None
    assert send(Any, form({"x": None}), default=5) is None
    assert send(int, form({"x": None})).type == "ArgumentError"


@pytest.mark.parametrize("other", ["nothing", "null"])
def test_none_from_a_validator_is_no_null_that_was_sent(other):
    """The body gets what the author's validator returns, whatever another argument says."""

    @FunctionTool
    def note(
        text: Annotated[str, AfterValidator(lambda text: text or None)] = "draft", other: str = ""
    ) -> list[str | None]:
        return [text, other]

    assert call(note, {"text": "", "other": other}).value == [None, other]
    assert call(note, {"text": None, "other": other}).value == ["draft", other]
    assert call(note, {"other": other}).value == ["draft", other]


async def _search(
    query: str,
    limit: int = 10,
    mode: Literal["fast", "deep"] = "fast",
    scores: dict[str, int] | None = None,
):
    return query


class Item(BaseModel, extra="forbid"):
    quantity: int = 1
    sku: str = ""


class Order(BaseModel, extra="forbid"):
    items: list[Item] = []
    spare: dict[str, Item] = {}
    gift: Item | int | None = None
    either: list[Item] | dict[str, Item] = []


class Strictly(BaseModel):
    model_config = ConfigDict(extra="forbid")
    a: int

    @field_validator("a")
    @classmethod
    def positive(cls, value):
        if value < 0:
            raise ValueError(f"{value} is negative")
        return value


class Cat(BaseModel):
    kind: Literal["cat"]
    meow: int = 1


class Dog(BaseModel):
    kind: Literal["dog"]
    bark: int = 1


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]


def shout(value):
    raise ValueError(f"no such user: {value.upper()}")


@pytest.mark.parametrize(
    ("annotation", "sent"),
    [
        (int, SECRET),
        (list[int], [SECRET]),
        (Literal["a", "b"], SECRET),
        (Color, SECRET),
        (Strictly, {"a": -12345}),
        (Strictly, {"a": SECRET, "b": SECRET}),
        (Pet, {"kind": SECRET}),
        pytest.param(Annotated[str, AfterValidator(shout)], SECRET, id="a check of the author's"),
        (Annotated[str, Field(max_length=3)], SECRET),
        (Annotated[str, Field(pattern="^a$")], SECRET),
        (dict[str, int], {SECRET: "x"}),
        (datetime.date, SECRET),
        (int | list[int] | Point, SECRET),
    ],
    ids=str,
)
def test_a_refusal_never_repeats_what_was_sent(annotation, sent):
    """Neither values nor keys that were sent, nor a URL, stand in the text or the problems."""
    error = refusal(annotation, sent)

    for leak in (SECRET, SECRET.upper(), "12345", "http"):
        assert leak not in f"{error} {error.problems}"
    assert "x" in error.problems[0]["path"]


def test_the_path_leads_to_the_mistake():
    """Paths are those of what was sent, without pydantic's names for the members of a union."""
    error = refusal(list[Point] | None, [{"x": 1}, {"x": "q"}])

    assert [problem["path"] for problem in error.problems] == ["x[1].x"]


def test_choices_are_named():
    """A Literal or Enum names its choices, as data and in the text."""
    error = refusal(Literal["fast", "deep"], "slow")

    assert "choices: fast, deep" in str(error)
    assert error.problems[0]["choices"] == ("fast", "deep")


class Odd(enum.Enum):
    COMMA = "a, b or c"
    QUOTE = "it's"
    QUOTED = "'q'"
    BOTH = 'it\'s "x"'
    BREAK = "a\n\\b"
    ORDER = "or"
    NUMBER = 7


def test_choices_are_what_may_be_sent():
    """A comma, a quote, a line break, a backslash or the word `or` in a choice neither cuts nor changes it."""
    choices = ("a, b or c", "it's", "'q'", 'it\'s "x"', "a\n\\b", "or", "7")

    assert refusal(Odd, "slow").problems[0]["choices"] == choices


@pytest.mark.parametrize("kind", [ValueError, AssertionError])
@pytest.mark.parametrize(
    ("annotation", "sent", "said", "shown"),
    [
        (int, 7, "must be positive", True),
        (int, 7, "a price is above 0", True),
        (str, "uvwxyz", "the last are wxyz", False),
        (str, "wxyzuv", "the first are wxyz", False),
        (str, "WXYZuv", "the first are wxyz", False),
        (str, "uvwxyz", "the last are xyz", True),
        (str, "q" * 20_000 + "SECRET", "it must not end with SECRET", False),
        (str, "abcd", "not abcd", False),
        (str, "abcd", "abc is no name", True),
        (str, "abc", "abc is no name", False),
        (str, "abc", "not ABC", False),
        (str, "abc", "not ab", True),
        (str, "", "must not be blank", True),
        (int, 73, "not 73", False),
        (int, 73, "not 72", True),
        (list[str], ["aaaa", "secret"], "not secret", False),
        (list[str], ["aaaa"], "not secret", True),
        (dict[str, list[str]], {"a": ["secret"]}, "not secret", False),
        (dict[str, list[str]], {"a": ["bbbb"]}, "not secret", True),
        (dict[str, list[str]], {"secret": []}, "not secret", False),
        (Any, ["wxyz", {"abcd": 1}], "no abcd", False),
        (Any, [{"x": 1}], "x is odd", True),
        (Point, {"x": 1.0}, "x is too small", True),
    ],
)
def test_a_message_of_the_author_is_shown_unless_it_repeats_what_was_sent(
    annotation, sent, said, shown, kind
):
    """Four characters in a row that were sent, or a shorter value whole, at any depth and in any case, keep a message back; else it stands as it is."""

    def check(value):
        raise kind(said)

    message = send(Annotated[annotation, AfterValidator(check)], {"x": sent}).message

    assert message == "Invalid arguments. x: " + (
        said if shown else "expected a value that the tool's own check accepts"
    )


def test_a_validator_that_crashes_is_a_refusal(caplog):
    """An exception of another kind in a validator is an `ArgumentError` without its text; the log holds its traceback."""

    def crash(value):
        raise KeyError(value)

    error = send(Annotated[str, AfterValidator(crash)], {"x": SECRET})

    said = "the arguments could not be checked: a validator of the tool failed"
    assert (error.type, error.message) == ("ArgumentError", f"Invalid arguments. {said}")
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("functool", "ERROR")
    assert record.getMessage() == "a validator of a tool failed"
    assert record.exc_info[0] is KeyError


def test_a_refusal_is_short():
    """At most six problems and "and n more", and at most 4,000 characters."""
    many = ArgumentError([{"path": f"p{i}", "expected": "a value"} for i in range(9)])
    long = ArgumentError([{"path": "p", "expected": "x" * 9_000}])

    assert "p5" in str(many) and "p6" not in str(many) and "and 3 more" in str(many)
    assert len(str(long)) <= 4_000


def test_a_huge_string_for_a_number_is_refused_briefly():
    """Ten megabytes where a number belongs are an `ArgumentError` of a few words."""
    error = send(int, {"x": "9" * 10_000_000})

    assert error.type == "ArgumentError" and len(error.message) < 4_000


numbers = st.integers(-(10**18), 10**18) | st.floats(allow_nan=False, allow_infinity=False)


@given(nested(SINGLE | numbers | st.text(max_size=8)))
def test_text_and_mapping_are_one_door(value):
    """Law: what is sent as text and as a Mapping arrives as the same value."""
    as_text, as_mapping = send(Any, json.dumps({"x": value})), send(Any, {"x": value})

    assert as_text == as_mapping == value


@given(
    st.dictionaries(
        st.sampled_from(["query", "limit", "mode"]),
        st.sampled_from(["a", "fast", 3, None, True, "3"]),
        max_size=3,
    )
)
def test_canonical_arguments_are_settled(arguments):
    """Law: canonical arguments, sent again, are the canonical arguments."""
    seen = []
    tool = FunctionTool(
        _search, name="search", input_guardrails=[lambda call, context: seen.append(call.arguments)]
    )
    first = call(tool, arguments)
    if first.is_error:
        return
    call(tool, seen[0])

    assert seen[0] == seen[1]


def test_canonical_arguments_say_what_was_sent():
    """Guardrails see the JSON that was sent, under parameter names, defaults filled in; a factory's stays out."""
    seen = []

    @FunctionTool(input_guardrails=[lambda call, context: seen.append(call.arguments)])
    async def book(
        from_: Annotated[str, Field(alias="from")],
        day: datetime.date,
        color: Color = Color.RED,
        limit: float = math.inf,
        tags: Annotated[list[str], Field(default_factory=list)] = ...,
        extra: list[int] = [1],
    ):
        return None

    call(book, '{"from": "A", "day": "2026-01-02"}')

    assert seen == [{"from_": "A", "day": "2026-01-02", "color": "red", "extra": [1]}]


def test_an_alias_is_the_name_for_the_model():
    """The model sends the alias, the function receives its own name, and its own name is refused from the model."""

    @FunctionTool
    async def go(from_: Annotated[str, Field(alias="from")]):
        return from_

    assert list(go.schema.parameters["properties"]) == ["from"]
    for _ in ("bare", "guarded"):
        assert call(go, {"from": "here"}).value == "here"
        assert call(go, {"from_": "here"}).is_error
        go.add_input_guardrails([lambda call, context: None])


def test_rest_arguments_cannot_take_a_hidden_name():
    """`**kwargs` takes neither the name of an injected parameter nor an aliased one's."""

    @FunctionTool
    async def go(context: Context, a_: Annotated[int, Field(alias="a")] = 0, **rest: int):
        return rest

    def run(arguments):
        return call(go, arguments)

    assert run('{"b": 1, "c": 2}').value == {"b": 1, "c": 2}
    assert run('{"context": 1}').error.type == "ArgumentError"
    assert run('{"a_": 1}').error.type == "ArgumentError"
    assert run('{"b": 1, "b": 2}').error.type == "ArgumentError"


# ---- the same promises for a schema that somebody else wrote


@pytest.mark.parametrize(
    "text",
    [
        "not json",
        "[1]",
        '{"n": 1, "n": 2}',
        '{"n": NaN}',
        '{"n": 1e999}',
        '{"free": 1e999}',
        '{"n": true}',
        '{"n": "x"}',
        '{"n": [[[[1]]]]}',
        brackets(101),
        '{"n": "\\ud800"}',
    ],
)
def test_a_foreign_schema_keeps_the_doors_promises(text):
    """Bad text is an `ArgumentError` for a JSON Schema of somebody else's too, and no handler runs."""
    got = []
    tool = foreign(obj({"n": INT}), got.append)

    assert call(tool, text).error.type == "ArgumentError"
    assert got == []


def test_a_foreign_schema_fills_defaults_and_drops_nulls():
    """Defaults are filled in; null for an optional argument that admits none means that it was left out."""
    tool = foreign(obj({"a": {**INT, "default": 3}, "b": STR, "c": MAYBE_STR}))

    assert call(tool, {"a": None, "b": None, "c": None}).value == {"a": 3, "c": None}
    needed = call(foreign(obj({"a": INT}, required=["a"])), {"a": None})
    assert needed.text == "Invalid arguments. a: expected an integer"


def test_a_default_that_a_foreign_schema_refuses_survives_a_replacement():
    """Such defaults are filled in, and a guardrail that returns the call with them changes nothing about them."""

    def louder(call, context):
        return dataclasses.replace(
            call, arguments={**call.arguments, "q": call.arguments["q"].upper()}
        )

    number = {"type": "integer", "minimum": 1}
    parts = {"q": STR, "page": {**number, "default": 0}, "most": {**number, "default": 9}}
    tool = foreign(obj(parts, required=["q"]))
    tool.add_input_guardrails([louder])
    filled = {"q": "A", "page": 0, "most": 9}

    assert call(tool, {"q": "a"}).value == filled
    assert call(WrapperTool(tool, input_guardrails=[louder]), {"q": "a"}).value == filled
    assert call(tool, {"q": "a", "most": 3}).value == {**filled, "most": 3}
    assert call(tool, {"q": "a", "page": 0}).error.type == "ArgumentError"
    assert tool.sent_form({"q": "a", "page": 2, "most": 9}) == {"q": "a", "page": 2, "most": 9}
    assert tool.sent_form({"q": 5, "page": 0}) == {"q": 5, "page": 0}
    either = {"oneOf": [{"required": ["page"]}, {"required": ["q"]}]}
    page = {"q": STR, "page": {"type": "integer", "default": 1}}
    tool = foreign(obj(page, **either))
    tool.add_input_guardrails([louder])
    assert call(tool, {"q": "a"}).value == {"q": "A", "page": 1}


@pytest.mark.parametrize("word", ["$defs", "definitions"])
def test_the_definitions_of_a_foreign_schema_are_read(word):
    """Whether null is a value, and whether a text is a packed list, is read through a reference too, in old schemas as in new ones."""
    tool = foreign(
        obj(
            {"u": {"$ref": f"#/{word}/U"}, "xs": {"$ref": f"#/{word}/L"}},
            **{word: {"U": MAYBE_INT, "L": {"type": "array"}}},
        )
    )

    assert call(tool, {"u": None, "xs": "[1]"}).value == {"u": None, "xs": [1]}


def test_a_foreign_schema_never_repeats_a_value():
    """jsonschema's own messages repeat values; ours do not."""
    tool = foreign(obj({"a": {"enum": ["x", "y"]}, "b": dict_of(INT), "c": {"pattern": "^q$"}}))
    text = call(tool, {"a": SECRET, "b": {SECRET: SECRET}, "c": SECRET}).text

    assert SECRET not in text
    assert "choices: x, y" in text and "b.[key]" in text


def test_a_hostile_pattern_cannot_hang():
    """A pattern runs on a linear engine."""
    tool = foreign(obj({"a": {**STR, "pattern": "^(a+)+$"}}))

    assert call(tool, {"a": "a" * 50_000 + "!"}).error.type == "ArgumentError"
    assert call(tool, {"a": "aaa"}).success


def test_references_are_never_fetched(tmp_path):
    """A `$ref` to a file is not read: the call is refused."""
    (tmp_path / "s.json").write_text('{"type": "integer"}')
    tool = foreign(obj({"a": {"$ref": (tmp_path / "s.json").as_uri()}}))

    assert call(tool, {"a": 1}).error.type == "ArgumentError"


def test_a_reference_loop_is_refused():
    """A `$ref` that leads to itself is an `ArgumentError`, not a crash."""
    tool = foreign(obj({"a": ref("a")}, **{"$defs": {"a": ref("a")}}))

    assert call(tool, {"a": 1}).text == (
        "Invalid arguments. the arguments could not be checked against the tool's schema"
    )


def test_pattern_properties_run_on_the_linear_engine():
    """`patternProperties` binds matching names, hostile patterns included."""
    tool = foreign({"type": "object", "patternProperties": {"^(x+)+$": INT}})

    assert call(tool, {"xx": "no"}).error.type == "ArgumentError"
    assert call(tool, {"xx": 1, "x" * 5_000 + "!": "free"}).success


def test_closed_pattern_properties_run_on_the_linear_engine():
    """What stands beside `patternProperties` and needs to know what they match neither hangs nor lets an unknown name through."""
    hostile = {"type": "object", "patternProperties": {"^(x+)+$": INT}}
    closed = foreign({**hostile, "additionalProperties": False})
    typed = foreign({**hostile, "additionalProperties": BOOL})
    unevaluated = foreign({**hostile, "unevaluatedProperties": False})
    name = "x" * 50 + "!"

    assert call(closed, {"xx": 1}).value == call(unevaluated, {"xx": 1}).value == {"xx": 1}
    assert call(typed, {"xx": 1, name: True}).success
    assert call(typed, {name: 1}).text == "Invalid arguments. [key]: expected true or false"
    for tool in (closed, unevaluated):
        said = call(tool, {"xx": 1, name: 1}).text
        assert said.startswith("Invalid arguments. [key]: unknown")


@pytest.mark.parametrize(
    ("schema", "arguments", "words"),
    [
        (
            {"additionalProperties": False},
            {"known": 1, "x-1": 1, "zz": 1, "knwn": 1},
            "zz: unknown argument; known: known, o; knwn: un",
        ),
        (
            {"additionalProperties": False},
            {"o": {"a": 1, "zz": 2}},
            "o.zz: unknown argument; known: a, b",
        ),
        (
            {"additionalProperties": INT},
            {"known": "a", "x-1": "a", "zz": "a"},
            "[key]: expected an integer",
        ),
    ],
)
def test_the_unknown_names_in_a_foreign_schema_are_named(schema, arguments, words):
    """A name is unknown where neither `properties` nor `patternProperties` know it; each is answered at its place."""
    inner = obj({"a": {}, "b": {}}, additionalProperties=False)
    tool = foreign(obj({"known": {}, "o": inner}, patternProperties={"^x-": {}}, **schema))

    assert call(tool, arguments).text.startswith(f"Invalid arguments. {words}")


def test_a_long_name_of_a_foreign_schema_is_cut():
    """Fifty problems do not each hold a name of 10,000 characters."""
    name = "n" * 10_000
    tool = foreign(obj({name: array(INT), "m" * 1_000: INT}))

    error = call(tool, {name: ["a"] * 50, "m" * 1_000: "a"}).error.cause

    assert {problem["path"][:5] for problem in error.problems} == {"[key]", "mmmmm"}
    assert sum(len(problem["path"]) for problem in error.problems) < 3_000


def test_a_great_many_mistakes_are_a_short_answer():
    """Of a hundred thousand mistakes a hundred are looked at, and six are said."""
    text = call(foreign(obj({"xs": array(INT)})), {"xs": ["a"] * 100_000}).text

    assert text.startswith("Invalid arguments. xs[0]: expected an integer; xs[1]:")
    assert text.endswith("; and 94 more")


def test_unevaluated_properties_are_refused_by_name():
    """`unevaluatedProperties` knows the names of `allOf` too; where it holds a schema, that is what is not met."""
    parts = {"allOf": [{"properties": {"a": {}}}]}
    closed = obj({"beta": {}}, **parts, unevaluatedProperties=False)
    typed = obj({}, **parts, unevaluatedProperties=INT)

    assert call(foreign(closed), {"a": 1, "beta": 2}).success
    for schema, sent, said in (
        (closed, {"a": 1, "beta": 2, "bta": 3}, "bta: unknown argument; did you mean 'beta'?"),
        (obj({"o": closed}), {"o": {"bta": 3}}, "o.bta: unknown argument; did you mean 'beta'?"),
        (typed, {"a": "x", "zz": "x"}, "[key]: expected an integer"),
    ):
        assert call(foreign(schema), sent).text == f"Invalid arguments. {said}"


def test_an_open_schema_takes_other_names():
    """Unknown names are refused, with the closest known one, where a foreign schema says so, and only there."""
    closed = call(foreign(obj({"abc": {}}, additionalProperties=False)), {"abd": 1})

    assert closed.error.type == "ArgumentError" and "did you mean 'abc'" in closed.text
    assert call(foreign(obj({"a": {}})), {"b": 1}).value == {"b": 1}
    assert call(foreign(obj({"a": {}}, additionalProperties=True)), {"b": 1}).value == {"b": 1}
    assert call(foreign(obj({"a": {}}, additionalProperties=INT)), {"b": "x"}).is_error


def test_the_handler_cannot_change_what_was_sent():
    """What a handler does to its arguments does not reach the mapping of the caller."""

    def handler(arguments):
        arguments["a"].append(9)
        return arguments

    sent = {"a": [1]}
    tool = foreign({"type": "object"}, handler)

    assert call(tool, sent).value == {"a": [1, 9]} and sent == {"a": [1]}


def test_text_of_another_class_is_its_text():
    """An Enum of texts is JSON text by its value, not by its name."""

    class Sent(str, enum.Enum):
        ONE = '{"a": 1}'

    @FunctionTool
    async def echo(a: int) -> int:
        return a

    assert call(echo, Sent.ONE).value == 1


def test_a_mapping_that_raises_is_an_argument_error():
    """What a mapping of the caller's own raises is not repeated."""

    class Broken(Mapping):
        def __getitem__(self, key):
            raise OSError("secret")

        def __iter__(self):
            return iter(["a"])

        def __len__(self):
            return 1

    @FunctionTool
    async def echo(a: int) -> int:
        return a

    result = call(echo, Broken())

    assert result.error.type == "ArgumentError" and "secret" not in result.text


@pytest.mark.parametrize("strict", [False, True])
def test_a_validator_may_stop_the_run(strict, caplog):
    """A tripwire never becomes a result, whichever mode of pydantic asks the validator."""

    def stop(value):
        raise Tripwire("halt")

    class Order(BaseModel):
        count: Annotated[int, AfterValidator(stop)]

    for kind, sent in ((Annotated[int, AfterValidator(stop)], 1), (Order, {"count": "1"})):
        tool, got = tool_of(kind, strict=strict)
        for arguments in ({"x": sent}, json.dumps({"x": sent})):
            with pytest.raises(Tripwire, match="halt"):
                call(tool, arguments)
        assert got == [] and caplog.records == []


def test_a_validator_that_crashes_only_in_lax_mode_is_an_argument_error():
    """A text where a number belongs is read on a second look, and what crashes there says nothing of the value."""

    def crash(value):
        raise ZeroDivisionError(f"secret {value}")

    error = send(Annotated[int, AfterValidator(crash)], {"x": "7391"})

    assert error.type == "ArgumentError" and "7391" not in error.message


@pytest.mark.parametrize(
    ("annotation", "value", "words"),
    [
        (int, "a", "x: expected an integer"),
        (str, None, "x: expected a string"),
        (dict[str, int], 3, "x: expected an object"),
        (Literal["a", "b"], "c", "x: expected one of the choices (choices: a, b)"),
        (Annotated[int, Field(ge=3)], 1, "x: expected a value greater than or equal to 3"),
        (
            Annotated[str, Field(min_length=3)],
            "a",
            "x: expected a string with at least 3 characters",
        ),
        (
            Annotated[str, Field(pattern="^a")],
            "b",
            "x: expected a string that matches pattern '^a'",
        ),
        (
            Annotated[str, Field(pattern="^a after validation, not b$")],
            "b",
            "x: expected a string that matches pattern '^a after validation, not b$'",
        ),
        (Annotated[bytes, Field(max_length=1)], "ab", "x: expected a string with at most 1 byte"),
        (
            Annotated[list[int], Field(min_length=2)],
            [1],
            "x: expected a list with at least 2 items",
        ),
        (
            Annotated[set[int], Field(max_length=1)],
            [1, 2],
            "x: expected a list with at most 1 item",
        ),
        (
            Annotated[dict[str, int], Field(min_length=1)],
            {},
            "x: expected an object with at least 1 item",
        ),
        (
            Annotated[Decimal, Field(max_digits=2)],
            "123",
            "x: expected a number with no more than 2 digits in total",
        ),
        (Decimal, [], "x: expected a number"),
        (
            Annotated[frozenset[int], Field(min_length=2)],
            [1],
            "x: expected a list with at least 2 items",
        ),
        (
            Annotated[tuple[int, ...], Field(min_length=2)],
            [1],
            "x: expected a list with at least 2 items",
        ),
        (
            Annotated[list[int] | dict[str, int], Field(min_length=2)],
            [1],
            "x: expected a value with at least 2 items",
        ),
        (Size, {}, "x.width: required, but missing"),
        (
            Size | int | list[int],
            {},
            "x.width: required, but missing; x: expected an integer, or a list",
        ),
        (list[Size], [{"width": "a"}], "x[0].width: expected a number"),
        (int | list[int], "a", "x: expected an integer, or a list"),
        (None, 1, "x: expected null"),
        (AwareDatetime, "2020-01-01T00:00", "x: expected a value with timezone info"),
        (datetime.date, "31.1.26", "x: expected a valid date or datetime, as ISO 8601 writes it"),
        (bytes, 1, "x: expected a string"),
        (Path, 1, "x: expected a string"),
        (
            int | Literal["a", "b"],
            "c",
            "x: expected an integer, or one of the choices (choices: a, b)",
        ),
        (Pet, {"kind": "cow"}, "x.kind: expected one of the choices (choices: cat, dog)"),
        (Pet, {}, "x.kind: required, but missing"),
        (
            Literal["a"] | Annotated[list[Literal["b"]], Field(max_length=3)],
            1,
            "x: expected one of the choices, or a list (choices: a)",
        ),
    ],
    ids=str,
)
def test_the_words_of_a_mistake(annotation, value, words):
    """A mistake is its path, what is expected and the choices, and nothing else; no Python type is named to a model."""
    assert send(annotation, {"x": value}).message == f"Invalid arguments. {words}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"x": "é', "EOF while parsing a string at line 1 column 9"),
        ('{"x": "é\ud800"}', "it holds lone surrogates"),
    ],
    ids=["cut off", "a surrogate"],
)
def test_the_reason_is_the_one_that_there_is(text, said):
    """A text that is cut off is not said to hold surrogates."""
    assert send(str, text).message.endswith(said)


FOREIGN = obj(
    {
        "city": {**STR, "minLength": 2, "maxLength": 5, "pattern": "^[a-z]+$"},
        "days": {**INT, "minimum": 1, "maximum": 9, "multipleOf": 2},
        "mode": {"enum": ["fast", "slow"]},
        "kind": {"const": "K"},
        "xs": array(INT, minItems=1),
        "o": obj({"a": INT}, required=["a"]),
        "u": any_of(INT, NULL),
        "deep": {"oneOf": [obj({"k": INT}), {"const": "a"}, {"const": "b"}]},
        "other": {"not": STR},
        "either": {"type": ["integer", "boolean"]},
        "mixed": {"enum": ["a", 1, None, {"k": "v"}]},
        "fixed": {"const": "two words"},
        "long": {"pattern": "a" * 300},
        "two": {"type": "object", "required": ["l", "r"]},
        "never": False,
    },
    additionalProperties=False,
    required=["city"],
)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "missing: city"),
        ({"city": 3}, "city: expected a string"),
        ({"city": "x"}, "city: expected a value with minLength 2"),
        ({"city": "abcdef"}, "city: expected a value with maxLength 5"),
        ({"city": "A1"}, "city: expected a value with pattern ^[a-z]+$"),
        ({"cit": "ab"}, "cit: unknown argument; did you mean 'city'?; missing: city"),
        ({"city": "ab", "days": 0}, "days: expected a value with minimum 1"),
        (
            {"city": "ab", "days": 11},
            "days: expected a value with maximum 9; days: expected a value with multipleOf 2",
        ),
        ({"city": "ab", "mode": "fas"}, "mode: expected one of the choices (choices: fast, slow)"),
        ({"city": "ab", "kind": "k"}, "kind: expected one of the choices (choices: K)"),
        ({"city": "ab", "xs": []}, "xs: expected a value with minItems 1"),
        ({"city": "ab", "xs": ["a"]}, "xs[0]: expected an integer"),
        ({"city": "ab", "o": {}}, "o: missing: a"),
        ({"city": "ab", "o": {"a": "x"}}, "o.a: expected an integer"),
        ({"city": "ab", "u": "x"}, "u: expected an integer, or null"),
        (
            {"city": "ab", "deep": {"k": "x"}},
            "deep: deep.k: an integer, or one of the choices (choices: a, b)",
        ),
        ({"city": "ab", "other": "s"}, "other: expected a value that satisfies 'not'"),
        ({"city": "ab", "either": "s"}, "either: expected an integer or true or false"),
        (
            {"city": "ab", "mixed": "s"},
            'mixed: expected one of the choices (choices: a, 1, null, {"k": "v"})',
        ),
        ({"city": "ab", "fixed": "s"}, "fixed: expected one of the choices (choices: two words)"),
        ({"city": "ab", "long": "s"}, "long: expected a value with pattern " + "a" * 200),
        ({"city": "ab", "never": 1}, "no argument that the schema forbids"),
        ({"city": "ab", "two": {}}, "two: missing: l, r"),
        ({"city": "ab", "two": {"l": 1}}, "two: missing: r"),
    ],
    ids=str,
)
def test_the_words_of_a_mistake_in_a_foreign_schema(arguments, words):
    """What a JSON Schema refuses is its path, the rule and the choices, and nothing else."""
    tool = foreign(FOREIGN, print)

    assert call(tool, arguments).text == f"Invalid arguments. {words}"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "x: required, but missing"),
        ({"y": 1}, "x: required, but missing; y: unknown argument; known: x"),
        ({"x": 1, "xx": SECRET}, "xx: unknown argument; did you mean 'x'?"),
    ],
    ids=str,
)
def test_the_words_of_a_wrong_name(arguments, words):
    """An unknown name gets the closest one, else the names that there are."""
    assert send(int, arguments).message == f"Invalid arguments. {words}"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("colour", "colour"),
        ("größe", "größe"),
        ("X-Trace", "X-Trace"),
        ("$top", "$top"),
        ("n" * 64, "n" * 64),
        ("n" * 65, "[key]"),
        (SECRET * 300, "[key]"),
        ("https://evil/x", "[key]"),
        ("www.evil.com", "[key]"),
        ("a\nb", "[key]"),
        ("\x1b[31m", "[key]"),
        ("\u202eabc", "[key]"),
        ("ignore what was said", "[key]"),
        ("", "[key]"),
    ],
    ids=ascii,
)
def test_a_wrong_name_is_repeated_only_if_it_looks_like_one(name, shown):
    """Letters, digits, `_`, `-` and `$`, at most 64: anything else may be a secret, a link or an instruction, and is not repeated."""
    tool, got = tool_of(int)
    theirs = foreign(obj({"x": {}}, additionalProperties=False), got.append)
    once = json.dumps({"x": 1, name: 2})
    twice = f"{once[:-1]}, {json.dumps(name)}: 3}}"

    for each in (tool, theirs):
        for sent, words in ((once, "unknown argument; known: x"), (twice, "sent only once")):
            result = call(each, sent)
            assert result.text == f"Invalid arguments. {shown}: {words}"
    assert got == []


@pytest.mark.parametrize("name", ["rows", "a.b", "$x", "[", "no b", "größe"])
@pytest.mark.parametrize("length", [1, 2000])
@pytest.mark.parametrize("space", ["", " \n\r\t"])
def test_a_name_is_sent_only_once_in_short_text_and_in_long(name, length, space):
    """Where a list or a model makes the text long, a name that stands twice is refused, and one that stands in a value too is not."""
    tool, got = tool_of(Annotated[list[dict[str, str]], Field(alias=name)])
    rows = [{name: "x" * length}]
    once = json.dumps({name: rows}, ensure_ascii=False)

    result = call(tool, f"{once[:-1]},{space}{once[1:]}")
    assert result.error.type == "ArgumentError"
    assert result.text.endswith(": sent only once")
    assert got == []
    assert not call(tool, once).is_error
    assert got == [rows]


@pytest.mark.parametrize(
    ("annotation", "sent", "said"),
    [
        (Order, {"item": []}, "x.item: unknown argument; did you mean 'items'?"),
        (
            Order,
            {"items": [{}, {"quantty": 1}]},
            "x.items[1].quantty: unknown argument; did you mean 'quantity'?",
        ),
        (
            Order,
            {"spare": {"my key": {"zzz": 1}}},
            "x.spare.[key].zzz: unknown argument; known: quantity, sku",
        ),
        (
            Order,
            {"gift": {"my key": 1}},
            "x.gift.[key]: unknown argument; known: quantity, sku",
        ),
        (
            Order,
            {SECRET + "!": 1},
            "x.[key]: unknown argument; known: items, spare, gift, either",
        ),
        (
            Order,
            {"either": {"my key": {"skuu": 1}}},
            "x.either.[key].skuu: unknown argument; did you mean 'sku'?",
        ),
        (
            Pet,
            {"kind": "cat", "meow": 1, "bark": 2},
            "x.bark: unknown argument; known: kind, meow",
        ),
        (Json[Item], '{"zzz": 1}', "x: Extra inputs are not permitted"),
    ],
    ids=["here", "list", "dict", "union", "odd", "either", "other member", "JSON text"],
)
def test_a_wrong_name_inside_of_a_model_gets_the_closest_one_there(annotation, sent, said):
    """The names that a nested model knows are named like those of the tool: through lists, dicts, unions and references, but not in a text."""
    assert send(annotation, {"x": sent}).message == f"Invalid arguments. {said}"


@pytest.mark.parametrize(
    "sent", ["§", "12345678-1234-1234-1234-12345678901§", ["§"], {"§": "§"}], ids=ascii
)
@pytest.mark.parametrize("annotation", [uuid.UUID, complex])
def test_no_character_that_was_sent_is_repeated(annotation, sent):
    """pydantic's words on a UUID repeat a character that was sent, and those on a complex number hold a URL: ours do neither."""
    message = send(annotation, {"x": sent}).message

    assert message.startswith("Invalid arguments. x: ")
    assert "§" not in message and "://" not in message


@pytest.mark.parametrize("sent", ["a half", [1]], ids=str)
@since_pydantic_2_14
def test_what_a_fraction_looks_like(sent):
    """A wrong fraction is told what one looks like; pydantic's words do not fit into the sentence."""
    message = send(Fraction, {"x": sent}).message

    assert message == "Invalid arguments. x: expected a fraction, such as '1/3'"


@pytest.mark.parametrize(
    ("sent", "wrong"),
    [
        ([1], "must be a JSON object"),
        ("[1]", "must be a JSON object"),
        ({"x": object()}, "hold a value that JSON cannot express"),
    ],
)
@pytest.mark.parametrize("strict", [False, True])
def test_arguments_that_are_no_object(sent, wrong, strict):
    """A list in place of the arguments is refused in words, and so is what is no JSON."""
    got = []
    tool = FunctionTool(lambda x=1: got.append(x), name="f", strict=strict)

    assert call(tool, sent).text == f"Invalid arguments. the arguments {wrong}"
    assert got == []


def test_every_door_checks_and_names():
    """A foreign schema's door fills in defaults and reads packed lists; a wrapper's door knows the names of the tool within."""
    door = SchemaBinder(obj({"n": {**INT, "default": 3}, "o": {"type": "array"}}))

    assert door.values('{"o": "[1]"}') == {"n": 3, "o": [1]}
    assert PassingBinder(door).sent_form({"n": 1}) == {"n": 1}


def test_the_required_names_are_not_searched_for_each_property():
    """A stranger's thousands of properties and required names cost a look at each, and not at each pair."""

    class Names(list):
        def __contains__(self, name):
            raise AssertionError("a search of the whole list")

    door = SchemaBinder({**obj({"a": INT, "b": INT}), "required": Names("a")})

    assert door.values('{"a": 1, "b": null}') == {"a": 1}


class Share(float, enum.Enum):
    WHOLE = 1.0


class Mixed(enum.Enum):
    ONE = 1
    WORD = "one"


@pytest.mark.parametrize(
    ("annotation", "one"),
    [(Literal[1, "a"], 1), (Literal[1, "a"] | None, 1), (Share, Share.WHOLE), (Mixed, Mixed.ONE)],
    ids=["literal", "optional", "float enum", "mixed enum"],
)
def test_true_is_none_of_the_numbers_among_choices(annotation, one):
    """`true` is refused where 1 is one choice of several kinds, or an Enum's float."""
    assert send(annotation, {"x": True}).type == "ArgumentError"
    received = send(annotation, {"x": 1})
    assert received == one and type(received) is type(one)


def test_false_is_not_the_zero_among_choices():
    """`false` is refused where 0 is one choice of several kinds."""
    assert send(Literal[0, "a"], {"x": False}).type == "ArgumentError"
    assert send(Literal[0, "a"], {"x": 0}) == 0


@pytest.mark.parametrize("choices", [Literal[1, "a"], Mixed])
def test_true_is_no_number_in_a_list_beside_choices_of_several_kinds(choices):
    """The schema of such choices names no type, but it is none of a list or an object."""
    for holder, sent in ((list[int], [True]), (dict[str, int], {"k": True}), (list[Mixed], [True])):
        assert send(holder | choices, {"x": sent}).type == "ArgumentError"
    assert send(list[int] | choices, {"x": [1]}) == [1]
    assert send(list[bool] | choices, {"x": [True]}) == [True]


def test_choices_and_lax_numbers_beside_an_unseen_form(caplog):
    """Members of an Enum, a bool beside them and a number with `strict=False` are taken as elsewhere."""

    class Pair(NamedTuple):
        either: Literal[Color.RED] | Literal[Mixed.ONE] | bool
        one: Literal[Mixed.ONE] = Mixed.ONE

    class Lax(BaseModel, strict=True):
        pair: Pair | None = None
        count: int = Field(1, strict=False)

    assert send(Pair, {"x": [True]}) == send(Pair, {"x": {"either": True}}) == (True, Mixed.ONE)
    assert send(Pair, {"x": {"either": 1}}) == (Mixed.ONE, Mixed.ONE)
    assert send(Pair, {"x": {"either": 1, "one": True}}).type == "ArgumentError"
    assert send(Lax, {"x": {"count": "3"}}).count == 3
    assert send(Lax, {"x": {"count": True}}).type == "ArgumentError" and caplog.records == []


def test_true_is_a_choice_where_it_is_listed():
    """A boolean among the choices is taken as itself."""
    assert send(Literal[2, True, "a"], {"x": True}) is True


COUNTERS = [
    FunctionTool(lambda **rest: len(rest), name="f", max_argument_bytes=None),
    foreign({"type": "object"}, len, max_argument_bytes=None),
]


@pytest.mark.parametrize("tool", COUNTERS, ids=["function", "schema"])
def test_a_huge_name_is_a_name(tool):
    """A name of a megabyte may stand beside a colon in a value, and is refused when it is sent twice."""
    name = json.dumps("n" * 1_100_000)
    once, twice = f'{{{name}: ":"}}', f"{{{name}: 1, {name}: 2}}"

    assert call(tool, once).value == 1
    assert call(tool, twice).text == "Invalid arguments. [key]: sent only once"


@pytest.mark.parametrize("tool", COUNTERS, ids=["function", "schema"])
def test_many_names_are_read_in_one_pass(tool):
    """A thousand names are not looked for one after the other."""
    arguments = json.dumps({**{f"n{i}": i for i in range(1_000)}, "text": ":"})
    searches = linear_pattern.cache_info().misses

    assert call(tool, arguments).value == 1_001
    assert linear_pattern.cache_info().misses == searches


def test_many_mistakes_are_not_all_looked_at():
    """Of thousands of mistakes a thousand are looked at, and their number is said."""
    error = send(list[int], {"x": ["no"] * 1_500})

    assert error.message.endswith("x[5]: expected an integer; and 994 more")


DOUBLING = {
    f"n{i}": {"anyOf": [{"$ref": f"#/$defs/n{i + 1}"}] * 2} if i < 28 else STR for i in range(29)
}


def test_a_schema_that_costs_too_much_is_refused_not_run():
    """References that double 28 times are given up, and the model is told to send less."""
    tool = foreign({"type": "object", "properties": {"a": DOUBLING["n0"]}, "$defs": DOUBLING}, len)

    assert call(tool, {"a": 3}).text == (
        "Invalid arguments. the arguments take too much work to check against the tool's schema:"
        " send less at once"
    )
    assert call(tool, {"a": "x"}).success


@pytest.mark.parametrize(
    ("items", "unique"),
    [
        ([{"k": i} for i in range(4_000)], True),
        ([1, True, "1", None, False, 0, ""], True),
        ([[], {}], True),
        ([[1], [2]], True),
        ([{"a": [1]}, {"a": [2]}], True),
        ([1, 1.0], False),
        ([[1], [1.0]], False),
        ([None, None], False),
        ([{"a": [1], "b": 2}, {"b": 2, "a": [1]}], False),
    ],
    ids=lambda given: str(given)[:24],
)
def test_items_are_unique_as_json_schema_says(items, unique):
    """Items are compared in linear time and at every depth: 1 is 1.0 and not true, objects are equal by their members."""
    tool = foreign(obj({"a": {"type": "array", "uniqueItems": True}}))
    refused = "Invalid arguments. a: expected a value with uniqueItems True"

    assert call(tool, {"a": items}).text == (
        json.dumps({"a": items}, separators=(",", ":")) if unique else refused
    )


def test_long_text_names_the_first_problem_of_each_dict():
    """Beyond 64 KiB the other values of a wrong dict are not looked at; short text names each."""
    for kind in (dict, collections.OrderedDict):
        sent = {"first": {"x": "no"}, "second": {"x": 1, "n": "no"}}
        short = refusal(kind[str, Point], sent)
        sent |= {f"n{number}": {"x": 1, "n": "no"} for number in range(20_000)}
        long = refusal(kind[str, Point], sent)

        assert [problem["path"] for problem in short.problems] == ["x.[key].x", "x.[key].n"]
        assert [problem["path"] for problem in long.problems] == ["x.[key].x"]
    numbers = {f"n{number}": "no" for number in range(20_000)}
    assert len(refusal(collections.Counter[str], numbers).problems) == 1
    assert len(refusal(collections.deque[int], ["no"] * 20_000).problems) == 1


def test_long_text_names_the_first_problem_of_each_list():
    """Beyond 64 KiB the other items of a wrong list are not looked at; short text names each."""

    def take(xs: list[int], ys: list[int]):
        return len(xs)

    tool = FunctionTool(take)
    long = call(tool, {"xs": ["no"] * 20_000, "ys": ["no"] * 3}).error
    short = call(tool, {"xs": ["no"] * 2, "ys": [1]}).error

    assert long.message == (
        "Invalid arguments. xs[0]: expected an integer; ys[0]: expected an integer"
    )
    assert short.message == (
        "Invalid arguments. xs[0]: expected an integer; xs[1]: expected an integer"
    )


LOOPS = [
    *({"items": part} for part in (True, {}, {"unknown": 1})),
    *({"contains": part, "minContains": 0} for part in (True, {}, False)),
    {"unevaluatedItems": True},
    *({"additionalProperties": part} for part in (True, {})),
    *({"propertyNames": part} for part in (True, {})),
    {"patternProperties": {"n": True}},
    {"patternProperties": {"x": True}, "additionalProperties": True},
    {"unevaluatedProperties": True},
]


@pytest.mark.usefixtures("little_work")
@pytest.mark.parametrize("part", LOOPS, ids=json.dumps)
def test_keywords_that_look_at_each_part_of_a_value_count_as_work(part):
    """A schema that allows anything is quick for one value, and takes minutes for many of them."""
    is_list = any(word in part for word in ("items", "contains", "unevaluatedItems"))
    often = foreign({"properties": {"x": {"allOf": [part] * 100}}})
    value = [1] * 2_000 if is_list else {f"n{number}": 1 for number in range(2_000)}

    assert "take too much work" in call(often, {"x": value}).text
    once = foreign({"properties": {"x": part}})
    assert "too much work" not in call(once, {"x": value}).text


@pytest.mark.parametrize("size", [10, 60])
def test_more_bytes_than_the_limit_are_refused(size):
    """The limit counts bytes of UTF-8, and None lifts it; a wrapper keeps the limit of its tool."""

    def take(text: str):
        return len(text)

    tool = FunctionTool(take, max_argument_bytes=100)
    sent = json.dumps({"text": "ä" * size}, ensure_ascii=False)
    fits = len(sent.encode()) <= 100

    for each in (tool, WrapperTool(tool)):
        assert call(each, sent).success is fits
        assert call(each, {"text": "ä" * size}).success is fits
        assert "more than 100 bytes" in call(each, {"text": "\ud800" * 31}).text
    free = FunctionTool(take, max_argument_bytes=None)
    assert call(free, sent).value == size


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, "1"])
def test_a_limit_of_bytes_is_a_positive_int(limit):
    """Anything else is refused at definition."""
    with pytest.raises(DefinitionError, match="max_argument_bytes"):
        FunctionTool(lambda: None, name="f", max_argument_bytes=limit)


def test_a_backslash_in_a_value_is_no_reason_to_read_the_text_again(monkeypatch):
    """Only a name with an escape in it makes the binder look at every name."""
    read, loads = [], json.loads
    monkeypatch.setattr(json, "loads", lambda *given, **how: read.append(1) or loads(*given, **how))

    def take(text: str, size: Size):
        return text

    tool = FunctionTool(take)
    values = {"text": 'a\n"b" \\', "size": {"width": 1}}

    assert call(tool, json.dumps(values)).success and read == []
    assert call(tool, '{"te\\u0078t": "a", "size": {"width": 1}}').success and read == [1]


@pytest.mark.parametrize("name", ['a"b', "a\\", '\\"', "\n"])
def test_a_name_that_is_written_with_escapes_is_sent_only_once(name):
    """An escaped quote does not end the name."""

    def take(**numbers: int) -> dict[str, int]:
        return numbers

    quoted, tool = json.dumps(name), FunctionTool(take)

    assert call(tool, f"{{{quoted}: 1}}").value == {name: 1}
    assert "sent only once" in call(tool, f"{{{quoted}: 1, {quoted}: 2}}").text


T = TypeVar("T")


def test_a_generic_typed_dict_keeps_the_word_of_its_base():
    """`ignore` that a generic base says holds for what is made of it."""

    class Base(TypedDict, Generic[T]):
        __pydantic_config__ = ConfigDict(extra="ignore")
        a: T

    class Made(Base[int]):
        b: int

    def f(p: Made) -> dict:
        return dict(p)

    assert FunctionTool(f).bind({"p": {"a": 1, "b": 2, "c": 3}}).values == {"p": {"a": 1, "b": 2}}


def test_a_bool_for_a_number_hides_no_other_problem():
    """The model reads all that is wrong at once."""

    @FunctionTool
    def take(a: int, b: int) -> int:
        return a + b

    assert call(take, {"a": "x", "b": True}).text == (
        "Invalid arguments. a: expected an integer; b: expected an integer, not a boolean"
    )


NAMES = [f"n{i}" for i in range(21)]
MANY = obj(dict.fromkeys(NAMES, STR), additionalProperties=False)


class Empty(BaseModel):
    """A model without fields."""


@pytest.mark.parametrize(
    ("tool", "sent", "said"),
    [
        (
            tool_of(Empty)[0],
            {"x": {"y": 1}},
            "x.y: unknown argument; no other names are known here",
        ),
        (foreign(MANY), {"zzzz": 1}, f"zzzz: unknown argument; known: {', '.join(NAMES[:20])}"),
        (FunctionTool(lambda: 1, name="f"), {"x": 1}, "x: unknown argument; the tool takes none"),
    ],
    ids=["empty model", "many", "no parameters"],
)
def test_an_unknown_name_is_told_what_is_known(tool, sent, said):
    """At most twenty names are listed; an object without names says that it has none."""
    assert call(tool, sent).text == f"Invalid arguments. {said}"


class Range(NamedTuple):
    """A range of prices."""

    low: int
    high: int = 9


def test_an_object_in_the_place_of_a_named_tuple_is_told_its_fields():
    """The schema shows a NamedTuple as a list, so only the error can name its fields."""

    @FunctionTool
    def search(price: Range, other: tuple[int, int, int] = (1, 2, 3)) -> str:
        return f"{price.low}-{price.high}"

    for sent, said in {
        "lowest": "price.low: required, but missing; "
        "price.lowest: unknown argument; did you mean 'low'?",
        "x": "price.low: required, but missing; price.x: unknown argument; known: low, high",
    }.items():
        assert call(search, {"price": {sent: 1}}).text == f"Invalid arguments. {said}"
    assert "price.low: expected an integer" in call(search, {"price": {"low": "no"}}).text
    assert "other" in call(search, {"price": [1], "other": {"low": 1}}).text
    for price in ({"low": 1}, [1], [1, 9]):
        assert call(search, {"price": price}).value == "1-9"


@since_pydantic_2_14
def test_a_short_list_in_the_place_of_a_named_tuple_is_told_what_is_missing():
    """The error names the place in the list."""
    assert "x[0]: required" in call(taking(Range), {"x": []}).text


class Grade(enum.IntEnum):
    SMALL = 1


class Spot(NamedTuple):
    row: int
    at: float = 0
    rest: list[int] = []
    step: Literal[1, 2] = 1
    size: Grade = Grade.SMALL
    flag: int | bool = 0
    yes: Literal[1, True] = 1


class ByName(BaseModel, populate_by_name=True):
    row: int = Field(alias="Row")


class SeveralNames(BaseModel):
    row: int = Field(validation_alias=AliasChoices("Row", AliasPath("rows", 0)))


@pytest.mark.parametrize("strict", [False, True])
def test_a_bool_is_no_number_where_the_schema_does_not_show_the_value(strict):
    """pydantic takes an object for a named tuple, a text for `Json`, and names that are no alias."""
    number, choice = "expected an integer", "expected one of the choices"
    for kind, sent, place, said in (
        (Spot, {"row": True}, "x.row", number),
        (Spot, {"row": 1, "at": False}, "x.at", "expected a number"),
        (Spot, {"row": 1, "rest": [1, True]}, "x.rest[1]", number),
        (Spot, {"row": 1, "step": True}, "x.step", choice),
        (Spot, {"row": 1, "size": True}, "x.size", choice),
        (list[Spot], [{"row": True}], "x[0].row", number),
        (Spot | str, {"row": True}, "x.row", number),
        (ByName, {"row": True}, "x.[key]", number),
        (SeveralNames, {"rows": [True]}, "x.[key][0]", number),
        (Json[list[int]], "[true]", "x", number),
    ):
        tool = tool_of(kind, strict=strict)[0]
        for arguments in ({"x": sent}, json.dumps({"x": sent})):
            text = call(tool, arguments).text
            assert text.startswith(f"Invalid arguments. {place}: {said}"), text


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Json[Literal[1]], r'"\u0074rue"'),
        (list[Json[Literal[1]]], r'["tru\u0065"]'),
        (Json[Json[int]], r'"\"tru\\u0065\""'),
        (Json[Json[Literal[1]]], r'"\"\u005cu0074rue\""'),
    ],
)
def test_a_bool_in_a_text_of_json_is_no_number_in_any_spelling(kind, text):
    """Each text inside of a text is read again, so its escapes may hide the letters of `true`."""
    assert "not a boolean" in call(tool_of(kind)[0], f'{{"x": {text}}}').text


@pytest.mark.parametrize(
    "kind",
    [
        *(
            datetime.date | complex,
            datetime.timedelta | complex,
            complex | Decimal,
            Fraction | complex,
        ),
        *(int | float, float | int, Decimal | int, int | datetime.timedelta, Literal[1] | float),
    ],
    ids=str,
)
@pytest.mark.parametrize("sent", [0, 1, 1.0, 2.5, "1", "1.0"], ids=repr)
def test_a_check_for_bools_changes_no_choice_of_a_union(kind, sent):
    """A number is read by the member that pydantic chooses."""
    text = json.dumps(sent)
    read = pydantic.TypeAdapter(kind).validate_json
    try:
        wanted = read(text, strict=True)
    except pydantic.ValidationError:
        wanted = read(text)
    found = tool_of(kind)[0].bind({"x": sent}).values["x"]
    assert (type(found), found) == (type(wanted), wanted)


@pytest.mark.parametrize(
    "kind", [Decimal, Fraction, datetime.timedelta, Literal[7] | complex], ids=str
)
@pytest.mark.parametrize("how", [BeforeValidator(lambda x: x), WrapValidator(lambda x, go: go(x))])
@since_pydantic_2_14
def test_a_bool_that_an_authors_validator_passes_on_is_no_number(kind, how):
    """After it, pydantic reads values of Python: true as the fraction 1, or as one second."""
    for annotation in (Annotated[kind, how], Annotated[list[kind] | kind, how]):
        assert "not a boolean" in str(refusal(annotation, True))
        assert call(tool_of(annotation)[0], {"x": 1}).success


def test_what_is_a_number_stays_one_beside_unseen_bools():
    """Texts and whole floats are still read as numbers, and a bool is one where the type has it."""
    sent = {"row": "2", "at": 1, "rest": [3.0], "step": 2, "size": 1, "flag": True, "yes": True}
    wanted = Spot(2, 1.0, [3], 2, Grade.SMALL, True, True)
    for arguments in ({"x": sent}, {"x": [*sent.values()]}):
        tool, got = tool_of(Spot)
        assert call(tool, arguments).success
        [found] = got
        assert found == wanted
        assert [*map(type, found)] == [*map(type, wanted)]
    alias = TypeAliasType("alias", int)
    for kind, numbers in ((tuple[alias, alias, Spot], [1, "2", [3]]), (ByName, {"row": "4"})):
        assert call(tool_of(kind)[0], {"x": numbers}).success


class Reading(BaseModel):
    at: float | datetime.date
    by_level: dict[float, str] = {}


@dataclasses.dataclass
class Level:
    height: float | datetime.date


class Loose(BaseModel, allow_inf_nan=True):
    at: float | datetime.date


@pytest.mark.parametrize("text", ["NaN", "-inf", "1e999", " Infinity "])
def test_no_float_inside_of_a_class_becomes_infinite(text):
    """In a union with a text, and as the key of a dict, it is refused as everywhere else."""
    for kind, sent in (
        (Reading, {"at": text}),
        (Reading, {"at": 1, "by_level": {text: "x"}}),
        (Level, {"height": text}),
        (list[Level], [{"height": text}]),
        (Loose, {"at": text}),
    ):
        with pytest.raises(ArgumentError):
            tool_of(kind)[0].bind({"x": sent})


class Wave(BaseModel):
    z: complex = 0j
    data: Json[Any] = None


class LooseWave(Wave, allow_inf_nan=True):
    pass


@pytest.mark.parametrize("text", ["nan", "1+infj", "1e999", "-Infinityj"])
def test_no_complex_number_becomes_infinite(text):
    """Neither part of a complex number is NaN or infinite, wherever it stands."""
    waves = ((kind, {"z": text}) for kind in (Wave, LooseWave))
    for kind, sent in ((complex, text), (list[complex], [text]), *waves):
        assert "expected a finite number" in str(refusal(kind, sent))
    assert send(list[complex], {"x": ["1+2j", 3]}) == [1 + 2j, 3]


@pytest.mark.parametrize("text", ["NaN", '{"a": [1, Infinity]}', '[[{"": -1e999}]]'])
def test_no_number_in_a_text_of_json_becomes_infinite(text):
    """The JSON of a `Json` parameter follows the rules of the arguments, at every depth."""
    waves = ((kind, {"data": text}) for kind in (Wave, LooseWave))
    for kind, sent in ((Json, text), (Json[Any], text), *waves):
        assert "expected a finite number" in str(refusal(kind, sent))
    assert send(Json, {"x": '{"a": [1.5, "NaN", null]}'}) == {"a": [1.5, "NaN", None]}
    assert "JSON" in str(refusal(Json, "[1,"))
    assert "JSON" in str(refusal(Json, 5))


def test_a_model_cannot_set_the_keyword_of_a_partial():
    """Neither a named parameter nor `**kwargs` takes a keyword that the partial has set."""

    def send(text: str, sender: str = "nobody", **headers: str) -> str:
        return f"{text} {sender} {headers}"

    for fixed in ({"sender": "us"}, {"token": "ours"}):
        tool = FunctionTool(functools.partial(send, **fixed))
        [name] = fixed
        assert name not in tool.schema.plain["properties"]
        refused = call(tool, {"text": "hi", name: "them"})
        assert refused.error.type == "ArgumentError"
        assert f"{name}: unknown argument" in refused.text
        assert call(tool, {"text": "hi", "x": "y"}).success


class Both(BaseModel):
    op: Literal["both"]
    left: "Term"
    right: Annotated["Term", Field(description="the other one")]


class Either(BaseModel):
    op: Literal["either"]
    left: "Term"
    right: "Term"


class Leaf(BaseModel):
    op: Literal["leaf"]
    value: float


Term = Annotated[Both | Either | Leaf, Field(discriminator="op")]
Both.model_rebuild()
Either.model_rebuild()


def test_a_deep_tree_of_a_recursive_union_is_checked_in_linear_time():
    """Each level doubled the work: a tree of forty levels never ended."""

    def tree(leaf):
        for _ in range(40):
            leaf = {"op": "both", "left": leaf, "right": {"op": "leaf", "value": 1}}
        return {"x": leaf}

    tool, got = tool_of(Term)
    assert call(tool, tree({"op": "leaf", "value": 1e100})).success
    assert len(got) == 1
    wrong = call(tool, tree({"op": "leaf", "value": 1, "valeu": 2})).text
    assert wrong.endswith("left.valeu: unknown argument; did you mean 'value'?")
    assert "true or false" not in call(tool, tree({"op": "leaf", "value": True})).text


class Add(BaseModel):
    left: "Untagged"
    x: int = 0


@dataclasses.dataclass
class Mul:
    left: "Untagged"
    y: int = 0


class Sub(TypedDict, total=False):
    left: "Untagged"
    z: int


Untagged = TypeAliasType(
    "Untagged", "Add | Mul | Sub | list[Untagged] | tuple[Untagged, ...] | int"
)
Add.model_rebuild()


def leveled(depth, leaf, wrap=lambda inner: {"left": inner}):
    for _ in range(depth):
        leaf = wrap(leaf)
    return {"x": leaf}


@pytest.mark.parametrize("leaf", [1, "no", {"left": 1, "w": 2}])
def test_a_recursive_union_without_tags_is_not_read_without_end(leaf):
    """Each level of classes that may all fit multiplies the work: forty levels would take years."""
    tool, got = tool_of(Untagged)
    for sent in (leveled(40, leaf), leveled(40, leaf, lambda inner: [inner])):
        result = call(tool, sent)
        if leaf != 1 or "left" in sent["x"]:  # The first kind of list that fits is taken at once.
            assert result.error.type == "ArgumentError"
            assert "reading the arguments takes too long: send less at once" in result.text
        else:
            assert result.success
    for sent in ({"left": {"left": 1}}, {"x": 1, "left": {"left": 1, "y": 2}}, [[], 1]):
        assert call(tool, {"x": sent}).success
        assert got[-1] == pydantic.TypeAdapter(Untagged).validate_json(json.dumps(sent))


class Ours(BaseModel):
    inner: "OursAlias | TheirsAlias | None" = None
    again: "Ours | None" = None


class Theirs(BaseModel):
    inner: "OursAlias | TheirsAlias | None" = None
    again: "Theirs | None" = None
    n: int = 0


OursAlias, TheirsAlias = TypeAliasType("OursAlias", Ours), TypeAliasType("TheirsAlias", Theirs)
Ours.model_rebuild()
Theirs.model_rebuild()


def test_an_alias_in_a_recursive_union_is_followed_to_its_class():
    """The alias of a class that refers to itself is a reference to a reference."""
    tool, got = tool_of(Ours | Theirs)
    deep = leveled(16, {"n": "no"}, lambda inner: {"inner": inner})

    assert call(tool, {"x": {"inner": {"n": 1}}}).success and got
    assert "reading the arguments takes too long" in call(tool, deep).text


def test_readings_of_a_recursive_union_also_have_a_time_limit(monkeypatch):
    """A few thousand readings of a long text would take as long as many of a short one."""
    tool, got = tool_of(Untagged)
    sent = leveled(8, [1, 2])

    assert call(tool, sent).success and len(got) == 1
    monkeypatch.setattr(readings, "SECONDS", -1.0)
    assert "reading the arguments takes too long" in call(tool, sent).text
    assert len(got) == 1


class Red(BaseModel):
    left: "Red | Black | int"
    a: int = 0


class Black(BaseModel):
    left: "Red | Black | int"
    b: int = 0


def test_two_classes_that_may_both_fit_are_not_read_without_end():
    """Two are enough to double the work at each level."""
    assert call(tool_of(Red | Black)[0], leveled(5, 1)).success
    refused = str(refusal(Red | Black, leveled(20, 1)["x"]))
    assert "reading the arguments takes too long" in refused


def test_a_model_that_is_a_tool_takes_a_recursive_union():
    """The model validates once more what was counted already."""

    class Take(ToolModel):
        x: Untagged

        def run(self) -> str:
            return type(self.x).__name__

    assert call(Take.tool(), {"x": {"x": 1, "left": 2}}).value == "Add"


def test_a_recursive_union_names_its_problems_as_long_as_they_are_few():
    """A member that only counts is no problem of the arguments."""
    near = refusal(Untagged, leveled(2, "no")["x"])
    assert near.problems[0]["path"] == "x.left.left"
    assert "functool" not in json.dumps(near.problems)
    far = refusal(Untagged, leveled(9, "no")["x"])
    assert far.problems == ({"path": "x", "expected": "one of the types of the schema"},)


Deep = TypeAliasType("Deep", "int | bool | list[Deep]")


def test_a_long_text_keeps_no_errors_of_the_levels_of_a_union():
    """pydantic's errors hold copies of what stands below them: 90 levels of a megabyte took 5.8 GB."""
    value: Any = ["a" * 70_000]
    for _ in range(90):
        value = [value]

    assert refusal(Deep, value).problems == (
        {"path": "x" + "[0]" * 91, "expected": "one of the types of the schema"},
    )
    assert refusal(Deep, [["a", "b"]]).problems[-1]["path"] == "x[0][1]"


Plus = TypeAliasType("Plus", "Sum | Weighted | list[Plus] | float")


class Sum(BaseModel):
    left: Plus
    right: Plus


class Weighted(BaseModel):
    left: Plus
    weight: float


Sum.model_rebuild()
Weighted.model_rebuild()


def test_an_object_is_read_only_by_the_class_whose_required_names_it_has():
    """Both classes would read `left`, at each of forty levels."""
    sums = leveled(40, 1, lambda inner: {"left": inner, "right": 1})["x"]

    assert send(Plus, {"x": sums}).model_dump() == sums
    wrong = refusal(Plus, leveled(3, "no", lambda inner: {"left": inner, "weight": 1})["x"])
    assert {problem["path"] for problem in wrong.problems} == {"x.left.left.left"}


Look = TypeAliasType("Look", "int | Style | Product")


class Style(BaseModel):
    color: str = "red"
    inner: Look | None = None


class Product(BaseModel):
    left: Look
    right: Look


Style.model_rebuild()
Product.model_rebuild()


def test_a_member_that_may_not_be_meant_does_not_hide_the_others():
    """An object that lacks a name of one class is not judged by a class without required names alone."""
    wrong = {p["path"]: p["expected"] for p in refusal(Look, {"left": 1, "rigth": 2}).problems}

    assert wrong["x.right"] == "required, but missing"
    assert "did you mean 'right'?" in wrong["x.rigth"]


Moment = TypeAliasType("Moment", "int | datetime.date | Between")


class Between(BaseModel):
    start: Moment
    end: Moment


Between.model_rebuild()


@pytest.mark.parametrize("sent", [[1], {"start": 1}])
def test_a_member_for_texts_does_not_hide_the_members_for_objects(sent):
    """A date takes no object, so it is not all that an object without a required name may be."""
    problems = refusal(Moment, sent).problems

    assert "an integer" in problems[0]["expected"]
    assert "object" in problems[0]["expected"] or problems[1]["path"] == "x.end"


Figure = TypeAliasType("Figure", "Decimal | set[Figure]")


def test_a_decimal_in_a_recursive_union_may_be_a_list():
    """pydantic reads a sign, digits and an exponent as a decimal."""
    plain = pydantic.TypeAdapter(Figure).validate_json("[0, [1, 2], -1]")

    assert send(Figure, {"x": [0, [1, 2], -1]}) == plain == Decimal("1.2")


class Money:
    """An author's type that takes an object in lax mode only."""

    def __init__(self, sent: Any) -> None:
        self.sent = sent

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        either = handler.generate_schema(str | dict[str, int])
        lax = core_schema.no_info_after_validator_function(cls, either)
        strict = core_schema.no_info_after_validator_function(cls, core_schema.str_schema())
        return core_schema.lax_or_strict_schema(lax, strict)


Price = TypeAliasType("Price", "Money | list[Price] | dict[str, list[Price]]")


def test_a_member_that_takes_an_object_in_lax_mode_only_is_tried():
    """What a member of a recursive union takes is what it takes in lax mode."""
    assert send(Price, {"x": [{"CHF": 5}]})[0].sent == {"CHF": 5}


def test_a_recursive_union_takes_what_an_authors_validator_has_made():
    """An instance of a class is no JSON value, so any member may take it."""
    made = Annotated[Plus, BeforeValidator(lambda sent: Sum(left=1, right=2))]

    assert send(made, {"x": 3}) == Sum(left=1, right=2)


def test_a_member_of_a_union_may_be_wrapped_many_times():
    """What it takes is not looked up that deep, so it is tried with each list and object."""
    wrapped: Any = list[int]
    for _ in range(10):
        wrapped = pydantic.RootModel[wrapped]

    assert send(list[Sum] | wrapped, {"x": [1]}).model_dump() == [1]
    assert send(list[Sum] | wrapped, {"x": [{"left": 1, "right": 2}]}) == [Sum(left=1, right=2)]


def test_all_readings_of_a_long_text_share_one_time(monkeypatch):
    """Strict mode, lax mode and the search for problems would take their time each."""
    made = []

    class Noted(readings.WorkLeft):
        def __init__(self, *args):
            made.append(args)
            super().__init__(*args)

    monkeypatch.setattr(readings, "WorkLeft", Noted)
    refused = refusal(Plus, [*range(40_000), "no"])
    assert refused.problems[0]["path"] == "x[40000]"
    assert len(made) == 1


def test_long_arguments_of_a_recursive_union_are_read():
    """The number of readings may grow with the text, as long as each value is read a few times."""
    shallow = [{"left": {"left": number}} for number in range(5_000)]
    tool, got = tool_of(list[Untagged])
    assert call(tool, {"x": shallow}).success
    assert got[0] == shallow
    wide = {f"n{number}": [number, {}] for number in range(9_000)}
    JSON = TypeAliasType("JSON", "dict[str, JSON] | list[JSON] | str | int")
    assert send(JSON, {"x": wide}) == wide


@pytest.mark.parametrize("options", [{}, {"strict": True}])
def test_no_garbage_is_collected_while_long_arguments_become_objects(options):
    """The collector would look at all objects many times. It runs again afterwards, also after a refusal."""
    seen = []

    def look(text):
        seen.append(gc.isenabled())
        assert text != "bad"
        return text

    @FunctionTool(**options)
    def take(texts: list[str], y: Annotated[str, AfterValidator(look)]):
        """Take."""

    long = ["a"] * 20_000
    assert call(take, {"texts": [], "y": "good"}).success and seen == [True]
    assert call(take, {"texts": long, "y": "good"}).success and not any(seen[1:])
    assert call(take, {"texts": long, "y": "bad"}).is_error and not any(seen[1:])
    assert gc.isenabled()
    gc.disable()
    try:
        assert call(take, {"texts": long, "y": "good"}).success and not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_collects_garbage_again():
    """A thread of its parent that reads long arguments would have enabled the collector later."""
    begun, forked = threading.Event(), threading.Event()

    def wait(text):
        begun.set()
        forked.wait(20)
        return text

    @FunctionTool
    def take(texts: list[str], y: Annotated[str, AfterValidator(wait)]):
        """Take."""

    given = {"texts": ["a"] * 20_000, "y": "b"}
    thread = threading.Thread(target=call, args=(take, given))
    thread.start()
    begun.wait()
    child = os.fork()
    if child == 0:
        os._exit(not gc.isenabled())
    forked.set()
    thread.join()

    assert os.waitpid(child, 0)[1] == 0
    assert gc.isenabled()


@pytest.mark.parametrize(
    "work",
    [
        taking(Any).bind,
        foreign({"properties": {"x": {"type": "array"}}}).bind,
        lambda sent: ApprovalRequest.of("pay", "", sent, ""),
    ],
    ids=["a function", "a foreign schema", "a request"],
)
def test_no_step_of_a_long_call_looks_for_garbage(work):
    """A hundred thousand lists would make the collector run hundreds of times."""
    sent = {"x": [[]] * 100_000}
    collections = []

    def collected(phase, info):
        collections.append(phase)

    gc.callbacks.append(collected)
    try:
        bound = work(sent)
    finally:
        gc.callbacks.remove(collected)

    assert len(collections) < 50
    assert bound.arguments == sent


@pytest.mark.parametrize("count", [1_000, 40_000])
def test_the_strict_form_of_a_union_takes_limited_work(count):
    """Each object is compared with the members of a union. In a megabyte that took seconds."""
    tool, got = tool_of(list[Red | Black], strict=True)
    sent = json.dumps({"x": [{"left": number, "a": 1} for number in range(count)]})

    if count == 1_000:
        assert call(tool, sent).success and len(got[0]) == count
    else:
        assert "too much work to check" in call(tool, sent).text and got == []


def test_a_reference_in_the_strict_form_is_followed_once(monkeypatch):
    """A union whose members are references is decoded without looking them up for each value."""
    followed = []

    def resolved(root, schema):
        followed.append(schema)
        return json_schema.resolved(root, schema)

    tool, got = tool_of(list[Red | Black], strict=True)
    monkeypatch.setattr(shapes, "resolved", resolved)
    counts = []
    for length in (100, 1_000):
        followed.clear()
        assert call(tool, {"x": [{"left": {"left": 1, "b": 2}, "a": None}] * length}).success
        counts.append(len(followed))
    assert counts[1] <= counts[0] and len(got[1]) == 1_000


@pytest.mark.parametrize("kind", [re.Pattern, re.Pattern[str], re.Pattern[str] | None])
def test_a_pattern_has_a_longest_length(kind):
    """Python compiles a text of a megabyte for seconds, and one of ranges for minutes."""
    assert send(kind, {"x": "[a-z]" * 200}) == re.compile("[a-z]" * 200)
    for length in (1_001, 3_000):
        assert refusal(kind, "a" * length).problems[0] == {
            "path": "x",
            "expected": "patterns of at most 1,000 characters in all",
        }
    assert "regular expression" in str(refusal(kind, "("))


def test_the_patterns_of_one_call_are_counted_together():
    """A list of short patterns takes as long to compile as one long pattern."""
    tool, got = tool_of(list[re.Pattern[str]])

    for _ in range(3):
        assert call(tool, {"x": ["a" * 500, "b" * 500]}).success
    assert "x[2]: patterns of at most 1,000" in call(tool, {"x": ["a" * 500] * 2 + ["b"]}).text
    assert len(got) == 3


class Sieve(BaseModel):
    x: "list[Sieve] | re.Pattern[str]"


def test_patterns_in_a_recursive_union_and_in_a_model_are_counted():
    """Wherever a pattern is compiled, its length is limited."""

    class Find(ToolModel):
        x: re.Pattern[str]

        def run(self) -> str:
            return self.x.pattern

    for tool in (Find.tool(), tool_of(Sieve)[0]):
        wrap = (lambda x: x) if tool.name == "find" else (lambda x: {"x": [{"x": x}]})
        assert call(tool, {"x": wrap("a" * 1_000)}).success
        assert "patterns of at most 1,000" in call(tool, {"x": wrap("a" * 1_001)}).text


def test_thousands_of_problems_are_counted_only():
    """pydantic would make a dict of each, and a megabyte of text may have a million."""
    error = send(Point, {"x": {"x": 1, **{f"n{i}": "no" for i in range(20_001)}}})

    assert error.message == "Invalid arguments. there are 20,001 problems, too many to name"


def test_the_traceback_of_an_argument_error_shows_no_value():
    """pydantic's own error repeats values, so it is no part of the chain."""
    for arguments in ({"x": "a secret"}, '{"x": "a secret"}'):
        with pytest.raises(ArgumentError) as refused:
            tool_of(int)[0].bind(arguments)
        assert refused.value.__context__ is None


@pytest.mark.parametrize("form", ["function", "foreign"])
def test_only_the_problems_that_a_message_shows_get_a_close_name(form, compared):
    """Hundreds of unknown names cost no more than a few: the others name what is known."""
    parts = {f"parameter_{n}": {"type": "integer"} for n in range(100)}
    code = f"def f({', '.join(f'{name}: int = 0' for name in parts)}): ..."
    exec(code, space := {})
    function = FunctionTool(space["f"], description="d")
    tool = function if form == "function" else foreign(obj(parts, additionalProperties=False))
    error = call(tool, {f"parametre_{n}": 1 for n in range(100, 900)}).error

    assert error.message.count("did you mean 'parameter_") == MAX_PROBLEMS
    assert error.message.endswith("more")
    assert len(compared) <= MAX_PROBLEMS * MAX_COMPARED


def test_a_name_that_every_member_of_a_union_refuses_is_compared_once(compared):
    """All members say the same of it."""
    models = [pydantic.create_model(f"M{n}", abcdef=(Literal[n], ...)) for n in range(20)]
    error = send(Union[tuple(models)], {"x": {"abcdex": 1}})

    assert "x.abcdex: unknown argument; did you mean 'abcdef'?" in error.message
    assert error.message.count("abcdex") == len(compared) == 1

    def find(x: Union[tuple(models)], y: int): ...

    error = call(FunctionTool(find), {"x": {"abcdex": 1}, "y": "no"}).text
    assert error.endswith("; y: expected an integer")


def test_a_default_outside_of_its_own_bounds_survives_a_replacement():
    """Guardrails see every default. The call that one returns may hold them all, and still runs."""

    def again(call, context):
        return dataclasses.replace(call, arguments={**call.arguments})

    def find(
        text: Annotated[str, Field(alias="query")],
        limit: Annotated[int, Field(ge=1)] = 0,
        mode: Literal["a", "b"] = "",
        page: int = None,
        items: Annotated[list[int], Field(min_length=1)] = [],  # noqa: B006
        fine: Annotated[int, Field(ge=1)] = 1,
    ) -> str:
        return repr((text, limit, mode, page, items, fine))

    tool = FunctionTool(find, input_guardrails=[again])
    assert call(tool, {"query": "x"}).value == repr(("x", 0, "", None, [], 1))
    assert call(tool, {"query": "x", "limit": 3, "page": 2}).value == repr(("x", 3, "", 2, [], 1))
    assert tool.bind({"query": "x"}).arguments["limit"] == 0
    assert "limit" in call(tool, {"query": "x", "limit": 0}).text
    sent = {"text": "x", "limit": 0, "mode": "", "page": None, "items": [], "fine": 1}
    assert tool.sent_form(sent) == {"query": "x"}
    assert tool.sent_form({**sent, "limit": -1}) == {"query": "x", "limit": -1}


@pytest.mark.parametrize("strict", [False, True])
def test_a_value_that_was_sent_is_read_again_if_it_equals_its_default(strict):
    """A guardrail that changes another argument leaves it as it was: only the author's default is unread."""

    def again(call, context):
        return dataclasses.replace(call, arguments={**call.arguments, "page": 7})

    def reset(call, context):
        return dataclasses.replace(call, arguments={**call.arguments, "most": 3})

    def find(
        page: int, most: Annotated[int, AfterValidator(lambda n: n * 2), Field(alias="top")] = 3
    ) -> str:
        return f"{page} {most}"

    tool = FunctionTool(find, strict=strict, input_guardrails=[again, again])
    assert call(tool, {"page": 1, "top": 3}).value == "7 6"
    assert call(tool, {"page": 1, "top": 4}).value == "7 8"
    assert call(tool, {"page": 1, "top": None}).value == call(tool, {"page": 1}).value == "7 3"
    assert call(WrapperTool(tool, input_guardrails=[again]), {"page": 1, "top": 3}).value == "7 6"
    tool = FunctionTool(find, strict=strict, input_guardrails=[reset])
    assert call(tool, {"page": 1, "top": 4}).value == "1 3"


def test_a_guardrail_that_returns_the_call_as_it_was_changes_no_value():
    """Whatever a signature says, what was sent and what was left out reach the body as without it."""
    draw = random.Random(1)
    got = []

    def body(**arguments):
        got.append(repr(arguments))

    def again(call, context):
        return dataclasses.replace(call, arguments={**call.arguments})

    for _ in range(60):
        body.__signature__ = signatures.function(draw).__signature__
        with suppress(DefinitionError, TypeError):
            plain, guarded = FunctionTool(body), FunctionTool(body, input_guardrails=[again])
            for _ in range(4):
                text = signatures.arguments(draw, plain)
                if call(plain, text).success:
                    assert call(guarded, text).success
                    assert got[-1] == got[-2], (body.__signature__, text)

    assert len(got) > 100


def test_a_default_that_only_the_schema_names_is_sent():
    """An argument that the function needs is sent, also if it equals the default that its schema shows."""

    def find(page: Annotated[int, Field(json_schema_extra={"default": 1})]) -> int:
        return page

    assert FunctionTool(find).sent_form({"page": 1}) == {"page": 1}


def test_a_recursive_type_is_compiled_once_until_a_call_is_refused(monkeypatch):
    """Valid arguments of a recursive type, however long, need one validator, and a refusal another."""

    class Tree(BaseModel):
        name: str
        children: list["Tree"] = []

    def take(root: Tree): ...

    made, compiled = [], functions.compiled

    def recorded(*args, brief, **options):
        made.append(brief)
        return compiled(*args, brief=brief, **options)

    monkeypatch.setattr(functions, "compiled", recorded)
    tool = FunctionTool(take)

    tool.bind({"root": {"name": "a", "children": [{"name": "b"}]}})
    tool.bind({"root": {"name": "a" * 70_000}})
    assert made == [True]
    with pytest.raises(ArgumentError):
        tool.bind({"root": {}})
    assert made == [True, False]


def test_a_default_list_with_an_item_that_its_type_refuses_is_left_out():
    """The place of the problem is inside of the parameter."""
    tool, _ = tool_of(list[Annotated[int, Field(ge=1)]], [0])
    assert tool.sent_form({"x": [0]}) == {}
    assert tool.sent_form({"x": [1]}) == {"x": [1]}


def test_an_item_of_a_set_that_holds_a_list_is_named():
    """A tuple is hashable as a class, but not if it holds a list: its place is named all the same."""

    def take(xs: set[tuple[list[int], int]]):
        return xs

    message = call(FunctionTool(take), {"xs": [[[1], 2]]}).error.message

    assert message == "Invalid arguments. xs[0]: Set items should be hashable"


@pytest.mark.parametrize(("open", "close"), [("[", "]"), ('{"n": ', "}")])
def test_a_recursive_type_is_bounded_in_depth(open, close):
    """Strict mode reads a recursive type at any depth: 100 levels are accepted, and 101 are not."""
    nested: Any = TypeAliasType("nested", "list[nested] | dict[str, nested] | None")

    def take(x: nested): ...

    tool = FunctionTool(take)
    texts = ['{"x": ' + open * n + "null" + close * n + "}" for n in (99, 100)]

    assert tool.bind(texts[0]).arguments == json.loads(texts[0])
    with pytest.raises(ArgumentError, match="nested more than 100 levels deep$"):
        tool.bind(texts[1])


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        ('{{"text": "{0}", "n": 2}}', None),
        ('{{"n": 2, "text": "{0}: {0}"}}', None),
        ('{{"text": "{0}", "n": 2, "m": 3}}', "m: unknown argument"),
        ('{{"text": "{0}", "n": 2, "text": "b"}}', "text: sent only once"),
        ('{{"text": "{0}", "n": 2, "te\\u0078t": "b"}}', "text: sent only once"),
    ],
)
def test_a_long_flat_text_has_its_own_names_only(sent, why):
    """In a long text too, unknown and repeated names are refused, and colons in texts do not count."""

    def take(text: str, n: int) -> int:
        return len(text)

    tool, text = FunctionTool(take), sent.format("a" * 70_000)

    if why is None:
        assert tool.bind(text).arguments == json.loads(text)
    else:
        with pytest.raises(ArgumentError, match=why):
            tool.bind(text)
