"""The page, clicked through in a real Chromium as a stranger would."""

import asyncio
import json
import re
import sys
import threading
from pathlib import Path

import pytest

pytest.importorskip("starlette")
pytest.importorskip("playwright")

from functool import Context, FunctionTool, ToolCall
from functool.guardrails import require_approval
from functool.layers.inbox import Inbox
from functool.layers.journal import Journal
from tests.command_line import SERVER
from tests.play.conftest import ASSETS, KIT, TOKEN
from tests.play.kit import PROGRAM

ROOT = Path(__file__).parents[2]


def until(page, condition):
    """Wait until an expression of the page is true; the page itself may evaluate no text."""
    for _ in range(2_400):  # A busy machine may take a minute.
        if page.evaluate(condition):
            return
        page.wait_for_timeout(25)
    raise AssertionError(f"never true: {condition}")


def elsewhere(work):
    """Run a coroutine in another thread: the browser has a loop in this one."""
    thread = threading.Thread(target=asyncio.run, args=(work,))
    thread.start()
    thread.join()


def happened(page, found):
    """Wait until something is in a list that a listener of the page fills."""
    for _ in range(2_400):
        if found:
            return
        page.wait_for_timeout(25)
    raise AssertionError("it never happened")


def choose(page, name):
    """Choose a tool and wait for its form."""
    page.locator("button.tool", has=page.locator(f".name:text-is('{name}')")).click()
    page.locator("#tool h2", has_text=name).wait_for()
    until(page, "document.querySelector('#raw')?.value.startsWith('{')")


def write(page, **arguments):
    """Write arguments as JSON."""
    page.fill("#raw", json.dumps(arguments))


def fill(page, path, text, kind="textarea"):
    """Fill in one field of the form, and leave it."""
    field = page.locator(f"[data-schemapath='root.{path}'] {kind}")
    field.fill(text)
    field.blur()


def start(page, name=None, **arguments):
    """Call the chosen tool, or choose one first, and return the card of a call that waits."""
    if name:
        choose(page, name)
    if arguments:
        write(page, **arguments)
    page.click("#call")
    return page.locator("#waiting .card")


def call(page, name=None, **arguments):
    """Call a tool, and return the text of the result."""
    start(page, name, **arguments)
    return result(page)


def result(page):
    """The text of the result, once it is there."""
    page.locator("#result h3").wait_for()
    return page.inner_text("#result")


def approve(card):
    card.get_by_text("Approve", exact=True).click()


def edit(card, arguments):
    """Approve a call with other arguments."""
    card.locator("textarea").fill(arguments)
    card.get_by_text("Approve as edited").click()


def refuse(card, reason=""):
    if reason:
        card.locator("input[type=text]").fill(reason)
    card.get_by_text("Refuse").click()


def arguments_of(card):
    """The arguments that a person is asked about."""
    return json.loads(card.locator("textarea").input_value())


def shows(page, text, where="raw"):
    """Wait until the JSON, or another field, holds a text."""
    until(page, f"document.querySelector('#{where}').value.includes({text!r})")


def hold(page, path, **wanted):
    """Hold back the requests to a path that say so; the list is filled as they come."""
    held = []

    def route(request):
        sent = request.request.post_data_json
        if wanted.items() <= sent.items():
            held.append(request)
        else:
            request.continue_()

    page.route(f"**{path}", route)
    return held


def let_go(page, path, held):
    """Let the first request that was held back go on, and the page draw what comes of it."""
    with page.expect_response(f"**{path}"):
        held[0].continue_()
    page.evaluate("() => new Promise((go) => requestAnimationFrame(() => setTimeout(go)))")


def steps(page):
    """The road: step, name, and what it did."""
    return page.evaluate(
        "[...document.querySelectorAll('.road li')].map((i) => [i.dataset.step, i.dataset.name, i.dataset.did])"
    )


def raw(page):
    return json.loads(page.input_value("#raw"))


def test_search_and_badges(page):
    """The list is searched by name, words, tags and badges; a tool shows what it says of itself."""
    page.locator("button.tool").first.wait_for()
    page.fill("#search", "shop read-only")

    assert page.locator("button.tool .name").all_inner_texts() == ["order", "people"]
    assert page.inner_text("#count") == "2 tools"
    page.fill("#search", "remove")
    assert page.locator("button.tool .badge").all_inner_texts() == ["destructive", "asks", "60 s"]


