"""agent-framework: functool tools as its `FunctionTool`, and its tools as ours.

`runner` puts its agents behind `AgentTool`. Written against agent-framework-core 1.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

from functool import (
    Content,
    Context,
    DefinitionError,
    FileContent,
    SchemaTool,
    TextContent,
    Tool,
    ToolCall,
    ToolDisabledError,
    ToolResult,
    Tripwire,
)
from functool.call import failure_of, to_json
from functool.guardrails import require_approval
from functool.integrations._agents import asker, relayed
from functool.integrations.values import media, opened, text_of
from functool.layers.passing import passing
from functool.layers.some_tools import Tools, as_list, one_tool

try:
    import agent_framework as af
    from agent_framework import FunctionInvocationContext
    from agent_framework.exceptions import ContentError, ToolExecutionException
    from pydantic import RootModel

    from functool.integrations.agent_framework_runner import DEPS, kwargs_of, runner
except ImportError as _error:
    raise ImportError(
        "the agent-framework integration needs agent-framework-core:"
        " pip install 'functool[agent-framework]'"
    ) from _error

__all__ = [
    "RESULT", "RunStopped", "adopt", "approval_rule", "demands", "export", "export_all", "runner",
]  # fmt: skip

_CONTEXT = "functool_invocation"
RESULT = "functool_result"
"""The key of `FunctionInvocationContext.metadata` that holds our whole `ToolResult`."""


class RunStopped(Tripwire, af.MiddlewareFailure):  # type: ignore[misc]
    """A `Tripwire` that agent-framework lets through.

    Of any other exception it makes a tool result, and the run goes on.
    """


class _Exported(af.FunctionTool):  # type: ignore[misc]
    """Their tool, handing us the call's id and every argument name, `self` among them."""

    strict = False

    def to_json_schema_spec(self) -> dict[str, Any]:
        """Return their definition, and that the schema is strict.

        Clients for Chat Completions send it as it is.
        """
        spec: dict[str, Any] = super().to_json_schema_spec()
        return {**spec, "function": {**spec["function"], "strict": True}} if self.strict else spec

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return super().__call__(kwargs.pop(_CONTEXT, None), kwargs, *args)

    async def invoke(
        self,
        *,
        arguments: Any = None,
        context: FunctionInvocationContext | None = None,
        tool_call_id: str | None = None,
        **kwargs: Any,
    ) -> Any:
        """Run the tool as theirs does, its call id known to us."""
        if context is not None:
            context.metadata.setdefault("call_id", tool_call_id)
        return await super().invoke(
            arguments=arguments, context=context, tool_call_id=tool_call_id, **kwargs
        )


def export(tool: Tool, *, on_error: Literal["text", "raise"] = "text") -> af.FunctionTool:
    """Return `tool` as agent-framework's own `FunctionTool`.

    In a call `Context.deps` is the run's `function_invocation_kwargs` (or, where the only one is
    `deps`, that) and `Context.thread` its session; where `deps` is a functool `Context`, the tool
    gets that itself. A tool that may ask for approval has `approval_mode="always_require"`: the
    framework asks, once, and our guardrail takes its answer.

    Args:
        tool: The tool.
        on_error: With `"text"` the model reads why a call failed. With `"raise"` the framework sees
            an exception: the model reads a fixed sentence (or ours, with
            `include_detailed_errors`), and failures count against the framework's limits. What is
            wrong with the arguments is text in both: the model has to read it.

    Raises:
        DefinitionError: The framework could not run the tool rightly, or `on_error` is neither; the
            message names the rule.
        TypeError: `tool` is no tool.
    """
    if on_error not in ("text", "raise"):
        raise DefinitionError(f'on_error is "text" or "raise", not {on_error!r}')
    if problems := demands(one_tool(tool)):
        raise DefinitionError(
            f"agent-framework would not run {tool.name!r} rightly: {'; '.join(problems)}"
        )

    # The framework hands its context over under this parameter's name, `_CONTEXT`.
    async def call(
        functool_invocation: FunctionInvocationContext | None, arguments: dict[str, Any]
    ) -> Any:
        invocation = functool_invocation
        given = arguments if invocation is None else dict(invocation.arguments)
        # Only the framework's loop asks a person, and only it gives the id of a call.
        asked = invocation is not None and invocation.metadata.get("call_id") is not None
        approved = asked and native.approval_mode == "always_require"
        result = await _invoke(tool, given, invocation, approved=approved)
        failure = "" if result.error is None else result.error.type
        if failure not in ("", "ArgumentError") and on_error == "raise":
            raise ToolExecutionException(result.text)
        return _contents(result)

    native = _Exported(
        name=tool.name,
        description=tool.description,
        approval_mode="always_require" if tool.requires_approval else "never_require",
        input_model=_arguments_model(tool),
        func=call,
    )
    native.strict = tool.schema.strict
    return native


