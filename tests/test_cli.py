"""The command line, as a user types it."""

import asyncio
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from contextlib import asynccontextmanager
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace

import pytest

pytest.importorskip("click")
pytest.importorskip("rich")

import click
from click.testing import CliRunner

from functool import FunctionTool, SchemaTool, ToolCall
from functool.cli import main
from functool.cli.serving import serve_targets
from functool.integrations.click import answer_form, export
from tests.command_line import PIPES, PROGRAM, SERVER, run, serving, terminal
from tests.support import python

ROOT = Path(__file__).parents[1]

TOOLS = '''
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from functool import Context, FunctionTool, ToolModel, Toolset
from functool.guardrails import require_approval

print("printed while loading")
number = 3


@FunctionTool
def search(query: str, max_results: int = 10, exact: bool = False, tags: list[str] = [],
           kind: Literal["web", "news"] = "web", where: dict[str, int] | None = None, score: float | None = None):
    """Search the web.

    Slowly.

    Args:
        query: What to look for.
        max_results: How many.
        exact: Whether to match exactly.
        tags: Only these.
        kind: Where to look.
        where: Conditions.
        score: At least this.
    """
    print("printed by the body")
    return {"query": query, "max": max_results, "exact": exact, "tags": tags, "kind": kind, "where": where, "score": score}


@FunctionTool(input_guardrails=[require_approval()])
def delete(path: str) -> str:
    """Delete a file.

    Args:
        path: Which.
    """
    return f"deleted {path}"


@FunctionTool
def fail():
    """Fail."""
    raise RuntimeError("the disk is full")


@FunctionTool
def odd(json: str = "", yes: bool = False, help: str = "", arg: int = 1):
    """Take names that the command line uses itself.

    Args:
        json: A text.
        yes: A flag.
        help: A text.
        arg: A number.
    """
    return [json, yes, help, arg]


@FunctionTool
def steps(context: Context, count: int = 5):
    """Report progress.

    Args:
        count: How many steps.
    """
    import time
    for done in range(1, count + 1):
        context.progress(f"step {done}", done, count)
        time.sleep(0.1)
    return "finished"


class Double(ToolModel):
    """Double a number."""

    n: int = Field(description="The number.")

    def run(self):
        return self.n * 2


both = Toolset([search, fail])


def plain(a: int) -> int:
    """Add one."""
    return a + 1
'''


A_TOOL = "from functool import FunctionTool\n\n@FunctionTool\ndef a(): 'A.'\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a file of tools, and the place where commands run."""
    (tmp_path / "kit.py").write_text(TOOLS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("kit", "_kit"):
        sys.modules.pop(name, None)
    return tmp_path


def value(*words, **options):
    """Return what a call printed, read as JSON."""
    return json.loads(run("call", *words, **options).stdout)


# list


@pytest.mark.parametrize(
    ("target", "names"),
    [
        ("kit.py", ["search", "delete", "fail", "odd", "steps", "double"]),
        ("kit", ["search", "delete", "fail", "odd", "steps", "double"]),
        ("kit.py:search", ["search"]),
        ("kit:both", ["search", "fail"]),
        ("kit:Double", ["double"]),
        ("kit.py:plain", ["plain"]),
    ],
)
def test_targets(folder, target, names):
    """A file or module gives all its tools, each once; an object those that it is or holds; a function becomes one."""
    lines = run("list", target).stdout.splitlines()

    assert [line.split("\t")[0] for line in lines] == names


def test_list_says_what_tools_do(folder):
    """Each line holds a name and the first line of the description."""
    assert run("list", "kit.py:search").stdout == "search\tSearch the web.\n"


def test_list_as_json(folder):
    """`--json` prints all that the tools say of themselves."""
    [told] = json.loads(run("list", "kit.py:search", "--json").stdout)

    assert told["description"] == "Search the web.\n\nSlowly."
    assert told["parameters"]["required"] == ["query"]


def test_an_installed_module(folder):
    """`package.module:object` is imported; a package's own file is no obstacle."""
    package = folder / "box"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "inner.py").write_text(A_TOOL)

    assert run("list", "box.inner:a").stdout == "a\tA.\n"


def test_a_file_called_like_a_module(folder):
    """A file may be called like a module that is loaded; that module stays what it is."""
    (folder / "json.py").write_text(A_TOOL)

    assert run("list", "json.py").stdout == "a\tA.\n"
    assert sys.modules["json"] is json


# schema


def test_schema(folder):
    """One tool gives its JSON Schema, several a list."""
    one = json.loads(run("schema", "kit.py", "fail").stdout)
    many = json.loads(run("schema", "kit:both").stdout)

    assert one == {
        "name": "fail",
        "description": "Fail.",
        "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
    }
    assert [each["name"] for each in many] == ["search", "fail"]


def test_schema_strict(folder):
    """`--strict` leaves no argument optional."""
    shown = json.loads(run("schema", "kit.py", "search", "--strict").stdout)["parameters"]

    assert sorted(shown["required"]) == sorted(shown["properties"])
    assert shown["additionalProperties"] is False


@pytest.mark.parametrize(
    ("dialect", "key"),
    [
        ("openai", "parameters"),
        ("anthropic", "input_schema"),
        ("mcp", "inputSchema"),
        ("bedrock", "toolSpec"),
    ],
)
def test_schema_in_a_dialect(folder, dialect, key):
    """`--dialect` prints what that provider takes."""
    assert key in json.loads(run("schema", "kit.py", "search", "--dialect", dialect).stdout)


def test_schema_losses(folder):
    """`--losses` prints what a dialect drops; it needs one."""
    losses = run("schema", "kit.py", "--dialect", "gemini", "--losses").stdout.splitlines()

    assert losses
    assert all(
        loss.partition(":")[0] in ("search", "delete", "fail", "odd", "steps", "double")
        for loss in losses
    )
    assert "--dialect" in run("schema", "kit.py", "--losses", code=2).stderr


# call


