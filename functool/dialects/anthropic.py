r"""Anthropic's Messages API.

A strict tool may have optional arguments, but no recursion. The strict grammar knows few keywords:
the others move into the description. So does `default`, which the documentation allows and the SDK
takes out. An open object, which is forbidden here, is published as in the tool's strict form; the
tool decodes it. If a strict tool cannot be published as strict, its losses begin with the reason.
"""

from __future__ import annotations

import re
from typing import Any

from functool import Content, FileContent, ImageContent, Tool, ToolCall, ToolResult
from functool.dialects import Lost
from functool.dialects._cycles import cycles
from functool.dialects._message_events import COMPLETE, MessageEvents
from functool.dialects._rules import Rules, split
from functool.dialects._stream import Reader
from functool.dialects._walk import render
from functool.dialects._wire import (
    IMAGES,
    Deferred,
    Size,
    Tools,
    argument_losses,
    base64_of,
    call,
    cut_off,
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
from functool.schema.json_schema import Names

PLAIN = Rules()
"""Without strict: JSON Schema 2020-12, but the root holds no combinators."""

STRICT = Rules(
    keywords=split(
        "type title description properties required additionalProperties items minItems "
        "enum const anyOf allOf $ref format pattern"
    ),
    formats=split("date-time time date duration email hostname uri ipv4 ipv6 uuid"),
    enums=(str, int, float, bool, type(None)),
    refuses=re.compile(r"\(\?[=!<P]|\\[1-9bB]|\{\d{3,}|,\d{3,}\}"),
    at_most={"minItems": 1},
    all_of="no-ref",
    closed=True,
    typed=True,
    booleans=False,
)
"""The grammar of `strict: true`."""

SEARCH = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
"""The search over deferred tools, which runs at the provider."""

MAX_DEFERRED = 10_000
"""How many deferred tools a request may have."""

ARGUMENT = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""The names that an argument may have."""


def definition(tool: Tool) -> dict[str, Any]:
    """Return the tool as an entry of a request's `tools`."""
    return fresh(tool, _build)


def definitions(tools: Tools, *, deferred: Deferred = ()) -> list[dict[str, Any]]:
    """Return the tools as a request's `tools`.

    `deferred` are names among the tools, or further tools. The model finds them with the provider's
    own search tool, which is added to the request.

    Raises:
        ValueError: A name is not among the tools.
    """
    entries = [definition(tool) for tool in with_deferred(tools, deferred)]
    return with_search(entries, deferred, SEARCH)


def losses(*tools: Tool, deferred: Deferred = ()) -> list[str]:
    """Return every keyword rewritten, and every limit broken, of a request with these tools."""
    tools = (*with_deferred(tools, deferred),)
    strict = [size(entry["input_schema"]) for entry in definitions(tools) if entry["strict"]]
    many = over("request: deferred tools", len(deferred_names(deferred)), MAX_DEFERRED)
    return [*told(tools, _build), *twice(tools), *budget(strict), *many]


def calls(message: Any) -> list[ToolCall]:
    """Return the calls of a `Message`, of its dict, or of a list of its content blocks.

    If the message was cut off in a call (`max_tokens`, or `refusal`), the arguments of that call
    are text that a tool refuses. Some of them are missing.

    Raises:
        TypeError: It is something else.
    """
    blocks = message if isinstance(message, list) else get(message, "content")
    ours = isinstance(message, list) or get(message, "role") in (None, "assistant")
    if ours and isinstance(blocks, str) and not hasattr(message, "tool_calls"):
        return []  # A conversation may keep the model's reply as plain text.
    if not (ours and listed(blocks) and all(map(_is_block, blocks))):
        raise mismatch("a Message, its dict or a list of its content blocks", message)
    found = [block for block in blocks if get(block, "type") == "tool_use"]
    made = [call(get(block, "name"), get(block, "input"), get(block, "id")) for block in found]
    if found and found[-1] is blocks[-1] and get(message, "stop_reason") not in COMPLETE:
        made[-1] = cut_off(made[-1])
    return made


def result(result: ToolResult) -> dict[str, Any]:
    """Return the result as a block of the next user message.

    A failure is text only, as the API demands.
    """
    blocks = [_block(part) for part in sendable(result, "https")]
    plain = result.is_error or all(block["type"] == "text" for block in blocks)
    content = result.text if plain else blocks
    return {
        "type": "tool_result",
        "tool_use_id": result.call_id,
        "content": content,
        "is_error": result.is_error,
    }


class StreamReader(Reader):
    """Reads the events of a streamed `Message`, raw ones or those of the SDK's helper.

    Args:
        tools: A tool, some tools or a `Toolset`. With them a call that can no longer become valid
            is refused while it is still being written. `run` needs them.
    """

    def __init__(self, tools: Tools | None = None) -> None:
        super().__init__(MessageEvents(), tools)


def strict_schema(tool: Tool, grammar: Rules) -> tuple[dict[str, Any], list[str], bool]:
    """Return the schema of the arguments, its losses, and whether it is strict.

    A recursive schema is never strict.
    """
    schema = tool.schema
    if not schema.strict:
        return *render(schema.plain, PLAIN), False
    recursive = cycles(Names(schema.plain))
    if recursive:
        what = ", ".join("the whole" if name == "#" else name for name in recursive)
        plain, lost = render(schema.plain, PLAIN)
        reason = Lost(f"strict is false: {what} is recursive, and a strict schema may not be")
        return plain, [reason, *lost], False
    # The strict form has one more property: it holds the arguments beyond those with names.
    rest = [
        name
        for name in schema.parameters.get("properties", {})
        if name not in schema.plain.get("properties", {})
    ]
    return *render(schema.plain, grammar, rest[0] if rest else ""), True


def budget(strict: list[Size]) -> list[str]:
    """Return the limits that the strict tools of one request break."""
    return [
        *over("request: strict tools", len(strict), 20),
        *over(
            "request: optional arguments of strict tools",
            sum(schema.optional for schema in strict),
            24,
        ),
        *over(
            "request: arguments of strict tools with a union type",
            sum(schema.unions for schema in strict),
            16,
        ),
    ]


def _build(tool: Tool) -> tuple[dict[str, Any], list[str]]:
    schema, lost, strict = strict_schema(tool, STRICT)
    about = {"name": tool.name, "description": tool.schema.description}
    names = [*name_losses(tool.name), *argument_losses(schema, ARGUMENT)]
    # The first loss may be the reason why `strict` is false: it stays first.
    losses = [*lost[:1], *names, *lost[1:]]
    return {**about, "input_schema": schema, "strict": strict}, losses


def _is_block(block: Any) -> bool:
    kind = get(block, "type")
    return isinstance(kind, str) and kind not in ("message", "function_call", "reasoning")


def _block(part: Content) -> dict[str, Any]:
    if isinstance(part, ImageContent) and part.data is None:
        return {"type": "image", "source": {"type": "url", "url": part.uri}}
    if isinstance(part, ImageContent) and part.media_type in IMAGES:
        return {
            "type": "image",
            "source": {"type": "base64", "media_type": part.media_type, "data": base64_of(part)},
        }
    if isinstance(part, FileContent) and (source := _source(part)) is not None:
        title = {"title": part.name} if part.name else {}
        return {"type": "document", "source": source, **title}
    return {"type": "text", "text": text_of(part)}


def _source(part: FileContent) -> dict[str, Any] | None:
    """Return where a document is, or None if the API does not read it. Of links it reads PDF."""
    if part.media_type == "application/pdf":
        if part.data is None:
            return {"type": "url", "url": part.uri}
        return {"type": "base64", "media_type": part.media_type, "data": base64_of(part)}
    if part.media_type == "text/plain" and part.data is not None:
        text = part.data.decode(errors="replace")
        return {"type": "text", "media_type": "text/plain", "data": text}
    return None