def _arguments_model(tool: Tool) -> type[RootModel[dict[str, Any]]]:
    """Return a model that publishes the tool's schema and lets every call through to its own check.

    With a schema as `input_model` the framework would check first, and hide our message behind a
    fixed sentence.
    """
    parameters = copy.deepcopy(tool.schema.parameters)

    class Arguments(RootModel[dict[str, Any]]):
        @classmethod
        def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
            return copy.deepcopy(parameters)

    return Arguments


def export_all(
    tools: Tools, *, on_error: Literal["text", "raise"] = "text"
) -> list[af.FunctionTool]:
    """Return each of some tools as agent-framework's own `FunctionTool`."""
    return [export(tool, on_error=on_error) for tool in as_list(tools)]


def approval_rule(tools: Tools, context: Context[Any]) -> Callable[[af.Content], Awaitable[bool]]:
    """Return a rule for the `auto_approval_rules` of agent-framework's `ToolApprovalMiddleware`.

    The framework pauses for every call of a tool that may ask for approval. By this rule a call
    runs at once where no condition of `require_approval(when)` asks, or where a grant covers it.

    Args:
        tools: The tools as they were exported. The rule knows a call by the name of its tool.
        context: The run's own `Context`, which it has as the only kwarg `deps`; it has the grants.
    """
    askers = {tool.name: asker(tool) for tool in as_list(tools)}

    async def rule(function_call: af.Content) -> bool:
        asks, arguments = askers.get(function_call.name), function_call.parse_arguments()
        if asks is None or not isinstance(arguments, Mapping):
            return False
        return not await asks(arguments, function_call.call_id or "", context)

    return rule


def demands(tool: Tool) -> list[str]:
    """Return what agent-framework would not run rightly."""
    properties = tool.schema.parameters.get("properties", {})
    required = set(tool.schema.parameters.get("required", ()))
    found = []
    if "raw" in properties and required <= {"raw"}:
        found.append(
            "a call whose arguments are no JSON object arrives as {'raw': text}, and would run with"
            " a parameter named 'raw': rename the parameter, or require another one too"
        )
    if _CONTEXT in properties:
        found.append(f"a parameter cannot be named {_CONTEXT!r}")
    return found


def adopt(native: af.FunctionTool) -> Tool:
    """Return their tool as ours, checked by its schema.

    `Context.deps` and `Context.thread` are handed on.
    A tool that always requires approval gets our `require_approval`.

    Raises:
        DefinitionError: It is not a `FunctionTool`, or is only declared and has no function.
    """
    if not isinstance(native, af.FunctionTool):
        raise DefinitionError(
            f"not an agent_framework.FunctionTool: {native!r}; make one with agent_framework.tool"
        )
    if native.declaration_only:
        raise DefinitionError(f"{native.name!r} is only declared: it has no function to run")

    async def handler(arguments: Mapping[str, Any], context: Context[Any]) -> ToolResult:
        session = context.thread if isinstance(context.thread, af.AgentSession) else None
        runtime = kwargs_of(context.deps)
        if session is not None:
            runtime["session"] = session
        call_id = context.call.id if context.call is not None else ""
        invocation = FunctionInvocationContext(
            native, arguments, session=session, kwargs=runtime, metadata={"call_id": call_id}
        )
        # Without words of the author's own, the value itself is wanted.
        own = native.result_parser is None
        value = await native.invoke(
            arguments=dict(arguments),
            context=invocation,
            tool_call_id=call_id or None,
            skip_parsing=own,
        )
        return _adopted(value)

    guardrails = [require_approval()] if native.approval_mode == "always_require" else []
    schema = copy.deepcopy(native.parameters())
    # A model would drop what it does not know, and say nothing.
    if native.input_model is not None and not isinstance(native, _Exported):
        schema.setdefault("additionalProperties", False)
    return SchemaTool(native.name, native.description, schema, handler, input_guardrails=guardrails)


