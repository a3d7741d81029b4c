"""The inbox: calls that wait for a person in another process."""

import asyncio
import json
import os
import pickle
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing

import pytest

from functool import ApprovalRequest, Context, FunctionTool, ToolCall
from functool.approval import Grant
from functool.guardrails import require_approval
from functool.layers import inbox as module
from functool.layers import mounts
from functool.layers.inbox import Inbox, InboxError
from functool.layers.journal import Journal
from tests.support import python, time_passes

RAN = []


@FunctionTool(input_guardrails=[require_approval()], timeout=60)
def remove(path: str, force: bool = False) -> str:
    """Remove a file.

    Args:
        path: Which.
        force: Whether to ask nothing.
    """
    RAN.append((path, force))
    return f"removed {path}"


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Look for answers often, and forget what ran."""
    monkeypatch.setattr(module, "POLL", 0.005)
    RAN.clear()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "inbox.db"


async def waiting(inbox, count=1):
    """The requests that wait, as soon as there are so many."""
    while len(found := inbox.pending()) < count:
        await asyncio.sleep(0.005)
    return found


def start(inbox, **arguments):
    call = ToolCall(id="c1", name="remove", arguments=arguments)
    return asyncio.create_task(remove(call, Context(approver=inbox.approver)))


async def asked(path, argument="a"):
    """An inbox, a call that waits in it, and the call's request."""
    inbox = Inbox(path)
    task = start(inbox, path=argument)
    [request] = await waiting(inbox)
    return inbox, task, request


@pytest.mark.anyio
async def test_approve(path):
    """A call waits until its request is approved through another inbox of the file, and runs once."""
    task = start(Inbox(path), path="a")
    [request] = await waiting(Inbox(path))

    assert (request.tool, request.arguments) == ("remove", {"path": "a", "force": False})
    assert request.matches_itself
    assert RAN == []
    Inbox(path).approve(request.id)
    assert (await task).text == "removed a"
    assert RAN == [("a", False)]
    assert Inbox(path).pending() == []


@pytest.mark.anyio
async def test_approve_with_other_arguments(path):
    """The edited arguments run, and the model is told."""
    inbox, task, request = await asked(path)
    inbox.approve(request.id, {"path": "b", "force": True})
    result = await task

    assert RAN == [("b", True)]
    assert "A person changed the arguments" in result.text
    assert result.metadata["decision"]["request"]["arguments"]["path"] == "a"


@pytest.mark.anyio
async def test_deny(path):
    """A refusal's reason reaches the model."""
    inbox, task, request = await asked(path)
    inbox.deny(request.id, "not on Sundays")
    result = await task

    assert result.text == "A person refused this call: not on Sundays"
    assert RAN == []


@pytest.mark.anyio
async def test_one_answer(path):
    """A request is answered once; an unknown id is an error."""
    inbox, task, request = await asked(path)
    inbox.deny(request.id)

    with pytest.raises(InboxError, match="no request"):
        inbox.approve(request.id)
    with pytest.raises(InboxError, match="no request"):
        inbox.deny("nobody")
    assert (await task).is_error


@pytest.mark.anyio
async def test_wrong_arguments_keep_the_request(path):
    """What is no JSON object is refused, and the request waits on."""
    inbox, task, request = await asked(path)

    with pytest.raises(TypeError, match="mapping"):
        inbox.approve(request.id, ["b"])
    with pytest.raises(ValueError, match="JSON"):
        inbox.approve(request.id, {"path": float("nan")})
    assert [each.id for each in inbox.pending()] == [request.id]
    inbox.approve(request.id, {"path": 7})
    result = await task
    assert result.error.type == "ArgumentError"
    assert RAN == []


@pytest.mark.anyio
async def test_a_call_that_ends_takes_its_request_along(path):
    """A call that runs out of time, or is cancelled, leaves nothing to answer."""
    inbox, late, _ = await asked(path)
    time_passes(61)

    assert (await late).error.type == "ToolTimeoutError"
    assert inbox.pending() == []
    _, task, _ = await asked(path)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert inbox.pending() == []
    assert RAN == []


@pytest.mark.anyio
async def test_calls_wait_beside_each_other(path):
    """Each answer goes to its own call."""
    inbox = Inbox(path)
    tasks = [start(inbox, path=name) for name in "abcdef"]
    requests = await waiting(inbox, 6)
    for request in reversed(requests):
        if request.arguments["path"] in "ace":
            inbox.approve(request.id)
        else:
            inbox.deny(request.id, request.arguments["path"])

    texts = [(await task).text for task in tasks]
    assert texts[::2] == [f"removed {each}" for each in "ace"]
    assert texts[1::2] == [f"A person refused this call: {each}" for each in "bdf"]


