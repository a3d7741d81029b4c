"""Code mode: programs over tools, with the real interpreter."""

import asyncio
import json
import os
import pickle
import sys
import threading
import time
import tracemalloc
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from functool import (
    ArgumentError,
    Context,
    Decision,
    DefinitionError,
    FunctionTool,
    GuardrailError,
    SchemaTool,
    ToolCall,
    ToolError,
    Toolset,
    ToolSettings,
    ToolTimeoutError,
    Tripwire,
)
from functool.bundled import code_launcher, code_run, code_worker
from functool.bundled import code_mode as code_mode_module
from functool.bundled.code_mode import CodeLimits, code_mode
from functool.bundled.code_record import digest_of_arguments, is_same
from functool.guardrails import require_approval
from tests.bundled.programs import Crowd, outcomes, run, value_of
from tests.support import python


@FunctionTool
def teams() -> list[str]:
    """List the teams."""
    return ["a", "bb"]


@FunctionTool
def size_of(team: str, factor: int = 1) -> int:
    """Count a team.

    Args:
        team: Its name.
    """
    return len(team) * factor


class Bank:
    """A tool with an effect that can be counted."""

    def __init__(self, when=None):
        self.paid = []

        def pay(to: str, amount: float) -> str:
            if amount < 0:
                raise ToolError("amounts are positive")
            self.paid.append((to, amount))
            return f"paid {to}"

        guard = require_approval(when or (lambda call, context: call.arguments["amount"] > 50))
        self.tool = FunctionTool(pay, input_guardrails=[guard])


WAITING = "await pay(to='a', amount=1)\nawait pay(to='b', amount=99)"


@pytest.fixture
def bank():
    return Bank()


@pytest.fixture
def paying(bank):
    return code_mode([bank.tool])


def approved(tool, code, context):
    """Run a program as far as its first question, and say yes to it."""
    request = run(tool, code, context).metadata["approval"]
    context.approve(request)
    return request


def test_the_description_holds_typed_stubs():
    """A model reads stubs with types, defaults, literals, nested types and the texts of parameters."""
    parameters = {
        "type": "object",
        "properties": {
            "place": {"$ref": "#/$defs/Place"},
            "kind": {"enum": ["big", "small"], "default": "big"},
            "from": {"type": "string", "description": "Where it begins."},
        },
        "required": ["place", "from"],
        "$defs": {
            "Place": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "inner": {"$ref": "#/$defs/Place"},
                },
                "required": ["name"],
            }
        },
    }
    got = []
    go = SchemaTool("go-to", "Go.", parameters, lambda arguments: got.append(arguments))
    tool = code_mode([go, size_of])

    stub = "async def go_to(*, place: Place, from_: str, kind: Literal['big', 'small'] = "
    assert stub in tool.description
    place = 'class Place(TypedDict):\n    name: "str"\n    inner: "NotRequired[Place]"'
    assert place in tool.description
    assert "from_: Where it begins." in tool.description
    assert "async def size_of(*, team: str, factor: int = 1) -> int:" in tool.description
    assert "team: Its name." in tool.description

    result = run(tool, 'await go_to(place={"name": "x", "inner": {"name": "y"}}, from_="z")')

    assert result.success, result.text
    assert got == [{"place": {"name": "x", "inner": {"name": "y"}}, "from": "z", "kind": "big"}]


def foreign(properties, **definitions):
    """A tool from a schema that somebody else wrote, which answers with its arguments."""
    parameters = {"type": "object", "properties": properties, "$defs": definitions}
    return SchemaTool("foreign", "Foreign.", parameters, lambda arguments: arguments)


