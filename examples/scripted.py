"""The loop for scripted models, one call at a time.

A model is given what its last call brought, and says what is next.
"""

import json
from typing import Protocol

from functool import Context, ToolCall, ToolResult, Toolset


class Model(Protocol):
    def turn(self, last: ToolCall | None, result: ToolResult | None) -> ToolCall | str:
        """Read the result of the last call, None at first; return the next call, or the answer."""
        ...


async def converse(model: Model, tools: Toolset, *, turns: int = 10, shown: int = 2_000) -> str:
    """Let the model call tools until it answers in words, and return those.

    `shown` characters of each call and result are printed.
    """
    call, result = None, None
    for _ in range(turns):
        step = model.turn(call, result)
        if isinstance(step, str):
            return step
        call, result = step, await tools.call(step, Context())
        print(f"call    {call.name}({json.dumps(call.arguments, ensure_ascii=False)[:shown]})")
        print(f"{'error' if result.is_error else 'result':7} {result.text[:shown]}\n")
    return "Gave up: too many turns."
