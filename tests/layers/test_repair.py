"""`repaired`: mends the text of arguments, with an audit."""

import ast
import asyncio
import json
import random
import re
import threading
import warnings
from collections import Counter

import pytest

from functool import (
    Context,
    FunctionTool,
    SchemaTool,
    Toolset,
    ToolSettings,
    WrapperTool,
)
from functool.dialects import anthropic, bedrock, openai_chat
from functool.guardrails import block, require_approval
from tests import bfcl
from tests.schemas import BOOL, INT, NULL, NUM, STR, any_of, array, obj, ref
from tests.support import call, foreign, heard, python

repair = pytest.importorskip("functool.layers.repair", exc_type=ImportError)
repaired = repair.repaired


def fence(arguments, rng):
    language = rng.choice(["json", "", "python", "JSON "])
    return f"```{language}\n{json.dumps(arguments, indent=rng.choice([None, 2]))}\n```"


def single_quotes(arguments, rng):
    return json.dumps(arguments, ensure_ascii=False).replace('"', "'")


def trailing_comma(arguments, rng):
    text = json.dumps(arguments)
    ends = [match.start() for match in re.finditer(r"[}\]]", text)]
    at = rng.choice(ends)
    return f"{text[:at]},{text[at:]}"


def python_literals(arguments, rng):
    return repr(arguments)


def unfinished(arguments, rng):
    text = json.dumps(arguments)
    return text[: -rng.randint(1, len(text) - len(text.rstrip("}")))]


def doubled(arguments, rng):
    return json.dumps(json.dumps(arguments))


def doubled_in_a_fence(arguments, rng):
    return f"```json\n{json.dumps(json.dumps(arguments))}\n```"


def lone_value(arguments, rng):
    alone = [n for n, v in arguments.items() if isinstance(v, list) and len(v) == 1]
    name = rng.choice(alone) if alone else None
    return json.dumps({n: v[0] if n == name else v for n, v in arguments.items()})


def cut(arguments, rng):
    text = json.dumps(arguments)
    return text[: rng.randint(1, len(text) - 1)]


NAMED = [fence, single_quotes, trailing_comma, python_literals, unfinished, doubled,
         doubled_in_a_fence, lone_value]  # fmt: skip


def corpus():
    """The tools and calls of BFCL: the arguments that the tool takes, in canonical form."""
    made = {}
    for f in bfcl.lines("functions"):
        made[f["uid"]] = foreign(f["parameters"])
    for entry in bfcl.lines("calls_valid"):
        yield made[entry["function"]], entry["arguments"]


def takes(tool, text):
    """Return the canonical arguments that a tool reads in a text, or None."""
    try:
        return tool.bind(text).arguments
    except repair.ArgumentError:
        return None


def test_the_rates(capsys):
    """Of real calls that are broken in eight ways at least nine in ten are mended, at most one in a thousand wrongly; cut ones are not completed."""
    rng = random.Random(15)
    counts = {broken.__name__: Counter() for broken in [*NAMED, cut]}
    for tool, arguments in corpus():
        mending = repaired(tool)
        meant = takes(tool, json.dumps(arguments))
        for broken in [*NAMED, cut]:
            text = broken(arguments, rng)
            if takes(tool, text) is not None:
                continue  # It takes it as it stands.
            found = takes(mending, text)
            outcome = "refused" if found is None else "mended" if found == meant else "wrong"
            counts[broken.__name__][outcome] += 1
    with capsys.disabled():
        print()
        for name, count in counts.items():
            all_ = max(1, count.total())
            print(f"{name:<20} {count.total():>5} broken, mended {count['mended'] / all_:.3f}, wrong {count['wrong'] / all_:.4f}")  # fmt: skip
    named = sum((counts[broken.__name__] for broken in NAMED), Counter())
    everything = named + counts["cut"]

    assert named["mended"] / named.total() >= 0.9
    assert named["wrong"] / named.total() <= 0.001
    assert everything["wrong"] / everything.total() <= 0.001