def test_stubs_describe_each_shared_part_once():
    """Unions of references to unions take no exponential time, and a type inside of itself is any."""
    links = {
        f"D{n}": {"anyOf": [{"$ref": f"#/$defs/D{n + 1}"}, {"$ref": "#/$defs/D8"}] * 8}
        for n in range(8)
    }
    several = {
        f"A{n}": {
            "anyOf": [{"type": "array", "items": {"$ref": f"#/$defs/A{m}"}} for m in range(20)]
        }
        for n in range(20)
    }
    tree = {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/Tree"}}, {"type": "string"}]}
    properties = {name: {"$ref": f"#/$defs/{name}"} for name in ("D0", "A0", "Tree")}
    tool = foreign(properties, **links, D8={"type": "integer"}, **several, Tree=tree)
    description = code_mode([tool]).description

    assert "D0: int = ..." in description
    assert "A0: list[" in description
    assert "Tree: list[Any] | str = ..." in description
    assert value_of(code_mode([tool]), "await foreign(Tree=[['a'], 'b'])") == {"Tree": [["a"], "b"]}


def test_stubs_repeat_a_long_type_a_few_times_only():
    """The stubs of a short schema that refers to one long type many times are not longer than a few books."""
    long = {"enum": [f"choice number {n}" for n in range(5_000)]}
    tool = foreign({f"p{n}": {"$ref": "#/$defs/Long"} for n in range(200)}, Long=long)
    description = code_mode([tool]).description

    assert "p0: Literal['choice number 0'," in description
    assert "p199: Any = ..." in description
    assert len(description) < 1_500_000


def test_names_that_become_equal_are_numbered():
    """Arguments and types whose names have the same letters stay apart, also if there are thousands."""
    inner = {"type": "object", "properties": {"x": {"type": "integer"}}}
    names = ["a b", "a-b", "a+b", "a*b"]
    others = {f"c{chr(0x4E00 + n)}": inner for n in range(3_000)}
    tool = code_mode([foreign({**dict.fromkeys(names, inner), **others})])

    code = "await foreign(a_b={'x': 0}, a_b_={'x': 1}, a_b__2={'x': 2}, a_b__3={'x': 3})"
    assert value_of(tool, code) == {name: {"x": n} for n, name in enumerate(names)}
    assert "c___2999: ForeignC_3000 = ..." in tool.description


def test_calls_of_one_turn_leave_room_for_other_work():
    """Each call of a turn begins in another round of the event loop, so that checking hundreds of them does not hold it."""
    rounds, seen = [0], []

    @FunctionTool
    async def note(number: int) -> int:
        seen.append(rounds[0])
        return number

    async def count():
        while True:
            rounds[0] += 1
            await asyncio.sleep(0)

    async def main():
        counting = asyncio.create_task(count())
        code = "import asyncio\nawait asyncio.gather(*[note(number=n) for n in range(50)])"
        answer = await code_mode([note])(
            ToolCall(name="run_code", arguments={"code": code}, id="c")
        )
        counting.cancel()
        return answer

    assert asyncio.run(main()).unwrap()["value"] == [*range(50)]
    assert len(set(seen)) == 50


@pytest.mark.parametrize(
    ("module", "name", "code", "most"),
    [
        (code_mode_module, "prepared", "1\n" * 6_000, 1),
        (code_mode_module, "prepared", "1\n", 4),
        (code_run, "outcome_of", "await long()\n1", 1),
        (code_run, "outcome_of", "await long(length=1)\n1", 4),
    ],
)
def test_what_is_long_is_read_one_at_a_time(monkeypatch, module, name, code, most):
    """Several long programs or results at once would hold the event loop. Short ones do not wait for them."""
    running, seen, work = [], [], getattr(module, name)
    others = threading.Barrier(most)

    def watched(*args):
        running.append(1)
        others.wait(60)
        time.sleep(0.2)  # Others may come now.
        seen.append(len(running))
        others.wait(60)
        running.pop()
        return work(*args)

    @FunctionTool
    async def long(length: int = 300_000) -> str:
        return "x" * length

    async def main():
        tool = code_mode([long])
        calls = [ToolCall(name="run_code", arguments={"code": code}, id=f"c{n}") for n in range(4)]
        return await asyncio.gather(*map(tool, calls))

    monkeypatch.setattr(module, name, watched)
    assert [answer.unwrap()["value"] for answer in asyncio.run(main())] == [1] * 4
    assert seen == [most] * 4


def test_outcomes_are_copied_beside_the_event_loop():
    """The values of a program's calls become JSON in a thread, for they may be large."""
    threads = set()

    class Told:
        def __str__(self):
            threads.add(threading.get_ident())
            return "told"

    @FunctionTool
    async def tell() -> Any:
        return [Told()]

    async def main():
        code = ToolCall(name="run_code", arguments={"code": "await tell()"}, id="c")
        return await code_mode([tell])(code), threading.get_ident()

    answer, loop = asyncio.run(main())
    assert answer.unwrap()["value"] == ["told"]
    assert threads > {loop}


def test_a_long_value_is_cut_before_it_is_written():
    """The model reads the beginning of a long value, and the host does not write the rest of it as JSON."""
    tool = code_mode([size_of])
    code = "{'a': ['\\x01' * 8_000_000, 1], 'b': [[2]] * 2_000}"
    run(tool, "1")
    tracemalloc.start()
    try:
        result = run(tool, code)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    shown = json.loads(result.text)
    assert shown["value"].startswith('{"a":["\\u0001\\u0001')
    assert shown["note"] == "The answer was cut: print and return less."
    assert 14_000 < len(result.text) <= 20_000
    assert len(result.value["value"]["a"][0]) == 8_000_000
    assert peak < 110_000_000  # As JSON the value has 48 million characters.


def test_the_whole_of_a_short_value_is_shown():
    """A value whose JSON just fits is shown as it is, and one character more is cut."""
    tool = code_mode([size_of], limits=CodeLimits(output_chars=1_000))
    room = 1_000 - len(json.dumps({"printed": "", "value": ""}))
    fits = run(tool, f"'x' * {room}")
    long = run(tool, f"'x' * {room + 1}")

    assert json.loads(fits.text) == {"printed": "", "value": "x" * room}
    assert "note" in json.loads(long.text)


def test_a_program_reads_the_answer_and_not_the_data():
    """Printed text and the last value come back as JSON, and the calls stand in the metadata."""
    code = "total = 0\nfor t in await teams():\n    total += await size_of(team=t)\nprint('sum')\ntotal"
    result = run(code_mode([teams, size_of]), code)

    assert result.value == {"printed": "sum\n", "value": 3}
    assert json.loads(result.text) == result.value
    assert result.metadata["calls"] == [
        {"id": "c1/1", "name": "teams", "outcome": "done"},
        {"id": "c1/2", "name": "size_of", "outcome": "done"},
        {"id": "c1/3", "name": "size_of", "outcome": "done"},
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("await pey(to='a', amount=1)", "pey"),
        ("await pay(too='a', amount=1)", "too"),
        ("await pay(to='a', amount='much')", "Expected `float`"),
        ("await pay(to='a')", "amount"),
        ("await pay('a', 1)", "expected 0, got 2. Arguments go by name"),
        ("pay(to='a', amount=1)", "without await"),
        ("x = pay(to='a', amount=1)", "without await"),
        ("(await size_of(team='a')).upper()", "upper"),
        ("pay = 3", "another meaning"),
        ("for pay in []: pass", "another meaning"),
        ("def pay(): pass", "another meaning"),
        ("import json as pay", "another meaning"),
        ("try: pass\nexcept ValueError as pay: pass", "another meaning"),
        ("lambda pay: 1", "another meaning"),
        ("(pay := 3)", "another meaning"),
        ("[pay for pay in []]", "another meaning"),
        ("class pay: pass", "another meaning"),
        ("with x as pay: pass", "another meaning"),
        ("del pay", "another meaning"),
        ("async def join(): pass", "another meaning"),
        ("match 1:\n    case pay: pass", "another meaning"),
        ("any = 3", "another meaning"),
        ("def all(a, b): pass", "another meaning"),
        ("match 1:\n    case {**pay}: pass", "another meaning"),
        ("global pay", "another meaning"),
        ("import itertools\nitertools.takewhile", "a comprehension"),
        ("_functool_call('pay', {})", "reserved"),
        ("if:", "not Python"),
        ("x = '\ud800'", "not valid JSON"),
        ("(" * 5000 + ")" * 5000, "The program was not run"),
        ("-" * 50000 + "1", "The program was not run"),
        ("x = 1\n" * 20_000, "at most 100000"),
        ("x = 1\n" * 200_000, "bytes"),
    ],
)
def test_nothing_happens_before_the_program_is_right(bank, line, said):
    """A wrong name, argument, type or text is answered before any effect."""
    result = run(code_mode([bank.tool, size_of]), f"await pay(to='first', amount=1)\n{line}")

    assert result.is_error
    assert said in result.text
    assert bank.paid == result.metadata["calls"] == []


def test_the_line_is_that_of_the_program():
    """A refused program and a failed one name the line that the model wrote."""
    tool = code_mode([size_of])
    wrong = run(tool, "x = 1\n\n\nawait size_of(tem='a')")
    lacking = run(tool, "x = 1\n\ndel x\nawait size_of(team='a')")
    failed = run(
        tool, "x = '''a\nb'''\n\nif x and \\\n   x:\n    def f():\n\n        return 1 / 0\n    f()"
    )

    assert wrong.error.type == lacking.error.type == "ProgramRefused"
    assert "line 4: " in wrong.text
    assert "line 3: NotImplementedError" in lacking.text
    assert "ZeroDivisionError: division by zero (line 8: return 1 / 0)" in failed.text


def test_a_failure_in_a_gather_names_no_wrong_line(paying):
    """The interpreter does not say where calls that run together are awaited, so no line is named."""
    gathered = "import asyncio\nawait asyncio.gather(pay(to='a', amount=-1))\n"
    alone = run(paying, gathered + "1")
    inside = "async def f():\n    await pay(to='a', amount=-1)\n"
    within = run(paying, f"import asyncio\n{inside}await asyncio.gather(f(), f())\n1", id="c2")

    assert alone.text.startswith("RuntimeError: ToolError: amounts are positive\n")
    assert "(line 3: await pay(to='a', amount=-1))" in within.text


def test_a_remedy_is_for_what_is_wrong():
    """What to do with an untrusted value is said only where there is one."""
    mail = FunctionTool(lambda: [1], name="mail", settings=ToolSettings(untrusted=True))
    tool = code_mode([mail, size_of])

    assert ".each()" in run(tool, "for part in await mail(): pass").text
    assert "Untrusted" not in run(tool, "for part in await size_of(team='a'): pass").text


def test_the_next_of_a_generator_expression(paying):
    """A program may take the first item that fits, or another value if none does."""
    code = "[next(n for n in [1, 2, 3] if n > 1), next((n for n in [1] if n > 1), 'none')]"

    assert value_of(paying, code) == [2, "none"]


@pytest.mark.parametrize("awaiting", ["asyncio.gather", "gather"])
def test_a_gather_may_return_exceptions(bank, awaiting):
    """A program may take the exceptions of calls that run together as values, in their places."""
    tool = code_mode([bank.tool, teams])
    calls = "pay(to='a', amount=-1), *[pay(to=to, amount=2) for to in await teams()]"
    code = f"import asyncio\nfrom asyncio import gather\nfound = await {awaiting}({calls}, KEY)"
    code += "\n[str(x) if isinstance(x, Exception) else [x] for x in found]"
    kept = value_of(tool, code.replace("KEY", "return_exceptions=1 < 2"))
    raised = run(tool, code.replace("KEY", "return_exceptions=False"), id="c2")

    assert kept == ["ToolError: amounts are positive", ["paid a"], ["paid bb"]]
    assert raised.text.startswith("RuntimeError: ToolError: amounts are positive")
    assert sorted(bank.paid) == [("a", 2)] * 2 + [("bb", 2)] * 2


