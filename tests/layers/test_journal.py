"""A journal: each call takes effect at most once."""

import asyncio
import contextlib
import dataclasses
import functools
import gc
import os
import pickle
import signal
import sqlite3
import stat
import threading
import time
import warnings
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Annotated

import pytest
from pydantic import BaseModel, Field

from functool import (
    ApprovalRequired,
    Context,
    DefinitionError,
    FunctionTool,
    GuardrailError,
    ImageContent,
    Inject,
    Tool,
    ToolCall,
    ToolError,
    ToolResult,
    Toolset,
    ToolSettings,
    Tripwire,
    WrapperTool,
    hide_errors,
)
from functool.executors import inline
from functool.guardrails import require_approval
from functool.layers import (
    forking,
    journal_connection,
    journal_once,
    journal_owner,
    journal_replay,
    journal_store,
)
from functool.layers import journal as journal_module
from functool.layers.journal import (
    Interrupted,
    Journal,
    JournalError,
    OutcomeUnknown,
    idempotency_key,
)
from tests.support import call as call_of
from tests.support import cancelled, in_threads, mail_readers, refuses, time_passes, until


@pytest.fixture
def connections(monkeypatch):
    """The connections that SQLite makes during a test."""
    made, connect = [], sqlite3.connect
    noting = lambda *words, **options: made.append(connect(*words, **options)) or made[-1]  # noqa: E731
    monkeypatch.setattr(sqlite3, "connect", noting)
    return made


call = functools.partial(call_of, id="1")


def counted(**options):
    """A tool that counts its effects."""
    effects = []

    @FunctionTool(executor=inline, **options)
    def pay(amount: int = 1) -> dict:
        """Pay."""
        effects.append(amount)
        return {"paid": amount}

    return pay, effects


Words = Annotated[str, Field(alias="note")]


def pay_now(amount: int, note: str = "") -> None:
    """Pay."""


def pay_later(amount: int, note: str = "later", in_days: int = 30) -> None:
    """Pay, but not at once."""


def pay_said(amount: int, words: Words = "") -> None:
    """Pay."""


def pay_aliased(amount: int, words: Words = "later", in_days: int = 30) -> None:
    """Pay."""


@pytest.mark.parametrize(
    ("before", "after"),
    [(pay_now, pay_later), (pay_later, pay_now), (pay_said, pay_aliased)],
    ids=["more", "less", "aliased"],
)
def test_a_tool_may_get_another_optional_argument(journal, before, after):
    """The same call of a newer version of its tool is answered, and another one is refused."""
    old, new = (
        journal.once(FunctionTool(func, name="pay", executor=inline), run="r")
        for func in (before, after)
    )
    plain, noted, bare = {"amount": 3}, {"amount": 3, "note": "x"}, {"amount": 3, "note": ""}
    call(old, plain), call(old, noted, id="2"), call(old, bare, id="3")

    for again in (call(new, plain), call(new, noted, id="2"), call(new, bare, id="3")):
        assert again.success and again.metadata["journal"]["stored"]
    for other in (call(new, {"amount": 4}), call(new, noted), call(new, plain, id="2")):
        assert other.error.type == "JournalConflict"


def test_a_record_without_a_definition_is_that_of_another_call(journal, tmp_path):
    """Nobody knows which defaults its tool had, so the call is refused as another one."""
    once = journal.once(FunctionTool(pay_now, name="pay", executor=inline), run="r")
    call(once, {"amount": 3})
    with contextlib.closing(sqlite3.connect(tmp_path / "calls.journal")) as database, database:
        database.execute("DELETE FROM definitions")

    assert call(once, {"amount": 4}).error.type == "JournalConflict"


def test_an_interrupted_call_may_run_in_a_newer_version_of_its_tool(journal):
    """It is recorded as it ran last, so the same call is answered from then on."""

    def lost(amount: int, note: str = "") -> None:
        raise Interrupted("lost")

    old, new = (
        FunctionTool(func, name="pay", executor=inline, settings=ToolSettings(idempotent=True))
        for func in (lost, pay_later)
    )

    assert call(journal.once(old, run="r"), {"amount": 3}).is_error
    first, again = (call(journal.once(new, run="r"), {"amount": 3}) for _ in range(2))
    assert first.success and "journal" not in first.metadata
    assert again.success and again.metadata["journal"]["stored"]
    [entry] = journal.calls()
    assert entry.arguments == {"amount": 3, "note": "later", "in_days": 30}


def test_a_call_takes_effect_once(journal):
    """The same call again answers with the stored result, says so, and runs nothing."""
    pay, effects = counted()
    pay = journal.once(pay, run="order-17")

    first, again = call(pay, {"amount": 3}), call(pay, {"amount": 3})

    assert effects == [3]
    assert first.value == again.value == {"paid": 3} and first.output == again.output
    assert "journal" not in first.metadata
    assert again.metadata["journal"] == {"key": "order-17/pay/1", "stored": True}
    assert again.call_id == "1"


def test_run_tool_and_id_tell_calls_apart(journal):
    """A call with another id, of another tool or in another run is another call."""
    pay, effects = counted()
    other = WrapperTool(pay, name="pay_too")
    one, two = journal.once(pay, run="a"), journal.once(pay, run="b")
    third = journal.once(other, run="a")

    for tool, id in ((one, "1"), (one, "2"), (two, "1"), (third, "1"), (third, "1")):
        assert call(tool, id=id).success

    assert len(effects) == 4
    assert [e.key for e in journal.calls()] == ["a/pay/1", "a/pay/2", "b/pay/1", "a/pay_too/1"]


def test_keys_never_meet(journal):
    """Names and ids that hold the separator give different keys; long ones give short keys."""
    calls = [("a", "b", "c/1"), ("a/b", "c", "1"), ("a", "b/c", "1"), ("a", "b", "é" * 99)]
    keys = {journal_once.key_of(*parts) for parts in calls}

    assert len(keys) == 4
    assert all(key.isascii() and len(key) <= 200 for key in keys)


def test_the_same_kind_comes_back(journal):
    """A tool gives a tool, a list a list, a tuple a tuple, a toolset a toolset with its limit."""
    pay, _ = counted()

    assert isinstance(journal.once(pay, run="r"), FunctionTool)
    assert [type(tool) for tool in journal.once([pay], run="r")] == [FunctionTool]
    assert type(journal.once((pay,), run="r")) is tuple
    toolset = journal.once(Toolset([pay], max_concurrency=3), run="r")
    assert isinstance(toolset, Toolset) and toolset.max_concurrency == 3
    assert isinstance(journal.once({"pay": pay}, run="r"), list)
    assert pay.requires_approval is False and call(pay).value == {"paid": 1}


@pytest.mark.parametrize("run", ["", None, 3, "\ud800"])
def test_a_run_needs_a_name(journal, run):
    """A run without a name would make calls of different work one."""
    pay, _ = counted()

    with pytest.raises(DefinitionError, match="run must be a text"):
        journal.once(pay, run=run)
    with pytest.raises(DefinitionError, match="run must be a text"):
        journal.replay(run)


def test_an_id_that_is_no_text_is_refused(journal, caplog):
    """A lone surrogate cannot be stored: the call is an error without a traceback, and nothing runs."""
    pay, effects = counted()

    result = call(journal.once(pay, run="r"), id="\ud800")

    assert result.error.type == "JournalConflict"
    assert "its id is no valid text" in result.text
    assert (effects, journal.calls(), caplog.text) == ([], [], "")


