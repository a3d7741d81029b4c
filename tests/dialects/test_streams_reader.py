"""What every reader does: errors for what does not belong, refusals, and calls that start early."""

import asyncio
import json
import math
import re
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functool import (
    ArgumentError,
    Context,
    FunctionTool,
    ToolResult,
    Toolset,
    ToolSettings,
    Tripwire,
    guardrails,
)
from functool.dialects import (
    ArgumentsDelta,
    CallReady,
    CallRefused,
    CallStarted,
    StreamBroken,
    StreamEnded,
    TextDelta,
    anthropic,
    bedrock,
    deepseek,
    gemini,
    mcp,
    mistral,
    openai,
    openai_chat,
    xai,
)
from functool.dialects._turn import Turn
from functool.testing import EventLog
from tests.dialects import streaming
from tests.dialects.samples import toolset

READERS = {
    "openai": (openai, streaming.responses),
    "openai_chat": (openai_chat, streaming.chat),
    "anthropic": (anthropic, streaming.messages),
    "gemini": (gemini, streaming.generated),
    "bedrock": (bedrock, streaming.converse),
    "mistral": (mistral, streaming.mistral),
}
FOREIGN: dict[str, Any] = {
    "openai": openai.StreamReader,
    "openai_chat": openai_chat.StreamReader,
    "anthropic": anthropic.StreamReader,
    "gemini": gemini.StreamReader,
    "bedrock": bedrock.StreamReader,
    "mistral": mistral.StreamReader,
    "xai": xai.StreamReader,
}
# Mistral and xAI speak OpenAI's formats too.
ALIKE = {("mistral", "openai_chat"), ("openai_chat", "mistral"), ("xai", "openai_chat")}
ALIKE |= {("xai", "mistral"), ("xai", "openai")}


