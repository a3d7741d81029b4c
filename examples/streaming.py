"""A streamed turn: one call begins while the model still writes, and a wrong one is refused early.

    python -m examples.streaming

The stream is a recorded one of OpenAI's Chat Completions, so this needs no key and no network. With
a real client the chunks come from `client.chat.completions.create(..., stream=True)`: see
docs/loop.md.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from functool import Context, FunctionTool, ToolSettings
from functool.dialects import CallRefused, StreamEnded, openai_chat


@FunctionTool(settings=ToolSettings(read_only=True))
async def weather(city: str) -> str:
    """Look up the weather.

    Args:
        city: The name of the city.
    """
    print(f"begins     weather in {city}, while the model writes on")
    return f"-4 degrees in {city}"


CALLS = [
    {"city": "Oslo"},
    {"citty": "Turin", "explanation": "The user asked for two cities."},  # A name misspelt.
]


async def recorded() -> AsyncIterator[Any]:
    """Yield the chunks of a turn with two calls, a few characters each."""
    for index, arguments in enumerate(CALLS):
        function = {"name": "weather", "arguments": ""}
        yield chunk({"index": index, "id": f"call_{index}", "function": function})
        text = json.dumps(arguments)
        for at in range(0, len(text), 4):
            await asyncio.sleep(0.005)
            yield chunk({"index": index, "function": {"arguments": text[at : at + 4]}})
    yield {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}


def chunk(entry: dict[str, Any]) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"tool_calls": [entry]}, "finish_reason": None}]}


async def turn() -> None:
    """Feed the chunks, and run the calls beside that."""
    reader = openai_chat.StreamReader(weather)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(reader.run(Context()))
        async for one in recorded():
            for event in reader.feed(one):
                if isinstance(event, CallRefused):
                    # A host may stop the generation here, and send the error back.
                    come, whole = len(str(event.call.arguments)), len(json.dumps(CALLS[1]))
                    print(f"refused    at {come} of {whole} characters: {event.error}")
                elif isinstance(event, StreamEnded):
                    print(f"ended      {event.reason}")
        reader.close()
    for result in running.result():
        print(f"{'error' if result.is_error else 'result':10} {result.text}")


if __name__ == "__main__":
    asyncio.run(turn())