def test_a_call_without_an_id_is_refused(journal):
    """A call that has no id cannot be told from another one: nothing runs."""
    pay, effects = counted()

    result = call(journal.once(pay, run="r"), id="")

    assert result.error.type == "JournalConflict" and "no id" in result.text
    assert effects == [] and journal.calls() == []


def test_an_id_with_other_arguments_is_refused(journal):
    """An id that comes again with other arguments is an error, and both records stay as they were."""
    pay, effects = counted()
    pay = journal.once(pay, run="r")
    call(pay, {"amount": 3})

    result = call(pay, {"amount": 4})

    assert result.error.type == "JournalConflict" and "4" not in result.text
    assert effects == [3]
    [entry] = journal.calls()
    assert entry.arguments == {"amount": 3} and entry.state == "done"


def test_equal_arguments_are_the_same_call(journal):
    """Text or mapping, in any order, a default said or left out: it is the same call."""
    ran = []

    @FunctionTool
    def add(a: int, b: int = 2) -> int:
        ran.append(a)
        return a + b

    add = journal.once(add, run="r")

    for arguments in ({"a": 1}, '{"b": 2, "a": 1}', {"a": 1, "b": 2}):
        assert call(add, arguments).value == 3
    assert ran == [1]


def test_nothing_of_a_refused_call_is_stored(journal):
    """Arguments that do not fit, guardrails and missing approvals leave no record."""
    pay, effects = counted(input_guardrails=[require_approval()])
    refused, _ = counted(input_guardrails=[refuses()])

    results = [
        call(journal.once(pay, run="r"), {"amount": "many"}),
        call(journal.once(pay, run="r")),
        call(journal.once(refused, run="r")),
    ]

    refusals = ["ArgumentError", "ApprovalRequired", "GuardrailError"]
    assert [result.error.type for result in results] == refusals
    assert effects == [] and journal.calls() == []


def test_an_approved_call_runs_once(journal):
    """The call that waited for a person runs after the approval, and not again."""
    pay, effects = counted(input_guardrails=[require_approval()])
    pay, context = journal.once(pay, run="r"), Context()

    context.approve(call(pay, context=context).metadata["approval"])

    assert call(pay, context=context).value == {"paid": 1}
    context.approve(call(pay, context=context).metadata["approval"])
    assert call(pay, context=context).metadata["journal"]["stored"] is True
    assert effects == [1]


@pytest.mark.parametrize("how", ["raised", "returned"])
def test_a_pause_is_no_result(journal, how):
    """A body that waits for an approval of an inner call runs again: its pause is not stored."""
    answers = []

    @FunctionTool
    async def outer(ctx: Context):
        answers.append(len(answers))
        if len(answers) == 2:
            return "done"
        inner = await FunctionTool(print, name="inner", input_guardrails=[require_approval()])(
            ToolCall(name="inner"), ctx
        )
        if how == "raised":
            raise ApprovalRequired("wait", inner.metadata["approval"])
        return inner

    outer = journal.once(outer, run="r")

    assert call(outer).error.type == "ApprovalRequired"
    assert journal.calls() == []
    assert call(outer).value == "done" and call(outer).value == "done"
    assert answers == [0, 1]


def test_output_guardrails_see_a_stored_result(journal):
    """What was stored meets the output guardrails again: the ones of now."""
    seen = []

    def shout(result, context):
        seen.append(result.text)
        return dataclasses.replace(ToolResult.of(result.text.upper()))

    @FunctionTool(output_guardrails=[shout])
    def say() -> str:
        return "secret"

    say = journal.once(say, run="r")

    assert [call(say).text, call(say).text] == ["SECRET", "SECRET"]
    assert seen == ["secret", "secret"]
    assert journal.calls()[0].result.text == "secret"


@pytest.mark.parametrize(
    "error",
    [ValueError("bad"), ToolError("sorry", details={"a": 1}), GuardrailError("no"), KeyError()],
    ids=repr,
)
def test_what_a_body_raised_is_its_outcome(journal, error):
    """A failure is stored as well: the same type, message and details, and the body runs once."""
    ran = []

    @FunctionTool
    def fail() -> None:
        ran.append(1)
        raise error

    first, fail = call(fail), journal.once(fail, run="r")
    ran.clear()

    results = [call(fail), call(fail)]

    assert [r.error for r in results] == [first.error, first.error]
    assert results[1].metadata == {"journal": {"key": "r/fail/1", "stored": True}}
    assert ran == [1] and journal.calls()[0].state == "done"


def test_a_stored_failure_hides_what_was_hidden(journal):
    """The tool's error functions are asked about a stored failure, so that it tells no more than before."""

    @FunctionTool(on_error_func=hide_errors)
    def fail() -> None:
        raise RuntimeError("password")

    fail = journal.once(fail, run="r")

    assert call(fail).text == call(fail).text == "The tool failed unexpectedly."


def test_a_tripwire_stops_the_run_again(journal):
    """A body that stopped the run stops it again, without running again."""
    ran = []

    @FunctionTool
    def stop() -> None:
        ran.append(1)
        raise Tripwire("enough")

    stop = journal.once(stop, run="r")

    for _ in range(2):
        with pytest.raises(Tripwire, match="enough"):
            call(stop)
    assert ran == [1]


class Point(BaseModel):
    x: int
    when: datetime


@dataclasses.dataclass
class Price:
    amount: Decimal


VALUES = [
    (None, None),
    ("text", "text"),
    ("\ud83d\ude00 \udc00", "😀 \udc00"),
    (3.5, 3.5),
    (float("nan"), "NaN"),
    ({"a": [1, None, True]}, {"a": [1, None, True]}),
    ({1: (2, 3)}, {"1": [2, 3]}),
    (
        Point(x=1, when=datetime(2026, 1, 2, tzinfo=UTC)),
        {"x": 1, "when": "2026-01-02T00:00:00Z"},
    ),
    ([Price(Decimal("1.50"))], [{"amount": "1.50"}]),
    ({"at": b"\xff"}, {"at": "_w=="}),
]


@pytest.mark.parametrize(("value", "stored"), VALUES, ids=[repr(v) for v, _ in VALUES])
def test_a_value_is_stored_in_its_json_form(journal, value, stored):
    """A stored value is its JSON form; the model reads what it read the first time."""

    @FunctionTool
    async def get():
        return value

    get = journal.once(get, run="r")
    first, again = call(get), call(get)

    assert again.value == stored and again.text == first.text
    assert again.metadata["journal"] == {"key": "r/get/1", "stored": True}


class Odd:
    def __str__(self):
        return "odd"


def endless():
    while True:
        yield 1


class Endless:
    def __iter__(self):
        return self

    def __next__(self):
        return 1

    def __str__(self):
        return "[1]"


@pytest.mark.parametrize(
    "value",
    [Odd(), {"a": Odd()}, {"a": endless()}, Endless()],
    ids=["odd", "in", "endless", "iter"],
)
def test_what_json_cannot_say_is_stored_as_the_model_read_it(journal, value):
    """Such a value comes back as text, and the metadata says so."""

    @FunctionTool
    async def get():
        return value

    get = journal.once(get, run="r")
    first, again = call(get), call(get)

    assert again.value == again.text == first.text
    assert again.metadata["journal"]["value_is_text"] is True


