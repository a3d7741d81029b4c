"""What a server says about when to ask again: the header `Retry-After`."""

from __future__ import annotations

import asyncio
import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

MAX_WAIT = 5.0
"""How many seconds a tool itself waits; what takes longer is told to the model."""

STATUSES = frozenset({429, 503})


def retry_seconds(response: Any) -> float | None:
    """Return in how many seconds a busy server wants to be asked again, if it says so."""
    said = response.headers.get("retry-after", "").strip()
    if response.status_code not in STATUSES or not said:
        return None
    if said.isascii() and said.isdigit():
        return float(said[:9])
    try:
        then = parsedate_to_datetime(said)
    except (ValueError, OverflowError):
        return None
    then = then.replace(tzinfo=UTC) if then.tzinfo is None else then
    return max(0.0, (then - datetime.now(UTC)).total_seconds())


async def waited(seconds: float | None, tries: int) -> bool:
    """Wait as a server asked, once and if that is short; return whether to ask it again."""
    if seconds is None or seconds > MAX_WAIT or tries:
        return False
    await asyncio.sleep(seconds)
    return True


def told(seconds: float | None) -> str:
    """Return what to tell a model of it."""
    return "" if seconds is None else f" Try again in {math.ceil(seconds)} seconds."
