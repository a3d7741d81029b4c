"""An agent as a tool, offline: any object that takes a text and answers."""

import asyncio
from types import SimpleNamespace

from functool import AgentTool, Context, ToolCall, Toolset
from functool.guardrails import truncate


class Librarian:
    """Stands for an agent of any framework.

    `AgentTool` finds its `run`, its `output` and its `usage`.
    """

    shelves = {"tides": "The moon pulls the sea.", "rain": "Clouds let go of their water."}

    async def run(self, text: str) -> SimpleNamespace:
        known = [fact for word, fact in self.shelves.items() if word in text.lower()]
        return SimpleNamespace(
            output=" ".join(known) or "Nothing on that.", usage={"requests": 1, "total_tokens": 21}
        )


ask = AgentTool(
    Librarian(),
    "ask_librarian",
    "Asks what the library knows.",
    timeout=30,
    output_guardrails=[truncate(200)],
)


async def main() -> None:
    calls = [
        ToolCall(name="ask_librarian", arguments={"input": text}, id=text)
        for text in ("Why tides?", "Why rain?")
    ]
    for result in await Toolset([ask]).call_all(calls, Context()):
        print(f"{result.call_id} {result.text} {result.metadata['usage']}")


if __name__ == "__main__":
    asyncio.run(main())
