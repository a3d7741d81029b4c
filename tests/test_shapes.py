"""Values under a schema: which shape one has, and what a reference leads to."""

from __future__ import annotations

from typing import Any

import pytest

from functool.schema.json_schema import UNSET, lookup, resolved
from functool.schema.shapes import fits, is_type, samples

INT, STR = {"type": "integer"}, {"type": "string"}
ROOT: dict[str, Any] = {
    "type": "object",
    "properties": {"a": INT, "b": STR},
    "required": ["a"],
    "$defs": {
        "I": INT,
        "Loop": {"anyOf": [{"$ref": "#/$defs/Loop"}, {"type": "null"}]},
        "x/y~": STR,
    },
    "list": [INT, {"$ref": "#/list/1"}],
}


@pytest.mark.parametrize(
    ("schema", "fitting", "strange"),
    [
        (True, [1, None, {}], []),
        ({}, [1, None, [], {"a": 1}], []),
        (False, [], [1, None]),
        (INT, [1, 1.0, -3], [1.5, True, "1", None, [], float("nan"), float("inf")]),
        ({"type": "number"}, [1, 1.5], [True, "1"]),
        ({"type": ["integer", "null"]}, [1, None], ["a", 1.5]),
        ({"type": "boolean"}, [True, False], [1, 0, None]),
        ({"enum": ["a", 1, None]}, ["a", 1, 1.0, None], [True, "b", 0]),
        ({"const": True}, [True], [1, "true"]),
        ({"const": 0}, [0], [False]),
        ({"$ref": "#/$defs/I"}, [1], ["a"]),
        ({"$ref": "#/$defs/none"}, [], [1]),
        ({"$ref": "#/$defs/Loop"}, [None], [1, {}]),
        ({"anyOf": [INT, STR]}, [1, "a"], [None, []]),
        ({"oneOf": [INT, STR]}, [1, "a"], [None, []]),
        (
            {"allOf": [{"type": ["integer", "string"]}, {"type": ["string", "null"]}]},
            ["a"],
            [1, None],
        ),
        ({"anyOf": [INT, STR], "enum": [1, 2.5]}, [1], [2.5, "a"]),
        ({"type": "array", "items": INT}, [[], [1, 2]], [["a"], {}, "a"]),
        ({"type": "array"}, [[], [1, "a"]], [{}]),
        (
            {"prefixItems": [INT, STR], "minItems": 1},
            [[1], [1, "a"]],
            [[], ["a"], [1, 2], [1, "a", 1], {}],
        ),
        ({"prefixItems": [INT, STR], "minItems": 3}, [[1, "a"]], [[1], [1, "a", 1]]),
        ({"prefixItems": [INT, STR]}, [[], [1], [1, "a"]], [[1, "a", 1]]),
        (
            {"type": "object", "properties": {"a": INT, "b": STR}, "required": ["a"]},
            [{"a": 1}, {"a": 1, "b": "x"}],
            [{}, {"a": "x"}, {"a": 1, "c": 1}, []],
        ),
        ({"type": "object"}, [{}, {"a": [1]}], [[], 1]),
        ({"properties": {}, "additionalProperties": True}, [{}, {"a": 1}], []),
        ({"type": "object", "additionalProperties": False}, [{}], [{"a": 1}]),
        ({"type": "object", "additionalProperties": INT}, [{}, {"a": 1}], [{"a": "x"}]),
        (
            {"type": "object", "properties": {"b": STR}, "additionalProperties": INT},
            [{"a": 1, "b": "x"}],
            [{"b": 1}, {"a": "x"}],
        ),
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


def test_samples_vary_each_place() -> None:
    """Each type and constant comes up in its place; a recursive place ends empty, or makes no sample."""
    node = {
        "type": "object",
        "properties": {
            "v": {"type": ["integer", "null"]},
            "kids": {"type": "array", "items": {"$ref": "#/$defs/N"}},
        },
    }
    endless = {"type": "object", "properties": {"next": {"$ref": "#/$defs/E"}}}
    defs = {"#/$defs/N": node, "#/$defs/E": endless}

    assert samples({"type": "string"}, {}) == [""]
    assert samples({"type": ["integer", "null"], "enum": [3, None]}, {}) == [3, None]
    assert samples({"const": "a", "type": "string"}, {}) == ["a"]
    assert samples({"anyOf": [{"type": "boolean"}, {"type": "number"}]}, {}) == [True, 0.5]
    assert samples({"type": "array", "items": {"type": "null"}, "minItems": 2}, {}) == [
        [None, None]
    ]
    assert samples({"type": "array", "items": {"type": "null"}, "minItems": 0}, {}) == [[None]]
    assert (
        len(samples({"type": "array", "items": {"type": "null"}, "minItems": 10**9}, {})[0]) == 50
    )
    assert samples(
        {
            "type": "object",
            "properties": {
                "a": {"type": ["integer", "null"]},
                "b": {"enum": ["x", "y"], "type": "string"},
            },
        },
        {},
    ) == [{"a": None, "b": "y"}, {"a": 0, "b": "x"}, {"a": None, "b": "x"}, {"a": 0, "b": "y"}]
    assert samples(endless, defs) == []
    assert {
        "v": 0,
        "kids": [{"v": 0, "kids": [{"v": 0, "kids": [{"v": 0, "kids": []}]}]}],
    } in samples(node, defs)
    assert len(samples({"type": "integer", "enum": [*range(99)]}, {})) == 50
    assert (
        len(
            samples(
                {
                    "anyOf": [
                        {"type": "integer", "enum": [*range(40)]},
                        {"type": "integer", "enum": [*range(40)]},
                    ]
                },
                {},
            )
        )
        == 50
    )
