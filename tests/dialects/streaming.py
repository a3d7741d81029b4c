"""A server on loopback that streams recorded bytes in any pieces, and what is recorded of each provider.

Every conversation says the same: some text, two calls whose arguments are written in turn where the provider can do that, and
beside them whatever else the provider streams: thinking, calls that it runs itself, empty pieces.
"""

import json
import struct
import threading
from binascii import crc32
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]
SAID = "Let me see. é€😀"
CALLS = [
    ("search", {"query": "cats é€😀", "limit": 2}, "c1"),
    ("ping", {}, "c2"),
    ("search", {"query": 'a "b" \\'}, "c3"),
]


def pieces(body: bytes, cut: int | None) -> Iterator[bytes]:
    """The body in two pieces, cut at a place, or without one byte by byte."""
    if cut is None:
        yield from (body[at : at + 1] for at in range(len(body)))
    else:
        yield from filter(None, (body[:cut], body[cut:]))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 0
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        kind, body, cut = self.server.recorded  # type: ignore[attr-defined]
        self.server.asked.append(self.rfile.read(int(self.headers["Content-Length"])))  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in pieces(body, cut):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_: Any) -> None:
        """Keep the output of the tests clean."""


@contextmanager
def streaming(kind: str, body: bytes, cut: int | None = None) -> Iterator[Any]:
    """Serve a recorded body on a free port; `server.url` is where, and `server.recorded` may be changed."""
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.recorded, server.asked = (kind, body, cut), []
    server.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def sse(events: list[Json], named: bool = False, done: bool = False) -> bytes:
    """Server-sent events."""
    text = "".join(
        (f"event: {event['type']}\n" if named else "")
        + f"data: {json.dumps(event, ensure_ascii=False)}\n\n"
        for event in events
    )
    return (text + ("data: [DONE]\n\n" if done else "")).encode()


def parts(text: str, size: int = 5) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def arguments(call: int) -> str:
    return json.dumps(CALLS[call][1], ensure_ascii=bool(call)) if CALLS[call][1] else ""


