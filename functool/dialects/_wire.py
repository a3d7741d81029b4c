"""What all dialects share: cached definitions, checks of names and sizes, reading of messages."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

from pydantic_core import from_json, to_json

from functool import (
    Content,
    DefinitionError,
    ImageContent,
    TextContent,
    Tool,
    ToolCall,
    ToolResult,
    ToolSchema,
    Toolset,
)
from functool.content import base64_of as base64_of
from functool.content import data_url as data_url
from functool.content import text_in as text_in
from functool.dialects import Lost, placed
from functool.guardrails.labels import result_labels
from functool.schema.json_schema import children, lookup, walk

Tools = Tool | Iterable[Tool] | Toolset
"""Some tools: a tool, an iterable of tools, or a `Toolset`."""

Deferred = Collection[str | Tool] | Toolset
"""Tools that a model is told of once it has searched: names, or further tools."""

Build = Callable[[Tool], tuple[dict[str, Any], list[str]]]
"""Makes the definition of a tool, and says what it lost."""

_FOREIGN = ("tool_use", "server_tool_use", "tool_result", "redacted_thinking", "output_text")
"""Parts of a message that no chat completion has: they are Anthropic's and OpenAI's Responses'."""

_kept: WeakKeyDictionary[Tool, dict[Build, tuple[ToolSchema, bytes, tuple[str, ...]]]] = (
    WeakKeyDictionary()
)

COMPLETE = ("stop", "tool_calls", "function_call")
"""Why a chat completion may end so that its last call is whole. At any other end it was cut off."""

MAX_STEPS = 100_000
"""How many steps measuring the depth of a schema may take."""

PLAIN_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""The names that most providers take."""

_STARTS = {
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/gif": re.compile(rb"GIF8[79]a"),
    "image/webp": re.compile(rb"RIFF.{4}WEBP", re.DOTALL),
}
"""How the bytes of images begin."""

IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""The images that most models can see."""


def some(tools: Tools) -> list[Tool]:
    """Return some tools as a list.

    Raises:
        TypeError: It holds something that is no tool.
    """
    if isinstance(tools, Tool):
        return [tools]
    if isinstance(tools, str) or not isinstance(tools, Iterable):
        raise mismatch("a tool, an iterable of tools or a Toolset", tools)
    found: list[Any] = list(tools.values() if isinstance(tools, Mapping) else tools)
    for tool in found:
        if not isinstance(tool, Tool):  # As in `losses(toolset)` or `losses(*toolset)`.
            raise mismatch("a tool here (those of a Toolset are *tools.values())", tool)
    return found


def with_deferred(tools: Tools, deferred: Deferred) -> list[Tool]:
    """Return some tools, followed by the deferred ones that are not among them.

    Raises:
        ValueError: A name is not among the tools.
    """
    found = some(tools)
    given = deferred.values() if isinstance(deferred, Mapping) else deferred
    more = [item for item in given if isinstance(item, Tool) and item not in found]
    unknown = {item for item in given if isinstance(item, str)} - {tool.name for tool in found}
    if unknown:
        raise ValueError(f"deferred names tools that are not there: {', '.join(sorted(unknown))}")
    return [*found, *more]


def deferred_names(deferred: Deferred) -> set[str]:
    """Return the names of deferred tools."""
    return {item.name if isinstance(item, Tool) else item for item in deferred}


def undeferred(deferred: Deferred) -> list[Lost]:
    """Return the loss for a provider that has no deferred loading."""
    count = len(deferred_names(deferred))
    note = f"request: no deferred loading here, so {count:,} deferred tools are sent whole"
    return [Lost(note)] if count else []


