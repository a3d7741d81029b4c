"""Start a worker of the interpreter that dies with the thread that started it.

Run it as `python -IS code_launch.py HOST PROGRAM ARGUMENTS...`, where HOST is the process id of the
host. It needs nothing of functool. A worker that computes does not notice that its host was killed,
so the kernel has to kill it.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if str(os.getppid()) != sys.argv[1]:  # The host died before `prctl` was called.
        sys.exit(1)
    os.execv(sys.argv[2], sys.argv[2:])
