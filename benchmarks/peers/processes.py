"""The workers as the parent sees them: processes that answer one request at a time."""

import contextlib
import json
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.peers.environments import ROOT

FLOOR_IMPORT = "import asyncio, inspect, pydantic\nclass M(pydantic.BaseModel):\n    x: int"


class WorkFailed(Exception):
    """A subject cannot do a piece of work; the message is its own."""


class Process:
    """One subject's worker."""

    def __init__(self, python: Path, name: str, seconds: float) -> None:
        command = [str(python), "-W", "ignore", "-m", "benchmarks.peers.worker", name, str(seconds)]
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, do: str, **arguments: Any) -> Any:
        """Return the worker's answer.

        Raises:
            WorkFailed: The subject raised, or its process has ended.
        """
        assert self._process.stdin and self._process.stdout
        line = ""
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps({"do": do, **arguments}), file=self._process.stdin, flush=True)
            line = self._process.stdout.readline()
        if not line:
            raise WorkFailed("the process ended")
        answer = json.loads(line)
        if "error" in answer:
            raise WorkFailed(answer["error"])
        return answer["answer"]

    def close(self) -> None:
        """End the worker."""
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate()


@contextlib.contextmanager
def process(python: Path, name: str, seconds: float) -> Iterator[Process]:
    """Lend a worker, and end it afterwards."""
    opened = Process(python, name, seconds)
    try:
        yield opened
    finally:
        opened.close()


def environment() -> dict[str, str]:
    """Return the environment variables of a worker: those of this process, without Python's own."""
    return {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}


def seconds_of(python: Path, code: str) -> float:
    """Return the seconds of CPU that a fresh interpreter takes for `code`."""
    start = _cpu_of_children()
    subprocess.run(
        [str(python), "-W", "ignore", "-c", code],
        cwd=ROOT,
        env=environment(),
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return _cpu_of_children() - start


def _cpu_of_children() -> float:
    """Return the seconds of CPU of the child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
