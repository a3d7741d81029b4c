"""Guardrails: plain callables that let a call or a result pass, replace it, or refuse it.

A guardrail is called with the value and the context, and may be sync or async. It answers in one of
four ways. None lets the value pass. A value of the same type replaces it. `GuardrailError` refuses,
and the model reads its message. `Tripwire` stops the run. A guardrail that fails in any other way
refuses too: the body does not run, or the output is not shown.
"""

from __future__ import annotations

import inspect
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from copy import copy
from itertools import pairwise
from typing import Any, NoReturn, TypeAlias

from typing_extensions import TypeVar

from functool.call import ToolCall, ToolResult, changed
from functool.context import Context
from functool.errors import DefinitionError, GuardrailError, logger
from functool.introspection import without_partials
from functool.large import in_thread_if, is_large
from functool.pointers import escaped
from functool.time_limit import failure_or_raise

_In = TypeVar("_In", default=ToolCall)
_Out = TypeVar("_Out", default=ToolResult)

InputGuardrail: TypeAlias = Callable[[_In, Context[Any]], _In | Awaitable[_In | None] | None]
"""Sees the call before it runs.

Generic, so that a host can use one guardrail on message types of its own.
"""

OutputGuardrail: TypeAlias = Callable[[_Out, Context[Any]], _Out | Awaitable[_Out | None] | None]
"""Sees the result before the model does.

Generic, so that a host can use one guardrail on message types of its own.
"""

Record: TypeAlias = list[dict[str, str]]
"""What guardrails did with a call or its result, as `result.metadata["guardrails"]` shows it."""

_IN_PLACE = "in place; return a new call instead: dataclasses.replace(call, arguments={...})"

_LISTS = {"call": "input_guardrails", "result": "output_guardrails"}


def name_of(guardrail: Any) -> str:
    """Return the name of a guardrail, as `result.metadata["guardrails"]` shows it."""
    guardrail = without_partials(guardrail)
    return str(getattr(guardrail, "__name__", None) or type(guardrail).__name__)


def ask(guardrail: Any, value: Any, context: Context[Any], stage: str, record: Record) -> Any:
    """Call a guardrail, and return its answer for `await_answer` to check.

    One that `takes_long` looks at a large value on a thread.

    Raises:
        GuardrailError: The guardrail refused, or failed.
        Tripwire: The guardrail stopped the run.
    """
    try:
        if getattr(guardrail, "takes_long", False) and is_large(value):
            return in_thread_if(True, guardrail, value, context)
        return guardrail(value, context)
    except (Exception, CancelledError) as error:
        _refuse(failure_or_raise(error), guardrail, stage, record)


async def await_answer(answer: Any, guardrail: Any, value: Any, stage: str, record: Record) -> Any:
    """Check a guardrail's answer, and return the value that the next guardrail gets.

    What the guardrail did is added to `record`.

    Raises:
        GuardrailError: The guardrail refused, or failed.
        Tripwire: The guardrail stopped the run.
    """
    try:
        if inspect.isawaitable(answer):
            answer = await answer
        kind = ToolCall if stage == "input" else ToolResult
        if answer is not None and not isinstance(answer, kind):
            wanted = f"{kind.__name__} or None"
            raise TypeError(f"the guardrail returned {type(answer).__name__}, expected {wanted}")
    except (Exception, CancelledError) as error:
        _refuse(failure_or_raise(error), guardrail, stage, record)
    if answer is None or answer is value:
        return value
    record.append({"name": name_of(guardrail), "stage": stage, "did": "replaced"})
    return answer


def _refuse(
    error: Exception, guardrail: Any, stage: str, record: Record, message: str = ""
) -> NoReturn:
    """Raise the refusal of a guardrail. A guardrail that failed also refuses, and is logged."""
    name = name_of(guardrail)
    record.append({"name": name, "stage": stage, "did": "refused"})
    if isinstance(error, GuardrailError):
        error.stage, error.guardrail = error.stage or stage, error.guardrail or name
        raise error
    logger.error("the guardrail %s failed, so the %s was refused", name, stage, exc_info=error)
    message = message or f"The guardrail {name} failed, so the {stage} was refused."
    raise GuardrailError(message, stage=stage, guardrail=name) from error


def refuse_changed(guardrail: Any, record: Record, how: str = _IN_PLACE) -> NoReturn:
    """Refuse a call whose arguments a guardrail changed in place, or after their approval.

    The body would not see a change in place, so it would not run what the guardrails have checked.
    After an approval, it would run what nobody has approved.
    """
    error = TypeError(f"{name_of(guardrail)} changed the arguments of the call {how}")
    _refuse(error, guardrail, "input", record, f"The call was refused: {error}.")


