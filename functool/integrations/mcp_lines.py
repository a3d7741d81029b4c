"""Decode the lines of a command that is an MCP server, and shorten those that are too long.

The SDK takes the name of an encoding. So the decoder of complete lines has one.
"""

from __future__ import annotations

import codecs
from typing import Any

from functool.integrations.mcp_sizes import Values

LINES = "functool_mcp_lines"
"""The name of the encoding."""

MAX_ANSWER_BYTES = 16 * 1024 * 1024
"""How long one answer may be, in characters over standard output and in bytes over HTTP."""

KEPT = 1_000
"""How many characters are kept of the beginning, and of the end, of a line that is too long."""


class _Lines(codecs.IncrementalDecoder):
    """Decode complete lines. Bytes that are not UTF-8 are replaced.

    Of a line with too many characters or values, or with many and no message, only the two ends are
    kept.
    """

    def __init__(self, errors: str = "strict") -> None:
        super().__init__(errors)
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._begin()

    def _begin(self) -> None:
        self._parts: list[str] = []
        self._room = MAX_ANSWER_BYTES
        self._values = Values()
        self._end: str | None = None

    def decode(self, input: Any, final: bool = False) -> str:
        *lines, rest = self._utf8.decode(input, final).split("\n")
        done = []
        for line in lines:
            self._keep(line)
            if self._end is None and not self._values.ends():
                self._shorten("".join(self._parts))
            if self._end is not None:  # The control character makes it invalid in any case.
                self._parts += ["\0", self._end]
            if self._parts:
                done += [*self._parts, "\n"]
            self._begin()
        self._keep(rest)
        return "".join(done)

    def _keep(self, part: str) -> None:
        if not part:
            return
        self._room -= len(part)
        if self._end is None and self._room >= 0 and self._values.fit(part):
            self._parts.append(part)
            return
        if self._end is None:
            self._shorten("".join([*self._parts, part]))
        else:
            self._end = (self._end + part)[-KEPT:]

    def _shorten(self, whole: str) -> None:
        self._parts, self._end = [whole[:KEPT]], whole[-KEPT:]


def _codec(name: str) -> codecs.CodecInfo | None:
    if name != LINES:
        return None
    utf8 = codecs.lookup("utf-8")
    return codecs.CodecInfo(utf8.encode, utf8.decode, incrementaldecoder=_Lines, name=LINES)


codecs.register(_codec)
