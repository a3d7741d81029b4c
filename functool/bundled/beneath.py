"""Open files beneath a directory, also if it has links or another program changes it meanwhile.

A directory is opened once and kept as a descriptor. The kernel walks every name from there: with
`openat2(RESOLVE_BENEATH)` if it has that call, else component by component with `O_NOFOLLOW`. What
is checked is what was opened. A name may mean something else a moment later.
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

It raises an OSError if the name leads out of the directory.
"""

MAX_PATH = 4_096
"""The longest path, in characters. The kernel refuses a path with more bytes."""

SYS_OPENAT2 = 437
NO_CROSSING_MOUNTS, NO_MAGIC_LINKS, BENEATH = 0x01, 0x02, 0x08
ATTEMPTS = 64
ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG}
LEADS_OUT = {errno.EXDEV, errno.ELOOP, errno.EAGAIN}
FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EISDIR, errno.EROFS, errno.ENXIO, errno.ENODEV}


class PathNotAllowed(ToolError):
    """The path leads out of the allowed directories, or is something that no tool here opens."""


class FileNotFound(ToolError):
    """There is no file of that name."""


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


class Boundary:
    """Open files beneath some directories, each of which is kept as a descriptor.

    A link is followed if it stays beneath its directory. Without `openat2` no link is followed.
    Mount points inside are not entered.
    """

    def __init__(
        self, roots: Iterable[str | os.PathLike[str]], opener: OpenBeneath | None = None
    ) -> None:
        """Open the directories.

        Args:
            roots: The directories. Relative paths are beneath the first.
            opener: Opens a name beneath a directory. None chooses the best that the system has.

        Raises:
            DefinitionError: A directory cannot be opened, no directory was given, or the system
                lacks what the boundary needs.
        """
        _require_support()
        self._roots: list[int] = []
        self._names: list[tuple[str, int]] = []
        for root in roots:
            try:
                descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                weakref.finalize(self, os.close, descriptor)
                names = {posixpath.normpath(Path(root).absolute()), os.path.realpath(root)}
            except (OSError, TypeError, ValueError) as error:
                raise DefinitionError(
                    f"{str(root)!r} cannot be opened as a directory: {error}"
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
        """Open `path` with `flags`, and return the descriptor.

        Raises:
            PathNotAllowed: The path leads out, or may not be opened with these flags.
            FileNotFound: There is no such file.
        """
        directory, name = self.locate(path)
        with as_tool_error(path):
            return self._open(directory, name, flags | os.O_CLOEXEC)

    def status(self, path: str) -> os.stat_result:
        """Return the status of `path`, without opening its content where the system can do that.

        Raises:
            PathNotAllowed: The path leads out.
            FileNotFound: There is no such file.
        """
        descriptor = self.open(
            path, getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        )
        try:
            return os.fstat(descriptor)
        finally:
            os.close(descriptor)

    def open_file(self, path: str) -> tuple[int, os.stat_result]:
        """Open a regular file for reading, and return its descriptor and status.

        Raises:
            PathNotAllowed: The path leads out, or is a directory, a device, a pipe or a socket.
            FileNotFound: There is no such file.
        """
        # Opening a pipe or a device can change it, so check the status first. The check that counts
        # is the second one, of what was opened.
        require_regular(path, self.status(path))
        descriptor = self.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            status = os.fstat(descriptor)
            require_regular(path, status)
        except BaseException:  # Otherwise the descriptor would stay open.
            os.close(descriptor)
            raise
        return descriptor, status

    def open_parent(self, path: str, *, make: bool = False) -> tuple[int, str]:
        """Open the directory that holds `path`; return its descriptor and the last name of `path`.

        Args:
            path: The path of a file, which need not exist.
            make: Whether to make the directory, and those above it, if they are missing.

        Raises:
            PathNotAllowed: The path leads out, or is one of the roots.
            FileNotFound: The directory is missing.
        """
        root, name = self.locate(path)
        parent, last = posixpath.split(name)
        if last == ".":
            raise PathNotAllowed(f"{path!r} is a directory, not a file.")
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        with as_tool_error(path):
            try:
                return self._open(root, parent or ".", flags), last
            except FileNotFoundError:
                if not make:
                    raise
                self._make(root, parent, flags)
            return self._open(root, parent, flags), last

    def locate(self, path: str) -> tuple[int, str]:
        """Return the descriptor of the root that `path` is in, and the name beneath that root.

        Raises:
            PathNotAllowed: The name of the path is outside of the roots, or is not a path.
            FileNotFound: The path is longer than any path can be.
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
    """Return a path as answers show it: without `.`, without avoidable `..`, and double slashes.

    Raises:
        PathNotAllowed: It has characters that no path can have.
        FileNotFound: It is longer than any path can be.
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
    """Check that a status is that of a regular file.

    Raises:
        PathNotAllowed: It is not.
    """
    if stat.S_ISREG(status.st_mode):
        return
    kinds = {stat.S_IFDIR: "a directory", stat.S_IFLNK: "a link"}
    kind = kinds.get(stat.S_IFMT(status.st_mode), "a device, a pipe or a socket")
    raise PathNotAllowed(f"{path!r} is {kind}, not a file.")


@contextmanager
def as_tool_error(path: str) -> Iterator[None]:
    """Turn an OSError into a ToolError for the model, which names no other path than `path`.

    Raises:
        PathNotAllowed: The path is forbidden, or leads out.
        FileNotFound: There is no such file.
        ToolError: The OSError has another cause.
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
    """Return `openat2` if this process can use it, else `walk`."""
    if sys.platform != "linux":
        return walk
    try:
        os.close(openat2(directory, ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    except OSError:
        return walk
    return openat2


def openat2(directory: int, name: str, flags: int) -> int:
    """Open `name` beneath `directory` in one system call, which also follows links."""
    # BENEATH refuses magic links too at present. openat2(2) advises to refuse them by name as well.
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
        # The kernel asks to try again if something was renamed while it followed `..`.
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
        # The kernel raises this both for a link and for a file in place of a directory. A link has
        # another error here.
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
    """Return what identifies the mount of an open file.

    Without `/proc` it is the file system's number. A directory that is mounted a second time has
    the same number as the first.
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