@FunctionTool
def book(city: str, nights: int = 1, tags: list[str] | None = None, paid: bool = False) -> dict:
    """Book a room."""
    return {"city": city, "nights": nights, "tags": tags, "paid": paid}


def run(text, tool=book, context=None, **options):
    return call(repaired(tool), text, context, id="7", **options)


@pytest.mark.parametrize(
    ("text", "did", "value"),
    [
        ('```json\n{"city": "Bern"}\n```', ["code fence"], {"city": "Bern"}),
        ("{'city': 'Bern', 'paid': True}", ["Python literals"], {"city": "Bern", "paid": True}),
        ('{"city": "Bern", "paid": True}', ["Python literals"], {"city": "Bern", "paid": True}),
        ('{"city": "Bern",}', ["Python literals"], {"city": "Bern"}),
        ('"{\\"city\\": \\"Bern\\"}"', ["doubled encoding"], {"city": "Bern"}),
        ('{"city": "Bern", "tags": "new"}', ["a lone value for a list"], {"city": "Bern", "tags": ["new"]}),
        ('{"city": "Bern", "paid": True, "tags": null}', ["broken JSON"], {"city": "Bern", "paid": True}),
        ("{'city': 'Bern', 'tags': 'new'}", ["Python literals", "a lone value for a list"],
         {"city": "Bern", "tags": ["new"]}),
        ('{"city": "Bern", "nights": 2, "tags": [], "paid": true', ["broken JSON"],
         {"city": "Bern", "nights": 2, "tags": [], "paid": True}),
    ],
)  # fmt: skip
def test_what_is_mended_is_told(text, did, value):
    """The call and its result say what was done, what was sent and what it became; an event says the same."""
    context, log = heard()
    result = run(text, context=context)
    note = result.metadata["repaired"]

    assert result.value == {"nights": 1, "tags": None, "paid": False} | value
    assert (note["did"], note["sent"]) == (did, text)
    assert json.loads(note["became"]).items() >= value.items()
    assert result.call_id == "7"
    [event] = log.events
    assert (event.kind, event.tool_name, event.call_id) == ("tool:repaired", "book", "7")
    assert event.data == note


def test_a_valid_call_is_never_touched():
    """Every real call reaches its tool as it was sent, without a note."""
    for tool, arguments in list(corpus())[::20]:
        text = json.dumps(arguments)
        seen = []
        looking = WrapperTool(tool)
        looking.add_input_guardrails([lambda call, context: seen.append(call.metadata)])
        result = run(text, looking)
        assert result.value == takes(tool, text)
        assert "repaired" not in result.metadata
        assert seen == [{}]


@pytest.mark.parametrize(
    "text",
    [
        '{"city": "Ber',  # a text that breaks off
        '{"city": "Bern", "nights": 1',  # a number that may have had more digits
        '{"city": "Bern", "paid": tru',  # a word that breaks off
        '{"city": "Bern", "tags": ["a", "b"',  # a list that may have had more items
        '{"city": "Bern"',  # arguments that may have come
        '{"city": "Bern", "nights": 1, "tags": [], "paid":',  # a value that never came
        '{"city": , "nights": 2}',  # a required value that nobody sent
        '{"nights": 2}',
        '{"city": "Bern", "city": "Basel"}',  # which of the two?
        '{"city": "Bern", "nights": 2} and some words',
        'Sure! {"city": "Bern"}',
        "{'city': 'it' 's'}",  # Python would join them
        '{"city": "Bern", "night": 2}',
        '{"city": 3}',
        '{"city": "Bern", "nights": NaN}',
        '{"city": "Bern", "nights": 2]',
        '{"city": "Bern", "nights": 2}}}{',
        '{"city" "\\"", "paid": true}',  # a text of a quote, which json-repair drops
        '{"city": "Bern", "tags": [a "\\""], "paid": true}',
        "[]", "null", "3", '"Bern"', "Bern", "{" * 10_000, '"' * 3, "\x00", "\ud800{",
        "'''" + "x" * 100, "{'city': " + "(" * 300 + ")" * 300 + "}", "{1: 2}",
    ],
)  # fmt: skip
def test_what_would_be_a_guess_stays_refused(text):
    """Nothing is completed, invented, dropped or chosen: the tool's own refusal is the answer."""
    result = run(text)
    own = call(book, text)

    assert result.error.type == "ArgumentError"
    assert result.text == own.text
    assert "repaired" not in result.metadata


