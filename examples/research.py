"""A research assistant that searches documents, reads the best, and writes notes with sources.

    python -m examples.research [question]

The model is a small scripted one: it knows nothing of the subject, but goes on from what the tools
bring. The shelf is the documentation of this project; the notes go to a directory of their own, the
only one that can be written to.
"""

import asyncio
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from examples.scripted import converse
from functool import ToolCall, ToolResult, Toolset
from functool.bundled.files import file_tools
from functool.bundled.search import SearchIndex, search_tool

SHELF = Path(__file__).parent.parent / "docs"
QUESTION = "What happens to a redirect to another address?"
HITS = 3


def sections(shelf: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the place, heading and text of each section of the Markdown files on a shelf."""
    for path in sorted(shelf.glob("*.md")):
        lines = path.read_text(encoding="utf-8").splitlines()
        heads = [number for number, line in enumerate(lines) if re.match(r"#+ ", line)]
        for begin, end in pairwise([*heads, len(lines)]):
            yield (
                f"{path.relative_to(shelf)}:{begin}:{end - begin}",
                lines[begin].lstrip("# "),
                "\n".join(lines[begin + 1 : end]),
            )


def index_of(shelf: Path) -> SearchIndex:
    """Return an index of the sections of a shelf."""
    index = SearchIndex()
    index.add_all(
        {"id": place, "title": title, "text": text} for place, title, text in sections(shelf)
    )
    return index


class ScriptedModel:
    """Stands for a language model: it searches, reads, and writes down the sentences that fit."""

    def __init__(self, question: str) -> None:
        self.question = question
        self.words = {word for word in re.findall(r"\w+", question.lower()) if len(word) > 3}
        self.unread: list[tuple[str, str]] = []
        self.notes: list[str] = []

    def turn(self, last: ToolCall | None, result: ToolResult | None) -> ToolCall | str:
        """Return the next call, or the answer."""
        if last is None or result is None:
            return ToolCall(name="search", arguments={"query": self.question, "limit": HITS})
        if result.is_error:
            return f"I had to stop: {result.text}"
        if last.name == "search":
            self.unread = [(hit["id"], hit["title"]) for hit in json.loads(result.text)["hits"]]
        if last.name == "read_file":
            place, title = self.unread.pop(0)
            self.take_notes(f"{place.partition(':')[0]}, {title}", result.text)
        if last.name == "write_file":
            return "\n".join(["I found:", *self.notes, f"({result.text})"])
        if self.unread:
            path, offset, limit = self.unread[0][0].rsplit(":", 2)
            return ToolCall(
                name="read_file",
                arguments={"path": path, "offset": int(offset), "limit": int(limit)},
            )
        if not self.notes:
            return "I found nothing about that."
        text = "\n".join([f"# {self.question}", "", *self.notes, ""])
        return ToolCall(name="write_file", arguments={"path": "notes.md", "content": text})

    def take_notes(self, source: str, text: str) -> None:
        """Keep the sentence that has most of the question's words."""
        sentences = re.split(
            r"(?<=[.:?!])\s+(?:- )?", " ".join(re.sub(r"(?m)^#+ .*$", "", text).split())
        )
        fitting = max(
            sentences,
            key=lambda sentence: len(self.words & set(re.findall(r"\w+", sentence.lower()))),
        )
        if self.words & set(re.findall(r"\w+", fitting.lower())):
            self.notes.append(f"- {fitting[:300]} [{source}]")


def main() -> None:
    question = " ".join(sys.argv[1:]) or QUESTION
    with tempfile.TemporaryDirectory() as notes:
        reading = file_tools(SHELF, read_only=True) | Toolset([search_tool(index_of(SHELF))])
        tools = reading | file_tools(notes).filtered(lambda tool: tool.name == "write_file")
        print(f"answer  {asyncio.run(converse(ScriptedModel(question), tools, shown=200))}\n")
        for path in sorted(Path(notes).iterdir()):
            print(f"--- {path.name}\n{path.read_text(encoding='utf-8')}")


if __name__ == "__main__":
    main()
