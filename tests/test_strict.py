"""The strict subset: what leaves it, what a schema becomes in it, and how values travel back."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple, Optional, Union

import jsonschema
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, TypeAdapter, create_model
from typing_extensions import TypedDict

from functool.dialects._subset import in_words, violations
from functool.errors import ArgumentError, SchemaError
from functool.schema import strict
from functool.schema.shapes import CountingMemo, tags_of
from functool.schema.steps import Step, decode_union
from functool.schema.strict import Codec, codec
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
    ref,
    tuple_of,
)
from tests.strategies import SINGLE, nested


def obj(*, required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties] if required is None else required,
    }


def closed(**properties: Any) -> dict[str, Any]:
    return {**obj(**properties), "additionalProperties": False}


def pairs(value: dict[str, Any], key: dict[str, Any] | None = None) -> dict[str, Any]:
    return array(closed(key=key or STR, value=value))


def as_pairs(value: dict[str, Any]) -> list[dict[str, Any]]:
    """A dict in the form in which a strict schema has it."""
    return [{"key": key, "value": each} for key, each in value.items()]


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


def places(reasons: Iterable[str]) -> list[str]:
    """The places and rules that reasons name, without the remedies."""
    return [": ".join(reason.split(": ")[:2]) for reason in reasons]


def reasons(schema: dict[str, Any], **options: Any) -> list[str]:
    """The places and rules that a codec refuses."""
    with pytest.raises(SchemaError) as caught:
        codec(schema, **options)
    assert all(len(reason.split(": ", 2)) == 3 for reason in caught.value.reasons)
    assert all(reason in str(caught.value) for reason in caught.value.reasons)
    return places(caught.value.reasons)


# The subset


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        (STR, []),
        ({**MAYBE_STR, "enum": ["F", "C", None]}, []),
        ({**STR, "const": "a", "title": "A", "description": "An a."}, []),
        ({**STR, "format": "date-time", "pattern": "^a"}, []),
        ({**NUM, "minimum": 1, "exclusiveMaximum": 9, "multipleOf": 2}, []),
        (array(INT, minItems=1, maxItems=2), []),
        (any_of(INT, NULL), []),
        (closed(a=INT), []),
        ({"$ref": "#"}, []),
        ({}, ["type-missing"]),
        ({"const": 1}, ["type-missing"]),
        ({"enum": ["a", 1]}, ["type-missing"]),
        ({"type": "int"}, ["type-unknown"]),
        ({**STR, "enum": ["a", 1]}, ["enum-type"]),
        ({**BOOL, "const": 1}, ["enum-type"]),
        ({**INT, "enum": [True]}, ["enum-type"]),
        ({**INT, "enum": [1, 2.0]}, []),
        ({**INT, "enum": [1.5]}, ["enum-type"]),
        ({**NUM, "enum": [1, 2.5]}, []),
        (True, ["boolean-schema"]),
        (False, ["boolean-schema"]),
        ({"type": "array"}, ["items-missing"]),
        (array(True), ["boolean-schema"]),
        (array([STR]), ["items-shape"]),
        (dict_of(False), ["properties-missing"]),
        ({"type": ["object", "null"], "additionalProperties": False}, ["properties-missing"]),
        ({"type": "object", "properties": {}}, ["additional-properties"]),
        (
            {"type": "object", "properties": {}, "additionalProperties": True},
            ["additional-properties"],
        ),
        ({**closed(a=NULL, b=NULL), "required": []}, ["required-incomplete (a, b)"]),
        ({**STR, "format": "uri"}, ["format"]),
        ({**STR, "pattern": "^(?!a)"}, ["pattern-lookaround"]),
        ({**STR, "pattern": "(?=a)"}, ["pattern-lookaround"]),
        ({**STR, "pattern": "(?<=a)b"}, ["pattern-lookaround"]),
        ({**STR, "pattern": "(?<!a)b"}, ["pattern-lookaround"]),
        ({**STR, "minLength": 1}, ["azure-minLength"]),
        ({**STR, "maxLength": 1}, ["azure-maxLength"]),
        ({**STR, "default": "a"}, ["azure-default"]),
        ({"$ref": "#", "description": "again"}, ["ref-siblings"]),
        ({"$ref": "#", "definitions": {}, "$defs": {}}, []),
        (ref("none"), ["ref-target"]),
        ({"$ref": "https://example.com/schema"}, ["ref-target"]),
        ({"oneOf": [STR]}, ["keyword-oneOf"]),
        ({"allOf": [STR]}, ["keyword-allOf"]),
        ({**STR, "$id": "urn:a"}, ["keyword-$id"]),
        ({**STR, "properties": []}, ["malformed"]),
        ({"type": 1}, ["malformed"]),
        ({"type": "object", "required": [[]]}, ["malformed"]),
    ],
)
def test_violations_names_the_rule_of_each_place(schema: Any, found: list[str]) -> None:
    """A property outside of the subset is named by its pointer and the rule."""
    assert violations(closed(v=schema)) == [f"#/properties/v: {rule}" for rule in found]


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (False, "true or false in place of a schema"),
        (array([STR]), "a tuple as older drafts write it"),
        ({**STR, "properties": []}, "not valid JSON Schema"),
        ({}, "no type"),
        ({"type": "text"}, "an unknown type"),
        ({**STR, "enum": [1]}, "a choice of another type"),
        ({"type": "array"}, "a list without a schema of its items"),
        (dict_of(False), "an object without named properties"),
        ({"type": "object", "properties": {}}, "an object that takes further names"),
        ({**closed(a=NULL, b=NULL), "required": []}, "optional properties (a, b)"),
        ({**STR, "format": "uri"}, "the keyword format"),
        ({**STR, "pattern": "^(?!a)"}, "a pattern with a lookaround"),
        ({**STR, "default": "a"}, "the keyword default"),
        ({**STR, "x-unit": "cm"}, "the keyword x-unit"),
        ({"$ref": "#", "description": "again"}, "keywords beside $ref"),
        (ref("none"), "a $ref to nothing"),
    ],
)
def test_a_host_reads_the_rules_in_words(schema: Any, words: str) -> None:
    """What a dialect lists for a host names no rule, but says what is there."""
    assert in_words(closed(v=schema)) == [f"#/properties/v: {words}"]


def test_a_host_reads_what_is_wrong_with_the_root() -> None:
    """A root that is no object or a union is said in words, too."""
    assert in_words({"type": "string", "anyOf": [STR]}) == [
        "#: the root is not an object",
        "#: the root is a union or a reference",
    ]


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
    bad = {**STR, "default": "x"}
    schema = {
        **closed(a=array(bad), b=any_of(NULL, bad), c={"oneOf": [bad]}, d={"allOf": [bad]}),
        "$defs": {"D": bad},
        "definitions": {"E": bad},
    }
    schema["properties"]["e"] = {"type": "object", "properties": {}, "additionalProperties": bad}
    schema["properties"]["f"] = array(NULL, prefixItems=[bad])
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
            a={**STR, "enum": ["x", "y"], "title": "A", "description": "An a."},
            b=array(any_of({**NUM, "minimum": 1}, NULL), minItems=2, maxItems=3),
            c=ref("C"),
            d={**STR, "format": "date"},
        ),
        "$defs": {"C": closed(e={"type": ["boolean", "null"]})},
        "title": "Arguments",
    }

    made = codec(schema)

    assert made.schema == schema
    assert made.flat_nulls == ()
    assert made.reasons == ()


@pytest.mark.parametrize("keyword", ["examples", "deprecated", "readOnly", "writeOnly", "x-unit"])
def test_an_annotation_outside_of_the_subset_is_said(keyword: str) -> None:
    """What no strict schema may hold is a sentence in the description, and no reason to refuse."""
    schema = {"type": "integer", "description": "N.", keyword: [1], "$comment": "ours"}
    made = codec(closed(v=schema), refuse=True)

    assert form(made) == {**INT, "description": f"N. {keyword}: [1]."}
    assert f"#/properties/v: keyword-{keyword}" in violations(closed(v=schema))


@pytest.mark.parametrize(
    ("schema", "strict", "said"),
    [
        ({**INT, "default": 10}, MAYBE_INT, "Default: 10. Null means the default."),
        (
            {**INT, "default": 10, "description": "How many."},
            MAYBE_INT,
            "How many. Default: 10. Null means the default.",
        ),
        ({**STR, "default": None}, MAYBE_STR, "Default: null. Null means the default."),
        (STR, MAYBE_STR, "Null means that it is left out."),
        ({**MAYBE_INT, "default": 5}, MAYBE_INT, "Default: 5. Null is a value of its own here."),
        ({**MAYBE_INT, "default": None}, MAYBE_INT, "Default: null."),
        (MAYBE_INT, MAYBE_INT, "Null is a value of its own here."),
        (
            {"enum": ["a", "b"], "default": "a"},
            {**MAYBE_STR, "enum": ["a", "b", None]},
            'Default: "a". Null means the default.',
        ),
        (
            {**STR, "const": "a", "default": "a"},
            {**MAYBE_STR, "enum": ["a", None]},
            'Default: "a". Null means the default.',
        ),
        (
            {"enum": ["a", None], "default": "a"},
            {**MAYBE_STR, "enum": ["a", None]},
            'Default: "a". Null is a value of its own here.',
        ),
        (
            {**MAYBE_STR, "enum": ["F", "C"]},
            {**MAYBE_STR, "enum": ["F", "C", None]},
            "Null means that it is left out.",
        ),
        (
            {"type": ["string", "integer"], "default": 1},
            {"type": ["string", "integer", "null"]},
            "Default: 1. Null means the default.",
        ),
        (
            array(INT, default=[], title="V"),
            any_of(array(INT), NULL, title="V"),
            "Default: []. Null means the default.",
        ),
        (
            {**closed(), "title": "V"},
            any_of(closed(), NULL, title="V"),
            "Null means that it is left out.",
        ),
        (
            any_of(INT, STR, default=1),
            any_of(INT, STR, NULL),
            "Default: 1. Null means the default.",
        ),
        (
            ref("D", default={}, description="A d."),
            any_of(ref("D"), NULL),
            "A d. Default: {}. Null means the default.",
        ),
        (ref("D"), any_of(ref("D"), NULL), "Null means that it is left out."),
        (ref("N", default=1), any_of(ref("N")), "Default: 1. Null is a value of its own here."),
        ({**NULL, "default": None}, NULL, "Default: null."),
    ],
)
def test_an_optional_property_is_required_and_says_what_null_means(
    schema: Any, strict: Any, said: str
) -> None:
    """What may be left out becomes nullable, once, and the description names the default."""
    made = one(schema, required=False, D=closed(), N=MAYBE_INT)

    assert form(made) == {**strict, "description": said}
    assert made.schema["required"] == ["v"]
    assert places(made.reasons) == ["#/properties/v: required-incomplete"]


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        ({**STR, "minLength": 3}, {**STR, "description": "minLength: 3."}),
        (
            {**STR, "description": "A name.", "minLength": 3, "maxLength": 5, "title": "N"},
            {**STR, "title": "N", "description": "A name. minLength: 3. maxLength: 5."},
        ),
        ({**STR, "format": "uri"}, {**STR, "description": 'format: "uri".'}),
        ({**STR, "format": "uuid"}, {**STR, "format": "uuid"}),
        ({**STR, "pattern": "^(?!a)é"}, {**STR, "description": 'pattern: "^(?!a)é".'}),
        ({**STR, "pattern": "^a"}, {**STR, "pattern": "^a"}),
        (
            {**STR, "contentEncoding": "base64"},
            {**STR, "description": 'contentEncoding: "base64".'},
        ),
        ({**STR, "not": {"const": "a"}}, {**STR, "description": 'not: {"const": "a"}.'}),
        (array(INT, uniqueItems=True), array(INT, description="uniqueItems: true.")),
        ({**INT, "default": 3}, {**INT, "description": "Default: 3."}),
        ({"oneOf": [INT, STR], "discriminator": {"propertyName": "kind"}}, any_of(INT, STR)),
        (ref("D", description="A d."), any_of(ref("D"), description="A d.")),
        (ref("D", title="D"), any_of(ref("D"), title="D")),
        (ref("D", type="object"), ref("D")),
        ({"allOf": [ref("D")], "description": "A d."}, any_of(ref("D"), description="A d.")),
        ({"allOf": [{**STR, "description": "Inner."}]}, {**STR, "description": "Inner."}),
        ({"const": "a"}, {**STR, "const": "a"}),
        ({"const": None}, {**NULL, "const": None}),
        (
            {"enum": ["a", 1, 1.5, True, None]},
            {
                "type": ["string", "integer", "number", "boolean", "null"],
                "enum": ["a", 1, 1.5, True, None],
            },
        ),
        ({**STR, "enum": ["a", None]}, {**STR, "enum": ["a"]}),
        ({**BOOL, "enum": [True, 1, "yes"]}, {**BOOL, "enum": [True]}),
        ({**STR, "const": "a", "enum": ["a", "b"]}, {**STR, "const": "a"}),
        ({**STR, "$anchor": "a", "$id": "urn:a"}, STR),
        ({"properties": {}}, closed()),
        ({"items": STR}, array(STR)),
        ({"type": "object", "properties": {}, "additionalProperties": False}, closed()),
        (
            {"type": ["array", "null"], "items": STR, "description": "Names."},
            any_of(array(STR), NULL, description="Names."),
        ),
        (
            {**STR, "anyOf": [{"format": "date"}, {"format": "uri"}], "title": "V"},
            any_of({**STR, "format": "date"}, {**STR, "description": 'format: "uri".'}, title="V"),
        ),
        (any_of(STR, STR, ref("D")), any_of(STR, ref("D"))),
        (tuple_of(INT, INT, minItems=2, maxItems=2), array(INT, minItems=2, maxItems=2)),
        (tuple_of(INT, INT, INT, minItems=1), array(INT, minItems=1, maxItems=3)),
        (
            {"prefixItems": [INT] * 3, "minItems": 5, "maxItems": 2, "items": False},
            array(INT, minItems=3, maxItems=2),
        ),
        ({"prefixItems": [INT]}, array(INT, minItems=0, maxItems=1)),
        (
            any_of(ref("D"), {"properties": {}, "title": "E"}, type="object"),
            any_of(ref("D"), {**closed(), "title": "E"}),
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


ANY = any_of(STR, NUM, BOOL, NULL)


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        ({}, ANY),
        (True, ANY),
        ({"description": "What you like."}, {**ANY, "description": "What you like."}),
        ({"type": "array"}, array(ANY)),
        (array({}), array(ANY)),
        (tuple_of(maxItems=0), array(ANY, maxItems=0)),
    ],
)
def test_any_value_becomes_a_scalar(schema: Any, strict: Any) -> None:
    """Anything at all is spelled out as the scalar types, which is a narrowing that `refuse` names."""
    made = one(schema)

    assert form(made) == strict
    assert made.flat_nulls == ()
    assert [place.split(": ")[1] for place in places(made.reasons)] == ["type-missing"]
    assert made.decode({"v": {"a": [1]}}) == {"v": {"a": [1]}}


def test_a_required_name_without_a_schema_is_any_value() -> None:
    """A name that is required and nowhere described becomes a property of any scalar type."""
    made = codec({**closed(a=STR), "required": ["a", "b"]})

    assert made.schema["required"] == ["a", "b"]
    assert made.schema["properties"]["b"] == ANY


def test_the_reason_says_the_remedy() -> None:
    """What an optional property costs is said with the way around it."""
    reason = "null means that it is absent; require it, and let its type allow null if it may have no value"

    assert one({**INT, "default": 1}).reasons == ()
    assert codec(obj(v=INT, required=[])).reasons == (
        f"#/properties/v: required-incomplete: {reason}",
    )


def test_an_any_with_a_default_keeps_null() -> None:
    """Null of a property that takes anything is null."""
    made = one({"default": 3}, required=False)

    assert form(made) == {**ANY, "description": "Default: 3. Null is a value of its own here."}
    assert made.decode({"v": None}) == {"v": None}


@pytest.mark.parametrize(
    ("schema", "strict", "plain"),
    [
        (dict_of(INT), pairs(INT), {"a": 1, "b": 2}),
        ({"type": "object"}, pairs(ANY), {"a": None}),
        (dict_of(True), pairs(ANY), {}),
        ({"additionalProperties": array(INT)}, pairs(array(INT)), {"a": [1]}),
        (
            dict_of(INT, propertyNames={"enum": ["a", 1]}),
            pairs(INT, {**STR, "enum": ["a"]}),
            {"a": 1},
        ),
        (
            dict_of(INT, propertyNames=ref("K")),
            pairs(INT, {**STR, "format": "uuid", "title": "K"}),
            {"a": 1},
        ),
        ({"patternProperties": {"^a": INT}}, pairs(INT, {**STR, "pattern": "^a"}), {"a": 1}),
        (
            dict_of(False, patternProperties={"^(?!a)": INT}),
            pairs(INT, {**STR, "description": 'pattern: "^(?!a)".'}),
            {"b": 1},
        ),
        ({"patternProperties": {}}, pairs(ANY), {"b": 1}),
        (
            dict_of(INT, minProperties=1, title="D"),
            {**pairs(INT), "title": "D", "description": "minProperties: 1."},
            {"b": 1},
        ),
    ],
)
def test_an_object_with_any_names_becomes_pairs(schema: Any, strict: Any, plain: Any) -> None:
    """A dict is sent as an array of keys and values, and read as a dict."""
    made = one(schema, K={"format": "uuid", "title": "K"})

    assert form(made) == strict
    assert made.decode({"v": as_pairs(plain)}) == {"v": plain}
    assert made.decode({"v": plain}) == {"v": plain}
    assert made.flat_nulls is None
    assert "#/properties/v: properties-missing" in places(made.reasons)


def test_a_dict_of_dicts_becomes_pairs_of_pairs() -> None:
    """What stands in a dict is sent and read by the same rule."""
    made = one(dict_of(dict_of(INT)))
    plain, sent = {"v": {"a": {"b": 1}}}, {"v": as_pairs({"a": as_pairs({"b": 1})})}

    assert form(made) == pairs(pairs(INT))
    assert made.decode(sent) == made.decode(plain) == plain


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
    made = one(dict_of(INT))

    assert made.decode({"v": value}) == {"v": value}
    assert made.decode(value) == value


MIXED = tuple_of(INT, STR, minItems=2, maxItems=2)


def test_a_tuple_of_unlike_items_becomes_an_object() -> None:
    """Items of several types get a name each; titles, such as a NamedTuple's, stay with them."""
    x, y = {**INT, "title": "X"}, {**INT, "title": "Y"}

    assert form(one(MIXED)) == closed(item_0=INT, item_1=STR)
    assert form(one(tuple_of(x, y, minItems=2, maxItems=2))) == closed(item_0=x, item_1=y)
    assert one(MIXED).decode({"v": {"item_0": 1, "item_1": "a"}}) == {"v": [1, "a"]}
    assert one(MIXED).decode({"v": [1, "a"]}) == {"v": [1, "a"]}
    assert places(one(MIXED).reasons) == ["#/properties/v: keyword-prefixItems"]


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
    made = one(tuple_of(INT, STR))

    assert made.decode({"v": {"item_0": None, "item_1": None}}) == {"v": []}
    assert made.decode({"v": {"item_0": 1, "item_1": None}}) == {"v": [1]}


