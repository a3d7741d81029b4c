"""The corpus of real tool definitions and calls in `data/bfcl`, whose README says what a line is."""

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data" / "bfcl"


@cache
def lines(name: str) -> list[dict[str, Any]]:
    """The lines of `functions`, `calls_valid`, `calls_null` or `questions_dev`."""
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]
