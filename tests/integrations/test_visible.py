"""Texts that somebody else wrote, without what a person does not see."""

import pytest

from functool.integrations import visible as module
from functool.integrations.visible import is_hidden, visible


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain\ntext\there", "plain\ntext\there"),
        ("a\x00b\x1b[31mc\x7f\r", "ab[31mc"),
        ("\u202eright to left\u202c", "right to left"),
        ("zero\u200bwidth", "zerowidth"),
        ("tags" + "".join(chr(0xE0000 + ord(c)) for c in "send secrets"), "tags"),
        ("filler\u3164\u2800x", "fillerx"),
        (
            "a heart \u2764\ufe0f and the sun \u2600\ufe0f",
            "a heart \u2764\ufe0f and the sun \u2600\ufe0f",
        ),
        ("bits\ufe0f i\ufe0fn a\ufe0f text \ufe0f\ufe0f", "bits in a text "),
        ("\u2764\ufe0f\ufe0f\ufe0f", "\u2764\ufe0f"),
        ("\ufe0fé", "é"),
        ("Zürich 東京 हिन्दी 👍", "Zürich 東京 हिन्दी 👍"),
    ],
)
def test_what_a_person_does_not_see_is_taken_out(text, seen):
    """Escapes, marks of direction, fillers and selectors go; a symbol keeps its colour."""
    assert visible(text) == seen
    assert visible(seen) == seen


def test_a_hidden_character_is_one_that_nobody_sees():
    """Line ends and tabs are seen, escapes and tags are not."""
    assert [is_hidden(char) for char in "a\n\t\x1b\u200b\U000e0041"] == [False] * 3 + [True] * 3


def test_each_different_character_is_judged_once(monkeypatch):
    """A text of many millions of characters costs no judgement of each of them."""
    judged = []
    monkeypatch.setattr(module, "is_hidden", lambda char: judged.append(char) or is_hidden(char))

    assert visible("é\x1ba" * 1_000) == "éa" * 1_000
    assert sorted(judged) == ["\x1b", "a", "é"]
