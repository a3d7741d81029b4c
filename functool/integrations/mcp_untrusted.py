"""What an MCP server says, as untrusted data: definitions that are pinned and cleaned, answers that are checked."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import unicodedata
from collections.abc import Container
from typing import Any

import mcp_types as types

from functool import (
    AudioContent,
    Content,
    FileContent,
    ImageContent,
    SchemaTool,
    TextContent,
    Tool,
    ToolCall,
    ToolResult,
    ToolSettings,
)

MAX_NAME = 64
INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Cn", "Co", "Cs"})
ANNOTATIONS = frozenset({"title", "description", "$comment"})
VALUES = frozenset({"default", "const", "enum", "examples"})
UNKNOWN_TYPE = "application/octet-stream"


def pin(definition: types.Tool) -> str:
    """Return the SHA-256 (hex) of all that a definition tells a model or promises."""
    told = definition.model_dump(
        mode="json", by_alias=True, exclude_none=True, exclude={"meta", "icons"}
    )
    return hashlib.sha256(
        json.dumps(told, sort_keys=True, separators=(",", ":")).encode()
    ).hexdigest()


def local_name(wanted: str, taken: Container[str]) -> str:
    """Return a name that every model accepts: `wanted`, if it is one and free."""
    name = re.sub(r"^(?![A-Za-z_])|[^A-Za-z0-9_-]", "_", wanted)
    if name == wanted and len(name) <= MAX_NAME and name not in taken:
        return name
    # A hash of the name as the server gives it: what a tool is called does not depend on the order
    # of a listing.
    mark = hashlib.sha256(wanted.encode(errors="replace")).hexdigest()
    name = name[: MAX_NAME - 9] + "_" + mark[:8]
    return name if name not in taken else mark


def visible(text: str) -> str:
    """Return `text` without the characters that a person does not see and a model reads."""
    return "".join(char for char in text if not _is_hidden(char))


def cleaned(schema: Any) -> Any:
    """Return a schema whose texts hold no hidden characters; values that a call has to repeat stay as they are."""
    if isinstance(schema, list):
        return [cleaned(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {}
    for key, value in schema.items():
        is_text = key in ANNOTATIONS and isinstance(value, str)
        result[key] = visible(value) if is_text else value if key in VALUES else cleaned(value)
    return result


def has_hidden(schema: Any) -> bool:
    """Whether a schema holds hidden characters, in its names and values too."""
    if isinstance(schema, str):
        return any(map(_is_hidden, schema))
    if isinstance(schema, dict):
        return any(has_hidden(key) or has_hidden(value) for key, value in schema.items())
    return isinstance(schema, list) and any(map(has_hidden, schema))


def hints(definition: types.Tool) -> ToolSettings:
    """Return what a trusted server says of how a tool behaves."""
    said = definition.annotations or types.ToolAnnotations()
    return ToolSettings(
        display_name=visible(definition.title or said.title or ""),
        read_only=said.read_only_hint,
        destructive=said.destructive_hint,
        idempotent=said.idempotent_hint,
    )


def answer_check(schema: dict[str, Any] | None) -> Tool | None:
    """Return a tool that takes an answer where others take arguments: its front door fears no hostile schema.

    Raises:
        DefinitionError: The schema is none.
    """
    if schema is None:
        return None
    # An identifier of its own keeps the references that start at its root, such as
    # `#/properties/name`.
    parameters = {
        "type": "object",
        "properties": {"answer": {"$id": "urn:answer", **schema}},
        "required": ["answer"],
    }
    return SchemaTool("answer", "", parameters, lambda arguments: None)


async def result(answer: types.CallToolResult, check: Tool | None) -> ToolResult:
    """Return a server's answer as a result; its value is the structured content, or the text where there is none."""
    output = [content(block) for block in answer.content]
    texts = [part.text for part in output if isinstance(part, TextContent)]
    metadata = {"mcp": answer.meta} if answer.meta else {}
    if answer.is_error:
        others: list[Content] = [part for part in output if not isinstance(part, TextContent)]
        details = (
            None if answer.structured_content is None else {"structured": answer.structured_content}
        )
        text = "\n".join(texts) or "The tool failed and did not say why."
        return ToolResult.failed(text, details=details, output=others, metadata=metadata)
    value = answer.structured_content
    if check is None and "structured_content" not in answer.model_fields_set:
        value = texts[0] if len(texts) == len(output) == 1 else output or None
    elif check is not None:
        checked = await check.invoke(ToolCall(name=check.name, arguments={"answer": value}))
        if checked.is_error:
            text = "The server's structured answer does not fit the schema it promised."
            return ToolResult.failed(text, output=output, metadata=metadata)
    return ToolResult(output=output, value=value, metadata=metadata)


def content(block: types.ContentBlock) -> Content:
    """Return a block of MCP content as functool's.

    Raises:
        ValueError: Its base64 is not valid.
    """
    match block:
        case types.TextContent():
            return TextContent(text=block.text)
        case types.ImageContent():
            return ImageContent(data=_bytes(block.data), media_type=block.mime_type)
        case types.AudioContent():
            return AudioContent(data=_bytes(block.data), media_type=block.mime_type)
        case types.ResourceLink():
            return FileContent(
                uri=block.uri, media_type=block.mime_type or UNKNOWN_TYPE, name=block.name
            )
    resource = block.resource
    if isinstance(resource, types.TextResourceContents):
        data, media_type = (
            resource.text.encode(errors="replace"),
            resource.mime_type or "text/plain",
        )
    else:
        data, media_type = _bytes(resource.blob), resource.mime_type or UNKNOWN_TYPE
    return FileContent(data=data, uri=resource.uri, media_type=media_type)


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _is_hidden(char: str) -> bool:
    if char.isascii():
        return not (char.isprintable() or char in "\n\t")
    # Variation selectors can carry a whole text; the one that asks for the coloured form of an
    # emoji is left.
    selector = "\ufe00" <= char <= "\ufe0e" or "\U000e0100" <= char <= "\U000e01ef"
    return selector or char in INVISIBLE or unicodedata.category(char) in INVISIBLE_CATEGORIES
