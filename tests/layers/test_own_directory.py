"""Temporary directories that do not outlive their process."""

import gc
import os
import signal
import subprocess
import sys
import tempfile

import pytest

from functool.layers import own_directory as module
from functool.layers.own_directory import own_directory
from functool.layers.spill import Spill

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such locks")

HOST = """
import asyncio, sys
from functool import Context, FunctionTool, ToolCall
from functool.layers.spill import Spill

spill = Spill(limit=100)
words = FunctionTool(lambda: "secret " * 100, name="words", output_guardrails=[spill.guardrail])
assert asyncio.run(words(ToolCall(name="words"), Context())).error is None
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def parent(tmp_path, monkeypatch):
    """The directory of temporary files, for this process and for others."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    yield tmp_path
    module._home.cache_clear()


@pytest.fixture
def host(parent):
    """A function that starts a process which keeps a result in a file."""
    started = []

    def start():
        process = subprocess.Popen(
            [sys.executable, "-c", HOST], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        started.append(process)
        assert process.stdout.readline() == b"ready\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def files(parent):
    """The files below a directory."""
    return [path for path in parent.rglob("*") if path.is_file()]


def test_what_a_killed_process_left_is_removed_by_the_next(parent, host):
    """The result of the dead process goes, and that of a living one stays."""
    dead, living = host(), host()
    before = files(parent)
    dead.send_signal(signal.SIGKILL)
    dead.wait()
    assert files(parent) == before and len(before) == 2

    directory = own_directory("x-")

    [kept] = files(parent)
    assert kept in before
    assert len(list(parent.iterdir())) == 2 and directory.is_dir()
    living.communicate()
    assert list(parent.iterdir()) == [directory.parent]


def test_results_can_only_be_read_by_their_user(parent, host):
    """Every directory has the mode 0700, and every file 0600."""
    host()

    modes = {path.is_dir(): path.stat().st_mode & 0o777 for path in parent.rglob("*")}

    assert modes == {True: 0o700, False: 0o600}


def test_what_only_looks_like_a_leftover_stays(parent):
    """Neither a link, nor a file, nor a directory that others may read is removed."""
    (parent / "precious").mkdir(mode=0o700)
    (parent / "precious" / "file").write_text("x")
    (parent / "functool-process-aaaaaaaa").symlink_to(parent / "precious")
    (parent / "functool-process-bbbbbbbb").write_text("x")
    (parent / "functool-process-cccccccc").mkdir(mode=0o755)
    (parent / "functool-process-of-mine").mkdir(mode=0o700)
    before = set(parent.rglob("*"))

    home = own_directory("x-").parent

    assert set(parent.iterdir()) - {home} == {path for path in before if path.parent == parent}
    assert (parent / "precious" / "file").exists()


def test_results_are_removed_with_their_spill(parent):
    """A service that makes many of them does not fill the disk."""
    spill = Spill()
    assert len([*parent.glob("*/spill-*")]) == 1

    del spill
    gc.collect()

    assert [*parent.glob("*/spill-*")] == []


def test_a_leftover_of_another_user_stays(parent, monkeypatch):
    """Root could remove the directories of everybody, and does not."""
    left = parent / "functool-process-aaaaaaaa"
    left.mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: left.stat().st_uid + 1)

    own_directory("x-")

    assert left.is_dir()


def test_a_link_inside_of_a_leftover_is_not_followed(parent):
    """What a link in a leftover leads to stays."""
    (parent / "precious").mkdir()
    (parent / "precious" / "file").write_text("x")
    left = parent / "functool-process-aaaaaaaa"
    left.mkdir(mode=0o700)
    (left / "spill-x").symlink_to(parent / "precious")

    own_directory("x-")

    assert not left.exists()
    assert (parent / "precious" / "file").exists()


def test_all_directories_of_a_process_share_one_lock(parent):
    """A service with thousands of them does not run out of descriptors."""
    first = own_directory("x-")
    before = len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0

    others = [own_directory("x-") for _ in range(50)]

    assert {path.parent for path in others} == {first.parent}
    assert sys.platform != "linux" or len(os.listdir("/proc/self/fd")) == before


def test_a_home_that_was_removed_is_made_again(parent):
    """A program that removes old files stops nobody."""
    first = own_directory("x-")
    first.rmdir()
    first.parent.rmdir()

    assert own_directory("x-").is_dir()


def test_a_forked_child_has_its_own_and_removes_nothing_of_its_parent(parent):
    """The child's directory goes with the child, and the parent's stays."""
    code = """
import os, sys
from functool.layers.own_directory import own_directory

mine = own_directory("x-")
child = os.fork()
if not child:
    assert own_directory("x-").parent != mine.parent
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
assert mine.is_dir()
assert list(mine.parent.parent.iterdir()) == [mine.parent]
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)

    assert list(parent.iterdir()) == []


@pytest.mark.parametrize("end", ["sys.exit(0)", "del spill; os._exit(0)"])
def test_a_forked_child_leaves_the_results_of_its_parent(parent, end):
    """Neither the end of the child nor that of its copy of the `Spill` removes the parent's."""
    code = f"""
import os, sys, tempfile
from pathlib import Path
from functool.layers.spill import Spill

spill = Spill()
child = os.fork()
if not child:
    {end}
assert os.waitpid(child, 0)[1] == 0
assert len([*Path(tempfile.gettempdir()).glob("*/spill-*")]) == 1
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)

    assert list(parent.iterdir()) == []


def test_a_directory_that_another_process_took_for_a_leftover_is_not_used(parent, monkeypatch):
    """Between making it and locking it another process may remove it. Then another is made."""
    removed = []

    def opened(path):
        if len(removed) < 3:
            removed.append(path)
            if len(removed) == 1:
                path.rmdir()
            else:
                descriptor = os.open(path, os.O_RDONLY)
                path.rmdir()
                if len(removed) == 3:  # A third process makes one of the same name.
                    path.mkdir(mode=0o700)
                return descriptor
        return os.open(path, os.O_RDONLY)

    monkeypatch.setattr(module, "_opened", opened)

    home = own_directory("x-").parent

    assert home not in removed and len(removed) == 3
    assert sorted(parent.iterdir()) == sorted([home, removed[2]])


def test_a_file_system_without_locks(parent, monkeypatch):
    """The directory works, and is removed at the end of the process only."""

    def flock(descriptor, how):
        raise OSError("no locks")

    monkeypatch.setattr("fcntl.flock", flock)
    left = parent / "functool-process-aaaaaaaa"
    left.mkdir(mode=0o700)

    assert own_directory("x-").is_dir()
    assert left.is_dir()
