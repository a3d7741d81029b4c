"""A tool and the road of one call through it.

    ToolCall ─ decode ─ validate ─ on_invoke ─ input guardrails ─> run
             ─> on_output ─ output guardrails ─> ToolResult
    any Exception on the way ─> on_error ─ output guardrails ─> ToolResult

Decoding, validation and both guardrail lists belong to the road. A subclass overrides hooks, never
the road.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeAlias, TypeVar

from typing_extensions import Unpack

from functool.binding.door import Binder, Bound
from functool.binding.foreign import SchemaBinder
from functool.binding.json_text import Arguments
from functool.binding.watch import Watch, watching
from functool.binding.watched_shapes import JsonShapes
from functool.call import (
    DATA,
    ToolCall,
    ToolResult,
    ToolSchema,
    changed,
    failure_of,
    metadata_of,
    success,
    wrong_call,
)
from functool.context import Context, wrong_context
from functool.errors import ApprovalRequired, DefinitionError, ToolError
from functool.executors import checked_timeout, deliver_last, failure_or_raise, inline, within
from functool.guardrails.approval import with_edit_told
from functool.guardrails.asking import InputGuardrail, OutputGuardrail, callables, in_order
from functool.options import (
    ErrorFunc,
    ToolOptions,
    ToolPrompts,
    ToolSettings,
    checked_bytes,
    checked_prompts,
    checked_settings,
    refuse_unknown,
)
from functool.schema.callables import made_here
from functool.schema.json_schema import checked_parameters
from functool.schema.publish import Strict, publish
from functool.trip import Trip

MAX_ARGUMENT_BYTES = 1_048_576
"""How many bytes the text of a call's arguments may have, unless a tool says otherwise."""

Proceed: TypeAlias = Callable[[], Awaitable[ToolResult]]
Around: TypeAlias = Callable[[ToolCall, Context[Any], Proceed], Awaitable[ToolResult]]
T = TypeVar("T", bound="Tool")

logger: logging.Logger = logging.getLogger("functool")


