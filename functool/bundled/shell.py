"""A shell for a model, inside a sandbox.

    from functool.bundled.shell import shell_tool

    shell = shell_tool("/srv/project")

The boundary is the sandbox (bubblewrap, Debian's package `bubblewrap`, 0.8 or newer), never the
text of the command: a list of forbidden words, `input_guardrails=[block([...],
argument="command")]`, is advice to the model and nothing more. `docs/security.md` says what is
promised and what is not.
"""

import errno
import math
import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from functool import (
    Content,
    DefinitionError,
    FunctionTool,
    InputGuardrail,
    TextContent,
    Tool,
    ToolError,
    ToolResult,
    ToolSettings,
)
from functool.bundled.processes import BothEnds, Processes, SandboxedProcesses

SHELL = "/bin/sh"
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
SYSTEM_FILES = (
    "/etc/alternatives",
    "/etc/group",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/ssl/certs",
)
NETWORK_FILES = ("/etc/hosts", "/etc/resolv.conf")
MAX_COMMAND = 100_000
MIN_OUTPUT = 100
BLOCK = 512
"""The unit of `ulimit -f` in a POSIX shell, in bytes."""

FILES_IN_MEMORY = 10
"""How many of the largest files the sandbox's `/tmp` holds."""

SHORTEST = 0.001
"""The shortest time limit, in seconds."""

# The command is a child of this shell, so that its end, and not that of the first program it
# becomes, ends the rest.
WRAPPER = 'ulimit -c 0; ulimit -f "$1" 2>/dev/null; "$2" -c -- "$3"; exit $?'


class SandboxUnavailable(ToolError):
    """The sandbox could not be set up; the command did not run."""


def shell_tool(
    workdir: str | os.PathLike[str],
    *,
    timeout: float = 30.0,
    sandbox: Literal["bwrap", "none"] = "bwrap",
    sandbox_path: str | os.PathLike[str] | None = None,
    network: bool = False,
    env: Mapping[str, str] | None = None,
    max_output: int = 60_000,
    max_file_size: int = 100_000_000,
    readable: Iterable[str | os.PathLike[str]] = (),
    input_guardrails: Sequence[InputGuardrail] = (),
) -> Tool:
    """Return the tool `shell`, which runs a command with `/bin/sh` in a directory.

    Args:
        workdir: The directory in which commands run, and the only one of the host's they can write.
        timeout: The time limit of a command, in seconds; the model may lower it.
        sandbox: `"bwrap"` for bubblewrap; `"none"` runs commands with all the rights of this
            process.
        sandbox_path: Where the sandbox program is; None looks along `PATH`.
        network: Whether commands reach the network.
        env: Environment variables of the commands; nothing is inherited.
        max_output: The most characters of output that are kept, half from each end.
        max_file_size: The most that a command can write into one file, in bytes.
        readable: More files and directories of the host that a sandboxed command may read.
        input_guardrails: The tool's guardrails.

    Raises:
        DefinitionError: The sandbox program or a directory is missing, a limit is no limit, `env`
            holds what cannot be a variable, or this is not Linux.
    """
    directory = _directory(workdir)
    _require_at_least("timeout", timeout, SHORTEST)
    _require_at_least("max_output", max_output, MIN_OUTPUT)
    _require_at_least("max_file_size", max_file_size, BLOCK)
    if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
        raise DefinitionError(
            "shell_tool needs Linux: it holds processes by their descriptors (pidfd_open)"
        )
    variables = {
        "PATH": DEFAULT_PATH,
        "HOME": directory,
        "LANG": "C.UTF-8",
        **_variables(env or {}),
    }
    prefix: list[str] = []
    if sandbox == "bwrap":
        prefix = [
            _program(sandbox_path),
            *_bwrap_options(directory, network, max_file_size, readable),
        ]
    elif sandbox != "none":
        raise DefinitionError(f"shell_tool: sandbox={sandbox!r} is neither 'bwrap' nor 'none'")
    shell = _Shell(
        sandbox, prefix, directory, variables, timeout, max_output, max_file_size // BLOCK
    )
    return FunctionTool(
        shell.run,
        name="shell",
        description=shell.description(network),
        settings=ToolSettings(read_only=False, destructive=True, idempotent=False),
        input_guardrails=input_guardrails,
    )