def test_contents_labels_and_short_forms_are_stored(journal):
    """Images, source labels, other JSON metadata and `shown_as` survive; other objects do not."""

    metadata = {"sources": ["mail"], "n": 1, "handle": object()}

    @FunctionTool
    async def get():
        return ToolResult.of({"rows": [1, 2]}, metadata=metadata).shown_as("2 rows")

    @FunctionTool
    async def draw():
        return [ImageContent(data=b"\x89"), "a dot"]

    get, draw = journal.once([get, draw], run="r")
    call(get), call(draw)
    again, image = call(get), call(draw)

    assert (again.text, again.value, again.structured) == ("2 rows", {"rows": [1, 2]}, None)
    assert again.metadata["sources"] == ["mail"] and again.metadata["n"] == 1
    assert "handle" not in again.metadata
    assert image.output[0] == ImageContent(data=b"\x89") and image.output[1].text == "a dot"


def test_an_untrusted_tool_labels_stored_results(journal):
    """A stored result of an untrusted tool has its label, and those of its arguments."""
    pay, _ = counted(settings=ToolSettings(untrusted=True))
    pay = journal.once(pay, run="r")
    sent = ToolCall(name="pay", id="1", metadata={"sources": {"/amount": ["mail"]}})

    results = [asyncio.run(pay(sent)) for _ in range(2)]

    assert [r.metadata["sources"] for r in results] == [["pay", "mail"]] * 2


@pytest.mark.parametrize("fails", [False, True], ids=["result", "failure"])
def test_a_stored_result_keeps_the_labels_of_its_arguments(journal, fails):
    """A host that reads a call from the model's message again has lost its labels; the record has them."""

    @FunctionTool
    def echo(text: str) -> str:
        if fails:
            raise ToolError(text)
        return text

    tools = journal.once(Toolset([echo]), run="r")
    sent = ToolCall(
        name="echo", arguments={"text": "x"}, id="1", metadata={"sources": {"/text": ["mail"]}}
    )
    bare = dataclasses.replace(sent, metadata={})
    first = asyncio.run(tools.call(sent))
    results = [first, asyncio.run(tools.call(bare)), asyncio.run(journal.replay("r").call(bare))]

    assert [result.text for result in results] == ["x"] * 3
    assert [result.metadata["sources"] for result in results] == [["mail"]] * 3
    assert journal.calls()[0].result.metadata["sources"] == ["mail"]


@pytest.mark.parametrize("odd", [None, 3, "a page", {"url": 1}], ids=repr)
@pytest.mark.parametrize("keep", [None, lambda result: ToolResult.of("kept")])
def test_an_authors_own_sources_are_no_labels(tmp_path, odd, keep):
    """A tool may count its documents as `sources`: the answer is stored, and comes back."""

    @FunctionTool
    def ask() -> ToolResult:
        return ToolResult.of("answer", metadata={"sources": odd})

    tool = Journal(tmp_path / "j", keep=keep).once(ask, run="r")
    first, again = call(tool), call(tool)

    assert first.text == "answer" and again.metadata["journal"]["stored"]
    assert again.success and again.text == ("kept" if keep else "answer")


def test_keep_reduces_what_is_stored(tmp_path):
    """`keep` says what is stored; the first answer is whole, and failures are reduced as well."""

    async def keep(result):
        if result.is_error:
            return ToolResult.failed("failed", type=result.error.type)
        return ToolResult.of("kept")

    journal = Journal(tmp_path / "j", keep=keep)
    pay, _ = counted()

    @FunctionTool
    def fail() -> None:
        raise ValueError("secret")

    pay, fail = journal.once([pay, fail], run="r")

    assert [call(pay).value, call(pay).value] == [{"paid": 1}, "kept"]
    assert [call(fail).text, call(fail).text] == ["ValueError: secret", "ValueError: failed"]
    assert b"secret" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


@pytest.mark.parametrize("keep", [lambda result: 1 / 0, lambda result: "text"])
def test_nothing_is_stored_where_keep_fails(tmp_path, keep, caplog):
    """A `keep` that raises or returns no result stores no part of a result, and the call is done."""
    journal = Journal(tmp_path / "j", keep=keep)
    pay, effects = counted()
    pay = journal.once(pay, run="r")

    assert call(pay).value == {"paid": 1}
    assert call(pay).text == "The call ended. Its result was not kept."
    assert effects == [1] and "could not be stored" in caplog.text


def test_a_result_that_cannot_be_written_is_still_done(journal, caplog):
    """A body that returned something odd has run: its call is done, and does not run again."""
    ran = []

    @FunctionTool
    def odd() -> ToolResult:
        ran.append(1)
        return ToolResult(output=[object()], metadata=3)

    odd = journal.once(odd, run="r")
    call(odd)

    assert call(odd).text == "The call ended. Its result was not kept."
    assert ran == [1] and "could not be stored" in caplog.text


def test_keep_has_to_be_callable(tmp_path):
    """Anything else is the author's mistake."""
    with pytest.raises(DefinitionError, match="keep must be callable"):
        Journal(tmp_path / "j", keep=3)


@pytest.mark.parametrize("kind", ["async", "sync"])
def test_a_body_that_timed_out_is_unknown(journal, kind):
    """A call that its time limit ended inside the body is unknown: it is not run again."""
    ran = []
    release = threading.Event()

    async def slow():
        ran.append(1)
        time_passes(61)
        await asyncio.Event().wait()

    def slow_in_a_thread(
        loop: Annotated[object, Inject(lambda context: asyncio.get_running_loop())],
    ):
        ran.append(1)
        loop.call_soon_threadsafe(time_passes, 61)
        release.wait(60)

    body = slow if kind == "async" else slow_in_a_thread
    tool = journal.once(FunctionTool(body, name="slow", timeout=60), run="r")

    first, again = call(tool), call(tool)
    release.set()

    assert first.error.type == "ToolTimeoutError"
    assert again.error.type == "OutcomeUnknown"
    assert again.error.details.keys() == {"key", "started"}
    assert again.error.details["key"] == "r/slow/1" and "settle" in again.text
    datetime.fromisoformat(again.error.details["started"])
    assert ran == [1] and [entry.state for entry in journal.calls()] == ["unknown"]


def test_others_need_not_wait_for_an_interrupted_call(tmp_path):
    """The owner that lives on says that a body was interrupted: no lease has to run out."""
    one, two = Journal(tmp_path / "j"), Journal(tmp_path / "j")

    @FunctionTool(timeout=2)
    async def hang() -> None:
        raise asyncio.CancelledError

    call(one.once(hang, run="r"))

    assert [entry.state for entry in two.calls()] == ["unknown"]
    assert call(two.once(hang, run="r")).error.type == "OutcomeUnknown"


def test_started_is_durable_and_done_need_not_be(connections, journal):
    """The disk is waited for before a body runs, and not after it."""
    pay, _ = counted()
    pay, said = journal.once(pay, run="r"), []
    connection = connections[-1]
    durable = connection.execute("PRAGMA synchronous").fetchone()
    call(pay, id="first")
    connection.set_trace_callback(lambda text: said.append(text.split(" ")[:2]))
    call(pay)
    connection.set_trace_callback(None)

    assert durable == (2,)
    assert [words for words in said if words[0] != "SELECT"] == [
        ["INSERT", "INTO"],
        ["PRAGMA", "synchronous=NORMAL"],
        ["UPDATE", "calls"],
        ["PRAGMA", "synchronous=FULL"],
    ]


