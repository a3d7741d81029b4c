"""What a server asks a person: it waits in the inbox."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from types import SimpleNamespace

import pytest

pytest.importorskip("starlette")

from functool import ApprovalRequest, Toolset
from functool.layers.inbox import Inbox
from functool.play.desk import Desk
from functool.play.questions import asker
from functool.play.shown import shown_request

FORM = {
    "properties": {
        "city": {"type": "string", "description": "Where to"},
        "nights": {"type": "integer", "default": 2},
        "class": {"type": "string", "enum": ["a", "b"], "title": "Class"},
        "sure": {"type": "boolean"},
    },
    "required": ["city"],
}


def beside(test):
    """Run an async test on a thread of its own: Playwright's loop may run on this one."""

    @wraps(test)
    def run(tmp_path):
        with ThreadPoolExecutor(1) as pool:
            pool.submit(lambda: asyncio.run(test(tmp_path))).result()

    return run


async def asked(inbox, message, form):
    """A question that waits, and its request."""
    asking = asyncio.create_task(asker(inbox)(message, form))
    while not (pending := inbox.pending()):
        await asyncio.sleep(0.01)
    return asking, pending[0]


@beside
async def test_a_form(tmp_path):
    """The person sees the message and each field; what is left empty is left out of the answer."""
    inbox = Inbox(tmp_path / "inbox.db")
    asking, request = await asked(inbox, "Where?", FORM)
    shown = shown_request(request)

    assert shown["question"].splitlines() == [
        "Where?",
        "- city: string (Where to)",
        "- nights: integer, optional",
        "- class: one of a, b, optional (Class)",
        "- sure: boolean, optional",
    ]
    assert (shown["tool"], shown["whole"]) == ("", True)
    assert request.arguments == {"city": None, "nights": 2, "class": None, "sure": False}
    inbox.approve(request.id, {"city": "Rome", "nights": 3, "class": None})
    assert await asking == {"city": "Rome", "nights": 3}


@beside
async def test_texts_with_line_ends(tmp_path):
    """What a server says about one field does not look like another field."""
    inbox = Inbox(tmp_path / "inbox.db")
    fields = {"city\n- fee: 0": {"type": "string", "title": "City)\n- pay: boolean (now"}}
    asking, request = await asked(inbox, "Where?", {"properties": fields})
    asking.cancel()

    assert shown_request(request)["question"].splitlines()[1:] == [
        "- city - fee: 0: string, optional (City) - pay: boolean (now)"
    ]


@beside
async def test_yes_or_no(tmp_path):
    """A question with one field, yes or no, is answered with a yes by approving it."""
    inbox = Inbox(tmp_path / "inbox.db")
    form = {"properties": {"approve": {"type": "boolean"}}}
    asking, request = await asked(inbox, "Run it?", form)
    assert shown_request(request)["question"] == "Run it?"
    inbox.approve(request.id)

    assert await asking == {"approve": True}
    asking, request = await asked(inbox, "Run it?", form)
    inbox.deny(request.id)
    assert await asking is None


@beside
async def test_a_field_of_any_value(tmp_path):
    """A field without a schema, `true`, is asked like the others."""
    asking, request = await asked(
        inbox := Inbox(tmp_path / "inbox.db"), "What?", {"properties": {"it": True}}
    )
    assert shown_request(request)["question"].splitlines() == ["What?", "- it: any value, optional"]
    inbox.approve(request.id, {"it": 1})

    assert await asking == {"it": 1}


@beside
async def test_a_question_without_words(tmp_path):
    """A question without words is shown as a question, and not as a call of a tool without a name."""
    inbox = Inbox(tmp_path / "inbox.db")
    form = {"properties": {"approve": {"type": "boolean"}}}
    for message in ("", " \n"):
        asking, request = await asked(inbox, message, form)

        assert "no words" in shown_request(request)["question"]
        inbox.deny(request.id)
        assert await asking is None


def test_a_nested_request_reaches_the_page_as_it_is():
    """Arguments that would be long only because they are indented reach the page on one line."""
    nested = json.loads(f"[{','.join(['[' * 90 + ']' * 90] * 500)}]")
    text = json.dumps({"x": nested})
    short = shown_request(ApprovalRequest.of("t", "d", {"x": nested}, "c"))
    long = shown_request(ApprovalRequest.of("t", "d", {"x": nested * 3}, "c"))

    assert (short["arguments"], short["size"], short["whole"]) == (text, len(text), True)
    assert (long["arguments"], long["whole"]) == ("", False)
    assert long["size"] == len(json.dumps({"x": nested * 3}))


def test_a_request_whose_sources_are_too_long_is_not_whole():
    """The places of its sources are shown too, so they count."""
    sources = {f"/x/{'k' * 200_000}/{number}": ["the model"] for number in range(2)}
    shown = shown_request(ApprovalRequest.of("t", "d", {"x": 1}, "c", sources))

    assert (shown["whole"], shown["arguments"], shown["sources"]) == (False, "", {})


def test_a_nested_call_of_the_journal_is_replayed_as_it_is(tmp_path):
    """Its arguments are not indented to a hundred times their length."""
    nested = json.loads(f"[{','.join(['[' * 90 + ']' * 90] * 500)}]")
    kept = SimpleNamespace(key="k", tool="t", arguments={"x": nested})
    journal = SimpleNamespace(each=lambda: [kept])
    desk = Desk(Toolset(), "kit.py", Inbox(tmp_path / "inbox.db"), journal=journal)

    assert desk.replayed({"key": "k"}) == {"tool": "t", "text": json.dumps({"x": nested})}


@beside
async def test_a_question_that_is_too_long(tmp_path):
    """A question that cannot be shown in whole can only be declined."""
    inbox = Inbox(tmp_path / "inbox.db")
    asking, request = await asked(inbox, "x" * 300_000, {})

    assert shown_request(request)["whole"] is False
    inbox.deny(request.id)
    assert await asking is None
