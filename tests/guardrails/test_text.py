"""`truncate` and `redact`: how long a result gets, and what a model never reads."""

import dataclasses
import gc
import itertools
import json
import re
import threading
import weakref
from collections import deque
from datetime import datetime
from typing import Any, NamedTuple

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from functool import (
    Context,
    DefinitionError,
    FileContent,
    FunctionTool,
    ImageContent,
    TextContent,
    ToolError,
    ToolResult,
)
from functool.guardrails import block, redact, text, truncate
from tests.guardrails.tools import echo_tool, said
from tests.strategies import SINGLE, nested
from tests.support import call, since_pydantic_2_14

SHORT = ToolResult.failed("short", output=[TextContent(text="o" * 500)])


def cut(value, limit):
    """What `truncate` makes of a result; None where it is short enough."""
    return truncate(limit)(ToolResult.of(value), Context())


def test_truncate_keeps_the_limit_and_says_what_is_missing():
    """The marker is inside the limit and says how much is missing."""
    result = said("word " * 100, truncate(60))

    missing = int(re.search(r"\[(\d+) of 500 truncated\]", result.text).group(1))
    kept = result.text.partition("…")[0]
    assert len(result.text) <= 60
    assert len(kept) == 500 - missing and ("word " * 100).startswith(kept)
    assert result.value == result.text


def test_truncate_leaves_short_results_alone():
    """Within the limit nothing is replaced."""
    result = said("x" * 60, truncate(60))

    assert (result.text, result.metadata) == ("x" * 60, {})


def test_truncate_counts_as_it_is_told():
    """`count` may be a token counter."""
    words = lambda text: len(text.split())  # noqa: E731
    result = said("one two three four five six seven eight nine ten", truncate(8, count=words))

    assert words(result.text) <= 8 and result.text.startswith("one two")