def chunk(*entries: Any, reason: str | None = None, **delta: Any) -> dict[str, Any]:
    """A chunk of Chat Completions."""
    if entries:
        delta["tool_calls"] = list(entries)
    return {"id": "k1", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


def begin(index: int, name: str, text: str = "") -> dict[str, Any]:
    return {"index": index, "id": f"c{index}", "function": {"name": name, "arguments": text}}


def more(index: int, text: str) -> dict[str, Any]:
    return {"index": index, "function": {"arguments": text}}


END = chunk(reason="tool_calls")


@pytest.mark.parametrize("reader", FOREIGN)
@pytest.mark.parametrize("given", READERS)
def test_a_chunk_of_another_provider_is_a_type_error(reader, given):
    """The first chunk of another provider's stream is refused, and the message says what was expected."""
    if reader == given or (reader, given) in ALIKE:
        return
    with pytest.raises(TypeError, match=r"^expected .*, not a dict with the keys "):
        FOREIGN[reader]().feed(READERS[given][1]()[0])


@pytest.mark.parametrize("reader", FOREIGN)
@pytest.mark.parametrize("given", ["data: {}", b"x", None, 7, [], {}, {"a": 1}, object()])
def test_what_is_no_chunk_is_a_type_error(reader, given):
    """Text, None and whatever else is no chunk are refused, and the reader can go on."""
    made = FOREIGN[reader]()
    with pytest.raises(TypeError, match="^expected "):
        made.feed(given)
    assert made.calls() == []


def test_an_event_of_bedrock_reaches_no_other_attribute():
    """An event that is named like a method of Python's objects is refused, and the reader can go on."""
    made = bedrock.StreamReader()
    with pytest.raises(TypeError, match="^expected "):
        made.feed({"_setattr__": "read"})

    assert made.feed({"messageStop": {"stopReason": "end_turn"}}) == [StreamEnded("end_turn")]


ODD = st.sampled_from([None, 0, 7, 1.5, True, "", "x", [], [7], ["x"], {}, {"x": 1}, [[]], [{}]])


def with_odd_part(node: Any, data: st.DataObject) -> Any:
    """A copy of a chunk in which one part, at any depth, is an odd value."""
    keys = list(node) if isinstance(node, dict) else range(len(node))
    if not keys:
        return data.draw(ODD)
    key = data.draw(st.sampled_from(keys))
    deeper = isinstance(node[key], (dict, list)) and data.draw(st.booleans())
    changed = node.copy()
    changed[key] = with_odd_part(node[key], data) if deeper else data.draw(ODD)
    return changed


@pytest.mark.parametrize("reader", FOREIGN)
@pytest.mark.parametrize("with_tools", [False, True])
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_chunk_with_an_odd_part_is_read_or_refused(reader, with_tools, data):
    """Whatever a chunk holds, it is read, or it is an error that says what was expected."""
    name = reader if reader in READERS else data.draw(st.sampled_from(["openai_chat", "openai"]))
    events = READERS[name][1]()
    made = FOREIGN[reader](toolset() if with_tools else None)
    odd = data.draw(st.sampled_from(range(len(events))))
    for number, event in enumerate(events):
        try:
            made.feed(with_odd_part(event, data) if number == odd else event)
        except TypeError as error:
            assert str(error).startswith("expected ")
        except ValueError:
            pass
    made.calls()


@pytest.mark.parametrize("name", READERS)
def test_two_streams_that_are_mixed_are_an_error(name):
    """Two streams into one reader, chunk by chunk in turn, do not pass."""
    dialect, recorded = READERS[name]
    reader = dialect.StreamReader()
    renamed = json.loads(re.sub('"(chat_1|g1|mi_1)"', '"k2"', json.dumps(recorded())))
    with pytest.raises(ValueError, match=r"two streams are mixed|did not start|more of it"):
        for one, other in zip(recorded(), renamed, strict=True):
            reader.feed(one)
            reader.feed(other)


@pytest.mark.parametrize("name", READERS)
def test_a_chunk_after_the_end_is_an_error(name):
    """After the end of the turn, the chunks of the stream are refused; so is every one after `close`."""
    dialect, recorded = READERS[name]
    reader = dialect.StreamReader()
    for one in recorded():
        reader.feed(one)
    with pytest.raises(ValueError, match=r"ended|mixed"):
        for one in recorded():
            reader.feed(one)
    closed = dialect.StreamReader()
    closed.close()
    with pytest.raises(ValueError, match="closed"):
        closed.feed(recorded()[0])


@pytest.mark.parametrize("name", READERS)
def test_a_stream_that_breaks_off_runs_nothing_that_was_not_complete(name):
    """Whatever part of a stream arrived, `run` says that it broke off, and answers every call once."""
    dialect, recorded = READERS[name]
    chunks = recorded()
    for kept in range(0, len(chunks) - 3, 5):
        reader = dialect.StreamReader(toolset())
        with pytest.raises(StreamBroken) as stopped:
            asyncio.run(reader.run(Context(), chunks[:kept]))

        results = stopped.value.results
        assert [result.call_id for result in results] == [call.id for call in reader.calls()]
        assert all(result.error.type == "StreamBroken" for result in results)


def test_arguments_that_were_cut_off_are_refused():
    """A limit of tokens in the middle of a call refuses it, and does not run it without arguments."""
    for text in ("", '{"query": "a'):
        reader = openai_chat.StreamReader(toolset())
        reader.feed(chunk(begin(0, "ping" if not text else "search", text)))
        events = reader.feed(chunk(reason="length"))

        assert [type(event) for event in events] == [CallRefused, StreamEnded]
        assert events[1] == StreamEnded("length")
        [result] = asyncio.run(reader.run())
        assert "not one whole JSON object" in result.text

    cut = [*streaming.messages("max_tokens")]
    last = [at for at, event in enumerate(cut) if event["type"] == "content_block_stop"]
    del cut[last[-2] + 1 : last[-1]]  # The third call never came.
    del cut[last[-2] + 1]
    block = {"type": "tool_use", "id": "c9", "name": "ping", "input": {}}
    cut[-2:-2] = [
        {"type": "content_block_start", "index": 9, "content_block": block},
        {"type": "content_block_stop", "index": 9},
    ]
    reader = anthropic.StreamReader()
    told = [event for one in cut for event in reader.feed(one)]
    assert [e.call.id for e in told if isinstance(e, CallRefused)] == ["c9"]


def test_a_refusal_by_the_model_is_text():
    """What a model says instead of an answer is shown, and the reason tells that it refused."""
    reader = openai_chat.StreamReader()
    events = [*reader.feed(chunk(refusal="I can")), *reader.feed(chunk(refusal="not."))]
    events += reader.feed(chunk(reason="stop"))

    assert events == [TextDelta("I can"), TextDelta("not."), StreamEnded("refusal")]


def test_an_error_of_the_provider_ends_the_stream():
    """An error event is the end, its message is in the reason, and no call runs."""
    events = streaming.responses()[:30]
    error = {"type": "error", "message": "overloaded", "code": None, "param": None}
    reader = openai.StreamReader(toolset())
    for event in events:
        reader.feed(event)
    said = reader.feed({**error, "sequence_number": 99})

    assert said[-1] == StreamEnded("failed: overloaded")
    with pytest.raises(StreamBroken, match="overloaded"):
        asyncio.run(reader.run())
    failed = {"throttlingException": {"message": "slow down"}}
    [*_, ended] = bedrock.StreamReader().feed(failed)
    assert ended.reason == "failed: throttlingException: slow down"


def test_an_error_that_comes_as_two_events_is_one():
    """OpenAI may say in `response.failed`, in other words, what an `error` has said; what ran is told all the same."""
    ran: list[str] = []

    @FunctionTool(settings=ToolSettings(read_only=True))
    async def peek(text: str) -> str:
        """Peek."""
        ran.append(text)
        return text

    item = {"type": "function_call", "id": "f1", "call_id": "c1", "name": "peek"}
    whole = {**item, "arguments": '{"text": "a"}', "status": "completed"}
    events = [
        {"type": "response.output_item.done", "output_index": 0, "item": whole},
        {"type": "error", "error": {"message": "overloaded"}},
        {"type": "response.failed", "response": {"id": "r", "error": {"message": "too busy"}}},
    ]

    async def chunks():
        for event in events:
            yield event
            await asyncio.sleep(0.01)

    with pytest.raises(StreamBroken, match="overloaded") as broken:
        asyncio.run(openai.StreamReader([peek]).run(None, chunks()))
    assert ([result.text for result in broken.value.results], ran) == (["a"], ["a"])


def test_a_response_without_its_other_items_holds_the_same_calls():
    """Some servers leave reasoning out of the whole response, so its calls have other places; none runs twice."""
    events = streaming.responses()
    last = events[-1]["response"]
    whole = {**last, "output": [i for i in last["output"] if i["type"] == "function_call"]}
    reader, expected = openai.StreamReader(), openai.StreamReader()
    for event in events:
        expected.feed(event)
    for event in [*events[:-1], {**events[-1], "response": whole}]:
        reader.feed(event)

    assert reader.calls() == expected.calls() and len(reader.calls()) == len(streaming.CALLS)


def test_calls_of_one_id_that_only_the_whole_response_has():
    """A server that streams nothing, and gives all calls one id, loses none of them."""
    one = {"type": "function_call", "call_id": "same", "name": "ping"}
    output = [{**one, "arguments": f'{{"n":{n}}}'} for n in range(2)]
    reader = openai.StreamReader()
    reader.feed({"type": "response.completed", "response": {"id": "r", "output": output}})

    assert [call.arguments for call in reader.calls()] == ['{"n":0}', '{"n":1}']


def test_servers_that_give_every_call_the_place_0():
    """Whole calls under one index are calls of their own, and so are calls without an index."""
    reader = openai_chat.StreamReader()
    reader.feed(chunk({**begin(0, "ping", "{}"), "id": "a"}, {**begin(0, "ping", "{}"), "id": "b"}))
    one = {"id": "d", "function": {"name": "search", "arguments": '{"query"'}}
    reader.feed(chunk(one))
    reader.feed(chunk({"function": {"arguments": ': "x"}'}}))
    reader.feed(END)

    calls = [(call.id, call.arguments) for call in reader.calls()]
    assert calls == [("a", "{}"), ("b", "{}"), ("d", '{"query": "x"}')]


@pytest.mark.parametrize("last", [{}, {"content": ""}, {"usage": {}}])
def test_a_reason_that_is_empty_or_comes_twice(last):
    """Servers send an empty reason before the end, or the reason once more with the usage; text after the end is an error."""
    reader = openai_chat.StreamReader()
    events = [event for event in reader.feed(chunk(begin(0, "ping", "{"), reason=""))]
    for one in (chunk(more(0, "}"), reason=""), END, {**END, **last}):
        events += reader.feed(one)

    assert events[-1] == StreamEnded("tool_calls") and events.count(events[-1]) == 1
    with pytest.raises(ValueError, match="the stream has ended"):
        reader.feed(chunk(content="more", reason="tool_calls"))
    with pytest.raises(ValueError, match="the stream has ended"):
        reader.feed(chunk(reason="stop"))


def test_results_of_azures_content_filter_are_passed_over():
    """The asynchronous filter of Azure sends choices without a delta, also after the end."""
    offsets = {"check_offset": 0, "start_offset": 0, "end_offset": 9}
    choice = {"index": 0, "finish_reason": None, "content_filter_offsets": offsets}
    filtered = {"id": "", "choices": [{**choice, "content_filter_results": {}}]}
    reader = openai_chat.StreamReader()
    for one in (filtered, chunk(begin(0, "ping", "{}")), filtered, END, filtered):
        reader.feed(one)

    assert [call.name for call in reader.calls()] == ["ping"]


@pytest.mark.parametrize("lacking", [{"delta": None}, {}])
def test_chunks_that_lack_a_part_are_read(lacking):
    """Servers send `"delta": null` with the reason, and leave the choices out of the chunk with the usage."""
    kind = {"id": "k1", "object": "chat.completion.chunk"}
    reader = openai_chat.StreamReader()
    reader.feed(chunk(begin(0, "ping", "{}")))
    usage = {**kind, "usage": {}}
    last = {**kind, "choices": [{"index": 0, "finish_reason": "tool_calls", **lacking}]}
    said = [reader.feed(one) for one in (usage, last, {**usage, "choices": None})]

    assert said == [[], [StreamEnded("tool_calls")], []]
    with pytest.raises(TypeError, match="expected a ChatCompletionChunk"):
        reader.feed({"object": "chat.completion", "choices": None})


def test_a_whole_call_that_is_repeated_runs_once():
    """A server that sends a streamed call once more as a whole, with its id, means the same call."""
    text = '{"query": "x"}'
    reader = openai_chat.StreamReader()
    for one in (begin(0, "search", text[:4]), more(0, text[4:]), begin(0, "search", text)):
        reader.feed(chunk(one))
    other = {**begin(0, "search", text), "id": "another"}
    reader.feed(chunk(other))
    reader.feed(END)

    assert [(call.id, call.arguments) for call in reader.calls()] == [
        ("c0", text),
        ("another", text),
    ]


@pytest.mark.parametrize("empty", [{}, {"name": ""}, {"name": None}])
def test_a_name_that_comes_later(empty):
    """A call may begin with its id, and some of its text; one that never gets a name is answered as unknown."""
    first = {"index": 0, "id": "c0", "function": {"arguments": "{", **empty}}
    reader = openai_chat.StreamReader([FunctionTool(lambda: "pong", name="ping")])
    assert reader.feed(chunk(first)) == []
    named = {"index": 0, "id": "c0", "function": {"name": "ping", "arguments": ""}}
    for one in (chunk(named), chunk(more(0, "}")), chunk({**first, "index": 1, "id": "c1"}), END):
        reader.feed(one)
    answers = asyncio.run(reader.run())

    assert [(call.id, call.arguments) for call in reader.calls()] == [("c0", "{}"), ("c1", "{")]
    assert (answers[0].text, answers[1].error.type) == ("pong", "UnknownToolError")


class Piece(str):
    """A text that can only be joined with many others at once."""

    def __radd__(self, other: str) -> str:
        raise AssertionError("each piece copies all that came before it")


def test_text_before_a_name_is_joined_once():
    """One chunk may hold many thousand pieces. To copy the text for each of them would hold the loop for seconds."""
    pieces = [{**more(0, Piece(text)), "id": "c0"} for text in ("{", " ", "}")]
    reader = openai_chat.StreamReader()
    reader.feed(chunk(*pieces))
    reader.feed(chunk(begin(0, "ping")))

    assert [call.arguments for call in reader.calls()] == ["{ }"]


def test_text_beyond_the_limit_is_not_searched():
    """A chunk may hold many million brackets, of which a tool takes one million bytes. What it takes has its end."""
    small = FunctionTool(lambda a=0: a, name="small", max_argument_bytes=8)
    reader = openai_chat.StreamReader([small])
    # Some servers give every call the place 0, and no id: the next one begins behind the end.
    for text in ('{"a": 1}', '{"a": 22}', '{"a": 3}'):
        reader.feed(chunk({"index": 0, "function": {"name": "small", "arguments": text}}))

    assert [call.arguments for call in reader.calls()] == ['{"a": 1}', '{"a": 22}{"a": 3}']


ENDS: dict[str, Any] = {
    "openai_chat": {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
    "anthropic": {"type": "message_stop"},
    "bedrock": {"messageStop": {"stopReason": "tool_use"}},
    "gemini": {"candidates": [{"finishReason": "STOP"}]},
}


@pytest.mark.parametrize("name", ENDS)
def test_an_end_that_comes_twice_is_read_once(name):
    """Some servers send the end once more, with the usage; more text after it is an error."""
    dialect, recorded = READERS[name]
    reader = dialect.StreamReader()
    for one in recorded():
        reader.feed(one)

    assert reader.feed(ENDS[name]) == []
    with pytest.raises(ValueError, match="ended|mixed"):
        for one in recorded():
            reader.feed(one)


def test_gemini_streams_arguments_in_pieces():
    """Pieces under JSON Paths become one call, whose text is told when it is complete."""
    pieces = [
        {"name": "search", "id": "c1", "willContinue": True},
        {
            "partialArgs": [{"jsonPath": "$.query", "stringValue": "ca", "willContinue": True}],
            "willContinue": True,
        },
        {
            "partialArgs": [
                {"jsonPath": "$.query", "stringValue": "ts"},
                {"jsonPath": "$.filters.tags[0]", "stringValue": "a"},
                {"jsonPath": "$.filters.tags[1]", "stringValue": "b"},
                {"jsonPath": "$['limit']", "numberValue": 2.0},
            ],
            "willContinue": True,
        },
        {},
    ]
    reader = gemini.StreamReader(toolset())
    for piece in pieces:
        candidate = {"content": {"parts": [{"functionCall": piece}]}}
        reader.feed({"candidates": [candidate]})

    [call] = reader.calls()
    expected = {"query": "cats", "filters": {"tags": ["a", "b"]}, "limit": 2}
    assert json.loads(call.arguments) == expected


def pieces_of(*pieces: tuple[str, dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A chunk of Gemini that begins a call, with pieces of its arguments under JSON Paths."""
    parts = [{"jsonPath": path, **value} for path, value in pieces]
    entry = {"name": "search", "id": "c1", "partialArgs": parts, "willContinue": True, **more}
    return {"candidates": [{"content": {"parts": [{"functionCall": entry}]}}]}


TEXT = {"stringValue": "x"}


@pytest.mark.parametrize(
    ("pieces", "said"),
    [
        ([("$.a[100000000]", TEXT)], "leave out too many items"),
        ([("$.a[1000000000000]", TEXT)], "leave out too many items"),
        ([(f"$.a[{n}][600]", TEXT) for n in range(2)], "leave out too many items"),
        ([("$" + ".a" * 100_000, TEXT)], "nested too deeply"),
        ([("$.a", TEXT), ("$.a.b", TEXT)], "do not fit together"),
        ([("$.a[0]", TEXT), ("$.a.b", TEXT)], "do not fit together"),
        ([("$[0]", TEXT)], "do not fit together"),
        ([("$.a", {"numberValue": math.nan})], "must be finite"),
        ([("$.a", {"numberValue": math.inf})], "must be finite"),
    ],
)
def test_pieces_that_make_no_arguments_refuse_their_call(pieces, said):
    """The model reads why. The rest of the pieces is passed over, and the next call is read."""
    reader = gemini.StreamReader()
    begun = reader.feed(pieces_of(*pieces))
    more = reader.feed(pieces_of(("$.query", TEXT), name=None, willContinue=None))
    reader.feed(pieces_of(("$.query", TEXT), ("$.tags[2]", TEXT), willContinue=None))

    assert [type(event) for event in begun] == [CallStarted, CallRefused]
    assert said in str(begun[1].error) and more == []
    assert reader.calls()[0].arguments == ""
    assert json.loads(reader.calls()[1].arguments) == {"query": "x", "tags": [None, None, "x"]}


@pytest.mark.parametrize("path", ["['", "$", "", 5, "$.a[b]", "a"])
def test_a_path_that_cannot_be_read_is_an_error(path):
    """No piece is put where its path does not say, and a bad path is read once only."""
    path = "$" + path * 100_000 if path == "['" else path

    with pytest.raises(ValueError, match="JSON Path"):
        gemini.StreamReader().feed(pieces_of((path, TEXT)))


@pytest.mark.parametrize("whole", [{"message": {"content": "Hi"}}, {"text": "Hi"}])
def test_a_chunk_with_a_whole_message_is_refused(whole):
    """Some servers do not stream, and still call their answer a chunk: its calls would be lost without a word."""
    choice = {"index": 0, "finish_reason": "tool_calls", **whole}
    with pytest.raises(TypeError, match="expected a ChatCompletionChunk"):
        openai_chat.StreamReader().feed({"object": "chat.completion.chunk", "choices": [choice]})


@pytest.mark.parametrize("others", [0, 1])
def test_a_call_whose_last_piece_is_missing_is_refused(others):
    """What it lost may be an argument with a default, so it does not run, whatever reason ends the turn and whatever call follows."""
    piece = {"partialArgs": [{"jsonPath": "$.query", "stringValue": "cats"}], "willContinue": True}
    whole = [{"name": "search", "args": {"query": "dogs", "limit": 1}}] * others
    pieces = [{"name": "search", "willContinue": True}, piece, *whole]
    reader = gemini.StreamReader(toolset())
    parts = [{"functionCall": one} for one in pieces]
    said = reader.feed({"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]})

    next_call = [CallStarted, ArgumentsDelta, CallReady] * others
    assert [type(event) for event in said] == [CallStarted, *next_call, CallRefused, StreamEnded]


def test_a_text_in_many_pieces_is_joined_once():
    """Copying the text for each of 200,000 pieces would take minutes."""
    reader = gemini.StreamReader()
    both = [("$.a", {"stringValue": "aaaaaaaaaa"}), ("$.b['c.d']", {"stringValue": "\r\nbbbbbbbb"})]
    reader.feed(pieces_of(*both * 100_000, args={"e": "1"}))
    reader.feed(pieces_of(("$.e", {"stringValue": "2"}), name=None, willContinue=None))

    found = json.loads(reader.calls()[0].arguments)
    assert found == {"a": "a" * 1_000_000, "b": {"c.d": "\r\nbbbbbbbb" * 100_000}, "e": "12"}


def test_arguments_that_are_no_object_are_a_type_error():
    """They are not a chunk of this provider."""
    with pytest.raises(TypeError, match="arguments of a call as an object, not str"):
        gemini.StreamReader().feed(pieces_of(args="x"))


@pytest.mark.parametrize("name", ["gemini", "mistral", "anthropic"])
def test_arguments_that_are_nested_too_deeply_refuse_their_call(name):
    """Objects that an SDK has read already may be nested more deeply than JSON text is written."""
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    block = {"type": "tool_use", "id": "c1", "name": "search", "input": deep}
    chunks = {
        "gemini": [pieces_of(args=deep, willContinue=None)],
        "mistral": [chunk({"index": 0, "id": "c1", "function": {"name": "f", "arguments": deep}})],
        "anthropic": [
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_stop", "index": 0},
        ],
    }
    reader = FOREIGN[name]()
    events = [event for given in chunks[name] for event in reader.feed(given)]

    assert [type(event) for event in events] == [CallStarted, CallRefused]
    assert "nested too deeply" in str(events[1].error)


def test_deep_arguments_that_differ_from_the_streamed_ones_are_an_error():
    """Texts that are too deep to be compared as values are compared as texts."""
    reader = openai.StreamReader()
    call = {"type": "function_call", "name": "f", "call_id": "c1", "arguments": "[" * 100_000}
    reader.feed({"type": "response.output_item.added", "output_index": 0, "item": call})

    with pytest.raises(ValueError, match="differ"):
        done = {**call, "arguments": "{}"}
        reader.feed({"type": "response.output_item.done", "output_index": 0, "item": done})


@pytest.mark.parametrize("reason", [99, -1, 10**30, 1.5, "REASON_ODD"])
def test_a_reason_that_nobody_knows_ends_the_turn(reason):
    """xAI numbers its reasons, and may add some."""
    ended = xai.StreamReader().feed({"outputs": [{"delta": {}, "finish_reason": reason}]})

    assert ended == [StreamEnded(str(reason).removeprefix("REASON_"))]


def test_a_run_looks_only_at_the_calls_that_changed(monkeypatch):
    """A turn of many calls in many chunks costs as much as its text."""
    looked: list[int] = []
    look = Turn.look

    def counting(turn: Turn, calls: list[Any]) -> None:
        looked.append(len(calls))
        look(turn, calls)

    monkeypatch.setattr(Turn, "look", counting)
    begun = [chunk(begin(n, "lookup", '{"key": "')) for n in range(50)]
    more_of = [chunk(more(n, "x")) for n in range(50) for _ in range(10)]
    ended = [chunk(more(n, '"}')) for n in range(50)]
    results = asyncio.run(
        openai_chat.StreamReader(toolset()).run(None, [*begun, *more_of, *ended, END])
    )

    assert len(results) == 50
    assert sum(looked) <= 150


def test_a_call_is_refused_while_it_is_written():
    """An unknown tool is refused with its name, a wrong argument with the character that decides it."""
    reader = openai_chat.StreamReader(toolset())
    first = reader.feed(chunk(begin(0, "serach")))
    assert [type(event) for event in first] == [CallStarted, CallRefused]
    assert "search" in str(first[1].error)

    second = reader.feed(chunk(begin(1, "search", '{"limit": {')))
    assert [type(event) for event in second] == [CallStarted, ArgumentsDelta, CallRefused]
    assert second[2].call.arguments == '{"limit": {'
    assert second[2].error.problems[0]["path"] == "limit"
    reader.feed(chunk(more(1, "}}")))
    assert reader.feed(END) == [StreamEnded("tool_calls")]
    results = asyncio.run(reader.run())
    assert [r.error.type for r in results] == ["UnknownToolError", "ArgumentError"]


def test_many_unknown_names_are_answered_at_once():
    """After ten refused calls of a reply, no name is compared with the known ones until the calls run."""
    reader = openai_chat.StreamReader(toolset())
    events = [reader.feed(chunk(begin(n, "serach"))) for n in range(12)]
    said = [str(refused.error) for _, refused in events]

    assert [text.count("Did you mean 'search'") for text in said] == [1] * 10 + [0] * 2
    assert said[-1] == "There is no tool named 'serach'."
    late = reader.feed(chunk(begin(12, "search", '{"limit": {}}')))
    assert [type(event) for event in late] == [CallStarted, ArgumentsDelta, CallReady]
    reader.feed(END)
    assert asyncio.run(reader.run())[-1].error.type == "ArgumentError"


def test_many_unknown_names_let_other_tasks_run():
    """The event loop serves other tasks between the refused calls of a reply: each names its close tools."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def turn() -> list[ToolResult]:
        chunks = [*(chunk(begin(n, "serach", "{}")) for n in range(300)), END]
        reader = openai_chat.StreamReader(toolset())
        for each in chunks:
            reader.feed(each)
        counter = asyncio.ensure_future(count())
        results = await reader.run()
        counter.cancel()
        return results

    assert {"Did you mean 'search'" in result.text for result in asyncio.run(turn())} == {True}
    assert turns >= 300


class Bench:
    """Tools that note when they begin and end."""

    def __init__(self, **settings: Any) -> None:
        self.log: list[str] = []
        self.go = asyncio.Event()

        async def look(what: str) -> str:
            self.log.append(f"begin {what}")
            try:
                await asyncio.wait_for(self.go.wait(), 5)
            except asyncio.CancelledError:
                self.log.append(f"cancel {what}")
                raise
            self.log.append(f"end {what}")
            return what

        async def write(what: str) -> str:
            self.log.append(f"write {what}")
            return what

        self.look = FunctionTool(look, settings=ToolSettings(read_only=True, **settings))
        self.write = FunctionTool(write)

    async def stream(self, chunks: list[Any], *, release: bool = True) -> Any:
        """The chunks, with the loop free to work between them."""
        for one in chunks:
            for _ in range(20):
                await asyncio.sleep(0)
            self.log.append("chunk")
            yield one
        for _ in range(20):
            await asyncio.sleep(0)
        if release:
            self.go.set()


TURN = [
    chunk(begin(0, "look", '{"what": "a"}')),
    chunk(begin(1, "write", '{"what": "b"}')),
    chunk(begin(2, "look", '{"what": "c"}')),
    END,
]


def run(bench: Bench, chunks: list[Any], tools: Any = None, **options: Any) -> Any:
    async def go() -> Any:
        box = Toolset([bench.look, bench.write], **options) if tools is None else tools
        reader = openai_chat.StreamReader(box)
        return await reader.run(Context(), bench.stream(chunks))

    return asyncio.run(go())


def test_a_read_only_call_starts_while_others_are_written():
    """Reading calls begin with their last character, the writing one waits for the end of the turn."""
    bench = Bench()
    results = run(bench, TURN)

    assert [result.value for result in results] == ["a", "b", "c"]
    assert [result.call_id for result in results] == ["c0", "c1", "c2"]
    assert bench.log[:6] == ["chunk", "begin a", "chunk", "chunk", "begin c", "chunk"]
    assert bench.log.index("write b") > bench.log.index("begin c")


@pytest.mark.parametrize(
    "other", [ToolSettings(is_exclusive=True), ToolSettings(takes_control=True)]
)
def test_nothing_starts_early_beside_a_tool_that_wants_to_be_alone(other):
    """An enabled tool that is exclusive or takes control keeps every call waiting for the end of the turn."""
    bench = Bench()
    alone = FunctionTool(lambda: "x", name="alone", settings=other)
    run(bench, TURN, Toolset([bench.look, bench.write, alone]))

    assert bench.log[:4] == ["chunk"] * 4


def test_a_call_that_may_ask_for_approval_waits():
    """A read-only tool with an approval does not begin before the end of the turn."""
    bench = Bench()
    bench.look.add_input_guardrails([guardrails.require_approval()])
    results = run(bench, TURN)

    assert bench.log[:4] == ["chunk"] * 4
    types = [result.error and result.error.type for result in results]
    assert types == ["ApprovalRequired", None, "ApprovalRequired"]


def test_early_calls_and_the_rest_share_one_limit():
    """With a limit of one, nothing begins while an early call runs."""
    bench = Bench()
    run(bench, TURN, max_concurrency=1)
    order = [line for line in bench.log if line != "chunk"]

    assert order == ["begin a", "end a", "begin c", "end c", "write b"]


def test_text_behind_the_object_cancels_the_call():
    """A call that began is cancelled when its arguments go on, and its answer is the refusal."""
    bench = Bench()
    log = EventLog()

    async def go() -> Any:
        context: Context[Any] = Context()
        context.subscribe(log)
        reader = openai_chat.StreamReader([bench.look, bench.write])
        chunks = [TURN[0], chunk(more(0, " ")), chunk(more(0, "x")), END]
        return await reader.run(context, bench.stream(chunks))

    [result] = asyncio.run(go())

    assert [line for line in bench.log if line != "chunk"] == ["begin a", "cancel a"]
    assert result.error.type == "ArgumentError"
    assert log.kinds == ["tool:pre", "tool:error"]


def test_a_stream_that_breaks_off_cancels_and_says_what_ran():
    """The error of the stream is the cause; what ran keeps its result, the others say what became of them."""
    bench = Bench()

    async def quick(what: str) -> str:
        return what

    async def go() -> None:
        seen = FunctionTool(quick, settings=ToolSettings(read_only=True))
        reader = openai_chat.StreamReader([bench.look, bench.write, seen])
        extra = chunk(begin(3, "quick", '{"what": "d"}'))
        bench_chunks = [*TURN[:3], extra, chunk(begin(4, "write", '{"wh'))]

        async def broken() -> Any:
            async for one in bench.stream(bench_chunks, release=False):
                yield one
            raise ConnectionError("gone")

        with pytest.raises(StreamBroken, match="ConnectionError: gone") as stopped:
            await reader.run(Context(), broken())
        assert isinstance(stopped.value.__cause__, ConnectionError)
        texts = [result.text for result in stopped.value.results]
        assert "cancelled while it ran" in texts[0]
        assert "never ran" in texts[1]
        assert texts[3] == "d"
        assert "never ran" in texts[4]

    asyncio.run(go())
    assert {"cancel a", "cancel c"} <= set(bench.log)
    assert "write b" not in bench.log


def test_calls_run_while_a_host_feeds():
    """A host that shows the events itself feeds the reader, and runs the calls beside that."""
    bench = Bench()

    async def go() -> Any:
        reader = openai_chat.StreamReader([bench.look, bench.write])
        running = asyncio.ensure_future(reader.run())
        ready = 0
        async for one in bench.stream(TURN):
            ready += sum(isinstance(event, CallReady) for event in reader.feed(one))
        assert ready == 3
        return await running

    assert [result.value for result in asyncio.run(go())] == ["a", "b", "c"]
    assert bench.log[1] == "begin a"


def test_closing_a_reader_ends_its_run():
    """`close(error)` by whoever feeds stops a run that waits, also when nothing was fed."""

    async def go() -> None:
        bench = Bench()
        for feeds in (False, True):
            reader = openai_chat.StreamReader([bench.look, bench.write])
            running = asyncio.ensure_future(reader.run())
            if feeds:
                reader.feed(TURN[0])
            for _ in range(10):
                await asyncio.sleep(0)
            reader.close(TimeoutError("too slow"))
            with pytest.raises(StreamBroken, match="too slow") as stopped:
                await running
            assert len(stopped.value.results) == feeds
        assert bench.log == ["begin a", "cancel a"]

    asyncio.run(go())


def test_a_chunk_after_the_close_of_a_reader_is_left_out():
    """A run that reads the chunks itself ends as broken, and says which calls ran."""
    bench = Bench()
    reader = openai_chat.StreamReader([bench.look, bench.write])

    async def chunks() -> Any:
        yield TURN[0]
        reader.close(TimeoutError("too slow"))
        yield TURN[1]

    with pytest.raises(StreamBroken, match="too slow") as stopped:
        asyncio.run(reader.run(Context(), chunks()))

    assert len(stopped.value.results) == 1


def test_a_tripwire_of_an_early_call_stops_the_run():
    """Nothing else begins after it, and the results of calls that ended go along."""

    async def look(what: str) -> str:
        if what == "c":
            raise Tripwire("stop")
        return what

    bench = Bench()
    tripping = FunctionTool(look, settings=ToolSettings(read_only=True))

    def stop(call: Any, context: Any) -> None:
        if call.arguments["what"] == "c":
            raise Tripwire("stop")

    tripping.add_input_guardrails([stop])
    with pytest.raises(Tripwire) as stopped:
        run(bench, TURN, Toolset([tripping, bench.write]))

    assert [result.value for result in stopped.value.results] == ["a"]
    assert "write b" not in bench.log


def test_a_run_that_is_cancelled_cancels_its_calls():
    """Cancelling the task that runs cancels what began, and waits for it."""
    bench = Bench()

    async def go() -> None:
        reader = openai_chat.StreamReader([bench.look, bench.write])
        running = asyncio.ensure_future(reader.run(None, bench.stream(TURN[:1], release=False)))
        while "begin a" not in bench.log:
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert bench.log[-1] == "cancel a"

    asyncio.run(go())


def test_a_plain_iterable_does_not_hold_the_loop():
    """Chunks of a sync client are waited for in a thread, so an early call runs meanwhile."""
    done = threading.Event()

    async def look(what: str) -> str:
        done.set()
        return what

    def chunks() -> Any:
        yield TURN[0]
        assert done.wait(5)  # The early call has run before the next chunk is here.
        yield END

    tool = FunctionTool(look, settings=ToolSettings(read_only=True))

    [result] = asyncio.run(openai_chat.StreamReader(tool).run(None, chunks()))
    assert result.value == "a"


def test_misuse_of_run_is_an_error():
    """Without tools, with a context that is none, with no iterable, or for a second time, it says so."""

    async def go() -> None:
        with pytest.raises(TypeError, match="needs tools"):
            await openai_chat.StreamReader().run()
        reader = openai_chat.StreamReader(toolset())
        with pytest.raises(TypeError, match="a Context or None, not dict"):
            await reader.run({})  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="an iterable, not int"):
            await reader.run(None, 7)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="expected a ChatCompletionChunk"):
            await reader.run(None, ["text"])
        with pytest.raises(ValueError, match="already"):
            await reader.run()
        with pytest.raises(TypeError, match="expected a tool, an iterable of tools or a Toolset"):
            openai_chat.StreamReader("search")  # type: ignore[arg-type]

    asyncio.run(go())


DIALECTS = [openai, openai_chat, anthropic, gemini, bedrock, mistral, xai, mcp, deepseek]


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda module: module.__name__)
@pytest.mark.parametrize("given", ["hello", b"x", None, 7, {}, {"a": 1}, object()])
def test_calls_of_what_is_no_message_is_a_type_error(dialect, given):
    """Whatever is no message of the provider is a TypeError that names what was expected."""
    with pytest.raises(TypeError, match="^expected "):
        dialect.calls(given)


MESSAGES: dict[str, Any] = {
    "openai": {"output": [{"type": "message", "content": []}]},
    "openai_chat": {"choices": [{"message": {"role": "assistant", "content": "hi"}}]},
    "anthropic": {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "text", "text": "x"}],
    },
    "gemini": {"candidates": [{"content": {"role": "model", "parts": [{"text": "x"}]}}]},
    "bedrock": {"output": {"message": {"role": "assistant", "content": [{"text": "x"}]}}},
    "mcp": {"method": "tools/call", "params": {"name": "ping", "arguments": {}}},
}
SHARED = {("mistral", "openai_chat"), ("xai", "openai_chat"), ("xai", "openai")}


