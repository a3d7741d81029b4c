"""The built-in guardrails, each with the attack that it stops, and approvals."""

import asyncio
import dataclasses
import functools
import itertools
import json
import re
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from functool import (
    ApprovalRequest,
    Context,
    Decision,
    DefinitionError,
    FileContent,
    FunctionTool,
    GuardrailError,
    ImageContent,
    InputGuardrail,
    OutputGuardrail,
    TextContent,
    ToolCall,
    ToolError,
    ToolResult,
    Toolset,
    Tripwire,
    WrapperTool,
)
from functool.guardrails import block, rate_limit, redact, require_approval, truncate


def echo_tool(value, **options):
    async def echo():
        """Say it."""
        if isinstance(value, Exception):
            raise value
        return value

    return FunctionTool(echo, **options)


def call(tool, arguments="{}", context=None, id="c1"):
    return asyncio.run(tool.invoke(ToolCall(name=tool.name, arguments=arguments, id=id), context))


def test_the_aliases_are_generic():
    """A host can use the aliases on its own message types."""
    assert InputGuardrail[ToolCall] == InputGuardrail[ToolCall]
    assert OutputGuardrail[str] != OutputGuardrail[ToolResult]


# ---- truncate


def test_truncate_keeps_the_limit_and_says_what_is_missing():
    """The marker is inside the limit and says how much is missing."""
    result = call(echo_tool("word " * 100, output_guardrails=[truncate(60)]))

    missing = int(re.search(r"\[(\d+) of 500 truncated\]", result.text).group(1))
    kept = result.text.partition("…")[0]
    assert len(result.text) <= 60
    assert len(kept) == 500 - missing and ("word " * 100).startswith(kept)
    assert result.value == result.text


def test_truncate_leaves_short_results_alone():
    """Within the limit nothing is replaced."""
    result = call(echo_tool("x" * 60, output_guardrails=[truncate(60)]))

    assert (result.text, result.metadata) == ("x" * 60, {})


def test_truncate_counts_as_it_is_told():
    """`count` may be a token counter."""
    words = lambda text: len(text.split())  # noqa: E731
    result = call(
        echo_tool(
            "one two three four five six seven eight nine ten",
            output_guardrails=[truncate(8, count=words)],
        )
    )

    assert words(result.text) <= 8 and result.text.startswith("one two")


