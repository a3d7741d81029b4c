"""Handle a signal for a while."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def handled(number: int, handler: Callable[..., Any] | signal.Handlers) -> Iterator[None]:
    """Handle a signal in this block, and as before after it.

    In another thread than the main one this does nothing: Python sets no handler there.
    """
    in_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(number, handler) if in_main else None
    try:
        yield
    finally:
        if before is not None:
            signal.signal(number, before)
