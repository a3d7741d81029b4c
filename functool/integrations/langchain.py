"""LangChain and LangGraph: functool tools in their agents, their tools in functool, their agents behind `AgentTool`.

An exported tool finds the graph's `context=` as `context.deps`, or, where that is a functool `Context`, gets it itself. LangGraph has no
object that stands for one run, so that otherwise every call has a context of its own: pass a `Context` for a rate limit per run.
"""

from __future__ import annotations

import asyncio
import base64
import copy
import uuid
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from functool import (
    ApprovalRequest,
    ApprovalRequired,
    AudioContent,
    Content,
    Context,
    DefinitionError,
    FileContent,
    ImageContent,
    TextContent,
    Tool,
    ToolCall,
    ToolError,
    ToolEvent,
    ToolResult,
    Toolset,
    ToolSettings,
)
from functool.integrations._agents import argument_error, decided, key_of

try:
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
    from langchain_core.runnables import Runnable, RunnableConfig
    from langchain_core.tools import BaseTool, InjectedToolCallId, ToolException
    from langchain_core.tools import Tool as TextTool
    from langchain_core.tools.base import TOOL_MESSAGE_BLOCK_TYPES
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.errors import GraphInterrupt
    from langgraph.prebuilt import ToolRuntime
    from langgraph.pregel import Pregel
    from langgraph.runtime import Runtime, get_runtime
    from langgraph.types import Command, Interrupt, interrupt
except ImportError as error:
    raise ImportError(
        "the LangChain integration needs: pip install 'functool[langchain]'"
    ) from error


def export(tool: Tool) -> BaseTool:
    """Return `tool` as a tool of LangChain, for agents, `ToolNode` and chains.

    The model reads a failure as a `ToolMessage` whose status is "error"; called without a call id,
    the tool raises `ToolException`, and returns the body's own value. The `ToolResult` is the
    message's artifact. A call that waits for approval interrupts the graph: the interrupt's value
    is the request, and the graph goes on with `Command(resume=True)`, False, or a text that says
    why not. For a call that an agent inside the tool wants to make, resume with the request's
    `digest`.
    """
    schema = tool.schema
    return _Exported(
        name=tool.name,
        description=schema.description,
        args_schema=copy.deepcopy(schema.parameters),
        tags=list(tool.settings.tags) or None,
        tool=tool,
    )


def export_all(toolset: Toolset) -> list[BaseTool]:
    """Return every tool of `toolset` as a tool of LangChain."""
    return [export(tool) for tool in toolset.values()]


def adopt(native: BaseTool) -> Tool:
    """Return a tool of LangChain as a functool tool.

    Its own words for a failure come along, and its `ToolRuntime` holds deps and call id.

    Raises:
        DefinitionError: Only a graph can give one of its parameters, such as `InjectedState`.
    """
    return _Adopted(native)


async def runner(
    agent: Runnable[Any, Any], text: str, context: Context[Any], **options: Any
) -> ToolResult:
    """Run a graph of LangGraph, or any runnable of LangChain: the runner for `AgentTool`.

    A graph gets the text as a user's message, `context.deps` as its context, and `context.thread`
    as its `thread_id` (one with a checkpointer a new one, where there is none); another runnable
    gets the text. `options` go to `astream` or `ainvoke`. While somebody listens, a graph's updates
    and custom events are sent as `tool:progress`. An interrupt of a graph with a checkpointer makes
    this call wait for approval, and the same call goes on where the graph stopped.

    Raises:
        ApprovalRequired: A person has to agree to what interrupted the graph.
        ToolError: A graph without a checkpointer was interrupted.
    """
    if not isinstance(agent, Pregel):
        answer = await agent.ainvoke(text, **options)
        return ToolResult.of(
            getattr(answer, "text", answer), metadata={"usage": _usage([answer]), "run": answer}
        )
    key = key_of(__name__, context, text)
    pause: _Pause | None = context.state.pop(key, None)
    thread = context.thread
    if thread is None and isinstance(
        agent.checkpointer, BaseCheckpointSaver
    ):  # It keeps nothing without a thread.
        thread = pause.thread if pause else uuid.uuid4().hex
    if thread is not None:
        config = options.get("config", {})
        options["config"] = {
            **config,
            "configurable": {"thread_id": thread, **config.get("configurable", {})},
        }
    before = pause.before if pause else await _count(agent, options.get("config"))
    given: Any = {"messages": [HumanMessage(text)]}
    while True:
        if pause is not None:
            try:
                given = Command(resume=await _settle(pause, context))
            except ApprovalRequired:
                context.state[key] = pause
                raise
        state, pending = await _run(agent, given, context, options)
        if not pending:
            break
        if not isinstance(agent.checkpointer, BaseCheckpointSaver):
            raise ToolError(
                "The agent waits for a person, and cannot go on afterwards: its graph has no checkpointer."
            )
        pause = _Pause(pending, before, thread)
    messages = state.get("messages", [])
    answer = messages[-1].text if messages else state
    return ToolResult.of(answer, metadata={"usage": _usage(messages[before:]), "run": state})


