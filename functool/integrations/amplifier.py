"""Bridge to Amplifier: functool tools as the tools of an Amplifier module, and its tools as ours.

`mount` makes the module's entry point, `export` converts one tool, and `adopt` converts a tool of
Amplifier. Written against amplifier-core 2.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from functool import (
    ApprovalRequest,
    Content,
    Context,
    Decision,
    DefinitionError,
    GuardrailError,
    ImageContent,
    SchemaTool,
    TextContent,
    Tool,
    ToolCall,
    ToolEvent,
    ToolFailure,
    ToolResult,
    Toolset,
    Tripwire,
)
from functool.content import base64_of
from functool.dialects._wire import with_true_type
from functool.executors import inline
from functool.integrations._agents import answer_to
from functool.integrations.values import bytes_of, check_readable, json_items, text_of
from functool.integrations.visible import arguments_text, sources_text
from functool.layers.some_tools import one_tool

try:
    import amplifier_core
    from amplifier_core.approval import ApprovalTimeoutError
    from pydantic import BaseModel, ValidationError
except ImportError as _missing:
    raise ImportError(
        "functool.integrations.amplifier needs amplifier-core: pip install 'functool[amplifier]'"
    ) from _missing

_log = logging.getLogger("functool")

APPROVAL_SECONDS = 300.0
MAX_QUESTION = 10_000
"""The most characters of arguments that a person is shown. A longer call is refused unasked."""

_ALLOW, _DENY = "Allow", "Deny"

IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""The image types that providers accept. Another type would end the run, so it is only named."""

Made = Tool | Iterable[Tool]
Mountable = Tool | Toolset | Callable[[Any], Made | Awaitable[Made]]
Cleanup = Callable[[], Awaitable[None]]


class _Result(amplifier_core.ToolResult):  # type: ignore[misc]
    """Amplifier's own result, with a `str` for the model to read.

    Amplifier's hooks use the `str` of a result. Amplifier's own `str` of a dict is Python text, and
    of 0 and "" it is "Success".
    """

    def get_serialized_output(self) -> str:
        """Return the output as text for a model: a string unchanged, any other value as JSON."""
        if isinstance(self.output, bool):
            return json.dumps(self.output)
        return str(super().get_serialized_output())

    def __str__(self) -> str:
        text = self.get_serialized_output()
        return text if self.success else f"Error: {text}"


class Exported:
    """A functool tool with the attributes and the method that Amplifier looks for.

    All calls share one `context`. Its state lives as long as this object.
    """

    def __init__(self, tool: Tool, context: Context[Any] | None = None) -> None:
        self.tool = tool
        self.context: Context[Any] = Context() if context is None else context
        self.name: str = tool.name
        self.description: str = tool.description.strip() or f"The tool {tool.name}."
        self.input_schema: dict[str, Any] = json.loads(json.dumps(tool.schema.parameters))

    async def execute(self, input: dict[str, Any] | None = None) -> amplifier_core.ToolResult:
        """Run the tool. Return every failure as a result."""
        given: Any = {} if input is None else input
        call_id = ""
        if isinstance(given, Mapping):
            call_id = str(given.get("_tool_call_id") or "")
            # Drop keys that the host added: they begin with `_` and are not parameters.
            known = self.tool.schema.parameters.get("properties", {})
            given = {
                key: item
                for key, item in given.items()
                if key in known or not str(key).startswith("_")
            }
        call = ToolCall(name=self.name, arguments=given, id=call_id)
        try:
            result = await answer_to(self.tool, call, self.context)
        except Tripwire as stop:
            result = ToolResult(error=ToolFailure(type="Tripwire", message=str(stop)))
            # An exception would end this call only. Cancelling the session ends the run.
            coordinator = self.context.metadata.get("coordinator")
            if coordinator is not None:
                await _cancel(coordinator)
        return _native(result)


def export(tool: Tool, *, context: Context[Any] | None = None) -> Exported:
    """Return `tool` as an object that Amplifier can mount and run.

    All calls of the object share one Context. So export the tool anew for each session, as `mount`
    does: two sessions would share state, approvals and grants.

    Raises:
        TypeError: `tool` is not a tool.
    """
    return Exported(one_tool(tool), context)


def demands(tool: Tool) -> list[str]:
    """Return the problems that Amplifier's validators would report."""
    missing = (
        "Tool.description should be a non-empty string: give the function a docstring, or the tool"
        " a description"
    )
    return [] if tool.description.strip() else [missing]