def arguments_of(call: ToolCall, context: Context[Any], names: Collection[str]) -> dict[str, Any]:
    """Return the arguments of these names, for a guardrail to look at; without names all arguments.

    A call may leave out an optional argument. But if the call has names that the schema lacks, the
    argument may be there under another name, so these are looked at too.

    Raises:
        LookupError: The tool has no argument of a name.
    """
    given = call.arguments if isinstance(call.arguments, Mapping) else {"": call.arguments}
    known = context.schema.arguments if context.schema else {}
    others = given.keys() - known.keys()
    absent = [name for name in names if name not in given]
    for name in absent:
        if name not in known:
            raise LookupError(f"the tool has no argument {name!r} to look at")
    looked = {*names, *(others if absent else ())} if names else given
    return {name: value for name, value in given.items() if name in looked}


def leaves(
    values: Any, named: Collection[str] = (), labelled: Mapping[Any, Any] = {}
) -> Iterator[Any]:
    """Yield the places and the values of all that JSON values hold, except nulls and containers.

    The keys of objects are values as well, except those that a schema has `named`. A place is the
    place of what is around it, and a step; () is that of `values`. As a text, each place below a
    long key would be as long as this key. `labelled` are the places to leave out, as nested dicts
    by step, in which a key None marks a whole part.
    """
    todo: list[Any] = [] if None in labelled else [((), values, labelled)]
    for place, part, labels in todo:  # It grows on the way.
        is_object = isinstance(part, Mapping)
        for step, item in part.items() if is_object else enumerate(part):
            there, inner = (place, step), labels and labels.get(escaped(str(step)), {})
            if None in inner:
                continue
            if is_object and step not in named:
                yield there, step
            if isinstance(item, (Mapping, list, tuple)):
                todo.append((there, item, inner))
            elif item is not None:
                yield there, item


def callables(items: Any, option: str, takes: tuple[str, ...] = ()) -> list[Any]:
    """Return the callables of an option as a list, and check that each takes the arguments named.

    Raises:
        DefinitionError: It is not a list, or something in it cannot be called so.
    """
    if callable(items) or isinstance(items, str) or not isinstance(items, Iterable):
        raise DefinitionError(f"{option} must be a list of callables, not {type(items).__name__}")
    found = list(items)
    for item in found:
        if not callable(item):
            raise DefinitionError(f"{option} takes callables, not {type(item).__name__}")
        if takes:
            _check_parameters(item, option, takes)
    return found


def _check_parameters(item: Any, option: str, takes: tuple[str, ...]) -> None:
    """Raise a DefinitionError if a callable cannot take these arguments.

    The first parameter of a built-in guardrail is `call` or `result`. If it is not the one that the
    list needs, the guardrail is in the wrong list, or the function that makes it was not called.
    """
    name = name_of(item)
    # `functools.wraps` copies `__module__` to an author's own function, so ask its globals.
    home = str(item.__globals__.get("__name__")) if inspect.isfunction(item) else ""
    if home.startswith("functool.guardrails."):
        first = item.__code__.co_varnames[0]
        remedy = f"put it into {_LISTS[first]}" if first in _LISTS else f"call it: {name}(...)"
        if first != takes[0]:
            raise DefinitionError(f"{option}: {name} cannot be used as it is; {remedy}")
    try:
        inspect.signature(item).bind(*takes)
    except ValueError:  # A callable without a readable signature.
        return
    except TypeError as error:
        remedy = f"it has to take {', '.join(takes)}"
        wrong = f"{option}: {name} cannot be used as it is ({error}); {remedy}"
        raise DefinitionError(wrong) from None


def check_order(guardrails: list[Any]) -> None:
    """Check that an output guardrail with `stands_last` is the last one.

    Such a guardrail stores a copy of the result. A guardrail after it could not remove anything
    from that copy.

    Raises:
        DefinitionError: Another guardrail comes after it.
    """
    for before, after in pairwise(guardrails):
        if getattr(before, "stands_last", False) and not getattr(after, "stands_last", False):
            last, remedy = name_of(before), f"put {name_of(after)} before it"
            raise DefinitionError(f"the output guardrail {last} has to be the last one: {remedy}")


def shown_in(result: ToolResult) -> list[Any]:
    """Return a copy of what a result shows, to see a change that a guardrail makes in place."""
    output: list[Any] = result.output
    try:
        return [part.text for part in output]  # Most output is one text.
    except AttributeError:
        return [*map(copy, output)]


def with_matching_value(
    result: ToolResult, new: ToolResult, value: Any, shown: list[Any]
) -> ToolResult:
    """Return a guardrail's new result, with a `value` that reveals no more than its output.

    `value` and `shown` are what `result` held before the guardrail, which may have changed it in
    place. Code must not read what the model may not. A guardrail that used `shown_as` is the
    exception.
    """
    says_more = new.value is value and (new.error is None or new.value is not None)
    if not says_more or shown_in(new) == shown or (new.keeps_value and new is not result):
        return new
    return changed(new, value=new.text, _shown=None)
