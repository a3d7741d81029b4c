"""Turn seconds since the epoch into times that people read."""

from __future__ import annotations

from datetime import UTC, datetime


def when(seconds: float) -> datetime:
    """Return a time in UTC from seconds since the epoch."""
    return datetime.fromtimestamp(seconds, UTC)


def iso(seconds: float) -> str:
    """Return an ISO 8601 time in UTC, to the millisecond."""
    return when(seconds).isoformat(timespec="milliseconds")