def mount(
    *tools: Mountable, config_model: type[BaseModel] | None = None, events: Sequence[str] = ()
) -> Callable[..., Awaitable[Cleanup | None]]:
    """Return the coroutine function `mount(coordinator, config)` of an Amplifier module.

    It mounts every enabled tool and returns an async cleanup function that unmounts them.
    `Context.deps` is the configuration, validated by `config_model` if there is one.
    `Context.metadata` holds the `coordinator`. Approvals go to the session's approval system if it
    has one. `tool:progress` and the `events` that the tools emit go to the session's hooks.

    Args:
        tools: Tools, toolsets, and functions, sync or async, that take the validated configuration
            and return one or several tools.
        config_model: A pydantic model of the module's configuration in the mount plan.
        events: The kinds of the tools' own events (`Context.emit`). They are announced as
            observability events.

    Raises:
        DefinitionError: Something is neither a tool nor a function, `config_model` is not a
            model, or two tools have the same name. Amplifier would silently keep only the second.
    """
    _check_mountable(tools, config_model)

    async def mount_tools(coordinator: Any, config: dict[str, Any] | None = None) -> Cleanup | None:
        checked = _checked(config or {}, config_model)
        context = _session_context(coordinator, checked)
        made = [
            (item, item if isinstance(item, Tool | Toolset) else await inline(item, checked))
            for item in tools
        ]
        toolset = Toolset(tool for item, answer in made for tool in _expand(item, answer))
        exported = [export(tool, context=context) for tool in toolset.enabled(context)]
        for one in exported:
            await coordinator.mount("tools", one, name=one.name)
        if not exported:
            return None
        unsubscribe = context.subscribe(_forward(coordinator))
        kinds = ["tool:progress", *events]
        coordinator.register_contributor(
            "observability.events", f"functool:{exported[0].name}", lambda: kinds
        )
        return _cleanup(coordinator, exported, unsubscribe)

    return mount_tools


def adopt(native: Any) -> Tool:
    """Return an Amplifier tool as a functool tool.

    Raises:
        DefinitionError: The object has no name or no async `execute`.
    """
    name: Any = getattr(native, "name", None)
    if (
        isinstance(native, type)
        or not isinstance(name, str)
        or not name
        or not callable(getattr(native, "execute", None))
    ):
        raise DefinitionError(
            f"not an Amplifier tool: {native!r} needs a name and `async execute(input)`"
        )

    async def handler(arguments: Mapping[str, Any]) -> ToolResult:
        return _adopted(await native.execute(dict(arguments)))

    schema = dict(getattr(native, "input_schema", None) or {"type": "object", "properties": {}})
    return SchemaTool(name, str(getattr(native, "description", "") or ""), schema, handler)


def _check_mountable(tools: Sequence[Mountable], config_model: type[BaseModel] | None) -> None:
    for item in tools:
        if not callable(item) and not isinstance(item, Toolset):
            raise DefinitionError(
                f"mount takes tools, toolsets and functions that make them, not {item!r}"
            )
    if config_model is not None and not (
        isinstance(config_model, type) and issubclass(config_model, BaseModel)
    ):
        raise DefinitionError(f"config_model must be a pydantic model class, not {config_model!r}")
    # A Toolset refuses two tools of the same name, here before any session begins.
    made = [item for item in tools if isinstance(item, Tool | Toolset)]
    Toolset(tool for item in made for tool in _expand(item, item))


def _cleanup(
    coordinator: Any, exported: Iterable[Exported], unsubscribe: Callable[[], None]
) -> Cleanup:
    async def cleanup() -> None:
        unsubscribe()
        for one in exported:
            if coordinator.get("tools", one.name) is one:
                await coordinator.unmount("tools", one.name)

    return cleanup


def _checked(config: Any, model: type[BaseModel] | None) -> Any:
    if model is None:
        return config
    try:
        return model.model_validate(config)
    except ValidationError as error:
        # Do not chain: pydantic's own text shows the values, and a configuration holds secrets.
        found = error.errors(include_input=False, include_url=False, include_context=False)
        problems = "; ".join(
            f"{'.'.join(map(str, e['loc'])) or 'config'}: {e['msg']}" for e in found
        )
        raise DefinitionError(f"bad module configuration. {problems}") from None


def _expand(item: Mountable, made: object) -> Iterable[Tool]:
    if isinstance(made, Tool):
        return [made]
    if isinstance(made, Iterable):
        return made.values() if isinstance(made, Toolset) else made
    raise DefinitionError(f"{item!r} was asked for tools and returned {type(made).__name__}")


