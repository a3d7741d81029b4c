"""The strict subset: what leaves it, what a schema becomes in it, and how values travel back."""

from __future__ import annotations

import copy
import json
from typing import Any, Literal, NamedTuple, Optional, Union

import jsonschema
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, TypeAdapter, create_model
from typing_extensions import TypedDict

from functool.dialects._subset import violations
from functool.errors import SchemaError
from functool.schema.strict import Codec, codec

NULL = {"type": "null"}


def obj(*, required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties] if required is None else required,
    }


def closed(**properties: Any) -> dict[str, Any]:
    return {**obj(**properties), "additionalProperties": False}


def pairs(value: dict[str, Any], key: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"type": "array", "items": closed(key=key or {"type": "string"}, value=value)}


def of(annotation: Any) -> Codec:
    """The codec of an object with one required property `v` of a type."""
    return codec(create_model("Arguments", v=(annotation, ...)).model_json_schema())


def one(schema: Any, *, required: bool = True, **defs: Any) -> Codec:
    """The codec of an object with one property `v`."""
    made = codec(
        {**obj(v=schema, required=["v"] if required else []), **({"$defs": defs} if defs else {})}
    )
    assert violations(made.schema) == []
    return made


def form(made: Codec) -> Any:
    return made.schema["properties"]["v"]


def reasons(schema: dict[str, Any], **options: Any) -> list[str]:
    """The places and rules a codec refuses, without the remedies."""
    with pytest.raises(SchemaError) as caught:
        codec(schema, **options)
    assert all(len(reason.split(": ", 2)) == 3 for reason in caught.value.reasons)
    assert all(reason in str(caught.value) for reason in caught.value.reasons)
    return [": ".join(reason.split(": ", 2)[:2]) for reason in caught.value.reasons]


# The subset


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        ({"type": "string"}, []),
        ({"type": ["string", "null"], "enum": ["F", "C", None]}, []),
        ({"type": "string", "const": "a", "title": "A", "description": "An a."}, []),
        ({"type": "string", "format": "date-time", "pattern": "^a"}, []),
        ({"type": "number", "minimum": 1, "exclusiveMaximum": 9, "multipleOf": 2}, []),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2}, []),
        ({"anyOf": [{"type": "integer"}, NULL]}, []),
        (closed(a={"type": "integer"}), []),
        ({"$ref": "#"}, []),
        ({}, ["type-missing"]),
        ({"const": 1}, ["type-missing"]),
        ({"enum": ["a", 1]}, ["type-missing"]),
        ({"type": "int"}, ["type-unknown"]),
        ({"type": "string", "enum": ["a", 1]}, ["enum-type"]),
        ({"type": "boolean", "const": 1}, ["enum-type"]),
        ({"type": "integer", "enum": [True]}, ["enum-type"]),
        ({"type": "integer", "enum": [1, 2.0]}, []),
        ({"type": "integer", "enum": [1.5]}, ["enum-type"]),
        ({"type": "number", "enum": [1, 2.5]}, []),
        (True, ["boolean-schema"]),
        (False, ["boolean-schema"]),
        ({"type": "array"}, ["items-missing"]),
        ({"type": "array", "items": True}, ["boolean-schema"]),
        ({"type": "array", "items": [{"type": "string"}]}, ["items-shape"]),
        ({"type": "object", "additionalProperties": False}, ["properties-missing"]),
        ({"type": ["object", "null"], "additionalProperties": False}, ["properties-missing"]),
        ({"type": "object", "properties": {}}, ["additional-properties"]),
        (
            {"type": "object", "properties": {}, "additionalProperties": True},
            ["additional-properties"],
        ),
        (
            {**closed(a={"type": "null"}, b={"type": "null"}), "required": []},
            ["required-incomplete (a, b)"],
        ),
        ({"type": "string", "format": "uri"}, ["format"]),
        ({"type": "string", "pattern": "^(?!a)"}, ["pattern-lookaround"]),
        ({"type": "string", "pattern": "(?=a)"}, ["pattern-lookaround"]),
        ({"type": "string", "pattern": "(?<=a)b"}, ["pattern-lookaround"]),
        ({"type": "string", "pattern": "(?<!a)b"}, ["pattern-lookaround"]),
        ({"type": "string", "minLength": 1}, ["azure-minLength"]),
        ({"type": "string", "maxLength": 1}, ["azure-maxLength"]),
        ({"type": "string", "default": "a"}, ["azure-default"]),
        ({"$ref": "#", "description": "again"}, ["ref-siblings"]),
        ({"$ref": "#", "definitions": {}, "$defs": {}}, []),
        ({"$ref": "#/$defs/none"}, ["ref-target"]),
        ({"$ref": "https://example.com/schema"}, ["ref-target"]),
        ({"oneOf": [{"type": "string"}]}, ["keyword-oneOf"]),
        ({"allOf": [{"type": "string"}]}, ["keyword-allOf"]),
        ({"type": "string", "$id": "urn:a"}, ["keyword-$id"]),
        ({"type": "string", "properties": []}, ["malformed"]),
        ({"type": 1}, ["malformed"]),
        ({"type": "object", "required": [[]]}, ["malformed"]),
    ],
)
def test_violations_names_the_rule_of_each_place(schema: Any, found: list[str]) -> None:
    """A property outside of the subset is named by its pointer and the rule."""
    assert violations(closed(v=schema)) == [f"#/properties/v: {rule}" for rule in found]


@pytest.mark.parametrize(
    "keyword",
    "not if then else dependentRequired dependentSchemas dependencies contains minContains maxContains contentEncoding contentMediaType"
    " contentSchema minProperties maxProperties unevaluatedItems unevaluatedProperties uniqueItems additionalItems patternProperties"
    " propertyNames prefixItems $anchor $dynamicAnchor $dynamicRef $recursiveAnchor $recursiveRef".split(),
)
def test_violations_names_every_forbidden_keyword(keyword: str) -> None:
    """Each keyword that the subset lacks is a violation of its own rule."""
    value: Any = {"prefixItems": [], "patternProperties": {}}.get(keyword, "x")

    assert violations(closed(v={"type": "string", keyword: value})) == [
        f"#/properties/v: keyword-{keyword}"
    ]


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        (closed(), []),
        (
            {**closed(), "$id": "urn:a", "$schema": "https://json-schema.org/draft/2020-12/schema"},
            [],
        ),
        ({**closed(), "type": "string"}, ["#: root-type"]),
        ({**closed(), "type": ["object", "null"]}, ["#: root-type"]),
        ({**closed(), "anyOf": [closed()]}, ["#: root-combinator"]),
        ({**closed(), "oneOf": [closed()]}, ["#: root-combinator", "#: keyword-oneOf"]),
        ({**closed(), "allOf": [closed()]}, ["#: root-combinator", "#: keyword-allOf"]),
        ({"$ref": "#/$defs/A", "$defs": {"A": closed()}}, ["#: root-type", "#: root-combinator"]),
        ([], ["#: root-type", "#: boolean-schema"]),
    ],
)
def test_violations_asks_for_an_object_at_the_root(schema: Any, found: list[str]) -> None:
    """The root is one object and no combination."""
    assert violations(schema) == found


def test_violations_looks_everywhere() -> None:
    """Each kind of sub-schema is visited, with its own pointer."""
    bad = {"type": "string", "default": "x"}
    schema = {
        **closed(
            a={"type": "array", "items": bad},
            b={"anyOf": [NULL, bad]},
            c={"oneOf": [bad]},
            d={"allOf": [bad]},
        ),
        "$defs": {"D": bad},
        "definitions": {"E": bad},
    }
    schema["properties"]["e"] = {"type": "object", "properties": {}, "additionalProperties": bad}
    schema["properties"]["f"] = {"type": "array", "items": {"type": "null"}, "prefixItems": [bad]}
    schema["required"] = ["a", "b", "c", "d", "e", "f"]

    assert sorted(place for place in violations(schema) if place.endswith("azure-default")) == [
        "#/$defs/D: azure-default",
        "#/definitions/E: azure-default",
        "#/properties/a/items: azure-default",
        "#/properties/b/anyOf/1: azure-default",
        "#/properties/c/oneOf/0: azure-default",
        "#/properties/d/allOf/0: azure-default",
        "#/properties/e/additionalProperties: azure-default",
        "#/properties/f/prefixItems/0: azure-default",
    ]


