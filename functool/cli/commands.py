"""Share code between the commands: the help about a TARGET, and completion in the shell."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from functool.cli.targets import TARGET_HELP, is_remote, local_toolset
from functool.integrations.visible import visible

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from functool import Tool


class TargetCommand(click.Command):
    """A command whose help explains what a TARGET is."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what a TARGET may be."""
        with formatter.section("TARGET"):
            formatter.write_dl(TARGET_HELP)


class CallCommand(TargetCommand):
    """`call`, which completes the options that are made from a tool's schema."""

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of an option."""
        command = _command(ctx)
        if command is None or not incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return command.shell_complete(ctx, incomplete)


def complete_value(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the value of a tool's option, from the members of its enum."""
    command, words = _command(ctx), ctx.params.get("arguments") or ("",)
    options = [each for each in command.params if words[-1] in each.opts] if command else []
    return [found for each in options for found in each.shell_complete(ctx, incomplete)]


def _command(ctx: click.Context) -> click.Command | None:
    """Return the command whose options are the arguments of the chosen tool."""
    tool = _known(ctx).get(ctx.params.get("tool") or "")
    if tool is None:
        return None
    from functool.integrations.click import export

    return export(tool)


def complete_target(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the name of a file."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def complete_tool(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the name of a tool of the target."""
    from click.shell_completion import CompletionItem

    tools = _known(ctx).values()
    return [
        CompletionItem(tool.name, help=first_line(tool))
        for tool in tools
        if tool.name.startswith(incomplete)
    ]


def _known(ctx: click.Context) -> Mapping[str, Tool]:
    """Return the tools of the target that was typed so far, unless it is a server.

    Each completion would have to connect to the server.
    """
    target = ctx.params.get("target")
    try:
        return local_toolset(target) if target and not is_remote(target) else {}
    except Exception:
        return {}


header_option: Callable[[Any], Any] = click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="NAME=VARIABLE",
    help="Send this header to a server's URL. Its value is that of the environment variable. To "
    "serve several servers, name the one that gets it, as SERVER:NAME=VARIABLE.",
)


def first_line(tool: Tool) -> str:
    """Return the first line of a tool's description."""
    return visible(next(iter(tool.description.splitlines()), ""))
