"""Google's Gemini API, with both of its fields for arguments.

`parameters_json_schema` takes a subset of JSON Schema and silently ignores the rest. `parameters`
is older, and the only field that the Live API has: it takes OpenAPI 3.0 and refuses the rest.
Neither has `strict`; `tool_config` asks for it, for the whole request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from functool import FileContent, ImageContent, Tool, ToolCall, ToolResult
from functool.dialects._generated_chunks import GeneratedChunks, is_cut_off, last_call
from functool.dialects._rules import Rules, split
from functool.dialects._stream import Reader
from functool.dialects._walk import render
from functool.dialects._wire import (
    Deferred,
    Tools,
    argument_losses,
    call,
    cut_off,
    fresh,
    get,
    listed,
    mismatch,
    name_losses,
    request_losses,
    sendable,
    text_of,
    with_deferred,
)

Field = Literal["parameters_json_schema", "parameters"]

JSON_SCHEMA = Rules(
    keywords=split(
        "type format title description enum items prefixItems minItems maxItems minimum maximum "
        "anyOf oneOf properties additionalProperties required propertyOrdering $ref"
    ),
    enums=(str, int, float),
    refs="wrap",
    recursion="optional",
    all_of="none",
)
"""What is understood in `parameters_json_schema`."""

OPENAPI = Rules(
    keywords=split(
        "type nullable enum format items minItems maxItems minimum maximum minLength maxLength "
        "pattern minProperties maxProperties anyOf properties required propertyOrdering default "
        "example title description"
    ),
    formats=split("date-time enum float double int32 int64"),
    enums=(str,),
    refs="inline",
    recursion="cut",
    all_of="none",
    nullable=True,
    typed=True,
    items=True,
    booleans=False,
)
"""What is understood in `parameters`."""

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")
ARGUMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
MAX_TOOLS = 512
_SHOWN = ("image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain")


def definition(tool: Tool, field: Field = "parameters_json_schema") -> dict[str, Any]:
    """Return the tool as a function declaration, its arguments under `field`."""
    return fresh(tool, _BUILDS[field])


def definitions(
    tools: Tools, field: Field = "parameters_json_schema", *, deferred: Deferred = ()
) -> list[dict[str, Any]]:
    """Return the tools as the `function_declarations` of a request's tool."""
    return [definition(tool, field) for tool in with_deferred(tools, deferred)]


def losses(
    *tools: Tool, field: Field = "parameters_json_schema", deferred: Deferred = ()
) -> list[str]:
    """Return every keyword rewritten, and every limit broken, of a request with these tools."""
    return request_losses(tools, deferred, _BUILDS[field], MAX_TOOLS)


def calls(message: Any) -> list[ToolCall]:
    """Return the calls of a `GenerateContentResponse`, of a `Content`, or of their dicts.

    Of a response, the first candidate is read.
    The API may leave the id out: then it is empty.

    Raises:
        TypeError: It is something else.
    """
    candidates = get(message, "candidates")
    content = get(candidates[0], "content") if listed(candidates) and candidates else message
    parts = get(content, "parts") if content is not None else ()
    if parts is None and _may_lack_parts(content):
        parts = ()
    if message is None or parts is None or not listed(parts):
        raise mismatch("a GenerateContentResponse, a Content or their dict", message)
    found = [get(part, "function_call", "functionCall") for part in parts]
    made = [
        call(get(entry, "name"), get(entry, "args"), get(entry, "id"))
        for entry in found
        if entry is not None
    ]
    candidate = message if content is message else candidates[0]
    if is_cut_off(candidate) and last_call(parts) is not None:
        made[-1] = cut_off(made[-1])
    return made


def result(result: ToolResult, *, name: str = "") -> dict[str, Any]:
    """Return the result as a part of the next user content, its bytes as bytes.

    Images, PDF and plain text files are sent as parts, which models since Gemini 3 can read. Audio
    becomes a placeholder.

    Args:
        result: The result of a call.
        name: The name of the function, `call.name`. The API wants it beside the id, and a result
            does not hold it.
    """
    sent = sendable(result, "https", "http", "gs")
    shown = [
        part
        for part in sent
        if isinstance(part, (ImageContent, FileContent)) and part.media_type in _SHOWN
    ]
    texts = [text_of(part) for part in sent if part not in shown]
    response: dict[str, Any] = {
        "response": {"error" if result.is_error else "output": "\n".join(texts)}
    }
    if shown:
        response["parts"] = [_part(part) for part in shown]
    return {
        "function_response": {
            **({"id": result.call_id} if result.call_id else {}),
            **({"name": name} if name else {}),
            **response,
        }
    }


class StreamReader(Reader):
    """Reads the responses of `generate_content_stream`, the first candidate of each.

    Args:
        tools: A tool, some tools or a `Toolset`. With them a call that can no longer become valid
            is refused while it is still being written. `run` needs them.
    """

    def __init__(self, tools: Tools | None = None) -> None:
        super().__init__(GeneratedChunks(), tools)


def _may_lack_parts(message: Any) -> bool:
    """Whether something is an empty response or content, such as a blocked one."""
    if isinstance(message, Mapping):
        known = {"candidates", "promptFeedback", "prompt_feedback", "usageMetadata", "parts"}
        return bool(known & set(message)) or message == {"role": "model"}
    return hasattr(message, "candidates") or hasattr(message, "parts")


def _json_schema(tool: Tool) -> tuple[dict[str, Any], list[str]]:
    schema, lost = render(tool.schema.plain, JSON_SCHEMA)
    return _declaration(tool, "parameters_json_schema", schema, lost)


def _openapi(tool: Tool) -> tuple[dict[str, Any], list[str]]:
    schema, lost = render(tool.schema.plain, OPENAPI)
    return _declaration(tool, "parameters", _shouted(schema), lost)


_BUILDS = {"parameters_json_schema": _json_schema, "parameters": _openapi}


def _declaration(
    tool: Tool, field: Field, schema: dict[str, Any], lost: list[str]
) -> tuple[dict[str, Any], list[str]]:
    description = tool.schema.description
    arguments: dict[str, Any] = {field: schema}
    # The API refuses an OBJECT without properties.
    if field == "parameters" and not schema["properties"]:
        arguments = {}
        description = "\n\n".join(
            text for text in (description, schema.get("description", "")) if text
        )
    about = {"name": tool.name, "description": description, **arguments}
    return about, [*name_losses(tool.name, NAME), *argument_losses(schema, ARGUMENT), *lost]


def _shouted(node: dict[str, Any]) -> dict[str, Any]:
    """Return `node` with its type names in capitals, as `parameters` wants them."""
    out = {**node, **({"type": node["type"].upper()} if "type" in node else {})}
    if "properties" in out:
        out["properties"] = {name: _shouted(child) for name, child in out["properties"].items()}
    if "items" in out:
        out["items"] = _shouted(out["items"])
    if "anyOf" in out:
        out["anyOf"] = [_shouted(child) for child in out["anyOf"]]
    return out


def _part(part: ImageContent | FileContent) -> dict[str, Any]:
    if part.data is None:
        return {"file_data": {"file_uri": part.uri, "mime_type": part.media_type}}
    return {"inline_data": {"data": part.data, "mime_type": part.media_type}}
