"""Four frameworks, one call.

An openai-agents agent asks a pydantic-ai agent. That agent uses a LangChain tool, which was made
from a functool tool.

The functool tool has a guardrail. One OpenTelemetry trace shows the whole call. The example runs
offline: both models are scripted.
Needs: pip install 'functool[openai-agents,pydantic-ai,langchain,opentelemetry]' opentelemetry-sdk
"""

import asyncio

from examples.needs import needs
from functool import AgentTool, Context, FunctionTool, GuardrailError, ToolCall

with needs(
    "'functool[openai-agents,pydantic-ai,langchain,opentelemetry]' opentelemetry-sdk", __name__
):
    import agents
    import pydantic_ai
    from agents.testing import ScriptedModel, assistant_message, function_call
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    from functool.integrations import langchain, openai_agents
    from functool.integrations import pydantic_ai as functool_pydantic_ai
    from functool.integrations.opentelemetry import instrument


# The tracing of openai-agents sends to OpenAI; the trace here is OpenTelemetry's.
agents.set_tracing_disabled(True)
exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))


def only_swiss(call: ToolCall, context: Context) -> None:
    """Refuse cities that are not in Switzerland."""
    if call.arguments["city"] not in ("Bern", "Chur"):
        raise GuardrailError("Only Swiss cities.")


@FunctionTool(input_guardrails=[only_swiss])
async def altitude(city: str) -> int:
    """Return how high a city lies, in metres above the sea."""
    return {"Bern": 540, "Chur": 593}[city]


def geographer_model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Ask for two cities at once, then repeat what came back."""
    if len(messages) == 1:
        calls = [
            ToolCallPart("altitude", {"city": city}, tool_call_id=city) for city in ("Bern", "Oslo")
        ]
        return ModelResponse(parts=calls)
    return ModelResponse(
        parts=[TextPart("; ".join(str(part.content) for part in messages[-1].parts))]
    )


# The function as a tool of LangChain, and that tool, whoever wrote it, in pydantic-ai.
native = langchain.export(instrument(altitude, tracer_provider=provider))
adopted = instrument(langchain.adopt(native), tracer_provider=provider)
geographer = pydantic_ai.Agent(
    FunctionModel(geographer_model), tools=[functool_pydantic_ai.export(adopted)]
)

# The pydantic-ai agent as a tool of the openai-agents agent.
ask = AgentTool(
    geographer, "ask_geographer", "Asks a geographer.", runner=functool_pydantic_ai.runner
)
script = ScriptedModel(
    [
        [function_call("ask_geographer", '{"input": "How high are Bern and Oslo?"}', call_id="c1")],
        [assistant_message("Bern lies at 540 m.")],
    ]
)
tools = [openai_agents.export(instrument(ask, tracer_provider=provider))]
traveller = agents.Agent(name="traveller", model=script, tools=tools)


def show(spans: tuple[ReadableSpan, ...], parent: int | None = None, depth: int = 0) -> None:
    """Print the spans as a tree."""
    for span in sorted(spans, key=lambda span: span.start_time or 0):
        if (span.parent.span_id if span.parent else None) == parent and span.context is not None:
            print(
                "  " * depth + span.name,
                span.attributes.get("error.type", "") if span.attributes else "",
            )
            show(spans, span.context.span_id, depth + 1)


async def main() -> None:
    """Run the outer agent and print its answer, what it was told, and the trace."""
    with provider.get_tracer("crossing").start_as_current_span("traveller"):
        result = await agents.Runner.run(traveller, "How high is Bern?")
    print(result.final_output)
    print(
        next(
            item.output for item in result.new_items if isinstance(item, agents.ToolCallOutputItem)
        )
    )
    show(exporter.get_finished_spans())


if __name__ == "__main__":
    asyncio.run(main())