# What a schema becomes


def test_what_is_in_the_subset_stays() -> None:
    """A schema inside the subset is its own strict form, and its values pass untouched."""
    schema = {
        **closed(
            a={"type": "string", "enum": ["x", "y"], "title": "A", "description": "An a."},
            b={
                "type": "array",
                "items": {"anyOf": [{"type": "number", "minimum": 1}, NULL]},
                "minItems": 2,
                "maxItems": 3,
            },
            c={"$ref": "#/$defs/C"},
            d={"type": "string", "format": "date"},
        ),
        "$defs": {"C": closed(e={"type": ["boolean", "null"]})},
        "title": "Arguments",
    }

    made = codec(schema)

    assert made.schema == schema
    assert made.flat_nulls == ()
    assert made.flat_nulls == ()
    assert made.reasons == ()


@pytest.mark.parametrize("keyword", ["examples", "deprecated", "readOnly", "writeOnly", "x-unit"])
def test_an_annotation_outside_of_the_subset_is_said(keyword: str) -> None:
    """What no strict schema may hold is a sentence in the description, and no reason to refuse."""
    schema = {"type": "integer", "description": "N.", keyword: [1], "$comment": "ours"}
    made = codec(closed(v=schema), refuse=True)

    assert form(made) == {"type": "integer", "description": f"N. {keyword}: [1]."}
    assert f"#/properties/v: keyword-{keyword}" in violations(closed(v=schema))


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (
            {"type": "integer", "default": 10},
            {"type": ["integer", "null"], "description": "Default: 10. Null means the default."},
        ),
        (
            {"type": "integer", "default": 10, "description": "How many."},
            {
                "type": ["integer", "null"],
                "description": "How many. Default: 10. Null means the default.",
            },
        ),
        (
            {"type": "string", "default": None},
            {"type": ["string", "null"], "description": "Default: null. Null means the default."},
        ),
        (
            {"type": "string"},
            {"type": ["string", "null"], "description": "Null means that it is left out."},
        ),
        (
            {"type": ["integer", "null"], "default": 5},
            {
                "type": ["integer", "null"],
                "description": "Default: 5. Null is a value of its own here.",
            },
        ),
        (
            {"type": ["integer", "null"], "default": None},
            {"type": ["integer", "null"], "description": "Default: null."},
        ),
        (
            {"type": ["integer", "null"]},
            {"type": ["integer", "null"], "description": "Null is a value of its own here."},
        ),
        (
            {"enum": ["a", "b"], "default": "a"},
            {
                "type": ["string", "null"],
                "enum": ["a", "b", None],
                "description": 'Default: "a". Null means the default.',
            },
        ),
        (
            {"const": "a", "type": "string", "default": "a"},
            {
                "type": ["string", "null"],
                "enum": ["a", None],
                "description": 'Default: "a". Null means the default.',
            },
        ),
        (
            {"enum": ["a", None], "default": "a"},
            {
                "type": ["string", "null"],
                "enum": ["a", None],
                "description": 'Default: "a". Null is a value of its own here.',
            },
        ),
        (
            {"type": ["string", "null"], "enum": ["F", "C"]},
            {
                "type": ["string", "null"],
                "enum": ["F", "C", None],
                "description": "Null means that it is left out.",
            },
        ),
        (
            {"type": ["string", "integer"], "default": 1},
            {
                "type": ["string", "integer", "null"],
                "description": "Default: 1. Null means the default.",
            },
        ),
        (
            {"type": "array", "items": {"type": "integer"}, "default": [], "title": "V"},
            {
                "title": "V",
                "anyOf": [{"type": "array", "items": {"type": "integer"}}, NULL],
                "description": "Default: []. Null means the default.",
            },
        ),
        (
            {**closed(), "title": "V"},
            {
                "title": "V",
                "anyOf": [closed(), NULL],
                "description": "Null means that it is left out.",
            },
        ),
        (
            {"anyOf": [{"type": "integer"}, {"type": "string"}], "default": 1},
            {
                "anyOf": [{"type": "integer"}, {"type": "string"}, NULL],
                "description": "Default: 1. Null means the default.",
            },
        ),
        (
            {"$ref": "#/$defs/D", "default": {}, "description": "A d."},
            {
                "anyOf": [{"$ref": "#/$defs/D"}, NULL],
                "description": "A d. Default: {}. Null means the default.",
            },
        ),
        (
            {"$ref": "#/$defs/D"},
            {
                "anyOf": [{"$ref": "#/$defs/D"}, NULL],
                "description": "Null means that it is left out.",
            },
        ),
        (
            {"$ref": "#/$defs/N", "default": 1},
            {
                "anyOf": [{"$ref": "#/$defs/N"}],
                "description": "Default: 1. Null is a value of its own here.",
            },
        ),
        ({"type": "null", "default": None}, {"type": "null", "description": "Default: null."}),
    ],
)
def test_an_optional_property_is_required_and_says_what_null_means(
    schema: Any, strict: Any
) -> None:
    """What may be left out becomes nullable, once, and the description names the default."""
    made = one(schema, required=False, D=closed(), N={"type": ["integer", "null"]})

    assert form(made) == strict
    assert made.schema["required"] == ["v"]
    assert [reason.split(": ")[:2] for reason in made.reasons] == [
        ["#/properties/v", "required-incomplete"]
    ]


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        ({"type": "string", "minLength": 3}, {"type": "string", "description": "minLength: 3."}),
        (
            {
                "type": "string",
                "description": "A name.",
                "minLength": 3,
                "maxLength": 5,
                "title": "N",
            },
            {"type": "string", "title": "N", "description": "A name. minLength: 3. maxLength: 5."},
        ),
        ({"type": "string", "format": "uri"}, {"type": "string", "description": 'format: "uri".'}),
        ({"type": "string", "format": "uuid"}, {"type": "string", "format": "uuid"}),
        (
            {"type": "string", "pattern": "^(?!a)é"},
            {"type": "string", "description": 'pattern: "^(?!a)é".'},
        ),
        ({"type": "string", "pattern": "^a"}, {"type": "string", "pattern": "^a"}),
        (
            {"type": "string", "contentEncoding": "base64"},
            {"type": "string", "description": 'contentEncoding: "base64".'},
        ),
        (
            {"type": "string", "not": {"const": "a"}},
            {"type": "string", "description": 'not: {"const": "a"}.'},
        ),
        (
            {"type": "array", "items": {"type": "integer"}, "uniqueItems": True},
            {"type": "array", "items": {"type": "integer"}, "description": "uniqueItems: true."},
        ),
        ({"type": "integer", "default": 3}, {"type": "integer", "description": "Default: 3."}),
        (
            {
                "oneOf": [{"type": "integer"}, {"type": "string"}],
                "discriminator": {"propertyName": "kind"},
            },
            {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        ),
        (
            {"$ref": "#/$defs/D", "description": "A d."},
            {"anyOf": [{"$ref": "#/$defs/D"}], "description": "A d."},
        ),
        ({"$ref": "#/$defs/D", "title": "D"}, {"anyOf": [{"$ref": "#/$defs/D"}], "title": "D"}),
        ({"$ref": "#/$defs/D", "type": "object"}, {"$ref": "#/$defs/D"}),
        (
            {"allOf": [{"$ref": "#/$defs/D"}], "description": "A d."},
            {"anyOf": [{"$ref": "#/$defs/D"}], "description": "A d."},
        ),
        (
            {"allOf": [{"type": "string", "description": "Inner."}]},
            {"type": "string", "description": "Inner."},
        ),
        ({"const": "a"}, {"type": "string", "const": "a"}),
        ({"const": None}, {"type": "null", "const": None}),
        (
            {"enum": ["a", 1, 1.5, True, None]},
            {
                "type": ["string", "integer", "number", "boolean", "null"],
                "enum": ["a", 1, 1.5, True, None],
            },
        ),
        ({"type": "string", "enum": ["a", None]}, {"type": "string", "enum": ["a"]}),
        ({"type": "boolean", "enum": [True, 1, "yes"]}, {"type": "boolean", "enum": [True]}),
        ({"type": "string", "const": "a", "enum": ["a", "b"]}, {"type": "string", "const": "a"}),
        ({"type": "string", "$anchor": "a", "$id": "urn:a"}, {"type": "string"}),
        ({"properties": {}}, closed()),
        ({"items": {"type": "string"}}, {"type": "array", "items": {"type": "string"}}),
        ({"type": "object", "properties": {}, "additionalProperties": False}, closed()),
        (
            {"type": ["array", "null"], "items": {"type": "string"}, "description": "Names."},
            {
                "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}],
                "description": "Names.",
            },
        ),
        (
            {"type": "string", "anyOf": [{"format": "date"}, {"format": "uri"}], "title": "V"},
            {
                "anyOf": [
                    {"type": "string", "format": "date"},
                    {"type": "string", "description": 'format: "uri".'},
                ],
                "title": "V",
            },
        ),
        (
            {"anyOf": [{"type": "string"}, {"type": "string"}, {"$ref": "#/$defs/D"}]},
            {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/D"}]},
        ),
        (
            {
                "prefixItems": [{"type": "integer"}, {"type": "integer"}],
                "minItems": 2,
                "maxItems": 2,
                "type": "array",
            },
            {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2},
        ),
        (
            {"prefixItems": [{"type": "integer"}] * 3, "minItems": 1, "type": "array"},
            {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3},
        ),
        (
            {
                "prefixItems": [{"type": "integer"}] * 3,
                "minItems": 5,
                "maxItems": 2,
                "items": False,
            },
            {"type": "array", "items": {"type": "integer"}, "minItems": 3, "maxItems": 2},
        ),
        (
            {"prefixItems": [{"type": "integer"}]},
            {"type": "array", "items": {"type": "integer"}, "minItems": 0, "maxItems": 1},
        ),
        (
            {
                "type": "object",
                "anyOf": [
                    {"$ref": "#/$defs/D"},
                    {"properties": {}, "additionalProperties": False, "title": "E"},
                ],
            },
            {"anyOf": [{"$ref": "#/$defs/D"}, closed() | {"title": "E"}]},
        ),
    ],
)
def test_a_respelling_needs_no_encoding(schema: Any, strict: Any) -> None:
    """What the subset lacks moves into the description or is spelled otherwise; the values stay, and nothing is refused."""
    made = one(schema, D=closed())

    assert form(made) == strict
    assert made.flat_nulls == ()
    assert made.reasons == ()
    assert codec({**obj(v=schema), "$defs": {"D": closed()}}, refuse=True).schema == made.schema