@dataclass
class _Pause:
    """Where a graph was interrupted: by what, after how many messages of earlier runs, where, and what has been answered."""

    pending: list[Interrupt]
    before: int
    thread: Any
    answers: dict[str, Any] = field(default_factory=dict)


async def _count(agent: Pregel[Any, Any, Any, Any], config: RunnableConfig | None) -> int:
    if config is None or agent.checkpointer is None:
        return 0
    return len((await agent.aget_state(config)).values.get("messages", ()))


async def _run(
    agent: Pregel[Any, Any, Any, Any], given: Any, context: Context[Any], options: dict[str, Any]
) -> tuple[dict[str, Any], list[Interrupt]]:
    state: dict[str, Any] = {}
    pending: dict[str, Interrupt] = {}
    try:
        async for mode, item in agent.astream(
            given, context=context.deps, stream_mode=["values", "updates", "custom"], **options
        ):
            if mode == "values":
                state = item if isinstance(item, dict) else {"output": item}
            else:
                context.emit("tool:progress", value=item)
                if mode == "updates" and isinstance(item, dict):
                    pending.update(
                        (interrupt.id, interrupt) for interrupt in item.get("__interrupt__", ())
                    )
    except GraphInterrupt as stop:  # A graph without a checkpointer, inside of another one.
        pending.update((interrupt.id, interrupt) for interrupt in stop.args[0])
    return state, list(pending.values())


async def _settle(pause: _Pause, context: Context[Any]) -> dict[str, Any]:
    """Return the answers to what interrupted the graph, by the decisions of this context."""
    for item in pause.pending:
        if item.id not in pause.answers:
            told = item.value if isinstance(item.value, dict) else {"value": item.value}
            name, arguments = str(told.get("tool", "interrupt")), told.get("arguments", told)
            call = ToolCall(name=name, arguments=arguments, id=str(told.get("call_id", item.id)))
            pause.answers[item.id] = await decided(call, context)
    return pause.answers


