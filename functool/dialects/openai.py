"""OpenAI's Responses API.

A strict tool is published in its strict form, any other in its plain form. `strict` is always
sent: without it, the API decides.
"""

from __future__ import annotations

import mimetypes
from typing import Any

from functool import Content, FileContent, ImageContent, Tool, ToolCall, ToolResult, ToolSchema
from functool.dialects import Lost
from functool.dialects._response_events import ResponseEvents
from functool.dialects._rules import Rules, split
from functool.dialects._stream import Reader
from functool.dialects._subset import in_words
from functool.dialects._walk import render
from functool.dialects._wire import (
    IMAGES,
    Deferred,
    Tools,
    call,
    cut_off,
    data_url,
    deferred_names,
    fresh,
    get,
    listed,
    mismatch,
    name_losses,
    over,
    sendable,
    size,
    text_of,
    told,
    twice,
    with_deferred,
    with_search,
)

PLAIN = Rules(items=True)
"""Without strict: anything, but every array needs `items`, and the root holds no combinators."""

MAX_TOOLS = 128

_FILES = split(
    "pdf rtf json json5 x-json5 x-ndjson csv x-iif yaml x-yaml toml x-toml javascript typescript "
    "graphql x-graphql x-awk x-bash x-httpd-php x-httpd-php-source x-patch x-php x-powershell "
    "x-protobuf x-rust x-scala x-sql x-subrip x-terraform msword vnd.ms-excel vnd.ms-powerpoint "
    "vnd.openxmlformats-officedocument.wordprocessingml.document "
    "vnd.openxmlformats-officedocument.spreadsheetml.sheet "
    "vnd.openxmlformats-officedocument.presentationml.presentation "
    "vnd.oasis.opendocument.text vnd.apple.iwork vnd.apple.keynote vnd.apple.pages"
)
"""The files that are read, of the types `application/...`."""

SEARCH = {"type": "tool_search"}
"""The search over deferred tools, which runs at the provider."""


def definition(tool: Tool) -> dict[str, Any]:
    """Return the tool as an entry of a request's `tools`."""
    return fresh(tool, _build)


def definitions(tools: Tools, *, deferred: Deferred = ()) -> list[dict[str, Any]]:
    """Return the tools as a request's `tools`.

    `deferred` are names among the tools, or further tools. The model finds them with the
    provider's own search tool, which is added to the request.

    Raises:
        ValueError: A name is not among the tools.
    """
    entries = [definition(tool) for tool in with_deferred(tools, deferred)]
    return with_search(entries, deferred, SEARCH)


def losses(*tools: Tool, deferred: Deferred = ()) -> list[str]:
    """Return every keyword rewritten, and every limit broken, of a request with these tools."""
    tools = (*with_deferred(tools, deferred),)
    later = deferred_names(deferred)
    loaded = sum(tool.name not in later for tool in tools)
    return [*told(tools, _build), *twice(tools), *over("request: tools", loaded, MAX_TOOLS)]


def calls(message: Any) -> list[ToolCall]:
    """Return the calls of a `Response`, of its dict, or of a list of its output items.

    Raises:
        TypeError: It is something else.
    """
    items = message if isinstance(message, list) else get(message, "output")
    if not listed(items) or not all(isinstance(get(item, "type"), str) for item in items):
        raise mismatch("a Response, its dict or a list of its output items", message)
    found = [item for item in items if get(item, "type") == "function_call"]
    made = [call(get(item, "name"), get(item, "arguments"), get(item, "call_id")) for item in found]
    # Some servers give their items no status.
    ended = [get(item, "status") or get(message, "status") for item in found]
    pairs = zip(made, ended, strict=True)
    return [one if end in ("completed", None) else cut_off(one) for one, end in pairs]


def result(result: ToolResult) -> dict[str, Any]:
    """Return the result as an input item of the next request. A sound becomes a placeholder."""
    parts = [_part(part) for part in sendable(result, "https", "http", "data")]
    output = result.text if all(part["type"] == "input_text" for part in parts) else parts
    return {"type": "function_call_output", "call_id": result.call_id, "output": output}


class StreamReader(Reader):
    """Reads the events of a streamed `Response`.

    Args:
        tools: A tool, some tools or a `Toolset`. With them a call that can no longer become valid
            is refused while it is still being written. `run` needs them.
    """

    def __init__(self, tools: Tools | None = None) -> None:
        super().__init__(ResponseEvents(), tools)


def reads(media_type: str) -> bool:
    """Whether the API reads files of this type."""
    family, _, name = media_type.partition(";")[0].strip().lower().partition("/")
    if family == "application":
        return name in _FILES
    return family == "text" or (family, name) == ("message", "rfc822")


def parameters(tool: Tool) -> tuple[dict[str, Any], list[str]]:
    """Return the schema of the arguments as OpenAI takes it, and what it lost."""
    schema = tool.schema
    if not schema.strict:
        return render(schema.plain, PLAIN)
    left = map(Lost, in_words(schema.parameters))
    return schema.parameters, [*rewritten(schema), *left, *_limits(schema.parameters)]


def rewritten(schema: ToolSchema) -> list[str]:
    """Return where the plain form of a strict tool leaves the strict subset."""
    return [f"{reason} (rewritten in the strict form)" for reason in in_words(schema.plain)]


def _build(tool: Tool) -> tuple[dict[str, Any], list[str]]:
    schema, lost = parameters(tool)
    about = {"name": tool.name, "description": tool.schema.description}
    return {"type": "function", **about, "parameters": schema, "strict": tool.schema.strict}, [
        *name_losses(tool.name),
        *lost,
    ]


def _limits(schema: dict[str, Any]) -> list[str]:
    found = size(schema)
    return [
        *over("#: properties", found.properties, 5_000),
        *over("#: levels of nesting", found.depth, 10),
        *over("#: characters of names, enum and const values", found.characters, 120_000),
        *over("#: enum values", found.enum_values, 1_000),
        *over("#: characters of an enum of more than 250 values", found.longest_enum, 15_000),
    ]


def _part(part: Content) -> dict[str, Any]:
    if isinstance(part, ImageContent) and (part.data is None or part.media_type in IMAGES):
        return {"type": "input_image", "image_url": data_url(part), "detail": "auto"}
    if isinstance(part, FileContent) and part.data is None:
        return {"type": "input_file", "file_url": data_url(part)}
    if isinstance(part, FileContent) and reads(part.media_type):
        name = part.name or f"file{mimetypes.guess_extension(part.media_type) or ''}"
        return {"type": "input_file", "file_data": data_url(part), "filename": name}
    return {"type": "input_text", "text": text_of(part)}
