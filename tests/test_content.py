"""Content: where its bytes are, and data URLs in and out."""

import pytest

from functool import FileContent, ImageContent
from functool.content import base64_of, data_url, from_data_url


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
    "url", ["https://example.com/a.png", "data:text/plain,hi", "x;base64,aGk=", "data:a/b;base64,a"]
)
def test_what_is_no_data_url_is_refused(url):
    """Another address, text that is not base64 and broken base64 raise a ValueError."""
    with pytest.raises(ValueError):
        from_data_url(url)