def test_call(folder):
    """Options are made from the schema; only the result is on standard output."""
    words = "--query cats --max-results 3 --exact --tags a --tags b --kind news --score 1.5".split()

    assert value("kit.py", "search", *words, "--where", '{"n": 1}') == {
        "query": "cats",
        "max": 3,
        "exact": True,
        "tags": ["a", "b"],
        "kind": "news",
        "where": {"n": 1},
        "score": 1.5,
    }


def test_defaults_are_the_tools_own(folder):
    """An option that is not given is not sent."""
    called = value("kit.py", "search", "--query", "x", "--no-exact")

    assert (called["max"], called["exact"], called["tags"]) == (10, False, [])


def test_arguments_as_json(folder):
    """`--json` and `-` give all arguments at once, and options beside them win."""
    text = '{"query": "a", "max_results": 2}'
    (folder / "all.json").write_text(text)

    assert value("kit.py", "search", "--json", text)["max"] == 2
    assert value("kit.py", "search", "--json=@all.json")["query"] == "a"
    assert value("kit.py", "search", "-", input=text)["query"] == "a"
    assert value("kit.py", "search", "--json", text, "--max-results", "7")["max"] == 7


def test_values_from_files(folder):
    """`@` reads a file, `@-` standard input, and `@@` is an @; a lone dash after an option is a dash."""
    (folder / "query.txt").write_text("from a file")
    (folder / "where.json").write_text('{"n": 2}')

    assert value("kit.py", "search", "--query", "@query.txt", "--where", "@where.json") | {} == {
        **value("kit.py", "search", "--query", "from a file"),
        "where": {"n": 2},
    }
    assert value("kit.py", "search", "--query", "@-", input="typed")["query"] == "typed"
    assert value("kit.py", "search", "--query", "@@home")["query"] == "@home"
    assert value("kit.py", "search", "--query", "-")["query"] == "-"


def test_names_that_the_command_line_uses(folder):
    """Arguments called like our own options get another name."""
    words = ["--arg-json", "j", "--arg-yes", "--arg-help", "h", "--arg", "5"]

    assert value("kit.py", "odd", *words) == ["j", True, "h", 5]


def test_a_flag_belongs_to_one_argument(folder):
    """`--no-cache` means the argument `no_cache`, also if a later argument is called `cache`."""
    (folder / "odd.py").write_text(
        "from functool import FunctionTool\n\n"
        "@FunctionTool\ndef get(no_cache: bool = False, cache: bool = True) -> list[bool]:\n"
        "    return [no_cache, cache]\n"
    )

    assert value("odd.py", "get", "--no-cache", "--no-arg-cache") == [True, False]


def test_an_argument_that_is_no_switch_keeps_its_flag(folder):
    """`--proxy` needs no `--no-proxy`, so an argument `no_proxy` before it does not take its flag."""
    (folder / "odd.py").write_text(
        "from functool import FunctionTool\n\n"
        "@FunctionTool\ndef get(no_proxy: str, proxy: str) -> list[str]:\n"
        "    return [no_proxy, proxy]\n"
    )

    assert value("odd.py", "get", "--no-proxy", "a", "--proxy", "b") == ["a", "b"]


def test_null_is_a_value(folder):
    """JSON's null is sent like any other value: the tool does not use its default in place of it."""
    (folder / "odd.py").write_text(
        "from functool import FunctionTool\n\n"
        "@FunctionTool\ndef get(n: int | None = 5, items: list[int | None] = [1]) -> list:\n"
        "    return [n, *items]\n"
    )

    assert value("odd.py", "get", "--n", "null", "--items", "null", "--items", "2") == [
        None,
        None,
        2,
    ]
    assert value("odd.py", "get") == [5, 1]


def test_names_that_would_be_one_flag(folder):
    """Arguments of a stranger's schema whose names differ in signs only get flags of their own, numbered and short."""
    schema = {"properties": {f"a{'!' * n}": {"type": "integer"} for n in range(50)}}
    tool = SchemaTool("get", "", {"type": "object", **schema}, dict)
    flags = [option.opts[0] for option in export(tool).params[:50]]

    assert flags[:4] == ["--a", "--arg-a", "--arg-a-2", "--arg-a-3"]
    assert len(set(flags)) == 50 and max(map(len, flags)) == len("--arg-a-49")


@pytest.mark.parametrize(
    "words",
    [("list", "deep.py", "--json"), ("schema", "deep.py"), ("lock", "deep.py", "--to", "-")],
)
def test_indentation_does_not_multiply_a_schema(folder, monkeypatch, words):
    """Indented, the deep lists of a stranger's schema would be a hundred times as long: then they are on one line."""
    monkeypatch.setattr("functool.cli.telling.MOST_INDENTED", 100_000)
    (folder / "deep.py").write_text(
        "from functool import SchemaTool\n\nvalue = [0] * 2_000\n"
        "for _ in range(90):\n    value = [value]\n"
        "schema = {'type': 'object', 'properties': {'p': {'enum': [value]}}}\n"
        "deep = SchemaTool('deep', '', schema, dict)\n"
    )
    shown = run(*words).stdout

    assert json.loads(shown) and len(shown) < 50_000


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_of_a_tool(folder, flag):
    """`--help`, or `-h` as everywhere, after a tool teaches its arguments."""
    shown = run("call", "kit.py", "search", flag).stdout

    assert "functool call kit.py search [OPTIONS]" in shown
    assert "Search the web." in shown
    assert "--query TEXT" in shown
    assert "What to look for." in shown
    assert "[required]" in shown
    assert "[web|news]" in shown
    assert "[default: 10]" in shown


