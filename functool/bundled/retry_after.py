"""Read and obey the header `Retry-After`, with which a server says when to try again."""

from __future__ import annotations

import asyncio
import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

MAX_WAIT = 5.0
"""How many seconds a tool itself waits. The model is told of a longer wait."""

STATUSES = frozenset({429, 503})


def retry_seconds(response: Any) -> float | None:
    """Return after how many seconds a busy server allows another try, if it says so."""
    header = response.headers.get("retry-after", "").strip()
    if response.status_code not in STATUSES or not header:
        return None
    if header.isascii() and header.isdigit():
        return float(header[:9])
    try:
        then = parsedate_to_datetime(header)
    except (ValueError, OverflowError):
        return None
    then = then.replace(tzinfo=UTC) if then.tzinfo is None else then
    return max(0.0, (then - datetime.now(UTC)).total_seconds())


async def waited(seconds: float | None, tries: int) -> bool:
    """Wait as a server asked, if it is the first try and a short wait; return whether to retry."""
    if seconds is None or seconds > MAX_WAIT or tries:
        return False
    await asyncio.sleep(seconds)
    return True


def retry_advice(seconds: float | None) -> str:
    """Return a sentence for the model on when to try again, or an empty text."""
    return "" if seconds is None else f" Try again in {math.ceil(seconds)} seconds."
