"""The events of a streamed reply: the same for every provider."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from functool import FunctoolError, ToolCall, ToolError, ToolResult


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the text that the model says to the user. A refusal of the model is such text."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStarted:
    """A call whose name and id are known. `index` is its place in `StreamReader.calls()`."""

    index: int
    name: str
    id: str


@dataclass(frozen=True, slots=True)
class ArgumentsDelta:
    """A piece of the JSON text of a call's arguments."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class CallReady:
    """A call whose arguments are a closed object. They are not validated yet."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class CallRefused:
    """A call that can no longer become valid, with its text so far and the reason."""

    call: ToolCall
    error: ToolError


@dataclass(frozen=True, slots=True)
class StreamEnded:
    """The end of the model's turn. `reason` is the provider's own word for it.

    It is `refusal` if the model refused with a text of its own, and `failed: ...` if the provider
    reported an error.
    """

    reason: str


StreamEvent: TypeAlias = (
    TextDelta | CallStarted | ArgumentsDelta | CallReady | CallRefused | StreamEnded
)


class StreamBroken(FunctoolError):
    """A stream broke off before the model's turn ended.

    `results` has one result for each call that had begun to be written, in order: what ran has its
    own, and the failures of the others say whether they were cancelled or never ran. The exception
    that broke the stream is the `__cause__`.
    """

    def __init__(self, message: str, results: Iterable[ToolResult] = ()) -> None:
        super().__init__(message)
        self.results: list[ToolResult] = list(results)
