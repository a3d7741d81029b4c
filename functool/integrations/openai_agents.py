"""Bridge to openai-agents: our tools in its agents, its tools in functool, its agents as tools.

An exported tool finds the run's own context object as `context.deps`. If that object is a functool
`Context`, the tool gets that context. Otherwise all calls of one run share one new context, so a
rate limit per context holds for the run.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from typing import Any

from functool import (
    Content,
    Context,
    FileContent,
    GuardrailError,
    ImageContent,
    TextContent,
    Tool,
    ToolCall,
    ToolError,
    ToolResult,
    ToolSettings,
    ToolTimeoutError,
    Tripwire,
)
from functool.call import to_json
from functool.dialects import openai
from functool.guardrails import require_approval
from functool.integrations._agents import (
    answer_to,
    missing,
    passed_unasked,
    passes_unasked,
    relayed,
    stopping_with,
)
from functool.integrations._runs import Runs
from functool.integrations.values import json_or_text, opened
from functool.layers.some_tools import Tools, as_list, one_native, one_tool

try:
    from agents import (
        AgentsException,
        FunctionTool,
        ToolInputGuardrailData,
        ToolOriginType,
        ToolOutputFileContent,
        ToolOutputGuardrailData,
        ToolOutputImage,
        ToolOutputText,
        default_tool_error_function,
    )
    from agents.exceptions import ToolTimeoutError as TimedOut
    from agents.run_context import RunContextWrapper
    from agents.tool import (
        ValidToolOutputPydanticModelsTypeAdapter,
        get_function_tool_origin,
        invoke_function_tool,
        resolve_function_tool_failure_error_function,
        set_function_tool_failure_error_function,
    )
    from agents.tool_context import ToolContext
    from openai.types.responses import ResponseFunctionToolCall
    from pydantic import ValidationError

    from functool.integrations.openai_agents_runner import runner
except ImportError as _error:
    raise missing("openai-agents", "openai-agents") from _error

__all__ = ["RunStopped", "adopt", "export", "export_all", "runner"]

_runs = Runs()


class RunStopped(Tripwire, AgentsException):
    """A `Tripwire` that ends a run of openai-agents. `Runner.run` raises it unchanged."""


def export(tool: Tool) -> FunctionTool:
    """Return `tool` as a tool of openai-agents.

    The model reads a failure as the result, and the run goes on. A `Tripwire` ends the run as
    `RunStopped`. A tool that may ask for approval interrupts the run, unless the run's functool
    `Context` has an approver, or a grant that covers the call. A condition of the approval is
    evaluated before the other guardrails have seen the call. If it fails, a person is asked.

    Raises:
        TypeError: `tool` is not a tool.
    """
    schema = one_tool(tool).schema

    async def invoke(run: ToolContext[Any], arguments: str) -> Any:
        context = _context_of(run)
        call = ToolCall(name=tool.name, arguments=arguments, id=run.tool_call_id)
        # In a `tool_namespace` the framework keeps the answer under the qualified name.
        name = run.qualified_tool_name
        passed_unasked(call, context)
        if tool.requires_approval and run.is_tool_approved(name, run.tool_call_id):
            context = relayed(tool, call, context)
        with stopping_with(RunStopped):
            result = await answer_to(tool, call, context)
        return _output(result)

    async def needs_approval(
        run: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str
    ) -> bool:
        context = _context_of(run)
        return context.approver is None and not await passes_unasked(
            tool, arguments, call_id, context
        )

    def is_enabled(run: RunContextWrapper[Any], agent: Any) -> bool:
        return tool.is_enabled(_context_of(run))

    return FunctionTool(
        name=tool.name,
        description=schema.description,
        params_json_schema=copy.deepcopy(schema.parameters),
        on_invoke_tool=invoke,
        strict_json_schema=schema.strict,
        is_enabled=is_enabled,
        needs_approval=needs_approval if tool.requires_approval else False,
    )


def export_all(tools: Tools) -> list[FunctionTool]:
    """Return each of some tools as a tool of openai-agents."""
    return [export(tool) for tool in as_list(tools)]


def adopt(native: FunctionTool) -> Tool:
    """Return a tool of openai-agents as a functool tool, with its approval and its guardrails.

    A tool of `agent.as_tool()` fails if a call of its agent waits for a person. `AgentTool` waits.

    Raises:
        DefinitionError: It is not a `FunctionTool` of openai-agents. Its hosted tools cannot be
            called from here.
    """
    one_native(native, FunctionTool, "agents.function_tool makes one")
    return _Adopted(native)


class _Adopted(Tool):
    def __init__(self, native: FunctionTool) -> None:
        enabled = native.is_enabled
        super().__init__(
            name=native.name,
            description=native.description,
            parameters=native.params_json_schema,
            strict=native.strict_json_schema,
            settings=ToolSettings(is_enabled=enabled if isinstance(enabled, bool) else True),
            input_guardrails=_input_guardrails(native),
            output_guardrails=[
                self._translated(guardrail) for guardrail in native.tool_output_guardrails or ()
            ],
        )
        origin = get_function_tool_origin(native)
        self._is_agent = origin is not None and origin.type is ToolOriginType.AGENT_AS_TOOL
        # Use a copy that raises its errors. `on_error` asks the author's function for the text.
        self._error_function = resolve_function_tool_failure_error_function(native)
        self._native = set_function_tool_failure_error_function(copy.copy(native), None)
        as_result = native.timeout_behavior == "error_as_result"
        self._timeout_function = native.timeout_error_function if as_result else None
        self._native.timeout_behavior = "raise_exception"

    async def run(self, call: ToolCall, context: Context[Any]) -> ToolResult:
        about = _native_context(call, context)
        try:
            value = await invoke_function_tool(
                function_tool=self._native, context=about, arguments=_text(call)
            )
        except TimedOut as late:
            author = self._timeout_function
            text = str(late) if author is None else await _maybe(author(about, late))
            raise ToolTimeoutError(text) from late
        if value is None and self._is_agent:
            raise ToolError("The agent waits for a person, and cannot go on as an adopted tool.")
        return _result(value)

    async def on_error(self, error: Exception, context: Context[Any]) -> ToolResult:
        error_function = self._error_function
        if (
            error_function is None
            or error_function is default_tool_error_function
            or isinstance(error, ToolError)
            or context.call is None
        ):
            return await super().on_error(error, context)
        return ToolResult.failed(
            await _maybe(error_function(_native_context(context.call, context), error)),
            type=type(error).__name__,
        )

    def _translated(self, guardrail: Any) -> Any:
        async def check(result: ToolResult, context: Context[Any]) -> None:
            assert context.call is not None
            data = ToolOutputGuardrailData(
                context=_native_context(context.call, context), agent=None, output=result.value
            )  # type: ignore[arg-type]
            _obey((await guardrail.run(data)).behavior)

        return check


def _input_guardrails(native: FunctionTool) -> list[Any]:
    async def ask_enabled(call: ToolCall, context: Context[Any]) -> None:
        enabled: Any = native.is_enabled
        if not await _maybe(enabled(_native_context(call, context), None)):
            raise GuardrailError(f"The tool {native.name!r} is not available here.")

    async def needs_approval(call: ToolCall, context: Context[Any]) -> bool:
        needs, arguments = native.needs_approval, call.arguments
        if isinstance(needs, bool):
            return needs
        # The framework accepts a sync function as well.
        asked: Any = needs
        return bool(await _maybe(asked(_native_context(call, context), arguments, call.id)))

    def translated(guardrail: Any) -> Any:
        async def check(call: ToolCall, context: Context[Any]) -> None:
            nobody: Any = None
            data = ToolInputGuardrailData(context=_native_context(call, context), agent=nobody)
            _obey((await guardrail.run(data)).behavior)

        return check

    guardrails: list[Any] = [] if isinstance(native.is_enabled, bool) else [ask_enabled]
    guardrails += [translated(guardrail) for guardrail in native.tool_input_guardrails or ()]
    return guardrails + ([require_approval(needs_approval)] if native.needs_approval else [])


def _obey(behavior: Mapping[str, Any]) -> None:
    if behavior["type"] == "reject_content":
        raise GuardrailError(behavior["message"])
    if behavior["type"] == "raise_exception":
        raise Tripwire("a guardrail of the tool stopped the run")


def _context_of(run: RunContextWrapper[Any]) -> Context[Any]:
    """Return the context of a run, the same one for all its calls.

    It is found by the object that counts the run's usage, which lives as long as the run.
    """
    if isinstance(run.context, Context):
        return run.context
    return _runs.context_of(run.usage).view(deps=run.context)


def _native_context(call: ToolCall, context: Context[Any]) -> ToolContext[Any]:
    item = ResponseFunctionToolCall(
        name=call.name, arguments=_text(call), call_id=call.id, type="function_call"
    )
    return ToolContext(
        context.deps,
        tool_name=call.name,
        tool_call_id=call.id,
        tool_arguments=item.arguments,
        tool_call=item,
    )


def _text(call: ToolCall) -> str:
    arguments = call.arguments
    return arguments if isinstance(arguments, str) else to_json(dict(arguments))


async def _maybe(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def _output(result: ToolResult) -> Any:
    # The dialect knows what the Responses API takes: anything else would end the run.
    sent = openai.result(result)["output"]
    return sent if isinstance(sent, str) else [_part(**part) for part in sent]


def _part(type: str, **fields: Any) -> Any:
    kinds: dict[str, Any] = {"input_image": ToolOutputImage, "input_file": ToolOutputFileContent}
    return kinds.get(type, ToolOutputText)(**fields)


def _result(value: Any) -> ToolResult:
    parts = [_typed(part) for part in (value if isinstance(value, list | tuple) else [value])]
    if not any(
        isinstance(part, ToolOutputText | ToolOutputImage | ToolOutputFileContent) for part in parts
    ):
        return ToolResult.of(value)
    return ToolResult(output=[_content(part) for part in parts], value=value)


def _typed(part: Any) -> Any:
    """Return a dict as content if the framework reads it so, such as `{"type": "image", ...}`."""
    try:
        is_named = isinstance(part, dict) and "type" in part
        return ValidToolOutputPydanticModelsTypeAdapter.validate_python(part) if is_named else part
    except ValidationError:
        return part


def _content(part: Any) -> Content:
    match part:
        case ToolOutputText(text=text):
            return TextContent(text=text)
        case ToolOutputImage(image_url=str(url)):
            return ImageContent(**opened(url))
        case ToolOutputFileContent(file_data=str(url)) | ToolOutputFileContent(file_url=str(url)):
            return FileContent(**opened(url), name=part.filename)
        case ToolOutputImage() | ToolOutputFileContent():
            return FileContent(uri=f"openai-file:{part.file_id}")
        case _:
            return TextContent(text=json_or_text(part))
