"""`Spill`: long results kept aside for their owner."""

import asyncio
import base64
import errno
import json
import os
import re
import signal
import stat
import threading
import time
import tracemalloc
from functools import partial, reduce
from pathlib import Path

import pytest

from functool import (
    Context,
    DefinitionError,
    FunctionTool,
    ImageContent,
    TextContent,
    ToolCall,
    ToolError,
    ToolResult,
    Toolset,
    ToolSettings,
    WrapperTool,
)
from functool.guardrails import redact, truncate, trusted_only
from functool.layers import spill as spill_module
from functool.layers import spill_reading
from functool.layers.catalog import Catalog
from functool.layers.journal import Journal
from functool.layers.spill import Spill
from functool.layers.spill_reading import searched
from tests.support import call, python

ROWS = [{"id": n, "name": f"row {n}", "city": "Zürich"} for n in range(500)]


def spilled(value, spill, context=None, **options):
    """Run a tool that returns `value` behind the spill, and return its result and handle."""

    def report() -> object:
        return value

    guardrails = [*options.pop("before", []), spill.guardrail]
    tool = FunctionTool(report, output_guardrails=guardrails, **options)
    result = call(tool, {}, context)
    found = re.search(r"kept as ([\w-]{22})", result.text)
    return result, found and found[1]


def read(spill, context, handle, name="read_result", **arguments):
    call = ToolCall(name=name, arguments={"handle": handle, **arguments})
    return asyncio.run(spill.tools.call(call, context))


def kept(value, limit):
    """Keep a result aside, and return how its owner reads it."""
    spill, context = Spill(limit=limit), Context()
    _, handle = spilled(value, spill, context)
    return partial(read, spill, context, handle)


def test_a_short_result_passes():
    """What fits within the limit is shown as it is."""
    result, handle = spilled("x" * 100, Spill(limit=100))

    assert (result.text, result.value, handle) == ("x" * 100, "x" * 100, None)
    assert result.structured == "x" * 100


@pytest.mark.parametrize("limit", [100, 150, 300, 2_000, 20_000])
def test_a_long_result_shows_handle_shape_and_ends(limit):
    """The model reads handle, size, columns, head and tail within the limit; code reads the whole value."""
    result, handle = spilled(ROWS * 10, Spill(limit=limit), Context())

    assert result.value == ROWS * 10
    assert result.structured is None
    assert handle and len(result.text) <= limit
    if limit >= 300:
        size = len(json.dumps(ROWS * 10, separators=(",", ":"), ensure_ascii=False))
        assert "A list of 5,000 with the columns id" in result.text
        assert f"{size:,} characters" in result.text
        assert '[{"id":0,"name"' in result.text
        assert result.text.endswith('"city":"Zürich"}]')


@pytest.mark.parametrize(
    ("value", "shape"),
    [
        ({"first": 1, "second": "x" * 500}, "An object with the keys first, second"),
        ("line\n" * 100 + "end", "A text of 101 lines"),
        ('{"a": 1}' + " " * 500, "An object with the keys a"),
        ([1] * 500, "A list of 500\n"),
        ("{" * 500, "A text of 1 lines"),
        ({"k" * 900: "x"}, "An object with the keys kkk"),
    ],
)
def test_the_shape_says_what_it_is(value, shape):
    """Objects show their keys, lists their columns, texts their lines; a long shape is cut."""
    result, _ = spilled(value, Spill(limit=400))

    assert shape in result.text
    assert len(result.text) <= 400


def test_the_exact_limit():
    """A text that fills the limit passes, one character more is kept aside."""
    spill = Spill(limit=200)

    assert spilled("é" * 200, spill)[1] is None
    assert spilled("é" * 201, spill)[1]


