"""Run one call, and send each of its steps to the page while it happens."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable
from functools import wraps
from time import perf_counter
from typing import Any

from functool import (
    ArgumentError,
    Context,
    GuardrailError,
    Tool,
    ToolCall,
    ToolEvent,
    ToolResult,
    Toolset,
    Tripwire,
    WrapperTool,
)
from functool.guardrails.asking import name_of
from functool.integrations.values import exit_refused
from functool.play.inner import InnerCalls
from functool.play.shown import cut, shown_result

Send = Callable[[dict[str, Any]], None]


async def run_call(tool: Tool, text: str, call_id: str, context: Context[Any], send: Send) -> None:
    """Run one call with the arguments in `text`, and send its steps, events and result.

    A step is `{"kind": "step", "step", "name", "did", "ms"}`. It is sent when it begins
    (`did` is "started") and when it ends.
    """
    begun = perf_counter()
    _bind(tool, text, send)
    call = ToolCall(name=tool.name, arguments=text, id=call_id)
    view = context.heard_by(_listener(send))
    try:
        result = await Toolset([with_steps(tool, send)]).call(call, view)
    except Tripwire as stop:
        result = ToolResult.failed(f"The run was stopped: {stop}", type=type(stop).__name__)
    _step(send, "output", "", "failed" if result.is_error else "done")
    send({"kind": "result", "ms": _since(begun), **shown_result(result)})


def with_steps(tool: Tool, send: Send) -> Tool:
    """Return a copy of a tool that sends what its guardrails and its body do."""

    async def body(call: ToolCall, context: Context[Any], proceed: Any) -> ToolResult:
        begun = perf_counter()
        _step(send, "body", call.name, "started")
        did = "failed"
        try:
            result: ToolResult = await proceed()
            did = "failed" if result.is_error else "done"
            return result
        except SystemExit:  # A body that exits must not end the page.
            return exit_refused()
        finally:
            _step(send, "body", call.name, did, begun)

    return _probed(tool.around(body), send)


def _probed(tool: Tool, send: Send) -> Tool:
    tool.input_guardrails[:] = [_probe(each, "input", send) for each in tool.input_guardrails]
    tool.output_guardrails[:] = [_probe(each, "output", send) for each in tool.output_guardrails]
    if isinstance(tool, WrapperTool):
        _probed(tool.tool, send)
    return tool


def _probe(guardrail: Any, stage: str, send: Send) -> Any:
    """Return a guardrail that does the same, and sends what it did."""
    name, step = name_of(guardrail), f"{stage} guardrail"

    async def later(answer: Awaitable[Any], value: Any, begun: float) -> Any:
        try:
            return finished(await answer, value, begun)
        except BaseException as error:  # However it ends, the page shows it.
            failed(error, begun)
            raise

    def finished(answer: Any, value: Any, begun: float) -> Any:
        did = "passed" if answer is None or answer is value else "replaced"
        _step(send, step, name, did, begun)
        return answer

    def failed(error: BaseException, begun: float) -> None:
        refused = isinstance(error, GuardrailError)
        _step(send, step, name, "refused" if refused else "failed", begun)

    def probe(value: Any, context: Context[Any]) -> Any:
        begun = perf_counter()
        _step(send, step, name, "started")
        try:
            answer = guardrail(value, context)
        except BaseException as error:  # However it ends, the page shows it.
            failed(error, begun)
            raise
        if inspect.isawaitable(answer):
            return later(answer, value, begun)
        return finished(answer, value, begun)

    return wraps(guardrail)(probe)


def _bind(tool: Tool, text: str, send: Send) -> None:
    """Send whether the arguments decode and validate, which are the first steps of a call."""
    begun = perf_counter()
    try:
        tool.bind(text)
    except ArgumentError as error:
        if _is_object(text):
            _step(send, "decode", "", "done", begun)
            _step(send, "validate", "", "refused", begun)
        else:
            _step(send, "decode", "", "refused", begun)
        send({"kind": "problems", "problems": [_problem(each) for each in error.problems[:50]]})
    except Exception:  # A bad schema of others can break the check. The call then says why.
        _step(send, "validate", "", "failed", begun)
    else:
        _step(send, "decode", "", "done", begun)
        _step(send, "validate", "", "done", begun)


def _is_object(text: str) -> bool:
    try:
        return not text.strip() or isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _problem(problem: Any) -> dict[str, Any]:
    choices = [cut(str(each), 200) for each in list(problem.get("choices") or ())[:50]]
    path, expected = str(problem.get("path", "")), str(problem.get("expected", ""))
    return {"path": cut(path, 500), "expected": cut(expected, 500), "choices": choices}


def _listener(send: Send) -> Callable[[ToolEvent], None]:
    calls = InnerCalls(send)

    def listen(event: ToolEvent) -> None:
        if calls.hear(event):
            return
        if event.kind == "tool:progress":
            shown = event.data.get("message") or event.data.get("value")
            send(
                {
                    "kind": "progress",
                    "tool": cut(event.tool_name, 200),
                    "message": cut(ToolResult.of(shown).text, 2_000),
                    "done": _number(event.data.get("done")),
                    "total": _number(event.data.get("total")),
                }
            )
        else:
            send(
                {
                    "kind": "event",
                    "event": cut(event.kind, 200),
                    "tool": cut(event.tool_name, 200),
                    "call_id": cut(event.call_id, 200),
                    "data": cut(ToolResult.of(dict(event.data)).text, 2_000),
                }
            )

    return listen


def _number(value: Any) -> float | None:
    """Return a number that JSON can write, or None."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if abs(number) < 1e300 else None


def _step(send: Send, step: str, name: str, did: str, begun: float | None = None) -> None:
    ms = None if begun is None else _since(begun)
    send({"kind": "step", "step": step, "name": cut(name, 200), "did": did, "ms": ms})


def _since(begun: float) -> float:
    return round((perf_counter() - begun) * 1_000, 2)
