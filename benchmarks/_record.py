"""What the benchmarks of the engines found: `benchmarks/DURABLE.json`, of which the pages are made.

Each benchmark writes its own entry, with the machine, the versions and the load. `python -m
benchmarks durable` runs those whose packages are there, and writes the pages anew.
"""

import json
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent / "DURABLE.json"


def read() -> dict[str, Any]:
    """Return all entries by the names of their benchmarks."""
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def write(name: str, figures: dict[str, Any], packages: Sequence[str] = ()) -> None:
    """Write what a benchmark found, and where."""
    measured = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} processors",
        "load": round(os.getloadavg()[0], 1),
        "versions": {
            "Python": platform.python_version(),
            **{package: version(package) for package in ("pydantic", *packages)},
        },
    }
    entries = read() if FILE.exists() else {}
    entries[name] = {"measured": measured, **figures}
    FILE.write_text(json.dumps(entries, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def measured_on(entry: dict[str, Any]) -> str:
    """Return where an entry was measured, in one line."""
    told = entry["measured"]
    versions = ", ".join(f"{name} {number}" for name, number in told["versions"].items())
    return f"{told['date']}, {told['machine']}, load {told['load']:g}, {versions}"
