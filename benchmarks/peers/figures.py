"""The figures on README's first screen, made from RESULTS.json alone."""

from typing import Any

from benchmarks.peers.report import label, short, table

BEGIN, END = "<!-- figures: benchmarks/peers/figures.py -->", "<!-- end of figures -->"
SHOWN = {
    "add": "a call with two arguments",
    "place": "a call with a model of 50 items",
    "guarded": "two arguments, and a guardrail on each side",
    "parallel": "1,000 calls at once",
    "refused": "a call that is refused",
    "sync": "a call of a sync function",
}


def render(results: dict[str, Any]) -> str:
    """Return the table: functool, the best of the others and the slowest, work by work."""
    subjects = dict(results["subjects"])
    own = subjects.pop("functool_")
    heads, rows = ["", "functool", "the fastest other", "the slowest other"], []
    for work, title in SHOWN.items():
        others = sorted(
            (found["ratios"][work]["median"], label(name))
            for name, found in subjects.items()
            if work in found["ratios"]
        )
        cells = [f"{short(ratio)} ({name})" for ratio, name in (others[0], others[-1])]
        cells = cells if len(others) > 1 else [cells[0], "–"]
        rows.append([title, short(own["ratios"][work]["median"]), *cells])
    marks = sorted((right(found), label(name)) for name, found in subjects.items())
    (least, worst), (most, best) = marks[0], marks[-1]
    of = len(own["marks"])
    rows.append(
        [
            f"right answers, of {of} questions",
            str(right(own)),
            f"{most} (the most: {best})",
            f"{least} (the fewest: {worst})",
        ]
    )
    return table(heads, rows)


def right(found: dict[str, Any]) -> int:
    """Count the questions that a subject answers rightly."""
    return sum(1 for mark in found["marks"].values() if mark)


def placed(readme: str, results: dict[str, Any]) -> str:
    """Return the README with the figures of these results.

    Raises:
        ValueError: The README has no place for them.
    """
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the README has no {BEGIN} ... {END}")
    return f"{before}{BEGIN}\n\n{render(results)}\n{END}{after}"
