"""Treat what an MCP server sends as untrusted: pin its definitions, and check its answers."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Container
from typing import Any, NamedTuple

import mcp_types as types
from mcp_types import methods
from pydantic import ValidationError

from functool import (
    ArgumentError,
    AudioContent,
    Content,
    FileContent,
    ImageContent,
    SchemaTool,
    TextContent,
    ToolResult,
    ToolSettings,
)
from functool.binding.foreign import SchemaBinder
from functool.executors import in_thread
from functool.integrations.mcp_sizes import has_long_list
from functool.integrations.visible import is_visible, visible
from functool.large import LARGE, in_thread_if
from functool.schema.json_schema import DEFINITIONS, MANY, NAMED, ONE, walk
from functool.schema.rewrite import is_finite

MAX_NAME = 64  # Characters of a local name. Models accept no longer one.
MAX_TOOLS = 5_000
"""How many tools of one server are taken: each costs the event loop some time."""

MAX_DEFINITION = 1_048_576
"""Characters of one definition. No model accepts a larger one."""

ANNOTATIONS = frozenset({"title", "description", "$comment"})
"""Keywords whose texts are for readers only, so they may be cleaned."""

VALUES = frozenset({"default", "const", "enum", "examples"})
"""Keywords whose values a call has to repeat, so they stay unchanged."""

TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
TEXTS = frozenset({"$ref", "$dynamicRef", "description", "title", "pattern", "format"})
COUNTED = ("Length", "Items", "Properties")
NUMBERS = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
    | {most + counted for counted in COUNTED for most in ("min", "max")}
)
MANY_NAMED = frozenset({*NAMED, *DEFINITIONS})

UNKNOWN_TYPE = "application/octet-stream"
WRAPS = "functool/wraps"
"""In the `_meta` of a definition. It says that `result` in the structured content is the value."""

UNUSABLE = "functool/unusable"
"""In the `_meta` of a definition that `listing` has put in place of an invalid one."""


def pin(definition: types.Tool) -> str:
    """Return the SHA-256 (hex) of what a definition says to a model or promises."""
    fields = definition.model_dump(
        mode="json", by_alias=True, exclude_none=True, exclude={"meta", "icons"}
    )
    return hashlib.sha256(
        json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
    ).hexdigest()


def size_of(definition: types.Tool) -> int:
    """Return how many characters of JSON a definition has."""
    return len(definition.model_dump_json(exclude_none=True))


def local_name(wanted: str, taken: Container[str]) -> str:
    """Return a name that every model accepts. It is `wanted` if that is valid and not taken."""
    name = re.sub(r"^(?![A-Za-z_])|[^A-Za-z0-9_-]", "_", wanted)
    if name == wanted and len(name) <= MAX_NAME and name not in taken:
        return name
    # The hash is of the server's own name, so the result does not depend on the order of a
    # listing.
    mark = hashlib.sha256(wanted.encode(errors="replace")).hexdigest()
    stem, name = name[: MAX_NAME - 9], f"{name[: MAX_NAME - 9]}_{mark[:8]}"
    while name in taken:  # A server can offer a tool whose own name is the one with the hash.
        mark = hashlib.sha256(mark.encode()).hexdigest()
        name = f"{stem}_{mark[:8]}"
    return name


def cleaned(schema: Any) -> Any:
    """Return a schema whose texts have no hidden characters.

    Values that a call has to repeat stay unchanged. A keyword without a value is left out: some
    servers write an empty list as null.
    """
    if isinstance(schema, list):
        return [cleaned(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {}
    for key, value in schema.items():
        if value is None and key not in ("default", "const"):
            continue
        if key in ANNOTATIONS and isinstance(value, str):
            result[key] = visible(value)
        else:
            result[key] = value if key in VALUES else cleaned(value)
    return result


def wrong_keyword(schema: Any) -> str:
    """Return the first keyword of a schema with a value that JSON Schema does not allow, or "".

    A provider would refuse all tools of a request together with this one.
    """
    parts = (pair for node in walk(schema) for pair in node.items())
    return next((keyword for keyword, value in parts if not _is_allowed(keyword, value)), "")


def _is_allowed(keyword: str, value: Any) -> bool:
    if keyword in TEXTS:
        return isinstance(value, str)
    if keyword in NUMBERS:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if keyword in ONE:
        return isinstance(value, (dict, bool))
    if keyword in MANY_NAMED:
        return isinstance(value, dict) and all(isinstance(v, (dict, bool)) for v in value.values())
    if keyword in MANY:
        return isinstance(value, list) and all(isinstance(part, (dict, bool)) for part in value)
    if keyword == "required":
        return isinstance(value, list) and all(isinstance(name, str) for name in value)
    if keyword == "type":
        kinds = value if isinstance(value, list) else [value]
        return all(isinstance(kind, str) and kind in TYPES for kind in kinds)
    return keyword != "enum" or isinstance(value, list)


def has_hidden(schema: Any) -> bool:
    """Whether a schema has hidden characters, also in its names and values."""
    if isinstance(schema, str):
        return not is_visible(schema)
    if isinstance(schema, dict):
        return any(has_hidden(key) or has_hidden(value) for key, value in schema.items())
    return isinstance(schema, list) and any(map(has_hidden, schema))


def hints(definition: types.Tool) -> ToolSettings:
    """Return a trusted server's hints about a tool as settings."""
    given = definition.annotations or types.ToolAnnotations()
    return ToolSettings(
        display_name=visible(definition.title or given.title or ""),
        icon=definition.icons[0].src if definition.icons else "",
        read_only=given.read_only_hint,
        destructive=given.destructive_hint,
        idempotent=given.idempotent_hint,
    )


