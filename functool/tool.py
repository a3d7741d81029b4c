"""`Tool`, the base of every tool, and its road: the fixed steps that each call takes.

    ToolCall ─ decode ─ validate ─ on_invoke ─ input guardrails ─> run
             ─> on_output ─ output guardrails ─> ToolResult
    any Exception on the way ─> on_error ─ output guardrails ─> ToolResult

The road decodes and validates every call and asks both lists of guardrails. A subclass overrides
hooks. It never overrides the road itself.

Canonical arguments are validated arguments as JSON values: under the names of the parameters, in
plain form, with defaults. Hooks and guardrails get these.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, Self, TypeAlias

from typing_extensions import Unpack

from functool.binding.binder import Binder, Bound
from functool.binding.foreign import SchemaBinder
from functool.binding.json_text import Arguments
from functool.binding.watch import Watch
from functool.call import DATA, ToolCall, ToolResult, ToolSchema, failure_of, success_of, wrong_call
from functool.context import Context, wrong_context
from functool.delivery import deliver_last
from functool.errors import ApprovalRequired, DefinitionError, ToolError, logger
from functool.executors import inline
from functool.guardrails.approval import with_edit_note, with_request
from functool.guardrails.asking import InputGuardrail, OutputGuardrail, callables, check_order
from functool.guardrails.trusted import wanted_results
from functool.introspection import at_caller
from functool.large import drop_frames, held
from functool.options import (
    ErrorFunc,
    ToolOptions,
    ToolPrompts,
    ToolSettings,
    checked,
    checked_limit,
    checked_settings,
    refuse_unknown,
)
from functool.schema.json_schema import checked_parameters
from functool.schema.publish import Strict, publish
from functool.time_limit import checked_timeout, failure_or_raise, within
from functool.trip import Trip, started, verified

MAX_ARGUMENT_BYTES = 1_048_576
"""The default limit of a call's arguments as text, in bytes of UTF-8."""

Proceed: TypeAlias = Callable[[], Awaitable[ToolResult]]
Around: TypeAlias = Callable[[ToolCall, Context[Any], Proceed], Awaitable[ToolResult]]


