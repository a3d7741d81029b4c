"""Replace a file completely or not at all, and replace a text that occurs once."""

import os
import secrets
import stat
from contextlib import suppress

from functool import ToolError
from functool.bundled.beneath import PathNotAllowed, require_regular


class EditRefused(ToolError):
    """The old text does not occur exactly once (`details` has the `count`), or the file changed."""


def replaced_once(path: str, data: bytes, old: bytes, new: bytes) -> bytes:
    """Return `data` with `old` replaced by `new`.

    Raises:
        EditRefused: `old` does not occur exactly once.
    """
    first = data.find(old)
    # The second occurrence may overlap the first. `count` would see only one, but the edit would
    # still be ambiguous.
    count = 0 if first < 0 else 1 if data.find(old, first + 1) < 0 else max(2, data.count(old))
    if count != 1:
        advice = "Read the file again." if count == 0 else "Give more of the text around it."
        message = f"The old text occurs {count} times in {path!r}, and must occur once. {advice}"
        raise EditRefused(message, details={"count": count})
    return data[:first] + new + data[first + len(old) :]


def replace_file(
    path: str, directory: int, name: str, data: bytes, read: os.stat_result | None = None
) -> None:
    """Replace the file `name`, completely or not at all.

    Args:
        path: The path that errors show to the model.
        directory: The descriptor of the directory.
        name: The file's name in the directory.
        data: The content.
        read: The status of the file that `data` was made from.

    Raises:
        EditRefused: The file was changed since it was read.
        PathNotAllowed: It is not a regular file, or it is read-only.
        OSError: The system refuses.
    """
    old = _status(path, directory, name)
    # A new version of a private file has to be private while it is written, too.
    mode = 0o666 if old is None else 0o600
    temporary = f".{secrets.token_hex(8)}.tmp"
    unnamed = _open_unnamed(directory, mode)
    descriptor = _open_new(directory, temporary, mode) if unnamed is None else unnamed
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            if old is not None:
                with suppress(PermissionError):
                    os.fchown(descriptor, old.st_uid, old.st_gid)
                os.fchmod(descriptor, stat.S_IMODE(old.st_mode) & 0o777)
            file.flush()
            os.fsync(descriptor)
            if read is not None and _version(_status(path, directory, name)) != _version(read):
                raise EditRefused(f"{path!r} was changed meanwhile. Read it again.")
            if unnamed is not None:
                os.link(f"/proc/self/fd/{descriptor}", temporary, dst_dir_fd=directory)
        os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:  # Otherwise the temporary file would stay.
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=directory)
        raise


def _open_unnamed(directory: int, mode: int) -> int | None:
    """Open a file without a name. The kernel removes it if this process is killed.

    Returns:
        The descriptor, or None where the system or the file system has no such files.
    """
    if not hasattr(os, "O_TMPFILE") or not os.path.exists("/proc/self/fd"):  # noqa: PTH110
        return None
    try:
        return os.open(".", os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC, mode, dir_fd=directory)
    except OSError:
        return None


def _open_new(directory: int, name: str, mode: int) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(name, flags, mode, dir_fd=directory)


def _status(path: str, directory: int, name: str) -> os.stat_result | None:
    """Return the status of the file that will be replaced, or None if there is no file."""
    try:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
    require_regular(path, status)
    if not status.st_mode & 0o222:
        raise PathNotAllowed(f"{path!r} is read-only.")
    return status


def _version(status: os.stat_result | None) -> tuple[int, ...] | None:
    """Return what changes when a file changes. No program can set the last value, `st_ctime_ns`."""
    if status is None:
        return None
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
