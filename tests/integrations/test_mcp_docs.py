"""The page on MCP: its server file, the configuration that starts it, and what clients then see."""

import asyncio
import json
import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("mcp")

from mcp import StdioServerParameters

from functool import ToolCall
from functool.integrations import mcp

PAGE = (Path(__file__).parents[2] / "docs" / "mcp.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
SERVERS = json.loads(next(body for language, body in BLOCKS if language == "json"))["mcpServers"]
PROGRAMS = {
    "python": [sys.executable],
    "functool": [sys.executable, "-c", "from functool.cli import main; main()"],
}


@pytest.mark.parametrize("name", SERVERS)
def test_the_configuration_starts_the_server(name, tmp_path):
    """Each entry of the client configuration starts the file that the page shows, and its tools work."""
    file = next(body for language, body in BLOCKS if body.startswith("# weather.py"))
    (tmp_path / "weather.py").write_text(file)
    if SERVERS[name]["command"] == "functool":
        pytest.importorskip("click")
    command, *first = PROGRAMS[SERVERS[name]["command"]]
    target = StdioServerParameters(
        command=command, args=[*first, *SERVERS[name]["args"]], cwd=tmp_path
    )

    async def main():
        async with mcp.connect(target) as toolset:
            return list(toolset), await toolset.call(
                ToolCall(name="forecast", arguments={"city": "Rome"})
            )

    names, result = asyncio.run(main())

    assert names == ["forecast", "warn"]
    assert result.value == ["Rome: sun"]


def test_every_block_is_run():
    """The page has Python and its output, which another test runs, and the configuration above; nothing else."""
    assert {language for language, _ in BLOCKS} == {"python", "output", "json"}
