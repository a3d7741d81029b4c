"""Tools and servers that mean harm."""

import json
from math import inf, nan

import pytest

pytest.importorskip("starlette")
pytest.importorskip("playwright")

from functool.play.forms import CHOICES, DEPTH, PARTS, form_schema
from tests.play.kit import BAD, HOSTILE
from tests.play.test_page import (
    approve,
    arguments_of,
    call,
    refuse,
    result,
    start,
    steps,
    until,
)


def test_nothing_of_a_hostile_tool_runs(page):
    """Scripts and links in names, descriptions, schemas and results are text, and load nothing."""
    text = call(page, "hostile", link="x")
    page.click("summary:text-is('Definition for each provider')")
    until(page, "document.querySelector('#definition').textContent.length > 0")
    page.locator("[data-schemapath='root.choice'] select").wait_for()
    page.get_by_label("Send link").check()
    page.locator("[data-schemapath='root.link'] textarea").focus()
    page.evaluate("() => new Promise((go) => requestAnimationFrame(() => setTimeout(go)))")

    assert BAD.format("text") in text
    assert page.evaluate("typeof window.hacked") == "undefined"
    loading = "document.querySelectorAll('main script, main iframe, main object, main a').length"
    assert page.evaluate(loading) == 0
    assert page.locator("#result img").count() == 0
    assert BAD.format("told") in page.inner_text("#form")
    assert "http://127.0.0.1:9/tracker.png" in page.inner_text("#result")
    assert BAD.format("description") in page.inner_text("main .description")
    attributes = page.evaluate(
        "[...document.querySelectorAll('body *')].flatMap((e) => e.getAttributeNames())"
        ".filter((name) => name.startsWith('on')).length"
    )
    assert attributes == 0


def test_a_huge_result(page):
    """A result of 50 MB is cut before it reaches the page, and says how long it is."""
    text = call(page, "huge", megabytes=50)

    assert "50,000,0" in text
    assert page.evaluate("document.body.innerText.length") < 60_000
    sizes = "performance.getEntriesByType('resource').every((r) => r.transferSize < 2e6)"
    assert page.evaluate(sizes)


def test_endless_progress(page):
    """Progress without end neither fills the page nor stops it, and the call can be cancelled."""
    start(page, "endless")
    until(page, "document.querySelector('.progress-text').textContent.includes('step 2')")
    until(page, "document.querySelectorAll('.events li').length === 200")
    later = page.inner_text(".progress-text")
    until(page, f"document.querySelector('.progress-text').textContent !== {json.dumps(later)}")

    assert page.evaluate("document.querySelectorAll('.events li').length") == 200
    assert page.evaluate("document.querySelectorAll('.events b').length") == 0
    page.click("main > .row > .stop")
    page.locator("#call:not([disabled])").wait_for()
    assert "You said" in call(page, "say", text="still here")


def test_a_name_without_end(page):
    """A name of 10,000 characters is shown in part, stays in its place, and can be called."""
    page.fill("#search", "nnnnnnnn")
    page.locator("button.tool").click()
    until(page, "document.querySelector('#raw')?.value.startsWith('{')")

    assert "ok" in call(page)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert len(page.inner_text("button.tool .name")) <= 100


def test_an_approval_with_names_without_end(page):
    """A request with names of 10,000 characters is whole in its text, and in place on the page."""
    page.fill("#search", "mmmmmmmm")
    page.locator("button.tool").click()
    until(page, "document.querySelector('#raw')?.value.startsWith('{')")
    card = start(page, **{"p" * 10_000: "x"})
    card.locator("summary").click()
    card.get_by_label("may be anything").wait_for()

    assert arguments_of(card) == {"p" * 10_000: "x"}
    assert page.evaluate("document.querySelector('#waiting .card').innerText.length") < 2_000
    assert page.evaluate("document.querySelector('#status').textContent.length") < 200
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    approve(card)
    assert "ok" in result(page)


def test_hostile_names_in_an_approval(page):
    """What a model wrote is text in the inbox, too, and characters that hide are written out."""
    card = start(page, "remove", path=BAD.format("path") + "\u202e")
    card.wait_for()

    assert "\\u202e" in card.locator("textarea").input_value()
    assert page.evaluate("typeof window.hacked") == "undefined"
    refuse(card)
    result(page)
    assert ["body", "", "skipped"] in steps(page)


def test_hostile_names_in_what_is_allowed_beforehand(page):
    """Names that a model chose are written out where a person says what may differ next time."""
    page.fill("#search", "mmmmmmmm")
    page.locator("button.tool").click()
    until(page, "document.querySelector('#raw')?.value.startsWith('{')")
    card = start(page, **{"\u202ep\x9b": "\u200bx", "q\u2066": "y"})
    card.locator("summary").click()

    assert "\\u202ep\\u009b may be anything" in card.inner_text()
    card.get_by_label("q\\u2066 may be anything").check()
    card.get_by_text("Approve, and allow the next ones").click()
    page.locator("#grants li").wait_for()
    shown = page.inner_text("#grants")
    assert '{"\\u202ep\\u009b":"\\u200bx"} any q\\u2066' in shown
    assert not set("\u202e\x9b\u200b\u2066") & set(page.inner_text("body"))
    page.locator("#grants button").click()
    page.locator("#grants").wait_for(state="detached")