def test_a_tuple_fills_a_gap_with_the_default() -> None:
    """An item left out before one that is given gets its default, a fresh one each time; without one the object stays."""
    gap = tuple_of(INT, array(INT, default=[7]), STR, minItems=1)
    unknown = tuple_of(INT, array(INT), STR, minItems=1)
    sent = {"v": {"item_0": 1, "item_1": None, "item_2": "a"}}
    made = one(gap)

    first = made.decode(sent)
    first["v"][1].append(8)

    assert made.decode(sent) == {"v": [1, [7], "a"]}
    assert one(unknown).decode(sent) == sent


# Null


def test_null_drops_what_may_be_left_out() -> None:
    """Null of a property that may be left out and admits no null is dropped, at each depth; every other null stays."""
    inner = obj(a={**INT, "default": 1}, b={**MAYBE_INT, "default": 2}, c=INT, required=["c"])
    made = codec(obj(p=inner, q={**inner, "default": {}}, required=["p"]))
    full = {"p": {"a": None, "b": None, "c": None}, "q": {"a": 1, "b": 1, "c": 1}}

    assert made.decode(full) == {"p": {"b": None, "c": None}, "q": {"a": 1, "b": 1, "c": 1}}
    assert made.decode({"p": {"a": None}, "q": None}) == {"p": {}}
    assert made.decode({"p": None, "q": None, "z": None}) == {"p": None, "z": None}
    assert made.flat_nulls is None