def test_escapes_and_signs_are_kept():
    """Escaped letters, minus signs and exponents of what was sent are in what it became."""
    tool = foreign(obj({"a": STR, "n": NUM}))
    value = run("{'a': 'caf\\u00e9\\n-x-', 'n': -2.50,}", tool).value

    assert value == {"a": "café\n-x-", "n": -2.5}


def test_an_escape_that_python_does_not_know_changes_no_warnings(monkeypatch):
    """Its backslash stays. Python warns of it, but what a thread ignores the whole process would ignore."""
    seen, evaluate, before = [], ast.literal_eval, [*warnings.filters]

    def watched(text):
        seen.append([*warnings.filters])
        return evaluate(text)

    monkeypatch.setattr("ast.literal_eval", watched)
    value = run(r"{'a': '\d\\d \'', 'n': 1}", foreign(obj({"a": STR, "n": NUM}))).value

    assert value == {"a": r"\d\d '", "n": 1}
    assert seen == [before]


def test_escaped_quotes_are_kept():
    """A quote inside of a text stays where something else is mended."""
    assert run('{"city": "say \\"hi\\"", "paid": True, "tags": null}').value["city"] == 'say "hi"'


def test_long_texts_are_left_alone():
    """A text that is too long to mend is refused as it stands."""
    text = "{'city': '" + "x" * repair.MAX_TEXT + "'}"

    assert run(text).error.type == "ArgumentError"


@pytest.mark.parametrize("mark", [" ", "\n", "\t"])
def test_a_fence_is_found_in_linear_time(mark):
    """White space after a fence is read once: a search that tries every end of it would take hours."""
    assert run("```json\n{" + mark * 40_000 + "x").error.type == "ArgumentError"