@dataclass
class _Shell:
    sandbox: str
    options: list[str]
    workdir: str
    env: dict[str, str]
    timeout: float
    max_output: int
    max_blocks: int

    async def run(
        self,
        command: Annotated[
            str, Field(min_length=1, max_length=MAX_COMMAND, description="For `/bin/sh -c`.")
        ],
        timeout: Annotated[
            float | None, Field(gt=0, description="A shorter time limit, in seconds.")
        ] = None,
    ) -> ToolResult:
        limit = self.timeout if timeout is None else min(self.timeout, timeout)
        output = BothEnds(self.max_output)
        processes = self._start(command, output)
        in_time = await processes.finish(limit)
        if in_time and isinstance(processes, SandboxedProcesses) and not processes.ran:
            raise SandboxUnavailable(
                f"The sandbox could not be set up, and the command did not run: {output.text()}"
            )
        metadata = {
            "sandbox": self.sandbox,
            "exit_code": processes.exit_code,
            "truncated": output.cut,
        }
        if in_time and processes.exit_code == 0:
            return ToolResult.of(output.text(), metadata=metadata)
        kept: list[Content] = [TextContent(text=output.text())] if output.text() else []
        if not in_time:
            message = f"The command did not end within {limit:g} seconds; it was stopped, with all that it had started."
            return ToolResult.failed(
                message,
                type="ToolTimeoutError",
                details={"timeout": limit},
                output=kept,
                metadata=metadata,
            )
        message = f"The command ended with exit code {processes.exit_code}."
        details = {"exit_code": processes.exit_code}
        return ToolResult.failed(
            message, type="CommandFailed", details=details, output=kept, metadata=metadata
        )

    def _start(self, command: str, output: BothEnds) -> Processes:
        if "\0" in command:
            raise ToolError("A command cannot hold a NUL character.")
        argv = [SHELL, "-c", WRAPPER, "sh", str(self.max_blocks), SHELL, command]
        try:
            if self.options:
                return SandboxedProcesses(self.options, argv, env=self.env, output=output)
            return Processes(argv, cwd=self.workdir, env=self.env, output=output)
        except OSError as error:
            kind = (
                ToolError if error.errno == errno.E2BIG or not self.options else SandboxUnavailable
            )
            raise kind(f"The command could not be started: {error.strerror}.") from error

    def description(self, network: bool) -> str:
        where = "on the host, without a sandbox" if self.sandbox == "none" else "in a sandbox"
        reach = "" if self.sandbox == "none" else f" It has {'a' if network else 'no'} network."
        return (
            f"Run a command with /bin/sh {where}. It starts in {self.workdir}; the files there are kept between calls."
            f"{reach} The command has no input and at most {self.timeout:g} seconds; what it starts in the background "
            "ends with it."
        )


def _bwrap_options(
    workdir: str, network: bool, max_file_size: int, readable: Iterable[str | os.PathLike[str]]
) -> list[str]:
    if workdir == "/":
        raise DefinitionError("shell_tool: a sandbox whose working directory is / would be none")
    options = ["--die-with-parent", "--unshare-user", "--disable-userns", "--cap-drop", "ALL"]
    options += ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    options += [] if network else ["--unshare-net"]
    for system in map(Path, SYSTEM):
        if system.is_symlink():
            options += ["--symlink", str(system.readlink()), str(system)]
        elif system.exists():
            options += ["--ro-bind", str(system), str(system)]
    for file in SYSTEM_FILES + (NETWORK_FILES if network else ()):
        options += ["--ro-bind-try", file, file]
    options += ["--proc", "/proc", "--dev", "/dev"]
    for memory in ("/tmp", "/dev/shm"):
        options += ["--size", str(FILES_IN_MEMORY * max_file_size), "--tmpfs", memory]
    for path in readable:
        shown = str(Path(path).absolute())
        if not Path(path).exists():
            raise DefinitionError(f"shell_tool: readable={shown!r} does not exist")
        options += ["--ro-bind", shown, shown]
    options += ["--bind", workdir, workdir, "--chdir", workdir]
    # Root without capabilities still owns what is in /proc/sys, and with it the kernel of the host.
    return [
        *options,
        *(word for system in ("/proc", "/dev", "/") for word in ("--remount-ro", system)),
    ]


def _program(path: str | os.PathLike[str] | None) -> str:
    found = shutil.which("bwrap" if path is None else path)
    if found is None:
        where = "on PATH" if path is None else f"at {os.fspath(path)!r}"
        raise DefinitionError(
            f"shell_tool: there is no sandbox program {where}. Install bubblewrap (apt-get install bubblewrap), say "
            "where it is with sandbox_path, or choose sandbox='none': then commands have all the rights of this process"
        )
    return str(Path(found).absolute())


def _directory(path: str | os.PathLike[str]) -> str:
    try:
        directory = Path(path).resolve(strict=True)
    except (OSError, ValueError) as error:
        raise DefinitionError(
            f"shell_tool: workdir={os.fspath(path)!r} cannot be used: {error}"
        ) from error
    if not directory.is_dir():
        raise DefinitionError(f"shell_tool: workdir={os.fspath(path)!r} is not a directory")
    return str(directory)


def _variables(env: Mapping[str, str]) -> Mapping[str, str]:
    for name, value in env.items():
        texts = isinstance(name, str) and isinstance(value, str)
        if not texts or not name or "=" in name or "\0" in name + value:
            raise DefinitionError(
                f"shell_tool: env has {name!r}, which is no variable with a text as its value"
            )
    return env


def _require_at_least(name: str, value: Any, least: float) -> None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not least <= value < math.inf:
        raise DefinitionError(f"shell_tool: {name}={value!r} is not a number of at least {least}")