def test_flat_arguments_only_drop_nulls() -> None:
    """Where decoding is dropping nulls at the top, their names are known."""
    made = codec(
        obj(a=INT, b={**INT, "default": 1}, c={**MAYBE_INT, "default": 1}, d=STR, required=["a"])
    )

    assert made.flat_nulls == ("b", "d")
    assert made.decode({"a": None, "b": None, "c": None, "d": None}) == {"a": None, "c": None}


def test_an_optional_null_can_be_left_out_in_the_plain_form_only() -> None:
    """A type that admits null keeps it, so an absent one has no strict form and stays absent."""
    made = one({**MAYBE_INT, "default": 5}, required=False)

    assert made.decode({}) == {}
    assert made.decode({"v": None}) == {"v": None}
    assert made.flat_nulls == ()


# Further names


def test_further_names_become_one_property() -> None:
    """Typed further names are published as pairs under the name that is asked for, and read flat."""
    schema = {**obj(a={**INT, "default": 1}, required=[]), "additionalProperties": dict_of(INT)}
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
    made = codec(dict_of(INT), rest="kwargs")

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
    made = one({**obj(extra=INT), "additionalProperties": STR})
    plain, sent = {"extra": 1, "x": "y"}, {"extra": 1, "extra_": as_pairs({"x": "y"})}

    assert form(made) == closed(extra=INT, extra_=pairs(STR))
    assert made.decode({"v": sent}) == {"v": plain}


