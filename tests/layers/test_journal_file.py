"""The file of a journal: what is wrong with it is said before a body runs."""

import asyncio
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest

from functool import FunctionTool, ToolCall, ToolSettings
from functool.executors import inline
from functool.layers import journal_once
from functool.layers import mounts as mounts_module
from functool.layers.journal import Journal, JournalError
from tests.support import in_threads, python

ROOT = Path(__file__).parents[2]


@pytest.fixture
def pay():
    effects = []

    @FunctionTool(executor=inline)
    def pay(text: str = "") -> str:
        effects.append(text)
        return "paid" + text

    pay.effects = effects
    return pay


def call(tool, arguments=None, id="1"):
    return asyncio.run(tool(ToolCall(name=tool.name, arguments=arguments or {}, id=id)))


def refused(tool, **given):
    """The failure of a call that was not run."""
    result = call(tool, **given)

    assert result.error.type == "JournalError"
    assert result.text.startswith("The call was not run, because it could not be recorded")
    return result.text


def test_a_file_that_is_no_database_is_refused(tmp_path):
    """A journal is never opened over a file of another kind, and the file stays as it was."""
    path = tmp_path / "j"
    path.write_text("my notes " * 1_000)

    with pytest.raises(JournalError, match="file is not a database"):
        Journal(path)
    assert path.read_text() == "my notes " * 1_000


def test_a_database_of_somebody_else_is_refused(tmp_path):
    """A database that is no journal is not made one."""
    path = tmp_path / "j"
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE mine (a)")

    with pytest.raises(JournalError, match="no journal of functool"):
        Journal(path)


@pytest.mark.parametrize("version", [0, -1])
def test_a_version_that_never_was_is_refused(tmp_path, version):
    """A journal whose version something else changed is left as it is."""
    path = tmp_path / "j"
    Journal(path).close()
    with closing(sqlite3.connect(path)) as changed:
        changed.execute(f"PRAGMA user_version = {version}")

    with pytest.raises(JournalError, match=f"has version {version} of the format, which functool"):
        Journal(path)


def test_a_newer_format_is_refused(tmp_path):
    """A journal that a later version wrote is left to that version."""
    path = tmp_path / "j"
    Journal(path).close()
    with closing(sqlite3.connect(path)) as later:
        later.execute("PRAGMA user_version = 2")

    with pytest.raises(JournalError, match="version 2 of the format, and this functool knows"):
        Journal(path)


def test_a_directory_that_is_not_there_is_refused(tmp_path):
    """A path without its directory is an error at once."""
    with pytest.raises(JournalError, match="No such file or directory"):
        Journal(tmp_path / "absent" / "j")


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "9p", "fuse.sshfs", "fuse.gcsfuse"])
def test_a_network_file_system_is_refused(tmp_path, monkeypatch, kind):
    """A path that mountinfo calls a network file system is refused; the innermost, latest mount counts."""
    share = tmp_path / "the share"
    share.mkdir()
    mounts = tmp_path / "mountinfo"
    place = str(share).replace(" ", "\\040")
    lines = [
        "1 0 8:1 / / rw shared:1 - ext4 /dev/a rw",
        f"2 1 0:9 / {place} rw - tmpfs tmpfs rw",
        f"3 1 0:9 / {place} rw - {kind} host:/share rw",
    ]
    monkeypatch.setattr(mounts_module, "MOUNTS", mounts)
    mounts.write_text("\n".join(lines))

    with pytest.raises(JournalError, match=rf"network file system \({kind}\)"):
        Journal(share / "j")
    assert list(share.iterdir()) == []
    Journal(tmp_path / "the share too")
    mounts.write_text("\n".join([*lines, f"4 3 0:9 / {place}/local rw - ext4 /dev/b rw"]))
    (share / "local").mkdir()
    Journal(share / "local" / "j")


def test_a_file_that_is_mounted_without_its_directory_is_refused(tmp_path, monkeypatch):
    """Then each side has a log of its own, and does not see the newest records of the other."""
    mounts = tmp_path / "mountinfo"
    others = "1 0 8:1 / / rw - ext4 a rw\n3 1 8:2 / /media/ann/写真\\040x rw - ext4 b rw\n"
    mounts.write_text(f"{others}2 1 8:1 /j {tmp_path}/j rw - ext4 a rw\n", encoding="utf-8")
    monkeypatch.setattr(mounts_module, "MOUNTS", mounts)
    (tmp_path / "j").touch()

    with pytest.raises(JournalError, match="mounted without its directory"):
        Journal(tmp_path / "j")
    Journal(tmp_path / "j2")


def test_a_link_leads_to_its_file_system(tmp_path, monkeypatch):
    """A symbolic link to a network file system is refused as well."""
    share = tmp_path / "share"
    share.mkdir()
    (tmp_path / "link").symlink_to(share)
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"1 0 8:1 / / rw - ext4 a rw\n2 1 0:9 / {share} rw - nfs host:/ rw\n")
    monkeypatch.setattr(mounts_module, "MOUNTS", mounts)

    with pytest.raises(JournalError, match="network file system"):
        Journal(tmp_path / "link" / "j")


