"""The wire formats of model providers, one file each, with one vocabulary.

Each has `definition(tool)`, `definitions(tools)`, `losses(*tools)`, `calls(message)` and
`result(result)`. Most have a `StreamReader`; DeepSeek, Groq and Cohere share that of `openai_chat`.
A definition is a new dict each time. No dialect changes a name.
"""

from __future__ import annotations

from functool.dialects._events import ArgumentsDelta as ArgumentsDelta
from functool.dialects._events import CallReady as CallReady
from functool.dialects._events import CallRefused as CallRefused
from functool.dialects._events import CallStarted as CallStarted
from functool.dialects._events import StreamBroken as StreamBroken
from functool.dialects._events import StreamEnded as StreamEnded
from functool.dialects._events import StreamEvent as StreamEvent
from functool.dialects._events import TextDelta as TextDelta


class Lost(str):
    """A loss that matters to the model or the provider: the request breaks a limit or a name rule.

    Any other loss is a plain `str`: the definition says the same in other keywords or in words, and
    the tool still enforces it. A CI gate can let the plain ones pass:
    `[loss for loss in losses(*tools) if isinstance(loss, Lost)]`.
    """

    __slots__ = ()


def placed(place: str, loss: str) -> str:
    """Return a loss with its place in front. A `Lost` stays a `Lost`."""
    return type(loss)(f"{place}: {loss}")
