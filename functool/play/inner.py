"""The calls inside of a call, such as those of a program or an agent, told while they happen."""

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
"""The calls around what runs here, the outermost first."""


@dataclass(slots=True)
class _Call:
    call_id: str
    begun: float


class InnerCalls:
    """Tells a tree of calls from the events of toolsets.

    A call is told when it begins, with the number of the call that made it (0 is the outermost),
    and again when it ends. A toolset announces both in the task that runs the call, so what is
    around a call is known there.
    """

    def __init__(self, tell: Callable[[dict[str, Any]], None]) -> None:
        self._tell = tell
        self._numbers = count()  # The outermost call is number 0.
        self._open: dict[int, _Call] = {}

    def hear(self, event: ToolEvent) -> bool:
        """Tell an event that begins or ends a call; return whether it is one."""
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
                self._tell({"kind": "event", "event": text, "tool": "", "data": ""})
            return
        given = event.data.get("input")
        self._tell(
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
        self._tell(
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
