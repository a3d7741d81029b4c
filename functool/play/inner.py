"""Send the calls inside of a call to the page, such as those of a program or an agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import count
from time import perf_counter
from typing import Any

from functool import ToolEvent, ToolResult
from functool.play.shown import cut

MOST = 300
"""How many inner calls of one call reach the page."""

ARGUMENTS = 5_000
RESULT = 10_000
"""How many characters of an inner call's arguments, and of its result, reach the page."""

_within: ContextVar[tuple[int, ...]] = ContextVar("functool_play_within", default=())
"""The numbers of the calls around the running code, the outermost first."""


@dataclass(slots=True)
class _Call:
    call_id: str
    begun: float


class InnerCalls:
    """Make a tree of calls from the events of toolsets.

    A message is sent when a call begins, with the number of the call that made it (0 is the
    outermost), and when it ends. A toolset sends both events in the task that runs the call. So a
    context variable knows the calls around it.
    """

    def __init__(self, send: Callable[[dict[str, Any]], None]) -> None:
        self._send = send
        self._numbers = count()  # The outermost call is number 0.
        self._open: dict[int, _Call] = {}

    def hear(self, event: ToolEvent) -> bool:
        """Send a message if an event begins or ends a call. Return whether it does."""
        if event.kind == "tool:pre":
            self._begin(event)
        elif event.kind in ("tool:post", "tool:error"):
            self._end(event)
        else:
            return False
        return True

    def _begin(self, event: ToolEvent) -> None:
        around = tuple(number for number in _within.get() if number in self._open)
        number = next(self._numbers)
        self._open[number] = _Call(event.call_id, perf_counter())
        _within.set((*around, number))
        if number == 0:
            return
        if number > MOST:
            text = f"after {MOST} inner calls, further ones are not shown"
            if number == MOST + 1:
                self._send({"kind": "event", "event": text, "tool": "", "data": ""})
            return
        given = event.data.get("input")
        self._send(
            {
                "kind": "inner",
                "number": number,
                "parent": max([each for each in around if each <= MOST], default=0),
                "tool": cut(event.tool_name, 200),
                "call_id": cut(event.call_id, 200),
                "did": "runs",
                "arguments": cut(_text(given), ARGUMENTS),
            }
        )

    def _end(self, event: ToolEvent) -> None:
        around = list(_within.get())
        while around:
            number = around.pop()
            found = self._open.get(number)
            if found is not None and found.call_id == event.call_id:
                break
        else:
            return
        del self._open[number]
        _within.set(tuple(around))
        if not 0 < number <= MOST:
            return
        result, error = event.data.get("result"), event.data.get("error")
        text = result.text if isinstance(result, ToolResult) else getattr(error, "message", "")
        self._send(
            {
                "kind": "inner",
                "number": number,
                "did": "done" if error is None else cut(error.type, 200),
                "failed": error is not None,
                "ms": round((perf_counter() - found.begun) * 1_000, 2),
                "text": cut(text, RESULT),
            }
        )


def _text(arguments: Any) -> str:
    given = dict(arguments) if isinstance(arguments, Mapping) else arguments
    return ToolResult.of(given).text
