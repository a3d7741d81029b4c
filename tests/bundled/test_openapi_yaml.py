"""Reading YAML that somebody else wrote."""

import pytest
import yaml

from functool import DefinitionError
from functool.bundled import openapi_document
from functool.bundled.openapi_yaml import MAX_DIRECTIVES, read_yaml

HEAD = "openapi: 3.1.0\n"


def made(text):
    """Return what a text stands for, within generous limits."""
    return read_yaml(text, 1_000, 10)


@pytest.fixture
def events(monkeypatch):
    """The events of the parser that were asked for, in a list that grows."""
    asked, parse = [], yaml.parse

    def counted(*args, **options):
        for event in parse(*args, **options):
            asked.append(event)
            yield event

    monkeypatch.setattr(yaml, "parse", counted)
    return asked


@pytest.mark.parametrize("line", ["- \n", "- []\n", "- {}\n", "- *a\n", "- a: b\n"])
def test_values_are_counted_while_they_are_read(monkeypatch, events, line):
    """A text with too many values is refused at the first one too many, and not read to its end."""
    monkeypatch.setattr(openapi_document, "MAX_NODES", 500)

    with pytest.raises(DefinitionError, match="more than 500 values"):
        openapi_document.read(f"{HEAD}a: &a x\nx:\n{line * 10_000}")

    assert len(events) < 4 * 500


def test_as_many_values_as_may_be_are_read():
    """The limit is the number of values, and names of a mapping do not count."""
    text = "[" + ", ".join(["{a: b}"] * 10) + "]"

    assert read_yaml(text, 21, 10) == [{"a": "b"}] * 10
    with pytest.raises(DefinitionError, match="more than 20 values"):
        read_yaml(text, 20, 10)


def test_depth_is_counted_while_values_are_read(events):
    """A text that is nested too deep is refused before its innermost values are read."""
    assert read_yaml("[" * 10 + "]" * 10, 1_000, 10) == [[[[[[[[[[]]]]]]]]]]
    events.clear()

    with pytest.raises(DefinitionError, match="nested more than 10 deep, at line 1"):
        read_yaml("[" * 5_000 + "]" * 5_000, 100_000, 10)

    assert len(events) < 20


def test_directives_that_the_parser_compares_are_refused_before_it_runs(events):
    """The parser compares each `%TAG` with all others, so thousands of them never reach it."""
    few = "".join(f"%TAG !a{number}! x\n" for number in range(MAX_DIRECTIVES))

    assert made(f"{few}--- a\n") == "a"
    events.clear()
    with pytest.raises(DefinitionError, match="too many %TAG directives"):
        made(f"{few}%TAG !b! x\n--- a\n")

    assert events == []


def test_names_are_texts_as_they_were_written():
    """A number as a name stays a text, because a mapping of equal hashes would take for ever."""
    text = "1: a\n2.50: b\ntrue: c\n~: d\n0: &n 7\n*n : e\n"

    assert made(text) == {"1": "a", "2.50": "b", "true": "c", "~": "d", "0": 7, "7": "e"}


def test_values_are_those_of_the_library_where_they_are_those_of_json():
    """Texts, numbers, words, quotes, blocks and aliases are read as PyYAML reads them."""
    text = """
a: [1, -2, +3, 1.5, .5, 1.e+3, true, False, ~, null, , x y]
b: {c: "1", d: '~', "e": &e [x], f: *e}
g: |
  two
  lines
h: !!str 1
i: &i {j: !!seq [k]}
l: *i
"""
    text = text.replace("null, ,", "null,")

    assert made(text) == yaml.safe_load(text)
    assert made("") is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a\n--- b\n", "more than one document, line 2"),
        ("a: *b\n", "nothing has the anchor 'b', line 1"),
        ("a: &b x\nc: &b y\n", "a second anchor 'b', line 2"),
        ("? [a]\n: b\n", "a collection is no name, line 1"),
        ("a: &a [x]\n*a : b\n", "a collection is no name, line 2"),
        ("a: !!map x\n", "tag 'tag:yaml.org,2002:map', line 1"),
        ("a:\n  <<: b\n", "merge keys"),
        ("a: [", "not valid YAML: while parsing"),
    ],
)
def test_what_is_no_document_of_jsons_types_is_refused(text, told):
    """The error names what is wrong and its line."""
    with pytest.raises(DefinitionError, match=told):
        made(text)
