"""`functool approvals`: answer the requests of an inbox at the terminal."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from functool.cli.telling import readable_errors
from functool.integrations.visible import indented, visible, visible_line

if TYPE_CHECKING:
    from functool import ApprovalRequest
    from functool.layers.inbox import Inbox

BRIEF = 100
"""The most characters of the arguments in a line of the list."""


@click.group()
@click.argument("file", type=click.Path(dir_okay=False, exists=True))
@click.pass_context
def approvals(ctx: click.Context, file: str) -> None:
    """Answer the calls that wait for approval in an inbox FILE.

    An ID may be shortened to its first characters.

    \b
    functool approvals inbox.db list
    functool approvals inbox.db approve 3f2a
    functool approvals inbox.db edit 3f2a             change the arguments in $EDITOR
    functool approvals inbox.db deny 3f2a --reason "not on Sundays"
    """  # noqa: D301
    from functool.layers.inbox import Inbox

    with readable_errors():
        ctx.obj = Inbox(file)


@approvals.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print whole requests, as a JSON list.")
@click.pass_obj
def list_pending(inbox: Inbox, as_json: bool) -> None:
    """List the calls that wait: id, tool, and the beginning of the arguments."""
    with readable_errors():
        if as_json:
            click.echo(indented([request.to_dict() for request in inbox.pending()]))
            return
        for request in inbox.each():
            arguments = json.dumps(request.arguments)
            brief = arguments if len(arguments) <= BRIEF else f"{arguments[:BRIEF]}…"
            # The question of a server has line ends.
            click.echo(f"{request.id}\t{visible_line(request.tool)}\t{visible(brief)}")


@approvals.command()
@click.argument("id")
@click.option("--yes", is_flag=True, help="Do not show the request and ask first.")
@click.pass_obj
def approve(inbox: Inbox, id: str, yes: bool) -> None:
    """Let a call run, after showing the whole request. A request that is too long is refused."""
    from functool.integrations.click_approval import MAX_QUESTION, request_text
    from functool.integrations.values import unreadable

    request = _request(inbox, id)
    if not yes:
        text = request_text(request)
        if why := unreadable(text, MAX_QUESTION):
            raise click.ClickException(
                f"{why}. `deny` refuses the call, `edit` opens the arguments in $EDITOR, and "
                "`approve --yes` approves them unseen"
            )
        click.echo(text, err=True)
        click.confirm("Approve?", abort=True, err=True)
    with readable_errors():
        inbox.approve(request.id)
    click.echo("approved", err=True)


@approvals.command()
@click.argument("id")
@click.option("--arguments", metavar="JSON", help="The arguments, instead of an editor; or @FILE.")
@click.pass_obj
def edit(inbox: Inbox, id: str, arguments: str | None) -> None:
    """Change the arguments of a call in $EDITOR, and let it run with them."""
    from functool.integrations.click import option_text
    from functool.integrations.click_approval import edited, read_arguments

    request = _request(inbox, id)
    if arguments is None:
        changed = edited(request)
    else:
        try:
            changed = read_arguments(option_text(arguments))
        except (OSError, ValueError) as error:
            raise click.UsageError(f"--arguments: {error}") from None
    if changed is None:
        raise click.ClickException("nothing was saved, so nothing was approved")
    with readable_errors():
        inbox.approve(request.id, changed)
    click.echo("approved with these arguments", err=True)


@approvals.command()
@click.argument("id")
@click.option("--reason", default="", help="The reason that the model reads.")
@click.pass_obj
def deny(inbox: Inbox, id: str, reason: str) -> None:
    """Refuse a call."""
    request = _request(inbox, id)
    with readable_errors():
        inbox.deny(request.id, reason)
    click.echo("refused", err=True)


def _request(inbox: Inbox, id: str) -> ApprovalRequest:
    """Return the one waiting request whose id begins with `id`."""
    with readable_errors():
        found = [each for each in inbox.each() if id and each.id.startswith(id)]
    if len(found) == 1:
        return found[0]
    how_many = "several requests wait" if found else "no request waits"
    raise click.ClickException(visible(f"{how_many} whose id begins with {id!r}: see `list`"))