def test_without_mountinfo_any_path_will_do(tmp_path, monkeypatch):
    """Where there is no mountinfo, nothing is known of file systems."""
    monkeypatch.setattr(mounts_module, "MOUNTS", tmp_path / "absent")

    Journal(tmp_path / "j")


def test_a_locked_file_is_an_error_before_the_body(tmp_path, pay, monkeypatch, caplog):
    """Where another program holds the file too long, the call is refused, and its name is in the log only."""
    monkeypatch.setattr(journal_once, "BUSY_SECONDS", 0.1)
    path = tmp_path / "j"
    tool = Journal(path).once(pay, run="r")
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")

        text = refused(tool)

    assert "database is locked" in text and str(path) not in text and str(path) in caplog.text
    assert pay.effects == [] and call(tool).value == "paid"


def test_a_locked_file_does_not_hold_the_loop(tmp_path, pay):
    """While another program writes, a call waits and other work goes on."""
    path = tmp_path / "j"
    tool = Journal(path).once(pay, run="r")
    turns = []

    async def main():
        task = asyncio.ensure_future(tool(ToolCall(name="pay", id="1")))
        for _ in range(50):
            turns.append(task.done())
            await asyncio.sleep(0.001)
        other.execute("ROLLBACK")
        return await task

    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        result = asyncio.run(main())

    assert turns == [False] * 50 and result.value == "paid"


@pytest.mark.parametrize(
    "change",
    [
        "result = '{\"value\": '",
        "result = '{}'",
        "result = '[]'",
        'result = replace(result, \'"raised"\', \'"output": [{"kind": "x"}], "raised"\')',
    ],
)
def test_a_damaged_record_is_an_error_that_names_the_call(tmp_path, pay, change):
    """A result that cannot be read runs nothing, and the operator learns which record it is."""
    journal = Journal(tmp_path / "j")
    kept = journal.once(pay, run="r")
    call(kept)
    with closing(sqlite3.connect(tmp_path / "j")) as other, other:
        other.execute(f"UPDATE calls SET {change}")

    assert call(kept).error.type == "JournalError"
    assert pay.effects == [""]
    with pytest.raises(JournalError, match="the call 'r/pay/1' is damaged"):
        journal.calls()


def test_a_damaged_time_is_an_error_that_names_the_call(tmp_path, pay):
    """A time that no calendar has is a damaged record."""
    journal = Journal(tmp_path / "j")
    call(journal.once(pay, run="r"))
    with closing(sqlite3.connect(tmp_path / "j")) as other, other:
        other.execute("UPDATE calls SET started = 1e300")

    with pytest.raises(JournalError, match="the call 'r/pay/1' is damaged"):
        journal.calls()


def test_a_corrupt_file_is_an_error_before_the_body(tmp_path, pay):
    """A page that was damaged is an error of the call, not a call without its record."""
    path = tmp_path / "j"
    journal = Journal(path)
    tool = journal.once(pay, run="r")
    for number in range(50):
        call(tool, {"text": "x" * 500}, id=str(number))
    journal.close()
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))
    pay.effects.clear()

    text = refused(Journal(path).once(pay, run="r"), id="new")

    assert "malformed" in text and pay.effects == []


@contextmanager
def files_of_at_most(size):
    """Let this process write no file beyond a size, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_file_that_cannot_grow_is_an_error_before_the_body(tmp_path, pay):
    """Where nothing more can be written, nothing runs; once it can, the call runs."""
    path = tmp_path / "j"
    tool = Journal(path).once(pay, run="r")
    call(tool)
    pay.effects.clear()
    with files_of_at_most((tmp_path / "j-wal").stat().st_size):
        assert "disk I/O error" in refused(tool, id="2")

    assert pay.effects == []
    assert call(tool, id="2").value == "paid"


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk_is_an_error_before_the_body(tmp_path, pay):
    """On a disk that is really full nothing runs."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)]
    if subprocess.run(mounted, check=False, capture_output=True).returncode:
        pytest.skip("this root may not mount")
    try:
        journal = Journal(disk / "j")
        tool = journal.once(pay, run="r")
        call(tool)
        with (disk / "ballast").open("wb", buffering=0) as ballast, pytest.raises(OSError):
            while True:
                ballast.write(b"x" * 512)
        pay.effects.clear()

        text = refused(tool, arguments={"text": "x" * 20_000}, id="2")

        assert "full" in text and pay.effects == []
        journal.close()
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_result_that_cannot_be_recorded_is_still_answered(tmp_path, pay, caplog):
    """The caller gets what the body returned and is told that it is not stored; afterwards it is unknown."""
    journal = Journal(tmp_path / "j")

    @FunctionTool
    async def grow() -> str:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, ((tmp_path / "j-wal").stat().st_size, hard))
        return "done"

    soft, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    tool = journal.once(grow, run="r")
    with files_of_at_most(soft):
        result = call(tool)

    assert result.value == "done"
    assert result.metadata["journal"] == {"key": "r/grow/1", "stored": False}
    assert "was not recorded" in caplog.text
    assert call(tool).error.type == "OutcomeUnknown"


