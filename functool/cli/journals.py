"""`functool journal`: inspect recorded calls, and decide on those with an unknown outcome."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from functool.cli.telling import readable_errors
from functool.integrations.visible import indented, visible

if TYPE_CHECKING:
    from functool.layers.journal import Journal, JournalEntry

STATES = ("started", "done", "unknown")


@click.group()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.pass_context
def journal(context: click.Context, file: Path) -> None:
    """Inspect the journal FILE, and decide on calls whose outcome is unknown.

    \b
    functool journal orders.journal list --state unknown
    functool journal orders.journal show order-17/pay/call_1
    functool journal orders.journal settle order-17/pay/call_1 --json '{"paid": true}'
    functool journal orders.journal reopen order-17/pay/call_1
    functool journal orders.journal export --run order-17 > order-17.calls.jsonl
    """  # noqa: D301
    context.obj = file


def _opened(context: click.Context) -> Journal:
    from functool.layers.journal import Journal

    return Journal(context.obj)


@journal.command("list")
@click.option("--run", help="Only calls of this run.")
@click.option("--state", type=click.Choice(STATES), help="Only calls in this state.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object for each call.")
@click.pass_context
def list_calls(context: click.Context, run: str | None, state: Any | None, as_json: bool) -> None:
    """List the calls: state, start and key."""
    with readable_errors():
        for entry in _opened(context).each(run=run, state=state):
            if as_json:
                click.echo(json.dumps(_form(entry)))
            else:
                begun = entry.started.isoformat(timespec="seconds")
                click.echo(f"{entry.state}\t{begun}\t{visible(entry.key)}")


@journal.command()
@click.argument("key")
@click.pass_context
def show(context: click.Context, key: str) -> None:
    """Print the whole record of the call KEY."""
    with readable_errors():
        click.echo(indented(_form(_entry(_opened(context), key))))


@journal.command()
@click.argument("key")
@click.option("--text", help="The call succeeded, and the model reads this text.")
@click.option("--json", "value", help="The call succeeded, and its value is this JSON.")
@click.option("--failed", help="The call failed, and the model reads this text.")
@click.pass_context
def settle(
    context: click.Context, key: str, text: str | None, value: str | None, failed: str | None
) -> None:
    """Record the outcome of the unknown call KEY, with one of --text, --json and --failed."""
    from functool import ToolResult
    from functool.integrations.values import json_value

    if sum(given is not None for given in (text, value, failed)) != 1:
        raise click.UsageError("Say what came of the call with one of --text, --json and --failed.")
    try:
        known = text if value is None else json_value(value)
    except ValueError as error:
        raise click.UsageError(f"--json: not JSON ({error})") from None
    result = ToolResult.of(known) if failed is None else ToolResult.failed(failed)
    with readable_errors():
        _opened(context).settle(key, result)


@journal.command()
@click.argument("key")
@click.pass_context
def reopen(context: click.Context, key: str) -> None:
    """Let the unknown call KEY run again. Use this if it had no effect."""
    with readable_errors():
        _opened(context).reopen(key)


@journal.command()
@click.option("--run", help="Only this run.")
@click.pass_context
def export(context: click.Context, run: str | None) -> None:
    """Print definitions and calls as lines of JSON, the format that `recorded` reads."""
    from functool.layers.journal_lines import lines_of

    with readable_errors():
        for line in lines_of(_opened(context).recordings(run), times=True):
            sys.stdout.write(f"{line}\n")


def _entry(journal: Journal, key: str) -> JournalEntry:
    from difflib import get_close_matches

    others: list[str] = []
    for entry in journal.each():
        if entry.key == key:
            return entry
        others.append(entry.key)
    close = get_close_matches(key, others, n=3)
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    raise click.ClickException(visible(f"there is no call {key}{hint}"))


def _form(entry: JournalEntry) -> dict[str, Any]:
    result = entry.result
    shown: dict[str, Any] | None = None
    if result is not None:
        failure = result.error
        shown = {"text": result.text, "value": result.value, "error": failure and failure.type}
    return {
        "key": entry.key,
        "run": entry.run,
        "tool": entry.tool,
        "call_id": entry.call_id,
        "state": entry.state,
        "started": entry.started.isoformat(),
        "ended": entry.ended and entry.ended.isoformat(),
        "arguments": entry.arguments,
        "result": shown,
    }
