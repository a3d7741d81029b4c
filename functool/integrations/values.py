"""Convert content and values, for all bridges."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

from functool import (
    AudioContent,
    Content,
    FileContent,
    GuardrailError,
    ImageContent,
    TextContent,
    Tool,
    ToolCall,
    ToolEvent,
    ToolResult,
    WrapperTool,
)
from functool.call import to_json
from functool.content import from_data_url
from functool.dialects._wire import with_true_type
from functool.dialects.mcp import shows_another
from functool.dialects.openai import reads
from functool.guardrails.labels import result_labels

_KINDS = ("png", "jpeg", "jpg", "gif", "webp", "heic", "heif")
PICTURES = frozenset(f"image/{kind}" for kind in _KINDS)
"""The types of images that at least one provider takes."""

_FOLLOWED = ("https", "http", "data", "s3", "gs")
"""The schemes of the links that at least one provider follows."""


def levels(tool: Tool) -> Iterator[Tool]:
    """Yield a tool, and the tools that it wraps."""
    yield tool
    while isinstance(tool, WrapperTool):
        tool = tool.tool
        yield tool


def reached(tool: Tool, call: ToolCall) -> Iterator[tuple[Tool, ToolCall]]:
    """Yield a tool and its call, and those that it leads to, as `call_tool` of a catalogue does.

    Raises:
        ToolError: The call does not lead to another tool as it should.
    """
    yield tool, call
    for level in levels(tool):
        find = getattr(level, "reached", None)
        if find is not None:
            yield from reached(*find(replace(call, arguments=tool.bind(call.arguments).arguments)))


def outgoing(tool: Tool) -> Callable[[ToolEvent], Mapping[str, Any]]:
    """Return a function from a report of progress to what of its data may leave the process.

    It is for one call of a tool. A value that a generator yields may become the result, and no
    output guardrail has seen it. So it is left out if the tool has output guardrails, or if another
    tool inside of it yielded it. With output guardrails, the message of an untrusted tool is left
    out too, because its author is somebody else, and that of another tool inside of it, because
    that one may be untrusted.
    """
    names = {level.name for level in levels(tool)}
    is_guarded = bool(tool.all_output_guardrails())
    is_trusted = not any(level.settings.untrusted for level in levels(tool))

    def data_of(event: ToolEvent) -> Mapping[str, Any]:
        is_own = event.tool_name in names
        hidden = {"value"} if is_guarded or not is_own else set[str]()
        if is_guarded and not (is_own and is_trusted):
            hidden.add("message")
        return {name: part for name, part in event.data.items() if name not in hidden}

    return data_of


def output_schema(tool: Tool) -> dict[str, Any] | None:
    """Return a copy of the tool's output schema, or None if what is sent may not fit it."""
    return None if shows_another(tool) else deepcopy(tool.schema.output)


def json_or_text(value: Any) -> str:
    """Return a string unchanged, and any other value as JSON."""
    return value if isinstance(value, str) else to_json(value)


def json_value(text: str) -> Any:
    """Return the value of a JSON text. Python also reads NaN and infinity, which JSON lacks.

    Raises:
        ValueError: It is not JSON, or nested too deeply.
    """
    try:
        found = json.loads(text)
        json.dumps(found, allow_nan=False)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return found


def json_items(items: Mapping[Any, Any]) -> dict[str, Any]:
    """Return a mapping as JSON data. A value that JSON cannot express becomes its text.

    Each value is converted alone, so that one does not affect the others.
    """
    found = {}
    for key, value in items.items():
        text = to_json(value)
        try:
            found[str(key)] = json.loads(text)
        except ValueError:  # For example, an integer may have too many digits.
            found[str(key)] = text
    return found


def text_of(part: Content) -> str:
    """Return a part as text. An image, sound or file becomes a placeholder that names it."""
    return ToolResult(output=[part]).text


def shown(result: ToolResult) -> list[Content]:
    """Return the content of a result for a framework, which sends it to any provider.

    An image or a file that no provider takes, media without bytes, and a link that no provider can
    follow, such as `file:` of an MCP server, become text. A text becomes valid UTF-8, and blank
    texts are left out. Providers refuse the others, and a framework would end the run. The links of
    an untrusted tool become text as well: they may lead anywhere, and some frameworks follow them.
    """
    failure = [] if result.error is None else [TextContent(text=result.error.message)]
    schemes = () if result_labels(result) else _FOLLOWED
    parts = [_takeable(with_true_type(part), schemes) for part in [*failure, *result.output]]
    return [part for part in parts if not isinstance(part, TextContent) or part.text.strip()]


def _takeable(part: Content, schemes: Collection[str]) -> Content:
    if isinstance(part, TextContent):
        is_taken = False
    elif part.data is None:
        is_taken = (part.uri or "").partition(":")[0].lower() in schemes
    else:
        is_taken = part.data != b"" and _is_read(part)
    return part if is_taken else TextContent(text=text_of(part))


def _is_read(part: ImageContent | AudioContent | FileContent) -> bool:
    """Whether at least one provider reads what has this type."""
    family = part.media_type.partition("/")[0].lower()
    if isinstance(part, AudioContent) or family in ("audio", "video"):
        return True
    return part.media_type in PICTURES or (isinstance(part, FileContent) and reads(part.media_type))


def texts_only(output: Iterable[Content]) -> bool:
    """Whether all content is text."""
    return all(isinstance(part, TextContent) for part in output)


def opened(url: str) -> dict[str, Any]:
    """Return the fields of a content for a URL: `data` and `media_type` of a data URL, or `uri`."""
    try:
        media_type, data = from_data_url(url)
    except ValueError:
        return {"uri": url}
    return {"data": data, "media_type": media_type}


def bytes_of(text: str) -> bytes:
    """Return the bytes that a base64 text encodes.

    Raises:
        ValueError: The text is not base64.
    """
    return base64.b64decode(text, validate=True)


def media(media_type: str, *, data: bytes | None = None, uri: str | None = None) -> Content:
    """Return an image, a sound or a file, as the media type says."""
    family = media_type.partition("/")[0]
    kind: Any = {"image": ImageContent, "audio": AudioContent}.get(family, FileContent)
    part: Content = kind(data=data, media_type=media_type, uri=uri)
    return part


def unreadable(text: str, most: int) -> str:
    """Return why a person cannot be shown all arguments of a call, or an empty text if they can.

    A part that is cut off could be the one that matters, so a person has to see all of them.
    """
    if len(text) <= most:
        return ""
    size = f"the arguments are {len(text):,} characters long"
    return f"{size}, and a person is shown at most {most:,}"


def check_readable(text: str, most: int) -> None:
    """Refuse a call if a person could not be shown all of its arguments.

    Raises:
        GuardrailError: The text has more than `most` characters.
    """
    if why := unreadable(text, most):
        raise GuardrailError(f"The call was refused. Nobody was asked: {why}.")


def exit_refused() -> ToolResult:
    """Return the result of a body that raised SystemExit, where others need the program."""
    return ToolResult.failed("The tool tried to end the program.", type="SystemExit")
