"""What every bridge does alike with tools and with content."""

import json
from dataclasses import replace

import pytest

from functool import (
    AudioContent,
    DefinitionError,
    FileContent,
    FunctionTool,
    ImageContent,
    TextContent,
    ToolResult,
    Toolset,
    WrapperTool,
)
from functool.integrations.values import (
    bytes_of,
    json_items,
    json_or_text,
    levels,
    media,
    opened,
    output_schema,
    shown,
    text_of,
    texts_only,
)
from functool.layers.some_tools import as_list


@FunctionTool
def count() -> list[int]:
    """Count."""
    return [1, 2]


def test_some_tools_are_one_several_or_a_toolset():
    """Each way to name some tools gives the same list; what is no tool is refused."""
    assert (
        as_list(count)
        == as_list([count])
        == as_list(iter([count]))
        == as_list(Toolset([count]))
        == [count]
    )
    assert as_list([]) == []
    with pytest.raises(DefinitionError, match="a Toolset holds tools, not str"):
        as_list("count")


def test_the_levels_of_a_tool_go_from_the_outside_in():
    """A wrapper comes before the tool that it wraps."""
    inner = WrapperTool(count, name="inner")
    outer = WrapperTool(inner, name="outer")

    assert [level.name for level in levels(outer)] == ["outer", "inner", "count"]


def test_no_output_schema_where_a_level_shows_something_else():
    """A guardrail with `shows = True` at any level leaves no output schema; the schema is a copy."""

    def short(result, context):
        return result.shown_as("short")

    short.shows = True
    cut = FunctionTool(count.func, output_guardrails=[short])

    assert output_schema(count) == count.schema.output is not None
    assert output_schema(count) is not count.schema.output
    assert output_schema(cut) is None
    assert output_schema(WrapperTool(cut)) is None
    assert output_schema(WrapperTool(count, output_guardrails=[short])) is None


def test_a_data_url_is_opened_and_another_url_is_kept():
    """Base64 data URLs give bytes and media type; what cannot be read stays where it is."""
    assert opened("data:image/gif;base64,aGk=") == {"data": b"hi", "media_type": "image/gif"}
    for url in ("https://x.org/a.png", "data:image/svg+xml,<svg/>", "data:image/gif;base64,a"):
        assert opened(url) == {"uri": url}


def test_a_media_type_asks_for_its_content():
    """Images and sounds are content of their own kind, everything else is a file."""
    assert media("image/gif", data=b"x") == ImageContent(data=b"x", media_type="image/gif")
    assert media("audio/mpeg", uri="u") == AudioContent(uri="u", media_type="audio/mpeg")
    assert media("text/csv", data=b"x") == FileContent(data=b"x", media_type="text/csv")


def test_parts_as_text():
    """A text is itself, other content is named, and other values are JSON."""
    picture = ImageContent(data=b"abc")

    assert (text_of(TextContent(text="a")), text_of(picture)) == ("a", "[image/png: 3 bytes]")
    assert texts_only([]) and texts_only([TextContent(text="a")])
    assert not texts_only([TextContent(text="a"), picture])
    assert (json_or_text("a"), json_or_text({"a": True})) == ("a", '{"a":true}')


def test_an_image_is_shown_with_the_type_that_its_bytes_show():
    """An author may have left the type out, and providers refuse a wrong one."""
    jpeg = ImageContent(data=b"\xff\xd8\xff\xe0")

    assert shown(ToolResult(output=[jpeg])) == [replace(jpeg, media_type="image/jpeg")]
    assert jpeg.media_type == "image/png"


def test_base64_is_read_whole():
    """Base64 text gives its bytes; what is none is a ValueError."""
    assert bytes_of("aGk=") == b"hi"
    with pytest.raises(ValueError):
        bytes_of("aG!k=")


def test_each_item_that_json_cannot_express_is_text_alone():
    """A value of too many digits or with half a character does not affect the others, and is valid text."""
    items = json_items({"n": 10**5_000, "half": {"x": "\ud800"}, "a": [1, None], 3: "\ud800"})

    assert items["a"] == [1, None]
    assert len(items["n"]) == 5_001
    assert json.dumps([items["half"], items["3"]], ensure_ascii=False).encode()
