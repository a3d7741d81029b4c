"""A shell for a model, inside a sandbox.

    from functool.bundled.shell import shell_tool

    shell = shell_tool("/srv/project")

The sandbox is the boundary. A list of forbidden words in the command,
`input_guardrails=[block([...], argument="command")]`, is only advice to the model. The
sandbox is bubblewrap 0.10, or an older one with the fix of CVE-2024-42472, as distributions have it
(`apt-get install bubblewrap`). `docs/security.md` says what is promised and what is not.
"""

import errno
import os
import shutil
import signal
import sys
import weakref
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
from functool.bundled.limits import Limiter, LimitsUnavailable, ShellLimits, check_number
from functool.bundled.processes import SHELL, BothEnds, Holder, Processes, SandboxedProcesses
from functool.bundled.sandbox import Sandbox, SandboxUnavailable, open_workdir

__all__ = ["LimitsUnavailable", "SandboxUnavailable", "ShellLimits", "shell_tool"]

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MAX_COMMAND = 100_000
BLOCK = 512
"""The unit of `ulimit -f` in a POSIX shell, in bytes."""

LEAST: dict[str, float] = {"timeout": 0.001, "max_output": 100, "max_file_size": BLOCK}
"""The least of each limit: seconds, characters, bytes."""

TOO_OLD = "functool needs bubblewrap 0.10, or an older one with the fix of CVE-2024-42472."

# The command is a child of this shell. So the remaining processes are ended when the command ends,
# and not when the first program ends that it turns into.
WRAPPER = 'ulimit -c 0; ulimit -f "$1" 2>/dev/null; "$2" -c -- "$3"; exit $?'


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
    readable: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
    limits: ShellLimits | None = None,
    input_guardrails: Sequence[InputGuardrail] = (),
) -> Tool:
    """Return the tool `shell`, which runs a command with `/bin/sh` in a directory.

    Args:
        workdir: Where commands run, and the only directory of the host where they can write. It is
            opened now. A later directory of the same name is not used.
        timeout: The time limit of a command, in seconds. The model may lower it.
        sandbox: `"bwrap"`, or `"none"` for commands with all the rights of this process.
        sandbox_path: The path of bubblewrap. None searches `PATH`.
        network: Whether commands reach the network.
        env: Environment variables of the commands. Commands inherit none from this process.
        max_output: How many characters of output are kept, half from each end.
        max_file_size: How much a command can write into one file, in bytes.
        readable: More files and directories that a sandboxed command may read. They are opened now.
        limits: How much memory, and how many processes and seconds of processor time, a command
            may use.
        input_guardrails: The tool's guardrails.

    Raises:
        DefinitionError: The sandbox program or a directory is missing, a limit is not valid or
            cannot be enforced here, `env` has an invalid variable, or this is not Linux.
    """
    _check(sandbox, network, timeout=timeout, max_output=max_output, max_file_size=max_file_size)
    shell = _Shell(*open_workdir(workdir), _variables(env), timeout, max_output, max_file_size)
    if sandbox == "bwrap":
        shown = [readable] if isinstance(readable, (str, os.PathLike)) else readable
        shell.sandbox = Sandbox(
            _program(sandbox_path), shell.workdir, shell.directory, network, max_file_size, shown
        )
    if limits is not None:
        shell.limiter = Limiter(limits, sandboxed=sandbox == "bwrap")
    return FunctionTool(
        shell.run,
        name="shell",
        description=shell.description(network),
        settings=ToolSettings(read_only=False, destructive=True, idempotent=False),
        input_guardrails=input_guardrails,
    )


