"""Odd OpenAPI documents: tools, or an error that names the place, and the sound operations stay."""

import copy
import json

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from functool import DefinitionError, ToolResult
from functool.bundled.openapi import pin
from tests.bundled.documents import document, get, places, sending, tools_of
from tests.support import call

SCHEMA = {
    "type": ["object", "null"],
    "properties": {"a": {"enum": [1, "b"], "default": 1}, "b": {"$ref": "#/components/schemas/S"}},
    "required": ["a"],
    "additionalProperties": {"type": "string", "pattern": "^a+$", "maxLength": 3},
    "allOf": [{"minimum": 1, "exclusiveMinimum": 0}],
    "oneOf": [{"items": {"prefixItems": [{"const": 1}]}}, {"multipleOf": 0.1}],
}
ODD = {
    "openapi": "3.1.0",
    "info": {"title": "T", "version": "1"},
    "servers": [{"url": "https://{host}/v1", "variables": {"host": {"default": "a.example"}}}],
    "security": [{"key": []}],
    "paths": {
        "/odd/{id}": {
            "parameters": [{"name": "id", "in": "path", "schema": {"type": "integer"}}],
            "post": {
                "operationId": "odd",
                "summary": "s",
                "tags": ["t"],
                "servers": [{"url": "/v2"}],
                "parameters": [
                    {"$ref": "#/components/parameters/P"},
                    {"name": "X-H", "in": "header", "style": "simple", "explode": True},
                    {"name": "c", "in": "cookie", "content": {"application/json": {"schema": {}}}},
                ],
                "requestBody": {
                    "content": {
                        "multipart/form-data": {
                            "schema": {"properties": {"f": {"format": "binary"}}},
                            "encoding": {"f": {"style": "form"}},
                        }
                    }
                },
                "responses": {"200": {"content": {"application/json": {"schema": SCHEMA}}}},
            },
        },
        "/ref": {"$ref": "#/components/pathItems/I"},
    },
    "components": {
        "schemas": {"S": SCHEMA},
        "parameters": {"P": {"name": "p", "in": "query", "schema": SCHEMA}},
        "pathItems": {"I": {"get": {"operationId": "referred"}}},
        "securitySchemes": {"key": {"type": "apiKey", "in": "query", "name": "api_key"}},
    },
}
SOUND = get("/sound", "sound")

names = st.sampled_from(
    ["", "/", "..", "$ref", "type", "{", "{a}", "a.b", "X_Y", "[", "\0", "\ud800", "é", "x" * 300]
)
numbers = st.one_of(
    st.integers(),
    st.floats(),
    st.sampled_from([10**400, -(10**400), 2**1024, 1e308, -0.0]),
)
texts = st.one_of(
    names,
    st.text(max_size=8),
    st.sampled_from(
        [
            "http://[",
            "https://[::1",
            "https://a.example:99999",
            "https://xn--/",
            "https://\u2100.example",
            "https://{v}.example/{v}",
            "(?L)a",
            "(?i:a",
            "a{99999}",
            "(" * 300,
            "[[a]",
            "text/plain;",
            "*/*",
            "deepObject",
            "path",
            "file",
        ]
    ),
)
references = st.builds(
    lambda pointer: {"$ref": pointer},
    st.sampled_from(
        [
            "",
            "#",
            "#/",
            "#/paths",
            "#/paths/~1odd~1{id}/post/parameters/0",
            "#/paths/~1odd~1{id}/post/parameters/-1",
            "#/paths/~1odd~1{id}/post/parameters/٣",
            "#/paths/~1odd~1{id}/post/parameters/99999999999999999999",
            "#/components/schemas/S",
            "#/components/schemas/S/properties/b",
            "#/components/parameters/P",
            "#/openapi",
            "%",
            "#/%",
            "#/~2",
            "http://[",
            "file:///etc/passwd",
        ]
    ),
)
leaves = st.one_of(st.none(), st.booleans(), numbers, texts, references)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


COUNT = len(list(places(ODD)))


