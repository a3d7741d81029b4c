"""Repair arguments that a model sent as broken JSON, and report what was repaired.

    tools = repaired(tools)

Arguments that the tool accepts are never changed. Arguments that it refuses are repaired, checked,
and validated again by the tool. Its guardrails see the repaired call. The check demands that every
word, number and sign of what was sent is still there, in the same order, and that nothing was
added. A string or number in which the arguments break off is never completed, and no value is
invented. If no repair passes, the call is refused.
"""

from __future__ import annotations

import ast
import copy
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, SupportsIndex, overload

from functool import ArgumentError, Context, Tool, ToolCall, ToolResult, WrapperTool
from functool.large import in_thread_if
from functool.layers.some_tools import OneTool, SameKind, each
from functool.schema.json_schema import resolved

try:
    from json_repair import repair_json
except ImportError as _error:
    raise ImportError("repairing needs json-repair: pip install 'functool[repair]'") from _error

MAX_TEXT = 50_000
"""The most characters of arguments that are repaired."""

_READS = 6
"""How many times json-repair may read each character. Broken arguments need three reads or less."""

_FENCE = re.compile(r"```[ \t]*\w*[ \t]*\n?")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_UNKNOWN = re.compile(r"(\\[\r\n\\'\"abfnrtv0-7xNuU])|\\")
_NUMBER = r"(?<![\w.])-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.]\w)"
_TOKEN = re.compile(rf"({_NUMBER})|(\w+)|([^\w\s{{}}\[\]:,\"'`\\])")
_EMPTY = re.compile(r"\"\"|''")
_WORDS = {"True": "true", "False": "false", "None": "null"}
_CLOSERS = {"{": "}", "[": "]"}
_STRING_OR_BRACKET = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|[{}\[\]\"']", re.DOTALL)


@overload
def repaired(tools: OneTool) -> OneTool | RepairedTool: ...
@overload
def repaired(tools: SameKind) -> SameKind: ...  # type: ignore[overload-overlap]
@overload
def repaired(tools: Iterable[Tool]) -> list[Tool]: ...


def repaired(tools: Any) -> Any:
    """Return the tools, changed so that they repair the arguments of their calls.

    A toolset gives a toolset. Repaired are code fences, single quotes, trailing commas, Python
    literals, missing closing braces, arguments that were encoded twice, and a single value where a
    list is expected. Apply this last: a wrapper around it would refuse broken arguments first.

    Raises:
        DefinitionError: Something is not a tool.
    """
    return each(tools, RepairedTool)


class RepairedTool(WrapperTool):
    """A tool that repairs the arguments of its calls.

    A repaired call and its result have `metadata["repaired"]`: `did`, a list of the repairs, and
    the texts `sent` and `became`. A `tool:repaired` event holds the same.
    """

    def bind(self, arguments: Mapping[str, Any] | str) -> Any:
        """Decode and validate arguments as a call does, after a repair if they need one.

        Raises:
            ArgumentError: They do not fit, and cannot be repaired.
        """
        note = self._repair(arguments) if self._may_repair(arguments) else None
        return self.tool.bind(arguments if note is None else note["became"])

    async def run(self, call: ToolCall, context: Context[Any]) -> ToolResult:
        """Run the inner tool, with repaired arguments if they need it."""
        # In a thread, because long arguments take half a second.
        may = self._may_repair(call.arguments)
        note = await in_thread_if(True, self._repair, call.arguments) if may else None
        if note is None:
            return await self.tool.invoke(call, context)
        repaired_call = replace(
            call, arguments=note["became"], metadata={**call.metadata, "repaired": note}
        )
        view = context.view(call=repaired_call, schema=self.schema)
        await view.announce("tool:repaired", **note)
        result = copy.copy(await self.tool.invoke(repaired_call, context))
        result.metadata = {**result.metadata, "repaired": note}
        return result

    def _may_repair(self, arguments: Mapping[str, Any] | str) -> bool:
        """Whether arguments are a text of limited size that the tool refuses."""
        fits = isinstance(arguments, str) and len(arguments) <= MAX_TEXT
        return fits and not self._accepts(arguments)

    def _repair(self, arguments: Any) -> dict[str, Any] | None:
        """Return the report of a repair, or None if none is possible."""
        try:
            return self._repaired(arguments)
        except RecursionError:  # It is nested too deeply, which the call's own check says.
            return None

    def _repaired(self, arguments: str) -> dict[str, Any] | None:
        plain = self.schema.plain
        for did, found, closed in _candidates(arguments):
            if closed and not _has_every_property(found, plain, plain, closed):
                continue
            listed = _listed(found, plain, plain)
            for steps, value in ((did, found), ([*did, "a lone value for a list"], listed)):
                became = json.dumps(value, ensure_ascii=False)
                if (did or value != found) and self._accepts(became):
                    return {"did": steps, "sent": arguments, "became": became}
        return None

    def _accepts(self, arguments: Mapping[str, Any] | str) -> bool:
        try:
            self.tool.bind(arguments)
        except ArgumentError:
            return False
        return True


def _candidates(text: str) -> Iterator[tuple[list[str], dict[str, Any], int]]:
    """Yield the repairs made, the object that they give, and how many closing braces they add."""
    did: list[str] = []
    if (inside := _unfenced(text)) is not None:
        did, text = ["code fence"], inside
    for _ in range(3):
        inner = _json(text)
        if not isinstance(inner, str):
            break
        did, text = [*did, "doubled encoding"], inner
    exact = _json(text)
    if isinstance(exact, dict):
        if _keeps(text, exact):  # A name that was sent twice would lose a value.
            yield did, exact, 0
        return
    closers = _missing_closers(text)
    found = [("Python literals", _python(text)), ("broken JSON", _guess(text, closers))]
    for step, value in found:
        if isinstance(value, dict) and _keeps(text, value):
            yield [*did, step], value, len(closers or "")