ANY = {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "boolean"}, NULL]}


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        ({}, ANY),
        (True, ANY),
        ({"description": "What you like."}, {**ANY, "description": "What you like."}),
        ({"type": "array"}, {"type": "array", "items": ANY}),
        ({"type": "array", "items": {}}, {"type": "array", "items": ANY}),
        (
            {"type": "array", "prefixItems": [], "maxItems": 0},
            {"type": "array", "items": ANY, "maxItems": 0},
        ),
    ],
)
def test_any_value_becomes_a_scalar(schema: Any, strict: Any) -> None:
    """Anything at all is spelled out as the scalar types, which is a narrowing that `refuse` names."""
    made = one(schema)

    assert form(made) == strict
    assert made.flat_nulls == ()
    assert [reason.split(": ")[1] for reason in made.reasons] == ["type-missing"]
    assert made.decode({"v": {"a": [1]}}) == {"v": {"a": [1]}}


def test_a_required_name_without_a_schema_is_any_value() -> None:
    """A name that is required and nowhere described becomes a property of any scalar type."""
    made = codec(
        {
            "type": "object",
            "properties": {"a": STR},
            "required": ["a", "b"],
            "additionalProperties": False,
        }
    )

    assert made.schema["required"] == ["a", "b"]
    assert made.schema["properties"]["b"] == {
        "anyOf": [{"type": name} for name in ("string", "number", "boolean", "null")]
    }


def test_the_reason_says_the_remedy() -> None:
    """What an optional property costs is said with the way around it."""
    reason = "null means that it is absent; require it, and let its type allow null if it may have no value"

    assert one({"type": "integer", "default": 1}).reasons == ()
    assert codec(obj(v=INT, required=[])).reasons == (
        f"#/properties/v: required-incomplete: {reason}",
    )


def test_an_any_with_a_default_keeps_null() -> None:
    """Null of a property that takes anything is null."""
    made = one({"default": 3}, required=False)

    assert form(made) == {**ANY, "description": "Default: 3. Null is a value of its own here."}
    assert made.decode({"v": None}) == {"v": None}


INT, STR = {"type": "integer"}, {"type": "string"}


@pytest.mark.parametrize(
    ("schema", "strict", "plain", "sent"),
    [
        (
            {"type": "object", "additionalProperties": INT},
            pairs(INT),
            {"a": 1, "b": 2},
            [("a", 1), ("b", 2)],
        ),
        ({"type": "object"}, pairs(ANY), {"a": None}, [("a", None)]),
        ({"type": "object", "additionalProperties": True}, pairs(ANY), {}, []),
        (
            {"additionalProperties": {"type": "array", "items": INT}},
            pairs({"type": "array", "items": INT}),
            {"a": [1]},
            [("a", [1])],
        ),
        (
            {"type": "object", "additionalProperties": INT, "propertyNames": {"enum": ["a", 1]}},
            pairs(INT, {"type": "string", "enum": ["a"]}),
            {"a": 1},
            [("a", 1)],
        ),
        (
            {"type": "object", "additionalProperties": INT, "propertyNames": {"$ref": "#/$defs/K"}},
            pairs(INT, {"type": "string", "format": "uuid", "title": "K"}),
            {"a": 1},
            [("a", 1)],
        ),
        (
            {"type": "object", "patternProperties": {"^a": INT}},
            pairs(INT, {"type": "string", "pattern": "^a"}),
            {"a": 1},
            [("a", 1)],
        ),
        (
            {"type": "object", "patternProperties": {"^(?!a)": INT}, "additionalProperties": False},
            pairs(INT, {"type": "string", "description": 'pattern: "^(?!a)".'}),
            {"b": 1},
            [("b", 1)],
        ),
        ({"patternProperties": {}}, pairs(ANY), {"b": 1}, [("b", 1)]),
        (
            {"type": "object", "additionalProperties": INT, "minProperties": 1, "title": "D"},
            {**pairs(INT), "title": "D", "description": "minProperties: 1."},
            {"b": 1},
            [("b", 1)],
        ),
        (
            {
                "type": "object",
                "additionalProperties": {"type": "object", "additionalProperties": INT},
            },
            pairs(pairs(INT)),
            {"a": {"b": 1}},
            [("a", [{"key": "b", "value": 1}])],
        ),
    ],
)
def test_an_object_with_any_names_becomes_pairs(
    schema: Any, strict: Any, plain: Any, sent: Any
) -> None:
    """A dict is sent as an array of keys and values, and read as a dict."""
    made = one(schema, K={"format": "uuid", "title": "K"})
    encoded = [{"key": key, "value": value} for key, value in sent]

    assert form(made) == strict
    assert made.decode({"v": encoded}) == {"v": plain}
    assert made.decode({"v": plain}) == {"v": plain}
    assert made.flat_nulls != ()
    assert made.flat_nulls is None
    assert "#/properties/v: properties-missing" in {
        ": ".join(reason.split(": ")[:2]) for reason in made.reasons
    }


