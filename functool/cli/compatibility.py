"""Find out which changes of a tool's definition break a caller.

A call that fits the old schema of the arguments must fit the new one. A field of the old result
must be in the new one. If that cannot be decided, a change counts as breaking.
"""

from __future__ import annotations

import json
from collections import deque
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
    gone = [*_Fields(old, new).lost([old], [new], "")]
    yield from gone
    lost = {step.path for step in gone if step.rule == "field"}
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
        "again": f"{where}: has changed like {step.what}",
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
        "again": f"{where} has changed like {step.what}",
    }.get(step.rule, f"{where} may be more than before")


class _Fields:
    """Finds the fields that the schema of a result no longer names.

    Types that refer to one another lead to the same schemas by any number of paths. So what is lost
    behind a reference is told at the first path to it. At another one, a step refers to that path.
    """

    def __init__(self, old_root: Any, new_root: Any) -> None:
        self._roots = (old_root, new_root)
        self._seen: set[str] = set()
        self._told: dict[str, str] = {}

    def lost(self, old: list[Any], new: list[Any], path: str) -> Iterator[Step]:
        """Yield the places of fields that one of `old` names and none of `new` does."""
        pair = json.dumps([old, new])
        if pair in self._told:
            yield Step(path, "again", self._told[pair] or "the whole")
        if pair in self._seen:
            return
        if '"$ref"' in pair:  # Without a reference, a schema has no more paths than parts.
            self._seen.add(pair)
        loses = False
        had, has = _members(old, self._roots[0]), _members(new, self._roots[1])
        for step in self._inside(had, has, path):
            loses = True
            yield step
        if loses and pair in self._seen:
            self._told[pair] = path

    def _inside(
        self, old: list[dict[str, Any]], new: list[dict[str, Any]], path: str
    ) -> Iterator[Step]:
        for name in dict.fromkeys(name for part in old for name in part.get("properties", ())):
            place, has = joined(path, name), _named(name, new)
            if not has:
                yield Step(place, "field")
            else:
                yield from self.lost(_named(name, old), has, place)
        if items := [part["items"] for part in old if "items" in part]:
            found = [part["items"] for part in new if "items" in part]
            yield from self.lost(items, found, f"{path}[]")


def _members(schemas: list[Any], root: Any) -> list[dict[str, Any]]:
    """Return schemas without their references, with the members of their unions."""
    found: list[dict[str, Any]] = []
    waiting = deque(schemas)
    while waiting:
        known = resolved_in(waiting.popleft(), root)
        if known not in found:
            found.append(known)
            waiting.extend(p for key in ("anyOf", "oneOf", "allOf") for p in known.get(key, ()))
    return found


def _named(name: str, schemas: list[dict[str, Any]]) -> list[Any]:
    """Return the schemas of one property."""
    return [part["properties"][name] for part in schemas if name in part.get("properties", ())]


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
