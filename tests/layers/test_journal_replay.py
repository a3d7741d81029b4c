"""Replay: answers from the record of a run alone."""

import asyncio
import contextlib
import itertools
import threading
from datetime import date
from typing import Annotated

import pytest
from pydantic import Field

from functool import (
    DefinitionError,
    FunctionTool,
    GuardrailError,
    ToolCall,
    ToolError,
    Toolset,
    hide_errors,
)
from functool.layers import journal_replay
from functool.layers.journal import JournalError
from functool.layers.journal_replay import definition_of, tool_from
from tests.support import call


def ask(tools, name, id="", **arguments):
    return tools.call_sync(ToolCall(name=name, arguments=arguments, id=id))


def counting(answers=None):
    """A tool whose answers differ from call to call."""
    numbers = itertools.count(1)

    @FunctionTool
    def next_one(about: str, limit: int = 3) -> dict:
        """Find the next one.

        Args:
            about: What it is about.
        """
        return {"about": about, "number": next(numbers)}

    return next_one


def recorded_run(journal):
    """Record three calls, two of them alike, and return what answers from the record."""
    tools = journal.once(Toolset([counting()]), run="r")
    for id, about in (("a", "cats"), ("b", "cats"), ("c", "dogs")):
        assert ask(tools, "next_one", id, about=about).success
    return journal.replay("r")


def numbers(tools, *calls, **more):
    """The numbers that calls of the tool get: pairs of an id and what it is about."""
    answers = [ask(tools, "next_one", id, about=about, **more) for id, about in calls]
    return [answer.value["number"] for answer in answers]


def test_a_run_is_answered_from_its_record_alone(journal):
    """Without the tools, each recorded call is answered as it was, and marked."""
    tools = recorded_run(journal)

    first = ask(tools, "next_one", "c", about="dogs")

    assert first.metadata["journal"] == {"key": "r/next_one/c", "stored": True}
    assert first.value["number"] == 3 and numbers(tools, ("a", "cats")) == [1]


def test_a_call_is_matched_by_id_then_in_order(journal):
    """An id that was recorded with these arguments gets its answer; others get the rest in order."""
    tools = recorded_run(journal)

    asked = [(id, "cats") for id in ("b", "x", "x", "b")]

    assert numbers(tools, *asked, limit=3) == [2, 1, 1, 2]


def test_calls_without_ids_are_answered_in_order(journal):
    """Calls that have no ids get the recorded answers one after another."""
    tools = recorded_run(journal)

    assert numbers(tools, ("", "cats"), ("", "cats")) == [1, 2]
    assert ask(tools, "next_one", about="cats").error.type == "NotRecorded"


def test_a_call_that_was_not_recorded_shows_the_nearest(journal):
    """The error names the nearest recorded call of the tool, with its arguments and id."""
    tools = recorded_run(journal)

    error = ask(tools, "next_one", about="cat").error

    assert error.type == "NotRecorded"
    assert 'next_one({"about": "cats", "limit": 3}), id \'a\'' in error.message
    ask(tools, "next_one", "c", about="dogs")
    assert "answered already" in ask(tools, "next_one", "d", about="dogs").text
    assert ask(tools, "next_two").error.type == "UnknownToolError"


def test_long_arguments_are_cut_in_the_error(journal):
    """The error about a call that was not recorded stays short."""
    tools = journal.once(Toolset([counting()]), run="r")
    ask(tools, "next_one", "a", about="x" * 5_000)

    assert len(ask(journal.replay("r"), "next_one", about="y").text) < 800


def test_a_run_that_was_not_recorded_is_an_error(journal):
    """The error lists the runs there are."""
    recorded_run(journal)

    with pytest.raises(JournalError, match="nothing is recorded of the run 's'; runs: r"):
        journal.replay("s")


def test_replayed_tools_say_what_the_real_ones_said(journal):
    """Name, description, schemas and strictness are the recorded ones."""

    @FunctionTool(strict=True)
    def plan(day: date, tags: dict[str, int], note: str | None = None) -> list[str]:
        """Plan a day."""
        return [day.isoformat(), *tags]

    kept = journal.once(plan, run="r")
    call(kept, {"day": "2026-01-02", "tags": {"a": 1}}, id="1")
    [replayed] = journal.replay("r").values()

    assert repr(replayed.schema) == repr(plan.schema)
    answer = call(replayed, {"day": "2026-01-02", "tags": {"a": 1}})
    assert answer.value == ["2026-01-02", "a"]


def test_tools_that_are_given_keep_their_guardrails(journal):
    """With the tools themselves, their guardrails and error functions act in the replay, and no body runs."""
    ran = []

    def refuse_birds(call, context):
        if call.arguments["about"] == "birds":
            raise GuardrailError("no birds")

    @FunctionTool(input_guardrails=[refuse_birds], on_error_func=hide_errors)
    def find(about: str) -> str:
        ran.append(about)
        raise ValueError("password")

    tools = Toolset([find])
    ask(journal.once(tools, run="r"), "find", "1", about="cats")
    replayed = journal.replay("r", tools)

    assert ask(replayed, "find", "1", about="cats").text == "The tool failed unexpectedly."
    assert ask(replayed, "find", "2", about="birds").text == "no birds"
    assert ran == ["cats"]