def test_a_note_is_kept_once(tmp_path):
    """What was noted first under an id stays, for every process, and stands among the calls."""
    one, two = Journal(tmp_path / "j"), Journal(tmp_path / "j")

    async def note(journal, data, run="r", note_id="1"):
        return await journal.note(run, "notes", note_id, data)

    assert asyncio.run(note(one, {"a": 1})) == {"a": 1}
    assert asyncio.run(note(two, {"a": 2})) == {"a": 1}
    assert asyncio.run(note(two, {"a": 2}, run="s")) == {"a": 2}
    [entry] = one.calls(run="r")
    assert (entry.tool, entry.call_id, entry.state) == ("notes", "1", "done")
    assert entry.arguments == {"a": 1}
    assert one.recordings("r")["r"].definitions == {}
    with pytest.raises(DefinitionError, match="run"):
        asyncio.run(note(one, {}, run=""))
    one.close()
    with pytest.raises(JournalError):
        asyncio.run(note(one, {}, note_id="2"))


def test_a_note_waits_for_no_disk(connections, journal):
    """The disk is not waited for: the next call that begins waits for the note, too."""
    said, connection = [], connections[-1]
    connection.set_trace_callback(lambda text: said.append(text.split(" ")[:2]))
    asyncio.run(journal.note("r", "notes", "1", {}))
    connection.set_trace_callback(None)

    assert said == [
        ["PRAGMA", "synchronous=NORMAL"],
        ["INSERT", "INTO"],
        ["PRAGMA", "synchronous=FULL"],
        ["SELECT", "arguments"],
    ]


def test_a_cancelled_body_is_unknown(journal):
    """A call that was cancelled inside its body, from outside or by itself, is unknown."""

    @FunctionTool
    async def hang(itself: bool = False):
        if itself:
            raise asyncio.CancelledError
        began.set()
        await asyncio.Event().wait()

    hang = journal.once(hang, run="r")
    began = asyncio.Event()

    asyncio.run(cancelled(hang(ToolCall(name="hang", id="1")), began))
    call(hang, {"itself": True}, id="2")

    assert call(hang).error.type == "OutcomeUnknown"
    assert call(hang, {"itself": True}, id="2").error.type == "OutcomeUnknown"


@pytest.mark.parametrize("settings", [{"read_only": True}, {"idempotent": True}])
def test_a_harmless_tool_runs_again(journal, settings):
    """An interrupted call of a tool that is read-only or idempotent runs again."""
    ran = []

    @FunctionTool(timeout=60, settings=ToolSettings(**settings))
    async def get():
        ran.append(1)
        if len(ran) == 1:
            time_passes(61)
            await asyncio.Event().wait()
        return "got"

    get = journal.once(get, run="r")

    assert call(get).error.type == "ToolTimeoutError"
    assert journal.calls(state="unknown") == []
    assert call(get).value == "got" and call(get).value == "got"
    assert ran == [1, 1]


def test_a_call_that_is_running_waits_for_its_owner(journal):
    """The same call beside itself waits, and answers with the one result."""
    pay, effects = counted()

    @FunctionTool
    async def slow() -> int:
        effects.append(1)
        for _ in range(9):  # The others ask meanwhile.
            await asyncio.sleep(0.01)
        return 7

    slow = journal.once(slow, run="r")

    async def both():
        return await asyncio.gather(*(slow(ToolCall(name="slow", id="1")) for _ in range(3)))

    results = asyncio.run(both())

    assert [r.value for r in results] == [7, 7, 7] and effects == [1]
    assert sorted("journal" in r.metadata for r in results) == [False, True, True]


def test_waiting_ends_with_the_time_limit(tmp_path):
    """A call that waits for its owner answers at its own time limit, and changes nothing."""
    one, two = Journal(tmp_path / "j"), Journal(tmp_path / "j")
    go = threading.Event()

    def slow() -> str:
        go.wait(60)
        return "slow"

    owner = one.once(FunctionTool(slow), run="r")
    waiter = two.once(FunctionTool(slow, timeout=60), run="r")

    async def both():
        task = asyncio.ensure_future(owner(ToolCall(name="slow", id="1")))
        await until(lambda: two.calls(state="started"))
        asyncio.get_running_loop().call_later(0.05, time_passes, 61)
        late = await waiter(ToolCall(name="slow", id="1"))
        states = [entry.state for entry in two.calls()]
        go.set()
        return late, states, await task

    late, states, result = asyncio.run(both())

    assert late.error.type == "ToolTimeoutError" and states == ["started"]
    assert result.value == "slow" and call(waiter).value == "slow"


def test_a_lease_is_renewed_while_the_body_runs(tmp_path, monkeypatch):
    """A body that runs for longer than its lease stays the owner of its call, also where it blocks the event loop."""
    renewed = []

    def lease():
        renewed.append(1)
        return time.time() + 3600

    monkeypatch.setattr(journal_owner, "LEASE_SECONDS", 0.04)  # A beat each hundredth of a second.
    one, two = Journal(tmp_path / "j"), Journal(tmp_path / "j")

    @FunctionTool
    async def slow() -> list:
        monkeypatch.setattr(journal_once, "new_lease", lease)
        for _ in range(6_000):
            if len(renewed) > 1:  # The first has been written.
                break
            time.sleep(0.01)
        time.sleep(0.1)  # The lease with which the call began is over.
        return [entry.state for entry in two.calls()]

    assert call(one.once(slow, run="r")).value == ["started"]
    assert len(renewed) > 1


def test_a_lease_is_renewed_as_soon_as_the_file_is_free(tmp_path, monkeypatch, caplog):
    """A renewal that meets another writer is tried again at once, with a whole lease each time."""
    journal = Journal(tmp_path / "j")
    other = sqlite3.connect(tmp_path / "j", isolation_level=None, check_same_thread=False)
    tries = []

    def renewing(self, held, lease):
        tries.append(lease)
        try:
            renew(self, held, lease)
        except JournalError:
            other.execute("ROLLBACK")  # The other writer ends after the first attempt.
            raise

    renew = journal_store.Store.renew
    monkeypatch.setattr(journal_store.Store, "renew", renewing)
    monkeypatch.setattr(journal_owner, "LEASE_SECONDS", 400.0)  # No beat of its own meanwhile.

    @FunctionTool(executor=inline)
    def slow() -> str:
        other.execute("BEGIN IMMEDIATE")
        journal._once._leases.beat()
        return "slow"

    assert call(journal.once(slow, run="r")).value == "slow"
    assert len(tries) == 2 and tries[0] < tries[1] and not caplog.records
    other.close()


