"""Limit the memory, processes and processor time of a command and all that it starts.

A control group (cgroup v2) counts all processes together. Where this process may not make one, the
limits are resource limits (`prlimit`), which the kernel counts for each process alone.
"""

import asyncio
import math
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from functool import DefinitionError, ToolError
from functool.bundled.processes import GRACE, POLL, Holder

GROUPS = Path("/sys/fs/cgroup")
"""Where systemd and containers mount the control groups of version 2."""

LEAST: dict[str, float] = {"memory": 4_194_304, "processes": 2, "cpu_seconds": 0.001}
"""A command needs some memory. It needs one process, and the shell that waits for it another."""


class LimitsUnavailable(ToolError):
    """The limits could not be set; the command did not run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellLimits:
    """How much a command and all that it starts may use. None means no limit.

    Attributes:
        memory: Bytes of memory. A control group counts the files in the sandbox's `/tmp` too.
        processes: How many processes and threads there may be at the same time. The shell that
            waits for the command is one of them.
        cpu_seconds: Seconds of processor time.
        cgroup: A directory of the control groups (version 2) in which this process may make others.
            None tries the group of this process and the one above it.
    """

    memory: int | None = None
    processes: int | None = None
    cpu_seconds: float | None = None
    cgroup: str | os.PathLike[str] | None = None


class Limiter:
    """Makes a holder for each command: a control group where possible, else `prlimit`."""

    def __init__(self, limits: ShellLimits, *, sandboxed: bool) -> None:
        """Find out which kind of holder works here.

        Raises:
            DefinitionError: A limit is not valid, or nothing on this system can enforce it.
        """
        _check(limits)
        self._limits = limits
        self._parent: Path | None = None
        problem = "no control groups of version 2 are mounted"
        for parent in _parents(limits.cgroup):
            try:
                ControlGroup(parent, limits).remove()
            except OSError as error:
                problem = f"{error.filename or parent}: {error.strerror}"
            else:
                self._parent = parent
                return
        if limits.cgroup is not None:
            raise DefinitionError(f"shell_tool: limits: no control group can be made ({problem})")
        if limits.processes is not None and (not sandboxed or os.getuid() == 0):
            why = "exempts root" if sandboxed else "counts every process of the user"
            raise DefinitionError(
                f"shell_tool: limits: processes cannot be limited here. prlimit {why}, and this "
                f"process can make no control group ({problem}). Give it one of its own "
                "(systemd-run -p Delegate=yes -p DelegateSubgroup=host ...), name one with "
                "`cgroup`, or leave `processes` out"
            )

    def holder(self) -> Holder:
        """Return a holder for one command.

        Raises:
            LimitsUnavailable: The system refuses to make one now.
        """
        if self._parent is None:
            return ResourceLimits(self._limits)
        try:
            return ControlGroup(self._parent, self._limits)
        except OSError as error:
            raise _unavailable(error) from error


class ResourceLimits:
    """Limits each process alone, with `prlimit`."""

    kind = "prlimit"

    def __init__(self, limits: ShellLimits) -> None:
        import resource  # Some systems lack it, and this file has to import there.

        self._set = resource.prlimit
        seconds = None if limits.cpu_seconds is None else math.ceil(limits.cpu_seconds)
        named = (
            (resource.RLIMIT_AS, limits.memory),
            (resource.RLIMIT_NPROC, limits.processes),
            (resource.RLIMIT_CPU, seconds),
        )
        self._limits = [(which, value) for which, value in named if value is not None]

    def hold(self, pid: int) -> None:
        """Limit a process; what it starts inherits the limits.

        Raises:
            LimitsUnavailable: The system refuses.
        """
        try:
            for which, value in self._limits:
                self._set(pid, which, (value, value))
        except (OSError, ValueError) as error:
            raise _unavailable(error) from error

    def spent(self) -> bool:
        """Return False: the kernel itself ends a process that has used up its time."""
        return False

    def reached(self) -> str | None:
        """Return None: the kernel does not say which limit was reached."""
        return None

    async def end(self) -> None:
        """Do nothing: the limits end with the processes."""


class ControlGroup:
    """Limits processes together, with a control group of their own."""

    kind = "cgroup"

    def __init__(self, parent: Path, limits: ShellLimits) -> None:
        """Make the group.

        Raises:
            OSError: This process may not make it, or the group lacks what the limits need.
        """
        # The host gave such a directory to this process to make groups in.
        if limits.cgroup is not None:
            with suppress(OSError):
                _write(parent / "cgroup.subtree_control", "+memory +pids")
        self._seconds = limits.cpu_seconds
        self._path = parent / f"functool-{os.getpid()}-{secrets.token_hex(8)}"
        self._path.mkdir()
        try:
            if limits.memory is not None:
                _write(self._path / "memory.max", str(limits.memory))
                _write(self._path / "memory.oom.group", "1")
                with suppress(FileNotFoundError):  # A kernel without swap has no such file.
                    _write(self._path / "memory.swap.max", "0")
            if limits.processes is not None:
                _write(self._path / "pids.max", str(limits.processes))
            if limits.cpu_seconds is not None:
                self._count("cpu.stat", "usage_usec")
        except BaseException:  # Otherwise the group would stay.
            self.remove()
            raise

    def hold(self, pid: int) -> None:
        """Move a process into the group. What it starts is in the group, too.

        Raises:
            LimitsUnavailable: The system refuses.
        """
        try:
            _write(self._path / "cgroup.procs", str(pid))
        except OSError as error:
            raise _unavailable(error) from error

    def spent(self) -> bool:
        """Whether the processor time is used up."""
        used = 0 if self._seconds is None else self._count("cpu.stat", "usage_usec")
        return self._seconds is not None and used > self._seconds * 1_000_000

    def reached(self) -> str | None:
        """Return the name of a limit that was reached, or None."""
        if self.spent():
            return "cpu_seconds"
        if self._count("memory.events", "oom_kill"):
            return "memory"
        return "processes" if self._count("pids.events", "max") else None

    async def end(self) -> None:
        """Kill what is still in the group, and remove the group."""
        with suppress(OSError):  # Linux 5.14
            _write(self._path / "cgroup.kill", "1")
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(GRACE):
                    while self._count("cgroup.events", "populated"):
                        await asyncio.sleep(POLL)
        finally:
            self.remove()

    def remove(self) -> None:
        """Remove the group, if no process is in it."""
        with suppress(OSError):
            self._path.rmdir()

    def _count(self, name: str, event: str) -> int:
        with suppress(FileNotFoundError):  # No limit needs this controller, so its file is missing.
            for line in (self._path / name).read_text().splitlines():
                found, _, count = line.partition(" ")
                if found == event:
                    return int(count)
        return 0


def _write(path: Path, text: str) -> None:
    # Not `write_text`, which would try to make the file. The kernel makes these files.
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _unavailable(error: Exception) -> LimitsUnavailable:
    reason = error.strerror if isinstance(error, OSError) else error
    return LimitsUnavailable(f"The limits could not be set, and the command did not run: {reason}.")


def _parents(chosen: str | os.PathLike[str] | None) -> list[Path]:
    if chosen is not None:
        return [Path(chosen)]
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            if line.startswith("0::/") and (GROUPS / "cgroup.controllers").exists():
                own = GROUPS / line.removeprefix("0::/")
                return [own] if own == GROUPS else [own, own.parent]
    return []


def _check(limits: ShellLimits) -> None:
    if not isinstance(limits, ShellLimits):
        raise DefinitionError(f"shell_tool: limits={limits!r} is not a ShellLimits")
    values = {name: getattr(limits, name) for name in LEAST}
    if all(value is None for value in values.values()):
        raise DefinitionError(
            "shell_tool: limits has no limit: give memory, processes, cpu_seconds"
        )
    for name, value in values.items():
        kinds = (int, float) if name == "cpu_seconds" else (int,)
        if value is not None:
            check_number(f"limits: {name}", value, LEAST[name], kinds)


def check_number(
    option: str, value: Any, least: float, kinds: tuple[type, ...] = (int, float)
) -> None:
    """Raise a DefinitionError if an option of `shell_tool` is not a number of at least `least`."""
    number = isinstance(value, kinds) and not isinstance(value, bool)
    if not (number and least <= value < math.inf):
        raise DefinitionError(f"shell_tool: {option}={value!r} is not a number of at least {least}")
