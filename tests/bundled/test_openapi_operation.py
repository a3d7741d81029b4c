"""What one operation of an OpenAPI document may cost, and what stays when it cannot be a tool."""

import json
import tracemalloc

import httpx2
import pytest

from functool import DefinitionError
from functool.bundled import openapi, openapi_schema
from functool.bundled.openapi import OpenAPITool, openapi_tools, pin
from functool.bundled.openapi_operation import operations
from tests.bundled.documents import document, get, sending, tools_of
from tests.bundled.test_openapi_names import lines


def test_server_variables_that_hold_each_other_are_filled_in_once():
    """A kilobyte of variables, each of them ten of the next, costs no half gigabyte."""
    names = "abcdefgh"
    variables = {
        name: {"default": f"{{{after}}}" * 10}
        for name, after in zip(names, names[1:], strict=False)
    }
    variables["h"] = {"default": "x" * 5}
    url = "https://a.example/" + "".join(f"{{{name}}}" for name in names)
    text = json.dumps(document(get(), servers=[{"url": url, "variables": variables}]))
    tracemalloc.start()
    try:
        tools = openapi_tools(text, base_url="https://b.example")
        pin(text)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert len(text) < 1_000 and peak < 5_000_000
    assert list(tools) == ["x"]


@pytest.mark.parametrize(
    "server",
    [
        {"url": "https://a.example/" + "x" * 3_000},
        {"url": "https://{a}", "variables": {"a": {"default": "x" * 3_000}}},
        {"url": "https://a.example/" + "{a}" * 100, "variables": {"a": {"default": "x" * 30}}},
        {"url": ["https://a.example"]},
        {"url": "https://[::1"},
        {"url": "https://\u2100.example"},
    ],
)
def test_a_server_that_cannot_be_used_needs_base_url(server):
    """A server of thousands of characters, or with no valid URL, is refused by the operation's name."""
    spec = document(
        {**get(servers=[server]), **get("/y", "y")}, servers=[{"url": "https://a.example"}]
    )

    with pytest.raises(DefinitionError, match=r"x \(GET /x\): .*Pass base_url"):
        openapi_tools(spec)
    assert list(openapi_tools(spec, exclude=["x"])) == ["y"]
    assert list(openapi_tools(spec, base_url="https://b.example")) == ["x", "y"]


def test_a_server_that_is_no_url_is_refused_beside_the_base_url_of_a_client():
    """A bracket without its end is an error of the author's, wherever it is joined to."""
    spec = document(get(servers=[{"url": "https://[::1"}]))
    client = httpx2.AsyncClient(base_url="https://a.example")

    with pytest.raises(DefinitionError, match=r"x \(GET /x\): .*Pass base_url"):
        openapi_tools(spec, client=client)


def test_a_document_as_deep_as_allowed_becomes_a_tool():
    """Two hundred levels, in a schema or in a default, are read, fingerprinted and cut where needed."""
    schema, value = {"type": "integer"}, []
    for _ in range(90):
        schema, value = {"properties": {"a": schema}}, [{"a": value}]
    nodes = [{"name": "q", "in": "query", "schema": part} for part in (schema, {"default": value})]
    spec = document(
        {**get("/a", "a", parameters=nodes[:1]), **get("/b", "b", parameters=nodes[1:])}
    )

    assert list(tools_of(spec)) == ["a", "b"]
    assert list(pin(spec)) == ["a", "b"]
    for _ in range(20):
        value = [value]
    nodes[1]["schema"]["default"] = value
    with pytest.raises(DefinitionError, match="nested more than 200 deep, at /paths/~1b/get/param"):
        tools_of(spec)


def test_numbers_that_json_cannot_say_are_left_out():
    """NaN, infinity and integers without end are no limits and no defaults, and spoil no operation."""
    odd = [float("nan"), float("inf"), 10**5_000, 10**400]
    schema = {"minimum": odd[1], "maximum": odd[3], "multipleOf": odd[2], "enum": [*odd, 1]}
    spec = document(get(parameters=[{"name": "q", "in": "query", "schema": schema}]))
    tool = tools_of(spec)["x"]

    assert tool.schema.parameters["properties"]["q"] == {
        "maximum": 10**400,
        "enum": [None, None, None, 10**400, 1],
    }
    assert list(pin(spec)) == ["x"]


def test_a_path_that_refers_to_nothing_leaves_the_others():
    """A broken path is named in the error and can be left out; all others become tools."""
    spec = document({"/gone": {"$ref": "#/nothing"}, **get()})

    with pytest.raises(
        DefinitionError, match=r"path_gone \(\* /gone\): .*'#/nothing' points to no"
    ):
        tools_of(spec)
    assert list(tools_of(spec, exclude=["* /gone"])) == ["x"]
    assert list(tools_of(spec, include=["x"])) == ["x"]
    assert list(pin(spec)) == ["x"]
    with pytest.raises(DefinitionError, match="points to nothing"):
        OpenAPITool(spec, "path_gone", base_url="https://a.example")