@pytest.mark.parametrize(
    "unit",
    [
        *(
            "👩‍👩‍👧‍👦",
            "e\u0301",
            "🇩🇪",
            "👍🏽",
            "\r\n",
            "한",
            "각",
            "\u1100각",
            "\u1100\u1100\u1161\ud7cb",
            "नी",
            "क\u094d\u0937\u093f",
        ),
        *(
            "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
            "น\u0e49\u0e33",
            "ｶ\uff9e",
            "ن\u200c",
        ),
    ],
    ids=ascii,
)
def test_truncate_never_splits_a_grapheme(unit):
    """Emoji sequences, accents, flags (of regions, too), syllables and joined letters are kept whole."""
    for limit in range(40, 60):
        text = call(echo_tool(unit * 60, output_guardrails=[truncate(limit)])).text
        kept = text.partition("…")[0]

        assert len(text) <= limit
        assert kept == unit * (len(kept) // len(unit))


def test_truncate_shortens_errors_and_keeps_images():
    """The error's message is shortened too; other content stays."""
    image = ImageContent(data=b"png")
    failed = call(
        echo_tool(
            ToolResult.failed("m" * 500, output=[TextContent(text="o" * 500)]),
            output_guardrails=[truncate(50)],
        )
    )
    mixed = call(echo_tool(["t" * 500, image], output_guardrails=[truncate(50)]))

    assert len(failed.text) <= 50 and len(failed.error.message) <= 50
    assert mixed.output[1] == image and len(mixed.output[0].text) <= 50


UNITS = [
    *(
        "e\u0301",
        "🇩🇪",
        "🇦🇿",
        "🇿🇦",
        "x",
        "🇿🇦",
        "👍\U0001f3fb",
        "👍\U0001f3ff",
        "\u1100\u1160",
        "\u1100\u1161\u11ff",
    ),
    *("👩\u200d👧", "각", "\U0001f1e9", "y", "\u0301"),
]


@pytest.mark.parametrize("start", range(len(UNITS)))
def test_truncate_keeps_every_grapheme_that_fits(start):
    """Whatever stands beside it, a grapheme that fits together with the marker is kept, and one that does not goes whole."""
    # A mark joins what stands before it, so it is a grapheme only where it stands first.
    units = [
        unit
        for i, unit in enumerate([*UNITS[start:], *UNITS[:start]] * 3)
        if unit != "\u0301" or i == 0
    ]
    text = "".join(units)
    ends = [0, *itertools.accumulate(map(len, units))]
    total = len(text)
    for limit in range(1, total):
        form = next(
            (
                f
                for f in ("… [{} of {} truncated]", "… [{} cut]")
                if len(f.format(total, total)) <= limit
            ),
            "",
        )
        cuts = [text[:end] + form.format(total - end, total) for end in ends[:-1]]

        assert (
            truncate(limit)(ToolResult.of(text), Context()).text
            == [cut for cut in cuts if len(cut) <= limit][-1]
        )


def test_truncate_keeps_a_line_end_whole():
    """Where there is no room for a marker, too, the two characters of a line end stay together."""
    texts = [truncate(limit)(ToolResult.of("\r\n" * 50), Context()).text for limit in range(1, 9)]

    assert texts == ["\r\n" * (limit // 2) for limit in range(1, 9)]
    assert truncate(2)(ToolResult.of("abc"), Context()).text == "ab"


@pytest.mark.parametrize("limit", [11, 12, 20, 23])
def test_a_short_limit_gets_a_short_marker(limit):
    """Where the long marker does not fit, a short one says how much is missing; below that there is the beginning only."""
    text = call(echo_tool("abcdefgh " * 50, output_guardrails=[truncate(limit)])).text
    kept, missing = re.fullmatch(r"(.*)… \[(\d+) cut\]", text).groups()

    assert (
        len(text) <= limit
        and ("abcdefgh " * 50).startswith(kept)
        and len(kept) + int(missing) == 450
    )
    assert call(echo_tool("abcdefgh " * 50, output_guardrails=[truncate(5)])).text == "abcde"


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
        kept = call(echo_tool(text, output_guardrails=[truncate(100)])).text.partition("…")[0]

        assert kept == (text[: 76 - length] if length < 64 else text[:76])


@given(st.text(max_size=300), st.integers(1, 200))
def test_truncate_law(text, limit):
    """Law: never longer than the limit, and otherwise a beginning of the text plus the marker."""
    result = truncate(limit)(ToolResult.of(text), Context())
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
    result = call(
        echo_tool(
            ToolResult.failed("short", output=[TextContent(text="o" * 500)]),
            output_guardrails=[truncate(limit)],
        )
    )

    assert result.text == text
    assert (
        len(
            truncate(100)(
                ToolResult.failed("short", output=[TextContent(text="o" * 500)]), Context()
            ).text
        )
        == 100
    )


def test_truncate_makes_one_text_of_several():
    """Several texts are cut as the one that a model reads, and what is no text stands behind it."""
    image = ImageContent(data=b"png")
    result = ToolResult(output=[TextContent(text="a" * 10), image, TextContent(text="b" * 90)])

    assert truncate(40)(result, Context()).output == [
        TextContent(text="a" * 10 + "\n… [90 of 101 truncated]"),
        image,
    ]


# ---- redact


def test_redact_cleans_text_value_and_errors():
    """What matches is gone from the text, the value and the error."""
    tool = echo_tool({"key": "sk-12345", "n": 1}, output_guardrails=[redact([r"sk-\w+"])])
    failed = echo_tool(ValueError("bad key sk-12345"), output_guardrails=[redact([r"sk-\w+"])])
    details = echo_tool(
        ToolResult.failed("x", details={"k": ["sk-1"], "sk-2": 3}),
        output_guardrails=[redact([r"sk-\w+"])],
    )

    assert json.loads(call(tool).text) == {"key": "[redacted]", "n": 1}
    assert "12345" not in str(call(tool).value)
    assert call(failed).text == "ValueError: bad key [redacted]"
    assert call(details).error.details == {"k": ["[redacted]"], "[redacted]": 3}


@pytest.mark.parametrize("error", [ValueError, ToolError])
def test_redact_takes_half_a_secret_at_the_end_of_the_longest_error_message(error):
    """An error message has 4,000 characters at most, and what was cut there in two is not shown by half."""
    tool = echo_tool(
        error("x " * 1980 + "secret-token " * 9), output_guardrails=[redact(["secret-token"])]
    )
    text = call(tool).text

    assert text.endswith(" [redacted] [redacted] [redacted]") and "se" not in text
    assert call(
        echo_tool(error("one secret two"), output_guardrails=[redact(["secret"])])
    ).text.endswith("one [redacted] two")


def test_redact_cleans_numbers_in_details():
    """A number that matches goes, wherever it stands in the details; None, and what does not match, stays what it is."""
    redacted = redact([r"4111\d{12}", "null"])
    card = 4111111111111111
    failed = ToolResult.failed(
        "x", details={"card": card, "all": (card, {card}), card: 1.5, "none": None, "yes": True}
    )

    assert redacted(failed, Context()).error.details == {
        "card": "[redacted]",
        "all": ["[redacted]", "[[redacted]]"],
        "[redacted]": 1.5,
        "none": None,
        "yes": True,
    }
    assert redacted(ToolResult.failed("x"), Context()) is None


@pytest.mark.parametrize(
    "secret", ["pässwört", 'with "quotes"', "back\\slash", "new\nline", "emoji 🙂", "tab\tbed"]
)
@pytest.mark.parametrize("levels", [0, 1, 2, 3])
def test_redact_sees_through_escapes(secret, levels):
    """The escaped spelling of a secret, in JSON and in JSON inside JSON, is found."""
    text = secret
    for _ in range(levels):
        text = json.dumps({"inner": text})
    cleaned = call(
        echo_tool(f"log: {text} end", output_guardrails=[redact([re.escape(secret)])])
    ).text

    assert "[redacted]" in cleaned
    for _ in range(levels + 1):
        assert secret not in cleaned
        cleaned = (
            cleaned.encode().decode("unicode_escape", "replace")
            if "\\u" in cleaned
            else cleaned.replace("\\\\", "\\").replace('\\"', '"')
        )


def test_redact_before_truncate_leaves_no_half_secret():
    """In this order no part of a secret survives the cut, wherever it falls."""
    secret = "sk-" + "A" * 40
    for start in range(0, 120, 7):
        text = call(
            echo_tool(
                "x" * start + " " + secret + " y" * 200,
                output_guardrails=[redact([r"sk-A{40}"]), truncate(100)],
            )
        ).text
        assert "sk-A" not in text


def test_truncate_before_redact_drops_a_cut_word():
    """In the other order, too, a cut falls between words: half a secret does not escape the pattern."""
    secret = "sk-" + "A" * 40
    for start in range(0, 90, 3):
        text = call(
            echo_tool(
                "x " * start + secret + " y" * 200,
                output_guardrails=[truncate(100), redact([r"sk-A{40}"])],
            )
        ).text
        assert "sk-A" not in text


@pytest.mark.parametrize("before", ["", "=", "/", '"', "key:"])
def test_truncate_before_redact_leaves_no_half_secret(before):
    """A word that was cut because no break was near goes as a whole: it may be half of a secret."""
    secret = "sk-" + "A" * 40
    for start in range(120):
        cut = truncate(100)(ToolResult.of("x" * start + before + secret + "y" * 200), Context())
        text = redact([r"sk-A{40}"])(cut, Context()).text

        assert "sk-" not in text and "truncated]" in text
    failed = call(
        echo_tool(
            ValueError("x" * 50 + secret + "y" * 200),
            output_guardrails=[truncate(100), redact([r"sk-A{40}"])],
        )
    )
    assert failed.text == "ValueError: [redacted]… [229 of 305 truncated]"


def test_redact_keeps_the_words_that_truncate_did_not_cut():
    """Behind a cut between words nothing but the matches is redacted, and a text that only looks cut in its middle is not."""
    text = call(
        echo_tool("word, " * 100, output_guardrails=[truncate(60), redact(["secret"])])
    ).text

    assert "[redacted]" not in text and text.startswith("word, word, word,")
    assert redact(["secret"])(ToolResult.of("one… [3 of 4 truncated] more"), Context()) is None


def test_overlapping_matches_are_redacted_whole():
    """Matches that overlap leave nothing of either."""
    assert (
        call(echo_tool("abcdef", output_guardrails=[redact(["abcd", "cdef"])])).text == "[redacted]"
    )


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


# ---- block


def run_command(**options):
    ran = []

    def shell(command: str, note: str = "", extra: dict[str, list[str]] | None = None):
        """Run a command."""
        ran.append(command)
        return "ran"

    return FunctionTool(shell, **options), ran


def test_block_looks_at_decoded_arguments():
    """An escaped spelling in the JSON does not get past."""
    tool, ran = run_command(input_guardrails=[block([r"rm\s+-rf"], argument="command")])

    assert call(tool, '{"command": "r\\u006d -rf /"}').error.type == "GuardrailError"
    assert call(tool, {"command": "ls", "note": "rm -rf"}).text == "ran"
    assert ran == ["ls"]


def test_block_without_argument_looks_everywhere():
    """Keys and values at every depth are looked at."""
    tool, ran = run_command(input_guardrails=[block(["secret"])])

    for arguments in (
        {"command": "secret"},
        {"command": "x", "extra": {"k": ["a", "secret"]}},
        {"command": "x", "extra": {"secret": []}},
    ):
        assert call(tool, arguments).is_error
    assert ran == []


def test_block_reads_what_is_no_text_as_json_spells_it():
    """true and false are found by their names in JSON, numbers by their digits; null has no text."""
    guard = block(["^(?:true|666|null|None)$"])
    for arguments in ({"a": True}, {"a": [666]}):
        with pytest.raises(GuardrailError):
            guard(ToolCall(name="t", arguments=arguments), Context())

    assert guard(ToolCall(name="t", arguments={"a": [None, False, 66.6]}), Context()) is None


def test_block_with_a_wrong_argument_name_fails_closed():
    """A misspelt argument name in the guardrail refuses every call: it never lets through what it cannot see."""
    tool, ran = run_command(input_guardrails=[block(["rm"], argument="comand")])

    assert call(tool, {"command": "ls"}).is_error and ran == []


def test_block_with_the_name_that_a_model_sends_fails_closed():
    """An argument goes by its parameter's name; by its alias nothing could be seen of it, so every call is refused."""
    ran = []

    def shell(cmd: Annotated[str, Field(alias="command")], note: str = "") -> str:
        ran.append(cmd)
        return "ran"

    by_alias, by_name = (
        FunctionTool(shell, input_guardrails=[block(["rm"], argument=name)])
        for name in ("command", "cmd")
    )

    assert [call(by_alias, {"command": command}).is_error for command in ("rm", "ls")] == [
        True,
        True,
    ]
    assert [call(by_name, {"command": command}).is_error for command in ("rm", "ls")] == [
        True,
        False,
    ]
    assert ran == ["ls"]


def test_block_lets_an_argument_be_left_out():
    """What the call does not hold cannot match."""

    def shell(command: Annotated[str, Field(default_factory=lambda: "ls")], note: str = "") -> str:
        return command

    tool = FunctionTool(shell, input_guardrails=[block(["rm"], argument="command")])

    assert call(tool, {"note": "rm"}).text == "ls"


def test_a_block_refusal_does_not_repeat_the_argument():
    """The refusal names the argument, not its value."""
    tool, _ = run_command(input_guardrails=[block(["tok"], argument="command")])

    assert "tok-123" not in call(tool, {"command": "tok-123"}).text


# ---- rate_limit


def test_rate_limit_counts_per_tool_and_context(monkeypatch):
    """So many calls per time, by a clock that nobody sets; other tools and other contexts have their own."""
    clock = [1000.0]
    monkeypatch.setattr("functool.guardrails.calls.time.monotonic", lambda: clock[0])
    monkeypatch.setattr("functool.guardrails.calls.time.time", lambda: 0.0)
    limit = rate_limit(2, 10)
    one, two = (
        echo_tool(1, name="one", input_guardrails=[limit]),
        echo_tool(2, name="two", input_guardrails=[limit]),
    )
    context, other = Context(), Context()

    assert [call(one, context=context).success for _ in range(3)] == [True, True, False]
    assert call(two, context=context).success
    assert call(one, context=other).success
    clock[0] += 10
    assert [call(one, context=context).success for _ in range(3)] == [True, True, False]
    assert "2 in 10 seconds" in call(one, context=context).text


def test_rate_limit_holds_under_parallel_calls():
    """A hundred calls at once: two run."""
    tool, context = echo_tool(1, input_guardrails=[rate_limit(2, 60)]), Context()
    results = asyncio.run(
        Toolset([tool]).call_all([ToolCall(name="echo", id=str(i)) for i in range(100)], context)
    )

    assert sum(result.success for result in results) == 2


@pytest.mark.parametrize(
    ("calls", "seconds"),
    [
        (0, 1),
        (True, 1),
        ("1", 1),
        (1, 0),
        (1, -1),
        (1.5, 1),
        (1, float("nan")),
        (1, "5"),
        (1, None),
        (1, True),
    ],
)
def test_rate_limit_refuses_nonsense(calls, seconds):
    """Bad numbers are refused at definition."""
    with pytest.raises(DefinitionError):
        rate_limit(calls, seconds)


# ---- approval


def guarded(when=None, name="pay"):
    ran = []

    async def pay(amount: int, to: str = "bob"):
        """Pay."""
        ran.append((amount, to))
        return "paid"

    return FunctionTool(pay, name=name, input_guardrails=[require_approval(when)]), ran


def asked(tool, arguments, context=None, id="c1"):
    return call(tool, arguments, context, id).metadata["approval"]


def test_without_an_approver_the_result_carries_the_request():
    """The error's type is `ApprovalRequired`, and the request says what is asked, in JSON too."""
    tool, ran = guarded()
    result = call(tool, {"amount": 5})
    request = result.metadata["approval"]

    assert result.error.type == "ApprovalRequired" and ran == []
    assert (request.tool, request.arguments, request.call_id) == (
        "pay",
        {"amount": 5, "to": "bob"},
        "c1",
    )
    assert ApprovalRequest.from_json(request.to_json()) == request
    assert set(json.loads(request.to_json())) == {
        "id",
        "tool",
        "definition",
        "arguments",
        "call_id",
        "digest",
        "created",
    }


def test_an_approved_call_runs_once():
    """After `approve` the same call runs once; a replay asks again."""
    tool, ran = guarded()
    context = Context()
    context.approve(ApprovalRequest.from_json(asked(tool, {"amount": 5}, context).to_json()))

    assert call(tool, '{"amount": 5, "to": "bob"}', context).value == "paid"
    assert call(tool, {"amount": 5}, context).error.type == "ApprovalRequired"
    assert ran == [(5, "bob")]


def test_one_approval_is_enough_for_all_who_ask():
    """Guardrails of one call, a wrapper's too, share a decision; the next call asks again."""
    tool, ran = guarded()
    tool.add_input_guardrails([require_approval()])
    outer = WrapperTool(tool, input_guardrails=[require_approval()])
    context = Context()
    context.approve(asked(outer, {"amount": 5}, context))

    assert call(outer, {"amount": 5}, context).value == "paid"
    assert call(outer, {"amount": 5}, context).error.type == "ApprovalRequired"
    assert ran == [(5, "bob")]


@pytest.mark.parametrize(
    ("arguments", "id"),
    [({"amount": 6}, "c1"), ({"amount": 5, "to": "eve"}, "c1"), ({"amount": 5}, "c2")],
)
def test_another_call_is_another_request(arguments, id):
    """Edited arguments or another call id run nothing."""
    tool, ran = guarded()
    context = Context()
    context.approve(asked(tool, {"amount": 5}, context))

    assert call(tool, arguments, context, id).error.type == "ApprovalRequired"
    assert ran == []


def test_a_changed_definition_is_another_request():
    """A tool that claims to be something else runs nothing on the old grant."""
    tool, ran = guarded()
    context = Context()
    context.approve(asked(tool, {"amount": 5}, context))
    changed = FunctionTool(
        tool.func, name="pay", description="Pay twice.", input_guardrails=[require_approval()]
    )

    assert call(changed, {"amount": 5}, context).error.type == "ApprovalRequired"
    assert ran == []


@pytest.mark.parametrize(
    "change",
    [
        {"arguments": {"amount": 500, "to": "bob"}},
        {"call_id": "c9"},
        {"definition": "0" * 64},
        {"digest": "0" * 64},
        {"tool": "look"},
    ],
)
def test_a_request_that_does_not_match_itself_is_refused(change):
    """`approve` recomputes the digest."""
    tool, ran = guarded()
    context = Context()
    request = dataclasses.replace(asked(tool, {"amount": 5}, context), **change)

    with pytest.raises(ValueError, match="digest"):
        context.approve(request)
    with pytest.raises(ValueError, match="digest"):
        context.deny(request)
    assert call(tool, {"amount": 500}, context).is_error and ran == []


FIELDS = dict.fromkeys(["id", "tool", "definition", "call_id", "digest", "created"], "x") | {
    "arguments": {}
}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"id": 1}',
        "null",
        json.dumps({**FIELDS, "arguments": []}),
        json.dumps({**FIELDS, "id": 1}),
    ],
)
def test_a_broken_request_is_a_value_error(text):
    """`from_json` says what it wants."""
    with pytest.raises(ValueError):
        ApprovalRequest.from_json(text)


