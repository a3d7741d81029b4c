"""Arguments as requests: styles, bodies, and values that try to leave their place."""

import json
from email import message_from_bytes
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from functool.bundled.openapi_document import read
from functool.bundled.openapi_operation import operations
from functool.bundled.openapi_request import UnsafeValue, prepare


def operation(path="/x", parameters=(), body=None):
    node = {"parameters": list(parameters), **({"requestBody": {"content": body}} if body else {})}
    [listed] = operations(read({"openapi": "3.1.0", "paths": {path: {"post": node}}}))
    return listed.read()


def parameter(place, **options):
    return {"name": "color", "in": place, "schema": {}, **options}


LIST, OBJECT = ["blue", "black"], {"R": 100, "G": 200}


@pytest.mark.parametrize(
    ("style", "explode", "value", "expected"),
    [
        ("simple", False, "blue", "/blue"),
        ("simple", False, LIST, "/blue,black"),
        ("simple", False, OBJECT, "/R,100,G,200"),
        ("simple", True, OBJECT, "/R=100,G=200"),
        ("label", False, "blue", "/.blue"),
        ("label", False, LIST, "/.blue,black"),
        ("label", True, LIST, "/.blue.black"),
        ("label", False, OBJECT, "/.R,100,G,200"),
        ("label", True, OBJECT, "/.R=100.G=200"),
        ("matrix", False, "blue", "/;color=blue"),
        ("matrix", False, LIST, "/;color=blue,black"),
        ("matrix", True, LIST, "/;color=blue;color=black"),
        ("matrix", False, OBJECT, "/;color=R,100,G,200"),
        ("matrix", True, OBJECT, "/;R=100;G=200"),
        ("simple", False, True, "/true"),
        ("simple", False, 1.5, "/1.5"),
        ("simple", False, "a b/ü?#%", "/a%20b%2F%C3%BC%3F%23%25"),
        ("simple", False, "a,b;c=d", "/a%2Cb%3Bc%3Dd"),
    ],
)
def test_path_styles(style, explode, value, expected):
    """Path values are written in the styles of the specification, each one encoded segment."""
    wanted = operation("/{color}", [parameter("path", style=style, explode=explode)])

    assert prepare(wanted, {"color": value}).path == expected


@pytest.mark.parametrize(
    ("options", "value", "expected"),
    [
        ({}, "blue", "color=blue"),
        ({}, LIST, "color=blue&color=black"),
        ({"explode": False}, LIST, "color=blue,black"),
        ({}, OBJECT, "R=100&G=200"),
        ({"explode": False}, OBJECT, "color=R,100,G,200"),
        ({"style": "spaceDelimited", "explode": False}, LIST, "color=blue%20black"),
        ({"style": "pipeDelimited", "explode": False}, LIST, "color=blue%7Cblack"),
        ({"style": "spaceDelimited", "explode": False}, OBJECT, "color=R%20100%20G%20200"),
        ({"style": "pipeDelimited", "explode": False}, OBJECT, "color=R%7C100%7CG%7C200"),
        ({"style": "deepObject"}, OBJECT, "color%5BR%5D=100&color%5BG%5D=200"),
        (
            {"style": "deepObject"},
            {"a": {"b": [1, 2]}},
            "color%5Ba%5D%5Bb%5D%5B0%5D=1&color%5Ba%5D%5Bb%5D%5B1%5D=2",
        ),
        ({"style": "deepObject"}, LIST, "color%5B0%5D=blue&color%5B1%5D=black"),
        ({"style": "deepObject"}, [OBJECT], "color%5B0%5D%5BR%5D=100&color%5B0%5D%5BG%5D=200"),
        ({"style": "deepObject"}, [], ""),
        ({"content": {"application/json": {}}}, {"a": [1]}, "color=%7B%22a%22%3A%5B1%5D%7D"),
        ({"allowReserved": True}, "a/b?c&d=e#f;g", "color=a/b?c%26d%3De%23f%3Bg"),
        ({}, "a&admin=1", "color=a%26admin%3D1"),
        ({}, [], ""),
        ({"explode": False}, [], ""),
        ({}, False, "color=false"),
        ({}, "", "color="),
    ],
)
def test_query_styles(options, value, expected):
    """Query values are written in the styles of the specification, and never become another parameter."""
    wanted = operation(parameters=[parameter("query", **options)])

    assert prepare(wanted, {"color": value}).query == expected


@pytest.mark.parametrize(
    ("options", "value", "expected"),
    [
        ({}, LIST, "blue,black"),
        ({}, OBJECT, "R,100,G,200"),
        ({"explode": True}, OBJECT, "R=100,G=200"),
        ({}, 3, "3"),
    ],
)
def test_header_styles(options, value, expected):
    """Header values are written in their one style."""
    wanted = operation(parameters=[parameter("header", **options)])

    assert prepare(wanted, {"color": value}).headers == {"color": expected}


