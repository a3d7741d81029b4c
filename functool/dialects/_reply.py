"""Collect a model's reply while it is being written: its text, its calls and their errors."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from typing import Any

from functool import ArgumentError, ToolCall, ToolError, Toolset, UnknownToolError
from functool.dialects._events import (
    ArgumentsDelta,
    CallReady,
    CallRefused,
    CallStarted,
    StreamBroken,
    StreamEnded,
    StreamEvent,
    TextDelta,
)

_MARK = re.compile(r'["\\{}\[\]]')
_JSON_SPACE = " \t\r\n"
NOT_WHOLE = "the arguments are not one whole JSON object"
TOO_DEEP = "the arguments are nested too deeply"
MAX_REFUSED = 10
"""After how many refused calls of a reply the others are checked only when they run. To find the
names that are close to an unknown one takes a hundredth of a second, and one chunk may hold a
thousand calls."""


def mixed_streams(problem: str) -> ValueError:
    """Return the error for a chunk that cannot belong to this stream."""
    return ValueError(f"{problem}: two streams are mixed")


def no_such_call() -> ValueError:
    """Return the error for a chunk with arguments of a call that has not begun."""
    return ValueError("arguments came for a call that did not start in this stream")


class Brackets:
    """Finds the end of a JSON object or list whose text arrives in pieces.

    `limit` is the most characters that are searched, or None: a longer text has no end.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.closed: bool = False
        self._left: float = math.inf if limit is None else limit
        self._depth = 0
        self._in_text = False
        self._escaped = False

    def feed(self, text: str) -> str:
        """Read a piece, and return the text after the end of the object or list."""
        if self.closed:
            return text
        self._left -= len(text)
        if self._left < 0:
            return ""
        start, self._escaped = int(self._escaped and bool(text)), self._escaped and not text
        while mark := _MARK.search(text, start):
            start = mark.end()
            found = mark[0]
            if found == '"':
                self._in_text = not self._in_text
            elif found == "\\":
                self._escaped = start == len(text)
                start += 1
            elif not self._in_text and found in "{[":
                self._depth += 1
            elif not self._in_text and self._depth:
                self._depth -= 1
                if not self._depth:
                    self.closed = True
                    return text[start:]
        return ""


@dataclass(slots=True)
class Written:
    """A call that is being written.

    `ready` means that its JSON object is closed and it may run. `ended` means that no more of its
    text comes. `error` says why it was refused. `watch` checks its text against the tool's schema.
    `lenient` means that the tool may mend text that is no JSON, so only it knows what is whole.
    """

    index: int
    name: str
    id: str
    watch: Any = None
    lenient: bool = False
    parts: list[str] = field(default_factory=list)
    brackets: Brackets = field(default_factory=Brackets)
    ready: bool = False
    ended: bool = False
    error: ToolError | None = None

    @property
    def text(self) -> str:
        """The text of the arguments so far."""
        if len(self.parts) > 1:
            self.parts = ["".join(self.parts)]
        return self.parts[0] if self.parts else ""

    @property
    def call(self) -> ToolCall:
        """The call with its text so far."""
        return ToolCall(name=self.name, arguments=self.text, id=self.id)


