"""A server whose list of tools is too much: `mcp_listing.py [pages | many | large | grows]`."""

import json
import sys

GOOD = {"type": "object"}
listed = 0


def tools(kind):
    """Return one page of the list, which is another one each time."""
    if kind == "pages":
        return [{"name": f"t{listed}", "description": "d" * 10_000_000, "inputSchema": GOOD}]
    if kind == "many":
        return [{"name": f"t{n}", "inputSchema": GOOD} for n in range(5_001)]
    if kind == "large":
        parts = {f"p{n}": {"type": "string"} for n in range(50_000)}
        large = {"name": "large", "inputSchema": {"type": "object", "properties": parts}}
        return [large, {"name": "small", "inputSchema": GOOD}]
    return [{"name": f"t{listed}_{n}", "inputSchema": GOOD} for n in range(2_000)]


def write(message):
    """Send one message."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


for line in sys.stdin:
    said = json.loads(line)
    if "id" not in said:
        continue
    answer = {"tools": []}
    if said["method"] == "initialize":
        answer = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "listing", "version": "1"},
        }
    elif said["method"] == "tools/list":
        listed += 1
        answer = {"tools": tools(sys.argv[1])}
        if sys.argv[1] == "pages":
            answer["nextCursor"] = str(listed)
    write({"id": said["id"], "result": answer})
    if sys.argv[1] == "grows" and listed:
        write({"method": "notifications/tools/list_changed"})