@pytest.mark.anyio
async def test_a_changed_request_does_not_run(path):
    """A request that somebody changed in the file cannot be approved, nor can one put in its place."""
    inbox, task, request = await asked(path, "/etc/passwd")

    def write(changed):
        database = sqlite3.connect(path)
        with database:
            database.execute("UPDATE requests SET request = ?", (changed.to_json(),))
        database.close()

    shown = ApprovalRequest.from_json(request.to_json())
    shown.arguments["path"] = "harmless"
    write(shown)
    with pytest.raises(ValueError, match="digest"):
        inbox.approve(request.id)
    other = ApprovalRequest.of("remove", request.definition, {"path": "harmless"}, "c1")
    other.id = request.id
    write(other)
    inbox.approve(request.id)
    assert "was not this call" in (await task).text
    assert RAN == []


def test_a_dead_process_leaves_nothing_to_answer(path, monkeypatch):
    """The request of a process that was killed is gone once it has been silent for long enough."""
    code = (
        "import asyncio, sys\n"
        "from functool import ApprovalRequest\n"
        "from functool.layers.inbox import Inbox\n"
        "request = ApprovalRequest.of('t', 'd', {}, 'c')\n"
        "asyncio.run(Inbox(sys.argv[1]).approver(request))\n"
    )
    inbox = Inbox(path)
    with subprocess.Popen([sys.executable, "-c", code, str(path)]) as process:
        while not inbox.pending():
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    [request] = inbox.pending()
    later = time.time() + module.SILENCE + 1
    monkeypatch.setattr(module.time, "time", lambda: later)

    assert inbox.pending() == []
    with pytest.raises(InboxError, match="no request"):
        inbox.approve(request.id)


@pytest.mark.anyio
async def test_a_waiting_call_gives_signs_of_life(path, monkeypatch):
    """After a silence that is too long a call that still waits says so, and is pending again."""
    inbox = Inbox(path)
    task = start(inbox, path="a")
    await waiting(inbox)
    now = time.time
    monkeypatch.setattr(module.time, "time", lambda: now() + 2 * module.SILENCE)
    async with asyncio.timeout(60):
        [request] = await waiting(inbox)

    inbox.approve(request.id)
    assert (await task).text == "removed a"


@pytest.mark.anyio
async def test_a_request_that_others_removed_is_filed_again(path):
    """A call whose machine slept for a day still waits, and can still be answered."""
    inbox, task, request = await asked(path)
    inbox._remove(request.id)
    assert inbox.pending() == []

    async with asyncio.timeout(60):
        assert await waiting(inbox) == [request]
    inbox.approve(request.id)
    assert (await task).text == "removed a"


async def granted(inbox, context, grant):
    """Ask in this context, and answer with a grant."""
    asking = ask(context, path="first")
    [request] = await waiting(inbox)
    inbox.approve(request.id, grant=grant)
    assert (await asking).text == "removed first"


def ask(context, **arguments):
    call = ToolCall(id="c1", name="remove", arguments=arguments)
    return asyncio.create_task(remove(call, context))


@pytest.mark.anyio
async def test_grants(path):
    """A grant answers the calls it covers, is counted in the file, and ends."""
    inbox = Inbox(path)
    context = Context(approver=inbox.approver)
    grant = Grant.of(remove, {"force": False}, free=["path"], uses=2)
    await granted(inbox, context, grant)
    first = await ask(context, path="a")

    assert first.text == "removed a"
    assert first.metadata["decision"]["reason"] == f"allowed beforehand by the grant {grant.id}"
    assert [each.uses for each in Inbox(path).grants()] == [1]
    refused = ask(context, path="a", force=True)
    [request] = await waiting(inbox)
    with pytest.raises(ValueError, match="does not cover"):
        inbox.approve(request.id, grant=grant)
    with pytest.raises(TypeError, match="Grant"):
        inbox.approve(request.id, grant="all")
    inbox.deny(request.id)
    assert (await refused).is_error
    assert (await ask(context, path="b")).text == "removed b"
    assert inbox.grants() == []
    await granted(inbox, context, grant)  # A grant that is used up stays so.
    assert inbox.grants() == []
    other = Grant.of(remove, {"force": False}, free=["path"], uses=9)
    await granted(inbox, context, other)
    assert [each.uses for each in inbox.grants()] == [9]
    inbox.revoke(other)
    assert inbox.grants() == []