def test_a_form_of_every_kind(page):
    """Unions, nested lists, dates, enums and optional values are fields, in step with the JSON."""
    choose(page, "order")
    page.locator("[data-schemapath='root.items'] button", has_text="Add item").first.click()
    fill(page, "items.0.name", "tea")
    fill(page, "day", "2026-12-24", "input")
    page.locator("[data-schemapath='root.pay'] select").first.select_option(label="Bank")
    fill(page, "pay.iban", "DE02")
    shows(page, "DE02")

    assert raw(page) == {
        "items": [{"name": "tea"}],
        "pay": {"kind": "bank", "iban": "DE02"},
        "day": "2026-12-24",
    }
    page.get_by_label("Send unit").check()
    page.locator("[data-schemapath='root.unit'] select").select_option("weeks")
    shows(page, "weeks")
    text = call(page)
    assert '"bank"' in text and '"weeks"' in text


def test_json_and_form_in_step(page):
    """What is written as JSON appears in the form; what is no JSON says so and changes nothing."""
    choose(page, "say")
    write(page, text="from JSON")
    until(page, "document.querySelector('[data-schemapath$=text] textarea').value === 'from JSON'")
    page.fill("#raw", '{"text": ')
    assert "Not JSON yet" in page.inner_text("#raw-problem")
    fill(page, "text", "from the form")
    shows(page, "from the form")
    assert page.inner_text("#raw-problem") == ""
    page.fill("#raw", '{"text": "a", "extra": true}')
    assert raw(page)["extra"] is True


def test_a_change_right_behind_json_is_not_lost(page):
    """The form takes JSON over for a moment; what the person changes in that moment counts."""
    choose(page, "say")
    page.evaluate(
        """() => {
            const raw = document.querySelector('#raw');
            raw.value = '{"text": "from JSON"}';
            raw.dispatchEvent(new Event('input'));
            const field = document.querySelector('[data-schemapath$=text] textarea');
            field.value = 'from the form';
            field.dispatchEvent(new Event('change'));
        }"""
    )
    shows(page, "from the form")


def test_values_are_sent_as_they_are(page):
    """What looks like HTML in a value is sent as it was written, from the form too."""
    choose(page, "say")
    fill(page, "text", "<b>bold</b> & &lt;i&gt; <img src=x onerror=alert(1)>")
    shows(page, "bold")

    assert raw(page) == {"text": "<b>bold</b> & &lt;i&gt; <img src=x onerror=alert(1)>"}
    assert "You said <b>bold</b> & &lt;i&gt;" in call(page)


IDS = """
from functool import FunctionTool
from functool.guardrails import require_approval

@FunctionTool(input_guardrails=[require_approval()])
def find(id: int = 12345678901234567891, other: int | None = None, ids: list[int] = []) -> list[dict]:
    return [{"id": id, "inside": {"other": other, "ids": ids}}]
"""


def test_long_numbers(playground, open_page, tmp_path):
    """The digits of a long id stay as they are: in the form, the JSON, a table, a grant, a replay."""
    (tmp_path / "ids.py").write_text(IDS)
    page = open_page(playground("ids.py"))
    choose(page, "find")
    field = "[data-schemapath='root.{}'] input:not([type=checkbox])"
    page.locator("#form .json-editor-opt-in").first.check()
    until(page, "document.querySelector('#raw').value.includes('12345678901234567891')")
    page.fill("#raw", '{"other": 98765432109876543211, "ids": [98765432109876543212]}')
    page.locator("#form .json-editor-opt-in").first.check()
    page.fill(field.format("id"), "+98765432109876543214")
    page.locator(field.format("id")).blur()
    until(page, "document.querySelector('#raw').value.includes('98765432109876543214')")
    page.fill(field.format("id"), "-12345678901234567892")
    page.locator(field.format("id")).blur()
    until(page, "document.querySelector('#raw').value.includes('-12345678901234567892')")
    sent = {
        "id": -12345678901234567892,
        "other": 98765432109876543211,
        "ids": [98765432109876543212],
    }
    assert raw(page) == sent
    page.click("#call")
    page.locator(".card summary").click()
    page.locator(".card button", has_text="allow the next").click()
    told = result(page)
    assert all(str(id) in told for id in (-12345678901234567892, sent["other"], *sent["ids"]))
    page.locator("#grants", has_text="-12345678901234567892").wait_for()
    page.fill("#raw", "{}")
    page.locator("#history button").first.click()
    until(page, "document.querySelector('#raw').value.includes('-12345678901234567892')")
    assert raw(page) == sent


PARTLY = """
from functool import SchemaTool

kept = {
    "deep": {"$ref": "#/$defs/deep"},
    "items": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
    "picked": {"enum": ["a", None]},
    "size": {"type": "number"},
    "text": {"type": "string"},
}
deep = {"type": "object", "properties": {"inner": {"$ref": "#/$defs/deep"}, "n": {"type": "integer"}}}
schema = {"type": "object", "properties": kept, "$defs": {"deep": deep}, "required": ["text"]}
keep = SchemaTool("keep", "", schema, lambda given: repr(given))

inherited = {"type": "object", "properties": {"constructor": {"type": "string"}}}
odd = SchemaTool("odd", "", inherited, lambda given: repr(given))
"""