def _unfenced(text: str) -> str | None:
    """Return the text inside a code fence, or None if the text does not begin with one."""
    text = text.strip()
    fence = _FENCE.match(text)
    return None if fence is None else text[fence.end() :].removesuffix("```").rstrip()


def _json(text: str) -> Any:
    """Return the value of a JSON text, or None if it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _python(text: str) -> Any:
    """Return the value of a Python literal, or None if the text is not one."""
    try:
        # Python warns of an escape that it does not know, and keeps the backslash. To ignore
        # warnings here, in a thread, would change them for the whole process.
        value = ast.literal_eval(_UNKNOWN.sub(lambda found: found[1] or r"\\", text.strip()))
        return json.loads(json.dumps(value, allow_nan=False))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def _guess(text: str, closers: str | None) -> Any:
    """Return what json-repair reads in the text with its missing closers, or None."""
    if closers is None:
        return None
    try:
        return repair_json(_Counted(text + closers), return_objects=True, skip_json_loads=True)
    except (ValueError, RecursionError, _TooMuchWork):
        return None


class _TooMuchWork(Exception):
    """json-repair has read a text too many times."""


class _Counted(str):
    """A text that counts how many of its characters are read, and ends the reading.

    On some texts json-repair looks ahead to the end at every quote or bracket.
    """

    reads = 0

    def __getitem__(self, place: SupportsIndex | slice) -> str:
        found = super().__getitem__(place)
        self.reads += len(found)
        if self.reads > _READS * len(self) + 10_000:
            raise _TooMuchWork
        return found


def _missing_closers(text: str) -> str | None:
    """Return the braces missing at the end of a text. None if more than braces may be missing.

    A list that is not closed may lack items, a string its end, and a number some digits.
    """
    opened = _open_brackets(text)
    if not opened:
        return None if opened is None else ""
    last = text.rstrip()[-1:]
    ends = last in "\"'}]" or re.search(r"[\s:](true|false|null|True|False|None)\s*\Z", text)
    return None if "[" in opened or not ends else "}" * len(opened)


def _open_brackets(text: str) -> list[str] | None:
    """Return the brackets that a text leaves open; None if one is wrong, or a string has no end."""
    opened: list[str] = []
    for match in _STRING_OR_BRACKET.finditer(text):
        part = match[0]
        if part in _CLOSERS:
            opened.append(part)
        elif part in _CLOSERS.values():
            if not opened or _CLOSERS[opened.pop()] != part:
                return None
        elif len(part) == 1:  # A string begins and does not end.
            return None
    return opened


def _has_every_property(value: Any, schema: Any, root: Any, open_: int) -> bool:
    """Whether the `open_` objects that were not closed hold every property of their schema.

    These are the object itself, then the last value in it, then the last value in that, and so on.
    """
    schema = resolved(root, schema)
    parts = schema.get("properties") if isinstance(schema, Mapping) else None
    if not parts or not isinstance(value, dict) or not parts.keys() <= value.keys():
        return False
    *_, last = value
    return open_ == 1 or _has_every_property(value[last], parts.get(last), root, open_ - 1)


def _keeps(text: str, value: Any) -> bool:
    """Whether a value has the same words, numbers and signs as the text, in the same order."""
    leaves = list(_leaves(value))
    plain = _ESCAPE.sub(_letter, text)
    return (
        list(_tokens(plain)) == list(_tokens(" ".join(leaves)))
        and leaves.count("") <= len(_EMPTY.findall(_ESCAPE.sub("_", text)))
        and _keeps_quotes(text, "".join(leaves))
    )


def _keeps_quotes(text: str, kept: str) -> bool:
    """Whether every quote that the text escapes is still in the values."""
    escaped = [escape[1] for escape in _ESCAPE.finditer(text)]
    return all(kept.count(quote) >= escaped.count(quote) for quote in "\"'")


def _tokens(text: str) -> Iterator[str | float]:
    for number, word, sign in _TOKEN.findall(text):
        yield float(number) if number else _WORDS.get(word, word) or sign


def _letter(escape: re.Match[str]) -> str:
    code = escape[1]
    if len(code) == 5:
        return chr(int(code[1:], 16))
    return " " if code in "nrtbf" else code


def _leaves(value: Any) -> Iterator[str]:
    """Yield the names and values of a JSON value as texts, in order."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from _leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    else:
        yield value if isinstance(value, str) else json.dumps(value)


def _listed(value: Any, schema: Any, root: Any) -> Any:
    """Return a copy in which a single value becomes a list wherever the schema wants a list."""
    schema = resolved(root, schema)
    if not isinstance(schema, Mapping):
        return value
    options = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(options, list):
        rest = [option for option in options if option != {"type": "null"}]
        return _listed(value, rest[0], root) if len(rest) == 1 and value is not None else value
    if schema.get("type") == "array" and not isinstance(value, list):
        value = [value]
    if isinstance(value, list):
        return [_listed(item, schema.get("items"), root) for item in value]
    if isinstance(value, dict):
        parts = schema.get("properties") or {}
        return {name: _listed(item, parts.get(name), root) for name, item in value.items()}
    return value