@pytest.mark.parametrize(
    "value",
    [
        [{"key": "a", "value": 1}, {"key": "a", "value": 2}],
        [{"key": "a", "value": 1, "more": 2}],
        [{"key": "a"}],
        [{"key": 1, "value": 1}],
        [{"key": None, "value": 1}],
        [["a", 1]],
        [1],
        "a",
        None,
        1.5,
    ],
)
def test_what_is_no_array_of_pairs_stays(value: Any) -> None:
    """Pairs that make no dict, two with one key above all, are left to validation."""
    made = one({"type": "object", "additionalProperties": INT})

    assert made.decode({"v": value}) == {"v": value}
    assert made.decode(value) == value


MIXED = {"type": "array", "prefixItems": [INT, STR], "minItems": 2, "maxItems": 2}


def test_a_tuple_of_unlike_items_becomes_an_object() -> None:
    """Items of several types get a name each; titles, such as a NamedTuple's, stay with them."""
    point = {
        "type": "array",
        "prefixItems": [{**INT, "title": "X"}, {**INT, "title": "Y"}],
        "minItems": 2,
        "maxItems": 2,
    }

    assert form(one(MIXED)) == closed(item_0=INT, item_1=STR)
    assert form(one(point)) == closed(item_0={**INT, "title": "X"}, item_1={**INT, "title": "Y"})
    assert one(MIXED).decode({"v": {"item_0": 1, "item_1": "a"}}) == {"v": [1, "a"]}
    assert one(MIXED).decode({"v": [1, "a"]}) == {"v": [1, "a"]}
    assert [reason.split(": ")[:2] for reason in one(MIXED).reasons] == [
        ["#/properties/v", "keyword-prefixItems"]
    ]


@pytest.mark.parametrize(
    "value",
    [
        {"item_0": 1},
        {"item_1": "a"},
        {"item_0": 1, "item_2": 2},
        {"item_0": 1, "item_1": "a", "item_2": 2},
        {},
        [1, "a", 2],
        [],
        "a",
        None,
        3,
    ],
)
def test_what_is_no_tuple_stays(value: Any) -> None:
    """Too many, too few or strange items are left to validation."""
    assert one(MIXED).decode({"v": value}) == {"v": value}


class Triple(NamedTuple):
    a: int
    b: str = "x"
    c: int | None = None
    d: tuple[int, str] = (1, "y")


@pytest.mark.parametrize(
    ("plain", "sent"),
    [
        ([1], {"item_0": 1, "item_1": None, "item_3": None}),
        ([1, "z"], {"item_0": 1, "item_1": "z", "item_3": None}),
        ([1, "z", None], {"item_0": 1, "item_1": "z", "item_2": None, "item_3": None}),
        (
            [1, "z", 2, [3, "w"]],
            {"item_0": 1, "item_1": "z", "item_2": 2, "item_3": {"item_0": 3, "item_1": "w"}},
        ),
    ],
)
def test_a_named_tuple_may_end_early(plain: Any, sent: Any) -> None:
    """Items with a default are nullable, and null at the end makes the tuple shorter."""
    made = of(Triple)

    assert made.decode({"v": sent}) == {"v": plain}
    assert made.decode({"v": plain}) == {"v": plain}


def test_a_tuple_without_a_least_length_may_be_empty() -> None:
    """Each item of a tuple that says no `minItems` may be left out, also the first."""
    made = one({"type": "array", "prefixItems": [INT, STR]})

    assert made.decode({"v": {"item_0": None, "item_1": None}}) == {"v": []}
    assert made.decode({"v": {"item_0": 1, "item_1": None}}) == {"v": [1]}


def test_a_tuple_fills_a_gap_with_the_default() -> None:
    """An item left out before one that is given gets its default, a fresh one each time; without one the object stays."""
    gap = {
        "type": "array",
        "prefixItems": [INT, {"type": "array", "items": INT, "default": [7]}, STR],
        "minItems": 1,
    }
    unknown = {
        "type": "array",
        "prefixItems": [INT, {"type": "array", "items": INT}, STR],
        "minItems": 1,
    }
    sent = {"v": {"item_0": 1, "item_1": None, "item_2": "a"}}
    made = one(gap)

    first = made.decode(sent)
    first["v"][1].append(8)

    assert made.decode(sent) == {"v": [1, [7], "a"]}
    assert one(unknown).decode(sent) == sent


# Null


def test_null_drops_what_may_be_left_out() -> None:
    """Null of a property that may be left out and admits no null is dropped, at each depth; every other null stays."""
    inner = obj(
        a={**INT, "default": 1},
        b={"type": ["integer", "null"], "default": 2},
        c=INT,
        required=["c"],
    )
    made = codec(obj(p=inner, q={**inner, "default": {}}, required=["p"]))
    full = {"p": {"a": None, "b": None, "c": None}, "q": {"a": 1, "b": 1, "c": 1}}

    assert made.decode(full) == {"p": {"b": None, "c": None}, "q": {"a": 1, "b": 1, "c": 1}}
    assert made.decode({"p": {"a": None}, "q": None}) == {"p": {}}
    assert made.decode({"p": None, "q": None, "z": None}) == {"p": None, "z": None}
    assert made.flat_nulls is None


def test_flat_arguments_only_drop_nulls() -> None:
    """Where decoding is dropping nulls at the top, their names are known."""
    made = codec(
        obj(
            a=INT,
            b={**INT, "default": 1},
            c={"type": ["integer", "null"], "default": 1},
            d=STR,
            required=["a"],
        )
    )

    assert made.flat_nulls == ("b", "d")
    assert made.flat_nulls != ()
    assert made.decode({"a": None, "b": None, "c": None, "d": None}) == {"a": None, "c": None}


def test_an_optional_null_can_be_left_out_in_the_plain_form_only() -> None:
    """A type that admits null keeps it, so an absent one has no strict form and stays absent."""
    made = one({"type": ["integer", "null"], "default": 5}, required=False)

    assert made.decode({}) == {}
    assert made.decode({"v": None}) == {"v": None}
    assert made.flat_nulls == ()


# Further names


def test_further_names_become_one_property() -> None:
    """Typed further names are published as pairs under the name that is asked for, and read flat."""
    schema = {
        **obj(a={**INT, "default": 1}, required=[]),
        "additionalProperties": {"type": "object", "additionalProperties": INT},
    }
    made = codec(schema, rest="options")
    pair = {"key": "x", "value": [{"key": "y", "value": 2}]}

    assert violations(made.schema) == []
    assert made.schema["properties"]["options"] == pairs(pairs(INT))
    assert made.schema["required"] == ["a", "options"]
    assert made.decode({"a": None, "options": [pair]}) == {"x": {"y": 2}}
    assert made.decode({"a": 1, "x": {"y": 2}}) == {"a": 1, "x": {"y": 2}}
    assert made.decode({"a": 1, "x": [{"key": "y", "value": 2}]}) == {"a": 1, "x": {"y": 2}}
    assert made.decode({"options": {"y": 2}}) == {"options": {"y": 2}}
    assert made.decode({"a": 1, "options": []}) == {"a": 1}
    assert made.flat_nulls is None


def test_further_names_alone_stay_an_object_at_the_root() -> None:
    """The root is an object, even if it declares no name."""
    made = codec({"type": "object", "additionalProperties": INT}, rest="kwargs")

    assert made.schema == closed(kwargs=pairs(INT))
    assert made.decode({"kwargs": [{"key": "a", "value": 1}]}) == {"a": 1}


@pytest.mark.parametrize("name", ["a", "z"])
def test_a_further_name_never_overwrites(name: str) -> None:
    """A pair that names a declared property, or a name that is given too, is left to validation."""
    made = codec(
        {**obj(a={**INT, "default": 1}, required=[]), "additionalProperties": INT}, rest="rest"
    )
    value = {"z": 1, "rest": [{"key": name, "value": 2}]}

    assert made.decode(value) == value
    assert made.decode({"a": None, "rest": [{"key": "a", "value": 2}]}) == {
        "rest": [{"key": "a", "value": 2}]
    }


