"""Report the progress of a call to Unique, whose page shows it beside the call."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from unique_toolkit.agentic.tools.tool_progress_reporter import ProgressState
from unique_toolkit.language_model.schemas import LanguageModelFunction

from functool import Tool, ToolEvent, ToolResult
from functool.integrations.values import outgoing

_log = logging.getLogger("functool")


class Progress:
    """Passes the progress of one call to their reporter. `end` reports how the call ended."""

    def __init__(self, native: Any, tool: Tool, tool_call: LanguageModelFunction) -> None:
        self._data_of = outgoing(tool)
        self._reporter = native.functool_reporter
        self._name = native.display_name()
        self._tool_call = tool_call
        self._last: str | None = None

    async def __call__(self, event: ToolEvent) -> None:
        """Report a progress event. Other events are not for the reporter."""
        if event.kind == "tool:progress" and self._reporter is not None:
            self._last = _text_of(self._data_of(event))
            await self._notify(self._last, ProgressState.RUNNING)

    async def end(self, result: ToolResult) -> None:
        """Report how the call ended, if it has reported any progress."""
        if self._last is None:
            return
        state, text = (
            (ProgressState.FAILED, result.text)
            if result.is_error
            else (ProgressState.FINISHED, self._last)
        )
        try:
            await self._notify(text, state)
        except Exception:
            _log.warning("the progress reporter of %s failed", self._name, exc_info=True)

    async def _notify(self, message: str, state: ProgressState) -> None:
        await self._reporter.notify_from_tool_call(
            tool_call=self._tool_call, name=self._name, message=message, state=state
        )


def _text_of(data: Mapping[str, Any]) -> str:
    text = str(data.get("message") or "")
    if "value" in data:
        text = ToolResult.of(data["value"]).text
    done, total = data.get("done"), data.get("total")
    if done is None:
        return text
    return f"{text} ({done:g})".strip() if total is None else f"{text} ({done:g}/{total:g})".strip()
