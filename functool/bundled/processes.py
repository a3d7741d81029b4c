"""Run a program, keep the beginning and the end of its output, and leave no process behind.

Processes are identified by descriptors (`pidfd_open`, Linux 5.3). The system may use a process
number again for another process; a descriptor always means the same process.
"""

import asyncio
import codecs
import json
import os
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Protocol

SHELL = "/bin/sh"
CHUNK = 65_536
MAX_DRAINED = 1_048_576
"""How many bytes are still read when all processes are dead. A pipe holds less."""

GRACE = 10.0
"""How long to wait for killed processes, in seconds."""

POLL = 0.005
READY, GO = b"ready\n", b"go\n"

# This shell waits until it reads the word "go" from its standard input, which is a socket. Then it
# runs the program. If the host dies, it reads the end of the input, and does not run the program.
GATE = 'echo ready >&0 && read -r word && [ "$word" = go ] || exit 125; exec </dev/null; exec "$@"'


WATCH = 0.1
"""How often to check whether the processor time is used up, in seconds."""


class Holder(Protocol):
    """Enforces the limits of one command's processes."""

    @property
    def kind(self) -> str:
        """The kind of the limits, `"cgroup"` or `"prlimit"`."""
        ...

    def hold(self, pid: int) -> None:
        """Limit a process, and everything that it starts from now on."""
        ...

    def spent(self) -> bool:
        """Whether the processes have used up their time and have to be ended."""
        ...

    def reached(self) -> str | None:
        """Return the name of a limit that was reached, or None, also if that is not known."""
        ...

    async def end(self) -> None:
        """End the remaining processes, and remove what was made for them."""
        ...


class BothEnds:
    """Keep the beginning and the end of a text, at most `limit` characters with a marker."""

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
        """Add bytes. They may end inside of a character, unless they are `final`."""
        text = self._decoder.decode(data, final)
        self._total += len(text)
        room = self._limit - len(self._head)
        self._head += text[:room]
        self._tail += text[room:]
        if len(self._tail) > 2 * self._limit:
            self._tail = self._tail[-self._limit :]

    def text(self) -> str:
        """Return the text, with a marker if the middle is missing."""
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
    """Run a program in a session and process group of its own, with everything that it starts.

    A shell waits at a gate until `finish` lets it run the program. `finish` has to be awaited.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        output: BothEnds,
        holder: Holder | None = None,
    ) -> None:
        """Start a shell that waits and then becomes the program.

        Args:
            argv: The program and its arguments.
            cwd: The working directory.
            env: All environment variables.
            output: Keeps what the program writes to both outputs.
            holder: Limits the process before the program runs.

        Raises:
            OSError: The shell cannot be started.
        """
        self._start([*_gated(argv)], cwd=cwd, env=env, output=output, inherited=(), holder=holder)

    def _start(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        output: BothEnds,
        inherited: Sequence[int],
        holder: Holder | None,
    ) -> None:
        self.output = output
        self.ran: bool = False
        self._holder = holder
        with ExitStack() as kept, ExitStack() as passed:
            self._pipe, written = os.pipe()
            kept.callback(os.close, self._pipe)
            passed.callback(os.close, written)
            self._gate, gate = socket.socketpair()
            kept.callback(self._gate.close)
            passed.callback(gate.close)
            self._process = subprocess.Popen(
                argv,
                stdin=gate.fileno(),
                stdout=written,
                stderr=written,
                cwd=cwd,
                env=env,
                pass_fds=inherited,
                start_new_session=True,
            )
            try:
                self._leader = os.pidfd_open(self._process.pid)
            except BaseException:  # Otherwise the process would run on.
                self._process.kill()
                self._process.wait()
                raise
            os.set_blocking(self._pipe, False)
            self._gate.setblocking(False)
            kept.pop_all()  # `finish` closes them.

    @property
    def exit_code(self) -> int | None:
        """The exit status as a shell reports it: 128 plus the number for a signal.

        It is None while the program runs.
        """
        code = self._process.returncode
        return code if code is None or code >= 0 else 128 - code

    async def finish(self, timeout: float) -> bool:
        """Wait for the program, and end all processes that it leaves, also on cancellation.

        Returns:
            Whether the program ended by itself within `timeout` seconds.
        """
        loop = asyncio.get_running_loop()
        loop.add_reader(self._pipe, self._read)
        try:
            async with asyncio.timeout(timeout):
                await self._pass_gate()
                await self._ended()
        except TimeoutError:
            return False
        finally:
            try:
                await self._end()
            finally:
                loop.remove_reader(self._pipe)
                self._close()
        return True

    async def _pass_gate(self) -> None:
        """Let the program run once it waits at the gate."""
        with suppress(ConnectionError, ProcessLookupError):
            answer = await asyncio.get_running_loop().sock_recv(self._gate, len(READY))
            if answer != READY:
                return
            waiting = self._waiting()
            # Before it wrote "ready", the waiting process asked the kernel to die with its parent.
            # If the parent had died already, the process lives on. So check that the parent runs.
            if waiting is None or not _is_running(self._leader):
                return
            if self._holder is not None:
                self._holder.hold(waiting)
            self._gate.send(GO)
            self.ran = True

    def _waiting(self) -> int | None:
        """Return the number of the process that waits at the gate, or None."""
        return self._process.pid

    async def _ended(self) -> None:
        """Wait until the program has ended, or has used up its processor time."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(None if self._holder is None else WATCH):
                    return await _readable(self._leader)
            if self._holder is not None and self._holder.spent():
                return None

    def _kill(self) -> None:
        # The leader's number is the number of the group. Nobody has waited for the leader yet, so
        # the system cannot have used the number again.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def _dead(self) -> None:
        await _readable(self._leader)
        while _group_lives(self._process.pid):
            await asyncio.sleep(POLL)

    async def _end(self) -> None:
        self._kill()
        # A process that sleeps where no signal reaches it dies later. Do not wait for it for ever.
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
            # The process is dead already, unless the wait for its end was cancelled.
            self._process.wait(GRACE)
        self._gate.close()
        os.close(self._pipe)
        os.close(self._leader)


