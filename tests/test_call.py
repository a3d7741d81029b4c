"""The values that travel, and how a Python value becomes what a model reads."""

import collections
import copy
import dataclasses
import datetime
import enum
import itertools
import json
import pickle
import sys
import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from functool import (
    AudioContent,
    FileContent,
    ImageContent,
    TextContent,
    ToolCall,
    ToolError,
    ToolFailure,
    ToolResult,
    ToolSchema,
)
from functool.call import to_json
from tests.strategies import SINGLE, nested


class Model(BaseModel):
    a: int


class Named(BaseModel):
    class_: int = Field(alias="class")


class Open(BaseModel):
    part: typing.Any


@dataclasses.dataclass
class Holder:
    part: typing.Any

    def __repr__(self):
        return "Holder"


class Odd:
    def __str__(self):
        return "odd"


class Unprintable:
    def __str__(self):
        raise RuntimeError


CIRCLE: list = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        ("", ""),
        (True, "true"),
        (3, "3"),
        (2.5, "2.5"),
        (float("nan"), '"NaN"'),
        (float("inf"), '"Infinity"'),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        ([], "[]"),
        ((1, 2), "[1,2]"),
        ({1}, "[1]"),
        (datetime.date(2026, 1, 2), '"2026-01-02"'),
        (Model(a=1), '{"a":1}'),
        ([Model(a=1)], '[{"a":1}]'),
        (Named(**{"class": 1}), '{"class":1}'),
        ([Named(**{"class": 1})], '[{"class":1}]'),
        ((Named(**{"class": 1}), Odd()), '[{"class":1},"odd"]'),
        (b"\xff\x00", '"_wA="'),
        ({"x": b"\xff"}, '{"x":"_w=="}'),
        (Odd(), "odd"),
        ({"k": Odd()}, '{"k":"odd"}'),
        (10**5000, "1" + "0" * 5000),
        (CIRCLE, "[[...]]"),
        (Unprintable(), "<Unprintable>"),
        (itertools.count(), "count(0)"),
        ({"deep": [itertools.count()]}, "{'deep': [count(0)]}"),
        (Holder([itertools.count()]), "Holder"),
        (Open(part=(itertools.count(),)), "part=(count(0),)"),
        (collections.OrderedDict(a=itertools.count()), None),
        (collections.UserList([itertools.count()]), None),
        (Open(part=Holder({"a": Model(a=1)})), '{"part":{"part":{"a":{"a":1}}}}'),
        ("\ud83d\ude00", "😀"),
        ("lone \ud800!", "lone �!"),
        ({"k": "\ud800"}, None),
    ],
    ids=lambda value: ascii(value)[:20] if not isinstance(value, int) else "int",
)
def test_how_a_value_reads(value, text):
    """None is nothing, a str itself, all else one JSON text under the names of the schema; what JSON cannot say is its str, as it stands."""
    result = ToolResult.of(value)

    assert text is None or result.text == text
    assert result.value is value and result.success
    result.text.encode()
    assert len(result.text) <= max(5_001, len(text or ""))


def test_none_is_no_content():
    """None has no output and no text."""
    assert (ToolResult.of(None).output, ToolResult.of(None).text) == ([], "")


def test_content_is_kept_in_order():
    """A Content, or a list holding one, is kept; the rest of the list is rendered around it."""
    image = ImageContent(data=b"x", media_type="image/png")

    assert ToolResult.of(image).output == [image]
    assert ToolResult.of(["look", image, {"a": 1}]).output == [
        TextContent(text="look"),
        image,
        TextContent(text='{"a":1}'),
    ]
    assert ToolResult.of(["look", image]).text == "look\n[image/png: 1 bytes]"
    link = FileContent(uri="https://example.com/a.pdf", name="a.pdf")
    assert ToolResult.of(link).text == "[application/octet-stream: https://example.com/a.pdf]"


def test_a_huge_str_of_an_object_is_cut():
    """What JSON cannot say is cut at 4,000 characters."""

    class Long:
        def __repr__(self):
            return "x" * 10_000

    assert len(ToolResult.of(Long()).value.__repr__()) == 10_000
    assert len(ToolResult.of(Long()).text) == 4_000


def test_a_lone_surrogate_costs_nothing_else():
    """A server's JSON can hold one in a text or a name; the rest is written as ever, and not cut."""
    long = "x" * 10_000
    part = Holder(("\ud800", b"\xff", datetime.date(2026, 1, 2), float("nan")))
    written = ToolResult.of({"long": long, "part": part, "names": [{"\ud800": 1}]})

    assert written.text == (
        f'{{"long":"{long}","part":{{"part":["\ufffd","_w==","2026-01-02","NaN"]}},'
        '"names":[{"\ufffd":1}]}'
    )

    class Text(str):
        """A text of a library, such as one of a page."""

    own = {("a", "b"): Text("\ud800"), Text("c\ud800"): 1}
    assert ToolResult.of(own).text == '{"a,b":"\ufffd","c\ufffd":1}'


def test_failures():
    """`failed("x").text == "x"`: no prefix; of a failure with output the message stands first."""
    failed = ToolResult.failed("no", type="Nope", details={"k": 1}, metadata={"m": 2})

    assert (failed.text, failed.is_error, failed.success) == ("no", True, False)
    assert failed.error == ToolFailure(type="Nope", message="no", details={"k": 1})
    assert (failed.metadata, failed.value) == ({"m": 2}, None)
    log = TextContent(text="log")
    assert ToolResult.failed("no", output=[log]).text == "no\nlog"
    assert ToolResult.failed("no", output=(log,)).output == [log]
    assert ToolResult.failed("no", output=log).output == [log]
    assert ToolResult.failed("no", output="log").output == [log]
    assert ToolResult.failed("no", output="").text == "no"
    assert ToolResult.failed("").text == "ToolError"