def with_search(
    entries: list[dict[str, Any]], deferred: Deferred, search: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Mark the definitions of deferred tools, and put the provider's search tool before them."""
    names = deferred_names(deferred)
    for entry in entries:
        if entry["name"] in names:
            entry["defer_loading"] = True
    return [*([dict(search)] if names else []), *entries]


def fresh(tool: Tool, build: Build) -> dict[str, Any]:
    """Return the definition of `tool`, a new one each time.

    Raises:
        TypeError: It is no tool.
        DefinitionError: The schema of the tool cannot be rendered.
    """
    if not isinstance(tool, Tool):
        raise mismatch("a tool", tool)
    found: dict[str, Any] = from_json(_text(tool, build)[1])
    return found


def told(tools: Iterable[Tool], build: Build) -> list[str]:
    """Return the losses of the definitions of `tools`, each with the name of its tool in front."""
    return [placed(tool.name, loss) for tool in tools for loss in _text(tool, build)[2]]


def request_losses(
    tools: Tools, deferred: Deferred, build: Build, most: int | None = None
) -> list[str]:
    """Return the losses of a request to a provider that has no deferred loading.

    `most` is how many tools the provider takes in one request; None is no limit.
    """
    tools = with_deferred(tools, deferred)
    many = [] if most is None else over("request: tools", len(tools), most)
    return [*undeferred(deferred), *told(tools, build), *twice(tools), *many]


def function_entry(tool: Tool, parameters: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return the definition of a tool in the form of Chat Completions."""
    about = {"name": tool.name, "description": tool.schema.description}
    return {"type": "function", "function": {**about, "parameters": parameters, **more}}


def _text(tool: Tool, build: Build) -> tuple[ToolSchema, bytes, tuple[str, ...]]:
    """Return the definition of a tool and its losses, from the last time if nothing has changed.

    Raises:
        DefinitionError: The schema of the tool cannot be rendered.
    """
    schema = tool.schema
    try:
        kept = _kept.setdefault(tool, {})
    except TypeError:  # a tool that cannot be hashed, such as a dataclass, is rendered anew
        kept = {}
    try:
        found = kept.get(build)
        if found is None or found[0] != schema:
            definition, losses = build(tool)
            kept[build] = found = (schema, to_json(definition), tuple(losses))
            from_json(found[1])  # Each definition is read from it, which has a limit of depth.
        return found
    except RecursionError:
        why = "its parts are nested too deeply, or a chain of references is too long"
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        why = f"it is nested too deeply or is no valid JSON Schema ({error})"
    kept.pop(build, None)
    raise DefinitionError(f"{tool.name} cannot be written for a provider: {why}")


def name_losses(name: str, pattern: re.Pattern[str] = PLAIN_NAME) -> list[str]:
    """Return why a provider refuses the name of a tool, with the remedy."""
    if pattern.fullmatch(name):
        return []
    better = re.sub(r"[^a-zA-Z0-9_-]", "_", name).lstrip("-0123456789")[:64] or "tool"
    remedy = f"WrapperTool(tool, name={better!r}) renames the tool"
    return [Lost(f"name {name!r} does not fit {pattern.pattern}: {remedy}")]


def argument_losses(schema: Mapping[str, Any], pattern: re.Pattern[str]) -> list[str]:
    """Return the arguments whose names a provider refuses."""
    names = [name for name in schema.get("properties", {}) if not pattern.fullmatch(name)]
    reason = f"the name of the argument does not fit {pattern.pattern}"
    return [Lost(f"#/properties/{name}: {reason}") for name in names]


def twice(tools: Iterable[Tool]) -> list[str]:
    """Return the names that two tools of one request share."""
    names = Counter(tool.name for tool in tools)
    return [
        Lost(f"request: {count} tools are named {name!r}")
        for name, count in names.items()
        if count > 1
    ]


def over(what: str, count: int, limit: int) -> list[str]:
    """Return the loss of a limit that is broken."""
    return [Lost(f"{what}: {count:,}, and the limit is {limit:,}")] if count > limit else []


@dataclass(slots=True, kw_only=True)
class Size:
    """How large a schema is.

    `depth` counts objects and arrays inside each other. `characters` are those of names and of enum
    values. `longest_enum` is the number of characters of one enum of more than 250 values.
    """

    properties: int = 0
    optional: int = 0
    unions: int = 0
    depth: int = 0
    characters: int = 0
    enum_values: int = 0
    longest_enum: int = 0


def size(schema: Mapping[str, Any]) -> Size:
    """Measure a schema. Each definition counts once; `depth` follows each reference once."""
    found = Size()
    found.characters = sum(map(len, schema.get("$defs", {})))
    for node in walk(schema):
        _measure(node, found)
    found.depth = _depth(schema)
    return found


def _measure(node: Mapping[str, Any], found: Size) -> None:
    properties = _mapping(node.get("properties"))
    required = {*map(str, _list(node.get("required")))}
    found.properties += len(properties)
    found.optional += sum(str(name) not in required for name in properties)
    found.unions += "anyOf" in node or isinstance(node.get("type"), list)
    choices = _list(node.get("enum"))
    values = [*choices, *([node["const"]] if "const" in node else ())]
    texts = [len(value) if isinstance(value, str) else len(str(value)) for value in values]
    found.enum_values += len(choices)
    found.characters += sum(len(str(name)) for name in properties) + sum(texts)
    if len(values) > 250:  # OpenAI limits the characters of an enum only if it is this long.
        found.longest_enum = max(found.longest_enum, sum(texts))


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else ()


def _mapping(value: Any) -> Mapping[Any, Any]:
    return value if isinstance(value, Mapping) else {}


def _depth(root: Any) -> int:
    """Return how many objects and arrays lie inside each other, as far as `MAX_STEPS` show it.

    A reference is followed once on each way down, and there may be very many ways.
    """
    deepest, steps = 0, 0
    targets: dict[str, Any] = {}
    followed: set[str] = set()
    todo: list[tuple[Any, int, str]] = [(root, 0, "")]
    while todo and (steps := steps + 1) <= MAX_STEPS:
        node, depth, left = todo.pop()
        followed.discard(left)
        if not isinstance(node, dict):
            continue
        if isinstance(ref := node.get("$ref"), str) and ref not in followed:
            if ref not in targets:
                targets[ref] = lookup(root, ref)
            followed.add(ref)
            todo += [(None, 0, ref), (targets[ref], depth, "")]
            continue
        depth += "properties" in node or "items" in node
        deepest = max(deepest, depth)
        todo += [(child, depth, "") for _, child in children(node)]
    return deepest


def get(node: Any, *names: str) -> Any:
    """Return the first value under `names` in an SDK's object or its dict; None without one."""
    for name in names:
        value = node.get(name) if isinstance(node, Mapping) else getattr(node, name, None)
        if value is not None:
            return value
    return None


class Mismatch(TypeError):
    """Input that a dialect does not read."""


def mismatch(expected: str, given: Any) -> Mismatch:
    """Return the error for input that a dialect does not read. It never repeats a value."""
    kind = type(given).__name__
    if isinstance(given, Mapping):
        kind = f"a {kind} with the keys {', '.join(map(str, list(given)[:6]))}"
    elif isinstance(getattr(given, "type", None), str):
        kind = f"{kind} of type {given.type[:60]!r}"
    return Mismatch(f"expected {expected}, not {kind}")


def listed(value: Any) -> bool:
    """Whether a value is a list. Some SDKs have list types of their own."""
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def call(name: Any, arguments: Any, id: Any) -> ToolCall:
    """Return a call as a provider sent it. A missing part is empty."""
    return ToolCall(name=name or "", arguments={} if arguments is None else arguments, id=id or "")


def cut_off(call: ToolCall) -> ToolCall:
    """Return a call in which the reply reached its limit, with arguments that a tool refuses.

    What came of the arguments looks whole, and would run without the rest. So they become JSON text
    that ends in a name. Text of the model's own stays, but no text would mean no arguments.
    """
    sent = call.arguments
    if isinstance(sent, str) and sent.strip():
        return call
    if not sent or not isinstance(sent, Mapping):
        return replace(call, arguments='{"')
    begun = json.dumps(dict(sent)).removesuffix("}")  # It takes half of a character, too.
    return replace(call, arguments=f'{begun}, "')


def is_chat(message: Any) -> bool:
    """Whether something is a chat completion, its message, or the dict of one."""
    choices = get(message, "choices")
    if listed(choices):
        return all(is_chat(get(choice, "message")) for choice in choices)
    calls, content = get(message, "tool_calls", "toolCalls"), get(message, "content")
    if isinstance(message, str) or get(message, "type") == "message":
        return False  # The latter is Anthropic's.
    if get(message, "role") not in (None, "assistant"):
        return False
    if content is None and calls is None:
        return get(message, "role") == "assistant" and get(message, "parts") is None
    parts: Any = content if listed(content) else []
    ours = all(isinstance(kind := get(p, "type"), str) and kind not in _FOREIGN for p in parts)
    return (
        ours and isinstance(content, (str, list, type(None))) and (calls is None or listed(calls))
    )


def function_calls(message: Any, kinds: Collection[Any] = (None, "function")) -> list[ToolCall]:
    """Return the calls of these types that a chat completion holds, or its message, or their dicts.

    Of a completion, the first choice is read.
    """
    choices = get(message, "choices")
    reason = get(choices[0], "finish_reason", "finishReason") if choices else None
    message = get(choices[0], "message") if choices else message
    entries = [
        entry
        for entry in get(message, "tool_calls", "toolCalls") or ()
        if get(entry, "type") in kinds
    ]
    found = [(entry, get(entry, "function")) for entry in entries]
    calls = [
        call(get(f, "name"), get(f, "arguments"), get(entry, "id"))
        for entry, f in found
        if f is not None
    ]
    if calls and reason and reason not in COMPLETE:  # Some servers send "" for none.
        calls[-1] = cut_off(calls[-1])
    return calls


def contents(result: ToolResult) -> list[Content]:
    """Return what a model reads of a result.

    Blank texts are left out, and an image without bytes is named: providers refuse both.
    """
    failure = [] if result.error is None else [TextContent(text=result.error.message)]
    parts: list[Content] = [*failure, *map(_named_if_empty, map(with_true_type, result.output))]
    return [part for part in parts if not isinstance(part, TextContent) or part.text.strip()]


def _named_if_empty(part: Content) -> Content:
    is_empty = isinstance(part, ImageContent) and part.data == b""
    return TextContent(text=text_of(part)) if is_empty else part


def with_true_type(part: Content) -> Content:
    """Return an image with the type that its bytes show; any other part unchanged.

    Providers refuse an image of another type than it says. An author may have left the type out,
    and many servers say PNG of every image.
    """
    if not isinstance(part, ImageContent) or not part.data:
        return part
    kinds = (kind for kind, start in _STARTS.items() if start.match(part.data))
    return replace(part, media_type=next(kinds, part.media_type))


def sendable(result: ToolResult, *schemes: str) -> list[Content]:
    """Return what a model reads of a result, for a provider that reads URLs of these schemes.

    Other links, such as `file:` of an MCP server, and files without bytes are named: the provider
    would refuse them, and with them every later request of the conversation. So are the links of an
    untrusted tool: they may lead anywhere, also nowhere.
    """
    parts = contents(result)
    schemes = () if result_labels(result) else schemes
    return [part if _is_there(part, schemes) else TextContent(text=text_of(part)) for part in parts]


def _is_there(part: Content, schemes: Collection[str]) -> bool:
    if isinstance(part, TextContent):
        return True
    if part.data is not None:
        return part.data != b""
    return (part.uri or "").partition(":")[0].lower() in schemes


def text_of(part: Content) -> str:
    """Return a part as text; another part becomes a placeholder that names its type and place."""
    return ToolResult(output=[part]).text
