"""The pages as a reader finds them: each has its place, every public name its entry, and common questions their answer."""

import importlib
import re
import tomllib
from pathlib import Path

import pytest

import functool

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
SITE = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
ENTRIES = {
    entry
    for page in (DOCS / "reference").glob("*.md")
    for entry in re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
}

# What a stranger asks in the first hour, the page whose title in the menu promises the answer, and words of the answer.
QUESTIONS = {
    "How do I install it?": ("index.md", "pip install functool"),
    "How do I make a tool, and run a first agent?": ("first-agent.md", "@FunctionTool"),
    "How do I build tools from a configuration file?": ("more-tools.md", "factory.toolset(plan)"),
    "How do I switch a tool off for some users?": ("more-tools.md", "is_enabled="),
    "How do I trace my tools?": ("errors.md", "opentelemetry.instrument("),
    "How do I run the calls of my own OpenAI loop?": ("loop.md", "openai_chat.calls(answer)"),
    "How do I serve my tools over MCP?": ("mcp.md", "mcp.serve("),
    "How do I use a tool in LangChain?": ("agents.md", "langchain.export"),
    "How does a person approve a call, also days later?": ("approvals.md", "context.approve("),
    "How do I know that a mail did not choose whom I pay?": ("labels.md", "trusted_only("),
    "How do I keep a payment from running twice?": ("durable.md", "journal.once("),
    "How do I test a tool?": ("testing.md", "check_tool"),
    "What does the model read when my function raises?": ("errors.md", "hide_errors"),
    "Where does functool log?": ("errors.md", "The logger is named `functool`"),
    "How does it compare with pydantic-ai?": ("compare.md", "pydantic-ai"),
    "Against whom do the bundled tools stand?": ("security.md", "**Threat model.**"),
    "Which names may I rely on?": ("reference/index.md", "DeprecationWarning"),
}


def menu(entries):
    """Return (title, page) of each page in the menu."""
    found = []
    for entry in entries:
        for title, target in entry.items():
            found += menu(target) if isinstance(target, list) else [(title, target)]
    return found


MENU = menu(SITE["nav"])


def test_every_page_is_in_the_menu_once():
    """No page is hidden from the menu, and the menu names no page that is not there."""
    pages = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.glob("**/*.md"))

    assert sorted(page for _, page in MENU) == pages


def test_titles_are_unlike():
    """No two entries of one part of the menu have one title."""
    for entry in SITE["nav"]:
        for _, target in entry.items():
            titles = [title for title, _ in menu(target)] if isinstance(target, list) else []
            assert len(titles) == len(set(titles))


@pytest.mark.parametrize("name", functool.__all__)
def test_the_reference_has_the_face(name):
    """Each public name of `functool` has an entry of its own."""
    assert f"functool.{name}" in ENTRIES


def test_the_reference_has_every_public_module():
    """Each dialect, and each module that a page imports from, has an entry, whole or by its names."""
    dialects = {
        f"functool.dialects.{path.stem}"
        for path in (ROOT / "functool/dialects").glob("*.py")
        if not path.stem.startswith("_")
    }
    text = "\n".join(
        path.read_text(encoding="utf-8") for path in [ROOT / "README.md", *DOCS.glob("**/*.md")]
    )
    imported = {
        f"{module}.{name.split(' as ')[0].strip()}"
        for module, names in re.findall(
            r"^\s*from (functool\.[\w.]+) import (.+)$", text, re.MULTILINE
        )
        for name in names.strip("()").split(",")
        if name.strip()
    }
    # What a page imports is a module, or a name of one.
    missing = {
        name
        for name in dialects | imported
        if not any(name == entry or name.startswith(f"{entry}.") for entry in ENTRIES)
    }

    assert missing == set()


@pytest.mark.parametrize("entry", sorted(ENTRIES))
def test_the_reference_invents_nothing(entry):
    """Each entry is a module that is there, or a name of one."""
    parts = entry.split(".")
    if (ROOT.joinpath(*parts).with_suffix(".py")).is_file() or ROOT.joinpath(*parts).is_dir():
        return
    owner = importlib.import_module(".".join(parts[:-1]))

    assert hasattr(owner, parts[-1])


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_has_its_answer(question):
    """The answer to a common question stands on the page whose title promises it."""
    page, answer = QUESTIONS[question]

    assert page in [page for _, page in MENU]
    assert answer in (DOCS / page).read_text(encoding="utf-8")


def test_every_cell_of_the_comparison_has_its_line():
    """What a cell claims of a library stands in the lines of that library, which run."""
    text = (DOCS / "compare.md").read_text(encoding="utf-8")
    tables, _, lines = text.partition("## Every cell as a line that runs")
    titles = re.findall(r"^### (\S+)$", lines, re.MULTILINE)
    code = dict(zip(titles, re.split(r"^### \S+$", lines, flags=re.MULTILINE)[1:], strict=True))
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in tables.splitlines()
        if line.startswith("| ")
    ]
    columns: list[str] = []
    without = []
    for title, *cells in rows:
        if "openai-agents" in cells:
            columns = cells
        for library, cell in zip(columns, cells, strict=False):
            for name in re.findall(r"`([^`]+)`", cell if columns and len(cells) > 1 else ""):
                words = re.findall(r"[A-Za-z_]\w+", name)
                if not all(
                    re.search(rf"\b{word}\b", code[library])
                    for word in words
                    if word not in ("tool",)
                ):
                    without.append((title, library, name))

    assert len(columns) == 6
    assert without == []


def test_links_of_the_readme_lead_somewhere():
    """Each relative link and picture of the pages at the root names a file of the repository."""
    broken = [
        (page.name, target)
        for page in ROOT.glob("*.md")
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
        if "://" not in target and not (ROOT / target).exists()
    ]

    assert broken == []


def test_the_deprecation_policy_is_told():
    """A reader learns for how long a name stays, in two sentences at most."""
    text = (DOCS / "reference/index.md").read_text(encoding="utf-8").split("\n\n")[-1]

    assert "deprecated" in text
    assert text.count(". ") + text.count(".\n") <= 2
