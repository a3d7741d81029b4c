"""A server that breaks the protocol wherever a test asks: `mcp_hostile.py [stdio | http PORT]`."""

import gzip
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event

ESCAPES = "\x1b]0;owned\x07\x1b[31mred\u202egnp.exe\u2069"
FORM = {
    "message": f"Proceed? {ESCAPES}",
    "requestedSchema": {
        "type": "object",
        "properties": {"name": {"type": "string", "title": f"Name {ESCAPES}"}},
    },
}
GOOD = {"type": "object", "properties": {}}
NAMES = (
    "surrogate",
    "null",
    "digits",
    "bytes",
    "noise",
    "long",
    "last",
    "values",
    "items",
    "wrong",
    "no_message",
    "bomb",
    "escapes",
    "escaping_error",
    "form",
    "progress",
    "reports",
    "beyond_floats",
    "version",
    "flood",
    "fine",
    "waits",
    "gone",
    "garbage",
    "cut",
    "gateway",
)
DEFINITIONS = [
    {"name": "schemaless", "inputSchema": {}},
    {"name": 7, "inputSchema": GOOD},
    "no definition",
    {"name": "odd_hints", "inputSchema": GOOD, "annotations": 3},
    {"name": "nan", "inputSchema": {**GOOD, "default": float("nan")}},
    *({"name": name, "inputSchema": GOOD} for name in NAMES),
]


def content(text):
    return {"content": [{"type": "text", "text": text}]}


def answer(id, result):
    return json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode()


def result_of(method, params):
    """Return the answer to what is no call."""
    if method == "initialize":
        return {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "hostile", "version": "1"},
        }
    return {"tools": DEFINITIONS} if method == "tools/list" else {}


def called(id, name):
    """Return the bytes that answer a call."""
    start = b'{"jsonrpc":"2.0","id":%d,"result":' % id
    return {
        "surrogate": start + b'{"content":[{"type":"text","text":"\\ud800"}]}}',
        "null": start + b"null}",
        "version": b'{"jsonrpc":"1.0","id":%d,"result":{}}' % id,
        "digits": start + b'{"content":[],"structuredContent":{"n":' + b"9" * 5_000 + b"}}}",
        "bytes": b"\xff\xfe noise\n" + start + b'{"content":[{"type":"text","text":"\xff!"}]}}',
        "noise": b'starting\n{"id": 1, "msg": "log"}\n' + answer(id, content("ok")),
        "long": start + b'{"content":[{"type":"text","text":"' + b"x" * 20_000_000 + b'"}]}}',
        # The SDK for TypeScript writes the id last.
        "last": b'{"result":{"content":[],"structuredContent":{"id":77,"n":"'
        + b"x" * 20_000_000
        + b'"}},"jsonrpc":"2.0","id":%d}' % id,
        "values": start + b'{"content":[],"structuredContent":{"n":[0' + b",0" * 600_000 + b"]}}}",
        "items": answer(id, {"content": content("x")["content"] * 20_000}),
        "wrong": answer(id, {"content": [0] * 20_000}),
        "no_message": start + b"[{}" + b",{}" * 200 + b"]}",
        "escapes": answer(id, content(ESCAPES)),
        "escaping_error": answer(id, {**content(ESCAPES), "isError": True}),
    }.get(name, answer(id, content("ok")))


def talk():
    """Speak on standard input and output."""
    out, pending = sys.stdout.buffer, 0
    for line in sys.stdin.buffer:
        said = json.loads(line)
        if "method" not in said:  # The answer to the form.
            out.write(answer(pending, content(f"form {said.get('result', {}).get('action')}")))
        elif "id" in said and said["method"] == "tools/call":
            name = said["params"]["name"]
            if name == "form":
                pending = said["id"]
                ask = {"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": FORM}
                out.write(json.dumps(ask).encode())
            else:
                for number in range(1_000 if name == "flood" else 0):
                    ask = {"id": f"q{number}", "method": "elicitation/create", "params": FORM}
                    out.write(json.dumps({"jsonrpc": "2.0", **ask}).encode() + b"\n")
                for number in range(1_000 if name == "reports" else 0):
                    token = said["params"]["_meta"]["progressToken"]
                    params = {"progressToken": token, "progress": number, "message": "x" * 5_000}
                    note = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
                    out.write(json.dumps(note).encode() + b"\n")
                for field in ("progress", "total") if name == "beyond_floats" else ():
                    token = said["params"]["_meta"]["progressToken"]
                    params = {"progressToken": token, "progress": 1, field: 10**400}
                    note = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
                    out.write(json.dumps(note).encode() + b"\n")
                if name == "progress":
                    token = said["params"]["_meta"]["progressToken"]
                    params = {"progressToken": token, "progress": 1, "message": "[/nope] [red"}
                    note = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
                    out.write(json.dumps(note).encode() + b"\n")
                    out.flush()
                    import time

                    time.sleep(1)
                out.write(called(said["id"], name))
        elif "id" in said:
            out.write(answer(said["id"], result_of(said["method"], said.get("params"))))
        out.write(b"\n")
        out.flush()


class Handler(BaseHTTPRequestHandler):
    """Speak over HTTP."""

    def do_POST(self):
        said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.server.wants and self.headers.get("Authorization") != self.server.wants:
            self.send_response(self.server.refusal)
            self.end_headers()
            return
        if "id" not in said:
            self.send_response(202)
            self.end_headers()
            return
        name = said["params"]["name"] if said["method"] == "tools/call" else None
        if name == "waits":
            self.server.waits.set()
            self.server.goes_on.wait(30)
        if name == "gone":
            return
        if name == "garbage":
            self.wfile.write(b"SSH-2.0-other\r\n\r\n")
            return
        if name == "gateway":
            self.send_response(502)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<h1>Bad gateway</h1>")
            return
        self.send_response(200)
        if name == "cut":  # Half of the answer follows.
            self.send_header("Content-Length", "1000000")
        streams = self.server.streams and name is not None
        self.send_header("Content-Type", "text/event-stream" if streams else "application/json")
        if name == "bomb":
            # A hundred megabytes in a hundred kilobytes.
            self.send_header("Content-Encoding", "gzip")
            self.end_headers()
            self.wfile.write(gzip.compress(b" " * 100_000_000))
            return
        self.end_headers()
        if name is None:
            self.wfile.write(answer(said["id"], result_of(said["method"], said.get("params"))))
        else:
            body = called(said["id"], name)
            body = b'event: message\nid: "\ndata: %s\n\n' % body if streams else body
            self.wfile.write(body[: len(body) // 2] if name == "cut" else body)

    def do_GET(self):
        self.send_response(405)
        self.end_headers()

    do_DELETE = do_GET

    def log_message(self, *words):
        pass


def listen(port=0, wants=None, streams=False):
    """Return a server over HTTP, which answers only requests with this Authorization.

    With `streams` it answers calls with events.
    """
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.wants, server.refusal, server.streams = wants, 401, streams
    server.waits, server.goes_on = Event(), Event()
    return server


if __name__ == "__main__":
    talk()
