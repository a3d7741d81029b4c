"""functool: the tool layer of Python agents.

from functool import FunctionTool

@FunctionTool
def web_search(query: str, num_results: int = 10) -> str: ...
"""

import functools as _functools
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from functool.agent_tool import AgentTool
    from functool.approval import ApprovalRequest, Decision
    from functool.call import ToolCall, ToolFailure, ToolResult, ToolSchema
    from functool.content import AudioContent, Content, FileContent, ImageContent, TextContent
    from functool.context import Context, Inject, ToolEvent
    from functool.errors import (
        ApprovalRequired,
        ArgumentError,
        DefinitionError,
        FunctoolError,
        GuardrailError,
        SchemaError,
        ToolDisabledError,
        ToolError,
        ToolTimeoutError,
        Tripwire,
        UnknownToolError,
    )
    from functool.function_tool import FunctionTool
    from functool.guardrails.asking import InputGuardrail, OutputGuardrail
    from functool.options import ToolPrompts, ToolSettings
    from functool.schema_tool import SchemaTool
    from functool.tool import Tool, hide_errors
    from functool.tool_model import ToolModel
    from functool.toolset import Toolset
    from functool.wrapper_tool import WrapperTool

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
    "schema_tool": "SchemaTool",
    "options": "ToolPrompts ToolSettings",
    "tool": "Tool hide_errors",
    "tool_model": "ToolModel",
    "toolset": "Toolset",
    "wrapper_tool": "WrapperTool",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "AgentTool",
    "ApprovalRequest",
    "ApprovalRequired",
    "ArgumentError",
    "AudioContent",
    "Content",
    "Context",
    "Decision",
    "DefinitionError",
    "FileContent",
    "FunctionTool",
    "FunctoolError",
    "GuardrailError",
    "ImageContent",
    "Inject",
    "InputGuardrail",
    "OutputGuardrail",
    "SchemaError",
    "SchemaTool",
    "TextContent",
    "Tool",
    "ToolCall",
    "ToolDisabledError",
    "ToolError",
    "ToolEvent",
    "ToolFailure",
    "ToolModel",
    "ToolPrompts",
    "ToolResult",
    "ToolSchema",
    "ToolSettings",
    "ToolTimeoutError",
    "Toolset",
    "Tripwire",
    "UnknownToolError",
    "WrapperTool",
    "hide_errors",
]


def __getattr__(name: str) -> Any:
    if name in _functools.__all__:  # `from functool import` would replace an AttributeError's text.
        raise ImportError(f"no {name!r} in 'functool': the standard library's is 'functools'")
    if name not in _HOME:
        raise AttributeError(f"module 'functool' has no attribute {name!r}")
    return globals().setdefault(name, getattr(import_module(f"functool.{_HOME[name]}"), name))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