def test_cookie_values_are_encoded():
    """A cookie value ends neither itself nor its header."""
    request = prepare(operation(parameters=[parameter("cookie")]), {"color": "a;admin=1, b"})

    assert request.cookies == ("color=a%3Badmin%3D1%2C%20b",)


@pytest.mark.parametrize(
    "value", ["a\r\nX-Evil: 1", "a\nb", "a\0", "ü", " a", "a ", ["a", "b\n"], {"k": "v\r"}]
)
def test_a_header_value_ends_no_header(value):
    """A line break in a header value is refused, and so is what a header cannot carry."""
    with pytest.raises(UnsafeValue):
        prepare(operation(parameters=[parameter("header")]), {"color": value})


@pytest.mark.parametrize(
    "value",
    [
        "..",
        ".",
        "",
        "../admin",
        "a/../../admin",
        "..\\admin",
        "%2e%2e",
        "%2E%2E%2Fadmin",
        "%252e%252e",
        "..%2fadmin",
        "..;/admin",
        "..;x=1",
        " .. /x",
        "a\nb",
        "a\0b",
        [".."],
        ["a", "../x"],
        {"k": ".."},
        {"..": "k"},
    ],
)
def test_a_path_value_does_not_climb(value):
    """`..` in any disguise is refused, where the plain implementation asks for another resource."""
    wanted = operation("/files/{color}", [parameter("path")])

    with pytest.raises(UnsafeValue):
        prepare(wanted, {"color": value})


@pytest.mark.parametrize("style", ["simple", "label", "matrix"])
@pytest.mark.parametrize("schema", [{}, {"type": ["string", "null"]}, {"$ref": "other.yaml#/id"}])
def test_a_path_value_is_not_null(schema, style):
    """Null is refused where a schema allows it: without its id, the deletion of a thing is one of all."""
    wanted = operation("/things/{color}", [parameter("path", schema=schema, style=style)])

    with pytest.raises(UnsafeValue, match="'color' must not be null"):
        prepare(wanted, {"color": None})


def test_the_plain_path_climbs():
    """The control: a path that is formatted and sent leads to another resource of the server."""
    url = httpx2.URL("https://api.example.com/v1/files/{color}".format(color="../admin"))

    assert url.path == "/v1/admin"


def test_dots_that_stand_together_only_in_the_path_are_seen():
    """Two harmless values that make `..` between them are refused."""
    wanted = operation("/{a}{color}", [parameter("path"), {"name": "a", "in": "path"}])

    with pytest.raises(UnsafeValue):
        prepare(wanted, {"a": ".x", "color": "."})
    wanted = operation("/.{color}", [parameter("path")])
    assert prepare(wanted, {"color": ".env"}).path == "/..env"


@given(st.text(min_size=1))
def test_any_path_value_stays_one_segment(value):
    """Whatever the value, the path keeps its segments, and what is sent is what was given."""
    wanted = operation("/a/{color}/z", [parameter("path")])
    try:
        path = prepare(wanted, {"color": value}).path
    except UnsafeValue:
        return

    url = httpx2.URL(f"https://api.example.com{path}")
    assert url.raw_path.decode() == path
    assert path.count("/") == 3 and path.startswith("/a/") and path.endswith("/z")
    assert url.path == f"/a/{value}/z"


@given(st.dictionaries(st.text(), st.text()), st.text())
def test_any_query_value_stays_in_its_parameter(deep, text):
    """Whatever the values, the server reads the parameters that were given, and no others."""
    wanted = operation(
        parameters=[parameter("query", style="deepObject"), {"name": "q", "in": "query"}]
    )
    query = prepare(wanted, {"color": deep, "q": text}).query

    expected = [(f"color[{key}]", value) for key, value in deep.items()] + [("q", text)]
    assert parse_qsl(urlsplit(f"https://x/?{query}").query, keep_blank_values=True) == expected


FORM = "application/x-www-form-urlencoded"


def body_of(media_type, value, schema=None, **media):
    wanted = operation(body={media_type: {"schema": schema or {}, **media}})
    request = prepare(wanted, {"body": value})
    return request.content, request.headers["Content-Type"]


