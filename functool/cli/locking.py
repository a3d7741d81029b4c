"""`functool lock` and `functool check --lock`: store the definitions of tools, and compare them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from functool.cli.telling import json_text
from functool.integrations.visible import visible_line

if TYPE_CHECKING:
    from functool import Toolset

VERSION = 1


async def lock(to: str, toolset: Toolset) -> None:
    """Write the definitions of some tools to a file, or to standard output for `-`."""
    text = json_text({"version": VERSION, "tools": _definitions(toolset)}) + "\n"
    if to == "-":
        click.echo(text, nl=False)
    else:
        Path(to).write_text(text, encoding="utf-8")


async def compare(locked: Path, as_json: bool, toolset: Toolset) -> None:
    """Print the changes since `lock` wrote the file. Exit with 1 if one breaks a caller."""
    from functool.cli.compatibility import changes

    found = changes(_read(locked), _definitions(toolset))
    if as_json:
        shown = [{"tool": c.tool, "breaks": c.breaks, "change": c.text} for c in found]
        click.echo(json_text(shown))
    else:
        for change in found:
            kind = "breaks" if change.breaks else "ok"
            click.echo(f"{kind}\t{visible_line(f'{change.tool}: {change.text}')}")
    if any(change.breaks for change in found):
        raise click.exceptions.Exit(1)


def _definitions(toolset: Toolset) -> dict[str, Any]:
    from functool.approval import definition_of

    return {
        name: {
            "digest": definition_of(tool.schema),
            "description": tool.schema.description,
            "parameters": tool.schema.plain,
            "output": tool.schema.output,
        }
        for name, tool in sorted(toolset.items())
    }


def _read(path: Path) -> dict[str, Any]:
    """Return the definitions in a file.

    Raises:
        ValueError: The file has another format, or a later functool wrote it.
    """
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        version = known["version"]
        tools = {
            name: {**tool, "parameters": dict(tool["parameters"])}
            for name, tool in dict(known["tools"]).items()
        }
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not what `functool lock` writes: {error!r}") from None
    if version != VERSION:
        raise ValueError(f"{path} has version {version}, this functool knows version {VERSION}")
    return tools
