"""What the host keeps of the results of a program's calls, and how much."""

import gc
import json
import weakref

import pytest

from functool import Context, FunctionTool, ToolError, ToolResult, ToolSettings, Tripwire
from functool.bundled import code_outcome
from functool.bundled.code_mode import CodeLimits, code_mode
from functool.bundled.code_outcome import kept_size
from functool.guardrails import require_approval
from functool.layers.journal import Journal
from tests.bundled.programs import outcomes, run, value_of

MIB = 1_048_576
NUMBERS = [*range(20_000)]


def texts(count: int, length: int) -> list[str]:
    """Return texts."""
    return ["x" * length] * count


@FunctionTool
def numbers() -> list[int]:
    """Return many numbers."""
    return NUMBERS


@FunctionTool
def text(length: int) -> str:
    """Return a long text."""
    return "x" * length


trusted = FunctionTool(texts)
untrusted = FunctionTool(texts, settings=ToolSettings(untrusted=True))


@pytest.mark.parametrize("tool", [trusted, untrusted], ids=["trusted", "untrusted"])
def test_one_result_may_have_an_eighth_of_the_memory_as_json(tool):
    """A list of more JSON than an eighth of the memory is an error that the program can answer."""
    host = code_mode([tool], limits=CodeLimits(memory_mb=16))
    code = "try:\n    await texts(count=21, length=100_000)\nexcept RuntimeError as error:\n    print(error)"

    result = run(host, code)

    message = (
        "The call took effect, but its result is more than 2 MiB of JSON."
        " It was not kept: ask for less, or for parts.\n"
    )
    assert result.unwrap() == {"printed": message, "value": None}
    assert outcomes(result) == [("texts", "failed")]
    assert run(host, code.replace("21", "20")).unwrap()["printed"] == ""


@pytest.mark.parametrize("name", ["a{}", "{}"])
def test_a_text_that_is_no_utf_8_reaches_the_program(name):
    """A name of a file may be no UTF-8: the program gets it with a mark in that place."""
    odd = name.format("\udcff")
    host = code_mode(
        [FunctionTool(lambda: odd, name="one"), FunctionTool(lambda: [odd], name="all_")]
    )
    shown = name.format("\ufffd")

    assert value_of(host, "[await one(), await all_()]") == [shown, [shown]]


def test_the_results_of_all_calls_share_the_memory():
    """A result that does not fit beside the earlier ones is an error, and a smaller one fits."""
    host = code_mode([text], limits=CodeLimits(memory_mb=8))
    code = (
        "found = []\n"
        f"for length in [{3 * MIB}, {3 * MIB}, {3 * MIB}, {MIB}]:\n"
        "    try:\n"
        "        found.append(len(await text(length=length)))\n"
        "    except RuntimeError as error:\n"
        "        found.append(str(error))\n"
        "found"
    )

    *kept, late, small = value_of(host, code)

    assert kept == [3 * MIB, 3 * MIB]
    assert "the results of the program's calls take more than 8 MiB" in late
    assert small == MIB


def test_an_untrusted_result_counts_as_much_as_it_takes():
    """An untrusted list counts as its values take memory, and not as its JSON text."""

    def rows(count: int) -> list[dict[str, int]]:
        """Return rows."""
        return [{"n": n} for n in range(count)]

    tool = FunctionTool(rows, settings=ToolSettings(untrusted=True))
    host = code_mode([tool], limits=CodeLimits(memory_mb=16))

    assert value_of(host, "(await rows(count=20_000)).count()") == 20_000
    five = "[await rows(count=20_000) for _ in range(5)]"
    assert "the results of the program's calls take more than" in run(host, five).error.message
    problem = "its result takes more than 16 MiB"  # As JSON text it has 1 MB.
    assert problem in run(host, "await rows(count=90_000)").error.message


def test_the_calls_that_are_awaited_together_share_the_memory():
    """A program that awaits more than its memory can hold stops before the host reads it."""
    host = code_mode([numbers], limits=CodeLimits(memory_mb=32))
    code = "import asyncio\nlen(await asyncio.gather(*[numbers() for _ in range({})]))"

    assert value_of(host, code.format(5)) == 5
    message = run(host, code.format(60)).error.message

    assert message.startswith(
        "The program was stopped: the results of the calls that it awaits together take more than"
        " 32 MiB. Await fewer at a time.\nCalls that it had made"
    )