def test_a_call_that_gets_no_thread_to_renew_its_lease_does_not_begin(journal, monkeypatch):
    """Its body does not run, nothing is recorded, and nothing counts as running afterwards."""
    ran = []

    def none_left(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(journal_owner.threading.Thread, "start", none_left)
    tool = journal.once(FunctionTool(lambda: ran.append(1), name="f", executor=inline), run="r")

    assert call(tool).error.message == "RuntimeError: can't start new thread"
    assert ran == journal.calls() == []
    assert not journal._once._leases.beat()


def test_a_lost_lease_is_unknown_until_the_owner_ends(tmp_path, monkeypatch):
    """Where a lease ran out, others read `unknown`; the owner that was only slow still records its end."""
    monkeypatch.setattr(journal_owner, "LEASE_SECONDS", 0.0)
    one, two = Journal(tmp_path / "j"), Journal(tmp_path / "j")

    @FunctionTool
    async def slow() -> int:
        meanwhile = await asyncio.to_thread(call, two.once(slow, run="r"))
        assert meanwhile.error.type == "OutcomeUnknown"
        return 7

    assert call(one.once(slow, run="r")).value == 7
    assert call(two.once(slow, run="r")).value == 7


def test_a_body_gets_its_key(journal):
    """The key of a call reaches sync and async bodies, subclasses and `ToolCall` parameters."""

    def sync(key: Annotated[str, Inject(idempotency_key)]) -> str:
        return key

    async def asynchronous(key: Annotated[str, Inject(idempotency_key)], call: ToolCall) -> str:
        assert call.metadata["journal"]["key"] == key
        return key

    class Sub(FunctionTool):
        async def run(self, call, context):
            return await super().run(call, context)

    for tool in (FunctionTool(sync), FunctionTool(asynchronous), Sub(sync, name="sub")):
        kept = journal.once(tool, run="order 17")
        assert call(kept, id="a/1").value == f"order%2017/{tool.name}/a%2F1"
        assert call(WrapperTool(kept), id="a/2").value == f"order%2017/{tool.name}/a%2F2"


def test_without_a_journal_each_call_has_a_new_key(journal):
    """Without a journal, and in inner calls that are in none, a key is new for each call."""

    @FunctionTool
    async def inner(key: Annotated[str, Inject(idempotency_key)], ctx: Context) -> str:
        assert idempotency_key(ctx) == key
        return key

    @FunctionTool
    async def outer(ctx: Context) -> list:
        calls = [await inner(ToolCall(name="inner", id="1"), ctx) for _ in range(2)]
        return [result.value for result in calls]

    keys = [call(inner).value, call(inner).value, *call(journal.once(outer, run="r")).value]

    assert len(set(keys)) == 4 and "r/outer/1" not in keys


@pytest.mark.parametrize("noted", [{}, 5, {"stored": True}])
def test_a_host_may_note_anything(noted):
    """Whatever a host has put beside a call under `journal`, the body gets a key."""

    @FunctionTool
    def find(key: Annotated[str, Inject(idempotency_key)]) -> str:
        return key

    made = ToolCall(name="find", metadata={"journal": noted})

    assert len(asyncio.run(find(made)).unwrap()) == 32


def test_a_call_around_an_interrupted_one_is_unknown_too(journal):
    """A body that returns the result of an interrupted call has no outcome of its own."""
    pay, _ = unknown(journal, id="inside")

    @FunctionTool
    async def outer(ctx: Context) -> ToolResult:
        return await pay(ToolCall(name="pay", id="inside"), ctx)

    kept = journal.once(outer, run="r")
    first = call(kept)
    again = call(kept)

    assert first.error.details["key"] == "r/pay/inside"
    assert again.error.details["key"] == "r/outer/1"
    journal.settle("r/pay/inside", ToolResult.of("settled"))
    journal.reopen("r/outer/1")
    assert call(kept).value == "settled"


def test_a_call_inside_of_itself_is_refused(journal):
    """A tool in one journal twice would wait for itself: that is an error, and nothing runs."""
    pay, effects = counted()

    result = call(journal.once(journal.once(pay, run="r"), run="r"))

    assert result.error.type == "JournalConflict" and "inside" in result.text
    assert effects == []


def test_journals_nest(tmp_path):
    """Two journals around one tool both keep their record."""
    pay, effects = counted()
    one, two = Journal(tmp_path / "1"), Journal(tmp_path / "2")
    pay = two.once(one.once(pay, run="inner"), run="outer")

    assert call(pay).value == call(pay).value == {"paid": 1}
    assert effects == [1]
    assert [len(journal.calls()) for journal in (one, two)] == [1, 1]


def test_call_all_and_threads_share_a_journal(journal):
    """Parallel calls of a turn, and turns on several threads, each take effect once."""
    pay, effects = counted()
    tools = journal.once(Toolset([pay]), run="r")
    calls = [ToolCall(name="pay", arguments={"amount": n}, id=str(n)) for n in range(20)]
    answers = in_threads(4, lambda: tools.call_all_sync(calls))

    assert [r.error for results in answers for r in results if r.error] == []
    assert sorted(effects) == list(range(20))
    assert [[r.value["paid"] for r in results] for results in answers] == [list(range(20))] * 4


def test_a_call_that_ends_while_another_thread_looks_at_it_answers_it(journal, monkeypatch):
    """A call is answered by an equal one that ended just after the journal found that it runs."""
    looked, effects = threading.Event(), []

    @FunctionTool
    def pay() -> str:
        """Pay."""
        effects.append(1)
        looked.wait(10)
        return "paid"

    pay = journal.once(pay, run="r")
    first = threading.Thread(target=call, args=(pay, {}))
    fetch = journal_store.Store.fetch

    def slow_fetch(store, key):
        row = fetch(store, key)
        if threading.current_thread() is not first and row is not None and row.state == "started":
            looked.set()
            first.join()
        return row

    monkeypatch.setattr(journal_store.Store, "fetch", slow_fetch)
    first.start()
    while not effects:
        time.sleep(0.001)

    assert call(pay, {}).text == "paid"
    assert effects == [1] and [entry.state for entry in journal.calls()] == ["done"]


def test_two_threads_make_the_first_calls_of_a_tool(journal, monkeypatch):
    """The first calls may come together on two threads: these and all later ones are answered."""
    together, define = threading.Barrier(2, timeout=10), journal_once.definition_of

    def slow_definition(tool):
        together.wait()
        return define(tool)

    monkeypatch.setattr(journal_once, "definition_of", slow_definition)
    pay, effects = counted()
    pay = journal.once(pay, run="r")

    answers = in_threads(2, lambda: call(pay, {"amount": 2}))

    assert [each.value for each in [*answers, call(pay, {"amount": 2})]] == [{"paid": 2}] * 3
    assert effects == [2]


def test_entries_say_all_there_is(journal):
    """An entry has key, run, tool, id, arguments, state, result and times with a zone."""
    pay, _ = counted()
    before = datetime.now(UTC)
    call(journal.once(pay, run="r"), {"amount": 2})

    [entry] = journal.calls(run="r", state="done")

    assert (entry.key, entry.run, entry.tool, entry.call_id) == ("r/pay/1", "r", "pay", "1")
    assert entry.arguments == {"amount": 2} and entry.result.value == {"paid": 2}
    assert before <= entry.started <= entry.ended <= datetime.now(UTC)
    assert journal.calls(run="other") == journal.calls(state="unknown") == []
    with pytest.raises(ValueError, match="state must be"):
        journal.calls(state="lost")


def test_the_calls_inside_of_one_call(journal):
    """`calls_of` returns the call with an id and those inside of it, and no other call of the run."""
    pay, _ = counted()
    for run, id in [
        *(("r", id) for id in ("c", "c/1", "cc/1", "c/1/2", "c%", "1/c")),
        ("s", "c/3"),
    ]:
        call(journal.once(pay, run=run), {"amount": 2}, id=id)

    assert [entry.call_id for entry in journal.calls_of("r", "c")] == ["c", "c/1", "c/1/2"]
    assert [entry.call_id for entry in journal.calls_of("r", "c%")] == ["c%"]


def unknown(journal, id="1"):
    """Leave an unknown call behind; return its tool and its effects."""
    effects = []

    @FunctionTool
    async def pay(quick: bool = False) -> str:
        effects.append(1)
        if len(effects) == 1:
            raise asyncio.CancelledError
        return "paid"

    pay = journal.once(pay, run="r")
    assert call(pay, id=id).is_error
    return pay, effects


def test_an_operator_settles_an_unknown_call(journal):
    """What an operator says came of a call is its stored result from then on."""
    pay, effects = unknown(journal)

    journal.settle("r/pay/1", ToolResult.of({"paid": True}))

    assert call(pay).value == {"paid": True} and effects == [1]
    assert call(pay).metadata["journal"] == {"key": "r/pay/1", "stored": True}
    assert journal.calls()[0].state == "done"


def test_an_operator_reopens_an_unknown_call(journal):
    """A reopened call runs again, once."""
    pay, effects = unknown(journal)

    journal.reopen("r/pay/1")

    assert journal.calls() == []
    assert call(pay).value == call(pay).value == "paid" and effects == [1, 1]


def test_only_unknown_calls_are_settled_or_reopened(journal):
    """A done, running or absent call is no operator's to change; the error names close keys."""
    pay, _ = counted()

    @FunctionTool
    async def running(ctx: Context) -> None:
        for change in (journal.reopen, lambda key: journal.settle(key, ToolResult.of(1))):
            with pytest.raises(JournalError, match="is running since"):
                change("r/running/1")

    pay, running = journal.once([pay, running], run="r")
    call(pay)
    assert call(running).success
    for change in (journal.reopen, lambda key: journal.settle(key, ToolResult.of(1))):
        with pytest.raises(JournalError, match="is done since"):
            change("r/pay/1")
        with pytest.raises(JournalError, match=r"no call 'r/pay/2'; did you mean 'r/pay/1'"):
            change("r/pay/2")
    with pytest.raises(TypeError, match="must be a ToolResult"):
        journal.settle("r/pay/1", "paid")


def test_a_late_end_does_not_undo_what_an_operator_said(tmp_path, monkeypatch, caplog):
    """A body that ends after its call was settled changes the record no more."""
    monkeypatch.setattr(journal_owner, "LEASE_SECONDS", 0.0)
    one, two = Journal(tmp_path / "j"), Journal(tmp_path / "j")

    @FunctionTool
    async def slow() -> str:
        two.settle("r/slow/1", ToolResult.of("settled"))
        return "late"

    assert call(one.once(slow, run="r")).value == "late"
    assert call(one.once(slow, run="r")).value == "settled"
    assert "was settled or reopened while it ran" in caplog.text


def test_a_long_look_holds_no_call(journal, monkeypatch):
    """While an operator reads a large journal, calls go on."""
    pay, _ = counted()
    pay = journal.once(pay, run="r")
    call(pay, id="first")
    seen, make = [], journal_store.Row._make

    def slow(row):
        if not seen:  # In the middle of the operator's reading.
            seen.append("reading")
            worker = threading.Thread(target=lambda: seen.append(call(pay, id="beside").success))
            worker.start()
            worker.join(60)
        return make(row)

    monkeypatch.setattr(journal_store.Row, "_make", staticmethod(slow))

    assert [entry.call_id for entry in journal.calls()] == ["first"]
    assert seen == ["reading", True]


def test_purge_removes_what_is_done(journal):
    """Done calls that ended before a time go; unknown ones stay, and a purged call runs again."""
    pay, effects = counted()
    pay = journal.once(pay, run="r")
    call(pay, id="old")
    unknown(journal, id="lost")
    now = datetime.now(UTC)
    call(pay, id="new")

    assert journal.purge(now - timedelta(days=1)) == 0
    assert journal.purge(now) == 1
    assert [entry.call_id for entry in journal.calls()] == ["lost", "new"]
    call(pay, id="old")
    assert len(effects) == 3
    with pytest.raises(TypeError, match="must be a datetime"):
        journal.purge(3600)


def noting(journal, error):
    """A tool that makes a call and notes it, as a program of code mode does, and ends with an error."""
    inner = journal.once(counted()[0], run="r")

    @FunctionTool
    async def program() -> None:
        await journal.note("r", "program.record", "c1/0", {})
        await inner(ToolCall(name="pay", arguments={}, id="c1/1"))
        raise error

    return program


def test_purge_keeps_what_an_interrupted_call_has_noted(journal):
    """The calls inside of a call and its notes stay until it is done: reopened, it goes on from them."""
    program = noting(journal, Interrupted("the host was killed"))
    program, later = journal.once(program, run="r"), datetime.now() + timedelta(seconds=1)
    call(program, id="c1")

    assert journal.purge(later) == 0
    journal.settle("r/program/c1", ToolResult.of("ended"))
    assert journal.purge(later + timedelta(days=1)) == 3


def test_purge_keeps_a_program_of_which_a_call_was_settled_since(journal):
    """The calls of a program are its record too: the others stay while the last is too young."""
    program = noting(journal, ToolError("the program waits"))
    call(program, id="c1")
    unknown(journal, id="c1/2")
    [lost], now = journal.calls(state="unknown"), datetime.now(UTC)
    journal.settle(lost.key, ToolResult.of("it was paid"))

    assert journal.purge(now) == 0
    assert journal.purge(now + timedelta(days=1)) == 3


def test_the_file_is_its_owners_alone(tmp_path):
    """The file and what SQLite writes beside it are readable by their owner only."""
    old = os.umask(0)
    try:
        journal = Journal(tmp_path / "j")
        call(journal.once(counted()[0], run="r"))
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    finally:
        os.umask(old)

    assert modes == {"j": 0o600, "j-wal": 0o600, "j-shm": 0o600}


def forked(work):
    """Do `work` in a fork that ends in two minutes at the latest; return its process id."""
    with warnings.catch_warnings():  # A thread of an earlier test may still be idle.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child:
        return child
    signal.alarm(120)
    try:
        work()
    finally:
        os._exit(0)


def test_a_fork_waits_while_another_thread_writes(journal):
    """Otherwise the child would wait for ever for a lock that a thread of its parent held."""
    pay, _ = counted()
    pay = journal.once(pay, run="r")
    call(pay, id="parent")
    ended = threading.Event()

    def write():
        for n in count():
            call(pay, id=f"thread {n}")
            if ended.is_set():
                return

    def work():
        signal.alarm(20)
        call(pay, id="child")

    thread = threading.Thread(target=write)
    thread.start()
    children = [forked(work) for _ in range(10)]
    endings = [os.waitpid(child, 0)[1] for child in children]
    ended.set()
    thread.join()

    assert endings == [0] * 10
    [child] = [entry for entry in journal.calls() if entry.call_id == "child"]
    assert child.state == "done"
    assert call(pay, id="after").success


def test_what_a_fork_records_stays_when_its_parent_closes_the_file(journal):
    """Also if the parent is the first of them to end, which tidies up what SQLite needs."""
    pay, ran = counted()
    pay = journal.once(pay, run="r")
    call(pay, id="parent")
    (told, tell), (heard, answer) = os.pipe(), os.pipe()

    def work():
        call(pay, id="child 1")
        os.write(tell, b".")
        os.read(heard, 1)
        call(pay, id="child 2")

    child = forked(work)
    os.read(told, 1)
    journal.close()
    os.write(answer, b".")
    assert os.waitpid(child, 0)[1] == 0
    for pipe in (told, tell, heard, answer):
        os.close(pipe)

    found = Journal(journal._store.path)
    assert [one.call_id for one in found.calls()] == ["parent", "child 1", "child 2"]
    assert call(found.once(counted()[0], run="r"), id="child 2").metadata["journal"]["stored"]


@pytest.mark.parametrize("ask", [lambda j: j.calls(), lambda j: j._store.runs()])
def test_a_fork_takes_no_log_away_from_a_reader(journal, monkeypatch, ask):
    """A thread that looks for the log must not take one for removed that a fork has closed."""
    call(journal.once(counted()[0], run="r"), id="1")
    exists, found = Path.exists, threading.Event()

    def fork():
        os.waitpid(forked(lambda: None), 0)
        found.set()

    forking_thread = threading.Thread(target=fork)

    def slowly(path):
        if not forking_thread.ident:
            forking_thread.start()
            found.wait(0.5)
        return exists(path)

    monkeypatch.setattr(Path, "exists", slowly)

    assert ask(journal)
    forking_thread.join()


@pytest.mark.parametrize("ask", [lambda j: j.calls(), lambda j: j.purge(datetime.now())])
def test_a_fork_in_the_middle_of_a_statement_is_refused(journal, monkeypatch, ask):
    """If a fork cannot wait any longer, the child says so instead of losing what it records."""
    pay, _ = counted()
    pay = journal.once(pay, run="r")
    call(pay, id="parent")
    monkeypatch.setattr(forking, "WAIT_SECONDS", 0.0)

    def work():
        told = call(pay, id="child").text
        with pytest.raises(JournalError, match="spawn"):
            ask(journal)
        os._exit(0 if "could not be recorded" in told else 1)

    with journal._store.calls.use():
        child = forked(work)
    assert os.waitpid(child, 0)[1] == 0

    assert [entry.call_id for entry in journal.calls()] == ["parent"]


def test_a_fork_opens_no_journal_that_was_closed_or_removed(journal, tmp_path):
    """Parent and child open the file again, but only the same file, and none that was closed."""
    closed = Journal(tmp_path / "closed")
    closed.close()
    used, unused = (one.once(counted()[0], run="r") for one in (journal, closed))
    Path(journal._store.path).unlink()

    def work():
        refused = [call(tool).error for tool in (used, unused)]
        os._exit(0 if all(refused) else 1)

    assert os.waitpid(forked(work), 0)[1] == 0
    assert call(used).error.type == call(unused).error.type == "JournalError"
    assert not Path(journal._store.path).exists()


def test_the_threads_of_a_fork_use_nothing_of_their_parent(journal, monkeypatch):
    """Calls that begin together in a fork wait for its own connection, and are calls of the fork."""
    pay, _ = counted()
    pay = journal.once(pay, run="r")
    call(pay, id="parent")
    opened, numbers, made = journal_connection.open_database, count(), []

    def slowly(path):
        time.sleep(0.2)
        made.append(opened(path))
        return made[-1]

    def work():
        monkeypatch.setattr(journal_connection, "open_database", slowly)
        in_threads(8, lambda: call(pay, id=f"child {next(numbers)}"))
        os._exit(len(made) - 1)

    child = forked(work)
    assert os.waitpid(child, 0)[1] == 0

    owners = [row.owner.split()[2] for row in journal._store.rows()]
    assert owners == [str(os.getpid()), *[str(child)] * 8]


def test_a_dead_owner_that_nobody_reaped_is_dead(journal):
    """A zombie runs nothing: its call is unknown at once."""

    @FunctionTool(timeout=5)
    async def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    die = journal.once(die, run="r")
    child = forked(lambda: call(die))
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)

    assert call(die).error.type == "OutcomeUnknown"
    os.waitpid(child, 0)