def test_an_enum_is_an_option_as_a_literal_is(folder):
    """The option of an Enum shows its choices and takes their text, also one that looks like a number, and several for a list."""
    (folder / "enums.py").write_text(
        dedent("""
        from enum import Enum
        from functool import FunctionTool

        class Year(Enum):
            LAST = "2024"
            ANY = "any"

        @FunctionTool
        def find(year: Year, others: list[Year] = [], best: Year | None = None) -> list[str]:
            \"\"\"Find years.\"\"\"
            return [each.value for each in [year, *others, best or year]]
        """)
    )
    words = ["--year", "2024", "--others", "any", "--others", "2024", "--best", "any"]

    assert value("enums.py", "find", *words) == ["2024", "any", "2024", "any"]
    assert run("call", "enums.py", "find", "--help").stdout.count("[2024|any]") == 3


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["call", "kit.py", "fail"], 1, "RuntimeError: the disk is full"),
        (["call", "kit.py", "search"], 2, "Missing option '--query'"),
        (
            ["call", "kit.py", "search", "--query", "x", "--max-results", "many"],
            2,
            "'many' is not a valid integer",
        ),
        (
            ["call", "kit.py", "search", "--query", "x", "--max-results", "1.5"],
            1,
            "max_results: expected an integer",
        ),
        (["call", "kit.py", "search", "--query", "x", "--kind", "blog"], 1, "kind"),
        (
            ["call", "kit.py", "search", "--query", "x", "--colour", "red"],
            2,
            "No such option '--colour'",
        ),
        (["call", "kit.py", "search", "--json", "{"], 2, "is not a JSON object"),
        (["call", "kit.py", "search", "--json", "[]"], 2, "is not a JSON object"),
        (["call", "kit.py", "search", "--json", '{"a":' * 100_000], 2, "is not a JSON object"),
        (["call", "kit.py", "search", "--query", "@nothing.txt"], 1, "nothing.txt"),
        (["call", "kit.py", "serch"], 1, "Did you mean 'search'?"),
        (["schema", "kit.py", "serch"], 1, "Did you mean 'search'?"),
        (["list", "missing.py"], 1, "missing.py"),
        (["list", "missing.module:x"], 1, "there is no file and no module 'missing.module'"),
        (["list", "missing.yaml"], 1, "there is no file and no module 'missing.yaml'"),
        (["call", "--yes", "kit.py", "delete"], 2, "stand after the TOOL"),
        (["call", "--contxt", "a.py:b", "kit.py", "fail"], 2, "Did you mean '--context'?"),
        (
            ["call", "kit.py", "search", "--query", "x", "--score", "NaN"],
            2,
            "is not a valid number",
        ),
        (
            ["call", "kit.py", "search", "--query", "x", "--score", "1e999"],
            2,
            "is not a valid number",
        ),
        (["call", "kit.py", "search", "--json", '{"score": NaN}'], 2, "is not a JSON object"),
        (["list", "kit.py:nothing"], 1, "kit has no 'nothing'; its tools: search, delete, "),
        (["list", "empty.py"], 1, "decorate a function with @FunctionTool"),
        (["list", "broken.py"], 1, "broken.py, line 2"),
        (["list", "wrong.py"], 1, "timeout must be"),
        (["list", "http://127.0.0.1:9/mcp"], 1, "cannot be reached"),
        (["serve", "http://127.0.0.1:9/mcp"], 2, "MCP server already"),
    ],
)
def test_errors_without_tracebacks(folder, words, code, said):
    """What goes wrong is said in a line on standard error; the exit code is 2 for a wrong command, else 1."""
    if "http" in words[1] and words[0] == "list":
        pytest.importorskip("mcp")
    (folder / "empty.py").write_text("x = 1\n")
    (folder / "broken.py").write_text("\nundefined\n")
    (folder / "wrong.py").write_text(
        "from functool import FunctionTool\nFunctionTool(lambda: 1, name='x', timeout=0)\n"
    )
    result = run(*words, code=code)

    assert said in result.stderr
    assert "Traceback" not in result.output
    assert result.stdout == ""


def test_a_bad_definition_is_told_by_its_own_line(folder):
    """A tool that is wrong is said with the line of its function, not one of functool's."""
    (folder / "wrong.py").write_text(
        "from functool import FunctionTool\n\n\n@FunctionTool(timeout=0)\ndef f():\n    pass\n"
    )
    said = run("list", "wrong.py", code=1).stderr

    assert "wrong.py:4): timeout must be" in said
    assert "function_tool.py" not in said


def test_a_missing_extra_says_what_to_install():
    """Without click the command says what to install and nothing else; to a program it is an ImportError."""
    code = "import sys; sys.modules['click'] = None\n"
    lines = "from functool.__main__ import main; main()", "import functool.cli"
    told = [python(code + line) for line in lines]
    missing = "the command line needs click and rich: pip install 'functool[cli]'"

    assert [done.returncode for done in told] == [1, 1]
    assert told[0].stderr == f"Error: {missing}\n"
    assert told[1].stderr.endswith(f"ImportError: {missing}\n")


def test_approval_without_a_terminal(folder):
    """Where nobody can be asked a call that needs approval fails; `--yes` approves it."""
    refused = run("call", "kit.py", "delete", "--path", "x", code=1)

    assert "--yes approves" in refused.stderr
    assert '"path": "x"' in refused.stderr
    assert run("call", "kit.py", "delete", "--path", "x", "--yes").stdout == "deleted x\n"


def test_a_tool_as_a_command():
    """`export` gives a click command of a tool, for anybody's own command line."""

    def add(a: int, b: int = 1) -> int:
        """Add."""
        return a + b

    result = CliRunner().invoke(export(FunctionTool(add)), ["--a", "2"])

    assert (result.stdout, result.exit_code) == ("3\n", 0)


def test_a_command_says_which_file_cannot_be_read(tmp_path):
    """A file that an option names and nobody can read is an error without a traceback."""
    (tmp_path / "latin.txt").write_bytes(b"\xe9")
    command = export(FunctionTool(lambda text: text, name="say"))
    for name in ("nothing.txt", "latin.txt"):
        result = CliRunner().invoke(command, ["--text", f"@{tmp_path / name}"])

        assert (result.exit_code, type(result.exception)) == (1, SystemExit)
        assert name in result.output


# check


def test_check(folder):
    """Findings are printed by tool, and make the exit code 1."""
    (folder / "good.py").write_text(
        dedent('''
        from functool import FunctionTool

        @FunctionTool
        def add(a: int) -> int:
            """Add one.

            Args:
                a: The number.
            """
            return a + 1
    ''')
    )
    good, bad = run("check", "good.py"), run("check", "kit.py:plain", code=1)

    assert good.stdout == "add: ok\n"
    assert bad.stdout.startswith("plain: the parameter 'a' has no description")
    assert json.loads(run("check", "good.py", "--json").stdout) == {"add": []}


