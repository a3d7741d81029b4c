"""Groq's API, which speaks OpenAI's Chat Completions.

A strict tool is published in its strict form. References inside of unions are replaced by their
definitions.
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

PROFILE = _compatible.Profile(
    plain=Rules(items=True, refs="unions"),
    strict=Rules(
        keywords=split(
            "type title description enum const anyOf properties required additionalProperties "
            "items minItems maxItems minimum maximum exclusiveMinimum exclusiveMaximum multipleOf "
            "pattern format $ref"
        ),
        all_of="none",
        closed=True,
        items=True,
        refs="unions",
    ),
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
