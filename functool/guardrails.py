"""Guardrails: plain callables that let a call or a result pass, replace it, or refuse it.

A guardrail is called with the value and the context, and may be sync or async. None lets the value
pass; a value of the same type replaces it; `GuardrailError` refuses, and the model reads its
message; `Tripwire` stops the run. Anything else that happens in it fails
closed: the body does not run, the output is not shown.
"""

from __future__ import annotations

import inspect
import json
import logging
import re
import threading
import time
import unicodedata
from asyncio import CancelledError
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn, TypeAlias

from typing_extensions import TypeVar

from functool.approval import ApprovalRequest, Decision, definition_of
from functool.call import MAX_REPR, ToolCall, ToolResult, json_text, render
from functool.content import Content, TextContent
from functool.context import Context
from functool.errors import ApprovalRequired, DefinitionError, GuardrailError
from functool.executors import answerable, inline

_In = TypeVar("_In", default=ToolCall)
_Out = TypeVar("_Out", default=ToolResult)

InputGuardrail: TypeAlias = Callable[[_In, Context[Any]], _In | Awaitable[_In | None] | None]
"""Sees what will run. Generic, so that a host can use one guardrail on message types of its own."""

OutputGuardrail: TypeAlias = Callable[[_Out, Context[Any]], _Out | Awaitable[_Out | None] | None]
"""Sees what will leave.

Generic, so that a host can use one guardrail on message types of its own.
"""

logger = logging.getLogger("functool")


def name_of(guardrail: Any) -> str:
    """Return the name of a guardrail, as it stands in `result.metadata["guardrails"]`."""
    while isinstance(guardrail, partial):
        guardrail = guardrail.func
    return str(getattr(guardrail, "__name__", None) or type(guardrail).__name__)


def ask(
    guardrail: Any, value: Any, context: Context[Any], stage: str, record: list[dict[str, str]]
) -> Any:
    """Return what a guardrail answers: None lets `value` pass, and anything else is for `answered` to look at.

    Raises:
        GuardrailError: It refused, or failed.
        Tripwire: It stopped the run.
    """
    try:
        return guardrail(value, context)
    except (Exception, CancelledError) as error:
        _refuse(answerable(error), guardrail, stage, record)


async def answered(
    answer: Any, guardrail: Any, value: Any, stage: str, record: list[dict[str, str]]
) -> Any:
    """Return what a guardrail made of `value`; what it did besides letting it pass is added to `record`.

    Raises:
        GuardrailError: It refused, or failed.
        Tripwire: It stopped the run.
    """
    try:
        if inspect.isawaitable(answer):
            answer = await answer
        kind = ToolCall if stage == "input" else ToolResult
        if answer is not None and not isinstance(answer, kind):
            raise TypeError(
                f"the guardrail returned {type(answer).__name__}, expected {kind.__name__} or None"
            )
    except (Exception, CancelledError) as error:
        _refuse(answerable(error), guardrail, stage, record)
    if answer is None or answer is value:
        return value
    record.append({"name": name_of(guardrail), "stage": stage, "did": "replaced"})
    return answer


def _refuse(error: Exception, guardrail: Any, stage: str, record: list[dict[str, str]]) -> NoReturn:
    """Raise what a guardrail raised if that is a refusal; anything else is a guardrail that failed, and refuses too."""
    name = name_of(guardrail)
    record.append({"name": name, "stage": stage, "did": "refused"})
    if isinstance(error, GuardrailError):
        error.stage, error.guardrail = error.stage or stage, error.guardrail or name
        raise error
    logger.error("the guardrail %s failed, so the %s was refused", name, stage, exc_info=error)
    raise GuardrailError(
        f"The guardrail {name} failed, so the {stage} was refused.", stage=stage, guardrail=name
    ) from error


