"""`--context` and `--save`: dependencies of calls, and results that are no text."""

import asyncio
import signal
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("click")
pytest.importorskip("rich")


from tests.command_line import PIPES, PROGRAM, SERVER, run, serving
from tests.support import free_port, listening

TOOLS = '''
import asyncio
import functools
import sys
import time
from contextlib import asynccontextmanager, contextmanager

from functool import Context, FileContent, FunctionTool, ImageContent, ToolSettings
from functool.guardrails import require_approval
from functool.layers.inbox import Inbox


@FunctionTool
def count(context: Context, n: int = 1) -> str:
    """Count up in this conversation."""
    context.state["n"] = context.state.get("n", 0) + n
    return f"{context.deps} {context.state['n']}"


@FunctionTool
def files() -> list[ImageContent | FileContent]:
    """Return a picture and a file."""
    return [ImageContent(data=b"png"), FileContent(data=b"text", name="../../x.csv"), FileContent(data=b"?")]


@FunctionTool(settings=ToolSettings(is_enabled=lambda context: context.deps == "ada"))
def ada_only() -> str:
    """Exist for Ada."""
    return "ada"


@FunctionTool
async def wait() -> None:
    """Wait."""
    print("begun", file=sys.stderr, flush=True)
    await asyncio.sleep(60)


@FunctionTool
def wait_in_thread() -> None:
    """Wait in a thread."""
    print("begun", file=sys.stderr, flush=True)
    time.sleep(60)


@FunctionTool
async def write_down() -> str:
    """Take some time, and use what the context has opened until the end."""
    print("begun", file=sys.stderr, flush=True)
    try:
        await asyncio.sleep(2)
        return "written"
    finally:
        print("ended", file=sys.stderr, flush=True)


def plain():
    return Context("plain")


async def later():
    return Context("later")


@contextmanager
def managed():
    print("open")
    try:
        yield Context("managed")
    finally:
        print("close")


@asynccontextmanager
async def ada():
    print("open", file=sys.stderr, flush=True)
    try:
        yield Context("ada")
    finally:
        print("close", file=sys.stderr, flush=True)


async def bare():
    yield Context("bare")


class Shop:
    """What a context holds and a tool looks at."""


@FunctionTool
def is_shop(context: Context) -> bool:
    """Tell whether the dependencies are of this file's class."""
    return isinstance(context.deps, Shop)


def shop():
    return Context(Shop())


def wanting(request):
    return Context(request)


@functools.wraps(wanting)
def given():
    return wanting("given")


instance = Context("instance")
number = 3


@FunctionTool(input_guardrails=[require_approval()], timeout=60)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def asking():
    return Context(approver=Inbox("approvals.db").approver)
'''


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "deps_kit.py").write_text(TOOLS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["plain", "later", "managed", "ada", "given", "instance"])
def test_a_context_of_every_kind(folder, name):
    """A function, an async one, context managers and a Context give the call its dependencies."""
    result = run("call", "--context", f"deps_kit.py:{name}", "deps_kit.py", "count")

    assert result.stdout == f"{name} 1\n"
    if name in ("managed", "ada"):
        assert result.stderr == "open\nclose\n"


@pytest.mark.parametrize(
    ("name", "said", "code"),
    [
        ("deps_kit.py:number", "gave a int", 2),
        ("deps_kit.py:bare", "asynccontextmanager", 2),
        ("deps_kit.py:nothing", "deps_kit has no 'nothing'", 1),
        ("deps_kit.py:plane", "has no 'plane'; did you mean 'plain'?", 1),
        ("deps_kit.py:wanting", "wanting is called without arguments: missing a required", 2),
        ("deps_kit.py", "write FILE:NAME", 1),
    ],
)
def test_what_is_no_context(folder, name, said, code):
    """Anything else is an error that says what to do."""
    assert said in run("call", "--context", name, "deps_kit.py", "count", code=code).stderr


def test_a_context_of_the_tools_own_file(folder):
    """The file is read once: the context holds what its tools know."""
    result = run("call", "--context", "deps_kit.py:shop", "deps_kit.py", "is_shop")

    assert result.stdout == "true\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["deps_kit.py", "count", "--context", "x"], "Write --context before the target."),
        (["deps_kit.py:count", "--n", "2"], "name the tool before its options: count"),
    ],
)
def test_an_order_of_words_that_call_does_not_take(folder, words, said):
    """The error for options in the wrong place says where they go."""
    assert said in run("call", *words, code=2).stderr


def test_check_sees_what_the_context_enables(folder):
    """`check --context` checks the tools that are enabled there."""
    assert "ada_only" in run("check", "--context", "deps_kit.py:ada", "deps_kit.py:ada_only").stdout
    refused = run("check", "--context", "deps_kit.py:plain", "deps_kit.py:ada_only", code=1)
    assert "no tools" in refused.stderr


def test_save_where_nothing_can_be_written(folder):
    """A folder that cannot be made is an error after the result: the tool has run."""
    done = run("call", "--save", "/dev/null/out", "deps_kit.py", "files", code=1)

    assert done.stdout == run("call", "deps_kit.py", "files").stdout
    assert "/dev/null/out" in done.stderr


def test_save_where_nobody_reads_the_result(folder):
    """The files are there also if standard output takes nothing."""
    command = [*PROGRAM, "call", "--save", "out", "deps_kit.py", "files"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)

    assert done.returncode == 1
    assert "saved out/files-1.png" in done.stderr


