"""What the package claims of itself: its dependencies, extras, pins, commands and versions."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
README = (ROOT / "README.md").read_text(encoding="utf-8")
REQUIREMENTS = sorted((ROOT / "tests/requirements").glob("*.txt"))


def names(requirements):
    return {re.match(r"[A-Za-z0-9_.-]+", requirement)[0] for requirement in requirements}


def test_dependencies():
    """The core needs three packages; every other library is an extra."""
    assert names(PROJECT["dependencies"]) == {
        "pydantic",
        "typing-extensions",
        "jsonschema",
    }


def test_readme_names_every_extra():
    """The table in the README has every extra, and no other."""
    rows = re.findall(r"^\| (`[^|]+) \|", README, re.MULTILINE)
    named = {extra for row in rows for extra in re.findall(r"`([a-z-]+)`", row)}

    assert named == set(PROJECT["optional-dependencies"])


@pytest.mark.parametrize("file", REQUIREMENTS, ids=lambda file: file.stem)
def test_pins(file):
    """The environments of the tests are pinned, each with a word on what it is for."""
    first, *lines = file.read_text(encoding="utf-8").splitlines()

    assert first.startswith("# ")
    loose = [
        line
        for line in lines
        if line and not re.match(r"#|-r core\.txt$|[A-Za-z0-9_.\[\]-]+==[0-9]\S*( ;.*)?$", line)
    ]
    assert loose == []


def test_ci_runs_every_suite():
    """`.ci/run` calls every target that has an environment of its own, and `make help` names it."""
    suites = {f"test-{file.stem}" for file in REQUIREMENTS} - {
        "test-core",
        "test-lint",
        "test-mutants",
        "test-docs",
        "test-peers",
        "test-agentdojo",
    }
    ci = (ROOT / ".ci/run").read_text(encoding="utf-8")
    helped = subprocess.run(
        ["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout

    steps = re.findall(r"^    step (\S+)$", ci, re.MULTILINE)

    assert suites - set(steps) == set()
    assert [step for step in (*steps, "soak") if f"make {step} " not in helped] == []
    assert {"test", "lint", "types", "docs"} <= set(steps) and not [s for s in steps if "soak" in s]


def test_every_integration_test_has_one_suite():
    """No file in tests/integrations is left out of the suites; none runs in two, but the one that takes each suite's own bridges."""
    targets = ("test-systems", "test-agents", "test-mcp")
    others = ("test-engines",)  # They run no bridge.
    told = [
        subprocess.run(
            ["make", "--no-print-directory", "-n", target],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for target in targets + others
    ]
    run = [
        file
        for text in told
        for file in re.findall(r"tests/integrations/test_\w+\.py", text.splitlines()[-1])
    ]
    everywhere = "tests/integrations/test_bundled_exports.py"

    assert run.count(everywhere) == len(targets)
    run = [file for file in run if file != everywhere] + [everywhere]
    assert sorted(run) == sorted(
        str(path.relative_to(ROOT)) for path in (ROOT / "tests/integrations").glob("test_*.py")
    )


def test_changelog_has_a_place_for_changes():
    """The changelog follows Keep a Changelog: unreleased changes come first."""
    headings = re.findall(
        r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE
    )

    assert headings[0] == "[Unreleased]"


def test_the_root_holds_nothing_else():
    """Beside the folders and the files that everybody looks for, no file is left in the root."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout of git, so nothing tells its files from others")
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    files = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = {file.partition("/")[0] for file in files.splitlines()}

    assert {name for name in found if name[0] != "."} == {
        *("benchmarks", "docs", "examples", "functool", "tests"),
        *("README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"),
        *("Makefile", "pyproject.toml", "zensical.toml"),
    }
