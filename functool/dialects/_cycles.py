"""Find the recursive definitions of a JSON Schema: providers treat them in their own ways."""

from __future__ import annotations

from functool.schema.json_schema import DEFINITIONS, Names, walk


def edges_of(names: Names) -> dict[str, set[str]]:
    """Return the definitions that a schema uses: by the name of each, those that it refers to."""
    edges: dict[str, set[str]] = {}
    todo = ["#"]
    while todo:
        name = todo.pop()
        if name not in edges:
            own = {k: v for k, v in names.target(name).items() if k not in DEFINITIONS}
            refs = (node["$ref"] for node in walk(own) if "$ref" in node)
            edges[name] = {names.of(ref) for ref in refs if isinstance(ref, str)}
            todo += edges[name]
    return edges


def cycles(names: Names) -> list[str]:
    """Return the names of the recursive definitions that a schema uses, found in linear time."""
    edges = edges_of(names)
    # This is Tarjan's algorithm. `path` holds the names whose cycles are not complete yet, and
    # `lowest` the lowest place in it that a name leads to.
    path, place, lowest = list[str](), dict[str, int](), dict[str, int]()
    ended, complete, found, todo = set[str](), set[str](), set[str](), [*edges]
    while todo:
        name = todo[-1]
        if name not in place:
            place[name] = lowest[name] = len(path)
            path.append(name)
            todo += [other for other in edges[name] if other not in place]
        elif todo.pop() not in ended:
            ended.add(name)
            lowest[name] = min(lowest[other] for other in {name, *edges[name]} - complete)
            if lowest[name] == place[name]:
                cycle = {path.pop() for _ in path[place[name] :]}
                complete |= cycle
                found |= cycle if len(cycle) > 1 else cycle & edges[name]
    return [name for name in edges if name in found]