def test_metadata():
    """What is for the host stays beside the output; without any, a result has an empty mapping."""
    assert ToolResult.of(1, metadata={"k": 1}).metadata == {"k": 1}
    assert (ToolResult.of(1).metadata, ToolResult.failed("x").metadata) == ({}, {})


def test_unwrap():
    """`unwrap` returns the value or raises a `ToolError` with the message and details."""
    assert ToolResult.of(5).unwrap() == 5
    with pytest.raises(ToolError, match="no") as caught:
        ToolResult.failed("no", details={"k": 1}).unwrap()
    assert caught.value.details == {"k": 1}


@pytest.mark.parametrize(
    "value",
    [
        ToolCall(name="a", arguments={"x": 1}, id="1"),
        ToolResult.of({"a": 1}, metadata={"k": 1}),
        ToolResult.failed("no"),
        TextContent(text="t"),
        ImageContent(data=b"x"),
        AudioContent(uri="u"),
        FileContent(name="n"),
        ToolSchema(name="n", description="d", parameters={}, plain={}, strict=False, output=None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_are_slotted_keyword_only_and_travel(value):
    """They compare, pickle, copy and change with `dataclasses.replace`; positions and new attributes are refused."""
    for twin in (
        pickle.loads(pickle.dumps(value)),
        copy.deepcopy(value),
        dataclasses.replace(value),
    ):
        assert twin == value
    assert not hasattr(value, "__dict__")
    with pytest.raises(TypeError):
        type(value)("positional")
    with pytest.raises(AttributeError):
        value.other = 1


def test_the_names_of_parameters_travel_with_a_schema_and_are_not_shown():
    """Aliases are what a model learns; hosts find the arguments of a call by the names of the parameters."""
    schema = ToolSchema(
        name="n",
        description="d",
        parameters={},
        plain={"properties": {"a": {"type": "string"}, "b": {}, "c": True}},
        names={"a": "b", "b": "a"},
    )
    for twin in (
        schema,
        pickle.loads(pickle.dumps(schema)),
        copy.deepcopy(schema),
        dataclasses.replace(schema, name="other"),
    ):
        assert twin.names == {"a": "b", "b": "a"}
        assert twin.arguments == {"b": {"type": "string"}, "a": {}, "c": True}
    assert "names" not in repr(schema) and "names" not in dataclasses.asdict(schema)


@pytest.mark.parametrize("output", ["text", None, TextContent(text="x")])
def test_an_output_is_a_list(output):
    """A text in place of a list fails where the result is made, not where a host reads it."""
    with pytest.raises(TypeError, match=r"^output is a list of content: ToolResult.of\(value\)"):
        ToolResult(output=output)


def test_defaults_are_not_shared():
    """Two results never share a list or a dict."""
    assert ToolResult().output is not ToolResult().output
    assert ToolCall(name="a").arguments is not ToolCall(name="a").arguments
    assert (ToolCall(name="a").arguments, ToolCall(name="a").id) == ({}, "")


LEAVES = SINGLE | st.integers() | st.floats() | st.text() | st.binary() | st.dates()


@given(nested(LEAVES, st.text(), max_leaves=10))
def test_any_value_becomes_valid_text(value):
    """Law: whatever a body returns, the text is valid UTF-8, and of a container it is JSON."""
    text = ToolResult.of(value).text
    text.encode()
    if isinstance(value, (list, dict)):
        json.loads(text)


@given(st.text(alphabet=st.characters(exclude_categories=()), max_size=50))
def test_a_str_is_itself(text):
    """Law: a str that is valid UTF-8 arrives as it is."""
    try:
        text.encode()
    except UnicodeEncodeError:
        ToolResult.of(text).text.encode()
    else:
        assert ToolResult.of(text).text == text


def test_a_str_of_another_class_is_its_text():
    """An Enum of texts is read as its value, not as its name; `value` stays the member."""

    class Colour(str, enum.Enum):
        RED = "red"

    result = ToolResult.of(Colour.RED)

    assert (f"{result.text}", type(result.text), result.value) == ("red", str, Colour.RED)


def test_a_failure_always_says_something():
    """Neither an empty message nor an empty type leaves the model without a word."""
    assert ToolFailure(type="Busy", message="").message == "Busy"
    assert ToolFailure(type="", message="").message == "ToolError"


def test_plain_data_is_written_without_a_step_for_each_item():
    """A server may send a million lists, so no Python code runs for each of them."""
    steps = []
    value = [[["a", 1]] for _ in range(10_000)]

    sys.setprofile(lambda frame, event, arg: steps.append(event) if event == "call" else None)
    try:
        text = to_json(value)
    finally:
        sys.setprofile(None)

    assert json.loads(text) == value
    assert len(steps) < 20


def test_a_value_that_holds_itself_is_shown():
    """It becomes its `str`, also if it holds itself twice."""
    once, twice = [], []
    once.append(once)
    twice.append([twice, twice])

    assert (to_json(once), to_json(twice)) == ("[[...]]", "[[[...], [...]]]")