@pytest.mark.parametrize(
    "unit", ["{'", "(", "[", "{", '{"', '{"a" ', "'a'b", "{'a':{'", "\"'", "{a:"]
)
def test_the_guessing_reads_each_character_a_few_times(unit, monkeypatch):
    """A text that json-repair would read to the end at every quote or bracket is left alone."""
    texts = []

    def guess(text, **options):
        texts.append(text)
        return repair_json(text, **options)

    repair_json = repair.repair_json
    monkeypatch.setattr(repair, "repair_json", guess)
    text = unit * (repair.MAX_TEXT // len(unit))
    repair._guess(text, "")

    assert run(text).error.type == "ArgumentError"
    assert [text.reads <= 8 * len(text) for text in texts] == [True] * len(texts) != []


@pytest.mark.parametrize(("old", "new"), [("}}", ",}}"), ('", "n"', '" "n"'), ('"name"', "name")])
def test_long_arguments_are_mended(old, new):
    """The limit on the work leaves room for arguments of nearly the full length."""
    records = [{"name": f"item {i}", "text": "some words: yes", "n": i} for i in range(700)]
    text = json.dumps({"records": dict(zip(map(str, range(700)), records, strict=True))})
    tool = SchemaTool(
        "keep", "", {"properties": {"records": {}}}, lambda given: len(given["records"])
    )

    assert len(text) > 45_000
    assert run(text[::-1].replace(old[::-1], new[::-1], 1)[::-1], tool).value == 700


def test_arguments_are_mended_beside_the_event_loop(monkeypatch):
    """To mend long arguments takes half a second, so it is done in a thread."""
    threads, read = [], repair.repair_json

    def watched(*args, **options):
        threads.append(threading.current_thread())
        return read(*args, **options)

    monkeypatch.setattr(repair, "repair_json", watched)

    assert call(repaired(FunctionTool(lambda a: a, name="same")), '{"a": 1,}').value == 1
    assert threads and threading.main_thread() not in threads


def test_a_schema_that_leads_back_to_itself_mends_nothing():
    """Arguments that could be mended for ever are refused as they stand."""
    loop = {"anyOf": [{"$ref": "#/$defs/loop"}]}
    schema = {"properties": {"a": {"$ref": "#/$defs/loop"}}, "$defs": {"loop": loop}}
    tool = SchemaTool("loop", "", schema, lambda given: given)

    assert run("{'a': 1}", tool).error.type == "ArgumentError"


def test_a_guardrail_sees_and_refuses_the_mended_call():
    """A refusal by a guardrail stands, and a person is asked about the mended arguments."""
    guarded = WrapperTool(book, input_guardrails=[block(["Bern"], argument="city")])
    inner = FunctionTool(book.func, input_guardrails=[block(["Bern"], argument="city")])
    asked = []
    approved = FunctionTool(book.func, input_guardrails=[require_approval()])
    approver = Context(approver=lambda request: asked.append(dict(request.arguments)) or False)

    assert run("{'city': 'Bern'}", inner).error.type == "GuardrailError"
    assert run('{"city": "Bern"}', guarded).error.type == "GuardrailError"
    assert run("{'city': 'Bern'}", approved, approver).is_error
    assert asked[0]["city"] == "Bern"


def test_labels_and_metadata_are_kept():
    """What a host says of a call stays beside the note."""
    result = run("{'city': 'Bern'}", metadata={"sources": {"/city": ["mail"]}})

    assert result.metadata["sources"] == ["mail"]
    assert result.metadata["repaired"]["did"] == ["Python literals"]


def test_nested_lists_and_references():
    """A lone value is mended at every depth, through references and unions with null."""
    parts = {
        "rows": array(ref("row")),
        "any": any_of(array(INT), NULL),
        "either": any_of({"type": "array"}, BOOL),
    }
    tool = foreign(obj(parts, **{"$defs": {"row": obj({"ids": {"type": "array"}})}}))

    assert run({"rows": [{"ids": 1}]}, tool).is_error  # A mapping is code's, not a model's.
    assert run('{"rows": {"ids": 1}, "any": 2}', tool).value == {"rows": [{"ids": [1]}], "any": [2]}
    assert run('{"rows": null}', tool).success
    assert run('{"any": null, "rows": 1}', tool).is_error
    assert run('{"either": 1}', tool).is_error


def test_binding_mends_too():
    """A bridge that asks a tool to bind gets the mended arguments, or the tool's own error."""
    tool = repaired(book)

    assert tool.bind("{'city': 'Bern'}").arguments["city"] == "Bern"
    with pytest.raises(repair.ArgumentError):
        tool.bind('{"city": "Ber')


def test_the_kind_that_came_in():
    """A toolset gives a toolset, an iterable a list, and the structured value and labels of a result stay."""
    tools = repaired(Toolset([book], max_concurrency=3))

    assert (type(tools), tools.max_concurrency, list(tools)) == (Toolset, 3, ["book"])
    assert type(repaired([book])) is list
    assert repaired(book).schema == book.schema


def test_a_missing_extra_says_what_to_install():
    """Without json-repair the import names the extra."""
    code = "import sys; sys.modules['json_repair'] = None; import functool.layers.repair"
    done = python(code)

    assert "pip install 'functool[repair]'" in done.stderr


def test_a_stream_is_not_judged_before_it_can_be_repaired():
    """What a repair may mend is never refused while it is written."""

    @FunctionTool
    def listed(numbers: list[int]) -> int:
        return sum(numbers)

    watch, text = repaired(listed).watch(), "{'numbers': 3,}"

    assert [watch.feed(letter) for letter in text] == [None] * len(text)
    assert call(repaired(listed), text).value == 3


@pytest.mark.parametrize(
    "text",
    [
        '```json\n{"city": "Bern"}\n```',
        "{'city': 'Bern'}",
        """{'city': 'a } and a " in it'}""",
        '"{\\"city\\": \\"Bern\\"}"',
        '{"city": "Bern"} ',
        "",
    ],
)
@pytest.mark.parametrize("read_only", [False, True])
def test_a_streamed_call_is_repaired_as_a_whole_one_is(text, read_only):
    """A reader does not take the first closed object of broken text for all of the arguments."""
    ran = []

    @FunctionTool(settings=ToolSettings(read_only=read_only))
    def visit(city: str = "Rome") -> str:
        ran.append(city)
        return city

    def chunk(reason=None, **entry):
        delta = {"tool_calls": [{"index": 0, **entry}]} if entry else {}
        return {"id": "k", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    for pieces in ([text], list(text)):
        reader = openai_chat.StreamReader(repaired(Toolset([visit])))
        first = chunk(id="c1", function={"name": "visit", "arguments": ""})
        others = [chunk(function={"arguments": piece}) for piece in pieces]
        [result] = asyncio.run(reader.run(None, [first, *others, chunk("tool_calls")]))

        assert result.value == call(repaired(visit), text).value is not None
    assert len(ran) == 4, "each call runs once"


def test_a_streamed_call_that_breaks_off_is_not_repaired():
    """After the model's last token a call that is not whole is refused, repaired tools or not."""
    reader = openai_chat.StreamReader(repaired(Toolset([book])))
    entry = {"index": 0, "id": "c1", "function": {"name": "book", "arguments": "{'city': 'Bern'"}}
    delta = {"tool_calls": [entry]}
    cut = {"id": "k", "choices": [{"index": 0, "delta": delta, "finish_reason": "length"}]}
    [result] = asyncio.run(reader.run(None, [cut]))

    assert "not one whole JSON object" in result.text


@pytest.mark.parametrize("reason", ["max_tokens", "tool_use"])
@pytest.mark.parametrize("dialect", [anthropic, bedrock])
def test_a_call_that_a_provider_closes_at_its_limit_is_not_repaired(dialect, reason):
    """A block also ends where the model ran out of tokens, and that is told only after it."""
    ran = []

    @FunctionTool(settings=ToolSettings(read_only=True))
    def visit(cities: list[str], **days: int) -> str:
        ran.append(cities)
        return "done"

    text = '{"cities": ["Bern"]'
    if dialect is anthropic:
        opened = {"type": "tool_use", "id": "c1", "name": "visit", "input": {}}
        piece = {"type": "input_json_delta", "partial_json": text}
        chunks = [
            {"type": "message_start", "message": {}},
            {"type": "content_block_start", "index": 0, "content_block": opened},
            {"type": "content_block_delta", "index": 0, "delta": piece},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": reason}},
            {"type": "message_stop"},
        ]
    else:
        start = {"toolUse": {"toolUseId": "c1", "name": "visit"}}
        place = {"contentBlockIndex": 0}
        chunks = [
            {"contentBlockStart": {**place, "start": start}},
            {"contentBlockDelta": {**place, "delta": {"toolUse": {"input": text}}}},
            {"contentBlockStop": place},
            {"messageStop": {"stopReason": reason}},
        ]
    reader = dialect.StreamReader(repaired(Toolset([visit])))
    [result] = asyncio.run(reader.run(None, chunks))

    assert ran == ([] if reason == "max_tokens" else [["Bern"]])
    assert result.success is bool(ran)
