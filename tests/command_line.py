"""What the tests of the command line share: commands, in this process and in others, a terminal, an editor, servers."""

import os
import shlex
import subprocess
import sys
from contextlib import contextmanager

import pytest
from click.testing import CliRunner

from functool.cli import main
from tests.support import free_port, listening

PROGRAM = [sys.executable, "-c", "from functool.cli import main; main(prog_name='functool')"]
SERVER = shlex.join([*PROGRAM, "serve"])
"""The command line of a server on standard input, but for its targets and options."""

PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}


def run(*words, code=0, **options):
    """Run a command in this process, which ends with this exit code, and return its result."""
    given = [str(word) for word in words]
    result = CliRunner().invoke(main, given, prog_name="functool", **options)
    assert result.exit_code == code, result.output
    return result


def terminal(folder, *words, **environment):
    """Start the program in a folder, at a terminal of its own."""
    pexpect = pytest.importorskip("pexpect")
    command, *options = [*PROGRAM, *words]
    where = {"cwd": str(folder), "env": {**os.environ, **environment}}
    return pexpect.spawn(command, options, encoding="utf-8", timeout=60, **where)


def editor(folder, code):
    """The environment in which a person's editor changes the text of a file by this code."""
    program = folder / "editor.py"
    program.write_text(
        f"import os, sys\npath = sys.argv[1]\ntext = open(path).read()\n{code}\n"
        "open(path, 'w').write(text)\nos.utime(path, (1, 1))\n"
    )
    return {"EDITOR": f"{sys.executable} {program}", "VISUAL": ""}


@contextmanager
def serving(*words, **options):
    """Serve over HTTP at a free port, and give the server's URL as soon as it listens."""
    port = free_port()
    command = [*PROGRAM, "serve", *words, "--transport", "http", "--port", str(port)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, **options) as process:
        try:
            listening(port, process)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.terminate()