def test_an_argument_of_a_tool_may_have_the_name_of_one_of_gather():
    """Only `gather` is called in another way: a tool gets the argument as it is."""

    @FunctionTool
    def collect(return_exceptions: bool) -> bool:
        return return_exceptions

    assert value_of(code_mode([collect]), "await collect(return_exceptions=True)") is True


def test_a_failure_says_what_took_effect(paying):
    """After a failure the model can go on without repeating what was done."""
    code = "await pay(to='a', amount=1)\nprint('so far')\nawait pay(to='b', amount=-1)"
    result = run(paying, code)

    assert result.error.type == "ProgramError"
    assert "RuntimeError: ToolError: amounts are positive (line 3" in result.text
    assert "c1/1 pay: done; c1/2 pay: failed" in result.text
    assert "so far" in result.text
    assert outcomes(result) == [("pay", "done"), ("pay", "failed")]


def test_a_program_may_handle_a_failure(paying):
    """A failed call raises RuntimeError, which a program may catch."""
    code = "try:\n    await pay(to='b', amount=-1)\nexcept RuntimeError as e:\n    print(e)"

    assert run(paying, code).value["printed"] == "ToolError: amounts are positive\n"


@pytest.mark.parametrize(
    ("limits", "most", "expected"), [(3, None, 3), (16, 2, 2)], ids=["program", "toolset"]
)
def test_calls_that_are_gathered_run_together(limits, most, expected):
    """asyncio.gather runs calls in parallel, and no more than the program's or the toolset's limit at once."""
    crowd = Crowd()
    tools = Toolset([crowd.tool], max_concurrency=most)
    code = "import asyncio\nawait asyncio.gather(*[slow(n=i) for i in range(8)])"

    assert value_of(code_mode(tools, limits=CodeLimits(parallel=limits)), code) == list(range(8))
    assert crowd.most == expected


def test_inner_calls_are_on_the_road_with_events():
    """Inner calls have ids of their own, events, and validation; hidden arguments stay hidden."""
    seen = []
    context = Context()
    context.subscribe(lambda event: seen.append((event.kind, event.call_id)))

    @FunctionTool
    def who(context: Context, n: int) -> str:
        return context.call.id

    code = "from typing import Any\nx: Any = '3'\na = await who(n=x)\ny: Any = 'z'\ntry:\n    await who(n=y)\nexcept RuntimeError as e:\n    print(e)\na"
    result = run(code_mode([who]), code, context)

    assert result.value["value"] == "c1/1"
    assert "ArgumentError" in result.value["printed"]
    assert seen == [
        ("tool:pre", "c1/1"),
        ("tool:post", "c1/1"),
        ("tool:pre", "c1/2"),
        ("tool:error", "c1/2"),
    ]
    assert outcomes(result) == [("who", "done"), ("who", "refused")]


def test_a_tool_that_takes_control_ends_the_program():
    """Beside other calls it does not run; alone it ends the program with its answer."""
    ran = []

    @FunctionTool(settings=ToolSettings(takes_control=True))
    def hand_over(to: str) -> str:
        ran.append(to)
        return f"now {to}"

    tool = code_mode([hand_over, teams])
    together = run(tool, "import asyncio\nawait asyncio.gather(hand_over(to='x'), teams())")
    assert "Nothing was run" in together.text
    assert outcomes(together) == [("hand_over", "refused"), ("teams", "refused")]
    assert ran == []
    alone = run(tool, "await hand_over(to='y')\nawait hand_over(to='z')", id="c2")

    assert ran == ["y"]
    assert alone.value["value"] == "now y"
    assert tool.settings.is_exclusive


def test_a_program_over_an_exclusive_tool_runs_alone():
    """What runs alone in a program runs beside no other call of the turn, with settings of any kind."""
    alone = FunctionTool(teams.func, settings=ToolSettings(is_exclusive=True))

    for settings in (None, ToolSettings(untrusted=True), ToolSettings(is_exclusive=True)):
        assert code_mode(alone, settings=settings).settings.is_exclusive
    assert not code_mode(teams, settings=ToolSettings(untrusted=True)).settings.is_exclusive


def test_a_tripwire_stops_the_run():
    """A tripwire in an inner call leaves the outer one."""

    def trip(call, context):
        raise Tripwire("stop")

    @FunctionTool(input_guardrails=[trip])
    def touch() -> None: ...

    with pytest.raises(Tripwire):
        run(code_mode([touch]), "try:\n    await touch()\nexcept Exception:\n    pass")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("while True:\n    pass", "time limit"),
        ("x = [0] * 10**9", "MemoryError"),
        ("x = []\nwhile True:\n    x.append('a' * 1000)", "MemoryError"),
        ("def f(n):\n    return f(n + 1)\nf(0)", "RecursionError"),
        (
            "while True:\n    try:\n        while True:\n            await teams()\n    except BaseException:\n        pass",
            "more than 5 calls",
        ),
        (
            "while True:\n    try:\n        while True: pass\n    except BaseException:\n        pass",
            "time limit",
        ),
        ("x = 10 ** 10 ** 9", "Error"),
        ("import os\nos.getenv('HOME')", "not supported"),
        ("open('/etc/passwd').read()", "open"),
        ("import socket", "socket"),
        ("x = 'a' * 10_000_000\nx", "cut"),
    ],
)
def test_limits_end_in_an_error_result(code, said):
    """Spinning, memory, recursion, floods, files and modules end in an answer; the next program runs."""
    # Only what shall run out of time gets little of it: other limits need theirs on a busy machine.
    seconds = 0.5 if said == "time limit" else 60
    tool = code_mode([teams], limits=CodeLimits(seconds=seconds, calls=5))
    result = run(tool, code)

    assert said in result.text
    assert len(result.text) <= 20_000
    assert value_of(code_mode([teams]), "1 + 1") == 2


def test_built_in_functions_that_are_replaced_work_as_ever():
    """`bool`, `any` and `all` are what they were, and `bool` is still a type."""
    code = (
        "def f(x: bool) -> bool:\n    return x\n"
        "y: bool = f(True)\n"
        "match y:\n    case bool():\n        z = 'bool'\n"
        "[isinstance(1, bool), isinstance(True, (bool, str)), type(y) is bool, bool, bool([]), bool(),"
        " any(x > 1 for x in [1, 2]), all([]),"
        " sorted([2, 0], key=bool), z]"
    )
    value = value_of(code_mode([teams]), code)

    assert value[:3] == [False, True, True]
    assert value[4:] == [False, False, True, True, [0, 2], "bool"]


@pytest.mark.parametrize("kinds", ["(bool, int)", "[int, bool]", "{bool}", "(str, (bool), int)"])
def test_a_type_is_found_among_types(kinds):
    """`bool` is a type where a type is compared with several, as in `type(x) in (bool, int)`."""
    code = f"x: object = True\n[type(x) in {kinds}, type(x) not in {kinds}, bool(0) in (False, 2)]"

    assert value_of(code_mode([teams]), code) == [True, False, True]


def test_what_ran_is_not_called_refused():
    """A call is refused only where its body did not run: not by an output guardrail, nor by its body."""
    ran = []

    def refuse(result, context):
        raise GuardrailError("not this")

    @FunctionTool(output_guardrails=[refuse])
    def first() -> str:
        ran.append("first")
        return "x"

    @FunctionTool
    def second() -> str:
        ran.append("second")
        raise ArgumentError("inside")

    tool = code_mode([first, second])

    assert outcomes(run(tool, "await first()")) == [("first", "failed")]
    assert outcomes(run(tool, "await second()")) == [("second", "failed")]
    assert ran == ["first", "second"]