class _Exported(BaseTool):
    tool: Tool

    # The arguments stay in one mapping: their names are the model's and may be any, `config` and
    # `self` too.
    def _to_args_and_kwargs(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> tuple[Any, dict[str, Any]]:
        names = list(self.tool.schema.parameters.get("properties", {}))
        if isinstance(tool_input, str) and len(names) == 1:
            tool_input = {names[0]: tool_input}
        return (ToolCall(name=self.name, arguments=tool_input, id=tool_call_id or ""),), {}

    def _run(self, call: ToolCall) -> Any:
        context, forget = _listening(call)
        try:
            result = _driven(self._answer, call, context)
            while _settled(result, call, context):
                result = _driven(self._answer, call, context)
        finally:
            forget()
        return _message(result, call)

    async def _arun(self, call: ToolCall) -> Any:
        context, forget = _listening(call)
        try:
            result = await self._answer(call, context)
            while _settled(result, call, context):
                result = await self._answer(call, context)
        finally:
            forget()
        return _message(result, call)

    async def _answer(self, call: ToolCall, context: Context[Any]) -> ToolResult:
        # LangChain shows every tool that it is given: one that is switched off here says so.
        if not Toolset([self.tool]).enabled(context):
            return ToolResult.failed(
                f"The tool {self.name!r} is disabled.", type="ToolDisabledError"
            )
        return await self.tool.invoke(call, context)


def _driven(func: Callable[..., Coroutine[Any, Any, ToolResult]], *args: Any) -> ToolResult:
    """Run an async function from sync code, on a thread of its own where a loop is already running."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(func(*args))
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(copy_context().run, lambda: asyncio.run(func(*args))).result()


def _runtime() -> Runtime[Any] | None:
    try:
        return get_runtime()
    except (RuntimeError, KeyError):  # Outside of a graph.
        return None


def _listening(call: ToolCall) -> tuple[Context[Any], Any]:
    """Return the context of this call, and what ends the forwarding of its events to the graph's custom stream."""
    runtime = _runtime()
    if runtime is None:
        return Context(), lambda: None
    context = runtime.context if isinstance(runtime.context, Context) else Context(runtime.context)

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

    return context, context.subscribe(forward)


def _settled(result: ToolResult, call: ToolCall, context: Context[Any]) -> bool:
    """Ask the person behind the graph, where the call waits for one, and tell the context; return whether it has to run again.

    The graph runs the tool anew to go on, so that a request of an agent inside the tool may have become another one: True answers only
    for the call itself, and the digest that was shown for what it stands for.
    """
    request = result.metadata.get("approval")
    if not isinstance(request, ApprovalRequest) or _runtime() is None:
        return False
    answer = interrupt(
        {
            name: getattr(request, name)
            for name in ("tool", "arguments", "call_id", "definition", "digest")
        }
    )
    if answer == request.digest or (answer is True and request.call_id == call.id):
        context.approve(request)
    else:
        context.deny(request, answer if isinstance(answer, str) else "")
    return True


def _message(result: ToolResult, call: ToolCall) -> Any:
    if not call.id:
        if result.error is not None:
            raise ToolException(result.text)
        return result.text if result.value is None else result.value
    plain = all(isinstance(part, TextContent) for part in result.output)
    blocks = [TextContent(text=result.error.message)] if result.error else []
    return ToolMessage(
        content=result.text if plain else [_block(part) for part in [*blocks, *result.output]],
        name=call.name,
        tool_call_id=call.id,
        status="error" if result.error else "success",
        artifact=result,
    )


def _block(part: Content) -> dict[str, Any]:
    if isinstance(
        part, TextContent | AudioContent
    ):  # One sound among its blocks, and LangGraph would make one text of them all.
        return {"type": "text", "text": ToolResult(output=[part]).text}
    kind = "image" if isinstance(part, ImageContent) else "file"
    where = (
        {"url": part.uri} if part.data is None else {"base64": base64.b64encode(part.data).decode()}
    )
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
                    f"{native.name}: only a graph can give the parameter {name!r}; wrap the tool in a function that does"
                )
        self._whole = bool(ids) or native.response_format == "content_and_artifact"
        # Worded by its handlers, a failure would come back as an answer like any other.
        unhandled = {"handle_tool_error": False, "handle_validation_error": False}
        self._native = (
            native.model_copy(update=unhandled)
            if native.handle_tool_error or native.handle_validation_error
            else native
        )
        self._words = native.handle_tool_error

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
        # Only a whole call brings an artifact and the id; without it the tool returns its own
        # value, not a text of it.
        given: Any = (
            {"type": "tool_call", "name": call.name, "args": arguments, "id": call.id}
            if self._whole
            else arguments
        )
        try:
            return _result(await self._native.ainvoke(given, config))
        except ToolException as failure:
            words: Any = self._words(failure) if callable(self._words) else self._words
            raise ToolError(
                str(failure) if words in (True, False, None) else _told(words).text
            ) from failure
        except ValidationError as invalid:
            if invalid.title != getattr(
                self._native.args_schema, "__name__", None
            ):  # The body's own.
                raise
            raise argument_error(invalid) from invalid


def _parameters(native: BaseTool) -> dict[str, Any]:
    if (
        isinstance(native, TextTool) and native.args_schema is None
    ):  # It takes one text, and has no schema that says so.
        return {
            "type": "object",
            "properties": native.args,
            "required": list(native.args),
            "additionalProperties": False,
        }
    shown: Any = native.tool_call_schema
    parameters = dict(shown) if isinstance(shown, dict) else shown.model_json_schema()
    parameters.pop("description", None)
    if not isinstance(shown, dict):  # A model would drop what it does not know, and say nothing.
        parameters.setdefault("additionalProperties", False)
    return parameters


def _told(content: Any) -> ToolMessage:
    return ToolMessage(content=content, tool_call_id="")


def _result(answer: Any) -> ToolResult:
    """Return what a tool of LangChain answered; a list of its content blocks is content, as it is in its own loop."""
    message: ToolMessage | None = answer if isinstance(answer, ToolMessage) else None
    if (
        isinstance(answer, list)
        and answer
        and all(isinstance(b, dict) and b.get("type") in TOOL_MESSAGE_BLOCK_TYPES for b in answer)
    ):
        message = _told(answer)
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
            text=text if isinstance(text, str) else ToolResult.of(block.get("value", block)).text
        )
    where = {"uri": block["url"]} if "url" in block else {"data": base64.b64decode(block["base64"])}
    return kind(**where, **({"media_type": block["mime_type"]} if "mime_type" in block else {}))


def _usage(messages: Any) -> dict[str, int]:
    replies = [m for m in messages if isinstance(m, AIMessage)]
    used: list[Mapping[str, Any]] = [m.usage_metadata or {} for m in replies]
    names = ("input_tokens", "output_tokens", "total_tokens")
    return {"requests": len(replies), **{name: sum(u.get(name, 0) for u in used) for name in names}}
