"""Bridge to agent-framework: functool tools as its `FunctionTool`, and its tools as ours.

`runner` runs its agents behind `AgentTool`. Written against agent-framework-core 1.
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
    ToolResult,
    Tripwire,
)
from functool.call import to_json
from functool.guardrails import require_approval
from functool.integrations._agents import (
    answer_to,
    missing,
    passed_unasked,
    passes_unasked,
    relayed,
    stopping_with,
)
from functool.integrations.values import media, opened, shown, text_of
from functool.layers.passing import passing
from functool.layers.some_tools import Tools, as_list, one_native, one_tool

try:
    import agent_framework as af
    from agent_framework import FunctionInvocationContext
    from agent_framework.exceptions import ContentError, ToolExecutionException
    from pydantic import RootModel

    from functool.integrations.agent_framework_runner import DEPS, kwargs_of, runner
except ImportError as _error:
    raise missing("agent-framework", "agent-framework") from _error

__all__ = [
    "RESULT", "RunStopped", "adopt", "approval_rule", "demands", "export", "export_all", "runner",
]  # fmt: skip

_CONTEXT = "functool_invocation"

RESULT = "functool_result"
"""The key of `FunctionInvocationContext.metadata` that holds our whole `ToolResult`."""


class RunStopped(Tripwire, af.MiddlewareFailure):  # type: ignore[misc]
    """A `Tripwire` that ends a run of agent-framework.

    The framework turns any other exception into a tool result, and the run goes on.
    """


class _Exported(af.FunctionTool):  # type: ignore[misc]
    """Their tool, changed to pass on the call's id and arguments of any name, such as `self`."""

    strict = False

    def to_json_schema_spec(self) -> dict[str, Any]:
        """Return their definition with `strict` added, for clients that send it unchanged."""
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
        """Run the tool as their class does, after storing the call id where we find it."""
        if context is not None:
            context.metadata.setdefault("call_id", tool_call_id)
        return await super().invoke(
            arguments=arguments, context=context, tool_call_id=tool_call_id, **kwargs
        )


def export(tool: Tool, *, on_error: Literal["text", "raise"] = "text") -> af.FunctionTool:
    """Return `tool` as agent-framework's own `FunctionTool`.

    In a call, `Context.deps` is the run's `function_invocation_kwargs`, and `Context.thread` is its
    session. If `deps` is the only kwarg, `Context.deps` is its value. If the kwarg `deps` is a
    functool `Context`, the tool gets that context; with other kwargs beside it, a view of it whose
    `deps` are all the kwargs, and under `deps` its own. A tool that may ask for approval has
    `approval_mode="always_require"`: the framework asks once, and our guardrail uses its answer.

    Args:
        tool: The tool.
        on_error: With `"text"` the model reads why a call failed. With `"raise"` the framework gets
            an exception: the model reads a fixed sentence (or our message, with
            `include_detailed_errors`), and failures count against the framework's limits. Argument
            errors are text in both cases, because the model has to read them.

    Raises:
        DefinitionError: The framework cannot run the tool correctly, or `on_error` has another
            value. The message names the rule.
        TypeError: `tool` is not a tool.
    """
    if on_error not in ("text", "raise"):
        raise DefinitionError(f'on_error is "text" or "raise", not {on_error!r}')
    if problems := demands(one_tool(tool)):
        raise DefinitionError(
            f"agent-framework would not run {tool.name!r} rightly: {'; '.join(problems)}"
        )

    # The framework passes its context as the parameter of this name, which is `_CONTEXT`.
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
    """Return a model that publishes the tool's schema and accepts all arguments.

    The tool validates them itself. Given the plain schema, the framework would validate first, and
    would replace our message with a fixed sentence.
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

    The framework pauses for every call of a tool that may ask for approval. With this rule it does
    not pause if no condition of `require_approval(when)` asks, or if a grant covers the call. The
    tool decides again when the call runs. If it asks then, for example because the grant has
    expired, the model reads that a person has to approve. No more calls pass than the grants have
    uses, so a person is asked about the others.

    Args:
        tools: The tools that were exported. The rule finds the tool of a call by name.
        context: The functool `Context` that the run has as its kwarg `deps`. It holds the grants. A
            call that passes counts as approved in a run with another context, so make the rule anew
            for each user.
    """
    known = {tool.name: tool for tool in as_list(tools)}

    async def rule(function_call: af.Content) -> bool:
        tool, arguments = known.get(function_call.name), function_call.parse_arguments()
        if tool is None or not isinstance(arguments, Mapping):
            return False
        call_id, occurrence = function_call.call_id or "", function_call.id or ""
        return await passes_unasked(tool, arguments, call_id, context, occurrence=occurrence)

    return rule


def demands(tool: Tool) -> list[str]:
    """Return the reasons why agent-framework cannot run a tool correctly."""
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
    """Return their tool as ours. Arguments are validated by its schema.

    The tool gets `Context.deps` and `Context.thread`. A tool that always requires approval gets our
    `require_approval`.

    Raises:
        DefinitionError: It is not a `FunctionTool`, or it is only declared and has no function.
    """
    one_native(native, af.FunctionTool, "agent_framework.tool makes one")
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
        # Unless the author's own parser is to turn the value into text, take the value itself.
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
    # Their model would silently drop unknown arguments. Refuse them instead.
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
    given, alone = kwargs.get(DEPS), set(kwargs) == {DEPS}
    metadata: dict[str, Any] = {} if invocation is None else invocation.metadata
    # Use the host's own functool context if there is one: its state, listeners and limits.
    shared: Context[Any]
    if isinstance(given, Context):
        # An agent inside of the tool gets these deps, and must not get the grants with them.
        shared = given if alone else given.view(deps={**kwargs, DEPS: given.deps})
    else:
        shared = passing(Context(given if alone else kwargs, metadata=metadata))
    context = shared.view(thread=session or shared.thread)
    call = ToolCall(
        name=tool.name, arguments=_sent(tool, arguments), id=str(metadata.get("call_id") or "")
    )
    if passed_unasked(call, context):
        approved = False  # The rule let it pass, and no person has approved it.
    with stopping_with(RunStopped):
        context = relayed(tool, call, context) if approved else context
        result = await answer_to(tool, call, context)
    if invocation is not None:
        invocation.metadata[RESULT] = result
    return result


def _sent(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any] | str:
    """Return the arguments that the model sent.

    The framework passes arguments that are not a JSON object as `{"raw": ...}`.
    """
    if set(arguments) != {"raw"} or "raw" in tool.schema.parameters.get("properties", {}):
        return arguments
    raw = arguments["raw"]
    text = raw if isinstance(raw, str) else json.dumps(raw)
    try:
        # The framework would have decoded a text that holds an object. So the model sent `raw`.
        return arguments if isinstance(json.loads(text), dict) else text
    except ValueError:
        return text


def _contents(result: ToolResult) -> list[Any]:
    return [_content(part) for part in shown(result)] or [af.Content.from_text(result.text)]


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