@pytest.fixture
def partly(playground, open_page, tmp_path):
    """A page with tools that a form shows in part, or not at all."""
    (tmp_path / "partly.py").write_text(PARTLY)
    return open_page(playground("partly.py"))


def test_what_a_form_does_not_show_stays(partly):
    """A change in the form changes nothing else of what was written as JSON beside it."""
    choose(partly, "keep")
    deep = {"n": 0}
    for n in range(10):
        deep = {"inner": deep, "n": n}
    items = [{"n": 11, "unknown": 1.0}, {"n": 22}, {"n": 33, "unknown": [None]}]
    sent = {
        "deep": deep,
        "items": items,
        "picked": None,
        "size": 1.5,
        "text": "a",
        "unknown": {"id": 12345678901234567890},
    }
    write(partly, **sent)
    fill(partly, "text", "b")
    shows(partly, '"text": "b"')
    assert raw(partly) == {**sent, "text": "b"}
    assert "1.0" in partly.input_value("#raw")

    fill(partly, "deep.n", "77", "> .form-control input:not([type=checkbox])")
    shows(partly, '"n": 77')
    assert raw(partly) == {**sent, "text": "b", "deep": {**deep, "n": 77}}

    partly.on("dialog", lambda dialog: dialog.accept())
    partly.locator("[data-schemapath='root.items'] button.json-editor-btntype-delete").nth(
        1
    ).click()
    until(partly, """!document.querySelector('#raw').value.includes('"n": 22')""")
    assert raw(partly)["items"] == [items[0], items[2]]

    fill(partly, "size", "12345678901234567893", "input:not([type=checkbox])")
    shows(partly, '"size": 12345678901234567893')


def test_a_schema_that_breaks_the_form(partly):
    """Where the form library fails, the page says that there is no form, and JSON works."""
    choose(partly, "odd")
    partly.locator("#form", has_text="This schema has no form").wait_for()

    assert "{'constructor': 'x'}" in call(partly, constructor="x")


def test_a_large_answer_is_read_as_fast_as_before(page):
    """To keep the digits of long numbers costs nothing where there are none."""
    slower = page.evaluate(
        """async () => {
            const { parsed } = await import("/files/dom.js");
            const text = JSON.stringify(Array(60000).fill({ id: 1, name: "x".repeat(40), of: [1, 2] }));
            const fastest = (read) => Math.min(...Array(5).fill(0).map(() => {
                const begun = performance.now();
                read(text);
                return performance.now() - begun;
            }));
            return fastest(parsed) / fastest(JSON.parse);
        }"""
    )

    assert slower < 4


def test_line_ends(page):
    """A text keeps its line ends in the form, whatever is changed beside it."""
    choose(page, "program")
    field = page.locator("[data-schemapath='root.code'] textarea")
    field.fill("a = 1\n\nif a:\n    a = 2\na")
    field.press("Control+Enter")
    result(page)

    assert '"value": 2' in page.text_content("#result")
    assert raw(page) == {"code": "a = 1\n\nif a:\n    a = 2\na"}


def test_the_tool_that_was_chosen_last(page):
    """The last tool that was chosen is shown, also where the answer for another comes later."""
    late = hold(page, "/api/tool", name="order")
    page.locator("button.tool", has=page.locator(".name:text-is('order')")).click()
    happened(page, late)
    choose(page, "say")
    let_go(page, "/api/tool", late)

    assert page.inner_text("#tool h2") == "say"


def test_the_road(page):
    """Each step says what it did: guardrails that pass, replace and refuse, the body, the output."""
    assert "You said" in call(page, "say", text="it was 1234")
    done = [step[2] for step in steps(page)]
    assert done == ["done", "done", "passed", "done", "replaced", "done"]
    assert "1234" not in page.inner_text("#result")
    assert "No secrets" in call(page, text="a secret")
    assert steps(page) == [
        ["decode", "", "done"],
        ["validate", "", "done"],
        ["input guardrail", "no_secrets", "refused"],
        ["body", "", "skipped"],
        ["output guardrail", "redact", "passed"],
        ["output", "", "failed"],
    ]


def test_errors_stand_at_their_fields(page):
    """A wrong value is told at its field, and a text that is no JSON at the JSON."""
    choose(page, "order")
    page.locator("[data-schemapath='root.items'] button", has_text="Add item").first.click()
    shows(page, "name")
    call(page)
    day = page.locator("[data-schemapath='root.day']")

    assert "day: expected" in day.locator(".problem").inner_text()
    assert day.locator("input").get_attribute("aria-invalid") == "true"
    assert [step[2] for step in steps(page)][:2] == ["done", "refused"]
    page.fill("#raw", "{nonsense")
    page.click("#call")
    page.locator("#result h3.failed").wait_for()
    assert steps(page)[0] == ["decode", "", "refused"]