def test_reading_by_offset_gives_the_whole():
    """Reading on where each answer says gives the text back, within the limit each time."""
    text = "".join(f"{n},ü" for n in range(2_000))
    reader = kept(text, limit=500)
    parts, offset = [], 0
    while offset is not None:
        answer = reader(offset=offset).text
        assert len(answer) <= 500
        body, _, note = answer.rpartition("\n[characters")
        parts.append(body)
        more = re.search(r"offset=(\d+)", note)
        offset = int(more[1]) if more else None

    assert "".join(parts) == text


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"offset": 2, "length": 3}, "ne "),
        ({"lines": "2-3"}, "line 2\nline 3"),
        ({"lines": "99-1000"}, "line 99\nline 100"),
        ({"lines": "7"}, "line 7"),
        ({"lines": "0"}, "line 1"),
        ({"lines": "0-0"}, "line 1"),
        ({"lines": "0-2"}, "line 1\nline 2"),
        ({"lines": "9-3"}, "line 9"),
    ],
)
def test_reading_characters_and_lines(arguments, text):
    """A part is read by its place in the text, or by its lines."""
    reader = kept("\n".join(f"line {n}" for n in range(1, 101)), limit=200)

    assert reader(**arguments).text.rpartition("\n[characters")[0] == text


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/3/name", "row 3"),
        ("2", '{"id": 2, "name": "row 2", "city": "Zürich"}'),
        ("/1:4/id", "[1, 2, 3]"),
        ("/:2/name", '["row 0", "row 1"]'),
        ("/498:/id", "[498, 499]"),
    ],
)
def test_reading_json_by_path(path, text):
    """Keys, places and ranges lead to a part of JSON."""
    reader = kept(ROWS, limit=200)

    assert reader(path=path).text == text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"path": "/3/nme"}, "leads nowhere at /3/nme. An object with the keys id, name, city"),
        ({"path": "/900"}, "leads nowhere at /900. A list of 500"),
        ({"path": "/3/name/x"}, "leads nowhere at /3/name/x"),
        ({"offset": 10_000_000}, "The text ends at character"),
        ({"lines": "5-9"}, "The text has 1 lines"),
        ({"part": 1}, "The result has no part 1: the last is 0."),
        ({"lines": "abc"}, "lines"),
        ({"offset": -1}, "offset"),
        ({"length": 0}, "length"),
    ],
)
def test_what_cannot_be_read_is_a_clear_error(arguments, message):
    """A path, a place or a part that is not there is named."""
    reader = kept(ROWS, limit=200)
    result = reader(**arguments)

    assert result.is_error
    assert message in result.text


def test_text_has_no_paths():
    """A path into a text that is no JSON is refused."""
    reader = kept("x" * 200, limit=100)

    assert "The result is no JSON" in reader(path="/a").text


def test_searching():
    """Lines that match are shown with their offsets, at which they can be read."""
    text = "\n".join(f"line {n} {'error' if n % 50 == 7 else 'fine'}" for n in range(200))
    reader = kept(text, limit=500)
    found = reader("search_result", pattern=r"err\w+$").text
    offset, _, line = found.splitlines()[1].partition(": ")

    assert line == "line 57 error"
    assert text[int(offset) :].startswith(line)
    assert len(found.splitlines()) == 4
    assert reader("search_result", pattern="nope").text == "Nothing matches."


def test_searching_stays_within_the_limit():
    """Of too many matches the first are shown, with how many there are; a long line is searched in pieces."""
    spill, context = Spill(limit=300), Context()
    _, many = spilled("hit\n" * 1_000, spill, context)
    _, long = spilled("x" * 5_000 + "needle" + "y" * 5_000, spill, context)
    found = read(spill, context, many, "search_result", pattern="hit").text
    piece = read(spill, context, long, "search_result", pattern="needle").text

    assert len(found) <= 300
    assert re.search(r"\[\d+ of 1000 matches are shown\]$", found)
    assert len(piece) <= 300
    assert 4_600 <= int(piece.partition(":")[0]) <= 5_000