def test_check_a_folder(folder):
    """A folder means all of its files."""
    (folder / "good.py").write_text(A_TOOL)
    (folder / "none.py").write_text("x = 1\n")
    found = json.loads(run("check", ".", "--json").stdout)

    assert sorted(found) == ["a", "delete", "double", "fail", "odd", "search", "steps"]


@pytest.mark.parametrize("system", ["openai", "anthropic", "gemini", "mcp"])
def test_check_for_a_provider(folder, system):
    """`--for` adds what a provider's dialect would lose."""
    name = "x" * 200
    (folder / "long.py").write_text(
        f"from functool import FunctionTool\nt = FunctionTool(lambda: 1, name={name!r}, description='X.')\n"
    )
    findings = json.loads(run("check", "long.py", "--for", system, "--json", code=1).stdout)[name]

    assert any(finding.startswith(f"{system}: ") and "name" in finding for finding in findings)


def test_check_passes_what_is_only_moved(folder):
    """What a provider reads in the description instead of the schema is not lost."""
    (folder / "even.py").write_text(
        dedent('''
        from typing import Annotated
        from functool import FunctionTool
        from pydantic import Field

        @FunctionTool
        def halve(n: Annotated[int, Field(multiple_of=2, description="A number.")]) -> int:
            """Halve a number."""
            return n // 2
    ''')
    )

    losses = run("schema", "even.py", "--dialect", "gemini", "--losses").output

    assert "multipleOf 2 is moved" in losses
    assert run("check", "even.py", "--for", "gemini").stdout == "halve: ok\n"


def test_a_command_runs_in_another_thread(folder):
    """A program may run a command beside its main thread, where Python sets no signal handlers."""
    results = []
    thread = threading.Thread(target=lambda: results.append(run("list", "kit.py:fail")))

    thread.start()
    thread.join()

    assert "fail" in results[0].stdout


@pytest.mark.parametrize("system", ["agent-framework", "amplifier", "unique"])
def test_check_for_a_system(folder, system):
    """`--for` adds what a system demands, where its package is installed; otherwise the extra is named."""
    result = CliRunner().invoke(main, ["check", "kit.py:fail", "--for", system])

    assert (
        result.exit_code == 0
        or f"{system}: " in result.stdout
        or f"functool[{system}]" in result.stderr
    )
    assert "Traceback" not in result.output


# new


def test_new_amplifier_module(folder):
    """`new amplifier` writes a module package, whether Amplifier is installed or not."""
    written = run("new", "amplifier", "weather").stdout

    assert "weather" in written
    assert list(folder.rglob("pyproject.toml"))


# The program


def program(*words, **options):
    """Run the program in a process of its own."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.run([*PROGRAM, *words], text=True, timeout=120, **{**pipes, **options})


def test_prints_do_not_mix_with_results(folder):
    """What a file or a body prints goes to standard error, in a real process too."""
    done = program("call", "kit.py", "search", "--query", "x")

    assert json.loads(done.stdout)["query"] == "x"
    assert done.stderr == "printed while loading\nprinted by the body\n"


def test_a_reader_that_has_enough(folder):
    """A pipe that is closed, as by `head`, ends the program without a word."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as pipe:
        done = program("list", "kit.py:search", stdout=pipe)

    assert done.stderr == "printed while loading\n"
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["list", "kit.py"], 0),
        (["call", "kit.py", "search", "--query", "x"], 0),
        (["call", "kit.py", "search", "-"], 2),
        (["call", "kit.py", "delete", "--path", "x"], 1),
    ],
)
def test_streams_that_are_closed(folder, words, code):
    """A program that closes standard input, output or errors gets the exit code that it would get anyway."""
    command = shlex.join([sys.executable, "-m", "functool", *words])
    for closed in ("<&-", ">&-", "<&- >&- 2>&-"):
        done = subprocess.run(
            ["sh", "-c", f"exec {command} {closed}"], stdin=subprocess.DEVNULL, capture_output=True
        )

        assert (done.returncode, b"Traceback" in done.stderr) == (code, False)


def test_an_encoding_without_a_character(folder):
    """A result that the encoding of standard output cannot say is printed with escapes, and not lost."""
    command = [sys.executable, "-m", "functool", "call", "kit.py", "search", "--query", "1 \u20ac"]
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)

    assert (done.returncode, json.loads(done.stdout)["query"]) == (0, "1 \u20ac")


def test_help_teaches(folder):
    """The help of every command says what a target is; the first page shows each command at work."""
    first = run("--help").stdout

    assert all(f"functool {name} " in first for name in ("list", "call", "serve", "check"))
    for name in ("list", "schema", "call", "serve", "check"):
        assert "package.module:object" in run(name, "--help").stdout


def test_help_imports_nothing_of_the_core():
    """`--help` loads neither pydantic nor asyncio nor rich: it has to be instant."""
    code = (
        "import sys\nfrom functool.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "print([name for name in ('pydantic', 'asyncio', 'rich', 'mcp', 'jsonschema') if name in sys.modules])"
    )
    done = python(code)

    assert done.stdout.splitlines()[-1] == "[]"


def completions(words):
    """Return what the shell is offered at the end of the words: each thing, with its kind."""
    asked = {"COMP_WORDS": f"functool {words}", "COMP_CWORD": str(words.count(" ") + 1)}
    done = program(env={**os.environ, "_FUNCTOOL_COMPLETE": "bash_complete", **asked})
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("ca", ["call"]),
        ("call kit.py se", ["search"]),
        ("call kit.py search --q", ["--query"]),
        ("call kit.py search --kind ", ["web", "news"]),
        ("call kit.py search --kind n", ["news"]),
        ("schema kit.py de", ["delete"]),
        ("schema kit.py --dialect ge", ["gemini"]),
    ],
)
def test_completion(folder, words, offered):
    """Commands, tools, and the options that a tool's schema makes are completed."""
    assert completions(words) == [f"plain,{each}" for each in offered]


