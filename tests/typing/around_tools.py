"""What mypy and pyright infer around tools: generators, models, guardrails, contexts, toolsets. Checked, never run."""

from collections.abc import AsyncIterator, Iterator
from typing import assert_type

from functool import (
    AgentTool,
    Context,
    FunctionTool,
    GuardrailError,
    InputGuardrail,
    OutputGuardrail,
    Tool,
    ToolCall,
    ToolModel,
    ToolResult,
    Toolset,
)


@FunctionTool
def count(to: int) -> Iterator[int]:
    """Count."""
    yield from range(to)


@FunctionTool
async def tick(to: int) -> AsyncIterator[int]:
    """Count."""
    for number in range(to):
        yield number


class Add(ToolModel):
    a: int

    def run(self) -> int:
        return self.a


class Greet(ToolModel):
    name: str

    async def run(self, context: Context) -> str:
        return self.name


def no_secrets(call: ToolCall, context: Context) -> None:
    raise GuardrailError("no")


async def polite(result: ToolResult, context: Context) -> ToolResult | None:
    return None


def other_values(value: int, context: Context) -> int:
    return value


guards: list[InputGuardrail] = [no_secrets]
output_guards: list[OutputGuardrail] = [polite]
of_ints: InputGuardrail[int] = other_values


async def check(call: ToolCall) -> None:
    assert_type(count(3), Iterator[int])
    assert_type(tick(3), AsyncIterator[int])
    assert_type(await count(call), ToolResult)
    assert_type(Context("deps").deps, str)
    assert_type(await Toolset([count, tick]).call(call), ToolResult)
    assert_type(await Toolset([count]).call_all([call]), list[ToolResult])
    assert_type(Toolset([count])["count"], Tool)
    assert_type(Add.tool(), Tool)
    agent: Tool = AgentTool(object(), "agent", "An agent.")
    assert_type(await agent(call), ToolResult)