def test_reading_and_searching_make_no_list_of_all_lines():
    """Of a text of many short lines, a search and a part take little memory beside the text."""
    lines = 100_000  # While memory is traced, more take as long as a search may.
    reader = kept("a\n" * lines, limit=1_000)

    def most(**arguments):
        tracemalloc.start()
        try:
            return reader(**arguments).text, tracemalloc.get_traced_memory()[1] // lines
        finally:
            tracemalloc.stop()

    found, of_search = most(name="search_result", pattern="a")
    part, of_part = most(lines=f"{lines - 1}-{lines}")

    assert found.endswith(" of 100000 matches are shown]")
    assert part.startswith("a\na\n[characters 199996 to 199999")
    assert (of_search < 10, of_part < 10) == (True, True)


@pytest.mark.parametrize("lines", ["1", "65536", "65537-65538", "140000-140001"])
def test_lines_of_a_long_text(lines):
    """A line far down in a text is found by its number."""
    text = "\n".join(map(str, range(1, 140_002)))
    first, _, last = lines.partition("-")

    shown = kept(text, limit=200)(lines=lines).text.rpartition("\n[characters")[0]

    assert shown.split("\n") == [str(n) for n in range(int(first), int(last or first) + 1)]


@pytest.mark.parametrize("pattern", ["(", r"(?=x)", r"(a)\1", "a{1000}{1000}{1000}"])
def test_a_pattern_is_linear(pattern):
    """A pattern that the linear engine cannot read is refused before anything is searched."""
    reader = kept("x" * 200, limit=100)
    result = reader("search_result", pattern=pattern)

    assert "no regular expression that takes linear time" in result.text


def test_a_hostile_pattern_ends():
    """A pattern that hangs a backtracking engine is answered."""
    reader = kept("a" * 50_000 + "!", limit=100)

    result = reader("search_result", pattern=r"^(a+)+$")
    assert result.success


def test_bytes_and_images():
    """Bytes are read as base64, an image as the image it is; text beside it is a part of its own."""
    spill, context = Spill(limit=300), Context()
    data = bytes(range(256)) * 4
    raw, handle = spilled(data, spill, context)
    image = ImageContent(data=data, media_type="image/png")
    mixed, other = spilled([TextContent(text="a cat"), image], spill, context)

    assert raw.value == data
    assert "1,024 bytes" in raw.text
    shown = read(spill, context, handle, length=20).text
    assert shown.startswith(base64.b64encode(data).decode()[:20])
    assert mixed.text.startswith(f"[kept as {other}: 5 characters; image/png of 1,024 bytes;")
    assert read(spill, context, other, part=1).output == [image]
    assert read(spill, context, other).text == "a cat"
    assert "is no text" in read(spill, context, other, "search_result", pattern="x", part=1).text


def test_a_link_to_an_image_stays():
    """A content without data is shown beside the handle."""
    link = ImageContent(data=None, media_type="image/png", uri="https://example.org/a.png")
    result, handle = spilled([TextContent(text="x" * 500), link], Spill(limit=100))

    assert handle
    assert result.output[1:] == [link]


def test_a_long_failure_is_kept_too():
    """Of a failure the message is shortened, and the call stays a failure."""
    spill, context = Spill(limit=100), Context()
    failure = ToolResult.failed("bad " * 100, type="Broken")
    result, handle = spilled(failure, spill, context)

    assert (result.error.type, result.output) == ("Broken", [])
    assert len(result.text) <= 100
    assert read(spill, context, handle, offset=392).text.startswith("bad bad ")


def test_nothing_that_was_redacted_is_kept():
    """A guardrail before has cleaned output and value; what is kept is what it left."""
    spill, context = Spill(limit=200), Context()
    rows = [{"key": "sk-secret"}] * 100
    result, handle = spilled(rows, spill, context, before=[redact(["sk-[a-z]+"])])
    whole = "".join(read(spill, context, handle, offset=n).text for n in range(0, 2_000, 100))

    assert "secret" not in result.text + str(result.value) + whole
    assert "[redacted]" in whole