def test_tables_trees_images_and_sounds(page):
    """A list of objects is a table, an object a tree, and images and sounds are shown as such."""
    call(page, "people", count=3)
    assert page.locator("#result th").all_inner_texts() == ["name", "age", "tags"]
    assert page.locator("#result tbody tr").count() == 3
    call(page, "order", items=[], pay={"kind": "card", "number": "1"}, day="2026-01-02")
    tree = page.locator("#result details.tree").first
    leaf = tree.locator(".leaf").first.inner_text()
    assert leaf.startswith("day") or "names" in tree.inner_text()
    call(page, "draw")
    until(page, "document.querySelector('#result img').naturalWidth === 64")
    assert page.locator("#result audio").count() == 1


def tree(page):
    """The inner calls: how deep each stands, its tool, and what came of it."""
    return page.evaluate(
        """[...document.querySelectorAll('#inner li')].map((item) => {
            let depth = 0;
            for (let up = item; (up = up.parentElement.closest('#inner li')); ) depth += 1;
            return [depth, item.querySelector('.who').textContent, item.querySelector('.did').textContent];
        })"""
    )


def test_the_calls_of_a_program(page):
    """The calls of a program are a tree; it waits in the middle for a person, and then goes on."""
    card = start(page, "program", code=PROGRAM)
    card.wait_for()
    before = [
        [0, "cities", "done"],
        [0, "cities", "ToolError"],
        [0, "compute", "done"],
        [1, "cities", "done"],
        [0, "scout", "done"],
        [1, "cities", "done"],
        [1, "cities", "ToolError"],
    ]
    page.locator("#inner li[data-did=waits]", has_text="book").wait_for()

    assert tree(page) == [*before, [0, "book", "waits for a person"]]
    assert page.locator(".road li[data-step=body]").get_attribute("data-did") == "started"
    assert arguments_of(card) == {"city": "Utopia 0", "nights": 2}
    approve(card)
    result(page)
    assert tree(page) == [*before, [0, "book", "done"]]
    assert "booked 2 in Utopia 0" in page.text_content("#result")
    assert page.locator("#inner table").count() == 0  # What is closed is not drawn.
    page.locator("#inner summary", has_text="cities").first.click()
    first = page.locator("#inner li").first
    first.locator(".told", has_text="Utopia").wait_for()
    assert first.locator("th").all_inner_texts() == ["city", "price"]
    page.locator("#inner summary", has_text="ToolError").first.click()
    page.locator("#inner pre", has_text="There is no such country.").wait_for()


def test_a_program_whose_call_is_refused_or_edited(page):
    """A person edits a call in the middle of a program, and refuses another one."""
    start(page, "program", code="[await book(city='a'), await book(city='b')]")
    edit(page.locator("#waiting .card", has_text="/1"), '{"city": "Rome", "nights": 3}')
    refuse(page.locator("#waiting .card", has_text="/2"), "no rooms")
    page.locator("#result h3.failed").wait_for()

    assert tree(page) == [[0, "book", "done"], [0, "book", "GuardrailError"]]
    assert "no rooms" in page.inner_text("#result")
    page.locator("#inner summary", has_text="book").first.click()
    page.locator("#inner pre", has_text="booked 3 in Rome").wait_for()


def test_a_program_that_is_cancelled(page):
    """When a program is cancelled while it waits, its request goes away and the call has ended."""
    card = start(page, "program", code="await book(city='a')")
    card.wait_for()
    page.click("main > .row > .stop")
    page.locator("#call:not([disabled])").wait_for()
    card.wait_for(state="detached")

    assert tree(page) == [[0, "book", "ended"]]


def test_many_inner_calls(page):
    """Calls that a sync function makes on a thread are shown too, up to a number."""
    assert "400 calls" in call(page, "many", count=400)
    assert len(tree(page)) == 300
    page.click("summary:text-is('Events')")
    assert "after 300 inner calls" in page.inner_text(".events")


def test_calls_of_another_process(page):
    """Calls that only the result tells of stand in the tree by their ids."""
    call(page, "told")

    assert tree(page) == [[0, "search", "done"], [1, "fetch", "failed"], [0, "pay", "waiting"]]


def test_progress_and_events(page):
    """Progress and the author's events are shown while the call runs; a call can be cancelled."""
    start(page, "count", steps=400, pause=0.02)
    until(page, "document.querySelector('progress').value > 2")
    assert page.locator(".road li[data-step=body]").get_attribute("data-did") == "started"
    page.click("main > .row > .stop")
    page.locator("#call:not([disabled])").wait_for()
    assert page.locator(".road li[data-step=body]").get_attribute("data-did") == "skipped"
    page.locator("#history li[data-outcome=cancelled]").first.wait_for()
    call(page, steps=3, pause=0)
    page.click("summary:text-is('Events')")
    assert "counted" in page.inner_text(".events")