class Tool(ABC):
    """Something that a model can call.

    Subclasses implement `run`. To run a call, use `invoke`, or call the tool: both are the same.

    Args:
        name: The name that a model calls.
        description: Tells the model what the tool does.
        parameters: JSON Schema (2020-12) of the arguments; its root is an object.
        strict: True publishes the schema in its strict form and decodes strict arguments.
            `"refuse"` raises `SchemaError` where the strict form would need an encoding.
        output: JSON Schema of the result's value, if it is known.
        **options: `timeout`, `input_guardrails`, `output_guardrails`, `on_error_func`, `settings`,
            `prompts`, `max_argument_bytes`: see `ToolOptions`.

    Raises:
        DefinitionError: The name is empty, or an option has an invalid value.
        SchemaError: `strict` is set, and the arguments have no strict form.
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
            self._set_options(name, description, options)
            plain = checked_parameters(parameters)
            self._schema, codec = publish(name, description, plain, strict, output)
            self.binding: Binder = SchemaBinder(self._schema.plain, codec, self.max_argument_bytes)
        except DefinitionError as error:
            raise at_caller(error, name) from error.__cause__
        except (AttributeError, LookupError, RecursionError, TypeError) as error:
            wrong = DefinitionError(f"the parameters are no JSON Schema: {error}")
            raise at_caller(wrong, name) from error

    def _set_options(self, name: str, description: str | None, options: ToolOptions) -> None:
        """Check what does not depend on the schema, and store it.

        The description is only checked: a subclass may take it from its function.
        """
        refuse_unknown(options, type(self))
        if not isinstance(name, str) or not name:
            raise DefinitionError("a tool needs a name")
        if not isinstance(description, str | None):
            kind = type(description).__name__
            raise DefinitionError(f"the description must be a text, not {kind}")
        self._name = name
        self.timeout: float | None = checked_timeout(options.get("timeout"))
        self.input_guardrails: list[InputGuardrail] = []
        self.output_guardrails: list[OutputGuardrail] = []
        self._error_funcs: list[ErrorFunc] = []
        self.add_input_guardrails(options.get("input_guardrails", ()))
        self.add_output_guardrails(options.get("output_guardrails", ()))
        if (on_error := options.get("on_error_func")) is not None:
            self.add_on_error_func(on_error)
        self.settings: ToolSettings = checked_settings(options.get("settings"), name)
        self.prompts: ToolPrompts = checked(options.get("prompts"), ToolPrompts, "prompts")
        limit = options.get("max_argument_bytes", MAX_ARGUMENT_BYTES)
        self.max_argument_bytes: int | None = checked_limit(limit, "max_argument_bytes")
        hooks = type(self).on_invoke, type(self).on_output
        self._has_hooks = hooks != (Tool.on_invoke, Tool.on_output)
        self._arounds: tuple[Around, ...] = ()

    @property
    def name(self) -> str:
        """The name that a model calls."""
        return self._name

    @property
    def description(self) -> str:
        """The text that tells the model what the tool does."""
        return self.schema.description

    @property
    def schema(self) -> ToolSchema:
        """Everything that a model learns about the tool. Treat it as immutable."""
        return self._schema

    @property
    def strict(self) -> bool:
        """Whether the published schema is the strict form."""
        return self.schema.strict

    @property
    def requires_approval(self) -> bool:
        """Whether one of the input guardrails may ask a person for approval."""
        return any(getattr(each, "asks_approval", False) for each in self.input_guardrails)

    def is_enabled(self, context: Context[Any] | None = None) -> bool:
        """Return whether the tool is enabled in this context.

        If `settings.is_enabled` raises, the error is logged and the tool counts as disabled.
        """
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
            logger.exception("is_enabled of %s failed, so the tool is disabled", self._name)
            return False

    def add_input_guardrails(self, guardrails: Iterable[InputGuardrail]) -> None:
        """Append guardrails. They check calls before the body runs."""
        self.input_guardrails.extend(callables(guardrails, "input_guardrails", ("call", "context")))

    def add_output_guardrails(self, guardrails: Iterable[OutputGuardrail]) -> None:
        """Append guardrails. They check results before the caller gets them."""
        new = callables(guardrails, "output_guardrails", ("result", "context"))
        check_order([*self.all_output_guardrails(), *new])
        self.output_guardrails.extend(new)

    def all_output_guardrails(self) -> list[OutputGuardrail]:
        """Return every output guardrail that a result passes; an inner tool's come first."""
        return self.output_guardrails

    def add_on_error_func(self, func: ErrorFunc) -> None:
        """Append an error function. It gets each exception that those before it do not answer."""
        self._error_funcs.extend(callables([func], "on_error_func", ("error", "context")))

    def around(self, func: Around) -> Self:
        """Return a copy of the tool whose body is `await func(call, context, proceed)`.

        `await proceed()` runs the original body. `func` runs after all input guardrails and
        approvals, and before `on_output` and the output guardrails. If a tool has several such
        functions, the one that was added last runs outermost.
        """
        [func] = callables([func], "around", ("call", "context", "proceed"))
        twin = self._twin()
        twin._arounds = (*self._arounds, func)
        return twin

    def _twin(self) -> Self:
        # `copy.copy` does not copy a FunctionTool: it pickles by name, so it would return itself.
        twin = object.__new__(type(self))
        for name, value in vars(self).items():
            object.__setattr__(twin, name, value)
        twin.input_guardrails = [*self.input_guardrails]
        twin.output_guardrails = [*self.output_guardrails]
        twin._error_funcs = [*self._error_funcs]
        return twin

    def bind(self, arguments: Arguments) -> Bound:
        """Decode and validate arguments as `invoke` does.

        Raises:
            ArgumentError: The arguments do not fit the schema.
        """
        binder = self.binding
        values = binder.values(arguments)
        return Bound(values, binder.canonical(arguments, values))

    def watch(self) -> Watch:
        """Return a `Watch`, which checks the arguments of a call while a model writes them.

        Its `feed(text)` takes the next piece of the text. It returns an `ArgumentError` as soon as
        no further text can make the arguments valid. It never refuses valid arguments.
        """
        return Watch(self.binding.shapes, self.binding.values, self.max_argument_bytes)

    def sent_form(self, arguments: Arguments) -> Arguments:
        """Return canonical arguments as a model would send them: under aliases.

        Defaults that the parameter itself may refuse are left out. A layer that runs the call in
        another process sends this form. The tool there expects what a model would send.
        """
        return self.binding.sent_form(arguments)

    async def on_invoke(self, call: ToolCall, context: Context[Any]) -> ToolCall | None:
        """Inspect a validated call before the guardrails; return another call to replace it."""
        return None

    @abstractmethod
    async def run(self, call: ToolCall, context: Context[Any]) -> ToolResult:
        """Do the work of the tool.

        `call.arguments` are validated, under their canonical names and with defaults.
        """

    async def on_output(self, result: ToolResult, context: Context[Any]) -> ToolResult | None:
        """Inspect a result before the guardrails; return another result to replace it."""
        return None

    async def on_error(self, error: Exception, context: Context[Any]) -> ToolResult:
        """Turn an exception that no error function answered into a failed result.

        A `ToolError` is meant for the model and is not logged. Any other exception is logged at
        ERROR, with its traceback.
        """
        if not isinstance(error, ToolError):
            logger.error("the tool %s failed", self._name, exc_info=error)
        return failure_of(error)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name}>"

    async def __call__(self, call: ToolCall, context: Context[Any] | None = None) -> ToolResult:
        """Run one call, as `invoke` does."""
        return await self.invoke(call, context)

    async def invoke(self, call: ToolCall, context: Context[Any] | None = None) -> ToolResult:
        """Run one call and return its one result.

        Raises:
            Tripwire: A guardrail stopped the run. Every other `Exception` becomes a failed result.
                Cancellation from outside, KeyboardInterrupt and SystemExit pass through.
            TypeError: The context is not a `Context`, or the call is not a `ToolCall`.
        """
        if context is not None and not isinstance(context, Context):
            raise wrong_context(context)
        try:
            limit, trip = self.timeout, started(self, call, context)
        except AttributeError:  # Asking for its attributes is faster than checking its type.
            if isinstance(call, ToolCall):
                raise TypeError(f"{type(self).__name__} must call super().__init__(...)") from None
            raise wrong_call(call) from None
        try:
            if limit is None:
                result = await self._road(trip)
            else:
                timed = await within(limit, self._name, partial(self._road, trip))
                result = trip.with_metadata(timed)
        finally:
            if trip.made_view is not None and trip.made_view.delivers:
                await deliver_last(trip.made_view.delivered())
        try:
            if wanted_results and context is not None:
                await trip.remember(result, context)
            return result
        finally:  # Since Python 3.13 the frame of `_road` refers to this one. See its end.
            del result

    async def _road(self, trip: Trip, failed: Exception | None = None) -> ToolResult:
        """Take the steps of a call in order.

        After a timeout the road is taken a second time, with the same trip: `failed` is then the
        exception to answer, and the steps before the answer are skipped.
        """
        if (debugging := logger.isEnabledFor(logging.DEBUG)) and failed is None:
            logger.debug("call %r of %s", trip.id, self._name)
        try:
            if failed is not None:
                raise failed
            while held and asyncio.get_running_loop() in held:
                await asyncio.sleep(0)
            trip.values = self.binding.values(trip.sent.arguments)  # Decode and validate.
            if self._has_hooks:
                await trip.ask_hook(self.on_invoke)
            if self.input_guardrails:
                await trip.ask_input(self.input_guardrails)
            value = await (self._run_around(trip) if self._arounds else self._start_body(trip))
            if type(value) in DATA:
                result = success_of(value, trip.id)
            else:
                result = await self._result_of(value, trip)
                trip.note(result)
            if self._has_hooks and (new := await self.on_output(result, trip.view)) is not None:
                result = verified(new, "on_output", self._name)
        except (Exception, asyncio.CancelledError) as error:
            result = await self._answer_error(failure_or_raise(error), trip)
        if trip.made_view is not None and trip.made_view.notes:
            result = with_edit_note(result, trip.made_view)
        # Output guardrails see the labels, because one may store the text with its labels.
        result = trip.with_metadata(result)
        if self.output_guardrails:
            try:
                result = await trip.ask_output(self.output_guardrails, result)
            except (Exception, asyncio.CancelledError) as error:
                # The answer to a refusal does not pass the output guardrails again.
                result = await self._answer_error(failure_or_raise(error), trip)
            result = trip.with_metadata(result)
        if result.error is not None:
            drop_frames(result, trip.sent)
        if debugging:
            logger.debug("call %r of %s: %s", trip.id, self._name, outcome_of(result))
        try:
            return result
        finally:  # A failure's traceback refers to this frame. Without `del` that is a cycle.
            del result, failed

    async def _start_body(self, trip: Trip) -> Any:
        """Run the body. A subclass whose body takes Python values overrides this besides `run`."""
        return verified(await self.run(trip.call, trip.view), "run", self._name)

    async def _result_of(self, value: Any, trip: Trip) -> ToolResult:
        """Turn the body's return value into a result. The caller handles plain data itself."""
        return value if isinstance(value, ToolResult) else success_of(value, trip.id)

    async def _run_around(self, trip: Trip) -> ToolResult:
        """Run the body inside the functions that `around` added."""

        async def body() -> ToolResult:
            return await self._result_of(await self._start_body(trip), trip)

        async def labelled(work: Proceed) -> ToolResult:
            result = verified(await work(), "the function around the body", self._name)
            return trip.with_labels(result)

        if self.settings.untrusted:  # A layer may store what the body raises, with its labels.
            trip.view.add_labels([self._name])
        proceed: Proceed = partial(labelled, body)
        for func in self._arounds:
            proceed = partial(labelled, partial(inline, func, trip.call, trip.view, proceed))
        return await proceed()

    async def _answer_error(self, error: Exception, trip: Trip) -> ToolResult:
        """Ask the error functions, then `on_error`. If one raises, use the default answer."""
        try:
            result = await self._ask_error_funcs(error, trip.view)
            if result is None:
                result = verified(await self.on_error(error, trip.view), "on_error", self._name)
        except (Exception, asyncio.CancelledError) as crash:
            failure_or_raise(crash)
            logger.exception("an error function of %s failed", self._name)
            result = failure_of(error)
        if isinstance(error, ApprovalRequired) and result.is_error:
            result = with_request(result, error.request)
        trip.note(result)
        return result

    async def _ask_error_funcs(self, error: Exception, view: Context[Any]) -> ToolResult | None:
        for func in self._error_funcs:
            answer = await inline(func, error, view)
            if isinstance(answer, ToolResult):
                return answer
            if isinstance(answer, str):
                return failure_of(error, answer)
            if answer is not None:
                given, wanted = type(answer).__name__, "ToolResult, str or None"
                raise TypeError(f"an error function returned {given}, expected {wanted}")
        return None


def outcome_of(result: ToolResult) -> str:
    """Return how a call ended, as one word: `success`, or the type of its failure."""
    return str(getattr(result.error, "type", "error")) if result.error else "success"


def hide_errors(error: Exception, context: Context[Any]) -> str | None:
    """Log an unexpected exception, and show the model a fixed sentence instead.

    A `ToolError` is meant for the model, so this function does not answer it.
    """
    if isinstance(error, ToolError):
        return None
    logger.error("the tool %s failed", getattr(context.schema, "name", "?"), exc_info=error)
    return "The tool failed unexpectedly."