@pytest.mark.parametrize("dialect", DIALECTS[:-1], ids=lambda m: m.__name__.rpartition(".")[2])
@pytest.mark.parametrize("given", MESSAGES)
def test_calls_of_another_providers_message_is_a_type_error(dialect, given):
    """A message of another provider is refused, one of its own that holds no call is an empty list."""
    name = dialect.__name__.rpartition(".")[2]
    if name == given or (name, given) in SHARED:
        assert isinstance(dialect.calls(MESSAGES[given]), list)
        return
    with pytest.raises(TypeError, match="^expected "):
        dialect.calls(MESSAGES[given])


@pytest.mark.parametrize("name", READERS)
def test_calls_of_a_chunk_is_a_type_error(name):
    """The first chunk of a stream is no message, and `calls` does not take it for an empty one."""
    dialect, recorded = READERS[name]
    if name == "gemini":
        return  # Its chunks are responses, as whole ones are.
    with pytest.raises(TypeError, match="^expected "):
        dialect.calls(recorded()[0])


def test_definitions_take_some_tools():
    """A tool, an iterable of tools and a Toolset give the same definitions; anything else is a TypeError."""
    tools = toolset()
    for dialect in DIALECTS:
        for some in (tools.values(), [*tools.values()]):
            assert dialect.definitions(some) == dialect.definitions(tools)
        assert dialect.definitions(tools["ping"]) == [dialect.definition(tools["ping"])]
        for wrong in ("ping", 7):
            with pytest.raises(TypeError, match="expected a tool, an iterable of tools"):
                dialect.definitions(wrong)
        for wrong in ([len], [tools], [*tools]):
            with pytest.raises(TypeError, match=r"a tool here .* \*tools.values\(\)\), not"):
                dialect.definitions(wrong)
            with pytest.raises(TypeError, match="expected a tool here"):
                dialect.losses(*wrong)


