"""The demo with the providers' own SDKs, against a server on loopback that refuses what they would refuse."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from examples.demo_tools import CODE
from tests.dialects.loopback import serving

ROOT = Path(__file__).parents[2]
LINE = CODE.strip().splitlines()[-1]
MENDED = LINE.replace("middle] + ordered[middle + 1]", "middle - 1] + ordered[middle]")
CALLS = [
    ("c1", "read_file", {"path": "median.py"}),
    ("c2", "edit_file", {"path": "test_median.py", "old": "2.5", "new": "3.5"}),
    ("c3", "edit_file", {"path": "median.py", "old": LINE, "new": MENDED}),
]


def demo(model, key, url, typed=""):
    """Run the demo as a reader does, with a model that is served at `url`."""
    if importlib.util.find_spec(model) is None:
        pytest.skip(f"{model} is not installed")
    return subprocess.run(
        [sys.executable, "-m", "examples.agent_loop", "--model", model],
        env={
            **os.environ,
            key: "none",
            "OPENAI_BASE_URL": f"{url}/v1",
            "ANTHROPIC_BASE_URL": url,
            "NO_PROXY": "127.0.0.1",
        },
        input=typed,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )


@pytest.mark.parametrize(
    ("model", "key"), [("openai", "OPENAI_API_KEY"), ("anthropic", "ANTHROPIC_API_KEY")]
)
def test_the_demo_with_a_providers_model(model, key):
    """Definitions, calls and results travel in the provider's format, and the reader is asked before the edit."""
    with serving(CALLS, say=lambda results: "Mended.") as server:
        done = demo(model, key, server.url, typed="y\n")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"model      {model}\n")
    assert "turn       3 calls at once" in done.stdout
    assert "refused    The tests say what is right." in done.stdout
    assert "May it? [y/N]" in done.stdout and "result     Edited median.py." in done.stdout
    assert "answer     Mended." in done.stdout
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("model", "key", "name"),
    [("openai", "OPENAI_API_KEY", "OpenAI"), ("anthropic", "ANTHROPIC_API_KEY", "Anthropic")],
)
def test_a_provider_that_cannot_be_reached(model, key, name):
    """The demo ends with one line that names the provider, and without a traceback."""
    with serving([]) as server:
        closed = server.url
    done = demo(model, key, closed)

    assert done.returncode == 1
    assert done.stderr.startswith(f"{name}: ") and len(done.stderr.splitlines()) == 1
