"""What a functool tool costs inside another framework, beside that framework's own tool of the same function.

Ratios of one run: native and functool take turns, round by round, and each ratio is the median over the rounds. Run with
`python -m benchmarks bridges`, or this file, in the environment of `tests/requirements/agents.txt`.

The tool's own entry is what the framework calls for one call once the model has answered: `FunctionTool.on_invoke_tool` with the JSON
text in openai-agents; validation and `FunctionToolset.call_tool` in pydantic-ai. The loop is a whole run of the agent with a scripted
model: one turn of calls, then an answer.
"""

import asyncio
import gc
import statistics
import sys
import time
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
    context = RunContext(deps=None, model=TestModel(), usage=RunUsage(), tool_name=tool.name, tool_call_id="c1")
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
        return ModelResponse(parts=[ToolCallPart(tool.name, ARGUMENTS, tool_call_id=f"c{n}") for n in range(CALLS)])

    agent = pydantic_ai.Agent(FunctionModel(answer), tools=[tool])
    return lambda: agent.run("go")


async def _seconds(work: Timed, times: int) -> float:
    start = time.perf_counter()
    for _ in range(times):
        await work()
    return (time.perf_counter() - start) / times


async def compare(native: Timed, ours: Timed, times: int, rounds: int) -> tuple[float, float, float]:
    """Return the medians of both, in microseconds, and the median ratio."""
    await _seconds(native, times)
    await _seconds(ours, times)
    pairs = []
    for number in range(rounds):
        gc.collect()
        order = (native, ours) if number % 2 else (ours, native)
        first, second = await _seconds(order[0], times), await _seconds(order[1], times)
        pairs.append((first, second) if number % 2 else (second, first))
    left, right = zip(*pairs, strict=True)
    ratio = statistics.median(b / a for a, b in pairs)
    return statistics.median(left) * 1e6, statistics.median(right) * 1e6, ratio


def main() -> None:
    agents.set_tracing_disabled(True)
    ours, ours_sync = FunctionTool(forecast), FunctionTool(forecast_sync)
    native, native_sync = agents.function_tool(forecast), agents.function_tool(forecast_sync)
    cases: list[tuple[str, Callable[[Any], Timed], Any, Any, int]] = []
    for label, mine, openai_tool, function in (("async", ours, native, forecast), ("sync", ours_sync, native_sync, forecast_sync)):
        exported, pydantic_tool = openai_agents.export(mine), pydantic_ai.Tool(function)
        cases += [
            (f"openai-agents, {label}, own entry", openai_entry, openai_tool, exported, 500),
            (f"openai-agents, {label}, loop", openai_loop, openai_tool, exported, 20),
        ]
        exported_pydantic = functool_pydantic_ai.export(mine)
        cases += [
            (f"pydantic-ai, {label}, own entry", pydantic_entry, pydantic_tool, exported_pydantic, 500),
            (f"pydantic-ai, {label}, tool manager", pydantic_manager, pydantic_tool, exported_pydantic, 200),
            (f"pydantic-ai, {label}, loop", pydantic_loop, pydantic_tool, exported_pydantic, 20),
        ]
    versions = " ".join(f"{name} {version(name)}" for name in ("openai-agents", "pydantic-ai-slim", "pydantic"))
    print(f"Python {sys.version.split()[0]}, {versions}; {CALLS} calls a run in the loops")
    print(f"{'':38}{'native':>10}{'functool':>10}{'ratio':>8}")
    for title, make, theirs, mine, times in cases:
        a, b, ratio = asyncio.run(compare(make(theirs), make(mine), times, 15))
        print(f"{title:38}{a:8.1f}µs{b:8.1f}µs{ratio:8.2f}")


if __name__ == "__main__":
    main()
