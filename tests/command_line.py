"""What the tests of the command line share: the program as a process of its own, and servers that it runs."""

import shlex
import subprocess
import sys
from contextlib import contextmanager

from tests.support import free_port, listening

PROGRAM = [sys.executable, "-c", "from functool.cli import main; main(prog_name='functool')"]
SERVER = shlex.join([*PROGRAM, "serve"])
"""The command line of a server on standard input, but for its targets and options."""

PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}


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
