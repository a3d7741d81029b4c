"""What is kept of a flood of output, and what is left of processes that were ended."""

import asyncio
import errno
import os
import socket
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functool.bundled.processes import BothEnds, Processes, SandboxedProcesses
from tests.support import alive


@given(chunks=st.lists(st.binary(max_size=300), max_size=12), limit=st.integers(60, 400))
def test_both_ends_of_any_stream(chunks, limit):
    """Whatever comes and however it is cut in pieces: all of it within the limit, else both ends and how much is missing."""
    whole = b"".join(chunks).decode("utf-8", "replace")
    ends = BothEnds(limit)
    for chunk in chunks:
        ends.feed(chunk)
    ends.feed(b"", final=True)
    text = ends.text()

    assert len(text) <= limit
    assert ends.cut == (len(whole) > limit)
    if not ends.cut:
        assert text == whole
    else:
        head, _, rest = text.partition("\n[… ")
        count, _, tail = rest.partition(" characters left out …]\n")
        assert whole.startswith(head)
        assert whole.endswith(tail)
        assert len(head) + int(count) + len(tail) == len(whole)
        assert abs(len(head) - len(tail)) <= 1


def test_a_flood_is_not_kept():
    """Of a long stream no more than a few times the limit is ever in memory."""
    ends = BothEnds(1_000)
    for _ in range(1_000):
        ends.feed(b"x" * 65_536)
        kept = sum(len(value) for value in vars(ends).values() if isinstance(value, str))
        assert kept <= 3_000 + 65_536

    assert len(ends.text()) == 1_000


def start(*argv, **options):
    return Processes(argv, cwd="/", env={"PATH": os.defpath}, output=BothEnds(1_000), **options)


def test_the_exit_code():
    """The exit code counts as a shell's does, signals from 128 on."""

    async def code(script):
        processes = start("/bin/sh", "-c", script)
        assert await processes.finish(60)
        return processes.exit_code

    assert asyncio.run(code("exit 7")) == 7
    assert asyncio.run(code("kill -15 $$")) == 128 + 15


def test_the_output_of_both_streams():
    """Standard output and error come in the order in which they were written."""

    async def output():
        processes = start("/bin/sh", "-c", "echo one; echo two >&2; echo three")
        await processes.finish(60)
        return processes.output.text()

    assert asyncio.run(output()) == "one\ntwo\nthree\n"


def test_a_program_that_is_not_there():
    """A program that is not there ends as in a shell; a directory that is not is an OSError, and leaves no descriptor."""
    before = os.listdir("/proc/self/fd")
    with pytest.raises(FileNotFoundError):
        Processes(["/bin/true"], cwd="/nothing", env={}, output=BothEnds(100))
    missing = start("/nothing/here")

    assert asyncio.run(missing.finish(60))
    assert missing.exit_code == 127
    assert os.listdir("/proc/self/fd") == before


@pytest.mark.parametrize("calls", range(4))
def test_no_descriptor_is_left_of_what_cannot_start(monkeypatch, calls):
    """Where a pipe or a socket cannot be had, or the program, nothing of the attempt stays open."""
    made = []

    def scarce(make):
        def attempt():
            if len(made) == calls:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            made.append(make())
            return made[-1]

        return attempt

    monkeypatch.setattr(os, "pipe", scarce(os.pipe))
    monkeypatch.setattr(socket, "socketpair", scarce(socket.socketpair))
    before = os.listdir("/proc/self/fd")
    with pytest.raises(OSError, match="open files|No such file"):
        SandboxedProcesses(["/no/such/program"], [], env={"A": "b"}, output=BothEnds(100))

    made.clear()
    assert os.listdir("/proc/self/fd") == before


def test_a_group_ends_with_its_leader():
    """What the program left in its group is dead when the wait is over, whether it ended in time or not."""
    script = "trap '' TERM HUP INT; sleep 3600 & echo $!; {} sleep 3600 & echo $!; {}"

    async def run(ending, timeout):
        processes = start("/bin/sh", "-c", script.format("", ending))
        in_time = await processes.finish(timeout)
        return in_time, [alive(int(line)) for line in processes.output.text().split()]

    assert asyncio.run(run("exit 0", 60)) == (True, [False, False])
    for limit in (1, 4, 16, 64):  # long enough for this machine, however busy it is
        in_time, living = asyncio.run(run("wait", limit))
        if len(living) == 2:
            break
    assert (in_time, living) == (False, [False, False])


def test_a_second_cancellation():
    """A wait that is cancelled again while it ends the processes still leaves none, and no descriptor."""

    async def run():
        await asyncio.sleep(0)  # the loop has its descriptors
        before = set(os.listdir("/proc/self/fd"))
        processes = start(
            sys.executable, "-c", "import time; print('up', flush=True); time.sleep(3600)"
        )
        task = asyncio.ensure_future(processes.finish(60))
        while "up" not in processes.output.text():
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return processes.exit_code, set(os.listdir("/proc/self/fd")) - before

    assert asyncio.run(run()) == (137, set())
