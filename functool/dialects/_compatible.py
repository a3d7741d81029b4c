"""Servers that speak OpenAI's Chat Completions, each with limits of its own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from functool import Tool
from functool.dialects import Lost
from functool.dialects._rules import Rules
from functool.dialects._walk import render
from functool.dialects._wire import Build, name_losses, over, size, told, twice
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
    function = {"name": tool.name, "description": schema.description, "parameters": made}
    said = {"strict": schema.strict} if profile.says_strict else {}
    return {"type": "function", "function": {**function, **said}}, [*name_losses(tool.name), *lost]


def losses(
    tools: Iterable[Tool], how: Build, made: list[dict[str, Any]], profile: Profile
) -> list[str]:
    """Return what the definitions `made` of a request's tools lost, and the limits they break."""
    tools = list(tools)
    fields = sum(size(entry["function"]["parameters"]).properties for entry in made)
    most = fields if profile.max_fields is None else profile.max_fields
    return [
        *told(tools, how),
        *twice(tools),
        *over("request: tools", len(tools), MAX_TOOLS),
        *over("request: properties of all tools", fields, most),
    ]
