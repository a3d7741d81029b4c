"""Bridge to LangChain and LangGraph: functool tools in their agents, and their tools in functool.

`runner` runs their agents behind `AgentTool`. An exported tool finds the graph's `context=` as
`context.deps`. If the graph's context is a functool `Context`, the tool gets that context.
Otherwise each call has a new context, because LangGraph has no object that stands for one run. For
a rate limit per run, pass a `Context`.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from functool import (
    ApprovalRequest,
    AudioContent,
    Content,
    Context,
    Decision,
    DefinitionError,
    FileContent,
    GuardrailError,
    ImageContent,
    TextContent,
    Tool,
    ToolCall,
    ToolError,
    ToolEvent,
    ToolResult,
    ToolSettings,
    Tripwire,
)
from functool.call import failure_of
from functool.content import base64_of
from functool.integrations._agents import (
    answer_to,
    argument_error,
    arguments_led_to,
    missing,
    refusing,
    request_of,
    requests_of,
    stopping_with,
)
from functool.integrations._runs import own_context
from functool.integrations.values import bytes_of, json_or_text, shown, text_of, texts_only
from functool.layers.passing import passing
from functool.layers.some_tools import Tools, as_list, one_native, one_tool

try:
    from langchain_core.messages import ToolMessage
    from langchain_core.runnables import RunnableConfig
    from langchain_core.tools import BaseTool, InjectedToolCallId, ToolException
    from langchain_core.tools import Tool as TextTool
    from langchain_core.tools.base import TOOL_MESSAGE_BLOCK_TYPES
    from langgraph.errors import GraphBubbleUp
    from langgraph.prebuilt import ToolRuntime

    from functool.integrations.langchain_artifact import artifact_of
    from functool.integrations.langchain_asking import (
        ask_person,
        decided_before,
        runtime_of_graph,
    )
    from functool.integrations.langchain_runner import runner
except ImportError as _error:
    raise missing("LangChain", "langchain") from _error

__all__ = ["RunStopped", "adopt", "export", "export_all", "runner"]


class RunStopped(Tripwire, GraphBubbleUp):
    """A `Tripwire` that ends a run of LangGraph. A graph raises it unchanged.

    LangGraph may try a node again after any other exception, and its `ToolNode` and LangChain's
    middleware may make an answer of it.
    """


def export(tool: Tool) -> BaseTool:
    """Return `tool` as a tool of LangChain, for agents, `ToolNode` and chains.

    The model reads a failure as a `ToolMessage` with status "error". The `ToolResult` is the
    message's artifact. Without a call id the tool returns the body's value, or raises
    `ToolException`. A `Tripwire` ends the run as `RunStopped`.

    A call that waits for approval interrupts the graph. The interrupt's value is the request.
    Resume the graph with `Command(resume=True)` to approve, or with False or a reason to refuse.
    LangChain's own decisions work as well: `{"type": "approve"}`,
    `{"type": "reject", "message": ...}`, and `{"type": "edit", "edited_action": {"args": {...}}}`,
    which runs these arguments instead. If an agent inside the tool made the call that waits, resume
    with the request's `digest`, or with a decision that holds it under `digest`.

    Raises:
        TypeError: `tool` is not a tool.
    """
    schema = one_tool(tool).schema
    return _Exported(
        name=tool.name,
        description=schema.description,
        args_schema=copy.deepcopy(schema.parameters),
        tags=list(tool.settings.tags) or None,
        tool=tool,
    )


def export_all(tools: Tools) -> list[BaseTool]:
    """Return each of some tools as a tool of LangChain."""
    return [export(tool) for tool in as_list(tools)]


def adopt(native: BaseTool) -> Tool:
    """Return a tool of LangChain as a functool tool.

    The tool keeps its own texts for failures. Its `ToolRuntime` holds the deps and the call id.

    Raises:
        DefinitionError: It is not a tool of LangChain, or it has a parameter that only a graph can
            give, such as `InjectedState`.
    """
    one_native(native, BaseTool, "langchain_core.tools.tool makes one")
    return _Adopted(native)


class _Exported(BaseTool):
    tool: Tool

    # Keep the arguments in one mapping, because a name may be `config` or `self`.
    def _to_args_and_kwargs(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> tuple[Any, dict[str, Any]]:
        names = list(self.tool.schema.parameters.get("properties", {}))
        if isinstance(tool_input, str) and len(names) == 1:
            tool_input = {names[0]: tool_input}
        call = ToolCall(name=self.name, arguments=tool_input, id=tool_call_id or "")
        return (call, tool_call_id is None), {}

    def _run(self, call: ToolCall, bare: bool) -> Any:
        return _run_sync(self._arun(call, bare))

    async def _arun(self, call: ToolCall, bare: bool) -> Any:
        context = _context_of(call)
        with stopping_with(RunStopped):
            result = await _first(self.tool, call, context)
            while (request := request_of(result)) and runtime_of_graph() is not None:
                context = _decided(self.tool, call, request, context)
                result = await answer_to(self.tool, call, context)
        return _bare(result) if bare else _message(result, call)


def _run_sync(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine from sync code. If a loop is running already, use another thread.

    A graph finds its state by context variables, so these go along.
    """
    if not _loop_is_running():
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(copy_context().run, asyncio.run, work).result()