@pytest.mark.parametrize(
    "more", ["context", "call", "id", "metadata", "sources", "self", "name", "arguments"]
)
def test_a_program_cannot_name_what_is_the_hosts(more):
    """A context, an id or sources that a program makes up are unknown arguments, and nothing runs."""
    got = []

    @FunctionTool
    def look(n: int, context: Context, call: ToolCall) -> None:
        got.append((context, call))

    forged = {more: {"/n": []}}
    code = f"from typing import Any\nmore: Any = {forged!r}\nawait look(n=1, **more)"
    result = run(code_mode([look]), code)

    assert "unknown" in result.text
    assert got == []


def test_a_flood_of_text_is_cut():
    """What the model reads stays within the limit, printed or returned, and says so."""
    tool = code_mode([teams], limits=CodeLimits(output_chars=500))
    result = run(tool, "for i in range(1000):\n    print('\"' * 100)\n[1] * 10000")

    assert len(result.text) <= 500
    assert "was cut" in result.text


def test_a_long_answer_that_ends_the_program_is_cut():
    """What a tool that takes control answers stays within the limit too, and code gets all of it."""

    @FunctionTool(settings=ToolSettings(takes_control=True))
    def hand_over() -> str:
        return "x" * 9_000

    tool = code_mode([hand_over], limits=CodeLimits(output_chars=500))
    result = run(tool, "print('y' * 900)\nawait hand_over()")

    assert len(result.text) <= 500
    assert "was cut" in result.text
    assert result.value["value"] == "x" * 9_000


def test_waiting_is_not_computing():
    """The time of a tool does not count against the program's seconds."""

    @FunctionTool
    async def wait() -> str:
        await asyncio.sleep(3.2)
        return "done"

    tool = code_mode([wait], limits=CodeLimits(seconds=3))

    assert value_of(tool, "await wait()") == "done"


def test_a_cancelled_program_ends():
    """Cancelling the outer call ends a spinning program; the next one runs."""
    started = threading.Event()
    mark = FunctionTool(started.set, name="mark", description="Mark.")
    tool = code_mode([mark], limits=CodeLimits(seconds=600))

    async def main():
        call = ToolCall(name="run_code", arguments={"code": "await mark()\nwhile True: pass"})
        spinning = asyncio.ensure_future(tool.invoke(call))
        while not started.is_set():
            await asyncio.sleep(0.01)
        spinning.cancel()
        with pytest.raises(asyncio.CancelledError):
            await spinning

    asyncio.run(main())

    assert value_of(tool, "2") == 2


def test_a_program_pauses_and_goes_on(bank, paying):
    """Without an approver the outer call waits; approved, it goes on, and nothing happens twice."""
    context = Context()
    code = "import random, datetime\nprint(random.random(), datetime.datetime.now())\na = await pay(to='a', amount=1)\nb = await pay(to='b', amount=99)\nprint(random.random())\n[a, b]"
    first = run(paying, code, context)
    request = first.metadata["approval"]

    assert first.error.type == "ApprovalRequired"
    assert (request.tool, request.call_id) == ("pay", "c1/2")
    assert request.arguments == {"to": "b", "amount": 99}
    assert outcomes(first) == [("pay", "done"), ("pay", "waiting")]
    assert bank.paid == [("a", 1)]

    assert run(paying, code, context).error.type == "ApprovalRequired"
    context.approve(request)

    assert value_of(paying, code, context) == ["paid a", "paid b"]
    assert bank.paid == [("a", 1), ("b", 99)]


def test_clock_and_random_are_the_same_in_each_run(bank, paying):
    """A program that branches on the time and on chance takes the same way when it goes on."""
    context = Context()
    code = "import random, time\nawait pay(to=str(random.random()) + str(time.time()), amount=1)\nawait pay(to='b', amount=99)"
    approved(paying, code, context)
    result = run(paying, code, context)

    assert result.success, result.text
    assert len(bank.paid) == 2


@pytest.mark.parametrize(
    "code",
    [
        "calls = [pay(to='b', amount=1) for _ in range(2)]\nprint('paid', len(calls))",
        "[pay(to='b', amount=1)]",
        "import asyncio\ncalls = asyncio.gather(pay(to='b', amount=1))\nfor _ in range(2):\n    pass",
        "def pay_later():\n    return pay(to='b', amount=1)\npay_later()",
    ],
)
def test_a_call_that_is_never_awaited_is_an_error(bank, paying, code):
    """A call that the program makes and does not await has not run, and the model reads that."""
    result = run(paying, f"await pay(to='a', amount=1)\n{code}")

    assert "a call of pay was not awaited, so it did not run" in result.error.message
    assert outcomes(result) == [("pay", "done")]
    assert bank.paid == [("a", 1)]


@pytest.mark.parametrize(
    "code",
    [
        "def fail():\n    raise ValueError('x')\ntry:\n    [pay(to='b', amount=1), fail()]\nexcept ValueError:\n    pass\nawait pay(to='c', amount=1)",
        "call = pay(to='c', amount=1)\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    pass\nawait call",
        "import asyncio\nasync def fail():\n    raise ValueError('x')\ntry:\n    await asyncio.gather(fail(), pay(to='b', amount=1))\nexcept ValueError:\n    pass\nawait pay(to='c', amount=1)",
    ],
)
def test_a_call_that_an_exception_left_behind_is_no_error(paying, code):
    """A program that handles an exception goes on, though a call was not awaited because of it."""
    assert value_of(paying, code) == "paid c"


def test_a_call_may_be_awaited_later(bank, paying):
    """A call may be kept, or made by another function, and awaited afterwards."""
    code = "def one(to):\n    return pay(to=to, amount=1)\ncalls = [one(to) for to in 'ab']\n[await c for c in calls]"

    assert value_of(paying, code) == ["paid a", "paid b"]


@pytest.mark.parametrize(
    ("clock", "expected"),
    [
        ("datetime.datetime.now() > datetime.datetime(2026, 1, 1)", True),
        ("datetime.datetime.now().tzinfo", None),
        (
            "datetime.datetime.now(datetime.timezone(datetime.timedelta(hours=2))).utcoffset().seconds",
            7200,
        ),
        ("datetime.date.today() > datetime.date(2026, 1, 1)", True),
        ("len(str(datetime.date.today()))", 10),
        (
            "datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None) == datetime.datetime.now()",
            True,
        ),
    ],
)
def test_the_clock_answers_in_python_s_types(paying, clock, expected):
    """`date.today` is a date, and `now` has the zone that the program names, or none."""
    assert value_of(paying, f"import datetime\n{clock}") == expected


def test_a_denied_call_raises_in_the_program(bank, paying):
    """A person's refusal is an exception that the program may handle."""
    context = Context()
    code = "try:\n    await pay(to='b', amount=99)\nexcept RuntimeError as e:\n    print(e)\nawait pay(to='c', amount=1)"
    context.deny(run(paying, code, context).metadata["approval"], "too much")
    result = run(paying, code, context)

    assert "too much" in result.value["printed"]
    assert bank.paid == [("c", 1)]


def test_edited_arguments_run(bank, paying):
    """What a person approved with other arguments is what runs."""
    context = Context()
    code = "await pay(to='b', amount=99)"
    request = run(paying, code, context).metadata["approval"]
    context.approve(request, arguments={"to": "b", "amount": 51})

    assert run(paying, code, context).success
    assert bank.paid == [("b", 51)]
    asked = []

    def approver(request):
        asked.append(request.call_id)
        return Decision(approved=True, arguments={"to": "z", "amount": 60})

    run(paying, code, Context(approver=approver), id="c9")

    assert asked == ["c9/1"]
    assert bank.paid[-1] == ("z", 60)