def listing(result: Any, version: str) -> Any:
    """Return the answer to `tools/list` in a form that is valid in this revision.

    One invalid definition would make the SDK refuse all of them. It is replaced by one that
    `unusable` recognises. Any other answer stays unchanged.
    """
    if not version or not isinstance(result.get("tools"), list) or "content" in result:
        return result

    def fits(tools: list[Any]) -> bool:
        if any(map(has_long_list, tools)):
            return False
        try:
            methods.parse_server_result("tools/list", version, {**result, "tools": tools})
        except (ValidationError, ValueError, KeyError, RecursionError):
            return False
        return True

    # Checking all of a very long list would take seconds. One more tool than `MAX_TOOLS` is enough
    # to see later that there are too many.
    result = {**result, "tools": result["tools"][: MAX_TOOLS + 1]}
    if fits(result["tools"]) or not fits([]):
        return result
    kept = []
    for entry in result["tools"]:
        if fits([entry]):
            kept.append(entry)
        elif isinstance(entry, dict) and isinstance(entry.get("name"), str):
            mark = {"name": entry["name"], "inputSchema": {"type": "object"}}
            kept.append({**mark, "_meta": {UNUSABLE: True}})
    return {**result, "tools": kept}


def unusable(definition: types.Tool) -> str:
    """Return why a definition cannot be used, or an empty text if it can."""
    if size_of(definition) > MAX_DEFINITION:
        return "The server's definition of this tool is larger than 1 MiB; it is refused."
    try:  # A model's provider would refuse all tools together with this one.
        json.dumps([definition.input_schema, definition.output_schema], allow_nan=False)
    except ValueError:
        return "The server's definition of this tool has a number such as NaN; it is refused."
    if not (definition.meta or {}).get(UNUSABLE):
        return ""
    return "The server's definition of this tool does not follow the protocol; it is refused."


def output_of(definition: types.Tool) -> dict[str, Any] | None:
    """Return the schema of a tool's value, unwrapped if functool's server has wrapped it."""
    schema = definition.output_schema
    if schema is None or not _is_wrapped(definition):
        return schema
    inner = schema["properties"]["result"]
    return {**inner, "$defs": schema["$defs"]} if "$defs" in schema else inner


