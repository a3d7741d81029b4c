"""Open files beneath a directory, whatever its links say and whoever changes them meanwhile.

A directory is held by its descriptor, and every name is walked from there by the kernel:
`openat2(RESOLVE_BENEATH)` where there is one, else component by component with `O_NOFOLLOW`. What
is checked is what was opened, never a name that may mean something else a moment later.
"""

import ctypes
import errno
import os
import posixpath
import stat
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from functool import DefinitionError, ToolError

OpenBeneath: TypeAlias = Callable[[int, str, int], int]
"""`(directory, name, flags) -> descriptor`, for a relative name without `..`.

It raises an OSError for what leads out.
"""

MAX_PATH = 4_096
"""The longest path, in characters: the kernel takes none that has more bytes."""

SYS_OPENAT2 = 437
NO_CROSSING_MOUNTS, NO_MAGIC_LINKS, BENEATH = 0x01, 0x02, 0x08
ATTEMPTS = 64
ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG}
LEADS_OUT = {errno.EXDEV, errno.ELOOP, errno.EAGAIN}
FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EISDIR, errno.EROFS, errno.ENXIO, errno.ENODEV}


class PathNotAllowed(ToolError):
    """The path leads out of the allowed directories, or is not something these tools touch."""


class FileNotFound(ToolError):
    """There is nothing of that name."""


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


class Boundary:
    """Some directories, each held by a descriptor; the way to everything beneath them.

    Links are followed as long as they stay beneath their directory (without `openat2` none is);
    mount points inside are not entered.
    """

    def __init__(
        self, roots: Iterable[str | os.PathLike[str]], opener: OpenBeneath | None = None
    ) -> None:
        """Hold the directories.

        Args:
            roots: The directories; relative paths are beneath the first.
            opener: How names are walked; None takes the best that the system has.

        Raises:
            DefinitionError: A directory cannot be opened, there is none, or the system cannot hold
                the boundary.
        """
        _require_support()
        self._roots: list[int] = []
        self._names: list[tuple[str, int]] = []
        for root in roots:
            try:
                descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                weakref.finalize(self, os.close, descriptor)
                names = {posixpath.normpath(Path(root).absolute()), os.path.realpath(root)}
            except (OSError, ValueError) as error:
                raise DefinitionError(
                    f"{os.fspath(root)!r} cannot be opened as a directory: {error}"
                ) from error
            self._roots.append(descriptor)
            self._names += [(name, descriptor) for name in names]
        if not self._roots:
            raise DefinitionError(
                "no directory was given: file tools reach only the directories they are given"
            )
        self._names.sort(key=lambda entry: len(entry[0]), reverse=True)
        self._open = opener or best_opener(self._roots[0])

    def open(self, path: str, flags: int) -> int:
        """Return a descriptor of what is at `path`, opened with `flags`.

        Raises:
            PathNotAllowed: The path leads out, or must not be opened so.
            FileNotFound: Nothing is there.
        """
        directory, name = self.locate(path)
        with told(path):
            return self._open(directory, name, flags | os.O_CLOEXEC)

    def status(self, path: str) -> os.stat_result:
        """Return the status of what is at `path`, without touching it where the system can.

        Raises:
            PathNotAllowed: The path leads out.
            FileNotFound: Nothing is there.
        """
        descriptor = self.open(
            path, getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        )
        try:
            return os.fstat(descriptor)
        finally:
            os.close(descriptor)

    def open_file(self, path: str) -> tuple[int, os.stat_result]:
        """Return a descriptor of the regular file at `path`, for reading, and its status.

        Raises:
            PathNotAllowed: The path leads out, or is a directory, a device, a pipe or a socket.
            FileNotFound: Nothing is there.
        """
        # To open a pipe or a device can change it, so look first. What counts is the second look,
        # at what was opened.
        require_regular(path, self.status(path))
        descriptor = self.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            status = os.fstat(descriptor)
            require_regular(path, status)
        except BaseException:  # Whatever stops this, the descriptor would stay open.
            os.close(descriptor)
            raise
        return descriptor, status

    def open_parent(self, path: str, *, make: bool = False) -> tuple[int, str]:
        """Return a descriptor of the directory that holds `path`, and the last name of `path`.

        Args:
            path: A name of something in that directory, there or not.
            make: Whether to make the directory, and those above it, if they are missing.

        Raises:
            PathNotAllowed: The path leads out, or is one of the roots themselves.
            FileNotFound: The directory is missing.
        """
        root, name = self.locate(path)
        parent, last = posixpath.split(name)
        if last == ".":
            raise PathNotAllowed(f"{path!r} is a directory, not a file.")
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        with told(path):
            try:
                return self._open(root, parent or ".", flags), last
            except FileNotFoundError:
                if not make:
                    raise
                self._make(root, parent, flags)
            return self._open(root, parent, flags), last

    def locate(self, path: str) -> tuple[int, str]:
        """Return the descriptor of the directory that `path` is in, and its name beneath.

        Raises:
            PathNotAllowed: The path is outside, by its name alone, or is no path.
            FileNotFound: It is longer than any file's.
        """
        name = canonical(path)
        directory = self._roots[0]
        if name.startswith("/"):
            directory, name = self._beneath(name)
        if name == ".." or name.startswith(("../", "/")):
            raise PathNotAllowed(f"{path[:200]!r} is outside of the allowed directories.")
        return directory, name

    def _beneath(self, name: str) -> tuple[int, str]:
        for root, descriptor in self._names:
            if name == root:
                return descriptor, "."
            if name.startswith(root.rstrip("/") + "/"):
                return descriptor, name[len(root.rstrip("/")) + 1 :]
        return self._roots[0], name

    def _make(self, root: int, name: str, flags: int) -> None:
        parts = name.split("/")
        for depth, part in enumerate(parts):
            parent = self._open(root, "/".join(parts[:depth]) or ".", flags)
            try:
                os.mkdir(part, dir_fd=parent)
            except FileExistsError:
                pass
            finally:
                os.close(parent)


