"""Normandy's registry and executor in Python, and functool tools behind its protocol in a real Elixir process."""

import asyncio
import io
import json
import os
import shutil
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any, Literal

import pytest

from examples import normandy_port
from functool import (
    Context,
    FunctionTool,
    GuardrailError,
    SchemaTool,
    TextContent,
    ToolModel,
    ToolResult,
    Toolset,
    ToolSettings,
    Tripwire,
)
from functool.integrations.normandy import (
    DEFAULT_TIMEOUT,
    Registry,
    execute,
    execute_parallel,
    execute_sequential,
)
from functool.layers.spill import Spill
from functool.tool_model import Err, Ok
from tests.integrations.odd_tools import HUGE, PNG, huge, picture, ran, refused, stopped

EXAMPLES = Path(__file__).parents[2] / "examples"
PORT = [sys.executable, str(EXAMPLES / "normandy_port.py")]
NOBODY = Err("Tool 'nobody' not found in registry")
LATE = Err("Tool execution timeout after 20ms")
needs_elixir = pytest.mark.skipif(
    shutil.which("elixir") is None, reason="needs elixir (a Debian package)"
)


class Calculator(ToolModel):
    """Calculate with two numbers."""

    operation: Literal["add", "divide"]
    a: int
    b: int = 1

    def run(self) -> Ok[Any] | Err:
        if self.operation == "add":
            return Ok(self.a + self.b)
        return Ok(self.a / self.b) if self.b else Err("Division by zero")


@FunctionTool
def crash(why: str = "out of cheese") -> str:
    """Crash."""
    raise RuntimeError(why)


@FunctionTool
async def wait() -> str:
    """Wait for ever."""
    await asyncio.Event().wait()
    return "never"


@FunctionTool(timeout=0.02)
async def hurried() -> str:
    """Wait for ever, in a hurry."""
    await asyncio.Event().wait()
    return "never"


@FunctionTool
def echo(value: Any = None) -> Any:
    """Return what came."""
    return value


@FunctionTool
async def who(context: Context[str]) -> str:
    """Say who."""
    return context.deps


@pytest.fixture
def registry() -> Registry:
    return Registry([Calculator, crash, wait, hurried, echo])


def run(registry: Registry, name: str, input: Any = None, **options: Any) -> Any:
    return asyncio.run(execute(registry, name, input, **options))


def test_a_registry_takes_some_tools() -> None:
    """A tool, a `ToolModel`, an iterable of them and a toolset make a registry."""
    given = [crash, Calculator, iter([crash, Calculator]), Toolset([crash])]
    names = [Registry(tools).names() for tools in given]

    assert names == [["crash"], ["calculator"], ["crash", "calculator"], ["crash"]]


def test_the_registry_answers_what_normandys_does(registry: Registry) -> None:
    """Registering, getting, listing and counting, in order; a second tool of one name replaces the first."""
    assert registry.names() == ["calculator", "crash", "wait", "hurried", "echo"]
    assert registry.count() == 5 and "crash" in registry and "nobody" not in registry
    assert registry.get("crash") == Ok(crash)
    assert registry.get("nobody") == NOBODY
    assert registry.list()[1:] == [crash, wait, hurried, echo] and list(registry) == registry.list()
    other = SchemaTool("crash", "Crash differently.", {"type": "object"}, lambda arguments: None)
    assert registry.register(other) is registry
    assert registry.get("crash") == Ok(other) and registry.count() == 5


def test_schemas_are_name_description_and_input_schema(registry: Registry) -> None:
    """What a model is told is three keys a tool."""
    first = registry.to_tool_schemas()[0]
    assert list(first) == ["name", "description", "input_schema"]
    assert (first["name"], first["description"]) == ("calculator", "Calculate with two numbers.")
    assert first["input_schema"]["required"] == ["operation", "a"]
    first["input_schema"].clear()
    assert registry.to_tool_schemas()[0]["input_schema"]["required"] == ["operation", "a"]


@pytest.mark.parametrize(
    ("name", "input", "expected"),
    [
        ("calculator", {"operation": "add", "a": 5, "b": 3}, Ok(8)),
        ("calculator", {"operation": "add", "a": 5}, Ok(6)),
        ("calculator", {"operation": "divide", "a": 1, "b": 0}, Err("Division by zero")),
        ("crash", None, Err("Tool execution failed: out of cheese")),
        ("crash", {"why": ""}, Err("Tool execution failed: RuntimeError")),
        ("nobody", {}, NOBODY),
        ("echo", None, Ok(None)),
        ("echo", {"value": 0}, Ok(0)),
        ("echo", {"value": []}, Ok([])),
        ("echo", {"value": False}, Ok(False)),
    ],
)
def test_results_are_ok_or_err_with_normandys_texts(
    registry: Registry, name: str, input: Any, expected: Any
) -> None:
    """A value is Ok, falsy or not; a reason the tool gives is Err as it is; a crash is named as one."""
    assert run(registry, name, input) == expected