def test_grants_expire(monkeypatch):
    """A grant counts for `expires_in` seconds, on a clock that nobody sets."""
    clock = [50.0]
    monkeypatch.setattr("functool.context.time.monotonic", lambda: clock[0])
    tool, ran = guarded()
    context = Context()
    context.approve(asked(tool, {"amount": 5}, context), expires_in=10)
    clock[0] += 10.1

    assert call(tool, {"amount": 5}, context).error.type == "ApprovalRequired" and ran == []
    with pytest.raises(ValueError):
        context.approve(asked(tool, {"amount": 5}, context), expires_in=0)


def test_a_denied_call_is_refused_with_the_reason():
    """The model reads why."""
    tool, ran = guarded()
    context = Context()
    context.deny(asked(tool, {"amount": 5}, context), reason="too much")

    assert "too much" in call(tool, {"amount": 5}, context).text and ran == []


@pytest.mark.parametrize(
    ("answer", "paid"),
    [
        (True, True),
        (False, False),
        (Decision(approved=True), True),
        (Decision(approved=False, reason="no"), False),
        (Decision(approved="no"), False),
        (None, False),
        ("yes", False),
        (1, False),
    ],
    ids=str,
)
@pytest.mark.parametrize("is_async", [False, True])
def test_the_approver_decides(answer, paid, is_async):
    """A bool or a Decision, sync or async; anything else fails closed."""
    requests = []

    async def aask(request):
        requests.append(request)
        return answer

    def ask(request):
        requests.append(request)
        return answer

    tool, ran = guarded()
    result = call(tool, {"amount": 5}, Context(approver=aask if is_async else ask))

    assert (result.success, bool(ran)) == (paid, paid)
    assert requests[0].arguments == {"amount": 5, "to": "bob"}


