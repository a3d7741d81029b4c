"""functool: the tool layer of Python agents.

from functool import FunctionTool

@FunctionTool
def web_search(query: str, num_results: int = 10) -> str: ...
"""

import functools as _functools
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# `import X as X` tells a type checker that X is public.
if TYPE_CHECKING:
    from functool.agent_tool import AgentTool as AgentTool
    from functool.approval import ApprovalRequest as ApprovalRequest
    from functool.approval import Decision as Decision
    from functool.call import ToolCall as ToolCall
    from functool.call import ToolFailure as ToolFailure
    from functool.call import ToolResult as ToolResult
    from functool.call import ToolSchema as ToolSchema
    from functool.content import AudioContent as AudioContent
    from functool.content import Content as Content
    from functool.content import FileContent as FileContent
    from functool.content import ImageContent as ImageContent
    from functool.content import TextContent as TextContent
    from functool.context import Context as Context
    from functool.context import Inject as Inject
    from functool.context import ToolEvent as ToolEvent
    from functool.errors import ApprovalRequired as ApprovalRequired
    from functool.errors import ArgumentError as ArgumentError
    from functool.errors import DefinitionError as DefinitionError
    from functool.errors import FunctoolError as FunctoolError
    from functool.errors import GuardrailError as GuardrailError
    from functool.errors import SchemaError as SchemaError
    from functool.errors import ToolDisabledError as ToolDisabledError
    from functool.errors import ToolError as ToolError
    from functool.errors import ToolTimeoutError as ToolTimeoutError
    from functool.errors import Tripwire as Tripwire
    from functool.errors import UnknownToolError as UnknownToolError
    from functool.function_tool import FunctionTool as FunctionTool
    from functool.guardrails.asking import InputGuardrail as InputGuardrail
    from functool.guardrails.asking import OutputGuardrail as OutputGuardrail
    from functool.options import ToolPrompts as ToolPrompts
    from functool.options import ToolSettings as ToolSettings
    from functool.schema_tool import SchemaTool as SchemaTool
    from functool.tool import Tool as Tool
    from functool.tool import hide_errors as hide_errors
    from functool.tool_model import ToolModel as ToolModel
    from functool.toolset import Toolset as Toolset
    from functool.wrapper_tool import WrapperTool as WrapperTool

# Each name is imported from its file when it is first used, so that code which needs none of them,
# such as `functool --help`, starts fast.
_HOMES = {
    "agent_tool": "AgentTool",
    "approval": "ApprovalRequest Decision",
    "call": "ToolCall ToolFailure ToolResult ToolSchema",
    "content": "AudioContent Content FileContent ImageContent TextContent",
    "context": "Context Inject ToolEvent",
    "errors": "ApprovalRequired ArgumentError DefinitionError FunctoolError GuardrailError"
    " SchemaError ToolDisabledError ToolError ToolTimeoutError Tripwire UnknownToolError",
    "function_tool": "FunctionTool",
    "guardrails.asking": "InputGuardrail OutputGuardrail",
    "options": "ToolPrompts ToolSettings",
    "schema_tool": "SchemaTool",
    "tool": "Tool hide_errors",
    "tool_model": "ToolModel",
    "toolset": "Toolset",
    "wrapper_tool": "WrapperTool",
}
_HOME = dict(sorted((name, home) for home, names in _HOMES.items() for name in names.split()))

if not TYPE_CHECKING:
    __all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name in _functools.__all__:  # `from functool import` would replace an AttributeError's text.
        raise ImportError(f"no {name!r} in 'functool': the standard library's is 'functools'")
    if name not in _HOME:
        raise AttributeError(f"module 'functool' has no attribute {name!r}")
    return globals().setdefault(name, getattr(import_module(f"functool.{_HOME[name]}"), name))


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
