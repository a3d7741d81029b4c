"""The figures of docs/security.md on files and shell: what was tried, and what got through.

    python -m benchmarks.confinement

The attacks are those of tests/bundled, run longer; the plain implementations there are the controls.
"""

import platform
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from functool.bundled import beneath
from functool.bundled.beneath import Boundary
from functool.bundled.shell import shell_tool
from tests.bundled.test_beneath import SECRET, SWAPPER, attempt, build, checked_read, read
from tests.bundled.test_shell import BWRAP, flood, living, plain, run, settled

ATTEMPTS = 100_000
COMMANDS = 20
CALLS = 50
PLAIN = "subprocess.run(shell=True, ...)"
LEFT_BEHIND = "for i in 1 2 3 4; do sleep {0} & setsid sleep {0} & done >/dev/null 2>&1; exec sleep {0} >/dev/null 2>&1"


@contextmanager
def swapping(base: Path) -> Iterator[Path]:
    """Give a root in which another process keeps exchanging a directory for a link out."""
    root = build(base)
    (root / "inner").mkdir()
    (root / "inner" / "secret.txt").write_text("inside")
    (root / "link").symlink_to(base / "root-not")
    with subprocess.Popen(
        [sys.executable, "-c", SWAPPER, str(root)], stdout=subprocess.PIPE
    ) as swapper:
        assert swapper.stdout is not None
        swapper.stdout.readline()
        try:
            yield root
        finally:
            swapper.kill()


def escapes() -> None:
    print(
        f"\nsymlink-swap race: {ATTEMPTS:,} reads each of a directory that is exchanged for a link out\n"
    )
    print("| reader | refused | escaped |\n|---|---:|---:|")
    with tempfile.TemporaryDirectory() as base, swapping(Path(base)) as root:
        readers: dict[str, Callable[[], str]] = {
            "check the path, then open it": lambda: checked_read(root, "inner/secret.txt"),
            "functool, openat2": lambda: read(
                Boundary([root], beneath.openat2), "inner/secret.txt"
            ),
            "functool, walk": lambda: read(Boundary([root], beneath.walk), "inner/secret.txt"),
        }
        for name, reader in readers.items():
            seen = [attempt(reader) for _ in range(ATTEMPTS)]
            print(
                f"| {name} | {sum(isinstance(each, type) for each in seen):,} | {seen.count(SECRET):,} |"
            )


def survivors(work: Path) -> None:
    print(
        f"\nsurvivors of {COMMANDS} commands ended at their time limit, each with 4 children and 4 that left the group\n"
    )
    print("| runner | processes left |\n|---|---:|")
    for name, sandbox in ((PLAIN, ""), ("functool, none", "none"), ("functool, bwrap", "bwrap")):
        token = f"3600.{secrets.randbelow(10**12):012}"
        command = LEFT_BEHIND.format(token)
        for _ in range(COMMANDS):
            if sandbox:
                result = run(shell_tool(work, sandbox=sandbox, timeout=0.5), command)
                assert result.error is not None and result.error.type == "ToolTimeoutError"
            else:
                try:
                    plain(command, work, timeout=0.5)
                except subprocess.TimeoutExpired:
                    pass
        left = living(token)
        print(f"| {name} | {len(left)} |")
        for pid in left:
            subprocess.run(["kill", "-9", str(pid)], check=False)
        settled(token)


def memory(work: Path) -> None:
    print("\nthe most memory that Python holds while a command writes 300 MB\n")
    print("| runner | MB |\n|---|---:|")
    for name, how in ((PLAIN, "plain"), ("functool, none", "none"), ("functool, bwrap", "bwrap")):
        print(f"| {name} | {flood(work, how)[1]} |")


def cost(work: Path) -> None:
    print(f"\ntime of one call of `true`, median of {CALLS}\n")
    print("| runner | ms |\n|---|---:|")
    runners: dict[str, Callable[[], object]] = {PLAIN: lambda: plain("true", work)}
    for sandbox in ("none", "bwrap"):
        tool = shell_tool(work, sandbox=sandbox)  # type: ignore[arg-type]
        runners[f"functool, {sandbox}"] = lambda tool=tool: run(tool, "true")  # type: ignore[misc]
    for name, runner in runners.items():
        times = []
        for _ in range(CALLS):
            start = time.perf_counter()
            runner()
            times.append(time.perf_counter() - start)
        print(f"| {name} | {median(times) * 1000:.1f} |")


def main() -> None:
    version = subprocess.run(
        [str(BWRAP), "--version"], capture_output=True, text=True, check=True
    ).stdout.strip()
    print(f"Linux {platform.release()}, Python {platform.python_version()}, {version}")
    escapes()
    with tempfile.TemporaryDirectory() as work:
        survivors(Path(work))
        memory(Path(work))
        cost(Path(work))


if __name__ == "__main__":
    main()