@dataclass(eq=False)
class _Shell:
    workdir: str
    directory: int
    env: Mapping[str, str]
    timeout: float
    max_output: int
    max_file_size: int
    sandbox: Sandbox | None = None
    limiter: Limiter | None = None

    def __post_init__(self) -> None:
        weakref.finalize(self, os.close, self.directory)
        self.env = {"PATH": DEFAULT_PATH, "HOME": self.workdir, "LANG": "C.UTF-8", **self.env}

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
        holder = None if self.limiter is None else self.limiter.holder()
        try:
            processes = self._start(command, output, holder)
            in_time = await processes.finish(limit)
            metadata = self._metadata(processes, output, holder)
        finally:
            if holder is not None:
                await holder.end()
        if in_time and not processes.ran:
            raise self._not_run(output.text())
        return _answer(output.text(), None if in_time else limit, metadata)

    def _start(self, command: str, output: BothEnds, holder: Holder | None) -> Processes:
        if "\0" in command:
            raise ToolError("A command cannot hold a NUL character.")
        if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
            raise ToolError(
                "The command did not run: the host ignores SIGCHLD, so it would not see the end of"
                " a command. It has to call signal.signal(signal.SIGCHLD, signal.SIG_DFL)."
            )
        argv = [SHELL, "-c", WRAPPER, "sh", str(self.max_file_size // BLOCK), SHELL, command]
        try:
            if self.sandbox is None:
                here = f"/proc/self/fd/{self.directory}"
                return Processes(argv, cwd=here, env=self.env, output=output, holder=holder)
            with self.sandbox.options() as (options, shown):
                return SandboxedProcesses(
                    options, argv, env=self.env, output=output, inherited=shown, holder=holder
                )
        except OSError as error:
            of_command = error.errno == errno.E2BIG or self.sandbox is None
            kind = ToolError if of_command else SandboxUnavailable
            raise kind(f"The command could not be started: {error.strerror}.") from error

    def _not_run(self, output: str) -> ToolError:
        if self.sandbox is None:
            return ToolError(
                f"The shell could not be set up, and the command did not run: {output}"
            )
        hint = TOO_OLD if "--bind-fd" in output else ""
        return SandboxUnavailable(
            f"The sandbox could not be set up, and the command did not run: {output}{hint}"
        )

    def _metadata(
        self, processes: Processes, output: BothEnds, holder: Holder | None
    ) -> dict[str, Any]:
        metadata = {
            "sandbox": "none" if self.sandbox is None else "bwrap",
            "exit_code": processes.exit_code,
            "truncated": output.cut,
        }
        if holder is None:
            return metadata
        return {**metadata, "limits": holder.kind, "reached": holder.reached()}

    def description(self, network: bool) -> str:
        where = "on the host, without a sandbox" if self.sandbox is None else "in a sandbox"
        reach = "" if self.sandbox is None else f" It has {'a' if network else 'no'} network."
        return (
            f"Run a command with /bin/sh {where}. It starts in {self.workdir}; the files there are "
            f"kept between calls.{reach} The command has no input and at most {self.timeout:g} "
            "seconds; what it starts in the background ends with it."
        )


def _answer(text: str, limit: float | None, metadata: dict[str, Any]) -> ToolResult:
    """Return the result of a command. `limit` is the time limit if it has ended the command."""
    code, reached = metadata["exit_code"], metadata.get("reached")
    if limit is None and code == 0:
        return ToolResult.of(text, metadata=metadata)
    kept: list[Content] = [TextContent(text=text)] if text else []
    if limit is not None:
        return ToolResult.failed(
            f"The command did not end within {limit:g} seconds; it was stopped, with all that it "
            "had started.",
            type="ToolTimeoutError",
            details={"timeout": limit},
            output=kept,
            metadata=metadata,
        )
    why = f" It reached its limit of {reached}." if reached else ""
    return ToolResult.failed(
        f"The command ended with exit code {code}.{why}",
        type="CommandFailed",
        details={"exit_code": code, **({"limit": reached} if reached else {})},
        output=kept,
        metadata=metadata,
    )


def _program(path: str | os.PathLike[str] | None) -> str:
    found = shutil.which("bwrap" if path is None else path)
    if found is None:
        where = "on PATH" if path is None else f"at {os.fspath(path)!r}"
        raise DefinitionError(
            f"shell_tool: there is no sandbox program {where}. Install bubblewrap (apt-get install "
            "bubblewrap), say where it is with sandbox_path, or choose sandbox='none': then "
            "commands have all the rights of this process"
        )
    return str(Path(found).absolute())


def _variables(env: Mapping[str, str] | None) -> Mapping[str, str]:
    for name, value in (env or {}).items():
        texts = isinstance(name, str) and isinstance(value, str)
        if not texts or not name or "=" in name or "\0" in name + value:
            raise DefinitionError(
                f"shell_tool: env has {name!r}, which is not a valid name with a text as its value"
            )
    return env or {}


def _check(sandbox: str, network: bool, **limits: float) -> None:
    for name, value in limits.items():
        check_number(name, value, LEAST[name])
    if sandbox not in ("bwrap", "none"):
        raise DefinitionError(f"shell_tool: sandbox={sandbox!r} is neither 'bwrap' nor 'none'")
    if not isinstance(network, bool):  # A stored "no" would open the network.
        raise DefinitionError(f"shell_tool: network={network!r} is neither True nor False")
    if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
        raise DefinitionError(
            "shell_tool needs Linux: it holds processes by their descriptors (pidfd_open)"
        )
