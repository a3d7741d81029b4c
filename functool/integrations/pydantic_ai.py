"""pydantic-ai: functool tools in its agents, its tools in functool, its agents behind `AgentTool`.

An exported tool finds the run's `deps` as `context.deps`, or, where those are a functool `Context`,
gets that itself. Otherwise all calls of one run share one context, so that a rate limit per context
holds for the run.
"""

from __future__ import annotations

import copy
import inspect
import weakref
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, SchemaValidator, core_schema, to_json

from functool import (
    ApprovalRequest,
    ApprovalRequired,
    ArgumentError,
    AudioContent,
    Content,
    Context,
    FileContent,
    GuardrailError,
    ImageContent,
    TextContent,
    Tool,
    ToolCall,
    ToolDisabledError,
    ToolError,
    ToolEvent,
    ToolResult,
    Toolset,
    ToolSettings,
)
from functool.guardrails import require_approval
from functool.integrations._agents import (
    USAGE,
    argument_error,
    decided,
    edit_refusal,
    key_of,
    relayed,
)

try:
    import pydantic_ai
    from pydantic_ai import (
        AudioUrl,
        BinaryContent,
        CustomEvent,
        DeferredToolRequests,
        DeferredToolResults,
        DocumentUrl,
        FunctionToolset,
        ImageUrl,
        ModelRetry,
        RunContext,
        ToolDefinition,
        ToolDenied,
        ToolFailed,
        ToolReturn,
    )
    from pydantic_ai._function_schema import FunctionSchema  # `Tool` takes one publicly.
    from pydantic_ai.conversation import Conversation
    from pydantic_ai.exceptions import ApprovalRequired as Paused
    from pydantic_ai.exceptions import CallDeferred, UserError
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.usage import RunUsage
except ImportError as error:
    raise ImportError(
        "the pydantic-ai integration needs: pip install 'functool[pydantic-ai]'"
    ) from error

# Anything but an object would be a TypeError, which ends the run.
_ARGUMENTS = SchemaValidator(core_schema.dict_schema(core_schema.str_schema()))


@dataclass(kw_only=True)
class ToolProgressEvent(CustomEvent, name="functool_progress"):  # type: ignore[call-arg]
    """An event of a functool tool in the event stream of pydantic-ai."""

    what: str = "tool:progress"
    details: dict[str, Any] = field(default_factory=dict)


def export(tool: Tool) -> pydantic_ai.Tool[Any]:
    """Return `tool` as a tool of pydantic-ai.

    Arguments that do not fit ask the model to try again (`ModelRetry`, which the agent's retries
    limit); every other failure is what the model reads (`ToolFailed`). A `Tripwire` leaves the run.
    A call that waits for approval is deferred, and runs once it is approved;
    `metadata["approval"]`, passed back with the approval, binds it to that very call.
    """
    schema = tool.schema

    async def function(run: RunContext[Any], /, **arguments: Any) -> Any:
        return await entry.call(arguments, run)

    async def prepare(run: RunContext[Any], definition: ToolDefinition) -> ToolDefinition | None:
        enabled = tool.settings.is_enabled
        return (
            definition
            if (enabled(_shared(run).context) if callable(enabled) else enabled)
            else None
        )

    entry = _Entry(
        tool=tool,
        function=function,
        name=tool.name,
        description=schema.description,
        validator=_ARGUMENTS,
        json_schema=copy.deepcopy(schema.parameters),
        return_schema=copy.deepcopy(schema.output) or {},
        takes_ctx=True,
        is_async=True,
    )
    return pydantic_ai.Tool(
        function,
        name=tool.name,
        function_schema=entry,
        prepare=None if tool.settings.is_enabled is True else prepare,
        strict=schema.strict or None,
        sequential=tool.settings.is_exclusive,
    )


def export_all(toolset: Toolset) -> list[pydantic_ai.Tool[Any]]:
    """Return every tool of `toolset` as a tool of pydantic-ai."""
    return [export(tool) for tool in toolset.values()]


def adopt(native: pydantic_ai.Tool[Any]) -> Tool:
    """Return a tool of pydantic-ai as a functool tool; its approval and its time limit come along."""
    return _Adopted(native)


async def runner(agent: Any, text: str, context: Context[Any], **options: Any) -> ToolResult:
    """Run an agent of pydantic-ai: the runner for `AgentTool`.

    `context.deps` are the run's deps; `context.thread` is a `Conversation` or a list of messages,
    which grows by the run; `options` go to `Agent.iter`. While somebody listens, the events of the
    agent's own tool calls are sent as `tool:progress`. A tool of the agent that waits for approval
    makes this call wait for it, and the same call goes on where the agent stopped.

    Raises:
        ApprovalRequired: A person has to agree to a call that the agent made.
    """
    key = key_of(__name__, context, text)
    paused: tuple[Any, DeferredToolResults] | None = context.state.pop(key, None)
    while True:
        if paused is None:
            run = await _run(agent, context, text, **_history(context.thread), **options)
        else:
            before, results = paused
            try:
                await _settle(before.output, results, context)
            except ApprovalRequired:
                context.state[key] = paused
                raise
            history = {
                "message_history": before.all_messages(),
                "usage": before.usage,
                "deferred_tool_results": results,
            }
            run = await _run(agent, context, None, **history, **options)
        if not isinstance(run.output, DeferredToolRequests):
            break
        if run.output.calls:
            raise ToolError(
                "The agent called a tool that runs outside of it, which nobody here can answer."
            )
        paused = run, DeferredToolResults()
    _remember(context.thread, run)
    return ToolResult.of(
        run.output,
        metadata={"usage": {name: getattr(run.usage, name) for name in USAGE}, "run": run},
    )


