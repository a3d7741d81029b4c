"""The tool `search_tools` of a catalogue."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from typing import Any

from functool import Context, FunctionTool, Tool, ToolResult, Toolset
from functool.guardrails.labels import SHOWS_OTHERS, agents

FOUND = "functool.catalog.found"
"""The key in `context.state` under which the found names are stored, in order."""

MAX_SHOWN = 1_048_576
"""How many characters the parameters of several tools may have as JSON. No model reads more."""

TOO_LONG = {
    "type": "object",
    "description": "Too long to show here. Search for this tool alone, with limit=1.",
}


class SearchTool(FunctionTool[..., Any]):
    """A tool that remembers in the context what it has found, whoever answers its calls.

    A journal, a replay or a cache may answer without the body.
    """

    tools: Toolset

    async def on_output(self, result: ToolResult, context: Context[Any]) -> None:
        """Remember the tools in a result. A journal may have kept it in a form of the host's."""
        shown = result.value if isinstance(result.value, list) else []
        listed = [str(entry.get("name")) for entry in shown if isinstance(entry, dict)]
        found = [self.tools[name] for name in listed if name in self.tools]
        names = context.state.setdefault(FOUND, [])
        names += [tool.name for tool in found if tool.name not in names]
        if strangers := [tool.name for tool in found if tool.settings.untrusted]:
            context.notes[SHOWS_OTHERS] = True
            for labels in agents.get():  # An agent may repeat what the search has shown it.
                labels += strangers


def shown(tools: Iterable[Tool], *, with_parameters: bool) -> list[dict[str, Any]]:
    """Return the entries of found tools. Parameters that are too long together are left out.

    Those of the first tool are always shown.
    """
    entries: list[dict[str, Any]] = []
    room = MAX_SHOWN
    for tool in tools:
        entry: dict[str, Any] = {"name": tool.name, "description": tool.description}
        if with_parameters:
            parameters = tool.schema.parameters
            size = len(json.dumps(parameters, default=str))
            fits = size <= room or not entries
            entry["parameters"] = copy.deepcopy(parameters if fits else TOO_LONG)
            room -= size if fits else 0
        entries.append(entry)
    return entries
