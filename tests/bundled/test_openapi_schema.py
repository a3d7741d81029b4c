"""Schemas of OpenAPI documents as JSON Schema 2020-12."""

import pytest
from jsonschema import Draft202012Validator

from functool.bundled import openapi_schema
from functool.bundled.openapi_document import read
from functool.bundled.openapi_schema import Schemas


def converted(schema, *, version="3.0.3", unsent="readOnly", limit=20_000, **schemas):
    document = read({"openapi": version, "components": {"schemas": schemas}})
    maker = Schemas(document, unsent)
    made, _ = maker.with_definitions(maker.convert(schema), limit)
    Draft202012Validator.check_schema(made)
    return made


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        (
            {"type": "string", "nullable": True, "enum": ["a"]},
            {"type": ["string", "null"], "enum": ["a", None]},
        ),
        (
            {"allOf": [{"type": "string"}], "nullable": True},
            {"anyOf": [{"allOf": [{"type": "string"}]}, {"type": "null"}]},
        ),
        (
            {"type": "integer", "minimum": 1, "exclusiveMinimum": True},
            {"type": "integer", "exclusiveMinimum": 1},
        ),
        (
            {"type": "integer", "minimum": 1, "exclusiveMinimum": False},
            {"type": "integer", "minimum": 1},
        ),
        ({"type": "integer", "exclusiveMaximum": 9}, {"type": "integer", "exclusiveMaximum": 9}),
        (
            {"oneOf": [{"type": "string"}, {"type": "integer"}]},
            {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        ),
        (
            {"anyOf": [{"type": "string"}], "oneOf": [{"minLength": 1}]},
            {"anyOf": [{"type": "string"}], "allOf": [{"anyOf": [{"minLength": 1}]}]},
        ),
        ({"type": "file"}, {"type": "string"}),
        (
            {
                "type": "any",
                "required": True,
                "enum": "x",
                "maxLength": -1,
                "pattern": 3,
                "multipleOf": 0,
            },
            {},
        ),
        (
            {
                "type": "string",
                "example": "x",
                "xml": {},
                "x-own": 1,
                "discriminator": {},
                "$id": "http://x",
            },
            {"type": "string"},
        ),
        ({"type": ["string", "null"]}, {"type": ["string", "null"]}),
        ({"type": "string", "pattern": "^[a-z]+$"}, {"type": "string", "pattern": "^[a-z]+$"}),
        ({"type": "string", "pattern": "^(?!x)"}, {"type": "string"}),
        ({"type": "string", "pattern": "\\p{L}"}, {"type": "string"}),
        ({"type": "string", "pattern": "[[a]]"}, {"type": "string"}),
        ({"type": "string", "pattern": "(?i)a"}, {"type": "string"}),
        ({"type": "string", "pattern": "(?:a)"}, {"type": "string", "pattern": "(?:a)"}),
        (
            {"type": "array", "items": {"type": "string"}, "minItems": 1},
            {"type": "array", "items": {"type": "string"}, "minItems": 1},
        ),
        (
            {"additionalProperties": {"type": "integer"}},
            {"additionalProperties": {"type": "integer"}},
        ),
        (True, {}),
        (False, {"not": {}}),
        ("nonsense", {}),
    ],
)
def test_keywords_are_converted_or_left_out(schema, expected):
    """Version 3.0 becomes JSON Schema, and what is unknown, senseless or not to be run is left out."""
    assert converted(schema) == expected


def test_references_become_definitions():
    """A schema of the document is defined once under its name, also when it refers to itself."""
    node = {"type": "object", "properties": {"next": {"$ref": "#/components/schemas/Node"}}}
    made = converted({"$ref": "#/components/schemas/Node", "description": "Head."}, Node=node)

    assert made == {
        "description": "Head.",
        "$ref": "#/$defs/Node",
        "$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}},
    }


def test_references_keep_their_siblings_from_3_1_on():
    """Beside a reference nothing but its description counts in 3.0, and everything from 3.1 on."""
    schema = {"$ref": "#/components/schemas/A", "minLength": 3}

    assert "minLength" not in converted(schema, A={"type": "string"})
    assert converted(schema, version="3.1.0", A={"type": "string"})["minLength"] == 3


@pytest.mark.parametrize(
    "reference",
    ["http://127.0.0.1:1/x.json", "file:///etc/passwd", "x.yaml#/A", "#/components/schemas/None"],
)
def test_what_a_schema_refers_to_outside_is_anything(reference):
    """A schema that is not in the document is not fetched: the server will know."""
    assert converted({"type": "object", "properties": {"a": {"$ref": reference}}}) == {
        "type": "object",
        "properties": {"a": {}},
    }


def test_properties_that_are_not_sent_are_left_out():
    """A request has no read-only properties and a response no write-only ones, required or not."""
    schema = {
        "type": "object",
        "properties": {"id": {"readOnly": True}, "password": {"writeOnly": True}, "name": {}},
        "required": ["id", "password", "name"],
    }

    assert converted(schema) == {
        "type": "object",
        "properties": {"password": {}, "name": {}},
        "required": ["password", "name"],
    }
    assert converted(schema, unsent="writeOnly")["required"] == ["id", "name"]


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_what_a_property_refers_to_may_say_that_it_is_not_sent(version):
    """A read-only schema that properties share is left out of requests, and what leads nowhere stays."""
    shared = {"Id": {"$ref": "#/components/schemas/Key"}, "Key": {"readOnly": True}}
    schema = {
        "properties": {"id": {"$ref": "#/components/schemas/Id"}, "other": {"$ref": "x.json"}},
        "required": ["id", "other"],
    }

    assert converted(schema, version=version, **shared) == {
        "properties": {"other": {}},
        "required": ["other"],
    }
    assert "id" in converted(schema, version=version, unsent="writeOnly", **shared)["properties"]


