"""Start a worker of the interpreter that dies with the thread that started it.

Run it as `python -IS code_launch.py PROGRAM ARGUMENTS...`. It needs nothing of functool. A worker
that computes does not notice that its host was killed, so the kernel has to kill it.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    host: int = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != host:  # The host died before `prctl` was called.
        sys.exit(1)
    os.execv(sys.argv[1], sys.argv[1:])