@pytest.mark.parametrize("after", [redact(["x"]), truncate(10)])
def test_the_guardrail_stands_last(after):
    """A guardrail behind it is refused at definition: on the tool, added later, and on a wrapper."""
    spill = Spill()

    def report() -> str:
        return ""

    said = "spill has to be the last one: put (redact|truncate) before"
    with pytest.raises(DefinitionError, match=said):
        FunctionTool(report, output_guardrails=[spill.guardrail, after])
    tool = FunctionTool(report, output_guardrails=[spill.guardrail])
    with pytest.raises(DefinitionError, match="has to be the last one"):
        tool.add_output_guardrails([after])
    with pytest.raises(DefinitionError, match="has to be the last one"):
        WrapperTool(WrapperTool(tool), output_guardrails=[after])
    assert tool.output_guardrails == [spill.guardrail]
    assert WrapperTool(tool, output_guardrails=[Spill().guardrail])


def test_the_guardrail_stands_last_also_in_a_tool_that_is_wrapped_already():
    """A call is refused before its body if the tool inside of a wrapper got the guardrail later."""
    ran = []
    tool = FunctionTool(lambda: ran.append(1), name="report")
    wrapper = WrapperTool(WrapperTool(tool), output_guardrails=[redact(["x"])])
    tool.add_output_guardrails([Spill().guardrail])

    assert "spill has to be the last one" in call(wrapper, {}, Context()).text
    assert ran == []


def test_the_guardrail_stands_last_behind_call_tool():
    """A guardrail of a catalogue's `call_tool` is refused too, if a tool that it calls keeps its results."""
    spill = Spill()
    tools = [
        FunctionTool(lambda: "", name=name, output_guardrails=[redact(["x"]), *last])
        for name, last in (("kept", [spill.guardrail]), ("shown", []))
    ]
    fixed = Catalog(tools).fixed()["call_tool"]

    for add in (
        lambda: fixed.add_output_guardrails([redact(["x"])]),
        lambda: WrapperTool(fixed, output_guardrails=[redact(["x"])]),
    ):
        with pytest.raises(DefinitionError, match="spill has to be the last one"):
            add()
    fixed.add_output_guardrails([Spill().guardrail])
    Catalog(tools[1:]).fixed()["call_tool"].add_output_guardrails([redact(["x"])])


def test_a_handle_belongs_to_one_owner():
    """Another context reads nothing, and cannot tell a foreign handle from one that never was."""
    spill, mine = Spill(limit=100), Context()
    _, handle = spilled("secret " * 100, spill, mine)
    foreign = read(spill, Context(), handle)
    unknown = read(spill, Context(), "A" * 22)

    assert read(spill, mine.view(metadata={"x": 1}), handle).success
    assert foreign.is_error
    assert foreign.text == unknown.text
    assert "secret" not in foreign.text


def test_an_owner_of_the_hosts_own():
    """`owner(context)`, sync or async, says whose a result is; who has no owner keeps and reads nothing."""

    async def user(context):
        return context.deps

    spill = Spill(limit=100, owner=user)
    _, handle = spilled("x" * 500, spill, Context("ann"))
    nobody, _ = spilled("x" * 500, spill, Context())

    assert read(spill, Context("ann"), handle).success
    assert read(spill, Context("bob"), handle).is_error
    assert read(spill, Context(), handle).is_error
    assert nobody.error.type == "GuardrailError"


def test_handles_cannot_be_guessed():
    """Each result has a handle of its own with 128 random bits."""
    spill, context = Spill(limit=100), Context()
    handles = {spilled("x" * 500, spill, context)[1] for _ in range(20)}

    assert len(handles) == 20
    assert all(len(handle) == 22 for handle in handles)


def test_results_expire(tmp_path, monkeypatch):
    """After its time a result is gone, and so is its file."""
    spill, context = Spill(tmp_path, limit=100, expires_in=60), Context()
    _, handle = spilled("x" * 500, spill, context)
    assert read(spill, context, handle).success
    later = time.monotonic() + 61
    monkeypatch.setattr(spill_module.time, "monotonic", lambda: later)

    assert "may have expired" in read(spill, context, handle).text
    assert list(tmp_path.iterdir()) == []