def test_a_conversation(page):
    """Calls share state until a new conversation begins; dependencies come from --context."""
    page.click("#fresh")
    page.locator("#status", has_text="new conversation").wait_for()
    assert "counted 1 times" in call(page, "count", steps=1, pause=0)
    assert "counted 2 times" in call(page)
    page.click("#fresh")
    page.locator("#status", has_text="new conversation").wait_for()
    assert "counted 1 times" in call(page)
    assert "deps of Ada" in call(page, "who")


def test_a_file_as_bytes(page, tmp_path):
    """A value of bytes can be chosen as a file: in base64 any, else one of text."""
    (tmp_path / "data.bin").write_bytes(bytes(range(256)) * 300)
    (tmp_path / "data.txt").write_text("é" * 40_000, "utf-8")
    choose(page, "sizes")
    page.set_input_files("[data-schemapath='root.file'] input[type=file]", tmp_path / "data.bin")
    until(page, "document.querySelector('#raw').value.length > 1000")
    page.set_input_files("[data-schemapath='root.text'] input[type=file]", tmp_path / "data.bin")
    page.locator("#status", has_text="no UTF-8 text").wait_for()
    page.set_input_files("[data-schemapath='root.text'] input[type=file]", tmp_path / "data.txt")
    shows(page, "éé")

    assert "76800 80000" in call(page)


def test_definitions(page):
    """The definition is shown for each provider, plain and strict, with what is lost."""
    choose(page, "order")
    page.click("summary:text-is('Definition for each provider')")
    until(page, "document.querySelector('#definition').textContent.includes('order')")
    names = page.locator("#definitions option").all_inner_texts()
    assert {"openai", "anthropic", "gemini", "mcp"} <= set(names)
    for name in names:
        page.get_by_label("Dialect").select_option(name)
        until(page, "document.querySelector('#losses').textContent.length > 0")
    late = hold(page, "/api/definition", dialect="gemini")
    page.get_by_label("Dialect").select_option("gemini")
    happened(page, late)
    page.get_by_label("Dialect").select_option("openai")
    page.get_by_label("strict").check()
    until(page, "document.querySelector('#definition').textContent.includes('\"strict\": true')")
    let_go(page, "/api/definition", late)
    assert '"strict": true' in page.text_content("#definition")  # A late answer changes nothing.


def test_spelling_and_history(page):
    """The call is spelled in Python and on the command line, and can be replayed."""
    call(page, "people", count=2)
    page.click("summary:text-is('The same call in Python and on the command line')")
    shown = page.locator("#spelling pre").all_inner_texts()

    assert shown[0].startswith("people(count=2)\n")
    assert shown[1].endswith("people --json '{\"count\": 2}'")
    choose(page, "say")
    page.locator("#history li", has_text='{"count": 2}').first.locator("button").click()
    page.locator("#tool h2", has_text="people").wait_for()
    shows(page, "2")
    call(page)
    assert page.locator("#result tbody tr").count() == 2
    call(page, "say", text="long " * 2_000)
    choose(page, "people")
    page.locator("#history li", has_text="long long").first.locator("button").click()
    page.locator("#tool h2", has_text="say").wait_for()
    until(page, "document.querySelector('#raw').value.length > 10000")
    assert raw(page) == {"text": "long " * 2_000}


def test_approve_edit_and_refuse(page):
    """A call waits on the page: it is approved, edited and approved, or refused with a reason."""
    card = start(page, "remove", path="a")
    assert arguments_of(card) == {"path": "a", "force": False}
    approve(card)
    assert "removed a" in result(page)
    card.wait_for(state="detached")
    edit(start(page, path="b"), '{"path": "c", "force": true}')
    told = result(page)
    assert "removed c" in told and "A person changed the arguments" in told
    card.wait_for(state="detached")
    edit(start(page, path="d"), "[]")
    card.locator(".problem", has_text="one JSON object").wait_for()
    refuse(card, "not on Sundays")
    assert "not on Sundays" in result(page)


def test_allow_for_next_time(page):
    """A scope is allowed for the next calls, is counted, and can be revoked."""
    card = start(page, "remove", path="a")
    card.locator("summary").click()
    card.get_by_label("path may be anything").check()
    card.get_by_label("How many calls").fill("3")
    assert "for the conversation that asks (this page) and for no other" in card.inner_text()
    card.get_by_text("Approve, and allow the next ones").click()
    result(page)
    page.locator("#grants li", has_text="3 more").wait_for()
    assert "for this page" in page.inner_text("#grants")
    assert "removed b" in call(page, path="b")
    page.locator("#grants li", has_text="2 more").wait_for()
    refuse(start(page, path="c", force=True))
    card.wait_for(state="detached")
    page.locator("#grants button").click()
    page.locator("#grants").wait_for(state="detached")


