"""What `functool --help` costs beside a Python that does nothing, in milliseconds. Run with `python -m benchmarks cli`."""

import statistics
import subprocess
import sys
import time

from benchmarks._measure import ROUNDS, heading, row

HELP = "import sys; sys.argv = ['functool', '--help']; from functool.cli import main; main()"


def milliseconds(code: str) -> float:
    """Return how long a new interpreter takes to run `code`."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - start) * 1_000


def main() -> None:
    print(heading())
    extra = statistics.median(milliseconds(HELP) - milliseconds("pass") for _ in range(ROUNDS))
    row("functool --help beyond python -c pass", extra, 150, 100, " ms")
