"""Servers that speak OpenAI's Chat Completions, each with limits of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from functool import Tool
from functool.dialects import Lost
from functool.dialects._rules import Rules
from functool.dialects._walk import render
from functool.dialects._wire import (
    Build,
    Deferred,
    Tools,
    fresh,
    function_entry,
    name_losses,
    over,
    request_losses,
    size,
    with_deferred,
)
from functool.dialects.openai import MAX_TOOLS, rewritten


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What a server takes, where it differs from OpenAI.

    `plain` and `strict` are its rules for ordinary and for strict tools; the latter are applied to
    a tool's strict form. `says_strict` tells whether a definition says `strict`. `max_fields`
    bounds the properties of a whole request, and `one_required` asks for one in each tool.
    """

    plain: Rules
    strict: Rules
    says_strict: bool = True
    max_fields: int | None = None
    one_required: bool = False


def build(tool: Tool, profile: Profile) -> tuple[dict[str, Any], list[str]]:
    """Return the definition of a tool, and what it lost."""
    schema = tool.schema
    made, lost = render(schema.plain, profile.plain)
    if schema.strict:
        made, lost = render(schema.parameters, profile.strict)
        lost = [*rewritten(schema), *lost]
    if profile.one_required and not made.get("required"):
        lost = [Lost("#: no argument is required, and the provider wants one at least"), *lost]
    said = {"strict": schema.strict} if profile.says_strict else {}
    return function_entry(tool, made, **said), [*name_losses(tool.name), *lost]


def losses(tools: Tools, deferred: Deferred, how: Build, profile: Profile) -> list[str]:
    """Return the losses of a request with these tools, whose definitions `how` makes."""
    found = request_losses(tools, deferred, how, MAX_TOOLS)
    if profile.max_fields is None:
        return found
    made = [fresh(tool, how)["function"]["parameters"] for tool in with_deferred(tools, deferred)]
    fields = sum(size(parameters).properties for parameters in made)
    return [*found, *over("request: properties of all tools", fields, profile.max_fields)]
