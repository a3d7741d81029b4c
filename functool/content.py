"""The kinds of content that a model can read: text, images, audio and files."""

import base64
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(slots=True, kw_only=True)
class TextContent:
    """A piece of text."""

    text: str


@dataclass(slots=True, kw_only=True)
class ImageContent:
    """An image: its bytes, or a `uri` where it can be found.

    `media_type` is an IANA media type such as `image/png`.
    """

    data: bytes | None = None
    media_type: str = "image/png"
    uri: str | None = None


@dataclass(slots=True, kw_only=True)
class AudioContent:
    """A sound: its bytes, or a `uri` where it can be found."""

    data: bytes | None = None
    media_type: str = "audio/wav"
    uri: str | None = None


@dataclass(slots=True, kw_only=True)
class FileContent:
    """A file: its bytes, or a `uri` where it can be found, and its `name` when it has one."""

    data: bytes | None = None
    media_type: str = "application/octet-stream"
    uri: str | None = None
    name: str | None = None


Content: TypeAlias = TextContent | ImageContent | AudioContent | FileContent

CONTENT_TYPES = (TextContent, ImageContent, AudioContent, FileContent)
"""The members of `Content`, for `isinstance`."""

_TEXT = re.compile(r"(text/[^;]+|application/json)(;\s*charset=\"?utf-8\"?)?", re.IGNORECASE)


def text_in(part: Content, errors: str = "strict") -> str | None:
    """Return the text of a text part, or of a text file; None for any other part.

    Many clients show a text file as text. Its bytes are read as UTF-8, by the rule of
    `bytes.decode` that `errors` names. With "strict", other bytes are no text.
    """
    if isinstance(part, TextContent):
        return part.text
    if isinstance(part, FileContent) and part.data is not None and _TEXT.fullmatch(part.media_type):
        with suppress(UnicodeDecodeError):
            return part.data.decode(errors=errors)
    return None


def base64_of(part: ImageContent | AudioContent | FileContent) -> str:
    """Return the bytes of a part as base64, or an empty text if it has none."""
    return base64.b64encode(part.data or b"").decode()


def data_url(part: ImageContent | AudioContent | FileContent) -> str:
    """Return a URL for a part: a data URL with its bytes, or its `uri` if it has no bytes."""
    if part.data is None:
        return part.uri or ""
    return f"data:{part.media_type};base64,{base64_of(part)}"


def from_data_url(url: str) -> tuple[str, bytes]:
    """Return the media type and the bytes of a base64 data URL.

    Raises:
        ValueError: The text is not a base64 data URL, or its base64 is invalid.
    """
    head, found, body = url.partition(";base64,")
    if not found or not head.startswith("data:"):
        raise ValueError("not a base64 data URL")
    return head.removeprefix("data:"), base64.b64decode(body, validate=True)