def test_an_approver_that_crashes_fails_closed():
    """An exception of the approver refuses the call."""
    tool, ran = guarded()

    assert call(tool, {"amount": 5}, Context(approver=lambda request: 1 / 0)).is_error and ran == []


def test_when_says_which_calls_need_approval():
    """`when(call, context)`, sync or async, sees canonical arguments."""

    async def big(call, context):
        return call.arguments["amount"] > 10

    for when in (big, lambda call, context: call.arguments["amount"] > 10):
        tool, _ = guarded(when)
        assert call(tool, {"amount": 5}).success
        assert call(tool, {"amount": 50}).error.type == "ApprovalRequired"
    tool, _ = guarded(lambda call, context: context.deps == "guest")
    assert [call(tool, {"amount": 5}, Context(who)).success for who in ("admin", "guest")] == [
        True,
        False,
    ]


def test_twenty_executions_of_one_grant_run_once():
    """A grant is used up before the body starts."""
    tool, ran = guarded()
    context = Context()
    context.approve(asked(tool, {"amount": 5}, context))

    async def main():
        return await asyncio.gather(
            *(
                tool.invoke(ToolCall(name="pay", arguments={"amount": 5}, id="c1"), context)
                for _ in range(20)
            )
        )

    results = asyncio.run(main())

    assert ran == [(5, "bob")]
    assert sum(result.success for result in results) == 1


