"""Show errors in one line and findings, and tell a stopped command from a program that exits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click

from functool.integrations.visible import indented, visible, visible_line

MOST_INDENTED = 20_000_000
"""How many characters indented JSON may have. Longer JSON is printed on one line: indentation can
make the deep lists of a stranger's schema a hundred times as long."""


class Stopped(SystemExit):
    """A signal ends the command."""


def json_text(value: Any) -> str:
    """Return JSON for a person or a file: indented, unless that makes it too long."""
    return indented(value, MOST_INDENTED)


@contextmanager
def readable_errors() -> Iterator[None]:
    """Show an error in one line, without a traceback, if the user of the command can act on it."""
    from functool import FunctoolError

    _clean_logs()
    try:
        yield
    except BrokenPipeError:
        raise  # The reader of the output has closed it. click then ends without a message.
    except (FunctoolError, ImportError, OSError, ValueError) as error:
        raise click.ClickException(visible(str(error))) from None


@contextmanager
def told_exits() -> Iterator[None]:
    """Show that a tool, or its context, has ended the program, and exit with 1.

    Its own code may be 0, but there is no result.
    """
    try:
        yield
    except Stopped:
        raise
    except SystemExit as leaving:
        text = visible(f"a tool or its context ended the program (SystemExit: {leaving})")
        raise click.ClickException(text) from None


def _clean_logs() -> None:
    """Let the log show no escapes, where nobody set it up: Python writes it to standard error.

    The traceback of a tool's exception may hold a text that somebody else wrote. The MCP SDK logs
    each bad line of a server with a traceback. The commands say what came of it in a line.
    """
    import logging

    class Visible(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return visible(super().format(record))

    if logging.lastResort is not None:
        logging.lastResort.setFormatter(Visible())
    logging.getLogger("mcp.client").setLevel(logging.CRITICAL)


def show_findings(findings: Mapping[str, list[str]], as_json: bool) -> None:
    """Print the findings of `functool check` for each tool."""
    if as_json:
        click.echo(json_text(findings))
        return
    for name, found in findings.items():
        for finding in found or ["ok"]:
            click.echo(visible_line(f"{name}: {finding}"))
