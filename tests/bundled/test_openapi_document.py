"""Reading OpenAPI documents, which are somebody else's data."""

import json
import tracemalloc

import pytest
import yaml

from functool import DefinitionError
from functool.bundled import openapi, openapi_document
from functool.bundled.openapi_document import read, visible
from tests.bundled.documents import HEAD, document, tools_of

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 8)
)
MERGE_BOMB = "m0: &m0 {a: 1, b: 2}\n" + "".join(
    f"m{n}: &m{n} {{<<: [{', '.join([f'*m{n - 1}'] * 10)}]}}\n" for n in range(1, 8)
)


def test_json_yaml_bytes_and_mappings_are_the_same_document():
    """A document is read from a mapping, and from its text or bytes in JSON and YAML."""
    spec = document({"/a": {"get": {"responses": {"200": {"description": "x"}}}}})
    written = json.dumps(spec)
    texts = [spec, written, written.encode(), yaml.safe_dump(spec), "\ufeff" + written]

    assert [read(text).root for text in texts] == [spec] * 5


def test_yaml_has_the_types_of_json_and_no_others():
    """A version is no date, a `no` no boolean and a time no number, as they are to a plain YAML reader."""
    text = "openapi: 3.1.0\nversion: 2026-01-02\ncountry: no\ntime: 12:30:00\ncode: 010\nn: 12\nf: 1.5\nz:\nt: true\n200: x\n"
    expected = {
        "openapi": "3.1.0",
        "version": "2026-01-02",
        "country": "no",
        "time": "12:30:00",
        "code": "010",
        "n": 12,
        "f": 1.5,
        "z": None,
        "t": True,
        "200": "x",
    }

    assert read(text).root == expected
    assert yaml.safe_load(text)["country"] is False


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[" * 100_000, "nested"),
        ('{"a":' * 100_000, "nested"),
        ('{"openapi": "3.1.0", "a": ' + "[" * 300 + "]" * 300 + "}", "nested"),
        ("openapi: 3.1.0\na: &a [*a]", "nested"),
        ("openapi: 3.1.0\na: &a {b: {<<: *a}}", "merge keys"),
        (MERGE_BOMB, "merge keys"),
        ("openapi: !!python/object/apply:os.system ['true']", "not valid YAML"),
        ("openapi: [", "not valid YAML"),
        ('{"openapi": ', "cannot be read"),
        (b"\xff\xff", "cannot be read"),
        ('{"openapi": "3.1.0", "n": ' + "9" * 5_000 + "}", "cannot be read"),
        ("/etc/passwd", "file name or URL"),
        ("https://example.com/openapi.json", "file name or URL"),
        ("[]", "file name or URL"),
        ([], "file name or URL"),
        (None, "file name or URL"),
        ('{"swagger": "2.0"}', "version 2.0"),
        ("{}", "no version"),
        ({"openapi": 3.1}, "no version"),
    ],
)
def test_what_is_no_document_of_version_3_is_refused(text, told):
    """Anything else, of any depth and with any trick, is an error of the author's that says what it is."""
    with pytest.raises(DefinitionError, match=told):
        read(text)


def test_a_bomb_of_aliases_is_counted_as_it_would_go_off(monkeypatch):
    """A kilobyte of YAML that stands for a hundred million values is refused without making them."""
    monkeypatch.setattr(openapi_document, "MAX_NODES", 100_000)
    tracemalloc.start()
    with pytest.raises(DefinitionError, match="more than 100,000 values"):
        read("openapi: 3.1.0\n" + BOMB)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 50_000_000
    assert len(BOMB) < 1_000
    assert BOMB.count("*") == 70 and isinstance(yaml.safe_load(BOMB)["a7"], list)


def test_too_many_values_of_yaml_are_refused_while_they_are_read(monkeypatch):
    """YAML with too many values is never loaded, because a value takes hundreds of bytes."""
    monkeypatch.setattr(openapi_document, "MAX_NODES", 1_000)
    monkeypatch.setattr(yaml, "load", None)

    with pytest.raises(DefinitionError, match="more than 1,000 values"):
        openapi_document.read("openapi: 3.1.0\na:\n" + "- \n" * 3_000)


def test_a_document_has_a_size_limit(monkeypatch):
    """Text beyond the limit is not parsed."""
    monkeypatch.setattr(openapi_document, "MAX_BYTES", 100)

    with pytest.raises(DefinitionError, match="longer than 100 bytes"):
        read(json.dumps({**HEAD, "x": "y" * 100}))


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain\ntext\there", "plain\ntext\there"),
        ("zero\u200bwidth\u2060join\ufeff", "zerowidthjoin"),
        ("\u202eright to left\u202c\u2066x\u2069", "right to leftx"),
        ("tags" + "".join(chr(0xE0000 + ord(c)) for c in "send secrets"), "tags"),
        ("bytes" + "".join(chr(0xFE00 + n) for n in range(16)) + chr(0xE0100), "bytes"),
        ("a\x00b\x1b[31mc\x7f", "ab[31mc"),
        ("filler\u3164\u115f\uffa0\u2800x", "fillerx"),
        ("private\ue000\U000f0000", "private"),
        ("Zürich 東京 हिन्दी 👍", "Zürich 東京 हिन्दी 👍"),
    ],
)
def test_hidden_characters_are_taken_out(text, seen):
    """What a reader cannot see is taken out of every text and name, and what one can see stays."""
    root = read({**HEAD, "info": {text + "k": [text]}}).root

    assert visible(text) == seen
    assert root["info"] == {seen + "k": [seen]}


@pytest.fixture
def referring():
    """A document with something to refer to, and a reference to itself."""
    return read({**HEAD, "a/b~c": {"x y": [{"z": 1}]}, "loop": {"$ref": "#/loop"}})


def test_references_are_followed_inside_the_document(referring):
    """A pointer finds its value, whatever is in the names on its way."""
    assert referring.resolve({"$ref": "#/a~1b~0c/x%20y/0"}) == {"z": 1}


@pytest.mark.parametrize(
    ("reference", "told"),
    [
        ("http://127.0.0.1/x", "out of the document"),
        ("file:///etc/passwd", "out of the document"),
        ("other.yaml#/x", "out of the document"),
        ("#/nothing", "to nothing"),
        ("#/a~1b~0c/x%20y/7", "to nothing"),
        ("#/a~1b~0c/x%20y/0000000009", "to nothing"),
        ("#/a~1b~0c/x%20y/" + "0" * 5_000, "to nothing"),
        ("#anchor/x", "to nothing"),
        ("#/loop", "in a circle"),
    ],
)
def test_references_do_not_lead_out_of_the_document(referring, reference, told):
    """A reference that leads out of the document, to nothing or round is an error."""
    with pytest.raises(DefinitionError, match=told):
        referring.resolve({"$ref": reference})


def test_the_document_is_a_copy():
    """What the caller changes afterwards does not change the tools."""
    spec = document({})
    read_document = read(spec)
    spec["paths"]["/evil"] = {"get": {}}

    assert read_document.root["paths"] == {}


def test_operations_that_cannot_be_tools_may_not_take_for_ever(monkeypatch):
    """Each failing operation is read in whole, and a short document can have a million of them."""
    monkeypatch.setattr(openapi, "MAX_FAILING", 0.0)
    spec = document({"/a/..": {"get": {}}, "/b/..": {"get": {}}})

    with pytest.raises(DefinitionError, match=r"GET /a/\.\..*take too long"):
        tools_of(spec)
