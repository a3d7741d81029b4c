"""Remove invisible characters and terminal escapes from texts that somebody else wrote."""

from __future__ import annotations

import unicodedata

INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Cn", "Co", "Cs"})
COLOURED = "\ufe0f"
"""The variation selector that asks for the coloured form of an emoji."""


def visible(text: str) -> str:
    """Return `text` without characters that a person cannot see but a model or a terminal reads.

    Escapes and marks of direction are removed as well. Line ends and tabs stay, and so does the
    selector that colours an emoji.
    """
    if text.isascii() and text.isprintable():
        return text
    # Each different character is judged once, because a server may send many millions.
    chars = set(text)
    shown = {char for char in chars if not is_hidden(char)}
    plain = text if len(shown) == len(chars) else "".join(filter(shown.__contains__, text))
    first, *pieces = plain.split(COLOURED)
    kept, last = [first], first[-1:]
    for piece in pieces:
        if last and unicodedata.category(last) in ("So", "Sm"):
            kept.append(last := COLOURED)
        kept.append(piece)
        last = piece[-1:] or last
    return "".join(kept)


def is_hidden(char: str) -> bool:
    """Whether a person cannot see a character."""
    if char.isascii():
        return not (char.isprintable() or char in "\n\t")
    # A row of variation selectors can hide a whole text. `visible` allows one after an emoji.
    selector = "\ufe00" <= char <= "\ufe0e" or "\U000e0100" <= char <= "\U000e01ef"
    return selector or char in INVISIBLE or unicodedata.category(char) in INVISIBLE_CATEGORIES