def test_requires_approval_is_seen_from_outside():
    """`tool.requires_approval` is what integrations read; a wrapper answers for its inner tool."""
    tool, _ = guarded()
    plain = echo_tool(1)

    assert tool.requires_approval and WrapperTool(tool).requires_approval
    assert not plain.requires_approval
    plain.add_input_guardrails([require_approval()])
    assert plain.requires_approval


def test_an_error_function_does_not_lose_the_request():
    """Whatever words an error function finds, the request stays in the metadata."""
    tool, _ = guarded()
    tool.add_on_error_func(lambda error, context: "please wait")
    result = call(tool, {"amount": 5})

    assert result.text == "please wait" and result.metadata["approval"].tool == "pay"


# ---- every verdict at every position, against a small oracle


VERDICTS = ["pass", "replace", "refuse", "crash", "trip", "nonsense"]


def guardrail(verdict, stage, is_async, log):
    def judge(value, context):
        log.append((stage, verdict))
        if verdict == "refuse":
            raise GuardrailError("refused")
        if verdict == "crash":
            raise RuntimeError("crashed")
        if verdict == "trip":
            raise Tripwire("tripped")
        if verdict == "nonsense":
            return 42
        if verdict == "replace":
            if stage == "input":
                return dataclasses.replace(value, arguments={"n": value.arguments["n"] + 1})
            return dataclasses.replace(value, output=[TextContent(text=value.text + "!")])
        return None

    async def ajudge(value, context):
        await asyncio.sleep(0)
        return judge(value, context)

    return ajudge if is_async else judge


