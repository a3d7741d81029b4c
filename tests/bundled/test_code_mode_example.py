"""The example of code mode does what it says."""

import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_example_waits_dies_and_goes_on(tmp_path):
    """The first process pays one team and is killed; the second pays the others, each once."""

    def start():
        words = [sys.executable, "-m", "examples.code_mode", str(tmp_path / "journal")]
        return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120)

    first, second, third = start(), start(), start()

    assert first.returncode == -signal.SIGKILL
    assert "the bank pays design 200.5" in first.stdout
    assert "waiting: reimburse" in first.stdout
    assert "the bank pays sales 2710.0" in second.stdout
    assert "the bank pays support 45.0" in second.stdout
    assert "the bank pays design" not in second.stdout
    assert "the bank pays" not in third.stdout
    assert '"sales": 2710.0' in third.stdout
