"""The chunks of Google's Gemini API."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from functool.dialects._reply import Reply, Written, mixed_streams
from functool.dialects._wire import get, mismatch

_FIELDS = ("candidates", "prompt_feedback", "usage_metadata", "response_id", "model_version")
_NAMES = {*_FIELDS, "promptFeedback", "usageMetadata", "responseId", "modelVersion"}
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
            self._count, self._pieces = self._count + 1, {}
        for piece in get(entry, "partial_args", "partialArgs") or ():
            _place(self._pieces, piece)
        if args:
            self._pieces.update(args)
        if not get(entry, "will_continue", "willContinue"):
            text = json.dumps(self._pieces, ensure_ascii=False)
            reply.finish(self._open, text)
            self._open = None


def _word(reason: Any) -> str:
    """Return a reason as the wire has it; the SDK makes an Enum of it."""
    return str(getattr(reason, "value", reason))


def _place(whole: dict[str, Any], piece: Any) -> None:
    """Put a piece of the arguments where its JSON Path says. Pieces of one text are joined."""
    path = get(piece, "json_path", "jsonPath") or ""
    steps: list[Any] = [
        int(index) if index else name or quoted
        for name, index, _, quoted in _STEP.findall(path.removeprefix("$"))
    ]
    if not steps:
        raise ValueError("a piece of the arguments has no JSON Path that leads into them")
    node: Any = whole
    for step, after in zip(steps, [*steps[1:], None], strict=True):
        if isinstance(node, list) and isinstance(step, int):
            node += [None] * (step + 1 - len(node))
        before = node[step] if isinstance(node, list) else node.get(step)
        if after is None:
            text = get(piece, "string_value", "stringValue")
            joined = before + text if isinstance(before, str) and text is not None else text
            node[step] = _scalar(piece) if text is None else joined
        elif before is None:
            node[step] = [] if isinstance(after, int) else {}
        node = node[step]


def _scalar(piece: Any) -> Any:
    number = get(piece, "number_value", "numberValue")
    if number is not None:
        return int(number) if number == int(number) else number
    return get(piece, "bool_value", "boolValue")