def test_a_further_name_that_is_the_published_one_is_read_as_the_pairs() -> None:
    """A list of pairs under the published name is the pairs, though it could be an argument of that name."""
    made = codec(dict_of({"type": "array"}), rest="rest")
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


CAT, STRICT_CAT = {"kind": "cat"}, {"kind": "cat", "lives": None}


def test_members_are_told_apart_by_their_shape() -> None:
    """A union decodes each value as the member whose shape it has, in both forms and in a mixture."""
    made = of(list[Cat | Dog])
    names = as_pairs({"a": "b"})
    plain = [CAT, {"kind": "dog", "owner": {"pets": [CAT], "names": {"a": "b"}}}]
    mixed = [STRICT_CAT, {"kind": "dog", "owner": {"pets": [CAT], "names": names}}]
    owner = {"pets": [STRICT_CAT], "names": names}
    strict = [STRICT_CAT, {"kind": "dog", "lives": None, "owner": owner}]

    for sent in (strict, plain, mixed):
        assert made.decode({"v": sent}) == {"v": plain}


def test_a_value_of_no_member_stays() -> None:
    """What no member of a union takes is left to validation."""
    made = of(list[Cat | Dog])
    value = {"v": [{"kind": "cow", "lives": None}, 3, None, "x", {"kind": "cat", "lives": "many"}]}

    assert made.decode(value) == value