class Reply:
    """Collects one reply. A dialect reads the chunks, and calls these methods with their content.

    Calls are found by a key that the provider uses: an index, a place, or an id.
    """

    def __init__(self, tools: Toolset | None) -> None:
        self.calls: list[Written] = []
        self.ended: StreamEnded | None = None
        self.refusal: bool = False
        self.failure: StreamBroken | None = None
        self._tools = tools
        self._lenient: dict[str, bool] = {}
        self._refused = 0
        self._open: dict[Any, Written] = {}
        self._events: list[StreamEvent] = []
        self._settled: list[Written] = []
        self._id: Any = None

    def take(self) -> list[StreamEvent]:
        """Return the events since the last call of this method."""
        events, self._events = self._events, []
        return events

    def settled(self) -> list[Written]:
        """Return the calls that became ready or were refused since the last call of this method."""
        settled, self._settled = self._settled, []
        return settled

    def find(self, key: Any) -> Written | None:
        """Return the call of this key, or None."""
        return self._open.get(key)

    def say(self, text: Any, refusal: bool = False) -> None:
        """Add to the text for the user."""
        if _is_given(text):
            self._check_open()
            self.refusal = self.refusal or refusal
            self._events.append(TextDelta(text))

    def start(self, key: Any, name: Any, id: Any) -> Written:
        """Begin a call."""
        self._check_open()
        call = Written(len(self.calls), str(name or ""), str(id or ""))
        self.calls.append(call)
        self._open[key] = call
        self._events.append(CallStarted(call.index, call.name, call.id))
        if self._tools is not None:
            tool = self._tools.get(call.name)
            if tool is None:
                known = self._tools if self._refused < MAX_REFUSED else ()
                self.refuse(call, UnknownToolError(call.name, known))
            else:
                call.watch = tool.watch()
                call.brackets = Brackets(tool.max_argument_bytes)  # It refuses a longer text.
                # A tool that does not refuse what is no JSON may mend it.
                if call.name not in self._lenient:
                    self._lenient[call.name] = tool.watch().feed("x") is None
                call.lenient = self._lenient[call.name]
        return call

    def add(self, call: Written, text: Any) -> None:
        """Add to the arguments of a call."""
        if not _is_given(text):
            return
        self._check_open()
        if call.ended:
            raise mixed_streams("arguments came for a call that was complete")
        call.parts.append(text)
        self._events.append(ArgumentsDelta(call.index, text))
        if call.error is not None:
            return
        was_closed = call.brackets.closed
        rest = call.brackets.feed(text)
        watch = call.watch if self._refused < MAX_REFUSED else None
        error = None if watch is None else watch.feed(text)
        closes = call.brackets.closed and not was_closed
        if closes and call.lenient:
            closes = _is_object(call.text.removesuffix(rest))
        if error is None and (closes or call.ready) and rest.strip(_JSON_SPACE):
            error = ArgumentError("the arguments go on after the end of their JSON object")
        if error is not None:
            self.refuse(call, error)
        elif closes:
            self._make_ready(call)

    def finish(self, call: Written, arguments: Any = None) -> None:
        """End a call. If a provider repeats the `arguments` here, add the part not streamed yet.

        Raises:
            ValueError: The arguments differ from those that were streamed.
        """
        if arguments is not None and (text := self._text(call, arguments)) is not None:
            if text.startswith(call.text):
                self.add(call, text[len(call.text) :])
            elif _differ(text, call.text):
                raise ValueError("the arguments of a call differ from those that were streamed")
        if not call.ended:
            call.ended = True
            # Providers also close a call that was cut off. Only a whole object shows that it is
            # not, so text that a tool could complete waits for the reason of the end.
            if call.brackets.closed or not (call.lenient and call.text.strip()):
                self._end_call(call, complete=True)

    def end(self, reason: Any, complete: bool = True) -> None:
        """End the reply.

        If it is not `complete`, refuse calls without arguments, because those may have been lost.
        """
        ended = StreamEnded("refusal" if self.refusal else str(reason))
        if ended == self.ended:  # Some servers send the end once more, with the usage.
            return
        self._check_open()
        for call in self.calls:
            call.ended = True
            self._end_call(call, complete)
        self.ended = ended
        self._events.append(ended)

    def fail(self, message: Any) -> None:
        """End the reply with an error that the provider reports. None of its calls runs."""
        if self.failure is not None:  # OpenAI may report one as two events, in other words.
            return
        self.failure = StreamBroken(f"the provider reported: {message}")
        self.end(f"failed: {message}", complete=False)

    def check_id(self, id: Any) -> None:
        """Refuse a chunk that has the id of another stream. Not every chunk has an id.

        Raises:
            ValueError: The id is not that of the chunks before it.
        """
        if id and self._id and id != self._id:
            raise mixed_streams("the chunk has the id of another stream")
        self._id = self._id or id

    def _text(self, call: Written, arguments: Any) -> str | None:
        """Return arguments as JSON text. If they are nested too deeply, refuse their call."""
        try:
            return arguments if isinstance(arguments, str) else json.dumps(arguments)
        except RecursionError:
            self.refuse(call, ArgumentError(TOO_DEEP))
            return None

    def _end_call(self, call: Written, complete: bool) -> None:
        """Make an ended call ready, or refuse it.

        Blank text means no arguments, but only if the text is complete. A lenient tool may mend a
        complete text, and also one that was cut off, if all of its brackets are closed.
        """
        if call.ready or call.error is not None:
            return
        blank = not call.text or call.text.isspace()
        may_mend = call.lenient and (complete or call.brackets.closed)
        if may_mend or (complete and blank):
            self._make_ready(call)
        else:
            self.refuse(call, ArgumentError(NOT_WHOLE))

    def _make_ready(self, call: Written) -> None:
        call.ready = True
        self._settled.append(call)
        self._events.append(CallReady(call.call))

    def refuse(self, call: Written, error: ToolError) -> None:
        """Refuse a call."""
        self._refused += 1
        call.ready, call.error = False, error
        self._settled.append(call)
        self._events.append(CallRefused(call.call, error))

    def _check_open(self) -> None:
        if self.ended is not None:
            raise mixed_streams("the stream has ended, and here is more of it")


def _is_object(text: str) -> bool:
    """Whether a text is a whole JSON object."""
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _differ(text: str, other: str) -> bool:
    """Whether two texts are not the same JSON value."""
    try:
        return bool(json.loads(text) != json.loads(other))
    except (ValueError, RecursionError):
        return text != other


def _is_given(text: Any) -> bool:
    """Whether a part of a chunk holds text. What is empty is none.

    Raises:
        TypeError: It is something else.
    """
    if text and not isinstance(text, str):
        raise TypeError(f"a text, not {type(text).__name__}")
    return bool(text)
