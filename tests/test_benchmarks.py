"""`python -m benchmarks peers`: its numbers come from fair turns and right answers, and its page says where functool is behind."""

import json
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from benchmarks import _record, durable
from benchmarks.peers import environments, figures, measures, packages_of, parser, report, subjects
from benchmarks.peers.marks import TITLES
from benchmarks.peers.measures import Findings, spread, turns
from benchmarks.peers.processes import WorkFailed, process

ROOT = Path(__file__).parent.parent
PYTHON = Path(sys.executable)


@pytest.fixture(scope="module")
def worker():
    """functool's own worker, in this environment."""
    with process(PYTHON, "functool_", 0.001) as opened:
        yield opened


def test_functool_has_every_mark(worker):
    """functool answers each of the questions rightly that its peers are asked, too."""
    assert worker.ask("marks") == dict.fromkeys(TITLES, True)


@pytest.mark.parametrize("work", measures.WORKS)
def test_a_sample_times_subject_and_floor(worker, work):
    """Each kind of call is answered rightly before it is timed, and its floor in the same process."""
    worker.ask("prepare", work=work)
    taken = worker.ask("time", work=work, floor_first=True)

    assert set(taken) == {"ours", "floor"}
    assert all(seconds > 0 for seconds in taken.values())


def test_growth_memory_and_leaks_are_measured(worker):
    """The measures of a fresh process give numbers of the right kind."""
    assert worker.ask("define", count=3)["ours"] > 0
    assert worker.ask("size", size=5_000)["ours"] > 0
    assert isinstance(worker.ask("memory", count=20), float)
    assert set(worker.ask("leaks", calls=200)) == {"megabytes", "objects"}


def test_a_worker_that_cannot_start_says_why():
    """A subject whose library is missing is a failure with its own words, not a hang."""
    with process(PYTHON, "strands", 0.001) as opened:
        with pytest.raises(WorkFailed, match="strands"):
            opened.ask("about")


def test_functions_are_new_each_time():
    """Definitions are timed over functions that no cache has seen."""
    from benchmarks.peers.workload import fresh_functions

    (first, second), types = fresh_functions(0, 2)

    assert first.__name__ != second.__name__
    assert first.__annotations__["mode"] != second.__annotations__["mode"]
    assert types[0].__annotations__ != types[1].__annotations__


def test_turns_are_fair():
    """Over the rounds everybody is first equally often, and nobody is left out of one."""
    names = ["a", "b", "c"]
    rounds = [turns(names, number) for number in range(12)]

    assert all(sorted(order) == names for order in rounds)
    assert {name: sum(order[0] == name for order in rounds) for name in names} == {
        "a": 4,
        "b": 4,
        "c": 4,
    }


def test_spread():
    """A cell is the median with its quartiles, also of a single sample."""
    assert spread([1, 2, 3, 4, 5]) == {"q1": 2, "median": 3, "q3": 4}
    assert spread([7]) == {"q1": 7, "median": 7, "q3": 7}


def test_every_subject_is_pinned_and_documented():
    """Each subject names packages that pins.txt pins, and is read without importing it."""
    for name in subjects.names():
        lines = environments.requirements(packages_of(name))
        assert all("==" in line for line in lines)
        assert any(line.startswith("pydantic==") for line in lines)
    assert subjects.names()[0] == "functool_"


def test_environments_are_outside_of_the_repository(monkeypatch, tmp_path):
    """An environment lies in the user's cache, or where FUNCTOOL_BENCH_CACHE says, by peer and pins."""
    monkeypatch.delenv("FUNCTOOL_BENCH_CACHE", raising=False)
    assert ROOT not in environments.environment_of("mcp", ("mcp",)).parents

    monkeypatch.setenv("FUNCTOOL_BENCH_CACHE", str(tmp_path))
    one = environments.environment_of("mcp", ("mcp",))
    assert one.parent == tmp_path
    assert one != environments.environment_of("mcp", ("fastmcp",))


def test_an_unknown_peer_is_refused(capsys):
    """`--peers` takes names with dashes, and lists the known ones for any other."""
    assert parser().parse_args(["--peers", "pydantic-ai,mcp"]).peers == ["pydantic_ai", "mcp"]

    with pytest.raises(SystemExit):
        parser().parse_args(["--peers", "nobody"])
    assert "openai_agents" in capsys.readouterr().err