def canonical(path: str) -> str:
    """Return a path as it is shown in answers: without `.`, `..` that can go, and double slashes.

    Raises:
        PathNotAllowed: It holds what no path can.
        FileNotFound: It is longer than any file's.
    """
    if len(path) > MAX_PATH:
        raise FileNotFound(f"{path[:200]!r}: {os.strerror(errno.ENAMETOOLONG)}.")
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        raise PathNotAllowed("A path must be valid text.") from error
    if "\0" in path:
        raise PathNotAllowed("A path cannot hold a NUL character.")
    name = posixpath.normpath(path)
    return name[1:] if name.startswith("//") else name


def require_regular(path: str, status: os.stat_result) -> None:
    """Refuse what is not a regular file.

    Raises:
        PathNotAllowed: It is something else.
    """
    if stat.S_ISREG(status.st_mode):
        return
    kinds = {stat.S_IFDIR: "a directory", stat.S_IFLNK: "a link"}
    kind = kinds.get(stat.S_IFMT(status.st_mode), "a device, a pipe or a socket")
    raise PathNotAllowed(f"{path!r} is {kind}, not a file.")


@contextmanager
def told(path: str) -> Iterator[None]:
    """Tell the model of an OSError in words that name `path` alone.

    Raises:
        PathNotAllowed: It was about permission, or about a way out.
        FileNotFound: Nothing is there.
        ToolError: It was anything else.
    """
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno or errno.EIO)
        if error.errno in ABSENT:
            raise FileNotFound(f"{path[:200]!r}: {reason}.") from error
        if error.errno in LEADS_OUT:
            raise PathNotAllowed(
                f"{path[:200]!r} leads out of the allowed directories, by a link or mount."
            ) from error
        if error.errno in FORBIDDEN:
            raise PathNotAllowed(f"{path[:200]!r}: {reason}.") from error
        raise ToolError(f"{path[:200]!r}: {reason}.") from error


def best_opener(directory: int) -> OpenBeneath:
    """Return `openat2` if the kernel has it and lets this process use it, else `walk`."""
    if sys.platform != "linux":
        return walk
    try:
        os.close(openat2(directory, ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    except OSError:
        return walk
    return openat2


def openat2(directory: int, name: str, flags: int) -> int:
    """Open `name` beneath `directory` in one system call, links and all."""
    # BENEATH shuts out magic links too, for now: openat2(2) advises to ask for that by name.
    how = _How(flags=flags, mode=0, resolve=BENEATH | NO_MAGIC_LINKS | NO_CROSSING_MOUNTS)
    failure = errno.EAGAIN
    for _ in range(ATTEMPTS):
        arguments = (
            ctypes.c_long(directory),
            os.fsencode(name),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
        descriptor = int(_system_call()(ctypes.c_long(SYS_OPENAT2), *arguments))
        if descriptor >= 0:
            return descriptor
        failure = ctypes.get_errno()
        # The kernel asks to try again when something was renamed while it went up from a link.
        if failure not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(failure, os.strerror(failure))


@cache
def _system_call() -> Any:
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    return call


def walk(directory: int, name: str, flags: int) -> int:
    """Open `name` beneath `directory` one component at a time, following no link or mount."""
    *parents, last = name.split("/")
    mount = _mount(directory)
    here = os.dup(directory)
    try:
        for part in parents:
            below = _open_entry(here, part, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, mount)
            os.close(here)
            here = below
        return _open_entry(here, last, flags, mount)
    finally:
        os.close(here)


def _open_entry(directory: int, name: str, flags: int, mount: tuple[str, int]) -> int:
    try:
        descriptor = os.open(name, flags | os.O_NOFOLLOW, dir_fd=directory)
    except NotADirectoryError:
        # What the kernel says of a link that should be a directory; it has to be told from a file
        # that should be one.
        if stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
        raise
    link = stat.S_ISLNK(os.fstat(descriptor).st_mode)  # O_PATH opens the link itself
    if link or _mount(descriptor) != mount:
        os.close(descriptor)
        failure = errno.ELOOP if link else errno.EXDEV
        raise OSError(failure, os.strerror(failure))
    return descriptor


def _mount(descriptor: int) -> tuple[str, int]:
    """Return what tells one mount from another.

    Without `/proc` it is the file system's number, which a directory that is mounted a second time
    shares with the first.
    """
    with suppress(OSError), open(f"/proc/self/fdinfo/{descriptor}") as lines:  # noqa: PTH123
        for line in lines:
            if line.startswith("mnt_id:"):
                return "mount", int(line.removeprefix("mnt_id:"))
    return "device", os.fstat(descriptor).st_dev


def _require_support() -> None:
    missing = [
        flag for flag in ("O_NOFOLLOW", "O_DIRECTORY", "O_NONBLOCK") if not hasattr(os, flag)
    ]
    needed = {
        "open": os.open,
        "stat": os.stat,
        "mkdir": os.mkdir,
        "rename": os.rename,
        "unlink": os.unlink,
    }
    missing += [
        f"dir_fd of os.{name}"
        for name, function in needed.items()
        if function not in os.supports_dir_fd
    ]
    missing += [] if os.scandir in os.supports_fd else ["descriptors in os.scandir"]
    if missing:
        raise DefinitionError(
            f"this system cannot hold file tools inside a directory: it lacks {', '.join(missing)}"
        )