@pytest.mark.anyio
async def test_a_grant_is_for_one_conversation(path):
    """What one conversation was granted, no other uses: neither a fresh one nor another approver's."""
    inbox = Inbox(path)
    ada = Context(approver=inbox.approver)
    await granted(inbox, ada, Grant.of(remove, {"force": False}, free=["path"], uses=9))
    strangers = [ada.fresh(), *(Context(approver=i.approver) for i in (inbox, Inbox(path)))]

    for stranger in strangers:
        asking = ask(stranger, path="a")
        [request] = await waiting(inbox)
        inbox.deny(request.id)
        assert (await asking).is_error
    assert [each.uses for each in inbox.grants()] == [9]
    copy = pickle.loads(pickle.dumps(ada))  # The same conversation, in a worker elsewhere.
    assert (await ask(copy, path="b")).text == "removed b"
    assert (await ask(ada.view(deps="d"), path="c")).text == "removed c"
    assert [each.uses for each in inbox.grants()] == [7]


@pytest.mark.anyio
async def test_conversations(path):
    """The file knows which conversation asks, and which one a grant is for."""
    inbox = Inbox(path)
    contexts = [Context(approver=inbox.approver) for _ in range(2)]
    grant = Grant.of(remove, {"force": False}, free=["path"])
    await granted(inbox, contexts[0], grant)
    asking = ask(contexts[1], path="a")
    [request] = await waiting(inbox)

    assert inbox.conversations() == {
        grant.id: contexts[0].approver.conversation,
        request.id: contexts[1].approver.conversation,
    }
    inbox.approve(request.id)
    await asking


def test_the_file(path, tmp_path):
    """A new file is its owner's alone; one that is no inbox is an error that names it."""
    Inbox(path)

    assert oct(os.stat(path).st_mode & 0o777) == "0o600"
    text = tmp_path / "notes.txt"
    text.write_text("no database" * 1_000)
    with pytest.raises(InboxError, match=r"notes\.txt"):
        Inbox(text)
    with pytest.raises(InboxError, match="cannot be opened"):
        Inbox(tmp_path / "no" / "such" / "folder.db")
    assert json.loads(json.dumps([each.to_dict() for each in Inbox(path).pending()])) == []


def test_a_link_to_a_new_file(tmp_path):
    """The file that a link leads to is its owner's alone as well."""
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "inbox.db")
    Inbox(link)

    assert (tmp_path / "inbox.db").stat().st_mode & 0o777 == 0o600


