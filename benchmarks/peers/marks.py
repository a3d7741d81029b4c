"""The questions beside each speed: does the subject do the same work, and is the answer right?

Every subject is asked by the same code. A call is refused when the body did not run. The text is what the entry returned, or the text of
what it raised, which a host would have to word.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import date
from enum import Enum
from types import ModuleType
from typing import Any, Literal

from benchmarks.peers.workload import ORDER, Order, to_json

TITLES = {
    "values": "values arrive as annotated",
    "unknown": "unknown argument refused",
    "twice": "argument sent twice refused",
    "truth": "`true` for an int refused",
    "nan": "NaN for a float refused",
    "literal": "Literal enforced",
    "named": "error names the field",
    "hidden": "error does not repeat the value",
    "siblings": "siblings of a failed call survive",
    "limit": "time limit holds",
}
_SECRET = "pw-4711"


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Asker:
    """Makes the tools of one subject and remembers what their bodies saw."""

    def __init__(self, subject: ModuleType) -> None:
        self.subject = subject
        self.seen: list[dict[str, Any]] = []

    async def text_of(self, tool: Any, arguments: str) -> str:
        """Return what the model, or the host, is told."""
        try:
            return await (await self.subject.caller(tool))(arguments)
        except Exception as error:
            return str(error)

    def counting(self) -> Callable[..., Any]:
        seen = self.seen

        async def count(
            number: int, ratio: float = 1.0, mode: Literal["fast", "deep"] = "fast"
        ) -> str:
            """Count something."""
            seen.append({"number": number, "ratio": ratio, "mode": mode})
            return "counted"

        return count

    async def refuses(self, arguments: str) -> bool:
        self.seen.clear()
        await self.text_of(self.subject.define(self.counting()), arguments)
        return not self.seen

    async def values(self) -> bool:
        seen = self.seen
        seen.clear()

        async def take(order: Order, when: date, colour: Colour, ids: set[int]) -> str:
            """Take an order."""
            seen.append({"order": order, "when": when, "colour": colour, "ids": ids})
            return "taken"

        sent = {"order": ORDER, "when": "2026-11-22", "colour": "blue", "ids": [1, 2]}
        await self.text_of(self.subject.define(take), to_json(sent).decode())
        right = {
            "order": Order.model_validate(ORDER),
            "when": date(2026, 11, 22),
            "colour": Colour.BLUE,
            "ids": {1, 2},
        }
        return seen == [right]

    async def unknown(self) -> bool:
        return await self.refuses('{"number": 1, "numbr": 2}')

    async def twice(self) -> bool | None:
        if self.subject.TAKES == "dict":  # Whoever parsed the text has dropped one already.
            return None
        return await self.refuses('{"number": 1, "number": 2}')

    async def truth(self) -> bool:
        return await self.refuses('{"number": true}')

    async def nan(self) -> bool:
        return await self.refuses('{"number": 1, "ratio": NaN}')

    async def literal(self) -> bool:
        return await self.refuses('{"number": 1, "mode": "medium"}')

    async def named(self) -> bool:
        text = await self.text_of(
            self.subject.define(self.counting()), f'{{"number": "{_SECRET}"}}'
        )
        return "number" in text

    async def hidden(self) -> bool:
        text = await self.text_of(
            self.subject.define(self.counting()), f'{{"number": "{_SECRET}"}}'
        )
        return _SECRET not in text

    async def siblings(self) -> bool:
        async def divide(by: int) -> str:
            """Divide six."""
            await asyncio.sleep(0)
            return f"is {6 // by}"

        call = await self.subject.caller(self.subject.define(divide))
        try:
            texts = await asyncio.gather(*(call(f'{{"by": {by}}}') for by in (1, 0, 2)))
        except Exception:
            return False
        return texts[0] == "is 6" and texts[2] == "is 3"

    async def limit(self) -> bool | None:
        if not hasattr(self.subject, "limited"):
            return None

        async def nap(seconds: int) -> str:
            """Sleep."""
            await asyncio.sleep(seconds)
            return "slept"

        return await self.text_of(self.subject.limited(nap, 0.2), '{"seconds": 3}') != "slept"


async def ask(subject: ModuleType) -> dict[str, bool | str | None]:
    """Return mark -> True, False, None (no such thing at this entry), or the words of a crash."""
    asker = Asker(subject)
    marks: dict[str, bool | str | None] = {}
    for name in TITLES:
        question: Callable[[], Awaitable[bool | None]] = getattr(asker, name)
        try:
            marks[name] = await question()
        except Exception as error:
            marks[name] = f"{type(error).__name__}: {str(error)[:200]}"
    return marks
