"""A record as lines of JSON: `functool journal export` prints it, and `recorded` stores it.

The first line names the format. A line with `definition` is the definition of a tool in a run. A
line with `arguments` is a call.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from functool.layers.journal_errors import JournalError, newer_format
from functool.layers.journal_replay import Entry, arguments_text

VERSION = 1
_HEADER = {"format": "functool calls", "version": VERSION}


@dataclass(slots=True)
class Recording:
    """The record of one run: the definitions by tool, as JSON texts, and the calls in order."""

    definitions: dict[str, str] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)


def lines_of(recordings: Mapping[str, Recording], times: bool = False) -> Iterator[str]:
    """Yield the lines of some runs. Without times, equal records give equal lines."""
    yield json.dumps(_HEADER)
    for run, recording in recordings.items():
        for definition in recording.definitions.values():
            yield json.dumps({"run": run, "definition": json.loads(definition)})
        for entry in recording.entries:
            line: dict[str, Any] = {"run": run, "key": entry.key, "tool": entry.tool}
            line |= {"id": entry.call_id, "arguments": json.loads(entry.arguments)}
            line["result"] = None if entry.result is None else json.loads(entry.result)
            if times:
                line["started"] = entry.started
            yield json.dumps(line)


def recordings_in(lines: Iterable[str], name: str) -> dict[str, Recording]:
    """Return the runs that `lines_of` wrote.

    Args:
        lines: The lines.
        name: The name of the lines in errors.

    Raises:
        JournalError: The lines have another format, or a later version of it.
    """
    found: dict[str, Recording] = {}
    number = 0
    try:
        for number, text in enumerate(filter(str.strip, lines), 1):
            line = json.loads(text)
            if number == 1:
                _check(line, name)
            elif "definition" in line:
                recording = found.setdefault(line["run"], Recording())
                form = line["definition"]
                recording.definitions[form["name"]] = json.dumps(form)
            else:
                found.setdefault(line["run"], Recording()).entries.append(_entry(line))
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise JournalError(f"{name}, line {number}: this is no recorded call ({error})") from error
    if not number:
        raise JournalError(f"{name} is empty: delete it to record anew")
    return found


def _check(line: Any, name: str) -> None:
    if line.get("format") != _HEADER["format"]:
        raise JournalError(f"{name} holds no recorded calls")
    if line["version"] > VERSION:
        raise newer_format(name, line["version"], VERSION)


def _entry(line: Mapping[str, Any]) -> Entry:
    result = line["result"]
    return Entry(
        line["key"],
        line["tool"],
        line["id"],
        arguments_text(line["arguments"]),
        None if result is None else json.dumps(result),
        float(line.get("started", 0)),
    )