def vertex(*pieces, more=False):
    """A chunk of Gemini on Vertex AI with pieces of a call's arguments."""
    call = {"name": "search", "partialArgs": [*pieces], "willContinue": more}
    return {"candidates": [{"content": {"parts": [{"functionCall": call}]}}]}


@pytest.mark.parametrize(
    "path",
    ["$" + "['" * 50_000, ""],
    ids=["long", "none"],
)
def test_what_is_no_path_is_an_error(path):
    """Quotes without end took minutes to read."""
    with pytest.raises(ValueError, match="a piece of the arguments"):
        gemini.StreamReader().feed(vertex({"jsonPath": path, "stringValue": "a"}))


@pytest.mark.parametrize(
    "path",
    ["$.a[100000000]", "$" + ".a" * 101, "$.x.y", "$[0]"],
    ids=["far", "deep", "another kind", "a list"],
)
def test_a_call_is_refused_if_a_path_leads_nowhere(path):
    """An index of a hundred million took gigabytes."""
    reader = gemini.StreamReader()
    text = {"jsonPath": "$.x", "stringValue": "a"}
    events = reader.feed(vertex(text, {"jsonPath": path, "stringValue": "b"}))

    [error] = [event.error for event in events if isinstance(event, CallRefused)]
    assert isinstance(error, ArgumentError)


def test_the_pieces_of_several_texts_are_joined():
    """Each text keeps its place; a number takes the place of a text."""
    reader = gemini.StreamReader()
    pieces = [("$.a", "x"), ("$.b[1]", "y"), ("$.a", "z"), ("$.b[1]", "!"), ("$.c", "gone")]
    texts = [{"jsonPath": path, "stringValue": text} for path, text in pieces]
    reader.feed(vertex(*texts, {"jsonPath": "$.c", "numberValue": 2.0}))

    [call] = reader.calls()
    assert call.arguments == '{"a": "xz", "b": [null, "y!"], "c": 2}'


def test_arguments_that_are_no_text_need_a_name():
    """Only a call whose arguments are text may get its name later."""
    entry = {"index": 0, "id": "a", "function": {"arguments": {"x": 1}}}
    with pytest.raises(ValueError, match="did not start"):
        openai_chat.StreamReader().feed(
            {"choices": [{"index": 0, "delta": {"tool_calls": [entry]}}]}
        )