@pytest.mark.parametrize(
    ("input", "word"),
    [
        ({"operation": "add"}, "a"),
        ({"operation": "add", "a": None}, "a"),
        ({"operation": "add", "a": 1, "c": 2}, "c"),
    ],
)
def test_bad_arguments_are_refused_unknown_ones_too(
    registry: Registry, input: Any, word: str
) -> None:
    """Normandy drops a key that the tool does not know; here it is refused, as a missing or null one is."""
    refused = run(registry, "calculator", input)

    assert isinstance(refused, Err)
    assert refused.reason.startswith("Invalid arguments. ") and word in refused.reason


def test_the_time_limit_is_in_milliseconds(registry: Registry) -> None:
    """The limit of the call, the tool's own and the smaller of both are named in milliseconds; the default is 30,000."""
    assert run(registry, "wait", timeout=20) == LATE
    assert run(registry, "hurried") == LATE
    assert run(registry, "hurried", timeout=5_000) == LATE
    assert run(registry, "hurried", timeout=10) == Err("Tool execution timeout after 10ms")
    assert DEFAULT_TIMEOUT == 30_000


def test_huge_results_images_and_refusals() -> None:
    """A huge value arrives whole, an image as the value it is, a refusal as its reason; a tripwire leaves as itself."""
    ran.clear()
    registry = Registry([huge, picture, refused, stopped])
    assert run(registry, "huge") == Ok(HUGE)
    assert run(registry, "picture").value[1].data == PNG
    assert run(registry, "refused") == Err("Not on a Sunday.")
    with pytest.raises(Tripwire):
        run(registry, "stopped")
    assert ran == []


def test_a_reason_of_the_authors_own_type_is_told() -> None:
    """A failure with a code of the author's own is told like a crash: with its message, named as a failed execution."""

    def body(arguments: Any) -> ToolResult:
        return ToolResult.failed("no seats left", type="sold_out")

    registry = Registry([SchemaTool("book", "Book.", {"type": "object"}, body)])
    assert run(registry, "book") == Err("Tool execution failed: no seats left")


def test_a_disabled_tool_does_not_run() -> None:
    """A tool that is off in a context is an error there, in one call and in several."""
    wiped: list[str] = []

    def for_admins(context: Context[str]) -> bool:
        return context.deps == "admin"

    @FunctionTool(settings=ToolSettings(is_enabled=for_admins))
    def wipe(context: Context[str]) -> str:
        """Wipe."""
        wiped.append(context.deps)
        return "wiped"

    registry, guest = Registry(wipe), Context("guest")
    refused = Err("The tool 'wipe' is disabled.")
    assert asyncio.run(execute(registry, "wipe", context=guest)) == refused
    calls = [("wipe", None)]
    assert asyncio.run(execute_parallel(registry, calls, context=guest)) == [refused]
    assert asyncio.run(execute(registry, "wipe", context=Context("admin"))) == Ok("wiped")
    assert wiped == ["admin"]


def test_the_context_reaches_the_tool() -> None:
    """What the caller passes as context is the function's."""
    assert run(Registry([who]), "who", context=Context("Bo")) == Ok("Bo")


def test_what_a_guardrail_shows_is_the_value() -> None:
    """A stored result is its handle, one that is shown as nothing is None, and one that has only an output is its text."""
    spill = Spill(limit=100)
    long = FunctionTool(lambda: ["x" * 200], name="long", output_guardrails=[spill.guardrail])
    plain = FunctionTool(lambda: ToolResult(output=[TextContent(text="hi")]), name="plain")
    silent = FunctionTool(
        lambda: ["secret"],
        name="silent",
        output_guardrails=[lambda result, context: result.shown_as([])],
    )
    registry = Registry([long, plain, silent])

    kept = run(registry, "long")
    assert isinstance(kept, Ok)
    assert "kept as" in kept.value
    assert run(registry, "plain") == Ok("hi")
    assert run(registry, "silent") == Ok(None)


