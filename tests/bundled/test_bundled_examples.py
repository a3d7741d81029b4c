"""The examples of search, files and OpenAPI run, and do what they say."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from examples import openapi_client, research
from examples.scripted import converse
from functool import DefinitionError, ToolCall, Toolset
from functool.bundled.files import file_tools
from functool.bundled.openapi import pin
from functool.bundled.search import search_tool

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def shelf(tmp_path):
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    (shelf / "sea.md").write_text(
        "# Tides\n\nThe moon pulls the sea. Nobody else does.\n\n# Salt\n\nRivers bring salt.\n"
    )
    (shelf / "sky.md").write_text("# Rain\n\nClouds let go of their water.\n")
    return shelf


def assistant(question, shelf, notes):
    notes.mkdir()
    tools = file_tools(shelf, read_only=True) | Toolset([search_tool(research.index_of(shelf))])
    tools |= file_tools(notes).filtered(lambda tool: tool.name == "write_file")
    return asyncio.run(converse(research.ScriptedModel(question), tools)), tools


def test_the_assistant_writes_notes_with_their_sources(shelf, tmp_path):
    """The assistant finds the section, reads it, and writes down the sentence that fits with its source."""
    answer, tools = assistant("What pulls the sea?", shelf, tmp_path / "notes")
    notes = (tmp_path / "notes" / "notes.md").read_text()

    assert "- The moon pulls the sea. [sea.md, Tides]" in notes.splitlines()
    assert "[sea.md, Tides]" in answer


def test_the_assistant_says_when_there_is_nothing(shelf, tmp_path):
    """A question that no document is about leaves no notes."""
    answer, tools = assistant("Quantum chromodynamics?", shelf, tmp_path / "notes")

    assert answer == "I found nothing about that."
    assert list((tmp_path / "notes").iterdir()) == []


def test_the_assistant_can_only_write_notes(shelf, tmp_path):
    """The shelf is read-only, also to the tool that writes notes."""
    answer, tools = assistant("What pulls the sea?", shelf, tmp_path / "notes")
    call = ToolCall(name="write_file", arguments={"path": str(shelf / "sea.md"), "content": "x"})

    assert asyncio.run(tools.call(call)).error.type == "PathNotAllowed"


def run(name):
    done = subprocess.run(
        [sys.executable, "-m", f"examples.{name}"], capture_output=True, text=True, cwd=ROOT
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_research_runs_as_a_program():
    """`python -m examples.research` searches, reads, writes and answers from this project's own documentation."""
    heads = [
        line.split("(")[0]
        for line in run("research").splitlines()
        if line.startswith(("call", "answer"))
    ]

    assert heads == [
        "call    search",
        *["call    read_file"] * 3,
        "call    write_file",
        "answer  I found:",
    ]


def test_openapi_client_runs_as_a_program():
    """`python -m examples.openapi_client` works with the API, asks before it deletes, and refuses a changed document."""
    printed = run("openapi_client")

    assert openapi_client.KEY not in printed
    assert 'asked   deleteTask({"id": 2})\ncall    deleteTask({"id": 2})\nerror' in printed
    assert '[{"id":2,"done":false,"title":"Call Ada"}]' in printed
    assert "changed: listTasks" in printed.splitlines()[-1]


def test_the_client_cannot_be_given_another_document():
    """With the pins of one document the tools of a changed one are not made."""
    changed = openapi_client.DOCUMENT.replace("/tasks/{id}", "/admin/{id}")

    with pytest.raises(DefinitionError, match="changed: deleteTask, changeTask"):
        openapi_client.client("http://127.0.0.1:9", pin(openapi_client.DOCUMENT), changed)