@pytest.mark.parametrize("command", ["list", "schema", "call", "serve", "check"])
def test_completion_of_a_target(folder, command):
    """The shell is told to complete a target as it completes files."""
    assert completions(f"{command} ki") == ["file,ki"]


# MCP


def test_serve_and_call_over_mcp(folder):
    """A served file is a target of every other command."""
    pytest.importorskip("mcp")
    server = f"{SERVER} kit.py"
    listed = run("list", server).stdout
    called = json.loads(run("call", server, "search", "--query", "x").stdout)
    refused = run("call", server, "delete", "--path", "x", code=1)

    assert listed.startswith("search\tSearch the web.\n")
    assert called["query"] == "x"
    assert "--yes" in refused.stderr


def test_serve_over_http(folder):
    """`--transport http` listens at a port, and its URL is a target."""
    pytest.importorskip("mcp")
    with serving("kit.py") as url:
        listed = run("list", url).stdout

    assert listed.startswith("search\tSearch the web.\n")


def test_yes_answers_a_server(folder):
    """`--yes` approves what a server asks."""
    pytest.importorskip("mcp")
    server = f"{SERVER} kit.py"

    assert run("call", server, "delete", "--path", "x", "--yes").stdout == "deleted x\n"


def test_a_value_that_is_spelled_like_yes(folder):
    """A value of a call that reads `--yes` approves nothing, neither in a file nor on a server."""
    pytest.importorskip("mcp")
    for target in ("kit.py", f"{SERVER} kit.py"):
        refused = run("call", target, "delete", "--path", "--yes", code=1)

        assert refused.stdout == ""
        assert "There is no terminal to ask at" in refused.stderr


# Folders, headers, tokens, and servers that are served again


@pytest.mark.parametrize("target", [".", "box", "box/"])
def test_a_folder_is_no_target(folder, target):
    """A folder is named as one; only `check` takes it."""
    (folder / "box").mkdir()

    assert "is a folder: name a file in it" in run("list", target, code=1).stderr


def test_check_a_folder_with_a_broken_file(folder):
    """A file that cannot be loaded is found under its name, and the others are checked."""
    (folder / "broken.py").write_text("import nothing_like_it\n")
    (folder / "kit.py").write_text(A_TOOL)
    found = json.loads(run("check", ".", "--json", code=1).stdout)

    assert found["a"] == []
    assert "cannot load" in found["broken.py"][0]


def test_check_a_folder_with_a_file_that_exits(folder):
    """A script that ends the program when it is imported is found, and the others are checked."""
    (folder / "ends.py").write_text("import sys\n\nsys.exit(0)\n")
    (folder / "kit.py").write_text(A_TOOL)
    found = json.loads(run("check", ".", "--json", code=1).stdout)

    assert found["a"] == []
    assert "cannot load" in found["ends.py"][0] and "SystemExit: 0" in found["ends.py"][0]


def test_call_of_a_tool_that_exits(folder):
    """A body that ends the program has failed, also if it exits with 0."""
    leaves = "import sys\n\nfrom functool import FunctionTool\n\n\n"
    leaves += "@FunctionTool\ndef leave():\n    sys.exit(0)\n"
    (folder / "leaves.py").write_text(leaves)

    assert "SystemExit: 0" in run("call", "leaves.py", "leave", code=1).stderr


def test_check_a_folder_that_is_a_package(folder):
    """Files of a package may import each other; a tool that two of them know is found once."""
    box = folder / "crate"
    box.mkdir()
    (box / "__init__.py").write_text("")
    (box / "one.py").write_text(A_TOOL)
    (box / "two.py").write_text("from .one import a\n")

    assert json.loads(run("check", "crate", "--json").stdout) == {"a": []}


def test_the_log_steers_no_terminal(folder):
    """The logged traceback of an exception, whose text others may have written, has no escapes."""
    (folder / "odd.py").write_text(
        "from functool import FunctionTool\n\n"
        "@FunctionTool\ndef fail(): raise ValueError('a\\x1b[31mb')\n"
    )
    told = program("call", "odd.py", "fail").stderr

    assert "Traceback" in told and "ValueError: a[31mb" in told
    assert "\x1b" not in told


def test_the_bad_lines_of_a_server_are_not_told(folder):
    """A server's line that is no message is skipped without a traceback of the SDK's."""
    pytest.importorskip("mcp")
    (folder / "noisy.py").write_text(
        "print('a log', flush=True)\n"
        "from functool.cli import main\n"
        "main(['serve', 'kit.py'], prog_name='functool')\n"
    )
    done = program("call", f"{sys.executable} noisy.py", "search", "--query", "x")

    assert json.loads(done.stdout)["query"] == "x"
    assert "Traceback" not in done.stderr


def test_what_an_object_is(folder):
    """An object that holds no tools is named for what it is."""
    (folder / "odd.py").write_text("number = 7\n")

    assert (
        "odd.py:number is an int: a target is a tool" in run("list", "odd.py:number", code=1).stderr
    )


def test_texts_of_tools_steer_no_terminal(folder):
    """Escapes in a failure never reach standard error; a result in a pipe is left as it is."""
    (folder / "odd.py").write_text(
        "from functool import FunctionTool, ToolError\n\n"
        "@FunctionTool\ndef say(): return 'a\\x1b[31mb'\n\n"
        "@FunctionTool\ndef fail(): raise ToolError('a\\x1b[31mb\\u202e')\n"
    )

    assert run("call", "odd.py", "say").stdout == "a\x1b[31mb\n"
    assert run("call", "odd.py", "fail", code=1).stderr == "Error: a[31mb\n"