def test_a_journal_that_nobody_holds_leaves_nothing_open(tmp_path):
    """A journal closes its file when it is collected; none of its threads keeps it alive."""

    def use():
        call(Journal(tmp_path / "j").once(counted()[0], run="r"))

    use()
    gc.collect()

    assert [path for path in open_files() if str(tmp_path) in path] == []


def open_files():
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            yield os.readlink(f"/proc/self/fd/{fd}")


def test_a_wrapper_and_other_tools_are_journalled(journal):
    """Tools of other kinds are, too: wrappers with a new name, and subclasses of `Tool`."""
    effects = []

    class Own(Tool):
        async def run(self, call, context):
            effects.append(call.arguments)
            return ToolResult.of("own")

    own = Own(name="own", description="", parameters={})
    tools = journal.once(Toolset([own, WrapperTool(own, name="renamed")]), run="r")

    for name in ("own", "own", "renamed", "renamed"):
        assert tools.call_sync(ToolCall(name=name, id="1")).value == "own"
    assert len(effects) == 2


def test_errors_survive_a_pickle():
    """An unknown outcome that crosses a process is the same there."""
    error = OutcomeUnknown("k", "t")

    again = pickle.loads(pickle.dumps(error))

    assert str(again) == str(error) and again.details == {"key": "k", "started": "t"}