def test_a_security_scheme_that_refers_to_nothing_takes_no_secret():
    """A broken scheme spoils no operation, and a secret for it is refused by its name."""
    schemes = {"bad": {"$ref": "#/nothing"}, "good": {"type": "http", "scheme": "bearer"}}
    spec = document(get(security=[{"bad": []}]), components={"securitySchemes": schemes})

    assert list(tools_of(spec, auth={"good": "s"})) == ["x"]
    with pytest.raises(DefinitionError, match="'bad' is neither an API key with a place"):
        tools_of(spec, auth={"bad": "s"})


@pytest.mark.parametrize(
    ("node", "told"),
    [
        (
            {"parameters": [{"name": f"q{n}", "in": "query"} for n in range(1_001)]},
            "1,000 parameters",
        ),
        ({"security": [{}] * 101}, "more than 100 alternatives"),
        ({"security": [{f"s{n}": [] for n in range(101)}]}, "more than 100 alternatives"),
    ],
)
def test_a_list_without_end_is_an_operation_that_cannot_be_a_tool(node, told):
    """An operation may not make every other one pay for its parameters or its ways to sign in."""
    spec = document({**get(**node), **get("/y", "y")})

    with pytest.raises(DefinitionError, match=rf"x \(GET /x\): .*{told}"):
        tools_of(spec)
    assert list(tools_of(spec, exclude=["x"])) == ["y"]


def test_operations_with_one_mistake_are_named_together():
    """A mistake that many operations share is told once, with the first of them and their number."""
    paths = {}
    for n in range(30):
        paths |= get(f"/{n}", f"x{n}", parameters=[{"$ref": "#/nothing"}])

    with pytest.raises(DefinitionError) as found:
        tools_of(document(paths))
    told = str(found.value)
    assert told.count("points to nothing") == 1
    assert "x19 (GET /19), and 10 more: the reference" in told and "x20 " not in told


def test_a_reference_that_leads_in_a_circle_is_named():
    """The error about a circle names the reference that leads into it."""
    spec = document(
        get(parameters=[{"$ref": "#/components/parameters/A"}]),
        components={"parameters": {"A": {"$ref": "#/components/parameters/A"}}},
    )

    with pytest.raises(DefinitionError, match="'#/components/parameters/A' leads in a circle"):
        tools_of(spec)


@pytest.mark.parametrize("shared", ["path item", "schema"])
def test_operations_that_share_what_they_refer_to_are_bounded_together(monkeypatch, shared):
    """A short document that stands for tools without end is refused; fewer of its operations are not."""
    monkeypatch.setattr(openapi, "LEAST_SIZE", 500_000)
    monkeypatch.setattr(openapi, "MAX_GROWTH", 100)
    parameters = [{"name": f"q{n}", "in": "query"} for n in range(1_000)]
    schema = {"properties": {f"p{n}": {"type": "string"} for n in range(1_000)}}
    components = {"pathItems": {"I": {"get": {"parameters": parameters}}}, "schemas": {"S": schema}}
    item = {"$ref": "#/components/pathItems/I"}
    if shared == "schema":
        referring = {"name": "q", "in": "query", "schema": {"$ref": "#/components/schemas/S"}}
        item = {"get": {"parameters": [referring]}}
    spec = document({f"/{n}": item for n in range(100)}, components=components)

    for make in (pin, lambda spec: tools_of(spec)):
        with pytest.raises(
            DefinitionError, match=r"operations before get_\d+ \(GET /\d+\) take more"
        ):
            make(spec)
    pins = pin(spec, include=["get_7", "get_8"])
    tools = tools_of(spec, include=["get_7", "get_8"], pinned=pins)
    assert list(tools) == list(pins) == ["get_7", "get_8"]
    assert list(pin(spec, exclude=["get_*0", "GET /?", "GET /??"])) == []


def test_paths_that_refer_to_one_item_read_its_parameters_once():
    """Many paths that share an item give their tools the same parameters, each with its own path."""
    item = {
        "parameters": [{"name": "id", "in": "path", "schema": {"type": "integer"}}],
        "get": {"parameters": [{"name": "q", "in": "query"}]},
    }
    paths = {f"/{n}/{{id}}": {"$ref": "#/components/pathItems/I"} for n in range(3)}
    paths["/none"] = {"$ref": "#/components/pathItems/I"}
    spec = document(paths, components={"pathItems": {"I": item}})
    tools = tools_of(spec)

    assert [list(tool.schema.parameters["properties"]) for tool in tools.values()] == [
        ["id", "q"],
        ["id", "q"],
        ["id", "q"],
        ["q"],
    ]


