"""What docs/systems.md promises, and what a missing package says."""

import ast
import re
from pathlib import Path

import pytest

from tests.integrations.extras import check_missing_extra

ROOT = Path(__file__).parents[2]
TABLES = (ROOT / "docs" / "systems.md").read_text(encoding="utf-8")
SECTIONS = re.findall(
    r"[Tt]he\s+tests are in\s+`(tests/integrations/test_\w+\.py)`.*?"
    r"\| Feature \|[^\n]*\n\|---\|---\|---\|\n((?:\|[^\n]*\n)+)",
    TABLES,
    re.DOTALL,
)
PINS = dict(
    re.findall(
        r"^([a-z-]+)==(\S+)$", (ROOT / "tests/requirements/systems.txt").read_text(), re.MULTILINE
    )
)


def _tests_of(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_row_names_tests_that_exist() -> None:
    """Each feature in the tables ends with the names of tests, and these stand in the file that the section names."""
    assert len(SECTIONS) == TABLES.count("| Feature |") == 4
    for path, table in SECTIONS:
        for row in table.splitlines():
            found = re.fullmatch(r"\| [^|]+ \| [^|]+ \| ((?:`test_\w+`(?:, )?)+) \|", row)
            assert found, f"not a row of feature, means and tests: {row}"
            assert set(re.findall(r"\w+", found[1])) <= _tests_of(path), f"{path}: {row}"


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
