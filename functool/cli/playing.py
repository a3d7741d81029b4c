"""`functool play`: the playground."""

from __future__ import annotations

import shutil
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from functool.cli.commands import TargetCommand, complete_target, header_option
from functool.cli.contexts import context_option, run_until_stopped
from functool.cli.targets import headers_of, opened
from functool.cli.telling import readable_errors
from functool.layers.own_directory import own_directory

if TYPE_CHECKING:
    from functool import Context
    from functool.layers.inbox import Inbox


@click.command(cls=TargetCommand)
@click.argument("target", shell_complete=complete_target)
@click.option("--port", type=click.IntRange(0, 65_535), default=0, help="By default any free port.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option(
    "--token",
    envvar="FUNCTOOL_PLAY_TOKEN",
    help="Your own token, for a host that others can reach. Better set FUNCTOOL_PLAY_TOKEN.",
)
@click.option(
    "--inbox",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file of an Inbox, to show the calls of other processes that wait there as well. By "
    "default the inbox of the context's approver.",
)
@click.option(
    "--journal",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    help="The file of a Journal, to show its calls in the history.",
)
@header_option
@context_option
def play(
    target: str,
    host: str,
    port: int,
    token: str | None,
    inbox: Path | None,
    journal: Path | None,
    headers: tuple[str, ...],
    context: str | None,
) -> None:
    """Show the tools of TARGET on a page, to call them and to answer requests for approval.

    The command prints an address that works once. After that the browser uses a cookie.

    \b
    functool play tools.py
    functool play tools.py --context tools.py:make_context --inbox approvals.db
    """  # noqa: D301
    with readable_errors(), ExitStack() as stack:
        sent = headers_of(headers)

        async def serve(given: Context[Any] | None) -> None:
            found = _inbox(inbox, given, stack)
            await _serve(target, sent, found, journal, given, host=host, port=port, token=token)

        run_until_stopped(context, serve, stack.close)


def _inbox(file: Path | None, context: Context[Any] | None, stack: ExitStack) -> Inbox:
    """Return the inbox of `file`, or that of the context's approver, or a new one."""
    from functool.layers.inbox import Inbox, InboxApprover

    if file is None and context is not None and isinstance(context.approver, InboxApprover):
        return context.approver.inbox
    if file is None:
        folder = own_directory("play-")
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        file = folder / "inbox.db"
    return Inbox(file)


async def _serve(
    target: str,
    headers: dict[str, str],
    inbox: Inbox,
    journal: Path | None,
    context: Context[Any] | None,
    **options: Any,
) -> None:
    from functool.play import app
    from functool.play.desk import Desk
    from functool.play.questions import asker

    kept: Any = None
    if journal is not None:
        from functool.layers.journal import Journal

        kept = Journal(journal)
    async with AsyncExitStack() as stack:
        tools = await stack.enter_async_context(
            opened(target, headers=headers, elicit=asker(inbox))
        )
        desk = Desk(tools, target, inbox, context, kept)
        await app.serve(desk, ready=click.echo, **options)