def oracle(inputs, outputs):
    """What has to come of it: ("trip",), ("error", body ran), or ("ok", value)."""
    n, ran = 0, False
    refused = False
    for verdict in inputs:
        if verdict == "trip":
            return ("trip",), ran
        if verdict in ("refuse", "crash", "nonsense"):
            refused = True
            break
        n += verdict == "replace"
    if not refused:
        ran = True
    text = "E" if refused else str(n)
    for verdict in outputs:
        if verdict == "trip":
            return ("trip",), ran
        if verdict in ("refuse", "crash", "nonsense"):
            return ("error",), ran
        text += "!" if verdict == "replace" else ""
    return ("error",) if refused else ("ok", text), ran


@pytest.mark.parametrize("inputs", list(itertools.product(VERDICTS, repeat=2)), ids="-".join)
def test_every_verdict_at_every_position(inputs, caplog):
    """Two input and two output guardrails of every verdict, sync and async, do what the oracle says."""
    caplog.set_level(
        "CRITICAL", "functool"
    )  # The tracebacks of thousands of crashes take longer than the rest.

    async def main():
        for outputs, is_async in itertools.product(
            itertools.product(VERDICTS, repeat=2), (False, True)
        ):
            log, ran = [], []

            async def body(n: int):
                ran.append(n)
                return str(n)

            tool = FunctionTool(
                body,
                input_guardrails=[guardrail(v, "input", is_async, log) for v in inputs],
                output_guardrails=[guardrail(v, "output", is_async, log) for v in outputs],
            )
            expected, should_run = oracle(inputs, outputs)
            try:
                result = await tool.invoke(ToolCall(name="body", arguments={"n": 0}))
                actual = ("error",) if result.is_error else ("ok", result.text)
            except Tripwire:
                actual = ("trip",)

            assert (actual, bool(ran)) == (expected, should_run), (inputs, outputs)

    asyncio.run(main())


@pytest.mark.parametrize(
    "value", [{"pin": "7777"}, "pin 7777", ["\u0667", "7777"]], ids=["object", "text", "list"]
)
def test_redact_reads_a_value_that_the_output_does_not_show(value):
    """Integrations make structured output of the value: a secret in it does not get past because the text hides it."""

    @FunctionTool(output_guardrails=[redact(["7{4}"])])
    async def show() -> ToolResult:
        return ToolResult(output=[TextContent(text="fine")], value=value)

    result = asyncio.run(show(ToolCall(name="show")))

    assert "7777" not in repr(result) and result.text == "fine"
    assert "[redacted]" in result.value


def test_redact_reads_names_and_addresses():
    """The address and the name of a file are cleaned, its bytes are left alone."""
    content = FileContent(data=b"7777", uri="https://example.org/?key=7777", name="7777.txt")

    @FunctionTool(output_guardrails=[redact(["7{4}"])])
    async def show() -> FileContent:
        return content

    result = asyncio.run(show(ToolCall(name="show")))

    assert result.output == [
        FileContent(data=b"7777", uri="https://example.org/?key=[redacted]", name="[redacted].txt")
    ]
    assert content.name == "7777.txt"


def test_what_redact_makes_of_a_value():
    """A text stays a text; what matches nothing is the same object, None too; where the output changed, its text is the value."""

    def cleaned(value, shown="fine", pattern="7{4}"):
        result = ToolResult(output=[TextContent(text=shown)], value=value)
        return call(echo_tool(result, output_guardrails=[redact([pattern])])).value

    kept = {"pin": 1}
    assert cleaned("pin 7777") == "pin [redacted]"
    assert cleaned(kept) is kept and cleaned(None, pattern="null") is None
    assert cleaned("other 7777", shown="pin 7777") == "pin [redacted]"
    assert (
        redact(["7{4}"])(ToolResult(output=[TextContent(text="fine")], value=kept), Context())
        is None
    )


