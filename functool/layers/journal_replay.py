"""Answer calls from a record: by tool, id and arguments, then by tool and arguments in order."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import replace
from difflib import SequenceMatcher
from typing import Any, NamedTuple

from functool import ApprovalRequest, Context, SchemaTool, Tool, ToolCall, ToolResult
from functool.approval import defaults_of
from functool.call import changed, metadata_of
from functool.executors import in_thread
from functool.guardrails.labels import call_labels, result_labels
from functool.json_values import same_json
from functool.large import LARGE, in_thread_if
from functool.layers.journal_errors import Interrupted, NotRecorded, OutcomeUnknown
from functool.layers.journal_record import outcome_of
from functool.layers.journal_times import iso

_MAX_SHOWN = 500
"""The most characters of the nearest recorded arguments that an error shows."""

Proceed = Callable[[], Awaitable[ToolResult]]
Around = Callable[[ToolCall, Context[Any], Proceed], Awaitable[ToolResult]]


class Entry(NamedTuple):
    """One recorded call.

    `arguments` and `result` are JSON; `started` is seconds since the epoch.
    """

    key: str
    tool: str
    call_id: str
    arguments: str
    result: str | None
    started: float


class Definition(NamedTuple):
    """The definition of a tool as the text of one JSON object, and its SHA-256."""

    form: str
    digest: str


def definition_of(tool: Tool) -> Definition:
    """Return the whole definition of a tool that a model may be sent."""
    schema = tool.schema
    form = {
        "name": tool.name,
        "description": schema.description,
        "parameters": schema.parameters,
        "plain": schema.plain,
        "strict": schema.strict,
        "output": schema.output,
    }
    # Keep the order of the arguments: a replay sends a provider the same bytes as the first run.
    text = json.dumps(form)
    return Definition(text, hashlib.sha256(text.encode()).hexdigest())


def tool_from(definition: str) -> Tool:
    """Return a tool with a recorded definition and no body."""
    form = json.loads(definition)

    async def absent(arguments: dict[str, Any]) -> None:
        raise NotRecorded("This tool is a replay without a body.")

    return SchemaTool(
        form["name"],
        form["description"],
        form["plain"],
        absent,
        strict=form["strict"],
        output=form["output"],
    )


def arguments_text(arguments: Mapping[str, Any] | str) -> str:
    """Return the arguments of a call as JSON text. Equal arguments give equal text."""
    known = json.loads(arguments) if isinstance(arguments, str) else dict(arguments)
    return json.dumps(known, sort_keys=True, default=str)


def said(arguments: Mapping[str, Any] | str, defaults: Mapping[str, Any]) -> str:
    """Return the arguments of a call that differ from the defaults of its tool, as JSON text.

    A later version of the tool may have other optional arguments and other defaults. The same call
    still says the same.
    """
    known = json.loads(arguments) if isinstance(arguments, str) else arguments
    return arguments_text(
        {n: v for n, v in known.items() if n not in defaults or not same_json(v, defaults[n])}
    )


def same_call(tool: Tool, arguments: str, recorded: str, form: str) -> bool:
    """Whether recorded arguments are those of a call, perhaps of an older version of its tool.

    Args:
        tool: The tool.
        arguments: The canonical arguments of the call, as JSON text.
        recorded: Those that were recorded.
        form: The definition that the tool had then.
    """
    now, names = defaults_of(tool.schema), tool.schema.names
    # A recorded definition has the names that a model sends. The arguments have canonical ones.
    recorded_defaults = defaults_of(tool_from(form).schema).items()
    then = {**now, **{names.get(name, name): default for name, default in recorded_defaults}}
    one, other = json.loads(arguments), json.loads(recorded)
    for name in one.keys() & other.keys():
        if same_json(one[name], other[name]):
            del one[name], other[name]
    return said(one, now) == said(other, then)


class Replay:
    """Answers calls from the recorded calls of one run, and remembers which ones it has used.

    Args:
        entries: The calls, in the order in which they were recorded.
        ignore: Names of arguments in which a call may differ from the recorded one.
    """

    def __init__(self, entries: Iterable[Entry], ignore: Collection[str] = ()) -> None:
        self.entries: list[Entry] = list(entries)
        self._ignore = frozenset(ignore)
        self._answered: dict[tuple[str, str, str], Entry] = {}
        self._used: set[int] = set()
        self._lock = threading.Lock()  # Threads may share the tools.

    def around(self, tool: Tool, otherwise: Around | None = None) -> Around:
        """Return the function that answers the calls of `tool` from the record.

        `otherwise` answers a call that was not recorded. Without it such a call fails.
        """
        defaults = defaults_of(tool.schema)
        places: dict[str, list[int]] = {}
        for place, entry in enumerate(self.entries):
            if entry.tool == tool.name:
                places.setdefault(self._comparable(entry.arguments, defaults), []).append(place)

        async def replay(call: ToolCall, context: Context[Any], proceed: Proceed) -> ToolResult:
            wanted = self._comparable(arguments_text(call.arguments), defaults)
            entry = self._take(tool.name, call.id, wanted, places.get(wanted, ()))
            if entry is not None:
                return await answered(entry, context)
            if otherwise is not None:
                return await otherwise(call, context, proceed)
            # In a thread, because to compare it with thousands of calls takes seconds.
            raise NotRecorded(await in_thread(self._nearest, tool.name, wanted))

        return replay

    def _take(self, tool: str, call_id: str, wanted: str, places: Collection[int]) -> Entry | None:
        """Return an entry for a call, from the matching ones at `places`.

        An unused entry with the call's id comes first: a recorded test may use an id again. Then a
        repeated call gets its last entry. Then comes an unused entry with another id.
        """
        with self._lock:
            free = [place for place in places if place not in self._used]
            by_id = [p for p in free if call_id and self.entries[p].call_id == call_id]
            known = self._answered.get((tool, call_id, wanted)) if call_id else None
            if known is not None and not by_id:
                return known
            if not free:
                return None
            place = (by_id or free)[0]
            self._used.add(place)
            entry = self._answered[tool, call_id, wanted] = self.entries[place]
            return entry

    def _comparable(self, arguments: str, defaults: Mapping[str, Any]) -> str:
        if not defaults and not self._ignore:
            return arguments
        known = {**defaults, **json.loads(arguments)}
        return arguments_text({k: v for k, v in known.items() if k not in self._ignore})

    def _nearest(self, tool: str, wanted: str) -> str:
        """Return the message for a call that was not recorded. It names the nearest recorded one.

        Only the beginnings are compared: whole arguments of 1 MB would take hours.
        """
        same = [place for place, entry in enumerate(self.entries) if entry.tool == tool]
        if not same:
            tools = ", ".join(dict.fromkeys(entry.tool for entry in self.entries)) or "none"
            return f"No call of {tool!r} was recorded. Recorded are calls of: {tools}."

        def likeness(place: int) -> tuple[float, bool]:
            beginning = self.entries[place].arguments[:_MAX_SHOWN]
            matcher = SequenceMatcher(None, beginning, wanted[:_MAX_SHOWN])
            return matcher.ratio(), place not in self._used

        nearest = max(same, key=likeness)
        entry = self.entries[nearest]
        shown = entry.arguments
        shown = shown if len(shown) <= _MAX_SHOWN else shown[: _MAX_SHOWN - 1] + "…"
        used = ", which has been answered already" if nearest in self._used else ""
        return (
            f"This call of {tool!r} was not recorded. The nearest recorded one is {tool}({shown}),"
            f" id {entry.call_id!r}{used}."
        )


async def answered(entry: Entry, context: Context[Any]) -> ToolResult:
    """Return `stored_answer`. A large one is read in a thread, because that takes a moment."""
    return await in_thread_if(len(entry.result or "") >= LARGE, stored_answer, entry, context)


def stored_answer(entry: Entry, context: Context[Any]) -> ToolResult:
    """Return the recorded result of a call, and mark it as stored in the result's metadata.

    Raises:
        OutcomeUnknown: The call was interrupted.
        Exception: The body raised. The class is a new one with the recorded name.
    """
    if entry.result is None:
        raise OutcomeUnknown(entry.key, iso(entry.started))
    outcome = outcome_of(entry.result)
    mark: dict[str, Any] = {"key": entry.key, "stored": True}
    if outcome.is_text:
        mark["value_is_text"] = True
    note(context, mark)
    context.add_labels(result_labels(outcome.result))
    if outcome.error is not None:
        raise outcome.error
    return outcome.result


def label(call: ToolCall, context: Context[Any]) -> None:
    """Label the result to record with the untrusted tools behind the arguments of its call.

    The call may come again without the labels: after a crash, a host reads it from the model's
    message, which has none.
    """
    context.add_labels(call_labels(call))


def note(context: Context[Any], mark: Mapping[str, Any]) -> None:
    """Put `mark` into the metadata of the result, whoever answers the call."""
    context.notes.setdefault("metadata", {})["journal"] = mark


def pauses(result: ToolResult) -> bool:
    """Whether a result only says that the call waits for a person's approval.

    The metadata is the author's as well, and may hold something else under the same key.
    """
    return result.is_error and isinstance(metadata_of(result).get("approval"), ApprovalRequest)


def is_interrupted(result: ToolResult) -> bool:
    """Whether a result only says that a call was interrupted, such as one inside of this call."""
    return result.error is not None and isinstance(result.error.cause, Interrupted)


def as_interrupted(result: ToolResult) -> ToolResult:
    """Return a failed result that another process sent, so that `is_interrupted` holds for it.

    An exception does not travel with its result.
    """
    assert result.error is not None
    cause = Interrupted(result.error.message)
    return changed(result, error=replace(result.error, cause=cause))