@pytest.mark.parametrize(
    "unit",
    [
        *("👩‍👩‍👧‍👦", "e\u0301", "🇩🇪", "👍🏽", "\r\n", "한", "각"),
        *("\u1100각", "\u1100\u1100\u1161\ud7cb", "नी"),
        *("क\u094d\u0937\u093f"),
        *("🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"),
        *("น\u0e49\u0e33", "ｶ\uff9e", "ن\u200c"),
    ],
    ids=ascii,
)
def test_truncate_never_splits_a_grapheme(unit):
    """Emoji sequences, accents, flags (of regions, too), syllables and joined letters are kept whole."""
    for limit in range(40, 60):
        text = said(unit * 60, truncate(limit)).text
        kept = text.partition("…")[0]

        assert len(text) <= limit
        assert kept == unit * (len(kept) // len(unit))


def test_truncate_shortens_errors_and_keeps_images():
    """The error's message is shortened too; other content stays."""
    image = ImageContent(data=b"png")
    failed = said(ToolResult.failed("m" * 500, output=[TextContent(text="o" * 500)]), truncate(50))
    mixed = said(["t" * 500, image], truncate(50))

    assert len(failed.text) <= 50 and len(failed.error.message) <= 50
    assert mixed.output[1] == image and len(mixed.output[0].text) <= 50


def test_truncate_counts_the_text_of_a_file():
    """A text file is shown as text by many clients, so it is no way around the limit."""
    log = FileContent(data=b"line " * 100, media_type="text/plain", name="log.txt")
    cut = said(["head", log], truncate(50))
    assert (
        len(cut.text) <= 50 and cut.text.startswith("head\nline line") and "truncated" in cut.text
    )
    assert all(isinstance(part, TextContent) for part in cut.output)

    # Anthropic's format replaces the bytes that are no UTF-8.
    assert "truncated" in said([dataclasses.replace(log, data=b"\xff" * 500)], truncate(50)).text

    kept = [["head", log], [dataclasses.replace(log, media_type="a/zip")]]
    for value, limit in zip(kept, (505, 50), strict=True):
        assert said(value, truncate(limit)).output[-1] == value[-1]
    assert "truncated" in said(["head", log], truncate(504)).text


UNITS = [
    *("e\u0301", "🇩🇪", "🇦🇿", "🇿🇦", "x", "🇿🇦"),
    *("👍\U0001f3fb", "👍\U0001f3ff", "\u1100\u1160", "\u1100\u1161\u11ff"),
    *("👩\u200d👧", "각", "\U0001f1e9", "y", "\u0301"),
]


@pytest.mark.parametrize("start", range(len(UNITS)))
def test_truncate_keeps_every_grapheme_that_fits(start):
    """Whatever stands beside it, a grapheme that fits together with the marker is kept, and one that does not goes whole."""
    # A mark joins what stands before it, so it is a grapheme only where it stands first.
    first, *others = [*UNITS[start:], *UNITS[:start]] * 3
    units = [first, *(unit for unit in others if unit != "\u0301")]
    text = "".join(units)
    ends = [0, *itertools.accumulate(map(len, units))]
    total = len(text)
    for limit in range(1, total):
        forms = ("… [{} of {} truncated]", "… [{} cut]", "")
        form = next(form for form in forms if len(form.format(total, total)) <= limit)
        shown = [text[:end] + form.format(total - end, total) for end in ends[:-1]]

        assert cut(text, limit).text == [each for each in shown if len(each) <= limit][-1]


def test_truncate_keeps_a_line_end_whole():
    """Where there is no room for a marker, too, the two characters of a line end stay together."""
    texts = [cut("\r\n" * 50, limit).text for limit in range(1, 9)]

    assert texts == ["\r\n" * (limit // 2) for limit in range(1, 9)]
    assert cut("abc", 2).text == "ab"


@pytest.mark.parametrize("limit", [11, 12, 20, 23])
def test_a_short_limit_gets_a_short_marker(limit):
    """Where the long marker does not fit, a short one says how much is missing; below that there is the beginning only."""
    text = said("abcdefgh " * 50, truncate(limit)).text
    kept, missing = re.fullmatch(r"(.*)… \[(\d+) cut\]", text).groups()

    assert len(text) <= limit and ("abcdefgh " * 50).startswith(kept)
    assert len(kept) + int(missing) == 450
    assert said("abcdefgh " * 50, truncate(5)).text == "abcde"


def test_truncate_cuts_something_whatever_the_count_says():
    """A counter that finds the text with its marker shorter than the text alone does not make the cut go wrong."""
    result = truncate(40, count=lambda text: 10 if "…" in text else 100)(
        ToolResult.of("abc " * 20), Context()
    )

    assert result.text == "abc " * 19 + "… [0 of 100 truncated]"


@pytest.mark.parametrize("space", [" ", "\n", "\t", ","])
def test_truncate_cuts_behind_a_word(space):
    """A break within the last 64 characters is the last character that is kept; where there is none a word is cut."""
    for length in (62, 63, 64, 65):
        text = "x" * (75 - length) + space + "y" * 300
        kept = said(text, truncate(100)).text.partition("…")[0]

        assert kept == (text[: 76 - length] if length < 64 else text[:76])


@given(
    st.text(max_size=60) | st.lists(st.sampled_from([*UNITS, "\u0600"]), max_size=40).map("".join),
    st.integers(1, 80),
)
def test_truncate_splits_no_grapheme_of_unicode(text, limit):
    """Law: every grapheme that begins within what is kept ends there, too, by the rules of the `regex` package."""
    result = cut(text, limit)
    shown = ToolResult.of(text).text
    if result is not None:
        kept = re.sub(r"… \[\d+ (of \d+ truncated|cut)\]\Z", "", result.text)
        assert len(kept) in [0, *itertools.accumulate(map(len, regex.findall(r"\X", shown)))]


@given(st.text(max_size=300), st.integers(1, 200))
def test_truncate_law(text, limit):
    """Law: never longer than the limit, and otherwise a beginning of the text plus the marker."""
    result = cut(text, limit)
    if result is None:
        assert len(ToolResult.of(text).text) <= limit
    else:
        assert len(result.text) <= limit
        assert text.startswith(result.text.partition("…")[0]) or "…" in text


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, "9"])
def test_truncate_refuses_nonsense(limit):
    """A limit is a positive int."""
    with pytest.raises(DefinitionError, match=f"^limit must be a positive int, not {limit!r}$"):
        truncate(limit)


@pytest.mark.parametrize(
    ("limit", "text"), [(1, "s"), (5, "short"), (6, "short"), (7, "short\no"), (8, "short\noo")]
)
def test_the_output_of_an_error_gets_what_its_message_leaves(limit, text):
    """The message comes first, and the output gets the rest, to the last character."""
    result = said(SHORT, truncate(limit))

    assert result.text == text


def test_truncate_makes_one_text_of_several():
    """Several texts are cut as the one that a model reads, and what is no text stands behind it."""
    image = ImageContent(data=b"png")
    result = ToolResult(output=[TextContent(text="a" * 10), image, TextContent(text="b" * 90)])

    assert truncate(40)(result, Context()).output == [
        TextContent(text="a" * 10 + "\n… [90 of 101 truncated]"),
        image,
    ]


def test_redact_cleans_text_value_and_errors():
    """What matches is gone from the text, the value and the error."""
    tool = echo_tool({"key": "sk-12345", "n": 1}, output_guardrails=[redact([r"sk-\w+"])])
    failed = echo_tool(ValueError("bad key sk-12345"), output_guardrails=[redact([r"sk-\w+"])])
    details = ToolResult.failed("x", details={"k": ["sk-1"], "sk-2": 3})

    assert json.loads(call(tool).text) == {"key": "[redacted]", "n": 1}
    assert "12345" not in str(call(tool).value)
    assert call(failed).text == "ValueError: bad key [redacted]"
    cleaned = said(details, redact([r"sk-\w+"])).error.details
    assert cleaned == {"k": ["[redacted]"], "[redacted]": 3}


@pytest.mark.parametrize("error", [ValueError, ToolError])
def test_redact_takes_half_a_secret_at_the_end_of_the_longest_error_message(error):
    """An error message has 4,000 characters at most, and what was cut there in two is not shown by half."""
    tool = echo_tool(
        error("x " * 1980 + "secret-token " * 9), output_guardrails=[redact(["secret-token"])]
    )
    text = call(tool).text

    assert text.endswith(" [redacted] [redacted] [redacted]") and "se" not in text
    assert said(error("one secret two"), redact(["secret"])).text.endswith("one [redacted] two")


def test_redact_cleans_numbers_in_details():
    """A number that matches goes, wherever it stands in the details; None, and what does not match, stays what it is."""
    redacted = redact([r"4111\d{12}", "null"])
    card = 4111111111111111
    failed = ToolResult.failed(
        "x", details={"card": card, "all": (card, {card}), card: 1.5, "none": None, "yes": True}
    )

    assert redacted(failed, Context()).error.details == {
        "card": "[redacted]",
        "all": ("[redacted]", {"[redacted]"}),
        "[redacted]": 1.5,
        "none": None,
        "yes": True,
    }
    assert redacted(ToolResult.failed("x"), Context()) is None
    assert redacted(ToolResult.of({"card": card}), Context()).text == '{"card":"[redacted]"}'


@pytest.mark.parametrize(
    "secret", ["pässwört", 'with "quotes"', "back\\slash", "new\nline", "emoji 🙂", "tab\tbed"]
)
@pytest.mark.parametrize("levels", [0, 1, 2, 3])
def test_redact_sees_through_escapes(secret, levels):
    """The escaped spelling of a secret, in JSON and in JSON inside JSON, is found."""
    text = secret
    for _ in range(levels):
        text = json.dumps({"inner": text})
    cleaned = said(f"log: {text} end", redact([re.escape(secret)])).text

    assert "[redacted]" in cleaned
    for _ in range(levels + 1):
        assert secret not in cleaned
        cleaned = (
            cleaned.encode().decode("unicode_escape", "replace")
            if "\\u" in cleaned
            else cleaned.replace("\\\\", "\\").replace('\\"', '"')
        )


KEY = "sk-" + "A" * 40
NO_KEYS = redact([r"sk-A{40}"])


def test_redact_before_truncate_leaves_no_half_secret():
    """In this order no part of a secret survives the cut, wherever it falls."""
    for start in range(0, 120, 7):
        text = said("x" * start + " " + KEY + " y" * 200, NO_KEYS, truncate(100)).text
        assert "sk-A" not in text


def test_truncate_before_redact_drops_a_cut_word():
    """In the other order, too, a cut falls between words: half a secret does not escape the pattern."""
    for start in range(0, 90, 3):
        text = said("x " * start + KEY + " y" * 200, truncate(100), NO_KEYS).text
        assert "sk-A" not in text


@pytest.mark.parametrize("before", ["", "=", "/", '"', "key:"])
def test_truncate_before_redact_leaves_no_half_secret(before):
    """A word that was cut because no break was near goes as a whole: it may be half of a secret."""
    for start in range(120):
        shown = cut("x" * start + before + KEY + "y" * 200, 100)
        text = NO_KEYS(shown, Context()).text

        assert "sk-" not in text and "truncated]" in text
    failed = said(ValueError("x" * 50 + KEY + "y" * 200), truncate(100), NO_KEYS)
    assert failed.text == "ValueError: [redacted]… [229 of 305 truncated]"


def test_redact_keeps_the_words_that_truncate_did_not_cut():
    """Behind a cut between words nothing but the matches is redacted, and a text that only looks cut in its middle is not."""
    text = said("word, " * 100, truncate(60), redact(["secret"])).text

    assert "[redacted]" not in text and text.startswith("word, word, word,")
    assert redact(["secret"])(ToolResult.of("one… [3 of 4 truncated] more"), Context()) is None


def test_overlapping_matches_are_redacted_whole():
    """Matches that overlap leave nothing of either."""
    assert said("abcdef", redact(["abcd", "cdef"])).text == "[redacted]"


@pytest.mark.parametrize(
    "patterns",
    ["one", re.compile("one"), [r"("], None, [1], [b"one"], [re.compile(b"one")]],
    ids=repr,
)
def test_patterns_are_checked_at_definition(patterns):
    """One pattern instead of a list, and what is no pattern for text, is refused at once."""
    for make in (redact, block):
        with pytest.raises(
            DefinitionError, match="^patterns must be a list of regular expressions"
        ):
            make(patterns)


@pytest.mark.parametrize(
    "value", [{"pin": "7777"}, "pin 7777", ["\u0667", "7777"]], ids=["object", "text", "list"]
)
def test_redact_reads_a_value_that_the_output_does_not_show(value):
    """Integrations make structured output of the value: a secret in it does not get past because the text hides it."""

    @FunctionTool(output_guardrails=[redact(["7{4}"])])
    async def show() -> ToolResult:
        return ToolResult(output=[TextContent(text="fine")], value=value)

    result = call(show)

    assert "7777" not in repr(result) and result.text == "fine"
    assert type(result.value) is type(value) and "[redacted]" in repr(result.value)


def test_redact_reads_names_and_addresses():
    """Address, name and media type of a file are cleaned, bytes that are no text are left alone."""
    content = FileContent(
        data=b"\xff7777",
        media_type="application/pdf; name=7777",
        uri="https://example.org/?key=7777",
        name="7777.txt",
    )

    @FunctionTool(output_guardrails=[redact(["7{4}"])])
    async def show() -> FileContent:
        return content

    result = call(show)

    assert result.output == [
        FileContent(
            data=b"\xff7777",
            media_type="application/pdf; name=[redacted]",
            uri="https://example.org/?key=[redacted]",
            name="[redacted].txt",
        )
    ]
    assert content.name == "7777.txt"


@pytest.mark.parametrize("media_type", ["text/plain", "application/json", "image/svg+xml"])
def test_redact_reads_the_text_of_a_file(media_type):
    """The bytes of a file that are text are cleaned, also behind JSON escapes, as providers show them to the model."""
    kind = ImageContent if media_type.startswith("image") else FileContent
    hidden = r'{"é": "key 7777", "77\u00377": "\ud800"}'
    content = kind(data=hidden.encode(), media_type=media_type)

    @FunctionTool(output_guardrails=[redact(["7{4}"])])
    async def show() -> list[Any]:
        return ["a file", content]

    result = call(show)

    shown = '{"é": "key [redacted]", "[redacted]": "\ufffd"}'
    cleaned = kind(data=shown.encode(), media_type=media_type)
    assert result.output == [TextContent(text="a file"), cleaned]
    assert result.value == ["a file", cleaned]
    assert "7777" in content.data.decode()


@pytest.mark.parametrize(
    "media_type", ["text/plain", "text/csv; charset=iso-8859-1", "Application/JSON; charset=cp1252"]
)
def test_redact_reads_a_text_file_in_another_encoding(media_type):
    """Anthropic's format replaces its other bytes. Without a match, they stay as they are."""
    secret, other = (
        FileContent(data=f"café {text}".encode("latin-1"), media_type=media_type)
        for text in ("7777", "tea")
    )
    result = said([secret, other], redact(["7{4}"]))
    assert result.output == [
        dataclasses.replace(secret, data="caf\ufffd [redacted]".encode()),
        other,
    ]


def test_what_redact_makes_of_a_value():
    """What matches nothing is the same object, None too; a value is cleaned by itself where the output is another text."""

    def cleaned(value, shown="fine", pattern="7{4}"):
        result = ToolResult(output=[TextContent(text=shown)], value=value)
        return said(result, redact([pattern])).value

    kept = {"pin": 1}
    assert cleaned("pin 7777") == "pin [redacted]"
    assert cleaned(kept) is kept and cleaned(None, pattern="null") is None
    assert cleaned("other 7777", shown="pin 7777") == "other [redacted]"
    assert cleaned(kept, shown="pin 7777") == {"pin": 1}
    fine = ToolResult(output=[TextContent(text="fine")], value=kept)
    assert redact(["7{4}"])(fine, Context()) is None


@dataclasses.dataclass
class Account:
    owner: str
    iban: str
    seen: datetime = datetime(2027, 1, 2)


class Line(NamedTuple):
    text: str
    number: int


@dataclasses.dataclass
class Reply:
    body: bytes


class Person(BaseModel):
    name: str
    accounts: list[Account]


SHAPES = [
    ({"a": ["sk-1", 2, None, True]}, {"a": ["[redacted]", 2, None, True]}),
    (("sk-1", {"sk-2"}, frozenset({"x"})), ("[redacted]", {"[redacted]"}, frozenset({"x"}))),
    ({"sk-1": 1, 2: "sk-2"}, {"[redacted]": 1, 2: "[redacted]"}),
    (
        ["sk-1", ImageContent(uri="https://sk-1/")],
        ["[redacted]", ImageContent(uri="https://[redacted]/")],
    ),
    (Account("ada", "sk-1"), {"owner": "ada", "iban": "[redacted]", "seen": "2027-01-02T00:00:00"}),
    ([Account("ada", "no")], None),
    ([Line("sk-1", 2)], [Line("[redacted]", 2)]),
    (
        {"p": Person(name="sk-1", accounts=[Account("ada", "no")])},
        {
            "p": {
                "name": "[redacted]",
                "accounts": [{"owner": "ada", "iban": "no", "seen": "2027-01-02T00:00:00"}],
            }
        },
    ),
    (Person(name="ada", accounts=[]), None),
    ({"day": datetime(2027, 1, 2), "bytes": b"no"}, None),
    ({"day": 1, "bytes": b"a sk-1"}, {"day": 1, "bytes": b"a [redacted]"}),
    (b"sk-1", b"[redacted]"),
    ([bytearray(b"sk-1")], [b"[redacted]"]),
    (bytearray(b"no"), None),
    (b"\xff sk-1", None),
    (Reply(b"a sk-1"), {"body": "YSBbcmVkYWN0ZWRd"}),  # The base64 of "a [redacted]".
    pytest.param(
        deque([[b"sk-1", 1]]), [["W3JlZGFjdGVkXQ==", 1]], marks=since_pydantic_2_14
    ),  # An older pydantic writes the `str` of a deque.
    (Reply(b"no"), None),
    (Reply(b"\xff sk-1"), None),
]


@pytest.mark.parametrize(("value", "expected"), SHAPES, ids=lambda value: repr(value)[:30])
def test_redact_keeps_the_shape_of_a_value(value, expected):
    """Texts inside are replaced and types stay; an object becomes its JSON form only where something had to go."""
    result = said(value, redact([r"sk-\d"]))
    expected = value if expected is None else expected

    assert result.value == expected and type(result.value) is type(expected)
    assert repr(result.value) == repr(expected)
    assert result.output == ToolResult.of(expected).output


def test_redact_replaces_a_number_that_json_says_as_a_text():
    """NaN is the text "NaN" in JSON; its quotation marks are none of the value."""
    assert said(float("nan"), redact(["NaN"])).value == "[redacted]"
    assert said([1.5, float("nan")], redact(["NaN"])).value == [1.5, "[redacted]"]


@pytest.mark.parametrize(
    ("pattern", "value"),
    [
        (r'"pin":\s*"\d+"', '{[redacted],"n":1}'),
        (r'(?<="pin":")\d+', {"pin": "[redacted]", "n": 1}),
        (r'\d+(?=","n")', {"pin": "[redacted]", "n": 1}),
    ],
)
def test_redact_finds_what_only_the_json_of_a_value_shows(pattern, value):
    """A pattern that needs what stands around a text is seen in the JSON: code does not read it either, and JSON stays JSON."""
    result = said({"pin": "12", "n": 1}, redact([pattern]))

    assert result.value == value
    assert "12" not in result.text


@pytest.mark.parametrize("pattern", [r"\w{8,}", r"[a-z]+", r"\[.*?\]", "redacted"])
def test_redact_leaves_its_own_mark_alone(pattern):
    """A pattern that also matches the mark redacts once, keeps the shape, and a second time changes nothing."""
    guard = redact([pattern])
    once = guard(ToolResult.of({"1": "abcdefgh [x] redacted"}), Context())

    assert list(once.value) == ["1"] and "[redacted]" in once.value["1"]
    assert guard(once, Context()) is None


def test_redact_keeps_json_text_json():
    """Where a text is JSON itself, at any depth, what is left of it can still be read."""
    inner = json.dumps({"name": "M\u00fcller", "note": 'says "hi"\n', "n": 1.5})
    text = json.dumps({"inner": inner, "path": "C:\\new"})
    cleaned = said(text, redact(["M\u00fcller"])).text

    outer = json.loads(cleaned)
    assert outer["path"] == "C:\\new"
    assert json.loads(outer["inner"]) == {"name": "[redacted]", "note": 'says "hi"\n', "n": 1.5}


@pytest.mark.parametrize(
    "text",
    [
        r'{"a": "p\u00e4ss", "a": 1}',
        r'5" tall, {"k": "p\u00e4ss"}',
        r'{"k": "\u005cu0070\u00e4ss"}',
        r"p\u005cu005cu005cu00e4ss",
        r"\/p\u00E4ss",
    ],
)
def test_redact_sees_through_escapes_that_are_not_quite_json(text):
    """A name that comes twice, a stray quote, escaped escapes and bare ones hide nothing."""
    cleaned = said(text, redact(["p\u00e4ss"])).text

    assert "[redacted]" in cleaned and "ss" not in cleaned.replace("[redacted]", "")


def test_redact_gives_up_on_a_text_that_is_escaped_without_end():
    """A text of very many levels of escapes goes as a whole, in a time that does not grow with their number."""
    deep = "\\" + "u005c" * 10_000 + "u0061"

    assert said(f"x {deep}", redact(["secret"])).text == "[redacted]"


@pytest.mark.parametrize("hidden", ["secret", r"\u0073ecret"])
def test_redact_cleans_json_that_is_nested_too_deeply_to_walk(hidden):
    """Such a text is cleaned like any other text, also behind its escapes."""
    text = "[" * 900 + rf'"\n{hidden}"' + "]" * 900

    cleaned = said(text, redact(["secret"]))

    assert cleaned.success and cleaned.text.count("[") == 901
    assert "ecret" not in cleaned.text


def test_redact_makes_valid_text_of_half_an_emoji():
    """Half of a surrogate pair, which an escape can hide, does not leave as such."""
    result = said(r"\ud83d s\u0065cret", redact(["secret"]))

    assert result.value == result.output[0].text == "\ufffd [redacted]"


def test_redact_cleans_a_value_that_holds_itself():
    """A value without an end is shown as its text, cleaned, and nothing fails."""
    endless = ["secret"]
    endless.append(endless)

    assert said(endless, redact(["secret"])).value == "['[redacted]', [...]]"


def test_redact_does_not_change_the_value_itself():
    """The body may keep what it returned: a cleaned copy leaves."""
    kept = {"list": ["secret"], "deep": {"a": "secret"}}
    said(kept, redact(["secret"]))

    assert kept == {"list": ["secret"], "deep": {"a": "secret"}}


JSON = nested(SINGLE | st.integers() | st.text(max_size=8) | st.just('say "sk-1" \u00e4\\'))


def skeleton(value):
    """The value with every text replaced by one and the same."""
    if isinstance(value, dict):
        return ("dict", sorted(repr(skeleton(item)) for item in value.values()))
    if isinstance(value, list):
        return [skeleton(item) for item in value]
    return "" if isinstance(value, str) else value


@given(JSON, st.integers(0, 2))
def test_redact_law(value, levels):
    """Law: no text of a value, nor of JSON texts in it, holds a match; what is no text stays; a second time changes nothing."""
    for _ in range(levels):
        value = {"json": json.dumps(value)}
    guard = redact([r"sk-\d"])
    result = ToolResult.of(value)
    cleaned = guard(result, Context()) or result

    assert "sk-1" not in cleaned.text and "sk-1" not in json.dumps(cleaned.value)
    assert skeleton(cleaned.value) == skeleton(value)
    assert cleaned.output == ToolResult.of(cleaned.value).output
    assert guard(cleaned, Context()) is None


def test_redact_passes_over_empty_matches():
    """A pattern that also matches nothing redacts only what it found, and every stretch of it."""
    assert said("abxxcx", redact(["x*"])).text == "ab[redacted]c[redacted]"


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        (r"s\u0065cret", "[redacted]"),
        (r"\u0073ecret!", "[redacted]!"),
        (r"a \S\u0045CRET \x", r"a \[redacted] \x"),
        (r"a\tsecret\n", r"a\t[redacted]\n"),
        (r"\q secret", r"\q [redacted]"),
    ],
)
def test_redact_leaves_the_rest_as_it_was_spelt(text, cleaned):
    """Escapes are seen through only to find the places; what stands around a match is not rewritten."""
    assert said(text, redact(["(?i)secret"])).text == cleaned