class Tool(ABC):
    """Something that a model can call.

    Subclasses implement `run`; `invoke`, also `__call__`, is the road.

    Args:
        name: The name that a model calls.
        description: What the model is told that the tool does.
        parameters: JSON Schema (2020-12) of the arguments; its root is an object.
        strict: True publishes the strict form and decodes it; `"refuse"` raises instead of
            encoding.
        output: JSON Schema of the value, where there is one.
        **options: `timeout`, `input_guardrails`, `output_guardrails`, `on_error_func`, `settings`,
            `prompts`, `max_argument_bytes`: see `ToolOptions`.

    Raises:
        DefinitionError: The name is empty, or an option is not what it should be.
        SchemaError: Under strict, the arguments have no strict form.
    """

    def __init__(
        self,
        *,
        name: str,
        description: str,
        parameters: Mapping[str, Any],
        strict: Strict = False,
        output: Mapping[str, Any] | None = None,
        **options: Unpack[ToolOptions],
    ) -> None:
        try:
            self._equip(name, options)
            plain = checked_parameters(parameters)
            self._schema, codec = publish(name, description, plain, strict, output)
            self._binder: Binder = SchemaBinder(self._schema.plain, codec, self.max_argument_bytes)
        except DefinitionError as error:
            raise made_here(error, name) from error.__cause__
        except (AttributeError, LookupError, TypeError) as error:
            wrong = DefinitionError(f"the parameters are no JSON Schema: {error}")
            raise made_here(wrong, name) from error

    def _equip(self, name: str, options: ToolOptions) -> None:
        """Set all that does not depend on the schema."""
        refuse_unknown(options, type(self))
        if not isinstance(name, str) or not name:
            raise DefinitionError("a tool needs a name")
        on_error = options.get("on_error_func")
        self._name = name
        self.timeout: float | None = checked_timeout(options.get("timeout"))
        self.input_guardrails: list[InputGuardrail] = callables(
            options.get("input_guardrails", ()), "input_guardrails", ("call", "context")
        )
        self.output_guardrails: list[OutputGuardrail] = callables(
            options.get("output_guardrails", ()), "output_guardrails", ("result", "context")
        )
        in_order(self._all_output_guardrails())
        self._error_funcs: list[ErrorFunc] = callables(
            [] if on_error is None else [on_error], "on_error_func", ("error", "context")
        )
        self.settings: ToolSettings = checked_settings(options.get("settings"), name)
        self.prompts: ToolPrompts = checked_prompts(options.get("prompts"))
        self.max_argument_bytes: int | None = checked_bytes(
            options.get("max_argument_bytes", MAX_ARGUMENT_BYTES)
        )
        kind = type(self)
        self._hooked = kind.on_invoke is not Tool.on_invoke or kind.on_output is not Tool.on_output
        self._arounds: tuple[Around, ...] = ()

    @property
    def name(self) -> str:
        """The name that a model calls."""
        return self._name

    @property
    def description(self) -> str:
        """What the model is told that the tool does."""
        return self.schema.description

    @property
    def schema(self) -> ToolSchema:
        """All that a model is told of the tool. Treat it as immutable."""
        return self._schema

    @property
    def strict(self) -> bool:
        """Whether the published schema is the strict form."""
        return self.schema.strict

    @property
    def requires_approval(self) -> bool:
        """Whether one of the input guardrails may ask a person for approval."""
        return any(
            getattr(guardrail, "asks_approval", False) for guardrail in self.input_guardrails
        )

    def is_enabled(self, context: Context[Any] | None = None) -> bool:
        """Whether the tool is switched on in this context. A switch that fails switches it off."""
        switch = self.settings.is_enabled
        if not callable(switch):
            return bool(switch)
        try:
            answer: Any = switch(Context() if context is None else context)
            if inspect.iscoroutine(answer):
                answer.close()
                raise TypeError("is_enabled has to be sync")
            return bool(answer)
        except Exception:
            logger.error(
                "is_enabled of %s failed, so the tool is disabled", self._name, exc_info=True
            )
            return False

    def add_input_guardrails(self, guardrails: Iterable[InputGuardrail]) -> None:
        """Append guardrails that see what will run."""
        self.input_guardrails.extend(callables(guardrails, "input_guardrails", ("call", "context")))

    def add_output_guardrails(self, guardrails: Iterable[OutputGuardrail]) -> None:
        """Append guardrails that see what will leave."""
        new = callables(guardrails, "output_guardrails", ("result", "context"))
        in_order([*self._all_output_guardrails(), *new])
        self.output_guardrails.extend(new)

    def _all_output_guardrails(self) -> list[OutputGuardrail]:
        """Return the output guardrails on the way out, those of an inner tool first."""
        return self.output_guardrails

    def add_on_error_func(self, func: ErrorFunc) -> None:
        """Append a function that is asked for every exception that those before it pass on."""
        self._error_funcs.extend(callables([func], "on_error_func", ("error", "context")))

    def around(self: T, func: Around) -> T:
        """Return a copy whose body is `await func(call, context, proceed)`.

        `await proceed()` runs the body as it was. `func` stands inside all input guardrails and
        approvals, and before `on_output` and the output guardrails. The last one added stands
        outermost.
        """
        [func] = callables([func], "around", ("call", "context", "body"))
        twin = self._twin()
        twin._arounds = (*self._arounds, func)
        return twin

    def _twin(self: T) -> T:
        # `copy.copy` would return a FunctionTool itself: it pickles by its name.
        twin = object.__new__(type(self))
        for name, value in vars(self).items():
            object.__setattr__(twin, name, value)
        twin.input_guardrails = [*self.input_guardrails]
        twin.output_guardrails = [*self.output_guardrails]
        twin._error_funcs = [*self._error_funcs]
        return twin

    def bind(self, arguments: Arguments) -> Bound:
        """Decode and validate arguments as the road does.

        Raises:
            ArgumentError: They do not fit.
        """
        binder = self._binder
        values = binder.values(arguments)
        return Bound(values, binder.canonical(arguments, values))

    def watch(self) -> Watch:
        """Return what judges a call's arguments while their text is written.

        Its `feed(text)` takes the next piece, and returns an `ArgumentError` as soon as no ending
        can make the arguments valid. It never refuses what the whole text would pass.
        """
        plain, strict = self.schema.plain, self.strict
        binder = self._binder
        return watching(binder, lambda: JsonShapes(plain, strict), self.max_argument_bytes)

    def sent_form(self, arguments: Arguments) -> Arguments:
        """Return canonical arguments under the names that a model sends.

        A layer whose road goes on elsewhere sends these: the road there takes what a model sends.
        """
        return self._binder.sent_form(arguments)

    async def on_invoke(self, call: ToolCall, context: Context[Any]) -> ToolCall | None:
        """See a validated call before the guardrails; return another one to run that instead."""
        return None

    @abstractmethod
    async def run(self, call: ToolCall, context: Context[Any]) -> ToolResult:
        """Do the work. `call.arguments` are the canonical ones."""

    async def on_output(self, result: ToolResult, context: Context[Any]) -> ToolResult | None:
        """See a result before the guardrails; return another one to let that leave instead."""
        return None

    async def on_error(self, error: Exception, context: Context[Any]) -> ToolResult:
        """Answer an exception that no error function answered, and log it.

        A `ToolError` is meant for the model. Any other exception is logged at ERROR, with its
        traceback.
        """
        if not isinstance(error, ToolError):
            logger.error("the tool %s failed", self._name, exc_info=error)
        return failure_of(error)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name}>"

    async def __call__(self, call: ToolCall, context: Context[Any] | None = None) -> ToolResult:
        """Run the call: `invoke`."""
        return await self.invoke(call, context)

    async def invoke(self, call: ToolCall, context: Context[Any] | None = None) -> ToolResult:
        """Run one call and return its one result.

        Raises:
            Tripwire: A guardrail stopped the run. No other `Exception` is raised. Cancellation from
                outside, KeyboardInterrupt and SystemExit pass through.
            TypeError: The context is no `Context`, or the call no `ToolCall`.
        """
        if context is not None and not isinstance(context, Context):
            raise wrong_context(context)
        try:
            trip = Trip(self, self._binder, call, context)
        except AttributeError:
            raise wrong_call(call) from None
        try:
            if self.timeout is None:
                result = await self._road(trip)
            else:
                result = await within(self.timeout, self._name, partial(self._road, trip))
        finally:
            if trip.made is not None and trip.made.delivers:
                await deliver_last(trip.made.delivered())
        return trip.conclude(result, self.settings.untrusted)

    async def _road(self, trip: Trip, failed: Exception | None = None) -> ToolResult:
        """Take every step in its order; `failed` is what ended the call before."""
        if (noted := logger.isEnabledFor(logging.DEBUG)) and failed is None:
            logger.debug("call %r of %s", trip.id, self._name)
        try:
            if failed is not None:
                raise failed
            trip.values = trip.binder.values(trip.sent.arguments)
            if self._hooked:
                await trip.ask_hook(self.on_invoke)
            if self.input_guardrails:
                await trip.ask_input(self.input_guardrails)
            value = await (self._surrounded(trip) if self._arounds else self._start_body(trip))
            if type(value) in DATA:
                result = success(value, trip.id)
            else:
                result = await self._result_of(value, trip)
                trip.note(result)
            if self._hooked and (new := await self.on_output(result, trip.view)) is not None:
                result = self._checked(new, "on_output")
        except (Exception, asyncio.CancelledError) as error:
            result = await self._answer(failure_or_raise(error), trip)
        if trip.made is not None and trip.made.noted:
            result = with_edit_told(result, trip.made)
        if self.output_guardrails:
            try:
                # Output guardrails see the labels: one may keep a text aside, with its labels.
                labelled = trip.conclude(result, self.settings.untrusted)
                result = await trip.ask_output(self.output_guardrails, labelled)
            except (Exception, asyncio.CancelledError) as error:
                # A refusal is answered once; no output guardrail sees that answer.
                result = await self._answer(failure_or_raise(error), trip)
        if noted:
            logger.debug("call %r of %s: %s", trip.id, self._name, outcome_of(result))
        try:
            return result
        finally:  # The traceback of a failure holds this frame, which must not hold the failure.
            del result, failed

    async def _start_body(self, trip: Trip) -> Any:
        """Run the body. Tools whose body takes values override this beside `run`."""
        return self._checked(await self.run(trip.call, trip.view), "run")

    async def _result_of(self, value: Any, trip: Trip) -> ToolResult:
        """Return the result of what the body returned, where that is no plain data."""
        return value if isinstance(value, ToolResult) else success(value, trip.id)

    async def _surrounded(self, trip: Trip) -> ToolResult:
        """Run the body inside of what stands around it."""

        async def body() -> ToolResult:
            result = await self._result_of(await self._start_body(trip), trip)
            trip.label(result)
            return result

        proceed: Proceed = body
        for func in self._arounds:
            proceed = partial(inline, func, trip.call, trip.view, proceed)
        return self._checked(await proceed(), "what stands around the body")

    def _checked(self, result: Any, hook: str) -> ToolResult:
        if not isinstance(result, ToolResult):
            raise TypeError(
                f"{hook} of {self._name} must return a ToolResult, not {type(result).__name__}"
            )
        return result

    async def _answer(self, error: Exception, trip: Trip) -> ToolResult:
        """Ask the error functions in order, then `on_error`; if one crashes, give the default."""
        try:
            result = await self._asked(error, trip.view)
            if result is None:
                result = self._checked(await self.on_error(error, trip.view), "on_error")
        except (Exception, asyncio.CancelledError) as crash:
            failure_or_raise(crash)
            logger.error("an error function of %s failed", self._name, exc_info=True)
            result = failure_of(error)
        if isinstance(error, ApprovalRequired) and result.is_error:
            result = changed(result, metadata={"approval": error.request, **metadata_of(result)})
        trip.note(result)
        return result

    async def _asked(self, error: Exception, view: Context[Any]) -> ToolResult | None:
        for func in self._error_funcs:
            answer = await inline(func, error, view)
            if isinstance(answer, ToolResult):
                return answer
            if isinstance(answer, str):
                return failure_of(error, answer)
            if answer is not None:
                given = type(answer).__name__
                raise TypeError(
                    f"an error function returned {given}, expected ToolResult, str or None"
                )
        return None


def outcome_of(result: ToolResult) -> str:
    """Return how a call ended in one word: `success`, or the type of its failure."""
    return result.error.type if result.error else "success"


def hide_errors(error: Exception, context: Context[Any]) -> str | None:
    """Answer an unexpected exception with a fixed sentence and log it.

    A `ToolError` is meant for the model, and passes.
    """
    if isinstance(error, ToolError):
        return None
    logger.error("a tool failed", exc_info=error)
    return "The tool failed unexpectedly."