def test_redact_passes_over_empty_matches():
    """A pattern that also matches nothing redacts only what it found, and every stretch of it."""
    assert (
        call(echo_tool("abxxcx", output_guardrails=[redact(["x*"])])).text
        == "ab[redacted]c[redacted]"
    )


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
    assert call(echo_tool(text, output_guardrails=[redact(["(?i)secret"])])).text == cleaned


def test_redact_leaves_a_picture_alone():
    """A value that the output shows is not read twice, and never as text."""
    picture = ImageContent(data=b"\xff" * 30)

    @FunctionTool(output_guardrails=[redact(["[/_]{4}"])])
    async def show() -> ImageContent:
        return picture

    assert asyncio.run(show(ToolCall(name="show"))).value is picture


def test_the_name_of_a_partial_is_its_functions():
    """Guardrails made with `functools.partial`, and objects with an async `__call__`, are listed by a name that says something."""

    def refuse(words, value, context):
        raise GuardrailError(words)

    class Keeper:
        async def __call__(self, value, context):
            raise GuardrailError("no")

    for guardrail, name in ((functools.partial(refuse, "no"), "refuse"), (Keeper(), "Keeper")):
        tool = FunctionTool(lambda: 1, name="one", input_guardrails=[guardrail])
        assert asyncio.run(tool(ToolCall(name="one"))).metadata["guardrails"] == [
            {"name": name, "stage": "input", "did": "refused"}
        ]


def test_a_match_inside_of_another_is_redacted_with_it():
    """Only the outer match is replaced."""
    assert (
        call(echo_tool("abcdef!", output_guardrails=[redact(["abcdef", "cd"])])).text
        == "[redacted]!"
    )


def test_block_lets_through_what_matches_nowhere():
    """Every depth is looked at, an absent value included, and the body runs."""
    tool, ran = run_command(input_guardrails=[block(["secret"])])

    assert call(tool, {"command": "x", "extra": {"k": ["a", "b"], "l": []}}).text == "ran"
    assert call(tool, {"command": "y", "extra": None}).text == "ran"
    assert ran == ["x", "y"]


def test_approval_without_a_schema_fails_closed():
    """Outside of a call nobody knows what would be approved."""
    with pytest.raises(TypeError, match="needs the schema"):
        asyncio.run(require_approval()(ToolCall(name="pay"), Context()))


def test_truncate_keeps_a_short_error_message():
    """A message within the limit stays whole beside an output that does not."""
    result = call(
        echo_tool(
            ToolResult.failed("short", output=[TextContent(text="o" * 500)]),
            output_guardrails=[truncate(100)],
        )
    )

    assert (
        result.error.message == "short"
        and result.text.startswith("short")
        and len(result.text) <= 100
    )


def test_truncate_holds_for_a_count_that_does_not_grow_with_the_text():
    """Where a shorter text may count for more, the limit holds all the same."""
    text = "a,\n,\n ,,\n ,a ba\n bb,,\n,,,, ,bb b,bb,\na,,\nbb\nbb\nb,  bb b bb,bbba \n\n\n\n\n,b\n\n\naa"
    result = truncate(67, count=lambda shown: len(shown) + 3 * shown.count("b…"))(
        ToolResult.of(text), Context()
    )

    assert len(result.text) + 3 * result.text.count("b…") <= 67 and text.startswith(
        result.text.partition("…")[0]
    )


def test_what_block_says():
    """The refusal names the argument, or the call; a name that cannot be looked at is said in the log's error."""

    def refusal(value, argument=None):
        tool, _ = run_command(input_guardrails=[block(["rm"], argument=argument)])
        return call(tool, {"command": value}).text

    assert refusal("rm", "command") == "Blocked: the argument 'command' matches a blocked pattern."
    assert refusal("rm") == "Blocked: the call matches a blocked pattern."
    with pytest.raises(LookupError, match="^the tool has no argument 'other' to look at$"):
        block(["rm"], argument="other")(
            ToolCall(name="shell", arguments={"command": "ls"}), Context()
        )


def test_block_outside_of_a_tool():
    """A host may ask it about a call of its own, whose arguments are still text: all of that is looked at."""
    guard = block(["rm"])

    assert guard(ToolCall(name="shell", arguments='{"command": "ls"}'), Context()) is None
    with pytest.raises(GuardrailError, match="Blocked"):
        guard(ToolCall(name="shell", arguments='{"command": "rm"}'), Context())


def test_block_passes_a_call_that_leaves_all_out():
    """A named argument that is known, and was not sent, leaves nothing to look at."""

    def shell(command: Annotated[str, Field(default_factory=lambda: "ls")]) -> str:
        return command

    assert (
        call(FunctionTool(shell, input_guardrails=[block(["rm"], argument="command")])).text == "ls"
    )


def test_each_rate_limit_counts_for_itself(monkeypatch):
    """Two limits on one tool have a window each, the smallest are one call and parts of a second, and the wait is said."""
    clock = [100.0]
    monkeypatch.setattr("functool.guardrails.calls.time.monotonic", lambda: clock[0])
    tool = echo_tool(1, name="one", input_guardrails=[rate_limit(1, 0.5), rate_limit(3, 60)])
    context, told = Context(), []
    for _ in range(4):
        told.append(call(tool, context=context).text)
        told.append(call(tool, context=context).text)
        clock[0] += 0.5

    second = "Too many calls: at most 1 in 0.5 seconds. Try again in 0.5 seconds."
    late = "Too many calls: at most 3 in 60 seconds. Try again in "
    assert told == ["1", second, "1", second, "1", second, f"{late}58.5 seconds.", second]
    with pytest.raises(
        DefinitionError,
        match="^rate_limit needs a positive int and a positive number of seconds, not 0 and 'x'$",
    ):
        rate_limit(0, "x")


