"""One virtual environment for each peer, outside of the repository, made once and kept until a pin changes.

The versions are those of pins.txt. FUNCTOOL_BENCH_CACHE chooses another directory than ~/.cache/functool-bench.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SHARED = ("pydantic",)


class EnvironmentFailed(Exception):
    """An environment could not be made; the message is what pip said."""


def read_pins(path: Path) -> dict[str, str]:
    """Return name -> requirement line of a file of pins."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return {re.split(r"[=\[]", line)[0]: line for line in lines if "==" in line and line[0] != "#"}


def requirements(packages: Sequence[str]) -> list[str]:
    """Return the pinned requirement lines of one environment.

    Args:
        packages: Names in pins.txt. None of them means functool itself: the core's own pins.
    """
    if packages:
        pins = read_pins(HERE / "pins.txt")
        return sorted(pins[name] for name in (*packages, *SHARED))
    core = read_pins(ROOT / "tests/requirements/core.txt")
    names = ("pydantic", "typing-extensions", "jsonschema")
    return sorted(core[name] for name in names)


def cache_directory() -> Path:
    """Return where environments are kept."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("FUNCTOOL_BENCH_CACHE") or Path(home) / "functool-bench")


def environment_of(peer: str, packages: Sequence[str]) -> Path:
    """Return the directory of a peer's environment, which may not exist yet.

    The name holds a digest of the interpreter and of the requirements, so a new pin makes a new environment.
    """
    text = "\n".join([sys.version, *requirements(packages)])
    return cache_directory() / f"{peer}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def prepare(peer: str, packages: Sequence[str]) -> Path:
    """Return the interpreter of a peer's environment; make the environment if it is not there.

    Raises:
        EnvironmentFailed: pip could not install the peer. What was made so far is removed.
    """
    directory = environment_of(peer, packages)
    python = directory / "bin/python"
    if (directory / ".filled").exists():
        return python
    shutil.rmtree(directory, ignore_errors=True)
    commands = (
        [sys.executable, "-m", "venv", str(directory)],
        [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        + requirements(packages),
    )
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            shutil.rmtree(directory, ignore_errors=True)
            raise EnvironmentFailed(f"no environment for {peer}: {done.stderr[-2000:]}")
    (directory / ".filled").touch()
    return python