async def _invoke(
    tool: Tool,
    arguments: dict[str, Any],
    invocation: FunctionInvocationContext | None,
    *,
    approved: bool,
) -> ToolResult:
    kwargs: dict[str, Any] = {} if invocation is None else dict(invocation.kwargs)
    session = None if invocation is None else invocation.session
    # The framework adds the session to the kwargs of the run.
    if session is not None and kwargs.get("session") is session:
        del kwargs["session"]
    deps = kwargs[DEPS] if set(kwargs) == {DEPS} else kwargs
    metadata: dict[str, Any] = {} if invocation is None else invocation.metadata
    # A functool context of the host's own is used as it is: its state, its listeners, its limits.
    shared: Context[Any] = (
        deps if isinstance(deps, Context) else passing(Context(deps, metadata=metadata))
    )
    context = shared.view(thread=session or shared.thread)
    if not tool.is_enabled(context):
        return failure_of(ToolDisabledError.of(tool.name))
    call = ToolCall(
        name=tool.name, arguments=_sent(tool, arguments), id=str(metadata.get("call_id") or "")
    )
    try:
        result = await tool.invoke(call, relayed(tool, call, context) if approved else context)
    except Tripwire as stop:
        raise RunStopped(str(stop)) from stop
    if invocation is not None:
        invocation.metadata[RESULT] = result
    return result


def _sent(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any] | str:
    """Return what the model sent: arguments that are no JSON object arrive as `{"raw": ...}`."""
    if set(arguments) != {"raw"} or "raw" in tool.schema.parameters.get("properties", {}):
        return arguments
    raw = arguments["raw"]
    text = raw if isinstance(raw, str) else json.dumps(raw)
    try:
        # A text that is an object would have been taken for one: then `raw` is a key that the model
        # made up.
        return arguments if isinstance(json.loads(text), dict) else text
    except ValueError:
        return text


def _contents(result: ToolResult) -> list[Any]:
    parts = [] if result.error is None else [af.Content.from_text(result.error.message)]
    parts += [_content(part) for part in result.output]
    return parts or [af.Content.from_text("")]


def _content(part: Content) -> Any:
    if isinstance(part, TextContent):
        return af.Content.from_text(part.text)
    name = part.name if isinstance(part, FileContent) else None
    if part.data is not None:
        return af.Content.from_data(part.data, part.media_type, name=name)
    try:
        return af.Content.from_uri(part.uri or "", media_type=part.media_type, name=name)
    except ContentError:
        return af.Content.from_text(text_of(part))


def _adopted(value: Any) -> ToolResult:
    items = value if isinstance(value, list) else [value]
    if not any(isinstance(item, af.Content) for item in items):
        return ToolResult.of(value)
    parts = [_part(item) for item in af.FunctionTool.parse_result(items)]
    texts = [part.text for part in parts if isinstance(part, TextContent)]
    return ToolResult(output=parts, value="\n".join(texts) if len(texts) == len(parts) else parts)


def _part(item: Any) -> Content:
    if item.type not in ("data", "uri") or not item.uri:
        return TextContent(text=to_json(item.to_dict()) if item.text is None else item.text)
    where = opened(item.uri)
    media_type = where.pop("media_type", "application/octet-stream")
    return media(item.media_type or media_type, **where)