def test_a_rate_limit_counts_by_the_tools_own_name():
    """The name on the call may be anything: what counts is the tool; outside of one there is only the call."""
    limit, context = rate_limit(1, 60), Context()
    tool = echo_tool(1, name="one", input_guardrails=[limit])
    results = [asyncio.run(tool.invoke(ToolCall(name=name), context)) for name in ("a", "b")]

    assert [result.success for result in results] == [True, False]
    assert limit(ToolCall(name="a"), context) is None
    with pytest.raises(GuardrailError):
        limit(ToolCall(name="a"), context)


def test_the_definition_is_name_description_and_parameters():
    """A change of any of the three is another definition; the same three are the same one, whatever the call."""

    def pay(amount: int, to: str = "bob") -> str:
        return "paid"

    def pay_more(amount: int, to: str = "bob", tip: int = 0) -> str:
        return "paid"

    def definition(func=pay, **options):
        tool = FunctionTool(
            func,
            **{"name": "pay", "description": "Pay.", **options},
            input_guardrails=[require_approval()],
        )
        return asked(tool, {"amount": 5}).definition

    assert definition() == definition() and re.fullmatch("[0-9a-f]{64}", definition())
    assert (
        len(
            {
                definition(),
                definition(name="refund"),
                definition(description="Pay twice."),
                definition(pay_more),
            }
        )
        == 4
    )


def test_what_approval_says(caplog):
    """The model reads that a person is needed, or that one refused, and why if there is a reason; the log tells of an approver's mistake."""
    tool, _ = guarded()

    def said(answer):
        return call(tool, {"amount": 5}, Context(approver=lambda request: answer)).text

    assert call(tool, {"amount": 5}).text == "The call of pay needs a person's approval first."
    assert (said(False), said(Decision(approved=False, reason="no"))) == (
        "A person refused this call.",
        "A person refused this call: no",
    )
    said("yes")
    assert (
        str(caplog.records[0].exc_info[1]) == "the approver returned str, expected bool or Decision"
    )


def test_a_refusal_says_who_refused_where(caplog):
    """Error functions read the stage and the guardrail, the author's own words for them first; the log names one that failed."""
    seen = []

    def plain(value, context):
        raise GuardrailError("no")

    def own(value, context):
        raise GuardrailError("no", stage="billing", guardrail="budget")

    def broken(value, context):
        raise RuntimeError("boom")

    note = lambda error, context: seen.append((error.stage, error.guardrail))  # noqa: E731
    for guardrail in (plain, own, broken):
        for stage in ("input", "output"):
            answer = call(echo_tool(1, on_error_func=note, **{f"{stage}_guardrails": [guardrail]}))
            assert answer.text == (
                f"The guardrail broken failed, so the {stage} was refused."
                if guardrail is broken
                else "no"
            )

    assert seen == [
        ("input", "plain"),
        ("output", "plain"),
        *[("billing", "budget")] * 2,
        ("input", "broken"),
        ("output", "broken"),
    ]
    assert ["guardrail broken" in message for message in caplog.messages] == [True, True]
    assert [str(record.exc_info[1]) for record in caplog.records] == ["boom", "boom"]


class Both(list):
    """A list that can be called."""

    def __call__(self, value, context):
        return None


@pytest.mark.parametrize(
    ("given", "kind"),
    [("", "str"), (Both(), "Both"), (print, "builtin_function_or_method"), (5, "int")],
    ids=["text", "both", "function", "number"],
)
def test_one_guardrail_is_no_list_of_them(given, kind):
    """What can be called is never taken for a list, even if it could be read as one, nor is a text, even an empty one."""
    with pytest.raises(
        DefinitionError, match=f" input_guardrails must be a list of callables, not {kind}$"
    ):
        echo_tool(1, input_guardrails=given)


def test_a_replacement_is_listed_and_its_value_kept_in_step(caplog):
    """Where there was nothing the value becomes the text that a guardrail wrote, too; an error without a value gets none."""

    def write(result, context):
        return dataclasses.replace(result, output=[TextContent(text="written")])

    nothing, failed = (
        call(echo_tool(value, output_guardrails=[write])) for value in (None, ToolError("x"))
    )

    assert (nothing.text, nothing.value) == ("written", "written")
    assert (failed.text, failed.value) == ("x\nwritten", None)
    assert (
        nothing.metadata
        == failed.metadata
        == {"guardrails": [{"name": "write", "stage": "output", "did": "replaced"}]}
    )
    call(echo_tool(1, input_guardrails=[lambda value, context: 42]))
    assert (
        str(caplog.records[0].exc_info[1])
        == "the guardrail returned int, expected ToolCall or None"
    )