def test_what_is_allowed_ends_with_the_conversation(page):
    """After "New conversation" a call asks again, whatever the one before was allowed."""
    card = start(page, "remove", path="a")
    card.locator("summary").click()
    card.get_by_text("Approve, and allow the next ones").click()
    result(page)
    assert "removed a" in call(page)
    page.click("#fresh")
    page.locator("#grants li", has_text="for conversation").wait_for()
    refuse(start(page))
    page.locator("#grants button").click()
    page.locator("#grants").wait_for(state="detached")


def test_two_tabs(kit, open_page):
    """A call that one tab makes can be answered in another."""
    one, two = open_page(kit), open_page(kit)
    start(one, "remove", path="x")
    two.get_by_text("1 call waits for you").click()
    until(
        two, "document.activeElement.id === 'waiting-title' || location.hash === '#waiting-title'"
    )
    one.locator(".road li", has_text="waits for a person").wait_for()
    approve(two.locator("#waiting .card"))

    assert "removed x" in result(one)
    two.locator("#history li", has_text="remove").first.wait_for()


def test_a_page_without_a_cookie_says_what_to_do(kit, open_page):
    """A page whose server was started again, and so does not know its cookie, says which address to open."""
    page = open_page(kit)
    choose(page, "say")
    page.context.clear_cookies()
    page.locator("#call").click()
    page.locator("#status", has_text="Open the address").wait_for()


def test_another_process(playground, open_page, tmp_path):
    """A call of an agent elsewhere waits on the page, with the sources of its arguments.

    Names in them are written out, because a model may have chosen them.
    """
    inbox, results = Inbox(tmp_path / "inbox.db"), []

    @FunctionTool(input_guardrails=[require_approval()], timeout=60)
    def send(to: str) -> str:
        """Send."""
        return f"sent to {to}"

    def agent():
        sources = {"/to": ["fetch"], "/to/\u202ex": ["mail"]}
        arguments = {"to": "Ada"}
        sent = ToolCall(id="c1", name="send", arguments=arguments, metadata={"sources": sources})
        results.append(asyncio.run(send(sent, Context(approver=inbox.approver))))

    thread = threading.Thread(target=agent)
    thread.start()
    page = open_page(playground(str(KIT), "--inbox", "inbox.db"))
    card = page.locator("#waiting .card")
    card.wait_for()
    assert "/to came from fetch" in card.inner_text()
    assert "/to/\\u202ex came from mail" in card.inner_text()
    approve(card)
    thread.join()
    assert results[0].text == "sent to Ada"


def test_a_journal(playground, open_page, tmp_path):
    """A journal's calls are history, with texts as they are; an unknown one is settled or reopened."""
    journal = Journal(tmp_path / "calls.journal")

    @FunctionTool
    async def pay(amount: int, to: str = "") -> str:
        """Pay."""
        if amount > 1:
            await asyncio.sleep(60)
        return "paid"

    async def fill():
        tool = journal.once(pay, run="order-17")
        await tool(ToolCall(id="c1", name="pay", arguments={"amount": 1, "to": "Zoë"}))
        for id in ("c2", "c3"):
            task = asyncio.create_task(tool(ToolCall(id=id, name="pay", arguments={"amount": 9})))
            await asyncio.sleep(0.3)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    elsewhere(fill())
    page = open_page(playground(str(KIT), "--journal", "calls.journal"))
    unknown = page.locator("#journal li[data-outcome=unknown]")
    unknown.first.wait_for()
    assert unknown.count() == 2
    replayed = page.evaluate(
        """async (key) => (await import("/files/dom.js")).post("/api/replayed", { key })""",
        journal.calls()[0].key,
    )
    assert '"to": "Zoë"' in replayed["text"]
    unknown.first.locator("input").fill("it went through")
    elsewhere(
        journal.once(pay, run="order-18")(ToolCall(id="c1", name="pay", arguments={"amount": 0}))
    )
    page.locator("#journal li", has_text="order-18").wait_for()
    # A call that is recorded meanwhile takes away neither the words of the person nor the focus.
    assert page.evaluate("document.activeElement.value") == "it went through"
    unknown.first.get_by_text("It was done").click()
    until(page, "document.querySelectorAll('#journal li[data-outcome=unknown]').length === 1")
    assert "it went through" in page.inner_text("#journal")
    unknown.first.get_by_text("Let it run again").click()
    until(page, "document.querySelectorAll('#journal li[data-outcome=unknown]').length === 0")
    assert [entry.state for entry in journal.calls()] == ["done", "done", "done"]


