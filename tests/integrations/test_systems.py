"""What docs/systems.md promises, and what a missing package says."""

import ast
import re
from pathlib import Path

import pytest

from tests.integrations.extras import check_missing_extra

ROOT = Path(__file__).parents[2]
TABLES = (ROOT / "docs" / "systems.md").read_text(encoding="utf-8")
ROWS = [line for line in TABLES.splitlines() if "::test_" in line]
PINS = dict(
    re.findall(
        r"^([a-z-]+)==(\S+)$", (ROOT / "tests/requirements/systems.txt").read_text(), re.MULTILINE
    )
)


def _tests_of(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_row_names_a_test_that_exists() -> None:
    """Each feature in the tables ends with the id of a test, and that test is there."""
    assert len(ROWS) > 100
    for row in ROWS:
        found = re.fullmatch(
            r"\| [^|]+ \| [^|]+ \| `(tests/[a-z_/]+\.py)::(test_[a-z0-9_]+)` \|", row
        )
        assert found, f"not a row of feature, means and test: {row}"
        path, name = found.groups()
        assert name in _tests_of(path), f"{path} has no {name}"


def test_every_table_row_has_a_test() -> None:
    """No row of a feature table stands there without a test."""
    tables = re.findall(r"\| Feature \|.*\n\|---\|---\|---\|\n((?:\|.*\n)+)", TABLES)
    assert [row for table in tables for row in table.splitlines() if "::test_" not in row] == []
    assert sum(len(table.splitlines()) for table in tables) == len(ROWS)


@pytest.mark.parametrize("package", ["amplifier-core", "unique-toolkit", "agent-framework-core"])
def test_the_documented_versions_are_the_pinned_ones(package: str) -> None:
    """The versions that the page names are those that the tests run with."""
    assert re.findall(rf"\| {package} (\S+) \|", TABLES) == [PINS[package]]


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [
        ("amplifier", "amplifier_core", "amplifier"),
        ("unique", "unique_toolkit", "unique"),
        ("agent_framework", "agent_framework", "agent-framework"),
    ],
)
def test_a_missing_package_names_the_extra(
    module: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its package an integration raises ImportError with the command that installs it."""
    check_missing_extra(module, package, extra, monkeypatch)
