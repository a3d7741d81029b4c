"""The three plots, as SVG that reads on light and dark pages."""

from pathlib import Path
from typing import Any

from benchmarks.peers.report import COLUMNS, label

SHOWN = ("define", "add", "search", "place", "sync", "refused", "parallel")
INK = "#767676"
STYLES = ("-", "--", ":")
MARKERS = "osD^vP*X<>"


def draw(subjects: dict[str, Any], directory: Path) -> None:
    """Write peers-calls.svg, peers-tools.svg and peers-sizes.svg into a directory."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update(
        {
            "svg.fonttype": "none",
            "svg.hashsalt": "functool",
            **{
                f"{name}color": INK
                for name in ("text.", "axes.edge", "axes.label", "xtick.", "ytick.")
            },
        }
    )
    directory.mkdir(parents=True, exist_ok=True)
    _calls(subjects, directory / "peers-calls.svg")
    for kind, axis, unit, file in (
        ("define", "number of tools", "seconds to define them all", "peers-tools.svg"),
        ("size", "characters of the argument", "seconds of a call", "peers-sizes.svg"),
    ):
        _growth(subjects, kind, axis, unit, directory / file)


def _save(figure: Any, axes: Any, file: Path) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, color=INK, alpha=0.2, linewidth=0.5)
    figure.savefig(file, transparent=True, bbox_inches="tight", metadata={"Date": None})
    # A line that ends in a space would be changed by editors and hooks.
    lines = file.read_text(encoding="utf-8").splitlines()
    file.write_text("\n".join(line.rstrip() for line in lines) + "\n", encoding="utf-8")


def _line(number: int, name: str) -> dict[str, Any]:
    """Return how the line of a subject looks; functool's is thick and first."""
    ours = name == "functool_"
    return {
        "color": "#d7263d" if ours else f"C{number % 10}",
        "linewidth": 2.5 if ours else 1.2,
        "linestyle": "-" if ours else STYLES[number % 3],
        "marker": "o",
        "markersize": 4 if ours else 2.5,
        "label": label(name),
        "zorder": 3 if ours else 2,
    }


def _calls(subjects: dict[str, Any], file: Path) -> None:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 4.5))
    rows = SHOWN[::-1]
    for number, (name, found) in enumerate(subjects.items()):
        known = [
            (row, found["ratios"][work]) for row, work in enumerate(rows) if work in found["ratios"]
        ]
        heights = [row + 0.3 - 0.06 * number for row, _ in known]
        look = {**_line(number, name), "linestyle": "", "marker": MARKERS[number % len(MARKERS)]}
        look["markersize"] = 8 if name == "functool_" else 5
        axes.plot([spread["median"] for _, spread in known], heights, **look)
    axes.axvline(1, color=INK, linewidth=1)
    axes.set_xscale("log")
    axes.set_yticks(range(len(rows)), [COLUMNS[work] for work in rows])
    axes.set_xlabel("times the floor (log scale, left is faster)")
    axes.legend(frameon=False, bbox_to_anchor=(1, 1), loc="upper left")
    _save(figure, axes, file)
    pyplot.close(figure)


def _growth(subjects: dict[str, Any], kind: str, axis: str, unit: str, file: Path) -> None:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 4.5))
    floor: dict[str, float] = {}
    for number, (name, found) in enumerate(subjects.items()):
        values = found["growth"].get(kind, {})
        floor = floor or found["growth"].get(f"{kind} floor", {})
        if values:
            axes.plot(*_points(values, kind), **_line(number, name))
    if floor:
        axes.plot(*_points(floor, kind), color=INK, linewidth=1, label="floor")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(axis)
    axes.set_ylabel(unit)
    axes.legend(frameon=False, bbox_to_anchor=(1, 1), loc="upper left")
    _save(figure, axes, file)
    pyplot.close(figure)


def _points(values: dict[str, float], kind: str) -> tuple[list[int], list[float]]:
    numbers = [int(each) for each in values]
    if kind == "define":
        return numbers, [values[str(each)] * each for each in numbers]
    return numbers, [values[str(each)] for each in numbers]