FOREIGN = """
import anyio
import mcp_types as types
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel
from tests.play.kit import png

server = MCPServer("foreign")

class Person(BaseModel):
    name: str
    age: int = 20

@server.tool()
def add(a: int, b: int = 2) -> int:
    "Add two numbers."
    return a + b

@server.tool()
def people(first: Person, more: list[Person] = []) -> list[Person]:
    "Return people."
    return [first, *more]

@server.tool()
def picture() -> Image:
    "Draw."
    return Image(data=png(48, 32), format="png")

@server.tool()
async def slow(steps: int, ctx: Context) -> str:
    "Take steps."
    for step in range(steps):
        await ctx.report_progress(step + 1, steps, f"step {step + 1}")
        await anyio.sleep(0.01)
    return "done"

@server.tool()
def broken(what: str) -> str:
    "Fail."
    raise ToolError(f"<b>{what}</b> is broken")

class Trip(BaseModel):
    city: str
    nights: int = 2

def form(name, message, schema):
    params = types.ElicitRequestFormParams(message=message, requested_schema=schema)
    return {name: types.ElicitRequest(params=params)}

@server.tool()
async def plan(ctx: Context) -> str | types.InputRequiredResult:
    "Ask where to go."
    schema = Trip.model_json_schema()
    asked = form("trip", "Where do you <b>want</b> to go?", schema)
    if not ctx.input_responses:
        return types.InputRequiredResult(input_requests=asked)
    answer = ctx.input_responses["trip"]
    return f"{answer.action} {answer.content}"

server.run()
"""


@pytest.fixture
def foreign(playground, open_page, tmp_path):
    """A page of the playground of a server that somebody else wrote."""
    (tmp_path / "foreign.py").write_text(FOREIGN)
    env = {"PYTHONPATH": str(ROOT)}
    return open_page(playground(f"mcp:{sys.executable} foreign.py", env=env))


def test_a_foreign_server(foreign):
    """The tools of an MCP server that somebody else wrote have forms, roads, pictures and errors."""
    page = foreign
    assert "5" in call(page, "add", a=3)
    choose(page, "people")
    fill(page, "first.name", "Ada")
    call(page)
    assert page.locator("#result .leaf").all_inner_texts() == ['name: "Ada"', "age: 20"]
    call(page, "picture")
    until(page, "document.querySelector('#result img').naturalWidth === 48")
    assert "done" in call(page, "slow", steps=5)
    page.click("summary:text-is('Events')")
    assert "5 of 5" in page.inner_text(".events")
    assert "<b>it</b> is broken" in call(page, "broken", what="it")
    assert ["body", "", "failed"] in steps(page)
    call(page, "add", a="x")
    page.locator("[data-schemapath='root.a'] .problem").wait_for()
    start(page, "slow", steps=100_000)
    until(page, "document.querySelector('progress').value > 2")
    page.click("main > .row > .stop")
    page.locator("#history li[data-outcome=cancelled]").wait_for()
    assert "7" in call(page, "add", a=5)


def test_a_question_of_a_server(foreign):
    """What a server asks a person waits on the page: it is answered, or declined."""
    page = foreign
    start(page, "plan")
    card = page.locator("#waiting .card", has_text="want</b> to go?")
    assert "- nights: integer, optional" in card.inner_text()
    assert arguments_of(card) == {"city": None, "nights": 2}
    edit(card, '{"city": "Rome", "nights": 3}')
    page.locator("#result", has_text="accept {'city': 'Rome', 'nights': 3}").wait_for()
    card.wait_for(state="detached")
    refuse(start(page))
    page.locator("#result", has_text="decline").wait_for()


def test_an_approval_of_a_served_tool(playground, open_page):
    """A tool that another `functool serve` asks about is approved on the page."""
    command = f"mcp:{SERVER} {KIT}:remove"
    page = open_page(playground(command))
    card = start(page, "remove", path="/srv/old")
    card.locator("pre", has_text="/srv/old").wait_for()
    approve(card)
    page.locator("#result", has_text="removed /srv/old").wait_for()


DEMO = ("examples.playground", "--context", "examples.playground:project")
MEND = {"path": "median.py", "old": "ordered[middle + 1]", "new": "ordered[middle - 1]"}