def test_files_are_private_and_cleaned_up(tmp_path):
    """Files are readable by their user only, do not show handles, and go with `close`."""
    home = tmp_path / "new" / "home"
    spill, context = Spill(home, limit=100), Context()
    _, handle = spilled("x" * 500, spill, context)
    [file] = home.iterdir()

    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(home.stat().st_mode) & 0o077 == 0
    assert handle not in file.name
    spill.close()
    assert list(home.iterdir()) == []
    assert read(spill, context, handle).is_error


def test_what_an_earlier_process_left_is_removed(tmp_path):
    """Old files of a spill go at the start; younger ones and others' files stay."""
    for name, age in (("old.spilled", 5_000), ("young.spilled", 5), ("other.txt", 5_000)):
        path = tmp_path / name
        path.write_text("x")
        os.utime(path, (time.time() - age,) * 2)
    Spill(tmp_path)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.txt", "young.spilled"]


def test_two_that_share_a_directory_keep_each_its_own_results(tmp_path):
    """Each file stays as long as the spill says that wrote it, whatever the next one says."""
    spill, context = Spill(tmp_path, limit=100, expires_in=float("inf")), Context()
    _, handle = spilled("x" * 500, spill, context)
    later = time.time() + 1_000
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spill_module.time, "time", lambda: later)
        Spill(tmp_path, expires_in=60)

    assert read(spill, context, handle).success


def test_what_others_left_in_the_directory_stops_nobody(tmp_path):
    """A link to nowhere goes when it is old; a directory of such a name stays, and both do no harm."""
    link, folder = tmp_path / "x.spilled", tmp_path / "y.spilled"
    link.symlink_to(tmp_path / "nowhere")
    folder.mkdir()
    os.utime(link, (0, 0), follow_symlinks=False)
    os.utime(folder, (0, 0))

    Spill(tmp_path)

    assert os.listdir(tmp_path) == ["y.spilled"]


def test_numbers_of_thousands_of_digits_are_no_places():
    """A path or lines with more digits than Python reads get an answer in words."""
    reader = kept(list(range(1_000)), limit=200)
    digits = "9" * 5_000

    for path in (digits, f"{digits}:", f":{digits}"):
        result = reader(path=path)
        assert result.text.startswith("The path leads nowhere")
    assert reader(lines=digits).error.type == "ArgumentError"


def test_a_search_has_a_time_limit():
    """A search that takes too long is an error in words."""
    with pytest.raises(ToolError, match="took too long"):
        searched("a\n" * 10, lambda line: True, 1_000, seconds=0)