def callables(items: Any, what: str) -> list[Any]:
    """Return a list of callables, or raise a `DefinitionError`."""
    if callable(items) or isinstance(items, str) or not isinstance(items, Iterable):
        raise DefinitionError(f"{what} must be a list of callables, not {type(items).__name__}")
    found = list(items)
    for item in found:
        if not callable(item):
            raise DefinitionError(f"{what} must hold callables, not {type(item).__name__}")
    return found


def settled(result: ToolResult, new: ToolResult) -> ToolResult:
    """Return a guardrail's replacement with its `value` in step: code must not read what the model may not."""
    if (
        new.value is result.value
        and new.output != result.output
        and (new.error is None or new.value is not None)
    ):
        return replace(new, value=new.text)
    return new


def truncate(limit: int, *, count: Callable[[str], int] = len) -> OutputGuardrail:
    """Return a guardrail that shortens the text of a result to `limit`, measured by `count` (characters, or a token counter).

    The marker at the end is inside the limit and says how much is missing. No grapheme is split, and the cut falls behind a space or
    a comma where there is one near. Put it behind `redact`.

    Raises:
        DefinitionError: `limit` is no positive int.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise DefinitionError(f"limit must be a positive int, not {limit!r}")

    def truncate(result: ToolResult, context: Context[Any]) -> ToolResult | None:
        if count(result.text) <= limit:
            return None
        left, error = limit, result.error
        if error is not None:
            error = replace(error, message=_shortened(error.message, limit, count))
            left = limit - count(error.message) - 1
        text = "\n".join(part.text for part in result.output if isinstance(part, TextContent))
        rest: list[Content] = [part for part in result.output if not isinstance(part, TextContent)]
        kept = _shortened(text, left, count) if text and left > 0 else ""
        return replace(
            result, output=[TextContent(text=kept), *rest] if kept else rest, error=error
        )

    return truncate


def redact(patterns: Iterable[str | re.Pattern[str]]) -> OutputGuardrail:
    r"""Return a guardrail that replaces what the patterns match, in texts, error messages and the value, by `[redacted]`.

    JSON escapes are seen through, also those of JSON inside JSON: `p\u00e4ss` is found as `päss`. A word that `truncate` has cut goes,
    too: it may be half of what a pattern would have found. So does the last word of an error message of 4,000 characters, the most it has.
    """
    compiled = [*_compiled(patterns), _CUT_WORD]

    def clean(text: str, cut: bool = False) -> str:
        parts, end = [], 0
        for start, stop in sorted(_spans(text, [*compiled, _LAST_WORD] if cut else compiled)):
            if stop > end:
                parts += [text[end:start], "[redacted]"] if start >= end else []
                end = stop
        return "".join([*parts, text[end:]])

    def clean_part(part: Any) -> Any:
        return replace(
            part,
            **{
                name: clean(text)
                for name in _SHOWN
                if isinstance(text := getattr(part, name, None), str)
            },
        )

    def redact(result: ToolResult, context: Context[Any]) -> ToolResult | None:
        output, value = [clean_part(part) for part in result.output], result.value
        if (error := result.error) is not None:
            message = clean(error.message, cut=len(error.message) == MAX_REPR)
            error = replace(error, message=message, details=_cleaned(error.details, clean))
        # A value that the output does not show is read, too: integrations make structured output of
        # it.
        if output == result.output and value is not None and render(value) != output:
            shown = value if isinstance(value, str) else json_text(value)
            value = value if clean(shown) == shown else clean(shown)
        if output == result.output and error == result.error and value is result.value:
            return None
        return replace(result, output=output, error=error, value=value)

    return redact


def block(patterns: Iterable[str | re.Pattern[str]], argument: str | None = None) -> InputGuardrail:
    """Return a guardrail that refuses a call whose arguments, or the named one, match a pattern at any depth.

    It is advice for a model, not a boundary: what a pattern does not foresee gets through.
    """
    compiled = _compiled(patterns)

    def block(call: ToolCall, context: Context[Any]) -> None:
        arguments = (
            dict(call.arguments) if isinstance(call.arguments, Mapping) else {"": call.arguments}
        )
        plain = context.schema.plain if context.schema else {}
        known = plain.get("properties", {})
        # What is missing here was left out, or goes by another name: by the one in the schema,
        # where arguments have names of their own.
        if (
            argument is not None
            and argument not in arguments
            and not (argument in known and arguments.keys() <= known.keys())
        ):
            raise LookupError(f"the tool has no argument {argument!r} to look at")
        for text in _texts(arguments if argument is None else arguments.get(argument)):
            if any(pattern.search(text) for pattern in compiled):
                raise GuardrailError(
                    f"Blocked: the {f'argument {argument!r}' if argument else 'call'} matches a blocked pattern."
                )

    return block


def rate_limit(calls: int, per_seconds: float) -> InputGuardrail:
    """Return a guardrail that lets through so many calls per time, for each tool in each context.

    Raises:
        DefinitionError: `calls` is no positive int, or `per_seconds` no positive number.
    """
    if not (
        type(calls) is int
        and calls >= 1
        and isinstance(per_seconds, (int, float))
        and per_seconds is not True
        and per_seconds > 0
    ):
        raise DefinitionError(
            f"rate_limit needs a positive int and a positive number of seconds, not {calls!r} and {per_seconds!r}"
        )
    key, lock = object(), threading.Lock()

    def rate_limit(call: ToolCall, context: Context[Any]) -> None:
        name = context.schema.name if context.schema else call.name
        now = time.monotonic()
        with lock:
            times: deque[float] = context.state.setdefault(
                f"functool.rate_limit:{id(key)}:{name}", deque()
            )
            while times and times[0] <= now - per_seconds:
                times.popleft()
            if len(times) >= calls:
                wait = times[0] + per_seconds - now
                raise GuardrailError(
                    f"Too many calls: at most {calls} in {per_seconds:g} seconds. Try again in {wait:.1f} seconds."
                )
            times.append(now)

    return rate_limit


def require_approval(when: Callable[[ToolCall, Context[Any]], Any] | None = None) -> InputGuardrail:
    """Return a guardrail that lets a call through only once a person has agreed to it.

    The approver of the context is asked where there is one; else the result is an error of type
    `ApprovalRequired` that carries the request. Put it last: it is asked about the arguments that
    it sees.

    Args: when: `when(call, context) -> bool`, sync or async: which calls need approval; by default
        every call.
    """

    async def require_approval(call: ToolCall, context: Context[Any]) -> None:
        if when is not None and not await inline(when, call, context):
            return
        if context.schema is None or not isinstance(call.arguments, Mapping):
            raise TypeError("approval needs the schema of the tool and checked arguments")
        schema = context.schema
        definition = definition_of(schema.name, schema.description, schema.parameters)
        request = ApprovalRequest.of(schema.name, definition, dict(call.arguments), call.id)
        decision: Any = context.use_decision(request.digest)
        if decision is None and context.approver is not None:
            decision = await inline(context.approver, request)
            if isinstance(decision, bool):
                decision = Decision(approved=decision)
            if not isinstance(decision, Decision) or not isinstance(decision.approved, bool):
                raise TypeError(
                    f"the approver returned {type(decision).__name__}, expected bool or Decision"
                )
        if decision is None:
            raise ApprovalRequired(
                f"The call of {schema.name} needs a person's approval first.", request
            )
        if not decision.approved:
            raise GuardrailError(
                f"A person refused this call{': ' + decision.reason if decision.reason else '.'}"
            )

    # A host that has to know before the call reads here which calls need approval: all, or those
    # that `when` names.
    require_approval.asks_approval = when or True  # type: ignore[attr-defined]
    return require_approval


def _compiled(patterns: Iterable[str | re.Pattern[str]]) -> list[re.Pattern[str]]:
    try:
        compiled = [re.compile(pattern) for pattern in patterns]
    except (re.error, TypeError) as error:
        raise DefinitionError(f"patterns must be a list of regular expressions: {error}") from error
    if isinstance(patterns, str) or any(isinstance(pattern.pattern, bytes) for pattern in compiled):
        raise DefinitionError("patterns must be a list of regular expressions for text")
    return compiled


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from _texts(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)
    elif value is not None:
        yield from (value,) if isinstance(value, str) else (str(value), json_text(value))


def _cleaned(value: Any, clean: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {_cleaned(key, clean): _cleaned(item, clean) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_cleaned(item, clean) for item in value]
    shown = "" if value is None else json_text(value)
    return value if (cleaned := clean(shown)) == shown else cleaned


_SHOWN = ("text", "uri", "name")
_ESCAPE = re.compile(
    r'\\(?:(["\\/bfnrt])|u(d[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|[0-9a-f]{4}))', re.IGNORECASE
)
_BREAKS = " \n\t,"
_LAST_WORD = re.compile(rf"(?<![^{_BREAKS}])[^{_BREAKS}]+\Z")
_CUT_WORD = re.compile(rf"(?<![^{_BREAKS}])[^{_BREAKS}]+(?=… \[\d+ (?:of \d+ truncated|cut)\]\Z)")
# What is no mark and yet belongs to the character before it: vowel signs, syllables, skin tones,
# tags of flags, and what a joiner joins.
_JOINED = re.compile(
    "[\u0e33\u0eb3\u1160-\u11ff\u200c\u200d\ud7b0-\ud7fb\uff9e\uff9f\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]|(?<=\r)\n|(?<=\u200d)(?s:.)"
    "|(?<=[\u1100-\u115f\ua960-\ua97c])[\u1100-\u115f\ua960-\ua97c\uac00-\ud7a3]"
)
_FLAGS = "".join(map(chr, range(0x1F1E6, 0x1F200)))
_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def _spans(text: str, patterns: list[re.Pattern[str]]) -> set[tuple[int, int]]:
    """Return where the patterns match, as the text stands and with one level of JSON escapes after the other taken off."""
    spans: set[tuple[int, int]] = set()
    view, places = text, list(range(len(text) + 1))
    while True:
        for pattern in patterns:
            spans.update(
                (places[m.start()], places[m.end()])
                for m in pattern.finditer(view)
                if m.end() > m.start()
            )
        if "\\" not in view:
            return spans
        letters: list[str] = []
        new_places: list[int] = []
        end = 0
        for match in _ESCAPE.finditer(view):
            letters.extend(view[end : match.start()])
            new_places.extend(places[end : match.start()])
            letter, code = match.groups()
            letters.append(json.loads(f'"\\u{code}"') if code else _LETTERS.get(letter, letter))
            new_places.append(places[match.start()])
            end = match.end()
        if end == 0:
            return spans
        view, places = "".join([*letters, view[end:]]), [*new_places, *places[end:]]


def _shortened(text: str, limit: int, count: Callable[[str], int]) -> str:
    """Return the longest beginning that fits into `limit` together with a marker."""
    total = count(text)
    if total <= limit:
        return text

    markers = ("… [{} of {} truncated]", "… [{} cut]")
    marker = next((marker for marker in markers if count(marker.format(total, total)) <= limit), "")

    def shown(length: int) -> str:
        kept = text[:length]
        return kept + marker.format(total - count(kept), total)

    low, high = 0, len(text) - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(shown(middle)) <= limit else (low, middle - 1)
    if marker:
        low = 1 + max(text.rfind(space, max(0, low - 64), low) for space in _BREAKS) or low
    while low > 0 and (not _is_boundary(text, low) or count(shown(low)) > limit):
        low -= 1
    return shown(low)


def _is_boundary(text: str, at: int) -> bool:
    """Whether a grapheme ends at this place (UAX 29, without its rarest rule: signs that stand before a number)."""
    before, after = text[at - 1], unicodedata.category(text[at])
    if (
        after[0] == "M"
        or (after == "Lo" and unicodedata.combining(before) == 9)
        or _JOINED.match(text, at)
    ):
        return False
    flags = at - len(text[:at].rstrip(_FLAGS))
    return not (flags % 2 and text[at] in _FLAGS)