def test_a_new_default_under_an_alias_changes_no_recorded_call(journal):
    """An argument that the tool got since the recording has its default in the recorded calls."""
    recorded_run(journal)

    def next_one(
        about: str, limit: int = 3, order: Annotated[str, Field(alias="sort")] = "new"
    ) -> dict:
        raise AssertionError("a replay runs nothing")

    tools = journal.replay("r", Toolset([FunctionTool(next_one)]))
    assert numbers(tools, ("a", "cats"), ("c", "dogs")) == [1, 3]
    assert numbers(tools, ("b", "cats"), sort="new") == [2]
    assert ask(tools, "next_one", "a", about="cats", sort="old").error.type == "NotRecorded"


def test_failures_and_unknown_calls_are_replayed(journal):
    """A recorded failure fails again, and a call that was interrupted is still unknown."""

    @FunctionTool
    async def work(how: str) -> None:
        raise ToolError("sorry", details={"code": 7}) if how == "fails" else asyncio.CancelledError

    tools = journal.once(Toolset([work]), run="r")
    ask(tools, "work", "1", how="fails"), ask(tools, "work", "2", how="hangs")
    replayed = journal.replay("r")

    assert ask(replayed, "work", how="fails").error.details == {"code": 7}
    assert ask(replayed, "work", how="hangs").error.type == "OutcomeUnknown"


def test_what_was_not_recorded_may_run_for_real(journal):
    """With strict=False such a call runs, is appended to the run, and is recorded from then on."""
    recorded_run(journal)
    live = counting()
    tools = journal.replay("r", Toolset([live]), strict=False)

    asked = [("a", "cats"), ("a", "birds"), ("", "birds"), ("z", "fish")]

    assert numbers(tools, *asked) == [1, 1, 2, 3]
    entries = [(e.call_id, e.arguments["about"]) for e in journal.calls(run="r")][3:]
    assert [about for _, about in entries] == ["birds", "birds", "fish"]
    assert entries[0][0].startswith("a+") and entries[1][0] and entries[2][0] == "z"
    assert ask(journal.replay("r"), "next_one", "z", about="fish").value["number"] == 3


def test_what_ran_for_real_does_not_run_again(journal):
    """With strict=False an appended call that comes again is answered, also under an id that was used before."""
    recorded_run(journal)
    live = counting()
    tools = journal.replay("r", Toolset([live]), strict=False)

    asked = [("new", "fish"), ("new", "fish"), ("a", "birds"), ("a", "birds"), ("", "ants")]

    assert numbers(tools, *asked, ("", "ants")) == [1, 1, 2, 2, 3, 4]
    assert numbers(journal.replay("r"), *asked[:2]) == [1, 1]


def test_running_for_real_needs_tools(journal):
    """Without tools there is no body that could run."""
    with pytest.raises(DefinitionError, match="it needs tools"):
        journal.replay("r", strict=False)
    assert list(journal.replay("new", Toolset([counting()]), strict=False)) == ["next_one"]


def test_a_tool_from_its_definition_has_no_body():
    """A tool that was made of a record answers nothing by itself."""
    tool = tool_from(definition_of(counting()).form)

    result = call(tool, {"about": "x"})

    assert result.error.type == "NotRecorded"


def test_the_nearest_call_is_found_among_long_ones(journal):
    """Long arguments are compared by their beginnings: whole ones would take hours."""
    rare = "".join(chr(code) for code in range(35, 126) if chr(code) != "\\")
    # Each of these characters is rare enough to be compared with every other place of it.
    long = (rare + "!" * 20) * 2_500
    tools = journal.once(Toolset([counting()]), run="r")
    for id, about in (("a", f"cats{long}"), ("b", f"dogs{long}")):
        assert ask(tools, "next_one", id, about=about).success

    error = ask(journal.replay("r"), "next_one", about=f"dog{long[::-1]}").error

    assert "id 'b'" in error.message


def test_threads_share_a_replay(journal, monkeypatch):
    """Each recorded call answers one call, also if two threads ask at the same time."""
    tools = journal.once(Toolset([counting()]), run="r")
    for id in ("a", "b"):
        ask(tools, "next_one", id, about="cats")
    found, looking = [], threading.Barrier(2)

    class Used(set):
        def __contains__(self, place):
            with contextlib.suppress(threading.BrokenBarrierError):
                looking.wait(0.5)  # Both look before one of them takes, if nothing stops them.
            return super().__contains__(place)

    monkeypatch.setattr(journal_replay, "set", Used, raising=False)
    replayed = journal.replay("r")
    threads = [
        threading.Thread(target=lambda: found.extend(numbers(replayed, ("", "cats"))))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert sorted(found) == [1, 2]