def _loop_is_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _context_of(call: ToolCall) -> Context[Any]:
    """Return the context of a call. Its events go to the graph's custom stream.

    Those of other graphs do not, although they may share the context.
    """
    runtime = runtime_of_graph()
    if runtime is None:
        return passing(Context())
    given = runtime.context
    # A graph with a `context_schema` makes an object of a dict.
    context = own_context(given, converts=(dict,)) or passing(Context(given))

    def forward(event: ToolEvent) -> None:
        if event.call_id == call.id:
            runtime.stream_writer(
                {
                    "kind": event.kind,
                    "tool": event.tool_name,
                    "call_id": event.call_id,
                    **event.data,
                }
            )

    return context.heard_by(forward)


async def _first(tool: Tool, call: ToolCall, context: Context[Any]) -> ToolResult:
    """Run a call, with what a person has answered if the graph was interrupted for it."""
    before = decided_before([*requests_of(tool, call)], call) if tool.requires_approval else None
    if before is not None:
        request, decision = before
        if request is None:
            return failure_of(GuardrailError(decision.refusal))
        context = _with_decision(request, decision, context)
    return await answer_to(tool, call, context)


def _decided(
    tool: Tool, call: ToolCall, request: ApprovalRequest, context: Context[Any]
) -> Context[Any]:
    """Interrupt the graph to ask a person. Return the context with the answer."""
    own = request.call_id == call.id and request.tool in arguments_led_to(tool, call)
    return _with_decision(request, ask_person(request, call, own=own), context)


def _with_decision(
    request: ApprovalRequest, decision: Decision, context: Context[Any]
) -> Context[Any]:
    if not decision.approved:
        return refusing(request, decision.reason, context)
    context.approve(request, arguments=decision.arguments)
    return context


def _bare(result: ToolResult) -> Any:
    """Return the answer to a call without an id, such as one of a chain."""
    if result.error is not None:
        raise ToolException(result.text)
    return result.text if result.structured is None else result.structured


def _message(result: ToolResult, call: ToolCall) -> ToolMessage:
    parts = shown(result)
    return ToolMessage(
        content=result.text if texts_only(parts) else [_block(part) for part in parts],
        name=call.name,
        tool_call_id=call.id,
        status="error" if result.error else "success",
        artifact=artifact_of(result),
    )


def _block(part: Content) -> dict[str, Any]:
    # Send a sound as text. With a sound among the blocks, LangGraph would turn all into one text.
    if isinstance(part, TextContent | AudioContent):
        return {"type": "text", "text": text_of(part)}
    kind = "image" if isinstance(part, ImageContent) else "file"
    where = {"url": part.uri} if part.data is None else {"base64": base64_of(part)}
    return {"type": kind, **where, "mime_type": part.media_type}


