"""Starts a worker of the interpreter that dies with the thread that started it.

Run as `python -IS code_launch.py PROGRAM ARGUMENTS...`; it needs nothing of functool. A worker that
computes does not notice that its host was killed: the kernel has to tell it.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    host: int = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != host:  # The host died before the kernel knew.
        sys.exit(1)
    os.execv(sys.argv[1], sys.argv[1:])
