"""`SchemaTool`: a tool from a JSON Schema that somebody else wrote."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from typing_extensions import Unpack

from functool.call import ToolCall, ToolResult
from functool.context import Context
from functool.errors import DefinitionError
from functool.executors import Executor, checked_executor, in_thread, inline, run_with
from functool.introspection import at_caller, run_kind, takes
from functool.options import ToolOptions
from functool.schema.publish import Strict
from functool.tool import Tool

Handler: TypeAlias = Callable[[dict[str, Any]], Any] | Callable[[dict[str, Any], Context[Any]], Any]


class SchemaOptions(ToolOptions, total=False):
    """The options of a `SchemaTool`: those of `Tool`."""

    strict: Strict
    output: Mapping[str, Any] | None


class SchemaTool(Tool):
    """Make a tool from a JSON Schema (2020-12) and a handler.

    Args:
        name: The name for the model.
        description: Tells the model what the tool does.
        parameters: The schema of the arguments; its root is an object. References to files and the
            network are never fetched.
        handler: `handler(arguments, context)` or `handler(arguments)`, sync or async. `arguments`
            is a dict of the validated arguments, with defaults.
        executor: Runs the handler; by default `in_thread` for sync handlers, and the event loop for
            async ones.
        **options: The options of `Tool`.

    Raises:
        DefinitionError: The parameters are not the schema of an object, the handler takes neither
            one nor two arguments, or an option has an invalid value.
    """

    def __init__(
        self,
        name: str,
        description: str,
        parameters: Mapping[str, Any],
        handler: Handler,
        *,
        executor: Executor | None = None,
        **options: Unpack[SchemaOptions],
    ) -> None:
        super().__init__(name=name, description=description, parameters=parameters, **options)
        try:
            own = checked_executor(executor)
            if not callable(handler):
                raise DefinitionError(f"the handler must be callable, not {type(handler).__name__}")
            if isinstance(handler, Tool):
                wrong = "is a tool, whose guardrails would not be asked: call its `invoke`"
                raise DefinitionError(f"the handler {wrong}")
            if not (takes(handler, 1) or takes(handler, 2)):
                raise DefinitionError("the handler must take (arguments, context) or (arguments)")
        except DefinitionError as error:
            raise at_caller(error, name) from None
        self._handler = handler
        self._takes_context = takes(handler, 2)
        self._executor = own or (inline if run_kind(handler) == "coroutine" else in_thread)

    async def run(self, call: ToolCall, context: Context[Any]) -> ToolResult:
        """Call the handler."""
        arguments = (call.arguments, context) if self._takes_context else (call.arguments,)
        value = await run_with(self._executor, self._handler, *arguments)
        return value if isinstance(value, ToolResult) else ToolResult.of(value)
