"""The file tools, called as a model calls them."""

import asyncio
import encodings
import io
import json
import os
import re
import resource
import signal
import stat
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functool import DefinitionError, ToolCall
from functool.bundled import file_reading, file_walk, files
from functool.bundled.files import file_tools

SECRET = "the secret"


def call(tools, tool, /, **arguments):
    return tools.call_sync(ToolCall(name=tool, arguments=arguments))


def outcome(result):
    """What a test compares: the type of a failure, or the value."""
    return result.error.type if result.is_error else result.value


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (tmp_path / "secret.txt").write_text(SECRET)
    return root


@pytest.fixture
def tools(root):
    return file_tools([root])


def test_reading_a_file(root, tools):
    """A file is its text, and the host learns its path and its size in bytes."""
    (root / "sub" / "a.txt").write_text("één\ntwee\n")
    result = call(tools, "read_file", path="sub/a.txt")

    assert result.value == result.text == "één\ntwee\n"
    assert dict(result.metadata) == {"path": "sub/a.txt", "size": 11}


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ({"offset": 1}, "b\r\nc\n\nlast"),
        ({"limit": 2}, "a\nb\r\n"),
        ({"offset": 1, "limit": 1}, "b\r\n"),
        ({"offset": 3, "limit": 9}, "\nlast"),
        ({"offset": 5}, ""),
        ({"offset": 50, "limit": 1}, ""),
    ],
)
def test_reading_some_lines(root, tools, window, expected):
    """`offset` lines are skipped and at most `limit` are read, their ends as they are."""
    (root / "a.txt").write_bytes(b"a\nb\r\nc\n\nlast")

    assert call(tools, "read_file", path="a.txt", **window).value == expected


@pytest.mark.parametrize("window", [{"offset": -1}, {"limit": 0}, {"limit": -5}])
def test_impossible_windows(tools, window):
    """A negative offset and a limit below one are refused before anything is opened."""
    assert outcome(call(tools, "read_file", path="a.txt", **window)) == "ArgumentError"


def test_named_encodings(root, tools):
    """A file in another encoding is read when the encoding is named, and refused with advice when it is not."""
    (root / "latin.txt").write_bytes("één".encode("latin-1"))
    (root / "wide.txt").write_bytes("één\ntwee\n".encode("utf-16"))
    refused = call(tools, "read_file", path="latin.txt")

    assert refused.error.type == "NotText"
    assert "latin-1" in refused.text
    assert call(tools, "read_file", path="latin.txt", encoding="latin-1").value == "één"
    assert call(tools, "read_file", path="wide.txt", encoding="utf-16", offset=1).value == "twee\n"


@pytest.mark.parametrize(
    "encoding", ["punycode", "idna", "zlib", "base64", "rot13", "unicode_escape", "no", "a\0b", ""]
)
def test_codecs_that_are_no_encodings(root, tools, encoding):
    """A codec that is not a plain character encoding is refused: some take quadratic time."""
    (root / "a.txt").write_text("text")

    assert outcome(call(tools, "read_file", path="a.txt", encoding=encoding)) == "ToolError"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("read_file", {}),
        ("write_file", {"content": "x"}),
        ("edit_file", {"old": "secret", "new": "x"}),
        ("list_files", {}),
        ("search_files", {"text": "secret"}),
    ],
)
@pytest.mark.parametrize(
    "way", ["../secret.txt", "{outside}/secret.txt", "out", "up/secret.txt", "sub/../../secret.txt"]
)
def test_no_tool_leads_out(root, tools, tool, arguments, way):
    """Every tool refuses every way out, and what is outside stays as it was."""
    (root / "out").symlink_to("../secret.txt")
    (root / "up").symlink_to("..")
    result = call(tools, tool, path=way.format(outside=root.parent), **arguments)

    assert (root / way.format(outside=root.parent)).read_text() == SECRET
    assert result.error.type == "PathNotAllowed"
    assert SECRET not in result.text
    assert str(root.parent) not in result.text.replace(way.format(outside=root.parent), "")


def test_failures_have_the_names_of_the_contract(root):
    """What is outside, missing or too large is told apart by the type of the failure."""
    tools = file_tools([root], max_bytes=10)
    (root / "big.txt").write_text("x" * 11)

    def failure(tool, path, **arguments):
        return outcome(call(tools, tool, path=path, **arguments))

    assert failure("read_file", "/etc/passwd") == "PathNotAllowed"
    assert failure("read_file", "a\0b") == "PathNotAllowed"
    assert failure("read_file", "nothing") == "FileNotFound"
    assert failure("read_file", "big.txt") == "FileTooLarge"
    assert failure("write_file", "new.txt", content="x" * 11) == "FileTooLarge"
    assert failure("edit_file", "big.txt", old="x", new="y") == "FileTooLarge"
    assert not (root / "new.txt").exists()


