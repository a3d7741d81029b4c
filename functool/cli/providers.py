"""Find out how a provider or a system takes a tool: its definition, its losses, its demands."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functool import Tool

# List the folder instead of importing it, so that `functool --help` loads nothing of the core.
_FILES = [file.name for file in iter_modules([str(Path(__file__).parents[1] / "dialects")])]
DIALECTS = tuple(sorted(name for name in _FILES if not name.startswith("_")))
SYSTEMS = ("agent-framework", "amplifier", "unique")


def neutral_of(tool: Tool) -> dict[str, Any]:
    """Return the definition of a tool in no provider's form."""
    known = tool.schema
    shown = {"name": known.name, "description": known.description, "parameters": known.parameters}
    return shown if known.output is None else {**shown, "output": known.output}


def strict_of(tool: Tool) -> Tool:
    """Return a tool with the same schema in strict form."""
    from functool import SchemaTool

    return SchemaTool(
        tool.name, tool.description, tool.schema.plain, lambda arguments: None, strict=True
    )


def dialect_of(name: str) -> Any:
    """Return the module of a dialect."""
    return import_module(f"functool.dialects.{name}")


def demands_of(system: str, tool: Tool) -> Sequence[str]:
    """Return the parts of a tool that a provider or a system does not accept."""
    if system in DIALECTS:
        from functool.dialects import Lost

        # Report only what is lost. `functool schema --losses` also lists what is moved into the
        # description.
        return [loss for loss in dialect_of(system).losses(tool) if isinstance(loss, Lost)]
    return list(import_module(f"functool.integrations.{system.replace('-', '_')}").demands(tool))