def test_what_many_paths_share_is_read_once():
    """A body, a text and an answer of megabytes cost a hundred paths no more than one."""
    text = "x" * 500_000
    schema = {"type": "object", "properties": {"a": {"description": text}}, "default": [text]}
    content = {"application/json": {"schema": schema}}
    node = {"summary": text, "requestBody": {"content": content}, "responses": {}, "tags": ["t"]}
    answer = {"type": "object", "properties": schema["properties"]}
    node["responses"]["200"] = {"content": {"application/json": {"schema": answer}}}

    def lines_of(count):
        paths = {f"/{n}": {"$ref": "#/components/pathItems/I"} for n in range(count)}
        spec = document(paths, components={"pathItems": {"I": {"post": node}}})
        read_document = openapi.read(spec)
        found = []
        cost = lines(lambda: found.extend(one.read() for one in operations(read_document)))
        assert {one.description for one in found} == {"x" * 1_999 + "…"}
        assert {one.tags for one in found} == {("t",)}
        assert len({id(one.output) for one in found}) == 1 and found[0].output["type"] == "object"
        return cost

    once = lines_of(1)
    assert lines_of(101) - once < 100 * once / 2


def test_a_reference_of_megabytes_points_to_nothing():
    """A pointer that is longer than any name of a document is refused before it is walked."""
    spec = document({**get(parameters=[{"$ref": "#" + "/a" * 10_000}]), **get("/y", "y")})

    with pytest.raises(DefinitionError, match=r"x \(GET /x\): .* more than 10,000 characters"):
        tools_of(spec)
    assert list(pin(spec)) == ["y"]


OBJECT, LIST = {"type": "object"}, {"type": "array"}


def answer(schema, kind="application/json"):
    return {"content": {kind: {"schema": schema}}}


@pytest.mark.parametrize(
    ("responses", "output"),
    [
        ({"200": answer(OBJECT)}, OBJECT),
        ({"200": answer(OBJECT), "404": answer(LIST), "default": answer(LIST)}, OBJECT),
        ({"200": answer(OBJECT), "201": answer(OBJECT)}, OBJECT),
        ({"200": answer(OBJECT), "2XX": answer(LIST)}, {"anyOf": [OBJECT, LIST]}),
        ({"201": answer(OBJECT), "204": {}}, {"anyOf": [OBJECT, {"type": "null"}]}),
        ({"200": answer({})}, {}),
        ({"204": {}}, None),
        ({}, None),
        ({"200": answer(OBJECT), "202": answer({}, "text/plain")}, None),
        ({"200": answer(OBJECT), "202": {"$ref": "#/nowhere"}}, None),
        ({"200": answer(5)}, None),
    ],
)
def test_the_output_is_that_of_every_success(responses, output):
    """A server of MCP refuses an answer that does not fit, so a described success must fit, also one without content."""
    tools = tools_of(document(get(responses=responses)))

    assert tools["x"].schema.output == output


def test_an_answer_that_operations_share_is_converted_once(monkeypatch):
    """Operations that refer to the same large answers are read as fast as those with small ones."""
    converted = []
    convert = openapi_schema.Schemas.convert
    monkeypatch.setattr(
        openapi_schema.Schemas,
        "convert",
        lambda self, schema: (converted.append(1), convert(self, schema))[1],
    )
    names = [f"2{n:02}" for n in range(30)]
    answers = {name: answer({"description": name, "type": "object"}) for name in names}
    referring = {name: {"$ref": f"#/components/responses/{name}"} for name in names}
    paths = get("/a", "a", responses=referring) | get("/b", "b", responses=referring)
    tools = tools_of(document(paths, components={"responses": answers}))

    assert len(converted) == 30
    assert len(tools["b"].schema.output["anyOf"]) == 30


def test_files_that_operations_share_are_looked_for_within_a_limit():
    """Bodies that stand for fields without end are refused, and each alone is none of them."""
    fields = {f"f{n}": {"type": "string"} for n in range(1_000)}
    many = {"allOf": [{"$ref": "#/components/schemas/S"}] * 90}
    kind = "multipart/form-data"
    paths = {}
    for name in ("a", "b", "c"):
        paths |= sending(many, f"/{name}", name, kind=kind)
    spec = document(paths, components={"schemas": {"S": {"properties": fields}}})

    with pytest.raises(DefinitionError, match=r"c \(POST /c\): .* too long to look at for files"):
        tools_of(spec)
    assert list(tools_of(spec, include=["c"])) == ["c"]
