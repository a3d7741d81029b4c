"""mypy and pyright infer what `inferred.py` asserts: where they are installed, as in `make types`."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

CHECKED = Path(__file__).with_name("inferred.py")


@pytest.mark.parametrize("checker", [["mypy", "--strict"], ["pyright"]], ids=lambda checker: checker[0])
def test_the_types_are_inferred(checker):
    """Plain calls, tool calls and methods have the types of the function."""
    if importlib.util.find_spec(checker[0]) is None:
        pytest.skip(f"{checker[0]} is not installed here; `make types` runs it")
    done = subprocess.run([sys.executable, "-m", *checker, str(CHECKED)], capture_output=True, text=True, cwd=CHECKED.parents[2])

    assert done.returncode == 0, done.stdout + done.stderr
