"""The words and tables of RESULTS.md, made from the numbers alone."""

from typing import Any

from benchmarks.peers.marks import TITLES as MARKS
from benchmarks.peers.workload import WORKS

COLUMNS = {
    "define": "define",
    **{name: work.title for name, work in WORKS.items()},
    "import": "import",
}
SIGNS = {True: "yes", False: "no", None: "–"}

REASONS = {
    "define": "toolregistry makes its schemas without pydantic, and checks less with them.",
    "argument": "functool reads the text a second time: it looks for names sent twice, lone surrogates and deep nesting before it validates.",
    "result": "Nobody copies the text here; what is left is the fixed cost of a call.",
    "sync": "anthropic's helper runs a synchronous body on the loop's own thread, so everything else waits meanwhile.",
    "refused": "functool words every problem for the model, without the value, with the closest names and the choices. The faster ones hand on pydantic's text, or a fixed sentence.",
    "import": "toolregistry imports pydantic only when it is needed.",
}

FEW = 20  # Fewer rounds than that are for trying things out.
QUIET = 0.7  # A load average beyond that: somebody else was at work, too.
GROWTH = "With the number of tools, and with the size of one text argument; functool's limit of argument bytes is lifted for it.\n"

HEAD = """## Read this first

These numbers are biased. functool's authors chose the subjects, the calls and the floor, and know functool best. A tool layer is a small part
of an agent: a model's answer takes a thousand times as long as any cell of the first table. Choose for other reasons, unless you make very many calls.

- Every number but memory is a **ratio to the floor**: one compiled pydantic validator over the JSON text, one `await` of the body, one `to_json`. Subject and
  floor are timed one after the other in the same process. The subjects take turns in each round, so a drift of the machine hits all alike. A cell is the
  median of the rounds, with the quartiles below it. A ratio below 1 is possible: a text is returned as it is, while the floor writes it as JSON.
- Times are **CPU times** of the process, all its threads together. What else runs on the machine matters little then, and waiting for a thread to
  wake is not in them.
- Each subject is called at its own documented entry, from the JSON text of the arguments to the text for the model. Where the entry takes a dict, the
  `json.loads` of the host is part of the time.
- **A speed compares only with that of the same work.** The second table says who does which. Who checks less has less to do.
- "–" means that the entry has nothing of the kind. The library may have it elsewhere, often in its agent loop.
"""


def render(results: dict[str, Any]) -> str:
    """Return RESULTS.md."""
    subjects = results["subjects"]
    measured = f"Measured: {results['machine']}; {results['date']}; {results['rounds']} rounds.\n"
    if results["rounds"] < FEW or results["load"] > QUIET:
        measured += (
            f"\n**Read the order of magnitude, and no more: the run had {results['rounds']} rounds, and the machine a load of"
            f" {results['load']} before it began.** A run to publish has at least {FEW}, on a machine that does nothing else.\n"
        )
    parts = [
        "# functool beside its peers\n",
        "Written by `make bench-peers`. Do not edit it: run it again.\n",
        section("before", HEAD, measured, behind(subjects)),
        "## Ratios to the floor\n",
        section("ratios", ratios(subjects)),
        picture("calls", "Times the floor, by kind of call"),
        "## Right answers\n",
        section("marks", marks(subjects)),
        "## Import, memory, leaks\n",
        section("weights", weights(subjects, results)),
        "## Growth\n",
        picture("tools", "Seconds to define tools, by their number"),
        picture("sizes", "Seconds of a call, by the size of its argument"),
        section("growth", GROWTH, growth(subjects)),
        "## Entries and versions\n",
        section("entries", entries(subjects)),
    ]
    return "\n".join(parts)


def section(name: str, *parts: str) -> str:
    """Return a part that docs/benchmarks.md shows, between the marks that it is found by."""
    marked = (f"<!-- --8<-- [start:{name}] -->\n", *parts, f"<!-- --8<-- [end:{name}] -->\n")
    return "\n".join(marked)


def picture(name: str, words: str) -> str:
    """Return the line that shows a plot; docs/benchmarks.md has lines of its own."""
    return f"![{words}](../docs/assets/peers-{name}.svg)\n"


def label(name: str) -> str:
    """Return how a subject is called in text."""
    return name.strip("_").replace("_", "-")


def short(value: float) -> str:
    """Return a number with three digits that count, and no power of ten."""
    return f"{value:.3g}" if value < 100 else f"{value:,.0f}"


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def ratios(subjects: dict[str, Any]) -> str:
    """Return the table of ratios, with quartiles; the best of a row is bold."""
    rows = []
    for work, title in COLUMNS.items():
        known = [
            found["ratios"][work]["median"]
            for found in subjects.values()
            if work in found["ratios"]
        ]
        cells = [_ratio(found, work, min(known, default=0)) for found in subjects.values()]
        rows.append([title, *cells])
    return table(["", *map(label, subjects)], rows)


