"""Tools for the playground's tests: one for each thing that the page shows."""

import asyncio
import struct
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Annotated, Literal

from pydantic import Base64Bytes, BaseModel, Field

from functool import (
    AgentTool,
    AudioContent,
    Context,
    FunctionTool,
    GuardrailError,
    ImageContent,
    SchemaTool,
    TextContent,
    ToolCall,
    ToolError,
    ToolResult,
    Toolset,
    ToolSettings,
)
from functool.bundled.code_mode import code_mode
from functool.guardrails import redact, require_approval

OPENED: list[str] = []


class Unit(Enum):
    DAYS = "days"
    WEEKS = "weeks"


class Card(BaseModel):
    kind: Literal["card"] = "card"
    number: str


class Bank(BaseModel):
    kind: Literal["bank"] = "bank"
    iban: str


class Item(BaseModel):
    """One line of an order."""

    name: str = Field(description="What is ordered.")
    count: int = Field(1, ge=1, le=99, description="How many.")
    sizes: list[list[int]] = []


class Node(BaseModel):
    value: int
    children: list["Node"] = []


@FunctionTool(settings=ToolSettings(tags=("shop", "orders"), read_only=True), timeout=30)
def order(
    items: list[Item],
    pay: Annotated[Card | Bank, Field(discriminator="kind")],
    day: date,
    unit: Unit = Unit.DAYS,
    note: str | None = None,
    express: bool = False,
) -> dict:
    """Price an order.

    Args:
        items: What is ordered.
        pay: How it is paid.
        day: When it is delivered.
        unit: What is counted.
        note: A word to the packer.
        express: Whether it is urgent.
    """
    names = [item.name for item in items]
    return {
        "names": names,
        "day": day.isoformat(),
        "unit": unit.value,
        "pay": pay.kind,
        "note": note,
    }


@FunctionTool(settings=ToolSettings(tags=("shop",), read_only=True))
def people(count: int = 3) -> list[dict]:
    """List people as a table.

    Args:
        count: How many.
    """
    return [{"name": f"Person {n}", "age": 20 + n, "tags": ["a", n]} for n in range(count)]


@FunctionTool
def walk(node: Node, depth: int = 1) -> int:
    """Walk a tree that refers to itself.

    Args:
        node: The root.
        depth: How deep.
    """
    return depth + len(node.children)


@FunctionTool
def sizes(file: Base64Bytes, text: bytes) -> str:
    """Count the bytes of files.

    Args:
        file: Any file.
        text: A file of text.
    """
    return f"{len(file)} {len(text)}"


def png(width: int, height: int) -> bytes:
    """A small picture."""
    rows = b"".join(b"\0" + bytes((40, 90 + 10 * (y % 12), 200)) * width for y in range(height))

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


@FunctionTool
def draw(width: int = 64) -> list:
    """Draw a picture and play a sound.

    Args:
        width: How wide.
    """
    samples = b"\x80" * 800
    wav = (
        b"RIFF"
        + struct.pack("<I", 36 + len(samples))
        + b"WAVEfmt "
        + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 8000, 1, 8)
    )
    wav += b"data" + struct.pack("<I", len(samples)) + samples
    return ["Here it is.", ImageContent(data=png(width, 40)), AudioContent(data=wav)]


def no_secrets(call: ToolCall, context: Context) -> None:
    """Refuse a secret."""
    if "secret" in str(call.arguments):
        raise GuardrailError("No secrets, please.")


@FunctionTool(input_guardrails=[no_secrets], output_guardrails=[redact([r"\d{4}"])])
def say(text: str) -> str:
    """Say a text back, without numbers of four digits.

    Args:
        text: What to say.
    """
    return f"You said {text}."


@FunctionTool(settings=ToolSettings(tags=("slow",)))
async def count(context: Context, steps: int = 5, pause: float = 0.02) -> str:
    """Count slowly, and tell how far it is.

    Args:
        steps: How many steps.
        pause: Seconds between them.
    """
    for step in range(1, steps + 1):
        context.progress(f"step {step}", step, steps)
        context.emit("counted", step=step)
        await asyncio.sleep(pause)
    context.state["count"] = context.state.get("count", 0) + 1
    return f"counted {context.state['count']} times"


@FunctionTool(
    input_guardrails=[require_approval()], settings=ToolSettings(destructive=True), timeout=60
)
def remove(path: str, force: bool = False) -> str:
    """Remove a file, once a person has agreed.

    Args:
        path: Which file.
        force: Whether to ask nothing else.
    """
    return f"removed {path}"


@FunctionTool
def who(context: Context) -> str:
    """Say whose dependencies these are."""
    return f"deps of {context.deps}"


@dataclass
class Ada:
    name: str = "Ada"


@asynccontextmanager
async def ada() -> AsyncIterator[Context]:
    """Dependencies that are opened and closed."""
    yield Context("Ada")


