"""Show a person the texts that somebody else wrote, without what the person would not see.

A text may have many millions of characters, and is cleaned on the event loop. So Python code
judges no character by itself.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Mapping
from itertools import filterfalse
from typing import Any

SEEN = frozenset(
    "\n\t\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
"""Line ends, tabs and spaces. For Python they are not printable, but a person sees them."""

UNSEEN = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\U00016fe4\U0001d159"
    # The selectors of Mongolian letters hide a text as well as those below.
    "\u180b\u180c\u180d\u180f"
    # A row of variation selectors can hide a whole text. `visible` allows `COLOURED` after an
    # emoji.
    + "".join(map(chr, [*range(0xFE00, 0xFE0F), *range(0xE0100, 0xE01F0)]))
)
"""Characters that are printable for Python, but not seen by a person."""

COLOURED = "\ufe0f"
"""The variation selector that asks for the coloured form of an emoji."""

PIECE = 4_096
"""How many characters are cleaned at once. The sets of a longer piece would be slow."""

INDENTED = 1_000_000
"""The most characters that indented JSON may have, where the reader is an editor or a program."""


def visible(text: str) -> str:
    """Return `text` without characters that a person cannot see but a model or a terminal reads.

    Escapes and marks of direction are removed as well. Line ends and tabs stay, and so does the
    selector that colours an emoji.
    """
    if text.isascii() and text.isprintable():
        return text
    pieces = (text[at : at + PIECE] for at in range(0, len(text), PIECE))
    seen = "".join(map(_without_hidden, pieces))
    if COLOURED not in seen:
        return seen
    return "".join(_coloured(seen, at) for at in range(0, len(seen), PIECE))


def visible_line(text: str) -> str:
    """Return `text` as one line, like `visible`. A second line would look like one of ours."""
    return " ".join(visible(text).split())


def is_visible(text: str) -> bool:
    """Whether a person sees all characters of a text."""
    if text.isascii() and text.isprintable():
        return True
    return not any(_hidden(set(text[at : at + PIECE])) for at in range(0, len(text), PIECE))


def arguments_text(arguments: Any, most: int = INDENTED) -> str:
    """Return arguments for the person who decides about a call, as JSON in ASCII.

    All other characters are written out, so that none hides another or changes the order. The text
    is indented like that of `indented`.
    """
    return indented(arguments, most).replace("\x7f", "\\u007f")


def indented(value: Any, most: int = INDENTED, *, ensure_ascii: bool = True) -> str:
    """Return a value as JSON, indented if it has at most `most` characters then.

    Otherwise it is on one line. Indentation can make deeply nested lists a hundred times as long,
    and Python code writes it, so it stops at `most`.
    """
    line = json.dumps(value, ensure_ascii=ensure_ascii)
    if len(line) > most:
        return line
    pieces: list[str] = []
    size = 0
    for piece in json.JSONEncoder(indent=2, ensure_ascii=ensure_ascii).iterencode(value):
        size += len(piece)
        if size > most:
            return line
        pieces.append(piece)
    return "".join(pieces)


def sources_text(sources: Mapping[str, Iterable[str]]) -> str:
    """Return a line for each argument that came from an untrusted source, or an empty text.

    `sources` maps the places of the values, as JSON pointers, to their sources.
    """
    lines = []
    for place, names in sources.items():
        # A line end in a name would begin a line that looks like one of ours.
        where = arguments_text(place)[1:-1] or "the arguments"
        lines.append(f"\n{where} came from {', '.join(names)}, which may hold text of strangers")
    return visible("".join(lines))


def _coloured(text: str, at: int) -> str:
    """Return the piece at `at`, without the selectors that stand behind no emoji."""
    first = text[at - 1 : at].strip(COLOURED)  # What stands before the piece.
    *parts, last = f"{first}{text[at : at + PIECE]}".split(COLOURED)
    before = {part[-1] for part in parts if part}
    symbols = {char for char in before if unicodedata.category(char) in ("So", "Sm")}
    coloured = [f"{part}{COLOURED}" if part[-1:] in symbols else part for part in parts]
    return ("".join(coloured) + last)[len(first) :]


def _without_hidden(text: str) -> str:
    hidden = _hidden(set(text))
    return "".join(filterfalse(hidden.__contains__, text)) if hidden else text


def _hidden(different: set[str]) -> set[str]:
    """Return the characters that a person cannot see.

    Python calls those not printable which are separators, or have a category of "other".
    """
    return set(filterfalse(str.isprintable, different)) - SEEN | different & UNSEEN
