"""functool beside what people would use instead: `python -m benchmarks peers [--quick] [--peers a,b] [--output DIRECTORY] [--render]`.

A whole run writes benchmarks/RESULTS.md, RESULTS.json and the plots in docs/assets. A quick or partial one writes into .benchmarks.
"""

import argparse
import ast
import contextlib
import dataclasses
import json
import os
import platform
import subprocess
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.peers.environments import ROOT, EnvironmentFailed, prepare
from benchmarks.peers.subjects import names

PUBLISHED = ROOT / "benchmarks"


def main(options: Sequence[str] = ()) -> None:
    """Prepare the environments, measure, and write the results.

    Args:
        options: The words of the command line.
    """
    from benchmarks.peers import measures

    chosen = parser().parse_args(options)
    if chosen.render:
        write(json.loads((PUBLISHED / "RESULTS.json").read_text(encoding="utf-8")), PUBLISHED)
        return
    subjects = chosen.peers or names()
    plan = measures.QUICK if chosen.quick else measures.Plan()
    whole = subjects == names() and not chosen.quick
    output = chosen.output or (PUBLISHED if whole else ROOT / ".benchmarks")
    with progress("environments", len(subjects)) as advance:
        pythons = prepare_all(subjects, advance)
    load = os.getloadavg()[0]
    with progress("measuring", measures.steps(len(pythons), plan)) as advance:
        found = measures.measure(pythons, plan, advance)
    results = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": machine(),
        "load": round(load, 1),
        "rounds": plan.rounds,
        "tools": plan.tools,
        "calls": plan.calls,
        "subjects": {name: dataclasses.asdict(each) for name, each in found.items()},
    }
    output.mkdir(parents=True, exist_ok=True)
    text = json.dumps(results, indent=1)
    (output / "RESULTS.json").write_text(text + "\n", encoding="utf-8")
    write(results, output)


def write(results: dict[str, Any], output: Path) -> None:
    """Write RESULTS.md and the plots; of a published run, the figures of the README too."""
    from benchmarks.peers import figures, plots, report

    (output / "RESULTS.md").write_text(report.render(results), encoding="utf-8")
    plots.draw(results["subjects"], ROOT / "docs/assets" if output == PUBLISHED else output)
    if output == PUBLISHED:
        readme = ROOT / "README.md"
        readme.write_text(
            figures.placed(readme.read_text(encoding="utf-8"), results), encoding="utf-8"
        )
    print(f"written: {output / 'RESULTS.md'} and the plots")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(prog="python -m benchmarks peers", description=__doc__)
    made.add_argument("--quick", action="store_true", help="few rounds, small sizes")
    made.add_argument(
        "--render", action="store_true", help="only write RESULTS.md and the plots again"
    )
    made.add_argument("--peers", type=_peers, help=f"some of {','.join(map(_bare, names()))}")
    made.add_argument("--output", type=Path, help="the directory of RESULTS.md and RESULTS.json")
    return made


def prepare_all(subjects: list[str], advance: Callable[[str], object]) -> dict[str, Path]:
    """Return subject -> interpreter.

    Raises:
        SystemExit: A subject's packages cannot be installed; with the words of pip.
    """
    made = {}
    for name in subjects:
        advance(_bare(name))
        try:
            made[name] = prepare(_bare(name), packages_of(name))
        except EnvironmentFailed as error:
            raise SystemExit(str(error)) from None
    return made


def packages_of(name: str) -> tuple[str, ...]:
    """Return what a subject's environment installs, read without importing the subject."""
    source = Path(__file__).with_name("subjects") / f"{name}.py"
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "PACKAGES":
            packages: tuple[str, ...] = ast.literal_eval(node.value)
            return packages
    raise LookupError(f"{source.name} names no PACKAGES")


def machine() -> str:
    """Return the machine, the interpreter and the commit, in one line."""
    commit = "no commit known"
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        )
        commit = f"functool at {done.stdout.strip()}"
    system = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    return f"{system}, Python {platform.python_version()}, {commit}"


@contextlib.contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[str], object]]:
    """Show a progress bar; lend what moves it on."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns: tuple[Any, ...] = (
        TextColumn("{task.fields[what]:<36}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns) as bar:
        task = bar.add_task(title, total=total, what=title)
        yield lambda what: bar.update(task, advance=1, what=what)


def _bare(name: str) -> str:
    return name.strip("_")


def _peers(text: str) -> list[str]:
    """Read `--peers a,b`."""
    known = {_bare(name): name for name in names()}
    asked = [part.strip().replace("-", "_") for part in text.split(",")]
    unknown = [part for part in asked if part not in known]
    if unknown:
        raise argparse.ArgumentTypeError(f"no peer {unknown[0]!r}; there are: {', '.join(known)}")
    return [known[part] for part in asked]