def test_further_names_of_an_inner_object() -> None:
    """A nested object publishes them under a name of its own that no property has."""
    inner = {**obj(extra=INT), "additionalProperties": STR}
    made = one(inner)

    assert form(made) == closed(extra=INT, extra_=pairs(STR))
    assert made.decode({"v": {"extra": 1, "extra_": [{"key": "x", "value": "y"}]}}) == {
        "v": {"extra": 1, "x": "y"}
    }


def test_a_further_name_that_is_the_published_one_is_read_as_the_pairs() -> None:
    """A list of pairs under the published name is the pairs, though it could be an argument of that name."""
    made = codec({"type": "object", "additionalProperties": {"type": "array"}}, rest="rest")
    value = {"rest": [{"key": "a", "value": []}]}

    assert made.decode(value) == {"a": []}
    assert made.decode({"rest": [{"key": "rest", "value": value["rest"]}]}) == value
    assert made.decode({"rest": [1]}) == {"rest": [1]}


# Unions and recursion


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]
    lives: str = "1"
    owner: Optional["Owner"] = None


class Owner(BaseModel):
    pets: list[Union[Cat, Dog]] = []
    names: dict[str, str] = {}


def test_members_are_told_apart_by_their_shape() -> None:
    """A union decodes each value as the member whose shape it has, in both forms and in a mixture."""
    made = of(list[Cat | Dog])
    strict = [
        {"kind": "cat", "lives": None},
        {
            "kind": "dog",
            "lives": None,
            "owner": {
                "pets": [{"kind": "cat", "lives": None}],
                "names": [{"key": "a", "value": "b"}],
            },
        },
    ]
    plain = [
        {"kind": "cat"},
        {"kind": "dog", "owner": {"pets": [{"kind": "cat"}], "names": {"a": "b"}}},
    ]
    mixed = [
        {"kind": "cat", "lives": None},
        {
            "kind": "dog",
            "owner": {"pets": [{"kind": "cat"}], "names": [{"key": "a", "value": "b"}]},
        },
    ]

    assert (
        made.decode({"v": strict})
        == made.decode({"v": plain})
        == made.decode({"v": mixed})
        == {"v": plain}
    )


def test_a_value_of_no_member_stays() -> None:
    """What no member of a union takes is left to validation."""
    made = of(list[Cat | Dog])
    value = {"v": [{"kind": "cow", "lives": None}, 3, None, "x", {"kind": "cat", "lives": "many"}]}

    assert made.decode(value) == value


def test_a_mistake_inside_of_a_member_is_decoded_around() -> None:
    """A value that names its member by a constant is decoded as that member, so that validation finds only the mistake."""
    made = of(list[Cat | Dog])
    wrong = {
        "kind": "dog",
        "lives": None,
        "owner": {"pets": [{"kind": "cat", "lives": None}], "names": "none"},
    }

    assert made.decode({"v": [wrong]}) == {
        "v": [{"kind": "dog", "owner": {"pets": [{"kind": "cat"}], "names": "none"}}]
    }
    assert made.decode({"v": [{"kind": "cow", "lives": None}]}) == {
        "v": [{"kind": "cow", "lives": None}]
    }
    assert made.decode({"v": [{"lives": None, "more": 1}]}) == {"v": [{"lives": None, "more": 1}]}


def test_a_union_of_one_object_and_scalars_needs_no_telling_apart() -> None:
    """With one member that is no scalar, even a value with a mistake inside is decoded around it."""
    made = of(Cat | int | None)

    assert made.decode({"v": {"kind": "cow", "lives": None}}) == {"v": {"kind": "cow"}}
    assert made.decode({"v": 3}) == {"v": 3}


class Defaulted(BaseModel):
    x: int = 1


class Nullable(BaseModel):
    x: int | None


class Text(BaseModel):
    x: str | None


class Other(BaseModel):
    y: int = 2


class Pair(BaseModel):
    key: str
    value: int


class Twin(BaseModel):
    x: int = 2


@pytest.mark.parametrize(
    "annotation",
    [
        dict[str, int] | list[Pair],
        dict[str, int] | list[Any],
        dict[str, int | None] | Defaulted,
        dict[str, Any] | Defaulted,
        Defaulted | Nullable,
        Defaulted | Text,
        Defaulted | Twin,
        tuple[int, str] | dict[str, int | str],
        list[Defaulted] | list[Text],
        dict[str, Defaulted] | dict[str, Text],
        tuple[int, Defaulted] | tuple[int, Text],
    ],
)
def test_members_that_cannot_be_told_apart_are_refused(annotation: Any) -> None:
    """A union has no strict form if a strict value of one member is, or may be, something else in another."""
    assert reasons(create_model("Arguments", v=(annotation, ...)).model_json_schema()) == [
        "#/properties/v: same-strict-form"
    ]


@pytest.mark.parametrize(
    "annotation",
    [
        list[int] | set[int],
        Nullable | Text,
        Defaulted | Other,
        dict[str, int] | Defaulted,
        dict[str, int] | list[dict[str, int]],
        tuple[int, str] | tuple[str, int],
        tuple[int, str] | list[int],
        dict[str, int] | dict[str, str],
        dict[str, int] | list[Defaulted],
        tuple[dict[str, int], dict[str, int]] | int | list[str],
    ],
)
def test_members_that_can_be_told_apart_are_taken(annotation: Any) -> None:
    """A union of members with the same strict values is taken where they are read alike."""
    assert violations(of(annotation).schema) == []


def test_an_empty_array_is_the_empty_list() -> None:
    """Of a dict and a list the empty array is the list; the empty dict stays plain, and everything else is told apart."""
    made = of(dict[str, int] | list[int])

    assert made.decode({"v": []}) == {"v": []}
    assert made.decode({"v": {}}) == {"v": {}}
    assert made.decode({"v": [{"key": "a", "value": 1}]}) == {"v": {"a": 1}}


def test_recursion_that_needs_no_decoding_is_trivial() -> None:
    """A recursive type is walked only if something in it changes."""
    tree = {
        **obj(v=INT, kids={"type": "array", "items": {"$ref": "#/$defs/Tree"}}),
        "title": "Tree",
    }
    leafy = {**tree, "properties": {**tree["properties"], "w": INT}}

    assert one({"$ref": "#/$defs/Tree"}, Tree=tree).flat_nulls == ()
    made = one({"$ref": "#/$defs/Tree"}, Tree=leafy)
    assert made.flat_nulls != ()
    assert made.decode({"v": {"v": 1, "w": None, "kids": [{"v": 2, "w": None, "kids": []}]}}) == {
        "v": {"v": 1, "kids": [{"v": 2, "kids": []}]}
    }


def test_types_that_recurse_through_each_other() -> None:
    """Whether decoding is needed is found out through every reference."""
    a, b = obj(b={"$ref": "#/$defs/B"}), obj(c={"anyOf": [{"$ref": "#/$defs/C"}, NULL]})
    c = obj(a={"anyOf": [{"$ref": "#/$defs/A"}, NULL]}, n=INT, required=["a"])
    made = one({"$ref": "#/$defs/A"}, A=a, B=b, C=c)
    sent = {"v": {"b": {"c": {"a": {"b": {"c": {"a": None, "n": None}}}, "n": None}}}}

    assert made.decode(sent) == {"v": {"b": {"c": {"a": {"b": {"c": {"a": None}}}}}}}