def keywords(part):
    """Every keyword in a schema, at any depth."""
    if isinstance(part, dict):
        for key, value in part.items():
            yield key
            if key == "properties":
                for each in value.values():
                    yield from keywords(each)
            elif key not in ("default", "enum", "options"):
                yield from keywords(value)
    elif isinstance(part, list):
        for each in part:
            yield from keywords(each)


def test_only_known_keywords_pass():
    """The form gets a copy with known keywords, and texts in which nothing is HTML or a template."""
    form = form_schema(HOSTILE)

    assert set(keywords(form)) <= {
        "title",
        "description",
        "type",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "enum",
        "default",
        "options",
        "readOnly",
        "format",
    }
    texts = json.dumps({**form, "properties": list(form["properties"].values())})
    shown = texts.replace(json.dumps(BAD.format("enum")), "")
    assert "<" not in shown and "{{" not in shown
    assert form["properties"]["link"]["format"] == "textarea"
    assert form["properties"]["media"]["format"] == "textarea"


def test_the_required_names_are_not_searched_for_each_property():
    """A stranger's thousands of properties and required names cost a look at each, and not at each pair."""

    class Names(list):
        def __contains__(self, name):
            raise AssertionError("a search of the whole list")

    schema = {"type": "object", "properties": {"a": {}, "b": {}}, "required": Names("ab")}

    assert form_schema(schema)["required"] == ["a", "b"]


def test_schemas_without_end():
    """References that go in circles, deep and wide schemas end in a form of bounded size."""
    inward = {
        "properties": {"a": {"$ref": "#/$defs/A"}},
        "$defs": {"A": {"allOf": [{"$ref": "#/$defs/A"}]}},
    }
    circle = {
        "$ref": "#/$defs/a",
        "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
    }
    node = {"type": "object", "properties": {"n": {"$ref": "#"}, "m": {"$ref": "#"}}}
    wide = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(5_000)}}

    def size(part):
        return 1 + sum(size(each) for each in part.get("properties", {}).values())

    def depth(part):
        return 1 + max((depth(each) for each in part.get("properties", {}).values()), default=0)

    assert form_schema(circle)["options"] == {"functool": "json"}
    assert form_schema(inward)["properties"]["a"]["options"] == {"functool": "json"}
    assert size(form_schema(node)) <= 2 ** (DEPTH + 1)
    assert depth(form_schema(node)) == DEPTH + 1
    marked = [p for p in form_schema(wide)["properties"].values() if p.get("readOnly")]
    assert len(marked) >= 5_000 - PARTS


def test_numbers_that_json_does_not_have_are_left_out():
    """NaN and infinite numbers in a schema, which would break the page, are not in its form."""
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "number", "maximum": inf, "minimum": 1.5, "default": nan},
            "b": {"enum": [1, inf, "x"], "default": {"deep": [nan]}},
            "c": {"const": -inf, "default": 1.5},
        },
    }

    form = form_schema(schema)

    json.dumps(form, allow_nan=False)
    assert form["properties"]["a"] == {"title": "a", "type": "number", "minimum": 1.5}
    assert form["properties"]["b"]["enum"] == [1, "x"]
    assert form["properties"]["c"] == {"title": "c", "default": 1.5}


def test_a_page_with_a_number_that_json_does_not_have(page):
    """A tool whose schema has Infinity shows its form, and can be called."""
    assert "got 2" in call(page, "endless_number", x=2)


def test_many_parts_that_refer_to_one_large_schema(monkeypatch):
    """A large schema is copied once for all parts that refer to it, and its default is read once."""
    copies, reads, write = [], [], json.dumps

    def read(value, **options):
        reads.extend([1] if value is default else [])
        return write(value, **options)

    class Large(dict):
        def __iter__(self):
            return super().__iter__()

        def keys(self):
            copies.append(1)
            return super().keys()

    default = ["long" * 10_000]
    monkeypatch.setattr(json, "dumps", read)
    large = Large(type="string", default=default, enum=[str(n) for n in range(30_000)])
    properties = {f"p{n}": {"$ref": "#/$defs/large"} for n in range(3_000)}
    form = form_schema({"type": "object", "properties": properties, "$defs": {"large": large}})

    assert (len(copies), len(reads)) == (0, 1)
    assert len(json.dumps(form)) < 2_000_000
    assert form["properties"]["p0"]["enum"] == [str(n) for n in range(CHOICES)]
    assert "default" not in form["properties"]["p0"]
    assert form["properties"]["p2999"]["options"] == {"functool": "json"}


def test_what_a_form_keeps():
    """Types, limits, choices, defaults and formats that browsers know are kept."""
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": ["integer", "null"], "minimum": 1, "default": 2, "description": "A & B"},
            "b": {"const": "x"},
            "c": {"type": "string", "format": "date"},
            "d": {"type": "object", "additionalProperties": {"type": "integer"}},
            "e": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "f": True,
            "g": False,
        },
        "required": ["a"],
    }
    form = form_schema(schema)["properties"]

    assert form["a"] == {
        "title": "a",
        "description": "A &amp; B",
        "type": ["integer", "null"],
        "minimum": 1,
        "default": 2,
    }
    assert form["b"]["enum"] == ["x"]
    assert form["c"]["format"] == "date"
    assert form["d"]["additionalProperties"] == {"title": "value", "type": "integer"}
    assert [each["title"] for each in form["e"]["oneOf"]] == ["text", "nothing (null)"]
    assert form["f"] == {"title": "f"}
    assert form["g"]["readOnly"] is True
    assert form_schema(schema)["required"] == ["a", "b"]
