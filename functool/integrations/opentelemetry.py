"""Trace calls with OpenTelemetry: an `execute_tool` span each, by the GenAI conventions.

If the span is not recorded, for example without a provider, no attribute is computed and no span
becomes current. The attribute names are written out here, because the GenAI conventions moved out
of the package that had them as constants.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, overload

from functool import Context, Tool, ToolCall, ToolResult, Tripwire, WrapperTool
from functool.call import cut_str, metadata_of, to_json, valid_text
from functool.layers import some_tools

try:
    from opentelemetry.trace import (
        Span,
        SpanKind,
        Status,
        StatusCode,
        Tracer,
        TracerProvider,
        get_tracer,
        use_span,
    )
except ImportError as _error:
    raise ImportError(
        "the OpenTelemetry integration needs: pip install 'functool[opentelemetry]'"
    ) from _error


@overload
def instrument(
    target: Tool, *, content: bool = False, tracer_provider: TracerProvider | None = None
) -> Tool: ...
@overload
def instrument(  # type: ignore[overload-overlap]
    target: some_tools.SameKind,
    *,
    content: bool = False,
    tracer_provider: TracerProvider | None = None,
) -> some_tools.SameKind: ...
@overload
def instrument(
    target: Iterable[Tool], *, content: bool = False, tracer_provider: TracerProvider | None = None
) -> list[Tool]: ...
def instrument(
    target: Any, *, content: bool = False, tracer_provider: TracerProvider | None = None
) -> Any:
    """Return the tools, changed so that their calls are traced. A toolset gives a toolset.

    A failure or a refusal sets the status of the span, and `error.type` to the type of the failure.
    Arguments and results are recorded only with `content`, because they may hold private data.
    """
    tracer = get_tracer("functool", tracer_provider=tracer_provider)
    return some_tools.each(target, lambda tool: _Traced(tool, tracer, content))


class _Traced(WrapperTool):
    def __init__(self, tool: Tool, tracer: Tracer, content: bool) -> None:
        super().__init__(tool)
        self._tracer = tracer
        self._content = content

    async def run(self, call: ToolCall, context: Context[Any]) -> ToolResult:
        span = self._tracer.start_span(
            f"execute_tool {self.name}",
            kind=SpanKind.INTERNAL,
            attributes={"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": self.name},
        )
        if not span.is_recording():
            return await super().run(call, context)
        # Failures are in the result. An exception's message may quote an argument or a result, so
        # that of a tripwire is content. No other exception has a message for a trace.
        with use_span(
            span, end_on_exit=True, record_exception=False, set_status_on_exception=False
        ):
            self._describe(span, call)
            try:
                result = await super().run(call, context)
            except BaseException as raised:  # The span of a cancelled call has to say so.
                span.set_attribute("error.type", type(raised).__name__)
                is_told = self._content and isinstance(raised, Tripwire)
                said = cut_str(raised) if is_told else type(raised).__name__
                span.set_status(Status(StatusCode.ERROR, said))
                raise
            self._conclude(span, result)
            return result

    def _describe(self, span: Span, call: ToolCall) -> None:
        span.set_attributes(
            {"gen_ai.tool.type": "function", "gen_ai.tool.description": self.schema.description}
        )
        if call.id:
            span.set_attribute("gen_ai.tool.call.id", cut_str(call.id))
        if self._content:
            sent: Any = call.arguments  # The tool has not checked them yet.
            plain = dict(sent) if isinstance(sent, Mapping) else sent
            text = plain if isinstance(plain, str) else to_json(plain)
            span.set_attribute("gen_ai.tool.call.arguments", valid_text(text))

    def _conclude(self, span: Span, result: ToolResult) -> None:
        if result.error is not None:
            span.set_attribute("error.type", result.error.type)
            # The message may quote an argument or a result.
            span.set_status(
                Status(StatusCode.ERROR, result.error.message if self._content else None)
            )
        if self._content:
            span.set_attribute("gen_ai.tool.call.result", result.text)
        noted = metadata_of(result).get("guardrails")
        deeds = noted if isinstance(noted, list) else []  # A body may use the name for its own.
        for deed in (each for each in deeds if isinstance(each, dict)):
            span.add_event(
                "guardrail",
                {f"functool.guardrail.{key}": str(value) for key, value in deed.items()},
            )