def test_a_mistake_inside_of_a_member_is_decoded_around() -> None:
    """A value that names its member by a constant is decoded as that member, so that validation finds only the mistake."""
    made = of(list[Cat | Dog])
    wrong = {"kind": "dog", "lives": None, "owner": {"pets": [STRICT_CAT], "names": "none"}}

    assert made.decode({"v": [wrong]}) == {
        "v": [{"kind": "dog", "owner": {"pets": [CAT], "names": "none"}}]
    }
    for stays in ({"kind": "cow", "lives": None}, {"lives": None, "more": 1}):
        assert made.decode({"v": [stays]}) == {"v": [stays]}


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
    tree = {**obj(v=INT, kids=array(ref("Tree"))), "title": "Tree"}
    leafy = {**tree, "properties": {**tree["properties"], "w": INT}}

    assert one(ref("Tree"), Tree=tree).flat_nulls == ()
    made = one(ref("Tree"), Tree=leafy)
    assert made.flat_nulls != ()
    assert made.decode({"v": {"v": 1, "w": None, "kids": [{"v": 2, "w": None, "kids": []}]}}) == {
        "v": {"v": 1, "kids": [{"v": 2, "kids": []}]}
    }


def test_another_argument_does_not_make_a_recursive_type_decode() -> None:
    """Members of one shape stay a union, and large values cost nothing, beside an optional argument."""
    node = obj(kids=array(any_of(ref("A"), ref("B"))))
    schema = {**obj(v=any_of(ref("A"), ref("B")), note=STR), "$defs": {"A": node, "B": node}}

    assert codec({**schema, "required": ["v"]}).flat_nulls == ("note",)


