"""Prepare images for Unique: data URLs of those that can be shown, text for all others.

Unique opens every image to count its tokens, and sends it to the model. An image that cannot be
opened, or that the model does not accept, would end the whole run.
"""

from __future__ import annotations

from collections.abc import Iterable
from io import BytesIO

from functool import Content, ImageContent, TextContent
from functool.content import data_url, from_data_url

try:
    from PIL import Image
except ImportError as _error:
    raise ImportError(
        "images for Unique need pillow, as unique-toolkit does: pip install 'functool[unique]'"
    ) from _error

FORMATS = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}
"""The formats that models accept, and their media types."""

MOST_SIDE = 8_000
"""The most pixels that a side of an image may have. Providers refuse larger images."""


def split_images(output: Iterable[Content]) -> tuple[list[str], list[Content]]:
    """Return the data URLs of the images that can be shown, and all other content.

    Args:
        output: The content of a result. An image that cannot be shown is returned without its data
            URL, so that its text is short.
    """
    urls: list[str] = []
    rest: list[Content] = []
    for part in output:
        held = with_bytes(part)
        url = shown_url(held.data) if isinstance(held, ImageContent) and held.data else None
        if url is None:
            rest.append(held)
        else:
            urls.append(url)
    return urls, rest


def shown_url(data: bytes) -> str | None:
    """Return the data URL of an image, with the media type found in its bytes.

    Return None for an image that is broken or too large, or whose format models do not accept.
    """
    try:
        with Image.open(BytesIO(data), formats=list(FORMATS)) as image:
            if max(image.size) > MOST_SIDE:  # A small file may hold 700 MB of pixels.
                return None
            image.load()  # Opening reads only the head, so read the rest of the file as well.
            kind = FORMATS[str(image.format)]
    except Exception:  # Pillow raises many kinds of errors for broken files.
        return None
    return data_url(ImageContent(data=data, media_type=kind))


def with_bytes(part: Content) -> Content:
    """Return an image with the bytes of its data URL. Return other content unchanged."""
    uri = part.uri if isinstance(part, ImageContent) and part.data is None else None
    if uri is None or not uri.startswith("data:"):
        return part
    try:
        media_type, data = from_data_url(uri)
    except ValueError:
        return TextContent(text="[image: a data URL that cannot be read]")
    return ImageContent(data=data, media_type=media_type[:100])