@pytest.mark.parametrize(
    ("media_type", "value", "content", "kind"),
    [
        ("application/json", {"a": [1, "ü"]}, '{"a":[1,"ü"]}'.encode(), "application/json"),
        (
            "application/merge-patch+json",
            {"a": None},
            b'{"a":null}',
            "application/merge-patch+json",
        ),
        ("*/*", [1], b"[1]", "application/json"),
        ("application/*+json", [1], b"[1]", "application/json"),
        (f"{FORM}; charset=utf-8", {"a": 1}, b"a=1", FORM),
        ("text/plain", "hé", "hé".encode(), "text/plain"),
        ("application/octet-stream", "data:;base64,AAEC", b"\0\1\2", "application/octet-stream"),
        ("image/*", "data:image/png;base64,AAEC", b"\0\1\2", "image/png"),
        ("application/xml", "<a/>", b"<a/>", "application/xml"),
        ("text/plain", "data:,a%20b", b"a b", "text/plain"),
    ],
)
def test_bodies(media_type, value, content, kind):
    """A body is JSON, or the text or bytes that a string stands for, with its type."""
    assert body_of(media_type, value) == (content, kind)


PATCH = "application/{}patch+json"


@pytest.mark.parametrize(
    ("kinds", "chosen"),
    [
        (["application/hal+json", "*/*", "application/json"], "application/json"),
        (["application/hal+json", "application/json; v=1", "*/*"], "application/json; v=1"),
        ([PATCH.format("json-"), PATCH.format("merge-"), "text/plain"], PATCH.format("merge-")),
        ([PATCH.format("json-"), "multipart/form-data"], PATCH.format("json-")),
        (["text/plain", "multipart/form-data"], "multipart/form-data"),
        (["text/plain", f"{FORM}; charset=utf-8"], f"{FORM}; charset=utf-8"),
    ],
)
def test_the_kind_of_a_body_that_is_sent(kinds, chosen):
    """Plain JSON is best, and of several patches one that is an object, as documents describe it."""
    assert operation(body={kind: {} for kind in kinds}).body.media_type == chosen


def test_forms():
    """Form fields are encoded, in the styles that the document asks for."""
    encoding = {
        "d": {"style": "deepObject", "explode": True},
        "e": {"style": "deepObject", "explode": True},
        "l": {"style": "form", "explode": False},
    }
    value = {
        "a": "x&b=1",
        "e": [{"k": 1}],
        "list": [1, 2],
        "l": ["a", "b"],
        "d": {"k": "v"},
        "o": {"k": 1},
        "n": None,
        "t": True,
    }
    content, kind = body_of(
        "application/x-www-form-urlencoded", value, {"type": "object"}, encoding=encoding
    )

    assert (
        content
        == b"a=x%26b%3D1&e%5B0%5D%5Bk%5D=1&list=1&list=2&l=a,b&d%5Bk%5D=v&o=%7B%22k%22%3A1%7D&t=true"
    )
    assert kind == "application/x-www-form-urlencoded"


def test_multipart():
    """Fields, files and lists of files are parts, and no value ends its part early."""
    schema = {
        "type": "object",
        "properties": {
            "f": {"type": "string", "format": "binary"},
            "g": {"type": "array", "items": {"type": "string", "format": "binary"}},
        },
    }
    value = {
        'a"\r\nX: y': "1\r\n--boundary",
        "f": "data:image/png;base64,AAEC",
        "g": ["one", "two"],
        "o": {"k": [1]},
        "n": None,
    }
    content, kind = body_of("multipart/form-data", value, schema)
    parts = message_from_bytes(f"Content-Type: {kind}\r\n\r\n".encode() + content).get_payload()

    assert [
        (
            part.get_param("name", header="content-disposition"),
            part.get_filename(),
            part.get_content_type(),
        )
        for part in parts
    ] == [
        ("a%22%0D%0AX: y", None, "text/plain"),
        ("f", "f", "image/png"),
        ("g", "g", "application/octet-stream"),
        ("g", "g", "application/octet-stream"),
        ("o", None, "application/json"),
    ]
    payloads = [part.get_payload(decode=True) for part in parts]
    assert payloads == [b"1\r\n--boundary", b"\0\1\2", b"one", b"two", b'{"k":[1]}']
    assert json.loads(payloads[-1]) == {"k": [1]}


BINARY = [{"type": "string", "format": "binary"}, {"contentMediaType": "image/png"}]


def test_the_model_reads_which_fields_in_a_part_of_a_body_are_files():
    """A field beside the others says so itself; one in a part is named by the body."""
    part = {"properties": {"f": BINARY[0]}}
    kind = "multipart/form-data"
    told = operation(body={kind: {"schema": {"allOf": [part], "description": "A photo."}}}).schema

    text = "Files: f. Text, or for bytes a data: URL with base64. A photo."
    assert told["properties"]["body"]["description"] == text