def test_redact_finds_what_goes_across_texts():
    """A model reads the texts of an output one after the other, as a key in lines."""
    picture = ImageContent(data=b"1")
    parts = [
        TextContent(text="a BEGIN"),
        picture,
        TextContent(text="s3cret"),
        TextContent(text="END b"),
    ]
    clean = redact([r"BEGIN[\s\S]*END"])

    for result in (ToolResult.of(parts), ToolResult(output=parts, value={"n": 1})):
        new = clean(result, Context())
        assert new.output == [TextContent(text="a [redacted] b"), picture]
        assert "s3cret" not in repr(new.value)
    assert new.value == {"n": 1}
    assert redact(["BEGIN END"])(ToolResult.of(parts), Context()) is None


def test_redact_looks_once_at_a_text_that_value_json_and_output_hold(monkeypatch):
    """A value, its JSON and the output hold the same texts: each is searched and parsed once."""
    looked = []
    clean = text._clean

    def counting(patterns, looked_at, again):
        looked.append(looked_at)
        return clean(patterns, looked_at, again)

    monkeypatch.setattr(text, "_clean", counting)
    value = [f"{number}\\n" for number in range(100)]
    result = ToolResult.of(value * 2)
    assert redact(["secret"])(result, Context()) is None
    assert sorted(looked) == sorted({*value, result.text})


