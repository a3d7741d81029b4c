"""The command line: list, show, call, serve and check tools of files, modules and MCP servers."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

try:
    import click
except ModuleNotFoundError as _error:
    missing = "the command line needs click and rich: pip install 'functool[cli]'"
    raise ImportError(missing) from _error

from functool.cli.approvals import approvals
from functool.cli.commands import (
    CallCommand,
    TargetCommand,
    complete_target,
    complete_tool,
    complete_value,
    first_line,
    header_option,
)
from functool.cli.contexts import closed_on_sigterm, context_option, opened_context
from functool.cli.journals import journal
from functool.cli.locking import compare, lock
from functool.cli.playing import play
from functool.cli.providers import (
    DIALECTS,
    SYSTEMS,
    demands_of,
    dialect_of,
    neutral_of,
    strict_of,
)
from functool.cli.targets import headers_of, opened
from functool.cli.telling import json_text, readable_errors, show_findings, told_exits
from functool.integrations.visible import visible, visible_line

if TYPE_CHECKING:
    from functool import Tool, Toolset

# Import the rest of functool, and rich, only when a command needs them: --help has to be instant.


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="functool", message="%(version)s")
def main() -> None:
    """Use the tools of a Python file, a module or an MCP server.

    \b
    functool list tools.py                        list them
    functool call tools.py search --query cats    run one
    functool serve tools.py                       offer them over MCP
    functool check tools.py --for openai          find what is wrong with them
    functool play tools.py                        try them on a page

    To complete names in bash: eval "$(_FUNCTOOL_COMPLETE=bash_source functool)"; zsh_source and
    fish_source do the same for the other shells.
    """  # noqa: D301


@main.command("list", cls=TargetCommand)
@click.argument("target", shell_complete=complete_target)
@click.option(
    "--json", "as_json", is_flag=True, help="Print the whole definitions of the tools as JSON."
)
@header_option
def list_tools(target: str, as_json: bool, headers: tuple[str, ...]) -> None:
    """List the tools of TARGET."""

    async def run(toolset: Toolset) -> None:
        if as_json:
            click.echo(json_text(toolset.describe()))
        elif sys.stdout.isatty():
            from rich.console import Console
            from rich.table import Table
            from rich.text import Text

            table = Table("tool", "description", box=None, header_style="bold")
            for tool in toolset.values():
                table.add_row(Text(visible(tool.name)), Text(first_line(tool)))
            Console().print(table)
        else:
            for tool in toolset.values():
                click.echo(f"{visible(tool.name)}\t{first_line(tool)}")

    _with_toolset(target, run, headers=headers)


@main.command(cls=TargetCommand)
@click.argument("target", shell_complete=complete_target)
@click.argument("tool", required=False, shell_complete=complete_tool)
@click.option(
    "--dialect", type=click.Choice(DIALECTS), help="Print the definition in this provider's form."
)
@click.option(
    "--strict", is_flag=True, help="Print the strict form, in which no argument is optional."
)
@click.option(
    "--losses",
    is_flag=True,
    help="Print only what the dialect drops, rewrites or does not allow.",
)
@header_option
def schema(
    target: str,
    tool: str | None,
    dialect: str | None,
    strict: bool,
    losses: bool,
    headers: tuple[str, ...],
) -> None:
    """Print the JSON Schema of one TOOL of TARGET, or of all tools.

    \b
    functool schema tools.py search --dialect anthropic --strict
    functool schema tools.py --dialect gemini --losses
    """  # noqa: D301
    if losses and not dialect:
        raise click.UsageError("--losses needs a --dialect: every provider loses something else.")

    async def run(toolset: Toolset) -> None:
        tools = list(toolset.values()) if tool is None else [_pick(toolset, tool)]
        if strict:
            tools = [strict_of(each) for each in tools]
        if dialect and losses:
            for loss in dialect_of(dialect).losses(*tools):
                click.echo(visible_line(loss))
            return
        shown = (
            dialect_of(dialect).definitions(tools)
            if dialect
            else [neutral_of(each) for each in tools]
        )
        click.echo(json_text(shown if tool is None or len(shown) != 1 else shown[0]))

    _with_toolset(target, run, headers=headers)


@main.command(
    cls=CallCommand,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("target", shell_complete=complete_target)
@click.argument("tool", shell_complete=complete_tool)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, shell_complete=complete_value)
@header_option
@context_option
@click.option(
    "--save",
    type=click.Path(file_okay=False, path_type=Path),
    help="A folder for the images, sounds and files of the result.",
)
def call(
    target: str,
    tool: str,
    arguments: tuple[str, ...],
    headers: tuple[str, ...],
    context: str | None,
    save: Path | None,
) -> None:
    """Call one TOOL of TARGET and print its result.

    The options after the TOOL are the tool's arguments. --help after the TOOL lists them. A value
    that starts with @ names a file to read the value from (@- is standard input, @@ a plain @).
    Write objects and nested lists as JSON. The result goes to standard output, everything else to
    standard error. The exit code is 1 if the tool failed.

    \b
    functool call tools.py search --query cats --limit 3
    functool call tools.py search --json '{"query": "cats"}'
    echo '{"query": "cats"}' | functool call tools.py search -
    """  # noqa: D301
    consents = False
    if target.startswith("-"):
        wrong = f"No such option {target!r}. The options of the tool stand after the TOOL."
        raise click.NoSuchOption(target, wrong, ["--context", "--header", "--save"])

    async def run(toolset: Toolset) -> None:
        nonlocal consents
        from functool.integrations.click import command_of, run_call

        given = [
            "--json=@-" if word == "-" and not _wants_value(arguments[:place]) else word
            for place, word in enumerate(arguments)
        ]
        from_json = any(word == "--json" or word.startswith("--json=") for word in given)
        command = command_of(_pick(toolset, tool), lambda *chosen: chosen, from_json=from_json)
        try:
            chosen = command.main(
                given, prog_name=f"functool call {target} {tool}", standalone_mode=False
            )
        except click.NoSuchOption as error:
            if error.option_name in ("--context", "--header", "--save"):
                error.message += f" Write {error.option_name} before the target."
            raise
        if not isinstance(chosen, tuple):
            return
        given_arguments, consents = chosen
        async with opened_context(context) as ready:
            await run_call(toolset, tool, given_arguments, yes=consents, context=ready, save=save)

    # Only the parsed command tells the option --yes from a value that is spelled like it.
    _with_toolset(target, run, yes=lambda: consents, headers=headers)


@main.command(cls=TargetCommand)
@click.argument(
    "targets", nargs=-1, required=True, metavar="TARGET...", shell_complete=complete_target
)
@click.option(
    "--transport", type=click.Choice(["stdio", "http"]), default="stdio", show_default=True
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen (HTTP).")
@click.option("--port", type=click.IntRange(1, 65_535), default=8000, show_default=True)
@click.option(
    "--allowed-host",
    "allowed_hosts",
    multiple=True,
    help="A Host header to accept, such as example.com or 10.0.0.7:*.",
)
@click.option(
    "--token-env",
    metavar="VARIABLE",
    help="Accept only requests with the bearer token in this environment variable (HTTP).",
)
@click.option(
    "--guardrail",
    "guardrails",
    multiple=True,
    metavar="FILE:NAME",
    help="An input guardrail, or a list of them, that checks every call first.",
)
@header_option
@context_option
def serve(targets: tuple[str, ...], **options: Any) -> None:
    """Serve the tools of each TARGET over MCP: on standard input and output, or HTTP at /mcp.

    Several targets become one server. The tools of each get a prefix: the target's name, or NAME
    in NAME=TARGET. To serve an MCP server again, write mcp:TARGET.

    \b
    functool serve tools.py
    functool serve tools.py --transport http --host 0.0.0.0 --token-env MY_TOKEN
    functool serve web=mcp:https://host/mcp "files=mcp:npx some-server" --guardrail mine.py:guard
    """  # noqa: D301
    from functool.cli.serving import serve_targets

    with readable_errors():
        serve_targets(targets, **options)


main.add_command(journal)
main.add_command(approvals)
main.add_command(play)


@main.command("lock", cls=TargetCommand)
@click.argument("target", shell_complete=complete_target)
@click.option(
    "--to",
    type=click.Path(dir_okay=False, allow_dash=True),
    default="functool.lock.json",
    show_default=True,
    help="The file to write; - is standard output.",
)
@header_option
def lock_tools(target: str, to: str, headers: tuple[str, ...]) -> None:
    """Write names, schemas and digests of the tools of TARGET, for a later comparison.

    \b
    functool lock tools.py
    functool check tools.py --lock functool.lock.json
    """  # noqa: D301
    _with_toolset(target, partial(lock, to), headers=headers)


@main.command(cls=TargetCommand)
@click.argument("target", shell_complete=complete_target)
@click.option(
    "--for",
    "systems",
    multiple=True,
    type=click.Choice([*SYSTEMS, *DIALECTS]),
    help="Add the demands of this system or provider.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print a JSON object with the findings of each tool.",
)
@click.option(
    "--lock",
    "locked",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Compare with a file of `functool lock`; exit with 1 only if a change breaks a caller.",
)
@header_option
@context_option
def check(
    target: str,
    systems: tuple[str, ...],
    as_json: bool,
    locked: Path | None,
    headers: tuple[str, ...],
    context: str | None,
) -> None:
    """Check the tools of TARGET. If it is a folder, check all of its Python files.

    The exit code is 1 if something was found. In a folder, a file that cannot be loaded is a
    finding under its name. With --context only the tools that it enables are checked.
    """
    if locked is not None:
        _with_toolset(target, partial(compare, locked, as_json), may_be_empty=True, headers=headers)
        return
    findings: dict[str, list[str]] = {}

    async def run(toolset: Toolset) -> None:
        from functool.testing import check_tool

        async with opened_context(context) as given:
            offered = toolset.enabled(given) if given else list(toolset.values())
        for tool in offered:
            demands = [
                f"{system}: {each}" for system in systems for each in demands_of(system, tool)
            ]
            found = [*findings.get(tool.name, ()), *check_tool(tool), *demands]
            findings[tool.name] = list(dict.fromkeys(found))

    folder = Path(target)
    if folder.is_dir():
        for each in sorted(map(str, folder.glob("*.py"))):
            try:
                _with_toolset(each, run, may_be_empty=True)
            except click.ClickException as error:
                findings[each] = [error.format_message()]
    else:
        _with_toolset(target, run, headers=headers)
    if not findings:
        raise click.ClickException(f"there are no tools in {target}")
    show_findings(findings, as_json)
    if any(findings.values()):
        raise click.exceptions.Exit(1)


@main.group()
def new() -> None:
    """Write the files of a new package."""


@new.command()
@click.argument("name")
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="Where to write it.",
)
def amplifier(name: str, folder: Path) -> None:
    """Write an Amplifier tool module called NAME."""
    with readable_errors():
        click.echo(import_module("functool.integrations.amplifier_template").scaffold(name, folder))


def _with_toolset(
    target: str,
    run: Callable[[Toolset], Awaitable[None]],
    *,
    may_be_empty: bool = False,
    yes: Callable[[], bool] = lambda: False,
    headers: Sequence[str] = (),
) -> None:
    """Run `run(toolset)` with the tools of a target. `yes()` consents to a server's questions."""
    import asyncio

    sent = headers_of(headers)

    async def go() -> None:
        way = opened(target, may_be_empty=may_be_empty, yes=yes, headers=sent)
        async with way as toolset:
            await run(toolset)

    with readable_errors(), told_exits(), closed_on_sigterm():
        asyncio.run(go())


def _pick(toolset: Toolset, name: str) -> Tool:
    from functool import UnknownToolError

    if name.startswith("-") and name not in toolset:
        raise click.UsageError(f"name the tool before its options: {', '.join(toolset)}")
    if name not in toolset:
        raise UnknownToolError(name, list(toolset))
    return toolset[name]


def _wants_value(words: Sequence[str]) -> bool:
    last = words[-1] if words else ""
    return last.startswith("--") and "=" not in last and last != "--yes"
