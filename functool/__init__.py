"""functool: the tool layer of Python agents.

from functool import FunctionTool

@FunctionTool
def web_search(query: str, num_results: int = 10) -> str: ...
"""

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
from functool.guardrails import InputGuardrail, OutputGuardrail
from functool.schema_tool import SchemaTool
from functool.tool import Tool, ToolPrompts, ToolSettings, WrapperTool, hide_errors
from functool.tool_model import ToolModel
from functool.toolset import Toolset

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