OPENS = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1])
database.execute("SELECT * FROM requests")
database.close()
"""


def test_a_second_inbox_drops_no_lock_of_the_first(path):
    """Another process does not take the file for unused, and so removes no write that is under way."""
    Inbox(path)
    with closing(sqlite3.connect(path)) as database:
        database.execute("BEGIN IMMEDIATE")
        Inbox(path)
        assert python(OPENS, str(path)).returncode == 0

        assert path.with_name(f"{path.name}-wal").exists()


def test_the_database_of_another_program(tmp_path):
    """A database that is no inbox is refused, and stays as it was."""
    Journal(tmp_path / "calls.journal").calls()
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database:
        database.execute("CREATE TABLE orders (id)")
    with closing(sqlite3.connect(tmp_path / "web.db")) as database:
        database.execute("CREATE TABLE requests (id, method, url)")
    for name in ("calls.journal", "shop.db", "web.db"):
        before = (tmp_path / name).read_bytes()
        with pytest.raises(InboxError, match="no inbox"):
            Inbox(tmp_path / name)
        assert (tmp_path / name).read_bytes() == before


def test_calls_that_wait_look_together(path, monkeypatch):
    """Many calls that wait open the file together, and not each on its own, and all get their answers."""
    opened, connect, inbox = [], sqlite3.connect, Inbox(path)

    def counted(*given, **options):
        opened.append(given)
        return connect(*given, **options)

    async def main():
        calls = [start(inbox, path=str(number)) for number in range(100)]
        requests = await waiting(inbox, 100)
        monkeypatch.setattr(sqlite3, "connect", counted)
        await asyncio.sleep(40 * module.POLL)
        looks = len(opened)
        for request in requests:
            inbox.approve(request.id)
        return looks, await asyncio.gather(*calls)

    looks, results = asyncio.run(main())

    assert 0 < looks < 50
    assert all(result.success for result in results)


def test_an_answer_is_found_among_many_requests(path):
    """To answer a request nobody reads the other ones, which may be large."""
    inbox = Inbox(path)

    async def main():
        calls = [start(inbox, path=name) for name in ("a", "b")]
        first, second = await waiting(inbox, 2)
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("UPDATE requests SET request = '?' WHERE id = ?", (first.id,))
        inbox.approve(second.id)
        result = await calls[1 if second.arguments["path"] == "b" else 0]
        for call in calls:
            call.cancel()
        return result

    assert asyncio.run(main()).success


def test_other_work_runs_while_many_requests_are_filed(path, monkeypatch):
    """Each request is filed in a round of the event loop of its own."""
    inbox, connect = Inbox(path), sqlite3.connect
    rounds, filed = [0], set()

    def noted(*given, **options):
        if threading.current_thread() is threading.main_thread():
            filed.add(rounds[0])
        return connect(*given, **options)

    async def count():
        while True:
            rounds[0] += 1
            await asyncio.sleep(0)

    async def main():
        counting = asyncio.create_task(count())
        monkeypatch.setattr(sqlite3, "connect", noted)
        calls = [start(inbox, path=str(number)) for number in range(50)]
        while len(await asyncio.to_thread(inbox.pending)) < 50:
            pass
        monkeypatch.undo()
        counting.cancel()
        for call in calls:
            call.cancel()

    asyncio.run(main())

    assert len(filed) == 50


def test_requests_are_read_a_few_at_a_time(path, monkeypatch):
    """`each` yields what `pending` lists, and holds only a few of them in memory."""
    inbox, together = Inbox(path), []
    rows = inbox._rows

    def noted(*given):
        together.append(len(found := rows(*given)))
        return found

    async def main():
        monkeypatch.setattr(module, "POLL", 60)  # A waiting call reads the file in its own thread.
        calls = [start(inbox, path=str(number)) for number in range(5)]
        await waiting(inbox, 5)
        monkeypatch.setattr(module, "READ_TOGETHER", 2)
        with monkeypatch.context() as patched:
            patched.setattr(inbox, "_rows", noted)
            each = [request.id for request in inbox.each()]
        listed = [request.id for request in inbox.pending()]
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        return each, listed

    each, listed = asyncio.run(main())

    assert (each, len(each)) == (listed, 5)
    assert together == [2, 2, 1, 0]


def test_calls_that_end_together_leave_together(path, monkeypatch):
    """Calls that are cancelled at once open the file once, and not each on its own."""
    opened, connect, inbox = [], sqlite3.connect, Inbox(path)

    def counted(*given, **options):
        if threading.current_thread() is threading.main_thread():
            opened.append(given)
        return connect(*given, **options)

    async def main():
        calls = [start(inbox, path=str(number)) for number in range(50)]
        await waiting(inbox, 50)
        monkeypatch.setattr(module, "POLL", 60)  # All calls wait in one place.
        await asyncio.sleep(0.1)
        monkeypatch.setattr(sqlite3, "connect", counted)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        return len(opened), inbox.pending()

    assert asyncio.run(main()) == (1, [])


@pytest.mark.anyio
async def test_a_request_that_cannot_be_removed_keeps_its_answer(path, monkeypatch, caplog):
    """A call goes on with its answer also if its request stays in the file, which the log says."""
    inbox, task, request = await asked(path)
    inbox.approve(request.id)
    broken = InboxError("the disk is full")

    def fail(*ids):
        raise broken

    monkeypatch.setattr(inbox, "_remove", fail)

    assert (await task).text == "removed a"
    [record] = [each for each in caplog.records if each.levelname == "WARNING"]
    assert record.exc_info[1] is broken


def test_a_file_that_was_removed_is_not_made_again(path):
    """SQLite would make one that other users can read, and the next inbox would use it."""
    inbox = Inbox(path)
    path.unlink()

    with pytest.raises(InboxError, match="unable to open"):
        inbox.pending()
    assert not path.exists()


def test_a_file_that_is_mounted_without_its_directory_is_refused(tmp_path, monkeypatch):
    """Each side would have a log of its own, and the first use of both destroys the file."""
    listed = tmp_path / "mountinfo"
    listed.write_text(f"1 0 8:1 / / rw - ext4 a rw\n2 1 8:1 /i {tmp_path}/i rw - ext4 a rw\n")
    monkeypatch.setattr(mounts, "MOUNTS", listed)
    (tmp_path / "link").symlink_to(tmp_path / "i")

    for name in ("i", "link"):
        with pytest.raises(InboxError, match="mounted without its directory"):
            Inbox(tmp_path / name)
    Inbox(tmp_path / "i2")


@pytest.mark.parametrize("name", ["a b?mode=ro#%41", "é", "%2e"])
def test_any_name_will_do(tmp_path, name):
    """The name of the file is no syntax."""
    Inbox(tmp_path / name).pending()

    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_waits_while_another_thread_uses_the_file(path):
    """Otherwise the child would find the file locked for ever, or wait for ever."""
    inbox, ended = Inbox(path), threading.Event()

    def use():
        while not ended.is_set():
            inbox.grants()

    def child():
        if process := os.fork():
            return process
        signal.alarm(20)
        try:
            inbox.revoke(Grant.of(remove, {"path": "a", "force": False}))
            os._exit(0)
        finally:
            os._exit(1)

    threads = [threading.Thread(target=use) for _ in range(2)]
    for thread in threads:
        thread.start()
    children = [child() for _ in range(10)]
    endings = [os.waitpid(process, 0)[1] for process in children]
    ended.set()
    for thread in threads:
        thread.join()

    assert endings == [0] * 10