BAD = "<img src=x onerror=\"window.hacked='{0}'\"><script>window.hacked='{0}'</script>{{{{7*7}}}}"
HOSTILE = {
    "type": "object",
    "title": BAD.format("title"),
    "properties": {
        BAD.format("name"): {
            "type": "string",
            "title": BAD.format("title"),
            "description": BAD.format("told"),
        },
        "link": {
            "type": "string",
            "format": "url",
            "links": [{"href": "javascript:window.hacked='link'", "rel": BAD.format("rel")}],
            "template": "{{window.hacked='template'}}",
            "watch": {"a": "root"},
            "headerTemplate": BAD.format("header"),
            "options": {
                "infoText": BAD.format("info"),
                "inputAttributes": {"onfocus": "window.hacked='focus'"},
            },
            "description": "javascript:window.hacked='described'",
        },
        "choice": {"type": "string", "enum": [BAD.format("enum"), "b"], "default": "b"},
        "many": {"type": "array", "items": {"$ref": "#/properties/many"}, "format": "table"},
        "far": {"$ref": "http://127.0.0.1:9/schema.json"},
        "media": {"type": "string", "media": {"type": BAD.format("media")}, "format": "signature"},
    },
}


def back(arguments: dict) -> list:
    return [
        BAD.format("text") + "\x1b[31m\u202e",
        ImageContent(
            data=b"<svg xmlns='http://www.w3.org/2000/svg' onload='window.hacked=1'/>",
            media_type="image/svg+xml",
        ),
        ImageContent(uri="http://127.0.0.1:9/tracker.png"),
        ImageContent(data=b"x", media_type=BAD.format("type")),
    ]


hostile = SchemaTool("hostile", BAD.format("description"), HOSTILE, back)


@FunctionTool
def huge(megabytes: int = 50) -> str:
    """Return a very long text.

    Args:
        megabytes: How long.
    """
    return "x" * (megabytes * 1_000_000)


@FunctionTool
async def endless(context: Context) -> str:
    """Tell its progress without end."""
    n = 0
    while True:
        n += 1
        context.progress(f"step {n} <b>bold</b> " + "y" * 5_000, n, None)
        context.emit("noise", n=n)
        await asyncio.sleep(0.0005)


long_asks = SchemaTool(
    "m" * 10_000,
    "Ask, under a name without end.",
    {"type": "object", "properties": {"p" * 10_000: {"type": "string"}}},
    lambda arguments: "ok",
    input_guardrails=[require_approval()],
)
long_name = SchemaTool(
    "n" * 10_000, "d" * 100_000, {"type": "object", "properties": {}}, lambda arguments: "ok"
)


endless_number = SchemaTool(
    "endless_number",
    "A number without an upper limit.",
    {
        "type": "object",
        "properties": {"x": {"type": "number", "maximum": float("inf")}, "\ud800": {}},
    },
    lambda arguments: f"got {arguments['x']}",
)


@FunctionTool(settings=ToolSettings(read_only=True))
def cities(country: str) -> list[dict]:
    """List the cities of a country.

    Args:
        country: Its name.
    """
    if country == "Atlantis":
        raise ToolError("There is no such country.")
    return [{"city": f"{country} {n}", "price": 40 + 10 * n} for n in range(3)]


@FunctionTool(input_guardrails=[require_approval()])
def book(city: str, nights: int = 1) -> str:
    """Book a room, once a person has agreed.

    Args:
        city: Where.
        nights: For how long.
    """
    return f"booked {nights} in {city}"


async def runner(agent: str, text: str, context: Context) -> str:
    """An agent that makes two calls and answers; the ids are those that a model chose."""
    calls = [
        ToolCall(id="call_1", name="cities", arguments={"country": text}),
        ToolCall(id="call_2", name="cities", arguments={"country": "Atlantis"}),
    ]
    results = await Toolset([cities]).call_all(calls, context)
    return f"{agent}: {[result.success for result in results]}"


scout = AgentTool("Scout", "scout", "Ask an agent about a country.", runner=runner)
compute = code_mode([cities], name="compute")
program = code_mode([cities, book, compute, scout], name="program")

PROGRAM = """
found = await cities(country="Utopia")
cheap = found[0]["city"]
try:
    await cities(country="Atlantis")
except RuntimeError:
    pass
inner = await compute(code="await cities(country='Erewhon')")
answer = await scout(input="Utopia")
booked = await book(city=cheap, nights=2)
[booked, answer]
"""


@FunctionTool
def many(context: Context, count: int = 400) -> str:
    """Make many calls from a sync function.

    Args:
        count: How many.
    """
    calls = [ToolCall(id=f"m{n}", name="cities", arguments={"country": "x"}) for n in range(count)]
    results = Toolset([cities]).call_all_sync(calls, context)
    return f"{sum(result.success for result in results)} calls"


@FunctionTool
def told() -> ToolResult:
    """Tell of calls that happened in another process."""
    calls = [
        {"id": "c1/1", "name": "search", "outcome": "done"},
        {"id": "c1/1/1", "name": "fetch", "outcome": "failed"},
        {"id": "c1/2", "name": "pay", "outcome": "waiting"},
    ]
    return ToolResult(output=[TextContent(text="done")], metadata={"calls": calls})
