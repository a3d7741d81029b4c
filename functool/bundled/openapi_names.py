"""Check the names of an OpenAPI document, compare them as servers do, and make unique ones."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import unquote_plus

MAX_NAME = 64

TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
"""What HTTP allows as the name of a header or a cookie."""

_UNFIT = re.compile(r"[^A-Za-z0-9_-]+")

# A model must not set a header that frames the message or says who is asking, nor one that every
# client sends by itself.
_RESERVED = """
    accept accept-encoding authorization connection content-length content-type cookie expect host
    keep-alive proxy-authorization proxy-connection te trailer transfer-encoding upgrade
"""


class UniqueNames:
    """Make unique names of at most 64 characters.

    Each stem's count continues where it stopped, so a frequent name takes no longer than others.

    Args:
        taken: Names that are in use already.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._counts: dict[tuple[str, int], int] = {}

    def take(self, stem: str) -> str:
        """Return the stem, or the stem with the first free number, beginning at 2."""
        name, digits = stem[:MAX_NAME], 0
        while name in self._taken:
            digits += 1
            name = self._numbered(stem[: MAX_NAME - digits - 1], digits)
        self._taken.add(name)
        return name

    def __contains__(self, name: object) -> bool:
        return name in self._taken

    def _numbered(self, prefix: str, digits: int) -> str:
        """Return the prefix with the first free number of `digits` digits, or with the last one."""
        count = self._counts.get((prefix, digits), max(2, 10 ** (digits - 1)))
        while f"{prefix}_{count}" in self._taken and count < 10**digits - 1:
            count += 1
        self._counts[prefix, digits] = count
        return f"{prefix}_{count}"


def valid_name(text: str) -> str:
    """Return a text as a tool's name, with underscores for bad characters. It may be empty."""
    return _UNFIT.sub("_", text).strip("_")[:MAX_NAME]


def spellings(name: str) -> set[str]:
    """Return the forms that a server may give to a header, cookie or query name.

    If two names have a form in common, a server may treat them as one name. Servers ignore case,
    write hyphens, dots and spaces as underscores, decode percent signs, and read `key[x]` as a
    member of `key`.
    """
    plain = unquote_plus(name).lstrip().casefold()
    return {_folded(plain), _folded(re.split(r"[\[\0]", plain)[0])}


def is_reserved(header: str) -> bool:
    """Whether a server may read a header as one that a model must not set."""
    return not spellings(header).isdisjoint(RESERVED_FORMS)


def _folded(name: str) -> str:
    return re.sub(r"\W", "_", name)


RESERVED_FORMS = frozenset(_folded(name) for name in _RESERVED.split())
"""The headers that a model must not set, in the form of `spellings`."""
