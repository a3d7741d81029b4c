"""Find out which changes of a tool's definition break a caller.

A call that fits the old schema of the arguments must fit the new one. A field of the old result
must be in the new one. If that cannot be decided, a change counts as breaking.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple

from functool.cli.narrowing import ANNOTATIONS, Step, joined, narrowed, resolved_in


class Change(NamedTuple):
    """One change of one tool. `breaks` says whether a caller may fail because of it."""

    tool: str
    breaks: bool
    text: str


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """Return the changes between two sets of definitions. Those that break a caller come first.

    Args:
        old: By name: `digest`, `description`, `parameters` (plain JSON Schema) and `output`, as
            `functool lock` wrote them.
        new: The present definitions, in the same form.
    """
    found = [
        Change(name, True, "it was removed" + _renamed(name, old, new))
        for name in old
        if name not in new
    ]
    found += [Change(name, False, "it is new") for name in new if name not in old]
    for name in old:
        if name in new:
            told = [*_tool_changes(name, old[name], new[name])]
            if not told and old[name].get("digest") != new[name].get("digest"):
                # For example a tool that is strict now, or a keyword that no rule here compares.
                text = "its published schema has changed, but takes the same calls"
                told.append(Change(name, False, text))
            found += told
    return sorted(found, key=lambda change: (not change.breaks, change.tool))


def _renamed(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Return a hint at the new name: that of a new tool with the same schema or a similar name."""
    added = [other for other in new if other not in old]
    same = [other for other in added if new[other]["parameters"] == old[name]["parameters"]]
    close = same if len(same) == 1 else get_close_matches(name, added, n=1)
    return f"; was it renamed to {close[0]}?" if close else ""


def _tool_changes(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    before, after = old["parameters"], new["parameters"]
    breaking = list(dict.fromkeys(narrowed(before, after)))
    for step in breaking:
        yield Change(name, True, _of_arguments(step))
    wider = dict.fromkeys(step.path for step in narrowed(after, before))
    for path in sorted(wider.keys() - {step.path for step in breaking}):
        yield Change(name, False, f"{path or 'the arguments'}: takes more than before")
    lost = list(dict.fromkeys(_output_steps(old.get("output"), new.get("output"))))
    for step in lost:
        yield Change(name, True, _of_output(step))
    if not lost and old.get("output") != new.get("output"):
        yield Change(name, False, "the schema of the result has changed, but breaks no caller")
    if old.get("description") != new.get("description"):
        yield Change(name, False, "its description has changed")
    if {*_annotations(before, "")} != {*_annotations(after, "")}:
        yield Change(name, False, "descriptions or defaults of its arguments have changed")
    # In an open object, adding or removing a name does not change which calls are accepted.
    elif not (breaking or wider) and {*before.get("properties", ())} != {
        *after.get("properties", ())
    }:
        yield Change(name, False, "has other argument names, but takes the same calls")


def _output_steps(old: Any, new: Any) -> Iterator[Step]:
    """Yield the places where a caller of the old tool may fail with the new result."""
    if old is None:
        return
    if new is None:
        yield Step("", "output")
        return
    lost = [
        path for path in _fields(old, old, "", ()) if path not in set(_fields(new, new, "", ()))
    ]
    yield from (Step(path, "field") for path in lost)
    # The old schema has to accept every new result. Additional fields break no caller.
    for step in narrowed(new, _opened(old)):
        if step.path not in lost:
            yield step


def _of_arguments(step: Step) -> str:
    where = step.path or "the arguments"
    return {
        "type": f"{where}: no longer takes the type {step.what}",
        "values": f"{where}: no longer takes {step.what}",
        "bound": f"{where}: {step.what} is tighter",
        "rule": f"{where}: {step.what} is new or has changed",
        "required": f"{where}: is required now",
        "added": f"{where}: is new and required",
        "removed": f"{where}: was removed",
        "closed": f"{where}: no longer takes anything that the schema does not name",
    }[step.rule]


def _of_output(step: Step) -> str:
    where = f"the result's {step.path}" if step.path else "the result"
    return {
        "output": "the result no longer has a schema",
        "field": f"{where} was removed",
        "type": f"{where} may be {step.what} now",
        "values": f"{where} may be {step.what} now",
        "required": f"{where} may be absent now",
        "added": f"{where} may be absent now",
    }.get(step.rule, f"{where} may be more than before")


def _fields(schema: Any, root: Any, path: str, seen: tuple[Any, ...]) -> Iterator[str]:
    """Yield the path of every field that the schema of a result names."""
    if schema in seen:
        return
    known = resolved_in(schema, root)
    seen = (*seen, schema)
    for name, part in known.get("properties", {}).items():
        yield joined(path, name)
        yield from _fields(part, root, joined(path, name), seen)
    for part in [p for key in ("anyOf", "oneOf", "allOf") for p in known.get(key, ())]:
        yield from _fields(part, root, path, seen)
    if "items" in known:
        yield from _fields(known["items"], root, f"{path}[]", seen)


def _opened(schema: Any) -> Any:
    """Return a copy of a schema in which all objects accept additional fields."""
    if isinstance(schema, list):
        return [_opened(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _opened(part)
        for key, part in schema.items()
        if not (key == "additionalProperties" and part is False)
    }


def _annotations(schema: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield the annotations of a schema with their places. A change of them breaks no caller."""
    if isinstance(schema, list):
        for place, part in enumerate(schema):
            yield from _annotations(part, f"{path}/{place}")
    elif isinstance(schema, dict):
        for key, part in schema.items():
            if key in ANNOTATIONS and not isinstance(part, dict):
                yield f"{path}/{key}", json.dumps(part, sort_keys=True)
            else:
                yield from _annotations(part, f"{path}/{key}")
