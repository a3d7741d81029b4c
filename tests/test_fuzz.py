"""A fuzz target on the front door: whatever is sent, one result, and no body run with what its annotation does not say."""

import enum
import json
import math
import os
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from functool import FunctionTool
from tests.strategies import SINGLE, nested
from tests.support import call, foreign

EXAMPLES = int(os.environ.get("FUNCTOOL_FUZZ_EXAMPLES", settings().max_examples))
MAX_MESSAGE = 4_000
# What is sent, and never said in an error: no word that the tool itself uses holds it.
CANARY = "zqxjkv"


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Point(BaseModel):
    x: float
    label: str = "origin"


got: list[dict[str, Any]] = []


@FunctionTool
async def plain(
    number: int,
    ratio: float = 0.5,
    word: str = "",
    flag: bool = False,
    color: Color = Color.RED,
    mode: Literal["fast", "deep"] = "fast",
    point: Point | None = None,
    items: list[int] | None = None,
    scores: dict[str, float] | None = None,
) -> str:
    got.append(dict(locals()))
    return "done"


strict = FunctionTool(plain.func, name="strict", strict=True)
theirs = foreign(plain.schema.plain, lambda arguments: got.append(arguments) or "done")


def fits(values: dict[str, Any]) -> bool:
    """Whether the values are what the annotations say, written out by hand."""
    point, items, scores = values["point"], values["items"] or [], values["scores"] or {}
    kinds = {"number": int, "ratio": float, "word": str, "flag": bool, "color": Color}
    floats = [values["ratio"], *scores.values(), *([point.x] if type(point) is Point else [])]
    return (
        all(type(values[name]) is kind for name, kind in kinds.items())
        and values["mode"] in ("fast", "deep")
        and (point is None or (type(point) is Point and type(point.label) is str))
        and type(items) is list
        and all(type(item) is int for item in items)
        and all(type(key) is str for key in scores)
        and all(type(number) is float and math.isfinite(number) for number in floats)
    )


def fits_json(values: dict[str, Any]) -> bool:
    """The same for JSON: the handler of a foreign schema gets no Python classes."""
    number, ratio = values["number"], values.get("ratio", 0.5)
    return (
        isinstance(number, (int, float))
        and not isinstance(number, bool)
        and number == int(number)
        and isinstance(ratio, (int, float))
        and not isinstance(ratio, bool)
        and math.isfinite(ratio)
        and isinstance(values.get("word", ""), str)
        and isinstance(values.get("flag", False), bool)
        and values.get("color", "red") in ("red", "blue")
        and values.get("mode", "fast") in ("fast", "deep")
    )


TARGETS = [(plain, fits), (strict, fits), (theirs, fits_json)]


def send(arguments: Any) -> None:
    """Send arguments to every target, and hold the promises."""
    for tool, judge in TARGETS:
        got.clear()
        result = call(tool, arguments, id="f")
        assert result.call_id == "f"
        if result.error is None:
            assert len(got) == 1 and judge(got[0]), got
        else:
            assert got == [], "a body ran although the arguments were refused"
            assert result.error.type == "ArgumentError"
            assert 0 < len(result.error.message) <= MAX_MESSAGE
            assert "://" not in result.error.message
            assert "pydantic" not in result.error.message or "pydantic" in str(arguments)
            assert result.error.message.isprintable()
            result.text.encode()


names = st.sampled_from(
    [*plain.schema.plain["properties"], "http", "https://evil.example/x", "a\nb", "n" * 3_000]
) | st.text(max_size=8)
leaves = (
    SINGLE
    | st.integers()
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from("red fast 1 1.5 true NaN 1e999 [1]".split())
    | st.sampled_from(['{"x": 1}', "9" * 5_000, 10**400, -0.0, 2**63])
)
values = nested(leaves, names, most=4, max_leaves=12)
objects = st.dictionaries(names, values, max_size=6).map(lambda sent: {"number": 1, **sent})


JUNK = st.sampled_from(r'" { } [ ] : , \ \ud800 1e999 NaN true null e -'.split() + ["\x00"])


@st.composite
def mutated(draw):
    """JSON text of something like the arguments, with bytes cut out, doubled, exchanged or put in."""
    text = json.dumps(draw(objects))
    for _ in range(draw(st.integers(0, 4))):
        at, length = draw(st.integers(0, len(text))), draw(st.integers(0, 8))
        junk = draw(JUNK)
        piece = draw(st.sampled_from([junk, "", text[at : at + length] * 2, junk * 120]))
        text = text[:at] + piece + text[at + length :]
    return text


@settings(max_examples=EXAMPLES)
@given(
    st.text()
    | st.binary().map(lambda data: data.decode("latin-1"))
    | st.binary().map(lambda data: data.decode("utf-8", "surrogateescape"))
)
def test_random_text(text):
    """Random text, bytes and lone surrogates are answered, and nothing runs that should not."""
    send(text)


@settings(max_examples=EXAMPLES)
@given(mutated())
def test_mutations_of_good_arguments(text):
    """JSON that was almost right is answered, and what runs is what its annotations say."""
    send(text)


@settings(max_examples=EXAMPLES)
@given(objects)
def test_objects(arguments):
    """A mapping, with NaN, huge numbers and strange names too, keeps the same promises."""
    send(arguments)


@settings(max_examples=100)
@given(
    st.binary()
    | st.integers()
    | st.none()
    | st.lists(st.integers())
    | st.floats()
    | st.sampled_from([object(), {1: 2}, {"number": {1, 2}}, {"number": 1, "word": b"\xff"}])
)
def test_what_is_no_text_and_no_mapping(arguments):
    """Other objects are refused, not raised on."""
    send(arguments)


held = [CANARY, [CANARY], {"a": CANARY}, {"x": CANARY}, [[[CANARY]]]]
secrets = st.sampled_from([*held, f"  {CANARY}", f'["{CANARY}"]', f'{{"x": "{CANARY}"}}'])


@settings(max_examples=EXAMPLES)
@given(
    st.dictionaries(
        st.sampled_from([name for name in plain.schema.plain["properties"] if name != "word"]),
        secrets,
        min_size=1,
    ),
    st.booleans(),
)
def test_no_value_leaks(arguments, as_text):
    """No refusal repeats a value that was sent, at any depth and in either form."""
    for tool, _ in TARGETS:
        got.clear()
        sent = json.dumps(arguments) if as_text else arguments
        result = call(tool, sent)
        if result.error is not None:
            assert CANARY not in result.error.message
            assert CANARY not in str(result.error.details)


GOOD = {
    "number": 1,
    "ratio": 1.0,
    "word": "",
    "flag": True,
    "color": Color.RED,
    "mode": "fast",
    "point": None,
    "items": [1],
    "scores": {},
}


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        *[("number", True), ("ratio", math.inf), ("word", 1), ("flag", 1), ("color", "red")],
        *[("mode", "slow"), ("point", {}), ("point", Point.model_construct(x=math.nan, label=""))],
        *[("point", Point.model_construct(x=1.0, label=1)), ("items", [True]), ("items", (1,))],
        *[("scores", {"a": math.nan}), ("scores", {"a": 1}), ("scores", {1: 1.0})],
    ],
    ids=str,
)
def test_the_judge_of_values_can_fail(name, bad):
    """It refuses values that the annotations do not say."""
    assert fits(GOOD)
    assert not fits({**GOOD, name: bad})


def test_the_judge_of_json_can_fail():
    """It takes a whole float for an int, and nothing else."""
    assert fits_json({"number": 1.0})
    assert not fits_json({"number": 1.5})
    assert not fits_json({"number": True})