class Check(NamedTuple):
    """How to check a structured answer."""

    problems: Callable[[Any], list[dict[str, Any]]]
    """Returns why an answer does not fit its schema. It checks hostile schemas safely."""
    is_wrapped: bool


def answer_check(definition: types.Tool) -> Check | None:
    """Return the check of a tool's answers, or None if the server promises no schema.

    Raises:
        DefinitionError: The schema is not valid.
    """
    schema = cleaned(definition.output_schema)
    return None if schema is None else Check(answer_problems(schema), _is_wrapped(definition))


def answer_problems(schema: dict[str, Any]) -> Callable[[Any], list[dict[str, Any]]]:
    """Return a function that returns why an answer does not fit a schema, or an empty list.

    It raises an `ArgumentError` if that takes too much work to check. It copies no answer, because
    a large one takes a hundred megabytes.

    Raises:
        DefinitionError: The schema is not valid.
    """
    # With an `$id` of its own, references from the root of the schema, such as
    # `#/properties/name`, keep their meaning.
    part = {"answer": {"$id": "urn:answer", **schema}}
    parameters = {"type": "object", "properties": part, "required": ["answer"]}
    binder = SchemaTool("answer", "", parameters, dict[str, Any].copy).binding
    assert isinstance(binder, SchemaBinder)
    return lambda answer: binder.problems({"answer": answer})


async def result(answer: types.CallToolResult, check: Check | None) -> ToolResult:
    """Return a server's answer as a result.

    Its value is the structured content, or the text if there is none.
    """
    output = [content(block) for block in answer.content]
    texts = [part.text for part in output if isinstance(part, TextContent)]
    metadata = {"mcp": answer.meta} if answer.meta else {}
    value = answer.structured_content
    if answer.is_error:
        others: list[Content] = [part for part in output if not isinstance(part, TextContent)]
        details = None if value is None else {"structured": value}
        text = "\n".join(texts) if output or value is None else (await _written(value)).text
        # In a thread if it is long, because that takes a second.
        text = await in_thread_if(len(text) >= LARGE, visible, text)
        text = text or "The tool failed and did not say why."
        return ToolResult.failed(text, details=details, output=others, metadata=metadata)
    if check is not None:
        if fault := await _fault_of(value, check):
            return ToolResult.failed(fault, output=output, metadata=metadata)
        value = value["result"] if check.is_wrapped else value
    elif "structured_content" not in answer.model_fields_set:
        value = texts[0] if len(texts) == len(output) == 1 else output or None
    if not output and value is not None:
        output = (await _written(value)).output
    return ToolResult(output=output, value=value, metadata=metadata)


async def _written(value: Any) -> ToolResult:
    """Return structured content as a model reads it, for an answer without other content."""
    return await in_thread(ToolResult.of, value)


async def _fault_of(value: Any, check: Check) -> str:
    """Return why a structured answer is refused, or an empty text if it fits its schema."""
    try:
        # In a thread, because a large answer takes half a second.
        if await in_thread(lambda: is_finite(value) and not check.problems(value)):
            return ""
        wrong = "does not fit"
    except ArgumentError:
        wrong = "takes too much work to check against"
    return f"The server's structured answer {wrong} the schema it promised."


def content(block: types.ContentBlock) -> Content:
    """Convert a block of MCP content.

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


def _is_wrapped(definition: types.Tool) -> bool:
    """Whether the server says that `result` is the value, and the schema has that form."""
    schema = definition.output_schema or {}
    properties = schema.get("properties")
    return (
        (definition.meta or {}).get(WRAPS) is True
        and isinstance(properties, dict)
        and isinstance(properties.get("result"), dict)
        and schema.get("required") == ["result"]
        and all(
            str(node.get(keyword, "#/$defs/")).startswith("#/$defs/")
            for node in walk(schema)
            for keyword in ("$ref", "$dynamicRef")
        )
    )


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
