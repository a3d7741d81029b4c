"""Content: where its bytes are, and data URLs in and out."""

import pytest

from functool import FileContent, ImageContent, TextContent
from functool.content import base64_of, data_url, from_data_url, text_in


def test_a_data_url_holds_media_type_and_bytes():
    """Bytes become a data URL, and come back from it with their media type."""
    url = data_url(FileContent(data=b"\x00hi", media_type="text/plain"))

    assert url == "data:text/plain;base64,AGhp"
    assert from_data_url(url) == ("text/plain", b"\x00hi")


def test_a_part_without_bytes_is_found_at_its_address():
    """A part without bytes has its address, and no base64."""
    assert data_url(ImageContent(uri="https://example.com/a.png")) == "https://example.com/a.png"
    assert data_url(ImageContent()) == ""
    assert base64_of(ImageContent(uri="https://example.com/a.png")) == ""


@pytest.mark.parametrize(
    "url", ["https://example.com/a.png", "data:text/plain,hi", "x;base64,aGk="]
)
def test_what_is_no_data_url_is_refused(url):
    """Another address and text that is not base64 raise a ValueError that says so."""
    with pytest.raises(ValueError, match="^not a base64 data URL$"):
        from_data_url(url)


@pytest.mark.parametrize("body", ["a", "aG!k=", "aGk=;base64,aGk="])
def test_broken_base64_is_refused(body):
    """A character that is none of base64 is an error, and is not left out."""
    with pytest.raises(ValueError):
        from_data_url(f"data:a/b;base64,{body}")


def test_a_text_file_has_a_text():
    """It is read as UTF-8. Other bytes are text only where they may be replaced."""
    latin = FileContent(data=b"caf\xe9", media_type="text/plain")

    assert text_in(TextContent(text="a")) == text_in(FileContent(data=b"a", media_type="text/csv"))
    assert (text_in(latin), text_in(latin, "replace")) == (None, "caf\ufffd")
    assert text_in(ImageContent(data=b"a")) is text_in(FileContent(data=b"a")) is None
