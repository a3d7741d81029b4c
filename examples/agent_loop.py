"""A whole agent: it mends a project whose tests fail. The loop between model and tools is here.

    python -m examples.agent_loop [--model scripted|openai|anthropic]

The default model is scripted: a short program that stands for a language model, and needs no key
and no network. The others need their provider's SDK and a key; with them, you are asked before each
edit. What they write is run in a temporary directory with your rights: read it before you agree.
"""

import argparse
import asyncio
import json
import tempfile
import textwrap
from collections.abc import Callable
from itertools import chain
from pathlib import Path

from examples.demo_tools import TASK, new_project
from examples.models import MODELS, Model
from functool import ApprovalRequest, Context, Tool, ToolCall, ToolEvent, ToolResult, Toolset
from functool.dialects import openai_chat

SCRIPTED = """\
scripted: a short program stands for the language model, and reads what the tools answer.
The tools, the refusals and the tests are real. For a real model:
make demo MODEL=openai, MODEL=anthropic, or MODEL=local (a small one, without a key)"""
NEXT = """\
examples/demo_tools.py   the tools, and the guardrail that refused
examples/agent_loop.py   this loop
docs/first-agent.md      an agent of your own, step by step"""
GAP = "\n\n"
REFUSALS = ("ArgumentError", "GuardrailError")


def say(head: str, text: str, end: str = "\n") -> None:
    """Print a text with its lines below each other."""
    print(f"{head:10} {textwrap.indent(text, ' ' * 11).strip()}", end=end)


async def agent_loop(model: Model, tools: Toolset, context: Context, turns: int = 12) -> str:
    """Let the model call tools until it answers in words; return those."""
    results: list[ToolResult] = []
    for _ in range(turns):
        answer, calls = await model.turn(results)
        if not calls:
            return answer
        if len(calls) > 1:
            say("turn", f"{len(calls)} calls at once", GAP)
        results = await tools.call_all(calls, context)
        for call, result in zip(calls, results, strict=True):
            show(call, result)
    return "Gave up: too many turns."


def show(call: ToolCall, result: ToolResult) -> None:
    given = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
    say("call", f"{call.name}({given})")
    kind = result.error.type if result.error else "result"
    say("refused" if kind in REFUSALS else "error" if result.error else kind, result.text, GAP)


def person(asks: bool) -> Callable[[ApprovalRequest], bool]:
    """Return who is asked before an edit: you, or nobody, where the demo answers by itself."""

    def decide(request: ApprovalRequest) -> bool:
        arguments = request.arguments
        change = [f"- {line}" for line in str(arguments.get("old")).splitlines()]
        change += [f"+ {line}" for line in str(arguments.get("new")).splitlines()]
        wanted = f"{request.tool} wants to change {arguments.get('path')}:\n"
        say("approval", wanted + "\n".join(change))
        if not asks:
            say("", "May it? yes (the demo agrees by itself)", GAP)
            return True
        try:
            return input(f"{'':11}May it? [y/N] ").strip().lower() in ("y", "yes")
        except EOFError:
            return False

    return decide


def as_sent(tool: Tool, result: ToolResult) -> str:
    """Show a tool and a result in the JSON that one provider is sent."""
    parts = (openai_chat.definition(tool), openai_chat.result(result))
    texts = (textwrap.wrap(json.dumps(part), 88, break_on_hyphens=False) for part in parts)
    return "\n".join(["one tool and one answer, as OpenAI gets them:", *chain(*texts)])


def main() -> None:
    parser = argparse.ArgumentParser(description="Let an agent mend a project whose tests fail.")
    parser.add_argument("task", nargs="?", default=TASK)
    parser.add_argument("--model", choices=MODELS, default="scripted")
    options = parser.parse_args()
    scripted = options.model == "scripted"
    with tempfile.TemporaryDirectory() as directory:
        project = Path(directory).resolve()
        tools = new_project(project)
        model = MODELS[options.model](options.task, tools)
        say("model", SCRIPTED if scripted else options.model)
        say("task", options.task, GAP)
        context = Context(project, approver=person(asks=not scripted))
        failures: list[ToolResult] = []

        def keep_failure(event: ToolEvent) -> None:
            if event.kind == "tool:error":
                failures.append(event.data["result"])

        context.subscribe(keep_failure)
        say("answer", asyncio.run(agent_loop(model, tools, context)), GAP)
        if failures:
            say("sent", as_sent(tools["edit_file"], failures[-1]), GAP)
    say("next", NEXT)


if __name__ == "__main__":
    main()