def test_a_large_result_is_whole_after_a_pause(tmp_path):
    """A program that goes on gets a large list again as it was, with and without a journal."""

    @FunctionTool(input_guardrails=[require_approval()])
    def ask() -> str:
        """Ask."""
        return "yes"

    code = "found = await numbers()\n[await ask(), sum(found), len(found)]"
    for options in ({}, {"journal": Journal(tmp_path / "j"), "run": "r"}):
        context, host = Context(), code_mode([numbers, ask], **options)
        context.approve(run(host, code, context).metadata["approval"])

        assert value_of(host, code, context) == ["yes", sum(NUMBERS), len(NUMBERS)]


def test_what_was_kept_before_a_pause_still_counts():
    """A program that goes on has no new memory for results."""

    @FunctionTool(input_guardrails=[require_approval()])
    def ask() -> str:
        """Ask."""
        return "yes"

    host, context = code_mode([text, ask], limits=CodeLimits(memory_mb=32)), Context()
    read = f"for _ in range(4):\n    len(await text(length={5 * MIB}))\n"
    code = f"{read}await ask()\n{read}"
    context.approve(run(host, code, context).metadata["approval"])

    assert "take more than 32 MiB" in run(host, code, context).error.message


def test_only_calls_that_run_hold_their_values():
    """The value of a call that has ended is freed before the next call begins."""
    alive = weakref.WeakSet()
    seen = []

    class Handle:
        def __init__(self):
            alive.add(self)

        def __str__(self):
            return "handle"

    @FunctionTool
    def rows(n: int) -> object:
        """Return rows."""
        seen.append(len(alive))
        return [Handle(), *NUMBERS]

    host = code_mode([rows], limits=CodeLimits(parallel=1))
    code = "import asyncio\nlen(await asyncio.gather(*[rows(n=n) for n in range(6)]))"

    assert value_of(host, code) == 6
    assert seen == [0] * 6


def test_a_tripwire_keeps_the_results_of_the_other_calls():
    """A tripwire carries the results of the other calls: small ones whole, large ones as text."""

    @FunctionTool
    def stop() -> str:
        """Stop."""
        raise Tripwire("stop")

    @FunctionTool
    def small() -> list[int]:
        """Return little."""
        return [1]

    host = code_mode([stop, small, numbers, trusted])
    calls = "stop(), small(), numbers(), texts(count=90, length=100_000)"

    with pytest.raises(Tripwire) as caught:
        run(host, f"import asyncio\nawait asyncio.gather({calls})")

    first, large, refused = caught.value.results
    assert first.value == [1]
    assert (large.value, large.text) == (None, str(NUMBERS).replace(" ", ""))
    assert "more than 8 MiB of JSON" in refused.error.message
    assert refused.output == []


def test_a_value_that_is_no_json_is_a_failure():
    """An integer of thousands of digits is an error that says that the call took effect."""

    @FunctionTool
    def huge() -> object:
        """Return a huge number."""
        return ToolResult(value=[10**5000])

    assert (
        "The call took effect, but its value is no JSON"
        in run(code_mode([huge]), "await huge()").error.message
    )


def test_an_error_counts_as_what_is_kept():
    """A program that waits keeps the errors of its calls, and they count as results do."""

    @FunctionTool
    def fail() -> None:
        raise ToolError("x" * 3_000)

    @FunctionTool(input_guardrails=[require_approval()])
    def send() -> str:
        return "sent"

    context = Context()
    code = "try:\n    await fail()\nexcept RuntimeError:\n    await send()"
    run(code_mode([fail, send]), code, context)
    [record] = context.state["functool.code_mode"].values()

    assert 3_000 < sum(map(kept_size, record.outcomes.values())) < 4_000


def test_the_collector_rests_while_a_large_result_is_read(monkeypatch):
    """Otherwise two million lists would hold the event loop for more than a second."""
    load, paused = json.loads, []

    def loads(text):
        paused.append(not gc.isenabled())
        return load(text)

    monkeypatch.setattr(json, "loads", loads)
    memory = code_outcome.Memory(64 * MIB)
    kept = memory.keep(ToolResult(value=[[]] * 50_000), as_text=True)

    assert code_outcome.value_of(kept) == [[]] * 50_000
    assert paused == [True, True]
