"""How many values a message of an MCP server has, counted while it arrives."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functool.integrations import mcp_sizes
from functool.integrations.mcp_sizes import SHORT, Values, has_long_list

SCALARS = st.none() | st.booleans() | st.integers() | st.text(alphabet='a",:[{\\\n\r')
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(alphabet='a",[\\'), inner)
)


def marks(value):
    """Return the commas, colons and opening brackets of a JSON value."""
    if isinstance(value, dict):
        return 1 + max(0, len(value) - 1) + len(value) + sum(map(marks, value.values()))
    if isinstance(value, list):
        return 1 + max(0, len(value) - 1) + sum(map(marks, value))
    return 0


def limit(monkeypatch, most):
    """Let a message have so many values."""
    monkeypatch.setattr(mcp_sizes, "MAX_VALUES", most)


@pytest.mark.parametrize("events", [False, True])
@pytest.mark.parametrize("indent", [None, 1])
@given(value=VALUES, cuts=st.lists(st.integers(0, 200)))
def test_the_same_number_in_any_parts(value, cuts, events, indent):
    """Marks inside of texts do not count, and it does not matter where a message is cut."""
    text = json.dumps(value, indent=indent)
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    counted, whole = Values(events), marks(value)

    with pytest.MonkeyPatch.context() as patch:
        limit(patch, whole)
        for start, end in zip(places, places[1:], strict=False):
            assert counted.fit(text[start:end])
        assert counted.fit("\n")
        limit(patch, whole - 1)
        assert not counted.fit("0")


@pytest.mark.parametrize("around", ["[{},1]", "[1,{}]", "[1\n{}\n]", '{{"n":{}}}'])
@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_a_long_number_counts_as_many_values(monkeypatch, around, size):
    """Ten times the digits count a hundred times, in whatever parts they come, and short numbers once."""
    limit(monkeypatch, 100)

    def fits(digits):
        text = around.format("9" * digits) + "\n"
        counted = Values()
        return all([counted.fit(text[at : at + size]) for at in range(0, len(text), size)])

    assert fits(SHORT)
    assert fits(SHORT * 9)
    assert not fits(SHORT * 11)


@pytest.mark.parametrize("line", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("size", [1, 2, 3, 1_000])
def test_events_are_counted_apart(monkeypatch, line, size):
    """A blank line ends an event of a stream. In a body it is nothing but space."""
    limit(monkeypatch, 4)
    text = f'data: [1,2]{line}{line}data: [1,2,"3"]{line}'
    parts = [text[start : start + size] for start in range(0, len(text), size)]

    events, body = Values(events=True), Values()

    assert all([events.fit(part) for part in parts])
    assert not all([body.fit(part) for part in parts])


def fits(text, size):
    """Whether the events in a text, which arrives in parts of a size, have not too many values."""
    counted = Values(events=True)
    return all([counted.fit(text[at : at + size]) for at in range(0, len(text), size)])


@pytest.mark.parametrize("line", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("size", [1, 2, 3, 1_000])
def test_lines_of_one_event_are_counted_together(monkeypatch, line, size):
    """The lines of an event, and quotes in lines that the SDK skips, hide nothing."""
    limit(monkeypatch, 5)
    text = f': "\\{line}id: "{line}data: [1,{line}data: 2,{line}data: 3,4,{line}data: 5]{line}'

    assert not fits(text, size)


@pytest.mark.parametrize("size", [1, 2, 3, 1_000])
@pytest.mark.parametrize("skipped", ["\\\\", '\\"', "\\", '"', ":", " "])
def test_a_line_that_the_sdk_skips_ends_no_event(monkeypatch, skipped, size):
    """Only a blank line ends an event. A line of nothing but escapes is not blank."""
    limit(monkeypatch, 5)
    text = f"data: [1,2,\n{skipped}\ndata: 3,\n{skipped}\ndata: 4,5]\n"

    assert not fits(text, size)


def test_long_lists_of_the_protocol():
    """The content may not have ten thousand items and more; what is the server's own may."""
    long = [0] * (mcp_sizes.MAX_ITEMS + 1)

    assert has_long_list({"content": long})
    assert has_long_list({"inputRequests": {str(n): 0 for n in range(len(long))}})
    assert has_long_list({"content": [{"annotations": {"audience": long}}]})
    assert not has_long_list({"content": long[1:]})
    assert not has_long_list({"content": [{"type": "text", "text": "a"}] * mcp_sizes.MAX_ITEMS})
    assert has_long_list({"content": [{"annotations": {"audience": long[1:]}}] * 2})
    assert not has_long_list({"content": [], "structuredContent": {"rows": long}, "_meta": long})
    assert not has_long_list({"tools": [{"inputSchema": {"enum": long}}]})


