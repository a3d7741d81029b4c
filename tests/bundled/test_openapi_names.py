"""The names of an OpenAPI document: unique ones, and those that are one name to a server."""

import sys

import pytest

from functool import DefinitionError
from functool.bundled.openapi_document import read
from functool.bundled.openapi_names import UniqueNames, is_reserved, spellings
from functool.bundled.openapi_operation import operations
from tests.bundled.documents import document, get, tools_of


def lines(work):
    """How many lines of functool a piece of work runs: a measure of cost without a clock."""
    count = 0

    def trace(frame, event, argument):
        nonlocal count
        if "openapi" not in frame.f_code.co_filename:
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def of_one_name(count):
    return [f"{'x' * 61}{n % 1_000:03}" if n % 2 else "same" for n in range(count)]


def test_numbers_go_on_where_they_stopped():
    """A repeated name gets the first number that is free, and is cut to make room for it."""
    names = UniqueNames({"body"})
    taken = ["a", "a_3", "a", "a", "a", "body", "y" * 70, "y" * 64]

    assert [names.take(name) for name in taken] == [
        "a",
        "a_3",
        "a_2",
        "a_4",
        "a_5",
        "body_2",
        "y" * 64,
        "y" * 62 + "_2",
    ]
    assert "a_5" in names and "a_6" not in names


def test_a_number_of_more_digits_leaves_less_of_the_name():
    """The hundredth of a long name still has at most 64 characters, and no name comes twice."""
    names = UniqueNames()
    taken = [names.take("z" * 64) for _ in range(120)]

    assert len(set(taken)) == 120 and {len(name) for name in taken} == {64}
    assert (taken[8], taken[9], taken[99]) == ("z" * 62 + "_9", "z" * 61 + "_10", "z" * 60 + "_100")


@pytest.mark.parametrize("place", ["operations", "definitions", "arguments"])
def test_repeated_names_cost_no_more_each(place):
    """Twice as many repeated names cost about twice as much, whatever they are the names of."""

    def spec(count):
        found = of_one_name(count)
        if place == "operations":
            paths = {f"/{n}": {"get": {"operationId": name}} for n, name in enumerate(found)}
            return document(paths)
        if place == "arguments":
            parameters = [{"name": f"é{'é' * n}", "in": "query"} for n in range(count)]
            return document(get(parameters=parameters))
        schemas = {str(n): {"schemas": {name: {}}} for n, name in enumerate(found)}
        parts = [{"$ref": f"#/s/{n}/schemas/{name}"} for n, name in enumerate(found)]
        parameters = [{"name": "q", "in": "query", "schema": {"anyOf": parts}}]
        return document(get(parameters=parameters), s=schemas)

    def work(count):
        document = read(spec(count))
        return lines(lambda: [listed.read() for listed in operations(document)])

    work(10)
    assert work(800) < work(400) * 2.5


@pytest.mark.parametrize(
    "other",
    [
        "x-api-key",
        "X_API_KEY",
        "X.Api.Key",
        "x api-key",
        " X-API-Key",
        "X%2DAPI-Key",
        "X-API-Key[0]",
    ],
)
def test_spellings_of_one_name_have_a_form_in_common(other):
    """Names that some server takes for one have a form in common, and others have none."""
    assert spellings("X-API-Key") & spellings(other)
    assert not spellings("X-API-Key") & spellings("X-API-Key-2")


@pytest.mark.parametrize(
    ("kind", "name", "other"),
    [
        ("header", "X-API-Key", "X_API_KEY"),
        ("header", "X-API-Key", "x.api.key"),
        ("header", "X_API_KEY", "X-API-Key"),
        ("query", "api_key", "api.key"),
        ("query", "api_key", "api_key[]"),
        ("query", "api_key", "API-Key"),
        ("cookie", "sid", "SID"),
    ],
)
def test_a_parameter_that_a_server_takes_for_a_key_is_no_argument(kind, name, other):
    """What CGI, PHP and their like fold into the name of a key is the host's to give."""
    parameters = [{"name": other, "in": kind}, {"name": f"{name}-2", "in": kind}]
    key = {"type": "apiKey", "in": kind, "name": name}
    spec = document(get(parameters=parameters), components={"securitySchemes": {"k": key}})

    assert list(tools_of(spec)["x"].schema.parameters["properties"]) == [f"{name}-2"]


@pytest.mark.parametrize(
    "name", ["Content_Length", "HOST", "transfer_encoding", "Proxy_Connection"]
)
def test_a_header_that_a_server_takes_for_a_reserved_one_is_none(name):
    """A header that frames the message in another spelling is no argument, and no place for a key."""
    scheme = {"type": "apiKey", "in": "header", "name": name}
    tool = tools_of(document(get(parameters=[{"name": name, "in": "header"}])))["x"]

    assert is_reserved(name) and not is_reserved(f"X-{name}")
    assert tool.schema.parameters["properties"] == {}
    keyed = document({}, components={"securitySchemes": {"k": scheme}})
    with pytest.raises(DefinitionError, match="neither an API key with a place"):
        tools_of(keyed, auth="secret")


def test_the_place_of_an_argument_makes_no_name_too_long():
    """A long name that stands in two places is cut where its place is added."""
    parameters = [{"name": "n" * 64, "in": place} for place in ("query", "header")]
    tool = tools_of(document(get(parameters=parameters)))["x"]

    assert list(tool.schema.parameters["properties"]) == ["n" * 64, "n" * 62 + "_2"]
