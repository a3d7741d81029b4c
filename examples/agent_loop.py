"""A whole agent: three tools over real data, a model, and the loop between them.

    python -m examples.agent_loop [--model scripted|local] [task]

The default model is a small scripted one that needs no key and no network. `local` needs the extra
`functool[local]`. The same loop for the models of OpenAI, Anthropic and Google is in docs/loop.md.
"""

import argparse
import asyncio
import tempfile
from contextlib import closing
from pathlib import Path

from examples.demo_tools import TASK, TOOLS, Desk
from examples.models import MODELS, Model
from functool import Context, ToolCall, ToolResult, Toolset


async def agent_loop(model: Model, tools: Toolset, context: Context, turns: int = 10) -> str:
    """Let the model call tools until it answers in words; return those."""
    results: list[ToolResult] = []
    for _ in range(turns):
        answer, calls = await model.turn(results)
        if not calls:
            return answer
        results = await tools.call_all(calls, context)
        for call, result in zip(calls, results, strict=True):
            show(call, result)
    return "Gave up: too many turns."


def show(call: ToolCall, result: ToolResult) -> None:
    print(f"call       {call.name}({call.arguments})")
    for said in result.metadata.get("guardrails", ()):
        print(f"guardrail  {said['name']} ({said['stage']}) {said['did']}")
    print(f"{'error' if result.is_error else 'result':9}  {result.text}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description="Run an agent over real tools.")
    parser.add_argument("task", nargs="?", default=TASK)
    parser.add_argument("--model", choices=MODELS, default="scripted")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as notes, closing(Desk(Path(notes))) as desk:
        print(f"task       {options.task}\n")
        model = MODELS[options.model](options.task, TOOLS)
        answer = asyncio.run(agent_loop(model, TOOLS, Context(desk)))
        print(f"answer     {answer}")


if __name__ == "__main__":
    main()
