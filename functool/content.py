"""What a model can read: text, images, audio and files."""

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
