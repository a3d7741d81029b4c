"""Ports for the servers that tests start."""

import socket
import subprocess
import time


def free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def listening(port: int, process: subprocess.Popen) -> None:
    """Wait until something listens at the port."""
    while process.poll() is None:
        with socket.socket() as found:
            if found.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError(f"the server ended with exit code {process.returncode}")
