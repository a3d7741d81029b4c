"""A server on loopback that speaks OpenAI's and Anthropic's protocols, and refuses what they would refuse.

It answers the first request of a conversation with calls of the tools it was sent, and the one that brings their results with text.
Gemini's is the fourth; there nothing but the names and ids of the results is checked.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.dialects import provider_rules

Calls = list[tuple[str, str, dict[str, Any]]]  # id, name, arguments
Say = Callable[[list[Any]], str]  # what the model says, of the results that it was sent


class Refused(Exception):
    """What a provider would answer with 400."""


@dataclass
class Loopback:
    """The calls that the server makes, and the requests that it got."""

    url: str
    calls: Calls
    recorded: tuple[str, bytes] | None
    say: Say
    requests: list[dict[str, Any]] = field(default_factory=list)


@contextmanager
def serving(
    calls: Calls,
    recorded: tuple[str, bytes] | None = None,
    say: Say = lambda results: "done",
) -> Iterator[Loopback]:
    """Serve on a free port of loopback; every conversation is asked to make `calls`, or gets a `recorded` content type and body."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    state = Loopback(f"http://127.0.0.1:{server.server_address[1]}", calls, recorded, say)
    server.state = state  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        state: Loopback = self.server.state  # type: ignore[attr-defined]
        state.requests.append(body)
        if state.recorded is not None:
            return self._send(200, *state.recorded)
        try:
            if "enerateContent" in self.path:
                return self._generate(body, state)
            answer = {
                "/v1/responses": responses,
                "/v1/chat/completions": chat,
                "/v1/messages": messages,
            }[self.path]
            whole, events = answer(body, state.calls, state.say)
        except Refused as error:
            text = json.dumps(
                {"type": "error", "error": {"type": "invalid_request_error", "message": str(error)}}
            )
            return self._send(400, "application/json", text.encode())
        if not body.get("stream"):
            return self._send(200, "application/json", json.dumps(whole).encode())
        named = [f"event: {e['type']}\n" if "type" in e else "" for e in events]
        text = "".join(
            f"{name}data: {json.dumps(event)}\n\n"
            for name, event in zip(named, events, strict=True)
        )
        text += "data: [DONE]\n\n" if self.path.endswith("completions") else ""
        return self._send(200, "text/event-stream", text.encode())

    def _generate(self, body: dict, state: Loopback) -> None:
        whole, chunks = generate(body, state.calls, state.say)
        if "streamGenerateContent" in self.path:
            return self._send(200, *server_sent(chunks))
        return self._send(200, "application/json", json.dumps(whole).encode())

    def _send(self, status: int, kind: str, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Keep the output of the tests clean."""


def server_sent(events: list[dict]) -> tuple[str, bytes]:
    """A stream of events as a recorded answer."""
    return "text/event-stream", "".join(
        f"data: {json.dumps(event)}\n\n" for event in events
    ).encode()


def check(problems: list[str]) -> None:
    if problems:
        raise Refused("; ".join(problems))


def answered(wanted: list[str], given: list[str]) -> None:
    """Every call has one result, and every result its call."""
    if sorted(wanted) != sorted(given):
        raise Refused(f"calls {wanted} have the results {given}")


def halves(text: str) -> list[str]:
    """A text as a stream brings it: in pieces."""
    return [text[: len(text) // 2], text[len(text) // 2 :]]


def responses(body: dict, calls: Calls, say: Say) -> tuple[dict, list[dict]]:
    """POST /v1/responses."""
    for tool in body.get("tools", []):
        check([] if tool.get("type") == "function" else [f"tool type {tool.get('type')}"])
        check(provider_rules.openai(tool))
    results = [
        item
        for item in body["input"]
        if isinstance(item, dict) and item.get("type") == "function_call_output"
    ]
    for item in results:
        check(
            [
                f"unknown field {key}"
                for key in item.keys() - {"type", "call_id", "output", "id", "status"}
            ]
        )
        parts = item["output"] if isinstance(item["output"], list) else []
        check(
            [
                f"part {part['type']}"
                for part in parts
                if part["type"] not in ("input_text", "input_image", "input_file")
            ]
        )
        check(
            [
                "an image without a URL"
                for part in parts
                if part["type"] == "input_image" and not part.get("image_url")
            ]
        )
    if results:
        made = [
            item["call_id"]
            for item in body["input"]
            if isinstance(item, dict) and item.get("type") == "function_call"
        ]
        answered(made, [item["call_id"] for item in results])
        said = say([item["output"] for item in results])
        text = {"type": "output_text", "text": said, "annotations": []}
        output = [
            {
                "type": "message",
                "id": "m1",
                "role": "assistant",
                "status": "completed",
                "content": [text],
            }
        ]
    else:
        nothing = "{}" if any(tool["strict"] for tool in body.get("tools", [])) else ""
        output = [
            {"type": "function_call", "id": f"fc_{id}", "call_id": id, "name": name, "arguments": json.dumps(arguments) if arguments else nothing, "status": "completed"}
            for id, name, arguments in calls
        ]  # fmt: skip
    whole = {
        "id": "resp_1", "object": "response", "created_at": 0, "model": body["model"], "status": "completed", "output": output,
        "tools": body.get("tools", []), "tool_choice": "auto", "parallel_tool_calls": True,
    }  # fmt: skip
    events: list[dict] = [
        {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}}
    ]
    for index, item in enumerate(output):
        place = {"output_index": index, "item_id": item["id"]}
        events.append(
            {
                "type": "response.output_item.added",
                "output_index": index,
                "item": {**item, **({"arguments": ""} if "arguments" in item else {"content": []})},
            }
        )
        for number, part in enumerate(item.get("content", ())):
            at = {**place, "content_index": number}
            empty = {**part, "text": ""}
            events.append({"type": "response.content_part.added", **at, "part": empty})
            events += [
                {"type": "response.output_text.delta", **at, "delta": piece, "logprobs": []}
                for piece in halves(part["text"])
            ]
            events.append({"type": "response.content_part.done", **at, "part": part})
        if "arguments" not in item:
            done = {"type": "response.output_item.done", "output_index": index, "item": item}
            events.append(done)
            continue
        pieces = halves(item["arguments"])
        events += [
            {"type": "response.function_call_arguments.delta", **place, "delta": piece}
            for piece in pieces
            if piece
        ]
        events.append(
            {
                "type": "response.function_call_arguments.done",
                **place,
                "name": item.get("name"),
                "arguments": item.get("arguments", ""),
            }
        )
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": "response.completed", "response": whole})
    return whole, [{**event, "sequence_number": number} for number, event in enumerate(events)]


def chat(body: dict, calls: Calls, say: Say) -> tuple[dict, list[dict]]:
    """POST /v1/chat/completions."""
    for tool in body.get("tools", []):
        check([] if tool.keys() == {"type", "function"} else [f"tool fields {sorted(tool)}"])
        check(provider_rules.openai(tool["function"]))
    results = [message for message in body["messages"] if message["role"] == "tool"]
    check(
        [
            f"content {message['content']!r}"
            for message in results
            if not isinstance(message["content"], str)
        ]
    )
    if results:
        made = [
            call["id"] for message in body["messages"] for call in message.get("tool_calls") or []
        ]
        answered(made, [message["tool_call_id"] for message in results])
        said = say([message["content"] for message in results])
        message: dict = {"role": "assistant", "content": said}
    else:
        nothing = "{}" if any(tool["function"]["strict"] for tool in body.get("tools", [])) else ""
        entries = [
            {
                "id": id,
                "type": "function",
                "function": {
                    "name": name,
                    "arguments": json.dumps(arguments) if arguments else nothing,
                },
            }
            for id, name, arguments in calls
        ]
        message = {"role": "assistant", "content": None, "tool_calls": entries}
    base = {"id": "chat_1", "created": 0, "model": body["model"]}
    reason = "stop" if results else "tool_calls"
    whole = {
        **base,
        "object": "chat.completion",
        "choices": [{"index": 0, "finish_reason": reason, "message": message}],
    }
    deltas: list[dict] = [{"role": "assistant", "content": message["content"]}]
    for index, entry in enumerate(message.get("tool_calls", [])):
        deltas.append(
            {
                "tool_calls": [
                    {**entry, "index": index, "function": {**entry["function"], "arguments": ""}}
                ]
            }
        )
        pieces = halves(entry["function"]["arguments"])
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": piece}}]} for piece in pieces
        ]
    chunk = {**base, "object": "chat.completion.chunk"}
    events = [
        {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        for delta in deltas
    ]
    return whole, [
        *events,
        {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
    ]


def messages(body: dict, calls: Calls, say: Say) -> tuple[dict, list[dict]]:
    """POST /v1/messages."""
    check(provider_rules.anthropic(body.get("tools", [])))
    blocks = [
        block
        for message in body["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
    ]
    results = [block for block in blocks if block["type"] == "tool_result"]
    for block in results:
        check(
            [
                f"unknown field {key}"
                for key in block.keys() - {"type", "tool_use_id", "content", "is_error"}
            ]
        )
        parts = block["content"] if isinstance(block["content"], list) else []
        check(
            [
                "text content blocks must be non-empty"
                for part in parts
                if part["type"] == "text" and not part["text"].strip()
            ]
        )
        kinds = ("text",) if block.get("is_error") else ("text", "image", "document")
        check([f"all content must be {kinds}" for part in parts if part["type"] not in kinds])
        check(
            ["an error without content"] if block.get("is_error") and not block["content"] else []
        )
    if results:
        answered(
            [block["id"] for block in blocks if block["type"] == "tool_use"],
            [block["tool_use_id"] for block in results],
        )
        content: list[dict] = [{"type": "text", "text": say([b["content"] for b in results])}]
    else:
        uses = [
            {"type": "tool_use", "id": id, "name": name, "input": arguments}
            for id, name, arguments in calls
        ]
        content = [{"type": "text", "text": "Let me see.\n"}, *uses]
    usage = {"input_tokens": 1, "output_tokens": 1}
    reason = "end_turn" if results else "tool_use"
    whole = {"id": "m1", "type": "message", "role": "assistant", "model": body["model"], "content": content, "stop_reason": reason, "stop_sequence": None, "usage": usage}  # fmt: skip
    events: list[dict] = [
        {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}
    ]
    for index, block in enumerate(content):
        empty = {**block, **({"text": ""} if block["type"] == "text" else {"input": {}})}
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        if block["type"] == "text":
            deltas = [{"type": "text_delta", "text": piece} for piece in halves(block["text"])]
        else:
            text = json.dumps(block["input"]) if block["input"] else ""
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in halves(text)]
        events += [
            {"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas
        ]
        events.append({"type": "content_block_stop", "index": index})
    events.append(
        {
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": None},
            "usage": usage,
        }
    )
    return whole, [*events, {"type": "message_stop"}]


def generate(body: dict, calls: Calls, say: Say) -> tuple[dict, list[dict]]:
    """POST /v1beta/models/...:generateContent, whole and as the chunks of a stream."""
    parts = [part for content in body["contents"] for part in content["parts"]]
    results = [part["functionResponse"] for part in parts if "functionResponse" in part]
    if results:
        made = [part["functionCall"] for part in parts if "functionCall" in part]
        answered([c["id"] for c in made], [r["id"] for r in results])
        answered([c["name"] for c in made], [r["name"] for r in results])
        said: list[dict] = [{"text": say([r["response"] for r in results])}]
    else:
        said = [{"functionCall": {"id": i, "name": name, "args": args}} for i, name, args in calls]

    def answer(parts: list[dict], reason: str | None) -> dict:
        end = {"finishReason": reason} if reason else {}
        candidate = {"index": 0, "content": {"role": "model", "parts": parts}, **end}
        return {"responseId": "g1", "modelVersion": "m", "candidates": [candidate]}

    return answer(said, "STOP"), [*(answer([part], None) for part in said), answer([], "STOP")]