@pytest.mark.parametrize(
    ("op", "depth"), [("not", 1), ("not", 98), ("all", 1), ("all", 48), ("via", 98)]
)
def test_deep_values_are_decoded(op: str, depth: int) -> None:
    """A value of nearly a hundred levels, with a union in each, is decoded."""

    def branch(name: str, of: Any) -> dict[str, Any]:
        return obj(op={"const": name}, of=of, n=INT, required=["op", "of"])

    made = one(
        {"$ref": "#/$defs/E"},
        E={
            "anyOf": [
                branch("not", {"$ref": "#/$defs/E"}),
                branch("all", {"type": "array", "items": {"$ref": "#/$defs/E"}}),
                branch("via", {"$ref": "#/$defs/F"}),
                {"type": "object", "additionalProperties": {"type": "boolean"}},
                {"type": "string"},
            ]
        },
        F={"oneOf": [{"$ref": "#/$defs/E"}, NULL]},
    )
    plain: Any = {"a": True}
    sent: Any = [{"key": "a", "value": True}]
    for _ in range(depth):
        plain = {"op": op, "of": [plain, "x"] if op == "all" else plain}
        sent = {"op": op, "of": [sent, "x"] if op == "all" else sent, "n": None}

    assert made.decode({"v": sent}) == {"v": plain}
    assert made.decode({"v": plain}) == {"v": plain}


def test_members_with_the_same_names_do_not_multiply() -> None:
    """Each value of a recursive union is looked at once: forty levels of two alike members end."""

    def branch(op: str) -> dict[str, Any]:
        return obj(
            left={"$ref": "#/$defs/E"},
            right={"$ref": "#/$defs/E"},
            n=INT,
            op={"const": op},
            required=["left", "right", "op"],
        )

    made = one(
        {"$ref": "#/$defs/E"},
        E={"anyOf": [branch("a"), branch("b"), branch("c"), {"type": "integer"}]},
    )
    for innermost in (1, "x"):
        sent: Any = innermost
        read: Any = innermost
        for _ in range(40):
            sent = {"left": sent, "right": 1, "n": None, "op": "c"}
            read = {"left": read, "right": 1, "op": "c"}

        assert made.decode({"v": sent}) == {"v": read}


def test_references_are_kept_and_named_once() -> None:
    """A reference stays one, two targets of one name get two names, and what nothing refers to is left out."""
    made = codec(
        {
            **obj(
                a={"$ref": "#/$defs/A"},
                b={"$ref": "#/definitions/A"},
                c={"$ref": "#/$defs/A"},
                d={"$ref": "#/$defs/x~1y~0"},
                e={"$ref": "#/$defs/L/anyOf/0"},
            ),
            "$defs": {"A": STR, "Unused": {}, "x/y~": INT, "L": {"anyOf": [INT]}},
            "definitions": {"A": INT},
        }
    )

    assert [made.schema["properties"][name]["$ref"] for name in "abc"] == [
        "#/$defs/A",
        "#/$defs/A_2",
        "#/$defs/A",
    ]
    assert made.schema["$defs"]["A"] == STR
    assert made.schema["$defs"]["A_2"] == INT
    assert (
        made.schema["properties"]["d"] == {"$ref": "#/$defs/x_y_"}
        and made.schema["$defs"]["x_y_"] == INT
    )
    assert len(made.schema["$defs"]) == 4
    assert violations(made.schema) == []


def test_the_root_may_be_a_reference_and_be_referred_to() -> None:
    """A root that refers to a definition is written out; `#` is the root itself."""
    node = {
        **obj(next={"anyOf": [{"$ref": "#/$defs/Node"}, NULL]}, n=INT, required=["next"]),
        "title": "Node",
    }
    referring = codec({"$ref": "#/$defs/Node", "$defs": {"Node": node}})
    itself = codec({**obj(next={"anyOf": [{"$ref": "#"}, NULL]}, n=INT, required=["next"])})

    for made in (referring, itself):
        assert violations(made.schema) == []
        assert made.decode({"next": {"next": None, "n": None}, "n": None}) == {
            "next": {"next": None}
        }
    assert "$defs" not in itself.schema
    assert referring.schema["title"] == "Node"


# Refusals


def test_refuse_names_all_that_needs_encoding() -> None:
    """With `refuse` each place that would be encoded is named with its remedy, moved keywords are not."""
    schema = {
        **obj(
            limit={**INT, "default": 10},
            tags={"type": "object", "additionalProperties": STR},
            pair=MIXED,
            any={},
            inner={"$ref": "#/$defs/I"},
            name={"type": "string", "minLength": 1},
            note={"type": ["string", "null"], "default": None},
            required=["tags", "pair", "any", "inner", "name"],
        ),
        "$defs": {"I": obj(x=INT, required=[])},
    }

    assert sorted(reasons(schema, refuse=True)) == [
        "#/$defs/I/properties/x: required-incomplete",
        "#/properties/any: type-missing",
        "#/properties/limit: required-incomplete",
        "#/properties/note: required-incomplete",
        "#/properties/pair: keyword-prefixItems",
        "#/properties/tags: properties-missing",
    ]
    assert sorted(": ".join(reason.split(": ")[:2]) for reason in codec(schema).reasons) == sorted(
        reasons(schema, refuse=True)
    )


def test_refusals_come_together() -> None:
    """What has no strict form and what needs encoding are listed in one error."""
    schema = obj(
        a={"allOf": [STR, STR]}, b={"oneOf": []}, c={**INT, "default": 1}, required=["a", "b"]
    )

    assert reasons(schema) == ["#/properties/a: keyword-allOf", "#/properties/b: keyword-oneOf"]
    assert reasons(schema, refuse=True) == [*reasons(schema), "#/properties/c: required-incomplete"]


def test_an_open_object_hides_no_other_refusal() -> None:
    """What is wrong inside of an object that is open to anything is listed beside that, so that one look mends all."""
    schema = {
        **obj(a={"allOf": [STR, STR]}, b={**INT, "default": 1}, required=["a"]),
        "additionalProperties": True,
    }

    assert sorted(reasons(schema)) == ["#/properties/a: keyword-allOf", "#: additional-properties"]
    assert sorted(reasons(schema, refuse=True)) == [
        *sorted(reasons(schema))[:1],
        "#/properties/b: required-incomplete",
        "#: additional-properties",
    ]


@pytest.mark.parametrize(
    ("schema", "rule"),
    [
        (False, "boolean-schema"),
        ({"allOf": [STR, {"minLength": 1}]}, "keyword-allOf"),
        ({"allOf": [True]}, "keyword-allOf"),
        ({"allOf": []}, "keyword-allOf"),
        ({"anyOf": []}, "keyword-anyOf"),
        ({**obj(a=INT), "anyOf": [{"required": ["a"]}]}, "keyword-anyOf"),
        ({**obj(a=INT), "oneOf": [obj(b=INT)]}, "keyword-oneOf"),
        ({**obj(a=INT), "additionalProperties": True}, "additional-properties"),
        ({**obj(a=INT), "additionalProperties": {}}, "additional-properties"),
        (
            {**obj(a=INT), "additionalProperties": {"description": "anything"}},
            "additional-properties",
        ),
        ({"type": "object", "required": ["a"]}, "additional-properties"),
        (
            {"type": "object", "patternProperties": {"a": INT, "b": INT}},
            "keyword-patternProperties",
        ),
        (
            {"type": "object", "patternProperties": {"a": INT}, "additionalProperties": INT},
            "keyword-patternProperties",
        ),
        ({**MIXED, "items": INT}, "keyword-prefixItems"),
        ({"type": "array", "items": [INT]}, "items-shape"),
        ({"type": "boolean", "enum": ["yes"]}, "enum-type"),
        ({"type": "array", "enum": [["a"]]}, "enum-type"),
        ({"enum": [{"a": 1}]}, "enum-type"),
        ({"enum": []}, "enum-type"),
        ({"type": "dict"}, "type-unknown"),
        ({"type": ["string", "tuple"]}, "type-unknown"),
        ({"$ref": "#/$defs/none"}, "ref-target"),
        ({"$ref": "#/$defs/B/0"}, "ref-target"),
        ({"$ref": "other.json#/a"}, "ref-target"),
        ({"$ref": "#anchor"}, "ref-target"),
        ({"$ref": "#/$defs/A", "properties": {}}, "ref-siblings"),
        ({"type": 3}, "malformed"),
        ({"type": [["string"]]}, "malformed"),
        ({"type": "object", "properties": []}, "malformed"),
        ({"type": "object", "properties": {}, "required": True}, "malformed"),
        ({"type": "object", "properties": {}, "required": [{}]}, "malformed"),
        ({"anyOf": {}}, "malformed"),
        ({"type": "array", "minItems": "2"}, "malformed"),
        ({"$ref": 3}, "malformed"),
    ],
)
def test_what_has_no_strict_form_is_refused(schema: Any, rule: str) -> None:
    """A place that cannot be written in the subset is named, whatever is asked for."""
    whole = {**obj(v=schema), "$defs": {"A": obj(), "B": INT}}

    assert reasons(whole) == [f"#/properties/v: {rule}"]


