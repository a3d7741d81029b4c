"""The tools of the demo: a search over Python's documentation, a calendar, and a notebook."""

import re
import sqlite3
from dataclasses import dataclass, field
from datetime import date, timedelta
from enum import Enum
from pathlib import Path
from pydoc_data.topics import topics

from functool import Context, FunctionTool, GuardrailError, ToolCall, ToolError, Toolset
from functool.guardrails import require_approval, truncate

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
