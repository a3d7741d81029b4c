"""One `execute_tool` span a call, with the attributes of the GenAI conventions, and nothing without a provider."""

import asyncio
import sys
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="needs tests/requirements/agents.txt")

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode, get_current_span

from functool import (
    AgentTool,
    Context,
    DefinitionError,
    FunctionTool,
    GuardrailError,
    ToolCall,
    ToolResult,
    Toolset,
    Tripwire,
)
from functool.guardrails import redact, require_approval
from functool.integrations.opentelemetry import instrument
from tests.integrations.odd_tools import cleaned_up_when_cancelled, stopped
from tests.support import call


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(exporter: InMemorySpanExporter) -> TracerProvider:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider


@pytest.fixture
def traced(provider: TracerProvider) -> Any:
    """Instrument some tools."""
    return lambda tools, **options: instrument(tools, tracer_provider=provider, **options)


@FunctionTool
async def double(number: int) -> int:
    """Double a number."""
    if number < 0:
        raise ValueError(f"{number} is negative")
    return number * 2


def test_missing_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package the import says how to get it."""
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    monkeypatch.delitem(sys.modules, "functool.integrations.opentelemetry")

    with pytest.raises(ImportError, match=r"pip install 'functool\[opentelemetry\]'"):
        import functool.integrations.opentelemetry  # noqa: F401


@pytest.mark.parametrize("arguments", [5, None, [1], '{"number": "\ud800"}'])
def test_a_call_that_cannot_be_read_is_told_as_without_a_span(
    traced: Any, exporter: InMemorySpanExporter, arguments: Any
) -> None:
    """Whatever a model sends as arguments and id, the answer is the tool's own, and each attribute can be sent."""
    sent = ToolCall(name="double", arguments=arguments, id="\ud800")
    result = asyncio.run(traced(double, content=True).invoke(sent))

    assert result == asyncio.run(double.invoke(sent))
    [span] = exporter.get_finished_spans()
    "".join(map(str, (span.attributes or {}).values())).encode()


def test_some_tools_come_back_as_they_were_given(traced: Any) -> None:
    """A tool, an iterable and a toolset are instrumented alike, and come back as a tool, a list and a toolset."""
    one, several = traced(double), traced(iter([double]))
    toolset = traced(Toolset([double], max_concurrency=3))

    assert one.name == "double"
    assert [tool.name for tool in several] == ["double"] and isinstance(several, list)
    assert isinstance(toolset, Toolset)
    assert ([*toolset], toolset.max_concurrency) == (["double"], 3)
    with pytest.raises(DefinitionError, match="two tools are named 'double'"):
        traced([double, double])


def test_span_of_a_call(exporter: InMemorySpanExporter, traced: Any) -> None:
    """A call is one internal span with the names of the conventions, and neither arguments nor result."""
    result = call(traced(double), {"number": 21})

    (span,) = exporter.get_finished_spans()
    assert result.value == 42
    assert (span.name, span.kind) == ("execute_tool double", SpanKind.INTERNAL)
    assert span.status.status_code == StatusCode.UNSET
    assert dict(span.attributes) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "double",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.description": "Double a number.",
        "gen_ai.tool.call.id": "c1",
    }


@pytest.mark.parametrize("arguments", [{"number": 21}, '{"number":21}'])
def test_content_only_when_asked_for(
    exporter: InMemorySpanExporter, traced: Any, arguments: Any
) -> None:
    """With `content` the arguments and the result are recorded, as JSON."""
    call(traced(double, content=True), arguments)

    (span,) = exporter.get_finished_spans()
    assert span.attributes["gen_ai.tool.call.arguments"] == '{"number":21}'
    assert span.attributes["gen_ai.tool.call.result"] == "42"


def test_failure_is_recorded(exporter: InMemorySpanExporter, traced: Any) -> None:
    """A failure sets the status and `error.type`; its message, which may quote an argument, only with `content`."""
    call(traced(double), {"number": -70000000001})
    call(traced(double), {"number": "x"})
    call(traced(double, content=True), {"number": -70000000001})

    failed, invalid, told = exporter.get_finished_spans()
    assert [span.status.status_code for span in (failed, invalid, told)] == [StatusCode.ERROR] * 3
    types = [span.attributes["error.type"] for span in (failed, invalid, told)]
    assert types == ["ValueError", "ArgumentError", "ValueError"]
    # A short number would be found in the ids of the span, too.
    assert "70000000001" not in failed.to_json()
    assert told.status.description == "ValueError: -70000000001 is negative"