def test_a_stream_is_judged_through_a_journal(journal):
    """A journal hands arguments on as they come, so a wrong one is refused while it is written."""

    @FunctionTool
    def pay(amount: int) -> int:
        return amount

    for tool in (
        journal.once(pay, run="run"),
        journal.once(WrapperTool(pay, name="renamed"), run="run"),
        journal.replay("run", Toolset([pay]), strict=False)["pay"],
    ):
        watch = tool.watch()

        assert watch.feed('{"amou') is None
        assert "amount" in str(watch.feed('nt": ['))
        assert tool.watch().feed('{"amount": 3}') is None
    assert journal.calls() == []


def test_a_stored_answer_keeps_the_labels_of_inner_calls(tmp_path):
    """A recorded text or error of an untrusted tool is untrusted when it is answered again."""
    journal = Journal(tmp_path / "journal")
    tools = Toolset(mail_readers())
    for answering in (journal.once(tools, "r"), journal.once(tools, "r")):
        for name in ("digest", "fail"):
            assert call_of(answering[name], {}).metadata["sources"] == ["mail"]
    for replaying in (journal.replay("r", tools), journal.replay("r")):
        for name in ("digest", "fail"):
            result = call_of(replaying[name], {})
            assert result.metadata["journal"]["stored"]
            assert result.metadata["sources"] == ["mail"]
    journal.close()


@pytest.mark.parametrize("make", [ToolResult.of, ToolResult.failed])
def test_an_approval_of_the_authors_own_is_no_pause(journal, make):
    """A result may have anything under `approval` in its metadata. It is recorded as every other."""
    effects = []

    @FunctionTool(executor=inline)
    def order() -> ToolResult:
        """Order, as somebody in the company has approved."""
        effects.append(1)
        return make("ordered", metadata={"approval": {"by": "Bo"}})

    first, stored = (call(journal.once(order, "r")) for _ in range(2))

    assert effects == [1]
    assert stored.metadata["journal"]["stored"] is True
    assert (stored.text, stored.metadata["approval"]) == (first.text, {"by": "Bo"})