@pytest.mark.parametrize("step", ["take", "start"])
def test_a_program_that_could_not_go_on_goes_on_later(step, bank, paying, monkeypatch):
    """If a program finds no place or no interpreter when it goes on, nothing of it is lost or done twice."""

    def refuse(*_):
        raise code_worker.TooBusy("all run or wait")

    context = Context()
    approved(paying, WAITING, context)
    owner = code_worker.Sessions if step == "take" else code_worker.Session
    monkeypatch.setattr(owner, step, refuse)
    refused = run(paying, WAITING, context)
    monkeypatch.undo()

    assert "all run or wait" in refused.text
    assert "not to be repeated where done: c1/1 pay: done" in refused.text
    assert outcomes(refused) == [("pay", "done")]
    if step == "take":
        assert run(paying, WAITING, context).success
        assert bank.paid == [("a", 1), ("b", 99)]


async def is_cancelled(tool, code, context, outer, meanwhile=lambda: asyncio.sleep(0)):
    """Run a program as the task `outer[0]`, and return whether it was cancelled."""
    call = ToolCall(name="run_code", arguments={"code": code}, id="c1")
    outer.append(asyncio.ensure_future(tool.invoke(call, context)))
    await meanwhile()
    await asyncio.wait(outer)
    return outer[0].cancelled()


def test_a_program_that_is_cancelled_after_a_pause_goes_on_later():
    """A program that waited, goes on and is cancelled then does not lose the record of its calls."""
    paid: list[int] = []

    async def pay(n: int) -> int:
        if n == 3 and paid.count(3) == 0:
            paid.append(3)
            outer[0].cancel()
            await asyncio.sleep(60)
        paid.append(n)
        return n

    asks = require_approval(lambda call, context: call.arguments["n"] == 2)
    tool, context = code_mode([FunctionTool(pay, input_guardrails=[asks])]), Context()
    code = "[await pay(n=1), await pay(n=2), await pay(n=3)]"
    approved(tool, code, context)
    outer: list[asyncio.Task[Any]] = []

    assert asyncio.run(is_cancelled(tool, code, context, outer))
    assert value_of(tool, code, context) == [1, 2, 3]
    assert paid == [1, 2, 3, 3]


@pytest.mark.parametrize("again", [False, True])
def test_a_call_that_ended_beside_a_cancelled_one_is_not_made_again(again):
    """A program that waited goes on after a cancellation, also a repeated one, with all that was done."""
    paid: list[int] = []

    async def pay(n: int) -> int:
        paid.append(n)
        if paid == [1, 2, 3]:
            outer[0].cancel()
            await asyncio.sleep(60)
        return n

    asks = require_approval(lambda call, context: call.arguments["n"] == 1)
    tool, context = code_mode([FunctionTool(pay, input_guardrails=[asks])]), Context()
    code = "[await pay(n=1), *await asyncio.gather(pay(n=2), pay(n=3))]"
    approved(tool, code, context)
    outer: list[asyncio.Task[Any]] = []

    async def cancel_again() -> None:
        while again and not outer[0].done():  # As a scope of anyio does.
            await asyncio.sleep(0)
            if paid == [1, 2, 3]:
                outer[0].cancel()

    assert asyncio.run(is_cancelled(tool, code, context, outer, cancel_again))
    assert value_of(tool, code, context) == [1, 2, 3]
    assert paid == [1, 2, 3, 3]


def test_a_program_that_runs_out_of_time_after_a_pause_names_its_calls(bank):
    """A call that was done before the pause is done also if the program did not get to its answer again."""

    @FunctionTool(input_guardrails=[require_approval()])
    async def wait() -> None:
        await asyncio.sleep(60)

    tools, context = [bank.tool, wait], Context()
    code = "await asyncio.gather(pay(to='a', amount=1), wait())"
    approved(code_mode(tools), code, context)
    stopped = run(code_mode(tools, timeout=2), code, context)

    assert stopped.error.type == "ToolTimeoutError"
    assert "c1/1 pay: done" in stopped.text
    assert outcomes(stopped)[0] == ("pay", "done")


def test_a_refusal_that_the_program_saw_is_kept(bank):
    """When a program goes on, a call that was refused before stays refused."""
    refuse = [True]

    def moody(call, context):
        if refuse[0]:
            raise ToolError("no")

    @FunctionTool(input_guardrails=[moody])
    def touch() -> str:
        return "touched"

    context, tool = Context(), code_mode([touch, bank.tool])
    code = "try:\n    x = await touch()\nexcept RuntimeError:\n    x = 'refused'\nawait pay(to='b', amount=99)\nx"
    approved(tool, code, context)
    refuse[0] = False

    assert value_of(tool, code, context) == "refused"


def test_calls_that_wait_together_end_together(bank, paying):
    """Siblings of a call that waits are done once; several approvals are asked one by one."""
    context = Context()
    code = "import asyncio\nawait asyncio.gather(pay(to='a', amount=1), pay(to='b', amount=99), pay(to='c', amount=98))"
    for _ in range(2):
        approved(paying, code, context)

    assert value_of(paying, code, context) == ["paid a", "paid b", "paid c"]
    assert sorted(bank.paid) == [("a", 1), ("b", 99), ("c", 98)]


def test_another_program_is_refused(bank, paying):
    """A record belongs to one program and one definition of the tools; approvals too."""
    context = Context()
    approved(paying, WAITING, context)

    assert run(paying, WAITING + "\n", context).error.type == "AnotherProgram"

    def pay(to: str, amount: float, note: str = "") -> str: ...

    changed = run(code_mode([FunctionTool(pay)]), WAITING, context)

    assert changed.error.type == "AnotherProgram"
    assert bank.paid == [("a", 1)]
    forged = run(paying, "await pay(to='evil', amount=99)", context, id="c1x")
    assert forged.error.type == "ApprovalRequired"
    assert run(paying, WAITING, context).success


def test_one_program_runs_once_at_a_time():
    """The same call beside itself is refused and does nothing."""
    started, go = threading.Event(), threading.Event()
    count = []

    @FunctionTool
    def slow() -> None:
        count.append(1)
        started.set()
        go.wait(10)

    tool, context = code_mode([slow]), Context()

    async def both():
        call = ToolCall(name="run_code", arguments={"code": "await slow()"}, id="same")
        first = asyncio.ensure_future(tool.invoke(call, context))
        while not started.is_set():
            await asyncio.sleep(0.01)
        second = await tool.invoke(call, context)
        go.set()
        return await first, second

    first, second = asyncio.run(both())

    assert first.success
    assert second.error.type == "AnotherProgram"
    assert count == [1]


def test_a_program_without_an_id_does_not_run_beside_itself(paying, bank):
    """Nothing tells the calls apart when one has waited, so each effect would happen once more."""
    context = Context()
    call = ToolCall(name="run_code", arguments={"code": WAITING})

    async def twice():
        return await asyncio.gather(paying(call, context), paying(call, context))

    results = asyncio.run(twice())
    assert sorted(each.error.type for each in results) == ["AnotherProgram", "ApprovalRequired"]
    [request] = (r.metadata["approval"] for r in results if "approval" in r.metadata)
    context.approve(request)

    assert run(paying, WAITING, context, id="").success
    assert bank.paid == [("a", 1), ("b", 99)]


def test_a_program_that_takes_another_way_is_stopped(bank, paying):
    """A program whose calls differ from those of the record stops before any effect."""
    context = Context()
    approved(paying, WAITING, context)
    [record] = context.state["functool.code_mode"].values()
    record.outcomes["c1/1"]["arguments"] = digest_of_arguments({"to": "other", "amount": 1})
    result = run(paying, WAITING, context)

    assert "not the one that it made before" in result.text
    assert bank.paid == [("a", 1)]


@pytest.mark.parametrize("wrong", [[1], 3])
def test_what_is_no_tool_is_refused(wrong):
    """What is no tool, or no collection of tools, is refused at definition."""
    with pytest.raises(DefinitionError):
        code_mode(wrong)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("seconds", 0), ("calls", -1), ("memory_mb", 1.5), ("parallel", True), ("output_chars", "x")],
)
def test_a_limit_that_is_none_is_refused(name, wrong):
    """A limit that is no positive number of its unit is refused at definition."""
    with pytest.raises(DefinitionError):
        CodeLimits(**{name: wrong})


