"""A whole agent: three tools over real data, a model, and the loop between them.

    python -m examples.agent_loop [--model scripted|local] [task]

The default model is scripted: a short program that stands for a language model, and needs no key
and no network. `local` needs the extra `functool[local]`. The same loop for the models of OpenAI,
Anthropic and Google is in docs/loop.md.
"""

import argparse
import asyncio
import json
import tempfile
from contextlib import closing
from pathlib import Path

from examples.demo_tools import TASK, TOOLS, Desk, shift_date
from examples.models import MODELS, Model
from functool import ApprovalRequest, Context, ToolCall, ToolResult, Toolset
from functool.dialects import openai_chat

ABOUT = {
    "scripted": "scripted, a short program that stands for a language model"
    " (make demo MODEL=local for a real one)",
}
NEXT = """next       examples/demo_tools.py    the three tools and their guardrails
           examples/agent_loop.py    this loop: 12 lines
           docs/first-agent.md       the same, step by step"""


async def agent_loop(model: Model, tools: Toolset, context: Context, turns: int = 10) -> str:
    """Let the model call tools until it answers in words; return those."""
    results: list[ToolResult] = []
    for _ in range(turns):
        answer, calls = await model.turn(results)
        if not calls:
            return answer
        if len(calls) > 1:
            print(f"turn       {len(calls)} calls at once\n")
        results = await tools.call_all(calls, context)
        for call, result in zip(calls, results, strict=True):
            show(call, result)
    return "Gave up: too many turns."


def show(call: ToolCall, result: ToolResult) -> None:
    print(f"call       {call.name}({call.arguments})")
    for said in result.metadata.get("guardrails", ()):
        print(f"guardrail  {said['name']} ({said['stage']}) {said['did']}")
    print(f"{'error' if result.is_error else 'result':9}  {result.text}\n")


def person(request: ApprovalRequest) -> bool:
    """Stand for somebody at a screen, who is asked before a note is written."""
    print(f"approval   {request.tool}: {request.arguments.get('title')!r}? yes\n")
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description="Run an agent over real tools.")
    parser.add_argument("task", nargs="?", default=TASK)
    parser.add_argument("--model", choices=MODELS, default="scripted")
    options = parser.parse_args()
    print(f"model      {ABOUT.get(options.model, options.model)}")
    print(f"task       {options.task}")
    print(
        f"request    one tool as OpenAI gets it: {json.dumps(openai_chat.definition(shift_date))}\n"
    )
    with tempfile.TemporaryDirectory() as notes, closing(Desk(Path(notes))) as desk:
        model = MODELS[options.model](options.task, TOOLS)
        context = Context(desk, approver=person)
        print(f"answer     {asyncio.run(agent_loop(model, TOOLS, context))}\n\n{NEXT}")


if __name__ == "__main__":
    main()
