"""mypy and pyright infer what the files beside this one assert: where they are installed, as in `make types`."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CHECKED = [str(HERE / name) for name in ("inferred.py", "around_tools.py")]


@pytest.mark.parametrize(
    "checker", [["mypy", "--strict"], ["pyright"]], ids=lambda checker: checker[0]
)
def test_the_types_are_inferred(checker):
    """Plain calls, tool calls and methods have the types of the function; what stands around tools is typed, and misspelt options are errors."""
    if importlib.util.find_spec(checker[0]) is None:
        pytest.skip(f"{checker[0]} is not installed here; `make types` runs it")
    done = subprocess.run(
        [sys.executable, "-m", *checker, *CHECKED],
        capture_output=True,
        text=True,
        cwd=HERE.parents[1],
    )

    assert done.returncode == 0, done.stdout + done.stderr