@contextmanager
def a_user_who_may_not_write():
    """Be nobody where this is root."""
    if os.geteuid() != 0:
        yield
        return
    os.setegid(65534), os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0), os.setegid(0)


def test_a_read_only_file_is_refused(pay):
    """A journal that cannot be written is refused when it is opened."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "j"
        Journal(path).close()
        path.chmod(0o444)
        Path(directory).chmod(0o555)
        try:
            with a_user_who_may_not_write(), pytest.raises(JournalError, match="readonly"):
                Journal(path)
        finally:
            Path(directory).chmod(0o755)


def test_a_file_that_was_removed_is_an_error_before_the_body(tmp_path, pay):
    """A journal that was removed or replaced in use records for nobody: nothing runs."""
    path = tmp_path / "j"
    tool = Journal(path).once(pay, run="r")
    call(tool)
    path.unlink()

    refused(tool, id="2")
    path.write_bytes(b"")
    refused(tool, id="2")

    assert pay.effects == [""]


def test_a_log_that_was_removed_is_an_error_before_the_body(tmp_path, pay):
    """SQLite's log holds the newest records. Nobody would see what is written after it is gone."""
    path = tmp_path / "j"
    tool = Journal(path).once(pay, run="r")
    call(tool)
    path.with_name("j-wal").unlink()

    refused(tool, id="2")

    assert pay.effects == [""]


def test_a_closed_journal_runs_nothing(tmp_path, pay):
    """Calls through a journal that was closed are refused."""
    journal = Journal(tmp_path / "j")
    tool = journal.once(pay, run="r")
    journal.close()

    assert "closed" in refused(tool) and pay.effects == []


def test_threads_may_open_one_new_file_together(tmp_path):
    """Many openers of a file that is not there yet get one journal, each time."""
    opened = []
    for number in range(15):
        path = tmp_path / f"j{number}"
        opened += in_threads(8, partial(Journal, path))

    assert len(opened) == 8 * 15


WORKER = """
import asyncio, os, sys
from functool import FunctionTool, ToolCall
from functool.layers.journal import Journal

async def pay(number: int) -> int:
    with open(sys.argv[2], "a") as log:
        log.write(f"{number}\\n")
    await asyncio.sleep(0)
    return number

async def main():
    tool = Journal(sys.argv[1]).once(FunctionTool(pay), run="r")
    order = range(40) if int(sys.argv[3]) % 2 else reversed(range(40))
    for number in order:
        result = await tool(ToolCall(name="pay", arguments={"number": number}, id=str(number)))
        assert result.value == number, result

asyncio.run(main())
"""


def test_eight_processes_share_a_file(tmp_path):
    """Eight processes that make the same calls on one file lose none and repeat none."""
    log = tmp_path / "log"
    command = [sys.executable, "-W", "error", "-c", WORKER, str(tmp_path / "j"), str(log)]
    workers = [
        subprocess.Popen([*command, str(n)], cwd=ROOT, stderr=subprocess.PIPE) for n in range(8)
    ]
    errors = [worker.communicate()[1].decode() for worker in workers]

    assert errors == [""] * 8
    assert sorted(map(int, log.read_text().split())) == list(range(40))
    assert {entry.state for entry in Journal(tmp_path / "j").calls()} == {"done"}


@pytest.mark.parametrize("harmless", [False, True])
def test_a_killed_owner_is_noticed_at_once(tmp_path, harmless):
    """Where the owner was killed inside the body, the next caller need not wait for its lease."""
    code = """
import asyncio, os, signal, sys
from functool import FunctionTool, ToolCall
from functool.layers.journal import Journal
def pay(): os.kill(os.getpid(), signal.SIGKILL)
tool = Journal(sys.argv[1]).once(FunctionTool(pay), run='r')
asyncio.run(tool(ToolCall(name='pay', id='1')))
"""
    assert python(code, str(tmp_path / "j"), cwd=ROOT).returncode == -9
    journal = Journal(tmp_path / "j")

    def pay() -> str:
        return "again"

    settings = ToolSettings(idempotent=harmless)
    tool = journal.once(FunctionTool(pay, settings=settings, timeout=5), run="r")

    assert [entry.state for entry in journal.calls()] == ["unknown"]
    result = call(tool)
    assert result.value == "again" if harmless else result.error.type == "OutcomeUnknown"
    assert [entry.state for entry in journal.calls()] == ["done" if harmless else "unknown"]
