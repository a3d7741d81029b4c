"""The boundary of the file tools: what is opened beneath a directory, and what is not."""

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functool import DefinitionError, ToolError
from functool.bundled import beneath
from functool.bundled.beneath import Boundary, FileNotFound, PathNotAllowed

SECRET = "the secret"

SWAPPER = """
import os, sys
os.chdir(sys.argv[1])
print("ready", flush=True)
while True:
    os.rename("inner", "kept"); os.rename("link", "inner"); os.rename("inner", "link"); os.rename("kept", "inner")
"""


def checked_read(root, path):
    """The plain implementation: look where the name leads, then open the name."""
    target = os.path.realpath(os.path.join(root, path))
    if os.path.commonpath([target, os.path.realpath(root)]) != os.path.realpath(root):
        raise PermissionError(path)
    with open(os.path.join(root, path)) as file:
        return file.read()


def unchecked_read(root, path):
    """The plainer implementation: join and open."""
    with open(os.path.join(root, path)) as file:
        return file.read()


def read(boundary, path):
    descriptor, _ = boundary.open_file(path)
    with os.fdopen(descriptor) as file:
        return file.read()


def best_opener():
    directory = os.open("/", os.O_RDONLY)
    try:
        return beneath.best_opener(directory)
    finally:
        os.close(directory)


def build(base):
    """Make a root with ways out of all kinds, beside what they lead to."""
    root = base / "root"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "a.txt").write_text("inside")
    (base / "secret.txt").write_text(SECRET)
    (base / "root-not").mkdir()
    (base / "root-not" / "secret.txt").write_text(SECRET)
    (root / "file-out").symlink_to("../secret.txt")
    (root / "file-out-absolute").symlink_to(base / "secret.txt")
    (root / "up").symlink_to("..")
    (root / "chain").symlink_to("up/secret.txt")
    (root / "sub" / "back").symlink_to("../../root-not")
    (root / "inside").symlink_to("sub/a.txt")
    (root / "loop").symlink_to("loop")
    (root / "environ").symlink_to("/proc/self/environ")
    (root / "descriptor").symlink_to("/proc/self/fd/0")
    return root


@pytest.fixture(params=["openat2", "walk"])
def opener(request):
    if request.param == "openat2" and best_opener() is not beneath.openat2:
        pytest.skip("this kernel has no openat2: only the walk is tested")
    return getattr(beneath, request.param)


@pytest.fixture
def root(tmp_path):
    return build(tmp_path)


ESCAPES = [
    "../secret.txt",
    "sub/../../secret.txt",
    "./.././root/../secret.txt",
    "../root-not/secret.txt",
    "file-out",
    "file-out-absolute",
    "up/secret.txt",
    "chain",
    "sub/back/secret.txt",
    "{outside}/secret.txt",
    "{outside}/root-not/secret.txt",
    "{outside}/root/../secret.txt",
    "//{outside}/secret.txt",
]


@pytest.mark.parametrize("path", ESCAPES)
def test_ways_out_are_refused(root, opener, path):
    """No traversal, absolute path, sibling with a common prefix or link leads out, though each does for a plain open."""
    path = path.format(outside=root.parent)

    assert unchecked_read(root, path) == SECRET
    with pytest.raises(PathNotAllowed):
        Boundary([root], opener).open_file(path)


@pytest.mark.parametrize(
    "path", ["environ", "/proc/self/environ", "descriptor", "/dev/zero", "/etc/passwd"]
)
def test_the_system_is_out_of_reach(root, opener, path):
    """Neither a link nor a name leads into /proc, /dev or /etc, which a plain open reaches."""
    assert Path(root, path).exists()
    with pytest.raises(PathNotAllowed):
        Boundary([root], opener).open_file(path)


def test_other_file_systems_are_not_entered(opener):
    """A file system mounted beneath a root, /proc being the worst, is not part of it, though a plain open goes there."""
    path = f"proc/{os.getpid()}/status"

    assert "Pid:" in unchecked_read("/", path)
    for name in (path, "proc"):
        with pytest.raises(PathNotAllowed, match="mount"):
            Boundary(["/"], opener).open(name, os.O_RDONLY)


MOUNTED = """
import os, sys
from functool import ToolError
from functool.bundled import beneath

boundary = beneath.Boundary([sys.argv[1]], getattr(beneath, sys.argv[2]))
for path in ("sub/dir/secret.txt", "sub/file", "sub/a.txt"):
    print(os.stat(os.path.join(sys.argv[1], path)).st_dev == os.stat(sys.argv[1]).st_dev)
    try:
        print(os.read(boundary.open_file(path)[0], 100).decode())
    except ToolError as error:
        print(type(error).__name__)
"""


