"""Bridge to openai-agents: our tools in its agents, its tools in functool, its agents as tools.

An exported tool finds the run's own context object as `context.deps`. If that object is a functool
`Context`, the tool gets that context. Otherwise all calls of one run share one new context, so a
rate limit per context holds for the run.
"""

from __future__ import annotations

import copy
import inspect
import json
import weakref
from collections.abc import Mapping
from typing import Any

from functool import (
    AudioContent,
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
from functool.content import data_url
from functool.guardrails import require_approval
from functool.integrations._agents import (
    USAGE,
    answer_to,
    as_it_was,
    asker,
    decide,
    key_of,
    missing,
    put_aside,
    relayed,
    taken_up,
)
from functool.integrations.values import json_or_text, opened, text_of, texts_only
from functool.layers.some_tools import Tools, as_list, one_native, one_tool

try:
    from agents import (
        Agent,
        AgentsException,
        FunctionTool,
        Runner,
        RunState,
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
        get_function_tool_origin,
        invoke_function_tool,
        resolve_function_tool_failure_error_function,
        set_function_tool_failure_error_function,
    )
    from agents.tool_context import ToolContext
    from openai.types.responses import ResponseFunctionToolCall
except ImportError as _error:
    raise missing("openai-agents", "openai-agents") from _error

_contexts: dict[int, Context[Any]] = {}


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
    asks = asker(tool) if tool.requires_approval else None

    async def invoke(run: ToolContext[Any], arguments: str) -> Any:
        context = _context_of(run)
        call = ToolCall(name=tool.name, arguments=arguments, id=run.tool_call_id)
        # In a `tool_namespace` the framework keeps the answer under the qualified name.
        name = run.qualified_tool_name
        if tool.requires_approval and run.is_tool_approved(name, run.tool_call_id):
            context = relayed(tool, call, context)
        try:
            result = await answer_to(tool, call, context)
        except Tripwire as tripwire:
            raise RunStopped(str(tripwire)) from tripwire
        return _output(result)

    async def needs_approval(
        run: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str
    ) -> bool:
        context = _context_of(run)
        return (
            asks is not None
            and context.approver is None
            and await asks(arguments, call_id, context)
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


async def runner(agent: Agent[Any], text: str, context: Context[Any], **options: Any) -> ToolResult:
    """Run an agent of openai-agents. Pass this as the runner of an `AgentTool`.

    `context.deps` is the run's context object, `context.thread` is its session, and `options` go to
    `Runner.run`. If the context has listeners, the run's stream events are sent as `tool:progress`.
    If a tool of the agent waits for approval, this call waits as well. The same call, made again,
    goes on where the agent stopped.

    Raises:
        ApprovalRequired: A person has to approve a call that the agent made.
    """
    key = key_of(__name__, context, text)
    start, decided_ids = taken_up(context, key) or (text, set())
    while True:
        if isinstance(start, RunState):
            try:
                await _settle(start, decided_ids, context)
            except BaseException:  # Nothing has run: the same call may go on here later.
                put_aside(context, key, (start, decided_ids))
                raise
        run = await _run(agent, start, context, options)
        if not run.interruptions:
            break
        start = run.to_state()
    used = run.context_wrapper.usage
    return ToolResult.of(
        run.final_output,
        metadata={"usage": {name: getattr(used, name) for name in USAGE}, "run": run},
    )


async def _run(
    agent: Agent[Any], start: Any, context: Context[Any], options: dict[str, Any]
) -> Any:
    given = {"context": context.deps, "session": context.thread, **options}
    if isinstance(start, RunState):
        del given["context"]  # A state brings the context it was made with.
    if not context.listened:
        return await Runner.run(agent, start, **given)
    run = Runner.run_streamed(agent, start, **given)
    async for event in run.stream_events():
        context.emit("tool:progress", value=event)
    return run


async def _settle(state: RunState[Any], decided_ids: set[str], context: Context[Any]) -> None:
    """Approve or reject the calls that wait, by the decisions of this context."""
    for item in state.get_interruptions():
        if item.call_id in decided_ids:
            continue
        call = ToolCall(
            name=item.name or "", arguments=_object(item.arguments), id=item.call_id or ""
        )
        answer = as_it_was(await decide(call, context))
        if answer is True:
            state.approve(item)
        else:
            state.reject(item, rejection_message=str(answer))
        decided_ids.add(call.id)


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
    key = id(run.usage)
    context = _contexts.get(key)
    if context is None:
        context = _contexts[key] = Context(run.context)
        weakref.finalize(run.usage, _contexts.pop, key, None).atexit = False
    return context


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


def _object(arguments: str | None) -> dict[str, Any]:
    """Return the unvalidated arguments as an object that a person can be shown."""
    try:
        shown = json.loads(arguments or "{}")
    except ValueError:
        shown = arguments
    return shown if isinstance(shown, dict) else {"arguments": shown}


async def _maybe(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def _output(result: ToolResult) -> Any:
    if texts_only(result.output):
        return result.text
    parts = [_part(part) for part in result.output]
    return [ToolOutputText(text=result.error.message), *parts] if result.error else parts


def _part(part: Content) -> Any:
    match part:
        case TextContent(text=text):
            return ToolOutputText(text=text)
        case ImageContent():
            return ToolOutputImage(image_url=data_url(part))
        case FileContent(data=None, uri=uri):
            return ToolOutputFileContent(file_url=uri, filename=part.name)
        case FileContent():
            return ToolOutputFileContent(file_data=data_url(part), filename=part.name)
        case AudioContent():  # The Responses API accepts no sound from a tool.
            return ToolOutputText(text=text_of(part))


def _result(value: Any) -> ToolResult:
    parts = value if isinstance(value, list) else [value]
    if not any(
        isinstance(part, ToolOutputText | ToolOutputImage | ToolOutputFileContent) for part in parts
    ):
        return ToolResult.of(value)
    return ToolResult(output=[_content(part) for part in parts], value=value)


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
