"""Keep the credentials of a query out of the logs of a host's HTTP client.

httpx2 and httpx log the URL of every request at INFO, with any key in its query.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from urllib.parse import unquote

_pairs: ContextVar[tuple[str, ...]] = ContextVar("functool_openapi_query", default=())


@contextmanager
def hidden_in_logs(pairs: Iterable[str]) -> Iterator[None]:
    """Hide the values of these `name=value` pairs in the log records of the client meanwhile.

    Only records of this task, and of tasks that it starts, are changed.
    """
    token = _pairs.set(tuple(pairs))
    try:
        yield
    finally:
        _pairs.reset(token)


def _hide(record: logging.LogRecord) -> bool:
    text = original = record.getMessage() if _pairs.get() else ""
    for pair in _pairs.get():
        for spelling in (pair, unquote(pair)):
            text = text.replace(spelling, f"{spelling.partition('=')[0]}=[secret]")
    if text != original:
        record.msg, record.args = text, None
    return True


# The last two log the headers of an answer at DEBUG. Its Location may repeat the key.
for _name in ("httpx2", "httpx", "httpcore2.http11", "httpcore.http11"):
    logging.getLogger(_name).addFilter(_hide)
