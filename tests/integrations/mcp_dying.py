"""A server whose process a call can kill."""

import os
import signal

from functool import FunctionTool
from functool.integrations import mcp


@FunctionTool
def pid() -> int:
    """Tell the process id."""
    return os.getpid()


@FunctionTool
def die():
    """Kill the process."""
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    mcp.serve([pid, die])
