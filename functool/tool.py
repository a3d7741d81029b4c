"""A tool and the road of one call through it.

    ToolCall ─ decode ─ validate ─ on_invoke ─ input guardrails ─> run ─> on_output ─ output
    guardrails ─> ToolResult any Exception on the way ─> on_error ─ output guardrails ─> ToolResult

Decoding, validation and both guardrail lists belong to the road; a subclass overrides hooks, never
the road.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

from typing_extensions import Unpack

from functool.binding.door import Door, InnerDoor
from functool.binding.foreign import SchemaDoor
from functool.call import (
    DATA,
    ToolCall,
    ToolResult,
    ToolSchema,
    changed,
    failure_of,
    metadata_of,
    noted_guardrails,
    success,
    with_arguments,
)
from functool.context import Context
from functool.errors import ApprovalRequired, DefinitionError, ToolError, ToolTimeoutError
from functool.executors import (
    GRACE_SECONDS,
    abandon,
    answerable,
    checked_timeout,
    conclude,
    inline,
    run_for,
    stop,
)
from functool.guardrails.asking import (
    InputGuardrail,
    OutputGuardrail,
    answered,
    ask,
    callables,
    settled,
)
from functool.schema.json_schema import checked_parameters
from functool.schema.strict import Codec, codec

ErrorAnswer: TypeAlias = ToolResult | str | None
ErrorFunc: TypeAlias = Callable[[Exception, Context[Any]], ErrorAnswer | Awaitable[ErrorAnswer]]
Strict: TypeAlias = bool | Literal["refuse"]

logger = logging.getLogger("functool")


@dataclass(slots=True, kw_only=True)
class ToolSettings:
    """What a host may want to know of a tool. `is_enabled(context)` is sync.

    An exclusive tool runs alone; one that takes control is not run beside others in a turn.
    `read_only`, `destructive` and `idempotent` are None where the author says nothing.
    """

    display_name: str = ""
    icon: str = ""
    is_exclusive: bool = False
    is_enabled: bool | Callable[[Context[Any]], bool] = True
    takes_control: bool = False
    tags: Sequence[str] = ()
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None


@dataclass(slots=True, kw_only=True)
class ToolPrompts:
    """Texts that a host weaves into its own prompts."""

    system: str = ""
    system_format: str = ""
    user: str = ""
    user_format: str = ""
    user_reminder: str = ""


class ToolOptions(TypedDict, total=False):
    """The options that every kind of tool takes.

    `timeout` is in seconds and bounds the whole road of a call. Input guardrails see what will run,
    output guardrails what will leave; `on_error_func(error, context)` is asked for every exception
    on the road. Callables may be sync or async.
    """

    timeout: float | None
    input_guardrails: Iterable[InputGuardrail]
    output_guardrails: Iterable[OutputGuardrail]
    on_error_func: ErrorFunc | None
    settings: ToolSettings
    prompts: ToolPrompts


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
            `prompts`: see `ToolOptions`.

    Raises:
        DefinitionError: The name is empty, or an option is not what it should be.
        SchemaError: Under strict, the arguments have no strict form.
    """

    _direct: Callable[..., Awaitable[Any]] | None = None
    """An async function that is awaited with the checked values and nothing else: a step on the road that is not taken is not paid."""

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
        self._equip(name, **options)
        try:
            self._schema, coder = publish(
                name, description, checked_parameters(parameters), strict, output
            )
            self._door: Door = SchemaDoor(self._schema.plain, coder)
        except (AttributeError, LookupError, TypeError) as error:
            raise DefinitionError(
                f"the parameters of {name!r} are no JSON Schema: {error}"
            ) from error

    def _equip(
        self,
        name: str,
        timeout: float | None = None,
        input_guardrails: Iterable[InputGuardrail] = (),
        output_guardrails: Iterable[OutputGuardrail] = (),
        on_error_func: ErrorFunc | None = None,
        settings: ToolSettings | None = None,
        prompts: ToolPrompts | None = None,
    ) -> None:
        """Set all that does not depend on the schema."""
        if not isinstance(name, str) or not name:
            raise DefinitionError("a tool needs a name")
        self._name = name
        self.timeout = checked_timeout(timeout)
        self.input_guardrails: list[InputGuardrail] = callables(
            input_guardrails, "input_guardrails"
        )
        self.output_guardrails: list[OutputGuardrail] = callables(
            output_guardrails, "output_guardrails"
        )
        self._error_funcs: list[ErrorFunc] = callables(
            [] if on_error_func is None else [on_error_func], "on_error_func"
        )
        settings, self.prompts = settings or ToolSettings(), prompts or ToolPrompts()
        if not (isinstance(settings, ToolSettings) and isinstance(self.prompts, ToolPrompts)):
            raise DefinitionError(
                "settings must be ToolSettings(...), and prompts ToolPrompts(...)"
            )
        self.settings = settings if settings.display_name else replace(settings, display_name=name)
        kind = type(self)
        self._hooked = kind.on_invoke is not Tool.on_invoke or kind.on_output is not Tool.on_output
        self._watched = True

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

    def add_input_guardrails(self, guardrails: Iterable[InputGuardrail]) -> None:
        """Append guardrails that see what will run."""
        self.input_guardrails.extend(callables(guardrails, "input_guardrails"))

    def add_output_guardrails(self, guardrails: Iterable[OutputGuardrail]) -> None:
        """Append guardrails that see what will leave."""
        self.output_guardrails.extend(callables(guardrails, "output_guardrails"))

    def add_on_error_func(self, func: ErrorFunc) -> None:
        """Append a function that is asked for every exception on the road, after those before it."""
        self._error_funcs.extend(callables([func], "on_error_func"))

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
        """Answer an exception that no error function answered."""
        return failure_of(error)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name}>"

    async def __call__(self, call: ToolCall, context: Context[Any] | None = None) -> ToolResult:
        """Run the call: `invoke`."""
        return await self.invoke(call, context)

    async def invoke(self, call: ToolCall, context: Context[Any] | None = None) -> ToolResult:
        """Run one call and return its one result.

        Raises:
            Tripwire: A guardrail stopped the run. No other `Exception` is raised; what is none, as
                cancellation, passes through.
        """
        noted = logger.isEnabledFor(logging.DEBUG)
        if noted:
            logger.debug("call %r of %s", call.id, self._name)
        if (
            self._watched
            or self.input_guardrails
            or self.output_guardrails
            or self.timeout is not None
        ):
            if context is None:  # A context that nobody else has is its own view.
                view = Context()
                view.call = call
            else:
                view = context.for_call(call, None)
            record: list[dict[str, str]] = []
            unwatched = self.timeout is None and (context is None or not context.listened)
            result = await (self._walk(view, record) if unwatched else self._watch(view, record))
            if record:
                result = changed(result, metadata={**metadata_of(result), "guardrails": [*record]})
        else:
            try:
                values = self._door.check(call.arguments)
                if self._direct is None:
                    result = await self._body(values, call, context)
                elif type(value := await self._direct(**values)) in DATA:
                    result = success(value, call.id)
                else:
                    result = await self._finish(value, call, context)
            except (Exception, asyncio.CancelledError) as error:
                view = (Context() if context is None else context).for_call(call, self.schema)
                result = await self._answer(answerable(error), view, [])
                await view.delivered()
        if result.call_id != call.id:
            result = changed(result, call_id=call.id)
        if noted:
            logger.debug(
                "call %r of %s: %s",
                call.id,
                self._name,
                result.error.type if result.error else "success",
            )
        return result

    async def _body(self, values: Any, call: ToolCall, context: Context[Any] | None) -> ToolResult:
        """Run with checked values.

        Tools that work on values, not on the call, override this beside `run`.
        """
        return self._checked(await self.run(call, Context() if context is None else context), "run")

    if (
        TYPE_CHECKING
    ):  # Makes a result of what `_direct` returned: only what sets the one has the other.

        async def _finish(
            self, value: Any, call: ToolCall, context: Context[Any] | None
        ) -> ToolResult: ...

    def _checked(self, result: Any, hook: str) -> ToolResult:
        if not isinstance(result, ToolResult):
            raise TypeError(
                f"{hook} of {self._name} must return a ToolResult, not {type(result).__name__}"
            )
        return result

    async def _watch(self, view: Context[Any], record: list[dict[str, str]]) -> ToolResult:
        """The road under a clock, or before listeners."""
        try:
            return await (
                self._walk(view, record)
                if self.timeout is None
                else self._walk_in_time(self.timeout, view, record)
            )
        finally:
            await conclude(view.delivered())

    async def _walk(
        self, view: Context[Any], record: list[dict[str, str]], failed: Exception | None = None
    ) -> ToolResult:
        """Decode, validate, `on_invoke`, input guardrails, run, `on_output`; what goes wrong is answered; output guardrails.

        A refusal by an output guardrail is answered once, and that answer meets none of them again. `failed` is what went wrong before.
        """
        try:
            if failed is not None:
                raise failed
            call = view.call or ToolCall(name=self._name)
            view.schema = self.schema
            values, canonical = self._door.admit(call.arguments)
            view.call = call = with_arguments(call, canonical)
            if self._hooked:
                values = self._readmit(await self.on_invoke(call, view), values, view)
            for guardrail in self.input_guardrails:
                answer = ask(guardrail, view.call, view, "input", record)
                if answer is not None:
                    values = self._readmit(
                        await answered(answer, guardrail, view.call, "input", record), values, view
                    )
            if self._direct is None:
                result = await self._body(values, view.call, view)
            else:
                value = await self._direct(**values)
                result = (
                    success(value, call.id)
                    if type(value) in DATA
                    else await self._finish(value, view.call, view)
                )
            if (
                result.metadata
            ):  # What the guardrails of an inner tool did stays, whatever becomes of its result.
                record += noted_guardrails(result)
            if self._hooked and (new := await self.on_output(result, view)) is not None:
                result = self._checked(new, "on_output")
        except (Exception, asyncio.CancelledError) as error:
            result = await self._answer(answerable(error), view, record)
        try:
            for check in self.output_guardrails:
                answer = ask(check, result, view, "output", record)
                if answer is not None:
                    result = settled(
                        result, await answered(answer, check, result, "output", record)
                    )
        except (Exception, asyncio.CancelledError) as error:
            return await self._answer(answerable(error), view, record)
        return result

    def _readmit(self, new: ToolCall | None, values: Any, view: Context[Any]) -> Any:
        """Return the values of the call as it now is: one that was replaced is validated again."""
        if new is None or new is view.call:
            return values
        values, canonical = self._door.admit(new.arguments, by_name=True)
        view.call = replace(new, arguments=canonical)
        return values

    async def _answer(
        self, error: Exception, view: Context[Any], record: list[dict[str, str]]
    ) -> ToolResult:
        """Ask the error functions in order, then `on_error`; a crash in them gets the default answer."""
        try:
            result = await self._asked(error, view)
            if result is None:
                result = self._checked(await self.on_error(error, view), "on_error")
        except (Exception, asyncio.CancelledError) as crash:
            answerable(crash)
            logger.error("an error function of %s failed", self._name, exc_info=True)
            result = failure_of(error)
        if isinstance(error, ApprovalRequired) and result.is_error:
            result = changed(result, metadata={"approval": error.request, **metadata_of(result)})
        record += noted_guardrails(result)
        return result

    async def _asked(self, error: Exception, view: Context[Any]) -> ToolResult | None:
        for func in self._error_funcs:
            answer = await inline(func, error, view)
            if isinstance(answer, ToolResult):
                return answer
            if isinstance(answer, str):
                return failure_of(error, answer)
            if answer is not None:
                raise TypeError(
                    f"an error function returned {type(answer).__name__}, expected ToolResult, str or None"
                )
        return None

    async def _walk_in_time(
        self, limit: float, view: Context[Any], record: list[dict[str, str]]
    ) -> ToolResult:
        left: list[Any] = []
        road = await run_for(self._walk(view, record), limit, self._name, left)
        try:
            if road.done():
                return road.result()
            end = (
                "; its work may still be going on."
                if (still_running := await stop(road, left))
                else " and was stopped."
            )
            text = f"The tool {self._name} did not answer within {limit:g} seconds{end}"
            error: Exception = ToolTimeoutError(text, still_running=still_running)
        except (
            asyncio.CancelledError
        ) as stray:  # The body cancelled the task it runs in: nobody outside asked for it.
            error = answerable(stray)
        closing = await run_for(self._walk(view, record, error), GRACE_SECONDS, self._name, left)
        if closing.done() and not closing.cancelled():
            return closing.result()
        closing.cancel()
        abandon(closing)
        return failure_of(error)


