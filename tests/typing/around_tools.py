"""What mypy and pyright infer around tools: generators, models, guardrails, contexts, toolsets. Checked, never run."""

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, assert_type

from functool import (
    AgentTool,
    Context,
    FunctionTool,
    GuardrailError,
    InputGuardrail,
    OutputGuardrail,
    SchemaTool,
    TextContent,
    Tool,
    ToolCall,
    ToolModel,
    ToolResult,
    Toolset,
    ToolSettings,
)
from functool.layers.journal import Journal
from functool.testing import MockTool
from functool.tool_model import Err, Ok


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


class Unsaid(ToolModel):
    def run(self) -> Any:
        return 1


def outcome(add: Add) -> int:
    match add():
        case Ok():
            return 1
        case Err(reason):
            return len(reason)


def alone(arguments: Mapping[str, Any]) -> str:
    return str(arguments)


async def beside(arguments: dict[str, Any], context: Context[int]) -> int:
    return context.deps


def neither(arguments: dict[str, Any], context: Context, more: str) -> None: ...


def no_secrets(call: ToolCall, context: Context) -> None:
    raise GuardrailError("no")


async def polite(result: ToolResult, context: Context) -> ToolResult | None:
    return None


def other_values(value: int, context: Context) -> int:
    return value


guards: list[InputGuardrail] = [no_secrets]
output_guards: list[OutputGuardrail] = [polite]
of_ints: InputGuardrail[int] = other_values


class Desk:
    """Static methods are called by their class: neither checker shows a decorator what they are."""

    @staticmethod
    @FunctionTool
    def below(a: int, b: int = 2) -> int:
        """Stand below."""
        return a + b

    @FunctionTool
    @staticmethod
    def above(a: int, b: int = 2) -> int:
        """Stand above."""
        return a + b


async def check(call: ToolCall) -> None:
    assert_type(Desk.below(1, b=3), int)
    assert_type(Desk.above(1, b=3), int)
    assert_type(await Desk.above(call), ToolResult)
    assert_type(count(3), Iterator[int])
    assert_type(tick(3), AsyncIterator[int])
    assert_type(await count(call), ToolResult)
    assert_type(Context("deps").deps, str)
    assert_type(await Toolset([count, tick]).call(call), ToolResult)
    assert_type(await Toolset([count]).call_all([call]), list[ToolResult])
    assert_type(Toolset([count])["count"], Tool)
    assert_type(Add.tool(timeout=1.0, strict="refuse"), Tool)
    assert_type(Add(a=1)(), Ok[Any] | Err)
    assert_type(await Greet(name="you")(Context("deps")), Ok[Any] | Err)
    assert_type(Unsaid()(), Any)
    schema: dict[str, Any] = {"type": "object"}
    tools: list[Tool] = [
        SchemaTool("alone", "One.", schema, alone),
        SchemaTool("beside", "Two.", schema, beside, timeout=1.0),
    ]
    tools.append(SchemaTool("short", "A lambda.", schema, lambda arguments: arguments["a"]))
    tools.append(MockTool(settings=ToolSettings(tags=["calm"])))
    texts = [TextContent(text="seen so far")]
    assert_type(ToolResult.failed("no", output=texts), ToolResult)
    Add.tool(timeot=1.0)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    SchemaTool("a", "A.", schema, alone, timeot=1.0)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    SchemaTool("a", "A.", schema, neither)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    MockTool("a", "A.", timeot=1.0)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    agent: Tool = AgentTool(object(), "agent", "An agent.")
    assert_type(await agent(call), ToolResult)


def same_kind(journal: Journal, one: Tool, either: Toolset | list[Tool]) -> None:
    assert_type(journal.once(one, "r"), Tool)
    assert_type(journal.once([one], "r"), list[Tool])
    assert_type(journal.once((one, one), "r"), tuple[Tool, ...])
    assert_type(journal.once(iter([one]), "r"), list[Tool])
    assert_type(journal.once(Toolset([one]), "r"), Toolset)
    assert_type(journal.once(either, "r"), Toolset | list[Tool])