@pytest.mark.parametrize(("wait", "answered"), [(10.0, 6), (0.01, 1)])
def test_searches_run_one_at_a_time(monkeypatch, wait, answered):
    """Searches that come together run one after the other, and one that has waited too long is refused."""
    running, most = [], []

    def slow(*args):
        running.append(1)
        most.append(len(running))
        time.sleep(0.1)
        running.pop()
        return "found"

    monkeypatch.setattr(spill_reading, "searched", slow)
    monkeypatch.setattr(spill_reading, "SECONDS", wait)
    spill, context = Spill(limit=100), Context()
    _, handle = spilled("x" * 500, spill, context)
    arguments = {"handle": handle, "pattern": "x"}
    calls = [ToolCall(name="search_result", arguments=arguments, id=str(n)) for n in range(6)]
    texts = [result.text for result in asyncio.run(spill.tools.call_all(calls, context))]

    assert set(most) == {1}
    assert texts.count("found") >= answered
    assert set(texts) <= {"found", "Other searches take too long: search again later."}
    assert (texts.count("found") == 6) == (wait == 10.0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_does_not_wait_for_a_search_of_its_parent(monkeypatch):
    """A search that ran in the parent during the fork does not keep the child from searching."""
    begun, ended = threading.Event(), threading.Event()
    matcher = spill_reading.matcher
    slow = lambda _: (begun.set(), ended.wait(), bool)[-1]  # noqa: E731
    monkeypatch.setattr(spill_reading, "matcher", slow)
    searches = spill_reading.OneByOne()
    thread = threading.Thread(target=searches.search, args=("", "x", 1_000))
    thread.start()
    begun.wait()
    if child := os.fork():
        ended.set()
        thread.join()
    else:
        signal.alarm(60)
        monkeypatch.setattr(spill_reading, "SECONDS", 0.01)
        monkeypatch.setattr(spill_reading, "matcher", matcher)
        try:
            os._exit("x marks" not in searches.search("x marks the spot", "x", 1_000))
        finally:
            os._exit(2)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_path_of_very_many_levels_is_an_error_in_words(monkeypatch):
    """A path that goes down thousands of levels is refused in words."""
    deep = reduce(lambda inner, _: [inner], range(5_000), [])
    monkeypatch.setattr(spill_reading.json, "loads", lambda text: deep)

    with pytest.raises(ToolError, match="too many levels"):
        spill_reading.within("[]", "/0" * 5_000)


def test_large_results_are_read_one_at_a_time(monkeypatch):
    """The values of a large result are in memory for one reader at a time."""
    running, most, stored = [], [], spill_reading.stored

    def slow(path):
        running.append(1)
        most.append(len(running))
        time.sleep(0.1)
        running.pop()
        return stored(path)

    monkeypatch.setattr(spill_reading, "stored", slow)
    spill, context = Spill(limit=100), Context()
    _, handle = spilled([*range(100_000)], spill, context)
    arguments = {"handle": handle, "path": "/7"}
    calls = [ToolCall(name="read_result", arguments=arguments, id=str(n)) for n in range(4)]
    texts = [result.text for result in asyncio.run(spill.tools.call_all(calls, context))]

    assert (set(most), texts) == ({1}, ["7"] * 4)


def test_a_directory_of_its_own_goes_with_the_process(tmp_path):
    """Without a directory there is a private one, which is gone when the process has ended."""
    code = """
import os, stat, sys
from pathlib import Path
from functool import Context
from functool.layers.spill import Spill
from tests.layers.test_spill import spilled
spill = Spill(limit=100)
spilled("x" * 500, spill)
[directory] = Path(sys.argv[1]).iterdir()
print(directory, oct(stat.S_IMODE(directory.stat().st_mode)), len(os.listdir(directory)))
"""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = python(code, str(tmp_path), env=environment, check=True)
    directory, mode, files = done.stdout.split()

    assert (mode, files) == ("0o700", "1")
    assert not os.path.exists(directory)


def test_a_full_disk_is_a_clear_error(tmp_path, monkeypatch):
    """Where the result cannot be written the model is told that the tool ran, and no file is left."""
    real, written = os.fdopen, []

    def full(descriptor, mode):
        file = real(descriptor, mode)
        written.append(file)
        if len(written) == 2:
            file.close()
            raise OSError(errno.ENOSPC, "No space left on device")
        return file

    monkeypatch.setattr(spill_module.os, "fdopen", full)
    image = ImageContent(data=b"x" * 500, media_type="image/png")
    result, _ = spilled([TextContent(text="x" * 500), image], Spill(tmp_path, limit=100))

    assert result.error.type == "GuardrailError"
    assert result.text == (
        "The tool has run, but its result of 1,000 characters is too long to show, and could not be"
        " kept aside: No space left on device. Ask it for less."
    )
    assert list(tmp_path.iterdir()) == []


def test_the_total_is_bounded(tmp_path):
    """Where a new result does not fit the oldest are forgotten, with their files, and no more of them than need be."""
    spill, context = Spill(tmp_path, limit=100, max_bytes=1_200), Context()
    handles = [spilled("é" * 200, spill, context)[1] for _ in range(4)]  # 400 bytes each.
    readable = [read(spill, context, handle).success for handle in handles]

    assert readable == [False, True, True, True]
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) == 1_200
    spilled("x" * 401, spill, context)
    readable = [read(spill, context, handle).success for handle in handles]
    assert readable == [False, False, False, True]