@pytest.mark.parametrize("binary", BINARY)
@pytest.mark.parametrize(
    ("wrap", "is_file"),
    [
        (lambda binary: {"properties": {"f": {"anyOf": [binary, {"type": "null"}]}}}, True),
        (lambda binary: {"properties": {"f": {"oneOf": [binary, {"items": binary}]}}}, True),
        (
            lambda binary: {
                "properties": {"f": {"anyOf": [{"type": ["array", "null"], "items": binary}]}}
            },
            True,
        ),
        (lambda binary: {"allOf": [{"properties": {"f": binary}}, {"properties": {}}]}, True),
        (
            lambda binary: {"properties": {"f": {"anyOf": [binary, {"type": "string"}]}}},
            False,
        ),
        (lambda binary: {"properties": {"f": {"anyOf": [{"$ref": "x.json"}]}}}, False),
        (lambda binary: {"properties": {"f": {"anyOf": [{"anyOf": [5]}, None]}}}, False),
    ],
)
def test_optional_and_combined_files(wrap, binary, is_file):
    """A file stays a file where it may be null or a list, or where the body combines schemas; a field of any text does not."""
    text = "data:image/png;base64,AAEC"
    content, _ = body_of("multipart/form-data", {"f": text}, wrap(binary))

    assert (b'filename="f"' in content, b"\0\1\2" in content) == (is_file, is_file)
    assert (text.encode() in content) != is_file


def test_files_that_combine_without_end_are_looked_at_within_a_limit():
    """A schema that combines itself, or a million others, takes no time."""
    many = {"$ref": "#/components/schemas/many"}
    body = {"multipart/form-data": {"schema": {"properties": {"f": many, "g": many}}}}
    spec = {
        "openapi": "3.1.0",
        "paths": {"/x": {"post": {"requestBody": {"content": body}}}},
        "components": {"schemas": {"many": {"anyOf": [many] * 5_000}}},
    }
    [listed] = operations(read(spec))

    assert listed.read().body.files == frozenset()


@pytest.mark.parametrize(
    ("path", "arguments", "expected"),
    [
        ("/x?beta=true", {}, ("/x", "beta=true")),
        ("/x?a=b c&d=%20/", {"color": "q"}, ("/x", "a=b%20c&d=%20/&color=q")),
        ("/x/{id}?beta", {"id": "a/b?c"}, ("/x/a%2Fb%3Fc", "beta")),
        ("/x?id={id}", {"id": "a&b=c#d"}, ("/x", "id=a%26b%3Dc%23d")),
        ("/x#Action=Get", {}, ("/x", "")),
        ("/x?v=1#Action=Get", {}, ("/x", "v=1")),
        ("/x/{id?}?v={v#}#z", {"id": "5", "v": "a&b"}, ("/x/5", "v=a%26b")),
    ],
)
def test_a_path_may_have_a_fixed_query_and_a_fragment(path, arguments, expected):
    """Real documents tell operations of one path apart by these; the query is sent as such, the fragment is not."""
    prepared = prepare(operation(path, [parameter("query")]), arguments)

    assert (prepared.path, prepared.query) == expected


def test_broken_base64_is_an_error():
    """A data: URL that is none is not sent as something else."""
    with pytest.raises(UnsafeValue, match="base64"):
        body_of("application/octet-stream", "data:;base64,????")


def test_a_deep_object_that_grows_without_bound_is_refused():
    """Each field repeats the names above it, so a long name over many fields would fill the memory."""
    deep = operation(parameters=[parameter("query", style="deepObject")])
    value = {"k" * 20_000: dict.fromkeys(map(str, range(1_000)), 1)}

    with pytest.raises(UnsafeValue, match="more than 65,536 characters"):
        prepare(deep, {"color": value})


@pytest.mark.parametrize(
    ("place", "style"),
    [("query", "form"), ("query", "deepObject"), ("cookie", "form"), ("path", "matrix")],
)
def test_a_list_that_repeats_a_long_name_is_refused(place, style):
    """A list of a megabyte in the arguments cannot become gigabytes of a URL or of cookies."""
    long = {**parameter(place, style=style, explode=True), "name": "k" * 10_000}
    wanted = operation("/{" + long["name"] + "}" if place == "path" else "/x", [long])
    [argument] = wanted.schema["properties"]

    with pytest.raises(UnsafeValue, match="65,536 characters in the path, query or cookies"):
        prepare(wanted, {argument: [1] * 100_000})


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "multipart/form-data"])
def test_a_form_that_repeats_a_long_name_is_refused(kind):
    """A model can choose a name of half a megabyte, and a list of as many items for it."""
    form = operation(body={kind: {"schema": {"type": "object"}}})

    with pytest.raises(UnsafeValue, match="67,108,864 characters in the form"):
        prepare(form, {"body": {"k" * 500_000: [1] * 250_000}})


def test_empty_lists_below_a_long_name_write_nothing():
    """The name of a field is written only where the field has a value."""

    class Name(str):
        def __format__(self, spec):
            raise AssertionError("the name was written")

    deep = operation(parameters=[parameter("query", style="deepObject")])

    assert prepare(deep, {"color": {Name("k"): [[], {}, []]}}).query == ""
