"""What every bridge does alike: it turns content and values into other forms."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import Any

from functool import (
    AudioContent,
    Content,
    FileContent,
    ImageContent,
    TextContent,
    Tool,
    ToolResult,
    WrapperTool,
)
from functool.call import to_json
from functool.content import from_data_url


def levels(tool: Tool) -> Iterator[Tool]:
    """Yield a tool, and the tools that it wraps."""
    yield tool
    while isinstance(tool, WrapperTool):
        tool = tool.tool
        yield tool


def output_schema(tool: Tool) -> dict[str, Any] | None:
    """Return a copy of the schema of what `tool` returns, where its results keep to it.

    An output guardrail with `shows = True` shows the model something else.
    """
    shown = [guardrail for level in levels(tool) for guardrail in level.output_guardrails]
    if any(getattr(guardrail, "shows", False) for guardrail in shown):
        return None
    return deepcopy(tool.schema.output)


def json_or_text(value: Any) -> str:
    """Return a text as it is, and any other value as JSON."""
    return value if isinstance(value, str) else to_json(value)


def text_of(part: Content) -> str:
    """Return a part as text; a part that is none becomes a placeholder of its type and place."""
    return ToolResult(output=[part]).text


def texts_only(output: Iterable[Content]) -> bool:
    """Whether all content is text."""
    return all(isinstance(part, TextContent) for part in output)


def opened(url: str) -> dict[str, Any]:
    """Return the bytes and the media type of a data URL, or the URL itself: fields of a content."""
    try:
        media_type, data = from_data_url(url)
    except ValueError:
        return {"uri": url}
    return {"data": data, "media_type": media_type}


def bytes_of(text: str) -> bytes:
    """Return the bytes that base64 text stands for.

    Raises:
        ValueError: It is no base64.
    """
    return base64.b64decode(text, validate=True)


def media(media_type: str, *, data: bytes | None = None, uri: str | None = None) -> Content:
    """Return the content that a media type asks for: an image, a sound, or a file."""
    family = media_type.partition("/")[0]
    kind: Any = {"image": ImageContent, "audio": AudioContent}.get(family, FileContent)
    part: Content = kind(data=data, media_type=media_type, uri=uri)
    return part
