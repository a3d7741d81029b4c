"""The fakes and checks that ship."""

import dataclasses
import datetime
from typing import Annotated

import pytest
from pydantic import Field

from functool import Context, DefinitionError, FunctionTool, SchemaTool, ToolResult, Toolset
from functool.testing import MockTool, check_tool
from tests.schemas import obj
from tests.support import call, foreign, heard


def test_mock_tool():
    """It takes any arguments, counts the calls and answers what it was told to."""
    tool = MockTool("search", "Search.", return_value={"hits": 3})

    assert (tool.call_count, tool.last_input) == (0, None)
    assert call(tool, '{"any": [1]}').value == {"hits": 3}
    assert call(tool, {"other": 2}).success
    assert (tool.call_count, tool.last_input) == (2, {"other": 2})
    assert call(MockTool("m", "M.", error=ValueError("x"))).text == "ValueError: x"
    assert call(MockTool("m", "M.", error="no")).text == "no"
    assert call(MockTool("m", "M.", return_value=ToolResult.failed("f"))).text == "f"
    assert (MockTool().name, MockTool().schema.description) == ("mock_tool", "A mock tool.")


def test_error_functions_hear_the_error_of_a_mock_tool():
    """An error given as a text is raised too, so error functions are asked about it."""
    tool = MockTool("m", "M.", error="no", on_error_func=lambda error, context: f"heard {error}")

    assert call(tool).text == "heard no"


def test_event_log():
    """It keeps events and their kinds."""
    context, log = heard()
    context.emit("a", x=1)

    assert log.kinds == ["a"] and log.events[0].data == {"x": 1}


@FunctionTool
def good(query: str, limit: int = 10) -> str:
    """Search the documents.

    Args:
        query: What to look for.
        limit: How many to return.
    """
    return query


@FunctionTool
def look(name: Annotated[str, Field(pattern="^a", description="d")]):
    """Look."""


@pytest.mark.parametrize("tool", [good, look], ids=lambda tool: tool.name)
def test_a_good_tool_has_nothing_wrong(tool):
    """An empty list is good; a pattern that the linear engine reads is no fault."""
    assert check_tool(tool) == []


def bare(query): ...


def undocumented(query: str):
    """Search."""


def ghost(query: str):
    """Search.

    Args:
        query: What.
        colour: There is no such parameter.
    """


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        (FunctionTool(bare), "the tool has no description: write a docstring"),
        (
            FunctionTool(undocumented),
            "the parameter 'query' has no description: describe it in the docstring or the annotation",
        ),
        (FunctionTool(ghost), "'colour'"),
        (FunctionTool(good.func, description="x" * 1025), "1025"),
        (FunctionTool(good.func, name="math.sum"), "portable"),
        (FunctionTool(good.func, name="x" * 65), "portable"),
        (FunctionTool(good.func, name="9lives"), "portable"),
        (FunctionTool(good.func, name="searchDocs"), "snake_case"),
        (
            foreign(obj({"a": {"type": "text", "description": "d"}})),
            "the schema is not valid JSON Schema 2020-12 at $.properties.a.type: 'text' is not valid",
        ),
        (foreign(obj({"a": {"pattern": "(?=a)b", "description": "d"}})), "linear engine"),
        (foreign({"type": "object", "patternProperties": {"(?=a)b": {}}}), "linear engine"),
        (FunctionTool(good.func, strict=True), "limit"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_everything_wrong_is_said(tool, words):
    """Each fault is named, in words that say what to do."""
    assert any(words in fault for fault in check_tool(tool)), check_tool(tool)


def test_a_result_is_compared_with_the_output_schema():
    """A real result that does not fit the return annotation is said."""

    @FunctionTool
    def wrong() -> int:
        """Return a number."""
        return "text"

    faults = check_tool(wrong, call(wrong))

    assert len(faults) == 1 and "output schema" in faults[0]
    assert check_tool(good, call(good, {"query": "x"})) == []


def test_a_result_that_json_cannot_say_is_compared_too():
    """An object is compared as its text, and an iterator as it is."""
    no_text = ["the result does not fit the output schema at $: type"]

    assert check_tool(good, ToolResult.of(object())) == []
    assert check_tool(good, ToolResult.of(map(int, "1"))) == no_text


def test_a_tool_without_a_schema_raises():
    """A name that cannot be resolved is the author's mistake."""

    @FunctionTool
    def late(x: "Nowhere"):  # noqa: F821
        """Late."""

    with pytest.raises(DefinitionError, match="Nowhere"):
        check_tool(late)


def test_a_schema_that_only_says_it_is_strict():
    """What has no strict form is said, also of a tool that publishes itself as strict."""

    class Boast(SchemaTool):
        @property
        def schema(self):
            return dataclasses.replace(super().schema, strict=True)

    boast = Boast("f", "F.", obj({"a": {"allOf": [{}, {}], "description": "d"}}), print)

    assert any("#/properties/a: keyword-allOf" in fault for fault in check_tool(boast))


@pytest.mark.parametrize(
    ("annotation", "value", "faults"),
    [
        (bytes, b"\xff\x00", []),
        (float, 1.5, []),
        (float, float("nan"), ["the result does not fit the output schema at $: type"]),
        (list[int], [1, "a", None], ["the result does not fit the output schema at $[1]: type", "the result does not fit the output schema at $[2]: type"]),
        (datetime.date, datetime.date(2026, 1, 2), []),
        (dict[str, datetime.timedelta], {"a": datetime.timedelta(seconds=90)}, []),
        (int | None, None, []),
    ],
    ids=repr,
)  # fmt: skip
def test_a_result_is_compared_as_the_json_that_leaves(annotation, value, faults):
    """Bytes, dates and numbers that are none are compared in the form in which they leave; each place that does not fit is said."""

    def answer():
        """Answer."""
        return value

    answer.__annotations__["return"] = annotation
    tool = FunctionTool(answer)

    assert check_tool(tool, call(tool)) == faults


def test_a_missing_annotation_is_a_finding():
    """What is not annotated takes anything: `check_tool` names each such parameter, and no hidden one."""

    def buy(price, times: int = 1, *, context: Context, **rest):
        """Buy.

        Args:
            price: Of one.
            times: How often.
            rest: More.
        """

    said = "has no annotation: a model may send anything for it"
    faults = [f"the parameter {name!r} {said}" for name in ("price", "rest")]

    assert check_tool(FunctionTool(buy)) == faults


@pytest.mark.parametrize("given", [len, [MockTool("m", "M.")], Toolset([MockTool("m", "M.")])])
def test_one_tool_is_checked(given):
    """A function, a list and a toolset are refused by name."""
    said = f"^check_tool takes one tool, not {type(given).__name__}$"
    with pytest.raises(TypeError, match=said):
        check_tool(given)


def test_a_schema_that_is_nested_too_deeply_for_jsonschema_is_checked_all_the_same():
    """What nobody can check is a finding, and the other findings are there."""
    part = {"type": "string"}
    for _ in range(150):
        part = {"anyOf": [part, {"type": "integer"}]}
    tool = SchemaTool("look", "Look.", obj({"deep": part}), lambda arguments: "x")

    assert check_tool(tool) == [
        "the schema is nested too deeply to be compared with JSON Schema 2020-12",
        "the parameter 'deep' has no description: describe it in the docstring or the annotation",
    ]