def _session_context(coordinator: Any, config: Any) -> Context[Any]:
    async def approve(request: ApprovalRequest) -> Decision:
        arguments = arguments_text(request.arguments, most=0)
        sources = sources_text(request.sources)
        check_readable(arguments + sources, MAX_QUESTION)
        prompt = f"Allow the tool {request.tool} to run with {arguments}?{sources}"
        try:
            answer = await coordinator.approval_system.request_approval(
                prompt, [_ALLOW, _DENY], APPROVAL_SECONDS, "deny"
            )
        except ApprovalTimeoutError:
            raise GuardrailError("The call was refused. Nobody answered in time.") from None
        return Decision(approved=answer == _ALLOW)

    return Context(
        config,
        thread=coordinator.session_id,
        approver=None if coordinator.approval_system is None else approve,
        metadata={"coordinator": coordinator},
    )


def _forward(coordinator: Any) -> Callable[[ToolEvent], Awaitable[None]]:
    async def forward(event: ToolEvent) -> None:
        data = {"tool_name": event.tool_name, "tool_call_id": event.call_id, **event.data}
        # The hooks are written in Rust, and accept only JSON.
        await coordinator.hooks.emit(event.kind, json_items(data))

    return forward


async def _cancel(coordinator: Any) -> None:
    try:
        await coordinator.request_cancel(immediate=True)
    except Exception:
        _log.error("the session could not be cancelled", exc_info=True)


def _native(result: ToolResult) -> _Result:
    fields: dict[str, Any] = {"output": _output(result, result.text)}
    if result.error is not None:
        fields = {"success": False, "output": result.text, "error": _error(result.error)}
    try:
        return _Result(**fields, content=_blocks(result))
    except ValidationError:
        # Amplifier refuses one of the images. The text still names it.
        return _Result(**fields)


def _error(failure: ToolFailure) -> dict[str, Any]:
    """Return a failure with its details beside its message, as Amplifier's own tools write them.

    A detail called `message` or `type` is put under `details`.
    """
    own = {"message": failure.message, "type": failure.type}
    # Convert to JSON, because hosts pass a result to logs and hooks that accept nothing else.
    details = json_items(failure.details or {})
    taken = {key: item for key, item in details.items() if key in own}
    return details | own | ({"details": taken} if taken else {})


def _output(result: ToolResult, text: str) -> Any:
    """Return the output as JSON data if the value is data, otherwise as text."""
    if not result.output:
        return None
    if result.structured is None or isinstance(result.structured, str):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _blocks(result: ToolResult) -> list[Any] | None:
    """Return the content as Amplifier's blocks, or None if it has no image for a model to see."""
    output = [with_true_type(part) for part in result.output]
    if not any(map(_is_shown, output)):
        return None
    blocks: list[Any] = (
        [] if result.error is None else [amplifier_core.TextBlock(text=result.error.message)]
    )
    for part in output:
        if isinstance(part, ImageContent) and part.data and _is_shown(part):
            source = {"type": "base64", "media_type": part.media_type, "data": base64_of(part)}
            blocks.append(amplifier_core.ImageBlock(source=source))
        else:
            blocks.append(amplifier_core.TextBlock(text=text_of(part)))
    return blocks


def _is_shown(part: Content) -> bool:
    return isinstance(part, ImageContent) and bool(part.data) and part.media_type in IMAGES


def _adopted(native: Any) -> ToolResult:
    if not isinstance(native, amplifier_core.ToolResult):
        return ToolResult.of(native)
    if not native.success:
        error = native.error or {}
        try:
            text = native.get_serialized_output()
        except (TypeError, ValueError):  # The output is no JSON: it holds a date, for example.
            text = ToolResult.of(native.output).text
        message = str(error.get("message") or text)
        output: list[Content] = [] if text == message else [TextContent(text=text)]
        output += map(_part, native.content or ())
        details = {
            key: item for key, item in error.items() if key not in ("message", "type")
        } or None
        return ToolResult.failed(
            message, type=str(error.get("type") or "ToolError"), details=details, output=output
        )
    if not native.content:
        return ToolResult.of(native.output)
    parts: list[Content] = [_part(block) for block in native.content]
    return ToolResult(output=parts, value=native.output)


def _part(block: Any) -> Content:
    if isinstance(block, amplifier_core.TextBlock):
        return TextContent(text=block.text)
    source = block.source
    return ImageContent(data=bytes_of(source["data"]), media_type=source["media_type"])