def _ratio(found: dict[str, Any], work: str, best: float) -> str:
    if work not in found["ratios"]:
        return "–" if "nothing of the kind" in found["failed"].get(work, "") else "failed"
    spread = found["ratios"][work]
    middle = short(spread["median"])
    middle = f"**{middle}**" if spread["median"] == best else middle
    return f"{middle}<br>{short(spread['q1'])}–{short(spread['q3'])}"


def marks(subjects: dict[str, Any]) -> str:
    """Return the table of right answers."""
    rows = [
        [title, *(SIGNS.get(found["marks"].get(mark), "no") for found in subjects.values())]
        for mark, title in MARKS.items()
    ]
    total = [
        str(sum(found["marks"].get(mark) is True for mark in MARKS)) for found in subjects.values()
    ]
    text = table(["", *map(label, subjects)], [*rows, ["**sum**", *total]])
    return (
        text
        + "\nA call is refused when the body does not run. An entry that raises leaves siblings, and the words for the model, to its host.\n"
    )


def weights(subjects: dict[str, Any], results: dict[str, Any]) -> str:
    """Return the table of what is measured once a process."""
    rows = []
    for name, found in subjects.items():
        leaks = found["leaks"]
        rows.append(
            [
                label(name),
                f"{found['seconds']['import'] * 1000:.0f}"
                if "import" in found["seconds"]
                else "failed",
                f"{found['memory']:.1f}" if found["memory"] is not None else "failed",
                f"{leaks['megabytes']:.1f}" if leaks else "failed",
                f"{leaks['objects']:.2f}" if leaks else "failed",
            ]
        )
    head = [
        "",
        "import, ms of CPU, interpreter included",
        f"MB of {results['tools']:,} tools",
        f"MB after {results['calls']:,} calls",
        "objects left by 1,000 calls",
    ]
    return table(head, rows)


def growth(subjects: dict[str, Any]) -> str:
    """Return the numbers behind the plots: seconds."""
    text = ""
    for kind, title in (
        ("define", "Microseconds to define a tool, by how many are defined"),
        ("size", "Milliseconds of a call, by characters of its argument"),
    ):
        scale = 1e6 if kind == "define" else 1e3
        measured = next(
            (found["growth"] for found in subjects.values() if kind in found["growth"]), {}
        )
        numbers = list(measured.get(kind, {}))
        rows = [
            [
                label(name),
                *(
                    short(found["growth"][kind][each] * scale)
                    if each in found["growth"].get(kind, {})
                    else "failed"
                    for each in numbers
                ),
            ]
            for name, found in subjects.items()
        ]
        floor = measured.get(f"{kind} floor", {})
        rows.append(["floor", *(short(floor[each] * scale) for each in numbers)])
        text += f"{title}:\n\n" + table(["", *(f"{int(each):,}" for each in numbers)], rows) + "\n"
    return text


def entries(subjects: dict[str, Any]) -> str:
    """Return what was called, and the versions."""
    rows = []
    for name, found in subjects.items():
        about = found["about"]
        versions = ", ".join(
            f"{package} {number}" for package, number in about.get("versions", {}).items()
        )
        rows.append([label(name), f"`{about.get('entry', '')}`", versions])
    text = table(["", "entry", "versions"], rows)
    failed = [
        f"- {label(name)}, {work}: {reason}"
        for name, found in subjects.items()
        for work, reason in found["failed"].items()
        if "nothing of the kind" not in reason
    ]
    return text + ("\nWhat failed:\n\n" + "\n".join(failed) + "\n" if failed else "")


def behind(subjects: dict[str, Any]) -> str:
    """Say first where functool is not the fastest, by how much, and what the faster ones leave out."""
    ours = subjects.get("functool_")
    if ours is None:
        return ""
    lines = []
    for work, title in COLUMNS.items():
        faster = sorted(
            (found["ratios"][work]["median"], name)
            for name, found in subjects.items()
            if work in found["ratios"]
            and work in ours["ratios"]
            and found["ratios"][work]["median"] < ours["ratios"][work]["median"]
        )
        if faster:
            whole = ours["ratios"][work]["median"]
            told = ", ".join(f"{label(name)} takes {value / whole:.0%}" for value, name in faster)
            lines.append(f"- **{title}**: of functool's time, {told}. {REASONS.get(work, '')}")
    lighter = sorted(
        (found["memory"], label(name))
        for name, found in subjects.items()
        if found["memory"] is not None and ours["memory"] and found["memory"] < ours["memory"]
    )
    if lighter:
        told = ", ".join(f"{name} {value:.1f} MB" for value, name in lighter)
        lines.append(f"- **memory**: {told}; functool {ours['memory']:.1f} MB.")
    equals = [
        label(name)
        for name, found in subjects.items()
        if found is not ours and _right(found) >= _right(ours)
    ]
    return (
        "## Where functool is behind\n\n"
        + ("\n".join(line.rstrip() for line in lines) or "In none of these measures.")
        + f"\n\nOf these, {', '.join(equals) or 'none'} does all the work that functool does (see below).\n"
    )


def _right(found: dict[str, Any]) -> set[str]:
    """Return the marks that a subject has."""
    return {mark for mark in MARKS if found["marks"].get(mark) is True}