@pytest.mark.parametrize("limit", [1_048_576, 3_000_000])
def test_a_large_limit_holds_for_writes_and_edits(root, limit):
    """Text of `max_bytes` is written and edited, also where the arguments of a call are limited to less by default."""
    tools = file_tools([root], max_bytes=limit)
    text = "é\n" * (limit // 3)

    assert call(tools, "write_file", path="a", content=text).success
    assert call(tools, "write_file", path="b", content="text").success
    assert call(tools, "edit_file", path="b", old="text", new=text).success
    assert (root / "a").read_text() == (root / "b").read_text() == text
    too_long = call(tools, "write_file", path="a", content="x" * (limit + 1))
    assert outcome(too_long) == "FileTooLarge"


def test_the_limit_of_writes_is_that_of_the_text(root):
    """A model may write each letter of a text as an escape, and replace a long text by another."""
    tools = file_tools([root], max_bytes=300_000)
    old, new = "б" * 150_000, "д" * 150_000
    for name, arguments in [
        ("write_file", {"path": "a", "content": old}),
        ("edit_file", {"path": "a", "old": old, "new": new}),
    ]:
        sent = ToolCall(name=name, arguments=json.dumps(arguments))
        assert tools.call_sync(sent).success

    assert (root / "a").read_text() == new


def test_the_limit_is_exact(root):
    """A file of exactly `max_bytes` is read and written, and an edit may not grow one beyond."""
    tools = file_tools([root], max_bytes=10)

    assert call(tools, "write_file", path="a.txt", content="é" * 5).success
    assert call(tools, "read_file", path="a.txt").value == "é" * 5
    grown = call(tools, "edit_file", path="a.txt", old="é" * 5, new="x" * 11)
    assert grown.error.type == "FileTooLarge"
    assert (root / "a.txt").read_text() == "é" * 5


def host(script, *words):
    """The lines that a process prints which has `tools` for the directory that is its first word."""
    head = """
import sys, tracemalloc
from functool import ToolCall
from functool.bundled.files import file_tools

tools = file_tools([sys.argv[1]])

def call(tool, **arguments):
    return tools.call_sync(ToolCall(name=tool, arguments=arguments))
"""
    argv = [sys.executable, "-c", head + script, *map(str, words)]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()


SPARSE = """
tracemalloc.start()
for window in ({}, {"offset": 0, "limit": 1}, {"offset": 1}):
    print(call("read_file", path="sparse", **window).error.type)
print(call("search_files", text="x").value)
print(tracemalloc.get_traced_memory()[1] // 1_000_000)
"""


def test_sparse_files(root):
    """A file that claims a tebibyte is refused in a few megabytes, with and without a window; a plain read asks for all."""
    with open(root / "sparse", "wb") as file:
        file.truncate(2**40)
    with open(root / "sparse", "rb") as file, pytest.raises((MemoryError, OSError, OverflowError)):
        limited(file.read)
    *answers, megabytes = host(SPARSE, root)

    assert answers == ["FileTooLarge"] * 3 + ["[]"]
    assert int(megabytes) < 32


def limited(function):
    """Call `function` in an address space of 4 GiB, so that asking for a tebibyte fails at once."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (4 * 2**30, hard))
    try:
        return function()
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def test_a_part_of_a_large_file(root):
    """Some lines of a file beyond the limit are read without the rest."""
    tools = file_tools([root], max_bytes=1_000)
    (root / "log").write_text("".join(f"line {number}\n" for number in range(100_000)))

    end = call(tools, "read_file", path="log", offset=99_998, limit=5)
    assert end.value == "line 99998\nline 99999\n"
    assert outcome(call(tools, "read_file", path="log", offset=10)) == "FileTooLarge"


def test_writing_makes_and_replaces(root, tools):
    """A file is made with its directories, with the mode of the process; a file that exists keeps its own."""
    wrote = call(tools, "write_file", path="new/deep/a.txt", content="één")
    assert wrote.value == "Wrote 5 bytes to new/deep/a.txt."
    mask = os.umask(0)
    os.umask(mask)
    made = root / "new" / "deep" / "a.txt"

    assert made.read_text() == "één"
    assert stat.S_IMODE(made.stat().st_mode) == 0o666 & ~mask
    for mode in (0o755, 0o640, 0o600):
        made.chmod(mode)
        assert call(tools, "write_file", path="new/deep/a.txt", content="two").success
        assert call(tools, "edit_file", path="new/deep/a.txt", old="two", new="three").success
        assert made.read_text() == "three"
        assert stat.S_IMODE(made.stat().st_mode) == mode


def test_writing_is_all_or_nothing(root, tools, monkeypatch):
    """A write that fails on the way leaves the old file and nothing else; a plain write leaves half."""
    target = root / "a.txt"
    target.write_text("old")

    def fails(_):
        raise OSError(28, "No space left on device")

    with open(root / "naive.txt", "w") as file:
        file.write("half")
    monkeypatch.setattr(os, "fsync", fails)
    result = call(tools, "write_file", path="a.txt", content="new")

    assert result.text == "'a.txt': No space left on device."
    assert target.read_text() == "old"
    assert sorted(entry.name for entry in root.iterdir()) == ["a.txt", "naive.txt", "sub"]


def test_a_private_file_is_private_while_it_is_written(root, tools, monkeypatch):
    """What takes the place of a private file is never open to others, not even before it has its mode."""
    (root / "a.txt").write_text("old")
    (root / "a.txt").chmod(0o600)
    modes = []

    def watched(descriptor, *_):
        modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode))

    monkeypatch.setattr(os, "fchown", watched)
    mask = os.umask(0)
    try:
        assert call(tools, "write_file", path="a.txt", content="new").success
        assert call(tools, "edit_file", path="a.txt", old="new", new="newer").success
    finally:
        os.umask(mask)

    assert modes == [0o600, 0o600]


def test_readers_never_see_half(root, tools):
    """While a file is written again and again, a reader sees one whole version or the other; with a plain write it does not."""
    target = root / "a.txt"
    versions = {"a" * 300_000, "b" * 300_000}
    target.write_text(min(versions))
    stop = threading.Event()

    def plain():
        while not stop.is_set():
            for version in versions:
                target.write_text(version)

    def ours():
        while not stop.is_set():
            for version in versions:
                assert call(tools, "write_file", path="a.txt", content=version).success

    def watch(writer, times):
        stop.clear()
        thread = threading.Thread(target=writer)
        thread.start()
        try:
            return any(target.read_text() not in versions for _ in range(times))
        finally:
            stop.set()
            thread.join()

    assert watch(plain, 100_000)
    target.write_text(min(versions))
    assert not watch(ours, 300)


def test_links_are_not_written_through(root, tools):
    """Writing to a link is refused, and a second name of a file outside keeps its text."""
    (root / "a.txt").write_text("old")
    (root / "link").symlink_to("a.txt")
    os.link(root.parent / "secret.txt", root / "hard")

    assert outcome(call(tools, "write_file", path="link", content="new")) == "PathNotAllowed"
    assert outcome(call(tools, "edit_file", path="link", old="old", new="new")) == "PathNotAllowed"
    assert call(tools, "write_file", path="hard", content="new").success
    assert (root / "a.txt").read_text() == "old"
    assert (root.parent / "secret.txt").read_text() == SECRET


@pytest.mark.parametrize("path", ["sub", "pipe", "fixed.txt", ".", ""])
def test_what_cannot_be_written(root, tools, path):
    """Directories, pipes and files without write permission are refused, whoever runs the tool."""
    os.mkfifo(root / "pipe")
    (root / "fixed.txt").write_text("fixed")
    (root / "fixed.txt").chmod(0o444)

    assert outcome(call(tools, "write_file", path=path, content="x")) == "PathNotAllowed"
    edited = call(tools, "edit_file", path="fixed.txt", old="fixed", new="x")
    assert edited.error.type == "PathNotAllowed"
    assert (root / "fixed.txt").read_text() == "fixed"


@pytest.mark.parametrize(
    ("text", "old", "count"),
    [("abc", "x", 0), ("", "x", 0), ("a b a", "a", 2), ("aaa", "aa", 2), ("x" * 10, "x", 10)],
)
def test_ambiguous_edits(root, tools, text, old, count):
    """An edit whose old text is gone or ambiguous, overlapping included, is refused with the count."""
    (root / "a.txt").write_text(text)
    result = call(tools, "edit_file", path="a.txt", old=old, new="y")

    assert result.error.type == "EditRefused"
    assert f"{count} times" in result.text
    assert dict(result.error.details) == {"count": count}
    assert (root / "a.txt").read_text() == text


def test_edits_keep_every_other_byte(root, tools):
    """An edit changes its text alone: bytes that are no UTF-8 and line ends stay as they are."""
    (root / "a.txt").write_bytes(b"\xff\r\nold\r\n\x00\xfe")

    assert call(tools, "edit_file", path="a.txt", old="old\r\n", new="é\r\n").success
    assert (root / "a.txt").read_bytes() == b"\xff\r\n\xc3\xa9\r\n\x00\xfe"


def test_fifty_parallel_edits(root, tools):
    """Of fifty edits of one file at once none is lost, not even by two toolsets; plain ones lose some."""
    other = file_tools([root])
    lines = [f"<{number}>" for number in range(50)]
    (root / "a.txt").write_text("\n".join(lines))

    async def edit(number):
        arguments = {"path": "a.txt", "old": f"<{number}>", "new": f"[{number}]"}
        return await (tools, other)[number % 2].call(
            ToolCall(name="edit_file", arguments=arguments)
        )

    async def all_of_them():
        return await asyncio.gather(*map(edit, range(50)))

    assert [result.text for result in asyncio.run(all_of_them()) if result.is_error] == []
    assert (root / "a.txt").read_text() == "\n".join(f"[{number}]" for number in range(50))
    assert plain_edits_lose_some(root / "plain.txt", lines)


def plain_edits_lose_some(path, lines):
    path.write_text("\n".join(lines))
    together = threading.Barrier(len(lines))

    def edit(line):
        text = path.read_text()
        together.wait()
        path.write_text(text.replace(line, "done"))

    threads = [threading.Thread(target=edit, args=(line,)) for line in lines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return path.read_text().count("done") < len(lines)


@pytest.fixture
def meanwhile(monkeypatch):
    """Let another program do something while a file is written."""

    def do(change):
        sync = os.fsync

        def changed(descriptor):
            sync(descriptor)
            change()

        monkeypatch.setattr(os, "fsync", changed)

    return do


def test_an_edit_sees_a_change_by_others(root, tools, meanwhile):
    """An edit of a file that another program changed since it was read is refused."""
    target = root / "a.txt"
    target.write_text("old")
    meanwhile(lambda: target.write_text("old, and changed by another program"))
    result = call(tools, "edit_file", path="a.txt", old="old", new="new")

    assert result.error.type == "EditRefused"
    assert target.read_text() == "old, and changed by another program"


def test_an_edit_sees_a_change_that_hides_its_time(root, tools, meanwhile):
    """A change that keeps the size and sets the old time is noticed, though size and time are all that a plain look sees."""
    target = root / "a.txt"
    target.write_text("old")
    before = target.stat()

    def hidden():
        with open(target, "r+") as file:
            file.write("odd")
        os.utime(target, ns=(before.st_atime_ns, before.st_mtime_ns))

    meanwhile(hidden)
    result = call(tools, "edit_file", path="a.txt", old="old", new="new")

    assert (target.stat().st_size, target.stat().st_mtime_ns) == (3, before.st_mtime_ns)
    assert result.error.type == "EditRefused"
    assert target.read_text() == "odd"


KILLED = """
import os
os.fsync = lambda descriptor: os.kill(os.getpid(), 9)
call("write_file", path="a.txt", content="new")
"""


def test_nothing_is_left_of_a_write_that_is_killed(root):
    """A process that is killed while it writes leaves the old file and no other, where the file system has files without a name."""
    try:
        os.close(os.open(root, os.O_TMPFILE | os.O_WRONLY))
    except OSError:
        pytest.skip("this file system has no files without a name")
    (root / "a.txt").write_text("old")
    with pytest.raises(subprocess.CalledProcessError) as killed:
        host(KILLED, root)

    assert killed.value.returncode == -9
    assert (root / "a.txt").read_text() == "old"
    assert sorted(entry.name for entry in root.iterdir()) == ["a.txt", "sub"]


def test_writing_where_every_file_has_a_name(root, tools, monkeypatch):
    """Where the file system has no files without a name a write goes another way, and is whole all the same."""
    monkeypatch.delattr(os, "O_TMPFILE")
    (root / "a.txt").write_text("old")

    assert call(tools, "write_file", path="a.txt", content="new").success
    assert call(tools, "edit_file", path="a.txt", old="new", new="newer").success
    assert (root / "a.txt").read_text() == "newer"
    assert sorted(entry.name for entry in root.iterdir()) == ["a.txt", "sub"]


@given(
    text=st.text(alphabet="ab\r\n", max_size=60),
    offset=st.integers(0, 8),
    limit=st.none() | st.integers(1, 8),
    piece=st.integers(1, 9),
)
def test_any_window(text, offset, limit, piece):
    """Whatever the window, and however the text comes in pieces, the lines are those that `splitlines` would number."""
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    end = None if limit is None else offset + limit
    whole = file_reading.PIECE
    try:
        file_reading.PIECE = piece
        found = file_reading.read_lines(io.StringIO(text, newline=""), offset, limit, 1_000)
    finally:
        file_reading.PIECE = whole

    assert found == "".join(lines[offset:end])


def test_reads_stop_in_time(root, tools, monkeypatch):
    """A read that takes too long ends with an error that says how to ask for less."""
    (root / "a.txt").write_text("\n" * 100_000)
    assert call(tools, "read_file", path="a.txt", offset=99_999).value == "\n"
    monkeypatch.setattr(file_reading, "MAX_SECONDS", -1.0)
    result = call(tools, "read_file", path="a.txt", offset=99_999)

    assert result.error.type == "FileTooLarge"
    assert "`offset` and `limit`" in result.text


READ_FAR = """
import cProfile, io, pstats
import functool.bundled.file_reading as reading
with cProfile.Profile() as profile:
    print(repr(call("read_file", path="a.txt", offset=9_999_999).value))
    reading.read_lines(io.StringIO("\\n" * 10_000_000), 9_999_999, None, 100)
print(pstats.Stats(profile).total_calls)
"""


def test_many_lines_cost_little(root):
    """Ten million lines are skipped in a few thousand steps, and not one by one."""
    (root / "a.txt").write_text("\n" * 10_000_000)
    value, calls = host(READ_FAR, root)

    assert value == repr("\n")
    assert int(calls) < 100_000


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("list_files", {}),
        ("read_file", {}),
        ("search_files", {"text": "needle"}),
        ("write_file", {"content": "x"}),
        ("edit_file", {"old": "a", "new": "b"}),
    ],
)
def test_a_path_is_at_most_as_long_as_the_kernels(tools, tool, arguments):
    """A path of a megabyte is refused, and not repeated in the answer."""
    result = call(tools, tool, path="./" * 500_000 + "sub", **arguments)

    assert result.error.type == "ArgumentError"
    assert len(result.text) < 1_000


def test_answers_show_paths_as_short_as_they_can_be(root, tools):
    """However a path is written, every answer shows it as short as it can be written."""
    for name in ("a.txt", "b.txt"):
        (root / "sub" / name).write_text("needle")
    odd = "sub/.././/" * 400 + "sub"

    def answer(tool, path, **arguments):
        return call(tools, tool, path=path, **arguments)

    assert answer("list_files", odd).value == ["sub/a.txt", "sub/b.txt"]
    assert answer("search_files", odd, text="needle").value[0]["path"] == "sub/a.txt"
    assert answer("search_files", f"{odd}/a.txt", text="needle").value[0]["path"] == "sub/a.txt"
    assert answer("write_file", f"{odd}/c", content="x").value == "Wrote 1 bytes to sub/c."
    assert answer("edit_file", f"{odd}/c", old="x", new="y").value == "Edited sub/c."
    assert dict(answer("read_file", f"{odd}/c").metadata) == {"path": "sub/c", "size": 1}
    for tool in ("read_file", "list_files"):
        assert len(answer(tool, f"{odd}/none").text) < 100
    assert answer("list_files", f"/{root}/sub").value[0] == f"{root}/sub/a.txt"


def test_names_of_encodings_are_not_remembered(root, tools):
    """Encodings that a model invents leave nothing behind, though Python remembers each that it is asked for."""
    (root / "a.txt").write_text("text")
    before = set(encodings._cache)
    for number in range(5):
        name = f"utf-{number}-of-many"
        assert outcome(call(tools, "read_file", path="a.txt", encoding=name)) == "ToolError"
        assert call(tools, "read_file", path="a.txt", encoding="utf" + "-" * number + "8").success

    assert set(encodings._cache) - before <= {"utf_8"}


@pytest.fixture
def tree(root):
    for path in ("a.py", "b.txt", ".hidden", "sub/c.py", "sub/deep/d.py", "sub/deep/e.txt"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"needle in {path}\nsecond line\n")
    (root / "up").symlink_to("..")
    return root


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, [".hidden", "a.py", "b.txt", "sub/", "up"]),
        ({"pattern": "*.py"}, ["a.py"]),
        ({"pattern": "**/*.py"}, ["a.py", "sub/c.py", "sub/deep/d.py"]),
        ({"pattern": "*/*.py"}, ["sub/c.py"]),
        (
            {"pattern": "sub/**"},
            ["sub/", "sub/c.py", "sub/deep/", "sub/deep/d.py", "sub/deep/e.txt"],
        ),
        ({"path": "sub"}, ["sub/c.py", "sub/deep/"]),
        ({"path": "sub/", "pattern": "**/[de].*"}, ["sub/deep/d.py", "sub/deep/e.txt"]),
        ({"pattern": "../*"}, []),
        ({"pattern": "up/*"}, []),
        ({"pattern": "**/**/**/**/d.py"}, ["sub/deep/d.py"]),
    ],
)
def test_listing(tree, tools, arguments, expected):
    """Files are listed by a glob, ready to be named in other calls; links are not followed."""
    result = call(tools, "list_files", **arguments)

    assert result.value == expected
    for path in expected:
        assert (tree / path).exists()


@pytest.fixture(scope="module")
def one_file(tmp_path_factory):
    root = tmp_path_factory.mktemp("patterns")
    (root / "a.py").touch()
    return file_tools(root)


@given(pattern=st.text(alphabet="*?[]!-/a.py\\", min_size=1, max_size=60))
def test_any_pattern_is_a_pattern(one_file, pattern):
    """Whatever the pattern, listing answers with paths of files that are there."""
    assert call(one_file, "list_files", pattern=pattern).value in ([], ["a.py"])


def test_long_listings(root, monkeypatch):
    """A listing beyond the limit is cut, and says so."""
    monkeypatch.setattr(files, "MAX_LISTED", 5)
    for number in range(9):
        (root / f"{number}.txt").touch()
    result = call(file_tools([root]), "list_files", pattern="*.txt")

    assert len(result.value) == 5
    assert "only 5 are listed" in result.text


def test_answers_of_many_entries_are_bounded(root):
    """A listing and a search put no more than `max_bytes` into their answers, and say that there is more."""
    for number in range(20):
        (root / f"{number:02}{'é' * 100}.txt").write_text("needle")
    tools = file_tools([root], max_bytes=1_000)
    listed = call(tools, "list_files", pattern="*.txt")
    found = call(tools, "search_files", text="needle")

    assert 0 < len(listed.output[0].text.encode()) <= 1_000
    assert 0 < len(found.output[0].text.encode()) <= 1_000
    assert listed.value[0].startswith("00é")
    assert found.value[0]["path"].startswith("00é")
    assert f"only {len(listed.value)} are listed" in listed.text
    assert "there may be more" in found.text


def test_directories_without_end(root, tools, monkeypatch):
    """A listing and a search look at so many names and no more, and say so, for what is asked for may come later."""
    monkeypatch.setattr(file_walk, "MAX_VISITED", 5)
    for number in range(9):
        (root / f"{number}.txt").write_text("text" if number > 6 else "")

    assert "Only 5 names were looked at" in call(tools, "list_files", pattern="8.txt").text
    assert "Only 5 names were looked at" in call(tools, "search_files", text="text").text
    monkeypatch.setattr(file_walk, "MAX_VISITED", 50)
    assert call(tools, "list_files", pattern="8.txt").text == '["8.txt"]'


WIDE = """
tracemalloc.start()
value = call("list_files", path=sys.argv[2], pattern="**/" * 300 + "nothing").value
print(value, tracemalloc.get_traced_memory()[1] // 1_000_000)
"""


def test_wide_directories_cost_little(root):
    """Thousands of directories far down, and a pattern of hundreds of parts, are walked in a few megabytes."""
    deep = "/".join(["d" * 250] * 8)
    (root / deep).mkdir(parents=True)
    for number in range(3_000):
        (root / deep / str(number)).mkdir()
    [line] = host(WIDE, root, deep)
    value, megabytes = line.split()

    assert value == "[]"
    assert int(megabytes) < 5


def test_walks_stop_in_time(tree, tools, monkeypatch):
    """A listing whose time is over shows what it has, and says at how many names it looked."""
    monkeypatch.setattr(file_walk, "MAX_SECONDS", -1.0)
    result = call(tools, "list_files", pattern="**")

    assert result.value == []
    assert "Only 0 names were looked at" in result.text


def test_names_that_are_no_text(root, tools):
    """A name that is not UTF-8, or that holds a line break, is listed as valid text that cannot pass for another entry."""
    os.close(os.open(os.fsencode(root) + b"/\xff", os.O_CREAT | os.O_WRONLY))
    (root / "a\nb").touch()
    result = call(tools, "list_files")

    assert result.value == ["a\nb", "sub/", "�"]
    assert result.text.encode().decode() == '["a\\nb","sub/","�"]'


@contextmanager
def as_nobody():
    """Run as a user whom permissions hold, if this one is root."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65_534)
    try:
        yield
    finally:
        os.seteuid(user)


def test_directories_without_permission(root, tools):
    """A directory that the process may not enter is left out of a listing and a search, and is an error where it is asked for itself."""
    for name, mode in {"closed": 0o000, "names": 0o444, "open": 0o755}.items():
        (root / name).mkdir()
        (root / name / "a.txt").write_text("text")
        (root / name).chmod(mode)
    root.chmod(0o755)
    with as_nobody():
        listed = call(tools, "list_files", pattern="*/*")
        names = call(tools, "list_files", path="names")
        found = call(tools, "search_files", text="text")
        refused = [
            outcome(call(tools, "list_files", path="closed")),
            outcome(call(tools, "search_files", text="text", path="closed")),
        ]
    for name in ("closed", "names"):
        (root / name).chmod(0o755)

    assert listed.value == ["names/a.txt", "open/a.txt"]
    assert listed.output[1].text == "1 directories could not be entered."
    assert names.value == ["names/a.txt"]
    assert found.value == [{"path": "open/a.txt", "line": 1, "text": "text"}]
    assert refused == ["PathNotAllowed", "PathNotAllowed"]


def test_searching(tree, tools):
    """A search finds lines by a literal text, in a directory or in one file."""
    found = call(tools, "search_files", text="needle in sub/").value

    assert sorted(found, key=str) == [
        {"path": path, "line": 1, "text": f"needle in {path}"}
        for path in ("sub/c.py", "sub/deep/d.py", "sub/deep/e.txt")
    ]
    assert call(tools, "search_files", text="second", path="a.py").value == [
        {"path": "a.py", "line": 2, "text": "second line"}
    ]
    assert call(tools, "search_files", text="n.edle").value == []
    assert call(tools, "search_files", text="second", path="sub/deep", regex=False).success


def test_searching_by_expression(tree, tools):
    """With `regex`, the text is an expression for each line; one without a linear-time engine is refused."""
    found = call(tools, "search_files", text=r"^needle.*\.txt$", regex=True).value

    assert sorted(line["path"] for line in found) == ["b.txt", "sub/deep/e.txt"]
    for text in (r"(?=a)b", r"(a)\1", "(", r"(\w{500}){500}"):
        assert outcome(call(tools, "search_files", text=text, regex=True)) == "ToolError"


def test_hostile_expressions(root, tools):
    """An expression that makes a backtracking engine hang ends, and finds what there is to find."""
    (root / "a.txt").write_text("a" * 5_000 + "b\n" + "a" * 5_000 + "\n")
    found = call(tools, "search_files", text="^(a+)+$", regex=True).value

    assert [line["line"] for line in found] == [2]


def test_searches_are_bounded(root, monkeypatch):
    """A search skips large and binary files, stops at its limits, cuts long lines, and says what it left out."""
    monkeypatch.setattr(files, "MAX_MATCHES", 3)
    monkeypatch.setattr(file_reading, "MAX_MATCHES", 3)
    (root / "big.txt").write_text("needle" * 100)
    (root / "binary").write_bytes(b"needle\0")
    (root / "many.txt").write_text("needle\n" * 9)
    (root / "long.txt").write_text("needle" + "x" * 900)
    tools = file_tools([root], max_bytes=1_000)
    many = call(tools, "search_files", text="needle", path="many.txt")
    long = call(tools, "search_files", text="needle", path="long.txt")

    assert len(many.value) == 3
    assert "there may be more" in many.text
    assert len(long.value[0]["text"]) == file_reading.MAX_SHOWN
    assert call(tools, "search_files", text="needle", path="binary").value == []
    small = call(file_tools([root], max_bytes=100), "search_files", text="needle", path="big.txt")
    assert small.value == []
    assert "1 larger files were not searched" in small.text


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le"])
def test_an_edit_does_not_break_a_wide_file(root, tools, encoding):
    """A byte that looks like a letter is not replaced where each letter has several bytes."""
    data = "\ufeffname=a\r\n".encode(encoding)
    (root / "wide.txt").write_bytes(data)
    result = call(tools, "edit_file", path="wide.txt", old="m", new="xy")

    assert result.error.type == "NotText"
    assert (root / "wide.txt").read_bytes() == data


def test_a_line_that_is_compared_in_part_is_named(root, tools):
    """An answer says that an expression was compared with the beginning of a long line only."""
    (root / "one.json").write_bytes(b"x" * 20_000 + b"needle\r\n" + b"y" * 10_000 + b"\r\nz")
    found = call(tools, "search_files", text="need.e", path="one.json", regex=True)
    early = call(tools, "search_files", text="^x|y$", path="one.json", regex=True)
    plain = call(tools, "search_files", text="needle", path="one.json")

    assert found.value == []
    assert "Of 1 longer lines only the first 10,000 characters were searched." in found.text
    assert [hit["line"] for hit in early.value] == [1, 2]
    assert "characters were searched" not in early.text + plain.text
    assert [hit["line"] for hit in plain.value] == [1]


def test_a_costly_expression_is_compared_with_less_of_a_line(root, tools):
    """The engine multiplies the two lengths, and holds the interpreter's lock meanwhile."""
    (root / "one.json").write_bytes(b"x" * 10_000)
    found = call(tools, "search_files", text="(?:.{1,100}){1,100}Z", regex=True)
    spaced = call(tools, "search_files", text="(?x) x {9} {9} {9} {9} {9}", regex=True)

    assert "Of 1 longer lines only the first 196 characters were searched." in found.text
    assert spaced.text.startswith("The expression repeats too much, or is written with spaces")


def test_searches_stop_in_time(root, monkeypatch):
    """A search whose time is over returns what it has, and says so."""
    monkeypatch.setattr(file_reading, "MAX_SECONDS", -1.0)
    (root / "a.txt").write_text("needle")
    result = call(file_tools([root]), "search_files", text="needle")

    assert result.value == []
    assert "there may be more" in result.text


def test_pipes_do_not_hold_a_search(root, tools):
    """A pipe and a device among the files are passed over."""
    os.mkfifo(root / "pipe")
    (root / "a.txt").write_text("needle")

    assert [line["path"] for line in call(tools, "search_files", text="needle").value] == ["a.txt"]
    assert call(tools, "list_files").value == ["a.txt", "pipe", "sub/"]


def test_read_only(root):
    """With `read_only` the tools that write are not there."""
    assert sorted(file_tools([root], read_only=True)) == ["list_files", "read_file", "search_files"]
    assert sorted(file_tools([root])) == [
        "edit_file",
        "list_files",
        "read_file",
        "search_files",
        "write_file",
    ]


def test_what_hosts_are_told(tools):
    """The settings say which tools only look, which destroy, and which may be repeated."""
    said = {
        name: (tool.settings.read_only, tool.settings.destructive, tool.settings.idempotent)
        for name, tool in tools.items()
    }

    assert said["read_file"] == said["list_files"] == said["search_files"] == (True, False, True)
    assert said["write_file"] == (False, True, True)
    assert said["edit_file"] == (False, True, False)


def test_the_arguments_of_the_contract(tools):
    """The published arguments are those that are documented, required where there is no default."""
    published = {
        name: (list(t.schema.parameters["properties"]), t.schema.parameters["required"])
        for name, t in tools.items()
        if name != "list_files"
    }

    assert published == {
        "read_file": (["path", "offset", "limit", "encoding"], ["path"]),
        "search_files": (["text", "path", "regex"], ["text"]),
        "write_file": (["path", "content"], ["path", "content"]),
        "edit_file": (["path", "old", "new"], ["path", "old", "new"]),
    }
    assert list(tools["list_files"].schema.parameters["properties"]) == ["path", "pattern"]


def test_one_root_as_a_path(root):
    """A single directory may be given without a list."""
    (root / "a.txt").write_text("text")

    assert call(file_tools(root), "read_file", path="a.txt").value == "text"
    assert call(file_tools(str(root)), "read_file", path="a.txt").value == "text"


def test_without_the_means_there_are_no_tools(root, monkeypatch):
    """Where the system cannot hold the boundary, construction raises."""
    monkeypatch.delattr(os, "O_NOFOLLOW")
    with pytest.raises(DefinitionError, match="O_NOFOLLOW"):
        file_tools([root])


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, float("nan"), "10", None])
def test_a_limit_that_is_none(root, limit):
    """A limit that is no positive number of bytes is an error at construction."""
    with pytest.raises(DefinitionError, match="max_bytes"):
        file_tools([root], max_bytes=limit)


def test_nothing_is_reachable_by_default():
    """No directory, no tools."""
    with pytest.raises(DefinitionError):
        file_tools([])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_waits_while_another_thread_writes(tools, monkeypatch):
    """Otherwise the child would wait for ever for a lock that the thread of its parent held."""
    begun, replace = threading.Event(), files.replace_file

    def slow(*given):
        begun.set()
        time.sleep(0.1)
        replace(*given)

    monkeypatch.setattr(files, "replace_file", slow)
    writing = {"path": "a.txt", "content": "one"}
    thread = threading.Thread(target=call, args=(tools, "write_file"), kwargs=writing)
    thread.start()
    begun.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        edited = call(tools, "edit_file", path="a.txt", old="one", new="two")
        os._exit(0 if edited.success else 1)
    thread.join()

    assert os.waitpid(child, 0)[1] == 0
    assert call(tools, "read_file", path="a.txt").value == "two"