def test_save(folder):
    """`--save` writes each binary part under a name of ours, and overwrites nothing."""
    first = run("call", "--save", "out", "deps_kit.py", "files").stderr
    run("call", "--save", "out", "deps_kit.py", "files")

    assert "saved out/files-1.png" in first
    assert {path.name for path in (folder / "out").iterdir()} == {
        *("files-1.bin", "files-1.csv", "files-1.png"),
        *("files-2.bin", "files-2.csv", "files-2.png"),
    }
    assert (folder / "out" / "files-1.csv").read_bytes() == b"text"


def stopped(folder, words, number, *begun):
    """Send a signal to a program that has printed the lines `begun`; return the rest and its code."""
    with subprocess.Popen([*PROGRAM, *words], cwd=folder, text=True, **PIPES) as process:
        assert [process.stderr.readline() for _ in begun] == [*begun]
        process.send_signal(number)
        rest = process.stderr.read()
        process.wait(60)
    assert "Traceback" not in rest
    return rest, process.returncode


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_server_closes_its_context(folder, transport, number):
    """On Ctrl-C, and when it is terminated, a server closes what it opened."""
    pytest.importorskip("mcp")
    words = ["serve", "deps_kit.py", "--context", "deps_kit.py:ada", "--transport", transport]
    if transport == "http":
        words += ["--port", str(free_port())]
    rest, code = stopped(folder, words, number, "open\n")

    assert "close\n" in rest
    assert code == 128 + number


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_server_lets_its_calls_end(folder, number):
    """A server over HTTP that is stopped closes its context only after the calls that still run."""
    pytest.importorskip("mcp")
    from functool import ToolCall
    from functool.integrations import mcp

    port = free_port()
    words = ["serve", "deps_kit.py", "--context", "deps_kit.py:ada", "--transport", "http"]

    async def call_and_stop(process):
        async with mcp.connect(f"http://127.0.0.1:{port}/mcp") as tools:
            calling = asyncio.create_task(tools.call(ToolCall(name="write_down")))
            while await asyncio.to_thread(process.stderr.readline) != "begun\n":
                pass
            process.send_signal(number)
            return (await calling).text

    command = [*PROGRAM, *words, "--port", str(port)]
    with subprocess.Popen(command, text=True, **PIPES) as process:
        listening(port, process)
        text = asyncio.run(call_and_stop(process))
        rest = process.stderr.read()

    assert text == "written"
    assert rest.index("ended\n") < rest.index("close\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 1), (signal.SIGTERM, 128 + 15)])
@pytest.mark.parametrize("tool", ["wait", "wait_in_thread"])
def test_a_stopped_call_closes_its_context(folder, tool, number, code):
    """On Ctrl-C, and when it is terminated, a call closes what it opened."""
    words = ["call", "--context", "deps_kit.py:ada", "deps_kit.py", tool]
    rest, ended = stopped(folder, words, number, "open\n", "begun\n")

    assert "close\n" in rest
    assert ended == code


def test_sessions_share_dependencies_and_no_state(folder):
    """Two clients of one server have the same deps, and each a state of its own that lasts."""
    pytest.importorskip("mcp")
    from functool import ToolCall
    from functool.integrations import mcp

    texts = []

    async def use(url):
        async with mcp.connect(url, mode="legacy") as one, mcp.connect(url, mode="legacy") as other:
            for tools in (one, one, other):
                result = await tools.call(ToolCall(name="count", arguments={}))
                texts.append(result.text)

    with serving("deps_kit.py", "--context", "deps_kit.py:ada") as url:
        asyncio.run(use(url))

    assert texts == ["ada 1", "ada 2", "ada 1"]


def test_a_session_uses_no_grant_of_another_one(folder):
    """What a person allows one client of a server for next time, another one is asked for."""
    pytest.importorskip("mcp")
    from functool import ToolCall
    from functool.approval import Grant
    from functool.integrations import mcp
    from functool.layers.inbox import Inbox

    inbox, asked = Inbox(folder / "approvals.db"), []

    async def answered(tools, amount, uses=0):
        """Call, and answer what waits: refuse it, or allow this call and so many more."""
        call = ToolCall(name="pay", arguments={"amount": amount})
        calling = asyncio.create_task(tools.call(call))
        while not calling.done():
            for request in inbox.pending():
                asked.append(request.arguments["amount"])
                names = {"tool": request.tool, "definition": request.definition}
                grant = Grant(**names, arguments={}, free=("amount",), uses=uses or 1)
                if uses:
                    inbox.approve(request.id, grant=grant)
                else:
                    inbox.deny(request.id)
            await asyncio.sleep(0.05)
        return (await calling).text

    async def use(url):
        async with mcp.connect(url, mode="legacy") as ada, mcp.connect(url, mode="legacy") as max_:
            return [
                await answered(ada, 1, uses=5),
                await answered(ada, 2),
                await answered(max_, 3),
                await answered(ada, 4),
            ]

    with serving("deps_kit.py:pay", "--context", "deps_kit.py:asking") as url:
        texts = asyncio.run(use(url))

    assert texts == ["paid 1", "paid 2", "A person refused this call.", "paid 4"]
    assert asked == [1, 3]
    assert [grant.uses for grant in inbox.grants()] == [3]


def test_one_state_on_standard_input(folder):
    """A server on standard input has one client, and one context for it."""
    pytest.importorskip("mcp")
    from functool import ToolCall
    from functool.integrations import mcp

    async def use(command):
        async with mcp.connect(command) as tools:
            calls = [await tools.call(ToolCall(name="count", arguments={})) for _ in range(2)]
        return [result.text for result in calls]

    server = f"{SERVER} deps_kit.py"

    assert asyncio.run(use(f"{server} --context deps_kit.py:ada")) == ["ada 1", "ada 2"]
    assert asyncio.run(use(server)) == ["None 1", "None 2"]