def test_refusals_are_recorded(exporter: InMemorySpanExporter, traced: Any) -> None:
    """What guardrails did is in the span: a refusal as its error, each deed as an event."""

    def no_threes(call: ToolCall, context: Context) -> None:
        if call.arguments["number"] == 3:
            raise GuardrailError("No threes.")

    given = {"input_guardrails": [no_threes], "output_guardrails": [redact(["4"])]}
    tool = traced(FunctionTool(double.func, **given))
    call(tool, {"number": 3})
    call(tool, {"number": 2})

    refused, redacted = exporter.get_finished_spans()
    assert refused.attributes["error.type"] == "GuardrailError"
    assert [dict(event.attributes) for event in refused.events] == [
        {
            "functool.guardrail.name": "no_threes",
            "functool.guardrail.stage": "input",
            "functool.guardrail.did": "refused",
        }
    ]
    assert "error.type" not in redacted.attributes
    assert [event.attributes["functool.guardrail.did"] for event in redacted.events] == ["replaced"]


@pytest.mark.parametrize("own", ["mine", ["mine"]])
def test_a_body_may_have_metadata_of_its_own(
    exporter: InMemorySpanExporter, traced: Any, own: Any
) -> None:
    """Metadata that does not look like that of guardrails changes neither the span nor the result."""
    answer = ToolResult.of("done", metadata={"guardrails": own})
    result = call(traced(FunctionTool(lambda: answer, name="own")), {})

    assert (result.error, result.text) == (None, "done")
    assert list(exporter.get_finished_spans()[0].events) == []


def test_pending_approval_is_recorded(exporter: InMemorySpanExporter, traced: Any) -> None:
    """A call that waits for a person ends its span with that error type, and the wrapped tool still says that it may ask."""
    tool = traced(FunctionTool(double.func, input_guardrails=[require_approval()]))
    call(tool, {"number": 3})

    assert tool.requires_approval
    assert exporter.get_finished_spans()[0].attributes["error.type"] == "ApprovalRequired"


def test_tripwire_is_recorded_and_raised(exporter: InMemorySpanExporter, traced: Any) -> None:
    """A tripwire ends its span with an error and leaves the call."""
    with pytest.raises(Tripwire, match="Stop everything"):
        call(traced(stopped))

    (span,) = exporter.get_finished_spans()
    assert span.attributes["error.type"] == "Tripwire"
    assert span.status.status_code == StatusCode.ERROR


@pytest.mark.parametrize(("content", "said"), [(False, "Tripwire"), (True, "Stop everything")])
def test_the_message_of_a_tripwire_is_content(
    exporter: InMemorySpanExporter, provider: TracerProvider, content: bool, said: str
) -> None:
    """A tripwire may quote the call that it stopped, so its message is recorded with `content` only."""
    with pytest.raises(Tripwire):
        call(instrument(stopped, content=content, tracer_provider=provider))

    (span,) = exporter.get_finished_spans()
    assert said in (span.status.description or "")
    assert ("Stop everything" in span.to_json()) is content


def test_cancelled_call_ends_its_span(exporter: InMemorySpanExporter, traced: Any) -> None:
    """A call that its caller cancels ends its span, and the cancellation passes."""

    def start(tool: FunctionTool) -> Any:
        return lambda: traced(tool).invoke(ToolCall(name="wait"))

    assert cleaned_up_when_cancelled(start) == ["done"]
    assert exporter.get_finished_spans()[0].attributes["error.type"] == "CancelledError"


def test_spans_nest(exporter: InMemorySpanExporter, traced: Any) -> None:
    """A tool that is called inside another one, on a thread too, has its span below that one's."""
    tools, inner = Toolset([traced(double)]), ToolCall(name="double", arguments={"number": 4})

    def runner(agent: Any, text: str, context: Context) -> str:
        return tools.call_sync(inner, context).text

    outer = traced(AgentTool("a", "expert", "d", runner=runner))

    assert call(outer, {"input": "x"}).text == "8"
    below, above = exporter.get_finished_spans()
    assert (below.name, above.name) == ("execute_tool double", "execute_tool expert")
    assert below.parent.span_id == above.context.span_id


def test_toolset(exporter: InMemorySpanExporter, traced: Any) -> None:
    """A toolset is instrumented tool by tool; its order and its limit stay."""
    tools = traced(Toolset([double, FunctionTool(double.func, name="again")], max_concurrency=3))
    calls = [ToolCall(name=n, arguments={"number": 1}, id=n) for n in ("again", "double")]
    results = tools.call_all_sync(calls)

    assert (list(tools), tools.max_concurrency) == (["double", "again"], 3)
    assert [result.call_id for result in results] == ["again", "double"]
    names = sorted(span.name for span in exporter.get_finished_spans())
    assert names == ["execute_tool again", "execute_tool double"]


@pytest.mark.parametrize("sampler", [None, ALWAYS_OFF])
def test_nothing_is_built_without_a_provider(sampler: Any) -> None:
    """Without a provider, or when the sampler leaves the call out, no span is current and the answer is the same."""
    current: list[bool] = []

    @FunctionTool
    async def look() -> str:
        """Look."""
        current.append(get_current_span().get_span_context().is_valid)
        return "x"

    given = TracerProvider(sampler=sampler) if sampler else None
    tool = instrument(look, content=True, tracer_provider=given)

    assert call(tool, {}).text == "x"
    assert current == [False]