class WrapperTool(Tool):
    """A tool whose `run` is another tool: the base of every layer.

    It validates nothing: the call reaches the inner tool as it came. Guardrails of the wrapper's
    own see the canonical arguments. What is not given is the inner tool's.
    """

    def __init__(
        self,
        tool: Tool,
        *,
        name: str | None = None,
        description: str | None = None,
        **options: Unpack[ToolOptions],
    ) -> None:
        self.tool = tool
        options = {"settings": tool.settings, "prompts": tool.prompts, **options}
        self._equip(tool.name if name is None else name, **options)
        self._new_description = description
        self._watched = self._hooked

    @cached_property
    def schema(self) -> ToolSchema:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The inner tool's schema, under the wrapper's name and description."""
        inner = self.tool.schema
        description = inner.description if self._new_description is None else self._new_description
        return replace(inner, name=self._name, description=description)

    @property
    def requires_approval(self) -> bool:
        """Whether an input guardrail of the wrapper or of the inner tool may ask for approval."""
        return super().requires_approval or self.tool.requires_approval

    async def run(self, call: ToolCall, context: Context[Any]) -> ToolResult:
        """Run the inner tool."""
        return await self.tool.invoke(call, context)

    async def _body(self, values: Any, call: ToolCall, context: Context[Any] | None) -> ToolResult:
        return await super()._body(
            values, ToolCall(name=call.name, arguments=values, id=call.id), context
        )

    @property
    def _door(self) -> Door:  # type: ignore[override]
        return InnerDoor(
            self.tool._door, bool(self._hooked or self.input_guardrails or self.output_guardrails)
        )


def hide_errors(error: Exception, context: Context[Any]) -> str | None:
    """Answer an unexpected exception with a fixed sentence and log it.

    A `ToolError` is meant for the model, and passes.
    """
    if isinstance(error, ToolError):
        return None
    logger.error("a tool failed", exc_info=error)
    return "The tool failed unexpectedly."


def publish(
    name: str,
    description: str,
    plain: dict[str, Any],
    strict: Strict,
    output: Mapping[str, Any] | None,
    rest: str = "",
) -> tuple[ToolSchema, Codec | None]:
    """Return the schema of a tool and, under strict, the codec of its arguments.

    Raises:
        SchemaError: The arguments have no strict form, or under `"refuse"` would need encoding.
        DefinitionError: `strict` is none of False, True and `"refuse"`.
    """
    if strict not in (False, True, "refuse"):
        raise DefinitionError(f'strict must be False, True or "refuse", not {strict!r}')
    coder = codec(plain, refuse=strict == "refuse", rest=rest) if strict else None
    schema = ToolSchema(
        name=name,
        description=description,
        parameters=plain if coder is None else coder.schema,
        plain=plain,
        strict=coder is not None,
        output=None if output is None else dict(output),
    )
    return schema, coder
