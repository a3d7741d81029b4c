"""How often a search finds the right tool: `python -m benchmarks catalog`.

3,469 real definitions and 1,187 real questions of BFCL. Each peer searches with its own search, in
an environment of its own. The rates are the shares of the wanted tools among the first five: by id,
and by name, because 1,952 definitions share a name with another one. A peer that takes long for a
query gets every seventh question only, and functool stands beside it with the same ones. Times are
those of the processor.
"""

import json
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks._measure import heading
from benchmarks.peers import packages_of
from benchmarks.peers.environments import EnvironmentFailed, prepare
from functool import Context, SchemaTool, Tool
from functool.dialects import openai
from functool.layers.catalog import FOUND, Catalog
from tests import bfcl

PEERS = ("fastmcp", "pydantic_ai", "toolregistry")
STRIDES = {"fastmcp": 7}
"""Which questions a slow peer gets: every seventh, which are of both halves. Its scan takes 0.2 s."""
LIMIT = 5
SIZES = (1_000, 10_000, 100_000)
PER_TOKEN = 4
"""Characters of JSON that are about one token."""

SCRIPT = Path(__file__).parent / "peers/searches.py"


def unique_names() -> dict[str, str]:
    """Return a name for each definition: BFCL has some names more than once."""
    names: dict[str, str] = {}
    times: dict[str, int] = {}
    for function in bfcl.lines("functions"):
        name = function["name"]
        times[name] = times.get(name, 0) + 1
        names[function["uid"]] = name if times[name] == 1 else f"{name}_{times[name]}"
    return names


def tool(name: str, function: dict[str, Any]) -> Tool:
    return SchemaTool(name, function["description"], function["parameters"], lambda a: a)


def asked(stride: int) -> list[dict[str, Any]]:
    """Return every so many-th question."""
    return bfcl.lines("questions_dev")[::stride]


def functool_search(stride: int) -> dict[str, Any]:
    names = unique_names()
    tools = [tool(names[f["uid"]], f) for f in bfcl.lines("functions")]
    begun = time.process_time()
    catalog = Catalog(tools)
    built = time.process_time() - begun
    questions = [q["question"] for q in asked(stride)]
    begun = time.process_time()
    found = [[match.tool.name for match in catalog.search(q, LIMIT)] for q in questions]
    return {
        "found": found,
        "built": built,
        "query": (time.process_time() - begun) / len(questions),
    }


def peer_search(peer: str, stride: int) -> dict[str, Any]:
    python = prepare(peer, packages_of(peer))
    names = unique_names()
    keys = ("description", "parameters")
    tools = [{"name": names[f["uid"]], **{k: f[k] for k in keys}} for f in bfcl.lines("functions")]
    questions = [q["question"] for q in asked(stride)]
    given = json.dumps({"tools": tools, "questions": questions, "limit": LIMIT})
    done = subprocess.run(
        [str(python), str(SCRIPT), peer], input=given, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise EnvironmentFailed(done.stderr.strip().splitlines()[-1])
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def rates(
    found: list[list[str]], keep: Callable[[int], bool], stride: int = 1
) -> tuple[float, float]:
    """Return the shares of wanted tools that were found, by id and by name.

    `keep` chooses questions by their number among all; `found` has every `stride`-th.
    """
    names = unique_names()
    plain = {names[f["uid"]]: f["name"] for f in bfcl.lines("functions")}
    ids, by_name, count = 0.0, 0.0, 0
    for place, question in enumerate(asked(stride)):
        if not keep(place * stride):
            continue
        wanted = {names[uid] for uid in question["functions"]}
        wanted_names = {plain[name] for name in wanted}
        top = found[place][:LIMIT]
        ids += len(wanted.intersection(top)) / len(wanted)
        by_name += len(wanted_names & {plain[name] for name in top}) / len(wanted_names)
        count += 1
    return ids / count, by_name / count


def show(name: str, search: Callable[[int], dict[str, Any]], stride: int = 1) -> None:
    label = name if stride == 1 else f"{name} ({len(asked(stride))} questions)"
    try:
        result = search(stride)
    except EnvironmentFailed as failure:
        print(f"{label:<26} not measured: {failure}", flush=True)
        return
    cells = [rates(result["found"], keep, stride) for keep in (lambda n: True, even, odd)]
    shown = "   ".join(f"{ids:.3f} / {by_name:.3f}" for ids, by_name in cells)
    print(
        f"{label:<26} {shown}   {result['built']:7.2f} s {result['query'] * 1000:9.2f} ms",
        flush=True,
    )


def even(number: int) -> bool:
    return number % 2 == 0


def odd(number: int) -> bool:
    return number % 2 == 1


def show_sizes() -> None:
    functions = bfcl.lines("functions")
    questions = [q["question"] for q in bfcl.lines("questions_dev")[:200]]
    print("\ntools      index built    mean query")
    for size in SIZES:
        tools = [
            tool(f"{f['name']}_{n}", f)
            for n, f in ((n, functions[n % len(functions)]) for n in range(size))
        ]
        begun = time.process_time()
        catalog = Catalog(tools)
        built = time.process_time() - begun
        begun = time.process_time()
        for question in questions:
            catalog.search(question)
        each = (time.process_time() - begun) / len(questions) * 1000
        print(f"{size:<8,} {built:9.2f} s {each:10.2f} ms", flush=True)


def show_tokens() -> None:
    names = unique_names()
    catalog = Catalog(tool(names[f["uid"]], f) for f in bfcl.lines("functions"))
    context = Context()
    context.state[FOUND] = [
        match.tool.name for match in catalog.search("weather forecast for a city")
    ]
    print("\ndefinitions of one turn (about 4 characters a token)")
    for label, tools in (
        ("all tools", catalog.tools),
        ("toolset(context), five found", catalog.toolset(context)),
        ("fixed()", catalog.fixed()),
    ):
        size = len(json.dumps(openai.definitions(tools)))
        print(f"{label:<30} {size // PER_TOKEN:>9,} tokens")


def main() -> None:
    print(heading())
    print(
        f"share of wanted tools among the first five, by id / by name; {len(asked(1)):,} questions"
    )
    print(f"{'':<26} {'all':<15} {'even half':>15} {'odd half':>16}   {'index':>9} {'query':>12}")
    show("functool", functool_search)
    for peer in PEERS:
        search = partial(peer_search, peer)
        if stride := STRIDES.get(peer):
            show("functool", functool_search, stride)
            show(peer, search, stride)
        else:
            show(peer, search)
    show_tokens()
    show_sizes()
