"""Guardrails on what a model asks for: `block` and `rate_limit`."""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from functool.call import ToolCall, json_text
from functool.context import Context
from functool.errors import DefinitionError, GuardrailError
from functool.guardrails.asking import InputGuardrail
from functool.guardrails.text import compiled_patterns


def block(patterns: Iterable[str | re.Pattern[str]], argument: str | None = None) -> InputGuardrail:
    """Return a guardrail that refuses a call whose arguments, or the named one, match a pattern at any depth.

    It is advice for a model, not a boundary: what a pattern does not foresee gets through.
    """
    compiled = compiled_patterns(patterns)

    def block(call: ToolCall, context: Context[Any]) -> None:
        arguments = (
            dict(call.arguments) if isinstance(call.arguments, Mapping) else {"": call.arguments}
        )
        plain = context.schema.plain if context.schema else {}
        known = plain.get("properties", {})
        # What is missing here was left out, or goes by another name: by the one in the schema,
        # where arguments have names of their own.
        if (
            argument is not None
            and argument not in arguments
            and not (argument in known and arguments.keys() <= known.keys())
        ):
            raise LookupError(f"the tool has no argument {argument!r} to look at")
        for text in _texts(arguments if argument is None else arguments.get(argument)):
            if any(pattern.search(text) for pattern in compiled):
                raise GuardrailError(
                    f"Blocked: the {f'argument {argument!r}' if argument else 'call'} matches a blocked pattern."
                )

    return block


def rate_limit(calls: int, per_seconds: float) -> InputGuardrail:
    """Return a guardrail that lets through so many calls per time, for each tool in each context.

    Raises:
        DefinitionError: `calls` is no positive int, or `per_seconds` no positive number.
    """
    if not (
        type(calls) is int
        and calls >= 1
        and isinstance(per_seconds, (int, float))
        and per_seconds is not True
        and per_seconds > 0
    ):
        raise DefinitionError(
            f"rate_limit needs a positive int and a positive number of seconds, not {calls!r} and {per_seconds!r}"
        )
    key, lock = object(), threading.Lock()

    def rate_limit(call: ToolCall, context: Context[Any]) -> None:
        name = context.schema.name if context.schema else call.name
        now = time.monotonic()
        with lock:
            times: deque[float] = context.state.setdefault(
                f"functool.rate_limit:{id(key)}:{name}", deque()
            )
            while times and times[0] <= now - per_seconds:
                times.popleft()
            if len(times) >= calls:
                wait = times[0] + per_seconds - now
                raise GuardrailError(
                    f"Too many calls: at most {calls} in {per_seconds:g} seconds. Try again in {wait:.1f} seconds."
                )
            times.append(now)

    return rate_limit


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from _texts(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)
    elif value is not None:
        yield from (value,) if isinstance(value, str) else (str(value), json_text(value))