@pytest.mark.parametrize("failing", [False, True])
def test_keep_cannot_lose_the_labels_of_a_result(tmp_path, failing):
    """A stored answer has the labels of inner calls, although `keep` returned a new result."""

    @FunctionTool(settings=ToolSettings(untrusted=True))
    def page() -> str:
        """Return what somebody else wrote."""
        return "hostile"

    @FunctionTool
    async def research(context: Context) -> str:
        """Repeat what somebody else wrote."""
        text = (await page.invoke(ToolCall(name="page"), context)).unwrap()
        if failing:
            raise ToolError(text)
        return text

    def keep(result):
        return ToolResult.failed(result.text) if result.is_error else ToolResult.of(result.value)

    journal = Journal(tmp_path / "j", keep=keep)
    first, stored = (call(journal.once(research, "r")) for _ in range(2))
    assert stored.metadata["journal"]["stored"] is True
    assert (stored.text, stored.metadata["sources"]) == (first.text, ["page"])


def test_a_replay_without_tools_keeps_the_label_of_an_untrusted_tool(tmp_path):
    """The record says that the tool was untrusted, so nobody has to define it again."""

    @FunctionTool(settings=ToolSettings(untrusted=True))
    def page(fails: bool) -> str:
        if fails:
            raise ToolError("from a stranger")
        return "from a stranger"

    journal = Journal(tmp_path / "journal")
    for fails in (True, False):
        call_of(journal.once(page, "r"), {"fails": fails}, id=str(fails))
        again = call_of(journal.replay("r")["page"], {"fails": fails}, id=str(fails))
        assert again.metadata["sources"] == ["page"]
    journal.close()


LONG = ["x" * 100] * 5_000


@FunctionTool
def long_list() -> list[str]:
    """Return a long list."""
    return LONG


def test_a_large_result_is_written_and_read_in_a_thread(tmp_path, monkeypatch):
    """The JSON of a large result is made beside the event loop, and that of a small one on it."""
    journal, threads = Journal(tmp_path / "j"), []

    def noting(func):
        def noted(*given):
            threads.append(threading.current_thread() is threading.main_thread())
            return func(*given)

        return noted

    monkeypatch.setattr(journal_once, "text_of", noting(journal_once.text_of))
    monkeypatch.setattr(journal_replay, "outcome_of", noting(journal_replay.outcome_of))
    small = FunctionTool(lambda: ["x"], name="small")
    tools = journal.once(Toolset([long_list, small]), "r")

    async def main():
        for name in ("long_list", "long_list", "small", "small"):
            await tools.call(ToolCall(name=name, id="c1"))
        return await journal.replay("r", tools).call(ToolCall(name="long_list", id="c1"))

    assert asyncio.run(main()).value == LONG
    assert threads == [False, False, True, True, False]


def test_one_large_result_is_written_or_read_at_a_time(tmp_path, monkeypatch):
    """Large results that end together are written and read one after the other, off the loop."""
    journal, now, most, threads = Journal(tmp_path / "j"), [], [], set()

    def noting(func):
        def noted(*given):
            now.append(1)
            time.sleep(0.01)  # Others would come in between.
            most.append(len(now))
            threads.add(threading.current_thread() is threading.main_thread())
            try:
                return func(*given)
            finally:
                now.pop()

        return noted

    monkeypatch.setattr(journal_once, "text_of", noting(journal_once.text_of))
    monkeypatch.setattr(journal_replay, "outcome_of", noting(journal_replay.outcome_of))
    monkeypatch.setattr(journal._store, "finish", noting(journal._store.finish))
    tools = journal.once(Toolset([long_list]), "r")
    calls = [ToolCall(name="long_list", id=str(number)) for number in range(8)]

    async def main():
        return [*await tools.call_all(calls), *await tools.call_all(calls)]

    assert [result.value for result in asyncio.run(main())] == [LONG] * 16
    assert (most, threads) == ([1] * 24, {False})


def test_a_value_that_the_model_does_not_read_may_be_large(tmp_path, monkeypatch):
    """A value behind a short text is written in a thread too."""
    journal, threads, text_of = Journal(tmp_path / "j"), [], journal_once.text_of

    def noted(*given):
        threads.append(threading.current_thread() is threading.main_thread())
        return text_of(*given)

    monkeypatch.setattr(journal_once, "text_of", noted)

    @FunctionTool
    def hidden() -> ToolResult:
        return ToolResult.of(LONG).shown_as("short")

    assert call(journal.once(hidden, "r"), id="c1").text == "short"
    assert threads == [False]


def test_a_call_that_is_cancelled_while_its_result_is_stored(tmp_path, monkeypatch):
    """A large result that a thread is storing is recorded at once, also with `keep`."""
    journal = Journal(tmp_path / "j", keep=lambda result: result)
    tool, writing, go_on = journal.once(long_list, "r"), threading.Event(), threading.Event()
    finish = journal._store.finish

    def slow(*given):
        if threading.current_thread() is not threading.main_thread():
            writing.set()
            go_on.wait(60)
        return finish(*given)

    monkeypatch.setattr(journal._store, "finish", slow)

    async def main():
        call = asyncio.create_task(tool(ToolCall(name="long_list", id="c1")))
        await asyncio.to_thread(writing.wait, 60)
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await call
        [entry] = journal.calls(run="r")
        go_on.set()
        return entry

    entry = asyncio.run(main())

    assert (entry.state, entry.result.value) == ("done", LONG)


def test_calls_are_read_one_at_a_time(journal, monkeypatch):
    """`each` reads a call when it is asked for; of other states it reads no result."""
    pay, _ = counted()
    for id in ("a", "b", "c"):
        call(journal.once(pay, run="r"), id=id)
    read, make = [], journal_store.Row._make
    monkeypatch.setattr(
        journal_store.Row, "_make", staticmethod(lambda row: read.append(row[3]) or make(row))
    )
    monkeypatch.setattr(journal_module, "outcome_of", lambda text: pytest.fail("a result was read"))

    assert journal.calls(run="r", state="unknown") == []
    read.clear()
    monkeypatch.undo()
    monkeypatch.setattr(
        journal_store.Row, "_make", staticmethod(lambda row: read.append(row[3]) or make(row))
    )
    each = journal.each(run="r")
    assert (next(each).call_id, read) == ("a", ["a"])
    assert journal.purge(datetime.now(UTC) + timedelta(hours=1)) == 3
    assert (list(each), read) == ([], ["a"])
    with pytest.raises(ValueError, match="state must be"):
        next(journal.each(state="over"))


@pytest.mark.parametrize("kept", [False, True])
def test_a_call_that_is_cancelled_while_its_result_is_written(tmp_path, monkeypatch, kept):
    """The outcome of a body that has ended is recorded, unless `keep` has not said what may be kept."""
    journal = Journal(tmp_path / "j", keep=(lambda result: result) if kept else None)
    tool, writing, go_on = journal.once(long_list, "r"), threading.Event(), threading.Event()
    text_of = journal_once.text_of

    def slow(*given):
        if threading.current_thread() is not threading.main_thread():
            writing.set()
            go_on.wait(60)
        return text_of(*given)

    monkeypatch.setattr(journal_once, "text_of", slow)

    async def main():
        call = asyncio.create_task(tool(ToolCall(name="long_list", id="c1")))
        await asyncio.to_thread(writing.wait, 60)
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await call
        go_on.set()

    asyncio.run(main())

    [entry] = journal.calls(run="r")
    assert entry.state == ("unknown" if kept else "done")
    assert kept or entry.result.value == LONG