def test_other_benchmarks_take_no_options():
    """An option behind a benchmark that has none is an error, not something that is ignored."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "core", "--quick"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 2
    assert "takes no options" in done.stderr


def findings(ratio, marks, memory):
    found = Findings(about={"entry": "call", "versions": {"x": "1"}}, marks=marks, memory=memory)
    found.ratios["add"] = spread([ratio])
    return vars(found)


def test_the_page_says_first_where_functool_is_behind():
    """A faster peer, and a lighter one, is named with its number, and whether it does the same work."""
    every = dict.fromkeys(TITLES, True)
    results = {
        "machine": "m", "date": "d", "load": 0.1, "rounds": 31, "tools": 1, "calls": 1,
        "subjects": {
            "functool_": findings(4.0, every, 10.0),
            "mcp": findings(2.0, {**every, "nan": False}, 5.0),
            "strands": findings(8.0, every, 20.0),
        },
    }  # fmt: skip
    text = report.render(results)
    behind = text[text.index("## Where functool is behind") : text.index("## Ratios")]

    assert "**2 scalars**: of functool's time, mcp takes 50%" in behind
    assert "mcp 5.0 MB; functool 10.0 MB" in behind
    assert "strands does all the work" in behind
    assert "order of magnitude" not in text
    for busy in ({"rounds": 5}, {"load": 3.0}):
        assert "order of magnitude" in report.render({**results, **busy})
    assert text.index("These numbers are biased") < text.index("## Ratios to the floor")


def test_published_results_are_whole():
    """RESULTS.json has every subject with every kind of number, and RESULTS.md is made of it."""
    results = json.loads((ROOT / "benchmarks/RESULTS.json").read_text(encoding="utf-8"))

    assert sorted(results["subjects"]) == sorted(subjects.names())
    for name, found in results["subjects"].items():
        assert set(found["marks"]) == set(TITLES), name
        assert {"define", "add", "import"} <= set(found["ratios"]), name
        assert found["memory"] is not None and found["leaks"], name
    assert report.render(results) == (ROOT / "benchmarks/RESULTS.md").read_text(encoding="utf-8")


def test_the_readme_shows_the_published_figures():
    """README's table is what `python -m benchmarks peers --render` makes of RESULTS.json."""
    results = json.loads((ROOT / "benchmarks/RESULTS.json").read_text(encoding="utf-8"))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")

    assert figures.placed(readme, results) == readme


def test_a_readme_without_a_place_for_figures_is_refused():
    """Figures are never written over something else."""
    with pytest.raises(ValueError, match="the README has no"):
        figures.placed("# functool\n", {})


def test_the_pages_of_engines_are_made_of_their_record():
    """Each figure of docs/durable.md, docs/ray.md and docs/temporal.md is one that a benchmark wrote, with machine and versions."""
    record = _record.read()

    assert sorted(record) == sorted(durable.MEASURES)
    for entry in record.values():
        assert {"date", "machine", "load", "versions"} <= entry["measured"].keys()
        assert {"Python", "pydantic"} <= entry["measured"]["versions"].keys()
    for name, text in durable.PAGES.items():
        page = (durable.DOCS / name).read_text(encoding="utf-8")
        assert page.count(durable.BEGIN) == page.count(durable.END) == 1
        assert durable.made(page, text(record)) == page


def test_a_benchmark_of_an_engine_writes_its_own_entry(tmp_path, monkeypatch):
    """The figures of the others stay, and the place where they were measured stands beside each."""
    monkeypatch.setattr(_record, "FILE", tmp_path / "DURABLE.json")
    _record.write("ray", {"us": 3.5}, ["pydantic"])
    _record.write("journal", {"new_ms": 1.0})
    record = _record.read()

    assert (record["ray"]["us"], record["journal"]["new_ms"]) == (3.5, 1.0)
    assert record["ray"]["measured"]["versions"]["Python"] == platform.python_version()
    assert _record.measured_on(record["ray"]).endswith(
        f"Python {platform.python_version()}, pydantic {version('pydantic')}"
    )


@pytest.mark.parametrize(
    ("seconds", "told"), [(1e-4, "about 33 minutes"), (2e-4, "5,000 calls a second")]
)
def test_the_estimate_follows_the_figures(seconds, told):
    """A million rollouts are sized from what a call was measured to cost."""
    text = durable.estimate(seconds)

    assert told in text
    assert text.startswith("**An estimate, not a measurement:**")
