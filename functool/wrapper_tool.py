"""`WrapperTool`: a tool around another tool, and the base class of every layer."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any, Self

from typing_extensions import Unpack

from functool.binding.binder import Binder, Bound, PassingBinder
from functool.binding.json_text import Arguments
from functool.binding.watch import Watch
from functool.call import ToolCall, ToolResult, ToolSchema
from functool.context import Context
from functool.errors import DefinitionError
from functool.guardrails.asking import OutputGuardrail, check_order
from functool.guardrails.trusted import wanted_results
from functool.introspection import at_caller
from functool.options import ToolOptions
from functool.tool import Around, Tool
from functool.trip import Trip, verified


class WrapperTool(Tool):
    """A tool whose `run` invokes another tool, and the base class of every layer.

    The inner tool gets the call as it was sent, and validates it. Guardrails of the wrapper get the
    canonical arguments. Name, description, settings, prompts and the limit of bytes are by default
    those of the inner tool. A failure of the inner tool is a result, so the wrapper's error
    functions are not asked about it.

    Raises:
        DefinitionError: `tool` is not a tool, or an option has an invalid value.
    """

    def __init__(
        self,
        tool: Tool,
        *,
        name: str | None = None,
        description: str | None = None,
        **options: Unpack[ToolOptions],
    ) -> None:
        if not isinstance(tool, Tool):
            error = DefinitionError(f"it wraps a tool, not {type(tool).__name__}")
            raise at_caller(error, "a WrapperTool")
        self.tool = tool
        inner: ToolOptions = {"settings": tool.settings, "prompts": tool.prompts}
        inner["max_argument_bytes"] = tool.max_argument_bytes
        name = tool.name if name is None else name
        try:
            self._set_options(name, description, {**inner, **options})
        except DefinitionError as error:
            raise at_caller(error, name) from None
        self._new_description = description

    @cached_property
    def schema(self) -> ToolSchema:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The inner tool's schema with the wrapper's name and description."""
        base, new = self.tool.schema, self._new_description
        return replace(base, name=self._name, description=base.description if new is None else new)

    @property
    def requires_approval(self) -> bool:
        """Whether an input guardrail of the wrapper or of the inner tool may ask for approval."""
        return super().requires_approval or self.tool.requires_approval

    def is_enabled(self, context: Context[Any] | None = None) -> bool:
        """Return whether both the wrapper and the inner tool are enabled in this context."""
        inner = self.tool.settings.is_enabled  # If both share one function, call it once.
        own = self.settings.is_enabled is inner or super().is_enabled(context)
        return own and self.tool.is_enabled(context)

    def bind(self, arguments: Arguments) -> Bound:
        """Decode and validate arguments as the inner tool does."""
        self.binding.values(arguments)
        return self.tool.bind(arguments)

    def around(self, func: Around) -> Self:
        """Return a copy whose inner tool has `func` around its body, inside its guardrails."""
        twin = self._twin()
        twin.tool = self.tool.around(func)
        return twin

    def watch(self) -> Watch:
        """Return the inner tool's `Watch`, which checks arguments while a model writes them.

        A subclass that overrides `run` may change the arguments, so its calls are checked when
        they are complete. A subclass that does not change them can override this method with
        `return self.tool.watch()`.
        """
        return self.tool.watch() if type(self).run is WrapperTool.run else super().watch()

    def all_output_guardrails(self) -> list[OutputGuardrail]:
        """Return the output guardrails of the inner tool, and after them those of the wrapper."""
        return [*self.tool.all_output_guardrails(), *self.output_guardrails]

    async def run(self, call: ToolCall, context: Context[Any]) -> ToolResult:
        """Run the inner tool.

        `call` is as it was sent: nobody has validated its arguments, which may be JSON text.
        """
        return await self.tool.invoke(call, context)

    async def _start_body(self, trip: Trip) -> Any:
        if self.output_guardrails:  # The inner tool may have got some after this wrapper was made.
            check_order(self.all_output_guardrails())
        # An overridden `run` may use the call of its context, and have acted before the inner call.
        # `remember` has to know what the inner call writes into the notes.
        overridden = type(self).run is not WrapperTool.run
        context = trip.view if overridden or wanted_results else trip.context
        if trip.made_view is not None:  # What the call around this one has used stays its own.
            context = context.handing_over(self.tool, at_once=not overridden)
        return verified(await self.run(trip.sent, context), "run", self._name)

    @property
    def binding(self) -> Binder:  # type: ignore[override]
        """What checks the arguments: the inner tool does, and the wrapper only their size."""
        # The inner tool checks its own limit itself.
        is_own = self.max_argument_bytes != self.tool.max_argument_bytes
        return PassingBinder(self.tool.binding, self.max_argument_bytes if is_own else None)