def test_a_directory_that_is_mounted_a_second_time(root, opener):
    """A directory or file of the same file system that is mounted beneath a root is not entered, though its number is the root's."""
    (root / "sub" / "dir").mkdir()
    (root / "sub" / "file").touch()
    outside = root.parent
    mount = (
        f"mount --bind {outside}/root-not {root}/sub/dir && "
        f"mount --bind {outside}/secret.txt {root}/sub/file && "
        'exec "$0" "$@"'
    )
    python = [sys.executable, "-c", MOUNTED, str(root), opener.__name__]
    unshare = ["unshare", "--mount", "--map-root-user", "sh", "-c", mount, *python]
    ran = subprocess.run(unshare, capture_output=True, text=True)
    if ran.returncode:
        pytest.skip(f"this system allows no mounts: {ran.stderr.strip()}")

    assert ran.stdout.split() == ["True", "PathNotAllowed"] * 2 + ["True", "inside"]


@pytest.mark.parametrize(
    "path", ["sub/a.txt", "./sub//a.txt", "sub/../sub/a.txt", "nothing/../sub/a.txt"]
)
def test_what_is_inside_is_opened(root, opener, path):
    """A path that stays inside is opened, whichever way it is written."""
    assert read(Boundary([root], opener), path) == "inside"


def test_links_that_stay_inside(root):
    """A link that stays beneath the root is followed where the kernel can hold it there, and refused by the walk."""
    boundary = Boundary([root])

    if best_opener() is beneath.openat2:
        assert read(boundary, "inside") == "inside"
    with pytest.raises(PathNotAllowed, match="link"):
        Boundary([root], beneath.walk).open_file("inside")