def test_what_has_no_strict_form_deeper_is_named_there() -> None:
    """The path leads to the innermost place."""
    schema = {
        **obj(
            a={"type": "array", "items": False},
            b={"anyOf": [INT, False]},
            c={
                "type": "object",
                "additionalProperties": {"allOf": []},
                "propertyNames": {"type": "string", "enum": [1]},
            },
            d={**MIXED, "prefixItems": [INT, False]},
            e={"$ref": "#/$defs/E"},
        ),
        "$defs": {"E": obj(f=False)},
    }

    assert sorted(reasons(schema)) == [
        "#/$defs/E/properties/f: boolean-schema",
        "#/properties/a/items: boolean-schema",
        "#/properties/b/anyOf/1: boolean-schema",
        "#/properties/c/additionalProperties: keyword-allOf",
        "#/properties/c/propertyNames: enum-type",
        "#/properties/d/properties/item_1: boolean-schema",
    ]


@pytest.mark.parametrize(
    "defs",
    [
        {"A": {"$ref": "#/$defs/A"}},
        {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A", "title": "B"}},
    ],
)
def test_a_reference_to_itself_is_refused(defs: Any) -> None:
    """A definition that says only that it is itself says nothing."""
    assert reasons({**obj(v={"$ref": "#/$defs/A"}), "$defs": defs}) == [
        "#/properties/v: ref-target"
    ]


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"type": "object", "additionalProperties": True}, "#: additional-properties"),
        ({**obj(a=INT), "additionalProperties": {}}, "#: additional-properties"),
        ({"type": "string"}, "#: root-type"),
        ({"type": ["object", "null"], "properties": {}}, "#: root-type"),
        ({"anyOf": [obj(a=INT), obj(b=INT)]}, "#: root-type"),
        ({"$ref": "#"}, "#: ref-target"),
    ],
)
def test_a_root_without_a_strict_form_is_refused(schema: Any, place: str) -> None:
    """The root is one object, open to nothing untyped."""
    assert reasons(schema) == [place]


@pytest.mark.parametrize(
    "schema", [{}, {"type": "object"}, {"properties": {}}, {"description": "", "type": "object"}]
)
def test_no_arguments_are_an_empty_object(schema: dict[str, Any]) -> None:
    """A schema that names nothing takes nothing."""
    made = codec(schema)

    assert {key: made.schema[key] for key in closed()} == closed()
    assert made.flat_nulls == ()


def test_a_type_named_twice_is_named_once() -> None:
    """JSON Schema takes no type twice, and an object named twice is still an object."""
    made = codec(
        obj(a={"type": ["string", "string"]}, b={"type": ["object", "object"], "properties": {}})
    )

    assert made.schema["properties"] == {"a": {"type": "string"}, "b": closed()}


# Promises that hold for everything


def test_nothing_that_is_given_is_changed() -> None:
    """Neither the schema nor a value is changed, and what comes out shares nothing with the next schema."""
    schema = {
        **obj(
            a={"type": "object", "additionalProperties": INT},
            b={**MIXED, "default": [1, "a"]},
            c={},
            required=["a"],
        ),
        "additionalProperties": INT,
    }
    value = {
        "a": [{"key": "x", "value": 1}],
        "b": {"item_0": 1, "item_1": "z"},
        "c": None,
        "extra": [{"key": "y", "value": 1}],
    }
    before = copy.deepcopy((schema, value))
    made = codec(schema)

    assert made.decode(value) == {"a": {"x": 1}, "b": [1, "z"], "c": None, "y": 1}
    made.schema["properties"]["c"]["anyOf"].clear()
    made.schema["properties"]["a"]["items"].clear()

    assert (schema, value) == before
    assert codec(schema).schema["properties"]["c"]["anyOf"] == ANY["anyOf"]