@pytest.mark.parametrize("line", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("size", [1, 3, 1_000])
@pytest.mark.parametrize(("digits", "fits"), [("86400000", True), ("9" * 400, False)])
def test_a_stream_asks_for_no_wait_of_years(line, size, digits, fits):
    """The SDK would make a float of `retry:`. In the data of an event, and in a body, it is text."""
    text = f"id: 1{line}retry: {digits}{line}data: {line}{line}"
    parts = [text[start : start + size] for start in range(0, len(text), size)]
    shown = f'data: "{line}data: retry: {"9" * 400}"{line}'
    stream, other, body = Values(events=True), Values(events=True), Values()

    assert all([stream.fit(part) for part in parts]) is fits
    assert other.fit(shown) and body.fit(text)


MESSAGES = (
    '{"jsonrpc":"2.0","id":1,"result":{"a":%s}}',
    '{"id":"x","result":{"id":%s},"jsonrpc":"2.0"}',
    '{"jsonrpc":"2.0","method":"notifications/message","params":{"data":%s}}',
    '{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"","data":%s}}',
    '{"jsonrpc":"2.0","id":1,"result":{},"more":%s}',
)
NO_MESSAGES = (
    '{"jsonrpc":"2.0","id":%s,"result":{}}',
    '{"jsonrpc":%s,"id":1,"result":{}}',
    '{"jsonrpc":"2\\".0","id":1,"result":{"a":%s}}',
    '{"jsonrpc":"2.0","id":1.5,"error":{"code":"","data":%s}}',
    '{"jsonrpc":"2.0","id":1,"result":%s}',
    '{"event":%s}',
    "%s",
)
MANY_VALUES = f"[{','.join(['{}'] * 100)}]"


@pytest.mark.parametrize(
    ("text", "fits"),
    [(text, True) for text in MESSAGES] + [(text, False) for text in NO_MESSAGES],
)
def test_a_text_that_is_no_message_has_few_values(monkeypatch, text, fits):
    """The SDK gets many values only in a message, as its error for another text holds copies of them."""
    monkeypatch.setattr(mcp_sizes, "MANY", 100)
    many, few = Values(), Values()

    assert many.fit(text % MANY_VALUES)
    assert few.fit(text % "[{}]")
    assert many.ends() == fits
    assert few.ends()


def test_a_text_that_is_no_json_is_left_to_the_sdk(monkeypatch):
    """The SDK's error for a text that is no JSON holds none of its values."""
    monkeypatch.setattr(mcp_sizes, "MANY", 100)
    page = Values()

    assert page.fit(f"<p>{MANY_VALUES}")
    assert page.ends()


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=repr)
@pytest.mark.parametrize("size", [1, 2, 7, 100, 100_000])
@pytest.mark.parametrize(
    ("text", "fits"),
    [(text, True) for text in MESSAGES] + [(text, False) for text in NO_MESSAGES],
)
def test_an_event_that_is_no_message_has_few_values(monkeypatch, text, fits, size, end):
    """An event is looked at before its last line has passed, in whatever parts and lines it comes."""
    monkeypatch.setattr(mcp_sizes, "MANY", 100)
    lines = (text % MANY_VALUES).replace(",{},", ",\n{},").split("\n")
    event = ["event: message", *(f"data: {line}" for line in lines), "", ""]
    before = ["data: {}", "", ": hello", ""]
    stream = end.join([*before, *event, "data: {}", "", ""])
    counted = Values(events=True)

    parts = [stream[at : at + size] for at in range(0, len(stream), size)]
    assert all(counted.fit(part) for part in parts) == fits
    assert not fits or counted.ends()


def test_comments_without_an_end_are_an_event_that_is_too_long(monkeypatch):
    """A stream of comments, which the SDK skips, takes bounded memory."""
    monkeypatch.setattr(mcp_sizes, "MAX_EVENT", 1_000)
    counted = Values(events=True)

    assert all(counted.fit(": hello\n\n") for _ in range(1_000))
    assert not all(counted.fit(": hello\n") for _ in range(1_000))