class SandboxedProcesses(Processes):
    """Run a program in a PID namespace of bubblewrap. All its processes end with the first one."""

    def __init__(
        self,
        options: Sequence[str],
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        output: BothEnds,
        inherited: Sequence[int] = (),
        holder: Holder | None = None,
    ) -> None:
        """Start bubblewrap. In the sandbox a shell waits and then becomes the program.

        Args:
            options: Bubblewrap and its options.
            argv: The program and its arguments.
            env: All environment variables of the program.
            output: Keeps what the program writes to both outputs.
            inherited: The descriptors that `options` name.
            holder: Limits the first process of the sandbox before the program runs.

        Raises:
            OSError: Bubblewrap cannot be started.
        """
        self._first: int | None = None
        # A file in memory. If the reader of a pipe died, bubblewrap would die too, and the process
        # inside would wait for ever.
        self._status = os.memfd_create("status")
        with ExitStack() as kept, ExitStack() as passed:
            kept.callback(os.close, self._status)
            passed.callback(os.close, variables := _settings(env))
            own = ["--json-status-fd", str(self._status), "--args", str(variables)]
            # Bubblewrap runs outside of the sandbox. So it must not see the variables of the
            # command, such as LD_PRELOAD.
            self._start(
                [*options, *own, "--as-pid-1", "--", *_gated(argv)],
                cwd="/",
                env={},
                output=output,
                inherited=(self._status, variables, *inherited),
                holder=holder,
            )
            kept.pop_all()  # `finish` closes the status file.

    def _waiting(self) -> int | None:
        first = _first_process(os.pread(self._status, CHUNK, 0))
        if first is not None:  # It waits at the gate, so the number still means this process.
            self._first = os.pidfd_open(first)
        return first

    def _kill(self) -> None:
        # The first process ends after all others, and bubblewrap waits for it. So all are dead when
        # bubblewrap ends.
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
        for descriptor in (self._status, self._first):
            if descriptor is not None:
                os.close(descriptor)


def _gated(argv: Sequence[str]) -> list[str]:
    return [SHELL, "-c", GATE, "sh", *argv]


def _is_running(process: int) -> bool:
    options = os.WEXITED | os.WNOHANG | os.WNOWAIT
    return os.waitid(os.P_PIDFD, process, options) is None


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)


def _settings(env: Mapping[str, str]) -> int:
    """Return a descriptor from which bubblewrap reads `env`.

    A command line would not be safe, because every user can read it.
    """
    words = b"".join(os.fsencode(f"--setenv\0{name}\0{value}\0") for name, value in env.items())
    descriptor = os.memfd_create("env")
    os.write(descriptor, words)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _first_process(report: bytes) -> int | None:
    """Return the number of the first process from bubblewrap's report, or None."""
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