class _Adopted(Tool):
    def __init__(self, native: BaseTool) -> None:
        settings = ToolSettings(tags=tuple(native.tags or ()))
        super().__init__(
            name=native.name,
            description=native.description,
            parameters=_parameters(native),
            settings=settings,
        )
        given: Any = native.args_schema
        fields: dict[str, FieldInfo] = {} if isinstance(given, dict | None) else given.model_fields
        self._runtimes = [
            name
            for name, info in fields.items()
            if ToolRuntime in (info.annotation, get_origin(info.annotation))
        ]
        ids = [
            name
            for name, info in fields.items()
            if any(InjectedToolCallId in (mark, type(mark)) for mark in info.metadata)
        ]
        known = {*self.schema.parameters.get("properties", {}), *self._runtimes, *ids}
        for name, info in fields.items():
            if info.is_required() and not known & {name, info.alias}:
                raise DefinitionError(
                    f"{native.name}: only a graph can give the parameter {name!r};"
                    " wrap the tool in a function that does"
                )
        self._needs_call = bool(ids) or native.response_format == "content_and_artifact"
        # Its error handlers would turn failures into answers.
        unhandled = {"handle_tool_error": False, "handle_validation_error": False}
        self._native = (
            native.model_copy(update=unhandled)
            if native.handle_tool_error or native.handle_validation_error
            else native
        )
        self._error_text = native.handle_tool_error

    async def run(self, call: ToolCall, context: Context[Any]) -> ToolResult:
        arguments: dict[str, Any] = dict(call.arguments)  # type: ignore[arg-type]
        config: RunnableConfig = (
            {"configurable": {"thread_id": context.thread}} if context.thread is not None else {}
        )
        for name in self._runtimes:
            arguments[name] = ToolRuntime(
                state={},
                context=context.deps,
                config=config,
                stream_writer=lambda item: context.emit("tool:progress", value=item),
                tool_call_id=call.id,
                store=None,
            )
        # The tool gives an artifact, and gets the id, only if it is invoked with a call. Invoked
        # with arguments it returns its own value instead of a text.
        given: Any = (
            {"type": "tool_call", "name": call.name, "args": arguments, "id": call.id}
            if self._needs_call
            else arguments
        )
        try:
            return _result(await self._native.ainvoke(given, config))
        except ToolException as failure:
            given_text: Any = self._error_text
            text = given_text(failure) if callable(given_text) else given_text
            raise ToolError(
                str(failure) if text in (True, False, None) else _message_of(text).text
            ) from failure
        except ValidationError as invalid:
            if invalid.title != getattr(self._native.args_schema, "__name__", None):
                raise  # The body raised it, so it is not about the arguments.
            raise argument_error(invalid) from invalid


def _parameters(native: BaseTool) -> dict[str, Any]:
    if isinstance(native, TextTool) and native.args_schema is None:
        # Such a tool takes one string, and has no schema for it.
        return {
            "type": "object",
            "properties": native.args,
            "required": list(native.args),
            "additionalProperties": False,
        }
    shown: Any = native.tool_call_schema
    parameters = dict(shown) if isinstance(shown, dict) else shown.model_json_schema()
    parameters.pop("description", None)
    if not isinstance(shown, dict):  # Their model would silently drop unknown arguments.
        parameters.setdefault("additionalProperties", False)
    return parameters


def _message_of(content: Any) -> ToolMessage:
    return ToolMessage(content=content, tool_call_id="")


def _result(answer: Any) -> ToolResult:
    """Return the answer of a LangChain tool as a result.

    A list of LangChain's content blocks becomes content, as in LangChain's own loop.
    """
    message: ToolMessage | None = answer if isinstance(answer, ToolMessage) else None
    if (
        isinstance(answer, list)
        and answer
        and all(isinstance(b, dict) and b.get("type") in TOOL_MESSAGE_BLOCK_TYPES for b in answer)
    ):
        message = _message_of(answer)
    if message is None:
        return ToolResult.of(answer)
    if message.status == "error":
        return ToolResult.failed(str(message.text), type="ToolException")
    output = [_content(block) for block in message.content_blocks]
    return ToolResult(
        output=output, value=message.content if message.artifact is None else message.artifact
    )


def _content(block: Any) -> Content:
    kinds = {"image": ImageContent, "audio": AudioContent, "file": FileContent}
    kind: Any = kinds.get(block.get("type"))
    if kind is None or not {"url", "base64"} & set(block):
        text = block.get("text")
        return TextContent(
            text=text if isinstance(text, str) else json_or_text(block.get("value", block))
        )
    where = {"uri": block["url"]} if "url" in block else {"data": bytes_of(block["base64"])}
    return kind(**where, **({"media_type": block["mime_type"]} if "mime_type" in block else {}))
