"""Values under a schema: which shape one has, and what a reference leads to."""

from __future__ import annotations

from typing import Any

import pytest

from functool.schema.json_schema import UNSET, lookup, resolved
from functool.schema.shapes import CountingMemo, TooMuchWork, fits, is_type, samples
from tests.schemas import (
    BOOL,
    INT,
    MAYBE_INT,
    MAYBE_STR,
    NULL,
    NUM,
    STR,
    any_of,
    array,
    dict_of,
    obj,
    ref,
    tuple_of,
)

ROOT: dict[str, Any] = {
    "type": "object",
    "properties": {"a": INT, "b": STR},
    "required": ["a"],
    "$defs": {"I": INT, "Loop": any_of(ref("Loop"), NULL), "x/y~": STR},
    "list": [INT, {"$ref": "#/list/1"}],
}


@pytest.mark.parametrize(
    ("schema", "fitting", "strange"),
    [
        (True, [1, None, {}], []),
        ({}, [1, None, [], {"a": 1}], []),
        (False, [], [1, None]),
        (INT, [1, 1.0, -3], [1.5, True, "1", None, [], float("nan"), float("inf")]),
        (NUM, [1, 1.5], [True, "1"]),
        (MAYBE_INT, [1, None], ["a", 1.5]),
        (BOOL, [True, False], [1, 0, None]),
        ({"enum": ["a", 1, None]}, ["a", 1, 1.0, None], [True, "b", 0]),
        ({"const": True}, [True], [1, "true"]),
        ({"const": 0}, [0], [False]),
        (ref("I"), [1], ["a"]),
        (ref("none"), [], [1]),
        (ref("Loop"), [None], [1, {}]),
        (any_of(INT, STR), [1, "a"], [None, []]),
        ({"oneOf": [INT, STR]}, [1, "a"], [None, []]),
        ({"allOf": [{"type": ["integer", "string"]}, MAYBE_STR]}, ["a"], [1, None]),
        (any_of(INT, STR, enum=[1, 2.5]), [1], [2.5, "a"]),
        (array(INT), [[], [1, 2]], [["a"], {}, "a"]),
        ({"type": "array"}, [[], [1, "a"]], [{}]),
        (
            tuple_of(INT, STR, minItems=1),
            [[1], [1, "a"]],
            [[], ["a"], [1, 2], [1, "a", 1], {}],
        ),
        (tuple_of(INT, STR, minItems=3), [[1, "a"]], [[1], [1, "a", 1]]),
        (tuple_of(INT, STR), [[], [1], [1, "a"]], [[1, "a", 1]]),
        (
            obj({"a": INT, "b": STR}, required=["a"]),
            [{"a": 1}, {"a": 1, "b": "x"}],
            [{}, {"a": "x"}, {"a": 1, "c": 1}, []],
        ),
        ({"type": "object"}, [{}, {"a": [1]}], [[], 1]),
        ({"properties": {}, "additionalProperties": True}, [{}, {"a": 1}], []),
        (dict_of(False), [{}], [{"a": 1}]),
        (dict_of(INT), [{}, {"a": 1}], [{"a": "x"}]),
        (obj({"b": STR}, additionalProperties=INT), [{"a": 1, "b": "x"}], [{"b": 1}, {"a": "x"}]),
        ({"type": "object", "patternProperties": {"^a": INT}}, [{"a": 1}], [{"a": "x"}]),
        ({"type": "object", "patternProperties": {"^a": INT, "^b": STR}}, [{}], [{"a": 1}]),
    ],
)
def test_fits_looks_at_types_names_and_constants(
    schema: Any, fitting: list[Any], strange: list[Any]
) -> None:
    """A value has a shape or has it not, whatever other keywords say."""
    assert [value for value in fitting if not fits(schema, value, ROOT, {})] == []
    assert [value for value in strange if fits(schema, value, ROOT, {})] == []


def test_the_root_is_closed_unless_it_says_otherwise() -> None:
    """A root that declares no property takes none, unlike an object inside of it."""
    root = {"type": "object"}

    assert fits(root, {}, root, {})
    assert not fits(root, {"a": 1}, root, {})
    assert fits({"type": "object"}, {"a": 1}, root, {})


