"""Guardrails that check calls: `block`, `rate_limit`, `budget` and `max_repeats`."""

from __future__ import annotations

import json
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeAlias
from uuid import uuid4

from functool.call import ToolCall, to_json
from functool.context import Context
from functool.errors import DefinitionError, GuardrailError
from functool.guardrails.asking import InputGuardrail, arguments_of, leaves
from functool.guardrails.text import compiled_patterns
from functool.json_values import paused_gc

Per: TypeAlias = Literal["tool", "context"]


def block(patterns: Iterable[str | re.Pattern[str]], argument: str | None = None) -> InputGuardrail:
    """Return a guardrail that refuses a call if its arguments match a pattern at any depth.

    With `argument` it checks only that argument. Use it to guide a model, not as a security
    boundary: a call that no pattern foresees gets through.
    """
    compiled = compiled_patterns(patterns)

    def look_at(values: Any) -> None:
        for _, item in leaves(values):
            is_plain = type(item) in (str, int)  # A list may hold half a million.
            texts = [str(item)] if is_plain else [str(item), to_json(item)]
            if any(pattern.search(text) for text in texts for pattern in compiled):
                what = f"argument {argument!r}" if argument else "call"
                raise GuardrailError(f"Blocked: the {what} matches a blocked pattern.")

    def block(call: ToolCall, context: Context[Any]) -> None:
        arguments = arguments_of(call, context, [] if argument is None else [argument])
        paused_gc(look_at, arguments if argument is None else [*arguments.values()])

    block.takes_long = True  # type: ignore[attr-defined]
    return block


def rate_limit(calls: int, per_seconds: float, per: Per = "tool") -> InputGuardrail:
    """Return a guardrail that limits how many calls of a tool run within some seconds.

    Args:
        calls: How many calls may run within `per_seconds`.
        per_seconds: The length of the time window, in seconds.
        per: `"tool"` counts all calls of a tool in this process; `"context"` counts the calls of a
            tool in each context. If a host makes a new context for each call, use `"tool"`.

    Raises:
        DefinitionError: `calls` is not a positive int, `per_seconds` is not a positive number, or
            `per` has another value.
    """
    if not (_is_count(calls) and _is_positive(per_seconds)):
        wanted = "a positive int and a positive number of seconds"
        raise DefinitionError(f"rate_limit needs {wanted}, not {calls!r} and {per_seconds!r}")

    def rate_limit(counts: dict[str, Any], tool: str, arguments: Any) -> None:
        now = time.monotonic()
        times: deque[float] = counts.setdefault(tool, deque())
        while times and times[0] <= now - per_seconds:
            times.popleft()
        if len(times) >= calls:
            why = f"Too many calls: at most {calls} in {per_seconds:g} seconds."
            raise GuardrailError(f"{why} Try again in {times[0] + per_seconds - now:.1f} seconds.")
        times.append(now)

    return _counting(rate_limit, per)


def budget(
    calls: int | None = None, seconds: float | None = None, per: Per = "context"
) -> InputGuardrail:
    """Return a guardrail that refuses every call once a budget is used up.

    Attach the same guardrail to several tools to give them one budget. It counts the calls that it
    lets through. Put it last, so that a call costs nothing if another guardrail refuses it, or if
    it waits for a person.

    Args:
        calls: How many calls the budget allows.
        seconds: How many seconds after the first call the budget lasts.
        per: `"context"` has one budget in each context for all tools together; `"tool"` has one
            budget for each tool in this process. If a host makes a new context for each call, use
            `"tool"`. An agent of a framework shares the budget of the call around it only if
            `context.deps` is the context itself.

    Raises:
        DefinitionError: Neither limit is given, a limit is not a positive number (`calls`: a
            positive int), or `per` has another value.
    """
    sound = (calls is None or _is_count(calls)) and (seconds is None or _is_positive(seconds))
    if not sound or (calls is None and seconds is None):
        wanted = "a positive int of calls, a positive number of seconds, or both"
        raise DefinitionError(f"budget needs {wanted}, not {calls!r} and {seconds!r}")
    limits = {"calls": calls, "seconds": seconds}

    def budget(counts: dict[str, Any], tool: str, arguments: Any) -> None:
        now = time.monotonic()
        used = counts.setdefault(tool if per == "tool" else "", {"calls": 0, "began": now})
        spent = {"calls": used["calls"], "seconds": now - used["began"]}
        left = {kind: max(0, most - spent[kind]) for kind, most in limits.items() if most}
        if not all(left.values()):
            rests = " and ".join(f"{round(left[k], 1)} of {limits[k]} {k}" for k in left)
            why = f"The budget is used up: {rests} are left. Make no such call again"
            raise GuardrailError(f"{why}: answer with what you have, and say what is missing.")
        used["calls"] += 1

    return _counting(budget, per)


def max_repeats(n: int) -> InputGuardrail:
    """Return a guardrail that refuses a call that comes more than `n` times in a row.

    Two calls are the same if they have the same tool and the same arguments. Attach the same
    guardrail to several tools, so that any other call of one of them ends the row. It counts within
    a context. Put it after `require_approval`, because a call that waits for a person comes twice.

    Raises:
        DefinitionError: `n` is not a positive int.
    """
    if not _is_count(n):
        raise DefinitionError(f"max_repeats needs a positive int, not {n!r}")

    def max_repeats(counts: dict[str, Any], tool: str, arguments: Any) -> None:
        given = arguments if isinstance(arguments, str) else dict(arguments)
        call = json.dumps([tool, given], sort_keys=True, default=str)
        counts["times"] = counts.get("times", 0) + 1 if counts.get("call") == call else 1
        counts["call"] = call
        if counts["times"] > n:
            why = f"The same call came {counts['times']} times in a row; at most {n} are answered."
            way = "Use the answer that you have, change the arguments, or try another way."
            raise GuardrailError(f"{why} {way}")

    return _counting(max_repeats, "context")


def _counting(count: Callable[[dict[str, Any], str, Any], None], per: Per) -> InputGuardrail:
    """Return a guardrail that calls `count(counts, tool, arguments)` once for each call.

    `counts` is a dict that is kept for the process or in each context.

    Raises:
        DefinitionError: `per` is neither `"tool"` nor `"context"`.
    """
    if per not in ("tool", "context"):
        raise DefinitionError(f'per must be "tool" or "context", not {per!r}')
    key = f"functool.{count.__name__}:{uuid4().hex}"
    lock = threading.Lock()
    process: dict[str, Any] = {}

    def guardrail(call: ToolCall, context: Context[Any]) -> None:
        # If a person edits a call, all guardrails are asked about it again. A layer marks a call
        # that it answers from its record with `again`: it was counted when it ran.
        if context.call is not None:
            if key in context.notes or call.metadata.get("again") is True:
                return
            context.notes[key] = True
        tool = context.schema.name if context.schema else call.name
        with lock:
            counts = process if per == "tool" else context.state.setdefault(key, {})
            count(counts, tool, call.arguments)

    guardrail.__name__ = count.__name__
    return guardrail


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 1


def _is_positive(value: Any) -> bool:
    return isinstance(value, (int, float)) and value is not True and value > 0
