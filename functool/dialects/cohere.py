"""Cohere's API, through OpenAI's Chat Completions or its own `tools`.

A request as a whole says whether schemas are enforced (`strict_tools`). If they are, all its tools
together have at most 200 properties, and each tool has at least one required property. Bounds of
numbers, texts and arrays move into the description, and the tool enforces them.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from functool import Tool
from functool.dialects import _compatible
from functool.dialects._rules import Rules, split
from functool.dialects._wire import Deferred, Tools, fresh, with_deferred
from functool.dialects.openai_chat import calls as calls
from functool.dialects.openai_chat import result as result

_RULES = Rules(
    keywords=split(
        "type title description default enum const anyOf properties required "
        "additionalProperties items pattern format $ref"
    ),
    formats=split("date-time date time uuid"),
    all_of="none",
    items=True,
    refs="unions",
)
PROFILE = _compatible.Profile(
    plain=_RULES,
    strict=_RULES,
    says_strict=False,
    max_fields=200,
    one_required=True,
)
_build = partial(_compatible.build, profile=PROFILE)


def definition(tool: Tool) -> dict[str, Any]:
    """Return the tool as an entry of a request's `tools`."""
    return fresh(tool, _build)


def definitions(tools: Tools, *, deferred: Deferred = ()) -> list[dict[str, Any]]:
    """Return the tools as a request's `tools`."""
    return [definition(tool) for tool in with_deferred(tools, deferred)]


def losses(*tools: Tool, deferred: Deferred = ()) -> list[str]:
    """Return every keyword rewritten, and every limit broken, of a request with these tools."""
    return _compatible.losses(tools, deferred, _build, PROFILE)
