"""Bridge to Unique: functool tools as subclasses of unique-toolkit's `Tool`, its tools as ours.

`export` registers a tool with their `ToolFactory`, and `adopt` converts one of their tools. Written
against unique-toolkit 2026, for Python 3.12 and newer.
"""

from __future__ import annotations

import copy
import re
import types
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from functool import (
    ApprovalRequest,
    Content,
    Context,
    Decision,
    DefinitionError,
    ImageContent,
    SchemaTool,
    TextContent,
    Tool,
    ToolCall,
    ToolPrompts,
    ToolResult,
    ToolSettings,
)
from functool.executors import in_thread
from functool.integrations._agents import answer_to
from functool.integrations.values import json_items
from functool.layers.passing import passing
from functool.layers.some_tools import one_tool

try:
    from pydantic import BaseModel, create_model
    from unique_toolkit.agentic.tools.config import ToolIcon, ToolSelectionPolicy
    from unique_toolkit.agentic.tools.factory import ToolFactory
    from unique_toolkit.agentic.tools.openai_builtin.base import OpenAIBuiltInToolName
    from unique_toolkit.agentic.tools.schemas import BaseToolConfig, ToolCallResponse
    from unique_toolkit.agentic.tools.tool import Tool as NativeTool
    from unique_toolkit.agentic.tools.tool_progress_reporter import ToolProgressReporter
    from unique_toolkit.language_model.schemas import (
        LanguageModelFunction,
        LanguageModelToolDescription,
    )

    from functool.integrations.unique_images import split_images, with_bytes
    from functool.integrations.unique_progress import Progress
except ImportError as _error:
    raise ImportError(
        "the Unique integration needs unique-toolkit and Python 3.12:"
        " pip install 'functool[unique]'"
    ) from _error

Approver = Callable[[ApprovalRequest], "bool | Decision | Awaitable[bool | Decision]"]

NO_OUTPUT = "(no output)"
_NAME = re.compile(r"[a-zA-Z0-9_-]+")

_states: WeakKeyDictionary[ToolProgressReporter, dict[str, Any]] = WeakKeyDictionary()
"""The state of each run. A manager gives all of its tools the same progress reporter."""


def export(
    tool: Tool,
    config: type[BaseModel] | None = None,
    *,
    selection_policy: ToolSelectionPolicy | str | None = None,
    approver: Approver | None = None,
) -> type[NativeTool[Any]]:
    """Return a subclass of their `Tool` that runs `tool`, registered with their `ToolFactory`.

    It is registered under the tool's name. In a call `Context.deps` is the configuration. Display
    name, icon, policy and the other fields of a plan's `ToolBuildConfig` override the tool's own
    settings.

    Args:
        tool: The tool.
        config: The class of the configuration: a subclass of their `BaseToolConfig`, or any
            pydantic model, from which such a subclass is made.
        selection_policy: The policy if the plan names none. Their default is `ByUser`.
        approver: Decides on the approvals that the tool asks for, sync or async. Unique has no
            approvals of its own.

    Raises:
        DefinitionError: Unique would refuse the tool, its configuration or the policy, or has
            another tool of that name. The message names the rule.
        TypeError: `tool` is not a tool.
    """
    problems = demands(one_tool(tool))
    problems += _replaced(tool)
    config_class = _config_class(tool.name, config, problems)
    policy = _policy(selection_policy, problems)
    if problems:
        raise DefinitionError(f"Unique would refuse {tool.name!r}: {'; '.join(problems)}")
    namespace = {
        "name": tool.name,
        "__doc__": tool.description,
        "functool_tool": tool,
        "__init__": _construct,
        "run": _run(tool, approver),
    }
    namespace |= _identity(tool, policy) | _texts(tool)
    title = "".join(word.capitalize() for word in re.split(r"[_-]+", tool.name)) or "Functool"
    made = types.new_class(
        f"{title}Tool", (NativeTool[config_class],), exec_body=lambda body: body.update(namespace)
    )
    ToolFactory.register_tool(made, config_class)
    return made


def demands(tool: Tool) -> list[str]:
    """Return the reasons why Unique would refuse a tool."""
    found = []
    if not _NAME.fullmatch(tool.name):
        found.append(
            "the name must adhere to the pattern ^[a-zA-Z0-9_-]+$:"
            " WrapperTool(tool, name=...) gives another"
        )
    if tool.name in list(OpenAIBuiltInToolName):
        found.append(
            f"{tool.name!r} is the name of a built-in tool, and their ToolManager leaves out any"
            " other"
        )
    return found