def test_the_help_of_a_tool_steers_no_terminal(folder):
    """What a schema says about an option reaches `--help` without escapes, also choices and types."""
    (folder / "odd.py").write_text(
        "from functool import SchemaTool\n\n"
        "odd = {'type': 'string', 'enum': ['a\x1b[31mb', 'c\u202e']}\n"
        "parts = {'odd': odd, 'typed': {'type': 'x\x1b[31m'}}\n"
        "say = SchemaTool('say', 'S.', {'type': 'object', 'properties': parts}, dict)\n"
    )
    shown = run("call", "odd.py", "say", "--help").stdout

    assert "--odd [a[31mb|c]" in shown
    assert not {"\x1b", "\u202e"} & set(shown)


def test_names_with_line_ends_look_like_no_finding(folder):
    """A name in a schema that others wrote begins no line of `check`, `schema --losses` and `check --lock`."""
    (folder / "odd.py").write_text(
        "from functool import SchemaTool\n\n"
        "name = 'x\\nother: ok\\nok\\tother: fine'\n"
        "schema = {'type': 'object', 'properties': {name: {'type': 'string', 'minLength': 1}}}\n"
        "say = SchemaTool('say', 'S.', schema, dict)\n"
    )
    run("lock", "odd.py", "--to", "lock.json")
    lock = Path("lock.json").read_text().replace('"minLength": 1', '"minLength": 0')
    Path("lock.json").write_text(lock)
    shown = [
        run("check", "odd.py", "--for", "gemini", code=1).stdout,
        run("schema", "odd.py", "--dialect", "openai", "--strict", "--losses").stdout,
        run("check", "odd.py", "--lock", "lock.json", code=1).stdout,
    ]

    assert all(" other: ok ok other: fine" in each for each in (shown[0], shown[2]))
    assert not [line for each in shown for line in each.splitlines() if line.startswith("other")]


def test_a_form_is_answered_in_its_own_types():
    """An answer to a server has the type of the form's choices, and the items of a list are separated by commas."""
    fields = {
        "nights": {"type": "integer", "enum": [1, 2]},
        "names": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
        "more": {"type": "array", "items": {"type": "string"}, "default": ["c"], "title": "a\nb"},
    }
    answers = []

    @click.command()
    def ask():
        answers.append(answer_form("Where?", {"properties": fields}, yes=True))

    shown = CliRunner().invoke(ask, input="3\n2\na, b\n\n").output

    assert "a b [" in shown
    assert answers == [{"nights": 2, "names": ["a", "b"], "more": ["c"]}]


def test_no_choice_of_a_form_looks_like_another_question():
    """The choices and the default of a server's form are in the line of their own question."""
    sizes = ["S", "M\nYour password"]
    fields = {"size": {"enum": sizes, "default": sizes[1]}, "name": {"default": "x\nYour password"}}
    answers = []

    @click.command()
    def ask():
        answers.append(answer_form("Which?", {"properties": fields}, yes=True))

    shown = CliRunner().invoke(ask, input="\n\n").output

    lines = ["size (S, M Your password) [M Your password]: ", "name [x Your password]: "]
    assert shown.splitlines() == lines
    assert answers == [{"size": sizes[1], "name": "x\nYour password"}]


def test_a_decimal_keeps_its_digits(folder):
    """A number with more digits than a float has reaches a parameter that takes them as text."""
    (folder / "exact.py").write_text(
        "from decimal import Decimal\nfrom functool import FunctionTool\n\n"
        "@FunctionTool\ndef show(n: Decimal, f: float = 0.0): return f'{n} {f}'\n"
    )
    digits = "0.12345678901234567890"

    assert run("call", "exact.py", "show", "--n", digits).stdout == f"{digits} 0.0\n"
    tiny = run("call", "exact.py", "show", "--n", "1e-99999999999999999999", code=1)
    assert tiny.stderr == "Error: Invalid arguments. n: expected a valid decimal\n"
    assert run("call", "exact.py", "show", "--n", "0.5", "--f", "0.1").stdout == "0.5 0.1\n"


def test_a_question_that_is_too_long(folder):
    """Arguments that nobody could see in whole are refused, unless `--yes` approves them."""
    words = ["call", "kit.py", "delete", "--path", "x" * 20_000]

    assert "Nobody was asked" in run(*words, code=1).stderr
    assert run(*words, "--yes").stdout.startswith("deleted xxx")


def test_without_a_terminal_nobody_is_asked(folder):
    """The call is refused, and neither the person nor the model is told that somebody said no."""
    refused = run("call", "kit.py", "delete", "--path", "x", code=1).stderr

    assert "There is no terminal to ask at: --yes approves." in refused
    assert "Nobody was asked: there is no terminal." in refused
    assert "did not approve" not in refused and "A person refused" not in refused


TWO_URLS = ["a=mcp:http://127.0.0.1:9/mcp", "b=mcp:http://127.0.0.1:9/mcp"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["list", "http://127.0.0.1:9/mcp", "--header", "Authorization"], "NAME=VARIABLE"),
        (["list", "http://127.0.0.1:9/mcp", "--header", "A=NO_SUCH"], "no environment variable"),
        (["list", "kit.py", "--header", "A=HOME"], "MCP server's URL"),
        (["serve", "kit.py", "--token-env", "HOME"], "--token-env is for --transport http"),
        (["serve", "kit.py", "--host", "127.0.0.1"], "--host is for --transport http"),
        (["serve", "kit.py", "--port", "9000"], "--port is for --transport http"),
        (["serve", "kit.py", "--allowed-host", "x"], "--allowed-host is for --transport http"),
        (["serve", "kit.py", "--transport", "http", "--token-env", "NO_SUCH"], "NO_SUCH"),
        (["serve", "kit.py", "--port", "70000"], "70000"),
        (["serve", "http://127.0.0.1:9/mcp"], "mcp:http://127.0.0.1:9/mcp serves it again"),
        (["serve", "kit.py", "--header", "A=HOME"], "MCP server's URL"),
        (["serve", *TWO_URLS, "--header", "A=HOME"], "--header a:NAME=VARIABLE"),
        (
            ["serve", "kit.py", "--guardrail", "kit.py:number"],
            "--guardrail kit.py:number is of type int",
        ),
        (["serve", *TWO_URLS, "--header", "c:A=HOME"], "no server is called 'c'; known: a, b"),
        (["serve", TWO_URLS[0], "kit.py", "--header", "kit:A=HOME"], "known: a"),
    ],
)
def test_wrong_headers_and_tokens(folder, words, said):
    """A wrong option is exit code 2, and says what it should be; no value of a variable is shown."""
    pytest.importorskip("mcp")
    result = run(*words, code=2)

    assert said in result.stderr
    assert os.environ["HOME"] not in result.output.replace(str(folder), "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--host", "0.0.0.0"], "--token-env NAME"),
        (["kit.py"], "two targets are called 'kit'"),
        (["--guardrail", "kit.py:nothing"], "kit has no 'nothing'"),
        (["--guardrail", "kit.py"], "write FILE:NAME"),
    ],
)
def test_what_cannot_be_served(folder, words, said):
    """What would be unsafe or ambiguous is refused in a line."""
    pytest.importorskip("mcp")
    result = run("serve", "kit.py", "--transport", "http", *words, code=1)

    assert said in result.stderr
    assert "Traceback" not in result.output