def test_a_run_and_its_journal_go_together():
    """A run without a journal, and a journal without a run, are refused at definition."""
    with pytest.raises(DefinitionError, match="journal"):
        code_mode([teams], run="x")
    with pytest.raises(DefinitionError, match="journal"):
        code_mode([teams], journal=object())


def test_shapes_of_values_cross():
    """Values come back as JSON: tuples, sets, odd keys, big numbers, dates, and classes of the program."""
    code = "import datetime\nclass P:\n    def __init__(self):\n        self.a = 1\n[(1,), {2}, {3: 4}, 10**30, datetime.date(2026, 1, 2), P(), float('inf'), None, True]"
    value = value_of(code_mode([teams]), code)

    assert value == [[1], [2], {"3": 4}, 10**30, "2026-01-02", {"a": 1}, "inf", None, True]


@pytest.mark.parametrize("value", ["{1}", "float('nan')", "{1: 2}", "object", "print"])
def test_what_json_cannot_say_is_not_sent(value):
    """An argument that is no JSON raises in the program, and nothing runs."""
    got = []
    tool = code_mode([FunctionTool(lambda x: got.append(x), name="take", description="Take.")])
    result = run(tool, f"await take(x={value})")

    assert result.is_error
    assert got == []


def test_a_hundred_programs_at_once():
    """A hundred programs end, each with its own answer."""
    tool = code_mode([size_of])

    async def all_of_them():
        calls = [
            ToolCall(
                name="run_code",
                arguments={"code": f"await size_of(team='a', factor={n})"},
                id=f"c{n}",
            )
            for n in range(100)
        ]
        return await asyncio.gather(*[tool.invoke(call) for call in calls])

    assert [result.value["value"] for result in asyncio.run(all_of_them())] == list(range(100))


def resident():
    """Return the memory of each interpreter of this process, in bytes."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state, parent, *_ = (entry / "stat").read_text().rpartition(")")[2].split()
            mine = int(parent) == os.getpid() and state not in "ZX"
            if mine and b"monty" in (entry / "cmdline").read_bytes():
                pages = (entry / "statm").read_text().split()[1]
                found.append(int(pages) * os.sysconf("SC_PAGE_SIZE"))
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says how large a process is")
def test_a_large_interpreter_ends_with_its_program():
    """What a program filled is given back to the system. A crowd of programs left gigabytes."""
    tool = code_mode([size_of])
    text = "x = ['y' * 1000 + str(n) for n in range(45_000)]\nlen(x)"

    assert value_of(tool, text) == 45_000

    until = time.monotonic() + 30
    while max(resident(), default=0) > code_worker.KEPT_BYTES and time.monotonic() < until:
        time.sleep(0.05)
    assert max(resident(), default=0) <= code_worker.KEPT_BYTES


def test_a_program_does_not_wait_without_end_for_its_turn(monkeypatch):
    """While its context or all together have no place left, a program is refused, and no other."""
    began: list[int] = []
    answered = asyncio.Event()

    async def person(request):
        began.append(1)
        await answered.wait()
        return True

    bank = Bank(lambda call, context: True)
    tool = code_mode([bank.tool])
    contexts = [Context(approver=person) for _ in range(5)]

    def program(id, code, context):
        return tool.invoke(ToolCall(name="run_code", arguments={"code": code}, id=id), context)

    async def fill(context):
        wanted = len(began) + code_worker.OF_ONE_CONTEXT
        paying = "await pay(to='a', amount=1)"
        waiting = [
            asyncio.create_task(program(f"w{n}", paying, context))
            for n in range(code_worker.OF_ONE_CONTEXT)
        ]
        while len(began) < wanted:
            await asyncio.sleep(0.01)
        return waiting

    async def main():
        waiting = await fill(contexts[0])
        monkeypatch.setattr(code_worker, "WAIT_SECONDS", 0.01)
        of_one = await program("x", "1", contexts[0])
        others = await program("x", "1", contexts[1])
        monkeypatch.undo()
        for context in contexts[1:4]:
            waiting += await fill(context)
        monkeypatch.setattr(code_worker, "WAIT_SECONDS", 0.01)
        of_all = await program("x", "1", contexts[4])
        answered.set()
        await asyncio.gather(*waiting)
        return of_one, others, of_all, await program("y", "1", contexts[0])

    of_one, others, of_all, ran = asyncio.run(main())

    assert "8 others of this conversation run or wait" in of_one.error.message
    assert others.value["value"] == 1
    assert "32 others run or wait in this process" in of_all.error.message
    assert "Run it again later" in of_all.error.message
    assert len(bank.paid) == code_worker.MAX_SESSIONS
    assert ran.value["value"] == 1


def test_a_call_that_waits_for_its_turn_leaves_no_place_taken_when_its_event_loop_ends(monkeypatch):
    """A cancelled call gives back a place that it gets only after its event loop has ended."""
    monkeypatch.setattr(code_worker, "OF_ONE_CONTEXT", 1)
    monkeypatch.setattr(code_worker, "WAIT_SECONDS", 10.0)
    holding, going_on, asked = threading.Event(), threading.Event(), threading.Event()

    def hold() -> None:
        """Hold the only place."""
        holding.set()
        going_on.wait(60)

    tool, context = code_mode([FunctionTool(hold)]), Context()
    first = threading.Thread(target=run, args=(tool, "await hold()", context, "first"))
    first.start()
    holding.wait(60)
    take = code_worker.Sessions.take

    def heard(sessions, share):
        asked.set()
        return take(sessions, share)

    monkeypatch.setattr(code_worker.Sessions, "take", heard)

    async def cancelled():
        call = ToolCall(name="run_code", arguments={"code": "1"}, id="second")
        second = asyncio.ensure_future(tool.invoke(call, context))
        while not asked.is_set():
            await asyncio.sleep(0.01)
        second.cancel()
        await asyncio.wait([second])

    asyncio.run(cancelled())
    going_on.set()
    first.join()

    assert value_of(tool, "3", context) == 3


FORK = """
import os, sys
from functool import FunctionTool
from functool.bundled.code_mode import code_mode
from tests.bundled.programs import run, value_of

tool = code_mode([FunctionTool(lambda: 1, name="one", description="One.")])
if sys.argv[1] == "used":
    value_of(tool, "0")
child = os.fork()
if child == 0:
    print(run(tool, "1 + 1").text, flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(*[value_of(tool, f"2 + {n}") for n in range(4)])
"""


FULL = """
import os
from functool.bundled.code_mode import code_mode
from tests.bundled.programs import run

tool = code_mode([])
run(tool, "1 +")  # Refused, and the event loop and the threads are there.
taken = []
try:
    while True:
        taken.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    os.close(taken.pop())
    for _ in range(4):  # For the event loop.
        os.close(taken.pop())
print(run(tool, "1 + 1").error.type, len(os.listdir("/proc/self/fd")))
print(run(tool, "1 + 1").error.type, len(os.listdir("/proc/self/fd")))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists the descriptors of a process")
def test_a_host_without_a_free_descriptor_refuses_programs_and_lives_on():
    """The interpreter's library panics then. That is an error result, and costs no descriptor."""
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)){FULL}"
    ran = python(limited)

    first, second = ran.stdout.splitlines()
    assert first.startswith("WorkerDied")
    assert second == first


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize(
    ("parent", "answer"),
    [
        ("fresh", '{"printed": "", "value": 2}'),
        ("used", "The program was not run: this process was forked from one that had run"),
    ],
)
def test_a_program_in_a_forked_child(parent, answer):
    """A child of a process that has run programs refuses its own, and spoils none of its parent."""
    done = python(FORK, parent, timeout=120)
    child, following = done.stdout.splitlines()[0], done.stdout.splitlines()[-1]

    assert child.startswith(answer), done.stderr
    assert following == "2 3 4 5"