@pytest.mark.parametrize(
    ("schema", "kept"),
    [
        ({"patternProperties": {"^x-": {}}, "additionalProperties": False}, set()),
        ({"contains": {"type": "integer"}, "minContains": 0}, set()),
        ({"contains": {"type": "integer"}}, {"contains"}),
        ({"not": {"pattern": "^(?!a)"}}, set()),
        ({"not": {"$ref": "x.json"}}, set()),
        ({"not": {"required": ["a"]}}, {"not"}),
        ({"not": {}}, {"not"}),
        ({"not": 5}, set()),
        ({"additionalProperties": False}, {"additionalProperties"}),
    ],
)
def test_what_is_left_to_the_server_makes_nothing_stricter(schema, kept):
    """A keyword that another one loosens or inverts goes with it: the document allows what it would refuse."""
    assert set(converted(schema, version="3.1.0")) == kept


CLOSED = {"type": "object", "additionalProperties": False}


@pytest.mark.parametrize(
    "derived",
    [
        {"allOf": [{"$ref": "#/components/schemas/Base"}, {**CLOSED, "properties": {"b": {}}}]},
        {"allOf": [{"$ref": "#/components/schemas/Alias"}], **CLOSED, "properties": {"b": {}}},
        {"allOf": [{"$ref": "#/components/schemas/Middle"}, {"properties": {"b": {}}}]},
    ],
)
def test_parts_that_close_each_other_out_are_opened(derived):
    """What one part of `allOf` declares, another does not refuse; plainly no value fits."""
    schemas = {
        "Base": {**CLOSED, "properties": {"a": {"type": "string"}}},
        "Alias": {"$ref": "#/components/schemas/Base"},
        "Middle": {"allOf": [{"$ref": "#/components/schemas/Base"}, CLOSED]},
        "Derived": derived,
    }
    check = Draft202012Validator(converted({"$ref": "#/components/schemas/Derived"}, **schemas))

    assert check.is_valid({"a": "x", "b": 1})
    assert not check.is_valid({"a": 1, "b": 1})


def test_a_schema_that_is_opened_for_one_stays_closed_for_others():
    """The same schema has two definitions, where it is needed in two ways, and one where it is open anyway."""
    base = {"$ref": "#/components/schemas/Base"}
    schema = {"properties": {"alone": base, "part": {"allOf": [base, {"properties": {"b": {}}}]}}}
    made = converted(schema, Base={**CLOSED, "properties": {"a": {}}})

    assert Draft202012Validator(made).is_valid({"part": {"a": 1, "b": 1}, "alone": {"a": 1}})
    assert not Draft202012Validator(made).is_valid({"alone": {"a": 1, "b": 1}})
    assert set(converted(schema, Base={"properties": {"a": {}}})["$defs"]) == {"Base"}


def test_names_of_definitions_are_plain_and_unique():
    """Two schemas whose names end alike, or hold odd characters, stay two schemas."""
    schema = {
        "allOf": [
            {"$ref": "#/components/schemas/a b"},
            {"$ref": "#/components/schemas/a b/properties/a_b"},
        ]
    }
    made = converted(schema, **{"a b": {"properties": {"a_b": {"type": "string"}}}})

    assert made["allOf"] == [{"$ref": "#/$defs/a_b"}, {"$ref": "#/$defs/a_b_2"}]
    assert made["$defs"]["a_b_2"] == {"type": "string"}


def test_a_schema_has_a_size_limit():
    """What lies beyond the limit is described as anything, the nearest schemas first."""
    chain = {
        f"S{n}": {
            "type": "object",
            "properties": {"next": {"$ref": f"#/components/schemas/S{n + 1}"}},
        }
        for n in range(100)
    }
    made = converted(
        {"$ref": "#/components/schemas/S0"}, limit=40, **chain, S100={"type": "string"}
    )

    assert made["$defs"]["S0"]["properties"] == {"next": {"$ref": "#/$defs/S1"}}
    assert list(made["$defs"].values())[-1] == {}
    assert len(made["$defs"]) < 20


def test_depth_and_descriptions_are_bounded():
    """Schemas nested deeper than anybody reads, and long descriptions, are cut."""
    schema = {"description": "x" * 10_000}
    for _ in range(150):
        schema = {"items": schema}
    made, depth = converted(schema), 0
    while "items" in made:
        made, depth = made["items"], depth + 1

    assert depth == 61
    for word in ("title", "description"):
        assert len(converted({word: "x" * 10_000})[word]) == 2_000


def test_the_patterns_of_a_document_are_compiled_as_long_as_there_is_room(monkeypatch):
    """Thousands of classes take minutes to compile, so the server checks what comes last."""
    monkeypatch.setattr(openapi_schema, "MAX_PATTERNS", 20)
    patterns = ["^a{9}$", "^a{9}$", "^b{9}$", "^c{9}$"]
    parts = [{"pattern": pattern} for pattern in patterns]

    assert converted({"anyOf": parts})["anyOf"] == [*parts[:2], {}, {}]