async def _run(agent: Any, context: Context[Any], prompt: str | None, **options: Any) -> Any:
    given = {"deps": context.deps, **options}
    outputs = agent.output_type if isinstance(agent.output_type, Sequence) else [agent.output_type]
    async with AsyncExitStack() as stack:
        try:
            pausing = (
                {"output_type": [*outputs, DeferredToolRequests]}
                if DeferredToolRequests not in outputs
                else {}
            )
            run = await stack.enter_async_context(agent.iter(prompt, **{**pausing, **given}))
        except (
            UserError
        ):  # An agent with output validators pauses only if its own output type says so.
            run = await stack.enter_async_context(agent.iter(prompt, **given))
        async for node in run:
            if context.listened and pydantic_ai.Agent.is_call_tools_node(node):
                async with node.stream(run.ctx) as events:
                    async for event in events:
                        context.emit("tool:progress", value=event)
        return run.result


async def _settle(
    requests: DeferredToolRequests, results: DeferredToolResults, context: Context[Any]
) -> None:
    """Answer what the agent waits for, by the decisions of this context."""
    for part in requests.approvals:
        if part.tool_call_id not in results.approvals:
            call = ToolCall(
                name=part.tool_name, arguments=part.args_as_dict(), id=part.tool_call_id
            )
            answer = await decided(call, context)
            results.approvals[call.id] = True if answer is True else ToolDenied(str(answer))


def _history(thread: Any) -> dict[str, Any]:
    if thread is None:
        return {}
    return (
        {"conversation": thread}
        if isinstance(thread, Conversation)
        else {"message_history": thread}
    )


def _remember(thread: Any, run: Any) -> None:
    if isinstance(thread, Conversation):
        vars(thread).update(vars(run.conversation))
    elif thread is not None:
        thread[:] = run.all_messages()


class _Adopted(Tool):
    def __init__(self, native: pydantic_ai.Tool[Any]) -> None:
        super().__init__(
            name=native.name,
            description=native.description or "",
            parameters=native.function_schema.json_schema,
            output=native.function_schema.return_schema or None,
            settings=ToolSettings(is_exclusive=native.sequential),
            input_guardrails=[require_approval()] if native.requires_approval else [],
        )
        self._tools: FunctionToolset[Any] = FunctionToolset([native])

    async def run(self, call: ToolCall, context: Context[Any]) -> ToolResult:
        run = RunContext(
            deps=context.deps,
            model=TestModel(),  # The call has no model; the field has no None.
            usage=RunUsage(),
            tool_name=call.name,
            tool_call_id=call.id,
            tool_call_approved=bool(self.requires_approval),
        )
        tool = next(iter((await self._tools.get_tools(run)).values()), None)
        if tool is None:
            raise ToolDisabledError(f"The tool {call.name!r} is disabled.")
        try:
            arguments = tool.args_validator.validate_json(ToolResult.of(dict(call.arguments)).text)  # type: ignore[arg-type]
        except ValidationError as invalid:
            raise argument_error(invalid) from invalid
        try:
            return _result(await self._native_approved(tool, arguments, run, call, context))
        except (ModelRetry, ToolFailed) as failure:
            raise ToolError(failure.message) from failure
        except CallDeferred as deferred:
            raise ToolError(
                "The tool leaves its work to somebody outside of this program."
            ) from deferred

    async def _native_approved(
        self,
        tool: Any,
        arguments: dict[str, Any],
        run: RunContext[Any],
        call: ToolCall,
        context: Context[Any],
    ) -> Any:
        """Call the native tool; once more, when it asks for approval as it runs and a person agrees."""
        try:
            # Its own `prepare` may have made it one that needs approval.
            if tool.tool_def.kind == "unapproved" and not run.tool_call_approved:
                raise Paused
            return await self._native_call(tool, arguments, run)
        except Paused:
            edited = await require_approval()(call, context)  # type: ignore[misc]
            if edited is not None:  # What a person approves is what runs, and this cannot take it.
                raise GuardrailError(edit_refusal(edited)) from None
            run.tool_call_approved = True
            return await self._native_call(tool, arguments, run)

    async def _native_call(self, tool: Any, arguments: dict[str, Any], run: RunContext[Any]) -> Any:
        if tool.args_validator_func is not None:
            checked = tool.args_validator_func(run, **arguments)
            if inspect.isawaitable(checked):
                await checked
        return await self._tools.call_tool(tool.tool_def.name, arguments, run, tool)