FORK_AND_DROP = """
import gc, os, time, weakref
from functool import FunctionTool
from functool.bundled.code_mode import code_mode
from tests.bundled.programs import value_of

tools = [code_mode([FunctionTool(lambda: 1, name="one", description="One.")]) for _ in range(2)]
child = os.fork()
if child == 0:
    print(value_of(tools[0], "1 + 1"))
    while not tools[0]._sessions._ready:
        time.sleep(0.01)
    dropped = weakref.ref(tools.pop(0)._sessions)
    while dropped() is not None:
        gc.collect()
        time.sleep(0.01)
    print(value_of(tools[0], "1 + 2"), flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_tool_that_a_forked_child_drops():
    """A forked child still runs programs after it has dropped a tool that its parent had made."""
    done = python(FORK_AND_DROP, timeout=120)

    assert done.stdout.split() == ["2", "3"], done.stderr


def test_programs_that_wait_keep_a_bounded_memory():
    """While many programs of a context wait with large results, a new one is not run; those that wait go on."""
    ran: list[int] = []

    @FunctionTool
    def report(n: int) -> str:
        ran.append(n)
        return str(n % 10) * 400_000

    @FunctionTool(input_guardrails=[require_approval()])
    def send() -> str:
        return "sent"

    tool = code_mode([report, send], limits=CodeLimits(memory_mb=8))
    context, code = Context(), "[len(await report(n=n)) for n in range(15)] + [await send()]"
    early = run(tool, "await send()", context, id="early")
    results = [run(tool, code, context, id=f"c{n}") for n in range(9)]
    waiting = [result for result in results if result.error.type == "ApprovalRequired"]

    assert [result.error.type for result in results[len(waiting) :]] == ["TooMuchWaits"] * 3
    assert "They have to go on first" in results[-1].text
    assert len(ran) == 6 * 15
    context.approve(early.metadata["approval"])
    assert run(tool, "await send()", context, id="early").success
    context.approve(waiting[0].metadata["approval"])
    assert run(tool, code, context, id="c0").success
    assert run(tool, code, context, id="c9").error.type == "ApprovalRequired"


def test_the_approval_of_a_program_holds_until_it_ends(bank):
    """A person who has approved a program is asked about its calls, and not about the program again."""
    tool, context = code_mode([bank.tool], input_guardrails=[require_approval()]), Context()
    code, asked = "await pay(to='a', amount=70)\nawait pay(to='b', amount=99)", []
    while "approval" in (result := run(tool, code, context)).metadata:
        asked.append(result.metadata["approval"].tool)
        context.approve(result.metadata["approval"])

    assert asked == ["run_code", "pay", "pay"]
    assert bank.paid == [("a", 70), ("b", 99)]
    assert run(tool, code, context).error.type == "ApprovalRequired"
    assert bank.paid == [("a", 70), ("b", 99)]


def test_a_program_that_waits_keeps_no_arguments(bank):
    """What a program sent does not stay in the host while it waits, whether the call ran or was refused."""
    tool, context = code_mode([size_of, bank.tool]), Context()
    code = "for n in range(9):\n    try:\n        await size_of(team='a' * n * 200_000)\n"
    code += "    except RuntimeError:\n        pass\nawait pay(to='b', amount=99)"
    waiting = run(tool, code, context)

    assert [name for _, name in outcomes(waiting)] == ["done"] * 6 + ["refused"] * 3 + ["waiting"]
    assert len(pickle.dumps(context)) < 10_000
    context.approve(waiting.metadata["approval"])
    assert run(tool, code, context).value["value"] == "paid b"


def test_an_older_record_goes_on():
    """A record may hold the arguments of a call themselves, as an older functool wrote it."""
    call, arguments = {"name": "pay", "error": None}, {"to": "a", "amount": 1}

    assert is_same({**call, "arguments": arguments}, "pay", arguments)
    assert not is_same({**call, "arguments": arguments}, "pay", {"to": "a", "amount": 2})


def test_a_context_that_ran_a_program_can_be_pickled():
    """What code mode leaves in a context is data."""
    context = Context()
    run_in = code_mode([Bank(lambda call, context: False).tool])
    asyncio.run(run_in.invoke(ToolCall(name="run_code", arguments={"code": "1"}), context))

    assert pickle.loads(pickle.dumps(context)).state.keys() == context.state.keys()


def test_a_context_in_which_a_program_waits_can_be_pickled(bank, paying):
    """A host that stores a conversation while a person is asked needs no tools that can be pickled."""
    context = Context()
    request = run(paying, WAITING, context).metadata["approval"]
    again = pickle.loads(pickle.dumps(context))
    again.approve(request)

    assert value_of(paying, WAITING, again) == "paid b"
    assert bank.paid == [("a", 1), ("b", 99)]


def test_the_outer_pause_is_like_any_other(paying):
    """`unwrap` and the failure's type are those of a call that waits."""
    with pytest.raises(ToolError, match="approval"):
        run(paying, "await pay(to='b', amount=99)").unwrap()


SHARED = "x = ()\nfor _ in range(40):\n    x = (x, x)\n"
"""A value that stands for a million million others, and takes up almost nothing."""

HOLDER = "class A:\n    def __init__(self, a):\n        self.a = a\n"
DATACLASS = "from dataclasses import dataclass\n@dataclass\nclass A:\n    a: object\n"
IGNORED = "  # type: ignore"


def keeping(text):
    """Two tools, one whose text is untrusted and one that keeps what it gets, and what was kept."""
    kept = []

    @FunctionTool(settings=ToolSettings(untrusted=True))
    def page() -> str:
        """Read."""
        return text

    @FunctionTool(max_argument_bytes=None)
    def keep(value: Any) -> None:
        """Keep."""
        kept.append(value)

    return [page, keep], kept


@pytest.mark.parametrize(
    "code",
    [
        SHARED + "x",
        SHARED + "{x}",
        SHARED + "{x: 1}",
        SHARED + "[{'a': x}]",
        SHARED + "await keep(value=x)",
        SHARED + "await keep(value=[{x}])",
        SHARED + "await keep(value={x: 1})",
        SHARED + "join(x)",
        "u = await page()\nfor _ in range(30):\n    u = join(u, u)\nu.count()",
        "u = await page()\nfor _ in range(10):\n    u = join(u, u)\nawait keep(value=[u] * 10_000)",
        "u = await page()\n[u] * 1_000_000",
        "x = 'a' * 1_000_000\n[x] * 10_000",
        "x = 'a' * 1_000_000\nawait keep(value=[x] * 10_000)",
        SHARED + HOLDER + "A({x: 1})",
        SHARED + HOLDER + "[A({x})]",
        SHARED + HOLDER + "await keep(value=A({x: 1}))",
        SHARED + HOLDER + f"join(A(x)){IGNORED}",
        SHARED + HOLDER + f"u = await page()\nu.part(A(x)){IGNORED}",
        SHARED + DATACLASS + "A({x: 1})",
        SHARED + "from collections import deque\ndeque([{x: 1}])",
        SHARED + f"u = await page()\nu._id = {{x: 1}}{IGNORED}\nu.count()",
        SHARED + f"u = await page()\nu._id = {{x: 1}}{IGNORED}\nawait keep(value=u)",
        "u = await page()\nawait keep(value={'k' * 1_000_000: [u] * 2_000})",
        SHARED + f"import os\nos.getenv('A', {{x: 1}}){IGNORED}",
        SHARED + "await locals()['_functool_tool'](x, {})",
        SHARED + "locals()['_functool_ask']('part', {x: 1}, ())",
        SHARED + f"await globals()['_functool_tool'](x, {{}}){IGNORED}",
        SHARED + f"await vars()['_functool_tool'](x, {{}}){IGNORED}",
    ],
)
def test_a_small_value_never_becomes_a_large_one_in_the_host(code):
    """What is shared in a program, or joined in the host, is refused before it is written out."""
    tools, kept = keeping("x" * 1000)
    result = run(code_mode(tools, limits=CodeLimits(seconds=2)), code)

    assert not result.success
    assert not kept