def chat(reason: str = "tool_calls") -> list[Json]:
    """Chat Completions: calls 0 and 2 are written in turn, and a chunk with the usage comes last."""
    deltas: list[Json] = [{"role": "assistant", "content": "", "refusal": None}]
    deltas += [{"content": piece} for piece in parts(SAID)]
    for index, (name, _, id) in enumerate(CALLS):
        function = {"name": name, "arguments": ""}
        deltas.append(
            {"tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]}
        )
    one, three = parts(arguments(0), 1), parts(arguments(2), 7)
    for place in range(max(len(one), len(three))):
        both = [(0, one[place : place + 1]), (2, three[place : place + 1])]
        deltas.append(
            {"tool_calls": [{"index": i, "function": {"arguments": p[0]}} for i, p in both if p]}
        )
    deltas.append({})
    base = {"id": "chat_1", "object": "chat.completion.chunk", "created": 0, "model": "m"}
    chunks = [
        {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        for delta in deltas
    ]
    end = {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return [*chunks, end, {**base, "choices": [], "usage": usage}]


def responses() -> list[Json]:
    """The Responses API: reasoning, a search at the provider, and calls written in turn."""
    items: list[Json] = [
        {"type": "reasoning", "id": "r1", "summary": []},
        {
            "type": "web_search_call",
            "id": "w1",
            "status": "completed",
            "action": {"type": "search", "query": "x"},
        },
        {"type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": []},
    ]
    items += [
        {
            "type": "function_call",
            "id": f"f_{id}",
            "call_id": id,
            "name": name,
            "arguments": arguments(i) or "{}",
            "status": "completed",
        }
        for i, (name, _, id) in enumerate(CALLS)
    ]
    whole = {
        "id": "resp_1",
        "object": "response",
        "created_at": 0,
        "model": "m",
        "status": "completed",
        "output": items,
        "tools": [],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
    }
    begun = {**whole, "status": "in_progress", "output": []}
    events: list[Json] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
    ]
    for index, item in enumerate(items):
        empty = {"arguments": ""} if item["type"] == "function_call" else {}
        events.append(
            {
                "type": "response.output_item.added",
                "output_index": index,
                "item": {**item, **empty},
            }
        )
    place = {"output_index": 2, "item_id": "m1", "content_index": 0}
    part = {"type": "output_text", "text": "", "annotations": []}
    events.append({"type": "response.content_part.added", **place, "part": part})
    events += [
        {"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []}
        for piece in parts(SAID)
    ]
    texts = [parts(item["arguments"], 3) for item in items[3:]]
    for turn in range(max(map(len, texts))):
        for index, pieces_ in enumerate(texts, 3):
            if turn < len(pieces_):
                at = {"output_index": index, "item_id": items[index]["id"]}
                delta = {"delta": pieces_[turn]}
                events.append({"type": "response.function_call_arguments.delta", **at, **delta})
    for index, item in enumerate(items):
        if item["type"] == "function_call":
            at = {"output_index": index, "item_id": item["id"], "name": item["name"]}
            done = {"type": "response.function_call_arguments.done", **at}
            events.append({**done, "arguments": item["arguments"]})
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": "response.completed", "response": whole})
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def messages(reason: str = "tool_use") -> list[Json]:
    """The Messages API: thinking, a search at the provider, text and calls."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    head = {"id": "m1", "type": "message", "role": "assistant", "model": "m", "content": []}
    start = {**head, "stop_reason": None, "stop_sequence": None, "usage": usage}
    blocks: list[tuple[Json, list[Json]]] = [
        (
            {"type": "thinking", "thinking": "", "signature": ""},
            [
                {"type": "thinking_delta", "thinking": "hm"},
                {"type": "signature_delta", "signature": "s"},
            ],
        ),
        (
            {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
            [{"type": "input_json_delta", "partial_json": '{"query": "x"}'}],
        ),
        (
            {"type": "text", "text": ""},
            [{"type": "text_delta", "text": piece} for piece in parts(SAID)],
        ),
    ]
    for index, (name, _, id) in enumerate(CALLS):
        deltas = ["", *parts(arguments(index), 4)]
        blocks.append(
            (
                {"type": "tool_use", "id": id, "name": name, "input": {}},
                [{"type": "input_json_delta", "partial_json": piece} for piece in deltas],
            )
        )
    events: list[Json] = [{"type": "message_start", "message": start}, {"type": "ping"}]
    for index, (block, deltas_) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [
            {"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas_
        ]
        events.append({"type": "content_block_stop", "index": index})
    ended = {"stop_reason": reason, "stop_sequence": None}
    return [
        *events,
        {"type": "message_delta", "delta": ended, "usage": usage},
        {"type": "message_stop"},
    ]


def generated() -> list[Json]:
    """Gemini: a thought, text, code that ran there, and whole calls, two of them in one chunk."""
    uses = [{"functionCall": {"id": id, "name": n, "args": a}} for n, a, id in CALLS]
    held: list[list[Json]] = [
        [{"text": "hm", "thought": True}],
        *([{"text": piece}] for piece in parts(SAID)),
        [{"executableCode": {"language": "PYTHON", "code": "1"}}],
        [uses[0]],
        uses[1:],
        [{"text": ""}],
    ]
    chunks: list[Json] = [
        {"responseId": "g1", "candidates": [{"index": 0, "content": {"role": "model", "parts": p}}]}
        for p in held
    ]
    chunks[-1]["candidates"][0]["finishReason"] = "STOP"
    chunks[-1]["usageMetadata"] = {"totalTokenCount": 3}
    return chunks


def converse() -> list[Json]:
    """Bedrock: reasoning, text, a call at the provider, and calls."""
    events: list[Json] = [{"messageStart": {"role": "assistant"}}]
    thought = {"reasoningContent": {"text": "hm"}}
    events += [
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": thought}},
        {"contentBlockStop": {"contentBlockIndex": 0}},
    ]
    events += [
        {"contentBlockDelta": {"contentBlockIndex": 1, "delta": {"text": p}}} for p in parts(SAID)
    ]
    events.append({"contentBlockStop": {"contentBlockIndex": 1}})
    uses = [({"type": "server_tool_use"}, "nova_grounding", "s1", '{"a": 1}')]
    uses += [({}, name, id, arguments(i)) for i, (name, _, id) in enumerate(CALLS)]  # type: ignore[list-item]
    for index, (more, name, id, text) in enumerate(uses, 2):
        use = {"toolUse": {"toolUseId": id, "name": name, **more}}
        events.append({"contentBlockStart": {"contentBlockIndex": index, "start": use}})
        events += [
            {"contentBlockDelta": {"contentBlockIndex": index, "delta": {"toolUse": {"input": p}}}}
            for p in parts(text, 6)
        ]
        events.append({"contentBlockStop": {"contentBlockIndex": index}})
    metadata = {
        "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2},
        "metrics": {"latencyMs": 1},
    }
    return [*events, {"messageStop": {"stopReason": "tool_use"}}, {"metadata": metadata}]


def event_stream(events: list[Json]) -> bytes:
    """The binary framing of AWS: lengths, headers and payload, with checksums."""
    out = b""
    for event in events:
        [(name, body)] = event.items()
        is_error = name.endswith("Exception")
        kind = ":exception-type" if is_error else ":event-type"
        about = {":message-type": "exception" if is_error else "event", kind: name}
        headers = b"".join(
            struct.pack("!B", len(k))
            + k.encode()
            + struct.pack("!BH", 7, len(v.encode()))
            + v.encode()
            for k, v in {**about, ":content-type": "application/json"}.items()
        )
        payload = json.dumps(body).encode()
        prelude = struct.pack("!II", len(headers) + len(payload) + 16, len(headers))
        prelude += struct.pack("!I", crc32(prelude))
        message = prelude + headers + payload
        out += message + struct.pack("!I", crc32(message))
    return out


def mistral() -> list[Json]:
    """Mistral: thinking as a part of the content, and whole calls."""
    thinking = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]
    deltas: list[Json] = [{"role": "assistant", "content": ""}, {"content": thinking}]
    deltas += [{"content": piece} for piece in parts(SAID)]
    entries = [
        {"id": id, "index": i, "function": {"name": name, "arguments": arguments(i) or "{}"}}
        for i, (name, _, id) in enumerate(CALLS)
    ]
    deltas += [{"tool_calls": entries[:1]}, {"tool_calls": entries[1:]}]
    base = {"id": "mi_1", "object": "chat.completion.chunk", "created": 0, "model": "m"}
    ends = [None] * (len(deltas) - 1) + ["tool_calls"]
    return [
        {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": end}]}
        for delta, end in zip(deltas, ends, strict=True)
    ]


def conversation() -> list[Json]:
    """Mistral's conversations: a tool that ran there, text, and a call in pieces."""
    begun = {"type": "conversation.response.started", "conversation_id": "v1"}
    ran = {"type": "tool.execution.started", "id": "t1", "name": "web_search", "arguments": "{}"}
    events: list[Json] = [begun, ran]
    events += [
        {"type": "message.output.delta", "id": "o1", "role": "assistant", "content": piece}
        for piece in parts(SAID)
    ]
    for index, (name, _, id) in enumerate(CALLS):
        about = {"type": "function.call.delta", "id": f"e{id}", "name": name, "tool_call_id": id}
        events += [{**about, "arguments": piece} for piece in parts(arguments(index) or "{}", 6)]
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return [*events, {"type": "conversation.response.done", "usage": usage}]