def test_types_that_recurse_through_each_other() -> None:
    """Whether decoding is needed is found out through every reference."""
    a, b = obj(b=ref("B")), obj(c=any_of(ref("C"), NULL))
    c = obj(a=any_of(ref("A"), NULL), n=INT, required=["a"])
    made = one(ref("A"), A=a, B=b, C=c)
    sent = {"v": {"b": {"c": {"a": {"b": {"c": {"a": None, "n": None}}}, "n": None}}}}

    assert made.decode(sent) == {"v": {"b": {"c": {"a": {"b": {"c": {"a": None}}}}}}}


def test_a_chain_of_recursive_types_is_written_a_few_times(monkeypatch: Any) -> None:
    """Each is known to need decoding after that before it, so a hostile schema took a pass for each."""
    made: list[Any] = []

    class Counted(strict._Writer):
        def __init__(self, *given: Any) -> None:
            made.append(given)
            super().__init__(*given)

    monkeypatch.setattr(strict, "_Writer", Counted)
    last = 40
    types = {f"T{n}": obj(back=ref(f"T{n - 1}"), next=ref(f"T{n + 1}")) for n in range(1, last)}
    types["T0"] = obj(next=ref("T1"), more=dict_of(STR))
    types[f"T{last}"] = obj(back=any_of(ref(f"T{last - 1}"), NULL))
    chain = one(ref("T0"), **types)

    assert len(made) < 6
    for sent in ([{"key": "a", "value": "b"}], {"a": "b"}):
        value = {"v": {"next": {"next": {"back": {"back": {"more": sent}}}}}}
        assert chain.decode(value) == {
            "v": {"next": {"next": {"back": {"back": {"more": {"a": "b"}}}}}}
        }


@pytest.mark.parametrize(
    ("op", "depth"), [("not", 1), ("not", 98), ("all", 1), ("all", 48), ("via", 98)]
)
def test_deep_values_are_decoded(op: str, depth: int) -> None:
    """A value of nearly a hundred levels, with a union in each, is decoded."""

    def branch(name: str, of: Any) -> dict[str, Any]:
        return obj(op={"const": name}, of=of, n=INT, required=["op", "of"])

    made = one(
        ref("E"),
        E=any_of(
            branch("not", ref("E")),
            branch("all", array(ref("E"))),
            branch("via", ref("F")),
            dict_of(BOOL),
            STR,
        ),
        F={"oneOf": [ref("E"), NULL]},
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
            left=ref("E"), right=ref("E"), n=INT, op={"const": op}, required=["left", "right", "op"]
        )

    made = one(ref("E"), E=any_of(branch("a"), branch("b"), branch("c"), INT))
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
                a=ref("A"),
                b={"$ref": "#/definitions/A"},
                c=ref("A"),
                d={"$ref": "#/$defs/x~1y~0"},
                e={"$ref": "#/$defs/L/anyOf/0"},
            ),
            "$defs": {"A": STR, "Unused": {}, "x/y~": INT, "L": any_of(INT)},
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
    assert made.schema["properties"]["d"] == ref("x_y_") and made.schema["$defs"]["x_y_"] == INT
    assert len(made.schema["$defs"]) == 4
    assert violations(made.schema) == []


