"""The client that the official conformance suite watches: functool's `connect`, calling every tool that it is shown."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from functool import Tool, ToolCall, Toolset
from functool.integrations import mcp

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.integrations import mcp_oauth  # noqa: E402

SAMPLES = {"string": "text", "integer": 5, "number": 5, "boolean": True, "array": [], "object": {}}


def arguments_for(tool: Tool) -> dict[str, Any]:
    """Return arguments that fit a tool: of each parameter its default, its first choice, or a sample of its type."""
    found = {}
    for name, part in tool.schema.plain.get("properties", {}).items():
        kind = part.get("type", "string")
        found[name] = part.get("default", part.get("enum", [SAMPLES.get(kind, "text")])[0])
    return found


def elicit(message: str, form: dict[str, Any]) -> dict[str, Any]:
    """Answer a form with its defaults."""
    parts = form.get("properties", {})
    return {
        name: part.get("default", SAMPLES.get(part.get("type"), "text"))
        for name, part in parts.items()
    }


def calls(toolset: Toolset) -> list[ToolCall]:
    """Return the calls that the scenario names, or one of every tool."""
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    if "json_schema_echo" in toolset:
        schema = toolset["json_schema_2020_12_tool"].schema.plain
        return [ToolCall(name="json_schema_echo", arguments={"schema": schema})]
    if "toolCalls" in context:
        return [
            ToolCall(name=call["name"], arguments=call.get("arguments", {}))
            for call in context["toolCalls"]
        ]
    return [ToolCall(name=tool.name, arguments=arguments_for(tool)) for tool in toolset.values()]


async def main() -> None:
    mode = (
        "auto" if os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION") == "2026-07-28" else "legacy"
    )
    auth = None
    if os.environ.get("MCP_CONFORMANCE_SCENARIO", "").startswith("auth/"):
        context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
        auth = mcp_oauth.provider(sys.argv[-1], context)
        # Many clients sign in at once, which can take longer than the search for a revision waits.
        mode = "2026-07-28" if mode == "auto" else mode
    async with mcp.connect(sys.argv[-1], elicit=elicit, mode=mode, auth=auth) as toolset:
        for call in calls(toolset):
            print(call, (await toolset.call(call)).text, file=sys.stderr)


asyncio.run(main())
