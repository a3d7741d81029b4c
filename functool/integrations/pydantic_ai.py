"""Bridge to pydantic-ai: our tools in its agents, its tools in functool, its agents as tools.

An exported tool finds the run's `deps` as `context.deps`. If the `deps` are a functool `Context`,
the tool gets that context. Otherwise all calls of one run share one new context, so a rate limit
per context holds for the run.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, SchemaValidator, core_schema
from pydantic_core import to_json as json_bytes

from functool import (
    ArgumentError,
    AudioContent,
    Content,
    Context,
    Decision,
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
    ToolSchema,
    ToolSettings,
)
from functool.call import to_json
from functool.guardrails import require_approval
from functool.integrations._agents import (
    Agreement,
    answer_to,
    argument_error,
    as_it_was,
    missing,
    relayed,
    request_of,
)
from functool.integrations._runs import Runs, own_context
from functool.integrations.values import (
    json_items,
    json_or_text,
    media,
    output_schema,
    shown,
    texts_only,
)
from functool.layers.some_tools import Tools, as_list, one_native, one_tool
from functool.schema.json_schema import walk

try:
    import pydantic_ai
    from pydantic_ai import (
        AudioUrl,
        BinaryContent,
        CustomEvent,
        DocumentUrl,
        FunctionToolset,
        ImageUrl,
        ModelRetry,
        RunContext,
        ToolDefinition,
        ToolFailed,
        ToolReturn,
    )
    from pydantic_ai.durable_exec import DurableRunContext
    from pydantic_ai.exceptions import ApprovalRequired as Paused
    from pydantic_ai.exceptions import CallDeferred, UserError
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.usage import RunUsage

    from functool.integrations.pydantic_ai_agreed import (
        as_agreed,
        as_edited,
        with_agreements,
        with_sent,
    )
    from functool.integrations.pydantic_ai_runner import runner
except ImportError as _error:
    raise missing("pydantic-ai", "pydantic-ai") from _error

__all__ = ["ToolProgressEvent", "adopt", "export", "export_all", "runner"]

# Without this check, arguments that are not an object cause a TypeError, which ends the run.
_ARGUMENTS = SchemaValidator(core_schema.dict_schema(core_schema.str_schema()))
_MEDIA = (BinaryContent, ImageUrl, AudioUrl, DocumentUrl)
_ANNOTATIONS = ("title", "description", "default")


@dataclass(kw_only=True)
class ToolProgressEvent(CustomEvent, name="functool_progress"):  # type: ignore[call-arg]
    """An event of a functool tool in the event stream of pydantic-ai."""

    what: str = "tool:progress"
    details: dict[str, Any] = field(default_factory=dict)


def export(tool: Tool) -> pydantic_ai.Tool[Any]:
    """Return `tool` as a tool of pydantic-ai.

    If the arguments do not fit, the model is asked to try again (`ModelRetry`, limited by the
    agent's retries). The model reads any other failure as the result (`ToolFailed`). A `Tripwire`
    ends the run. A call that waits for approval is deferred, and runs once it is approved. Pass its
    `metadata` back with the approval, to approve that call only. `ToolApproved(override_args=...)`
    edits the call.

    Raises:
        TypeError: `tool` is not a tool.
    """
    schema = one_tool(tool).schema

    async def function(run: RunContext[Any], /, **arguments: Any) -> Any:
        return await _call(tool, arguments, run)

    async def prepare(run: RunContext[Any], definition: ToolDefinition) -> ToolDefinition | None:
        return definition if tool.is_enabled(_context_of(run)) else None

    name, parameters = tool.name, _parameters(schema)
    entry = pydantic_ai.Tool.from_schema(
        function, name, schema.description, parameters, takes_ctx=True
    ).function_schema
    return pydantic_ai.Tool(
        function,
        name=name,
        description=schema.description,
        function_schema=replace(
            entry, validator=_ARGUMENTS, return_schema=output_schema(tool) or {}
        ),
        prepare=None if tool.settings.is_enabled is True else prepare,
        strict=schema.strict or None,
        sequential=tool.settings.is_exclusive,
    )


def _parameters(schema: ToolSchema) -> dict[str, Any]:
    """Return a copy of the published schema for which `TestModel` can make arguments.

    `TestModel` does not know `{"type": ["string", "null"]}` of the strict form, so this writes it
    with `anyOf`. `TestModel` uses the first member, so null comes first. Null stands for the
    default, and it ends a recursive value.
    """
    parameters = copy.deepcopy(schema.parameters)
    for node in walk(parameters) if schema.strict else ():
        assert isinstance(node, dict)
        types = node.get("type")
        if isinstance(types, list) and not {"anyOf", "enum", "const"} & node.keys():
            rules = {key: node.pop(key) for key in [*node] if key not in (*_ANNOTATIONS, "type")}
            del node["type"]
            node["anyOf"] = [{"type": kind, **(rules if kind != "null" else {})} for kind in types]
        if isinstance(node.get("anyOf"), list):
            node["anyOf"].sort(key=lambda choice: choice != {"type": "null"})
    return parameters


def export_all(tools: Tools) -> list[pydantic_ai.Tool[Any]]:
    """Return each of some tools as a tool of pydantic-ai."""
    return [export(tool) for tool in as_list(tools)]


def adopt(native: pydantic_ai.Tool[Any]) -> Tool:
    """Return a tool of pydantic-ai as a functool tool, with its approval and its time limit.

    Raises:
        DefinitionError: It is not a `Tool` of pydantic-ai.
    """
    one_native(native, pydantic_ai.Tool, "pydantic_ai.Tool(function) makes one")
    return _Adopted(native)


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
            model=TestModel(),  # The call has no model, but the field must not be None.
            usage=RunUsage(),
            tool_name=call.name,
            tool_call_id=call.id,
            tool_call_approved=_is_approved(context),
        )
        tool = next(iter((await self._tools.get_tools(run)).values()), None)
        if tool is None:
            raise ToolDisabledError.of(call.name)
        try:
            text = call.arguments if isinstance(call.arguments, str) else to_json(call.arguments)
            arguments = tool.args_validator.validate_json(text)
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
        """Call the native tool. If it asks for approval and a person approves, call it again."""
        try:
            # Its own `prepare` may have marked it as needing approval.
            if tool.tool_def.kind == "unapproved" and not run.tool_call_approved:
                raise Paused
            return await self._native_call(tool, arguments, run)
        except Paused:
            ask: Any = require_approval()
            edited = await ask(call, context)
            if edited is not None:  # The native tool cannot run an edited call.
                refusal = as_it_was(Decision(approved=True, arguments=edited.arguments))
                raise GuardrailError(str(refusal)) from None
            run.tool_call_approved = True
            return await self._native_call(tool, arguments, run)

    async def _native_call(self, tool: Any, arguments: dict[str, Any], run: RunContext[Any]) -> Any:
        if tool.args_validator_func is not None:
            checked = tool.args_validator_func(run, **arguments)
            if inspect.isawaitable(checked):
                await checked
        return await self._tools.call_tool(tool.tool_def.name, arguments, run, tool)


def _is_approved(context: Context[Any]) -> bool:
    """Whether a person or a grant has approved this very call."""
    decision = context.decision
    return decision is not None and bool(decision["approved"])


async def _call(tool: Tool, arguments: dict[str, Any], run: RunContext[Any]) -> Any:
    """Run `tool` for pydantic-ai, and return or raise what pydantic-ai expects."""
    # Send text, so that the tool validates the arguments as JSON. A hook may have put in values
    # that JSON cannot express; the tool validates those as they are.
    given: Any = arguments
    try:
        given = json_bytes(arguments).decode()
    except (PydanticSerializationError, UnicodeEncodeError):
        pass
    call = ToolCall(name=tool.name, arguments=given, id=run.tool_call_id or "")
    context = _context_of(run)
    agreements: list[Agreement] = []
    if run.tool_call_approved:
        call, agreements = as_agreed(tool, call, run)
        call = await as_edited(tool, call, context, agreements)
        context = relayed(tool, call, context, agreements)
    # Only the events of this call go to the stream of this run: other runs may share the context.
    result = await answer_to(tool, call, context.heard_by(_forwarding(call, run)))
    if (request := request_of(result)) is not None:
        agreed = with_agreements(tool, call, agreements)
        raise Paused({"approval": request.to_json(), **agreed, **with_sent(run, given)})
    return _output(result, durable=isinstance(run, DurableRunContext))


def _forwarding(call: ToolCall, run: RunContext[Any]) -> Callable[[ToolEvent], Awaitable[None]]:
    """Return a listener that passes the events of a call on to the stream of its run."""

    async def forward(event: ToolEvent) -> None:
        if event.call_id == call.id:
            with suppress(UserError):  # A call of a durable run cannot reach the run's stream.
                await run.emit(
                    ToolProgressEvent(
                        tool_call_id=event.call_id, what=event.kind, details=dict(event.data)
                    )
                )

    return forward


_runs = Runs()


def _context_of(run: RunContext[Any]) -> Context[Any]:
    """Return the context of a run, the same one for all its calls.

    It is found by the object that counts the run's usage, which lives as long as the run. An agent
    inside another one may share that object, so it is found by the deps as well.
    """
    own = own_context(run.deps)
    return _runs.context_of(run.usage, run.deps).view(deps=run.deps) if own is None else own


def _output(result: ToolResult, *, durable: bool) -> Any:
    if result.error is not None:
        raise (ModelRetry if result.error.type == ArgumentError.__name__ else ToolFailed)(
            result.text
        )
    parts = shown(result)
    content = result.text if texts_only(parts) else [_native(part) for part in parts]
    if not result.metadata:
        return content
    # A durable run stores the answer as JSON. If it could not, it would make the call again.
    metadata = json_items(result.metadata) if durable else dict(result.metadata)
    return ToolReturn(content, metadata=metadata)


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
        value = [*_parts(value.return_value), *extra] if extra else value.return_value
    parts = _parts(value)
    if not any(isinstance(part, _MEDIA) for part in parts):
        return ToolResult.of(value, metadata=metadata)
    return ToolResult(output=[_content(part) for part in parts], value=value, metadata=metadata)


def _parts(value: Any) -> list[Any]:
    """Return the parts of a list that holds media. Any other value is one part."""
    is_mixed = isinstance(value, list) and any(isinstance(part, _MEDIA) for part in value)
    return value if is_mixed else [value]


def _content(part: Any) -> Content:
    match part:
        case BinaryContent():
            return media(part.media_type, data=part.data)
        case ImageUrl() | AudioUrl() | DocumentUrl():
            return media(part.media_type, uri=part.url)
        case _:
            return TextContent(text=json_or_text(part))
