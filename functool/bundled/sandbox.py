"""Choose what a sandboxed command sees of the host's files, as options of bubblewrap.

The working directory and the readable files are opened once and used by their descriptors. So a
renamed directory is still used, and a link that takes its name is not.
"""

import os
import stat
import weakref
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from functool import DefinitionError, ToolError

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
FILES_IN_MEMORY = 10
"""How many files of the largest size fit into the sandbox's `/tmp`."""

OWN = (Path("/proc"), Path("/dev"))
"""File systems of the sandbox itself. No directory of the host may replace them."""


class SandboxUnavailable(ToolError):
    """The sandbox could not be set up, so the command did not run."""


class Sandbox:
    """Make the options of bubblewrap, and keep the directories open that it shows."""

    def __init__(
        self,
        program: str,
        workdir: str,
        directory: int,
        network: bool,
        max_file_size: int,
        readable: Iterable[str | os.PathLike[str]],
    ) -> None:
        """Open the directories and files that commands see.

        Args:
            program: The path of bubblewrap.
            workdir: The path of the working directory, without links.
            directory: Its descriptor, which the caller keeps open.
            network: Whether commands reach the network.
            max_file_size: The size of the largest file, in bytes.
            readable: The files and directories that commands may read.

        Raises:
            DefinitionError: `workdir` or something in `readable` cannot be shown.
        """
        if workdir == "/":
            raise DefinitionError(
                "shell_tool: a sandbox whose working directory is / would protect nothing"
            )
        self._fixed = [program, *_namespaces(network), *_system(network, max_file_size)]
        self._workdir = Path(workdir)
        self._directory = directory
        self._readable: dict[Path, int] = {}
        places = {place for path in readable for place in _places(path, self._workdir)}
        inside = {place for place in places if place.is_relative_to(self._workdir)}
        for place in places:
            # A file inside of another readable directory is read-only already.
            if place not in inside or inside.isdisjoint(place.parents):
                self._readable[place] = descriptor = _opened(place)
                weakref.finalize(self, os.close, descriptor)

    @contextmanager
    def options(self) -> Iterator[tuple[list[str], list[int]]]:
        """Yield the program and its options for one command, and the descriptors that they name.

        Raises:
            SandboxUnavailable: A readable file inside of the working directory was moved.
        """
        with ExitStack() as opened:
            shown = {self._workdir: ("--bind-fd", self._directory)}
            for place, descriptor in self._readable.items():
                if place.is_relative_to(self._workdir):
                    shown |= self._way_to(place, descriptor, opened)
                shown[place] = ("--ro-bind-fd", descriptor)
            # A directory comes before what is inside of it. Otherwise it would cover that.
            places = sorted(shown, key=lambda place: len(place.parts))
            binds = [(shown[place][0], str(shown[place][1]), str(place)) for place in places]
            # Root without capabilities still owns the files in /proc/sys, which are settings of the
            # host's kernel.
            ends = [("--remount-ro", system) for system in ("/proc", "/dev", "/")]
            words = [word for bind in [*binds, *ends] for word in bind]
            options = [*self._fixed, *words, "--chdir", str(self._workdir)]
            yield options, [descriptor for _, descriptor in shown.values()]

    def _way_to(
        self, place: Path, descriptor: int, opened: ExitStack
    ) -> dict[Path, tuple[str, int]]:
        """Bind each directory on the way to `place` onto itself, so that no command can rename it.

        A mount point cannot be renamed. Otherwise one command could rename such a directory, and
        the next command could write what is beneath it.
        """
        here, way = self._directory, self._workdir
        found: dict[Path, tuple[str, int]] = {}
        for part in place.relative_to(self._workdir).parts:
            way /= part
            try:
                here = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
            except OSError:
                here = -1
                break
            opened.callback(os.close, here)
            found[way] = ("--bind-fd", here)
        if here < 0 or not os.path.sameopenfile(here, descriptor):
            raise SandboxUnavailable(
                f"{str(place)!r}, which commands may only read, was moved. The command did not run."
            )
        return found


def _namespaces(network: bool) -> list[str]:
    options = ["--die-with-parent", "--unshare-user", "--disable-userns", "--cap-drop", "ALL"]
    options += ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    return options if network else [*options, "--unshare-net"]


def _system(network: bool, max_file_size: int) -> list[str]:
    options = []
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
    return options


def _places(path: str | os.PathLike[str], workdir: Path) -> set[Path]:
    """Return the paths at which a readable path is shown: its own, and that of a link's target.

    The target counts only if it is inside of the working directory.

    Raises:
        DefinitionError: The path cannot be shown.
    """
    try:
        shown = Path(os.path.normpath(Path(path).absolute()))
        real = shown.resolve(strict=True)
    except (OSError, TypeError, ValueError) as error:
        raise DefinitionError(
            f"shell_tool: readable={str(path)!r} does not exist: {error}"
        ) from error
    if workdir in (shown, real):
        raise DefinitionError(
            f"shell_tool: readable={str(shown)!r} is the working directory, which commands write"
        )
    # A directory of the host would cover a file system of the sandbox.
    for place in (shown, real):
        if place == Path("/") or any(place.is_relative_to(own) for own in OWN):
            raise DefinitionError(
                f"shell_tool: readable={str(place)!r} would replace a part of the sandbox"
            )
    if shown.is_relative_to(workdir):  # It may be a link, which a command can change.
        return {real}
    return {shown, real} if real.is_relative_to(workdir) else {shown}


def _opened(place: Path) -> int:
    try:
        return os.open(place, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        raise DefinitionError(
            f"shell_tool: readable={str(place)!r} cannot be opened: {error}"
        ) from error


def open_workdir(path: str | os.PathLike[str]) -> tuple[str, int]:
    """Open the working directory, and return its path without links and its descriptor.

    Raises:
        DefinitionError: It is not a directory, or cannot be opened.
    """
    try:
        directory = Path(path).resolve(strict=True)
        if not stat.S_ISDIR(directory.stat().st_mode):
            raise DefinitionError(f"shell_tool: workdir={os.fspath(path)!r} is not a directory")
        return str(directory), os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except (OSError, TypeError, ValueError) as error:
        raise DefinitionError(
            f"shell_tool: workdir={str(path)!r} cannot be used: {error}"
        ) from error
