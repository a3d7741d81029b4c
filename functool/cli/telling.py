"""Show errors of commands in one line, and tell a stopped command from a program that exits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from functool.integrations.visible import visible


class Stopped(SystemExit):
    """A signal ends the command."""


@contextmanager
def readable_errors() -> Iterator[None]:
    """Show an error in one line, without a traceback, if the user of the command can act on it."""
    from functool import FunctoolError

    try:
        yield
    except BrokenPipeError:
        raise  # The reader of the output has closed it. click then ends without a message.
    except (FunctoolError, ImportError, OSError, ValueError) as error:
        raise click.ClickException(visible(str(error))) from None
