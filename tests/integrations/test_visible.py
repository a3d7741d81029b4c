"""Texts that somebody else wrote, without what a person does not see."""

import json
import random
import sys
import tracemalloc
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functool.integrations.visible import PIECE, arguments_text, indented, is_visible, visible


def python_calls(func):
    """Return how many calls and returns the interpreter made while a function ran."""
    counted = []
    sys.setprofile(lambda frame, event, argument: counted.append(event))
    try:
        func()
    finally:
        sys.setprofile(None)
    return len(counted)


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain\ntext\there", "plain\ntext\there"),
        ("a\x00b\x1b[31mc\x7f\r", "ab[31mc"),
        ("\u202eright to left\u202c", "right to left"),
        ("zero\u200bwidth", "zerowidth"),
        ("tags" + "".join(chr(0xE0000 + ord(c)) for c in "send secrets"), "tags"),
        ("filler\u3164\u2800x", "fillerx"),
        ("fillers\U00016fe4\U0001d159", "fillers"),
        ("selectors\u180b\u180c\u180d\u180f", "selectors"),
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
    """Line ends, tabs and spaces are seen, escapes and tags are not."""
    seen = [is_visible(char) for char in "a\n\t\u3000\ufe0f\x1b\u200b\ufe0e\U000e0041"]

    assert seen == [True] * 5 + [False] * 4


def test_every_character_is_judged_by_its_category():
    """Controls, marks of format, private and unassigned characters go; separators and signs stay."""
    every = "".join(map(chr, range(sys.maxunicode + 1))).replace("\ufe0f", "")

    gone = set(every) - set(visible(every))

    others = {char for char in every if unicodedata.category(char)[0] == "C"} - {"\n", "\t"}
    assert others < gone
    assert {unicodedata.name(char).split("-")[0].rstrip() for char in gone - others} == {
        "BRAILLE PATTERN BLANK",
        "COMBINING GRAPHEME JOINER",
        "HALFWIDTH HANGUL FILLER",
        "HANGUL CHOSEONG FILLER",
        "HANGUL FILLER",
        "HANGUL JUNGSEONG FILLER",
        "KHITAN SMALL SCRIPT FILLER",
        "KHMER VOWEL INHERENT AA",
        "KHMER VOWEL INHERENT AQ",
        "MONGOLIAN FREE VARIATION SELECTOR FOUR",
        "MONGOLIAN FREE VARIATION SELECTOR ONE",
        "MONGOLIAN FREE VARIATION SELECTOR THREE",
        "MONGOLIAN FREE VARIATION SELECTOR TWO",
        "MUSICAL SYMBOL NULL NOTEHEAD",
        "VARIATION SELECTOR",
    }


def test_a_long_text_is_cleaned_as_its_parts_are():
    """Where a long text is cut into pieces, no character is lost and no selector is judged alone."""
    parts = ["a", "é", "\x1b", "\u200b", "\u2764", "\u2764\ufe0f", "漢", "\n"]
    chosen = random.Random(1).choices(parts, k=PIECE)

    assert visible("".join(chosen)) == "".join(map(visible, chosen))
    assert visible("a" * (PIECE - 1) + "\u2764\ufe0f") == "a" * (PIECE - 1) + "\u2764\ufe0f"
    assert not is_visible("é" * 3 * PIECE + "\u200b")


@pytest.mark.parametrize("text", ["é", "a\x1b", "é\u200b", "\U000e0041", "\u2764\ufe0f", "\ufe0f"])
@pytest.mark.parametrize("func", [visible, is_visible])
def test_a_long_text_takes_no_step_of_python_for_each_character(text, func):
    """A text of millions of characters is cleaned on the event loop, so the work is done in C."""
    long = text * (50_000 // len(text))

    assert python_calls(lambda: func(long)) < 1_000


def test_arguments_are_written_out():
    """A person who decides reads each character that could hide or turn another by its number."""
    hiding = "\x1b\x7f\x9b\u202e\u200b\ufe0f\U000e0041"

    text = arguments_text({hiding: [hiding]})

    assert text.isascii() and text.replace("\n", "").isprintable()
    assert json.loads(text) == {hiding: [hiding]}


NESTED = json.loads(f"[{','.join(['[' * 90 + ']' * 90] * 500)}]")


@pytest.mark.parametrize("most", [0, 10_000, 1_000_000])
def test_indentation_does_not_multiply_a_text(most):
    """Nested lists stay on one line if they would be too long, and little is indented before that."""
    line = json.dumps(NESTED)
    texts = []

    steps = python_calls(lambda: texts.append(arguments_text(NESTED, most)))

    assert texts == [line]
    assert len(json.dumps(NESTED, indent=2)) > 80 * len(line)
    assert steps < max(2 * most, 1_000)


def test_a_text_is_indented_as_far_as_it_fits():
    """A text of exactly the limit is indented; both forms hold the same value, in any script."""
    value = {"name": ["Zoë", {}, 1.5, None]}
    whole = json.dumps(value, indent=2)

    assert arguments_text(value) == indented(value, len(whole)) == whole
    assert indented(value, len(whole) - 1) == json.dumps(value)
    assert '"Zoë"' in indented(value, ensure_ascii=False)


@given(st.text(alphabet="a\u2764\ufe0f\u200b\u4f60", max_size=30))
def test_pieces_change_nothing(text):
    """A text that is cleaned in pieces of two characters is the same as in one piece."""
    whole = visible(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("functool.integrations.visible.PIECE", 2)
        assert visible(text) == whole


def test_many_selectors_take_little_memory():
    """A text of emoji does not become a million small texts."""
    text = "\u2764\ufe0f" * 500_000
    tracemalloc.start()
    try:
        assert visible(text) == text
        assert tracemalloc.get_traced_memory()[1] < 12 * len(text)
    finally:
        tracemalloc.stop()