def test_a_tripwire_waits_for_the_calls_beside_it() -> None:
    """No body goes on after the tripwire was raised, and it carries what the others returned."""
    done = []

    @FunctionTool
    async def slow() -> str:
        """Take a few turns of the event loop."""
        for _ in range(50):
            await asyncio.sleep(0)
        done.append("slow")
        return "slow"

    calls = [("slow", None), ("stopped", None), ("slow", None)]
    with pytest.raises(Tripwire) as stop:
        asyncio.run(execute_parallel(Registry([slow, stopped]), calls))

    assert done == ["slow", "slow"]
    assert stop.value.results == [Ok("slow"), Ok("slow")]


def test_parallel_results_keep_the_order_of_the_calls() -> None:
    """The calls run side by side, and a slow first one is still the first result."""
    gate = asyncio.Event()

    @FunctionTool
    async def slow() -> str:
        """Wait for the other."""
        await gate.wait()
        return "slow"

    @FunctionTool
    async def quick() -> str:
        """Open the gate."""
        gate.set()
        return "quick"

    calls = [("slow", None), ("nobody", {}), ("quick", None)]
    results = asyncio.run(execute_parallel(Registry([slow, quick]), calls))
    assert results == [Ok("slow"), NOBODY, Ok("quick")]


def test_limit_and_context_hold_for_every_call_of_several(registry: Registry) -> None:
    """The time limit and the context of a batch are those of each of its calls."""
    registry.register(who)
    calls = [("who", None), ("wait", None)]
    for run_all in (execute_parallel, execute_sequential):
        results = asyncio.run(run_all(registry, calls, timeout=20, context=Context("Bo")))
        assert results == [Ok("Bo"), LATE]


def test_sequential_stops_at_the_first_error() -> None:
    """Nothing runs after the first error, which is the last result."""
    done: list[int] = []

    @FunctionTool
    def step(n: int) -> int:
        """Step."""
        done.append(n)
        if n == 2:
            raise GuardrailError("two is too many")
        return n

    calls = [("step", {"n": n}) for n in (1, 2, 3)]
    results = asyncio.run(execute_sequential(Registry([step]), calls))
    assert results == [Ok(1), Err("two is too many")]
    assert done == [1, 2]


def answers_of(written: bytes, **options: Any) -> dict[Any, Any]:
    """Send bytes to the Python end of the Port; return its answers by id."""
    done = subprocess.run(PORT, input=written, capture_output=True, check=True, **options)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(written.splitlines())
    return {answer.pop("id"): answer for answer in answers}


def test_the_port_answers_a_line_with_a_line() -> None:
    """Each request has one answer with its id, values and errors apart, and what a tool prints is not on the wire."""

    def calculate(**input: Any) -> dict[str, Any]:
        return {"op": "run", "name": "calculator", "input": input}

    requests = [
        {"op": "schemas"},
        calculate(operation="add", a=5, b=3),
        calculate(operation="divide", a=1, b=0),
        {"op": "run", "name": "greet", "input": {"name": "Zoë"}},
        {"op": "run", "name": "wait", "input": {"seconds": 60}, "timeout": 20},
    ]
    lines = [json.dumps({"id": n, **request}) for n, request in enumerate(requests, 1)]
    answers = answers_of("\n".join([*lines, "not json\n"]).encode())

    names = [schema["name"] for schema in answers[1]["ok"]]
    assert names == ["calculator", "greet", "wait", "crash"]
    assert answers[2] == {"ok": 8}
    assert answers[3] == {"error": "Division by zero"}
    assert answers[4] == {"ok": {"text": "Hello, Zoë!", "length": 3}}
    assert answers[5] == {"error": "Tool execution timeout after 20ms"}
    assert answers[None]["error"].startswith("bad request: JSONDecodeError")


def answered(tools: Any, line: str) -> Any:
    return asyncio.run(normandy_port.answer(Registry(tools), line))


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        ({"op": "sing"}, 'bad request: ValueError: expected "op": "schemas", or "op": "run"'),
        ({}, 'bad request: ValueError: expected "op"'),
        ({"op": "run"}, 'bad request: ValueError: expected "op"'),
        ({"op": "run", "name": ["greet"]}, 'bad request: ValueError: expected "op"'),
        ({"op": "run", "name": "greet", "input": [1]}, "Invalid arguments."),
        (
            {"op": "run", "name": "greet", "timeout": "soon"},
            "bad request: TypeError: expected a num",
        ),
        ({"op": "run", "name": "greet", "timeout": True}, "bad request: TypeError: expected a num"),
        ({"op": "run", "name": "greet", "timeout": 10**400}, "bad request: OverflowError"),
        ({"op": "run", "name": "greet", "timeout": -1}, "timeout must be"),
    ],
)
def test_the_port_answers_a_bad_request_under_its_own_id(request_: Any, told: str) -> None:
    """Whoever waits for an id gets the error of its own request, and the next request is answered."""
    line = json.dumps({"id": "a1", **request_})
    found = answered([normandy_port.greet], line)

    assert list(found) == ["id", "error"] and found["id"] == "a1"
    assert found["error"].startswith(told), found


