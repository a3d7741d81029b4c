"""The start of a worker of the interpreter, which dies with its host."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import functool.bundled
from tests.support import alive

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has death signals")

LAUNCH = [sys.executable, "-IS", str(Path(functool.bundled.__file__).with_name("code_launch.py"))]
SECONDS = 60
"""After so long, the kernel has surely delivered a signal."""

HOST = """
import os, subprocess, sys
worker = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]
child = subprocess.Popen([*sys.argv[1:], str(os.getpid()), *worker], stdout=subprocess.PIPE)
assert child.stdout.readline() == b"up\\n"
print(child.pid, flush=True)
sys.stdin.read()
"""


def test_a_worker_starts_for_its_host():
    """The program runs with its arguments, in the process that was started."""
    echo = ["/bin/sh", "-c", 'echo $$ "$0"', "a b"]
    process = subprocess.Popen([*LAUNCH, str(os.getpid()), *echo], stdout=subprocess.PIPE)

    assert process.communicate()[0].decode() == f"{process.pid} a b\n"
    assert process.returncode == 0


def test_a_worker_without_its_host_does_not_start():
    """If the host has died meanwhile, another process is the parent, and the program does not run."""
    ran = subprocess.run([*LAUNCH, str(os.getppid()), "/bin/echo", "ran"], stdout=subprocess.PIPE)

    assert ran.stdout == b""
    assert ran.returncode == 1


def test_a_worker_dies_with_its_host():
    """A worker that notices nothing itself ends when its host is killed."""
    with subprocess.Popen(
        [sys.executable, "-c", HOST, *LAUNCH], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as host:
        worker = host.stdout.readline().decode().strip()
        assert alive(worker)
        host.send_signal(signal.SIGKILL)
        host.wait()
    end = time.monotonic() + SECONDS
    while alive(worker):
        if time.monotonic() > end:
            os.kill(int(worker), signal.SIGKILL)
            pytest.fail("the worker outlived its host")
        time.sleep(0.02)
