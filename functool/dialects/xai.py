r"""xAI's API, where every function call has to match the schema.

xAI closes an object that does not say `additionalProperties`, so every object says it. A pattern
has to match the whole text, and has no back-references, look-around, `\b` or `\p`. What goes beyond
the guaranteed bounds is moved into the description.
"""

from __future__ import annotations

import re
from typing import Any

from functool import Tool, ToolCall
from functool.dialects import openai
from functool.dialects._grok_chunks import GrokChunks
from functool.dialects._rules import Rules, split
from functool.dialects._stream import Reader
from functool.dialects._walk import render
from functool.dialects._wire import (
    Deferred,
    Tools,
    fresh,
    function_calls,
    function_entry,
    get,
    is_chat,
    listed,
    mismatch,
    name_losses,
    request_losses,
    with_deferred,
)
from functool.dialects.openai_chat import result as result

RULES = Rules(
    keywords=split(
        "type title description default examples properties required additionalProperties items "
        "prefixItems minItems maxItems uniqueItems minLength maxLength pattern format minimum "
        "maximum exclusiveMinimum exclusiveMaximum multipleOf minProperties maxProperties "
        "enum const anyOf oneOf allOf $ref"
    ),
    formats=split("date time date-time email uuid ipv4 ipv6 uri"),
    enums=(str, int, float, bool, type(None)),
    refuses=re.compile(r"\(\?[=!<]|\\[1-9bBpP]|\(\?P="),
    at_most={
        **dict.fromkeys(("minLength", "maxLength"), 2_048),
        **dict.fromkeys(("minItems", "maxItems"), 256),
        **dict.fromkeys(("minProperties", "maxProperties"), 64),
    },
    recursion="cut",
    all_of="one",
    anchored=True,
    explicit=True,
    booleans=False,
)

MAX_TOOLS = 128

_OURS = (None, "function", 0, 1, "TOOL_CALL_TYPE_CLIENT_SIDE_TOOL")
"""The types of calls that the host runs; the messages of the SDK number them."""


def definition(tool: Tool) -> dict[str, Any]:
    """Return the tool as an entry of a request's `tools`.

    `xai_sdk.chat.tool` takes its `function`.
    """
    return fresh(tool, _build)


def definitions(tools: Tools, *, deferred: Deferred = ()) -> list[dict[str, Any]]:
    """Return the tools as a request's `tools`."""
    return [definition(tool) for tool in with_deferred(tools, deferred)]


def losses(*tools: Tool, deferred: Deferred = ()) -> list[str]:
    """Return every keyword rewritten, and every limit broken, of a request with these tools."""
    return request_losses(tools, deferred, _build, MAX_TOOLS)


def calls(message: Any) -> list[ToolCall]:
    """Return the calls of the SDK's `Response` or its message, or of OpenAI's objects, or dicts.

    Those of tools that run at the provider are left out.

    Raises:
        TypeError: It is something else.
    """
    ours = listed(get(message, "outputs")) or hasattr(message, "tool_calls")
    if not (ours or listed(get(message, "output")) or is_chat(message)):
        raise mismatch("a Response of xai_sdk, its message, a ChatCompletion or a dict", message)
    items = [item for item in get(message, "output") or () if get(item, "type") == "function_call"]
    answers = [
        function_calls(get(answer, "message"), _OURS) for answer in get(message, "outputs") or ()
    ]
    found = function_calls(message, _OURS) or [one for answer in answers for one in answer]
    return found or openai.calls(items)


class StreamReader(Reader):
    """Reads the chunks of `chat.stream()`, or what an SDK of OpenAI streams from xAI.

    Args:
        tools: A tool, some tools or a `Toolset`. With them a call that can no longer become valid
            is refused while it is still being written. `run` needs them.
    """

    def __init__(self, tools: Tools | None = None) -> None:
        super().__init__(GrokChunks(_OURS), tools)


def _build(tool: Tool) -> tuple[dict[str, Any], list[str]]:
    schema, lost = render(tool.schema.plain, RULES)
    return function_entry(tool, schema), [*name_losses(tool.name), *lost]
