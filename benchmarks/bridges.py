"""What a functool tool costs inside another framework, beside that framework's own tool of the same function.

Run with `python -m benchmarks bridges` in the environment of `tests/requirements/agents.txt`. Native and functool take turns; a ratio
is the median over the rounds of one run.

The own entry is what the framework calls for one call once the model has answered: `FunctionTool.on_invoke_tool` with the JSON text in
openai-agents, `ToolManager.handle_call` in pydantic-ai. Below that, `FunctionToolset.call_tool` of pydantic-ai is validation in Rust and
little else; what functool does beside (one result, guardrails, the call's own context) weighs more there. The loop is a whole run of the
agent with a scripted model: a turn of four calls, then an answer.
"""

import asyncio
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import Any

import agents
import pydantic_ai
from agents.testing import ScriptedModel, assistant_message, function_call
from agents.tool_context import ToolContext
from pydantic_ai import FunctionToolset, RunContext
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.tool_manager import ToolManager
from pydantic_ai.usage import RunUsage

from benchmarks._measure import heading, ratio_async, row
from functool import FunctionTool
from functool.integrations import openai_agents
from functool.integrations import pydantic_ai as functool_pydantic_ai

ARGUMENTS = '{"city": "Bern", "days": 3, "metric": true}'
CALLS = 4
Timed = Callable[[], Awaitable[object]]


async def forecast(city: str, days: int, metric: bool = True, note: str = "") -> str:
    """Forecast the weather.

    Args:
        city: Name of the city.
        days: How many days.
        metric: Whether to use metric units.
        note: Anything else.
    """
    return city


def forecast_sync(city: str, days: int, metric: bool = True, note: str = "") -> str:
    """Forecast the weather.

    Args:
        city: Name of the city.
        days: How many days.
        metric: Whether to use metric units.
        note: Anything else.
    """
    return city


def openai_entry(tool: agents.FunctionTool) -> Timed:
    context = ToolContext(None, tool_name=tool.name, tool_call_id="c1", tool_arguments=ARGUMENTS)
    return lambda: tool.on_invoke_tool(context, ARGUMENTS)


def openai_loop(tool: agents.FunctionTool) -> Timed:
    async def run() -> object:
        calls = [function_call(tool.name, ARGUMENTS, call_id=f"c{n}") for n in range(CALLS)]
        model = ScriptedModel([calls, [assistant_message("done")]])
        return await agents.Runner.run(agents.Agent(name="bench", model=model, tools=[tool]), "go")

    return run


async def _pydantic_tool(tool: Any) -> tuple[Any, Any, Any]:
    toolset: FunctionToolset[Any] = FunctionToolset([tool])
    context = RunContext(
        deps=None, model=TestModel(), usage=RunUsage(), tool_name=tool.name, tool_call_id="c1"
    )
    (ready,) = (await toolset.get_tools(context)).values()
    return toolset, context, ready


def pydantic_entry(tool: Any) -> Timed:
    toolset, context, ready = asyncio.run(_pydantic_tool(tool))

    async def call() -> object:
        arguments = ready.args_validator.validate_json(ARGUMENTS)
        return await toolset.call_tool(tool.name, arguments, context, ready)

    return call


def pydantic_manager(tool: Any) -> Timed:
    toolset, context, _ = asyncio.run(_pydantic_tool(tool))
    manager = asyncio.run(ToolManager(toolset).for_run_step(context))
    part = ToolCallPart(tool.name, ARGUMENTS, tool_call_id="c1")
    return lambda: manager.handle_call(part)


def pydantic_loop(tool: Any) -> Timed:
    def answer(messages: list[Any], info: Any) -> ModelResponse:
        if len(messages) > 1:
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(
            parts=[ToolCallPart(tool.name, ARGUMENTS, tool_call_id=f"c{n}") for n in range(CALLS)]
        )

    agent = pydantic_ai.Agent(FunctionModel(answer), tools=[tool])
    return lambda: agent.run("go")


def main() -> None:
    """Print the table."""
    agents.set_tracing_disabled(True)
    packages = " ".join(f"{name} {version(name)}" for name in ("openai-agents", "pydantic-ai-slim"))
    print(f"{heading()} {packages}")
    for label, function in (("async", forecast), ("sync", forecast_sync)):
        tool = FunctionTool(function)
        native, exported = agents.function_tool(function), openai_agents.export(tool)
        for work, make, times, most in (
            ("own entry", openai_entry, 300, 1.3),
            ("loop", openai_loop, 5, 1.1),
        ):
            row(
                f"openai-agents, {label}, {work}",
                ratio_async(make(exported), make(native), times),
                most,
                1.0,
            )
        theirs, ours = pydantic_ai.Tool(function), functool_pydantic_ai.export(tool)
        for work, make, times, most in (
            ("own entry", pydantic_manager, 100, 1.3),
            ("toolset entry", pydantic_entry, 300, 1.3),
            ("loop", pydantic_loop, 5, 1.1),
        ):
            row(
                f"pydantic-ai, {label}, {work}",
                ratio_async(make(ours), make(theirs), times),
                most,
                1.0,
            )


if __name__ == "__main__":
    main()