def test_the_tools_of_the_demo(playground, open_page):
    """The demo's tools show a failing test, a refusal, and an edit that waits for a person."""
    page = open_page(playground(*DEMO, cwd=ROOT))
    assert "3.5 != 2.5" in call(page, "run_tests")
    assert "names no arguments" in page.inner_text("#form")
    assert "ordered[middle + 1]" in call(page, "read_file", path="median.py")
    refused = call(page, "edit_file", path="test_median.py", old="2.5", new="3.5")
    assert "Mend the code, not the test." in refused
    assert ["input guardrail", "tests_stay", "refused"] in steps(page)
    card = start(page, **MEND)
    assert arguments_of(card)["new"] == "ordered[middle - 1]"
    approve(card)
    page.locator("#result h3", has_text="Result").wait_for()
    assert "OK" in call(page, "run_tests")


def test_an_openapi_document(playground, open_page, tmp_path):
    """The target may be an OpenAPI document: a tool for each operation."""
    answers = {"200": {"description": "It"}}
    operation = {"operationId": "get_pet", "summary": "Get a pet.", "responses": answers}
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Pets", "version": "1"},
        "servers": [{"url": "http://127.0.0.1:9"}],
        "paths": {"/pet": {"get": operation}},
    }
    (tmp_path / "api.json").write_text(json.dumps(document))
    page = open_page(playground("api.json"))
    page.locator("button.tool").first.wait_for()

    assert page.locator("button.tool .name").all_inner_texts() == ["get_pet"]


def test_the_keyboard(page):
    """Everything can be reached and done with the keyboard alone."""
    page.locator("button.tool").first.wait_for()
    page.focus("#search")
    page.keyboard.type("people")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.locator("#tool h2", has_text="people").wait_for()
    until(page, "document.querySelector('#raw')?.value.startsWith('{')")
    page.focus("#raw")
    page.keyboard.press("Control+Enter")
    page.locator("#result table").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_axe_finds_no_serious_fault(kit, open_page, scheme, width):
    """A checker of accessibility finds no serious fault, and nothing is cut off at 360 pixels."""
    from axe_playwright_python.sync_playwright import Axe

    page = open_page(kit, color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 800})
    choose(page, "order")
    page.locator("[data-schemapath='root.items'] button", has_text="Add item").first.click()
    page.locator("[data-schemapath='root.items.0.name'] textarea").wait_for()
    call(page)
    call(page, "people")
    card = start(page, "remove", path="x")
    card.wait_for()
    found = []
    for name in ("remove", "order"):
        choose(page, name)
        found += [
            (each["id"], [node["html"][:200] for node in each["nodes"]][:4])
            for each in Axe().run(page).response["violations"]
            if each["impact"] in ("serious", "critical")
        ]
    wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    refuse(card)
    card.wait_for(state="detached")

    assert found == []
    assert wide <= 0


def shot(page, name):
    """Write a screenshot into the docs, unless it is there: each would differ in its times."""
    path = ASSETS / f"play-{name}.png"
    if not path.exists():
        page.screenshot(path=path)
    assert path.stat().st_size < 200_000


def test_screenshots(playground, kit, open_page):
    """The pictures of the documentation are this page's."""
    running = playground(*DEMO, cwd=ROOT, env={"FUNCTOOL_PLAY_TOKEN": TOKEN})
    page = open_page(running)
    page.set_viewport_size({"width": 1180, "height": 900})
    call(page, "read_file", path="median.py")
    call(page, "run_tests")
    page.locator("#history li[data-outcome=success]").nth(1).wait_for()
    page.evaluate("window.scrollTo(0, 0)")
    shot(page, "call")
    card = start(page, "edit_file", **MEND)
    page.locator(".road li", has_text="waits for a person").wait_for()
    page.evaluate("window.scrollTo(0, 0)")
    shot(page, "approval")
    refuse(card)
    card.wait_for(state="detached")
    phone = open_page(running, color_scheme="dark")
    phone.set_viewport_size({"width": 360, "height": 740})
    call(phone, "read_file", path="median.py")
    phone.evaluate("document.querySelector('#road').scrollIntoView()")
    shot(phone, "phone")
    night = open_page(kit, color_scheme="dark")
    night.set_viewport_size({"width": 1180, "height": 900})
    night.fill("#search", "program")
    card = start(night, "program", code=PROGRAM)
    night.locator("#inner li[data-did=waits]").wait_for()
    night.locator("#inner summary", has_text="cities").first.click()
    night.locator("#inner table").wait_for()
    night.evaluate("document.querySelector('#road').scrollIntoView({block: 'center'})")
    shot(night, "program")
    refuse(card)
    card.wait_for(state="detached")


def test_every_picture_of_the_docs_is_there():
    """The documentation shows no picture that these tests do not make."""
    pages = [ROOT / "docs" / "playground.md", ROOT / "README.md"]
    named = {
        name for each in pages for name in re.findall(r"play-\w+\.png", each.read_text("utf-8"))
    }

    assert named == {"play-call.png", "play-approval.png", "play-phone.png", "play-program.png"}
