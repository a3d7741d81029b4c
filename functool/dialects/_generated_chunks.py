"""The chunks of Google's Gemini API."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from io import StringIO
from math import isfinite
from typing import Any

from functool import ArgumentError
from functool.binding.json_text import MAX_DEPTH
from functool.dialects._reply import NOT_WHOLE, TOO_DEEP, Reply, Written, no_such_call
from functool.dialects._wire import get, mismatch

COMPLETE = "STOP"
"""Why an answer may end so that its last call is whole. At any other end it was cut off."""

_FIELDS = ("candidates", "prompt_feedback", "usage_metadata", "response_id", "model_version")
_NAMES = {*_FIELDS, "promptFeedback", "usageMetadata", "responseId", "modelVersion"}
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]|\[(['\"])(.*?)\3\]", re.DOTALL | re.ASCII)
MAX_GAPS = 1_000
"""How many items of lists may be missing in the pieces of one call."""


class GeneratedChunks:
    """Reads the responses of a stream, the first candidate of each.

    A call comes whole, or on Vertex AI in pieces of its arguments under JSON Paths. These make one
    JSON text only at the end of the call, so that such a call is judged when it is complete.
    """

    expected = "a GenerateContentResponse or its dict"

    def __init__(self) -> None:
        self._open: Written | None = None
        self._last: Written | None = None  # The call behind which nothing has come yet.
        self._cut = False  # Whether a call began before the last piece of another one.
        self._pieces: dict[str, Any] = {}
        self._gaps = 0
        self._fits = True
        self._count = 0

    def read(self, chunk: Any, reply: Reply) -> None:
        """Read one chunk."""
        known = _NAMES & set(chunk) if isinstance(chunk, Mapping) else hasattr(chunk, "candidates")
        if not known or get(chunk, "choices") is not None:
            raise mismatch(self.expected, chunk)
        reply.check_id(get(chunk, "response_id", "responseId"))
        candidates = get(chunk, "candidates") or ()
        for candidate in candidates:
            if not get(candidate, "index"):
                self._candidate(candidate, reply)
        blocked = get(
            get(chunk, "prompt_feedback", "promptFeedback"), "block_reason", "blockReason"
        )
        if blocked is not None and not candidates:
            reply.end(_word(blocked), complete=False)

    def _candidate(self, candidate: Any, reply: Reply) -> None:
        parts = get(get(candidate, "content"), "parts") or ()
        for part in parts:
            if not get(part, "thought"):
                reply.say(get(part, "text"))
            entry = get(part, "function_call", "functionCall")
            if entry is not None:
                self._call(entry, reply)
            elif get(part, "text"):
                self._last = None
        if is_cut_off(candidate) and self._last is not None and self._last.error is None:
            reply.refuse(self._last, ArgumentError(NOT_WHOLE))
        if reason := _end_of(candidate):
            # A call whose last piece is missing has lost some, whatever the reason says.
            cut = self._cut or self._open is not None
            reply.end(reason, complete=reason == COMPLETE and not cut)

    def _call(self, entry: Any, reply: Reply) -> None:
        name, args = get(entry, "name"), get(entry, "args")
        if self._open is None or name:
            if not name:
                raise no_such_call()
            self._cut = self._cut or self._open is not None
            self._open = self._last = reply.start(self._count, name, get(entry, "id"))
            self._count, self._pieces, self._gaps = self._count + 1, {}, 0
            self._fits = True
        if args and not isinstance(args, Mapping):
            raise mismatch("the arguments of a call as an object", args)
        continues, text = bool(get(entry, "will_continue", "willContinue")), None
        try:
            for piece in get(entry, "partial_args", "partialArgs") or () if self._fits else ():
                self._place(piece)
            self._pieces.update(args or {})
            text = None if continues or not self._fits else _json(self._pieces)
        except ArgumentError as error:
            self._fits = False
            if self._open.error is None:
                reply.refuse(self._open, error)
        if not continues:
            reply.finish(self._open, text)
            self._open = None

    def _place(self, piece: Any) -> None:
        """Put a piece of the arguments where its JSON Path says. Pieces of one text are joined.

        Raises:
            ArgumentError: It does not fit into the pieces before it.
        """
        steps = _steps(get(piece, "json_path", "jsonPath"))
        if len(steps) > MAX_DEPTH:
            raise ArgumentError(TOO_DEEP)
        node: Any = self._pieces
        for step, after in zip(steps, [*steps[1:], None], strict=True):
            kind: Any = list if isinstance(step, int) else dict
            if not isinstance(node, kind):
                raise ArgumentError("the pieces of the arguments do not fit together")
            if isinstance(step, int):
                self._fill(node, step)
            before = node[step] if isinstance(step, int) else node.get(step)
            if after is None:
                node[step] = _scalar(piece, before)
            elif before is None:
                node[step] = [] if isinstance(after, int) else {}
            node = node[step]

    def _fill(self, items: list[Any], index: int) -> None:
        """Make a list long enough for an index. It may lack a few items, but not a million."""
        missing = max(0, index + 1 - len(items))
        self._gaps += max(0, missing - 1)
        if self._gaps > MAX_GAPS:
            raise ArgumentError("the pieces of the arguments leave out too many items of a list")
        items += [None] * missing


def last_call(parts: Any) -> Any:
    """Return the call behind which nothing comes in these parts, or None."""
    full = [
        part for part in parts if get(part, "text") or get(part, "function_call", "functionCall")
    ]
    return get(full[-1], "function_call", "functionCall") if full else None


def is_cut_off(candidate: Any) -> bool:
    """Whether a candidate ends in another way than it should, such as at its limit of tokens."""
    return _end_of(candidate) not in ("", COMPLETE)


def _end_of(candidate: Any) -> str:
    """Return why a candidate ends, or an empty text if it goes on."""
    reason = get(candidate, "finish_reason", "finishReason")
    word = "" if reason is None else _word(reason)
    return "" if word == "FINISH_REASON_UNSPECIFIED" else word


def _word(reason: Any) -> str:
    """Return a reason as the wire has it; the SDK makes an Enum of it."""
    return str(getattr(reason, "value", reason))


def _steps(path: Any) -> list[str | int]:
    """Return the names and indexes of a JSON Path.

    Raises:
        ValueError: It is no path that leads into an object.
    """
    path = path if isinstance(path, str) else ""
    steps: list[str | int] = []
    at = int(path.startswith("$"))
    while found := _STEP.match(path, at):
        name, index, _, quoted = found.groups()
        # More digits make an index that is too large in any case.
        steps.append(int(index[:10]) if index else name or quoted)
        at = found.end()
    if not steps or at < len(path):
        raise ValueError("a piece of the arguments has no JSON Path that leads into them")
    return steps


def _scalar(piece: Any, before: Any) -> Any:
    """Return the value of a piece. A text is kept open for the pieces that follow `before`."""
    text = get(piece, "string_value", "stringValue")
    if text is not None:
        whole = before if isinstance(before, StringIO) else StringIO(newline="")
        whole.write(before + text if isinstance(before, str) else text)
        return whole
    number = get(piece, "number_value", "numberValue")
    if isinstance(number, float):
        if not isfinite(number):
            raise ArgumentError("a number is too large: every number must be finite")
        return int(number) if number == int(number) else number
    return get(piece, "bool_value", "boolValue") if number is None else number


def _json(pieces: dict[str, Any]) -> str:
    try:
        return json.dumps(pieces, ensure_ascii=False, default=StringIO.getvalue)
    except RecursionError:
        raise ArgumentError(TOO_DEEP) from None