@dataclass(kw_only=True)
class _Entry(FunctionSchema):
    """Where pydantic-ai enters a tool.

    Its own entry spreads the arguments into keywords; here they stay one mapping.
    """

    tool: Tool

    async def call(self, args_dict: dict[str, Any], ctx: RunContext[Any]) -> Any:
        tool, shared = self.tool, _shared(ctx)
        arguments: Any = args_dict
        # Text is checked at once; what JSON cannot say, a hook's doing, is the tool's to judge.
        try:
            arguments = to_json(args_dict).decode()
        except (PydanticSerializationError, UnicodeEncodeError):
            pass
        call = ToolCall(name=self.name, arguments=arguments, id=ctx.tool_call_id or "")
        context = (
            relayed(tool, call, shared.context, _shown(ctx))
            if ctx.tool_call_approved
            else shared.context
        )
        shared.calls[call.id] = ctx
        try:
            result = await tool.invoke(call, context)
        finally:
            del shared.calls[call.id]
        return _output(result)


class _Shared:
    """What the calls of one run share: a context, whose events go to the run's own stream."""

    def __init__(self, deps: Any) -> None:
        self.context: Context[Any] = deps if isinstance(deps, Context) else Context(deps)
        self.calls: dict[str, RunContext[Any]] = {}
        self.forget = self.context.subscribe(self._forward)

    async def _forward(self, event: ToolEvent) -> None:
        if (run := self.calls.get(event.call_id)) is not None:
            await run.emit(
                ToolProgressEvent(
                    tool_call_id=event.call_id, what=event.kind, details=dict(event.data)
                )
            )


_runs: dict[tuple[int, int], _Shared] = {}


def _shared(run: RunContext[Any]) -> _Shared:
    """Return what belongs to a run: the object that counts its usage lives as long as the run does.

    An agent that runs inside another one may share that object, but has deps of its own.
    """
    key = id(run.usage), id(run.deps)
    shared = _runs.get(key)
    if shared is None:
        shared = _runs[key] = _Shared(run.deps)
        weakref.finalize(run.usage, _forget, key).atexit = False
    return shared


def _forget(key: tuple[int, int]) -> None:
    _runs.pop(key).forget()


def _shown(run: RunContext[Any]) -> ApprovalRequest | None:
    """Return the request to which a person agreed, where the metadata of the approval brought it back."""
    sent = (
        run.tool_call_metadata.get("approval") if isinstance(run.tool_call_metadata, dict) else None
    )
    return None if sent is None else ApprovalRequest.from_json(sent)


def _output(result: ToolResult) -> Any:
    if result.error is not None:
        request = result.metadata.get("approval")
        if isinstance(request, ApprovalRequest):
            raise Paused({"approval": request.to_json()})
        raise (ModelRetry if result.error.type == ArgumentError.__name__ else ToolFailed)(
            result.text
        )
    parts = result.output
    if len(parts) == 1 and isinstance(parts[0], TextContent):
        content: Any = parts[0].text
    else:
        plain = all(isinstance(part, TextContent) for part in parts)
        content = result.text if plain else [_native(part) for part in parts]
    return ToolReturn(content, metadata=dict(result.metadata)) if result.metadata else content


def _native(part: Content) -> Any:
    if isinstance(part, TextContent):
        return part.text
    if part.data is not None:
        return BinaryContent(part.data, media_type=part.media_type)
    kinds = {ImageContent: ImageUrl, AudioContent: AudioUrl, FileContent: DocumentUrl}
    return kinds[type(part)](part.uri or "", media_type=part.media_type)


def _result(value: Any) -> ToolResult:
    metadata = {}
    if isinstance(value, ToolReturn):
        metadata = {"tool_return": value.metadata} if value.metadata is not None else {}
        extra = [value.content] if isinstance(value.content, str) else list(value.content or ())
        value = [value.return_value, *extra] if extra else value.return_value
    parts = value if isinstance(value, list) else [value]
    media = (BinaryContent, ImageUrl, AudioUrl, DocumentUrl)
    if not any(isinstance(part, media) for part in parts):
        return ToolResult.of(value, metadata=metadata)
    return ToolResult(output=[_content(part) for part in parts], value=value, metadata=metadata)


def _content(part: Any) -> Content:
    if not isinstance(part, BinaryContent | ImageUrl | AudioUrl | DocumentUrl):
        return TextContent(text=ToolResult.of(part).text)
    where: dict[str, Any] = (
        {"data": part.data} if isinstance(part, BinaryContent) else {"uri": part.url}
    )
    family = part.media_type.partition("/")[0]
    kind: Any = {"image": ImageContent, "audio": AudioContent}.get(family, FileContent)
    return kind(**where, media_type=part.media_type)
