"""`functool approvals`, and approval at the terminal."""

import asyncio
import json
import sqlite3
import threading
from contextlib import closing

import pytest

pytest.importorskip("click")
pytest.importorskip("rich")


from click import ClickException

from functool import ApprovalRequest, Context, FunctionTool, GuardrailError, ToolCall
from functool.guardrails import require_approval
from functool.integrations.click_approval import approve, edited, request_text
from functool.layers.inbox import Inbox
from tests.command_line import editor, terminal
from tests.command_line import run as run_program


@FunctionTool(input_guardrails=[require_approval()], timeout=60)
def remove(path: str) -> str:
    """Remove a file.

    Args:
        path: Which.
    """
    return f"removed {path}"


@pytest.fixture
def waits(tmp_path):
    """A function that makes a call in another thread, and returns how to wait for its result."""
    path = tmp_path / "inbox.db"
    inbox, threads = Inbox(path), []

    def call(argument):
        results = []

        def run():
            sent = ToolCall(id="c1", name="remove", arguments={"path": argument})
            results.append(asyncio.run(remove(sent, Context(approver=inbox.approver))))

        thread = threading.Thread(target=run)
        threads.append(thread)
        thread.start()
        while not inbox.pending():
            pass

        def result():
            thread.join()
            return results[0]

        return str(path), inbox.pending()[0].id, result

    yield call
    for thread in threads:
        thread.join()


def run(*words, **options):
    return run_program("approvals", *words, **options)


def test_list_and_approve(waits):
    """The list shows what waits without escapes; approving shows the whole request and asks."""
    path, id, result = waits("a\x1b[31mb")
    listed = run(path, "list").stdout

    assert listed == f'{id}\tremove\t{{"path": "a\\u001b[31mb"}}\n'
    assert json.loads(run(path, "list", "--json").stdout)[0]["id"] == id
    run(path, "approve", id, input="n\n", code=1)
    approved = run(path, "approve", id[:6], input="y\n")
    assert "a\\u001b[31mb" in approved.stderr
    assert result().text == "removed a\x1b[31mb"
    assert run(path, "list").stdout == ""


def test_edit(waits):
    """Edited arguments run instead; what is no JSON object is refused."""
    path, id, result = waits("a")

    assert "one JSON object" in run(path, "edit", id, "--arguments", "[]", code=2).stderr
    assert "nothing.json" in run(path, "edit", id, "--arguments", "@nothing.json", code=2).stderr
    assert "not JSON" in run(path, "edit", id, "--arguments", '{"path": NaN}', code=2).stderr
    run(path, "edit", id, "--arguments", '{"path": "b"}')
    assert "removed b" in result().text


def test_edit_in_an_editor(waits, tmp_path):
    """Without `--arguments` the person's editor opens."""
    path, id, result = waits("a")
    code = """text = text.replace('"a"', '"c"')"""
    run(path, "edit", id, env=editor(tmp_path, code))

    assert "removed c" in result().text


def test_deny(waits):
    """The reason is the model's to read."""
    path, id, result = waits("a")
    run(path, "deny", id, "--reason", "no")

    assert result().text == "A person refused this call: no"


def test_a_request_that_is_too_long(tmp_path):
    """What nobody could see whole is neither printed nor approved, however deeply it is nested."""
    path = tmp_path / "inbox.db"
    inbox = Inbox(path)
    nested = json.loads(f"[{','.join(['[' * 90 + ']' * 90] * 500)}]")
    asked = ApprovalRequest.of("remove", "d", {"path": nested}, "c")
    results = []
    waiting = threading.Thread(target=lambda: results.append(asyncio.run(inbox.approver(asked))))
    waiting.start()
    while not inbox.pending():
        pass

    refused = run(path, "approve", asked.id, input="y\n", code=1).stderr
    still = [each.id for each in inbox.pending()]
    listed = run(path, "list", "--json").stdout
    run(path, "deny", asked.id)
    waiting.join()

    assert len(refused) < 500 and "at most 10,000" in refused and "--yes" in refused
    assert still == [asked.id]
    assert json.loads(listed)[0]["arguments"] == {"path": nested}
    assert len(listed) < 110_000
    assert results[0].approved is False


