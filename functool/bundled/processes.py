"""Run a program so that nothing of it is left when the wait is over, and keep both ends of what it writes.

Processes are held by descriptors (`pidfd_open`, Linux 5.3): a number can come to mean another process, a descriptor
cannot.
"""

import asyncio
import codecs
import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

CHUNK = 65_536
MAX_DRAINED = 1_048_576
"""Bytes that are still read when all is dead: more than a pipe holds."""

GRACE = 10.0
"""How long to wait for what was killed, in seconds."""

POLL = 0.005


class BothEnds:
    """The beginning and the end of a stream of text, at most `limit` characters with the marker between them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._head = self._tail = ""
        self._total = 0

    @property
    def cut(self) -> bool:
        """Whether the middle is missing."""
        return self._total > self._limit

    def feed(self, data: bytes, *, final: bool = False) -> None:
        """Take the next bytes, which may end in the middle of a character unless they are the last."""
        text = self._decoder.decode(data, final)
        self._total += len(text)
        room = self._limit - len(self._head)
        self._head += text[:room]
        self._tail += text[room:]
        if len(self._tail) > 2 * self._limit:
            self._tail = self._tail[-self._limit :]

    def text(self) -> str:
        """Return what was kept."""
        if not self.cut:
            return self._head
        room = self._limit - len(_marker(self._total))
        tail = room - room // 2
        return (
            self._head[: room // 2]
            + _marker(self._total - room)
            + (self._head + self._tail)[-tail:]
        )


class Processes:
    """A program and what it starts: a session and process group of their own.

    `finish` has to be awaited.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        output: BothEnds,
        inherited: Sequence[int] = (),
    ) -> None:
        """Start the program, without standard input; both its outputs go to `output`.

        Raises:
            OSError: It cannot be started.
        """
        self.output = output
        self._pipe, written = os.pipe()
        try:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=written,
                cwd=cwd,
                env=env,
                pass_fds=inherited,
                start_new_session=True,
            )
        except BaseException:
            os.close(self._pipe)
            raise
        finally:
            os.close(written)
        os.set_blocking(self._pipe, False)
        try:
            self._leader = os.pidfd_open(self._process.pid)
        except BaseException:
            self._process.kill()
            self._process.wait()
            os.close(self._pipe)
            raise

    @property
    def exit_code(self) -> int | None:
        """The exit status, as a shell counts: 128 and the number for a signal.

        None: it has not ended.
        """
        code = self._process.returncode
        return code if code is None or code >= 0 else 128 - code

    async def finish(self, timeout: float) -> bool:
        """Wait for the program, and end whatever it left behind; on cancellation, too.

        Returns:
            Whether the program ended by itself within `timeout` seconds.
        """
        loop = asyncio.get_running_loop()
        loop.add_reader(self._pipe, self._read)
        try:
            async with asyncio.timeout(timeout):
                await self._begin()
                await _readable(self._leader)
        except TimeoutError:
            return False
        finally:
            try:
                await self._end()
            finally:
                loop.remove_reader(self._pipe)
                self._close()
        return True

    async def _begin(self) -> None:
        """Let the program run, if it waits."""

    def _kill(self) -> None:
        # The leader has not been waited for, so its number, which is the group's, cannot belong to
        # anybody else yet.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def _dead(self) -> None:
        await _readable(self._leader)
        while _group_lives(self._process.pid):
            await asyncio.sleep(POLL)

    async def _end(self) -> None:
        self._kill()
        # What sleeps in the kernel where no signal reaches dies later; it is not worth hanging for.
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE):
                await self._dead()

    def _read(self) -> int:
        try:
            data = os.read(self._pipe, CHUNK)
        except BlockingIOError:
            return 0
        self.output.feed(data)
        if not data:
            asyncio.get_running_loop().remove_reader(self._pipe)
        return len(data)

    def _close(self) -> None:
        left = MAX_DRAINED
        while left > 0 and (size := self._read()):
            left -= size
        self.output.feed(b"", final=True)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(
                GRACE
            )  # it is dead already, unless the wait for that was cancelled too
        os.close(self._pipe)
        os.close(self._leader)


class SandboxedProcesses(Processes):
    """A program in a PID namespace that bubblewrap makes: with its first process, the kernel ends all of it."""

    def __init__(
        self,
        options: Sequence[str],
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        output: BothEnds,
    ) -> None:
        """Start bubblewrap with `options`, and have it wait before it runs `argv`.

        Raises:
            OSError: Bubblewrap cannot be started.
        """
        self.ran = False
        self._report = b""
        self._first: int | None = None
        with ExitStack() as kept, ExitStack() as passed:
            passed.callback(os.close, variables := _settings(env))
            self._status, status = os.pipe()
            kept.callback(os.close, self._status)
            passed.callback(os.close, status)
            gate, self._gate = os.pipe()
            kept.callback(os.close, self._gate)
            passed.callback(os.close, gate)
            own = [
                "--json-status-fd",
                str(status),
                "--block-fd",
                str(gate),
                "--args",
                str(variables),
                "--as-pid-1",
                "--",
            ]
            # Bubblewrap itself stands outside: what `env` tells the loader (LD_PRELOAD) is for the
            # command alone.
            super().__init__(
                [*options, *own, *argv],
                cwd="/",
                env={},
                output=output,
                inherited=(status, gate, variables),
            )
            kept.pop_all()  # from here on they are closed with the rest

    async def _begin(self) -> None:
        first = None
        while first is None:
            await _readable(self._status)
            report = os.read(self._status, CHUNK)
            if not report:
                return
            self._report += report
            first = _first_process(self._report)
        with suppress(ProcessLookupError):
            self._first = os.pidfd_open(
                first
            )  # it waits at the gate, so its number is still its own
        with suppress(BrokenPipeError):
            os.write(self._gate, b"\n")

    def _kill(self) -> None:
        # The first process ends after all others, and bubblewrap waits for it: so bubblewrap's end
        # says all are dead.
        if self._first is None:
            super()._kill()
        else:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._first, signal.SIGKILL)

    async def _dead(self) -> None:
        if self._first is None:
            await super()._dead()
        else:
            await _readable(self._leader)

    def _close(self) -> None:
        super()._close()
        os.set_blocking(self._status, False)
        with suppress(BlockingIOError):
            while report := os.read(self._status, CHUNK):
                self._report += report
        self.ran = b"exit-code" in self._report
        for descriptor in (self._status, self._gate, self._first):
            if descriptor is not None:
                os.close(descriptor)


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)


def _settings(env: Mapping[str, str]) -> int:
    """Return a descriptor from which bubblewrap reads `env`: what is on its command line can be read by every user."""
    words = b"".join(os.fsencode(f"--setenv\0{name}\0{value}\0") for name, value in env.items())
    descriptor = os.memfd_create("env")
    os.write(descriptor, words)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _first_process(report: bytes) -> int | None:
    """Return the number of the first process that bubblewrap reports, None while it is not complete."""
    try:
        return int(json.JSONDecoder().raw_decode(report.decode())[0]["child-pid"])
    except ValueError:
        return None


def _group_lives(group: int) -> bool:
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            if entry.name.isdecimal():
                state, _, member, *_ = (
                    (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
                )
                if int(member) == group and state not in "ZX":
                    return True
    return False


def _marker(count: int) -> str:
    return f"\n[… {count} characters left out …]\n"