def test_the_root_may_be_a_reference_and_be_referred_to() -> None:
    """A root that refers to a definition is written out; `#` is the root itself."""
    node = {**obj(next=any_of(ref("Node"), NULL), n=INT, required=["next"]), "title": "Node"}
    referring = codec({"$ref": "#/$defs/Node", "$defs": {"Node": node}})
    itself = codec({**obj(next=any_of({"$ref": "#"}, NULL), n=INT, required=["next"])})

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
            tags=dict_of(STR),
            pair=MIXED,
            any={},
            inner=ref("I"),
            name={**STR, "minLength": 1},
            note={**MAYBE_STR, "default": None},
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
    assert sorted(places(codec(schema).reasons)) == sorted(reasons(schema, refuse=True))


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
        (dict_of(INT, patternProperties={"a": INT}), "keyword-patternProperties"),
        ({**MIXED, "items": INT}, "keyword-prefixItems"),
        (array([INT]), "items-shape"),
        ({**BOOL, "enum": ["yes"]}, "enum-type"),
        ({"type": "array", "enum": [["a"]]}, "enum-type"),
        ({"enum": [{"a": 1}]}, "enum-type"),
        ({"enum": ["a", 2, ["b"]]}, "enum-type"),
        ({"enum": []}, "enum-type"),
        ({"type": "dict"}, "type-unknown"),
        ({"type": ["string", "tuple"]}, "type-unknown"),
        (ref("none"), "ref-target"),
        ({"$ref": "#/$defs/B/0"}, "ref-target"),
        ({"$ref": "other.json#/a"}, "ref-target"),
        ({"$ref": "#anchor"}, "ref-target"),
        (ref("A", properties={}), "ref-siblings"),
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


def test_a_reference_at_the_root_loses_nothing() -> None:
    """What stands beside it joins its target. Names that both sides have were lost, so they are refused."""
    joined = {
        "$ref": "#/$defs/A",
        "description": "Said.",
        "$defs": {"A": ref("B"), "B": obj(y=INT)},
    }
    both = {**joined, "properties": {"x": STR}, "required": ["x"]}
    deeper = {"$ref": "#/$defs/C", "$defs": {**both["$defs"], "C": {**both, "$ref": "#/$defs/A"}}}

    assert codec(joined).schema == {**closed(y=INT), "description": "Said."}
    for refused in (both, deeper):
        assert reasons(refused) == ["#: ref-siblings"]