def test_redact_leaves_a_picture_alone():
    """A value that the output shows is not read twice, and never as text."""
    picture = ImageContent(data=b"\xff" * 30)

    @FunctionTool(output_guardrails=[redact(["[/_]{4}"])])
    async def show() -> ImageContent:
        return picture

    assert call(show).value is picture


def test_a_match_inside_of_another_is_redacted_with_it():
    """Only the outer match is replaced."""
    assert said("abcdef!", redact(["abcdef", "cd"])).text == "[redacted]!"


def test_truncate_keeps_a_short_error_message():
    """A message within the limit stays whole beside an output that does not."""
    result = said(SHORT, truncate(100))

    assert result.error.message == "short"
    assert result.text.startswith("short") and len(result.text) == 100


def test_truncate_holds_for_a_count_that_does_not_grow_with_the_text():
    """Where a shorter text may count for more, the limit holds all the same."""
    text = "a,\n,\n ,,\n ,a ba\n bb,,\n,,,, ,bb b,bb,\na,,\nbb\nbb\nb,  bb b bb,bbba \n\n\n\n\n,b\n\n\naa"
    result = truncate(67, count=lambda shown: len(shown) + 3 * shown.count("b…"))(
        ToolResult.of(text), Context()
    )

    assert len(result.text) + 3 * result.text.count("b…") <= 67 and text.startswith(
        result.text.partition("…")[0]
    )


