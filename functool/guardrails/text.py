"""Guardrails on what a model reads: `truncate` and `redact`."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from functool.call import MAX_REPR, ToolResult, json_text, render
from functool.content import Content, TextContent
from functool.context import Context
from functool.errors import DefinitionError
from functool.guardrails.asking import OutputGuardrail


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
    compiled = [*compiled_patterns(patterns), _CUT_WORD]

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


def compiled_patterns(patterns: Iterable[str | re.Pattern[str]]) -> list[re.Pattern[str]]:
    try:
        compiled = [re.compile(pattern) for pattern in patterns]
    except (re.error, TypeError) as error:
        raise DefinitionError(f"patterns must be a list of regular expressions: {error}") from error
    if isinstance(patterns, str) or any(isinstance(pattern.pattern, bytes) for pattern in compiled):
        raise DefinitionError("patterns must be a list of regular expressions for text")
    return compiled


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