@pytest.mark.parametrize("line", ["[1]", "7", "not json", '{"id"', "[" * 100_000, "\ufffd"])
def test_a_line_without_an_id_is_answered_under_none(line: str) -> None:
    """What is no JSON object has no id: its error stands under null."""
    found = answered([normandy_port.greet], line)

    assert found["id"] is None and found["error"].startswith("bad request: ")


@pytest.mark.parametrize("value", ["9" * 5_000, "[" * 100_000 + "]" * 100_000])
def test_a_line_that_cannot_be_read_is_answered_under_the_id_at_its_head(value: str) -> None:
    """Elixir writes numbers and nesting that Python does not read: the caller gets an error, and does not wait for ever."""
    line = f'{{"id": 7, "op": "run", "name": "greet", "input": {{"name": {value}}}}}'
    found = answered([normandy_port.greet], line)
    assert found["id"] == 7 and found["error"].startswith("bad request: ")


def test_a_tripwire_is_the_answer_of_its_own_request() -> None:
    """A guardrail that stops a run ends one request, and not the process that answers the others."""
    ran.clear()
    found = answered([stopped], '{"id": 7, "op": "run", "name": "stopped"}')
    assert found == {"id": 7, "error": "Stop everything."} and ran == []


def test_the_port_survives_bytes_that_are_no_text() -> None:
    """One line that is no UTF-8 is a bad request, and the next one is answered."""
    written = b'\xff\xfe\n{"id": 2, "op": "run", "name": "crash"}\n'
    answers = answers_of(written, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert answers[None]["error"].startswith("bad request: JSONDecodeError")
    assert answers[2] == {"error": "Tool execution failed: out of cheese"}


def test_the_port_ends_quietly_when_its_reader_has_gone() -> None:
    """A call that nobody waits for any more is cancelled: the process ends well and says nothing."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(PORT, text=True, **pipes)
    assert process.stdin and process.stdout and process.stderr
    for request in (
        {"id": 1, "op": "run", "name": "wait", "input": {"seconds": 120}, "timeout": 120_000},
        {"id": 2, "op": "schemas"},
    ):
        process.stdin.write(json.dumps(request) + "\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["id"] == 2  # The first call is under way.
    process.stdout.close()
    process.stdin.close()

    try:
        assert (process.wait(timeout=60), process.stderr.read()) == (0, "")
    finally:
        process.kill()
        process.stderr.close()


def test_the_port_writes_what_plain_json_does_not_know() -> None:
    """A date, a set or a picture in a value does not break the line."""
    day = date(2026, 11, 21)
    today = FunctionTool(lambda: {"day": day}, name="today", description="Today.")
    asked, wire = io.StringIO('{"id": 1, "op": "run", "name": "today"}\n'), io.StringIO()
    asyncio.run(normandy_port.serve(Registry([today]), asked, wire))
    assert json.loads(wire.getvalue()) == {"id": 1, "ok": {"day": "2026-11-21"}}


def test_a_value_that_json_cannot_say_is_its_text() -> None:
    """The line stays JSON, so that Elixir can read it and the answers after it."""
    deep: list[Any] = []
    for _ in range(300):
        deep = [deep]
    for value in (deep, {"numbers": map(int, "12")}):
        odd = FunctionTool(lambda value=value: value, name="odd", description="Odd.")
        found = answered([odd], '{"id": 1, "op": "run", "name": "odd"}')
        line = json.loads(normandy_port.line_of(found))
        assert line["id"] == 1 and isinstance(line["ok"], str)


NOISY = """
import subprocess, sys
from examples import normandy_port
from functool import FunctionTool

def noisy() -> str:
    subprocess.run(["sh", "-c", "echo noise; cat"], check=True)
    return "quiet"

tools = [FunctionTool(noisy), FunctionTool(lambda: sys.exit(3), name="leave")]
registry = normandy_port.Registry(tools)
normandy_port.Registry = lambda known: registry
normandy_port.main()
"""


def test_a_program_that_a_tool_starts_does_not_meet_the_wire() -> None:
    """What it writes goes to standard error, and it reads no request; a tool that ends the process ends it at once."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, "-c", NOISY], cwd=EXAMPLES.parent, **pipes)
    assert process.stdin and process.stdout and process.stderr
    try:
        for name in ("noisy", "leave"):
            request = {"id": name, "op": "run", "name": name}
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            if name == "noisy":
                assert json.loads(process.stdout.readline()) == {"id": "noisy", "ok": "quiet"}
        assert process.stdout.read() == b""  # It has ended, although its input is open.
        assert process.wait(timeout=60) == 3
        assert b"noise" in process.stderr.read()
    finally:
        process.kill()
        for stream in (process.stdin, process.stdout, process.stderr):
            stream.close()


def elixir(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["elixir", *words], capture_output=True, text=True, check=False)


@needs_elixir
def test_elixir_runs_the_tools_behind_normandys_protocol() -> None:
    """A real Elixir process sees Python tools as its own: schemas, values, reasons, crashes, limits and parallel calls."""
    done = elixir(str(EXAMPLES / "normandy_port.exs"), sys.executable)
    assert done.returncode == 0, done.stderr
    shown = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    assert shown["names"] == '["calculator", "crash", "greet", "wait"]'
    assert shown["required"] == '["operation", "a", "b"]'
    assert shown["add"] == "{:ok, 8}"
    assert shown["divide"] == "{:ok, 0.5}"
    assert shown["by zero"] == '{:error, "Division by zero"}'
    assert shown["greet"] == '{:ok, %{"length" => 10, "text" => "Hello, Zoë \\"Z\\" 🐈\\n!"}}'
    assert shown["unknown key"].startswith('{:error, "Invalid arguments. ')
    assert "volume" in shown["unknown key"]
    assert shown["missing"].startswith('{:error, "Invalid arguments. name')
    assert shown["crash"] == '{:error, "Tool execution failed: out of cheese"}'
    assert shown["late"] == '{:error, "Tool execution timeout after 50ms"}'
    assert shown["nobody"] == "{:error, \"Tool 'nobody' not found in registry\"}"
    parallel = '[ok: "waited", ok: 42, error: "Tool execution failed: out of cheese"]'
    assert shown["parallel"] == parallel


ODD = """
{:ok, wire} = Wire.start_link(System.argv())
deep = Enum.reduce(1..100_000, [], fn _, inner -> [inner] end)

for value <- [{1, 2}, <<255>>, deep, "Bo"] do
  request = %{op: "run", name: "greet", input: %{name: value}}

  try do
    {kind, _} = Wire.ask(wire, request)
    IO.puts(kind)
  rescue
    _ -> IO.puts("raised")
  end
end
"""


@needs_elixir
def test_a_value_that_is_no_json_ends_its_caller_only(tmp_path: Path) -> None:
    """A tuple and bytes that are no text raise where they are sent; what Python cannot read is an error; the wire goes on."""
    script = tmp_path / "odd.exs"
    modules = (
        (EXAMPLES / "normandy_port.exs").read_text().removesuffix("Example.main(System.argv())\n")
    )
    script.write_text(modules + ODD)
    done = elixir(str(script), *PORT)
    assert done.stdout.split() == ["raised", "raised", "error", "ok"], done.stderr


LEAVING = """
path = System.find_executable(hd(System.argv()))
arguments = tl(System.argv())
port = Port.open({:spawn_executable, path}, [:binary, {:line, 65_536}, {:args, arguments}])
run = ~s({"id": 1, "op": "run", "name": "wait", "input": {"seconds": 120}, "timeout": 120000})
Port.command(port, run <> "\\n" <> ~s({"id": 2, "op": "schemas"}) <> "\\n")
receive do
  {^port, {:data, {:eol, _}}} -> IO.puts("leaving")
end
System.halt(0)
"""


@needs_elixir
def test_python_ends_when_elixir_leaves_in_the_middle_of_a_call() -> None:
    """Elixir stops while a call runs: the Python process ends too, without a traceback."""
    # Python holds standard error open: this returns when both have ended.
    done = elixir("-e", LEAVING, *PORT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "leaving\n", "")


@needs_elixir
# `true` ends before it is asked, after it, or in between: each is seen within a few runs.
@pytest.mark.parametrize("python", [sys.executable, *["true"] * 6])
def test_the_elixir_example_says_how_to_call_it(python: str) -> None:
    """A program that ends at once is one line with the usage, and no crash report."""
    done = elixir(str(EXAMPLES / "normandy_port.exs"), python, "/nowhere.py")
    assert done.returncode == 1
    assert "Usage: elixir normandy_port.exs [PYTHON [PROGRAM]]" in done.stderr
    assert "MatchError" not in done.stderr and "** (" not in done.stderr
