"""The character encodings that a model or a server may name.

Some of Python's codecs are not character encodings, and some take quadratic time. Python also
remembers every name that it was asked for. So a name is looked up here before Python sees it.
"""

import encodings
from encodings.aliases import aliases
from functools import cache
from pkgutil import iter_modules

__all__ = ["text_encoding"]

MAX_NAME = 40
QUADRATIC = "utf_7"
"""UTF-7. Its decoder starts again with each piece of a long run; a few megabytes take minutes."""

PREFIXES = (
    "ascii",
    "big5",
    "cp",
    "euc",
    "gb",
    "hz",
    "iso",
    "johab",
    "koi",
    "latin",
    "mac",
    "shift_jis",
    "tis",
    "utf",
)
"""How the names of Python's modules for plain character encodings begin."""

OTHERS = {
    "dos_874": "cp874",
    "iso_8859_8_e": "iso8859_8",
    "iso_8859_8_i": "iso8859_8",
    "windows_31j": "cp932",
    "windows_874": "cp874",
    "windows_949": "cp949",
}
"""Names of the web that Python lacks, beside those that begin with `x-`."""


def text_encoding(name: str) -> str | None:
    """Return Python's own name of a character encoding, or None if the name is not one."""
    if len(name) > MAX_NAME:
        return None
    key = encodings.normalize_encoding(name).lower().removeprefix("x_")
    module = aliases.get(key) or aliases.get(key.replace(".", "_")) or OTHERS.get(key, key)
    return module if module in _modules() else None


@cache
def _modules() -> frozenset[str]:
    names = (module.name for module in iter_modules(encodings.__path__))
    return frozenset(name for name in names if name.startswith(PREFIXES)) - {QUADRATIC}
