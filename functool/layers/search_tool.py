"""The tool `search_tools` of a catalogue."""

from __future__ import annotations

from typing import Any

from functool import Context, FunctionTool, ToolResult, Toolset
from functool.guardrails.sources import SHOWS_OTHERS, agents

FOUND = "functool.catalog.found"
"""The key in `context.state` under which the found names are stored, in order."""


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