def adopt(native: NativeTool[Any]) -> Tool:
    """Return an instance of their tool as ours.

    Raises:
        DefinitionError: It is not an instance of their `Tool`.
    """
    if not isinstance(native, NativeTool):
        raise DefinitionError(
            f"not an instance of unique_toolkit's Tool: {native!r}; build it with its configuration"
        )
    described = native.tool_description()

    async def handler(arguments: Mapping[str, Any], context: Context[Any]) -> ToolResult:
        call_id = context.call.id if context.call is not None else ""
        call = LanguageModelFunction(id=call_id, name=native.name, arguments=dict(arguments))
        return _adopted(await native.run(call))

    return SchemaTool(
        described.name,
        described.description,
        copy.deepcopy(native.tool_description_as_json()),
        handler,
        settings=ToolSettings(
            display_name=native.display_name() or described.name,
            icon=str(native.icon()),
            is_exclusive=native.is_exclusive(),
            is_enabled=lambda context: native.is_enabled(),
            takes_control=native.takes_control(),
        ),
        prompts=ToolPrompts(
            system=native.tool_description_for_system_prompt(),
            system_format=native.tool_format_information_for_system_prompt(),
            user=native.tool_description_for_user_prompt(),
            user_format=native.tool_format_information_for_user_prompt(),
            user_reminder=native.tool_format_reminder_for_user_prompt()
            or native.tool_system_reminder_for_user_prompt(),
        ),
    )


def _replaced(tool: Tool) -> list[str]:
    """Return a finding if their factory would silently replace another tool of that name."""
    registered = ToolFactory.tool_map.get(tool.name)
    known = registered is not None or tool.name in ToolFactory.tool_config_map
    if not known or getattr(registered, "functool_tool", None) is tool:
        return []
    return [
        (
            "their ToolFactory has another tool of that name, which would be replaced:"
            " WrapperTool(tool, name=...) gives another"
        )
    ]


def _policy(named: ToolSelectionPolicy | str | None, problems: list[str]) -> Any:
    try:
        return None if named is None else ToolSelectionPolicy(named)
    except ValueError:
        problems.append(f"selection_policy must be one of {', '.join(ToolSelectionPolicy)}")
        return None


def _config_class(name: str, config: type[BaseModel] | None, problems: list[str]) -> Any:
    title = "".join(word.capitalize() for word in re.split(r"[^a-zA-Z0-9]+", name)) + "Config"
    if config is None:
        return create_model(title, __base__=BaseToolConfig)
    if not (isinstance(config, type) and issubclass(config, BaseModel)):
        problems.append(
            f"the configuration must be a class made from their BaseToolConfig, not {config!r}"
        )
        return BaseToolConfig
    if "mcp_source_id" in config.model_fields:
        problems.append(
            "a configuration with a field mcp_source_id is taken for that of an MCP tool, and not"
            " checked"
        )
    if issubclass(config, BaseToolConfig):
        return config
    return create_model(config.__name__, __base__=(config, BaseToolConfig), __doc__=config.__doc__)


def _construct(
    self: Any,
    config: Any,
    event: Any = None,
    tool_progress_reporter: ToolProgressReporter | None = None,
    *,
    chat_service: Any = None,
    language_model_service: Any = None,
) -> None:
    NativeTool.__init__(
        self,
        config,
        event,
        tool_progress_reporter,
        chat_service=chat_service,
        language_model_service=language_model_service,
    )
    # Keep the reporter here, because their own attribute for it is deprecated.
    self.functool_reporter = tool_progress_reporter
    shared = isinstance(tool_progress_reporter, ToolProgressReporter)
    self.functool_state = _states.setdefault(tool_progress_reporter, {}) if shared else {}
    self.functool_approver = None