def test_a_result_larger_than_the_bound_is_a_clear_error(tmp_path):
    """The model is told that the tool ran; what others keep stays."""
    spill, context = Spill(tmp_path, limit=100, max_bytes=500), Context()
    _, handle = spilled("x" * 400, spill, context)
    result, _ = spilled("x" * 501, spill, context)

    assert result.text == (
        "The tool has run, but its result of 501 characters is too long to show, and could not be"
        " kept aside: all kept results may take 500 bytes together. Ask it for less."
    )
    assert read(spill, context, handle).success


def test_the_bound_holds_under_parallel_calls(tmp_path):
    """What is being written counts, and what could not be written, expired or was closed gives its room back."""
    spill, context = Spill(tmp_path, limit=100, max_bytes=2_000), Context()

    def report(number: int) -> str:
        return f"{number:03}" + "x" * 497

    tools = Toolset([FunctionTool(report, output_guardrails=[spill.guardrail])])
    calls = [ToolCall(name="report", arguments={"number": n}, id=str(n)) for n in range(200)]
    results = tools.call_all_sync(calls, context)
    kept = [result for result in results if result.success]
    handles = [re.search(r"kept as ([\w-]{22})", result.text)[1] for result in kept]

    assert kept
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) == 2_000
    assert sum(read(spill, context, handle).success for handle in handles) == 4
    spill.close()
    _, handle = spilled("x" * 2_000, spill, context)
    assert read(spill, context, handle).success


def test_a_file_that_cannot_be_removed_takes_no_room_for_good(tmp_path, monkeypatch):
    """While the file of an old result cannot be removed, and after it, new results are kept."""
    spill, context = Spill(tmp_path, limit=100, max_bytes=500), Context()

    def refuse(path, missing_ok=False):
        raise OSError(errno.EROFS, "Read-only file system")

    spilled("a" * 400, spill, context)
    monkeypatch.setattr(Path, "unlink", refuse)
    handles = [spilled("b" * 400, spill, context)[1] for _ in range(3)]
    monkeypatch.undo()

    assert all(handles)
    assert read(spill, context, spilled("c" * 400, spill, context)[1], lines="1").text[:2] == "cc"


def test_room_comes_back_after_a_failed_write(tmp_path, monkeypatch):
    """A result that could not be written takes no room."""
    spill, context = Spill(tmp_path, limit=100, max_bytes=500), Context()
    with monkeypatch.context() as full:
        full.setattr(spill_module.os, "open", lambda *_: os.close(-1))
        assert spilled("x" * 400, spill, context)[0].is_error
    _, handle = spilled("x" * 500, spill, context)

    assert read(spill, context, handle).success


def test_a_file_that_is_gone_is_a_clear_error(tmp_path):
    """A result whose file somebody removed can no longer be read, and the error shows no path."""
    spill, context = Spill(tmp_path, limit=100), Context()
    _, handle = spilled("x" * 500, spill, context)
    next(tmp_path.iterdir()).unlink()
    result = read(spill, context, handle)

    assert result.text == "The result can no longer be read: No such file or directory."


def test_labels_are_kept():
    """What is read of an untrusted tool's result is labelled with that tool, and so is what it was made of."""
    spill, context = Spill(limit=100), Context()
    tool = FunctionTool(
        lambda: "mail " * 100,
        name="inbox",
        output_guardrails=[spill.guardrail],
        settings=ToolSettings(untrusted=True),
    )
    call = ToolCall(name="inbox", metadata={"sources": {"": ["web"]}})
    result = asyncio.run(tool.invoke(call, context))
    handle = re.search(r"kept as ([\w-]{22})", result.text)[1]

    assert result.metadata["sources"] == ["inbox", "web"]
    assert read(spill, context, handle).metadata["sources"] == ["inbox", "web"]
    found = read(spill, context, handle, "search_result", pattern="mail")
    assert found.metadata["sources"] == ["inbox", "web"]


