"""The chunks of Google's Gemini API."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from math import isfinite
from typing import Any

from functool.binding.json_text import MAX_DEPTH
from functool.dialects._reply import Reply, Written, mixed_streams
from functool.dialects._wire import get, mismatch

_FIELDS = ("candidates", "prompt_feedback", "usage_metadata", "response_id", "model_version")
_NAMES = {*_FIELDS, "promptFeedback", "usageMetadata", "responseId", "modelVersion"}
_LONGEST = 2_000
_GAP = 1_000
"""How many items of a list may still come after a later one."""

_STEP = re.compile(r"\.([\w$-]+)|\[(\d+)\]|\[(['\"])(.*?)\3\]")


class GeneratedChunks:
    """Reads the responses of a stream, the first candidate of each.

    A call comes whole, or on Vertex AI in pieces of its arguments under JSON Paths. These make one
    JSON text only at the end of the call, so that such a call is judged when it is complete.
    """

    def __init__(self) -> None:
        self._id: str | None = None
        self._open: Written | None = None
        self._pieces: dict[str, Any] = {}
        self._texts: dict[str, list[str]] = {}  # By path, because joining is quadratic.
        self._count = 0

    def read(self, chunk: Any, reply: Reply) -> None:
        """Read one chunk."""
        known = _NAMES & set(chunk) if isinstance(chunk, Mapping) else hasattr(chunk, "candidates")
        if not known or get(chunk, "choices") is not None:
            raise mismatch("a GenerateContentResponse or its dict", chunk)
        id = get(chunk, "response_id", "responseId")
        if id and self._id and id != self._id:
            raise mixed_streams("the chunk has the id of another stream")
        self._id = self._id or id
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
        for part in get(get(candidate, "content"), "parts") or ():
            if not get(part, "thought"):
                reply.say(get(part, "text"))
            entry = get(part, "function_call", "functionCall")
            if entry is not None:
                self._call(entry, reply)
        reason = get(candidate, "finish_reason", "finishReason")
        if reason is not None and _word(reason) != "FINISH_REASON_UNSPECIFIED":
            reply.end(_word(reason), complete=_word(reason) == "STOP")

    def _call(self, entry: Any, reply: Reply) -> None:
        name, args = get(entry, "name"), get(entry, "args")
        if self._open is None or name:
            if not name:
                raise ValueError("arguments came for a call that did not start in this stream")
            self._open = reply.start(self._count, name, get(entry, "id"))
            self._count, self._pieces, self._texts = self._count + 1, {}, {}
        for piece in get(entry, "partial_args", "partialArgs") or ():
            self._piece(str(get(piece, "json_path", "jsonPath") or ""), piece)
        if args:
            self._pieces.update(args)
        if not get(entry, "will_continue", "willContinue"):
            for path, texts in self._texts.items():
                _place(self._pieces, path, "".join(texts))
            text = json.dumps(self._pieces, ensure_ascii=False)
            reply.finish(self._open, text)
            self._open = None

    def _piece(self, path: str, piece: Any) -> None:
        """Add a piece of the arguments. Pieces of one text are joined at the end of the call."""
        text = get(piece, "string_value", "stringValue")
        if text is not None and path in self._texts:
            self._texts[path].append(str(text))
            return
        _place(self._pieces, path, _scalar(piece) if text is None else text)
        if text is None:
            self._texts.pop(path, None)
        else:
            self._texts[path] = [str(text)]


def _word(reason: Any) -> str:
    """Return a reason as the wire has it; the SDK makes an Enum of it."""
    return str(getattr(reason, "value", reason))


def _place(whole: dict[str, Any], path: str, value: Any) -> None:
    """Put a value of the arguments where its JSON Path says.

    Raises:
        ValueError: The path does not lead into the arguments.
    """
    steps: list[Any] = [
        int(index) if index else name or quoted
        for name, index, _, quoted in _STEP.findall(path.removeprefix("$")[: _LONGEST + 1])
    ]
    if not 0 < len(steps) <= MAX_DEPTH or len(path) > _LONGEST:
        raise ValueError("a piece of the arguments has no JSON Path that leads into them")
    node: Any = whole
    for step, after in zip(steps, [*steps[1:], None], strict=True):
        if not isinstance(node, list if isinstance(step, int) else dict):
            raise ValueError("a piece of the arguments leads into a value of another kind")
        if isinstance(node, list):
            if step > len(node) + _GAP:
                raise ValueError("a piece of the arguments leads far behind the end of a list")
            node += [None] * (step + 1 - len(node))
        before = node[step] if isinstance(node, list) else node.get(step)
        if after is None:
            node[step] = value
        elif before is None:
            node[step] = [] if isinstance(after, int) else {}
        node = node[step]


def _scalar(piece: Any) -> Any:
    number = get(piece, "number_value", "numberValue")
    if number is not None:
        return int(number) if isfinite(number) and number == int(number) else number
    return get(piece, "bool_value", "boolValue")