def test_what_has_no_strict_form_deeper_is_named_there() -> None:
    """The path leads to the innermost place."""
    schema = {
        **obj(
            a=array(False),
            b=any_of(INT, False),
            c=dict_of({"allOf": []}, propertyNames={**STR, "enum": [1]}),
            d={**MIXED, "prefixItems": [INT, False]},
            e=ref("E"),
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


@pytest.mark.parametrize("defs", [{"A": ref("A")}, {"A": ref("B"), "B": ref("A", title="B")}])
def test_a_reference_to_itself_is_refused(defs: Any) -> None:
    """A definition that says only that it is itself says nothing."""
    assert reasons({**obj(v=ref("A")), "$defs": defs}) == ["#/properties/v: ref-target"]


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        (dict_of(True), "#: additional-properties"),
        ({**obj(a=INT), "additionalProperties": {}}, "#: additional-properties"),
        (STR, "#: root-type"),
        ({"type": ["object", "null"], "properties": {}}, "#: root-type"),
        (any_of(obj(a=INT), obj(b=INT)), "#: root-type"),
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

    assert made.schema["properties"] == {"a": STR, "b": closed()}


# Promises that hold for everything


def test_nothing_that_is_given_is_changed() -> None:
    """Neither the schema nor a value is changed, and what comes out shares nothing with the next schema."""
    schema = {
        **obj(a=dict_of(INT), b={**MIXED, "default": [1, "a"]}, c={}, required=["a"]),
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


NAMES = "a b v key value kind lives item_0 item_1 x".split()
SCALARS = st.sampled_from([0.5, 1.0, "a", "key", "string", "object", "#/$defs/A", "cat"])
json_values = nested(SINGLE | st.integers(-2, 2) | SCALARS, st.sampled_from(NAMES), most=4)
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
        plain = {key: plain for key, (plain, _) in both.items()}
        sent = {key: sent for key, (_, sent) in both.items()}
        return plain, as_pairs(sent) if is_strict(draw, mode) else sent

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
    return Spec(Annotated[union, Field(discriminator="tag")], draw)


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
        assert {place.split(": ")[1] for place in places(error.reasons)} == {"same-strict-form"}
        assume(False)
    plain, sent = spec.draw(data.draw, mode)

    assert violations(made.schema) == []
    assert made.decode(plain) == plain
    assert made.decode(sent) == plain
    if mode == "strict":
        jsonschema.Draft202012Validator(made.schema).validate(sent)
        spec.annotation.model_validate_json(json.dumps(made.decode(sent)))


def many_tags(count: int) -> dict[str, Any]:
    kinds = ({"k": {"const": f"z{i}"}, "o": STR} for i in range(count))
    return any_of(*(obj(**fields, required=["k"]) for fields in kinds))


def self_referring(count: int) -> dict[str, Any]:
    fields = {f"p{i}": ref("A") for i in range(count)}
    return obj(**fields, required=[])


def chain_of_unions(count: int) -> dict[str, Any]:
    """Each definition is a union of the next one and of an object that holds the next one."""
    links = {
        f"A{i}": any_of(
            ref(f"A{i + 1}"), obj(a=ref(f"A{i + 1}"), t={"const": f"t{i}"}, required=[])
        )
        for i in range(count)
    }
    return {**links, f"A{count}": STR}


@pytest.mark.parametrize(
    "schema",
    [
        obj(x=many_tags(2_000)),
        {**obj(x=any_of(ref("A"), many_tags(1))), "$defs": {"A": self_referring(300)}},
        {**obj(x=ref("A0")), "$defs": chain_of_unions(60)},
    ],
    ids=["many members", "many references to itself", "chain of unions"],
)
def test_a_strangers_unions_take_a_limited_time(schema: dict[str, Any]) -> None:
    """Telling members apart took minutes to hours for a few kilobytes. Now it is refused."""
    with pytest.raises(SchemaError, match="union-size"):
        codec(schema)


def test_decoding_takes_a_limited_number_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stranger's unions lead to one another, so one value could take thousands of steps."""
    made = codec({**obj(x=array(ref("A0"))), "$defs": chain_of_unions(3)})
    sent = {"x": [{"a": 1}] * 100}

    assert made.decode(sent) == sent
    monkeypatch.setattr("functool.schema.strict.DECODE_STEPS", 500)
    with pytest.raises(ArgumentError, match="too much work"):
        made.decode({"x": [{"a": i} for i in range(100)]})


def test_a_union_decodes_a_value_only_as_the_member_with_its_tag() -> None:
    """All members were tried. In 300 kB of a tree that took more than two seconds."""
    asked: list[str] = []

    def step(tag: str) -> Step:
        def decode(value: Any, memo: Any) -> Any:
            asked.append(tag)
            return {name: item for name, item in value.items() if item is not None}

        return decode

    plain = {tag: obj(k={"const": tag}, n=INT, required=["k"]) for tag in ("a", "b", "c")}
    members = [(schema, step(tag), tags_of(schema)) for tag, schema in plain.items()]
    decode = partial(decode_union, members, {})

    def decoded(sent: Any) -> Any:
        return decode(sent, CountingMemo(100))

    assert decoded({"k": "b", "n": None}) == {"k": "b"}
    assert asked == ["b"]
    assert decoded({"k": "c", "n": "wrong", "z": None}) == {"k": "c", "n": "wrong"}
    assert asked == ["b", "c", "c"]
    assert decoded({"k": None, "n": "wrong"}) == {"k": None, "n": "wrong"}
    assert asked[3:] == ["a", "b", "c"]
    assert decoded({"k": "z", "n": None}) == {"k": "z", "n": None}
    assert len(asked) == 6


def test_the_required_names_are_not_searched_for_each_property():
    """A stranger's thousands of properties and required names cost a look at each, and not at each pair."""

    class Names(list):
        def __contains__(self, name):
            raise AssertionError("a search of the whole list")

    fields = {"a": {"type": "integer"}, "b": {"type": "integer"}}
    schema = {"type": "object", "properties": fields, "additionalProperties": False}

    assert codec({**schema, "required": Names("a")}).decode({"a": 1, "b": None}) == {"a": 1}


class Counted(str):
    """A name that counts how often it is compared with another one."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        Counted.compared += 1
        return str.__eq__(self, other)


def test_optional_names_are_not_searched_for_one_after_another():
    """A definition of a megabyte with 25,000 optional names took half a minute, and so did its calls."""
    names = [Counted(f"n{number}") for number in range(1_000)]
    made = codec({"type": "object", "properties": {name: {"type": "string"} for name in names}})
    made.decode(dict.fromkeys(names))

    assert Counted.compared < 20 * len(names)