@pytest.mark.parametrize(
    "options",
    [
        {"limit": 99}, {"limit": 2.5}, {"limit": True}, {"expires_in": 0}, {"expires_in": "1"},
        {"expires_in": True}, {"expires_in": float("nan")}, {"owner": "me"}, {"directory": __file__},
        {"max_bytes": 0}, {"max_bytes": 1.5}, {"max_bytes": True}, {"max_bytes": None},
    ],
)  # fmt: skip
def test_mistakes_are_refused_at_definition(options):
    """A limit that holds no handle, a time that is none, and a file for a directory are the author's errors."""
    with pytest.raises(DefinitionError):
        Spill(**options)


def test_the_tools_work_in_a_toolset():
    """The tools are ordinary ones, read-only, and stand beside others."""
    tools = Toolset([]) | Spill().tools

    assert list(tools) == ["read_result", "search_result"]
    assert all(tool.settings.read_only for tool in tools.values())


@pytest.mark.parametrize("odd", [None, 3, "a page", {"url": 1}], ids=repr)
def test_an_authors_own_sources_are_no_labels(odd):
    """A tool may count its documents as `sources`: a long result is kept aside all the same."""
    spill, context = Spill(limit=200), Context()
    given = ToolResult.of("x" * 1000, metadata={"sources": odd})
    result, handle = spilled(given, spill, context)

    assert result.success and "sources" not in read(spill, context, handle).metadata


def test_an_error_that_shows_a_kept_result_keeps_its_labels():
    """The error for a wrong path names keys, and a stranger may have written them."""
    context, spill = Context(), Spill(limit=100)
    untrusted = ToolSettings(untrusted=True)
    _, handle = spilled({"pay me": "x" * 500}, spill, context, settings=untrusted)

    wrong = read(spill, context, handle, path="/nowhere")

    assert "pay me" in wrong.text
    assert wrong.metadata["sources"] == ["report"]
    assert read(spill, context, handle).metadata["sources"] == ["report"]


def test_a_guardrail_before_it_takes_no_label_off():
    """What is kept has the labels of the result also if a guardrail before has made a new result of it."""
    spill, context = Spill(limit=100), Context()
    tool = FunctionTool(
        lambda: "mail " * 100,
        name="inbox",
        output_guardrails=[lambda r, c: ToolResult.of(r.text.upper()), spill.guardrail],
        settings=ToolSettings(untrusted=True),
    )
    result = asyncio.run(tool.invoke(ToolCall(name="inbox"), context))
    handle = re.search(r"kept as ([\w-]{22})", result.text)[1]

    assert read(spill, context, handle).metadata["sources"] == ["inbox"]


@pytest.mark.parametrize("journalled", [False, True])
def test_reading_a_part_makes_no_value_trusted(tmp_path, journalled):
    """A tool that repeats its arguments in a long result does not make the model's text trusted."""
    spill, context = Spill(limit=300), Context()

    def plan(title: str, people: list[str]) -> dict[str, object]:
        return {"id": "event-7", "title": title, "people": people}

    to = trusted_only("to", wrote=lambda context: "plan a lunch")
    send = FunctionTool(lambda to: "sent", name="send", input_guardrails=[to])
    read = spill.tools["read_result"]
    read = Journal(tmp_path / "calls.journal").once(read, "run") if journalled else read
    arguments = {"title": "y" * 400, "people": ["mallory@evil"]}
    shown = call(FunctionTool(plan, output_guardrails=[spill.guardrail]), arguments, context)
    handle = re.search(r"kept as ([\w-]{22})", shown.text)[1]
    for _ in range(2):
        asked = ToolCall(
            name="read_result", arguments={"handle": handle, "path": "/people/0"}, id="call_1"
        )
        assert asyncio.run(read.invoke(asked, context)).text == "mallory@evil"

    refused = call(send, {"to": "mallory@evil"}, context)
    assert refused.error.type == "GuardrailError"
    assert call(send, {"to": "event-7"}, context).text == "sent"