def test_redact_keeps_no_text_alive():
    """A text is freed as soon as its result is, without waiting for the garbage collector."""

    class Text(str):
        pass

    result = ToolResult(value=Text("a secret"))
    seen = weakref.ref(result.value)
    gc.disable()
    try:
        assert redact(["secret"])(result, Context()).value == "a [redacted]"
        del result
        assert seen() is None
    finally:
        gc.enable()


def test_a_result_class_of_the_author_is_shortened():
    """`truncate` needs no `__init__` of the result: an author's class may take what it likes."""

    class Answer(ToolResult):
        def __init__(self, words):
            super().__init__(output=[TextContent(text=words)], value=words)

    @FunctionTool(output_guardrails=[truncate(5)])
    async def tell() -> ToolResult:
        return Answer("0123456789")

    result = call(tell)

    assert (type(result), len(result.text)) == (Answer, 5)


@pytest.mark.parametrize(("count", "elsewhere"), [(10, False), (20_000, True)])
def test_a_large_value_is_cleaned_on_a_thread(count, elsewhere):
    """`redact` does not hold the event loop for a large value, such as the answer of a web API."""
    threads = set()

    class Seen(dict):
        def items(self):
            threads.add(threading.get_ident())
            return super().items()

    @FunctionTool(output_guardrails=[redact(["secret"])])
    async def load() -> ToolResult:
        return ToolResult(value=Seen(rows=[["secret"], [1]] * count))

    result = call(load)

    assert result.value == {"rows": [["[redacted]"], [1]] * count}
    assert (threads.isdisjoint({threading.get_ident()}), bool(threads)) == (elsewhere, True)


def test_a_mapping_of_the_author_is_looked_at():
    """A mapping whose `values()` is a generator is cleaned like any other one."""

    class Pairs(dict):
        def values(self):
            yield from super().values()

    @FunctionTool(output_guardrails=[redact(["secret"])])
    async def load() -> ToolResult:
        return ToolResult(value=Pairs(a="x", b=["secret"]))

    assert call(load).value == {"a": "x", "b": ["[redacted]"]}


def test_a_host_may_call_redact_itself():
    """`redact(...)` is a plain function, also for a large result."""
    cleaned = redact(["secret"])(ToolResult.of(["secret"] * 20_000), Context())

    assert cleaned.value == ["[redacted]"] * 20_000