def test_absolute_paths_find_their_root(root, opener, tmp_path):
    """An absolute path under one of the roots is that root's, by either of its names; a relative one is the first's."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "b.txt").write_text("second")
    (tmp_path / "alias").symlink_to("other")
    boundary = Boundary([root, tmp_path / "alias"], opener)

    assert read(boundary, str(root / "sub" / "a.txt")) == "inside"
    assert read(boundary, str(other / "b.txt")) == "second"
    assert read(boundary, str(tmp_path / "alias" / "b.txt")) == "second"
    with pytest.raises(FileNotFound):
        boundary.open_file("b.txt")


@pytest.mark.parametrize(
    "path", ["nothing", "sub/nothing", "nothing/a", "sub/a.txt/b", "n" * 300, "d/" * 3_000 + "f"]
)
def test_what_is_not_there(root, opener, path):
    """A name without a file is a FileNotFound, also where a directory is missing, is a file, or the name is too long."""
    with pytest.raises(FileNotFound):
        Boundary([root], opener).open_file(path)


@pytest.mark.parametrize("path", ["a\0b", "sub/a.txt\0.png", "\ud800", "loop", ".", "sub", "", "/"])
def test_what_is_no_name_of_a_file(root, opener, path):
    """NUL, lone surrogates, a link to itself and directories are refused."""
    with pytest.raises(PathNotAllowed):
        Boundary([root], opener).open_file(path)


def test_pipes_are_left_alone(root, opener):
    """A pipe is refused without opening it, so that nothing waits and no writer is woken; a plain open waits."""
    os.mkfifo(root / "pipe")
    with subprocess.Popen([sys.executable, "-c", "open('pipe').read()"], cwd=root) as naive:
        # Opening the other end without waiting succeeds only once the plain reader hangs in its open.
        writer = None
        while writer is None:
            try:
                writer = os.open(root / "pipe", os.O_WRONLY | os.O_NONBLOCK)
            except OSError:
                assert naive.poll() is None
        os.close(writer)

    flags = []

    def watched(directory, name, how):
        flags.append(how)
        return opener(directory, name, how)

    with pytest.raises(PathNotAllowed, match="pipe"):
        Boundary([root], watched).open_file("pipe")
    assert [how & os.O_PATH for how in flags] == [os.O_PATH]


def test_a_pipe_in_the_last_moment(root, opener):
    """What becomes a pipe between the look and the opening is refused all the same, and nothing waits."""

    def swapping(directory, name, how):
        if not how & os.O_PATH:
            (root / "sub" / "a.txt").unlink()
            os.mkfifo(root / "sub" / "a.txt")
        return opener(directory, name, how)

    with pytest.raises(PathNotAllowed, match="pipe"):
        Boundary([root], swapping).open_file("sub/a.txt")


@pytest.mark.parametrize("device", ["zero", "null", "tty"])
def test_devices_are_refused(opener, device):
    """A device is no file, even directly beneath a root."""
    with pytest.raises(PathNotAllowed, match="device"):
        Boundary(["/dev"], opener).open_file(device)


def test_swapped_links(root, opener):
    """A directory that another process keeps exchanging for a link out never leads out; checking before opening does."""
    outside = root.parent / "root-not"
    (root / "inner").mkdir()
    (root / "inner" / "secret.txt").write_text("inside")
    (root / "link").symlink_to(outside)
    boundary = Boundary([root], opener)
    with subprocess.Popen(
        [sys.executable, "-c", SWAPPER, str(root)], stdout=subprocess.PIPE
    ) as swapper:
        try:
            swapper.stdout.readline()
            escaped = any(
                attempt(lambda: checked_read(root, "inner/secret.txt")) == SECRET
                for _ in range(2_000_000)
            )
            seen = set()
            for number in range(2_000_000):
                seen.add(attempt(lambda: read(boundary, "inner/secret.txt")))
                if number > 20_000 and {"inside", PathNotAllowed} <= seen:
                    break
        finally:
            swapper.kill()

    assert escaped
    assert SECRET not in seen
    assert {"inside", PathNotAllowed} <= set(seen)


def attempt(read):
    try:
        return read()
    except (OSError, ToolError) as error:
        return type(error)


def test_a_root_is_held_by_its_descriptor(root, opener):
    """A root that is renamed is still the root; what takes its name is not."""
    boundary = Boundary([root], opener)
    root.rename(root.parent / "moved")
    root.mkdir()
    (root / "new.txt").write_text("new")

    assert read(boundary, "sub/a.txt") == "inside"
    assert read(boundary, str(root / "sub" / "a.txt")) == "inside"
    with pytest.raises(FileNotFound):
        boundary.open_file("new.txt")


def test_missing_directories_are_made_inside(root, opener):
    """The directory of a new file is made on request, and only beneath the root."""
    boundary = Boundary([root], opener)
    with pytest.raises(FileNotFound):
        boundary.open_parent("new/deep/file")
    descriptor, name = boundary.open_parent("new/deep/file", make=True)
    os.close(descriptor)

    assert (root / "new" / "deep").is_dir()
    assert name == "file"
    for path in ("up/new/file", "../new/file", "sub/back/new/file", "."):
        with pytest.raises(PathNotAllowed):
            boundary.open_parent(path, make=True)
    assert not (root.parent / "new").exists()
    assert not (root.parent / "root-not" / "new").exists()


def test_no_descriptor_is_lost(root, opener):
    """Refusals leave no descriptor open, and a boundary that is gone closes its own."""
    gc.collect()
    before = set(os.listdir("/proc/self/fd"))
    for path in (*ESCAPES, "sub", "nothing", "loop", "inside/x", "environ"):
        with pytest.raises(ToolError):
            Boundary([root], opener).open_file(path.format(outside=root.parent))
    gc.collect()  # the errors hold their frames, and those the boundaries

    assert set(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("flag", ["O_NOFOLLOW", "O_DIRECTORY"])
def test_without_the_flags_nothing_is_built(root, monkeypatch, flag):
    """Where the system lacks a flag of the boundary, construction says so."""
    monkeypatch.delattr(os, flag)

    with pytest.raises(DefinitionError, match=flag):
        Boundary([root])


def test_without_directory_descriptors_nothing_is_built(root, monkeypatch):
    """Where the system cannot open relative to a descriptor, construction says so."""
    monkeypatch.setattr(os, "supports_dir_fd", set())

    with pytest.raises(DefinitionError, match="dir_fd of os.open"):
        Boundary([root])


@pytest.mark.parametrize("name", ["missing", "root/sub/a.txt", "nul\0"])
def test_roots_have_to_be_directories(root, name):
    """A root that is no directory is an error at construction, and so is none at all."""
    with pytest.raises(DefinitionError, match="cannot be opened as a directory"):
        Boundary([f"{root.parent}/{name}"])
    with pytest.raises(DefinitionError, match="'None' cannot be opened as a directory"):
        Boundary([None])
    with pytest.raises(DefinitionError, match="no directory"):
        Boundary([])


def test_a_root_seen_from_nowhere(tmp_path, monkeypatch):
    """A relative root is an error at construction where the process stands in a directory that was taken away."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gone").mkdir()
    os.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()

    with pytest.raises(DefinitionError, match="cannot be opened as a directory"):
        Boundary(["."])


def test_the_walk_stands_in(root, monkeypatch):
    """Where the kernel refuses openat2, the walk holds the boundary."""

    def refused(*_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(beneath, "openat2", refused)
    assert best_opener() is beneath.walk


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return build(tmp_path_factory.mktemp("property"))


NAMES = [
    "..",
    ".",
    "",
    "sub",
    "a.txt",
    "up",
    "root",
    "root-not",
    "back",
    "secret.txt",
    "inside",
    "file-out",
    "loop",
]


@settings(max_examples=400)
@given(parts=st.lists(st.sampled_from(NAMES), max_size=7), absolute=st.booleans())
def test_only_what_is_beneath_is_ever_opened(built, parts, absolute):
    """Whatever the path, a file that is opened is one beneath the root, and the walk opens none that openat2 does not."""
    root = built
    path = "/".join(([str(root.parent)] if absolute else []) + parts)
    found = []
    for opener in (best_opener(), beneath.walk):
        try:
            descriptor, status = Boundary([root], opener).open_file(path)
        except ToolError:
            found.append(None)
        else:
            os.close(descriptor)
            found.append(status.st_ino)

    inside = (root / "sub" / "a.txt").stat().st_ino
    assert set(found) <= {None, inside}
    assert found[1] in (None, found[0])