def test_a_port_in_use(folder):
    """A port that is taken is said in a line, and the exit code is 1."""
    pytest.importorskip("mcp")
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("serve", "kit.py", "--transport", "http", "--port", port, code=1)

    assert result.stderr.endswith(
        f"Error: port {port} of 127.0.0.1 is in use: choose another one\n"
    )


def test_an_address_of_another_machine(folder, monkeypatch):
    """An address that is not this machine's is said in a line, and the exit code is 1."""
    pytest.importorskip("mcp")
    monkeypatch.setenv("A_TOKEN", "t" * 32)
    words = "serve", "kit.py", "--transport", "http", "--token-env", "A_TOKEN"
    said = run(*words, "--host", "192.0.2.1", code=1).stderr

    assert "Error: cannot listen on 192.0.2.1, port 8000: " in said


def test_a_token_from_the_environment(folder, monkeypatch):
    """`--token-env` guards a server, `--header` opens it, and without one the remedy is said."""
    pytest.importorskip("mcp")
    monkeypatch.setenv("AUTH", "Bearer s3cret")
    header = ["--header", "Authorization=AUTH"]
    with serving("kit.py", "--token-env", "KEY", env={**os.environ, "KEY": "s3cret"}) as url:
        refused = run("list", url, code=1)
        listed = run("list", url, *header).stdout
        called = run("call", *header, url, "double", "--n", "4")

    assert "401" in refused.stderr
    assert "--header Authorization=NAME_OF_A_VARIABLE" in refused.stderr
    assert listed.startswith("search\tSearch the web.\n")
    assert called.stdout == "8\n"