def test_tuples_and_sets_are_answered_as_lists():
    """A last value with tuples for keys, or a set of them, is shown as JSON."""
    tool = code_mode([teams])

    odd = value_of(tool, "{(1, 'a'): {2}, 3: (4,), None: 5}")
    assert odd == {"(1, 'a')": [2], "3": [4], "None": 5}
    assert value_of(tool, "[{(1, 2)}]") == [[[1, 2]]]


def test_keys_that_have_one_hash_do_not_hold_the_host():
    """An object whose keys are numbers with one hash leaves a program as quickly as any other."""
    code = "{n * (2**61 - 1): n for n in range(40_000)}"
    start = time.process_time()
    result = run(code_mode([teams]), code)
    took = time.process_time() - start

    assert list(result.value["value"].values()) == list(range(40_000))
    assert took < 1.0


def test_an_object_leaves_a_program_as_its_attributes_or_as_text():
    """A last value shows what an object holds, in any place, and a function or a type by its text."""
    code = (
        f"{HOLDER}{DATACLASS.replace('class A', 'class B')}"
        "from collections import deque\n[A([A(1)]), B((2,)), deque([3]), print, A, 1j]"
    )
    value = run(code_mode([teams]), code).value["value"]

    assert value == [
        {"a": [{"a": 1}]},
        {"a": [2]},
        [3],
        "<built-in function print>",
        "<class 'A'>",
        "1j",
    ]


def test_an_object_of_a_class_that_only_declares_its_attributes_leaves_with_them():
    """The attributes of a dataclass are set nowhere in the program."""
    assert value_of(code_mode([teams]), f"{DATACLASS}A(1)") == {"a": 1}


def test_an_object_that_leads_back_to_itself_leaves_a_program_with_dots_in_that_place():
    """A child that knows its parent is shown, in the parent, without the parent again."""
    code = f"{HOLDER}up = A([])\ndown = A({{'up': up}})\nup.a.append(down)\nup.a.append(down)\nup"
    value = run(code_mode([teams]), code).value["value"]

    assert value == {"a": [{"a": {"up": "..."}}, {"a": {"up": "..."}}]}


def test_what_a_program_hangs_on_an_untrusted_value_stays_in_the_program():
    """Only the number of an untrusted value reaches the host, and nothing that was added to it."""
    tools, kept = keeping("text")
    code = f"{SHARED}u = await page()\nu.more = {{x: 1}}{IGNORED}\nawait keep(value=u)\nu"
    result = run(code_mode(tools, limits=CodeLimits(seconds=2)), code)

    assert result.value["value"] == "<untrusted value of page: not shown>"
    assert kept == ["text"]


@pytest.mark.parametrize("last", ["u", "await keep(value=u)", "join(u)", "u.part()"])
def test_what_a_program_makes_of_untrusted_stays_in_the_program(last):
    """A program may replace the methods of `Untrusted`, and the host gets the number only."""
    tools, _ = keeping("text")
    code = (
        f"{SHARED}def begin(self, number):\n    self._id, self.more = number, {{x: 1}}\n"
        f"Untrusted.__init__ = begin{IGNORED}\nu = await page()\n{last}"
    )
    result = run(code_mode(tools, limits=CodeLimits(seconds=2)), code)

    assert result.success


@pytest.mark.parametrize(
    "value",
    ["datetime.date(2026, 1, 1)", "{}", "b'x' * 1_000", "1"],
    ids=["date", "dict", "bytes", "int"],
)
def test_the_values_of_an_answer_are_bounded(value):
    """Values of every kind count for the limit of what a program returns, also one that stands there many times."""
    result = run(code_mode([]), f"import datetime\nx = {value}\n[x] * 140_000")

    assert "the value is too large" in result.error.message


@pytest.mark.parametrize(
    ("code", "most"),
    [
        ("x = 'a' * 8_000_000\nawait asyncio.gather(*[keep(value=x) for _ in range(20)])", 0),
        ("u = await page()\nfor _ in range(20):\n    await keep(value=u)", 8),
    ],
)
def test_the_arguments_of_all_calls_are_bounded(code, most):
    """The host keeps what the calls of a program are given, so all of it together has a limit.

    Calls that are made together are counted before the first of them runs.
    """
    tools, kept = keeping("x" * 8_000_000)
    result = run(code_mode(tools), code)

    assert "too large" in result.error.message
    assert len(kept) <= most


@pytest.mark.parametrize("library", [SimpleNamespace(memfd_create=lambda *_: -1), object()])
def test_programs_run_where_the_system_has_no_files_in_memory(monkeypatch, library):
    """It may forbid them, or its library of C may be too old: then the interpreter is started directly."""
    monkeypatch.setattr(code_launcher, "ctypes", SimpleNamespace(CDLL=lambda name: library))
    monkeypatch.setattr(code_worker, "_starters", [])
    result = run(code_mode([]), "1 + 1")
    code_worker._starters[0].close()

    assert result.value["value"] == 2


def test_questions_to_the_host_count_as_computing(monkeypatch):
    """A program that asks about an untrusted value without end is stopped by its seconds."""
    monkeypatch.setattr(code_worker, "HOST_TOO", 0.0001)
    tools, _ = keeping("text")
    result = run(code_mode(tools), "u = await page()\nfor _ in range(100_000):\n    u.count()")

    assert result.error.type == "ProgramError"
    assert "with its questions to the host" in result.error.message


@pytest.mark.parametrize(
    "code",
    [
        "await asyncio.gather(pay(to='a', amount=1), pay(to='b', amount=10**5000))",
        "await asyncio.gather(pay(to='a', amount=1), huge())",
        "await pay(to='a', amount=1)\n10**5000",
        "await pay(to='a', amount=1)\n{10**5000: 1}",
        "await pay(to='a', amount=1)\njoin(10**5000)",
        "await pay(to='a', amount=1)\n(await page()).part(10**5000)",
    ],
)
def test_a_number_that_nobody_can_write_hides_no_effect(code):
    """After an integer of 5,000 digits the answer still says which calls took effect."""
    bank = Bank()

    @FunctionTool
    def huge() -> int:
        """Count."""
        return 10**5000

    @FunctionTool(settings=ToolSettings(untrusted=True))
    def page() -> list[int]:
        """Read."""
        return [1]

    result = run(code_mode([bank.tool, huge, page]), code)

    assert result.error.type == "ProgramError"
    assert "pay: done" in result.error.message
    assert result.metadata["calls"][0]["outcome"] == "done"
    assert bank.paid == [("a", 1)]


def test_a_program_out_of_time_names_the_calls_that_it_made(bank):
    """The model reads which calls took effect, and which may have, and the host finds them as data."""
    began = asyncio.Event()

    @FunctionTool
    async def wait() -> None:
        """Wait for ever."""
        began.set()
        await asyncio.Event().wait()

    async def until_time_is_over(call, context, proceed):
        body = asyncio.ensure_future(proceed())
        await began.wait()
        body.cancel()
        await asyncio.wait([body])
        raise ToolTimeoutError("There is no time left.")

    tool = code_mode([bank.tool, wait]).around(until_time_is_over)
    result = run(tool, "await pay(to='a', amount=1)\nawait wait()")

    assert result.error.message == (
        "There is no time left.\n"
        "Calls that it had made, not to be repeated where done: c1/1 pay: done; c1/2 wait: unknown"
    )
    assert outcomes(result) == [("pay", "done"), ("wait", "unknown")]
    assert bank.paid == [("a", 1)]