def test_an_answer_is_kept_for_one_run() -> None:
    """The memo answers for the same schema and value, and holds the value."""
    memo: Any = {}
    value = [1]

    assert fits(INT, value, ROOT, memo) is False
    assert memo == {(id(INT), id(value)): (False, value)}
    memo[id(INT), id(value)] = (True, value)
    assert fits(INT, value, ROOT, memo) is True


@pytest.mark.parametrize(
    ("ref", "found"),
    [
        ("#", ROOT),
        ("#/$defs/I", INT),
        ("#/$defs/x~1y~0", STR),
        ("#/list/0", INT),
        ("#/list/9", UNSET),
        ("#/list/x", UNSET),
        ("#/$defs/none", UNSET),
        ("#/type/0/0", UNSET),
        ("#I", UNSET),
        ("I", UNSET),
        ("", UNSET),
        ("https://example.com#/$defs/I", UNSET),
        (None, UNSET),
        (3, UNSET),
    ],
)
def test_lookup_stays_inside_of_the_schema(ref: Any, found: Any) -> None:
    """Only a JSON pointer into the schema itself leads anywhere."""
    assert lookup(ROOT, ref) is found


def test_a_reference_that_leads_back_leads_nowhere() -> None:
    """A chain of references ends at a schema, or there is none."""
    root = {
        "a": {"$ref": "#/b"},
        "b": {"$ref": "#/a"},
        "c": {"$ref": "#/d", "title": "C"},
        "d": INT,
    }

    assert resolved(root, {"$ref": "#/a"}) is UNSET
    assert resolved(root, {"$ref": "#/c"}) == {**INT, "title": "C"}
    assert resolved(root, {"$ref": "#/d"}) is INT and resolved(root, INT) is INT
    assert resolved(root, {"$ref": "#/e"}) is UNSET
    assert resolved(ROOT, {"$ref": "#/list/1"}) is UNSET


def test_a_reference_may_be_percent_encoded() -> None:
    """A name is found as it stands in the reference, and as a percent-encoded part of a URL."""
    root = {"a b": INT, "a%20c": STR}

    assert lookup(root, "#/a%20b") is INT and lookup(root, "#/a b") is INT
    assert lookup(root, "#/a%20c") is STR


@pytest.mark.parametrize(
    ("value", "types", "answer"),
    [
        ("abc", ["integer", "number"], False),
        (1, [], False),
        (object(), ["object"], False),
        ({}, ["object"], True),
        (2.0, ["integer"], True),
    ],
)
def test_types_are_told_by_value(value: Any, types: list[str], answer: bool) -> None:
    """A whole float is an integer, and nothing outside of JSON has a type."""
    assert is_type(value, types) is answer


NODE = obj({"v": MAYBE_INT, "kids": array(ref("N"))})
ENDLESS = obj({"next": ref("E")})
DEFS = {"#/$defs/N": NODE, "#/$defs/E": ENDLESS}


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        (STR, [""]),
        ({**MAYBE_INT, "enum": [3, None]}, [3, None]),
        ({**STR, "const": "a"}, ["a"]),
        (any_of(BOOL, NUM), [True, 0.5]),
        (array(NULL, minItems=2), [[None, None]]),
        (array(NULL, minItems=0), [[None]]),
        (array(NULL, minItems=10**9), [[None] * 50]),
        (
            obj({"a": MAYBE_INT, "b": {**STR, "enum": ["x", "y"]}}),
            [{"a": None, "b": "y"}, {"a": 0, "b": "x"}, {"a": None, "b": "x"}, {"a": 0, "b": "y"}],
        ),
        (ENDLESS, []),
        ({**INT, "enum": [*range(99)]}, [*range(50)]),
        (any_of(*[{**INT, "enum": [*range(40)]}] * 2), [*range(40), *range(10)]),
    ],
)
def test_samples_vary_each_place(schema: Any, found: Any) -> None:
    """Each type and constant comes up in its place, fifty times at most; an endless place makes no sample."""
    assert samples(schema, DEFS, CountingMemo(1_000)) == found


def test_a_recursive_sample_ends_empty() -> None:
    """A place that may be left empty ends the sample after some levels."""
    node: Any = {"v": 0, "kids": []}
    for _ in range(3):
        node = {"v": 0, "kids": [node]}

    assert node in samples(NODE, DEFS, CountingMemo(1_000))
    with pytest.raises(TooMuchWork):
        samples(NODE, DEFS, CountingMemo(5))