@st.composite
def documents(draw):
    """A document with up to four of its places replaced, renamed or removed."""
    spec = copy.deepcopy(ODD)
    for _ in range(draw(st.integers(1, 4))):
        found = list(places(spec))
        node, key = found[draw(st.integers(0, COUNT)) % len(found)]
        how = draw(st.sampled_from(["replace", "replace", "rename", "remove"]))
        value = node.pop(key) if how != "replace" or isinstance(node, list) else None
        if how == "replace":
            value = draw(values)
        if isinstance(node, list):
            node.insert(key, value)
        elif how != "remove":
            node[draw(texts) if how == "rename" else key] = value
    return spec


def checked(spec, **options):
    """Make the tools of a document whose odd operations may be refused, and call none of them wrongly."""
    try:
        tools = tools_of(spec, **options)
    except DefinitionError as error:
        return None, str(error)
    for tool in tools.values():
        json.dumps(tool.schema.parameters, allow_nan=False)
        json.dumps(tool.schema.output, allow_nan=False)
    return tools, ""


@settings(suppress_health_check=list(HealthCheck))
@given(documents())
def test_an_odd_place_costs_no_more_than_its_operation(spec):
    """Whatever stands somewhere in a document, an error names the operation, and the sound one stays."""
    if isinstance(spec.get("paths"), dict):
        spec["paths"] |= SOUND
    tools, told = checked(spec)

    if tools is None and "an OpenAPI document of version" not in told:
        assert told.startswith("operations that cannot be tools; exclude=[...] leaves them out: ")
        assert "(POST " in told or "(GET " in told or "(* " in told
    if isinstance(spec.get("paths"), dict) and str(spec.get("openapi")).startswith("3."):
        assert "sound" in pin(spec)
        kept, told = checked(spec, include=["sound"])
        assert kept is not None, told
        assert list(kept) == ["sound"]


@settings(suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from([json.dumps(ODD), yaml.safe_dump(ODD)]),
    st.lists(
        st.tuples(
            st.integers(0, 3_000),
            st.integers(0, 40),
            st.one_of(
                st.text(max_size=6),
                st.sampled_from(
                    ["!!int ''", "!!float ''", "!!bool x", "!!timestamp x", "!!binary é", "&a "]
                    + ["*a", "<<: ", "? [", "NaN", "1e999", "1" * 5_000, "\\U00110000", '"\\ud800"']
                    + ["!!omap [1]", "!!set {a}", "!!null x", "!<!> ", "%YAML 9.9\n", "--- ", "\t"]
                ),
            ),
        ),
        min_size=1,
        max_size=4,
    ),
)
def test_an_odd_text_is_tools_or_a_definition_error(text, edits):
    """Text in JSON or YAML with anything in it makes tools, or is an error of the author's."""
    for at, length, new in edits:
        at %= len(text)
        text = text[:at] + new + text[at + length :]
    checked(text)


@pytest.mark.parametrize(
    "value",
    [
        "!!int ''",
        "!!float ''",
        "!!bool x",
        "!!timestamp x",
        "!!binary é",
        "!!null [a]",
        "!!pairs x",
    ],
)
def test_a_yaml_tag_with_an_odd_value_is_no_document(value):
    """A tag that asks for another type than the text is one is a DefinitionError that names the line."""
    with pytest.raises(DefinitionError, match="line 2"):
        tools_of(f"openapi: 3.1.0\nx: {value}\n")


@pytest.mark.parametrize("link", ["properties", "items", "anyOf", "$ref"])
def test_a_long_chain_of_schemas_becomes_a_tool(link):
    """A chain of a thousand schemas, each of which refers to the next, is taken over whole."""
    wrap = {
        "properties": lambda ref: {"properties": {"next": ref}},
        "items": lambda ref: {"items": ref},
        "anyOf": lambda ref: {"anyOf": [ref, {"type": "null"}]},
        "$ref": lambda ref: ref,
    }[link]
    schemas = {f"S{n}": wrap({"$ref": f"#/components/schemas/S{n + 1}"}) for n in range(1_000)}
    schemas["S1000"] = {"type": "integer"}
    spec = document(sending({"$ref": "#/components/schemas/S0"}), components={"schemas": schemas})
    tool = tools_of(spec)["x"]

    definitions = tool.schema.parameters["$defs"]
    assert definitions["S1000"] == {"type": "integer"}
    assert len(definitions) == (1_001 if link != "$ref" else 1)
    result = call(tool, {"body": {"next": [None]}})
    assert isinstance(result, ToolResult)