def test_a_mapping_is_read_like_a_dict() -> None:
    """The whole value may be any mapping."""
    from types import MappingProxyType

    made = codec(MappingProxyType(obj(a=INT, required=[])))

    assert made.decode(MappingProxyType({"a": None})) == {}


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.sampled_from([0.5, 1.0, "a", "key", "string", "object", "#/$defs/A", "cat"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["a", "b", "v", "key", "value", "kind", "lives", "item_0", "item_1", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)
TAKERS = [
    of(list[Cat | Dog]),
    of(dict[str, int] | list[int] | Other),
    of(Triple),
    of(tuple[int, dict[str, Defaulted]] | None),
    codec({**obj(a=INT, required=[]), "additionalProperties": MIXED}, rest="v"),
]


@given(value=json_values, made=st.sampled_from(TAKERS))
def test_wrong_values_never_raise(value: Any, made: Codec) -> None:
    """Any JSON value at all passes through."""
    before = copy.deepcopy(value)

    for sent in (value, {"v": value}, {"v": [value]}):
        made.decode(sent)

    assert value == before


def schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    types = st.sampled_from(["string", "integer", "object", "array", "null", "number", "boolean"])
    named = st.dictionaries(st.sampled_from(["a", "b", "key"]), inner, max_size=2)
    listed = st.lists(inner, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": types | types | st.lists(types, max_size=3),
            "properties": named,
            "required": st.lists(st.sampled_from(["a", "b"]), max_size=2),
            "additionalProperties": inner | st.booleans(),
            "patternProperties": named,
            "propertyNames": inner,
            "items": inner,
            "prefixItems": listed,
            "anyOf": listed,
            "oneOf": listed,
            "allOf": listed,
            "enum": st.lists(st.sampled_from(["a", 1, None, True]), max_size=2),
            "default": st.sampled_from([None, 1, [], {}]),
            "minItems": st.integers(0, 3),
            "$ref": st.sampled_from(["#", "#/$defs/A", "#/$defs/B", "#/properties/a"]),
            "minLength": st.just(1),
            "description": st.just("text"),
            "format": st.sampled_from(["date", "uri"]),
        },
    ).map(lambda made: dict([*made.items()][-4:]))


any_schema = st.recursive(
    st.booleans()
    | st.just({})
    | st.fixed_dictionaries({"type": st.sampled_from(["string", "integer"])}),
    schemas,
    max_leaves=6,
)


@given(
    fields=st.dictionaries(st.sampled_from(["a", "b"]), any_schema, max_size=2),
    a=any_schema,
    b=any_schema,
    junk=json_values,
)
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_any_schema_becomes_strict_or_is_refused(fields: Any, a: Any, b: Any, junk: Any) -> None:
    """Whatever a schema holds, references in circles included, its form meets the subset or every reason is named."""
    schema = {**obj(**fields), "$defs": {"A": a, "B": b}}
    try:
        made = codec(schema)
    except SchemaError as error:
        assert all(reason.startswith("#") for reason in error.reasons)
        return

    assert violations(made.schema) == []
    jsonschema.Draft202012Validator.check_schema(made.schema)
    made.decode({"a": junk})


@given(schema=json_values)
def test_nonsense_is_refused_in_order(schema: Any) -> None:
    """JSON that is no schema is refused or taken, never an accident."""
    for given_ in (
        {"properties": schema},
        {"type": "object", "properties": {"a": schema}},
        {"type": "object", "anyOf": schema, "required": schema},
    ):
        assert isinstance(violations(given_), list)
        try:
            assert violations(codec(given_).schema) == []
        except SchemaError:
            pass


# Laws over types


class Node(BaseModel):
    v: int = 3
    kids: list[Node] = []
    next: Node | None = None
    names: dict[str, Node] = {}


class Spec:
    """A type, and a way to draw a value of it twice: in plain form, and as it may be sent."""

    def __init__(self, annotation: Any, draw: Any, nullable: bool = False) -> None:
        self.annotation, self.draw, self.nullable = annotation, draw, nullable


def leaf(annotation: Any, values: st.SearchStrategy[Any], nullable: bool = False) -> Spec:
    def draw(draw: Any, mode: str) -> Any:
        value = draw(values)
        return value, value

    return Spec(annotation, draw, nullable)


texts = st.sampled_from(["", "a", "key", "value", "item_0", "é"])
LEAVES = st.sampled_from(
    [
        leaf(int, st.integers(-9, 9)),
        leaf(float, st.sampled_from([0.5, 2, -1.0])),
        leaf(str, texts),
        leaf(bool, st.booleans()),
        leaf(Literal["a", 1, None], st.sampled_from(["a", 1, None]), True),
        leaf(Literal["only"], st.just("only")),
        leaf(Any, st.sampled_from([1, "a", None, True, 1.5]), True),
        leaf(set[int], st.lists(st.integers(0, 5), unique=True, max_size=3)),
        leaf(type(None), st.none(), True),
    ]
)


def is_strict(draw: Any, mode: str) -> bool:
    return draw(st.booleans()) if mode == "mixed" else mode.startswith("strict")


def listed(inner: Spec) -> Spec:
    def draw(draw: Any, mode: str) -> Any:
        both = [inner.draw(draw, mode) for _ in range(draw(st.integers(0, 2)))]
        return [plain for plain, _ in both], [sent for _, sent in both]

    return Spec(list[inner.annotation], draw)


def mapped(inner: Spec) -> Spec:
    def draw(draw: Any, mode: str) -> Any:
        keys = draw(st.lists(texts, unique=True, min_size=mode.endswith("in a union"), max_size=2))
        both = {key: inner.draw(draw, mode) for key in keys}
        if is_strict(draw, mode):
            return {key: plain for key, (plain, _) in both.items()}, [
                {"key": key, "value": sent} for key, (_, sent) in both.items()
            ]
        return {key: plain for key, (plain, _) in both.items()}, {
            key: sent for key, (_, sent) in both.items()
        }

    return Spec(dict[str, inner.annotation], draw)


def tupled(first: Spec, second: Spec, named: bool) -> Spec:
    annotation: Any = tuple[first.annotation, second.annotation]
    if named:
        annotation = NamedTuple(
            "Named", [("first", first.annotation), ("second", second.annotation)]
        )  # type: ignore[misc]

    unlike = (
        len({json.dumps(item) for item in TypeAdapter(annotation).json_schema()["prefixItems"]}) > 1
    )

    def draw(draw: Any, mode: str) -> Any:
        (a, sent_a), (b, sent_b) = first.draw(draw, mode), second.draw(draw, mode)
        if unlike and is_strict(draw, mode):
            return [a, b], {"item_0": sent_a, "item_1": sent_b}
        return [a, b], [sent_a, sent_b]

    return Spec(annotation, draw)


def record(fields: dict[str, tuple[Spec, bool]], typed_dict: bool, tag: str = "") -> Spec:
    """An object whose fields are required or not; one that admits null is always given, since strict cannot leave it out."""
    if typed_dict:
        annotation: Any = TypedDict(
            "Typed", {name: spec.annotation for name, (spec, _) in fields.items()}, total=False
        )  # type: ignore[misc]
        fields = {name: (spec, False) for name, (spec, _) in fields.items()}
    else:
        tags = {"tag": (Literal[tag], ...)} if tag else {}
        annotation = create_model(
            f"Model{tag}",
            **tags,
            **{
                name: (spec.annotation, ... if needed else Field(default=None))
                for name, (spec, needed) in fields.items()
            },
        )

    def draw(draw: Any, mode: str) -> Any:
        plain, sent = ({"tag": tag}, {"tag": tag}) if tag else ({}, {})
        for name, (spec, needed) in fields.items():
            if needed or spec.nullable or draw(st.booleans()):
                plain[name], sent[name] = spec.draw(draw, mode)
            elif is_strict(draw, mode):
                sent[name] = None
        return plain, sent

    return Spec(annotation, draw)


def either(members: list[Spec]) -> Spec:
    def draw(draw: Any, mode: str) -> Any:
        # A mixture need not tell which member of an untagged union it is, nor an empty array whether it is a dict.
        return draw(st.sampled_from(members)).draw(
            draw, "strict in a union" if is_strict(draw, mode) else "plain"
        )

    return Spec(
        Union[tuple(spec.annotation for spec in members)],
        draw,
        any(spec.nullable for spec in members),
    )


def tagged(members: list[dict[str, tuple[Spec, bool]]]) -> Spec:
    specs = [record(fields, False, f"t{index}") for index, fields in enumerate(members)]

    def draw(draw: Any, mode: str) -> Any:
        return draw(st.sampled_from(specs)).draw(draw, mode)

    union: Any = Union[tuple(spec.annotation for spec in specs)]
    return Spec(
        union
        if len(specs) == 1
        else __import__("typing").Annotated[union, Field(discriminator="tag")],
        draw,
    )


def node(depth: int = 2) -> Spec:
    def draw(draw: Any, mode: str, depth: int = depth) -> Any:
        plain: dict[str, Any] = {"next": None}
        sent: dict[str, Any] = {"next": None}
        if depth and draw(st.booleans()):
            plain["next"], sent["next"] = node(depth - 1).draw(draw, mode)
        for name, spec in {
            "v": leaf(int, st.integers()),
            "kids": listed(node(depth - 1)),
            "names": mapped(node(depth - 1)),
        }.items():
            if depth and draw(st.booleans()):
                plain[name], sent[name] = spec.draw(draw, mode)
            elif is_strict(draw, mode):
                sent[name] = None
        return plain, sent

    return Spec(Node, draw)


def larger(inner: st.SearchStrategy[Spec]) -> st.SearchStrategy[Spec]:
    fields = st.dictionaries(
        st.sampled_from(["a", "b", "key"]), st.tuples(inner, st.booleans()), min_size=1, max_size=3
    )
    return st.one_of(
        inner.map(listed),
        inner.map(mapped),
        st.builds(tupled, inner, inner, st.booleans()),
        st.builds(record, fields, st.booleans()),
        st.lists(inner, min_size=2, max_size=3).map(either),
        st.lists(fields, min_size=2, max_size=2).map(tagged),
    )


SPECS = st.recursive(LEAVES | st.builds(node), larger, max_leaves=4)


@given(
    data=st.data(),
    fields=st.dictionaries(
        st.sampled_from(["x", "y"]), st.tuples(SPECS, st.booleans()), min_size=1
    ),
    mode=st.sampled_from(["plain", "strict", "mixed"]),
)
@settings(
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
    ]
)
def test_laws(data: Any, fields: dict[str, tuple[Spec, bool]], mode: str) -> None:
    """For every type and value: the form meets the subset, and the plain, strict and mixed forms decode alike."""
    spec = record(fields, False)
    try:
        made = codec(spec.annotation.model_json_schema())
    except SchemaError as error:
        assert {reason.split(": ")[1] for reason in error.reasons} == {"same-strict-form"}
        assume(False)
    plain, sent = spec.draw(data.draw, mode)

    assert violations(made.schema) == []
    assert made.decode(plain) == plain
    assert made.decode(sent) == plain
    if mode == "strict":
        jsonschema.Draft202012Validator(made.schema).validate(sent)
        spec.annotation.model_validate_json(json.dumps(made.decode(sent)))
