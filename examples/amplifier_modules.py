"""The bundled file and shell tools as two Amplifier modules with a configuration each.

In a package of your own, name the two in `pyproject.toml`:

    [project.entry-points."amplifier.modules"]
    tool-files = "my_package:mount_files"
    tool-shell = "my_package:mount_shell"

and in the mount plan of a session:

    tools:
      - module: tool-files
        config: {roots: [/srv/notes], read_only: true}
      - module: tool-shell
        config: {workdir: /srv/project, timeout: 10}

`python -m examples.amplifier_modules` mounts both in a coordinator and calls them (needs
'functool[amplifier]').
"""

import asyncio
import tempfile
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from examples.needs import needs
from functool import Tool, Toolset
from functool.bundled.files import file_tools
from functool.bundled.shell import shell_tool
from functool.guardrails import require_approval

with needs("'functool[amplifier]'", __name__):
    from amplifier_core.testing import MockCoordinator

    from functool.integrations import amplifier


class FilesConfig(BaseModel):
    """The configuration of tool-files."""

    model_config = ConfigDict(extra="forbid")

    roots: list[Path] = Field(
        default=[Path()], min_length=1, description="The directories; nothing outside is touched."
    )
    read_only: bool = Field(default=False, description="Leave out the tools that write.")
    max_bytes: int = Field(
        default=1_048_576, ge=1, description="The most that one call reads or writes."
    )


class ShellConfig(BaseModel):
    """The configuration of tool-shell."""

    model_config = ConfigDict(extra="forbid")

    workdir: Path = Field(
        default=Path(), description="Where commands run, and the only place they can write."
    )
    timeout: float = Field(default=30.0, gt=0, description="Seconds that a command may take.")
    network: bool = Field(default=False, description="Whether commands reach the network.")
    ask: bool = Field(default=True, description="Whether a person approves each command first.")


def build_files(config: FilesConfig) -> Toolset:
    """Make the file tools of a configuration."""
    return file_tools(config.roots, max_bytes=config.max_bytes, read_only=config.read_only)


def build_shell(config: ShellConfig) -> Tool:
    """Make the shell of a configuration."""
    guardrails = [require_approval()] if config.ask else []
    return shell_tool(
        config.workdir, timeout=config.timeout, network=config.network, input_guardrails=guardrails
    )


mount_files = amplifier.mount(build_files, config_model=FilesConfig)
mount_shell = amplifier.mount(build_shell, config_model=ShellConfig)


async def main() -> None:
    """Mount both modules as a session would, and call them."""
    with tempfile.TemporaryDirectory() as folder:
        coordinator = MockCoordinator()
        await mount_files(coordinator, {"roots": [folder]})
        await mount_shell(coordinator, {"workdir": folder, "ask": False})
        tools = coordinator.get("tools")
        print("mounted:", ", ".join(tools))
        written = await tools["write_file"].execute({"path": "greeting.txt", "content": "hello"})
        print("write_file:", written)
        print("read_file:", await tools["read_file"].execute({"path": "greeting.txt"}))
        print("outside:", await tools["read_file"].execute({"path": "/etc/passwd"}))
        print("shell:", await tools["shell"].execute({"command": "wc -c < greeting.txt"}))


if __name__ == "__main__":
    asyncio.run(main())