def _identity(tool: Tool, policy: ToolSelectionPolicy | None) -> dict[str, Any]:
    ours = tool.settings
    own_icon: Any = ToolIcon(ours.icon) if ours.icon in list(ToolIcon) else None

    def display_name(self: Any) -> str:
        return self.settings.display_name or ours.display_name or tool.name

    def icon(self: Any) -> str:
        planned = own_icon is None or "icon" in self.settings.model_fields_set
        return str(self.settings.icon if planned else own_icon)

    def selection_policy(self: Any) -> ToolSelectionPolicy:
        if policy is None or "selection_policy" in self.settings.model_fields_set:
            return self.settings.selection_policy
        return policy

    def is_exclusive(self: Any) -> bool:
        return bool(self.settings.is_exclusive or ours.is_exclusive)

    def is_enabled(self: Any) -> bool:
        return bool(self.settings.is_enabled and tool.is_enabled(Context(self.config)))

    def takes_control(self: Any) -> bool:
        return ours.takes_control

    made = (display_name, icon, selection_policy, is_exclusive, is_enabled, takes_control)
    return {function.__name__: function for function in made}


def _texts(tool: Tool) -> dict[str, Any]:
    def tool_description(self: Any) -> LanguageModelToolDescription:
        return LanguageModelToolDescription(
            name=tool.name,
            description=tool.description,
            parameters=copy.deepcopy(tool.schema.parameters),
            strict=tool.strict,
        )

    prompts = tool.prompts
    words = {
        "tool_description_for_system_prompt": prompts.system,
        "tool_format_information_for_system_prompt": prompts.system_format,
        "tool_description_for_user_prompt": prompts.user,
        "tool_format_information_for_user_prompt": prompts.user_format,
        # Their ToolPrompts hold the system reminder, but not the format reminder. So give both.
        "tool_format_reminder_for_user_prompt": prompts.user_reminder,
        "tool_system_reminder_for_user_prompt": prompts.user_reminder,
    }
    methods: dict[str, Any] = {key: (lambda self, text=text: text) for key, text in words.items()}
    # These methods are abstract, so a subclass needs them. They are deprecated, so keep them empty.
    methods["evaluation_check_list"] = lambda self: []
    methods["get_evaluation_checks_based_on_tool_response"] = lambda self, tool_response: []
    return {"tool_description": tool_description, **methods}


def _run(tool: Tool, approver: Approver | None) -> Callable[..., Awaitable[ToolCallResponse]]:
    async def run(self: Any, tool_call: LanguageModelFunction) -> ToolCallResponse:
        if self.functool_approver is None:  # Grants of a person hold for this run only.
            self.functool_approver = Context(approver=approver).fresh().approver
        asks, about = self.functool_approver, {"tool": self}
        context: Context[Any] = Context(self.config, approver=asks, metadata=about)
        # All tools of a manager share the state of its run, for example a budget.
        context.state = self.functool_state
        passing(context)  # An approval that comes after the call would find another context.
        progress = Progress(self, tool, tool_call)
        context.subscribe(progress)
        call = ToolCall(name=tool.name, arguments=tool_call.arguments or {}, id=tool_call.id)
        # Their manager asks only once, when it is made, whether a tool is enabled.
        result = await answer_to(tool, call, context)
        await progress.end(result)
        if any(isinstance(part, ImageContent) for part in result.output):
            return await in_thread(_response, tool_call, result)  # Large images take a while.
        return _response(tool_call, result)

    return run


def _response(tool_call: LanguageModelFunction, result: ToolResult) -> ToolCallResponse:
    urls, rest = split_images(result.output)
    # Leave out the placeholders of images that are sent beside the text, unless there is no other
    # content. Unique would turn an empty content into "No relevant sources found.".
    shown = rest or result.output if urls else rest
    text = ToolResult(output=shown, error=result.error).text or NO_OUTPUT
    return ToolCallResponse(
        id=tool_call.id,
        name=tool_call.name,
        content="" if result.is_error else text,
        error_message=text if result.is_error else "",
        image_data_urls=urls,
        debug_info=json_items(result.metadata) if result.metadata else None,
    )


def _adopted(response: ToolCallResponse) -> ToolResult:
    metadata = dict(response.debug_info or {})
    parts: list[Content] = [TextContent(text=response.content)] if response.content else []
    parts += [TextContent(text=chunk.text) for chunk in response.content_chunks or []]
    parts += [with_bytes(ImageContent(uri=url)) for url in response.image_data_urls]
    if response.system_reminder:
        parts.append(TextContent(text=response.system_reminder))
    if not response.successful:
        return ToolResult.failed(response.error_message, output=parts, metadata=metadata)
    return ToolResult(output=parts, value=response.content, metadata=metadata)