def test_wrong_words(tmp_path):
    """A file that is not there, an id that is not there, and a file that is no inbox are one line."""
    path = tmp_path / "inbox.db"

    assert "does not exist" in run(str(path), "list", code=2).stderr
    Inbox(path)
    assert "no request waits" in run(str(path), "approve", "x", code=1).stderr
    (tmp_path / "text").write_text("no database" * 1_000)
    assert "cannot be used" in run(str(tmp_path / "text"), "list", code=1).stderr


def test_a_file_that_somebody_changed(tmp_path):
    """Every command on an inbox that cannot be read is one line."""
    path = tmp_path / "inbox.db"
    Inbox(path)
    with closing(sqlite3.connect(path)) as database:
        database.execute("INSERT INTO requests VALUES ('x', 'c', '?', 9e9, NULL, NULL, NULL, NULL)")
        database.commit()
    for words in (
        ["list"],
        ["list", "--json"],
        ["approve", "x", "--yes"],
        ["edit", "x"],
        ["deny", "x"],
    ):
        told = run(str(path), *words, code=1).stderr

        assert told.startswith("Error: ") and told.count("\n") == 1


def request(**arguments):
    return ApprovalRequest.of("t", "d", arguments, "c", {"/a": ["fetch"]})


def test_what_is_told():
    """A person reads all of the arguments, with hidden characters written out, and their sources."""
    assert request_text(request(a="x\u202ey\x7f")) == (
        't {\n  "a": "x\\u202ey\\u007f"\n}\n/a came from fetch, which may hold text of strangers'
    )


def test_a_name_with_a_line_end_makes_no_line_of_its_own():
    """A name that a model chose cannot look like a line of ours about the sources."""
    asked = ApprovalRequest.of("t", "d", {}, "c", {"/a\n/b came from us\u202e": ["fetch"]})

    assert request_text(asked).splitlines() == [
        "t {}",
        "/a\\n/b came from us\\u202e came from fetch, which may hold text of strangers",
    ]


def test_a_question_with_line_ends_is_one_line_of_the_list(tmp_path):
    """A server's question cannot look like a second request."""
    path = str(tmp_path / "inbox.db")
    inbox = Inbox(path)
    asked = ApprovalRequest.of("Name?\nabcd\tremove\t{}", "question", {}, "")
    waiting = threading.Thread(target=lambda: asyncio.run(inbox.approver(asked)))
    waiting.start()
    while not inbox.pending():
        pass

    listed = run(path, "list").stdout
    inbox.deny(asked.id)
    waiting.join()

    assert listed == f"{asked.id}\tName? abcd remove {{}}\t{{}}\n"


def test_without_a_terminal():
    """Where nobody can be asked the call is refused, and not in the name of a person."""
    places = {f"/a/{n}": ["fetch"] for n in range(500)}
    many = ApprovalRequest.of("t", "d", {"a": [""] * 500}, "c", places)
    for asked in (request(a=1), request(a="x" * 20_000), many):
        with pytest.raises(GuardrailError, match=r"^The call was refused\. Nobody was asked: "):
            approve(asked)


def test_editing():
    """What was not saved is None; a text that is no JSON may be mended."""
    assert edited(request(a=1), lambda *args, **options: None) is None
    assert edited(request(a=1), lambda *args, **options: '{"a": 2}') == {"a": 2}


def test_editing_at_the_terminal(tmp_path):
    """At the question `e` opens the editor, and the edited call runs."""
    (tmp_path / "kit.py").write_text(
        "from functool import FunctionTool\n"
        "from functool.guardrails import require_approval\n"
        "@FunctionTool(input_guardrails=[require_approval()])\n"
        "def remove(path: str) -> str:\n"
        '    """Remove."""\n'
        "    return f'removed {path}'\n"
    )
    edits = editor(tmp_path, """text = '{"path": "b"}'""")
    child = terminal(tmp_path, "call", "kit.py", "remove", "--path", "a", **edits)
    child.expect(r"\[y/N/e\]: ")
    child.sendline("e")
    child.expect("removed b")


def test_an_editor_that_does_not_start(capsys):
    """Without the editor nothing is approved, and the person is asked again."""

    def broken(*args, **options):
        raise ClickException("no-such-editor: Editing failed\x1b[2J")

    assert edited(request(a=1), broken) is None
    assert capsys.readouterr().err == "no-such-editor: Editing failed[2J\n"
