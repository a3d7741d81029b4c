"""Guardrails that change the text of a result: `truncate` and `redact`."""

from __future__ import annotations

import json
import re
import unicodedata
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import replace
from typing import Any

from functool.call import MAX_REPR, ToolResult, changed, render, to_json, valid_text
from functool.content import CONTENT_TYPES, Content, TextContent, text_in
from functool.context import Context
from functool.errors import DefinitionError
from functool.guardrails.asking import OutputGuardrail


def truncate(limit: int, *, count: Callable[[str], int] = len) -> OutputGuardrail:
    """Return a guardrail that shortens the text of a result to `limit`.

    A marker at the end says how much is missing; its length counts too. No grapheme is split. If a
    space or a comma is near, the text is cut after it. The text of a text file counts, and if it is
    too long, it becomes part of the shortened text. Put this guardrail after `redact`.

    Args:
        limit: The maximum length, in the unit of `count`.
        count: Measures a text: by default in characters; pass a token counter to count tokens.

    Raises:
        DefinitionError: `limit` is not a positive int.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise DefinitionError(f"limit must be a positive int, not {limit!r}")

    def truncate(result: ToolResult, context: Context[Any]) -> ToolResult | None:
        texts = [text_in(part, "replace") for part in result.output]
        parts = zip(texts, result.output, strict=True)
        shown: list[Content] = [p if t is None else TextContent(text=t) for t, p in parts]
        if count(changed(result, output=shown).text) <= limit:
            return None
        left, error = limit, result.error
        if error is not None:
            error = replace(error, message=_shortened(error.message, limit, count))
            left = limit - count(error.message) - 1
        text = "\n".join(text for text in texts if text is not None)
        output: list[Content] = [part for part in shown if not isinstance(part, TextContent)]
        if text and left > 0 and (kept := _shortened(text, left, count)):
            output.insert(0, TextContent(text=kept))
        return changed(result, output=output, error=error)

    return truncate


def redact(patterns: Iterable[str | re.Pattern[str]]) -> OutputGuardrail:
    r"""Return a guardrail that replaces every match of the patterns by `[redacted]`.

    It cleans the output (texts, names, URIs, media types, the bytes of a text file, and those of
    another file that are UTF-8 text), the error, and every text inside the value, also in bytes
    that are UTF-8 text. The value keeps its shape: a dict stays a dict. Only if it contains a
    match, an object such as a model or a dataclass becomes its JSON form, and a number becomes a
    text. If a pattern matches across several texts of the value's JSON, that JSON is cleaned and
    becomes the value. If it matches across several texts of the output, these become one text.

    A text file is read as UTF-8. If it has another encoding, patterns find only ASCII characters,
    and in UTF-16 nothing.

    Patterns also match behind JSON escapes: `p\u00e4ss` is found as `päss`. Text that is JSON stays
    JSON. In other text, escapes are replaced if they hid a match. A word that `truncate` has cut is
    removed too, because it may be half of a match. So is the last word of an error message of 4,000
    characters, which is the maximum length.
    """
    compiled = [*compiled_patterns(patterns), _CUT_WORD]

    def redact(result: ToolResult, context: Context[Any]) -> ToolResult | None:
        # The value, its JSON and the output mostly hold the same texts.
        clean = _Cleaned(compiled).__getitem__
        value, output, error = _clean_with_json(clean, result.value), result.output, result.error
        if value is not result.value and output == render(result.value):
            output = render(value)
        output = _clean_output(clean, output)
        if error is not None:
            cut = [_LAST_WORD] if len(error.message) == MAX_REPR else []
            message = _Cleaned([*compiled, *cut])[error.message]
            error = replace(error, message=message, details=_clean_value(clean, error.details))
        if output == result.output and error == result.error and value is result.value:
            return None
        # A clean value is kept as a new object: `with_matching_value` replaces the old one by the
        # new text.
        value = copy(value) if value is result.value else value
        return changed(result, output=output, error=error, value=value)

    redact.takes_long = True  # type: ignore[attr-defined]
    return redact


def compiled_patterns(patterns: Iterable[str | re.Pattern[str]]) -> list[re.Pattern[str]]:
    """Compile the patterns.

    Raises:
        DefinitionError: `patterns` is not a list of regular expressions for text.
    """
    try:
        compiled = [re.compile(pattern) for pattern in patterns]
    except (re.error, TypeError) as error:
        raise DefinitionError(f"patterns must be a list of regular expressions: {error}") from error
    if isinstance(patterns, str) or any(isinstance(pattern.pattern, bytes) for pattern in compiled):
        raise DefinitionError("patterns must be a list of regular expressions, not a str or bytes")
    return compiled


class _Cleaned(dict[str, str]):
    """The texts without matches, by the texts. Equal texts are looked at only once."""

    def __init__(self, patterns: list[re.Pattern[str]]) -> None:
        self._patterns = patterns

    def __missing__(self, text: str) -> str:
        self[text] = new = _clean(self._patterns, text, self.__getitem__)
        return new


def _clean_with_json(clean: Callable[[str], str], value: Any) -> Any:
    """Remove matches from the texts of a value, and matches across several texts of its JSON."""
    try:
        value = _clean_value(clean, value)
    except RecursionError:  # The value is too deep or recursive, so it is shown as one text.
        value = clean(to_json(value))
    if isinstance(value, str):
        return value
    shown = render(value)
    cleaned = _clean_output(clean, shown)
    if cleaned == shown:
        return value
    return cleaned if len(shown) > 1 else _parsed(ToolResult(output=cleaned).text)


def _clean_output(clean: Callable[[str], str], output: list[Content]) -> list[Content]:
    """Remove matches from every part, and across texts: the texts become one then."""
    output = [_clean_value(clean, part) for part in output]
    texts = [part.text for part in output if isinstance(part, TextContent)]
    text = "\n".join(texts)
    if len(texts) < 2 or (new := clean(text)) == text:
        return output
    return [TextContent(text=new), *(p for p in output if not isinstance(p, TextContent))]


def _clean_value(clean: Callable[[str], str], value: Any) -> Any:
    """Remove matches from every text in `value`. Return the same object if there are none."""
    if isinstance(value, str):
        new: Any = clean(value)
    elif isinstance(value, (bytes, bytearray)):  # JSON's base64 of them is readable for a model.
        new = value
        with suppress(UnicodeDecodeError):
            new = valid_text(clean(value.decode())).encode()
    elif isinstance(value, CONTENT_TYPES):
        new = _clean_content(clean, value)
    elif isinstance(value, Mapping):
        new = {_clean_value(clean, k): _clean_value(clean, item) for k, item in value.items()}
    elif type(value) in (list, tuple, set, frozenset):
        new = type(value)(_clean_value(clean, item) for item in value)
    elif isinstance(value, tuple) and (make := getattr(value, "_make", None)):  # A named tuple.
        new = make(_clean_value(clean, item) for item in value)
    elif isinstance(value, (int, float)):
        return _clean_number(clean, value)
    else:
        return None if value is None else _clean_object(clean, value)
    return value if new == value else new


def _clean_content(clean: Callable[[str], str], part: Any) -> Any:
    """Remove matches from what a part shows, and from its bytes if they are text."""
    texts = {name: getattr(part, name, None) for name in ("text", "uri", "name", "media_type")}
    new: dict[str, Any] = {name: clean(t) for name, t in texts.items() if isinstance(t, str)}
    if isinstance(data := getattr(part, "data", None), bytes):
        with suppress(UnicodeDecodeError):  # Some providers show a text file as text.
            is_text = str(part.media_type).lower().startswith(("text/", "application/json"))
            text = data.decode(errors="replace" if is_text else "strict")
            if (cleaned := clean(text)) != text:
                new["data"] = valid_text(cleaned).encode()
    return replace(part, **new)


def _clean_number(clean: Callable[[str], str], number: float) -> Any:
    is_short = type(number) is int and number.bit_length() < 64
    text = str(number) if is_short else to_json(number).strip('"')  # NaN is a text.
    return number if (new := clean(text)) == text else new


def _clean_object(clean: Callable[[str], str], value: Any) -> Any:
    """Remove matches from the JSON of an object. Return the object itself if there are none."""
    text = to_json(value)
    form = _parsed(text)
    new = clean(text) if form is text else _clean_value(_with_base64(clean), form)
    return value if new == form else new


def _with_base64(clean: Callable[[str], str]) -> Callable[[str], str]:
    """Return a `clean` for the JSON of an object, in which bytes are base64."""

    def clean_both(text: str) -> str:
        with suppress(ValueError):  # It is no base64, or the bytes are no text.
            inside = b64decode(text, b"-_", validate=True).decode()
            if (new := clean(inside)) != inside:
                text = urlsafe_b64encode(valid_text(new).encode()).decode()
        return clean(text)

    return clean_both


def _clean(patterns: list[re.Pattern[str]], text: str, clean: Callable[[str], str]) -> str:
    """Remove matches from a text, including matches that are hidden by JSON escapes."""
    text = _replace_matches(patterns, text)
    if "\\" not in text:
        return text
    with suppress(RecursionError):  # If it is too deep, it is cleaned like other text.
        if (data := _parsed(text)) is not text and (new := _clean_value(clean, data)) is not data:
            text = json.dumps(new, ensure_ascii=False)
    view = text
    for _ in range(_LEVELS):
        if "\\" not in view or (plain := _ESCAPE.sub(_letter, view)) == view:
            return text
        if (view := _replace_matches(patterns, plain)) != plain:
            text = view = valid_text(view)
    return _MARK  # So many levels of escapes are only used to hide something.


def _letter(match: re.Match[str]) -> str:
    """Return the character that an escape stands for."""
    if (known := _LETTERS.get(match[0][1])) is not None:
        return known
    # Two escapes are the halves of one character.
    return chr(int(match[0][2:], 16)) if len(match[0]) == 6 else str(json.loads(f'"{match[0]}"'))


def _replace_matches(patterns: list[re.Pattern[str]], text: str) -> str:
    """Replace every match by the mark. Overlapping matches get one mark; old marks are kept."""
    if not any(pattern.search(text) for pattern in patterns):
        return text
    size, parts, end = len(_MARK), [], 0
    found = (match.span() for pattern in patterns for match in pattern.finditer(text))
    for start, stop in sorted(found):
        if stop > max(start, end) and _MARK not in text[max(0, stop - size) : start + size]:
            parts += [text[end:start], _MARK] if start >= end else []
            end = stop
    return "".join([*parts, text[end:]])


def _parsed(text: str) -> Any:
    """Parse `text` as JSON. Return `text` itself unless it holds an object, a list or a text."""
    if text.lstrip()[:1] not in ("{", "[", '"'):
        return text
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return data if isinstance(data, (dict, list, str)) else text


_MARK = "[redacted]"
_LEVELS = 20
"""How many levels of escapes are removed from a text before the whole text is redacted."""

_ESCAPE = re.compile(
    r'\\(?:["\\/bfnrt]|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4})'
)

_LETTERS = {**{c: c for c in '"\\/'}, **dict(zip("bfnrt", "\b\f\n\r\t", strict=True))}

_BREAKS = " \n\t,"
_LAST_WORD = re.compile(rf"(?<![^{_BREAKS}])[^{_BREAKS}]+\Z")
_CUT_WORD = re.compile(rf"(?<![^{_BREAKS}])[^{_BREAKS}]+(?=… \[\d+ (?:of \d+ truncated|cut)\]\Z)")

# Characters that belong to the one before and have no category "M": vowel signs, skin tones, tags
# of flags, characters after a joiner or a prepended sign, and syllables. The package `regex` has
# `\X` for this, but one more dependency for one guardrail costs more than these lines. The tests
# compare them with `regex`.
_JOINED = re.compile(
    "[\u0e33\u0eb3\u1160-\u11ff\u200c\u200d\ud7b0-\ud7fb\uff9e\uff9f\U0001f3fb-\U0001f3ff"
    "\U000e0020-\U000e007f]|(?<=\r)\n|(?s:(?<=[\u200d\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2"
    "\u0d4e\U000110bd\U000110cd\U000111c2\U000111c3\U000113d1\U0001193f\U00011941\U00011a3a"
    "\U00011a84-\U00011a89\U00011d46\U00011f02]).)"
    "|(?<=[\u1100-\u115f\ua960-\ua97c])[\u1100-\u115f\ua960-\ua97c\uac00-\ud7a3]"
)
_FLAGS = "".join(map(chr, range(0x1F1E6, 0x1F200)))


def _shortened(text: str, limit: int, count: Callable[[str], int]) -> str:
    """Return the longest beginning of the text that fits into `limit` together with a marker."""
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
    """Whether a grapheme certainly ends at this position (UAX 29)."""
    before, after = text[at - 1], unicodedata.category(text[at])
    joins = after[0] == "M" or (after == "Lo" and unicodedata.combining(before) == 9)
    if joins or _JOINED.match(text, at):
        return False
    flags = at - len(text[:at].rstrip(_FLAGS))
    return not (flags % 2 and text[at] in _FLAGS)