def test_a_header_goes_to_one_server_only(folder, monkeypatch):
    """Of several servers that are served as one, only the named server gets the secret header."""
    pytest.importorskip("mcp")
    from http.server import BaseHTTPRequestHandler, HTTPServer

    monkeypatch.setenv("AUTH", "Bearer s3cret")
    seen: list[dict[str, str]] = []

    class Stranger(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(dict(self.headers))
            self.send_error(404)

        do_GET = do_POST

        def log_message(self, *args: object) -> None:
            pass

    with (
        serving("kit.py", "--token-env", "KEY", env={**os.environ, "KEY": "s3cret"}) as url,
        HTTPServer(("127.0.0.1", 0), Stranger) as stranger,
    ):
        threading.Thread(target=stranger.serve_forever, daemon=True).start()
        other = f"http://127.0.0.1:{stranger.server_port}/mcp"
        both = [f"own=mcp:{url}", f"other=mcp:{other}"]
        run("serve", *both, "--header", "own:Authorization=AUTH", code=1)
        stranger.shutdown()

    assert seen
    assert not [headers for headers in seen if "s3cret" in str(headers)]


def test_several_servers_as_one(folder):
    """`serve` joins files and servers under prefixes, and a guardrail of one's own sees every call."""
    pytest.importorskip("mcp")
    (folder / "guard.py").write_text(
        "from functool import GuardrailError\n\n"
        "def no_fours(call, context):\n"
        "    if call.arguments.get('n') == 4:\n"
        "        raise GuardrailError('no fours')\n"
    )
    inner = shlex.quote(f"up=mcp:{SERVER} kit.py:Double")
    joined = f"{SERVER} kit.py:Double {inner} --guardrail guard.py:no_fours"
    names = [line.split("\t")[0] for line in run("list", joined).stdout.splitlines()]

    assert names == ["kit_double", "up_double"]
    for name in names:
        assert run("call", joined, name, "--n", "3").stdout == "6\n"
        assert "no fours" in run("call", joined, name, "--n", "4", code=1).stderr


GROWS = """
from functool import FunctionTool
from functool.integrations import mcp

def named(name):
    return FunctionTool(lambda: "of the stranger", name=name)

@FunctionTool
async def grow() -> str:
    await server.replace([grow, named("b_x"), named("fresh")])
    return "grown"

server = mcp.server([grow])
mcp.serve(server)
"""

STAYS = """
from functool import FunctionTool
from functool.integrations import mcp

mcp.serve(FunctionTool(lambda: "own", name="x"))
"""


def test_a_server_cannot_announce_the_tool_of_another(tmp_path):
    """A name that another server has already is left out, and what else is new appears."""
    mcp = pytest.importorskip("functool.integrations.mcp")
    targets = []
    for name, code in {"a": GROWS, "a_b": STAYS}.items():
        path = tmp_path / f"{name}.py"
        path.write_text(code)
        targets.append(f"{name}=mcp:{shlex.join([sys.executable, str(path)])}")

    async def main():
        async with mcp.connect([*PROGRAM, "serve", *targets]) as tools:
            grown = await tools.call(ToolCall(name="a_grow"))
            async with asyncio.timeout(60):
                while "a_fresh" not in tools:
                    await asyncio.sleep(0.05)
            return grown.text, (await tools.call(ToolCall(name="a_b_x"))).text

    assert asyncio.run(main()) == ("grown", "own")


def test_a_tool_that_is_announced_while_the_tools_are_described(monkeypatch):
    """A tool that a server announces before its other tools are described is served, too."""
    mcp = pytest.importorskip("functool.integrations.mcp")
    tools = {"old": FunctionTool(lambda: "old", name="old")}
    describe, announced, served = mcp.server, [], []

    @asynccontextmanager
    async def connect(target, *, changed, **options):
        loop = asyncio.get_running_loop()

        def server(given):
            made = describe(given)
            tools["new"] = FunctionTool(lambda: "new", name="new")
            announced.append(asyncio.run_coroutine_threadsafe(changed(tools), loop))
            return made

        monkeypatch.setattr(mcp, "server", server)
        yield tools

    async def serve_async(server, *args, **options):
        await asyncio.wrap_future(announced[0])
        served.extend(server.toolset)

    monkeypatch.setattr(mcp, "connect", connect)
    monkeypatch.setattr(mcp, "serve_async", serve_async)
    serve_targets(
        ["mcp:other"],
        transport="http",
        host="127.0.0.1",
        port=8000,
        token_env=None,
        **dict.fromkeys(("allowed_hosts", "guardrails", "headers"), ()),
    )

    assert served == ["old", "new"]


# A real terminal


@pytest.mark.parametrize(
    ("answer", "said", "code"), [("y", "deleted x", 0), ("n", "did not approve", 1)]
)
def test_approval_at_the_terminal(folder, answer, said, code):
    """The person at the terminal sees the call and decides."""
    child = terminal(folder, "call", "kit.py", "delete", "--path", "x")
    child.expect(r'Allow delete \{\s+"path": "x"\s+\} to run\? \[y/N/e\]: ')
    child.sendline(answer)
    child.expect(said)
    child.expect_exact("\r\n")
    child.wait()

    assert child.exitstatus == code


@pytest.mark.parametrize("of_a_server", [False, True])
@pytest.mark.parametrize(("key", "said"), [("c", "Aborted!"), ("d", "Error: A person refused")])
def test_leaving_the_question(folder, of_a_server, key, said):
    """At the question Ctrl-C ends the program at once, and Ctrl-D refuses; neither is a failure of a guardrail."""
    if of_a_server:
        pytest.importorskip("mcp")
    target = f"{SERVER} kit.py" if of_a_server else "kit.py"
    child = terminal(folder, "call", target, "delete", "--path", "x")
    child.expect(r"\[y/N.*\]: ")
    time.sleep(0.3)  # Python misses a signal that comes just before it reads.
    child.sendcontrol(key)
    rest = child.read()
    child.wait()

    assert said in rest
    assert "guardrail" not in rest and "deleted" not in rest
    assert child.exitstatus == 1


def test_approval_of_a_server_at_the_terminal(folder):
    """What an MCP server asks a person is asked at the terminal."""
    pytest.importorskip("mcp")
    server = f"{SERVER} kit.py"
    child = terminal(folder, "call", server, "delete", "--path", "x")
    child.expect(r"\[y/N\]: ")
    child.sendline("y")
    child.expect("deleted x")


def test_a_table_at_the_terminal(folder):
    """At a terminal the list is a table."""
    child = terminal(folder, "list", "kit.py")
    child.expect(r"tool.*description")
    child.expect(r"search +Search the web\.")


def test_a_progress_bar_at_the_terminal(folder):
    """Progress is a bar while the call runs, and the result stands alone in the end."""
    child = terminal(folder, "call", "kit.py", "steps")
    child.expect("step [1-5]")
    child.expect("finished")


def test_interrupting(folder):
    """Ctrl-C ends the program without a traceback."""
    child = terminal(folder, "call", "kit.py", "steps", "--count", "3000")
    child.expect("step [1-9]")
    child.sendintr()
    rest = child.read()
    child.wait()

    assert "Traceback" not in rest
    assert child.exitstatus == 1


def test_interrupting_a_server(folder):
    """Ctrl-C ends a server that waits for its client, without a traceback."""
    pytest.importorskip("mcp")
    with subprocess.Popen([*PROGRAM, "serve", "kit.py"], text=True, **PIPES) as server:
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        server.stdin.write(json.dumps(ping) + "\n")
        server.stdin.flush()
        assert json.loads(server.stdout.readline())["id"] == 1
        server.send_signal(signal.SIGINT)

        assert server.wait(60) == -signal.SIGINT
        assert "Traceback" not in server.stderr.read()


# The page


PAGE = (ROOT / "docs" / "cli.md").read_text("utf-8")


def page_commands():
    """Return each command of the page's console block, with what it prints."""
    block = PAGE.partition("```console\n$ ")[2].partition("```")[0]
    return [part.partition("\n")[::2] for part in block.split("\n$ ")]


@pytest.mark.skipif(os.name == "nt", reason="the commands are those of a POSIX shell")
@pytest.mark.parametrize(("command", "printed"), page_commands())
def test_the_page(command, printed, tmp_path):
    """Each command of docs/cli.md prints what the page says, for the file that the page shows."""
    if "serve" in command:
        pytest.importorskip("mcp")
    (tmp_path / "kit.py").write_text(PAGE.partition("```python\n")[2].partition("```")[0])
    shell = tmp_path / "functool"
    shell.write_text(f'#!/bin/sh\nexec {shlex.join(PROGRAM)} "$@"\n')
    shell.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    where = {"cwd": tmp_path, "env": environment, "timeout": 120}
    done = subprocess.run(command, shell=True, capture_output=True, text=True, **where)

    assert (done.stdout.rstrip("\n"), done.stderr) == (printed.rstrip("\n"), "")


def test_the_required_names_are_not_searched_for_each_option():
    """A stranger's thousands of properties and required names cost a look at each, and not at each pair."""

    class Names(list):
        def __contains__(self, name):
            raise AssertionError("a search of the whole list")

    plain = {"properties": {"a": {}, "b": {}}, "required": Names("a")}
    command = export(SimpleNamespace(name="t", description="", schema=SimpleNamespace(plain=plain)))

    assert [option.required for option in command.params[:2]] == [True, False]
